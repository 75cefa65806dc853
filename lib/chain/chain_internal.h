/* The chain's own shape. */
#ifndef WEIR_CHAIN_INTERNAL_H
#define WEIR_CHAIN_INTERNAL_H

#include <stdatomic.h>

#include <weir/chain.h>

#include "chain/in_place.h"
#include "chain/parking.h"
#include "chain/request.h"
#include "chain/waiting.h"

/* A middleware, or a handler for one method and pattern. */
struct weir_link {
    struct weir_middleware middleware; /* a handler's on_request and self are here too */
    bool is_handler;
    struct weir_text method; /* of a handler; at NULL: any */
    struct weir_pattern pattern;
    size_t slot; /* offset of its request_bytes behind `entered` */
};

struct weir_chain {
    unsigned magic;
    struct weir_link *links;
    size_t link_count;
    size_t slot_bytes; /* of all links, for one request */
    struct weir_log log;
    void (*on_wake)(void *wake_self);
    void *wake_self;
    int wake_fd; /* -1: nobody asked for one */
    struct weir_parking parking;
    struct weir_waiting waiting;
    struct weir_in_place in_place;
    enum weir_wait_mode wait_mode;
    atomic_uint_fast32_t under_way; /* but for those that came when it was stopping already */
    atomic_bool is_stopping;
    atomic_uint_fast32_t wakers; /* threads in weir_wake() */
    atomic_bool is_serving;      /* nothing may be added any more */
    atomic_bool has_warned;      /* that an application asked for a field of an unread body */
    void *app;                   /* chain/mhd.c's, owned; NULL: none */
};

#define WEIR_CHAIN_MAGIC 0x6c696e6bu /* "link" */

/* Whether all links agree to be served over a listening socket; -1: it is not known. */
enum weir_code weir_chain_may_listen(const struct weir_chain *chain, int listener,
                                     struct weir_error *error);

/* True from the first weir_chain_drain() on. Any thread. */
bool weir_chain_is_stopping(struct weir_chain *chain);

/* Under external polling: ends the wait of the application's loop, after a wake. Any thread. */
void weir_chain_tell_loop(struct weir_chain *chain);

/* What the server has to do after a run. */
enum weir_run {
    WEIR_RUN_REPLY, /* request->reply is built                                        */
    WEIR_RUN_SENT,  /* a handler queued a response itself                             */
    WEIR_RUN_APP,   /* nobody in the chain answers: the wrapped application's turn    */
    WEIR_RUN_WAIT,  /* parked: run again after the wake                               */
    WEIR_RUN_GONE,  /* the client has hung up, and nobody has an answer: to be closed */
    WEIR_RUN_BODY,  /* the body is wanted: run again when it is whole                 */
    WEIR_RUN_LATER  /* run again when the request is complete                         */
};

/* Moves a request through the links as far as it can go. */
enum weir_run weir_run(struct weir_request *request);

/* Goes to the error middleware with request->error, as if the current link had failed. */
enum weir_run weir_run_error(struct weir_request *request);

/* Runs the reply hooks of the links that were entered, in reverse order. */
void weir_run_reply_hooks(struct weir_request *request, struct weir_reply *reply);

#endif
