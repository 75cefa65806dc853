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

static bool counts_by_key(const struct weir_policy *policy)
{
    for (size_t i = 0; i < policy->ruleset_count; i++)
        if (policy->rulesets[i].concurrency != NULL && policy->rulesets[i].concurrency->fixed > 0)
            return true;
    return false;
}

static bool is_of(const struct weir_limiter_group *group, const struct weir_adaptive *adaptive)
{
    return strcmp(weir_slots_name(group->slots), adaptive->name) == 0;
}

/* A part is known by its place: who has it under another name is counted there until it ends. */
static bool has_parts_of(const struct weir_limiter_group *group,
                         const struct weir_adaptive *adaptive)
{
    if (group->share_count != adaptive->partition_count)
        return false;
    for (size_t i = 0; i < group->share_count; i++)
        if (group->shares_ppm[i] != adaptive->partitions[i].share_ppm)
            return false;
    return true;
}

static struct weir_vegas_bounds bounds_of(const struct weir_adaptive *adaptive)
{
    return (struct weir_vegas_bounds){ adaptive->floor, adaptive->ceiling, adaptive->initial };
}

/* What the limit has been found to be before goes on, as far as the new bounds allow. */
static struct weir_vegas_bounds bounds_from(const struct weir_limiter_group *before,
                                            const struct weir_adaptive *adaptive)
{
    struct weir_vegas_bounds bounds = bounds_of(adaptive);
    if (before == NULL)
        return bounds;
    uint32_t limit = weir_slots_numbers(before->slots).limit;
    bounds.initial = limit < bounds.floor     ? bounds.floor
                     : limit > bounds.ceiling ? bounds.ceiling
                                              : limit;
    return bounds;
}

static struct weir_limiter_group *make_group(const struct weir_limiter_group *before,
                                             const struct weir_adaptive *adaptive)
{
    struct weir_limiter_group *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    made->share_count = adaptive->partition_count;
    for (size_t i = 0; i < adaptive->partition_count; i++)
        made->shares_ppm[i] = adaptive->partitions[i].share_ppm;
    const struct weir_slots_options options = { .name = adaptive->name,
                                                .bounds = bounds_from(before, adaptive),
                                                .shares_ppm = made->shares_ppm,
                                                .part_count = made->share_count,
                                                .seed = weir_random64() };
    made->slots = weir_slots_new(&options);
    if (made->slots != NULL)
        return made;
    free(made);
    return NULL;
}

/* The newest of its name comes first in the list. The mutex is locked; NULL: memory ran out. */
static struct weir_limiter_group *find_group(struct weir_limiter *limiter,
                                             const struct weir_adaptive *adaptive)
{
    struct weir_limiter_group *newest = NULL;
    for (struct weir_limiter_group *group = limiter->groups; group != NULL; group = group->next) {
        if (!is_of(group, adaptive))
            continue;
        if (has_parts_of(group, adaptive))
            return group;
        newest = newest == NULL ? group : newest;
    }
    struct weir_limiter_group *made = make_group(newest, adaptive);
    if (made == NULL)
        return NULL;
    made->next = limiter->groups;
    limiter->groups = made;
    return made;
}

static bool open_groups(struct weir_limiter *limiter, struct weir_edition *edition)
{
    const struct weir_policy *policy = edition->policy;
    bool is_whole = true;
    if (policy->adaptive_count == 0)
        return true;
    edition->groups = calloc(policy->adaptive_count, sizeof edition->groups[0]);
    if (edition->groups == NULL)
        return false;
    pthread_mutex_lock(&limiter->groups_mutex);
    for (const struct weir_adaptive *at = policy->adaptives; at != NULL && is_whole;
         at = at->next) {
        struct weir_limiter_group *group = find_group(limiter, at);
        is_whole = group != NULL;
        edition->groups[at->index] = group;
        if (group != NULL)
            group->editions++;
    }
    pthread_mutex_unlock(&limiter->groups_mutex);
    return is_whole;
}

bool weir_limiter_open_concurrency(struct weir_limiter *limiter, struct weir_edition *edition)
{
    if (counts_by_key(edition->policy)) {
        if (limiter->key_counts == NULL)
            limiter->key_counts = weir_key_counts_new();
        edition->key_counts = limiter->key_counts;
        if (edition->key_counts == NULL)
            return false;
    }
    return open_groups(limiter, edition);
}

void weir_limiter_adopt_concurrency(const struct weir_edition *edition)
{
    for (const struct weir_adaptive *at = edition->policy->adaptives; at != NULL; at = at->next)
        weir_slots_set_bounds(edition->groups[at->index]->slots, bounds_of(at));
}

static void remove_group(struct weir_limiter *limiter, struct weir_limiter_group *group)
{
    struct weir_limiter_group **at = &limiter->groups;
    while (*at != group)
        at = &(*at)->next;
    *at = group->next;
    weir_slots_free(group->slots);
    free(group);
}

void weir_limiter_close_concurrency(struct weir_limiter *limiter, struct weir_edition *edition)
{
    if (edition->groups == NULL)
        return;
    pthread_mutex_lock(&limiter->groups_mutex);
    for (size_t i = 0; i < edition->policy->adaptive_count; i++)
        if (edition->groups[i] != NULL && --edition->groups[i]->editions == 0)
            remove_group(limiter, edition->groups[i]);
    pthread_mutex_unlock(&limiter->groups_mutex);
    free(edition->groups);
}

