#include "limit/combine.h"

#include <string.h>

#include "limit/algorithm.h"

static void put_slot(struct weir_buffer *key, const struct weir_policy *policy,
                     const struct weir_ruleset *ruleset, struct weir_text subject)
{
    weir_buffer_put_string(key, policy->store_prefix);
    weir_buffer_put_string(key, ":{");
    if (ruleset->slot_is_identity)
        weir_buffer_put(key, subject);
    else
        weir_buffer_put_string(key, ruleset->name);
    weir_buffer_put_string(key, "}:");
    weir_buffer_put_string(key, ruleset->name);
}

/* What limits of one policy with the same `by` have in common, written for the first of them. */
struct common {
    const struct weir_limit_rule *first; /* NULL: nothing is written yet                     */
    bool has_subject;
    struct weir_buffer subject;
    char memory[WEIR_SUBJECT_MAX + 1];
    size_t key_at, key_length; /* among the keys; 0: not written yet, or none is grouped */
};

/* Finds the subject of a limit; false: it has none. */
static bool find_subject(struct common *common, const struct weir_limit_rule *limit,
                         const struct weir_asker *asker)
{
    if (common->first != NULL && common->first == limit->same_subject)
        return common->has_subject;
    common->first = limit->same_subject != NULL ? limit->same_subject : limit;
    common->subject = weir_buffer_init(common->memory, sizeof common->memory);
    common->key_length = 0;
    common->has_subject = weir_subject_write(&limit->by, asker, &common->subject);
    return common->has_subject;
}

/* Writes what the keys of limits that share their subject have in common. It stands first, so that a
 * store can keep them together.
 *
 * It is the key of no limit by itself. Where the slot is the policy, two colons stand in front of the
 * subject, since no limit has an empty name, and one behind it, since the subject may itself look as if
 * a limit stood at its end. */
static void put_common(struct weir_buffer *keys, const struct weir_prepared *prepared,
                       bool slot_is_identity, struct common *common)
{
    if (common->key_length > 0) {
        weir_buffer_put(keys, (struct weir_text){ keys->at + common->key_at, common->key_length });
        return;
    }
    common->key_at = keys->length;
    weir_buffer_put(keys, prepared->before);
    if (!slot_is_identity)
        weir_buffer_put_string(keys, "::");
    weir_buffer_put(keys, weir_buffer_text(&common->subject));
    weir_buffer_put(keys, prepared->after);
    common->key_length = keys->length - common->key_at;
}

/* Writes the key of a limit that stands alone. */
static void put_alone(struct weir_buffer *keys, const struct weir_prepared *prepared,
                      bool slot_is_identity, struct weir_text subject, struct weir_text tail)
{
    weir_buffer_put(keys, prepared->before);
    if (slot_is_identity)
        weir_buffer_put(keys, subject);
    weir_buffer_put(keys, prepared->after);
    weir_buffer_put(keys, tail);
    if (slot_is_identity)
        return;
    weir_buffer_put_char(keys, ':');
    weir_buffer_put(keys, subject);
}

/* Adding the limits of one ruleset. */
struct adding {
    struct weir_plan_of_checks *plan;
    const struct weir_ruleset *ruleset;
    const struct weir_asker *asker;
    uint64_t cost;
    const struct weir_prepared *prepared;
    bool is_lasting; /* that outlives the request */
    struct common common;
};

/* Gives a spend its place and its key, "prefix:{slot}:policy" and the tail, and the subject where the
 * slot is the policy. NULL: there is no room. */
static struct weir_spend *add_spend(struct adding *adding, const struct weir_limit_rule *limit,
                                    const struct weir_spend *made, struct weir_text tail)
{
    struct weir_plan_of_checks *plan = adding->plan;
    struct weir_buffer *keys = &plan->keys;
    bool slot_is_identity = adding->ruleset->slot_is_identity;
    if (plan->count == WEIR_CHECK_LIMITS)
        return NULL;

    size_t start = keys->length;
    struct weir_spend *spend = &plan->spends[plan->count];
    *spend = *made;
    spend->cost = adding->cost;
    spend->key = keys->at + start;
    if (limit->is_grouped) {
        put_common(keys, adding->prepared, slot_is_identity, &adding->common);
        spend->group_length = keys->length - start + !slot_is_identity;
        weir_buffer_put(keys, tail);
    } else {
        put_alone(keys, adding->prepared, slot_is_identity,
                  weir_buffer_text(&adding->common.subject), tail);
    }
    spend->key_length = keys->length - start;
    if (keys->full)
        return NULL;
    plan->planned[plan->count++] =
        (struct weir_planned){ .ruleset = adding->ruleset, .limit = limit };
    return spend;
}

