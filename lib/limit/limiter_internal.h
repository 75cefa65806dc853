/* The limiter's own shape, shared by its files. */
#ifndef WEIR_LIMIT_LIMITER_INTERNAL_H
#define WEIR_LIMIT_LIMITER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <weir/limiter.h>

#include "chain/request.h"
#include "limit/combine.h"
#include "limit/concurrency.h"
#include "limit/denied.h"
#include "limit/known.h"
#include "limit/leases.h"

struct weir_limiter {
    const struct weir_policy *policy;
    struct weir_store *store;
    bool owns_store;
    struct weir_store *fallback;  /* in this process; NULL where no policy falls back on it */
    struct weir_denials *denials; /* NULL: off, or the store answers as fast as they would */
    struct weir_leases *leases;   /* NULL: no limit is leased, or likewise                 */
    struct weir_limiter_concurrency *concurrency; /* NULL: no policy limits that */
    struct weir_prepared_set *prepared;
    struct weir_clock clock;
    struct weir_log log;
    uint64_t (*cost)(void *cost_self, struct weir_request *request, uint64_t route_cost);
    void *cost_self;
    void (*on_decision)(void *decision_self, const struct weir_decision *decision);
    void *decision_self;
    struct weir_middleware limit;
    struct weir_middleware identify;
    atomic_bool has_warned; /* that it stands twice in a chain */

    pthread_mutex_t settling_mutex; /* guards the next, and is held to wait for `settled` */
    size_t settling;                /* settlements that the store has                     */
    pthread_cond_t settled;         /* there is none left                                 */
};

enum weir_limit_phase {
    WEIR_LIMIT_NEW,
    WEIR_LIMIT_READING, /* the body is awaited, by fields of which limits count  */
    WEIR_LIMIT_ASKED,   /* the store has the check, or its answer is there        */
    WEIR_LIMIT_WAITING, /* let through by a leaky bucket, and its moment is to come */
    WEIR_LIMIT_DONE
};

/* What the check under way is for. */
enum weir_limit_purpose {
    WEIR_FOR_GUESS,   /* an unknown API key costs its address     */
    WEIR_FOR_ADDRESS, /* has the account succeeded from there?    */
    WEIR_FOR_ROUTE
};

/* One account on its way through a policy that remembers devices. */
struct weir_limit_known {
    const struct weir_ruleset *ruleset;
    char account[WEIR_SUBJECT_MAX + 1];
    size_t account_length;
    bool has_cookie;           /* that holds: `device` is from it                             */
    bool is_at_home;           /* without one, but at an address that is remembered           */
    struct weir_device device; /* of the cookie that came, or that was sent                   */
    char network[WEIR_NETWORK_CHARS]; /* "": addresses are not remembered, or there is none   */
    struct weir_spend memory;         /* under which key: blocked while it is remembered      */
    struct weir_answer remembered;    /* to a look at it                                      */
};

/* What a request holds while it is under way. */
struct weir_limit_hold {
    struct weir_slots *slots;     /* until its reply is made; NULL: none    */
    struct weir_counted *counted; /* until its end; NULL: it is not counted */
    uint32_t shown_most;          /* that the client is told; 0: it is not  */
    uint8_t part;                 /* of the slots                           */
    bool is_over;                 /* the limit is reached                   */
};

/* One request in the limiter. */
struct weir_limit_state {
    enum weir_limit_phase phase;
    enum weir_limit_purpose purpose;
    struct weir_match match;
    const struct weir_ruleset *ruleset; /* of the check */
    enum weir_body_reading reading;     /* of a body that was wanted */
    struct weir_limit_known *known;     /* NULL: it does not matter here, or not yet */
    struct weir_check check;
    struct weir_spend *spends;    /* of the check, in the request's memory; these may change */
    struct weir_planned *planned; /* beside them                                             */
    struct weir_denial_question denial; /* that the store is asked instead                   */
    bool is_leased; /* the leases have the check, and not the store                          */
    struct weir_ticket ticket;
    uint64_t cost;   /* of the request                                                        */
    uint64_t actual; /* what weir_settle() said; only if has_actual          */
    uint8_t settled_limits; /* a bit for each limit whose spending is settled       */
    bool has_timed_out;     /* a check before this one: the store is not waited for again */
    bool has_spent;         /* the check charged all of its limits                  */
    bool has_actual;
    bool has_reply;
    bool by_memory;
    bool is_share_too_small; /* on memory: the whole limit would hold the cost */
    bool has_quotas;         /* the answers hold for this request  */
    bool shows_quotas;       /* and the client may see them        */
    struct weir_limit_hold hold;
};

