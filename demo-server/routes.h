/* The demo's routes: plain handlers that know nothing of limits. */
#ifndef DEMO_ROUTES_H
#define DEMO_ROUTES_H

#include <weir/limiter.h>

#include "otp.h"

/* Adds all of the demo's handlers to the chain. `limiter` and `otp` are borrowed until the chain is
 * freed. Errors as weir_chain_on(). */
enum weir_code demo_routes_add(struct weir_chain *chain, struct weir_limiter *limiter,
                               struct demo_otp *otp);

/* POST /login, in login.c */
enum weir_step demo_login(void *self, struct weir_request *request);

/* POST /v1/export, in export.c */
enum weir_step demo_export(void *self, struct weir_request *request);

#endif
