#include "limit/combine.h"

#include "limit/algorithm.h"

/* Writes "prefix:{slot}:policy:limit:algorithm", and the subject behind it where the slot is the
 * policy; false: it does not fit. */
static bool put_key(struct weir_buffer *keys, const struct weir_policy *policy,
                    const struct weir_ruleset *ruleset, const struct weir_limit_rule *limit,
                    struct weir_text subject)
{
    weir_buffer_put_string(keys, policy->store_prefix);
    weir_buffer_put_string(keys, ":{");
    if (ruleset->slot_is_identity)
        weir_buffer_put(keys, subject);
    else
        weir_buffer_put_string(keys, ruleset->name);
    weir_buffer_put_string(keys, "}:");
    weir_buffer_put_string(keys, ruleset->name);
    weir_buffer_put_char(keys, ':');
    weir_buffer_put_string(keys, limit->name);
    weir_buffer_put_char(keys, ':');
    weir_buffer_put_string(keys, weir_algorithm_tag(limit->algorithm));
    if (!ruleset->slot_is_identity) {
        weir_buffer_put_char(keys, ':');
        weir_buffer_put(keys, subject);
    }
    return !keys->full;
}

/* False: there is no room. A limit that does not apply is no failure. */
static bool add_limit(struct weir_plan_of_checks *plan, struct weir_check *check,
                      const struct weir_ruleset *ruleset, const struct weir_limit_rule *limit,
                      const struct weir_asker *asker, uint64_t cost)
{
    char memory[WEIR_SUBJECT_MAX + 1];
    struct weir_buffer subject = weir_buffer_init(memory, sizeof memory);
    struct weir_rate rate;
    if (!weir_limit_rate(asker->policy, limit, asker->identity->plan, &rate)
        || !weir_subject_write(&limit->by, asker, &subject))
        return true;

    const char *key = plan->keys.at + plan->keys.length;
    size_t before = plan->keys.length;
    if (check->count == WEIR_CHECK_LIMITS
        || !put_key(&plan->keys, asker->policy, ruleset, limit, weir_buffer_text(&subject)))
        return false;

    plan->planned[check->count] = (struct weir_planned){ ruleset, limit };
    check->spends[check->count++] = (struct weir_spend){ .algorithm = limit->algorithm,
                                                         .from_first = limit->from_first,
                                                         .rate = rate,
                                                         .cost = cost,
                                                         .key = key,
                                                         .key_length = plan->keys.length - before };
    return true;
}

bool weir_plan_add(struct weir_plan_of_checks *plan, struct weir_check *check,
                   const struct weir_ruleset *ruleset, const struct weir_asker *asker,
                   uint64_t cost)
{
    for (size_t i = 0; i < ruleset->limit_count; i++)
        if (!add_limit(plan, check, ruleset, &ruleset->limits[i], asker, cost))
            return false;
    return true;
}

/* At least one, unless there is nothing to share. */
static uint64_t share_of(uint64_t units, unsigned instances)
{
    return units == 0 || units >= instances ? units / instances : 1;
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

struct weir_rate weir_rate_share(const struct weir_rate *rate, enum weir_algorithm algorithm,
                                 unsigned instances)
{
    struct weir_rate share = *rate;
    if (instances <= 1 || rate->limit == 0)
        return share;
    /* Windows keep their edges and hold fewer units; a rate keeps its units and takes longer. */
    uint64_t limit = share_of(rate->limit, instances);
    uint64_t burst = share_of(rate->burst, instances);
    if (algorithm == WEIR_FIXED_WINDOW)
        make_share(limit, rate->window_us, limit, true, &share);
    else if (rate->window_us > WEIR_WINDOW_MAX_US / instances
             || weir_rate_make(rate->limit, rate->window_us * instances, burst, &share, NULL)
                    != WEIR_OK)
        make_share(limit, rate->window_us, burst, false, &share);
    return share;
}

struct weir_verdict weir_combine(const struct weir_answer *answers, size_t count)
{
    struct weir_verdict verdict = { .allowed = true };
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
