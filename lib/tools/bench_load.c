/* The threads of weir bench: they ask the limiter as a program without HTTP does. */
#include "tools/bench.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "identity/api_keys.h"
#include "policy/policy.h"

#define VALUES_MAX 16
#define NAME_BYTES 128

struct client {
    char ip[16];
    char name[24];
};

/* What the threads share, and never change but for `left`. */
struct load {
    const struct weir_bench_order *order;
    struct client *clients;
    char value_names[VALUES_MAX][NAME_BYTES]; /* "header:x-device" */
    size_t value_count;
    bool wants_key; /* a limit is by nothing but API keys */
    const char *route;
    uint64_t end_ns;
    atomic_uint_fast64_t left;
};

struct worker {
    pthread_t thread;
    struct load *load;
    uint64_t index;
    struct weir_bench_result result;
};

static atomic_bool was_interrupted;

static void on_interrupt(int number)
{
    (void)number;
    atomic_store(&was_interrupted, true);
}

bool weir_bench_is_interrupted(void)
{
    return atomic_load(&was_interrupted);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* who asks */

static bool is_noted(const struct load *load, const char *name)
{
    for (size_t i = 0; i < load->value_count; i++)
        if (strcmp(load->value_names[i], name) == 0)
            return true;
    return false;
}

static const char *word_of(enum weir_dimension_kind kind)
{
    static const char *const words[WEIR_BY_DEVICE + 1] = { [WEIR_BY_HEADER] = "header",
                                                           [WEIR_BY_PARAM] = "param",
                                                           [WEIR_BY_QUERY] = "query",
                                                           [WEIR_BY_FIELD] = "field" };
    return words[kind];
}

static void note_dimension(struct load *load, const struct weir_dimension *dimension)
{
    char name[NAME_BYTES];
    const char *word = word_of(dimension->kind);
    if (word == NULL || load->value_count == VALUES_MAX)
        return;
    snprintf(name, sizeof name, "%s:%.*s", word, WEIR_TEXT_ARGS(dimension->name));
    if (!is_noted(load, name))
        memcpy(load->value_names[load->value_count++], name, sizeof name);
}

/* What clients must bring along so that all limits apply to them. */
static void note_limits(struct load *load, const struct weir_ruleset *ruleset)
{
    for (size_t i = 0; i < ruleset->limit_count; i++) {
        const struct weir_by *by = &ruleset->limits[i].by;
        for (size_t part = 0; part < by->count; part++) {
            const struct weir_dimension *first = by->parts[part].alternatives;
            size_t count = by->parts[part].count;
            load->wants_key = load->wants_key || (count == 1 && first->kind == WEIR_BY_API_KEY);
            for (size_t k = 0; k < count; k++)
                note_dimension(load, &first[k]);
        }
    }
}

static const char *route_of(const struct weir_policy *policy, const struct weir_ruleset *ruleset)
{
    for (size_t i = 0; i < policy->route_count; i++)
        if (policy->routes[i].ruleset == ruleset)
            return policy->routes[i].match;
    return "* /*";
}

/* From the addresses that RFC 2544 sets aside for benchmarks. */
static bool make_clients(struct load *load, uint64_t count)
{
    load->clients = calloc((size_t)count, sizeof *load->clients);
    for (unsigned i = 0; load->clients != NULL && i < count; i++) {
        struct client *client = &load->clients[i];
        snprintf(client->ip, sizeof client->ip, "198.%u.%u.%u", 18 + (i >> 16 & 1), i >> 8 & 255,
                 i & 255);
        snprintf(client->name, sizeof client->name, WEIR_BENCH_PREFIX "-%u", i);
    }
    return load->clients != NULL;
}

/* `values` has VALUES_MAX places, and lives as long as what is returned. */
static struct weir_subject subject_of(const struct load *load, uint64_t index,
                                      struct weir_value *values)
{
    const struct weir_bench_order *order = load->order;
    const struct client *client = &load->clients[index];
    const struct weir_keyring *keys = order->policy->identity.keys;
    size_t key_count = load->wants_key && keys != NULL ? weir_keyring_count(keys) : 0;
    for (size_t i = 0; i < load->value_count; i++)
        values[i] = (struct weir_value){ load->value_names[i], client->name };
    return *WEIR_SUBJECT(.policy = order->ruleset->name, .ip = client->ip, .user = client->name,
                         .tenant = client->name, .plan = order->plan, .route = load->route,
                         .values = values, .value_count = load->value_count, .cost = order->cost,
                         .api_key =
                             key_count == 0 ? NULL : weir_keyring_at(keys, index % key_count)->id);
}

/* asking */

static void count_outcome(struct weir_bench_result *result, const struct weir_verdict *verdict)
{
    result->decisions++;
    switch (verdict->outcome) {
    case WEIR_FAILED_OPEN:
    case WEIR_FAILED_CLOSED:
        result->failed++;
        return;
    case WEIR_ALLOWED:
        result->allowed += !verdict->by_memory;
        break;
    case WEIR_LIMITED:
    case WEIR_IMPOSSIBLE:
    case WEIR_SHADOW_LIMITED:
    case WEIR_UNAUTHENTICATED:
    case WEIR_UNREADABLE:
    case WEIR_DENIED:
    case WEIR_BUSY:
        result->refused += !verdict->by_memory;
        break;
    }
    result->failed += verdict->by_memory;
}

static uint64_t next_random(uint64_t *state) /* Marsaglia's xorshift64 */
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static bool take_turn(struct load *load, uint64_t at_ns)
{
    if (at_ns >= load->end_ns || atomic_load_explicit(&was_interrupted, memory_order_relaxed))
        return false;
    if (load->order->requests == 0)
        return true;
    uint_fast64_t left = atomic_load(&load->left);
    while (left > 0)
        if (atomic_compare_exchange_weak(&load->left, &left, left - 1))
            return true;
    return false;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct load *load = worker->load;
    const struct weir_bench_order *order = load->order;
    uint64_t random = (worker->index + 1) * UINT64_C(0x9E3779B97F4A7C15);
    struct weir_value values[VALUES_MAX];
    uint64_t at_ns = now_ns();
    while (take_turn(load, at_ns)) {
        struct weir_verdict verdict;
        struct weir_subject subject =
            subject_of(load, next_random(&random) % order->clients, values);
        if (weir_limiter_check(order->limiter, &subject, 1, &verdict, NULL) != WEIR_OK)
            break;
        /* One look at the clock ends this one and begins the next. */
        uint64_t then_ns = at_ns;
        at_ns = now_ns();
        weir_latencies_count(&worker->result.latencies, at_ns - then_ns);
        count_outcome(&worker->result, &verdict);
    }
    return NULL;
}

/* Every limit by its name: those that are not a client's own would be left out otherwise. Where a
 * policy knows devices, an address stands for one, and leads to other keys than a stranger's. */
static void forget(const struct weir_bench_order *order, struct weir_subject subject)
{
    const char *ip = subject.ip;
    for (size_t i = 0; i < order->ruleset->limit_count; i++) {
        subject.limit = order->ruleset->limits[i].name;
        subject.ip = ip;
        weir_limiter_reset(order->limiter, &subject, NULL);
        subject.ip = NULL;
        if (order->ruleset->known != NULL)
            weir_limiter_reset(order->limiter, &subject, NULL);
    }
}

static void *clean(void *argument)
{
    struct worker *worker = argument;
    const struct weir_bench_order *order = worker->load->order;
    struct weir_value values[VALUES_MAX];
    for (uint64_t i = worker->index; i < order->clients; i += order->threads)
        forget(order, subject_of(worker->load, i, values));
    return NULL;
}

/* Runs it on all threads, and waits for them. False: fewer threads could be started. */
static bool run_all(struct load *load, struct worker *workers, void *(*task)(void *))
{
    uint64_t started = 0;
    for (; started < load->order->threads; started++) {
        workers[started].load = load;
        workers[started].index = started;
        if (pthread_create(&workers[started].thread, NULL, task, &workers[started]) != 0)
            break;
    }
    for (uint64_t i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    return started == load->order->threads;
}

static void add_result(struct weir_bench_result *sum, const struct weir_bench_result *other)
{
    sum->decisions += other->decisions;
    sum->allowed += other->allowed;
    sum->refused += other->refused;
    sum->failed += other->failed;
    weir_latencies_add(&sum->latencies, &other->latencies);
}

/* A look first: it connects, and says why where that cannot be. */
static enum weir_code look(const struct load *load, struct weir_error *error)
{
    struct weir_value values[VALUES_MAX];
    struct weir_verdict verdict;
    struct weir_subject subject = subject_of(load, 0, values);
    return weir_limiter_peek(load->order->limiter, &subject, 1, &verdict, error);
}

static bool is_remote(struct weir_limiter *limiter)
{
    struct weir_store_state state;
    weir_limiter_state(limiter, &state);
    return strcmp(state.name, "memory") != 0;
}

static bool measure(struct load *load, struct worker *workers, struct weir_bench_result *result,
                    struct weir_error *error)
{
    const struct weir_bench_order *order = load->order;
    if (look(load, error) != WEIR_OK)
        return false;
    uint64_t start_ns = now_ns();
    load->end_ns = start_ns + order->seconds * UINT64_C(1000000000);
    atomic_init(&load->left, order->requests);
    bool is_done = run_all(load, workers, work);
    *result = (struct weir_bench_result){ .ns = now_ns() - start_ns };
    for (uint64_t i = 0; i < order->threads; i++)
        add_result(result, &workers[i].result);
    if (is_remote(order->limiter))
        run_all(load, workers, clean);
    if (!is_done)
        weir_error_set(error, WEIR_E_SYSTEM, NULL, "The system starts no more threads.");
    return is_done;
}

bool weir_bench_run(const struct weir_bench_order *order, struct weir_bench_result *result,
                    struct weir_error *error)
{
    struct load load = { .order = order, .route = route_of(order->policy, order->ruleset) };
    struct sigaction action = { .sa_handler = on_interrupt }, before;
    struct worker *workers = calloc((size_t)order->threads, sizeof *workers);
    bool is_done = workers != NULL && make_clients(&load, order->clients);
    if (!is_done)
        weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    note_limits(&load, order->ruleset);
    sigaction(SIGINT, &action, &before);
    is_done = is_done && measure(&load, workers, result, error);
    sigaction(SIGINT, &before, NULL);
    free(workers);
    free(load.clients);
    return is_done;
}
