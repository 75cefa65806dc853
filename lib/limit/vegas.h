/* How many requests a back end takes at once without a queue: TCP Vegas, on requests. */
#ifndef WEIR_LIMIT_VEGAS_H
#define WEIR_LIMIT_VEGAS_H

#include <stdbool.h>
#include <stdint.h>

/* 1 ≤ floor ≤ initial ≤ ceiling. */
struct weir_vegas_bounds {
    uint32_t floor, ceiling, initial;
};

/* One request that has ended. */
struct weir_vegas_sample {
    uint64_t started_us; /* of a clock that only goes forward                      */
    uint64_t ended_us;   /* of the same; never before the start                    */
    uint32_t in_flight;  /* requests under way when it ended, itself among them    */
    bool is_dropped;     /* the back end has said that it is overloaded: its time
                          * tells nothing, since it was not served                 */
};

enum weir_vegas_stage {
    WEIR_VEGAS_STARTING, /* slow start: doubles until the first sign of a queue */
    WEIR_VEGAS_STEADY,
    WEIR_VEGAS_PROBING /* what the back end needs without a queue is measured anew */
};

/* Only weir_vegas_limit(), _base_us() and _time_us() are for others to read.
 *
 * Doubles, and not integers as in the limits that are promised to clients: the limit moves by
 * fractions (a logarithm, a share of what was dropped), nothing is counted with it, and no sum of it
 * is kept; what is admitted is decided by a whole number, its floor. It stays within its bounds by
 * comparison after each step, and no quotient below has a divisor that can be 0. */
struct weir_vegas {
    struct weir_vegas_bounds bounds;
    enum weir_vegas_stage stage;
    double limit;
    double base_us;  /* the time of a request without a queue; 0: not known yet */
    double time_us;  /* the mean of the last window                             */
    double error_us; /* its standard error                                      */

    /* the window: what has ended since the last step */
    double sum_us, squares_us;
    uint32_t served, dropped;
    uint32_t peak; /* in flight at most */

    /* probing */
    uint64_t random;    /* state of the jitter                                             */
    double to_probe;    /* requests until the next probe                                   */
    double most;        /* the limit at most since the last probe                          */
    double held;        /* the limit that is gone back to, unless it was too much          */
    double held_us;     /* the time in the round before, which is to fall with the limit   */
    uint64_t round_us;  /* when the round has begun; who started earlier may have queued   */
    uint32_t unsettled; /* requests of the round that are still passed over                */
};

/* `seed` spreads the probes of several processes. */
void weir_vegas_init(struct weir_vegas *vegas, struct weir_vegas_bounds bounds, uint64_t seed);

/* Other bounds hold from now on: what was found out goes on within them. The initial limit is for those
 * who know nothing yet, and means nothing here. */
void weir_vegas_set_bounds(struct weir_vegas *vegas, struct weir_vegas_bounds bounds);

/* Takes in how one request went; true: the limit may have changed.
 *
 * At the end of each window of max(10, limit) requests, with R the mean time of its requests less the
 * standard error of that mean, R0 the base, and n the limit (or what was in flight at most, where that
 * is less):
 *
 *     queue = n · (1 − R0 / R)
 *
 *     queue ≤ 1          limit + 6   (before the first queue: limit · 2)
 *     queue < alpha = 3  limit + 1
 *     queue > beta = 6   limit − max(1, (queue − beta) / 4)
 *
 * and limit · (1 − share / 2), where a share of the window was dropped. It never grows while less than
 * half of it is in use. Netflix scales alpha and beta by log10(limit), so that a large limit is not
 * moved by noise; here the standard error keeps noise out, and a fixed 3 to 6 keeps the queue short.
 *
 * Once in 30 to 60 limits of requests, sooner when it has just risen, and where the limit has come down
 * by a quarter, the base is measured anew: the limit goes to 3/4 of what was under way without
 * queueing, until the time is that of before or falls no more, and then back to what the new base has
 * room for.
 *
 * Source of queue, alpha and beta: L. Brakmo and L. Peterson, TCP Vegas, IEEE JSAC 13(8), 1995; of
 * the steps, of probes with jitter, and of the half: Netflix's concurrency-limits, VegasLimit; of the
 * share: DCTCP, RFC 8257 section 3.3. n · (1 − R0 / R) is how many wait, by Little's law, which holds
 * for means: so it is means that are compared. Not thread-safe: the caller lets one in at a time. */
bool weir_vegas_add(struct weir_vegas *vegas, const struct weir_vegas_sample *sample);

/* The limit as a whole number, within its bounds; while probing it is lower. Pure. */
uint32_t weir_vegas_limit(const struct weir_vegas *vegas);

#endif
