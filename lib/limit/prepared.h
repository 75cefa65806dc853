/* What the limits of a policy put into every check alike, worked out before any request comes. */
#ifndef WEIR_LIMIT_PREPARED_H
#define WEIR_LIMIT_PREPARED_H

#include "base/arena.h"
#include "base/buffer.h"
#include "policy/policy.h"

/* One limit in the numbers of one plan. */
struct weir_prepared_limit {
    bool limits;                   /* false: it does not, on this plan                        */
    struct weir_spend spend;       /* but for its cost and its key                            */
    struct weir_text tail;         /* of the key: ":limit:algorithm", and the plan            */
    struct weir_text penalty_tail; /* likewise of the penalty's; at NULL: there is none       */

    /* For whoever writes quota fields: what draft-11 says of it in every response; at NULL: it is not
     * the same in every response. */
    struct weir_text policy_item, item_head;
};

/* A ruleset's limits. A key begins with `before`, and where the slot is the identity with the subject
 * and `after` behind that. */
struct weir_prepared {
    struct weir_text before, after;
    struct weir_prepared_limit limits[WEIR_CHECK_LIMITS];
};

/* More than the texts of a ruleset take. */
#define WEIR_PREPARED_BYTES 8192

/* Prepares a ruleset for a plan of the policy's, which may be NULL. Texts go into `texts`; false: there
 * is no room. Pure. */
bool weir_prepare(struct weir_prepared *prepared, const struct weir_policy *policy,
                  const struct weir_ruleset *ruleset, const struct weir_plan *plan,
                  struct weir_buffer *texts);

/* Those of one policy file, for each plan that makes a difference. Never changed once it is in use. */
struct weir_prepared_set;

/* NULL: memory ran out. The policy must outlive it. */
struct weir_prepared_set *weir_prepared_new(const struct weir_policy *policy);
struct weir_prepared_set *weir_prepared_free(struct weir_prepared_set *set);

/* The ruleset for a plan's name; NULL: it is not there, and must be prepared for the request. `set` may
 * be NULL. Pure. */
const struct weir_prepared *weir_prepared_find(const struct weir_prepared_set *set,
                                               const struct weir_ruleset *ruleset,
                                               struct weir_text plan);

/* Calls `each` for all that are there, with the set's memory, before it is in use; false: a call said
 * so, or there is none. */
bool weir_prepared_each(struct weir_prepared_set *set,
                        bool (*each)(void *self, const struct weir_limit_rule *limit,
                                     struct weir_prepared_limit *prepared,
                                     struct weir_arena *arena),
                        void *self);

#endif
