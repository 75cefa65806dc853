/* What is legal and surely wrong. */
#include "parse.h"

#define LIMITS(json)    "\"policies\":{\"p\":{\"limits\":[" json "]}}"
#define LIMIT(by, rate) "{\"name\":\"a\",\"by\":\"" by "\",\"rate\":\"" rate "\"}"
#define LIMIT2(rate)    "{\"name\":\"b\",\"by\":\"ip\",\"rate\":\"" rate "\",\"burst\":1}"
#define LOG(rate)                                                                                  \
    "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"" rate "\",\"algorithm\":\"sliding-log\"}"
#define LEAKY(rate, members)                                                                       \
    "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"" rate "\",\"algorithm\":\"leaky-bucket\"," members  \
    "}"
#define PLANNED            "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"plan\"}"
#define ROUTE(members)     "\"routes\":[{\"match\":\"GET /a\",\"policy\":\"p\"" members "}]"
#define REDIS              "\"store\":{\"url\":\"redis://h\"}"
#define TRUST(json)        "{\"client_ip\":{\"trust\":[" json "]}}"
#define ROUTES(one, other) "{\"routes\":[{\"match\":" one "},{\"match\":" other "}]}"
#define LOGIN(name, rule, match)                                                                   \
    "{\"policies\":{\"" name                                                                       \
    "\":{\"limits\":[" LIMIT("ip", "1/second") "],\"on_store_failure\":" rule                      \
                                               "}},\"routes\":[{\"match\":\"" match                \
                                               "\",\"policy\":\"" name "\"}]}"

#define SHARED(instances, rate, members)                                                           \
    "{" REDIS ",\"instances\":" instances ",\"policies\":{\"p\":{\"limits\":[{\"name\":\"a\","     \
    "\"by\":\"ip\",\"rate\":\"" rate "\"" members "}],\"on_store_failure\":\"memory\"}}}"

