/* The limiter with a store that does not answer at once, and what it need not ask it. */
#include "test.h"

#include <weir/weir.h>

#include "by_hand.h"
#include "limit/limiter_internal.h"
#include "store/store.h"

#define MS     UINT64_C(1000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)

static const char policy_json[] =
    "{ \"store\": { \"denial_cache\": \"%s\" }, \"secret\": \"s\","
    "  \"user\": { \"header\": \"X-User\" }, \"client_ip\": { \"trust\": [\"192.0.2.0/24\"] },"
    "  \"policies\": {"
    "    \"api\": { \"limits\": ["
    "      { \"name\": \"burst\", \"by\": \"user\", \"rate\": \"100/minute\" },"
    "      { \"name\": \"few\", \"by\": \"user\", \"rate\": \"2/minute\" }],"
    "      \"on_store_failure\": \"%s\" },"
    "    \"watched\": { \"mode\": \"shadow\", \"limits\": ["
    "      { \"name\": \"a\", \"by\": \"user\", \"rate\": \"1/minute\" }] },"
    "    \"tries\": { \"limits\": ["
    "      { \"name\": \"a\", \"by\": \"user\", \"rate\": \"1/minute\", \"algorithm\":"
    "        \"sliding-log\", \"record\": \"all\" }] } },"
    "  \"routes\": ["
    "    { \"match\": \"* /api\", \"auth\": \"required\", \"policy\": \"api\" },"
    "    { \"match\": \"* /dear\", \"auth\": \"required\", \"policy\": \"api\", \"cost\": 2 },"
    "    { \"match\": \"* /never\", \"auth\": \"required\", \"policy\": \"api\", \"cost\": 3 },"
    "    { \"match\": \"* /tries\", \"auth\": \"required\", \"policy\": \"tries\" },"
    "    { \"match\": \"* /watched\", \"auth\": \"required\", \"policy\": \"watched\" }] }";

/* A memory store that may be away, which requests are parked for. */
static struct {
    struct weir_policy *policy;
    struct weir_store *memory, *store;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    bool is_away;
    unsigned asked; /* checks that were to spend */
    unsigned handled;
    unsigned resumed;
    bool gives_back; /* the handler, what the request has spent */
    uint64_t now_us;
    unsigned decisions;
    enum weir_outcome last;
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
    bench.asked += check->operation == WEIR_SPEND;
    bench.memory->type->submit(bench.memory->self, check);
}

static void cancel_nothing(void *self, struct weir_check *check)
{
    (void)self;
    (void)check;
}

static void free_nothing(void *self)
{
    (void)self;
}

static const struct weir_store_type parking_type = { .size = sizeof parking_type,
                                                     .name = "parking",
                                                     .ready = is_ready,
                                                     .submit = submit,
                                                     .cancel = cancel_nothing,
                                                     .free = free_nothing };

static unsigned ask(const char *path);

/* Meanwhile others are refused. */
static void give_back(struct weir_request *request)
{
    bench.gives_back = false;
    assert_int_equal(ask("/dear"), 429);
    assert_int_equal(ask("/dear"), 429);
    bench.now_us += MS;
    assert_int_equal(weir_settle(request, 0), WEIR_OK);
    bench.now_us += MS;
}

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    bench.handled++;
    if (bench.gives_back)
        give_back(request);
    weir_reply_text(request, 200, "done");
    return WEIR_DONE;
}

static void on_decision(void *self, const struct weir_decision *decision)
{
    (void)self;
    bench.decisions++;
    bench.last = decision->outcome;
}

