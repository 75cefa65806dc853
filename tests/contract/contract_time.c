/* One limit, while time passes. */
#include "contract_cases.h"

#include <time.h>

#include <weir/calendar.h>

#include "base/clock.h"

/* waiting */

/* Half as long is not enough, but a slow machine may wake later than it was told, or take long to
 * hear what was decided: so the time counts from before the question to behind the answer. */
static void check_real_wait(const struct weir_spend *spend, uint64_t cost)
{
    struct weir_answer answer;
    uint64_t before_us, asked_us;
    do {
        before_us = weir_monotonic_us();
        answer = ask(spend, cost);
    } while (answer.allowed);
    uint64_t retry_us = answer.retry_us;
    assert_true(retry_us > 0);
    pass_us(retry_us / 2);
    answer = ask(spend, cost);
    asked_us = weir_monotonic_us() - before_us;
    if (answer.allowed && asked_us < retry_us)
        fail_msg("let through after %llu of %llu us", (unsigned long long)asked_us,
                 (unsigned long long)retry_us);
    if (answer.allowed)
        return;
    pass_us(answer.retry_us);
    assert_true(ask(spend, cost).allowed);
}

/* Spends it all, and whoever waits as told is let through, but nobody who comes sooner. */
static void check_wait(const struct weir_spend *spend, uint64_t cost)
{
    while (ask(spend, 1).allowed)
        continue;
    if (!time_is_ours()) {
        check_real_wait(spend, cost);
        return;
    }
    struct weir_answer answer = ask(spend, cost);
    assert_false(answer.allowed);
    assert_true(answer.retry_us > 0);
    pass_us(answer.retry_us - 1);
    assert_int_equal(ask(spend, cost).retry_us, 1);
    pass_us(1);
    assert_true(ask(spend, cost).allowed);
}

static void tells_a_true_wait(void **state)
{
    (void)state;
    struct weir_spend queue = new_spend("wait-queue", WEIR_LEAKY_BUCKET, 30, SHORT, 0);
    queue.max_wait_us = SHORT / 7;
    struct weir_spend spends[] = {
        new_spend("wait-one", WEIR_GCRA, 7, SHORT, 0),
        new_spend("wait-burst", WEIR_GCRA, 3, SHORT, 9),
        new_spend("wait-many", WEIR_GCRA, 10, SHORT, 0),
        new_spend("wait-token", WEIR_TOKEN_BUCKET, 7, SHORT, 9),
        new_spend("wait-leaky", WEIR_LEAKY_BUCKET, 7, SHORT, 0),
        queue,
        contract_window("wait-clock", 3, SHORT),
        window_from_first("wait-first", 3, SHORT),
        new_spend("wait-counter", WEIR_SLIDING_COUNTER, 7, SHORT, 0),
        new_spend("wait-log", WEIR_SLIDING_LOG, 7, SHORT, 0),
    };
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        print_message("    %s\n", spends[i].key);
        check_wait(&spends[i], i == 2 ? 5 : 1);
    }
}

/* After random spending, at every cost that fits at all. */
static void tells_a_true_wait_at_any_time(void **state)
{
    (void)state;
    need_time_of_ours();
    struct kind kinds[KINDS];
    new_kinds(kinds, "waits", 97, 7 * SECOND + 1);
    for (size_t i = 0; i < KINDS; i++) {
        const struct weir_spend *spend = &kinds[i].spend;
        uint64_t chance = 12345;
        /* Hundreds of years would pass. */
        if (spend->calendar != NULL)
            continue;
        for (int n = 0; n < 200; n++) {
            chance = chance * UINT64_C(6364136223846793005) + 1442695040888963407u;
            uint64_t cost = 1 + (chance >> 33) % 97;
            struct weir_answer answer = ask(spend, cost);
            pass_us(answer.allowed ? (chance >> 40) % 1000000 : answer.retry_us - 1);
            if (answer.allowed)
                continue;
            assert_false(ask(spend, cost).allowed);
            pass_us(1);
            assert_true(ask(spend, cost).allowed);
        }
    }
}

