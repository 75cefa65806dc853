#include "tools/latencies.h"

#include <stddef.h>

/* The first numbers have a step each; from there on each power of two has WEIR_LATENCY_PARTS. */
static size_t step_of(uint64_t ns)
{
    if (ns < WEIR_LATENCY_PARTS)
        return (size_t)ns;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(ns);
    uint64_t part = ns >> (exponent - 4) & (WEIR_LATENCY_PARTS - 1);
    return (exponent - 3) * WEIR_LATENCY_PARTS + (size_t)part;
}

/* The largest number of a step. */
static uint64_t end_of(size_t step)
{
    if (step < WEIR_LATENCY_PARTS)
        return step;
    size_t shift = step / WEIR_LATENCY_PARTS - 1;
    uint64_t first = (WEIR_LATENCY_PARTS + step % WEIR_LATENCY_PARTS) << shift;
    return first + ((UINT64_C(1) << shift) - 1);
}

void weir_latencies_count(struct weir_latencies *latencies, uint64_t ns)
{
    latencies->counts[step_of(ns)]++;
    latencies->total++;
    if (ns > latencies->most_ns)
        latencies->most_ns = ns;
}

void weir_latencies_add(struct weir_latencies *sum, const struct weir_latencies *other)
{
    for (size_t i = 0; i < WEIR_LATENCY_STEPS; i++)
        sum->counts[i] += other->counts[i];
    sum->total += other->total;
    if (other->most_ns > sum->most_ns)
        sum->most_ns = other->most_ns;
}

uint64_t weir_latencies_at(const struct weir_latencies *latencies, uint64_t part, uint64_t whole)
{
    uint64_t seen = 0;
    for (size_t i = 0; i < WEIR_LATENCY_STEPS && latencies->total > 0; i++) {
        seen += latencies->counts[i];
        if ((double)seen * (double)whole >= (double)latencies->total * (double)part) {
            uint64_t end = end_of(i);
            return end < latencies->most_ns ? end : latencies->most_ns;
        }
    }
    return latencies->most_ns;
}
