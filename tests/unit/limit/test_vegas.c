/* The adaptive limit: its arithmetic, and how it gets on with back ends in virtual time. */
#include "test.h"

#include <math.h>

#include "limit/vegas.h"

#define MS 1000u

static struct weir_vegas vegas;

static void start(uint32_t floor, uint32_t initial, uint32_t ceiling)
{
    weir_vegas_init(&vegas, (struct weir_vegas_bounds){ floor, ceiling, initial }, 1);
}

static uint64_t now_us;

static bool end_one(uint64_t time_us, uint32_t in_flight, bool is_dropped)
{
    now_us += time_us + 1;
    const struct weir_vegas_sample sample = { .started_us = now_us - time_us,
                                              .ended_us = now_us,
                                              .in_flight = in_flight,
                                              .is_dropped = is_dropped };
    return weir_vegas_add(&vegas, &sample);
}

/* A window of requests that all take so long; `in_flight` 0: all of the limit. */
static void end_window(uint64_t time_us, uint32_t in_flight)
{
    uint32_t limit = weir_vegas_limit(&vegas);
    for (int i = 0; i < 1000; i++)
        if (end_one(time_us, in_flight == 0 ? limit : in_flight, false))
            return;
    fail_msg("no window has ended");
}

/* its arithmetic */

static void doubles_until_the_first_sign_of_a_queue(void **state)
{
    (void)state;
    start(4, 20, 1000);
    end_window(10 * MS, 0);
    assert_int_equal(weir_vegas_limit(&vegas), 40);
    end_window(10 * MS, 0);
    assert_int_equal(weir_vegas_limit(&vegas), 80);
    end_window(10200, 0); /* 80 · (1 - 10 / 10.2) = 1.6 wait */
    assert_int_equal(weir_vegas_limit(&vegas), 81);
    end_window(10 * MS, 0);
    assert_int_equal(weir_vegas_limit(&vegas), 87);
}

static void follows_the_queue(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint32_t limit;
        uint64_t time_us; /* base: 10 ms */
        uint32_t in_flight;
        uint32_t want;
    } rows[] = {
        { "nobody waits", 40, 10000, 40, 46 },
        { "one waits", 40, 10250, 40, 46 },
        { "two wait", 40, 10526, 40, 41 },
        { "three wait", 40, 10811, 40, 40 },
        { "six wait", 40, 11764, 40, 40 },
        { "eight wait", 40, 12500, 40, 39 },
        { "22 wait, so 4 fewer", 40, 22220, 40, 36 },
        { "half of it is in use", 40, 10000, 20, 46 },
        { "less than half of it is in use", 40, 10000, 19, 40 },
        { "less than half of it, and 9.5 of 19 wait", 40, 20000, 19, 39 },
        { "a small limit", 4, 10000, 4, 10 },
        { "it takes less than ever before", 40, 9000, 40, 46 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        start(1, rows[i].limit, 1000);
        vegas.stage = WEIR_VEGAS_STEADY;
        vegas.base_us = 10000;
        end_window(rows[i].time_us, rows[i].in_flight);
        assert_int_equal(weir_vegas_limit(&vegas), rows[i].want);
    }
}

static void takes_noise_for_no_queue(void **state)
{
    (void)state;
    start(1, 40, 1000);
    vegas.stage = WEIR_VEGAS_STEADY;
    vegas.base_us = 10000;
    /* 1 ms or 21 ms, 11 ms on the average, and that is off by 1.6 ms. */
    for (int i = 0; i < 40; i++)
        end_one(i % 2 == 0 ? 1 * MS : 21 * MS, 40, false);
    assert_int_equal(weir_vegas_limit(&vegas), 46);
}

static void stays_within_its_bounds(void **state)
{
    (void)state;
    start(8, 20, 50);
    for (int i = 0; i < 20; i++)
        end_window(10 * MS, 0);
    assert_int_equal(weir_vegas_limit(&vegas), 50);
    for (int i = 0; i < 1000; i++)
        end_one(0, 50, true);
    assert_int_equal(weir_vegas_limit(&vegas), 8);
}

