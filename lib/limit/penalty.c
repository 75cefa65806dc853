#include "limit/penalty.h"

enum weir_attempt weir_attempt_of(const struct weir_spend *limit, const struct weir_answer *answer,
                                  bool is_blocked)
{
    if (limit->cost == 0 || answer->impossible || is_blocked)
        return WEIR_NO_ATTEMPT;
    return answer->allowed ? WEIR_ATTEMPT_FITS : WEIR_ATTEMPT_REFUSED;
}

/* The ban that so many violations bring. */
static uint64_t ban_us(const struct weir_penalty *penalty, uint32_t violations)
{
    if (violations < penalty->after)
        return 0;
    uint32_t row = violations - penalty->after, last = penalty->ban_count - 1;
    return penalty->bans_us[row < last ? row : last];
}

/* What cannot have been left by a penalty counts as a new key, and what cannot be by this one and this
 * clock is put right. */
static struct weir_state put_right(const struct weir_penalty *penalty, struct weir_state state,
                                   uint64_t now_us)
{
    if (state.low == 0 || state.low > WEIR_UNITS_MAX || state.high != 0)
        return (struct weir_state){ 0 };
    uint64_t most_us = ban_us(penalty, state.low);
    if (state.first > now_us && state.first - now_us > most_us)
        state.first = now_us + most_us;
    return state;
}

/* One more than those that are not forgotten. */
static uint32_t count_violation(const struct weir_penalty *penalty, struct weir_state state,
                                uint64_t now_us)
{
    bool is_forgotten = now_us >= state.first && now_us - state.first >= penalty->forget_us;
    uint32_t violations = is_forgotten ? 0 : state.low;
    return violations < WEIR_UNITS_MAX ? violations + 1 : violations;
}

static bool is_violation(const struct weir_penalty *penalty, bool is_banned,
                         enum weir_attempt attempt)
{
    if (is_banned)
        return penalty->extends && attempt != WEIR_NO_ATTEMPT;
    return attempt == WEIR_ATTEMPT_REFUSED;
}

static struct weir_answer answer_for(const struct weir_spend *spend, uint64_t left_us)
{
    bool is_refused = left_us > 0 && spend->cost > 0;
    return (struct weir_answer){ .allowed = !is_refused,
                                 .remaining = left_us > 0 ? 0 : WEIR_UNITS_MAX,
                                 .retry_us = is_refused ? left_us : 0,
                                 .reset_us = left_us };
}

struct weir_decision_step weir_penalty_decide(const struct weir_spend *spend,
                                              struct weir_state state, uint64_t now_us,
                                              enum weir_attempt attempt)
{
    const struct weir_penalty *penalty = spend->penalty;
    struct weir_state now = put_right(penalty, state, now_us);
    if (is_violation(penalty, now.first > now_us, attempt)) {
        now.low = count_violation(penalty, now, now_us);
        now.first = now_us + ban_us(penalty, now.low);
    }
    uint64_t left_us = now.first > now_us ? now.first - now_us : 0;
    return (struct weir_decision_step){
        .answer = answer_for(spend, left_us),
        .state = now,
        .expires_us = now.low > 0 ? now.first + penalty->forget_us : 0,
    };
}

bool weir_penalty_bans(const struct weir_spend *spend, struct weir_state state, uint64_t now_us)
{
    return put_right(spend->penalty, state, now_us).first > now_us;
}

const char *weir_penalty_fault(const struct weir_penalty *penalty)
{
    if (penalty == NULL || penalty->after == 0 || penalty->after > WEIR_PENALTY_AFTER_MAX)
        return "a penalty that is not after 1 to 1000 violations";
    if (penalty->ban_count == 0 || penalty->ban_count > WEIR_BANS_MAX)
        return "a penalty that does not have 1 to 8 bans";
    uint64_t longest_us = 1;
    for (uint32_t i = 0; i < penalty->ban_count; i++) {
        if (penalty->bans_us[i] < longest_us || penalty->bans_us[i] > WEIR_WINDOW_MAX_US)
            return "a ban that is shorter than the last, or longer than 366 days";
        longest_us = penalty->bans_us[i];
    }
    if (penalty->forget_us < longest_us || penalty->forget_us > WEIR_WINDOW_MAX_US)
        return "a penalty that is forgotten before its ban, or not in 366 days";
    return NULL;
}
