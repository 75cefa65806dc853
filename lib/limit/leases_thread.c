/* Leases come, are tended by a thread of their own, and go. */
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "limit/leases_internal.h"

#define BUDGET_BYTES (UINT64_C(8) * 1024 * 1024)

static uint64_t monotonic_us(void *self)
{
    (void)self;
    return weir_monotonic_us();
}

/* tending */

/* A call of its own is ended by the store at the same time, which looks first whether the answer is there;
 * so it is left to it, for a little while. */
#define OWN_CALL_US UINT64_C(1000)
#define GRACE_US    UINT64_C(5000)

static bool is_left_to_store(const struct weir_leases *leases,
                             const struct weir_lease_waiter *waiter, uint64_t now_us)
{
    const struct weir_lease_entry *entry = waiter->entry;
    return entry->call != NULL && now_us < waiter->deadline_us + GRACE_US
           && entry->called_us + leases->timeout_us <= waiter->deadline_us + OWN_CALL_US;
}

static struct weir_lease_waiters take_late(struct weir_leases *leases, uint64_t now_us)
{
    struct weir_lease_waiters late = { NULL, NULL };
    pthread_mutex_lock(&leases->mutex);
    struct weir_lease_waiter *waiter = leases->waiters.first;
    for (; waiter != NULL && waiter->deadline_us <= now_us; waiter = waiter->later) {
        if (waiter->entry == NULL) /* it is being looked at, and the next look here finds it */
            continue;
        if (is_left_to_store(leases, waiter, now_us))
            continue;
        weir_lease_leave_line(waiter);
        *(late.last == NULL ? &late.first : &late.last->next) = waiter;
        late.last = waiter;
    }
    pthread_mutex_unlock(&leases->mutex);
    return late;
}

static void end_late(struct weir_leases *leases, uint64_t now_us)
{
    struct weir_lease_waiters late = take_late(leases, now_us);
    struct weir_lease_waiter *next;
    for (struct weir_lease_waiter *waiter = late.first; waiter != NULL; waiter = next) {
        next = waiter->next;
        weir_lease_end(leases, waiter, WEIR_STORE_TIMEOUT, "no units within the deadline");
    }
}

/* What was held for long enough goes back, and a key that nobody has wanted meanwhile goes. */
static void sweep(struct weir_leases *leases, struct weir_lease_shard *shard, uint64_t now_us,
                  struct weir_lease_calls *calls)
{
    struct weir_lease_entry *entry = shard->oldest, *newer;
    for (; entry != NULL && entry->touched_us + WEIR_LEASE_HOLD_US <= now_us; entry = newer) {
        newer = entry->newer;
        if (entry->call != NULL)
            continue;
        weir_lease_call_back(leases, shard, entry, calls);
        if (entry->used_us + WEIR_LEASE_HOLD_US <= now_us)
            weir_lease_remove(shard, entry);
        else
            weir_lease_touch(shard, entry, now_us);
    }
}

static bool sweep_all(struct weir_leases *leases, uint64_t now_us)
{
    bool has_keys = false;
    for (size_t i = 0; i < WEIR_LEASE_SHARDS; i++) {
        struct weir_lease_shard *shard = &leases->shards[i];
        struct weir_lease_calls calls = { NULL, NULL };
        pthread_mutex_lock(&shard->mutex);
        sweep(leases, shard, now_us, &calls);
        has_keys = has_keys || shard->oldest != NULL;
        pthread_mutex_unlock(&shard->mutex);
        weir_lease_calls_submit(leases, &calls);
    }
    return has_keys;
}

uint64_t weir_leases_tend(struct weir_leases *leases)
{
    uint64_t now_us = weir_leases_now(leases);
    end_late(leases, now_us);
    uint64_t due_us = sweep_all(leases, now_us) ? now_us + WEIR_LEASE_TICK_US : UINT64_MAX;
    pthread_mutex_lock(&leases->mutex);
    const struct weir_lease_waiter *first = leases->waiters.first;
    if (first != NULL)
        due_us =
            weir_earlier(due_us, first->deadline_us > now_us ? first->deadline_us : now_us + 1000);
    pthread_mutex_unlock(&leases->mutex);
    return due_us;
}

/* the thread */

void weir_lease_plan_wake(struct weir_leases *leases, uint64_t due_us)
{
    if (!leases->has_thread || due_us >= leases->wakes_us)
        return;
    leases->wakes_us = due_us;
    pthread_cond_signal(&leases->wake);
}

/* `mutex` is locked. */
static void sleep_until_due(struct weir_leases *leases)
{
    uint64_t due_us = leases->wakes_us;
    if (due_us == UINT64_MAX) {
        pthread_cond_wait(&leases->wake, &leases->mutex);
        return;
    }
    const struct timespec due = { .tv_sec = (time_t)(due_us / 1000000),
                                  .tv_nsec = (long)(due_us % 1000000) * 1000 };
    pthread_cond_timedwait(&leases->wake, &leases->mutex, &due);
}

