#include "model.h"

#include <stdlib.h>
#include <string.h>

#include <weir/calendar.h>

#include "test.h"

__extension__ typedef __int128 wide;

/* What an algorithm is asked. `at_us` is now or later; `sum` has been put right for now. */
struct kind {
    /* Whether `cost` units pass then, and whether so many pass now as single ones. */
    bool (*fits)(const struct model_sum *sum, const struct weir_spend *spend, uint64_t cost,
                 uint64_t at_us);
    bool (*fits_singly)(const struct model_sum *sum, const struct weir_spend *spend, uint64_t count,
                        uint64_t now_us);
    bool (*is_whole)(const struct model_sum *sum, const struct weir_spend *spend, uint64_t at_us);
    void (*put_right)(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us);
    void (*take)(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us);
    /* What a refusal leaves behind; NULL: nothing. */
    void (*refuse)(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us);
    /* Corrects by `more` units, which may be less than none; false: nothing changes. */
    bool (*settle)(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us,
                   wide more);
};

static wide least(wide one, wide other)
{
    return one < other ? one : other;
}

static wide most(wide one, wide other)
{
    return one > other ? one : other;
}

static wide clamp(wide number, wide low, wide high)
{
    return most(low, least(number, high));
}

static wide quotient_up(wide dividend, wide divisor)
{
    return (dividend + divisor - 1) / divisor;
}

/* times in parts of a microsecond */

static wide in_parts(const struct weir_rate *rate, uint64_t us)
{
    return (wide)us * rate->parts;
}

static wide interval(const struct weir_rate *rate)
{
    return in_parts(rate, rate->interval_us) + rate->interval_part;
}

/* Parts of another rate do not count. */
static wide time_of(const struct model_sum *sum, const struct weir_rate *rate)
{
    return in_parts(rate, sum->time_us) + (sum->part < rate->parts ? sum->part : 0);
}

static void set_time(struct model_sum *sum, const struct weir_rate *rate, wide parts)
{
    sum->time_us = (uint64_t)(parts / rate->parts);
    sum->part = (uint64_t)(parts % rate->parts);
}

/* The length of time that is in use at `at_us`. */
static wide used_then(const struct model_sum *sum, const struct weir_rate *rate, uint64_t at_us)
{
    return most(0, time_of(sum, rate) - in_parts(rate, at_us));
}

static wide full(const struct weir_rate *rate)
{
    return interval(rate) * rate->burst;
}

/* gcra */

static bool gcra_fits(const struct model_sum *sum, const struct weir_spend *spend, uint64_t cost,
                      uint64_t at_us)
{
    const struct weir_rate *rate = &spend->rate;
    return used_then(sum, rate, at_us) + interval(rate) * cost <= full(rate);
}

static bool gcra_is_whole(const struct model_sum *sum, const struct weir_spend *spend,
                          uint64_t at_us)
{
    return used_then(sum, &spend->rate, at_us) == 0;
}

/* Further ahead than a full burst the time cannot be: the clock or the rate was changed. Where nothing is
 * in use nothing is written. */
static void gcra_put_right(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us)
{
    const struct weir_rate *rate = &spend->rate;
    wide used = used_then(sum, rate, now_us);
    if (used > 0)
        set_time(sum, rate, in_parts(rate, now_us) + least(used, full(rate)));
}

static void gcra_take(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us)
{
    const struct weir_rate *rate = &spend->rate;
    wide used = used_then(sum, rate, now_us) + interval(rate) * spend->cost;
    set_time(sum, rate, in_parts(rate, now_us) + used);
}

/* What is in use after `more` units, of which time has already earned back its share. */
static wide settled_use(wide used, const struct weir_spend *spend, uint64_t now_us, wide more)
{
    const struct weir_rate *rate = &spend->rate;
    wide left = in_parts(rate, spend->full_us) - in_parts(rate, now_us);
    wide span = more * interval(rate);
    if (more < 0)
        return most(0, used - least(-span, most(0, left)));
    return most(used, least(used + clamp(left + span, 0, span), full(rate)));
}

