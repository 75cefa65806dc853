/* A flood of one key from many connections, over a real server and a real Redis: what Redis hears of
 * it, and what clients are told. Time is real here; what is asserted are numbers that a slow machine
 * makes smaller. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <weir/weir.h>

#include "base/clock.h"
#include "client.h"
#include "limit/limiter_internal.h"
#include "redis_server.h"

#define CONNECTIONS 12
#define ADMITTED    10
#define SECONDS     3
#define SECOND_US   UINT64_C(1000000)

static const char policy_json[] =
    "{ \"store\": { \"url\": \"%s\", \"timeout\": \"5s\"%s }, \"secret\": \"s\","
    "  \"user\": { \"header\": \"X-User\" }, \"client_ip\": { \"trust\": [\"loopback\"] },"
    "  \"policies\": { \"api\": { \"limits\": ["
    "    { \"name\": \"burst\", \"by\": \"user\", \"rate\": \"1000/second\" },"
    "    { \"name\": \"daily\", \"by\": \"user\", \"rate\": \"10/day\" }],"
    "    \"on_store_failure\": \"open\" } },"
    "  \"routes\": [{ \"match\": \"* /*\", \"auth\": \"required\", \"policy\": \"api\" }] }";

static struct redis_server redis;

static struct bench {
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    struct MHD_Daemon *daemon;
    uint16_t port;
    uint64_t start_us;
    atomic_uint handled, asked, admitted, refused, others, incomplete;
} bench;

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    bench.handled++;
    return weir_reply_text(request, 200, "fine") ? WEIR_DONE : WEIR_FAIL;
}

static void start_limiter(const char *more)
{
    char text[2048];
    struct weir_error error = WEIR_NO_ERROR;
    int length = snprintf(text, sizeof text, policy_json, redis.url, more);
    memset(&bench, 0, sizeof bench);
    if (weir_policy_parse(text, (size_t)length, NULL, &bench.policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = bench.policy), &bench.limiter, &error),
        WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &bench.chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(bench.chain, weir_limit(bench.limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(bench.chain, "*", handle, NULL), WEIR_OK);
}

/* With two workers, which share what they know. */
static void start_with(const char *more)
{
    start_limiter(more);
    bench.daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0,
                                    NULL, NULL, weir_access_handler, bench.chain,
                                    MHD_OPTION_NOTIFY_COMPLETED, weir_request_completed,
                                    bench.chain, MHD_OPTION_THREAD_POOL_SIZE, 2u, MHD_OPTION_END);
    assert_non_null(bench.daemon);
    bench.port = MHD_get_daemon_info(bench.daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    redis_server_do(&redis, "FLUSHALL");
    redis_server_do(&redis, "CONFIG RESETSTAT");
}

static int set_up(void **state)
{
    (void)state;
    start_with("");
    return 0;
}

static int set_up_without(void **state)
{
    (void)state;
    start_with(", \"denial_cache\": \"0s\"");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_true(weir_chain_drain(bench.chain, 1000));
    MHD_stop_daemon(bench.daemon);
    weir_chain_free(bench.chain);
    weir_limiter_free(bench.limiter);
    weir_policy_free(bench.policy);
    return 0;
}

static unsigned long calls_of(const char *statistics, const char *command)
{
    char start[64];
    int length = snprintf(start, sizeof start, "cmdstat_%s:calls=", command);
    const char *line = strstr(statistics, start);
    return line == NULL ? 0 : strtoul(line + length, NULL, 10);
}

/* The script calls that Redis says it has had; the first ones bring the script along. */
static unsigned long script_calls(void)
{
    redisReply *reply = redis_server_ask(&redis, "INFO commandstats");
    unsigned long calls = calls_of(reply->str, "eval") + calls_of(reply->str, "evalsha");
    freeReplyObject(reply);
    return calls;
}

static bool is_complete(const struct reply *reply)
{
    const char *quotas = reply_header(reply, "RateLimit");
    if (quotas == NULL || strncmp(quotas, "\"burst\";r=", 10) != 0
        || strstr(quotas, ", \"daily\";r=0;t=8") == NULL)
        return false;
    const char *policies = reply_header(reply, "RateLimit-Policy");
    if (policies == NULL || strcmp(policies, "\"burst\";q=1000;w=1, \"daily\";q=10;w=86400") != 0)
        return false;
    const char *retry = reply_header(reply, "Retry-After");
    return retry != NULL && strtoul(retry, NULL, 10) > 8000 && strtoul(retry, NULL, 10) <= 8640
           && strstr(reply->body, "[\"daily\"]") != NULL;
}

