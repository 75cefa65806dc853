/* A bucket of tokens. Source: J. Turner, "New directions in communications (or which way to the
 * information age?)", IEEE Communications Magazine 24 (1986), and RFC 2697 for the name.
 *
 * A bucket holds `burst` tokens and earns one each interval T = window / limit while it is not full.
 * State: the moment `anchor` at which a token came or the bucket was full, and how many tokens were
 * missing then. Earned since: floor((now - anchor) / T). A cost c is refused when missing - earned +
 * c > burst. Its time in use is anchor + missing · T - now, so that it admits what gcra does; but
 * it keeps tokens where gcra keeps time, so that a raised limit leaves those that are missing. */
#ifndef WEIR_LIMIT_TOKEN_BUCKET_H
#define WEIR_LIMIT_TOKEN_BUCKET_H

#include "limit/algorithm.h"

/* The rate's limit is not 0. */
struct weir_decision_step weir_token_bucket_decide(const struct weir_rate *rate,
                                                   struct weir_state state, uint64_t now_us,
                                                   uint64_t cost);

struct weir_decision_step weir_token_bucket_settle(const struct weir_spend *spend,
                                                   struct weir_state state, uint64_t now_us);

#endif
