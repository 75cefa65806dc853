/* One plan from a policy's limits: keys, groups and numbers; shares; one verdict. */
#include "test.h"

#include "limit/combine.h"

#define MINUTE_US UINT64_C(60000000)

static struct weir_policy *parse(const char *json)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    if (weir_policy_parse(json, strlen(json), NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    return policy;
}

/* What a plan is made of here: one asker, who has an address, perhaps an API key and a plan, and a
 * route. */
struct fixture {
    struct weir_policy *policy;
    struct weir_api_key api_key;
    struct weir_identity identity;
    struct weir_asker asker;
    struct weir_plan_of_checks plan;
    char keys[WEIR_PLAN_KEY_BYTES];
};

/* What was worked out before makes the same plan as what is worked out for one asker. */
static void check_prepared(const struct fixture *fixture)
{
    struct weir_prepared_set *set = weir_prepared_new(fixture->policy);
    assert_non_null(set);
    struct weir_asker asker = fixture->asker;
    asker.prepared = set;
    static char keys[WEIR_PLAN_KEY_BYTES];
    struct weir_plan_of_checks plan;
    weir_plan_init(&plan, keys, sizeof keys);
    assert_true(weir_plan_add(&plan, &fixture->policy->rulesets[0], &asker, 3));
    assert_int_equal(plan.count, fixture->plan.count);
    for (size_t i = 0; i < plan.count; i++) {
        const struct weir_spend *spend = &plan.spends[i], *wanted = &fixture->plan.spends[i];
        assert_int_equal(spend->key_length, wanted->key_length);
        assert_memory_equal(spend->key, wanted->key, wanted->key_length);
        assert_int_equal(spend->group_length, wanted->group_length);
        assert_int_equal(spend->algorithm, wanted->algorithm);
        assert_int_equal(spend->cost, wanted->cost);
        assert_memory_equal(&spend->rate, &wanted->rate, sizeof wanted->rate);
        assert_ptr_equal(spend->calendar, wanted->calendar);
        assert_ptr_equal(spend->penalty, wanted->penalty);
        assert_ptr_equal(plan.planned[i].limit, fixture->plan.planned[i].limit);
        assert_int_equal(plan.planned[i].prepared != NULL, spend->algorithm != WEIR_PENALTY);
        assert_null(fixture->plan.planned[i].prepared);
    }
    weir_prepared_free(set);
}

static void make_plan(struct fixture *fixture, const char *json, const char *api_key,
                      const char *plan, const char *route)
{
    fixture->policy = parse(json);
    fixture->api_key = (struct weir_api_key){ .id = api_key };
    fixture->identity = (struct weir_identity){
        .found = true,
        .client = { .family = WEIR_IPV4, .bytes = { 192, 0, 2, 7 } },
        .network = { .address = { .family = WEIR_IPV4, .bytes = { 192, 0, 2, 7 } }, .prefix = 32 },
        .api_key = api_key == NULL ? NULL : &fixture->api_key,
        .plan = weir_text_from(plan),
    };
    fixture->asker = (struct weir_asker){ .policy = fixture->policy,
                                          .identity = &fixture->identity,
                                          .route = weir_text_from(route) };
    fixture->plan.count = 0;
    fixture->plan.keys = weir_buffer_init(fixture->keys, sizeof fixture->keys);
    assert_true(weir_plan_add(&fixture->plan, &fixture->policy->rulesets[0], &fixture->asker, 3));
    check_prepared(fixture);
}

static void drop_plan(struct fixture *fixture)
{
    fixture->policy = weir_policy_free(fixture->policy);
}

/* "key" with a "|" where what it has in common with its group ends. */
static const char *key_as_text(const struct weir_spend *spend)
{
    static char text[WEIR_KEY_MAX + 2];
    snprintf(text, sizeof text, "%.*s%s%.*s", (int)spend->group_length, spend->key,
             spend->group_length > 0 ? "|" : "", (int)(spend->key_length - spend->group_length),
             spend->key + spend->group_length);
    return text;
}

#define LIMIT(name, by) "{\"name\":\"" name "\",\"by\":" by ",\"rate\":\"5/minute\"}"
#define LOG(name, by)                                                                              \
    "{\"name\":\"" name "\",\"by\":" by ",\"rate\":\"5/minute\",\"algorithm\":\"sliding-log\"}"
#define POLICY(members, limits) "{\"policies\":{\"p\":{" members "\"limits\":[" limits "]}}}"

static void keeps_the_limits_of_one_client_together(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *json;
        const char *api_key;
        const char *keys[3];
    } rows[] = {
        { "one limit",
          POLICY("", LIMIT("a", "\"ip\"")),
          NULL,
          { "weir:{ip=192.0.2.7/32}:p:a:gcra" } },
        { "one limit in the policy's slot",
          POLICY("\"slot\":\"policy\",", LIMIT("a", "\"ip\"")),
          NULL,
          { "weir:{p}:p:a:gcra:ip=192.0.2.7/32" } },
        { "two of one subject",
          POLICY("", LIMIT("a", "\"ip\"") "," LOG("b", "\"ip\"")),
          NULL,
          { "weir:{ip=192.0.2.7/32}:p|:a:gcra", "weir:{ip=192.0.2.7/32}:p|:b:log" } },
        { "two of one subject in the policy's slot",
          POLICY("\"slot\":\"policy\",", LIMIT("a", "\"ip\"") "," LOG("b", "\"ip\"")),
          NULL,
          { "weir:{p}:p::ip=192.0.2.7/32:|a:gcra", "weir:{p}:p::ip=192.0.2.7/32:|b:log" } },
        { "two of one subject and one of another",
          POLICY("", LIMIT("a", "\"ip\"") "," LIMIT("b", "\"api_key\"") "," LIMIT("c", "\"ip\"")),
          "one",
          { "weir:{p}:p::ip=192.0.2.7/32:|a:gcra", "weir:{p}:p:b:gcra:api_key=one",
            "weir:{p}:p::ip=192.0.2.7/32:|c:gcra" } },
        { "one that does not apply",
          POLICY("", LIMIT("a", "\"ip\"") "," LIMIT("b", "\"api_key\"") "," LIMIT("c", "\"ip\"")),
          NULL,
          { "weir:{p}:p::ip=192.0.2.7/32:|a:gcra", "weir:{p}:p::ip=192.0.2.7/32:|c:gcra" } },
        { "different subjects in slots of their own",
          POLICY("\"slot\":\"identity\",", LIMIT("a", "\"ip\"") "," LIMIT("b", "\"api_key\"")),
          "one",
          { "weir:{ip=192.0.2.7/32}:p:a:gcra", "weir:{api_key=one}:p:b:gcra" } },
        /* A counter of another window, and another plan, have a sum of their own. */
        { "windows and plans",
          "{\"plans\":{\"free\":{\"a\":\"5/hour\",\"b\":\"5/"
          "hour\"}},\"policies\":{\"p\":{\"limits\":["
          "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"plan\"},"
          "{\"name\":\"b\",\"by\":\"ip\",\"rate\":\"plan\",\"algorithm\":\"fixed-window\"},"
          "{\"name\":\"c\",\"by\":\"ip\",\"rate\":\"5/"
          "minute\",\"algorithm\":\"sliding-counter\"}]}}}",
          NULL,
          { "weir:{ip=192.0.2.7/32}:p|:a:gcra@free",
            "weir:{ip=192.0.2.7/32}:p|:b:fixed-3600000ms@free",
            "weir:{ip=192.0.2.7/32}:p|:c:sliding-60000ms" } },
        /* Their subjects are the same for now, their bys are not. */
        { "different bys",
          POLICY("", LIMIT("a", "\"ip\"") "," LIMIT("b", "\"api_key|ip\"")),
          NULL,
          { "weir:{p}:p:a:gcra:ip=192.0.2.7/32", "weir:{p}:p:b:gcra:ip=192.0.2.7/32" } },
    };
    struct fixture fixture;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        make_plan(&fixture, rows[i].json, rows[i].api_key, NULL, NULL);
        size_t count = 0;
        while (count < COUNT_OF(rows[i].keys) && rows[i].keys[count] != NULL)
            count++;
        assert_int_equal(fixture.plan.count, count);
        for (size_t j = 0; j < count; j++)
            assert_string_equal(key_as_text(&fixture.plan.spends[j]), rows[i].keys[j]);
        drop_plan(&fixture);
    }
}

