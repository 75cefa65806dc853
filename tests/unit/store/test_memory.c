/* What is special to the memory store; what all stores do is in tests/contract. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "store/memory.h"

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

static struct weir_store *store;
static _Atomic uint64_t clock_us;

static uint64_t read_clock(void *self)
{
    (void)self;
    return atomic_load(&clock_us);
}

static void open_with(uint64_t memory_bytes)
{
    const struct weir_clock clock = { .now_us = read_clock };
    clock_us = UINT64_C(1767225600250000);
    assert_int_equal(
        weir_store_open(
            "memory:", WEIR_STORE_OPTIONS(.clock = &clock, .memory_bytes = memory_bytes), &store,
            NULL),
        WEIR_OK);
}

static int open_default(void **state)
{
    (void)state;
    open_with(0);
    return 0;
}

static int open_least(void **state)
{
    (void)state;
    open_with(WEIR_MEMORY_BYTES_MIN);
    return 0;
}

static int close_store(void **state)
{
    (void)state;
    store = weir_store_free(store);
    return 0;
}

static void count_done(struct weir_check *check)
{
    unsigned *done = check->owner;
    (*done)++;
}

static struct weir_spend spend_of(enum weir_algorithm algorithm, const char *key, uint64_t limit,
                                  uint64_t window_us)
{
    struct weir_spend spend = {
        .algorithm = algorithm, .cost = 1, .key = key, .key_length = strlen(key)
    };
    weir_rate_make(limit, window_us, 0, &spend.rate, NULL);
    return spend;
}

/* Thread-safe: they assert nothing. */

static enum weir_store_result carry_out(enum weir_operation operation,
                                        const struct weir_spend *spends, size_t count,
                                        struct weir_answer *answers)
{
    unsigned done = 0;
    struct weir_check check = { .operation = operation,
                                .spends = spends,
                                .answers = answers,
                                .count = count,
                                .block_us = HOUR,
                                .done = count_done,
                                .owner = &done };
    store->type->submit(store->self, &check);
    return done == 1 ? check.result : WEIR_STORE_CANCELLED;
}

static struct weir_answer ask(const struct weir_spend *spend)
{
    struct weir_answer answer = { .allowed = false };
    bool has_answered = carry_out(WEIR_SPEND, spend, 1, &answer) == WEIR_STORE_ANSWERED;
    return has_answered ? answer : (struct weir_answer){ .allowed = false };
}

static struct weir_answer ask_number(uint64_t number, uint64_t limit)
{
    char key[32];
    snprintf(key, sizeof key, "client-%llu", (unsigned long long)number);
    struct weir_spend spend = spend_of(WEIR_GCRA, key, limit, HOUR);
    return ask(&spend);
}

static void answers_before_submit_returns(void **state)
{
    (void)state;
    assert_true(store->type->answers_inline);
    unsigned done = 0;
    struct weir_answer answer;
    const struct weir_spend spend = spend_of(WEIR_GCRA, "k", 5, HOUR);
    struct weir_check check = {
        .spends = &spend, .answers = &answer, .count = 1, .done = count_done, .owner = &done
    };
    for (unsigned n = 1; n <= 3; n++) {
        store->type->submit(store->self, &check);
        assert_int_equal(done, n);
        assert_int_equal(check.result, WEIR_STORE_ANSWERED);
        assert_int_equal(check.now_us, clock_us);
    }
}

