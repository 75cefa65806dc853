/* What simulate says of a log is what the limiter decided when its requests came: both are run over the
 * same requests, and each decision is compared. WEIR_SIMULATE_LINES says how many there are. */
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>
#include <weir/weir.h>

#include "by_hand.h"
#include "tools/tool.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LINES 10000
#else
#define LINES 100000
#endif

#define LATE_MAX 40 /* a line comes so many places too late, at most */

/* the world */

static const char keys_json[] =
    "{\"keys\": [{\"id\": \"acme-free\", \"tenant\": \"acme\", \"plan\": \"free\", \"sha256\":"
    " \"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}," /* "foo" */
    " {\"id\": \"globex-pro\", \"user\": \"ann\", \"plan\": \"pro\", \"sha256\":"
    " \"fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9\"}]}"; /* "bar" */

static const char policy_json[] =
    "{\"store\": {\"url\": \"redis://127.0.0.1:1/0\", \"denial_cache\": \"1s\"},"
    " \"secret\": \"a-secret-of-some-bytes\","
    " \"client_ip\": {\"trust\": [\"10.0.0.0/8\"], \"header\": \"X-Forwarded-For\","
    "  \"ipv4_prefix\": 24},"
    " \"api_keys\": {\"header\": \"X-API-Key\", \"file\": \"keys.json\", \"guesses\": "
    "\"3/minute\"},"
    " \"deny\": {\"ip\": [\"198.51.100.0/28\"]}, \"allow\": {\"ip\": [\"203.0.113.7\"]},"
    " \"plans\": {\"free\": {\"burst\": \"2/second\", \"daily\": \"4000/day\"},"
    "  \"pro\": {\"burst\": {\"rate\": \"9/second\", \"burst\": 30}, \"daily\": \"unlimited\"}},"
    " \"policies\": {"
    "  \"api\": {\"limits\": ["
    "   {\"name\": \"burst\", \"by\": \"client\", \"rate\": \"plan\"},"
    "   {\"name\": \"daily\", \"by\": \"tenant|client\", \"rate\": \"plan\","
    "    \"algorithm\": \"fixed-window\", \"calendar\": \"Europe/Berlin\"},"
    "   {\"name\": \"all\", \"by\": [\"global\", \"route\"], \"rate\": \"200/10seconds\","
    "    \"algorithm\": \"sliding-counter\"}]},"
    "  \"search\": {\"limits\": ["
    "   {\"name\": \"words\", \"by\": [\"client\", \"query:q\"], \"rate\": \"30/minute\","
    "    \"algorithm\": \"sliding-log\"},"
    "   {\"name\": \"queue\", \"by\": \"ip\", \"rate\": \"4/second\", \"burst\": 8,"
    "    \"algorithm\": \"leaky-bucket\", \"max_wait\": \"1s\"}]},"
    "  \"login\": {\"limits\": ["
    "   {\"name\": \"tries\", \"by\": \"ip\", \"rate\": \"10/15minutes\","
    "    \"algorithm\": \"sliding-log\", \"count\": \"failures\","
    "    \"penalty\": {\"after\": 3, \"ban\": [\"1m\", \"1h\"]}}]},"
    "  \"tried\": {\"mode\": \"shadow\", \"limits\": ["
    "   {\"name\": \"device\", \"by\": \"header:X-Device\", \"rate\": \"20/minute\"}]},"
    "  \"half\": {\"enforce_percent\": 50, \"limits\": ["
    "   {\"name\": \"item\", \"by\": [\"ip\", \"param:id\"], \"rate\": \"5/minute\","
    "    \"algorithm\": \"token-bucket\"}]}},"
    " \"routes\": ["
    "  {\"match\": \"POST /login\", \"auth\": \"none\", \"policy\": \"login\"},"
    "  {\"match\": \"GET /v1/search\", \"auth\": \"optional\", \"policy\": \"search\"},"
    "  {\"match\": \"GET /v1/items/:id\", \"auth\": \"optional\", \"policy\": \"half\"},"
    "  {\"match\": \"* /v1/account\", \"auth\": \"required\", \"policy\": \"api\", \"cost\": 3},"
    "  {\"match\": \"* /v1/*\", \"auth\": \"optional\", \"policy\": \"api\"},"
    "  {\"match\": \"* /free/*\", \"auth\": \"none\"}],"
    " \"default\": \"tried\"}";

