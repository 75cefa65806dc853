/* Requests that wait without being suspended. libmicrohttpd calls a handler that has returned without
 * a reply again and again, round for round of its loop; so a request can stay where it is until its
 * check is answered, over a lane that the worker drives itself: no other thread, no suspension.
 *
 * The request that is called a second time takes a turn for all: it sends what was submitted, and waits
 * for answers and for what else the worker has to do. A round has one turn, or two: libmicrohttpd's
 * epoll loop (0.9.75) calls all that are ready, and then, in search of timeouts, once more the one of
 * which it has heard for longest. So what has to be done in the next round is done two turns later. */
#ifndef WEIR_CHAIN_IN_PLACE_H
#define WEIR_CHAIN_IN_PLACE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir_chain;
struct weir_check;
struct weir_lane;
struct weir_lane_type;
struct weir_request;
struct weir_store;

/* Stores that a worker has lanes of; requests for more of them are parked. */
#define WEIR_WORKER_LANES_MAX 4

/* Requests that stay at once on one worker. Each of its rounds calls them all, so more are parked. */
#define WEIR_WORKER_STAYING_MAX 512

struct weir_worker_lane {
    const struct weir_store *store; /* may be gone by the time that the lane is closed */
    const struct weir_lane_type *type;
    struct weir_lane *lane; /* NULL: there was no memory for it                        */
    size_t staying;         /* requests whose checks it has                            */
    uint64_t used_us;       /* when it was looked at, or had a check, the last time    */
};

/* A thread that serves connections. What is not atomic is its own. */
struct weir_worker {
    struct weir_worker *next;
    const void *daemon;  /* whose connections it serves; in a pool also others do            */
    int events;          /* readable when one of them has something; -1: it was stopped     */
    bool has_loop;       /* which takes the turns, between the calls of libmicrohttpd's     */
    int wake;            /* of a loop: an eventfd that ends its wait                        */
    atomic_bool is_told; /* …which it holds already                                          */
    struct weir_chain *chain;
    struct weir_worker_lane lanes[WEIR_WORKER_LANES_MAX];
    size_t lane_count;

    atomic_size_t staying; /* requests that wait here                                          */
    size_t moving;         /* that are under way, and neither stay nor are suspended            */
    uint64_t turn;         /* counted on and on                                                 */
    uint64_t woken_at;     /* the last turn whose wait a connection has ended                   */
    uint64_t left_at;      /* the last turn in which a request went on, and was replied to      */

    /* counts, written by the worker alone */
    atomic_uint_fast64_t asked; /* checks that were asked in place                              */
    atomic_uint_fast64_t handed; /* …and that were not, though the worker could: no lane is ready */
    atomic_uint_fast64_t turns;
};

struct weir_in_place {
    pthread_mutex_t mutex; /* of the list, which only grows   */
    struct weir_worker *workers;
    atomic_bool is_wanted;  /* some request could stay         */
    atomic_bool is_drained; /* those that stay are to go on    */
    uint32_t staying_max;   /* on each worker                  */
    uint64_t serial;        /* of the chain: no other has it   */
};

struct weir_in_place_numbers {
    uint64_t asked;   /* checks that were asked in place                                     */
    uint64_t handed;  /* that went to the store's threads because no lane was ready, or full */
    uint64_t turns;   /* rounds in which lanes were driven                                   */
    uint32_t staying; /* requests that wait in place now                                     */
    uint32_t workers; /* on which requests can stay                                          */
};

void weir_in_place_init(struct weir_chain *chain, uint32_t parked_max);

/* Closes the lanes: the daemon was stopped. */
void weir_in_place_finish(struct weir_chain *chain);

/* The worker of that daemon with that descriptor, made if there is none. NULL: memory ran out. On the
 * thread that serves its connections, or before there are any. */
struct weir_worker *weir_in_place_worker(struct weir_chain *chain, const void *daemon, int events,
                                         bool has_loop);

/* The same if it is there and has a loop; NULL: it is not. */
struct weir_worker *weir_in_place_loop(struct weir_chain *chain, const void *daemon);

/* Those that stay go on at once, and are told that the server stops. Any thread. */
void weir_in_place_drain(struct weir_chain *chain);

/* Any thread. */
void weir_in_place_read_numbers(struct weir_chain *chain, struct weir_in_place_numbers *numbers);

/* for chain/mhd.c, on the worker */

/* A request is called that its worker has begun to serve. True: it stays where it is, and nothing is
 * to be done for it. */
bool weir_in_place_holds(struct weir_request *request);

/* It was suspended. */
void weir_in_place_rests(struct weir_request *request);

/* It ends. */
void weir_in_place_ends(struct weir_request *request);

/* for middleware, on the worker */

/* Submits a check over the worker's own lane, if there is one that is ready; then the middleware
 * returns WEIR_WAIT, and runs again when the check is done. `done` and `owner` are set here. False:
 * it has to be asked otherwise. */
bool weir_in_place_ask(struct weir_request *request, const struct weir_store *store,
                       struct weir_check *check);

/* For a request that ends: ends the check, if it was the last one that was asked in place and is not
 * done. False: it was not. */
bool weir_in_place_cancel(struct weir_request *request, const struct weir_check *check);

/* for a loop that has the worker (chain/mhd_serve.c) */

/* How long may be waited for news while requests stay; 0: not at all. */
uint64_t weir_in_place_patience_us(const struct weir_worker *worker);

/* Drives the lanes and waits for that long; returns whether `events` is readable. */
bool weir_in_place_turn(struct weir_worker *worker, uint64_t wait_us);

/* Ends the loop's wait, or the next one. Any thread. */
void weir_in_place_wake_loop(struct weir_worker *worker);

/* The loop and its daemon are over, and its eventfd is about to be closed: nobody wakes it any more.
 * Closes the lanes. */
void weir_in_place_end_loop(struct weir_worker *worker);

#endif
