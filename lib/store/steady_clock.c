#include "store/steady_clock.h"

#include <time.h>

#include "base/clock.h"

#define AHEAD_MAX_US UINT64_C(1000000)

/* How often the wall clock is looked at; a second clock for each decision would be felt. */
#define LOOK_EVERY_US UINT64_C(20000)

/* A few ms late, which does not matter here, and five times as fast as the exact one. */
static uint64_t wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t weir_steady_anchor(uint64_t anchor_us, uint64_t monotonic_us, uint64_t wall_us)
{
    bool is_behind = wall_us > anchor_us + monotonic_us + AHEAD_MAX_US;
    return is_behind ? wall_us - monotonic_us : anchor_us;
}

bool weir_steady_clock_init(struct weir_steady_clock *clock, const struct weir_clock *source)
{
    *clock = (struct weir_steady_clock){ 0 };
    if (source != NULL)
        clock->source = *source;
    uint64_t wall = wall_us(), monotonic = weir_monotonic_us();
    atomic_init(&clock->anchor_us, wall > monotonic ? wall - monotonic : 0);
    return pthread_mutex_init(&clock->mutex, NULL) == 0;
}

void weir_steady_clock_finish(struct weir_steady_clock *clock)
{
    pthread_mutex_destroy(&clock->mutex);
}

static uint64_t system_now_us(struct weir_steady_clock *clock)
{
    uint64_t anchor = atomic_load_explicit(&clock->anchor_us, memory_order_relaxed);
    uint64_t monotonic = weir_monotonic_us();
    if (monotonic < atomic_load_explicit(&clock->look_us, memory_order_relaxed))
        return anchor + monotonic;
    atomic_store_explicit(&clock->look_us, monotonic + LOOK_EVERY_US, memory_order_relaxed);
    uint64_t better = weir_steady_anchor(anchor, monotonic, wall_us());
    while (better > anchor) {
        if (atomic_compare_exchange_weak(&clock->anchor_us, &anchor, better))
            anchor = better;
    }
    return anchor + monotonic;
}

static uint64_t caller_now_us(struct weir_steady_clock *clock)
{
    /* It is read under the mutex: two threads that overtook each other in between would look like a
     * step back. */
    pthread_mutex_lock(&clock->mutex);
    uint64_t now_us = weir_clock_now_us(&clock->source);
    if (now_us < clock->last_us)
        clock->behind_us += clock->last_us - now_us;
    clock->last_us = now_us;
    now_us += clock->behind_us;
    pthread_mutex_unlock(&clock->mutex);
    return now_us;
}

uint64_t weir_steady_clock_now_us(struct weir_steady_clock *clock)
{
    return clock->source.now_us == NULL ? system_now_us(clock) : caller_now_us(clock);
}
