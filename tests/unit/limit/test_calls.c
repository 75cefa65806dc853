/* The limiter without HTTP, on the memory store and on a real Redis. */
#include "test.h"

#include <weir/weir.h>

#include "by_hand.h"
#include "redis_server.h"

static const char keys_json[] =
    "{\"keys\": [{\"id\": \"acme-free\", \"tenant\": \"acme\", \"user\": \"ann\", \"plan\": "
    "\"free\","
    " \"sha256\": \"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}]}";

static const char policy_json[] =
    "{ \"store\": {\"url\": \"%s\", \"timeout\": \"5s\"}, \"secret\": \"s\", \"instances\": 2,"
    "  \"api_keys\": {\"file\": \"%s\"},"
    "  \"plans\": {\"free\": {\"sent\": \"5/hour\", \"quota\": \"10/day\"},"
    "    \"pro\": {\"sent\": \"50/hour\", \"quota\": \"20/week\"}},"
    "  \"policies\": {"
    "    \"sms\": {\"limits\": [{\"name\": \"sent\", \"by\": \"client\", \"rate\": \"plan\"}],"
    "      \"on_store_failure\": \"memory\"},"
    "    \"both\": {\"limits\": ["
    "      {\"name\": \"day\", \"by\": \"user\", \"rate\": \"10/day\", \"algorithm\": "
    "\"fixed-window\"},"
    "      {\"name\": \"hour\", \"by\": \"user\", \"rate\": \"6/hour\", \"algorithm\": "
    "\"sliding-log\"}]},"
    "    \"line\": {\"limits\": [{\"name\": \"a\", \"by\": [\"header:X-Line\", \"query:n\","
    "      \"param:id\", \"route\"], \"rate\": \"3/hour\"}]},"
    "    \"net\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"3/hour\"}]},"
    "    \"queue\": {\"limits\": [{\"name\": \"a\", \"by\": \"global\", \"rate\": \"10/minute\","
    "      \"algorithm\": \"leaky-bucket\", \"max_wait\": \"60s\"}]},"
    "    \"watched\": {\"limits\": [{\"name\": \"a\", \"by\": \"global\", \"rate\": \"1/hour\"}],"
    "      \"mode\": \"shadow\"},"
    "    \"shared\": {\"limits\": ["
    "      {\"name\": \"own\", \"by\": \"user\", \"rate\": \"3/hour\"},"
    "      {\"name\": \"all\", \"by\": \"global\", \"rate\": \"100/hour\"},"
    "      {\"name\": \"firm\", \"by\": \"tenant\", \"rate\": \"50/hour\"}],"
    "      \"on_store_failure\": \"closed\"},"
    "    \"road\": {\"limits\": [{\"name\": \"a\", \"by\": [\"route\", \"ip\"],"
    "      \"rate\": \"1/hour\"}]},"
    "    \"mixed\": {\"limits\": [{\"name\": \"sent\", \"by\": \"tenant\", \"rate\": \"plan\"}]},"
    "    \"counted\": {\"limits\": [{\"name\": \"quota\", \"by\": \"tenant\", \"rate\": \"plan\","
    "      \"algorithm\": \"fixed-window\"}]},"
    "    \"off\": {\"limits\": [{\"name\": \"a\", \"by\": \"global\", \"rate\": \"0/hour\"}],"
    "      \"mode\": \"off\"}},"
    "  \"routes\": [{\"match\": \"POST /lines/:id\", \"policy\": \"line\"},"
    "    {\"match\": \"GET /sms\", \"auth\": \"required\", \"policy\": \"sms\", \"cost\": 2}] }";

static struct redis_server server;
static const char *store_url;
static char keys_file[64];
static struct weir_policy *policy;
static struct weir_limiter *limiter;

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

    char text[8192];
    int length = snprintf(text, sizeof text, policy_json, store_url, keys_file);
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_parse(text, (size_t)length, NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    if (server.pid != 0)
        redis_server_do(&server, "FLUSHALL");
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, &error),
                     WEIR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_limiter_free(limiter);
    weir_policy_free(policy);
    remove(keys_file);
    return 0;
}

