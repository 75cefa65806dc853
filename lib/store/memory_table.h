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

#define WEIR_SEGMENT_PLACES 128

struct weir_memory_entry {
    uint64_t hash;
    uint64_t first;        /* as in struct weir_state                                    */
    uint64_t expires_us;   /* from then on the key counts as absent; 0: an empty place   */
    uint32_t second;       /* as in struct weir_state; units and parts fit               */
    uint32_t used_at : 31; /* the segment's tick when it was last put                    */
    uint32_t refuses : 1;  /* its last spend was refused: flooding must not forgive it   */
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
};

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

/* Finds or makes the entry, and sets its state and its last use. A full segment first forgets what
 * has expired, then grows, and at its full size evicts one key: the one not used for the longest
 * time that is not refusing, or if all are, the one whose state ends first. */
void weir_table_put(struct weir_memory_table *table, const struct weir_memory_entry *entry,
                    uint64_t now_us, const struct weir_keep *keep);

/* Of one segment: keys that have not expired, and bytes in use. */
size_t weir_table_live(const struct weir_memory_table *table, size_t segment, uint64_t now_us);
size_t weir_table_bytes(const struct weir_memory_table *table, size_t segment);

#endif
