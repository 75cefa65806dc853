/* Why a request was answered as it was: by what was kept of the decision. The route, and what a limit
 * is in numbers, are told of the policy that is in force now. */
#include "admin/explain.h"

#include <stdlib.h>
#include <string.h>

#include <weir/decisions.h>

#include "admin/explain_internal.h"
#include "limit/gcra.h"
#include "request/path.h"

/* Fewer refusals of one client may be chance. */
#define STORM_MIN 10
#define SEEN_MAX  64

struct remembering {
    struct explaining explaining;
    struct weir_recent_decision recent;
    const struct weir_limit_rule *rule; /* of the limit that refused, by its name; NULL: gone */
    struct weir_spend spend;            /* its numbers                                        */
    bool has_numbers;
    const json_t *block; /* of its key, as it is now; NULL: none is listed            */
    enum { SUM, BLOCK, BAN } refuser;
};

/* of the policy in force */

static const struct weir_ruleset *find_ruleset(const struct weir_policy *policy, const char *name)
{
    return name == NULL ? NULL : weir_policy_ruleset(policy, name);
}

static const struct weir_limit_rule *find_rule(const struct weir_ruleset *ruleset, const char *name)
{
    for (size_t i = 0; ruleset != NULL && name != NULL && i < ruleset->limit_count; i++)
        if (strcmp(ruleset->limits[i].name, name) == 0)
            return &ruleset->limits[i];
    return NULL;
}

static bool try_numbers(struct remembering *remembering, struct weir_text plan)
{
    struct weir_limit_numbers numbers;
    const struct weir_limit_rule *rule = remembering->rule;
    if (!weir_limit_rate(remembering->explaining.policy, rule, plan, &numbers))
        return false;
    remembering->spend = (struct weir_spend){ .algorithm = rule->algorithm,
                                              .rate = numbers.rate,
                                              .calendar = numbers.calendar,
                                              .from_first = rule->from_first,
                                              .logs_refusals = rule->logs_refusals,
                                              .max_wait_us = rule->max_wait_us };
    return weir_capacity(&remembering->spend) == remembering->recent.decision.quota;
}

/* The numbers that were announced are those of the limit, or of one of the plans. */
static void find_numbers(struct remembering *remembering)
{
    const struct weir_policy *policy = remembering->explaining.policy;
    if (remembering->rule == NULL)
        return;
    remembering->has_numbers = try_numbers(remembering, (struct weir_text){ NULL, 0 });
    for (size_t i = 0; i < policy->plan_count && !remembering->has_numbers; i++)
        remembering->has_numbers = try_numbers(remembering, weir_text_from(policy->plans[i].name));
}

/* The longest that the limit itself makes anybody wait. */
static uint64_t longest_wait_us(const struct weir_spend *spend)
{
    if (weir_has_burst(spend->algorithm))
        return weir_gcra_span(&spend->rate, spend->rate.burst).us + spend->max_wait_us + 1;
    return spend->rate.window_us * (spend->algorithm == WEIR_SLIDING_COUNTER ? 2 : 1);
}

/* A wait that no sum of the limit's can bring. */
static bool is_too_long(const struct remembering *remembering)
{
    const struct weir_decision *decision = &remembering->recent.decision;
    return remembering->has_numbers && decision->would == WEIR_LIMITED
           && decision->retry_us > longest_wait_us(&remembering->spend);
}

/* What has refused: an operator's block that is listed still, or what else the wait tells of. */
static void find_block(struct remembering *remembering)
{
    struct explaining *explaining = &remembering->explaining;
    const struct weir_decision *decision = &remembering->recent.decision;
    if (decision->would != WEIR_LIMITED && decision->would != WEIR_IMPOSSIBLE)
        return;
    remembering->block = weir_explain_block_of_decision(
        explaining, find_ruleset(explaining->policy, decision->policy), decision);
    if (remembering->block != NULL && weir_explain_has_refused(remembering->block, decision))
        remembering->refuser = BLOCK;
    else if (is_too_long(remembering))
        remembering->refuser = remembering->rule->penalty != NULL ? BAN : BLOCK;
}

/* telling */

static void tell_request(struct remembering *remembering)
{
    struct explaining *explaining = &remembering->explaining;
    const struct weir_decision *decision = &remembering->recent.decision;
    json_t *request = weir_explain_put_object(explaining, explaining->root, "request");
    weir_explain_put_string(explaining, request, "id", decision->request_id);
    weir_explain_put_string(explaining, request, "method", decision->method);
    weir_explain_put_string(explaining, request, "path", decision->path);
}