static struct weir_verdict check(const struct weir_subject *subjects, size_t count)
{
    struct weir_verdict verdict;
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_limiter_check(limiter, subjects, count, &verdict, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(code, WEIR_OK);
    return verdict;
}

static struct weir_verdict peek(const struct weir_subject *subject)
{
    struct weir_verdict verdict;
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_limiter_peek(limiter, subject, 1, &verdict, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(code, WEIR_OK);
    return verdict;
}

#define ANN WEIR_SUBJECT(.policy = "both", .user = "ann")

/* checking */

static void decides_by_the_same_limits_as_requests(void **state)
{
    (void)state;
    const struct weir_subject *free = WEIR_SUBJECT(.policy = "sms", .api_key = "acme-free");
    for (uint64_t n = 1; n <= 5; n++) {
        struct weir_verdict verdict = check(free, 1);
        assert_true(verdict.allowed);
        assert_int_equal(verdict.outcome, WEIR_ALLOWED);
        assert_int_equal(verdict.quota_count, 1);
        assert_string_equal(verdict.quotas[0].limit, "sent");
        assert_int_equal(verdict.quotas[0].quota, 5);
        assert_int_equal(verdict.quotas[0].remaining, 5 - n);
    }
    struct weir_verdict verdict = check(free, 1);
    assert_false(verdict.allowed);
    assert_int_equal(verdict.outcome, WEIR_LIMITED);
    assert_string_equal(verdict.policy, "sms");
    assert_string_equal(verdict.limit, "sent");
    assert_in_range(verdict.retry_us, UINT64_C(600000000), UINT64_C(720000000));

    /* A plan of one's own goes before the key's; a cost above it never passes. */
    assert_true(
        check(WEIR_SUBJECT(.policy = "sms", .user = "bob", .plan = "pro", .cost = 50), 1).allowed);
    verdict = check(WEIR_SUBJECT(.policy = "sms", .user = "cat", .plan = "pro", .cost = 51), 1);
    assert_int_equal(verdict.outcome, WEIR_IMPOSSIBLE);
    assert_int_equal(verdict.retry_us, 0);
}

static enum weir_step answer(void *self, struct weir_request *request)
{
    (void)self;
    weir_reply_text(request, 200, "fine");
    return WEIR_DONE;
}

static unsigned run_to_end(struct weir_request *request, unsigned resumed)
{
    unsigned status = by_hand_run(request);
    if (status == 0) {
        by_hand_await_resume(resumed);
        status = by_hand_run(request);
    }
    weir_request_end(request);
    return status;
}

/* What HTTP has spent, a call finds spent, and the other way round. */
static void shares_sums_with_requests(void **state)
{
    (void)state;
    struct weir_chain *chain = NULL;
    by_hand_reset();
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(chain, "*", answer, NULL), WEIR_OK);

    struct weir_request *request = by_hand_request(chain, "POST", "/lines/42");
    request->facts.queries = &(const struct weir_line){ WEIR_TEXT("n"), WEIR_TEXT("7") };
    request->facts.query_count = 1;
    by_hand_header(request, "x-line", " Red ");
    assert_int_equal(run_to_end(request, 0), 200);
    static const struct weir_value values[] = { { "header:x-LINE", "rEd" },
                                                { "query:n", "7" },
                                                { "param:id", "42" } };
    const struct weir_subject *line = WEIR_SUBJECT(.policy = "line", .route = "POST /lines/:id",
                                                   .values = values, .value_count = 3);
    assert_int_equal(peek(line).quotas[0].remaining, 2);

