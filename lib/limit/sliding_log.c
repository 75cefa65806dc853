#include "limit/sliding_log.h"

#include "limit/units.h"

/* entries, by their number from the oldest */

static uint32_t place_of(const struct weir_ring *ring, uint32_t index)
{
    uint32_t to_the_end = ring->size - ring->first;
    return index < to_the_end ? ring->first + index : index - to_the_end;
}

static uint64_t time_of(const struct weir_ring *ring, uint32_t index)
{
    const struct weir_ring_entry *entry = &ring->entries[place_of(ring, index)];
    return (uint64_t)entry->time_high << 32 | entry->time_low;
}

/* The running sum before an entry, or before the one that will be next. */
static uint32_t sum_before(const struct weir_ring *ring, uint32_t index)
{
    return index == 0 ? ring->before : ring->entries[place_of(ring, index - 1)].sum;
}

/* The units from an entry on. */
static uint32_t units_from(const struct weir_ring *ring, uint32_t index)
{
    return sum_before(ring, ring->count) - sum_before(ring, index);
}

static uint64_t newest_time(const struct weir_ring *ring)
{
    return time_of(ring, ring->count - 1);
}

/* what counts */

/* A ring at a time. */
struct moment {
    const struct weir_ring *ring;
    uint64_t window_us;
    uint64_t at_us;   /* on the ring's clock                */
    uint32_t expired; /* entries that do not count any more */
    uint32_t sum;     /* units that count                   */
};

static bool counts(const struct moment *moment, uint32_t index)
{
    return moment->at_us - time_of(moment->ring, index) < moment->window_us;
}

