/* All numbers of a limiter, as text. */
#ifndef WEIR_ADMIN_METRICS_GATHER_H
#define WEIR_ADMIN_METRICS_GATHER_H

#include "admin/metrics_text.h"
#include "limit/limiter_internal.h"

/* Writes every family once, whether or not there is anything to count; requests that wait are those of
 * the chain. What does not fit is left out, and text->out.full says so. Any thread; never blocks on a
 * store. */
void weir_metrics_gather(struct weir_metrics_text *text, struct weir_limiter *limiter,
                         struct weir_chain *chain);

#endif
