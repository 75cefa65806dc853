#include "store/memory_rings.h"

#include <stdlib.h>

/* What malloc() takes for a ring: its head, and whole units of it. */
#define MALLOC_BYTES 16

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

static size_t bytes_of(uint32_t size)
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

/* making room */

static size_t next_segment(const struct weir_memory_rings *rings, size_t segment)
{
    size_t next = segment + rings->stride;
    return next < rings->table->segment_count ? next : segment % rings->stride;
}

static void sweep(struct weir_memory_rings *rings, const struct weir_ring_place *place)
{
    size_t segment = place->segment;
    do {
        weir_table_sweep(rings->table, segment, place->now_us);
        segment = next_segment(rings, segment);
    } while (segment != place->segment);
}

static void add_bytes(void *self, const struct weir_ring *ring)
{
    size_t *bytes = self;
    *bytes += bytes_of(ring->size);
}

/* Whether it would be enough if all went that may; else nobody goes in vain. */
static bool can_help(const struct weir_memory_rings *rings, size_t bytes,
                     const struct weir_ring_place *place)
{
    size_t gain = 0, segment = place->segment;
    do {
        weir_table_each_ring(rings->table, segment, place->keep, add_bytes, &gain);
        size_t used = atomic_load_explicit(&rings->bytes, memory_order_relaxed);
        if (used + bytes <= rings->most_bytes + gain)
            return true;
        segment = next_segment(rings, segment);
    } while (segment != place->segment);
    return false;
}

static void evict_not_refusing(struct weir_memory_rings *rings, size_t bytes,
                               const struct weir_ring_place *place)
{
    size_t segment = place->segment;
    do {
        while (!fits(rings, bytes)
               && weir_table_evict_ring(rings->table, segment, WEIR_RING_NOT_REFUSING, place->keep))
            continue;
        segment = next_segment(rings, segment);
    } while (segment != place->segment && !fits(rings, bytes));
}

/* Of those that refuse, the one whose state ends first; false: there is none. */
static bool evict_refusing(struct weir_memory_rings *rings, const struct weir_ring_place *place)
{
    size_t segment = place->segment, first = segment;
    uint64_t soonest_us = UINT64_MAX;
    do {
        uint64_t ends_us =
            weir_table_ring_ends_us(rings->table, segment, WEIR_RING_REFUSING, place->keep);
        if (ends_us < soonest_us) {
            soonest_us = ends_us;
            first = segment;
        }
        segment = next_segment(rings, segment);
    } while (segment != place->segment);
    return weir_table_evict_ring(rings->table, first, WEIR_RING_REFUSING, place->keep);
}

static void make_room(struct weir_memory_rings *rings, size_t bytes,
                      const struct weir_ring_place *place)
{
    sweep(rings, place);
    if (fits(rings, bytes) || bytes > rings->most_bytes || !can_help(rings, bytes, place))
        return;
    evict_not_refusing(rings, bytes, place);
    while (!fits(rings, bytes) && evict_refusing(rings, place))
        continue;
}

/* taking and giving */

struct weir_ring *weir_rings_take(struct weir_memory_rings *rings, uint32_t size,
                                  const struct weir_ring_place *place)
{
    size_t bytes = bytes_of(size);
    if (!book(rings, bytes)) {
        make_room(rings, bytes, place);
        if (!book(rings, bytes))
            return NULL;
    }
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
    atomic_fetch_sub_explicit(&ours->bytes, bytes_of(ring->size), memory_order_relaxed);
    free(ring);
}
