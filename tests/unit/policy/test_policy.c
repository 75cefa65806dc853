/* What a file that is right becomes. */
#include "parse.h"

#include <unistd.h>

#include "base/hash.h"
#include "policy/units.h"

#define LIMIT(members) "{\"policies\": {\"p\": {\"limits\": [{" members "}]}}}"
#define NAMED(members) LIMIT("\"name\": \"a\", \"by\": \"ip\", \"rate\": \"5/minute\"" members)
#define BY(json)       LIMIT("\"name\": \"a\", \"rate\": \"5/minute\", \"by\": " json)
#define ROUTE(members) "{\"routes\": [{\"match\": \"GET /a\"" members "}]}"
#define SHA256_OF_FOO  "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"

static void fills_in_what_a_file_does_not_say(void **state)
{
    (void)state;
    uint8_t secret[WEIR_SECRET_BYTES];
    struct weir_policy *policy = parse("{}");
    weir_secret_from((struct weir_text){ NULL, 0 }, secret);
    assert_string_equal(policy->store_url, "memory:");
    assert_string_equal(weir_policy_store_url(policy), "memory:");
    assert_int_equal(policy->store_timeout_ms, 20);
    assert_int_equal(policy->denial_cache_us, 1000000);
    assert_string_equal(policy->store_prefix, "weir");
    assert_int_equal(policy->store_memory_bytes, 0);
    assert_int_equal(policy->identity.trust.hops, 0);
    assert_int_equal(policy->identity.trust.network_count, 0);
    assert_false(policy->identity.trust.unix_peer);
    assert_int_equal(policy->identity.form, WEIR_X_FORWARDED_FOR);
    assert_string_equal(text_of(policy->identity.forwarded_header), "X-Forwarded-For");
    assert_int_equal(policy->identity.prefixes.ipv4, 32);
    assert_int_equal(policy->identity.prefixes.ipv6, 56);
    assert_false(policy->identity.prefixes.nat64);
    assert_null(policy->identity.api_key_header.at);
    assert_null(policy->identity.keys);
    assert_null(policy->identity.user_header.at);
    assert_null(policy->identity.tenant_header.at);
    assert_memory_equal(policy->secret, secret, sizeof secret);
    assert_int_equal(policy->instances, 1);
    assert_int_equal(policy->mode, WEIR_ENFORCE);
    assert_int_equal(policy->headers, WEIR_HEADERS_DRAFT_11);
    assert_false(policy->headers_clamp);
    assert_false(policy->expose_headers);
    assert_int_equal(policy->plan_count + policy->ruleset_count + policy->route_count, 0);
    assert_null(policy->default_plan);
    assert_string_equal(policy->fallback.match, "default");
    assert_int_equal(policy->fallback.cost, 1);
    assert_false(policy->has_default);
    assert_int_equal(weir_policy_warning_count(policy), 0);
    assert_null(weir_policy_warning(policy, 0));
    assert_null(weir_policy_free(policy));
    assert_null(weir_policy_free(NULL));
}

static void lets_nobody_guess_keys_for_free(void **state)
{
    (void)state;
    struct weir_policy *policy = parse("{}");
    const struct weir_ruleset *guesses = &policy->guesses;
    assert_string_equal(guesses->name, "api_keys");
    assert_int_equal(guesses->limit_count, 1);
    assert_string_equal(guesses->limits[0].name, "guesses");
    assert_int_equal(guesses->limits[0].by.count, 1);
    assert_int_equal(guesses->limits[0].by.parts[0].count, 1);
    assert_int_equal(guesses->limits[0].by.parts[0].alternatives[0].kind, WEIR_BY_IP);
    assert_int_equal(guesses->limits[0].algorithm, WEIR_GCRA);
    assert_int_equal(guesses->limits[0].source, WEIR_RATE_OWN);
    assert_int_equal(guesses->limits[0].rate.limit, 20);
    assert_int_equal(guesses->limits[0].rate.window_us, 60000000);
    assert_int_equal(guesses->on_store_failure.timeout, WEIR_FAIL_OPEN);
    assert_int_equal(guesses->on_store_failure.unavailable, WEIR_FAIL_OPEN);
    assert_int_equal(guesses->on_store_failure.error, WEIR_FAIL_OPEN);
    assert_int_equal(guesses->mode, WEIR_ENFORCE);
    assert_true(guesses->slot_is_identity);
    weir_policy_free(policy);
}

static void reads_the_store(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse("{\"comment\": [1], \"store\": {\"comment\": 2, \"url\": \"redis://u:p@h:1/2\","
              " \"timeout\": \"1s\", \"prefix\": \"shop:eu\", \"memory\": \"2MiB\","
              " \"connections\": 16, \"denial_cache\": \"250ms\"},"
              " \"instances\": 10000, \"mode\": \"off\"}");
    assert_string_equal(policy->store_url, "redis://u:p@h:1/2");
    assert_string_equal(weir_policy_store_url(policy), "redis://u:***@h:1/2");
    assert_int_equal(policy->store_timeout_ms, 1000);
    assert_string_equal(policy->store_prefix, "shop:eu");
    assert_int_equal(policy->store_memory_bytes, 2097152);
    assert_int_equal(policy->store_connections, 16);
    assert_int_equal(policy->denial_cache_us, 250000);
    assert_null(policy->store_tls.ca_file);
    assert_null(policy->store_tls.cert_file);
    assert_null(policy->store_tls.key_file);
    assert_null(policy->store_tls.server_name);
    assert_int_equal(policy->instances, 10000);
    assert_int_equal(policy->mode, WEIR_OFF);
    weir_policy_free(policy);
}

static void finds_the_files_for_tls_beside_its_own(void **state)
{
    (void)state;
    static const char json[] =
        "{\"store\": {\"url\": \"rediss://h\", \"tls\": {\"comment\": 1, \"ca_file\": \"ca.pem\","
        " \"cert_file\": \"keys/weir.pem\", \"key_file\": \"/keys/weir.key\","
        " \"server_name\": \"redis-1.Example\"}}}";
    struct weir_policy *policy = NULL;
    assert_int_equal(weir_policy_parse(json, strlen(json), "/etc/weir", &policy, NULL), WEIR_OK);
    assert_string_equal(policy->store_tls.ca_file, "/etc/weir/ca.pem");
    assert_string_equal(policy->store_tls.cert_file, "/etc/weir/keys/weir.pem");
    assert_string_equal(policy->store_tls.key_file, "/keys/weir.key");
    assert_string_equal(policy->store_tls.server_name, "redis-1.Example");
    weir_policy_free(policy);

    policy = parse("{\"store\": {\"tls\": {\"ca_file\": \"ca.pem\", \"server_name\": \"::1\"}}}");
    assert_string_equal(policy->store_tls.ca_file, "ca.pem");
    assert_string_equal(policy->store_tls.server_name, "::1");
    weir_policy_free(policy);
}

