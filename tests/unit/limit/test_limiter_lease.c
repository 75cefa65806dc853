/* Requests through a limiter whose limits are leased, over a store that answers by hand. */
#include "test.h"

#include <weir/weir.h>

#include "by_hand.h"
#include "limit/algorithm.h"

#define SECOND UINT64_C(1000000)

static const char policy_json[] =
    "{ \"store\": {\"url\": \"redis://127.0.0.1:1\", \"timeout\": \"20s\", \"denial_cache\": "
    "\"0s\"},"
    "  \"secret\": \"0123456789abcdef0123456789abcdef\", \"instances\": 2,"
    "  \"user\": {\"header\": \"X-User\"}, \"client_ip\": {\"trust\": [\"192.0.2.0/24\"]},"
    "  \"policies\": {"
    "    \"open\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"1000/hour\","
    "      \"lease\": {\"batch\": 50}}], \"on_abort\": \"return\"},"
    "    \"closed\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"20/hour\","
    "      \"lease\": {\"batch\": 10}}], \"on_store_failure\": \"closed\"},"
    "    \"memory\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"100/hour\","
    "      \"lease\": {\"batch\": 10}}], \"on_store_failure\": \"memory\"}},"
    "  \"routes\": ["
    "    {\"match\": \"* /open\", \"auth\": \"optional\", \"policy\": \"open\"},"
    "    {\"match\": \"* /five\", \"auth\": \"optional\", \"policy\": \"open\", \"cost\": 5},"
    "    {\"match\": \"* /look\", \"auth\": \"optional\", \"policy\": \"open\", \"cost\": 0},"
    "    {\"match\": \"* /closed\", \"auth\": \"optional\", \"policy\": \"closed\"},"
    "    {\"match\": \"* /memory\", \"auth\": \"optional\", \"policy\": \"memory\"} ] }";

/* the store: sums by their keys, and checks that wait for an answer */

#define SUMS 8

static struct {
    char keys[SUMS][WEIR_KEY_MAX];
    size_t lengths[SUMS];
    struct weir_state states[SUMS];
    size_t count;
    struct weir_check *pending;
    enum weir_store_result result; /* of what is ended at once; ANSWERED unless a test says so */
    bool waits;                    /* the next check for spending is kept pending */
    bool is_away;                  /* not even asked */
    unsigned spends, settles, cancels;
} store;

static struct weir_state *state_of(const struct weir_spend *spend)
{
    for (size_t i = 0; i < store.count; i++)
        if (store.lengths[i] == spend->key_length
            && memcmp(store.keys[i], spend->key, spend->key_length) == 0)
            return &store.states[i];
    assert_true(store.count < SUMS);
    memcpy(store.keys[store.count], spend->key, spend->key_length);
    store.lengths[store.count] = spend->key_length;
    return &store.states[store.count++];
}

#define STORE_NOW (UINT64_C(1800000000) * SECOND)

static void end(struct weir_check *check)
{
    check->result = store.result;
    check->now_us = STORE_NOW;
    for (size_t i = 0; i < check->count && store.result == WEIR_STORE_ANSWERED; i++) {
        const struct weir_spend *spend = &check->spends[i];
        struct weir_state *state = state_of(spend);
        if (check->operation == WEIR_SETTLE) {
            *state = weir_settle_state(spend, *state, STORE_NOW).state;
            continue;
        }
        struct weir_decision_step step = weir_decide(spend, *state, STORE_NOW);
        check->answers[i] = step.answer;
        *state = step.state;
    }
    check->done(check);
}

static bool store_ready(void *self)
{
    (void)self;
    return !store.is_away;
}

static void store_submit(void *self, struct weir_check *check)
{
    (void)self;
    assert_null(weir_check_fault(check));
    store.spends += check->operation == WEIR_SPEND;
    store.settles += check->operation == WEIR_SETTLE;
    if (store.is_away) {
        check->result = WEIR_STORE_UNAVAILABLE;
        check->done(check);
        return;
    }
    if (!store.waits || check->operation != WEIR_SPEND) {
        end(check);
        return;
    }
    assert_null(store.pending);
    store.pending = check;
    store.waits = false;
}

