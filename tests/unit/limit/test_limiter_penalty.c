/* Penalties in the limiter: one with its limit, for whoever asks. */
#include "test.h"

#include <weir/weir.h>

#include "by_hand.h"
#include "limit/combine.h"
#include "limit/limiter_internal.h"
#include "store/store.h"

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

static const char policy_json[] =
    "{ \"secret\": \"s\", \"instances\": 2, \"user\": { \"header\": \"X-User\" },"
    "  \"client_ip\": { \"trust\": [\"192.0.2.0/24\"] },"
    "  \"policies\": {"
    "    \"login\": { \"limits\": ["
    "      { \"name\": \"calm\", \"by\": \"user\", \"rate\": \"100/minute\" },"
    "      { \"name\": \"tries\", \"by\": \"user\", \"rate\": \"4/minute\","
    "        \"penalty\": { \"after\": 2, \"ban\": [\"5m\", \"1h\"] } },"
    "      { \"name\": \"ip\", \"by\": \"ip\", \"rate\": \"50/minute\" }],"
    "      \"on_store_failure\": \"memory\" },"
    "    \"watched\": { \"mode\": \"shadow\", \"limits\": ["
    "      { \"name\": \"a\", \"by\": \"user\", \"rate\": \"1/second\","
    "        \"penalty\": { \"after\": 1, \"ban\": [\"5m\"] } }] },"
    "    \"failures\": { \"limits\": ["
    "      { \"name\": \"a\", \"by\": \"user\", \"rate\": \"1/hour\", \"count\": \"failures\","
    "        \"penalty\": { \"after\": 1, \"ban\": [\"2h\"] } }] },"
    "    \"forgiven\": { \"limits\": ["
    "      { \"name\": \"a\", \"by\": \"user\", \"rate\": \"2/minute\", \"count\": \"failures\","
    "        \"on_success\": \"reset\", \"penalty\": { \"after\": 2, \"ban\": [\"2h\"] } }] }"
    "  },"
    "  \"routes\": ["
    "    { \"match\": \"* /login\", \"auth\": \"required\", \"policy\": \"login\" },"
    "    { \"match\": \"* /quiet\", \"auth\": \"none\", \"policy\": \"login\" },"
    "    { \"match\": \"* /look\", \"auth\": \"required\", \"policy\": \"login\", \"cost\": 0 },"
    "    { \"match\": \"* /heavy\", \"auth\": \"required\", \"policy\": \"login\", \"cost\": 5 },"
    "    { \"match\": \"* /failures\", \"auth\": \"required\", \"policy\": \"failures\" },"
    "    { \"match\": \"POST /forgiven\", \"auth\": \"required\", \"policy\": \"forgiven\" },"
    "    { \"match\": \"* /watched\", \"auth\": \"required\", \"policy\": \"watched\" }] }";

/* A memory store that may be away. */
static struct {
    struct weir_policy *policy;
    struct weir_store *memory, *store;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    bool is_away;
    unsigned status; /* that the handler answers */
    unsigned handled;
    uint64_t now_us;
    size_t last_count; /* of limits and penalties in the last check */
    enum weir_operation last_operation;
    struct weir_decision last; /* its texts are not kept */
    char last_limit[32];
} bench;

static uint64_t read_clock(void *self)
{
    (void)self;
    return bench.now_us;
}

static bool is_ready(void *self)
{
    (void)self;
    return !bench.is_away;
}

static void submit(void *self, struct weir_check *check)
{
    (void)self;
    bench.last_count = check->count;
    bench.last_operation = check->operation;
    bench.memory->type->submit(bench.memory->self, check);
}

static void free_nothing(void *self)
{
    (void)self;
}

static const struct weir_store_type through_type = { .size = sizeof through_type,
                                                     .name = "through",
                                                     .answers_inline = true,
                                                     .ready = is_ready,
                                                     .submit = submit,
                                                     .free = free_nothing };

static void cancel_nothing(void *self, struct weir_check *check)
{
    (void)self;
    (void)check;
}

/* The same, for which requests are parked; its answer is there before they are. */
static const struct weir_store_type parking_type = { .size = sizeof parking_type,
                                                     .name = "parking",
                                                     .submit = submit,
                                                     .cancel = cancel_nothing,
                                                     .free = free_nothing };

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    bench.handled++;
    weir_reply_text(request, bench.status, "done");
    return WEIR_DONE;
}