static void shows_a_store_without_its_password(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        const char *shown;
    } rows[] = {
        { "memory:", "memory:" },
        { "redis://h", "redis://h" },
        { "redis://h:6379/0", "redis://h:6379/0" },
        { "redis://:secret@h:6379/0", "redis://:***@h:6379/0" },
        { "redis://ann:secret@h", "redis://ann:***@h" },
        { "redis://secret@h", "redis://***@h" },
        { "redis://ann:se@c:ret@h", "redis://ann:***@h" },
        { "redis://ann:se/cret@h", "redis://ann:***@h" },
        { "redis+unix://ann:secret@/run/redis.sock?db=1",
          "redis+unix://ann:***@/run/redis.sock?db=1" },
        { "redis+unix:///run/redis.sock", "redis+unix:///run/redis.sock" },
        { "rediss://ann:secret@h", "rediss://ann:***@h" },
        { "redis+cluster://ann:secret@h:1,i:2", "redis+cluster://ann:***@h:1,i:2" },
        { "redis+sentinel://a:1,b:2/m/3", "redis+sentinel://a:1,b:2/m/3" },
        { "redis+sentinel://:secret@a:1,b:2/m?sentinel_user=bob&sentinel_password=secret",
          "redis+sentinel://:***@a:1,b:2/m?sentinel_user=bob&sentinel_password=***" },
        { "redis+sentinel://a/m?sentinel_password=se@cret", "redis+sentinel://***" },
        { "redis://:sec?ret@h", "redis://***" },
        { "redis://:sec?r@et@h", "redis://***" },
        { "redis://u:s@h?ecret@h", "redis://***" },
        { "redis://h?password=secret", "redis://h?password=***" },
        { "redis://h?secret", "redis://h?***" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[256];
        print_message("    %s\n", rows[i].url);
        snprintf(json, sizeof json, "{\"store\": {\"url\": \"%s\"}}", rows[i].url);
        struct weir_policy *policy = parse(json);
        assert_string_equal(policy->store_url, rows[i].url);
        assert_string_equal(policy->store_shown, rows[i].shown);
        weir_policy_free(policy);
    }
}

static void takes_secrets_from_the_environment(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *url;
        const char *want;
    } rows[] = {
        { "all of it", "${WEIR_TEST_URL}", "redis://h:1/2" },
        { "a part that is not secret", "redis://${WEIR_TEST_HOST}/3", "redis://h:1/3" },
        { "a password, percent-encoded", "redis://:${WEIR_TEST_PASSWORD}@h",
          "redis://:p%40ss%2F%25word%C3%A9-._~@h" },
        { "both", "redis://${WEIR_TEST_USER}:${WEIR_TEST_PASSWORD}@${WEIR_TEST_HOST}",
          "redis://ann:p%40ss%2F%25word%C3%A9-._~@h:1" },
        { "Sentinels", "redis+sentinel://${WEIR_TEST_HOST},i:2/m", "redis+sentinel://h:1,i:2/m" },
        { "a master and its database", "redis+sentinel://h/${WEIR_TEST_USER}/${WEIR_TEST_NUMBER}",
          "redis+sentinel://h/ann/7" },
        { "a Sentinel's password, percent-encoded",
          "redis+sentinel://h/m?sentinel_user=${WEIR_TEST_USER}&sentinel_password=${WEIR_TEST_AMP}",
          "redis+sentinel://h/m?sentinel_user=ann&sentinel_password=%26x%3D%3F" },
        { "a socket's path", "redis+unix://${WEIR_TEST_PATH}?db=${WEIR_TEST_NUMBER}",
          "redis+unix:///run/r?db=7" },
        { "a scheme", "${WEIR_TEST_SCHEME}://h", "rediss+cluster://h" },
        { "a dollar by itself", "redis://:a$b$@h", "redis://:a$b$@h" },
    };
    setenv("WEIR_TEST_URL", "redis://h:1/2", 1);
    setenv("WEIR_TEST_HOST", "h:1", 1);
    setenv("WEIR_TEST_USER", "ann", 1);
    setenv("WEIR_TEST_NUMBER", "7", 1);
    setenv("WEIR_TEST_AMP", "&x=?", 1);
    setenv("WEIR_TEST_PATH", "/run/r", 1);
    setenv("WEIR_TEST_SCHEME", "rediss+cluster", 1);
    setenv("WEIR_TEST_PASSWORD", "p@ss/%wordé-._~", 1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[256];
        print_message("    %s\n", rows[i].when);
        snprintf(json, sizeof json, "{\"store\": {\"url\": \"%s\"}}", rows[i].url);
        struct weir_policy *policy = parse(json);
        assert_string_equal(policy->store_url, rows[i].want);
        weir_policy_free(policy);
    }
}

static void makes_a_key_of_the_secret(void **state)
{
    (void)state;
    uint8_t secret[WEIR_SECRET_BYTES];
    setenv("WEIR_TEST_SECRET", "hush", 1);
    struct weir_policy *policy = parse("{\"secret\": \"hush\"}");
    struct weir_policy *other = parse("{\"secret\": \"${WEIR_TEST_SECRET}\"}");
    weir_secret_from(WEIR_TEXT("hush"), secret);
    assert_memory_equal(policy->secret, secret, sizeof secret);
    assert_memory_equal(other->secret, secret, sizeof secret);
    weir_policy_free(policy);
    weir_policy_free(other);
}

static void reads_how_the_client_is_found(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse("{\"client_ip\": {\"trust\": [\"loopback\", \"10.0.0.0/8\", \"unix\"],"
              " \"header\": \"forwarded\", \"ipv4_prefix\": 24, \"ipv6_prefix\": 64,"
              " \"nat64\": true}, \"user\": {\"header\": \"X-User\"},"
              " \"tenant\": {\"header\": \"X-Tenant\"}}");
    const struct weir_identity_rules *rules = &policy->identity;
    assert_int_equal(rules->trust.hops, 0);
    assert_int_equal(rules->trust.network_count, 3);
    assert_true(rules->trust.unix_peer);
    assert_int_equal(rules->form, WEIR_FORWARDED);
    assert_string_equal(text_of(rules->forwarded_header), "forwarded");
    assert_int_equal(rules->prefixes.ipv4, 24);
    assert_int_equal(rules->prefixes.ipv6, 64);
    assert_true(rules->prefixes.nat64);
    assert_string_equal(text_of(rules->user_header), "X-User");
    assert_string_equal(text_of(rules->tenant_header), "X-Tenant");
    weir_policy_free(policy);
}