    request = by_hand_request(chain, "GET", "/sms");
    by_hand_header(request, "X-API-Key", "foo");
    assert_int_equal(run_to_end(request, 1), 200);
    assert_int_equal(
        check(WEIR_SUBJECT(.policy = "sms", .api_key = "acme-free"), 1).quotas[0].remaining, 2);
    weir_chain_free(chain);
}

static void decides_several_subjects_as_one(void **state)
{
    (void)state;
    struct weir_subject pair[] = { *ANN, *WEIR_SUBJECT(.policy = "net", .ip = "192.0.2.7") };
    for (int n = 0; n < 3; n++)
        assert_true(check(pair, 2).allowed);
    struct weir_verdict verdict = check(pair, 2);
    assert_false(verdict.allowed);
    assert_string_equal(verdict.policy, "net");
    assert_int_equal(verdict.quota_count, 3);
    assert_int_equal(peek(ANN).quotas[0].remaining, 7);
    assert_int_equal(peek(ANN).quotas[1].remaining, 3);
}

static void skips_limits_whose_dimension_is_absent(void **state)
{
    (void)state;
    for (int n = 0; n < 20; n++)
        assert_true(check(WEIR_SUBJECT(.policy = "both", .ip = "192.0.2.7"), 1).allowed);
    assert_int_equal(check(WEIR_SUBJECT(.policy = "both"), 1).quota_count, 0);
    assert_true(check(WEIR_SUBJECT(.policy = "off"), 1).allowed);
}

static void only_watches_where_the_policy_does(void **state)
{
    (void)state;
    assert_int_equal(check(WEIR_SUBJECT(.policy = "watched"), 1).outcome, WEIR_ALLOWED);
    struct weir_verdict verdict = check(WEIR_SUBJECT(.policy = "watched"), 1);
    assert_true(verdict.allowed);
    assert_int_equal(verdict.outcome, WEIR_SHADOW_LIMITED);
}

static void tells_how_long_to_wait_in_a_queue(void **state)
{
    (void)state;
    assert_int_equal(check(WEIR_SUBJECT(.policy = "queue"), 1).wait_us, 0);
    assert_in_range(check(WEIR_SUBJECT(.policy = "queue"), 1).wait_us, 1, 6000000);
}

/* F22 */
static void looks_without_spending(void **state)
{
    (void)state;
    check(ANN, 1);
    for (int n = 0; n < 5; n++) {
        struct weir_verdict verdict = peek(ANN);
        assert_true(verdict.allowed);
        assert_int_equal(verdict.quota_count, 2);
        assert_int_equal(verdict.quotas[0].remaining, 9);
        assert_int_equal(verdict.quotas[1].remaining, 5);
    }
    struct weir_verdict verdict = peek(WEIR_SUBJECT(.policy = "both", .user = "ann", .cost = 6));
    assert_false(verdict.allowed);
    assert_string_equal(verdict.limit, "hour");
    assert_int_equal(verdict.outcome, WEIR_LIMITED);
    assert_true(check(WEIR_SUBJECT(.policy = "both", .user = "ann", .cost = 5), 1).allowed);
}

/* settling */

static void settles_what_it_spent(void **state)
{
    (void)state;
    const struct weir_subject *subject = WEIR_SUBJECT(.policy = "both", .user = "ann", .cost = 4);
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_verdict verdict = check(subject, 1);
    assert_int_equal(weir_limiter_settle(limiter, subject, 1, &verdict, 1, &error), WEIR_OK);
    assert_int_equal(peek(ANN).quotas[0].remaining, 9);
    assert_int_equal(peek(ANN).quotas[1].remaining, 5);

    verdict = check(subject, 1);
    assert_int_equal(weir_limiter_settle(limiter, subject, 1, &verdict, 100, &error), WEIR_OK);
    assert_int_equal(peek(ANN).quotas[0].remaining, 0);
    assert_int_equal(peek(ANN).quotas[1].remaining, 0);

    verdict = check(subject, 1);
    assert_int_equal(weir_limiter_settle(limiter, subject, 1, &verdict, 0, &error), WEIR_E_STATE);
    verdict.quota_count = 1;
    error = (struct weir_error)WEIR_NO_ERROR;
    assert_int_equal(weir_limiter_settle(limiter, subject, 1, &verdict, 0, &error),
                     WEIR_E_ARGUMENT);
}

/* resetting and blocking */

/* F18 */
static void resets_all_limits_or_one(void **state)
{
    (void)state;
    check(WEIR_SUBJECT(.policy = "both", .user = "ann", .cost = 6), 1);
    assert_int_equal(
        weir_limiter_reset(limiter, WEIR_SUBJECT(.policy = "both", .limit = "hour", .user = "ann"),
                           NULL),
        WEIR_OK);
    assert_int_equal(peek(ANN).quotas[0].remaining, 4);
    assert_int_equal(peek(ANN).quotas[1].remaining, 6);
    assert_int_equal(weir_limiter_reset(limiter, ANN, NULL), WEIR_OK);
    assert_int_equal(peek(ANN).quotas[0].remaining, 10);
    assert_int_equal(weir_limiter_reset(limiter, ANN, NULL), WEIR_OK);
}

/* F19: spending does not end a block, and neither does the window. */
static void blocks_for_as_long_as_it_is_told(void **state)
{
    (void)state;
    check(ANN, 1);
    assert_int_equal(weir_limiter_block(limiter, ANN, 1000, NULL), WEIR_OK);
    for (int n = 0; n < 3; n++) {
        struct weir_verdict verdict = check(ANN, 1);
        assert_int_equal(verdict.outcome, WEIR_LIMITED);
        assert_in_range(verdict.retry_us, UINT64_C(990000000), UINT64_C(1000000000));
        assert_false(peek(ANN).allowed);
        assert_int_equal(peek(ANN).quotas[0].remaining, 0);
    }
    assert_true(check(WEIR_SUBJECT(.policy = "both", .user = "bob"), 1).allowed);
    assert_int_equal(weir_limiter_reset(limiter, ANN, NULL), WEIR_OK);
    assert_int_equal(check(ANN, 1).quotas[0].remaining, 9);

    /* A single limit, which for a lone gcra is kept in another way; and for good. */
    const struct weir_subject *net = WEIR_SUBJECT(.policy = "net", .ip = "192.0.2.7");
    const uint64_t for_good_s = WEIR_BURST_MAX_US / 1000000;
    check(net, 1);
    assert_int_equal(weir_limiter_block(limiter, net, for_good_s, NULL), WEIR_OK);
    assert_int_equal(check(net, 1).outcome, WEIR_LIMITED);
    assert_true(check(net, 1).retry_us > (for_good_s - 100) * 1000000);
    assert_int_equal(weir_limiter_reset(limiter, net, NULL), WEIR_OK);
    assert_int_equal(check(net, 1).quotas[0].remaining, 2);
}

static void lets_a_block_run_out(void **state)
{
    (void)state;
    assert_int_equal(weir_limiter_block(limiter, ANN, 2, NULL), WEIR_OK);
    struct weir_verdict verdict = check(ANN, 1);
    assert_false(verdict.allowed);
    while (!verdict.allowed) /* until the time is over */
        verdict = check(ANN, 1);
    assert_int_equal(verdict.quotas[0].remaining, 9);
}

/* What a subject shares with others is not its own to reset or to block. */
static void leaves_alone_what_others_share(void **state)
{
    (void)state;
    const struct weir_subject *ann =
        WEIR_SUBJECT(.policy = "shared", .user = "ann", .api_key = "acme-free");
    const struct weir_subject *bob = WEIR_SUBJECT(.policy = "shared", .user = "bob");
    assert_true(check(ann, 1).allowed);
    assert_int_equal(weir_limiter_block(limiter, ann, 3600, NULL), WEIR_OK);
    assert_string_equal(check(ann, 1).limit, "own");
    assert_true(check(bob, 1).allowed);
    assert_int_equal(weir_limiter_reset(limiter, ann, NULL), WEIR_OK);
    struct weir_verdict verdict = peek(ann);
    assert_int_equal(verdict.quotas[0].remaining, 3);
    assert_int_equal(verdict.quotas[1].remaining, 98);
    assert_int_equal(verdict.quotas[2].remaining, 49);

    /* A tenant that is named is meant, and so is a limit. */
    assert_int_equal(
        weir_limiter_reset(limiter, WEIR_SUBJECT(.policy = "shared", .tenant = "acme"), NULL),
        WEIR_OK);
    assert_int_equal(peek(ann).quotas[2].remaining, 50);
    assert_int_equal(
        weir_limiter_reset(limiter, WEIR_SUBJECT(.policy = "shared", .limit = "all"), NULL),
        WEIR_OK);
    assert_int_equal(peek(ann).quotas[1].remaining, 100);
    assert_int_equal(weir_limiter_reset(limiter, WEIR_SUBJECT(.policy = "shared"), NULL),
                     WEIR_E_VALUE);
}

static void settles_only_what_it_spent(void **state)
{
    (void)state;
    check(ANN, 1);
    struct weir_verdict looked = peek(ANN);
    assert_int_equal(weir_limiter_settle(limiter, ANN, 1, &looked, 0, NULL), WEIR_E_STATE);
    assert_int_equal(peek(ANN).quotas[0].remaining, 9);
}

static void calls_a_cost_impossible_that_never_fits(void **state)
{
    (void)state;
    struct weir_verdict verdict = peek(WEIR_SUBJECT(.policy = "net", .ip = "192.0.2.7", .cost = 4));
    assert_false(verdict.allowed);
    assert_int_equal(verdict.outcome, WEIR_IMPOSSIBLE);
}

static void decides_one_limit_of_each_of_eight_subjects(void **state)
{
    (void)state;
    static const char *const users[8] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    struct weir_subject eight[8];
    for (size_t i = 0; i < 8; i++)
        eight[i] = *WEIR_SUBJECT(.policy = "shared", .limit = "own", .user = users[i]);
    assert_int_equal(check(eight, 8).quota_count, 8);
}

/* An array that a program compiled against a later version has made. */
static void takes_subjects_of_a_larger_size(void **state)
{
    (void)state;
    struct {
        struct weir_subject subject;
        uint64_t later;
    } two[] = { { *WEIR_SUBJECT(.policy = "net", .ip = "192.0.2.1"), 0 },
                { *WEIR_SUBJECT(.policy = "net", .ip = "192.0.2.2"), 0 } };
    two[0].subject.size = two[1].subject.size = sizeof two[0];
    assert_int_equal(check(&two[0].subject, 2).quota_count, 2);
}

static void keeps_long_routes_apart(void **state)
{
    (void)state;
    static char one[10001], other[10001];
    memset(one, 'x', sizeof one - 1);
    memset(other, 'x', sizeof other - 1);
    other[sizeof other - 2] = 'y';
    assert_true(check(WEIR_SUBJECT(.policy = "road", .route = one, .ip = "192.0.2.1"), 1).allowed);
    assert_true(
        check(WEIR_SUBJECT(.policy = "road", .route = other, .ip = "192.0.2.1"), 1).allowed);
    assert_true(check(WEIR_SUBJECT(.policy = "road", .route = one, .ip = "192.0.2.2"), 1).allowed);
    assert_false(check(WEIR_SUBJECT(.policy = "road", .route = one, .ip = "192.0.2.1"), 1).allowed);
}

/* One tenant with keys of two plans: each plan holds, however they take turns. */
static void holds_each_of_two_plans_that_share_a_tenant(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        unsigned through[2];
    } rows[] = { { "mixed", { 5, 50 } }, { "counted", { 10, 20 } } };
    static const char *const plans[] = { "free", "pro" };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        unsigned through[2] = { 0, 0 };
        for (int n = 0; n < 60; n++)
            for (size_t plan = 0; plan < 2; plan++)
                through[plan] += check(WEIR_SUBJECT(.policy = rows[i].policy, .tenant = "acme",
                                                    .plan = plans[plan]),
                                       1)
                                     .allowed;
        assert_int_equal(through[0], rows[i].through[0]);
        assert_int_equal(through[1], rows[i].through[1]);
    }
}

