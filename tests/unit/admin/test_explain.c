/* What explain says of a request: the steps, the sentence, and where to look. */
#include "test.h"

#include <weir/weir.h>

#include "admin/explain.h"
#include "admin/keys.h"
#include "by_hand.h"
#include "limit/known.h"
#include "limit/limiter_internal.h"
#include "store/store.h"

static const char keys_json[] =
    "{\"keys\": [{\"id\": \"acme-free\", \"tenant\": \"acme\", \"plan\": \"free\", \"sha256\":"
    " \"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}]}"; /* "foo" */

static const char policy_json[] =
    "{ \"store\": {\"url\": \"memory:\"}, \"instances\": 2, \"secret\": \"s\","
    "  \"client_ip\": {\"trust\": [\"10.0.0.0/8\", \"unix\"], \"ipv4_prefix\": 24},"
    "  \"api_keys\": {\"file\": \"%s\", \"guesses\": \"2/minute\"},"
    "  \"deny\": {\"ip\": [\"203.0.113.66\"]},"
    "  \"plans\": {\"free\": {\"burst\": {\"rate\": \"5/second\", \"burst\": 10}}},"
    "  \"policies\": {"
    "    \"api\": {\"limits\": [{\"name\": \"burst\", \"by\": \"client\", \"rate\": \"plan\"}]},"
    "    \"partner\": {\"limits\": [{\"name\": \"minute\", \"by\": \"api_key\","
    "      \"rate\": \"1200/minute\", \"burst\": 20}]},"
    "    \"office\": {\"limits\": [{\"name\": \"address\", \"by\": \"ip\", \"rate\": \"2/minute\"},"
    "      {\"name\": \"user\", \"by\": [\"user\", \"route\"], \"rate\": \"9/minute\"},"
    "      {\"name\": \"off\", \"by\": \"ip\", \"rate\": \"unlimited\"}]},"
    "    \"window\": {\"limits\": [{\"name\": \"hour\", \"by\": \"tenant|ip\", \"rate\":"
    "      \"3/hour\", \"algorithm\": \"fixed-window\"}]},"
    "    \"log\": {\"limits\": [{\"name\": \"few\", \"by\": \"ip\", \"rate\": \"1/minute\","
    "      \"algorithm\": \"sliding-log\"}]},"
    "    \"strict\": {\"limits\": [{\"name\": \"few\", \"by\": \"ip\", \"rate\": \"60/minute\","
    "      \"burst\": 3, \"penalty\": {\"after\": 2, \"ban\": [\"5m\", \"1h\"]}}]},"
    "    \"watched\": {\"mode\": \"shadow\", \"limits\": [{\"name\": \"none\", \"by\": \"ip\","
    "      \"rate\": \"0/minute\"}]},"
    "    \"idle\": {\"mode\": \"off\", \"limits\": [{\"name\": \"none\", \"by\": \"ip\","
    "      \"rate\": \"0/minute\"}]},"
    "    \"open\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"4/minute\"}],"
    "      \"on_store_failure\": \"open\"},"
    "    \"closed\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"4/minute\"}],"
    "      \"on_store_failure\": \"closed\"},"
    "    \"memory\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"4/minute\"}],"
    "      \"on_store_failure\": \"memory\"},"
    "    \"login\": {\"body_max\": \"1KiB\", \"limits\": [{\"name\": \"account\","
    "      \"by\": \"field:name\", \"rate\": \"3/minute\"}]},"
    "    \"home\": {\"known\": {\"account\": \"field:name\", \"for\": \"10h\"}, \"limits\": ["
    "      {\"name\": \"strangers\", \"by\": \"field:name\", \"rate\": \"2/day\","
    "       \"when\": \"unknown\"},"
    "      {\"name\": \"friends\", \"by\": [\"device\", \"field:name\"], \"rate\": \"3/day\","
    "       \"when\": \"known\"}]},"
    "    \"few\": {\"concurrency\": {\"fixed\": 1, \"by\": \"ip\"}},"
    "    \"back\": {\"concurrency\": {\"adaptive\": {\"floor\": 1, \"ceiling\": 1, \"initial\": "
    "1}, "
    "\"group\": \"db\"}},"
    "    \"left\": {\"limits\": [{\"name\": \"none\", \"refusal\": \"handler\","
    "      \"by\": \"ip\", \"rate\": \"0/minute\"}]}},"
    "  \"routes\": ["
    "    {\"match\": \"POST /v1/export\", \"auth\": \"required\", \"policy\": \"api\", \"cost\": "
    "50},"
    "    {\"match\": \"GET /v1/search\", \"auth\": \"required\", \"policy\": \"api\", \"cost\": 5},"
    "    {\"match\": \"* /v1/*\", \"auth\": \"required\", \"policy\": \"api\"},"
    "    {\"match\": \"* /partner\", \"auth\": \"required\", \"policy\": \"partner\"},"
    "    {\"match\": \"* /office\", \"policy\": \"office\"},"
    "    {\"match\": \"* /window\", \"policy\": \"window\"},"
    "    {\"match\": \"* /log\", \"policy\": \"log\"},"
    "    {\"match\": \"* /strict\", \"policy\": \"strict\"},"
    "    {\"match\": \"* /watched\", \"policy\": \"watched\"},"
    "    {\"match\": \"* /idle\", \"policy\": \"idle\"},"
    "    {\"match\": \"* /open\", \"policy\": \"open\"},"
    "    {\"match\": \"* /closed\", \"policy\": \"closed\"},"
    "    {\"match\": \"* /memory\", \"policy\": \"memory\"},"
    "    {\"match\": \"* /login\", \"policy\": \"login\"},"
    "    {\"match\": \"* /home\", \"policy\": \"home\"},"
    "    {\"match\": \"* /few\", \"policy\": \"few\"},"
    "    {\"match\": \"* /back\", \"policy\": \"back\"},"
    "    {\"match\": \"* /left\", \"policy\": \"left\"},"
    "    {\"match\": \"* /free\"} ] }";

/* a memory store that can be away */

struct fragile {
    struct weir_store *inner;
    bool is_away;
};

static struct fragile fragile;

