#include "store/redis_batch.h"

#include <string.h>

#include "store/redis_slot.h"

#define NOBODY UINT8_MAX

/* Of a call, in tenths of a µs. */
#define CALL_COST_MAX 1600

#define TIME_BYTES  8
#define USED_BYTES  8
#define STATE_BYTES 16

/* keys */

/* The place of a key, or the one that it can take. */
static struct weir_redis_key_place *place_of(struct weir_redis_batcher *batcher,
                                             struct weir_text text, uint32_t hash)
{
    for (size_t at = hash;; at++) {
        struct weir_redis_key_place *place = &batcher->keys[at & (WEIR_REDIS_KEY_PLACES - 1)];
        if (!place->is_taken
            || (place->hash == hash
                && weir_text_equal(batcher->items[place->item].plan.keys[place->key], text)))
            return place;
    }
}

static uint32_t hash_of(struct weir_text text)
{
    uint64_t hash = weir_text_fnv(text);
    return (uint32_t)(hash ^ hash >> 32);
}

/* Kinds are written in the order in which they came up. False: one of the keys is of a later one. */
static bool hash_keys(struct weir_redis_batcher *batcher, const struct weir_redis_gathered *item,
                      uint32_t hashes[WEIR_CHECK_LIMITS])
{
    for (size_t i = 0; i < item->plan.shape.key_count; i++) {
        hashes[i] = hash_of(item->plan.keys[i]);
        const struct weir_redis_key_place *place = place_of(batcher, item->plan.keys[i], hashes[i]);
        if (place->is_taken && batcher->items[place->item].kind > item->kind)
            return false;
    }
    return true;
}

static void keep_keys(struct weir_redis_batcher *batcher, uint8_t index,
                      const uint32_t hashes[WEIR_CHECK_LIMITS])
{
    struct weir_redis_gathered *item = &batcher->items[index];
    bool is_lone_key = item->plan.shape.key_count == 1;
    for (uint8_t i = 0; i < item->plan.shape.key_count; i++) {
        struct weir_redis_key_place *place = place_of(batcher, item->plan.keys[i], hashes[i]);
        struct weir_redis_gathered *last = place->is_taken ? &batcher->items[place->item] : NULL;
        if (last != NULL && last->kind == item->kind && is_lone_key) {
            last->twin = index;
            item->is_twin = true;
        }
        batcher->key_count += !place->is_taken;
        *place = (struct weir_redis_key_place){
            .hash = hashes[i], .item = index, .key = i, .is_taken = true
        };
    }
}

/* kinds */

static bool goes_alone(const struct weir_redis_gathered *item)
{
    const uint8_t alone = WEIR_REDIS_WITH_ASKING | WEIR_REDIS_BY_ITSELF;
    return (item->command.how & alone) != 0 || !weir_redis_shape_can_batch(&item->plan.shape);
}

/* Ids are sent once for all. */
static bool has_same_ids(const struct weir_redis_plan *plan, const struct weir_redis_plan *other)
{
    for (size_t i = 0; i < plan->shape.count; i++)
        if (plan->shape.places[plan->shape.key_of[i]] == WEIR_REDIS_GROUP
            && plan->ids[i] != other->ids[i])
            return false;
    return true;
}

static bool is_alike(const struct weir_redis_gathered *item,
                     const struct weir_redis_gathered *other)
{
    return !other->is_single && item->slot == other->slot && item->told_us == other->told_us
           && item->command.how == other->command.how
           && memcmp(&item->plan.shape, &other->plan.shape, sizeof item->plan.shape) == 0
           && has_same_ids(&item->plan, &other->plan);
}

/* The kind of an item, or a new one. */
static uint8_t kind_of(const struct weir_redis_batcher *batcher,
                       const struct weir_redis_gathered *item)
{
    size_t kind = item->is_single ? batcher->kind_count : 0;
    while (kind < batcher->kind_count && !is_alike(item, &batcher->items[batcher->first_of[kind]]))
        kind++;
    return (uint8_t)kind;
}

