/* The admin API from the inside. admin.c knows its requests, admin_access.c who may send them,
 * admin_work.c the thread for what blocks; the rest answers. */
#ifndef WEIR_ADMIN_ADMIN_H
#define WEIR_ADMIN_ADMIN_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weir/admin.h>

#include "admin/admin_json.h"
#include "base/hash.h"
#include "chain/request.h"

/* More than so many do not wait for the thread. */
#define WEIR_ADMIN_QUEUE_MAX 32

/* A request's body may have so many bytes, and so may all of its query. */
#define WEIR_ADMIN_BODY_MAX 16384

#define WEIR_ADMIN_DETAIL_CHARS 480

/* What a request is answered. */
struct weir_admin_answer {
    unsigned status;
    json_t *body;                         /* owned; NULL: a problem of that status    */
    char detail[WEIR_ADMIN_DETAIL_CHARS]; /* of the problem; "": none                 */
};

/* What is asked, with what it takes to answer; outlives the request where that is cut short. */
struct weir_admin_job {
    struct weir_admin_job *next;
    atomic_int owners; /* the request and the thread                                    */
    struct weir_ticket ticket;
    const struct weir_admin_route *route;
    json_t *members; /* of the query or of the body; owned                              */
    bool is_query;   /* then numbers are texts                                          */
    bool is_told;    /* a change of which there is a line in the log                    */
    uint32_t parked; /* requests of the chain that wait, when it came */
    char who[WEIR_ADDRESS_CHARS];
    struct weir_admin_answer answer; /* written before the wake, read after it          */
};

/* One kind of request. */
struct weir_admin_route {
    const char *method; /* GET serves HEAD as well                                      */
    const char *path;   /* below where the middleware is mounted                        */
    void (*answer)(struct weir_admin *admin, struct weir_admin_job *job);
    bool blocks;            /* is answered on the thread                                */
    const char *const *may; /* members that it takes, with a NULL behind them           */
};

/* Attempts with a wrong token, for one line in the log now and then. */
struct weir_admin_attempts {
    pthread_mutex_t mutex;
    uint64_t pause_us; /* from one line to the next                                     */
    uint64_t told_us;  /* when there was a line; 0: never                               */
    uint64_t untold;   /* since then                                                    */
    char last[WEIR_NETWORK_CHARS];
};

struct weir_admin {
    struct weir_limiter *limiter;
    struct weir_log log;
    uint64_t started_us;
    struct weir_middleware middleware;
    struct weir_middleware guard;
    struct weir_admin *guarded; /* itself, of which the guard's self is the address: slots are found
                                 * by their link's self */

    bool is_shut; /* for want of a token, by the policy; of who calls on_policy()   */

    bool has_token;
    uint8_t secret[WEIR_SECRET_BYTES]; /* drawn at random: for the next                */
    char token[WEIR_LABEL_CHARS + 1];  /* what stands for it                           */
    struct weir_store *guesses;        /* of addresses that have sent wrong tokens     */
    struct weir_admin_attempts attempts;

    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows                                           */
    pthread_cond_t more;
    struct weir_admin_job *first;
    struct weir_admin_job *last;
    size_t waiting;
    bool is_over;
    bool has_thread;
};

/* admin_access.c */

/* Takes the token; fails where it is none that is taken. */
enum weir_code weir_admin_take_token(struct weir_admin *admin, const char *token,
                                     struct weir_error *error);

/* Tells of attempts that were not told yet, once it is time to. */
void weir_admin_tell_attempts(struct weir_admin *admin);

/* When that is (weir_monotonic_us()); 0: there is none to tell of. */
uint64_t weir_admin_attempts_due_us(struct weir_admin *admin);

/* Nobody asks any more: tells of attempts that were not told yet. */
void weir_admin_forget_token(struct weir_admin *admin);

/* Says in the log, from now on, when a policy shuts the API for want of a token; and no longer. */
void weir_admin_heed_policy(struct weir_admin *admin);
void weir_admin_leave_policy(struct weir_admin *admin);

/* Whether the request may be answered; if not, it has been. */
bool weir_admin_lets_in(struct weir_admin *admin, struct weir_request *request);