static void fragile_submit(void *self, struct weir_check *check)
{
    struct fragile *store = self;
    if (!store->is_away) {
        store->inner->type->submit(store->inner->self, check);
        return;
    }
    check->result = WEIR_STORE_TIMEOUT;
    strcpy(check->why, "no answer");
    check->done(check);
}

static void fragile_free(void *self)
{
    (void)self;
}

static const struct weir_store_type fragile_type = { .size = sizeof fragile_type,
                                                     .name = "fragile",
                                                     .answers_inline = true,
                                                     .exchanges = true,
                                                     .submit = fragile_submit,
                                                     .free = fragile_free };

/* a limiter */

static struct {
    struct weir_policy *policy;
    struct weir_store *store;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    unsigned decisions;
} bench;

static uint64_t now_us;

static uint64_t read_clock(void *self)
{
    (void)self;
    return now_us;
}

static void on_decision(void *self, const struct weir_decision *decision)
{
    (void)self;
    (void)decision;
    bench.decisions++;
}

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    weir_reply_text(request, 200, "fine");
    return WEIR_DONE;
}

static void load_policy(void)
{
    char file[] = "/tmp/weir-keys-XXXXXX", text[8192];
    FILE *stream = fdopen(mkstemp(file), "w");
    assert_non_null(stream);
    assert_true(fputs(keys_json, stream) >= 0);
    assert_int_equal(fclose(stream), 0);
    int length = snprintf(text, sizeof text, policy_json, file);
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_parse(text, (size_t)length, NULL, &bench.policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    remove(file);
}

static int set_up(void **state)
{
    (void)state;
    memset(&bench, 0, sizeof bench);
    now_us = UINT64_C(1800000000000000);
    fragile.is_away = false;
    const struct weir_clock clock = { read_clock, NULL };
    load_policy();
    assert_int_equal(
        weir_store_open("memory:", WEIR_STORE_OPTIONS(.clock = &clock), &fragile.inner, NULL),
        WEIR_OK);
    assert_int_equal(weir_store_new(&fragile_type, &fragile, &bench.store, NULL), WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = bench.policy, .store = bench.store,
                                              .clock = &clock, .on_decision = on_decision),
                         &bench.limiter, NULL),
        WEIR_OK);
    assert_int_equal(weir_chain_new(WEIR_CHAIN_OPTIONS(.parked_max = 1), &bench.chain, NULL),
                     WEIR_OK);
    assert_int_equal(weir_chain_use(bench.chain, weir_limit(bench.limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(bench.chain, "*", handle, NULL), WEIR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_chain_free(bench.chain);
    weir_limiter_free(bench.limiter);
    weir_store_free(bench.store);
    weir_store_free(fragile.inner);
    weir_policy_free(bench.policy);
    return 0;
}

/* asking */

static json_t *explain(const struct weir_described *described)
{
    struct weir_error error = WEIR_NO_ERROR;
    json_t *explanation = weir_explain(bench.limiter, described, &error);
    if (explanation == NULL)
        fail_msg("%s", error.text);
    return explanation;
}

/* A request as it is sent, from a peer. */
static json_t *explain_sent(const char *peer, const char *sent)
{
    struct weir_line lines[8];
    struct weir_described described = { .peer = peer };
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_described_read(weir_text_from(sent), lines, COUNT_OF(lines), &described, &error)
        != WEIR_OK)
        fail_msg("%s", error.text);
    return explain(&described);
}

static void spend(const char *policy, const char *ip, const char *api_key, uint64_t cost)
{
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_check(
                         bench.limiter,
                         WEIR_SUBJECT(.policy = policy, .ip = ip, .api_key = api_key, .cost = cost),
                         1, &verdict, NULL),
                     WEIR_OK);
    assert_true(verdict.allowed);
}

static const char *text_at(const json_t *explanation, const char *object, const char *name)
{
    return json_string_value(json_object_get(json_object_get(explanation, object), name));
}

static const char *summary_of(const json_t *explanation)
{
    return json_string_value(json_object_get(explanation, "summary"));
}

static bool has_hint(const json_t *explanation, const char *piece)
{
    size_t index;
    const json_t *hint;
    json_array_foreach(json_object_get(explanation, "hints"), index,
                       hint) if (strstr(json_string_value(hint), piece) != NULL) return true;
    return false;
}

static const json_t *limit_of(const json_t *explanation, const char *name)
{
    size_t index;
    const json_t *limit;
    json_array_foreach(json_object_get(explanation, "limits"), index,
                       limit) if (strcmp(json_string_value(json_object_get(limit, "name")), name)
                                  == 0) return limit;
    fail_msg("there is no limit %s", name);
    return NULL;
}

static char *print(const json_t *explanation)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    weir_explain_print(explanation, stream);
    assert_int_equal(fclose(stream), 0);
    return text;
}

#define KEY "X-API-Key: foo\n"

/* the steps */

static void names_each_hop(void **state)
{
    (void)state;
    json_t *explanation = explain_sent(
        "10.0.0.1", "GET /office HTTP/1.1\nX-Forwarded-For: 1.2.3.4, 203.0.113.7, 10.0.0.2\n\n");
    const json_t *hops = json_object_get(json_object_get(explanation, "address"), "hops");
    static const struct {
        const char *speaker, *said;
        bool is_trusted;
    } rows[] = { { "10.0.0.1", "10.0.0.2", true },
                 { "10.0.0.2", "203.0.113.7", true },
                 { "203.0.113.7", NULL, false } };
    assert_int_equal(json_array_size(hops), COUNT_OF(rows));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const json_t *hop = json_array_get(hops, i);
        const char *said = json_string_value(json_object_get(hop, "said"));
        assert_string_equal(json_string_value(json_object_get(hop, "speaker")), rows[i].speaker);
        assert_int_equal(json_is_true(json_object_get(hop, "trusted")), rows[i].is_trusted);
        if (rows[i].said == NULL)
            assert_null(said);
        else
            assert_string_equal(said, rows[i].said);
    }
    assert_string_equal(text_at(explanation, "address", "client"), "203.0.113.7");
    assert_string_equal(text_at(explanation, "address", "counted_as"), "203.0.113.0/24");
    assert_string_equal(text_at(explanation, "address", "from"), "X-Forwarded-For");
    json_decref(explanation);
}

