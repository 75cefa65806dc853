/* What users of other limiters ran into, a case each. The letters and numbers are those of our notes
 * on their reports; what they say of headers, requests or settings is tested elsewhere. */
#include "contract_cases.h"

#include <jansson.h>

#define MS UINT64_C(1000)

/* B6, C28: raised in the middle of a window from 10 to 20, 10 more pass. */
static void lets_a_raised_limit_through_in_the_same_window(void **state)
{
    (void)state;
    static const enum weir_algorithm algorithms[] = { WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW,
                                                      WEIR_SLIDING_COUNTER, WEIR_SLIDING_LOG };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct weir_spend before = new_spend("b6", algorithms[i], 10, 366 * DAY, 0);
        struct weir_spend after = changed(&before, 20, 366 * DAY, 0);
        unsigned through = 0;
        for (int n = 0; n < 50; n++)
            through += ask(&before, 1).allowed;
        assert_int_equal(through, 10);
        for (int n = 0; n < 50; n++)
            through += ask(&after, 1).allowed;
        assert_int_equal(through, 20);
    }
}

/* B9, C12: a cost beyond everything does not touch the bucket, nor its expiry. */
static void leaves_the_bucket_alone_at_an_impossible_cost(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "b9", 5, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        const struct weir_spend *spend = &kinds[i].spend;
        ask(spend, 3);
        uint64_t reset_us = look(spend).reset_us;
        uint64_t before_us = ttl_is_known() ? ttl_us(spend) : 0;
        struct weir_answer answer = ask(spend, 1000000);
        assert_false(answer.allowed);
        assert_true(answer.impossible);
        assert_int_equal(answer.remaining, 2);
        assert_int_equal(answer.retry_us, 0);
        assert_left(look(spend).reset_us, reset_us, MINUTE);
        if (ttl_is_known())
            assert_true(ttl_us(spend) <= before_us);
        assert_true(ask(spend, 2).allowed);
    }
}

/* B10: the first limit is not charged when the second refuses. */
static void charges_no_short_limit_when_the_long_one_is_used_up(void **state)
{
    (void)state;
    struct weir_spend second = contract_window("b10-second", 10, ENDLESS);
    struct weir_spend minute = contract_window("b10-minute", 100, ENDLESS);
    ask(&minute, 100);
    struct contract_plan plan = { .spends = { second, minute }, .check.count = 2 };
    for (int n = 0; n < 20; n++)
        submit_answered(store, &plan);
    assert_int_equal(look(&second).remaining, 10);
}

/* B21: two first hits on one key are two. B27: of ten at once at 1 a second, one passes. C27: readers
 * at nothing left see nothing less. */
static void counts_first_hits_from_everywhere(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    for (int round = 0; round < 5; round++) {
        new_kinds(kinds, "b21", 1000, 366 * DAY);
        for (size_t i = 0; i < KINDS; i++) {
            struct contract_plan plan = { .spends = { kinds[i].spend }, .check.count = 1 };
            assert_int_equal(let_through(&plan, 2, 1), 2);
            assert_int_equal(look(&kinds[i].spend).remaining, 998);
        }
        new_kinds(kinds, "b27", 1, 366 * DAY);
        for (size_t i = 0; i < KINDS; i++) {
            struct contract_plan plan = { .spends = { kinds[i].spend }, .check.count = 1 };
            assert_int_equal(let_through(&plan, 10, 1), 1);
            assert_int_equal(look(&kinds[i].spend).remaining, 0);
        }
    }
}

/* B24: with 9 of 10 used, the tenth passes and the eleventh does not; C19: the last one passes with 0
 * left. C6: 15 means 15. */
static void lets_exactly_the_limit_through(void **state)
{
    (void)state;
    static const uint64_t limits[] = { 1, 10, 15 };
    for (size_t n = 0; n < COUNT_OF(limits); n++) {
        struct kind kinds[KINDS];
        new_kinds(kinds, "b24", limits[n], 366 * DAY);
        for (size_t i = 0; i < KINDS; i++) {
            const struct weir_spend *spend = &kinds[i].spend;
            for (uint64_t left = limits[n]; left > 0; left--)
                assert_int_equal(ask(spend, 1).remaining, left - 1);
            assert_int_equal(look(spend).remaining, 0);
            struct weir_answer answer = ask(spend, 1);
            assert_false(answer.allowed);
            assert_int_equal(answer.remaining, 0);
        }
    }
}

