/* A stretch of bytes that somebody else owns. */
#ifndef WEIR_BASE_TEXT_H
#define WEIR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct weir_text {
    const char *at; /* not NUL-terminated; NULL: there is none, which is not the same as empty */
    size_t length;
};

#define WEIR_TEXT(literal) ((struct weir_text){ (literal), sizeof(literal) - 1 })

/* The arguments of "%.*s". */
#define WEIR_TEXT_ARGS(text) (int)(text).length, (text).at == NULL ? "" : (text).at

/* The text of a string; none for NULL. Here and below, what every request needs dozens of times is
 * inline, so that the length of a literal is known when it is compiled. */
static inline struct weir_text weir_text_from(const char *string)
{
    return (struct weir_text){ string, string == NULL ? 0 : strlen(string) };
}

/* Byte for byte, or with ASCII letter case folded. */
static inline bool weir_text_equal(struct weir_text one, struct weir_text other)
{
    return one.length == other.length
           && (one.length == 0 || memcmp(one.at, other.at, one.length) == 0);
}

bool weir_text_equal_fold(struct weir_text one, struct weir_text other);

bool weir_text_starts_with(struct weir_text text, struct weir_text prefix);

/* Without the spaces and tabs around it. */
struct weir_text weir_text_trim(struct weir_text text);

/* Reads a whole text of decimal digits; false if it is anything else or above UINT64_MAX. */
bool weir_text_to_number(struct weir_text text, uint64_t *number);

/* Takes the item before the first `separator` off the front of `list`, blanks included; false when
 * the list is used up. An empty item is an item. */
bool weir_text_take_first(struct weir_text *list, char separator, struct weir_text *item);

/* The same from the end. */
bool weir_text_take_last(struct weir_text *list, char separator, struct weir_text *item);

/* A letter, digit or one of "!#$%&'*+-.^_`|~" (RFC 9110 section 5.6.2). */
bool weir_is_token_char(char c);

char weir_fold_char(char c);

/* The value of a hexadecimal digit; -1: it is none. */
int weir_hex_digit(char c);

/* The byte that an escape such as "%2F" stands for at the beginning of a text (RFC 3986, section 2.1); -1:
 * there is no whole one. */
int weir_percent_byte(struct weir_text encoded);

/* How many bytes the UTF-8 sequence at the start of `text` has; 0 if it is none (RFC 3629: no
 * overlong forms, no surrogates, nothing above U+10FFFF). */
size_t weir_utf8_length(struct weir_text text);

/* Whether a UTF-8 sequence of so many bytes steers how text is shown, and is none itself: a control
 * character (C0, DEL, C1), a line or paragraph separator, or one that turns the direction of what stands
 * around it (Unicode's Bidi_Control), by which one text reads as another. Pure. */
bool weir_is_control(const char *at, size_t length);

/* FNV-1a (Fowler, Noll, Vo) of 64 bits, for tables that nobody gains by upsetting. */
uint64_t weir_text_fnv(struct weir_text text);

#endif
