/* What one check does to the memory store's table, by a thread that holds the locks of all segments
 * that its keys are in. */
#ifndef WEIR_STORE_MEMORY_PLAN_H
#define WEIR_STORE_MEMORY_PLAN_H

#include "store/memory_rings.h"

/* One limit of a plan under way. */
struct weir_memory_part {
    const struct weir_spend *spend;
    uint64_t hash;
    struct weir_memory_entry entry; /* as it is kept now; expires_ms 0: there is none       */
    struct weir_state state;        /* of it, as far as it means something to the algorithm */
    struct weir_ring *ring;         /* likewise; NULL: there is none                        */
    bool is_blocked;                /* by an operation, which refuses before all else       */
    bool uses_ring;                 /* decides by the ring, and else by the state           */
    struct weir_answer answer;
    struct weir_decision_step step;
    struct weir_ring_step ring_step;
    struct weir_ring *fresh; /* to be put in place of the ring, with its entries; or NULL */
};

struct weir_memory_plan {
    struct weir_memory_table *table;
    struct weir_memory_rings *rings;
    struct weir_memory_part parts[WEIR_CHECK_LIMITS]; /* `spend` and `hash` are the caller's */
    size_t count;
    struct weir_keep keep; /* the hashes again */
    bool allowed;
    bool is_hindered; /* a log cannot grow because of what other threads hold on to just now */
    uint64_t now_us;
};

/* Decides all parts as one, and keeps what comes of it. False: a log that has to grow cannot, and
 * nothing was spent. */
bool weir_memory_plan_spend(struct weir_memory_plan *plan);

/* Corrects each part by itself. */
void weir_memory_plan_settle(struct weir_memory_plan *plan);

void weir_memory_plan_reset(struct weir_memory_plan *plan);
void weir_memory_plan_block(struct weir_memory_plan *plan, uint64_t block_us);

#endif
