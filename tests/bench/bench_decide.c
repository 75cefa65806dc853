/* What a decision in memory costs: one JSON line for each figure.
 *
 * Usage: bench_decide [keys]. Ratios hold within one run; times depend on what else runs. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/memory.h"

#define BATCH   1000
#define BATCHES 2000
#define ROUNDS  7

static uint64_t key_count = 1000000;
static struct weir_store *store;

/* tools */

static uint64_t now_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators". */
static uint64_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static int compare(const void *one, const void *other)
{
    uint64_t a, b;
    memcpy(&a, one, sizeof a);
    memcpy(&b, other, sizeof b);
    return (a > b) - (a < b);
}

static uint64_t median(uint64_t *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, compare);
    return numbers[count / 2];
}

static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long long total = 0, resident = 0;
    if (file != NULL && fscanf(file, "%llu %llu", &total, &resident) != 2)
        resident = 0;
    if (file != NULL)
        fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void on_done(struct weir_check *check)
{
    uint64_t *answered = check->owner;
    *answered += check->result == WEIR_STORE_ANSWERED;
}

/* a request's worth of work */

struct asker {
    struct weir_check check;
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    struct weir_answer answers[WEIR_CHECK_LIMITS];
    char keys[WEIR_CHECK_LIMITS][48];
    uint64_t random;
    uint64_t answered;
};

static void asker_init(struct asker *asker, enum weir_algorithm algorithm, size_t limits,
                       uint64_t seed)
{
    memset(asker, 0, sizeof *asker);
    asker->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    asker->check.spends = asker->spends;
    asker->check.answers = asker->answers;
    asker->check.count = limits;
    asker->check.done = on_done;
    asker->check.owner = &asker->answered;
    for (size_t i = 0; i < limits; i++) {
        struct weir_spend *spend = &asker->spends[i];
        snprintf(asker->keys[i], sizeof asker->keys[i], "weir:{ip=00000000}:api:limit-%zu:gcra", i);
        *spend = (struct weir_spend){ .algorithm = algorithm, .cost = 1, .key = asker->keys[i] };
        spend->key_length = strlen(spend->key);
        weir_rate_make(100 + 7 * i, UINT64_C(3600) * 1000000, 0, &spend->rate, NULL);
    }
}

/* The key is written where it will be read, as a server does. */
static void ask(struct asker *asker, uint64_t number)
{
    for (size_t i = 0; i < asker->check.count; i++) {
        uint64_t digits = number;
        for (char *at = asker->keys[i] + 16; at > asker->keys[i] + 8; at--) {
            *at = "0123456789abcdef"[digits & 15];
            digits >>= 4;
        }
    }
    store->type->submit(store->self, &asker->check);
}

static void ask_at_random(struct asker *asker)
{
    ask(asker, random_next(&asker->random) % key_count);
}

/* figures */

static void measure_decisions(const char *figure, enum weir_algorithm algorithm, size_t limits)
{
    static uint64_t batch_ns[BATCHES];
    struct asker asker;
    asker_init(&asker, algorithm, limits, 1);
    for (size_t i = 0; i < BATCHES; i++) {
        uint64_t start = now_ns(CLOCK_MONOTONIC);
        for (int n = 0; n < BATCH; n++)
            ask_at_random(&asker);
        batch_ns[i] = now_ns(CLOCK_MONOTONIC) - start;
    }
    uint64_t middle = median(batch_ns, BATCHES);
    printf("{\"figure\":\"%s\",\"keys\":%" PRIu64 ",\"limits\":%zu,\"median_ns\":%.1f,"
           "\"p99_of_batches_ns\":%.1f}\n",
           figure, key_count, limits, (double)middle / BATCH,
           (double)batch_ns[BATCHES * 99 / 100] / BATCH);
}

struct racer {
    pthread_t thread;
    pthread_barrier_t *start;
    struct asker asker;
};

