/* Checks whose keys lie in several slots of a cluster, which no script can decide at once: each slot's
 * limits are a part, and parts are taken one after the other and given back where one refuses.
 *
 * Every such check takes its parts in the order of their slots. So of a crowd that wants the same
 * last unit, whoever gets it in the first slot finds it in the others too, and nobody is refused for
 * the sake of somebody who is refused as well; unless limits of several slots refuse at once.
 *
 * All functions may be called from any thread, several at once, but for init and finish. */
#ifndef WEIR_STORE_REDIS_SPLIT_H
#define WEIR_STORE_REDIS_SPLIT_H

#include <weir/store.h>

#include <pthread.h>

/* The store that carries out the parts. */
struct weir_redis_splits_inner {
    void *self;
    uint64_t timeout_us;
    /* As of weir_store_type; a part is done by that time (of weir_monotonic_us()). */
    void (*submit)(void *self, struct weir_check *check, uint64_t deadline_us);
    void (*cancel)(void *self, struct weir_check *check);
    /* Whether a check with keys in this slot may be answered; false: it would only fail. */
    bool (*is_ready)(void *self, unsigned slot);
};

/* Of one store: its checks of this kind that are not done, or give something back. */
struct weir_redis_splits {
    struct weir_redis_splits_inner inner;
    pthread_mutex_t mutex; /* of the rest, and of what moves within each of them              */
    pthread_cond_t ended;  /* one was taken off the list, or freed                            */
    struct weir_redis_split *first; /* those that are not done                                */
    size_t count;                   /* in memory                                              */
};

/* False: the system lacks what it takes. */
bool weir_redis_splits_init(struct weir_redis_splits *splits,
                            const struct weir_redis_splits_inner *inner);

/* Ends all checks with WEIR_STORE_CANCELLED, and waits until all that they had taken is given back,
 * or was given up at its deadline. The inner store still works. */
void weir_redis_splits_close(struct weir_redis_splits *splits);

/* After that, and when no other thread uses it any more. */
void weir_redis_splits_finish(struct weir_redis_splits *splits);

/* Whether a check, without fault, has keys in several slots. Pure. */
bool weir_redis_is_split(const struct weir_check *check);

/* Takes such a check; all of its parts are done by the deadline.
 *
 * A spending that is let through answers with the earliest of its parts' times, and tells in
 * `after_us` which is the time of each limit. One
 * that is refused has given back what it took, and then looks at what
 * the others hold; where these cannot be asked any more, or there is little time left, the refusal
 * stands, and their numbers are 0.
 * One that fails in the middle gives back what it surely took.
 *
 * The other operations go to all slots at once, and the result is the worst one. */
void weir_redis_split_submit(struct weir_redis_splits *splits, struct weir_check *check,
                             uint64_t deadline_us);

/* As `cancel` of weir_store_type; false: it is none of these checks, or was done long since. */
bool weir_redis_split_cancel(struct weir_redis_splits *splits, struct weir_check *check);

#endif
