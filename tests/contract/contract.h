/* What every store must do, as one suite of cases that runs against any of them. */
#ifndef TESTS_CONTRACT_CONTRACT_H
#define TESTS_CONTRACT_CONTRACT_H

#include "test.h"

#include <weir/store.h>

/* How to make one kind of store. Every case uses keys of its own, new in each run, so sums that an
 * earlier run left behind do no harm. */
struct contract_factory {
    const char *name; /* "memory", "redis over TCP": stands before each case in the output */
    void *self;

    /* A new handle, which answers (contract_await_answers()); fails the test itself (assert) if it
     * cannot make one. The suite frees it with weir_store_free(). */
    struct weir_store *(*open)(void *self);

    /* True: all handles that are open at once keep the same sums. False: each has its own, and the
     * suite opens only one at a time. */
    bool handles_share;

    /* True: keys may lie on several servers, so that a plan is taken part by part. Each part has a
     * time of its own; and where one refuses, a window that opened with the request, or an entry in
     * a log, stays as one of nothing. */
    bool takes_parts;

    /* Moves the stores' time on; NULL: it is real, and the suite waits (a few seconds in all). */
    void (*pass_us)(void *self, uint64_t us);

    /* Sets the stores' time back; NULL: it cannot be, and those cases are skipped. */
    void (*step_back_us)(void *self, uint64_t us);

    /* How long what is kept for a limit still lives, in µs; 0: it is not there. NULL: the store
     * cannot tell. */
    uint64_t (*ttl_us)(void *self, struct weir_store *store, const struct weir_spend *spend);
};

/* Runs all cases and returns how many failed, as main() wants it. */
int contract_run(const struct contract_factory *factory);

/* tools that a store's own tests can use too */

/* A check with room for all that it points to. */
struct contract_plan {
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    struct weir_answer answers[WEIR_CHECK_LIMITS];
    struct weir_check check; /* `spends` and `answers` are set when it is submitted */
};

/* Submits a check and waits until it is done, from any thread; the result is in `check`. `done` and
 * `owner` are set by this function. */
void contract_submit(struct weir_store *store, struct weir_check *check);

/* The same for a plan of `plan->check.count` limits. */
void contract_submit_plan(struct weir_store *store, struct contract_plan *plan);

/* One limit, one decision, which must be an answer. */
struct weir_answer contract_spend(struct weir_store *store, const struct weir_spend *spend);

/* Waits until a store that was just opened answers, wherever a key may lie: on a busy machine its
 * first try may take longer than it waits for that. */
void contract_await_answers(struct weir_store *store);

/* A spend under a key of its own: "contract-<run>-<name>"; the text lives until the program ends.
 * The rate is as weir_rate_make() makes it; burst 0 means the limit. */
struct weir_spend contract_gcra(const char *name, uint64_t limit, uint64_t window_us,
                                uint64_t burst);
struct weir_spend contract_window(const char *name, uint64_t limit, uint64_t window_us);

#endif
