/* What leases say to the store: blocks that are asked for, and units that are given back. */
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "limit/denied.h"
#include "limit/leases_internal.h"
#include "policy/calendar.h"

/* A store that fails is not asked again at once by those who do not need it yet. */
#define FAILURE_PAUSE_US UINT64_C(50000)

/* One call, with all that it needs. One that gives back has its key in itself; of one that asks it is
 * its entry's, which stays meanwhile. */
struct weir_lease_call {
    struct weir_check check;
    struct weir_answer answer;
    struct weir_spend spend; /* its calendar is kept */
    struct weir_leases *leases;
    struct weir_lease_entry *entry; /* NULL: it gives back          */
    struct weir_lease_call *next;   /* ready to go                  */
    uint64_t last_place;            /* in line when it was made           */
    uint64_t asked_us;
    unsigned turn;
    bool is_void; /* the store was told to forget the key meanwhile */
    char key[];
};

static void free_call(struct weir_lease_call *call)
{
    weir_calendar_let_go(call->spend.calendar);
    free(call);
}

void weir_lease_call_forget(struct weir_lease_call *call)
{
    call->is_void = true;
}

static void add(struct weir_lease_calls *calls, struct weir_lease_call *call)
{
    *(calls->last == NULL ? &calls->first : &calls->last->next) = call;
    calls->last = call;
}

void weir_lease_calls_submit(struct weir_leases *leases, struct weir_lease_calls *calls)
{
    while (calls->first != NULL) {
        struct weir_lease_call *call = calls->first;
        calls->first = call->next;
        call->asked_us = weir_leases_now(leases);
        leases->type->submit(leases->store, &call->check);
    }
    calls->last = NULL;
}

/* `mutex` is locked. */
static void count_up(struct weir_leases *leases, struct weir_lease_call *call)
{
    call->turn = leases->turn;
    leases->under_way[call->turn]++;
}

/* `mutex` is locked. Whoever waits for the last one frees the leases. */
static void count_down(struct weir_leases *leases, unsigned turn)
{
    if (--leases->under_way[turn] == 0)
        pthread_cond_broadcast(&leases->ended);
}

/* giving back */

/* The store may have done it, or not. */
static void count_unsure(struct weir_leases *leases, const struct weir_lease_call *call)
{
    struct weir_lease_shard *shard =
        weir_lease_shard_of(leases, weir_lease_hash(leases, &call->spend));
    pthread_mutex_lock(&shard->mutex);
    shard->numbers.unsure += call->spend.reserved;
    pthread_mutex_unlock(&shard->mutex);
}

static void on_given_back(struct weir_check *check)
{
    struct weir_lease_call *call = check->owner;
    struct weir_leases *leases = call->leases;
    unsigned turn = call->turn;
    weir_denials_forget(leases->denials, check);
    if (check->result != WEIR_STORE_ANSWERED)
        count_unsure(leases, call);
    free_call(call);
    pthread_mutex_lock(&leases->mutex);
    count_down(leases, turn);
    pthread_mutex_unlock(&leases->mutex);
}

/* `mutex` is locked as well. */
static void give_back(struct weir_leases *leases, struct weir_lease_shard *shard,
                      struct weir_lease_entry *entry, uint64_t kept, struct weir_lease_calls *calls)
{
    weir_lease_lapse(&entry->spend, &entry->block, weir_leases_now(leases));
    size_t key_length = entry->spend.key_length;
    uint64_t units = entry->block.held > kept ? entry->block.held - kept : 0;
    struct weir_lease_call *call =
        units == 0 ? NULL : calloc(1, sizeof(struct weir_lease_call) + key_length);
    if (call == NULL) {
        entry->block.held -= units;
        entry->block.lapsed += units;
        return;
    }
    weir_lease_give_up(&entry->spend, &entry->block, units, &call->spend);
    memcpy(call->key, entry->key, key_length);
    call->spend.key = call->key;
    call->spend.lease = NULL;
    weir_calendar_keep(call->spend.calendar);
    call->leases = leases;
    call->check = (struct weir_check){ .operation = WEIR_SETTLE,
                                       .spends = &call->spend,
                                       .count = 1,
                                       .done = on_given_back,
                                       .owner = call };
    shard->numbers.given_back += units;
    count_up(leases, call);
    add(calls, call);
}

void weir_lease_call_back(struct weir_leases *leases, struct weir_lease_shard *shard,
                          struct weir_lease_entry *entry, struct weir_lease_calls *calls)
{
    if (entry->block.held == 0)
        return;
    pthread_mutex_lock(&leases->mutex);
    give_back(leases, shard, entry, 0, calls);
    pthread_mutex_unlock(&leases->mutex);
}

