/* The pure functions in lib/limit/ against the model. */
#include "differential.h"

#include "limit/algorithm.h"
#include "limit/penalty.h"
#include "limit/sliding_log.h"

/* What one world keeps: a state for each of its limits, or a ring, and until when it matters. */
struct kept {
    struct weir_state states[WEIR_CHECK_LIMITS];
    struct weir_ring *rings[WEIR_CHECK_LIMITS];
    uint64_t expires_us[WEIR_CHECK_LIMITS];
};

/* What one limit decides. */
struct decision {
    bool is_log;
    struct weir_decision_step step;
    struct weir_ring_step log;
    struct weir_answer answer;
};

static void open_kept(struct world *world)
{
    world->store = calloc(1, sizeof(struct kept));
    assert_non_null(world->store);
}

static void forget(struct kept *kept, size_t limit)
{
    free(kept->rings[limit]);
    kept->rings[limit] = NULL;
    kept->states[limit] = (struct weir_state){ 0 };
    kept->expires_us[limit] = 0;
}

static void close_kept(struct world *world)
{
    for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++)
        forget(world->store, i);
    free(world->store);
    world->store = NULL;
}

/* Where time never goes back, what has expired may be forgotten. */
static void expire(struct world *world, size_t limit)
{
    struct kept *kept = world->store;
    if (world->forgets && kept->expires_us[limit] <= world->now_us)
        forget(kept, limit);
}

static bool is_blocked(const struct world *world, size_t limit)
{
    const struct kept *kept = world->store;
    return kept->states[limit].high == WEIR_HIGH_BLOCKED
           && world->now_us < kept->states[limit].first;
}

static struct decision decide(struct world *world, const struct weir_spend *spend, size_t limit)
{
    struct kept *kept = world->store;
    expire(world, limit);
    struct decision decision = { .step = { .state = kept->states[limit] } };
    decision.is_log =
        spend->algorithm == WEIR_SLIDING_LOG && !is_blocked(world, limit) && spend->rate.limit > 0;
    if (decision.is_log) {
        decision.log = weir_sliding_log_decide(spend, kept->rings[limit], world->now_us);
        decision.answer = decision.log.answer;
    } else {
        decision.step = weir_decide(spend, kept->states[limit], world->now_us);
        decision.answer = decision.step.answer;
    }
    return decision;
}

static struct weir_ring *larger_ring(const struct weir_ring *ring, uint32_t needed)
{
    uint32_t size = needed + needed / 2;
    struct weir_ring *larger = calloc(1, weir_ring_bytes(size));
    assert_non_null(larger);
    weir_ring_init(larger, size);
    if (ring != NULL)
        weir_ring_copy(larger, ring, 0, true);
    return larger;
}

static void keep_log(struct kept *kept, size_t limit, const struct weir_ring_step *step)
{
    struct weir_ring *ring = kept->rings[limit];
    if (!weir_ring_is_changed(ring, step))
        return;
    uint32_t needed = weir_ring_count_after(ring, step) + step->drops;
    if (ring == NULL || ring->size < needed) {
        kept->rings[limit] = larger_ring(ring, needed);
        free(ring);
    }
    weir_ring_apply(kept->rings[limit], step);
    kept->expires_us[limit] = step->expires_us;
}

static void keep(struct kept *kept, size_t limit, const struct decision *decision)
{
    if (decision->is_log) {
        keep_log(kept, limit, &decision->log);
        return;
    }
    if (memcmp(&kept->states[limit], &decision->step.state, sizeof kept->states[limit]) == 0)
        return;
    kept->states[limit] = decision->step.state;
    kept->expires_us[limit] = decision->step.expires_us;
}

/* Decides a penalty by what its limit has decided, which logs no refusal during a ban. */
static void punish(struct world *world, const struct step *asked, size_t index,
                   struct decision *decisions)
{
    struct kept *kept = world->store;
    size_t limit = asked->limits[index - 1], own = asked->limits[index];
    struct weir_spend guarded = asked->spends[index - 1];
    enum weir_attempt attempt =
        weir_attempt_of(&guarded, &decisions[index - 1].answer, is_blocked(world, limit));
    expire(world, own);
    if (weir_penalty_bans(&asked->spends[index], kept->states[own], world->now_us)) {
        guarded.logs_refusals = false;
        decisions[index - 1] = decide(world, &guarded, limit);
    }
    struct weir_decision_step step =
        weir_penalty_decide(&asked->spends[index], kept->states[own], world->now_us, attempt);
    decisions[index] = (struct decision){ .step = step, .answer = step.answer };
}

static void spend_all(struct world *world, const struct step *asked)
{
    struct decision decisions[WEIR_CHECK_LIMITS];
    bool all_pass = true;
    for (size_t i = 0; i < asked->count; i++) {
        if (asked->spends[i].algorithm == WEIR_PENALTY)
            punish(world, asked, i, decisions);
        else
            decisions[i] = decide(world, &asked->spends[i], asked->limits[i]);
        all_pass = all_pass && decisions[i].answer.allowed;
    }
    for (size_t i = 0; i < asked->count; i++) {
        struct weir_spend look = asked->spends[i];
        look.cost = 0;
        if (!all_pass && decisions[i].answer.allowed && look.algorithm != WEIR_PENALTY)
            decisions[i] = decide(world, &look, asked->limits[i]);
        world->got[i] = decisions[i].answer;
        keep(world->store, asked->limits[i], &decisions[i]);
    }
}

static void settle_log(struct kept *kept, const struct weir_spend *spend, size_t limit,
                       uint64_t now_us)
{
    struct weir_ring *ring = kept->rings[limit];
    if (ring == NULL || spend->rate.limit == 0)
        return;
    struct weir_ring_settlement settlement = weir_sliding_log_settle(spend, ring, now_us);
    if (settlement.changes)
        weir_ring_settle(ring, &settlement);
}

static void settle(struct world *world, const struct weir_spend *spend, size_t limit)
{
    struct kept *kept = world->store;
    if (spend->algorithm == WEIR_SLIDING_LOG) {
        settle_log(kept, spend, limit, world->now_us);
        return;
    }
    struct decision decision = { .step =
                                     weir_settle_state(spend, kept->states[limit], world->now_us) };
    keep(kept, limit, &decision);
}

static void change(struct world *world, const struct step *asked, size_t index)
{
    struct kept *kept = world->store;
    size_t limit = asked->limits[index];
    if (asked->spends[index].algorithm == WEIR_PENALTY && asked->operation != WEIR_RESET)
        return;
    expire(world, limit);
    if (asked->operation == WEIR_SETTLE) {
        settle(world, &asked->spends[index], limit);
        return;
    }
    forget(kept, limit);
    if (asked->operation == WEIR_BLOCK) {
        kept->expires_us[limit] = world->now_us + asked->block_us;
        kept->states[limit] = weir_state_blocked(kept->expires_us[limit]);
    }
}

static void submit(struct world *world)
{
    const struct step *asked = &world->steps[world->step_count - 1];
    if (asked->operation == WEIR_SPEND)
        spend_all(world, asked);
    for (size_t i = 0; i < asked->count && asked->operation != WEIR_SPEND; i++)
        change(world, asked, i);
    world->check.result = WEIR_STORE_ANSWERED;
    world->check.now_us = world->now_us;
    world->check.done(&world->check);
}

int main(void)
{
    return differential_run(&(const struct differential){
        .name = "pure functions",
        .steps = 1000000,
        .at_once = 1,
        .forgets = true,
        .believes_steps_back = true,
        .open = open_kept,
        .close = close_kept,
        .submit = submit,
    });
}
