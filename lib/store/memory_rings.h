/* The memory of sliding logs in a memory store: rings on the heap, of which all together stay in a
 * budget. A ring belongs to the table's entry that points to it.
 *
 * Where the budget is used up, others go, wherever in the table they are. The places that are looked
 * at move on around it, a few for each ring that is needed: how long that takes depends on how much
 * has to go, not on how much there is. Other segments' locks are tried, never waited for, so that no
 * two threads can wait for each other. */
#ifndef WEIR_STORE_MEMORY_RINGS_H
#define WEIR_STORE_MEMORY_RINGS_H

#include "store/memory_table.h"

struct weir_memory_rings {
    struct weir_memory_table *table;
    size_t stride; /* segments that one lock guards stand so far apart */
    size_t most_bytes;
    _Atomic size_t bytes;
    _Atomic size_t next; /* segment to be looked at, modulo the number of them */

    /* Takes a segment's lock, unless another thread has it; gives it back. NULL: there is one thread. */
    bool (*try_lock)(void *owner, size_t segment);
    void (*unlock)(void *owner, size_t segment);
    void *owner;
};

/* Whom a ring is for: a thread that holds the locks of the segments of all keys in `keep`, and of no
 * others. */
struct weir_ring_place {
    uint64_t now_us;
    const struct weir_keep *keep; /* keys whose rings must stay                  */
    size_t kept_bytes;            /* of their rings, and of those taken for them */
};

/* What a ring takes of the budget. */
size_t weir_rings_bytes(uint32_t size);

/* More entries than that a limit of so many units has only if some of them hold none any more. */
uint64_t weir_rings_most(uint64_t limit);

/* The size of a ring that must hold `needed` entries of a limit of so many units, with room for as
 * many again while each of them can have a unit of its own. */
uint32_t weir_rings_size(uint64_t limit, uint32_t needed);

/* Whether there is room beside so many bytes that must stay, if all others go. */
bool weir_rings_can_hold(const struct weir_memory_rings *rings, uint32_t size, size_t kept_bytes);

/* A ring with nothing in it. Where the budget is used up, others are forgotten with their keys: those
 * that have expired; then, of the segments that were looked at, those that may go first, as
 * weir_table_put() has it. NULL: what must stay leaves no room, and nobody has gone in vain; or other
 * threads held on to all that could go; or the system has no memory. Without a place nobody else goes,
 * and it is NULL where the budget is used up. */
struct weir_ring *weir_rings_take(struct weir_memory_rings *rings, uint32_t size,
                                  const struct weir_ring_place *place);

/* Frees a ring; what a table calls as give_ring, with the rings as its owner. Accepts NULL. */
void weir_rings_give(void *rings, struct weir_ring *ring);

#endif
