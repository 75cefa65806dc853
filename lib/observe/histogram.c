#include "observe/histogram.h"

const uint64_t weir_histogram_bounds_us[WEIR_HISTOGRAM_BOUNDS] = {
    250, 500, 1000, 2500, 5000, 10000, 20000, 50000, 100000, 250000, 500000, 1000000,
};

/* Linear: answers are quick, so the first few bounds decide nearly all. */
static size_t bucket_of(uint64_t took_us)
{
    size_t bucket = 0;
    while (bucket < WEIR_HISTOGRAM_BOUNDS && took_us > weir_histogram_bounds_us[bucket])
        bucket++;
    return bucket;
}

void weir_histogram_note(struct weir_histogram *histogram, uint64_t took_us)
{
    unsigned shard = weir_shard();
    weir_shard_add(&histogram->shards[shard].buckets[bucket_of(took_us)], 1);
    weir_shard_add(&histogram->shards[shard].sum_us, took_us);
}

static uint64_t in_bucket(const struct weir_histogram *histogram, size_t bucket)
{
    uint64_t count = 0;
    for (size_t i = 0; i < WEIR_SHARDS; i++)
        count += weir_shard_read(&histogram->shards[i].buckets[bucket]);
    return count;
}

/* The count is the sum of what was read, so that it fits the buckets while others go on noting. */
struct weir_histogram_sums weir_histogram_read(const struct weir_histogram *histogram)
{
    struct weir_histogram_sums sums = { .count = 0 };
    for (size_t i = 0; i < WEIR_HISTOGRAM_BOUNDS; i++) {
        sums.count += in_bucket(histogram, i);
        sums.upto[i] = sums.count;
    }
    sums.count += in_bucket(histogram, WEIR_HISTOGRAM_BOUNDS);
    for (size_t i = 0; i < WEIR_SHARDS; i++)
        sums.sum_us += weir_shard_read(&histogram->shards[i].sum_us);
    return sums;
}

uint64_t weir_histogram_quantile_us(const struct weir_histogram_sums *sums, double part)
{
    double rank = part * (double)sums->count;
    size_t bucket = 0;
    while (bucket < WEIR_HISTOGRAM_BOUNDS && (double)sums->upto[bucket] < rank)
        bucket++;
    if (sums->count == 0)
        return 0;
    if (bucket == WEIR_HISTOGRAM_BOUNDS)
        return weir_histogram_bounds_us[WEIR_HISTOGRAM_BOUNDS - 1];
    uint64_t below = bucket == 0 ? 0 : sums->upto[bucket - 1];
    uint64_t start_us = bucket == 0 ? 0 : weir_histogram_bounds_us[bucket - 1];
    uint64_t inside = sums->upto[bucket] - below;
    double share = inside == 0 ? 0 : (rank - (double)below) / (double)inside;
    return start_us + (uint64_t)(share * (double)(weir_histogram_bounds_us[bucket] - start_us));
}
