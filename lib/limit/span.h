/* Stretches of time that are no whole number of microseconds, kept exact. */
#ifndef WEIR_LIMIT_SPAN_H
#define WEIR_LIMIT_SPAN_H

#include <weir/store.h>

/* us + part / rate.parts microseconds. */
struct weir_span {
    uint64_t us;
    uint64_t part; /* < rate.parts */
};

/* For products of two numbers that are each legal, but not together below 2^64. */
__extension__ typedef unsigned __int128 weir_wide;

/* The functions below count in 1/parts µs, where a unit's interval is a whole number;
 * weir_rate_make() sees to it that the span of a whole burst stays under 2^62 of them. */

static inline uint64_t weir_interval_parts(const struct weir_rate *rate)
{
    return rate->interval_us * rate->parts + rate->interval_part;
}

static inline uint64_t weir_burst_parts(const struct weir_rate *rate)
{
    return rate->burst * weir_interval_parts(rate);
}

/* Of a span that is not longer than a whole burst. */
static inline uint64_t weir_span_parts(const struct weir_rate *rate, struct weir_span span)
{
    return span.us * rate->parts + span.part;
}

/* Rounded up: whoever comes after that time must not be early by a fraction. */
static inline uint64_t weir_parts_to_us(const struct weir_rate *rate, uint64_t parts)
{
    return parts / rate->parts + (parts % rate->parts != 0);
}

static inline bool weir_span_is_longer(struct weir_span one, struct weir_span other)
{
    return one.us > other.us || (one.us == other.us && one.part > other.part);
}

#endif