/* What has no normalised form stands there as it was sent, and no route was looked for. */
static struct weir_text normal_path(struct explaining *explaining, const char *path)
{
    struct weir_text sent = weir_text_from(path);
    char *memory = weir_arena_array(explaining->arena, sent.length + 2, 1);
    struct weir_buffer normal = weir_buffer_init(memory, sent.length + 2);
    if (memory == NULL)
        explaining->has_failed = true;
    else if (weir_path_normalise(sent, WEIR_PATH_DECODED, &normal))
        return weir_buffer_text(&normal);
    return (struct weir_text){ NULL, 0 };
}

/* Of long paths only the beginning is kept. */
static bool is_cut(const char *path)
{
    size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, "...") == 0;
}

/* Whether the route that is found now can be the one that it took: the policy may have been replaced
 * since, and a preflight's headers are not kept. */
static bool is_same_route(const struct remembering *remembering)
{
    const struct explaining *explaining = &remembering->explaining;
    const struct weir_ruleset *ruleset = explaining->match.route->ruleset;
    const char *policy = remembering->recent.decision.policy;
    return policy == NULL || strcmp(policy, explaining->policy->guesses.name) == 0
           || (ruleset != NULL && strcmp(policy, ruleset->name) == 0);
}

static void tell_route(struct remembering *remembering)
{
    struct explaining *explaining = &remembering->explaining;
    const struct weir_decision *decision = &remembering->recent.decision;
    explaining->facts.method = weir_text_from(decision->method == NULL ? "" : decision->method);
    if (decision->path == NULL || is_cut(decision->path))
        return;
    explaining->facts.path = normal_path(explaining, decision->path);
    weir_policy_match(explaining->policy, &explaining->facts, &explaining->match);
    if (is_same_route(remembering))
        weir_explain_tell_routes(explaining);
}

/* Requests at once are no limit of a rate. */
static void tell_busy(struct remembering *remembering)
{
    struct explaining *explaining = &remembering->explaining;
    const struct weir_decision *decision = &remembering->recent.decision;
    const struct weir_ruleset *ruleset = find_ruleset(explaining->policy, decision->policy);
    const struct weir_concurrency *rule = ruleset == NULL ? NULL : ruleset->concurrency;
    json_t *told = weir_explain_put_object(explaining, explaining->root, "concurrency");
    weir_explain_put_bool(explaining, told, "passes", false);
    if (decision->key == NULL) {
        weir_explain_put_string(explaining, told, "group", rule == NULL ? NULL : rule->group);
        if (decision->quota > 0)
            weir_explain_put_number(explaining, told, "group_limit", decision->quota);
        return;
    }
    weir_explain_put_number(explaining, told, "at_once", decision->quota);
    if (rule != NULL)
        weir_explain_put_string(explaining, told, "by", weir_explain_by(explaining, &rule->by));
    weir_explain_put_string(explaining, told, "key", decision->key);
}

static void tell_refuser(struct remembering *remembering, json_t *told)
{
    const struct weir_decision *decision = &remembering->recent.decision;
    uint64_t until_us = decision->time_us + decision->retry_us;
    if (remembering->refuser == BLOCK)
        weir_explain_put_block(&remembering->explaining, told, until_us, remembering->block);
    if (remembering->refuser == BAN)
        weir_explain_put_ban(&remembering->explaining, told, until_us);
}

static void tell_limit(struct remembering *remembering)
{
    struct explaining *explaining = &remembering->explaining;
    const struct weir_decision *decision = &remembering->recent.decision;
    json_t *limits = weir_explain_put_array(explaining, explaining->root, "limits");
    if (decision->limit != NULL && decision->would == WEIR_BUSY)
        tell_busy(remembering);
    if (decision->limit == NULL || decision->would == WEIR_BUSY)
        return;
    json_t *told = weir_explain_append_object(explaining, limits);
    weir_explain_put_string(explaining, told, "name", decision->limit);
    weir_explain_put_bool(explaining, told, "applies", true);
    weir_explain_put_string(explaining, told, "key", decision->key);
    if (remembering->rule != NULL)
        weir_explain_put_string(explaining, told, "by",
                                weir_explain_by(explaining, &remembering->rule->by));
    if (remembering->has_numbers) {
        weir_explain_put_string(explaining, told, "algorithm",
                                weir_explain_algorithm(remembering->spend.algorithm));
        weir_explain_put_string(explaining, told, "rate",
                                weir_explain_rate(explaining, &remembering->spend));
        if (weir_has_burst(remembering->spend.algorithm))
            weir_explain_put_number(explaining, told, "burst", remembering->spend.rate.burst);
    }
    weir_explain_put_number(explaining, told, "quota", decision->quota);
    weir_explain_put_number(explaining, told, "window_s", decision->window_s);
    weir_explain_put_number(explaining, told, "remaining", decision->remaining);
    weir_explain_put_number(explaining, told, "reset_us", decision->reset_s * 1000000);
    weir_explain_put_bool(explaining, told, "passes", false);
    if (decision->retry_us > 0)
        weir_explain_put_number(explaining, told, "retry_us", decision->retry_us);
    tell_refuser(remembering, told);
}

