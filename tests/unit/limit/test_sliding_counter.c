#include "test.h"

#include "limit/algorithm.h"

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)

/* 2026-01-01T00:00:00Z: the start of a minute. */
#define EDGE UINT64_C(1767225600000000)

static struct weir_spend spend_of(uint64_t limit, uint64_t window_us)
{
    struct weir_spend spend = { .algorithm = WEIR_SLIDING_COUNTER, .cost = 1 };
    assert_int_equal(weir_rate_make(limit, window_us, 0, &spend.rate, NULL), WEIR_OK);
    return spend;
}

/* 10 a minute; seconds after the edge. */
static void weighs_the_window_before(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        int64_t start_s;
        uint32_t used, before;
        uint64_t now_s, cost;
        struct weir_answer want; /* in s */
    } rows[] = {
        { "a new key", 0, 0, 0, 15, 1, { true, false, false, 9, 0, 105, 0, 0 } },
        { "a look at nothing", 0, 0, 0, 15, 0, { true, false, false, 10, 0, 0, 0, 0 } },
        { "all of the window before", 0, 0, 8, 0, 1, { true, false, false, 1, 0, 120, 0, 0 } },
        { "three quarters of it", 0, 0, 8, 15, 4, { true, false, false, 0, 0, 105, 0, 0 } },
        { "rounded up", 0, 0, 8, 16, 5, { false, false, false, 4, 7, 44, 0, 0 } },
        { "one too many", 0, 4, 8, 15, 1, { false, false, false, 0, 8, 105, 0, 0 } },
        { "into the next window", 0, 9, 0, 15, 2, { false, false, false, 1, 52, 105, 0, 0 } },
        { "the limit, used up", 0, 10, 0, 15, 10, { false, false, false, 0, 105, 105, 0, 0 } },
        { "more than will ever be", 0, 4, 8, 15, 11, { false, true, false, 0, 0, 105, 0, 0 } },
        { "a window on", -60, 8, 9, 30, 6, { true, false, false, 0, 0, 90, 0, 0 } },
        { "a look a window on", -60, 8, 9, 30, 0, { true, false, false, 6, 0, 30, 0, 0 } },
        { "two windows on", -120, 8, 9, 30, 1, { true, false, false, 9, 0, 90, 0, 0 } },
        { "a clock set back", 600, 4, 8, 15, 1, { false, false, false, 0, 8, 105, 0, 0 } },
        { "a limit that was lowered", 0, 50, 80, 15, 1, { false, false, false, 0, 95, 105, 0, 0 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_spend spend = spend_of(10, MINUTE);
        spend.cost = rows[i].cost;
        struct weir_state kept = { (uint64_t)((int64_t)EDGE + rows[i].start_s * (int64_t)SECOND),
                                   rows[i].used, rows[i].before };
        struct weir_decision_step step = weir_decide(&spend, kept, EDGE + rows[i].now_s * SECOND);
        assert_int_equal(step.answer.allowed, rows[i].want.allowed);
        assert_int_equal(step.answer.impossible, rows[i].want.impossible);
        assert_int_equal(step.answer.remaining, rows[i].want.remaining);
        assert_int_equal((step.answer.retry_us + SECOND - 1) / SECOND, rows[i].want.retry_us);
        assert_int_equal(step.answer.reset_us, rows[i].want.reset_us * SECOND);
        if (step.answer.retry_us == 0)
            continue;
        uint64_t due_us = EDGE + rows[i].now_s * SECOND + step.answer.retry_us;
        assert_false(weir_decide(&spend, step.state, due_us - 1).answer.allowed);
        assert_true(weir_decide(&spend, step.state, due_us).answer.allowed);
    }
}

static void lets_no_double_burst_through_an_edge(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(100, MINUTE);
    struct weir_state kept = { 0 };
    unsigned before = 0, after = 0;
    for (unsigned n = 0; n < 200; n++) {
        uint64_t now_us = n < 100 ? EDGE - 1 : EDGE;
        struct weir_decision_step step = weir_decide(&spend, kept, now_us);
        kept = step.state;
        *(n < 100 ? &before : &after) += step.answer.allowed;
    }
    assert_int_equal(before, 100);
    assert_int_equal(after, 0);
}

/* The products go far beyond 64 bits. */
static void is_exact_with_the_largest_numbers(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(WEIR_UNITS_MAX, WEIR_WINDOW_MAX_US);
    uint64_t start_us = EDGE - EDGE % WEIR_WINDOW_MAX_US;
    struct weir_state kept = { start_us, 0, WEIR_UNITS_MAX };
    uint64_t now_us = start_us + WEIR_WINDOW_MAX_US / 2 + 1;
    /* Just under half still counts, and is rounded up. */
    spend.cost = WEIR_UNITS_MAX / 2;
    assert_true(weir_decide(&spend, kept, now_us).answer.allowed);
    spend.cost++;
    struct weir_answer answer = weir_decide(&spend, kept, now_us).answer;
    assert_false(answer.allowed);
    assert_int_equal(answer.remaining, WEIR_UNITS_MAX / 2);
    assert_false(weir_decide(&spend, kept, now_us + answer.retry_us - 1).answer.allowed);
    assert_true(weir_decide(&spend, kept, now_us + answer.retry_us).answer.allowed);
}

static void keeps_a_state_for_two_windows(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(10, MINUTE);
    struct weir_decision_step step =
        weir_decide(&spend, (struct weir_state){ 0 }, EDGE + 15 * SECOND);
    assert_int_equal(step.state.first, EDGE);
    assert_int_equal(step.expires_us, EDGE + 2 * MINUTE);
}

/* 3 units, decided so many seconds after the edge, turn out to be something else. */
static void settles_the_window_of_the_decision(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        int64_t start_s, decided_s;
        uint64_t now_s, cost;
        uint32_t used_after, before_after;
    } rows[] = {
        { "in this window, less", 0, 5, 15, 1, 4, 9 },
        { "in this window, more", 0, 5, 15, 9, 10, 9 },
        { "in the one before, less", 0, -5, 15, 0, 6, 6 },
        { "in the one before, more", 0, -5, 15, 7, 6, 10 },
        { "a window on", -60, -5, 15, 0, 0, 3 },
        { "too long ago", 0, -65, 15, 0, 6, 9 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_spend spend = spend_of(10, MINUTE);
        spend.reserved = 3;
        spend.cost = rows[i].cost;
        spend.decided_us = (uint64_t)((int64_t)EDGE + rows[i].decided_s * (int64_t)SECOND);
        spend.full_us = spend.decided_us + MINUTE;
        struct weir_state kept = { (uint64_t)((int64_t)EDGE + rows[i].start_s * (int64_t)SECOND), 6,
                                   9 };
        struct weir_decision_step step =
            weir_settle_state(&spend, kept, EDGE + rows[i].now_s * SECOND);
        assert_int_equal(step.state.low, rows[i].used_after);
        assert_int_equal(step.state.high, rows[i].before_after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weighs_the_window_before),
        cmocka_unit_test(lets_no_double_burst_through_an_edge),
        cmocka_unit_test(is_exact_with_the_largest_numbers),
        cmocka_unit_test(keeps_a_state_for_two_windows),
        cmocka_unit_test(settles_the_window_of_the_decision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
