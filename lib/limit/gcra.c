#include "limit/gcra.h"

struct weir_span weir_gcra_span(const struct weir_rate *rate, uint64_t units)
{
    uint64_t parts = units * rate->interval_part;
    return (struct weir_span){ units * rate->interval_us + parts / rate->parts,
                               parts % rate->parts };
}

uint64_t weir_gcra_used(const struct weir_rate *rate, struct weir_state state, uint64_t now_us)
{
    if (state.first < now_us)
        return 0;
    /* Parts of another rate: less than a microsecond. */
    uint64_t part = state.low < rate->parts ? state.low : 0;
    struct weir_span used = { state.first - now_us, part };
    struct weir_span most = weir_gcra_span(rate, rate->burst);
    return weir_span_parts(rate, weir_span_is_longer(used, most) ? most : used);
}

struct weir_state weir_gcra_state(const struct weir_rate *rate, uint64_t now_us,
                                  uint64_t used_parts)
{
    return (struct weir_state){ .first = now_us + used_parts / rate->parts,
                                .low = (uint32_t)(used_parts % rate->parts) };
}

struct weir_answer weir_gcra_answer(const struct weir_rate *rate, uint64_t used_parts,
                                    uint64_t cost)
{
    uint64_t interval = weir_interval_parts(rate);
    uint64_t free_parts = weir_burst_parts(rate) - used_parts;
    struct weir_answer answer = { .remaining = free_parts / interval,
                                  .reset_us = weir_parts_to_us(rate, used_parts) };
    if (cost > rate->burst) {
        answer.impossible = true;
        return answer;
    }

    uint64_t cost_parts = cost * interval;
    if (cost_parts > free_parts) {
        answer.retry_us = weir_parts_to_us(rate, cost_parts - free_parts);
        return answer;
    }
    return (struct weir_answer){ .allowed = true,
                                 .remaining = answer.remaining - cost,
                                 .reset_us = weir_parts_to_us(rate, used_parts + cost_parts) };
}

struct weir_decision_step weir_gcra_decide(const struct weir_rate *rate, struct weir_state state,
                                           uint64_t now_us, uint64_t cost)
{
    uint64_t used = weir_gcra_used(rate, state, now_us);
    struct weir_decision_step step = { .answer = weir_gcra_answer(rate, used, cost),
                                       .state = state };
    if (step.answer.allowed)
        used += cost * weir_interval_parts(rate);
    if (used == 0)
        return step;
    step.state = weir_gcra_state(rate, now_us, used);
    step.expires_us = now_us + weir_parts_to_us(rate, used);
    return step;
}

/* settling */

static uint64_t less(const struct weir_spend *spend, uint64_t used, uint64_t now_us)
{
    if (spend->full_us <= now_us)
        return used;
    weir_wide given =
        (weir_wide)(spend->reserved - spend->cost) * weir_interval_parts(&spend->rate);
    weir_wide left = (weir_wide)(spend->full_us - now_us) * spend->rate.parts;
    if (given > left)
        given = left;
    return given < used ? used - (uint64_t)given : 0;
}

static uint64_t more(const struct weir_spend *spend, uint64_t used, uint64_t now_us)
{
    weir_wide taken =
        (weir_wide)(spend->cost - spend->reserved) * weir_interval_parts(&spend->rate);
    weir_wide earned = 0;
    if (now_us > spend->full_us)
        earned = (weir_wide)(now_us - spend->full_us) * spend->rate.parts;
    if (earned >= taken)
        return used;
    uint64_t most = weir_burst_parts(&spend->rate);
    weir_wide sum = used + (taken - earned);
    return sum < most ? (uint64_t)sum : most;
}

uint64_t weir_gcra_settled(const struct weir_spend *spend, uint64_t used_parts, uint64_t now_us)
{
    return spend->cost < spend->reserved ? less(spend, used_parts, now_us)
                                         : more(spend, used_parts, now_us);
}

struct weir_decision_step weir_gcra_settle(const struct weir_spend *spend, struct weir_state state,
                                           uint64_t now_us)
{
    uint64_t used = weir_gcra_used(&spend->rate, state, now_us);
    uint64_t settled = weir_gcra_settled(spend, used, now_us);
    if (settled == used)
        return (struct weir_decision_step){ .state = state };
    return (struct weir_decision_step){
        .state = weir_gcra_state(&spend->rate, now_us, settled),
        .expires_us = now_us + weir_parts_to_us(&spend->rate, settled),
    };
}
