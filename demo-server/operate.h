/* What is there for operators: /metrics, and the admin API with its page below /admin. */
#ifndef DEMO_OPERATE_H
#define DEMO_OPERATE_H

#include <weir/admin.h>

#include "options.h"

/* Mounts both where the options want them: by default where the server listens on this machine alone,
 * or WEIR_ADMIN_TOKEN is set. Before weir_limit() is added. `admin` stays NULL where it is left out;
 * it is freed after the chain. */
enum weir_code demo_operate_add(struct weir_chain *chain, struct weir_limiter *limiter,
                                const struct demo_options *options, const struct weir_log *log,
                                struct weir_admin **admin, struct weir_error *error);

#endif