/* The key of one limit, and what another client's limits have in common. */
static void keeps_groups_apart_whatever_clients_are_called(void **state)
{
    (void)state;
    static const char json[] =
        POLICY("\"slot\":\"policy\",", LOG("a", "\"route\"") "," LIMIT("b", "\"route\""));
    static const struct {
        const char *one, *other;
    } rows[] = { { "x", "x:a:log" }, { "x", "x:a:log:" }, { "x", "x:" }, { "a", "a:b:gcra" } };
    struct fixture one, other;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s and %s\n", rows[i].one, rows[i].other);
        make_plan(&one, json, NULL, NULL, rows[i].one);
        make_plan(&other, json, NULL, NULL, rows[i].other);
        const struct weir_spend *ours = one.plan.spends;
        const struct weir_spend *theirs = other.plan.spends;
        for (size_t j = 0; j < 2; j++) {
            assert_false(ours[j].key_length == theirs[0].group_length
                         && memcmp(ours[j].key, theirs[0].key, ours[j].key_length) == 0);
            assert_false(ours[j].group_length == theirs[0].group_length
                         && memcmp(ours[j].key, theirs[0].key, ours[j].group_length) == 0);
        }
        drop_plan(&one);
        drop_plan(&other);
    }
}

static const char one_of_each[] =
    "{\"plans\":{\"free\":{\"e\":\"9/month\"},\"pro\":{\"e\":\"8/"
    "week\"},\"none\":{\"e\":\"unlimited\"}},"
    "\"policies\":{\"p\":{\"limits\":["
    "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"5/"
    "minute\",\"algorithm\":\"token-bucket\",\"burst\":7},"
    "{\"name\":\"b\",\"by\":\"ip\",\"rate\":\"5/"
    "minute\",\"algorithm\":\"leaky-bucket\",\"burst\":7,"
    " \"max_wait\":\"3s\"},"
    "{\"name\":\"c\",\"by\":\"ip\",\"rate\":\"5/"
    "minute\",\"algorithm\":\"sliding-log\",\"record\":\"all\"},"
    "{\"name\":\"d\",\"by\":\"ip\",\"rate\":\"5/"
    "minute\",\"algorithm\":\"fixed-window\",\"start\":\"first\"},"
    "{\"name\":\"e\",\"by\":\"ip\",\"rate\":\"plan\",\"algorithm\":\"fixed-window\",\"calendar\":"
    "\"UTC\","
    " \"anchor\":15},"
    "{\"name\":\"f\",\"by\":\"ip\",\"rate\":\"5/minute\",\"algorithm\":\"sliding-counter\","
    " \"count\":\"failures\"}]}}}";

