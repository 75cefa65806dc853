/* What a client waits: Retry-After in all its forms, and the pauses that are drawn. */
#include "test.h"

#include <weir/backoff.h>

#define MS      UINT64_C(1000)
#define SECOND  (1000 * MS)
#define DAY     (86400 * SECOND)
#define YEARS71 (UINT64_C(1) << 51)

/* Sun, 06 Nov 1994 08:49:37 GMT, as RFC 9110 has it. */
#define NOV_1994 (UINT64_C(784111777) * SECOND)

/* Retry-After */

static void reads_a_retry_after(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        uint64_t now_us, wait_us;
    } rows[] = {
        { "0", NOV_1994, 0 },
        { "120", NOV_1994, 120 * SECOND },
        { " \t7 ", NOV_1994, 7 * SECOND },
        { "007", NOV_1994, 7 * SECOND },
        { "-5", NOV_1994, 0 },
        { "99999999999", NOV_1994, YEARS71 },
        { "99999999999999999999999999999999", NOV_1994, YEARS71 },
        { "Sun, 06 Nov 1994 08:49:37 GMT", NOV_1994, 0 },
        { "Sun, 06 Nov 1994 08:49:37 GMT", NOV_1994 - 90 * SECOND, 90 * SECOND },
        { "Sun, 06 Nov 1994 08:49:37 GMT", NOV_1994 - 1, 1 },
        { "Sun, 06 Nov 1994 08:49:37 GMT", NOV_1994 + DAY, 0 },
        { " Sun, 06 Nov 1994 08:49:37 GMT\t", NOV_1994 - SECOND, SECOND },
        { "Sunday, 06-Nov-94 08:49:37 GMT", NOV_1994 - 90 * SECOND, 90 * SECOND },
        { "Sun Nov  6 08:49:37 1994", NOV_1994 - 90 * SECOND, 90 * SECOND },
        { "Wed Nov 16 08:49:37 1994", NOV_1994, 10 * DAY },
        /* a name of a day that it was not */
        { "Mon, 06 Nov 1994 08:49:38 GMT", NOV_1994, SECOND },
        { "Thu, 29 Feb 1996 00:00:00 GMT", UINT64_C(825552000) * SECOND - 1, 1 },
        { "Sat, 31 Dec 2016 23:59:60 GMT", UINT64_C(1483228799) * SECOND, SECOND },
        { "Fri, 31 Dec 9999 23:59:59 GMT", NOV_1994, YEARS71 },
        { "Wed, 01 Jan 1969 00:00:00 GMT", NOV_1994, 0 },
        { "Sat, 01 Jan 0000 00:00:00 GMT", NOV_1994, 0 },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t wait_us = 42;
        print_message("    \"%s\"\n", rows[i].value);
        assert_true(weir_retry_after_read(rows[i].value, rows[i].now_us, &wait_us));
        assert_int_equal(wait_us, rows[i].wait_us);
    }
}

/* A year of two digits is at most 50 years ahead (RFC 9110, section 5.6.7). */
static void finds_the_century(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        uint64_t now_s, date_s; /* 0: it is past */
    } rows[] = {
        { "Saturday, 01-Jan-00 00:00:00 GMT", 946684799, 946684800 },           /* 1999, 2000 */
        { "Friday, 31-Dec-99 23:59:59 GMT", 946684800, 0 },                     /* 2000, 1999 */
        { "Wednesday, 06-Nov-44 08:49:37 GMT", 784111777, 2362034977 },         /* in 50 years */
        { "Wednesday, 06-Nov-44 08:49:38 GMT", 784111777, 0 },                  /* and a second */
        { "Friday, 01-Jan-01 00:00:00 GMT", 4070908800, 4133980800 },           /* 2099, 2101 */
        { "Tuesday, 29-Feb-28 00:00:00 GMT", UINT64_C(1800000000), 1835395200 } /* 2027, 2028 */
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t wait_us;
        print_message("    %s\n", rows[i].value);
        assert_true(weir_retry_after_read(rows[i].value, rows[i].now_s * SECOND, &wait_us));
        assert_int_equal(wait_us,
                         rows[i].date_s == 0 ? 0 : (rows[i].date_s - rows[i].now_s) * SECOND);
    }
}

