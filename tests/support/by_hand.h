/* Requests made by hand, for a chain without a server under it. */
#ifndef TESTS_SUPPORT_BY_HAND_H
#define TESTS_SUPPORT_BY_HAND_H

#include <weir/chain.h>

#include "chain/chain_internal.h"

/* How often a request was suspended and resumed since by_hand_reset(). */
extern atomic_uint by_hand_suspended, by_hand_resumed;

/* The socket of every request; -1: none. */
extern int by_hand_socket;

void by_hand_reset(void);

#define BY_HAND_ORDER_MAX 4096

/* Waits until a request has been resumed for the time `index` (from 0), and returns it. */
struct weir_request *by_hand_await_resume(unsigned index);

/* A request whose headers were read and whose first call is over; end it with
 * weir_request_end(). `method` and `target` are borrowed. */
struct weir_request *by_hand_request(struct weir_chain *chain, const char *method,
                                     const char *target);

/* Adds a header line; `name` and `value` are borrowed. */
void by_hand_header(struct weir_request *request, const char *name, const char *value);

/* Gives the request a peer, "192.0.2.1" or "2001:db8::1". */
void by_hand_peer(struct weir_request *request, const char *address);

/* Runs the request to its reply, hooks included, and returns the status; 0: it waits. */
unsigned by_hand_run(struct weir_request *request);

#endif