static void begin_kind(struct weir_redis_batcher *batcher)
{
    bool is_there = batcher->kind_at < batcher->kind_count;
    batcher->item_at = is_there ? batcher->first_of[batcher->kind_at] : NOBODY;
    batcher->head_at = batcher->item_at;
}

static void join_kind(struct weir_redis_batcher *batcher, uint8_t index)
{
    uint8_t kind = batcher->items[index].kind;
    if (kind == batcher->kind_count)
        batcher->first_of[batcher->kind_count++] = index;
    else
        batcher->items[batcher->last_of[kind]].next = index;
    batcher->last_of[kind] = index;
    begin_kind(batcher);
}

/* gathering */

void weir_redis_batcher_clear(struct weir_redis_batcher *batcher)
{
    batcher->count = batcher->kind_count = batcher->kind_at = 0;
    if (batcher->key_count > 0)
        memset(batcher->keys, 0, sizeof batcher->keys);
    batcher->key_count = 0;
    batcher->item_at = NOBODY;
}

static bool has_room(const struct weir_redis_batcher *batcher)
{
    return batcher->count < WEIR_REDIS_GATHERED_MAX
           && batcher->key_count + WEIR_CHECK_LIMITS <= WEIR_REDIS_KEY_PLACES / 2;
}

bool weir_redis_batcher_add(struct weir_redis_batcher *batcher,
                            const struct weir_redis_command *command, bool by_slot,
                            uint64_t told_us)
{
    uint32_t hashes[WEIR_CHECK_LIMITS];
    if (!has_room(batcher))
        return false;
    uint8_t index = (uint8_t)batcher->count;
    struct weir_redis_gathered *item = &batcher->items[index];
    item->command = *command;
    item->next = item->twin = NOBODY;
    item->is_twin = false;
    weir_redis_plan_make(&item->plan, command->check);
    item->told_us = told_us;
    item->slot = by_slot ? weir_redis_slot(item->plan.keys[0]) : 0;
    item->is_single = goes_alone(item);
    item->kind = kind_of(batcher, item);
    if (!hash_keys(batcher, item, hashes))
        return false;
    keep_keys(batcher, index, hashes);
    join_kind(batcher, index);
    batcher->count++;
    return true;
}

/* calls */

/* Goes on to the next check with the same key, or to the first one with the next key. */
static void advance(struct weir_redis_batcher *batcher)
{
    const struct weir_redis_gathered *items = batcher->items;
    batcher->item_at = items[batcher->item_at].twin;
    if (batcher->item_at != NOBODY)
        return;
    do
        batcher->head_at = items[batcher->head_at].next;
    while (batcher->head_at != NOBODY && items[batcher->head_at].is_twin);
    batcher->item_at = batcher->head_at;
    if (batcher->item_at == NOBODY) {
        batcher->kind_at++;
        begin_kind(batcher);
    }
}

static size_t key_bytes_of(const struct weir_redis_plan *plan)
{
    size_t bytes = 0;
    for (size_t i = 0; i < plan->shape.key_count; i++)
        bytes += plan->keys[i].length;
    return bytes;
}

/* About how long Redis takes for one such check, in tenths of a µs (bench_redis): most of it goes to
 * reading and writing each key. */
static size_t cost_of(const struct weir_redis_shape *shape)
{
    size_t cost = 20U * shape->key_count + 5U * shape->count;
    for (size_t i = 0; i < shape->count; i++)
        if (shape->variants[i] == WEIR_REDIS_TOKEN_PARTS)
            cost += 20;
    return cost;
}

