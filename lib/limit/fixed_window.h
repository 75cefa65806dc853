/* Windows on the clock, on a calendar, or from a key's first request. The simplest of counters, with
 * no source of its own.
 *
 * State: the window's start, and the units used in it. A cost c is refused when used + c > limit;
 * what is used counts until the window ends. */
#ifndef WEIR_LIMIT_FIXED_WINDOW_H
#define WEIR_LIMIT_FIXED_WINDOW_H

#include "limit/algorithm.h"

/* The rate's limit is not 0. */
struct weir_decision_step weir_fixed_window_decide(const struct weir_spend *spend,
                                                   struct weir_state state, uint64_t now_us);

/* Never corrects another window than the one that the decision fell into. */
struct weir_decision_step weir_fixed_window_settle(const struct weir_spend *spend,
                                                   struct weir_state state, uint64_t now_us);

#endif