static void says_why_a_route_does_not_match(void **state)
{
    (void)state;
    json_t *explanation = explain_sent("192.0.2.7", "GET /v1/export HTTP/1.1\n" KEY "\n");
    const json_t *tried = json_object_get(json_object_get(explanation, "route"), "tried");
    static const char *const reasons[] = { "another method", "another path", NULL };
    assert_int_equal(json_array_size(tried), COUNT_OF(reasons));
    for (size_t i = 0; i < COUNT_OF(reasons); i++) {
        const char *why = json_string_value(json_object_get(json_array_get(tried, i), "why_not"));
        if (reasons[i] == NULL)
            assert_null(why);
        else
            assert_string_equal(why, reasons[i]);
    }
    assert_string_equal(text_at(explanation, "route", "match"), "* /v1/*");
    json_decref(explanation);
}

static void says_why_a_limit_does_not_hold(void **state)
{
    (void)state;
    json_t *explanation = explain_sent("192.0.2.7", "GET /office HTTP/1.1\n\n");
    static const struct {
        const char *limit, *why_not;
    } rows[] = { { "address", NULL },
                 { "user", "the request has no user" },
                 { "off", "it is unlimited" } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const json_t *limit = limit_of(explanation, rows[i].limit);
        const char *why_not = json_string_value(json_object_get(limit, "why_not"));
        assert_int_equal(json_is_true(json_object_get(limit, "applies")), rows[i].why_not == NULL);
        if (rows[i].why_not != NULL)
            assert_string_equal(why_not, rows[i].why_not);
    }
    json_decref(explanation);
}

/* the sentence */

static void says_it_in_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *when, *sent, *summary;
    } rows[] = {
        { "all is spent", "GET /v1/a HTTP/1.1\n" KEY "\n",
          "Refused by policy api, limit burst (gcra 5/second, burst 10), key api_key:acme-free: 0 "
          "of "
          "10 left, next in 200 ms." },
        { "it costs more than one", "GET /v1/search?q=x HTTP/1.1\n" KEY "\n",
          "Refused by policy api, limit burst (gcra 5/second, burst 10), key api_key:acme-free: 0 "
          "of "
          "10 left, enough for the cost of 5 in 1 second." },
        { "it can never be", "POST /v1/export HTTP/1.1\n" KEY "\n",
          "Refused by policy api, limit burst (gcra 5/second, burst 10), key api_key:acme-free: 0 "
          "of "
          "10 left, and it never holds the cost of 50." },
        { "a window", "GET /window HTTP/1.1\n\n",
          "Refused by policy window, limit hour (fixed-window 3/hour), key ip:192.0.2.0/24: 0 of 3 "
          "left, next in 60 minutes." },
        { "a log", "GET /log HTTP/1.1\n\n",
          "Refused by policy log, limit few (sliding-log 1/minute), key ip:192.0.2.0/24: 0 of 1 "
          "left, all of it back within 60 seconds." },
        { "room is left", "GET /office HTTP/1.1\n\n",
          "Let through by policy office; least is left of limit address (gcra 2/minute, burst 2), "
          "key ip:192.0.2.0/24: 2 of 2." },
        { "watched", "GET /watched HTTP/1.1\n\n",
          "Let through, since it is only watched; else refused by policy watched, limit none (gcra "
          "0/minute, burst 0), key ip:192.0.2.0/24: 0 of 0 left, and it never holds the cost of "
          "1." },
        { "off", "GET /idle HTTP/1.1\n\n", "Let through: policy idle is off." },
        { "no policy", "GET /free HTTP/1.1\n\n", "Let through: no policy limits this route." },
        { "no route", "GET /nowhere HTTP/1.1\n\n", "Let through: no policy limits this route." },
        { "nobody asks", "GET /v1/a HTTP/1.1\n\n",
          "Refused with 401: the route asks for an identity, and nothing in the request says who "
          "asks." },
        { "a broken path", "GET /../a HTTP/1.1\n\n",
          "Refused with 400: its path cannot be normalised." },
        { "a broken body",
          "POST /login HTTP/1.1\nContent-Type: application/x-www-form-urlencoded\n\nname=%zz",
          "Refused with 400 by the policy: limits count by fields of the body, and it cannot be "
          "read." },
    };
    spend("api", NULL, "acme-free", 10);
    spend("window", "192.0.2.9", NULL, 3);
    spend("log", "192.0.2.9", NULL, 1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        json_t *explanation = explain_sent("192.0.2.7", rows[i].sent);
        assert_string_equal(summary_of(explanation), rows[i].summary);
        json_decref(explanation);
    }
    assert_int_equal(bench.decisions, 0);
}

static void keeps_out_whom_a_list_names(void **state)
{
    (void)state;
    json_t *explanation = explain_sent("203.0.113.66", "GET /free HTTP/1.1\n\n");
    assert_string_equal(summary_of(explanation),
                        "Refused with 403 by a deny list, which names its address.");
    assert_string_equal(text_at(explanation, "verdict", "outcome"), "denied");
    json_decref(explanation);
}

static void says_what_a_guess_costs(void **state)
{
    (void)state;
    static const char sent[] = "GET /v1/a HTTP/1.1\nX-API-Key: guessed\n\n";
    json_t *explanation = explain_sent("192.0.2.7", sent);
    assert_string_equal(text_at(explanation, "verdict", "outcome"), "unauthenticated");
    assert_true(has_hint(explanation, "is in no keys file"));
    assert_string_equal(json_string_value(json_object_get(limit_of(explanation, "guesses"), "key")),
                        "ip:192.0.2.0/24");
    json_decref(explanation);

    for (unsigned i = 0; i < 2; i++) {
        struct weir_request *request = by_hand_request(bench.chain, "GET", "/v1/a");
        by_hand_peer(request, "192.0.2.7");
        by_hand_header(request, "X-API-Key", "guessed");
        assert_int_equal(by_hand_run(request), 401);
        weir_request_end(request);
    }
    explanation = explain_sent("192.0.2.7", sent);
    assert_string_equal(text_at(explanation, "verdict", "outcome"), "limited");
    json_decref(explanation);
}

