#include "chain/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 511

static bool bind_and_listen(int listener, const struct addrinfo *where)
{
    const int on = 1, off = 0;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (where->ai_family == AF_INET6)
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    return bind(listener, where->ai_addr, where->ai_addrlen) == 0 && listen(listener, BACKLOG) == 0;
}

static const char *advice_on(int failure)
{
    switch (failure) {
    case EADDRINUSE:
        return "; another program listens there: stop it, or take another port";
    case EACCES:
        return "; ports below 1024 are for root, or for CAP_NET_BIND_SERVICE";
    case EADDRNOTAVAIL:
        return "; no network interface of this machine has that address";
    default:
        return "";
    }
}

static enum weir_code open_at(const char *address, uint16_t port, const struct addrinfo *where,
                              int *listener, struct weir_error *error)
{
    int made = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made >= 0 && bind_and_listen(made, where)) {
        *listener = made;
        return WEIR_OK;
    }
    int failure = errno;
    if (made >= 0)
        close(made);
    bool has_colons = strchr(address, ':') != NULL;
    return weir_error_set(error, WEIR_E_SYSTEM, NULL, "Cannot listen on %s%s%s:%u: %s%s.",
                          has_colons ? "[" : "", address, has_colons ? "]" : "", port,
                          strerror(failure), advice_on(failure));
}

enum weir_code weir_listen(const char *address, uint16_t port, int *listener,
                           struct weir_error *error)
{
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *found;
    int failed = getaddrinfo(address, service, &hints, &found);
    if (failed != 0)
        return weir_error_set(
            error, WEIR_E_VALUE, NULL,
            "The address to listen on is \"%s\": %s. An address of this machine is "
            "wanted, such as \"127.0.0.1\", \"::1\" or \"localhost\".",
            address, gai_strerror(failed));
    enum weir_code code = open_at(address, port, found, listener, error);
    freeaddrinfo(found);
    return code;
}

uint16_t weir_listen_port(int listener)
{
    struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
    socklen_t length = sizeof address;
    if (getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        return 0;
    if (address.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)&address)->sin_port);
    return address.ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)&address)->sin6_port)
                                         : 0;
}
