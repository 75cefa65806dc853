/* A listening socket. */
#ifndef WEIR_CHAIN_LISTEN_H
#define WEIR_CHAIN_LISTEN_H

#include <weir/error.h>

/* Opens one, without blocking accept(). An IPv6 address takes IPv4 too. Errors: WEIR_E_VALUE,
 * WEIR_E_SYSTEM. */
enum weir_code weir_listen(const char *address, uint16_t port, int *listener,
                           struct weir_error *error);

/* The port that a socket is bound to; 0: none. */
uint16_t weir_listen_port(int listener);

#endif
