/* What the files of the suite share: the store under test, ways to ask it, and time. */
#ifndef TESTS_CONTRACT_CONTRACT_CASES_H
#define TESTS_CONTRACT_CONTRACT_CASES_H

#include "contract.h"

#include "store/store.h"

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

/* A window on the clock that no test run meets the edge of. */
#define ENDLESS WEIR_WINDOW_MAX_US

/* A window short enough to wait for where time is real, and long enough to do a few checks in. */
#define SHORT (300 * UINT64_C(1000))

/* The store that a case is run with, opened anew for each. */
extern const struct contract_factory *factory;
extern struct weir_store *store;

/* asking */

/* Submits a plan, which must be answered. */
void submit_answered(struct weir_store *asked, struct contract_plan *plan);

/* Decides `spend` at another cost. */
struct weir_answer ask(const struct weir_spend *spend, uint64_t cost);
struct weir_answer look(const struct weir_spend *spend);

/* Spends, and fills in what it takes to settle that. It must be let through. */
void spend_to_settle(struct weir_spend *spend, uint64_t cost);

/* Corrects what was spent so, to `actual` units. */
void settle(const struct weir_spend *spent, uint64_t actual);
void reset(const struct weir_spend *spend);
void block(const struct weir_spend *spend, uint64_t block_us);

/* kinds of limits */

/* Every algorithm and its variants, each alone and in a group. */
#define KINDS 18

struct kind {
    const char *name;
    struct weir_spend spend;
};

/* A limit of each kind under a key of its own. They all pass and refuse alike while no time
 * passes; the calendar's window is a year, whatever `window_us` is. Queues are as long as they like. */
void new_kinds(struct kind kinds[KINDS], const char *name, uint64_t limit, uint64_t window_us);

/* A limit of any algorithm, under a key of its own; burst 0 means the limit. */
struct weir_spend new_spend(const char *name, enum weir_algorithm algorithm, uint64_t limit,
                            uint64_t window_us, uint64_t burst);
struct weir_spend window_from_first(const char *name, uint64_t limit, uint64_t window_us);

/* The same key with other numbers. */
struct weir_spend changed(const struct weir_spend *spend, uint64_t limit, uint64_t window_us,
                          uint64_t burst);

/* A limit in a group: two of the same group name of one case share a key. */
struct weir_spend in_group(const struct weir_spend *spend, const char *group);

/* time */

bool time_is_ours(void);

/* Skips a case that needs time to be moved by hand. */
void need_time_of_ours(void);
void pass_us(uint64_t us);

/* Moves on to where so much is left of a window on the clock. */
void pass_until_left(uint64_t window_us, uint64_t left_us);

/* Checks a time left that is `exact_us` long where time is ours; real time may have gone on for up
 * to `most_late_us` since. */
void assert_left(uint64_t us, uint64_t exact_us, uint64_t most_late_us);

/* How long a key still lives; 0: it is not there. */
bool ttl_is_known(void);
uint64_t ttl_us(const struct weir_spend *spend);

/* crowds */

/* How many of `threads` × `each` equal plans pass, over as many handles as may be open at once. */
unsigned let_through(const struct contract_plan *plan, size_t threads, unsigned each);

/* the cases, by file */

struct contract_group {
    const char *name;
    const struct CMUnitTest *tests;
    size_t count;
};

int open_store(void **state);
int free_store(void **state);

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_store, free_store)
#define GROUP(name, tests_array)                                                                   \
    {                                                                                              \
        name, tests_array, COUNT_OF(tests_array)                                                   \
    }

extern const struct contract_group contract_limits, contract_time, contract_plans,
    contract_corrections, contract_penalty, contract_crowds, contract_reports, contract_texts;

#endif