static void tell_verdict(struct remembering *remembering)
{
    struct explaining *explaining = &remembering->explaining;
    const struct weir_decision *decision = &remembering->recent.decision;
    json_t *verdict = weir_explain_put_object(explaining, explaining->root, "verdict");
    weir_explain_put_string(explaining, verdict, "outcome", weir_outcome_name(decision->outcome));
    if (decision->outcome != decision->would)
        weir_explain_put_string(explaining, verdict, "would", weir_outcome_name(decision->would));
    else if (decision->status != 0)
        weir_explain_put_number(explaining, verdict, "status", decision->status);
    weir_explain_put_string(explaining, verdict, "policy", decision->policy);
    weir_explain_put_string(explaining, verdict, "limit", decision->limit);
    weir_explain_put_string(explaining, verdict, "key", decision->key);
    json_t *headers = weir_explain_put_array(explaining, verdict, "headers");
    if (decision->retry_s == 0)
        return;
    weir_explain_put_number(explaining, verdict, "retry_s", decision->retry_s);
    const char *wait =
        weir_explain_printf(explaining, "%llu", (unsigned long long)decision->retry_s);
    if (json_array_append_new(headers, json_pack("[ss]", "Retry-After", wait)) != 0)
        explaining->has_failed = true;
}

/* The members of its line in the decision log. */
static void tell_decision(struct remembering *remembering)
{
    struct explaining *explaining = &remembering->explaining;
    char *json = weir_arena_array(explaining->arena, WEIR_DECISION_JSON_MAX + 2, 1);
    size_t length = SIZE_MAX;
    if (json != NULL)
        length =
            weir_decision_json(&remembering->recent.decision, json + 1, WEIR_DECISION_JSON_MAX);
    if (length == SIZE_MAX) {
        explaining->has_failed = true;
        return;
    }
    json[0] = '{';
    json[length + 1] = '}';
    weir_explain_put(explaining, explaining->root, "decided",
                     json_loadb(json, length + 2, 0, NULL));
}

/* NULL: the limit's own sum. */
static const char *describe_refuser(struct remembering *remembering)
{
    struct explaining *explaining = &remembering->explaining;
    const struct weir_decision *decision = &remembering->recent.decision;
    uint64_t until_us = decision->time_us + decision->retry_us;
    if (remembering->refuser == BLOCK)
        return weir_explain_block(explaining, until_us, decision->retry_us, remembering->block);
    if (remembering->refuser == BAN)
        return weir_explain_ban(explaining, until_us, decision->retry_us);
    return NULL;
}

static void tell_summary(struct remembering *remembering)
{
    struct explaining *explaining = &remembering->explaining;
    const struct weir_spend *spend = remembering->has_numbers ? &remembering->spend : NULL;
    weir_explain_put_string(explaining, explaining->root, "summary",
                            weir_explain_decision(explaining, &remembering->recent.decision, spend,
                                                  describe_refuser(remembering)));
}

/* hints: of what else was refused under the same key */

static bool is_same_text(const char *one, const char *other)
{
    return one != NULL && other != NULL && strcmp(one, other) == 0;
}

struct crowd {
    size_t decisions;           /* under the key, of those that are kept */
    size_t of;                  /* so many                               */
    uint64_t first_us, last_us; /* of those under the key                */
    size_t clients, addresses;  /* different ones                        */
    const char *seen_clients[SEEN_MAX];
    const char *seen_addresses[SEEN_MAX];
};

static void note(const char *text, const char **seen, size_t *count)
{
    size_t i = 0;
    while (i < *count && !is_same_text(seen[i], text))
        i++;
    if (text != NULL && i == *count && *count < SEEN_MAX)
        seen[(*count)++] = text;
}

static void count_crowd(const struct weir_recent_decision *recents, size_t count,
                        const struct weir_decision *like, struct crowd *crowd)
{
    crowd->of = count;
    for (size_t i = 0; i < count; i++) {
        const struct weir_decision *decision = &recents[i].decision;
        if (!is_same_text(decision->key, like->key) || !is_same_text(decision->limit, like->limit)
            || !is_same_text(decision->policy, like->policy))
            continue;
        if (crowd->decisions++ == 0)
            crowd->first_us = decision->time_us;
        crowd->last_us = decision->time_us;
        note(decision->client, crowd->seen_clients, &crowd->clients);
        note(decision->address, crowd->seen_addresses, &crowd->addresses);
    }
}

