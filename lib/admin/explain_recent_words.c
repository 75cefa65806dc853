/* What became of a request that was decided before, in a sentence. */
#include "admin/explain_internal.h"

/* "and it never holds the cost of 5", "next in 200 ms" */
static const char *describe_wait(struct explaining *explaining,
                                 const struct weir_decision *decision)
{
    if (decision->would == WEIR_IMPOSSIBLE)
        return weir_explain_printf(explaining, "and it never holds the cost of %llu",
                                   (unsigned long long)decision->cost);
    if (decision->retry_us == 0)
        return "and no wait helps";
    return weir_explain_printf(explaining, "next in %s",
                               weir_explain_time(explaining, decision->retry_us));
}

/* "0 of 10 left, next in 200 ms", or that it was blocked or banned */
static const char *describe_numbers(struct explaining *explaining,
                                    const struct weir_decision *decision, const char *instead)
{
    if (instead != NULL)
        return instead;
    return weir_explain_printf(
        explaining, "%llu of %llu left, %s", (unsigned long long)decision->remaining,
        (unsigned long long)decision->quota, describe_wait(explaining, decision));
}

/* "by policy api, limit burst (gcra 5/second, burst 10), key api_key:acme-free: 0 of 10 left, …" */
static const char *describe_limit(struct explaining *explaining,
                                  const struct weir_decision *decision,
                                  const struct weir_spend *spend, const char *instead)
{
    const char *numbers =
        spend == NULL
            ? ""
            : weir_explain_printf(explaining, " (%s)", weir_explain_limit(explaining, spend));
    return weir_explain_printf(explaining, "by policy %s, limit %s%s, key %s: %s", decision->policy,
                               decision->limit, numbers,
                               decision->key == NULL ? "none" : decision->key,
                               describe_numbers(explaining, decision, instead));
}

/* A key is whose requests are counted; without one it is the back end that has enough. */
static const char *describe_busy(struct explaining *explaining,
                                 const struct weir_decision *decision)
{
    unsigned long long most = decision->quota;
    if (decision->key != NULL)
        return weir_explain_printf(explaining,
                                   "by policy %s, limit %s, key %s: %llu request%s at once, and as "
                                   "many were under way; next as soon as one has ended",
                                   decision->policy, decision->limit, decision->key, most,
                                   most == 1 ? "" : "s");
    if (most == 0)
        return weir_explain_printf(explaining,
                                   "by policy %s, limit %s: the back end had as many requests "
                                   "under way as it takes at once",
                                   decision->policy, decision->limit);
    return weir_explain_printf(explaining,
                               "by policy %s, limit %s: the back end takes %llu request%s at once, "
                               "and as many were under way; next as soon as some have ended",
                               decision->policy, decision->limit, most, most == 1 ? "" : "s");
}

static const char *describe_list(struct explaining *explaining,
                                 const struct weir_decision *decision)
{
    const char *whom = decision->client == NULL ? "it" : decision->client;
    if (decision->policy == NULL)
        return weir_explain_printf(explaining, "with 403 by the file's deny list, which names %s",
                                   whom);
    return weir_explain_printf(explaining, "with 403 by the deny list of policy %s, which names %s",
                               decision->policy, whom);
}

/* Of a path there is no policy. */
static const char *describe_unreadable(struct explaining *explaining,
                                       const struct weir_decision *decision)
{
    if (decision->policy == NULL)
        return "with 400: its path cannot be normalised";
    return weir_explain_printf(explaining,
                               "with %u by policy %s: limits count by fields of the body, and it "
                               "cannot be read",
                               decision->status, decision->policy);
}

/* Without a failure it is the fallback that has answered, and holds less than the request costs. */
static const char *describe_failure(struct explaining *explaining,
                                    const struct weir_decision *decision)
{
    const char *why = decision->why != NULL ? decision->why : decision->failure;
    if (why == NULL)
        return weir_explain_printf(explaining,
                                   "the store did not answer, and this process's share of a limit "
                                   "of policy %s never holds the cost of %llu",
                                   decision->policy, (unsigned long long)decision->cost);
    return weir_explain_printf(explaining,
                               "the store failed (%s), and that is what policy %s says then", why,
                               decision->policy);
}

/* How it was refused, or would have been. */
static const char *describe_refusal(struct explaining *explaining,
                                    const struct weir_decision *decision,
                                    const struct weir_spend *spend, const char *instead)
{
    switch (decision->would) {
    case WEIR_BUSY:
        return describe_busy(explaining, decision);
    case WEIR_DENIED:
        return describe_list(explaining, decision);
    case WEIR_UNAUTHENTICATED:
        return "with 401: the route asks for an identity, and the request had none that is known";
    case WEIR_UNREADABLE:
        return describe_unreadable(explaining, decision);
    case WEIR_FAILED_CLOSED:
        return weir_explain_printf(explaining, "with 503: %s",
                                   describe_failure(explaining, decision));
    case WEIR_ALLOWED:
    case WEIR_LIMITED:
    case WEIR_IMPOSSIBLE:
    case WEIR_SHADOW_LIMITED:
    case WEIR_FAILED_OPEN:
        break;
    }
    return describe_limit(explaining, decision, spend, instead);
}

const char *weir_explain_decision(struct explaining *explaining,
                                  const struct weir_decision *decision,
                                  const struct weir_spend *spend, const char *instead)
{
    if (decision->shadow)
        return weir_explain_printf(explaining,
                                   "Let through, since it is only watched; else refused %s.",
                                   describe_refusal(explaining, decision, spend, instead));
    if (decision->outcome == WEIR_FAILED_OPEN)
        return weir_explain_printf(explaining, "Let through uncounted: %s.",
                                   describe_failure(explaining, decision));
    if (decision->outcome == WEIR_ALLOWED)
        return weir_explain_printf(explaining,
                                   "Let through by policy %s, counted in this process, since the "
                                   "store did not answer.",
                                   decision->policy);
    return weir_explain_printf(explaining, "Refused %s.%s",
                               describe_refusal(explaining, decision, spend, instead),
                               decision->status == 0 ? " The application was left to say so." : "");
}
