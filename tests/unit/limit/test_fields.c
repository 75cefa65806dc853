/* Limits by fields of the body, in a chain over the memory store. */
#include "test.h"

#include <weir/weir.h>

#include "by_hand.h"
#include "limit/limiter_internal.h"

#define FORM  "application/x-www-form-urlencoded"
#define JSON  "application/json"
#define PARTS "multipart/form-data; boundary=b"

#define BY_NAME(rate) "{\"name\": \"account\", \"by\": \"field:username\", \"rate\": \"" rate "\"}"
#define BY_IP(rate)   "{\"name\": \"address\", \"by\": \"ip\", \"rate\": \"" rate "\"}"

static const char policy_json[] =
    "{ \"store\": {\"url\": \"memory:\"}, \"secret\": \"s\", \"body_max\": \"2KiB\","
    "  \"user\": {\"header\": \"X-User\"}, \"client_ip\": {\"trust\": [\"192.0.2.0/24\"]},"
    "  \"policies\": {"
    "    \"account\": {\"limits\": [" BY_NAME(
        "2/hour") "]},"
                  "    \"exact\": {\"limits\": [{\"name\": \"account\", \"by\": \"field:username\","
                  "      \"rate\": \"1/hour\", \"exact\": true}]},"
                  "    \"pair\": {\"limits\": [{\"name\": \"pair\", \"by\": [\"ip\", "
                  "\"field:username\"],"
                  "      \"rate\": \"1/hour\"}]},"
                  "    \"either\": {\"limits\": [{\"name\": \"either\", \"by\": "
                  "\"field:username|ip\","
                  "      \"rate\": \"1/hour\"}]},"
                  "    \"both\": {\"limits\": [" BY_IP("3/hour") "," BY_NAME(
                      "2/hour") "],"
                                "      \"body_max\": \"1KiB\"},"
                                "    \"failures\": {\"limits\": ["
                                "      {\"name\": \"bad\", \"by\": \"ip\", \"rate\": \"2/hour\", "
                                "\"count\": \"failures\"},"
                                "      {\"name\": \"good\", \"by\": \"ip\", \"rate\": \"2/hour\", "
                                "\"count\": \"successes\"},"
                                "      " BY_NAME(
                                    "9/hour") "]},"
                                              "    \"watched\": {\"limits\": [" BY_IP("1/hour") "," BY_NAME(
                                                  "1/hour") "],"
                                                            "      \"mode\": \"shadow\"},"
                                                            "    \"off\": {\"limits\": [" BY_NAME(
                                                                "1/hour") "], \"mode\": \"off\"},"
                                                                          "    \"seen\": "
                                                                          "{\"limits\": "
                                                                          "[{\"name\": \"all\", "
                                                                          "\"by\": \"user\", "
                                                                          "\"rate\": \"9/hour\"},"
                                                                          "      " BY_NAME(
                                                                              "9/hour") "]},"
                                                                                        "    "
                                                                                        "\"queue\":"
                                                                                        " {"
                                                                                        "\"limits\""
                                                                                        ": "
                                                                                        "[{"
                                                                                        "\"name\": "
                                                                                        "\"queue\","
                                                                                        " \"by\": "
                                                                                        "\"field:"
                                                                                        "username\""
                                                                                        ","
                                                                                        "      "
                                                                                        "\"rate\": "
                                                                                        "\"1/"
                                                                                        "minute\", "
                                                                                        "\"burst\":"
                                                                                        " 9, "
                                                                                        "\"algorith"
                                                                                        "m\": "
                                                                                        "\"leaky-"
                                                                                        "bucket\","
                                                                                        "      "
                                                                                        "\"max_"
                                                                                        "wait\": "
                                                                                        "\"60s\"}]}"
                                                                                        ","
                                                                                        "    "
                                                                                        "\"plain\":"
                                                                                        " {"
                                                                                        "\"limits\""
                                                                                        ": [" BY_IP(
                                                                                            "9/"
                                                                                            "hour") "]}},"
                                                                                                    "  \"routes\": ["
                                                                                                    "    {\"match\": \"* /account\", \"policy\": \"account\"},"
                                                                                                    "    {\"match\": \"* /exact\", \"policy\": \"exact\"},"
                                                                                                    "    {\"match\": \"* /pair\", \"policy\": \"pair\"},"
                                                                                                    "    {\"match\": \"* /either\", \"policy\": \"either\"},"
                                                                                                    "    {\"match\": \"* /both\", \"policy\": \"both\"},"
                                                                                                    "    {\"match\": \"* /failures\", \"policy\": \"failures\"},"
                                                                                                    "    {\"match\": \"* /watched\", \"policy\": \"watched\"},"
                                                                                                    "    {\"match\": \"* /off\", \"policy\": \"off\"},"
                                                                                                    "    {\"match\": \"* /members\", \"policy\": \"account\", \"auth\": \"required\"},"
                                                                                                    "    {\"match\": \"* /seen\", \"policy\": \"seen\", \"auth\": \"optional\"},"
                                                                                                    "    {\"match\": \"* /queue\", \"policy\": \"queue\"},"
                                                                                                    "    {\"match\": \"* /plain\", \"policy\": \"plain\"}] }";

