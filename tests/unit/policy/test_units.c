#include "test.h"

#include "policy/units.h"

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

static void reads_rates(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t limit;
        uint64_t window_us;
        unsigned months;
        const char *printed;
    } rows[] = {
        { "100/minute", 100, MINUTE, 0, "100/minute" },
        { "10/15minutes", 10, 15 * MINUTE, 0, "10/15minutes" },
        { "5/250ms", 5, 250000, 0, "5/250ms" },
        { "1/ms", 1, 1000, 0, "1/ms" },
        { "1/second", 1, SECOND, 0, "1/second" },
        { "1/1seconds", 1, SECOND, 0, "1/second" },
        { "1/1000ms", 1, SECOND, 0, "1/second" },
        { "7/90seconds", 7, 90 * SECOND, 0, "7/90seconds" },
        { "1/60minutes", 1, HOUR, 0, "1/hour" },
        { "1/hours", 1, HOUR, 0, "1/hour" },
        { "7/day", 7, 24 * HOUR, 0, "7/day" },
        { "7/7days", 7, 7 * 24 * HOUR, 0, "7/week" },
        { "7/2weeks", 7, 14 * 24 * HOUR, 0, "7/2weeks" },
        { "7/31days", 7, 31 * 24 * HOUR, 0, "7/31days" },
        { "7/month", 7, 31 * 24 * HOUR, 1, "7/month" },
        { "7/1months", 7, 31 * 24 * HOUR, 1, "7/month" },
        { "7/2months", 7, 62 * 24 * HOUR, 2, "7/2months" },
        { "7/3month", 7, 92 * 24 * HOUR, 3, "7/3months" },
        { "7/4months", 7, 123 * 24 * HOUR, 4, "7/4months" },
        { "7/6months", 7, 184 * 24 * HOUR, 6, "7/6months" },
        { "7/12months", 7, 366 * 24 * HOUR, 12, "7/12months" },
        { "0/month", 0, 31 * 24 * HOUR, 1, "0/month" },
        { "1000/year", 1000, UINT64_C(31536000) * SECOND, 0, "1000/year" }, /* F1 */
        { "1/366days", 1, 366 * 24 * HOUR, 0, "1/366days" },
        { "0/minute", 0, MINUTE, 0, "0/minute" },
        { "1000000000/second", 1000000000, SECOND, 0, "1000000000/second" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char memory[64];
        struct weir_buffer buffer = weir_buffer_init(memory, sizeof memory);
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_written_rate read, again;
        struct weir_rate rate;
        print_message("    %s\n", rows[i].text);
        assert_int_equal(weir_rate_parse(weir_text_from(rows[i].text), &read, NULL, &error),
                         WEIR_OK);
        assert_int_equal(read.kind, WEIR_WRITTEN_NUMBERS);
        assert_int_equal(read.limit, rows[i].limit);
        assert_int_equal(read.window_us, rows[i].window_us);
        assert_int_equal(read.months, rows[i].months);
        assert_int_equal(weir_rate_make(read.limit, read.window_us, 0, &rate, &error), WEIR_OK);

        weir_rate_print(&read, &buffer);
        assert_string_equal(weir_buffer_string(&buffer), rows[i].printed);
        assert_int_equal(weir_rate_parse(weir_buffer_text(&buffer), &again, NULL, &error), WEIR_OK);
        assert_int_equal(again.limit, rows[i].limit);
        assert_int_equal(again.window_us, rows[i].window_us);
        assert_int_equal(again.months, rows[i].months);
    }
}

static void reads_and_prints_words_for_rates(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int kind;
    } rows[] = { { "plan", WEIR_WRITTEN_PLAN }, { "unlimited", WEIR_WRITTEN_UNLIMITED } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char memory[64];
        struct weir_buffer buffer = weir_buffer_init(memory, sizeof memory);
        struct weir_written_rate read;
        assert_int_equal(weir_rate_parse(weir_text_from(rows[i].text), &read, NULL, NULL), WEIR_OK);
        assert_int_equal(read.kind, rows[i].kind);
        weir_rate_print(&read, &buffer);
        assert_string_equal(weir_buffer_string(&buffer), rows[i].text);
    }
}

