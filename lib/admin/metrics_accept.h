/* Which form of the metrics a client asks for. */
#ifndef WEIR_ADMIN_METRICS_ACCEPT_H
#define WEIR_ADMIN_METRICS_ACCEPT_H

#include "admin/metrics_text.h"

/* By the value of an Accept field (RFC 9110, section 12.5.1; at NULL: there is none): OpenMetrics where
 * it is named and liked no less than text/plain. What takes neither gets text/plain all the same, as the
 * RFC allows: a scrape that shows something beats one that fails. Pure. */
enum weir_metrics_form weir_metrics_accept(struct weir_text accept);

#endif