static void on_decision(void *self, const struct weir_decision *decision)
{
    (void)self;
    bench.last = *decision;
    snprintf(bench.last_limit, sizeof bench.last_limit, "%s",
             decision->limit == NULL ? "" : decision->limit);
}

static int set_up_with(const struct weir_store_type *type)
{
    memset(&bench, 0, sizeof bench);
    bench.now_us = UINT64_C(1800000000000000);
    bench.status = 200;
    by_hand_reset();
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_parse(policy_json, strlen(policy_json), NULL, &bench.policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    const struct weir_clock clock = { read_clock, NULL };
    assert_int_equal(
        weir_store_open("memory:", WEIR_STORE_OPTIONS(.clock = &clock), &bench.memory, NULL),
        WEIR_OK);
    assert_int_equal(weir_store_new(type, NULL, &bench.store, NULL), WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = bench.policy, .store = bench.store,
                                              .clock = &clock, .on_decision = on_decision),
                         &bench.limiter, &error),
        WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &bench.chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(bench.chain, weir_limit(bench.limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(bench.chain, "*", handle, NULL), WEIR_OK);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with(&through_type);
}

static int set_up_parking(void **state)
{
    (void)state;
    return set_up_with(&parking_type);
}

static int tear_down(void **state)
{
    (void)state;
    weir_chain_free(bench.chain);
    weir_limiter_free(bench.limiter);
    weir_store_free(bench.store);
    weir_store_free(bench.memory);
    weir_policy_free(bench.policy);
    return 0;
}

/* What a request of Ann's was told. */
static struct reply {
    unsigned status;
    char retry[24], quotas[200], policies[200], body[600];
    struct weir_quota shown[WEIR_CHECK_LIMITS];
    size_t shown_count;
} got;

static void keep(char *memory, size_t size, struct weir_request *request, const char *name)
{
    const char *value = weir_reply_header(&request->reply, name);
    snprintf(memory, size, "%s", value == NULL ? "" : value);
}

static unsigned ask(const char *path)
{
    bool posts = strcmp(path, "/forgiven") == 0;
    struct weir_request *request = by_hand_request(bench.chain, posts ? "POST" : "GET", path);
    by_hand_peer(request, "192.0.2.7");
    by_hand_header(request, "X-User", "ann");
    got = (struct reply){ .status = by_hand_run(request) };
    keep(got.retry, sizeof got.retry, request, "Retry-After");
    keep(got.quotas, sizeof got.quotas, request, "RateLimit");
    keep(got.policies, sizeof got.policies, request, "RateLimit-Policy");
    snprintf(got.body, sizeof got.body, "%.*s", (int)request->reply.body_length,
             request->reply.body);
    got.shown_count = weir_request_quotas(request, bench.limiter, got.shown, COUNT_OF(got.shown));
    weir_request_end(request);
    return got.status;
}

static void use_up(void)
{
    for (int i = 0; i < 4; i++)
        assert_int_equal(ask("/login"), 200);
}

/* requests */

static void bans_as_if_the_limit_itself_did(void **state)
{
    (void)state;
    use_up();
    assert_int_equal(bench.last_count, 4); /* three limits and a penalty */
    assert_string_equal(got.quotas, "\"calm\";r=96;t=3, \"tries\";r=0;t=60, \"ip\";r=46;t=5");
    assert_string_equal(got.policies, "\"calm\";q=100;w=60, \"tries\";q=4;w=60, \"ip\";q=50;w=60");

    assert_int_equal(ask("/login"), 429);
    assert_string_equal(got.retry, "15");
    assert_int_equal(ask("/login"), 429);
    assert_string_equal(got.retry, "300"); /* the second violation begins the ban */
    assert_string_equal(bench.last_limit, "tries");
    assert_int_equal(bench.last.outcome, WEIR_LIMITED);
    assert_int_equal(bench.last.retry_s, 300);
    assert_string_equal(got.quotas, "\"calm\";r=96;t=3, \"tries\";r=0;t=300, \"ip\";r=46;t=5");
    assert_non_null(strstr(got.body, "retry in 300 seconds"));
    assert_non_null(strstr(got.body, "[\"tries\"]"));
    assert_null(strstr(got.body, "penalty"));
    assert_int_equal(got.shown_count, 3);
    assert_string_equal(got.shown[1].limit, "tries");
    assert_int_equal(got.shown[1].remaining, 0);
    assert_int_equal(got.shown[1].reset_s, 300);

    /* The limit has room again, and the ban goes on; nothing is charged. */
    bench.now_us += 2 * MINUTE;
    assert_int_equal(ask("/login"), 429);
    assert_string_equal(got.retry, "180");
    assert_string_equal(got.quotas, "\"calm\";r=100;t=0, \"tries\";r=0;t=180, \"ip\";r=50;t=0");
    assert_int_equal(ask("/quiet"), 429);
    assert_string_equal(got.quotas, "");
    assert_string_equal(got.retry, "180");
    assert_int_equal(bench.handled, 4);

    bench.now_us += 3 * MINUTE;
    assert_int_equal(ask("/login"), 200);
    assert_string_equal(got.quotas, "\"calm\";r=99;t=1, \"tries\";r=3;t=15, \"ip\";r=49;t=2");
}

/* Whoever waits as long as he is told is let through, so the longer of both waits is told. */
static void tells_the_longer_wait(void **state)
{
    (void)state;
    bench.status = 401;
    assert_int_equal(ask("/failures"), 401);
    assert_int_equal(ask("/failures"), 429);
    assert_string_equal(got.retry, "7200"); /* the limit says an hour */
    bench.now_us += 90 * MINUTE;
    assert_int_equal(ask("/failures"), 429);
    assert_string_equal(got.retry, "1800");
    bench.now_us += 30 * MINUTE;
    bench.status = 200;
    assert_int_equal(ask("/failures"), 200);
    assert_int_equal(bench.last_operation, WEIR_SETTLE);
    assert_int_equal(bench.last_count, 1); /* settling does not concern the penalty */
    assert_int_equal(ask("/failures"), 200);
}

static void fail_until_refused(void)
{
    bench.status = 401;
    assert_int_equal(ask("/forgiven"), 401);
    assert_int_equal(ask("/forgiven"), 401);
    assert_int_equal(ask("/forgiven"), 429);
}

/* A success that resets the limit forgets its violations. */
static void forgets_violations_where_a_success_resets(void **state)
{
    (void)state;
    fail_until_refused();
    assert_string_equal(got.retry, "30");
    bench.now_us += MINUTE;
    bench.status = 200;
    assert_int_equal(ask("/forgiven"), 200);
    assert_int_equal(bench.last_operation, WEIR_RESET);
    assert_int_equal(bench.last_count, 2);
    fail_until_refused();
    assert_string_equal(got.retry, "30");
    bench.now_us += MINUTE;
    fail_until_refused();
    assert_string_equal(got.retry, "7200");
}

static void shows_a_ban_to_who_looks(void **state)
{
    (void)state;
    use_up();
    ask("/login");
    ask("/login");
    assert_int_equal(ask("/look"), 200);
    assert_string_equal(got.quotas, "\"calm\";r=96;t=3, \"tries\";r=0;t=300, \"ip\";r=46;t=5");
    /* A cost that never fits is refused for good, ban or not. */
    assert_int_equal(ask("/heavy"), 429);
    assert_string_equal(got.retry, "");
    assert_int_equal(bench.last.outcome, WEIR_IMPOSSIBLE);
}

static void watches_where_a_policy_only_watches(void **state)
{
    (void)state;
    assert_int_equal(ask("/watched"), 200);
    assert_int_equal(ask("/watched"), 200);
    assert_int_equal(bench.last.outcome, WEIR_SHADOW_LIMITED);
    bench.now_us += MINUTE;
    assert_int_equal(ask("/watched"), 200);
    assert_int_equal(bench.last.outcome, WEIR_SHADOW_LIMITED);
    assert_int_equal(bench.last.retry_s, 240);
}

/* The fallback of this process has penalties of its own, for its share of the limit. */
static void bans_in_this_process_while_the_store_is_away(void **state)
{
    (void)state;
    bench.is_away = true;
    assert_int_equal(ask("/login"), 200);
    assert_int_equal(ask("/login"), 200);
    assert_int_equal(ask("/login"), 429);
    assert_int_equal(ask("/login"), 429);
    assert_string_equal(got.retry, "60"); /* the store may be back by then */
    assert_true(bench.last.by_memory);
    bench.now_us += 4 * MINUTE;
    assert_int_equal(ask("/login"), 429);
    assert_string_equal(got.retry, "60");
    bench.now_us += MINUTE - 1000000;
    assert_int_equal(ask("/login"), 429);
    assert_string_equal(got.retry, "1");
    bench.is_away = false;
    assert_int_equal(ask("/login"), 200);
}

static void gives_back_the_limits_of_who_has_gone(void **state)
{
    (void)state;
    struct weir_request *request = by_hand_request(bench.chain, "GET", "/login");
    by_hand_peer(request, "192.0.2.7");
    by_hand_header(request, "X-User", "ann");
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(bench.last_count, 4);
    weir_request_end(request);
    assert_int_equal(bench.last_operation, WEIR_SETTLE);
    assert_int_equal(bench.last_count, 3);
}

/* calls */

#define ANN       WEIR_SUBJECT(.policy = "login", .user = "ann")
#define FAILURES  WEIR_SUBJECT(.policy = "failures", .user = "ann")
#define HEAVY_ANN WEIR_SUBJECT(.policy = "login", .user = "ann", .cost = 4)

static struct weir_verdict check(const struct weir_subject *subject)
{
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_check(bench.limiter, subject, 1, &verdict, NULL), WEIR_OK);
    return verdict;
}