static void has_it_all_again_after_the_reset(void **state)
{
    (void)state;
    need_time_of_ours();
    struct kind kinds[KINDS];
    new_kinds(kinds, "reset", 11, MINUTE + 1);
    for (size_t i = 0; i < KINDS; i++) {
        const struct weir_spend *spend = &kinds[i].spend;
        pass_us(17 * SECOND);
        ask(spend, 9);
        pass_us(3 * SECOND);
        uint64_t reset_us = ask(spend, 1).reset_us;
        pass_us(reset_us - 1);
        assert_int_equal(look(spend).reset_us, 1);
        assert_in_range(look(spend).remaining, 0, 10);
        pass_us(1);
        assert_int_equal(look(spend).reset_us, 0);
        assert_int_equal(look(spend).remaining, 11);
    }
}

static void tells_a_true_wait_after_the_limit_was_lowered(void **state)
{
    (void)state;
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_TOKEN_BUCKET,
                                                      WEIR_LEAKY_BUCKET };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct weir_spend before = new_spend("lowered", algorithms[i], 10, SHORT, 100);
        struct weir_spend after = changed(&before, 10, SHORT, 5);
        ask(&before, 100);
        check_wait(&after, 1);
    }
    static const enum weir_algorithm windows[] = { WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER,
                                                   WEIR_SLIDING_LOG };
    for (size_t i = 0; i < COUNT_OF(windows); i++) {
        struct weir_spend before = new_spend("lowered", windows[i], 100, SHORT, 0);
        struct weir_spend after = changed(&before, 5, SHORT, 0);
        ask(&before, 100);
        if (time_is_ours())
            assert_int_equal(look(&after).remaining, 0);
        check_wait(&after, 1);
    }
}

static void forgets_a_refusal(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "forget", 2, 20 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        const struct weir_spend *spend = &kinds[i].spend;
        ask(spend, 2);
        uint64_t before_us = ttl_is_known() ? ttl_us(spend) : 0;
        struct weir_answer first = ask(spend, 1);
        pass_us(1000);
        struct weir_answer last = first;
        for (int n = 0; n < 20; n++)
            last = ask(spend, 1);
        assert_false(last.allowed);
        assert_left(last.retry_us, first.retry_us - 1000, MINUTE);
        assert_left(last.reset_us, first.reset_us - 1000, MINUTE);
        if (ttl_is_known())
            assert_true(ttl_us(spend) <= before_us);
    }
}

/* expiring */

static void lets_keys_expire_and_come_back_fresh(void **state)
{
    (void)state;
    struct weir_spend spends[] = {
        new_spend("fresh", WEIR_GCRA, 5, SHORT, 0),
        new_spend("fresh", WEIR_TOKEN_BUCKET, 5, SHORT, 0),
        new_spend("fresh", WEIR_LEAKY_BUCKET, 5, SHORT, 0),
        contract_window("fresh", 5, SHORT),
        window_from_first("fresh", 5, SHORT),
        new_spend("fresh", WEIR_SLIDING_COUNTER, 5, SHORT, 0),
        new_spend("fresh", WEIR_SLIDING_LOG, 5, SHORT, 0),
    };
    for (size_t i = 0; i < COUNT_OF(spends); i++)
        ask(&spends[i], 5);
    pass_us(2 * SHORT + 1000);
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        assert_int_equal(look(&spends[i]).remaining, 5);
        assert_int_equal(look(&spends[i]).reset_us, 0);
        struct weir_answer answer = ask(&spends[i], 1);
        assert_true(answer.allowed);
        /* Real time may have brought a unit back. */
        assert_in_range(answer.remaining, 4, time_is_ours() ? 4 : 5);
    }
}

/* A key lives as long as its state matters, and about twice `window_us` at most; `asked_us` is from
 * before the answer, since real time goes on until the key is looked at. Stores may round by a
 * millisecond. */
static void assert_lives(const struct weir_spend *spend, const struct weir_answer *answer,
                         uint64_t asked_us, uint64_t window_us)
{
    uint64_t left_us = ttl_us(spend);
    uint64_t passed_us = weir_monotonic_us() - asked_us + 1000;
    assert_in_range(left_us, 0, 2 * window_us + 12 * SECOND);
    assert_true(left_us + passed_us >= answer->reset_us);
    assert_true(left_us > 0 || passed_us >= answer->reset_us);
}

