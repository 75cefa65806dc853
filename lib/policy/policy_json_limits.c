/* "policies": the limits that a route can name. */
#include <string.h>

#include "base/arena.h"
#include "policy/policy_json.h"

#define POLICIES_MAX 256

/* A limit while it is read. */
struct draft {
    struct weir_limit_rule *rule;
    struct weir_written_rate rate;
    uint64_t burst;
    bool is_exact;
    bool is_on_calendar;
};

/* its members */

static enum weir_code read_name(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    struct draft *draft = into;
    struct weir_text name;
    enum weir_code code = weir_read_text(reader, place, "a name such as \"burst\"", &name);
    if (code == WEIR_OK)
        code = weir_check_name(reader, place, name.at);
    return code == WEIR_OK ? weir_keep_text(reader, name, &draft->rule->name) : code;
}

static enum weir_code read_limit_by(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    struct draft *draft = into;
    return weir_read_by(reader, place, &draft->rule->by);
}

static enum weir_code read_rate(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    struct draft *draft = into;
    return weir_read_rate(reader, place, &draft->rate);
}

static enum weir_code read_algorithm(struct weir_reader *reader, const struct weir_place *place,
                                     void *into)
{
    static const char *const meanwhile = "use gcra or fixed-window";
    static const struct weir_choice choices[] = {
        { "gcra", WEIR_GCRA, NULL },
        { "fixed-window", WEIR_FIXED_WINDOW, NULL },
        { "token-bucket", WEIR_TOKEN_BUCKET, "use gcra, which lets the same requests through" },
        { "leaky-bucket", WEIR_LEAKY_BUCKET, meanwhile },
        { "sliding-counter", WEIR_SLIDING_COUNTER, meanwhile },
        { "sliding-log", WEIR_SLIDING_LOG, meanwhile },
    };
    struct draft *draft = into;
    int algorithm = WEIR_GCRA;
    enum weir_code code =
        weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &algorithm);
    draft->rule->algorithm = (enum weir_algorithm)algorithm;
    return code;
}

static enum weir_code read_limit_burst(struct weir_reader *reader, const struct weir_place *place,
                                       void *into)
{
    struct draft *draft = into;
    if (draft->rule->algorithm != WEIR_GCRA)
        return weir_refuse(
            reader, place, WEIR_E_VALUE,
            "\"burst\" is for gcra, and this limit is a fixed-window; leave it out.");
    if (draft->rate.kind != WEIR_WRITTEN_NUMBERS)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           draft->rate.kind == WEIR_WRITTEN_PLAN
                               ? "The rate comes from the plan, and so does the burst; write it "
                                 "there."
                               : "A rate of \"unlimited\" has no burst; leave one of them out.");
    return weir_read_burst(reader, place, &draft->burst);
}

static enum weir_code check_is_window(const struct weir_reader *reader,
                                      const struct weir_place *place, const struct draft *draft)
{
    if (draft->rule->algorithm == WEIR_FIXED_WINDOW)
        return WEIR_OK;
    return weir_refuse(reader, place, WEIR_E_VALUE,
                       "\"%s\" is for windows, and gcra has none; leave it out, or say "
                       "\"algorithm\": \"fixed-window\".",
                       place->name);
}

static enum weir_code read_start(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    static const struct weir_choice choices[] = { { "clock", 0, NULL }, { "first", 1, NULL } };
    struct draft *draft = into;
    int is_first = 0;
    enum weir_code code = check_is_window(reader, place, draft);
    if (code == WEIR_OK)
        code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &is_first);
    draft->rule->from_first = is_first != 0;
    return code;
}

static enum weir_code read_calendar(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    struct draft *draft = into;
    struct weir_text zone;
    enum weir_code code = check_is_window(reader, place, draft);
    if (code == WEIR_OK)
        code = weir_read_text(reader, place, "\"UTC\"", &zone);
    if (code != WEIR_OK)
        return code;
    if (!weir_text_equal(zone, WEIR_TEXT("UTC")))
        return weir_refuse(reader, place, WEIR_E_NOT_YET,
                           "The value is %s, and time zones arrive with a later version; use "
                           "\"UTC\".",
                           weir_show(place->value).text);
    if (draft->rule->from_first)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "A window cannot start with the first request and on the calendar too; "
                           "leave out \"calendar\" or \"start\".");
    draft->is_on_calendar = true;
    return WEIR_OK;
}

static enum weir_code read_count(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    (void)into;
    static const char *const meanwhile = "use \"all\", which counts every request";
    static const struct weir_choice choices[] = {
        { "all", 0, NULL },
        { "failures", 0, meanwhile },
        { "successes", 0, meanwhile },
    };
    int ignored;
    if (json_is_object(place->value))
        return weir_refuse(reader, place, WEIR_E_NOT_YET,
                           "Counting by status arrives with a later version; %s.", meanwhile);
    return weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &ignored);
}

