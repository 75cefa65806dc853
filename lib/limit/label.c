#include "limit/label.h"

#include <string.h>

#include "limit/subject.h"

#define SHOWN_OF_HASH 10

/* the subject in a key */

/* Takes `start` off the front; false: something else stands there. */
static bool skip(struct weir_text *text, struct weir_text start)
{
    if (!weir_text_starts_with(*text, start))
        return false;
    text->at += start.length;
    text->length -= start.length;
    return true;
}

static struct weir_text cut_at(struct weir_text text, char end)
{
    const char *found = text.length == 0 ? NULL : memchr(text.at, end, text.length);
    if (found == NULL)
        return (struct weir_text){ NULL, 0 };
    return (struct weir_text){ text.at, (size_t)(found - text.at) };
}

/* Behind "prefix:{policy}:policy" stands "::subject:limit:…" where limits share their subject, and
 * ":limit:algorithm:subject" where one stands alone; no name has a colon in it, and a subject may. */
static struct weir_text find_behind(struct weir_text rest, size_t shared_length)
{
    static const struct weir_text none = { NULL, 0 };
    if (shared_length > 0)
        return skip(&rest, WEIR_TEXT("::")) && shared_length > 2
                   ? (struct weir_text){ rest.at, shared_length - 3 }
                   : none;
    if (!skip(&rest, WEIR_TEXT(":")))
        return none;
    for (int i = 0; i < 2; i++) {
        struct weir_text name = cut_at(rest, ':');
        if (name.at == NULL)
            return none;
        rest.at += name.length + 1;
        rest.length -= name.length + 1;
    }
    return rest;
}

struct weir_text weir_subject_of_key(const struct weir_spend *spend,
                                     const struct weir_policy *policy,
                                     const struct weir_ruleset *ruleset)
{
    static const struct weir_text none = { NULL, 0 };
    const struct weir_text name = weir_text_from(ruleset->name);
    struct weir_text rest = { spend->key, spend->key_length };
    if (!skip(&rest, weir_text_from(policy->store_prefix)) || !skip(&rest, WEIR_TEXT(":{")))
        return none;
    if (ruleset->slot_is_identity)
        return cut_at(rest, '}');
    if (!skip(&rest, name) || !skip(&rest, WEIR_TEXT("}:")) || !skip(&rest, name))
        return none;
    size_t before = spend->key_length - rest.length;
    return find_behind(rest, spend->group_length > before ? spend->group_length - before : 0);
}

/* labels */

struct dimension {
    const char *name;
    enum { PLAIN, HASHED, NAMED } kind; /* NAMED: begins like that, and is hashed */
};

static bool is_hashed(struct weir_text dimension)
{
    static const struct dimension dimensions[] = {
        { "user", HASHED },  { "device", HASHED }, { "long", HASHED },  { "header:", NAMED },
        { "param:", NAMED }, { "query:", NAMED },  { "field:", NAMED },
    };
    for (size_t i = 0; i < sizeof dimensions / sizeof dimensions[0]; i++) {
        struct weir_text name = weir_text_from(dimensions[i].name);
        if (dimensions[i].kind == NAMED ? weir_text_starts_with(dimension, name)
                                        : weir_text_equal(dimension, name))
            return true;
    }
    return false;
}

/* Who reads a log on a terminal is safe from what names do to it. */
static void put_printable(struct weir_buffer *label, struct weir_text text)
{
    while (text.length > 0) {
        size_t length = weir_utf8_length(text);
        if (length == 0 || weir_is_control(text.at, length))
            weir_buffer_put_char(label, '?');
        else
            weir_buffer_put(label, (struct weir_text){ text.at, length });
        length = length == 0 ? 1 : length;
        text.at += length;
        text.length -= length;
    }
}

static void put_hashed(struct weir_buffer *label, struct weir_text dimension, struct weir_text hash)
{
    put_printable(label, dimension);
    weir_buffer_put_char(label, '#');
    put_printable(label, (struct weir_text){
                             hash.at, hash.length < SHOWN_OF_HASH ? hash.length : SHOWN_OF_HASH });
}

static void put_plain(struct weir_buffer *label, struct weir_text dimension, struct weir_text value)
{
    put_printable(label, dimension);
    weir_buffer_put_char(label, ':');
    put_printable(label, value);
}

/* The user that belongs to the key, as the keys file has it; at NULL: the application has named it. */
static struct weir_text user_of_keys_file(const struct weir_identity *who)
{
    if (who == NULL || who->api_key == NULL)
        return (struct weir_text){ NULL, 0 };
    struct weir_text user = weir_text_from(who->api_key->user);
    return user.length > 0 && weir_text_equal(user, who->user) ? user
                                                               : (struct weir_text){ NULL, 0 };
}

