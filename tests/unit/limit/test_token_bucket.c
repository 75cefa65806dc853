/* WEIR_SEED repeats a run. */
#include "test.h"

#include <inttypes.h>
#include <time.h>

#include "limit/algorithm.h"

#define MS     UINT64_C(1000)
#define SECOND (1000 * MS)
#define DAY    (86400 * SECOND)

/* 2026-01-01T00:00:00Z */
#define NOW UINT64_C(1767225600000000)

static struct weir_spend spend_of(uint64_t limit, uint64_t window_us, uint64_t burst)
{
    struct weir_spend spend = { .algorithm = WEIR_TOKEN_BUCKET, .cost = 1 };
    assert_int_equal(weir_rate_make(limit, window_us, burst, &spend.rate, NULL), WEIR_OK);
    return spend;
}

static void assert_same(const struct weir_answer *got, const struct weir_answer *want)
{
    assert_int_equal(got->allowed, want->allowed);
    assert_int_equal(got->impossible, want->impossible);
    assert_int_equal(got->remaining, want->remaining);
    assert_int_equal(got->retry_us, want->retry_us);
    assert_int_equal(got->reset_us, want->reset_us);
}

/* 5 tokens, one each 200 ms; so many were missing so long ago. */
static void decides_by_tokens_that_are_missing(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint32_t missing;
        uint64_t since_ms, cost;
        struct weir_answer want;
        uint32_t missing_after;
        uint64_t since_after_ms;
    } rows[] = {
        { "a new key", 0, 0, 1, { true, false, false, 4, 0, 200 * MS, 0, 0 }, 1, 0 },
        { "the last token", 4, 0, 1, { true, false, false, 0, 0, 1000 * MS, 0, 0 }, 5, 0 },
        { "one too many", 5, 0, 1, { false, false, false, 0, 200 * MS, 1000 * MS, 0, 0 }, 5, 0 },
        { "a token on its way",
          5,
          199,
          1,
          { false, false, false, 0, 1 * MS, 801 * MS, 0, 0 },
          5,
          199 },
        { "a token just come", 5, 200, 1, { true, false, false, 0, 0, 1000 * MS, 0, 0 }, 5, 0 },
        { "half a token more", 5, 500, 1, { true, false, false, 1, 0, 700 * MS, 0, 0 }, 4, 100 },
        { "full again", 5, 1000, 1, { true, false, false, 4, 0, 200 * MS, 0, 0 }, 1, 0 },
        { "full for long", 5, 900000, 5, { true, false, false, 0, 0, 1000 * MS, 0, 0 }, 5, 0 },
        { "more than is there",
          3,
          100,
          4,
          { false, false, false, 2, 300 * MS, 500 * MS, 0, 0 },
          3,
          100 },
        { "more than will ever be", 2, 0, 6, { false, true, false, 3, 0, 400 * MS, 0, 0 }, 2, 0 },
        { "a look", 3, 300, 0, { true, false, false, 3, 0, 300 * MS, 0, 0 }, 3, 300 },
        { "a limit that was lowered",
          9,
          300,
          1,
          { false, false, false, 0, 100 * MS, 900 * MS, 0, 0 },
          5,
          100 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_spend spend = spend_of(5, SECOND, 0);
        spend.cost = rows[i].cost;
        struct weir_state kept = { NOW - rows[i].since_ms * MS, 0, rows[i].missing };
        struct weir_decision_step step =
            weir_decide(&spend, rows[i].missing > 0 ? kept : (struct weir_state){ 0 }, NOW);
        assert_same(&step.answer, &rows[i].want);
        assert_int_equal(step.state.high, rows[i].missing_after);
        assert_int_equal(step.state.first, NOW - rows[i].since_after_ms * MS);
        assert_int_equal(step.expires_us, NOW + step.answer.reset_us);
    }
}

static void gives_the_figures_of_the_design(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(5, SECOND, 10);
    struct weir_decision_step step = { .state = { 0 } };
    for (uint64_t n = 0; n < 12; n++) {
        step = weir_decide(&spend, step.state, NOW + n * 10 * MS);
        assert_int_equal(step.answer.allowed, n < 10);
        assert_int_equal(step.answer.remaining, n < 10 ? 9 - n : 0);
        assert_int_equal(step.answer.retry_us, n < 10 ? 0 : (n == 10 ? 100 : 90) * MS);
    }
    step = weir_decide(&spend, step.state, NOW + 110 * MS + SECOND);
    assert_true(step.answer.allowed);
    assert_int_equal(step.answer.remaining, 4);
}

static void keeps_what_is_missing_when_the_limit_is_raised(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(10, 3600 * SECOND, 0);
    spend.cost = 10;
    struct weir_state kept = weir_decide(&spend, (struct weir_state){ 0 }, NOW).state;
    struct weir_spend raised = spend_of(20, 3600 * SECOND, 0);
    raised.cost = 10;
    struct weir_decision_step step = weir_decide(&raised, kept, NOW);
    assert_true(step.answer.allowed);
    assert_int_equal(step.answer.remaining, 0);
}

