/* How a file that is wrong is refused: code, place and words. */
#include "parse.h"

#define LIMIT(members)  "{\"policies\":{\"p\":{\"limits\":[{" members "}]}}}"
#define NAMED(members)  LIMIT("\"name\":\"a\",\"by\":\"ip\",\"rate\":\"5/minute\"" members)
#define WINDOW(members) LIMIT("\"name\":\"a\",\"by\":\"ip\",\"algorithm\":\"fixed-window\"" members)
#define BY(json)        LIMIT("\"name\":\"a\",\"rate\":\"5/minute\",\"by\":" json)
#define PLANNED(rate, members)                                                                     \
    "{\"plans\":{\"f\":{\"a\":\"" rate "\"}},\"policies\":{\"p\":{\"limits\":[{\"name\":\"a\","    \
    "\"by\":\"ip\",\"rate\":\"plan\",\"algorithm\":\"fixed-window\"" members "}]}}}"
#define RATE(json)      LIMIT("\"name\":\"a\",\"by\":\"ip\",\"rate\":" json)
#define POLICY(members) "{\"policies\":{\"p\":{" members "}}}"
#define ROUTE(members)  "{\"routes\":[{" members "}]}"
#define FREE(members)   "{\"plans\":{\"free\":{" members "}}}"
#define GOOD_LIMITS     "\"limits\":[{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"5/minute\"}]"
#define TEN             "0123456789"
#define SIXTY_FIVE      TEN TEN TEN TEN TEN TEN "01234"
#define BY_PATH         "/policies/p/limits/0/by"
#define RATE_PATH       "/policies/p/limits/0/rate"
#define AT(key)         "/policies/p/limits/0/" key

struct row {
    const char *json;
    enum weir_code code;
    const char *path;
    const char *text;
};

static void refuse_all(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_error error = refusal(rows[i].json);
        assert_error(&error, rows[i].code, rows[i].path, rows[i].text);
    }
}

static void refuses_what_is_no_json(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "", WEIR_E_JSON, "", "The file is not JSON: " },
        { "{", WEIR_E_JSON, "", "The file is not JSON: " },
        { "{} {}", WEIR_E_JSON, "", "end of file expected" },
        { "{\"instances\": NaN}", WEIR_E_JSON, "", "invalid token" },
        { "{\"instances\": 1e999}", WEIR_E_JSON, "", "real number overflow" },
        { "{\"instances\": 99999999999999999999}", WEIR_E_JSON, "", "too big integer" },
        { "{\"a\": 1, \"a\": 2}", WEIR_E_JSON, "", "duplicate object key near '\"a\"'" },
        { "{\"a\": \"\xFF\"}", WEIR_E_JSON, "", "unable to decode byte 0xff" },
        { "{\"a\": \"\\u0000\"}", WEIR_E_JSON, "", "\\u0000" },
        { "[]", WEIR_E_TYPE, "", "The value is an array; wanted is an object." },
        { "7", WEIR_E_JSON, "", "expected" },
    };
    refuse_all(rows, COUNT_OF(rows));
}

static void refuses_json_that_nests_without_end(void **state)
{
    (void)state;
    static char json[100001];
    memset(json, '[', sizeof json - 1);
    struct weir_error error = refusal(json);
    assert_error(&error, WEIR_E_JSON, "", "maximum parsing depth reached");
}

static void never_shows_what_may_be_a_password(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"store\": {\"url\": \"redis://:hunter2@h\" oops}}",
        "{\"store\": {\"url\": \"redis://:hunter2@h}}",
        "{\"store\": {\"url\": \"sqlite://:hunter2@h\"}}",
        "{\"store\": {\"url\": \"redis+shards://:hunter2@h\"}}",
        "{\"store\": {\"url\": \"redis://:hunter2@${\"}}",
        "{\"secret\": [\"hunter2\"]}",
        "{\"secret\": \"hunter2${WEIR_TEST_NOT_SET}\"}",
    };
    unsetenv("WEIR_TEST_NOT_SET");
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct weir_error error = refusal(texts[i]);
        print_message("    %s\n", error.text);
        assert_null(strstr(error.text, "hunter2"));
    }
}

