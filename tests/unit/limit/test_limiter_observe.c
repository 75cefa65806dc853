/* What operators see of a limiter: each decision once, in counts, log, top keys and the last ones. */
#include "test.h"

#include <unistd.h>

#include <weir/weir.h>

#include "by_hand.h"
#include "limit/limiter_internal.h"
#include "store/store.h"

#define MINUTE UINT64_C(60000000)
#define START  (UINT64_C(29000000) * MINUTE)

static uint64_t now_us;

static uint64_t read_clock(void *self)
{
    (void)self;
    return now_us;
}

static const struct weir_clock clock_by_hand = { .now_us = read_clock };

/* a store that fails when it is told to */

static enum weir_store_result store_result;
static struct weir_store *real_store, *store;

static void submit(void *self, struct weir_check *check)
{
    (void)self;
    if (store_result == WEIR_STORE_ANSWERED) {
        real_store->type->submit(real_store->self, check);
        return;
    }
    check->result = store_result;
    strcpy(check->why, "told to fail");
    check->done(check);
}

static void free_nothing(void *self)
{
    (void)self;
}

static const struct weir_store_type failing_type = { .size = sizeof failing_type,
                                                     .name = "failing",
                                                     .answers_inline = true,
                                                     .submit = submit,
                                                     .free = free_nothing };

/* what is decided */

/* Of everybody who has a secret: none of them may be seen by operators. */
#define SECRET_KEY    "planted-key"
#define SECRET_USER   "planted-user@example.org"
#define SECRET_HEADER "planted-header"

static const char keys_json[] =
    "{\"keys\": [{\"id\": \"acme-free\", \"tenant\": \"acme\", \"user\": \"ann\", \"sha256\":"
    " \"%s\"}]}";

#define LIMIT(by, rate)                                                                            \
    "{\"name\": \"a\", \"by\": " by ", \"rate\": \"" rate "\", \"algorithm\": \"fixed-window\"}"
#define POLICY(name, by, rate, more) "\"" name "\": {\"limits\": [" LIMIT(by, rate) "]" more "}"
#define ROUTE(path, policy, more)    "{\"match\": \"* " path "\", \"policy\": \"" policy "\"" more "}"

static const char
    policy_json[] =
        "{ \"store\": {\"url\": \"memory:\"}, \"secret\": \"planted-secret\","
        "  \"api_keys\": {\"file\": \"%s\", \"guesses\": \"2/hour\"},"
        "  \"user\": {\"header\": \"X-User\"}, \"client_ip\": {\"trust\": [\"10.0.0.0/8\"]},"
        "  \"deny\": {\"ip\": [\"203.0.113.0/24\"]},"
        /* clang-format off */
    "  \"policies\": {"
    POLICY("tight", "\"api_key\"", "3/hour", "") ","
    POLICY("people", "[\"user\", \"header:X-Token\"]", "1/hour", "") ","
    POLICY("watched", "\"ip\"", "1/hour", ", \"mode\": \"shadow\"") ","
    POLICY("open", "\"ip\"", "100/hour", ", \"on_store_failure\": \"open\"") ","
    POLICY("closed", "\"ip\"", "100/hour", ", \"on_store_failure\": \"closed\"") ","
    POLICY("fallback", "\"ip\"", "2/hour", ", \"on_store_failure\": \"memory\"") ","
    POLICY("single", "\"ip\"", "100/hour", ", \"concurrency\": {\"fixed\": 1, \"by\": \"ip\"}")
    "},"
    "  \"routes\": ["
    ROUTE("/tight", "tight", ", \"auth\": \"required\"") ","
    ROUTE("/costly", "tight", ", \"auth\": \"optional\", \"cost\": 9") ","
    ROUTE("/people", "people", ", \"auth\": \"optional\"") ","
    ROUTE("/watched", "watched", "") ","
    ROUTE("/open", "open", "") ","
    ROUTE("/closed", "closed", "") ","
    ROUTE("/fallback", "fallback", "") ","
    ROUTE("/single", "single", "") ","
    "{\"match\": \"* /free\"}] }";
