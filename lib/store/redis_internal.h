/* A Redis store from the inside. redis.c is what the library sees of it, redis_loop.c its thread,
 * redis_connection.c its connection; redis_pending.c is where other threads hand in checks. */
#ifndef WEIR_STORE_REDIS_INTERNAL_H
#define WEIR_STORE_REDIS_INTERNAL_H

#include <weir/store.h>

#include <hiredis/hiredis.h>
#include <pthread.h>

#include "store/breaker.h"
#include "store/redis_pending.h"
#include "store/redis_url.h"
#include "store/redis_wire.h"

/* A try (connect, greet, ping) is given up after this time. */
#define WEIR_REDIS_TRY_US UINT64_C(1000000)

/* As long as in struct weir_store_state. */
#define WEIR_REDIS_WHY_CHARS 96

#define WEIR_REDIS_ADDRESSES_MAX 8
#define WEIR_REDIS_ADDRESS_CHARS 64

enum weir_redis_stage {
    WEIR_REDIS_APART,      /* no connection                                          */
    WEIR_REDIS_CONNECTING, /* the system is at it                                    */
    WEIR_REDIS_GREETING,   /* password, database and script were sent                */
    WEIR_REDIS_PINGING,    /* all that was accepted; is it quick enough?             */
    WEIR_REDIS_OPEN        /* checks go through                                      */
};

/* What a greeting asks for, in this order. */
enum weir_redis_greeting {
    WEIR_REDIS_AUTH,
    WEIR_REDIS_SELECT,
    WEIR_REDIS_SCRIPT,
    WEIR_REDIS_GREETINGS
};

struct weir_redis {
    struct weir_redis_url url;
    uint64_t timeout_us;
    struct weir_log log;
    struct weir_clock test_clock; /* `now_us` NULL: Redis decides by its own               */

    pthread_t thread;
    int wake_fd; /* an eventfd: ends the thread's wait                                     */
    struct weir_pending pending;

    pthread_mutex_t why_mutex;
    char why[WEIR_REDIS_WHY_CHARS]; /* "": it answers, or has just been started            */

    /* The rest belongs to the store's thread. */
    struct weir_breaker breaker;
    struct weir_redis_scripts scripts;
    struct weir_redis_shape loading[WEIR_REDIS_SCRIPTS_MAX]; /* whose hash comes next, a ring */
    size_t loading_first;
    size_t loading_count;

    char addresses[WEIR_REDIS_ADDRESSES_MAX][WEIR_REDIS_ADDRESS_CHARS]; /* literals        */
    size_t address_count;
    size_t address_at; /* the one that is tried, or was last                              */

    enum weir_redis_stage stage;
    redisContext *context;   /* NULL: APART                                               */
    uint64_t stage_until_us; /* of all stages but APART and OPEN                          */
    bool has_output;         /* some waits to be written                                  */
    bool greets[WEIR_REDIS_GREETINGS];
    enum weir_redis_greeting greeted; /* the one whose reply is awaited                     */
    bool was_lost;    /* the connection ends as soon as its replies are dealt with         */
    bool was_refused; /* …because Redis said so                                            */
    bool was_unfit;   /* …to a check, though it greets well: an answer must come first     */
    char lost_why[WEIR_REDIS_WHY_CHARS];

    bool is_reported; /* the log has said that it does not answer                           */
    uint64_t reported_at_us;
};

/* redis_connection.c; all on the store's thread */

/* Makes the names of the URL into addresses; blocks. False: there are none. */
bool weir_redis_resolve(struct weir_redis *redis);

/* Begins to connect to the address at `address_at`, or where that fails at once, to the next ones;
 * false: none is left, `lost_why` says why the last one failed. */
bool weir_redis_connect(struct weir_redis *redis, uint64_t now_us);

/* The socket is writable, or readable. */
void weir_redis_on_writable(struct weir_redis *redis, uint64_t now_us);
void weir_redis_on_readable(struct weir_redis *redis, uint64_t now_us);

/* Hands over what was not sent yet, and writes as much as the socket takes. */
void weir_redis_send(struct weir_redis *redis);

/* Notes that the connection is of no use any more, for a reason; the first one stands. */
void weir_redis_lose(struct weir_redis *redis, const char *why);

/* Closes it. The checks of its commands were ended before. */
void weir_redis_close(struct weir_redis *redis);

/* redis_loop.c */

void *weir_redis_run(void *self);
void weir_redis_wake(struct weir_redis *redis);

/* Ends a check that was taken, or never entered; `why` NULL keeps what stands there. */
void weir_redis_end(struct weir_check *check, enum weir_store_result result, const char *why);

/* The greeting went through; a check was answered. */
void weir_redis_on_open(struct weir_redis *redis);
void weir_redis_on_answer(struct weir_redis *redis);

/* redis.c */

/* weir_store_new_redis() with scripts that take their time from `clock` (copied; NULL: Redis's own)
 * and keep their keys an hour longer, for tests that move time by hand. */
enum weir_code weir_store_new_redis_by(const char *url, const struct weir_store_options *options,
                                       const struct weir_clock *clock, struct weir_store **store,
                                       struct weir_error *error);

#endif
