/* Peers for tests, made from text. */
#ifndef TESTS_UNIT_IDENTITY_PEER_H
#define TESTS_UNIT_IDENTITY_PEER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

union peer {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
};

/* "unix" gives one without an address. An IPv4-mapped address stays IPv6, as on a dual-stack
 * socket. */
static inline union peer peer_from(const char *text)
{
    union peer peer;
    memset(&peer, 0, sizeof peer);
    peer.any.sa_family = AF_UNIX;
    if (inet_pton(AF_INET, text, &peer.ipv4.sin_addr) == 1)
        peer.any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &peer.ipv6.sin6_addr) == 1)
        peer.any.sa_family = AF_INET6;
    return peer;
}

#endif
