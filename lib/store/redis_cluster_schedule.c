#include "store/redis_cluster_schedule.h"

#include "base/clock.h"

/* A reader of large maps leaves so many times as long to the checks. */
#define READ_TIMES 20

/* Half of it to all of it. */
static uint64_t jittered(struct weir_cluster_schedule *schedule, uint64_t us)
{
    schedule->random ^= schedule->random << 13; /* xorshift64 (Marsaglia 2003) */
    schedule->random ^= schedule->random >> 7;
    schedule->random ^= schedule->random << 17;
    return us - schedule->random % (us / 2 + 1);
}

uint64_t weir_cluster_schedule_due_us(const struct weir_cluster_schedule *schedule)
{
    return schedule->is_asked ? schedule->asked_until_us : schedule->ask_at_us;
}

void weir_cluster_schedule_on_asked(struct weir_cluster_schedule *schedule, uint64_t until_us)
{
    schedule->is_asked = true;
    schedule->asked_until_us = until_us;
    schedule->is_wanted_again = false;
}

void weir_cluster_schedule_ask_now(struct weir_cluster_schedule *schedule, uint64_t now_us)
{
    schedule->is_asked = false;
    schedule->ask_at_us = now_us;
}

void weir_cluster_schedule_want(struct weir_cluster_schedule *schedule, uint64_t now_us)
{
    uint64_t soonest_us = schedule->read_at_us
                          + weir_later(WEIR_CLUSTER_PAUSE_MIN_US, READ_TIMES * schedule->read_us);
    uint64_t at_us = weir_later(soonest_us, now_us);
    schedule->is_wanted_again = true;
    if (schedule->pause_us == 0 && at_us < schedule->ask_at_us)
        schedule->ask_at_us = at_us;
}

void weir_cluster_schedule_pause(struct weir_cluster_schedule *schedule, uint64_t now_us)
{
    uint64_t pause_us =
        schedule->pause_us == 0 ? WEIR_CLUSTER_PAUSE_MIN_US : 2 * schedule->pause_us;
    schedule->pause_us =
        pause_us < WEIR_CLUSTER_PAUSE_MAX_US ? pause_us : WEIR_CLUSTER_PAUSE_MAX_US;
    schedule->ask_at_us = now_us + jittered(schedule, schedule->pause_us);
}

void weir_cluster_schedule_on_answer(struct weir_cluster_schedule *schedule, uint64_t now_us,
                                     uint64_t read_us)
{
    schedule->is_asked = false;
    schedule->read_at_us = now_us;
    schedule->read_us = read_us;
}

void weir_cluster_schedule_on_well(struct weir_cluster_schedule *schedule, uint64_t now_us)
{
    schedule->pause_us = 0;
    schedule->ask_at_us =
        now_us + jittered(schedule, WEIR_CLUSTER_MAP_LASTS_US + WEIR_CLUSTER_MAP_LASTS_US / 4);
    if (schedule->is_wanted_again)
        weir_cluster_schedule_want(schedule, now_us);
}
