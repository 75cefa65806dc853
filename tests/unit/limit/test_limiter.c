/* The limiter over a store that answers what the test says. */
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <weir/weir.h>

#include "by_hand.h"
#include "limit/limiter_internal.h"

/* a store that does as it is told */

struct told_store {
    bool is_ready;
    bool answers_at_once;
    struct weir_check *held;
    struct weir_check answer; /* result, now_us and why are copied from here */
    struct weir_answer answers[WEIR_CHECK_LIMITS];
    struct weir_spend settled[WEIR_CHECK_LIMITS]; /* of the last settlement */
    size_t settled_count;
    unsigned settlements;
    bool holds_settlements;
    struct weir_check *held_settlement;
    unsigned asked;
    unsigned cancelled;
    struct weir_store_state how; /* what it says of itself */
    unsigned states;             /* how often it was asked that */
    char keys[WEIR_CHECK_LIMITS][256];
    uint64_t costs[WEIR_CHECK_LIMITS];
};

static struct told_store told;

static bool told_ready(void *self)
{
    return ((struct told_store *)self)->is_ready;
}

static void told_answer(struct told_store *store)
{
    struct weir_check *check = store->held;
    store->held = NULL;
    check->result = store->answer.result;
    check->now_us = store->answer.now_us;
    memcpy(check->answers, store->answers, check->count * sizeof *check->answers);
    memcpy(check->why, store->answer.why, sizeof check->why);
    check->done(check);
}

static void told_settle(struct told_store *store, struct weir_check *check)
{
    store->settlements++;
    store->settled_count = check->count;
    memcpy(store->settled, check->spends, check->count * sizeof *check->spends);
    check->result = WEIR_STORE_ANSWERED;
    if (store->holds_settlements)
        store->held_settlement = check;
    else
        check->done(check);
}

static void told_submit(void *self, struct weir_check *check)
{
    struct told_store *store = self;
    if (check->operation == WEIR_SETTLE) {
        told_settle(store, check);
        return;
    }
    store->asked++;
    memset(store->keys, 0, sizeof store->keys);
    for (size_t i = 0; i < check->count; i++) {
        memcpy(store->keys[i], check->spends[i].key, check->spends[i].key_length);
        store->costs[i] = check->spends[i].cost;
    }
    store->held = check;
    if (store->answers_at_once)
        told_answer(store);
}

static void told_cancel(void *self, struct weir_check *check)
{
    struct told_store *store = self;
    store->cancelled++;
    if (store->held == NULL)
        return; /* the answer was quicker */
    assert_ptr_equal(store->held, check);
    store->answer.result = WEIR_STORE_CANCELLED;
    told_answer(store);
}

static void told_state(void *self, struct weir_store_state *state)
{
    struct told_store *store = self;
    store->states++;
    *state = store->how;
}

static void told_free(void *self)
{
    (void)self;
}

static const struct weir_store_type told_type = { .size = sizeof told_type,
                                                  .name = "told",
                                                  .ready = told_ready,
                                                  .submit = told_submit,
                                                  .cancel = told_cancel,
                                                  .state = told_state,
                                                  .free = told_free };

/* a chain with a policy, the limiter, and one handler for all */

static const char keys_json[] =
    "{\"keys\": [{\"id\": \"acme-free\", \"tenant\": \"acme\", \"plan\": \"free\", \"sha256\":"
    " \"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}]}"; /* "foo" */

