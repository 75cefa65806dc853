#include "store/redis_shape.h"

#include <string.h>

static enum weir_redis_variant window_variant(const struct weir_spend *spend)
{
    if (spend->calendar != NULL)
        return WEIR_REDIS_WINDOW_CALENDAR;
    return spend->from_first ? WEIR_REDIS_WINDOW_FIRST : WEIR_REDIS_WINDOW;
}

static enum weir_redis_variant variant_of(const struct weir_spend *spend,
                                          enum weir_operation operation)
{
    bool has_parts = spend->rate.parts > 1;
    if (spend->algorithm == WEIR_SLIDING_LOG)
        return spend->logs_refusals && operation == WEIR_SPEND ? WEIR_REDIS_LOG_ALL
                                                               : WEIR_REDIS_LOG;
    if (spend->algorithm == WEIR_PENALTY && operation != WEIR_RESET)
        return WEIR_REDIS_PENALTY;
    /* To forget, to block and to exchange is the same for all. */
    if (spend->rate.limit == 0 || operation == WEIR_RESET || operation == WEIR_BLOCK
        || operation == WEIR_EXCHANGE)
        return WEIR_REDIS_ZERO;
    switch (spend->algorithm) {
    case WEIR_GCRA:
        return has_parts ? WEIR_REDIS_GCRA_PARTS : WEIR_REDIS_GCRA;
    case WEIR_TOKEN_BUCKET:
        return has_parts ? WEIR_REDIS_TOKEN_PARTS : WEIR_REDIS_TOKEN;
    case WEIR_LEAKY_BUCKET:
        return has_parts ? WEIR_REDIS_LEAKY_PARTS : WEIR_REDIS_LEAKY;
    case WEIR_FIXED_WINDOW:
        return window_variant(spend);
    case WEIR_SLIDING_COUNTER:
        return WEIR_REDIS_COUNTER;
    case WEIR_SLIDING_LOG:
    case WEIR_PENALTY:
        break;
    }
    return WEIR_REDIS_ZERO; /* not reached: nothing would pass */
}

static enum weir_redis_key_use place_of(const struct weir_spend *spend)
{
    if (spend->algorithm == WEIR_SLIDING_LOG)
        return WEIR_REDIS_RING;
    return spend->group_length > 0 ? WEIR_REDIS_GROUP : WEIR_REDIS_ALONE;
}

/* Lets a limit join its group's key, or adds a key. */
static uint8_t key_for(struct weir_redis_plan *plan, const struct weir_spend *spend)
{
    enum weir_redis_key_use place = place_of(spend);
    bool is_group = place == WEIR_REDIS_GROUP;
    struct weir_text key = { spend->key, is_group ? spend->group_length : spend->key_length };
    struct weir_redis_shape *shape = &plan->shape;
    for (uint8_t i = 0; is_group && i < shape->key_count; i++)
        if (shape->places[i] == place && weir_text_equal(plan->keys[i], key))
            return i;
    plan->keys[shape->key_count] = key;
    shape->places[shape->key_count] = (uint8_t)place;
    return shape->key_count++;
}

/* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/. Names in one policy, so nobody has a reason
 * to look for two that collide. */
static uint32_t id_of(const struct weir_spend *spend)
{
    uint32_t hash = 2166136261U;
    for (size_t i = spend->group_length; i < spend->key_length; i++)
        hash = (hash ^ (uint8_t)spend->key[i]) * 16777619U;
    return hash;
}

bool weir_redis_is_plain(const struct weir_check *check)
{
    return check->operation == WEIR_SPEND && check->count == 1
           && variant_of(&check->spends[0], WEIR_SPEND) == WEIR_REDIS_GCRA;
}

void weir_redis_plan_make(struct weir_redis_plan *plan, const struct weir_check *check)
{
    struct weir_redis_shape *shape = &plan->shape;
    memset(shape, 0, sizeof *shape);
    shape->operation = (uint8_t)check->operation;
    shape->count = (uint8_t)check->count;
    for (int rings = 0; rings < 2; rings++)
        for (size_t i = 0; i < check->count; i++)
            if ((check->spends[i].algorithm == WEIR_SLIDING_LOG) == rings)
                shape->key_of[i] = key_for(plan, &check->spends[i]);
    for (size_t i = 0; i < check->count; i++) {
        shape->variants[i] = (uint8_t)variant_of(&check->spends[i], check->operation);
        plan->ids[i] = id_of(&check->spends[i]);
    }
    shape->is_plain = weir_redis_is_plain(check);
}

bool weir_redis_plan_has_twins(const struct weir_redis_plan *plan)
{
    const struct weir_redis_shape *shape = &plan->shape;
    for (size_t i = 0; i < shape->count; i++)
        for (size_t j = 0; j < i; j++)
            if (shape->key_of[i] == shape->key_of[j] && plan->ids[i] == plan->ids[j])
                return true;
    for (size_t i = 0; i < shape->key_count; i++)
        for (size_t j = 0; j < i; j++)
            if (weir_text_equal(plan->keys[i], plan->keys[j]))
                return true;
    return false;
}

bool weir_redis_shape_can_batch(const struct weir_redis_shape *shape)
{
    for (size_t i = 0; i < shape->count; i++)
        if (shape->variants[i] == WEIR_REDIS_PENALTY
            || shape->places[shape->key_of[i]] == WEIR_REDIS_RING)
            return false;
    return shape->operation == WEIR_SPEND;
}
