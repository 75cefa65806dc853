/* The metrics of a limiter, over a store that answers by hand. */
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
    "    \"plain\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"20/hour\","
    "      \"algorithm\": \"fixed-window\"}, {\"name\": \"b\", \"by\": \"ip\","
    "      \"rate\": \"1000/hour\", \"penalty\": {\"after\": 5, \"ban\": [\"1m\"]}}],"
    "      \"on_abort\": \"return\"},"
    "    \"failures\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"20/hour\","
    "      \"count\": \"failures\"}]},"
    "    \"memory\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"20/hour\"}],"
    "      \"on_store_failure\": \"memory\"},"
    "    \"watched\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"2/hour\"}],"
    "      \"mode\": \"shadow\"},"
    "    \"leased\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"1000/hour\","
    "      \"algorithm\": \"fixed-window\", \"lease\": {\"batch\": 50}}]}},"
    "  \"routes\": ["
    "    {\"match\": \"* /plain\", \"auth\": \"optional\", \"policy\": \"plain\", \"cost\": 5},"
    "    {\"match\": \"* /failures\", \"auth\": \"optional\", \"policy\": \"failures\"},"
    "    {\"match\": \"* /memory\", \"auth\": \"optional\", \"policy\": \"memory\", \"cost\": 3},"
    "    {\"match\": \"* /watched\", \"auth\": \"optional\", \"policy\": \"watched\"},"
    "    {\"match\": \"* /leased\", \"auth\": \"optional\", \"policy\": \"leased\"} ] }";

/* the store: sums by their keys, and checks that wait for an answer */

#define SUMS      16
#define STORE_NOW (UINT64_C(1800000000) * SECOND)