static struct weir_verdict peek(const struct weir_subject *subject)
{
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_peek(bench.limiter, subject, 1, &verdict, NULL), WEIR_OK);
    return verdict;
}

static void ban_ann(void)
{
    assert_true(check(HEAVY_ANN).allowed);
    assert_false(check(ANN).allowed);
    assert_false(check(ANN).allowed);
}

static void tells_calls_of_a_ban(void **state)
{
    (void)state;
    assert_true(check(HEAVY_ANN).allowed);
    assert_int_equal(check(ANN).retry_us, 15 * SECOND);
    struct weir_verdict verdict = check(ANN);
    assert_false(verdict.allowed);
    assert_int_equal(verdict.outcome, WEIR_LIMITED);
    assert_int_equal(verdict.retry_us, 5 * MINUTE);
    assert_string_equal(verdict.policy, "login");
    assert_string_equal(verdict.limit, "tries");
    assert_int_equal(verdict.quota_count, 2); /* Ann says no address */
    assert_string_equal(verdict.quotas[1].limit, "tries");

    bench.now_us += 2 * MINUTE;
    verdict = peek(ANN);
    assert_false(verdict.allowed);
    assert_string_equal(verdict.limit, "tries");
    assert_int_equal(verdict.quotas[0].remaining, 100);
    assert_int_equal(verdict.quotas[1].remaining, 0);
    assert_int_equal(verdict.quotas[1].reset_s, 180);
    bench.now_us += 3 * MINUTE;
    assert_true(peek(ANN).allowed);
    assert_int_equal(peek(ANN).quotas[1].remaining, 4);
}

