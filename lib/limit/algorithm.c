#include "limit/algorithm.h"

#include <string.h>

#include "limit/fixed_window.h"
#include "limit/gcra.h"
#include "limit/leaky_bucket.h"
#include "limit/penalty.h"
#include "limit/sliding_counter.h"
#include "limit/token_bucket.h"

/* Times fit what Lua counts exactly. */
#define TIME_MAX_US (UINT64_C(1) << 53)

/* deciding */

uint64_t weir_capacity(const struct weir_spend *spend)
{
    const struct weir_rate *rate = &spend->rate;
    if (rate->limit == 0)
        return 0;
    switch (spend->algorithm) {
    case WEIR_GCRA:
    case WEIR_TOKEN_BUCKET:
        return rate->burst;
    case WEIR_LEAKY_BUCKET:
        return weir_leaky_bucket_capacity(rate, spend->max_wait_us);
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG:
    case WEIR_PENALTY:
        break;
    }
    return rate->limit;
}

/* In one piece a leaky bucket takes what never finds the bucket so full one by one. */
bool weir_is_possible(const struct weir_spend *spend)
{
    const struct weir_rate *rate = &spend->rate;
    uint64_t most = spend->algorithm == WEIR_LEAKY_BUCKET && rate->limit > 0 ? rate->burst
                                                                             : weir_capacity(spend);
    return spend->cost <= most;
}

struct weir_state weir_state_blocked(uint64_t until_us)
{
    return (struct weir_state){ .first = until_us, .high = WEIR_HIGH_BLOCKED };
}

struct weir_answer weir_answer_blocked(const struct weir_spend *spend, uint64_t left_us)
{
    struct weir_answer answer = { .allowed = spend->cost == 0,
                                  .impossible = !weir_is_possible(spend),
                                  .blocked = true,
                                  .reset_us = left_us };
    if (!answer.allowed && !answer.impossible)
        answer.retry_us = left_us;
    return answer;
}

static bool is_blocked(struct weir_state state)
{
    return state.high == WEIR_HIGH_BLOCKED;
}

/* Beyond what Lua counts exactly, and beyond all that now can bring about. A clock of a user's own may
 * itself stand there. */
static bool is_absurd(uint64_t time_us, uint64_t now_us)
{
    return time_us > TIME_MAX_US && time_us > now_us && time_us - now_us > WEIR_BURST_MAX_US;
}

/* Whether a decision or a block can have left this. Whatever else stands there counts as a new key:
 * it must not lock anybody out. */
static bool can_be(const struct weir_spend *spend, struct weir_state state, uint64_t now_us)
{
    if (is_absurd(state.first, now_us))
        return false;
    if (is_blocked(state))
        return state.low == 0;
    bool has_high =
        spend->algorithm == WEIR_TOKEN_BUCKET || spend->algorithm == WEIR_SLIDING_COUNTER;
    return state.low <= WEIR_UNITS_MAX && state.high <= (has_high ? WEIR_UNITS_MAX : 0);
}

static struct weir_decision_step decide(const struct weir_spend *spend, struct weir_state state,
                                        uint64_t now_us)
{
    switch (spend->algorithm) {
    case WEIR_GCRA:
        return weir_gcra_decide(&spend->rate, state, now_us, spend->cost);
    case WEIR_TOKEN_BUCKET:
        return weir_token_bucket_decide(&spend->rate, state, now_us, spend->cost);
    case WEIR_LEAKY_BUCKET:
        return weir_leaky_bucket_decide(&spend->rate, spend->max_wait_us, state, now_us,
                                        spend->cost);
    case WEIR_FIXED_WINDOW:
        return weir_fixed_window_decide(spend, state, now_us);
    case WEIR_SLIDING_COUNTER:
        return weir_sliding_counter_decide(&spend->rate, state, now_us, spend->cost);
    case WEIR_SLIDING_LOG:
    case WEIR_PENALTY:
        break;
    }
    /* Not reached with a spend without fault: refused, to be on the safe side. */
    return (struct weir_decision_step){ .answer.impossible = true, .state = state };
}