static void suggests_what_was_meant(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "{\"polices\":{}}", WEIR_E_UNKNOWN_KEY, "/polices", "did you mean \"policies\"?" },
        { "{\"store\":{\"tls\":{\"ca\":\"a\"}}}", WEIR_E_UNKNOWN_KEY, "/store/tls/ca",
          "wanted is \"ca_file\", \"cert_file\", \"key_file\" or \"server_name\"" },
        { "{\"store\":{\"tls\":{\"cafile\":\"a\"}}}", WEIR_E_UNKNOWN_KEY, "/store/tls/cafile",
          "did you mean \"ca_file\"?" },
        { "{\"store\":{\"timout\":\"1s\"}}", WEIR_E_UNKNOWN_KEY, "/store/timout",
          "\"timout\" means nothing here; did you mean \"timeout\"?" },
        { "{\"client_ip\":{\"ipv6prefix\":56}}", WEIR_E_UNKNOWN_KEY, "/client_ip/ipv6prefix",
          "did you mean \"ipv6_prefix\"?" },
        { "{\"api_keys\":{\"fil\":\"a\"}}", WEIR_E_UNKNOWN_KEY, "/api_keys/fil", "\"file\"?" },
        { "{\"user\":{\"heder\":\"a\"}}", WEIR_E_UNKNOWN_KEY, "/user/heder",
          "\"heder\" means nothing here; did you mean \"header\"?" },
        { "{\"tenant\":{\"name\":\"a\"}}", WEIR_E_UNKNOWN_KEY, "/tenant/name",
          "\"name\" means nothing here; wanted is \"header\"." },
        { FREE("\"a\":{\"rte\":\"1/second\"}"), WEIR_E_UNKNOWN_KEY, "/plans/free/a/rte",
          "did you mean \"rate\"?" },
        { POLICY(GOOD_LIMITS ",\"on_failure\":\"open\""), WEIR_E_UNKNOWN_KEY,
          "/policies/p/on_failure",
          "wanted is \"limits\", \"on_store_failure\", \"mode\", \"slot\", \"on_abort\"" },
        { NAMED(",\"algoritm\":\"gcra\""), WEIR_E_UNKNOWN_KEY, AT("algoritm"),
          "did you mean \"algorithm\"?" },
        { ROUTE("\"path\":\"GET /\""), WEIR_E_UNKNOWN_KEY, "/routes/0/path", "means nothing here" },
        { "{\"default\":{\"polcy\":\"a\"}}", WEIR_E_UNKNOWN_KEY, "/default/polcy", "\"policy\"?" },
        { "{\"headers\":{\"form\":\"legacy\"}}", WEIR_E_UNKNOWN_KEY, "/headers/form",
          "\"forms\"?" },
        { POLICY(GOOD_LIMITS ",\"on_store_failure\":{\"timeouts\":\"open\"}"), WEIR_E_UNKNOWN_KEY,
          "/policies/p/on_store_failure/timeouts", "\"timeout\"?" },
        { NAMED(",\"algorithm\":\"gcar\""), WEIR_E_VALUE, AT("algorithm"),
          "did you mean \"gcra\"?" },
        { NAMED(",\"algorithm\":\"magic\""), WEIR_E_VALUE, AT("algorithm"),
          "The value is \"magic\"; wanted is \"gcra\", \"token-bucket\", \"leaky-bucket\", "
          "\"fixed-window\", \"sliding-counter\" or \"sliding-log\"." },
        { NAMED(",\"max_wiat\":\"2s\""), WEIR_E_UNKNOWN_KEY, AT("max_wiat"), "\"max_wait\"?" },
        { NAMED(",\"count\":{\"4x\":2}"), WEIR_E_UNKNOWN_KEY, AT("count/4x"),
          "\"4x\" is no status; wanted is one from \"100\" to \"599\", or a class" },
        { NAMED(",\"count\":{\"4XX\":2}"), WEIR_E_UNKNOWN_KEY, AT("count/4XX"), "is no status" },
        { NAMED(",\"count\":{\"099\":2}"), WEIR_E_UNKNOWN_KEY, AT("count/099"), "is no status" },
        { NAMED(",\"count\":{\"600\":2}"), WEIR_E_UNKNOWN_KEY, AT("count/600"), "is no status" },
        { NAMED(",\"count\":{\"40a\":2}"), WEIR_E_UNKNOWN_KEY, AT("count/40a"), "is no status" },
        { NAMED(",\"count\":{\"4:0\":2}"), WEIR_E_UNKNOWN_KEY, AT("count/4:0"), "is no status" },
        { NAMED(",\"count\":{\"4xxx\":2}"), WEIR_E_UNKNOWN_KEY, AT("count/4xxx"), "is no status" },
        { NAMED(",\"count\":{\"401\":2,\"\":2}"), WEIR_E_UNKNOWN_KEY, AT("count/"),
          "\"\" is no status" },
        { NAMED(",\"count\":\"failure\""), WEIR_E_VALUE, AT("count"),
          "did you mean \"failures\"?" },
        { "{\"mode\":\"shadwo\"}", WEIR_E_VALUE, "/mode", "did you mean \"shadow\"?" },
        { BY("\"ipp\""), WEIR_E_VALUE, BY_PATH, "did you mean \"ip\"?" },
        { "{\"policies\":{\"api\":{" GOOD_LIMITS "}},\"routes\":[{\"match\":\"GET /\","
          "\"policy\":\"app\"}]}",
          WEIR_E_REFERENCE, "/routes/0/policy",
          "The value is \"app\", which is no name in \"policies\"; did you mean \"api\"?" },
    };
    refuse_all(rows, COUNT_OF(rows));
}

static void writes_json_pointers_that_can_be_followed(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "{\"a/b~c\":1}", WEIR_E_UNKNOWN_KEY, "/a~1b~0c", "\"a/b~c\" means nothing" },
        { FREE("\"\":\"1/second\""), WEIR_E_VALUE, "/plans/free/", "\"\" is no name" },
        { POLICY("\"limits\":[{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"1/second\"},"
                 "{\"name\":\"b\",\"by\":[\"ip\",\"x\"],\"rate\":\"1/second\"}]"),
          WEIR_E_VALUE, "/policies/p/limits/1/by/1", "The value is \"x\"" },
        { "{\"policies\":{\"api_keys\":{\"limits\":[{\"name\":\"a\",\"by\":\"ip\",\"rate\":"
          "\"1/second\"}]}}}",
          WEIR_E_VALUE, "/policies/api_keys", "The name \"api_keys\" is taken" },
    };
    refuse_all(rows, COUNT_OF(rows));

    char json[400], path[200];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    snprintf(json, sizeof json, "{\"store\": {\"%s\": 1}}", path);
    struct weir_error error = refusal(json);
    assert_error(&error, WEIR_E_UNKNOWN_KEY, "/store", "xxx\" means nothing here");
}

static void names_the_line_and_the_column(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        int line, column;
    } rows[] = {
        { "{\n  \"instances\": 1,\n  \"mode\": 7\n}", 3, 3 },
        { "{\"é\": 1}", 1, 2 },
        { "{\"comment\": \"é\", \"mode\": 7}", 1, 18 },
        { "{\"routes\": [\n{\"match\": \"GET /\"},\n {\"match\": \"GET /\", \"cost\":\n-1}]}", 3,
          21 },
        { "{\"a\": 1,,}", 1, 9 },
        { "[]", 0, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_error error = refusal(rows[i].json);
        assert_int_equal(error.line, rows[i].line);
        assert_int_equal(error.column, rows[i].column);
    }
}

static void refuses_what_is_not_there(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "{\"api_keys\":{}}", WEIR_E_MISSING, "/api_keys", "\"file\" is missing." },
        { "{\"user\":{}}", WEIR_E_MISSING, "/user", "\"header\" is missing." },
        { "{\"tenant\":{}}", WEIR_E_MISSING, "/tenant", "\"header\" is missing." },
        { FREE("\"a\":{\"burst\":1}"), WEIR_E_MISSING, "/plans/free/a", "\"rate\" is missing." },
        { POLICY(""), WEIR_E_MISSING, "/policies/p", "\"limits\" is missing." },
        { LIMIT("\"by\":\"ip\",\"rate\":\"1/second\""), WEIR_E_MISSING, "/policies/p/limits/0",
          "\"name\" is missing." },
        { LIMIT("\"name\":\"a\",\"rate\":\"1/second\""), WEIR_E_MISSING, "/policies/p/limits/0",
          "\"by\" is missing." },
        { LIMIT("\"name\":\"a\",\"by\":\"ip\""), WEIR_E_MISSING, "/policies/p/limits/0",
          "\"rate\" is missing." },
        { ROUTE(""), WEIR_E_MISSING, "/routes/0", "\"match\" is missing." },
        { "{\"plans\":{\"free\":{},\"pro\":{\"a\":\"1/day\"}},\"policies\":{\"p\":{\"limits\":["
          "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"plan\"}]}}}",
          WEIR_E_MISSING, "/plans/free",
          "The plan \"free\" has no \"a\", and the limit at /policies/p/limits/0 takes its rate "
          "from "
          "the plan" },
    };
    refuse_all(rows, COUNT_OF(rows));
}

