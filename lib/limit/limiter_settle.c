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
    const struct weir_edition *edition; /* whose calendars the spends refer to */
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    struct weir_planned planned[WEIR_CHECK_LIMITS]; /* beside them, to count by; of a settlement */
    bool by_memory;
    char keys[];
};

static void count_each(const struct weir_edition *edition, const struct weir_spend *spends,
                       const struct weir_planned *planned, size_t count, bool is_sure,
                       bool by_memory)
{
    for (size_t i = 0; i < count; i++)
        weir_limiter_count_settled(edition, &planned[i], &spends[i], is_sure, by_memory);
}

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
    weir_denials_forget(limiter->denials, check);
    if (check->operation == WEIR_SETTLE)
        count_each(settlement->edition, check->spends, settlement->planned, check->count,
                   check->result == WEIR_STORE_ANSWERED, settlement->by_memory);
    weir_edition_leave(settlement->edition);
    free(settlement);
    /* The signal is sent under the lock: whoever waits for it frees the limiter. */
    pthread_mutex_lock(&limiter->settling_mutex);
    if (--limiter->settling == 0)
        pthread_cond_signal(&limiter->settled);
    pthread_mutex_unlock(&limiter->settling_mutex);
}

static struct settlement *copy(const struct weir_spend *spends, const struct weir_planned *planned,
                               size_t count)
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
        if (planned != NULL)
            settlement->planned[i] = planned[i];
        settlement->spends[i].key = key;
        memcpy(key, spends[i].key, spends[i].key_length);
        key += spends[i].key_length;
    }
    return settlement;
}

