/* What becomes of what was counted when a request succeeds, on the memory store and on a real Redis:
 * whoever logs in takes back his own mistakes, and nobody takes back anything of others. */
#include "test.h"

#include <poll.h>

#include <weir/weir.h>

#include "by_hand.h"
#include "redis_server.h"
#include "store/store.h"

#define FORM "application/x-www-form-urlencoded"

/* An account-wide limit that forgives what the pair has counted. */
#define LOGIN(rest)                                                                                \
    "{\"limits\": ["                                                                               \
    "  {\"name\": \"account\", \"by\": \"field:username\", \"count\": \"failures\","               \
    "   \"on_success\": {\"forgive\": \"pair\"}, " rest "},"                                       \
    "  {\"name\": \"pair\", \"by\": [\"ip\", \"field:username\"], \"rate\": \"5/day\","            \
    "   \"algorithm\": \"sliding-log\", \"count\": \"failures\", \"on_success\": \"reset\"},"      \
    "  {\"name\": \"stop\", \"by\": \"field:username\", \"rate\": \"100/366days\","                \
    "   \"algorithm\": \"fixed-window\", \"start\": \"first\", \"count\": \"failures\","           \
    "   \"on_success\": \"reset\"}], \"on_store_failure\": \"memory\"}"

#define SAID(name, count)                                                                          \
    "{\"name\": \"" name "\", \"by\": \"field:username\", \"rate\": \"9/day\", \"count\": " count  \
    "}"

/* clang-format off */
static const char policy_json[] =
    "{ \"store\": {\"url\": \"%s\", \"timeout\": \"5s\"}, \"secret\": \"s\", \"instances\": 2,"
    "  \"policies\": {"
    "    \"gcra\": "    LOGIN("\"rate\": \"10/day\"") ","
    "    \"token\": "   LOGIN("\"rate\": \"10/day\", \"algorithm\": \"token-bucket\"") ","
    "    \"fixed\": "   LOGIN("\"rate\": \"10/366days\", \"algorithm\": \"fixed-window\"") ","
    "    \"counter\": " LOGIN("\"rate\": \"10/366days\", \"algorithm\": \"sliding-counter\"") ","
    "    \"all\": {\"limits\": ["
    "      {\"name\": \"account\", \"by\": \"field:username\", \"rate\": \"50/day\","
    "       \"on_success\": {\"forgive\": \"pair\"}},"
    "      {\"name\": \"pair\", \"by\": [\"field:username\", \"ip\"], \"rate\": \"20/day\","
    "       \"on_success\": \"reset\"}]},"
    "    \"said\": {\"limits\": ["
           SAID("bad", "\"failures\"") "," SAID("good", "\"successes\"") "," SAID("table", "{\"2xx\": 3}") "]},"
    "    \"banned\": {\"limits\": [{\"name\": \"pair\", \"by\": [\"ip\", \"field:username\"],"
    "      \"rate\": \"1/second\", \"algorithm\": \"sliding-log\", \"count\": \"failures\","
    "      \"on_success\": \"reset\", \"penalty\": {\"after\": 2, \"ban\": [\"1h\"]}}]}},"
    "  \"routes\": ["
    "    {\"match\": \"* /gcra\", \"policy\": \"gcra\"},"
    "    {\"match\": \"* /token\", \"policy\": \"token\"},"
    "    {\"match\": \"* /fixed\", \"policy\": \"fixed\"},"
    "    {\"match\": \"* /counter\", \"policy\": \"counter\"},"
    "    {\"match\": \"* /all\", \"policy\": \"all\", \"cost\": 3},"
    "    {\"match\": \"* /said\", \"policy\": \"said\"},"
    "    {\"match\": \"* /banned\", \"policy\": \"banned\"}] }";
/* clang-format on */

static const char *const logins[] = { "gcra", "token", "fixed", "counter" };

static struct redis_server server;
static const char *store_url;
static struct weir_policy *policy;
static struct weir_limiter *limiter;
static struct weir_chain *chain;
static unsigned resumed;

