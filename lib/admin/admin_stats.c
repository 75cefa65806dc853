/* The numbers of a limiter, for the admin API: what has been counted since the start. */
#include "admin/admin.h"

#include <string.h>

#include "admin/explain_internal.h"
#include "base/clock.h"
#include "observe/counts.h"
#include "store/store.h"

/* policies */

static json_t *rate_of(struct explaining *words, const struct weir_limit_rule *limit)
{
    const struct weir_spend spend = { .rate = limit->rate, .calendar = limit->calendar };
    if (limit->source == WEIR_RATE_PLAN)
        return json_string("plan");
    if (limit->source == WEIR_RATE_UNLIMITED)
        return json_string("unlimited");
    return weir_admin_string(weir_explain_rate(words, &spend));
}

static json_t *describe_limits(struct explaining *words, const struct weir_ruleset *ruleset)
{
    json_t *limits = json_array();
    for (size_t i = 0; i < ruleset->limit_count; i++) {
        const struct weir_limit_rule *limit = &ruleset->limits[i];
        json_array_append_new(limits,
                              json_pack("{s:s, s:o, s:s, s:o}", "name", limit->name, "by",
                                        weir_admin_string(weir_explain_by(words, &limit->by)),
                                        "algorithm", weir_explain_algorithm(limit->algorithm),
                                        "rate", rate_of(words, limit)));
    }
    return limits;
}

/* With no numbers yet. */
static json_t *describe_policy(struct explaining *words, const struct weir_ruleset *ruleset)
{
    return json_pack("{s:s, s:s, s:f, s:o, s:{}, s:{s:i, s:i}}", "name", ruleset->name, "mode",
                     weir_mode_name(weir_limiter_mode(words->edition, ruleset)), "enforce_percent",
                     (double)ruleset->enforce_ppm / 1e4, "limits", describe_limits(words, ruleset),
                     "decisions", "units", "spent", 0, "returned", 0);
}

/* Those that are in force, and that for guesses at keys. */
static json_t *describe_policies(const struct weir_edition *edition)
{
    const struct weir_policy *policy = edition->policy;
    struct explaining words = { .policy = policy, .edition = edition, .arena = weir_arena_new() };
    json_t *policies = json_array();
    for (size_t i = 0; words.arena != NULL && i < policy->ruleset_count; i++)
        json_array_append_new(policies, describe_policy(&words, &policy->rulesets[i]));
    if (words.arena != NULL && policy->identity.keys != NULL)
        json_array_append_new(policies, describe_policy(&words, &policy->guesses));
    weir_arena_free(words.arena);
    return policies;
}

/* numbers of policies */

static void add(json_t *object, const char *name, uint64_t by)
{
    json_int_t before = json_integer_value(json_object_get(object, name));
    if (by > 0 || json_object_get(object, name) == NULL)
        json_object_set_new(object, name, json_integer(before + (json_int_t)by));
}

static json_t *policy_of(json_t *policies, const char *name)
{
    json_t *policy;
    size_t index;
    json_array_foreach(policies, index, policy)
    {
        if (strcmp(json_string_value(json_object_get(policy, "name")), name) == 0)
            return policy;
    }
    return NULL;
}

static void add_sums(json_t *policy, const struct weir_limit_sums *sums)
{
    json_t *decisions = json_object_get(policy, "decisions");
    json_t *units = json_object_get(policy, "units");
    for (unsigned outcome = 0; outcome < WEIR_COUNTED_OUTCOMES; outcome++) {
        uint64_t count = 0;
        for (size_t source = 0; source < WEIR_SOURCES; source++)
            count += sums->decisions[outcome][source];
        if (count > 0 || outcome == WEIR_ALLOWED || outcome == WEIR_LIMITED)
            add(decisions, weir_outcome_name((enum weir_outcome)outcome), count);
    }
    for (size_t by_memory = 0; by_memory < 2; by_memory++) {
        add(units, "spent", sums->units[WEIR_UNITS_SPENT][by_memory]);
        add(units, "returned", sums->units[WEIR_UNITS_RETURNED][by_memory]);
    }
}

