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
#include "limit/edition.h"
#include "limit/known.h"
#include "limit/leases.h"
#include "limit/limiter_observe.h"
#include "observe/counts.h"

/* The slots of one adaptive limit, for all editions that have it alike. */
struct weir_limiter_group {
    struct weir_limiter_group *next;
    struct weir_slots *slots;
    size_t editions; /* that refer to it */
    size_t share_count;
    uint32_t shares_ppm[WEIR_PARTITIONS_MAX];
};

/* Texts that are kept once each, in order. */
struct weir_limiter_names {
    char **names;
    size_t count, room;
};

struct weir_limiter {
    struct weir_editions editions; /* of the policy */
    struct weir_store *store;
    bool owns_store;

    /* What editions share. Made when the first policy asks for it, and kept until the end: whoever has
     * an edition looks there, since another may want less. */
    _Atomic(struct weir_store *) fallback;
    _Atomic(struct weir_denials *) denials;
    _Atomic(struct weir_leases *) leases;
    _Atomic(struct weir_key_counts *) key_counts;
    struct weir_limiter_names names;
    struct weir_counts *counts;
    struct weir_limiter_observing *observing;
    pthread_mutex_t groups_mutex; /* guards the next */
    struct weir_limiter_group *groups;

    /* One policy at a time replaces another. Guards the names, too, and the file's name. */
    pthread_mutex_t reload_mutex;
    char *file; /* NULL: not known */
    struct weir_file_stamp
        file_stamp; /* of it, when the policy in force was read, or just before */
    enum weir_code (*load)(void *load_self, const char *file, struct weir_policy **policy,
                           struct weir_error *error);
    void *load_self;
    void (*on_policy)(void *policy_self, const struct weir_policy *policy); /* NULL: none */
    void *policy_self;
    pthread_mutex_t reload_state_mutex; /* guards the next, and nobody waits for it for long */
    struct weir_reload_state reload_state;

    bool has_own_clock; /* the caller's, and not the system's */
    struct weir_clock clock;
    struct weir_log log;
    uint64_t (*cost)(void *cost_self, struct weir_request *request, uint64_t route_cost);
    void *cost_self;
    void (*on_decision)(void *decision_self, const struct weir_decision *decision);
    void *decision_self;
    struct weir_middleware limit;
    struct weir_middleware identify;
    struct weir_middleware metrics; /* filled by weir_metrics() */
    atomic_bool has_warned;         /* that it stands twice in a chain */

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
    bool is_own;                  /* that of the client, and not of all     */
    uint32_t most;                /* if it is over: how much it is          */
};

/* Keeps an edition for as long as a request lasts, since what is known of its client points there. */
struct weir_edition_hold {
    struct weir_request_hold base;
    const struct weir_edition *edition;
};

/* One request in the limiter. */
struct weir_limit_state {
    const struct weir_edition
        *edition;                  /* of the policy, by which all of it is decided; NULL: NEW */
    struct weir_edition_hold kept; /* unless something else of the request keeps it           */
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
    bool is_leased;    /* the leases have the check, and not the store                          */
    uint64_t asked_us; /* monotonic: when the store was; 0: it was not, or the answer is counted */
    uint64_t answered_us; /* likewise, when its last answer was counted; 0: it was not asked */
    struct weir_ticket ticket;
    uint64_t cost;   /* of the request                                                        */
    uint64_t actual; /* what weir_settle() said; only if has_actual          */
    uint8_t settled_limits;  /* a bit for each limit whose spending is settled       */
    bool is_spared;          /* its policy enforces for other clients only */
    enum weir_outcome would; /* that it had if its policy did not only watch; WEIR_ALLOWED: none */
    bool has_timed_out;      /* a check before this one: the store is not waited for again */
    bool has_spent;          /* the check charged all of its limits                  */
    bool has_actual;
    bool has_reply;
    bool by_memory;
    bool is_share_too_small;      /* on memory: the whole limit would hold the cost */
    enum weir_source source;      /* of what was decided last           */
    bool is_concluded;            /* its decision is observed           */
    struct weir_limit_note *note; /* what it was let through in spite of; NULL: nothing */
    bool has_quotas;              /* the answers hold for this request  */
    bool shows_quotas;            /* and the client may see them        */
    struct weir_limit_hold hold;
};

/* limiter.c */

void weir_limiter_make_middleware(struct weir_limiter *limiter);

/* The limiter whose weir_limit() this is; NULL: it is something else. */
struct weir_limiter *weir_limiter_of(const struct weir_middleware *middleware);

/* Turns a limit into this instance's share of it; false: the cost fits the whole, and not the share. */
bool weir_limiter_take_share(struct weir_spend *spend, const struct weir_planned *planned,
                             unsigned instances);

