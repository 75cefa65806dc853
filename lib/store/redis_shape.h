/* What kind of check this is, as far as the script that carries it out depends on it: which limits,
 * which of them lie together under one key, and what is to be done. All checks of one shape share a
 * script; the numbers in them are its arguments. */
#ifndef WEIR_STORE_REDIS_SHAPE_H
#define WEIR_STORE_REDIS_SHAPE_H

#include <weir/store.h>

#include "base/text.h"

/* An algorithm, or a form of one that has a piece of script of its own. "Parts" is for rates whose
 * interval is not whole microseconds. */
enum weir_redis_variant {
    WEIR_REDIS_ZERO, /* a limit of nothing, by any algorithm but the log */
    WEIR_REDIS_GCRA,
    WEIR_REDIS_GCRA_PARTS,
    WEIR_REDIS_TOKEN,
    WEIR_REDIS_TOKEN_PARTS,
    WEIR_REDIS_LEAKY,
    WEIR_REDIS_LEAKY_PARTS,
    WEIR_REDIS_WINDOW,
    WEIR_REDIS_WINDOW_FIRST,
    WEIR_REDIS_WINDOW_CALENDAR,
    WEIR_REDIS_COUNTER,
    WEIR_REDIS_LOG,
    WEIR_REDIS_LOG_ALL, /* refusals too */
    WEIR_REDIS_PENALTY,
    WEIR_REDIS_VARIANTS
};

/* How a key is used. */
enum weir_redis_key_use {
    WEIR_REDIS_ALONE, /* one limit's state                                  */
    WEIR_REDIS_GROUP, /* states of several limits, each found by its id     */
    WEIR_REDIS_RING   /* a sliding log's entries                            */
};

/* Bytes only, so that two shapes are the same if their memory is. */
struct weir_redis_shape {
    uint8_t operation; /* enum weir_operation                                             */
    uint8_t is_plain;  /* a lone gcra limit, answered by one number                       */
    uint8_t count;
    uint8_t key_count;
    uint8_t is_batch; /* many checks of this shape in one call                              */
    uint8_t variants[WEIR_CHECK_LIMITS];
    uint8_t key_of[WEIR_CHECK_LIMITS]; /* each limit's key; those of one key in the plan's order */
    uint8_t places[WEIR_CHECK_LIMITS]; /* each key's; rings come last                            */
};

/* A check seen that way. */
struct weir_redis_plan {
    struct weir_redis_shape shape;
    struct weir_text keys[WEIR_CHECK_LIMITS];
    uint32_t ids[WEIR_CHECK_LIMITS]; /* each limit's within its group */
};

/* Takes a check without fault; keys are borrowed from it. Pure. */
void weir_redis_plan_make(struct weir_redis_plan *plan, const struct weir_check *check);

/* The shape's `is_plain`. Pure. */
bool weir_redis_is_plain(const struct weir_check *check);

/* Whether many checks of a shape can be decided in one call: what spends, but for sliding logs and
 * penalties, which cost so much more themselves that a call each does not matter. Pure. */
bool weir_redis_shape_can_batch(const struct weir_redis_shape *shape);

/* Two limits of one group whose ids are the same by chance, or a group with the key of a limit that
 * stands alone: neither could be told from the other. Pure. */
bool weir_redis_plan_has_twins(const struct weir_redis_plan *plan);

#endif