static void prints_what_no_text_makes(void **state)
{
    (void)state;
    char memory[64];
    struct weir_buffer buffer = weir_buffer_init(memory, sizeof memory);
    const struct weir_written_rate rate = { WEIR_WRITTEN_NUMBERS, 3, 1500, 0 };
    weir_rate_print(&rate, &buffer);
    assert_string_equal(weir_buffer_string(&buffer), "3/1500us");
}

static void refuses_what_is_no_rate(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum weir_code code;
        const char *why;
    } rows[] = {
        { "", WEIR_E_VALUE, "is no rate" },
        { "100", WEIR_E_VALUE, "wanted is \"100/minute\"" },
        { "Plan", WEIR_E_VALUE, "is no rate" },
        { "100 / minute", WEIR_E_VALUE, "without spaces" },
        { " 1/minute", WEIR_E_VALUE, "without spaces" },
        { "-1/minute", WEIR_E_VALUE, "\"-1\" is no number of requests" },
        { "1.5/minute", WEIR_E_VALUE, "\"1.5\" is no number of requests" },
        { "NaN/minute", WEIR_E_VALUE, "\"NaN\" is no number of requests" },
        { "1e3/minute", WEIR_E_VALUE, "\"1e3\" is no number of requests" },
        { "/minute", WEIR_E_VALUE, "\"\" is no number of requests" },
        { "1000000001/day", WEIR_E_VALUE, "from 0 to 1000000000" },
        { "99999999999999999999/day", WEIR_E_VALUE, "from 0 to 1000000000" },
        { "1/", WEIR_E_VALUE, "is no unit of time" },
        { "1/5", WEIR_E_VALUE, "is no unit of time" },
        { "1/0minutes", WEIR_E_VALUE, "a window of no length" },
        { "1/0ms", WEIR_E_VALUE, "a window of no length" },
        { "1/0.5seconds", WEIR_E_VALUE, "is no unit of time" },
        { "1/-5seconds", WEIR_E_VALUE, "is no unit of time" },
        { "1/367days", WEIR_E_VALUE, "at most 366days" },
        { "1/2years", WEIR_E_VALUE, "at most 366days" },
        { "1/99999999999999999999days", WEIR_E_VALUE, "at most 366days" },
        { "5/fortnight", WEIR_E_VALUE, "wanted is \"2weeks\"" },
        { "5/s", WEIR_E_VALUE, "wanted is \"second\"" },
        { "5/15min", WEIR_E_VALUE, "wanted is \"minute\"" },
        { "5/Minute", WEIR_E_VALUE, "wanted is \"minute\"" },
        { "5/minuets", WEIR_E_VALUE, "wanted is \"minute" },
        { "5/mss", WEIR_E_VALUE, "is no unit of time" },
        { "5/us", WEIR_E_VALUE, "is no unit of time" },
        { "5/minute/2", WEIR_E_VALUE, "is no unit of time" },
        { "5/0months", WEIR_E_VALUE, "\"0months\" does not divide a year" },
        { "5/5months", WEIR_E_VALUE, "wanted is month, 2months, 3months, 4months" },
        { "5/24months", WEIR_E_VALUE, "6months or 12months" },
        { "5/99999999999999999999months", WEIR_E_VALUE, "does not divide a year" },
        { "5/Month", WEIR_E_VALUE, "wanted is \"month\"" },
        { "5/montsh", WEIR_E_VALUE, "wanted is \"month" },
        { "5/quarter", WEIR_E_VALUE, "wanted is \"3months\"" },
        { "5/decade", WEIR_E_VALUE, "week, month or year" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_written_rate read = { .limit = 77 };
        print_message("    \"%s\"\n", rows[i].text);
        assert_int_equal(weir_rate_parse(weir_text_from(rows[i].text), &read, "/p", &error),
                         rows[i].code);
        assert_string_equal(error.path, "/p");
        if (strstr(error.text, rows[i].why) == NULL)
            fail_msg("%s", error.text);
        assert_int_equal(read.limit, 77);
    }
}

