/* An explanation in the making, shared by its files. */
#ifndef WEIR_ADMIN_EXPLAIN_INTERNAL_H
#define WEIR_ADMIN_EXPLAIN_INTERNAL_H

#include <netinet/in.h>

#include "admin/explain.h"
#include "base/arena.h"
#include "limit/algorithm.h"
#include "limit/limiter_internal.h"

/* What the limits say. */
struct explained_check {
    struct weir_plan_of_checks plan;
    char keys[WEIR_PLAN_KEY_BYTES];
    struct weir_answer seen[WEIR_CHECK_LIMITS];    /* before the request        */
    struct weir_answer answers[WEIR_CHECK_LIMITS]; /* to it                     */
    bool is_retry_known[WEIR_CHECK_LIMITS];        /* else retry_us is the most */
    uint64_t block_us[WEIR_CHECK_LIMITS];   /* the key is blocked for so long; 0: it is not */
    uint64_t ban_us[WEIR_CHECK_LIMITS];     /* and banned                                   */
    uint64_t new_ban_us[WEIR_CHECK_LIMITS]; /* and will be, by this request */
    uint64_t now_us;                        /* the store's time                             */
    enum weir_store_result result;
    char why[64];            /* of a store that has not answered                          */
    bool by_memory;          /* it is the fallback in this process that has               */
    bool is_share_too_small; /* and the whole limit would hold the cost                   */
    uint64_t cost;
    struct weir_combined combined;
};

struct explaining {
    struct weir_limiter *limiter;
    const struct weir_policy *policy;
    const struct weir_edition *edition; /* taken for as long as it lasts */
    const struct weir_described *described;

    /* the request */
    struct weir_arena *arena;
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } peer;
    struct weir_facts facts;
    struct weir_hops hops;
    struct weir_identity identity;
    struct weir_match match;
    enum weir_body_reading reading;
    struct weir_body_field fields[WEIR_FIELDS_MAX]; /* of the policy that applies */
    struct weir_device device;
    struct weir_text known; /* what stands for the device; at NULL: it is not known */

    /* the decision */
    const struct weir_ruleset
        *ruleset; /* that decides: the route's, or that for guesses; or NULL */
    uint64_t cost;
    struct explained_check check;
    struct explained_check refusal; /* the one that refuses, or would; of no limits: none does */
    enum weir_outcome outcome;
    enum weir_outcome would; /* SHADOW_LIMITED: what it would have been                      */
    unsigned status;         /* 0: the application's own                                      */
    bool is_refused;         /* by the limits, or because the store failed                    */
    bool is_exempt;          /* the limits do not hold for it                                 */
    const char *listed;      /* by what a list keeps the client out or lets it through; or NULL */

    json_t *blocks;         /* the list of them, where it was asked for */
    const char *blocks_why; /* or why it could not be read              */

    json_t *root;
    bool has_failed; /* memory ran out somewhere */
};

/* explain.c */

/* Takes the edition in force, into a zeroed one; false: memory ran out. */
bool weir_explain_begin(struct explaining *explaining, struct weir_limiter *limiter);

/* Gives the explanation, or NULL: memory ran out somewhere. */
json_t *weir_explain_end(struct explaining *explaining);

/* explain_json.c: building; whatever fails is kept in has_failed. */

/* Takes `value`. */
void weir_explain_put(struct explaining *explaining, json_t *object, const char *name,
                      json_t *value);
void weir_explain_put_text(struct explaining *explaining, json_t *object, const char *name,
                           struct weir_text text);
void weir_explain_put_string(struct explaining *explaining, json_t *object, const char *name,
                             const char *text);
void weir_explain_put_number(struct explaining *explaining, json_t *object, const char *name,
                             uint64_t number);
void weir_explain_put_bool(struct explaining *explaining, json_t *object, const char *name,
                           bool is_so);

/* Makes an object or array that `object` owns. */
json_t *weir_explain_put_object(struct explaining *explaining, json_t *object, const char *name);
json_t *weir_explain_put_array(struct explaining *explaining, json_t *object, const char *name);

/* Makes an object that `array` owns. */
json_t *weir_explain_append_object(struct explaining *explaining, json_t *array);

/* Adds a sentence for people to the hints. */
void weir_explain_hint(struct explaining *explaining, const char *format, ...) WEIR_PRINTF(2, 3);

/* Printed text, in the explanation's memory; "" where there is none. */
const char *weir_explain_printf(struct explaining *explaining, const char *format, ...)
    WEIR_PRINTF(2, 3);

const char *weir_explain_address(struct explaining *explaining, const struct weir_address *address);
const char *weir_explain_network(struct explaining *explaining, const struct weir_network *network);

