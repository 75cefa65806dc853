/* Windows on calendars. Linked with --wrap, to see what happens when memory runs out. */
#include "zones.h"

#include <weir/calendar.h>

#define SECOND_US UINT64_C(1000000)
#define DAY_S     INT64_C(86400)
#define HOUR_US   (3600 * SECOND_US)

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *memory);

static bool is_watching;
static size_t allocations; /* since the watch began */
static size_t failing;     /* the number of the one that fails, from 1; 0: none */
static long living;        /* allocated and not freed */

static void *note(void *memory)
{
    living += is_watching && memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return is_watching && ++allocations == failing ? NULL : note(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_watching && ++allocations == failing ? NULL : note(__real_calloc(count, size));
}

void __wrap_free(void *memory)
{
    living -= is_watching && memory != NULL;
    __real_free(memory);
}

static struct weir_calendar *make(const struct weir_calendar_options *options)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_calendar *calendar = NULL;
    assert_ok(weir_calendar_new(options, &calendar, &error), &error);
    assert_non_null(calendar);
    return calendar;
}

/* Of "2024-03-31 01:00:00" in UTC. */
static uint64_t instant_us(const char *text)
{
    struct tm tm = { 0 };
    const char *rest = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);
    assert_true(rest != NULL && *rest == '\0');
    return (uint64_t)timegm(&tm) * SECOND_US;
}

static const char *text_of(uint64_t at_us, char text[32])
{
    time_t at = (time_t)(at_us / SECOND_US);
    struct tm tm;
    assert_non_null(gmtime_r(&at, &tm));
    assert_int_equal(at_us % SECOND_US, 0);
    assert_true(strftime(text, 32, "%Y-%m-%d %H:%M:%S", &tm) > 0);
    return text;
}

/* known windows */

struct row {
    const char *when;
    struct weir_calendar_options options;
    const char *now, *start, *end; /* UTC */
};

static void assert_windows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char start[32], end[32];
        struct weir_calendar_options options = rows[i].options;
        options.size = sizeof options;
        struct weir_calendar *calendar = make(&options);
        struct weir_window window = weir_calendar_window(calendar, instant_us(rows[i].now));
        print_message("    %s\n", rows[i].when);
        assert_string_equal(text_of(window.start_us, start), rows[i].start);
        assert_string_equal(text_of(window.end_us, end), rows[i].end);
        weir_calendar_free(calendar);
    }
}

#define DAY       .unit = WEIR_CALENDAR_DAY
#define WEEK      .unit = WEIR_CALENDAR_WEEK
#define MONTH     .unit = WEIR_CALENDAR_MONTH
#define YEAR      .unit = WEIR_CALENDAR_YEAR
#define ANCHOR(d) .unit = WEIR_CALENDAR_MONTH, .anchor_day = (d)
#define MONTHS(n) .unit = WEIR_CALENDAR_MONTH, .months = (n)

