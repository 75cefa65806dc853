#include "test.h"

#include <weir/calendar.h>

#include "limit/algorithm.h"

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)
#define NOW    UINT64_C(1767225600000000)

static const struct weir_state nothing = { 0 };

static struct weir_spend spend_of(enum weir_algorithm algorithm, uint64_t limit)
{
    struct weir_spend spend = { .algorithm = algorithm, .cost = 1, .key = "k", .key_length = 1 };
    assert_int_equal(weir_rate_make(limit, MINUTE, 0, &spend.rate, NULL), WEIR_OK);
    return spend;
}

/* A log is decided elsewhere, but blocked here. */
static enum weir_algorithm after(enum weir_algorithm algorithm)
{
    return (enum weir_algorithm)(algorithm + 1);
}

static void gives_each_algorithm_a_tag_of_its_own(void **state)
{
    (void)state;
    for (int i = WEIR_GCRA; i <= WEIR_PENALTY; i++)
        for (int j = WEIR_GCRA; j < i; j++)
            assert_string_not_equal(weir_algorithm_tag((enum weir_algorithm)i),
                                    weir_algorithm_tag((enum weir_algorithm)j));
}

/* What one unit of two a minute does to the reset, half a minute into a window. */
static void decides_by_the_algorithm_that_is_named(void **state)
{
    (void)state;
    static const uint64_t reset_s[] = { 30, 30, 30, 30, 90 };
    for (enum weir_algorithm a = WEIR_GCRA; a < WEIR_SLIDING_LOG; a = after(a)) {
        struct weir_spend spend = spend_of(a, 2);
        struct weir_decision_step step = weir_decide(&spend, nothing, NOW + 30 * SECOND);
        assert_true(step.answer.allowed);
        assert_int_equal(step.answer.remaining, 1);
        assert_int_equal(step.answer.reset_us, reset_s[a] * SECOND);
    }
}

static void keeps_nothing_at_a_limit_of_zero(void **state)
{
    (void)state;
    for (enum weir_algorithm a = WEIR_GCRA; a <= WEIR_SLIDING_LOG; a = after(a)) {
        struct weir_spend spend = spend_of(a, 0);
        const struct weir_state kept = { NOW, 1, 0 };
        struct weir_decision_step step = weir_decide(&spend, kept, NOW);
        assert_false(step.answer.allowed);
        assert_true(step.answer.impossible);
        assert_int_equal(step.answer.remaining, 0);
        assert_int_equal(step.answer.retry_us, 0);
        assert_memory_equal(&step.state, &kept, sizeof kept);
        spend.cost = 0;
        assert_true(weir_decide(&spend, kept, NOW).answer.allowed);
        assert_int_equal(weir_capacity(&spend), 0);
    }
}

static void refuses_all_that_costs_while_blocked(void **state)
{
    (void)state;
    const struct weir_state blocked = weir_state_blocked(NOW + MINUTE);
    for (enum weir_algorithm a = WEIR_GCRA; a <= WEIR_SLIDING_LOG; a = after(a)) {
        struct weir_spend spend = spend_of(a, 5);
        struct weir_decision_step step = weir_decide(&spend, blocked, NOW + MINUTE - 1);
        assert_false(step.answer.allowed);
        assert_int_equal(step.answer.remaining, 0);
        assert_int_equal(step.answer.retry_us, 1);
        assert_int_equal(step.answer.reset_us, 1);
        assert_memory_equal(&step.state, &blocked, sizeof blocked);

        spend.cost = 0;
        step = weir_decide(&spend, blocked, NOW);
        assert_true(step.answer.allowed);
        assert_int_equal(step.answer.remaining, 0);
        assert_int_equal(step.answer.reset_us, MINUTE);
        spend.cost = 6;
        assert_true(weir_decide(&spend, blocked, NOW).answer.impossible);
        assert_int_equal(weir_decide(&spend, blocked, NOW).answer.retry_us, 0);

        spend.reserved = 5;
        spend.cost = 0;
        spend.decided_us = spend.full_us = NOW;
        step = weir_settle_state(&spend, blocked, NOW);
        assert_memory_equal(&step.state, &blocked, sizeof blocked);
    }
}

static void starts_afresh_after_a_block(void **state)
{
    (void)state;
    for (enum weir_algorithm a = WEIR_GCRA; a < WEIR_SLIDING_LOG; a = after(a)) {
        struct weir_spend spend = spend_of(a, 5);
        struct weir_decision_step step = weir_decide(&spend, weir_state_blocked(NOW), NOW);
        assert_true(step.answer.allowed);
        assert_int_equal(step.answer.remaining, 4);
    }
}