static bool add_limit(struct adding *adding, size_t index)
{
    const struct weir_limit_rule *limit = &adding->ruleset->limits[index];
    const struct weir_prepared_limit *prepared = &adding->prepared->limits[index];
    if (!prepared->limits || !find_subject(&adding->common, limit, adding->asker))
        return true;
    if (add_spend(adding, limit, &prepared->spend, prepared->tail) == NULL)
        return false;
    adding->plan->planned[adding->plan->count - 1].prepared = adding->is_lasting ? prepared : NULL;
    if (limit->penalty == NULL)
        return true;
    const struct weir_spend penalty = { .algorithm = WEIR_PENALTY, .penalty = limit->penalty };
    return add_spend(adding, limit, &penalty, prepared->penalty_tail) != NULL;
}

/* Where nothing was prepared, it is done for this request. */
static bool prepare_anew(struct adding *adding, struct weir_prepared *prepared, char *memory,
                         size_t size)
{
    const struct weir_asker *asker = adding->asker;
    struct weir_buffer texts = weir_buffer_init(memory, size);
    adding->prepared = prepared;
    return weir_prepare(prepared, asker->policy, adding->ruleset,
                        weir_policy_plan(asker->policy, asker->identity->plan), &texts);
}

/* `wanted`: its index, or WEIR_CHECK_LIMITS for all that are for the asker. */
static bool add_prepared(struct adding *adding, size_t wanted)
{
    const struct weir_ruleset *ruleset = adding->ruleset;
    adding->common.first = NULL;
    if (wanted < WEIR_CHECK_LIMITS)
        return add_limit(adding, wanted);
    for (size_t i = 0; i < ruleset->limit_count; i++)
        if (weir_limit_is_for(&ruleset->limits[i], adding->asker) && !add_limit(adding, i))
            return false;
    return true;
}

/* Apart, since it takes much of the stack. */
__attribute__((noinline)) static bool add_anew(struct adding *adding, size_t wanted)
{
    struct weir_prepared prepared;
    char memory[WEIR_PREPARED_BYTES];
    return prepare_anew(adding, &prepared, memory, sizeof memory) && add_prepared(adding, wanted);
}

static bool add(struct weir_plan_of_checks *plan, const struct weir_ruleset *ruleset,
                const struct weir_asker *asker, uint64_t cost, size_t wanted)
{
    struct adding adding;
    adding.plan = plan;
    adding.ruleset = ruleset;
    adding.asker = asker;
    adding.cost = cost;
    adding.prepared = weir_prepared_find(asker->prepared, ruleset, asker->identity->plan);
    adding.is_lasting = adding.prepared != NULL;
    return adding.is_lasting ? add_prepared(&adding, wanted) : add_anew(&adding, wanted);
}

bool weir_plan_add_limit(struct weir_plan_of_checks *plan, const struct weir_ruleset *ruleset,
                         const struct weir_limit_rule *limit, const struct weir_asker *asker,
                         uint64_t cost)
{
    return add(plan, ruleset, asker, cost, (size_t)(limit - ruleset->limits));
}

bool weir_limit_is_for(const struct weir_limit_rule *limit, const struct weir_asker *asker)
{
    switch (limit->when) {
    case WEIR_FOR_ALL:
        break;
    case WEIR_FOR_UNKNOWN:
        return asker->device.at == NULL;
    case WEIR_FOR_KNOWN:
        return asker->device.at != NULL;
    }
    return true;
}

bool weir_plan_add(struct weir_plan_of_checks *plan, const struct weir_ruleset *ruleset,
                   const struct weir_asker *asker, uint64_t cost)
{
    return add(plan, ruleset, asker, cost, WEIR_CHECK_LIMITS);
}

/* No limit has an empty name, and no subject begins with a colon. */
bool weir_plan_put_memory_key(struct weir_buffer *key, const struct weir_policy *policy,
                              const struct weir_ruleset *ruleset, struct weir_text account,
                              const char *network)
{
    put_slot(key, policy, ruleset, account);
    weir_buffer_put_string(key, ":::known:");
    if (!ruleset->slot_is_identity) {
        weir_buffer_put(key, account);
        weir_buffer_put_char(key, '&');
    }
    weir_buffer_put_string(key, "ip=");
    weir_buffer_put_string(key, network);
    return !key->full;
}

/* What a process counts while the store is away stays with it. A window that opens with a failure and
 * holds for months would make one of all times that the store was away. */
