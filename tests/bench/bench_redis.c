/* What a check costs Redis: one JSON line for each figure, in µs of its CPU time for each check,
 * pipelined by one store on a server of its own. Ratios hold within one run.
 *
 * Usage: bench_redis [checks] */
#include <inttypes.h>
#include <pthread.h>
#include <time.h>

#include "redis_server.h"
#include "store/store.h"

#define KEYS      20000
#define IN_FLIGHT 256
#define ROUNDS    5

#define MINUTE UINT64_C(60000000)

static struct redis_server server;
static struct weir_store *store;

/* checks that follow each other, so many at once */

struct slot {
    struct weir_check check;
    char keys[3][40];
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    uint64_t left; /* still to be submitted */
    uint64_t open; /* under way             */
    uint64_t failed;
    struct slot slots[IN_FLIGHT];
} run = { .mutex = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };

static void name_keys(struct slot *slot, uint64_t number)
{
    for (size_t i = 0; i < slot->check.count; i++) {
        struct weir_spend *spend = &slot->check.spends[i];
        int length =
            snprintf(slot->keys[i], sizeof slot->keys[i], "weir:{ip=192.0.%" PRIu64 ".7}:api:%c:g",
                     number % KEYS, (char)('a' + i));
        spend->key = slot->keys[i];
        spend->key_length = (size_t)length;
    }
}

/* On the store's thread: the next check takes the place of the one that ended. */
static void on_done(struct weir_check *check)
{
    pthread_mutex_lock(&run.mutex);
    run.failed += check->result != WEIR_STORE_ANSWERED || !check->answers[0].allowed;
    bool goes_on = run.left > 0;
    uint64_t number = goes_on ? run.left-- : 0;
    if (!goes_on && --run.open == 0)
        pthread_cond_signal(&run.ended);
    pthread_mutex_unlock(&run.mutex);
    if (!goes_on)
        return;
    name_keys(check->owner, number * 7919);
    store->type->submit(store->self, check);
}

/* Runs `checks` checks of `count` limits like `spend`; returns how many failed. */
static uint64_t run_checks(const struct weir_spend *spend, size_t count, uint64_t checks)
{
    run.left = checks - IN_FLIGHT;
    run.open = IN_FLIGHT;
    run.failed = 0;
    for (size_t i = 0; i < IN_FLIGHT; i++) {
        struct slot *slot = &run.slots[i];
        slot->check = (struct weir_check){ .count = count, .done = on_done, .owner = slot };
        for (size_t n = 0; n < count; n++)
            slot->check.spends[n] = *spend;
        name_keys(slot, i);
        store->type->submit(store->self, &slot->check);
    }
    pthread_mutex_lock(&run.mutex);
    while (run.open > 0)
        pthread_cond_wait(&run.ended, &run.mutex);
    pthread_mutex_unlock(&run.mutex);
    return run.failed;
}

/* what Redis says of itself */

static double info_number(const char *section, const char *name)
{
    redisReply *reply = redis_server_ask(&server, "INFO %s", section);
    const char *found = strstr(reply->str, name);
    double number = found == NULL ? 0 : strtod(found + strlen(name), NULL);
    freeReplyObject(reply);
    return number;
}

static double cpu_s(void)
{
    return info_number("cpu", "used_cpu_user:") + info_number("cpu", "used_cpu_sys:");
}

static double own_cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double bench(const char *name, const struct weir_spend *spend, size_t count, uint64_t checks)
{
    double best_us = 0, own_us = 0;
    uint64_t failed = 0;
    redis_server_do(&server, "FLUSHALL");
    failed += run_checks(spend, count, 2 * KEYS);
    for (int round = 0; round < ROUNDS; round++) {
        double before_s = cpu_s(), own_before_s = own_cpu_s();
        failed += run_checks(spend, count, checks);
        double us = (cpu_s() - before_s) * 1e6 / (double)checks;
        if (round == 0 || us < best_us) {
            best_us = us;
            own_us = (own_cpu_s() - own_before_s) * 1e6 / (double)checks;
        }
    }
    printf("{\"figure\": \"redis_cpu\", \"check\": \"%s\", \"redis_us\": %.2f, "
           "\"own_us\": %.2f, \"failed\": %" PRIu64 "}\n",
           name, best_us, own_us, failed);
    return best_us;
}

int main(int argc, char **argv)
{
    uint64_t checks = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000;
    struct weir_spend gcra = { .algorithm = WEIR_GCRA, .cost = 1 }, seventh = gcra;
    struct weir_spend window = { .algorithm = WEIR_FIXED_WINDOW, .cost = 1 };
    if (checks < IN_FLIGHT || weir_rate_make(100000, MINUTE, 0, &gcra.rate, NULL) != WEIR_OK
        || weir_rate_make(100003, MINUTE, 0, &seventh.rate, NULL) != WEIR_OK
        || weir_rate_make(100000, MINUTE, 0, &window.rate, NULL) != WEIR_OK)
        return 2;

    redis_server_prepare(&server);
    redis_server_start(&server);
    if (weir_store_open(server.url, WEIR_STORE_OPTIONS(.timeout_ms = 5000), &store, NULL)
        == WEIR_OK) {
        double one_us = bench("one gcra limit", &gcra, 1, checks);
        bench("one gcra limit with parts", &seventh, 1, checks);
        double three_us = bench("three gcra limits", &gcra, 3, checks);
        bench("one fixed window", &window, 1, checks);
        printf("{\"figure\": \"redis_cpu_three_to_one\", \"ratio\": %.2f}\n", three_us / one_us);
        weir_store_free(store);
    }
    redis_server_remove(&server);
    return 0;
}