/* The first entry that counts; where the oldest does, as it mostly will, without a search. */
static uint32_t find_counting(const struct moment *moment)
{
    uint32_t low = 0, high = moment->ring->count;
    if (high == 0 || counts(moment, 0))
        return 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (counts(moment, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static const struct weir_ring *or_empty(const struct weir_ring *ring)
{
    static const struct weir_ring empty = { .size = 0 };
    return ring == NULL ? &empty : ring;
}

/* The ring's clock is the store's and the shift, and never goes back. */
static struct moment moment_of(const struct weir_ring *ring, uint64_t window_us, uint64_t now_us)
{
    struct moment moment = { .ring = or_empty(ring), .window_us = window_us };
    moment.at_us = now_us + moment.ring->shift_us;
    if (moment.ring->count > 0 && newest_time(moment.ring) > moment.at_us)
        moment.at_us = newest_time(moment.ring);
    moment.expired = find_counting(&moment);
    moment.sum = units_from(moment.ring, moment.expired);
    return moment;
}

/* How long until an entry does not count any more. */
static uint64_t leaving_us(const struct moment *moment, uint32_t index)
{
    return time_of(moment->ring, index) + moment->window_us - moment->at_us;
}

static uint64_t reset_of(const struct moment *moment)
{
    return moment->ring->count > moment->expired ? leaving_us(moment, moment->ring->count - 1) : 0;
}

/* The first entry from which on no more than `most` units count. */
static uint32_t find_units(const struct moment *moment, uint64_t most)
{
    uint32_t low = moment->expired, high = moment->ring->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (units_from(moment->ring, middle) <= most)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* deciding */

static bool is_merged(const struct moment *moment)
{
    return moment->ring->count > moment->expired && newest_time(moment->ring) == moment->at_us;
}

/* How long until so much has left that `cost` fits beside `logged` units of just now; if it does not
 * even then, these must leave too. */
static uint64_t retry_of(const struct moment *moment, uint64_t limit, uint64_t cost,
                         uint64_t logged)
{
    if (cost + logged > limit)
        return moment->window_us;
    return leaving_us(moment, find_units(moment, limit - cost - logged) - 1);
}

/* The oldest entries that make no difference once `cost` units of just now are logged beside them:
 * the others sum up to the limit without them. */
static uint32_t useless_entries(const struct moment *moment, uint64_t limit, uint64_t cost)
{
    uint32_t most = moment->ring->count - is_merged(moment);
    uint32_t useless = cost == limit ? most : find_units(moment, limit - cost - 1) - 1;
    return useless < most ? useless : most;
}

/* Entries of one microsecond may be refusals without end; at twice the most of any limit they have
 * long made their point. */
static uint32_t units_to_log(const struct moment *moment, uint64_t cost)
{
    if (!is_merged(moment))
        return (uint32_t)cost;
    uint64_t most = 2 * WEIR_UNITS_MAX, units = units_from(moment->ring, moment->ring->count - 1);
    uint64_t room = units < most ? most - units : 0;
    return (uint32_t)(cost < room ? cost : room);
}

static bool fits(const struct weir_spend *spend, uint64_t sum)
{
    return spend->cost == 0 || sum + spend->cost <= spend->rate.limit;
}

static bool is_logged(const struct weir_spend *spend, const struct weir_answer *answer)
{
    return spend->cost > 0 && !answer->impossible && (answer->allowed || spend->logs_refusals);
}

struct weir_answer weir_sliding_log_answer(const struct weir_spend *spend, uint64_t sum,
                                           uint64_t retry_us, uint64_t reset_us)
{
    uint64_t limit = spend->rate.limit;
    if (limit == 0)
        return (struct weir_answer){ .allowed = spend->cost == 0, .impossible = spend->cost > 0 };

    struct weir_answer answer = { .impossible = spend->cost > limit };
    answer.allowed = !answer.impossible && fits(spend, sum);
    if (is_logged(spend, &answer)) {
        sum += spend->cost;
        reset_us = spend->rate.window_us;
    }
    answer.remaining = sum < limit ? limit - sum : 0;
    answer.reset_us = reset_us;
    answer.retry_us = answer.allowed || answer.impossible ? 0 : retry_us;
    return answer;
}

struct weir_ring_step weir_sliding_log_decide(const struct weir_spend *spend,
                                              const struct weir_ring *ring, uint64_t now_us)
{
    const struct weir_rate *rate = &spend->rate;
    struct moment moment = moment_of(ring, rate->window_us, now_us);
    struct weir_ring_step step = { .at_us = moment.at_us, .shift_us = moment.at_us - now_us };
    uint64_t retry_us = 0;
    bool is_refused = spend->cost <= rate->limit && !fits(spend, moment.sum);
    if (is_refused) {
        uint64_t logged = spend->logs_refusals ? spend->cost : 0;
        retry_us = retry_of(&moment, rate->limit, spend->cost, logged);
    }
    step.answer = weir_sliding_log_answer(spend, moment.sum, retry_us, reset_of(&moment));
    if (is_logged(spend, &step.answer)) {
        step.units = units_to_log(&moment, spend->cost);
        step.drops =
            is_refused ? useless_entries(&moment, rate->limit, spend->cost) : moment.expired;
    }
    step.expires_us = step.answer.reset_us > 0 ? now_us + step.answer.reset_us : 0;
    return step;
}

/* settling */

/* The entry of a time, or the count. */
static uint32_t find_time(const struct weir_ring *ring, uint64_t time_us)
{
    uint32_t low = 0, high = ring->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (time_of(ring, middle) >= time_us)
            high = middle;
        else
            low = middle + 1;
    }
    return low < ring->count && time_of(ring, low) == time_us ? low : ring->count;
}

struct weir_ring_settlement weir_sliding_log_settle(const struct weir_spend *spend,
                                                    const struct weir_ring *ring, uint64_t now_us)
{
    struct moment moment = moment_of(ring, spend->rate.window_us, now_us);
    struct weir_ring_settlement settlement = { .shift_us = moment.at_us - now_us };
    settlement.index = find_time(moment.ring, spend->decided_us + settlement.shift_us);
    if (settlement.index == moment.ring->count || settlement.index < moment.expired)
        return settlement;
    uint64_t units =
        units_from(moment.ring, settlement.index) - units_from(moment.ring, settlement.index + 1);
    uint64_t left = moment.sum < spend->rate.limit ? spend->rate.limit - moment.sum : 0;
    uint64_t settled = weir_units_settled(spend, units, units + left);
    settlement.changes = settled != units;
    settlement.more = (uint32_t)(settled - units);
    return settlement;
}

/* keeping */

void weir_ring_init(struct weir_ring *ring, uint32_t size)
{
    *ring = (struct weir_ring){ .size = size };
}

size_t weir_ring_bytes(uint32_t size)
{
    return sizeof(struct weir_ring) + size * sizeof(struct weir_ring_entry);
}

static void append(struct weir_ring *ring, uint64_t time_us, uint32_t units)
{
    uint32_t sum = sum_before(ring, ring->count) + units;
    ring->entries[place_of(ring, ring->count)] = (struct weir_ring_entry){
        .time_low = (uint32_t)time_us,
        .time_high = (uint32_t)(time_us >> 32),
        .sum = sum,
    };
    ring->count++;
}

static void drop(struct weir_ring *ring, uint32_t drops)
{
    ring->before = sum_before(ring, drops);
    ring->first = drops == ring->count ? 0 : place_of(ring, drops);
    ring->count -= drops;
}

/* Whether what is logged joins the newest entry, which is of the same microsecond. */
static bool joins(const struct weir_ring *ring, const struct weir_ring_step *step)
{
    return ring->count > step->drops && newest_time(ring) == step->at_us;
}

bool weir_ring_is_changed(const struct weir_ring *ring, const struct weir_ring_step *step)
{
    return step->units > 0 || step->shift_us != or_empty(ring)->shift_us;
}

uint32_t weir_ring_count_after(const struct weir_ring *ring, const struct weir_ring_step *step)
{
    ring = or_empty(ring);
    bool adds = step->units > 0 && !joins(ring, step);
    return ring->count - step->drops + adds;
}

void weir_ring_apply(struct weir_ring *ring, const struct weir_ring_step *step)
{
    bool merges = joins(ring, step);
    drop(ring, step->drops);
    ring->shift_us = step->shift_us;
    if (step->units == 0)
        return;
    if (merges)
        ring->entries[place_of(ring, ring->count - 1)].sum += step->units;
    else
        append(ring, step->at_us, step->units);
}

static bool is_idle(const struct weir_ring *ring, uint32_t index)
{
    return index + 1 < ring->count && sum_before(ring, index) == sum_before(ring, index + 1);
}

uint32_t weir_ring_idle(const struct weir_ring *ring, uint32_t drops)
{
    uint32_t idle = 0;
    for (uint32_t i = drops; i < ring->count; i++)
        idle += is_idle(ring, i);
    return idle;
}

void weir_ring_copy(struct weir_ring *to, const struct weir_ring *from, uint32_t drops,
                    bool with_idle)
{
    weir_ring_init(to, to->size);
    to->before = sum_before(from, drops);
    to->shift_us = from->shift_us;
    for (uint32_t i = drops; i < from->count; i++)
        if (with_idle || !is_idle(from, i))
            append(to, time_of(from, i), sum_before(from, i + 1) - sum_before(from, i));
}

void weir_ring_settle(struct weir_ring *ring, const struct weir_ring_settlement *settlement)
{
    ring->shift_us = settlement->shift_us;
    for (uint32_t i = settlement->index; i < ring->count; i++)
        ring->entries[place_of(ring, i)].sum += settlement->more;
}