static void follows_the_rule_for_a_store_that_fails(void **state)
{
    (void)state;
    static const struct {
        const char *sent, *outcome, *piece;
    } rows[] = {
        { "GET /open HTTP/1.1\n\n", "failed-open", "Let through uncounted: the store failed" },
        { "GET /closed HTTP/1.1\n\n", "failed-closed", "Refused with 503: the store failed" },
        { "GET /memory HTTP/1.1\n\n", "allowed", "limit a (gcra 4/2minutes, burst 2)" },
    };
    fragile.is_away = true;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        json_t *explanation = explain_sent("192.0.2.7", rows[i].sent);
        assert_string_equal(text_at(explanation, "verdict", "outcome"), rows[i].outcome);
        assert_non_null(strstr(summary_of(explanation), rows[i].piece));
        json_decref(explanation);
    }
}

/* as if nothing had been spent */
static void asks_nobody_where_nothing_is_to_count(void **state)
{
    (void)state;
    spend("office", "192.0.2.9", NULL, 2);
    fragile.is_away = true;
    json_t *explanation = explain(&(struct weir_described){
        .target = WEIR_TEXT("/office"), .peer = "192.0.2.7", .is_empty = true });
    assert_string_equal(text_at(explanation, "verdict", "outcome"), "allowed");
    json_decref(explanation);
}

/* bodies and devices */

static void counts_by_a_field(void **state)
{
    (void)state;
    const struct weir_line field = { WEIR_TEXT("name"), WEIR_TEXT(" Ann ") };
    json_t *of_body = explain_sent(
        NULL, "POST /login HTTP/1.1\nContent-Type: application/json\n\n{\"name\": \"ann\"}");
    json_t *of_field = explain(&(struct weir_described){ .method = WEIR_TEXT("POST"),
                                                         .target = WEIR_TEXT("/login"),
                                                         .fields = &field,
                                                         .field_count = 1 });
    const char *key = json_string_value(json_object_get(limit_of(of_body, "account"), "key"));
    assert_int_equal(strncmp(key, "field:name#", 11), 0);
    assert_string_equal(json_string_value(json_object_get(limit_of(of_field, "account"), "key")),
                        key);
    json_decref(of_body);
    json_decref(of_field);
}

static const struct weir_ruleset *find_ruleset(const char *name)
{
    for (size_t i = 0; i < bench.policy->ruleset_count; i++)
        if (strcmp(bench.policy->rulesets[i].name, name) == 0)
            return &bench.policy->rulesets[i];
    fail_msg("there is no policy %s", name);
    return bench.policy->rulesets;
}

/* The cookie that a server has sent when ann succeeded. */
static void make_cookie(char memory[WEIR_COOKIE_BYTES])
{
    char subject_memory[WEIR_SUBJECT_MAX + 1];
    const struct weir_ruleset *ruleset = find_ruleset("home");
    const struct weir_named_value name = { WEIR_TEXT("field"), WEIR_TEXT("name"),
                                           WEIR_TEXT("ann") };
    const struct weir_identity nobody = { .found = true };
    const struct weir_asker asker = {
        .policy = bench.policy, .identity = &nobody, .values = &name, .value_count = 1
    };
    struct weir_buffer subject = weir_buffer_init(subject_memory, sizeof subject_memory);
    struct weir_buffer cookie = weir_buffer_init(memory, WEIR_COOKIE_BYTES);
    struct weir_device device;
    assert_true(weir_subject_write(&ruleset->known->account, &asker, &subject));
    const struct weir_account account = { bench.policy, ruleset, weir_buffer_text(&subject) };
    weir_device_new(&account, now_us / 1000000, &device);
    weir_device_write(&account, &device, now_us / 1000000, &cookie);
    assert_non_null(weir_buffer_string(&cookie));
    memory[strcspn(memory, ";")] = '\0';
}

static void knows_a_device_by_its_cookie(void **state)
{
    (void)state;
    char cookie[WEIR_COOKIE_BYTES], sent[1024];
    make_cookie(cookie);
    snprintf(
        sent, sizeof sent,
        "POST /home HTTP/1.1\nContent-Type: application/json\nCookie: %s\n\n{\"name\": \"ann\"}",
        cookie);
    json_t *explanation = explain_sent(NULL, sent);
    assert_true(json_is_true(json_object_get(limit_of(explanation, "friends"), "applies")));
    assert_string_equal(
        json_string_value(json_object_get(limit_of(explanation, "strangers"), "why_not")),
        "the device is known");
    json_decref(explanation);
}

/* where to look */

static void says_where_to_look(void **state)
{
    (void)state;
    static const struct {
        const char *when, *peer, *sent, *hint;
    } rows[] = {
        { "bursts under an average", "192.0.2.7", "GET /partner HTTP/1.1\n" KEY "\n",
          "1200/minute is 1 unit in 50 ms on average, but at most 20 at once" },
        { "many behind one address", "192.0.2.7", "GET /office HTTP/1.1\n" KEY "\n",
          "counts by address: all who share 192.0.2.0/24 (a NAT, an office, a proxy) share it" },
        { "a whole network", "192.0.2.7", "GET /office HTTP/1.1\n\n",
          "192.0.2.7 is counted with all of its network, 192.0.2.0/24" },
        { "one key for many", "192.0.2.7", "GET /v1/a HTTP/1.1\n" KEY "\n",
          "all programs that use the key acme-free share it" },
        { "a tenant", "192.0.2.7", "GET /window HTTP/1.1\n" KEY "\n",
          "counts by tenant: all keys of acme share it" },
        { "a window on the clock", "192.0.2.7", "GET /window HTTP/1.1\n" KEY "\n",
          "begin on the clock" },
        { "a cost", "192.0.2.7", "GET /v1/search HTTP/1.1\n" KEY "\n",
          "costs 5 units: what limit burst holds is enough for 2 of its kind" },
        { "a proxy that is not trusted", "172.16.0.9",
          "GET /free HTTP/1.1\nX-Forwarded-For: 203.0.113.7\n\n",
          "172.16.0.9 is a private address, and \"client_ip\".\"trust\" does not cover it" },
        { "a proxy behind a proxy", "10.0.0.1",
          "GET /free HTTP/1.1\nX-Forwarded-For: 203.0.113.7, 192.168.3.4\n\n",
          "192.168.3.4 is a private address" },
        { "another header", "10.0.0.1", "GET /free HTTP/1.1\nX-Real-IP: 203.0.113.7\n\n",
          "The request has X-Real-IP, but \"client_ip\".\"header\" is X-Forwarded-For" },
        { "what is no address", "10.0.0.1", "GET /free HTTP/1.1\nX-Forwarded-For: unknown\n\n",
          "is no address, so the walk ends there" },
    };
    spend("api", NULL, "acme-free", 10);
    spend("office", "192.0.2.9", NULL, 2);
    spend("window", NULL, "acme-free", 3);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        json_t *explanation = explain_sent(rows[i].peer, rows[i].sent);
        if (!has_hint(explanation, rows[i].hint))
            fail_msg("%s", json_dumps(json_object_get(explanation, "hints"), JSON_INDENT(2)));
        json_decref(explanation);
    }
}

