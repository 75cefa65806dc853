/* Requests under way at once, in this process: the slots of a back end, and counts for each key.
 *
 * Both live in memory only. A process that is killed takes its counts with it, so none stays behind
 * for requests that nobody serves any more; and each process counts for itself. Any thread. */
#ifndef WEIR_LIMIT_CONCURRENCY_H
#define WEIR_LIMIT_CONCURRENCY_H

#include <stddef.h>

#include "base/text.h"
#include "limit/vegas.h"

/* The slots of one back end, as many as it shows that it takes.
 *
 * With parts: a request of the part p is let in if fewer than `limit` are under way in all, or fewer
 * than its share, max(1, floor(limit · share of p)), of the part p. So a part below its share always
 * gets in, and what it leaves idle is lent to others. Who has borrowed is not thrown out: until that
 * ends, as many as the shares of the others together may be under way above the limit, and meanwhile
 * nobody borrows. A request of no part borrows only. */
struct weir_slots;

struct weir_slots_options {
    const char *name; /* copied */
    struct weir_vegas_bounds bounds;
    const uint32_t *shares_ppm; /* of `part_count` parts, in millionths; copied */
    size_t part_count;          /* 0: none                                      */
    uint64_t seed;              /* of the limit's probes                        */
};

/* NULL: memory ran out. */
struct weir_slots *weir_slots_new(const struct weir_slots_options *options);

/* When no slot is taken any more. Accepts NULL. */
void weir_slots_free(struct weir_slots *slots);

const char *weir_slots_name(const struct weir_slots *slots);

/* Other bounds hold from now on; the limit that has been found goes on within them. */
void weir_slots_set_bounds(struct weir_slots *slots, struct weir_vegas_bounds bounds);

/* Whether a request of the part at `part` would be let in now; of no part: `part` is their count. */
bool weir_slots_have_room(const struct weir_slots *slots, size_t part);

/* Takes a slot; false: there is none. Without a lock. */
bool weir_slots_take(struct weir_slots *slots, size_t part);

/* Takes one whether or not there is room, for who only watches. */
void weir_slots_take_anyway(struct weir_slots *slots, size_t part);

/* What a request says about the back end, when it gives its slot back. */
enum weir_slot_end {
    WEIR_SLOT_SERVED,  /* so long it takes for one        */
    WEIR_SLOT_DROPPED, /* it has too much to do           */
    WEIR_SLOT_UNTOLD   /* nothing: it was not asked, or failed for another reason */
};

/* Gives a slot back, once for each that was taken. The times are of a clock that only goes forward.
 * What it says may be passed over, where two threads would have to wait for each other. */
void weir_slots_give(struct weir_slots *slots, size_t part, enum weir_slot_end how,
                     uint64_t started_us, uint64_t ended_us);

/* Counts one that had seen room, and then found none: what it has spent is given back. */
void weir_slots_lost(struct weir_slots *slots);

/* For who was turned away: seconds after which it may try again, as long as a request takes, at least
 * 1, and up to two more, spread evenly so that they do not all come back at once. Counts the excess. */
uint64_t weir_slots_refused(struct weir_slots *slots);

struct weir_slots_numbers {
    uint32_t limit;
    uint32_t in_flight;
    uint64_t refused; /* for lack of a slot, since the start        */
    uint64_t lost;    /* of these, after the limits had let it through */
    uint64_t time_us; /* that a request took in the last window     */
    uint64_t told;    /* what requests have said about the back end    */
    uint64_t untaken; /* what was said and passed over              */
};

struct weir_slots_numbers weir_slots_numbers(const struct weir_slots *slots);

/* Requests under way for each key. There is an entry for each key that has one under way, and so never
 * more than there are requests. */
struct weir_key_counts;

/* One key's; it is there until its last request has given it back. */
struct weir_counted;

/* NULL: memory ran out. */
struct weir_key_counts *weir_key_counts_new(void);

/* When none is taken any more. Accepts NULL. */
void weir_key_counts_free(struct weir_key_counts *counts);

/* Whether fewer than `most` are under way for the key. */
bool weir_key_counts_have_room(struct weir_key_counts *counts, struct weir_text key, uint32_t most);

/* Counts one more for the key, which is copied; NULL: there are `most`, or memory ran out. To give
 * back once. */
struct weir_counted *weir_key_counts_take(struct weir_key_counts *counts, struct weir_text key,
                                          uint32_t most);

void weir_key_counts_give(struct weir_key_counts *counts, struct weir_counted *counted);

struct weir_key_counts_numbers {
    uint64_t keys;      /* with requests under way now    */
    uint64_t in_flight; /* of all of them                 */
    uint64_t refused;   /* since the start                */
};

struct weir_key_counts_numbers weir_key_counts_numbers(struct weir_key_counts *counts);

#endif
