/* The limits of the policy that applies: which of them hold for the request, and what they say. */
#include "admin/explain_internal.h"
#include "headers/ratelimit.h"
#include "limit/algorithm.h"
#include "limit/label.h"
#include "policy/units.h"

/* names */

static const char *dimension_name(struct explaining *explaining, const struct weir_dimension *by)
{
    static const char *const names[] = {
        [WEIR_BY_IP] = "ip",         [WEIR_BY_API_KEY] = "api_key", [WEIR_BY_USER] = "user",
        [WEIR_BY_TENANT] = "tenant", [WEIR_BY_PLAN] = "plan",       [WEIR_BY_ROUTE] = "route",
        [WEIR_BY_GLOBAL] = "global", [WEIR_BY_HEADER] = "header",   [WEIR_BY_PARAM] = "param",
        [WEIR_BY_QUERY] = "query",   [WEIR_BY_FIELD] = "field",     [WEIR_BY_DEVICE] = "device",
    };
    if (by->name.at == NULL)
        return names[by->kind];
    return weir_explain_printf(explaining, "%s:%.*s", names[by->kind], WEIR_TEXT_ARGS(by->name));
}

/* "tenant|ip" */
static const char *part_name(struct explaining *explaining, const struct weir_dimension *first,
                             size_t count)
{
    const char *text = dimension_name(explaining, first);
    for (size_t i = 1; i < count; i++)
        text =
            weir_explain_printf(explaining, "%s|%s", text, dimension_name(explaining, &first[i]));
    return text;
}

const char *weir_explain_by(struct explaining *explaining, const struct weir_by *by)
{
    const char *text = part_name(explaining, by->parts[0].alternatives, by->parts[0].count);
    for (size_t i = 1; i < by->count; i++)
        text = weir_explain_printf(
            explaining, "%s + %s", text,
            part_name(explaining, by->parts[i].alternatives, by->parts[i].count));
    return text;
}

const char *weir_explain_algorithm(enum weir_algorithm algorithm)
{
    static const char *const names[] = {
        [WEIR_GCRA] = "gcra",
        [WEIR_TOKEN_BUCKET] = "token-bucket",
        [WEIR_LEAKY_BUCKET] = "leaky-bucket",
        [WEIR_FIXED_WINDOW] = "fixed-window",
        [WEIR_SLIDING_COUNTER] = "sliding-counter",
        [WEIR_SLIDING_LOG] = "sliding-log",
        [WEIR_PENALTY] = "penalty",
    };
    return names[algorithm];
}

/* numbers */

/* Of a calendar's windows only the longest has the length that stands in the rate. */
static const char *calendar_rate(struct explaining *explaining, const struct weir_spend *spend)
{
    static const char *const units[] = { [WEIR_CALENDAR_DAY] = "day",
                                         [WEIR_CALENDAR_WEEK] = "week",
                                         [WEIR_CALENDAR_MONTH] = "month",
                                         [WEIR_CALENDAR_YEAR] = "year" };
    const struct weir_kept_calendar *kept = explaining->policy->calendars;
    while (kept != NULL && kept->calendar != spend->calendar)
        kept = kept->next;
    if (kept == NULL)
        return NULL;
    if (kept->months > 1)
        return weir_explain_printf(explaining, "%llu/%umonths",
                                   (unsigned long long)spend->rate.limit, kept->months);
    return weir_explain_printf(explaining, "%llu/%s", (unsigned long long)spend->rate.limit,
                               units[kept->unit]);
}

const char *weir_explain_rate(struct explaining *explaining, const struct weir_spend *spend)
{
    char memory[64];
    const char *calendar = spend->calendar == NULL ? NULL : calendar_rate(explaining, spend);
    struct weir_buffer text = weir_buffer_init(memory, sizeof memory);
    const struct weir_written_rate written = { .limit = spend->rate.limit,
                                               .window_us = spend->rate.window_us };
    if (calendar != NULL)
        return calendar;
    weir_rate_print(&written, &text);
    return weir_explain_printf(explaining, "%.*s", WEIR_TEXT_ARGS(weir_buffer_text(&text)));
}