static void counts_a_step_back_as_no_time(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(5, SECOND, 0);
    struct weir_state ahead = { NOW + DAY, 0, 5 };
    struct weir_decision_step step = weir_decide(&spend, ahead, NOW);
    assert_false(step.answer.allowed);
    assert_int_equal(step.answer.retry_us, 200 * MS);
    assert_int_equal(step.state.first, NOW);
    assert_false(weir_decide(&spend, step.state, NOW + 200 * MS - 1).answer.allowed);
    assert_true(weir_decide(&spend, step.state, NOW + 200 * MS).answer.allowed);
}

static void lets_exactly_its_number_through(void **state)
{
    (void)state;
    static const struct {
        uint64_t limit, window_us, windows;
    } rows[] = { { 7, DAY, 1000 }, { 3, SECOND, 3000 }, { 1000000, 3600 * SECOND, 1 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_spend spend = spend_of(rows[i].limit, rows[i].window_us, 1);
        struct weir_state kept = { 0 };
        uint64_t through = 0, now_us = NOW;
        while (now_us <= NOW + rows[i].windows * rows[i].window_us) {
            struct weir_decision_step step = weir_decide(&spend, kept, now_us);
            kept = step.state;
            through += step.answer.allowed;
            now_us += step.answer.retry_us;
        }
        /* One each interval, counted from the first; none is lost to fractions. */
        assert_in_range(through, rows[i].limit * rows[i].windows,
                        rows[i].limit * rows[i].windows + 1);
    }
}

static void settles_in_the_time_that_is_still_in_use(void **state)
{
    (void)state;
    struct weir_spend spend = spend_of(5, SECOND, 0);
    spend.reserved = 3;
    spend.decided_us = NOW;
    spend.full_us = NOW + 600 * MS;
    const struct weir_state kept = { NOW, 0, 3 };
    spend.cost = 1;
    assert_int_equal(weir_settle_state(&spend, kept, NOW).state.high, 1);
    spend.cost = 9;
    assert_int_equal(weir_settle_state(&spend, kept, NOW).state.high, 5);
    /* Half of the 600 ms have come back by themselves: 300 are left to give back. */
    spend.cost = 0;
    struct weir_decision_step step = weir_settle_state(&spend, kept, NOW + 300 * MS);
    assert_int_equal(step.state.high, 0);
    /* With another's token in use meanwhile, that one stays, as far on its way as it was. */
    const struct weir_state shared = { NOW, 0, 4 };
    step = weir_settle_state(&spend, shared, NOW + 300 * MS);
    assert_int_equal(step.state.high, 1);
    assert_int_equal(step.state.first, NOW + 300 * MS);
    spend.cost = 3;
    step = weir_settle_state(&spend, kept, NOW + 100 * MS);
    assert_memory_equal(&step.state, &kept, sizeof kept);
}

/* against gcra */

static uint64_t seed;

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators". */
static uint64_t random_to(uint64_t most)
{
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return seed * UINT64_C(2685821657736338717) % (most + 1);
}

static void decide_both(const struct weir_spend *tokens, const struct weir_spend *arrivals)
{
    struct weir_state bucket = { 0 }, arrival = { 0 };
    struct weir_spend one = *tokens, other = *arrivals;
    uint64_t now_us = NOW, retry_us = 0;
    for (int n = 0; n < 300; n++) {
        now_us += random_to(1) ? retry_us - (retry_us > 0 && random_to(1))
                               : random_to(2 * one.rate.interval_us + 2);
        one.cost = other.cost = random_to(3) ? random_to(2) : random_to(one.rate.burst + 1);
        struct weir_decision_step step = weir_decide(&one, bucket, now_us);
        struct weir_decision_step want = weir_decide(&other, arrival, now_us);
        assert_same(&step.answer, &want.answer);
        bucket = step.state;
        arrival = want.state;
        retry_us = step.answer.retry_us;
    }
}

static void admits_what_gcra_does(void **state)
{
    (void)state;
    const char *given = getenv("WEIR_SEED");
    seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 2654435761u;
    seed += seed == 0;
    print_message("    WEIR_SEED=%" PRIu64 "\n", seed);
    for (int i = 0; i < 1000; i++) {
        struct weir_spend tokens = { .algorithm = WEIR_TOKEN_BUCKET };
        while (weir_rate_make(1 + random_to(1000), 1 + random_to(random_to(1) ? DAY : 1000),
                              random_to(2000), &tokens.rate, NULL)
               != WEIR_OK)
            continue;
        struct weir_spend arrivals = tokens;
        arrivals.algorithm = WEIR_GCRA;
        decide_both(&tokens, &arrivals);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_by_tokens_that_are_missing),
        cmocka_unit_test(gives_the_figures_of_the_design),
        cmocka_unit_test(keeps_what_is_missing_when_the_limit_is_raised),
        cmocka_unit_test(counts_a_step_back_as_no_time),
        cmocka_unit_test(lets_exactly_its_number_through),
        cmocka_unit_test(settles_in_the_time_that_is_still_in_use),
        cmocka_unit_test(admits_what_gcra_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
