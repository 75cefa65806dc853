#include "world.h"

#include <time.h>
#include <unistd.h>

#include <weir/calendar.h>

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

/* Times lie between 2020 and 2100, where all that is added to them stays below 2^53. */
#define EARLIEST (UINT64_C(18263) * DAY)
#define LATEST   (UINT64_C(47482) * DAY)

/* Most worlds of a run are cut from one of so many patterns, so that a store which prepares itself
 * for what it is asked is not always asked for something new. */
#define PATTERNS 6

/* The algorithms of limits. */
#define ALGORITHMS (WEIR_SLIDING_LOG + 1)

/* chance: xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators") */

static uint64_t next_random(struct world *world)
{
    world->random ^= world->random >> 12;
    world->random ^= world->random << 25;
    world->random ^= world->random >> 27;
    return world->random * UINT64_C(2685821657736338717);
}

static uint64_t pick(struct world *world, uint64_t most)
{
    return most == UINT64_MAX ? next_random(world) : (next_random(world) >> 8) % (most + 1);
}

static bool chance(struct world *world, unsigned percent)
{
    return pick(world, 99) < percent;
}

/* From 1 to `most`, as many small numbers as large ones. */
static uint64_t pick_size(struct world *world, uint64_t most)
{
    uint64_t number = next_random(world) >> (1 + pick(world, 62));
    return number % most + 1;
}

/* A number or one of its neighbours. */
static uint64_t about(struct world *world, uint64_t number)
{
    uint64_t around = pick(world, 2);
    return number + around > 0 ? number + around - 1 : 0;
}

static void sow(struct world *world, uint64_t seed)
{
    /* One step of splitmix64, so that neighbouring seeds have nothing in common. */
    uint64_t mixed = seed * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x632be59bd9b4e019);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    world->random = (mixed ^ (mixed >> 27)) | 1;
}

/* limits */

static uint64_t pick_limit(struct world *world)
{
    static const uint64_t usual[] = { 1, 3, 5, 7, 10, 60, 97, 100, 1000, 50000, 1000000 };
    switch (pick(world, 9)) {
    case 0:
        return chance(world, 25) ? 0 : 1 + pick(world, 1);
    case 1:
    case 2:
        return 1 + pick(world, 4);
    case 3:
        return pick_size(world, WEIR_UNITS_MAX);
    case 4:
        return WEIR_UNITS_MAX - pick(world, 1000);
    case 5:
    case 6:
        return 1 + pick(world, 30);
    default:
        return usual[pick(world, COUNT_OF(usual) - 1)];
    }
}

static uint64_t pick_window(struct world *world)
{
    static const uint64_t usual[] = { 1000,        250000,    SECOND, 7 * SECOND, MINUTE,
                                      15 * MINUTE, HOUR,      DAY,    7 * DAY,    30 * DAY,
                                      365 * DAY,   366 * DAY, 1,      1000003 };
    switch (pick(world, 4)) {
    case 0:
        return pick_size(world, WEIR_WINDOW_MAX_US);
    case 1:
        return 1 + pick(world, 3000000);
    default:
        return usual[pick(world, COUNT_OF(usual) - 1)];
    }
}

static bool has_burst(enum weir_algorithm algorithm)
{
    return algorithm == WEIR_GCRA || algorithm == WEIR_TOKEN_BUCKET
           || algorithm == WEIR_LEAKY_BUCKET;
}

static uint64_t pick_burst(struct world *world, uint64_t limit)
{
    if (limit == 0 || chance(world, 50))
        return 0;
    return pick_size(world, chance(world, 10) ? WEIR_UNITS_MAX : 3 * limit) % WEIR_UNITS_MAX;
}

/* A store may prepare itself for numbers of other kinds in other ways. */
enum numbers {
    NUMBERS_ANY,
    NUMBERS_NONE,  /* a limit of 0              */
    NUMBERS_WHOLE, /* intervals of whole µs     */
    NUMBERS_BROKEN /* of fractions              */
};