/* What the handler does. */
static struct {
    unsigned status;
    enum weir_result says[3]; /* in this order; 0: nothing */
    enum weir_code said;
    uint64_t settles; /* UINT64_MAX: not */
    bool fails;       /* instead of a reply */
} script;

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    for (size_t i = 0; i < COUNT_OF(script.says); i++)
        if (script.says[i] != 0)
            script.said = weir_outcome(request, script.says[i]);
    if (script.settles != UINT64_MAX)
        assert_int_equal(weir_settle(request, script.settles), WEIR_OK);
    if (script.fails)
        return WEIR_FAIL;
    weir_reply_text(request, script.status, "done");
    return WEIR_DONE;
}

static void reset_script(void)
{
    memset(&script, 0, sizeof script);
    script.status = 200;
    script.settles = UINT64_MAX;
}

static void make_limiter(struct weir_store *store)
{
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .store = store), &limiter, NULL),
        WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_on(chain, "POST", "*", handle, NULL), WEIR_OK);
    assert_int_equal(weir_chain_on(chain, "GET", "*", handle, NULL), WEIR_OK);
}

static int set_up(void **state)
{
    (void)state;
    char text[8192];
    int length = snprintf(text, sizeof text, policy_json, store_url);
    struct weir_error error = WEIR_NO_ERROR;
    reset_script();
    resumed = 0;
    by_hand_reset();
    if (weir_policy_parse(text, (size_t)length, NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    if (server.pid != 0)
        redis_server_do(&server, "FLUSHALL");
    make_limiter(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_chain_free(chain);
    weir_limiter_free(limiter);
    weir_policy_free(policy);
    return 0;
}

/* Runs a request for as long as it waits for its store. */
static unsigned run(struct weir_request *request)
{
    unsigned status = by_hand_run(request);
    if (status == 0 && request->body_stage != WEIR_BODY_ASKED) {
        assert_ptr_equal(by_hand_await_resume(resumed++), request);
        status = by_hand_run(request);
    }
    return status;
}

static struct weir_request *start(const char *method, const char *path, const char *body,
                                  const char *ip)
{
    struct weir_request *request = by_hand_request(chain, method, path);
    by_hand_peer(request, ip);
    by_hand_header(request, "Content-Type", FORM);
    request->facts.has_body = true;
    assert_int_equal(by_hand_run(request), 0);
    assert_true(weir_request_take_body(request, body, strlen(body)));
    request->body_stage = WEIR_BODY_WHOLE;
    return request;
}

static unsigned ask(const char *method, const char *name, const char *body, const char *ip)
{
    char path[32];
    snprintf(path, sizeof path, "/%s", name);
    struct weir_request *request = start(method, path, body, ip);
    unsigned status = run(request);
    weir_request_end(request);
    return status;
}

#define HOME     "198.51.100.1"
#define STRANGER "203.0.113.9"
#define ANN      "username=ann"
#define BOB      "username=bob"

/* A login that goes wrong, or right. */
static void miss(const char *name, const char *body, const char *ip)
{
    script.status = 401;
    assert_int_equal(ask("POST", name, body, ip), 401);
}

static void hit(const char *name, const char *body, const char *ip)
{
    script.status = 200;
    assert_int_equal(ask("POST", name, body, ip), 200);
}

/* What is left of a limit for ann, or for another. */
static uint64_t left_of(const char *name, const char *limit, const char *user, const char *ip)
{
    struct weir_verdict verdict;
    struct weir_error error = WEIR_NO_ERROR;
    const struct weir_value value = { "field:username", user };
    if (weir_limiter_peek(limiter,
                          WEIR_SUBJECT(.policy = name, .limit = limit, .ip = ip, .values = &value,
                                       .value_count = 1),
                          1, &verdict, &error)
        != WEIR_OK)
        fail_msg("%s", error.text);
    assert_int_equal(verdict.quota_count, 1);
    return verdict.quotas[0].remaining;
}

static void expect_left(const char *name, uint64_t account, uint64_t pair, uint64_t stop)
{
    assert_int_equal(left_of(name, "account", "ann", HOME), account);
    assert_int_equal(left_of(name, "pair", "ann", HOME), pair);
    assert_int_equal(left_of(name, "stop", "ann", HOME), stop);
}

/* on_success */

static void leaves_no_trace_of_two_typos_before_a_success(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(logins); i++) {
        print_message("    %s\n", logins[i]);
        for (int times = 0; times < 5; times++) {
            miss(logins[i], ANN, HOME);
            miss(logins[i], ANN, HOME);
            expect_left(logins[i], 8, 3, 98);
            hit(logins[i], ANN, HOME);
            expect_left(logins[i], 10, 5, 100);
        }
    }
}

static void keeps_what_strangers_have_missed(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(logins); i++) {
        print_message("    %s\n", logins[i]);
        for (int times = 0; times < 3; times++)
            miss(logins[i], ANN, STRANGER);
        miss(logins[i], ANN, HOME);
        miss(logins[i], ANN, HOME);
        hit(logins[i], ANN, HOME);
        hit(logins[i], ANN, HOME);
        assert_int_equal(left_of(logins[i], "account", "ann", HOME), 7);
        assert_int_equal(left_of(logins[i], "pair", "ann", HOME), 5);
        assert_int_equal(left_of(logins[i], "pair", "ann", STRANGER), 2);
    }
}

/* Who has an account of his own logs in to it between his guesses. */
static void clears_nothing_of_another_account(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(logins); i++) {
        print_message("    %s\n", logins[i]);
        for (int times = 0; times < 4; times++) {
            miss(logins[i], ANN, STRANGER);
            hit(logins[i], BOB, STRANGER);
        }
        assert_int_equal(left_of(logins[i], "account", "ann", STRANGER), 6);
        assert_int_equal(left_of(logins[i], "pair", "ann", STRANGER), 1);
        assert_int_equal(left_of(logins[i], "stop", "ann", STRANGER), 96);
        miss(logins[i], ANN, STRANGER);
        assert_int_equal(ask("POST", logins[i], ANN, STRANGER), 429);
    }
}

