/* A script under way: what redis_script.c puts together, of the pieces that redis_variants.c knows,
 * with the names in them as redis_names.c writes them. Not for others. */
#ifndef WEIR_STORE_REDIS_COMPOSER_H
#define WEIR_STORE_REDIS_COMPOSER_H

#include "store/redis_script.h"

#define WEIR_REDIS_PIECES_MAX 5

/* The pieces of a variant, in the order in which they stand. Some share those of another. */
struct weir_redis_pieces {
    bool has_high;       /* a sum in the state's `high`                                       */
    size_t number_count; /* the limit's numbers                                              */
    size_t own_count;    /* arguments of its own beside them, to spend                       */
    size_t settle_count; /* arguments, to settle                                             */
    const char *arguments[WEIR_REDIS_PIECES_MAX];
    const char *decide[WEIR_REDIS_PIECES_MAX];
    const char *spend;                           /* NULL: keeps nothing                      */
    const char *lasts;                           /* NULL: until `first`                      */
    const char *lengthen[WEIR_REDIS_PIECES_MAX]; /* none: lives as long as it must           */
    const char *longest;                         /* with those: for how long at most, in µs  */
    const char *settle_arguments[WEIR_REDIS_PIECES_MAX];
    const char *settle[WEIR_REDIS_PIECES_MAX];
};

const struct weir_redis_pieces *weir_redis_pieces_of(enum weir_redis_variant variant);

/* `limit` and `key` are what "_i" and "_g" stand for. */
struct weir_redis_composer {
    struct weir_buffer *out;
    const struct weir_redis_shape *shape;
    size_t limit, key;
};

/* Writes a piece with the names in it; NULL: nothing. */
void weir_redis_put_piece(const struct weir_redis_composer *composer, const char *piece);

static inline bool weir_redis_is_ring(const struct weir_redis_shape *shape, size_t limit)
{
    return shape->places[shape->key_of[limit]] == WEIR_REDIS_RING;
}

#endif