static struct weir_policy *policy;
static struct weir_limiter *limiter;
static struct weir_chain *chain;

/* What the handler saw and does. */
static struct {
    unsigned handled;
    unsigned status;
    size_t body_max; /* asks for the body; 0: does not */
    char body[4096];
    unsigned cost_calls;
    size_t cost_saw; /* bytes of the body */
} script;

static struct weir_decision last;
static char last_limit[32], last_policy[32];
static unsigned decisions;

static void note_decision(void *self, const struct weir_decision *decision)
{
    (void)self;
    decisions++;
    last = *decision;
    snprintf(last_limit, sizeof last_limit, "%s", decision->limit == NULL ? "" : decision->limit);
    snprintf(last_policy, sizeof last_policy, "%s",
             decision->policy == NULL ? "" : decision->policy);
}

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    const char *bytes = "";
    size_t length = 0;
    if (script.body_max > 0 && !weir_request_body(request, script.body_max, &bytes, &length))
        return WEIR_WAIT;
    script.handled++;
    memcpy(script.body, bytes, length);
    script.body[length] = '\0';
    weir_reply_text(request, script.status, "done");
    return WEIR_DONE;
}

static uint64_t cost_of(void *self, struct weir_request *request, uint64_t route_cost)
{
    (void)self;
    const char *bytes;
    script.cost_calls++;
    if (!weir_request_body(request, 10000, &bytes, &script.cost_saw))
        script.cost_saw = SIZE_MAX;
    return route_cost;
}

static void make_limiter(bool asks_cost)
{
    weir_chain_free(chain);
    weir_limiter_free(limiter);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .on_decision = note_decision,
                                              .cost = asks_cost ? cost_of : NULL),
                         &limiter, NULL),
        WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(chain, "*", handle, NULL), WEIR_OK);
}