/* A request that is under way has taken its units already. */
static void forgives_no_more_than_there_is(void **state)
{
    (void)state;
    script.status = 401;
    struct weir_request *late = start("POST", "/fixed", ANN, HOME);
    miss("fixed", ANN, HOME);
    hit("fixed", ANN, HOME);
    expect_left("fixed", 10, 5, 100);
    script.status = 200;
    assert_int_equal(run(late), 200);
    weir_request_end(late);
    expect_left("fixed", 10, 5, 100);
}

static void forgives_beside_what_is_settled(void **state)
{
    (void)state;
    script.status = 401;
    assert_int_equal(ask("POST", "all", ANN, HOME), 401);
    script.settles = 5;
    assert_int_equal(ask("POST", "all", ANN, HOME), 401);
    assert_int_equal(left_of("all", "account", "ann", HOME), 42);
    assert_int_equal(left_of("all", "pair", "ann", HOME), 12);

    /* Its own cost stays, as it counts all. */
    script.settles = 2;
    hit("all", ANN, HOME);
    assert_int_equal(left_of("all", "account", "ann", HOME), 48);
    assert_int_equal(left_of("all", "pair", "ann", HOME), 20);
    script.settles = UINT64_MAX;
    hit("all", ANN, HOME);
    assert_int_equal(left_of("all", "account", "ann", HOME), 45);
}

static void poll_a_moment(void)
{
    poll(NULL, 0, 1);
}

static void forgets_the_penalty_with_its_limit(void **state)
{
    (void)state;
    /* One violation of two is on record, and goes with the success. */
    miss("banned", ANN, HOME);
    assert_int_equal(ask("POST", "banned", ANN, HOME), 429);
    unsigned status = 429;
    script.status = 200;
    for (int i = 0; i < 60000 && status == 429; i++) {
        if (left_of("banned", NULL, "ann", HOME) > 0)
            status = ask("POST", "banned", ANN, HOME);
        else
            poll_a_moment();
    }
    assert_int_equal(status, 200);
    miss("banned", ANN, HOME);
    assert_int_equal(ask("POST", "banned", ANN, HOME), 429);
    for (int i = 0; i < 60000 && left_of("banned", NULL, "ann", HOME) == 0; i++)
        poll_a_moment();
    hit("banned", ANN, HOME);
}

