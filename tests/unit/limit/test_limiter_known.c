/* Known devices and addresses in the limiter, refusals left to the handler, and what refusals tell of
 * the wait; on the memory store and on a real Redis. */
#include "test.h"

#include <poll.h>
#include <stdatomic.h>

#include <weir/weir.h>

#include "by_hand.h"
#include "limit/known.h"
#include "redis_server.h"
#include "store/store.h"

#define SECOND_US UINT64_C(1000000)
#define HOUR_S    3600

#define STRANGERS "\"name\": \"strangers\", \"by\": \"field:name\", \"rate\": \"2/day\""
#define FAILURES  ", \"count\": \"failures\""

static const char policy_json[] =
    "{ \"store\": {\"url\": \"%s\", \"timeout\": \"10s\"}, \"secret\": \"s\", \"instances\": 1,"
    "  \"client_ip\": {\"trust\": [\"192.0.2.1\"]},"
    "  \"policies\": {"
    "    \"login\": {"
    "      \"known\": {\"account\": \"field:name\", \"for\": \"10h\", \"addresses\": \"30d\"},"
    "      \"limits\": ["
    "        {\"name\": \"address\", \"by\": \"ip\", \"rate\": \"1000/hour\"},"
    "        {" STRANGERS FAILURES ", \"when\": \"unknown\"},"
    "        {\"name\": \"device\", \"by\": [\"device\", \"field:name\"], \"rate\": "
    "\"3/day\"" FAILURES "          , \"when\": \"known\"}],"
    "      \"on_store_failure\": \"memory\"},"
    "    \"watched\": { \"mode\": \"shadow\","
    "      \"known\": {\"account\": \"field:name\", \"for\": \"10h\"},"
    "      \"limits\": [{" STRANGERS FAILURES ", \"when\": \"unknown\"}]},"
    "    \"alone\": {"
    "      \"known\": {\"account\": \"field:name\", \"addresses\": \"30d\"},"
    "      \"limits\": [{" STRANGERS ", \"when\": \"unknown\"},"
    "        {\"name\": \"friends\", \"by\": \"field:name\", \"rate\": \"1/day\", \"when\": "
    "\"known\"}]},"
    "    \"handler\": {"
    "      \"limits\": [{" STRANGERS ", \"refusal\": \"handler\"},"
    "        {\"name\": \"a\", \"by\": \"ip\", \"rate\": \"4/day\"}]},"
    "    \"exact\": {\"limits\": [{" STRANGERS "}], \"retry_after\": \"exact\"},"
    "    \"none\": {\"limits\": [{" STRANGERS "}], \"retry_after\": \"none\"},"
    "    \"fixed\": {\"limits\": [{" STRANGERS "}], \"retry_after\": \"1500ms\"},"
    "    \"round\": {\"limits\": [{" STRANGERS "}], \"retry_after\": {\"round\": \"7h\"}}},"
    "  \"routes\": ["
    "    {\"match\": \"* /login\", \"policy\": \"login\"},"
    "    {\"match\": \"* /watched\", \"policy\": \"watched\"},"
    "    {\"match\": \"* /alone\", \"policy\": \"alone\"},"
    "    {\"match\": \"* /handler\", \"policy\": \"handler\"},"
    "    {\"match\": \"* /exact\", \"policy\": \"exact\"},"
    "    {\"match\": \"* /none\", \"policy\": \"none\"},"
    "    {\"match\": \"* /fixed\", \"policy\": \"fixed\"},"
    "    {\"match\": \"* /round\", \"policy\": \"round\"}] }";

static struct redis_server server;
static const char *store_url;

static struct {
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    unsigned resumed;
    atomic_uint_fast64_t now_us; /* read by the store's thread, too */
    unsigned status;             /* that the handler answers */
    enum weir_result says;
    bool was_limited;
    char cookie[WEIR_COOKIE_BYTES]; /* of the last reply; "": none */
    char retry_after[32];
    size_t lines, body_length; /* of the last reply */
    char log[512];
} bench;

static uint64_t read_clock(void *self)
{
    (void)self;
    return bench.now_us;
}

