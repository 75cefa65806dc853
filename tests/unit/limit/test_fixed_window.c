#include "test.h"

#include <jansson.h>

#include <weir/calendar.h>

#include "limit/algorithm.h"

#define MS     UINT64_C(1000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define DAY    (86400 * SECOND)

/* 2026-01-01T00:00:00Z: the start of a minute, an hour and a day. */
#define EDGE UINT64_C(1767225600000000)

static struct weir_rate rate_of(uint64_t limit, uint64_t window_us)
{
    struct weir_rate rate;
    assert_int_equal(weir_rate_make(limit, window_us, 0, &rate, NULL), WEIR_OK);
    return rate;
}

static struct weir_decision_step decide(const struct weir_rate *rate, bool from_first,
                                        struct weir_state state, uint64_t now_us, uint64_t cost)
{
    const struct weir_spend spend = {
        .algorithm = WEIR_FIXED_WINDOW, .from_first = from_first, .rate = *rate, .cost = cost
    };
    return weir_decide(&spend, state, now_us);
}

static void decides_by_what_is_used(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        bool from_first;
        uint64_t start_s, used, now_s, cost; /* seconds after the edge */
        struct weir_answer want;
        uint64_t start_after_s, used_after;
    } rows[] = {
        { "a new key", false, 0, 0, 25, 1, { true, false, false, 4, 0, 35 * SECOND, 0, 0 }, 0, 1 },
        { "a new key that opens",
          true,
          0,
          0,
          25,
          1,
          { true, false, false, 4, 0, MINUTE, 0, 0 },
          25,
          1 },
        { "the last unit",
          false,
          0,
          4,
          25,
          1,
          { true, false, false, 0, 0, 35 * SECOND, 0, 0 },
          0,
          5 },
        { "one too many",
          false,
          0,
          5,
          25,
          1,
          { false, false, false, 0, 35 * SECOND, 35 * SECOND, 0, 0 },
          0,
          5 },
        { "one too many since it opened",
          true,
          25,
          5,
          30,
          1,
          { false, false, false, 0, 55 * SECOND, 55 * SECOND, 0, 0 },
          25,
          5 },
        { "more than is there",
          false,
          0,
          3,
          25,
          3,
          { false, false, false, 2, 35 * SECOND, 35 * SECOND, 0, 0 },
          0,
          3 },
        { "more than will ever be",
          false,
          0,
          3,
          25,
          6,
          { false, true, false, 2, 0, 35 * SECOND, 0, 0 },
          0,
          3 },
        { "the largest cost",
          false,
          0,
          3,
          25,
          UINT64_MAX,
          { false, true, false, 2, 0, 35 * SECOND, 0, 0 },
          0,
          3 },
        { "a look", false, 0, 3, 25, 0, { true, false, false, 2, 0, 35 * SECOND, 0, 0 }, 0, 3 },
        { "a look at nothing", false, 0, 0, 25, 0, { true, false, false, 5, 0, 0, 0, 0 }, 0, 0 },
        { "the next window",
          false,
          0,
          5,
          60,
          1,
          { true, false, false, 4, 0, MINUTE, 0, 0 },
          60,
          1 },
        { "the window after it opened",
          true,
          25,
          5,
          85,
          2,
          { true, false, false, 3, 0, MINUTE, 0, 0 },
          85,
          2 },
        { "a look at an old window",
          false,
          0,
          5,
          60,
          0,
          { true, false, false, 5, 0, 0, 0, 0 },
          0,
          5 },
        { "a limit that was lowered",
          false,
          0,
          50,
          25,
          1,
          { false, false, false, 0, 35 * SECOND, 35 * SECOND, 0, 0 },
          0,
          50 },
        { "a clock set back",
          false,
          120,
          3,
          25,
          1,
          { true, false, false, 1, 0, 35 * SECOND, 0, 0 },
          0,
          4 },
        { "a clock set back, used up",
          false,
          120,
          5,
          25,
          1,
          { false, false, false, 0, 35 * SECOND, 35 * SECOND, 0, 0 },
          0,
          5 },
        { "a clock set back before it opened",
          true,
          120,
          5,
          25,
          1,
          { false, false, false, 0, MINUTE, MINUTE, 0, 0 },
          25,
          5 },
        { "a window that was shorter",
          false,
          30,
          3,
          45,
          1,
          { true, false, false, 1, 0, 15 * SECOND, 0, 0 },
          0,
          4 },
    };
    struct weir_rate rate = rate_of(5, MINUTE);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_state kept = { 0 };
        if (rows[i].used > 0)
            kept =
                (struct weir_state){ EDGE + rows[i].start_s * SECOND, (uint32_t)rows[i].used, 0 };
        struct weir_decision_step step =
            decide(&rate, rows[i].from_first, kept, EDGE + rows[i].now_s * SECOND, rows[i].cost);
        assert_int_equal(step.answer.allowed, rows[i].want.allowed);
        assert_int_equal(step.answer.impossible, rows[i].want.impossible);
        assert_int_equal(step.answer.remaining, rows[i].want.remaining);
        assert_int_equal(step.answer.retry_us, rows[i].want.retry_us);
        assert_int_equal(step.answer.reset_us, rows[i].want.reset_us);
        assert_int_equal(step.state.low, rows[i].used_after);
        if (rows[i].used_after > 0)
            assert_int_equal(step.state.first, EDGE + rows[i].start_after_s * SECOND);
    }
}