static void ignores_what_is_no_retry_after(void **state)
{
    (void)state;
    static const char *const values[] = {
        "",
        " ",
        "soon",
        "1.5",
        "+5",
        "5s",
        "5, 6",
        "0x10",
        "--5",
        "-",
        "- 5",
        "1e3",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT, 5",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Wed, 29 Feb 1995 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov   6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        "1994-11-06T08:49:37Z",
    };

    uint64_t wait_us = 42;
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        print_message("    \"%s\"\n", values[i]);
        assert_false(weir_retry_after_read(values[i], NOV_1994, &wait_us));
    }
    assert_false(weir_retry_after_read(NULL, NOV_1994, &wait_us));
    assert_int_equal(wait_us, 42);
}

/* pauses */

static uint64_t now_us;

static uint64_t read_clock(void *self)
{
    (void)self;
    return now_us;
}

static const struct weir_clock clock_by_hand = { .now_us = read_clock };

static struct weir_backoff start(const struct weir_backoff_options *options)
{
    struct weir_backoff backoff;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_backoff_start(&backoff, options, &error) != WEIR_OK)
        fail_msg("%s", error.text);
    return backoff;
}

static uint64_t next(struct weir_backoff *backoff, const char *retry_after)
{
    uint64_t pause_us = 0;
    assert_true(weir_backoff_next(backoff, retry_after, &pause_us));
    return pause_us;
}

#define SERIES 2000

/* The bounds of each pause follow from the one before; over many series it fills them evenly. */
static void draws_pauses_between_base_and_thrice_the_last(void **state)
{
    (void)state;
    static const unsigned depth = 6;
    double sum = 0;
    unsigned count = 0, at_cap = 0, low = 0, high = 0;
    for (uint64_t seed = 1; seed <= SERIES; seed++) {
        struct weir_backoff backoff =
            start(WEIR_BACKOFF_OPTIONS(.base_us = 100 * MS, .cap_us = 2 * SECOND,
                                       .attempts = UINT32_MAX, .seed = seed));
        uint64_t previous_us = 100 * MS;
        for (unsigned i = 0; i < depth; i++) {
            uint64_t pause_us = next(&backoff, NULL);
            uint64_t most_us = 3 * previous_us < 2 * SECOND ? 3 * previous_us : 2 * SECOND;
            assert_in_range(pause_us, 100 * MS, most_us);
            at_cap += pause_us == 2 * SECOND;
            double place = (double)(pause_us - 100 * MS) / (double)(3 * previous_us - 100 * MS);
            if (3 * previous_us <= 2 * SECOND) {
                sum += place;
                low += place < 0.1;
                high += place > 0.9;
                count++;
            }
            previous_us = pause_us;
        }
    }
    /* 1/2 and 1/10, within five standard errors of so many draws. */
    assert_true(count > 5000);
    assert_in_range((int)(sum / count * 1000), 480, 520);
    assert_in_range(low * 1000 / count, 80, 120);
    assert_in_range(high * 1000 / count, 80, 120);
    assert_true(at_cap > 0);
}

static void draws_the_same_from_the_same_seed(void **state)
{
    (void)state;
    struct weir_backoff one =
        start(WEIR_BACKOFF_OPTIONS(.seed = 7, .attempts = 100, .cap_us = DAY));
    struct weir_backoff two =
        start(WEIR_BACKOFF_OPTIONS(.seed = 7, .attempts = 100, .cap_us = DAY));
    struct weir_backoff three =
        start(WEIR_BACKOFF_OPTIONS(.seed = 8, .attempts = 100, .cap_us = DAY));
    unsigned different = 0;
    for (int i = 0; i < 5; i++) {
        uint64_t pause_us = next(&one, NULL);
        assert_int_equal(next(&two, NULL), pause_us);
        different += next(&three, NULL) != pause_us;
    }
    assert_int_equal(different, 5);
}

