#include "tools/access_log.h"

#include <stdlib.h>

#include "identity/address.h"
#include "tools/access_log_internal.h"

struct weir_access_reader {
    enum weir_access_format format;
    struct weir_access_json *json;
};

struct weir_access_reader *weir_access_reader_new(enum weir_access_format format)
{
    struct weir_access_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return NULL;
    reader->format = format;
    reader->json = weir_access_json_new();
    return reader->json == NULL ? weir_access_reader_free(reader) : reader;
}

struct weir_access_reader *weir_access_reader_free(struct weir_access_reader *reader)
{
    if (reader != NULL)
        weir_access_json_free(reader->json);
    free(reader);
    return NULL;
}

enum weir_code weir_access_reader_map(struct weir_access_reader *reader, const char *mapping,
                                      struct weir_error *error)
{
    return weir_access_json_map(reader->json, mapping, error);
}

/* the pieces of a line */

static bool take_word(struct weir_text *rest, struct weir_text *word)
{
    return weir_text_take_first(rest, ' ', word) && word->length > 0 && rest->at != NULL;
}

/* What stands for a character in a quoted text of Apache's or nginx's: \", \\, \t, \x22. Moves behind
 * it; the backslash of what is none stands for itself. */
static char take_escaped(const char **at, const char *end)
{
    static const char names[] = "\"\\bfnrtv", meant[] = "\"\\\b\f\n\r\t\v";
    const char *escape = *at + 1;
    if (end - escape >= 3 && escape[0] == 'x' && weir_hex_digit(escape[1]) >= 0
        && weir_hex_digit(escape[2]) >= 0) {
        *at += 4;
        return (char)(weir_hex_digit(escape[1]) * 16 + weir_hex_digit(escape[2]));
    }
    const char *name = escape < end ? memchr(names, *escape, sizeof names - 1) : NULL;
    *at += name == NULL ? 1 : 2;
    return name == NULL ? '\\' : meant[name - names];
}

/* Takes a text in quotes off the front, and decodes it where it stands; false: there is none, or no
 * end of it. The line is ours to change. */
static bool take_quoted(struct weir_text *rest, struct weir_text *quoted)
{
    if (rest->length == 0 || rest->at[0] != '"')
        return false;
    const char *at = rest->at + 1, *end = rest->at + rest->length;
    char *to = (char *)(uintptr_t)at;
    *quoted = (struct weir_text){ at, 0 };
    while (at < end && *at != '"') {
        char c = *at;
        if (c == '\\')
            c = take_escaped(&at, end);
        else
            at++;
        to[quoted->length++] = c;
    }
    if (at == end)
        return false;
    *rest = (struct weir_text){ at + 1, (size_t)(end - at) - 1 };
    return true;
}

/* "-" is how these logs write that there is nothing. */
static struct weir_text said(struct weir_text text)
{
    bool is_nothing = text.length == 0 || weir_text_equal(text, WEIR_TEXT("-"))
                      || weir_text_equal(text, WEIR_TEXT("\"\""));
    return is_nothing ? (struct weir_text){ NULL, 0 } : text;
}

bool weir_access_is_method(struct weir_text method)
{
    for (size_t i = 0; i < method.length; i++)
        if (!weir_is_token_char(method.at[i]))
            return false;
    return method.length > 0;
}

bool weir_access_request(struct weir_text request, struct weir_access_entry *entry)
{
    struct weir_text method, version;
    if (!weir_text_take_first(&request, ' ', &method) || !weir_access_is_method(method)
        || request.at == NULL)
        return false;
    struct weir_text target = request;
    if (weir_text_take_last(&request, ' ', &version)
        && weir_text_starts_with(version, WEIR_TEXT("HTTP/")))
        target = request;
    entry->texts[WEIR_ACCESS_METHOD] = method;
    entry->texts[WEIR_ACCESS_TARGET] = target;
    return target.at != NULL && target.length > 0;
}

/* common and combined lines */

