/* A load on one policy, and what it came to. */
#ifndef WEIR_TOOLS_BENCH_H
#define WEIR_TOOLS_BENCH_H

#include <weir/limiter.h>

#include "tools/latencies.h"

struct weir_policy;
struct weir_ruleset;

#define WEIR_BENCH_PREFIX      "weir-bench" /* of all keys that a load leaves in a store */
#define WEIR_BENCH_CLIENTS_MAX 100000
#define WEIR_BENCH_THREADS_MAX 256

struct weir_bench_order {
    struct weir_limiter *limiter;
    const struct weir_policy *policy;
    const struct weir_ruleset *ruleset;
    const char *plan;  /* of the clients; NULL: the default one */
    uint64_t clients;  /* 1 to WEIR_BENCH_CLIENTS_MAX           */
    uint64_t threads;  /* 1 to WEIR_BENCH_THREADS_MAX           */
    uint64_t seconds;  /* so long, unless `requests` end first  */
    uint64_t requests; /* 0: any number                        */
    uint64_t cost;
};

struct weir_bench_result {
    uint64_t decisions;
    uint64_t allowed;
    uint64_t refused; /* or would have been, by a policy that only watches   */
    uint64_t failed;  /* the store did not answer, and its failure rule held */
    uint64_t ns;      /* that all of it took                                 */
    struct weir_latencies latencies;
};

/* Has each of so many threads decide one request after the other, of clients picked at random. An
 * interrupt (SIGINT) ends it early. False: memory or threads are lacking, or the first question was
 * not answered: then `error` says why. */
bool weir_bench_run(const struct weir_bench_order *order, struct weir_bench_result *result,
                    struct weir_error *error);

/* Whether an interrupt came. */
bool weir_bench_is_interrupted(void);

#endif