static void starts_windows_where_the_calendar_does(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "nothing asked for is days in UTC",
          { 0 },
          "2024-02-29 12:00:00",
          "2024-02-29 00:00:00",
          "2024-03-01 00:00:00" },
        { "the first instant of a day",
          { 0 },
          "2024-03-01 00:00:00",
          "2024-03-01 00:00:00",
          "2024-03-02 00:00:00" },
        { "the last second of a day",
          { 0 },
          "2024-03-01 23:59:59",
          "2024-03-01 00:00:00",
          "2024-03-02 00:00:00" },
        { "a Monday",
          { WEEK },
          "2024-01-01 00:00:00",
          "2024-01-01 00:00:00",
          "2024-01-08 00:00:00" },
        { "a Sunday",
          { WEEK },
          "2023-12-31 23:59:59",
          "2023-12-25 00:00:00",
          "2024-01-01 00:00:00" },
        { "the first day of all is a Thursday",
          { WEEK },
          "1970-01-04 23:59:59",
          "1970-01-01 00:00:00",
          "1970-01-05 00:00:00" },
        { "a month",
          { MONTH },
          "2023-02-28 23:59:59",
          "2023-02-01 00:00:00",
          "2023-03-01 00:00:00" },
        { "December",
          { MONTH },
          "2023-12-31 00:00:00",
          "2023-12-01 00:00:00",
          "2024-01-01 00:00:00" },
        { "a year", { YEAR }, "2100-12-31 23:59:59", "2100-01-01 00:00:00", "2101-01-01 00:00:00" },
        { "two months",
          { MONTHS(2) },
          "2024-04-01 00:00:00",
          "2024-03-01 00:00:00",
          "2024-05-01 00:00:00" },
        { "a quarter",
          { MONTHS(3) },
          "2024-12-31 00:00:00",
          "2024-10-01 00:00:00",
          "2025-01-01 00:00:00" },
        { "four months",
          { MONTHS(4) },
          "2024-08-31 00:00:00",
          "2024-05-01 00:00:00",
          "2024-09-01 00:00:00" },
        { "half a year",
          { MONTHS(6) },
          "2024-07-01 00:00:00",
          "2024-07-01 00:00:00",
          "2025-01-01 00:00:00" },
        { "twelve months",
          { MONTHS(12) },
          "2024-07-01 00:00:00",
          "2024-01-01 00:00:00",
          "2025-01-01 00:00:00" },
    };
    assert_windows(rows, COUNT_OF(rows));
}

static void bends_the_anchor_day_to_the_month(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "15, before it",
          { ANCHOR(15) },
          "2024-03-14 23:59:59",
          "2024-02-15 00:00:00",
          "2024-03-15 00:00:00" },
        { "15, on it",
          { ANCHOR(15) },
          "2024-03-15 00:00:00",
          "2024-03-15 00:00:00",
          "2024-04-15 00:00:00" },
        { "15, over new year",
          { ANCHOR(15) },
          "2024-01-14 00:00:00",
          "2023-12-15 00:00:00",
          "2024-01-15 00:00:00" },
        { "29, a leap year",
          { ANCHOR(29) },
          "2024-02-29 00:00:00",
          "2024-02-29 00:00:00",
          "2024-03-29 00:00:00" },
        { "29, another year",
          { ANCHOR(29) },
          "2023-02-28 00:00:00",
          "2023-02-28 00:00:00",
          "2023-03-29 00:00:00" },
        { "30, before a short February",
          { ANCHOR(30) },
          "2023-02-27 23:59:59",
          "2023-01-30 00:00:00",
          "2023-02-28 00:00:00" },
        { "30, a leap year",
          { ANCHOR(30) },
          "2024-03-29 00:00:00",
          "2024-02-29 00:00:00",
          "2024-03-30 00:00:00" },
        { "31, before a long February ends",
          { ANCHOR(31) },
          "2024-02-28 23:59:59",
          "2024-01-31 00:00:00",
          "2024-02-29 00:00:00" },
        { "31, from a long February",
          { ANCHOR(31) },
          "2024-02-29 00:00:00",
          "2024-02-29 00:00:00",
          "2024-03-31 00:00:00" },
        { "31, from a short February",
          { ANCHOR(31) },
          "2023-03-30 23:59:59",
          "2023-02-28 00:00:00",
          "2023-03-31 00:00:00" },
        { "31, a February of 2100",
          { ANCHOR(31) },
          "2100-02-28 00:00:00",
          "2100-02-28 00:00:00",
          "2100-03-31 00:00:00" },
        { "31, a month of 30",
          { ANCHOR(31) },
          "2024-04-30 00:00:00",
          "2024-04-30 00:00:00",
          "2024-05-31 00:00:00" },
        { "31, the last of December",
          { ANCHOR(31) },
          "2024-12-31 00:00:00",
          "2024-12-31 00:00:00",
          "2025-01-31 00:00:00" },
        { "1 is the default",
          { ANCHOR(1) },
          "2024-12-31 00:00:00",
          "2024-12-01 00:00:00",
          "2025-01-01 00:00:00" },
        { "31, a quarter's first day",
          { MONTHS(3), .anchor_day = 31 },
          "2024-04-29 23:59:59",
          "2024-01-31 00:00:00",
          "2024-04-30 00:00:00" },
        { "31, the quarter that April starts",
          { MONTHS(3), .anchor_day = 31 },
          "2024-07-30 00:00:00",
          "2024-04-30 00:00:00",
          "2024-07-31 00:00:00" },
        { "10, twelve months",
          { MONTHS(12), .anchor_day = 10 },
          "2024-01-09 00:00:00",
          "2023-01-10 00:00:00",
          "2024-01-10 00:00:00" },
    };
    assert_windows(rows, COUNT_OF(rows));
}

