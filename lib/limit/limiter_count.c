/* What becomes of units and of questions to the store, counted where it is known.
 *
 * Of each limit, and of what the store has at the same moment,
 *
 *     spent - returned - unsure <= stored + what has left the window by itself <= spent - returned + unsure
 *
 * with the units that leases hold, or have let lapse, on top. What a reset forgets is nowhere counted: only
 * the store knows how much that was. Nor is what a sliding log keeps of refused attempts ("record": "all"),
 * since nobody has spent it: of such a limit more is stored than spent. */
#include "limit/limiter_internal.h"

#include "base/clock.h"

static void count_units(const struct weir_edition *edition, const struct weir_planned *planned,
                        enum weir_units_fate fate, bool by_memory, uint64_t units)
{
    if (units > 0)
        weir_count_units_of(weir_edition_counts(edition, planned->ruleset),
                            (size_t)(planned->limit - planned->ruleset->limits), fate, by_memory,
                            units);
}

void weir_limiter_count_plan(const struct weir_edition *edition, const struct weir_check *check,
                             const struct weir_planned *planned, enum weir_units_fate fate,
                             bool by_memory)
{
    for (size_t i = 0; i < check->count; i++)
        if (check->spends[i].algorithm != WEIR_PENALTY)
            count_units(edition, &planned[i], fate, by_memory, check->spends[i].cost);
}

void weir_limiter_count_settled(const struct weir_edition *edition,
                                const struct weir_planned *planned,
                                const struct weir_spend *settled, bool is_sure, bool by_memory)
{
    bool is_less = settled->cost < settled->reserved;
    uint64_t units =
        is_less ? settled->reserved - settled->cost : settled->cost - settled->reserved;
    enum weir_units_fate fate = is_less ? WEIR_UNITS_RETURNED : WEIR_UNITS_SPENT;
    count_units(edition, planned, is_sure ? fate : WEIR_UNITS_UNSURE, by_memory, units);
}

/* The denials have just looked at the same clock, where that is the system's. */
void weir_limiter_note_asking(const struct weir_limiter *limiter, struct weir_limit_state *state)
{
    bool is_known = state->denial.asked_us > 0 && !limiter->has_own_clock;
    state->asked_us = is_known ? state->denial.asked_us : weir_monotonic_us();
}

/* A store that was asked and gave no decision may have made one. Those who waited for a block of a lease
 * have spent nothing: the leases count what has become of that. */
static void count_unsure(const struct weir_limit_state *state)
{
    if (state->asked_us > 0 && state->check.result != WEIR_STORE_ANSWERED && !state->is_leased
        && state->purpose != WEIR_FOR_ADDRESS)
        weir_limiter_count_plan(state->edition, &state->check, state->planned, WEIR_UNITS_UNSURE,
                                false);
}

void weir_limiter_count_taken_back(struct weir_limit_state *state)
{
    count_unsure(state);
    state->asked_us = 0;
}

void weir_limiter_count_answer(struct weir_limiter *limiter, struct weir_limit_state *state)
{
    const struct weir_check *check = &state->check;
    state->answered_us = state->asked_us == 0 ? 0 : weir_monotonic_us();
    if (state->asked_us > 0)
        weir_count_asked(limiter->counts, check->result, state->answered_us - state->asked_us);
    else if (check->result != WEIR_STORE_ANSWERED)
        weir_count_unasked(limiter->counts, check->result);
    count_unsure(state);
    state->asked_us = 0;
}
