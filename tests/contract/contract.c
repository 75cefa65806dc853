#include "contract.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "store/store.h"

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

/* A window on the clock that no test run meets the edge of. */
#define ENDLESS WEIR_WINDOW_MAX_US

/* A window short enough to wait for where time is real, and long enough to do a few checks in. */
#define SHORT (300 * UINT64_C(1000))

static const struct contract_factory *factory;
static struct weir_store *store;

/* asking */

struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    unsigned calls;
};

static void on_done(struct weir_check *check)
{
    struct waiter *waiter = check->owner;
    pthread_mutex_lock(&waiter->mutex);
    waiter->calls++;
    pthread_cond_signal(&waiter->woken);
    pthread_mutex_unlock(&waiter->mutex);
}

void contract_submit(struct weir_store *asked, struct weir_check *check)
{
    struct waiter waiter = { .calls = 0 };
    pthread_mutex_init(&waiter.mutex, NULL);
    pthread_cond_init(&waiter.woken, NULL);
    check->done = on_done;
    check->owner = &waiter;

    asked->type->submit(asked->self, check);
    pthread_mutex_lock(&waiter.mutex);
    while (waiter.calls == 0)
        pthread_cond_wait(&waiter.woken, &waiter.mutex);
    pthread_mutex_unlock(&waiter.mutex);
    assert_int_equal(waiter.calls, 1);

    pthread_cond_destroy(&waiter.woken);
    pthread_mutex_destroy(&waiter.mutex);
}

static void submit_answered(struct weir_store *asked, struct weir_check *check)
{
    contract_submit(asked, check);
    if (check->result != WEIR_STORE_ANSWERED)
        print_error("    no answer: %s\n", check->why);
    assert_int_equal(check->result, WEIR_STORE_ANSWERED);
}

struct weir_answer contract_spend(struct weir_store *asked, const struct weir_spend *spend)
{
    struct weir_check check = { .spends = { *spend }, .count = 1 };
    submit_answered(asked, &check);
    return check.answers[0];
}

/* Decides `spend` at another cost. */
static struct weir_answer ask(const struct weir_spend *spend, uint64_t cost)
{
    struct weir_spend changed = *spend;
    changed.cost = cost;
    return contract_spend(store, &changed);
}

static struct weir_answer look(const struct weir_spend *spend)
{
    struct weir_answer answer = ask(spend, 0);
    assert_true(answer.allowed);
    return answer;
}

/* keys and rates */

/* Keeps texts until the program ends. */
static const char *new_key(const char *name)
{
    static char keys[512][96];
    static size_t count;
    static uint64_t run;
    if (run == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        run = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + (uint64_t)getpid();
    }
    assert_true(count < COUNT_OF(keys));
    snprintf(keys[count], sizeof keys[0], "contract-%llx-%zu-%s", (unsigned long long)run, count,
             name);
    return keys[count++];
}

static struct weir_spend new_spend(const char *name, enum weir_algorithm algorithm, uint64_t limit,
                                   uint64_t window_us, uint64_t burst)
{
    struct weir_spend spend = { .algorithm = algorithm, .cost = 1, .key = new_key(name) };
    spend.key_length = strlen(spend.key);
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_rate_make(limit, window_us, burst, &spend.rate, &error);
    assert_int_equal(code, WEIR_OK);
    return spend;
}

struct weir_spend contract_gcra(const char *name, uint64_t limit, uint64_t window_us,
                                uint64_t burst)
{
    return new_spend(name, WEIR_GCRA, limit, window_us, burst);
}

struct weir_spend contract_window(const char *name, uint64_t limit, uint64_t window_us)
{
    return new_spend(name, WEIR_FIXED_WINDOW, limit, window_us, 0);
}

static struct weir_spend window_from_first(const char *name, uint64_t limit, uint64_t window_us)
{
    struct weir_spend spend = contract_window(name, limit, window_us);
    spend.from_first = true;
    return spend;
}

/* time */

static bool time_is_ours(void)
{
    return factory->pass_us != NULL;
}

static void sleep_us(uint64_t us)
{
    struct timespec pause = { (time_t)(us / SECOND), (long)(us % SECOND) * 1000 };
    while (nanosleep(&pause, &pause) != 0)
        continue;
}