static bool gcra_settle(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us,
                        wide more)
{
    const struct weir_rate *rate = &spend->rate;
    wide used = used_then(sum, rate, now_us);
    wide settled = settled_use(used, spend, now_us, more);
    set_time(sum, rate, in_parts(rate, now_us) + settled);
    return settled != used;
}

static const struct kind gcra = {
    .fits = gcra_fits,
    .is_whole = gcra_is_whole,
    .put_right = gcra_put_right,
    .take = gcra_take,
    .settle = gcra_settle,
};

/* token bucket */

static wide earned(const struct model_sum *sum, const struct weir_rate *rate, uint64_t at_us)
{
    return (in_parts(rate, at_us) - time_of(sum, rate)) / interval(rate);
}

static wide missing(const struct model_sum *sum, const struct weir_rate *rate, uint64_t at_us)
{
    return most(0, (wide)sum->units - earned(sum, rate, at_us));
}

/* Brings the state to the last moment at which a token came. */
static void token_bring(struct model_sum *sum, const struct weir_rate *rate, uint64_t now_us)
{
    wide since = earned(sum, rate, now_us);
    sum->units = (uint64_t)missing(sum, rate, now_us);
    set_time(sum, rate, time_of(sum, rate) + since * interval(rate));
    if (sum->units == 0)
        set_time(sum, rate, in_parts(rate, now_us));
}

static bool token_fits(const struct model_sum *sum, const struct weir_spend *spend, uint64_t cost,
                       uint64_t at_us)
{
    wide needed = (wide)sum->units + cost - spend->rate.burst;
    wide passed = in_parts(&spend->rate, at_us) - time_of(sum, &spend->rate);
    return cost <= spend->rate.burst && needed * interval(&spend->rate) <= passed;
}

static bool token_is_whole(const struct model_sum *sum, const struct weir_spend *spend,
                           uint64_t at_us)
{
    wide passed = in_parts(&spend->rate, at_us) - time_of(sum, &spend->rate);
    return (wide)sum->units * interval(&spend->rate) <= passed;
}

static void token_put_right(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us)
{
    const struct weir_rate *rate = &spend->rate;
    bool is_of_another_rate = sum->part >= rate->parts;
    if (is_of_another_rate)
        sum->part = rate->parts - 1;
    bool is_ahead = time_of(sum, rate) > in_parts(rate, now_us);
    if (is_ahead)
        set_time(sum, rate, in_parts(rate, now_us));
    if (!is_of_another_rate && !is_ahead && missing(sum, rate, now_us) <= rate->burst)
        return;
    token_bring(sum, rate, now_us);
    sum->units = (uint64_t)least(sum->units, rate->burst);
}

static void token_take(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us)
{
    token_bring(sum, &spend->rate, now_us);
    sum->units += spend->cost;
}

static bool token_settle(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us,
                         wide more)
{
    const struct weir_rate *rate = &spend->rate;
    wide now = in_parts(rate, now_us), unit = interval(rate);
    wide used = most(0, time_of(sum, rate) + unit * sum->units - now);
    wide settled = settled_use(used, spend, now_us, more);
    if (settled == used)
        return false;
    wide tokens = quotient_up(settled, unit);
    sum->units = (uint64_t)tokens;
    set_time(sum, rate, now + settled - tokens * unit);
    return true;
}

static const struct kind token_bucket = {
    .fits = token_fits,
    .is_whole = token_is_whole,
    .put_right = token_put_right,
    .take = token_take,
    .settle = token_settle,
};

/* leaky bucket: gcra, whose time in use is the wait for the queue's next free moment */

static bool wait_is_short(const struct weir_spend *spend, wide used)
{
    return spend->max_wait_us == 0 || used <= in_parts(&spend->rate, spend->max_wait_us);
}

static bool leaky_fits(const struct model_sum *sum, const struct weir_spend *spend, uint64_t cost,
                       uint64_t at_us)
{
    return gcra_fits(sum, spend, cost, at_us)
           && wait_is_short(spend, used_then(sum, &spend->rate, at_us));
}