static void hands_everything_that_a_limit_says_to_the_store(void **state)
{
    (void)state;
    struct fixture fixture;
    make_plan(&fixture, one_of_each, NULL, "pro", NULL);
    const struct weir_spend *spends = fixture.plan.spends;
    assert_int_equal(fixture.plan.count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(spends[i].cost, 3);
        assert_int_equal(spends[i].from_first, i == 3);
        assert_int_equal(spends[i].logs_refusals, i == 2);
        assert_int_equal(spends[i].max_wait_us, i == 1 ? 3000000 : 0);
        assert_int_equal(spends[i].rate.burst, i < 2 ? 7 : i == 4 ? 8 : 5);
        assert_int_equal(spends[i].calendar != NULL, i == 4);
        assert_int_equal(spends[i].reserved + spends[i].decided_us + spends[i].full_us, 0);
        assert_ptr_equal(fixture.plan.planned[i].ruleset, &fixture.policy->rulesets[0]);
        assert_ptr_equal(fixture.plan.planned[i].limit, &fixture.policy->rulesets[0].limits[i]);
    }
    assert_int_equal(spends[0].algorithm, WEIR_TOKEN_BUCKET);
    assert_int_equal(spends[1].algorithm, WEIR_LEAKY_BUCKET);
    assert_int_equal(spends[2].algorithm, WEIR_SLIDING_LOG);
    assert_int_equal(spends[3].algorithm, WEIR_FIXED_WINDOW);
    assert_int_equal(spends[4].algorithm, WEIR_FIXED_WINDOW);
    assert_int_equal(spends[5].algorithm, WEIR_SLIDING_COUNTER);
    struct weir_window week = weir_calendar_window(spends[4].calendar, UINT64_C(1700000000000000));
    assert_int_equal(week.end_us - week.start_us, UINT64_C(7) * 86400 * 1000000);
    drop_plan(&fixture);

    make_plan(&fixture, one_of_each, NULL, "none", NULL);
    assert_int_equal(fixture.plan.count, 5);
    drop_plan(&fixture);
}