/* clang-format on */

static char keys_file[64];
static struct weir_policy *policy;
static struct weir_limiter *limiter;
static struct weir_chain *chain;

/* All that operators get to read, as text. */
static char seen[1 << 18];
static size_t seen_length;

static struct {
    unsigned count;
    struct weir_recent_decision last;
} decided;

static void see(const char *text)
{
    size_t length = strlen(text);
    assert_true(seen_length + length + 2 < sizeof seen);
    memcpy(seen + seen_length, text, length);
    seen_length += length;
    seen[seen_length++] = '\n';
    seen[seen_length] = '\0';
}

static void note_decision(void *self, const struct weir_decision *decision)
{
    char json[WEIR_DECISION_JSON_MAX];
    assert_ptr_equal(self, &decided);
    assert_in_range(weir_decision_json(decision, json, sizeof json), 1, sizeof json);
    see(json);
    decided.count++;
    weir_limiter_recent_of(limiter, decision->request_id == NULL ? "" : decision->request_id,
                           &decided.last);
    decided.last.decision = *decision; /* for the numbers; its texts may be gone */
}

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    weir_reply_text(request, 200, "done");
    return WEIR_DONE;
}

static void write_keys(void)
{
    uint8_t digest[WEIR_SHA256_BYTES];
    char hex[2 * WEIR_SHA256_BYTES + 1], text[512];
    weir_sha256(WEIR_TEXT(SECRET_KEY), digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    int length = snprintf(text, sizeof text, keys_json, hex);
    strcpy(keys_file, "/tmp/weir-keys-XXXXXX");
    int file = mkstemp(keys_file);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, (size_t)length), length);
    close(file);
}

static int set_up(void **state)
{
    (void)state;
    char text[4096];
    struct weir_error error = WEIR_NO_ERROR;
    write_keys();
    int length = snprintf(text, sizeof text, policy_json, keys_file);
    if (weir_policy_parse(text, (size_t)length, NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    now_us = START;
    store_result = WEIR_STORE_ANSWERED;
    assert_int_equal(
        weir_store_new_memory(WEIR_STORE_OPTIONS(.clock = &clock_by_hand), &real_store, NULL),
        WEIR_OK);
    assert_int_equal(weir_store_new(&failing_type, &store, &store, NULL), WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .store = store,
                                              .clock = &clock_by_hand, .on_decision = note_decision,
                                              .decision_self = &decided, .instance = "web-1"),
                         &limiter, NULL),
        WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(chain, "*", handle, NULL), WEIR_OK);
    decided.count = 0;
    seen_length = 0;
    seen[0] = '\0';
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_chain_free(chain);
    weir_limiter_free(limiter);
    weir_store_free(store);
    weir_store_free(real_store);
    weir_policy_free(policy);
    return unlink(keys_file);
}

/* A request, with up to two header lines. */
struct asking {
    const char *path, *peer;
    const char *name, *value, *name2, *value2;
};

#define ANN .name = "X-API-Key", .value = SECRET_KEY

static struct weir_request *make(struct asking asking)
{
    struct weir_request *request = by_hand_request(chain, "GET", asking.path);
    by_hand_peer(request, asking.peer == NULL ? "192.0.2.1" : asking.peer);
    if (asking.name != NULL)
        by_hand_header(request, asking.name, asking.value);
    if (asking.name2 != NULL)
        by_hand_header(request, asking.name2, asking.value2);
    return request;
}

static unsigned ask(struct asking asking)
{
    struct weir_request *request = make(asking);
    unsigned status = by_hand_run(request);
    weir_request_end(request);
    return status;
}

/* what is counted */

static void add_decisions(void *self, const struct weir_limit_sums *sums)
{
    uint64_t *counts = self;
    for (size_t i = 0; i < WEIR_COUNTED_OUTCOMES; i++)
        for (size_t n = 0; n < WEIR_SOURCES; n++)
            counts[i] += sums->decisions[i][n];
}