static void *race(void *self)
{
    struct racer *racer = self;
    pthread_barrier_wait(racer->start);
    for (int n = 0; n < 500 * BATCH; n++)
        ask_at_random(&racer->asker);
    return NULL;
}

/* Decisions in a second of all threads together. */
static double rate_of(unsigned threads, uint64_t seed)
{
    static struct racer racers[2];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++) {
        racers[i].start = &start;
        asker_init(&racers[i].asker, WEIR_GCRA, 1, seed + i);
        if (pthread_create(&racers[i].thread, NULL, race, &racers[i]) != 0)
            exit(1);
    }
    pthread_barrier_wait(&start);
    uint64_t began = now_ns(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(racers[i].thread, NULL);
    double seconds = (double)(now_ns(CLOCK_MONOTONIC) - began) / 1e9;
    pthread_barrier_destroy(&start);
    return 500.0 * BATCH * threads / seconds;
}

static void measure_threads(void)
{
    uint64_t ratios[ROUNDS];
    for (uint64_t i = 0; i < ROUNDS; i++) {
        double one = rate_of(1, 10 + 4 * i), two = rate_of(2, 12 + 4 * i);
        ratios[i] = (uint64_t)(two / one * 1000);
    }
    printf("{\"figure\":\"two threads against one, gcra in memory\",\"keys\":%" PRIu64
           ",\"median_ratio\":%.2f,\"best_ratio\":",
           key_count, (double)median(ratios, ROUNDS) / 1000);
    printf("%.2f}\n", (double)ratios[ROUNDS - 1] / 1000);
}

static void open_and_fill(enum weir_algorithm algorithm, size_t limits)
{
    if (weir_store_open("memory:", NULL, &store, NULL) != WEIR_OK)
        exit(1);
    struct asker asker;
    asker_init(&asker, algorithm, limits, 1);
    for (uint64_t i = 0; i < key_count; i++)
        ask(&asker, i);
}

static void measure_memory(void)
{
    uint64_t before = resident_bytes();
    open_and_fill(WEIR_GCRA, 1);
    uint64_t resident = resident_bytes() - before;
    printf("{\"figure\":\"memory of a key\",\"keys\":%zu,\"resident_bytes_per_key\":%.1f,"
           "\"counted_bytes_per_key\":%.1f}\n",
           weir_memory_keys(store), (double)resident / (double)key_count,
           (double)weir_memory_bytes(store) / (double)key_count);
}

static void measure_limits(const char *figure, enum weir_algorithm algorithm, size_t limits)
{
    uint64_t all_keys = key_count;
    /* Rings take more than an entry, and all keys are to stay. */
    key_count = all_keys / (algorithm == WEIR_SLIDING_LOG ? 10 : limits);
    open_and_fill(algorithm, limits);
    measure_decisions(figure, algorithm, limits);
    store = weir_store_free(store);
    key_count = all_keys;
}

/* Logs of 1000 requests each, of which the oldest leave as new ones come, on a clock of its own. */
static uint64_t told_us = UINT64_C(1767225600000000);

static uint64_t tell(void *self)
{
    (void)self;
    return told_us;
}

static void measure_full_logs(void)
{
    static uint64_t batch_ns[BATCHES];
    const struct weir_clock clock = { .now_us = tell };
    const uint64_t logs = 1000, second_us = 1000000;
    struct asker asker;
    if (weir_store_open("memory:", WEIR_STORE_OPTIONS(.clock = &clock), &store, NULL) != WEIR_OK)
        exit(1);
    asker_init(&asker, WEIR_SLIDING_LOG, 1, 1);
    weir_rate_make(1000, 1000 * second_us, 0, &asker.spends[0].rate, NULL);
    for (size_t i = 0; i < BATCHES; i++) {
        uint64_t start = now_ns(CLOCK_MONOTONIC);
        for (uint64_t n = 0; n < logs; n++)
            ask(&asker, n);
        batch_ns[i] = now_ns(CLOCK_MONOTONIC) - start;
        told_us += second_us;
    }
    /* The first half of the batches has filled the logs. */
    printf("{\"figure\":\"sliding log of 1000 requests in memory\",\"keys\":%zu,"
           "\"median_ns\":%.1f,\"bytes_per_key\":%.0f}\n",
           weir_memory_keys(store),
           (double)median(batch_ns + BATCHES / 2, BATCHES / 2) / (double)logs,
           (double)weir_memory_bytes(store) / (double)logs);
    store = weir_store_free(store);
}