static void prepares_each_policy_for_each_plan_that_matters(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse("{\"default_plan\": \"small\", \"plans\": {\"small\": {\"a\": \"5/minute\"},"
              " \"large\": {\"a\": \"50/minute\"}, \"free\": {\"a\": \"unlimited\"}},"
              " \"policies\": {\"planned\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\","
              " \"rate\": \"plan\"}]}, \"plain\": {\"limits\": [" LIMIT("a", "\"ip\"") "]}}}");
    struct weir_prepared_set *set = weir_prepared_new(policy);
    static const struct {
        const char *plan;
        bool limits;
        uint64_t limit;
    } rows[] = {
        { "small", true, 5 },   { "large", true, 50 }, { "free", false, 0 },
        { "unknown", true, 5 }, { NULL, true, 5 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct weir_prepared *prepared =
            weir_prepared_find(set, &policy->rulesets[0], weir_text_from(rows[i].plan));
        assert_int_equal(prepared->limits[0].limits, rows[i].limits);
        if (rows[i].limits)
            assert_int_equal(prepared->limits[0].spend.rate.limit, rows[i].limit);
        assert_ptr_equal(
            weir_prepared_find(set, &policy->rulesets[1], weir_text_from(rows[i].plan)),
            weir_prepared_find(set, &policy->rulesets[1], WEIR_TEXT("small")));
    }
    const struct weir_text none = { NULL, 0 };
    assert_null(weir_prepared_find(set, &policy->guesses, none));
    assert_null(weir_prepared_find(NULL, &policy->rulesets[0], none));
    weir_prepared_free(set);
    weir_policy_free(policy);
}

static void takes_no_more_limits_than_a_check_has(void **state)
{
    (void)state;
    struct fixture fixture;
    make_plan(&fixture,
              POLICY("", LIMIT("a", "\"ip\"") "," LIMIT("b", "\"ip\"") "," LIMIT("c", "\"ip\"")),
              NULL, NULL, NULL);
    const struct weir_ruleset *ruleset = &fixture.policy->rulesets[0];
    assert_true(weir_plan_add(&fixture.plan, ruleset, &fixture.asker, 1));
    assert_int_equal(fixture.plan.count, 6);
    assert_false(weir_plan_add(&fixture.plan, ruleset, &fixture.asker, 1));
    assert_int_equal(fixture.plan.count, WEIR_CHECK_LIMITS);
    drop_plan(&fixture);

    make_plan(&fixture, POLICY("", LIMIT("a", "\"ip\"")), NULL, NULL, NULL);
    fixture.plan.keys = weir_buffer_init(fixture.keys, 8);
    fixture.plan.count = 0;
    assert_false(weir_plan_add(&fixture.plan, &fixture.policy->rulesets[0], &fixture.asker, 1));
    drop_plan(&fixture);
}

static void shares_units_of_windows_and_time_of_the_rest(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        enum weir_algorithm algorithm;
        uint64_t limit, burst; /* of the whole; a minute */
        unsigned instances;
        struct {
            uint64_t limit, burst, window_us;
        } want;
    } rows[] = {
        { "gcra", WEIR_GCRA, 100, 50, 4, { 100, 12, 4 * MINUTE_US } },
        { "a token bucket", WEIR_TOKEN_BUCKET, 100, 50, 4, { 100, 12, 4 * MINUTE_US } },
        { "a leaky bucket", WEIR_LEAKY_BUCKET, 100, 50, 4, { 100, 12, 4 * MINUTE_US } },
        { "a fixed window", WEIR_FIXED_WINDOW, 100, 100, 3, { 33, 33, MINUTE_US } },
        { "a sliding counter", WEIR_SLIDING_COUNTER, 100, 100, 3, { 33, 33, MINUTE_US } },
        { "a sliding log", WEIR_SLIDING_LOG, 100, 100, 3, { 33, 33, MINUTE_US } },
        { "fewer than there are instances", WEIR_SLIDING_LOG, 2, 2, 3, { 1, 1, MINUTE_US } },
        { "nothing", WEIR_SLIDING_LOG, 0, 0, 3, { 0, 0, MINUTE_US } },
        { "one instance", WEIR_SLIDING_COUNTER, 100, 100, 1, { 100, 100, MINUTE_US } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_rate whole;
        print_message("    %s\n", rows[i].when);
        assert_int_equal(weir_rate_make(rows[i].limit, MINUTE_US, rows[i].burst, &whole, NULL),
                         WEIR_OK);
        const struct weir_limit_rule rule = { .algorithm = rows[i].algorithm };
        struct weir_rate share = weir_rate_share(&whole, &rule, rows[i].instances);
        assert_int_equal(share.limit, rows[i].want.limit);
        assert_int_equal(share.burst, rows[i].want.burst);
        assert_int_equal(share.window_us, rows[i].want.window_us);
    }
}

static void leaves_three_tries_where_failures_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct weir_limit_rule rule;
        uint64_t limit, window_us;
        unsigned instances;
        struct {
            uint64_t burst, window_us;
        } want;
    } rows[] = {
        { "a log",
          { .algorithm = WEIR_SLIDING_LOG, .count.kind = WEIR_COUNT_FAILURES },
          5,
          MINUTE_US,
          3,
          { 3, MINUTE_US } },
        { "a rate",
          { .algorithm = WEIR_GCRA, .count.kind = WEIR_COUNT_FAILURES },
          10,
          MINUTE_US,
          100,
          { 3, 100 * MINUTE_US } },
        { "a rate whose window would be too long",
          { .algorithm = WEIR_GCRA, .count.kind = WEIR_COUNT_FAILURES },
          10,
          WEIR_WINDOW_MAX_US,
          100,
          { 3, WEIR_WINDOW_MAX_US } },
        { "enough for all",
          { .algorithm = WEIR_SLIDING_LOG, .count.kind = WEIR_COUNT_FAILURES },
          100,
          MINUTE_US,
          10,
          { 10, MINUTE_US } },
        { "fewer than three",
          { .algorithm = WEIR_SLIDING_LOG, .count.kind = WEIR_COUNT_FAILURES },
          2,
          MINUTE_US,
          10,
          { 2, MINUTE_US } },
        { "what counts nothing but stands beside",
          { .algorithm = WEIR_SLIDING_LOG },
          5,
          MINUTE_US,
          3,
          { 3, MINUTE_US } },
        { "a year's hard stop, which holds a day",
          { .algorithm = WEIR_FIXED_WINDOW, .from_first = true, .count.kind = WEIR_COUNT_FAILURES },
          100,
          WEIR_WINDOW_MAX_US,
          100,
          { 3, 24 * 60 * MINUTE_US } },
        { "a year on the clock, whose edges stay",
          { .algorithm = WEIR_FIXED_WINDOW, .count.kind = WEIR_COUNT_FAILURES },
          100,
          WEIR_WINDOW_MAX_US,
          100,
          { 3, WEIR_WINDOW_MAX_US } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_rate whole;
        print_message("    %s\n", rows[i].when);
        assert_int_equal(weir_rate_make(rows[i].limit, rows[i].window_us, 0, &whole, NULL),
                         WEIR_OK);
        struct weir_limit_rule rule = rows[i].rule;
        rule.is_for_tries = true;
        struct weir_rate share = weir_rate_share(&whole, &rule, rows[i].instances);
        assert_int_equal(share.burst, rows[i].want.burst);
        assert_int_equal(share.window_us, rows[i].want.window_us);
    }
}

