/* One plan of checks for all limits that apply, and one verdict from the answers. */
#ifndef WEIR_LIMIT_COMBINE_H
#define WEIR_LIMIT_COMBINE_H

#include "limit/prepared.h"
#include "limit/subject.h"

#define WEIR_PLAN_KEY_BYTES (WEIR_CHECK_LIMITS * 512)

/* What stands behind one spend of a check. */
struct weir_planned {
    const struct weir_ruleset *ruleset;
    const struct weir_limit_rule *limit;
    size_t penalty; /* where weir_plan_merge_penalties() has put its penalty; 0: none */
    const struct weir_prepared_limit *prepared; /* of the policy; NULL: it does not hold here */
};

/* The limits that a check will decide; `keys` is the memory that their keys live in. */
struct weir_plan_of_checks {
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    struct weir_planned planned[WEIR_CHECK_LIMITS]; /* beside them */
    size_t count;
    struct weir_buffer keys;
};

/* An empty one, whose arrays are written as limits are added. */
static inline void weir_plan_init(struct weir_plan_of_checks *plan, char *memory, size_t size)
{
    plan->count = 0;
    plan->keys = weir_buffer_init(memory, size);
}

/* Adds the limits of a ruleset that apply to this asker: those that are for it, whose subject is there
 * and whose rate is not unlimited; each with its penalty behind it, which takes a place of its own.
 * False: there is no room, which one ruleset and names of a policy file cannot bring about. */
bool weir_plan_add(struct weir_plan_of_checks *plan, const struct weir_ruleset *ruleset,
                   const struct weir_asker *asker, uint64_t cost);

/* The same for one limit, whoever it is for. */
bool weir_plan_add_limit(struct weir_plan_of_checks *plan, const struct weir_ruleset *ruleset,
                         const struct weir_limit_rule *limit, const struct weir_asker *asker,
                         uint64_t cost);

/* Whether a limit is for this asker, as far as it matters whether the device is known. Pure. */
bool weir_limit_is_for(const struct weir_limit_rule *limit, const struct weir_asker *asker);

/* Writes the key under which it is remembered that an account has succeeded from a network; false: it
 * does not fit. */
bool weir_plan_put_memory_key(struct weir_buffer *key, const struct weir_policy *policy,
                              const struct weir_ruleset *ruleset, struct weir_text account,
                              const char *network);

/* Merges what penalties say into the answers of their limits, and moves them behind all limits, with
 * what stands beside them. Returns how many limits there are, which is the count from now on: nobody
 * needs to know of penalties any more. `answers` may be NULL, where there are none. */
size_t weir_plan_merge_penalties(struct weir_spend *spends, struct weir_planned *planned,
                                 struct weir_answer *answers, size_t count);

/* The share of one of `instances` of a limit's rate, with at least as much at once as
 * weir_limit_share() leaves: where units are earned one by one, the same units in a window that many
 * times as long; where they are counted in windows, fewer units in the same window, whose edges stay.
 * A window that opens with a failure holds a day at most. A share of zero stays zero. Pure. */
struct weir_rate weir_rate_share(const struct weir_rate *rate, const struct weir_limit_rule *rule,
                                 unsigned instances);

/* The longest that a client is told to wait by a process that stands in for the store: it will most
 * likely be back by then, and has counts of its own. */
#define WEIR_MEMORY_WAIT_S UINT64_C(60)

/* Cuts the waits of refusals to that. Pure. */
void weir_cap_waits(struct weir_answer *answers, size_t count);

struct weir_combined {
    bool allowed;
    bool impossible;   /* one of the limits can never be met              */
    size_t worst;      /* index of the refusing limit with the longest wait */
    uint64_t retry_us; /* that wait; 0 when allowed or impossible         */
};

/* Pure. */
struct weir_combined weir_combine(const struct weir_answer *answers, size_t count);

#endif