static void tells_headers_with_addresses_apart(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        enum weir_forwarded_form form;
    } rows[] = {
        { "X-Forwarded-For", WEIR_X_FORWARDED_FOR },
        { "x-forwarded-for", WEIR_X_FORWARDED_FOR },
        { "Forwarded", WEIR_FORWARDED },
        { "X-Real-IP", WEIR_ONE_ADDRESS },
        { "X-Forwarded", WEIR_ONE_ADDRESS },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[128];
        snprintf(json, sizeof json, "{\"client_ip\": {\"header\": \"%s\"}}", rows[i].header);
        struct weir_policy *policy = parse(json);
        assert_int_equal(policy->identity.form, rows[i].form);
        assert_string_equal(text_of(policy->identity.forwarded_header), rows[i].header);
        weir_policy_free(policy);
    }
}

static void takes_a_number_for_hops(void **state)
{
    (void)state;
    static const struct {
        const char *trust;
        unsigned hops;
    } rows[] = { { "0", 0 }, { "1", 1 }, { "32", 32 }, { "false", 0 }, { "[]", 0 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[64];
        print_message("    %s\n", rows[i].trust);
        snprintf(json, sizeof json, "{\"client_ip\": {\"trust\": %s}}", rows[i].trust);
        struct weir_policy *policy = parse(json);
        assert_int_equal(policy->identity.trust.hops, rows[i].hops);
        assert_int_equal(policy->identity.trust.network_count, 0);
        weir_policy_free(policy);
    }
}

/* limits */

static void fills_in_what_a_limit_does_not_say(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(NAMED(""));
    const struct weir_ruleset *ruleset = &policy->rulesets[0];
    const struct weir_limit_rule *limit = &ruleset->limits[0];
    assert_int_equal(policy->ruleset_count, 1);
    assert_string_equal(ruleset->name, "p");
    assert_int_equal(ruleset->limit_count, 1);
    assert_int_equal(ruleset->mode, WEIR_ENFORCE);
    assert_true(ruleset->slot_is_identity);
    assert_int_equal(ruleset->on_store_failure.timeout, WEIR_FAIL_OPEN);
    assert_int_equal(ruleset->on_store_failure.unavailable, WEIR_FAIL_OPEN);
    assert_int_equal(ruleset->on_store_failure.error, WEIR_FAIL_OPEN);
    assert_string_equal(limit->name, "a");
    assert_int_equal(limit->algorithm, WEIR_GCRA);
    assert_false(limit->from_first);
    assert_int_equal(limit->source, WEIR_RATE_OWN);
    assert_int_equal(limit->rate.limit, 5);
    assert_int_equal(limit->rate.window_us, 60000000);
    assert_int_equal(limit->rate.burst, 5);
    assert_int_equal(limit->by.count, 1);
    assert_int_equal(limit->by.parts[0].count, 1);
    assert_int_equal(limit->by.parts[0].alternatives[0].kind, WEIR_BY_IP);
    assert_null(limit->by.parts[0].alternatives[0].name.at);
    assert_false(limit->by.parts[0].alternatives[0].exact);
    assert_null(limit->calendar);
    assert_null(limit->plan_calendars);
    assert_int_equal(limit->max_wait_us, 0);
    assert_false(limit->logs_refusals);
    assert_false(limit->is_grouped);
    assert_false(weir_counts_outcome(limit));
    assert_false(ruleset->returns_on_abort);
    weir_policy_free(policy);
}

static void reads_a_limit(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *json;
        struct weir_limit_rule want; /* without name, by and calendar */
    } rows[] = {
        { "a burst", NAMED(", \"burst\": 9"), { .rate = { .limit = 5, .burst = 9 } } },
        { "a burst before the algorithm",
          "{\"policies\": {\"p\": {\"limits\": [{\"burst\": 9,"
          "\"rate\": \"5/minute\", \"algorithm\": \"gcra\", \"name\": \"a\", \"by\": \"ip\"}]}}}",
          { .rate = { .limit = 5, .burst = 9 } } },
        { "a fixed window",
          NAMED(", \"algorithm\": \"fixed-window\""),
          { .algorithm = WEIR_FIXED_WINDOW, .rate = { .limit = 5, .burst = 5 } } },
        { "on the clock",
          NAMED(", \"algorithm\": \"fixed-window\", \"start\": \"clock\""),
          { .algorithm = WEIR_FIXED_WINDOW, .rate = { .limit = 5, .burst = 5 } } },
        { "from the first request",
          NAMED(", \"algorithm\": \"fixed-window\", \"start\": \"first\""),
          { .algorithm = WEIR_FIXED_WINDOW,
            .from_first = true,
            .rate = { .limit = 5, .burst = 5 } } },
        { "on the calendar",
          NAMED(", \"algorithm\": \"fixed-window\", \"calendar\": \"UTC\""),
          { .algorithm = WEIR_FIXED_WINDOW, .rate = { .limit = 5, .burst = 5 } } },
        { "a token bucket",
          NAMED(", \"algorithm\": \"token-bucket\", \"burst\": 9"),
          { .algorithm = WEIR_TOKEN_BUCKET, .rate = { .limit = 5, .burst = 9 } } },
        { "a leaky bucket",
          NAMED(", \"algorithm\": \"leaky-bucket\", \"burst\": 9"),
          { .algorithm = WEIR_LEAKY_BUCKET,
            .rate = { .limit = 5, .burst = 9 },
            .max_wait_us = 2000000 } },
        { "a leaky bucket that waits for long",
          NAMED(", \"max_wait\": \"1m\", \"algorithm\": \"leaky-bucket\""),
          { .algorithm = WEIR_LEAKY_BUCKET,
            .rate = { .limit = 5, .burst = 5 },
            .max_wait_us = 60000000 } },
        { "a leaky bucket that waits for nothing",
          NAMED(", \"algorithm\": \"leaky-bucket\", \"max_wait\": \"0s\""),
          { .algorithm = WEIR_LEAKY_BUCKET, .rate = { .limit = 5, .burst = 5 } } },
        { "a sliding counter",
          NAMED(", \"algorithm\": \"sliding-counter\""),
          { .algorithm = WEIR_SLIDING_COUNTER, .rate = { .limit = 5, .burst = 5 } } },
        { "a sliding log",
          NAMED(", \"algorithm\": \"sliding-log\""),
          { .algorithm = WEIR_SLIDING_LOG, .rate = { .limit = 5, .burst = 5 } } },
        { "a sliding log of what is admitted",
          NAMED(", \"algorithm\": \"sliding-log\", \"record\": \"admitted\""),
          { .algorithm = WEIR_SLIDING_LOG, .rate = { .limit = 5, .burst = 5 } } },
        { "a sliding log of everything",
          NAMED(", \"record\": \"all\", \"algorithm\": \"sliding-log\""),
          { .algorithm = WEIR_SLIDING_LOG,
            .logs_refusals = true,
            .rate = { .limit = 5, .burst = 5 } } },
        { "all are counted",
          NAMED(", \"count\": \"all\""),
          { .rate = { .limit = 5, .burst = 5 } } },
        { "blocked",
          LIMIT("\"name\": \"a\", \"by\": \"ip\", \"rate\": \"0/minute\""),
          { .rate = { .limit = 0, .burst = 0 } } },
        { "unlimited",
          LIMIT("\"name\": \"a\", \"by\": \"ip\", \"rate\": \"unlimited\""),
          { .source = WEIR_RATE_UNLIMITED } },
        { "commented",
          NAMED(", \"comment\": {\"why\": null}"),
          { .rate = { .limit = 5, .burst = 5 } } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_policy *policy = parse(rows[i].json);
        const struct weir_limit_rule *limit = &policy->rulesets[0].limits[0];
        assert_int_equal(limit->algorithm, rows[i].want.algorithm);
        assert_int_equal(limit->from_first, rows[i].want.from_first);
        assert_int_equal(limit->source, rows[i].want.source);
        assert_int_equal(limit->rate.limit, rows[i].want.rate.limit);
        assert_int_equal(limit->rate.burst, rows[i].want.rate.burst);
        assert_int_equal(limit->max_wait_us, rows[i].want.max_wait_us);
        assert_int_equal(limit->logs_refusals, rows[i].want.logs_refusals);
        assert_false(weir_counts_outcome(limit));
        weir_policy_free(policy);
    }
}

static void reads_what_is_counted(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint64_t by_status[5]; /* 200, 302, 401, 404, 503 */
    } rows[] = {
        { NAMED(", \"count\": \"all\""), { 3, 3, 3, 3, 3 } },
        { NAMED(", \"count\": \"failures\""), { 0, 0, 3, 3, 3 } },
        { NAMED(", \"count\": \"successes\""), { 3, 3, 0, 0, 0 } },
        { NAMED(", \"count\": {\"401\": 2}"), { 3, 3, 6, 3, 3 } },
        { NAMED(", \"count\": {\"401\": 2, \"4xx\": 1, \"5xx\": 0, \"comment\": \"why\"}"),
          { 3, 3, 6, 3, 0 } },
        { NAMED(", \"count\": {\"4xx\": 5, \"401\": 1000, \"2xx\": 0, \"302\": 0, \"599\": 9,"
                " \"100\": 9, \"1xx\": 9}"),
          { 0, 0, 3000, 15, 3 } },
        { NAMED(", \"algorithm\": \"sliding-log\", \"count\": \"failures\""), { 0, 0, 3, 3, 3 } },
    };
    static const unsigned statuses[] = { 200, 302, 401, 404, 503 };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_policy *policy = parse(rows[i].json);
        for (size_t j = 0; j < COUNT_OF(statuses); j++)
            assert_int_equal(weir_count_units(&policy->rulesets[0].limits[0], statuses[j], 3),
                             rows[i].by_status[j]);
        weir_policy_free(policy);
    }
}

