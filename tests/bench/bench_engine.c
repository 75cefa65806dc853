/* What the Redis store itself takes: how many checks a second go through one connection or several;
 * how they share calls as more of them are outstanding, and how long one takes that is alone; and how
 * soon a check ends while Redis is gone. One JSON line for each figure; ratios hold within one run.
 *
 * Usage: bench_engine [checks] */
#include <inttypes.h>
#include <pthread.h>
#include <time.h>

#include "redis_server.h"
#include "store/store.h"

#define KEYS      20000
#define IN_FLIGHT 512
#define ROUNDS    5

#define HOUR UINT64_C(3600000000)

static struct redis_server server;

/* checks that follow each other, so many at once */

struct slot {
    struct weir_check check;
    struct weir_spend spend;
    struct weir_answer answer;
    char key[48];
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    struct weir_store *store;
    uint64_t outstanding;
    uint64_t left; /* still to be submitted */
    uint64_t open; /* under way             */
    uint64_t failed;
    struct slot slots[IN_FLIGHT];
} run = { .mutex = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };

static void submit(struct slot *slot, uint64_t number)
{
    int length = snprintf(slot->key, sizeof slot->key, "weir:{ip=192.0.%" PRIu64 ".7}:a:g",
                          number * 7919 % KEYS);
    slot->spend.key = slot->key;
    slot->spend.key_length = (size_t)length;
    run.store->type->submit(run.store->self, &slot->check);
}

static void on_done(struct weir_check *check)
{
    pthread_mutex_lock(&run.mutex);
    run.failed += check->result != WEIR_STORE_ANSWERED;
    bool goes_on = run.left > 0;
    uint64_t number = goes_on ? run.left-- : 0;
    if (!goes_on && --run.open == 0)
        pthread_cond_signal(&run.ended);
    pthread_mutex_unlock(&run.mutex);
    if (goes_on)
        submit(check->owner, number);
}

static void set_up(struct slot *slot)
{
    slot->check = (struct weir_check){
        .spends = &slot->spend, .answers = &slot->answer, .count = 1, .done = on_done, .owner = slot
    };
    slot->spend = (struct weir_spend){ .cost = 1 };
    if (weir_rate_make(100000, HOUR, 0, &slot->spend.rate, NULL) != WEIR_OK)
        exit(2);
}

static void run_checks(struct weir_store *store, uint64_t checks)
{
    run.store = store;
    run.left = checks - run.outstanding;
    run.open = run.outstanding;
    run.failed = 0;
    for (size_t i = 0; i < run.outstanding; i++) {
        set_up(&run.slots[i]);
        submit(&run.slots[i], i);
    }
    pthread_mutex_lock(&run.mutex);
    while (run.open > 0)
        pthread_cond_wait(&run.ended, &run.mutex);
    pthread_mutex_unlock(&run.mutex);
}

/* clocks */

static double seconds_of(clockid_t id)
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

/* several connections */

struct lanes {
    uint32_t connections;
    double per_s, own_us, redis_us;
    uint64_t failed;
};

static struct weir_store *open_store(uint32_t connections)
{
    struct weir_store *store = NULL;
    if (weir_store_open(server.tcp_url,
                        WEIR_STORE_OPTIONS(.timeout_ms = 5000, .connections = connections), &store,
                        NULL)
        != WEIR_OK)
        exit(2);
    return store;
}

static void measure(struct lanes *lanes, uint64_t checks)
{
    struct weir_store *store = open_store(lanes->connections);
    run.outstanding = IN_FLIGHT;
    run_checks(store, 4 * IN_FLIGHT);
    double redis_s = redis_cpu_s(), own_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    double start_s = seconds_of(CLOCK_MONOTONIC);
    run_checks(store, checks);
    double per_s = (double)checks / (seconds_of(CLOCK_MONOTONIC) - start_s);
    lanes->failed += run.failed;
    if (per_s > lanes->per_s) {
        lanes->per_s = per_s;
        lanes->own_us = (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_s) * 1e6 / (double)checks;
        lanes->redis_us = (redis_cpu_s() - redis_s) * 1e6 / (double)checks;
    }
    weir_store_free(store);
}

static void measure_lanes(uint64_t checks)
{
    struct lanes all[] = { { .connections = 1 }, { .connections = 2 }, { .connections = 4 } };
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < COUNT_OF(all); i++)
            measure(&all[i], checks);
    for (size_t i = 0; i < COUNT_OF(all); i++)
        printf("{\"figure\": \"engine_connections\", \"connections\": %u, \"checks_per_s\": %.0f, "
               "\"ratio_to_one\": %.2f, \"own_us\": %.2f, \"redis_us\": %.2f, \"failed\": %" PRIu64
               "}\n",
               all[i].connections, all[i].per_s, all[i].per_s / all[0].per_s, all[i].own_us,
               all[i].redis_us, all[i].failed);
}

/* one connection, and more and more checks outstanding */

struct crowd {
    uint64_t outstanding;
    double per_s, checks_per_call, own_us, redis_us;
    uint64_t failed;
};

