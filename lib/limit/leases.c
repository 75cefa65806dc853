#include "limit/leases.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "limit/leases_internal.h"

/* finding the keys of a check */

/* Where the limits of a check are; entries that are not there are NULL. */
struct located {
    uint64_t hashes[WEIR_CHECK_LIMITS];
    struct weir_lease_entry *entries[WEIR_CHECK_LIMITS];
    struct weir_lease_shard *shards[WEIR_CHECK_LIMITS]; /* each once, in the order of locking */
    size_t shard_count;
};

static void add_shard(struct located *located, struct weir_lease_shard *shard)
{
    size_t at = 0;
    while (at < located->shard_count && located->shards[at] < shard)
        at++;
    if (at < located->shard_count && located->shards[at] == shard)
        return;
    for (size_t i = located->shard_count++; i > at; i--)
        located->shards[i] = located->shards[i - 1];
    located->shards[at] = shard;
}

static void lock(struct weir_leases *leases, const struct weir_check *check,
                 struct located *located)
{
    located->shard_count = 0;
    for (size_t i = 0; i < check->count; i++) {
        located->hashes[i] = weir_lease_hash(leases, &check->spends[i]);
        add_shard(located, weir_lease_shard_of(leases, located->hashes[i]));
    }
    for (size_t i = 0; i < located->shard_count; i++)
        pthread_mutex_lock(&located->shards[i]->mutex);
}

static void unlock(const struct located *located)
{
    for (size_t i = located->shard_count; i > 0; i--)
        pthread_mutex_unlock(&located->shards[i - 1]->mutex);
}

static struct weir_lease_shard *shard_at(struct weir_leases *leases, const struct located *located,
                                         size_t index)
{
    return weir_lease_shard_of(leases, located->hashes[index]);
}

/* Finds the entry of a spend, and locks its shard. */
static struct weir_lease_entry *lock_one(struct weir_leases *leases,
                                         const struct weir_spend *wanted,
                                         struct weir_lease_shard **shard)
{
    uint64_t hash = weir_lease_hash(leases, wanted);
    *shard = weir_lease_shard_of(leases, hash);
    pthread_mutex_lock(&(*shard)->mutex);
    return weir_lease_find(*shard, hash, wanted);
}

/* Makes room by what was asked for least lately. */
static void evict(struct weir_leases *leases, struct weir_lease_shard *shard,
                  struct weir_lease_calls *calls)
{
    struct weir_lease_entry *entry = shard->oldest, *newer;
    for (; entry != NULL && shard->bytes > leases->shard_bytes; entry = newer) {
        newer = entry->newer;
        if (entry->call != NULL || entry->is_kept)
            continue;
        weir_lease_call_back(leases, shard, entry, calls);
        weir_lease_remove(shard, entry);
        shard->numbers.evicted++;
    }
}

/* Another policy may have come since. Its calendar is another one, even if it says the same. */
static bool has_numbers_of(const struct weir_lease_entry *entry, const struct weir_spend *wanted)
{
    return entry->spend.calendar == wanted->calendar
           && memcmp(&entry->spend.rate, &wanted->rate, sizeof wanted->rate) == 0;
}

/* What was taken by other numbers goes back by them. */
static void renew(struct weir_leases *leases, struct weir_lease_shard *shard,
                  struct weir_lease_entry *entry, const struct weir_spend *wanted,
                  struct weir_lease_calls *calls)
{
    if (!has_numbers_of(entry, wanted))
        weir_lease_call_back(leases, shard, entry, calls);
    weir_lease_renew(entry, wanted);
}

/* Finds or makes all entries; false: memory ran out. */
static bool find_or_make(struct weir_leases *leases, const struct weir_check *check,
                         struct located *located, uint64_t now_us, struct weir_lease_calls *calls)
{
    bool is_whole = true;
    for (size_t i = 0; i < check->count; i++) {
        struct weir_lease_shard *shard = shard_at(leases, located, i);
        uint64_t hash = located->hashes[i];
        located->entries[i] = weir_lease_find(shard, hash, &check->spends[i]);
        if (located->entries[i] == NULL)
            located->entries[i] = weir_lease_make(shard, hash, &check->spends[i], now_us);
        else
            renew(leases, shard, located->entries[i], &check->spends[i], calls);
        if (located->entries[i] != NULL)
            located->entries[i]->is_kept = true;
        is_whole = is_whole && located->entries[i] != NULL;
        evict(leases, shard, calls);
    }
    for (size_t i = 0; i < check->count; i++)
        if (located->entries[i] != NULL)
            located->entries[i]->is_kept = false;
    return is_whole;
}