static void set_up_with(const char *denial_cache, const char *on_store_failure)
{
    char text[4096];
    struct weir_error error = WEIR_NO_ERROR;
    memset(&bench, 0, sizeof bench);
    bench.now_us = UINT64_C(1800000000000000);
    by_hand_reset();
    int length = snprintf(text, sizeof text, policy_json, denial_cache, on_store_failure);
    if (weir_policy_parse(text, (size_t)length, NULL, &bench.policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    const struct weir_clock clock = { read_clock, NULL };
    assert_int_equal(
        weir_store_open("memory:", WEIR_STORE_OPTIONS(.clock = &clock), &bench.memory, NULL),
        WEIR_OK);
    assert_int_equal(weir_store_new(&parking_type, NULL, &bench.store, NULL), WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = bench.policy, .store = bench.store,
                                              .clock = &clock, .on_decision = on_decision),
                         &bench.limiter, &error),
        WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &bench.chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(bench.chain, weir_limit(bench.limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(bench.chain, "*", handle, NULL), WEIR_OK);
}

static int set_up(void **state)
{
    (void)state;
    set_up_with("1s", "open");
    return 0;
}

static int set_up_with_fallback(void **state)
{
    (void)state;
    set_up_with("1s", "memory");
    return 0;
}

static int set_up_without(void **state)
{
    (void)state;
    set_up_with("0s", "open");
    return 0;
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

/* What a request was told. */
static struct reply {
    unsigned status;
    char retry[24], quotas[200], policies[200], body[600];
} got;

static void keep(char *memory, size_t size, struct weir_request *request, const char *name)
{
    const char *value = weir_reply_header(&request->reply, name);
    snprintf(memory, size, "%s", value == NULL ? "" : value);
}

static unsigned ask_as(const char *user, const char *path)
{
    struct weir_request *request = by_hand_request(bench.chain, "GET", path);
    by_hand_peer(request, "192.0.2.7");
    by_hand_header(request, "X-User", user);
    got = (struct reply){ .status = by_hand_run(request) };
    if (got.status == 0) {
        by_hand_await_resume(bench.resumed++);
        got.status = by_hand_run(request);
    }
    keep(got.retry, sizeof got.retry, request, "Retry-After");
    keep(got.quotas, sizeof got.quotas, request, "RateLimit");
    keep(got.policies, sizeof got.policies, request, "RateLimit-Policy");
    snprintf(got.body, sizeof got.body, "%.*s", (int)request->reply.body_length,
             request->reply.body);
    weir_request_end(request);
    return got.status;
}

static unsigned ask(const char *path)
{
    return ask_as("ann", path);
}

/* Two are let through, and the third is the last that the store hears of for a while. */
static void use_up(void)
{
    assert_int_equal(ask("/api"), 200);
    assert_int_equal(ask("/api"), 200);
    assert_int_equal(ask("/api"), 429);
    assert_int_equal(bench.asked, 3);
}

/* floods */

static void asks_the_store_once_a_second(void **state)
{
    (void)state;
    use_up();
    for (unsigned n = 0; n < 5000; n++) {
        bench.now_us += MS;
        assert_int_equal(ask("/api"), 429);
    }
    assert_in_range(bench.asked, 7, 8);
    assert_int_equal(bench.decisions, 5001);
    assert_int_equal(bench.last, WEIR_LIMITED);
    assert_int_equal(bench.handled, 2);
    assert_int_equal(weir_denials_numbers(bench.limiter->denials).replayed, 5003 - bench.asked);
}

static void tells_all_that_the_store_would(void **state)
{
    (void)state;
    use_up();
    const struct reply first = got;
    assert_string_equal(first.retry, "30");
    assert_string_equal(first.quotas, "\"burst\";r=98;t=2, \"few\";r=0;t=30");
    assert_string_equal(first.policies, "\"burst\";q=100;w=60, \"few\";q=2;w=60");
    assert_non_null(strstr(first.body, "[\"few\"]"));
    assert_int_equal(ask("/api"), 429);
    assert_memory_equal(&got, &first, sizeof got);
    assert_int_equal(bench.asked, 3);

    bench.now_us += SECOND - 1;
    assert_int_equal(ask("/api"), 429);
    assert_string_equal(got.retry, "30"); /* 29.000001 s, rounded up */
    assert_string_equal(got.quotas, "\"burst\";r=98;t=1, \"few\";r=0;t=30");
    assert_int_equal(bench.asked, 3);
}

/* Whoever waits as long as he was told by a denial is let through. */
static void tells_waits_that_are_true(void **state)
{
    (void)state;
    use_up();
    bench.now_us += 400 * MS;
    assert_int_equal(ask("/api"), 429);
    assert_int_equal(bench.asked, 3);
    bench.now_us += strtoull(got.retry, NULL, 10) * SECOND;
    assert_int_equal(ask("/api"), 200);
}

static void tells_requests_of_other_costs_apart(void **state)
{
    (void)state;
    assert_int_equal(ask("/api"), 200);
    assert_int_equal(ask("/dear"), 429);
    assert_int_equal(ask("/dear"), 429);
    assert_int_equal(bench.asked, 2);
    assert_int_equal(ask("/api"), 200);
    assert_int_equal(ask("/never"), 429);
    assert_int_equal(ask("/never"), 429);
    assert_int_equal(bench.last, WEIR_IMPOSSIBLE);
    assert_string_equal(got.retry, "");
    assert_int_equal(ask_as("bob", "/api"), 200);
    assert_int_equal(bench.asked, 5);
}

static void counts_what_a_policy_only_watches(void **state)
{
    (void)state;
    assert_int_equal(ask("/watched"), 200);
    for (int n = 0; n < 5; n++)
        assert_int_equal(ask("/watched"), 200);
    assert_int_equal(bench.asked, 2);
    assert_int_equal(bench.decisions, 5);
    assert_int_equal(bench.last, WEIR_SHADOW_LIMITED);
    assert_int_equal(bench.handled, 6);
}

static void asks_where_an_attempt_is_recorded(void **state)
{
    (void)state;
    assert_int_equal(ask("/tries"), 200);
    for (int n = 0; n < 5; n++) {
        bench.now_us += SECOND;
        assert_int_equal(ask("/tries"), 429);
        assert_string_equal(got.retry, "60");
    }
    assert_int_equal(bench.asked, 6);
}

static void asks_each_time_where_it_is_off(void **state)
{
    (void)state;
    use_up();
    assert_null(bench.limiter->denials);
    for (int n = 0; n < 5; n++)
        assert_int_equal(ask("/api"), 429);
    assert_int_equal(bench.asked, 8);
}

static void asks_a_store_that_answers_at_once(void **state)
{
    (void)state;
    struct weir_limiter *limiter = NULL;
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = bench.policy, .store = bench.memory),
                         &limiter, NULL),
        WEIR_OK);
    assert_null(limiter->denials);
    weir_limiter_free(limiter);
}