/* What a policy says of such a failure of the store. */
enum weir_failure_action weir_limiter_failure_rule(const struct weir_ruleset *ruleset,
                                                   enum weir_store_result result);

/* limiter_edition.c */

void weir_limiter_init_editions(struct weir_limiter *limiter);
void weir_limiter_finish_editions(struct weir_limiter *limiter);

/* Makes `policy` the one in force, which the caller keeps, and frees what it replaces, once nobody has
 * it any more. `owned` is the same, for the limiter to free in the end, or NULL. One at a time. */
enum weir_code weir_limiter_adopt(struct weir_limiter *limiter, const struct weir_policy *policy,
                                  struct weir_policy *owned, struct weir_error *error);

/* The edition by which all of a request is decided: the one that the limiter has for it already, or
 * the current one, which `hold`, in the request's memory, then keeps for as long as the request lasts. */
const struct weir_edition *weir_limiter_edition_for(struct weir_limiter *limiter,
                                                    struct weir_request *request,
                                                    struct weir_edition_hold *hold);

/* limiter_mode.c */

/* Whether the policy enforces, only watches, or is off; the file's top level goes first. Of a policy
 * that enforces for some clients: that it does. */
enum weir_mode weir_limiter_mode(const struct weir_edition *edition,
                                 const struct weir_ruleset *ruleset);

/* The same for this client. Pure. */
enum weir_mode weir_limiter_mode_for(const struct weir_edition *edition,
                                     const struct weir_ruleset *ruleset,
                                     const struct weir_identity *identity);

/* Finds out, once for all that is decided about it, whether the route's policy enforces for who asks. */
void weir_limiter_find_mode(struct weir_limit_state *state, const struct weir_request *request);

/* Reports what would have become of a request if its policy did not only watch; `verdict` may be NULL. */
void weir_limiter_watch(struct weir_limiter *limiter, struct weir_limit_state *state,
                        struct weir_request *request, enum weir_outcome would,
                        const struct weir_combined *verdict);

/* Whether the policy enforces, only watches, or is off for this request. */
enum weir_mode weir_limiter_mode_here(const struct weir_limit_state *state,
                                      const struct weir_ruleset *ruleset);

/* limiter_reload.c */

/* With the first policy; false: memory ran out. */
bool weir_limiter_init_reload(struct weir_limiter *limiter,
                              const struct weir_limiter_options *options);
void weir_limiter_finish_reload(struct weir_limiter *limiter);

/* Calls `on_policy` with the policy that is in force, and with each that takes its place, while no other
 * can; NULL: with none from now on. */
void weir_limiter_tell_policy(struct weir_limiter *limiter,
                              void (*on_policy)(void *self, const struct weir_policy *policy),
                              void *self);

/* The name of the file that the next reload reads, for free(), and, unless `stamp` is NULL, how it was when
 * the policy in force was read. Errors: WEIR_E_ARGUMENT: none is known; WEIR_E_MEMORY. */
enum weir_code weir_limiter_file(struct weir_limiter *limiter, char **file,
                                 struct weir_file_stamp *stamp, struct weir_error *error);

/* limiter_subject.c */

struct weir_subject_plan {
    bool looks;     /* to spend nothing                                                     */
    bool only_own;  /* leave limits out that the subject shares with those it does not name */
    bool is_spared; /* a policy that enforces for some clients does not for one of the subjects */
    const struct weir_ruleset *denied; /* that keeps one of the subjects out; NULL: none does */
    const struct weir_ruleset *first;  /* whose limits the first subject asks for             */
    struct weir_client client;         /* that it is                                          */
    struct weir_plan_of_checks plan;
    uint64_t costs[WEIR_CHECK_LIMITS]; /* that the subjects name, beside the plan's spends */
};

/* Adds the limits that apply to a subject. */
enum weir_code weir_limiter_add_subject(const struct weir_edition *edition,
                                        const struct weir_subject *theirs,
                                        struct weir_subject_plan *planned,
                                        struct weir_error *error);

/* limiter_call.c: for what is mounted for operators; both wait for the store */

/* As weir_limiter_reset() or weir_limiter_block(), for keys that somebody else has worked out. */
enum weir_code weir_limiter_change_keys(struct weir_limiter *limiter, enum weir_operation operation,
                                        const struct weir_spend *spends, size_t count,
                                        uint64_t block_us, struct weir_error *error);

/* Exchanges the text that all processes with this store and prefix keep under `name`. Errors:
 * WEIR_E_NOT_YET: the store keeps no texts; those of a store. */
