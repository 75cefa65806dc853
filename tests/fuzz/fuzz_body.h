/* What holds for each format of a body: it is read or refused, twice in the same way, and what is found
 * may count. */
#ifndef FUZZ_BODY_H
#define FUZZ_BODY_H

#include <stdlib.h>
#include <string.h>

#include "request/body_fields.h"

#define BODY_FIELDS 3

static inline void require(bool holds)
{
    if (!holds)
        abort();
}

/* A copy of the input that ends where its memory does. */
static inline char *body_copy(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    require(copy != NULL);
    memcpy(copy, data, size);
    return copy;
}

static inline enum weir_body_reading body_read(const char *type, struct weir_text body,
                                               struct weir_body_field fields[BODY_FIELDS],
                                               char *memory)
{
    static const char *const names[BODY_FIELDS] = { "username", "user.name", "x" };
    struct weir_line line = { WEIR_TEXT("Content-Type"), weir_text_from(type) };
    const struct weir_facts facts = { .headers = &line, .header_count = 1 };
    struct weir_buffer buffer = weir_buffer_init(memory, weir_body_memory_bytes(body, BODY_FIELDS));
    for (size_t i = 0; i < BODY_FIELDS; i++)
        fields[i].name = weir_text_from(names[i]);
    return weir_body_read(&facts, body, fields, BODY_FIELDS, &buffer);
}

static inline bool is_inside(struct weir_text value, const char *at, size_t size)
{
    return value.at >= at && value.at + value.length <= at + size;
}

/* Reads a body of one type, and checks all that it says. Returns whether it was read. */
static inline bool body_check(const char *type, const uint8_t *data, size_t size)
{
    char *copy = body_copy(data, size);
    const struct weir_text body = { copy, size };
    size_t memory_bytes = weir_body_memory_bytes(body, BODY_FIELDS);
    char *memory = malloc(memory_bytes), *other = malloc(memory_bytes);
    require(memory != NULL && other != NULL);

    struct weir_body_field fields[BODY_FIELDS], again[BODY_FIELDS];
    enum weir_body_reading reading = body_read(type, body, fields, memory);
    require(reading == WEIR_BODY_READ || reading == WEIR_BODY_BROKEN);
    require(body_read(type, body, again, other) == reading);
    for (size_t i = 0; reading == WEIR_BODY_READ && i < BODY_FIELDS; i++) {
        struct weir_text value = fields[i].value, trimmed = weir_body_value_trim(value);
        require((value.at == NULL) == (again[i].value.at == NULL));
        require(weir_text_equal(value, again[i].value));
        require(value.at == NULL || is_inside(value, copy, size)
                || is_inside(value, memory, memory_bytes));
        require(weir_body_value_is_sound(value) && trimmed.length <= value.length);
        require(weir_body_value_is_sound(trimmed));
        require(weir_text_equal(weir_body_value_trim(trimmed), trimmed));
    }
    free(copy);
    free(memory);
    free(other);
    return reading == WEIR_BODY_READ;
}

#endif