/* The clock is set back by two minutes in the middle: it counts as no time at all. */
static void goes_on_as_before_when_the_clock_steps_back(void **state)
{
    (void)state;
    struct weir_spend gcra = spend_of(WEIR_GCRA, "gcra", 6, MINUTE);
    struct weir_spend window = spend_of(WEIR_FIXED_WINDOW, "window", 6, MINUTE);
    for (uint64_t n = 0; n < 4; n++) {
        assert_int_equal(ask(&gcra).remaining, 5 - n);
        assert_int_equal(ask(&window).remaining, 5 - n);
    }
    atomic_fetch_sub(&clock_us, 2 * MINUTE);
    assert_int_equal(ask(&gcra).remaining, 1);
    assert_int_equal(ask(&window).remaining, 1);

    /* It fills at once as the clock moves on: a unit every ten seconds. */
    atomic_fetch_add(&clock_us, 10 * SECOND);
    assert_int_equal(ask(&gcra).remaining, 1);
    assert_int_equal(ask(&gcra).remaining, 0);
    assert_int_equal(ask(&gcra).retry_us, 10 * SECOND);
    atomic_fetch_add(&clock_us, 10 * SECOND);
    assert_true(ask(&gcra).allowed);
    /* The window that began before the step ends after its minute, of which 20.25 s are gone. */
    struct weir_answer answer = ask(&window);
    assert_int_equal(answer.remaining, 0);
    assert_int_equal(answer.reset_us, MINUTE - 20 * SECOND - 250000);
}

static void forgets_what_has_expired(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 1000; n++)
        assert_true(ask_number(n, 1).allowed);
    assert_int_equal(weir_memory_keys(store), 1000);
    assert_false(ask_number(0, 1).allowed);
    atomic_fetch_add(&clock_us, HOUR);
    assert_int_equal(weir_memory_keys(store), 0);
    size_t bytes = weir_memory_bytes(store);

    /* A second crowd as large takes the places of the first. */
    for (uint64_t n = 1000; n < 2000; n++)
        assert_true(ask_number(n, 1).allowed);
    assert_true(ask_number(0, 1).allowed);
    assert_true(weir_memory_bytes(store) < bytes + bytes / 4);
}

static void keeps_nothing_of_looks_and_hopeless_costs(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(WEIR_GCRA, "k", 5, HOUR);
    spend.cost = 0;
    ask(&spend);
    spend.cost = 6;
    ask(&spend);
    assert_int_equal(weir_memory_keys(store), 0);
    assert_int_equal(weir_memory_ttl_us(store, "k", 1), 0);
    spend.cost = 5;
    ask(&spend);
    assert_int_equal(weir_memory_keys(store), 1);
    assert_int_equal(weir_memory_ttl_us(store, "k", 1), HOUR);
}

static void stays_in_its_budget(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 50000; n++)
        assert_true(ask_number(n, 5).allowed);
    assert_in_range(weir_memory_bytes(store), WEIR_MEMORY_BYTES_MIN / 2, WEIR_MEMORY_BYTES_MIN);
    assert_in_range(weir_memory_keys(store), 1000, 3000);
}

static void lets_no_flood_forgive_a_key_that_refuses(void **state)
{
    (void)state;
    struct weir_spend blocked = spend_of(WEIR_GCRA, "blocked", 3, HOUR);
    for (int n = 0; n < 3; n++)
        assert_true(ask(&blocked).allowed);
    assert_false(ask(&blocked).allowed);
    /* A look from the quota page, and a cost that never fits, change nothing about it. */
    struct weir_spend other = blocked;
    other.cost = 0;
    assert_true(ask(&other).allowed);
    other.cost = 4;
    assert_true(ask(&other).impossible);

    /* Each of the flood's keys is used up too, but has not refused anyone. */
    for (uint64_t n = 0; n < 50000; n++)
        assert_true(ask_number(n, 1).allowed);
    assert_false(ask(&blocked).allowed);
}

/* Or whoever guesses would stop one short of the first refusal, and flood in between. */
static void lets_no_flood_forgive_a_key_that_is_used_up(void **state)
{
    (void)state;
    struct weir_spend spends[2] = { spend_of(WEIR_GCRA, "units", 3, HOUR),
                                    spend_of(WEIR_FIXED_WINDOW, "costs", 5, 2 * HOUR) };
    for (int n = 0; n < 3; n++)
        assert_true(ask(&spends[0]).allowed);
    spends[1].cost = 3; /* a second one does not fit */
    assert_true(ask(&spends[1]).allowed);
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        struct weir_spend look = spends[i];
        look.cost = 0;
        assert_true(ask(&look).allowed);
    }
    for (uint64_t n = 0; n < 50000; n++)
        assert_true(ask_number(n, 5).allowed);
    for (size_t i = 0; i < COUNT_OF(spends); i++)
        assert_false(ask(&spends[i]).allowed);
}

