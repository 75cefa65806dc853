/* What an operator may see of whose units these are.
 *
 * "api_key:acme-free + user#Zm9vYmFyMT": addresses as networks, API keys by their public id, and what
 * is hashed in the store's keys by the first ten characters of that hash, so that it can be found
 * there. Only users of the keys file stand as they are, though the store has them hashed. */
#ifndef WEIR_LIMIT_LABEL_H
#define WEIR_LIMIT_LABEL_H

#include "identity/identity.h"
#include "policy/policy.h"

#define WEIR_KEY_LABEL_CHARS 256 /* its NUL included; a longer one ends with "..." */

/* The subject in the key of a spend of this ruleset's: "api_key=acme-free&user=Zm9v…". At NULL: it
 * is none of its keys. Pure. */
struct weir_text weir_subject_of_key(const struct weir_spend *spend,
                                     const struct weir_policy *policy,
                                     const struct weir_ruleset *ruleset);

/* Writes the label of a subject, as weir_subject_write() has it. `who` is whose it is, and may be
 * NULL: then a user of the keys file is not recognised. Nothing but printable characters. Pure. */
void weir_subject_label(struct weir_text subject, const struct weir_identity *who,
                        char label[WEIR_KEY_LABEL_CHARS]);

/* What stands for a client in few bytes, for tables on every request's way: its API key, else its user,
 * its tenant, its network; see weir_client_label(). */
#define WEIR_CLIENT_MAX 56

struct weir_client {
    unsigned char length; /* 0: nothing is known of it */
    unsigned char bytes[WEIR_CLIENT_MAX];
};

/* Pure. */
void weir_client_of(const struct weir_identity *who, const struct weir_policy *policy,
                    struct weir_client *client);

/* The client as operators see it: "api_key:acme-free", "user#Zm9vYmFyMT", "tenant:acme",
 * "ip:192.0.2.0/24"; "" for length 0. The policy's secret hashes a user as in the store's keys. Pure. */
void weir_client_label(const struct weir_client *client, const struct weir_policy *policy,
                       char label[WEIR_KEY_LABEL_CHARS]);

#endif