static void draws_different_pauses_without_a_seed(void **state)
{
    (void)state;
    unsigned same = 0;
    uint64_t first_us = 0;
    for (int i = 0; i < 20; i++) {
        struct weir_backoff backoff = start(NULL);
        uint64_t pause_us = next(&backoff, NULL);
        assert_in_range(pause_us, 100 * MS, 300 * MS);
        same += pause_us == first_us;
        first_us = pause_us;
    }
    assert_true(same < 3);
}

/* Never before it was asked to, and not all at once. */
static void waits_for_as_long_as_the_server_asks_and_a_little(void **state)
{
    (void)state;
    static const struct {
        const char *retry_after;
        uint64_t least_us, most_us;
    } rows[] = {
        { "1", SECOND, 4 * SECOND },
        { "30", 30 * SECOND, 50 * SECOND },
        { "3600", 3600 * SECOND, 3620 * SECOND },
        { "Sun, 06 Nov 1994 08:49:40 GMT", 3 * SECOND, 12 * SECOND },
        { "21600", 21600 * SECOND, 21620 * SECOND },
        { "21601", 21600 * SECOND, 21620 * SECOND },
        { "99999999999999999999", 21600 * SECOND, 21620 * SECOND },
        /* what says nothing, or now */
        { "0", 100 * MS, 300 * MS },
        { "-1", 100 * MS, 300 * MS },
        { "Sun, 06 Nov 1994 08:00:00 GMT", 100 * MS, 300 * MS },
        { "soon", 100 * MS, 300 * MS },
        { NULL, 100 * MS, 300 * MS },
    };

    now_us = NOV_1994;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t shortest_us = UINT64_MAX, longest_us = 0;
        print_message("    %s\n", rows[i].retry_after == NULL ? "nothing" : rows[i].retry_after);
        for (uint64_t seed = 1; seed <= SERIES; seed++) {
            struct weir_backoff backoff =
                start(WEIR_BACKOFF_OPTIONS(.seed = seed, .clock = &clock_by_hand));
            uint64_t pause_us = next(&backoff, rows[i].retry_after);
            shortest_us = pause_us < shortest_us ? pause_us : shortest_us;
            longest_us = pause_us > longest_us ? pause_us : longest_us;
        }
        uint64_t width_us = rows[i].most_us - rows[i].least_us;
        assert_in_range(shortest_us, rows[i].least_us, rows[i].least_us + width_us / 100);
        assert_in_range(longest_us, rows[i].most_us - width_us / 100, rows[i].most_us);
    }
}

static void caps_a_retry_after_where_it_is_told_to(void **state)
{
    (void)state;
    struct weir_backoff backoff =
        start(WEIR_BACKOFF_OPTIONS(.seed = 1, .cap_us = SECOND, .retry_after_max_us = 10 * SECOND,
                                   .attempts = 9));
    assert_in_range(next(&backoff, "600"), 10 * SECOND, 11 * SECOND);
    /* Longer after longer pauses, but never above the cap. */
    for (int i = 0; i < 5; i++)
        assert_in_range(next(&backoff, "1"), SECOND, 2 * SECOND);
}

/* giving up */

static void gives_up_after_so_many_attempts(void **state)
{
    (void)state;
    static const struct {
        uint32_t attempts;
        unsigned pauses;
    } rows[] = { { 0, 4 }, { 1, 0 }, { 2, 1 }, { 10, 9 } };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_backoff backoff =
            start(WEIR_BACKOFF_OPTIONS(.seed = 1, .attempts = rows[i].attempts));
        uint64_t pause_us = 42;
        for (unsigned n = 0; n < rows[i].pauses; n++)
            assert_true(weir_backoff_next(&backoff, NULL, &pause_us));
        uint64_t last_us = pause_us;
        for (int n = 0; n < 3; n++)
            assert_false(weir_backoff_next(&backoff, NULL, &pause_us));
        assert_int_equal(pause_us, last_us);
    }
    struct weir_backoff endless = start(WEIR_BACKOFF_OPTIONS(.seed = 1, .attempts = UINT32_MAX));
    for (int n = 0; n < 1000; n++)
        next(&endless, NULL);
}