static const char policy_json[] =
    "{ \"store\": {\"url\": \"memory:\"}, \"instances\": 2, \"secret\": \"s\","
    "  \"api_keys\": {\"file\": \"%s\", \"guesses\": \"3/minute\"},"
    "  \"plans\": {\"free\": {\"burst\": {\"rate\": \"5/second\", \"burst\": 10}, \"daily\": "
    "\"100/day\"}},"
    "  \"policies\": {"
    "    \"open\": {\"limits\": [{\"name\": \"burst\", \"by\": \"client\", \"rate\": \"plan\"},"
    "      {\"name\": \"daily\", \"by\": \"tenant|client\", \"rate\": \"plan\", \"algorithm\": "
    "\"fixed-window\"}],"
    "      \"on_store_failure\": \"open\"},"
    "    \"nothing\": {\"limits\": [{\"name\": \"a\", \"by\": \"client\", \"rate\": "
    "\"0/minute\"}]},"
    "    \"closed\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"4/minute\"}], "
    "\"on_store_failure\": \"closed\"},"
    "    \"memory\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"4/minute\"}], "
    "\"on_store_failure\": \"memory\"},"
    "    \"slow\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"2/hour\"}], "
    "\"on_store_failure\": \"memory\", \"retry_after\": {\"round\": \"5m\"}},"
    "    \"mixed\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"4/minute\"}],"
    "      \"on_store_failure\": {\"timeout\": \"open\", \"unavailable\": \"memory\", \"error\": "
    "\"closed\"}},"
    "    \"shadow\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"4/minute\"}], "
    "\"mode\": \"shadow\", \"on_store_failure\": \"closed\"},"
    "    \"off\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"0/minute\"}], "
    "\"mode\": \"off\"},"
    "    \"coarse\": {\"limits\": [{\"name\": \"a\", \"by\": \"api_key\", \"rate\": "
    "\"4/minute\"}], "
    "\"retry_after\": \"60s\"},"
    "    \"secret\": {\"limits\": [{\"name\": \"a\", \"by\": \"api_key\", \"rate\": "
    "\"4/minute\"}], "
    "\"retry_after\": \"none\"},"
    "    \"user\": {\"limits\": [{\"name\": \"a\", \"by\": [\"user\", \"ip\"], \"rate\": "
    "\"4/minute\"}]}},"
    "  \"routes\": ["
    "    {\"match\": \"* /open\", \"auth\": \"required\", \"policy\": \"open\", \"cost\": 2},"
    "    {\"match\": \"* /optional\", \"auth\": \"optional\", \"policy\": \"open\"},"
    "    {\"match\": \"* /closed\", \"policy\": \"closed\"},"
    "    {\"match\": \"* /memory\", \"policy\": \"memory\"},"
    "    {\"match\": \"* /nothing\", \"auth\": \"required\", \"policy\": \"nothing\"},"
    "    {\"match\": \"* /heavy\", \"policy\": \"memory\", \"cost\": 4},"
    "    {\"match\": \"* /slow\", \"policy\": \"slow\"},"
    "    {\"match\": \"* /mixed\", \"policy\": \"mixed\"},"
    "    {\"match\": \"* /shadow\", \"policy\": \"shadow\"},"
    "    {\"match\": \"* /off\", \"policy\": \"off\"},"
    "    {\"match\": \"* /user\", \"policy\": \"user\"},"
    "    {\"match\": \"* /coarse\", \"auth\": \"required\", \"policy\": \"coarse\"},"
    "    {\"match\": \"* /secret\", \"auth\": \"required\", \"policy\": \"secret\"},"
    "    {\"match\": \"* /free\", \"auth\": \"required\"} ] }";

struct bench {
    struct weir_policy *policy;
    struct weir_store *store;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    char keys_file[64];
    unsigned handled;
    unsigned decisions;
    struct weir_decision last; /* its texts are not kept */
    char last_policy[32], last_limit[32], last_client[64], last_failure[16];
};

static struct bench bench;

static enum weir_step handle(void *self, struct weir_request *request)
{
    ((struct bench *)self)->handled++;
    weir_reply_text(request, 200, "fine");
    return WEIR_DONE;
}

static void keep(char *memory, size_t size, const char *text)
{
    snprintf(memory, size, "%s", text == NULL ? "" : text);
}

static void on_decision(void *self, const struct weir_decision *decision)
{
    struct bench *b = self;
    b->decisions++;
    b->last = *decision;
    keep(b->last_policy, sizeof b->last_policy, decision->policy);
    keep(b->last_limit, sizeof b->last_limit, decision->limit);
    keep(b->last_client, sizeof b->last_client, decision->client);
    keep(b->last_failure, sizeof b->last_failure, decision->failure);
}

static void write_keys(void)
{
    strcpy(bench.keys_file, "/tmp/weir-keys-XXXXXX");
    int file = mkstemp(bench.keys_file);
    assert_true(file >= 0);
    FILE *stream = fdopen(file, "w");
    assert_non_null(stream);
    assert_true(fputs(keys_json, stream) >= 0);
    assert_int_equal(fclose(stream), 0);
}

static uint64_t frozen_now_us = UINT64_C(1800000000000000);

static uint64_t read_frozen(void *self)
{
    (void)self;
    return frozen_now_us;
}