static struct {
    char keys[SUMS][WEIR_KEY_MAX];
    size_t lengths[SUMS];
    struct weir_state states[SUMS];
    size_t count;
    struct weir_spend last; /* that was decided */
    struct weir_check *pending;
    enum weir_store_result result;  /* of what is ended next; ANSWERED unless a test says so  */
    enum weir_store_result settled; /* of settlements, likewise                             */
    bool waits;                     /* the next check for spending is kept pending          */
    bool is_away;                   /* not even asked                                       */
    bool answers_late;              /* cancel() finds that the answer was quicker           */
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

static void decide(struct weir_check *check)
{
    for (size_t i = 0; i < check->count; i++) {
        const struct weir_spend *spend = &check->spends[i];
        struct weir_state *state = state_of(spend);
        struct weir_decision_step step;
        if (check->operation == WEIR_SETTLE) {
            *state = weir_settle_state(spend, *state, STORE_NOW).state;
        } else if (spend->algorithm == WEIR_PENALTY) {
            check->answers[i] =
                (struct weir_answer){ .allowed = true, .remaining = WEIR_UNITS_MAX };
        } else {
            store.last = *spend;
            step = weir_decide(spend, *state, STORE_NOW);
            check->answers[i] = step.answer;
            *state = step.answer.allowed ? step.state : *state;
        }
    }
}

static void end(struct weir_check *check, enum weir_store_result result)
{
    check->result = result;
    check->now_us = STORE_NOW;
    if (result == WEIR_STORE_ANSWERED)
        decide(check);
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
    if (check->operation == WEIR_SETTLE)
        end(check, store.settled);
    else if (!store.waits)
        end(check, store.result);
    else
        store.pending = check;
}

static void store_cancel(void *self, struct weir_check *check)
{
    (void)self;
    assert_ptr_equal(check, store.pending);
    store.pending = NULL;
    end(check, store.answers_late ? WEIR_STORE_ANSWERED : WEIR_STORE_CANCELLED);
}

static void store_free(void *self)
{
    (void)self;
}

static const struct weir_store_type store_type = {
    .size = sizeof(struct weir_store_type),
    .name = "by \"hand\"",
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
static unsigned answers_with;
static uint64_t settles_at; /* UINT64_MAX: it does not */

static enum weir_step handle_it(void *self, struct weir_request *request)
{
    (void)self;
    if (settles_at != UINT64_MAX)
        assert_int_equal(weir_settle(request, settles_at), WEIR_OK);
    weir_reply_text(request, answers_with, "done");
    return WEIR_DONE;
}

static struct weir_policy *parse(void)
{
    struct weir_policy *made;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_parse(policy_json, strlen(policy_json), NULL, &made, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    return made;
}

static int set_up(void **state)
{
    (void)state;
    memset(&store, 0, sizeof store);
    answers_with = 200;
    settles_at = UINT64_MAX;
    by_hand_reset();
    policy = parse();
    assert_int_equal(weir_store_new(&store_type, NULL, &handle, NULL), WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .store = handle), &limiter, NULL),
        WEIR_OK);
    assert_int_equal(weir_chain_new(WEIR_CHAIN_OPTIONS(.parked_max = 8), &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use_at(chain, "/metrics", weir_metrics(limiter)), WEIR_OK);
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

static struct weir_request *start(const char *method, const char *path)
{
    struct weir_request *request = by_hand_request(chain, method, path);
    by_hand_peer(request, "192.0.2.7");
    by_hand_header(request, "X-User", "ann");
    return request;
}

static unsigned get(const char *path)
{
    struct weir_request *request = start("GET", path);
    unsigned status = by_hand_run(request);
    if (status == 0)
        status = by_hand_run(request); /* the store has answered meanwhile */
    weir_request_end(request);
    return status;
}

static char text[65536];

/* The metrics, and their type in `type`. */
static char type[128];

static const char *scrape(const char *accept)
{
    struct weir_request *request = start("GET", "/metrics");
    if (accept != NULL)
        by_hand_header(request, "Accept", accept);
    assert_int_equal(by_hand_run(request), 200);
    snprintf(type, sizeof type, "%s", weir_reply_header(&request->reply, "Content-Type"));
    assert_true(request->reply.body_length < sizeof text);
    memcpy(text, request->reply.body, request->reply.body_length);
    text[request->reply.body_length] = '\0';
    weir_request_end(request);
    return text;
}

/* The number behind a sample's name and labels; UINT64_MAX: there is no such sample. */
static uint64_t sample(const char *name)
{
    size_t length = strlen(name);
    for (const char *line = scrape(NULL); line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            return strtoull(line + length, NULL, 10);
    }
    return UINT64_MAX;
}

static uint64_t units(const char *fate, const char *policy_and_limit, const char *where)
{
    char name[160];
    const char *slash = strchr(policy_and_limit, '/');
    snprintf(name, sizeof name, "weir_units_%s_total{policy=\"%.*s\",limit=\"%s\",store=\"%s\"}",
             fate, (int)(slash - policy_and_limit), policy_and_limit, slash + 1, where);
    uint64_t found = sample(name);
    return found == UINT64_MAX ? 0 : found;
}

static void assert_units(const char *policy_and_limit, uint64_t spent, uint64_t returned,
                         uint64_t unsure)
{
    assert_int_equal(units("spent", policy_and_limit, "main"), spent);
    assert_int_equal(units("returned", policy_and_limit, "main"), returned);
    assert_int_equal(units("unsure", policy_and_limit, "main"), unsure);
}

/* the endpoint */

static void answers_get_and_head_of_its_own_path_only(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path;
        unsigned status;
    } rows[] = {
        { "GET", "/metrics", 200 },      { "HEAD", "/metrics", 200 },
        { "GET", "/metrics/", 200 },     { "POST", "/metrics", 405 },
        { "DELETE", "/metrics", 405 },   { "get", "/metrics", 405 },
        { "GET", "/metrics/more", 207 }, { "POST", "/metrics/more", 207 },
    };
    answers_with = 207; /* the application's own word */
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s %s\n", rows[i].method, rows[i].path);
        struct weir_request *request = start(rows[i].method, rows[i].path);
        assert_int_equal(by_hand_run(request), rows[i].status);
        if (rows[i].status == 405)
            assert_string_equal(weir_reply_header(&request->reply, "Allow"), "GET, HEAD");
        weir_request_end(request);
    }
}

static void answers_in_the_form_that_is_asked_for(void **state)
{
    (void)state;
    const char *plain = scrape("text/plain;version=0.0.4");
    assert_string_equal(type, "text/plain; version=0.0.4; charset=utf-8");
    assert_null(strstr(plain, "# EOF"));
    assert_non_null(strstr(plain, "# TYPE weir_decisions_total counter\n"));
    const char *open = scrape("application/openmetrics-text;version=1.0.0");
    assert_string_equal(type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert_string_equal(open + strlen(open) - 6, "# EOF\n");
    assert_non_null(strstr(open, "# TYPE weir_decisions counter\n"));
}

static void shows_what_has_not_happened_yet(void **state)
{
    (void)state;
    assert_int_equal(sample("weir_decisions_total{policy=\"plain\",limit=\"\","
                            "outcome=\"allowed\",source=\"store\"}"),
                     0);
    assert_int_equal(sample("weir_decisions_total{policy=\"plain\",limit=\"a\","
                            "outcome=\"limited\",source=\"store\"}"),
                     0);
    assert_int_equal(sample("weir_units_spent_total{policy=\"plain\",limit=\"a\",store=\"main\"}"),
                     0);
    assert_int_equal(sample("weir_store_failures_total{kind=\"timeout\"}"), 0);
    assert_int_equal(sample("weir_policy_generation"), 1);
}

static void escapes_the_name_of_a_users_own_store(void **state)
{
    (void)state;
    assert_int_equal(sample("weir_store_up{store=\"by \\\"hand\\\"\"}"), 1);
}

static void shows_a_client_nothing_that_another_has_sent(void **state)
{
    (void)state;
    get("/planted-path");
    struct weir_request *request = by_hand_request(chain, "PLANTED", "/plain");
    by_hand_peer(request, "198.51.100.47");
    by_hand_header(request, "X-User", "planted-user");
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(by_hand_run(request), 200);
    weir_request_end(request);
    assert_null(strcasestr(scrape(NULL), "planted"));
    assert_null(strstr(text, "198.51.100"));
}

/* units */

static void counts_what_a_request_takes_of_each_limit(void **state)
{
    (void)state;
    assert_int_equal(get("/plain"), 200);
    assert_int_equal(get("/plain"), 200);
    assert_units("plain/a", 10, 0, 0);
    assert_units("plain/b", 10, 0, 0); /* and its penalty is no limit */
}

static void counts_nothing_for_who_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < 6; i++)
        get("/plain");
    assert_units("plain/a", 20, 0, 0);
    assert_units("plain/b", 20, 0, 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(get("/watched"), 200);
    assert_units("watched/a", 2, 0, 0);
}

static void counts_what_is_settled(void **state)
{
    (void)state;
    settles_at = 2;
    get("/plain");
    assert_units("plain/a", 5, 3, 0);
    settles_at = 7;
    get("/plain");
    assert_units("plain/a", 12, 3, 0);
    settles_at = UINT64_MAX;
    get("/failures");
    assert_units("failures/a", 1, 1, 0);
    answers_with = 401;
    get("/failures");
    assert_units("failures/a", 2, 1, 0);
}

static void counts_a_request_that_breaks_off_where_it_gives_back(void **state)
{
    (void)state;
    struct weir_request *request = start("GET", "/plain");
    assert_int_equal(weir_run(request), WEIR_RUN_WAIT);
    assert_int_equal(weir_run(request), WEIR_RUN_REPLY); /* the hooks have not run */
    weir_request_end(request);
    assert_units("plain/a", 5, 5, 0);
}

static void counts_the_fallback_by_itself(void **state)
{
    (void)state;
    store.is_away = true;
    assert_int_equal(get("/memory"), 200);
    assert_units("memory/a", 0, 0, 0);
    assert_int_equal(units("spent", "memory/a", "fallback"), 3);
    assert_int_equal(sample("weir_store_failures_total{kind=\"unavailable\"}"), 1);
    assert_int_equal(sample("weir_store_latency_seconds_count"), 0);
    assert_int_equal(sample("weir_memory_keys{store=\"fallback\"}"), 1);
    assert_int_not_equal(sample("weir_memory_bytes{store=\"fallback\"}"), UINT64_MAX);
    assert_int_equal(sample("weir_memory_bytes{store=\"main\"}"), UINT64_MAX);
}

/* Nobody knows whether a store has counted what it was asked and did not answer. */
static void is_unsure_of_what_the_store_did_not_answer(void **state)
{
    (void)state;
    static const struct {
        const char *when, *kind;
        enum weir_store_result result;
    } rows[] = {
        { "it was too late", "timeout", WEIR_STORE_TIMEOUT },
        { "the connection was lost", "unavailable", WEIR_STORE_UNAVAILABLE },
        { "it answered an error", "error", WEIR_STORE_ERROR },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        char name[80];
        snprintf(name, sizeof name, "weir_store_failures_total{kind=\"%s\"}", rows[i].kind);
        store.result = rows[i].result;
        assert_int_equal(get("/plain"), 200); /* open */
        assert_units("plain/a", 0, 0, 5 * (i + 1));
        assert_int_equal(sample(name), 1);
        assert_int_equal(sample("weir_store_latency_seconds_count"), i + 1);
    }
}

static void is_unsure_of_a_settlement_that_is_lost(void **state)
{
    (void)state;
    settles_at = 2;
    store.settled = WEIR_STORE_TIMEOUT;
    get("/plain");
    assert_units("plain/a", 5, 0, 3);
}

static void is_unsure_of_what_is_taken_back_from_the_store(void **state)
{
    (void)state;
    store.waits = true;
    struct weir_request *request = start("GET", "/plain");
    assert_int_equal(by_hand_run(request), 0);
    weir_request_end(request);
    assert_units("plain/a", 0, 0, 5);
    assert_int_equal(sample("weir_store_failures_total{kind=\"unavailable\"}"), 0);
}

static void counts_an_answer_that_comes_when_the_request_is_over(void **state)
{
    (void)state;
    store.waits = store.answers_late = true;
    struct weir_request *request = start("GET", "/plain");
    assert_int_equal(by_hand_run(request), 0);
    weir_request_end(request);
    assert_units("plain/a", 5, 5, 0);
}

static void counts_calls_without_a_request(void **state)
{
    (void)state;
    const struct weir_subject *ann =
        WEIR_SUBJECT(.policy = "plain", .user = "ann", .ip = "192.0.2.7", .cost = 4);
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_peek(limiter, ann, 1, &verdict, NULL), WEIR_OK);
    assert_units("plain/a", 0, 0, 0);
    assert_int_equal(weir_limiter_check(limiter, ann, 1, &verdict, NULL), WEIR_OK);
    assert_units("plain/a", 4, 0, 0);
    assert_int_equal(weir_limiter_settle(limiter, ann, 1, &verdict, 1, NULL), WEIR_OK);
    assert_units("plain/a", 4, 3, 0);
    assert_int_equal(sample("weir_store_latency_seconds_count"), 1); /* a look is not timed */
    store.result = WEIR_STORE_TIMEOUT;
    assert_int_equal(weir_limiter_check(limiter, ann, 1, &verdict, NULL), WEIR_OK);
    assert_units("plain/a", 4, 3, 4);
    assert_int_equal(sample("weir_store_failures_total{kind=\"timeout\"}"), 1);
}

