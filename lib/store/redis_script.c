#include <string.h>

#include "store/redis_composer.h"
#include "store/redis_pieces.h"

static void put(const struct weir_redis_composer *composer, const char *piece)
{
    weir_redis_put_piece(composer, piece);
}

static void put_pieces(const struct weir_redis_composer *composer,
                       const char *const pieces[WEIR_REDIS_PIECES_MAX])
{
    for (size_t i = 0; i < WEIR_REDIS_PIECES_MAX; i++)
        put(composer, pieces[i]);
}

static const struct weir_redis_pieces *select_limit(struct weir_redis_composer *composer,
                                                    size_t limit)
{
    composer->limit = limit;
    composer->key = composer->shape->key_of[limit];
    return weir_redis_pieces_of((enum weir_redis_variant)composer->shape->variants[limit]);
}

static void put_reads(struct weir_redis_composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    for (composer->key = 0; composer->key < shape->key_count; composer->key++) {
        bool is_group = shape->places[composer->key] == WEIR_REDIS_GROUP;
        bool is_read = is_group || shape->operation != WEIR_RESET;
        if (shape->places[composer->key] == WEIR_REDIS_RING || !is_read)
            continue;
        put(composer, weir_lua_group_read_begin);
        put(composer, is_group ? weir_lua_group_read_group : weir_lua_group_read_alone);
    }
}

static void put_lasting(struct weir_redis_composer *composer, size_t key)
{
    for (size_t i = 0; i < composer->shape->count; i++) {
        if (composer->shape->key_of[i] != key)
            continue;
        const struct weir_redis_pieces *pieces = select_limit(composer, i);
        put(composer, weir_lua_frame_lasts_begin);
        put(composer, pieces->lasts);
        put(composer, weir_lua_frame_lasts_end);
    }
}

static void put_lengthening(struct weir_redis_composer *composer, size_t key)
{
    for (size_t i = 0; i < composer->shape->count; i++) {
        const struct weir_redis_pieces *pieces = select_limit(composer, i);
        if (composer->key != key || pieces->lengthen[0] == NULL)
            continue;
        put(composer, weir_lua_frame_lengthen_begin);
        put_pieces(composer, pieces->lengthen);
        put(composer, weir_lua_frame_end);
    }
}

static void put_write(struct weir_redis_composer *composer, size_t key)
{
    const struct weir_redis_shape *shape = composer->shape;
    bool is_group = shape->places[key] == WEIR_REDIS_GROUP;
    bool has_numbers = shape->operation == WEIR_SPEND || shape->operation == WEIR_SETTLE;
    composer->key = key;
    put(composer, weir_lua_group_write_begin);
    if (shape->operation != WEIR_RESET)
        put_lasting(composer, key);
    composer->key = key;
    put(composer, weir_lua_group_write_middle);
    if (has_numbers)
        put_lengthening(composer, key);
    composer->key = key;
    put(composer, is_group ? weir_lua_group_write_end_group : weir_lua_group_write_end_alone);
}

static void put_writes(struct weir_redis_composer *composer)
{
    for (size_t key = 0; key < composer->shape->key_count; key++)
        if (composer->shape->places[key] != WEIR_REDIS_RING)
            put_write(composer, key);
}

static void put_repairs(struct weir_redis_composer *composer)
{
    for (composer->key = 0; composer->key < composer->shape->key_count; composer->key++)
        if (composer->shape->places[composer->key] != WEIR_REDIS_RING)
            put(composer, weir_lua_group_repair);
}

static bool is_penalty(const struct weir_redis_shape *shape, size_t limit)
{
    return limit < shape->count && shape->variants[limit] == WEIR_REDIS_PENALTY;
}

static const char *limit_piece(const struct weir_redis_shape *shape, size_t limit)
{
    if (is_penalty(shape, limit))
        return weir_lua_penalty_limit;
    return shape->variants[limit] == WEIR_REDIS_ZERO ? weir_lua_zero_limit : weir_lua_frame_limit;
}