static void note_line(void *self, enum weir_level level, const char *text)
{
    (void)self;
    if (level == WEIR_ERROR)
        snprintf(bench.log, sizeof bench.log, "%s", text);
}

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    bench.was_limited = weir_request_is_limited(request);
    weir_reply_text(request, bench.status, "done");
    weir_reply_line(request, "X-Session", "of ann");
    if (bench.says != 0)
        assert_int_equal(weir_outcome(request, bench.says), WEIR_OK);
    return WEIR_DONE;
}

static void make_limiter(struct weir_store *store)
{
    /* Redis has a clock of its own, so only cookies live in this one there. */
    const struct weir_clock clock = { read_clock, NULL };
    const struct weir_log log = { note_line, NULL };
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = bench.policy, .store = store,
                                                           .clock = &clock, .log = log),
                                      &bench.limiter, NULL),
                     WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &bench.chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(bench.chain, weir_limit(bench.limiter)), WEIR_OK);
    assert_int_equal(weir_chain_on(bench.chain, "POST", "*", handle, NULL), WEIR_OK);
}

static int set_up(void **state)
{
    (void)state;
    char text[8192];
    int length = snprintf(text, sizeof text, policy_json, store_url);
    struct weir_error error = WEIR_NO_ERROR;
    memset(&bench, 0, sizeof bench);
    bench.now_us = UINT64_C(1800000000) * SECOND_US;
    by_hand_reset();
    if (weir_policy_parse(text, (size_t)length, NULL, &bench.policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    if (server.pid != 0)
        redis_server_do(&server, "FLUSHALL");
    make_limiter(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_chain_free(bench.chain);
    weir_limiter_free(bench.limiter);
    weir_policy_free(bench.policy);
    return 0;
}

static void note_reply(const struct weir_request *request)
{
    const char *cookie = weir_reply_header(&request->reply, "Set-Cookie");
    const char *retry_after = weir_reply_header(&request->reply, "Retry-After");
    snprintf(bench.cookie, sizeof bench.cookie, "%s", cookie == NULL ? "" : cookie);
    snprintf(bench.retry_after, sizeof bench.retry_after, "%s",
             retry_after == NULL ? "" : retry_after);
    bench.lines = request->reply.line_count;
    bench.body_length = request->reply.body_length;
}

static unsigned run(struct weir_request *request)
{
    unsigned status = by_hand_run(request);
    while (status == 0) {
        assert_ptr_equal(by_hand_await_resume(bench.resumed++), request);
        status = by_hand_run(request);
    }
    return status;
}

struct asking {
    const char *path, *body; /* NULL: "/login", and ann's */
    const char *ip, *cookie, *via;
};

/* The handler answers `status`, if it is asked. */
static unsigned ask_by(struct asking asking, unsigned status)
{
    const char *path = asking.path == NULL ? "/login" : asking.path;
    const char *body = asking.body == NULL ? "name=ann" : asking.body;
    struct weir_request *request = by_hand_request(bench.chain, "POST", path);
    by_hand_peer(request, asking.ip);
    by_hand_header(request, "Content-Type", "application/x-www-form-urlencoded");
    if (asking.cookie != NULL)
        by_hand_header(request, "Cookie", asking.cookie);
    if (asking.via != NULL)
        by_hand_header(request, "X-Forwarded-For", asking.via);
    bench.status = status;
    request->facts.has_body = true;
    assert_int_equal(by_hand_run(request), 0);
    assert_true(weir_request_take_body(request, body, strlen(body)));
    request->body_stage = WEIR_BODY_WHOLE;
    unsigned replied = run(request);
    note_reply(request);
    weir_request_end(request);
    return replied;
}

#define HOME     "198.51.100.1"
#define STRANGER "203.0.113.9"

#define ask(wanted, ...) ask_by((struct asking){ __VA_ARGS__ }, wanted)

/* A success, and the cookie that it brings. */
static const char *log_in(const char *ip)
{
    static char cookie[WEIR_COOKIE_BYTES];
    assert_int_equal(ask(200, .ip = ip), 200);
    assert_string_not_equal(bench.cookie, "");
    snprintf(cookie, sizeof cookie, "%.*s", (int)strcspn(bench.cookie, ";"), bench.cookie);
    return cookie;
}

static void lock_out(void)
{
    while (ask(401, .ip = STRANGER) == 401)
        continue;
    assert_int_equal(ask(200, .ip = STRANGER), 429);
}

static void lets_a_known_device_in_where_strangers_are_out(void **state)
{
    (void)state;
    const char *cookie = log_in(HOME);
    lock_out();
    assert_int_equal(ask(200, .ip = "203.0.113.77", .cookie = cookie), 200);
    assert_string_equal(bench.cookie, "");
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(401, .ip = STRANGER, .cookie = cookie), 401);
    assert_int_equal(ask(200, .ip = STRANGER, .cookie = cookie), 429);
}

static void lets_a_known_address_in_where_strangers_are_out(void **state)
{
    (void)state;
    log_in(HOME);
    lock_out();
    assert_int_equal(ask(200, .ip = "198.51.100.2"), 429);
    assert_int_equal(ask(200, .ip = HOME), 200);
    assert_string_not_equal(bench.cookie, "");
    /* It is known for this account alone, and to those whom a trusted proxy saw there. */
    assert_int_equal(ask(200, .ip = STRANGER, .via = HOME), 429);
    assert_int_equal(ask(200, .ip = "192.0.2.1", .via = HOME ", " STRANGER), 429);
    assert_int_equal(ask(200, .ip = "192.0.2.1", .via = STRANGER ", " HOME), 200);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ask(401, .ip = HOME, .body = "name=bob"), 401);
    assert_int_equal(ask(401, .ip = HOME, .body = "name=bob"), 429);
}

static void knows_a_network_of_ipv6_as_one_address(void **state)
{
    (void)state;
    log_in("2001:db8:0:1200::1");
    lock_out();
    assert_int_equal(ask(200, .ip = "2001:db8:0:12ff:1:2:3:4"), 200);
    assert_int_equal(ask(200, .ip = "2001:db8:0:1300::1"), 429);
}

/* Where all limits count by the account, it is the slot, and names the key once. */
static void knows_an_address_in_the_slot_of_its_account(void **state)
{
    (void)state;
    assert_int_equal(ask(200, .path = "/alone", .ip = HOME), 200);
    assert_int_equal(ask(401, .path = "/alone", .ip = STRANGER), 401);
    assert_int_equal(ask(200, .path = "/alone", .ip = STRANGER), 429);
    assert_int_equal(ask(200, .path = "/alone", .ip = HOME), 200);
    assert_int_equal(ask(200, .path = "/alone", .ip = HOME, .body = "name=bob"), 200);
    assert_int_equal(ask(200, .path = "/alone", .ip = STRANGER, .body = "name=bob"), 200);
    assert_int_equal(ask(200, .path = "/alone", .ip = "203.0.113.8", .body = "name=bob"), 429);
    if (server.pid == 0)
        return;
    redisReply *keys = redis_server_ask(&server, "KEYS weir:{field:name=*}:alone:::known:ip=*");
    assert_int_equal(keys->elements, 3);
    freeReplyObject(keys);
}

static void renews_a_cookie_in_the_second_half_of_its_time(void **state)
{
    (void)state;
    const char *cookie = log_in(HOME);
    bench.now_us += 5 * HOUR_S * SECOND_US;
    assert_int_equal(ask(200, .ip = HOME, .cookie = cookie), 200);
    assert_string_equal(bench.cookie, "");
    bench.now_us += SECOND_US;
    assert_int_equal(ask(401, .ip = HOME, .cookie = cookie), 401);
    assert_string_equal(bench.cookie, "");
    assert_int_equal(ask(200, .ip = HOME, .cookie = cookie), 200);
    assert_non_null(strstr(bench.cookie, "Max-Age=36000;"));
    /* The same device, for longer. */
    size_t device = (size_t)(strchr(cookie, '.') - cookie) + 1 + WEIR_LABEL_CHARS;
    assert_memory_equal(bench.cookie, cookie, device);
    assert_string_not_equal(bench.cookie + device, cookie + device);
}

static void sends_no_cookie_but_with_a_success(void **state)
{
    (void)state;
    assert_int_equal(ask(401, .ip = HOME), 401);
    assert_string_equal(bench.cookie, "");
    assert_int_equal(ask(200, .ip = HOME, .body = "name=ann&name=bob"), 400);
    assert_string_equal(bench.cookie, "");
    assert_int_equal(ask(200, .ip = HOME, .body = "other=1"), 200);
    assert_string_equal(bench.cookie, "");
    bench.says = WEIR_FAILED;
    assert_int_equal(ask(302, .ip = HOME), 302);
    assert_string_equal(bench.cookie, "");
    assert_int_equal(ask(200, .ip = HOME), 429);
    assert_string_equal(bench.cookie, "");
    bench.says = WEIR_SUCCEEDED;
    assert_int_equal(ask(302, .ip = HOME, .body = "name=bob"), 302);
    assert_string_not_equal(bench.cookie, "");
}

static void knows_nobody_by_a_cookie_that_is_over(void **state)
{
    (void)state;
    const char *cookie = log_in("192.0.2.99");
    lock_out();
    assert_int_equal(ask(401, .ip = HOME, .cookie = cookie), 401);
    bench.now_us += 10 * HOUR_S * SECOND_US;
    lock_out(); /* something was earned back meanwhile */
    assert_int_equal(ask(401, .ip = HOME, .cookie = cookie), 429);
}

static void sends_cookies_in_a_policy_that_only_watches(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(ask(401, .path = "/watched", .ip = STRANGER), 401);
    assert_int_equal(ask(200, .path = "/watched", .ip = HOME), 200);
    assert_string_equal(bench.cookie, ""); /* it would have been refused */
    assert_int_equal(ask(200, .path = "/watched", .ip = HOME, .body = "name=bob"), 200);
    assert_string_not_equal(bench.cookie, "");
}

static void resets_what_a_known_address_has_used_up(void **state)
{
    (void)state;
    const struct weir_value ann = { "field:name", "ann" };
    log_in(HOME);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(401, .ip = HOME), 401);
    assert_int_equal(ask(200, .ip = HOME), 429);
    assert_int_equal(
        weir_limiter_reset(bench.limiter,
                           WEIR_SUBJECT(.policy = "login", .values = &ann, .value_count = 1), NULL),
        WEIR_OK);
    assert_int_equal(ask(200, .ip = HOME), 429); /* that was the strangers' */
    assert_int_equal(weir_limiter_reset(bench.limiter,
                                        WEIR_SUBJECT(.policy = "login", .limit = "device",
                                                     .ip = HOME, .values = &ann, .value_count = 1),
                                        NULL),
                     WEIR_OK);
    assert_int_equal(ask(200, .ip = HOME), 200);
}

