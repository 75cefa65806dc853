/* How long things took: counted in steps of a sixteenth of their power of two, so that whatever is
 * read from it is exact to about 6 in 100. */
#ifndef WEIR_TOOLS_LATENCIES_H
#define WEIR_TOOLS_LATENCIES_H

#include <stdint.h>

#define WEIR_LATENCY_PARTS 16
#define WEIR_LATENCY_STEPS (61 * WEIR_LATENCY_PARTS)

/* All zero: nothing is counted. */
struct weir_latencies {
    uint64_t counts[WEIR_LATENCY_STEPS];
    uint64_t total;
    uint64_t most_ns;
};

void weir_latencies_count(struct weir_latencies *latencies, uint64_t ns);

void weir_latencies_add(struct weir_latencies *sum, const struct weir_latencies *other);

/* What `part` of them in `whole` did not exceed (99 in 100), but never more than the longest; 0
 * where there are none. Pure. */
uint64_t weir_latencies_at(const struct weir_latencies *latencies, uint64_t part, uint64_t whole);

#endif
