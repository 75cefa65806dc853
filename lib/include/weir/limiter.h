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
    WEIR_FAILED_CLOSED,   /* the store failed: 503                                 */
    WEIR_UNREADABLE,      /* 400, 413, 415: limits count by fields of its body, and
                           * there is no reading it; 400: nor its path              */
    WEIR_DENIED,          /* 403: a list keeps this client out                      */
    WEIR_BUSY             /* 429: it has too many requests under way; 503: all have  */
};

/* "limited" and the like, as logs and metrics name it; never NULL. Thread-safe: pure. */
WEIR_API const char *weir_outcome_name(enum weir_outcome outcome);

/* A decision, for logs. There is one for each request that weir_limit() let through or refused, and for
 * each call of weir_limiter_check(). All texts are borrowed for the call; those that do not apply are
 * NULL. */
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

    /* the rest came with weir/decisions.h */
    uint64_t time_us;        /* since 1970, of the limiter's clock                     */
    const char *instance;    /* which process: see the limiter's options               */
    uint64_t generation;     /* of the policy that was in force, from 1                */
    const char *request_id;  /* NULL: it is in no request, or one of a flood           */
    const char *traceparent; /* as the client sent it, if it is well-formed            */
    const char *key;    /* whose units these are, of the limit that refused: "api_key:acme-free",
                              * "ip:192.0.2.0/24 + route:/v1/search", "field:email#1f3a9c0d12"; never
                              * a secret                                               */
    const char *source; /* who decided: "store", "lease", "denials" (repeated, without asking),
                              * "memory" (the fallback); NULL: nobody had to be asked  */
    bool shadow;        /* let through only because the policy watches here       */
    enum weir_outcome would; /* and what it would have been; else the outcome          */
    unsigned status;         /* of weir's own reply, or of the one it would have been; 0: none */

    /* of the limit that refused, as quota fields tell it; all 0: no limit did */
    uint64_t quota, remaining, window_s, reset_s;
    uint64_t retry_us; /* what retry_s is rounded up from; 0: no wait helps      */

    uint64_t count; /* how many decisions this stands for: 1                     */

    const char *address; /* the counted network of the client; NULL: none            */
};

struct weir_limiter_options {
    size_t size;                      /* set by WEIR_LIMITER_OPTIONS                       */
    const struct weir_policy *policy; /* the first; borrowed until weir_limiter_free()     */
    struct weir_store *store;         /* borrowed; NULL: the limiter opens the policy's    */
    const struct weir_clock *clock;   /* copied; NULL: the system's                        */
    struct weir_log log;              /* copied                                            */

    /* Called for each decision that is not a plain allow, on the request's thread. */
    void (*on_decision)(void *decision_self, const struct weir_decision *decision);
    void *decision_self;

    /* What a request costs, instead of what its route says; called once for each request that
     * limits apply to, before it is decided. NULL: the route's cost. */
    uint64_t (*cost)(void *cost_self, struct weir_request *request, uint64_t route_cost);
    void *cost_self;

    const char *instance; /* names this process in decisions; copied, up to 63 bytes; NULL: the name
                           * of the host                                                */