static void follows_the_clocks_of_the_zone(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "a day of 23 hours",
          { .zone = "Europe/Berlin" },
          "2024-03-31 12:00:00",
          "2024-03-30 23:00:00",
          "2024-03-31 22:00:00" },
        { "a day of 25 hours",
          { .zone = "Europe/Berlin" },
          "2024-10-27 12:00:00",
          "2024-10-26 22:00:00",
          "2024-10-27 23:00:00" },
        { "a month with summer in it",
          { .zone = "Europe/Berlin", MONTH },
          "2024-03-31 12:00:00",
          "2024-02-29 23:00:00",
          "2024-03-31 22:00:00" },
        { "a week by a rule, far ahead",
          { .zone = "Europe/Berlin", WEEK },
          "2150-07-01 12:00:00",
          "2150-06-28 22:00:00",
          "2150-07-05 22:00:00" },
        { "a quarter of an hour",
          { .zone = "Asia/Kathmandu" },
          "2024-01-01 00:00:00",
          "2023-12-31 18:15:00",
          "2024-01-01 18:15:00" },
        { "half an hour of summer",
          { .zone = "Australia/Lord_Howe" },
          "2024-10-05 20:00:00",
          "2024-10-05 13:30:00",
          "2024-10-06 13:00:00" },
        /* Clocks went from 00:00 to 01:00. */
        { "no midnight",
          { .zone = "America/Sao_Paulo" },
          "2018-11-04 12:00:00",
          "2018-11-04 03:00:00",
          "2018-11-05 02:00:00" },
        { "before no midnight",
          { .zone = "America/Sao_Paulo" },
          "2018-11-04 02:59:59",
          "2018-11-03 03:00:00",
          "2018-11-04 03:00:00" },
        { "no midnight, by a rule",
          { .zone = "Asia/Beirut" },
          "2030-03-31 12:00:00",
          "2030-03-30 22:00:00",
          "2030-03-31 21:00:00" },
        /* And from 00:00 to 00:15. */
        { "a year without its first minutes",
          { .zone = "Asia/Kathmandu", YEAR },
          "1986-06-01 00:00:00",
          "1985-12-31 18:30:00",
          "1986-12-31 18:15:00" },
        /* Clocks went from 24:00 back to 23:00. */
        { "an hour twice before midnight",
          { .zone = "America/Sao_Paulo" },
          "2018-02-18 02:30:00",
          "2018-02-17 02:00:00",
          "2018-02-18 03:00:00" },
        /* From 01:00 back to 00:00. */
        { "midnight twice",
          { .zone = "America/Havana" },
          "2024-11-03 05:30:00",
          "2024-11-03 04:00:00",
          "2024-11-04 05:00:00" },
        /* From 00:01 back to 23:01 of the day before. */
        { "a day begun, left and begun again",
          { .zone = "America/St_Johns" },
          "2006-10-29 02:40:00",
          "2006-10-29 02:30:00",
          "2006-10-30 03:30:00" },
        { "the day that comes back",
          { .zone = "America/St_Johns" },
          "2006-10-29 02:29:59",
          "2006-10-28 02:30:00",
          "2006-10-29 02:30:00" },
        /* It crossed the date line, and has no 30th of December 2011. */
        { "before a day left out",
          { .zone = "Pacific/Apia" },
          "2011-12-30 09:59:59",
          "2011-12-29 10:00:00",
          "2011-12-30 10:00:00" },
        { "after a day left out",
          { .zone = "Pacific/Apia" },
          "2011-12-30 10:00:00",
          "2011-12-30 10:00:00",
          "2011-12-31 10:00:00" },
        { "an anchor day left out",
          { .zone = "Pacific/Apia", ANCHOR(30) },
          "2011-12-30 10:00:00",
          "2011-12-30 10:00:00",
          "2012-01-29 10:00:00" },
        { "another day left out",
          { .zone = "Pacific/Kwajalein" },
          "1993-08-21 12:00:00",
          "1993-08-21 12:00:00",
          "1993-08-22 12:00:00" },
        { "a year of more than 366 days",
          { .zone = "Asia/Almaty", YEAR },
          "2024-07-01 00:00:00",
          "2023-12-31 18:00:00",
          "2024-12-31 19:00:00" },
        { "the first window, west of Greenwich",
          { .zone = "America/New_York", YEAR },
          "1970-01-01 00:00:00",
          "1970-01-01 00:00:00",
          "1970-01-01 05:00:00" },
        { "the first window, east of it",
          { .zone = "Europe/Berlin", YEAR },
          "1970-01-01 00:00:00",
          "1970-01-01 00:00:00",
          "1970-12-31 23:00:00" },
    };
    assert_windows(rows, COUNT_OF(rows));
}

