#include "store/memory_rings.h"

#include <stdlib.h>

/* What malloc() takes for a ring: its head, and whole units of it. */
#define MALLOC_BYTES 16

/* Segments that are compared before the least of them loses a ring: some 500 to 1000 rings. */
#define LOOKS 16

/* One place for each unit and some to spare, so that idle entries are cleared away only now and
 * then. */
uint64_t weir_rings_most(uint64_t limit)
{
    return limit + limit / 8 + 16;
}

uint32_t weir_rings_size(uint64_t limit, uint32_t needed)
{
    uint64_t size = 2 * (uint64_t)needed;
    if (size > weir_rings_most(limit))
        size = weir_rings_most(limit);
    if (size < 4)
        size = 4;
    return size < needed ? needed : (uint32_t)size;
}

/* the budget */

size_t weir_rings_bytes(uint32_t size)
{
    return (weir_ring_bytes(size) + 2 * MALLOC_BYTES - 1) / MALLOC_BYTES * MALLOC_BYTES;
}

static bool fits(const struct weir_memory_rings *rings, size_t bytes)
{
    size_t used = atomic_load_explicit(&rings->bytes, memory_order_relaxed);
    return bytes <= rings->most_bytes && used <= rings->most_bytes - bytes;
}

/* Takes bytes of the budget, of which another thread may have taken some since. */
static bool book(struct weir_memory_rings *rings, size_t bytes)
{
    size_t used = atomic_load_explicit(&rings->bytes, memory_order_relaxed);
    do {
        if (bytes > rings->most_bytes || used > rings->most_bytes - bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&rings->bytes, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* locks */

static bool is_held(const struct weir_memory_rings *rings, const struct weir_ring_place *place,
                    size_t segment)
{
    for (size_t i = 0; i < place->keep->count; i++) {
        size_t held = weir_table_segment(rings->table, place->keep->hashes[i]);
        if (held % rings->stride == segment % rings->stride)
            return true;
    }
    return false;
}

/* False: another thread is there. */
static bool enter(const struct weir_memory_rings *rings, const struct weir_ring_place *place,
                  size_t segment)
{
    return rings->try_lock == NULL || is_held(rings, place, segment)
           || rings->try_lock(rings->owner, segment);
}

static void leave(const struct weir_memory_rings *rings, const struct weir_ring_place *place,
                  size_t segment)
{
    if (rings->try_lock != NULL && !is_held(rings, place, segment))
        rings->unlock(rings->owner, segment);
}

/* making room */

/* Segments that were looked at, the one with the least worth first. */
struct looks {
    struct look {
        size_t segment;
        uint64_t worth;
    } list[LOOKS];
    size_t count;
    size_t passed; /* segments, with those that had nothing or were busy */
};

static void add_look(struct looks *looks, size_t segment, uint64_t worth)
{
    size_t at = looks->count++;
    for (; at > 0 && looks->list[at - 1].worth > worth; at--)
        looks->list[at] = looks->list[at - 1];
    looks->list[at] = (struct look){ .segment = segment, .worth = worth };
}

/* Forgets what has expired, and sees what else may go. */
static void look_at(const struct weir_memory_rings *rings, const struct weir_ring_place *place,
                    size_t segment, struct looks *looks)
{
    if (!weir_table_has_rings(rings->table, segment) || !enter(rings, place, segment))
        return;
    weir_table_sweep(rings->table, segment, place->now_us);
    uint64_t worth = weir_table_ring_worth(rings->table, segment, place->keep);
    leave(rings, place, segment);
    if (worth != UINT64_MAX)
        add_look(looks, segment, worth);
}

/* Where the last one left off, so that all segments lose alike. */
static void look_around(struct weir_memory_rings *rings, size_t bytes,
                        const struct weir_ring_place *place, struct looks *looks)
{
    size_t segments = rings->table->segment_count;
    while (looks->count < LOOKS && looks->passed < segments && !fits(rings, bytes)) {
        size_t next = atomic_fetch_add_explicit(&rings->next, 1, memory_order_relaxed);
        look_at(rings, place, next % segments, looks);
        looks->passed++;
    }
}

/* One ring of each segment that was looked at, as long as it is needed and they are of the least
 * standing that there is; false: all have gone meanwhile. */
static bool evict(struct weir_memory_rings *rings, size_t bytes,
                  const struct weir_ring_place *place, const struct looks *looks)
{
    bool is_any_gone = false;
    for (size_t i = 0; i < looks->count && !fits(rings, bytes); i++) {
        size_t segment = looks->list[i].segment;
        enum weir_standing standing = weir_worth_standing(looks->list[i].worth);
        if (standing > weir_worth_standing(looks->list[0].worth))
            break;
        if (!enter(rings, place, segment))
            continue;
        if (weir_table_evict_ring(rings->table, segment, standing, place->keep))
            is_any_gone = true;
        leave(rings, place, segment);
    }
    return is_any_gone;
}

bool weir_rings_can_hold(const struct weir_memory_rings *rings, uint32_t size, size_t kept_bytes)
{
    return kept_bytes <= rings->most_bytes
           && weir_rings_bytes(size) <= rings->most_bytes - kept_bytes;
}

/* False: all around the table there is none to be had. */
static bool make_room(struct weir_memory_rings *rings, size_t bytes,
                      const struct weir_ring_place *place)
{
    size_t in_vain = 0; /* segments since the last gain */
    while (!fits(rings, bytes) && in_vain < rings->table->segment_count) {
        struct looks looks = { .count = 0 };
        look_around(rings, bytes, place, &looks);
        in_vain = evict(rings, bytes, place, &looks) ? 0 : in_vain + looks.passed;
    }
    return fits(rings, bytes);
}

/* taking and giving */

struct weir_ring *weir_rings_take(struct weir_memory_rings *rings, uint32_t size,
                                  const struct weir_ring_place *place)
{
    size_t bytes = weir_rings_bytes(size);
    if (place != NULL && !weir_rings_can_hold(rings, size, place->kept_bytes))
        return NULL;
    while (!book(rings, bytes))
        if (place == NULL || !make_room(rings, bytes, place))
            return NULL;
    struct weir_ring *ring = malloc(weir_ring_bytes(size));
    if (ring == NULL)
        atomic_fetch_sub_explicit(&rings->bytes, bytes, memory_order_relaxed);
    else
        weir_ring_init(ring, size);
    return ring;
}

void weir_rings_give(void *rings, struct weir_ring *ring)
{
    struct weir_memory_rings *ours = rings;
    if (ring == NULL)
        return;
    atomic_fetch_sub_explicit(&ours->bytes, weir_rings_bytes(ring->size), memory_order_relaxed);
    free(ring);
}