static void refuses_names_of_nothing(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { RATE("\"plan\""), WEIR_E_REFERENCE, RATE_PATH, "there are no \"plans\"" },
        { "{\"default_plan\":\"free\"}", WEIR_E_REFERENCE, "/default_plan",
          "no name in \"plans\"" },
        { "{\"plans\":{\"pro\":{}},\"default_plan\":\"free\"}", WEIR_E_REFERENCE, "/default_plan",
          "The value is \"free\"" },
        { ROUTE("\"match\":\"GET /\",\"policy\":\"p\""), WEIR_E_REFERENCE, "/routes/0/policy",
          "The value is \"p\", which is no name in \"policies\"." },
        { "{\"default\":\"p\"}", WEIR_E_REFERENCE, "/default", "The value is \"p\"" },
        { "{\"default\":{\"policy\":\"p\"}}", WEIR_E_REFERENCE, "/default/policy",
          "The value is \"p\"" },
    };
    refuse_all(rows, COUNT_OF(rows));
}

static void refuses_values_of_another_type(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "{\"store\":5}", WEIR_E_TYPE, "/store", "The value is 5; wanted is an object." },
        { "{\"store\":{\"url\":5}}", WEIR_E_TYPE, "/store/url",
          "The value is 5; wanted is a text" },
        { "{\"store\":{\"connections\":\"2\"}}", WEIR_E_TYPE, "/store/connections",
          "a whole number from 1 to 16" },
        { "{\"store\":{\"tls\":true}}", WEIR_E_TYPE, "/store/tls",
          "The value is true; wanted is an object." },
        { "{\"store\":{\"tls\":{\"ca_file\":false}}}", WEIR_E_TYPE, "/store/tls/ca_file",
          "the name of a file" },
        { "{\"store\":{\"tls\":{\"server_name\":1}}}", WEIR_E_TYPE, "/store/tls/server_name",
          "such as \"redis.example\"" },
        { "{\"store\":{\"denial_cache\":1}}", WEIR_E_TYPE, "/store/denial_cache", "\"0s\"" },
        { "{\"store\":{\"timeout\":20}}", WEIR_E_TYPE, "/store/timeout", "such as \"20ms\"" },
        { "{\"store\":{\"prefix\":null}}", WEIR_E_TYPE, "/store/prefix", "The value is null" },
        { "{\"store\":{\"memory\":1048576}}", WEIR_E_TYPE, "/store/memory", "such as \"64MiB\"" },
        { "{\"secret\":5}", WEIR_E_TYPE, "/secret", "The secret is no string" },
        { "{\"client_ip\":{\"trust\":\"loopback\"}}", WEIR_E_TYPE, "/client_ip/trust",
          "The value is \"loopback\"; wanted is a list such as" },
        { "{\"client_ip\":{\"trust\":null}}", WEIR_E_TYPE, "/client_ip/trust",
          "The value is null" },
        { "{\"client_ip\":{\"trust\":[1]}}", WEIR_E_TYPE, "/client_ip/trust/0", "The value is 1" },
        { "{\"client_ip\":{\"header\":true}}", WEIR_E_TYPE, "/client_ip/header", "true" },
        { "{\"client_ip\":{\"ipv4_prefix\":\"24\"}}", WEIR_E_TYPE, "/client_ip/ipv4_prefix",
          "The value is \"24\"; wanted is a whole number from 1 to 32." },
        { "{\"client_ip\":{\"ipv6_prefix\":false}}", WEIR_E_TYPE, "/client_ip/ipv6_prefix", "128" },
        { "{\"client_ip\":{\"nat64\":1}}", WEIR_E_TYPE, "/client_ip/nat64", "true or false" },
        { "{\"api_keys\":[]}", WEIR_E_TYPE, "/api_keys", "an object" },
        { "{\"api_keys\":{\"file\":1}}", WEIR_E_TYPE, "/api_keys/file", "the name of a file" },
        { "{\"user\":\"X-User\"}", WEIR_E_TYPE, "/user", "The value is \"X-User\"" },
        { "{\"instances\":\"3\"}", WEIR_E_TYPE, "/instances", "a whole number from 1 to 10000" },
        { "{\"mode\":true}", WEIR_E_TYPE, "/mode", "wanted is \"enforce\", \"shadow\" or \"off\"" },
        { "{\"case\":1}", WEIR_E_TYPE, "/case", "\"keep\" or \"fold\"" },
        { "{\"headers\":true}", WEIR_E_TYPE, "/headers", "or false" },
        { "{\"headers\":[1]}", WEIR_E_TYPE, "/headers/0", "\"draft-11\"" },
        { "{\"headers\":{\"clamp\":1}}", WEIR_E_TYPE, "/headers/clamp", "true or false" },
        { "{\"headers\":{\"expose\":\"yes\"}}", WEIR_E_TYPE, "/headers/expose", "true or false" },
        { "{\"plans\":[]}", WEIR_E_TYPE, "/plans", "an object for each plan" },
        { "{\"plans\":{\"free\":\"5/second\"}}", WEIR_E_TYPE, "/plans/free",
          "a rate for each limit" },
        { FREE("\"a\":5"), WEIR_E_TYPE, "/plans/free/a", "a rate such as \"1000/day\"" },
        { "{\"default_plan\":1}", WEIR_E_TYPE, "/default_plan", "the name of a plan" },
        { "{\"policies\":[]}", WEIR_E_TYPE, "/policies", "an object for each policy" },
        { "{\"policies\":{\"p\":[]}}", WEIR_E_TYPE, "/policies/p", "an object" },
        { POLICY("\"limits\":{}"), WEIR_E_TYPE, "/policies/p/limits", "a list of limits" },
        { POLICY("\"limits\":[\"5/minute\"]"), WEIR_E_TYPE, "/policies/p/limits/0", "an object" },
        { POLICY(GOOD_LIMITS ",\"on_store_failure\":false"), WEIR_E_TYPE,
          "/policies/p/on_store_failure", "\"open\", \"closed\" or \"memory\"" },
        { POLICY(GOOD_LIMITS ",\"mode\":1"), WEIR_E_TYPE, "/policies/p/mode", "\"enforce\"" },
        { POLICY(GOOD_LIMITS ",\"slot\":1"), WEIR_E_TYPE, "/policies/p/slot", "\"identity\"" },
        { LIMIT("\"name\":1,\"by\":\"ip\",\"rate\":\"1/second\""), WEIR_E_TYPE, AT("name"),
          "a name" },
        { BY("{}"), WEIR_E_TYPE, BY_PATH, "The value is an object" },
        { BY("[[\"ip\"]]"), WEIR_E_TYPE, BY_PATH "/0", "The value is an array" },
        { RATE("100"), WEIR_E_TYPE, RATE_PATH, "The value is 100; wanted is a text such as" },
        { NAMED(",\"burst\":\"10\""), WEIR_E_TYPE, AT("burst"), "a whole number from 1 to" },
        { NAMED(",\"algorithm\":1"), WEIR_E_TYPE, AT("algorithm"), "\"gcra\", \"token-bucket\"" },
        { NAMED(",\"algorithm\":\"leaky-bucket\",\"max_wait\":2"), WEIR_E_TYPE, AT("max_wait"),
          "The value is 2; wanted is a duration from \"0s\" (no waiting) to \"60s\"" },
        { NAMED(",\"algorithm\":\"sliding-log\",\"record\":true"), WEIR_E_TYPE, AT("record"),
          "\"admitted\" or \"all\"" },
        { NAMED(",\"count\":{\"401\":\"2\"}"), WEIR_E_TYPE, AT("count/401"),
          "The value is \"2\"; wanted is a whole number from 0 to 1000" },
        { NAMED(",\"count\":[401]"), WEIR_E_TYPE, AT("count"), "or a table such as {\"401\": 2" },
        { POLICY(GOOD_LIMITS ",\"on_abort\":true"), WEIR_E_TYPE, "/policies/p/on_abort",
          "\"keep\" or \"return\"" },
        { WINDOW(",\"rate\":\"1/month\",\"calendar\":\"UTC\",\"anchor\":\"15\""), WEIR_E_TYPE,
          AT("anchor"), "The value is \"15\"; wanted is a whole number from 1 to 31" },
        { NAMED(",\"exact\":\"yes\""), WEIR_E_TYPE, AT("exact"), "true or false" },
        { NAMED(",\"count\":1"), WEIR_E_TYPE, AT("count"), "\"all\"" },
        { WINDOW(",\"rate\":\"1/day\",\"calendar\":true"), WEIR_E_TYPE, AT("calendar"), "\"UTC\"" },
        { WINDOW(",\"rate\":\"1/day\",\"start\":1"), WEIR_E_TYPE, AT("start"), "\"first\"" },
        { "{\"routes\":{}}", WEIR_E_TYPE, "/routes", "a list of routes" },
        { "{\"routes\":[\"GET /\"]}", WEIR_E_TYPE, "/routes/0", "an object" },
        { ROUTE("\"match\":1"), WEIR_E_TYPE, "/routes/0/match", "a method and a path" },
        { ROUTE("\"match\":\"GET /\",\"auth\":true"), WEIR_E_TYPE, "/routes/0/auth", "\"none\"" },
        { ROUTE("\"match\":\"GET /\",\"policy\":null"), WEIR_E_TYPE, "/routes/0/policy", "null" },
        { ROUTE("\"match\":\"GET /\",\"cost\":\"5\""), WEIR_E_TYPE, "/routes/0/cost", "\"5\"" },
        { "{\"default\":false}", WEIR_E_TYPE, "/default", "the name of a policy, or an object" },
    };
    refuse_all(rows, COUNT_OF(rows));
}

