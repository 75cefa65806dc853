#include "limit/fixed_window.h"

#include <weir/calendar.h>

#include "limit/units.h"

/* The window that is now, and what is used in it. */
struct window {
    uint64_t start_us;
    uint64_t end_us;
    uint64_t used;
};

/* A window from the first request is open as long as something is used in it. */
static uint64_t first_start(const struct weir_rate *rate, struct weir_state state, uint64_t now_us)
{
    bool is_open = state.low > 0 && state.first <= now_us && now_us - state.first < rate->window_us;
    return is_open ? state.first : now_us;
}

static struct window window_at(const struct weir_spend *spend, struct weir_state state,
                               uint64_t now_us)
{
    const struct weir_rate *rate = &spend->rate;
    struct window window;
    if (spend->calendar != NULL) {
        struct weir_window edges = weir_calendar_window(spend->calendar, now_us);
        window.start_us = edges.start_us;
        window.end_us = edges.end_us;
    } else {
        window.start_us = spend->from_first ? first_start(rate, state, now_us)
                                            : now_us - now_us % rate->window_us;
        window.end_us = window.start_us + rate->window_us;
    }
    /* A start ahead of now means that the clock was set back: what is used stays used, in the
     * window that is now. */
    window.used = state.first >= window.start_us ? state.low : 0;
    return window;
}

static struct weir_answer answer_to(const struct weir_rate *rate, const struct window *window,
                                    uint64_t left_us, uint64_t cost)
{
    /* A limit that was lowered may have more used than it holds. */
    uint64_t remaining = window->used < rate->limit ? rate->limit - window->used : 0;
    struct weir_answer answer = { .remaining = remaining,
                                  .reset_us = window->used > 0 ? left_us : 0 };
    if (cost > rate->limit) {
        answer.impossible = true;
        return answer;
    }
    if (cost > 0 && cost > remaining) {
        answer.retry_us = left_us;
        return answer;
    }
    answer.allowed = true;
    answer.remaining = remaining - cost;
    answer.reset_us = window->used + cost > 0 ? left_us : 0;
    return answer;
}

struct weir_decision_step weir_fixed_window_decide(const struct weir_spend *spend,
                                                   struct weir_state state, uint64_t now_us)
{
    struct window window = window_at(spend, state, now_us);
    struct weir_decision_step step = {
        .answer = answer_to(&spend->rate, &window, window.end_us - now_us, spend->cost),
        .state = state,
    };
    uint64_t used = window.used + (step.answer.allowed ? spend->cost : 0);
    if (used == 0)
        return step;
    step.state = (struct weir_state){ .first = window.start_us, .low = (uint32_t)used };
    step.expires_us = window.end_us;
    return step;
}

struct weir_decision_step weir_fixed_window_settle(const struct weir_spend *spend,
                                                   struct weir_state state, uint64_t now_us)
{
    struct window window = window_at(spend, state, now_us);
    bool is_same = window.used > 0 && spend->decided_us >= window.start_us
                   && spend->decided_us < window.end_us;
    uint64_t settled = weir_units_settled(spend, window.used, spend->rate.limit);
    if (!is_same || settled == window.used)
        return (struct weir_decision_step){ .state = state };
    if (settled == 0)
        return (struct weir_decision_step){ 0 };
    return (struct weir_decision_step){
        .state = { .first = window.start_us, .low = (uint32_t)settled },
        .expires_us = window.end_us,
    };
}