static uint64_t count_of(enum weir_outcome outcome)
{
    uint64_t counts[WEIR_COUNTED_OUTCOMES] = { 0 };
    weir_counts_each(limiter->counts, add_decisions, counts);
    return counts[outcome];
}

static uint64_t count_of_all(void)
{
    uint64_t counts[WEIR_COUNTED_OUTCOMES] = { 0 }, sum = 0;
    weir_counts_each(limiter->counts, add_decisions, counts);
    for (size_t i = 0; i < WEIR_COUNTED_OUTCOMES; i++)
        sum += counts[i];
    return sum;
}

/* decisions */

static void tells_all_numbers_of_a_refusal(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask((struct asking){ .path = "/tight", ANN }), 200);
    assert_int_equal(decided.count, 0);
    now_us += MINUTE;
    assert_int_equal(
        ask((struct asking){
            .path = "/tight", .peer = "10.0.0.1", ANN, .name2 = "X-Request-Id", .value2 = "f00" }),
        429);
    assert_int_equal(decided.count, 1);
    struct weir_recent_decision recent;
    assert_true(weir_limiter_recent_of(limiter, "f00", &recent));
    const struct weir_decision *last = &recent.decision;
    assert_int_equal(last->outcome, WEIR_LIMITED);
    assert_int_equal(last->would, WEIR_LIMITED);
    assert_false(last->shadow);
    assert_string_equal(last->policy, "tight");
    assert_string_equal(last->limit, "a");
    assert_string_equal(last->key, "api_key:acme-free");
    assert_string_equal(last->client, "acme-free");
    assert_string_equal(last->address, "10.0.0.1/32");
    assert_string_equal(last->method, "GET");
    assert_string_equal(last->path, "/tight");
    assert_string_equal(last->source, "store");
    assert_string_equal(last->instance, "web-1");
    assert_null(last->failure);
    assert_null(last->traceparent);
    assert_int_equal(last->generation, 1);
    assert_int_equal(last->status, 429);
    assert_int_equal(last->time_us, now_us);
    assert_int_equal(last->cost, 1);
    assert_int_equal(last->quota, 3);
    assert_int_equal(last->remaining, 0);
    assert_int_equal(last->window_s, 3600);
    assert_int_equal(last->count, 1);
    assert_true(last->retry_us > 0 && last->retry_us <= 3600 * UINT64_C(1000000));
    assert_int_equal(last->retry_s, (last->retry_us + 999999) / 1000000);
    assert_int_equal(last->reset_s, last->retry_s);
}

