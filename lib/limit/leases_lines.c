/* Those who wait for units: in the line of one key each, and all together by their deadlines. */
#include <stdio.h>
#include <stdlib.h>

#include "limit/leases_internal.h"

void weir_lease_waiters_add(struct weir_lease_waiters *waiters, struct weir_lease_waiter *waiter)
{
    waiter->later = NULL;
    waiter->earlier = waiters->last;
    *(waiters->last == NULL ? &waiters->first : &waiters->last->later) = waiter;
    waiters->last = waiter;
}

void weir_lease_waiters_remove(struct weir_lease_waiters *waiters, struct weir_lease_waiter *waiter)
{
    *(waiter->earlier == NULL ? &waiters->first : &waiter->earlier->later) = waiter->later;
    *(waiter->later == NULL ? &waiters->last : &waiter->later->earlier) = waiter->earlier;
}

void weir_lease_enter_line(struct weir_lease_entry *entry, struct weir_lease_waiter *waiter,
                           size_t at)
{
    waiter->entry = entry;
    waiter->at = at;
    waiter->place = ++entry->places;
    waiter->next = NULL;
    waiter->before = entry->last;
    *(entry->last == NULL ? &entry->first : &entry->last->next) = waiter;
    entry->last = waiter;
    entry->waiting += waiter->check->spends[at].cost;
}

void weir_lease_leave_line(struct weir_lease_waiter *waiter)
{
    struct weir_lease_entry *entry = waiter->entry;
    *(waiter->before == NULL ? &entry->first : &waiter->before->next) = waiter->next;
    *(waiter->next == NULL ? &entry->last : &waiter->next->before) = waiter->before;
    entry->waiting -= waiter->check->spends[waiter->at].cost;
    waiter->entry = NULL;
    waiter->next = NULL;
}

void weir_lease_end(struct weir_leases *leases, struct weir_lease_waiter *waiter,
                    enum weir_store_result result, const char *why)
{
    struct weir_check *check = waiter->check;
    if (result != WEIR_STORE_ANSWERED && waiter->granted != 0)
        weir_lease_return_granted(leases, waiter);
    pthread_mutex_lock(&leases->mutex);
    weir_lease_waiters_remove(&leases->waiters, waiter);
    weir_lease_waiters_add(&leases->ending, waiter);
    check->store[0] = NULL;
    pthread_mutex_unlock(&leases->mutex);

    check->result = result;
    snprintf(check->why, sizeof check->why, "%s", why);
    check->done(check);

    pthread_mutex_lock(&leases->mutex);
    weir_lease_waiters_remove(&leases->ending, waiter);
    pthread_cond_broadcast(&leases->ended);
    pthread_mutex_unlock(&leases->mutex);
    free(waiter);
}

static bool is_ending(const struct weir_leases *leases, const struct weir_check *check)
{
    const struct weir_lease_waiter *waiter = leases->ending.first;
    while (waiter != NULL && waiter->check != check)
        waiter = waiter->later;
    return waiter != NULL;
}

/* Takes the waiter of a check out of its line; NULL: its check has ended. */
static struct weir_lease_waiter *take_out(struct weir_leases *leases, struct weir_check *check)
{
    for (;;) {
        struct weir_lease_waiter *waiter = check->store[0];
        if (waiter != NULL && waiter->entry != NULL) {
            weir_lease_leave_line(waiter);
            return waiter;
        }
        if (waiter == NULL && !is_ending(leases, check))
            return NULL;
        pthread_cond_wait(&leases->ended, &leases->mutex);
    }
}

void weir_leases_cancel(struct weir_leases *leases, struct weir_check *check)
{
    pthread_mutex_lock(&leases->mutex);
    struct weir_lease_waiter *waiter = take_out(leases, check);
    pthread_mutex_unlock(&leases->mutex);
    if (waiter != NULL)
        weir_lease_end(leases, waiter, WEIR_STORE_CANCELLED, "cancelled");
}