static void warns(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        enum weir_code code;
        const char *path;
        const char *text;
    } rows[] = {
        { "{" LIMITS(LIMIT("ip", "5/second")) "," ROUTE(",\"cost\":6") "}",
          WEIR_W_COST_ABOVE_CAPACITY, "/routes/0/cost",
          "A cost of 6 never fits the limit \"a\" of the policy \"p\", which holds 5;" },
        { "{" LIMITS(LIMIT("ip", "5/second")) ",\"default\":{\"policy\":\"p\",\"cost\":6}}",
          WEIR_W_COST_ABOVE_CAPACITY, "/default/cost", "A cost of 6 never fits" },
        { "{" LIMITS("{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"90/second\",\"burst\":5}") "," ROUTE(
              ",\"cost\":6") "}",
          WEIR_W_COST_ABOVE_CAPACITY, "/routes/0/cost", "which holds 5;" },
        { "{\"plans\":{\"x\":{\"a\":\"9/second\"},\"y\":{\"a\":\"4/second\"},\"z\":{\"a\":"
          "\"5/second\"}}," LIMITS(PLANNED) "," ROUTE(",\"cost\":6") "}",
          WEIR_W_COST_ABOVE_CAPACITY, "/routes/0/cost", "which holds 4 in the plan \"y\";" },
        { LOGIN("login", "\"open\"", "GET /a"), WEIR_W_OPEN_ON_LOGIN,
          "/policies/login/on_store_failure", "lets everybody guess while the store fails" },
        { LOGIN("p", "{\"timeout\":\"open\"}", "POST /v1/OTP/:id"), WEIR_W_OPEN_ON_LOGIN,
          "/policies/p/on_store_failure", "The policy \"p\" guards a login" },
        { LOGIN("p", "{\"unavailable\":\"open\"}", "POST /reset"), WEIR_W_OPEN_ON_LOGIN,
          "/policies/p/on_store_failure", "say \"closed\" or \"memory\"" },
        { LOGIN("p", "{\"error\":\"open\"}", "POST /password"), WEIR_W_OPEN_ON_LOGIN,
          "/policies/p/on_store_failure", "say \"closed\" or \"memory\"" },
        { "{" LIMITS(LIMIT("ip", "100/hour")) "}", WEIR_W_LONG_WINDOW_ALONE,
          "/policies/p/limits/0/rate", "All of the limit \"a\" can be spent at once" },
        { "{" LIMITS(LIMIT("ip", "100/hour") ",{\"name\":\"b\",\"by\":\"ip\","
                                             "\"rate\":\"9/7minutes\"}") "}",
          WEIR_W_LONG_WINDOW_ALONE, "/policies/p/limits/0/rate", "a tenth of its window or less" },
        { "{" LIMITS("{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"100/day\",\"burst\":11}") "}",
          WEIR_W_LONG_WINDOW_ALONE, "/policies/p/limits/0/rate", "a small \"burst\"" },
        { "{\"plans\":{\"x\":{\"a\":\"9/second\"},\"y\":{\"a\":\"4/day\"}}," LIMITS(PLANNED) "}",
          WEIR_W_LONG_WINDOW_ALONE, "/policies/p/limits/0/rate", "an hour or more" },
        { "{" LIMITS("{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"100/day\",\"algorithm\":"
                     "\"token-bucket\",\"burst\":11}") "}",
          WEIR_W_LONG_WINDOW_ALONE, "/policies/p/limits/0/rate", "a small \"burst\"" },
        { "{" LIMITS("{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"100/day\",\"algorithm\":"
                     "\"sliding-counter\"}") "}",
          WEIR_W_LONG_WINDOW_ALONE, "/policies/p/limits/0/rate", "can be spent at once" },
        { "{" LIMITS("{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"100/day\",\"algorithm\":"
                     "\"sliding-log\"}") "}",
          WEIR_W_LONG_WINDOW_ALONE, "/policies/p/limits/0/rate", "can be spent at once" },
        { "{" LIMITS("{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"100/month\",\"algorithm\":"
                     "\"fixed-window\",\"calendar\":\"UTC\"}") "}",
          WEIR_W_LONG_WINDOW_ALONE, "/policies/p/limits/0/rate", "can be spent at once" },
        { "{" LIMITS("{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"100/hour\",\"algorithm\":"
                     "\"leaky-bucket\",\"max_wait\":\"0s\"}") "}",
          WEIR_W_LONG_WINDOW_ALONE, "/policies/p/limits/0/rate", "can be spent at once" },
        { "{" LIMITS(LOG("70000/day") "," LIMIT2("9/second")) "}", WEIR_W_LARGE_LOG,
          "/policies/p/limits/0/algorithm",
          "The log of the limit \"a\" keeps up to 70000 entries for each key; use "
          "sliding-counter" },
        { "{" LIMITS(LOG("10001/minute")) "}", WEIR_W_LARGE_LOG, "/policies/p/limits/0/algorithm",
          "up to 10001 entries" },
        { "{\"plans\":{\"x\":{\"a\":\"9/second\"},\"y\":{\"a\":\"20000/second\"},"
          "\"z\":{\"a\":\"unlimited\"}}," LIMITS(LOG("plan")) "}",
          WEIR_W_LARGE_LOG, "/policies/p/limits/0/algorithm", "up to 20000 entries" },
        { "{" LIMITS(LEAKY("60/minute", "\"burst\":10")) "}", WEIR_W_QUEUE_OUT_OF_REACH,
          "/policies/p/limits/0/algorithm",
          "The queue of the limit \"a\" has 10 places, and who comes behind the first 3 would" },
        { "{" LIMITS(LEAKY("3/second", "\"burst\":8,\"max_wait\":\"2s\"")) "}",
          WEIR_W_QUEUE_OUT_OF_REACH, "/policies/p/limits/0/algorithm", "behind the first 7 would" },
        { "{\"plans\":{\"x\":{\"a\":\"9/second\"},\"y\":{\"a\":{\"rate\":\"1/second\",\"burst\":"
          "4}}}," LIMITS(LEAKY("plan", "\"max_wait\":\"2s\"")) "}",
          WEIR_W_QUEUE_OUT_OF_REACH, "/policies/p/limits/0/algorithm", "has 4 places" },
        { TRUST("\"loopback\",\"8.0.0.0/8\""), WEIR_W_TRUSTS_EVERYONE, "/client_ip/trust/1",
          "8.0.0.0/8 covers a good part of the Internet" },
        { TRUST("\"10.0.0.0/7\""), WEIR_W_TRUSTS_EVERYONE, "/client_ip/trust/0", "10.0.0.0/7" },
        { TRUST("\"128.0.0.0/1\""), WEIR_W_TRUSTS_EVERYONE, "/client_ip/trust/0", "128.0.0.0/1" },
        { TRUST("\"2600::/12\""), WEIR_W_TRUSTS_EVERYONE, "/client_ip/trust/0", "2600::/12" },
        { TRUST("\"2001::/16\""), WEIR_W_TRUSTS_EVERYONE, "/client_ip/trust/0", "2001::/16" },
        { TRUST("\"fc00::/6\""), WEIR_W_TRUSTS_EVERYONE, "/client_ip/trust/0", "fc00::/6" },
        { "{\"policies\":{\"p\":{\"limits\":[" LIMIT(
              "ip", "1/second") "],"
                                "\"on_store_failure\":{\"error\":\"memory\"}}}}",
          WEIR_W_MEMORY_WITHOUT_INSTANCES, "/policies/p/on_store_failure",
          "set \"instances\" to the number of processes" },
        { ROUTES("\"GET /a/*\"", "\"GET /a/b\""), WEIR_W_ROUTE_HIDDEN, "/routes/1/match",
          "\"GET /a/b\" never matches, since \"GET /a/*\" at /routes/0 comes first" },
        { ROUTES("\"* /a\"", "\"PUT /a\""), WEIR_W_ROUTE_HIDDEN, "/routes/1/match",
          "put it before" },
        { ROUTES("\"GET /a\"", "\"HEAD /a\""), WEIR_W_ROUTE_HIDDEN, "/routes/1/match", "HEAD /a" },
        { ROUTES("\"* *\"", "\"* *\""), WEIR_W_ROUTE_HIDDEN, "/routes/1/match", "\"* *\"" },
        { "{\"instances\":3}", WEIR_W_PER_PROCESS, "/instances",
          "clients get up to 3 times each limit" },
        { "{" REDIS "," LIMITS(LIMIT("client", "1/second")) "}", WEIR_W_NO_SECRET,
          "/policies/p/limits/0/by", "set \"secret\"" },
        { "{" REDIS "," LIMITS(LIMIT("ip|header:X", "1/second")) "}", WEIR_W_NO_SECRET,
          "/policies/p/limits/0/by", "hashed before they go into the shared store" },
        { "{" REDIS "," LIMITS(LIMIT("query:a", "1/second")) "}", WEIR_W_NO_SECRET,
          "/policies/p/limits/0/by", "the same in each process" },
        { "{" REDIS "," LIMITS(LIMIT("param:a", "1/second")) "}", WEIR_W_NO_SECRET,
          "/policies/p/limits/0/by", "without a secret" },
        { "{\"secret\":\"fifteen letters\"}", WEIR_W_WEAK_SECRET, "/secret",
          "The secret has fewer than 16 bytes" },
        { SHARED("7", "3/second", ""), WEIR_W_SHARE_ROUNDED_UP, "/policies/p/limits/0/rate",
          "each of 7 instances lets 1 of the limit \"a\" through, as less would let nobody in: "
          "together 7, where the limit is 3." },
        { SHARED("4", "5/second", ",\"count\":\"failures\""), WEIR_W_SHARE_ROUNDED_UP,
          "/policies/p/limits/0/rate", "4 instances lets 3 of the limit \"a\" through" },
        { SHARED("100", "90/second", ",\"burst\":40"), WEIR_W_SHARE_ROUNDED_UP,
          "/policies/p/limits/0/rate", "together 100, where the limit is 40." },
        { "{\"secret\":\"0123456789abcdef\",\"instances\":3," REDIS ",\"policies\":{\"p\":{"
          "\"concurrency\":{\"fixed\":10,\"by\":\"api_key\"}}}}",
          WEIR_W_SLOTS_PER_PROCESS, "/policies/p/concurrency/fixed",
          "a client gets up to 30 in all" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_policy *policy = parse(rows[i].json);
        assert_int_equal(weir_policy_warning_count(policy), 1);
        const struct weir_error *warning = weir_policy_warning(policy, 0);
        assert_error(warning, rows[i].code, rows[i].path, rows[i].text);
        assert_int_equal(warning->line, 1);
        assert_null(weir_policy_warning(policy, 1));
        weir_policy_free(policy);
    }
}