static void gives_back_what_an_aborted_request_took(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        bool returns;
    } rows[] = { { "", false },
                 { ", \"on_abort\": \"keep\"", false },
                 { ", \"on_abort\": \"return\"", true } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[256];
        snprintf(json, sizeof json,
                 "{\"policies\": {\"p\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\","
                 "\"rate\": \"5/minute\"}]%s}}}",
                 rows[i].members);
        struct weir_policy *policy = parse(json);
        assert_int_equal(policy->rulesets[0].returns_on_abort, rows[i].returns);
        weir_policy_free(policy);
    }
}

static void knows_which_windows_need_a_calendar(void **state)
{
    (void)state;
    /* 2024-02-29 12:00 UTC, a Thursday. */
    const uint64_t now_us = UINT64_C(1709208000000000);
    const uint64_t hour_us = UINT64_C(3600000000);
    static const struct {
        const char *rate, *calendar;
        bool has_calendar;
        uint64_t begun_hours, hours; /* of the window that is now */
    } rows[] = {
        { "1/ms", "\"UTC\"", false, 0, 0 },
        { "1/250ms", "\"UTC\"", false, 0, 0 },
        { "1/minute", "\"UTC\"", false, 0, 0 },
        { "1/15minutes", "\"UTC\"", false, 0, 0 },
        { "1/6hours", "\"UTC\"", false, 0, 0 },
        { "1/day", "\"UTC\"", false, 0, 0 },
        { "1/24hours", "\"UTC\"", false, 0, 0 },
        { "1/2days", "\"UTC\"", false, 0, 0 },
        { "1/30days", "\"UTC\"", false, 0, 0 },
        { "1/week", "\"UTC\"", true, 84, 168 },
        { "1/7days", "\"UTC\"", true, 84, 168 },
        { "1/month", "\"UTC\"", true, 684, 696 },
        { "1/month", "\"UTC\", \"anchor\": 29", true, 12, 696 },
        { "1/month", "\"UTC\", \"anchor\": 31", true, 12, 744 },
        { "1/3months", "\"UTC\"", true, 1428, 2184 },
        { "1/12months", "\"UTC\", \"anchor\": 1", true, 1428, 8784 },
        { "1/year", "\"UTC\"", true, 1428, 8784 },
        { "1/365days", "\"UTC\"", true, 1428, 8784 },
        { "1/day", "\"Europe/Berlin\"", true, 13, 24 },
        { "1/week", "\"Europe/Berlin\"", true, 85, 168 },
        { "1/month", "\"Europe/Berlin\"", true, 685, 696 },
        { "1/year", "\"Asia/Tokyo\"", true, 1437, 8784 },
        { "1/day", "\"Etc/UTC\"", true, 12, 24 },
        { "unlimited", "\"Asia/Tokyo\"", false, 0, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[256];
        print_message("    %s in %s\n", rows[i].rate, rows[i].calendar);
        snprintf(json, sizeof json,
                 LIMIT("\"name\": \"a\", \"by\": \"ip\", \"rate\": \"%s\","
                       "\"algorithm\": \"fixed-window\", \"calendar\": %s"),
                 rows[i].rate, rows[i].calendar);
        struct weir_policy *policy = parse(json);
        const struct weir_calendar *calendar = policy->rulesets[0].limits[0].calendar;
        assert_int_equal(calendar != NULL, rows[i].has_calendar);
        if (calendar != NULL) {
            struct weir_window window = weir_calendar_window(calendar, now_us);
            assert_int_equal(now_us - window.start_us, rows[i].begun_hours * hour_us);
            assert_int_equal(window.end_us - window.start_us, rows[i].hours * hour_us);
        }
        weir_policy_free(policy);
    }
}

/* "ip", "api_key|ip" or "header:A!+query:b": kinds and names, "!" where it is exact. */
static const char *by_as_text(const struct weir_by *by)
{
    static const char *const names[] = { "ip",    "api_key", "user",   "tenant", "plan",
                                         "route", "global",  "header", "param",  "query" };
    static char text[512];
    size_t length = 0;
    for (size_t i = 0; i < by->count; i++)
        for (size_t j = 0; j < by->parts[i].count; j++) {
            const struct weir_dimension *one = &by->parts[i].alternatives[j];
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%s%s%s%s",
                                       j > 0   ? "|"
                                       : i > 0 ? "+"
                                               : "",
                                       names[one->kind], one->name.at == NULL ? "" : ":",
                                       one->name.at == NULL ? "" : text_of(one->name),
                                       one->exact ? "!" : "");
        }
    return text;
}

