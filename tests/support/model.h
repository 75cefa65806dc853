/* What every algorithm is to do, the slow way: a model to hold the library against.
 *
 * It shares the library's types and none of its arithmetic. Times are whole numbers of 1/parts µs in
 * 128 bits; how much is left, how long to wait and when all is there again are not computed but
 * searched for, by asking whether a request would pass then. */
#ifndef TESTS_SUPPORT_MODEL_H
#define TESTS_SUPPORT_MODEL_H

#include <weir/store.h>

/* What was admitted at one time (sliding log). */
struct model_entry {
    uint64_t time_us;
    uint64_t units;
};

/* The sum of one key. All zero: new, with nothing spent; model_finish() when it is not needed. */
struct model_sum {
    bool is_blocked;
    uint64_t blocked_until_us;

    /* gcra, leaky bucket: the arrival time. token bucket: when `units` were missing. windows: the
     * start. penalty: the end of a ban, or the last violation. `part` is in 1/parts µs. */
    uint64_t time_us;
    uint64_t part;
    uint64_t units;  /* token bucket: missing then; windows: used in the one that starts there;
                      * penalty: violations                                                    */
    uint64_t before; /* sliding counter: used in the window before                             */

    struct model_entry *entries; /* sliding log, oldest first */
    size_t count;
    size_t capacity;
};

/* Frees what a sum holds; afterwards it is new. */
void model_finish(struct model_sum *sum);

/* Decides `count` limits as one at `now_us`. */
void model_spend(struct model_sum *const *sums, const struct weir_spend *spends, size_t count,
                 uint64_t now_us, struct weir_answer *answers);

/* Corrects what one decision has taken; a penalty's sum stays. */
void model_settle(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us);

/* Not for penalties, which a block leaves alone. */
void model_block(struct model_sum *sum, uint64_t until_us);

#endif
