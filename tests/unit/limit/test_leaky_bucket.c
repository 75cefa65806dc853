#include "test.h"

#include "limit/algorithm.h"

#define MS     UINT64_C(1000)
#define SECOND (1000 * MS)

/* 2026-01-01T00:00:00Z */
#define NOW UINT64_C(1767225600000000)

/* A queue of 10 places that drains one each 200 ms. */
static struct weir_spend spend_of(uint64_t max_wait_us)
{
    struct weir_spend spend = { .algorithm = WEIR_LEAKY_BUCKET,
                                .cost = 1,
                                .max_wait_us = max_wait_us };
    assert_int_equal(weir_rate_make(5, SECOND, 10, &spend.rate, NULL), WEIR_OK);
    return spend;
}

static void decides_by_the_next_free_moment(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t owed_ms, max_wait_ms, cost;
        struct weir_answer want; /* in ms */
        uint64_t owed_after_ms;
    } rows[] = {
        { "a new key", 0, 500, 1, { true, false, false, 2, 0, 200, 0, 0 }, 200 },
        { "behind one", 200, 500, 1, { true, false, false, 1, 0, 400, 200, 0 }, 400 },
        { "the last in time", 400, 500, 1, { true, false, false, 0, 0, 600, 400, 0 }, 600 },
        { "exactly the longest wait", 500, 500, 1, { true, false, false, 0, 0, 700, 500, 0 }, 700 },
        { "a wait too long", 600, 500, 1, { false, false, false, 0, 100, 600, 0, 0 }, 600 },
        { "a look at a long queue", 600, 500, 0, { true, false, false, 0, 0, 600, 0, 0 }, 600 },
        { "all places at once", 0, 500, 10, { true, false, false, 0, 0, 2000, 0, 0 }, 2000 },
        { "no place", 1900, 1900, 1, { false, false, false, 0, 100, 1900, 0, 0 }, 1900 },
        { "no places, which take longer",
          400,
          300,
          9,
          { false, false, false, 0, 200, 400, 0, 0 },
          400 },
        { "a wait, which takes longer",
          1000,
          100,
          5,
          { false, false, false, 0, 900, 1000, 0, 0 },
          1000 },
        { "more than will ever be", 600, 500, 11, { false, true, false, 0, 0, 600, 0, 0 }, 600 },
        { "no waiting at all", 1000, 0, 1, { true, false, false, 4, 0, 1200, 0, 0 }, 1200 },
        { "no waiting, full", 2000, 0, 1, { false, false, false, 0, 200, 2000, 0, 0 }, 2000 },
        { "a longest wait beyond all", 0, 9000, 1, { true, false, false, 9, 0, 200, 0, 0 }, 200 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_spend spend = spend_of(rows[i].max_wait_ms * MS);
        spend.cost = rows[i].cost;
        struct weir_state kept = { NOW + rows[i].owed_ms * MS, 0, 0 };
        struct weir_decision_step step = weir_decide(&spend, kept, NOW);
        assert_int_equal(step.answer.allowed, rows[i].want.allowed);
        assert_int_equal(step.answer.impossible, rows[i].want.impossible);
        assert_int_equal(step.answer.remaining, rows[i].want.remaining);
        assert_int_equal(step.answer.retry_us, rows[i].want.retry_us * MS);
        assert_int_equal(step.answer.reset_us, rows[i].want.reset_us * MS);
        assert_int_equal(step.answer.wait_us, rows[i].want.wait_us * MS);
        assert_int_equal(step.state.first, NOW + rows[i].owed_after_ms * MS);
    }
}

static void tells_a_wait_that_comes_true(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(500 * MS);
    struct weir_state kept = { NOW + 600 * MS, 0, 0 };
    uint64_t retry_us = weir_decide(&spend, kept, NOW).answer.retry_us;
    assert_false(weir_decide(&spend, kept, NOW + retry_us - 1).answer.allowed);
    assert_true(weir_decide(&spend, kept, NOW + retry_us).answer.allowed);
}

static void drains_at_its_rate_with_a_crowd_waiting(void **state)
{
    (void)state;
    struct weir_spend spend = { .algorithm = WEIR_LEAKY_BUCKET,
                                .cost = 1,
                                .max_wait_us = 10 * SECOND };
    assert_int_equal(weir_rate_make(3, SECOND, 1000, &spend.rate, NULL), WEIR_OK);
    struct weir_state kept = { 0 };
    for (uint64_t n = 0; n <= 30; n++) {
        struct weir_decision_step step = weir_decide(&spend, kept, NOW);
        assert_true(step.answer.allowed);
        /* n thirds of a second, rounded up: nobody is early. */
        assert_int_equal(step.answer.wait_us, (n * SECOND + 2) / 3);
        kept = step.state;
    }
    assert_false(weir_decide(&spend, kept, NOW).answer.allowed);
    assert_int_equal(weir_decide(&spend, kept, NOW).answer.retry_us, 333334);
}

static void forgets_no_more_than_a_full_queue(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(0);
    struct weir_state ahead = { NOW + 86400 * SECOND, 0, 0 };
    struct weir_decision_step step = weir_decide(&spend, ahead, NOW);
    assert_int_equal(step.answer.retry_us, 200 * MS);
    assert_int_equal(step.state.first, NOW + 2 * SECOND);
}

static void gives_a_place_back(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(2 * SECOND);
    spend.reserved = 1;
    spend.cost = 0;
    spend.decided_us = NOW;
    spend.full_us = NOW + 600 * MS;
    struct weir_state kept = { NOW + 600 * MS, 0, 0 };
    assert_int_equal(weir_settle_state(&spend, kept, NOW + 50 * MS).state.first, NOW + 400 * MS);
    /* Its moment has come by then. */
    assert_int_equal(weir_settle_state(&spend, kept, NOW + 600 * MS).state.first, NOW + 600 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_by_the_next_free_moment),
        cmocka_unit_test(tells_a_wait_that_comes_true),
        cmocka_unit_test(drains_at_its_rate_with_a_crowd_waiting),
        cmocka_unit_test(forgets_no_more_than_a_full_queue),
        cmocka_unit_test(gives_a_place_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