static void tells_a_wait_that_comes_true_after_a_step_back(void **state)
{
    (void)state;
    struct weir_rate rate = rate_of(5, MINUTE);
    for (int from_first = 0; from_first < 2; from_first++) {
        struct weir_state kept = { EDGE + 120 * SECOND, 5, 0 };
        uint64_t now_us = EDGE + 25 * SECOND;
        struct weir_decision_step step = decide(&rate, from_first, kept, now_us, 1);
        uint64_t due_us = now_us + step.answer.retry_us;
        kept = step.state;
        step = decide(&rate, from_first, kept, due_us - 1, 1);
        assert_false(step.answer.allowed);
        step = decide(&rate, from_first, step.state, due_us, 1);
        assert_true(step.answer.allowed);
    }
}

static void lets_a_double_burst_through_an_edge(void **state)
{
    (void)state;
    struct weir_rate rate = rate_of(100, MINUTE);
    struct weir_state kept = { 0 };
    unsigned through = 0;
    for (unsigned n = 0; n < 300; n++) {
        uint64_t now_us = n < 150 ? EDGE + MINUTE - 1 : EDGE + MINUTE;
        struct weir_decision_step step = decide(&rate, false, kept, now_us, 1);
        kept = step.state;
        through += step.answer.allowed;
    }
    assert_int_equal(through, 200);
}

/* The last moment of a window and the first of the next. */
static void starts_a_full_window_at_its_edge(void **state)
{
    (void)state;
    struct weir_rate rate = rate_of(5, MINUTE);
    struct weir_state used_up = { EDGE, 5, 0 };
    struct weir_answer answer = decide(&rate, true, used_up, EDGE + MINUTE - 1, 1).answer;
    assert_false(answer.allowed);
    assert_int_equal(answer.retry_us, 1);

    struct weir_decision_step step = decide(&rate, true, used_up, EDGE + MINUTE, 1);
    assert_true(step.answer.allowed);
    assert_int_equal(step.answer.remaining, 4);
    assert_int_equal(step.answer.reset_us, MINUTE);
    assert_int_equal(step.expires_us, EDGE + 2 * MINUTE);
}

static void refuses_everything_at_a_limit_of_zero(void **state)
{
    (void)state;
    struct weir_rate rate = rate_of(0, MINUTE);
    struct weir_state kept = { EDGE, 3, 0 };
    struct weir_decision_step step = decide(&rate, false, kept, EDGE + 1, 1);
    assert_false(step.answer.allowed);
    assert_true(step.answer.impossible);
    assert_int_equal(step.answer.remaining, 0);
    assert_int_equal(step.answer.retry_us, 0);
    assert_int_equal(step.state.low, 3);
    assert_true(decide(&rate, false, kept, EDGE + 1, 0).answer.allowed);
}

static void has_the_windows_of_a_calendar(void **state)
{
    (void)state;
    struct weir_calendar *months;
    assert_int_equal(
        weir_calendar_new(WEIR_CALENDAR_OPTIONS(.unit = WEIR_CALENDAR_MONTH), &months, NULL),
        WEIR_OK);
    struct weir_spend spend = {
        .algorithm = WEIR_FIXED_WINDOW, .rate = rate_of(5, 31 * DAY), .calendar = months, .cost = 5
    };
    /* The 27th of February, and then the first of March. */
    struct weir_decision_step step = weir_decide(&spend, (struct weir_state){ 0 }, EDGE + 57 * DAY);
    assert_int_equal(step.answer.reset_us, 2 * DAY);
    assert_int_equal(step.expires_us, EDGE + 59 * DAY);
    assert_int_equal(weir_decide(&spend, step.state, EDGE + 59 * DAY - 1).answer.retry_us, 1);
    assert_int_equal(weir_decide(&spend, step.state, EDGE + 59 * DAY).answer.reset_us, 31 * DAY);
    weir_calendar_free(months);
}

