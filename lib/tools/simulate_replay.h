/* A server without sockets: requests of a log go through a chain with weir_limit() in it, at the time
 * that the log says. The store is one in memory, and the application answers as the log has it. */
#ifndef WEIR_TOOLS_SIMULATE_REPLAY_H
#define WEIR_TOOLS_SIMULATE_REPLAY_H

#include <weir/limiter.h>

#include "limit/label.h"
#include "policy/policy.h"
#include "store/store.h"
#include "tools/access_log.h"

struct weir_replay;

/* What became of a request. Texts and limits hold until the next one. */
struct weir_replayed {
    enum weir_outcome outcome;
    enum weir_outcome would; /* if the policy did not only watch; else the outcome */
    unsigned status;         /* of the reply to it                                 */
    const char *policy;      /* that has decided; NULL: none                       */
    const char *limit;       /* that refused; NULL: none did                       */
    uint64_t retry_s;        /* 0: it is not told to come back                     */

    /* Who it is, and, where a limit refused it, whose units there are none of: as operators may see it. */
    char client[WEIR_KEY_LABEL_CHARS], key[WEIR_KEY_LABEL_CHARS];

    /* The limits that were asked. */
    const struct weir_ruleset *ruleset; /* NULL: no limits hold for it                */
    struct {
        const struct weir_limit_rule *limit;
        struct weir_text key; /* that the store has it under */
    } asked[WEIR_CHECK_LIMITS];
    size_t asked_count;
};

/* What a policy is before it can be replayed: without leases, without limits on requests at once, and
 * without the denial cache. With `enforces` it holds for everybody, whatever its modes say. With
 * `admits` nobody needs an identity where routes want one. */
void weir_replay_prepare(struct weir_policy *policy, bool enforces, bool admits);

/* The policy, which has been prepared, is borrowed. The store has room for what `requests` requests
 * leave behind. */
enum weir_code weir_replay_new(const struct weir_policy *policy, size_t requests,
                               struct weir_replay **replay, struct weir_error *error);

/* Accepts NULL; returns NULL. */
struct weir_replay *weir_replay_free(struct weir_replay *replay);

/* Sends one request. False: memory ran out. */
bool weir_replay_request(struct weir_replay *replay, const struct weir_access_entry *entry,
                         struct weir_replayed *replayed);

/* Of its store. */
struct weir_store_numbers weir_replay_numbers(const struct weir_replay *replay);

#endif
