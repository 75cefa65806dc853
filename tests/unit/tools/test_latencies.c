#include "test.h"

#include "tools/latencies.h"

static void tells_what_so_many_did_not_exceed(void **state)
{
    (void)state;
    static struct weir_latencies latencies;
    for (uint64_t ns = 1; ns <= 1000; ns++)
        weir_latencies_count(&latencies, ns * 1000);
    static const struct {
        const char *when;
        uint64_t part, whole, least, most;
    } rows[] = {
        { "half of them", 1, 2, 500000, 532000 },
        { "nine in ten", 9, 10, 900000, 957000 },
        { "all but one in a hundred", 99, 100, 990000, 1000000 },
        { "all", 1, 1, 1000000, 1000000 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        uint64_t got = weir_latencies_at(&latencies, rows[i].part, rows[i].whole);
        assert_in_range(got, rows[i].least, rows[i].most);
    }
}

static void is_exact_for_a_number_alone(void **state)
{
    (void)state;
    static const uint64_t rows[] = { 0,         1,   15,   16,      17,
                                     31,        255, 4097, 1000000, UINT64_C(9223372036854775807),
                                     UINT64_MAX };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_latencies alone = { .total = 0 };
        weir_latencies_count(&alone, rows[i]);
        assert_true(weir_latencies_at(&alone, 1, 2) == rows[i]);
    }
}

static void never_tells_less_than_what_was_counted(void **state)
{
    (void)state;
    for (unsigned shift = 0; shift < 64; shift++) {
        struct weir_latencies two = { .total = 0 };
        uint64_t ns = UINT64_C(1) << shift;
        weir_latencies_count(&two, ns);
        weir_latencies_count(&two, UINT64_MAX);
        uint64_t got = weir_latencies_at(&two, 1, 2);
        assert_true(got >= ns && got - ns <= ns / 16);
    }
}

static void adds_what_threads_have_counted(void **state)
{
    (void)state;
    static struct weir_latencies sum, other;
    assert_int_equal(weir_latencies_at(&sum, 1, 2), 0);
    weir_latencies_count(&other, 7);
    weir_latencies_count(&other, 9);
    weir_latencies_add(&sum, &other);
    weir_latencies_add(&sum, &other);
    assert_int_equal(sum.total, 4);
    assert_int_equal(weir_latencies_at(&sum, 1, 2), 7);
    assert_int_equal(weir_latencies_at(&sum, 3, 4), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_what_so_many_did_not_exceed),
        cmocka_unit_test(is_exact_for_a_number_alone),
        cmocka_unit_test(never_tells_less_than_what_was_counted),
        cmocka_unit_test(adds_what_threads_have_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
