/* Clients that lists let through or keep out, in a chain over the memory store. */
#include "test.h"

#include <unistd.h>

#include <weir/weir.h>

#include "by_hand.h"

static const char keys_json[] =
    "{\"keys\": [{\"id\": \"acme-free\", \"tenant\": \"acme\", \"sha256\":"
    " \"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}]}"; /* "foo" */

#define LIMITS "\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"1/hour\"}]"
#define FIELDS "\"limits\": [{\"name\": \"a\", \"by\": \"field:x\", \"rate\": \"1/hour\"}]"

static const char policy_json[] =
    "{ \"store\": {\"url\": \"memory:\"}, \"secret\": \"s\", \"api_keys\": {\"file\": \"%s\","
    "    \"guesses\": \"1/hour\"},"
    "  \"user\": {\"header\": \"X-User\"}, \"tenant\": {\"header\": \"X-Tenant\"},"
    "  \"client_ip\": {\"trust\": [\"192.0.2.0/24\"]},"
    "  \"deny\": {\"ip\": [\"203.0.113.0/28\", \"2001:db8:bad::/48\"], \"tenant\": [\"evil\"]},"
    "  \"allow\": {\"ip\": [\"198.51.100.7\", \"10.0.0.0/255.0.0.0\", \"203.0.113.0/24\","
    "    \"127.0.0.1\"], \"user\": [\"probe\"]},"
    "%s"
    "  \"policies\": {"
    "    \"plain\": {" LIMITS "},"
    "    \"own\": {" LIMITS ", \"deny\": {\"user\": [\"bob\"], \"ip\": [\"198.51.100.66\"]},"
    "      \"allow\": {\"api_key\": [\"acme-free\"], \"ip\": [\"2001:db8:600d::/48\"]}},"
    "    \"fields\": {" FIELDS
    ", \"deny\": {\"user\": [\"bob\"]}, \"allow\": {\"user\": [\"ann\"]}},"
    "    \"watched\": {" LIMITS ", \"deny\": {\"user\": [\"bob\"]}, \"mode\": \"shadow\"},"
    "    \"off\": {" LIMITS ", \"deny\": {\"user\": [\"bob\"]}, \"mode\": \"off\"}},"
    "  \"routes\": ["
    "    {\"match\": \"* /plain\", \"policy\": \"plain\", \"auth\": \"optional\"},"
    "    {\"match\": \"* /own\", \"policy\": \"own\", \"auth\": \"optional\"},"
    "    {\"match\": \"* /members\", \"policy\": \"own\", \"auth\": \"required\"},"
    "    {\"match\": \"* /silent\", \"policy\": \"own\"},"
    "    {\"match\": \"* /fields\", \"policy\": \"fields\", \"auth\": \"optional\"},"
    "    {\"match\": \"* /watched\", \"policy\": \"watched\", \"auth\": \"optional\"},"
    "    {\"match\": \"* /off\", \"policy\": \"off\", \"auth\": \"optional\"},"
    "    {\"match\": \"* /free\"}] }";

static char keys_file[64];
static struct weir_policy *policy;
static struct weir_limiter *limiter;
static struct weir_chain *chain;

static struct weir_decision last;
static unsigned decisions;

static void note_decision(void *self, const struct weir_decision *decision)
{
    (void)self;
    decisions++;
    last = *decision;
}

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    weir_reply_text(request, 200, "done");
    return WEIR_DONE;
}

static void start_with(const char *more)
{
    char text[4096];
    int length = snprintf(text, sizeof text, policy_json, keys_file, more);
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_parse(text, (size_t)length, NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .on_decision = note_decision),
                         &limiter, NULL),
        WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(chain, "*", handle, NULL), WEIR_OK);
    decisions = 0;
}

static void stop(void)
{
    weir_chain_free(chain);
    weir_limiter_free(limiter);
    weir_policy_free(policy);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(keys_file, "/tmp/weir-keys-XXXXXX");
    int file = mkstemp(keys_file);
    assert_true(file >= 0);
    FILE *stream = fdopen(file, "w");
    assert_non_null(stream);
    assert_true(fputs(keys_json, stream) >= 0);
    assert_int_equal(fclose(stream), 0);
    start_with("");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stop();
    return unlink(keys_file);
}