    /* For weir_policy_reload(): the file that `policy` was read from, copied, where the policy does not
     * know it (weir_policy_parse()); and how a file is read, where that is not by weir_policy_load().
     * It runs on the thread that reloads, one at a time; what it makes is the limiter's. */
    const char *file;
    enum weir_code (*load)(void *load_self, const char *file, struct weir_policy **policy,
                           struct weir_error *error);
    void *load_self;
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

/* Says what a request really cost, once the work is done or measured: less is given back, more is
 * charged. At most once for each request; never beyond what a limit holds, never into its next
 * window, and what time has earned back meanwhile is not given back again (docs/algorithms.md).
 * Until then its cost was an estimate, which stands if nobody calls this.
 *
 * Limits with "count" by outcome are settled when the reply is queued: called before that, `actual`
 * is what their units are counted in. From a handler or middleware of the request, or from the
 * callbacks of its response, up to the application's completed callback; never blocks.
 * Errors: WEIR_E_STATE: settled already, or nothing was spent (refused, not limited, store failed). */
WEIR_API enum weir_code weir_settle(struct weir_request *request, uint64_t actual);

/* How what a request tried has gone. */
enum weir_result { WEIR_FAILED = 1, WEIR_SUCCEEDED };

/* Says how it has gone where the status does not tell, as on a login page that is answered 200
 * either way: goes before the status for "failures", for "successes" and for "on_success" (and is no
 * enum weir_outcome, which is the limiter's own word). Called again before the reply is queued, the
 * last word holds. From a handler or middleware of the request, and from on_reply of the links behind
 * weir_limit(); a wrapped handler asks weir_request_of() for its request.
 * Errors: WEIR_E_ARGUMENT; WEIR_E_STATE: the reply is on its way. */
WEIR_API enum weir_code weir_outcome(struct weir_request *request, enum weir_result result);

/* True: a limit with "refusal": "handler" has refused the request and leaves it to the application to
 * say so. Answer like any failure, after the same work, so that nobody can tell; a handler that
 * succeeds all the same is at fault: of the chain's it becomes a 500, and the log says so. A wrapped
 * handler asks weir_request_of() for its request. */
WEIR_API bool weir_request_is_limited(const struct weir_request *request);

/* another policy */

/* Reads a policy file beside the one that is in force, and puts it in its place if there is no error in
 * it: at once, for all requests that come from then on; those that are under way go on by the one of
 * before, which is freed when the last of them has ended. What was counted goes on, as far as a limit
 * has its name and kind of before (docs/reload.md). At NULL it is the file of last time. The keys file
 * and all that the file includes are read again, too.
 *
 * On an error nothing has changed. A log line says so either way. It reads files, so it is not for a
 * server's own threads; otherwise any thread, and one reload waits for another. Errors: those of
 * weir_policy_load(); WEIR_E_ARGUMENT: no file is known; WEIR_E_STATE: "store" says something that only
 * a restart can change; WEIR_E_MEMORY, _SYSTEM. */
WEIR_API enum weir_code weir_policy_reload(struct weir_limiter *limiter, const char *file,
                                           struct weir_error *error);

/* The same with a policy that the caller has made: on success the limiter frees it in the end. */
WEIR_API enum weir_code weir_limiter_replace(struct weir_limiter *limiter,
                                             struct weir_policy *policy, struct weir_error *error);

struct weir_reload_state {
    uint64_t generation; /* of the policy that is in force: 1 is the first                   */
    uint64_t loaded_us;  /* when it came to be that, since 1970                              */
    bool last_ok;        /* the last reload went well, or there was none                     */
    uint64_t last_us;    /* when that was; 0: there was none                                 */
    char why[640];       /* what was wrong with it, as weir_error_line() says it; "": nothing */
    uint64_t successes;  /* reloads                                                          */
    uint64_t failures;
    char file[256]; /* that the next reload reads, cut to this; "": none is known            */
};

/* How the last reload went, and what is in force. Thread-safe, and waits for no reload. */
WEIR_API void weir_limiter_reload_state(struct weir_limiter *limiter,
                                        struct weir_reload_state *state);

/* How the limiter's store is. Thread-safe. */
WEIR_API void weir_limiter_state(struct weir_limiter *limiter, struct weir_store_state *state);

/* What is left of one limit for the client of a request. Texts live as long as the limiter. */
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

/* without HTTP */

/* A value of a dimension that a client sends: {"header:X-Device", "a1"}, {"query:q", "gate"},
 * {"param:id", "42"}, {"field:username", "ann"}. */
struct weir_value {
    const char *name;
    const char *value;
};

/* Who spends, for code that is not in a request: a sender of text messages, a worker of a queue, an
 * operator's tool. What is NULL is absent, and limits by it do not apply. All is borrowed for the
 * call. */
struct weir_subject {
    size_t size;         /* set by WEIR_SUBJECT                              */
    const char *policy;  /* whose limits: a name in the file's "policies", or
                                      * "api_keys": what unknown keys cost an address    */
    const char *limit;   /* only this one of them; NULL: all                 */
    const char *ip;      /* "203.0.113.7"; its network is counted            */
    const char *api_key; /* the public id of a key in the keys file, whose
                                      * user, tenant and plan go along                   */
    const char *user;    /* these go before the key's                        */
    const char *tenant;
    const char *plan;
    const char *route;               /* as its "match" is written                        */
    const struct weir_value *values; /* `value_count` of them                            */
    size_t value_count;
    uint64_t cost; /* 0: 1                                                               */
    /* New fields go here, at the end; none is ever removed or reordered. */
};

#define WEIR_SUBJECT(...)                                                                          \
    (&(const struct weir_subject){ .size = sizeof(struct weir_subject), __VA_ARGS__ })

struct weir_verdict {
    bool allowed;
    enum weir_outcome outcome;
    bool by_memory;     /* decided by the fallback in this process                         */
    uint64_t wait_us;   /* allowed by a leaky bucket: go on after so long                  */
    uint64_t retry_us;  /* refused: come back after so long; 0 if that never helps         */
    const char *policy; /* that refused, with the longest wait; else NULL. Lives as long   */
    const char *limit;  /* as the limiter does                                             */
    struct weir_quota quotas[WEIR_CHECK_LIMITS];
    size_t quota_count;

