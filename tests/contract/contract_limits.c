/* One limit, while no time passes. */
#include "contract_cases.h"

static void answers_each_check_once(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "once", 1000, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++)
        for (uint64_t n = 1; n <= 50; n++) {
            struct weir_answer answer = contract_spend(store, &kinds[i].spend);
            assert_true(answer.allowed);
            assert_int_equal(answer.remaining, 1000 - n);
        }
}

static void counts_down_then_refuses(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "down", 3, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        print_message("    %s\n", kinds[i].name);
        for (uint64_t left = 3; left > 0; left--) {
            struct weir_answer answer = contract_spend(store, &kinds[i].spend);
            assert_true(answer.allowed);
            assert_false(answer.impossible);
            assert_int_equal(answer.remaining, left - 1);
            assert_int_equal(answer.retry_us, 0);
            assert_true(answer.reset_us > 0);
        }
        struct weir_answer answer = contract_spend(store, &kinds[i].spend);
        assert_false(answer.allowed);
        assert_false(answer.impossible);
        assert_int_equal(answer.remaining, 0);
        assert_int_equal(answer.wait_us, 0);
        assert_true(answer.retry_us > 0);
        assert_true(answer.reset_us >= answer.retry_us);
    }
}

static void spends_what_it_costs(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "cost", 10, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        const struct weir_spend *spend = &kinds[i].spend;
        assert_int_equal(ask(spend, 4).remaining, 6);
        struct weir_answer answer = ask(spend, 7);
        assert_false(answer.allowed);
        assert_int_equal(answer.remaining, 6);
        answer = ask(spend, 6);
        assert_true(answer.allowed);
        assert_int_equal(answer.remaining, 0);
    }
}

static void looks_without_spending(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "look", 3, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        const struct weir_spend *spend = &kinds[i].spend;
        assert_int_equal(look(spend).remaining, 3);
        assert_int_equal(look(spend).reset_us, 0);
        if (ttl_is_known())
            assert_int_equal(ttl_us(spend), 0);

        ask(spend, 2);
        for (int n = 0; n < 5; n++)
            assert_int_equal(look(spend).remaining, 1);
        assert_true(look(spend).reset_us > 0);
        ask(spend, 1);
        assert_int_equal(look(spend).remaining, 0);
        assert_int_equal(look(spend).retry_us, 0);
        assert_int_equal(look(spend).wait_us, 0);
    }
}

static void refuses_a_cost_that_can_never_fit(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "impossible", 5, 366 * DAY);
    static const uint64_t costs[] = { 6, 1000000, WEIR_UNITS_MAX, UINT64_MAX };
    for (size_t i = 0; i < KINDS; i++)
        for (uint64_t spent = 0; spent <= 2; spent += 2) {
            const struct weir_spend *spend = &kinds[i].spend;
            ask(spend, spent);
            for (size_t n = 0; n < COUNT_OF(costs); n++) {
                struct weir_answer answer = ask(spend, costs[n]);
                assert_false(answer.allowed);
                assert_true(answer.impossible);
                assert_int_equal(answer.remaining, 5 - spent);
                assert_int_equal(answer.retry_us, 0);
                assert_int_equal(answer.reset_us > 0, spent > 0);
            }
            if (ttl_is_known() && spent == 0)
                assert_int_equal(ttl_us(spend), 0);
            assert_int_equal(look(spend).remaining, 5 - spent);
        }
}

static void lets_nothing_through_a_limit_of_zero(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "zero", 0, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        struct weir_answer answer = contract_spend(store, &kinds[i].spend);
        assert_false(answer.allowed);
        assert_true(answer.impossible);
        assert_int_equal(answer.remaining, 0);
        assert_int_equal(answer.retry_us, 0);
        assert_int_equal(look(&kinds[i].spend).remaining, 0);
        if (ttl_is_known())
            assert_int_equal(ttl_us(&kinds[i].spend), 0);
    }
}