static void pass_us(uint64_t us)
{
    if (time_is_ours())
        factory->pass_us(factory->self, us);
    else
        sleep_us(us);
}

/* Checks a time left that is `exact_us` long where time is ours; real time may have gone on for up
 * to `most_late_us` since. */
static void assert_left(uint64_t us, uint64_t exact_us, uint64_t most_late_us)
{
    if (time_is_ours())
        assert_int_equal(us, exact_us);
    else
        assert_in_range(us, exact_us > most_late_us ? exact_us - most_late_us : 0, exact_us);
}

static bool ttl_is_known(void)
{
    return factory->ttl_us != NULL;
}

static uint64_t ttl_us(const struct weir_spend *spend)
{
    return factory->ttl_us(factory->self, store, spend->key, spend->key_length);
}

/* the cases: one limit */

/* Both algorithms at a limit of `limit` that does not come back while the test runs. */
static void both(struct weir_spend spends[2], const char *name, uint64_t limit)
{
    spends[0] = contract_gcra(name, limit, 366 * DAY, 0);
    spends[1] = contract_window(name, limit, ENDLESS);
}

static void answers_each_check_once(void **state)
{
    (void)state;
    struct weir_spend spends[2];
    both(spends, "once", 1000);
    for (size_t i = 0; i < 2; i++)
        for (uint64_t n = 1; n <= 100; n++) {
            struct weir_answer answer = contract_spend(store, &spends[i]);
            assert_true(answer.allowed);
            assert_int_equal(answer.remaining, 1000 - n);
        }
}

static void counts_down_then_refuses(void **state)
{
    (void)state;
    struct weir_spend spends[2];
    both(spends, "down", 3);
    for (size_t i = 0; i < 2; i++) {
        for (uint64_t left = 3; left > 0; left--) {
            struct weir_answer answer = contract_spend(store, &spends[i]);
            assert_true(answer.allowed);
            assert_false(answer.impossible);
            assert_int_equal(answer.remaining, left - 1);
            assert_int_equal(answer.retry_us, 0);
            assert_true(answer.reset_us > 0);
        }
        struct weir_answer answer = contract_spend(store, &spends[i]);
        assert_false(answer.allowed);
        assert_false(answer.impossible);
        assert_int_equal(answer.remaining, 0);
        assert_true(answer.retry_us > 0);
        assert_true(answer.reset_us >= answer.retry_us);
    }
}

static void spends_what_it_costs(void **state)
{
    (void)state;
    struct weir_spend spends[2];
    both(spends, "cost", 10);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ask(&spends[i], 4).remaining, 6);
        struct weir_answer answer = ask(&spends[i], 7);
        assert_false(answer.allowed);
        assert_int_equal(answer.remaining, 6);
        answer = ask(&spends[i], 6);
        assert_true(answer.allowed);
        assert_int_equal(answer.remaining, 0);
    }
}

static void looks_without_spending(void **state)
{
    (void)state;
    struct weir_spend spends[2];
    both(spends, "look", 3);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(look(&spends[i]).remaining, 3);
        assert_int_equal(look(&spends[i]).reset_us, 0);
        if (ttl_is_known())
            assert_int_equal(ttl_us(&spends[i]), 0);

        ask(&spends[i], 2);
        for (int n = 0; n < 5; n++)
            assert_int_equal(look(&spends[i]).remaining, 1);
        assert_true(look(&spends[i]).reset_us > 0);
        ask(&spends[i], 1);
        assert_int_equal(look(&spends[i]).remaining, 0);
        assert_int_equal(look(&spends[i]).retry_us, 0);
    }
}

