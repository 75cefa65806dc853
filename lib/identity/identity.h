/* Who a request comes from. */
#ifndef WEIR_IDENTITY_IDENTITY_H
#define WEIR_IDENTITY_IDENTITY_H

#include "identity/api_keys.h"
#include "identity/forwarded.h"

/* How identity is found; part of a policy, never changed afterwards. Header names have at NULL
 * where nothing is configured. */
struct weir_identity_rules {
    struct weir_trust trust;
    enum weir_forwarded_form form;
    struct weir_text forwarded_header; /* the one header that is consulted                   */
    struct weir_prefixes prefixes;
    struct weir_text api_key_header; /* as well as Authorization: Bearer; at NULL: no keys   */
    struct weir_keyring *keys;       /* owned; NULL: none                                    */
    struct weir_text user_header;    /* believed from trusted peers only                     */
    struct weir_text tenant_header;
};

/* Longest user, tenant or plan an application or a proxy may name, in bytes. */
#define WEIR_NAME_MAX 255

/* What is known. Texts are borrowed: from the rules, from the request's header lines, or from the
 * names the application set. */
struct weir_identity {
    bool found; /* weir_identity_find() has run */
    struct weir_address peer;
    struct weir_address client;
    struct weir_network network;        /* that the client is counted in                      */
    struct weir_text source;            /* "peer", or the header's name as configured         */
    const struct weir_api_key *api_key; /* NULL: none that is known                          */
    bool api_key_unknown;               /* one was sent, but it is not in the ring            */
    struct weir_text user;              /* at NULL: not known; never empty                    */
    struct weir_text tenant;
    struct weir_text plan;
};

/* Finds all but what the application sets; those fields (user, tenant, plan), where they are set
 * already, are kept: the application's word goes first, then the key's, then a trusted proxy's.
 * A key in `api_key_header` goes before Authorization. An empty header is no header. Thread-safe. */
void weir_identity_find(const struct weir_identity_rules *rules, const struct weir_facts *facts,
                        struct weir_identity *identity);

/* More than an address is known: a key, a user or a tenant. */
bool weir_identity_is_known(const struct weir_identity *identity);

void weir_identity_rules_finish(struct weir_identity_rules *rules);

#endif
