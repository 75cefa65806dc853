/* What leases save: decisions a second in one process, calls to Redis and its CPU time for one busy
 * client, strict and leased, and what a key costs in memory. One JSON line for each figure; those to
 * compare are of one run. With an argument: so many requests of the busy client instead of 100,000. */
#include "redis_server.h"

#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <time.h>

#include <weir/limiter.h>

#include "limit/lease.h"
#include "limit/leases.h"
#include "store/store.h"

#define HOUR      (UINT64_C(3600) * 1000000)
#define CALLERS   64
#define KEYS      100
#define DECISIONS UINT64_C(4000000) /* of each thread */
#define ROUNDS    3

static struct redis_server server;

static double now_s(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double info_number(const char *section, const char *name)
{
    redisReply *reply = redis_server_ask(&server, "INFO %s", section);
    const char *found = strstr(reply->str, name);
    double number = found == NULL ? 0 : strtod(found + strlen(name), NULL);
    freeReplyObject(reply);
    return number;
}

static double redis_cpu_s(void)
{
    return info_number("cpu", "used_cpu_user:") + info_number("cpu", "used_cpu_sys:");
}

static double script_calls(void)
{
    return info_number("commandstats", "cmdstat_evalsha:calls=")
           + info_number("commandstats", "cmdstat_eval:calls=");
}

/* decisions without HTTP: two threads, whose checks find their units or wait for them */

struct worker {
    const struct weir_store *store;
    struct weir_leases *leases;
    size_t first, keys; /* that it uses */
    uint64_t waited, refused;
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool has_ended;
};

static void on_done(struct weir_check *check)
{
    struct worker *worker = check->owner;
    pthread_mutex_lock(&worker->mutex);
    worker->has_ended = true;
    pthread_cond_signal(&worker->ended);
    pthread_mutex_unlock(&worker->mutex);
}

static void wait_for(struct worker *worker, struct weir_check *check)
{
    worker->waited++;
    worker->has_ended = false;
    if (weir_leases_take(worker->leases, check))
        weir_leases_submit(worker->leases, check);
    else
        worker->store->type->submit(worker->store->self, check);
    pthread_mutex_lock(&worker->mutex);
    while (!worker->has_ended)
        pthread_cond_wait(&worker->ended, &worker->mutex);
    pthread_mutex_unlock(&worker->mutex);
}

static void *decide(void *self)
{
    static const struct weir_lease as_needed = { .low_water_ppm = 200000 };
    struct worker *worker = self;
    static char keys[KEYS][64];
    for (size_t i = worker->first; i < worker->first + worker->keys; i++)
        snprintf(keys[i], sizeof keys[i], "weir:{tenant=label%08zu}:api:burst:gcra", i);
    struct weir_answer answer;
    struct weir_spend spend = { .cost = 1, .lease = &as_needed };
    weir_rate_make(1000000, HOUR, WEIR_UNITS_MAX, &spend.rate, NULL);
    for (uint64_t i = 0; i < DECISIONS; i++) {
        struct weir_check check = {
            .spends = &spend, .answers = &answer, .count = 1, .done = on_done, .owner = worker
        };
        spend.key = keys[worker->first + i % worker->keys];
        spend.key_length = strlen(spend.key);
        if (!weir_leases_decide(worker->leases, &check))
            wait_for(worker, &check);
        worker->refused += check.result != WEIR_STORE_ANSWERED || !answer.allowed;
    }
    return NULL;
}

static double decide_in_threads(const struct weir_store *store, size_t count, size_t keys,
                                uint64_t *waited, uint64_t *refused)
{
    struct worker workers[2];
    pthread_t threads[2];
    const struct weir_leases_options options = {
        .type = store->type, .store = store->self, .instances = 1, .timeout_us = 5000000
    };
    struct weir_leases *leases = weir_leases_new(&options);
    double start_s = now_s(CLOCK_MONOTONIC);
    for (size_t i = 0; i < count; i++) {
        workers[i] = (struct worker){ .store = store,
                                      .leases = leases,
                                      .first = keys == 1 ? 0 : i * keys,
                                      .keys = keys,
                                      .mutex = PTHREAD_MUTEX_INITIALIZER,
                                      .ended = PTHREAD_COND_INITIALIZER };
        pthread_create(&threads[i], NULL, decide, &workers[i]);
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        *waited += workers[i].waited;
        *refused += workers[i].refused;
    }
    double took_s = now_s(CLOCK_MONOTONIC) - start_s;
    weir_leases_free(leases);
    return (double)(count * DECISIONS) / took_s;
}

static void measure_decisions(const struct weir_store *store)
{
    static const struct {
        const char *name;
        size_t threads, keys;
    } figures[] = {
        { "one thread, 50 keys", 1, KEYS / 2 },
        { "two threads, 50 keys each", 2, KEYS / 2 },
        { "two threads, one key", 2, 1 },
    };
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        double best = 0;
        uint64_t waited = 0, refused = 0;
        for (int round = 0; round < ROUNDS; round++) {
            double per_s =
                decide_in_threads(store, figures[i].threads, figures[i].keys, &waited, &refused);
            best = per_s > best ? per_s : best;
        }
        printf("{\"figure\": \"lease_decisions\", \"check\": \"%s\", \"per_s\": %.0f, "
               "\"waited\": %" PRIu64 ", \"refused\": %" PRIu64 "}\n",
               figures[i].name, best, waited, refused);
    }
}