static void refuses_a_cost_that_can_never_fit(void **state)
{
    (void)state;
    struct weir_spend spends[2];
    both(spends, "impossible", 5);
    static const uint64_t costs[] = { 6, 1000000, WEIR_UNITS_MAX, UINT64_MAX };
    for (size_t i = 0; i < 2; i++)
        for (uint64_t spent = 0; spent <= 2; spent += 2) {
            ask(&spends[i], spent);
            for (size_t n = 0; n < COUNT_OF(costs); n++) {
                struct weir_answer answer = ask(&spends[i], costs[n]);
                assert_false(answer.allowed);
                assert_true(answer.impossible);
                assert_int_equal(answer.remaining, 5 - spent);
                assert_int_equal(answer.retry_us, 0);
            }
            if (ttl_is_known() && spent == 0)
                assert_int_equal(ttl_us(&spends[i]), 0);
            assert_int_equal(look(&spends[i]).remaining, 5 - spent);
        }
}

static void lets_nothing_through_a_limit_of_zero(void **state)
{
    (void)state;
    struct weir_spend spends[2];
    both(spends, "zero", 0);
    for (size_t i = 0; i < 2; i++) {
        struct weir_answer answer = contract_spend(store, &spends[i]);
        assert_false(answer.allowed);
        assert_true(answer.impossible);
        assert_int_equal(answer.remaining, 0);
        assert_int_equal(answer.retry_us, 0);
        assert_int_equal(look(&spends[i]).remaining, 0);
    }
}

/* A rate above one unit each microsecond has an interval of no whole microsecond. */
static void counts_the_largest_numbers(void **state)
{
    (void)state;
    struct weir_spend spends[2] = {
        contract_gcra("large", 1000000, HOUR, 0),
        contract_window("large", WEIR_UNITS_MAX, ENDLESS),
    };
    for (size_t i = 0; i < 2; i++) {
        uint64_t limit = spends[i].rate.limit;
        struct weir_answer answer = ask(&spends[i], limit - 1);
        assert_true(answer.allowed);
        assert_in_range(answer.remaining, 1, time_is_ours() ? 1 : 1 + limit / 1000);
        assert_true(ask(&spends[i], 1).allowed);
        assert_false(ask(&spends[i], limit).allowed);
    }
}

static void keeps_keys_apart(void **state)
{
    (void)state;
    struct weir_spend spend = contract_gcra("apart", 1, HOUR, 0);
    char keys[6][WEIR_KEY_MAX];
    size_t lengths[6] = { WEIR_KEY_MAX, WEIR_KEY_MAX, WEIR_KEY_MAX - 1, 40, 40, 41 };
    for (size_t i = 0; i < 6; i++) {
        memset(keys[i], 'k', sizeof keys[i]);
        memcpy(keys[i], spend.key, 30);
    }
    /* They differ in the last byte, in their length, and in what stands behind a NUL. */
    keys[1][WEIR_KEY_MAX - 1] = 'j';
    memcpy(keys[3] + 35, "\0\1\r\n ", 5);
    memcpy(keys[4] + 35, "\0\2\r\n ", 5);
    memcpy(keys[5] + 35, "\0\1\r\n ", 5);

    for (size_t i = 0; i < 6; i++) {
        spend.key = keys[i];
        spend.key_length = lengths[i];
        assert_true(contract_spend(store, &spend).allowed);
        assert_false(contract_spend(store, &spend).allowed);
    }
}

static void takes_the_new_limit_at_once(void **state)
{
    (void)state;
    struct weir_spend before[2] = { contract_gcra("raised", 10, 366 * DAY, 0),
                                    contract_window("raised", 10, ENDLESS) };
    struct weir_spend after[2] = { contract_gcra("raised", 10, 366 * DAY, 20),
                                   contract_window("raised", 20, ENDLESS) };
    for (size_t i = 0; i < 2; i++) {
        after[i].key = before[i].key;
        after[i].key_length = before[i].key_length;
        assert_true(ask(&before[i], 10).allowed);
        assert_false(ask(&before[i], 1).allowed);
        assert_int_equal(look(&after[i]).remaining, 10);
        assert_true(ask(&after[i], 10).allowed);
        /* And lowered again: nothing is left, and nothing goes below nothing. */
        assert_int_equal(look(&before[i]).remaining, 0);
        assert_false(ask(&before[i], 1).allowed);
    }
}

/* the cases: time */

