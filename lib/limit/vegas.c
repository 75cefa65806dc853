#include "limit/vegas.h"

#include <math.h>

#define ALPHA 3.0
#define BETA  6.0

/* A window has at least so many requests: one lucky one moves the mean of ten by a tenth at most. */
#define WINDOW_MIN 10

/* How much of the way the base goes to a window that is below it. */
#define BASE_FALLS 0.25

/* Requests between probes, in limits; a limit of requests takes about a round trip. A base that has gone
 * up may have been measured while the back end was changing, and is soon looked at again. */
#define PROBE_ROUNDS 60.0
#define DOUBT_ROUNDS 15.0

/* Two times are alike if the larger is no more than this times the other. */
#define ALIKE 1.10

/* So much of what does not queue is left under way while the base is measured: where the base was too
 * high, some of that queues as well. */
#define DRAINED 0.75

static double larger(double one, double other)
{
    return one > other ? one : other;
}

static double smaller(double one, double other)
{
    return one < other ? one : other;
}

/* In [0, 1): splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators). */
static double next_random(struct weir_vegas *vegas)
{
    uint64_t bits = vegas->random += UINT64_C(0x9E3779B97F4A7C15);
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94D049BB133111EB);
    bits ^= bits >> 31;
    return (double)(bits >> 11) * 0x1p-53;
}

static void set_limit(struct weir_vegas *vegas, double limit)
{
    limit = larger(limit, vegas->bounds.floor);
    vegas->limit = smaller(limit, vegas->bounds.ceiling);
    vegas->most = larger(vegas->most, vegas->limit);
}

static void begin_window(struct weir_vegas *vegas)
{
    vegas->sum_us = vegas->squares_us = 0;
    vegas->served = vegas->dropped = 0;
    vegas->peak = 0;
}

static void plan_probe(struct weir_vegas *vegas, double rounds)
{
    vegas->most = vegas->limit;
    vegas->to_probe = rounds * vegas->limit * (0.5 + next_random(vegas) / 2);
}

void weir_vegas_init(struct weir_vegas *vegas, struct weir_vegas_bounds bounds, uint64_t seed)
{
    *vegas = (struct weir_vegas){ .bounds = bounds, .random = seed };
    set_limit(vegas, bounds.initial);
    plan_probe(vegas, PROBE_ROUNDS);
}

void weir_vegas_set_bounds(struct weir_vegas *vegas, struct weir_vegas_bounds bounds)
{
    vegas->bounds = bounds;
    vegas->most = smaller(vegas->most, bounds.ceiling);
    vegas->held = smaller(vegas->held, bounds.ceiling);
    set_limit(vegas, vegas->limit);
}

uint32_t weir_vegas_limit(const struct weir_vegas *vegas)
{
    return (uint32_t)vegas->limit;
}

/* the steps of the limit */

static double queue_of(const struct weir_vegas *vegas)
{
    double under_way = smaller(vegas->limit, vegas->peak);
    double least_us = larger(1.0, vegas->time_us - vegas->error_us);
    return larger(0, under_way * (1.0 - vegas->base_us / least_us));
}

/* By how much the queue moves the limit. */
static double step_for(const struct weir_vegas *vegas, double queue)
{
    bool is_in_use = 2.0 * vegas->peak >= vegas->limit;
    if (queue > BETA)
        return -larger(1.0, (queue - BETA) / 4);
    if (queue >= ALPHA || !is_in_use)
        return 0;
    if (queue > 1.0)
        return 1.0;
    return vegas->stage == WEIR_VEGAS_STARTING ? vegas->limit : BETA;
}

static void apply_drops(struct weir_vegas *vegas)
{
    double share = (double)vegas->dropped / (vegas->served + vegas->dropped);
    if (vegas->dropped > 0)
        vegas->stage = WEIR_VEGAS_STEADY;
    set_limit(vegas, vegas->limit * (1.0 - share / 2));
}

/* A window that is clearly below the base draws it down by a part, so that none alone decides; upwards
 * it goes by probes only. */
static void draw_base(struct weir_vegas *vegas)
{
    if (vegas->base_us == 0)
        vegas->base_us = vegas->time_us;
    else if (vegas->time_us + 2 * vegas->error_us < vegas->base_us)
        vegas->base_us += (vegas->time_us - vegas->base_us) * BASE_FALLS;
}

/* probing */

/* Of those that start together the quick ones end first, so the first two rounds are passed over. */
static void begin_round(struct weir_vegas *vegas, double limit, uint64_t now_us)
{
    begin_window(vegas);
    set_limit(vegas, limit);
    vegas->round_us = now_us;
    vegas->unsettled = 2 * weir_vegas_limit(vegas);
}

/* How many requests the base of before leaves room for without a queue. */
static double room_for(const struct weir_vegas *vegas)
{
    return vegas->limit * smaller(1.0, vegas->base_us / vegas->time_us);
}

