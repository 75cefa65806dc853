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

/* What makes the sum another one: a counter of another window counts other units, and two plans at
 * once, or two versions of a file, would each undo what the other has written. */
static void put_kind(struct weir_buffer *key, const struct weir_limit_rule *limit,
                     const struct weir_limit_numbers *numbers)
{
    weir_buffer_put_string(key, weir_algorithm_tag(limit->algorithm));
    if (limit->algorithm == WEIR_FIXED_WINDOW || limit->algorithm == WEIR_SLIDING_COUNTER) {
        weir_buffer_put_char(key, '-');
        weir_buffer_put_number(key, numbers->rate.window_us / 1000);
        weir_buffer_put_string(key, "ms");
    }
    if (numbers->plan != NULL) {
        weir_buffer_put_char(key, '@');
        weir_buffer_put_string(key, numbers->plan);
    }
}

/* A penalty's name is that of its limit, and what no subject begins with. */
static void put_limit(struct weir_buffer *key, const struct weir_limit_rule *limit,
                      const struct weir_limit_numbers *numbers, const struct weir_spend *spend)
{
    weir_buffer_put_char(key, ':');
    weir_buffer_put_string(key, limit->name);
    weir_buffer_put_char(key, ':');
    put_kind(key, limit, numbers);
    if (spend->algorithm == WEIR_PENALTY) {
        weir_buffer_put_char(key, ':');
        weir_buffer_put_string(key, weir_algorithm_tag(spend->algorithm));
    }
}

/* Writes the key of a limit that shares its subject with others of its policy: what they have in
 * common stands first, so that a store can keep them together. Returns how long that is.
 *
 * What they have in common is the key of no limit by itself. Where the slot is the policy, two colons
 * stand in front of the subject, since no limit has an empty name, and one behind it, since the
 * subject may itself look as if a limit stood at its end. */
static size_t put_grouped(struct weir_buffer *key, const struct weir_planned *planned,
                          const struct weir_limit_numbers *numbers, struct weir_text subject,
                          const struct weir_spend *spend)
{
    size_t common = key->length;
    if (!planned->ruleset->slot_is_identity) {
        weir_buffer_put_string(key, "::");
        weir_buffer_put(key, subject);
        common = key->length + 1;
    }
    put_limit(key, planned->limit, numbers, spend);
    return common;
}

/* Writes the key of a limit that stands alone. */
static void put_alone(struct weir_buffer *key, const struct weir_planned *planned,
                      const struct weir_limit_numbers *numbers, struct weir_text subject,
                      const struct weir_spend *spend)
{
    put_limit(key, planned->limit, numbers, spend);
    if (planned->ruleset->slot_is_identity)
        return;
    weir_buffer_put_char(key, ':');
    weir_buffer_put(key, subject);
}

/* Writes "prefix:{slot}:policy:limit:algorithm", and the subject where the slot is the policy; false:
 * it does not fit. */
static bool put_key(struct weir_buffer *keys, const struct weir_policy *policy,
                    const struct weir_planned *planned, const struct weir_limit_numbers *numbers,
                    struct weir_text subject, struct weir_spend *spend)
{
    size_t before = keys->length;
    spend->key = keys->at + before;
    put_slot(keys, policy, planned->ruleset, subject);
    if (planned->limit->is_grouped)
        spend->group_length = put_grouped(keys, planned, numbers, subject, spend) - before;
    else
        put_alone(keys, planned, numbers, subject, spend);
    spend->key_length = keys->length - before;
    return !keys->full;
}

/* Gives a spend its key, and adds it. False: there is no room. */
static bool add_spend(struct weir_plan_of_checks *plan, const struct weir_policy *policy,
                      const struct weir_planned *planned, const struct weir_limit_numbers *numbers,
                      struct weir_text subject, struct weir_spend spend)
{
    if (plan->count == WEIR_CHECK_LIMITS
        || !put_key(&plan->keys, policy, planned, numbers, subject, &spend))
        return false;
    plan->planned[plan->count] = *planned;
    plan->spends[plan->count++] = spend;
    return true;
}

bool weir_plan_add_limit(struct weir_plan_of_checks *plan, const struct weir_ruleset *ruleset,
                         const struct weir_limit_rule *limit, const struct weir_asker *asker,
                         uint64_t cost)
{
    char memory[WEIR_SUBJECT_MAX + 1];
    struct weir_buffer subject = weir_buffer_init(memory, sizeof memory);
    struct weir_limit_numbers numbers;
    if (!weir_limit_rate(asker->policy, limit, asker->identity->plan, &numbers)
        || !weir_subject_write(&limit->by, asker, &subject))
        return true;
    const struct weir_planned planned = { .ruleset = ruleset, .limit = limit };
    const struct weir_spend spend = { .algorithm = limit->algorithm,
                                      .from_first = limit->from_first,
                                      .logs_refusals = limit->logs_refusals,
                                      .rate = numbers.rate,
                                      .calendar = numbers.calendar,
                                      .max_wait_us = limit->max_wait_us,
                                      .cost = cost };
    const struct weir_spend penalty = { .algorithm = WEIR_PENALTY,
                                        .cost = cost,
                                        .penalty = limit->penalty };
    struct weir_text text = weir_buffer_text(&subject);
    return add_spend(plan, asker->policy, &planned, &numbers, text, spend)
           && (limit->penalty == NULL
               || add_spend(plan, asker->policy, &planned, &numbers, text, penalty));
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
    for (size_t i = 0; i < ruleset->limit_count; i++)
        if (weir_limit_is_for(&ruleset->limits[i], asker)
            && !weir_plan_add_limit(plan, ruleset, &ruleset->limits[i], asker, cost))
            return false;
    return true;
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
