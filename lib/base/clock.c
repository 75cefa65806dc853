#include "base/clock.h"

#include <time.h>

static uint64_t read_us(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t system_now_us(void *self)
{
    (void)self;
    return read_us(CLOCK_REALTIME);
}

struct weir_clock weir_clock_or_system(const struct weir_clock *clock)
{
    return clock != NULL && clock->now_us != NULL ? *clock
                                                  : (struct weir_clock){ .now_us = system_now_us };
}

uint64_t weir_clock_now_us(const struct weir_clock *clock)
{
    return clock->now_us(clock->self);
}

uint64_t weir_monotonic_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}