/* The last of them finds the others before it. */
static bool leaky_fits_singly(const struct model_sum *sum, const struct weir_spend *spend,
                              uint64_t count, uint64_t now_us)
{
    wide before = used_then(sum, &spend->rate, now_us) + interval(&spend->rate) * (count - 1);
    return gcra_fits(sum, spend, count, now_us) && wait_is_short(spend, before);
}

static const struct kind leaky_bucket = {
    .fits = leaky_fits,
    .fits_singly = leaky_fits_singly,
    .is_whole = gcra_is_whole,
    .put_right = gcra_put_right,
    .take = gcra_take,
    .settle = gcra_settle,
};

/* fixed window */

struct window {
    uint64_t start_us;
    uint64_t end_us;
    uint64_t used;
};

/* The window that `at_us` falls into, for a state that has been put right. */
static struct window window_at(const struct model_sum *sum, const struct weir_spend *spend,
                               uint64_t at_us)
{
    uint64_t length = spend->rate.window_us, start = at_us - at_us % length;
    if (spend->calendar != NULL) {
        struct weir_window edges = weir_calendar_window(spend->calendar, at_us);
        uint64_t used = sum->time_us >= edges.start_us ? sum->units : 0;
        return (struct window){ edges.start_us, edges.end_us, used };
    }
    if (spend->from_first) {
        bool is_open = sum->units > 0 && at_us - sum->time_us < length;
        start = is_open ? sum->time_us : at_us;
    }
    return (struct window){ start, start + length, sum->time_us >= start ? sum->units : 0 };
}

static bool window_fits(const struct model_sum *sum, const struct weir_spend *spend, uint64_t cost,
                        uint64_t at_us)
{
    return window_at(sum, spend, at_us).used + cost <= spend->rate.limit;
}

static bool window_is_whole(const struct model_sum *sum, const struct weir_spend *spend,
                            uint64_t at_us)
{
    return window_at(sum, spend, at_us).used == 0;
}

static void window_put_right(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us)
{
    struct model_sum none = { 0 };
    uint64_t latest = spend->from_first ? now_us : window_at(&none, spend, now_us).start_us;
    if (sum->time_us > latest)
        sum->time_us = latest;
}

static void window_take(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us)
{
    struct window window = window_at(sum, spend, now_us);
    sum->time_us = window.start_us;
    sum->units = window.used + spend->cost;
}

static uint64_t settled_units(uint64_t units, wide more, uint64_t limit)
{
    return (uint64_t)clamp((wide)units + more, 0, most(limit, units));
}

static bool window_settle(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us,
                          wide more)
{
    struct window window = window_at(sum, spend, now_us);
    bool is_the_same = window.used > 0 && spend->decided_us >= window.start_us
                       && spend->decided_us < window.end_us;
    if (!is_the_same)
        return false;
    sum->time_us = window.start_us;
    sum->units = settled_units(window.used, more, spend->rate.limit);
    return sum->units != window.used;
}

static const struct kind fixed_window = {
    .fits = window_fits,
    .is_whole = window_is_whole,
    .put_right = window_put_right,
    .take = window_take,
    .settle = window_settle,
};

/* sliding counter */

struct counter {
    uint64_t start_us;
    uint64_t now;    /* used in the window that starts there */
    uint64_t before; /* and in the one before                */
};

static struct counter counter_at(const struct model_sum *sum, const struct weir_spend *spend,
                                 uint64_t at_us)
{
    uint64_t length = spend->rate.window_us, start = at_us - at_us % length;
    if (sum->time_us >= start)
        return (struct counter){ start, sum->units, sum->before };
    if (sum->time_us + length >= start)
        return (struct counter){ start, 0, sum->units };
    return (struct counter){ start, 0, 0 };
}

static void counter_keep(struct model_sum *sum, struct counter counter)
{
    sum->time_us = counter.start_us;
    sum->units = counter.now;
    sum->before = counter.before;
}