static enum weir_code read_exact(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct draft *draft = into;
    return weir_read_bool(reader, place, &draft->is_exact);
}

/* one limit */

static void set_exact(struct weir_by *by)
{
    for (size_t i = 0; i < by->count; i++)
        for (size_t j = 0; j < by->parts[i].count; j++)
            by->parts[i].alternatives[j].exact = true;
}

static enum weir_code set_own_rate(const struct weir_reader *reader, const struct weir_place *place,
                                   const struct draft *draft)
{
    const struct weir_place rate = weir_place_member(place, "rate");
    const struct weir_place burst = weir_place_member(place, "burst");
    const struct weir_place *culprit = draft->burst > 0 ? &burst : &rate;
    draft->rule->source = WEIR_RATE_OWN;
    enum weir_code code =
        weir_make_rate(reader, culprit, &draft->rate, draft->burst, &draft->rule->rate);
    if (code == WEIR_OK && draft->is_on_calendar)
        code = weir_check_calendar(reader, &rate, draft->rate.window_us);
    return code;
}

static enum weir_code set_rate(const struct weir_reader *reader, const struct weir_place *place,
                               const struct draft *draft)
{
    switch (draft->rate.kind) {
    case WEIR_WRITTEN_NUMBERS:
        return set_own_rate(reader, place, draft);
    case WEIR_WRITTEN_PLAN:
        draft->rule->source = WEIR_RATE_PLAN;
        return weir_check_plans(reader, place, draft->rule, draft->is_on_calendar);
    case WEIR_WRITTEN_UNLIMITED:
        break;
    }
    draft->rule->source = WEIR_RATE_UNLIMITED;
    return WEIR_OK;
}

static enum weir_code read_limit(struct weir_reader *reader, const struct weir_place *place,
                                 struct weir_limit_rule *rule)
{
    static const char *const leave_out = "leave it out for now";
    static const struct weir_member members[] = {
        { "name", read_name, true, NULL },
        { "by", read_limit_by, true, NULL },
        { "rate", read_rate, true, NULL },
        { "algorithm", read_algorithm, false, NULL },
        { "burst", read_limit_burst, false, NULL }, /* behind "algorithm" and "rate" */
        { "start", read_start, false, NULL },
        { "calendar", read_calendar, false, NULL }, /* behind "start" */
        { "count", read_count, false, NULL },
        { "exact", read_exact, false, NULL },
        { "max_wait", NULL, false, leave_out },
        { "record", NULL, false, leave_out },
        { "penalty", NULL, false, leave_out },
        { "known", NULL, false, leave_out },
        { "lease", NULL, false, leave_out },
    };
    struct draft draft = { .rule = rule };
    enum weir_code code = weir_read_members(reader, place, members, WEIR_COUNT_OF(members), &draft);
    if (code == WEIR_OK)
        code = set_rate(reader, place, &draft);
    if (code == WEIR_OK && draft.is_exact)
        set_exact(&rule->by);
    return code;
}

/* the limits of one policy */

static enum weir_code check_names(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct weir_ruleset *ruleset)
{
    size_t last = ruleset->limit_count - 1;
    for (size_t i = 0; i < last; i++) {
        if (strcmp(ruleset->limits[i].name, ruleset->limits[last].name) != 0)
            continue;
        const struct weir_place limit = weir_place_item(place, last);
        const struct weir_place name = weir_place_member(&limit, "name");
        return weir_refuse(reader, &name, WEIR_E_VALUE,
                           "\"%s\" is the name of limit %zu of this policy too; wanted is one of "
                           "its own.",
                           ruleset->limits[i].name, i);
    }
    return WEIR_OK;
}

static enum weir_code read_limits(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    struct weir_ruleset *ruleset = into;
    size_t count = json_array_size(place->value);
    enum weir_code code = WEIR_OK;
    if (!json_is_array(place->value))
        return weir_refuse_type(reader, place, "a list of limits");
    if (count == 0 || count > WEIR_CHECK_LIMITS)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The list has %zu limits; wanted are 1 to 8.", count);
    ruleset->limits = weir_arena_array(reader->policy->arena, count, sizeof *ruleset->limits);
    if (ruleset->limits == NULL)
        return weir_refuse_memory(reader);

    for (size_t i = 0; i < count && code == WEIR_OK; i++) {
        const struct weir_place item = weir_place_item(place, i);
        code = read_limit(reader, &item, &ruleset->limits[i]);
        ruleset->limit_count = i + 1;
        if (code == WEIR_OK)
            code = check_names(reader, place, ruleset);
    }
    return code;
}