static void shows_no_device_to_who_reads_the_store(void **state)
{
    (void)state;
    if (server.pid == 0)
        return;
    const char *cookie = log_in(HOME);
    char device[WEIR_LABEL_CHARS + 1];
    snprintf(device, sizeof device, "%s", strchr(cookie, '.') + 1);
    assert_int_equal(ask(401, .ip = HOME, .cookie = cookie), 401);
    redisReply *keys = redis_server_ask(&server, "KEYS *device*");
    assert_int_equal(keys->elements, 1);
    assert_null(strstr(keys->element[0]->str, device));
    freeReplyObject(keys);
}

/* the store is away, or goes in between */

static struct {
    struct weir_store *memory;
    unsigned submitted, fails_from; /* this submission and those after it are not answered */
} thin;

static void submit(void *self, struct weir_check *check)
{
    (void)self;
    if (++thin.submitted < thin.fails_from) {
        thin.memory->type->submit(thin.memory->self, check);
        return;
    }
    check->result = WEIR_STORE_TIMEOUT;
    check->done(check);
}

static void free_nothing(void *self)
{
    (void)self;
}

static const struct weir_store_type thin_type = { .size = sizeof thin_type,
                                                  .name = "thin",
                                                  .answers_inline = true,
                                                  .submit = submit,
                                                  .free = free_nothing };