struct weir_decision_step weir_decide(const struct weir_spend *spend, struct weir_state state,
                                      uint64_t now_us)
{
    if (!can_be(spend, state, now_us))
        state = (struct weir_state){ 0 };
    if (is_blocked(state) && now_us < state.first)
        return (struct weir_decision_step){
            .answer = weir_answer_blocked(spend, state.first - now_us),
            .state = state,
            .expires_us = state.first,
        };
    if (spend->rate.limit == 0)
        return (struct weir_decision_step){
            .answer = { .allowed = spend->cost == 0, .impossible = spend->cost > 0 },
            .state = state,
        };
    if (is_blocked(state))
        state = (struct weir_state){ 0 };
    return decide(spend, state, now_us);
}

/* settling */

static struct weir_decision_step settle(const struct weir_spend *spend, struct weir_state state,
                                        uint64_t now_us)
{
    switch (spend->algorithm) {
    case WEIR_GCRA:
    case WEIR_LEAKY_BUCKET:
        return weir_gcra_settle(spend, state, now_us);
    case WEIR_TOKEN_BUCKET:
        return weir_token_bucket_settle(spend, state, now_us);
    case WEIR_FIXED_WINDOW:
        return weir_fixed_window_settle(spend, state, now_us);
    case WEIR_SLIDING_COUNTER:
        return weir_sliding_counter_settle(spend, state, now_us);
    case WEIR_SLIDING_LOG:
    case WEIR_PENALTY:
        break;
    }
    return (struct weir_decision_step){ .state = state };
}

static bool is_same(struct weir_state one, struct weir_state other)
{
    return one.first == other.first && one.low == other.low && one.high == other.high;
}

struct weir_decision_step weir_settle_state(const struct weir_spend *spend, struct weir_state state,
                                            uint64_t now_us)
{
    struct weir_state usable = state;
    if (!can_be(spend, state, now_us) || (is_blocked(state) && now_us >= state.first))
        usable = (struct weir_state){ 0 };
    if (spend->rate.limit == 0 || is_blocked(usable))
        return (struct weir_decision_step){ .state = state };
    struct weir_decision_step step = settle(spend, usable, now_us);
    if (is_same(step.state, usable))
        step.state = state;
    return step;
}

/* faults */

static bool algorithm_exists(enum weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_GCRA:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG:
    case WEIR_PENALTY:
        return true;
    }
    return false;
}

/* A whole burst is within the bounds of both Lua and C. */
static bool burst_fits(const struct weir_rate *rate, uint64_t interval_parts)
{
    uint64_t us, parts;
    return !__builtin_mul_overflow(rate->burst, rate->interval_us + 1, &us)
           && us <= WEIR_BURST_MAX_US
           && !__builtin_mul_overflow(rate->burst, interval_parts, &parts)
           && parts <= UINT64_C(1) << 62;
}

/* What divisions, multiplications and tables further down rely on. */
static bool rate_is_whole(const struct weir_rate *rate)
{
    uint64_t whole;
    return rate->limit <= WEIR_UNITS_MAX && rate->burst <= WEIR_UNITS_MAX && rate->window_us > 0
           && rate->window_us <= WEIR_WINDOW_MAX_US && rate->parts > 0
           && rate->parts <= WEIR_UNITS_MAX && rate->interval_part < rate->parts
           && !__builtin_mul_overflow(rate->interval_us, rate->parts, &whole)
           && whole <= rate->window_us
           && (rate->limit == 0
               || (whole + rate->interval_part > 0 && rate->burst > 0
                   && burst_fits(rate, whole + rate->interval_part)));
}

static const char *key_fault(const struct weir_spend *spend)
{
    if (spend->key == NULL || spend->key_length == 0 || spend->key_length > WEIR_KEY_MAX)
        return "a key that is not 1 to 512 bytes long";
    if (spend->group_length > spend->key_length)
        return "a group that is longer than its key";
    return NULL;
}

static const char *spend_fault(const struct weir_spend *spend)
{
    if (!algorithm_exists(spend->algorithm))
        return "an algorithm that this version does not have";
    if (spend->algorithm == WEIR_PENALTY) {
        const char *fault = weir_penalty_fault(spend->penalty);
        return fault != NULL ? fault : key_fault(spend);
    }
    if (!rate_is_whole(&spend->rate))
        return "a rate that weir_rate_make() did not make";
    if (spend->calendar != NULL && (spend->algorithm != WEIR_FIXED_WINDOW || spend->from_first))
        return "a calendar for what is no window on it";
    if (spend->max_wait_us > WEIR_BURST_MAX_US)
        return "a wait of more than 71 years";
    return key_fault(spend);
}

