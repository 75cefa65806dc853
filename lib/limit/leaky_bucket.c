#include "limit/leaky_bucket.h"

#include "limit/gcra.h"

/* The longest wait in 1/parts µs. No queue lasts longer than all its places, which also stand for
 * "no longest wait". */
static uint64_t longest_wait(const struct weir_rate *rate, uint64_t max_wait_us)
{
    weir_wide wait = (weir_wide)max_wait_us * rate->parts;
    uint64_t most = weir_burst_parts(rate);
    return max_wait_us == 0 || wait > most ? most : (uint64_t)wait;
}

/* Single units that can be spent when so much is in use: there is a place for each, and the last
 * one does not wait too long. */
static uint64_t places(const struct weir_rate *rate, uint64_t max_wait_us, uint64_t used)
{
    uint64_t interval = weir_interval_parts(rate);
    uint64_t is_free = (weir_burst_parts(rate) - used) / interval;
    uint64_t longest = longest_wait(rate, max_wait_us);
    uint64_t in_time = used > longest ? 0 : (longest - used) / interval + 1;
    return in_time < is_free ? in_time : is_free;
}

uint64_t weir_leaky_bucket_capacity(const struct weir_rate *rate, uint64_t max_wait_us)
{
    return places(rate, max_wait_us, 0);
}

static struct weir_answer answer_to(const struct weir_rate *rate, uint64_t max_wait_us,
                                    uint64_t used, uint64_t cost)
{
    struct weir_answer answer = weir_gcra_answer(rate, used, cost);
    uint64_t longest = longest_wait(rate, max_wait_us);
    if (cost > 0 && !answer.impossible && used > longest) {
        uint64_t retry_us = weir_parts_to_us(rate, used - longest);
        if (answer.allowed || retry_us > answer.retry_us)
            answer.retry_us = retry_us;
        answer.allowed = false;
        answer.reset_us = weir_parts_to_us(rate, used);
    }
    bool spends = answer.allowed && cost > 0;
    if (spends && max_wait_us > 0)
        answer.wait_us = weir_parts_to_us(rate, used);
    uint64_t spent = spends ? cost * weir_interval_parts(rate) : 0;
    answer.remaining = places(rate, max_wait_us, used + spent);
    return answer;
}

struct weir_decision_step weir_leaky_bucket_decide(const struct weir_rate *rate,
                                                   uint64_t max_wait_us, struct weir_state state,
                                                   uint64_t now_us, uint64_t cost)
{
    uint64_t used = weir_gcra_used(rate, state, now_us);
    struct weir_decision_step step = { .answer = answer_to(rate, max_wait_us, used, cost),
                                       .state = state };
    if (step.answer.allowed)
        used += cost * weir_interval_parts(rate);
    if (used == 0)
        return step;
    step.state = weir_gcra_state(rate, now_us, used);
    step.expires_us = now_us + weir_parts_to_us(rate, used);
    return step;
}