static void has_nothing_to_hint_at_where_all_is_well(void **state)
{
    (void)state;
    json_t *explanation =
        explain_sent("10.0.0.1", "GET /v1/a HTTP/1.1\nX-Forwarded-For: 203.0.113.7\n" KEY "\n");
    assert_int_equal(json_array_size(json_object_get(explanation, "hints")), 0);
    json_decref(explanation);
}

/* secrets, and what clients send */

static void never_shows_a_key(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "GET /v1/a HTTP/1.1\nX-API-Key: se-cret-key\nAuthorization: Bearer se-cret-key\n\n",
        "GET /v1/a?key=se-cret-key HTTP/1.1\nAuthorization: Bearer se-cret-key\n\n",
        "POST /login HTTP/1.1\nContent-Type: application/json\n\n{\"name\":\"se-cret-key\"}",
    };
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        json_t *explanation = explain_sent("192.0.2.7", heads[i]);
        char *json = json_dumps(explanation, 0), *text = print(explanation);
        assert_null(strstr(json, "se-cret"));
        assert_null(strstr(text, "se-cret"));
        free(json);
        free(text);
        json_decref(explanation);
    }
}

static void prints_no_control_characters(void **state)
{
    (void)state;
    json_t *explanation = explain_sent(
        "10.0.0.1", "GET /a%1b[2J%0ab%ff%c2%9bc HTTP/1.1\nX-Forwarded-For: \x1b[31m\xff\n\n");
    char *text = print(explanation);
    for (const char *at = text; *at != '\0'; at++)
        assert_true(*at == '\n' || ((unsigned char)*at >= 0x20 && *at != 0x7F));
    assert_null(strstr(text, "\xc2\x9b"));
    assert_non_null(strstr(text, "GET /a?[2J?b??c"));
    free(text);
    json_decref(explanation);
}

static void prints_the_steps_in_order(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "request   GET /v1/search\n",
        "address   203.0.113.7, counted as 203.0.113.0/24, from X-Forwarded-For\n",
        "          10.0.0.1 is trusted, and says 203.0.113.7\n",
        "          203.0.113.7 is not trusted\n",
        "identity  API key acme-free, tenant acme, plan free\n",
        "lists     deny of the file: does not name it\n",
        "routes    POST /v1/export: another method\n",
        "          GET /v1/search: matches\n",
        "route     GET /v1/search: auth required, policy api, cost 5\n",
        "policy    api, mode enforce, cost 5\n",
        "limits    burst, by api_key|user|tenant|ip: api_key:acme-free, gcra 5/second burst 10 "
        "(plan "
        "free): 0 of 10 left, all in 2.0 s, refuses, passes in 1.0 s\n",
        "state     as the store has it (fragile)\n",
        "answer    429, limited\n",
        "          Retry-After: 1\n",
        "\nRefused by policy api, limit burst",
        "\nLook at:\n  - ",
    };
    spend("api", NULL, "acme-free", 10);
    json_t *explanation = explain_sent(
        "10.0.0.1", "GET /v1/search?q=x HTTP/1.1\nX-Forwarded-For: 203.0.113.7\n" KEY "\n");
    char *text = print(explanation);
    const char *at = text;
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        const char *found = strstr(at, pieces[i]);
        if (found == NULL)
            fail_msg("\"%s\" is not in\n%s", pieces[i], at);
        at = found;
    }
    free(text);
    json_decref(explanation);
}

/* what is described */

static void reads_a_request_as_it_is_sent(void **state)
{
    (void)state;
    struct weir_line lines[4];
    struct weir_described described = { .peer = NULL };
    assert_int_equal(weir_described_read(
                         WEIR_TEXT("POST /a?b=c HTTP/1.1\r\nHost: x\r\nX-Two:  b \r\n\r\nbo\ndy"),
                         lines, COUNT_OF(lines), &described, NULL),
                     WEIR_OK);
    assert_true(weir_text_equal(described.method, WEIR_TEXT("POST")));
    assert_true(weir_text_equal(described.target, WEIR_TEXT("/a?b=c")));
    assert_int_equal(described.header_count, 2);
    assert_true(weir_text_equal(described.headers[1].name, WEIR_TEXT("X-Two")));
    assert_true(weir_text_equal(described.headers[1].value, WEIR_TEXT("b")));
    assert_true(weir_text_equal(described.body, WEIR_TEXT("bo\ndy")));
}