/* A key that has come back to more is one of many again. */
static void lets_what_is_used_up_go_where_all_is(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(WEIR_GCRA, "once", 2, HOUR);
    spend.cost = 2;
    assert_true(ask(&spend).allowed);
    atomic_fetch_add(&clock_us, HOUR - MINUTE);
    spend.cost = 1;
    assert_int_equal(ask(&spend).remaining, 0);
    atomic_fetch_add(&clock_us, HOUR / 2);
    spend.rate.burst = 5;
    assert_int_equal(ask(&spend).remaining, 3);

    const uint64_t last = 50000;
    for (uint64_t n = 0; n <= last; n++) {
        assert_true(ask_number(n, 1).allowed);
        atomic_fetch_add(&clock_us, 1000);
    }
    assert_int_equal(weir_memory_ttl_us(store, "once", strlen("once")), 0);
    for (uint64_t n = last - 100; n <= last; n++)
        assert_false(ask_number(n, 1).allowed);
}

/* A clock of a user's own, in the year 2255: no key's expiry has bits for that. */
static void limits_with_a_clock_far_in_the_future(void **state)
{
    (void)state;
    atomic_store(&clock_us, (UINT64_C(1) << 53) + 7);
    for (int i = WEIR_GCRA; i <= WEIR_SLIDING_LOG; i++) {
        const char key[] = { (char)('0' + i), '\0' };
        struct weir_spend spend = spend_of((enum weir_algorithm)i, key, 2, HOUR);
        assert_int_equal(ask(&spend).remaining, 1);
        assert_int_equal(ask(&spend).remaining, 0);
        assert_false(ask(&spend).allowed);
    }
    atomic_fetch_add(&clock_us, 3 * HOUR);
    for (int i = WEIR_GCRA; i <= WEIR_SLIDING_LOG; i++) {
        const char key[] = { (char)('0' + i), '\0' };
        struct weir_spend spend = spend_of((enum weir_algorithm)i, key, 2, HOUR);
        assert_int_equal(ask(&spend).remaining, 1);
    }
}

/* Or a client could make its own keys stay for nothing. */
static void protects_no_key_for_a_cost_that_never_fits(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(WEIR_GCRA, "greedy", 3, HOUR);
    assert_true(ask(&spend).allowed);
    spend.cost = 4;
    assert_true(ask(&spend).impossible);
    for (uint64_t n = 0; n < 50000; n++)
        assert_true(ask_number(n, 1).allowed);
    assert_int_equal(weir_memory_ttl_us(store, "greedy", strlen("greedy")), 0);
}

static void spends_at_most_64_bytes_on_a_key(void **state)
{
    (void)state;
    const uint64_t keys = 200000;
    for (uint64_t n = 0; n < keys; n++)
        assert_true(ask_number(n, 5).allowed);
    assert_int_equal(weir_memory_keys(store), keys);
    assert_true(weir_memory_bytes(store) < keys * 64);
}

/* operations */

static void blocks_resets_and_settles_every_algorithm(void **state)
{
    (void)state;
    for (int i = WEIR_GCRA; i <= WEIR_SLIDING_LOG; i++) {
        struct weir_spend spend = spend_of((enum weir_algorithm)i, "k", 5, 2 * HOUR);
        spend.cost = 3;
        struct weir_answer before = ask(&spend);
        assert_true(before.allowed);

        struct weir_spend settled = spend;
        settled.reserved = 3;
        settled.cost = 1;
        settled.decided_us = clock_us;
        settled.full_us = clock_us + before.reset_us;
        assert_int_equal(carry_out(WEIR_SETTLE, &settled, 1, NULL), WEIR_STORE_ANSWERED);
        assert_int_equal(ask(&spend).remaining, 1);

        assert_int_equal(carry_out(WEIR_BLOCK, &spend, 1, NULL), WEIR_STORE_ANSWERED);
        assert_int_equal(ask(&spend).retry_us, HOUR);
        assert_int_equal(weir_memory_ttl_us(store, "k", 1), HOUR);
        assert_int_equal(carry_out(WEIR_SETTLE, &settled, 1, NULL), WEIR_STORE_ANSWERED);
        assert_int_equal(ask(&spend).retry_us, HOUR);

        assert_int_equal(carry_out(WEIR_RESET, &spend, 1, NULL), WEIR_STORE_ANSWERED);
        assert_int_equal(weir_memory_keys(store), 0);
        assert_int_equal(ask(&spend).remaining, 2);
        assert_int_equal(carry_out(WEIR_RESET, &spend, 1, NULL), WEIR_STORE_ANSWERED);
    }
    assert_int_equal(weir_memory_keys(store), 0);
}