static bool counter_fits(const struct model_sum *sum, const struct weir_spend *spend, uint64_t cost,
                         uint64_t at_us)
{
    struct counter counter = counter_at(sum, spend, at_us);
    wide length = spend->rate.window_us, limit = spend->rate.limit;
    wide still = length - (at_us - counter.start_us);
    return counter.before * still + ((wide)counter.now + cost) * length <= limit * length;
}

static bool counter_is_whole(const struct model_sum *sum, const struct weir_spend *spend,
                             uint64_t at_us)
{
    struct counter counter = counter_at(sum, spend, at_us);
    return counter.now == 0 && counter.before == 0;
}

static void counter_put_right(struct model_sum *sum, const struct weir_spend *spend,
                              uint64_t now_us)
{
    uint64_t start = now_us - now_us % spend->rate.window_us;
    if (sum->time_us > start)
        sum->time_us = start;
}

static void counter_take(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us)
{
    struct counter counter = counter_at(sum, spend, now_us);
    counter.now += spend->cost;
    counter_keep(sum, counter);
}

static bool counter_settle(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us,
                           wide more)
{
    struct counter counter = counter_at(sum, spend, now_us);
    uint64_t length = spend->rate.window_us;
    uint64_t decided_in = spend->decided_us - spend->decided_us % length;
    bool is_now = decided_in == counter.start_us;
    if (!is_now && decided_in + length != counter.start_us)
        return false;
    uint64_t *corrected = is_now ? &counter.now : &counter.before, units = *corrected;
    *corrected = settled_units(units, more, spend->rate.limit);
    bool is_changed = *corrected != units;
    counter_keep(sum, counter);
    return is_changed;
}

static const struct kind sliding_counter = {
    .fits = counter_fits,
    .is_whole = counter_is_whole,
    .put_right = counter_put_right,
    .take = counter_take,
    .settle = counter_settle,
};

/* sliding log */

/* Refusals that are logged within one microsecond may sum up to anything. */
#define MOST_IN_AN_ENTRY (2 * (wide)WEIR_UNITS_MAX)

static bool counts(const struct model_entry *entry, const struct weir_spend *spend, uint64_t at_us)
{
    return at_us - entry->time_us < spend->rate.window_us;
}

static wide log_sum(const struct model_sum *sum, const struct weir_spend *spend, uint64_t at_us)
{
    wide units = 0;
    for (size_t i = sum->count; i > 0 && counts(&sum->entries[i - 1], spend, at_us); i--)
        units += sum->entries[i - 1].units;
    return units;
}

static bool log_fits(const struct model_sum *sum, const struct weir_spend *spend, uint64_t cost,
                     uint64_t at_us)
{
    return log_sum(sum, spend, at_us) + cost <= spend->rate.limit;
}

static bool log_is_whole(const struct model_sum *sum, const struct weir_spend *spend,
                         uint64_t at_us)
{
    return sum->count == 0 || !counts(&sum->entries[sum->count - 1], spend, at_us);
}

static void log_drop(struct model_sum *sum, size_t count)
{
    if (count == 0)
        return;
    sum->count -= count;
    memmove(sum->entries, sum->entries + count, sum->count * sizeof sum->entries[0]);
}

/* The clock went back: no time has passed since the newest entry. */
static void log_put_right(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us)
{
    (void)spend;
    if (sum->count == 0 || sum->entries[sum->count - 1].time_us <= now_us)
        return;
    uint64_t back_us = sum->entries[sum->count - 1].time_us - now_us;
    for (size_t i = 0; i < sum->count; i++)
        sum->entries[i].time_us -= back_us;
}

static void log_append(struct model_sum *sum, uint64_t time_us, uint64_t units)
{
    if (sum->count == sum->capacity) {
        sum->capacity = 2 * sum->capacity + 8;
        sum->entries = realloc(sum->entries, sum->capacity * sizeof sum->entries[0]);
        assert_non_null(sum->entries);
    }
    sum->entries[sum->count++] = (struct model_entry){ time_us, units };
}