/* one busy client: as many callers at once as a server has connections */

static struct weir_policy *load(const char *lease)
{
    char json[1024];
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    snprintf(json, sizeof json,
             "{\"store\": {\"url\": \"%s\", \"timeout\": \"5s\"}, \"instances\": 1, \"secret\": "
             "\"0123456789abcdef0123456789abcdef\","
             "\"tenant\": {\"header\": \"X-Tenant\"},"
             "\"policies\": {\"api\": {\"limits\": [{\"name\": \"burst\", \"by\": \"tenant\","
             "\"rate\": \"10000000/hour\"%s}]}},"
             "\"routes\": [{\"match\": \"* /*\", \"auth\": \"optional\", \"policy\": \"api\"}]}",
             server.url, lease);
    if (weir_policy_parse(json, strlen(json), NULL, &policy, &error) != WEIR_OK) {
        fprintf(stderr, "%s: %s\n", error.path, error.text);
        exit(2);
    }
    return policy;
}

struct caller {
    struct weir_limiter *limiter;
    const char *tenant;
    uint64_t requests, refused;
};

static void *call(void *self)
{
    struct caller *caller = self;
    for (uint64_t i = 0; i < caller->requests; i++) {
        struct weir_verdict verdict = { .allowed = false };
        weir_limiter_check(caller->limiter, WEIR_SUBJECT(.policy = "api", .tenant = caller->tenant),
                           1, &verdict, NULL);
        caller->refused += verdict.outcome != WEIR_ALLOWED || !verdict.allowed;
    }
    return NULL;
}

struct busy {
    const char *name, *lease;
    double per_s, own_us, redis_us, calls;
    uint64_t refused;
};