static int set_up(void **state)
{
    (void)state;
    memset(&script, 0, sizeof script);
    script.status = 200;
    decisions = 0;
    chain = NULL;
    limiter = NULL;
    by_hand_reset();
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_parse(policy_json, strlen(policy_json), NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    make_limiter(false);
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

/* A request whose head has been read. */
static struct weir_request *start(const char *path, const char *type, const char *peer)
{
    struct weir_request *request = by_hand_request(chain, "POST", path);
    by_hand_peer(request, peer);
    if (type != NULL)
        by_hand_header(request, "Content-Type", type);
    request->facts.has_body = true;
    return request;
}

/* Its body comes in two pieces. */
static void send_body(struct weir_request *request, const char *body, size_t length)
{
    size_t half = length / 2;
    if (half > 0)
        assert_true(weir_request_take_body(request, body, half));
    if (length > half)
        assert_true(weir_request_take_body(request, body + half, length - half));
    request->body_stage = WEIR_BODY_WHOLE;
}

/* One request to its end, from `peer`; returns the status. */
static unsigned post_from(const char *peer, const char *path, const char *type, const char *body)
{
    struct weir_request *request = start(path, type, peer);
    unsigned status = by_hand_run(request);
    if (status == 0 && request->body_stage == WEIR_BODY_ASKED) {
        send_body(request, body, strlen(body));
        status = by_hand_run(request);
    }
    weir_request_end(request);
    return status;
}

static unsigned post(const char *path, const char *type, const char *body)
{
    return post_from("198.51.100.1", path, type, body);
}

/* whose count it is */

static void counts_a_name_once_however_it_is_sent(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *type;
        const char *body;
    } rows[] = {
        { "as it is", FORM, "username=bob%40x.org" },
        { "in capitals", FORM, "username=BOB%40X.ORG" },
        { "with blanks around it", FORM, "username=+%09bob%40x.org%0D%0A+" },
        { "with spaces that are no blanks", FORM,
          "username=%C2%A0%E3%80%80bob%40x.org%E2%80%83%EF%BB%BF" },
        { "as JSON", JSON, "{\"username\": \"Bob@x.org\"}" },
        { "as JSON with escapes", JSON, "{\"\\u0075sername\": \"\\u0042ob@x.org \"}" },
        { "as a part of a form", PARTS,
          "--b\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nbob@X.org\r\n--b--" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        make_limiter(false);
        assert_int_equal(post("/account", FORM, "username=bob%40x.org"), 200);
        assert_int_equal(post("/account", FORM, "username=other"), 200);
        assert_int_equal(post("/account", rows[i].type, rows[i].body), 200);
        assert_int_equal(post("/account", rows[i].type, rows[i].body), 429);
        assert_string_equal(last_limit, "account");
        assert_int_equal(post("/account", FORM, "username=other"), 200);
    }
}

static void counts_letter_by_letter_where_asked_to(void **state)
{
    (void)state;
    assert_int_equal(post("/exact", FORM, "username=bob"), 200);
    assert_int_equal(post("/exact", FORM, "username=bob"), 429);
    assert_int_equal(post("/exact", FORM, "username=Bob"), 200);
    assert_int_equal(post("/exact", FORM, "username=bob+"), 200);
}

/* Letters beyond ASCII are not folded, and no byte of theirs is taken for a letter. */
static void folds_letters_of_ascii_alone(void **state)
{
    (void)state;
    assert_int_equal(post("/pair", FORM, "username=%C3%89TIENNE"), 200);
    assert_int_equal(post("/pair", FORM, "username=%C3%89tienne"), 429);
    assert_int_equal(post("/pair", FORM, "username=%C3%A9tienne"), 200);
    assert_int_equal(post("/pair", FORM, "username=E%CC%81tienne"), 200);
}

/* Nobody can lock everybody out by sending no name. */
static void makes_no_count_of_all_who_send_no_name(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        const char *body;
    } rows[] = {
        { FORM, "username=" },
        { FORM, "username=+%C2%A0" },
        { FORM, "password=x" },
        { JSON, "{\"username\": \"\"}" },
        { JSON, "{\"username\": null}" },
        { JSON, "{}" },
        { NULL, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int times = 0; times < 4; times++)
            assert_int_equal(post("/account", rows[i].type, rows[i].body), 200);
    struct weir_request *get = by_hand_request(chain, "GET", "/account");
    assert_int_equal(by_hand_run(get), 200);
    weir_request_end(get);
}

static void counts_pairs_and_alternatives(void **state)
{
    (void)state;
    assert_int_equal(post_from("198.51.100.1", "/pair", FORM, "username=bob"), 200);
    assert_int_equal(post_from("198.51.100.1", "/pair", FORM, "username=bob"), 429);
    assert_int_equal(post_from("198.51.100.2", "/pair", FORM, "username=bob"), 200);
    assert_int_equal(post_from("198.51.100.1", "/pair", FORM, "username=ann"), 200);

    assert_int_equal(post_from("198.51.100.1", "/either", FORM, "username=bob"), 200);
    assert_int_equal(post_from("198.51.100.2", "/either", FORM, "username=bob"), 429);
    assert_int_equal(post_from("198.51.100.2", "/either", FORM, ""), 200);
    assert_int_equal(post_from("198.51.100.2", "/either", FORM, ""), 429);
}

static void shares_a_count_with_code_without_a_request(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    const struct weir_value name = { "field:username", " Bob" };
    const struct weir_subject *bob =
        WEIR_SUBJECT(.policy = "account", .values = &name, .value_count = 1);
    assert_int_equal(post("/account", FORM, "username=bob"), 200);
    assert_int_equal(weir_limiter_check(limiter, bob, 1, &verdict, NULL), WEIR_OK);
    assert_true(verdict.allowed);
    assert_int_equal(post("/account", FORM, "username=bob"), 429);
    assert_int_equal(weir_limiter_reset(limiter, bob, NULL), WEIR_OK);
    assert_int_equal(post("/account", FORM, "username=bob"), 200);
}

/* bodies that cannot be read */

static void spends_the_other_limits_on_what_cannot_be_read(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *type;
        const char *body;
        unsigned status;
    } rows[] = {
        { "a NUL byte", FORM, "username=a%00b", 400 },
        { "a name twice", FORM, "username=a&username=b", 400 },
        { "no JSON", JSON, "{", 400 },
        { "a list for a name", JSON, "{\"username\": [\"a\"]}", 400 },
        { "another kind", "text/plain", "username=a", 415 },
        { "no kind", NULL, "username=a", 415 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        make_limiter(false);
        for (int times = 0; times < 3; times++)
            assert_int_equal(post("/both", rows[i].type, rows[i].body), rows[i].status);
        assert_int_equal(last.outcome, WEIR_UNREADABLE);
        assert_string_equal(last_policy, "both");
        assert_string_equal(last_limit, "");
        assert_int_equal(post("/both", rows[i].type, rows[i].body), 429);
        assert_string_equal(last_limit, "address");
        assert_int_equal(post("/both", FORM, "username=a"), 429);
        assert_int_equal(post_from("198.51.100.2", "/both", FORM, "username=a"), 200);
        assert_int_equal(script.handled, i + 1);
    }
}

static void counts_as_a_failure_what_cannot_be_read(void **state)
{
    (void)state;
    assert_int_equal(post("/failures", JSON, "{"), 400);
    assert_int_equal(post("/failures", "text/plain", "{"), 415);
    assert_int_equal(post("/failures", JSON, "{\"username\": \"a\"}"), 429);
    assert_string_equal(last_limit, "bad");
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_peek(limiter,
                                       WEIR_SUBJECT(.policy = "failures", .ip = "198.51.100.1"), 1,
                                       &verdict, NULL),
                     WEIR_OK);
    assert_int_equal(verdict.quotas[0].remaining, 0);
    assert_int_equal(verdict.quotas[1].remaining, 2);
}

static void says_which_kinds_it_reads(void **state)
{
    (void)state;
    struct weir_request *request = start("/both", "text/plain", "198.51.100.1");
    assert_int_equal(by_hand_run(request), 0);
    send_body(request, "a", 1);
    assert_int_equal(by_hand_run(request), 415);
    assert_non_null(strstr(weir_reply_header(&request->reply, "Accept"), "application/json"));
    assert_string_equal(weir_reply_header(&request->reply, "Cache-Control"), "no-store");
    assert_non_null(strstr(request->reply.body, "about:blank"));
    weir_request_end(request);
}

/* The body is not even asked for. */
static void refuses_at_once_what_announces_to_be_too_long(void **state)
{
    (void)state;
    for (int times = 0; times < 4; times++) {
        struct weir_request *request = start("/both", FORM, "198.51.100.1");
        by_hand_header(request, "Content-Length", "1025");
        assert_int_equal(by_hand_run(request), times < 3 ? 413 : 429);
        assert_non_null(strstr(request->reply.body, times < 3 ? "1024 bytes" : "quota"));
        weir_request_end(request);
    }
    struct weir_request *request = start("/both", FORM, "198.51.100.2");
    by_hand_header(request, "Content-Length", "1024");
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(request->body_stage, WEIR_BODY_ASKED);
    weir_request_end(request);
}

static void refuses_what_turns_out_too_long(void **state)
{
    (void)state;
    char bytes[1025] = "username=";
    for (int times = 0; times < 4; times++) {
        struct weir_request *request = start("/both", FORM, "198.51.100.1");
        by_hand_header(request, "Transfer-Encoding", "chunked");
        assert_int_equal(by_hand_run(request), 0);
        assert_true(weir_request_take_body(request, bytes, 1024));
        assert_false(weir_request_take_body(request, bytes, 1));
        assert_null(request->error);
        assert_null(request->body->bytes);
        assert_int_equal(by_hand_run(request), times < 3 ? 413 : 429);
        weir_request_end(request);
    }
}

static void takes_the_size_of_a_file_that_says_one_or_of_its_policy(void **state)
{
    (void)state;
    struct weir_request *request = start("/account", FORM, "198.51.100.1");
    by_hand_header(request, "Content-Length", "2049");
    assert_int_equal(by_hand_run(request), 413);
    weir_request_end(request);
    request = start("/account", FORM, "198.51.100.1");
    by_hand_header(request, "Content-Length", "2048");
    assert_int_equal(by_hand_run(request), 0);
    weir_request_end(request);
}

/* when bodies are read */

static void leaves_bodies_alone_where_no_limit_counts_by_them(void **state)
{
    (void)state;
    static const char *const paths[] = { "/plain", "/nowhere" };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct weir_request *request = start(paths[i], "text/plain", "198.51.100.1");
        assert_int_equal(by_hand_run(request), 200);
        assert_int_equal(request->body_stage, WEIR_BODY_UNASKED);
        weir_request_end(request);
    }
    struct weir_request *request = start("/members", "text/plain", "198.51.100.1");
    assert_int_equal(by_hand_run(request), 401);
    assert_int_equal(request->body_stage, WEIR_BODY_UNASKED);
    weir_request_end(request);
}