/* Six limits of six algorithms, of which each in turn is used up. */
static void spends_nothing_anywhere_when_one_refuses(void **state)
{
    (void)state;
    static const char *const names[] = { "0", "1", "2", "3", "4", "5" };
    for (size_t full = 0; full < COUNT_OF(names); full++) {
        struct weir_spend spends[COUNT_OF(names)];
        struct weir_answer answers[COUNT_OF(names)];
        for (size_t i = 0; i < COUNT_OF(names); i++)
            spends[i] = spend_of((enum weir_algorithm)i, names[i], 5, HOUR);
        spends[full].cost = 5;
        assert_true(ask(&spends[full]).allowed);
        assert_int_equal(carry_out(WEIR_SPEND, spends, COUNT_OF(names), answers),
                         WEIR_STORE_ANSWERED);
        for (size_t i = 0; i < COUNT_OF(names); i++) {
            assert_int_equal(answers[i].allowed, i != full);
            assert_int_equal(answers[i].remaining, i != full ? 5 : 0);
        }
        assert_int_equal(weir_memory_keys(store), 1);
        carry_out(WEIR_RESET, &spends[full], 1, NULL);
    }
}

static void keeps_a_block_through_a_flood(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(WEIR_GCRA, "blocked", 3, HOUR);
    assert_int_equal(carry_out(WEIR_BLOCK, &spend, 1, NULL), WEIR_STORE_ANSWERED);
    for (uint64_t n = 0; n < 50000; n++)
        assert_true(ask_number(n, 1).allowed);
    assert_false(ask(&spend).allowed);
}

/* Neither a ban nor the violations before one; a flood that is refused too must not do it either. */
static void keeps_penalties_through_a_flood(void **state)
{
    (void)state;
    static const struct weir_penalty penalty = {
        .after = 2, .ban_count = 1, .bans_us = { HOUR }, .forget_us = 24 * HOUR
    };
    struct weir_spend plans[2][2];
    for (size_t i = 0; i < 2; i++) {
        plans[i][0] = spend_of(WEIR_GCRA, i == 0 ? "warned" : "banned", 1, HOUR);
        plans[i][1] = (struct weir_spend){ .algorithm = WEIR_PENALTY,
                                           .cost = 1,
                                           .key = i == 0 ? "warned:penalty" : "banned:penalty",
                                           .key_length = 14,
                                           .penalty = &penalty };
        struct weir_answer answers[2];
        for (size_t n = 0; n < 2 + i; n++)
            assert_int_equal(carry_out(WEIR_SPEND, plans[i], 2, answers), WEIR_STORE_ANSWERED);
        assert_int_equal(answers[1].allowed, i == 0);
    }
    for (uint64_t n = 0; n < 50000; n++)
        assert_true(ask_number(n, 1).allowed);
    for (uint64_t n = 0; n < 50000; n++)
        ask_number(n % 1000, 1);
    for (size_t i = 0; i < 2; i++) {
        struct weir_answer answers[2];
        carry_out(WEIR_SPEND, plans[i], 2, answers);
        assert_int_equal(answers[1].retry_us, HOUR);
    }
}

static void takes_a_key_of_another_algorithm_for_new(void **state)
{
    (void)state;
    struct weir_spend log = spend_of(WEIR_SLIDING_LOG, "k", 5, HOUR);
    struct weir_spend gcra = spend_of(WEIR_GCRA, "k", 5, HOUR);
    for (int n = 0; n < 3; n++) {
        assert_int_equal(ask(&log).remaining, 4);
        gcra.cost = 0;
        assert_int_equal(ask(&gcra).remaining, 5);
        assert_int_equal(ask(&log).remaining, 3);
        gcra.cost = 1;
        assert_int_equal(ask(&gcra).remaining, 4);
    }
}

