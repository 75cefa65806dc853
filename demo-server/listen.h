/* The listening socket. */
#ifndef DEMO_LISTEN_H
#define DEMO_LISTEN_H

#include <weir/error.h>

#define DEMO_URL_BYTES 128

/* Opens a listening socket for "192.0.2.1:8080", "localhost:8080", "[::1]:8080" or "unix:/path".
 * Port 0 lets the system choose; an IPv6 address takes IPv4 too. `url` gets what to connect to.
 * The caller closes it. Errors: WEIR_E_VALUE, WEIR_E_SYSTEM. */
enum weir_code demo_listen(const char *where, int *listener, char url[DEMO_URL_BYTES],
                           struct weir_error *error);

#endif
