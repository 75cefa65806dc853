/* weir: the limiter, and the middleware that asks it. */
#ifndef WEIR_LIMITER_H
#define WEIR_LIMITER_H

#include <weir/chain.h>
#include <weir/identity.h>
#include <weir/policy.h>
#include <weir/store.h>

struct weir_limiter;

/* What became of a request. */
enum weir_outcome {
    WEIR_ALLOWED,
    WEIR_LIMITED,         /* 429                                                   */
    WEIR_IMPOSSIBLE,      /* 429 without Retry-After: its cost can never be met    */
    WEIR_SHADOW_LIMITED,  /* let through: the policy only watches                  */
    WEIR_UNAUTHENTICATED, /* 401                                                   */
    WEIR_FAILED_OPEN,     /* the store failed, and the request was let through     */
    WEIR_FAILED_CLOSED    /* the store failed: 503                                 */
};

/* A decision, for logs. All texts are borrowed for the call; those that do not apply are NULL. */
struct weir_decision {
    enum weir_outcome outcome;
    bool by_memory; /* decided by the fallback in this process             */
    const char *method;
    const char *path; /* normalised; as sent if that was not possible        */
    const char *policy;
    const char *limit;   /* the one that refused                                */
    const char *client;  /* public id of the API key, or the counted network     */
    const char *failure; /* the store failed: "timeout", "unavailable", "error" */
    const char *why;     /* and its own words                                   */
    uint64_t cost;
    uint64_t retry_s; /* Retry-After; 0: none                                */
};

struct weir_limiter_options {
    size_t size;                      /* set by WEIR_LIMITER_OPTIONS                       */
    const struct weir_policy *policy; /* borrowed until weir_limiter_free()                */
    struct weir_store *store;         /* borrowed; NULL: the limiter opens the policy's    */
    const struct weir_clock *clock;   /* copied; NULL: the system's                        */
    struct weir_log log;              /* copied                                            */

    /* Called for each decision that is not a plain allow, on the request's thread. */
    void (*on_decision)(void *decision_self, const struct weir_decision *decision);
    void *decision_self;
    /* New fields go here, at the end; none is ever removed or reordered. */
};

#define WEIR_LIMITER_OPTIONS(...)                                                                  \
    (&(const struct weir_limiter_options){ .size = sizeof(struct weir_limiter_options),            \
                                           __VA_ARGS__ })

/* Errors: WEIR_E_ARGUMENT, _MEMORY, and those of weir_store_open(). */
WEIR_API enum weir_code weir_limiter_new(const struct weir_limiter_options *options,
                                         struct weir_limiter **limiter, struct weir_error *error);

/* After the chain is freed. Accepts NULL; returns NULL. */
WEIR_API struct weir_limiter *weir_limiter_free(struct weir_limiter *limiter);

/* The middleware that finds out who asks, matches the policy, and lets through, refuses or fails as
 * the policy says; add it to a chain once. Borrowed until weir_limiter_free(). */
WEIR_API const struct weir_middleware *weir_limit(struct weir_limiter *limiter);

/* Only finds out who asks, for a chain whose own middleware needs that before weir_limit(). */
WEIR_API const struct weir_middleware *weir_identify(struct weir_limiter *limiter);

/* How the limiter's store is. Thread-safe. */
WEIR_API void weir_limiter_state(struct weir_limiter *limiter, struct weir_store_state *state);

/* What is left of one limit for the client of a request. Texts live as long as the policy. */
struct weir_quota {
    const char *policy;
    const char *limit;
    uint64_t quota;     /* what can be spent at once when nothing is spent   */
    uint64_t remaining; /* what can be spent now                             */
    uint64_t window_s;  /* seconds in which `quota` fills, rounded up        */
    uint64_t reset_s;   /* seconds until all of it is there, rounded up      */
};

/* The limits that weir_limit() looked at for this request: fills at most `size`, returns how many
 * there are. None where the store failed or no policy applies. On the request's own thread. */
WEIR_API size_t weir_request_quotas(struct weir_request *request, struct weir_limiter *limiter,
                                    struct weir_quota *quotas, size_t size);

#endif