static void end_pending(enum weir_store_result result)
{
    struct weir_check *check = store.pending;
    assert_non_null(check);
    store.pending = NULL;
    store.result = result;
    end(check);
    store.result = WEIR_STORE_ANSWERED;
}

static void store_cancel(void *self, struct weir_check *check)
{
    (void)self, (void)check;
    store.cancels++;
}

static void store_free(void *self)
{
    (void)self;
}

static const struct weir_store_type store_type = {
    .size = sizeof(struct weir_store_type),
    .name = "by hand",
    .ready = store_ready,
    .submit = store_submit,
    .cancel = store_cancel,
    .free = store_free,
};

/* a program */

static struct weir_store *handle;
static struct weir_policy *policy;
static struct weir_limiter *limiter;
static struct weir_chain *chain;
static bool settles;

static enum weir_step handle_it(void *self, struct weir_request *request)
{
    (void)self;
    if (settles)
        assert_int_equal(weir_settle(request, 2), WEIR_OK);
    weir_reply_text(request, 200, "done");
    return WEIR_DONE;
}

static int set_up(void **state)
{
    (void)state;
    memset(&store, 0, sizeof store);
    settles = false;
    by_hand_reset();
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_parse(policy_json, strlen(policy_json), NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(weir_store_new(&store_type, NULL, &handle, NULL), WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .store = handle), &limiter, &error),
        WEIR_OK);
    assert_int_equal(weir_chain_new(WEIR_CHAIN_OPTIONS(.parked_max = 8), &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(chain, "*", handle_it, NULL), WEIR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_chain_free(chain);
    weir_limiter_free(limiter);
    weir_store_free(handle);
    weir_policy_free(policy);
    return 0;
}

static struct weir_request *start(const char *path)
{
    struct weir_request *request = by_hand_request(chain, "GET", path);
    by_hand_peer(request, "192.0.2.7");
    by_hand_header(request, "X-User", "ann");
    return request;
}

/* A request to its end, suspended or not; its RateLimit field is in `fields`. */
static char fields[64];

static unsigned get(const char *path)
{
    struct weir_request *request = start(path);
    unsigned status = by_hand_run(request);
    if (status == 0)
        status = by_hand_run(request); /* the store has answered meanwhile */
    const char *value = weir_reply_header(&request->reply, "RateLimit");
    snprintf(fields, sizeof fields, "%s", value == NULL ? "" : value);
    weir_request_end(request);
    return status;
}

/* Units of "open" that are spent, once all leases are given back. While nothing is in use time earns the
 * beginning of a unit, and that one cannot be given back as a whole. */
static uint64_t spent(void)
{
    weir_limiter_free(limiter);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .store = handle), &limiter, NULL),
        WEIR_OK);
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_peek(limiter, WEIR_SUBJECT(.policy = "open", .user = "ann"), 1,
                                       &verdict, NULL),
                     WEIR_OK);
    return 1000 - verdict.quotas[0].remaining;
}

static void free_chain(void)
{
    weir_chain_free(chain);
    chain = NULL;
}

static void suspends_nobody_whose_units_are_held(void **state)
{
    (void)state;
    assert_int_equal(get("/open"), 200);
    assert_int_equal(by_hand_suspended, 1);
    assert_string_equal(fields, "\"a\";r=999;t=4");
    for (int i = 0; i < 30; i++)
        assert_int_equal(get("/open"), 200);
    assert_int_equal(by_hand_suspended, 1);
    assert_int_equal(store.spends, 1);
    assert_string_equal(fields, "\"a\";r=969;t=112");
}

static void looks_at_what_it_knows(void **state)
{
    (void)state;
    assert_int_equal(get("/look"), 200);
    assert_string_equal(fields, "\"a\";r=1000;t=0");
    assert_int_equal(get("/five"), 200);
    assert_int_equal(store.spends, 2);
    assert_int_equal(get("/look"), 200);
    assert_int_equal(store.spends, 2);
    assert_string_equal(fields, "\"a\";r=995;t=18");
}

