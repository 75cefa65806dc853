/* Policies that are replaced under load: leases, denials, slots, settlements and requests that wait,
 * over Redis and in memory. Sanitizers see whether anything of an old policy is used, or kept.
 *
 * WEIR_RELOADS=n   so many in place of the program's own number, which is small */
#include "test.h"

#include <pthread.h>
#include <unistd.h>

#include <weir/weir.h>

#include "client.h"
#include "limit/limiter_internal.h"
#include "redis_server.h"

#define RELOADS 300

/* files */

static char folder[] = "/tmp/weir-reload-load-XXXXXX";

static const char *in_folder(const char *name, char path[100])
{
    snprintf(path, 100, "%s/%s", folder, name);
    return path;
}

static void write_to(const char *name, const char *text)
{
    char path[100];
    FILE *out = fopen(in_folder(name, path), "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static const char keys[] =
    "{\"keys\": [{\"id\": \"one\", \"sha256\": "
    "\"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed\", \"user\": \"ann\"}]}";

#define HEAD                                                                                       \
    "{ \"store\": {\"url\": \"%s\", \"timeout\": \"20s\"%s}, \"secret\": "                         \
    "\"0123456789abcdef0123456789abcdef\","                                                        \
    "  \"api_keys\": {\"header\": \"X-API-Key\", \"file\": \"keys.json\"},"
#define ROUTES                                                                                     \
    "  \"routes\": [{\"match\": \"* /leased\", \"auth\": \"optional\", \"policy\": \"leased\"},"   \
    "    {\"match\": \"* /strict\", \"auth\": \"optional\", \"policy\": \"strict\"},"              \
    "    {\"match\": \"* /tries\", \"auth\": \"optional\", \"policy\": \"tries\"}] }"

static const char policy_a[] = HEAD
    "  \"policies\": {"
    "    \"leased\": {\"limits\": [{\"name\": \"month\", \"by\": \"user\", \"rate\": "
    "      \"1000000/month\", \"algorithm\": \"fixed-window\", \"calendar\": \"Europe/Berlin\","
    "      \"lease\": {\"batch\": 50}}]},"
    "    \"strict\": {\"limits\": [{\"name\": \"hour\", \"by\": \"user\", \"rate\": \"100/hour\"}],"
    "      \"on_store_failure\": \"memory\"},"
    "    \"tries\": {\"limits\": [{\"name\": \"day\", \"by\": \"user\", \"rate\": \"100000/day\","
    "      \"algorithm\": \"fixed-window\", \"calendar\": \"UTC\", \"count\": \"failures\"}],"
    "      \"concurrency\": {\"adaptive\": {\"floor\": 4, \"ceiling\": 50}, \"fixed\": 20,"
    "      \"by\": \"user\"}}}," ROUTES;

/* Other limits, parts, bounds and names, and nothing leased. */
static const char policy_b[] = HEAD
    "  \"policies\": {"
    "    \"leased\": {\"limits\": [{\"name\": \"month\", \"by\": \"user\", \"rate\": "
    "      \"1000000/month\", \"algorithm\": \"fixed-window\", \"calendar\": \"UTC\"},"
    "      {\"name\": \"log\", \"by\": \"ip\", \"rate\": \"5000/second\", \"algorithm\": "
    "      \"sliding-log\"}]},"
    "    \"strict\": {\"limits\": [{\"name\": \"hour\", \"by\": \"user\", \"rate\": "
    "\"50/minute\"}],"
    "      \"on_store_failure\": \"open\"},"
    "    \"tries\": {\"limits\": [{\"name\": \"day\", \"by\": \"user\", \"rate\": \"90000/day\","
    "      \"algorithm\": \"fixed-window\", \"calendar\": \"UTC\", \"count\": \"failures\"}],"
    "      \"concurrency\": {\"adaptive\": {\"floor\": 8, \"ceiling\": 40}, \"partition_by\": "
    "      \"route\", \"partitions\": {\"* /tries\": 0.5}}}}," ROUTES;

static void write_policy(const char *name, const char *url, const char *text, const char *more)
{
    char made[4000];
    int length = snprintf(made, sizeof made, "%s", "");
    const char *first = strstr(text, "%s");
    const char *second = strstr(first + 2, "%s");
    length = snprintf(made, sizeof made, "%.*s%s%.*s%s%s", (int)(first - text), text, url,
                      (int)(second - first - 2), first + 2, more, second + 2);
    assert_true(length > 0 && (size_t)length < sizeof made);
    write_to(name, made);
}

/* one server */

struct site {
    const char *name; /* its files begin with that */
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    struct weir_server *server;
    struct MHD_Daemon *daemon; /* instead */
    uint16_t port;
    unsigned long reloads, failures;
};

static struct redis_server redis;
static struct site far = { .name = "far" }, near = { .name = "near" };

static enum weir_step handle_it(void *self, struct weir_request *request)
{
    (void)self;
    static _Thread_local unsigned number;
    weir_settle(request, 1);
    weir_reply_text(request, number++ % 3 == 0 ? 401 : 200, "done");
    return WEIR_DONE;
}

static const char *file_of(const struct site *site, const char *which, char path[100])
{
    char name[40];
    snprintf(name, sizeof name, "%s-%s.json", site->name, which);
    return in_folder(name, path);
}

static void start(struct site *site)
{
    char path[100];
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_load(file_of(site, "a", path), &site->policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = site->policy), &site->limiter, &error),
        WEIR_OK);
    assert_int_equal(weir_chain_new(WEIR_CHAIN_OPTIONS(.parked_max = 1000), &site->chain, NULL),
                     WEIR_OK);
    assert_int_equal(weir_chain_use(site->chain, weir_identify(site->limiter)), WEIR_OK);
    assert_int_equal(weir_chain_use(site->chain, weir_limit(site->limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(site->chain, "*", handle_it, NULL), WEIR_OK);
}

static void serve_far(void)
{
    start(&far);
    assert_int_equal(
        weir_serve(far.chain, WEIR_SERVE_OPTIONS(.port = 0, .threads = 2), &far.server, NULL),
        WEIR_OK);
    far.port = weir_server_port(far.server);
}

static void serve_near(void)
{
    start(&near);
    near.daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                         weir_access_handler, near.chain, MHD_OPTION_NOTIFY_COMPLETED,
                         weir_request_completed, near.chain, MHD_OPTION_END);
    assert_non_null(near.daemon);
    near.port = MHD_get_daemon_info(near.daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

static void end(struct site *site)
{
    if (site->server != NULL)
        assert_true(weir_server_stop(site->server, 20000));
    if (site->daemon != NULL)
        assert_true(weir_stop_daemon(site->chain, site->daemon, 20000));
    weir_chain_free(site->chain);
    weir_limiter_free(site->limiter);
    weir_policy_free(site->policy);
}

/* load */

static atomic_bool stops;
static atomic_ulong served, refused, others, checked;

static void count(unsigned status)
{
    if (status == 200 || status == 401)
        atomic_fetch_add(&served, 1);
    else if (status == 429)
        atomic_fetch_add(&refused, 1);
    else
        atomic_fetch_add(&others, 1);
}

static void *ask_often(void *self)
{
    static const char *const requests[] = {
        "GET /leased HTTP/1.1\r\nHost: test\r\nX-API-Key: one\r\n\r\n",
        "GET /strict HTTP/1.1\r\nHost: test\r\nX-API-Key: one\r\n\r\n",
        "GET /tries HTTP/1.1\r\nHost: test\r\nX-API-Key: one\r\n\r\n",
    };
    const struct site *site = self;
    int socket = client_connect(site->port);
    for (size_t i = 0; !atomic_load(&stops); i++) {
        struct reply reply;
        client_send_text(socket, requests[i % COUNT_OF(requests)]);
        client_read(socket, false, &reply);
        count(reply.status);
    }
    close(socket);
    return NULL;
}

/* The same without HTTP. */
static void *check_often(void *self)
{
    const struct site *site = self;
    const struct weir_subject *who = WEIR_SUBJECT(.policy = "leased", .user = "bob", .cost = 2);
    while (!atomic_load(&stops)) {
        struct weir_verdict verdict;
        assert_int_equal(weir_limiter_check(site->limiter, who, 1, &verdict, NULL), WEIR_OK);
        assert_string_equal(verdict.quotas[0].limit, "month");
        atomic_fetch_add(&checked, 1);
        /* Another policy may have come in between. */
        enum weir_code code = weir_limiter_settle(site->limiter, who, 1, &verdict, 1, NULL);
        assert_true(code == WEIR_OK || code == WEIR_E_STATE || code == WEIR_E_ARGUMENT);
    }
    return NULL;
}

/* reloads */

static void reload(struct site *site, unsigned long number)
{
    char path[100];
    const char *which = number % 10 == 9 ? "bad" : number % 2 == 0 ? "b" : "a";
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_policy_reload(site->limiter, file_of(site, which, path), &error);
    if ((code == WEIR_OK) != (number % 10 != 9))
        fail_msg("%s: %s", path, error.text);
    site->reloads += code == WEIR_OK;
    site->failures += code != WEIR_OK;
}

static void check_state(struct site *site)
{
    struct weir_reload_state how;
    weir_limiter_reload_state(site->limiter, &how);
    assert_int_equal(how.generation, site->reloads + 1);
    assert_int_equal(how.successes, site->reloads);
    assert_int_equal(how.failures, site->failures);
    assert_int_equal(weir_editions_count(&site->limiter->editions), 1);
}

/* Everybody has come by since the last look. */
static bool all_move(unsigned long served_before, unsigned long checked_before)
{
    return atomic_load(&served) > served_before && atomic_load(&checked) > checked_before;
}

static void serves_all_while_policies_come_and_go(void **state)
{
    (void)state;
    const char *number = getenv("WEIR_RELOADS");
    unsigned long wanted = number == NULL ? RELOADS : strtoul(number, NULL, 10);
    pthread_t threads[4];
    assert_int_equal(pthread_create(&threads[0], NULL, ask_often, &far), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, ask_often, &far), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, ask_often, &near), 0);
    assert_int_equal(pthread_create(&threads[3], NULL, check_often, &far), 0);
    for (unsigned long i = 0; i < wanted; i++) {
        unsigned long served_before = atomic_load(&served), checked_before = atomic_load(&checked);
        reload(&far, i);
        reload(&near, i);
        while (!all_move(served_before, checked_before))
            sched_yield();
    }
    atomic_store(&stops, true);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    print_message("%lu reloads, %lu requests served, %lu refused, %lu checks\n", wanted,
                  atomic_load(&served), atomic_load(&refused), atomic_load(&checked));
    assert_int_equal(atomic_load(&others), 0);
    assert_true(atomic_load(&refused) > 0);
    check_state(&far);
    check_state(&near);
}

static int set_up(void **state)
{
    (void)state;
    redis_server_prepare(&redis);
    redis_server_start(&redis);
    assert_non_null(mkdtemp(folder));
    write_to("keys.json", keys);
    write_to("far-bad.json", "{\"policies\": {}, \"routes\": 5}");
    write_to("near-bad.json", "{");
    write_policy("far-a.json", redis.url, policy_a, ", \"denial_cache\": \"100ms\"");
    write_policy("far-b.json", redis.url, policy_b, ", \"denial_cache\": \"0s\"");
    write_policy("near-a.json", "memory:", policy_a, "");
    write_policy("near-b.json", "memory:", policy_b, "");
    serve_far();
    serve_near();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const names[] = { "keys.json",  "far-bad.json", "near-bad.json",
                                         "far-a.json", "far-b.json",   "near-a.json",
                                         "near-b.json" };
    char path[100];
    end(&far);
    end(&near);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        unlink(in_folder(names[i], path));
    redis_server_remove(&redis);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(serves_all_while_policies_come_and_go, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("reload_load", tests, NULL, NULL);
}