/* Decisions about no policy, such as an unknown key, stand under the name "". */
static void see_limit(void *self, const struct weir_limit_sums *sums)
{
    json_t *policies = self, *policy = policy_of(policies, sums->policy);
    if (policy == NULL && sums->policy[0] == '\0') {
        policy = json_pack("{s:s, s:s, s:f, s:[], s:{}, s:{s:i, s:i}}", "name", "", "mode",
                           "enforce", "enforce_percent", 100.0, "limits", "decisions", "units",
                           "spent", 0, "returned", 0);
        json_array_append_new(policies, policy);
    }
    if (policy != NULL)
        add_sums(policy, sums);
}

static json_t *gather_policies(struct weir_limiter *limiter, uint64_t *generation)
{
    const struct weir_edition *edition = weir_edition_take(&limiter->editions);
    json_t *policies = describe_policies(edition);
    *generation = edition->number;
    weir_edition_leave(edition);
    weir_counts_each(limiter->counts, see_limit, policies);
    return policies;
}

/* the rest */

static json_t *describe_latency(const struct weir_histogram_sums *sums)
{
    json_t *buckets = json_array();
    for (size_t i = 0; i < WEIR_HISTOGRAM_BOUNDS; i++)
        json_array_append_new(buckets,
                              json_pack("[f, I]", (double)weir_histogram_bounds_us[i] / 1e6,
                                        (json_int_t)sums->upto[i]));
    json_array_append_new(buckets, json_pack("[n, I]", (json_int_t)sums->count));
    return json_pack("{s:I, s:f, s:f, s:f, s:o}", "count", (json_int_t)sums->count, "sum_s",
                     (double)sums->sum_us / 1e6, "p50_s",
                     (double)weir_histogram_quantile_us(sums, 0.5) / 1e6, "p99_s",
                     (double)weir_histogram_quantile_us(sums, 0.99) / 1e6, "buckets", buckets);
}

static json_t *describe_store(struct weir_limiter *limiter)
{
    struct weir_store_state state;
    weir_limiter_state(limiter, &state);
    struct weir_store_sums sums = weir_counts_of_store(limiter->counts);
    json_t *store = weir_admin_store(&state);
    json_object_set_new(store, "latency", describe_latency(&sums.latency));
    return store;
}

static json_t *describe_leases(struct weir_limiter *limiter)
{
    struct weir_leases_numbers numbers = weir_leases_numbers(limiter->leases);
    return json_pack("{s:I, s:I, s:I}", "held", (json_int_t)numbers.held, "taken",
                     (json_int_t)numbers.taken, "given_back", (json_int_t)numbers.given_back);
}

/* Of the store, where that is this process's memory, and of the fallback. */
static json_t *describe_memory(struct weir_limiter *limiter)
{
    struct weir_store_numbers own = weir_store_numbers(limiter->store), other = { .keys = 0 };
    const struct weir_store *fallback = limiter->fallback;
    if (fallback != NULL)
        other = weir_store_numbers(fallback);
    return json_pack("{s:I, s:I, s:I}", "bytes", (json_int_t)(own.bytes + other.bytes), "evictions",
                     (json_int_t)(own.evictions + other.evictions), "keys",
                     (json_int_t)(own.keys + other.keys));
}

void weir_admin_stats(struct weir_admin *admin, struct weir_admin_job *job)
{
    struct weir_limiter *limiter = admin->limiter;
    struct weir_clock clock = weir_clock_or_system(NULL);
    uint64_t generation;
    json_t *policies = gather_policies(limiter, &generation);
    weir_admin_answer(
        job, json_pack("{s:I, s:I, s:s, s:o, s:o, s:I, s:{s:I}, s:o, s:o}", "time_us",
                       (json_int_t)weir_clock_now_us(&clock), "generation", (json_int_t)generation,
                       "instance", weir_admin_instance(admin), "policies", policies, "store",
                       describe_store(limiter), "parked", (json_int_t)job->parked, "denials",
                       "replayed", (json_int_t)weir_denials_numbers(limiter->denials).replayed,
                       "leases", describe_leases(limiter), "memory", describe_memory(limiter)));
}