static void refuses_numbers_out_of_range(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "{\"instances\":0}", WEIR_E_VALUE, "/instances", "The value is 0; wanted is a whole" },
        { "{\"instances\":-1}", WEIR_E_VALUE, "/instances", "The value is -1" },
        { "{\"instances\":10001}", WEIR_E_VALUE, "/instances", "from 1 to 10000" },
        { "{\"instances\":1.5}", WEIR_E_VALUE, "/instances", "The value is 1.5" },
        { "{\"instances\":1.0}", WEIR_E_VALUE, "/instances", "The value is 1; wanted is a whole" },
        { "{\"client_ip\":{\"trust\":-1}}", WEIR_E_VALUE, "/client_ip/trust", "from 0 to 32" },
        { "{\"client_ip\":{\"trust\":33}}", WEIR_E_VALUE, "/client_ip/trust", "from 0 to 32" },
        { "{\"client_ip\":{\"trust\":1.5}}", WEIR_E_VALUE, "/client_ip/trust", "from 0 to 32" },
        { "{\"client_ip\":{\"ipv4_prefix\":0}}", WEIR_E_VALUE, "/client_ip/ipv4_prefix",
          "1 to 32" },
        { "{\"client_ip\":{\"ipv4_prefix\":33}}", WEIR_E_VALUE, "/client_ip/ipv4_prefix",
          "1 to 32" },
        { "{\"client_ip\":{\"ipv6_prefix\":129}}", WEIR_E_VALUE, "/client_ip/ipv6_prefix", "128" },
        { ROUTE("\"match\":\"GET /\",\"cost\":-1"), WEIR_E_VALUE, "/routes/0/cost",
          "The value is -1" },
        { ROUTE("\"match\":\"GET /\",\"cost\":1.5"), WEIR_E_VALUE, "/routes/0/cost",
          "The value is 1.5; wanted is a whole number from 0 to 1000000000." },
        { ROUTE("\"match\":\"GET /\",\"cost\":1000000001"), WEIR_E_VALUE, "/routes/0/cost",
          "The value is 1000000001" },
        { NAMED(",\"burst\":0"), WEIR_E_VALUE, AT("burst"), "from 1 to 1000000000" },
        { NAMED(",\"burst\":-5"), WEIR_E_VALUE, AT("burst"), "The value is -5" },
        { NAMED(",\"burst\":2.5"), WEIR_E_VALUE, AT("burst"), "The value is 2.5" },
        { NAMED(",\"burst\":1000000001"), WEIR_E_VALUE, AT("burst"), "from 1 to 1000000000" },
        { RATE("\"-1/minute\""), WEIR_E_VALUE, RATE_PATH, "\"-1\" is no number of requests" },
        { RATE("\"1.5/minute\""), WEIR_E_VALUE, RATE_PATH, "\"1.5\" is no number of requests" },
        { RATE("\"5/0minutes\""), WEIR_E_VALUE, RATE_PATH, "a window of no length" },
        { RATE("\"1000000000/ms\""), WEIR_E_VALUE, RATE_PATH, "above one unit in each nanosecond" },
        { RATE("\"999999937/day\""), WEIR_E_VALUE, RATE_PATH, "fractions of a microsecond" },
        { LIMIT("\"name\":\"a\",\"by\":\"ip\",\"rate\":\"1/day\",\"burst\":1000000"), WEIR_E_VALUE,
          AT("burst"), "more than 71 years" },
        { LIMIT("\"name\":\"a\",\"by\":\"ip\",\"rate\":\"0/day\",\"burst\":1"), WEIR_E_VALUE,
          AT("burst"), "a limit of 0 lets nothing through" },
        { NAMED(",\"algorithm\":\"leaky-bucket\",\"max_wait\":\"61s\""), WEIR_E_VALUE,
          AT("max_wait"), "The value is \"61s\"; wanted is a duration from \"0s\"" },
        { NAMED(",\"algorithm\":\"leaky-bucket\",\"max_wait\":\"-1s\""), WEIR_E_VALUE,
          AT("max_wait"), "to \"60s\"" },
        { NAMED(",\"algorithm\":\"leaky-bucket\",\"max_wait\":\"\""), WEIR_E_VALUE, AT("max_wait"),
          "to \"60s\"" },
        { NAMED(",\"count\":{\"401\":1001}"), WEIR_E_VALUE, AT("count/401"), "from 0 to 1000" },
        { NAMED(",\"count\":{\"401\":-1}"), WEIR_E_VALUE, AT("count/401"), "from 0 to 1000" },
        { NAMED(",\"count\":{\"4xx\":0.5}"), WEIR_E_VALUE, AT("count/4xx"), "a whole number" },
        { NAMED(",\"count\":{}"), WEIR_E_VALUE, AT("count"),
          "The table has 0 statuses; wanted are 1 to 64." },
        { NAMED(",\"count\":{\"comment\":1}"), WEIR_E_VALUE, AT("count"), "has 0 statuses" },
        { WINDOW(",\"rate\":\"1/month\",\"calendar\":\"UTC\",\"anchor\":0"), WEIR_E_VALUE,
          AT("anchor"), "from 1 to 31" },
        { WINDOW(",\"rate\":\"1/month\",\"calendar\":\"UTC\",\"anchor\":32"), WEIR_E_VALUE,
          AT("anchor"), "from 1 to 31" },
        { FREE("\"a\":\"-1/day\""), WEIR_E_VALUE, "/plans/free/a", "\"-1\" is no number" },
        { FREE("\"a\":{\"rate\":\"5/0ms\"}"), WEIR_E_VALUE, "/plans/free/a/rate", "no length" },
        { FREE("\"a\":{\"rate\":\"5/day\",\"burst\":0}"), WEIR_E_VALUE, "/plans/free/a/burst",
          "from 1 to" },
        { "{\"store\":{\"timeout\":\"0s\"}}", WEIR_E_VALUE, "/store/timeout", "from \"1ms\" to" },
        { "{\"store\":{\"timeout\":\"61s\"}}", WEIR_E_VALUE, "/store/timeout", "to \"60s\"" },
        { "{\"store\":{\"timeout\":\"20\"}}", WEIR_E_VALUE, "/store/timeout",
          "The value is \"20\"" },
        { "{\"store\":{\"denial_cache\":\"61s\"}}", WEIR_E_VALUE, "/store/denial_cache",
          "\"0s\" to ask the store about each request, or a duration up to \"1m\"" },
        { "{\"store\":{\"denial_cache\":\"1\"}}", WEIR_E_VALUE, "/store/denial_cache", "\"0s\"" },
        { "{\"store\":{\"connections\":0}}", WEIR_E_VALUE, "/store/connections", "from 1 to 16" },
        { "{\"store\":{\"connections\":17}}", WEIR_E_VALUE, "/store/connections", "from 1 to 16" },
        { "{\"store\":{\"connections\":1.5}}", WEIR_E_VALUE, "/store/connections",
          "The value is 1.5" },
        { "{\"store\":{\"tls\":{\"cert_file\":\"\"}}}", WEIR_E_VALUE, "/store/tls/cert_file",
          "the name of a file" },
        { "{\"store\":{\"tls\":{\"key_file\":\"\"}}}", WEIR_E_VALUE, "/store/tls/key_file",
          "the name of a file" },
        { "{\"store\":{\"tls\":{\"server_name\":\"a b\"}}}", WEIR_E_VALUE, "/store/tls/server_name",
          "such as \"redis.example\"" },
        { "{\"store\":{\"memory\":\"127KiB\"}}", WEIR_E_VALUE, "/store/memory", "from \"128KiB\"" },
        { "{\"store\":{\"memory\":\"2048GiB\"}}", WEIR_E_VALUE, "/store/memory", "to \"1TiB\"" },
        { "{\"store\":{\"memory\":\"64MB\"}}", WEIR_E_VALUE, "/store/memory", "such as \"64MiB\"" },
    };
    refuse_all(rows, COUNT_OF(rows));
}

