/* For random policies and requests, explain says beforehand what the limiter then does. */
#include "test.h"

#include <stdarg.h>

#include <weir/weir.h>

#include "admin/explain.h"
#include "by_hand.h"

#define POLICIES 120
#define REQUESTS 120

/* chance: xorshift64* (Vigna) */

static uint64_t random_state;

static uint64_t pick(uint64_t count)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * UINT64_C(2685821657736338717) >> 16) % count;
}

static bool chance(unsigned percent)
{
    return pick(100) < percent;
}

#define ONE_OF(...)                                                                                \
    (((const char *const[]){ __VA_ARGS__ })[pick(COUNT_OF(((const char *const[]){ __VA_ARGS__ })))])

/* a random policy file */

static const char keys_json[] =
    "{\"keys\": [{\"id\": \"acme-free\", \"tenant\": \"acme\", \"plan\": \"free\", \"sha256\":"
    " \"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}," /* "foo" */
    " {\"id\": \"globex-pro\", \"user\": \"ann\", \"plan\": \"pro\", \"sha256\":"
    " \"fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9\"}]}"; /* "bar" */

static char keys_file[64];

struct writer {
    char text[16384];
    size_t length;
};

static void put(struct writer *writer, const char *format, ...) WEIR_PRINTF(2, 3);

static void put(struct writer *writer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof writer->text - writer->length;
    int length = vsnprintf(writer->text + writer->length, room, format, arguments);
    va_end(arguments);
    assert_true(length >= 0 && (size_t)length < room);
    writer->length += (size_t)length;
}

static void put_rate(struct writer *writer)
{
    static const char *const algorithms[] = {
        "\"algorithm\": \"gcra\"",
        "\"algorithm\": \"token-bucket\"",
        "\"algorithm\": \"leaky-bucket\", \"max_wait\": \"0s\"",
        "\"algorithm\": \"fixed-window\"",
        "\"algorithm\": \"fixed-window\", \"start\": \"first\"",
        "\"algorithm\": \"sliding-counter\"",
        "\"algorithm\": \"sliding-log\"",
    };
    uint64_t limit = chance(5) ? 0 : 1 + pick(12);
    size_t chosen = pick(COUNT_OF(algorithms));
    put(writer, "\"rate\": \"%llu/%s\", %s", (unsigned long long)limit,
        ONE_OF("second", "minute", "7seconds", "250ms", "hour"), algorithms[chosen]);
    if (limit > 0 && chosen < 3 && chance(50))
        put(writer, ", \"burst\": %llu", (unsigned long long)(1 + pick(20)));
}

static void put_limit(struct writer *writer, unsigned number)
{
    put(writer, "%s{\"name\": \"l%u\", \"by\": %s, ", number > 0 ? ", " : "", number,
        ONE_OF("\"ip\"", "\"client\"", "\"api_key\"", "\"tenant|client\"", "\"global\"",
               "[\"ip\", \"route\"]", "\"query:q\"", "\"header:X-Device\"", "\"param:id\"",
               "\"plan\"", "\"user\"", "\"field:name\""));
    if (number < 2 && chance(25))
        put(writer, "\"rate\": \"plan\"");
    else
        put_rate(writer);
    if (chance(15))
        put(writer, ", \"penalty\": {\"after\": %llu, \"ban\": %s, \"extend\": %s}",
            (unsigned long long)(1 + pick(2)), ONE_OF("[\"40s\"]", "[\"2s\", \"2h\"]"),
            ONE_OF("true", "false"));
    put(writer, "}");
}

static void put_policy(struct writer *writer, unsigned number)
{
    put(writer, "%s\"p%u\": {\"limits\": [", number > 0 ? ", " : "", number);
    unsigned count = 1 + (unsigned)pick(3);
    for (unsigned i = 0; i < count; i++)
        put_limit(writer, i);
    put(writer, "]");
    if (chance(20))
        put(writer, ", \"mode\": \"%s\"", ONE_OF("shadow", "off", "enforce"));
    else if (chance(20))
        put(writer, ", \"enforce_percent\": %llu", (unsigned long long)(1 + pick(99)));
    if (chance(10))
        put(writer, ", \"deny\": {\"ip\": [\"198.51.100.0/25\"]}");
    if (chance(10))
        put(writer, ", \"allow\": {\"tenant\": [\"acme\"]}");
    if (chance(20))
        put(writer, ", \"retry_after\": %s", ONE_OF("\"none\"", "\"60s\"", "{\"round\": \"10s\"}"));
    put(writer, "}");
}