/* A request from `peer`, with up to two header lines; "" for none. */
struct asking {
    const char *path, *peer, *name, *value, *name2, *value2;
};

static char body[512], quota[128];

static unsigned ask(struct asking asking)
{
    struct weir_request *request = by_hand_request(chain, "GET", asking.path);
    by_hand_peer(request, asking.peer);
    if (asking.name != NULL)
        by_hand_header(request, asking.name, asking.value);
    if (asking.name2 != NULL)
        by_hand_header(request, asking.name2, asking.value2);
    unsigned status = by_hand_run(request);
    const char *field = weir_reply_header(&request->reply, "RateLimit");
    snprintf(quota, sizeof quota, "%s", field == NULL ? "" : field);
    snprintf(body, sizeof body, "%s", request->reply.body == NULL ? "" : request->reply.body);
    weir_request_end(request);
    return status;
}

#define PROXY  "192.0.2.1"
#define FROM   "X-Forwarded-For"
#define OUTER  "198.51.100.1"
#define BAD    "203.0.113.5"
#define LISTED "198.51.100.7"

static void keeps_out_who_is_denied(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct asking asking;
        unsigned status;
    } rows[] = {
        { "by its address", { "/plain", BAD, 0, 0, 0, 0 }, 403 },
        { "by its address, through a proxy", { "/plain", PROXY, FROM, BAD, 0, 0 }, 403 },
        { "by its address in IPv6", { "/plain", "2001:db8:bad:1::9", 0, 0, 0, 0 }, 403 },
        { "by its address, mapped", { "/plain", "::ffff:203.0.113.5", 0, 0, 0, 0 }, 403 },
        { "where nothing is limited", { "/free", BAD, 0, 0, 0, 0 }, 403 },
        { "where nothing is routed", { "/nowhere", BAD, 0, 0, 0, 0 }, 403 },
        { "with a path that has no meaning", { "/../..", BAD, 0, 0, 0, 0 }, 403 },
        { "by its tenant", { "/plain", PROXY, "X-Tenant", "evil", 0, 0 }, 403 },
        { "by its user", { "/own", PROXY, "X-User", "bob", 0, 0 }, 403 },
        { "by the policy of another route", { "/plain", PROXY, "X-User", "bob", 0, 0 }, 200 },
        { "by a user that nobody vouches for", { "/own", OUTER, "X-User", "bob", 0, 0 }, 200 },
        { "by the next address", { "/plain", "203.0.113.16", 0, 0, 0, 0 }, 200 },
        { "although its address is allowed", { "/plain", "203.0.113.14", 0, 0, 0, 0 }, 403 },
        { "although it knows a key", { "/own", "198.51.100.66", "X-API-Key", "foo", 0, 0 }, 403 },
        { "although it guesses keys", { "/members", BAD, "X-API-Key", "bar", 0, 0 }, 403 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        decisions = 0;
        assert_int_equal(ask(rows[i].asking), rows[i].status);
        assert_int_equal(decisions, rows[i].status == 403);
        if (rows[i].status == 403)
            assert_int_equal(last.outcome, WEIR_DENIED);
    }
}

static void spends_nothing_for_who_is_denied(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    for (int times = 0; times < 3; times++)
        assert_int_equal(ask((struct asking){ "/own", PROXY, FROM, OUTER, "X-User", "bob" }), 403);
    assert_string_equal(last.policy, "own");
    assert_null(last.limit);
    assert_int_equal(
        weir_limiter_peek(limiter, WEIR_SUBJECT(.policy = "own", .ip = OUTER), 1, &verdict, NULL),
        WEIR_OK);
    assert_int_equal(verdict.quotas[0].remaining, 1);
    assert_int_equal(ask((struct asking){ "/own", PROXY, FROM, BAD, 0, 0 }), 403);
    assert_null(last.policy);
}

