/* Two windows on the clock, of which the older one counts as far as it still overlaps the last
 * `window` of time. Source: J. Desgats, "How we built rate limiting capable of scaling to millions of
 * domains", Cloudflare (2017).
 *
 * State: the start of the window that is now, the units used in it (cur) and in the one before
 * (prev). With the time e since that start, a cost c is refused when
 * prev · (window - e) / window, rounded up, + cur + c > limit. */
#ifndef WEIR_LIMIT_SLIDING_COUNTER_H
#define WEIR_LIMIT_SLIDING_COUNTER_H

#include "limit/algorithm.h"

/* The rate's limit is not 0. */
struct weir_decision_step weir_sliding_counter_decide(const struct weir_rate *rate,
                                                      struct weir_state state, uint64_t now_us,
                                                      uint64_t cost);

/* Corrects the window that the decision fell into, as long as it counts. */
struct weir_decision_step weir_sliding_counter_settle(const struct weir_spend *spend,
                                                      struct weir_state state, uint64_t now_us);

#endif
