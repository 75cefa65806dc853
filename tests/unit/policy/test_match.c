/* Which route a request meets, and which numbers. */
#include "parse.h"

#include "request/path.h"

static const char routes_json[] =
    "{\"policies\": {\"p\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": "
    "\"1/second\"}]}},"
    " \"routes\": ["
    "  {\"match\": \"GET /v1/items/:id\", \"policy\": \"p\", \"cost\": 2},"
    "  {\"match\": \"POST /v1/items\", \"policy\": \"p\"},"
    "  {\"match\": \"OPTIONS /asked\", \"policy\": \"p\"},"
    "  {\"match\": \"* /asked\", \"policy\": \"p\"},"
    "  {\"match\": \"GET /Case\", \"policy\": \"p\"},"
    "  {\"match\": \"GET /fold\", \"policy\": \"p\", \"case\": \"fold\"},"
    "  {\"match\": \"PROPFIND /dav/*\", \"policy\": \"p\"},"
    "  {\"match\": \"* /v1/*\", \"policy\": \"p\", \"auth\": \"required\"}],"
    " \"default\": {\"policy\": \"p\", \"auth\": \"optional\", \"cost\": 3}}";

/* A request line such as "GET /a" as facts, with one header line unless that is NULL. */
static const char *matched(const struct weir_policy *policy, const char *request,
                           const char *header, struct weir_match *match)
{
    char memory[256];
    struct weir_text target = weir_text_from(request), method;
    struct weir_line line = { weir_text_from(header), WEIR_TEXT("POST") };
    struct weir_buffer path = weir_buffer_init(memory, sizeof memory);
    weir_text_take_first(&target, ' ', &method);
    struct weir_facts facts = {
        .method = method, .target = target, .headers = &line, .header_count = header == NULL ? 0 : 1
    };
    if (weir_path_normalise(target, WEIR_PATH_DECODED, &path))
        facts.path = weir_buffer_text(&path);
    memset(match, 0xAA, sizeof *match);
    weir_policy_match(policy, &facts, match);
    return match->route->match;
}

static void finds_the_first_route_that_matches(void **state)
{
    (void)state;
    static const char preflight[] = "access-control-request-method";
    static const struct {
        const char *when;
        const char *request;
        const char *header;
        const char *want;
    } rows[] = {
        { "method and path", "POST /v1/items", NULL, "POST /v1/items" },
        { "a parameter", "GET /v1/items/7", NULL, "GET /v1/items/:id" },
        { "HEAD is taken by GET", "HEAD /v1/items/7", NULL, "GET /v1/items/:id" },
        { "GET is not taken by POST", "GET /v1/items", NULL, "* /v1/*" },
        { "another method", "DELETE /v1/items/7", NULL, "* /v1/*" },
        { "methods keep their case", "post /v1/items", NULL, "* /v1/*" },
        { "a slash too many", "POST //v1/./items/", NULL, "POST /v1/items" },
        { "a method of its own", "PROPFIND /dav/a", NULL, "PROPFIND /dav/*" },
        { "nothing matches", "GET /other", NULL, "default" },
        { "another case of the path", "GET /case", NULL, "default" },
        { "a folded path", "GET /FOLD", NULL, "GET /fold" },
        { "a path above the root", "GET /../v1/items/7", NULL, "default" },
        { "no path", "OPTIONS *", NULL, "default" },
        { "OPTIONS", "OPTIONS /v1/items", NULL, "* /v1/*" },
        { "OPTIONS that a route names", "OPTIONS /asked", NULL, "OPTIONS /asked" },
        { "a preflight is free", "OPTIONS /v1/items", preflight, "preflight" },
        { "even of an unknown path", "OPTIONS /other", preflight, "preflight" },
        { "a preflight that a route names", "OPTIONS /asked", preflight, "OPTIONS /asked" },
        { "a preflight of a bad path", "OPTIONS /..", preflight, "default" },
        { "no preflight, for GET", "GET /v1/items", preflight, "* /v1/*" },
        { "no preflight without the header", "OPTIONS /v1/items", "Origin", "* /v1/*" },
    };
    struct weir_policy *policy = parse(routes_json);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_match match;
        print_message("    %s\n", rows[i].when);
        assert_string_equal(matched(policy, rows[i].request, rows[i].header, &match), rows[i].want);
    }
    weir_policy_free(policy);
}

