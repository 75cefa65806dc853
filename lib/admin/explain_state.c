/* What is left, without spending: a look of no cost, and what it means for the request's cost.
 *
 * A look does not say how long a request of some cost would have to wait. What the store keeps is found
 * back from what it shows, and the limiter's own arithmetic decides for that. A sliding counter and a
 * sliding log show less than they keep: of these it is only known by when all of the limit is back. */
#include <pthread.h>
#include <string.h>

#include "admin/explain_internal.h"
#include "base/clock.h"
#include "limit/algorithm.h"
#include "limit/gcra.h"
#include "limit/penalty.h"
#include "store/store.h"

/* asking */

struct wait {
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool has_ended;
};

static void on_end(struct weir_check *check)
{
    struct wait *wait = check->owner;
    pthread_mutex_lock(&wait->mutex);
    wait->has_ended = true;
    pthread_cond_signal(&wait->ended);
    pthread_mutex_unlock(&wait->mutex);
}

/* A store that answers later ends each check by its deadline. */
static void submit(const struct weir_store *store, struct weir_check *check)
{
    struct wait wait = { .has_ended = false };
    pthread_mutex_init(&wait.mutex, NULL); /* neither fails for a default one (glibc) */
    pthread_cond_init(&wait.ended, NULL);
    check->done = on_end;
    check->owner = &wait;
    store->type->submit(store->self, check);
    pthread_mutex_lock(&wait.mutex);
    while (!wait.has_ended)
        pthread_cond_wait(&wait.ended, &wait.mutex);
    pthread_mutex_unlock(&wait.mutex);
    pthread_cond_destroy(&wait.ended);
    pthread_mutex_destroy(&wait.mutex);
}

void weir_explain_ask(const struct weir_store *store, struct weir_check *check)
{
    if (weir_store_ready(store)) {
        submit(store, check);
        return;
    }
    check->result = WEIR_STORE_UNAVAILABLE;
    strcpy(check->why, "not connected");
}

/* As a request would be decided that costs nothing: by what this process holds, or by the store. */
static void ask(const struct explaining *explaining, struct weir_check *check)
{
    struct weir_leases *leases = explaining->edition->leases;
    if (weir_leases_decide(leases, check))
        return;
    weir_explain_ask(explaining->limiter->store, check);
    if (check->result == WEIR_STORE_ANSWERED)
        weir_leases_count_held(leases, check);
}

static void look_at_nothing(struct explained_check *check)
{
    for (size_t i = 0; i < check->plan.count; i++) {
        const struct weir_spend *spend = &check->plan.spends[i];
        bool is_penalty = spend->algorithm == WEIR_PENALTY;
        check->seen[i] =
            (struct weir_answer){ .allowed = true,
                                  .remaining = is_penalty ? WEIR_UNITS_MAX : weir_capacity(spend) };
    }
}

/* from the answer to a look to that to a cost */

/* The time in use is shown twice: rounded up to microseconds, and as units that are left. Of all that
 * shows so the longest is taken; what it is too long by is less than a microsecond. */
static uint64_t used_parts(const struct weir_rate *rate, const struct weir_answer *seen)
{
    uint64_t most = (rate->burst - seen->remaining) * weir_interval_parts(rate);
    uint64_t shown = seen->reset_us * rate->parts;
    return shown < most ? shown : most;
}

/* A state that would answer a look so; false: the algorithm shows too little, or the key is blocked for
 * longer than any state of the limit's own. A token bucket decides as gcra does. */
static bool find_state(const struct weir_spend *spend, const struct weir_answer *seen,
                       uint64_t now_us, struct weir_state *state)
{
    const struct weir_rate *rate = &spend->rate;
    *state = (struct weir_state){ 0 };
    if (seen->reset_us == 0)
        return true;
    switch (spend->algorithm) {
    case WEIR_GCRA:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        if (seen->reset_us > weir_gcra_span(rate, rate->burst).us + 1)
            return false;
        *state = weir_gcra_state(rate, now_us, used_parts(rate, seen));
        return true;
    case WEIR_FIXED_WINDOW:
        state->low = (uint32_t)(rate->limit - seen->remaining);
        state->first = spend->from_first ? now_us + seen->reset_us - rate->window_us : now_us;
        return true;
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG:
    case WEIR_PENALTY:
        break;
    }
    return false;
}

