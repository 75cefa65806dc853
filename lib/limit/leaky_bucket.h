/* The leaky bucket as a queue. Source: A. Tanenbaum, "Computer networks", on leaky buckets as a
 * queue with constant outflow; nginx's limit_req is one. As a meter it is gcra (ITU-T I.371).
 *
 * A queue of `burst` places drains one unit each interval T = window / limit. State: its next free
 * moment, as gcra's arrival time. With the time in use U = max(0, that moment - now), a cost c is
 * refused when U + cT > burst · T, or when U is above the longest wait; else it waits for U, and
 * the moment becomes now + U + cT. Without a longest wait nothing waits: that is gcra. */
#ifndef WEIR_LIMIT_LEAKY_BUCKET_H
#define WEIR_LIMIT_LEAKY_BUCKET_H

#include "limit/algorithm.h"

/* The most single units that can be spent at once when nothing is spent. */
uint64_t weir_leaky_bucket_capacity(const struct weir_rate *rate, uint64_t max_wait_us);

/* The rate's limit is not 0. To settle: weir_gcra_settle(). */
struct weir_decision_step weir_leaky_bucket_decide(const struct weir_rate *rate,
                                                   uint64_t max_wait_us, struct weir_state state,
                                                   uint64_t now_us, uint64_t cost);

#endif