/* Writes the address of who asks, through trusted proxies. */
void weir_admin_name_client(const struct weir_admin *admin, const struct weir_request *request,
                            char address[WEIR_ADDRESS_CHARS]);

/* Whether an address may be listened at; NULL: it is not known. */
enum weir_code weir_admin_may_listen(void *self, const struct sockaddr *address,
                                     struct weir_error *error);

/* admin_work.c */

bool weir_admin_start(struct weir_admin *admin);

/* Looks anew when attempts are due. */
void weir_admin_rouse(struct weir_admin *admin);

/* Ends the thread; what waits for it is never answered. Safe to call again. */
void weir_admin_stop(struct weir_admin *admin);

/* Makes a job that the caller owns; NULL: memory ran out. */
struct weir_admin_job *weir_admin_job_new(const struct weir_admin_route *route);

/* One of the owners lets it go. */
void weir_admin_job_drop(struct weir_admin_job *job);

/* Parks the request and hands the job to the thread, which is its second owner; afterwards neither
 * is the caller's to touch. False: too many wait, or the server stops. */
bool weir_admin_hand_over(struct weir_admin *admin, struct weir_admin_job *job,
                          struct weir_request *request);

/* admin_members.c */

/* Reads the query, or the body, into job->members. False: the job has its answer. */
bool weir_admin_read_query(struct weir_admin_job *job, const struct weir_request *request);
bool weir_admin_read_body(struct weir_admin_job *job, struct weir_text body);

/* A member that is a text; NULL: it is not there. False: it is something else, which is answered. */
bool weir_admin_text(struct weir_admin_job *job, const char *name, const char **text);

/* A member that is a whole number from `least` to `most`; `number` stays where it is not there. */
bool weir_admin_number(struct weir_admin_job *job, const char *name, uint64_t least, uint64_t most,
                       uint64_t *number);

#define WEIR_ADMIN_VALUES_MAX 16

/* Whom a request names; texts are of job->members. */
struct weir_admin_subject {
    struct weir_subject subject;
    struct weir_value values[WEIR_ADMIN_VALUES_MAX];
};

/* False: it is no subject, which is answered. */
bool weir_admin_read_subject(struct weir_admin_job *job, struct weir_admin_subject *subject);

/* Answers with a problem. */
void weir_admin_refuse(struct weir_admin_job *job, unsigned status, const char *format, ...)
    WEIR_PRINTF(3, 4);

/* The same, with what an error says, by the status that its code stands for. */
void weir_admin_fail(struct weir_admin_job *job, const struct weir_error *error);

/* Takes `body`; NULL: memory ran out. */
void weir_admin_answer(struct weir_admin_job *job, json_t *body);

/* what is answered */

/* A line in the log: who has asked for another policy. The limiter says what came of it. */
void weir_admin_log_reload(const struct weir_admin *admin, struct weir_admin_job *job,
                           bool is_done);

/* A line about a change that has none yet, since it was refused before it was known whose it is. */
void weir_admin_log_undone(const struct weir_admin *admin, struct weir_admin_job *job,
                           unsigned status);

/* Which process this is. */
const char *weir_admin_instance(const struct weir_admin *admin);

/* How a store is. */
json_t *weir_admin_store(const struct weir_store_state *state);

void weir_admin_health(struct weir_admin *admin, struct weir_admin_job *job);
void weir_admin_policy(struct weir_admin *admin, struct weir_admin_job *job);
void weir_admin_stats(struct weir_admin *admin, struct weir_admin_job *job);
void weir_admin_reload(struct weir_admin *admin, struct weir_admin_job *job);

void weir_admin_recent(struct weir_admin *admin, struct weir_admin_job *job);
void weir_admin_top(struct weir_admin *admin, struct weir_admin_job *job);
void weir_admin_explain(struct weir_admin *admin, struct weir_admin_job *job);

void weir_admin_look(struct weir_admin *admin, struct weir_admin_job *job);
void weir_admin_reset(struct weir_admin *admin, struct weir_admin_job *job);
void weir_admin_block(struct weir_admin *admin, struct weir_admin_job *job);
void weir_admin_unblock(struct weir_admin *admin, struct weir_admin_job *job);
void weir_admin_list(struct weir_admin *admin, struct weir_admin_job *job);

#endif