static void refuses_values_that_mean_nothing(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "{\"store\":{\"url\":\"\"}}", WEIR_E_VALUE, "/store/url", "The value is \"\"" },
        { "{\"store\":{\"url\":\"sqlite:x\"}}", WEIR_E_VALUE, "/store/url",
          "The URL is of no store that there is; wanted is \"memory:\"" },
        { "{\"store\":{\"url\":\"memory:x\"}}", WEIR_E_VALUE, "/store/url",
          "no store that there is" },
        { "{\"store\":{\"url\":\"redis+shards://h\"}}", WEIR_E_VALUE, "/store/url",
          "\"redis+cluster://host:port" },
        { "{\"store\":{\"url\":\"redis:h\"}}", WEIR_E_VALUE, "/store/url", "redis://host:port/db" },
        { "{\"store\":{\"prefix\":\"a{b}\"}}", WEIR_E_VALUE, "/store/prefix", "without braces" },
        { "{\"store\":{\"prefix\":\"a b\"}}", WEIR_E_VALUE, "/store/prefix", "1 to 64" },
        { "{\"store\":{\"prefix\":\"" SIXTY_FIVE "\"}}", WEIR_E_VALUE, "/store/prefix", "1 to 64" },
        { "{\"secret\":\"\"}", WEIR_E_VALUE, "/secret", "The secret is empty" },
        { "{\"client_ip\":{\"trust\":true}}", WEIR_E_VALUE, "/client_ip/trust",
          "would let every client choose its own address" },
        { "{\"client_ip\":{\"trust\":[\"0.0.0.0/0\"]}}", WEIR_E_VALUE, "/client_ip/trust/0",
          "would trust everybody" },
        { "{\"client_ip\":{\"trust\":[\"loopback\",\"10.1\"]}}", WEIR_E_VALUE, "/client_ip/trust/1",
          "\"10.1\" cannot be trusted" },
        { "{\"client_ip\":{\"header\":\"\"}}", WEIR_E_VALUE, "/client_ip/header", "header line" },
        { "{\"client_ip\":{\"header\":\"X Real\"}}", WEIR_E_VALUE, "/client_ip/header",
          "The value is \"X Real\"; wanted is the name of a header line" },
        { "{\"user\":{\"header\":\"X:\"}}", WEIR_E_VALUE, "/user/header", "header line" },
        { "{\"api_keys\":{\"file\":\"\"}}", WEIR_E_VALUE, "/api_keys/file", "the name of a file" },
        { "{\"plans\":{\"a b\":{}}}", WEIR_E_VALUE, "/plans/a b", "\"a b\" is no name" },
        { "{\"plans\":{\"" SIXTY_FIVE "\":{}}}", WEIR_E_VALUE, "/plans/" SIXTY_FIVE, "1 to 64 of" },
        { FREE("\"a:b\":\"1/day\""), WEIR_E_VALUE, "/plans/free/a:b", "\"a:b\" is no name" },
        { FREE("\"a\":\"plan\""), WEIR_E_VALUE, "/plans/free/a", "and this is the plan" },
        { FREE("\"a\":{\"rate\":\"unlimited\",\"burst\":1}"), WEIR_E_VALUE, "/plans/free/a/burst",
          "has no burst" },
        { "{\"plans\":{\"free\":{\"a\":{\"rate\":\"9/day\",\"burst\":3}}},\"policies\":{\"p\":{"
          "\"limits\":[{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"plan\","
          "\"algorithm\":\"fixed-window\"}]}}}",
          WEIR_E_VALUE, "/plans/free/a", "and the limit \"a\" is a fixed-window; leave" },
        { "{\"policies\":{\"a/b\":{}}}", WEIR_E_VALUE, "/policies/a~1b", "\"a/b\" is no name" },
        { POLICY("\"limits\":[]"), WEIR_E_VALUE, "/policies/p/limits",
          "0 limits; wanted are 1 to 8" },
        { POLICY("\"limits\":[0,0,0,0,0,0,0,0,0]"), WEIR_E_VALUE, "/policies/p/limits",
          "9 limits" },
        { POLICY("\"limits\":[{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"1/second\"},"
                 "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"9/minute\"}]"),
          WEIR_E_VALUE, "/policies/p/limits/1/name",
          "\"a\" is the name of limit 0 of this policy" },
        { LIMIT("\"name\":\"a b\",\"by\":\"ip\",\"rate\":\"1/second\""), WEIR_E_VALUE, AT("name"),
          "\"a b\" is no name" },
        { POLICY(GOOD_LIMITS ",\"on_store_failure\":\"close\""), WEIR_E_VALUE,
          "/policies/p/on_store_failure", "did you mean \"closed\"?" },
        { POLICY(GOOD_LIMITS ",\"on_store_failure\":{\"error\":\"deny\"}"), WEIR_E_VALUE,
          "/policies/p/on_store_failure/error", "\"open\", \"closed\" or \"memory\"" },
        { POLICY(GOOD_LIMITS ",\"slot\":\"none\""), WEIR_E_VALUE, "/policies/p/slot",
          "\"policy\"" },
        { BY("\"\""), WEIR_E_VALUE, BY_PATH, "The value is \"\"" },
        { BY("\"ip|\""), WEIR_E_VALUE, BY_PATH, "The value is \"ip|\"" },
        { BY("\"country\""), WEIR_E_VALUE, BY_PATH, "wanted is \"ip\", \"api_key\"" },
        { BY("[]"), WEIR_E_VALUE, BY_PATH, "The list has 0 items; wanted are 1 to 6." },
        { BY("[\"ip\",\"ip\",\"ip\",\"ip\",\"ip\",\"ip\",\"ip\"]"), WEIR_E_VALUE, BY_PATH,
          "7 items" },
        { BY("\"client|plan|route|global\""), WEIR_E_VALUE, BY_PATH, "more than 6 alternatives" },
        { BY("\"header:\""), WEIR_E_VALUE, BY_PATH, "the name of a header line" },
        { BY("\"header:a b\""), WEIR_E_VALUE, BY_PATH, "the name of a header line" },
        { BY("\"param:\""), WEIR_E_VALUE, BY_PATH, "a parameter of the route's pattern" },
        { BY("\"param:1a\""), WEIR_E_VALUE, BY_PATH, "a parameter of the route's pattern" },
        { BY("\"param:a.b\""), WEIR_E_VALUE, BY_PATH, "a parameter of the route's pattern" },
        { BY("\"query:\""), WEIR_E_VALUE, BY_PATH, "the name of a query argument" },
        { BY("\"query:a\\nb\""), WEIR_E_VALUE, BY_PATH, "the name of a query argument" },
        { BY("\"query:" SIXTY_FIVE SIXTY_FIVE "\""), WEIR_E_VALUE, BY_PATH, "query argument" },
        { RATE("\"5 / minute\""), WEIR_E_VALUE, RATE_PATH, "has a space in it" },
        { RATE("\"5/fortnight\""), WEIR_E_VALUE, RATE_PATH, "\"fortnight\" is no unit of time" },
        { "{\"plans\":{\"f\":{\"a\":\"1/day\"}},\"policies\":{\"p\":{\"limits\":[{\"name\":\"a\","
          "\"by\":\"ip\",\"rate\":\"plan\",\"burst\":3}]}}}",
          WEIR_E_VALUE, AT("burst"), "The rate comes from the plan, and so does the burst" },
        { LIMIT("\"name\":\"a\",\"by\":\"ip\",\"rate\":\"unlimited\",\"burst\":3"), WEIR_E_VALUE,
          AT("burst"), "A rate of \"unlimited\" has no burst" },
        { WINDOW(",\"rate\":\"1/day\",\"burst\":3"), WEIR_E_VALUE, AT("burst"),
          "\"burst\" is for gcra" },
        { NAMED(",\"algorithm\":\"sliding-counter\",\"burst\":3"), WEIR_E_VALUE, AT("burst"),
          "token-bucket and leaky-bucket, and this limit is a sliding-counter; leave it out." },
        { NAMED(",\"algorithm\":\"sliding-log\",\"burst\":3"), WEIR_E_VALUE, AT("burst"),
          "this limit is a sliding-log" },
        { NAMED(",\"start\":\"first\""), WEIR_E_VALUE, AT("start"),
          "\"start\" is for fixed-window, and this limit is a gcra; leave it out, or say "
          "\"algorithm\": \"fixed-window\"." },
        { NAMED(",\"calendar\":\"UTC\""), WEIR_E_VALUE, AT("calendar"),
          "\"calendar\" is for fixed-window, and this limit is a gcra" },
        { NAMED(",\"algorithm\":\"sliding-counter\",\"calendar\":\"UTC\""), WEIR_E_VALUE,
          AT("calendar"), "and this limit is a sliding-counter" },
        { NAMED(",\"max_wait\":\"2s\""), WEIR_E_VALUE, AT("max_wait"),
          "\"max_wait\" is for leaky-bucket, and this limit is a gcra" },
        { NAMED(",\"algorithm\":\"token-bucket\",\"record\":\"all\""), WEIR_E_VALUE, AT("record"),
          "\"record\" is for sliding-log, and this limit is a token-bucket" },
        { NAMED(",\"algorithm\":\"sliding-log\",\"record\":\"refused\""), WEIR_E_VALUE,
          AT("record"), "\"admitted\" or \"all\"" },
        { POLICY(GOOD_LIMITS ",\"on_abort\":\"refund\""), WEIR_E_VALUE, "/policies/p/on_abort",
          "\"keep\" or \"return\"" },
        { WINDOW(",\"rate\":\"1/day\",\"start\":\"last\""), WEIR_E_VALUE, AT("start"),
          "\"clock\"" },
        { WINDOW(",\"rate\":\"1/day\",\"start\":\"first\",\"calendar\":\"UTC\""), WEIR_E_VALUE,
          AT("calendar"), "cannot start with the first request and on the calendar too" },
        { WINDOW(",\"rate\":\"1/7hours\",\"calendar\":\"UTC\""), WEIR_E_VALUE, RATE_PATH,
          "divides no day" },
        { WINDOW(",\"rate\":\"1/36hours\",\"calendar\":\"UTC\""), WEIR_E_VALUE, RATE_PATH,
          "divides no day" },
        { NAMED(",\"count\":\"some\""), WEIR_E_VALUE, AT("count"), "wanted is \"all\"" },
        { WINDOW(",\"rate\":\"1/2weeks\",\"calendar\":\"UTC\""), WEIR_E_VALUE, RATE_PATH,
          "Several weeks begin nowhere on the calendar; wanted is week, month" },
        { WINDOW(",\"rate\":\"1/14days\",\"calendar\":\"UTC\""), WEIR_E_VALUE, RATE_PATH,
          "Several weeks begin nowhere" },
        { WINDOW(",\"rate\":\"1/hour\",\"calendar\":\"Europe/Berlin\""), WEIR_E_VALUE, RATE_PATH,
          "The calendar of Europe/Berlin has no window of that length; wanted is day, week" },
        { WINDOW(",\"rate\":\"1/2days\",\"calendar\":\"Europe/Berlin\""), WEIR_E_VALUE, RATE_PATH,
          "month, 2months, 3months, 4months, 6months, 12months or year" },
        { WINDOW(",\"rate\":\"1/5months\",\"calendar\":\"UTC\""), WEIR_E_VALUE, RATE_PATH,
          "\"5months\" does not divide a year" },
        { WINDOW(",\"rate\":\"1/month\""), WEIR_E_VALUE, RATE_PATH,
          "Months differ in length, so only a fixed-window with a \"calendar\" counts by them, and "
          "the limit \"a\" is none" },
        { RATE("\"1/month\""), WEIR_E_VALUE, RATE_PATH, "\"30days\", a window of fixed length" },
        { WINDOW(",\"rate\":\"1/month\",\"start\":\"first\""), WEIR_E_VALUE, RATE_PATH,
          "Months differ in length" },
        { WINDOW(",\"rate\":\"1/month\",\"start\":\"first\",\"calendar\":\"UTC\""), WEIR_E_VALUE,
          AT("calendar"), "cannot start with the first request" },
        { PLANNED("1/month", ""), WEIR_E_VALUE, "/plans/f/a", "Months differ in length" },
        { PLANNED("1/2days", ",\"calendar\":\"Asia/Tokyo\""), WEIR_E_VALUE, "/plans/f/a",
          "The calendar of Asia/Tokyo has no window of that length" },
        { PLANNED("1/day", ",\"calendar\":\"UTC\",\"anchor\":15"), WEIR_E_VALUE, AT("anchor"),
          "the limit has no window of months" },
        { WINDOW(",\"rate\":\"1/year\",\"calendar\":\"UTC\",\"anchor\":15"), WEIR_E_VALUE,
          AT("anchor"), "the limit has no window of months; leave it out" },
        { WINDOW(",\"rate\":\"unlimited\",\"calendar\":\"UTC\",\"anchor\":15"), WEIR_E_VALUE,
          AT("anchor"), "the limit has no window of months" },
        { WINDOW(",\"rate\":\"1/month\",\"anchor\":15"), WEIR_E_VALUE, AT("anchor"),
          "the limit has no \"calendar\"; add one" },
        { WINDOW(",\"rate\":\"1/day\",\"calendar\":\"\""), WEIR_E_VALUE, AT("calendar"),
          "The value is \"\"; wanted is a time zone such as \"UTC\"" },
        { WINDOW(",\"rate\":\"1/day\",\"calendar\":\"../passwd\""), WEIR_E_VALUE, AT("calendar"),
          "../passwd" },
        { WINDOW(",\"rate\":\"1/day\",\"calendar\":\"Europe/Berlni\""), WEIR_E_REFERENCE,
          AT("calendar"), "Europe/Berlni" },
        { WINDOW(",\"rate\":\"unlimited\",\"calendar\":\"Europe/Berlni\""), WEIR_E_REFERENCE,
          AT("calendar"), "Europe/Berlni" },
        { ROUTE("\"match\":\"\""), WEIR_E_VALUE, "/routes/0/match", "a method and a path" },
        { ROUTE("\"match\":\"/login\""), WEIR_E_VALUE, "/routes/0/match", "a method and a path" },
        { ROUTE("\"match\":\"GET\""), WEIR_E_VALUE, "/routes/0/match", "a method and a path" },
        { ROUTE("\"match\":\" /a\""), WEIR_E_VALUE, "/routes/0/match", "a method and a path" },
        { ROUTE("\"match\":\"G@T /a\""), WEIR_E_VALUE, "/routes/0/match", "a method and a path" },
        { ROUTE("\"match\":\"GET  /a\""), WEIR_E_VALUE, "/routes/0/match", "no path pattern" },
        { ROUTE("\"match\":\"GET|POST /a\""), WEIR_E_VALUE, "/routes/0/match", "GET|POST /a" },
        { ROUTE("\"match\":\"get /a\""), WEIR_E_VALUE, "/routes/0/match", "one in capitals" },
        { ROUTE("\"match\":\"GET a\""), WEIR_E_VALUE, "/routes/0/match", "start with a \"/\"" },
        { ROUTE("\"match\":\"GET /a/\""), WEIR_E_VALUE, "/routes/0/match",
          "no path looks like that" },
        { ROUTE("\"match\":\"GET /a\",\"case\":\"lower\""), WEIR_E_VALUE, "/routes/0/case",
          "\"keep\"" },
        { ROUTE("\"match\":\"GET /a\",\"auth\":\"yes\""), WEIR_E_VALUE, "/routes/0/auth",
          "\"none\", \"optional\" or \"required\"" },
        { "{\"headers\":[]}", WEIR_E_VALUE, "/headers", "The list is empty" },
        { "{\"headers\":\"draft-8\"}", WEIR_E_VALUE, "/headers", "did you mean \"draft-" },
    };
    refuse_all(rows, COUNT_OF(rows));
}