/* Spends it all, and whoever waits as told is let through, but nobody who comes sooner. */
static void check_wait(const struct weir_spend *spend, uint64_t cost)
{
    while (ask(spend, 1).allowed)
        continue;
    struct weir_answer answer = ask(spend, cost);
    assert_false(answer.allowed);
    assert_true(answer.retry_us > 0);
    if (time_is_ours()) {
        pass_us(answer.retry_us - 1);
        assert_false(ask(spend, cost).allowed);
        pass_us(1);
    } else {
        /* Half as long is not enough, but a slow machine may wake later than it was told. */
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        sleep_us(answer.retry_us / 2);
        bool allowed = ask(spend, cost).allowed;
        clock_gettime(CLOCK_MONOTONIC, &after);
        uint64_t waited_us = (uint64_t)((after.tv_sec - before.tv_sec) * 1000000
                                        + (after.tv_nsec - before.tv_nsec) / 1000);
        if (allowed && waited_us < answer.retry_us)
            fail_msg("let through after %llu of %llu us", (unsigned long long)waited_us,
                     (unsigned long long)answer.retry_us);
        if (allowed)
            return;
        answer = ask(spend, cost);
        sleep_us(answer.retry_us);
    }
    assert_true(ask(spend, cost).allowed);
}

static void tells_a_true_wait(void **state)
{
    (void)state;
    struct weir_spend spends[] = {
        contract_gcra("wait-one", 7, SHORT, 0),    contract_gcra("wait-burst", 3, SHORT, 9),
        contract_gcra("wait-many", 10, SHORT, 0),  contract_window("wait-clock", 3, SHORT),
        window_from_first("wait-first", 3, SHORT),
    };
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        print_message("    %s\n", spends[i].key);
        check_wait(&spends[i], i == 2 ? 5 : 1);
    }
}

static void tells_a_true_wait_after_the_limit_was_lowered(void **state)
{
    (void)state;
    struct weir_spend before = contract_gcra("lowered", 10, SHORT, 100);
    struct weir_spend after = contract_gcra("lowered", 10, SHORT, 5);
    after.key = before.key;
    after.key_length = before.key_length;
    ask(&before, 100);
    check_wait(&after, 1);
}

static void forgets_a_refusal(void **state)
{
    (void)state;
    struct weir_spend spends[] = {
        contract_gcra("forget", 2, HOUR, 0),
        window_from_first("forget", 2, HOUR),
    };
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        ask(&spends[i], 2);
        uint64_t before_us = ttl_is_known() ? ttl_us(&spends[i]) : 0;
        struct weir_answer first = ask(&spends[i], 1);
        pass_us(SECOND / 100);
        struct weir_answer last = first;
        for (int n = 0; n < 20; n++)
            last = ask(&spends[i], 1);
        assert_false(last.allowed);
        assert_left(last.retry_us, first.retry_us - SECOND / 100, SECOND);
        assert_left(last.reset_us, first.reset_us - SECOND / 100, SECOND);
        if (ttl_is_known())
            assert_true(ttl_us(&spends[i]) <= before_us);
    }
}

static void lets_keys_expire_and_come_back_fresh(void **state)
{
    (void)state;
    struct weir_spend spends[] = {
        contract_gcra("fresh", 5, SHORT, 0),
        contract_window("fresh", 5, SHORT),
        window_from_first("fresh", 5, SHORT),
    };
    for (size_t i = 0; i < COUNT_OF(spends); i++)
        ask(&spends[i], 5);
    pass_us(SHORT + 1000);
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        assert_int_equal(look(&spends[i]).remaining, 5);
        assert_int_equal(look(&spends[i]).reset_us, 0);
        struct weir_answer answer = ask(&spends[i], 1);
        assert_true(answer.allowed);
        /* Real time may have brought a gcra its unit back. */
        assert_in_range(answer.remaining, 4, time_is_ours() ? 4 : 5);
    }
}