/* The handler may ask for fields all the same. */
static void reads_bodies_where_limits_are_off_and_refuses_none(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
    } unread[] = { { "Transfer-Encoding", "chunked" }, { "Content-Length", "16385" } };
    script.body_max = 100;
    for (int times = 0; times < 3; times++) {
        assert_int_equal(post("/off", FORM, "username=bob"), 200);
        assert_string_equal(script.body, "username=bob");
        assert_int_equal(post("/off", JSON, "{"), 200);
        assert_int_equal(post("/off", "text/plain", "x"), 200);
    }
    script.body_max = 0;
    for (size_t i = 0; i < COUNT_OF(unread); i++) {
        struct weir_request *request = start("/off", FORM, "198.51.100.1");
        by_hand_header(request, unread[i].name, unread[i].value);
        assert_int_equal(by_hand_run(request), 200);
        assert_int_equal(request->body_stage, WEIR_BODY_UNASKED);
        weir_request_end(request);
    }
    struct weir_request *request = start("/off", FORM, "198.51.100.1");
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(request->body_stage, WEIR_BODY_ASKED);
    weir_request_end(request);
    assert_int_equal(decisions, 0);
}

static void keeps_nobody_out_where_it_only_watches(void **state)
{
    (void)state;
    for (int times = 0; times < 3; times++) {
        assert_int_equal(post("/watched", JSON, "{"), 200);
        assert_int_equal(post("/watched", "text/plain", "x"), 200);
        struct weir_request *chunked = start("/watched", FORM, "198.51.100.1");
        by_hand_header(chunked, "Transfer-Encoding", "chunked");
        assert_int_equal(by_hand_run(chunked), 200);
        weir_request_end(chunked);
        struct weir_request *large = start("/watched", FORM, "198.51.100.1");
        by_hand_header(large, "Content-Length", "100000");
        assert_int_equal(by_hand_run(large), 200);
        weir_request_end(large);
    }
    assert_int_equal(post_from("198.51.100.2", "/watched", FORM, "username=bob"), 200);
    decisions = 0;
    assert_int_equal(post_from("198.51.100.3", "/watched", FORM, "username=bob"), 200);
    assert_int_equal(decisions, 1);
    assert_int_equal(last.outcome, WEIR_SHADOW_LIMITED);
    assert_string_equal(last_limit, "account");
}