/* limiter.c */

void weir_limiter_make_middleware(struct weir_limiter *limiter);

/* The limiter whose weir_limit() this is; NULL: it is something else. */
struct weir_limiter *weir_limiter_of(const struct weir_middleware *middleware);

/* Turns a limit into this instance's share of it; false: the cost fits the whole, and not the share. */
bool weir_limiter_take_share(struct weir_spend *spend, const struct weir_planned *planned,
                             unsigned instances);

/* Whether the policy enforces, only watches, or is off; the file's top level goes first. */
enum weir_mode weir_limiter_mode(const struct weir_limiter *limiter,
                                 const struct weir_ruleset *ruleset);

/* What a policy says of such a failure of the store. */
enum weir_failure_action weir_limiter_failure_rule(const struct weir_ruleset *ruleset,
                                                   enum weir_store_result result);

/* limiter_subject.c */

struct weir_subject_plan {
    bool looks;    /* to spend nothing                                                     */
    bool only_own; /* leave limits out that the subject shares with those it does not name */
    const struct weir_ruleset *denied; /* that keeps one of the subjects out; NULL: none does */
    struct weir_plan_of_checks plan;
    uint64_t costs[WEIR_CHECK_LIMITS]; /* that the subjects name, beside the plan's spends */
};

/* Adds the limits that apply to a subject. */
enum weir_code weir_limiter_add_subject(const struct weir_limiter *limiter,
                                        const struct weir_subject *theirs,
                                        struct weir_subject_plan *planned,
                                        struct weir_error *error);

/* limiter_settle.c */

/* weir_settle() was heard: corrects the limits that count every request. */
void weir_limiter_settle_actual(struct weir_limiter *limiter, struct weir_limit_state *state,
                                uint64_t actual);

/* The reply's status is known: corrects the limits that count by it. A reply by which weir itself
 * refused the request says nothing about its outcome. True: what the account has asked for succeeded. */
bool weir_limiter_settle_outcome(struct weir_limiter *limiter, struct weir_limit_state *state,
                                 const struct weir_request *request, unsigned status);

/* Hands `count` spends to the store that has decided, which copies are made of; nobody waits for the
 * answer, and one that is lost leaves everything as it was. `block_us` is for WEIR_BLOCK. */
void weir_limiter_submit(struct weir_limiter *limiter, const struct weir_limit_state *state,
                         enum weir_operation operation, const struct weir_spend *spends,
                         size_t count, uint64_t block_us);

/* Gives back all that was spent and is not settled. */
void weir_limiter_give_back(struct weir_limiter *limiter, struct weir_limit_state *state);

/* limiter_concurrency.c */

/* Makes the slots and counts that the policy asks for; false: memory ran out. */
bool weir_limiter_open_concurrency(struct weir_limiter *limiter);
void weir_limiter_close_concurrency(struct weir_limiter *limiter);

/* The slots of a group; NULL: there is no such group. */
struct weir_slots *weir_limiter_slots(const struct weir_limiter *limiter, const char *group);

/* NULL: no policy counts by key. */
struct weir_key_counts *weir_limiter_key_counts(const struct weir_limiter *limiter);

/* A look before anything is asked: true where a request of the state's policy would find no slot, and
 * is turned away by `step`. */
bool weir_limiter_is_busy(struct weir_limiter *limiter, struct weir_limit_state *state,
                          struct weir_request *request, enum weir_step *step);

/* Takes what the state's policy asks for, before the request goes on to the application; if there is
 * none, it is turned away, and what it has spent is given back. */
enum weir_step weir_limiter_enter(struct weir_limiter *limiter, struct weir_limit_state *state,
                                  struct weir_request *request);

/* The reply is made: the back end is free for another. */
void weir_limiter_leave_back_end(struct weir_limit_state *state, const struct weir_request *request,
                                 unsigned status);

/* The request is over, whatever has become of it. */
void weir_limiter_leave(struct weir_limiter *limiter, struct weir_limit_state *state);