static void put_decision(struct weir_redis_composer *composer, size_t limit)
{
    const struct weir_redis_pieces *pieces = select_limit(composer, limit);
    bool has_state = !weir_redis_is_ring(composer->shape, limit);
    bool may_be_blocked = has_state && !is_penalty(composer->shape, limit);
    if (has_state)
        put(composer, limit_piece(composer->shape, limit));
    put_pieces(composer, pieces->arguments);
    if (may_be_blocked)
        put(composer, weir_lua_frame_decide_begin);
    put_pieces(composer, pieces->decide);
    if (may_be_blocked)
        put(composer, weir_lua_frame_end);
}

static void put_spending(struct weir_redis_composer *composer, size_t limit)
{
    const struct weir_redis_pieces *pieces = select_limit(composer, limit);
    if (pieces->spend == NULL)
        return;
    bool has_state = !weir_redis_is_ring(composer->shape, limit);
    if (has_state)
        put(composer, weir_lua_frame_spend_begin);
    put(composer, pieces->spend);
    if (has_state)
        put(composer, weir_lua_frame_end);
}

static bool logs_refusals(const struct weir_redis_shape *shape)
{
    return memchr(shape->variants, WEIR_REDIS_LOG_ALL, shape->count) != NULL;
}

static void put_refusing(struct weir_redis_composer *composer)
{
    put(composer, weir_lua_frame_refuse);
    for (size_t i = 0; i < composer->shape->count; i++) {
        select_limit(composer, i);
        if (composer->shape->variants[i] == WEIR_REDIS_LOG_ALL)
            put(composer, is_penalty(composer->shape, i + 1) ? weir_lua_penalty_refuse_all
                                                             : weir_lua_sliding_log_refuse_all);
    }
}

/* Puts a piece for each ring. */
static void put_for_rings(struct weir_redis_composer *composer, const char *piece)
{
    for (size_t i = 0; i < composer->shape->count; i++) {
        select_limit(composer, i);
        if (weir_redis_is_ring(composer->shape, i))
            put(composer, piece);
    }
}

static void put_deciding(struct weir_redis_composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    for (size_t i = 0; i < shape->count; i++)
        put_decision(composer, i);
    put(composer, weir_lua_frame_spend_all);
    for (size_t i = 0; i < shape->count; i++)
        put_spending(composer, i);
    if (logs_refusals(shape))
        put_refusing(composer);
    put(composer, weir_lua_frame_end);
}

static void compose_spend(struct weir_redis_composer *composer)
{
    bool is_plain = composer->shape->is_plain;
    put_reads(composer);
    put_deciding(composer);
    put_for_rings(composer, weir_lua_sliding_log_reply);
    put_for_rings(composer, weir_lua_sliding_log_keep);
    put_repairs(composer);
    put_writes(composer);
    put(composer, is_plain ? weir_lua_frame_reply_used : weir_lua_frame_reply_states);
}

static void put_states_before(struct weir_redis_composer *composer)
{
    for (composer->key = 0; composer->key < composer->shape->key_count; composer->key++)
        put(composer, weir_lua_batch_states);
}

/* The same in a loop over many checks, none of which has rings or penalties. */
static void compose_batch(struct weir_redis_composer *composer)
{
    bool is_plain = composer->shape->is_plain;
    put(composer, is_plain ? NULL : weir_lua_batch_time);
    put(composer, weir_lua_batch_loop);
    put_reads(composer);
    put(composer, weir_lua_batch_check);
    if (!is_plain)
        put_states_before(composer);
    put_deciding(composer);
    put(composer, weir_lua_batch_write);
    put_repairs(composer);
    put_writes(composer);
    put(composer, weir_lua_frame_end);
    put(composer, is_plain ? weir_lua_batch_reply_used : weir_lua_batch_reply_states);
    put(composer, weir_lua_batch_end);
    put(composer, is_plain ? weir_lua_batch_all_used : weir_lua_batch_all_states);
    put(composer, weir_lua_batch_reply);
}

static void compose_settle(struct weir_redis_composer *composer)
{
    put_reads(composer);
    for (size_t i = 0; i < composer->shape->count; i++) {
        const struct weir_redis_pieces *pieces = select_limit(composer, i);
        bool has_state = !weir_redis_is_ring(composer->shape, i);
        bool may_be_blocked = has_state && !is_penalty(composer->shape, i);
        if (has_state)
            put(composer, limit_piece(composer->shape, i));
        put_pieces(composer, pieces->settle_arguments);
        if (may_be_blocked)
            put(composer, weir_lua_frame_settle_begin);
        put_pieces(composer, pieces->settle);
        if (may_be_blocked)
            put(composer, weir_lua_frame_settle_end);
    }
    put_writes(composer);
    put(composer, weir_lua_frame_reply_done);
}

