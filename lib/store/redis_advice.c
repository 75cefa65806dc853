#include "store/redis_advice.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "store/redis_pieces.h"

#define SECOND_US UINT64_C(1000000)

/* More than any of the words that are taken from a reply has: an address, a policy, a version. */
#define WORD_CHARS 64

/* So many errors are read from one reply, more than there are commands. */
#define COMMANDS_MAX 16

enum weir_code weir_advice_code(enum weir_advice advice)
{
    switch (advice) {
    case WEIR_ADVICE_VERSION:
        return WEIR_W_REDIS_VERSION;
    case WEIR_ADVICE_REPLICA:
        return WEIR_W_REDIS_REPLICA;
    case WEIR_ADVICE_CLUSTER:
        return WEIR_W_REDIS_CLUSTER;
    case WEIR_ADVICE_EVICTION:
        return WEIR_W_REDIS_EVICTION;
    case WEIR_ADVICE_CLOCK:
        return WEIR_W_REDIS_CLOCK;
    case WEIR_ADVICE_COMMANDS:
    case WEIR_ADVICE_CALLS:
        return WEIR_W_REDIS_COMMANDS;
    case WEIR_ADVICE_KEYS:
        return WEIR_W_REDIS_KEYS;
    case WEIR_ADVICE_UNTOLD:
    case WEIR_ADVICE_COUNT:
        break;
    }
    return WEIR_W_REDIS_UNTOLD;
}

/* words for a log line */

static bool is_word_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')
           || (c != '\0' && strchr("-._:/@", c) != NULL);
}

static void put_word(struct weir_buffer *out, struct weir_text word)
{
    for (size_t i = 0; i < word.length && i < WORD_CHARS; i++)
        weir_buffer_put_char(out, is_word_char(word.at[i]) ? word.at[i] : '?');
}

static const char *shown_user(const char *user)
{
    return user[0] == '\0' ? "default" : user;
}

/* "WHAT: ACL SETUSER USER ", for the right that follows. */
static void put_grant(struct weir_buffer *out, const char *what, const char *user)
{
    weir_buffer_put_string(out, what);
    weir_buffer_put_string(out, ": ACL SETUSER ");
    put_word(out, weir_text_from(shown_user(user)));
    weir_buffer_put_char(out, ' ');
}

static enum weir_advice_finding say(char text[WEIR_ADVICE_BYTES], const struct weir_buffer *out)
{
    text[out->length] = '\0'; /* `out` writes there */
    return WEIR_ADVICE_HOLDS;
}

/* INFO */

/* What stands behind "name:" in a line of its own; none if there is no such line. */
static struct weir_text find_field(const struct redisReply *reply, const char *name)
{
    const struct weir_text none = { NULL, 0 };
    if (reply == NULL || reply->type != REDIS_REPLY_STRING)
        return none;
    struct weir_text rest = { reply->str, (size_t)reply->len }, line;
    struct weir_text wanted = weir_text_from(name);
    while (weir_text_take_first(&rest, '\n', &line)) {
        if (line.length > 0 && line.at[line.length - 1] == '\r')
            line.length--;
        if (weir_text_starts_with(line, wanted) && line.length > wanted.length
            && line.at[wanted.length] == ':')
            return (struct weir_text){ line.at + wanted.length + 1,
                                       line.length - wanted.length - 1 };
    }
    return none;
}

enum weir_advice_finding weir_advice_read_version(const struct redisReply *reply,
                                                  char text[WEIR_ADVICE_BYTES])
{
    /* Valkey and others say which Redis they are like in the same place. */
    struct weir_text version = find_field(reply, "redis_version"), rest = version, major;
    uint64_t number;
    if (version.at == NULL || !weir_text_take_first(&rest, '.', &major)
        || !weir_text_to_number(major, &number))
        return WEIR_ADVICE_UNKNOWN;
    if (number >= WEIR_REDIS_MAJOR_MIN)
        return WEIR_ADVICE_FINE;
    struct weir_buffer out = weir_buffer_init(text, WEIR_ADVICE_BYTES);
    weir_buffer_put_string(&out, "is version ");
    put_word(&out, version);
    weir_buffer_put_string(&out, ", which refuses scripts that read the clock and write: install ");
    weir_buffer_put_number(&out, WEIR_REDIS_MAJOR_MIN);
    weir_buffer_put_string(&out, ".0 or newer.");
    return say(text, &out);
}