static void measure_busy(struct busy *busy, const char *tenant, uint64_t requests)
{
    struct caller callers[CALLERS];
    pthread_t threads[CALLERS];
    struct weir_policy *policy = load(busy->lease);
    struct weir_limiter *limiter = NULL;
    if (weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, NULL) != WEIR_OK)
        exit(2);
    double redis_s = redis_cpu_s(), own_s = now_s(CLOCK_PROCESS_CPUTIME_ID);
    double calls = script_calls(), start_s = now_s(CLOCK_MONOTONIC);
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){ limiter, tenant, requests / CALLERS, 0 };
        pthread_create(&threads[i], NULL, call, &callers[i]);
    }
    uint64_t refused = 0;
    for (size_t i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        refused += callers[i].refused;
    }
    double count = (double)(requests / CALLERS * CALLERS);
    double per_s = count / (now_s(CLOCK_MONOTONIC) - start_s);
    double own_us = (now_s(CLOCK_PROCESS_CPUTIME_ID) - own_s) * 1e6 / count;
    calls = (script_calls() - calls) * 100000 / count;
    double redis_us = (redis_cpu_s() - redis_s) * 1e6 / count;
    weir_limiter_free(limiter);
    weir_policy_free(policy);
    busy->refused += refused;
    busy->per_s = per_s > busy->per_s ? per_s : busy->per_s;
    if (busy->calls == 0 || calls > busy->calls)
        busy->calls = calls; /* the worst of them */
    if (busy->own_us == 0 || own_us < busy->own_us)
        busy->own_us = own_us;
    if (busy->redis_us == 0 || redis_us < busy->redis_us)
        busy->redis_us = redis_us;
}

/* the yardstick: the script that go-redis/redis_rate sends */

static const char yardstick_script[] =
    "redis.replicate_commands()\n"
    "local rate_limit_key = KEYS[1]\n"
    "local burst = ARGV[1]\n"
    "local rate = ARGV[2]\n"
    "local period = ARGV[3]\n"
    "local cost = tonumber(ARGV[4])\n"
    "local emission_interval = period / rate\n"
    "local increment = emission_interval * cost\n"
    "local burst_offset = emission_interval * burst\n"
    "local jan_1_2017 = 1483228800\n"
    "local now = redis.call('TIME')\n"
    "now = (now[1] - jan_1_2017) + (now[2] / 1000000)\n"
    "local tat = redis.call('GET', rate_limit_key)\n"
    "if not tat then tat = now else tat = tonumber(tat) end\n"
    "tat = math.max(tat, now)\n"
    "local new_tat = tat + increment\n"
    "local allow_at = new_tat - burst_offset\n"
    "local diff = now - allow_at\n"
    "local remaining = diff / emission_interval\n"
    "if remaining < 0 then\n"
    "local reset_after = tat - now\n"
    "local retry_after = diff * -1\n"
    "return {0, 0, tostring(retry_after), tostring(reset_after)}\n"
    "end\n"
    "local reset_after = new_tat - now\n"
    "if reset_after > 0 then\n"
    "redis.call('SET', rate_limit_key, new_tat, 'EX', math.ceil(reset_after))\n"
    "end\n"
    "local retry_after = -1\n"
    "return {cost, remaining, tostring(retry_after), tostring(reset_after)}\n";

/* Pipelined by 64, which is the best that a client can do for it. */
static double measure_yardstick(uint64_t requests)
{
    redisContext *context = redisConnectUnix(server.socket);
    redisReply *hash = redis_server_ask(&server, "SCRIPT LOAD %s", yardstick_script);
    double before_s = redis_cpu_s();
    for (uint64_t done = 0; done < requests; done += CALLERS) {
        for (int i = 0; i < CALLERS; i++)
            redisAppendCommand(context, "EVALSHA %s 1 yardstick 10000000 10000000 3600 1",
                               hash->str);
        for (int i = 0; i < CALLERS; i++) {
            redisReply *reply = NULL;
            assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
            assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
            freeReplyObject(reply);
        }
    }
    double us = (redis_cpu_s() - before_s) * 1e6 / (double)requests;
    freeReplyObject(hash);
    redisFree(context);
    return us;
}

static void print_busy(const struct busy *busy)
{
    printf("{\"figure\": \"busy_client\", \"check\": \"%s\", \"per_s\": %.0f, \"own_us\": %.2f, "
           "\"redis_us\": %.3f, \"redis_calls_per_100000\": %.0f, \"refused\": %" PRIu64 "}\n",
           busy->name, busy->per_s, busy->own_us, busy->redis_us, busy->calls, busy->refused);
}

