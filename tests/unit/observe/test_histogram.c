#include "test.h"

#include "observe/histogram.h"

static void puts_a_time_into_the_bucket_that_it_fits(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t took_us;
        size_t bucket; /* the first that holds it; WEIR_HISTOGRAM_BOUNDS: none */
    } rows[] = {
        { "no time", 0, 0 },
        { "a bound itself", 250, 0 },
        { "just beyond it", 251, 1 },
        { "between bounds", 3000, 4 },
        { "the last bound", 1000000, 11 },
        { "beyond all of them", 1000001, WEIR_HISTOGRAM_BOUNDS },
        { "for ever", UINT64_MAX, WEIR_HISTOGRAM_BOUNDS },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_histogram histogram;
        memset(&histogram, 0, sizeof histogram);
        weir_histogram_note(&histogram, rows[i].took_us);
        struct weir_histogram_sums sums = weir_histogram_read(&histogram);
        for (size_t k = 0; k < WEIR_HISTOGRAM_BOUNDS; k++)
            assert_int_equal(sums.upto[k], k >= rows[i].bucket);
        assert_int_equal(sums.count, 1);
        assert_int_equal(sums.sum_us, rows[i].took_us);
    }
}

static void tells_what_a_part_took_at_most(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t times_us[4];
        double part;
        uint64_t wanted_us;
    } rows[] = {
        { "half of two buckets", { 100, 100, 400, 400 }, 0.5, 250 },
        { "three quarters: halfway into the second", { 100, 100, 400, 400 }, 0.75, 375 },
        { "all", { 100, 100, 400, 400 }, 1.0, 500 },
        { "beyond the last bound", { 100, 5000000, 5000000, 5000000 }, 0.99, 1000000 },
        { "none of it", { 100, 100, 400, 400 }, 0.0, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_histogram histogram;
        memset(&histogram, 0, sizeof histogram);
        for (size_t k = 0; k < 4; k++)
            weir_histogram_note(&histogram, rows[i].times_us[k]);
        struct weir_histogram_sums sums = weir_histogram_read(&histogram);
        assert_int_equal(weir_histogram_quantile_us(&sums, rows[i].part), rows[i].wanted_us);
    }
}

static void knows_no_part_of_nothing(void **state)
{
    (void)state;
    const struct weir_histogram_sums nothing = { .count = 0 };
    assert_int_equal(weir_histogram_quantile_us(&nothing, 0.99), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_a_time_into_the_bucket_that_it_fits),
        cmocka_unit_test(tells_what_a_part_took_at_most),
        cmocka_unit_test(knows_no_part_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