void weir_limiter_submit(struct weir_limiter *limiter, const struct weir_limit_state *state,
                         enum weir_operation operation, const struct weir_spend *spends,
                         const struct weir_planned *planned, size_t count, uint64_t block_us)
{
    const struct weir_store *store = state->by_memory ? state->edition->fallback : limiter->store;
    struct settlement *settlement = count == 0 ? NULL : copy(spends, planned, count);
    if (settlement == NULL) {
        if (operation == WEIR_SETTLE)
            count_each(state->edition, spends, planned, count, false, state->by_memory);
        return;
    }
    settlement->limiter = limiter;
    settlement->by_memory = state->by_memory;
    settlement->edition = weir_edition_take_again(state->edition);
    settlement->check = (struct weir_check){ .operation = operation,
                                             .spends = settlement->spends,
                                             .count = count,
                                             .block_us = block_us,
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
static void correct_answer(const struct weir_spend *corrected, struct weir_answer *answer)
{
    if (corrected->cost < corrected->reserved) {
        uint64_t back = corrected->reserved - corrected->cost, back_us = span_us(corrected, back);
        uint64_t most = weir_capacity(corrected);
        answer->remaining = back < most - answer->remaining ? answer->remaining + back : most;
        answer->reset_us = back_us < answer->reset_us ? answer->reset_us - back_us : 0;
    } else {
        uint64_t more = corrected->cost - corrected->reserved;
        uint64_t taken = more < answer->remaining ? more : answer->remaining;
        answer->remaining -= taken;
        answer->reset_us += span_us(corrected, taken);
    }
}

/* settling a request */

/* What each limit of a plan comes to. */
struct settling {
    unsigned which; /* a bit for each that is settled at `units`, unless it is already */
    uint64_t units[WEIR_CHECK_LIMITS];
    uint64_t forgiven[WEIR_CHECK_LIMITS]; /* given back beside that, of what was spent before */
};

/* Fills the correction of one limit; false: it stays as it is. */
static bool correct(struct weir_limit_state *state, size_t index, const struct settling *settling,
                    struct weir_spend *corrected)
{
    const struct weir_check *check = &state->check;
    unsigned bit = 1u << index;
    uint64_t reserved = settling->forgiven[index];
    *corrected = state->spends[index];
    corrected->cost = 0;
    if ((settling->which & ~state->settled_limits & bit) != 0) {
        state->settled_limits = (uint8_t)(state->settled_limits | bit);
        reserved += state->spends[index].cost;
        corrected->cost = settling->units[index];
    }
    corrected->reserved = reserved < WEIR_UNITS_MAX ? reserved : WEIR_UNITS_MAX;
    corrected->decided_us = check->now_us + check->answers[index].after_us;
    corrected->full_us = corrected->decided_us + check->answers[index].reset_us;
    return corrected->cost != corrected->reserved;
}

static void settle(struct weir_limiter *limiter, struct weir_limit_state *state,
                   const struct settling *settling)
{
    struct weir_spend corrected[WEIR_CHECK_LIMITS];
    struct weir_planned planned[WEIR_CHECK_LIMITS];
    size_t count = 0;
    for (size_t i = 0; i < state->check.count; i++) {
        if (!correct(state, i, settling, &corrected[count]))
            continue;
        planned[count] = state->planned[i];
        correct_answer(&corrected[count++], &state->check.answers[i]);
    }
    if (!state->by_memory)
        count = weir_limiter_settle_leases(state->edition, corrected, planned, count);
    weir_limiter_submit(limiter, state, WEIR_SETTLE, corrected, planned, count, 0);
}

void weir_limiter_give_back(struct weir_limiter *limiter, struct weir_limit_state *state)
{
    static const struct settling nothing = { .which = UINT8_MAX };
    if (state->has_spent)
        settle(limiter, state, &nothing);
    state->has_spent = false;
}

void weir_limiter_settle_actual(struct weir_limiter *limiter, struct weir_limit_state *state,
                                uint64_t actual)
{
    struct settling settling = { .which = 0 };
    state->has_actual = true;
    state->actual = actual < WEIR_UNITS_MAX ? actual : WEIR_UNITS_MAX;
    for (size_t i = 0; i < state->check.count; i++) {
        settling.units[i] = state->actual;
        settling.which |= weir_counts_outcome(state->planned[i].limit) ? 0 : 1u << i;
    }
    settle(limiter, state, &settling);
}

/* how it has gone */

/* Another limiter of the chain has refused it, or the server stops. */
static bool is_refused(const struct weir_request *request)
{
    return request->is_refused
           || (request->error != NULL && request->error->code == WEIR_E_STOPPING);
}

/* RFC 9110, section 9.2.1. Nobody logs in by asking for a page, and with a page that is answered 200
 * a stranger would clear what was counted for the name that he writes into its request. */
static bool is_safe_method(struct weir_text method)
{
    return weir_text_equal(method, WEIR_TEXT("GET")) || weir_text_equal(method, WEIR_TEXT("HEAD"))
           || weir_text_equal(method, WEIR_TEXT("OPTIONS"))
           || weir_text_equal(method, WEIR_TEXT("TRACE"));
}

/* Whether what was counted before may go. What weir itself answers never says so. */
static bool has_succeeded(const struct weir_request *request, unsigned status)
{
    if (is_refused(request) || request->error != NULL)
        return false;
    if (request->result != 0)
        return request->result == WEIR_SUCCEEDED;
    return status < 400 && !is_safe_method(request->facts.method);
}

/* The status that a limit counts by: what was said about a request stands for one. */
static unsigned status_for(const struct weir_limit_rule *limit, const struct weir_request *request,
                           unsigned status)
{
    if (request->result == 0 || limit->count.kind == WEIR_COUNT_TABLE)
        return status;
    return request->result == WEIR_FAILED ? 400 : 200;
}

static uint64_t cost_in(const struct weir_limit_state *state, size_t index)
{
    return state->has_actual ? state->actual : state->spends[index].cost;
}

/* The units that a limit had in use before this request; 0: it is not in the plan. */
static uint64_t units_before(const struct weir_limit_state *state,
                             const struct weir_limit_rule *limit)
{
    size_t index = 0;
    while (index < state->check.count && state->planned[index].limit != limit)
        index++;
    if (index == state->check.count)
        return 0;
    uint64_t used = weir_capacity(&state->spends[index]) - state->check.answers[index].remaining;
    uint64_t own = weir_counts_outcome(limit) ? state->spends[index].cost : cost_in(state, index);
    return used > own ? used - own : 0;
}

/* Forgets all that was spent of each limit that has its bit in `which`. */
static void reset(struct weir_limiter *limiter, struct weir_limit_state *state, unsigned which)
{
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    size_t count = 0;
    for (size_t i = 0; i < state->check.count; i++) {
        size_t penalty = state->planned[i].penalty;
        if ((which & 1u << i) == 0)
            continue;
        spends[count++] = state->spends[i];
        if (penalty > 0)
            spends[count++] = state->spends[penalty];
        state->check.answers[i].remaining = weir_capacity(&state->spends[i]);
        state->check.answers[i].reset_us = 0;
    }
    state->settled_limits = (uint8_t)(state->settled_limits | which);
    weir_limiter_submit(limiter, state, WEIR_RESET, spends, NULL, count, 0);
}

/* Most limits count every request, and have nothing to correct. */
static bool waits_for_outcome(const struct weir_limit_state *state)
{
    for (size_t i = 0; i < state->check.count; i++) {
        const struct weir_limit_rule *limit = state->planned[i].limit;
        if (weir_counts_outcome(limit) || limit->on_success != WEIR_SETTLES)
            return true;
    }
    return false;
}

bool weir_limiter_settle_outcome(struct weir_limiter *limiter, struct weir_limit_state *state,
                                 const struct weir_request *request, unsigned status)
{
    if (state->has_reply || !state->has_spent)
        return false;
    state->has_reply = true;
    bool succeeded = has_succeeded(request, status);
    if (!waits_for_outcome(state))
        return succeeded;
    struct settling settling = { .which = 0 };
    unsigned forgotten = 0;
    for (size_t i = 0; i < state->check.count; i++) {
        const struct weir_limit_rule *limit = state->planned[i].limit;
        if (!is_refused(request))
            settling.units[i] =
                weir_count_units(limit, status_for(limit, request, status), cost_in(state, i));
        settling.which |= weir_counts_outcome(limit) ? 1u << i : 0;
        if (succeeded && limit->on_success == WEIR_FORGIVES)
            settling.forgiven[i] = units_before(state, limit->forgives);
        if (succeeded && limit->on_success == WEIR_RESETS)
            forgotten |= 1u << i;
    }
    reset(limiter, state, forgotten);
    settle(limiter, state, &settling);
    return succeeded;
}

enum weir_code weir_outcome(struct weir_request *request, enum weir_result result)
{
    if (result != WEIR_FAILED && result != WEIR_SUCCEEDED)
        return WEIR_E_ARGUMENT;
    if (request->stage == WEIR_STAGE_SENT)
        return WEIR_E_STATE;
    request->result = (unsigned char)result;
    return WEIR_OK;
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