static void reads_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_duration;
        uint64_t us;
    } rows[] = {
        { "20ms", true, 20000 },
        { "0s", true, 0 },
        { "2s", true, 2 * SECOND },
        { "5m", true, 5 * MINUTE },
        { "1h", true, HOUR },
        { "1d", true, 24 * HOUR },
        { "366d", true, 366 * 24 * HOUR },
        { "367d", false, 0 },
        { "", false, 0 },
        { "20", false, 0 },
        { "ms", false, 0 },
        { "-1s", false, 0 },
        { "1.5s", false, 0 },
        { "1 s", false, 0 },
        { "1S", false, 0 },
        { "1second", false, 0 },
        { "99999999999999999999s", false, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t us = 77;
        print_message("    \"%s\"\n", rows[i].text);
        assert_int_equal(weir_duration_parse(weir_text_from(rows[i].text), &us),
                         rows[i].is_duration);
        assert_int_equal(us, rows[i].is_duration ? rows[i].us : 77);
    }
}

static void reads_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_size;
        uint64_t bytes;
    } rows[] = {
        { "64KiB", true, 65536 },
        { "64MiB", true, UINT64_C(64) << 20 },
        { "2GiB", true, UINT64_C(2) << 30 },
        { "1TiB", true, UINT64_C(1) << 40 },
        { "8388608TiB", true, UINT64_C(1) << 63 },
        { "8388609TiB", false, 0 },
        { "64MB", false, 0 },
        { "64mib", false, 0 },
        { "64", false, 0 },
        { "", false, 0 },
        { "-1MiB", false, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t bytes = 77;
        print_message("    \"%s\"\n", rows[i].text);
        assert_int_equal(weir_bytes_parse(weir_text_from(rows[i].text), &bytes), rows[i].is_size);
        assert_int_equal(bytes, rows[i].is_size ? rows[i].bytes : 77);
    }
}

/* rates that are made of numbers */