/* The same for all algorithms. */
static void compose_reset(struct weir_redis_composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    put_reads(composer);
    for (composer->key = 0; composer->key < shape->key_count; composer->key++) {
        bool is_group = shape->places[composer->key] == WEIR_REDIS_GROUP;
        put(composer, is_group ? weir_lua_group_reset_group : weir_lua_frame_reset);
    }
    for (size_t key = 0; key < shape->key_count; key++)
        if (shape->places[key] == WEIR_REDIS_GROUP)
            put_write(composer, key);
    put(composer, weir_lua_frame_reply_done);
}

/* The same for all algorithms that keep a state, but a penalty, which stays as it is. */
static void compose_block(struct weir_redis_composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    put_reads(composer);
    for (size_t i = 0; i < shape->count; i++) {
        select_limit(composer, i);
        if (is_penalty(shape, i)) {
            put(composer, limit_piece(shape, i));
            continue;
        }
        put(composer,
            weir_redis_is_ring(shape, i) ? weir_lua_sliding_log_block : weir_lua_frame_block);
    }
    put_writes(composer);
    put(composer, weir_lua_frame_reply_done);
}

static void put_ring_functions(struct weir_redis_composer *composer)
{
    bool spends = composer->shape->operation == WEIR_SPEND;
    put(composer, weir_lua_sliding_log_functions);
    put(composer, spends ? weir_lua_sliding_log_functions_to_spend
                         : weir_lua_sliding_log_functions_to_settle);
    if (logs_refusals(composer->shape))
        put(composer, weir_lua_sliding_log_functions_to_refuse);
}

/* Functions that the pieces of some variants call. */
static void put_functions(struct weir_redis_composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    bool has_numbers = shape->operation == WEIR_SPEND || shape->operation == WEIR_SETTLE;
    bool needs_share = false, has_ring = false, has_ban = false;
    for (size_t i = 0; has_numbers && i < shape->count; i++) {
        uint8_t variant = shape->variants[i];
        has_ring = has_ring || weir_redis_is_ring(shape, i);
        has_ban = has_ban || (is_penalty(shape, i) && shape->operation == WEIR_SPEND);
        needs_share = needs_share || variant == WEIR_REDIS_COUNTER
                      || variant == WEIR_REDIS_TOKEN_PARTS || variant == WEIR_REDIS_TOKEN;
    }
    if (needs_share)
        put(composer, weir_lua_share_function);
    if (has_ring)
        put_ring_functions(composer);
    if (has_ban)
        put(composer, weir_lua_penalty_function);
}

static bool needs_sub(const struct weir_redis_shape *shape)
{
    return shape->is_batch || !shape->is_plain || shape->places[0] != WEIR_REDIS_ALONE;
}

void weir_redis_script_compose(struct weir_buffer *out, const struct weir_redis_shape *shape,
                               enum weir_redis_clock clock)
{
    struct weir_redis_composer composer = { .out = out, .shape = shape };
    put(&composer, shape->is_batch ? weir_lua_batch_begin : NULL);
    put(&composer,
        clock == WEIR_REDIS_OWN_CLOCK ? weir_lua_frame_clock : weir_lua_frame_clock_of_test);
    put(&composer, needs_sub(shape) ? weir_lua_frame_sub : NULL);
    put_functions(&composer);
    switch ((enum weir_operation)shape->operation) {
    case WEIR_SPEND:
        if (shape->is_batch)
            compose_batch(&composer);
        else
            compose_spend(&composer);
        return;
    case WEIR_SETTLE:
        compose_settle(&composer);
        return;
    case WEIR_RESET:
        compose_reset(&composer);
        return;
    case WEIR_BLOCK:
        compose_block(&composer);
        return;
    case WEIR_EXCHANGE:
        put(&composer, weir_lua_exchange_text);
        return;
    }
}