/* 3 of 10 units turn out to be something else, a moment after the edge. */
static void settles_only_the_window_of_the_decision(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint32_t used;
        uint64_t cost, decided_s, now_s; /* seconds after the edge */
        uint32_t used_after;
    } rows[] = {
        { "less", 8, 1, 1, 2, 6 },
        { "nothing at all", 3, 0, 1, 2, 0 },
        { "more", 5, 7, 1, 2, 9 },
        { "more than is there", 8, 9, 1, 2, 10 },
        { "more, of a limit that was lowered", 50, 9, 1, 2, 50 },
        { "less, of a limit that was lowered", 50, 1, 1, 2, 48 },
        { "less than nothing", 1, 0, 1, 2, 0 },
        { "the same", 8, 3, 1, 2, 8 },
        { "at the last moment", 8, 1, 1, 59, 6 },
        { "in the next window", 8, 1, 1, 60, 8 },
        { "in the next window, more", 8, 9, 1, 61, 8 },
        { "decided before this window", 8, 1, 0, 1, 6 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        const struct weir_spend spend = { .algorithm = WEIR_FIXED_WINDOW,
                                          .rate = rate_of(10, MINUTE),
                                          .cost = rows[i].cost,
                                          .reserved = 3,
                                          .decided_us = EDGE + rows[i].decided_s * SECOND,
                                          .full_us = EDGE + MINUTE };
        struct weir_state before = { EDGE, rows[i].used, 0 };
        struct weir_decision_step step =
            weir_settle_state(&spend, before, EDGE + rows[i].now_s * SECOND);
        assert_int_equal(step.state.low, rows[i].used_after);
    }
    /* Of the window before, the one that is now knows nothing. */
    struct weir_spend late = { .algorithm = WEIR_FIXED_WINDOW,
                               .rate = rate_of(10, MINUTE),
                               .reserved = 3,
                               .decided_us = EDGE - 1,
                               .full_us = EDGE };
    assert_int_equal(
        weir_settle_state(&late, (struct weir_state){ EDGE, 8, 0 }, EDGE + 1).state.low, 8);
}

static json_t *load_cases(void)
{
    char path[512];
    const char *folder = getenv("WEIR_CASES");
    assert_non_null(folder);
    snprintf(path, sizeof path, "%s/ratelimit_headers.json", folder);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    return root;
}

static uint64_t number_of(const json_t *limiter, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(limiter, name));
}

/* The cases count the request itself as used: one is spent here, the rest was before. */
static bool agrees_with_the_case(const json_t *limiter)
{
    uint64_t limit = number_of(limiter, "limit"), used = number_of(limiter, "used");
    uint64_t left_us = number_of(limiter, "reset_ms") * MS;
    struct weir_rate rate = rate_of(limit, number_of(limiter, "window_ms") * MS);
    uint64_t end_us = EDGE - EDGE % rate.window_us + rate.window_us;
    struct weir_state before = { end_us - rate.window_us, (uint32_t)used - 1, 0 };
    struct weir_answer answer = decide(&rate, false, before, end_us - left_us, 1).answer;
    assert_int_equal(answer.allowed, used <= limit);
    assert_int_equal(answer.remaining, used <= limit ? limit - used : 0);
    if (limit > 0)
        assert_int_equal(answer.reset_us, used == 0 ? 0 : left_us);
    if (!answer.allowed && !answer.impossible)
        assert_int_equal(answer.retry_us, left_us);
    return answer.allowed;
}

static void counts_as_the_published_cases_do(void **state)
{
    (void)state;
    json_t *root = load_cases();
    size_t index, checked = 0;
    json_t *one;
    json_array_foreach(json_object_get(root, "cases"), index, one)
    {
        const json_t *limiters = json_object_get(one, "limiters");
        const json_t *limiter = json_array_get(limiters, 0);
        if (json_array_size(limiters) != 1 || number_of(limiter, "used") == 0
            || !json_is_integer(json_object_get(limiter, "reset_ms"))
            || json_integer_value(json_object_get(limiter, "reset_ms")) <= 0)
            continue; /* a window that has ended is none */
        bool allowed = agrees_with_the_case(limiter);
        json_int_t status =
            json_integer_value(json_object_get(json_object_get(one, "expected"), "status"));
        assert_int_equal(status, allowed ? 200 : 429);
        checked++;
    }
    json_decref(root);
    assert_true(checked >= 70);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_by_what_is_used),
        cmocka_unit_test(tells_a_wait_that_comes_true_after_a_step_back),
        cmocka_unit_test(lets_a_double_burst_through_an_edge),
        cmocka_unit_test(starts_a_full_window_at_its_edge),
        cmocka_unit_test(refuses_everything_at_a_limit_of_zero),
        cmocka_unit_test(has_the_windows_of_a_calendar),
        cmocka_unit_test(settles_only_the_window_of_the_decision),
        cmocka_unit_test(counts_as_the_published_cases_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
