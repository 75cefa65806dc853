/* What every algorithm offers: pure functions over integers. */
#ifndef WEIR_LIMIT_ALGORITHM_H
#define WEIR_LIMIT_ALGORITHM_H

#include <weir/store.h>

/* What is kept for one key; all zero for a key that is not there. Times are µs since the epoch.
 *
 *   gcra            first: the theoretical arrival time; low: the rest of it in 1/parts µs
 *   token bucket    first: when exactly `high` tokens were missing; low: the rest of that time in
 *                   1/parts µs
 *   leaky bucket    first: the next free moment of the queue; low: the rest in 1/parts µs
 *   fixed window    first: the window's start; low: units used in it
 *   sliding counter first: the window's start; low: units used in it; high: in the one before
 *   penalty         first: the end of the last ban, or the last violation if it brought none; low:
 *                   violations so far
 *
 * A sliding log keeps more, in a struct weir_ring. */
struct weir_state {
    uint64_t first;
    uint32_t low;
    uint32_t high;
};

/* In `high`: whatever costs anything is refused until `first`; then the key is like new. No algorithm
 * counts as far as this. */
#define WEIR_HIGH_BLOCKED UINT32_MAX

/* A refusal and a cost of 0 leave the state as it was, with one exception: a state that cannot be
 * with this clock and these numbers (the clock was set back, the limit was changed) comes back put
 * right, and a store keeps it, or the same wait would be asked for again and again. */
struct weir_decision_step {
    struct weir_answer answer;
    struct weir_state state; /* to be kept, if the whole plan is let through          */
    uint64_t expires_us;     /* when the state stops to matter; 0: nothing to keep    */
};

/* Decides `spend`, without fault and neither a sliding log nor a penalty, for a key in `state` at `now_us` (of the
 * store's clock). Thread-safe: pure. */
struct weir_decision_step weir_decide(const struct weir_spend *spend, struct weir_state state,
                                      uint64_t now_us);

/* Corrects what was spent: `spend->reserved` units were taken at `spend->decided_us`, and it turns
 * out to be `spend->cost`. Gives back, or takes more, only as far as time has not earned it back
 * meanwhile; never more than the limit holds, never below nothing. The answer is not filled. Leaves a
 * blocked key alone. Thread-safe: pure. */
struct weir_decision_step weir_settle_state(const struct weir_spend *spend, struct weir_state state,
                                            uint64_t now_us);

/* The state that refuses everything until `until_us`. */
struct weir_state weir_state_blocked(uint64_t until_us);

/* The answer of a key that is blocked for `left_us` more. */
struct weir_answer weir_answer_blocked(const struct weir_spend *spend, uint64_t left_us);

/* What keeps a store from carrying out this check, as a text for check->why, or NULL: no limits or
 * too many, an algorithm that does not exist, a key of a length it may not have or that stands there
 * twice, a rate that weir_rate_make() would not make as far as a division or a table cares, a penalty
 * that cannot be or stands behind no limit, a time to settle or to block that no clock has. Thread-safe:
 * pure. */
const char *weir_check_fault(const struct weir_check *check);

/* Whether the cost ever fits. Pure. */
bool weir_is_possible(const struct weir_spend *spend);

/* The short name that is part of every key, so that another algorithm starts afresh. */
const char *weir_algorithm_tag(enum weir_algorithm algorithm);

/* The most that can be spent at once when nothing is spent. Pure. */
uint64_t weir_capacity(const struct weir_spend *spend);

#endif