static enum numbers numbers_of(const struct weir_spend *spend)
{
    if (spend->rate.limit == 0)
        return NUMBERS_NONE;
    return spend->rate.parts == 1 || !has_burst(spend->algorithm) ? NUMBERS_WHOLE : NUMBERS_BROKEN;
}

static void pick_rate(struct world *world, struct weir_spend *spend, enum numbers numbers,
                      uint64_t longest_us)
{
    uint64_t limit, window_us, burst;
    do {
        limit = pick_limit(world);
        window_us = pick_window(world);
        burst = has_burst(spend->algorithm) ? pick_burst(world, limit) : 0;
    } while (window_us > longest_us
             || weir_rate_make(limit, window_us, burst, &spend->rate, NULL) != WEIR_OK
             || (numbers != NUMBERS_ANY && numbers != numbers_of(spend)));
}

/* The queue's longest wait: none, a few units' time, or anything. */
static uint64_t pick_max_wait(struct world *world, const struct weir_rate *rate)
{
    if (chance(world, 40))
        return 2 * SECOND;
    return chance(world, 60) ? about(world, rate->interval_us * pick(world, 5)) + 1
                             : pick_size(world, HOUR);
}

/* Calendars are made once, and last until the program ends. */
static const struct weir_calendar *pick_calendar(struct world *world, uint64_t *longest_us)
{
    static const struct {
        struct weir_calendar_options options;
        uint64_t longest_us;
    } rows[] = {
        { { .unit = WEIR_CALENDAR_DAY }, DAY },
        { { .unit = WEIR_CALENDAR_WEEK }, 7 * DAY },
        { { .unit = WEIR_CALENDAR_MONTH }, 31 * DAY },
        { { .unit = WEIR_CALENDAR_MONTH, .anchor_day = 31, .zone = "Europe/Berlin" }, 31 * DAY },
        { { .unit = WEIR_CALENDAR_DAY, .zone = "America/New_York" }, DAY + HOUR },
        { { .unit = WEIR_CALENDAR_YEAR }, 366 * DAY },
    };
    static struct weir_calendar *made[COUNT_OF(rows)];
    size_t row = pick(world, COUNT_OF(rows) - 1);
    if (made[row] == NULL) {
        struct weir_calendar_options options = rows[row].options;
        options.size = sizeof options;
        assert_int_equal(weir_calendar_new(&options, &made[row], NULL), WEIR_OK);
    }
    *longest_us = rows[row].longest_us;
    return made[row];
}

/* What else there is to say about a limit: one of VARIANTS kinds. */
#define VARIANTS 3

static void set_variant(struct world *world, struct weir_spend *spend, uint64_t kind)
{
    if (spend->algorithm == WEIR_FIXED_WINDOW) {
        spend->from_first = kind == 1;
        spend->calendar = NULL;
        uint64_t longest_us = 0;
        if (kind == 2) {
            spend->calendar = pick_calendar(world, &longest_us);
            weir_rate_make(spend->rate.limit, longest_us, 0, &spend->rate, NULL);
        }
    }
    if (spend->algorithm == WEIR_LEAKY_BUCKET)
        spend->max_wait_us = kind > 0 ? pick_max_wait(world, &spend->rate) : 0;
    if (spend->algorithm == WEIR_SLIDING_LOG)
        spend->logs_refusals = kind == 1;
}

/* Whether a state matters no longer by the new numbers than by the old ones. If it does, nobody can
 * tell whether a store still has it. */
static bool matters_no_longer(const struct weir_spend *before, const struct weir_spend *after)
{
    switch (before->algorithm) {
    case WEIR_GCRA:
    case WEIR_LEAKY_BUCKET:
        return true;
    case WEIR_TOKEN_BUCKET:
        return after->rate.interval_us + 1 <= before->rate.interval_us;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG:
        return after->rate.window_us <= before->rate.window_us && before->calendar == NULL
               && after->calendar == NULL;
    case WEIR_PENALTY:
        break;
    }
    return false;
}

/* A limit of a live key is changed: its numbers a little, or all of it. The windows of a log only
 * ever get shorter: what has left a shorter window may be gone, and may be there. */