/* As a client writes it, and as libmicrohttpd hands it out. */
static const struct {
    const char *raw, *path, *query;
} targets[] = {
    { "/login", "/login", NULL },
    { "/v1/search?q=gate%2B1", "/v1/search", "gate+1" },
    { "/v1/search?q=gate+1", "/v1/search", "gate 1" },
    { "/v1/items/7", "/v1/items/7", NULL },
    { "/v1//./items/%37", "/v1//./items/7", NULL },
    { "/v1/account", "/v1/account", NULL },
    { "/v1/a%20b", "/v1/a b", NULL },
    { "/free/x", "/free/x", NULL },
    { "/../x", "/../x", NULL },
    { "/", "/", NULL },
};

static const struct {
    const char *secret, *id;
} keys[] = { { NULL, NULL }, { "foo", "acme-free" }, { "bar", "globex-pro" }, { "??", "no-such" } };

static const char *const methods[] = { "GET", "POST", "HEAD" };
static const char *const users[] = { NULL, NULL, "ann", "bob" };
static const char *const devices[] = { NULL, "d1", "D2" };
static const unsigned statuses[] = { 200, 200, 201, 304, 401, 404, 500 };

struct asked {
    uint64_t time_us;
    uint8_t target, method, key, user, device, status, net, host;
    bool is_forwarded;
    uint8_t cost; /* 0: the route's */
};

/* What became of it. */
struct became {
    uint64_t time_us;
    enum weir_outcome outcome;
    const char *policy, *limit; /* NULL or literals of the policy in memory */
    uint64_t retry_s;
};

/* xorshift64* (Vigna) */
static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t pick(uint64_t count)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * UINT64_C(2685821657736338717) >> 16) % count;
}

static void choose(struct asked *asked, uint64_t *now_us)
{
    *now_us += 1 + pick(pick(50) == 0 ? 400000 : 9000);
    *asked = (struct asked){ .time_us = *now_us,
                             .target = (uint8_t)pick(COUNT_OF(targets)),
                             .method = (uint8_t)(pick(3) == 0 ? pick(COUNT_OF(methods)) : 0),
                             .key = (uint8_t)(pick(3) == 0 ? pick(COUNT_OF(keys)) : 0),
                             .user = (uint8_t)pick(COUNT_OF(users)),
                             .device = (uint8_t)pick(COUNT_OF(devices)),
                             .status = (uint8_t)pick(COUNT_OF(statuses)),
                             .net = (uint8_t)pick(3),
                             .host = (uint8_t)pick(pick(4) == 0 ? 250 : 8),
                             .is_forwarded = pick(2) == 0,
                             .cost = (uint8_t)(pick(20) == 0 ? 1 + pick(5) : 0) };
    if (asked->target == 0)
        asked->method = 1;
}

static void address_of(const struct asked *asked, char text[32])
{
    static const char *const nets[] = { "203.0.113", "198.51.100", "192.0.2" };
    snprintf(text, 32, "%s.%u", nets[asked->net], asked->host + 1u);
}

/* the limiter, when they came */

static uint64_t live_now_us;
static const struct asked *live_asked;
static struct became *live_became;

static uint64_t read_clock(void *self)
{
    (void)self;
    return live_now_us;
}

static void note_decision(void *self, const struct weir_decision *decision)
{
    (void)self;
    live_became->outcome = decision->outcome;
    live_became->policy = decision->policy;
    live_became->limit = decision->limit;
    live_became->retry_s = decision->retry_s;
}

static uint64_t live_cost(void *self, struct weir_request *request, uint64_t route_cost)
{
    (void)self;
    (void)request;
    return live_asked->cost > 0 ? live_asked->cost : route_cost;
}

