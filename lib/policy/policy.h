/* The policy: which limits a request meets. It knows nothing of JSON (policy_json.c does). */
#ifndef WEIR_POLICY_INTERNAL_H
#define WEIR_POLICY_INTERNAL_H

#include <weir/calendar.h>
#include <weir/policy.h>
#include <weir/store.h>

#include "identity/identity.h"
#include "policy/pattern.h"

enum weir_dimension_kind {
    WEIR_BY_IP,
    WEIR_BY_API_KEY,
    WEIR_BY_USER,
    WEIR_BY_TENANT,
    WEIR_BY_PLAN,
    WEIR_BY_ROUTE,
    WEIR_BY_GLOBAL,
    WEIR_BY_HEADER,
    WEIR_BY_PARAM,
    WEIR_BY_QUERY,
    WEIR_BY_FIELD,
    WEIR_BY_DEVICE
};

struct weir_dimension {
    enum weir_dimension_kind kind;
    struct weir_text name; /* of the header, param, query or field; else at NULL          */
    bool exact;            /* else the value that such a name has is trimmed and folded    */
};

#define WEIR_BY_ALTERNATIVES 6
#define WEIR_BY_PARTS        6

/* All parts together (a composite); of each part the first alternative that is present. "client"
 * stands for api_key|user|tenant|ip. */
struct weir_by {
    struct {
        struct weir_dimension alternatives[WEIR_BY_ALTERNATIVES];
        size_t count;
    } parts[WEIR_BY_PARTS];
    size_t count;
};

enum weir_rate_source { WEIR_RATE_OWN, WEIR_RATE_PLAN, WEIR_RATE_UNLIMITED };

/* A plan's numbers for one limit. */
struct weir_plan_rate {
    const char *limit; /* name */
    bool unlimited;
    struct weir_rate rate;
    unsigned months; /* in its window, which then needs a calendar; 0: of fixed length */
};

struct weir_plan {
    const char *name;
    size_t index; /* in the policy's plans */
    struct weir_plan_rate *rates;
    size_t rate_count;
};

/* What a request takes in the end: units for its reply's status. */
enum weir_count_kind {
    WEIR_COUNT_ALL,
    WEIR_COUNT_FAILURES,
    WEIR_COUNT_SUCCESSES,
    WEIR_COUNT_TABLE
};

struct weir_status_units {
    unsigned status; /* 100 to 599, or 1 to 5: all of that class */
    unsigned units;  /* in which the cost is multiplied           */
};

#define WEIR_STATUS_UNITS_MAX 1000

struct weir_count {
    enum weir_count_kind kind;
    struct weir_status_units *table; /* of TABLE */
    size_t table_count;
};

/* What a request that succeeds does to what was counted before it. */
enum weir_on_success {
    WEIR_SETTLES, /* nothing: it is settled like any other                                 */
    WEIR_RESETS,  /* all of its key is forgotten                                           */
    WEIR_FORGIVES /* as much is given back as another limit had in use, which it resets    */
};

/* Whom a limit is for, in a policy that remembers devices. */
enum weir_when { WEIR_FOR_ALL, WEIR_FOR_UNKNOWN, WEIR_FOR_KNOWN };

/* How units of a limit are taken ahead of their use: in blocks, which a process spends in memory. */
struct weir_lease {
    uint64_t batch;         /* units in a block; 0: as each key needs                         */
    uint32_t low_water_ppm; /* of a block: with fewer units left the next is asked for         */
    uint32_t share_ppm;     /* of what the limit holds: the most in a block of batch 0         */
};

