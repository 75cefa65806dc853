/* Lanes of a Redis store without a thread: whoever has checks to send drives one. No thread hop, no
 * eventfd, and nothing is said of such a lane: it is there for the good times. As soon as something is
 * wrong with its servers, or with what the store's own threads know of them, checks go to those, which
 * have the breaker, the log and the state that others see. */
#include <stdlib.h>

#include "base/clock.h"
#include "store/redis_internal.h"
#include "store/store.h"

/* Checks that get errors go to the store's own threads for so long: long enough for those to find out
 * that the server does not count. */
#define REST_US UINT64_C(3000000)

struct weir_lane {
    struct weir_redis *redis; /* until it is over */
    atomic_bool is_over;      /* the store was freed */
    struct weir_redis_driven *driven;
    struct weir_lane *next;
    bool has_started;
    uint64_t rests_until_us; /* 0: it does not */
};

/* the store's list */

bool weir_redis_driven_init(struct weir_redis_driven *driven)
{
    return pthread_mutex_init(&driven->mutex, NULL) == 0;
}

static bool lane_is_over(const struct weir_lane *lane)
{
    return atomic_load_explicit(&lane->is_over, memory_order_acquire);
}

static void shut(struct weir_lane *lane)
{
    weir_redis_type.free(lane->redis);
    atomic_store_explicit(&lane->is_over, true, memory_order_release);
}

void weir_redis_driven_finish(struct weir_redis_driven *driven)
{
    while (driven->first != NULL) {
        struct weir_lane *lane = driven->first;
        driven->first = lane->next;
        shut(lane); /* who drove it frees the rest */
    }
    pthread_mutex_destroy(&driven->mutex);
}

static bool add(struct weir_redis_driven *driven, struct weir_lane *lane)
{
    pthread_mutex_lock(&driven->mutex);
    bool has_room = driven->count < WEIR_REDIS_DRIVEN_MAX;
    if (has_room) {
        lane->next = driven->first;
        driven->first = lane;
        driven->count++;
    }
    pthread_mutex_unlock(&driven->mutex);
    return has_room;
}

static void take_out(struct weir_redis_driven *driven, const struct weir_lane *lane)
{
    pthread_mutex_lock(&driven->mutex);
    struct weir_lane **at = &driven->first;
    while (*at != lane)
        at = &(*at)->next;
    *at = lane->next;
    driven->count--;
    pthread_mutex_unlock(&driven->mutex);
}

static struct weir_lane *lane_open(void *self)
{
    struct weir_redis_driven *driven = self;
    struct weir_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return NULL;
    lane->driven = driven;
    lane->redis = weir_redis_new_driven(driven->own[0]);
    if (lane->redis != NULL && add(driven, lane))
        return lane;
    if (lane->redis != NULL)
        shut(lane);
    free(lane);
    return NULL;
}

static void lane_close(struct weir_lane *lane)
{
    if (!lane_is_over(lane)) {
        take_out(lane->driven, lane);
        shut(lane);
    }
    free(lane);
}

/* whether all is well */

static bool is_store_well(const struct weir_redis_driven *driven)
{
    for (size_t i = 0; i < driven->own_count; i++)
        if (!atomic_load_explicit(&driven->own[i]->is_well, memory_order_relaxed))
            return false;
    return true;
}

static bool lane_is_ready(const struct weir_lane *lane)
{
    return !lane_is_over(lane) && lane->rests_until_us == 0 && lane->redis->accepts
           && weir_redis_is_well(lane->redis) && is_store_well(lane->driven);
}

static bool is_failing(const struct weir_redis *redis)
{
    for (size_t i = 0; i < redis->link_count; i++)
        if (redis->links[i] != NULL && redis->links[i]->errors.is_failing)
            return true;
    return false;
}

static void forget_errors(const struct weir_redis *redis)
{
    for (size_t i = 0; i < redis->link_count; i++)
        if (redis->links[i] != NULL)
            weir_link_forget_errors(redis->links[i]);
}

/* The errors that a lane has met are the other threads' to speak of. */
static void rest(struct weir_lane *lane)
{
    uint64_t now_us = weir_monotonic_us();
    if (lane->rests_until_us == 0 && is_failing(lane->redis)) {
        lane->rests_until_us = now_us + REST_US;
    } else if (lane->rests_until_us != 0 && now_us >= lane->rests_until_us) {
        lane->rests_until_us = 0;
        forget_errors(lane->redis);
    }
}

/* driving */

static void start(struct weir_lane *lane)
{
    const struct weir_redis_topology_type *topology = lane->redis->topology;
    if (topology->start != NULL)
        topology->start(lane->redis, weir_monotonic_us());
    lane->has_started = true;
}

/* What came while nobody was there goes first: it may be that the server has gone, or that another
 * one is the master now; and what was answered in time must not be found late. */
static bool lane_look(struct weir_lane *lane)
{
    if (lane_is_over(lane))
        return false;
    if (!lane->has_started)
        start(lane);
    weir_redis_wait(lane->redis, -1, 0);
    weir_redis_do_round(lane->redis);
    rest(lane);
    return lane_is_ready(lane);
}

static bool lane_drive(struct weir_lane *lane, int fd, uint64_t wait_us)
{
    if (!lane->has_started)
        start(lane);
    weir_redis_do_round(lane->redis);
    return wait_us > 0 && weir_redis_wait(lane->redis, fd, wait_us);
}

static void lane_submit(struct weir_lane *lane, struct weir_check *check)
{
    weir_redis_type.submit(lane->redis, check);
}

static void lane_cancel(struct weir_lane *lane, struct weir_check *check)
{
    weir_redis_type.cancel(lane->redis, check);
}

const struct weir_lane_type weir_redis_driven_type = {
    .open = lane_open,
    .close = lane_close,
    .is_over = lane_is_over,
    .look = lane_look,
    .submit = lane_submit,
    .cancel = lane_cancel,
    .drive = lane_drive,
    .is_ready = lane_is_ready,
};
