/* "plans" and "default_plan": the numbers of limits whose rate is "plan". */
#include <string.h>

#include "base/arena.h"
#include "policy/policy_json.h"

#define PLANS_MAX      1024
#define PLAN_RATES_MAX 64

/* one rate: "1000/day" or {"rate": "5/second", "burst": 10} */

struct draft {
    struct weir_written_rate rate;
    uint64_t burst;
};

static enum weir_code read_rate(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    struct draft *draft = into;
    enum weir_code code = weir_read_rate(reader, place, &draft->rate);
    if (code == WEIR_OK && draft->rate.kind == WEIR_WRITTEN_PLAN)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The value is \"plan\", and this is the plan; wanted is a rate such as "
                           "\"100/minute\", or \"unlimited\".");
    return code;
}

static enum weir_code read_burst(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct draft *draft = into;
    if (draft->rate.kind == WEIR_WRITTEN_UNLIMITED)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "A rate of \"unlimited\" has no burst; leave one of them out.");
    return weir_read_burst(reader, place, &draft->burst);
}

static enum weir_code read_plan_rate(struct weir_reader *reader, const struct weir_place *place,
                                     struct weir_plan_rate *rate)
{
    static const struct weir_member members[] = {
        { "rate", read_rate, true },
        { "burst", read_burst, false },
    };
    struct draft draft = { .burst = 0 };
    enum weir_code code;
    if (json_is_object(place->value))
        code = weir_read_members(reader, place, members, WEIR_COUNT_OF(members), &draft);
    else if (json_is_string(place->value))
        code = read_rate(reader, place, &draft);
    else
        return weir_refuse_type(reader, place,
                                "a rate such as \"1000/day\" or {\"rate\": \"5/second\", "
                                "\"burst\": 10}");
    if (code != WEIR_OK)
        return code;
    rate->unlimited = draft.rate.kind == WEIR_WRITTEN_UNLIMITED;
    rate->months = draft.rate.months;
    return rate->unlimited ? WEIR_OK
                           : weir_make_rate(reader, place, &draft.rate, draft.burst, &rate->rate);
}

/* one plan */

static enum weir_code read_plan(struct weir_reader *reader, const struct weir_place *place,
                                struct weir_plan *plan)
{
    const char *name;
    json_t *value;
    size_t count = json_object_size(place->value);
    enum weir_code code = weir_check_name(reader, place, place->name);
    if (code == WEIR_OK)
        code = weir_keep_text(reader, weir_text_from(place->name), &plan->name);
    if (code != WEIR_OK)
        return code;
    if (!json_is_object(place->value))
        return weir_refuse_type(reader, place, "an object with a rate for each limit");
    if (count > PLAN_RATES_MAX)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The plan has %zu rates; wanted are at most 64.", count);
    plan->rates = weir_arena_array(reader->policy->arena, count, sizeof *plan->rates);
    if (plan->rates == NULL)
        return weir_refuse_memory(reader);

    json_object_foreach(place->value, name, value)
    {
        const struct weir_place at = { place, name, 0, value };
        struct weir_plan_rate *rate = &plan->rates[plan->rate_count];
        if (strcmp(name, "comment") == 0)
            continue;
        code = weir_check_name(reader, &at, name);
        if (code == WEIR_OK)
            code = weir_keep_text(reader, weir_text_from(name), &rate->limit);
        if (code == WEIR_OK)
            code = read_plan_rate(reader, &at, rate);
        if (code != WEIR_OK)
            return code;
        plan->rate_count++;
    }
    return WEIR_OK;
}

enum weir_code weir_read_plans(struct weir_reader *reader, const struct weir_place *place,
                               void *into)
{
    (void)into;
    const char *name;
    json_t *value;
    struct weir_policy *policy = reader->policy;
    size_t count = json_object_size(place->value);
    if (!json_is_object(place->value))
        return weir_refuse_type(reader, place, "an object with an object for each plan");
    if (count > PLANS_MAX)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "There are %zu plans; wanted are at most 1024.", count);
    policy->plans = weir_arena_array(policy->arena, count, sizeof *policy->plans);
    if (policy->plans == NULL)
        return weir_refuse_memory(reader);

    json_object_foreach(place->value, name, value)
    {
        const struct weir_place at = { place, name, 0, value };
        if (strcmp(name, "comment") == 0)
            continue;
        policy->plans[policy->plan_count].index = policy->plan_count;
        enum weir_code code = read_plan(reader, &at, &policy->plans[policy->plan_count]);
        if (code != WEIR_OK)
            return code;
        policy->plan_count++;
    }
    /* jansson keeps members in the order in which they were written. */
    policy->default_plan = policy->plan_count > 0 ? &policy->plans[0] : NULL;
    return WEIR_OK;
}