static uint64_t most_held(const struct weir_leases *leases, const struct weir_lease_entry *entry)
{
    uint64_t units =
        weir_lease_most_units(entry->spend.lease, weir_capacity(&entry->spend), leases->instances);
    return units + weir_lease_low_water(entry->spend.lease, units);
}

uint64_t weir_lease_excess(const struct weir_leases *leases, const struct weir_lease_entry *entry,
                           uint64_t more)
{
    uint64_t held = entry->block.held + more, most = most_held(leases, entry);
    return held > most ? held - most : 0;
}

void weir_lease_call_back_excess(struct weir_leases *leases, struct weir_lease_shard *shard,
                                 struct weir_lease_entry *entry, struct weir_lease_calls *calls)
{
    if (weir_lease_excess(leases, entry, 0) == 0)
        return;
    pthread_mutex_lock(&leases->mutex);
    give_back(leases, shard, entry, most_held(leases, entry), calls);
    pthread_mutex_unlock(&leases->mutex);
}

/* asking */

static uint64_t decided_us(const struct weir_lease_call *call)
{
    return call->check.now_us + call->answer.after_us;
}

/* Notes what the store has said. Of what it granted, so much is spent already. */
static void learn(const struct weir_leases *leases, struct weir_lease_shard *shard,
                  const struct weir_lease_call *call, uint64_t at_once, uint64_t now_us)
{
    struct weir_lease_entry *entry = call->entry;
    const struct weir_lease_news news = { .answer = &call->answer,
                                          .units = call->answer.allowed ? call->spend.cost : 0,
                                          .at_once = at_once,
                                          .store_us = decided_us(call),
                                          .asked_us = call->asked_us,
                                          .told_us = now_us };
    weir_lease_learn(&entry->spend, &entry->block, &news);
    weir_lease_touch(shard, entry, now_us);
    shard->numbers.taken += news.units;
    shard->numbers.refused += !call->answer.allowed;
    if (news.units > 0)
        entry->low_water = weir_lease_low_water(
            entry->spend.lease,
            weir_smaller(news.units,
                         weir_lease_size(&entry->spend, leases->instances, &entry->demand)));
}

/* What has come of a call, for those who wait. */
struct outcome {
    enum weir_store_result result; /* of the others, unless ANSWERED: then they look again */
    const char *why;
    struct weir_lease_parted parted;
};

/* Everybody in line. */
static void empty_line(struct weir_lease_entry *entry, struct weir_lease_waiters *others)
{
    while (entry->first != NULL) {
        struct weir_lease_waiter *waiter = entry->first;
        weir_lease_leave_line(waiter);
        *(others->last == NULL ? &others->first : &others->last->next) = waiter;
        others->last = waiter;
    }
}

/* What the store refuses while some is held here it may have when that is there again: it goes back, and
 * the store is asked once more. */
static void refuse(struct weir_leases *leases, struct weir_lease_shard *shard,
                   const struct weir_lease_call *call, const struct weir_lease_grant *said,
                   struct weir_lease_parted *parted, struct weir_lease_calls *calls)
{
    struct weir_lease_entry *entry = call->entry;
    entry->most_asked = call->spend.cost > 1 ? call->spend.cost / 2 : 1;
    if (entry->first != NULL && entry->block.held > 0 && !call->answer.impossible)
        give_back(leases, shard, entry, 0, calls);
    else
        weir_lease_refuse_line(entry, said, &call->answer, parted);
}

/* Who waited for it may have gone. */
static void keep(struct weir_leases *leases, struct weir_lease_shard *shard,
                 struct weir_lease_entry *entry, struct weir_lease_calls *calls)
{
    entry->most_asked = 0;
    give_back(leases, shard, entry, most_held(leases, entry), calls);
}

static void serve(struct weir_leases *leases, struct weir_lease_shard *shard,
                  const struct weir_lease_call *call, struct weir_lease_parted *parted,
                  struct weir_lease_calls *calls)
{
    uint64_t at_once = 0, now_us = weir_leases_now(leases);
    const struct weir_lease_grant said = { .units = call->spend.cost,
                                           .store_us = decided_us(call),
                                           .last_place = call->last_place };
    if (call->answer.allowed)
        at_once = weir_lease_grant_line(call->entry, &said, parted);
    learn(leases, shard, call, at_once, now_us);
    weir_lease_serve_line(call->entry, now_us, parted);
    if (!call->answer.allowed)
        refuse(leases, shard, call, &said, parted, calls);
    else
        keep(leases, shard, call->entry, calls);
}

