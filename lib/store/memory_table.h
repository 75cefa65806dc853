/* The memory store's table: many small open-addressing tables ("segments") in one stretch of
 * memory that is reserved at the start and taken from the system page by page as they fill. So
 * nothing is allocated later, and growing or evicting touches 4 KiB: nobody waits for it.
 *
 * A key is known by a keyed 64-bit hash alone. Its upper half chooses the segment, its lower half
 * the place in it. None of this locks: the store does, one segment or more at a time. */
#ifndef WEIR_STORE_MEMORY_TABLE_H
#define WEIR_STORE_MEMORY_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limit/sliding_log.h"

#define WEIR_SEGMENT_PLACES 128

/* In `high`: `first` is a pointer to a struct weir_ring, which belongs to the entry. */
#define WEIR_HIGH_RING (WEIR_HIGH_BLOCKED - 1)

struct weir_memory_entry {
    uint64_t hash;
    uint64_t first;           /* as in struct weir_state, or a ring                         */
    uint32_t low, high;       /* likewise                                                   */
    uint64_t expires_ms : 43; /* from then on the key counts as absent; 0: an empty place   */
    uint64_t used_at : 20;    /* the segment's tick when it was last put                    */
    uint64_t refuses : 1;     /* its last spend was refused: flooding must not forgive it   */
};

struct weir_segment {
    uint64_t soonest_us;    /* nothing in it expires before                      */
    uint32_t tick;          /* counts puts, to know which entry is the oldest     */
    _Atomic uint8_t chunks; /* of places in use; read without a lock to prefetch */
    uint8_t taken;          /* places that are not empty                         */
};

struct weir_memory_table {
    struct weir_memory_entry *entries;
    struct weir_segment *segments;
    size_t segment_count;
    _Atomic size_t most_chunks; /* of places in a segment, from now on */

    /* Takes back the ring of an entry that is forgotten or overwritten; NULL: there are none. */
    void (*give_ring)(void *owner, struct weir_ring *ring);
    void *owner;
};

#define WEIR_TICK_MASK ((UINT32_C(1) << 20) - 1)

static inline uint64_t weir_entry_expires_us(const struct weir_memory_entry *entry)
{
    return (uint64_t)entry->expires_ms * 1000;
}

/* Never earlier than `expires_us`. */
static inline void weir_entry_expire_at(struct weir_memory_entry *entry, uint64_t expires_us)
{
    entry->expires_ms = (expires_us + 999) / 1000 & ((UINT64_C(1) << 43) - 1);
}

/* NULL: it has none. */
static inline struct weir_ring *weir_entry_ring(const struct weir_memory_entry *entry)
{
    return entry->high == WEIR_HIGH_RING ? (struct weir_ring *)(uintptr_t)entry->first : NULL;
}

/* Hashes that must not be evicted: those of the plan that is being written. */
struct weir_keep {
    uint64_t hashes[8];
    size_t count;
};

/* As many segments as `budget_bytes` has room for; false: not even the fewest, or the system does
 * not give that much. */
bool weir_table_init(struct weir_memory_table *table, uint64_t budget_bytes);
void weir_table_finish(struct weir_memory_table *table);

size_t weir_table_segment(const struct weir_memory_table *table, uint64_t hash);

/* Tells the processor to fetch the entry's cache lines, which takes longer than all else that a
 * decision does. The one function on entries that needs no lock. */
void weir_table_prefetch(const struct weir_memory_table *table, uint64_t hash);

/* The entry, or NULL where there is none or it has expired. It stays in place until the next put
 * into the same segment. */
struct weir_memory_entry *weir_table_find(const struct weir_memory_table *table, uint64_t hash,
                                          uint64_t now_us);

/* Finds or makes the entry, and sets its state and its last use; a ring that stood there and is not
 * the entry's is given back. A full segment first forgets what
 * has expired, then grows, and at its full size evicts one key: the one not used for the longest
 * time that is not refusing, or if all are, the one whose state ends first. */
void weir_table_put(struct weir_memory_table *table, const struct weir_memory_entry *entry,
                    uint64_t now_us, const struct weir_keep *keep);

/* Forgets the key, if it is there. */
void weir_table_remove(struct weir_memory_table *table, uint64_t hash);

/* making room for rings: of one segment */

/* Forgets what has expired. */
void weir_table_sweep(struct weir_memory_table *table, size_t segment, uint64_t now_us);

/* Whose ring may go: the one not used for the longest time that is not refusing, or the refusing one
 * whose state ends first. */
enum weir_ring_use { WEIR_RING_NOT_REFUSING, WEIR_RING_REFUSING };

/* When the state of the one that may go ends; UINT64_MAX: there is none. */
uint64_t weir_table_ring_ends_us(const struct weir_memory_table *table, size_t segment,
                                 enum weir_ring_use use, const struct weir_keep *keep);

/* Forgets it, its key included; false: there is none. */
bool weir_table_evict_ring(struct weir_memory_table *table, size_t segment, enum weir_ring_use use,
                           const struct weir_keep *keep);

/* Calls `visit` for each ring that may go. */
void weir_table_each_ring(const struct weir_memory_table *table, size_t segment,
                          const struct weir_keep *keep,
                          void (*visit)(void *self, const struct weir_ring *ring), void *self);

/* Leaving half of the memory to others, for good: first the most that a segment may have from now
 * on, then each segment that has more (evicting as above), then the pages. */
void weir_table_set_half(struct weir_memory_table *table);
void weir_table_halve(struct weir_memory_table *table, size_t segment, uint64_t now_us);
void weir_table_return_pages(struct weir_memory_table *table);

/* Of one segment: keys that have not expired, and bytes in use. */
size_t weir_table_live(const struct weir_memory_table *table, size_t segment, uint64_t now_us);
size_t weir_table_bytes(const struct weir_memory_table *table, size_t segment);

#endif
