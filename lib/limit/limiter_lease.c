/* Leases, as the limiter has them: from the start to the settling of what was decided by them. */
#include "limit/limiter_internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "policy/lease_units.h"
#include "store/store.h"

/* the start */

/* What the limit holds in numbers: of plans the least, which is the one to worry about. */
static bool find_capacity(const struct weir_policy *policy, const struct weir_limit_rule *limit,
                          uint64_t *capacity)
{
    bool is_planned = limit->source == WEIR_RATE_PLAN, is_found = false;
    for (size_t i = 0; i < (is_planned ? policy->plan_count : 1); i++) {
        struct weir_limit_numbers numbers;
        if (!weir_limit_rate_in(limit, is_planned ? &policy->plans[i] : NULL, &numbers)
            || numbers.rate.limit == 0 || (is_found && numbers.rate.burst >= *capacity))
            continue;
        is_found = true;
        *capacity = numbers.rate.burst;
    }
    return is_found;
}

/* What operators are told of a limit, since they cannot see it in any decision. */
static void announce(const struct weir_limiter *limiter, const struct weir_policy *policy,
                     const struct weir_ruleset *ruleset, const struct weir_limit_rule *limit)
{
    uint64_t capacity = 0;
    unsigned instances = policy->instances;
    if (!find_capacity(policy, limit, &capacity))
        return;
    uint64_t units = weir_lease_most_units(limit->lease, capacity, instances);
    uint64_t bound = weir_lease_bound(limit->lease, capacity, instances);
    weir_log_line(&limiter->log, WEIR_INFO,
                  "Limit \"%s\" of policy \"%s\" is leased in blocks of %s%" PRIu64
                  ", the next taken at %" PRIu64 ": %u instance%s may leave up to %" PRIu64
                  " of %" PRIu64 " units unused for a second.",
                  limit->name, ruleset->name, limit->lease->batch == 0 ? "up to " : "", units,
                  weir_lease_low_water(limit->lease, units), instances, instances == 1 ? "" : "s",
                  bound, capacity);
}

void weir_limiter_adopt_leases(const struct weir_limiter *limiter,
                               const struct weir_edition *edition)
{
    const struct weir_policy *policy = edition->policy;
    if (edition->leases == NULL)
        return;
    weir_leases_set_instances(edition->leases, policy->instances);
    for (size_t i = 0; i < policy->ruleset_count; i++) {
        const struct weir_ruleset *ruleset = &policy->rulesets[i];
        bool is_on = weir_limiter_mode(edition, ruleset) != WEIR_OFF;
        for (size_t n = 0; is_on && n < ruleset->limit_count; n++)
            if (ruleset->limits[n].lease != NULL)
                announce(limiter, policy, ruleset, &ruleset->limits[n]);
    }
}

bool weir_limiter_wants_leases(const struct weir_edition *edition)
{
    const struct weir_policy *policy = edition->policy;
    for (size_t i = 0; i < policy->ruleset_count; i++) {
        const struct weir_ruleset *ruleset = &policy->rulesets[i];
        bool is_on = weir_limiter_mode(edition, ruleset) != WEIR_OFF;
        for (size_t n = 0; is_on && n < ruleset->limit_count; n++)
            if (ruleset->limits[n].lease != NULL)
                return true;
    }
    return false;
}

bool weir_limiter_open_leases(struct weir_limiter *limiter, struct weir_edition *edition)
{
    const struct weir_policy *policy = edition->policy;
    const struct weir_store *store = limiter->store;
    /* Of a store that answers at once nothing is saved by asking it less often. */
    if (store->type->answers_inline || !weir_limiter_wants_leases(edition))
        return true;
    const struct weir_leases_options options = { .type = store->type,
                                                 .store = store->self,
                                                 .denials = limiter->denials,
                                                 .instances = policy->instances,
                                                 .timeout_us =
                                                     policy->store_timeout_ms * UINT64_C(1000) };
    if (limiter->leases == NULL)
        limiter->leases = weir_leases_new(&options);
    edition->leases = limiter->leases;
    return edition->leases != NULL;
}

/* settling */

/* `left` of `all` are still to be settled, in their order; their keys tell which. */
static void part(const struct weir_edition *edition, const struct weir_spend *all, size_t count,
                 const struct weir_spend *left, size_t left_count, struct weir_planned *planned)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (at < left_count && left[at].key == all[i].key)
            planned[at++] = planned[i];
        else
            weir_limiter_count_settled(edition, &planned[i], &all[i], true, false);
    }
}

size_t weir_limiter_settle_leases(const struct weir_edition *edition, struct weir_spend *spends,
                                  struct weir_planned *planned, size_t count)
{
    struct weir_spend all[WEIR_CHECK_LIMITS];
    if (edition->leases == NULL || count == 0)
        return count;
    memcpy(all, spends, count * sizeof all[0]);
    size_t left = weir_leases_settle(edition->leases, spends, count);
    const struct weir_check settled = { .operation = WEIR_SETTLE, .spends = all, .count = count };
    if (left < count)
        weir_denials_forget(edition->denials, &settled);
    part(edition, all, count, spends, left, planned);
    return left;
}