/* Units of the only key that there is. */
static uint64_t stored(void)
{
    assert_int_equal(store.count, 1);
    store.last.key = store.keys[0];
    store.last.cost = 0;
    return store.last.rate.limit
           - weir_decide(&store.last, store.states[0], STORE_NOW).answer.remaining;
}

static void counts_leased_units_where_they_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(get("/leased"), 200);
    assert_units("leased/a", 7, 0, 0);
    uint64_t held = sample("weir_lease_units_held");
    assert_true(held > 0);
    assert_int_equal(stored(), 7 + held);
    settles_at = 0;
    get("/leased");
    assert_units("leased/a", 8, 1, 0);
    held = sample("weir_lease_units_held");
    assert_int_equal(stored(), 7 + held);
    assert_true(sample("weir_lease_units_taken_total") <= stored());
    assert_int_equal(sample("weir_lease_units_stranded_total"), 0);
    assert_int_equal(sample("weir_lease_units_unsure_total"), 0);
}

/* reloads */

static int by_text(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* Each sample's name and labels stand there once, and each family's head. */
static void assert_no_line_twice(void)
{
    static char *lines[2048];
    size_t count = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *value = strrchr(line, ' ');
        if (line[0] != '#' && value != NULL)
            *value = '\0';
        assert_true(count < COUNT_OF(lines));
        lines[count++] = line;
    }
    qsort(lines, count, sizeof lines[0], by_text);
    for (size_t i = 1; i < count; i++)
        assert_string_not_equal(lines[i - 1], lines[i]);
}