static int set_up(void **state)
{
    (void)state;
    memset(&bench, 0, sizeof bench);
    told = (struct told_store){ .is_ready = true };
    by_hand_reset();
    write_keys();
    char text[8192];
    int length = snprintf(text, sizeof text, policy_json, bench.keys_file);
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_parse(text, (size_t)length, NULL, &bench.policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(weir_store_new(&told_type, &told, &bench.store, NULL), WEIR_OK);
    const struct weir_clock clock = { read_frozen, NULL };
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = bench.policy, .store = bench.store,
                                              .clock = &clock, .on_decision = on_decision,
                                              .decision_self = &bench),
                         &bench.limiter, &error),
        WEIR_OK);
    assert_int_equal(weir_chain_new(WEIR_CHAIN_OPTIONS(.parked_max = 1), &bench.chain, NULL),
                     WEIR_OK);
    assert_int_equal(weir_chain_use(bench.chain, weir_limit(bench.limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(bench.chain, "*", handle, &bench), WEIR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_chain_free(bench.chain);
    weir_limiter_free(bench.limiter);
    weir_store_free(bench.store);
    weir_policy_free(bench.policy);
    remove(bench.keys_file);
    return 0;
}

static struct weir_request *ask_as(const char *path, const char *key)
{
    struct weir_request *request = by_hand_request(bench.chain, "GET", path);
    by_hand_peer(request, "192.0.2.7");
    if (key != NULL)
        by_hand_header(request, "X-API-Key", key);
    return request;
}

static const char *header(struct weir_request *request, const char *name)
{
    return weir_reply_header(&request->reply, name);
}

/* what the store answers next */

static void will_allow(void)
{
    told.answer.result = WEIR_STORE_ANSWERED;
    for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++)
        told.answers[i] =
            (struct weir_answer){ .allowed = true, .remaining = 3, .reset_us = 1400000 };
}

static void will_refuse(size_t index, uint64_t retry_us)
{
    will_allow();
    told.answers[index] =
        (struct weir_answer){ .remaining = 0, .retry_us = retry_us, .reset_us = 2 * retry_us };
}

static void will_fail(enum weir_store_result result)
{
    told.answer = (struct weir_check){ .result = result };
    strcpy(told.answer.why, "because");
}

/* tests */

static void parks_first_and_asks_once(void **state)
{
    (void)state;
    will_allow();
    struct weir_request *request = ask_as("/open", "foo");
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(by_hand_suspended, 1);
    assert_int_equal(told.asked, 1);
    assert_int_equal(bench.handled, 0);
    assert_string_equal(told.keys[0], "weir:{open}:open:burst:gcra@free:api_key=acme-free");
    assert_string_equal(told.keys[1], "weir:{open}:open:daily:fixed-86400000ms@free:tenant=acme");
    assert_int_equal(told.costs[0], 2);

    told_answer(&told);
    assert_int_equal(by_hand_resumed, 1);
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(bench.handled, 1);
    assert_int_equal(told.asked, 1);
    assert_string_equal(header(request, "RateLimit"), "\"burst\";r=3;t=2, \"daily\";r=3;t=2");
    assert_string_equal(header(request, "RateLimit-Policy"),
                        "\"burst\";q=10;w=2, \"daily\";q=100;w=86400");
    assert_null(header(request, "Retry-After"));
    assert_int_equal(bench.decisions, 0);

    struct weir_quota quotas[8];
    assert_int_equal(weir_request_quotas(request, bench.limiter, quotas, 8), 2);
    assert_string_equal(quotas[1].limit, "daily");
    assert_int_equal(quotas[0].quota, 10);
    assert_int_equal(quotas[0].remaining, 3);
    assert_int_equal(quotas[0].reset_s, 2);
    weir_request_end(request);
}

static void says_who_refused_and_for_how_long(void **state)
{
    (void)state;
    told.answers_at_once = true;
    will_refuse(0, 1200000);
    told.answers[1] = (struct weir_answer){ .retry_us = 7100000, .reset_us = 9000000 };
    struct weir_request *request = ask_as("/open", "foo");
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(by_hand_run(request), 429);
    assert_int_equal(bench.handled, 0);
    assert_string_equal(header(request, "Retry-After"), "8");
    assert_string_equal(header(request, "Cache-Control"), "no-store");
    assert_string_equal(header(request, "Content-Type"), "application/problem+json");
    assert_string_equal(header(request, "RateLimit"), "\"burst\";r=0;t=2, \"daily\";r=0;t=8");
    assert_non_null(strstr(request->reply.body, "\"violated-policies\":[\"burst\",\"daily\"]"));
    assert_non_null(
        strstr(request->reply.body, "Limit of 100 per 86400 seconds reached; retry in 8 seconds."));
    assert_int_equal(bench.last.outcome, WEIR_LIMITED);
    assert_int_equal(bench.last.retry_s, 8);
    assert_string_equal(bench.last_limit, "daily");
    assert_string_equal(bench.last_client, "acme-free");
    weir_request_end(request);
}

static void gives_no_retry_after_for_the_impossible(void **state)
{
    (void)state;
    told.answers_at_once = true;
    will_refuse(0, 5000000);
    told.answers[1] =
        (struct weir_answer){ .impossible = true, .remaining = 60, .reset_us = 9000000 };
    struct weir_request *request = ask_as("/open", "foo");
    by_hand_run(request);
    assert_int_equal(by_hand_run(request), 429);
    assert_null(header(request, "Retry-After"));
    assert_string_equal(header(request, "RateLimit"), "\"burst\";r=0;t=5, \"daily\";r=60;t=9");
    assert_int_equal(bench.last.outcome, WEIR_IMPOSSIBLE);
    weir_request_end(request);
}

/* The text says no more of the wait than the header does. */
static void tells_the_same_wait_in_words(void **state)
{
    (void)state;
    static const struct {
        const char *path, *retry_after, *detail;
    } rows[] = {
        { "/coarse", "60", "\"Limit of 4 per 60 seconds reached; retry in 60 seconds.\"" },
        { "/secret", NULL, "\"Limit of 4 per 60 seconds reached.\"" },
    };
    told.answers_at_once = true;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].path);
        will_refuse(0, 7000000);
        struct weir_request *request = ask_as(rows[i].path, "foo");
        by_hand_run(request);
        assert_int_equal(by_hand_run(request), 429);
        if (rows[i].retry_after == NULL)
            assert_null(header(request, "Retry-After"));
        else
            assert_string_equal(header(request, "Retry-After"), rows[i].retry_after);
        assert_non_null(strstr(request->reply.body, rows[i].detail));
        weir_request_end(request);
    }
}

