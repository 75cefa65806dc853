#include "store/redis_wire.h"

#include <stdio.h>
#include <string.h>

#include <weir/calendar.h>

#include "limit/algorithm.h"
#include "limit/gcra.h"

__extension__ typedef unsigned __int128 wide;

/* Lua's numbers are whole up to 2^53, and the time of day is below 2^51 µs until the year 2041
 * and below 2^52 until 2112: a capacity of this much always fits beside it. */
#define CAPACITY_MAX_US WEIR_BURST_MAX_US

/* Longer than any capacity, and whole in Lua beside any time of day. */
#define SPAN_MAX_US (UINT64_C(1) << 52)

/* EVALSHA, script, number of keys; then of one check 8 keys and ids and the numbers of 8 limits, or
 * of many the keys, ids, runs and all numbers; the time. */
#define NUMBERS_MAX   12
#define ARGUMENTS_MAX (3 + WEIR_REDIS_BATCH_LIMITS_MAX + WEIR_CHECK_LIMITS + 3)

_Static_assert(WEIR_CHECK_LIMITS *(1 + NUMBERS_MAX) <= WEIR_REDIS_BATCH_LIMITS_MAX,
               "the arguments of one check fit");

/* What else than keys and the script: packed numbers, 6 at most of a limit, or digits. */
#define DIGITS_BYTES (WEIR_REDIS_BATCH_LIMITS_MAX * 6 * 8 + 1024)

/* writing */

void weir_redis_write_command(struct weir_buffer *out, const struct weir_text *arguments,
                              size_t count)
{
    weir_buffer_put_char(out, '*');
    weir_buffer_put_number(out, count);
    weir_buffer_put_string(out, "\r\n");
    for (size_t i = 0; i < count; i++) {
        weir_buffer_put_char(out, '$');
        weir_buffer_put_number(out, arguments[i].length);
        weir_buffer_put_string(out, "\r\n");
        weir_buffer_put(out, arguments[i]);
        weir_buffer_put_string(out, "\r\n");
    }
}

/* Arguments under way, with room for the numbers among them. */
struct arguments {
    struct weir_text items[ARGUMENTS_MAX];
    size_t count;
    bool packs; /* numbers go one behind the other, as doubles, and are one argument  */
    struct weir_buffer digits;
    char memory[DIGITS_BYTES];
};

static void put_text(struct arguments *arguments, struct weir_text text)
{
    arguments->items[arguments->count++] = text;
}

/* What was added to the digits since there were `before` of them. */
static void put_digits(struct arguments *arguments, size_t before)
{
    put_text(arguments, (struct weir_text){ arguments->digits.at + before,
                                            arguments->digits.length - before });
}

/* As Lua's struct.unpack() reads it; whole up to 2^53. */
static void put_double(struct arguments *arguments, uint64_t number)
{
    const double value = (double)number;
    uint64_t bits;
    char bytes[sizeof bits];
    memcpy(&bits, &value, sizeof bits);
    for (size_t i = 0; i < sizeof bits; i++)
        bytes[i] = (char)(bits >> (8 * i) & 0xFF);
    weir_buffer_put(&arguments->digits, (struct weir_text){ bytes, sizeof bytes });
}

static void put_number(struct arguments *arguments, uint64_t number)
{
    size_t before = arguments->digits.length;
    if (arguments->packs) {
        put_double(arguments, number);
        return;
    }
    weir_buffer_put_number(&arguments->digits, number);
    put_digits(arguments, before);
}

/* `more` less `less`. */
static void put_difference(struct arguments *arguments, uint64_t more, uint64_t less)
{
    size_t before = arguments->digits.length;
    if (more < less)
        weir_buffer_put_char(&arguments->digits, '-');
    weir_buffer_put_number(&arguments->digits, more < less ? less - more : more - less);
    put_digits(arguments, before);
}

/* numbers of limits */

/* A cost that can never fit says no more than that. */
static uint64_t cost_up_to(const struct weir_spend *spend, uint64_t most)
{
    return spend->cost <= most ? spend->cost : most + 1;
}

/* The time that a cost takes; of one that can never fit, a little more than there is. */
static struct weir_span span_of_cost(const struct weir_spend *spend, struct weir_span capacity)
{
    if (spend->cost <= spend->rate.burst)
        return weir_gcra_span(&spend->rate, spend->cost);
    return (struct weir_span){ capacity.us + 1, 0 };
}

