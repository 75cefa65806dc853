/* Requests that wait, and the one-shot tickets that wake them. */
#ifndef WEIR_CHAIN_PARKING_H
#define WEIR_CHAIN_PARKING_H

#include <pthread.h>

#include <weir/request.h>

/* One place; free places form a list. */
struct weir_parked {
    struct weir_request *request; /* NULL: free                                     */
    uint32_t generation;          /* raised at each wake, so that old tickets miss  */
    uint32_t next_free;
};

/* All of it guarded by `lock`, which is also held while libmicrohttpd suspends or resumes: who is
 * in the table is suspended, and who is not is about to run. */
struct weir_parking {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* a request ended while stopping */
    struct weir_parked *places;
    uint32_t size;
    uint32_t first_free; /* == size: full */
    uint32_t count;
    bool stopping;
    uint64_t stopping_since_us;
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

#endif