static void reads_bodies_of_who_is_allowed_and_not_of_who_is_denied(void **state)
{
    (void)state;
    struct weir_request *request = by_hand_request(chain, "POST", "/fields");
    by_hand_peer(request, PROXY);
    by_hand_header(request, "X-User", "bob");
    request->facts.has_body = true;
    assert_int_equal(by_hand_run(request), 403);
    assert_int_equal(request->body_stage, WEIR_BODY_UNASKED);
    weir_request_end(request);

    request = by_hand_request(chain, "POST", "/fields");
    by_hand_peer(request, PROXY);
    by_hand_header(request, "X-User", "ann");
    request->facts.has_body = true;
    assert_int_equal(by_hand_run(request), 0); /* the handler may ask for fields of it */
    assert_int_equal(request->body_stage, WEIR_BODY_ASKED);
    assert_true(weir_request_take_body(request, "broken", 6));
    request->body_stage = WEIR_BODY_WHOLE;
    assert_int_equal(by_hand_run(request), 200);
    weir_request_end(request);

    request = by_hand_request(chain, "POST", "/fields");
    by_hand_peer(request, PROXY);
    by_hand_header(request, "X-User", "ann");
    by_hand_header(request, "Transfer-Encoding", "chunked");
    request->facts.has_body = true;
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(request->body_stage, WEIR_BODY_UNASKED);
    weir_request_end(request);
}