static enum weir_step authenticate(void *self, struct weir_request *request)
{
    (void)self;
    if (users[live_asked->user] != NULL)
        assert_true(weir_request_set_user(request, users[live_asked->user]));
    return WEIR_NEXT;
}

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    weir_reply_text(request, statuses[live_asked->status], "");
    return WEIR_DONE;
}

static struct weir_request *make_request(struct weir_chain *chain, const struct asked *asked,
                                         char address[32], struct weir_line *query)
{
    struct weir_request *request =
        by_hand_request(chain, methods[asked->method], targets[asked->target].path);
    by_hand_peer(request, asked->is_forwarded ? "10.0.0.1" : address);
    if (asked->is_forwarded)
        by_hand_header(request, "X-Forwarded-For", address);
    if (keys[asked->key].secret != NULL)
        by_hand_header(request, "X-API-Key", keys[asked->key].secret);
    if (devices[asked->device] != NULL)
        by_hand_header(request, "X-Device", devices[asked->device]);
    *query = (struct weir_line){ WEIR_TEXT("q"), weir_text_from(targets[asked->target].query) };
    request->facts.queries = query;
    request->facts.query_count = targets[asked->target].query != NULL;
    return request;
}

static void ask_live(struct weir_chain *chain, const struct asked *asked, struct became *became)
{
    char address[32];
    struct weir_line query;
    address_of(asked, address);
    live_asked = asked;
    live_became = became;
    live_now_us = asked->time_us;
    *became = (struct became){ .time_us = asked->time_us };
    struct weir_request *request = make_request(chain, asked, address, &query);
    /* A leaky bucket lets it wait, and the clock stands still until it may go on. */
    while (by_hand_run(request) == 0)
        weir_parking_wake_due(&chain->parking, UINT64_MAX);
    weir_request_end(request);
}

static void run_live(const char *policy_file, const struct asked *asked, struct became *became,
                     size_t count, struct weir_policy **policy)
{
    struct weir_error error = WEIR_NO_ERROR;
    const struct weir_clock clock = { read_clock, NULL };
    struct weir_store *store;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    if (weir_policy_load(policy_file, policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(weir_store_open("memory:", WEIR_STORE_OPTIONS(.clock = &clock), &store, NULL),
                     WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = *policy, .store = store, .clock = &clock,
                                              .on_decision = note_decision, .cost = live_cost),
                         &limiter, &error),
        WEIR_OK);
    assert_int_equal(weir_chain_new(WEIR_CHAIN_OPTIONS(.parked_max = 1), &chain, NULL), WEIR_OK);
    static int self;
    weir_chain_use(chain,
                   WEIR_MIDDLEWARE(.name = "auth", .self = &self, .on_request = authenticate));
    weir_chain_use(chain, weir_limit(limiter));
    weir_chain_any(chain, "*", handle, NULL);
    for (size_t i = 0; i < count; i++)
        ask_live(chain, &asked[i], &became[i]);
    weir_chain_free(chain);
    weir_limiter_free(limiter);
    weir_store_free(store);
}

/* the log of it */

static void put(FILE *log, const char *name, const char *value)
{
    if (value != NULL)
        fprintf(log, ", \"%s\": \"%s\"", name, value);
}

static void write_json(FILE *log, const struct asked *asked)
{
    char address[32];
    address_of(asked, address);
    fprintf(log, "{\"time\": %llu", (unsigned long long)asked->time_us);
    put(log, "remote_addr", asked->is_forwarded ? "10.0.0.1" : address);
    put(log, "http_x_forwarded_for", asked->is_forwarded ? address : "-");
    put(log, "method", methods[asked->method]);
    put(log, "request_uri", targets[asked->target].raw);
    put(log, "user", users[asked->user]);
    put(log, "api_key_id", keys[asked->key].id);
    put(log, "device", devices[asked->device]);
    if (asked->cost > 0)
        fprintf(log, ", \"cost\": %u", asked->cost);
    fprintf(log, ", \"status\": %u}\n", statuses[asked->status]);
}

