#include "store/redis_wire.h"

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

/* EVALSHA, script, number of keys, 8 keys, ids, numbers of 8 limits, the time. */
#define NUMBERS_MAX   12
#define ARGUMENTS_MAX (3 + 2 * WEIR_CHECK_LIMITS + NUMBERS_MAX * WEIR_CHECK_LIMITS + 1)

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

/* Arguments under way, with room for the digits of the numbers among them. */
struct arguments {
    struct weir_text items[ARGUMENTS_MAX];
    size_t count;
    struct weir_buffer digits;
    char memory[ARGUMENTS_MAX * 20];
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

static void put_number(struct arguments *arguments, uint64_t number)
{
    size_t before = arguments->digits.length;
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

/* Doubles, which Lua's struct.unpack() reads. */
static void put_bans(struct arguments *arguments, const struct weir_penalty *penalty)
{
    size_t before = arguments->digits.length;
    for (uint32_t i = 0; i < penalty->ban_count; i++) {
        const double ban_us = (double)penalty->bans_us[i];
        uint64_t bits;
        memcpy(&bits, &ban_us, sizeof bits);
        for (unsigned shift = 0; shift < 64; shift += 8)
            weir_buffer_put_char(&arguments->digits, (char)(bits >> shift & 0xFF));
    }
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
    bool keeps_nothing = rate->limit == 0 && spend->algorithm != WEIR_SLIDING_LOG;
    if (keeps_nothing && spend->algorithm != WEIR_PENALTY) {
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
        put_penalty(arguments, spend, spend - 1);
        return;
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

static void put_numbers(struct arguments *arguments, const struct weir_check *check,
                        uint64_t clock_us)
{
    for (size_t i = 0; i < check->count; i++)
        switch (check->operation) {
        case WEIR_SPEND:
            put_spend(arguments, &check->spends[i], clock_us);
            break;
        case WEIR_SETTLE:
            put_settled(arguments, &check->spends[i], clock_us);
            break;
        case WEIR_BLOCK:
            put_blocked(arguments, &check->spends[i], check->block_us);
            break;
        case WEIR_RESET:
            break;
        }
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
    put_number(arguments, plan->shape.key_count);
    for (size_t i = 0; i < plan->shape.key_count; i++)
        put_text(arguments, plan->keys[i]);
    for (size_t i = 0; i < plan->shape.key_count; i++)
        if (plan->shape.places[i] == WEIR_REDIS_GROUP)
            put_ids(arguments, plan, i);
}

static bool is_bucket(const struct weir_spend *spend)
{
    return spend->algorithm == WEIR_GCRA || spend->algorithm == WEIR_TOKEN_BUCKET
           || spend->algorithm == WEIR_LEAKY_BUCKET;
}

const char *weir_redis_fault(const struct weir_check *check)
{
    const char *fault = weir_check_fault(check);
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

void weir_redis_write_check(struct weir_buffer *out, const struct weir_redis_script *script,
                            enum weir_redis_by by, enum weir_redis_clock clock, uint64_t clock_us,
                            const struct weir_redis_plan *plan, const struct weir_check *check)
{
    struct arguments arguments;
    arguments.count = 0;
    arguments.digits = weir_buffer_init(arguments.memory, sizeof arguments.memory);
    bool by_hash = by == WEIR_REDIS_BY_HASH;
    put_text(&arguments, by_hash ? WEIR_TEXT("EVALSHA") : WEIR_TEXT("EVAL"));
    put_text(&arguments, by_hash ? weir_text_from(script->hash)
                                 : (struct weir_text){ script->text, script->text_length });
    put_keys(&arguments, plan);
    put_numbers(&arguments, check, clock_us);
    if (clock == WEIR_REDIS_CLOCK_OF_TEST)
        put_number(&arguments, clock_us);
    weir_redis_write_command(out, arguments.items, arguments.count);
}
