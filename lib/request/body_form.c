/* application/x-www-form-urlencoded: "username=ann&password=a+b%21". */
#include <string.h>

#include "request/body_fields.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = weir_fold_char(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes one character off the front of an encoded text; -1: a broken escape. */
static int take_char(struct weir_text *encoded)
{
    char c = encoded->at[0];
    size_t length = 1;
    int decoded = c == '+' ? ' ' : (unsigned char)c;
    if (c == '%') {
        int high = encoded->length < 3 ? -1 : hex_digit(encoded->at[1]);
        int low = encoded->length < 3 ? -1 : hex_digit(encoded->at[2]);
        decoded = high < 0 || low < 0 ? -1 : high * 16 + low;
        length = 3;
    }
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

static bool is_named(struct weir_text encoded, struct weir_text name)
{
    size_t matched = 0;
    while (encoded.length > 0) {
        int c = take_char(&encoded);
        if (matched == name.length || c != (unsigned char)name.at[matched++])
            return false;
    }
    return matched == name.length;
}

static struct weir_body_field *find_field(struct weir_body_field *fields, size_t count,
                                          struct weir_text encoded)
{
    for (size_t i = 0; i < count; i++)
        if (is_named(encoded, fields[i].name))
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

static bool read_pair(struct weir_text pair, struct weir_body_field *fields, size_t count,
                      struct weir_buffer *memory)
{
    struct weir_text name = { NULL, 0 };
    weir_text_take_first(&pair, '=', &name);
    if (!is_name(name))
        return false;
    struct weir_body_field *field = find_field(fields, count, name);
    if (field == NULL)
        return true;
    return field->value.at == NULL && decode(pair, memory, &field->value);
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