static void gives_up_where_the_next_attempt_would_be_late(void **state)
{
    (void)state;
    now_us = NOV_1994;
    struct weir_backoff backoff =
        start(WEIR_BACKOFF_OPTIONS(.seed = 1, .attempts = 100, .deadline_us = 10 * SECOND,
                                   .clock = &clock_by_hand));
    uint64_t pause_us = 0;
    now_us += 9 * SECOND;
    assert_true(weir_backoff_next(&backoff, NULL, &pause_us));
    assert_false(weir_backoff_next(&backoff, "2", &pause_us));
    now_us = NOV_1994 + 10 * SECOND;
    assert_false(weir_backoff_next(&backoff, NULL, &pause_us));

    /* The system's clock, too, gives time up to there. */
    backoff = start(WEIR_BACKOFF_OPTIONS(.seed = 1, .deadline_us = 3600 * SECOND));
    assert_true(weir_backoff_next(&backoff, "60", &pause_us));
    assert_false(weir_backoff_next(&backoff, "7200", &pause_us));
}

static void refuses_options_that_cannot_be(void **state)
{
    (void)state;
    struct weir_backoff backoff;
    static const struct {
        const char *what;
        struct weir_backoff_options options;
    } rows[] = {
        { "a base above the cap", { .base_us = 2 * SECOND, .cap_us = SECOND } },
        { "a base above the usual cap", { .base_us = 21 * SECOND } },
        { "a cap below the usual base", { .cap_us = 99 * MS } },
        { "a cap above a year", { .cap_us = 367 * DAY } },
        { "a Retry-After above a year", { .retry_after_max_us = UINT64_MAX } },
        { "a deadline above a year", { .deadline_us = UINT64_MAX } },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_backoff_options options = rows[i].options;
        options.size = sizeof options;
        print_message("    %s\n", rows[i].what);
        assert_int_equal(weir_backoff_start(&backoff, &options, &error), WEIR_E_VALUE);
        assert_string_not_equal(error.text, "");
    }
    assert_int_equal(weir_backoff_start(NULL, NULL, NULL), WEIR_E_ARGUMENT);
    assert_int_equal(
        weir_backoff_start(&backoff, &(struct weir_backoff_options){ .size = 8 }, NULL),
        WEIR_E_ARGUMENT);
}

/* The longest times there may be: nothing overflows. */
static void stays_within_its_numbers(void **state)
{
    (void)state;
    now_us = NOV_1994;
    struct weir_backoff backoff =
        start(WEIR_BACKOFF_OPTIONS(.base_us = 366 * DAY, .cap_us = 366 * DAY,
                                   .retry_after_max_us = 366 * DAY, .deadline_us = 366 * DAY,
                                   .attempts = UINT32_MAX, .seed = 1, .clock = &clock_by_hand));
    uint64_t pause_us;
    assert_true(weir_backoff_next(&backoff, NULL, &pause_us));
    assert_int_equal(pause_us, 366 * DAY);
    assert_false(weir_backoff_next(&backoff, "99999999999999999999", &pause_us));
    backoff = start(WEIR_BACKOFF_OPTIONS(.cap_us = 366 * DAY, .retry_after_max_us = 366 * DAY,
                                         .attempts = UINT32_MAX, .seed = 1));
    for (int n = 0; n < 100; n++)
        assert_in_range(next(&backoff, "99999999999999999999"), 366 * DAY, 732 * DAY);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_retry_after),
        cmocka_unit_test(finds_the_century),
        cmocka_unit_test(ignores_what_is_no_retry_after),
        cmocka_unit_test(draws_pauses_between_base_and_thrice_the_last),
        cmocka_unit_test(draws_the_same_from_the_same_seed),
        cmocka_unit_test(draws_different_pauses_without_a_seed),
        cmocka_unit_test(waits_for_as_long_as_the_server_asks_and_a_little),
        cmocka_unit_test(caps_a_retry_after_where_it_is_told_to),
        cmocka_unit_test(gives_up_after_so_many_attempts),
        cmocka_unit_test(gives_up_where_the_next_attempt_would_be_late),
        cmocka_unit_test(refuses_options_that_cannot_be),
        cmocka_unit_test(stays_within_its_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