/* rings of logs */

static struct weir_answer log_number(const char *name, uint64_t number, uint64_t cost)
{
    char key[32];
    snprintf(key, sizeof key, "%s-%llu", name, (unsigned long long)number);
    struct weir_spend spend = spend_of(WEIR_SLIDING_LOG, key, 5, HOUR);
    spend.cost = cost;
    return ask(&spend);
}

static void logs_in_rings_that_grow_and_shrink(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(WEIR_SLIDING_LOG, "log", 1000, HOUR);
    size_t empty = weir_memory_bytes(store);
    for (uint64_t n = 0; n < 1000; n++) {
        assert_int_equal(ask(&spend).remaining, 999 - n);
        atomic_fetch_add(&clock_us, SECOND);
    }
    assert_false(ask(&spend).allowed);
    assert_in_range(weir_memory_bytes(store) - empty, 12000, 18000);

    /* The next one finds that nearly all have left. */
    atomic_fetch_add(&clock_us, HOUR - 10 * SECOND);
    assert_int_equal(ask(&spend).remaining, 990);
    assert_in_range(weir_memory_bytes(store) - empty, 100, 1500);

    /* The key expires, and its ring with it, once its place is looked at. */
    atomic_fetch_add(&clock_us, HOUR);
    assert_int_equal(weir_memory_keys(store), 0);
    assert_int_equal(ask(&spend).remaining, 999);
    carry_out(WEIR_RESET, &spend, 1, NULL);
    assert_in_range(weir_memory_bytes(store) - empty, 0, 600);
}

static void frees_the_rings_of_a_flood_in_its_budget(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 50000; n++)
        assert_int_equal(log_number("flood", n, 1).remaining, 4);
    assert_in_range(weir_memory_bytes(store), WEIR_MEMORY_BYTES_MIN / 2, WEIR_MEMORY_BYTES_MIN);
    assert_in_range(weir_memory_keys(store), 300, 1000);
    /* The latest is still there. */
    assert_int_equal(log_number("flood", 49999, 0).remaining, 4);
}

static void lets_no_flood_of_logs_forgive_a_log_that_refuses(void **state)
{
    (void)state;
    assert_true(log_number("used-up", 0, 5).allowed);
    assert_false(log_number("used-up", 0, 1).allowed);
    for (uint64_t n = 0; n < 50000; n++)
        assert_true(log_number("flood", n, 1).allowed);
    assert_false(log_number("used-up", 0, 1).allowed);
}

static void lets_no_flood_of_logs_forgive_a_log_that_is_used_up(void **state)
{
    (void)state;
    assert_true(log_number("used-up", 0, 5).allowed);
    for (uint64_t n = 0; n < 50000; n++)
        assert_true(log_number("flood", n, 1).allowed);
    assert_false(log_number("used-up", 0, 1).allowed);
}

/* Far more than the rings under one lock take, though all that there are refuse. */
static void lets_a_log_grow_in_a_flood_that_refuses(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 2000; n++) {
        assert_true(log_number("flood", n, 5).allowed);
        assert_false(log_number("flood", n, 1).allowed);
    }
    struct weir_spend spend = spend_of(WEIR_SLIDING_LOG, "log", 1000, HOUR);
    for (uint64_t n = 0; n < 1000; n++) {
        assert_int_equal(ask(&spend).remaining, 999 - n);
        atomic_fetch_add(&clock_us, 1);
    }
    assert_in_range(weir_memory_bytes(store), WEIR_MEMORY_BYTES_MIN / 2, WEIR_MEMORY_BYTES_MIN);
}