static void hands_out_the_parameters_of_the_match(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(routes_json);
    char path[] = "/v1/items/7";
    struct weir_facts facts = { .method = WEIR_TEXT("GET"), .path = weir_text_from(path) };
    struct weir_match match;
    weir_policy_match(policy, &facts, &match);
    assert_int_equal(match.params.count, 1);
    struct weir_text name, value;
    weir_params_at(&match.params, 0, &name, &value);
    assert_true(weir_text_equal(name, WEIR_TEXT("id")));
    assert_ptr_equal(value.at, path + 10);
    assert_null(match.params.rest.at);

    facts.method = WEIR_TEXT("PUT");
    weir_policy_match(policy, &facts, &match);
    assert_int_equal(match.params.count, 0);
    assert_true(weir_text_equal(match.params.rest, WEIR_TEXT("/items/7")));
    weir_policy_free(policy);
}

static void leaves_no_parameters_where_nothing_matches(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(routes_json);
    struct weir_match match;
    static const char *const requests[] = { "GET /v2/items/7", "GET /..", "OPTIONS *" };
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        assert_string_equal(matched(policy, requests[i], NULL, &match), "default");
        assert_int_equal(match.params.count, 0);
        assert_null(match.params.rest.at);
        assert_ptr_equal(match.route, &policy->fallback);
        assert_int_equal(match.route->cost, 3);
        assert_int_equal(match.route->auth, WEIR_AUTH_OPTIONAL);
    }
    weir_policy_free(policy);
}

static void asks_nothing_of_a_preflight(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(routes_json);
    struct weir_match match;
    matched(policy, "OPTIONS /v1/items", "Access-Control-Request-Method", &match);
    assert_null(match.route->ruleset);
    assert_int_equal(match.route->auth, WEIR_AUTH_NONE);
    assert_int_equal(match.params.count, 0);
    weir_policy_free(policy);
}

static void limits_nothing_where_the_file_has_no_default(void **state)
{
    (void)state;
    struct weir_policy *policy = parse("{}");
    struct weir_match match;
    assert_string_equal(matched(policy, "GET /", NULL, &match), "default");
    assert_false(policy->has_default);
    assert_null(match.route->ruleset);
    assert_int_equal(match.route->auth, WEIR_AUTH_NONE);
    weir_policy_free(policy);
}

/* numbers */

static const char plans_json[] =
    "{\"plans\": {\"free\": {\"a\": {\"rate\": \"5/second\", \"burst\": 10}, \"b\": \"unlimited\"},"
    "             \"pro\": {\"a\": \"50/second\", \"b\": \"7/minute\"},"
    "             \"none\": {\"a\": \"0/second\", \"b\": \"0/second\"}},"
    " \"default_plan\": \"pro\","
    " \"policies\": {\"p\": {\"limits\": ["
    "   {\"name\": \"a\", \"by\": \"ip\", \"rate\": \"plan\"},"
    "   {\"name\": \"b\", \"by\": \"ip\", \"rate\": \"plan\", \"algorithm\": \"fixed-window\"},"
    "   {\"name\": \"c\", \"by\": \"ip\", \"rate\": \"3/second\"},"
    "   {\"name\": \"d\", \"by\": \"ip\", \"rate\": \"unlimited\"}]}}}";

static void takes_numbers_from_the_plan(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        size_t limit;
        bool limits;
        uint64_t number, burst;
    } rows[] = {
        { "free", 0, true, 5, 10 }, { "free", 1, false, 0, 0 },        { "free", 2, true, 3, 3 },
        { "free", 3, false, 0, 0 }, { "pro", 0, true, 50, 50 },        { "pro", 1, true, 7, 7 },
        { "none", 0, true, 0, 0 },  { "unheard-of", 0, true, 50, 50 }, { NULL, 0, true, 50, 50 },
        { "", 1, true, 7, 7 },      { "Free", 0, true, 50, 50 },
    };
    struct weir_policy *policy = parse(plans_json);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_limit_numbers numbers = { .rate = { .limit = 77, .burst = 77 } };
        print_message("    %s, limit %zu\n", rows[i].plan == NULL ? "no plan" : rows[i].plan,
                      rows[i].limit);
        assert_int_equal(weir_limit_rate(policy, &policy->rulesets[0].limits[rows[i].limit],
                                         weir_text_from(rows[i].plan), &numbers),
                         rows[i].limits);
        assert_int_equal(numbers.rate.limit, rows[i].limits ? rows[i].number : 77);
        assert_int_equal(numbers.rate.burst, rows[i].limits ? rows[i].burst : 77);
        assert_null(numbers.calendar);
    }
    weir_policy_free(policy);
}