enum weir_advice_finding weir_advice_of_slots(char text[WEIR_ADVICE_BYTES])
{
    struct weir_buffer out = weir_buffer_init(text, WEIR_ADVICE_BYTES);
    weir_buffer_put_string(&out,
                           "is a node of a cluster, and refuses the keys that other nodes have: "
                           "write redis+cluster:// in the store's \"url\".");
    return say(text, &out);
}

enum weir_advice_finding weir_advice_read_mode(const struct redisReply *reply,
                                               char text[WEIR_ADVICE_BYTES])
{
    struct weir_text mode = find_field(reply, "redis_mode");
    if (mode.at == NULL)
        return WEIR_ADVICE_UNKNOWN;
    return weir_text_equal(mode, WEIR_TEXT("cluster")) ? weir_advice_of_slots(text)
                                                       : WEIR_ADVICE_FINE;
}

enum weir_advice_finding weir_advice_read_role(const struct redisReply *reply,
                                               char text[WEIR_ADVICE_BYTES])
{
    struct weir_text role = find_field(reply, "role");
    if (role.at == NULL)
        return WEIR_ADVICE_UNKNOWN;
    if (!weir_text_equal(role, WEIR_TEXT("slave")) && !weir_text_equal(role, WEIR_TEXT("replica")))
        return WEIR_ADVICE_FINE;
    struct weir_buffer out = weir_buffer_init(text, WEIR_ADVICE_BYTES);
    weir_buffer_put_string(&out, "is a replica of ");
    put_word(&out, find_field(reply, "master_host"));
    weir_buffer_put_string(&out, " port ");
    put_word(&out, find_field(reply, "master_port"));
    weir_buffer_put_string(&out, ", and refuses what is to be counted, or loses it: put its master "
                                 "into the store's \"url\", or Sentinels that know who it is.");
    return say(text, &out);
}

enum weir_advice_finding weir_advice_read_eviction(const struct redisReply *reply,
                                                   char text[WEIR_ADVICE_BYTES])
{
    struct weir_text policy = find_field(reply, "maxmemory_policy");
    if (policy.at == NULL)
        return WEIR_ADVICE_UNKNOWN;
    /* All keys of ours expire, so that "volatile-" ones may be dropped like any. */
    if (weir_text_equal(policy, WEIR_TEXT("noeviction"))
        || weir_text_equal(find_field(reply, "maxmemory"), WEIR_TEXT("0")))
        return WEIR_ADVICE_FINE;
    struct weir_buffer out = weir_buffer_init(text, WEIR_ADVICE_BYTES);
    weir_buffer_put_string(&out, "drops keys when its memory is full (maxmemory-policy is ");
    put_word(&out, policy);
    weir_buffer_put_string(&out,
                           "), and a client whose key is dropped starts afresh; give limits a "
                           "Redis of their own, or: CONFIG SET maxmemory-policy noeviction");
    return say(text, &out);
}

static bool is_error(const struct redisReply *reply, const char *start)
{
    return reply != NULL && reply->type == REDIS_REPLY_ERROR && reply->str != NULL
           && strncmp(reply->str, start, strlen(start)) == 0;
}

enum weir_advice_finding weir_advice_read_untold(const struct redisReply *reply, const char *user,
                                                 char text[WEIR_ADVICE_BYTES])
{
    bool is_forbidden = is_error(reply, "NOPERM");
    if (!is_forbidden && !is_error(reply, "ERR unknown command"))
        return reply != NULL && reply->type == REDIS_REPLY_STRING ? WEIR_ADVICE_FINE
                                                                  : WEIR_ADVICE_UNKNOWN;
    struct weir_buffer out = weir_buffer_init(text, WEIR_ADVICE_BYTES);
    weir_buffer_put_string(&out,
                           "does not answer INFO, so its version, role and eviction policy are "
                           "yours to look at");
    if (is_forbidden) {
        put_grant(&out, ", or", user);
        weir_buffer_put_string(&out, "+info");
    }
    return say(text, &out);
}