static void refuses_what_is_no_request(void **state)
{
    (void)state;
    static const struct {
        const char *sent, *piece;
    } rows[] = {
        { "", "Line 1 is no request line" },
        { "GET\n\n", "Line 1 is no request line" },
        { "GET /a\n\n", "Line 1 is no request line" },
        { "GET /a b HTTP/1.1\n\n", "Line 1 is no request line" },
        { "GET /a HTTP/1.1\nno colon\n\n", "Line 2 is no header line" },
        { "GET /a HTTP/1.1\nA: b\n: c\n\n", "Line 3 is no header line" },
        { "GET /a HTTP/1.1\nA: 1\nB: 2\nC: 3\n\n", "more than 2 header lines" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_line lines[2];
        struct weir_described described = { .peer = NULL };
        struct weir_error error = WEIR_NO_ERROR;
        assert_int_equal(
            weir_described_read(weir_text_from(rows[i].sent), lines, 2, &described, &error),
            WEIR_E_VALUE);
        assert_non_null(strstr(error.text, rows[i].piece));
    }
}

static void refuses_what_cannot_be_described(void **state)
{
    (void)state;
    const struct weir_line line = { WEIR_TEXT("a b"), WEIR_TEXT("c") };
    const struct {
        struct weir_described described;
        const char *piece;
    } rows[] = {
        { { .peer = "192.0.2.7" }, "There is no path" },
        { { .target = WEIR_TEXT("/a"), .peer = "localhost" }, "The peer is \"localhost\"" },
        { { .target = WEIR_TEXT("/a"), .method = WEIR_TEXT("") }, "There is no method" },
        { { .target = WEIR_TEXT("/a"), .headers = &line, .header_count = 1 },
          "Header line 1 has no name" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        assert_null(weir_explain(bench.limiter, &rows[i].described, &error));
        assert_int_equal(error.code, WEIR_E_VALUE);
        assert_non_null(strstr(error.text, rows[i].piece));
    }
}

static void says_when_no_address_is_counted(void **state)
{
    (void)state;
    json_t *explanation = explain_sent("unix", "GET /office HTTP/1.1\nX-Real-IP: 192.0.2.7\n\n");
    assert_true(has_hint(explanation,
                         "The request has X-Real-IP, but \"client_ip\".\"header\" is "
                         "X-Forwarded-For: no address is known, and no limit by address holds."));
    json_decref(explanation);
    explanation = explain_sent("10.0.0.1", "GET /office HTTP/1.1\nX-Real-IP: 192.0.2.7\n\n");
    assert_true(has_hint(explanation, "the proxy's address 10.0.0.0/24 is counted."));
    json_decref(explanation);
}

static void takes_a_unix_socket_and_every_form_of_path(void **state)
{
    (void)state;
    static const struct {
        const char *target, *path;
    } rows[] = { { "/v1//a/./b/", "/v1/a/b" },
                 { "/%76%31/x", "/v1/x" },
                 { "http://example.com/v1/y", "/v1/y" },
                 { "/v1/%zz", "/v1/%zz" } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        json_t *explanation = explain(
            &(struct weir_described){ .target = weir_text_from(rows[i].target), .peer = "unix" });
        assert_string_equal(text_at(explanation, "request", "path"), rows[i].path);
        assert_null(text_at(explanation, "address", "client"));
        json_decref(explanation);
    }
}

/* what was decided before */

static void refuse_once(const char *key_header, const char *key, const char *id, const char *peer)
{
    struct weir_request *request = by_hand_request(bench.chain, "GET", "/office");
    by_hand_peer(request, "10.0.0.1");
    by_hand_header(request, "X-Request-Id", id);
    by_hand_header(request, "X-Forwarded-For", peer);
    by_hand_header(request, key_header, key);
    assert_int_equal(by_hand_run(request), 429);
    weir_request_end(request);
}

static void explains_a_request_that_was_refused(void **state)
{
    (void)state;
    struct weir_error error = WEIR_NO_ERROR;
    spend("office", "203.0.113.9", NULL, 2);
    refuse_once("X-API-Key", "foo", "first", "203.0.113.7");
    now_us += 100000;
    for (unsigned i = 0; i < 24; i++)
        refuse_once("X-Other", "", "later", "203.0.113.8");
    json_t *explanation = weir_explain_recent(bench.limiter, "first", &error);
    assert_non_null(explanation);
    assert_string_equal(text_at(explanation, "request", "path"), "/office");
    assert_string_equal(text_at(explanation, "request", "id"), "first");
    assert_string_equal(text_at(explanation, "route", "match"), "* /office");
    assert_string_equal(text_at(explanation, "verdict", "outcome"), "limited");
    assert_string_equal(text_at(explanation, "decided", "request_id"), "first");
    assert_string_equal(summary_of(explanation), "Refused by policy office, limit address (gcra "
                                                 "2/minute, burst 2), key ip:203.0.113.0/24: 0 of "
                                                 "2 left, next in 30 seconds.");
    assert_true(has_hint(explanation, "2 clients were refused under this key"));
    assert_true(has_hint(explanation, "it sends in bursts, or asks again without waiting"));
    char *text = print(explanation);
    assert_non_null(strstr(text, "answer    429, limited\n"));
    free(text);
    json_decref(explanation);

    assert_null(weir_explain_recent(bench.limiter, "never", &error));
    assert_int_equal(error.code, WEIR_E_REFERENCE);
}

/* Asks twice while another request is under way in the back end, the second time with the first not over;
 * fails unless the second is answered so. */
static json_t *explain_second(const char *method, const char *path, const char *header,
                              const char *value, unsigned status)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_request *requests[2];
    struct weir_slots *back_end = weir_limiter_slots(bench.limiter, "db");
    assert_true(weir_slots_take(back_end, 0));
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        requests[i] = by_hand_request(bench.chain, method, path);
        by_hand_peer(requests[i], "10.0.0.1");
        by_hand_header(requests[i], "X-Request-Id", i == 0 ? "first" : "second");
        by_hand_header(requests[i], "X-Forwarded-For", "192.0.2.7");
        by_hand_header(requests[i], header, value);
        unsigned answered = by_hand_run(requests[i]);
        if (i == 1)
            assert_int_equal(answered, status);
    }
    json_t *explanation = weir_explain_recent(bench.limiter, "second", &error);
    if (explanation == NULL)
        fail_msg("%s", error.text);
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        weir_request_end(requests[i]);
    weir_slots_give(back_end, 0, WEIR_SLOT_UNTOLD, 0, 0);
    return explanation;
}