static void expires_every_key_in_about_its_window(void **state)
{
    (void)state;
    if (!ttl_is_known())
        skip();
    struct weir_spend spends[] = {
        contract_gcra("ttl-first-cost-5", 10, MINUTE, 0),
        contract_window("ttl-first-cost-5", 10, MINUTE),
        window_from_first("ttl-first-cost-5", 10, MINUTE),
        contract_gcra("ttl-full", 97, MINUTE, 500),
    };
    static const uint64_t costs[] = { 5, 5, 5, 500 };
    static const uint64_t most_us[] = { MINUTE, 2 * MINUTE, 2 * MINUTE, 2 * 310 * SECOND };
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        struct weir_answer answer = ask(&spends[i], costs[i]);
        assert_true(answer.allowed);
        uint64_t left_us = ttl_us(&spends[i]);
        /* A millisecond for stores that round, a second for a slow machine. */
        assert_in_range(left_us + SECOND, answer.reset_us, most_us[i] + 2 * SECOND);
        assert_true(left_us > 0);
    }
}

static void fills_a_gcra_bit_by_bit(void **state)
{
    (void)state;
    if (!time_is_ours())
        skip();
    /* Capacity 10 at 5/s: 12 requests, 10 ms apart. */
    struct weir_spend spend = contract_gcra("figures", 5, SECOND, 10);
    for (uint64_t n = 0; n < 10; n++) {
        struct weir_answer answer = ask(&spend, 1);
        assert_true(answer.allowed);
        assert_int_equal(answer.remaining, 9 - n);
        pass_us(10000);
    }
    assert_int_equal(ask(&spend, 1).retry_us, 100000);
    pass_us(10000);
    assert_int_equal(ask(&spend, 1).retry_us, 90000);
    pass_us(SECOND);
    struct weir_answer answer = ask(&spend, 1);
    assert_true(answer.allowed);
    assert_int_equal(answer.remaining, 4);
}

static void lets_a_double_burst_through_a_window_edge(void **state)
{
    (void)state;
    if (!time_is_ours())
        skip();
    struct weir_spend spend = contract_window("edge", 100, MINUTE);
    ask(&spend, 1);
    pass_us(ask(&spend, 0).reset_us - 1);

    unsigned through = 1;
    for (int n = 0; n < 99; n++)
        through += ask(&spend, 1).allowed;
    assert_false(ask(&spend, 1).allowed);
    pass_us(1);
    for (int n = 0; n < 101; n++)
        through += ask(&spend, 1).allowed;
    assert_int_equal(through, 200);
}

static void opens_a_window_with_the_first_request(void **state)
{
    (void)state;
    if (!time_is_ours())
        skip();
    struct weir_spend spend = window_from_first("first", 2, MINUTE);
    pass_us(17 * SECOND + 123457);
    assert_int_equal(ask(&spend, 1).reset_us, MINUTE);
    pass_us(25 * SECOND);
    assert_int_equal(ask(&spend, 1).reset_us, 35 * SECOND);
    assert_int_equal(ask(&spend, 1).retry_us, 35 * SECOND);
    pass_us(35 * SECOND);
    assert_int_equal(ask(&spend, 1).reset_us, MINUTE);
}

static void never_drifts(void **state)
{
    (void)state;
    if (!time_is_ours())
        skip();
    /* 7 in a window is an interval of no whole number of microseconds. */
    struct weir_spend windows[] = {
        contract_gcra("seven", 7, SECOND, 0),
        contract_gcra("seven", 7, DAY, 0),
        contract_window("seven", 7, SECOND),
        window_from_first("seven", 7, SECOND),
    };
    for (size_t i = 0; i < COUNT_OF(windows); i++) {
        const struct weir_spend *spend = &windows[i];
        assert_true(ask(spend, 1).allowed);
        uint64_t passed_us = 0, through = 1;
        while (through < 7 * 100 + 3) {
            struct weir_answer answer = ask(spend, 1);
            through += answer.allowed;
            pass_us(answer.retry_us);
            passed_us += answer.retry_us;
        }
        /* Three more than 100 windows hold come in the one after them, or for gcra, which starts
         * full, exactly three intervals after the 99th, to the microsecond. */
        uint64_t window_us = spend->rate.window_us;
        if (spend->algorithm == WEIR_GCRA)
            assert_int_equal(passed_us, (696 * window_us + 6) / 7);
        else
            assert_in_range(passed_us, 99 * window_us, 100 * window_us);
    }
}