static void forgets_a_penalty_with_its_limit(void **state)
{
    (void)state;
    ban_ann();
    assert_int_equal(weir_limiter_reset(bench.limiter, ANN, NULL), WEIR_OK);
    assert_true(check(HEAVY_ANN).allowed);
    assert_int_equal(check(ANN).retry_us, 15 * SECOND); /* the first violation again */
    assert_int_equal(check(ANN).retry_us, 5 * MINUTE);

    assert_int_equal(
        weir_limiter_reset(bench.limiter,
                           WEIR_SUBJECT(.policy = "login", .user = "ann", .limit = "calm"), NULL),
        WEIR_OK);
    assert_false(check(ANN).allowed);
    assert_int_equal(
        weir_limiter_reset(bench.limiter,
                           WEIR_SUBJECT(.policy = "login", .user = "ann", .limit = "tries"), NULL),
        WEIR_OK);
    assert_true(check(ANN).allowed);
}

static void blocks_without_a_violation(void **state)
{
    (void)state;
    assert_true(check(HEAVY_ANN).allowed);
    assert_int_equal(weir_limiter_block(bench.limiter, ANN, 60, NULL), WEIR_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(check(ANN).retry_us, MINUTE);
    bench.now_us += MINUTE;
    assert_true(check(HEAVY_ANN).allowed);
    assert_int_equal(check(ANN).retry_us, 15 * SECOND);
}

static void settles_the_limit_alone(void **state)
{
    (void)state;
    struct weir_verdict verdict = check(HEAVY_ANN);
    assert_int_equal(check(ANN).retry_us, 15 * SECOND);
    assert_int_equal(weir_limiter_settle(bench.limiter, HEAVY_ANN, 1, &verdict, 1, NULL), WEIR_OK);
    assert_int_equal(bench.last_count, 2);
    assert_int_equal(peek(ANN).quotas[1].remaining, 3);
    assert_false(check(HEAVY_ANN).allowed); /* the second violation */
    assert_int_equal(check(ANN).retry_us, 5 * MINUTE);
}

static void decides_several_subjects_with_penalties(void **state)
{
    (void)state;
    const struct weir_subject subjects[] = { *ANN, *FAILURES };
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_check(bench.limiter, subjects, 2, &verdict, NULL), WEIR_OK);
    assert_true(verdict.allowed);
    assert_int_equal(verdict.quota_count, 3);
    assert_int_equal(bench.last_count, 5);
    assert_int_equal(weir_limiter_check(bench.limiter, subjects, 2, &verdict, NULL), WEIR_OK);
    assert_false(verdict.allowed);
    assert_string_equal(verdict.policy, "failures");
    assert_int_equal(verdict.retry_us, 2 * HOUR);
    /* Of the other policy nothing was spent, and it has not been violated. */
    assert_int_equal(verdict.quotas[1].remaining, 3);
    assert_int_equal(weir_limiter_peek(bench.limiter, subjects, 2, &verdict, NULL), WEIR_OK);
    assert_false(verdict.allowed);
    assert_string_equal(verdict.policy, "failures");
    assert_string_equal(verdict.quotas[2].policy, "failures");
    assert_int_equal(verdict.quotas[2].reset_s, 7200);
}