/* all windows */

static const struct weir_calendar_options shapes[] = {
    { DAY },
    { WEEK },
    { MONTH },
    { YEAR },
    { ANCHOR(31) },
    { ANCHOR(30) },
    { ANCHOR(15) },
    { MONTHS(2) },
    { MONTHS(3), .anchor_day = 29 },
    { MONTHS(6), .anchor_day = 31 },
    { MONTHS(12), .anchor_day = 4 },
};

static struct weir_calendar *make_shape(size_t shape, const char *zone)
{
    struct weir_calendar_options options = shapes[shape];
    options.size = sizeof options;
    options.zone = zone;
    return make(&options);
}

static struct weir_window window_at(const struct weir_calendar *calendar, uint64_t now_us)
{
    struct weir_window window = weir_calendar_window(calendar, now_us);
    if (window.start_us > now_us || window.end_us <= now_us)
        fail_msg("%llu is not in the window from %llu to %llu", (unsigned long long)now_us,
                 (unsigned long long)window.start_us, (unsigned long long)window.end_us);
    return window;
}

static void assert_same(struct weir_window one, struct weir_window other)
{
    assert_int_equal(one.start_us, other.start_us);
    assert_int_equal(one.end_us, other.end_us);
}

/* Every window up to the year 2200; returns the longest. */
static uint64_t walk(const struct weir_calendar *calendar)
{
    uint64_t longest_us = 0;
    struct weir_window window = window_at(calendar, 0);
    assert_int_equal(window.start_us, 0);
    while (window.end_us < (uint64_t)YEAR_2200_S * SECOND_US) {
        uint64_t length_us = window.end_us - window.start_us;
        longest_us = length_us > longest_us ? length_us : longest_us;
        assert_same(window_at(calendar, window.end_us - 1), window);
        struct weir_window next = window_at(calendar, window.end_us);
        assert_int_equal(next.start_us, window.end_us);
        window = next;
    }
    return longest_us;
}

static void leaves_no_gap_and_no_overlap(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(odd_zones); i++) {
        print_message("    %s\n", odd_zones[i]);
        for (size_t shape = 0; shape < COUNT_OF(shapes); shape++) {
            struct weir_calendar *calendar = make_shape(shape, odd_zones[i]);
            uint64_t longest_us = walk(calendar);
            assert_true(longest_us <= 366 * 24 * HOUR_US + HOUR_US);
            weir_calendar_free(calendar);
        }
    }
}

