#include "base/buffer.h"

#include <string.h>

struct weir_buffer weir_buffer_init(char *memory, size_t size)
{
    return (struct weir_buffer){ .at = memory, .size = size };
}

void weir_buffer_put(struct weir_buffer *buffer, struct weir_text text)
{
    if (buffer->full || text.length >= buffer->size - buffer->length) {
        buffer->full = true;
        return;
    }
    if (text.length > 0)
        memcpy(buffer->at + buffer->length, text.at, text.length);
    buffer->length += text.length;
}

void weir_buffer_put_string(struct weir_buffer *buffer, const char *string)
{
    weir_buffer_put(buffer, weir_text_from(string));
}

void weir_buffer_put_char(struct weir_buffer *buffer, char c)
{
    weir_buffer_put(buffer, (struct weir_text){ &c, 1 });
}

void weir_buffer_put_number(struct weir_buffer *buffer, uint64_t number)
{
    char digits[20]; /* UINT64_MAX has 20 */
    size_t start = sizeof digits;
    do {
        digits[--start] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    weir_buffer_put(buffer, (struct weir_text){ digits + start, sizeof digits - start });
}

static void put_json_ascii(struct weir_buffer *buffer, char c)
{
    static const char hex[] = "0123456789abcdef";
    if (c == '"' || c == '\\') {
        weir_buffer_put_char(buffer, '\\');
        weir_buffer_put_char(buffer, c);
    } else if ((unsigned char)c < 0x20 || c == 0x7F) {
        weir_buffer_put_string(buffer, "\\u00");
        weir_buffer_put_char(buffer, hex[(unsigned char)c >> 4]);
        weir_buffer_put_char(buffer, hex[(unsigned char)c & 15]);
    } else {
        weir_buffer_put_char(buffer, c);
    }
}

void weir_buffer_put_json(struct weir_buffer *buffer, struct weir_text text)
{
    while (text.length > 0) {
        size_t length = weir_utf8_length(text);
        if (length == 1)
            put_json_ascii(buffer, text.at[0]);
        else if (length > 1)
            weir_buffer_put(buffer, (struct weir_text){ text.at, length });
        else
            weir_buffer_put_string(buffer, "\xEF\xBF\xBD");
        length = length == 0 ? 1 : length;
        text.at += length;
        text.length -= length;
    }
}

struct weir_text weir_buffer_text(const struct weir_buffer *buffer)
{
    return (struct weir_text){ buffer->at, buffer->length };
}

const char *weir_buffer_string(struct weir_buffer *buffer)
{
    if (buffer->full)
        return NULL;
    buffer->at[buffer->length] = '\0';
    return buffer->at;
}
