/* Which thread of libmicrohttpd serves a connection, and whether requests can stay there: see
 * chain/in_place.h. */
#ifndef WEIR_CHAIN_MHD_WORKER_H
#define WEIR_CHAIN_MHD_WORKER_H

#include <microhttpd.h>

#include "chain/chain_internal.h"

unsigned weir_mhd_daemon_flags(struct MHD_Daemon *daemon);

/* The worker that serves a connection, on its thread; NULL: requests cannot stay on it. */
struct weir_worker *weir_mhd_worker(struct weir_chain *chain, struct MHD_Connection *connection);

/* The epoll descriptor of the thread that serves a connection, on that thread; -1: nobody tells. */
int weir_mhd_events(struct MHD_Connection *connection);

/* Why requests cannot stay in place in a daemon with these flags, and what to do about it, as a
 * sentence; NULL: they can. */
const char *weir_mhd_in_place_fault(unsigned flags);

/* Tries out, once in a process, what staying in place rests on, since libmicrohttpd does not document
 * it: that a handler which returns without a reply is called again, once in each round, while others
 * are served; and that the daemon's epoll descriptor becomes readable when they have something to say.
 * No port is opened, and nothing is said. Takes a few milliseconds, a second at most. Any thread. */
bool weir_mhd_probe(void);

#endif