static void put_gcra(struct arguments *arguments, const struct weir_spend *spend)
{
    struct weir_span capacity = weir_gcra_span(&spend->rate, spend->rate.burst);
    struct weir_span cost = span_of_cost(spend, capacity);
    put_number(arguments, capacity.us);
    put_number(arguments, cost.us);
    if (spend->rate.parts > 1) {
        put_number(arguments, capacity.part);
        put_number(arguments, cost.part);
        put_number(arguments, spend->rate.parts);
    }
    if (spend->algorithm == WEIR_LEAKY_BUCKET)
        put_number(arguments, spend->max_wait_us > 0 ? spend->max_wait_us : capacity.us + 1);
}

static void put_interval(struct arguments *arguments, const struct weir_rate *rate)
{
    put_number(arguments, rate->burst);
    put_number(arguments, rate->interval_us);
    if (rate->parts > 1) {
        put_number(arguments, rate->interval_part);
        put_number(arguments, rate->parts);
    }
}

static void put_edges(struct arguments *arguments, const struct weir_calendar *calendar,
                      uint64_t clock_us)
{
    struct weir_window now = weir_calendar_window(calendar, clock_us);
    uint64_t before_us = now.start_us > 0 ? now.start_us - 1 : 0;
    put_number(arguments, weir_calendar_window(calendar, before_us).start_us);
    put_number(arguments, now.start_us);
    put_number(arguments, now.end_us);
    put_number(arguments, weir_calendar_window(calendar, now.end_us).end_us);
}

/* The window or windows of a limit that counts units. */
static void put_length(struct arguments *arguments, const struct weir_spend *spend,
                       uint64_t clock_us)
{
    if (spend->calendar != NULL)
        put_edges(arguments, spend->calendar, clock_us);
    else
        put_number(arguments, spend->rate.window_us);
}

static void put_bans(struct arguments *arguments, const struct weir_penalty *penalty)
{
    size_t before = arguments->digits.length;
    for (uint32_t i = 0; i < penalty->ban_count; i++)
        put_double(arguments, penalty->bans_us[i]);
    put_digits(arguments, before);
}

static void put_penalty(struct arguments *arguments, const struct weir_spend *spend,
                        const struct weir_spend *limit)
{
    const struct weir_penalty *penalty = spend->penalty;
    put_number(arguments, penalty->forget_us);
    put_number(arguments, limit->cost > 0 && weir_is_possible(limit));
    put_number(arguments, penalty->extends);
    put_number(arguments, penalty->after);
    put_bans(arguments, penalty);
}

static void put_spend(struct arguments *arguments, const struct weir_spend *spend,
                      uint64_t clock_us)
{
    const struct weir_rate *rate = &spend->rate;
    if (rate->limit == 0 && spend->algorithm != WEIR_SLIDING_LOG) {
        put_number(arguments, cost_up_to(spend, 0));
        return;
    }
    switch (spend->algorithm) {
    case WEIR_GCRA:
    case WEIR_LEAKY_BUCKET:
        put_gcra(arguments, spend);
        return;
    case WEIR_TOKEN_BUCKET:
        put_number(arguments, cost_up_to(spend, rate->burst));
        put_interval(arguments, rate);
        return;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG:
        put_number(arguments, rate->limit);
        put_number(arguments, cost_up_to(spend, rate->limit));
        put_length(arguments, spend, clock_us);
        return;
    case WEIR_PENALTY:
        return; /* has arguments of its own */
    }
}

/* The time that so many units take, which may be more than a limit ever holds. */
static struct weir_span span_up_to(const struct weir_rate *rate, uint64_t units)
{
    wide parts = (wide)units * rate->interval_part;
    wide us = (wide)units * rate->interval_us + parts / rate->parts;
    if (us >= SPAN_MAX_US)
        return (struct weir_span){ SPAN_MAX_US, 0 };
    return (struct weir_span){ (uint64_t)us, (uint64_t)(parts % rate->parts) };
}

static void put_settled_bucket(struct arguments *arguments, const struct weir_spend *spend)
{
    const struct weir_rate *rate = &spend->rate;
    bool takes = spend->cost > spend->reserved;
    struct weir_span capacity = weir_gcra_span(rate, rate->burst);
    struct weir_span span =
        span_up_to(rate, takes ? spend->cost - spend->reserved : spend->reserved - spend->cost);
    put_number(arguments, capacity.us);
    put_number(arguments, capacity.part);
    put_number(arguments, span.us);
    put_number(arguments, span.part);
    put_number(arguments, rate->parts);
    put_number(arguments, spend->full_us);
    put_number(arguments, takes);
    if (spend->algorithm == WEIR_TOKEN_BUCKET) {
        put_number(arguments, rate->burst);
        put_number(arguments, rate->interval_us);
        put_number(arguments, rate->interval_part);
    }
}

