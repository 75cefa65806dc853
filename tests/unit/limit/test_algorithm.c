#include "test.h"

#include "limit/algorithm.h"

static void has_two_algorithms_so_far(void **state)
{
    (void)state;
    for (int i = WEIR_GCRA; i <= WEIR_SLIDING_LOG; i++)
        assert_int_equal(weir_algorithm_exists((enum weir_algorithm)i),
                         i == WEIR_GCRA || i == WEIR_FIXED_WINDOW);
}

static void gives_each_algorithm_a_tag_of_its_own(void **state)
{
    (void)state;
    for (int i = WEIR_GCRA; i <= WEIR_SLIDING_LOG; i++)
        for (int j = WEIR_GCRA; j < i; j++)
            assert_string_not_equal(weir_algorithm_tag((enum weir_algorithm)i),
                                    weir_algorithm_tag((enum weir_algorithm)j));
}

static void decides_by_the_algorithm_that_is_named(void **state)
{
    (void)state;
    struct weir_spend spend = { .cost = 1 };
    assert_int_equal(weir_rate_make(2, 1000000, 0, &spend.rate, NULL), WEIR_OK);
    const uint64_t now_us = 10250000;
    spend.algorithm = WEIR_GCRA;
    assert_int_equal(weir_decide(&spend, (struct weir_state){ 0 }, now_us).answer.reset_us, 500000);
    spend.algorithm = WEIR_FIXED_WINDOW;
    assert_int_equal(weir_decide(&spend, (struct weir_state){ 0 }, now_us).answer.reset_us, 750000);
    spend.from_first = true;
    assert_int_equal(weir_decide(&spend, (struct weir_state){ 0 }, now_us).answer.reset_us,
                     1000000);
    spend.algorithm = WEIR_SLIDING_LOG;
    assert_false(weir_decide(&spend, (struct weir_state){ 0 }, now_us).answer.allowed);
}

/* A user may fill a rate by hand; whatever it is, nothing divides by zero or runs over. */
static void finds_fault_with_rates_that_nothing_makes(void **state)
{
    (void)state;
    struct weir_check good = { .spends = { { .key = "k", .key_length = 1, .cost = 1 } },
                               .count = 1 };
    assert_int_equal(weir_rate_make(7, 1000000, 0, &good.spends[0].rate, NULL), WEIR_OK);
    assert_null(weir_check_fault(&good));

    const struct weir_rate whole = good.spends[0].rate;
    struct weir_rate rates[] = { whole, whole, whole, whole, whole, whole, whole, whole, { 0 } };
    rates[0].parts = 0;
    rates[1].window_us = 0;
    rates[2].window_us = WEIR_WINDOW_MAX_US + 1;
    rates[3].limit = WEIR_UNITS_MAX + 1;
    rates[4].burst = WEIR_UNITS_MAX + 1;
    rates[5].interval_part = whole.parts;
    rates[6].interval_us = UINT64_C(1) << 63;
    rates[7].interval_us = rates[7].interval_part = 0;
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        struct weir_check check = good;
        check.spends[0].rate = rates[i];
        assert_non_null(weir_check_fault(&check));
    }
}

static void finds_fault_with_a_key_that_stands_twice(void **state)
{
    (void)state;
    struct weir_check check = { .count = 3 };
    const char *keys[] = { "one", "two", "on" };
    for (size_t i = 0; i < check.count; i++) {
        check.spends[i] = (struct weir_spend){ .key = keys[i], .key_length = strlen(keys[i]) };
        assert_int_equal(weir_rate_make(7, 1000000, 0, &check.spends[i].rate, NULL), WEIR_OK);
    }
    assert_null(weir_check_fault(&check));
    check.spends[2].key = "one";
    assert_null(weir_check_fault(&check));
    check.spends[2].key_length = 3;
    assert_non_null(weir_check_fault(&check));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_two_algorithms_so_far),
        cmocka_unit_test(gives_each_algorithm_a_tag_of_its_own),
        cmocka_unit_test(decides_by_the_algorithm_that_is_named),
        cmocka_unit_test(finds_fault_with_rates_that_nothing_makes),
        cmocka_unit_test(finds_fault_with_a_key_that_stands_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