enum weir_code weir_read_default_plan(struct weir_reader *reader, const struct weir_place *place,
                                      void *into)
{
    (void)into;
    struct weir_policy *policy = reader->policy;
    struct weir_text name;
    enum weir_code code = weir_read_text(reader, place, "the name of a plan", &name);
    if (code != WEIR_OK)
        return code;
    for (size_t i = 0; i < policy->plan_count; i++) {
        if (strcmp(policy->plans[i].name, name.at) != 0)
            continue;
        policy->default_plan = &policy->plans[i];
        return WEIR_OK;
    }
    return weir_refuse(reader, place, WEIR_E_REFERENCE,
                       "The value is %s, which is no name in \"plans\".",
                       weir_show(place->value).text);
}

/* limits and plans */

static const struct weir_plan_rate *find_rate(const struct weir_plan *plan, const char *limit)
{
    for (size_t i = 0; i < plan->rate_count; i++)
        if (strcmp(plan->rates[i].limit, limit) == 0)
            return &plan->rates[i];
    return NULL;
}

static enum weir_code refuse_plan(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct weir_place *limit, const char *name)
{
    char pointer[WEIR_POINTER_BYTES];
    return weir_refuse(reader, place, WEIR_E_MISSING,
                       "The plan \"%s\" has no \"%s\", and the limit at %s takes its rate from "
                       "the plan; give it a rate, or \"unlimited\".",
                       place->name, name, weir_place_pointer(limit, pointer));
}

/* Sees to it that a plan has numbers that fit the limit, and finds the calendar that they need. */
static enum weir_code set_plan(const struct weir_reader *reader, const struct weir_place *plans,
                               const struct weir_plan *plan, const struct weir_place *limit,
                               const struct weir_windows *windows, struct weir_limit_rule *rule)
{
    const struct weir_calendar *calendar = NULL;
    const struct weir_place at = weir_place_member(plans, plan->name);
    const struct weir_plan_rate *found = find_rate(plan, rule->name);
    if (found == NULL)
        return refuse_plan(reader, &at, limit, rule->name);
    if (found->unlimited)
        return WEIR_OK;

    const struct weir_place rate = weir_place_member(&at, rule->name);
    if (!weir_has_burst(rule->algorithm) && found->rate.burst != found->rate.limit)
        return weir_refuse(reader, &rate, WEIR_E_VALUE, WEIR_NO_BURST_IN_PLAN, rule->name,
                           weir_algorithm_word(rule->algorithm));
    enum weir_code code =
        weir_find_calendar(reader, &rate, windows, found->rate.window_us, found->months, &calendar);
    if (calendar != NULL)
        rule->plan_calendars[plan->index] = calendar;
    return code;
}

enum weir_code weir_set_plans(const struct weir_reader *reader, const struct weir_place *limit,
                              const struct weir_windows *windows, struct weir_limit_rule *rule)
{
    const struct weir_policy *policy = reader->policy;
    const struct weir_place plans = weir_place_member(reader->root, "plans");
    const struct weir_place rate = weir_place_member(limit, "rate");
    enum weir_code code = WEIR_OK;
    rule->source = WEIR_RATE_PLAN;
    if (policy->plan_count == 0)
        return weir_refuse(reader, &rate, WEIR_E_REFERENCE,
                           "The value is \"plan\", but there are no \"plans\" to take it from.");
    if (windows->zone != NULL) {
        rule->plan_calendars = weir_arena_array(reader->policy->arena, policy->plan_count,
                                                sizeof(const struct weir_calendar *));
        if (rule->plan_calendars == NULL)
            return weir_refuse_memory(reader);
    }
    for (size_t i = 0; i < policy->plan_count && code == WEIR_OK; i++)
        code = set_plan(reader, &plans, &policy->plans[i], limit, windows, rule);
    return code;
}
