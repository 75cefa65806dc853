#include "headers/structured_field.h"

bool weir_field_put_integer(struct weir_buffer *field, uint64_t number)
{
    if (number > WEIR_FIELD_INTEGER_MAX)
        return false;
    weir_buffer_put_number(field, number);
    return true;
}

static bool is_escaped(char c)
{
    return c == '"' || c == '\\';
}

/* False: a byte has no place in a String. `is_plain`: none needs an escape. */
static bool look_through(struct weir_text text, bool *is_plain)
{
    bool is_printable = true;
    *is_plain = true;
    for (size_t i = 0; i < text.length; i++) {
        is_printable = is_printable && text.at[i] >= 0x20 && text.at[i] <= 0x7E;
        *is_plain = *is_plain && !is_escaped(text.at[i]);
    }
    return is_printable;
}

static void put_escaped(struct weir_buffer *field, struct weir_text text)
{
    for (size_t i = 0; i < text.length; i++) {
        if (is_escaped(text.at[i]))
            weir_buffer_put_char(field, '\\');
        weir_buffer_put_char(field, text.at[i]);
    }
}

bool weir_field_put_string(struct weir_buffer *field, struct weir_text text)
{
    bool is_plain;
    if (!look_through(text, &is_plain))
        return false;
    weir_buffer_put_char(field, '"');
    if (is_plain)
        weir_buffer_put(field, text);
    else
        put_escaped(field, text);
    weir_buffer_put_char(field, '"');
    return true;
}