/* outages: a denial that runs is not a question that failed */

static void refuses_while_the_store_is_away(void **state)
{
    (void)state;
    use_up();
    bench.is_away = true;
    bench.now_us += SECOND - 1;
    assert_int_equal(ask("/api"), 429);
    assert_int_equal(bench.last, WEIR_LIMITED);
    assert_string_equal(got.retry, "30");
    /* Others get what the rule says, and so does she when nothing is known any more. */
    assert_int_equal(ask_as("bob", "/api"), 200);
    assert_int_equal(bench.last, WEIR_FAILED_OPEN);
    bench.now_us++;
    assert_int_equal(ask("/api"), 200);
    assert_int_equal(bench.last, WEIR_FAILED_OPEN);
    assert_int_equal(bench.asked, 3);
}

static void goes_before_the_fallback(void **state)
{
    (void)state;
    use_up();
    bench.is_away = true;
    assert_int_equal(ask("/api"), 429);
    bench.now_us += SECOND;
    assert_int_equal(ask("/api"), 200); /* in this process nothing has been spent */
    assert_int_equal(bench.asked, 3);
}

/* what lifts one */

#define ANN WEIR_SUBJECT(.policy = "api", .user = "ann")

static void lets_in_at_once_who_is_reset_here(void **state)
{
    (void)state;
    use_up();
    bench.now_us += MS;
    assert_int_equal(weir_limiter_reset(bench.limiter, ANN, NULL), WEIR_OK);
    bench.now_us += MS;
    assert_int_equal(ask("/api"), 200);
}