/* looking at what is held */

static bool is_fresh(const struct weir_lease_entry *entry, uint64_t now_us)
{
    return entry->block.told_us > 0 && now_us < entry->block.told_us + WEIR_LEASE_HOLD_US;
}

static bool has_enough(struct weir_lease_entry *entry, uint64_t cost, uint64_t now_us)
{
    if (!is_fresh(entry, now_us))
        return false;
    weir_lease_lapse(&entry->spend, &entry->block, now_us);
    return cost <= entry->block.held;
}

/* Each limit was decided by the clock of the store as it knows it; those in `refused` have their answer.
 * The blocks may be copies, which needs no lock: this takes longer than all else. */
static void answer_all(struct weir_check *check, const struct weir_lease_block *blocks,
                       unsigned refused, uint64_t now_us)
{
    uint64_t store_us[WEIR_CHECK_LIMITS];
    check->now_us = UINT64_MAX;
    for (size_t i = 0; i < check->count; i++) {
        const struct weir_spend *spend = &check->spends[i];
        if ((refused & 1u << i) == 0)
            check->answers[i] = weir_lease_answer(spend, &blocks[i], now_us);
        store_us[i] = weir_lease_store_us(spend, &blocks[i], now_us);
        check->now_us = weir_earlier(check->now_us, store_us[i]);
    }
    for (size_t i = 0; i < check->count; i++)
        check->answers[i].after_us = store_us[i] - check->now_us;
}

static void copy_blocks(const struct weir_check *check, const struct located *located,
                        struct weir_lease_block *blocks)
{
    for (size_t i = 0; i < check->count; i++)
        blocks[i] = located->entries[i]->block;
}

/* The next block, before this one is empty. */
static void refill_early(struct weir_leases *leases, struct weir_lease_shard *shard,
                         struct weir_lease_entry *entry, uint64_t now_us,
                         struct weir_lease_calls *calls)
{
    if (entry->block.held > entry->low_water || entry->call != NULL || now_us < entry->not_early_us)
        return;
    pthread_mutex_lock(&leases->mutex);
    weir_lease_call_for(leases, shard, entry, now_us, true, calls);
    pthread_mutex_unlock(&leases->mutex);
}

/* deciding at once */

static bool looks(const struct weir_check *check)
{
    for (size_t i = 0; i < check->count; i++)
        if (check->spends[i].cost > 0)
            return false;
    return true;
}

static bool is_leased(const struct weir_check *check)
{
    for (size_t i = 0; i < check->count; i++)
        if (check->spends[i].lease == NULL)
            return false;
    return check->operation == WEIR_SPEND && check->count > 0;
}

/* What is known here of a key that was refused may be a block that somebody put on it, of which the store
 * alone knows what to tell who looks. */
static bool is_unsure(const struct weir_lease_entry *entry, uint64_t cost)
{
    return cost == 0 && entry->block.was_refused;
}

static bool all_have_enough(struct weir_leases *leases, const struct weir_check *check,
                            struct located *located, uint64_t now_us)
{
    for (size_t i = 0; i < check->count; i++) {
        const struct weir_spend *wanted = &check->spends[i];
        located->entries[i] =
            weir_lease_find(shard_at(leases, located, i), located->hashes[i], wanted);
        if (located->entries[i] == NULL || !has_numbers_of(located->entries[i], wanted)
            || !has_enough(located->entries[i], wanted->cost, now_us)
            || is_unsure(located->entries[i], wanted->cost))
            return false;
    }
    return true;
}

/* All but those in `granted`, whose units are set apart already. */
static void spend_all(struct weir_leases *leases, const struct weir_check *check,
                      const struct located *located, unsigned granted, uint64_t now_us,
                      struct weir_lease_calls *calls)
{
    for (size_t i = 0; i < check->count; i++) {
        struct weir_lease_entry *entry = located->entries[i];
        if (check->spends[i].cost == 0 || (granted & 1u << i) != 0)
            continue;
        entry->block.held -= check->spends[i].cost;
        refill_early(leases, shard_at(leases, located, i), entry, now_us, calls);
    }
}