static void change_limit(struct world *world, struct weir_spend *spend)
{
    struct weir_spend changed = *spend;
    uint64_t limit = spend->rate.limit, window_us = spend->rate.window_us;
    uint64_t burst = has_burst(spend->algorithm) ? pick_burst(world, limit) : 0;
    uint64_t longest_us = spend->algorithm == WEIR_SLIDING_LOG ? window_us : UINT64_MAX;
    uint64_t which = pick(world, 99);
    if (which < 25)
        limit = which < 15 ? limit * 2 + 1 : limit / 2;
    else if (which < 40)
        window_us = window_us / 2 + 1;
    if (limit != spend->rate.limit || window_us != spend->rate.window_us || burst > 0)
        if (weir_rate_make(limit, window_us, limit > 0 ? burst : 0, &changed.rate, NULL) != WEIR_OK)
            return;
    if (which >= 90)
        pick_rate(world, &changed, NUMBERS_ANY, longest_us);
    else if (which >= 89)
        set_variant(world, &changed, pick(world, VARIANTS - 1));

    bool is_alike = numbers_of(spend) == numbers_of(&changed);
    if ((is_alike || chance(world, 10)) && (!world->forgets || matters_no_longer(spend, &changed)))
        *spend = changed;
}

/* penalties */

static bool is_penalty(const struct world *world, size_t index)
{
    return index < world->count && world->limits[index].spend.algorithm == WEIR_PENALTY;
}

/* Bans of the same order as the limit's waits, so that both are met; or of any length. */
static struct weir_penalty pick_penalty(struct world *world, const struct weir_spend *limit)
{
    uint64_t usual_us = limit->rate.window_us / (1 + pick(world, 2) * limit->rate.limit) + 1;
    uint64_t most_us = chance(world, 80) ? usual_us : WEIR_WINDOW_MAX_US;
    struct weir_penalty penalty = {
        .after = (uint32_t)(chance(world, 95) ? 1 + pick(world, 3)
                                              : pick_size(world, WEIR_PENALTY_AFTER_MAX)),
        .ban_count = (uint32_t)(1 + pick(world, WEIR_BANS_MAX - 1)),
        .extends = chance(world, 40),
    };
    uint64_t ban_us = pick_size(world, most_us);
    for (uint32_t i = 0; i < penalty.ban_count; i++) {
        penalty.bans_us[i] = ban_us;
        ban_us += chance(world, 70) ? pick_size(world, ban_us) : 0;
        ban_us = ban_us < WEIR_WINDOW_MAX_US ? ban_us : WEIR_WINDOW_MAX_US;
    }
    uint64_t longest_us = penalty.bans_us[penalty.ban_count - 1];
    penalty.forget_us = longest_us + pick(world, 3) * usual_us;
    if (penalty.forget_us > WEIR_WINDOW_MAX_US)
        penalty.forget_us = WEIR_WINDOW_MAX_US;
    return penalty;
}

/* What would be forgotten later than before may be gone from a store. */
static void change_penalty(struct world *world, struct limit *limit, const struct weir_spend *of)
{
    struct weir_penalty changed = pick_penalty(world, of);
    if (!world->forgets || changed.forget_us <= limit->penalty.forget_us)
        limit->penalty = changed;
}

/* beginning */

/* The worlds of one run have seeds that are the same in all but the last digits. */
#define RUN_SEEDS UINT64_C(10000000)

static void name_keys(struct world *world)
{
    static uint64_t run, names;
    if (run == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        run = (uint64_t)now.tv_nsec * 65537 + (uint64_t)now.tv_sec + (uint64_t)getpid();
    }
    names++;
    for (size_t i = 0; i < world->count; i++) {
        struct limit *limit = &world->limits[i];
        /* The number of the group was left here. */
        size_t group = limit->spend.group_length;
        int length = snprintf(limit->key, sizeof limit->key, "d:{%llx-%llu-%zu}%s",
                              (unsigned long long)run, (unsigned long long)names,
                              group > 0 ? group : 100 + i, group > 0 ? "" : ":alone");
        limit->spend.group_length = group > 0 ? (size_t)length : 0;
        snprintf(limit->key + length, sizeof limit->key - (size_t)length, ":%c%zu:%d",
                 (char)('a' + i), i, limit->spend.algorithm);
        limit->spend.key = limit->key;
        limit->spend.key_length = strlen(limit->key);
    }
}