/* However a key was first written (E7). */
static void expires_every_key_in_about_its_window(void **state)
{
    (void)state;
    if (!ttl_is_known())
        skip();
    struct kind kinds[KINDS];
    new_kinds(kinds, "ttl-first-cost-5", 100, MINUTE);
    for (size_t i = 0; i < KINDS; i++) {
        const struct weir_spend *spend = &kinds[i].spend;
        print_message("    %s\n", kinds[i].name);
        for (uint64_t spent = 5; spent <= 105; spent += 5) {
            uint64_t asked_us = weir_monotonic_us();
            struct weir_answer answer = ask(spend, 5);
            assert_true(answer.allowed || spent > 100);
            assert_lives(spend, &answer, asked_us, spend->rate.window_us);
        }
    }
}

static void lets_the_key_of_a_long_burst_live_as_long(void **state)
{
    (void)state;
    if (!ttl_is_known())
        skip();
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_TOKEN_BUCKET,
                                                      WEIR_LEAKY_BUCKET };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct weir_spend spend = new_spend("ttl-full", algorithms[i], 97, MINUTE, 500);
        uint64_t asked_us = weir_monotonic_us();
        struct weir_answer answer = ask(&spend, 500);
        assert_true(answer.allowed);
        assert_lives(&spend, &answer, asked_us, answer.reset_us);
    }
}

/* C21: what a window held is weighed in the next one to its end. */
static void keeps_what_is_still_weighed(void **state)
{
    (void)state;
    need_time_of_ours();
    struct weir_spend counter = new_spend("weighed", WEIR_SLIDING_COUNTER, 10, MINUTE, 0);
    pass_until_left(MINUTE, MINUTE);
    ask(&counter, 10);
    pass_us(MINUTE + 48 * SECOND);
    assert_int_equal(look(&counter).remaining, 8);
    pass_us(6 * SECOND - 1);
    assert_int_equal(look(&counter).remaining, 8);
    pass_us(1);
    assert_int_equal(look(&counter).remaining, 9);
    pass_us(6 * SECOND - 1);
    assert_int_equal(look(&counter).remaining, 9);
    pass_us(1);
    assert_int_equal(look(&counter).remaining, 10);
}

/* Products of these numbers are far above 2^53, and one apart: 999999937 units in the last window, of
 * which so much time is left, weigh 1/window of a unit more than a whole number of units, or less. */
static void weighs_exactly_what_no_double_can(void **state)
{
    (void)state;
    need_time_of_ours();
    static const struct {
        uint64_t still_us, weight, remaining;
        bool is_above;
    } rows[] = { { 944473015873, 29867213, 970132786, true },
                 { 30677926984127, 970132724, 29867276, false } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_spend counter =
            new_spend("exact", WEIR_SLIDING_COUNTER, WEIR_UNITS_MAX, ENDLESS, 0);
        pass_until_left(ENDLESS, 1);
        assert_true(ask(&counter, 999999937).allowed);
        pass_us(1 + ENDLESS - rows[i].still_us);
        assert_int_equal(look(&counter).remaining, rows[i].remaining);
        struct weir_answer answer = ask(&counter, WEIR_UNITS_MAX - rows[i].weight);
        assert_int_equal(answer.allowed, !rows[i].is_above);
        assert_int_equal(answer.retry_us, rows[i].is_above);
        pass_us(1);
        assert_int_equal(ask(&counter, WEIR_UNITS_MAX - rows[i].weight).allowed, rows[i].is_above);
    }
}

/* A rate of so fine an interval that the quotient of time and interval, as a double, is a whole number
 * 1/99991 µs before the unit comes. */
static void earns_no_unit_before_its_time(void **state)
{
    (void)state;
    need_time_of_ours();
    const uint64_t limit = 99991, units = 70446, before_us = 22278720988889;
    for (enum weir_algorithm algorithm = WEIR_GCRA; algorithm <= WEIR_LEAKY_BUCKET; algorithm++) {
        struct weir_spend spend = new_spend("fine", algorithm, limit, ENDLESS, 0);
        assert_true(ask(&spend, limit).allowed);
        pass_us(before_us);
        assert_int_equal(look(&spend).remaining, units - 1);
        struct weir_answer answer = ask(&spend, units);
        assert_false(answer.allowed);
        assert_int_equal(answer.retry_us, 1);
        pass_us(1);
        assert_int_equal(ask(&spend, units).remaining, 0);
    }
}

/* figures */