/* Redis may hold anything. */
static void takes_what_cannot_be_for_a_new_key(void **state)
{
    (void)state;
    static const struct weir_state states[] = {
        { UINT64_MAX, 0, 0 },
        { (UINT64_C(1) << 53) + 1, 1, 0 },
        { NOW, UINT32_MAX, 0 },
        { NOW, 0, WEIR_HIGH_BLOCKED - 1 },
        { NOW, WEIR_UNITS_MAX + 1, WEIR_UNITS_MAX + 1 },
        { UINT64_MAX, 0, WEIR_HIGH_BLOCKED },
        { NOW + MINUTE, 7, WEIR_HIGH_BLOCKED },
    };
    for (enum weir_algorithm a = WEIR_GCRA; a < WEIR_SLIDING_LOG; a = after(a))
        for (size_t i = 0; i < COUNT_OF(states); i++) {
            struct weir_spend spend = spend_of(a, 5);
            struct weir_decision_step step = weir_decide(&spend, states[i], NOW);
            assert_true(step.answer.allowed);
            assert_int_equal(step.answer.remaining, 4);
        }
}

/* Such as one in nanoseconds by mistake: then waits are wrong, but limits are limits. */
static void counts_by_a_clock_that_is_far_ahead(void **state)
{
    (void)state;
    const uint64_t far = NOW * 1000;
    for (enum weir_algorithm a = WEIR_GCRA; a < WEIR_SLIDING_LOG; a = after(a)) {
        struct weir_spend spend = spend_of(a, 5);
        spend.cost = 5;
        struct weir_state kept = weir_decide(&spend, nothing, far).state;
        assert_false(weir_decide(&spend, kept, far).answer.allowed);
        assert_false(weir_decide(&spend, weir_state_blocked(far + 1), far).answer.allowed);
    }
}

static void tells_what_can_be_spent_at_once(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(WEIR_LEAKY_BUCKET, 60);
    assert_int_equal(weir_rate_make(60, MINUTE, 10, &spend.rate, NULL), WEIR_OK);
    assert_int_equal(weir_capacity(&spend), 10);
    spend.max_wait_us = 2 * SECOND;
    assert_int_equal(weir_capacity(&spend), 3);
    spend.max_wait_us = 2 * SECOND - 1;
    assert_int_equal(weir_capacity(&spend), 2);
    spend.max_wait_us = WEIR_BURST_MAX_US;
    assert_int_equal(weir_capacity(&spend), 10);
    spend.algorithm = WEIR_TOKEN_BUCKET;
    assert_int_equal(weir_capacity(&spend), 10);
    spend.algorithm = WEIR_SLIDING_LOG;
    assert_int_equal(weir_capacity(&spend), 60);
}

/* faults */

static struct weir_answer answers[WEIR_CHECK_LIMITS];

static struct weir_check check_of(const struct weir_spend *spends, size_t count)
{
    return (struct weir_check){ .spends = spends, .answers = answers, .count = count };
}

static const char *fault_of(struct weir_spend spend, enum weir_operation operation)
{
    struct weir_check check = check_of(&spend, 1);
    check.operation = operation;
    check.block_us = 1;
    return weir_check_fault(&check);
}

static void finds_no_fault_with_any_algorithm(void **state)
{
    (void)state;
    for (enum weir_algorithm a = WEIR_GCRA; a <= WEIR_SLIDING_LOG; a = after(a))
        for (int operation = WEIR_SPEND; operation <= WEIR_BLOCK; operation++)
            assert_null(fault_of(spend_of(a, 5), (enum weir_operation)operation));
    assert_non_null(fault_of(spend_of(WEIR_PENALTY + 1, 5), WEIR_SPEND));
    assert_non_null(fault_of(spend_of(WEIR_GCRA, 5), (enum weir_operation)(WEIR_BLOCK + 1)));
}

/* A user may fill a rate by hand; whatever it is, nothing divides by zero or runs over. */
static void finds_fault_with_rates_that_nothing_makes(void **state)
{
    (void)state;
    struct weir_spend good = spend_of(WEIR_GCRA, 7);
    const struct weir_rate whole = good.rate;
    struct weir_rate rates[] = { whole, whole, whole, whole, whole, whole,
                                 whole, whole, whole, whole, { 0 } };
    rates[0].parts = 0;
    rates[1].window_us = 0;
    rates[2].window_us = WEIR_WINDOW_MAX_US + 1;
    rates[3].limit = WEIR_UNITS_MAX + 1;
    rates[4].burst = WEIR_UNITS_MAX + 1;
    rates[5].interval_part = whole.parts;
    rates[6].interval_us = UINT64_C(1) << 63;
    rates[7].interval_us = rates[7].interval_part = 0;
    rates[8].burst = 0;
    rates[9].burst = WEIR_UNITS_MAX;
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        good.rate = rates[i];
        assert_non_null(fault_of(good, WEIR_SPEND));
    }
}

