#include "base/buffer.h"

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

/* The two digits of each number below 100. */
static const char pairs[] = "0001020304050607080910111213141516171819"
                            "2021222324252627282930313233343536373839"
                            "4041424344454647484950515253545556575859"
                            "6061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

/* How many digits a number has: about log2 / log2(10), and one more or not. */
static size_t count_digits(uint64_t number)
{
    static const uint64_t powers[] = { 0,
                                       10,
                                       100,
                                       1000,
                                       10000,
                                       100000,
                                       1000000,
                                       10000000,
                                       100000000,
                                       1000000000,
                                       UINT64_C(10000000000),
                                       UINT64_C(100000000000),
                                       UINT64_C(1000000000000),
                                       UINT64_C(10000000000000),
                                       UINT64_C(100000000000000),
                                       UINT64_C(1000000000000000),
                                       UINT64_C(10000000000000000),
                                       UINT64_C(100000000000000000),
                                       UINT64_C(1000000000000000000),
                                       UINT64_C(10000000000000000000) };
    size_t bits = 64 - (size_t)__builtin_clzll(number | 1);
    size_t digits = bits * 1233 >> 12;
    return digits + (number >= powers[digits]);
}

/* By hand, since quota fields are mostly numbers, and printf takes ten times as long. */
void weir_buffer_put_number(struct weir_buffer *buffer, uint64_t number)
{
    size_t count = number == 0 ? 1 : count_digits(number);
    if (buffer->full || count >= buffer->size - buffer->length) {
        buffer->full = true;
        return;
    }
    char *end = buffer->at + buffer->length + count;
    buffer->length += count;
    for (; number >= 100; number /= 100)
        memcpy(end -= 2, pairs + number % 100 * 2, 2);
    if (number >= 10)
        memcpy(end - 2, pairs + number * 2, 2);
    else
        end[-1] = (char)('0' + number);
}

/* Only controls are escaped, which all have at most three bytes. */
static unsigned code_point_of(const unsigned char *at, size_t length)
{
    return length == 1 ? at[0]
           : length == 2
               ? (unsigned)(at[0] & 0x1F) << 6 | (at[1] & 0x3F)
               : (unsigned)(at[0] & 0x0F) << 12 | (unsigned)(at[1] & 0x3F) << 6 | (at[2] & 0x3F);
}

static void put_json_control(struct weir_buffer *buffer, const char *at, size_t length)
{
    static const char hex[] = "0123456789abcdef";
    unsigned code_point = code_point_of((const unsigned char *)at, length);
    weir_buffer_put_string(buffer, "\\u");
    for (int shift = 12; shift >= 0; shift -= 4)
        weir_buffer_put_char(buffer, hex[code_point >> shift & 15]);
}

/* How many bytes at the start stand for themselves. */
static size_t plain_length(struct weir_text text)
{
    size_t length = 0;
    while (length < text.length && text.at[length] >= 0x20 && text.at[length] < 0x7F
           && text.at[length] != '"' && text.at[length] != '\\')
        length++;
    return length;
}

/* Writes one character that does not; returns how many bytes it has. */
static size_t put_json_char(struct weir_buffer *buffer, struct weir_text text)
{
    size_t length = weir_utf8_length(text);
    if (length == 0)
        weir_buffer_put_string(buffer, "\xEF\xBF\xBD");
    else if (weir_is_control(text.at, length)) {
        put_json_control(buffer, text.at, length);
    } else {
        if (text.at[0] == '"' || text.at[0] == '\\')
            weir_buffer_put_char(buffer, '\\');
        weir_buffer_put(buffer, (struct weir_text){ text.at, length });
    }
    return length == 0 ? 1 : length;
}

void weir_buffer_put_json(struct weir_buffer *buffer, struct weir_text text)
{
    while (text.length > 0) {
        size_t length = plain_length(text);
        if (length > 0)
            weir_buffer_put(buffer, (struct weir_text){ text.at, length });
        else
            length = put_json_char(buffer, text);
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