enum weir_code weir_read_mode(struct weir_reader *reader, const struct weir_place *place,
                              void *into)
{
    static const struct weir_choice choices[] = {
        { "enforce", WEIR_ENFORCE, NULL },
        { "shadow", WEIR_SHADOW, NULL },
        { "off", WEIR_OFF, NULL },
    };
    int mode = WEIR_ENFORCE;
    enum weir_code code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &mode);
    *(enum weir_mode *)into = (enum weir_mode)mode;
    return code;
}

static enum weir_code read_ruleset_mode(struct weir_reader *reader, const struct weir_place *place,
                                        void *into)
{
    struct weir_ruleset *ruleset = into;
    return weir_read_mode(reader, place, &ruleset->mode);
}

/* slots */

static bool is_same_part(const struct weir_by *one, const struct weir_by *other, size_t part)
{
    if (one->parts[part].count != other->parts[part].count)
        return false;
    for (size_t i = 0; i < one->parts[part].count; i++) {
        const struct weir_dimension *ours = &one->parts[part].alternatives[i];
        const struct weir_dimension *theirs = &other->parts[part].alternatives[i];
        if (ours->kind != theirs->kind || ours->exact != theirs->exact
            || !weir_text_equal(ours->name, theirs->name))
            return false;
    }
    return true;
}

static bool is_same_by(const struct weir_by *one, const struct weir_by *other)
{
    bool same = one->count == other->count;
    for (size_t i = 0; i < one->count && same; i++)
        same = is_same_part(one, other, i);
    return same;
}

/* Limits of one subject live in its slot; those of different subjects would be in different
 * slots, so they live in the policy's. */
static bool has_one_subject(const struct weir_ruleset *ruleset)
{
    for (size_t i = 1; i < ruleset->limit_count; i++)
        if (!is_same_by(&ruleset->limits[0].by, &ruleset->limits[i].by))
            return false;
    return true;
}

static enum weir_code read_slot(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    static const struct weir_choice choices[] = { { "policy", 0, NULL }, { "identity", 1, NULL } };
    struct weir_ruleset *ruleset = into;
    int is_identity = 0;
    enum weir_code code =
        weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &is_identity);
    ruleset->slot_is_identity = is_identity != 0;
    return code;
}

/* the policies */

static enum weir_code read_ruleset(struct weir_reader *reader, const struct weir_place *place,
                                   struct weir_ruleset *ruleset)
{
    static const char *const leave_out = "leave it out for now";
    static const struct weir_member members[] = {
        { "limits", read_limits, true, NULL },
        { "on_store_failure", NULL, false, NULL }, /* read when the routes are known */
        { "mode", read_ruleset_mode, false, NULL },
        { "slot", read_slot, false, NULL },
        { "preset", NULL, false, "write its limits out for now" },
        { "allow", NULL, false, leave_out },
        { "deny", NULL, false, leave_out },
        { "known", NULL, false, leave_out },
        { "penalty", NULL, false, leave_out },
        { "enforce_percent", NULL, false, "use \"mode\": \"shadow\" to try a policy out" },
        { "concurrency", NULL, false, leave_out },
    };
    enum weir_code code = weir_check_name(reader, place, place->name);
    if (code == WEIR_OK)
        code = weir_keep_text(reader, weir_text_from(place->name), &ruleset->name);
    if (code == WEIR_OK)
        code = weir_read_members(reader, place, members, WEIR_COUNT_OF(members), ruleset);
    if (code == WEIR_OK && json_object_get(place->value, "slot") == NULL)
        ruleset->slot_is_identity = has_one_subject(ruleset);
    return code;
}

enum weir_code weir_read_policies(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    (void)into;
    const char *name;
    json_t *value;
    struct weir_policy *policy = reader->policy;
    size_t count = json_object_size(place->value);
    if (!json_is_object(place->value))
        return weir_refuse_type(reader, place, "an object with an object for each policy");
    if (count > POLICIES_MAX)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "There are %zu policies; wanted are at most 256.", count);
    policy->rulesets = weir_arena_array(policy->arena, count, sizeof *policy->rulesets);
    if (policy->rulesets == NULL)
        return weir_refuse_memory(reader);

    json_object_foreach(place->value, name, value)
    {
        const struct weir_place at = { place, name, 0, value };
        if (strcmp(name, "comment") == 0)
            continue;
        enum weir_code code = read_ruleset(reader, &at, &policy->rulesets[policy->ruleset_count]);
        if (code != WEIR_OK)
            return code;
        policy->ruleset_count++;
    }
    return WEIR_OK;
}