static void reads_what_one_count_is_for(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *want;
    } rows[] = {
        { BY("\"ip\""), "ip" },
        { BY("\"api_key\""), "api_key" },
        { BY("\"user\""), "user" },
        { BY("\"tenant\""), "tenant" },
        { BY("\"plan\""), "plan" },
        { BY("\"route\""), "route" },
        { BY("\"global\""), "global" },
        { BY("\"client\""), "api_key|user|tenant|ip" },
        { BY("\"tenant|client\""), "tenant|api_key|user|ip" },
        { BY("\"user|ip\""), "user|ip" },
        { BY("\"ip|ip\""), "ip" },
        { BY("\"header:X-Team\""), "header:X-Team" },
        { BY("\"param:id\""), "param:id" },
        { BY("\"query:a b[]\""), "query:a b[]" },
        { BY("\"header:A|header:B|query:A\""), "header:A|header:B|query:A" },
        { BY("[\"ip\"]"), "ip" },
        { BY("[\"tenant\", \"user|ip\"]"), "tenant+user|ip" },
        { BY("[\"ip\", \"route\", \"plan\", \"user\", \"tenant\", \"global\"]"),
          "ip+route+plan+user+tenant+global" },
        { LIMIT("\"name\": \"a\", \"rate\": \"1/second\", \"exact\": true, \"by\":"
                "[\"header:A\", \"param:b|query:c\"]"),
          "header:A!+param:b!|query:c!" },
        { LIMIT("\"name\": \"a\", \"rate\": \"1/second\", \"exact\": false, \"by\": \"query:c\""),
          "query:c" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].want);
        struct weir_policy *policy = parse(rows[i].json);
        assert_string_equal(by_as_text(&policy->rulesets[0].limits[0].by), rows[i].want);
        weir_policy_free(policy);
    }
}

#define TWO_LIMITS(one, other, members)                                                            \
    "{\"policies\": {\"p\": {\"limits\": ["                                                        \
    "{\"name\": \"a\", \"rate\": \"1/second\", \"by\": " one "},"                                  \
    "{\"name\": \"b\", \"rate\": \"9/minute\", \"by\": " other "}]" members "}}}"

static void keeps_limits_of_one_subject_in_its_slot(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *json;
        bool slot_is_identity;
    } rows[] = {
        { "the same", TWO_LIMITS("\"client\"", "\"client\"", ""), true },
        { "the same in other words", TWO_LIMITS("\"client\"", "[\"api_key|user|tenant|ip\"]", ""),
          true },
        { "the same names", TWO_LIMITS("\"query:a\"", "\"query:a\"", ""), true },
        { "different", TWO_LIMITS("\"ip\"", "\"client\"", ""), false },
        { "different names", TWO_LIMITS("\"query:a\"", "\"query:b\"", ""), false },
        { "more parts", TWO_LIMITS("\"ip\"", "[\"ip\", \"route\"]", ""), false },
        { "one exact, one not", TWO_LIMITS("\"query:a\", \"exact\": true", "\"query:a\"", ""),
          false },
        { "different, but asked for", TWO_LIMITS("\"ip\"", "\"user\"", ", \"slot\": \"identity\""),
          true },
        { "the same, but not asked for", TWO_LIMITS("\"ip\"", "\"ip\"", ", \"slot\": \"policy\""),
          false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_policy *policy = parse(rows[i].json);
        assert_int_equal(policy->rulesets[0].slot_is_identity, rows[i].slot_is_identity);
        weir_policy_free(policy);
    }
}

static void groups_limits_of_one_subject(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *by[3];
        const char *slot;
        bool is_grouped[3];
    } rows[] = {
        { "all the same", { "\"ip\"", "\"ip\"", "\"ip\"" }, "identity", { true, true, true } },
        { "two the same", { "\"ip\"", "\"client\"", "\"ip\"" }, "policy", { true, false, true } },
        { "none the same",
          { "\"ip\"", "\"client\"", "[\"ip\", \"route\"]" },
          "policy",
          { false, false, false } },
        { "exact and not",
          { "\"query:a\", \"exact\": true", "\"query:a\"", "\"query:a\"" },
          "identity",
          { false, true, true } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[512];
        print_message("    %s\n", rows[i].when);
        snprintf(json, sizeof json,
                 "{\"policies\": {\"p\": {\"slot\": \"%s\", \"limits\": ["
                 "{\"name\": \"a\", \"rate\": \"1/second\", \"by\": %s},"
                 "{\"name\": \"b\", \"rate\": \"9/minute\", \"by\": %s},"
                 "{\"name\": \"c\", \"rate\": \"90/hour\", \"by\": %s}]}}}",
                 rows[i].slot, rows[i].by[0], rows[i].by[1], rows[i].by[2]);
        struct weir_policy *policy = parse(json);
        for (size_t j = 0; j < 3; j++)
            assert_int_equal(policy->rulesets[0].limits[j].is_grouped, rows[i].is_grouped[j]);
        weir_policy_free(policy);
    }
}