static void comes_down_by_the_share_that_was_dropped(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint32_t dropped, want;
    } rows[] = {
        { "none of forty", 0, 46 }, { "one of forty", 1, 45 }, /* 46 · (1 - 1/80) */
        { "a fourth", 10, 40 },     { "half of them", 20, 34 }, { "all", 40, 20 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        start(1, 40, 1000);
        vegas.stage = WEIR_VEGAS_STEADY;
        vegas.base_us = 10000;
        for (uint32_t j = 0; j < 40; j++)
            end_one(j < rows[i].dropped ? 0 : 10000, 40, j < rows[i].dropped);
        assert_int_equal(weir_vegas_limit(&vegas), rows[i].want);
    }
}

/* One request out of a cache, in a window of ten that is as small as a window gets. */
static void is_not_misled_by_a_lucky_sample(void **state)
{
    (void)state;
    start(4, 10, 1000);
    vegas.stage = WEIR_VEGAS_STEADY;
    vegas.base_us = 10000;
    for (int i = 0; i < 10; i++)
        end_one(i == 0 ? 1 : 10000, 10, false);
    assert_true(vegas.base_us > 9700);
    uint32_t before = weir_vegas_limit(&vegas);
    end_window(10000, 0);
    assert_true(weir_vegas_limit(&vegas) >= before);
}

static void does_not_go_by_who_started_before_a_probe(void **state)
{
    (void)state;
    start(4, 40, 1000);
    end_window(10 * MS, 10); /* not in use: the limit stays where it is */
    vegas.to_probe = 0;
    end_window(10 * MS, 10);
    assert_int_equal(vegas.stage, WEIR_VEGAS_PROBING);
    const struct weir_vegas_sample older = { .started_us = vegas.round_us - 1,
                                             .ended_us = now_us + 1,
                                             .in_flight = 40 };
    for (int i = 0; i < 500; i++)
        assert_false(weir_vegas_add(&vegas, &older));
    for (int i = 0; i < 80 + 40; i++)
        end_one(20 * MS, 40, false);
    assert_int_equal(vegas.stage, WEIR_VEGAS_STEADY);
    assert_int_equal((int)vegas.base_us, 20 * MS);
}

static void turns_nobody_away_to_probe_where_nobody_waits(void **state)
{
    (void)state;
    start(4, 40, 1000);
    for (int probes = 0; probes < 100000; probes++) {
        end_one(10 * MS, 15, false);
        assert_int_equal(weir_vegas_limit(&vegas), 40);
    }
    assert_int_equal((int)vegas.base_us, 10 * MS);
}

static void probes_out_of_step_with_others(void **state)
{
    (void)state;
    double first = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        weir_vegas_init(&vegas, (struct weir_vegas_bounds){ 4, 1000, 40 }, seed);
        assert_true(vegas.to_probe >= 30 * 40 && vegas.to_probe <= 60 * 40);
        if (seed > 0)
            assert_true(vegas.to_probe != first);
        first = vegas.to_probe;
    }
}

/* back ends, in virtual time */

#define WORKERS_MAX 256
#define WAITING_MAX 4096
#define TIMES_MAX   1000000

enum kind {
    WORKERS, /* a queue in front of workers, each of which takes about as long                  */
    CROWDED, /* likewise, and a crowd makes all of them slower: twice as slow at twice as many  */
    SLOWER,  /* likewise, and from 20 s to 30 s each request takes twice as long                */
    FEWER,   /* likewise, and from 20 s to 30 s a fourth of the workers is there                */
    RANDOM,  /* as WORKERS, with exponential times                                              */
    LUCKY    /* as WORKERS, and one request in a thousand takes no time at all                  */
};

struct back_end {
    enum kind kind;
    unsigned workers;
    double time_s; /* of a request, by a worker */
    double load;   /* arrivals, as a multiple of what it can serve */
};

struct job {
    double arrived_s, done_s;
};

static struct {
    const struct back_end *of;
    uint64_t random;
    double now_s, arrival_s;
    struct job busy[WORKERS_MAX], waiting[WAITING_MAX];
    unsigned busy_count, first, waiting_count, in_flight;
    unsigned served, refused;
    unsigned served_in[1000]; /* each second */
    uint32_t limit_in[1000];  /* at its end  */
    float times_s[TIMES_MAX]; /* of requests */
} world;

/* xorshift64* (Vigna) */
static double chance(void)
{
    world.random ^= world.random >> 12;
    world.random ^= world.random << 25;
    world.random ^= world.random >> 27;
    return (double)((world.random * UINT64_C(2685821657736338717)) >> 11) * 0x1p-53;
}

static bool is_bad_time(void)
{
    return world.now_s >= 20 && world.now_s < 30;
}

