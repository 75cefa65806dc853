/* Where the policy comes from. */
#ifndef DEMO_CONFIG_H
#define DEMO_CONFIG_H

#include <limits.h>

#include <weir/policy.h>

#include "options.h"

/* Loads the policy that the options ask for. `file` gets the name of its file, for messages, on
 * failure too. Errors as weir_policy_load(). */
enum weir_code demo_policy_load(const struct demo_options *options, char file[PATH_MAX],
                                struct weir_policy **policy, struct weir_error *error);

/* Loads it again from the file of that name; `options` are a struct demo_options. It is what a limiter
 * reloads its policy by. */
enum weir_code demo_policy_read(void *options, const char *file, struct weir_policy **policy,
                                struct weir_error *error);

/* Fills in where a warning stands in the file of that name, which was read with another store. */
void demo_find_warning(const char *file, struct weir_error *warning);

#endif