    /* for weir_limiter_settle() */
    uint64_t decided_us[WEIR_CHECK_LIMITS];
    uint64_t full_us[WEIR_CHECK_LIMITS];
    uint64_t sums[WEIR_CHECK_LIMITS]; /* what each was spent of, and in which numbers */
};

/* Decides `count` subjects as one: all of their limits are spent, or none is. Blocks up to the
 * store's deadline, so it is not for a server's own threads; there weir_limit() does it. When the
 * store fails the strictest of the policies' rules for that holds, and the outcome says so. Limits
 * that count by outcome are charged like the others: weir_limiter_settle() corrects them. Of policies
 * that enforce for a part of the clients it only watches where one of them does so for its subject.
 *
 * WEIR_OK: the verdict is filled, whichever it is. Errors: WEIR_E_ARGUMENT; WEIR_E_REFERENCE: no
 * such policy, limit or API key; WEIR_E_VALUE: an address or value name that is none, or more than
 * 8 limits and penalties in all, a limit that two of
 * the subjects share, or policies of which one enforces and another only watches. This and the rest:
 * any thread. */
WEIR_API enum weir_code weir_limiter_check(struct weir_limiter *limiter,
                                           const struct weir_subject *subjects, size_t count,
                                           struct weir_verdict *verdict, struct weir_error *error);

/* The same without spending: what is left, and whether that is as many units as the subjects cost.
 * `retry_us` and `wait_us` stay 0. Errors also: WEIR_E_STORE_TIMEOUT, _UNAVAILABLE, _ERROR. */
WEIR_API enum weir_code weir_limiter_peek(struct weir_limiter *limiter,
                                          const struct weir_subject *subjects, size_t count,
                                          struct weir_verdict *verdict, struct weir_error *error);

/* As weir_settle(), for what weir_limiter_check() allowed with the same subjects: each of them cost
 * `actual`. Call it at most once. Blocks. Errors as weir_limiter_peek(), and WEIR_E_STATE: nothing
 * was spent, or it was by limits that the policy in force does not have, or counts otherwise. */
WEIR_API enum weir_code weir_limiter_settle(struct weir_limiter *limiter,
                                            const struct weir_subject *subjects, size_t count,
                                            const struct weir_verdict *verdict, uint64_t actual,
                                            struct weir_error *error);

/* Forgets what the subject has spent, its penalties, and that it is blocked, in the store and in this
 * process's fallback. Only limits by what the subject itself names (address, API key, user, tenant,
 * values): one by "global" or "route", or by the tenant of a key, belongs to others too, and has to be
 * named in `limit`. Other processes may go on refusing for as long as the policy's "denial_cache" says.
 * Blocks. Errors as weir_limiter_peek(), and WEIR_E_VALUE: no limit is its own. */
WEIR_API enum weir_code weir_limiter_reset(struct weir_limiter *limiter,
                                           const struct weir_subject *subject,
                                           struct weir_error *error);

/* Refuses all of the subject that costs anything for `seconds` (up to 71 years), by the same limits
 * as weir_limiter_reset(), which ends it. Errors as above. */
WEIR_API enum weir_code weir_limiter_block(struct weir_limiter *limiter,
                                           const struct weir_subject *subject, uint64_t seconds,
                                           struct weir_error *error);

#endif
