#include "base/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)4096)

struct block {
    struct block *next;
    size_t size; /* of `bytes` */
    size_t used;
    alignas(max_align_t) char bytes[];
};

struct weir_arena {
    struct block *blocks; /* the one that is given out from, then those that are full */
};

struct weir_arena *weir_arena_new(void)
{
    return calloc(1, sizeof(struct weir_arena));
}

struct weir_arena *weir_arena_free(struct weir_arena *arena)
{
    if (arena == NULL)
        return NULL;
    while (arena->blocks != NULL) {
        struct block *block = arena->blocks;
        arena->blocks = block->next;
        free(block);
    }
    free(arena);
    return NULL;
}

/* False: `size` is too close to SIZE_MAX. */
static bool round_up(size_t *size)
{
    size_t unit = alignof(max_align_t);
    if (*size > SIZE_MAX - sizeof(struct block) - unit)
        return false;
    *size = (*size + unit - 1) / unit * unit;
    return true;
}

static bool add_block(struct weir_arena *arena, size_t size)
{
    size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
    struct block *block = calloc(1, sizeof *block + room);
    if (block == NULL)
        return false;
    *block = (struct block){ .next = arena->blocks, .size = room };
    arena->blocks = block;
    return true;
}

void *weir_arena_array(struct weir_arena *arena, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total) || !round_up(&total))
        return NULL;

    struct block *block = arena->blocks;
    if (block == NULL || total > block->size - block->used) {
        if (!add_block(arena, total))
            return NULL;
        block = arena->blocks;
    }
    void *piece = block->bytes + block->used;
    block->used += total;
    return piece;
}

char *weir_arena_copy(struct weir_arena *arena, struct weir_text text)
{
    char *copy = text.length == SIZE_MAX ? NULL : weir_arena_array(arena, text.length + 1, 1);
    if (copy != NULL && text.length > 0)
        memcpy(copy, text.at, text.length);
    return copy;
}