static void apply(struct weir_leases *leases, struct weir_lease_shard *shard,
                  const struct weir_lease_call *call, struct outcome *outcome,
                  struct weir_lease_calls *calls)
{
    struct weir_lease_entry *entry = call->entry;
    uint64_t now_us = weir_leases_now(leases);
    entry->call = NULL;
    outcome->result = call->check.result;
    outcome->why = call->check.why;
    if (outcome->result != WEIR_STORE_ANSWERED || call->is_void)
        shard->numbers.unsure += call->spend.cost;
    if (outcome->result != WEIR_STORE_ANSWERED) {
        entry->not_early_us = now_us + FAILURE_PAUSE_US;
        empty_line(entry, &outcome->parted.others);
        return;
    }
    if (!call->is_void)
        serve(leases, shard, call, &outcome->parted, calls);
    if (entry->first == NULL || weir_lease_call_for(leases, shard, entry, now_us, false, calls))
        return;
    outcome->result = WEIR_STORE_UNAVAILABLE;
    outcome->why = "out of memory";
    empty_line(entry, &outcome->parted.others);
}

static void tell(struct weir_leases *leases, const struct outcome *outcome)
{
    struct weir_lease_waiter *next;
    for (struct weir_lease_waiter *waiter = outcome->parted.served.first; waiter != NULL;
         waiter = next) {
        next = waiter->next;
        weir_lease_end(leases, waiter, WEIR_STORE_ANSWERED, "");
    }
    for (struct weir_lease_waiter *waiter = outcome->parted.others.first; waiter != NULL;
         waiter = next) {
        next = waiter->next;
        if (outcome->result == WEIR_STORE_ANSWERED)
            weir_lease_serve(leases, waiter);
        else
            weir_lease_end(leases, waiter, outcome->result, outcome->why);
    }
}

static void on_answer(struct weir_check *check)
{
    struct weir_lease_call *call = check->owner;
    struct weir_leases *leases = call->leases;
    struct weir_lease_shard *shard = weir_lease_shard_of(leases, call->entry->hash);
    struct weir_lease_calls calls = { NULL, NULL };
    struct outcome outcome = { .why = "" };
    unsigned turn = call->turn;

    pthread_mutex_lock(&shard->mutex);
    pthread_mutex_lock(&leases->mutex);
    apply(leases, shard, call, &outcome, &calls);
    pthread_mutex_unlock(&leases->mutex);
    pthread_mutex_unlock(&shard->mutex);
    weir_lease_calls_submit(leases, &calls);
    tell(leases, &outcome);

    free_call(call);
    pthread_mutex_lock(&leases->mutex);
    count_down(leases, turn);
    pthread_mutex_unlock(&leases->mutex);
}

static uint64_t units_to_ask(const struct weir_leases *leases, struct weir_lease_entry *entry,
                             uint64_t now_us)
{
    const struct weir_lease_waiter *first = entry->first;
    const struct weir_spend *spend = &entry->spend;
    uint64_t held = entry->block.held;
    uint64_t waiting = entry->waiting > held ? entry->waiting - held : 0;
    uint64_t spare = entry->block.told_us == 0 ? weir_capacity(spend)
                                               : weir_lease_spare(spend, &entry->block, now_us);
    uint64_t needed = first == NULL ? 0 : first->check->spends[first->at].cost;
    uint64_t size = weir_lease_size(spend, leases->instances, &entry->demand);
    uint64_t units = weir_lease_ask(size, spare, waiting, needed);
    if (entry->most_asked == 0 || units <= needed)
        return units;
    units = weir_smaller(units, entry->most_asked);
    return units > needed ? units : needed;
}

/* A single one is not worth a call ahead of its need. */
#define EARLY_UNITS 2

bool weir_lease_call_for(struct weir_leases *leases, struct weir_lease_shard *shard,
                         struct weir_lease_entry *entry, uint64_t now_us, bool is_early,
                         struct weir_lease_calls *calls)
{
    uint64_t units = units_to_ask(leases, entry, now_us);
    if (is_early && units < EARLY_UNITS)
        return true;
    struct weir_lease_call *call = calloc(1, sizeof *call);
    if (call == NULL)
        return false;
    call->leases = leases;
    call->entry = entry;
    call->spend = entry->spend;
    weir_calendar_keep(call->spend.calendar);
    call->spend.cost = units;
    call->last_place = entry->places;
    call->spend.lease = NULL; /* a store under this one may lease by itself */
    call->check = (struct weir_check){ .operation = WEIR_SPEND,
                                       .wants_time = true,
                                       .spends = &call->spend,
                                       .answers = &call->answer,
                                       .count = 1,
                                       .done = on_answer,
                                       .owner = call };
    entry->call = call;
    entry->called_us = now_us;
    shard->numbers.calls++;
    count_up(leases, call);
    add(calls, call);
    return true;
}
