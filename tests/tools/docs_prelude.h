/* What the C snippets of the docs may take for granted; see check_docs. */
#ifndef TESTS_TOOLS_DOCS_PRELUDE_H
#define TESTS_TOOLS_DOCS_PRELUDE_H

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <microhttpd.h>
#include <weir/weir.h>

/* Names the snippets use without declaring them. */
extern struct weir_chain *chain;
extern struct weir_policy *policy;
extern struct weir_limiter *limiter;
extern struct weir_admin *admin;
extern struct weir_store *store;
extern struct weir_request *request;
extern struct weir_error error;
extern struct MHD_Daemon *daemon_;
extern struct MHD_Connection *connection;
extern struct MHD_Response *response;

#endif