/* the C library's word */

/* Days since the epoch. */
static int64_t day_of(int year, int month, int day)
{
    struct tm tm = { .tm_year = year - 1900, .tm_mon = month, .tm_mday = day };
    return timegm(&tm) / DAY_S;
}

static int64_t local_day(int64_t at_s)
{
    struct tm local = local_time(at_s);
    return day_of(local.tm_year + 1900, local.tm_mon, local.tm_mday);
}

/* The anchor in a month, which may lie in the years around; the 0th of the next is its last. */
static int64_t anchor_in(int year, int month, unsigned anchor_day)
{
    int64_t anchor = day_of(year, month, (int)anchor_day);
    int64_t last = day_of(year, month + 1, 0);
    return anchor < last ? anchor : last;
}

/* Of the window that a local time is in, the first day, or that of the next one. */
static int64_t first_day_of_months(const struct weir_calendar_options *options,
                                   const struct tm *local, int windows_ahead)
{
    bool is_year = options->unit == WEIR_CALENDAR_YEAR;
    int months = is_year ? 12 : options->months == 0 ? 1 : (int)options->months;
    unsigned anchor_day = options->anchor_day == 0 ? 1 : options->anchor_day;
    int year = local->tm_year + 1900, month = local->tm_mon - local->tm_mon % months;
    int64_t today = day_of(year, local->tm_mon, local->tm_mday);
    if (today < anchor_in(year, month, anchor_day))
        month -= months;
    return anchor_in(year, month + windows_ahead * months, anchor_day);
}

static int64_t first_day(const struct weir_calendar_options *options, int64_t at_s,
                         int windows_ahead)
{
    struct tm local = local_time(at_s);
    int64_t today = day_of(local.tm_year + 1900, local.tm_mon, local.tm_mday);
    if (options->unit == WEIR_CALENDAR_DAY)
        return today + windows_ahead;
    if (options->unit == WEIR_CALENDAR_WEEK)
        return today - (local.tm_wday + 6) % 7 + 7 * windows_ahead;
    return first_day_of_months(options, &local, windows_ahead);
}

/* Before it the clocks showed an earlier date, and with it they show that or a later one; the later
 * one only where they skipped it, for otherwise it is midnight or the end of a gap. */
static void assert_starts_day(int64_t start_s, int64_t day)
{
    if (start_s == 0)
        return;
    struct tm before = local_time(start_s - 1), local = local_time(start_s);
    bool is_after_gap = local.tm_gmtoff > before.tm_gmtoff;
    bool is_midnight = local.tm_hour == 0 && local.tm_min == 0 && local.tm_sec == 0;
    if (local_day(start_s - 1) >= day || local_day(start_s) < day || !(is_midnight || is_after_gap)
        || !(local_day(start_s) == day || is_after_gap))
        fail_msg("%lld does not start day %lld", (long long)start_s, (long long)day);
}

static void check_window(const struct weir_calendar *calendar,
                         const struct weir_calendar_options *options, uint64_t now_us)
{
    struct weir_window window = window_at(calendar, now_us);
    assert_int_equal(window.start_us % SECOND_US, 0);
    assert_int_equal(window.end_us % SECOND_US, 0);
    int64_t now_s = (int64_t)(now_us / SECOND_US);
    int64_t start_s = (int64_t)(window.start_us / SECOND_US);
    int64_t end_s = (int64_t)(window.end_us / SECOND_US);
    assert_starts_day(start_s, first_day(options, start_s, 0));
    assert_starts_day(end_s, first_day(options, start_s, 1));
    /* Where a day comes back its window does not. */
    int64_t first_of_now = first_day(options, now_s, 0);
    assert_true(first_of_now == first_day(options, start_s, 0)
                || (first_of_now < first_day(options, start_s, 0) && now_s - start_s < DAY_S));
}