static void measure_crowd(struct crowd *crowd, struct weir_store *store, uint64_t checks)
{
    run.outstanding = crowd->outstanding;
    run_checks(store, checks / 10);
    double redis_s = redis_cpu_s(), own_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    double calls = info_number("commandstats", "cmdstat_evalsha:calls=");
    double start_s = seconds_of(CLOCK_MONOTONIC);
    run_checks(store, checks);
    double per_s = (double)checks / (seconds_of(CLOCK_MONOTONIC) - start_s);
    crowd->failed += run.failed;
    if (per_s < crowd->per_s)
        return;
    crowd->per_s = per_s;
    crowd->own_us = (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_s) * 1e6 / (double)checks;
    crowd->redis_us = (redis_cpu_s() - redis_s) * 1e6 / (double)checks;
    calls = info_number("commandstats", "cmdstat_evalsha:calls=") - calls;
    crowd->checks_per_call = (double)checks / calls;
}

static void measure_crowds(uint64_t checks)
{
    struct crowd all[] = { { .outstanding = 1 },  { .outstanding = 4 },   { .outstanding = 16 },
                           { .outstanding = 64 }, { .outstanding = 256 }, { .outstanding = 512 } };
    struct weir_store *store = open_store(1);
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < COUNT_OF(all); i++)
            measure_crowd(&all[i], store, all[i].outstanding < 16 ? checks / 10 : checks);
    for (size_t i = 0; i < COUNT_OF(all); i++)
        printf("{\"figure\": \"engine_outstanding\", \"outstanding\": %" PRIu64
               ", \"checks_per_s\": %.0f, \"checks_per_call\": %.1f, \"own_us\": %.2f, "
               "\"redis_us\": %.2f, \"failed\": %" PRIu64 "}\n",
               all[i].outstanding, all[i].per_s, all[i].checks_per_call, all[i].own_us,
               all[i].redis_us, all[i].failed);
    weir_store_free(store);
}

/* a check that is alone */

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Beside the bare round trip that it rests on: a call of a script that does nothing. */
static void measure_idle(uint64_t checks)
{
    struct weir_store *store = open_store(1);
    redisContext *context = redisConnect("127.0.0.1", (int)server.port);
    redisReply *hash = redisCommand(context, "SCRIPT LOAD %s", "return 1");
    double *us = calloc(2 * checks, sizeof *us), *bare_us = us + checks;
    if (us == NULL)
        exit(2);
    run.outstanding = 1;
    for (uint64_t i = 0; i < checks; i++) {
        double start_s = seconds_of(CLOCK_MONOTONIC);
        run_checks(store, 1);
        us[i] = (seconds_of(CLOCK_MONOTONIC) - start_s) * 1e6;
        start_s = seconds_of(CLOCK_MONOTONIC);
        freeReplyObject(redisCommand(context, "EVALSHA %s 0", hash->str));
        bare_us[i] = (seconds_of(CLOCK_MONOTONIC) - start_s) * 1e6;
    }
    qsort(us, checks, sizeof *us, compare);
    qsort(bare_us, checks, sizeof *us, compare);
    printf("{\"figure\": \"engine_idle\", \"median_us\": %.1f, \"p99_us\": %.1f, "
           "\"bare_median_us\": %.1f, \"ratio_to_bare\": %.2f}\n",
           us[checks / 2], us[checks * 99 / 100], bare_us[checks / 2],
           us[checks / 2] / bare_us[checks / 2]);
    free(us);
    freeReplyObject(hash);
    redisFree(context);
    weir_store_free(store);
}

/* a store that is gone */

static void on_refused(struct weir_check *check)
{
    run.failed += check->result != WEIR_STORE_UNAVAILABLE;
}

static void measure_open(uint64_t checks)
{
    struct weir_store *store = open_store(1);
    struct weir_store_state state;
    redis_server_kill(&server);
    do {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        weir_store_state(store, &state);
    } while (state.answering);

    double *us = calloc(checks, sizeof *us);
    if (us == NULL)
        exit(2);
    run.store = store;
    run.failed = 0;
    set_up(&run.slots[0]);
    run.slots[0].check.done = on_refused;
    for (uint64_t i = 0; i < checks; i++) {
        double start_s = seconds_of(CLOCK_MONOTONIC);
        submit(&run.slots[0], i);
        us[i] = (seconds_of(CLOCK_MONOTONIC) - start_s) * 1e6;
    }
    qsort(us, checks, sizeof *us, compare);
    printf("{\"figure\": \"engine_submit_while_open\", \"median_us\": %.2f, \"p99_us\": %.2f, "
           "\"p999_us\": %.2f, \"failed\": %" PRIu64 "}\n",
           us[checks / 2], us[checks * 99 / 100], us[checks * 999 / 1000], run.failed);
    free(us);
    weir_store_free(store);
}

int main(int argc, char **argv)
{
    uint64_t checks = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000;
    if (checks < 10 * IN_FLIGHT || checks > 10000000)
        return 2;
    redis_server_prepare(&server);
    redis_server_start(&server);
    measure_lanes(checks);
    measure_crowds(checks);
    measure_idle(checks / 20);
    measure_open(checks);
    redis_server_remove(&server);
    return 0;
}