static void refuses_more_than_it_was_made_for(void **state)
{
    (void)state;
    static const struct {
        const char *start;
        size_t count;
        const char *end;
        const char *path;
        const char *text;
    } rows[] = {
        { "{\"routes\":[0", 4096, "]}", "/routes", "4097 routes; wanted are at most 4096" },
        { "{\"policies\":{\"x\":0", 256, "}}", "/policies", "257 policies" },
        { "{\"plans\":{\"x\":0", 1024, "}}", "/plans", "1025 plans" },
        { "{\"plans\":{\"x\":{\"x\":0", 64, "}}}", "/plans/x", "65 rates" },
        { "{\"policies\":{\"p\":{\"limits\":[{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"1/day\","
          "\"count\":{\"x\":0",
          64, "}}]}}}", AT("count"), "65 statuses; wanted are 1 to 64" },
    };
    static char json[65536];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t length = (size_t)snprintf(json, sizeof json, "%s", rows[i].start);
        for (size_t j = 0; j < rows[i].count; j++)
            length +=
                (size_t)(i == 0 ? snprintf(json + length, sizeof json - length, ",0")
                                : snprintf(json + length, sizeof json - length, ",\"p%zu\":0", j));
        snprintf(json + length, sizeof json - length, "%s", rows[i].end);
        print_message("    %s\n", rows[i].text);
        struct weir_error error = refusal(json);
        assert_error(&error, WEIR_E_VALUE, rows[i].path, rows[i].text);
    }
}

