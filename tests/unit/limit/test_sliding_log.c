#include "test.h"

#include "limit/sliding_log.h"

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)
#define DAY    (1440 * MINUTE)

/* 2026-01-01T00:00:00Z */
#define NOW UINT64_C(1767225600000000)

static struct weir_ring *ring;

static int open_ring(void **state)
{
    (void)state;
    ring = NULL;
    return 0;
}

static int close_ring(void **state)
{
    (void)state;
    free(ring);
    return 0;
}

static struct weir_spend spend_of(uint64_t limit, uint64_t window_us, uint64_t cost)
{
    struct weir_spend spend = { .algorithm = WEIR_SLIDING_LOG, .cost = cost };
    assert_int_equal(weir_rate_make(limit, window_us, 0, &spend.rate, NULL), WEIR_OK);
    return spend;
}

static void grow(uint32_t size)
{
    struct weir_ring *larger = malloc(weir_ring_bytes(size));
    assert_non_null(larger);
    weir_ring_init(larger, size);
    if (ring != NULL)
        weir_ring_copy(larger, ring, 0, true);
    free(ring);
    ring = larger;
}

/* Decides, and does it. */
static struct weir_answer ask(const struct weir_spend *spend, uint64_t now_us)
{
    struct weir_ring_step step = weir_sliding_log_decide(spend, ring, now_us);
    if (!weir_ring_is_changed(ring, &step))
        return step.answer;
    uint32_t needed = weir_ring_count_after(ring, &step);
    if (ring == NULL || needed > ring->size)
        grow(2 * needed);
    weir_ring_apply(ring, &step);
    return step.answer;
}

static struct weir_answer ask_for(uint64_t cost, uint64_t now_us)
{
    const struct weir_spend spend = spend_of(10, MINUTE, cost);
    return ask(&spend, now_us);
}

static bool settle(uint64_t decided_us, uint64_t reserved, uint64_t cost, uint64_t now_us)
{
    struct weir_spend spend = spend_of(10, MINUTE, cost);
    spend.reserved = reserved;
    spend.decided_us = decided_us;
    spend.full_us = decided_us + MINUTE;
    struct weir_ring_settlement settlement = weir_sliding_log_settle(&spend, ring, now_us);
    if (settlement.changes)
        weir_ring_settle(ring, &settlement);
    return settlement.changes;
}