struct pattern {
    uint64_t variants[WEIR_CHECK_LIMITS];
    enum numbers numbers[WEIR_CHECK_LIMITS];
};

/* A limit without any pattern. */
static void pick_anything(struct world *world, struct pattern *pattern)
{
    size_t place = world->count++;
    world->limits[place].spend.algorithm = (enum weir_algorithm)pick(world, WEIR_SLIDING_LOG);
    pattern->variants[place] = pick(world, VARIANTS - 1);
    pattern->numbers[place] = NUMBERS_ANY;
}

/* The limits of a run's patterns go through all algorithms and variants, again and again. */
static void pick_in_turn(struct world *world, struct pattern *pattern, size_t i)
{
    uint64_t run = world->seed / RUN_SEEDS, number = world->seed % PATTERNS;
    size_t place = world->count++;
    struct weir_spend *spend = &world->limits[place].spend;
    spend->algorithm = (enum weir_algorithm)((number + i) % ALGORITHMS);
    pattern->variants[place] = (run + number + i / PATTERNS) % VARIANTS;
    pattern->numbers[place] =
        !has_burst(spend->algorithm) || chance(world, 40) ? NUMBERS_WHOLE : NUMBERS_BROKEN;
}

/* A penalty for the limit that was picked last, mostly kept where that is. */
static void add_penalty(struct world *world, bool has_groups)
{
    const struct weir_spend *limit = &world->limits[world->count - 1].spend;
    size_t group_length = limit->group_length;
    if (chance(world, 20))
        group_length = has_groups && group_length == 0;
    world->limits[world->count].spend.algorithm = WEIR_PENALTY;
    world->limits[world->count++].spend.group_length = group_length;
}

/* The n-th that is no penalty. */
static size_t nth_limit(const struct world *world, size_t n)
{
    size_t index = 0;
    for (; n > 0 || is_penalty(world, index); index++)
        n -= !is_penalty(world, index);
    return index;
}

/* How many limits, of which algorithms and variants, kept where: by one of a run's few patterns, or
 * anyhow. Over all patterns each algorithm has about as many limits as the others. */
static void pick_pattern(struct world *world, struct pattern *pattern)
{
    static const size_t counts[PATTERNS] = { 1, 6, 6, 6, 3, 8 };
    uint64_t run = world->seed / RUN_SEEDS, number = world->seed % PATTERNS;
    bool is_wild = pick(world, 199) == 0;
    sow(world, is_wild ? world->seed : run * RUN_SEEDS + number);
    size_t limits = counts[(run + number) % PATTERNS];
    if (is_wild)
        limits = 1 + pick(world, WEIR_CHECK_LIMITS - 1);
    world->wants_time = chance(world, 50);
    /* Often gcra, which stores care for most. */
    size_t single = (chance(world, 50) ? PATTERNS - number : pick(world, 7)) % limits;
    bool has_groups = chance(world, 60), has_penalties = chance(world, 60);
    for (size_t i = 0; i < limits; i++) {
        if (is_wild)
            pick_anything(world, pattern);
        else
            pick_in_turn(world, pattern, i);
        world->limits[world->count - 1].spend.group_length =
            has_groups && !chance(world, 20) ? 1 + pick(world, 2) / 2 : 0;
        size_t to_come = limits - i - 1;
        if (has_penalties && chance(world, 60) && world->count + to_come < WEIR_CHECK_LIMITS)
            add_penalty(world, has_groups);
    }
    world->single = nth_limit(world, single);
}

