/* The thread that wakes requests at their moment; a chain has one from the first such request on. */
#ifndef WEIR_CHAIN_WAITING_H
#define WEIR_CHAIN_WAITING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct weir_chain;

struct weir_waiting {
    pthread_t thread;
    atomic_bool runs;    /* set once, with the parking lock held */
    atomic_bool is_over; /* asks the thread to end               */
    bool has_failed;     /* and the log has been told; likewise  */
};

/* Starts the thread unless it runs; false: the system gave none. Any thread. */
bool weir_waiting_start(struct weir_chain *chain);

/* Ends it, if it runs. Nobody waits any more. */
void weir_waiting_stop(struct weir_chain *chain);

#endif