static void log_take(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us)
{
    size_t gone = 0;
    while (gone < sum->count && !counts(&sum->entries[gone], spend, now_us))
        gone++;
    log_drop(sum, gone);
    if (sum->count == 0 || sum->entries[sum->count - 1].time_us != now_us) {
        log_append(sum, now_us, spend->cost);
        return;
    }
    struct model_entry *newest = &sum->entries[sum->count - 1];
    newest->units = (uint64_t)least(newest->units + spend->cost, MOST_IN_AN_ENTRY);
}

static void log_refuse(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us)
{
    if (!spend->logs_refusals)
        return;
    log_take(sum, spend, now_us);
    wide units = log_sum(sum, spend, now_us);
    size_t gone = 0;
    for (; gone + 1 < sum->count && units - sum->entries[gone].units >= spend->rate.limit; gone++)
        units -= sum->entries[gone].units;
    log_drop(sum, gone);
}

static bool log_settle(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us,
                       wide more)
{
    wide left = most(0, spend->rate.limit - log_sum(sum, spend, now_us));
    for (size_t i = 0; i < sum->count; i++) {
        struct model_entry *entry = &sum->entries[i];
        if (entry->time_us != spend->decided_us || !counts(entry, spend, now_us))
            continue;
        uint64_t units = entry->units;
        entry->units = (uint64_t)clamp(units + more, 0, units + left);
        return entry->units != units;
    }
    return false;
}

static const struct kind sliding_log = {
    .fits = log_fits,
    .is_whole = log_is_whole,
    .put_right = log_put_right,
    .take = log_take,
    .refuse = log_refuse,
    .settle = log_settle,
};

/* deciding, the same for all */

static const struct kind *kind_of(const struct weir_spend *spend)
{
    switch (spend->algorithm) {
    case WEIR_GCRA:
        return &gcra;
    case WEIR_TOKEN_BUCKET:
        return &token_bucket;
    case WEIR_LEAKY_BUCKET:
        return &leaky_bucket;
    case WEIR_FIXED_WINDOW:
        return &fixed_window;
    case WEIR_SLIDING_COUNTER:
        return &sliding_counter;
    case WEIR_SLIDING_LOG:
        return &sliding_log;
    case WEIR_PENALTY:
        break;
    }
    abort();
}

static uint64_t capacity(const struct weir_spend *spend)
{
    bool has_burst = spend->algorithm == WEIR_GCRA || spend->algorithm == WEIR_TOKEN_BUCKET
                     || spend->algorithm == WEIR_LEAKY_BUCKET;
    return has_burst ? spend->rate.burst : spend->rate.limit;
}

/* The most units that pass now, one after the other. */
static uint64_t remaining(const struct model_sum *sum, const struct weir_spend *spend,
                          uint64_t now_us)
{
    const struct kind *kind = kind_of(spend);
    uint64_t fit = 0, too_many = capacity(spend) + 1;
    while (too_many - fit > 1) {
        uint64_t middle = fit + (too_many - fit) / 2;
        bool fits = kind->fits_singly != NULL ? kind->fits_singly(sum, spend, middle, now_us)
                                              : kind->fits(sum, spend, middle, now_us);
        if (fits)
            fit = middle;
        else
            too_many = middle;
    }
    return fit;
}

/* Whether it is so at `at_us`: the request passes, or (without a cost) all is there again. */
static bool is_so(const struct model_sum *sum, const struct weir_spend *spend, uint64_t cost,
                  uint64_t at_us)
{
    const struct kind *kind = kind_of(spend);
    return cost > 0 ? kind->fits(sum, spend, cost, at_us) : kind->is_whole(sum, spend, at_us);
}

/* How long until it is so; it never ceases to be. */
static uint64_t wait_until_so(const struct model_sum *sum, const struct weir_spend *spend,
                              uint64_t cost, uint64_t now_us)
{
    if (is_so(sum, spend, cost, now_us))
        return 0;
    uint64_t too_short = 0, enough = 1;
    while (!is_so(sum, spend, cost, now_us + enough)) {
        too_short = enough;
        enough *= 2;
        assert_true(enough < UINT64_C(1) << 56);
    }
    while (enough - too_short > 1) {
        uint64_t middle = too_short + (enough - too_short) / 2;
        if (is_so(sum, spend, cost, now_us + middle))
            enough = middle;
        else
            too_short = middle;
    }
    return enough;
}