/* Decides for the state that shows as it was seen; false: none does. */
static bool decide_alike(const struct weir_spend *spend, const struct weir_answer *seen,
                         uint64_t now_us, struct weir_answer *answer)
{
    struct weir_state state;
    struct weir_spend request = *spend, look;
    if (spend->algorithm == WEIR_TOKEN_BUCKET)
        request.algorithm = WEIR_GCRA;
    look = request;
    look.cost = 0;
    if (!find_state(spend, seen, now_us, &state)
        || weir_decide(&look, state, now_us).answer.remaining != seen->remaining)
        return false;
    *answer = weir_decide(&request, state, now_us).answer;
    return true;
}

/* When the last unit that a request has taken stops to count, where that shows in no state. */
static uint64_t reset_after(const struct weir_spend *spend, uint64_t now_us)
{
    uint64_t window_us = spend->rate.window_us;
    return spend->algorithm == WEIR_SLIDING_COUNTER ? 2 * window_us - now_us % window_us
                                                    : window_us;
}

static bool shows_all(const struct weir_spend *spend)
{
    return spend->lease == NULL && spend->algorithm != WEIR_SLIDING_COUNTER
           && spend->algorithm != WEIR_SLIDING_LOG;
}

/* Units that processes hold on lease show in no state. A store of somebody else's may not say what is
 * blocked: then nothing is left although the limit's own state would leave something. */
static struct weir_answer answer_to(const struct weir_spend *spend, const struct weir_answer *seen,
                                    uint64_t now_us, bool *is_known)
{
    struct weir_answer answer;
    *is_known = true;
    if (spend->cost == 0)
        return *seen;
    if (seen->blocked && spend->cost > seen->remaining)
        return weir_answer_blocked(spend, seen->reset_us);
    if (decide_alike(spend, seen, now_us, &answer))
        return answer;
    if (spend->cost <= seen->remaining)
        return (struct weir_answer){ .allowed = true,
                                     .remaining = seen->remaining - spend->cost,
                                     .reset_us = shows_all(spend) ? seen->reset_us
                                                                  : reset_after(spend, now_us) };
    answer = weir_answer_blocked(spend, seen->reset_us);
    answer.remaining = seen->remaining;
    *is_known = answer.impossible || (shows_all(spend) && seen->remaining == 0);
    return answer;
}

/* What is banned is refused for as long as the ban lasts, and what an attempt brings beside that is a new
 * ban: the first or the next of a row, of which only the last is known to be the longest. */
static uint64_t next_ban_us(const struct weir_penalty *penalty, uint64_t ban_us,
                            enum weir_attempt attempt, bool *is_known)
{
    bool is_violation = ban_us > 0 ? penalty->extends && attempt != WEIR_NO_ATTEMPT
                                   : attempt == WEIR_ATTEMPT_REFUSED;
    *is_known = !is_violation || (penalty->ban_count == 1 && (ban_us > 0 || penalty->after == 1));
    return is_violation ? penalty->bans_us[penalty->ban_count - 1] : ban_us;
}

/* The answer to the penalty behind limit number `limit`, by the limit's own. */
static struct weir_answer answer_of_penalty(struct explained_check *check, size_t i, size_t limit)
{
    struct weir_answer answer = check->seen[i];
    const struct weir_spend *spend = &check->plan.spends[i];
    enum weir_attempt attempt =
        weir_attempt_of(&spend[-1], &check->answers[i - 1], check->block_us[limit] > 0);
    bool is_known;
    uint64_t ban_us = next_ban_us(spend->penalty, answer.reset_us, attempt, &is_known);
    bool is_refused = spend->cost > 0 && (answer.reset_us > 0 || (is_known && ban_us > 0));
    check->ban_us[limit] = answer.reset_us;
    check->new_ban_us[limit] = spend->cost > 0 && is_known ? ban_us : 0;
    check->is_retry_known[limit] = check->is_retry_known[limit] && is_known;
    answer.allowed = !is_refused;
    answer.retry_us = spend->cost > 0 ? ban_us : 0;
    answer.reset_us = ban_us;
    return answer;
}

