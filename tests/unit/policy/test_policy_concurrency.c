/* "concurrency" of a policy: what is read, and how what is wrong is refused. */
#include "parse.h"

#define PLANS        "\"plans\":{\"live\":{},\"batch\":{}},"
#define ONE(members) "{" PLANS "\"policies\":{\"p\":{\"concurrency\":{" members "}}}}"
#define TWO(one, other)                                                                            \
    "{\"policies\":{\"p\":{\"concurrency\":{" one "}},\"q\":{\"concurrency\":{" other "}}}}"
#define PLACE "/policies/p/concurrency"

static const struct weir_concurrency *rule_of(const struct weir_policy *policy, size_t index)
{
    return policy->rulesets[index].concurrency;
}

static void reads_the_bounds_of_an_adaptive_limit(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint32_t floor, initial, ceiling;
    } rows[] = {
        { ONE("\"adaptive\":{}"), 4, 20, 200 },
        { ONE("\"adaptive\":{\"floor\":1,\"initial\":7,\"ceiling\":9}"), 1, 7, 9 },
        { ONE("\"adaptive\":{\"ceiling\":10}"), 4, 10, 10 },
        { ONE("\"adaptive\":{\"ceiling\":2}"), 2, 2, 2 },
        { ONE("\"adaptive\":{\"floor\":50}"), 50, 50, 200 },
        { ONE("\"adaptive\":{\"floor\":500}"), 500, 500, 500 },
        { ONE("\"adaptive\":{\"initial\":2}"), 2, 2, 200 },
        { ONE("\"adaptive\":{\"initial\":300}"), 4, 300, 300 },
        { ONE("\"adaptive\":{\"floor\":1000000}"), 1000000, 1000000, 1000000 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_policy *policy = parse(rows[i].json);
        const struct weir_adaptive *adaptive = rule_of(policy, 0)->adaptive;
        assert_int_equal(adaptive->floor, rows[i].floor);
        assert_int_equal(adaptive->initial, rows[i].initial);
        assert_int_equal(adaptive->ceiling, rows[i].ceiling);
        assert_string_equal(adaptive->name, "p");
        assert_int_equal(policy->adaptive_count, 1);
        assert_int_equal(rule_of(policy, 0)->fixed, 0);
        weir_policy_free(policy);
    }
}

static void reads_parts_and_a_fixed_limit_beside(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse(ONE("\"fixed\":10,\"by\":[\"api_key\",\"ip\"],\"partitions\":{\"comment\":\"x\","
                  "\"live\":0.7,\"batch\":0.3},\"adaptive\":{\"comment\":1}"));
    const struct weir_concurrency *rule = rule_of(policy, 0);
    assert_int_equal(rule->fixed, 10);
    assert_int_equal(rule->by.count, 2);
    assert_int_equal(rule->adaptive->partition_by, WEIR_BY_PLAN);
    assert_int_equal(rule->adaptive->partition_count, 2);
    assert_string_equal(rule->adaptive->partitions[0].name, "live");
    assert_int_equal(rule->adaptive->partitions[0].share_ppm, 700000);
    assert_int_equal(rule->adaptive->partitions[1].share_ppm, 300000);
    weir_policy_free(policy);

    policy = parse("{\"policies\":{\"p\":{\"concurrency\":{\"adaptive\":{},\"partition_by\":"
                   "\"route\",\"partitions\":{\"GET /a\":0.001,\"default\":0.999}}}},"
                   "\"routes\":[{\"match\":\"GET /a\",\"policy\":\"p\"}],\"default\":\"p\"}");
    assert_int_equal(rule_of(policy, 0)->adaptive->partition_by, WEIR_BY_ROUTE);
    weir_policy_free(policy);
}

/* In whichever order they stand. */
static void shares_the_limit_of_a_group(void **state)
{
    (void)state;
    static const char *const rows[] = {
        TWO("\"group\":\"g\",\"adaptive\":{\"floor\":7}", "\"group\":\"g\""),
        TWO("\"group\":\"g\",\"fixed\":3,\"by\":\"ip\"",
            "\"group\":\"g\",\"adaptive\":{\"floor\":7}"),
        TWO("\"adaptive\":{\"floor\":7}", "\"group\":\"p\""),
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i]);
        struct weir_policy *policy = parse(rows[i]);
        assert_int_equal(policy->adaptive_count, 1);
        assert_int_equal(rule_of(policy, 0)->adaptive->floor, 7);
        assert_ptr_equal(rule_of(policy, 0)->adaptive, rule_of(policy, 1)->adaptive);
        weir_policy_free(policy);
    }
    struct weir_policy *policy = parse(TWO("\"adaptive\":{}", "\"adaptive\":{}"));
    assert_int_equal(policy->adaptive_count, 2);
    assert_int_not_equal(rule_of(policy, 0)->adaptive->index, rule_of(policy, 1)->adaptive->index);
    weir_policy_free(policy);
}

