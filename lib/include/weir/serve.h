/* weir: a server for a chain, in one call. Programs that have a daemon of libmicrohttpd's own, or want
 * one of its options, use <weir/mhd.h>. */
#ifndef WEIR_SERVE_H
#define WEIR_SERVE_H

#include <weir/chain.h>

/* Zero in any field means its default, so WEIR_SERVE_OPTIONS(.port = 8080) is whole. */
struct weir_serve_options {
    size_t size;                 /* set by WEIR_SERVE_OPTIONS                                     */
    const char *address;         /* a name or an address; "::" takes IPv6 and IPv4 from everywhere,
                                  * "0.0.0.0" IPv4; NULL: "127.0.0.1", from this machine alone    */
    uint16_t port;               /* 0: the system chooses; see weir_server_port()                 */
    uint32_t threads;            /* that serve; to 256; 0: 1                                      */
    uint32_t connections_max;    /* at once, of all threads, and one more for each; 0: 10000      */
    uint32_t idle_timeout_s;     /* of a connection on which nothing moves; 0: 60                 */
    uint32_t memory_bytes;       /* for the head of a request, each connection: 1 KiB to 64 MiB;
                                  * 0: 32 KiB                                                     */
    const int *listening_socket; /* one that listens already, such as systemd's; it stays the
                                  * caller's, and may be closed at once; NULL: one is made        */
    /* New fields go here, at the end; none is ever removed or reordered. */
};

#define WEIR_SERVE_OPTIONS(...)                                                                    \
    (&(const struct weir_serve_options){ .size = sizeof(struct weir_serve_options), __VA_ARGS__ })

struct weir_server;

/* Serves a chain until weir_server_stop(). `options` are only read now; the chain is borrowed until
 * then. Several servers may serve one chain at once, and are stopped together: see there. Signals that
 * the calling thread blocks are blocked in those that serve, and so is SIGPIPE. Errors:
 * WEIR_E_ARGUMENT, WEIR_E_STATE for a chain that was drained, WEIR_E_VALUE for an address that is none,
 * WEIR_E_SYSTEM (such as an address that is in use), WEIR_E_MEMORY, WEIR_E_DAEMON, and what a link's
 * may_listen says. */
WEIR_API enum weir_code weir_serve(struct weir_chain *chain,
                                   const struct weir_serve_options *options,
                                   struct weir_server **server, struct weir_error *error);

/* Where it listens; 0: not on a port, or there is no server. */
WEIR_API uint16_t weir_server_port(const struct weir_server *server);

/* Takes no more connections, lets the requests that are under way come to their end, for at most
 * `drain_ms`, and ends the threads. Frees the server. Returns whether all requests were answered.
 *
 * The chain is drained, as by weir_chain_drain(), and that is for good: what else serves it answers 503
 * from then on and is to be stopped as well, and to serve again takes a new chain. Not from a handler.
 * Accepts NULL. */
WEIR_API bool weir_server_stop(struct weir_server *server, uint32_t drain_ms);

#endif
