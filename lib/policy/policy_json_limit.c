/* One limit of a policy. */
#include <string.h>

#include "policy/policy_json.h"

#define MAX_WAIT_DEFAULT_US (UINT64_C(2) * 1000000)
#define MAX_WAIT_MOST_US    (UINT64_C(60) * 1000000)

/* A limit while it is read. */
struct draft {
    struct weir_limit_rule *rule;
    struct weir_written_rate rate;
    uint64_t burst;
    struct weir_windows windows;
    bool is_exact;
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
    static const struct weir_choice choices[] = {
        { "gcra", WEIR_GCRA },
        { "token-bucket", WEIR_TOKEN_BUCKET },
        { "leaky-bucket", WEIR_LEAKY_BUCKET },
        { "fixed-window", WEIR_FIXED_WINDOW },
        { "sliding-counter", WEIR_SLIDING_COUNTER },
        { "sliding-log", WEIR_SLIDING_LOG },
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
    if (!weir_has_burst(draft->rule->algorithm))
        return weir_refuse(reader, place, WEIR_E_VALUE, WEIR_NO_BURST,
                           weir_algorithm_word(draft->rule->algorithm));
    if (draft->rate.kind != WEIR_WRITTEN_NUMBERS)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           draft->rate.kind == WEIR_WRITTEN_PLAN
                               ? "The rate comes from the plan, and so does the burst; write it "
                                 "there."
                               : "A rate of \"unlimited\" has no burst; leave one of them out.");
    return weir_read_burst(reader, place, &draft->burst);
}

/* For members that mean something to one algorithm only. */
static enum weir_code check_is(const struct weir_reader *reader, const struct weir_place *place,
                               const struct draft *draft, enum weir_algorithm wanted)
{
    if (draft->rule->algorithm == wanted)
        return WEIR_OK;
    return weir_refuse(reader, place, WEIR_E_VALUE,
                       "\"%s\" is for %s, and this limit is a %s; leave it out, or say "
                       "\"algorithm\": \"%s\".",
                       place->name, weir_algorithm_word(wanted),
                       weir_algorithm_word(draft->rule->algorithm), weir_algorithm_word(wanted));
}

static enum weir_code read_start(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    static const struct weir_choice choices[] = { { "clock", 0 }, { "first", 1 } };
    struct draft *draft = into;
    int is_first = 0;
    enum weir_code code = check_is(reader, place, draft, WEIR_FIXED_WINDOW);
    if (code == WEIR_OK)
        code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &is_first);
    draft->rule->from_first = is_first != 0;
    return code;
}

static enum weir_code read_calendar(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    struct draft *draft = into;
    enum weir_code code = check_is(reader, place, draft, WEIR_FIXED_WINDOW);
    if (code == WEIR_OK)
        code = weir_read_zone(reader, place, &draft->windows.zone);
    if (code == WEIR_OK && draft->rule->from_first)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "A window cannot start with the first request and on the calendar too; "
                           "leave out \"calendar\" or \"start\".");
    return code;
}

static enum weir_code read_anchor(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    struct draft *draft = into;
    uint64_t day = 0;
    if (draft->windows.zone == NULL)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "\"anchor\" is the day of the month on which windows start, and the "
                           "limit has no \"calendar\"; add one, such as \"UTC\".");
    enum weir_code code = weir_read_integer(reader, place, 1, 31, &day);
    draft->windows.anchor_day = (unsigned)day;
    return code;
}

static enum weir_code read_max_wait(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    static const char *const wanted = "a duration from \"0s\" (no waiting) to \"60s\", such as "
                                      "\"2s\"";
    struct draft *draft = into;
    struct weir_text text;
    uint64_t wait_us;
    enum weir_code code = check_is(reader, place, draft, WEIR_LEAKY_BUCKET);
    if (code == WEIR_OK)
        code = weir_read_text(reader, place, wanted, &text);
    if (code != WEIR_OK)
        return code;
    if (!weir_duration_parse(text, &wait_us) || wait_us > MAX_WAIT_MOST_US)
        return weir_refuse_value(reader, place, wanted);
    draft->rule->max_wait_us = wait_us;
    return WEIR_OK;
}

static enum weir_code read_record(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    static const struct weir_choice choices[] = { { "admitted", 0 }, { "all", 1 } };
    struct draft *draft = into;
    int is_all = 0;
    enum weir_code code = check_is(reader, place, draft, WEIR_SLIDING_LOG);
    if (code == WEIR_OK)
        code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &is_all);
    draft->rule->logs_refusals = is_all != 0;
    return code;
}

static enum weir_code read_limit_count(struct weir_reader *reader, const struct weir_place *place,
                                       void *into)
{
    struct draft *draft = into;
    return weir_read_count(reader, place, &draft->rule->count);
}

static enum weir_code read_limit_on_success(struct weir_reader *reader,
                                            const struct weir_place *place, void *into)
{
    struct draft *draft = into;
    return weir_read_on_success(reader, place, draft->rule);
}

static enum weir_code read_limit_penalty(struct weir_reader *reader, const struct weir_place *place,
                                         void *into)
{
    struct draft *draft = into;
    return weir_read_penalty(reader, place, &draft->rule->penalty);
}