static uint64_t wait_in_queue(const struct model_sum *sum, const struct weir_spend *spend,
                              uint64_t now_us)
{
    if (spend->algorithm != WEIR_LEAKY_BUCKET || spend->max_wait_us == 0 || spend->cost == 0)
        return 0;
    return (uint64_t)quotient_up(used_then(sum, &spend->rate, now_us), spend->rate.parts);
}

static struct weir_answer decide_blocked(const struct model_sum *sum,
                                         const struct weir_spend *spend, uint64_t now_us)
{
    uint64_t left_us = sum->blocked_until_us - now_us;
    struct weir_answer answer = { .allowed = spend->cost == 0, .reset_us = left_us };
    answer.impossible =
        spend->cost > 0 && (spend->rate.limit == 0 || spend->cost > capacity(spend));
    if (spend->cost > 0 && !answer.impossible)
        answer.retry_us = left_us;
    return answer;
}

static struct weir_answer decide_live(struct model_sum *sum, const struct weir_spend *spend,
                                      uint64_t now_us)
{
    const struct kind *kind = kind_of(spend);
    kind->put_right(sum, spend, now_us);
    struct weir_answer answer = { .impossible = spend->cost > capacity(spend) };
    answer.allowed =
        !answer.impossible && (spend->cost == 0 || kind->fits(sum, spend, spend->cost, now_us));
    if (answer.allowed && spend->cost > 0) {
        answer.wait_us = wait_in_queue(sum, spend, now_us);
        kind->take(sum, spend, now_us);
    } else if (!answer.allowed && !answer.impossible) {
        if (kind->refuse != NULL)
            kind->refuse(sum, spend, now_us);
        answer.retry_us = wait_until_so(sum, spend, spend->cost, now_us);
    }
    answer.remaining = remaining(sum, spend, now_us);
    answer.reset_us = wait_until_so(sum, spend, 0, now_us);
    return answer;
}

static bool is_blocked(const struct model_sum *sum, uint64_t now_us)
{
    return sum->is_blocked && now_us < sum->blocked_until_us;
}

static struct weir_answer decide(struct model_sum *sum, const struct weir_spend *spend,
                                 uint64_t now_us)
{
    if (is_blocked(sum, now_us))
        return decide_blocked(sum, spend, now_us);
    if (spend->rate.limit == 0)
        return (struct weir_answer){ .allowed = spend->cost == 0, .impossible = spend->cost > 0 };
    if (sum->is_blocked)
        model_finish(sum);
    return decide_live(sum, spend, now_us);
}

static struct model_sum copy_of(const struct model_sum *sum)
{
    struct model_sum copy = *sum;
    copy.entries = NULL;
    copy.count = copy.capacity = 0;
    for (size_t i = 0; i < sum->count; i++)
        log_append(&copy, sum->entries[i].time_us, sum->entries[i].units);
    return copy;
}

/* The answer, without what it changes. */
static struct weir_answer ask(const struct model_sum *sum, const struct weir_spend *spend,
                              uint64_t now_us)
{
    struct model_sum copy = copy_of(sum);
    struct weir_answer answer = decide(&copy, spend, now_us);
    free(copy.entries);
    return answer;
}

/* penalties: `time_us` is when a ban ends or when the last violation was, `units` how many there were */

static bool is_penalty(const struct weir_spend *spend)
{
    return spend->algorithm == WEIR_PENALTY;
}

/* The row of bans, walked along once for each violation. */
static uint64_t ban_us(const struct weir_penalty *penalty, uint64_t violations)
{
    uint64_t us = 0;
    for (uint64_t n = penalty->after; n <= violations && n < penalty->after + penalty->ban_count;
         n++)
        us = penalty->bans_us[n - penalty->after];
    return us;
}

/* How much is left of a ban; no more than a whole one. */
static uint64_t ban_left_us(const struct model_sum *sum, const struct weir_spend *spend,
                            uint64_t now_us)
{
    wide left = (wide)sum->time_us - now_us;
    return (uint64_t)clamp(left, 0, ban_us(spend->penalty, sum->units));
}