static void starts_each_window_at_its_first_instant(void **state)
{
    (void)state;
    uint64_t random = 11;
    for (size_t i = 0; i < COUNT_OF(odd_zones); i++) {
        print_message("    %s\n", odd_zones[i]);
        let_c_library_use(odd_zones[i]);
        for (size_t shape = 0; shape < COUNT_OF(shapes); shape++) {
            struct weir_calendar *calendar = make_shape(shape, odd_zones[i]);
            for (int n = 0; n < 1000; n++)
                check_window(calendar, &shapes[shape],
                             next_random(&random) % ((uint64_t)YEAR_2200_S * SECOND_US));
            weir_calendar_free(calendar);
        }
    }
}

/* Days around which clocks change are rare among random ones, so all days have their turn. */
static void starts_each_day_at_its_first_instant(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(odd_zones); i++) {
        struct weir_calendar *calendar = make_shape(0, odd_zones[i]);
        print_message("    %s\n", odd_zones[i]);
        let_c_library_use(odd_zones[i]);
        for (int64_t day = 0; day < YEAR_2100_S / DAY_S; day++)
            check_window(calendar, &shapes[0], (uint64_t)(day * DAY_S + 43200) * SECOND_US);
        weir_calendar_free(calendar);
    }
}

/* the ends of time */

static void repeats_every_400_years(void **state)
{
    (void)state;
    const uint64_t cycle_us = UINT64_C(146097) * 86400 * SECOND_US;
    uint64_t random = 13;
    for (size_t shape = 0; shape < COUNT_OF(shapes); shape++) {
        struct weir_calendar *calendar = make_shape(shape, "America/New_York");
        for (int n = 0; n < 2000; n++) {
            uint64_t now_us = ((uint64_t)YEAR_2100_S * SECOND_US) + next_random(&random) % cycle_us;
            uint64_t cycles = 1 + next_random(&random) % 1000;
            struct weir_window window = window_at(calendar, now_us);
            struct weir_window later = window_at(calendar, now_us + cycles * cycle_us);
            assert_int_equal(later.start_us, window.start_us + cycles * cycle_us);
            assert_int_equal(later.end_us, window.end_us + cycles * cycle_us);
        }
        weir_calendar_free(calendar);
    }
}

static void ends_with_what_64_bits_can_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(odd_zones); i++) {
        for (size_t shape = 0; shape < COUNT_OF(shapes); shape++) {
            struct weir_calendar *calendar = make_shape(shape, odd_zones[i]);
            struct weir_window window = weir_calendar_window(calendar, UINT64_MAX);
            assert_true(window.start_us < UINT64_MAX);
            assert_int_equal(window.end_us, UINT64_MAX);
            assert_int_equal(window_at(calendar, window.start_us - 1).end_us, window.start_us);
            weir_calendar_free(calendar);
        }
    }
}

/* making one */

static void refuses_options_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct weir_calendar_options options;
        enum weir_code code;
        const char *why;
    } rows[] = {
        { "no size", { .zone = "UTC" }, WEIR_E_ARGUMENT, "WEIR_CALENDAR_OPTIONS" },
        { "no unit",
          { .size = sizeof(struct weir_calendar_options), .unit = (enum weir_calendar_unit)4 },
          WEIR_E_ARGUMENT,
          "is 4;" },
        { "five months",
          { .size = sizeof(struct weir_calendar_options), MONTHS(5) },
          WEIR_E_VALUE,
          "of 5 months does not divide a year" },
        { "two years",
          { .size = sizeof(struct weir_calendar_options), MONTHS(24) },
          WEIR_E_VALUE,
          "of 24 months" },
        { "the 32nd",
          { .size = sizeof(struct weir_calendar_options), ANCHOR(32) },
          WEIR_E_VALUE,
          "The anchor day is 32; wanted is" },
        { "a year from the 15th",
          { .size = sizeof(struct weir_calendar_options), YEAR, .anchor_day = 15 },
          WEIR_E_VALUE,
          "Only windows of months" },
        { "two months of days",
          { .size = sizeof(struct weir_calendar_options), DAY, .months = 2 },
          WEIR_E_VALUE,
          "Only windows of months" },
        { "no zone",
          { .size = sizeof(struct weir_calendar_options), .zone = "Mars/Olympus" },
          WEIR_E_REFERENCE,
          "\"Mars/Olympus\"" },
        { "an empty name",
          { .size = sizeof(struct weir_calendar_options), .zone = "" },
          WEIR_E_VALUE,
          "\"\" is no name" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_calendar *calendar = NULL;
        print_message("    %s\n", rows[i].when);
        assert_int_equal(weir_calendar_new(&rows[i].options, &calendar, &error), rows[i].code);
        assert_null(calendar);
        if (strstr(error.text, rows[i].why) == NULL)
            fail_msg("%s", error.text);
    }
}

