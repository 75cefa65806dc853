/* Costs that are known only when the work is done: an estimate was spent, and is corrected. */
#include "limit/limiter_internal.h"

#include <stdlib.h>
#include <string.h>

#include "chain/chain_internal.h"
#include "limit/algorithm.h"
#include "limit/gcra.h"
#include "store/store.h"

/* A correction on its way to the store, with copies of all it needs: the request may end first. */
struct settlement {
    struct weir_check check;
    struct weir_limiter *limiter;
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    char keys[];
};

static void count_settlement(struct weir_limiter *limiter)
{
    pthread_mutex_lock(&limiter->settling_mutex);
    limiter->settling++;
    pthread_mutex_unlock(&limiter->settling_mutex);
}

static void on_settled(struct weir_check *check)
{
    struct settlement *settlement = check->owner;
    struct weir_limiter *limiter = settlement->limiter;
    free(settlement);
    /* The signal is sent under the lock: whoever waits for it frees the limiter. */
    pthread_mutex_lock(&limiter->settling_mutex);
    if (--limiter->settling == 0)
        pthread_cond_signal(&limiter->settled);
    pthread_mutex_unlock(&limiter->settling_mutex);
}

static struct settlement *copy(const struct weir_spend *spends, size_t count)
{
    size_t key_bytes = 0;
    for (size_t i = 0; i < count; i++)
        key_bytes += spends[i].key_length;
    struct settlement *settlement = malloc(sizeof *settlement + key_bytes);
    if (settlement == NULL)
        return NULL;

    char *key = settlement->keys;
    for (size_t i = 0; i < count; i++) {
        settlement->spends[i] = spends[i];
        settlement->spends[i].key = key;
        memcpy(key, spends[i].key, spends[i].key_length);
        key += spends[i].key_length;
    }
    return settlement;
}

void weir_limiter_submit_settlement(struct weir_limiter *limiter, struct weir_store *store,
                                    const struct weir_spend *spends, size_t count)
{
    struct settlement *settlement = count == 0 ? NULL : copy(spends, count);
    if (settlement == NULL)
        return;
    settlement->limiter = limiter;
    settlement->check = (struct weir_check){ .operation = WEIR_SETTLE,
                                             .spends = settlement->spends,
                                             .count = count,
                                             .done = on_settled,
                                             .owner = settlement };
    count_settlement(limiter);
    store->type->submit(store->self, &settlement->check);
}

/* what the client is told of it */

/* How far `units` of a limit that is earned bit by bit move the time when all of it is there. */
static uint64_t span_us(const struct weir_spend *spend, uint64_t units)
{
    switch (spend->algorithm) {
    case WEIR_GCRA:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return weir_gcra_span(&spend->rate, units).us;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG:
    case WEIR_PENALTY:
        break;
    }
    return 0; /* a window ends when it ends */
}

/* The numbers as if the request had been decided at what it really cost. */
static void correct_answer(const struct weir_spend *spend, struct weir_answer *answer,
                           uint64_t actual)
{
    if (actual < spend->cost) {
        uint64_t back = spend->cost - actual, back_us = span_us(spend, back);
        uint64_t most = weir_capacity(spend);
        answer->remaining = back < most - answer->remaining ? answer->remaining + back : most;
        answer->reset_us = back_us < answer->reset_us ? answer->reset_us - back_us : 0;
    } else {
        uint64_t more = actual - spend->cost;
        uint64_t taken = more < answer->remaining ? more : answer->remaining;
        answer->remaining -= taken;
        answer->reset_us += span_us(spend, taken);
    }
}

/* settling a request */

/* `units` of each limit that has its bit in `which` and is not settled. */
static void settle(struct weir_limiter *limiter, struct weir_limit_state *state, unsigned which,
                   const uint64_t units[WEIR_CHECK_LIMITS])
{
    struct weir_check *check = &state->check;
    struct weir_spend corrected[WEIR_CHECK_LIMITS];
    size_t count = 0;
    for (size_t i = 0; i < check->count; i++) {
        const struct weir_spend *spent = &state->spends[i];
        unsigned bit = 1u << i;
        if ((which & ~state->settled_limits & bit) == 0)
            continue;
        state->settled_limits = (uint8_t)(state->settled_limits | bit);
        if (units[i] == spent->cost)
            continue;
        corrected[count] = *spent;
        corrected[count].cost = units[i];
        corrected[count].reserved = spent->cost;
        corrected[count].decided_us = check->now_us;
        corrected[count++].full_us = check->now_us + check->answers[i].reset_us;
        correct_answer(spent, &check->answers[i], units[i]);
    }
    weir_limiter_submit_settlement(limiter, state->by_memory ? limiter->fallback : limiter->store,
                                   corrected, count);
}

void weir_limiter_give_back(struct weir_limiter *limiter, struct weir_limit_state *state)
{
    static const uint64_t nothing[WEIR_CHECK_LIMITS] = { 0 };
    if (state->has_spent)
        settle(limiter, state, UINT8_MAX, nothing);
    state->has_spent = false;
}

void weir_limiter_settle_actual(struct weir_limiter *limiter, struct weir_limit_state *state,
                                uint64_t actual)
{
    uint64_t units[WEIR_CHECK_LIMITS];
    unsigned which = 0;
    state->has_actual = true;
    state->actual = actual < WEIR_UNITS_MAX ? actual : WEIR_UNITS_MAX;
    for (size_t i = 0; i < state->check.count; i++) {
        units[i] = state->actual;
        which |= weir_counts_outcome(state->planned[i].limit) ? 0 : 1u << i;
    }
    settle(limiter, state, which, units);
}

/* Another limiter of the chain has refused it, or the server stops. */
static bool is_refused(const struct weir_request *request)
{
    return request->is_refused
           || (request->error != NULL && request->error->code == WEIR_E_STOPPING);
}

void weir_limiter_settle_outcome(struct weir_limiter *limiter, struct weir_limit_state *state,
                                 const struct weir_request *request, unsigned status)
{
    if (state->has_reply || !state->has_spent)
        return;
    state->has_reply = true;
    uint64_t units[WEIR_CHECK_LIMITS];
    unsigned which = 0;
    for (size_t i = 0; i < state->check.count; i++) {
        const struct weir_limit_rule *limit = state->planned[i].limit;
        uint64_t cost = state->has_actual ? state->actual : state->spends[i].cost;
        units[i] = is_refused(request) ? 0 : weir_count_units(limit, status, cost);
        which |= weir_counts_outcome(limit) ? 1u << i : 0;
    }
    settle(limiter, state, which, units);
}

/* Two limiters may stand in one chain; the work cost the same for both. */
enum weir_code weir_settle(struct weir_request *request, uint64_t actual)
{
    const struct weir_chain *chain = request->chain;
    enum weir_code code = WEIR_E_STATE;
    for (size_t i = 0; i < chain->link_count; i++) {
        struct weir_limiter *limiter = weir_limiter_of(&chain->links[i].middleware);
        struct weir_limit_state *state =
            limiter == NULL ? NULL : weir_request_slot(request, limiter);
        if (state == NULL || !state->has_spent || state->has_actual)
            continue;
        weir_limiter_settle_actual(limiter, state, actual);
        code = WEIR_OK;
    }
    return code;
}