static void does_what_it_is_told_when_the_store_fails(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *rule;   /* with a comma before it */
        const char *policy; /* name */
        const char *match;
        enum weir_failure_action timeout, unavailable, error;
    } rows[] = {
        { "nothing is said", "", "api", "GET /v1", WEIR_FAIL_OPEN, WEIR_FAIL_OPEN, WEIR_FAIL_OPEN },
        { "open", ", \"on_store_failure\": \"open\"", "api", "GET /v1", WEIR_FAIL_OPEN,
          WEIR_FAIL_OPEN, WEIR_FAIL_OPEN },
        { "closed", ", \"on_store_failure\": \"closed\"", "api", "GET /v1", WEIR_FAIL_CLOSED,
          WEIR_FAIL_CLOSED, WEIR_FAIL_CLOSED },
        { "memory", ", \"on_store_failure\": \"memory\"", "api", "GET /v1", WEIR_FAIL_MEMORY,
          WEIR_FAIL_MEMORY, WEIR_FAIL_MEMORY },
        { "by kind",
          ", \"on_store_failure\": {\"timeout\": \"closed\", \"unavailable\": \"memory\","
          "\"error\": \"open\"}",
          "api", "GET /v1", WEIR_FAIL_CLOSED, WEIR_FAIL_MEMORY, WEIR_FAIL_OPEN },
        { "one kind", ", \"on_store_failure\": {\"error\": \"closed\"}", "api", "GET /v1",
          WEIR_FAIL_OPEN, WEIR_FAIL_OPEN, WEIR_FAIL_CLOSED },
        { "a login by name", "", "MyLogin", "GET /v1", WEIR_FAIL_CLOSED, WEIR_FAIL_CLOSED,
          WEIR_FAIL_CLOSED },
        { "a login by path", "", "api", "POST /v1/SignIn", WEIR_FAIL_CLOSED, WEIR_FAIL_CLOSED,
          WEIR_FAIL_CLOSED },
        { "codes", "", "api", "POST /otp/*", WEIR_FAIL_CLOSED, WEIR_FAIL_CLOSED, WEIR_FAIL_CLOSED },
        { "a reset", "", "reset", "GET /v1", WEIR_FAIL_CLOSED, WEIR_FAIL_CLOSED, WEIR_FAIL_CLOSED },
        { "a token", "", "api", "POST /oauth/token", WEIR_FAIL_CLOSED, WEIR_FAIL_CLOSED,
          WEIR_FAIL_CLOSED },
        { "passwords", "", "api", "POST /passwd", WEIR_FAIL_CLOSED, WEIR_FAIL_CLOSED,
          WEIR_FAIL_CLOSED },
        { "password", "", "password", "POST /a", WEIR_FAIL_CLOSED, WEIR_FAIL_CLOSED,
          WEIR_FAIL_CLOSED },
        { "a login with one kind", ", \"on_store_failure\": {\"error\": \"memory\"}", "login",
          "GET /v1", WEIR_FAIL_CLOSED, WEIR_FAIL_CLOSED, WEIR_FAIL_MEMORY },
        { "a login that opens", ", \"on_store_failure\": \"open\"", "login", "GET /v1",
          WEIR_FAIL_OPEN, WEIR_FAIL_OPEN, WEIR_FAIL_OPEN },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[512];
        print_message("    %s\n", rows[i].when);
        snprintf(json, sizeof json,
                 "{\"policies\": {\"%s\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\","
                 "\"rate\": \"1/second\"}]%s}},"
                 "\"routes\": [{\"match\": \"%s\", \"policy\": \"%s\"}]}",
                 rows[i].policy, rows[i].rule, rows[i].match, rows[i].policy);
        struct weir_policy *policy = parse(json);
        assert_int_equal(policy->rulesets[0].on_store_failure.timeout, rows[i].timeout);
        assert_int_equal(policy->rulesets[0].on_store_failure.unavailable, rows[i].unavailable);
        assert_int_equal(policy->rulesets[0].on_store_failure.error, rows[i].error);
        weir_policy_free(policy);
    }
}

static void keeps_the_mode_of_each_policy(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse("{\"mode\": \"shadow\", \"policies\": {\"a\": {\"mode\": \"off\", \"limits\":"
              "[{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"1/second\"}]}, \"b\": {\"mode\": "
              "\"enforce\","
              "\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"1/second\"}]}}}");
    assert_int_equal(policy->mode, WEIR_SHADOW);
    assert_int_equal(policy->rulesets[0].mode, WEIR_OFF);
    assert_int_equal(policy->rulesets[1].mode, WEIR_ENFORCE);
    weir_policy_free(policy);
}

/* plans */

static void reads_plans(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse("{\"plans\": {\"comment\": \"x\", \"zeta\": {\"comment\": 1, \"a\": {\"rate\":"
              "\"5/second\", \"burst\": 10, \"comment\": 0}, \"b\": \"unlimited\"},"
              "\"alpha\": {}}}");
    assert_int_equal(policy->plan_count, 2);
    assert_string_equal(policy->plans[0].name, "zeta");
    assert_string_equal(policy->plans[1].name, "alpha");
    assert_int_equal(policy->plans[1].rate_count, 0);
    assert_ptr_equal(policy->default_plan, &policy->plans[0]);
    const struct weir_plan *plan = &policy->plans[0];
    assert_int_equal(plan->rate_count, 2);
    assert_string_equal(plan->rates[0].limit, "a");
    assert_false(plan->rates[0].unlimited);
    assert_int_equal(plan->rates[0].rate.limit, 5);
    assert_int_equal(plan->rates[0].rate.burst, 10);
    assert_string_equal(plan->rates[1].limit, "b");
    assert_true(plan->rates[1].unlimited);
    weir_policy_free(policy);
}

/* routes */

static void reads_routes(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(
        "{\"case\": \"fold\", \"policies\": {\"p\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\","
        "\"rate\": \"5/minute\"}]}}, \"routes\": [{\"match\": \"GET /a/:b\", \"auth\": "
        "\"required\","
        "\"policy\": \"p\", \"cost\": 0}, {\"match\": \"* *\", \"auth\": \"optional\","
        "\"case\": \"keep\", \"cost\": 1000000000, \"comment\": 0}, {\"match\": \"M-SEARCH /\"}]}");
    const struct weir_route *routes = policy->routes;
    assert_int_equal(policy->route_count, 3);
    assert_string_equal(routes[0].match, "GET /a/:b");
    assert_string_equal(text_of(routes[0].method), "GET");
    assert_string_equal(routes[0].pattern.text, "/a/:b");
    assert_true(routes[0].pattern.fold);
    assert_int_equal(routes[0].auth, WEIR_AUTH_REQUIRED);
    assert_ptr_equal(routes[0].ruleset, &policy->rulesets[0]);
    assert_int_equal(routes[0].cost, 0);
    assert_string_equal(routes[1].match, "* *");
    assert_null(routes[1].method.at);
    assert_true(routes[1].pattern.rest);
    assert_false(routes[1].pattern.fold);
    assert_int_equal(routes[1].auth, WEIR_AUTH_OPTIONAL);
    assert_null(routes[1].ruleset);
    assert_int_equal(routes[1].cost, 1000000000);
    assert_string_equal(text_of(routes[2].method), "M-SEARCH");
    assert_int_equal(routes[2].auth, WEIR_AUTH_NONE);
    assert_int_equal(routes[2].cost, 1);
    weir_policy_free(policy);
}

