/* How long something took, in buckets. */
#ifndef WEIR_OBSERVE_HISTOGRAM_H
#define WEIR_OBSERVE_HISTOGRAM_H

#include <stddef.h>

#include "observe/shards.h"

#define WEIR_HISTOGRAM_BOUNDS 12

/* The largest time of each bucket; what takes longer than the last falls into one more. */
extern const uint64_t weir_histogram_bounds_us[WEIR_HISTOGRAM_BOUNDS];

/* All zero: empty. */
struct weir_histogram {
    struct {
        _Alignas(WEIR_CACHE_LINE_BYTES) atomic_uint_fast64_t buckets[WEIR_HISTOGRAM_BOUNDS + 1];
        atomic_uint_fast64_t sum_us;
    } shards[WEIR_SHARDS];
};

/* Any thread; never blocks. */
void weir_histogram_note(struct weir_histogram *histogram, uint64_t took_us);

/* What was noted so far. */
struct weir_histogram_sums {
    uint64_t upto[WEIR_HISTOGRAM_BOUNDS]; /* that took no longer than each bound */
    uint64_t count;
    uint64_t sum_us;
};

struct weir_histogram_sums weir_histogram_read(const struct weir_histogram *histogram);

/* The time that a part of all took at most, such as 0.99 of them: interpolated within a bucket, as
 * Prometheus's histogram_quantile() does; beyond the last bound it is that bound. 0: nothing was
 * noted. Pure. */
uint64_t weir_histogram_quantile_us(const struct weir_histogram_sums *sums, double part);

#endif