/* However it has to be rounded to be exact. */
static void leaves_three_tries_of_every_rate(void **state)
{
    (void)state;
    static const uint64_t limits[] = { 3, 5, 7, 10, 11, 100, 999, 29219, 999999937, 1000000000 };
    static const uint64_t windows[] = { 1000, MINUTE_US, 86399999000, WEIR_WINDOW_MAX_US };
    static const unsigned instances[] = { 2, 3, 7, 100, 9999, 10000 };
    for (int algorithm = WEIR_GCRA; algorithm < WEIR_PENALTY; algorithm++)
        for (size_t i = 0; i < COUNT_OF(limits) * COUNT_OF(windows) * COUNT_OF(instances); i++) {
            const struct weir_limit_rule rule = { .algorithm = (enum weir_algorithm)algorithm,
                                                  .is_for_tries = true };
            uint64_t limit = limits[i % COUNT_OF(limits)];
            uint64_t window_us = windows[i / COUNT_OF(limits) % COUNT_OF(windows)];
            struct weir_rate whole;
            if (weir_rate_make(limit, window_us, 0, &whole, NULL) != WEIR_OK)
                continue;
            struct weir_rate share =
                weir_rate_share(&whole, &rule, instances[i / COUNT_OF(limits) / COUNT_OF(windows)]);
            assert_true(share.burst >= 3 && share.burst <= whole.burst);
            assert_true(share.limit >= 1);
        }
}

