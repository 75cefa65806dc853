#include "limit/sliding_counter.h"

#include "limit/span.h"
#include "limit/units.h"

/* The state brought to now. */
struct counter {
    uint64_t start_us; /* of the window that is now   */
    uint64_t left_us;  /* until it ends               */
    uint64_t used;     /* in it                       */
    uint64_t before;   /* used in the one before      */
};

static struct counter counter_at(const struct weir_rate *rate, struct weir_state state,
                                 uint64_t now_us)
{
    uint64_t since_us = now_us % rate->window_us;
    struct counter counter = { .start_us = now_us - since_us,
                               .left_us = rate->window_us - since_us };
    if (state.first >= counter.start_us) {
        /* One ahead means that the clock was set back: what is used stays used. */
        counter.used = state.low;
        counter.before = state.high;
    } else if (state.first + rate->window_us >= counter.start_us) {
        counter.before = state.low;
    }
    return counter;
}

static struct weir_decision_step step_to(const struct weir_rate *rate,
                                         const struct counter *counter)
{
    if (counter->used == 0 && counter->before == 0)
        return (struct weir_decision_step){ 0 };
    return (struct weir_decision_step){
        .state = { .first = counter->start_us,
                   .low = (uint32_t)counter->used,
                   .high = (uint32_t)counter->before },
        .expires_us = counter->start_us + 2 * rate->window_us,
    };
}

/* What the window before still counts, rounded up. */
static uint64_t weighted(const struct weir_rate *rate, const struct counter *counter)
{
    weir_wide product = (weir_wide)counter->before * counter->left_us;
    return (uint64_t)((product + rate->window_us - 1) / rate->window_us);
}

static uint64_t remaining_of(const struct weir_rate *rate, const struct counter *counter)
{
    uint64_t taken = counter->used + weighted(rate, counter);
    return taken < rate->limit ? rate->limit - taken : 0;
}

/* The last unit used now stops to count two windows after its own window's start. */
static uint64_t reset_of(const struct weir_rate *rate, const struct counter *counter)
{
    if (counter->used > 0)
        return rate->window_us + counter->left_us;
    return counter->before > 0 ? counter->left_us : 0;
}

/* How long `units` of a window that began to leave must go on leaving until only `room` of them
 * count: the least d with units · (window - d) <= room · window. */
static uint64_t leaving_us(const struct weir_rate *rate, uint64_t units, uint64_t room)
{
    return rate->window_us - (uint64_t)((weir_wide)room * rate->window_us / units);
}

/* A request that does not pass now: passes when enough of the window before has left, or else of
 * this one in the next. */
static uint64_t retry_of(const struct weir_rate *rate, const struct counter *counter, uint64_t cost)
{
    if (counter->used + cost > rate->limit)
        return counter->left_us + leaving_us(rate, counter->used, rate->limit - cost);
    uint64_t since_us = rate->window_us - counter->left_us;
    return leaving_us(rate, counter->before, rate->limit - counter->used - cost) - since_us;
}

struct weir_decision_step weir_sliding_counter_decide(const struct weir_rate *rate,
                                                      struct weir_state state, uint64_t now_us,
                                                      uint64_t cost)
{
    struct counter counter = counter_at(rate, state, now_us);
    uint64_t remaining = remaining_of(rate, &counter);
    bool impossible = cost > rate->limit;
    bool allowed = cost <= remaining;
    struct weir_decision_step step = { .state = state, .expires_us = 0 };
    if (allowed && cost > 0) {
        counter.used += cost;
        step = step_to(rate, &counter);
    } else if (state.first > counter.start_us) {
        step = step_to(rate, &counter);
    } else if (counter.used > 0 || counter.before > 0) {
        step.expires_us = state.first + 2 * rate->window_us;
    }
    step.answer = (struct weir_answer){
        .allowed = allowed,
        .impossible = impossible,
        .remaining = remaining_of(rate, &counter),
        .retry_us = allowed || impossible ? 0 : retry_of(rate, &counter, cost),
        .reset_us = reset_of(rate, &counter),
    };
    return step;
}

struct weir_decision_step weir_sliding_counter_settle(const struct weir_spend *spend,
                                                      struct weir_state state, uint64_t now_us)
{
    const struct weir_rate *rate = &spend->rate;
    struct counter counter = counter_at(rate, state, now_us);
    uint64_t decided_in_us = spend->decided_us - spend->decided_us % rate->window_us;
    uint64_t *units = NULL;
    if (decided_in_us == counter.start_us)
        units = &counter.used;
    else if (decided_in_us + rate->window_us == counter.start_us)
        units = &counter.before;
    uint64_t settled = units == NULL ? 0 : weir_units_settled(spend, *units, rate->limit);
    if (units == NULL || settled == *units)
        return (struct weir_decision_step){ .state = state };
    *units = settled;
    return step_to(rate, &counter);
}