/* F12 */
static void goes_on_with_its_numbers_after_reloads(void **state)
{
    (void)state;
    get("/plain");
    for (size_t i = 0; i < 3; i++) {
        struct weir_error error = WEIR_NO_ERROR;
        if (weir_limiter_replace(limiter, parse(), &error) != WEIR_OK)
            fail_msg("%s: %s", error.path, error.text);
        get("/plain");
    }
    assert_units("plain/a", 20, 0, 0);
    assert_int_equal(sample("weir_policy_generation"), 4);
    assert_int_equal(sample("weir_policy_reloads_total{result=\"success\"}"), 3);
    scrape(NULL);
    assert_no_line_twice();
    scrape("application/openmetrics-text");
    assert_no_line_twice();
}

static void shows_a_reload_that_failed(void **state)
{
    (void)state;
    assert_int_equal(sample("weir_policy_last_reload_successful"), 1);
    struct weir_error error = WEIR_NO_ERROR;
    assert_int_not_equal(weir_policy_reload(limiter, "/nowhere/policy.json", &error), WEIR_OK);
    assert_int_equal(sample("weir_policy_last_reload_successful"), 0);
    assert_int_equal(sample("weir_policy_reloads_total{result=\"failure\"}"), 1);
    assert_int_equal(sample("weir_policy_generation"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(answers_get_and_head_of_its_own_path_only),
        TEST(answers_in_the_form_that_is_asked_for),
        TEST(shows_what_has_not_happened_yet),
        TEST(escapes_the_name_of_a_users_own_store),
        TEST(shows_a_client_nothing_that_another_has_sent),
        TEST(counts_what_a_request_takes_of_each_limit),
        TEST(counts_nothing_for_who_is_refused),
        TEST(counts_what_is_settled),
        TEST(counts_a_request_that_breaks_off_where_it_gives_back),
        TEST(counts_the_fallback_by_itself),
        TEST(is_unsure_of_what_the_store_did_not_answer),
        TEST(is_unsure_of_a_settlement_that_is_lost),
        TEST(is_unsure_of_what_is_taken_back_from_the_store),
        TEST(counts_an_answer_that_comes_when_the_request_is_over),
        TEST(counts_calls_without_a_request),
        TEST(counts_leased_units_where_they_are),
        TEST(goes_on_with_its_numbers_after_reloads),
        TEST(shows_a_reload_that_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