static void count(const struct reply *reply)
{
    bench.admitted += reply->status == 200;
    bench.refused += reply->status == 429;
    bench.others += reply->status != 200 && reply->status != 429;
    bench.incomplete += reply->status == 429 && !is_complete(reply);
}

static void *flood(void *self)
{
    (void)self;
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\nX-User: ann\r\n\r\n";
    struct reply reply;
    int fd = client_connect(bench.port);
    while (weir_monotonic_us() - bench.start_us < SECONDS * SECOND_US) {
        client_send(fd, request, sizeof request - 1);
        client_read(fd, false, &reply);
        bench.asked++;
        count(&reply);
        if (reply.status == 0)
            break;
    }
    close(fd);
    return NULL;
}

/* Every connection has one request under way. So when the first refusal is there each of them may have
 * asked; and each second one asks for all, but where it takes a tenth of a second or more to hear of
 * the answer, each of them once more. */
static void costs_redis_hardly_anything(void **state)
{
    (void)state;
    pthread_t threads[CONNECTIONS];
    bench.start_us = weir_monotonic_us();
    for (size_t i = 0; i < CONNECTIONS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, flood, NULL), 0);
    for (size_t i = 0; i < CONNECTIONS; i++)
        pthread_join(threads[i], NULL);
    uint64_t took_us = weir_monotonic_us() - bench.start_us;

    unsigned long calls = script_calls();
    struct weir_denials_numbers numbers = weir_denials_numbers(bench.limiter->denials);
    print_message("    %u requests, %lu calls, %llu of them for all others\n", bench.asked, calls,
                  (unsigned long long)numbers.renewed);
    assert_int_equal(bench.others, 0);
    assert_int_equal(bench.incomplete, 0);
    assert_int_equal(bench.admitted, ADMITTED);
    assert_int_equal(bench.handled, ADMITTED);
    assert_int_equal(bench.asked, ADMITTED + bench.refused);
    assert_true(numbers.renewed <= took_us / SECOND_US);
    assert_in_range(calls, 1, ADMITTED + CONNECTIONS * (1 + took_us / SECOND_US));
}

static void costs_redis_a_call_each_without_the_cache(void **state)
{
    (void)state;
    struct reply reply;
    for (unsigned n = 0; n < ADMITTED + 20; n++)
        client_get(bench.port, "/", "X-User: ann\r\n", &reply);
    assert_int_equal(reply.status, 429);
    assert_true(is_complete(&reply));
    assert_in_range(script_calls(), ADMITTED + 20, ADMITTED + 24); /* some lacked the script */
}

/* With Redis gone, who is known to be refused stays so, and the others are let in. */
static void goes_on_refusing_when_redis_dies(void **state)
{
    (void)state;
    struct reply reply;
    for (unsigned n = 0; n <= ADMITTED; n++)
        client_get(bench.port, "/", "X-User: ann\r\n", &reply);
    assert_int_equal(reply.status, 429);
    uint64_t start_us = weir_monotonic_us();
    redis_server_kill(&redis);
    client_get(bench.port, "/", "X-User: ann\r\n", &reply);
    if (weir_monotonic_us() - start_us < SECOND_US / 2) {
        assert_int_equal(reply.status, 429);
        assert_true(is_complete(&reply));
    }
    client_get(bench.port, "/", "X-User: bob\r\n", &reply);
    assert_int_equal(reply.status, 200);
    while (reply.status != 200 || weir_monotonic_us() - start_us < SECOND_US + SECOND_US / 5)
        client_get(bench.port, "/", "X-User: ann\r\n", &reply);
    assert_null(reply_header(&reply, "RateLimit"));
    redis_server_start(&redis);
}

#define TEST(name, start) cmocka_unit_test_setup_teardown(name, start, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(costs_redis_hardly_anything, set_up),
        TEST(costs_redis_a_call_each_without_the_cache, set_up_without),
        TEST(goes_on_refusing_when_redis_dies, set_up),
    };
    redis_server_prepare(&redis);
    redis_server_start(&redis);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_server_remove(&redis);
    return failed;
}