static void opens_for_nobody_when_the_store_goes_in_between(void **state)
{
    (void)state;
    struct weir_store *store = NULL;
    assert_int_equal(weir_store_open("memory:", NULL, &thin.memory, NULL), WEIR_OK);
    assert_int_equal(weir_store_new(&thin_type, NULL, &store, NULL), WEIR_OK);
    weir_chain_free(bench.chain);
    weir_limiter_free(bench.limiter);
    thin.fails_from = UINT32_MAX;
    make_limiter(store);
    const char *cookie = log_in(HOME);

    /* Known at the look; then the decision fails: his own count, in memory. */
    for (int i = 0; i < 5; i++) {
        thin.fails_from = thin.submitted + 2;
        assert_int_equal(ask(401, .ip = HOME), i < 3 ? 401 : 429);
    }
    /* The look fails as well: a stranger, unless there is a cookie. */
    thin.fails_from = 0;
    unsigned submitted = thin.submitted;
    assert_int_equal(ask(401, .ip = "198.51.100.2"), 401);
    assert_int_equal(thin.submitted - submitted, 1); /* a request waits for one timeout only */
    assert_int_equal(ask(401, .ip = HOME), 401);
    assert_int_equal(ask(200, .ip = HOME), 429);
    assert_int_equal(ask(200, .ip = HOME, .cookie = cookie), 200);
    weir_chain_free(bench.chain);
    weir_limiter_free(bench.limiter);
    weir_store_free(store);
    weir_store_free(thin.memory);
    make_limiter(NULL);
}