/* A penalty rests on what the limit in front of it says. */
static const char *order_fault(const struct weir_check *check, size_t index)
{
    const struct weir_spend *spend = &check->spends[index];
    if (spend->algorithm != WEIR_PENALTY)
        return NULL;
    if (index == 0 || check->spends[index - 1].algorithm == WEIR_PENALTY)
        return "a penalty that stands behind no limit";
    if (check->operation == WEIR_SPEND && spend->cost != check->spends[index - 1].cost)
        return "a penalty of another cost than its limit";
    return NULL;
}

static const char *settlement_fault(const struct weir_spend *spend)
{
    if (spend->reserved > WEIR_UNITS_MAX || spend->cost > WEIR_UNITS_MAX)
        return "a settlement of more than 1000000000 units";
    if (spend->decided_us > spend->full_us || spend->full_us > TIME_MAX_US)
        return "a settlement with times that no decision gives";
    return NULL;
}

static bool has_same_key(const struct weir_spend *one, const struct weir_spend *other)
{
    return one->key_length == other->key_length
           && memcmp(one->key, other->key, one->key_length) == 0;
}

static const char *operation_fault(const struct weir_check *check)
{
    switch (check->operation) {
    case WEIR_SPEND:
        return check->answers == NULL ? "no room for the answers" : NULL;
    case WEIR_SETTLE:
    case WEIR_RESET:
        return NULL;
    case WEIR_BLOCK:
        return check->block_us == 0 || check->block_us > WEIR_BURST_MAX_US
                   ? "a block that does not last 1 µs to 71 years"
                   : NULL;
    case WEIR_EXCHANGE:
        break; /* is no plan */
    }
    return "an operation that this version does not have";
}

static const char *exchange_fault(const struct weir_check *check)
{
    const struct weir_exchange *exchange = check->exchange;
    if (check->count != 1 || check->spends == NULL || exchange == NULL || exchange->found == NULL)
        return "an exchange without one key, or without room for what is found";
    if (exchange->text != NULL
        && (exchange->length > WEIR_TEXT_BYTES_MAX
            || (exchange->length > 0 && exchange->length < WEIR_TEXT_MARK_BYTES)))
        return "a text that is not 16 to 49152 bytes long";
    if (exchange->text != NULL && (exchange->keep_us == 0 || exchange->keep_us > WEIR_BURST_MAX_US))
        return "a text that is not kept for 1 µs to 71 years";
    return key_fault(check->spends);
}

const char *weir_check_fault(const struct weir_check *check)
{
    if (check->operation == WEIR_EXCHANGE)
        return exchange_fault(check);
    if (check->count == 0 || check->count > WEIR_CHECK_LIMITS || check->spends == NULL)
        return "a plan that does not have 1 to 8 limits";
    const char *fault = operation_fault(check);

    for (size_t i = 0; fault == NULL && i < check->count; i++) {
        fault = spend_fault(&check->spends[i]);
        if (fault == NULL)
            fault = order_fault(check, i);
        if (fault == NULL && check->operation == WEIR_SETTLE)
            fault = settlement_fault(&check->spends[i]);
        /* Each would be decided as if the other were not there. */
        for (size_t j = 0; fault == NULL && j < i; j++)
            if (has_same_key(&check->spends[i], &check->spends[j]))
                fault = "two limits of a plan with the same key";
    }
    return fault;
}

const char *weir_algorithm_tag(enum weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_GCRA:
        return "gcra";
    case WEIR_TOKEN_BUCKET:
        return "token";
    case WEIR_LEAKY_BUCKET:
        return "leaky";
    case WEIR_FIXED_WINDOW:
        return "fixed";
    case WEIR_SLIDING_COUNTER:
        return "sliding";
    case WEIR_SLIDING_LOG:
        return "log";
    case WEIR_PENALTY:
        return "penalty";
    }
    return "?";
}