static void put_settled(struct arguments *arguments, const struct weir_spend *spend,
                        uint64_t clock_us)
{
    bool is_zero = spend->rate.limit == 0 && spend->algorithm != WEIR_SLIDING_LOG;
    switch (spend->algorithm) {
    case WEIR_GCRA:
    case WEIR_LEAKY_BUCKET:
    case WEIR_TOKEN_BUCKET:
        if (!is_zero)
            put_settled_bucket(arguments, spend);
        return;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG:
        if (is_zero)
            return;
        put_number(arguments, spend->rate.limit);
        put_difference(arguments, spend->cost, spend->reserved);
        put_length(arguments, spend, clock_us);
        put_number(arguments, spend->decided_us);
        return;
    case WEIR_PENALTY:
        put_number(arguments, spend->penalty->forget_us);
        return;
    }
}

static void put_blocked(struct arguments *arguments, const struct weir_spend *spend,
                        uint64_t block_us)
{
    bool is_penalty = spend->algorithm == WEIR_PENALTY;
    put_number(arguments, is_penalty ? spend->penalty->forget_us : block_us);
}

static void put_spends(struct arguments *arguments, const struct weir_check *check,
                       uint64_t clock_us)
{
    for (size_t i = 0; i < check->count; i++)
        if (check->spends[i].algorithm != WEIR_PENALTY)
            put_spend(arguments, &check->spends[i], clock_us);
}

/* The numbers of so many checks, one behind the other. */
static void put_packed(struct arguments *arguments, const struct weir_redis_item *items,
                       size_t count, uint64_t clock_us)
{
    size_t before = arguments->digits.length;
    arguments->packs = true;
    for (size_t i = 0; i < count; i++)
        put_spends(arguments, items[i].check, clock_us);
    arguments->packs = false;
    put_digits(arguments, before);
}

/* What each limit has beside packed numbers. */
static void put_own(struct arguments *arguments, const struct weir_check *check, uint64_t clock_us)
{
    for (size_t i = 0; i < check->count; i++) {
        const struct weir_spend *spend = &check->spends[i];
        switch (check->operation) {
        case WEIR_SPEND:
            if (spend->algorithm == WEIR_PENALTY)
                put_penalty(arguments, spend, spend - 1);
            break;
        case WEIR_SETTLE:
            put_settled(arguments, spend, clock_us);
            break;
        case WEIR_BLOCK:
            put_blocked(arguments, spend, check->block_us);
            break;
        case WEIR_RESET:
        case WEIR_EXCHANGE:
            break;
        }
    }
}

static void put_exchange(struct arguments *arguments, const struct weir_exchange *exchange)
{
    bool looks = exchange->text == NULL;
    size_t mark_length = exchange->expected == NULL ? 0 : WEIR_TEXT_MARK_BYTES;
    put_text(arguments, (struct weir_text){ exchange->expected, mark_length });
    put_number(arguments, looks ? 0 : (exchange->keep_us + 999) / 1000);
    put_text(arguments, (struct weir_text){ exchange->text, looks ? 0 : exchange->length });
}

/* keys */

static void put_ids(struct arguments *arguments, const struct weir_redis_plan *plan, size_t key)
{
    struct weir_buffer *digits = &arguments->digits;
    size_t before = digits->length;
    weir_buffer_put_char(digits, '\0');
    for (size_t i = 0; i < plan->shape.count; i++) {
        if (plan->shape.key_of[i] != key)
            continue;
        digits->at[before]++;
        for (unsigned shift = 0; shift < 32; shift += 8)
            weir_buffer_put_char(digits, (char)(plan->ids[i] >> shift & 0xFF));
    }
    put_digits(arguments, before);
}

static void put_keys(struct arguments *arguments, const struct weir_redis_plan *plan)
{
    for (size_t i = 0; i < plan->shape.key_count; i++)
        put_text(arguments, plan->keys[i]);
}

static void put_all_ids(struct arguments *arguments, const struct weir_redis_plan *plan)
{
    for (size_t i = 0; i < plan->shape.key_count; i++)
        if (plan->shape.places[i] == WEIR_REDIS_GROUP)
            put_ids(arguments, plan, i);
}

/* runs */

