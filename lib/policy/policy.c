#include "policy/policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* matching */

/* What a CORS preflight meets where no route asks for OPTIONS. */
static const struct weir_route preflight = { .match = "preflight",
                                             .auth = WEIR_AUTH_NONE,
                                             .cost = 1 };

static bool takes_method(const struct weir_route *route, struct weir_text method)
{
    return route->method.at == NULL || weir_text_equal(route->method, method)
           || (weir_text_equal(route->method, WEIR_TEXT("GET"))
               && weir_text_equal(method, WEIR_TEXT("HEAD")));
}

bool weir_is_preflight(const struct weir_facts *facts)
{
    return weir_text_equal(facts->method, WEIR_TEXT("OPTIONS"))
           && weir_facts_header(facts, WEIR_TEXT("Access-Control-Request-Method")).at != NULL;
}

enum weir_route_fit weir_route_fits(const struct weir_route *route, const struct weir_facts *facts,
                                    bool is_free, struct weir_params *params)
{
    if (!takes_method(route, facts->method))
        return WEIR_ROUTE_OTHER_METHOD;
    if (is_free && route->method.at == NULL)
        return WEIR_ROUTE_NOT_FOR_PREFLIGHTS;
    return weir_pattern_match(&route->pattern, facts->path, params) ? WEIR_ROUTE_FITS
                                                                    : WEIR_ROUTE_OTHER_PATH;
}

void weir_policy_match(const struct weir_policy *policy, const struct weir_facts *facts,
                       struct weir_match *match)
{
    match->route = &policy->fallback;
    match->params.count = 0;
    match->params.rest = (struct weir_text){ NULL, 0 };
    if (facts->path.at == NULL)
        return;

    bool is_free = weir_is_preflight(facts);
    for (size_t i = 0; i < policy->route_count; i++) {
        const struct weir_route *route = &policy->routes[i];
        if (weir_route_fits(route, facts, is_free, &match->params) != WEIR_ROUTE_FITS)
            continue;
        match->route = route;
        return;
    }
    if (is_free)
        match->route = &preflight;
}

/* lists of clients */

const struct weir_ruleset *weir_policy_ruleset(const struct weir_policy *policy, const char *name)
{
    for (size_t i = 0; i < policy->ruleset_count; i++)
        if (strcmp(policy->rulesets[i].name, name) == 0)
            return &policy->rulesets[i];
    bool has_guesses = policy->identity.keys != NULL && strcmp(policy->guesses.name, name) == 0;
    return has_guesses ? &policy->guesses : NULL;
}

static bool holds_name(const struct weir_names *names, struct weir_text name)
{
    for (size_t i = 0; name.length > 0 && i < names->count; i++)
        if (weir_text_equal(name, weir_text_from(names->names[i])))
            return true;
    return false;
}

static bool holds_address(const struct weir_client_list *list, const struct weir_address *address)
{
    for (size_t i = 0; i < list->network_count; i++)
        if (weir_network_contains(&list->networks[i], address))
            return true;
    return false;
}

const char *weir_list_names(const struct weir_client_list *list,
                            const struct weir_identity *identity)
{
    const struct weir_api_key *key = identity->api_key;
    if (list == NULL)
        return NULL;
    if (holds_address(list, &identity->client))
        return "address";
    if (key != NULL && holds_name(&list->api_keys, weir_text_from(key->id)))
        return "API key";
    if (holds_name(&list->tenants, identity->tenant))
        return "tenant";
    return holds_name(&list->users, identity->user) ? "user" : NULL;
}

/* numbers */

const struct weir_plan *weir_policy_plan(const struct weir_policy *policy, struct weir_text name)
{
    for (size_t i = 0; name.at != NULL && i < policy->plan_count; i++)
        if (weir_text_equal(name, weir_text_from(policy->plans[i].name)))
            return &policy->plans[i];
    return policy->default_plan;
}

const char *weir_policy_plan_name(const struct weir_policy *policy, struct weir_text plan)
{
    const struct weir_plan *found = weir_policy_plan(policy, plan);
    return found == NULL ? NULL : found->name;
}

static bool plan_rate(const struct weir_plan *plan, const struct weir_limit_rule *limit,
                      struct weir_limit_numbers *numbers)
{
    for (size_t i = 0; i < plan->rate_count; i++) {
        const struct weir_plan_rate *found = &plan->rates[i];
        if (strcmp(found->limit, limit->name) != 0)
            continue;
        if (found->unlimited)
            return false;
        numbers->rate = found->rate;
        numbers->plan = plan->name;
        numbers->calendar =
            limit->plan_calendars == NULL ? NULL : limit->plan_calendars[plan->index];
        return true;
    }
    return false;
}

