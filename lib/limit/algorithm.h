/* What every algorithm offers: pure functions over integers. */
#ifndef WEIR_LIMIT_ALGORITHM_H
#define WEIR_LIMIT_ALGORITHM_H

#include <weir/store.h>

/* What is kept for one key; all zero for a key that is not there.
 *
 * gcra: `first` is the theoretical arrival time in µs since the epoch, `second` the rest of it in
 * 1/parts µs. fixed window: `first` is the window's start in µs, `second` the units used in it. */
struct weir_state {
    uint64_t first;
    uint64_t second;
};

/* A refusal and a cost of 0 leave the state as it was, with one exception: a state that cannot be
 * with this clock and these numbers (the clock was set back, the limit was changed) comes back put
 * right, and a store keeps it, or the same wait would be asked for again and again. */
struct weir_decision_step {
    struct weir_answer answer;
    struct weir_state state; /* to be kept, if the whole plan is let through          */
    uint64_t expires_us;     /* when the state stops to matter; 0: nothing to keep    */
};

/* Decides `spend`, without fault, for a key in `state` at `now_us` (µs since the epoch, of the
 * store's clock). Thread-safe: pure. */
struct weir_decision_step weir_decide(const struct weir_spend *spend, struct weir_state state,
                                      uint64_t now_us);

/* What keeps a store from deciding this check, as a text for check->why, or NULL: no limits or too
 * many, an algorithm that does not exist, a key of a length it may not have or that stands there
 * twice, a rate that weir_rate_make() would not make as far as a division or a table cares.
 * Thread-safe: pure. */
const char *weir_check_fault(const struct weir_check *check);

/* False for algorithms this version does not have. */
bool weir_algorithm_exists(enum weir_algorithm algorithm);

/* The short name that is part of every key, so that another algorithm starts afresh. */
const char *weir_algorithm_tag(enum weir_algorithm algorithm);

#endif