static void note_demand(const struct weir_check *check, const struct located *located,
                        uint64_t now_us)
{
    for (size_t i = 0; i < check->count; i++) {
        weir_lease_note(&located->entries[i]->demand, check->spends[i].cost, now_us);
        located->entries[i]->used_us = now_us;
    }
}

bool weir_leases_decide(struct weir_leases *leases, struct weir_check *check)
{
    if (leases == NULL || !is_leased(check))
        return false;
    struct located located;
    struct weir_lease_calls calls = { NULL, NULL };
    uint64_t now_us = weir_leases_now(leases);
    bool is_look = looks(check);
    struct weir_lease_block blocks[WEIR_CHECK_LIMITS];
    lock(leases, check, &located);
    bool is_decided = all_have_enough(leases, check, &located, now_us);
    if (is_decided) {
        if (!is_look)
            note_demand(check, &located, now_us);
        spend_all(leases, check, &located, 0, now_us, &calls);
        copy_blocks(check, &located, blocks);
        shard_at(leases, &located, 0)->numbers.decided++;
    }
    unlock(&located);
    if (!is_decided)
        return false;
    weir_lease_calls_submit(leases, &calls);
    answer_all(check, blocks, 0, now_us);
    check->result = WEIR_STORE_ANSWERED;
    return true;
}

void weir_leases_count_held(struct weir_leases *leases, struct weir_check *check)
{
    if (leases == NULL || check->result != WEIR_STORE_ANSWERED || !is_leased(check)
        || !looks(check))
        return;
    struct located located;
    uint64_t now_us = weir_leases_now(leases);
    lock(leases, check, &located);
    for (size_t i = 0; i < check->count; i++) {
        struct weir_lease_entry *entry =
            weir_lease_find(shard_at(leases, &located, i), located.hashes[i], &check->spends[i]);
        if (entry == NULL)
            continue;
        weir_lease_lapse(&entry->spend, &entry->block, now_us);
        weir_lease_count_held(&check->spends[i], &entry->block, &check->answers[i]);
    }
    unlock(&located);
}

/* who has to wait */

/* Whether a block would be more than the request itself needs, or one is there already. */
static bool is_worth_it(const struct weir_leases *leases, const struct weir_lease_entry *entry,
                        uint64_t cost)
{
    return entry->block.held > 0 || entry->call != NULL
           || weir_lease_size(&entry->spend, leases->instances, &entry->demand) > cost;
}

/* A quiet key is asked for where the request stands, which is quicker than to wait in a line; and several
 * of them cost one call together, and one each if they are leased. */
static bool is_worth_leasing(const struct weir_leases *leases, const struct weir_check *check,
                             const struct located *located)
{
    bool is_worth = false;
    for (size_t i = 0; i < check->count && !is_worth; i++)
        is_worth = is_worth_it(leases, located->entries[i], check->spends[i].cost);
    return is_worth;
}

bool weir_leases_take(struct weir_leases *leases, const struct weir_check *check)
{
    if (leases == NULL || !is_leased(check) || looks(check))
        return false;
    struct located located;
    struct weir_lease_calls calls = { NULL, NULL };
    uint64_t now_us = weir_leases_now(leases);
    lock(leases, check, &located);
    bool is_taken = find_or_make(leases, check, &located, now_us, &calls);
    if (is_taken) {
        note_demand(check, &located, now_us);
        is_taken = is_worth_leasing(leases, check, &located);
    }
    unlock(&located);
    pthread_mutex_lock(&leases->mutex);
    weir_lease_plan_wake(leases, now_us + WEIR_LEASE_TICK_US);
    pthread_mutex_unlock(&leases->mutex);
    weir_lease_calls_submit(leases, &calls);
    return is_taken;
}

/* The first limit that lacks units; check->count: none does. */
static size_t first_lacking(const struct weir_lease_waiter *waiter, const struct located *located,
                            uint64_t now_us)
{
    const struct weir_check *check = waiter->check;
    size_t at = 0;
    while (at < check->count
           && (((waiter->refused | waiter->granted) & 1u << at) != 0
               || has_enough(located->entries[at], check->spends[at].cost, now_us)))
        at++;
    return at;
}