/* asking */

struct weir_asker weir_explain_asker(const struct explaining *explaining)
{
    bool is_read = explaining->reading == WEIR_BODY_READ && explaining->ruleset != NULL;
    return (struct weir_asker){ .policy = explaining->policy,
                                .identity = &explaining->identity,
                                .facts = &explaining->facts,
                                .match = &explaining->match,
                                .fields = explaining->fields,
                                .field_count = is_read ? explaining->ruleset->field_count : 0,
                                .device = explaining->known,
                                .prepared = explaining->edition->prepared };
}

const char *weir_explain_key(struct explaining *explaining, const struct weir_by *by)
{
    char memory[WEIR_SUBJECT_MAX + 1], label[WEIR_KEY_LABEL_CHARS];
    const struct weir_asker asker = weir_explain_asker(explaining);
    struct weir_buffer subject = weir_buffer_init(memory, sizeof memory);
    if (!weir_subject_write(by, &asker, &subject))
        return NULL;
    weir_subject_label(weir_buffer_text(&subject), &explaining->identity, label);
    return weir_explain_printf(explaining, "%s", label);
}

void weir_explain_check(struct explaining *explaining)
{
    struct explained_check *check = &explaining->check;
    const struct weir_asker asker = weir_explain_asker(explaining);
    weir_plan_init(&check->plan, check->keys, sizeof check->keys);
    check->cost = explaining->cost;
    if (!weir_plan_add(&check->plan, explaining->ruleset, &asker, 0))
        explaining->has_failed = true;
    weir_explain_look(explaining);
}

/* why a limit does not hold */

static const char *absent_part(struct explaining *explaining, const struct weir_by *by)
{
    for (size_t i = 0; i < by->count; i++) {
        struct weir_by part = { .count = 1 };
        part.parts[0] = by->parts[i];
        if (weir_explain_key(explaining, &part) == NULL)
            return weir_explain_printf(explaining, "the request has no %s",
                                       weir_explain_by(explaining, &part));
    }
    return "it is counted by nothing that the request has";
}

static const char *why_not(struct explaining *explaining, const struct weir_limit_rule *limit)
{
    struct weir_limit_numbers numbers;
    const struct weir_asker asker = weir_explain_asker(explaining);
    if (!weir_limit_is_for(limit, &asker))
        return limit->when == WEIR_FOR_KNOWN ? "it is for known devices" : "the device is known";
    if (!weir_limit_rate(explaining->policy, limit, explaining->identity.plan, &numbers))
        return limit->source == WEIR_RATE_PLAN ? "the plan does not limit it" : "it is unlimited";
    return absent_part(explaining, &limit->by);
}

/* telling */

static size_t index_of(const struct explained_check *check, const struct weir_limit_rule *limit)
{
    size_t i = 0;
    while (i < check->plan.count && check->plan.planned[i].limit != limit)
        i++;
    return i;
}

static void tell_rate(struct explaining *explaining, json_t *told,
                      const struct weir_limit_rule *limit, const struct weir_spend *spend)
{
    struct weir_limit_numbers numbers = { .plan = NULL };
    weir_limit_rate(explaining->policy, limit, explaining->identity.plan, &numbers);
    weir_explain_put_string(explaining, told, "rate", weir_explain_rate(explaining, spend));
    if (weir_has_burst(spend->algorithm))
        weir_explain_put_number(explaining, told, "burst", spend->rate.burst);
    weir_explain_put_string(explaining, told, "plan", numbers.plan);
}

static void tell_block(struct explaining *explaining, json_t *told, size_t i)
{
    const struct explained_check *check = &explaining->check;
    if (check->block_us[i] > 0)
        weir_explain_put_block(explaining, told, check->now_us + check->block_us[i],
                               weir_explain_block_of(explaining, &check->plan.spends[i]));
    if (check->ban_us[i] > 0)
        weir_explain_put_ban(explaining, told, check->now_us + check->ban_us[i]);
}

