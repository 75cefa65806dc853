/* The client's address, through proxies that are trusted. */
#ifndef WEIR_IDENTITY_FORWARDED_H
#define WEIR_IDENTITY_FORWARDED_H

#include <weir/error.h>

#include "identity/address.h"
#include "request/facts.h"

/* Who is believed: a number of hops, or a list of networks; all zero trusts nobody. */
struct weir_trust {
    unsigned hops;
    struct weir_network *networks; /* owned; NULL where hops count */
    size_t network_count;
    bool unix_peer; /* a peer without an address (a Unix socket) is trusted */
};

/* Reads "192.0.2.1", "10.0.0.0/8", "10.0.0.0/255.0.0.0" or the like in IPv6. Returns NULL, or what is
 * wrong: an IPv4-mapped block wider than /96, a host name, and all that inet_pton refuses. Pure. */
const char *weir_block_read(struct weir_text text, struct weir_network *network);

/* Adds "192.0.2.1", "10.0.0.0/8", "10.0.0.0/255.0.0.0", "loopback", "linklocal", "uniquelocal" or
 * "unix" to a trust list. Refuses /0, an IPv4-mapped block wider than /96, host names, and
 * everything inet_pton does, saying why (WEIR_E_VALUE at `path`). */
enum weir_code weir_trust_add(struct weir_trust *trust, struct weir_text text, const char *path,
                              struct weir_error *error);
void weir_trust_finish(struct weir_trust *trust);

/* Whether a peer of a request is believed when it says who is behind it. Pure. */
bool weir_trust_covers_peer(const struct weir_trust *trust, const struct weir_address *peer);

enum weir_forwarded_form {
    WEIR_X_FORWARDED_FOR, /* a list, over all lines of the header                */
    WEIR_FORWARDED,       /* RFC 7239, each line split from right to left        */
    WEIR_ONE_ADDRESS      /* a proxy's own header with one address, last line    */
};

/* Walks from the peer through the entries of one header, right to left, while who speaks is
 * trusted; an entry that is no address ends the walk. Reads at most 64 entries and 4 KiB.
 * `hops_used`, if not NULL, gets the number of entries that were believed (0: the peer is meant).
 * A peer without an address that is not trusted gives WEIR_NO_ADDRESS. Pure. */
struct weir_address weir_forwarded_client(const struct weir_trust *trust,
                                          enum weir_forwarded_form form, struct weir_text header,
                                          const struct weir_facts *facts, unsigned *hops_used);

/* How many entries are believed at most. */
#define WEIR_FORWARDED_MAX 64

/* One step of the walk. */
struct weir_hop {
    struct weir_address speaker;
    bool is_trusted;        /* its word is taken                                           */
    struct weir_text entry; /* what it said of who is behind it, trimmed; empty: nothing   */
    bool is_believed;       /* that is an address, which speaks next                       */
};

/* The speakers in their order, the peer first and the client last. */
struct weir_hops {
    struct weir_hop hop[WEIR_FORWARDED_MAX + 1];
    size_t count;
};

/* The same, and how it went: `hops` may be NULL. */
struct weir_address weir_forwarded_trace(const struct weir_trust *trust,
                                         enum weir_forwarded_form form, struct weir_text header,
                                         const struct weir_facts *facts, unsigned *hops_used,
                                         struct weir_hops *hops);

#endif