static enum weir_code read_limit_lease(struct weir_reader *reader, const struct weir_place *place,
                                       void *into)
{
    struct draft *draft = into;
    return weir_read_lease(reader, place, &draft->rule->lease);
}

static enum weir_code read_when(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    static const struct weir_choice choices[] = {
        { "always", WEIR_FOR_ALL },
        { "unknown", WEIR_FOR_UNKNOWN },
        { "known", WEIR_FOR_KNOWN },
    };
    struct draft *draft = into;
    int when = WEIR_FOR_ALL;
    enum weir_code code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &when);
    draft->rule->when = (enum weir_when)when;
    return code;
}

static enum weir_code read_refusal(struct weir_reader *reader, const struct weir_place *place,
                                   void *into)
{
    static const struct weir_choice choices[] = { { "reply", 0 }, { "handler", 1 } };
    struct draft *draft = into;
    int is_handlers = 0;
    enum weir_code code =
        weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &is_handlers);
    draft->rule->leaves_to_handler = is_handlers != 0;
    return code;
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
    if (code == WEIR_OK)
        code = weir_find_calendar(reader, &rate, &draft->windows, draft->rate.window_us,
                                  draft->rate.months, &draft->rule->calendar);
    return code;
}

static enum weir_code set_rate(const struct weir_reader *reader, const struct weir_place *place,
                               const struct draft *draft)
{
    switch (draft->rate.kind) {
    case WEIR_WRITTEN_NUMBERS:
        return set_own_rate(reader, place, draft);
    case WEIR_WRITTEN_PLAN:
        return weir_set_plans(reader, place, &draft->windows, draft->rule);
    case WEIR_WRITTEN_UNLIMITED:
        break;
    }
    draft->rule->source = WEIR_RATE_UNLIMITED;
    return WEIR_OK;
}

/* Whether any window of the limit is of months. */
static bool has_months(const struct weir_reader *reader, const struct draft *draft)
{
    const struct weir_policy *policy = reader->policy;
    bool has = draft->rate.kind == WEIR_WRITTEN_NUMBERS && draft->rate.months > 0;
    if (draft->rate.kind != WEIR_WRITTEN_PLAN)
        return has;
    for (size_t i = 0; i < policy->plan_count; i++)
        for (size_t j = 0; j < policy->plans[i].rate_count; j++)
            has = has
                  || (policy->plans[i].rates[j].months > 0
                      && strcmp(policy->plans[i].rates[j].limit, draft->rule->name) == 0);
    return has;
}

static enum weir_code check_anchor(const struct weir_reader *reader, const struct weir_place *place,
                                   const struct draft *draft)
{
    const struct weir_place anchor = weir_place_member(place, "anchor");
    if (anchor.value == NULL || has_months(reader, draft))
        return WEIR_OK;
    return weir_refuse(reader, &anchor, WEIR_E_VALUE,
                       "\"anchor\" is the day of the month on which windows start, and the limit "
                       "has no window of months; leave it out, or write a rate such as "
                       "\"100000/month\".");
}

/* What a limit has where the file does not say. */
static void set_rest(const struct weir_place *place, const struct draft *draft)
{
    if (draft->is_exact)
        set_exact(&draft->rule->by);
    if (draft->rule->algorithm == WEIR_LEAKY_BUCKET
        && json_object_get(place->value, "max_wait") == NULL)
        draft->rule->max_wait_us = MAX_WAIT_DEFAULT_US;
}

enum weir_code weir_read_limit(struct weir_reader *reader, const struct weir_place *place,
                               struct weir_limit_rule *rule)
{
    static const struct weir_member members[] = {
        { "name", read_name, true },
        { "by", read_limit_by, true },
        { "rate", read_rate, true },
        { "algorithm", read_algorithm, false },
        { "burst", read_limit_burst, false }, /* behind "algorithm" and "rate" */
        { "start", read_start, false },
        { "calendar", read_calendar, false }, /* behind "start" */
        { "anchor", read_anchor, false },     /* behind "calendar" */
        { "max_wait", read_max_wait, false },
        { "record", read_record, false },
        { "count", read_limit_count, false },
        { "on_success", read_limit_on_success, false },
        { "exact", read_exact, false },
        { "when", read_when, false },
        { "refusal", read_refusal, false },
        { "penalty", read_limit_penalty, false },
        { "lease", read_limit_lease, false },
    };
    struct draft draft = { .rule = rule };
    enum weir_code code = weir_read_members(reader, place, members, WEIR_COUNT_OF(members), &draft);
    draft.windows.limit = rule->name;
    if (code == WEIR_OK)
        code = set_rate(reader, place, &draft);
    if (code == WEIR_OK)
        code = check_anchor(reader, place, &draft);
    if (code == WEIR_OK)
        code = weir_check_lease(reader, place, rule);
    rule->is_of_preset = weir_is_of_preset(reader, json_object_get(place->value, "rate"));
    if (code == WEIR_OK)
        set_rest(place, &draft);
    return code;
}
