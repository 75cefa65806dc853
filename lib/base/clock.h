#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include <weir/common.h>

/* The caller's clock, or the system's for NULL (CLOCK_REALTIME: it may step). */
struct weir_clock weir_clock_or_system(const struct weir_clock *clock);

uint64_t weir_clock_now_us(const struct weir_clock *clock);

/* Microseconds that only go forward, for deadlines (CLOCK_MONOTONIC). */
uint64_t weir_monotonic_us(void);

static inline uint64_t weir_earlier(uint64_t one_us, uint64_t other_us)
{
    return one_us < other_us ? one_us : other_us;
}

static inline uint64_t weir_later(uint64_t one_us, uint64_t other_us)
{
    return one_us > other_us ? one_us : other_us;
}

#endif