/* A log may fill what logs have; then it cannot grow, and nothing of the plan is spent. */
static void says_when_a_log_has_no_room(void **state)
{
    (void)state;
    struct weir_spend spends[2] = { spend_of(WEIR_GCRA, "gcra", 1000000, HOUR),
                                    spend_of(WEIR_SLIDING_LOG, "log", 100000, HOUR) };
    struct weir_answer answers[2];
    uint64_t through = 0;
    while (through < 100000 && carry_out(WEIR_SPEND, spends, 2, answers) == WEIR_STORE_ANSWERED) {
        through++;
        atomic_fetch_add(&clock_us, 1);
    }
    assert_in_range(through, 1000, 6000);
    assert_int_equal(carry_out(WEIR_SPEND, spends, 2, answers), WEIR_STORE_ERROR);
    spends[0].cost = spends[1].cost = 0;
    assert_int_equal(carry_out(WEIR_SPEND, spends, 2, answers), WEIR_STORE_ANSWERED);
    assert_int_equal(answers[1].remaining, 100000 - through);
    assert_int_equal(answers[0].remaining, 1000000 - through);
    assert_in_range(weir_memory_bytes(store), 0, WEIR_MEMORY_BYTES_MIN);
}

/* A request that is settled to nothing leaves an entry; clients must not be able to heap them up. */
static void bounds_entries_that_were_given_back(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(WEIR_SLIDING_LOG, "log", 10, HOUR);
    for (uint64_t n = 0; n < 20000; n++) {
        assert_true(ask(&spend).allowed);
        struct weir_spend settled = spend;
        settled.reserved = 1;
        settled.cost = 0;
        settled.decided_us = clock_us;
        settled.full_us = clock_us + HOUR;
        carry_out(WEIR_SETTLE, &settled, 1, NULL);
        atomic_fetch_add(&clock_us, 1);
    }
    size_t with_log = weir_memory_bytes(store);
    carry_out(WEIR_RESET, &spend, 1, NULL);
    assert_in_range(with_log - weir_memory_bytes(store), 1, 1000);
}

static void leaves_room_for_logs_in_a_full_table(void **state)
{
    (void)state;
    struct weir_spend blocked = spend_of(WEIR_GCRA, "blocked", 3, HOUR);
    carry_out(WEIR_BLOCK, &blocked, 1, NULL);
    for (uint64_t n = 0; n < 50000; n++)
        ask_number(n, 5);
    size_t keys = weir_memory_keys(store);
    for (uint64_t n = 0; n < 100; n++)
        assert_true(log_number("log", n, 1).allowed);
    assert_in_range(weir_memory_keys(store), keys / 3, keys * 2 / 3);
    for (uint64_t n = 0; n < 50000; n++)
        ask_number(n, 5);
    assert_in_range(weir_memory_bytes(store), WEIR_MEMORY_BYTES_MIN / 4, WEIR_MEMORY_BYTES_MIN);
    assert_false(ask(&blocked).allowed);
}

/* 8 threads, each with a check at a time, while keys expire and the table is full. */

#define THREADS 8
#define HITS    10000

struct crowd {
    pthread_barrier_t start;
    atomic_uint member;
    atomic_uint shared_through, own_wrong;
};

static void hit_the_shared_keys(struct crowd *crowd, unsigned hit)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    struct weir_spend spends[2];
    struct weir_answer answers[2];
    /* In either order: the locks must not care. */
    spends[0] = spend_of(WEIR_GCRA, names[hit % 4], 1000000, HOUR);
    spends[1] = spend_of(WEIR_FIXED_WINDOW, hit % 4 < 2 ? "y" : "x", 30000, 2 * HOUR);
    if (hit % 8 >= 4) {
        struct weir_spend first = spends[0];
        spends[0] = spends[1];
        spends[1] = first;
    }
    if (carry_out(WEIR_SPEND, spends, 2, answers) == WEIR_STORE_ANSWERED && answers[0].allowed
        && answers[1].allowed)
        atomic_fetch_add(&crowd->shared_through, 1);
}

static void *hit(void *self)
{
    struct crowd *crowd = self;
    unsigned member = atomic_fetch_add(&crowd->member, 1);
    char key[32];
    pthread_barrier_wait(&crowd->start);
    for (unsigned n = 0; n < HITS; n++) {
        hit_the_shared_keys(crowd, n);
        /* Keys that live for 50 µs of a clock that goes on by one for each. */
        snprintf(key, sizeof key, "%u-%u", member, n);
        struct weir_spend brief = spend_of(WEIR_GCRA, key, 1, 50);
        if (!ask(&brief).allowed)
            atomic_fetch_add(&crowd->own_wrong, 1);
        atomic_fetch_add(&clock_us, 1);
    }
    return NULL;
}

