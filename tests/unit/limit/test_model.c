/* Random steps against slow models that cannot overflow. WEIR_SEED repeats a run. */
#include "test.h"

#include <inttypes.h>
#include <time.h>

#include "limit/algorithm.h"

__extension__ typedef __int128 wide;

#define STEPS          400000
#define STEPS_PER_RATE 400

static uint64_t seed;

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators". */
static uint64_t random_next(void)
{
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return seed * UINT64_C(2685821657736338717);
}

static uint64_t random_to(uint64_t most)
{
    return random_next() % (most + 1);
}

/* As many small numbers as large ones. */
static uint64_t random_size(uint64_t most)
{
    uint64_t number = random_next() >> random_to(63);
    return number % most + 1;
}

static void seed_from_environment(void)
{
    const char *given = getenv("WEIR_SEED");
    seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 2654435761u;
    if (seed == 0)
        seed = 1;
    print_message("    WEIR_SEED=%" PRIu64 "\n", seed);
}

static struct weir_spend random_spend(enum weir_algorithm algorithm)
{
    struct weir_spend spend = { .algorithm = algorithm, .from_first = random_to(1) == 1 };
    uint64_t limit, window_us, burst;
    do {
        limit = random_size(random_to(9) == 0 ? WEIR_UNITS_MAX : 1000);
        window_us = random_size(WEIR_WINDOW_MAX_US);
        burst = algorithm == WEIR_GCRA && random_to(1) == 1 ? random_size(3 * limit) : 0;
    } while (weir_rate_make(limit, window_us, burst, &spend.rate, NULL) != WEIR_OK);
    return spend;
}

static uint64_t ceiling(wide dividend, wide divisor)
{
    return (uint64_t)((dividend + divisor - 1) / divisor);
}

/* gcra with all times in 1/limit µs, where one unit takes exactly the window */

static struct weir_answer model_gcra(const struct weir_rate *rate, wide *arrival, uint64_t now_us,
                                     uint64_t cost)
{
    wide now = (wide)now_us * rate->limit, unit = rate->window_us;
    wide start = *arrival > now ? *arrival : now;
    wide free = now + unit * rate->burst - start, asked = unit * cost;
    struct weir_answer answer = { .remaining = (uint64_t)(free / unit),
                                  .reset_us = ceiling(start - now, rate->limit) };
    if (cost > rate->burst)
        answer.impossible = true;
    else if (asked > free)
        answer.retry_us = ceiling(asked - free, rate->limit);
    else {
        answer.allowed = true;
        answer.remaining = (uint64_t)((free - asked) / unit);
        answer.reset_us = ceiling(start + asked - now, rate->limit);
        if (cost > 0)
            *arrival = start + asked;
    }
    return answer;
}

/* a window as a list of what was spent when, summed anew each time */

struct spent {
    uint64_t start_us;
    uint64_t cost;
};

struct model_window {
    struct spent list[STEPS_PER_RATE];
    size_t count;
    uint64_t first_us; /* the start of the window that was opened last */
};

static struct weir_answer model_window(struct model_window *model, const struct weir_spend *spend,
                                       uint64_t now_us, uint64_t cost)
{
    uint64_t window_us = spend->rate.window_us, start_us = now_us / window_us * window_us;
    if (spend->from_first)
        start_us =
            model->count > 0 && now_us < model->first_us + window_us ? model->first_us : now_us;
    uint64_t used = 0;
    for (size_t i = 0; i < model->count; i++)
        used += model->list[i].start_us == start_us ? model->list[i].cost : 0;

    uint64_t left_us = start_us + window_us - now_us;
    struct weir_answer answer = { .remaining = spend->rate.limit - used,
                                  .reset_us = used > 0 ? left_us : 0 };
    if (cost > spend->rate.limit)
        answer.impossible = true;
    else if (used + cost > spend->rate.limit)
        answer.retry_us = left_us;
    else {
        answer.allowed = true;
        answer.remaining -= cost;
        answer.reset_us = used + cost > 0 ? left_us : 0;
        if (cost > 0) {
            model->list[model->count++] = (struct spent){ start_us, cost };
            model->first_us = start_us;
        }
    }
    return answer;
}

