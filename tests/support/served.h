/* A wrapped application behind a limiter, served by libmicrohttpd with one thread of epoll.
 * Functions that fail, fail the test. */
#ifndef TESTS_SUPPORT_SERVED_H
#define TESTS_SUPPORT_SERVED_H

#include "test.h"

#include <microhttpd.h>
#include <weir/weir.h>

struct served {
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    struct MHD_Daemon *daemon; /* NULL: it has ended */
    uint16_t port;
};

/* Starts it with a policy's text; the log is that of chain and limiter. */
void served_start(struct served *served, const char *policy_json, const struct weir_app *app,
                  struct weir_log log);

/* Ends the daemon: all that was begun is completed when this returns. */
void served_end(struct served *served);

/* Frees all of it, and ends the daemon before if it still runs. */
void served_free(struct served *served);

#endif