/* errors */

static void refuses_subjects_that_cannot_be_decided_as_one(void **state)
{
    (void)state;
    const struct {
        const struct weir_subject subjects[2];
        const char *text;
    } rows[] = {
        { { *ANN, *ANN },
          "Two subjects share the limit \"day\"; decide them one after the other." },
        { { *WEIR_SUBJECT(.policy = "shared", .user = "a"),
            *WEIR_SUBJECT(.policy = "shared", .user = "b") },
          "Two subjects share the limit \"all\"; decide them one after the other." },
        { { *ANN, *WEIR_SUBJECT(.policy = "watched") },
          "The policy \"both\" enforces and \"watched\" only watches, or the other way round; ask "
          "for them in two calls." },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_verdict verdict;
        struct weir_error error = WEIR_NO_ERROR;
        assert_int_equal(weir_limiter_check(limiter, rows[i].subjects, 2, &verdict, &error),
                         WEIR_E_VALUE);
        assert_string_equal(error.text, rows[i].text);
    }
    assert_int_equal(peek(ANN).quotas[0].remaining, 10);
}

static void names_what_is_wrong_with_a_subject(void **state)
{
    (void)state;
    static const struct weir_value unnamed = { "quarry:q", "1" };
    const struct {
        const struct weir_subject *subject;
        enum weir_code code;
        const char *text;
    } rows[] = {
        { WEIR_SUBJECT(.policy = "bth"), WEIR_E_REFERENCE,
          "There is no policy \"bth\"; \"both\" is close." },
        { WEIR_SUBJECT(.policy = "zzzzzzzz"), WEIR_E_REFERENCE,
          "There is no policy \"zzzzzzzz\"." },
        { WEIR_SUBJECT(.user = "ann"), WEIR_E_ARGUMENT,
          "A subject names no policy; set \"policy\"." },
        { WEIR_SUBJECT(.policy = "both", .limit = "dya"), WEIR_E_REFERENCE,
          "There is no limit \"dya\"; \"day\" is close." },
        { WEIR_SUBJECT(.policy = "both", .ip = "192.0.2"), WEIR_E_VALUE,
          "\"192.0.2\" is no address; wanted is one such as \"203.0.113.7\"." },
        { WEIR_SUBJECT(.policy = "both", .api_key = "foo"), WEIR_E_REFERENCE,
          "\"foo\" is no id in the keys file." },
        { WEIR_SUBJECT(.policy = "both", .values = &unnamed, .value_count = 1), WEIR_E_VALUE,
          "\"quarry:q\" names no value; wanted is \"header:NAME\", \"query:NAME\", "
          "\"param:NAME\" or \"field:NAME\"." },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_verdict verdict;
        struct weir_error error = WEIR_NO_ERROR;
        assert_int_equal(weir_limiter_check(limiter, rows[i].subject, 1, &verdict, &error),
                         rows[i].code);
        assert_string_equal(error.text, rows[i].text);
    }
    struct weir_subject many[5] = { *ANN, *ANN, *ANN, *ANN, *ANN };
    static const char *const names[] = { "a", "b", "c", "d", "e" };
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i].user = names[i];
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_check(limiter, many, 5, &verdict, NULL), WEIR_E_VALUE);
    assert_int_equal(weir_limiter_check(limiter, many, 0, &verdict, NULL), WEIR_E_ARGUMENT);
    assert_int_equal(weir_limiter_check(NULL, many, 1, &verdict, NULL), WEIR_E_ARGUMENT);
    assert_int_equal(weir_limiter_block(limiter, ANN, 0, NULL), WEIR_E_VALUE);
    assert_int_equal(weir_limiter_block(limiter, ANN, UINT64_MAX, NULL), WEIR_E_VALUE);
    assert_int_equal(weir_limiter_reset(limiter, WEIR_SUBJECT(.policy = "both"), NULL),
                     WEIR_E_VALUE);
}

