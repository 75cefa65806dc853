/* How numbers are counted that every thread adds to and that are seldom read: each thread adds to one of
 * a few copies, which stand in cache lines of their own, and who reads adds the copies up. */
#ifndef WEIR_OBSERVE_SHARDS_H
#define WEIR_OBSERVE_SHARDS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define WEIR_SHARD_BITS 3
#define WEIR_SHARDS     (1u << WEIR_SHARD_BITS)

/* Memory that two cores change moves between them by this. */
#define WEIR_CACHE_LINE_BYTES 64

/* The copy of the calling thread. Threads' handles lie at equal distances, and a multiplication by the
 * golden ratio spreads such a row evenly (Knuth, The Art of Computer Programming 3, 6.4). */
static inline unsigned weir_shard(void)
{
    uint64_t self = (uint64_t)pthread_self() >> 12;
    return (unsigned)(self * UINT64_C(0x9E3779B97F4A7C15) >> (64 - WEIR_SHARD_BITS));
}

/* Relaxed: a number is exact once its threads have come to rest, and orders nothing else. */
static inline void weir_shard_add(atomic_uint_fast64_t *number, uint64_t more)
{
    atomic_fetch_add_explicit(number, more, memory_order_relaxed);
}

static inline uint64_t weir_shard_read(const atomic_uint_fast64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

#endif