static void tells_nothing_where_identity_is_not_asked_for(void **state)
{
    (void)state;
    told.answers_at_once = true;
    will_refuse(0, 100);
    struct weir_request *request = ask_as("/closed", "foo");
    by_hand_run(request);
    assert_int_equal(by_hand_run(request), 429);
    assert_string_equal(header(request, "Retry-After"), "1");
    assert_null(header(request, "RateLimit"));
    assert_null(header(request, "RateLimit-Policy"));
    assert_null(strstr(request->reply.body, "violated"));
    assert_null(strstr(request->reply.body, "Limit of"));
    weir_request_end(request);
}

static void shows_no_quota_to_an_address_alone(void **state)
{
    (void)state;
    told.answers_at_once = true;
    will_allow();
    struct weir_request *request = ask_as("/optional", NULL);
    by_hand_run(request);
    assert_int_equal(by_hand_run(request), 200);
    assert_string_equal(told.keys[0], "weir:{open}:open:burst:gcra@free:ip=192.0.2.7/32");
    assert_null(header(request, "RateLimit"));
    weir_request_end(request);
}

static void asks_for_identity_before_it_asks_the_store(void **state)
{
    (void)state;
    static const char *const paths[] = { "/open", "/free" };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct weir_request *request = ask_as(paths[i], NULL);
        assert_int_equal(by_hand_run(request), 401);
        assert_string_equal(header(request, "WWW-Authenticate"), "Bearer realm=\"api\"");
        assert_int_equal(told.asked, 0);
        weir_request_end(request);
    }
}

static void charges_an_unknown_key_to_its_address(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        bool refused;
        unsigned status;
    } rows[] = { { "a few guesses", false, 401 }, { "too many", true, 429 } };
    told.answers_at_once = true;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        will_allow();
        if (rows[i].refused)
            will_refuse(0, 9000000);
        struct weir_request *request = ask_as("/open", "wrong");
        by_hand_run(request);
        assert_int_equal(by_hand_run(request), rows[i].status);
        assert_string_equal(told.keys[0], "weir:{ip=192.0.2.7/32}:api_keys:guesses:gcra");
        assert_null(header(request, "RateLimit"));
        assert_null(strstr(request->reply.body, "Limit of"));
        assert_int_equal(bench.handled, 0);
        weir_request_end(request);
    }
}

static void counts_a_guess_and_goes_on_where_identity_is_optional(void **state)
{
    (void)state;
    told.answers_at_once = true;
    will_allow();
    struct weir_request *request = ask_as("/optional", "wrong");
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(told.asked, 2);
    assert_string_equal(told.keys[0], "weir:{open}:open:burst:gcra@free:ip=192.0.2.7/32");
    weir_request_end(request);
}

