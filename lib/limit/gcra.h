/* The generic cell rate algorithm. Source: ITU-T I.371, in its virtual scheduling form. */
#ifndef WEIR_LIMIT_GCRA_H
#define WEIR_LIMIT_GCRA_H

#include "limit/algorithm.h"

/* A stretch of time, exact: us + part / rate.parts microseconds. */
struct weir_span {
    uint64_t us;
    uint64_t part; /* < rate.parts */
};

/* The time that earns `units`, at most rate.burst or WEIR_UNITS_MAX of them. */
struct weir_span weir_gcra_span(const struct weir_rate *rate, uint64_t units);

/* The answer from how far the arrival time lies ahead of now (zero: not at all), before this cost;
 * for a store that decides elsewhere. `used` is at most the span of the burst. */
struct weir_answer weir_gcra_answer(const struct weir_rate *rate, struct weir_span used,
                                    uint64_t cost);

struct weir_decision_step weir_gcra_decide(const struct weir_rate *rate, struct weir_state state,
                                           uint64_t now_us, uint64_t cost);

#endif
