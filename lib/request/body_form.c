/* application/x-www-form-urlencoded: "username=ann&password=a+b%21". */
#include <string.h>

#include "request/body_fields.h"

/* Takes one character off the front of an encoded text; -1: a broken escape. */
static int take_char(struct weir_text *encoded)
{
    char c = encoded->at[0];
    size_t length = c == '%' ? 3 : 1;
    int decoded = c == '+' ? ' ' : (unsigned char)c;
    if (c == '%')
        decoded = weir_percent_byte(*encoded);
    if (decoded < 0)
        return -1;
    encoded->at += length;
    encoded->length -= length;
    return decoded;
}

/* A name with a NUL byte in it is shorter for who reads strings, and may then be the wanted one. */
static bool is_name(struct weir_text encoded)
{
    while (encoded.length > 0)
        if (take_char(&encoded) <= 0)
            return false;
    return true;
}

/* libmicrohttpd's post processor (0.9.75 to 1.0.1) keeps an escape that a value breaks off, and may
 * begin the next value with it. */
static bool has_whole_escapes(struct weir_text encoded)
{
    while (encoded.length > 0)
        if (take_char(&encoded) < 0)
            return false;
    return true;
}

static bool is_named(struct weir_text encoded, struct weir_text name, bool folds)
{
    for (size_t i = 0; i < name.length; i++) {
        int c = encoded.length == 0 ? -1 : take_char(&encoded);
        bool is_same = c == (unsigned char)name.at[i];
        if (!is_same && (c < 0 || !folds || weir_fold_char((char)c) != weir_fold_char(name.at[i])))
            return false;
    }
    return encoded.length == 0;
}

static struct weir_body_field *find_field(struct weir_body_field *fields, size_t count,
                                          struct weir_text encoded, bool folds)
{
    for (size_t i = 0; i < count; i++)
        if (is_named(encoded, fields[i].name, folds))
            return &fields[i];
    return NULL;
}

static bool decode(struct weir_text encoded, struct weir_buffer *memory, struct weir_text *value)
{
    const size_t start = memory->length;
    while (encoded.length > 0) {
        int c = take_char(&encoded);
        if (c < 0)
            return false;
        weir_buffer_put_char(memory, (char)c);
    }
    *value = (struct weir_text){ memory->at + start, memory->length - start };
    return !memory->full && weir_body_value_is_sound(*value);
}

/* Where a semicolon ends a pair, as it once did, there are other pairs. */
static bool hides_field(struct weir_text pair, struct weir_body_field *fields, size_t count)
{
    struct weir_text piece, name = { NULL, 0 };
    if (pair.length == 0 || memchr(pair.at, ';', pair.length) == NULL)
        return false;
    while (weir_text_take_first(&pair, ';', &piece)) {
        weir_text_take_first(&piece, '=', &name);
        if (find_field(fields, count, name, true) != NULL)
            return true;
    }
    return false;
}

/* A second "=" is a part of the value for some, and an error, or an end, for others. */
static bool read_pair(struct weir_text pair, struct weir_body_field *fields, size_t count,
                      struct weir_buffer *memory)
{
    struct weir_text value = pair, name = { NULL, 0 };
    weir_text_take_first(&value, '=', &name);
    if (!is_name(name) || !has_whole_escapes(value) || hides_field(pair, fields, count))
        return false;
    struct weir_body_field *field = find_field(fields, count, name, false);
    if (field == NULL) /* one that differs in letter case is the same name to some */
        return find_field(fields, count, name, true) == NULL;
    bool has_second = value.length > 0 && memchr(value.at, '=', value.length) != NULL;
    return !has_second && field->value.at == NULL && decode(value, memory, &field->value);
}

/* Some parsers end at a NUL byte or a line, and some do not. */
static bool has_break(struct weir_text text)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.at[i] == '\0' || text.at[i] == '\r' || text.at[i] == '\n')
            return true;
    return false;
}

/* Who types a body into a file ends it with a line break. */
static struct weir_text without_end(struct weir_text body)
{
    if (body.length > 0 && body.at[body.length - 1] == '\n')
        body.length--;
    if (body.length > 0 && body.at[body.length - 1] == '\r')
        body.length--;
    return body;
}

bool weir_body_read_form(struct weir_text body, struct weir_body_field *fields, size_t count,
                         struct weir_buffer *memory)
{
    struct weir_text pair;
    body = without_end(body);
    if (has_break(body))
        return false;
    while (weir_text_take_first(&body, '&', &pair))
        if (!read_pair(pair, fields, count, memory))
            return false;
    return true;
}