static void shows_no_name_to_who_reads_the_store(void **state)
{
    (void)state;
    if (server.pid == 0)
        return;
    redis_server_do(&server, "FLUSHALL");
    miss("gcra", "username=annabella%40x.org", HOME);
    redisReply *keys = redis_server_ask(&server, "KEYS *");
    assert_int_equal(keys->elements, 2); /* account and stop are kept together */
    for (size_t i = 0; i < keys->elements; i++) {
        assert_null(strstr(keys->element[i]->str, "anna"));
        assert_non_null(strstr(keys->element[i]->str, "field:username="));
    }
    freeReplyObject(keys);
}

/* what is a success */

static void takes_no_reply_of_its_own_for_a_success(void **state)
{
    (void)state;
    miss("gcra", ANN, HOME);
    script.says[0] = WEIR_SUCCEEDED;
    script.fails = true;
    assert_int_equal(ask("POST", "gcra", ANN, HOME), 500);
    script.fails = false;
    assert_int_equal(ask("OPTIONS", "gcra", ANN, HOME), 204);
    assert_int_equal(ask("PUT", "gcra", ANN, HOME), 405);
    expect_left("gcra", 8, 3, 98);
    assert_int_equal(ask("POST", "gcra", "username=ann&username=bob", HOME), 400);
    expect_left("gcra", 8, 3, 98);
    hit("gcra", ANN, HOME);
    expect_left("gcra", 10, 5, 100);
}

/* A login page is shown to everybody, whatever name stands in the request. */
static void takes_no_look_at_a_page_for_a_success(void **state)
{
    (void)state;
    miss("gcra", ANN, STRANGER);
    script.status = 200;
    assert_int_equal(ask("GET", "gcra", ANN, STRANGER), 200);
    assert_int_equal(ask("HEAD", "gcra", ANN, STRANGER), 200);
    assert_int_equal(left_of("gcra", "pair", "ann", STRANGER), 4);
    assert_int_equal(left_of("gcra", "account", "ann", STRANGER), 9);
    script.says[0] = WEIR_SUCCEEDED;
    assert_int_equal(ask("GET", "gcra", ANN, STRANGER), 200);
    assert_int_equal(left_of("gcra", "pair", "ann", STRANGER), 5);
    assert_int_equal(left_of("gcra", "account", "ann", STRANGER), 10);
}

static void clears_nothing_for_who_gives_up(void **state)
{
    (void)state;
    miss("gcra", ANN, HOME);
    script.status = 200;
    struct weir_request *request = start("POST", "/gcra", ANN, HOME);
    if (weir_run(request) == WEIR_RUN_WAIT) {
        assert_ptr_equal(by_hand_await_resume(resumed++), request);
        assert_int_equal(weir_run(request), WEIR_RUN_REPLY);
    }
    weir_request_end(request);
    expect_left("gcra", 8, 3, 98);
}

/* weir_outcome() */

static void counts_by_what_is_said_before_the_status(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        unsigned status;
        enum weir_result says[3];
        uint64_t bad, good, table; /* left of 9 */
    } rows[] = {
        { "the status alone, right", 200, { 0 }, 9, 8, 6 },
        { "the status alone, wrong", 401, { 0 }, 8, 9, 8 },
        { "failed, with a page", 200, { WEIR_FAILED }, 8, 9, 6 },
        { "failed, and sent on", 302, { WEIR_FAILED }, 8, 9, 8 },
        { "succeeded, of all things", 500, { WEIR_SUCCEEDED }, 9, 8, 8 },
        { "the last word holds", 200, { WEIR_SUCCEEDED, WEIR_FAILED }, 8, 9, 6 },
        { "either way", 200, { WEIR_FAILED, WEIR_FAILED, WEIR_SUCCEEDED }, 9, 8, 6 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        char body[32], user[8];
        snprintf(user, sizeof user, "u%zu", i);
        snprintf(body, sizeof body, "username=%s", user);
        script.status = rows[i].status;
        memcpy(script.says, rows[i].says, sizeof script.says);
        assert_int_equal(ask("POST", "said", body, HOME), rows[i].status);
        assert_int_equal(left_of("said", "bad", user, HOME), rows[i].bad);
        assert_int_equal(left_of("said", "good", user, HOME), rows[i].good);
        assert_int_equal(left_of("said", "table", user, HOME), rows[i].table);
        assert_int_equal(script.said, WEIR_OK);
    }
}

