/* Bans that grow with each violation. A violation is a refusal by the limit in front, of a cost that
 * could fit; with `extends`, during a ban also each attempt at such a cost. How long bans are stands in
 * a row, as fail2ban's bantime.multipliers do, of which the last one is repeated: nothing here is
 * multiplied, so nothing overflows.
 *
 * State: when it has been quiet since, in `first`, which lies ahead during a ban; and the number of
 * violations, in `low`. How long a ban may be follows from that number. So a ban that ends later than
 * it may, since the clock was set back or the penalty was changed, counts as one that begins now: none
 * is lost, and none is longer than it says. */
#ifndef WEIR_LIMIT_PENALTY_H
#define WEIR_LIMIT_PENALTY_H

#include "limit/algorithm.h"

/* What the limit in front says to a request, as far as it matters to the penalty. */
enum weir_attempt {
    WEIR_NO_ATTEMPT,      /* a look, a cost that never fits, or a key that is blocked */
    WEIR_ATTEMPT_FITS,    /* which is no violation…                                   */
    WEIR_ATTEMPT_REFUSED, /* …and which is                                            */
};

/* The same from the limit's answer. Pure. */
enum weir_attempt weir_attempt_of(const struct weir_spend *limit, const struct weir_answer *answer,
                                  bool is_blocked);

/* Decides `spend`, a penalty without fault, for a key in `state`. Its violation is to be kept even
 * though the plan is refused. Thread-safe: pure. */
struct weir_decision_step weir_penalty_decide(const struct weir_spend *spend,
                                              struct weir_state state, uint64_t now_us,
                                              enum weir_attempt attempt);

/* Whether a ban is on, before any new violation: then nothing else may change, not even a log of
 * refusals. Pure. */
bool weir_penalty_bans(const struct weir_spend *spend, struct weir_state state, uint64_t now_us);

/* What is wrong with it, as a text for check->why, or NULL. Pure. */
const char *weir_penalty_fault(const struct weir_penalty *penalty);

#endif
