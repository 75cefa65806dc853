#include "limit/token_bucket.h"

#include "limit/gcra.h"

/* A state put right for now. */
struct bucket {
    uint64_t used_parts; /* the time until all tokens are there             */
    bool was_wrong;      /* as it stood, the state could not be             */
};

/* Not ahead of now, unless the clock was set back, and with parts of this rate. */
static struct weir_state with_moment(const struct weir_rate *rate, struct weir_state state,
                                     uint64_t now_us)
{
    if (state.first >= now_us)
        return (struct weir_state){ .first = now_us, .high = state.high };
    if (state.low >= rate->parts)
        state.low = (uint32_t)(rate->parts - 1);
    return state;
}

static struct bucket bucket_of(const struct weir_rate *rate, struct weir_state state,
                               uint64_t now_us)
{
    struct weir_state right = with_moment(rate, state, now_us);
    struct bucket bucket = { .was_wrong = right.first != state.first || right.low != state.low };
    uint64_t interval = weir_interval_parts(rate), most = weir_burst_parts(rate);
    weir_wide missing = (weir_wide)right.high * interval;
    weir_wide gone = (weir_wide)(now_us - right.first) * rate->parts - right.low;
    if (gone >= missing)
        return bucket;

    if (missing - gone <= most) {
        bucket.used_parts = (uint64_t)(missing - gone);
        return bucket;
    }
    /* More are missing than the bucket holds: the limit was lowered. It is empty now, with the next
     * token as far on its way as it was. */
    bucket.used_parts = most - (uint64_t)(gone % interval);
    bucket.was_wrong = true;
    return bucket;
}

/* The state of a bucket at `now_us`, with `cost` more tokens missing. */
static struct weir_state state_of(const struct weir_rate *rate, uint64_t now_us,
                                  uint64_t used_parts, uint64_t cost)
{
    uint64_t interval = weir_interval_parts(rate);
    uint64_t missing = used_parts / interval + (used_parts % interval != 0);
    /* The last token came so long ago; before the epoch only where a clock starts there. */
    uint64_t since_parts = missing * interval - used_parts;
    uint64_t since_us = weir_parts_to_us(rate, since_parts);
    if (since_us > now_us)
        since_us = since_parts = 0;
    return (struct weir_state){ .first = now_us - since_us,
                                .low = (uint32_t)(since_us * rate->parts - since_parts),
                                .high = (uint32_t)(missing + cost) };
}

struct weir_decision_step weir_token_bucket_decide(const struct weir_rate *rate,
                                                   struct weir_state state, uint64_t now_us,
                                                   uint64_t cost)
{
    struct bucket bucket = bucket_of(rate, state, now_us);
    struct weir_decision_step step = {
        .answer = weir_gcra_answer(rate, bucket.used_parts, cost),
        .state = state,
    };
    uint64_t spent = step.answer.allowed ? cost : 0;
    uint64_t used = bucket.used_parts + spent * weir_interval_parts(rate);
    if (spent > 0 || bucket.was_wrong)
        step.state = state_of(rate, now_us, bucket.used_parts, spent);
    if (used > 0)
        step.expires_us = now_us + weir_parts_to_us(rate, used);
    return step;
}

struct weir_decision_step weir_token_bucket_settle(const struct weir_spend *spend,
                                                   struct weir_state state, uint64_t now_us)
{
    struct bucket bucket = bucket_of(&spend->rate, state, now_us);
    uint64_t settled = weir_gcra_settled(spend, bucket.used_parts, now_us);
    if (settled == bucket.used_parts)
        return (struct weir_decision_step){ .state = state };
    return (struct weir_decision_step){
        .state = state_of(&spend->rate, now_us, settled, 0),
        .expires_us = now_us + weir_parts_to_us(&spend->rate, settled),
    };
}