static void observes_each_request_once_whatever_comes_of_it(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct asking asking;
        enum weir_store_result store;
        unsigned status;
        enum weir_outcome outcome, would;
        bool is_told;
    } rows[] = {
        { "no policy",
          { .path = "/free" },
          WEIR_STORE_ANSWERED,
          200,
          WEIR_ALLOWED,
          WEIR_ALLOWED,
          false },
        { "let through",
          { .path = "/open" },
          WEIR_STORE_ANSWERED,
          200,
          WEIR_ALLOWED,
          WEIR_ALLOWED,
          false },
        { "in shadow, let through",
          { .path = "/watched" },
          WEIR_STORE_ANSWERED,
          200,
          WEIR_ALLOWED,
          WEIR_ALLOWED,
          false },
        { "in shadow, refused",
          { .path = "/watched" },
          WEIR_STORE_ANSWERED,
          200,
          WEIR_SHADOW_LIMITED,
          WEIR_LIMITED,
          true },
        { "no key",
          { .path = "/tight" },
          WEIR_STORE_ANSWERED,
          401,
          WEIR_UNAUTHENTICATED,
          WEIR_UNAUTHENTICATED,
          true },
        { "an unknown key",
          { .path = "/tight", .name = "X-API-Key", .value = "guess" },
          WEIR_STORE_ANSWERED,
          401,
          WEIR_UNAUTHENTICATED,
          WEIR_UNAUTHENTICATED,
          true },
        { "a cost that never fits",
          { .path = "/costly", ANN },
          WEIR_STORE_ANSWERED,
          429,
          WEIR_IMPOSSIBLE,
          WEIR_IMPOSSIBLE,
          true },
        { "kept out",
          { .path = "/open", .peer = "203.0.113.9" },
          WEIR_STORE_ANSWERED,
          403,
          WEIR_DENIED,
          WEIR_DENIED,
          true },
        { "the store is late, and that is fine",
          { .path = "/open" },
          WEIR_STORE_TIMEOUT,
          200,
          WEIR_FAILED_OPEN,
          WEIR_FAILED_OPEN,
          true },
        { "the store is late, and that is not",
          { .path = "/closed" },
          WEIR_STORE_TIMEOUT,
          503,
          WEIR_FAILED_CLOSED,
          WEIR_FAILED_CLOSED,
          true },
        { "the store fails, and memory decides",
          { .path = "/fallback" },
          WEIR_STORE_ERROR,
          200,
          WEIR_ALLOWED,
          WEIR_ALLOWED,
          true },
        { "an unknown key while the store fails",
          { .path = "/tight", .peer = "192.0.2.66", .name = "X-API-Key", .value = "guess" },
          WEIR_STORE_ERROR,
          401,
          WEIR_UNAUTHENTICATED,
          WEIR_UNAUTHENTICATED,
          true },
        { "a path that is none",
          { .path = "/../x" },
          WEIR_STORE_ANSWERED,
          400,
          WEIR_UNREADABLE,
          WEIR_UNREADABLE,
          true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        uint64_t before = count_of_all(), of_outcome = count_of(rows[i].outcome);
        unsigned told = decided.count;
        store_result = rows[i].store;
        assert_int_equal(ask(rows[i].asking), rows[i].status);
        assert_int_equal(count_of_all(), before + 1);
        assert_int_equal(count_of(rows[i].outcome), of_outcome + 1);
        assert_int_equal(decided.count, told + rows[i].is_told);
        if (!rows[i].is_told)
            continue;
        assert_int_equal(decided.last.decision.outcome, rows[i].outcome);
        assert_int_equal(decided.last.decision.would, rows[i].would);
        assert_int_equal(decided.last.decision.shadow, rows[i].would != rows[i].outcome);
        unsigned answered = rows[i].status == 200 ? 0 : rows[i].status;
        assert_int_equal(decided.last.decision.status,
                         rows[i].outcome == WEIR_SHADOW_LIMITED ? 429 : answered);
    }
}

static void tells_only_that_it_was_refused_where_the_store_had_failed_before(void **state)
{
    (void)state;
    struct weir_recent_decision recent[2];
    struct weir_request *first = make((struct asking){ .path = "/single" });
    assert_int_equal(by_hand_run(first), 200);
    store_result = WEIR_STORE_TIMEOUT;
    assert_int_equal(ask((struct asking){ .path = "/single" }), 429);
    weir_request_end(first);
    assert_int_equal(decided.count, 1);
    assert_int_equal(count_of_all(), 2);
    assert_int_equal(weir_limiter_recent(limiter, 0, recent, 2), 1);
    assert_int_equal(recent[0].decision.outcome, WEIR_BUSY);
    assert_string_equal(recent[0].decision.limit, "concurrency");
    assert_string_equal(recent[0].decision.key, "ip:192.0.2.1/32");
    assert_int_equal(recent[0].decision.quota, 1);
    assert_int_equal(recent[0].decision.retry_s, 1);
    assert_int_equal(recent[0].decision.retry_us, 1000000);
}

static void says_why_the_store_failed(void **state)
{
    (void)state;
    struct weir_recent_decision recent;
    store_result = WEIR_STORE_ERROR;
    ask((struct asking){
        .path = "/closed", .peer = "10.0.0.1", .name = "X-Request-Id", .value = "f00" });
    assert_true(weir_limiter_recent_of(limiter, "f00", &recent));
    assert_string_equal(recent.decision.failure, "error");
    assert_string_equal(recent.decision.why, "told to fail");
    assert_null(recent.decision.source);
    assert_null(recent.decision.limit);
    assert_string_equal(recent.decision.policy, "closed");
}

