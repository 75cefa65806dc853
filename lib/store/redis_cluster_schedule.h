/* When a cluster's map is asked for. Pure: who is asked, and how, is redis_cluster.c's. Times are in
 * µs of a clock that never goes back. */
#ifndef WEIR_STORE_REDIS_CLUSTER_SCHEDULE_H
#define WEIR_STORE_REDIS_CLUSTER_SCHEDULE_H

#include <weir/common.h>

/* The map is read anew about so often, though nothing says that it is old. */
#define WEIR_CLUSTER_MAP_LASTS_US UINT64_C(15000000)

/* It is never read twice within this time; while something is wrong the pauses double up to: */
#define WEIR_CLUSTER_PAUSE_MIN_US UINT64_C(25000)
#define WEIR_CLUSTER_PAUSE_MAX_US UINT64_C(500000)

/* All zero but for `random`, which is odd: somebody is to be asked at once. */
struct weir_cluster_schedule {
    bool is_asked; /* somebody is asked, until…                        */
    uint64_t asked_until_us;
    uint64_t ask_at_us;   /* if nobody is asked: when somebody is next        */
    bool is_wanted_again; /* something has happened since                     */
    uint64_t pause_us;    /* the last one, before jitter; 0: all is well      */
    uint64_t read_at_us;  /* the map, and how long that took                  */
    uint64_t read_us;
    uint64_t random;
};

/* When something is due: a question, or the end of one. */
uint64_t weir_cluster_schedule_due_us(const struct weir_cluster_schedule *schedule);

/* Somebody is asked, and is left for another at that time. */
void weir_cluster_schedule_on_asked(struct weir_cluster_schedule *schedule, uint64_t until_us);

/* Nobody is waited for any more, and the next one may be asked at once. */
void weir_cluster_schedule_ask_now(struct weir_cluster_schedule *schedule, uint64_t now_us);

/* Something says that the map is old: it is asked for as soon as may be, unless a pause runs. A map that
 * took its time to read leaves twenty times as long to the checks. */
void weir_cluster_schedule_want(struct weir_cluster_schedule *schedule, uint64_t now_us);

/* Nobody could be asked, or what was told is not well yet: a pause, twice as long as the last. */
void weir_cluster_schedule_pause(struct weir_cluster_schedule *schedule, uint64_t now_us);

/* The question was answered at `now_us`, and it took `read_us` to read that. */
void weir_cluster_schedule_on_answer(struct weir_cluster_schedule *schedule, uint64_t now_us,
                                     uint64_t read_us);

/* The map is read, and all is well. */
void weir_cluster_schedule_on_well(struct weir_cluster_schedule *schedule, uint64_t now_us);

#endif
