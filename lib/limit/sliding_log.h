/* A log of what was admitted, so that a limit holds for every stretch of time of one window. The
 * plainest of all limits, with no source of its own.
 *
 * An entry is a time and the units admitted at it, and counts for one window. A cost c is refused
 * when the sum of what counts + c > limit. The log is a ring of entries with running sums (modulo
 * 2^32), so that the sum of any stretch is one subtraction, and finding one a binary search. */
#ifndef WEIR_LIMIT_SLIDING_LOG_H
#define WEIR_LIMIT_SLIDING_LOG_H

#include "limit/algorithm.h"

/* Three words rather than a time of 64 bits, which would be aligned to 16 bytes in all. */
struct weir_ring_entry {
    uint32_t time_low, time_high; /* µs, on the ring's own clock     */
    uint32_t sum;                 /* of this entry and all before it */
};

/* Its memory is the caller's. */
struct weir_ring {
    uint32_t size;     /* places for entries                                                   */
    uint32_t first;    /* the place of the oldest                                              */
    uint32_t count;    /* entries                                                              */
    uint32_t before;   /* the running sum before the oldest                                    */
    uint64_t shift_us; /* the ring's clock is so much ahead of the store's, by which it was set
                        * back: all entries happened so much earlier than they say             */
    struct weir_ring_entry entries[];
};

/* Starts a ring of `size` places with nothing in it. */
void weir_ring_init(struct weir_ring *ring, uint32_t size);

size_t weir_ring_bytes(uint32_t size);

/* What a decision does to a ring. */
struct weir_ring_step {
    struct weir_answer answer;
    uint64_t at_us;      /* now, on the ring's clock                                             */
    uint64_t shift_us;   /* of the ring from now on; put right if the store's clock was set back  */
    uint32_t drops;      /* the oldest entries, which are to go                                   */
    uint32_t units;      /* to be logged; 0: none                                                 */
    uint64_t expires_us; /* when the ring stops to matter, by the store's clock; 0: nothing there */
};

/* Decides `spend`, whose limit is not 0; `ring` is NULL for a new key. Thread-safe: pure. */
struct weir_ring_step weir_sliding_log_decide(const struct weir_spend *spend,
                                              const struct weir_ring *ring, uint64_t now_us);

/* Whether there is anything to do. */
bool weir_ring_is_changed(const struct weir_ring *ring, const struct weir_ring_step *step);

/* Entries that the ring holds afterwards, which it must have places for. */
uint32_t weir_ring_count_after(const struct weir_ring *ring, const struct weir_ring_step *step);

void weir_ring_apply(struct weir_ring *ring, const struct weir_ring_step *step);

/* How many entries, but for the first `drops` and the newest, have no units any more: they were given
 * back. */
uint32_t weir_ring_idle(const struct weir_ring *ring, uint32_t drops);

/* Copies the entries but for the first `drops`, and but for the idle ones unless asked for; there
 * must be places for them. */
void weir_ring_copy(struct weir_ring *to, const struct weir_ring *from, uint32_t drops,
                    bool with_idle);

/* What a settlement does: from this entry on, all sums grow by so much (modulo 2^32). */
struct weir_ring_settlement {
    bool changes;
    uint32_t index; /* from the oldest */
    uint32_t more;
    uint64_t shift_us;
};

/* Settles `spend`, whose limit is not 0: the entry of its decision, as long as it counts.
 * Thread-safe: pure. */
struct weir_ring_settlement weir_sliding_log_settle(const struct weir_spend *spend,
                                                    const struct weir_ring *ring, uint64_t now_us);

void weir_ring_settle(struct weir_ring *ring, const struct weir_ring_settlement *settlement);

/* The answer, for a store that has decided elsewhere, from the units that count before this request,
 * the wait if it is refused, and how long until the newest entry before it leaves (0: there is none).
 * Pure. */
struct weir_answer weir_sliding_log_answer(const struct weir_spend *spend, uint64_t sum,
                                           uint64_t retry_us, uint64_t reset_us);

#endif
