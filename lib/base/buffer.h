/* A writer into memory of a fixed size that never overruns and never forgets that it was full. */
#ifndef WEIR_BASE_BUFFER_H
#define WEIR_BASE_BUFFER_H

#include "base/text.h"

struct weir_buffer {
    char *at;
    size_t size;   /* of the memory, room for the NUL of weir_buffer_string() included */
    size_t length; /* bytes written, < size                                            */
    bool full;     /* something did not fit: what is there is of no use                */
};

/* `size` is at least 1; the memory stays the caller's. */
static inline struct weir_buffer weir_buffer_init(char *memory, size_t size)
{
    return (struct weir_buffer){ .at = memory, .size = size };
}

void weir_buffer_put(struct weir_buffer *buffer, struct weir_text text);

static inline void weir_buffer_put_string(struct weir_buffer *buffer, const char *string)
{
    weir_buffer_put(buffer, weir_text_from(string));
}

static inline void weir_buffer_put_char(struct weir_buffer *buffer, char c)
{
    if (buffer->full || buffer->size - buffer->length <= 1)
        buffer->full = true;
    else
        buffer->at[buffer->length++] = c;
}

void weir_buffer_put_number(struct weir_buffer *buffer, uint64_t number);

/* `text` as the inside of a JSON string (RFC 8259 section 7), without its quotes. Bytes that are
 * not UTF-8 become U+FFFD. */
void weir_buffer_put_json(struct weir_buffer *buffer, struct weir_text text);

struct weir_text weir_buffer_text(const struct weir_buffer *buffer);

/* NUL-terminated; NULL if something did not fit. */
const char *weir_buffer_string(struct weir_buffer *buffer);

#endif