static void refuses_variables_it_cannot_replace(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "{\"store\":{\"url\":\"${WEIR_TEST_NOT_SET}\"}}", WEIR_E_ENVIRONMENT, "/store/url",
          "The environment variable WEIR_TEST_NOT_SET is not set." },
        { "{\"secret\":\"x${WEIR_TEST_NOT_SET}\"}", WEIR_E_ENVIRONMENT, "/secret",
          "WEIR_TEST_NOT_SET is not set" },
        { "{\"secret\":\"${WEIR_TEST_EMPTY}\"}", WEIR_E_VALUE, "/secret", "The secret is empty" },
        { "{\"secret\":\"${\"}", WEIR_E_VALUE, "/secret", "A \"${\" starts the name" },
        { "{\"secret\":\"${}\"}", WEIR_E_VALUE, "/secret", "A \"${\" starts the name" },
        { "{\"secret\":\"${A-B}\"}", WEIR_E_VALUE, "/secret", "A \"${\" starts the name" },
        { "{\"secret\":\"${1A}\"}", WEIR_E_VALUE, "/secret", "A \"${\" starts the name" },
        { "{\"store\":{\"url\":\"redis://${A\"}}", WEIR_E_VALUE, "/store/url", "A \"${\" starts" },
        { "{\"secret\":\"${WEIR_TEST_LONG}\"}", WEIR_E_VALUE, "/secret", "at most 4095 bytes" },
    };
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    setenv("WEIR_TEST_LONG", text, 1);
    setenv("WEIR_TEST_EMPTY", "", 1);
    unsetenv("WEIR_TEST_NOT_SET");
    refuse_all(rows, COUNT_OF(rows));
}