/* The buckets earn a unit each 3.6 µs. */
static void counts_the_largest_numbers(void **state)
{
    (void)state;
    struct weir_spend spends[] = {
        new_spend("large", WEIR_GCRA, WEIR_UNITS_MAX, HOUR, 0),
        new_spend("large", WEIR_TOKEN_BUCKET, WEIR_UNITS_MAX, HOUR, 0),
        new_spend("large", WEIR_LEAKY_BUCKET, WEIR_UNITS_MAX, HOUR, 0),
        new_spend("large", WEIR_FIXED_WINDOW, WEIR_UNITS_MAX, ENDLESS, 0),
        new_spend("large", WEIR_SLIDING_COUNTER, WEIR_UNITS_MAX, ENDLESS, 0),
        new_spend("large", WEIR_SLIDING_LOG, WEIR_UNITS_MAX, ENDLESS, 0),
    };
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
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

/* Limits of one group are kept together, and count each for itself, in whatever company they are
 * asked. */
static void keeps_the_limits_of_a_group_apart(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "member", 100, 366 * DAY);
    struct weir_spend members[WEIR_CHECK_LIMITS];
    for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++)
        members[i] = in_group(&kinds[2 * i].spend, kinds[0].spend.key);

    struct contract_plan whole = { .check.count = WEIR_CHECK_LIMITS };
    memcpy(whole.spends, members, sizeof members);
    submit_answered(store, &whole);
    for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++)
        assert_int_equal(ask(&members[i], i + 1).remaining, 98 - i);

    /* Some of them, in another order, and then all again. */
    struct contract_plan some = { .spends = { members[5], members[0], members[3] },
                                  .check.count = 3 };
    submit_answered(store, &some);
    assert_int_equal(some.answers[0].remaining, 92);
    assert_int_equal(some.answers[1].remaining, 97);
    assert_int_equal(some.answers[2].remaining, 94);
    submit_answered(store, &whole);
    for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++)
        assert_int_equal(whole.answers[i].remaining, 97 - i - (i == 0 || i == 3 || i == 5 ? 1 : 0));
    reset(&members[4]);
    assert_int_equal(look(&members[4]).remaining, 100);
    assert_int_equal(look(&members[6]).remaining, 91);
}

/* A row for each algorithm: what is left after 10 of 10 were spent and the limit became 20. Time in
 * use keeps its length, so where a limit is a rate only, a raised burst gives its units at once. */
static void takes_the_new_limit_at_once(void **state)
{
    (void)state;
    static const struct {
        enum weir_algorithm algorithm;
        uint64_t limit, burst;
    } rows[] = {
        { WEIR_GCRA, 10, 20 },         { WEIR_LEAKY_BUCKET, 10, 20 },
        { WEIR_TOKEN_BUCKET, 10, 20 }, { WEIR_TOKEN_BUCKET, 20, 0 },
        { WEIR_FIXED_WINDOW, 20, 0 },  { WEIR_SLIDING_COUNTER, 20, 0 },
        { WEIR_SLIDING_LOG, 20, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %zu\n", i);
        struct weir_spend before = new_spend("raised", rows[i].algorithm, 10, 366 * DAY, 0);
        struct weir_spend after = changed(&before, rows[i].limit, 366 * DAY, rows[i].burst);
        assert_true(ask(&before, 10).allowed);
        assert_false(ask(&before, 1).allowed);
        assert_int_equal(look(&after).remaining, 10);
        assert_true(ask(&after, 10).allowed);
        assert_false(ask(&after, 1).allowed);
        /* And lowered again: nothing is left, and nothing goes below nothing. */
        assert_int_equal(look(&before).remaining, 0);
        assert_false(ask(&before, 1).allowed);
        assert_true(ask(&before, 1).retry_us <= 366 * DAY);
    }
}

static void keeps_the_time_in_use_when_a_rate_is_raised(void **state)
{
    (void)state;
    need_time_of_ours();
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_LEAKY_BUCKET };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct weir_spend before = new_spend("rate", algorithms[i], 10, HOUR, 0);
        struct weir_spend after = changed(&before, 20, HOUR, 0);
        ask(&before, 10);
        assert_int_equal(look(&after).remaining, 0);
        assert_int_equal(ask(&after, 1).retry_us, 3 * MINUTE);
        assert_int_equal(look(&after).reset_us, HOUR);
    }
}