/* A page that is answered 200 in both cases. */
static void resets_and_forgives_by_what_is_said(void **state)
{
    (void)state;
    script.status = 200;
    script.says[0] = WEIR_FAILED;
    assert_int_equal(ask("POST", "gcra", ANN, HOME), 200);
    assert_int_equal(ask("POST", "gcra", ANN, HOME), 200);
    expect_left("gcra", 8, 3, 98);
    script.says[0] = WEIR_SUCCEEDED;
    script.status = 303;
    assert_int_equal(ask("POST", "gcra", ANN, HOME), 303);
    expect_left("gcra", 10, 5, 100);
}

static void hears_nothing_once_the_reply_is_on_its_way(void **state)
{
    (void)state;
    struct weir_request *request = start("POST", "/said", ANN, HOME);
    assert_int_equal(weir_outcome(request, (enum weir_result)0), WEIR_E_ARGUMENT);
    assert_int_equal(weir_outcome(request, (enum weir_result)3), WEIR_E_ARGUMENT);
    assert_int_equal(weir_outcome(request, WEIR_FAILED), WEIR_OK);
    assert_int_equal(run(request), 200);
    request->stage = WEIR_STAGE_SENT;
    assert_int_equal(weir_outcome(request, WEIR_SUCCEEDED), WEIR_E_STATE);
    weir_request_end(request);
    assert_int_equal(left_of("said", "bad", "ann", HOME), 8);
}

/* the fallback */

static bool is_never_ready(void *self)
{
    (void)self;
    return false;
}

static void never_submit(void *self, struct weir_check *check)
{
    (void)self, (void)check;
    fail_msg("a store that is not ready was asked");
}

static void free_nothing(void *self)
{
    (void)self;
}

static void takes_back_in_the_store_that_has_counted(void **state)
{
    (void)state;
    static const struct weir_store_type gone = { .size = sizeof gone,
                                                 .name = "gone",
                                                 .answers_inline = true,
                                                 .ready = is_never_ready,
                                                 .submit = never_submit,
                                                 .free = free_nothing };
    struct weir_store *store = NULL;
    assert_int_equal(weir_store_new(&gone, NULL, &store, NULL), WEIR_OK);
    weir_chain_free(chain);
    weir_limiter_free(limiter);
    make_limiter(store);
    for (int times = 0; times < 4; times++) { /* half of 5 each, which is three tries at least */
        miss("fixed", ANN, HOME);
        hit("fixed", ANN, HOME);
    }
    miss("fixed", ANN, HOME);
    miss("fixed", ANN, HOME);
    miss("fixed", ANN, HOME);
    assert_int_equal(ask("POST", "fixed", ANN, HOME), 429);
    weir_chain_free(chain);
    weir_limiter_free(limiter);
    weir_store_free(store);
    make_limiter(NULL);
}

static int run_on(const char *url)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(leaves_no_trace_of_two_typos_before_a_success),
        TEST(keeps_what_strangers_have_missed),
        TEST(clears_nothing_of_another_account),
        TEST(forgives_no_more_than_there_is),
        TEST(forgives_beside_what_is_settled),
        TEST(forgets_the_penalty_with_its_limit),
        TEST(shows_no_name_to_who_reads_the_store),
        TEST(takes_no_reply_of_its_own_for_a_success),
        TEST(takes_no_look_at_a_page_for_a_success),
        TEST(clears_nothing_for_who_gives_up),
        TEST(counts_by_what_is_said_before_the_status),
        TEST(resets_and_forgives_by_what_is_said),
        TEST(hears_nothing_once_the_reply_is_on_its_way),
        TEST(takes_back_in_the_store_that_has_counted),
    };
    store_url = url;
    print_message("%s\n", url);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    int failed = run_on("memory:");
    redis_server_prepare(&server);
    redis_server_start(&server);
    failed += run_on(server.url);
    redis_server_remove(&server);
    return failed;
}