/* steps */

static uint64_t random_cost(const struct weir_rate *rate)
{
    switch (random_to(9)) {
    case 0:
        return 0;
    case 1:
        return rate->burst + random_to(1);
    case 2:
        return random_to(rate->burst + 2);
    default:
        return random_size(rate->burst / 4 + 1);
    }
}

static uint64_t random_pause_us(const struct weir_rate *rate, const struct weir_answer *last)
{
    switch (random_to(5)) {
    case 0:
        return 0;
    case 1:
        return last->retry_us > 0 ? last->retry_us - random_to(1) : 1;
    case 2:
        return last->reset_us;
    case 3:
        return random_to(3 * rate->window_us);
    default:
        return random_to(2 * (rate->window_us / rate->limit) + 1);
    }
}

static void assert_same(const struct weir_answer *got, const struct weir_answer *want)
{
    assert_int_equal(got->allowed, want->allowed);
    assert_int_equal(got->impossible, want->impossible);
    assert_int_equal(got->remaining, want->remaining);
    assert_int_equal(got->retry_us, want->retry_us);
    assert_int_equal(got->reset_us, want->reset_us);
}

/* Whoever waits as told is let through, and a microsecond less is not enough. */
static void assert_wait_is_true(const struct weir_spend *spend,
                                const struct weir_decision_step *step, uint64_t now_us)
{
    if (step->answer.retry_us == 0)
        return;
    uint64_t due_us = now_us + step->answer.retry_us;
    assert_true(weir_decide(spend, step->state, due_us).answer.allowed);
    assert_false(weir_decide(spend, step->state, due_us - 1).answer.allowed);
}

/* When the reset is over, all is there; a microsecond before, it is not. */
static void assert_reset_is_true(const struct weir_spend *spend,
                                 const struct weir_decision_step *step, uint64_t now_us)
{
    if (step->answer.reset_us == 0)
        return;
    struct weir_spend whole = *spend;
    whole.cost = spend->rate.burst;
    uint64_t due_us = now_us + step->answer.reset_us;
    assert_true(weir_decide(&whole, step->state, due_us).answer.allowed);
    assert_false(weir_decide(&whole, step->state, due_us - 1).answer.allowed);
    assert_true(step->expires_us >= due_us);
}

static void assert_state_is_left_alone(const struct weir_decision_step *step,
                                       struct weir_state before)
{
    assert_int_equal(step->state.first, before.first);
    assert_int_equal(step->state.low, before.low);
}

static void walk(enum weir_algorithm algorithm)
{
    static struct model_window model;
    struct weir_spend spend = random_spend(algorithm);
    struct weir_state state = { 0 };
    struct weir_answer last = { .allowed = true };
    wide arrival = 0;
    model.count = 0;
    uint64_t now_us = UINT64_C(1767225600000000) + random_to(spend.rate.window_us);

    for (int i = 0; i < STEPS_PER_RATE; i++) {
        now_us += random_pause_us(&spend.rate, &last);
        spend.cost = random_cost(&spend.rate);
        struct weir_decision_step step = weir_decide(&spend, state, now_us);
        struct weir_answer want = algorithm == WEIR_GCRA
                                      ? model_gcra(&spend.rate, &arrival, now_us, spend.cost)
                                      : model_window(&model, &spend, now_us, spend.cost);
        assert_same(&step.answer, &want);
        assert_wait_is_true(&spend, &step, now_us);
        assert_reset_is_true(&spend, &step, now_us);
        if (!step.answer.allowed || spend.cost == 0)
            assert_state_is_left_alone(&step, state);
        state = step.state;
        last = step.answer;
    }
}

static void decides_gcra_as_the_model_does(void **state)
{
    (void)state;
    seed_from_environment();
    for (int i = 0; i < STEPS / STEPS_PER_RATE; i++)
        walk(WEIR_GCRA);
}

static void decides_windows_as_the_model_does(void **state)
{
    (void)state;
    seed_from_environment();
    for (int i = 0; i < STEPS / STEPS_PER_RATE; i++)
        walk(WEIR_FIXED_WINDOW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_gcra_as_the_model_does),
        cmocka_unit_test(decides_windows_as_the_model_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