/* Read top to bottom as a story; seconds. */
static void counts_what_the_last_window_holds(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t now_s, cost;
        struct weir_answer want; /* in s */
    } rows[] = {
        { "a look at nothing", 0, 0, { true, false, false, 10, 0, 0, 0, 0 } },
        { "a new key", 0, 3, { true, false, false, 7, 0, 60, 0, 0 } },
        { "the same moment", 0, 1, { true, false, false, 6, 0, 60, 0, 0 } },
        { "some later", 10, 4, { true, false, false, 2, 0, 60, 0, 0 } },
        { "a look", 20, 0, { true, false, false, 2, 0, 50, 0, 0 } },
        { "more than is there", 20, 3, { false, false, false, 2, 40, 50, 0, 0 } },
        { "more, for which two must leave", 20, 7, { false, false, false, 2, 50, 50, 0, 0 } },
        { "more than will ever be", 20, 11, { false, true, false, 2, 0, 50, 0, 0 } },
        { "the last units", 30, 2, { true, false, false, 0, 0, 60, 0, 0 } },
        { "one too many", 59, 1, { false, false, false, 0, 1, 31, 0, 0 } },
        { "the first have left", 60, 1, { true, false, false, 3, 0, 60, 0, 0 } },
        { "all at once", 61, 10, { false, false, false, 3, 59, 59, 0, 0 } },
        { "all have left", 120, 10, { true, false, false, 0, 0, 60, 0, 0 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_answer got = ask_for(rows[i].cost, NOW + rows[i].now_s * SECOND);
        assert_int_equal(got.allowed, rows[i].want.allowed);
        assert_int_equal(got.impossible, rows[i].want.impossible);
        assert_int_equal(got.remaining, rows[i].want.remaining);
        assert_int_equal(got.retry_us, rows[i].want.retry_us * SECOND);
        assert_int_equal(got.reset_us, rows[i].want.reset_us * SECOND);
    }
}

static void merges_entries_of_one_microsecond(void **state)
{
    (void)state;
    for (int n = 0; n < 10; n++)
        assert_true(ask_for(1, NOW).allowed);
    assert_int_equal(ring->count, 1);
    assert_int_equal(ask_for(1, NOW + 1).retry_us, MINUTE - 1);
}

static void leaves_a_log_alone_that_refuses(void **state)
{
    (void)state;
    ask_for(10, NOW);
    struct weir_ring before = *ring;
    ask_for(1, NOW + SECOND);
    ask_for(0, NOW + SECOND);
    ask_for(11, NOW + SECOND);
    assert_memory_equal(ring, &before, sizeof before);
}

static void goes_round_its_ring_for_ever(void **state)
{
    (void)state;
    /* One each 6 s, so that at most 10 count; the running sums pass 2^32. */
    const struct weir_spend spend = spend_of(WEIR_UNITS_MAX, MINUTE, WEIR_UNITS_MAX / 10);
    for (uint64_t n = 0; n < 1000; n++) {
        struct weir_answer answer = ask(&spend, NOW + n * 6 * SECOND);
        assert_true(answer.allowed);
        uint64_t count = n < 9 ? n + 1 : 10;
        assert_int_equal(answer.remaining, WEIR_UNITS_MAX - count * (WEIR_UNITS_MAX / 10));
    }
    assert_in_range(ring->size, 10, 40);
}

static void takes_large_costs(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(50000, MINUTE, 20000);
    assert_int_equal(ask(&spend, NOW).remaining, 30000);
    assert_int_equal(ask(&spend, NOW + SECOND).remaining, 10000);
    assert_int_equal(ask(&spend, NOW + 2 * SECOND).retry_us, MINUTE - 2 * SECOND);
    assert_true(ask(&spend, NOW + MINUTE).allowed);
}

static void moves_back_with_a_clock_that_is_set_back(void **state)
{
    (void)state;
    ask_for(4, NOW);
    ask_for(6, NOW + 10 * SECOND);
    /* No time has passed since the newest entry: the first has 50 s to go. */
    struct weir_answer answer = ask_for(1, NOW - DAY);
    assert_int_equal(answer.retry_us, 50 * SECOND);
    assert_int_equal(answer.reset_us, MINUTE);
    assert_false(ask_for(1, NOW - DAY + 50 * SECOND - 1).allowed);
    assert_int_equal(ask_for(1, NOW - DAY + 50 * SECOND).remaining, 3);
    answer = ask_for(0, NOW - 2 * DAY);
    assert_int_equal(answer.remaining, 3);
    assert_int_equal(answer.reset_us, MINUTE);
}

static void takes_new_numbers_at_once(void **state)
{
    (void)state;
    ask_for(4, NOW);
    ask_for(6, NOW + 10 * SECOND);
    const struct weir_spend raised = spend_of(20, MINUTE, 10);
    assert_int_equal(ask(&raised, NOW + 20 * SECOND).remaining, 0);
    const struct weir_spend lowered = spend_of(5, MINUTE, 1);
    struct weir_answer answer = ask(&lowered, NOW + 30 * SECOND);
    assert_false(answer.allowed);
    assert_int_equal(answer.remaining, 0);
    assert_int_equal(answer.retry_us, 50 * SECOND);
}

/* With record all, each attempt lengthens the wait. */
static void lengthens_the_wait_of_who_hammers(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(3, MINUTE, 1);
    spend.logs_refusals = true;
    for (uint64_t n = 0; n < 3; n++)
        assert_true(ask(&spend, NOW + n * SECOND).allowed);
    for (uint64_t n = 3; n < 1000; n++) {
        struct weir_answer answer = ask(&spend, NOW + n * SECOND);
        assert_false(answer.allowed);
        assert_int_equal(answer.remaining, 0);
        /* Two newer ones may stay. */
        assert_int_equal(answer.retry_us, MINUTE - 2 * SECOND);
        assert_int_equal(answer.reset_us, MINUTE);
        assert_in_range(ring->count, 3, 4);
    }
    /* A look and a cost that never fits are no attempts. */
    spend.cost = 0;
    assert_int_equal(ask(&spend, NOW + 1010 * SECOND).reset_us, MINUTE - 11 * SECOND);
    spend.cost = 4;
    assert_true(ask(&spend, NOW + 1010 * SECOND).impossible);
    spend.cost = 1;
    assert_false(ask(&spend, NOW + 999 * SECOND + MINUTE - 2 * SECOND - 1).allowed);
    assert_true(ask(&spend, NOW + 2000 * SECOND).allowed);
}

static void settles_the_entry_of_the_decision(void **state)
{
    (void)state;
    ask_for(3, NOW);
    ask_for(4, NOW + SECOND);
    assert_true(settle(NOW, 3, 1, NOW + 2 * SECOND));
    assert_int_equal(ask_for(0, NOW + 2 * SECOND).remaining, 5);
    assert_true(settle(NOW + SECOND, 4, 20, NOW + 2 * SECOND));
    assert_int_equal(ask_for(0, NOW + 2 * SECOND).remaining, 0);
    assert_true(settle(NOW + SECOND, 4, 0, NOW + 2 * SECOND));
    assert_int_equal(ask_for(0, NOW + 2 * SECOND).remaining, 4);
    /* No such entry, no change, and one that does not count any more. */
    assert_false(settle(NOW + 5, 3, 1, NOW + 2 * SECOND));
    assert_false(settle(NOW + SECOND, 4, 4, NOW + 2 * SECOND));
    assert_false(settle(NOW, 3, 0, NOW + MINUTE));
    assert_int_equal(ask_for(0, NOW + MINUTE).remaining, 5);
}

static void clears_away_idle_entries_but_the_newest(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 8; n++) {
        ask_for(1, NOW + n * SECOND);
        settle(NOW + n * SECOND, 1, n % 2, NOW + n * SECOND);
    }
    ask_for(1, NOW + 9 * SECOND);
    settle(NOW + 9 * SECOND, 1, 0, NOW + 9 * SECOND);
    assert_int_equal(ring->count, 9);
    assert_int_equal(weir_ring_idle(ring, 0), 4);
    assert_int_equal(weir_ring_idle(ring, 1), 3);

    struct weir_ring *small = malloc(weir_ring_bytes(5));
    assert_non_null(small);
    weir_ring_init(small, 5);
    weir_ring_copy(small, ring, 0, false);
    free(ring);
    ring = small;
    struct weir_answer answer = ask_for(0, NOW + 9 * SECOND);
    assert_int_equal(answer.remaining, 6);
    assert_int_equal(answer.reset_us, MINUTE);
}

