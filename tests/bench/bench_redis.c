/* What checks cost Redis: one JSON line for each figure, in µs of its CPU time for each check, with
 * 64 outstanding over one connection to a server of its own, and in bytes for each key. "single": each
 * check is a call, and these are pipelined; "coalesced": as the store sends them. Ratios hold within
 * one run, so a yardstick runs along, pipelined in the same way: the GCRA script that the Go library
 * go-redis/redis_rate has published, written anew from its description.
 *
 * Usage: bench_redis [checks] */
#include <inttypes.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "redis_server.h"
#include "store/redis_wire.h"
#include "store/store.h"

#define KEYS      20000
#define IN_FLIGHT 64
#define ROUNDS    16 /* short ones in turn, and the best counts: other programs run meanwhile */

/* Long enough that no key becomes like new between two rounds, however busy the machine is: such a one
 * would be made anew, and that costs more. */
#define WINDOW_US UINT64_C(36000000000)

static struct redis_server server;
static struct weir_store *store;

/* what is measured */

struct figure {
    const char *name;
    char letter; /* its keys' */
    size_t count;
    bool is_refused;
    bool is_grouped;
    enum weir_algorithm algorithms[3];
    uint64_t limit; /* in ten hours                            */
    uint64_t keys;  /* for so many clients; 0: for 20,000      */
    double single_us, coalesced_us, own_us, checks_per_call;
    uint64_t failed;
};

static struct figure figures[] = {
    { .name = "one gcra limit", .letter = 'a', .count = 1, .limit = 1000 },
    { .name = "one gcra limit with parts", .letter = 'b', .count = 1, .limit = 997 },
    { .name = "one token bucket",
      .letter = 'c',
      .count = 1,
      .limit = 1000,
      .algorithms = { WEIR_TOKEN_BUCKET } },
    { .name = "one token bucket with parts",
      .letter = 'd',
      .count = 1,
      .limit = 997,
      .algorithms = { WEIR_TOKEN_BUCKET } },
    { .name = "one leaky bucket",
      .letter = 'e',
      .count = 1,
      .limit = 1000,
      .algorithms = { WEIR_LEAKY_BUCKET } },
    { .name = "one fixed window",
      .letter = 'f',
      .count = 1,
      .limit = 1000,
      .algorithms = { WEIR_FIXED_WINDOW } },
    { .name = "one sliding counter",
      .letter = 'g',
      .count = 1,
      .limit = 1000,
      .algorithms = { WEIR_SLIDING_COUNTER } },
    { .name = "one sliding log",
      .letter = 'h',
      .count = 1,
      .limit = 1000,
      .algorithms = { WEIR_SLIDING_LOG } },
    { .name = "a refusal by gcra", .letter = 'i', .count = 1, .limit = 1, .is_refused = true },
    { .name = "a refusal by a sliding log",
      .letter = 'j',
      .count = 1,
      .limit = 1,
      .is_refused = true,
      .algorithms = { WEIR_SLIDING_LOG } },
    { .name = "three gcra limits", .letter = 'k', .count = 3, .limit = 1000, .is_grouped = true },
    { .name = "one gcra limit, one busy client",
      .letter = 'n',
      .count = 1,
      .limit = 100000000,
      .keys = 1 },
    { .name = "one gcra limit, eight busy clients",
      .letter = 'o',
      .count = 1,
      .limit = 100000000,
      .keys = 8 },
    { .name = "three mixed limits",
      .letter = 'l',
      .count = 3,
      .limit = 1000,
      .is_grouped = true,
      .algorithms = { WEIR_GCRA, WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER } },
    { .name = "three mixed limits with a key each",
      .letter = 'm',
      .count = 3,
      .limit = 1000,
      .algorithms = { WEIR_GCRA, WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER } },
};

#define FIGURES (sizeof figures / sizeof figures[0])

enum { ONE_GCRA = 0, REFUSAL = 8, THREE_GCRA = 10, ONE_BUSY = 11, THREE_MIXED = 13 };

/* checks that follow each other, so many at once */

struct slot {
    struct weir_check check;
    struct weir_spend spends[3];
    struct weir_answer answers[3];
    char keys[3][48];
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    const struct figure *figure;
    uint64_t left; /* still to be submitted */
    uint64_t open; /* under way             */
    uint64_t failed;
    struct slot slots[IN_FLIGHT];
} run = { .mutex = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };

static void name_keys(struct slot *slot, uint64_t number)
{
    uint64_t keys = run.figure->keys == 0 ? KEYS : run.figure->keys;
    for (size_t i = 0; i < slot->check.count; i++) {
        struct weir_spend *spend = &slot->spends[i];
        int group = snprintf(slot->keys[i], sizeof slot->keys[i],
                             "weir:{ip=192.0.%" PRIu64 ".7}:%c", number % keys, run.figure->letter);
        int rest = snprintf(slot->keys[i] + group, sizeof slot->keys[i] - (size_t)group, ":%c:g",
                            (char)('a' + i));
        spend->key = slot->keys[i];
        spend->key_length = (size_t)(group + rest);
        spend->group_length = run.figure->is_grouped ? (size_t)group : 0;
    }
}

static bool is_as_wanted(const struct weir_check *check)
{
    bool allowed = true;
    for (size_t i = 0; i < check->count; i++)
        allowed = allowed && check->answers[i].allowed;
    return check->result == WEIR_STORE_ANSWERED && allowed != run.figure->is_refused;
}

/* On the store's thread: the next check takes the place of the one that ended. */
static void on_done(struct weir_check *check)
{
    pthread_mutex_lock(&run.mutex);
    run.failed += !is_as_wanted(check);
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

static bool set_up(struct slot *slot, const struct figure *figure)
{
    slot->check = (struct weir_check){ .spends = slot->spends,
                                       .answers = slot->answers,
                                       .count = figure->count,
                                       .wants_time = true,
                                       .done = on_done,
                                       .owner = slot };
    for (size_t i = 0; i < figure->count; i++) {
        slot->spends[i] = (struct weir_spend){ .algorithm = figure->algorithms[i], .cost = 1 };
        if (weir_rate_make(figure->limit, WINDOW_US, 0, &slot->spends[i].rate, NULL) != WEIR_OK)
            return false;
    }
    return true;
}

/* Runs `checks` checks; returns how many failed. */
static uint64_t run_checks(const struct figure *figure, uint64_t checks)
{
    run.figure = figure;
    run.left = checks - IN_FLIGHT;
    run.open = IN_FLIGHT;
    run.failed = 0;
    for (size_t i = 0; i < IN_FLIGHT; i++) {
        if (!set_up(&run.slots[i], figure))
            exit(2);
        name_keys(&run.slots[i], i);
        store->type->submit(store->self, &run.slots[i].check);
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

static double calls(void)
{
    return info_number("commandstats", "cmdstat_evalsha:calls=");
}

static void measure_coalesced(struct figure *figure, uint64_t checks)
{
    double before_s = cpu_s(), own_before_s = own_cpu_s(), calls_before = calls();
    figure->failed += run_checks(figure, checks);
    double us = (cpu_s() - before_s) * 1e6 / (double)checks;
    if (figure->coalesced_us == 0 || us < figure->coalesced_us) {
        figure->coalesced_us = us;
        figure->own_us = (own_cpu_s() - own_before_s) * 1e6 / (double)checks;
        figure->checks_per_call = (double)checks / (calls() - calls_before);
    }
}

/* a call for each check */

static struct weir_redis_scripts scripts;
static char command_memory[WEIR_REDIS_COMMAND_BYTES];

static void ask_single(redisContext *context, struct slot *slot)
{
    struct weir_redis_plan plan;
    weir_redis_plan_make(&plan, &slot->check);
    struct weir_redis_script *script = weir_redis_scripts_get(&scripts, &plan.shape);
    if (script->hash[0] == '\0') {
        redisReply *hash = redis_server_ask(&server, "SCRIPT LOAD %s", script->text);
        assert_true(weir_redis_read_hash(hash, script->hash));
        freeReplyObject(hash);
    }
    struct weir_buffer command = weir_buffer_init(command_memory, sizeof command_memory);
    const struct weir_clock clock = weir_clock_or_system(NULL);
    weir_redis_write_check(&command, script, WEIR_REDIS_BY_HASH, WEIR_REDIS_OWN_CLOCK,
                           weir_clock_now_us(&clock), &plan, &slot->check);
    redisAppendFormattedCommand(context, command.at, command.length);
}

static void run_single(struct figure *figure, uint64_t checks)
{
    redisContext *context = redisConnectUnix(server.socket);
    run.figure = figure;
    for (uint64_t done = 0; done < checks; done += IN_FLIGHT) {
        for (uint64_t i = 0; i < IN_FLIGHT; i++) {
            if (!set_up(&run.slots[i], figure))
                exit(2);
            name_keys(&run.slots[i], (done + i) * 7919);
            ask_single(context, &run.slots[i]);
        }
        for (uint64_t i = 0; i < IN_FLIGHT; i++) {
            struct weir_check *check = &run.slots[i].check;
            redisReply *reply = NULL;
            assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
            bool is_decided = weir_redis_read_answer(reply, check) == WEIR_REDIS_DECIDED;
            figure->failed += !is_decided || !is_as_wanted(check);
            freeReplyObject(reply);
        }
    }
    redisFree(context);
}

static void measure_single(struct figure *figure, uint64_t checks)
{
    double before_s = cpu_s();
    run_single(figure, checks);
    double us = (cpu_s() - before_s) * 1e6 / (double)checks;
    if (figure->single_us == 0 || us < figure->single_us)
        figure->single_us = us;
}

/* the yardstick */

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

struct yardstick {
    const char *name;
    const char *limit;
    char letter;
    double redis_us;
};

static void run_yardstick(const struct yardstick *yardstick, const char *hash, uint64_t checks)
{
    redisContext *context = redisConnectUnix(server.socket);
    char key[48];
    for (uint64_t done = 0; done < checks; done += IN_FLIGHT) {
        for (uint64_t i = 0; i < IN_FLIGHT; i++) {
            snprintf(key, sizeof key, "weir:{ip=192.0.%" PRIu64 ".7}:%c:a:g",
                     (done + i) * 7919 % KEYS, yardstick->letter);
            redisAppendCommand(context, "EVALSHA %s 1 %s %s %s 36000 1", hash, key,
                               yardstick->limit, yardstick->limit);
        }
        for (uint64_t i = 0; i < IN_FLIGHT; i++) {
            redisReply *reply = NULL;
            assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
            assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
            freeReplyObject(reply);
        }
    }
    redisFree(context);
}

static void measure_yardstick(struct yardstick *yardstick, const char *hash, uint64_t checks)
{
    double before_s = cpu_s();
    run_yardstick(yardstick, hash, checks);
    double us = (cpu_s() - before_s) * 1e6 / (double)checks;
    if (yardstick->redis_us == 0 || us < yardstick->redis_us)
        yardstick->redis_us = us;
}

static struct yardstick yardsticks[] = { { "go-redis's gcra script", "1000", 'y', 0 },
                                         { "go-redis's gcra script, a refusal", "1", 'z', 0 } };

static void measure_all(uint64_t checks)
{
    redisReply *hash = redis_server_ask(&server, "SCRIPT LOAD %s", yardstick_script);
    for (size_t i = 0; i < 2; i++)
        run_yardstick(&yardsticks[i], hash->str, 2 * KEYS);
    for (size_t i = 0; i < FIGURES; i++) {
        run_checks(&figures[i], 2 * KEYS);
        figures[i].failed = 0;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < 2; i++)
            measure_yardstick(&yardsticks[i], hash->str, checks);
        for (size_t i = 0; i < FIGURES; i++) {
            measure_single(&figures[i], checks);
            measure_coalesced(&figures[i], checks);
        }
    }
    freeReplyObject(hash);
}

static void print_ratio(const char *what, const struct yardstick *yardstick, double redis_us)
{
    printf("{\"figure\": \"redis_cpu_yardstick_to_%s\", \"ratio\": %.2f}\n", what,
           yardstick->redis_us / redis_us);
}

static void print_cpu(void)
{
    for (size_t i = 0; i < 2; i++)
        printf("{\"figure\": \"redis_cpu\", \"check\": \"%s\", \"single_us\": %.2f}\n",
               yardsticks[i].name, yardsticks[i].redis_us);
    for (size_t i = 0; i < FIGURES; i++)
        printf("{\"figure\": \"redis_cpu\", \"check\": \"%s\", \"single_us\": %.2f, "
               "\"coalesced_us\": %.2f, \"checks_per_call\": %.1f, \"own_us\": %.2f, "
               "\"failed\": %" PRIu64 "}\n",
               figures[i].name, figures[i].single_us, figures[i].coalesced_us,
               figures[i].checks_per_call, figures[i].own_us, figures[i].failed);
    print_ratio("one_gcra", &yardsticks[0], figures[ONE_GCRA].single_us);
    print_ratio("one_gcra_coalesced", &yardsticks[0], figures[ONE_GCRA].coalesced_us);
    print_ratio("one_busy_client_coalesced", &yardsticks[0], figures[ONE_BUSY].coalesced_us);
    print_ratio("refusal", &yardsticks[1], figures[REFUSAL].single_us);
    print_ratio("refusal_coalesced", &yardsticks[1], figures[REFUSAL].coalesced_us);
    print_ratio("three_gcra", &yardsticks[0], figures[THREE_GCRA].single_us);
    print_ratio("three_gcra_coalesced", &yardsticks[0], figures[THREE_GCRA].coalesced_us);
    print_ratio("three_mixed", &yardsticks[0], figures[THREE_MIXED].single_us);
    print_ratio("three_mixed_coalesced", &yardsticks[0], figures[THREE_MIXED].coalesced_us);
}

/* memory */

static long long print_bytes(const char *name, const char *key)
{
    long long bytes = redis_server_number(&server, "MEMORY USAGE %s", key);
    printf("{\"figure\": \"redis_bytes\", \"check\": \"%s\", \"bytes\": %lld}\n", name, bytes);
    return bytes;
}

static void print_bytes_of_figure(const struct figure *figure)
{
    char key[48], ends[3][8] = { ":a:g", ":b:g", ":c:g" };
    long long bytes = 0;
    for (size_t i = 0; i < (figure->is_grouped ? 1 : figure->count); i++) {
        snprintf(key, sizeof key, "weir:{ip=192.0.7919.7}:%c%s", figure->letter,
                 figure->is_grouped ? "" : ends[i]);
        bytes += redis_server_number(&server, "MEMORY USAGE %s", key);
    }
    printf("{\"figure\": \"redis_bytes\", \"check\": \"%s\", \"bytes\": %lld}\n", figure->name,
           bytes);
}

/* A log with so many entries, against a sorted set that has one member for each. */
static void print_bytes_of_log(uint64_t entries)
{
    char key[48], name[48], letter[] = { entries == 100 ? 'p' : 'q', '\0' };
    struct figure figure = { .letter = letter[0], .count = 1, .limit = entries };
    figure.algorithms[0] = WEIR_SLIDING_LOG;
    /* All with one key, each in a microsecond of its own but for the quickest. */
    struct slot *slot = &run.slots[0];
    run.figure = &figure;
    for (uint64_t i = 0; i < entries; i++) {
        set_up(slot, &figure);
        name_keys(slot, 7919);
        run.left = 0;
        run.open = 1;
        store->type->submit(store->self, &slot->check);
        pthread_mutex_lock(&run.mutex);
        while (run.open > 0)
            pthread_cond_wait(&run.ended, &run.mutex);
        pthread_mutex_unlock(&run.mutex);
        redis_server_do(&server, "ZADD weir:{ip=192.0.7919.7}:%s:set %llu %llu-%llu", letter,
                        1796037205095451ULL + i, 1796037205095451ULL + i, i);
    }
    snprintf(key, sizeof key, "weir:{ip=192.0.7919.7}:%c:a:g", figure.letter);
    snprintf(name, sizeof name, "a sliding log of %" PRIu64, entries);
    long long log_bytes = print_bytes(name, key);
    snprintf(key, sizeof key, "weir:{ip=192.0.7919.7}:%c:set", figure.letter);
    snprintf(name, sizeof name, "a sorted set of %" PRIu64, entries);
    long long set_bytes = print_bytes(name, key);
    printf("{\"figure\": \"redis_bytes_sorted_set_to_log_of_%" PRIu64 "\", \"ratio\": %.1f}\n",
           entries, (double)set_bytes / (double)log_bytes);
}

int main(int argc, char **argv)
{
    uint64_t checks = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
    if (checks < IN_FLIGHT || checks > 500000)
        return 2; /* more would use the limits up */

    redis_server_prepare(&server);
    redis_server_start(&server);
    if (weir_store_open(server.url, WEIR_STORE_OPTIONS(.timeout_ms = 5000), &store, NULL)
        == WEIR_OK) {
        measure_all(checks);
        print_cpu();
        print_bytes("go-redis's gcra script", "weir:{ip=192.0.7919.7}:y:a:g");
        for (size_t i = 0; i < FIGURES; i++)
            if (figures[i].keys == 0)
                print_bytes_of_figure(&figures[i]);
        print_bytes_of_log(100);
        print_bytes_of_log(1000);
        weir_redis_scripts_finish(&scripts);
        weir_store_free(store);
    }
    redis_server_remove(&server);
    return 0;
}