/* A client that waits as it is told comes once in each wait. Those who share a key do so each. */
static bool is_storm(const struct crowd *crowd, const struct weir_decision *like)
{
    size_t members = crowd->clients > crowd->addresses ? crowd->clients : crowd->addresses;
    uint64_t wait_us = like->retry_s * 1000000;
    uint64_t span_us = crowd->last_us - crowd->first_us;
    size_t each = members == 0 ? crowd->decisions : crowd->decisions / members;
    return each >= STORM_MIN && span_us / (each - 1) < wait_us / 2;
}

static void hint_at_crowd(struct explaining *explaining, const struct weir_decision *like,
                          const struct crowd *crowd)
{
    if (is_storm(crowd, like))
        weir_explain_hint(
            explaining,
            "%zu of the last %zu refusals and failures are of this key, in %s, though it was told "
            "to wait for %llu s: it sends in bursts, or asks again without waiting.",
            crowd->decisions, crowd->of,
            weir_explain_time(explaining, crowd->last_us - crowd->first_us),
            (unsigned long long)like->retry_s);
    if (crowd->clients > 1)
        weir_explain_hint(explaining, "%zu%s clients were refused under this key: they share it.",
                          crowd->clients, crowd->clients == SEEN_MAX ? " or more" : "");
    else if (crowd->addresses > 1)
        weir_explain_hint(
            explaining,
            "This key was refused from %zu%s addresses: as many programs or machines use "
            "it.",
            crowd->addresses, crowd->addresses == SEEN_MAX ? " or more" : "");
}

static void hint_at_block(struct remembering *remembering)
{
    struct explaining *explaining = &remembering->explaining;
    const char *limit = remembering->recent.decision.limit;
    bool has_penalty = remembering->rule != NULL && remembering->rule->penalty != NULL;
    if (remembering->block != NULL || remembering->refuser == BLOCK)
        weir_explain_hint_at_block(explaining, limit, remembering->block);
    else if (explaining->blocks_why != NULL)
        weir_explain_hint(explaining,
                          "The list of blocks cannot be read, so nobody knows whether the key is "
                          "blocked: %s",
                          explaining->blocks_why);
    if (remembering->refuser == BAN)
        weir_explain_hint_at_ban(explaining, limit);
    else if (remembering->refuser == SUM && has_penalty)
        weir_explain_hint_at_penalty(explaining, limit);
}

static void tell_hints(struct remembering *remembering)
{
    struct explaining *explaining = &remembering->explaining;
    const struct weir_decision *decision = &remembering->recent.decision;
    weir_explain_put_array(explaining, explaining->root, "hints");
    hint_at_block(remembering);
    if (remembering->has_numbers && remembering->refuser == SUM)
        weir_explain_hint_at_burst(explaining, &remembering->spend);
    struct weir_recent_decision *recents =
        weir_arena_array(explaining->arena, WEIR_RECENT_MAX, sizeof *recents);
    if (recents == NULL) {
        explaining->has_failed = true;
        return;
    }
    struct crowd crowd = { .decisions = 0 };
    size_t count = weir_limiter_recent(explaining->limiter, 0, recents, WEIR_RECENT_MAX);
    if (decision->key != NULL)
        count_crowd(recents, count, decision, &crowd);
    hint_at_crowd(explaining, decision, &crowd);
}

static void tell_all(struct remembering *remembering)
{
    const struct weir_decision *decision = &remembering->recent.decision;
    remembering->rule =
        find_rule(find_ruleset(remembering->explaining.policy, decision->policy), decision->limit);
    find_numbers(remembering);
    find_block(remembering);
    tell_request(remembering);
    tell_route(remembering);
    tell_limit(remembering);
    tell_decision(remembering);
    tell_verdict(remembering);
    tell_summary(remembering);
    tell_hints(remembering);
}

json_t *weir_explain_recent(struct weir_limiter *limiter, const char *request_id,
                            struct weir_error *error)
{
    struct remembering *remembering = calloc(1, sizeof *remembering);
    if (remembering != NULL && !weir_limiter_recent_of(limiter, request_id, &remembering->recent)) {
        free(remembering);
        weir_error_set(
            error, WEIR_E_REFERENCE, NULL,
            "No refusal or failure of a request \"%.60s\" is kept here; the last %d are.",
            request_id, WEIR_RECENT_MAX);
        return NULL;
    }
    json_t *root = NULL;
    if (remembering != NULL && weir_explain_begin(&remembering->explaining, limiter)) {
        tell_all(remembering);
        root = weir_explain_end(&remembering->explaining);
    }
    free(remembering);
    if (root == NULL)
        weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    return root;
}
