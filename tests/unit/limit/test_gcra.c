#include "test.h"

#include "limit/gcra.h"

#define MS     UINT64_C(1000)
#define SECOND (1000 * MS)
#define DAY    (86400 * SECOND)

/* 2026-01-01T00:00:00Z */
#define NOW UINT64_C(1767225600000000)

static struct weir_rate rate_of(uint64_t limit, uint64_t window_us, uint64_t burst)
{
    struct weir_rate rate;
    assert_int_equal(weir_rate_make(limit, window_us, burst, &rate, NULL), WEIR_OK);
    return rate;
}

static void decides_by_time_owed(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t owed_ms; /* how far the arrival time lies ahead */
        uint64_t cost;
        struct weir_answer want;
        uint64_t owed_after_ms;
    } rows[] = {
        { "a new key", 0, 1, { true, false, false, 4, 0, 200 * MS, 0, 0 }, 200 },
        { "the last of the burst", 800, 1, { true, false, false, 0, 0, 1000 * MS, 0, 0 }, 1000 },
        { "one too many", 1000, 1, { false, false, false, 0, 200 * MS, 1000 * MS, 0, 0 }, 1000 },
        { "half a unit back", 900, 1, { false, false, false, 0, 100 * MS, 900 * MS, 0, 0 }, 900 },
        { "all at once", 0, 5, { true, false, false, 0, 0, 1000 * MS, 0, 0 }, 1000 },
        { "the capacity, drained",
          1000,
          5,
          { false, false, false, 0, 1000 * MS, 1000 * MS, 0, 0 },
          1000 },
        { "more than is there", 400, 4, { false, false, false, 3, 200 * MS, 400 * MS, 0, 0 }, 400 },
        { "more than will ever be", 400, 6, { false, true, false, 3, 0, 400 * MS, 0, 0 }, 400 },
        { "the largest cost", 400, UINT64_MAX, { false, true, false, 3, 0, 400 * MS, 0, 0 }, 400 },
        { "a look", 400, 0, { true, false, false, 3, 0, 400 * MS, 0, 0 }, 400 },
        { "a look at nothing left", 1000, 0, { true, false, false, 0, 0, 1000 * MS, 0, 0 }, 1000 },
        { "a clock set back",
          120000,
          1,
          { false, false, false, 0, 200 * MS, 1000 * MS, 0, 0 },
          1000 },
    };
    struct weir_rate rate = rate_of(5, SECOND, 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_state owed = { NOW + rows[i].owed_ms * MS, 0, 0 };
        struct weir_decision_step step = weir_gcra_decide(&rate, owed, NOW, rows[i].cost);
        assert_int_equal(step.answer.allowed, rows[i].want.allowed);
        assert_int_equal(step.answer.impossible, rows[i].want.impossible);
        assert_int_equal(step.answer.remaining, rows[i].want.remaining);
        assert_int_equal(step.answer.retry_us, rows[i].want.retry_us);
        assert_int_equal(step.answer.reset_us, rows[i].want.reset_us);
        assert_int_equal(step.state.first, NOW + rows[i].owed_after_ms * MS);
        assert_int_equal(step.state.low, 0);
    }
}

/* Capacity 10 at 5/s: 12 requests, 10 ms apart, and one a second later. */
static void gives_the_figures_of_the_design(void **state)
{
    (void)state;
    struct weir_rate rate = rate_of(5, SECOND, 10);
    struct weir_decision_step step = { .state = { 0 } };
    for (uint64_t n = 0; n < 12; n++) {
        step = weir_gcra_decide(&rate, step.state, NOW + n * 10 * MS, 1);
        assert_int_equal(step.answer.allowed, n < 10);
        assert_int_equal(step.answer.remaining, n < 10 ? 9 - n : 0);
        assert_int_equal(step.answer.retry_us, n < 10 ? 0 : (n == 10 ? 100 : 90) * MS);
    }
    step = weir_gcra_decide(&rate, step.state, NOW + 110 * MS + SECOND, 1);
    assert_true(step.answer.allowed);
    assert_int_equal(step.answer.remaining, 4);
}

static void keeps_fractions_of_a_microsecond(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t limit, window_us;
    } rows[] = {
        { "7 a day", 7, DAY },
        { "3 a second", 3, SECOND },
        { "1000000 an hour", 1000000, 3600 * SECOND },
        { "97 a minute", 97, 60 * SECOND },
        { "7 a microsecond or so", 999999937, 142857133 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_rate rate = rate_of(rows[i].limit, rows[i].window_us, 0);
        struct weir_span whole = weir_gcra_span(&rate, rows[i].limit);
        assert_int_equal(whole.us, rows[i].window_us);
        assert_int_equal(whole.part, 0);

        /* Unit by unit it is as long as at once. */
        struct weir_state sum = { NOW, 0, 0 };
        uint64_t units = rows[i].limit < 1000 ? rows[i].limit : 1000;
        for (uint64_t n = 0; n < units; n++)
            sum = weir_gcra_decide(&rate, sum, NOW, 1).state;
        struct weir_span span = weir_gcra_span(&rate, units);
        assert_int_equal(sum.first - NOW, span.us);
        assert_int_equal(sum.low, span.part);
    }
}

static void lets_exactly_a_days_worth_through(void **state)
{
    (void)state;
    /* 7/minute for a day: the burst of 7, and then 7 more in each minute. */
    struct weir_rate rate = rate_of(7, 60 * SECOND, 0);
    struct weir_state kept = { 0 };
    uint64_t through = 0, now_us = NOW;
    while (now_us <= NOW + DAY) {
        struct weir_decision_step step = weir_gcra_decide(&rate, kept, now_us, 1);
        kept = step.state;
        through += step.answer.allowed;
        now_us += step.answer.retry_us;
    }
    assert_int_equal(through, 7 + 7 * 1440);
}