/* Takes the user, in whose name there may be blanks, and the time in its brackets. */
static bool take_user_and_time(struct weir_text *rest, struct weir_access_entry *entry)
{
    const char *bracket =
        rest->length < 3 ? NULL : memmem(rest->at, rest->length, " [", strlen(" ["));
    if (bracket == NULL)
        return false;
    struct weir_text user = { rest->at, (size_t)(bracket - rest->at) }, time;
    entry->texts[WEIR_ACCESS_USER] = said(user);
    rest->length -= user.length + 2;
    rest->at = bracket + 2;
    return weir_text_take_first(rest, ']', &time) && rest->at != NULL
           && weir_access_time(time, &entry->time_us, &entry->is_whole_second);
}

static bool skip_blank(struct weir_text *rest)
{
    if (rest->length == 0 || rest->at[0] != ' ')
        return false;
    rest->at++;
    rest->length--;
    return true;
}

/* Three digits, or the "-" of a reply that never went out. */
static bool take_status(struct weir_text *rest, struct weir_access_entry *entry)
{
    struct weir_text word;
    uint64_t status = 0;
    if (!weir_text_take_first(rest, ' ', &word))
        return false;
    bool is_number = weir_text_to_number(word, &status) && status <= 999;
    entry->status = is_number ? (unsigned)status : 0;
    return is_number || said(word).at == NULL;
}

static void add_header(struct weir_access_entry *entry, struct weir_text name,
                       struct weir_text value)
{
    value = said(value);
    if (value.at != NULL)
        entry->headers[entry->header_count++] = (struct weir_line){ name, value };
}

/* What makes a line a combined one; servers write more behind it, which nobody knows. */
static bool take_combined(struct weir_text *rest, struct weir_access_entry *entry)
{
    struct weir_text bytes, referer, agent;
    if (!take_word(rest, &bytes) || !take_quoted(rest, &referer) || !skip_blank(rest)
        || !take_quoted(rest, &agent))
        return false;
    add_header(entry, WEIR_TEXT("Referer"), referer);
    add_header(entry, WEIR_TEXT("User-Agent"), agent);
    return true;
}

static bool read_plain(enum weir_access_format format, struct weir_text rest,
                       struct weir_access_entry *entry, const char **why)
{
    struct weir_text ident, request;
    *why = "it is neither a common nor a combined line, and no JSON";
    if (!take_word(&rest, &entry->texts[WEIR_ACCESS_PEER]) || !take_word(&rest, &ident))
        return false;
    if (!take_user_and_time(&rest, entry)) {
        *why = "there is no [time] in it that is one";
        return false;
    }
    if (!skip_blank(&rest) || !take_quoted(&rest, &request))
        return false;
    *why = "what was sent was no request";
    if (!weir_access_request(request, entry))
        return false;
    *why = "there is no status behind the request";
    if (!skip_blank(&rest) || !take_status(&rest, entry))
        return false;
    *why = "there is no \"referer\" \"user agent\" at its end";
    bool is_combined = format != WEIR_ACCESS_COMMON && take_combined(&rest, entry);
    return is_combined || format != WEIR_ACCESS_COMBINED;
}

/* any line */

/* An address, or what nginx writes for a Unix socket, which has none. */
static bool has_sound_peer(struct weir_access_entry *entry)
{
    struct weir_text *peer = &entry->texts[WEIR_ACCESS_PEER];
    struct weir_address address;
    *peer = said(*peer);
    if (weir_text_equal(*peer, WEIR_TEXT("unix:")))
        *peer = (struct weir_text){ NULL, 0 };
    return peer->at == NULL || weir_address_parse(*peer, &address);
}

bool weir_access_read(struct weir_access_reader *reader, char *line, size_t length,
                      struct weir_access_entry *entry, const char **why)
{
    struct weir_text text = weir_text_trim((struct weir_text){ line, length });
    bool is_json = reader->format == WEIR_ACCESS_JSON
                   || (reader->format == WEIR_ACCESS_ANY && text.length > 0 && text.at[0] == '{');
    *entry = (struct weir_access_entry){ .status = 0 };
    bool is_read = is_json ? weir_access_json_read(reader->json, line, length, entry, why)
                           : read_plain(reader->format, text, entry, why);
    if (!is_read)
        return false;
    *why = "the client is no address";
    return has_sound_peer(entry);
}
