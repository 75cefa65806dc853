/* How many requests of a policy are under way at once.
 *
 * Nothing is held while the store is asked: a slot is taken when the limits have let a request
 * through, so that a client whom they refuse takes no slot from others, however often it asks. A look
 * before that turns away who would find none, before anything is spent; who has lost it meanwhile gets
 * back what was spent. */
#include "limit/limiter_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "chain/request.h"

#define KEY_BYTES (64 + 1 + WEIR_SUBJECT_MAX + 1)

/* making */

struct weir_limiter_concurrency {
    struct weir_key_counts *keys; /* NULL where no policy counts by key */
    size_t group_count;
    struct weir_slots *groups[]; /* in the policy's order */
};

static bool counts_by_key(const struct weir_policy *policy)
{
    for (size_t i = 0; i < policy->ruleset_count; i++)
        if (policy->rulesets[i].concurrency != NULL && policy->rulesets[i].concurrency->fixed > 0)
            return true;
    return false;
}

static struct weir_slots *make_group(const struct weir_adaptive *adaptive)
{
    uint32_t shares_ppm[WEIR_PARTITIONS_MAX];
    for (size_t i = 0; i < adaptive->partition_count; i++)
        shares_ppm[i] = adaptive->partitions[i].share_ppm;
    const struct weir_slots_options options = {
        .name = adaptive->name,
        .bounds = { adaptive->floor, adaptive->ceiling, adaptive->initial },
        .shares_ppm = shares_ppm,
        .part_count = adaptive->partition_count,
        .seed = weir_random64(),
    };
    return weir_slots_new(&options);
}

static bool fill(struct weir_limiter_concurrency *made, const struct weir_policy *policy)
{
    if (counts_by_key(policy)) {
        made->keys = weir_key_counts_new();
        if (made->keys == NULL)
            return false;
    }
    for (const struct weir_adaptive *at = policy->adaptives; at != NULL; at = at->next) {
        made->groups[at->index] = make_group(at);
        if (made->groups[at->index] == NULL)
            return false;
    }
    return true;
}

bool weir_limiter_open_concurrency(struct weir_limiter *limiter)
{
    const struct weir_policy *policy = limiter->policy;
    if (policy->adaptive_count == 0 && !counts_by_key(policy))
        return true;
    struct weir_limiter_concurrency *made =
        calloc(1, sizeof *made + policy->adaptive_count * sizeof made->groups[0]);
    if (made == NULL)
        return false;
    made->group_count = policy->adaptive_count;
    limiter->concurrency = made;
    return fill(made, policy);
}

void weir_limiter_close_concurrency(struct weir_limiter *limiter)
{
    struct weir_limiter_concurrency *concurrency = limiter->concurrency;
    if (concurrency == NULL)
        return;
    for (size_t i = 0; i < concurrency->group_count; i++)
        weir_slots_free(concurrency->groups[i]);
    weir_key_counts_free(concurrency->keys);
    free(concurrency);
}

struct weir_slots *weir_limiter_slots(const struct weir_limiter *limiter, const char *group)
{
    const struct weir_limiter_concurrency *concurrency = limiter->concurrency;
    for (size_t i = 0; concurrency != NULL && i < concurrency->group_count; i++)
        if (strcmp(weir_slots_name(concurrency->groups[i]), group) == 0)
            return concurrency->groups[i];
    return NULL;
}

struct weir_key_counts *weir_limiter_key_counts(const struct weir_limiter *limiter)
{
    return limiter->concurrency == NULL ? NULL : limiter->concurrency->keys;
}

/* what a request is counted as */

static struct weir_slots *slots_of(const struct weir_limiter *limiter,
                                   const struct weir_adaptive *adaptive)
{
    return adaptive == NULL ? NULL : limiter->concurrency->groups[adaptive->index];
}

