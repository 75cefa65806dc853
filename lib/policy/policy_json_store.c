/* "store" and "secret". */
#include <string.h>

#include "policy/policy_json.h"
#include "policy/warnings.h"

#define TIMEOUT_MIN_MS   1
#define TIMEOUT_MAX_MS   60000
#define MEMORY_MIN_BYTES (UINT64_C(128) << 10) /* WEIR_MEMORY_BYTES_MIN */
#define MEMORY_MAX_BYTES (UINT64_C(1) << 40)
#define PREFIX_MAX       64
#define CONNECTIONS_MAX  16
#define SERVER_NAME_MAX  253

#define DENIAL_CACHE_MAX_US (UINT64_C(60) * 1000000)

static enum weir_code read_timeout(struct weir_reader *reader, const struct weir_place *place,
                                   void *into)
{
    (void)into;
    static const char *const wanted = "a duration from \"1ms\" to \"60s\", such as \"20ms\"";
    struct weir_text text;
    uint64_t duration_us;
    enum weir_code code = weir_read_text(reader, place, wanted, &text);
    if (code != WEIR_OK)
        return code;
    if (!weir_duration_parse(text, &duration_us) || duration_us < TIMEOUT_MIN_MS * 1000
        || duration_us > TIMEOUT_MAX_MS * 1000)
        return weir_refuse_value(reader, place, wanted);
    reader->policy->store_timeout_ms = (uint32_t)(duration_us / 1000);
    return WEIR_OK;
}

/* Braces would move a key to another slot of a Redis cluster. */
static bool is_prefix(struct weir_text text)
{
    for (size_t i = 0; i < text.length; i++)
        if (!weir_is_token_char(text.at[i]) && strchr(":/", text.at[i]) == NULL)
            return false;
    return text.length <= PREFIX_MAX;
}

static enum weir_code read_prefix(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    (void)into;
    static const char *const wanted = "1 to 64 letters, digits or marks, without braces, quotes "
                                      "and blanks, such as \"weir\"";
    struct weir_text text;
    enum weir_code code = weir_read_text(reader, place, wanted, &text);
    if (code == WEIR_OK && !is_prefix(text))
        return weir_refuse_value(reader, place, wanted);
    return code == WEIR_OK ? weir_keep_text(reader, text, &reader->policy->store_prefix) : code;
}

static enum weir_code read_memory(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    (void)into;
    static const char *const wanted = "a size from \"128KiB\" to \"1TiB\", such as \"64MiB\"";
    struct weir_text text;
    uint64_t bytes;
    enum weir_code code = weir_read_text(reader, place, wanted, &text);
    if (code != WEIR_OK)
        return code;
    if (!weir_bytes_parse(text, &bytes) || bytes < MEMORY_MIN_BYTES || bytes > MEMORY_MAX_BYTES)
        return weir_refuse_value(reader, place, wanted);
    reader->policy->store_memory_bytes = bytes;
    return WEIR_OK;
}

static enum weir_code read_connections(struct weir_reader *reader, const struct weir_place *place,
                                       void *into)
{
    (void)into;
    uint64_t count = 0;
    enum weir_code code = weir_read_integer(reader, place, 1, CONNECTIONS_MAX, &count);
    reader->policy->store_connections = (unsigned)count;
    return code;
}

/* Longer, and a client whom another process forgives would wait for nothing. */
static enum weir_code read_denial_cache(struct weir_reader *reader, const struct weir_place *place,
                                        void *into)
{
    (void)into;
    static const char *const wanted =
        "\"0s\" to ask the store about each request, or a duration up to \"1m\", such as \"1s\"";
    struct weir_text text;
    uint64_t duration_us;
    enum weir_code code = weir_read_text(reader, place, wanted, &text);
    if (code != WEIR_OK)
        return code;
    if (!weir_duration_parse(text, &duration_us) || duration_us > DENIAL_CACHE_MAX_US)
        return weir_refuse_value(reader, place, wanted);
    reader->policy->denial_cache_us = duration_us;
    return WEIR_OK;
}

/* "tls" */