static unsigned workers_now(void)
{
    return world.of->kind == FEWER && is_bad_time() ? world.of->workers / 4 : world.of->workers;
}

static double service_s(void)
{
    const struct back_end *of = world.of;
    double crowd = (double)world.in_flight / of->workers;
    double jitter_s = of->time_s * (0.8 + 0.4 * chance());
    switch (of->kind) {
    case CROWDED:
        return jitter_s * fmin(2, fmax(1, crowd));
    case SLOWER:
        return is_bad_time() ? 2 * jitter_s : jitter_s;
    case RANDOM:
        return -of->time_s * log(1 - chance());
    case LUCKY:
        return chance() < 0.001 ? 0 : jitter_s;
    case WORKERS:
    case FEWER:
        break;
    }
    return jitter_s;
}

static void put_to_work(void)
{
    while (world.busy_count < workers_now() && world.waiting_count > 0) {
        struct job job = world.waiting[world.first++ % WAITING_MAX];
        world.waiting_count--;
        job.done_s = world.now_s + service_s();
        world.busy[world.busy_count++] = job;
    }
}

static void plan_arrival(void)
{
    const struct back_end *of = world.of;
    world.arrival_s -= of->time_s / of->workers / of->load * log(1 - chance());
}

static void arrive(void)
{
    world.now_s = world.arrival_s;
    plan_arrival();
    if (world.in_flight >= weir_vegas_limit(&vegas)) {
        world.refused++;
        return;
    }
    world.in_flight++;
    assert_true(world.waiting_count < WAITING_MAX);
    world.waiting[(world.first + world.waiting_count++) % WAITING_MAX] =
        (struct job){ .arrived_s = world.now_s };
}

static unsigned next_done(void)
{
    unsigned first = 0;
    for (unsigned i = 1; i < world.busy_count; i++)
        if (world.busy[i].done_s < world.busy[first].done_s)
            first = i;
    return first;
}

static void finish(unsigned index)
{
    struct job job = world.busy[index];
    world.busy[index] = world.busy[--world.busy_count];
    world.now_s = job.done_s;
    const struct weir_vegas_sample sample = { .started_us = (uint64_t)(job.arrived_s * 1e6),
                                              .ended_us = (uint64_t)(job.done_s * 1e6),
                                              .in_flight = world.in_flight-- };
    weir_vegas_add(&vegas, &sample);
    assert_true(world.served < TIMES_MAX);
    world.times_s[world.served++] = (float)(job.done_s - job.arrived_s);
    world.served_in[(size_t)job.done_s]++;
    world.limit_in[(size_t)job.done_s] =
        vegas.stage == WEIR_VEGAS_PROBING ? (uint32_t)vegas.held : weir_vegas_limit(&vegas);
}

static void run(const struct back_end *of, uint64_t seed, double until_s)
{
    memset(&world, 0, sizeof world);
    world.of = of;
    world.random = seed * 7919 + 1;
    weir_vegas_init(&vegas, (struct weir_vegas_bounds){ 4, 200, 20 }, seed);
    plan_arrival();
    while (world.now_s < until_s) {
        unsigned first = next_done();
        if (world.busy_count == 0 || world.arrival_s < world.busy[first].done_s)
            arrive();
        else
            finish(first);
        put_to_work();
    }
}

static int compare_times(const void *one, const void *other)
{
    float a = *(const float *)one, b = *(const float *)other;
    return (a > b) - (a < b);
}

static double percentile_s(double part)
{
    qsort(world.times_s, world.served, sizeof world.times_s[0], compare_times);
    return (double)world.times_s[(size_t)(part * world.served)];
}

static double served_between(unsigned from_s, unsigned until_s)
{
    double sum = 0;
    for (unsigned i = from_s; i < until_s; i++)
        sum += world.served_in[i];
    return sum;
}

static double goodput(unsigned from_s, unsigned until_s, double best_per_s)
{
    return served_between(from_s, until_s) / best_per_s / (until_s - from_s);
}

/* The figure: of the best that any limit could get out of it, and against the time of one request
 * alone; from the first request on, slow start and probes included. */
