/* Leases: units that a process has taken from the store ahead of their use. All of this is arithmetic
 * on one key in one process; limit/leases.h keeps the keys.
 *
 * What is held must be worth nothing once the store has it back by itself, or both together would let
 * more through than the limit does. In a window that is when it ends. Where units are earned one by
 * one, each interval T = window / limit, a process keeps an arrival time of its own: a block of n taken
 * at t moves it to `end` = max(end, t) + nT, and at any time at most (end - now) / T units are held.
 * docs/leases.md has the proof that this never admits more than the limit, whatever other processes
 * take, give back, or lose.
 *
 * Times named *_us are of a local clock that only goes forward, those named store_* of the store's. */
#ifndef WEIR_LIMIT_LEASE_H
#define WEIR_LIMIT_LEASE_H

#include "limit/algorithm.h"
#include "policy/lease_units.h"

/* What a process holds of one key, and what the store said of it last. All zero: nothing. */
struct weir_lease_block {
    uint64_t end_us;
    uint64_t held;
    uint64_t credit_us; /* came back, and is less than a unit yet */
    uint64_t lapsed;    /* units that were held when the store had them back by itself; a count */

    uint64_t asked_us, told_us; /* when the store was asked last, and when it answered; 0: never */
    uint64_t store_us;          /* when it decided                                                */
    uint64_t store_first_us;    /* windows: when it decided first in the window that it told of   */
    uint64_t remaining;         /* that it had then                                               */
    uint64_t reset_us;          /* from then                                                      */
    bool was_refused; /* then; maybe as somebody has blocked the key, until reset_us     */
};

/* Drops what the store has back by itself. */
void weir_lease_lapse(const struct weir_spend *spend, struct weir_lease_block *block,
                      uint64_t now_us);

/* What the store has said about this key. */
struct weir_lease_news {
    const struct weir_answer *answer; /* of it */
    uint64_t units;                   /* that were asked for, if they were granted; else 0 */
    uint64_t at_once;                 /* of these: spent by who waited for them already    */
    uint64_t store_us, asked_us, told_us;
};

void weir_lease_learn(const struct weir_spend *spend, struct weir_lease_block *block,
                      const struct weir_lease_news *news);

/* Units that the store had, by what it said last and what was earned since. */
uint64_t weir_lease_spare(const struct weir_spend *spend, const struct weir_lease_block *block,
                          uint64_t now_us);

/* Adds what is held to an answer in which it counts as spent. */
void weir_lease_count_held(const struct weir_spend *spend, const struct weir_lease_block *block,
                           struct weir_answer *answer);

/* What a request is told that was let through here, or only looks: what is held counts as unspent. */
struct weir_answer weir_lease_answer(const struct weir_spend *spend,
                                     const struct weir_lease_block *block, uint64_t now_us);

/* When that is, by the store's clock; never later than it is. */
uint64_t weir_lease_store_us(const struct weir_spend *spend, const struct weir_lease_block *block,
                             uint64_t now_us);

/* A request that was let through here costs less than it did: takes back what time has not earned back
 * since. False: these units are not of this block, or of another window, and the store has to be told. */
bool weir_lease_return(const struct weir_spend *settled, struct weir_lease_block *block,
                       uint64_t now_us);

/* A request costs more than it did, and the store is told: it will have so much less than it said. */
void weir_lease_charge(const struct weir_spend *settled, struct weir_lease_block *block);

/* Bounds the times of a settlement, which the store is to carry out, by what the process that has
 * decided can answer for: it knew what it spent itself, not what others did. */
void weir_lease_bound_settlement(struct weir_spend *settled);

/* Takes `units` out of the block, which holds them; `settled` gives them back to the store. */
void weir_lease_give_up(const struct weir_spend *spend, struct weir_lease_block *block,
                        uint64_t units, struct weir_spend *settled);

/* how many */

/* What is asked for of one key. All zero: nothing yet. */
struct weir_lease_demand {
    uint64_t since_us;
    uint64_t requests, units;             /* since then              */
    uint64_t requests_per_s, units_per_s; /* in the time before that */
};

/* Somebody asks for so many. */
void weir_lease_note(struct weir_lease_demand *demand, uint64_t units, uint64_t now_us);

/* The units of a block: the batch; or what the key needs in 50 ms, where units are earned one by one
 * not less than are earned in that time (what is not spent by then is gone), within the share, and one
 * for a quiet key. Pure. */
uint64_t weir_lease_size(const struct weir_spend *spend, unsigned instances,
                         const struct weir_lease_demand *demand);

/* How much the next call asks for: a block, less where the store has little left, but as much as
 * waits already where it has that, and never less than the first in line needs. Pure. */
uint64_t weir_lease_ask(uint64_t block_units, uint64_t spare, uint64_t waiting, uint64_t first);

#endif