static void counts_exactly_with_many_threads(void **state)
{
    (void)state;
    static struct crowd crowd;
    pthread_t threads[THREADS];
    memset(&crowd, 0, sizeof crowd);
    /* Well inside a window of two hours, since the edges are on the clock. */
    atomic_store(&clock_us, UINT64_C(1767225600000000) + HOUR);
    pthread_barrier_init(&crowd.start, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hit, &crowd), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&crowd.start);

    /* 40000 at "x" and at "y", of which 30000 each pass; what they refuse is not charged. */
    assert_int_equal(crowd.shared_through, 60000);
    assert_int_equal(crowd.own_wrong, 0);
    static const char *const names[] = { "a", "b", "c", "d" };
    uint64_t spent = 0;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct weir_spend look = spend_of(WEIR_GCRA, names[i], 1000000, HOUR);
        look.cost = 0;
        /* 80000 µs went by, in which 80000 / 3600 units came back. */
        spent += 1000000 - ask(&look).remaining;
    }
    assert_in_range(spent, 60000 - 4 * 23, 60000);
}

/* Takes two units of a shared log, and gives one of them back. */
static bool spend_and_settle(void)
{
    unsigned done = 0;
    struct weir_answer answer = { .allowed = false };
    struct weir_spend spend = spend_of(WEIR_SLIDING_LOG, "log", 1000000, HOUR);
    struct weir_check check = { .spends = &spend,
                                .answers = &answer,
                                .count = 1,
                                .wants_time = true,
                                .done = count_done,
                                .owner = &done };
    spend.cost = 2;
    store->type->submit(store->self, &check);
    spend.reserved = 2;
    spend.cost = 1;
    spend.decided_us = check.now_us;
    spend.full_us = check.now_us + answer.reset_us;
    check.operation = WEIR_SETTLE;
    store->type->submit(store->self, &check);
    return done == 2 && answer.allowed && check.result == WEIR_STORE_ANSWERED;
}

static void *hit_logs(void *self)
{
    struct crowd *crowd = self;
    unsigned member = atomic_fetch_add(&crowd->member, 1);
    char key[32];
    pthread_barrier_wait(&crowd->start);
    for (unsigned n = 0; n < HITS; n++) {
        if (spend_and_settle())
            atomic_fetch_add(&crowd->shared_through, 1);
        snprintf(key, sizeof key, "log-%u-%u", member, n);
        struct weir_spend brief = spend_of(WEIR_SLIDING_LOG, key, 1, 5000);
        if (!ask(&brief).allowed)
            atomic_fetch_add(&crowd->own_wrong, 1);
        atomic_fetch_add(&clock_us, 1);
    }
    return NULL;
}

static void counts_logs_exactly_with_many_threads(void **state)
{
    (void)state;
    static struct crowd crowd;
    pthread_t threads[THREADS];
    memset(&crowd, 0, sizeof crowd);
    pthread_barrier_init(&crowd.start, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hit_logs, &crowd), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&crowd.start);

    assert_int_equal(crowd.shared_through, THREADS * HITS);
    assert_int_equal(crowd.own_wrong, 0);
    struct weir_spend look = spend_of(WEIR_SLIDING_LOG, "log", 1000000, HOUR);
    look.cost = 0;
    assert_int_equal(ask(&look).remaining, 1000000 - THREADS * HITS);
}