/* By the row: what a queue of 5 that drains at 10 a second, and at most 250 ms of waiting, says. */
static void gives_each_request_its_moment_in_the_queue(void **state)
{
    (void)state;
    need_time_of_ours();
    struct weir_spend queue = new_spend("queue", WEIR_LEAKY_BUCKET, 10, SECOND, 5);
    queue.max_wait_us = SECOND / 4;
    static const struct {
        uint64_t pass_us, cost, allowed, wait_us, remaining, retry_us, reset_us;
    } rows[] = {
        { 0, 0, true, 0, 3, 0, 0 },
        { 0, 1, true, 0, 2, 0, 100000 },
        { 0, 1, true, 100000, 1, 0, 200000 },
        { 0, 1, true, 200000, 0, 0, 300000 },
        { 0, 1, false, 0, 0, 50000, 300000 }, /* the next would wait 300 ms: too long */
        { 49999, 1, false, 0, 0, 1, 250001 },
        { 1, 1, true, 250000, 0, 0, 350000 },
        { 0, 0, true, 0, 0, 0, 350000 }, /* a look takes no place and waits for nothing */
        { 350000, 3, true, 0, 0, 0, 300000 },
        { 50000, 3, false, 0, 1, 50000, 250000 }, /* there is no room for so many */
        { 0, 2, true, 250000, 0, 0, 450000 },
        { 0, 6, false, 0, 0, 0, 450000 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    row %zu\n", i);
        pass_us(rows[i].pass_us);
        struct weir_answer answer = ask(&queue, rows[i].cost);
        assert_int_equal(answer.allowed, rows[i].allowed);
        assert_int_equal(answer.wait_us, rows[i].wait_us);
        assert_int_equal(answer.remaining, rows[i].remaining);
        assert_int_equal(answer.retry_us, rows[i].retry_us);
        assert_int_equal(answer.reset_us, rows[i].reset_us);
        assert_int_equal(answer.impossible, rows[i].cost > 5);
    }
}

static void passes_a_queue_without_waiting_at_once(void **state)
{
    (void)state;
    struct weir_spend bucket = new_spend("nodelay", WEIR_LEAKY_BUCKET, 5, 366 * DAY, 0);
    for (uint64_t n = 0; n < 5; n++) {
        struct weir_answer answer = ask(&bucket, 1);
        assert_true(answer.allowed);
        assert_int_equal(answer.wait_us, 0);
        assert_int_equal(answer.remaining, 4 - n);
    }
    assert_false(ask(&bucket, 1).allowed);
}

static void logs_its_refusals_when_told_to(void **state)
{
    (void)state;
    need_time_of_ours();
    struct weir_spend log = new_spend("hammered", WEIR_SLIDING_LOG, 3, MINUTE, 0);
    log.logs_refusals = true;
    ask(&log, 3);
    for (int n = 0; n < 50; n++) {
        pass_us(SECOND);
        struct weir_answer answer = ask(&log, 1);
        assert_false(answer.allowed);
        /* Room for one comes when at most two of the last are within the minute. */
        assert_int_equal(answer.retry_us, MINUTE - (n == 0 ? 1 : 2) * SECOND);
        assert_int_equal(answer.reset_us, MINUTE);
    }
    /* A cost that never fits was no attempt. */
    assert_true(ask(&log, 4).impossible);
    assert_int_equal(look(&log).reset_us, MINUTE);
    pass_us(MINUTE - 2 * SECOND);
    assert_true(ask(&log, 1).allowed);
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

static const struct CMUnitTest tests[] = {
    CASE(answers_each_check_once),
    CASE(counts_down_then_refuses),
    CASE(spends_what_it_costs),
    CASE(looks_without_spending),
    CASE(refuses_a_cost_that_can_never_fit),
    CASE(lets_nothing_through_a_limit_of_zero),
    CASE(counts_the_largest_numbers),
    CASE(keeps_keys_apart),
    CASE(keeps_the_limits_of_a_group_apart),
    CASE(takes_the_new_limit_at_once),
    CASE(keeps_the_time_in_use_when_a_rate_is_raised),
    CASE(gives_each_request_its_moment_in_the_queue),
    CASE(passes_a_queue_without_waiting_at_once),
    CASE(logs_its_refusals_when_told_to),
    CASE(says_that_it_answers),
};

const struct contract_group contract_limits = GROUP("one limit", tests);