/* B25, D1: one a second; after a second, and after the key has expired, the next passes. */
static void starts_afresh_when_a_key_has_expired(void **state)
{
    (void)state;
    need_time_of_ours();
    struct kind kinds[KINDS];
    static const uint64_t later_us[] = { 0, 10 * MS, 5 * SECOND };
    for (size_t n = 0; n < COUNT_OF(later_us); n++) {
        new_kinds(kinds, "b25", 1, SECOND);
        for (size_t i = 0; i < KINDS; i++) {
            const struct weir_spend *spend = &kinds[i].spend;
            assert_true(ask(spend, 1).allowed);
            uint64_t retry_us = ask(spend, 1).retry_us;
            assert_true(retry_us > 0);
            pass_us(retry_us + later_us[n]);
            assert_true(ask(spend, 1).allowed);
        }
    }
}

/* C1: after an idle time there is the capacity, and not one more. C9: the wait is for one unit, not for
 * all. C13: a cost as large as the capacity is possible. */
static void fills_no_further_than_the_capacity(void **state)
{
    (void)state;
    need_time_of_ours();
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_TOKEN_BUCKET,
                                                      WEIR_LEAKY_BUCKET };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct weir_spend spend = new_spend("c1", algorithms[i], 5, SECOND, 0);
        assert_true(ask(&spend, 5).allowed);
        assert_int_equal(ask(&spend, 1).retry_us, SECOND / 5);
        struct weir_answer answer = ask(&spend, 5);
        assert_false(answer.impossible);
        assert_int_equal(answer.retry_us, SECOND);
        pass_us(2 * SECOND);
        unsigned through = 0;
        for (int n = 0; n < 6; n++)
            through += ask(&spend, 1).allowed;
        assert_int_equal(through, 5);
    }
}

/* C3: of 60 at once and 60 more over the first minute, at 60 a minute. A bucket refills while it is
 * used, so nearly twice as many pass in its first minute; a log is strict, and a counter too where the
 * minute is its window. */