static void takes_no_options_for_days_in_utc(void **state)
{
    (void)state;
    struct weir_calendar *calendar = make(NULL);
    struct weir_window window = window_at(calendar, 25 * HOUR_US);
    assert_int_equal(window.start_us, 24 * HOUR_US);
    assert_int_equal(window.end_us, 48 * HOUR_US);
    assert_null(weir_calendar_free(calendar));
    assert_null(weir_calendar_free(NULL));

    calendar = make(WEIR_CALENDAR_OPTIONS(.unit = WEIR_CALENDAR_WEEK));
    assert_int_equal(window_at(calendar, 0).end_us, 4 * 24 * HOUR_US);
    weir_calendar_free(calendar);
}

static void leaves_the_programs_own_zone_alone(void **state)
{
    (void)state;
    let_c_library_use("America/New_York");
    struct weir_calendar *calendar = make(WEIR_CALENDAR_OPTIONS(.zone = "Europe/Berlin"));
    window_at(calendar, 0);
    weir_calendar_free(calendar);
    assert_string_equal(getenv("TZ"), "America/New_York");
    assert_string_equal(tzname[0], "EST");
    assert_int_equal(timezone, 5 * 3600);
}

/* Makes one while allocation `number` fails; false: there was none of that number. */
static bool fails_at(size_t number, const char *zone)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_calendar *calendar = NULL;
    allocations = 0;
    living = 0;
    failing = number;
    is_watching = true;
    enum weir_code code = weir_calendar_new(WEIR_CALENDAR_OPTIONS(.zone = zone), &calendar, &error);
    bool has_failed = allocations >= failing;
    assert_int_equal(calendar != NULL, code == WEIR_OK);
    weir_calendar_free(calendar);
    is_watching = false;
    assert_int_equal(code, has_failed ? WEIR_E_MEMORY : WEIR_OK);
    assert_int_equal(error.code, code);
    assert_int_equal(living, 0);
    return has_failed;
}

static void says_that_memory_ran_out_wherever_it_does(void **state)
{
    (void)state;
    static const char *const zones[] = { "UTC", "Europe/Berlin" };
    for (size_t i = 0; i < COUNT_OF(zones); i++) {
        size_t number = 1;
        while (fails_at(number, zones[i]))
            number++;
        assert_true(number > 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_windows_where_the_calendar_does),
        cmocka_unit_test(bends_the_anchor_day_to_the_month),
        cmocka_unit_test(follows_the_clocks_of_the_zone),
        cmocka_unit_test(leaves_no_gap_and_no_overlap),
        cmocka_unit_test(starts_each_window_at_its_first_instant),
        cmocka_unit_test(starts_each_day_at_its_first_instant),
        cmocka_unit_test(repeats_every_400_years),
        cmocka_unit_test(ends_with_what_64_bits_can_hold),
        cmocka_unit_test(refuses_options_that_cannot_be),
        cmocka_unit_test(takes_no_options_for_days_in_utc),
        cmocka_unit_test(leaves_the_programs_own_zone_alone),
        cmocka_unit_test(says_that_memory_ran_out_wherever_it_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