static void put_routes(struct writer *writer, unsigned policies)
{
    static const char *const paths[] = { "/a", "/a/:id", "/b/*", "/c", "/*" };
    put(writer, ", \"routes\": [");
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        put(writer, "%s{\"match\": \"%s %s\"", i > 0 ? ", " : "", ONE_OF("GET", "POST", "*", "*"),
            paths[i]);
        put(writer, ", \"auth\": \"%s\"", ONE_OF("none", "optional", "required"));
        if (!chance(10))
            put(writer, ", \"policy\": \"p%llu\", \"cost\": %llu",
                (unsigned long long)pick(policies), (unsigned long long)pick(6));
        put(writer, "}");
    }
    put(writer, "]");
    if (chance(50))
        put(writer, ", \"default\": \"p%llu\"", (unsigned long long)pick(policies));
}

static void write_policy(struct writer *writer)
{
    unsigned policies = 1 + (unsigned)pick(3);
    writer->length = 0;
    put(writer,
        "{\"store\": {\"url\": \"memory:\"}, \"secret\": \"s\", \"client_ip\": {"
        "\"trust\": %s, \"header\": \"%s\", \"ipv4_prefix\": %s}",
        ONE_OF("1", "2", "[\"10.0.0.0/8\"]", "[\"10.0.0.0/8\", \"loopback\"]"),
        ONE_OF("X-Forwarded-For", "Forwarded", "X-Real-IP"), ONE_OF("32", "24"));
    put(writer, ", \"api_keys\": {\"file\": \"%s\", \"guesses\": \"%s\"}", keys_file,
        ONE_OF("2/minute", "20/minute"));
    put(writer, ", \"plans\": {\"free\": {\"l0\": {\"rate\": \"2/second\", \"burst\": 4}, \"l1\": "
                "\"unlimited\"}, \"pro\": {\"l0\": \"20/minute\", \"l1\": \"9/second\"}}");
    put(writer, ", \"policies\": {");
    for (unsigned i = 0; i < policies; i++)
        put_policy(writer, i);
    put(writer, "}");
    put_routes(writer, policies);
    if (chance(10))
        put(writer, ", \"mode\": \"shadow\"");
    if (chance(10))
        put(writer, ", \"deny\": {\"ip\": [\"203.0.113.99\"]}");
    if (chance(10))
        put(writer, ", \"allow\": {\"ip\": [\"198.51.100.7\"]}");
    if (chance(20))
        put(writer, ", \"headers\": [\"draft-11\", \"draft-6\"]");
    put(writer, "}");
}

/* a server under it */

struct bench {
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    unsigned handled;
    unsigned decisions;                               /* that were no plain allow */
    char outcome[32], would[32], limit[32], key[256]; /* of the last one */
};

static uint64_t now_us;

static uint64_t read_clock(void *self)
{
    (void)self;
    return now_us;
}

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
    struct bench *bench = self;
    bench->decisions++;
    keep(bench->outcome, sizeof bench->outcome, weir_outcome_name(decision->outcome));
    keep(bench->would, sizeof bench->would, weir_outcome_name(decision->would));
    keep(bench->limit, sizeof bench->limit, decision->limit);
    keep(bench->key, sizeof bench->key, decision->key);
}

