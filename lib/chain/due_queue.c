#include "chain/due_queue.h"

#include <stdlib.h>

bool weir_due_queue_init(struct weir_due_queue *queue, uint32_t size)
{
    *queue = (struct weir_due_queue){ .size = size };
    queue->entries = calloc(size, sizeof *queue->entries);
    queue->positions = calloc(size, sizeof *queue->positions);
    if (queue->entries != NULL && queue->positions != NULL)
        return true;
    weir_due_queue_finish(queue);
    return false;
}

void weir_due_queue_finish(struct weir_due_queue *queue)
{
    free(queue->entries);
    free(queue->positions);
    *queue = (struct weir_due_queue){ 0 };
}

static bool goes_before(const struct weir_due *one, const struct weir_due *other)
{
    if (one->due_us != other->due_us)
        return one->due_us < other->due_us;
    return one->sequence < other->sequence;
}

static void put(struct weir_due_queue *queue, uint32_t index, struct weir_due due)
{
    queue->entries[index] = due;
    queue->positions[due.place] = index + 1;
}

/* Puts `due` at `index`, or nearer to the front. */
static void move_up(struct weir_due_queue *queue, uint32_t index, struct weir_due due)
{
    while (index > 0) {
        uint32_t parent = (index - 1) / 2;
        if (!goes_before(&due, &queue->entries[parent]))
            break;
        put(queue, index, queue->entries[parent]);
        index = parent;
    }
    put(queue, index, due);
}

/* Puts `due` at `index`, or farther from the front. */
static void move_down(struct weir_due_queue *queue, uint32_t index, struct weir_due due)
{
    for (;;) {
        uint64_t child = (uint64_t)index * 2 + 1;
        if (child >= queue->count)
            break;
        if (child + 1 < queue->count
            && goes_before(&queue->entries[child + 1], &queue->entries[child]))
            child++;
        if (goes_before(&due, &queue->entries[child]))
            break;
        put(queue, index, queue->entries[child]);
        index = (uint32_t)child;
    }
    put(queue, index, due);
}

void weir_due_queue_add(struct weir_due_queue *queue, uint32_t place, uint64_t due_us)
{
    const struct weir_due due = { due_us, queue->sequence++, place };
    move_up(queue, queue->count++, due);
}

bool weir_due_queue_remove(struct weir_due_queue *queue, uint32_t place)
{
    if (place >= queue->size || queue->positions[place] == 0)
        return false;
    uint32_t index = queue->positions[place] - 1;
    queue->positions[place] = 0;
    queue->count--;
    if (index == queue->count)
        return true;
    /* The last one fills the gap, and may belong before or behind it. */
    const struct weir_due last = queue->entries[queue->count];
    if (goes_before(&last, &queue->entries[index]))
        move_up(queue, index, last);
    else
        move_down(queue, index, last);
    return true;
}

const struct weir_due *weir_due_queue_first(const struct weir_due_queue *queue)
{
    return queue->count == 0 ? NULL : &queue->entries[0];
}
