/* "url" of "store": which store it is, and how it is shown without its passwords. */
#include <string.h>

#include "policy/policy_json.h"

/* The last at sign in front of a query, or NULL. */
static const char *find_at_sign(struct weir_text url)
{
    const char *found = NULL;
    for (size_t i = 0; i < url.length && url.at[i] != '?'; i++)
        if (url.at[i] == '@')
            found = url.at + i;
    return found;
}

/* Does not show the URL: there may be a password in it. */
static enum weir_code check_scheme(const struct weir_reader *reader, const struct weir_place *place,
                                   struct weir_text url)
{
    static const char *const schemes[] = {
        "redis://",  "redis+unix://",  "redis+sentinel://",  "redis+cluster://",
        "rediss://", "rediss+unix://", "rediss+sentinel://", "rediss+cluster://",
    };
    if (weir_text_equal(url, WEIR_TEXT("memory:")))
        return WEIR_OK;
    for (size_t i = 0; i < WEIR_COUNT_OF(schemes); i++)
        if (weir_text_starts_with(url, weir_text_from(schemes[i])))
            return WEIR_OK;
    return weir_refuse(reader, place, WEIR_E_VALUE,
                       "The URL is of no store that there is; wanted is \"memory:\", "
                       "\"redis://host:port/db\", \"redis+unix:///path\", "
                       "\"redis+sentinel://host:port,host:port/master\" or "
                       "\"redis+cluster://host:port,host:port\", or \"rediss\" for TLS.");
}

bool weir_is_variable(struct weir_text text)
{
    return weir_text_starts_with(text, WEIR_TEXT("${"))
           && memchr(text.at, '}', text.length) == text.at + text.length - 1;
}

/* Whether a password, or all that stands in front of the host, is what one is shown as: the URL was
 * copied from where it is shown. */
static bool holds_mask(struct weir_text url)
{
    size_t length = strlen(WEIR_MASK);
    for (size_t i = 1; i + length <= url.length; i++) {
        bool begins = strchr("/:=?&", url.at[i - 1]) != NULL;
        bool ends = i + length == url.length || strchr("@&", url.at[i + length]) != NULL;
        if (begins && ends && memcmp(url.at + i, WEIR_MASK, length) == 0)
            return true;
    }
    return false;
}

/* Puts a secret, unless it is the name of a variable, which tells nothing. */
static void put_secret(struct weir_buffer *shown, struct weir_text secret)
{
    weir_buffer_put(shown, weir_is_variable(secret) ? secret : WEIR_TEXT(WEIR_MASK));
}

/* Puts a user and password with "***" in the place of the password, or of all if nothing says which
 * part of it is the password. */
static void put_masked_login(struct weir_buffer *shown, struct weir_text login)
{
    const char *colon = memchr(login.at, ':', login.length);
    const char *start = colon == NULL ? login.at : colon + 1;
    weir_buffer_put(shown, (struct weir_text){ login.at, (size_t)(start - login.at) });
    put_secret(shown, (struct weir_text){ start, login.length - (size_t)(start - login.at) });
}

/* Puts the options behind a question mark; values that are known to be no secrets are shown. */
static void put_masked_query(struct weir_buffer *shown, struct weir_text query)
{
    struct weir_text value, name;
    for (char mark = '?'; weir_text_take_first(&query, '&', &value); mark = '&') {
        weir_buffer_put_char(shown, mark);
        weir_text_take_first(&value, '=', &name);
        bool is_shown = weir_text_equal(name, WEIR_TEXT("db"))
                        || weir_text_equal(name, WEIR_TEXT("sentinel_user"));
        if (value.at != NULL) {
            weir_buffer_put(shown, name);
            weir_buffer_put_char(shown, '=');
        }
        if (is_shown && value.at != NULL)
            weir_buffer_put(shown, value);
        else
            put_secret(shown, value.at == NULL ? name : value);
    }
}

/* Whether nothing tells where a password ends: an at sign behind a question mark may be the end of
 * one that has a question mark in it. */
static bool is_unclear(struct weir_text query)
{
    return query.at != NULL && memchr(query.at, '@', query.length) != NULL;
}

void weir_put_masked_url(struct weir_buffer *shown, struct weir_text url)
{
    struct weir_text front, query = url;
    const char *slashes = memmem(url.at, url.length, "://", 3);
    weir_text_take_first(&query, '?', &front);
    if (slashes == NULL) {
        weir_buffer_put(shown, url);
        return;
    }
    const char *start = slashes + 3;
    weir_buffer_put(shown, (struct weir_text){ url.at, (size_t)(start - url.at) });
    if (is_unclear(query)) {
        weir_buffer_put_string(shown, WEIR_MASK);
        return;
    }
    const char *at_sign = find_at_sign(url);
    if (at_sign != NULL && at_sign >= start) {
        put_masked_login(shown, (struct weir_text){ start, (size_t)(at_sign - start) });
        start = at_sign;
    }
    weir_buffer_put(shown, (struct weir_text){ start, (size_t)(front.at + front.length - start) });
    put_masked_query(shown, query);
}

static enum weir_code keep_url(const struct weir_reader *reader, struct weir_text url)
{
    char memory[WEIR_EXPANDED_MAX + 4];
    struct weir_buffer shown = weir_buffer_init(memory, sizeof memory);
    weir_put_masked_url(&shown, url);
    enum weir_code code = weir_keep_text(reader, url, &reader->policy->store_url);
    if (code == WEIR_OK)
        code = weir_keep_text(reader, weir_buffer_text(&shown), &reader->policy->store_shown);
    return code;
}

enum weir_code weir_read_store_url(struct weir_reader *reader, const struct weir_place *place,
                                   void *into)
{
    (void)into;
    char memory[WEIR_EXPANDED_MAX];
    struct weir_buffer url = weir_buffer_init(memory, sizeof memory);
    struct weir_text source;
    enum weir_code code =
        weir_read_text(reader, place, "a text such as \"redis://127.0.0.1:6379/0\"", &source);
    if (code != WEIR_OK)
        return code;
    const struct weir_escaped escaped = { find_at_sign(source),
                                          memchr(source.at, '?', source.length) };
    code = weir_expand(reader, place, source, &escaped, &url);
    if (code == WEIR_OK)
        code = check_scheme(reader, place, weir_buffer_text(&url));
    if (code == WEIR_OK && holds_mask(weir_buffer_text(&url)))
        code = weir_refuse(reader, place, WEIR_E_VALUE,
                           "The URL has \"" WEIR_MASK "\" where a password belongs, as one is "
                           "shown; wanted is the password, such as \"${REDIS_PASSWORD}\".");
    if (code == WEIR_OK)
        code = keep_url(reader, weir_buffer_text(&url));
    explicit_bzero(memory, sizeof memory);
    return code;
}