/* Into a const char pointer. The store opens the file. */
static enum weir_code read_file_name(struct weir_reader *reader, const struct weir_place *place,
                                     void *into)
{
    struct weir_text name;
    enum weir_code code =
        weir_read_text(reader, place, "the name of a file such as \"redis-ca.pem\"", &name);
    return code == WEIR_OK ? weir_keep_file_name(reader, name, into) : code;
}

static bool is_server_name(struct weir_text name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789.-_:";
    for (size_t i = 0; i < name.length; i++)
        if (strchr(allowed, weir_fold_char(name.at[i])) == NULL)
            return false;
    return name.length <= SERVER_NAME_MAX;
}

static enum weir_code read_server_name(struct weir_reader *reader, const struct weir_place *place,
                                       void *into)
{
    (void)into;
    static const char *const wanted = "a name or address that is in the servers' certificates, "
                                      "such as \"redis.example\"";
    struct weir_text name;
    enum weir_code code = weir_read_text(reader, place, wanted, &name);
    if (code == WEIR_OK && !is_server_name(name))
        return weir_refuse_value(reader, place, wanted);
    return code == WEIR_OK ? weir_keep_text(reader, name, &reader->policy->store_tls.server_name)
                           : code;
}

static enum weir_code read_ca_file(struct weir_reader *reader, const struct weir_place *place,
                                   void *into)
{
    (void)into;
    return read_file_name(reader, place, &reader->policy->store_tls.ca_file);
}

static enum weir_code read_cert_file(struct weir_reader *reader, const struct weir_place *place,
                                     void *into)
{
    (void)into;
    return read_file_name(reader, place, &reader->policy->store_tls.cert_file);
}

static enum weir_code read_key_file(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    (void)into;
    return read_file_name(reader, place, &reader->policy->store_tls.key_file);
}

static enum weir_code read_tls(struct weir_reader *reader, const struct weir_place *place,
                               void *into)
{
    static const struct weir_member members[] = {
        { "ca_file", read_ca_file, false },
        { "cert_file", read_cert_file, false },
        { "key_file", read_key_file, false },
        { "server_name", read_server_name, false },
    };
    return weir_read_members(reader, place, members, WEIR_COUNT_OF(members), into);
}

enum weir_code weir_read_store(struct weir_reader *reader, const struct weir_place *place,
                               void *into)
{
    static const struct weir_member members[] = {
        { "url", weir_read_store_url, false },
        { "timeout", read_timeout, false },
        { "prefix", read_prefix, false },
        { "memory", read_memory, false },
        { "connections", read_connections, false },
        { "tls", read_tls, false },
        { "denial_cache", read_denial_cache, false },
    };
    return weir_read_members(reader, place, members, WEIR_COUNT_OF(members), into);
}

/* "secret" */

static enum weir_code keep_secret(const struct weir_reader *reader, const struct weir_place *place,
                                  struct weir_text secret)
{
    if (secret.length == 0)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The secret is empty; wanted are some bytes that nobody can guess.");
    if (weir_text_equal(secret, WEIR_TEXT(WEIR_MASK)))
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The secret is \"" WEIR_MASK "\", as one is shown; wanted is the secret "
                           "itself, such as \"${WEIR_SECRET}\".");
    weir_secret_from(secret, reader->policy->secret);
    return weir_warn_of_secret(reader->policy, secret.length, reader->error);
}

/* Does not show what it finds. */
enum weir_code weir_read_secret(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    (void)into;
    if (!json_is_string(place->value))
        return weir_refuse(reader, place, WEIR_E_TYPE,
                           "The secret is no string; wanted is a text such as \"${WEIR_SECRET}\".");

    char memory[WEIR_EXPANDED_MAX];
    struct weir_buffer secret = weir_buffer_init(memory, sizeof memory);
    struct weir_text source = weir_text_from(json_string_value(place->value));
    const struct weir_escaped escaped = { NULL, NULL };
    enum weir_code code = weir_expand(reader, place, source, &escaped, &secret);
    if (code == WEIR_OK)
        code = keep_secret(reader, place, weir_buffer_text(&secret));
    explicit_bzero(memory, sizeof memory);
    return code;
}