static void says_what_became_of_a_request(void **state)
{
    (void)state;
    static const struct {
        const char *when, *method, *path, *header, *value, *route, *summary;
        unsigned status;
        bool is_away;
    } rows[] = {
        { "too many at once", "GET", "/few", "X-Other", "", "* /few",
          "Refused by policy few, limit concurrency, key ip:192.0.2.0/24: 1 request at once, and "
          "as "
          "many were under way; next as soon as one has ended.",
          429, false },
        { "too many for the back end", "GET", "/back", "X-Other", "", "* /back",
          "Refused by policy back, limit concurrency: the back end takes 1 request at once, and as "
          "many were under way; next as soon as some have ended.",
          503, false },
        { "a cost that never fits", "GET", "/watched", "X-Other", "", "* /watched",
          "Let through, since it is only watched; else refused by policy watched, limit none (gcra "
          "0/minute, burst 0), key ip:192.0.2.0/24: 0 of 0 left, and it never holds the cost of 1.",
          200, false },
        { "left to the handler", "GET", "/left", "X-Other", "", "* /left",
          "Refused by policy left, limit none (gcra 0/minute, burst 0), key ip:192.0.2.0/24: 0 of "
          "0 "
          "left, and it never holds the cost of 1. The application was left to say so.",
          500, false }, /* the handler forgets to */
        { "no identity", "GET", "/v1/search", "X-Other", "", "GET /v1/search",
          "Refused with 401: the route asks for an identity, and the request had none that is "
          "known.",
          401, false },
        { "a key that nobody has", "GET", "/v1/search", "X-API-Key", "bar", "GET /v1/search",
          "Refused with 401: the route asks for an identity, and the request had none that is "
          "known.",
          401, false },
        { "denied by the file", "GET", "/free", "X-Forwarded-For", "203.0.113.66", "* /free",
          "Refused with 403 by the file's deny list, which names 203.0.113.0/24.", 403, false },
        { "no path", "GET", "/../..", "X-Other", "", "default",
          "Refused with 400: its path cannot be normalised.", 400, false },
        { "a store that fails, closed", "GET", "/closed", "X-Other", "", "* /closed",
          "Refused with 503: the store failed (no answer), and that is what policy closed says "
          "then.",
          503, true },
        { "a store that fails, open", "GET", "/open", "X-Other", "", "* /open",
          "Let through uncounted: the store failed (no answer), and that is what policy open says "
          "then.",
          200, true },
        { "a store that fails, by memory", "GET", "/memory", "X-Other", "", "* /memory",
          "Let through by policy memory, counted in this process, since the store did not answer.",
          200, true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        fragile.is_away = rows[i].is_away;
        json_t *explanation = explain_second(rows[i].method, rows[i].path, rows[i].header,
                                             rows[i].value, rows[i].status);
        assert_string_equal(summary_of(explanation), rows[i].summary);
        assert_string_equal(text_at(explanation, "route", "match"), rows[i].route);
        json_decref(explanation);
    }
}

static void tells_requests_at_once_apart_from_limits(void **state)
{
    (void)state;
    json_t *explanation = explain_second("GET", "/few", "X-Other", "", 429);
    assert_int_equal(json_array_size(json_object_get(explanation, "limits")), 0);
    assert_string_equal(text_at(explanation, "concurrency", "key"), "ip:192.0.2.0/24");
    char *text = print(explanation);
    assert_non_null(strstr(text, "at once   1 requests by ip: refuses\n"));
    free(text);
    json_decref(explanation);
    explanation = explain_second("GET", "/back", "X-Other", "", 503);
    text = print(explanation);
    assert_non_null(strstr(text, "at once   back end db, 1 requests: refuses\n"));
    free(text);
    json_decref(explanation);
}

/* What is kept of a request is not always enough to find its route again. */
static void tells_no_route_that_the_request_cannot_have_taken(void **state)
{
    (void)state;
    struct weir_error error = WEIR_NO_ERROR;
    static const char other[] = "{\"policies\": {\"else\": {\"limits\": [{\"name\": \"n\","
                                "\"by\": \"ip\", \"rate\": \"5/minute\"}]}}, \"default\":"
                                " \"else\", \"secret\": \"s\"}";
    struct weir_policy *policy = NULL;
    json_decref(explain_second("GET", "/few", "X-Other", "", 429));
    assert_int_equal(weir_policy_parse(other, strlen(other), NULL, &policy, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_replace(bench.limiter, policy, NULL), WEIR_OK);
    json_t *explanation = weir_explain_recent(bench.limiter, "second", &error);
    assert_non_null(explanation);
    assert_null(json_object_get(explanation, "route"));
    char *text = print(explanation);
    assert_null(strstr(text, "\nroute"));
    free(text);
    json_decref(explanation);
}

/* what is blocked or banned */

static void block_listed(const char *policy, const char *ip, uint64_t seconds)
{
    json_t *block = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_keys_block(bench.limiter, WEIR_SUBJECT(.policy = policy, .ip = ip), seconds, "abuse",
                        "ann", &block, &error)
        != WEIR_OK)
        fail_msg("%s", error.text);
    json_decref(block);
}

static void expect_text(const json_t *explanation, const char *piece)
{
    char *text = print(explanation);
    if (strstr(text, piece) == NULL)
        fail_msg("\"%s\" is not in\n%s", piece, text);
    free(text);
}

static void says_by_whom_a_key_is_blocked(void **state)
{
    (void)state;
    static const char *const paths[] = { "/office", "/window", "/log" };
    static const char *const policies[] = { "office", "window", "log" };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        print_message("    %s\n", paths[i]);
        block_listed(policies[i], "192.0.2.7", 60);
        json_t *explanation = explain(
            &(struct weir_described){ .target = weir_text_from(paths[i]), .peer = "192.0.2.7" });
        const json_t *limit = json_array_get(json_object_get(explanation, "limits"), 0);
        const json_t *block = json_object_get(limit, "block");
        assert_int_equal(json_integer_value(json_object_get(limit, "retry_us")), 60000000);
        assert_string_equal(json_string_value(json_object_get(limit, "blocked_until")),
                            "2027-01-15T08:01:00.000Z");
        assert_string_equal(json_string_value(json_object_get(block, "reason")), "abuse");
        assert_string_equal(json_string_value(json_object_get(block, "by")), "ann");
        assert_non_null(strstr(summary_of(explanation),
                               "key ip:192.0.2.0/24: blocked by an operator until "
                               "2027-01-15T08:01:00.000Z, in 60 seconds: abuse."));
        assert_true(has_hint(explanation, "has been blocked by ann at 2027-01-15T08:00:00.000Z"));
        assert_false(has_hint(explanation, "begin on the clock"));
        expect_text(explanation, "blocked until 2027-01-15T08:01:00.000Z by ann (abuse), refuses, "
                                 "passes in 60.0 s\n");
        expect_text(explanation, "\n          Retry-After: 60\n");
        json_decref(explanation);
    }
}

