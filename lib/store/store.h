/* The store handle, and the stores that come with the library. */
#ifndef WEIR_STORE_INTERNAL_H
#define WEIR_STORE_INTERNAL_H

#include <weir/store.h>

/* A lane of a remote store: connections of its own that a thread drives itself, where else a thread of
 * the store's would. It belongs to one thread at a time, which alone calls these functions, and
 * connects while that thread drives it. It takes checks only as long as all is well with its servers:
 * else the store's own threads do, and speak of it. */
struct weir_lane;

struct weir_lane_type {
    /* Makes one; NULL: there is no memory, or there are enough. Any thread. */
    struct weir_lane *(*open)(void *lanes_self);

    /* No check is under way. The store may have been freed before. */
    void (*close)(struct weir_lane *lane);

    /* The store has been freed, perhaps by another thread: close it. */
    bool (*is_over)(const struct weir_lane *lane);

    /* Reads what has come, without waiting, and does a round: before a lane is used that has not been
     * driven for a while, and again and again while it connects. True: it takes checks. */
    bool (*look)(struct weir_lane *lane);

    /* As the functions of weir_store_type. Nothing is sent before the next round, and `done` is
     * called on this thread, by any of these functions. */
    void (*submit)(struct weir_lane *lane, struct weir_check *check);
    void (*cancel)(struct weir_lane *lane, struct weir_check *check);

    /* Does a round, then waits until something has come, or `fd` is readable (-1: none), but not
     * longer than `wait_us`, and reads it; with 0 it neither waits nor reads. Returns whether `fd` is
     * readable. */
    bool (*drive)(struct weir_lane *lane, int fd, uint64_t wait_us);

    /* Whether it takes checks, without a look. */
    bool (*is_ready)(const struct weir_lane *lane);
};

/* What weir's own stores count, for metrics. */
struct weir_store_numbers {
    bool is_memory;        /* it keeps sums in this process: the next three tell of them      */
    uint64_t keys;         /* expired ones that nothing has taken the place of are among them */
    uint64_t bytes;        /* of memory in all                                                */
    uint64_t evictions;    /* of keys that were forgotten before their time                   */
    uint64_t late_answers; /* of a server's, to checks that had ended without them            */
};

struct weir_store {
    const struct weir_store_type *type;
    void *self;
    void (*numbers)(void *self, struct weir_store_numbers *numbers); /* NULL: it counts nothing */
    const struct weir_lane_type *lanes;                              /* NULL: it has none */
    void *lanes_self;
};

/* The size of the options in the first release: nothing smaller was ever compiled. */
#define WEIR_STORE_OPTIONS_FIRST                                                                   \
    (offsetof(struct weir_store_options, log) + sizeof(struct weir_log))

enum weir_code weir_store_new_memory(const struct weir_store_options *options,
                                     struct weir_store **store, struct weir_error *error);
enum weir_code weir_store_new_redis(const char *url, const struct weir_store_options *options,
                                    struct weir_store **store, struct weir_error *error);

/* Whether it takes WEIR_EXCHANGE; a type of an older caller says nothing of it. */
static inline bool weir_store_exchanges(const struct weir_store *store)
{
    const struct weir_store_type *type = store->type;
    return type->size >= offsetof(struct weir_store_type, exchanges) + sizeof type->exchanges
           && type->exchanges;
}

/* All 0 of a user's own store. Never blocks on a server. Any thread. */
struct weir_store_numbers weir_store_numbers(const struct weir_store *store);

static inline bool weir_store_ready(const struct weir_store *store)
{
    return store->type->ready == NULL || store->type->ready(store->self);
}

#endif
