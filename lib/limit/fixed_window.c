#include "limit/fixed_window.h"

struct weir_answer weir_fixed_window_answer(const struct weir_rate *rate, uint64_t used,
                                            uint64_t left_us, uint64_t cost)
{
    if (rate->limit == 0)
        return (struct weir_answer){ .allowed = cost == 0, .impossible = cost > 0 };

    /* A limit that was lowered may have more used than it holds. */
    uint64_t remaining = used < rate->limit ? rate->limit - used : 0;
    struct weir_answer answer = { .remaining = remaining, .reset_us = used > 0 ? left_us : 0 };
    if (cost > rate->limit) {
        answer.impossible = true;
        return answer;
    }
    if (cost > remaining) {
        answer.retry_us = left_us;
        return answer;
    }
    answer.allowed = true;
    answer.remaining = remaining - cost;
    answer.reset_us = used + cost > 0 ? left_us : 0;
    return answer;
}

/* The start of the window that is now. */
static uint64_t window_start(const struct weir_rate *rate, bool from_first, struct weir_state state,
                             uint64_t now_us)
{
    if (!from_first)
        return now_us - now_us % rate->window_us;
    bool is_open =
        state.second > 0 && state.first <= now_us && now_us - state.first < rate->window_us;
    return is_open ? state.first : now_us;
}

struct weir_decision_step weir_fixed_window_decide(const struct weir_rate *rate, bool from_first,
                                                   struct weir_state state, uint64_t now_us,
                                                   uint64_t cost)
{
    uint64_t start_us = window_start(rate, from_first, state, now_us);
    /* A start ahead of now means that the clock was set back: what is used stays used, in the
     * window that is now. */
    uint64_t used = state.first >= start_us ? state.second : 0;
    uint64_t end_us = start_us + rate->window_us;

    struct weir_decision_step step = {
        .answer = weir_fixed_window_answer(rate, used, end_us - now_us, cost),
        .state = state,
    };
    uint64_t used_after = used + (step.answer.allowed ? cost : 0);
    if (used_after == 0 || rate->limit == 0)
        return step;
    step.state = (struct weir_state){ start_us, used_after };
    step.expires_us = end_us;
    return step;
}
