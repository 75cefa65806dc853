/* Windows on the clock, or from a key's first request. */
#ifndef WEIR_LIMIT_FIXED_WINDOW_H
#define WEIR_LIMIT_FIXED_WINDOW_H

#include "limit/algorithm.h"

/* The answer from what is used (before this cost) and the time left of the window; for a store
 * that decides elsewhere. */
struct weir_answer weir_fixed_window_answer(const struct weir_rate *rate, uint64_t used,
                                            uint64_t left_us, uint64_t cost);

struct weir_decision_step weir_fixed_window_decide(const struct weir_rate *rate, bool from_first,
                                                   struct weir_state state, uint64_t now_us,
                                                   uint64_t cost);

#endif
