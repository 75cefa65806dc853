/* The last refusals and failures, and who has most, for the admin API. */
#include "admin/admin.h"

#include <stdlib.h>
#include <string.h>

#include <weir/decisions.h>

#include "limit/limiter_internal.h"

#define COUNT_DEFAULT 50
#define TOP_DEFAULT   10
#define TOP_MAX       128

/* the last ones */

/* A decision with the members of a line of the log. */
static json_t *describe_decision(const struct weir_recent_decision *recent)
{
    char json[WEIR_DECISION_JSON_MAX + 2];
    json[0] = '{';
    size_t length = weir_decision_json(&recent->decision, json + 1, WEIR_DECISION_JSON_MAX);
    if (length == SIZE_MAX)
        return NULL;
    json[length + 1] = '}';
    json_t *decision = json_loadb(json, length + 2, 0, NULL);
    if (decision != NULL)
        json_object_set_new(decision, "seq", json_integer((json_int_t)recent->sequence));
    return decision;
}

/* What has memory in `recent` for as many as are asked for. */
static json_t *describe_recent(struct weir_limiter *limiter, uint64_t after, size_t count,
                               struct weir_recent_decision *recent)
{
    json_t *decisions = json_array();
    uint64_t next = after;
    size_t found = weir_limiter_recent(limiter, after, recent, count);
    for (size_t i = 0; i < found; i++) {
        json_array_append_new(decisions, describe_decision(&recent[i]));
        next = recent[i].sequence;
    }
    return json_pack("{s:I, s:o}", "next", (json_int_t)next, "decisions", decisions);
}

void weir_admin_recent(struct weir_admin *admin, struct weir_admin_job *job)
{
    uint64_t after = 0, count = COUNT_DEFAULT;
    if (!weir_admin_number(job, "after", 0, INT64_MAX, &after)
        || !weir_admin_number(job, "count", 1, WEIR_RECENT_MAX, &count))
        return;
    struct weir_recent_decision *recent = calloc((size_t)count, sizeof *recent);
    weir_admin_answer(
        job, recent == NULL ? NULL : describe_recent(admin->limiter, after, (size_t)count, recent));
    free(recent);
}

/* who has most */

static bool read_by(struct weir_admin_job *job, const char **name, enum weir_top_by *by)
{
    if (!weir_admin_text(job, "by", name))
        return false;
    if (*name == NULL)
        *name = "spent";
    *by = strcmp(*name, "refused") == 0 ? WEIR_TOP_REFUSED : WEIR_TOP_SPENT;
    if (*by == WEIR_TOP_REFUSED || strcmp(*name, "spent") == 0)
        return true;
    weir_admin_refuse(job, 400, "\"by\" is \"%.60s\"; wanted is \"spent\" or \"refused\".", *name);
    return false;
}

static json_t *describe_keys(const struct weir_top_key *keys, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            list, json_pack("{s:o, s:I, s:I}", "key", weir_admin_string(keys[i].key), "count",
                            (json_int_t)keys[i].count, "at_least", (json_int_t)keys[i].at_least));
    return list;
}

static bool is_policy(struct weir_limiter *limiter, const char *name)
{
    const struct weir_edition *edition = weir_edition_take(&limiter->editions);
    bool is_there = weir_policy_ruleset(edition->policy, name) != NULL;
    weir_edition_leave(edition);
    return is_there;
}

void weir_admin_top(struct weir_admin *admin, struct weir_admin_job *job)
{
    const char *policy, *name;
    enum weir_top_by by;
    uint64_t count = TOP_DEFAULT;
    if (!weir_admin_text(job, "policy", &policy) || !read_by(job, &name, &by)
        || !weir_admin_number(job, "count", 1, TOP_MAX, &count))
        return;
    if (policy == NULL || !is_policy(admin->limiter, policy)) {
        weir_admin_refuse(job, policy == NULL ? 400 : 404,
                          policy == NULL ? "\"policy\" is missing: whose clients?"
                                         : "There is no such policy.");
        return;
    }
    struct weir_top_key keys[TOP_MAX];
    struct weir_top_total total = { .total = 0 };
    size_t found = weir_limiter_top(admin->limiter, policy, by, keys, (size_t)count, &total);
    weir_admin_answer(job, json_pack("{s:s, s:s, s:I, s:I, s:o, s:o}", "policy", policy, "by", name,
                                     "total", (json_int_t)total.total, "error_bound",
                                     (json_int_t)total.error_bound, "since",
                                     weir_admin_moment(total.since_us), "keys",
                                     describe_keys(keys, found)));
}
