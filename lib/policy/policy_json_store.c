/* "store" and "secret": the two values that may come from the environment. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "policy/policy_json.h"

#define TIMEOUT_MIN_MS   1
#define TIMEOUT_MAX_MS   60000
#define MEMORY_MIN_BYTES (UINT64_C(64) << 10)
#define MEMORY_MAX_BYTES (UINT64_C(1) << 40)
#define PREFIX_MAX       64
#define EXPANDED_MAX     ((size_t)4096)

/* "${NAME}" */

static bool is_variable_name(struct weir_text name)
{
    for (size_t i = 0; i < name.length; i++) {
        char c = weir_fold_char(name.at[i]);
        bool is_digit = c >= '0' && c <= '9';
        if (!(c >= 'a' && c <= 'z') && c != '_' && !(is_digit && i > 0))
            return false;
    }
    return name.length >= 1 && name.length <= 100;
}

static void put_escaped(struct weir_buffer *text, struct weir_text value)
{
    static const char hex[] = "0123456789ABCDEF";
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (size_t i = 0; i < value.length; i++) {
        unsigned char c = (unsigned char)value.at[i];
        if (strchr(plain, (char)c) != NULL) {
            weir_buffer_put_char(text, (char)c);
            continue;
        }
        weir_buffer_put_char(text, '%');
        weir_buffer_put_char(text, hex[c >> 4]);
        weir_buffer_put_char(text, hex[c & 15]);
    }
}

/* `rest` starts with "${"; cuts it and its end off and puts the variable's value. In front of
 * `escaped_until`, which is a URL's user and password, the value is percent-encoded. */
static enum weir_code put_variable(const struct weir_reader *reader, const struct weir_place *place,
                                   struct weir_text *rest, const char *escaped_until,
                                   struct weir_buffer *text)
{
    char string[101];
    struct weir_text name = { NULL, 0 };
    const char *start = rest->at;
    rest->at += 2;
    rest->length -= 2;
    weir_text_take_first(rest, '}', &name);
    if (rest->at == NULL || !is_variable_name(name))
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "A \"${\" starts the name of an environment variable, such as "
                           "\"${REDIS_PASSWORD}\": letters, digits and \"_\", then \"}\".");

    memcpy(string, name.at, name.length);
    string[name.length] = '\0';
    const char *value = getenv(string);
    if (value == NULL)
        return weir_refuse(reader, place, WEIR_E_ENVIRONMENT,
                           "The environment variable %s is not set.", string);
    if (start < escaped_until)
        put_escaped(text, weir_text_from(value));
    else
        weir_buffer_put_string(text, value);
    return WEIR_OK;
}

/* Replaces each "${NAME}" by what the environment holds. */
static enum weir_code expand(const struct weir_reader *reader, const struct weir_place *place,
                             struct weir_text source, const char *escaped_until,
                             struct weir_buffer *text)
{
    enum weir_code code = WEIR_OK;
    while (source.length > 0 && code == WEIR_OK) {
        if (weir_text_starts_with(source, WEIR_TEXT("${"))) {
            code = put_variable(reader, place, &source, escaped_until, text);
            continue;
        }
        weir_buffer_put_char(text, source.at[0]);
        source.at++;
        source.length--;
    }
    if (code == WEIR_OK && weir_buffer_string(text) == NULL)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The value is too long; wanted are at most 4095 bytes.");
    return code;
}

/* The last at sign in front of a query, or NULL. */
static const char *find_at_sign(struct weir_text url)
{
    const char *found = NULL;
    for (size_t i = 0; i < url.length && url.at[i] != '?'; i++)
        if (url.at[i] == '@')
            found = url.at + i;
    return found;
}

/* the URL */

static const struct {
    const char *scheme;
    bool is_later;
} schemes[] = {
    { "memory:", false },           { "redis://", false },         { "redis+unix://", false },
    { "redis+sentinel://", true },  { "redis+cluster://", true },  { "rediss://", true },
    { "rediss+sentinel://", true }, { "rediss+cluster://", true },
};