static void reads_what_everything_else_meets(void **state)
{
    (void)state;
    static const char policies[] = "\"policies\": {\"p\": {\"limits\": [{\"name\": \"a\", \"by\": "
                                   "\"ip\", \"rate\": \"1/second\"}]}}";
    static const struct {
        const char *value;
        bool has_policy;
        enum weir_auth auth;
        uint64_t cost;
    } rows[] = {
        { "\"p\"", true, WEIR_AUTH_NONE, 1 },
        { "{\"policy\": \"p\", \"auth\": \"required\", \"cost\": 1}", true, WEIR_AUTH_REQUIRED, 1 },
        { "{\"auth\": \"required\", \"cost\": 4}", false, WEIR_AUTH_REQUIRED, 4 },
        { "{\"comment\": \"nothing\"}", false, WEIR_AUTH_NONE, 1 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[256];
        print_message("    %s\n", rows[i].value);
        snprintf(json, sizeof json, "{%s, \"default\": %s}", policies, rows[i].value);
        struct weir_policy *policy = parse(json);
        assert_true(policy->has_default);
        assert_ptr_equal(policy->fallback.ruleset, rows[i].has_policy ? policy->rulesets : NULL);
        assert_int_equal(policy->fallback.auth, rows[i].auth);
        assert_int_equal(policy->fallback.cost, rows[i].cost);
        weir_policy_free(policy);
    }
}

static void reads_which_headers_are_sent(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        unsigned forms;
        bool clamps, exposes;
    } rows[] = {
        { "\"draft-11\"", WEIR_HEADERS_DRAFT_11, false, false },
        { "\"draft-7\"", WEIR_HEADERS_DRAFT_7, false, false },
        { "\"draft-6\"", WEIR_HEADERS_DRAFT_6, false, false },
        { "\"legacy\"", WEIR_HEADERS_LEGACY, false, false },
        { "[\"legacy\", \"draft-7\"]", WEIR_HEADERS_LEGACY | WEIR_HEADERS_DRAFT_7, false, false },
        { "[\"legacy\", \"legacy\"]", WEIR_HEADERS_LEGACY, false, false },
        { "false", 0, false, false },
        { "{}", WEIR_HEADERS_DRAFT_11, false, false },
        { "{\"forms\": false}", 0, false, false },
        { "{\"forms\": \"draft-6\", \"clamp\": true}", WEIR_HEADERS_DRAFT_6, true, false },
        { "{\"forms\": [\"draft-6\"], \"expose\": true}", WEIR_HEADERS_DRAFT_6, false, true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[128];
        print_message("    %s\n", rows[i].value);
        snprintf(json, sizeof json, "{\"headers\": %s}", rows[i].value);
        struct weir_policy *policy = parse(json);
        assert_int_equal(policy->headers, rows[i].forms);
        assert_int_equal(policy->headers_clamp, rows[i].clamps);
        assert_int_equal(policy->expose_headers, rows[i].exposes);
        weir_policy_free(policy);
    }
}

/* files */

static char folder[] = "/tmp/weir-policy-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[2][256];
    static unsigned next;
    char *string = path[next++ % 2];
    snprintf(string, 256, "%s/%s", folder, name);
    return string;
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    write_file("keys.json",
               "{\"keys\": [{\"id\": \"one\", \"plan\": \"fre\", \"sha256\": \"" SHA256_OF_FOO
               "\"}]}");
    write_file("bad-keys.json", "{\"keys\": [\n {\"id\": \"one\"}]}");
    write_file("no-keys.json", "{\"keys\": [}");
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = { "keys.json", "bad-keys.json", "no-keys.json",
                                         "policy.json", "large.json" };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        unlink(in_folder(names[i]));
    return rmdir(folder);
}

static void finds_the_keys_beside_the_policy(void **state)
{
    (void)state;
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    write_file("policy.json", "{\"api_keys\": {\"file\": \"keys.json\", \"guesses\": \"3/hour\"}}");
    assert_int_equal(weir_policy_load(in_folder("policy.json"), &policy, &error), WEIR_OK);
    assert_int_equal(weir_keyring_count(policy->identity.keys), 1);
    assert_string_equal(text_of(policy->identity.api_key_header), "X-API-Key");
    assert_int_equal(policy->guesses.limits[0].rate.limit, 3);
    assert_int_equal(policy->guesses.limits[0].rate.window_us, UINT64_C(3600000000));
    weir_policy_free(policy);

    char json[512];
    snprintf(json, sizeof json,
             "{\"api_keys\": {\"file\": \"%s\", \"header\": \"Key\", \"guesses\": \"unlimited\"}}",
             in_folder("keys.json"));
    policy = parse(json);
    assert_string_equal(text_of(policy->identity.api_key_header), "Key");
    assert_int_equal(policy->guesses.limits[0].source, WEIR_RATE_UNLIMITED);
    weir_policy_free(policy);
}

static void says_what_is_wrong_in_the_keys_file(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *json;
        enum weir_code code;
        const char *path;
        const char *text;
        int line, column;
    } rows[] = {
        { "no such file", "{\"api_keys\":\n {\"file\": \"gone.json\"}}", WEIR_E_FILE,
          "/api_keys/file", "gone.json\" cannot be read", 2, 3 },
        { "a key without a hash", "{\"api_keys\": {\"file\": \"bad-keys.json\"}}", WEIR_E_MISSING,
          "/keys/0", "The key has no \"sha256\"", 0, 0 },
        { "no JSON", "{\"api_keys\": {\"file\": \"no-keys.json\"}}", WEIR_E_JSON, "",
          "The file is not JSON", 1, 11 },
        { "guesses by a plan", "{\"api_keys\": {\"file\": \"keys.json\", \"guesses\": \"plan\"}}",
          WEIR_E_VALUE, "/api_keys/guesses", "who guesses has none; wanted is a rate", 1, 36 },
        { "guesses by the month",
          "{\"api_keys\": {\"file\": \"keys.json\", \"guesses\": \"5/month\"}}", WEIR_E_VALUE,
          "/api_keys/guesses", "Guesses are not counted by the calendar", 1, 36 },
        { "guesses that are no rate",
          "{\"api_keys\": {\"file\": \"keys.json\", \"guesses\": \"5/s\"}}", WEIR_E_VALUE,
          "/api_keys/guesses", "wanted is \"second\"", 1, 36 },
        { "an unknown plan",
          "{\"api_keys\": {\"file\": \"keys.json\"}, \"plans\": {\"pro\": {},"
          " \"free\": {}}}",
          WEIR_E_REFERENCE, "/keys/0/plan",
          "The key \"one\" has the plan \"fre\", which the policy's \"plans\" does not have; did "
          "you mean \"free\"?",
          0, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_policy *policy = NULL;
        print_message("    %s\n", rows[i].when);
        assert_int_equal(
            weir_policy_parse(rows[i].json, strlen(rows[i].json), folder, &policy, &error),
            rows[i].code);
        assert_error(&error, rows[i].code, rows[i].path, rows[i].text);
        assert_int_equal(error.line, rows[i].line);
        assert_int_equal(error.column, rows[i].column);
        assert_null(policy);
    }
}