/* All of them make room for a log of their own in segments that the others work in. */
static void *hit_growing_logs(void *self)
{
    struct crowd *crowd = self;
    unsigned member = atomic_fetch_add(&crowd->member, 1);
    char names[3][32];
    pthread_barrier_wait(&crowd->start);
    for (unsigned n = 0; n < HITS; n++) {
        struct weir_spend spends[3];
        struct weir_answer answers[3];
        snprintf(names[0], sizeof names[0], "large-%u", member);
        snprintf(names[1], sizeof names[1], "flood-%u-%u", member, n / 6);
        snprintf(names[2], sizeof names[2], "brief-%u-%u", member, n);
        for (size_t i = 0; i < 3; i++)
            spends[i] = spend_of(WEIR_SLIDING_LOG, names[i], 5, HOUR);
        spends[0] = spend_of(WEIR_SLIDING_LOG, names[0], 200, HOUR);
        if (carry_out(WEIR_SPEND, spends, n % 2 == 0 ? 2 : 3, answers) != WEIR_STORE_ANSWERED)
            atomic_fetch_add(&crowd->own_wrong, 1);
        atomic_fetch_add(&clock_us, 1);
    }
    return NULL;
}

static void finds_room_for_logs_with_many_threads(void **state)
{
    (void)state;
    static struct crowd crowd;
    pthread_t threads[THREADS];
    memset(&crowd, 0, sizeof crowd);
    pthread_barrier_init(&crowd.start, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hit_growing_logs, &crowd), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&crowd.start);

    assert_int_equal(crowd.own_wrong, 0);
    assert_in_range(weir_memory_bytes(store), WEIR_MEMORY_BYTES_MIN / 2, WEIR_MEMORY_BYTES_MIN);
}

/* the numbers */

static void counts_its_keys_and_what_it_forgets(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 1000; n++)
        ask_number(n, 5);
    struct weir_store_numbers numbers = weir_store_numbers(store);
    assert_true(numbers.is_memory);
    assert_int_equal(numbers.keys, 1000);
    assert_int_equal(numbers.evictions, 0);
    assert_int_equal(numbers.bytes, weir_memory_bytes(store));
    for (uint64_t n = 1000; n < 20000; n++)
        ask_number(n, 5);
    numbers = weir_store_numbers(store);
    assert_int_equal(numbers.keys + numbers.evictions, 20000);
    assert_true(numbers.bytes <= WEIR_MEMORY_BYTES_MIN);
}

#define CASE(name)       cmocka_unit_test_setup_teardown(name, open_default, close_store)
#define SMALL_CASE(name) cmocka_unit_test_setup_teardown(name, open_least, close_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(answers_before_submit_returns),
        CASE(goes_on_as_before_when_the_clock_steps_back),
        SMALL_CASE(forgets_what_has_expired),
        CASE(keeps_nothing_of_looks_and_hopeless_costs),
        SMALL_CASE(stays_in_its_budget),
        SMALL_CASE(lets_no_flood_forgive_a_key_that_refuses),
        SMALL_CASE(lets_no_flood_forgive_a_key_that_is_used_up),
        SMALL_CASE(lets_what_is_used_up_go_where_all_is),
        CASE(limits_with_a_clock_far_in_the_future),
        SMALL_CASE(protects_no_key_for_a_cost_that_never_fits),
        CASE(spends_at_most_64_bytes_on_a_key),
        SMALL_CASE(counts_exactly_with_many_threads),
        CASE(counts_logs_exactly_with_many_threads),
        SMALL_CASE(finds_room_for_logs_with_many_threads),
        CASE(blocks_resets_and_settles_every_algorithm),
        CASE(spends_nothing_anywhere_when_one_refuses),
        SMALL_CASE(keeps_a_block_through_a_flood),
        SMALL_CASE(keeps_penalties_through_a_flood),
        CASE(takes_a_key_of_another_algorithm_for_new),
        CASE(logs_in_rings_that_grow_and_shrink),
        SMALL_CASE(frees_the_rings_of_a_flood_in_its_budget),
        SMALL_CASE(lets_no_flood_of_logs_forgive_a_log_that_refuses),
        SMALL_CASE(lets_no_flood_of_logs_forgive_a_log_that_is_used_up),
        SMALL_CASE(lets_a_log_grow_in_a_flood_that_refuses),
        SMALL_CASE(says_when_a_log_has_no_room),
        SMALL_CASE(bounds_entries_that_were_given_back),
        SMALL_CASE(leaves_room_for_logs_in_a_full_table),
        SMALL_CASE(counts_its_keys_and_what_it_forgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