static void tell_state(struct explaining *explaining, json_t *told, size_t i)
{
    const struct explained_check *check = &explaining->check;
    const struct weir_answer *answer = &check->answers[i];
    const struct weir_quota quota =
        weir_limiter_quota(explaining->limiter, explaining->edition, &check->plan.planned[i],
                           &check->plan.spends[i], &check->seen[i]);
    weir_explain_put_number(explaining, told, "quota", quota.quota);
    weir_explain_put_number(explaining, told, "window_s", quota.window_s);
    if (check->result != WEIR_STORE_ANSWERED)
        return;
    weir_explain_put_number(explaining, told, "remaining", check->seen[i].remaining);
    weir_explain_put_number(explaining, told, "reset_us", check->seen[i].reset_us);
    weir_explain_put_bool(explaining, told, "passes", answer->allowed);
    weir_explain_put_bool(explaining, told, "impossible", answer->impossible);
    tell_block(explaining, told, i);
    if (answer->allowed || answer->impossible)
        return;
    /* Where it shows no wait of its own, all of it is back by then. */
    weir_explain_put_number(explaining, told,
                            check->is_retry_known[i] ? "retry_us" : "retry_most_us",
                            answer->retry_us);
}

static void tell_limit(struct explaining *explaining, json_t *limits,
                       const struct weir_limit_rule *limit)
{
    const struct explained_check *check = &explaining->check;
    size_t i = index_of(check, limit);
    bool applies = i < check->plan.count;
    json_t *told = weir_explain_append_object(explaining, limits);
    weir_explain_put_string(explaining, told, "name", limit->name);
    weir_explain_put_string(explaining, told, "by", weir_explain_by(explaining, &limit->by));
    weir_explain_put_bool(explaining, told, "applies", applies);
    if (!applies) {
        weir_explain_put_string(explaining, told, "why_not", why_not(explaining, limit));
        return;
    }
    weir_explain_put_string(explaining, told, "key", weir_explain_key(explaining, &limit->by));
    weir_explain_put_string(explaining, told, "algorithm",
                            weir_explain_algorithm(limit->algorithm));
    tell_rate(explaining, told, limit, &check->plan.spends[i]);
    tell_state(explaining, told, i);
}

void weir_explain_tell_limits(struct explaining *explaining)
{
    const struct weir_ruleset *ruleset = explaining->ruleset;
    json_t *limits = weir_explain_put_array(explaining, explaining->root, "limits");
    for (size_t i = 0; ruleset != NULL && i < ruleset->limit_count; i++)
        tell_limit(explaining, limits, &ruleset->limits[i]);
}

/* requests at once: told, not judged, since they come and go */

void weir_explain_tell_concurrency(struct explaining *explaining)
{
    const struct weir_ruleset *ruleset = explaining->ruleset;
    const struct weir_concurrency *rule = ruleset == NULL ? NULL : ruleset->concurrency;
    if (rule == NULL)
        return;
    json_t *told = weir_explain_put_object(explaining, explaining->root, "concurrency");
    if (rule->fixed > 0) {
        weir_explain_put_number(explaining, told, "at_once", rule->fixed);
        weir_explain_put_string(explaining, told, "by", weir_explain_by(explaining, &rule->by));
        weir_explain_put_string(explaining, told, "key", weir_explain_key(explaining, &rule->by));
    }
    struct weir_slots *slots =
        rule->adaptive == NULL ? NULL : weir_limiter_slots(explaining->limiter, rule->group);
    if (slots == NULL)
        return;
    struct weir_slots_numbers numbers = weir_slots_numbers(slots);
    weir_explain_put_string(explaining, told, "group", rule->group);
    weir_explain_put_number(explaining, told, "group_limit", numbers.limit);
    weir_explain_put_number(explaining, told, "group_under_way", numbers.in_flight);
}