static void applies_the_failure_rule_when_redis_is_gone(void **state)
{
    (void)state;
    if (server.pid == 0)
        skip();
    redis_server_kill(&server);
    struct weir_verdict verdict = { .allowed = false };
    /* Asked until the lost connection is seen: then two of five per hour are this instance's. */
    unsigned through = 0;
    for (int n = 0; n < 4; n++) {
        verdict = check(WEIR_SUBJECT(.policy = "sms", .user = "ann"), 1);
        through += verdict.allowed;
        assert_true(verdict.by_memory);
    }
    assert_int_equal(through, 2);
    assert_int_equal(verdict.outcome, WEIR_LIMITED);
    assert_int_equal(check(ANN, 1).outcome, WEIR_FAILED_OPEN);
    verdict = check(WEIR_SUBJECT(.policy = "shared", .user = "ann"), 1);
    assert_int_equal(verdict.outcome, WEIR_FAILED_CLOSED);
    assert_in_range(verdict.retry_us, 1000000, 10000000); /* as the Retry-After of a 503 */
    struct weir_subject pair[] = { *ANN, *WEIR_SUBJECT(.policy = "sms", .user = "cat") };
    assert_true(check(pair, 2).by_memory); /* the stricter of open and memory */
    /* What a share cannot hold is not impossible: 4 of 5 fit, but not 4 of 2. */
    verdict = check(WEIR_SUBJECT(.policy = "sms", .user = "dan", .cost = 4), 1);
    assert_int_equal(verdict.outcome, WEIR_FAILED_CLOSED);
    assert_in_range(verdict.retry_us, 1000000, 10000000);

    const struct weir_subject *eve = WEIR_SUBJECT(.policy = "sms", .user = "eve");
    verdict = check(eve, 1);
    assert_int_equal(weir_limiter_settle(limiter, eve, 1, &verdict, 0, NULL), WEIR_OK);
    assert_int_equal(check(eve, 1).quotas[0].remaining, 1);
    /* A block cannot reach Redis now, but this process keeps it. */
    assert_int_not_equal(weir_limiter_block(limiter, eve, 60, NULL), WEIR_OK);
    assert_int_equal(check(eve, 1).outcome, WEIR_LIMITED);
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_limiter_peek(limiter, ANN, 1, &verdict, &error);
    assert_true(code == WEIR_E_STORE_UNAVAILABLE || code == WEIR_E_STORE_TIMEOUT);
    assert_non_null(strstr(error.text, "store"));
    redis_server_start(&server);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static int run(const char *url)
{
    const struct CMUnitTest tests[] = {
        TEST(decides_by_the_same_limits_as_requests),
        TEST(shares_sums_with_requests),
        TEST(decides_several_subjects_as_one),
        TEST(skips_limits_whose_dimension_is_absent),
        TEST(only_watches_where_the_policy_does),
        TEST(tells_how_long_to_wait_in_a_queue),
        TEST(looks_without_spending),
        TEST(settles_what_it_spent),
        TEST(resets_all_limits_or_one),
        TEST(blocks_for_as_long_as_it_is_told),
        TEST(lets_a_block_run_out),
        TEST(leaves_alone_what_others_share),
        TEST(settles_only_what_it_spent),
        TEST(calls_a_cost_impossible_that_never_fits),
        TEST(decides_one_limit_of_each_of_eight_subjects),
        TEST(takes_subjects_of_a_larger_size),
        TEST(keeps_long_routes_apart),
        TEST(holds_each_of_two_plans_that_share_a_tenant),
        TEST(refuses_subjects_that_cannot_be_decided_as_one),
        TEST(names_what_is_wrong_with_a_subject),
        TEST(applies_the_failure_rule_when_redis_is_gone),
    };
    store_url = url;
    print_message("%s\n", url);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    int failed = run("memory:");
    redis_server_prepare(&server);
    redis_server_start(&server);
    failed += run(server.url);
    redis_server_remove(&server);
    return failed;
}