struct weir_limit_rule {
    const char *name;
    struct weir_by by;
    enum weir_when when;
    enum weir_algorithm algorithm;
    bool from_first;
    bool logs_refusals;
    bool is_grouped;                            /* another limit of its policy has the same `by` */
    const struct weir_limit_rule *same_subject; /* the first of them; NULL: it is that itself */
    enum weir_rate_source source;
    bool is_of_preset;     /* the rate is one of weir's own */
    bool is_for_tries;     /* it, or another limit of its policy, counts failures */
    struct weir_rate rate; /* where source is OWN */
    /* Where the edges of its windows are; NULL: on the clock. Those of plans stand beside the
     * policy's plans, since each may have a window of its own; NULL: all are on the clock. */
    const struct weir_calendar *calendar;
    const struct weir_calendar **plan_calendars;
    uint64_t max_wait_us;               /* leaky bucket                             */
    const struct weir_penalty *penalty; /* NULL: refusals have no consequences      */
    struct weir_count count;
    bool leaves_to_handler; /* who is refused is answered by the application     */
    enum weir_on_success on_success;
    const struct weir_limit_rule *forgives; /* FORGIVES: the limit that says how much */
    const struct weir_lease *lease;         /* NULL: the store is asked for each request */
};

/* A limit in numbers, for one plan. */
struct weir_limit_numbers {
    struct weir_rate rate;
    const struct weir_calendar *calendar; /* NULL: on the clock      */
    const char *plan;                     /* that they are of; NULL: none */
};

enum weir_failure_action { WEIR_FAIL_OPEN, WEIR_FAIL_CLOSED, WEIR_FAIL_MEMORY };
enum weir_mode { WEIR_ENFORCE, WEIR_SHADOW, WEIR_OFF };
enum weir_auth { WEIR_AUTH_NONE, WEIR_AUTH_OPTIONAL, WEIR_AUTH_REQUIRED };

/* As a policy file says it. Pure. */
const char *weir_mode_name(enum weir_mode mode);

/* What who is refused is told of the wait. */
struct weir_retry_rule {
    enum { WEIR_RETRY_EXACT, WEIR_RETRY_NONE, WEIR_RETRY_FIXED, WEIR_RETRY_ROUNDED } kind;
    uint64_t seconds; /* of FIXED; of ROUNDED: it is rounded up to multiples of these */
};

/* What a policy remembers of those who have succeeded before. */
struct weir_known {
    struct weir_by account; /* whose devices and addresses these are          */
    const char *cookie;     /* the beginning of its name                      */
    uint64_t cookie_s;      /* so long it holds                               */
    const char *path;       /* of the cookie                                  */
    bool is_secure;         /* the cookie goes over TLS only                  */
    uint64_t address_us;    /* so long an address is known; 0: none ever is   */
};

/* Clients that a file or a policy names, to be let through or kept out. */
struct weir_names {
    const char **names;
    size_t count;
};

struct weir_client_list {
    struct weir_network *networks;
    size_t network_count;
    struct weir_names api_keys; /* public ids */
    struct weir_names tenants;
    struct weir_names users;
};

/* Which of them goes first where a client is in both. */
struct weir_access {
    const struct weir_client_list *deny;  /* first; NULL: nobody */
    const struct weir_client_list *allow; /* likewise            */
};

#define WEIR_PARTITIONS_MAX 16

/* A part of an adaptive limit that is kept for some requests. */
struct weir_partition {
    const char *name;   /* the value of what it is partitioned by  */
    uint32_t share_ppm; /* of the limit, in millionths             */
};

/* How many requests may be under way at once, as the back end shows how many it takes. */
struct weir_adaptive {
    struct weir_adaptive *next;
    const char *name; /* of the group of policies that share it */
    size_t index;     /* of it in the file, from 0              */
    uint32_t floor, ceiling, initial;
    enum weir_dimension_kind partition_by; /* PLAN, TENANT, API_KEY or ROUTE */
    struct weir_partition *partitions;
    size_t partition_count; /* 0: it is not partitioned */
};

/* What stands for both in fields and in decisions. */
#define WEIR_CONCURRENCY "concurrency"

struct weir_concurrency {
    const char *group;                    /* where "adaptive" stands; NULL: nowhere         */
    const struct weir_adaptive *adaptive; /* NULL: any number, of all clients together      */
    uint32_t fixed;                       /* requests under way for each key; 0: any number */
    struct weir_by by;                    /* of `fixed`                                     */
};

/* Different fields of a body that the limits of a policy may count by. */
#define WEIR_FIELDS_MAX 16

#define WEIR_ENFORCE_ALL 1000000