/* TIME */

static bool read_number(const struct redisReply *item, uint64_t most, uint64_t *number)
{
    return item != NULL && item->type == REDIS_REPLY_STRING
           && weir_text_to_number((struct weir_text){ item->str, (size_t)item->len }, number)
           && *number <= most;
}

static bool read_time(const struct redisReply *reply, uint64_t *time_us)
{
    uint64_t seconds, rest_us;
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2
        || !read_number(reply->element[0], UINT64_MAX / SECOND_US - 1, &seconds)
        || !read_number(reply->element[1], SECOND_US - 1, &rest_us))
        return false;
    *time_us = seconds * SECOND_US + rest_us;
    return true;
}

enum weir_advice_finding weir_advice_read_clock(const struct redisReply *reply, uint64_t sent_us,
                                                uint64_t took_us, char text[WEIR_ADVICE_BYTES])
{
    uint64_t redis_us;
    if (!read_time(reply, &redis_us))
        return WEIR_ADVICE_UNKNOWN;
    uint64_t middle_us = sent_us + took_us / 2;
    bool is_ahead = redis_us > middle_us;
    uint64_t off_us = is_ahead ? redis_us - middle_us : middle_us - redis_us;
    if (off_us <= WEIR_REDIS_CLOCK_OFF_MAX_US + took_us / 2)
        return WEIR_ADVICE_FINE;
    struct weir_buffer out = weir_buffer_init(text, WEIR_ADVICE_BYTES);
    weir_buffer_put_string(&out, "has a clock that is ");
    weir_buffer_put_number(&out, off_us / SECOND_US);
    weir_buffer_put_char(&out, '.');
    weir_buffer_put_number(&out, off_us % SECOND_US / 100000);
    weir_buffer_put_string(&out,
                           is_ahead ? " s ahead of this machine's" : " s behind this machine's");
    weir_buffer_put_string(&out, ", and limits follow Redis's: let both machines follow NTP "
                                 "(\"timedatectl\" shows whether one does).");
    return say(text, &out);
}

/* commands and keys */

struct weir_text weir_advice_script(void)
{
    return weir_text_from(weir_lua_advice_try);
}

/* The texts are those of Redis 5 to 8 and Valkey 8. */
static bool has_any(const char *text, const char *const *parts)
{
    for (; *parts != NULL; parts++)
        if (strstr(text, *parts) != NULL)
            return true;
    return false;
}

static bool is_command_forbidden(const char *error)
{
    static const char *const parts[] = { "can't run this command", "no permissions to run", NULL };
    return has_any(error, parts);
}

static bool is_command_unknown(const char *error)
{
    static const char *const parts[] = { "Unknown Redis command", "Unknown command", NULL };
    return has_any(error, parts);
}

static bool is_key_forbidden(const char *error)
{
    static const char *const parts[] = { "one of the keys", "permissions to access a key",
                                         "permissions to access the '", NULL };
    return has_any(error, parts);
}

#define FORBIDS_COMMANDS "forbids commands without which nothing can be counted"

/* The commands whose error `wanted` knows, each behind `mark`, in lower case. */
static size_t list_commands(const struct redisReply *reply, bool (*wanted)(const char *error),
                            const char *mark, struct weir_buffer *out)
{
    size_t count = 0;
    for (size_t i = 0; i < reply->elements && i < COMMANDS_MAX; i++) {
        const struct redisReply *item = reply->element[i];
        if (item == NULL || item->type != REDIS_REPLY_STRING || !wanted(item->str))
            continue;
        weir_buffer_put_string(out, count++ == 0 ? "" : " ");
        weir_buffer_put_string(out, mark);
        for (size_t at = 0; at < 16 && item->str[at] >= 'A' && item->str[at] <= 'Z'; at++)
            weir_buffer_put_char(out, weir_fold_char(item->str[at]));
    }
    return count;
}

