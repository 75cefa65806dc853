/* A thundering herd, and what becomes of it: 1000 clients ask at once for what a limit of 50 a second
 * shares among them, and those who are refused come back as their strategy says.
 *
 * The limiter and the memory store are the real ones, the time is not: a fake clock jumps from one
 * attempt to the next, so that the figures are the same on every machine. One JSON line for each
 * strategy; with the argument "--series" also one that says how many came when, for bench_herd_chart.py. */
#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS      1000
#define SECOND_US    UINT64_C(1000000)
#define START_US     (UINT64_C(1800000000) * SECOND_US)
#define SLOT_US      UINT64_C(100000) /* the peak is looked for in each such stretch */
#define SLOTS        20000            /* of 2000 s, which no strategy reaches        */
#define SERIES_S     40
#define EXPONENT_MAX 8 /* 100 ms doubled so often: 25.6 s             */

static const char policy_json[] =
    "{\"policies\":{\"shared\":{\"limits\":[{\"name\":\"all\",\"by\":\"global\","
    "\"rate\":\"50/second\"}]}}}";

struct client {
    uint64_t at_us; /* of its next attempt; UINT64_MAX: it has been served */
    unsigned attempts;
    struct weir_backoff backoff;
};

struct herd {
    struct client clients[CLIENTS];
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    uint64_t now_us;
    unsigned attempts;
    unsigned served;
    unsigned slots[SLOTS]; /* attempts in each, the first wave left out */
};

/* When a client that was refused comes back, from now on. */
typedef uint64_t strategy(struct client *client, const char *retry_after);

static void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* strategies */

static uint64_t when_told(struct client *client, const char *retry_after)
{
    (void)client;
    return strtoull(retry_after, NULL, 10) * SECOND_US;
}

static uint64_t exponentially(struct client *client, const char *retry_after)
{
    (void)retry_after;
    unsigned exponent = client->attempts - 1;
    return SECOND_US / 10 << (exponent < EXPONENT_MAX ? exponent : EXPONENT_MAX);
}

static uint64_t by_weir_backoff(struct client *client, const char *retry_after)
{
    uint64_t pause_us;
    if (!weir_backoff_next(&client->backoff, retry_after, &pause_us))
        die("weir_backoff_next gave up");
    return pause_us;
}

static uint64_t jittered_only(struct client *client, const char *retry_after)
{
    (void)retry_after;
    return by_weir_backoff(client, NULL);
}

static const struct {
    const char *name;
    strategy *wait;
} strategies[] = {
    { "Retry-After, to the second", when_told },
    { "exponential, without jitter", exponentially },
    { "weir_backoff, without Retry-After", jittered_only },
    { "weir_backoff", by_weir_backoff },
};

/* the herd */

static uint64_t read_clock(void *self)
{
    const struct herd *herd = self;
    return herd->now_us;
}

static struct herd *gather(void)
{
    struct herd *herd = calloc(1, sizeof *herd);
    if (herd == NULL)
        die("out of memory");
    const struct weir_clock clock = { read_clock, herd };
    herd->now_us = START_US;
    if (weir_policy_parse(policy_json, strlen(policy_json), NULL, &herd->policy, NULL) != WEIR_OK
        || weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = herd->policy, .clock = &clock),
                            &herd->limiter, NULL)
               != WEIR_OK)
        die("no limiter");
    for (size_t i = 0; i < CLIENTS; i++) {
        struct client *client = &herd->clients[i];
        client->at_us = START_US;
        if (weir_backoff_start(
                &client->backoff,
                WEIR_BACKOFF_OPTIONS(.attempts = UINT32_MAX, .seed = i + 1, .clock = &clock), NULL)
            != WEIR_OK)
            die("no backoff");
    }
    return herd;
}

static void disperse(struct herd *herd)
{
    weir_limiter_free(herd->limiter);
    weir_policy_free(herd->policy);
    free(herd);
}

/* The first of those whose turn it is. */
static struct client *next_client(struct herd *herd)
{
    struct client *next = &herd->clients[0];
    for (size_t i = 1; i < CLIENTS; i++)
        if (herd->clients[i].at_us < next->at_us)
            next = &herd->clients[i];
    return next;
}

static void count(struct herd *herd)
{
    uint64_t slot = (herd->now_us - START_US) / SLOT_US;
    if (slot >= SLOTS)
        die("a strategy without end");
    herd->attempts++;
    if (herd->now_us > START_US)
        herd->slots[slot]++;
}

static void attempt(struct herd *herd, struct client *client, strategy *wait)
{
    struct weir_verdict verdict;
    char retry_after[24];
    herd->now_us = client->at_us;
    client->attempts++;
    count(herd);
    if (weir_limiter_check(herd->limiter, WEIR_SUBJECT(.policy = "shared"), 1, &verdict, NULL)
        != WEIR_OK)
        die("no verdict");
    if (verdict.allowed) {
        herd->served++;
        client->at_us = UINT64_MAX;
        return;
    }
    /* As the line of a reply says it: whole seconds, rounded up. */
    snprintf(retry_after, sizeof retry_after, "%llu",
             (unsigned long long)((verdict.retry_us + SECOND_US - 1) / SECOND_US));
    client->at_us += wait(client, retry_after);
}

/* figures */

static unsigned busiest(const struct herd *herd, size_t width)
{
    unsigned most = 0;
    for (size_t i = 0; i + width <= SLOTS; i++) {
        unsigned sum = 0;
        for (size_t j = 0; j < width; j++)
            sum += herd->slots[i + j];
        most = sum > most ? sum : most;
    }
    return most;
}

/* Requests in each slot of the first SERIES_S seconds. */
static void print_series(const char *name, const struct herd *herd)
{
    printf("{\"bench\":\"herd\",\"strategy\":\"%s\",\"per_100ms\":[", name);
    for (size_t i = 0; i < SERIES_S * SECOND_US / SLOT_US; i++)
        printf("%s%u", i == 0 ? "" : ",", herd->slots[i]);
    printf("]}\n");
}

static void run(size_t index, bool with_series)
{
    struct herd *herd = gather();
    while (herd->served < CLIENTS)
        attempt(herd, next_client(herd), strategies[index].wait);
    printf("{\"bench\":\"herd\",\"strategy\":\"%s\",\"clients\":%d,\"attempts\":%u,"
           "\"peak_per_100ms\":%u,\"peak_per_s\":%u,\"all_served_after_s\":%.1f}\n",
           strategies[index].name, CLIENTS, herd->attempts, busiest(herd, 1), busiest(herd, 10),
           (double)(herd->now_us - START_US) / 1e6);
    if (with_series)
        print_series(strategies[index].name, herd);
    disperse(herd);
}

int main(int argc, char **argv)
{
    bool with_series = argc > 1 && strcmp(argv[1], "--series") == 0;
    if (argc > 2 || (argc == 2 && !with_series)) {
        fprintf(stderr, "usage: bench_herd [--series]\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++)
        run(i, with_series);
    return 0;
}
