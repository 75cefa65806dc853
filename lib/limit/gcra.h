/* The generic cell rate algorithm. Source: ITU-T I.371, in its virtual scheduling form.
 *
 * State: the theoretical arrival time TAT. With the interval T = window / limit and the time in use
 * max(0, TAT - now), a cost c is refused when in use + cT > burst · T; else TAT becomes
 * max(TAT, now) + cT. The other buckets count the same time in use, and share what is below. */
#ifndef WEIR_LIMIT_GCRA_H
#define WEIR_LIMIT_GCRA_H

#include "limit/algorithm.h"
#include "limit/span.h"

/* The time that earns `units`, at most rate.burst or WEIR_UNITS_MAX of them. */
struct weir_span weir_gcra_span(const struct weir_rate *rate, uint64_t units);

/* The time in use at `now_us`, in 1/parts µs. More than a full burst it cannot be, unless the clock
 * was set back or the rate has changed: that counts as a burst all used up, and no more. */
uint64_t weir_gcra_used(const struct weir_rate *rate, struct weir_state state, uint64_t now_us);

/* The state in which so much is in use at `now_us`. */
struct weir_state weir_gcra_state(const struct weir_rate *rate, uint64_t now_us,
                                  uint64_t used_parts);

/* The answer to `cost` when so much is in use before it. The rate's limit is not 0. */
struct weir_answer weir_gcra_answer(const struct weir_rate *rate, uint64_t used_parts,
                                    uint64_t cost);

/* What is in use after spend->reserved has turned out to be spend->cost: less, but not by what time
 * has earned back since; or more, but not by what it would have earned back since. */
uint64_t weir_gcra_settled(const struct weir_spend *spend, uint64_t used_parts, uint64_t now_us);

struct weir_decision_step weir_gcra_decide(const struct weir_rate *rate, struct weir_state state,
                                           uint64_t now_us, uint64_t cost);

struct weir_decision_step weir_gcra_settle(const struct weir_spend *spend, struct weir_state state,
                                           uint64_t now_us);

#endif