/* The clock went back: no time has passed since the last violation. */
static void penalty_put_right(struct model_sum *sum, const struct weir_spend *spend,
                              uint64_t now_us)
{
    if (sum->time_us > now_us)
        sum->time_us = now_us + ban_left_us(sum, spend, now_us);
}

static void violate(struct model_sum *sum, const struct weir_penalty *penalty, uint64_t now_us)
{
    if ((wide)sum->time_us + penalty->forget_us <= now_us)
        sum->units = 0;
    sum->units++;
    sum->time_us = now_us + ban_us(penalty, sum->units);
}

/* What has become of a key that its limit has answered so. */
static struct weir_answer punish(struct model_sum *sum, const struct weir_spend *spend,
                                 const struct weir_answer *limit, bool is_limit_blocked,
                                 uint64_t now_us)
{
    bool is_banned = ban_left_us(sum, spend, now_us) > 0;
    bool is_attempt = spend->cost > 0 && !limit->impossible && !is_limit_blocked;
    if (is_attempt && (is_banned ? spend->penalty->extends : !limit->allowed))
        violate(sum, spend->penalty, now_us);
    uint64_t left_us = ban_left_us(sum, spend, now_us);
    struct weir_answer answer = { .allowed = left_us == 0 || spend->cost == 0,
                                  .reset_us = left_us };
    answer.remaining = left_us == 0 ? WEIR_UNITS_MAX : 0;
    answer.retry_us = answer.allowed ? 0 : left_us;
    return answer;
}

/* Puts penalties right, and has a limit whose key is banned log no refusals. */
static void look_for_bans(struct model_sum *const *sums, struct weir_spend *spends, size_t count,
                          uint64_t now_us)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_penalty(&spends[i]))
            continue;
        penalty_put_right(sums[i], &spends[i], now_us);
        if (ban_left_us(sums[i], &spends[i], now_us) > 0)
            spends[i - 1].logs_refusals = false;
    }
}

void model_spend(struct model_sum *const *sums, const struct weir_spend *asked, size_t count,
                 uint64_t now_us, struct weir_answer *answers)
{
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    memcpy(spends, asked, count * sizeof spends[0]);
    look_for_bans(sums, spends, count, now_us);
    bool all_pass = true;
    for (size_t i = 0; i < count; i++) {
        if (is_penalty(&spends[i]))
            answers[i] = punish(sums[i], &spends[i], &answers[i - 1],
                                is_blocked(sums[i - 1], now_us), now_us);
        else
            answers[i] = ask(sums[i], &spends[i], now_us);
        all_pass = all_pass && answers[i].allowed;
    }
    /* Where another one has refused, a limit is only looked at. */
    for (size_t i = 0; i < count; i++) {
        if (is_penalty(&spends[i]))
            continue;
        if (!all_pass && answers[i].allowed)
            spends[i].cost = 0;
        answers[i] = decide(sums[i], &spends[i], now_us);
    }
}

void model_settle(struct model_sum *sum, const struct weir_spend *spend, uint64_t now_us)
{
    wide more = (wide)spend->cost - spend->reserved;
    if (is_penalty(spend))
        return;
    if (is_blocked(sum, now_us) || spend->rate.limit == 0)
        return;
    struct model_sum settled = { 0 };
    if (!sum->is_blocked)
        settled = copy_of(sum);
    const struct kind *kind = kind_of(spend);
    kind->put_right(&settled, spend, now_us);
    /* Where nothing is to be corrected, nothing is written, not even what was put right. */
    struct model_sum *loser = kind->settle(&settled, spend, now_us, more) ? sum : &settled;
    free(loser->entries);
    if (loser == sum)
        *sum = settled;
}

void model_block(struct model_sum *sum, uint64_t until_us)
{
    model_finish(sum);
    sum->is_blocked = true;
    sum->blocked_until_us = until_us;
}

void model_finish(struct model_sum *sum)
{
    free(sum->entries);
    *sum = (struct model_sum){ 0 };
}
