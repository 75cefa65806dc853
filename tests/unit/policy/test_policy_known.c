/* "known" and "when": whom a policy remembers, and whom a limit is for. */
#include "parse.h"

#define FILE_OF(members, limits)                                                                   \
    "{\"secret\":\"s\",\"policies\":{\"p\":{" members "\"limits\":[" limits "]}}}"
#define LIMIT(members) "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"5/minute\"" members "}"
#define UNKNOWN        LIMIT(",\"when\":\"unknown\"")
#define KNOWN(members) "\"known\":{\"account\":\"field:user\"" members "},"

static void reads_what_is_remembered(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *cookie, *path;
        uint64_t cookie_s, address_us;
        bool is_secure;
    } rows[] = {
        { FILE_OF(KNOWN(""), UNKNOWN), "weir_known", "/", 180 * 86400, 0, true },
        { FILE_OF(KNOWN(",\"cookie\":\"seen\",\"for\":\"2h\",\"addresses\":\"30d\","
                        "\"secure\":false,\"path\":\"/login\""),
                  UNKNOWN),
          "seen", "/login", 7200, UINT64_C(30) * 86400 * 1000000, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_policy *policy = parse(rows[i].json);
        const struct weir_known *known = policy->rulesets[0].known;
        assert_string_equal(known->cookie, rows[i].cookie);
        assert_string_equal(known->path, rows[i].path);
        assert_int_equal(known->cookie_s, rows[i].cookie_s);
        assert_int_equal(known->address_us, rows[i].address_us);
        assert_int_equal(known->is_secure, rows[i].is_secure);
        assert_int_equal(known->account.parts[0].alternatives[0].kind, WEIR_BY_FIELD);
        assert_int_equal(policy->rulesets[0].limits[0].when, WEIR_FOR_UNKNOWN);
        /* The account's field is read though no limit counts by it. */
        assert_int_equal(policy->rulesets[0].field_count, 1);
        weir_policy_free(policy);
    }
}

static void sends_the_cookie_where_the_policy_is_asked_for(void **state)
{
    (void)state;
    static const struct {
        const char *routes, *path;
    } rows[] = {
        { "\"routes\":[{\"match\":\"POST /login\",\"policy\":\"p\"}]", "/login" },
        { "\"routes\":[{\"match\":\"GET /x\"},{\"match\":\"POST /a/login\",\"policy\":\"p\"},"
          "{\"match\":\"POST /a/logon\",\"policy\":\"p\"}]",
          "/a" },
        { "\"routes\":[{\"match\":\"POST /a/b\",\"policy\":\"p\"},"
          "{\"match\":\"POST /a\",\"policy\":\"p\"}]",
          "/a" },
        { "\"routes\":[{\"match\":\"POST /a\",\"policy\":\"p\"},"
          "{\"match\":\"POST /b\",\"policy\":\"p\"}]",
          "/" },
        { "\"routes\":[{\"match\":\"POST /a/:id/login\",\"policy\":\"p\"}]", "/a" },
        { "\"routes\":[{\"match\":\"* /a/b/*\",\"policy\":\"p\"}]", "/a/b" },
        { "\"routes\":[{\"match\":\"* *\",\"policy\":\"p\"}]", "/" },
        { "\"routes\":[{\"match\":\"POST /a/b;c\",\"policy\":\"p\"}]", "/a" },
        { "\"routes\":[{\"match\":\"POST /a/b c\",\"policy\":\"p\"}]", "/a" },
        { "\"routes\":[{\"match\":\"POST /login\",\"case\":\"fold\",\"policy\":\"p\"}]", "/" },
        { "\"routes\":[{\"match\":\"POST /login\",\"policy\":\"p\"}],\"default\":\"p\"", "/" },
        { "\"default\":\"p\"", "/" },
        { "\"routes\":[]", "/" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[1000];
        print_message("    %s\n", rows[i].routes);
        snprintf(json, sizeof json, "{\"secret\":\"s\",%s,\"policies\":{\"p\":{%s}}}",
                 rows[i].routes, KNOWN("") "\"limits\":[" UNKNOWN "]");
        struct weir_policy *policy = parse(json);
        assert_string_equal(policy->rulesets[0].known->path, rows[i].path);
        weir_policy_free(policy);
    }
}

static void takes_devices_to_count_by(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse(FILE_OF(KNOWN(""), "{\"name\":\"d\",\"by\":[\"device\",\"field:user\"],\"rate\":"
                                 "\"5/minute\",\"when\":\"known\"}"));
    const struct weir_limit_rule *limit = &policy->rulesets[0].limits[0];
    assert_int_equal(limit->by.parts[0].alternatives[0].kind, WEIR_BY_DEVICE);
    assert_int_equal(limit->when, WEIR_FOR_KNOWN);
    weir_policy_free(policy);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        enum weir_code code;
        const char *path, *text;
    } rows[] = {
        { "{\"policies\":{\"p\":{" KNOWN("") "\"limits\":[" UNKNOWN "]}}}", WEIR_E_MISSING,
          "/policies/p/known", "there is none; add \"secret\"" },
        { FILE_OF("", UNKNOWN), WEIR_E_VALUE, "/policies/p/limits/0",
          "the policy knows none; add \"known\"" },
        { FILE_OF("", "{\"name\":\"d\",\"by\":\"device\",\"rate\":\"5/minute\"}"), WEIR_E_VALUE,
          "/policies/p/limits/0", "the policy knows none" },
        { FILE_OF(KNOWN(""), LIMIT("")), WEIR_E_VALUE, "/policies/p/known",
          "add \"when\": \"unknown\"" },
        { FILE_OF("\"known\":{},", UNKNOWN), WEIR_E_MISSING, "/policies/p/known", "\"account\"" },
        { FILE_OF("\"known\":{\"account\":[\"ip\",\"device|user\"]},", UNKNOWN), WEIR_E_VALUE,
          "/policies/p/known/account", "cannot be one" },
        { FILE_OF(KNOWN(",\"cookie\":\"a b\""), UNKNOWN), WEIR_E_VALUE, "/policies/p/known/cookie",
          "letters, digits" },
        { FILE_OF(KNOWN(",\"for\":\"10ms\""), UNKNOWN), WEIR_E_VALUE, "/policies/p/known/for",
          "a second or more" },
        { FILE_OF(KNOWN(",\"addresses\":true"), UNKNOWN), WEIR_E_TYPE,
          "/policies/p/known/addresses", "such as \"180d\"" },
        { FILE_OF(KNOWN(",\"path\":\"/;\""), UNKNOWN), WEIR_E_VALUE, "/policies/p/known/path",
          "such as \"/\"" },
        { FILE_OF(KNOWN(",\"secure\":1"), UNKNOWN), WEIR_E_TYPE, "/policies/p/known/secure",
          "true or false" },
        { FILE_OF(KNOWN(",\"cokie\":\"a\""), UNKNOWN), WEIR_E_UNKNOWN_KEY,
          "/policies/p/known/cokie", "did you mean \"cookie\"?" },
        { FILE_OF(KNOWN(""), LIMIT(",\"when\":\"stranger\"")), WEIR_E_VALUE,
          "/policies/p/limits/0/when", "\"always\", \"unknown\" or \"known\"" },
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
        cmocka_unit_test(reads_what_is_remembered),
        cmocka_unit_test(sends_the_cookie_where_the_policy_is_asked_for),
        cmocka_unit_test(takes_devices_to_count_by),
        cmocka_unit_test(refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