/* calls */

static void observes_calls_like_requests(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    struct weir_recent_decision recent[2];
    const struct weir_subject *subject = WEIR_SUBJECT(.policy = "tight", .api_key = "acme-free");
    for (int i = 0; i < 4; i++)
        assert_int_equal(weir_limiter_check(limiter, subject, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_peek(limiter, subject, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(count_of(WEIR_ALLOWED), 3);
    assert_int_equal(count_of(WEIR_LIMITED), 1);
    assert_int_equal(count_of_all(), 4);
    assert_int_equal(weir_limiter_recent(limiter, 0, recent, 2), 1);
    assert_string_equal(recent[0].decision.key, "api_key:acme-free");
    assert_string_equal(recent[0].decision.client, "acme-free");
    assert_null(recent[0].decision.request_id);
    assert_null(recent[0].decision.path);
    struct weir_top_key keys[4];
    assert_int_equal(weir_limiter_top(limiter, "tight", WEIR_TOP_SPENT, keys, 4, NULL), 1);
    assert_int_equal(keys[0].count, 3);
    assert_int_equal(weir_limiter_top(limiter, "tight", WEIR_TOP_REFUSED, keys, 4, NULL), 1);
    assert_int_equal(keys[0].count, 1);
}

/* who spends most */

static void lists_who_spends_most_and_who_is_refused_most(void **state)
{
    (void)state;
    struct weir_top_key keys[8];
    struct weir_top_total total;
    char peer[16];
    for (int i = 1; i <= 5; i++) {
        snprintf(peer, sizeof peer, "192.0.2.%d", i);
        for (int n = 0; n < i; n++)
            ask((struct asking){ .path = "/watched", .peer = peer });
    }
    assert_int_equal(weir_limiter_top(limiter, "watched", WEIR_TOP_SPENT, keys, 8, &total), 5);
    assert_int_equal(total.total, 5);
    assert_int_equal(total.error_bound, 0);
    assert_int_equal(total.since_us, START);
    assert_int_equal(weir_limiter_top(limiter, "watched", WEIR_TOP_REFUSED, keys, 8, &total), 4);
    assert_int_equal(total.total, 10);
    assert_string_equal(keys[0].key, "ip:192.0.2.5/32");
    assert_int_equal(keys[0].count, 4);
    assert_int_equal(keys[0].at_least, 4);
    assert_int_equal(weir_limiter_top(limiter, "watched", WEIR_TOP_REFUSED, keys, 2, NULL), 2);
    assert_string_equal(keys[1].key, "ip:192.0.2.4/32");
    assert_int_equal(weir_limiter_top(limiter, "nobody's", WEIR_TOP_SPENT, keys, 8, &total), 0);
    now_us += 10 * MINUTE;
    assert_int_equal(weir_limiter_top(limiter, "watched", WEIR_TOP_SPENT, keys, 8, &total), 0);
}

static void keeps_who_spends_most_when_the_policy_is_replaced(void **state)
{
    (void)state;
    char text[4096];
    struct weir_top_key keys[8];
    struct weir_policy *next = NULL;
    ask((struct asking){ .path = "/watched" });
    int length = snprintf(text, sizeof text, policy_json, keys_file);
    char *watched = strstr(text, "\"people\": {");
    memcpy(watched, "\"folks_\"", 8); /* that one is gone */
    char *route = strstr(text, "\"policy\": \"people\"");
    memcpy(route, "\"policy\": \"folks_\"", 18);
    assert_int_equal(weir_policy_parse(text, (size_t)length, NULL, &next, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_replace(limiter, next, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_top(limiter, "watched", WEIR_TOP_SPENT, keys, 8, NULL), 1);
    assert_int_equal(weir_limiter_top(limiter, "people", WEIR_TOP_SPENT, keys, 8, NULL), 0);
    ask((struct asking){ .path = "/watched" });
    assert_int_equal(decided.last.decision.generation, 2);
}

/* secrets */

static void shows_no_secret_anywhere(void **state)
{
    (void)state;
    static const char *const secrets[] = { SECRET_KEY,       SECRET_USER,     SECRET_HEADER,
                                           "planted-secret", "planted-guess", "planted-query" };
    struct weir_top_key keys[16];
    static struct weir_recent_decision recent[WEIR_RECENT_MAX];
    for (int i = 0; i < 5; i++) {
        ask((struct asking){ .path = "/tight", ANN });
        ask((struct asking){ .path = "/tight", .name = "X-API-Key", .value = "planted-guess" });
        ask((struct asking){ .path = "/people",
                             .peer = "10.0.0.1",
                             .name = "X-User",
                             .value = SECRET_USER,
                             .name2 = "X-Token",
                             .value2 = SECRET_HEADER });
        ask((struct asking){ .path = "/people",
                             .peer = "10.0.0.1",
                             .name = "X-User",
                             .value = "planted-secret",
                             .name2 = "X-Token",
                             .value2 = SECRET_HEADER });
        store_result = i == 3 ? WEIR_STORE_ERROR : WEIR_STORE_ANSWERED;
    }
    size_t count = weir_limiter_recent(limiter, 0, recent, WEIR_RECENT_MAX);
    assert_int_equal(count, decided.count);
    for (size_t i = 0; i < count; i++) {
        char json[WEIR_DECISION_JSON_MAX];
        weir_decision_json(&recent[i].decision, json, sizeof json);
        see(json);
    }
    for (size_t i = 0; i <= policy->ruleset_count; i++)
        for (int by = WEIR_TOP_SPENT; by <= WEIR_TOP_REFUSED; by++) {
            const char *name =
                i < policy->ruleset_count ? policy->rulesets[i].name : policy->guesses.name;
            size_t tops =
                weir_limiter_top(limiter, name, (enum weir_top_by)by, keys, COUNT_OF(keys), NULL);
            for (size_t n = 0; n < tops; n++)
                see(keys[n].key);
        }
    for (size_t i = 0; i < COUNT_OF(secrets); i++)
        if (strstr(seen, secrets[i]) != NULL)
            fail_msg("\"%s\" is seen in: %s", secrets[i], seen);
    assert_non_null(strstr(seen, "\"key\":\"user#"));
    assert_non_null(strstr(seen, "header:X-Token#"));
    assert_non_null(strstr(seen, "api_key:acme-free"));
}

/* floods */

static void tells_the_first_of_a_flood_in_full_and_counts_all(void **state)
{
    (void)state;
    static struct weir_recent_decision recent[WEIR_RECENT_MAX];
    now_us += MINUTE; /* a second that no other test has used up */
    for (int i = 0; i < 151; i++)
        ask((struct asking){ .path = "/watched" });
    assert_int_equal(decided.count, 150);
    assert_int_equal(count_of(WEIR_SHADOW_LIMITED), 150);
    assert_int_equal(weir_limiter_recent(limiter, 0, recent, WEIR_RECENT_MAX), 100);
    assert_null(decided.last.decision.request_id);
    now_us += 1000000;
    ask((struct asking){ .path = "/watched" });
    assert_int_equal(weir_limiter_recent(limiter, 0, recent, WEIR_RECENT_MAX), 101);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tells_all_numbers_of_a_refusal),
        TEST(observes_each_request_once_whatever_comes_of_it),
        TEST(tells_only_that_it_was_refused_where_the_store_had_failed_before),
        TEST(says_why_the_store_failed),
        TEST(observes_calls_like_requests),
        TEST(lists_who_spends_most_and_who_is_refused_most),
        TEST(keeps_who_spends_most_when_the_policy_is_replaced),
        TEST(shows_no_secret_anywhere),
        TEST(tells_the_first_of_a_flood_in_full_and_counts_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