static void open_bench(struct bench *bench, const struct writer *writer)
{
    struct weir_error error = WEIR_NO_ERROR;
    const struct weir_clock clock = { read_clock, NULL };
    bench->handled = bench->decisions = 0;
    if (weir_policy_parse(writer->text, writer->length, NULL, &bench->policy, &error) != WEIR_OK)
        fail_msg("%s: %s in %s", error.path, error.text, writer->text);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = bench->policy, .clock = &clock,
                                              .on_decision = on_decision, .decision_self = bench),
                         &bench->limiter, &error),
        WEIR_OK);
    assert_int_equal(weir_chain_new(WEIR_CHAIN_OPTIONS(.parked_max = 1), &bench->chain, NULL),
                     WEIR_OK);
    assert_int_equal(weir_chain_use(bench->chain, weir_limit(bench->limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(bench->chain, "*", handle, bench), WEIR_OK);
}

static void close_bench(struct bench *bench)
{
    weir_chain_free(bench->chain);
    weir_limiter_free(bench->limiter);
    weir_policy_free(bench->policy);
}

/* a random request */

struct asked {
    const char *method, *target, *peer;
    struct weir_line headers[8];
    size_t header_count;
};

static void add_header(struct asked *asked, const char *name, const char *value)
{
    asked->headers[asked->header_count++] =
        (struct weir_line){ weir_text_from(name), weir_text_from(value) };
}

static void choose_request(struct asked *asked)
{
    asked->header_count = 0;
    asked->method = ONE_OF("GET", "GET", "HEAD", "POST", "OPTIONS");
    asked->target = ONE_OF("/a", "/a/1", "/a/2", "/b/x/y", "/c", "/d", "/../x", "//a/./1");
    asked->peer = ONE_OF("10.0.0.1", "127.0.0.1", "198.51.100.7", "203.0.113.99", "2001:db8::7");
    if (chance(60))
        add_header(asked, ONE_OF("X-Forwarded-For", "Forwarded", "X-Real-IP"),
                   ONE_OF("203.0.113.7", "203.0.113.7, 10.0.0.2", "198.51.100.7", "nonsense",
                          "for=203.0.113.9", "for=\"[2001:db8::9]:1\", for=10.0.0.9",
                          "203.0.113.99, 198.51.100.99"));
    if (chance(60))
        add_header(asked, "X-API-Key", ONE_OF("foo", "foo", "bar", "guessed"));
    if (chance(20))
        add_header(asked, "Authorization", ONE_OF("Bearer bar", "Bearer other", "Basic x"));
    if (chance(30))
        add_header(asked, "X-Device", ONE_OF("d1", "D1 ", "d2"));
    if (chance(10))
        add_header(asked, "Access-Control-Request-Method", "GET");
}

static json_t *explain(const struct bench *bench, const struct asked *asked)
{
    struct weir_error error = WEIR_NO_ERROR;
    const struct weir_described described = { .method = weir_text_from(asked->method),
                                              .target = weir_text_from(asked->target),
                                              .headers = asked->headers,
                                              .header_count = asked->header_count,
                                              .peer = asked->peer };
    json_t *explanation = weir_explain(bench->limiter, &described, &error);
    if (explanation == NULL)
        fail_msg("%s", error.text);
    return explanation;
}

static struct weir_request *make_request(struct bench *bench, const struct asked *asked)
{
    struct weir_request *request = by_hand_request(bench->chain, asked->method, asked->target);
    by_hand_peer(request, asked->peer);
    for (size_t i = 0; i < asked->header_count; i++)
        by_hand_header(request, asked->headers[i].name.at, asked->headers[i].value.at);
    return request;
}

/* comparing */

/* What is printed where something differs. */
static const json_t *under_test;

static const char *member(const json_t *explanation, const char *object, const char *name)
{
    const json_t *value = json_object_get(json_object_get(explanation, object), name);
    return json_string_value(value);
}

static void expect_same_text(const char *what, const char *said, const char *is)
{
    bool is_same = said == NULL || is == NULL ? said == is : strcmp(said, is) == 0;
    if (is_same)
        return;
    weir_explain_print(under_test, stderr);
    fail_msg("%s: explained as %s, but is %s", what, said == NULL ? "none" : said,
             is == NULL ? "none" : is);
}

static void expect_same_headers(const json_t *verdict, struct weir_request *request)
{
    size_t index;
    const json_t *line;
    static const char *const names[] = { "Retry-After",         "RateLimit",
                                         "RateLimit-Policy",    "WWW-Authenticate",
                                         "RateLimit-Remaining", "RateLimit-Reset" };
    const char *said[COUNT_OF(names)] = { NULL };
    json_array_foreach(
        json_object_get(verdict, "headers"), index,
        line) for (size_t i = 0; i < COUNT_OF(names);
                   i++) if (strcmp(json_string_value(json_array_get(line, 0)), names[i]) == 0)
        said[i] = json_string_value(json_array_get(line, 1));
    /* Only the longest that a wait can be is known. */
    if (!json_is_true(json_object_get(verdict, "waits_known")))
        return;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        expect_same_text(names[i], said[i], weir_reply_header(&request->reply, names[i]));
}

static void expect_wait_within(const json_t *verdict, struct weir_request *request)
{
    const json_t *most = json_object_get(verdict, "retry_most_s");
    const char *told = weir_reply_header(&request->reply, "Retry-After");
    if (most != NULL && told != NULL)
        assert_true(atoll(told) <= json_integer_value(most));
}

/* What was reported, against what was said beforehand. Which of several limits has the longest wait is
 * known only where their waits are. */
static void expect_same_decision(const struct bench *bench, unsigned decisions,
                                 const json_t *explanation)
{
    const json_t *verdict = json_object_get(explanation, "verdict");
    const char *outcome = json_string_value(json_object_get(verdict, "outcome"));
    const char *would = json_string_value(json_object_get(verdict, "would"));
    assert_int_equal(bench->decisions - decisions, strcmp(outcome, "allowed") != 0);
    if (bench->decisions == decisions)
        return;
    expect_same_text("outcome", outcome, bench->outcome);
    expect_same_text("would", would == NULL ? outcome : would, bench->would);
    if (bench->limit[0] == '\0' || !json_is_true(json_object_get(verdict, "waits_known")))
        return;
    expect_same_text("limit", json_string_value(json_object_get(verdict, "limit")), bench->limit);
    expect_same_text("key", json_string_value(json_object_get(verdict, "key")), bench->key);
}

static void compare(struct bench *bench, const struct asked *asked, struct weir_request *request,
                    const json_t *explanation)
{
    unsigned handled = bench->handled, decisions = bench->decisions;
    unsigned status = by_hand_run(request);
    const json_t *verdict = json_object_get(explanation, "verdict");
    const json_t *said = json_object_get(verdict, "status");
    bool is_handled = bench->handled > handled;
    char text[256];
    snprintf(text, sizeof text, "%s %s from %s: %u", asked->method, asked->target, asked->peer,
             status);
    if (is_handled != (said == NULL) || (said != NULL && json_integer_value(said) != status))
        fail_msg("%s: explained as %s", text,
                 json_string_value(json_object_get(explanation, "summary")));
    expect_same_text("address", member(explanation, "address", "client"), weir_request_ip(request));
    expect_same_text("network", member(explanation, "address", "counted_as"),
                     weir_request_network(request));
    expect_same_text("key", member(explanation, "identity", "api_key"),
                     weir_request_api_key(request));
    expect_same_decision(bench, decisions, explanation);
    expect_same_headers(verdict, request);
    expect_wait_within(verdict, request);
}

/* Now and then an operator blocks somebody. */
static void block(const struct bench *bench)
{
    struct weir_subject subject = *WEIR_SUBJECT(.policy = ONE_OF("p0", "p1", "p2"));
    if (chance(50))
        subject.ip = ONE_OF("203.0.113.7", "10.0.0.1", "198.51.100.7");
    else
        subject.api_key = "acme-free";
    weir_limiter_block(bench->limiter, &subject, 1 + pick(100), NULL);
}

static void ask_once(struct bench *bench)
{
    struct asked asked;
    choose_request(&asked);
    if (chance(5))
        block(bench);
    unsigned decisions = bench->decisions;
    json_t *explanation = explain(bench, &asked), *again = explain(bench, &asked);
    assert_int_equal(bench->decisions, decisions);
    if (!json_equal(explanation, again))
        fail_msg("asked twice, explained in two ways: %s",
                 json_string_value(json_object_get(explanation, "summary")));
    struct weir_request *request = make_request(bench, &asked);
    under_test = explanation;
    compare(bench, &asked, request, explanation);
    weir_request_end(request);
    json_decref(explanation);
    json_decref(again);
    if (chance(40))
        now_us += pick(chance(80) ? 300000 : 90000000);
}

static void says_what_the_limiter_then_does(void **state)
{
    (void)state;
    struct writer writer;
    struct bench bench;
    for (uint64_t seed = 1; seed <= POLICIES; seed++) {
        random_state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
        now_us = UINT64_C(1800000000000000) + pick(1000000000);
        write_policy(&writer);
        open_bench(&bench, &writer);
        print_message("    seed %llu\n", (unsigned long long)seed);
        for (size_t i = 0; i < REQUESTS; i++)
            ask_once(&bench);
        close_bench(&bench);
    }
}

static int set_up(void **state)
{
    (void)state;
    strcpy(keys_file, "/tmp/weir-keys-XXXXXX");
    FILE *stream = fdopen(mkstemp(keys_file), "w");
    assert_non_null(stream);
    assert_true(fputs(keys_json, stream) >= 0);
    return fclose(stream);
}

static int tear_down(void **state)
{
    (void)state;
    return remove(keys_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_the_limiter_then_does),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