static struct weir_text part_name(const struct weir_policy *policy,
                                  const struct weir_adaptive *adaptive,
                                  const struct weir_limit_state *state,
                                  const struct weir_identity *who)
{
    if (adaptive->partition_by == WEIR_BY_TENANT)
        return who->tenant;
    if (adaptive->partition_by == WEIR_BY_API_KEY)
        return weir_text_from(who->api_key == NULL ? NULL : who->api_key->id);
    if (adaptive->partition_by == WEIR_BY_ROUTE)
        return weir_text_from(state->match.route->match);
    return weir_text_from(weir_policy_plan_name(policy, who->plan));
}

static size_t part_of(const struct weir_limiter *limiter, const struct weir_limit_state *state,
                      const struct weir_request *request, const struct weir_adaptive *adaptive)
{
    if (adaptive->partition_count == 0)
        return 0;
    struct weir_text name = part_name(limiter->policy, adaptive, state, &request->identity);
    size_t part = 0;
    while (part < adaptive->partition_count
           && !weir_text_equal(name, weir_text_from(adaptive->partitions[part].name)))
        part++;
    return part;
}

/* The key that "fixed" counts this request under; at NULL: it does not hold for it. */
static struct weir_text key_of(const struct weir_limiter *limiter,
                               const struct weir_limit_state *state,
                               const struct weir_request *request, char memory[KEY_BYTES])
{
    const struct weir_concurrency *rule = state->ruleset->concurrency;
    struct weir_buffer key = weir_buffer_init(memory, KEY_BYTES);
    const struct weir_asker asker = { .policy = limiter->policy,
                                      .identity = &request->identity,
                                      .facts = &request->facts,
                                      .match = &state->match };
    weir_buffer_put_string(&key, state->ruleset->name);
    weir_buffer_put_char(&key, ' ');
    if (rule->fixed == 0 || !weir_subject_write(&rule->by, &asker, &key))
        return (struct weir_text){ NULL, 0 };
    return weir_buffer_text(&key);
}

static const struct weir_concurrency *rule_of(const struct weir_limit_state *state)
{
    return state->ruleset == NULL ? NULL : state->ruleset->concurrency;
}

/* turning away */

static bool is_enforced(const struct weir_limiter *limiter, const struct weir_limit_state *state)
{
    return weir_limiter_mode(limiter, state->ruleset) == WEIR_ENFORCE;
}

/* What was asked and answered before does not hold any more. */
static enum weir_step turn_away(struct weir_limiter *limiter, struct weir_limit_state *state,
                                struct weir_request *request, struct weir_slots *full)
{
    weir_limiter_give_back(limiter, state);
    state->check.count = 0;
    state->has_quotas = state->shows_quotas = false;
    return weir_limiter_busy(limiter, state, request, full);
}

bool weir_limiter_is_busy(struct weir_limiter *limiter, struct weir_limit_state *state,
                          struct weir_request *request, enum weir_step *step)
{
    const struct weir_concurrency *rule = rule_of(state);
    if (rule == NULL || !is_enforced(limiter, state))
        return false;
    char memory[KEY_BYTES];
    struct weir_text key = key_of(limiter, state, request, memory);
    struct weir_slots *slots = slots_of(limiter, rule->adaptive);
    bool is_counted_out =
        key.at != NULL && !weir_key_counts_have_room(limiter->concurrency->keys, key, rule->fixed);
    if (!is_counted_out
        && (slots == NULL
            || weir_slots_have_room(slots, part_of(limiter, state, request, rule->adaptive))))
        return false;
    *step = turn_away(limiter, state, request, is_counted_out ? NULL : slots);
    return true;
}

/* taking and giving back */

/* The time of a request with a body begins when its body is in: how fast a client sends it is not the
 * back end's doing. */
static void start_clock(struct weir_request *request)
{
    request->work_us = weir_monotonic_us();
    request->times_body = request->facts.has_body && request->body_stage != WEIR_BODY_WHOLE;
}

static bool take_key(const struct weir_limiter *limiter, struct weir_limit_state *state,
                     const struct weir_request *request, uint32_t most)
{
    char memory[KEY_BYTES];
    struct weir_text key = key_of(limiter, state, request, memory);
    if (key.at == NULL)
        return true;
    state->hold.counted = weir_key_counts_take(limiter->concurrency->keys, key, most);
    return state->hold.counted != NULL;
}