static void counts_a_step_back_as_no_time(void **state)
{
    (void)state;
    if (factory->step_back_us == NULL)
        skip();
    struct weir_spend gcra = contract_gcra("back", 5, SECOND, 10);
    struct weir_spend window = window_from_first("back", 5, SECOND);
    ask(&gcra, 10);
    ask(&window, 5);
    factory->step_back_us(factory->self, 120 * SECOND);

    /* Nothing was given away, and nobody waits longer than a full bucket or window takes. */
    assert_false(ask(&gcra, 1).allowed);
    assert_false(ask(&window, 1).allowed);
    assert_in_range(ask(&gcra, 1).retry_us, 1, SECOND / 5);
    assert_in_range(ask(&window, 1).retry_us, 1, SECOND);
    pass_us(SECOND / 5);
    assert_true(ask(&gcra, 1).allowed);
    pass_us(SECOND);
    assert_true(ask(&window, 1).allowed);
}

/* the cases: plans of several limits */

static void charges_all_or_nothing(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct weir_spend spends[2];
        both(spends, "all", 10);
        struct weir_check check = { .count = 2 };
        check.spends[0] = spends[order];
        check.spends[1] = spends[1 - order];
        submit_answered(store, &check);
        assert_int_equal(check.answers[0].remaining, 9);
        assert_int_equal(check.answers[1].remaining, 9);

        /* Whichever refuses, first or last, the other is not charged. */
        for (int used_up = 0; used_up < 2; used_up++) {
            struct weir_spend small = contract_gcra("small", 1, 366 * DAY, 0);
            assert_true(contract_spend(store, &small).allowed);
            check.spends[used_up] = small;
            check.spends[1 - used_up] = spends[0];
            for (int n = 0; n < 3; n++) {
                submit_answered(store, &check);
                assert_false(check.answers[used_up].allowed);
                assert_true(check.answers[1 - used_up].allowed);
                assert_int_equal(check.answers[1 - used_up].remaining, 9);
                assert_int_equal(look(&spends[0]).remaining, 9);
            }
        }
    }
}

static void decides_eight_limits_as_one(void **state)
{
    (void)state;
    struct weir_check check = { .count = WEIR_CHECK_LIMITS };
    for (size_t i = 0; i < check.count; i++)
        check.spends[i] = i % 2 == 0 ? contract_gcra("eight", i == 4 ? 3 : 10 + i, 366 * DAY, 0)
                                     : contract_window("eight", 10 + i, ENDLESS);
    for (uint64_t n = 1; n <= 3; n++) {
        submit_answered(store, &check);
        for (size_t i = 0; i < check.count; i++) {
            assert_true(check.answers[i].allowed);
            assert_int_equal(check.answers[i].remaining, check.spends[i].rate.limit - n);
        }
    }
    for (int n = 0; n < 5; n++)
        submit_answered(store, &check);
    for (size_t i = 0; i < check.count; i++) {
        assert_int_equal(check.answers[i].allowed, i != 4);
        assert_int_equal(look(&check.spends[i]).remaining, check.spends[i].rate.limit - 3);
    }
}

/* A cost of its own for each limit, a look among them. */
static void decides_each_limit_by_its_own_cost(void **state)
{
    (void)state;
    struct weir_spend spends[2];
    both(spends, "own", 10);
    struct weir_check check = { .spends = { spends[0], spends[1] }, .count = 2 };
    check.spends[0].cost = 0;
    check.spends[1].cost = 7;
    submit_answered(store, &check);
    assert_int_equal(look(&spends[0]).remaining, 10);
    assert_int_equal(look(&spends[1]).remaining, 3);

    submit_answered(store, &check);
    assert_true(check.answers[0].allowed);
    assert_false(check.answers[1].allowed);
    assert_int_equal(look(&spends[1]).remaining, 3);
}

