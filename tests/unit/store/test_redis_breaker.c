#include "test.h"

#include "store/breaker.h"

#define MS UINT64_C(1000)

static struct weir_breaker made(uint64_t seed)
{
    struct weir_breaker breaker;
    weir_breaker_init(&breaker, seed);
    return breaker;
}

static struct weir_breaker closed(void)
{
    struct weir_breaker breaker = made(1);
    weir_breaker_try(&breaker);
    weir_breaker_succeeded(&breaker, 0);
    return breaker;
}

static void lets_checks_wait_for_the_first_try(void **state)
{
    (void)state;
    struct weir_breaker breaker = made(1);
    assert_true(weir_breaker_lets_through(&breaker));
    weir_breaker_try(&breaker);
    assert_true(weir_breaker_lets_through(&breaker));
    weir_breaker_failed(&breaker, 0);
    assert_false(weir_breaker_lets_through(&breaker));
    /* Later tries are made by the store, and nobody waits for them. */
    weir_breaker_try(&breaker);
    assert_false(weir_breaker_lets_through(&breaker));
    weir_breaker_succeeded(&breaker, 0);
    assert_true(weir_breaker_lets_through(&breaker));
}

static void opens_after_five_timeouts_in_a_row(void **state)
{
    (void)state;
    struct weir_breaker breaker = closed();
    for (int n = 0; n < 4; n++)
        assert_false(weir_breaker_timed_out(&breaker, 0, 0));
    weir_breaker_answered(&breaker);
    for (int n = 0; n < 4; n++)
        assert_false(weir_breaker_timed_out(&breaker, 0, 0));
    assert_true(weir_breaker_timed_out(&breaker, 0, 0));
}

/* Checks that were sent together are late together. */
static void takes_no_busy_moment_for_an_outage(void **state)
{
    (void)state;
    struct weir_breaker breaker = closed();
    for (uint64_t n = 0; n < 50; n++)
        assert_false(weir_breaker_timed_out(&breaker, 100 * MS + n, 20 * MS));
    weir_breaker_answered(&breaker);
    assert_false(weir_breaker_timed_out(&breaker, 200 * MS, 20 * MS));
    assert_false(weir_breaker_timed_out(&breaker, 230 * MS, 20 * MS));
    for (int n = 0; n < 2; n++)
        assert_false(weir_breaker_timed_out(&breaker, 230 * MS, 20 * MS));
    assert_true(weir_breaker_timed_out(&breaker, 230 * MS, 20 * MS));
}

static void stops_the_waiting_for_a_first_try_that_takes_long(void **state)
{
    (void)state;
    struct weir_breaker breaker = made(1);
    for (int n = 0; n < 4; n++)
        weir_breaker_timed_out(&breaker, 0, 0);
    assert_true(weir_breaker_lets_through(&breaker));
    assert_true(weir_breaker_timed_out(&breaker, 0, 0));
    assert_false(weir_breaker_lets_through(&breaker));
    assert_false(weir_breaker_is_due(&breaker, UINT64_MAX)); /* it still is under way */
    weir_breaker_succeeded(&breaker, 0);
    assert_true(weir_breaker_lets_through(&breaker));
}

static void tries_at_once_after_a_connection_that_was_good(void **state)
{
    (void)state;
    struct weir_breaker breaker = closed();
    weir_breaker_answered(&breaker);
    assert_true(weir_breaker_lasts(&breaker, 1000 * MS));
    weir_breaker_failed(&breaker, 1000 * MS);
    assert_true(weir_breaker_is_due(&breaker, 1000 * MS));
    weir_breaker_try(&breaker);
    weir_breaker_failed(&breaker, 1000 * MS);
    assert_false(weir_breaker_is_due(&breaker, 1024 * MS));
    assert_true(weir_breaker_is_due(&breaker, 1050 * MS));
}