/* One of the file's "policies". */
struct weir_ruleset {
    const char *name;
    struct weir_limit_rule *limits;
    size_t limit_count; /* up to WEIR_CHECK_LIMITS; 0 only where there is a concurrency */
    struct {
        enum weir_failure_action timeout, unavailable, error;
    } on_store_failure;
    enum weir_mode mode;
    uint32_t enforce_ppm;  /* of clients that ENFORCE holds for; the others are only watched */
    bool slot_is_identity; /* one Redis slot for each subject; else one for the policy */
    bool returns_on_abort; /* a request that ends without a reply gives back what it took */
    struct weir_retry_rule retry_after;
    const struct weir_known *known; /* NULL: nothing is remembered                        */
    const struct weir_text *fields; /* of the body, that limits count by; each once       */
    size_t field_count;             /* up to WEIR_FIELDS_MAX; 0: bodies are not read      */
    size_t body_max_bytes;          /* of a body that is read for them                    */
    struct weir_access access;
    const struct weir_concurrency *concurrency; /* NULL: any number of requests at once     */
};

struct weir_route {
    const char *match;       /* as written, for logs and for "by": "route"       */
    struct weir_text method; /* at NULL: any                                     */
    struct weir_pattern pattern;
    enum weir_auth auth;
    const struct weir_ruleset *ruleset; /* NULL: no limits                            */
    uint64_t cost;
    const char *file; /* that it is in, as in struct weir_error; "": the first        */
    size_t index;     /* in that file's "routes"                                      */
};

/* Which header forms are sent, in this order. */
enum weir_header_form {
    WEIR_HEADERS_DRAFT_11 = 1,
    WEIR_HEADERS_DRAFT_7 = 2,
    WEIR_HEADERS_DRAFT_6 = 4,
    WEIR_HEADERS_LEGACY = 8
};

/* A calendar of the policy's, made once for all limits that ask for the same. */
struct weir_kept_calendar {
    struct weir_kept_calendar *next;
    struct weir_calendar *calendar;
    const char *zone;
    enum weir_calendar_unit unit;
    unsigned months, anchor_day; /* of MONTH; else 0 */
};

struct weir_policy {
    const char *store_url;   /* with its password: never logged */
    const char *store_shown; /* without it */
    uint32_t store_timeout_ms;
    const char *store_prefix;
    uint64_t store_memory_bytes; /* 0: the default */
    unsigned store_connections;  /* 0: the default */
    uint64_t denial_cache_us;    /* so long a refusal is repeated without the store; 0: never */
    struct {
        const char *ca_file, *cert_file, *key_file, *server_name;
    } store_tls; /* at NULL what the file does not name */
    struct weir_identity_rules identity;
    uint8_t secret[WEIR_SECRET_BYTES];
    struct weir_access access; /* to all that the file is about */
    size_t body_max_bytes;     /* for rulesets that do not say */
    unsigned instances;        /* ≥ 1 */
    enum weir_mode mode;       /* ENFORCE unless the file's top level says otherwise: goes first */
    unsigned headers;          /* of enum weir_header_form, or-ed; 0: none */
    bool headers_clamp;        /* never announce more than the window's share (draft, section 8) */
    bool expose_headers;       /* Access-Control-Expose-Headers */
    struct weir_plan *plans;
    size_t plan_count;
    const struct weir_plan *default_plan; /* NULL only where there is no plan */
    struct weir_ruleset *rulesets;
    size_t ruleset_count;
    struct weir_route *routes;
    size_t route_count;
    struct weir_route fallback;  /* "default": what no route matches, and bad paths */
    bool has_default;            /* false: fallback has no limits */
    struct weir_ruleset guesses; /* what unknown API keys cost their address: one limit */
    struct weir_error *warnings;
    size_t warning_count;
    struct weir_kept_calendar *calendars; /* all that limits refer to */
    struct weir_adaptive *adaptives;      /* all that policies refer to, the last one first */
    size_t adaptive_count;
    const char **files;             /* that all of this is from; see weir_policy_file()        */
    struct weir_file_stamp *stamps; /* beside them, as they were when they were read */
    size_t file_count;
    bool has_file;            /* the first of them is that of weir_policy_load() */
    char *text;               /* as weir_policy_expand() prints it */
    struct weir_arena *arena; /* owns all texts and arrays above */
};