static void counts_nothing_for_a_client_that_vanishes_before_its_body_is_whole(void **state)
{
    (void)state;
    for (int times = 0; times < 5; times++) {
        struct weir_request *request = start("/both", FORM, "198.51.100.1");
        assert_int_equal(by_hand_run(request), 0);
        assert_true(weir_request_take_body(request, "username=bob", 12));
        weir_request_end(request);
    }
    assert_int_equal(post("/both", FORM, "username=bob"), 200);
    assert_int_equal(script.handled, 1);
}

static void shows_what_is_left_beside_a_refusal_of_a_body(void **state)
{
    (void)state;
    struct weir_request *request = start("/seen", JSON, "192.0.2.1");
    by_hand_header(request, "X-User", "ann");
    assert_int_equal(by_hand_run(request), 0);
    send_body(request, "[]", 2);
    assert_int_equal(by_hand_run(request), 400);
    const char *quota = weir_reply_header(&request->reply, "RateLimit");
    assert_non_null(quota);
    assert_string_equal(quota, "\"all\";r=8;t=400");
    weir_request_end(request);
}

static void waits_for_its_turn_with_its_body_in_hand(void **state)
{
    (void)state;
    script.body_max = 100;
    assert_int_equal(post("/queue", FORM, "username=bob"), 200);
    struct weir_request *request = start("/queue", FORM, "198.51.100.1");
    assert_int_equal(by_hand_run(request), 0);
    send_body(request, "username=bob&a=1", 16);
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(by_hand_suspended, 1);
    assert_true(weir_chain_parked(chain) == 1);
    assert_false(weir_chain_drain(chain, 0));
    assert_false(weir_chain_drain(chain, 400));
    assert_ptr_equal(by_hand_await_resume(0), request);
    assert_int_equal(by_hand_run(request), 503);
    weir_request_end(request);
    assert_int_equal(script.handled, 1);
}

