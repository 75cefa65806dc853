/* Internet addresses, and the networks they belong to. */
#ifndef WEIR_IDENTITY_ADDRESS_H
#define WEIR_IDENTITY_ADDRESS_H

#include "base/buffer.h"

struct sockaddr;

enum weir_family { WEIR_NO_ADDRESS, WEIR_IPV4, WEIR_IPV6 };

/* An address. IPv4-mapped IPv6 (::ffff:0:0/96, tested by its bits) is always IPv4. Zones are not
 * kept. IPv4 uses bytes[0] to bytes[3], in network order; the rest is zero. */
struct weir_address {
    enum weir_family family;
    uint8_t bytes[16];
};

#define WEIR_ADDRESS_CHARS 46 /* INET6_ADDRSTRLEN, its NUL included */
#define WEIR_NETWORK_CHARS 50 /* an address, "/128", NUL            */

/* Reads exactly an address ("192.0.2.1", "2001:db8::1", "fe80::1%eth0", whose zone is dropped):
 * no brackets, port, blanks or leading zeros. Pure. */
bool weir_address_parse(struct weir_text text, struct weir_address *address);

/* Reads an address as it stands in forwarding headers: also "192.0.2.1:80", "[2001:db8::1]" and
 * "[2001:db8::1]:443". Pure. */
bool weir_address_parse_node(struct weir_text text, struct weir_address *address);

/* From a peer; WEIR_NO_ADDRESS for NULL and for families that have none. */
struct weir_address weir_address_from(const struct sockaddr *peer);

/* Writes the text form of RFC 5952 with its NUL; "" for none. */
void weir_address_print(const struct weir_address *address, char text[WEIR_ADDRESS_CHARS]);

bool weir_address_equal(const struct weir_address *one, const struct weir_address *other);

struct weir_network {
    struct weir_address address; /* host bits are zero      */
    unsigned prefix;             /* 0 to 32, or 0 to 128    */
};

/* The network of `prefix` bits (at most 32, or 128) that an address is in. Pure. */
struct weir_network weir_network_from(const struct weir_address *address, unsigned prefix);

/* How wide a network is counted as one client. */
struct weir_prefixes {
    unsigned ipv4; /* 1 to 32                                               */
    unsigned ipv6; /* 1 to 128; 6to4 addresses (2002::/16) at most 48       */
    bool nat64;    /* 64:ff9b::/96 (RFC 6052) counts as the IPv4 inside it  */
};

/* The network that is counted for an address. Pure. */
struct weir_network weir_network_of(const struct weir_address *address,
                                    const struct weir_prefixes *prefixes);

bool weir_network_contains(const struct weir_network *network, const struct weir_address *address);

/* Writes "192.0.2.0/24" with its NUL; "" for none. */
void weir_network_print(const struct weir_network *network, char text[WEIR_NETWORK_CHARS]);

#endif