static void refuses_a_plan_with_a_fault(void **state)
{
    (void)state;
    struct weir_spend good = contract_gcra("fault", 10, HOUR, 0);
    struct weir_spend no_key = good, long_key = good, later = good, no_rate = good;
    static char long_text[WEIR_KEY_MAX + 1] = "k";
    no_key.key_length = 0;
    long_key.key = long_text;
    long_key.key_length = sizeof long_text;
    later.algorithm = WEIR_SLIDING_LOG;
    no_rate.rate = (struct weir_rate){ .limit = 1 };
    const struct {
        const char *what;
        struct weir_check check;
    } rows[] = {
        { "no limits", { .count = 0 } },
        { "too many limits", { .count = WEIR_CHECK_LIMITS + 1 } },
        { "an empty key", { .spends = { no_key }, .count = 1 } },
        { "a key too long", { .spends = { good, long_key }, .count = 2 } },
        { "an algorithm of a later version", { .spends = { later }, .count = 1 } },
        { "a rate of nothing", { .spends = { no_rate }, .count = 1 } },
        { "one key twice", { .spends = { good, good }, .count = 2 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_check check = rows[i].check;
        contract_submit(store, &check);
        assert_int_equal(check.result, WEIR_STORE_ERROR);
        assert_true(check.why[0] != '\0');
    }
    assert_int_equal(look(&good).remaining, 10);
}

/* the cases: many at once */

struct crowd {
    struct weir_store *stores[3];
    size_t store_count;
    const struct weir_check *plan;
    unsigned each;
    unsigned through;
    pthread_mutex_t mutex;
    pthread_barrier_t start;
    size_t next;
};

/* Asserts would leave the thread by a jump; what went wrong shows in the sum. */
static void *crowd_member(void *self)
{
    struct crowd *crowd = self;
    pthread_mutex_lock(&crowd->mutex);
    struct weir_store *mine = crowd->stores[crowd->next++ % crowd->store_count];
    pthread_mutex_unlock(&crowd->mutex);

    unsigned through = 0;
    pthread_barrier_wait(&crowd->start);
    for (unsigned n = 0; n < crowd->each; n++) {
        struct weir_check check = *crowd->plan;
        contract_submit(mine, &check);
        bool allowed = check.result == WEIR_STORE_ANSWERED;
        for (size_t i = 0; i < check.count; i++)
            allowed = allowed && check.answers[i].allowed;
        through += allowed;
    }
    pthread_mutex_lock(&crowd->mutex);
    crowd->through += through;
    pthread_mutex_unlock(&crowd->mutex);
    return NULL;
}

/* How many of `threads` × `each` equal plans pass. */
static unsigned let_through(const struct weir_check *plan, size_t threads, unsigned each)
{
    struct crowd crowd = { .plan = plan, .each = each };
    crowd.store_count = factory->handles_share ? COUNT_OF(crowd.stores) : 1;
    crowd.stores[0] = store;
    for (size_t i = 1; i < crowd.store_count; i++)
        crowd.stores[i] = factory->open(factory->self);
    pthread_mutex_init(&crowd.mutex, NULL);
    pthread_barrier_init(&crowd.start, NULL, (unsigned)threads);

    pthread_t members[16];
    assert_true(threads <= COUNT_OF(members));
    for (size_t i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&members[i], NULL, crowd_member, &crowd), 0);
    for (size_t i = 0; i < threads; i++)
        pthread_join(members[i], NULL);

    pthread_barrier_destroy(&crowd.start);
    pthread_mutex_destroy(&crowd.mutex);
    for (size_t i = 1; i < crowd.store_count; i++)
        weir_store_free(crowd.stores[i]);
    return crowd.through;
}

static void never_lets_more_through_than_the_limit(void **state)
{
    (void)state;
    struct weir_spend spends[2];
    both(spends, "crowd", 100);
    for (size_t i = 0; i < 2; i++) {
        struct weir_check plan = { .spends = { spends[i] }, .count = 1 };
        assert_int_equal(let_through(&plan, 8, 50), 100);
    }
}

static void lets_one_of_three_take_the_last_unit(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct weir_spend spends[2];
        both(spends, "last", 10);
        for (size_t i = 0; i < 2; i++) {
            assert_true(ask(&spends[i], 9).allowed);
            struct weir_check plan = { .spends = { spends[i] }, .count = 1 };
            assert_int_equal(let_through(&plan, 3, 1), 1);
        }
    }
}