/* Redis serves nobody else while it decides a call. */
static bool fits(const struct weir_redis_call *call, const struct weir_redis_plan *plan,
                 size_t key_bytes)
{
    if (call->count == 0)
        return true;
    return call->count < WEIR_REDIS_BATCH_CHECKS_MAX
           && (call->count + 1) * plan->shape.count <= WEIR_REDIS_BATCH_LIMITS_MAX
           && (call->count + 1) * cost_of(&plan->shape) <= CALL_COST_MAX
           && key_bytes <= WEIR_REDIS_BATCH_KEY_BYTES_MAX;
}

bool weir_redis_batcher_next(struct weir_redis_batcher *batcher, struct weir_redis_call *call)
{
    size_t kind = batcher->kind_at;
    size_t key_bytes = 0;
    call->count = 0;
    while (batcher->item_at != NOBODY && batcher->kind_at == kind) {
        const struct weir_redis_plan *plan = &batcher->items[batcher->item_at].plan;
        if (!fits(call, plan, key_bytes))
            break;
        key_bytes += key_bytes_of(plan);
        call->at[call->count++] = batcher->item_at;
        advance(batcher);
    }
    return call->count > 0;
}

/* counting */

void weir_redis_batcher_count(struct weir_redis_batcher *batcher, size_t checks)
{
    atomic_fetch_add_explicit(&batcher->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&batcher->checks, checks, memory_order_relaxed);
}

struct weir_redis_call_numbers weir_redis_batcher_numbers(const struct weir_redis_batcher *batcher)
{
    return (struct weir_redis_call_numbers){
        .calls = atomic_load_explicit(&batcher->calls, memory_order_relaxed),
        .checks = atomic_load_explicit(&batcher->checks, memory_order_relaxed),
    };
}

/* replies */

/* What a lone limit's answer rests on, behind the time that all have in common. */
static const redisReply *used_part(const redisReply *all, size_t item, size_t count,
                                   struct weir_redis_part *part)
{
    if ((size_t)all->len != TIME_BYTES + USED_BYTES * count)
        return NULL;
    memcpy(part->bytes, all->str, TIME_BYTES);
    memcpy(part->bytes + TIME_BYTES, all->str + TIME_BYTES + USED_BYTES * item, USED_BYTES);
    part->reply = (redisReply){ .type = REDIS_REPLY_STRING, .str = part->bytes };
    part->reply.len = sizeof part->bytes;
    return &part->reply;
}

static const redisReply *states_part(const redisReply *all, size_t limits, size_t item,
                                     size_t count, struct weir_redis_part *part)
{
    size_t bytes = TIME_BYTES + STATE_BYTES * limits;
    if ((size_t)all->len != bytes * count)
        return NULL;
    part->reply = (redisReply){ .type = REDIS_REPLY_STRING, .str = all->str + bytes * item };
    part->reply.len = (__typeof__(part->reply.len))bytes;
    return &part->reply;
}

static const redisReply *error_part(const redisReply *text, struct weir_redis_part *part)
{
    part->reply = (redisReply){ .type = REDIS_REPLY_ERROR, .str = text->str, .len = text->len };
    return &part->reply;
}

static bool is_string(const redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_STRING && reply->str != NULL;
}

const redisReply *weir_redis_reply_part(const redisReply *reply, const struct weir_check *check,
                                        size_t item, size_t count, struct weir_redis_part *part)
{
    if (count == 1 || reply == NULL || reply->type == REDIS_REPLY_ERROR)
        return reply;
    const redisReply *all = reply;
    if (reply->type == REDIS_REPLY_ARRAY) {
        /* Some have failed: behind the answers a text for each check, "" where it has not. */
        if (reply->elements != count + 1 || !is_string(reply->element[item + 1]))
            return NULL;
        if (reply->element[item + 1]->len > 0)
            return error_part(reply->element[item + 1], part);
        all = reply->element[0];
    }
    if (!is_string(all))
        return NULL;
    return weir_redis_is_plain(check) ? used_part(all, item, count, part)
                                      : states_part(all, check->count, item, count, part);
}