static bool has_same_keys(const struct weir_redis_plan *plan, const struct weir_redis_plan *other)
{
    for (size_t i = 0; i < plan->shape.key_count; i++)
        if (!weir_text_equal(plan->keys[i], other->keys[i]))
            return false;
    return true;
}

/* A byte for each run, whose keys were put in their order; returns how many there are. */
static size_t find_runs(struct arguments *arguments, const struct weir_redis_item *items,
                        size_t count, char runs[WEIR_REDIS_BATCH_CHECKS_MAX])
{
    size_t run_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && has_same_keys(items[i].plan, items[i - 1].plan)) {
            runs[run_count - 1]++;
            continue;
        }
        put_keys(arguments, items[i].plan);
        runs[run_count++] = 1;
    }
    return run_count;
}

static bool is_bucket(const struct weir_spend *spend)
{
    return spend->algorithm == WEIR_GCRA || spend->algorithm == WEIR_TOKEN_BUCKET
           || spend->algorithm == WEIR_LEAKY_BUCKET;
}

const char *weir_redis_fault(const struct weir_check *check)
{
    const char *fault = weir_check_fault(check);
    if (check->operation == WEIR_EXCHANGE)
        return fault; /* there is no rate in it */
    for (size_t i = 0; fault == NULL && i < check->count; i++) {
        const struct weir_rate *rate = &check->spends[i].rate;
        if (is_bucket(&check->spends[i]) && weir_gcra_span(rate, rate->burst).us > CAPACITY_MAX_US)
            fault = "a limit takes too long to fill";
    }
    if (fault != NULL)
        return fault;
    struct weir_redis_plan plan;
    weir_redis_plan_make(&plan, check);
    return weir_redis_plan_has_twins(&plan) ? "two limits of a plan that look the same in Redis"
                                            : NULL;
}

static void begin(struct arguments *arguments, const struct weir_redis_script *script,
                  enum weir_redis_by by)
{
    arguments->count = 0;
    arguments->packs = false;
    arguments->digits = weir_buffer_init(arguments->memory, sizeof arguments->memory);
    bool by_hash = by == WEIR_REDIS_BY_HASH;
    put_text(arguments, by_hash ? WEIR_TEXT("EVALSHA") : WEIR_TEXT("EVAL"));
    put_text(arguments, by_hash ? weir_text_from(script->hash)
                                : (struct weir_text){ script->text, script->text_length });
}

static void end(struct weir_buffer *out, struct arguments *arguments, enum weir_redis_clock clock,
                uint64_t clock_us)
{
    if (clock == WEIR_REDIS_CLOCK_OF_TEST)
        put_number(arguments, clock_us);
    weir_redis_write_command(out, arguments->items, arguments->count);
    out->full = out->full || arguments->digits.full;
}

void weir_redis_write_check(struct weir_buffer *out, const struct weir_redis_script *script,
                            enum weir_redis_by by, enum weir_redis_clock clock, uint64_t clock_us,
                            const struct weir_redis_plan *plan, const struct weir_check *check)
{
    const struct weir_redis_item item = { plan, check };
    struct arguments arguments;
    begin(&arguments, script, by);
    put_number(&arguments, plan->shape.key_count);
    put_keys(&arguments, plan);
    put_all_ids(&arguments, plan);
    if (check->operation == WEIR_SPEND)
        put_packed(&arguments, &item, 1, clock_us);
    if (check->operation == WEIR_EXCHANGE)
        put_exchange(&arguments, check->exchange);
    put_own(&arguments, check, clock_us);
    end(out, &arguments, clock, clock_us);
}

void weir_redis_write_batch(struct weir_buffer *out, const struct weir_redis_script *script,
                            enum weir_redis_by by, enum weir_redis_clock clock, uint64_t clock_us,
                            const struct weir_redis_item *items, size_t count)
{
    struct arguments arguments;
    char runs[WEIR_REDIS_BATCH_CHECKS_MAX], key_count[8];
    begin(&arguments, script, by);
    size_t key_count_at = arguments.count++;
    size_t run_count = find_runs(&arguments, items, count, runs);
    snprintf(key_count, sizeof key_count, "%zu", run_count * items[0].plan->shape.key_count);
    arguments.items[key_count_at] = weir_text_from(key_count);
    put_all_ids(&arguments, items[0].plan);
    put_text(&arguments, (struct weir_text){ runs, run_count });
    put_packed(&arguments, items, count, clock_us);
    end(out, &arguments, clock, clock_us);
}