enum weir_code weir_limiter_exchange(struct weir_limiter *limiter, const char *name,
                                     struct weir_exchange *exchange, uint64_t *now_us,
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
 * answer, and one that is lost leaves everything as it was. What a settlement comes to is counted for
 * the limits in `planned`, beside the spends, and NULL for others. `block_us` is for WEIR_BLOCK. */
void weir_limiter_submit(struct weir_limiter *limiter, const struct weir_limit_state *state,
                         enum weir_operation operation, const struct weir_spend *spends,
                         const struct weir_planned *planned, size_t count, uint64_t block_us);

/* Gives back all that was spent and is not settled. */
void weir_limiter_give_back(struct weir_limiter *limiter, struct weir_limit_state *state);

/* limiter_concurrency.c */

/* Finds or makes the slots and counts that the edition's policy asks for; false: memory ran out. */
bool weir_limiter_open_concurrency(struct weir_limiter *limiter, struct weir_edition *edition);

/* The edition is in use: its bounds hold from now on. */
void weir_limiter_adopt_concurrency(const struct weir_edition *edition);

/* Gives up what an edition refers to, whole or half made. */
void weir_limiter_close_concurrency(struct weir_limiter *limiter, struct weir_edition *edition);

/* The slots of a group of the current policy, for as long as it has them; NULL: there is no such
 * group. */
struct weir_slots *weir_limiter_slots(struct weir_limiter *limiter, const char *group);

/* NULL: no policy counts by key. */
struct weir_key_counts *weir_limiter_key_counts(struct weir_limiter *limiter);

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
void weir_limiter_leave(struct weir_limit_state *state);

/* limiter_lease.c */

/* Whether a limit of the edition's policy is leased. */
bool weir_limiter_wants_leases(const struct weir_edition *edition);

/* Opens leases where the edition's policy asks for some; false: memory or threads ran out. */
bool weir_limiter_open_leases(struct weir_limiter *limiter, struct weir_edition *edition);

/* The edition is in use: logs how much its leases may leave unused. */
void weir_limiter_adopt_leases(const struct weir_limiter *limiter,
                               const struct weir_edition *edition);

/* Settles and counts what leases can take back, and moves what the store has to be told to the front,
 * with what stands beside it in `planned`. Returns how many that are. */
size_t weir_limiter_settle_leases(const struct weir_edition *edition, struct weir_spend *spends,
                                  struct weir_planned *planned, size_t count);

/* limiter_count.c */

/* All limits of a check have met this fate, at what it costs. `planned` stands beside its spends. */
void weir_limiter_count_plan(const struct weir_edition *edition, const struct weir_check *check,
                             const struct weir_planned *planned, enum weir_units_fate fate,
                             bool by_memory);

/* A correction was carried out, or nobody knows whether (not `is_sure`). */
void weir_limiter_count_settled(const struct weir_edition *edition,
                                const struct weir_planned *planned,
                                const struct weir_spend *settled, bool is_sure, bool by_memory);

/* The store is about to be asked. */
void weir_limiter_note_asking(const struct weir_limiter *limiter, struct weir_limit_state *state);

/* A check of the state's has ended: how long the store took, whether it failed, and what may have been
 * spent all the same. */
void weir_limiter_count_answer(struct weir_limiter *limiter, struct weir_limit_state *state);

/* The same for one that was taken back, or that ended when its request did: the store has not failed. */
void weir_limiter_count_taken_back(struct weir_limit_state *state);

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
bool weir_limiter_prepare(struct weir_limiter *limiter, struct weir_edition *edition);

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
enum weir_step weir_limiter_bad_path(struct weir_limiter *limiter, struct weir_limit_state *state,
                                     struct weir_request *request);

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

/* The status of that reply, and of the one to a path that cannot be normalised. */
unsigned weir_limiter_unreadable_status(const struct weir_limit_state *state);

/* What WWW-Authenticate says (RFC 6750, section 3: the error only where a credential was sent). */
const char *weir_limiter_challenge(const struct weir_request *request);

/* What a client is told to wait that would be let through after `retry_s`; 0: nothing. */
uint64_t weir_limiter_told_wait_s(const struct weir_limit_state *state, uint64_t retry_s);

/* How long a client waits that was kept out because the store failed: what the store says, and a
 * second at least. */
uint64_t weir_limiter_closed_retry_us(const struct weir_limiter *limiter);

/* What is left of one limit; its texts live as long as the limiter. */
struct weir_quota weir_limiter_quota(const struct weir_limiter *limiter,
                                     const struct weir_edition *edition,
                                     const struct weir_planned *planned,
                                     const struct weir_spend *spend,
                                     const struct weir_answer *answer);

/* Adds the quota fields to a reply, if this request may see them. */
void weir_limiter_show(struct weir_limiter *limiter, struct weir_limit_state *state,
                       struct weir_reply *reply);

#endif
