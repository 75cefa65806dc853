/* weir: what a limiter counts, for Prometheus and what reads the same text. docs/metrics.md lists all
 * metrics. */
#ifndef WEIR_METRICS_H
#define WEIR_METRICS_H

#include <weir/limiter.h>

/* The middleware that answers GET and HEAD of exactly the path it is added at; what lies below that path
 * it passes on. In front of weir_limit(), so that a scrape is neither limited nor counted:
 *
 *     weir_chain_use_at(chain, "/metrics", weir_metrics(limiter));
 *     weir_chain_use(chain, weir_limit(limiter));
 *
 * The text is version 0.0.4 of Prometheus's, or OpenMetrics 1.0 for who asks for it in Accept. It never
 * waits for the store. Names in it come from the policy file and from weir itself, never from a client;
 * whoever can reach the path sees how much the server refuses, so keep it from the public. Borrowed until
 * weir_limiter_free(). */
WEIR_API const struct weir_middleware *weir_metrics(struct weir_limiter *limiter);

#endif
