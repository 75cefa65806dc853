#include "base/text.h"

char weir_fold_char(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

int weir_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = weir_fold_char(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int weir_percent_byte(struct weir_text encoded)
{
    if (encoded.length < 3 || encoded.at[0] != '%')
        return -1;
    int high = weir_hex_digit(encoded.at[1]), low = weir_hex_digit(encoded.at[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool weir_text_equal_fold(struct weir_text one, struct weir_text other)
{
    if (one.length != other.length)
        return false;
    for (size_t i = 0; i < one.length; i++)
        if (weir_fold_char(one.at[i]) != weir_fold_char(other.at[i]))
            return false;
    return true;
}

bool weir_text_starts_with(struct weir_text text, struct weir_text prefix)
{
    return text.length >= prefix.length
           && (prefix.length == 0 || memcmp(text.at, prefix.at, prefix.length) == 0);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct weir_text weir_text_trim(struct weir_text text)
{
    while (text.length > 0 && is_blank(text.at[0])) {
        text.at++;
        text.length--;
    }
    while (text.length > 0 && is_blank(text.at[text.length - 1]))
        text.length--;
    return text;
}

bool weir_text_to_number(struct weir_text text, uint64_t *number)
{
    if (text.length == 0)
        return false;

    uint64_t sum = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(text.at[i] - '0');
        if (sum > (UINT64_MAX - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *number = sum;
    return true;
}

bool weir_text_take_first(struct weir_text *list, char separator, struct weir_text *item)
{
    if (list->at == NULL)
        return false;

    const char *found = list->length == 0 ? NULL : memchr(list->at, separator, list->length);
    if (found == NULL) {
        *item = *list;
        *list = (struct weir_text){ NULL, 0 };
        return true;
    }
    *item = (struct weir_text){ list->at, (size_t)(found - list->at) };
    list->length -= item->length + 1;
    list->at = found + 1;
    return true;
}

bool weir_text_take_last(struct weir_text *list, char separator, struct weir_text *item)
{
    if (list->at == NULL)
        return false;

    const char *end = list->at + list->length;
    const char *start = end;
    while (start > list->at && start[-1] != separator)
        start--;

    *item = (struct weir_text){ start, (size_t)(end - start) };
    if (start == list->at)
        *list = (struct weir_text){ NULL, 0 };
    else
        list->length = (size_t)(start - 1 - list->at);
    return true;
}

/* A bit for each ASCII character, from bit 0 of the first number on. */
static const uint32_t token_chars[4] = { 0, 0x03FF6CFA, 0xC7FFFFFE, 0x57FFFFFF };

bool weir_is_token_char(char c)
{
    unsigned char byte = (unsigned char)c;
    return byte < 0x80 && (token_chars[byte / 32] >> byte % 32 & 1) != 0;
}

size_t weir_utf8_length(struct weir_text text)
{
    if (text.length == 0)
        return 0;
    const unsigned char *at = (const unsigned char *)text.at;
    size_t length = at[0] < 0x80   ? 1
                    : at[0] < 0xC2 ? 0
                    : at[0] < 0xE0 ? 2
                    : at[0] < 0xF0 ? 3
                    : at[0] < 0xF5 ? 4
                                   : 0;
    if (length == 0 || length > text.length)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    if ((at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xED && at[1] > 0x9F)
        || (at[0] == 0xF0 && at[1] < 0x90) || (at[0] == 0xF4 && at[1] > 0x8F))
        return 0;
    return length;
}

/* U+061C; U+200E, U+200F, U+2028 to U+202E; U+2066 to U+2069 */
static bool turns_direction(const unsigned char *at, size_t length)
{
    if (length == 2)
        return at[0] == 0xD8 && at[1] == 0x9C;
    if (length != 3 || at[0] != 0xE2)
        return false;
    return (at[1] == 0x80 && (at[2] == 0x8E || at[2] == 0x8F || (at[2] >= 0xA8 && at[2] <= 0xAE)))
           || (at[1] == 0x81 && at[2] >= 0xA6 && at[2] <= 0xA9);
}

bool weir_is_control(const char *at, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)at;
    if (length == 1)
        return bytes[0] < 0x20 || bytes[0] == 0x7F;
    return (length == 2 && bytes[0] == 0xC2 && bytes[1] < 0xA0) || turns_direction(bytes, length);
}

uint64_t weir_text_fnv(struct weir_text text)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < text.length; i++)
        hash = (hash ^ (unsigned char)text.at[i]) * UINT64_C(1099511628211);
    return hash;
}
