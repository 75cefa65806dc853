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

/* What the next request like the last one would meet: the further down, the less may a flood of
 * other keys forgive it. */
enum weir_standing {
    WEIR_HAS_MORE, /* it passes                                                    */
    WEIR_USED_UP,  /* nothing is left, but nobody has been refused; anybody can make
                    * such keys without end                                        */
    WEIR_REFUSES,  /* the last one was refused, or the key is blocked              */
};

struct weir_memory_entry {
    uint64_t hash;
    uint64_t first;           /* as in struct weir_state, or a ring                         */
    uint32_t low, high;       /* likewise                                                   */
    uint64_t expires_ms : 43; /* from then on the key counts as absent; 0: an empty place   */
    uint64_t used_at : 19;    /* the segment's tick when it was last put                    */
    uint64_t standing : 2;    /* enum weir_standing                                         */
};

struct weir_segment {
    uint64_t soonest_us;    /* nothing in it expires before                      */
    uint32_t tick;          /* counts puts, to know which entry is the oldest     */
    _Atomic uint8_t chunks; /* of places in use; read without a lock to prefetch */
    uint8_t taken;          /* places that are not empty                         */
    _Atomic uint8_t rings;  /* entries with one; read without a lock to pass by  */
};

struct weir_memory_table {
    struct weir_memory_entry *entries;
    struct weir_segment *segments;
    size_t segment_count;
    _Atomic size_t most_chunks; /* of places in a segment, from now on */

    /* Takes back the ring of an entry that is forgotten or overwritten; NULL: there are none. */
    void (*give_ring)(void *owner, struct weir_ring *ring);
    void *owner;
    atomic_uint_fast64_t *evicted; /* the owner's, in which evictions are counted; NULL: nowhere */
};

#define WEIR_TICK_MASK ((UINT32_C(1) << 19) - 1)

/* The year 2248; a clock of a user's own may go beyond. What ends as late is kept until it is evicted
 * or overwritten: no limit must be forgotten at once. */
#define WEIR_EXPIRES_NEVER_MS ((UINT64_C(1) << 43) - 1)

static inline uint64_t weir_entry_expires_us(const struct weir_memory_entry *entry)
{
    return entry->expires_ms == WEIR_EXPIRES_NEVER_MS ? UINT64_MAX
                                                      : (uint64_t)entry->expires_ms * 1000;
}

/* Never earlier than `expires_us`. */
static inline void weir_entry_expire_at(struct weir_memory_entry *entry, uint64_t expires_us)
{
    uint64_t expires_ms = WEIR_EXPIRES_NEVER_MS;
    if (expires_us < WEIR_EXPIRES_NEVER_MS * 1000)
        expires_ms = (expires_us + 999) / 1000;
    /* The mask changes nothing: it shows the compiler that no bit is lost. */
    entry->expires_ms = expires_ms & WEIR_EXPIRES_NEVER_MS;
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
 * the entry's is given back. A full segment first forgets what has expired, then grows, and at its
 * full size evicts one key: of those that have more the one not used for the longest time; else of
 * those that are used up, or else of those that refuse, the one whose state ends first. */
void weir_table_put(struct weir_memory_table *table, const struct weir_memory_entry *entry,
                    uint64_t now_us, const struct weir_keep *keep);

/* Forgets the key, if it is there. */
void weir_table_remove(struct weir_memory_table *table, uint64_t hash);

/* making room for rings: of one segment */

/* Forgets what has expired. */
void weir_table_sweep(struct weir_memory_table *table, size_t segment, uint64_t now_us);

/* Whether it has any. Needs no lock: it may just change. */
bool weir_table_has_rings(const struct weir_memory_table *table, size_t segment);

/* How much it would be a pity to lose the ring that may go first, in the order of weir_table_put();
 * UINT64_MAX: there is none. Comparable between segments: a use counts as so long ago as there were
 * puts into its own segment since, and keys spread evenly over them. */
uint64_t weir_table_ring_worth(const struct weir_memory_table *table, size_t segment,
                               const struct weir_keep *keep);

/* The standing that a worth was of. */
enum weir_standing weir_worth_standing(uint64_t worth);

/* Forgets the ring that may go first, its key included, if its standing is at most this; false: there
 * is none. */
bool weir_table_evict_ring(struct weir_memory_table *table, size_t segment, enum weir_standing most,
                           const struct weir_keep *keep);

/* Leaving half of the memory to others, for good: first the most that a segment may have from now
 * on, then each segment that has more (evicting as above), then the pages. */
void weir_table_set_half(struct weir_memory_table *table);
void weir_table_halve(struct weir_memory_table *table, size_t segment, uint64_t now_us);
void weir_table_return_pages(struct weir_memory_table *table);

/* Of one segment: keys that have not expired, and bytes in use. */
size_t weir_table_taken(const struct weir_memory_table *table,
                        size_t segment); /* expired ones too */
size_t weir_table_live(const struct weir_memory_table *table, size_t segment, uint64_t now_us);
size_t weir_table_bytes(const struct weir_memory_table *table, size_t segment);

#endif
