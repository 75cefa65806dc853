/* What one limiter has decided and spent since it was made, in exact numbers.
 *
 * Adding to them never blocks, allocates or fails, from any thread; two threads seldom add to the same
 * cache line. Names come from policy files only. */
#ifndef WEIR_OBSERVE_COUNTS_H
#define WEIR_OBSERVE_COUNTS_H

#include <stdbool.h>

#include <weir/limiter.h>

#include "observe/histogram.h"

/* Room for enum weir_outcome, and some that it has not yet. */
#define WEIR_COUNTED_OUTCOMES 12

/* Where a decision was found. */
enum weir_source {
    WEIR_SOURCE_NONE, /* nobody was asked: a list, no identity, too many at once, the store failed */
    WEIR_SOURCE_STORE, /* the limiter's store                                                      */
    WEIR_SOURCE_LEASE, /* units that this process held                                             */
    WEIR_SOURCE_DENIALS, /* a refusal of a moment ago, repeated                                      */
    WEIR_SOURCE_MEMORY /* the fallback in this process                                             */
};

#define WEIR_SOURCES 5

/* "none", "store", "lease", "denials", "memory". */
const char *weir_source_name(enum weir_source source);

/* "timeout", "unavailable", "error"; NULL: the store answered. */
const char *weir_store_failure_name(enum weir_store_result result);

struct weir_counts;
struct weir_policy_counts;

/* NULL: memory ran out. */
struct weir_counts *weir_counts_new(void);

/* Accepts NULL; returns NULL. */
struct weir_counts *weir_counts_free(struct weir_counts *counts);

/* The numbers of one policy whose limits have these names, in this order. Policies and limits that were
 * there before go on with their numbers, so that a counter never falls while the process lives; the
 * pointer holds until weir_counts_free(). "" is for what no policy is about. Names are copied. NULL:
 * memory ran out. */
struct weir_policy_counts *weir_counts_of_policy(struct weir_counts *counts, const char *policy,
                                                 const char *const *limits, size_t limit_count);

/* Instead of a limit's index. */
#define WEIR_NO_LIMIT          SIZE_MAX       /* none refused, or it is not about limits        */
#define WEIR_LIMIT_CONCURRENCY (SIZE_MAX - 1) /* the one of how many requests are under way     */

/* One decision, or `by` alike: of enum weir_outcome, and by which limit. */
void weir_count_decision(struct weir_policy_counts *policy, size_t limit, unsigned outcome,
                         enum weir_source source, uint64_t by);

/* What has happened to units of a limit, in the store or (`by_memory`) in this process's fallback. */
enum weir_units_fate {
    WEIR_UNITS_SPENT, /* a request was let through and took them, or cost more than it first did   */
    WEIR_UNITS_RETURNED, /* they were given back: it cost less, succeeded, or never ran               */
    WEIR_UNITS_UNSURE /* to spend or to return them was asked, and no answer came: either may be   */
};

#define WEIR_UNITS_FATES 3

void weir_count_units_of(struct weir_policy_counts *policy, size_t limit, enum weir_units_fate fate,
                         bool by_memory, uint64_t units);

/* A check has ended that the store was asked: `waited_us` from asking to the answer or the failure. */
void weir_count_asked(struct weir_counts *counts, enum weir_store_result result,
                      uint64_t waited_us);

/* A check has failed that the store was never asked, since it could only fail. */
void weir_count_unasked(struct weir_counts *counts, enum weir_store_result result);

/* Who reads adds up; numbers that change meanwhile are of one moment or the other. */

#define WEIR_STORE_RESULTS 5 /* of enum weir_store_result */

struct weir_store_sums {
    struct weir_histogram_sums latency;    /* of all checks that it was asked          */
    uint64_t failures[WEIR_STORE_RESULTS]; /* by enum weir_store_result, asked or not  */
};

struct weir_store_sums weir_counts_of_store(const struct weir_counts *counts);

/* One limit of one policy. */
struct weir_limit_sums {
    const char *policy;
    const char *limit; /* "": WEIR_NO_LIMIT; "concurrency": WEIR_LIMIT_CONCURRENCY */
    bool is_limit;     /* it is one of the policy's own                            */
    uint64_t decisions[WEIR_COUNTED_OUTCOMES][WEIR_SOURCES];
    uint64_t units[WEIR_UNITS_FATES][2]; /* [fate][by_memory] */
};

/* Calls `see` for each limit of each policy, those of one policy together: first WEIR_NO_LIMIT, then
 * its limits, then WEIR_LIMIT_CONCURRENCY. Limits that are in no policy any more are among them. Policies
 * that come up meanwhile wait. */
void weir_counts_each(struct weir_counts *counts,
                      void (*see)(void *self, const struct weir_limit_sums *sums), void *self);

#endif
