#include "test.h"

#include "store/redis_sentinel_search.h"

#define MS UINT64_C(1000)

static struct weir_sentinel_search search;

static int set_up(void **state)
{
    (void)state;
    weir_sentinel_search_init(&search, 3);
    return 0;
}

static void assert_next(uint64_t now_ms, size_t want)
{
    assert_int_equal(weir_sentinel_search_next(&search, now_ms * MS), want);
}

static void assert_until(uint64_t want_ms)
{
    assert_int_equal(weir_sentinel_search_until(&search), want_ms * MS);
}

static void asks_nobody_without_a_cause(void **state)
{
    (void)state;
    assert_next(5000, WEIR_SENTINEL_NOBODY);
    assert_int_equal(weir_sentinel_search_until(&search), UINT64_MAX);
    assert_int_equal(weir_sentinel_search_late(&search, UINT64_MAX), WEIR_SENTINEL_NOBODY);
    assert_false(weir_sentinel_search_failed(&search, 0, 0));
}

static void asks_the_next_while_one_is_silent(void **state)
{
    (void)state;
    weir_sentinel_search_begin(&search, 1000 * MS);
    assert_until(1000);
    assert_next(1000, 0);
    assert_next(1000, WEIR_SENTINEL_NOBODY);
    assert_until(1250);
    assert_next(1249, WEIR_SENTINEL_NOBODY);
    assert_next(1250, 1);
    assert_next(1600, 2);
    assert_next(1900, WEIR_SENTINEL_NOBODY);
    assert_until(2000); /* that is what the first one has */
}

static void asks_the_next_at_once_when_one_has_failed(void **state)
{
    (void)state;
    weir_sentinel_search_begin(&search, 1000 * MS);
    assert_next(1000, 0);
    assert_false(weir_sentinel_search_failed(&search, 0, 1001 * MS));
    assert_until(1001);
    assert_next(1001, 1);
    assert_false(weir_sentinel_search_failed(&search, 1, 1002 * MS));
    assert_next(1002, 2);
    assert_true(weir_sentinel_search_failed(&search, 2, 1003 * MS));
    assert_int_equal(weir_sentinel_search_until(&search), UINT64_MAX);
}

static void gives_each_a_second(void **state)
{
    (void)state;
    weir_sentinel_search_begin(&search, 1000 * MS);
    assert_next(1000, 0);
    assert_next(1250, 1);
    assert_next(1500, 2);
    assert_int_equal(weir_sentinel_search_late(&search, 1999 * MS), WEIR_SENTINEL_NOBODY);
    assert_int_equal(weir_sentinel_search_late(&search, 2000 * MS), 0);
    assert_false(weir_sentinel_search_failed(&search, 0, 2000 * MS));
    assert_int_equal(weir_sentinel_search_late(&search, 2000 * MS), WEIR_SENTINEL_NOBODY);
    assert_until(2250);
    assert_int_equal(weir_sentinel_search_late(&search, 9000 * MS), 1);
    assert_false(weir_sentinel_search_failed(&search, 1, 9000 * MS));
    assert_int_equal(weir_sentinel_search_late(&search, 9000 * MS), 2);
    assert_true(weir_sentinel_search_failed(&search, 2, 9000 * MS));
}

static void begins_with_whoever_answered_last(void **state)
{
    (void)state;
    weir_sentinel_search_begin(&search, 0);
    assert_next(0, 0);
    assert_next(250, 1);
    assert_next(500, 2);
    weir_sentinel_search_found(&search, 2);
    assert_int_equal(weir_sentinel_search_until(&search), UINT64_MAX);
    /* The others' failures are of a round that is over. */
    assert_false(weir_sentinel_search_failed(&search, 0, 600 * MS));

    weir_sentinel_search_begin(&search, 1000 * MS);
    assert_next(1000, 2);
    assert_next(1250, 0);
    assert_next(1500, 1);
    weir_sentinel_search_found(&search, 1);
    weir_sentinel_search_begin(&search, 2000 * MS);
    assert_next(2000, 1);
    assert_next(2250, 2);
    assert_next(2500, 0);
}

static void asks_last_who_led_nowhere(void **state)
{
    (void)state;
    weir_sentinel_search_found(&search, 1);
    weir_sentinel_search_doubt(&search);
    weir_sentinel_search_begin(&search, 0);
    assert_next(0, 0);
    assert_next(250, 2);
    assert_next(500, 1);
    weir_sentinel_search_found(&search, 0);
    weir_sentinel_search_doubt(&search);
    weir_sentinel_search_begin(&search, 1000 * MS);
    assert_next(1000, 2);
    assert_next(1250, 1);
    assert_next(1500, 0);
}

static void goes_on_with_the_round_that_is_under_way(void **state)
{
    (void)state;
    weir_sentinel_search_begin(&search, 1000 * MS);
    assert_next(1000, 0);
    weir_sentinel_search_begin(&search, 1100 * MS);
    assert_next(1100, WEIR_SENTINEL_NOBODY);
    assert_next(1250, 1);
}

static void does_with_one_sentinel(void **state)
{
    (void)state;
    weir_sentinel_search_init(&search, 1);
    for (uint64_t round = 1; round <= 3; round++) {
        weir_sentinel_search_begin(&search, round * 10000 * MS);
        assert_next(round * 10000, 0);
        assert_until(round * 10000 + 1000);
        assert_true(weir_sentinel_search_failed(&search, 0, round * 10000 * MS));
        weir_sentinel_search_doubt(&search);
    }
}

static void does_with_as_many_as_a_url_may_name(void **state)
{
    (void)state;
    weir_sentinel_search_init(&search, WEIR_REDIS_PLACES_MAX);
    weir_sentinel_search_found(&search, WEIR_REDIS_PLACES_MAX - 1);
    weir_sentinel_search_begin(&search, 0);
    assert_next(0, WEIR_REDIS_PLACES_MAX - 1);
    for (size_t i = 0; i < WEIR_REDIS_PLACES_MAX - 1; i++) {
        assert_false(
            weir_sentinel_search_failed(&search, i == 0 ? WEIR_REDIS_PLACES_MAX - 1 : i - 1, 0));
        assert_next(0, i);
    }
    assert_true(weir_sentinel_search_failed(&search, WEIR_REDIS_PLACES_MAX - 2, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(asks_nobody_without_a_cause, set_up),
        cmocka_unit_test_setup(asks_the_next_while_one_is_silent, set_up),
        cmocka_unit_test_setup(asks_the_next_at_once_when_one_has_failed, set_up),
        cmocka_unit_test_setup(gives_each_a_second, set_up),
        cmocka_unit_test_setup(begins_with_whoever_answered_last, set_up),
        cmocka_unit_test_setup(asks_last_who_led_nowhere, set_up),
        cmocka_unit_test_setup(goes_on_with_the_round_that_is_under_way, set_up),
        cmocka_unit_test_setup(does_with_one_sentinel, set_up),
        cmocka_unit_test_setup(does_with_as_many_as_a_url_may_name, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