/* limiter_lease.c */

/* Opens leases where the policy asks for some, and logs how much they may leave unused; false: memory
 * or threads ran out. */
bool weir_limiter_open_leases(struct weir_limiter *limiter);

/* Settles what leases can take back, and moves what the store has to be told to the front. Returns how
 * many that are. */
size_t weir_limiter_settle_leases(struct weir_limiter *limiter, struct weir_spend *spends,
                                  size_t count);

/* limiter_known.c */

/* Finds the account and, by its cookie, the device; false: memory ran out. */
bool weir_limiter_recognise(struct weir_limiter *limiter, struct weir_limit_state *state,
                            struct weir_request *request, const struct weir_asker *asker);

/* Whether the store is to be asked for the address, by a look at state->known->memory. */
bool weir_limiter_must_look(const struct weir_limit_state *state);

/* What stands for the device where limits count by it; at NULL: it is not known. */
struct weir_text weir_limiter_device(const struct weir_limit_state *state);

/* The account has succeeded: sends a cookie, where there is none yet or an old one, takes back those
 * that are too many, and remembers the address. */
void weir_limiter_remember(struct weir_limiter *limiter, struct weir_limit_state *state,
                           const struct weir_request *request, struct weir_reply *reply);

/* limiter_reply.c */

/* Works out what is the same for every request; false: memory ran out. */
bool weir_limiter_prepare(struct weir_limiter *limiter);

/* Whether this request may see quota fields: the route asks for identity, and there is more than
 * an address. */
bool weir_limiter_may_show(const struct weir_limit_state *state,
                           const struct weir_request *request);

/* Replies; each ends the request and reports the decision. */
enum weir_step weir_limiter_refuse(struct weir_limiter *limiter, struct weir_limit_state *state,
                                   struct weir_request *request,
                                   const struct weir_combined *verdict);

/* Whether the application is to refuse: all limits that do leave it to it. */
bool weir_limiter_leaves(const struct weir_limit_state *state);

/* The application was left to refuse, and the reply says that it did not: then nobody is let in by a
 * mistake, as far as the reply can still be changed. */
void weir_limiter_guard(struct weir_limiter *limiter, const struct weir_request *request,
                        struct weir_reply *reply);
enum weir_step weir_limiter_fail_closed(struct weir_limiter *limiter,
                                        struct weir_limit_state *state,
                                        struct weir_request *request);
enum weir_step weir_limiter_unauthorized(struct weir_limiter *limiter,
                                         struct weir_limit_state *state,
                                         struct weir_request *request);
enum weir_step weir_limiter_bad_path(struct weir_request *request);

/* The same for a client that a list keeps out by its address, key, tenant or user: `what`. The policy
 * is the ruleset of the state; NULL: the list is the file's. */
enum weir_step weir_limiter_deny(struct weir_limiter *limiter, struct weir_limit_state *state,
                                 struct weir_request *request, const char *what);

/* The same for one that came while too many were under way: of its own (`full` is NULL: 429), or at
 * the back end (503). */
enum weir_step weir_limiter_busy(struct weir_limiter *limiter, struct weir_limit_state *state,
                                 struct weir_request *request, struct weir_slots *full);

/* The same for a body that cannot be read; it counts as the application's own reply would. */
enum weir_step weir_limiter_unreadable(struct weir_limiter *limiter, struct weir_limit_state *state,
                                       struct weir_request *request);

/* How long a client waits that was kept out because the store failed: what the store says, and a
 * second at least. */
uint64_t weir_limiter_closed_retry_us(const struct weir_limiter *limiter);

/* Reports a decision that lets the request through; `verdict` may be NULL. */
void weir_limiter_report(struct weir_limiter *limiter, const struct weir_limit_state *state,
                         const struct weir_request *request, enum weir_outcome outcome,
                         const struct weir_combined *verdict);

/* What is left of one limit. */
struct weir_quota weir_limiter_quota(const struct weir_limiter *limiter,
                                     const struct weir_planned *planned,
                                     const struct weir_spend *spend,
                                     const struct weir_answer *answer);

/* Adds the quota fields to a reply, if this request may see them. */
void weir_limiter_show(struct weir_limiter *limiter, struct weir_limit_state *state,
                       struct weir_reply *reply);

#endif
