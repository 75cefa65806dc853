/* Checks that were handed in and are not done yet: the one place where the threads of a Redis store
 * meet. */
#ifndef WEIR_STORE_REDIS_PENDING_H
#define WEIR_STORE_REDIS_PENDING_H

#include <weir/store.h>

#include <pthread.h>
#include <stdatomic.h>

/* More checks than this are not taken. */
#define WEIR_REDIS_PENDING_MAX 65536

/* More commands than this are not under way at once. */
#define WEIR_REDIS_IN_FLIGHT_MAX 4096

/* Checks stand in the order of their deadlines, which is that of their coming, since all have the
 * same time; those that were sent come first. A slot is what a command leaves behind for its reply:
 * the store's own memory, which forgets its check when that is done, so that a late reply touches
 * nothing. Redis replies in order, so slots are a ring. */
struct weir_pending {
    pthread_mutex_t mutex; /* of all that follows                                          */
    pthread_cond_t moved;  /* `held` has changed while somebody waits                      */
    struct weir_check *first;
    struct weir_check *last;
    struct weir_check *unsent; /* the first that was not sent; NULL: all were              */
    size_t count;

    struct weir_check *slots[WEIR_REDIS_IN_FLIGHT_MAX];
    size_t slot_first;  /* of the oldest command under way                                 */
    size_t slots_taken; /* commands under way                                              */

    struct weir_check *held; /* in the hands of the store's thread: to be sent, or done    */
    unsigned waiting;        /* threads that wait for `moved`                              */
    bool sleeps;             /* the store's thread waits and must be woken                 */
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
 * A check that one of these returns is held: nobody else can end it, free it or move it until the
 * next call of one of these. "take" also takes it out, and the caller must end it at once. */

void weir_pending_accept(struct weir_pending *pending, bool accepts);

/* The oldest check if its deadline has come; NULL: it has not, or there is none. */
struct weir_check *weir_pending_take_late(struct weir_pending *pending, uint64_t now_us);

/* The oldest check; NULL: there is none. */
struct weir_check *weir_pending_take_any(struct weir_pending *pending);

/* The first check that was not sent, which now counts as sent; NULL: there is none, or too many
 * commands are under way. */
struct weir_check *weir_pending_send(struct weir_pending *pending);

/* Leaves a slot behind for a command that serves no check; false: too many are under way. */
bool weir_pending_send_own(struct weir_pending *pending);

enum weir_pending_reply {
    WEIR_PENDING_TO_NONE,  /* no command is under way                                */
    WEIR_PENDING_TO_CHECK, /* `check` is taken, or NULL if that is done already      */
    WEIR_PENDING_TO_OWN
};

/* Ends the oldest command under way, and says whose it was. */
enum weir_pending_reply weir_pending_take_replied(struct weir_pending *pending,
                                                  struct weir_check **check);

/* Puts back a check that was just taken, with its old deadline: it is sent again. */
void weir_pending_send_again(struct weir_pending *pending, struct weir_check *check);

/* Forgets all commands under way: the connection is gone. Their checks were taken before. */
void weir_pending_forget(struct weir_pending *pending);

/* False: there is something to do first (checks to send, if `can_send`, or the end). True: whoever
 * enters a check from now on wakes the thread. `left_us` is the time to the oldest check's deadline,
 * or UINT64_MAX. */
bool weir_pending_sleep(struct weir_pending *pending, bool can_send, uint64_t now_us,
                        uint64_t *left_us);

bool weir_pending_stops(struct weir_pending *pending);

#endif