bool weir_limit_rate_in(const struct weir_limit_rule *limit, const struct weir_plan *plan,
                        struct weir_limit_numbers *numbers)
{
    switch (limit->source) {
    case WEIR_RATE_OWN:
        *numbers = (struct weir_limit_numbers){ limit->rate, limit->calendar, NULL };
        return true;
    case WEIR_RATE_PLAN:
        return plan != NULL && plan_rate(plan, limit, numbers);
    case WEIR_RATE_UNLIMITED:
        break;
    }
    return false;
}

bool weir_limit_rate(const struct weir_policy *policy, const struct weir_limit_rule *limit,
                     struct weir_text plan, struct weir_limit_numbers *numbers)
{
    bool is_planned = limit->source == WEIR_RATE_PLAN;
    return weir_limit_rate_in(limit, is_planned ? weir_policy_plan(policy, plan) : NULL, numbers);
}

/* outcomes */

static uint64_t units_in_table(const struct weir_count *count, unsigned status)
{
    uint64_t units = 1;
    for (size_t i = 0; i < count->table_count; i++) {
        if (count->table[i].status == status)
            return count->table[i].units;
        if (count->table[i].status == status / 100)
            units = count->table[i].units;
    }
    return units;
}

static uint64_t units_of_status(const struct weir_count *count, unsigned status)
{
    switch (count->kind) {
    case WEIR_COUNT_ALL:
        break;
    case WEIR_COUNT_FAILURES:
        return status >= 400;
    case WEIR_COUNT_SUCCESSES:
        return status < 400;
    case WEIR_COUNT_TABLE:
        return units_in_table(count, status);
    }
    return 1;
}

uint64_t weir_count_units(const struct weir_limit_rule *limit, unsigned status, uint64_t cost)
{
    uint64_t units;
    if (__builtin_mul_overflow(units_of_status(&limit->count, status), cost, &units))
        return WEIR_UNITS_MAX;
    return units < WEIR_UNITS_MAX ? units : WEIR_UNITS_MAX;
}

/* shares */

/* Who mistypes twice, and then gets it right. */
#define TRIES UINT64_C(3)

static bool is_failure(unsigned status)
{
    return status >= 400 || status == 4 || status == 5;
}

bool weir_counts_failures(const struct weir_limit_rule *limit)
{
    const struct weir_count *count = &limit->count;
    if (count->kind != WEIR_COUNT_TABLE)
        return count->kind == WEIR_COUNT_FAILURES;
    /* What is not in a table counts, so successes have to be there to be free. */
    for (size_t i = 0; i < count->table_count; i++)
        if (!is_failure(count->table[i].status) && count->table[i].units > 0)
            return false;
    return units_in_table(count, 200) == 0;
}

uint64_t weir_limit_share(const struct weir_limit_rule *limit, uint64_t units, unsigned instances)
{
    uint64_t least = limit->is_for_tries ? TRIES : 1;
    uint64_t share = units / instances;
    if (share >= least)
        return share;
    return units < least ? units : least;
}

/* the whole */

const char *weir_mode_name(enum weir_mode mode)
{
    static const char *const names[] = {
        [WEIR_ENFORCE] = "enforce", [WEIR_SHADOW] = "shadow", [WEIR_OFF] = "off"
    };
    return names[mode];
}

size_t weir_policy_warning_count(const struct weir_policy *policy)
{
    return policy->warning_count;
}

const struct weir_error *weir_policy_warning(const struct weir_policy *policy, size_t index)
{
    return index < policy->warning_count ? &policy->warnings[index] : NULL;
}

const char *weir_policy_store_url(const struct weir_policy *policy)
{
    return policy->store_shown;
}

size_t weir_policy_file_count(const struct weir_policy *policy)
{
    return policy->file_count;
}

const char *weir_policy_file(const struct weir_policy *policy, size_t index)
{
    return index < policy->file_count ? policy->files[index] : NULL;
}

const char *weir_policy_text(const struct weir_policy *policy)
{
    return policy->text;
}

struct weir_policy *weir_policy_free(struct weir_policy *policy)
{
    if (policy == NULL)
        return NULL;
    for (size_t i = 0; i < policy->route_count; i++)
        weir_pattern_finish(&policy->routes[i].pattern);
    for (struct weir_kept_calendar *kept = policy->calendars; kept != NULL; kept = kept->next)
        weir_calendar_free(kept->calendar);
    weir_identity_rules_finish(&policy->identity);
    weir_arena_free(policy->arena);
    free(policy->text);
    free(policy);
    return NULL;
}
