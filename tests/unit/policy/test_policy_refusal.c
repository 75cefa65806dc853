/* "retry_after" and "refusal": what who is refused is told, and by whom. */
#include "parse.h"

#define POLICY(members)                                                                            \
    "{\"policies\":{\"p\":{\"limits\":[{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"5/"                \
    "minute\"}]" members "}}}"
#define LIMIT(members)                                                                             \
    "{\"policies\":{\"p\":{\"limits\":[{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"5/"                \
    "minute\"" members "}]}}}"

static void reads_what_is_told_of_the_wait(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        int kind;
        uint64_t seconds;
    } rows[] = {
        { POLICY(""), WEIR_RETRY_EXACT, 0 },
        { POLICY(",\"retry_after\":\"exact\""), WEIR_RETRY_EXACT, 0 },
        { POLICY(",\"retry_after\":\"none\""), WEIR_RETRY_NONE, 0 },
        { POLICY(",\"retry_after\":\"60s\""), WEIR_RETRY_FIXED, 60 },
        { POLICY(",\"retry_after\":\"1001ms\""), WEIR_RETRY_FIXED, 2 },
        { POLICY(",\"retry_after\":\"366d\""), WEIR_RETRY_FIXED, 366 * 86400 },
        { POLICY(",\"retry_after\":{\"round\":\"1m\"}"), WEIR_RETRY_ROUNDED, 60 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_policy *policy = parse(rows[i].json);
        assert_int_equal(policy->rulesets[0].retry_after.kind, rows[i].kind);
        if (rows[i].seconds > 0)
            assert_int_equal(policy->rulesets[0].retry_after.seconds, rows[i].seconds);
        weir_policy_free(policy);
    }
}

static void reads_who_is_to_refuse(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool leaves;
    } rows[] = {
        { LIMIT(""), false },
        { LIMIT(",\"refusal\":\"reply\""), false },
        { LIMIT(",\"refusal\":\"handler\""), true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_policy *policy = parse(rows[i].json);
        assert_int_equal(policy->rulesets[0].limits[0].leaves_to_handler, rows[i].leaves);
        weir_policy_free(policy);
    }
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        enum weir_code code;
        const char *path, *text;
    } rows[] = {
        { POLICY(",\"retry_after\":\"soon\""), WEIR_E_VALUE, "/policies/p/retry_after",
          "\"exact\", \"none\"" },
        { POLICY(",\"retry_after\":\"\""), WEIR_E_VALUE, "/policies/p/retry_after", "\"none\"" },
        { POLICY(",\"retry_after\":\"999ms\""), WEIR_E_VALUE, "/policies/p/retry_after",
          "\"60s\"" },
        { POLICY(",\"retry_after\":\"367d\""), WEIR_E_VALUE, "/policies/p/retry_after", "\"60s\"" },
        { POLICY(",\"retry_after\":60"), WEIR_E_TYPE, "/policies/p/retry_after", "\"60s\"" },
        { POLICY(",\"retry_after\":{}"), WEIR_E_MISSING, "/policies/p/retry_after", "round" },
        { POLICY(",\"retry_after\":{\"round\":\"0s\"}"), WEIR_E_VALUE,
          "/policies/p/retry_after/round", "\"1s\" to \"366d\"" },
        { POLICY(",\"retry_after\":{\"round\":5}"), WEIR_E_TYPE, "/policies/p/retry_after/round",
          "\"1s\" to \"366d\"" },
        { LIMIT(",\"refusal\":\"none\""), WEIR_E_VALUE, "/policies/p/limits/0/refusal",
          "\"reply\" or \"handler\"" },
        { LIMIT(",\"refusal\":true"), WEIR_E_TYPE, "/policies/p/limits/0/refusal", "\"handler\"" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_error error = refusal(rows[i].json);
        assert_error(&error, rows[i].code, rows[i].path, rows[i].text);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_is_told_of_the_wait),
        cmocka_unit_test(reads_who_is_to_refuse),
        cmocka_unit_test(refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