static void *run(void *self)
{
    struct weir_leases *leases = self;
    pthread_mutex_lock(&leases->mutex);
    while (!leases->stops) {
        if (weir_leases_now(leases) < leases->wakes_us) {
            sleep_until_due(leases);
            continue;
        }
        /* Whatever comes up while it is busy plans a time before this. */
        leases->wakes_us = UINT64_MAX;
        pthread_mutex_unlock(&leases->mutex);
        uint64_t due_us = weir_leases_tend(leases);
        pthread_mutex_lock(&leases->mutex);
        leases->wakes_us = weir_earlier(leases->wakes_us, due_us);
    }
    pthread_mutex_unlock(&leases->mutex);
    return NULL;
}

/* making and freeing */

/* It takes no signals: they are the application's, but for those that a fault of its own would raise. */
static bool start_thread(struct weir_leases *leases)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&all, faults[i]);
    leases->wakes_us = UINT64_MAX;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    leases->has_thread = pthread_create(&leases->thread, NULL, run, leases) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (leases->has_thread)
        pthread_setname_np(leases->thread, "weir-leases");
    return leases->has_thread;
}

static void init_locks(struct weir_leases *leases)
{
    pthread_condattr_t attributes; /* none of these fails for such a clock (glibc) */
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&leases->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_cond_init(&leases->ended, NULL);
    pthread_mutex_init(&leases->mutex, NULL);
}

struct weir_leases *weir_leases_new(const struct weir_leases_options *options)
{
    struct weir_leases *leases = aligned_alloc(_Alignof(struct weir_leases), sizeof *leases);
    if (leases == NULL)
        return NULL;
    uint64_t budget_bytes = options->budget_bytes > 0 ? options->budget_bytes : BUDGET_BYTES;
    *leases = (struct weir_leases){ .type = options->type,
                                    .store = options->store,
                                    .denials = options->denials,
                                    .instances = options->instances,
                                    .timeout_us = options->timeout_us,
                                    .shard_bytes = budget_bytes / WEIR_LEASE_SHARDS,
                                    .clock = { .now_us = monotonic_us } };
    if (options->clock != NULL)
        leases->clock = *options->clock;
    init_locks(leases);
    bool is_whole = weir_hash_start();
    weir_hash_key(leases->hash_key);
    for (size_t i = 0; i < WEIR_LEASE_SHARDS; i++)
        is_whole = is_whole && weir_lease_shard_init(&leases->shards[i]);
    if (is_whole && (options->clock != NULL || start_thread(leases)))
        return leases;
    return weir_leases_free(leases);
}

void weir_leases_set_instances(struct weir_leases *leases, unsigned instances)
{
    atomic_store(&leases->instances, instances);
}

static void stop_thread(struct weir_leases *leases)
{
    if (!leases->has_thread)
        return;
    pthread_mutex_lock(&leases->mutex);
    leases->stops = true;
    pthread_cond_signal(&leases->wake);
    pthread_mutex_unlock(&leases->mutex);
    pthread_join(leases->thread, NULL);
}

/* Gives back what one shard holds. */
static void empty(struct weir_leases *leases, struct weir_lease_shard *shard)
{
    struct weir_lease_calls calls = { NULL, NULL };
    if (shard->buckets == NULL)
        return;
    pthread_mutex_lock(&shard->mutex);
    for (struct weir_lease_entry *entry = shard->oldest; entry != NULL; entry = entry->newer)
        weir_lease_call_back(leases, shard, entry, &calls);
    pthread_mutex_unlock(&shard->mutex);
    weir_lease_calls_submit(leases, &calls);
}

/* Those that are under way now, which the store ends by their deadlines; what others ask meanwhile is of
 * the next turn. */
static void wait_for_calls(struct weir_leases *leases)
{
    pthread_mutex_lock(&leases->mutex);
    unsigned turn = leases->turn;
    leases->turn = 1 - turn;
    while (leases->under_way[turn] > 0)
        pthread_cond_wait(&leases->ended, &leases->mutex);
    pthread_mutex_unlock(&leases->mutex);
}

void weir_leases_flush(struct weir_leases *leases)
{
    if (leases == NULL)
        return;
    wait_for_calls(leases); /* an early block that is still to come has to go back as well */
    for (size_t i = 0; i < WEIR_LEASE_SHARDS; i++)
        empty(leases, &leases->shards[i]);
    wait_for_calls(leases);
}

struct weir_leases *weir_leases_free(struct weir_leases *leases)
{
    if (leases == NULL)
        return NULL;
    stop_thread(leases);
    weir_leases_flush(leases);
    wait_for_calls(leases); /* that the last ones brought about */
    for (size_t i = 0; i < WEIR_LEASE_SHARDS; i++)
        weir_lease_shard_finish(&leases->shards[i]);
    pthread_cond_destroy(&leases->wake);
    pthread_cond_destroy(&leases->ended);
    pthread_mutex_destroy(&leases->mutex);
    free(leases);
    return NULL;
}