static void answers_from_the_numbers_of_another_store(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(10, MINUTE, 4);
    struct weir_answer answer = weir_sliding_log_answer(&spend, 3, 0, 5);
    assert_true(answer.allowed);
    assert_int_equal(answer.remaining, 3);
    assert_int_equal(answer.reset_us, MINUTE);
    answer = weir_sliding_log_answer(&spend, 8, 7, 5);
    assert_false(answer.allowed);
    assert_int_equal(answer.remaining, 2);
    assert_int_equal(answer.retry_us, 7);
    assert_int_equal(answer.reset_us, 5);
    spend.logs_refusals = true;
    answer = weir_sliding_log_answer(&spend, 8, 7, 5);
    assert_int_equal(answer.remaining, 0);
    assert_int_equal(answer.reset_us, MINUTE);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_ring, close_ring)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(counts_what_the_last_window_holds),
        CASE(merges_entries_of_one_microsecond),
        CASE(leaves_a_log_alone_that_refuses),
        CASE(goes_round_its_ring_for_ever),
        CASE(takes_large_costs),
        CASE(moves_back_with_a_clock_that_is_set_back),
        CASE(takes_new_numbers_at_once),
        CASE(lengthens_the_wait_of_who_hammers),
        CASE(settles_the_entry_of_the_decision),
        CASE(clears_away_idle_entries_but_the_newest),
        CASE(answers_from_the_numbers_of_another_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
