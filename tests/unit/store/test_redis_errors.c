#include "test.h"

#include "store/redis_errors.h"

#define SECOND UINT64_C(1000000)
#define OOM    "OOM command not allowed when used memory > 'maxmemory'."

/* One error each 0.25 s from `start_us` on; true: the last one was one too many, and no other. */
static bool fails_at_the_last(struct weir_redis_errors *errors, const char *why, unsigned count,
                              uint64_t start_us)
{
    for (unsigned n = 0; n + 1 < count; n++)
        if (weir_errors_add(errors, 7, false, why, start_us + n * SECOND / 4))
            return false;
    return weir_errors_add(errors, 7, false, why, start_us + (count - 1) * SECOND / 4);
}

static void waits_for_five_and_for_a_second(void **state)
{
    (void)state;
    struct weir_redis_errors slow = { .count = 0 }, quick = { .count = 0 };
    for (unsigned n = 0; n < 4; n++)
        assert_false(weir_errors_add(&slow, 7, false, OOM, (1 + n) * SECOND));
    assert_true(weir_errors_add(&slow, 7, false, OOM, 5 * SECOND));
    for (unsigned n = 0; n < 1000; n++)
        assert_false(weir_errors_add(&quick, 7, false, OOM, SECOND + n * 999));
    assert_true(weir_errors_add(&quick, 7, false, OOM, 2 * SECOND));
    assert_true(quick.is_failing);
    assert_string_equal(quick.why, OOM);
    assert_false(weir_errors_add(&quick, 7, false, OOM, 9 * SECOND)); /* no news */
}

static void begins_anew_when_a_check_was_counted(void **state)
{
    (void)state;
    struct weir_redis_errors errors = { .count = 0 };
    for (unsigned n = 0; n < 100; n++) {
        assert_false(weir_errors_add(&errors, 7, false, OOM, (1 + n) * SECOND));
        if (n % 4 == 3)
            assert_false(weir_errors_end(&errors, (1 + n) * SECOND));
    }
    assert_true(fails_at_the_last(&errors, OOM, 5, 200 * SECOND));
}

static void takes_one_key_for_no_server(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        bool is_of_server, fails;
    } rows[] = {
        { "ERR the clocks of Redis and its client are too far apart", false, false },
        { "the script and the library disagree", false, false },
        { "attempt to index a nil value", false, false },
        { "", false, false },
        { "this is a node of a cluster: use redis+cluster://", true, true },
        { OOM, false, true },
        { "NOPERM no", false, true },
        { "MISCONF Redis is configured to save", false, true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].why);
        struct weir_redis_errors errors = { .count = 0 };
        bool fails = false;
        for (unsigned n = 1; n < 100; n++)
            fails |= weir_errors_add(&errors, 7, rows[i].is_of_server, rows[i].why, n * SECOND);
        assert_int_equal(fails, rows[i].fails);
        weir_errors_add(&errors, 8, false, rows[i].why, 100 * SECOND);
        assert_true(errors.is_failing);
    }
}

static void says_another_reason_once_a_second(void **state)
{
    (void)state;
    struct weir_redis_errors errors = { .count = 0 };
    assert_true(fails_at_the_last(&errors, "NOPERM on 'get'", 5, 1 * SECOND));
    assert_false(weir_errors_add(&errors, 7, false, "NOPERM on 'set'", 5 * SECOND));
    assert_string_equal(errors.why, "NOPERM on 'get'");
    assert_true(weir_errors_add(&errors, 7, false, OOM, 5 * SECOND));
    assert_string_equal(errors.why, OOM);
    assert_false(weir_errors_add(&errors, 7, false, "NOPERM on 'get'", 6 * SECOND - 1));
    assert_true(weir_errors_add(&errors, 7, false, "NOPERM on 'get'", 6 * SECOND));
}

static void ends_once_and_not_within_a_second(void **state)
{
    (void)state;
    struct weir_redis_errors errors = { .count = 0 };
    assert_false(weir_errors_end(&errors, 1 * SECOND));
    assert_true(fails_at_the_last(&errors, OOM, 5, 1 * SECOND));
    assert_false(weir_errors_end(&errors, 3 * SECOND - 1));
    assert_true(errors.is_failing);
    assert_true(weir_errors_are_met(&errors));
    assert_true(weir_errors_end(&errors, 3 * SECOND));
    assert_false(errors.is_failing);
    assert_false(weir_errors_are_met(&errors));
    assert_string_equal(errors.why, "");
    assert_false(weir_errors_end(&errors, 9 * SECOND));
}

static void cuts_a_long_reason(void **state)
{
    (void)state;
    char why[200];
    snprintf(why, sizeof why, "OOM %0150d", 0);
    struct weir_redis_errors errors = { .count = 0 };
    assert_true(fails_at_the_last(&errors, why, 5, 1 * SECOND));
    assert_int_equal(strlen(errors.why), WEIR_ERRORS_WHY_CHARS - 1);
    assert_false(weir_errors_add(&errors, 7, false, why, 9 * SECOND));
}

static void advises_what_it_knows(void **state)
{
    (void)state;
    assert_string_equal(weir_errors_advice(OOM), ": give it more memory (maxmemory)");
    assert_string_equal(weir_errors_advice("NOPERM no"), ": let its user do that (ACL SETUSER)");
    assert_string_equal(weir_errors_advice("ERR another"), "");
    assert_string_equal(weir_errors_advice(""), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_for_five_and_for_a_second),
        cmocka_unit_test(begins_anew_when_a_check_was_counted),
        cmocka_unit_test(takes_one_key_for_no_server),
        cmocka_unit_test(says_another_reason_once_a_second),
        cmocka_unit_test(ends_once_and_not_within_a_second),
        cmocka_unit_test(cuts_a_long_reason),
        cmocka_unit_test(advises_what_it_knows),
    };
    return cmocka_run_group_tests_name("redis_errors", tests, NULL, NULL);
}