static bool take_slot(const struct weir_limiter *limiter, struct weir_limit_state *state,
                      struct weir_request *request, const struct weir_adaptive *adaptive,
                      bool is_forced)
{
    struct weir_limit_hold *hold = &state->hold;
    struct weir_slots *slots = slots_of(limiter, adaptive);
    if (slots == NULL)
        return true;
    hold->part = (uint8_t)part_of(limiter, state, request, adaptive);
    bool is_there = weir_slots_take(slots, hold->part);
    if (!is_there && !is_forced)
        return false;
    if (!is_there)
        weir_slots_take_anyway(slots, hold->part);
    hold->slots = slots;
    start_clock(request);
    return is_there;
}

/* Counts it all the same, and says so once. */
static void watch(struct weir_limiter *limiter, struct weir_limit_state *state,
                  struct weir_request *request, const struct weir_concurrency *rule)
{
    bool is_counted_out = !take_key(limiter, state, request, rule->fixed);
    if (is_counted_out)
        take_key(limiter, state, request, UINT32_MAX);
    bool has_slot = take_slot(limiter, state, request, rule->adaptive, true);
    state->hold.is_over = is_counted_out || !has_slot;
    if (state->hold.is_over)
        weir_limiter_report(limiter, state, request, WEIR_SHADOW_LIMITED, NULL);
}

enum weir_step weir_limiter_enter(struct weir_limiter *limiter, struct weir_limit_state *state,
                                  struct weir_request *request)
{
    const struct weir_concurrency *rule = rule_of(state);
    if (rule == NULL)
        return WEIR_NEXT;
    if (!is_enforced(limiter, state)) {
        watch(limiter, state, request, rule);
        return WEIR_NEXT;
    }
    if (!take_key(limiter, state, request, rule->fixed))
        return turn_away(limiter, state, request, NULL);
    if (!take_slot(limiter, state, request, rule->adaptive, false)) {
        struct weir_slots *slots = slots_of(limiter, rule->adaptive);
        weir_limiter_leave(limiter, state);
        weir_slots_lost(slots);
        return turn_away(limiter, state, request, slots);
    }
    /* It stays the same for a client, while that of the back end moves with every window. */
    if (state->hold.counted != NULL && weir_limiter_may_show(state, request))
        state->hold.shown_most = rule->fixed;
    return WEIR_NEXT;
}

/* What a reply says about the back end. Errors are quick, and would make it look so: only what it has
 * done is timed. 503 and 504 are its own words for too much; 500 is a fault, and what weir itself
 * answers says nothing. */
static enum weir_slot_end end_of(const struct weir_request *request, unsigned status)
{
    if (request->is_refused || request->error != NULL)
        return WEIR_SLOT_UNTOLD;
    if (status == 503 || status == 504)
        return WEIR_SLOT_DROPPED;
    return status < 400 ? WEIR_SLOT_SERVED : WEIR_SLOT_UNTOLD;
}

void weir_limiter_leave_back_end(struct weir_limit_state *state, const struct weir_request *request,
                                 unsigned status)
{
    struct weir_limit_hold *hold = &state->hold;
    if (hold->slots == NULL)
        return;
    enum weir_slot_end how = end_of(request, status);
    uint64_t now_us = how == WEIR_SLOT_UNTOLD ? 0 : weir_monotonic_us();
    weir_slots_give(hold->slots, hold->part, how, request->work_us, now_us);
    hold->slots = NULL;
}

void weir_limiter_leave(struct weir_limiter *limiter, struct weir_limit_state *state)
{
    struct weir_limit_hold *hold = &state->hold;
    if (hold->slots != NULL)
        weir_slots_give(hold->slots, hold->part, WEIR_SLOT_UNTOLD, 0, 0);
    if (hold->counted != NULL)
        weir_key_counts_give(limiter->concurrency->keys, hold->counted);
    hold->slots = NULL;
    hold->counted = NULL;
}