static void says_what_passes_in_the_first_minute(void **state)
{
    (void)state;
    need_time_of_ours();
    static const struct {
        enum weir_algorithm algorithm;
        unsigned through;
    } rows[] = { { WEIR_GCRA, 119 },
                 { WEIR_TOKEN_BUCKET, 119 },
                 { WEIR_SLIDING_COUNTER, 60 },
                 { WEIR_SLIDING_LOG, 60 },
                 { WEIR_FIXED_WINDOW, 60 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_spend spend = new_spend("c3", rows[i].algorithm, 60, MINUTE, 0);
        pass_until_left(MINUTE, MINUTE);
        unsigned through = 0;
        for (int n = 0; n < 60; n++)
            through += ask(&spend, 1).allowed;
        for (int n = 0; n < 59; n++) {
            pass_us(SECOND);
            through += ask(&spend, 1).allowed;
        }
        assert_int_equal(through, rows[i].through);
    }
}

/* C4: a thousand million a second works, and what is more is refused when the rate is made. C10: a
 * limit of 0 lets nothing through, and a window of 0 is an error. */
static void makes_rates_of_what_can_be_kept(void **state)
{
    (void)state;
    struct weir_rate rate;
    assert_int_not_equal(weir_rate_make(2000000000, SECOND, 0, &rate, NULL), WEIR_OK);
    assert_int_not_equal(weir_rate_make(5, 0, 0, &rate, NULL), WEIR_OK);
    for (enum weir_algorithm algorithm = WEIR_GCRA; algorithm <= WEIR_SLIDING_LOG; algorithm++) {
        struct weir_spend spend = new_spend("c4", algorithm, WEIR_UNITS_MAX, SECOND, 0);
        assert_true(ask(&spend, 1).allowed);
        spend = changed(&spend, 0, SECOND, 0);
        assert_true(ask(&spend, 1).impossible);
    }
}

/* C7, D3, D6: the wait is what is left of the time, not the whole of it, and not nothing. */
static void tells_the_wait_that_is_left(void **state)
{
    (void)state;
    need_time_of_ours();
    struct weir_spend window = contract_window("d3", 5, MINUTE);
    pass_until_left(MINUTE, MINUTE);
    ask(&window, 5);
    pass_us(25 * SECOND);
    assert_int_equal(ask(&window, 1).retry_us, 35 * SECOND);
    pass_us(33800 * MS);
    assert_int_equal(ask(&window, 1).retry_us, 1200 * MS);
    struct weir_spend first = contract_gcra("d19", 30, MINUTE, 15);
    /* D19: two seconds, not three. */
    assert_int_equal(ask(&first, 1).reset_us, 2 * SECOND);
}

/* C15: a cost of many thousands in a log. C16: so many entries that looking at each would show. */
static void takes_large_numbers_in_a_log(void **state)
{
    (void)state;
    struct weir_spend log = new_spend("c15", WEIR_SLIDING_LOG, 50000, ENDLESS, 0);
    assert_int_equal(ask(&log, 20000).remaining, 30000);
    assert_int_equal(ask(&log, 20000).remaining, 10000);
    assert_false(ask(&log, 20000).allowed);
    for (uint64_t n = 1; n <= 1000; n++)
        assert_int_equal(ask(&log, 1).remaining, 10000 - n);
    if (time_is_ours()) {
        for (uint64_t n = 1; n <= 3000; n++) {
            pass_us(n % 7 * MS);
            assert_int_equal(ask(&log, 3).remaining, 9000 - 3 * n);
        }
        pass_us(ask(&log, 20001).retry_us);
        assert_true(ask(&log, 20000).allowed);
    }
}

/* C18, C34: 10 at 0.9 of a window, and 10 at 1.1. */
static void weighs_the_window_before(void **state)
{
    (void)state;
    need_time_of_ours();
    static const struct {
        enum weir_algorithm algorithm;
        unsigned through;
    } rows[] = { { WEIR_SLIDING_COUNTER, 1 }, { WEIR_SLIDING_LOG, 0 }, { WEIR_FIXED_WINDOW, 10 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_spend spend = new_spend("c18", rows[i].algorithm, 10, MINUTE, 0);
        pass_until_left(MINUTE, 6 * SECOND);
        assert_true(ask(&spend, 10).allowed);
        pass_us(12 * SECOND);
        unsigned through = 0;
        for (int n = 0; n < 10; n++)
            through += ask(&spend, 1).allowed;
        assert_int_equal(through, rows[i].through);
    }
}

/* C22: 10 in 30 seconds, used up, and then hit each second: a unit comes at 3, 6 and 9 s. */
static void earns_units_in_spite_of_hits(void **state)
{
    (void)state;
    need_time_of_ours();
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_TOKEN_BUCKET,
                                                      WEIR_LEAKY_BUCKET };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct weir_spend spend = new_spend("c22", algorithms[i], 10, 30 * SECOND, 0);
        ask(&spend, 10);
        for (int second = 1; second <= 30; second++) {
            pass_us(SECOND);
            assert_int_equal(ask(&spend, 1).allowed, second % 3 == 0);
        }
    }
}

/* C24: hits within milliseconds of a long window add up. */
static void adds_up_hits_of_the_same_moment(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "c24", 1000, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++)
        for (uint64_t n = 1; n <= 3; n++) {
            assert_int_equal(ask(&kinds[i].spend, 1).remaining, 1000 - n);
            pass_us(MS);
        }
}

/* C25: what is given back to an empty bucket can be spent. */
static void gives_back_to_an_empty_bucket(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "c25", 10, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        struct weir_spend spend = kinds[i].spend;
        ask(&spend, 8);
        spend_to_settle(&spend, 2);
        assert_false(ask(&spend, 1).allowed);
        settle(&spend, 0);
        assert_true(ask(&spend, 2).allowed);
        assert_false(ask(&spend, 1).allowed);
    }
}

