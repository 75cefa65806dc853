/* The limiter's own shape, shared by its files. */
#ifndef WEIR_LIMIT_LIMITER_INTERNAL_H
#define WEIR_LIMIT_LIMITER_INTERNAL_H

#include <stdatomic.h>

#include <weir/limiter.h>

#include "chain/request.h"
#include "limit/combine.h"

struct weir_limiter {
    const struct weir_policy *policy;
    struct weir_store *store;
    bool owns_store;
    struct weir_store *fallback; /* in this process; NULL where no policy falls back on it */
    struct weir_clock clock;
    struct weir_log log;
    void (*on_decision)(void *decision_self, const struct weir_decision *decision);
    void *decision_self;
    struct weir_middleware limit;
    struct weir_middleware identify;
    atomic_bool has_warned; /* that it stands twice in a chain */
};

enum weir_limit_phase {
    WEIR_LIMIT_NEW,
    WEIR_LIMIT_ASKED, /* the store has the check, or its answer is there */
    WEIR_LIMIT_DONE
};

/* What the check under way is for. */
enum weir_limit_purpose {
    WEIR_FOR_GUESS, /* an unknown API key costs its address */
    WEIR_FOR_ROUTE
};

/* One request in the limiter. */
struct weir_limit_state {
    enum weir_limit_phase phase;
    enum weir_limit_purpose purpose;
    struct weir_match match;
    const struct weir_ruleset *ruleset; /* of the check */
    struct weir_check check;
    struct weir_planned planned[WEIR_CHECK_LIMITS];
    struct weir_ticket ticket;
    bool by_memory;
    bool is_share_too_small; /* on memory: the whole limit would hold the cost */
    bool has_quotas;         /* the answers hold for this request  */
    bool shows_quotas;       /* and the client may see them        */
};

/* Whether this request may see quota fields: the route asks for identity, and there is more than
 * an address. */
bool weir_limiter_may_show(const struct weir_limit_state *state,
                           const struct weir_request *request);

/* Replies; each ends the request and reports the decision. */
enum weir_step weir_limiter_refuse(struct weir_limiter *limiter, struct weir_limit_state *state,
                                   struct weir_request *request,
                                   const struct weir_verdict *verdict);
enum weir_step weir_limiter_fail_closed(struct weir_limiter *limiter,
                                        struct weir_limit_state *state,
                                        struct weir_request *request);
enum weir_step weir_limiter_unauthorized(struct weir_limiter *limiter,
                                         struct weir_limit_state *state,
                                         struct weir_request *request);
enum weir_step weir_limiter_bad_path(struct weir_request *request);

/* Reports a decision that lets the request through; `verdict` may be NULL. */
void weir_limiter_report(struct weir_limiter *limiter, const struct weir_limit_state *state,
                         const struct weir_request *request, enum weir_outcome outcome,
                         const struct weir_verdict *verdict);

/* Adds the quota fields to a reply, if this request may see them. */
void weir_limiter_show(struct weir_limiter *limiter, struct weir_limit_state *state,
                       struct weir_reply *reply);

#endif