/* What these lines cannot hold was not asked. */
static void write_common(FILE *log, const struct asked *asked)
{
    char address[32];
    uint64_t second = asked->time_us / 1000000 % 86400;
    address_of(asked, address);
    fprintf(log, "%s - %s [04/Mar/2026:%02u:%02u:%02u +0000] \"%s %s HTTP/1.1\" %u 17\n", address,
            users[asked->user] == NULL ? "-" : users[asked->user], (unsigned)(second / 3600),
            (unsigned)(second / 60 % 60), (unsigned)(second % 60), methods[asked->method],
            targets[asked->target].raw, statuses[asked->status]);
}

/* Lines come when requests end, and not when they begin. */
static void write_late(FILE *log, const struct asked *asked, size_t count)
{
    size_t *order = calloc(count, sizeof *order);
    assert_non_null(order);
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = 0; i + LATE_MAX < count; i++) {
        size_t other = i + (size_t)pick(pick(3) == 0 ? LATE_MAX : 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (size_t i = 0; i < count; i++)
        write_json(log, &asked[order[i]]);
    free(order);
}

/* simulate, and what it says */

struct files {
    char folder[32], policy[64], keys[64], log[64], decisions[64];
};

static int simulate(struct files *files)
{
    char name[] = "simulate", policy[] = "--policy", decisions[] = "--decisions", json[] = "--json",
         map[] = "--map=header:X-Device=device";
    char *arguments[] = { name,      files->log,       policy, files->policy,
                          decisions, files->decisions, json,   map };
    /* Its figures are of no interest here. */
    fflush(stdout);
    int kept = dup(STDOUT_FILENO), null = open("/dev/null", O_WRONLY);
    assert_true(kept >= 0 && null >= 0);
    dup2(null, STDOUT_FILENO);
    int status = weir_tool_simulate((int)COUNT_OF(arguments), arguments);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    close(null);
    return status;
}

static bool is_same_text(const json_t *line, const char *name, const char *wanted)
{
    const char *said = json_string_value(json_object_get(line, name));
    return said == NULL || wanted == NULL ? said == wanted : strcmp(said, wanted) == 0;
}

static void compare(const json_t *line, const struct became *became, const struct asked *asked)
{
    const char *outcome = json_string_value(json_object_get(line, "outcome"));
    uint64_t time_us = (uint64_t)json_integer_value(json_object_get(line, "time_us"));
    uint64_t retry_s = (uint64_t)json_integer_value(json_object_get(line, "retry_s"));
    bool is_told = became->outcome != WEIR_ALLOWED; /* of others only simulate names the policy */
    if (time_us == became->time_us && strcmp(outcome, weir_outcome_name(became->outcome)) == 0
        && retry_s == became->retry_s && is_same_text(line, "limit", became->limit)
        && (!is_told || is_same_text(line, "policy", became->policy)))
        return;
    char *text = json_dumps(line, 0);
    fail_msg("%s %s at %llu was %s by %s/%s, retry %llu; simulated: %s", methods[asked->method],
             targets[asked->target].raw, (unsigned long long)became->time_us,
             weir_outcome_name(became->outcome), became->policy == NULL ? "-" : became->policy,
             became->limit == NULL ? "-" : became->limit, (unsigned long long)became->retry_s,
             text);
}

static void compare_all(const struct files *files, const struct became *became,
                        const struct asked *asked, size_t count, size_t seen[WEIR_BUSY + 1])
{
    FILE *stream = fopen(files->decisions, "r");
    assert_non_null(stream);
    for (size_t i = 0; i < count; i++) {
        json_t *line = json_loadf(stream, JSON_DISABLE_EOF_CHECK, NULL);
        assert_non_null(line);
        compare(line, &became[i], &asked[i]);
        seen[became[i].outcome]++;
        json_decref(line);
    }
    assert_int_equal(fgetc(stream), '\n');
    assert_int_equal(fgetc(stream), EOF);
    fclose(stream);
}

static size_t line_count(void)
{
    const char *wanted = getenv("WEIR_SIMULATE_LINES");
    return wanted == NULL ? LINES : (size_t)strtoull(wanted, NULL, 10);
}

static FILE *open_log(const struct files *files)
{
    FILE *log = fopen(files->log, "w");
    assert_non_null(log);
    return log;
}

static void run_both(struct files *files, const struct asked *asked, size_t count,
                     size_t seen[WEIR_BUSY + 1])
{
    struct became *became = calloc(count, sizeof *became);
    struct weir_policy *policy;
    assert_non_null(became);
    run_live(files->policy, asked, became, count, &policy);
    assert_int_equal(simulate(files), WEIR_TOOL_FINE);
    compare_all(files, became, asked, count, seen);
    weir_policy_free(policy);
    free(became);
}

static void decides_a_log_as_the_limiter_did(void **state)
{
    struct files *files = *state;
    size_t count = line_count(), seen[WEIR_BUSY + 1] = { 0 };
    struct asked *asked = calloc(count, sizeof *asked);
    assert_non_null(asked);
    /* Shortly before the clocks of Berlin are put forward. */
    uint64_t now_us = UINT64_C(1774740000) * 1000000;
    for (size_t i = 0; i < count; i++)
        choose(&asked[i], &now_us);
    FILE *log = open_log(files);
    write_late(log, asked, count);
    assert_int_equal(fclose(log), 0);
    run_both(files, asked, count, seen);
    /* It is not all of one kind. */
    static const enum weir_outcome wanted[] = { WEIR_ALLOWED, WEIR_LIMITED, WEIR_SHADOW_LIMITED,
                                                WEIR_UNAUTHENTICATED, WEIR_DENIED };
    for (size_t i = 0; i < COUNT_OF(wanted); i++)
        assert_true(seen[wanted[i]] > count / 1000);
    free(asked);
}

static void decides_lines_of_whole_seconds_in_their_order(void **state)
{
    struct files *files = *state;
    size_t count = line_count() / 10, seen[WEIR_BUSY + 1] = { 0 };
    struct asked *asked = calloc(count, sizeof *asked);
    assert_non_null(asked);
    uint64_t now_us = UINT64_C(1772582400) * 1000000; /* 2026-03-04 */
    FILE *log = open_log(files);
    for (size_t i = 0; i < count; i++) {
        choose(&asked[i], &now_us);
        asked[i].time_us -= asked[i].time_us % 1000000;
        asked[i].key = asked[i].device = asked[i].cost = 0;
        asked[i].is_forwarded = false;
        write_common(log, &asked[i]);
    }
    assert_int_equal(fclose(log), 0);
    run_both(files, asked, count, seen);
    assert_true(seen[WEIR_ALLOWED] > 0 && seen[WEIR_LIMITED] > 0);
    free(asked);
}

/* files */

static void write_file(const char *name, const char *text)
{
    FILE *stream = fopen(name, "w");
    assert_non_null(stream);
    assert_true(fputs(text, stream) >= 0);
    assert_int_equal(fclose(stream), 0);
}

static int set_up(void **state)
{
    static struct files files;
    strcpy(files.folder, "/tmp/weir-simulate-XXXXXX");
    assert_non_null(mkdtemp(files.folder));
    snprintf(files.policy, sizeof files.policy, "%s/policy.json", files.folder);
    snprintf(files.keys, sizeof files.keys, "%s/keys.json", files.folder);
    snprintf(files.log, sizeof files.log, "%s/access.log", files.folder);
    snprintf(files.decisions, sizeof files.decisions, "%s/decisions", files.folder);
    write_file(files.policy, policy_json);
    write_file(files.keys, keys_json);
    *state = &files;
    return 0;
}

static int tear_down(void **state)
{
    struct files *files = *state;
    remove(files->policy);
    remove(files->keys);
    remove(files->log);
    remove(files->decisions);
    return remove(files->folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_a_log_as_the_limiter_did),
        cmocka_unit_test(decides_lines_of_whole_seconds_in_their_order),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