static void says_that_the_application_has_blocked(void **state)
{
    (void)state;
    assert_int_equal(weir_limiter_block(bench.limiter,
                                        WEIR_SUBJECT(.policy = "office", .ip = "192.0.2.7"), 45,
                                        NULL),
                     WEIR_OK);
    json_t *explanation =
        explain(&(struct weir_described){ .target = WEIR_TEXT("/office"), .peer = "192.0.2.7" });
    assert_non_null(strstr(summary_of(explanation), ": blocked until 2027-01-15T08:00:45.000Z, in "
                                                    "45 seconds."));
    assert_true(has_hint(explanation, "no operator's block is listed for it"));
    json_decref(explanation);
}

static unsigned ask_from(const char *client, const char *path, const char *id)
{
    struct weir_request *request = by_hand_request(bench.chain, "GET", path);
    by_hand_peer(request, "10.0.0.1"); /* whose ids of requests are taken over */
    by_hand_header(request, "X-Forwarded-For", client);
    by_hand_header(request, "X-Request-Id", id);
    unsigned status = by_hand_run(request);
    weir_request_end(request);
    return status;
}

static json_t *explain_recent(const char *id)
{
    struct weir_error error = WEIR_NO_ERROR;
    json_t *explanation = weir_explain_recent(bench.limiter, id, &error);
    if (explanation == NULL)
        fail_msg("%s", error.text);
    return explanation;
}

static void says_by_whom_a_request_was_blocked(void **state)
{
    (void)state;
    assert_int_equal(ask_from("198.51.100.9", "/log", "x"), 200);
    assert_int_equal(ask_from("198.51.100.9", "/log", "before"), 429);
    now_us += 5000000;
    block_listed("log", "198.51.100.9", 60);
    now_us += 5000000;
    assert_int_equal(ask_from("198.51.100.9", "/log", "blocked"), 429);
    json_t *explanation = explain_recent("blocked");
    assert_non_null(strstr(summary_of(explanation),
                           "blocked by an operator until 2027-01-15T08:01:05.000Z, in 55 seconds: "
                           "abuse."));
    expect_text(explanation, "blocked until 2027-01-15T08:01:05.000Z by ann (abuse), refuses");
    assert_true(has_hint(explanation, "has been blocked by ann at"));
    json_decref(explanation);
    /* What was refused before that, for its sum, is told so, and that it is blocked now. */
    explanation = explain_recent("before");
    assert_non_null(strstr(summary_of(explanation), "0 of 1 left, next in 60 seconds."));
    assert_true(has_hint(explanation, "has been blocked by ann at"));
    json_decref(explanation);
}

static void says_that_a_penalty_has_banned(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ask_from("192.0.2.7", "/strict", "x"), 200);
    assert_int_equal(ask_from("192.0.2.7", "/strict", "refused"), 429);
    assert_int_equal(ask_from("192.0.2.7", "/strict", "banned"), 429);
    json_t *explanation = explain_recent("refused");
    assert_non_null(strstr(summary_of(explanation), "0 of 3 left, next in 1 second."));
    assert_true(has_hint(explanation, "Limit few has a penalty"));
    json_decref(explanation);
    explanation = explain_recent("banned");
    assert_non_null(strstr(summary_of(explanation),
                           "banned by its penalty until 2027-01-15T08:05:00.000Z, in 5 minutes."));
    assert_true(has_hint(explanation, "The penalty of limit few has banned the key"));
    assert_false(has_hint(explanation, "at once: requests that come in bursts"));
    json_decref(explanation);
    now_us += 60000000;
    explanation =
        explain(&(struct weir_described){ .target = WEIR_TEXT("/strict"), .peer = "192.0.2.7" });
    assert_non_null(strstr(summary_of(explanation),
                           "banned by its penalty until 2027-01-15T08:05:00.000Z, in 4 minutes."));
    expect_text(explanation, "banned by its penalty until 2027-01-15T08:05:00.000Z, refuses");
    json_decref(explanation);
}

static void knows_of_no_wait_that_a_first_ban_may_lengthen(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ask_from("192.0.2.7", "/strict", "x"), 200);
    json_t *explanation =
        explain(&(struct weir_described){ .target = WEIR_TEXT("/strict"), .peer = "192.0.2.7" });
    const json_t *limit = limit_of(explanation, "few");
    assert_null(json_object_get(limit, "retry_us"));
    assert_int_equal(json_integer_value(json_object_get(limit, "retry_most_us")), 3600000000);
    json_decref(explanation);
}

int main(void)
{
#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(names_each_hop),
        CASE(says_why_a_route_does_not_match),
        CASE(says_why_a_limit_does_not_hold),
        CASE(says_it_in_a_sentence),
        CASE(keeps_out_whom_a_list_names),
        CASE(says_what_a_guess_costs),
        CASE(follows_the_rule_for_a_store_that_fails),
        CASE(asks_nobody_where_nothing_is_to_count),
        CASE(counts_by_a_field),
        CASE(knows_a_device_by_its_cookie),
        CASE(says_where_to_look),
        CASE(has_nothing_to_hint_at_where_all_is_well),
        CASE(never_shows_a_key),
        CASE(prints_no_control_characters),
        CASE(prints_the_steps_in_order),
        CASE(reads_a_request_as_it_is_sent),
        CASE(refuses_what_is_no_request),
        CASE(refuses_what_cannot_be_described),
        CASE(takes_a_unix_socket_and_every_form_of_path),
        CASE(explains_a_request_that_was_refused),
        CASE(says_what_became_of_a_request),
        CASE(tells_requests_at_once_apart_from_limits),
        CASE(tells_no_route_that_the_request_cannot_have_taken),
        CASE(says_by_whom_a_key_is_blocked),
        CASE(says_that_the_application_has_blocked),
        CASE(says_by_whom_a_request_was_blocked),
        CASE(says_that_a_penalty_has_banned),
        CASE(knows_of_no_wait_that_a_first_ban_may_lengthen),
        CASE(says_when_no_address_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