/* who else reads it */

static void gives_handlers_the_same_body(void **state)
{
    (void)state;
    script.body_max = 100;
    assert_int_equal(post("/account", FORM, "username=ann&password=secret"), 200);
    assert_string_equal(script.body, "username=ann&password=secret");
    script.body_max = 10;
    assert_int_equal(post("/account", FORM, "username=ann&password=secret"), 413);
    assert_int_equal(script.handled, 1);
}

static void asks_for_the_cost_once_when_the_body_is_there(void **state)
{
    (void)state;
    make_limiter(true);
    assert_int_equal(post("/account", FORM, "username=ann"), 200);
    assert_int_equal(script.cost_calls, 1);
    assert_int_equal(script.cost_saw, 12);
}

static void lets_two_limiters_read_one_body(void **state)
{
    (void)state;
    struct weir_limiter *second = NULL;
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &second, NULL),
                     WEIR_OK);
    struct weir_chain *both = NULL, *one = chain;
    assert_int_equal(weir_chain_new(NULL, &both, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(both, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_use(both, weir_limit(second)), WEIR_OK);
    assert_int_equal(weir_chain_any(both, "*", handle, NULL), WEIR_OK);
    chain = both;
    assert_int_equal(post("/account", FORM, "username=ann"), 200);
    assert_int_equal(post("/account", FORM, "username=ann"), 200);
    assert_int_equal(post("/account", FORM, "username=ann"), 429);
    assert_int_equal(script.handled, 2);
    chain = one;
    weir_chain_free(both);
    weir_limiter_free(second);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(counts_a_name_once_however_it_is_sent),
        TEST(counts_letter_by_letter_where_asked_to),
        TEST(folds_letters_of_ascii_alone),
        TEST(makes_no_count_of_all_who_send_no_name),
        TEST(counts_pairs_and_alternatives),
        TEST(shares_a_count_with_code_without_a_request),
        TEST(spends_the_other_limits_on_what_cannot_be_read),
        TEST(counts_as_a_failure_what_cannot_be_read),
        TEST(says_which_kinds_it_reads),
        TEST(refuses_at_once_what_announces_to_be_too_long),
        TEST(refuses_what_turns_out_too_long),
        TEST(takes_the_size_of_a_file_that_says_one_or_of_its_policy),
        TEST(leaves_bodies_alone_where_no_limit_counts_by_them),
        TEST(reads_bodies_where_limits_are_off_and_refuses_none),
        TEST(keeps_nobody_out_where_it_only_watches),
        TEST(counts_nothing_for_a_client_that_vanishes_before_its_body_is_whole),
        TEST(shows_what_is_left_beside_a_refusal_of_a_body),
        TEST(waits_for_its_turn_with_its_body_in_hand),
        TEST(gives_handlers_the_same_body),
        TEST(asks_for_the_cost_once_when_the_body_is_there),
        TEST(lets_two_limiters_read_one_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
