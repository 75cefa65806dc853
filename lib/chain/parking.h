/* Requests that wait, and what wakes them: one-shot tickets, their moment, a client that hangs up. */
#ifndef WEIR_CHAIN_PARKING_H
#define WEIR_CHAIN_PARKING_H

#include <pthread.h>

#include <weir/request.h>

#include "chain/due_queue.h"
#include "chain/timer.h"

/* One place; free places form a list. */
struct weir_parked {
    struct weir_request *request; /* NULL: free                                     */
    uint32_t generation;          /* raised at each wake, so that old tickets miss  */
    union {
        uint32_t next_free;
        int socket; /* that is watched; -1: none */
    };
};

/* All of it guarded by `lock`, which is also held while libmicrohttpd suspends or resumes: who is
 * in the table is suspended, and who is not is about to run. A socket is watched for as long as its
 * request is in the table, during which nobody closes it. */
struct weir_parking {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* a request ended while stopping */
    struct weir_parked *places;
    uint32_t size;
    uint32_t first_free; /* == size: full */
    uint32_t count;
    bool stopping;
    uint64_t stopping_since_us;
    bool can_wait;              /* the next two are made: see weir_parking_prepare() */
    struct weir_due_queue dues; /* of places                                         */
    struct weir_timer timer;    /* armed for the first of them                       */
};

bool weir_parking_init(struct weir_parking *parking, uint32_t size);
void weir_parking_finish(struct weir_parking *parking);

/* Gives the request a place and suspends it; 0 if there is none or the server is stopping. */
uint64_t weir_parking_enter(struct weir_parking *parking, struct weir_request *request);

/* Wakes one request; false if the number is used up. */
bool weir_parking_wake(struct weir_parking *parking, uint64_t number);

/* Wakes every request, marked as drained. Returns how many there were. */
uint32_t weir_parking_wake_all(struct weir_parking *parking);

/* Blocks the calling thread until its request has been woken; for daemons where a request cannot
 * be suspended. */
void weir_parking_block(struct weir_parking *parking, struct weir_request *request);

/* moments, for which somebody has to sleep on the timer (chain/waiting.c) */

/* Makes queue and timer, with the lock held; false: the system or memory gave out. */
bool weir_parking_prepare(struct weir_parking *parking);

/* As weir_parking_enter(), until `due_us` of weir_monotonic_us() or until its client hangs up. */
bool weir_parking_enter_until(struct weir_parking *parking, struct weir_request *request,
                              uint64_t due_us);

/* Wakes those that are due by `now_us`, in order, and arms the timer for the next one. Returns how
 * many there were. */
uint32_t weir_parking_wake_due(struct weir_parking *parking, uint64_t now_us);

/* Wakes one request whose client hung up, marked as gone; false if the number is used up. */
bool weir_parking_wake_gone(struct weir_parking *parking, uint64_t number);

#endif