/* Does not show the URL: there may be a password in it. */
static enum weir_code check_scheme(const struct weir_reader *reader, const struct weir_place *place,
                                   struct weir_text url)
{
    for (size_t i = 0; i < WEIR_COUNT_OF(schemes); i++) {
        struct weir_text scheme = weir_text_from(schemes[i].scheme);
        if (!weir_text_starts_with(url, scheme))
            continue;
        if (schemes[i].is_later)
            return weir_refuse(reader, place, WEIR_E_NOT_YET,
                               "\"%s\" arrives with a later version; use redis:// or "
                               "redis+unix:// with one server.",
                               schemes[i].scheme);
        if (scheme.at[scheme.length - 1] == ':' && url.length > scheme.length)
            break;
        return WEIR_OK;
    }
    return weir_refuse(reader, place, WEIR_E_VALUE,
                       "The URL is of no store that there is; wanted is \"memory:\", "
                       "\"redis://host:port/db\" or \"redis+unix:///path\".");
}

/* Puts "***" in the place of the password, or of all that stands before the at sign if nothing
 * says which part of it is the password. */
static void put_masked(struct weir_buffer *shown, struct weir_text url)
{
    const char *start = memmem(url.at, url.length, "://", 3);
    const char *at_sign = find_at_sign(url);
    if (start == NULL || at_sign == NULL || at_sign < start) {
        weir_buffer_put(shown, url);
        return;
    }
    start += 3;
    const char *colon = memchr(start, ':', (size_t)(at_sign - start));
    const char *kept = colon == NULL ? start : colon + 1;
    weir_buffer_put(shown, (struct weir_text){ url.at, (size_t)(kept - url.at) });
    weir_buffer_put_string(shown, "***");
    weir_buffer_put(shown, (struct weir_text){ at_sign, url.length - (size_t)(at_sign - url.at) });
}

static enum weir_code keep_url(const struct weir_reader *reader, struct weir_text url)
{
    char memory[EXPANDED_MAX + 4];
    struct weir_buffer shown = weir_buffer_init(memory, sizeof memory);
    put_masked(&shown, url);
    enum weir_code code = weir_keep_text(reader, url, &reader->policy->store_url);
    if (code == WEIR_OK)
        code = weir_keep_text(reader, weir_buffer_text(&shown), &reader->policy->store_shown);
    return code;
}

static enum weir_code read_url(struct weir_reader *reader, const struct weir_place *place,
                               void *into)
{
    (void)into;
    char memory[EXPANDED_MAX];
    struct weir_buffer url = weir_buffer_init(memory, sizeof memory);
    struct weir_text source;
    enum weir_code code =
        weir_read_text(reader, place, "a text such as \"redis://127.0.0.1:6379/0\"", &source);
    if (code == WEIR_OK)
        code = expand(reader, place, source, find_at_sign(source), &url);
    if (code == WEIR_OK)
        code = check_scheme(reader, place, weir_buffer_text(&url));
    if (code == WEIR_OK)
        code = keep_url(reader, weir_buffer_text(&url));
    explicit_bzero(memory, sizeof memory);
    return code;
}

/* the rest of "store" */

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
    static const char *const wanted = "a size from \"64KiB\" to \"1TiB\", such as \"64MiB\"";
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

enum weir_code weir_read_store(struct weir_reader *reader, const struct weir_place *place,
                               void *into)
{
    static const struct weir_member members[] = {
        { "url", read_url, false, NULL },
        { "timeout", read_timeout, false, NULL },
        { "prefix", read_prefix, false, NULL },
        { "memory", read_memory, false, NULL },
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
    weir_secret_from(secret, reader->policy->secret);
    return WEIR_OK;
}

/* Does not show what it finds. */
enum weir_code weir_read_secret(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    (void)into;
    if (!json_is_string(place->value))
        return weir_refuse(reader, place, WEIR_E_TYPE,
                           "The secret is no string; wanted is a text such as \"${WEIR_SECRET}\".");

    char memory[EXPANDED_MAX];
    struct weir_buffer secret = weir_buffer_init(memory, sizeof memory);
    struct weir_text source = weir_text_from(json_string_value(place->value));
    enum weir_code code = expand(reader, place, source, NULL, &secret);
    if (code == WEIR_OK)
        code = keep_secret(reader, place, weir_buffer_text(&secret));
    explicit_bzero(memory, sizeof memory);
    return code;
}