/* What is stale goes back first: the store is asked for all that is to be known. */
static void give_back_stale(struct weir_leases *leases, struct weir_lease_shard *shard,
                            struct weir_lease_entry *entry, uint64_t now_us,
                            struct weir_lease_calls *calls)
{
    if (!is_fresh(entry, now_us) && entry->call == NULL)
        weir_lease_call_back(leases, shard, entry, calls);
}

/* The limits behind the one that is waited for will be needed, too. */
static void call_for_others(struct weir_leases *leases, const struct weir_lease_waiter *waiter,
                            const struct located *located, size_t at, uint64_t now_us,
                            struct weir_lease_calls *calls)
{
    const struct weir_check *check = waiter->check;
    for (size_t i = at + 1; i < check->count; i++) {
        struct weir_lease_entry *entry = located->entries[i];
        struct weir_lease_shard *shard = shard_at(leases, located, i);
        if (entry->call != NULL || (waiter->granted & 1u << i) != 0
            || has_enough(entry, check->spends[i].cost, now_us))
            continue;
        give_back_stale(leases, shard, entry, now_us, calls);
        pthread_mutex_lock(&leases->mutex);
        weir_lease_call_for(leases, shard, entry, now_us, true, calls);
        pthread_mutex_unlock(&leases->mutex);
    }
}

/* False: memory ran out. Else the waiter belongs to the line. */
static bool wait_for(struct weir_leases *leases, struct weir_lease_waiter *waiter,
                     const struct located *located, size_t at, uint64_t now_us,
                     struct weir_lease_calls *calls)
{
    struct weir_lease_entry *entry = located->entries[at];
    struct weir_lease_shard *shard = shard_at(leases, located, at);
    give_back_stale(leases, shard, entry, now_us, calls);
    call_for_others(leases, waiter, located, at, now_us, calls);
    pthread_mutex_lock(&leases->mutex);
    weir_lease_enter_line(entry, waiter, at);
    bool is_called =
        entry->call != NULL || weir_lease_call_for(leases, shard, entry, now_us, false, calls);
    if (!is_called)
        weir_lease_leave_line(waiter);
    weir_lease_plan_wake(leases, leases->waiters.first->deadline_us);
    pthread_cond_broadcast(&leases->ended); /* who cancels it waits for it to be in a line */
    pthread_mutex_unlock(&leases->mutex);
    return is_called;
}

/* As if they had never been set apart, but for what time has earned back since. */
static void return_units(struct weir_lease_entry *entry, struct weir_lease_waiter *waiter,
                         size_t at, uint64_t now_us)
{
    if ((waiter->granted & 1u << at) == 0)
        return;
    waiter->granted &= ~(1u << at);
    struct weir_spend settled = entry->spend;
    settled.reserved = waiter->check->spends[at].cost;
    settled.cost = 0;
    settled.decided_us = waiter->decided_us[at];
    weir_lease_return(&settled, &entry->block, now_us);
}

void weir_lease_return_granted(struct weir_leases *leases, struct weir_lease_waiter *waiter)
{
    for (size_t i = 0; i < waiter->check->count; i++) {
        struct weir_lease_shard *shard;
        struct weir_lease_entry *entry = lock_one(leases, &waiter->check->spends[i], &shard);
        struct weir_lease_calls calls = { NULL, NULL };
        if (entry != NULL) {
            return_units(entry, waiter, i, weir_leases_now(leases));
            weir_lease_call_back_excess(leases, shard, entry, &calls);
        }
        pthread_mutex_unlock(&shard->mutex);
        weir_lease_calls_submit(leases, &calls);
    }
}

/* An entry may know nothing any more, if it was reset or made anew while the waiter stood elsewhere. */
static void copy_news(const struct weir_lease_waiter *waiter, const struct located *located,
                      uint64_t now_us, struct weir_lease_block *blocks)
{
    copy_blocks(waiter->check, located, blocks);
    for (size_t i = 0; i < waiter->check->count; i++) {
        if (blocks[i].told_us > 0)
            continue;
        blocks[i].told_us = now_us;
        blocks[i].store_us = waiter->decided_us[i];
    }
}

enum served { IN_LINE, HAS_ENDED, LACKS_MEMORY };

