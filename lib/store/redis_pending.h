/* Checks that were handed in and are not done yet: the one place where the threads of a Redis store
 * meet. */
#ifndef WEIR_STORE_REDIS_PENDING_H
#define WEIR_STORE_REDIS_PENDING_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/redis_commands.h"

/* More checks than this are not taken. */
#define WEIR_REDIS_PENDING_MAX 65536

/* More commands than this are not under way at once over one connection. */
#define WEIR_REDIS_IN_FLIGHT_MAX 4096

/* So many checks can be lifted at once. */
#define WEIR_PENDING_HELD_MAX 128

/* Checks stand in the order of their deadlines. Each has a place in one row of commands, which
 * forgets it when it is done, so that a late reply touches nothing: first in `unsent`, then among
 * those that wait for a link, then among those under way. */
struct weir_pending {
    pthread_mutex_t mutex; /* of all that follows, and of the checks in all rows            */
    pthread_cond_t moved;  /* `held` has changed while somebody waits                      */
    struct weir_check *first;
    struct weir_check *last;
    size_t count;
    struct weir_redis_commands unsent; /* nobody knows yet over which link they go         */

    /* In the hands of the store's thread: to be sent, or done; and the places of those among them
     * that are in no row. */
    struct weir_check *held[WEIR_PENDING_HELD_MAX];
    size_t held_count;
    struct weir_redis_command aside[WEIR_PENDING_HELD_MAX];
    struct weir_check *behind; /* the check behind the one that was replied to last, or NULL */
    unsigned waiting;          /* threads that wait for `moved`                      */
    bool sleeps;               /* the store's thread waits and must be woken         */
    bool stops;
    bool has_started;    /* weir_pending_accept() was called                               */
    atomic_bool accepts; /* written under the mutex, read without                          */
};

/* False: the system lacks what it takes. */
bool weir_pending_init(struct weir_pending *pending);

/* No thread uses it any more. */
void weir_pending_finish(struct weir_pending *pending);

/* for any thread */

enum weir_pending_entry {
    WEIR_PENDING_ENTERED,   /* the store's thread will see it by itself */
    WEIR_PENDING_MUST_WAKE, /* the store's thread must be woken         */
    WEIR_PENDING_CLOSED,    /* not taken: nobody to ask                 */
    WEIR_PENDING_FULL       /* not taken: too many wait                 */
};

enum weir_pending_entry weir_pending_enter(struct weir_pending *pending, struct weir_check *check,
                                           uint64_t deadline_us);

/* Takes a check out early, for the caller to end; false: its `done` was called already, and has
 * returned unless this is the store's thread. */
bool weir_pending_cancel(struct weir_pending *pending, struct weir_check *check,
                         bool is_store_thread);

/* Waits until the store's thread has said whether it accepts checks, or for that time. */
void weir_pending_wait_for_start(struct weir_pending *pending, unsigned timeout_ms);

/* Asks the store's thread to end; true: it must be woken. */
bool weir_pending_stop(struct weir_pending *pending);

/* for the store's thread
 *
 * A check that one of these returns is held: nobody else can end it, free it or move it until
 * the next call of one of these but accept, is_late, forget and stops. "take" also takes it out: the caller ends it at once, or puts
 * it back. */

void weir_pending_accept(struct weir_pending *pending, bool accepts);

/* The oldest check's deadline has come. Nothing is taken. */
bool weir_pending_is_late(struct weir_pending *pending, uint64_t now_us);

/* The oldest check if its deadline has come; false: it has not, or there is none. */
bool weir_pending_take_late(struct weir_pending *pending, uint64_t now_us,
                            struct weir_redis_command *late);

/* The oldest check; NULL: there is none. */
struct weir_check *weir_pending_take_any(struct weir_pending *pending);

/* The first check in a row from the place `*at` on, which moves behind it; false: there is none.
 * For a row whose checks all end: start at `row->first`. */
bool weir_pending_take_from(struct weir_pending *pending, const struct weir_redis_commands *row,
                            size_t *at, struct weir_redis_command *taken);

/* The held check, which is to be ended after all. */
void weir_pending_take_held(struct weir_pending *pending);

/* Lifts the first check that is not done out of a row whose commands were not written; it is held,
 * and to be put elsewhere, or taken. False: there is none. */
bool weir_pending_lift(struct weir_pending *pending, struct weir_redis_commands *row,
                       struct weir_redis_command *lifted);

/* Puts a check that was just taken back, with its old deadline; it is held, and to be put. */
void weir_pending_put_back(struct weir_pending *pending, struct weir_check *check);

/* Puts the held check at the end of a row, or a command that serves none (`check` is NULL). False:
 * there is no room. */
bool weir_pending_put(struct weir_pending *pending, struct weir_redis_commands *row,
                      const struct weir_redis_command *command);

/* Lifts up to `count` checks, of the first ones that are not done, out of `from`: as many as `to` has
 * room for, and as many of the store's own commands beside them. All are held, each to be put into
 * `to`. Returns how many. */
size_t weir_pending_lift_for(struct weir_pending *pending, struct weir_redis_commands *from,
                             struct weir_redis_commands *to, struct weir_redis_command *lifted,
                             size_t count);

/* Ends the oldest command under way, and tells whose it was: a check, which is taken (NULL if that
 * is done already), or one of the store's own kinds. False: none is under way. */
bool weir_pending_take_replied(struct weir_pending *pending, struct weir_redis_commands *under_way,
                               struct weir_redis_command *replied);

/* Forgets all commands of a row: the connection is gone. Their checks were taken before. */
void weir_pending_forget(struct weir_pending *pending, struct weir_redis_commands *row);

/* False: there is something to do first (checks to hand out, or the end). True: whoever enters a
 * check from now on wakes the thread. `left_us` is the time to the oldest check's deadline, or
 * UINT64_MAX. */
bool weir_pending_sleep(struct weir_pending *pending, uint64_t now_us, uint64_t *left_us);

bool weir_pending_stops(struct weir_pending *pending);

#endif