static void is_silent_about_what_is_fine(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{" LIMITS(LIMIT("ip", "5/second")) "," ROUTE(",\"cost\":5") "}",
        "{" LIMITS("{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"1/second\",\"burst\":6}") "," ROUTE(
            ",\"cost\":6") "}",
        "{" LIMITS(LIMIT("ip", "0/second")) "," ROUTE(",\"cost\":6") "}",
        "{" LIMITS(LIMIT("ip", "unlimited")) "," ROUTE(",\"cost\":6") "}",
        "{\"plans\":{\"x\":{\"a\":\"9/second\"},\"y\":{\"a\":\"unlimited\"},\"z\":{\"a\":"
        "\"0/second\"}}," LIMITS(PLANNED) "," ROUTE(",\"cost\":6") "}",
        "{\"routes\":[{\"match\":\"GET /a\",\"cost\":1000}]}",
        LOGIN("login", "\"closed\"", "GET /a"),
        LOGIN("p", "\"open\"", "GET /a"),
        "{" LIMITS(LIMIT("ip", "100/59minutes")) "}",
        "{" LIMITS(LIMIT("ip", "1/hour")) "}",
        "{" LIMITS(LIMIT("ip", "100/hour") ",{\"name\":\"b\",\"by\":\"ip\","
                                           "\"rate\":\"9/6minutes\"}") "}",
        "{" LIMITS("{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"100/day\",\"burst\":10}") "}",
        "{" LIMITS(LOG("10000/minute")) "}",
        "{\"plans\":{\"x\":{\"a\":\"unlimited\"}}," LIMITS(LOG("plan")) "}",
        "{" LIMITS("{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"20000/minute\",\"algorithm\":"
                   "\"sliding-counter\"}") "}",
        "{" LIMITS(LEAKY("10/second", "\"burst\":21")) "}",
        "{" LIMITS(LEAKY("3/second", "\"burst\":7")) "}",
        "{" LIMITS(LEAKY("1/second", "\"burst\":100,\"max_wait\":\"0s\"")) "}",
        /* What nobody wrote is no promise. */
        "{" LIMITS(LEAKY("60/minute", "\"max_wait\":\"2s\"")) "}",
        "{" LIMITS(LEAKY("0/minute", "\"max_wait\":\"2s\"")) "}",
        /* A queue lets one at a time through. */
        "{" LIMITS(LEAKY("1000/day", "\"max_wait\":\"2s\"")) "}",
        "{" LIMITS("{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"100/month\",\"algorithm\":"
                   "\"fixed-window\",\"calendar\":\"UTC\"}," LIMIT2("90/3days")) "}",
        TRUST("\"10.0.0.0/8\",\"127.0.0.0/8\",\"fc00::/7\",\"fe80::/10\",\"uniquelocal\","
              "\"loopback\",\"linklocal\",\"unix\",\"8.0.0.0/9\",\"2001:db8::/17\""),
        "{\"client_ip\":{\"trust\":2}}",
        "{\"instances\":1,\"policies\":{\"p\":{\"limits\":[" LIMIT(
            "ip", "1/second") "],"
                              "\"on_store_failure\":\"memory\"}}}",
        ROUTES("\"GET /a\"", "\"POST /a\""),
        ROUTES("\"HEAD /a\"", "\"GET /a\""),
        ROUTES("\"GET /a\"", "\"* /a\""),
        ROUTES("\"GET /a/b\"", "\"GET /a/*\""),
        ROUTES("\"* /a\"", "\"OPTIONS /a\""),
        "{" REDIS ",\"instances\":3}",
        "{" REDIS ",\"secret\":\"sixteen letters.\"," LIMITS(LIMIT("client", "1/second")) "}",
        SHARED("6", "3/second", ""),
        SHARED("3", "5/second", ",\"count\":\"failures\""),
        SHARED("100", "100/second", ""),
        SHARED("100", "0/second", ""),
        SHARED("100", "unlimited", ""),
        "{" REDIS "," LIMITS(LIMIT("api_key|tenant|ip", "1/second")) "}",
        "{" LIMITS(LIMIT("user", "1/second")) "}",
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i]);
        struct weir_policy *policy = parse(rows[i]);
        if (weir_policy_warning_count(policy) > 0)
            fail_msg("%s", weir_policy_warning(policy, 0)->text);
        weir_policy_free(policy);
    }
}