void world_begin(struct world *world, uint64_t seed, bool believes_steps_back, bool forgets)
{
    memset(world, 0, offsetof(struct world, steps));
    world->step_count = 0;
    world->seed = seed;
    struct pattern pattern;
    sow(world, seed);
    pick_pattern(world, &pattern);

    sow(world, ~seed);
    world->is_misled = !believes_steps_back;
    world->is_steady = world->is_misled || chance(world, 50);
    world->forgets = world->is_steady && forgets;
    for (size_t i = 0; i < world->count; i++) {
        if (is_penalty(world, i)) {
            world->limits[i].penalty = pick_penalty(world, &world->limits[i - 1].spend);
            continue;
        }
        pick_rate(world, &world->limits[i].spend, pattern.numbers[i], UINT64_MAX);
        set_variant(world, &world->limits[i].spend, pattern.variants[i]);
    }
    world->now_us = EARLIEST + pick(world, 20 * 365 * DAY);
    world->told_us = world->now_us;
    name_keys(world);
}

void world_begin_again(struct world *world, const struct world *like)
{
    world_begin(world, like->seed, !like->is_misled, like->forgets);
}

void world_finish(struct world *world)
{
    for (size_t i = 0; i < world->count; i++)
        model_finish(&world->limits[i].sum);
}

/* the next step */

static int64_t pick_step_back(struct world *world, const struct limit *limit)
{
    switch (pick(world, 4)) {
    case 0:
        return -1;
    case 1:
        return -(int64_t)(120 * SECOND);
    case 2:
        return -(int64_t)pick_size(world, 400 * DAY);
    default:
        if (limit->spend.algorithm == WEIR_PENALTY)
            return -(int64_t)pick_size(world, 2 * limit->penalty.forget_us);
        return -(int64_t)pick_size(world, 2 * limit->spend.rate.window_us);
    }
}

/* Ends of bans, and of what is remembered of them. */
static uint64_t pick_wait_for_penalty(struct world *world, const struct limit *limit)
{
    const struct weir_penalty *penalty = &limit->penalty;
    uint64_t left_us = limit->last.reset_us;
    switch (pick(world, 9)) {
    case 0:
    case 1:
        return pick(world, 2);
    case 2:
        return pick(world, left_us);
    case 3:
        return about(world, left_us + penalty->forget_us);
    case 4:
        return about(world, penalty->forget_us);
    case 5:
        return about(world, penalty->bans_us[pick(world, penalty->ban_count - 1)]);
    default:
        return left_us > 0 ? about(world, left_us) : 1;
    }
}

static uint64_t pick_wait(struct world *world, const struct limit *limit)
{
    const struct weir_rate *rate = &limit->spend.rate;
    if (limit->spend.algorithm == WEIR_PENALTY)
        return pick_wait_for_penalty(world, limit);
    switch (pick(world, 19)) {
    case 0:
    case 1:
    case 2:
        return 0;
    case 3:
    case 4:
        return pick(world, 2);
    case 5:
    case 6:
    case 7:
    case 8:
        return limit->last.retry_us > 0 ? about(world, limit->last.retry_us) : 1;
    case 9:
        return about(world, limit->last.reset_us);
    case 10:
    case 11:
        return about(world, rate->window_us - world->now_us % rate->window_us);
    case 12:
        return pick(world, rate->window_us);
    case 13:
        return pick(world, 3 * rate->window_us);
    case 14:
        return chance(world, 10) ? (1 + pick(world, 4)) * 366 * DAY : about(world, rate->window_us);
    case 15:
        return about(world, rate->interval_us * pick(world, 3));
    case 16:
        return limit->last.wait_us;
    default:
        return pick(world, 2 * (rate->window_us / (rate->limit + 1)) + 1);
    }
}

/* Nobody can tell whether a store still has a block that has ended. */
static bool may_step_back(const struct world *world, int64_t back_us)
{
    uint64_t then_us = world->now_us + (uint64_t)back_us;
    for (size_t i = 0; i < world->count; i++) {
        uint64_t end_us = world->limits[i].block_ends_us;
        if (world->now_us >= end_us && then_us < end_us)
            return false;
    }
    return then_us >= EARLIEST;
}

static int64_t pick_pause(struct world *world)
{
    const struct limit *limit = &world->limits[pick(world, world->count - 1)];
    if (!world->is_steady && chance(world, 4)) {
        int64_t back_us = pick_step_back(world, limit);
        return may_step_back(world, back_us) ? back_us : 0;
    }
    /* A memory store is told steps back too, and does not believe them. */
    if (world->is_misled && chance(world, 3))
        return pick_step_back(world, limit);
    return (int64_t)pick_wait(world, limit);
}