static void keeps_a_back_end_busy_and_quick(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct back_end back_end;
        double goodput; /* of the best, at least      */
        double slowest; /* p99 in base times, at most */
    } rows[] = {
        { "40 workers, 10 ms", { WORKERS, 40, 0.010, 2 }, 0.95, 3 },
        { "its time doubles in a crowd", { CROWDED, 40, 0.010, 2 }, 0.90, 3 },
        { "its time doubles in a larger crowd", { CROWDED, 100, 0.020, 2 }, 0.90, 3 },
        { "ten times the load", { CROWDED, 40, 0.010, 10 }, 0.90, 3 },
        { "its time doubles for 10 s", { SLOWER, 40, 0.010, 2 }, 0.90, 3 },
        { "its time of 50 ms doubles for 10 s", { SLOWER, 40, 0.050, 2 }, 0.90, 3 },
        { "three fourths of its workers go for 10 s", { FEWER, 40, 0.010, 2 }, 0.90, 3 },
        { "some requests take no time", { LUCKY, 40, 0.010, 2 }, 0.95, 3 },
        { "8 workers, 5 ms", { WORKERS, 8, 0.005, 2 }, 0.95, 3.5 },
        /* Alone its p99 is 4.6 already. */
        { "40 workers with exponential times", { RANDOM, 40, 0.010, 2 }, 0.85, 5.5 },
        { "half of what it could serve", { WORKERS, 40, 0.010, 0.5 }, 0.49, 1.3 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct back_end *of = &rows[i].back_end;
        double best_per_s = of->workers / of->time_s;
        double best = of->kind == SLOWER  ? (50 + 10 / 2.0) / 60
                      : of->kind == FEWER ? (50 + 10 / 4.0) / 60
                                          : 1;
        for (uint64_t seed = 1; seed <= 3; seed++) {
            run(of, seed, 60);
            double good = goodput(0, 60, best_per_s * best), slow = percentile_s(0.99) / of->time_s;
            print_message("    %s: goodput %.3f of the best, p99 %.2f times the base\n",
                          rows[i].what, good, slow);
            assert_true(good >= rows[i].goodput);
            assert_true(slow <= rows[i].slowest);
        }
    }
}

static void recovers_within_five_seconds(void **state)
{
    (void)state;
    static const struct back_end rows[] = {
        { SLOWER, 40, 0.010, 2 },
        { SLOWER, 40, 0.050, 2 },
        { FEWER, 40, 0.010, 2 },
        { FEWER, 40, 0.050, 2 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            run(&rows[i], seed, 60);
            double best_per_s = rows[i].workers / rows[i].time_s;
            print_message("    limit %u before, %u in it, %u a second after, %u 5 s after\n",
                          world.limit_in[19], world.limit_in[29], world.limit_in[30],
                          world.limit_in[34]);
            assert_in_range(world.limit_in[34], 40, 55);
            assert_true(goodput(35, 60, best_per_s) >= 0.95);
        }
}

/* What a probe measures while others wait must not become the base of a longer queue, and so on. */
static void does_not_drift_in_a_long_overload(void **state)
{
    (void)state;
    static const struct back_end of = { WORKERS, 20, 0.020, 3 };
    run(&of, 1, 900);
    for (unsigned i = 5; i < 900; i++)
        assert_in_range(world.limit_in[i], 19, 40);
    assert_true(goodput(0, 900, 1000) >= 0.95);
}

/* A burst that takes half of it doubles it once. */
static void does_not_grow_beyond_what_is_used(void **state)
{
    (void)state;
    static const struct back_end of = { WORKERS, 40, 0.010, 0.2 };
    run(&of, 1, 60);
    for (unsigned i = 0; i < 60; i++)
        assert_in_range(world.limit_in[i], 20, 80);
    assert_int_equal(world.refused, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_until_the_first_sign_of_a_queue),
        cmocka_unit_test(follows_the_queue),
        cmocka_unit_test(takes_noise_for_no_queue),
        cmocka_unit_test(stays_within_its_bounds),
        cmocka_unit_test(comes_down_by_the_share_that_was_dropped),
        cmocka_unit_test(is_not_misled_by_a_lucky_sample),
        cmocka_unit_test(does_not_go_by_who_started_before_a_probe),
        cmocka_unit_test(turns_nobody_away_to_probe_where_nobody_waits),
        cmocka_unit_test(probes_out_of_step_with_others),
        cmocka_unit_test(keeps_a_back_end_busy_and_quick),
        cmocka_unit_test(recovers_within_five_seconds),
        cmocka_unit_test(does_not_drift_in_a_long_overload),
        cmocka_unit_test(does_not_grow_beyond_what_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