static void put_part(struct weir_buffer *label, struct weir_text part,
                     const struct weir_identity *who)
{
    struct weir_text dimension = cut_at(part, '=');
    if (dimension.at == NULL) {
        put_printable(label, part);
        return;
    }
    const struct weir_text value = { part.at + dimension.length + 1,
                                     part.length - dimension.length - 1 };
    const struct weir_text user = user_of_keys_file(who);
    if (weir_text_equal(dimension, WEIR_TEXT("global")))
        put_printable(label, dimension);
    else if (weir_text_equal(dimension, WEIR_TEXT("user")) && user.at != NULL)
        put_plain(label, dimension, user);
    else if (is_hashed(dimension))
        put_hashed(label, dimension, value);
    else
        put_plain(label, dimension, value);
}

/* A label is written into all but the end of its memory, where "..." has room. */
static struct weir_buffer begin_label(char label[WEIR_KEY_LABEL_CHARS])
{
    return weir_buffer_init(label, WEIR_KEY_LABEL_CHARS - 3);
}

static void end_label(const struct weir_buffer *label)
{
    strcpy(label->at + label->length, label->full ? "..." : "");
}

void weir_subject_label(struct weir_text subject, const struct weir_identity *who,
                        char label[WEIR_KEY_LABEL_CHARS])
{
    struct weir_buffer buffer = begin_label(label);
    struct weir_text part;
    bool is_first = true;
    while (subject.at != NULL && weir_text_take_first(&subject, '&', &part)) {
        if (!is_first)
            weir_buffer_put_string(&buffer, " + ");
        put_part(&buffer, part, who);
        is_first = false;
    }
    end_label(&buffer);
}

/* clients */

/* The first byte of a client; its value follows, or the hash of one that is too long. */
enum client_kind { BY_KEY, BY_USER, BY_TENANT, BY_NETWORK };
#define IS_HASH 0x80u

static void set_client(struct weir_client *client, enum client_kind kind, struct weir_text value,
                       const struct weir_policy *policy)
{
    char hash[WEIR_LABEL_CHARS + 1];
    bool is_long = value.length >= WEIR_CLIENT_MAX;
    if (is_long) {
        weir_label(value, policy->secret, hash);
        value = (struct weir_text){ hash, WEIR_LABEL_CHARS };
    }
    client->bytes[0] = (unsigned char)(kind | (is_long ? IS_HASH : 0u));
    memcpy(client->bytes + 1, value.at, value.length);
    client->length = (unsigned char)(value.length + 1);
}

static void set_network(struct weir_client *client, const struct weir_network *network)
{
    size_t length = network->address.family == WEIR_IPV4 ? 4 : 16;
    client->bytes[0] = BY_NETWORK;
    client->bytes[1] = (unsigned char)network->prefix;
    memcpy(client->bytes + 2, network->address.bytes, length);
    client->length = (unsigned char)(length + 2);
}

void weir_client_of(const struct weir_identity *who, const struct weir_policy *policy,
                    struct weir_client *client)
{
    client->length = 0;
    if (who->api_key != NULL)
        set_client(client, BY_KEY, weir_text_from(who->api_key->id), policy);
    else if (who->user.length > 0)
        set_client(client, BY_USER, who->user, policy);
    else if (who->tenant.length > 0)
        set_client(client, BY_TENANT, who->tenant, policy);
    else if (who->client.family != WEIR_NO_ADDRESS)
        set_network(client, &who->network);
}

static void put_network(struct weir_buffer *label, struct weir_text bytes)
{
    char text[WEIR_NETWORK_CHARS];
    struct weir_network network = { .prefix = (unsigned char)bytes.at[0] };
    network.address.family = bytes.length == 5 ? WEIR_IPV4 : WEIR_IPV6;
    memcpy(network.address.bytes, bytes.at + 1, bytes.length - 1);
    weir_network_print(&network, text);
    put_plain(label, WEIR_TEXT("ip"), weir_text_from(text));
}

static void put_client(struct weir_buffer *label, const struct weir_client *client,
                       const struct weir_policy *policy)
{
    static const char *const names[] = { "api_key", "user", "tenant" };
    char hash[WEIR_LABEL_CHARS + 1];
    const struct weir_text value = { (const char *)client->bytes + 1, client->length - 1u };
    unsigned kind = client->bytes[0] & ~IS_HASH;
    if (kind == BY_NETWORK) {
        put_network(label, value);
        return;
    }
    const struct weir_text name = weir_text_from(names[kind]);
    if ((client->bytes[0] & IS_HASH) != 0) {
        put_hashed(label, name, value);
    } else if (kind == BY_KEY || (kind == BY_TENANT && weir_is_public_id(value))) {
        put_plain(label, name, value);
    } else {
        weir_label(value, policy->secret, hash);
        put_hashed(label, name, weir_text_from(hash));
    }
}

void weir_client_label(const struct weir_client *client, const struct weir_policy *policy,
                       char label[WEIR_KEY_LABEL_CHARS])
{
    struct weir_buffer buffer = begin_label(label);
    if (client->length > 0)
        put_client(&buffer, client, policy);
    end_label(&buffer);
}