static void gives_no_more_than_the_burst_after_idling(void **state)
{
    (void)state;
    struct weir_rate rate = rate_of(5, SECOND, 0);
    static const uint64_t idle_us[] = { SECOND, 2 * SECOND, DAY, 100 * 366 * DAY };
    for (size_t i = 0; i < COUNT_OF(idle_us); i++) {
        struct weir_state kept = { NOW + SECOND, 0, 0 };
        uint64_t through = 0;
        for (int n = 0; n < 10; n++) {
            struct weir_decision_step step =
                weir_gcra_decide(&rate, kept, NOW + SECOND + idle_us[i], 1);
            kept = step.state;
            through += step.answer.allowed;
        }
        assert_int_equal(through, 5);
    }
}

static void applies_new_numbers_to_what_is_kept(void **state)
{
    (void)state;
    struct weir_state used_up = { NOW + SECOND, 0, 0 };
    struct weir_rate faster = rate_of(10, SECOND, 0);
    struct weir_answer answer = weir_gcra_decide(&faster, used_up, NOW, 1).answer;
    assert_int_equal(answer.retry_us, 100 * MS);

    struct weir_rate larger = rate_of(5, SECOND, 8);
    answer = weir_gcra_decide(&larger, used_up, NOW, 1).answer;
    assert_true(answer.allowed);
    assert_int_equal(answer.remaining, 2);

    /* A smaller burst cannot be more than used up, and what is told to wait comes true. */
    struct weir_rate smaller = rate_of(5, SECOND, 2);
    struct weir_decision_step step = weir_gcra_decide(&smaller, used_up, NOW, 1);
    assert_false(step.answer.allowed);
    assert_int_equal(step.answer.retry_us, 200 * MS);
    assert_int_equal(step.state.first, NOW + 400 * MS);
    step = weir_gcra_decide(&smaller, step.state, NOW + step.answer.retry_us, 1);
    assert_true(step.answer.allowed);

    /* Parts of a rate that had more of them. */
    struct weir_state parts = { NOW + 100 * MS, 999999, 0 };
    step = weir_gcra_decide(&faster, parts, NOW, 1);
    assert_true(step.answer.allowed);
    assert_true(step.state.low < faster.parts);
}

static void keeps_nothing_where_nothing_is_owed(void **state)
{
    (void)state;
    struct weir_rate rate = rate_of(7, SECOND, 0);
    assert_int_equal(weir_gcra_decide(&rate, (struct weir_state){ 0 }, NOW, 0).expires_us, 0);
    assert_int_equal(weir_gcra_decide(&rate, (struct weir_state){ 0 }, NOW, 8).expires_us, 0);

    /* A state counts until its time is over, the fraction included. */
    struct weir_decision_step step = weir_gcra_decide(&rate, (struct weir_state){ 0 }, NOW, 1);
    assert_int_equal(step.state.first, NOW + 142857);
    assert_int_equal(step.state.low, 1);
    assert_int_equal(step.expires_us, NOW + 142858);
}

/* Settles a state that is so far ahead of now, of 5 a second: 200 ms for each unit. */
static void settles_in_the_time_that_is_still_in_use(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t owed_ms, reserved, cost;
        uint64_t full_ms; /* after now; below 0 as the largest numbers */
        uint64_t owed_after_ms;
    } rows[] = {
        { "less", 600, 3, 1, 600, 200 },
        { "nothing at all", 600, 3, 0, 600, 0 },
        { "less, half of it earned back", 600, 3, 0, 300, 300 },
        { "less, all of it earned back", 600, 3, 0, 0, 600 },
        { "less, long ago", 600, 3, 0, (uint64_t)-5000, 600 },
        { "less than is in use", 100, 3, 0, 600, 0 },
        { "more", 200, 1, 3, 200, 600 },
        { "more, of which one is earned back", 0, 1, 3, (uint64_t)-200, 200 },
        { "more, all of it earned back", 100, 1, 3, (uint64_t)-400, 100 },
        { "more than it holds", 800, 1, 5, 800, 1000 },
        { "more by the most", 800, 0, WEIR_UNITS_MAX, 800, 1000 },
        { "the same", 600, 3, 3, 600, 600 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        const struct weir_spend spend = { .algorithm = WEIR_GCRA,
                                          .rate = rate_of(5, SECOND, 0),
                                          .reserved = rows[i].reserved,
                                          .cost = rows[i].cost,
                                          .decided_us = NOW - DAY,
                                          .full_us = NOW + rows[i].full_ms * MS };
        struct weir_state before = { NOW + rows[i].owed_ms * MS, 0, 0 };
        struct weir_decision_step step = weir_settle_state(&spend, before, NOW);
        assert_int_equal(step.state.first, NOW + rows[i].owed_after_ms * MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_by_time_owed),
        cmocka_unit_test(gives_the_figures_of_the_design),
        cmocka_unit_test(keeps_fractions_of_a_microsecond),
        cmocka_unit_test(lets_exactly_a_days_worth_through),
        cmocka_unit_test(gives_no_more_than_the_burst_after_idling),
        cmocka_unit_test(applies_new_numbers_to_what_is_kept),
        cmocka_unit_test(keeps_nothing_where_nothing_is_owed),
        cmocka_unit_test(settles_in_the_time_that_is_still_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
