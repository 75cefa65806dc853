/* Who has most, in memory that does not grow: Space-Saving (Metwally, Agrawal, El Abbadi: Efficient
 * Computation of Frequent and Top-k Elements in Data Streams, ICDT 2005).
 *
 * Each of m counters belongs to a key. A key without one takes over the smallest, with its count as the
 * possible error. So a count is never too small; it is too large by the smallest at most, which is no
 * more than the m-th part of all that was counted; and as long as there are no more than m keys,
 * all is exact. Threads count in parts of their own: the errors of the parts add up to the same bound.
 *
 * Only what is recent counts: a new set of counters is begun every WEIR_TOP_PERIOD_US, and the last two
 * are read as one. */
#ifndef WEIR_OBSERVE_TOP_KEYS_H
#define WEIR_OBSERVE_TOP_KEYS_H

#include "base/text.h"

#define WEIR_TOP_COUNTERS  128 /* in each part and period */
#define WEIR_TOP_KEY_BYTES 56
#define WEIR_TOP_PERIOD_US UINT64_C(300000000)

/* One list: 88 KiB at most, of which memory is taken as it is used. */
struct weir_top;

/* NULL: memory ran out. `now_us` is on a clock of the caller's, here and below the same one, which may
 * step; 0: it is not known, and no period ends. */
struct weir_top *weir_top_new(uint64_t now_us);
struct weir_top *weir_top_free(struct weir_top *top);

/* Counts `weight` for a key of 1 to WEIR_TOP_KEY_BYTES bytes. Any thread; waits only
 * where all parts are in use at once. At NULL nothing is counted. */
void weir_top_add(struct weir_top *top, struct weir_text key, uint64_t weight, uint64_t now_us);

struct weir_top_entry {
    unsigned char key_length;
    unsigned char key[WEIR_TOP_KEY_BYTES];
    uint64_t count; /* at most */
    uint64_t at_least;
};

struct weir_top_sum {
    uint64_t total;       /* of all weights                             */
    uint64_t error_bound; /* no key without an entry has more than that */
    uint64_t since_us;    /* when the older period began                */
};

/* Fills the entries with the highest counts, at most `size` and those first; returns how many. Any
 * thread. Fails where memory runs out: 0, and a total of 0. */
size_t weir_top_list(struct weir_top *top, uint64_t now_us, struct weir_top_entry *entries,
                     size_t size, struct weir_top_sum *sum);

#endif