static void tells_at_once_of_a_block(void **state)
{
    (void)state;
    use_up();
    bench.now_us += MS;
    assert_int_equal(weir_limiter_block(bench.limiter, ANN, 3600, NULL), WEIR_OK);
    bench.now_us += MS;
    assert_int_equal(ask("/api"), 429);
    assert_string_equal(got.retry, "3600");
    assert_int_equal(ask("/api"), 429);
    assert_string_equal(got.retry, "3600");
    assert_int_equal(bench.asked, 4);
}

static void reset_elsewhere(void)
{
    struct weir_limiter *other = NULL;
    const struct weir_clock clock = { read_clock, NULL };
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = bench.policy,
                                                           .store = bench.store, .clock = &clock),
                                      &other, NULL),
                     WEIR_OK);
    assert_int_equal(weir_limiter_reset(other, ANN, NULL), WEIR_OK);
    weir_limiter_free(other);
}

static void sees_within_the_cap_who_is_reset_elsewhere(void **state)
{
    (void)state;
    use_up();
    reset_elsewhere();
    bench.now_us += SECOND - 1;
    assert_int_equal(ask("/api"), 429);
    bench.now_us++;
    assert_int_equal(ask("/api"), 200);
    assert_int_equal(ask("/api"), 200);
}

/* A request that turns out to cost nothing gives back what others wait for. */
static void lets_in_at_once_who_waits_for_what_is_given_back(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_check(bench.limiter, ANN, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(ask("/api"), 200);
    assert_int_equal(ask("/api"), 429);
    assert_int_equal(ask("/api"), 429);
    assert_int_equal(bench.asked, 3);
    bench.now_us += MS;
    assert_int_equal(weir_limiter_settle(bench.limiter, ANN, 1, &verdict, 0, NULL), WEIR_OK);
    bench.now_us += MS;
    assert_int_equal(ask("/api"), 200);
}

static void lets_in_at_once_where_a_request_gives_back(void **state)
{
    (void)state;
    bench.gives_back = true;
    assert_int_equal(ask("/api"), 200);
    assert_int_equal(bench.asked, 2);
    assert_int_equal(ask("/dear"), 200);
}

/* calls */

static void refuses_calls_and_requests_by_the_same(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    use_up();
    bench.now_us += 500 * MS;
    assert_int_equal(weir_limiter_check(bench.limiter, ANN, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(bench.asked, 3);
    assert_false(verdict.allowed);
    assert_int_equal(verdict.outcome, WEIR_LIMITED);
    assert_int_equal(verdict.retry_us, 29500 * MS);
    assert_string_equal(verdict.limit, "few");
    assert_int_equal(verdict.quota_count, 2);
    assert_int_equal(verdict.quotas[0].remaining, 98);
    assert_int_equal(verdict.quotas[1].remaining, 0);
    assert_int_equal(verdict.quotas[1].reset_s, 30);
    assert_int_equal(weir_limiter_settle(bench.limiter, ANN, 1, &verdict, 0, NULL), WEIR_E_STATE);

    /* To look is to ask. */
    assert_int_equal(weir_limiter_peek(bench.limiter, ANN, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(bench.asked, 4);
}

#define TEST(name, start) cmocka_unit_test_setup_teardown(name, start, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(asks_the_store_once_a_second, set_up),
        TEST(tells_all_that_the_store_would, set_up),
        TEST(tells_waits_that_are_true, set_up),
        TEST(tells_requests_of_other_costs_apart, set_up),
        TEST(counts_what_a_policy_only_watches, set_up),
        TEST(asks_where_an_attempt_is_recorded, set_up),
        TEST(asks_each_time_where_it_is_off, set_up_without),
        TEST(asks_a_store_that_answers_at_once, set_up),
        TEST(refuses_while_the_store_is_away, set_up),
        TEST(goes_before_the_fallback, set_up_with_fallback),
        TEST(lets_in_at_once_who_is_reset_here, set_up),
        TEST(tells_at_once_of_a_block, set_up),
        TEST(sees_within_the_cap_who_is_reset_elsewhere, set_up),
        TEST(lets_in_at_once_who_waits_for_what_is_given_back, set_up),
        TEST(lets_in_at_once_where_a_request_gives_back, set_up),
        TEST(refuses_calls_and_requests_by_the_same, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
