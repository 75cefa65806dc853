/* What a link says first, and what must be answered before checks go over it. */
#include <string.h>

#include "store/redis_internal.h"

void weir_link_greet_with(struct weir_redis_link *link, const struct weir_text *arguments,
                          size_t count, enum weir_redis_kind kind)
{
    if (weir_redis_ask(link, arguments, count, kind))
        link->greetings_left++;
    else
        weir_link_lose(link, "out of memory");
}

static void ask_auth(struct weir_redis_link *link)
{
    struct weir_text arguments[3] = { WEIR_TEXT("AUTH") };
    size_t count = 1;
    if (link->login->user[0] != '\0')
        arguments[count++] = weir_text_from(link->login->user);
    arguments[count++] = weir_text_from(link->login->password);
    weir_link_greet_with(link, arguments, count, WEIR_REDIS_AUTH);
}

static void ask_select(struct weir_redis_link *link)
{
    char digits[16];
    snprintf(digits, sizeof digits, "%u", link->redis->url.database);
    weir_link_greet_with(link, (struct weir_text[]){ WEIR_TEXT("SELECT"), weir_text_from(digits) },
                         2, WEIR_REDIS_SELECT);
}

static void ask_script(struct weir_redis_link *link)
{
    const struct weir_redis_script *script = weir_redis_first_script(link->redis);
    if (script != NULL && weir_link_load(link, script, WEIR_REDIS_SCRIPT))
        link->greetings_left++;
    else
        weir_link_lose(link, "out of memory");
}

static void ping(struct weir_redis_link *link, uint64_t now_us)
{
    /* A server that takes longer for this than a check may take is no use. */
    uint64_t timeout_us = link->redis->timeout_us;
    bool is_strict = link->role == WEIR_LINK_CHECKS && timeout_us < WEIR_REDIS_TRY_US;
    link->stage = WEIR_LINK_PINGING;
    link->stage_until_us = now_us + (is_strict ? timeout_us : WEIR_REDIS_TRY_US);
    if (!weir_redis_ask(link, (struct weir_text[]){ WEIR_TEXT("PING") }, 1, WEIR_REDIS_PING))
        weir_link_lose(link, "out of memory");
    else
        weir_link_flush(link);
}

void weir_link_greet(struct weir_redis_link *link, uint64_t now_us)
{
    const struct weir_redis_topology_type *topology = link->redis->topology;
    bool takes_checks = link->role == WEIR_LINK_CHECKS;
    link->stage = WEIR_LINK_GREETING;
    link->greetings_left = 0;
    if (link->login->password[0] != '\0')
        ask_auth(link);
    if (takes_checks && link->redis->url.database > 0)
        ask_select(link);
    if (topology->greet != NULL)
        topology->greet(link);
    if (takes_checks)
        ask_script(link);
    if (link->was_lost)
        return;
    if (link->greetings_left == 0)
        ping(link, now_us);
    else
        weir_link_flush(link);
}

/* Redis may repeat the arguments of what it does not understand, so of its text only the first word
 * goes into the log. */
static void refuse_auth(struct weir_redis_link *link, const char *text)
{
    char why[40];
    bool has_no_password = strncmp(text, "ERR AUTH <password> called", 26) == 0;
    snprintf(why, sizeof why, "%.*s", (int)strcspn(text, " "), text);
    weir_link_refuse(link, "AUTH refused: ", has_no_password ? "that server has no password" : why);
}

/* A Sentinel takes a password, but neither a database nor scripts. */
static void refuse_command(struct weir_redis_link *link, const char *what, const char *text)
{
    bool is_unknown = strncmp(text, "ERR unknown command", 19) == 0;
    weir_link_refuse(link, what,
                     is_unknown ? "unknown command; if it is a Sentinel, use redis+sentinel://"
                                : text);
}

static void on_script(struct weir_redis_link *link, const redisReply *reply, const char *text)
{
    struct weir_redis_script *script = weir_redis_first_script(link->redis);
    if (script == NULL)
        weir_link_lose(link, "out of memory");
    else if (!weir_redis_read_hash(reply, script->hash))
        refuse_command(link, "", text);
}

static void on_pong(struct weir_redis_link *link, const redisReply *reply, const char *text)
{
    if (reply->type != REDIS_REPLY_STATUS) {
        weir_link_refuse(link, "PING refused: ", text);
        return;
    }
    link->stage = WEIR_LINK_OPEN;
    weir_link_on_open(link);
}

void weir_link_on_greeting(struct weir_redis_link *link, enum weir_redis_kind kind,
                           const redisReply *reply, uint64_t now_us)
{
    char text[WEIR_REDIS_WHY_CHARS];
    weir_redis_read_error(reply, text, sizeof text);
    bool is_status = reply->type == REDIS_REPLY_STATUS;
    if (kind == WEIR_REDIS_PING) {
        on_pong(link, reply, text);
        return;
    }
    if (kind == WEIR_REDIS_AUTH && !is_status)
        refuse_auth(link, text);
    else if (kind == WEIR_REDIS_SELECT && !is_status)
        refuse_command(link, "SELECT refused: ", text);
    else if (kind == WEIR_REDIS_ROLE)
        link->redis->topology->on_reply(link, kind, reply, now_us);
    else if (kind == WEIR_REDIS_SCRIPT)
        on_script(link, reply, text);
    if (--link->greetings_left == 0 && !link->was_lost)
        ping(link, now_us);
}