/* C33: the clock is set back by two minutes: neither is anybody locked out nor is there a flood. */
static void stands_a_clock_that_is_set_back(void **state)
{
    (void)state;
    if (factory->step_back_us == NULL)
        skip();
    struct kind kinds[KINDS];
    new_kinds(kinds, "c33", 10, MINUTE);
    unsigned through[KINDS] = { 0 };
    for (int second = 0; second < 180; second++) {
        if (second == 90)
            factory->step_back_us(factory->self, 120 * SECOND);
        for (size_t i = 0; i < KINDS; i++)
            through[i] += ask(&kinds[i].spend, 1).allowed;
        pass_us(SECOND);
    }
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].spend.rate.window_us == MINUTE && (through[i] < 20 || through[i] > 50))
            fail_msg("%s let %u through in 3 minutes", kinds[i].name, through[i]);
}

/* cases/ratelimit_headers.json: what remaining and reset mean. The window on the clock is brought to
 * where so much of it is left, and to what was used of it, this request included. */

static uint64_t number_of(const json_t *limiter, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(limiter, name));
}

/* Whether a window can be so: some tell of no time left, or of a limit of another kind. */
static bool can_be(const json_t *limiter)
{
    json_int_t reset_ms = json_integer_value(json_object_get(limiter, "reset_ms"));
    return reset_ms > 0 && (uint64_t)reset_ms <= number_of(limiter, "window_ms")
           && number_of(limiter, "used") > 0 && number_of(limiter, "limit") > 0;
}

static void assert_answers_as_published(const json_t *limiter)
{
    uint64_t limit = number_of(limiter, "limit"), used = number_of(limiter, "used");
    uint64_t window_us = number_of(limiter, "window_ms") * MS;
    uint64_t left_us = number_of(limiter, "reset_ms") * MS;
    struct weir_spend spend = contract_window("published", limit, window_us);
    pass_until_left(window_us, left_us);
    uint64_t before = used - 1 < limit ? used - 1 : limit;
    ask(&spend, before);
    struct weir_answer answer = ask(&spend, 1);
    assert_int_equal(answer.allowed, used <= limit);
    assert_int_equal(answer.remaining, used <= limit ? limit - used : 0);
    assert_int_equal(answer.reset_us, left_us);
    assert_int_equal(answer.retry_us, used <= limit ? 0 : left_us);
}

static void means_by_remaining_and_reset_what_is_published(void **state)
{
    (void)state;
    need_time_of_ours();
    char path[512];
    assert_non_null(getenv("WEIR_CASES"));
    snprintf(path, sizeof path, "%s/ratelimit_headers.json", getenv("WEIR_CASES"));
    json_t *root = json_load_file(path, 0, NULL), *one, *limiter;
    assert_non_null(root);
    size_t index, place, checked = 0;
    json_array_foreach(json_object_get(root, "cases"), index, one)
    {
        json_array_foreach(json_object_get(one, "limiters"), place, limiter)
        {
            if (!can_be(limiter))
                continue;
            assert_answers_as_published(limiter);
            checked++;
        }
    }
    json_decref(root);
    assert_true(checked >= 70);
}

static const struct CMUnitTest tests[] = {
    CASE(lets_a_raised_limit_through_in_the_same_window),
    CASE(leaves_the_bucket_alone_at_an_impossible_cost),
    CASE(charges_no_short_limit_when_the_long_one_is_used_up),
    CASE(counts_first_hits_from_everywhere),
    CASE(lets_exactly_the_limit_through),
    CASE(starts_afresh_when_a_key_has_expired),
    CASE(fills_no_further_than_the_capacity),
    CASE(says_what_passes_in_the_first_minute),
    CASE(makes_rates_of_what_can_be_kept),
    CASE(tells_the_wait_that_is_left),
    CASE(takes_large_numbers_in_a_log),
    CASE(weighs_the_window_before),
    CASE(earns_units_in_spite_of_hits),
    CASE(adds_up_hits_of_the_same_moment),
    CASE(gives_back_to_an_empty_bucket),
    CASE(stands_a_clock_that_is_set_back),
    CASE(means_by_remaining_and_reset_what_is_published),
};

const struct contract_group contract_reports = GROUP("reports", tests);