static void fills_bit_by_bit(void **state)
{
    (void)state;
    need_time_of_ours();
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_TOKEN_BUCKET,
                                                      WEIR_LEAKY_BUCKET };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        /* Capacity 10 at 5/s: 12 requests, 10 ms apart. */
        struct weir_spend spend = new_spend("figures", algorithms[i], 5, SECOND, 10);
        for (uint64_t n = 0; n < 10; n++) {
            struct weir_answer answer = ask(&spend, 1);
            assert_true(answer.allowed);
            assert_int_equal(answer.remaining, 9 - n);
            pass_us(10000);
        }
        assert_int_equal(ask(&spend, 1).retry_us, 100000);
        pass_us(10000);
        assert_int_equal(ask(&spend, 1).retry_us, 90000);
        pass_us(SECOND);
        struct weir_answer answer = ask(&spend, 1);
        assert_true(answer.allowed);
        assert_int_equal(answer.remaining, 4);
    }
}

/* Of 200 requests across a minute's edge, at 100 a minute. */
static unsigned through_at_the_edge(const struct weir_spend *spend)
{
    unsigned through = 0;
    pass_until_left(MINUTE, 1);
    for (int n = 0; n < 100; n++)
        through += ask(spend, 1).allowed;
    pass_us(1);
    for (int n = 0; n < 100; n++)
        through += ask(spend, 1).allowed;
    return through;
}