static void does_what_the_policy_says_when_the_store_fails(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *path;
        enum weir_store_result result;
        unsigned status;
        enum weir_outcome outcome;
        const char *failure;
    } rows[] = {
        { "open, timeout", "/open", WEIR_STORE_TIMEOUT, 200, WEIR_FAILED_OPEN, "timeout" },
        { "open, unavailable", "/open", WEIR_STORE_UNAVAILABLE, 200, WEIR_FAILED_OPEN,
          "unavailable" },
        { "open, error", "/open", WEIR_STORE_ERROR, 200, WEIR_FAILED_OPEN, "error" },
        { "closed, timeout", "/closed", WEIR_STORE_TIMEOUT, 503, WEIR_FAILED_CLOSED, "timeout" },
        { "closed, error", "/closed", WEIR_STORE_ERROR, 503, WEIR_FAILED_CLOSED, "error" },
        { "by kind, timeout", "/mixed", WEIR_STORE_TIMEOUT, 200, WEIR_FAILED_OPEN, "timeout" },
        { "by kind, unavailable", "/mixed", WEIR_STORE_UNAVAILABLE, 200, WEIR_ALLOWED, "" },
        { "by kind, error", "/mixed", WEIR_STORE_ERROR, 503, WEIR_FAILED_CLOSED, "error" },
        { "only watching", "/shadow", WEIR_STORE_TIMEOUT, 200, WEIR_FAILED_OPEN, "timeout" },
    };
    told.answers_at_once = true;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        bench.handled = 0;
        will_fail(rows[i].result);
        struct weir_request *request = ask_as(rows[i].path, "foo");
        by_hand_run(request);
        assert_int_equal(by_hand_run(request), rows[i].status);
        assert_int_equal(bench.handled, rows[i].status == 200);
        assert_null(header(request, "RateLimit"));
        assert_int_equal(bench.last.outcome, rows[i].outcome);
        assert_string_equal(bench.last_failure, rows[i].failure);
        if (rows[i].status == 503) {
            assert_string_equal(header(request, "Retry-After"), "1");
            assert_non_null(strstr(request->reply.body, "#temporary-reduced-capacity"));
        }
        weir_request_end(request);
    }
}

static void asks_nobody_when_the_store_is_known_to_be_away(void **state)
{
    (void)state;
    told.is_ready = false;
    struct weir_request *request = ask_as("/closed", NULL);
    assert_int_equal(by_hand_run(request), 503);
    assert_int_equal(by_hand_suspended, 0);
    assert_int_equal(told.asked, 0);
    weir_request_end(request);
}

static void asks_clients_to_wait_as_long_as_the_store_says(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t retry_us;
        const char *retry_after;
    } rows[] = {
        { "it knows nothing", 0, "1" },
        { "it will be tried at once", 1, "1" },
        { "a second", 1000000, "1" },
        { "a little more", 1000001, "2" },
        { "a long outage", 9300000, "10" },
        { "an hour, of a store of a user's own", UINT64_C(3600000000), "3600" },
    };
    told.is_ready = false;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        told.how = (struct weir_store_state){ .retry_us = rows[i].retry_us };
        struct weir_request *request = ask_as("/closed", NULL);
        assert_int_equal(by_hand_run(request), 503);
        assert_string_equal(header(request, "Retry-After"), rows[i].retry_after);
        assert_int_equal(bench.last.retry_s, strtoull(rows[i].retry_after, NULL, 10));
        weir_request_end(request);
    }
}

static void asks_how_the_store_is_only_where_it_keeps_somebody_out(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *path;
        enum weir_store_result result;
        unsigned status;
        unsigned states;
    } rows[] = {
        { "allowed", "/open", WEIR_STORE_ANSWERED, 200, 0 },
        { "open", "/open", WEIR_STORE_UNAVAILABLE, 200, 0 },
        { "memory", "/memory", WEIR_STORE_UNAVAILABLE, 200, 0 },
        { "closed", "/closed", WEIR_STORE_UNAVAILABLE, 503, 1 },
    };
    told.answers_at_once = true;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        will_allow();
        told.answer.result = rows[i].result;
        told.states = 0;
        struct weir_request *request = ask_as(rows[i].path, "foo");
        by_hand_run(request);
        assert_int_equal(by_hand_run(request), rows[i].status);
        assert_int_equal(told.states, rows[i].states);
        weir_request_end(request);
    }
}

static void divides_the_limit_among_instances_on_memory(void **state)
{
    (void)state;
    told.is_ready = false;
    unsigned passed = 0;
    for (int i = 0; i < 6; i++) {
        struct weir_request *request = ask_as("/memory", NULL);
        unsigned status = by_hand_run(request);
        assert_true(status == 200 || status == 429);
        passed += status == 200;
        assert_true(bench.last.by_memory);
        weir_request_end(request);
    }
    assert_int_equal(passed, 2);
}

/* The store may be back any time, and its count is another. */
static void sends_nobody_away_for_long_while_memory_stands_in(void **state)
{
    (void)state;
    static const unsigned statuses[] = { 200, 429 };
    told.is_ready = false;
    for (size_t i = 0; i < COUNT_OF(statuses); i++) {
        struct weir_request *request = ask_as("/slow", NULL);
        assert_int_equal(by_hand_run(request), statuses[i]);
        if (statuses[i] == 429)
            assert_string_equal(header(request, "Retry-After"), "60");
        weir_request_end(request);
    }
}

