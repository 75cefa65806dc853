/* Whether limits hold, and for how many clients. */
#include "parse.h"

#define POLICY(rest)                                                                               \
    "{\"policies\": {\"p\": {" rest                                                                \
    " \"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"5/minute\"}]}}}"

static void reads_for_how_many_clients_a_policy_holds(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint32_t ppm;
    } rows[] = {
        { POLICY(""), 1000000 },
        { POLICY("\"enforce_percent\": 0,"), 0 },
        { POLICY("\"enforce_percent\": 10,"), 100000 },
        { POLICY("\"enforce_percent\": 0.25,"), 2500 },
        { POLICY("\"enforce_percent\": 0.01,"), 100 },
        { POLICY("\"enforce_percent\": 99.99,"), 999900 },
        { POLICY("\"enforce_percent\": 33.3, \"mode\": \"enforce\","), 333000 },
        { POLICY("\"enforce_percent\": 100,"), 1000000 },
        { POLICY("\"enforce_percent\": 1e1,"), 100000 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_policy *policy = parse(rows[i].json);
        assert_int_equal(policy->rulesets[0].enforce_ppm, rows[i].ppm);
        assert_int_equal(policy->rulesets[0].mode, WEIR_ENFORCE);
        assert_int_equal(policy->guesses.enforce_ppm, 1000000);
        assert_int_equal(weir_policy_warning_count(policy), 0);
        weir_policy_free(policy);
    }
}

static void refuses_what_is_no_percentage(void **state)
{
    (void)state;
    static const char wanted[] = "wanted is a percentage from 0 to 100, of two decimals at most";
    static const struct {
        const char *json;
        enum weir_code code;
        const char *path;
        const char *text;
    } rows[] = {
        { POLICY("\"enforce_percent\": \"10%\","), WEIR_E_TYPE, "/policies/p/enforce_percent",
          wanted },
        { POLICY("\"enforce_percent\": -1,"), WEIR_E_VALUE, "/policies/p/enforce_percent", wanted },
        { POLICY("\"enforce_percent\": 100.01,"), WEIR_E_VALUE, "/policies/p/enforce_percent",
          wanted },
        { POLICY("\"enforce_percent\": 101,"), WEIR_E_VALUE, "/policies/p/enforce_percent",
          wanted },
        { POLICY("\"enforce_percent\": 0.125,"), WEIR_E_VALUE, "/policies/p/enforce_percent",
          wanted },
        { POLICY("\"enforce_percent\": 0.001,"), WEIR_E_VALUE, "/policies/p/enforce_percent",
          wanted },
        { "{\"enforce_percent\": 10}", WEIR_E_UNKNOWN_KEY, "/enforce_percent",
          "wanted is \"enforce_percent\" in one of \"policies\"" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        const struct weir_error error = refusal(rows[i].json);
        assert_error(&error, rows[i].code, rows[i].path, rows[i].text);
    }
}

/* An operator who turns a policy off in a hurry must not be held up by it. */
static void warns_of_a_percentage_that_is_not_enforced(void **state)
{
    (void)state;
    static const char *const rows[] = {
        POLICY("\"enforce_percent\": 10, \"mode\": \"shadow\","),
        POLICY("\"mode\": \"off\", \"enforce_percent\": 10,"),
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_policy *policy = parse(rows[i]);
        assert_int_equal(weir_policy_warning_count(policy), 1);
        assert_error(weir_policy_warning(policy, 0), WEIR_W_PERCENT_UNUSED,
                     "/policies/p/enforce_percent", "The policy's mode is not \"enforce\"");
        assert_int_equal(weir_policy_warning(policy, 0)->line, 1);
        weir_policy_free(policy);
    }
    /* The whole file may be only watching for a while. */
    struct weir_policy *policy =
        parse("{\"mode\": \"shadow\", \"policies\": {\"p\": {\"enforce_percent\": 10,"
              " \"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"5/minute\"}]}}}");
    assert_int_equal(weir_policy_warning_count(policy), 0);
    weir_policy_free(policy);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_for_how_many_clients_a_policy_holds),
        cmocka_unit_test(refuses_what_is_no_percentage),
        cmocka_unit_test(warns_of_a_percentage_that_is_not_enforced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