static void measure_clients(uint64_t requests)
{
    struct busy strict = { .name = "strict", .lease = "" };
    struct busy batch = { .name = "leased by 50", .lease = ", \"lease\": {\"batch\": 50}" };
    struct busy automatic = { .name = "leased as needed", .lease = ", \"lease\": \"auto\"" };
    double yardstick_us = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char tenant[16];
        snprintf(tenant, sizeof tenant, "busy%d", round);
        double us = measure_yardstick(requests);
        yardstick_us = yardstick_us == 0 || us < yardstick_us ? us : yardstick_us;
        measure_busy(&strict, tenant, requests);
        measure_busy(&batch, tenant, requests);
        measure_busy(&automatic, tenant, requests);
    }
    print_busy(&strict);
    print_busy(&batch);
    print_busy(&automatic);
    printf(
        "{\"figure\": \"redis_cpu\", \"check\": \"go-redis's gcra script\", \"redis_us\": %.2f}\n",
        yardstick_us);
    printf("{\"figure\": \"redis_cpu_yardstick_to_leased\", \"ratio\": %.1f}\n",
           yardstick_us / batch.redis_us);
    printf(
        "{\"figure\": \"busy_client_leased_to_strict\", \"requests\": %.1f, \"own_cpu\": %.3f}\n",
        batch.per_s / strict.per_s, batch.own_us / strict.own_us);
}

/* memory: a store that grants all, so that nothing but the keys is left */

static void grant(void *self, struct weir_check *check)
{
    (void)self;
    check->result = WEIR_STORE_ANSWERED;
    if (check->operation == WEIR_SPEND)
        check->answers[0] = (struct weir_answer){ .allowed = true, .reset_us = HOUR };
    check->done(check);
}

static void measure_bytes(void)
{
    static const struct weir_store_type type = { .size = sizeof type, .submit = grant };
    static const struct weir_lease batch = { .batch = 50 };
    const struct weir_leases_options options = {
        .type = &type, .instances = 1, .timeout_us = 1000000, .budget_bytes = 1 << 28
    };
    struct worker worker = { .mutex = PTHREAD_MUTEX_INITIALIZER,
                             .ended = PTHREAD_COND_INITIALIZER };
    struct weir_answer answer;
    struct weir_spend spend = { .algorithm = WEIR_FIXED_WINDOW, .cost = 1, .lease = &batch };
    char key[64];
    weir_rate_make(1000, HOUR, 0, &spend.rate, NULL);
    worker.leases = weir_leases_new(&options);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 20000; i++) {
        struct weir_check check = {
            .spends = &spend, .answers = &answer, .count = 1, .done = on_done, .owner = &worker
        };
        spend.key = key;
        spend.key_length =
            (size_t)snprintf(key, sizeof key, "weir:{tenant=label%08d}:api:burst:gcra", i);
        wait_for(&worker, &check);
    }
    size_t bytes = mallinfo2().uordblks - before;
    uint64_t keys = weir_leases_numbers(worker.leases).keys;
    printf("{\"figure\": \"lease_bytes\", \"keys\": %" PRIu64 ", \"bytes_per_key\": %.0f}\n", keys,
           (double)bytes / (double)keys);
    weir_leases_free(worker.leases);
}

int main(int argc, char **argv)
{
    uint64_t requests = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    struct weir_store *store = NULL;
    if (requests < CALLERS || requests > 1000000)
        return 2; /* more would use the limit up */
    measure_bytes();
    redis_server_prepare(&server);
    redis_server_start(&server);
    measure_clients(requests);
    if (weir_store_open(server.url, WEIR_STORE_OPTIONS(.timeout_ms = 5000), &store, NULL)
        == WEIR_OK) {
        measure_decisions(store);
        weir_store_free(store);
    }
    redis_server_remove(&server);
    return 0;
}
