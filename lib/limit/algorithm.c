#include "limit/algorithm.h"

#include <string.h>

#include "limit/fixed_window.h"
#include "limit/gcra.h"

struct weir_decision_step weir_decide(const struct weir_spend *spend, struct weir_state state,
                                      uint64_t now_us)
{
    switch (spend->algorithm) {
    case WEIR_GCRA:
        return weir_gcra_decide(&spend->rate, state, now_us, spend->cost);
    case WEIR_FIXED_WINDOW:
        return weir_fixed_window_decide(&spend->rate, spend->from_first, state, now_us,
                                        spend->cost);
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG:
        break;
    }
    /* Not reached with a spend without fault: refused, to be on the safe side. */
    return (struct weir_decision_step){ .answer.impossible = true, .state = state };
}

bool weir_algorithm_exists(enum weir_algorithm algorithm)
{
    return algorithm == WEIR_GCRA || algorithm == WEIR_FIXED_WINDOW;
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
           && (rate->limit == 0 || rate->interval_us > 0 || rate->interval_part > 0);
}

static const char *spend_fault(const struct weir_spend *spend)
{
    if (!weir_algorithm_exists(spend->algorithm))
        return "an algorithm that this version does not have";
    if (spend->key == NULL || spend->key_length == 0 || spend->key_length > WEIR_KEY_MAX)
        return "a key that is not 1 to 512 bytes long";
    if (!rate_is_whole(&spend->rate))
        return "a rate that weir_rate_make() did not make";
    return NULL;
}

static bool has_same_key(const struct weir_spend *one, const struct weir_spend *other)
{
    return one->key_length == other->key_length
           && memcmp(one->key, other->key, one->key_length) == 0;
}

const char *weir_check_fault(const struct weir_check *check)
{
    if (check->count == 0 || check->count > WEIR_CHECK_LIMITS)
        return "a plan that does not have 1 to 8 limits";

    for (size_t i = 0; i < check->count; i++) {
        const char *fault = spend_fault(&check->spends[i]);
        if (fault != NULL)
            return fault;
        /* Each would be decided as if the other were not there. */
        for (size_t j = 0; j < i; j++)
            if (has_same_key(&check->spends[i], &check->spends[j]))
                return "two limits of a plan with the same key";
    }
    return NULL;
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
    }
    return "?";
}
