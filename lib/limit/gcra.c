#include "limit/gcra.h"

/* Everything below counts in 1/parts µs, where a unit's interval is a whole number; weir_rate_make()
 * sees to it that the span of a whole burst stays under 2^62 of them. */

static uint64_t interval_parts(const struct weir_rate *rate)
{
    return rate->interval_us * rate->parts + rate->interval_part;
}

static uint64_t whole_us(const struct weir_rate *rate, uint64_t parts)
{
    /* Rounded up: whoever comes after that time must not be early by a fraction. */
    return parts / rate->parts + (parts % rate->parts != 0);
}

struct weir_span weir_gcra_span(const struct weir_rate *rate, uint64_t units)
{
    uint64_t parts = units * rate->interval_part;
    return (struct weir_span){ units * rate->interval_us + parts / rate->parts,
                               parts % rate->parts };
}

struct weir_answer weir_gcra_answer(const struct weir_rate *rate, struct weir_span used,
                                    uint64_t cost)
{
    if (rate->limit == 0)
        return (struct weir_answer){ .allowed = cost == 0, .impossible = cost > 0 };

    uint64_t interval = interval_parts(rate);
    uint64_t used_parts = used.us * rate->parts + used.part;
    uint64_t free_parts = rate->burst * interval - used_parts;
    struct weir_answer answer = { .remaining = free_parts / interval,
                                  .reset_us = whole_us(rate, used_parts) };
    if (cost > rate->burst) {
        answer.impossible = true;
        return answer;
    }

    uint64_t cost_parts = cost * interval;
    if (cost_parts > free_parts) {
        answer.retry_us = whole_us(rate, cost_parts - free_parts);
        return answer;
    }
    return (struct weir_answer){ .allowed = true,
                                 .remaining = answer.remaining - cost,
                                 .reset_us = whole_us(rate, used_parts + cost_parts) };
}

static bool is_longer(struct weir_span one, struct weir_span other)
{
    return one.us > other.us || (one.us == other.us && one.part > other.part);
}

/* How far the arrival time lies ahead of now. Further than a full burst it cannot, unless the clock
 * was set back or the rate has changed: that counts as a burst all used up, and no more. */
static struct weir_span used_span(const struct weir_rate *rate, struct weir_state state,
                                  uint64_t now_us)
{
    if (state.first < now_us)
        return (struct weir_span){ 0 };
    /* Parts of another rate: less than a microsecond. */
    uint64_t part = state.second < rate->parts ? state.second : 0;
    struct weir_span used = { state.first - now_us, part };
    struct weir_span most = weir_gcra_span(rate, rate->burst);
    return is_longer(used, most) ? most : used;
}

static struct weir_state state_after(const struct weir_rate *rate, uint64_t now_us,
                                     struct weir_span used, struct weir_span cost)
{
    uint64_t part = used.part + cost.part;
    uint64_t carry_us = part >= rate->parts;
    return (struct weir_state){ now_us + used.us + cost.us + carry_us,
                                part - carry_us * rate->parts };
}

struct weir_decision_step weir_gcra_decide(const struct weir_rate *rate, struct weir_state state,
                                           uint64_t now_us, uint64_t cost)
{
    struct weir_span used = used_span(rate, state, now_us);
    struct weir_decision_step step = { .answer = weir_gcra_answer(rate, used, cost),
                                       .state = state };
    if (rate->limit == 0)
        return step;

    bool spends = step.answer.allowed && cost > 0;
    if (!spends && used.us == 0 && used.part == 0)
        return step;
    struct weir_span spent = weir_gcra_span(rate, spends ? cost : 0);
    step.state = state_after(rate, now_us, used, spent);
    step.expires_us = step.state.first + (step.state.second > 0);
    return step;
}
