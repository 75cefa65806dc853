/* "lease": units of a limit that are taken in blocks, ahead of their use. */
#include <string.h>

#include "base/arena.h"
#include "policy/policy_json.h"

#define WANTED           "\"auto\", or an object such as {\"batch\": 50, \"low_water\": 0.2}"
#define WANTED_BATCH     "\"auto\", or a whole number from 1 to 1000000000"
#define WANTED_LOW_WATER "a number from 0 to 0.9, the part of a block that is left"
#define WANTED_SHARE     "a number above 0, and up to 0.5, the part of the limit in one block"
#define LOW_WATER_PPM    200000
#define PPM              1000000

/* A lease while it is read. */
struct draft {
    struct weir_lease lease;
    bool has_batch;
};

static enum weir_code read_part(const struct weir_reader *reader, const struct weir_place *place,
                                double least, double most, const char *wanted, uint32_t *ppm)
{
    if (!json_is_number(place->value))
        return weir_refuse_type(reader, place, wanted);
    double part = json_number_value(place->value);
    if (!(part >= least && part <= most))
        return weir_refuse_value(reader, place, wanted);
    *ppm = (uint32_t)(part * PPM + 0.5);
    return WEIR_OK;
}

static enum weir_code read_batch(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct draft *draft = into;
    draft->has_batch = true;
    if (json_is_string(place->value) && strcmp(json_string_value(place->value), "auto") == 0)
        return WEIR_OK;
    if (!json_is_number(place->value))
        return weir_refuse_type(reader, place, WANTED_BATCH);
    if (!json_is_integer(place->value) || json_integer_value(place->value) < 1
        || json_integer_value(place->value) > (json_int_t)WEIR_UNITS_MAX)
        return weir_refuse_value(reader, place, WANTED_BATCH);
    draft->lease.batch = (uint64_t)json_integer_value(place->value);
    return WEIR_OK;
}

static enum weir_code read_low_water(struct weir_reader *reader, const struct weir_place *place,
                                     void *into)
{
    struct draft *draft = into;
    return read_part(reader, place, 0, 0.9, WANTED_LOW_WATER, &draft->lease.low_water_ppm);
}

static enum weir_code read_share(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct draft *draft = into;
    if (draft->lease.batch > 0)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "\"share\" bounds blocks that are sized as each key needs, and this "
                           "\"batch\" is a number; leave one of them out.");
    return read_part(reader, place, 1.0 / PPM, 0.5, WANTED_SHARE, &draft->lease.share_ppm);
}

static enum weir_code read_object(struct weir_reader *reader, const struct weir_place *place,
                                  struct draft *draft)
{
    static const struct weir_member members[] = {
        { "batch", read_batch, true },
        { "low_water", read_low_water, false },
        { "share", read_share, false }, /* behind "batch" */
    };
    return weir_read_members(reader, place, members, WEIR_COUNT_OF(members), draft);
}

enum weir_code weir_read_lease(struct weir_reader *reader, const struct weir_place *place,
                               void *into)
{
    struct draft draft = { .lease = { .low_water_ppm = LOW_WATER_PPM } };
    const char *word = json_string_value(place->value);
    enum weir_code code = WEIR_OK;
    if (word != NULL && strcmp(word, "auto") != 0)
        return weir_refuse_value(reader, place, WANTED);
    if (word == NULL && !json_is_object(place->value))
        return weir_refuse_type(reader, place, WANTED);
    if (word == NULL)
        code = read_object(reader, place, &draft);
    if (code != WEIR_OK)
        return code;
    struct weir_lease *lease = weir_arena_array(reader->policy->arena, 1, sizeof *lease);
    if (lease == NULL)
        return weir_refuse_memory(reader);
    *lease = draft.lease;
    *(const struct weir_lease **)into = lease;
    return WEIR_OK;
}

/* what cannot be leased */

/* A leaky bucket gives each request a moment of its own; and what is taken from a sliding window and
 * spent later would be counted too early. */
static bool is_leasable(enum weir_algorithm algorithm)
{
    return algorithm == WEIR_GCRA || algorithm == WEIR_TOKEN_BUCKET
           || algorithm == WEIR_FIXED_WINDOW;
}

/* What refusals, and replies, do to other requests has to be seen by all processes at once. */
static const char *what_hinders(const struct weir_limit_rule *rule)
{
    if (weir_counts_outcome(rule))
        return "\"count\" by outcome";
    if (rule->on_success != WEIR_SETTLES)
        return "\"on_success\"";
    return rule->penalty != NULL ? "a \"penalty\"" : NULL;
}

/* A batch that is more than the limit holds in one of its plans, or at all. */
static enum weir_code check_batch(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct weir_limit_rule *rule)
{
    const struct weir_policy *policy = reader->policy;
    bool is_planned = rule->source == WEIR_RATE_PLAN;
    for (size_t i = 0; i < (is_planned ? policy->plan_count : 1); i++) {
        struct weir_limit_numbers numbers;
        const struct weir_plan *plan = is_planned ? &policy->plans[i] : NULL;
        if (!weir_limit_rate_in(rule, plan, &numbers) || numbers.rate.limit == 0
            || rule->lease->batch <= numbers.rate.burst)
            continue;
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "A block of %llu is more than the limit holds%s%s%s, which is %llu; "
                           "wanted is a small part of that, or \"auto\".",
                           (unsigned long long)rule->lease->batch,
                           plan == NULL ? "" : " in the plan \"", plan == NULL ? "" : plan->name,
                           plan == NULL ? "" : "\"", (unsigned long long)numbers.rate.burst);
    }
    return WEIR_OK;
}

enum weir_code weir_check_lease(const struct weir_reader *reader, const struct weir_place *limit,
                                const struct weir_limit_rule *rule)
{
    const struct weir_place place = weir_place_member(limit, "lease");
    if (rule->lease == NULL)
        return WEIR_OK;
    if (!is_leasable(rule->algorithm))
        return weir_refuse(reader, &place, WEIR_E_VALUE,
                           "A %s cannot be leased: units that are taken before they are spent "
                           "would count at the wrong time. Leave \"lease\" out, or use gcra, "
                           "token-bucket or fixed-window.",
                           weir_algorithm_word(rule->algorithm));
    const char *hindrance = what_hinders(rule);
    if (hindrance != NULL)
        return weir_refuse(reader, &place, WEIR_E_VALUE,
                           "A limit with %s cannot be leased: every process has to see at once "
                           "what a request has come to. Leave one of them out.",
                           hindrance);
    return check_batch(reader, &place, rule);
}
