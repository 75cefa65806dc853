/* Memory that is given out piece by piece and freed as one. */
#ifndef WEIR_BASE_ARENA_H
#define WEIR_BASE_ARENA_H

#include "base/text.h"

struct weir_arena;

/* NULL: memory ran out. */
struct weir_arena *weir_arena_new(void);

/* Frees all that came from it. Accepts NULL; returns NULL. */
struct weir_arena *weir_arena_free(struct weir_arena *arena);

/* `count` items of `size` bytes each, all zero and aligned for anything; NULL: memory ran out, or
 * the product is too large for a size_t. No items still give a pointer. One thread at a time. */
void *weir_arena_array(struct weir_arena *arena, size_t count, size_t size);

/* A copy of `text` with a NUL behind it; NULL: memory ran out. */
char *weir_arena_copy(struct weir_arena *arena, struct weir_text text);

#endif
