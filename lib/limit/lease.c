#include "limit/lease.h"

#include "base/order.h"
#include "limit/gcra.h"
#include "limit/span.h"

#define MEASURE_US    UINT64_C(50000)
#define BLOCKS_PER_S  (UINT64_C(1000000) / MEASURE_US)
#define WORTH_A_BLOCK 2 /* requests in that time; with fewer each is asked for */

static uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

static bool is_window(const struct weir_spend *spend)
{
    return spend->algorithm == WEIR_FIXED_WINDOW;
}

/* whole units in a time, rounded down; the time they take, rounded down and up */

static uint64_t units_in(const struct weir_rate *rate, uint64_t time_us)
{
    if (rate->limit == 0)
        return 0;
    weir_wide units = (weir_wide)time_us * rate->parts / weir_interval_parts(rate);
    return units < WEIR_UNITS_MAX ? (uint64_t)units : WEIR_UNITS_MAX;
}

static uint64_t span_us(const struct weir_rate *rate, uint64_t units)
{
    return weir_gcra_span(rate, units).us;
}

static uint64_t span_up_us(const struct weir_rate *rate, uint64_t units)
{
    struct weir_span span = weir_gcra_span(rate, units);
    return span.us + (span.part > 0);
}

/* what is held */

static void keep_only(struct weir_lease_block *block, uint64_t units)
{
    uint64_t kept = weir_smaller(block->held, units);
    block->lapsed += block->held - kept;
    block->held = kept;
}

void weir_lease_lapse(const struct weir_spend *spend, struct weir_lease_block *block,
                      uint64_t now_us)
{
    if (block->held == 0)
        return;
    uint64_t left_us = less(block->end_us, now_us);
    if (is_window(spend)) {
        if (left_us == 0)
            keep_only(block, 0);
        return;
    }
    /* Mostly there is time enough, which is quickly seen. */
    if (left_us / (spend->rate.interval_us + 1) < block->held)
        keep_only(block, units_in(&spend->rate, left_us));
}

static void add(const struct weir_spend *spend, struct weir_lease_block *block,
                const struct weir_lease_news *news)
{
    if (is_window(spend)) {
        uint64_t end_us = news->asked_us + news->answer->reset_us;
        block->end_us = block->held == 0 ? end_us : weir_larger(block->end_us, end_us);
    } else {
        block->end_us =
            weir_larger(block->end_us, news->asked_us) + span_us(&spend->rate, news->units);
    }
    block->held += news->units - news->at_once;
}

/* The store's clock says which window it is, and ours may be a little slower. */
static void turn_window(struct weir_lease_block *block, uint64_t store_us)
{
    if (store_us < block->store_us + block->reset_us)
        return;
    keep_only(block, 0);
    block->store_first_us = store_us;
}

void weir_lease_learn(const struct weir_spend *spend, struct weir_lease_block *block,
                      const struct weir_lease_news *news)
{
    weir_lease_lapse(spend, block, news->told_us);
    if (is_window(spend))
        turn_window(block, news->store_us);
    if (news->units > 0)
        add(spend, block, news);
    weir_lease_lapse(spend, block, news->told_us);
    block->asked_us = news->asked_us;
    block->told_us = news->told_us;
    block->store_us = news->store_us;
    block->remaining = news->answer->remaining;
    block->reset_us = news->answer->reset_us;
    block->was_refused = !news->answer->allowed;
}

/* what the store has */

static uint64_t since_told(const struct weir_lease_block *block, uint64_t now_us)
{
    return less(now_us, block->told_us);
}

/* Until all of the limit would be there, were nothing held. */
static uint64_t reset_at(const struct weir_lease_block *block, uint64_t now_us)
{
    return less(block->reset_us, since_told(block, now_us));
}

uint64_t weir_lease_spare(const struct weir_spend *spend, const struct weir_lease_block *block,
                          uint64_t now_us)
{
    const struct weir_rate *rate = &spend->rate;
    uint64_t most = weir_capacity(spend), reset_us = reset_at(block, now_us);
    if (most == 0)
        return 0;
    if (is_window(spend))
        return reset_us == 0 ? most : block->remaining;
    /* Two ways to count, and each loses a little by rounding. Of a key that is blocked the second one
     * knows nothing. */
    uint64_t earned = block->remaining + units_in(rate, since_told(block, now_us));
    if (block->was_refused)
        return weir_smaller(earned, most);
    uint64_t free_us = less(span_us(rate, rate->burst), reset_us);
    return weir_smaller(weir_larger(earned, units_in(rate, free_us)), most);
}

void weir_lease_count_held(const struct weir_spend *spend, const struct weir_lease_block *block,
                           struct weir_answer *answer)
{
    answer->remaining = weir_smaller(answer->remaining + block->held, weir_capacity(spend));
    if (!is_window(spend) && spend->rate.limit > 0)
        answer->reset_us = less(answer->reset_us, span_us(&spend->rate, block->held));
}

struct weir_answer weir_lease_answer(const struct weir_spend *spend,
                                     const struct weir_lease_block *block, uint64_t now_us)
{
    struct weir_answer answer = {
        .allowed = true,
        .remaining = weir_lease_spare(spend, block, now_us),
        .reset_us = reset_at(block, now_us),
    };
    weir_lease_count_held(spend, block, &answer);
    return answer;
}