static void finds_fault_with_keys(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(WEIR_GCRA, 7);
    spend.group_length = 1;
    assert_null(fault_of(spend, WEIR_SPEND));
    spend.group_length = 2;
    assert_non_null(fault_of(spend, WEIR_SPEND));
    spend.group_length = spend.key_length = 0;
    assert_non_null(fault_of(spend, WEIR_SPEND));
    spend.key_length = WEIR_KEY_MAX + 1;
    assert_non_null(fault_of(spend, WEIR_SPEND));
    spend.key = NULL;
    spend.key_length = 1;
    assert_non_null(fault_of(spend, WEIR_SPEND));
}

static void finds_fault_with_a_key_that_stands_twice(void **state)
{
    (void)state;
    const char *keys[] = { "one", "two", "on" };
    struct weir_spend spends[3];
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        spends[i] = spend_of(WEIR_GCRA, 7);
        spends[i].key = keys[i];
        spends[i].key_length = strlen(keys[i]);
    }
    struct weir_check check = check_of(spends, 3);
    assert_null(weir_check_fault(&check));
    spends[2].key = "one";
    assert_null(weir_check_fault(&check));
    spends[2].key_length = 3;
    assert_non_null(weir_check_fault(&check));
}

static void finds_fault_with_a_check_without_room(void **state)
{
    (void)state;
    struct weir_spend spends[WEIR_CHECK_LIMITS + 1] = { spend_of(WEIR_GCRA, 7) };
    struct weir_check check = check_of(spends, 0);
    assert_non_null(weir_check_fault(&check));
    check.count = WEIR_CHECK_LIMITS + 1;
    assert_non_null(weir_check_fault(&check));
    check.count = 1;
    check.answers = NULL;
    assert_non_null(weir_check_fault(&check));
    check.operation = WEIR_RESET;
    assert_null(weir_check_fault(&check));
    check.spends = NULL;
    assert_non_null(weir_check_fault(&check));
}

static void finds_fault_with_blocks_that_no_clock_has(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(WEIR_GCRA, 7);
    struct weir_check check = check_of(&spend, 1);
    check.operation = WEIR_BLOCK;
    assert_non_null(weir_check_fault(&check));
    check.block_us = WEIR_BURST_MAX_US;
    assert_null(weir_check_fault(&check));
    check.block_us++;
    assert_non_null(weir_check_fault(&check));
}

static void finds_fault_with_settlements(void **state)
{
    (void)state;
    struct weir_spend good = spend_of(WEIR_GCRA, 7);
    good.reserved = good.cost = WEIR_UNITS_MAX;
    good.decided_us = good.full_us = NOW;
    assert_null(fault_of(good, WEIR_SETTLE));
    struct weir_spend bad[4] = { good, good, good, good };
    bad[0].cost++;
    bad[1].reserved++;
    bad[2].decided_us++;
    bad[3].full_us = (UINT64_C(1) << 53) + 1;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_non_null(fault_of(bad[i], WEIR_SETTLE));
        assert_null(fault_of(bad[i], WEIR_SPEND));
    }
}

static void finds_fault_with_a_calendar_in_the_wrong_place(void **state)
{
    (void)state;
    struct weir_calendar *days;
    assert_int_equal(weir_calendar_new(NULL, &days, NULL), WEIR_OK);
    struct weir_spend spend = spend_of(WEIR_FIXED_WINDOW, 7);
    spend.calendar = days;
    assert_null(fault_of(spend, WEIR_SPEND));
    spend.from_first = true;
    assert_non_null(fault_of(spend, WEIR_SPEND));
    spend.from_first = false;
    spend.algorithm = WEIR_SLIDING_COUNTER;
    assert_non_null(fault_of(spend, WEIR_SPEND));
    weir_calendar_free(days);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_each_algorithm_a_tag_of_its_own),
        cmocka_unit_test(decides_by_the_algorithm_that_is_named),
        cmocka_unit_test(keeps_nothing_at_a_limit_of_zero),
        cmocka_unit_test(refuses_all_that_costs_while_blocked),
        cmocka_unit_test(starts_afresh_after_a_block),
        cmocka_unit_test(takes_what_cannot_be_for_a_new_key),
        cmocka_unit_test(counts_by_a_clock_that_is_far_ahead),
        cmocka_unit_test(tells_what_can_be_spent_at_once),
        cmocka_unit_test(finds_no_fault_with_any_algorithm),
        cmocka_unit_test(finds_fault_with_rates_that_nothing_makes),
        cmocka_unit_test(finds_fault_with_keys),
        cmocka_unit_test(finds_fault_with_a_key_that_stands_twice),
        cmocka_unit_test(finds_fault_with_a_check_without_room),
        cmocka_unit_test(finds_fault_with_blocks_that_no_clock_has),
        cmocka_unit_test(finds_fault_with_settlements),
        cmocka_unit_test(finds_fault_with_a_calendar_in_the_wrong_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