static void needs_no_limits_beside_it(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(ONE("\"fixed\":1,\"by\":\"ip\""));
    assert_int_equal(policy->rulesets[0].limit_count, 0);
    assert_int_equal(weir_policy_warning_count(policy), 0);
    assert_null(rule_of(policy, 0)->adaptive);
    weir_policy_free(policy);

    struct weir_error error = refusal("{\"policies\":{\"p\":{\"mode\":\"shadow\"}}}");
    assert_error(&error, WEIR_E_MISSING, "/policies/p", "\"limits\" is missing");
}

static void refuses_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        enum weir_code code;
        const char *path;
        const char *text;
    } rows[] = {
        { ONE(""), WEIR_E_MISSING, PLACE, "Nothing is limited here" },
        { ONE("\"adaptive\":true"), WEIR_E_TYPE, PLACE "/adaptive", "wanted is an object" },
        { ONE("\"adaptve\":{}"), WEIR_E_UNKNOWN_KEY, PLACE "/adaptve",
          "did you mean \"adaptive\"" },
        { ONE("\"adaptive\":{\"flor\":1}"), WEIR_E_UNKNOWN_KEY, PLACE "/adaptive/flor",
          "did you mean \"floor\"" },
        { ONE("\"adaptive\":{\"floor\":0}"), WEIR_E_VALUE, PLACE "/adaptive/floor",
          "a whole number from 1 to 1000000" },
        { ONE("\"adaptive\":{\"ceiling\":1000001}"), WEIR_E_VALUE, PLACE "/adaptive/ceiling",
          "1000001" },
        { ONE("\"adaptive\":{\"initial\":1.5}"), WEIR_E_VALUE, PLACE "/adaptive/initial", "1.5" },
        { ONE("\"adaptive\":{\"floor\":9,\"initial\":8}"), WEIR_E_VALUE, PLACE "/adaptive",
          "begin with 8, at least 9 and at most 200" },
        { ONE("\"adaptive\":{\"floor\":9,\"ceiling\":8}"), WEIR_E_VALUE, PLACE "/adaptive",
          "\"floor\" ≤ \"initial\" ≤ \"ceiling\"" },
        { ONE("\"adaptive\":{\"initial\":9,\"ceiling\":8}"), WEIR_E_VALUE, PLACE "/adaptive",
          "at most 8" },
        { ONE("\"partitions\":{\"live\":1}"), WEIR_E_VALUE, PLACE "/partitions",
          "add \"adaptive\": {}" },
        { ONE("\"partition_by\":\"plan\""), WEIR_E_VALUE, PLACE "/partition_by",
          "where \"adaptive\" is" },
        { ONE("\"adaptive\":{},\"partition_by\":\"ip\""), WEIR_E_VALUE, PLACE "/partition_by",
          "\"plan\", \"tenant\", \"api_key\" or \"route\"" },
        { ONE("\"adaptive\":{},\"partitions\":[]"), WEIR_E_TYPE, PLACE "/partitions",
          "an object with a share for each name" },
        { ONE("\"adaptive\":{},\"partitions\":{}"), WEIR_E_VALUE, PLACE "/partitions",
          "There are 0 parts" },
        { ONE("\"adaptive\":{},\"partitions\":{\"live\":\"0.5\"}"), WEIR_E_TYPE,
          PLACE "/partitions/live", "such as 0.3" },
        { ONE("\"adaptive\":{},\"partitions\":{\"live\":0}"), WEIR_E_VALUE,
          PLACE "/partitions/live", "from 0.001 to 1" },
        { ONE("\"adaptive\":{},\"partitions\":{\"live\":70}"), WEIR_E_VALUE,
          PLACE "/partitions/live", "The value is 70" },
        { ONE("\"adaptive\":{},\"partitions\":{\"live\":-1}"), WEIR_E_VALUE,
          PLACE "/partitions/live", "-1" },
        { ONE("\"adaptive\":{},\"partitions\":{\"live\":0.7,\"batch\":0.4}"), WEIR_E_VALUE,
          PLACE "/partitions", "come to 1.1 in all" },
        { ONE("\"adaptive\":{},\"partitions\":{\"liev\":0.7}"), WEIR_E_REFERENCE,
          PLACE "/partitions/liev", "did you mean \"live\"?" },
        { ONE("\"adaptive\":{},\"partition_by\":\"route\",\"partitions\":{\"GET /b\":0.7}"),
          WEIR_E_REFERENCE, PLACE "/partitions/GET ~1b", "no \"match\" of a route" },
        { ONE("\"adaptive\":{},\"partition_by\":\"api_key\",\"partitions\":{\"a\":0.7}"),
          WEIR_E_REFERENCE, PLACE "/partitions/a", "There are no keys to name" },
        { ONE("\"adaptive\":{},\"partition_by\":\"tenant\",\"partitions\":{\"\":0.7}"),
          WEIR_E_VALUE, PLACE "/partitions/", "A part without a name" },
        { ONE("\"fixed\":5"), WEIR_E_MISSING, PLACE, "\"by\" is missing" },
        { ONE("\"by\":\"ip\""), WEIR_E_MISSING, PLACE, "\"fixed\" is missing" },
        { ONE("\"fixed\":0,\"by\":\"ip\""), WEIR_E_VALUE, PLACE "/fixed", "from 1" },
        { ONE("\"fixed\":5,\"by\":\"ipp\""), WEIR_E_VALUE, PLACE "/by", "did you mean \"ip\"" },
        { ONE("\"fixed\":5,\"by\":[\"ip\",\"nope\"]"), WEIR_E_VALUE, PLACE "/by/1",
          "\"global\", \"header:NAME\", \"param:NAME\" or \"query:NAME\"" },
        { ONE("\"fixed\":5,\"by\":[\"ip\",\"devic\"]"), WEIR_E_VALUE, PLACE "/by/1",
          "wanted is \"ip\"" },
        { ONE("\"fixed\":5,\"by\":[\"ip\",\"field:user\"]"), WEIR_E_VALUE, PLACE "/by/1",
          "from when their headers are in" },
        { ONE("\"fixed\":5,\"by\":\"device\""), WEIR_E_VALUE, PLACE "/by", "such as \"api_key\"" },
        { ONE("\"group\":\"a b\",\"adaptive\":{}"), WEIR_E_VALUE, PLACE "/group", "is no name" },
        { ONE("\"group\":7"), WEIR_E_TYPE, PLACE "/group", "the name of a group" },
        { ONE("\"group\":\"g\""), WEIR_E_REFERENCE, PLACE "/group", "wanted is one that says" },
        { TWO("\"adaptive\":{},\"group\":\"reports\"", "\"group\":\"report\""), WEIR_E_REFERENCE,
          "/policies/q/concurrency/group", "did you mean \"reports\"?" },
        { TWO("\"adaptive\":{},\"group\":\"g\"", "\"group\":\"g\",\"adaptive\":{}"), WEIR_E_VALUE,
          "/policies/q/concurrency/adaptive", "in all but one" },
        { "{\"policies\":{\"p\":{\"concurrency\":[],\"limits\":[]}}}", WEIR_E_VALUE,
          "/policies/p/limits", "0 limits" },
        { "{\"policies\":{\"p\":{\"concurrency\":[]}}}", WEIR_E_TYPE, PLACE, "an object" },
        { "{\"policies\":{\"p\":{\"concurrency\":{\"adaptive\":{}},\"limits\":[{\"name\":"
          "\"concurrency\",\"by\":\"ip\",\"rate\":\"5/minute\"}]}}}",
          WEIR_E_VALUE, "/policies/p/limits/0/name", "wanted is another name" },
        { "{\"concurrency\":{}}", WEIR_E_UNKNOWN_KEY, "/concurrency", "in one of \"policies\"" },
        { "{\"routes\":[{\"match\":\"GET /\",\"concurrency\":{}}]}", WEIR_E_UNKNOWN_KEY,
          "/routes/0/concurrency", "in one of \"policies\"" },
        { "{\"default\":{\"concurrency\":{}}}", WEIR_E_UNKNOWN_KEY, "/default/concurrency",
          "in one of \"policies\"" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_error error = refusal(rows[i].json);
        assert_error(&error, rows[i].code, rows[i].path, rows[i].text);
    }
}

static void refuses_more_parts_than_there_can_be(void **state)
{
    (void)state;
    char json[1024] = "{\"policies\":{\"p\":{\"concurrency\":{\"adaptive\":{},\"partition_by\":"
                      "\"tenant\",\"partitions\":{\"t\":0.001";
    for (int i = 0; i < 16; i++)
        snprintf(json + strlen(json), sizeof json - strlen(json), ",\"t%d\":0.001", i);
    strcat(json, "}}}}}");
    struct weir_error error = refusal(json);
    assert_error(&error, WEIR_E_VALUE, PLACE "/partitions", "17 parts; wanted are 1 to 16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_bounds_of_an_adaptive_limit),
        cmocka_unit_test(reads_parts_and_a_fixed_limit_beside),
        cmocka_unit_test(shares_the_limit_of_a_group),
        cmocka_unit_test(needs_no_limits_beside_it),
        cmocka_unit_test(refuses_what_is_wrong),
        cmocka_unit_test(refuses_more_parts_than_there_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