/* "200 ms", "1.5 s", "5 minutes" */
const char *weir_explain_time(struct explaining *explaining, uint64_t time_us);

/* explain_request.c */

/* Makes a request's facts of what is described. */
enum weir_code weir_explain_read(struct explaining *explaining, struct weir_error *error);

/* Reads the fields that a policy counts by. */
void weir_explain_read_fields(struct explaining *explaining, const struct weir_ruleset *ruleset);

/* explain_who.c: what is found out before any limit */

void weir_explain_tell_address(struct explaining *explaining);
void weir_explain_tell_identity(struct explaining *explaining);
void weir_explain_tell_lists(struct explaining *explaining);
void weir_explain_tell_routes(struct explaining *explaining);

/* explain_limits.c */

/* Adds the limits of the ruleset, and looks at them. */
void weir_explain_check(struct explaining *explaining);
void weir_explain_tell_limits(struct explaining *explaining);
void weir_explain_tell_concurrency(struct explaining *explaining);

/* What there is to count by. */
struct weir_asker weir_explain_asker(const struct explaining *explaining);

/* "tenant|ip + route" */
const char *weir_explain_by(struct explaining *explaining, const struct weir_by *by);

/* "token-bucket" */
const char *weir_explain_algorithm(enum weir_algorithm algorithm);

/* "200/minute" */
const char *weir_explain_rate(struct explaining *explaining, const struct weir_spend *spend);

/* What stands for the client where it is counted so; NULL: it is not. */
const char *weir_explain_key(struct explaining *explaining, const struct weir_by *by);

/* explain_known.c: finds out whether the client has succeeded here before */
void weir_explain_recognise(struct explaining *explaining, const struct weir_ruleset *ruleset);

/* explain_state.c */

/* Asks a store, and waits for its answer; `check` only looks. */
void weir_explain_ask(const struct weir_store *store, struct weir_check *check);

/* Looks at the plan's sums, as a request of no cost would; the answers are those to the cost. */
void weir_explain_look(struct explaining *explaining);

/* The same in the fallback of this process; false: there is none. */
bool weir_explain_look_in_memory(struct explaining *explaining);

/* explain_blocks.c */

/* Asks the store for the list of blocks, once. */
void weir_explain_read_blocks(struct explaining *explaining);

/* The listed block of a key, or of that of a decision; NULL: none is listed. */
const json_t *weir_explain_block_of(struct explaining *explaining, const struct weir_spend *spend);
const json_t *weir_explain_block_of_decision(struct explaining *explaining,
                                             const struct weir_ruleset *ruleset,
                                             const struct weir_decision *decision);

/* Whether it is what a decision has refused for: the wait ends with it. */
bool weir_explain_has_refused(const json_t *block, const struct weir_decision *decision);

/* `block` NULL: it is not listed. */
void weir_explain_put_block(struct explaining *explaining, json_t *told, uint64_t until_us,
                            const json_t *block);
void weir_explain_put_ban(struct explaining *explaining, json_t *told, uint64_t until_us);

/* "blocked by an operator until 2026-03-04T05:06:07.008Z, in 60 seconds: abuse" */
const char *weir_explain_block(struct explaining *explaining, uint64_t until_us, uint64_t left_us,
                               const json_t *block);
void weir_explain_hint_at_block(struct explaining *explaining, const char *limit,
                                const json_t *block);
void weir_explain_hint_at_ban(struct explaining *explaining, const char *limit);

/* "banned by its penalty until 2026-03-04T05:06:07.008Z, in 60 seconds" */
const char *weir_explain_ban(struct explaining *explaining, uint64_t until_us, uint64_t left_us);

/* explain_reply.c */

/* Whether the application is left to refuse. */
bool weir_explain_leaves(const struct explaining *explaining);
void weir_explain_tell_verdict(struct explaining *explaining);

/* explain_recent_words.c: what became of a request, in a sentence; `spend` has the numbers of the limit
 * that refused, `instead` is what has refused where that is not they; both may be NULL */
const char *weir_explain_decision(struct explaining *explaining,
                                  const struct weir_decision *decision,
                                  const struct weir_spend *spend, const char *instead);

/* explain_words.c */

/* "gcra 5/second, burst 10" */
const char *weir_explain_limit(struct explaining *explaining, const struct weir_spend *spend);
void weir_explain_hint_at_burst(struct explaining *explaining, const struct weir_spend *spend);
void weir_explain_hint_at_penalty(struct explaining *explaining, const char *limit);

void weir_explain_tell_summary(struct explaining *explaining);
void weir_explain_tell_hints(struct explaining *explaining);

#endif