struct weir_match {
    const struct weir_route *route; /* never NULL */
    struct weir_params params;
};

/* The ruleset of that name, one of the file's or, where API keys are known, that for guesses; NULL: there
 * is none. Pure. */
const struct weir_ruleset *weir_policy_ruleset(const struct weir_policy *policy, const char *name);

/* The first route that matches, else the fallback. A route for GET also takes HEAD. A CORS
 * preflight (OPTIONS with Access-Control-Request-Method) matches routes that name OPTIONS only, and
 * otherwise a route without limits and without authentication. A path that cannot be normalised
 * gets the fallback. Pure. */
void weir_policy_match(const struct weir_policy *policy, const struct weir_facts *facts,
                       struct weir_match *match);

/* Whether that is a CORS preflight. Pure. */
bool weir_is_preflight(const struct weir_facts *facts);

enum weir_route_fit {
    WEIR_ROUTE_FITS,
    WEIR_ROUTE_OTHER_METHOD,
    WEIR_ROUTE_OTHER_PATH,
    WEIR_ROUTE_NOT_FOR_PREFLIGHTS /* it takes any method, and names none */
};

/* Whether a route takes a request with a path that was normalised, or why not. `is_free` is what
 * weir_is_preflight() says; `params` is written where it fits. Pure. */
enum weir_route_fit weir_route_fits(const struct weir_route *route, const struct weir_facts *facts,
                                    bool is_free, struct weir_params *params);

/* By what a list names this client: "address", "API key", "tenant" or "user"; NULL: it does not, or
 * there is no list. The address is the client's own, found through the trusted proxies. Pure. */
const char *weir_list_names(const struct weir_client_list *list,
                            const struct weir_identity *identity);

/* The plan of that name; at NULL or unknown: the default plan, which is NULL where there are no plans.
 * Pure. */
const struct weir_plan *weir_policy_plan(const struct weir_policy *policy, struct weir_text name);

/* The numbers of a limit whose rate is the plan's (else its own); `plan`, one of the policy's own,
 * may be NULL. False where it does not limit. Pure. */
bool weir_limit_rate_in(const struct weir_limit_rule *limit, const struct weir_plan *plan,
                        struct weir_limit_numbers *numbers);

/* The numbers of a limit for a plan's name (at NULL or unknown: the default plan); false where it
 * does not limit. Pure. */
bool weir_limit_rate(const struct weir_policy *policy, const struct weir_limit_rule *limit,
                     struct weir_text plan, struct weir_limit_numbers *numbers);

/* The plan that holds for a plan's name, as above; NULL only where there is no plan. Pure. */
const char *weir_policy_plan_name(const struct weir_policy *policy, struct weir_text plan);

/* True where what a request takes is only known when its reply is. Pure. */
static inline bool weir_counts_outcome(const struct weir_limit_rule *limit)
{
    return limit->count.kind != WEIR_COUNT_ALL;
}

/* What a request of `cost` takes from the limit when it was answered with `status`: the cost times
 * the status's units, WEIR_UNITS_MAX at most. Failures are statuses of 400 and more. In a table the
 * status itself goes before its class, and what is not in it counts once. Pure. */
uint64_t weir_count_units(const struct weir_limit_rule *limit, unsigned status, uint64_t cost);

/* True where a request takes something only if it has failed. Pure. */
bool weir_counts_failures(const struct weir_limit_rule *limit);

/* One instance's share of a limit's `units`, while each decides for itself: rounded down, but never
 * below what lets somebody in. That is one, and where tries are limited three, so that who mistypes
 * twice still gets in; where there are fewer, all of them. Pure. */
uint64_t weir_limit_share(const struct weir_limit_rule *limit, uint64_t units, unsigned instances);

/* Whether the algorithm takes a burst; of the others the limit itself is all that fits. Pure. */
static inline bool weir_has_burst(enum weir_algorithm algorithm)
{
    return algorithm == WEIR_GCRA || algorithm == WEIR_TOKEN_BUCKET
           || algorithm == WEIR_LEAKY_BUCKET;
}

#endif