static const char calendars_json[] =
    "{\"plans\": {"
    "   \"day\": {\"a\": \"5/day\", \"b\": \"7/day\"},"
    "   \"week\": {\"a\": \"5/week\", \"b\": \"7/week\"},"
    "   \"month\": {\"a\": \"5/month\", \"b\": \"7/30days\"},"
    "   \"none\": {\"a\": \"unlimited\", \"b\": \"unlimited\"}},"
    " \"policies\": {\"p\": {\"limits\": ["
    "   {\"name\": \"a\", \"by\": \"ip\", \"rate\": \"plan\","
    "    \"algorithm\": \"fixed-window\", \"calendar\": \"UTC\", \"anchor\": 15},"
    "   {\"name\": \"b\", \"by\": \"ip\", \"rate\": \"plan\","
    "    \"algorithm\": \"fixed-window\"},"
    "   {\"name\": \"c\", \"by\": \"ip\", \"rate\": \"5/month\","
    "    \"algorithm\": \"fixed-window\", \"calendar\": \"UTC\"}]},"
    "  \"q\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"plan\","
    "    \"algorithm\": \"fixed-window\", \"calendar\": \"Asia/Tokyo\"}]}}}";

/* 2024-02-29 12:00 UTC */
#define LEAP_DAY_US UINT64_C(1709208000000000)
#define DAY_US      UINT64_C(86400000000)

static void takes_the_calendar_of_the_plan(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        size_t ruleset, limit;
        bool has_calendar;
        uint64_t start_us, days; /* of the window that the leap day's noon is in */
    } rows[] = {
        /* A day of UTC is the same on the clock, so there is no calendar to ask. */
        { "day", 0, 0, false, 0, 0 },
        { "week", 0, 0, true, LEAP_DAY_US - 3 * DAY_US - DAY_US / 2, 7 },
        { "month", 0, 0, true, LEAP_DAY_US - 14 * DAY_US - DAY_US / 2, 29 },
        { "week", 0, 1, false, 0, 0 },
        { "month", 0, 1, false, 0, 0 },
        { "day", 0, 2, true, LEAP_DAY_US - 28 * DAY_US - DAY_US / 2, 29 },
        { "none", 0, 2, true, LEAP_DAY_US - 28 * DAY_US - DAY_US / 2, 29 },
        /* The same plans under another policy, nine hours ahead. */
        { "day", 1, 0, true, LEAP_DAY_US - DAY_US / 24 * 21, 1 },
        { "month", 1, 0, true, LEAP_DAY_US - 28 * DAY_US - DAY_US / 24 * 21, 29 },
    };
    struct weir_policy *policy = parse(calendars_json);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_limit_numbers numbers;
        print_message("    %s, limit %zu of %zu\n", rows[i].plan, rows[i].limit, rows[i].ruleset);
        assert_true(weir_limit_rate(policy,
                                    &policy->rulesets[rows[i].ruleset].limits[rows[i].limit],
                                    weir_text_from(rows[i].plan), &numbers));
        assert_int_equal(numbers.calendar != NULL, rows[i].has_calendar);
        if (numbers.calendar == NULL)
            continue;
        struct weir_window window = weir_calendar_window(numbers.calendar, LEAP_DAY_US);
        assert_int_equal(window.start_us, rows[i].start_us);
        assert_int_equal(window.end_us - window.start_us, rows[i].days * DAY_US);
    }
    weir_policy_free(policy);
}