static uint64_t pick_cost(struct world *world, const struct limit *limit)
{
    uint64_t most = limit->spend.rate.burst;
    /* What was refused is asked again, so that its wait is put to the test. */
    if (limit->last.retry_us > 0 && chance(world, 40))
        return limit->last_cost;
    switch (pick(world, 19)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return about(world, most);
    case 3:
        return most;
    case 4:
        return about(world, limit->last.remaining);
    case 5:
        return limit->last.remaining;
    case 6:
        return pick(world, most + 2);
    case 7:
        return chance(world, 20) ? UINT64_MAX - pick(world, 2) : pick_size(world, WEIR_UNITS_MAX);
    case 8:
        return 20000;
    case 9:
    case 10:
    case 11:
        return 1;
    default:
        return pick_size(world, most / 4 + 1);
    }
}

/* What the request has cost in truth. */
static void pick_settlement(struct world *world, struct limit *limit, struct weir_spend *spend)
{
    const struct taken now = { .decided_us = world->now_us, .full_us = world->now_us };
    size_t known =
        limit->taken_count < COUNT_OF(limit->taken) ? limit->taken_count : COUNT_OF(limit->taken);
    struct taken *one = &limit->taken[known == 0 ? 0 : pick(world, known - 1)];
    const struct taken taken = known == 0 || one->is_settled ? now : *one;
    one->is_settled = true;
    spend->reserved = taken.units;
    spend->decided_us = taken.decided_us;
    spend->full_us = taken.full_us;
    switch (pick(world, 4)) {
    case 0:
        spend->cost = 0;
        return;
    case 1:
        spend->cost = pick(world, taken.units);
        return;
    case 2:
        spend->cost = taken.units + pick(world, limit->spend.rate.limit);
        break;
    default:
        spend->cost =
            chance(world, 10) ? pick_size(world, WEIR_UNITS_MAX) : about(world, taken.units);
    }
    if (spend->cost > WEIR_UNITS_MAX)
        spend->cost = WEIR_UNITS_MAX;
}

/* All limits in order, always the same one, or now and then some in any order. Writes their numbers,
 * without those of penalties, and returns how many. */
static size_t pick_order(struct world *world, size_t order[WEIR_CHECK_LIMITS])
{
    size_t count = 0;
    bool is_one = world->count > 1 && chance(world, 7);
    for (size_t i = 0; i < world->count; i++)
        if (!is_penalty(world, i) && (!is_one || i == world->single))
            order[count++] = i;
    if (pick(world, 399) > 0)
        return count;
    for (size_t i = 0; i < count; i++) {
        size_t other = pick(world, count - 1), limit = order[i];
        order[i] = order[other];
        order[other] = limit;
    }
    return 1 + pick(world, count - 1);
}

/* Limits keep their penalties behind them. */
static void pick_limits(struct world *world, struct step *step)
{
    size_t order[WEIR_CHECK_LIMITS], count = pick_order(world, order);
    step->count = 0;
    for (size_t i = 0; i < count; i++) {
        step->limits[step->count++] = order[i];
        if (is_penalty(world, order[i] + 1))
            step->limits[step->count++] = order[i] + 1;
    }
}

static void pick_operation(struct world *world, struct step *step)
{
    uint64_t which = pick(world, 199);
    step->operation = which == 0   ? WEIR_RESET
                      : which == 1 ? WEIR_BLOCK
                      : which < 18 ? WEIR_SETTLE
                                   : WEIR_SPEND;
    step->block_us = 0;
    if (step->operation == WEIR_BLOCK)
        step->block_us = chance(world, 5) ? pick_size(world, WEIR_BURST_MAX_US)
                                          : pick_size(world, world->limits[0].spend.rate.window_us);
}

/* It costs what its limit costs. */
static void pick_punishment(struct world *world, struct step *step, size_t i)
{
    struct limit *limit = &world->limits[step->limits[i]];
    if (chance(world, 1))
        change_penalty(world, limit, &world->limits[step->limits[i] - 1].spend);
    step->penalties[i] = limit->penalty;
    step->spends[i] = limit->spend;
    step->spends[i].cost = step->spends[i - 1].cost;
    step->spends[i].penalty = &step->penalties[i];
}

