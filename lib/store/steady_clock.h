/* A clock in µs since the epoch that never goes back, whatever happens to the one behind it. */
#ifndef WEIR_STORE_STEADY_CLOCK_H
#define WEIR_STORE_STEADY_CLOCK_H

#include <pthread.h>
#include <stdatomic.h>

#include <weir/common.h>

/* The system's time is CLOCK_MONOTONIC, set by the wall clock at the start and again when that
 * runs ahead by more than a second (the machine slept, its date was corrected); never backward. A
 * caller's clock is believed but for its steps back, which count as no time passed. */
struct weir_steady_clock {
    _Atomic uint64_t anchor_us; /* the system's: what to add to CLOCK_MONOTONIC */
    _Atomic uint64_t look_us; /* CLOCK_MONOTONIC, from when on the wall clock is looked at again */
    struct weir_clock source; /* a caller's; now_us NULL: the system's        */
    pthread_mutex_t mutex;    /* guards the two below                         */
    uint64_t last_us;         /* what the caller's clock said                 */
    uint64_t behind_us;       /* the sum of its steps back                    */
};

/* `source` may be NULL. False: the system has no mutex to give. */
bool weir_steady_clock_init(struct weir_steady_clock *clock, const struct weir_clock *source);
void weir_steady_clock_finish(struct weir_steady_clock *clock);

/* Any thread. */
uint64_t weir_steady_clock_now_us(struct weir_steady_clock *clock);

/* The system's half as a pure function: the anchor to go on with. */
uint64_t weir_steady_anchor(uint64_t anchor_us, uint64_t monotonic_us, uint64_t wall_us);

#endif