static void names_the_line_of_a_warning(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse("{\"routes\": [\n  {\"match\": \"GET /a\"},\n  {\"match\": \"GET /a\"}]}");
    assert_int_equal(weir_policy_warning(policy, 0)->line, 3);
    assert_int_equal(weir_policy_warning(policy, 0)->column, 4);
    weir_policy_free(policy);
}

static void leaves_three_tries_of_all_limits_beside_one_that_counts_failures(void **state)
{
    (void)state;
    static const struct {
        const char *count;
        uint64_t share;
    } rows[] = {
        { "\"failures\"", 3 },          { "{\"2xx\":0,\"401\":1}", 3 }, { "{\"404\":0}", 1 },
        { "{\"200\":0,\"3xx\":2}", 1 }, { "\"successes\"", 1 },         { "\"all\"", 1 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[500];
        snprintf(json, sizeof json,
                 "{" LIMITS(LIMIT("ip", "20/minute") ",{\"name\":\"b\",\"by\":\"ip\",\"rate\":"
                                                     "\"5/minute\",\"count\":%s}") "}",
                 rows[i].count);
        print_message("    %s\n", json);
        struct weir_policy *policy = parse(json);
        const struct weir_limit_rule *limits = policy->rulesets[0].limits;
        assert_int_equal(weir_limit_share(&limits[0], 20, 100), rows[i].share);
        assert_int_equal(weir_limit_share(&limits[1], 5, 3), rows[i].share);
        assert_int_equal(weir_limit_share(&limits[1], 2, 3), rows[i].share == 3 ? 2 : 1);
        assert_int_equal(weir_limit_share(&limits[1], 100, 4), 25);
        assert_int_equal(weir_limit_share(&limits[1], 0, 4), 0);
        weir_policy_free(policy);
    }
}

static void stops_at_a_hundred_warnings(void **state)
{
    (void)state;
    static char json[65536];
    size_t length = (size_t)snprintf(json, sizeof json, "{\"routes\":[{\"match\":\"* *\"}");
    for (int i = 0; i < 300; i++)
        length +=
            (size_t)snprintf(json + length, sizeof json - length, ",{\"match\":\"GET /%d\"}", i);
    snprintf(json + length, sizeof json - length, "]}");
    struct weir_policy *policy = parse(json);
    assert_int_equal(weir_policy_warning_count(policy), 100);
    weir_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warns),
        cmocka_unit_test(is_silent_about_what_is_fine),
        cmocka_unit_test(names_the_line_of_a_warning),
        cmocka_unit_test(leaves_three_tries_of_all_limits_beside_one_that_counts_failures),
        cmocka_unit_test(stops_at_a_hundred_warnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