static void lets_through_who_is_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct asking asking;
    } rows[] = {
        { "by its address", { "/plain", LISTED, 0, 0, 0, 0 } },
        { "by its address, through a proxy", { "/plain", PROXY, FROM, LISTED, 0, 0 } },
        { "by its network", { "/plain", "10.1.2.3", 0, 0, 0, 0 } },
        { "by its user", { "/plain", PROXY, "X-User", "probe", 0, 0 } },
        { "by its key", { "/own", OUTER, "X-API-Key", "foo", 0, 0 } },
        { "by its network, for one policy", { "/own", "2001:db8:600d::1", 0, 0, 0, 0 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        for (int times = 0; times < 4; times++) {
            assert_int_equal(ask(rows[i].asking), 200);
            assert_string_equal(quota, "");
        }
    }
    assert_int_equal(decisions, 0);
    assert_int_equal(ask((struct asking){ "/plain", "2001:db8:600d::1", 0, 0, 0, 0 }), 200);
    assert_int_equal(ask((struct asking){ "/plain", "2001:db8:600d::1", 0, 0, 0, 0 }), 429);
}

/* Anybody can write an address into a header, and a proxy adds the true one behind it. */
static void believes_no_address_that_a_client_has_made_up(void **state)
{
    (void)state;
    static const struct asking rows[] = {
        { "/plain", "198.51.100.20", FROM, LISTED, 0, 0 },
        { "/plain", PROXY, FROM, "127.0.0.1, 198.51.100.21", 0, 0 },
        { "/plain", PROXY, FROM, "198.51.100.22", "Forwarded", "for=127.0.0.1" },
        { "/plain", PROXY, FROM, "198.51.100.23", "X-Real-IP", "127.0.0.1" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(ask(rows[i]), 200);
        assert_int_equal(ask(rows[i]), 429);
    }
}

static void still_asks_who_is_allowed_for_a_key(void **state)
{
    (void)state;
    for (int times = 0; times < 4; times++) {
        assert_int_equal(ask((struct asking){ "/members", LISTED, 0, 0, 0, 0 }), 401);
        assert_int_equal(ask((struct asking){ "/members", LISTED, "X-API-Key", "bar", 0, 0 }), 401);
    }
    /* A list of one policy says nothing about guesses. */
    assert_int_equal(
        ask((struct asking){ "/members", "2001:db8:600d::1", "X-API-Key", "bar", 0, 0 }), 401);
    assert_int_equal(
        ask((struct asking){ "/members", "2001:db8:600d::1", "X-API-Key", "bar", 0, 0 }), 429);
}

static void tells_only_who_is_known_why_he_is_kept_out(void **state)
{
    (void)state;
    assert_int_equal(ask((struct asking){ "/own", PROXY, "X-User", "bob", 0, 0 }), 403);
    assert_non_null(strstr(body, "This user is kept out."));
    assert_int_equal(ask((struct asking){ "/silent", PROXY, "X-User", "bob", 0, 0 }), 403);
    assert_non_null(strstr(body, "about:blank"));
    assert_null(strstr(body, "detail"));
    assert_int_equal(ask((struct asking){ "/own", BAD, 0, 0, 0, 0 }), 403);
    assert_null(strstr(body, "detail"));
}

static void keeps_nobody_out_where_it_only_watches(void **state)
{
    (void)state;
    assert_int_equal(ask((struct asking){ "/watched", PROXY, "X-User", "bob", 0, 0 }), 200);
    assert_int_equal(last.outcome, WEIR_SHADOW_LIMITED);
    assert_string_equal(last.policy, "watched");
    assert_int_equal(ask((struct asking){ "/off", PROXY, "X-User", "bob", 0, 0 }), 200);
    stop();
    start_with("\"mode\": \"shadow\",");
    assert_int_equal(ask((struct asking){ "/plain", BAD, 0, 0, 0, 0 }), 200);
    assert_int_equal(last.outcome, WEIR_SHADOW_LIMITED);
    assert_null(last.policy);
    stop();
    start_with("\"mode\": \"off\",");
    assert_int_equal(ask((struct asking){ "/plain", BAD, 0, 0, 0, 0 }), 200);
    assert_int_equal(decisions, 0);
}

static void holds_for_code_without_a_request(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    const struct weir_subject *bob = WEIR_SUBJECT(.policy = "own", .user = "bob", .ip = OUTER);
    const struct weir_subject *bad = WEIR_SUBJECT(.policy = "plain", .ip = BAD);
    const struct weir_subject *listed = WEIR_SUBJECT(.policy = "plain", .ip = LISTED);
    const struct weir_subject *watched = WEIR_SUBJECT(.policy = "watched", .user = "bob");
    const struct weir_subject *const kept_out[] = { bob, bad };
    for (size_t i = 0; i < COUNT_OF(kept_out); i++) {
        assert_int_equal(weir_limiter_check(limiter, kept_out[i], 1, &verdict, NULL), WEIR_OK);
        assert_false(verdict.allowed);
        assert_int_equal(verdict.outcome, WEIR_DENIED);
        assert_string_equal(verdict.policy, kept_out[i]->policy);
        assert_int_equal(weir_limiter_settle(limiter, kept_out[i], 1, &verdict, 0, NULL),
                         WEIR_E_STATE);
        assert_int_equal(weir_limiter_peek(limiter, kept_out[i], 1, &verdict, NULL), WEIR_OK);
        assert_int_equal(verdict.outcome, WEIR_DENIED);
    }
    for (int times = 0; times < 3; times++) {
        assert_int_equal(weir_limiter_check(limiter, listed, 1, &verdict, NULL), WEIR_OK);
        assert_true(verdict.allowed);
        assert_int_equal(verdict.quota_count, 0);
    }
    assert_int_equal(weir_limiter_check(limiter, watched, 1, &verdict, NULL), WEIR_OK);
    assert_true(verdict.allowed);
    assert_int_equal(weir_limiter_block(limiter, bad, 10, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_reset(limiter, bad, NULL), WEIR_OK);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(keeps_out_who_is_denied),
        TEST(spends_nothing_for_who_is_denied),
        TEST(reads_bodies_of_who_is_allowed_and_not_of_who_is_denied),
        TEST(lets_through_who_is_allowed),
        TEST(believes_no_address_that_a_client_has_made_up),
        TEST(still_asks_who_is_allowed_for_a_key),
        TEST(tells_only_who_is_known_why_he_is_kept_out),
        TEST(keeps_nobody_out_where_it_only_watches),
        TEST(holds_for_code_without_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
