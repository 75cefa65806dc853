/* What is legal in a policy but surely wrong. */
#ifndef WEIR_POLICY_WARNINGS_H
#define WEIR_POLICY_WARNINGS_H

#include "policy/policy.h"

/* What a policy does not tell. */
struct weir_written {
    bool has_instances;
    bool has_secret;
};

/* Adds warnings about the whole policy to it, 100 at most. Errors: WEIR_E_MEMORY. */
enum weir_code weir_policy_warn(struct weir_policy *policy, const struct weir_written *written,
                                struct weir_error *error);

/* Adds one if a trusted network, written at `path`, covers a good part of the Internet: public
 * IPv4 of /8 or wider, public IPv6 of /16 or wider. Errors: WEIR_E_MEMORY. */
enum weir_code weir_warn_of_trust(struct weir_policy *policy, const struct weir_network *network,
                                  const char *path, struct weir_error *error);

/* Adds one if a network that is let through without limits, written at `path`, is everybody's. Errors:
 * WEIR_E_MEMORY. */
enum weir_code weir_warn_of_allowed(struct weir_policy *policy, const struct weir_network *network,
                                    const char *path, struct weir_error *error);

/* Adds one if a secret of so many bytes is one that can be found by trying. Errors: WEIR_E_MEMORY. */
enum weir_code weir_warn_of_secret(struct weir_policy *policy, size_t length,
                                   struct weir_error *error);

/* Adds one that a policy which does not enforce says for how many clients it does. Errors:
 * WEIR_E_MEMORY. */
enum weir_code weir_warn_of_percent(struct weir_policy *policy, const struct weir_ruleset *ruleset,
                                    struct weir_error *error);

/* True where the policy counts by fields of a body, or where its name or the path of a route that uses
 * it says login, signin, otp, password, passwd, reset or token, in any letter case. Pure. */
bool weir_ruleset_guards_login(const struct weir_policy *policy,
                               const struct weir_ruleset *ruleset);

#endif