/* A server, or something in front of it, that answers a little and then breaks off, without end. */
static void makes_pauses_after_connections_that_do_not_last(void **state)
{
    (void)state;
    struct weir_breaker breaker = made(1);
    uint64_t now_us = 77;
    for (int n = 0; n < 10; n++) {
        weir_breaker_try(&breaker);
        weir_breaker_succeeded(&breaker, now_us);
        weir_breaker_answered(&breaker);
        now_us += 999 * MS;
        assert_false(weir_breaker_lasts(&breaker, now_us));
        weir_breaker_failed(&breaker, now_us);
        assert_false(weir_breaker_is_due(&breaker, now_us + 24 * MS));
        now_us = breaker.try_at_us;
    }
    assert_int_equal(breaker.pause_us, 800 * MS);
}

static void makes_longer_pauses_up_to_a_bound(void **state)
{
    (void)state;
    static const uint64_t most_ms[] = { 50, 100, 200, 400, 800, 800, 800, 800 };
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct weir_breaker breaker = made(seed * UINT64_C(0x9e3779b97f4a7c15));
        uint64_t now_us = 77;
        for (size_t i = 0; i < COUNT_OF(most_ms); i++) {
            weir_breaker_failed(&breaker, now_us);
            assert_in_range(breaker.try_at_us - now_us, most_ms[i] * MS / 2, most_ms[i] * MS);
            assert_false(weir_breaker_is_due(&breaker, breaker.try_at_us - 1));
            assert_true(weir_breaker_is_due(&breaker, breaker.try_at_us));
            now_us = breaker.try_at_us;
            weir_breaker_try(&breaker);
            assert_false(weir_breaker_is_due(&breaker, now_us)); /* one try at a time */
        }
    }
}

static void keeps_its_pauses_long_until_an_answer_comes(void **state)
{
    (void)state;
    struct weir_breaker breaker = made(1);
    for (int n = 0; n < 10; n++)
        weir_breaker_failed(&breaker, 0);
    /* It can be connected to, but it gives no answer. */
    weir_breaker_try(&breaker);
    weir_breaker_succeeded(&breaker, 0);
    weir_breaker_failed(&breaker, 0);
    assert_true(breaker.try_at_us >= 400 * MS);

    weir_breaker_try(&breaker);
    weir_breaker_succeeded(&breaker, 0);
    weir_breaker_answered(&breaker);
    weir_breaker_failed(&breaker, 1000 * MS); /* the try that comes at once */
    weir_breaker_failed(&breaker, 1000 * MS);
    assert_true(breaker.try_at_us <= 1050 * MS);
}

static void starts_anew_for_another_server(void **state)
{
    (void)state;
    struct weir_breaker breaker = made(1);
    weir_breaker_failed(&breaker, 0);
    weir_breaker_start_anew(&breaker);
    assert_true(weir_breaker_lets_through(&breaker));
    assert_false(weir_breaker_is_due(&breaker, UINT64_MAX)); /* its try is under way */
    weir_breaker_failed(&breaker, 0);
    assert_false(weir_breaker_lets_through(&breaker));
}

static void tries_at_another_time_in_each_process(void **state)
{
    (void)state;
    uint64_t first_us = 0;
    bool differ = false;
    for (uint64_t seed = 0; seed < 16; seed++) {
        struct weir_breaker breaker = made(seed * UINT64_C(0x9e3779b97f4a7c15));
        weir_breaker_failed(&breaker, 0);
        if (seed == 0)
            first_us = breaker.try_at_us;
        differ = differ || breaker.try_at_us != first_us;
    }
    assert_true(differ);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lets_checks_wait_for_the_first_try),
        cmocka_unit_test(opens_after_five_timeouts_in_a_row),
        cmocka_unit_test(takes_no_busy_moment_for_an_outage),
        cmocka_unit_test(stops_the_waiting_for_a_first_try_that_takes_long),
        cmocka_unit_test(tries_at_once_after_a_connection_that_was_good),
        cmocka_unit_test(makes_pauses_after_connections_that_do_not_last),
        cmocka_unit_test(starts_anew_for_another_server),
        cmocka_unit_test(makes_longer_pauses_up_to_a_bound),
        cmocka_unit_test(keeps_its_pauses_long_until_an_answer_comes),
        cmocka_unit_test(tries_at_another_time_in_each_process),
    };
    return cmocka_run_group_tests_name("breaker", tests, NULL, NULL);
}