/* "… no permissions to run the 'eval' command": it could not even be tried. */
static enum weir_advice_finding read_call(const char *error, const char *user,
                                          char text[WEIR_ADVICE_BYTES])
{
    static const char before[] = "no permissions to run the '";
    const char *name = strstr(error, before);
    if (name == NULL)
        return WEIR_ADVICE_UNKNOWN;
    struct weir_buffer out = weir_buffer_init(text, WEIR_ADVICE_BYTES);
    put_grant(&out, FORBIDS_COMMANDS, user);
    weir_buffer_put_char(&out, '+');
    name += sizeof before - 1;
    put_word(&out, (struct weir_text){ name, strcspn(name, "'") });
    return say(text, &out);
}

enum weir_advice_finding weir_advice_read_commands(const struct redisReply *reply, const char *user,
                                                   char text[WEIR_ADVICE_BYTES])
{
    if (is_error(reply, "NOPERM"))
        return read_call(reply->str, user, text);
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY)
        return WEIR_ADVICE_UNKNOWN;
    struct weir_buffer out = weir_buffer_init(text, WEIR_ADVICE_BYTES);
    char memory[COMMANDS_MAX * 20];
    struct weir_buffer names = weir_buffer_init(memory, sizeof memory);
    if (list_commands(reply, is_command_forbidden, "+", &names) > 0)
        put_grant(&out, FORBIDS_COMMANDS, user);
    else if (list_commands(reply, is_command_unknown, "", &names) > 0)
        weir_buffer_put_string(&out, "does not know commands without which nothing can be counted; "
                                     "look for rename-command in its configuration: ");
    else
        return WEIR_ADVICE_FINE;
    weir_buffer_put_string(&out, weir_buffer_string(&names));
    return say(text, &out);
}

/* "weir:" of "weir:{…": what follows says who the client is. */
static struct weir_text prefix_of(struct weir_text key)
{
    struct weir_text prefix = { key.at, 0 };
    while (prefix.length < key.length && prefix.length < WORD_CHARS
           && is_word_char(key.at[prefix.length]))
        prefix.length++;
    return prefix.length > 0 ? prefix : WEIR_TEXT("PREFIX:");
}

enum weir_advice_finding weir_advice_read_refusal(const char *why, const char *user,
                                                  struct weir_text key, enum weir_advice *advice,
                                                  char text[WEIR_ADVICE_BYTES])
{
    *advice = WEIR_ADVICE_CALLS;
    if (!is_key_forbidden(why))
        return read_call(why, user, text);
    *advice = WEIR_ADVICE_KEYS;
    struct weir_buffer out = weir_buffer_init(text, WEIR_ADVICE_BYTES);
    put_grant(&out, "forbids the keys in which limits are kept", user);
    weir_buffer_put_char(&out, '~');
    put_word(&out, prefix_of(key));
    weir_buffer_put_char(&out, '*');
    return say(text, &out);
}

/* what was said */

static unsigned *page_of(struct weir_advice_book *book, const char *server)
{
    uint64_t hash = weir_text_fnv(weir_text_from(server));
    for (size_t i = 0; i < book->count; i++)
        if (book->pages[i].server == hash)
            return &book->pages[i].said;
    size_t at = book->count;
    if (at < WEIR_ADVICE_SERVERS_MAX)
        book->count++;
    else
        at = book->oldest++ % WEIR_ADVICE_SERVERS_MAX;
    book->pages[at].server = hash;
    book->pages[at].said = 0;
    return &book->pages[at].said;
}

bool weir_advice_note(struct weir_advice_book *book, const char *server, enum weir_advice advice,
                      enum weir_advice_finding finding)
{
    if (finding == WEIR_ADVICE_UNKNOWN)
        return false;
    unsigned *said = page_of(book, server), bit = 1u << advice;
    bool was_said = (*said & bit) != 0;
    *said = finding == WEIR_ADVICE_HOLDS ? *said | bit : *said & ~bit;
    return finding == WEIR_ADVICE_HOLDS && !was_said;
}