static void pick_spends(struct world *world, struct step *step)
{
    for (size_t i = 0; i < step->count; i++) {
        struct limit *limit = &world->limits[step->limits[i]];
        if (limit->spend.algorithm == WEIR_PENALTY) {
            pick_punishment(world, step, i);
            continue;
        }
        if (chance(world, 1))
            change_limit(world, &limit->spend);
        struct weir_spend *spend = &step->spends[i];
        *spend = limit->spend;
        spend->cost = 1;
        if (step->operation == WEIR_SPEND)
            spend->cost = pick_cost(world, limit);
        else if (step->operation == WEIR_SETTLE)
            pick_settlement(world, limit, spend);
    }
}

static void move_clock(struct world *world, int64_t pause_us)
{
    world->told_us += (uint64_t)pause_us;
    if (pause_us > 0 || !world->is_steady)
        world->now_us += (uint64_t)pause_us;
    world->is_over = world->now_us > LATEST || world->step_count == WORLD_STEPS_MAX;
}

struct step *world_next(struct world *world)
{
    struct step *step = &world->steps[world->step_count++];
    step->pause_us = pick_pause(world);
    step->wants_time = world->wants_time;
    move_clock(world, step->pause_us);
    pick_operation(world, step);
    pick_limits(world, step);
    pick_spends(world, step);
    return step;
}

struct step *world_repeat(struct world *world, const struct step *step)
{
    struct step *mine = &world->steps[world->step_count++];
    *mine = *step;
    for (size_t i = 0; i < mine->count; i++) {
        const struct weir_spend *own = &world->limits[mine->limits[i]].spend;
        mine->spends[i].key = own->key;
        mine->spends[i].key_length = own->key_length;
        mine->spends[i].group_length = own->group_length;
        if (own->algorithm == WEIR_PENALTY)
            mine->spends[i].penalty = &mine->penalties[i];
    }
    move_clock(world, mine->pause_us);
    return mine;
}

/* the model's part */

static void note_taken(struct world *world, struct limit *limit, uint64_t units)
{
    limit->taken[limit->taken_count++ % COUNT_OF(limit->taken)] = (struct taken){
        .units = units,
        .decided_us = world->now_us,
        .full_us = world->now_us + limit->last.reset_us,
    };
}

static void expect_answers(struct world *world, const struct step *step,
                           struct weir_answer *answers)
{
    struct model_sum *sums[WEIR_CHECK_LIMITS];
    for (size_t i = 0; i < step->count; i++)
        sums[i] = &world->limits[step->limits[i]].sum;
    model_spend(sums, step->spends, step->count, world->now_us, answers);

    bool all_pass = true;
    for (size_t i = 0; i < step->count; i++)
        all_pass = all_pass && answers[i].allowed;
    for (size_t i = 0; i < step->count; i++) {
        struct limit *limit = &world->limits[step->limits[i]];
        limit->last = answers[i];
        limit->last_cost = step->spends[i].cost;
        if (all_pass && step->spends[i].cost > 0)
            note_taken(world, limit, step->spends[i].cost);
    }
}

void world_expect(struct world *world, const struct step *step, struct weir_answer *answers)
{
    if (step->operation == WEIR_SPEND) {
        expect_answers(world, step, answers);
        return;
    }
    for (size_t i = 0; i < step->count; i++) {
        struct model_sum *sum = &world->limits[step->limits[i]].sum;
        bool is_penalty = step->spends[i].algorithm == WEIR_PENALTY;
        if (step->operation == WEIR_SETTLE)
            model_settle(sum, &step->spends[i], world->now_us);
        if (step->operation == WEIR_RESET)
            model_finish(sum);
        if (step->operation != WEIR_BLOCK || is_penalty)
            continue;
        world->limits[step->limits[i]].block_ends_us = world->now_us + step->block_us;
        model_block(sum, world->now_us + step->block_us);
    }
}