/* who refuses */

static void leaves_it_to_the_handler_to_refuse(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask(200, .path = "/handler", .ip = STRANGER), 200);
        assert_false(bench.was_limited);
    }
    assert_int_equal(ask(401, .path = "/handler", .ip = HOME), 401);
    assert_true(bench.was_limited);
    assert_string_equal(bench.retry_after, "");
    assert_int_equal(bench.lines, 2);
    assert_string_equal(bench.log, "");
    /* A limit that says nothing of the kind goes first. */
    for (int i = 0; i < 2; i++)
        assert_int_equal(ask(401, .path = "/handler", .ip = STRANGER, .body = "name=bob"), 401);
    assert_int_equal(ask(401, .path = "/handler", .ip = STRANGER), 429);
}

static void answers_for_a_handler_that_lets_in_all_the_same(void **state)
{
    (void)state;
    static const struct {
        unsigned status;
        enum weir_result says;
        bool lets_in;
    } rows[] = {
        { 200, 0, true },
        { 302, 0, true },
        { 401, 0, false },
        { 500, 0, false },
        { 401, WEIR_SUCCEEDED, true },
        { 200, WEIR_SUCCEEDED, true },
        { 302, WEIR_FAILED, false },
        { 200, WEIR_FAILED, false },
    };
    for (int i = 0; i < 2; i++)
        assert_int_equal(ask(401, .path = "/handler", .ip = STRANGER), 401);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %u, said %d\n", rows[i].status, (int)rows[i].says);
        bench.log[0] = '\0';
        bench.says = rows[i].says;
        assert_int_equal(ask(rows[i].status, .path = "/handler", .ip = HOME),
                         rows[i].lets_in ? 500 : rows[i].status);
        assert_int_equal(bench.lines == 0 && bench.body_length == 0, rows[i].lets_in);
        assert_int_equal(strstr(bench.log, "The handler of /handler was to refuse a request")
                             != NULL,
                         rows[i].lets_in);
    }
}

/* what is told of the wait */

static void tells_of_the_wait_what_the_policy_says(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        unsigned least, most, step; /* 0: nothing is told */
    } rows[] = {
        { "/exact", 43190, 43200, 1 },
        { "/none", 0, 0, 0 },
        { "/fixed", 2, 2, 1 },
        { "/round", 50400, 50400, 25200 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        while (ask(401, .path = rows[i].path, .ip = HOME) == 401)
            continue;
        unsigned told = (unsigned)strtoul(bench.retry_after, NULL, 10);
        if (told < rows[i].least || told > rows[i].most)
            fail_msg("%s tells %s", rows[i].path, bench.retry_after);
        assert_int_equal(bench.retry_after[0] == '\0', rows[i].step == 0);
    }
}

static int run_on(const char *url)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(lets_a_known_device_in_where_strangers_are_out),
        TEST(lets_a_known_address_in_where_strangers_are_out),
        TEST(knows_a_network_of_ipv6_as_one_address),
        TEST(knows_an_address_in_the_slot_of_its_account),
        TEST(renews_a_cookie_in_the_second_half_of_its_time),
        TEST(sends_no_cookie_but_with_a_success),
        TEST(knows_nobody_by_a_cookie_that_is_over),
        TEST(sends_cookies_in_a_policy_that_only_watches),
        TEST(resets_what_a_known_address_has_used_up),
        TEST(shows_no_device_to_who_reads_the_store),
        TEST(opens_for_nobody_when_the_store_goes_in_between),
        TEST(leaves_it_to_the_handler_to_refuse),
        TEST(answers_for_a_handler_that_lets_in_all_the_same),
        TEST(tells_of_the_wait_what_the_policy_says),
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