static enum served look_at(struct weir_leases *leases, struct weir_lease_waiter *waiter,
                           struct located *located, struct weir_lease_calls *calls)
{
    struct weir_check *check = waiter->check;
    uint64_t now_us = weir_leases_now(leases);
    if (!find_or_make(leases, check, located, now_us, calls))
        return LACKS_MEMORY;
    size_t at = first_lacking(waiter, located, now_us);
    if (at < check->count)
        return wait_for(leases, waiter, located, at, now_us, calls) ? IN_LINE : LACKS_MEMORY;
    if (waiter->refused == 0)
        spend_all(leases, check, located, waiter->granted, now_us, calls);
    else
        for (size_t i = 0; i < check->count; i++) {
            return_units(located->entries[i], waiter, i, now_us);
            weir_lease_call_back_excess(leases, shard_at(leases, located, i), located->entries[i],
                                        calls);
        }
    struct weir_lease_block blocks[WEIR_CHECK_LIMITS];
    copy_news(waiter, located, now_us, blocks);
    answer_all(check, blocks, waiter->refused, now_us);
    return HAS_ENDED;
}

void weir_lease_serve(struct weir_leases *leases, struct weir_lease_waiter *waiter)
{
    struct located located;
    struct weir_lease_calls calls = { NULL, NULL };
    lock(leases, waiter->check, &located);
    enum served served = look_at(leases, waiter, &located, &calls);
    unlock(&located);
    weir_lease_calls_submit(leases, &calls);
    switch (served) {
    case IN_LINE: /* and others may have ended it by now */
        return;
    case HAS_ENDED:
        weir_lease_end(leases, waiter, WEIR_STORE_ANSWERED, "");
        return;
    case LACKS_MEMORY:
        weir_lease_end(leases, waiter, WEIR_STORE_UNAVAILABLE, "out of memory");
        return;
    }
}

/* the line of an entry */

static void pass_on(struct weir_lease_waiter *waiter, struct weir_lease_parted *parted)
{
    struct weir_lease_waiters *list =
        waiter->check->count > 1 || waiter->refused != 0 ? &parted->others : &parted->served;
    weir_lease_leave_line(waiter);
    *(list->last == NULL ? &list->first : &list->last->next) = waiter;
    list->last = waiter;
}

static uint64_t cost_of(const struct weir_lease_waiter *waiter)
{
    return waiter->check->spends[waiter->at].cost;
}

static void grant(struct weir_lease_waiter *waiter, uint64_t store_us,
                  struct weir_lease_parted *parted)
{
    waiter->granted |= 1u << waiter->at;
    waiter->decided_us[waiter->at] = store_us;
    pass_on(waiter, parted);
}

uint64_t weir_lease_grant_line(struct weir_lease_entry *entry, const struct weir_lease_grant *given,
                               struct weir_lease_parted *parted)
{
    uint64_t granted = 0;
    while (entry->first != NULL && entry->first->place <= given->last_place
           && cost_of(entry->first) <= given->units - granted) {
        granted += cost_of(entry->first);
        grant(entry->first, given->store_us, parted);
    }
    return granted;
}

void weir_lease_serve_line(struct weir_lease_entry *entry, uint64_t now_us,
                           struct weir_lease_parted *parted)
{
    while (entry->first != NULL && has_enough(entry, cost_of(entry->first), now_us)) {
        entry->block.held -= cost_of(entry->first);
        grant(entry->first, weir_lease_store_us(&entry->spend, &entry->block, now_us), parted);
    }
    struct weir_lease_waiter *served = parted->served.first;
    for (; served != NULL; served = served->next)
        answer_all(served->check, &entry->block, 0, now_us);
}

void weir_lease_refuse_line(struct weir_lease_entry *entry, const struct weir_lease_grant *refused,
                            const struct weir_answer *refusal, struct weir_lease_parted *parted)
{
    struct weir_lease_waiter *waiter = entry->first, *next;
    for (; waiter != NULL; waiter = next) {
        next = waiter->next;
        if (cost_of(waiter) != refused->units)
            continue;
        waiter->check->answers[waiter->at] = *refusal;
        waiter->refused |= 1u << waiter->at;
        waiter->decided_us[waiter->at] = refused->store_us;
        pass_on(waiter, parted);
    }
}

