#include "headers/structured_field.h"

bool weir_field_put_integer(struct weir_buffer *field, uint64_t number)
{
    if (number > WEIR_FIELD_INTEGER_MAX)
        return false;
    weir_buffer_put_number(field, number);
    return true;
}

static bool is_printable(struct weir_text text)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.at[i] < 0x20 || text.at[i] > 0x7E)
            return false;
    return true;
}

bool weir_field_put_string(struct weir_buffer *field, struct weir_text text)
{
    if (!is_printable(text))
        return false;
    weir_buffer_put_char(field, '"');
    for (size_t i = 0; i < text.length; i++) {
        if (text.at[i] == '"' || text.at[i] == '\\')
            weir_buffer_put_char(field, '\\');
        weir_buffer_put_char(field, text.at[i]);
    }
    weir_buffer_put_char(field, '"');
    return true;
}