static void makes_rates_without_a_rounding(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t limit, window_us, burst;
        struct weir_rate want; /* limit and window as given */
    } rows[] = {
        { "a whole interval", 100, MINUTE, 0, { .burst = 100, .parts = 1, .interval_us = 600000 } },
        { "a burst of its own", 5, SECOND, 10, { .burst = 10, .parts = 1, .interval_us = 200000 } },
        { "a third of a microsecond",
          3,
          SECOND,
          0,
          { .burst = 3, .parts = 3, .interval_us = 333333, .interval_part = 1 } },
        { "seven a day",
          7,
          24 * HOUR,
          0,
          { .burst = 7, .parts = 7, .interval_us = UINT64_C(12342857142), .interval_part = 6 } },
        { "a million an hour",
          1000000,
          HOUR,
          0,
          { .burst = 1000000, .parts = 1, .interval_us = 3600 } },
        { "many in a microsecond",
          1000000000,
          SECOND,
          0,
          { .burst = 1000000000, .parts = 1000, .interval_us = 0, .interval_part = 1 } },
        { "nothing at all", 0, MINUTE, 0, { .burst = 0, .parts = 1, .interval_us = MINUTE } },
        { "the longest window",
          1,
          WEIR_WINDOW_MAX_US,
          0,
          { .burst = 1, .parts = 1, .interval_us = WEIR_WINDOW_MAX_US } },
        { "one a microsecond", 1, 1, 0, { .burst = 1, .parts = 1, .interval_us = 1 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_rate rate;
        print_message("    %s\n", rows[i].when);
        assert_int_equal(
            weir_rate_make(rows[i].limit, rows[i].window_us, rows[i].burst, &rate, &error),
            WEIR_OK);
        assert_int_equal(rate.limit, rows[i].limit);
        assert_int_equal(rate.window_us, rows[i].window_us);
        assert_int_equal(rate.burst, rows[i].want.burst);
        assert_int_equal(rate.parts, rows[i].want.parts);
        assert_int_equal(rate.interval_us, rows[i].want.interval_us);
        assert_int_equal(rate.interval_part, rows[i].want.interval_part);
        /* interval * limit = window, exactly */
        uint64_t whole = rate.interval_us * rate.parts + rate.interval_part;
        if (rate.limit > 0)
            assert_int_equal(whole * (rate.limit / rate.parts), rate.window_us);
    }
}

static void refuses_rates_that_cannot_be_kept(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t limit, window_us, burst;
        const char *why;
    } rows[] = {
        { "no window", 1, 0, 0, "the window is 0" },
        { "a long window", 1, WEIR_WINDOW_MAX_US + 1, 0, "longer than 366 days" },
        { "a large limit", WEIR_UNITS_MAX + 1, 24 * HOUR, 0, "the limit is above" },
        { "two billion a second (C4)", UINT64_C(2000000000), SECOND, 0, "the limit is above" },
        { "the largest limit of all", UINT64_MAX, SECOND, 0, "the limit is above" },
        { "a large burst", 1, SECOND, WEIR_UNITS_MAX + 1, "the burst is above" },
        { "a burst of nothing", 0, SECOND, 1, "it has no burst" },
        { "above one a nanosecond", WEIR_UNITS_MAX, SECOND / 2, 0, "each nanosecond" },
        { "a burst that takes a century", 1, 366 * 24 * HOUR, 143, "more than 71 years" },
        { "fractions that are too fine", 999999937, 24 * HOUR, 0, "fractions of a microsecond" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_rate rate = { .limit = 77 };
        print_message("    %s\n", rows[i].when);
        assert_int_equal(
            weir_rate_make(rows[i].limit, rows[i].window_us, rows[i].burst, &rate, &error),
            WEIR_E_VALUE);
        if (strstr(error.text, rows[i].why) == NULL)
            fail_msg("%s", error.text);
        assert_int_equal(rate.limit, 77);
    }
}

/* What the arithmetic further down relies on: gcra.c and the scripts say why. */
static void keeps_bursts_within_exact_arithmetic(void **state)
{
    (void)state;
    static const uint64_t limits[] = { 1, 7, 97, 1000, 99991, 999983, 10000019, 999999937 };
    static const uint64_t windows[] = { 1,      1000, 250000,    SECOND,
                                        MINUTE, HOUR, 24 * HOUR, WEIR_WINDOW_MAX_US };
    static const uint64_t bursts[] = { 0, 1, 1000, 1000000, WEIR_UNITS_MAX };
    unsigned made = 0;
    for (size_t i = 0; i < COUNT_OF(limits) * COUNT_OF(windows) * COUNT_OF(bursts); i++) {
        struct weir_rate rate;
        if (weir_rate_make(limits[i % COUNT_OF(limits)],
                           windows[i / COUNT_OF(limits) % COUNT_OF(windows)],
                           bursts[i / COUNT_OF(limits) / COUNT_OF(windows)], &rate, NULL)
            != WEIR_OK)
            continue;
        made++;
        double parts = (double)rate.interval_us * (double)rate.parts + (double)rate.interval_part;
        assert_true(rate.interval_part < rate.parts);
        assert_true(rate.parts <= WEIR_UNITS_MAX);
        assert_true(parts * (double)rate.burst <= 4611686018427387904.0);
        assert_true(parts / (double)rate.parts * (double)rate.burst <= 4503599627370496.0);
    }
    assert_true(made > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_rates),
        cmocka_unit_test(reads_and_prints_words_for_rates),
        cmocka_unit_test(prints_what_no_text_makes),
        cmocka_unit_test(refuses_what_is_no_rate),
        cmocka_unit_test(reads_durations),
        cmocka_unit_test(reads_sizes),
        cmocka_unit_test(makes_rates_without_a_rounding),
        cmocka_unit_test(refuses_rates_that_cannot_be_kept),
        cmocka_unit_test(keeps_bursts_within_exact_arithmetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
