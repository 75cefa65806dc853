#include "store/memory_plan.h"

#include "limit/penalty.h"

/* finding */

/* What means nothing to this algorithm, since it stands under a key that another one had, counts as
 * nothing. */
static void part_find(const struct weir_memory_plan *plan, struct weir_memory_part *part)
{
    const struct weir_spend *spend = part->spend;
    const struct weir_memory_entry *entry = weir_table_find(plan->table, part->hash, plan->now_us);
    part->entry = entry != NULL ? *entry : (struct weir_memory_entry){ .hash = part->hash };
    part->fresh = NULL;
    part->ring = weir_entry_ring(&part->entry);
    part->state = (struct weir_state){ 0 };
    if (part->ring == NULL)
        part->state = (struct weir_state){ part->entry.first, part->entry.low, part->entry.high };
    part->is_blocked = part->state.high == WEIR_HIGH_BLOCKED && plan->now_us < part->state.first;
    part->uses_ring =
        spend->algorithm == WEIR_SLIDING_LOG && spend->rate.limit > 0 && !part->is_blocked;
}

/* deciding */

static void part_decide(struct weir_memory_part *part, const struct weir_spend *spend,
                        uint64_t now_us)
{
    if (part->uses_ring) {
        part->ring_step = weir_sliding_log_decide(spend, part->ring, now_us);
        part->answer = part->ring_step.answer;
    } else {
        part->step = weir_decide(spend, part->state, now_us);
        part->answer = part->step.answer;
    }
}

/* A refusal that is not to be logged is a refusal all the same. */
static void give_up_logging(struct weir_memory_part *part, uint64_t now_us)
{
    struct weir_spend spend = *part->spend;
    spend.logs_refusals = false;
    part_decide(part, &spend, now_us);
}

/* Decides a penalty by what its limit, the part before it, has decided. During a ban nothing else
 * changes. */
static void part_punish(struct weir_memory_part *part, struct weir_memory_part *limit,
                        uint64_t now_us)
{
    enum weir_attempt attempt = weir_attempt_of(limit->spend, &limit->answer, limit->is_blocked);
    part->step = weir_penalty_decide(part->spend, part->state, now_us, attempt);
    part->answer = part->step.answer;
    if (limit->spend->logs_refusals && weir_penalty_bans(part->spend, part->state, now_us))
        give_up_logging(limit, now_us);
}

static bool is_penalty(const struct weir_memory_part *part)
{
    return part->spend->algorithm == WEIR_PENALTY;
}

/* Whether the part has been given up because of another one. A penalty takes nothing, and what it
 * counts it counts because of the refusal. */
static bool is_taken_back(const struct weir_memory_plan *plan, const struct weir_memory_part *part)
{
    return !plan->allowed && part->answer.allowed && !is_penalty(part);
}

/* Where another limit refused, a limit has only been looked at, and says what it holds. */
static void plan_take_back(struct weir_memory_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct weir_memory_part *part = &plan->parts[i];
        if (!is_taken_back(plan, part))
            continue;
        struct weir_spend look = *part->spend;
        look.cost = 0;
        part_decide(part, &look, plan->now_us);
    }
}

static void plan_decide(struct weir_memory_plan *plan)
{
    plan->allowed = true;
    plan->is_hindered = false;
    for (size_t i = 0; i < plan->count; i++) {
        struct weir_memory_part *part = &plan->parts[i];
        part_find(plan, part);
        if (is_penalty(part))
            part_punish(part, part - 1, plan->now_us);
        else
            part_decide(part, part->spend, plan->now_us);
        plan->allowed = plan->allowed && part->answer.allowed;
    }
    if (!plan->allowed)
        plan_take_back(plan);
}

/* making places for what will be logged */

static bool logs(const struct weir_memory_part *part)
{
    return part->uses_ring && weir_ring_is_changed(part->ring, &part->ring_step);
}

/* Far larger than it need be. */
static bool is_sparse(const struct weir_ring *ring, uint32_t needed)
{
    return ring->size > 16 && needed < ring->size / 4;
}

static size_t kept_bytes(const struct weir_memory_plan *plan)
{
    size_t bytes = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct weir_memory_part *part = &plan->parts[i];
        bytes += part->ring != NULL ? weir_rings_bytes(part->ring->size) : 0;
        bytes += part->fresh != NULL ? weir_rings_bytes(part->fresh->size) : 0;
    }
    return bytes;
}

/* Others may go only where there is need, not for a ring that only has become too large. */
static void take_fresh(struct weir_memory_plan *plan, struct weir_memory_part *part,
                       uint32_t needed, bool is_needed)
{
    uint64_t limit = part->spend->rate.limit;
    uint32_t drops = part->ring_step.drops;
    /* More entries than units: most of them are idle, and clients could heap them up. */
    bool with_idle = needed <= weir_rings_most(limit);
    if (!with_idle && part->ring != NULL)
        needed -= weir_ring_idle(part->ring, drops);
    const struct weir_ring_place place = {
        .now_us = plan->now_us,
        .keep = &plan->keep,
        .kept_bytes = kept_bytes(plan),
    };
    uint32_t size = weir_rings_size(limit, needed);
    part->fresh = weir_rings_take(plan->rings, size, is_needed ? &place : NULL);
    if (part->fresh == NULL)
        plan->is_hindered = weir_rings_can_hold(plan->rings, size, place.kept_bytes);
    if (part->fresh == NULL || part->ring == NULL)
        return;
    weir_ring_copy(part->fresh, part->ring, drops, with_idle);
    part->ring_step.drops = 0;
}