void weir_leases_submit(struct weir_leases *leases, struct weir_check *check)
{
    struct weir_lease_waiter *waiter = calloc(1, sizeof *waiter);
    if (waiter == NULL) {
        check->store[0] = NULL;
        check->result = WEIR_STORE_UNAVAILABLE;
        check->done(check);
        return;
    }
    waiter->check = check;
    waiter->deadline_us = weir_leases_now(leases) + leases->timeout_us;
    pthread_mutex_lock(&leases->mutex);
    check->store[0] = waiter;
    weir_lease_waiters_add(&leases->waiters, waiter);
    pthread_mutex_unlock(&leases->mutex);
    struct weir_lease_shard *shard =
        weir_lease_shard_of(leases, weir_lease_hash(leases, &check->spends[0]));
    pthread_mutex_lock(&shard->mutex);
    shard->numbers.waited++;
    pthread_mutex_unlock(&shard->mutex);
    weir_lease_serve(leases, waiter);
}

/* what changes sums without a decision */

/* True: the units are back where they came from. */
static bool settle_here(struct weir_leases *leases, const struct weir_spend *settled)
{
    struct weir_lease_shard *shard;
    struct weir_lease_entry *entry = lock_one(leases, settled, &shard);
    uint64_t now_us = weir_leases_now(leases);
    bool is_settled = entry != NULL && is_fresh(entry, now_us) && has_numbers_of(entry, settled)
                      && settled->reserved <= WEIR_UNITS_MAX
                      && weir_lease_excess(leases, entry, settled->reserved - settled->cost) == 0
                      && weir_lease_return(settled, &entry->block, now_us);
    pthread_mutex_unlock(&shard->mutex);
    return is_settled;
}

static void charge(struct weir_leases *leases, const struct weir_spend *settled)
{
    struct weir_lease_shard *shard;
    struct weir_lease_entry *entry = lock_one(leases, settled, &shard);
    if (entry != NULL && is_fresh(entry, weir_leases_now(leases))
        && settled->cost <= WEIR_UNITS_MAX)
        weir_lease_charge(settled, &entry->block);
    pthread_mutex_unlock(&shard->mutex);
}

size_t weir_leases_settle(struct weir_leases *leases, struct weir_spend *spends, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        struct weir_spend *settled = &spends[i];
        bool is_ours = leases != NULL && settled->lease != NULL;
        if (is_ours && settled->cost < settled->reserved && settle_here(leases, settled))
            continue;
        if (is_ours && settled->cost > settled->reserved)
            charge(leases, settled);
        if (is_ours)
            weir_lease_bound_settlement(settled);
        spends[left++] = *settled;
    }
    return left;
}

void weir_leases_drop(struct weir_leases *leases, const struct weir_spend *spends, size_t count)
{
    for (size_t i = 0; leases != NULL && i < count; i++) {
        if (spends[i].lease == NULL)
            continue;
        struct weir_lease_shard *shard;
        struct weir_lease_entry *entry = lock_one(leases, &spends[i], &shard);
        if (entry != NULL)
            entry->block = (struct weir_lease_block){ .lapsed = entry->block.lapsed };
        if (entry != NULL && entry->call != NULL)
            weir_lease_call_forget(entry->call);
        pthread_mutex_unlock(&shard->mutex);
    }
}

struct weir_leases_numbers weir_leases_numbers(struct weir_leases *leases)
{
    struct weir_leases_numbers sum = { .keys = 0 };
    for (size_t i = 0; leases != NULL && i < WEIR_LEASE_SHARDS; i++) {
        struct weir_lease_shard *shard = &leases->shards[i];
        pthread_mutex_lock(&shard->mutex);
        sum.decided += shard->numbers.decided;
        sum.waited += shard->numbers.waited;
        sum.calls += shard->numbers.calls;
        sum.refused += shard->numbers.refused;
        sum.taken += shard->numbers.taken;
        sum.given_back += shard->numbers.given_back;
        sum.stranded += shard->numbers.stranded;
        sum.unsure += shard->numbers.unsure;
        sum.evicted += shard->numbers.evicted;
        sum.keys += shard->numbers.keys;
        sum.bytes += shard->bytes;
        for (struct weir_lease_entry *entry = shard->oldest; entry != NULL; entry = entry->newer) {
            weir_lease_lapse(&entry->spend, &entry->block, weir_leases_now(leases));
            sum.held += entry->block.held;
            sum.stranded += entry->block.lapsed;
        }
        pthread_mutex_unlock(&shard->mutex);
    }
    return sum;
}