static void lets_a_double_burst_through_the_edge_of_a_fixed_window_only(void **state)
{
    (void)state;
    need_time_of_ours();
    static const struct {
        enum weir_algorithm algorithm;
        unsigned through;
    } rows[] = {
        { WEIR_FIXED_WINDOW, 200 }, { WEIR_SLIDING_COUNTER, 100 }, { WEIR_SLIDING_LOG, 100 },
        { WEIR_GCRA, 100 },         { WEIR_TOKEN_BUCKET, 100 },    { WEIR_LEAKY_BUCKET, 100 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_spend spend = new_spend("edge", rows[i].algorithm, 100, MINUTE, 0);
        assert_int_equal(through_at_the_edge(&spend), rows[i].through);
    }
}

static void opens_a_window_with_the_first_request(void **state)
{
    (void)state;
    need_time_of_ours();
    struct weir_spend spend = window_from_first("first", 2, MINUTE);
    pass_us(17 * SECOND + 123457);
    assert_int_equal(ask(&spend, 1).reset_us, MINUTE);
    pass_us(25 * SECOND);
    assert_int_equal(ask(&spend, 1).reset_us, 35 * SECOND);
    assert_int_equal(ask(&spend, 1).retry_us, 35 * SECOND);
    pass_us(35 * SECOND);
    assert_int_equal(ask(&spend, 1).reset_us, MINUTE);
}

/* A row: how many windows it takes until so many windows' units and three more are let through, when
 * each request comes as soon as it may. 7 in a window is an interval of no whole number of
 * microseconds. */
static void check_drift(enum weir_algorithm algorithm, uint64_t limit, uint64_t window_us,
                        uint64_t windows)
{
    struct weir_spend spend = new_spend("drift", algorithm, limit, window_us, 0);
    pass_until_left(window_us, window_us);
    uint64_t wanted = limit * windows + 3, passed_us = 0;
    for (uint64_t through = 0; through < wanted;) {
        struct weir_answer answer = ask(&spend, 1);
        through += answer.allowed;
        pass_us(answer.retry_us);
        passed_us += answer.retry_us;
    }
    /* A bucket starts full; then each unit comes exactly at its time. Windows and logs let their
     * number in at once, again and again. With a counter, which weighs the window before, one less than
     * the limit passes in each. */
    if (algorithm <= WEIR_LEAKY_BUCKET)
        assert_int_equal(passed_us, ((wanted - limit) * window_us + limit - 1) / limit);
    else if (algorithm == WEIR_SLIDING_COUNTER)
        assert_in_range(passed_us, windows * window_us,
                        (windows * limit / (limit - 1) + 2) * window_us);
    else
        assert_int_equal(passed_us, windows * window_us);
}

static void never_drifts(void **state)
{
    (void)state;
    need_time_of_ours();
    static const struct {
        uint64_t limit, window_us, windows;
    } rows[] = { { 7, DAY, 99 }, { 3, SECOND, 200 }, { 7, SECOND, 99 }, { 97, HOUR + 1, 5 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (enum weir_algorithm algorithm = WEIR_GCRA; algorithm <= WEIR_SLIDING_LOG; algorithm++)
            check_drift(algorithm, rows[i].limit, rows[i].window_us, rows[i].windows);
}

/* A row: how long 5000 units take, after the burst was spent at once. */
static void never_drifts_at_a_high_rate(void **state)
{
    (void)state;
    need_time_of_ours();
    static const struct {
        uint64_t limit, window_us, passed_us;
    } rows[] = { { 1000000, HOUR, 18 * SECOND },
                 { 7000000, HOUR, 2571429 },
                 { 3000000, SECOND, 1667 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (enum weir_algorithm algorithm = WEIR_GCRA; algorithm <= WEIR_LEAKY_BUCKET;
             algorithm++) {
            struct weir_spend spend =
                new_spend("million", algorithm, rows[i].limit, rows[i].window_us, 0);
            assert_true(ask(&spend, rows[i].limit).allowed);
            uint64_t passed_us = 0;
            for (unsigned through = 0; through < 5000;) {
                struct weir_answer answer = ask(&spend, 1);
                through += answer.allowed;
                pass_us(answer.retry_us);
                passed_us += answer.retry_us;
            }
            assert_int_equal(passed_us, rows[i].passed_us);
        }
}

/* calendars */

/* The store's time. */
static uint64_t store_now_us(void)
{
    struct contract_plan plan = { .spends = { contract_gcra("now", 1, SECOND, 0) },
                                  .check = { .wants_time = true, .count = 1 } };
    submit_answered(store, &plan);
    assert_true(plan.check.now_us > 0);
    return plan.check.now_us;
}

/* The next time, in UTC, at which a day, a month or a year begins. */
static uint64_t next_start_us(enum weir_calendar_unit unit, uint64_t now_us)
{
    time_t now = (time_t)(now_us / SECOND);
    struct tm date;
    gmtime_r(&now, &date);
    date.tm_hour = date.tm_min = date.tm_sec = 0;
    if (unit == WEIR_CALENDAR_DAY)
        date.tm_mday++;
    else if (unit == WEIR_CALENDAR_WEEK)
        date.tm_mday += 7 - (date.tm_wday + 6) % 7;
    else {
        date.tm_mday = 1;
        date.tm_mon = unit == WEIR_CALENDAR_MONTH ? date.tm_mon + 1 : 12;
    }
    return (uint64_t)timegm(&date) * SECOND;
}

static struct weir_spend calendar_window(const char *name, const struct weir_calendar *calendar)
{
    struct weir_spend spend = contract_window(name, 5, ENDLESS);
    spend.calendar = calendar;
    return spend;
}

static struct weir_calendar *new_calendar(const char *zone, enum weir_calendar_unit unit,
                                          unsigned anchor_day)
{
    struct weir_calendar *calendar = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    weir_calendar_new(WEIR_CALENDAR_OPTIONS(.zone = zone, .unit = unit, .anchor_day = anchor_day),
                      &calendar, &error);
    assert_string_equal(error.text, "");
    return calendar;
}

static void opens_windows_on_the_calendar(void **state)
{
    (void)state;
    for (enum weir_calendar_unit unit = WEIR_CALENDAR_DAY; unit <= WEIR_CALENDAR_YEAR; unit++) {
        struct weir_calendar *calendar = new_calendar(NULL, unit, 0);
        struct weir_spend spend = calendar_window("calendar", calendar);
        assert_int_equal(look(&spend).reset_us, 0);
        uint64_t now_us = store_now_us(), left_us = next_start_us(unit, now_us) - now_us;
        assert_left(ask(&spend, 4).reset_us, left_us, MINUTE);
        struct weir_answer answer = ask(&spend, 2);
        assert_false(answer.allowed);
        assert_int_equal(answer.remaining, 1);
        assert_left(answer.retry_us, left_us, MINUTE);
        weir_calendar_free(calendar);
    }
}

static void counts_anew_where_the_calendar_says(void **state)
{
    (void)state;
    need_time_of_ours();
    static const struct {
        const char *zone;
        enum weir_calendar_unit unit;
        unsigned anchor_day;
    } rows[] = {
        { "UTC", WEIR_CALENDAR_WEEK, 0 },
        { "Europe/Berlin", WEIR_CALENDAR_DAY, 0 },
        { "America/New_York", WEIR_CALENDAR_MONTH, 31 },
        { "Asia/Kathmandu", WEIR_CALENDAR_YEAR, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_calendar *calendar =
            new_calendar(rows[i].zone, rows[i].unit, rows[i].anchor_day);
        struct weir_spend spend = calendar_window("edges", calendar);
        struct weir_spend grouped = in_group(&spend, spend.key);
        for (int n = 0; n < 15; n++) {
            uint64_t now_us = store_now_us();
            uint64_t left_us = weir_calendar_window(calendar, now_us).end_us - now_us;
            assert_int_equal(ask(&spend, 5).reset_us, left_us);
            assert_true(ask(&grouped, 5).allowed);
            pass_us(left_us - 1);
            assert_int_equal(ask(&spend, 1).retry_us, 1);
            assert_false(ask(&grouped, 1).allowed);
            pass_us(1);
            assert_int_equal(look(&spend).remaining, 5);
        }
        weir_calendar_free(calendar);
    }
}

/* clocks that step back */

static void counts_a_step_back_as_no_time(void **state)
{
    (void)state;
    if (factory->step_back_us == NULL)
        skip();
    struct kind kinds[KINDS];
    for (uint64_t back_us = SECOND; back_us <= 400 * DAY; back_us *= 60) {
        new_kinds(kinds, "back", 5, 10 * SECOND);
        for (size_t i = 0; i < KINDS; i++)
            ask(&kinds[i].spend, 5);
        factory->step_back_us(factory->self, back_us);

        /* Nothing was given away, and nobody waits longer than a full limit takes. */
        for (size_t i = 0; i < KINDS; i++) {
            const struct weir_spend *spend = &kinds[i].spend;
            struct weir_answer answer = ask(spend, 1);
            if (answer.allowed || answer.retry_us > 2 * spend->rate.window_us)
                fail_msg("%s, %llu us back: allowed %d, retry %llu us", kinds[i].name,
                         (unsigned long long)back_us, answer.allowed,
                         (unsigned long long)answer.retry_us);
        }
        /* The wait is not asked for twice. */
        pass_us(20 * SECOND);
        for (size_t i = 0; i < KINDS; i++)
            if (kinds[i].spend.calendar == NULL)
                assert_true(ask(&kinds[i].spend, 1).allowed);
    }
}

static void decides_once_with_one_time(void **state)
{
    (void)state;
    if (factory->takes_parts && !time_is_ours())
        skip();
    struct contract_plan plan = {
        .spends = { contract_window("one-time", 3, MINUTE), contract_gcra("one-time", 3, MINUTE, 0),
                    new_spend("one-time", WEIR_SLIDING_COUNTER, 3, MINUTE, 0) },
        .check = { .wants_time = true, .count = 3 },
    };
    submit_answered(store, &plan);
    /* D4: the end of the window, by the time of the decision, is where windows end. */
    assert_int_equal((plan.check.now_us + plan.answers[0].reset_us) % MINUTE, 0);
    assert_int_equal((plan.check.now_us + plan.answers[2].reset_us) % MINUTE, 0);
    assert_int_equal(plan.answers[1].reset_us, 20 * SECOND);
}

static const struct CMUnitTest tests[] = {
    CASE(tells_a_true_wait),
    CASE(tells_a_true_wait_at_any_time),
    CASE(has_it_all_again_after_the_reset),
    CASE(tells_a_true_wait_after_the_limit_was_lowered),
    CASE(forgets_a_refusal),
    CASE(lets_keys_expire_and_come_back_fresh),
    CASE(expires_every_key_in_about_its_window),
    CASE(lets_the_key_of_a_long_burst_live_as_long),
    CASE(keeps_what_is_still_weighed),
    CASE(weighs_exactly_what_no_double_can),
    CASE(earns_no_unit_before_its_time),
    CASE(fills_bit_by_bit),
    CASE(lets_a_double_burst_through_the_edge_of_a_fixed_window_only),
    CASE(opens_a_window_with_the_first_request),
    CASE(never_drifts),
    CASE(never_drifts_at_a_high_rate),
    CASE(opens_windows_on_the_calendar),
    CASE(counts_anew_where_the_calendar_says),
    CASE(counts_a_step_back_as_no_time),
    CASE(decides_once_with_one_time),
};

const struct contract_group contract_time = GROUP("time", tests);
