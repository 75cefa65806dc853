#include "request/body_fields.h"

#include <string.h>

bool weir_body_value_is_sound(struct weir_text value)
{
    while (value.length > 0) {
        size_t length = weir_utf8_length(value);
        if (length == 0 || value.at[0] == '\0')
            return false;
        value.at += length;
        value.length -= length;
    }
    return true;
}

/* Unicode's White_Space, and what was once taken for it, as UTF-8. */
static const struct {
    const char *first, *last;
} spaces[] = {
    { "\t", "\r" },
    { "\x1C", " " },
    { "\xC2\x85", "\xC2\x85" },
    { "\xC2\xA0", "\xC2\xA0" },
    { "\xE1\x9A\x80", "\xE1\x9A\x80" },
    { "\xE1\xA0\x8E", "\xE1\xA0\x8E" },
    { "\xE2\x80\x80", "\xE2\x80\x8B" },
    { "\xE2\x80\xA8", "\xE2\x80\xA9" },
    { "\xE2\x80\xAF", "\xE2\x80\xAF" },
    { "\xE2\x81\x9F", "\xE2\x81\x9F" },
    { "\xE3\x80\x80", "\xE3\x80\x80" },
    { "\xEF\xBB\xBF", "\xEF\xBB\xBF" },
};

/* The length of a space at the start of a text, or at its end; 0: there is none. */
static size_t space_length(struct weir_text text, bool is_at_end)
{
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        size_t length = strlen(spaces[i].first);
        if (length > text.length)
            continue;
        const char *at = is_at_end ? text.at + text.length - length : text.at;
        if (memcmp(at, spaces[i].first, length) >= 0 && memcmp(at, spaces[i].last, length) <= 0)
            return length;
    }
    return 0;
}

struct weir_text weir_body_value_trim(struct weir_text value)
{
    size_t length;
    while ((length = space_length(value, false)) > 0) {
        value.at += length;
        value.length -= length;
    }
    while ((length = space_length(value, true)) > 0)
        value.length -= length;
    return value;
}

/* parameters */

static void skip(struct weir_text *text, size_t length)
{
    text->at += length;
    text->length -= length;
}

static void skip_blanks(struct weir_text *text)
{
    while (text->length > 0 && (text->at[0] == ' ' || text->at[0] == '\t'))
        skip(text, 1);
}

static struct weir_text take_token(struct weir_text *rest)
{
    struct weir_text token = { rest->at, 0 };
    while (token.length < rest->length && weir_is_token_char(rest->at[token.length]))
        token.length++;
    skip(rest, token.length);
    return token;
}

/* The inside of a quoted string, whose first quote is at the start of `rest`. */
static bool take_quoted(struct weir_text *rest, struct weir_text *inside)
{
    size_t end = 1;
    while (end < rest->length && rest->at[end] != '"')
        end += rest->at[end] == '\\' ? 2 : 1;
    if (end >= rest->length)
        return false;
    *inside = (struct weir_text){ rest->at + 1, end - 1 };
    skip(rest, end + 1);
    return true;
}

static bool starts_with_char(struct weir_text text, char c)
{
    return text.length > 0 && text.at[0] == c;
}

static bool read_parameter(struct weir_text *rest, struct weir_text *name, struct weir_text *value)
{
    skip(rest, 1);
    skip_blanks(rest);
    *name = take_token(rest);
    if (name->length == 0 || !starts_with_char(*rest, '='))
        return false;
    skip(rest, 1);
    if (starts_with_char(*rest, '"'))
        return take_quoted(rest, value);
    *value = take_token(rest);
    return value->length > 0;
}

bool weir_take_parameter(struct weir_text *rest, struct weir_text *name, struct weir_text *value)
{
    skip_blanks(rest);
    struct weir_text ahead = *rest;
    if (!starts_with_char(ahead, ';') || !read_parameter(&ahead, name, value))
        return false;
    *rest = ahead;
    return true;
}

/* the kind of a body */

/* The only line of that name; false: there are several, of which an application may read another. */
static bool only_line(const struct weir_facts *facts, struct weir_text name,
                      struct weir_text *value)
{
    *value = (struct weir_text){ NULL, 0 };
    for (size_t i = 0; i < facts->header_count; i++) {
        if (!weir_text_equal_fold(facts->headers[i].name, name))
            continue;
        if (value->at != NULL)
            return false;
        *value = facts->headers[i].value;
    }
    return true;
}

/* What is compressed would have to be unpacked first. */
static bool is_plain(const struct weir_facts *facts)
{
    struct weir_text encoding;
    if (!only_line(facts, WEIR_TEXT("Content-Encoding"), &encoding))
        return false;
    encoding = weir_text_trim(encoding);
    return encoding.length == 0 || weir_text_equal_fold(encoding, WEIR_TEXT("identity"));
}

/* In other charsets the same bytes are other names. Latin-1 is what some clients say of ASCII. */
bool weir_body_is_charset(struct weir_text charset)
{
    return weir_text_equal_fold(charset, WEIR_TEXT("utf-8"))
           || weir_text_equal_fold(charset, WEIR_TEXT("us-ascii"))
           || weir_text_equal_fold(charset, WEIR_TEXT("iso-8859-1"));
}

/* Whether the parameters of a type can be read, and leave its bytes as they are. */
static bool are_parameters(struct weir_text parameters)
{
    struct weir_text name, value;
    while (weir_take_parameter(&parameters, &name, &value))
        if (weir_text_equal_fold(name, WEIR_TEXT("charset")) && !weir_body_is_charset(value))
            return false;
    parameters = weir_text_trim(parameters);
    return parameters.length == 0 || weir_text_equal(parameters, WEIR_TEXT(";"));
}

static enum weir_body_reading read_as(struct weir_text type, struct weir_text parameters,
                                      struct weir_text body, struct weir_body_field *fields,
                                      size_t count, struct weir_buffer *memory)
{
    bool is_read;
    if (weir_text_equal_fold(type, WEIR_TEXT("multipart/form-data")))
        is_read = weir_body_read_multipart(body, parameters, fields, count);
    else if (!are_parameters(parameters))
        return WEIR_BODY_FOREIGN;
    else if (weir_text_equal_fold(type, WEIR_TEXT("application/json")))
        return weir_body_read_json(body, fields, count, memory);
    else if (weir_text_equal_fold(type, WEIR_TEXT("application/x-www-form-urlencoded")))
        is_read = weir_body_read_form(body, fields, count, memory);
    else
        return WEIR_BODY_FOREIGN;
    return is_read ? WEIR_BODY_READ : WEIR_BODY_BROKEN;
}

enum weir_body_reading weir_body_read(const struct weir_facts *facts, struct weir_text body,
                                      struct weir_body_field *fields, size_t count,
                                      struct weir_buffer *memory)
{
    struct weir_text parameters, type = { NULL, 0 };
    for (size_t i = 0; i < count; i++)
        fields[i].value = (struct weir_text){ NULL, 0 };
    if (body.length == 0)
        return WEIR_BODY_READ;
    if (!is_plain(facts) || !only_line(facts, WEIR_TEXT("Content-Type"), &parameters)
        || parameters.at == NULL)
        return WEIR_BODY_FOREIGN;

    const char *end = parameters.at + parameters.length;
    weir_text_take_first(&parameters, ';', &type);
    parameters = parameters.at == NULL
                     ? WEIR_TEXT("")
                     : (struct weir_text){ parameters.at - 1, /* with their semicolon */
                                           (size_t)(end - parameters.at) + 1 };
    return read_as(weir_text_trim(type), parameters, body, fields, count, memory);
}