static void lets_memory_tell_nobody_to_wait_longer_than_a_minute(void **state)
{
    (void)state;
    struct weir_answer answers[] = { { .retry_us = 59999999, .reset_us = MINUTE_US * 5 },
                                     { .retry_us = MINUTE_US * 5, .reset_us = MINUTE_US * 5 },
                                     { .allowed = true } };
    weir_cap_waits(answers, COUNT_OF(answers));
    assert_int_equal(answers[0].retry_us, 59999999);
    assert_int_equal(answers[1].retry_us, MINUTE_US);
    assert_int_equal(answers[1].reset_us, MINUTE_US * 5);
    assert_int_equal(answers[2].retry_us, 0);
}

static void takes_the_worst_of_several_answers(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct weir_answer answers[3];
        struct weir_combined want;
    } rows[] = {
        { "all let it through",
          { { .allowed = true }, { .allowed = true }, { .allowed = true } },
          { .allowed = true } },
        { "one refuses",
          { { .allowed = true }, { .retry_us = 5 }, { .allowed = true } },
          { .worst = 1, .retry_us = 5 } },
        { "the longest wait",
          { { .retry_us = 4 }, { .retry_us = 5 }, { .retry_us = 3 } },
          { .worst = 1, .retry_us = 5 } },
        { "the first of equals",
          { { .allowed = true }, { .retry_us = 5 }, { .retry_us = 5 } },
          { .worst = 1, .retry_us = 5 } },
        { "no wait would help",
          { { .retry_us = 9 }, { .impossible = true }, { .retry_us = 12 } },
          { .impossible = true, .worst = 1 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_combined got = weir_combine(rows[i].answers, 3);
        assert_int_equal(got.allowed, rows[i].want.allowed);
        assert_int_equal(got.impossible, rows[i].want.impossible);
        assert_int_equal(got.worst, rows[i].want.worst);
        assert_int_equal(got.retry_us, rows[i].want.retry_us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_limits_of_one_client_together),
        cmocka_unit_test(keeps_groups_apart_whatever_clients_are_called),
        cmocka_unit_test(hands_everything_that_a_limit_says_to_the_store),
        cmocka_unit_test(prepares_each_policy_for_each_plan_that_matters),
        cmocka_unit_test(takes_no_more_limits_than_a_check_has),
        cmocka_unit_test(shares_units_of_windows_and_time_of_the_rest),
        cmocka_unit_test(leaves_three_tries_where_failures_are_counted),
        cmocka_unit_test(leaves_three_tries_of_every_rate),
        cmocka_unit_test(lets_memory_tell_nobody_to_wait_longer_than_a_minute),
        cmocka_unit_test(takes_the_worst_of_several_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