uint64_t weir_lease_store_us(const struct weir_spend *spend, const struct weir_lease_block *block,
                             uint64_t now_us)
{
    uint64_t since_us = since_told(block, now_us);
    /* In the window that its units are of, at any rate. */
    if (is_window(spend) && block->reset_us > 0 && since_us >= block->reset_us)
        since_us = block->reset_us - 1;
    return block->store_us + since_us;
}

/* giving back */

static uint64_t given_back(const struct weir_spend *settled)
{
    return less(settled->reserved, settled->cost);
}

/* Of a unit that comes back time has earned a little, always; what is left adds up to units again. False:
 * it was not taken from here. */
static bool return_time(const struct weir_rate *rate, struct weir_lease_block *block,
                        uint64_t time_us, uint64_t now_us)
{
    uint64_t room_us = less(less(block->end_us, now_us), span_up_us(rate, block->held));
    if (time_us > room_us)
        return false;
    time_us = weir_smaller(block->credit_us + time_us, room_us);
    uint64_t units = units_in(rate, time_us);
    block->held += units;
    block->credit_us = less(time_us, span_up_us(rate, units));
    return true;
}

static bool is_of_window(const struct weir_lease_block *block, uint64_t decided_us)
{
    return decided_us >= block->store_first_us && decided_us < block->store_us + block->reset_us;
}

static bool return_to_window(const struct weir_spend *settled, struct weir_lease_block *block,
                             uint64_t now_us)
{
    bool is_same = now_us < block->end_us && is_of_window(block, settled->decided_us);
    if (is_same)
        block->held += given_back(settled);
    return is_same;
}

bool weir_lease_return(const struct weir_spend *settled, struct weir_lease_block *block,
                       uint64_t now_us)
{
    const struct weir_rate *rate = &settled->rate;
    weir_lease_lapse(settled, block, now_us);
    if (is_window(settled))
        return return_to_window(settled, block, now_us);
    /* The store's time is guessed too early where the request was decided, and too late here. */
    uint64_t store_us = block->store_us + less(now_us, block->asked_us);
    uint64_t since_us = less(store_us, settled->decided_us);
    uint64_t left_us = less(span_us(rate, settled->reserved), since_us);
    return return_time(rate, block, weir_smaller(span_us(rate, given_back(settled)), left_us),
                       now_us);
}

void weir_lease_charge(const struct weir_spend *settled, struct weir_lease_block *block)
{
    uint64_t more = weir_smaller(less(settled->cost, settled->reserved), block->remaining);
    if (is_window(settled) && !is_of_window(block, settled->decided_us))
        return;
    block->remaining -= more;
    if (!is_window(settled))
        block->reset_us += span_us(&settled->rate, more);
}

void weir_lease_bound_settlement(struct weir_spend *settled)
{
    if (is_window(settled) || settled->cost >= settled->reserved)
        return;
    uint64_t own_us = settled->decided_us + span_us(&settled->rate, settled->reserved);
    settled->full_us = weir_smaller(settled->full_us, own_us);
}

void weir_lease_give_up(const struct weir_spend *spend, struct weir_lease_block *block,
                        uint64_t units, struct weir_spend *settled)
{
    *settled = *spend;
    settled->reserved = units;
    settled->cost = 0;
    settled->decided_us = block->store_us;
    settled->full_us = block->store_us + block->reset_us;
    block->remaining += units;
    block->credit_us = 0;
    if (!is_window(spend)) {
        uint64_t given_us = span_up_us(&spend->rate, units);
        block->end_us = less(block->end_us, given_us);
        block->reset_us = less(block->reset_us, given_us);
    }
    block->held -= units;
}

/* how many */

void weir_lease_note(struct weir_lease_demand *demand, uint64_t units, uint64_t now_us)
{
    uint64_t elapsed_us = less(now_us, demand->since_us);
    if (elapsed_us >= MEASURE_US) {
        uint64_t most = UINT64_MAX / 1000000;
        demand->requests_per_s = weir_smaller(demand->requests, most) * 1000000 / elapsed_us;
        demand->units_per_s = weir_smaller(demand->units, most) * 1000000 / elapsed_us;
        demand->since_us = now_us;
        demand->requests = demand->units = 0;
    }
    demand->requests++;
    demand->units += units;
}

uint64_t weir_lease_size(const struct weir_spend *spend, unsigned instances,
                         const struct weir_lease_demand *demand)
{
    uint64_t most = weir_lease_most_units(spend->lease, weir_capacity(spend), instances);
    if (spend->lease->batch > 0)
        return most;
    if (weir_larger(demand->requests_per_s / BLOCKS_PER_S, demand->requests) < WORTH_A_BLOCK)
        return 1;
    uint64_t units = weir_larger(demand->units_per_s / BLOCKS_PER_S, demand->units);
    if (!is_window(spend))
        units = weir_larger(units, units_in(&spend->rate, MEASURE_US));
    return weir_smaller(units, most);
}

uint64_t weir_lease_ask(uint64_t block_units, uint64_t spare, uint64_t waiting, uint64_t first)
{
    /* Half of what is left stays for the other processes, so that the last units are not stranded. */
    uint64_t units = weir_smaller(block_units, spare / 2);
    return weir_larger(weir_larger(units, weir_smaller(waiting, spare)), first);
}
