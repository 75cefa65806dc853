/* The memory of sliding logs in a memory store: rings on the heap, of which all together stay in a
 * budget. A ring belongs to the table's entry that points to it. */
#ifndef WEIR_STORE_MEMORY_RINGS_H
#define WEIR_STORE_MEMORY_RINGS_H

#include "store/memory_table.h"

struct weir_memory_rings {
    struct weir_memory_table *table;
    size_t stride; /* segments that one lock guards stand so far apart */
    size_t most_bytes;
    _Atomic size_t bytes;
};

/* Where a ring is to be, by a thread that holds the segment's lock. */
struct weir_ring_place {
    size_t segment;
    uint64_t now_us;
    const struct weir_keep *keep; /* keys whose rings must stay */
};

/* More entries than that a limit of so many units has only if some of them hold none any more. */
uint64_t weir_rings_most(uint64_t limit);

/* The size of a ring that must hold `needed` entries of a limit of so many units, with room for as
 * many again while each of them can have a unit of its own. */
uint32_t weir_rings_size(uint64_t limit, uint32_t needed);

/* A ring with nothing in it. Where the budget is used up, others under the same lock are forgotten
 * with their keys: those that have expired; then those not used for the longest time that are not
 * refusing; then refusing ones, first those whose state ends first. NULL: nothing helped, and then
 * only expired ones are gone, or the system has no memory. */
struct weir_ring *weir_rings_take(struct weir_memory_rings *rings, uint32_t size,
                                  const struct weir_ring_place *place);

/* Frees a ring; what a table calls as give_ring, with the rings as its owner. Accepts NULL. */
void weir_rings_give(void *rings, struct weir_ring *ring);

#endif