/* keys and merging */

static const char penalty_json[] = ",\"penalty\":{\"after\":1,\"ban\":[\"1m\"]}";

static void names_a_penalty_after_its_limit(void **state)
{
    (void)state;
    static const struct {
        const char *members, *more, *keys[2];
        size_t group_length;
    } rows[] = {
        { "",
          "",
          { "weir:{ip=192.0.2.7/32}:p:a:gcra", "weir:{ip=192.0.2.7/32}:p:a:gcra:penalty" },
          0 },
        { "\"slot\":\"policy\",",
          "",
          { "weir:{p}:p:a:gcra:ip=192.0.2.7/32", "weir:{p}:p:a:gcra:penalty:ip=192.0.2.7/32" },
          0 },
        { "",
          ",{\"name\":\"b\",\"by\":\"ip\",\"rate\":\"9/minute\"}",
          { "weir:{ip=192.0.2.7/32}:p:a:gcra", "weir:{ip=192.0.2.7/32}:p:a:gcra:penalty" },
          sizeof "weir:{ip=192.0.2.7/32}:p" - 1 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char json[512], keys[WEIR_PLAN_KEY_BYTES];
        int length = snprintf(json, sizeof json,
                              "{\"policies\":{\"p\":{%s\"limits\":[{\"name\":\"a\",\"by\":\"ip\","
                              "\"rate\":\"5/minute\"%s}%s]}}}",
                              rows[i].members, penalty_json, rows[i].more);
        struct weir_policy *policy = NULL;
        assert_int_equal(weir_policy_parse(json, (size_t)length, NULL, &policy, NULL), WEIR_OK);
        const struct weir_address address = { .family = WEIR_IPV4, .bytes = { 192, 0, 2, 7 } };
        const struct weir_identity identity = { .found = true,
                                                .client = address,
                                                .network = { address, 32 } };
        const struct weir_asker asker = { .policy = policy, .identity = &identity };
        struct weir_plan_of_checks plan = { .keys = weir_buffer_init(keys, sizeof keys) };
        assert_true(weir_plan_add(&plan, &policy->rulesets[0], &asker, 3));
        assert_int_equal(plan.count, 2 + (rows[i].more[0] != '\0'));
        for (size_t n = 0; n < 2; n++) {
            assert_int_equal(plan.spends[n].key_length, strlen(rows[i].keys[n]));
            assert_memory_equal(plan.spends[n].key, rows[i].keys[n], plan.spends[n].key_length);
            assert_int_equal(plan.spends[n].group_length, rows[i].group_length);
        }
        assert_int_equal(plan.spends[1].algorithm, WEIR_PENALTY);
        assert_int_equal(plan.spends[1].cost, 3);
        assert_ptr_equal(plan.spends[1].penalty, policy->rulesets[0].limits[0].penalty);
        assert_null(plan.spends[0].penalty);
        weir_policy_free(policy);
    }
}

static void merges_answers_to_the_stricter(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct weir_answer limit, penalty, want;
    } rows[] = {
        { "no ban",
          { .allowed = true, .remaining = 4, .reset_us = 7, .wait_us = 3 },
          { .allowed = true, .remaining = WEIR_UNITS_MAX },
          { .allowed = true, .remaining = 4, .reset_us = 7, .wait_us = 3 } },
        { "a ban, and the limit has room",
          { .allowed = true, .remaining = 4, .reset_us = 7 },
          { .retry_us = 50, .reset_us = 50 },
          { .retry_us = 50, .reset_us = 50 } },
        { "a shorter ban than the limit's wait",
          { .remaining = 1, .retry_us = 60, .reset_us = 70 },
          { .retry_us = 50, .reset_us = 50 },
          { .retry_us = 60, .reset_us = 70 } },
        { "a violation without a ban",
          { .remaining = 1, .retry_us = 60, .reset_us = 70 },
          { .allowed = true, .remaining = WEIR_UNITS_MAX },
          { .remaining = 1, .retry_us = 60, .reset_us = 70 } },
        { "what never fits",
          { .impossible = true, .remaining = 4, .reset_us = 7 },
          { .retry_us = 50, .reset_us = 50 },
          { .impossible = true, .reset_us = 50 } },
        { "a look",
          { .allowed = true, .remaining = 4, .reset_us = 7 },
          { .allowed = true, .reset_us = 50 },
          { .allowed = true, .reset_us = 50 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_spend spends[4] = { { .key = "a" },
                                        { .key = "b" },
                                        { .algorithm = WEIR_PENALTY, .key = "p" },
                                        { .key = "c" } };
        struct weir_planned planned[4] = { { .penalty = 0 } };
        struct weir_answer answers[4] = {
            { .remaining = 11 }, rows[i].limit, rows[i].penalty, { .remaining = 33 }
        };
        assert_int_equal(weir_plan_merge_penalties(spends, planned, answers, 4), 3);
        assert_memory_equal(&answers[1], &rows[i].want, sizeof answers[1]);
        assert_int_equal(answers[0].remaining, 11);
        assert_int_equal(answers[2].remaining, 33);
        assert_string_equal(spends[0].key, "a");
        assert_string_equal(spends[1].key, "b");
        assert_string_equal(spends[2].key, "c");
        assert_string_equal(spends[3].key, "p");
        assert_int_equal(planned[0].penalty, 0);
        assert_int_equal(planned[1].penalty, 3);
        assert_int_equal(planned[2].penalty, 0);
        /* Once more changes nothing. */
        assert_int_equal(weir_plan_merge_penalties(spends, planned, answers, 3), 3);
        assert_int_equal(planned[1].penalty, 3);
    }
}

static void keeps_each_limit_with_its_own_penalty(void **state)
{
    (void)state;
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    struct weir_planned planned[WEIR_CHECK_LIMITS] = { { .penalty = 0 } };
    char keys[WEIR_CHECK_LIMITS][2];
    for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++) {
        keys[i][0] = (char)('a' + i);
        keys[i][1] = '\0';
        spends[i] = (struct weir_spend){ .algorithm = i % 2 == 1 ? WEIR_PENALTY : WEIR_GCRA,
                                         .key = keys[i] };
    }
    assert_int_equal(weir_plan_merge_penalties(spends, planned, NULL, WEIR_CHECK_LIMITS), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(spends[i].key, keys[2 * i]);
        assert_string_equal(spends[planned[i].penalty].key, keys[2 * i + 1]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bans_as_if_the_limit_itself_did),
        TEST(tells_the_longer_wait),
        TEST(forgets_violations_where_a_success_resets),
        TEST(shows_a_ban_to_who_looks),
        TEST(watches_where_a_policy_only_watches),
        TEST(bans_in_this_process_while_the_store_is_away),
        cmocka_unit_test_setup_teardown(gives_back_the_limits_of_who_has_gone, set_up_parking,
                                        tear_down),
        TEST(tells_calls_of_a_ban),
        TEST(forgets_a_penalty_with_its_limit),
        TEST(blocks_without_a_violation),
        TEST(settles_the_limit_alone),
        TEST(decides_several_subjects_with_penalties),
        cmocka_unit_test(names_a_penalty_after_its_limit),
        cmocka_unit_test(merges_answers_to_the_stricter),
        cmocka_unit_test(keeps_each_limit_with_its_own_penalty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
