/* What operators see of a limiter: each decision is observed here, once. */
#ifndef WEIR_LIMIT_LIMITER_OBSERVE_H
#define WEIR_LIMIT_LIMITER_OBSERVE_H

#include <weir/decisions.h>

#include "limit/combine.h"
#include "limit/edition.h"
#include "limit/label.h"
#include "observe/counts.h"
#include "observe/recent.h"
#include "observe/top_keys.h"

struct weir_limit_state;

#define WEIR_INSTANCE_MAX 63

/* Who spends most of a policy, over all editions that have one of that name. */
struct weir_limiter_top {
    struct weir_limiter_top *next;
    char *policy;
    size_t editions;        /* that refer to it */
    struct weir_top *by[2]; /* by enum weir_top_by */
};

/* One limiter's. */
struct weir_limiter_observing {
    struct weir_recent *recent;
    char instance[WEIR_INSTANCE_MAX + 1];
    pthread_mutex_t mutex; /* guards the next */
    struct weir_limiter_top *tops;
};

/* What is to be told of a decision, once it is sure that it is one. */
struct weir_limit_note {
    enum weir_outcome outcome, would;
    const struct weir_ruleset *ruleset; /* NULL: no policy's */
    size_t limit;                       /* its index, WEIR_NO_LIMIT or WEIR_LIMIT_CONCURRENCY */
    const struct weir_planned *planned; /* of the limit that refused; NULL: none did */
    const struct weir_spend *spend;
    const struct weir_answer *answer;
    bool by_memory;
    bool has_spent;
    enum weir_source source;
    unsigned status;
    uint64_t cost, retry_s, retry_us, most;
    uint64_t now_us;      /* the store's; 0: not known                             */
    uint64_t answered_us; /* monotonic; 0: not known                               */
    const char *failure;  /* NULL: the store has not failed                         */
    char why[sizeof((struct weir_check *)NULL)->why];
};

/* False: memory ran out. */
bool weir_limiter_open_observing(struct weir_limiter *limiter, const char *instance);
void weir_limiter_close_observing(struct weir_limiter *limiter);

/* Finds or makes what the edition's policies are observed by; false: memory ran out. */
bool weir_limiter_open_tops(struct weir_limiter *limiter, struct weir_edition *edition);
void weir_limiter_close_tops(struct weir_limiter *limiter, struct weir_edition *edition);

/* The seconds to wait that a verdict comes to: 0 if it allows, or if none helps. NULL: 0. Pure. */
uint64_t weir_limiter_retry_s(const struct weir_combined *verdict);

/* A request is refused, and told to come back after `retry_s` (0: it is not): observed at once.
 * `verdict` is NULL where it is not about limits. */
void weir_limiter_conclude(struct weir_limiter *limiter, struct weir_limit_state *state,
                           struct weir_request *request, enum weir_outcome outcome,
                           const struct weir_combined *verdict, uint64_t retry_s);

/* A request is let through, but not plainly: kept until it is sure that nothing else refuses it. */
void weir_limiter_report(struct weir_limiter *limiter, struct weir_limit_state *state,
                         struct weir_request *request, enum weir_outcome outcome,
                         const struct weir_combined *verdict);

/* A request has come through all that there is to check, and goes on to the application: what was
 * reported of it is observed now, or that it was let through. */
void weir_limiter_passed(struct weir_limiter *limiter, struct weir_limit_state *state,
                         struct weir_request *request);

/* The same for a decision that is in no request. */
void weir_limiter_observe_call(struct weir_limiter *limiter, const struct weir_edition *edition,
                               const struct weir_limit_note *note,
                               const struct weir_client *client);

#endif