static void promises_nothing_of_a_limit_of_zero(void **state)
{
    (void)state;
    told.answers_at_once = true;
    told.answer.result = WEIR_STORE_ANSWERED;
    told.answers[0] = (struct weir_answer){ .impossible = true };
    struct weir_request *request = ask_as("/nothing", "foo");
    by_hand_run(request);
    assert_int_equal(by_hand_run(request), 429);
    assert_string_equal(header(request, "RateLimit"), "\"a\";r=0;t=60");
    assert_null(header(request, "Retry-After"));
    weir_request_end(request);
}

static void keeps_a_refusal_of_the_store_from_the_fallback(void **state)
{
    (void)state;
    told.answers_at_once = true;
    will_refuse(0, 1000000);
    struct weir_request *request = ask_as("/memory", NULL);
    by_hand_run(request);
    assert_int_equal(by_hand_run(request), 429);
    assert_false(bench.last.by_memory);
    weir_request_end(request);
}

static void only_watches_in_shadow_and_does_nothing_when_off(void **state)
{
    (void)state;
    told.answers_at_once = true;
    will_refuse(0, 1000000);
    struct weir_request *request = ask_as("/shadow", NULL);
    by_hand_run(request);
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(bench.last.outcome, WEIR_SHADOW_LIMITED);
    assert_int_equal(told.asked, 1);
    weir_request_end(request);

    request = ask_as("/off", NULL);
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(told.asked, 1);
    weir_request_end(request);
}

static void skips_a_limit_whose_dimension_is_absent(void **state)
{
    (void)state;
    struct weir_request *request = ask_as("/user", NULL);
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(told.asked, 0);
    weir_request_end(request);
}

static void refuses_a_bad_path_where_nothing_is_the_default(void **state)
{
    (void)state;
    struct weir_request *request = ask_as("/../open", "foo");
    assert_int_equal(by_hand_run(request), 400);
    assert_int_equal(bench.handled, 0);
    weir_request_end(request);
}

static void counts_once_when_it_stands_twice(void **state)
{
    (void)state;
    struct weir_chain *chain = NULL;
    weir_chain_new(NULL, &chain, NULL);
    weir_chain_use(chain, weir_limit(bench.limiter));
    weir_chain_use(chain, weir_limit(bench.limiter));
    weir_chain_any(chain, "*", handle, &bench);
    told.answers_at_once = true;
    will_allow();
    struct weir_request *request = by_hand_request(chain, "GET", "/open");
    by_hand_header(request, "Authorization", "bearer foo");
    by_hand_run(request);
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(told.asked, 1);
    size_t fields = 0;
    for (size_t i = 0; i < request->reply.line_count; i++)
        fields += strcmp(request->reply.lines[i].name, "RateLimit") == 0;
    assert_int_equal(fields, 1);
    weir_request_end(request);
    weir_chain_free(chain);
}

static void counts_for_each_of_two_limiters(void **state)
{
    (void)state;
    static const char text[] = "{\"store\": {\"url\": \"memory:\", \"prefix\": \"other\"}, "
                               "\"policies\": {\"p\": {\"limits\":"
                               " [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"9/minute\"}]}},"
                               " \"routes\": [{\"match\": \"* /*\", \"policy\": \"p\"}]}";
    struct weir_policy *policy = NULL;
    struct weir_limiter *other = NULL;
    struct weir_chain *chain = NULL;
    assert_int_equal(weir_policy_parse(text, sizeof text - 1, NULL, &policy, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .store = bench.store),
                                      &other, NULL),
                     WEIR_OK);
    weir_chain_new(NULL, &chain, NULL);
    weir_chain_use(chain, weir_limit(bench.limiter));
    weir_chain_use(chain, weir_limit(other));
    weir_chain_any(chain, "*", handle, &bench);
    told.answers_at_once = true;
    will_allow();
    struct weir_request *request = by_hand_request(chain, "GET", "/closed");
    by_hand_peer(request, "192.0.2.7");
    assert_int_equal(by_hand_run(request), 0);
    assert_string_equal(told.keys[0], "weir:{ip=192.0.2.7/32}:closed:a:gcra");
    assert_int_equal(by_hand_run(request), 0);
    assert_string_equal(told.keys[0], "other:{ip=192.0.2.7/32}:p:a:gcra");
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(told.asked, 2);
    weir_request_end(request);
    weir_chain_free(chain);
    weir_limiter_free(other);
    weir_policy_free(policy);
}

static void takes_its_check_back_when_the_server_stops(void **state)
{
    (void)state;
    will_allow();
    struct weir_request *request = ask_as("/open", "foo");
    assert_int_equal(by_hand_run(request), 0);
    assert_false(weir_chain_drain(bench.chain, 300));
    assert_int_equal(by_hand_run(request), 503);
    weir_request_end(request);
    assert_int_equal(told.cancelled, 1);
    assert_null(told.held);
}