/* What the machine itself takes to read one word somewhere in as much memory as the keys have; no
 * table can be faster than that. */
static void measure_machine(void)
{
    static uint64_t batch_ns[BATCHES];
    size_t lines = key_count * 48 / 64 + 1;
    uint64_t *words = calloc(lines, 64);
    if (words == NULL)
        exit(1);
    for (size_t i = 0; i < lines; i++)
        words[i * 8] = i & 1;
    uint64_t random = 1, sum = 0;
    for (size_t i = 0; i < BATCHES; i++) {
        uint64_t start = now_ns(CLOCK_MONOTONIC);
        for (int n = 0; n < BATCH; n++)
            sum = words[(random_next(&random) + sum) % lines * 8];
        batch_ns[i] = now_ns(CLOCK_MONOTONIC) - start;
    }
    printf("{\"figure\":\"one read at random of as much memory\",\"median_ns\":%.1f,"
           "\"sum\":%" PRIu64 "}\n",
           (double)median(batch_ns, BATCHES) / BATCH, sum);
    free(words);
}

/* New keys without end, into a table that is full. */
static void measure_flood(void)
{
    static uint64_t batch_ns[BATCHES];
    struct asker asker;
    asker_init(&asker, WEIR_GCRA, 1, 1);
    uint64_t number = key_count;
    for (uint64_t n = 0; n < 2000000; n++)
        ask(&asker, number++);
    for (size_t i = 0; i < BATCHES; i++) {
        uint64_t start = now_ns(CLOCK_MONOTONIC);
        for (int n = 0; n < BATCH; n++)
            ask(&asker, number++);
        batch_ns[i] = now_ns(CLOCK_MONOTONIC) - start;
    }
    uint64_t slowest = 0;
    for (size_t n = 0; n < 100000; n++) {
        uint64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        ask(&asker, number++);
        uint64_t taken = now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        slowest = taken > slowest ? taken : slowest;
    }
    printf("{\"figure\":\"a new key in a full table\",\"keys\":%zu,\"median_ns\":%.1f,"
           "\"slowest_cpu_ns\":%" PRIu64 ",\"bytes\":%zu,\"resident_bytes\":%" PRIu64 "}\n",
           weir_memory_keys(store), (double)median(batch_ns, BATCHES) / BATCH, slowest,
           weir_memory_bytes(store), resident_bytes());
}

int main(int argc, char **argv)
{
    if (argc > 1)
        key_count = strtoull(argv[1], NULL, 10);
    if (key_count == 0)
        return 2;
    measure_machine();
    measure_memory();
    measure_decisions("gcra decision in memory", WEIR_GCRA, 1);
    measure_threads();
    measure_flood();
    store = weir_store_free(store);
    measure_limits("token bucket decision in memory", WEIR_TOKEN_BUCKET, 1);
    measure_limits("leaky bucket decision in memory", WEIR_LEAKY_BUCKET, 1);
    measure_limits("fixed window decision in memory", WEIR_FIXED_WINDOW, 1);
    measure_limits("sliding counter decision in memory", WEIR_SLIDING_COUNTER, 1);
    measure_limits("sliding log decision in memory", WEIR_SLIDING_LOG, 1);
    measure_limits("three gcra limits in memory", WEIR_GCRA, 3);
    measure_full_logs();
    return 0;
}