static void lets_a_crowd_spend_whole_plans_only(void **state)
{
    (void)state;
    struct weir_spend one[2], other[2];
    both(one, "plans", 300);
    both(other, "plans", 120);
    struct weir_check plan = { .spends = { one[0], other[0], one[1], other[1] }, .count = 4 };
    assert_int_equal(let_through(&plan, 8, 40), 120);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(look(&one[i]).remaining, 180);
        assert_int_equal(look(&other[i]).remaining, 0);
    }
}

/* A check's memory may go at once */

struct heap_check {
    struct weir_check check;
    struct waiter *waiter;
};

static void on_done_free(struct weir_check *check)
{
    struct heap_check *mine = check->owner;
    struct waiter *waiter = mine->waiter;
    memset(mine, 0xa5, sizeof *mine);
    free(mine);
    struct weir_check last = { .owner = waiter };
    on_done(&last);
}

static void touches_a_check_no_more_after_done(void **state)
{
    (void)state;
    struct weir_spend spends[2];
    both(spends, "freed", 1000);
    struct waiter waiter = { .calls = 0 };
    pthread_mutex_init(&waiter.mutex, NULL);
    pthread_cond_init(&waiter.woken, NULL);

    enum { CHECKS = 100 };
    for (unsigned n = 0; n < CHECKS; n++) {
        struct heap_check *mine = calloc(1, sizeof *mine);
        assert_non_null(mine);
        mine->check = (struct weir_check){
            .spends = { spends[0], spends[1] }, .count = 2, .done = on_done_free, .owner = mine
        };
        mine->waiter = &waiter;
        store->type->submit(store->self, &mine->check);
    }
    pthread_mutex_lock(&waiter.mutex);
    while (waiter.calls < CHECKS)
        pthread_cond_wait(&waiter.woken, &waiter.mutex);
    pthread_mutex_unlock(&waiter.mutex);
    pthread_cond_destroy(&waiter.woken);
    pthread_mutex_destroy(&waiter.mutex);
    assert_int_equal(look(&spends[0]).remaining, 1000 - CHECKS);
}

static void says_that_it_answers(void **state)
{
    (void)state;
    struct weir_store_state how = { .answering = false };
    weir_store_state(store, &how);
    assert_true(how.answering);
    assert_string_equal(how.why, "");
    assert_string_equal(how.name, store->type->name);
}

/* running */

static int open_store(void **state)
{
    (void)state;
    store = factory->open(factory->self);
    return store == NULL;
}

static int free_store(void **state)
{
    (void)state;
    store = weir_store_free(store);
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_store, free_store)

int contract_run(const struct contract_factory *made_by)
{
    static const struct CMUnitTest tests[] = {
        CASE(answers_each_check_once),
        CASE(counts_down_then_refuses),
        CASE(spends_what_it_costs),
        CASE(looks_without_spending),
        CASE(refuses_a_cost_that_can_never_fit),
        CASE(lets_nothing_through_a_limit_of_zero),
        CASE(counts_the_largest_numbers),
        CASE(keeps_keys_apart),
        CASE(takes_the_new_limit_at_once),
        CASE(tells_a_true_wait),
        CASE(tells_a_true_wait_after_the_limit_was_lowered),
        CASE(forgets_a_refusal),
        CASE(lets_keys_expire_and_come_back_fresh),
        CASE(expires_every_key_in_about_its_window),
        CASE(fills_a_gcra_bit_by_bit),
        CASE(lets_a_double_burst_through_a_window_edge),
        CASE(opens_a_window_with_the_first_request),
        CASE(never_drifts),
        CASE(counts_a_step_back_as_no_time),
        CASE(charges_all_or_nothing),
        CASE(decides_eight_limits_as_one),
        CASE(decides_each_limit_by_its_own_cost),
        CASE(refuses_a_plan_with_a_fault),
        CASE(never_lets_more_through_than_the_limit),
        CASE(lets_one_of_three_take_the_last_unit),
        CASE(lets_a_crowd_spend_whole_plans_only),
        CASE(touches_a_check_no_more_after_done),
        CASE(says_that_it_answers),
    };
    factory = made_by;
    print_message("  %s\n", factory->name);
    return cmocka_run_group_tests_name(factory->name, tests, NULL, NULL);
}