/* As a store's thread sees it: the answer comes when a drain has woken the request, and until its
 * `done` has returned, which only cancel() tells, the check must stay. */
static void asks_for_its_check_back_even_if_the_answer_is_there(void **state)
{
    (void)state;
    will_allow();
    struct weir_request *request = ask_as("/open", "foo");
    assert_int_equal(by_hand_run(request), 0);
    assert_false(weir_chain_drain(bench.chain, 300));
    told_answer(&told);
    assert_int_equal(by_hand_run(request), 503);
    weir_request_end(request);
    assert_int_equal(told.cancelled, 1);
}

static void lets_nobody_through_uncounted_while_it_drains(void **state)
{
    (void)state;
    assert_true(weir_chain_drain(bench.chain, 0));
    struct weir_request *request = ask_as("/open", "foo");
    assert_int_equal(by_hand_run(request), 503);
    assert_int_equal(told.asked, 0);
    assert_int_equal(bench.handled, 0);
    weir_request_end(request);
}

static void calls_nothing_impossible_that_only_a_share_cannot_hold(void **state)
{
    (void)state;
    told.is_ready = false;
    told.how = (struct weir_store_state){ .retry_us = 2500000 };
    struct weir_request *request = ask_as("/heavy", NULL);
    assert_int_equal(by_hand_run(request), 503);
    assert_string_equal(header(request, "Retry-After"), "3");
    weir_request_end(request);
}

static void shares_every_rate_without_giving_more(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t limit, window_us, burst;
        enum weir_algorithm algorithm;
        unsigned instances;
    } rows[] = {
        { "a plain rate", 100, 60000000, 100, WEIR_GCRA, 3 },
        { "a fraction that does not divide", 29219, WEIR_WINDOW_MAX_US, 292190, WEIR_GCRA, 2 },
        { "a large window", 1000000000, UINT64_C(86400000000), 0, WEIR_FIXED_WINDOW, 6 },
        { "a prime", 999999937, 1000000, 0, WEIR_FIXED_WINDOW, 7 },
        { "fewer units than instances", 2, 60000000, 0, WEIR_FIXED_WINDOW, 5 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_rate whole = { rows[i].limit,
                                   rows[i].window_us,
                                   rows[i].burst == 0 ? rows[i].limit : rows[i].burst,
                                   1,
                                   0,
                                   0 };
        const struct weir_limit_rule rule = { .algorithm = rows[i].algorithm };
        struct weir_rate share = weir_rate_share(&whole, &rule, rows[i].instances);
        uint64_t least = rows[i].instances > rows[i].limit ? 1 : whole.burst / rows[i].instances;
        assert_true(share.burst >= 1 && share.burst <= least);
        assert_true(share.limit >= 1);
        /* Units in a window of the whole rate, over all instances. */
        double together = (double)share.limit * (double)whole.window_us / (double)share.window_us
                          * rows[i].instances;
        assert_true(together <= (double)rows[i].limit + (least == 1 ? rows[i].instances : 0.001));
    }
}

static void settles_with_the_numbers_of_the_decision(void **state)
{
    (void)state;
    told.answers_at_once = true;
    will_allow();
    told.answer.now_us = 5000000;
    struct weir_request *request = ask_as("/open", "foo");
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(told.settlements, 0);
    assert_int_equal(weir_settle(request, 1), WEIR_OK);
    assert_int_equal(told.settlements, 1);
    assert_int_equal(told.settled_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(told.settled[i].reserved, 2);
        assert_int_equal(told.settled[i].cost, 1);
        assert_int_equal(told.settled[i].decided_us, 5000000);
        assert_int_equal(told.settled[i].full_us, 6400000);
    }
    weir_request_end(request);
    assert_int_equal(told.settlements, 1);
}

static void settles_in_the_store_that_decided(void **state)
{
    (void)state;
    told.is_ready = false;
    struct weir_request *request = ask_as("/memory", NULL);
    assert_int_equal(by_hand_run(request), 200);
    told.is_ready = true; /* the store is back, and knows nothing of this request */
    assert_int_equal(weir_settle(request, 0), WEIR_OK);
    weir_request_end(request);
    assert_int_equal(told.settlements, 0);

    /* This instance's share is 2 of 4, and none of it is gone. */
    told.is_ready = false;
    for (int i = 0; i < 3; i++) {
        request = ask_as("/memory", NULL);
        assert_int_equal(by_hand_run(request), i < 2 ? 200 : 429);
        weir_request_end(request);
    }
}

static atomic_bool is_freeing, has_answered;