/* Where there is no sign of a queue there is none to be drained, and nobody is turned away for it. */
static void begin_probe(struct weir_vegas *vegas, double queue, uint64_t now_us)
{
    vegas->stage = WEIR_VEGAS_PROBING;
    vegas->held = vegas->limit;
    vegas->held_us = vegas->time_us;
    begin_round(vegas, queue > 1.0 ? DRAINED * room_for(vegas) : vegas->limit, now_us);
}

/* The queue is gone when the time is about the base of before, or falls no more with the limit: then
 * it is the back end that has become slower. */
static bool has_drained(const struct weir_vegas *vegas)
{
    return vegas->time_us <= vegas->base_us * ALIKE || vegas->time_us * ALIKE >= vegas->held_us
           || vegas->limit <= vegas->bounds.floor;
}

/* Bases that differ by no more than chance are two measurements of the same. */
static void renew_base(struct weir_vegas *vegas)
{
    bool is_same = fabs(vegas->time_us - vegas->base_us) <= vegas->error_us;
    vegas->base_us = is_same ? (vegas->time_us + vegas->base_us) / 2 : vegas->time_us;
}

static void end_probe(struct weir_vegas *vegas)
{
    double room = larger(vegas->held * vegas->base_us / vegas->time_us, vegas->limit / DRAINED);
    bool is_raised = vegas->time_us > vegas->base_us * ALIKE;
    renew_base(vegas);
    vegas->stage = WEIR_VEGAS_STEADY;
    set_limit(vegas, smaller(vegas->held, room));
    plan_probe(vegas, is_raised ? DOUBT_ROUNDS : PROBE_ROUNDS);
    begin_window(vegas);
}

static void end_round(struct weir_vegas *vegas, uint64_t now_us)
{
    if (has_drained(vegas)) {
        end_probe(vegas);
        return;
    }
    vegas->held_us = vegas->time_us;
    begin_round(vegas, DRAINED * room_for(vegas), now_us);
}

/* A limit that has come down by a quarter has most likely met a back end that became slower, and not
 * a longer queue: it is not left at that until the next probe would come by itself. */
static bool is_probe_due(const struct weir_vegas *vegas)
{
    return vegas->base_us > 0 && (vegas->to_probe <= 0 || vegas->limit < 0.75 * vegas->most);
}

/* windows */

static void measure(struct weir_vegas *vegas)
{
    double mean_us = vegas->sum_us / vegas->served;
    double variance = vegas->squares_us / vegas->served - mean_us * mean_us;
    vegas->time_us = larger(1.0, mean_us);
    vegas->error_us = sqrt(larger(0, variance) / vegas->served);
}

/* Returns the queue, as far as there is something to tell it from. */
static double follow_queue(struct weir_vegas *vegas)
{
    if (vegas->served == 0)
        return 0;
    draw_base(vegas);
    double queue = queue_of(vegas);
    if (queue > 1.0)
        vegas->stage = WEIR_VEGAS_STEADY;
    set_limit(vegas, vegas->limit + step_for(vegas, queue));
    return queue;
}

static void end_window(struct weir_vegas *vegas, uint64_t now_us)
{
    if (vegas->served > 0)
        measure(vegas);
    if (vegas->stage == WEIR_VEGAS_PROBING && vegas->served > 0) {
        end_round(vegas, now_us);
        return;
    }
    double queue = follow_queue(vegas);
    apply_drops(vegas);
    begin_window(vegas);
    if (is_probe_due(vegas))
        begin_probe(vegas, queue, now_us);
}

static uint32_t window_of(const struct weir_vegas *vegas)
{
    uint32_t limit = weir_vegas_limit(vegas);
    return limit > WINDOW_MIN ? limit : WINDOW_MIN;
}

/* Not all that ends during a probe belongs to it. */
static bool is_passed_over(struct weir_vegas *vegas, const struct weir_vegas_sample *sample)
{
    if (vegas->stage != WEIR_VEGAS_PROBING)
        return false;
    if (sample->started_us < vegas->round_us)
        return true;
    if (vegas->unsettled == 0)
        return false;
    vegas->unsettled--;
    return true;
}

static void count(struct weir_vegas *vegas, const struct weir_vegas_sample *sample)
{
    if (sample->in_flight > vegas->peak)
        vegas->peak = sample->in_flight;
    if (sample->is_dropped) {
        vegas->dropped++;
        return;
    }
    double time_us = (double)(sample->ended_us - sample->started_us);
    vegas->served++;
    vegas->sum_us += time_us;
    vegas->squares_us += time_us * time_us;
}

bool weir_vegas_add(struct weir_vegas *vegas, const struct weir_vegas_sample *sample)
{
    vegas->to_probe -= 1.0;
    if (is_passed_over(vegas, sample))
        return false;
    count(vegas, sample);
    if (vegas->served + vegas->dropped < window_of(vegas))
        return false;
    end_window(vegas, sample->ended_us);
    return true;
}