/* The next block was refused, so that the store is asked, which counts what is held here as spent. */
static void adds_what_it_holds_to_what_the_store_tells_who_looks(void **state)
{
    (void)state;
    assert_int_equal(get("/open"), 200);
    store.states[0].first = STORE_NOW + 3600 * SECOND; /* others have spent all the rest */
    for (int i = 0; i < 39; i++)
        assert_int_equal(get("/open"), 200);
    unsigned before = store.spends;
    assert_int_equal(get("/look"), 200);
    assert_int_equal(store.spends, before + 1);
    assert_string_equal(fields, "\"a\";r=10;t=3564");
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_peek(limiter, WEIR_SUBJECT(.policy = "open", .user = "ann"), 1,
                                       &verdict, NULL),
                     WEIR_OK);
    assert_int_equal(verdict.quotas[0].remaining, 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(get("/open"), 200);
}

static void returns_units_of_a_request_that_broke_off(void **state)
{
    (void)state;
    assert_int_equal(get("/open"), 200);
    struct weir_request *request = start("/five");
    assert_int_equal(weir_run(request), WEIR_RUN_REPLY);
    weir_request_end(request);
    assert_int_equal(store.settles, 0); /* they are back in the block */
    free_chain();
    assert_in_range(spent(), 1, 2);
}

static void settles_what_was_decided_here(void **state)
{
    (void)state;
    assert_int_equal(get("/open"), 200);
    settles = true;
    assert_int_equal(get("/five"), 200);
    assert_string_equal(fields, "\"a\";r=997;t=11");
    assert_int_equal(store.settles, 0);
    assert_int_equal(get("/open"), 200); /* dearer than it was thought */
    assert_int_equal(store.settles, 1);
    free_chain();
    assert_in_range(spent(), 5, 6);
}

static void ends_with_a_request_that_waits(void **state)
{
    (void)state;
    store.waits = true;
    struct weir_request *request = start("/open");
    assert_int_equal(by_hand_run(request), 0);
    weir_request_end(request); /* the server ends it */
    assert_int_equal(store.cancels, 0);
    end_pending(WEIR_STORE_ANSWERED); /* its block comes all the same */
    assert_int_equal(get("/open"), 200);
    assert_int_equal(store.spends, 1);
    free_chain();
    assert_in_range(spent(), 1, 2);
}

static void gives_back_for_a_request_that_ended_when_it_was_let_through(void **state)
{
    (void)state;
    store.waits = true;
    struct weir_request *request = start("/open");
    assert_int_equal(by_hand_run(request), 0);
    end_pending(WEIR_STORE_ANSWERED);
    weir_request_end(request);
    free_chain();
    assert_in_range(spent(), 0, 1);
}

static void applies_the_failure_rule_when_nothing_is_held(void **state)
{
    (void)state;
    assert_int_equal(get("/closed"), 200);
    store.is_away = true;
    for (int i = 0; i < 9; i++)
        assert_int_equal(get("/closed"), 200);
    assert_int_equal(get("/closed"), 503);
    store.is_away = false;
    store.result = WEIR_STORE_ERROR;
    assert_int_equal(get("/closed"), 503);
    assert_int_equal(get("/open"), 200);
    assert_string_equal(fields, "");
}

static void never_takes_a_refusal_to_the_fallback(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(get("/memory"), 200);
    assert_int_equal(get("/memory"), 429);
    store.is_away = true;
    assert_int_equal(get("/memory"), 200); /* nothing is held, so the fallback decides */
    store.is_away = false;
    assert_int_equal(get("/memory"), 429);
    assert_string_equal(fields, "\"a\";r=0;t=36");
}

int main(void)
{
#define LIMITER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        LIMITER_TEST(suspends_nobody_whose_units_are_held),
        LIMITER_TEST(looks_at_what_it_knows),
        LIMITER_TEST(adds_what_it_holds_to_what_the_store_tells_who_looks),
        LIMITER_TEST(returns_units_of_a_request_that_broke_off),
        LIMITER_TEST(settles_what_was_decided_here),
        LIMITER_TEST(ends_with_a_request_that_waits),
        LIMITER_TEST(gives_back_for_a_request_that_ended_when_it_was_let_through),
        LIMITER_TEST(applies_the_failure_rule_when_nothing_is_held),
        LIMITER_TEST(never_takes_a_refusal_to_the_fallback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