static void makes_each_calendar_once(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse("{\"policies\": {\"p\": {\"limits\": ["
              "   {\"name\": \"a\", \"by\": \"ip\", \"rate\": \"5/month\","
              "    \"algorithm\": \"fixed-window\", \"calendar\": \"UTC\"},"
              "   {\"name\": \"b\", \"by\": \"ip\", \"rate\": \"6/month\","
              "    \"algorithm\": \"fixed-window\", \"calendar\": \"UTC\", \"anchor\": 1},"
              "   {\"name\": \"c\", \"by\": \"ip\", \"rate\": \"6/month\","
              "    \"algorithm\": \"fixed-window\", \"calendar\": \"UTC\", \"anchor\": 2},"
              "   {\"name\": \"d\", \"by\": \"ip\", \"rate\": \"6/2months\","
              "    \"algorithm\": \"fixed-window\", \"calendar\": \"UTC\"}]}}}");
    const struct weir_limit_rule *limits = policy->rulesets[0].limits;
    assert_ptr_equal(limits[0].calendar, limits[1].calendar);
    assert_ptr_not_equal(limits[0].calendar, limits[2].calendar);
    assert_ptr_not_equal(limits[0].calendar, limits[3].calendar);
    weir_policy_free(policy);
}

/* outcomes */

static void counts_by_the_status_of_the_reply(void **state)
{
    (void)state;
    static struct weir_status_units table[] = {
        { 4, 3 }, { 401, 2 }, { 404, 0 }, { 500, 1000 }, { 5, 0 },
    };
    static const struct {
        const char *when;
        enum weir_count_kind kind;
        unsigned status;
        uint64_t cost, want;
    } rows[] = {
        { "all", WEIR_COUNT_ALL, 500, 7, 7 },
        { "a failure among failures", WEIR_COUNT_FAILURES, 400, 7, 7 },
        { "a fault of the server's among failures", WEIR_COUNT_FAILURES, 503, 1, 1 },
        { "a redirection among failures", WEIR_COUNT_FAILURES, 399, 7, 0 },
        { "a success among failures", WEIR_COUNT_FAILURES, 200, 7, 0 },
        { "a success among successes", WEIR_COUNT_SUCCESSES, 204, 7, 7 },
        { "a redirection among successes", WEIR_COUNT_SUCCESSES, 399, 7, 7 },
        { "a failure among successes", WEIR_COUNT_SUCCESSES, 400, 7, 0 },
        { "a status of the table", WEIR_COUNT_TABLE, 401, 7, 14 },
        { "a status that counts nothing", WEIR_COUNT_TABLE, 404, 7, 0 },
        { "a class of the table", WEIR_COUNT_TABLE, 403, 7, 21 },
        { "a status before its class", WEIR_COUNT_TABLE, 500, 7, 7000 },
        { "a class that counts nothing", WEIR_COUNT_TABLE, 599, 7, 0 },
        { "a status that is not in the table", WEIR_COUNT_TABLE, 200, 7, 7 },
        { "a status that is none", WEIR_COUNT_TABLE, 0, 7, 7 },
        { "a class as if it were a status", WEIR_COUNT_TABLE, 40, 7, 7 },
        { "a cost of nothing", WEIR_COUNT_TABLE, 401, 0, 0 },
        { "more than a limit can count", WEIR_COUNT_TABLE, 500, WEIR_UNITS_MAX, WEIR_UNITS_MAX },
        { "as much as a limit can count", WEIR_COUNT_TABLE, 500, WEIR_UNITS_MAX / 1000,
          WEIR_UNITS_MAX },
        { "more than a number can hold", WEIR_COUNT_TABLE, 401, UINT64_MAX, WEIR_UNITS_MAX },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        const struct weir_limit_rule limit = { .count = { rows[i].kind, table, COUNT_OF(table) } };
        assert_int_equal(weir_count_units(&limit, rows[i].status, rows[i].cost), rows[i].want);
        assert_int_equal(weir_counts_outcome(&limit), rows[i].kind != WEIR_COUNT_ALL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_first_route_that_matches),
        cmocka_unit_test(hands_out_the_parameters_of_the_match),
        cmocka_unit_test(leaves_no_parameters_where_nothing_matches),
        cmocka_unit_test(asks_nothing_of_a_preflight),
        cmocka_unit_test(limits_nothing_where_the_file_has_no_default),
        cmocka_unit_test(takes_numbers_from_the_plan),
        cmocka_unit_test(takes_the_calendar_of_the_plan),
        cmocka_unit_test(makes_each_calendar_once),
        cmocka_unit_test(counts_by_the_status_of_the_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