static void judge(struct explaining *explaining, uint64_t now_us)
{
    struct explained_check *check = &explaining->check;
    check->now_us = now_us;
    for (size_t i = 0, limit = 0; i < check->plan.count; i++) {
        struct weir_spend *spend = &check->plan.spends[i];
        const struct weir_answer *seen = &check->seen[i];
        spend->cost = explaining->cost;
        if (spend->algorithm == WEIR_PENALTY) {
            check->answers[i] = answer_of_penalty(check, i, limit - 1);
            continue;
        }
        check->block_us[limit] = seen->blocked ? seen->reset_us : 0;
        check->ban_us[limit] = check->new_ban_us[limit] = 0;
        check->answers[i] = answer_to(spend, seen, now_us, &check->is_retry_known[limit++]);
    }
}

/* The limits alone, in both lists of answers. */
static void merge_penalties(struct explained_check *check)
{
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    struct weir_planned planned[WEIR_CHECK_LIMITS];
    size_t count = check->plan.count;
    memcpy(spends, check->plan.spends, count * sizeof *spends);
    memcpy(planned, check->plan.planned, count * sizeof *planned);
    weir_plan_merge_penalties(spends, planned, check->seen, count);
    check->plan.count =
        weir_plan_merge_penalties(check->plan.spends, check->plan.planned, check->answers, count);
}

/* Where one limit refuses, none is spent; a ban that this brings lasts. */
static void combine(struct explained_check *check)
{
    check->combined = weir_combine(check->answers, check->plan.count);
    for (size_t i = 0; i < check->plan.count && !check->combined.allowed; i++) {
        uint64_t ban_us = check->new_ban_us[i];
        bool is_longer = ban_us > check->seen[i].reset_us;
        check->answers[i].remaining = ban_us > 0 ? 0 : check->seen[i].remaining;
        check->answers[i].reset_us = is_longer ? ban_us : check->seen[i].reset_us;
    }
}

static uint64_t now_of(const struct explaining *explaining, const struct weir_check *check)
{
    return check->now_us != 0 ? check->now_us : weir_clock_now_us(&explaining->limiter->clock);
}

static struct weir_check look_at(struct explained_check *check)
{
    return (struct weir_check){ .spends = check->plan.spends,
                                .answers = check->seen,
                                .count = check->plan.count,
                                .wants_time = true };
}

void weir_explain_look(struct explaining *explaining)
{
    struct explained_check *check = &explaining->check;
    struct weir_check look = look_at(check);
    check->result = WEIR_STORE_ANSWERED;
    check->combined = (struct weir_combined){ .allowed = true };
    memset(check->seen, 0, sizeof check->seen);
    if (check->plan.count == 0)
        return;
    if (explaining->described->is_empty)
        look_at_nothing(check);
    else
        ask(explaining, &look);
    check->result = look.result;
    if (check->result != WEIR_STORE_ANSWERED) {
        memcpy(check->why, look.why, sizeof check->why);
        return;
    }
    judge(explaining, now_of(explaining, &look));
    merge_penalties(check);
    combine(check);
}

bool weir_explain_look_in_memory(struct explaining *explaining)
{
    struct explained_check *check = &explaining->check;
    struct weir_store *fallback = explaining->edition->fallback;
    if (fallback == NULL || check->plan.count == 0)
        return false;
    for (size_t i = 0; i < check->plan.count; i++) {
        struct weir_spend *spend = &check->plan.spends[i];
        spend->cost = explaining->cost;
        if (!weir_limiter_take_share(spend, &check->plan.planned[i], explaining->policy->instances))
            check->is_share_too_small = true;
        spend->cost = 0;
        check->plan.planned[i].prepared = NULL; /* that is of the whole limit */
    }
    struct weir_check look = look_at(check);
    memset(check->seen, 0, sizeof check->seen);
    weir_explain_ask(fallback, &look);
    if (look.result != WEIR_STORE_ANSWERED)
        return false;
    check->by_memory = true;
    judge(explaining, now_of(explaining, &look));
    merge_penalties(check);
    weir_cap_waits(check->answers, check->plan.count);
    combine(check);
    return true;
}
