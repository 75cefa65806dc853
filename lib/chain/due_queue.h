/* Places in the order of the moments they are due. */
#ifndef WEIR_CHAIN_DUE_QUEUE_H
#define WEIR_CHAIN_DUE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct weir_due {
    uint64_t due_us;
    uint64_t sequence; /* of two that are due at once, who came first goes first */
    uint32_t place;    /* below the queue's size                                 */
};

/* A binary heap, and where in it each place stands. All zero, it has no room. */
struct weir_due_queue {
    struct weir_due *entries;
    uint32_t *positions; /* of each place, from 1; 0: it is not in the queue */
    uint32_t size;
    uint32_t count;
    uint64_t sequence;
};

/* Room for `size` places; false: memory ran out. */
bool weir_due_queue_init(struct weir_due_queue *queue, uint32_t size);
void weir_due_queue_finish(struct weir_due_queue *queue);

/* Adds a place that is not in the queue. */
void weir_due_queue_add(struct weir_due_queue *queue, uint32_t place, uint64_t due_us);

/* Takes a place out; false: it was not in. */
bool weir_due_queue_remove(struct weir_due_queue *queue, uint32_t place);

/* Who is due first; NULL: nobody. Valid until the queue changes. */
const struct weir_due *weir_due_queue_first(const struct weir_due_queue *queue);

#endif