static void *free_limiter(void *self)
{
    atomic_store(&is_freeing, true);
    weir_limiter_free(self);
    return atomic_load(&has_answered) ? self : NULL;
}

static void waits_for_its_settlements_before_it_is_freed(void **state)
{
    (void)state;
    told.answers_at_once = told.holds_settlements = true;
    will_allow();
    struct weir_request *request = ask_as("/open", "foo");
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(weir_settle(request, 0), WEIR_OK);
    weir_request_end(request);
    assert_non_null(told.held_settlement);

    pthread_t thread;
    void *was_in_time = NULL;
    assert_int_equal(pthread_create(&thread, NULL, free_limiter, bench.limiter), 0);
    while (!atomic_load(&is_freeing))
        sched_yield();
    for (int i = 0; i < 1000; i++)
        sched_yield();
    atomic_store(&has_answered, true);
    told.held_settlement->done(told.held_settlement);
    pthread_join(thread, &was_in_time);
    bench.limiter = NULL;
    assert_non_null(was_in_time);
}

/* The store had charged it before the drain got there; it never ran. */
static void gives_back_what_was_charged_while_the_server_stops(void **state)
{
    (void)state;
    will_allow();
    struct weir_request *request = ask_as("/open", "foo");
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(weir_parking_wake_all(&bench.chain->parking), 1);
    told_answer(&told);
    assert_int_equal(by_hand_run(request), 503);
    weir_request_end(request);
    assert_int_equal(told.settlements, 1);
    assert_int_equal(told.settled[0].reserved, 2);
    assert_int_equal(told.settled[0].cost, 0);
}

static void settles_nothing_where_the_store_failed(void **state)
{
    (void)state;
    told.answers_at_once = true;
    will_fail(WEIR_STORE_TIMEOUT);
    struct weir_request *request = ask_as("/open", "foo");
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(weir_settle(request, 0), WEIR_E_STATE);
    weir_request_end(request);
    assert_int_equal(told.settlements, 0);
}

static void applies_the_failure_rule_when_nobody_may_park(void **state)
{
    (void)state;
    struct weir_request *hog = ask_as("/open", "foo");
    assert_int_equal(by_hand_run(hog), 0);
    struct weir_request *request = ask_as("/closed", NULL);
    assert_int_equal(by_hand_run(request), 503);
    assert_int_equal(bench.last.outcome, WEIR_FAILED_CLOSED);
    assert_int_equal(told.asked, 1);
    weir_request_end(request);
    will_allow();
    told_answer(&told);
    assert_int_equal(by_hand_run(hog), 200);
    weir_request_end(hog);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(parks_first_and_asks_once),
        TEST(says_who_refused_and_for_how_long),
        TEST(gives_no_retry_after_for_the_impossible),
        TEST(tells_the_same_wait_in_words),
        TEST(tells_nothing_where_identity_is_not_asked_for),
        TEST(shows_no_quota_to_an_address_alone),
        TEST(asks_for_identity_before_it_asks_the_store),
        TEST(charges_an_unknown_key_to_its_address),
        TEST(counts_a_guess_and_goes_on_where_identity_is_optional),
        TEST(does_what_the_policy_says_when_the_store_fails),
        TEST(asks_nobody_when_the_store_is_known_to_be_away),
        TEST(asks_clients_to_wait_as_long_as_the_store_says),
        TEST(asks_how_the_store_is_only_where_it_keeps_somebody_out),
        TEST(divides_the_limit_among_instances_on_memory),
        TEST(sends_nobody_away_for_long_while_memory_stands_in),
        TEST(promises_nothing_of_a_limit_of_zero),
        TEST(keeps_a_refusal_of_the_store_from_the_fallback),
        TEST(only_watches_in_shadow_and_does_nothing_when_off),
        TEST(skips_a_limit_whose_dimension_is_absent),
        TEST(refuses_a_bad_path_where_nothing_is_the_default),
        TEST(counts_once_when_it_stands_twice),
        TEST(counts_for_each_of_two_limiters),
        TEST(takes_its_check_back_when_the_server_stops),
        TEST(asks_for_its_check_back_even_if_the_answer_is_there),
        TEST(lets_nobody_through_uncounted_while_it_drains),
        TEST(calls_nothing_impossible_that_only_a_share_cannot_hold),
        TEST(shares_every_rate_without_giving_more),
        TEST(settles_with_the_numbers_of_the_decision),
        TEST(settles_in_the_store_that_decided),
        TEST(waits_for_its_settlements_before_it_is_freed),
        TEST(gives_back_what_was_charged_while_the_server_stops),
        TEST(settles_nothing_where_the_store_failed),
        TEST(applies_the_failure_rule_when_nobody_may_park),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