struct weir_slots *weir_limiter_slots(struct weir_limiter *limiter, const char *group)
{
    const struct weir_edition *edition = weir_edition_take(&limiter->editions);
    struct weir_slots *found = NULL;
    for (size_t i = 0; i < edition->policy->adaptive_count && found == NULL; i++)
        if (strcmp(weir_slots_name(edition->groups[i]->slots), group) == 0)
            found = edition->groups[i]->slots;
    weir_edition_leave(edition);
    return found;
}

struct weir_key_counts *weir_limiter_key_counts(struct weir_limiter *limiter)
{
    return limiter->key_counts;
}

/* what a request is counted as */

static struct weir_slots *slots_of(const struct weir_limit_state *state,
                                   const struct weir_adaptive *adaptive)
{
    return adaptive == NULL ? NULL : state->edition->groups[adaptive->index]->slots;
}

static struct weir_text part_name(const struct weir_adaptive *adaptive,
                                  const struct weir_limit_state *state,
                                  const struct weir_identity *who)
{
    if (adaptive->partition_by == WEIR_BY_TENANT)
        return who->tenant;
    if (adaptive->partition_by == WEIR_BY_API_KEY)
        return weir_text_from(who->api_key == NULL ? NULL : who->api_key->id);
    if (adaptive->partition_by == WEIR_BY_ROUTE)
        return weir_text_from(state->match.route->match);
    return weir_text_from(weir_policy_plan_name(state->edition->policy, who->plan));
}

static size_t part_of(const struct weir_limit_state *state, const struct weir_request *request,
                      const struct weir_adaptive *adaptive)
{
    if (adaptive->partition_count == 0)
        return 0;
    struct weir_text name = part_name(adaptive, state, &request->identity);
    size_t part = 0;
    while (part < adaptive->partition_count
           && !weir_text_equal(name, weir_text_from(adaptive->partitions[part].name)))
        part++;
    return part;
}

/* The key that "fixed" counts this request under; at NULL: it does not hold for it. */
static struct weir_text key_of(const struct weir_limit_state *state,
                               const struct weir_request *request, char memory[KEY_BYTES])
{
    const struct weir_concurrency *rule = state->ruleset->concurrency;
    struct weir_buffer key = weir_buffer_init(memory, KEY_BYTES);
    const struct weir_asker asker = { .policy = state->edition->policy,
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

static bool is_enforced(const struct weir_limit_state *state)
{
    return weir_limiter_mode_here(state, state->ruleset) == WEIR_ENFORCE;
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
    if (rule == NULL || !is_enforced(state))
        return false;
    char memory[KEY_BYTES];
    struct weir_text key = key_of(state, request, memory);
    struct weir_slots *slots = slots_of(state, rule->adaptive);
    bool is_counted_out =
        key.at != NULL && !weir_key_counts_have_room(state->edition->key_counts, key, rule->fixed);
    if (!is_counted_out
        && (slots == NULL || weir_slots_have_room(slots, part_of(state, request, rule->adaptive))))
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

static bool take_key(struct weir_limit_state *state, const struct weir_request *request,
                     uint32_t most)
{
    char memory[KEY_BYTES];
    struct weir_text key = key_of(state, request, memory);
    if (key.at == NULL)
        return true;
    state->hold.counted = weir_key_counts_take(state->edition->key_counts, key, most);
    return state->hold.counted != NULL;
}

static bool take_slot(struct weir_limit_state *state, struct weir_request *request,
                      const struct weir_adaptive *adaptive, bool is_forced)
{
    struct weir_limit_hold *hold = &state->hold;
    struct weir_slots *slots = slots_of(state, adaptive);
    if (slots == NULL)
        return true;
    hold->part = (uint8_t)part_of(state, request, adaptive);
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
    bool is_counted_out = !take_key(state, request, rule->fixed);
    if (is_counted_out)
        take_key(state, request, UINT32_MAX);
    bool has_slot = take_slot(state, request, rule->adaptive, true);
    state->hold.is_over = is_counted_out || !has_slot;
    state->hold.is_own = is_counted_out;
    state->hold.most = is_counted_out ? rule->fixed : 0;
    if (state->hold.is_over)
        weir_limiter_watch(limiter, state, request, WEIR_BUSY, NULL);
}

enum weir_step weir_limiter_enter(struct weir_limiter *limiter, struct weir_limit_state *state,
                                  struct weir_request *request)
{
    const struct weir_concurrency *rule = rule_of(state);
    if (rule == NULL)
        return WEIR_NEXT;
    if (!is_enforced(state)) {
        watch(limiter, state, request, rule);
        return WEIR_NEXT;
    }
    if (!take_key(state, request, rule->fixed))
        return turn_away(limiter, state, request, NULL);
    if (!take_slot(state, request, rule->adaptive, false)) {
        struct weir_slots *slots = slots_of(state, rule->adaptive);
        weir_limiter_leave(state);
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

void weir_limiter_leave(struct weir_limit_state *state)
{
    struct weir_limit_hold *hold = &state->hold;
    if (hold->slots != NULL)
        weir_slots_give(hold->slots, hold->part, WEIR_SLOT_UNTOLD, 0, 0);
    if (hold->counted != NULL)
        weir_key_counts_give(state->edition->key_counts, hold->counted);
    hold->slots = NULL;
    hold->counted = NULL;
}