/* False: there are no places for what was let through. */
static bool part_prepare(struct weir_memory_plan *plan, struct weir_memory_part *part)
{
    if (!logs(part))
        return true;
    uint32_t needed = weir_ring_count_after(part->ring, &part->ring_step);
    bool has_places = part->ring != NULL && needed <= part->ring->size;
    if (!has_places || is_sparse(part->ring, needed))
        take_fresh(plan, part, needed, !has_places);
    if (has_places || part->fresh != NULL)
        return true;
    if (part->answer.allowed)
        return false;
    give_up_logging(part, plan->now_us);
    return true;
}

/* Before anything is written: all logs must have places for what will be logged. */
static bool plan_prepare(struct weir_memory_plan *plan)
{
    size_t prepared = 0;
    while (prepared < plan->count && part_prepare(plan, &plan->parts[prepared]))
        prepared++;
    if (prepared == plan->count)
        return true;
    for (size_t i = 0; i < prepared; i++)
        weir_rings_give(plan->rings, plan->parts[i].fresh);
    return false;
}

/* keeping */

/* A ban refuses. Violations that are merely remembered are what anybody can heap up. */
static enum weir_standing standing_of_penalty(const struct weir_memory_part *part)
{
    return part->answer.reset_us > 0 ? WEIR_REFUSES : WEIR_USED_UP;
}

/* A look and a cost that never fits say nothing about it. */
static enum weir_standing standing_after(const struct weir_memory_plan *plan,
                                         const struct weir_memory_part *part)
{
    const struct weir_answer *answer = &part->answer;
    if (is_penalty(part))
        return standing_of_penalty(part);
    if (answer->impossible || part->spend->cost == 0 || is_taken_back(plan, part))
        return (enum weir_standing)part->entry.standing;
    if (!answer->allowed)
        return WEIR_REFUSES;
    return answer->remaining < part->spend->cost ? WEIR_USED_UP : WEIR_HAS_MORE;
}

static bool is_changed(const struct weir_memory_part *part)
{
    const struct weir_state *state = &part->step.state;
    return state->first != part->state.first || state->low != part->state.low
           || state->high != part->state.high;
}

static void set_state(struct weir_memory_entry *entry, const struct weir_memory_part *part)
{
    entry->first = part->step.state.first;
    entry->low = part->step.state.low;
    entry->high = part->step.state.high;
    weir_entry_expire_at(entry, part->step.expires_us);
}

static void set_ring(struct weir_memory_entry *entry, const struct weir_memory_part *part)
{
    struct weir_ring *ring = part->fresh != NULL ? part->fresh : part->ring;
    weir_ring_apply(ring, &part->ring_step);
    entry->first = (uintptr_t)ring;
    entry->low = 0;
    entry->high = WEIR_HIGH_RING;
    weir_entry_expire_at(entry, part->ring_step.expires_us);
}

/* Nothing is left of a key whose state has run out; one that was not there is none either. A fresh
 * ring belongs to the entry only once that is in the table. */
static void put_entry(struct weir_memory_plan *plan, const struct weir_memory_entry *entry,
                      struct weir_ring *fresh)
{
    if (weir_entry_expires_us(entry) > plan->now_us) {
        weir_table_put(plan->table, entry, plan->now_us, &plan->keep);
    } else {
        weir_table_remove(plan->table, entry->hash);
        weir_rings_give(plan->rings, fresh);
    }
}

/* Writes all parts, after a refusal as well: it leaves states as they were, or put right, but keys
 * are remembered as in use and as refusing. */
static void plan_keep(struct weir_memory_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct weir_memory_part *part = &plan->parts[i];
        struct weir_memory_entry entry = part->entry;
        entry.standing = standing_after(plan, part);
        if (logs(part))
            set_ring(&entry, part);
        else if (!part->uses_ring && is_changed(part))
            set_state(&entry, part);
        put_entry(plan, &entry, part->fresh);
    }
}

bool weir_memory_plan_spend(struct weir_memory_plan *plan)
{
    plan_decide(plan);
    if (!plan_prepare(plan))
        return false;
    plan_keep(plan);
    return true;
}

/* the other operations */

static void part_settle(struct weir_memory_plan *plan, struct weir_memory_part *part)
{
    if (part->uses_ring) {
        const struct weir_ring_settlement settlement =
            weir_sliding_log_settle(part->spend, part->ring, plan->now_us);
        if (settlement.changes)
            weir_ring_settle(part->ring, &settlement);
        return;
    }
    part->step = weir_settle_state(part->spend, part->state, plan->now_us);
    if (!is_changed(part))
        return;
    struct weir_memory_entry entry = part->entry;
    set_state(&entry, part);
    put_entry(plan, &entry, NULL);
}

void weir_memory_plan_settle(struct weir_memory_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        part_find(plan, &plan->parts[i]);
        part_settle(plan, &plan->parts[i]);
    }
}

void weir_memory_plan_reset(struct weir_memory_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        weir_table_remove(plan->table, plan->parts[i].hash);
}

void weir_memory_plan_block(struct weir_memory_plan *plan, uint64_t block_us)
{
    const struct weir_state blocked = weir_state_blocked(plan->now_us + block_us);
    for (size_t i = 0; i < plan->count; i++) {
        if (is_penalty(&plan->parts[i]))
            continue;
        struct weir_memory_entry entry = { .hash = plan->parts[i].hash,
                                           .first = blocked.first,
                                           .low = blocked.low,
                                           .high = blocked.high,
                                           .standing = WEIR_REFUSES };
        weir_entry_expire_at(&entry, blocked.first);
        put_entry(plan, &entry, NULL);
    }
}