#define FAILURES_WINDOW_US (UINT64_C(86400) * 1000000)

static uint64_t window_of(const struct weir_rate *rate, const struct weir_limit_rule *limit)
{
    bool is_cut = limit->from_first && weir_counts_failures(limit);
    return is_cut && rate->window_us > FAILURES_WINDOW_US ? FAILURES_WINDOW_US : rate->window_us;
}

/* The largest power of ten that is not above; such a number divides windows well. */
static uint64_t round_down(uint64_t units)
{
    uint64_t power = 1;
    while (power <= units / 10)
        power *= 10;
    return power;
}

/* Numbers that cannot be divided exactly are rounded down until they can: one unit always can. */
static void make_share(uint64_t limit, uint64_t window_us, uint64_t burst, bool is_window,
                       struct weir_rate *share)
{
    if (weir_rate_make(limit, window_us, burst, share, NULL) == WEIR_OK)
        return;
    limit = round_down(limit);
    if (weir_rate_make(limit, window_us, is_window || burst > limit ? limit : burst, share, NULL)
        != WEIR_OK)
        weir_rate_make(1, window_us, 1, share, NULL);
}

struct weir_rate weir_rate_share(const struct weir_rate *rate, const struct weir_limit_rule *rule,
                                 unsigned instances)
{
    struct weir_rate share = *rate;
    if (instances <= 1 || rate->limit == 0)
        return share;
    /* Windows keep their edges and hold fewer units; a rate keeps its units and takes longer. */
    uint64_t limit = weir_limit_share(rule, rate->limit, instances);
    uint64_t burst = weir_limit_share(rule, rate->burst, instances);
    if (!weir_has_burst(rule->algorithm))
        make_share(limit, window_of(rate, rule), limit, true, &share);
    else if (rate->window_us > WEIR_WINDOW_MAX_US / instances
             || weir_rate_make(rate->limit, rate->window_us * instances, burst, &share, NULL)
                    != WEIR_OK)
        make_share(limit, rate->window_us, burst, false, &share);
    return share;
}

void weir_cap_waits(struct weir_answer *answers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (answers[i].retry_us > WEIR_MEMORY_WAIT_S * 1000000)
            answers[i].retry_us = WEIR_MEMORY_WAIT_S * 1000000;
}

/* The stricter of both holds. */
static void merge_answer(struct weir_answer *answer, const struct weir_answer *penalty)
{
    answer->allowed = answer->allowed && penalty->allowed;
    if (penalty->remaining < answer->remaining)
        answer->remaining = penalty->remaining;
    if (penalty->reset_us > answer->reset_us)
        answer->reset_us = penalty->reset_us;
    if (penalty->retry_us > answer->retry_us && !answer->impossible)
        answer->retry_us = penalty->retry_us;
}

/* Where the penalties begin. */
static size_t count_limits(const struct weir_spend *spends, size_t count)
{
    size_t limits = 0;
    for (size_t i = 0; i < count; i++)
        limits += spends[i].algorithm != WEIR_PENALTY;
    return limits;
}

size_t weir_plan_merge_penalties(struct weir_spend *spends, struct weir_planned *planned,
                                 struct weir_answer *answers, size_t count)
{
    struct weir_spend penalties[WEIR_CHECK_LIMITS];
    size_t limits = count_limits(spends, count), limit = 0, penalty = 0;
    for (size_t i = 0; i < count && limits < count; i++) {
        if (spends[i].algorithm == WEIR_PENALTY) {
            planned[limit - 1].penalty = limits + penalty;
            penalties[penalty++] = spends[i];
            if (answers != NULL)
                merge_answer(&answers[limit - 1], &answers[i]);
            continue;
        }
        spends[limit] = spends[i];
        planned[limit] = planned[i];
        if (answers != NULL)
            answers[limit] = answers[i];
        limit++;
    }
    memcpy(spends + limits, penalties, penalty * sizeof spends[0]);
    return limits;
}

struct weir_combined weir_combine(const struct weir_answer *answers, size_t count)
{
    struct weir_combined verdict = { .allowed = true };
    for (size_t i = 0; i < count; i++) {
        const struct weir_answer *answer = &answers[i];
        if (answer->allowed)
            continue;
        bool is_worse = verdict.allowed || (answer->impossible && !verdict.impossible)
                        || (!verdict.impossible && answer->retry_us > verdict.retry_us);
        verdict.allowed = false;
        if (!is_worse)
            continue;
        verdict.worst = i;
        verdict.impossible = answer->impossible;
        verdict.retry_us = answer->impossible ? 0 : answer->retry_us;
    }
    return verdict;
}