static void shows_values_that_are_long_or_strange(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { BY("\"" SIXTY_FIVE "\""), WEIR_E_VALUE, BY_PATH, "\"" TEN TEN TEN TEN TEN TEN "…\"" },
        { BY("\"" TEN TEN TEN TEN TEN "012345678ééé\""), WEIR_E_VALUE, BY_PATH, "012345678…\"" },
        { BY("\"a\\nb\""), WEIR_E_VALUE, BY_PATH, "\"a\\u000ab\"" },
        { BY("\"\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001"
             "\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\""),
          WEIR_E_VALUE, BY_PATH, "\\u0001…\"" },
        { BY("1.25"), WEIR_E_TYPE, BY_PATH, "The value is 1.25" },
        { BY("true"), WEIR_E_TYPE, BY_PATH, "The value is true" },
    };
    refuse_all(rows, COUNT_OF(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_no_json),
        cmocka_unit_test(refuses_json_that_nests_without_end),
        cmocka_unit_test(never_shows_what_may_be_a_password),
        cmocka_unit_test(suggests_what_was_meant),
        cmocka_unit_test(writes_json_pointers_that_can_be_followed),
        cmocka_unit_test(names_the_line_and_the_column),
        cmocka_unit_test(refuses_what_is_not_there),
        cmocka_unit_test(refuses_names_of_nothing),
        cmocka_unit_test(refuses_values_of_another_type),
        cmocka_unit_test(refuses_numbers_out_of_range),
        cmocka_unit_test(refuses_values_that_mean_nothing),
        cmocka_unit_test(refuses_more_than_it_was_made_for),
        cmocka_unit_test(refuses_variables_it_cannot_replace),
        cmocka_unit_test(shows_values_that_are_long_or_strange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
