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

struct weir_decision_step {
    struct weir_answer answer;
    struct weir_state state; /* to be kept, if the whole plan is let through          */
    uint64_t expires_us;     /* when the state stops to matter; 0: nothing to keep    */
};

/* Decides `spend` for a key in `state` at `now_us` (µs since the epoch, of the store's clock). A
 * refusal and a cost of 0 leave the state as it was. Thread-safe: pure. */
struct weir_decision_step weir_decide(const struct weir_spend *spend, struct weir_state state,
                                      uint64_t now_us);

/* False for algorithms this version does not have. */
bool weir_algorithm_exists(enum weir_algorithm algorithm);

/* The short name that is part of every key, so that another algorithm starts afresh. */
const char *weir_algorithm_tag(enum weir_algorithm algorithm);

#endif