static void says_why_a_file_cannot_be_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum weir_code code;
        const char *text;
    } rows[] = {
        { "gone.json", WEIR_E_FILE, "No such file" },
        { ".", WEIR_E_FILE, "Is a directory" },
        { "large.json", WEIR_E_VALUE, "longer than 4 MiB" },
        { "no-keys.json", WEIR_E_JSON, "not JSON" },
    };
    FILE *file = fopen(in_folder("large.json"), "w");
    assert_non_null(file);
    for (size_t i = 0; i <= (size_t)4 << 20; i++)
        assert_int_equal(fputc(' ', file), ' ');
    fclose(file);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_policy *policy = NULL;
        print_message("    %s\n", rows[i].name);
        assert_int_equal(weir_policy_load(in_folder(rows[i].name), &policy, &error), rows[i].code);
        assert_error(&error, rows[i].code, "", rows[i].text);
        assert_null(policy);
    }
}

static void keeps_the_first_error(void **state)
{
    (void)state;
    struct weir_error error = { WEIR_E_STATE, 5, 6, "/before", "Before.", "" };
    struct weir_policy *policy = NULL;
    assert_int_equal(weir_policy_parse("{\"x\": 1}", 8, NULL, &policy, &error), WEIR_E_UNKNOWN_KEY);
    assert_error(&error, WEIR_E_STATE, "/before", "Before.");
    assert_int_equal(error.line, 5);
    assert_int_equal(weir_policy_parse("{", 1, NULL, &policy, &error), WEIR_E_JSON);
    assert_int_equal(error.line, 5);
    assert_int_equal(weir_policy_parse("{\"x\": 1}", 8, NULL, &policy, NULL), WEIR_E_UNKNOWN_KEY);
    assert_int_equal(weir_policy_load(NULL, &policy, NULL), WEIR_E_ARGUMENT);
    assert_int_equal(weir_policy_parse(NULL, 0, NULL, &policy, NULL), WEIR_E_ARGUMENT);
    assert_int_equal(weir_policy_parse("{}", 2, NULL, NULL, NULL), WEIR_E_ARGUMENT);
}

/* The example of the design, without fields of bodies. */
static void reads_a_whole_file(void **state)
{
    (void)state;
    static const char json[] =
        "{ \"store\": {\"url\": \"redis://127.0.0.1:6379/0\", \"timeout\": \"20ms\", \"prefix\": "
        "\"weir\"},"
        "  \"client_ip\": {\"trust\": [\"loopback\", \"10.0.0.0/8\"], \"header\": "
        "\"X-Forwarded-For\","
        "                  \"ipv6_prefix\": 56},"
        "  \"instances\": 3,"
        "  \"plans\": {"
        "    \"free\": {\"burst\": {\"rate\": \"5/second\", \"burst\": 10}, \"daily\": "
        "\"1000/day\"},"
        "    \"pro\": {\"burst\": {\"rate\": \"50/second\", \"burst\": 100}, \"daily\": "
        "\"100000/day\"}},"
        "  \"policies\": {"
        "    \"api\": {\"limits\": ["
        "      {\"name\": \"burst\", \"by\": \"client\", \"rate\": \"plan\"},"
        "      {\"name\": \"daily\", \"by\": \"tenant|client\", \"rate\": \"plan\","
        "       \"algorithm\": \"fixed-window\", \"calendar\": \"UTC\"}],"
        "      \"on_store_failure\": \"open\"},"
        "    \"login\": {\"limits\": ["
        "      {\"name\": \"address\", \"by\": \"ip\", \"rate\": \"20/minute\"},"
        "      {\"name\": \"slow\", \"by\": \"ip\", \"rate\": \"5/15minutes\","
        "       \"algorithm\": \"sliding-log\", \"count\": \"failures\"}],"
        "      \"on_store_failure\": \"memory\"}},"
        "  \"routes\": ["
        "    {\"match\": \"POST /login\", \"auth\": \"none\", \"policy\": \"login\"},"
        "    {\"match\": \"GET /v1/search\", \"auth\": \"required\", \"policy\": \"api\", "
        "\"cost\": 5},"
        "    {\"match\": \"POST /v1/export\", \"auth\": \"required\", \"policy\": \"api\", "
        "\"cost\": 50},"
        "    {\"match\": \"* /v1/*\", \"auth\": \"required\", \"policy\": \"api\"}]}";
    struct weir_policy *policy = parse(json);
    assert_int_equal(policy->plan_count, 2);
    assert_int_equal(policy->ruleset_count, 2);
    assert_int_equal(policy->route_count, 4);
    assert_false(policy->rulesets[0].slot_is_identity);
    assert_true(policy->rulesets[1].slot_is_identity);
    assert_int_equal(policy->rulesets[1].on_store_failure.error, WEIR_FAIL_MEMORY);
    assert_int_equal(policy->routes[2].cost, 50);
    /* An export never fits the free plan's burst of 10, and there is no secret. */
    assert_int_equal(weir_policy_warning_count(policy), 2);
    weir_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_in_what_a_file_does_not_say),
        cmocka_unit_test(lets_nobody_guess_keys_for_free),
        cmocka_unit_test(reads_the_store),
        cmocka_unit_test(finds_the_files_for_tls_beside_its_own),
        cmocka_unit_test(shows_a_store_without_its_password),
        cmocka_unit_test(takes_secrets_from_the_environment),
        cmocka_unit_test(makes_a_key_of_the_secret),
        cmocka_unit_test(reads_how_the_client_is_found),
        cmocka_unit_test(tells_headers_with_addresses_apart),
        cmocka_unit_test(takes_a_number_for_hops),
        cmocka_unit_test(fills_in_what_a_limit_does_not_say),
        cmocka_unit_test(reads_a_limit),
        cmocka_unit_test(reads_what_is_counted),
        cmocka_unit_test(gives_back_what_an_aborted_request_took),
        cmocka_unit_test(knows_which_windows_need_a_calendar),
        cmocka_unit_test(reads_what_one_count_is_for),
        cmocka_unit_test(keeps_limits_of_one_subject_in_its_slot),
        cmocka_unit_test(groups_limits_of_one_subject),
        cmocka_unit_test(does_what_it_is_told_when_the_store_fails),
        cmocka_unit_test(keeps_the_mode_of_each_policy),
        cmocka_unit_test(reads_plans),
        cmocka_unit_test(reads_routes),
        cmocka_unit_test(reads_what_everything_else_meets),
        cmocka_unit_test(reads_which_headers_are_sent),
        cmocka_unit_test(finds_the_keys_beside_the_policy),
        cmocka_unit_test(says_what_is_wrong_in_the_keys_file),
        cmocka_unit_test(says_why_a_file_cannot_be_read),
        cmocka_unit_test(keeps_the_first_error),
        cmocka_unit_test(reads_a_whole_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
