#include "store/redis_pending.h"

#include <time.h>

/* What check->store holds while a check is pending. */
enum { NEXT, PREVIOUS, PLACE, DEADLINE };

/* In PLACE: NULL for a check that is not pending, this for one that was not sent, else its slot. */
static struct weir_check *not_sent;

/* In a slot whose command serves no check. */
static struct weir_check own;

static struct weir_check *next_of(const struct weir_check *check)
{
    return check->store[NEXT];
}

static bool is_pending(const struct weir_check *check)
{
    return check->store[PLACE] != NULL;
}

/* The time to a check's deadline. The difference fits a pointer of 32 bits, the times do not. */
static uint64_t left_of(const struct weir_check *check, uint64_t now_us)
{
    intptr_t left_us = (intptr_t)((uintptr_t)check->store[DEADLINE] - (uintptr_t)now_us);
    return left_us > 0 ? (uint64_t)left_us : 0;
}

/* the list */

static void link_before(struct weir_pending *pending, struct weir_check *check,
                        struct weir_check *next)
{
    struct weir_check *previous = next == NULL ? pending->last : next->store[PREVIOUS];
    check->store[NEXT] = next;
    check->store[PREVIOUS] = previous;
    if (previous == NULL)
        pending->first = check;
    else
        previous->store[NEXT] = check;
    if (next == NULL)
        pending->last = check;
    else
        next->store[PREVIOUS] = check;
    pending->count++;
}

static void take_out(struct weir_pending *pending, struct weir_check *check)
{
    struct weir_check *next = check->store[NEXT];
    struct weir_check *previous = check->store[PREVIOUS];
    if (previous == NULL)
        pending->first = next;
    else
        previous->store[NEXT] = next;
    if (next == NULL)
        pending->last = previous;
    else
        next->store[PREVIOUS] = previous;
    if (pending->unsent == check)
        pending->unsent = next;

    struct weir_check **slot = check->store[PLACE];
    if (slot != &not_sent)
        *slot = NULL;
    check->store[PLACE] = NULL;
    pending->count--;
}

/* the store's thread takes something into its hands, or lays it down */

static void hold(struct weir_pending *pending, struct weir_check *check)
{
    pending->held = check;
    pending->sleeps = false;
    if (pending->waiting > 0)
        pthread_cond_broadcast(&pending->moved);
}

static struct weir_check *take(struct weir_pending *pending, struct weir_check *check)
{
    if (check != NULL)
        take_out(pending, check);
    hold(pending, check);
    return check;
}

static size_t next_slot(struct weir_pending *pending)
{
    return (pending->slot_first + pending->slots_taken++) % WEIR_REDIS_IN_FLIGHT_MAX;
}

static void give_slot(struct weir_pending *pending, struct weir_check *check)
{
    size_t slot = next_slot(pending);
    pending->slots[slot] = check;
    check->store[PLACE] = &pending->slots[slot];
}

bool weir_pending_init(struct weir_pending *pending)
{
    if (pthread_mutex_init(&pending->mutex, NULL) != 0)
        return false;
    if (pthread_cond_init(&pending->moved, NULL) != 0) {
        pthread_mutex_destroy(&pending->mutex);
        return false;
    }
    atomic_init(&pending->accepts, false);
    return true;
}

void weir_pending_finish(struct weir_pending *pending)
{
    pthread_cond_destroy(&pending->moved);
    pthread_mutex_destroy(&pending->mutex);
}

/* for any thread */

enum weir_pending_entry weir_pending_enter(struct weir_pending *pending, struct weir_check *check,
                                           uint64_t deadline_us)
{
    enum weir_pending_entry entry = WEIR_PENDING_ENTERED;
    check->store[PLACE] = NULL;
    pthread_mutex_lock(&pending->mutex);
    if (!pending->accepts) {
        entry = WEIR_PENDING_CLOSED;
    } else if (pending->count == WEIR_REDIS_PENDING_MAX) {
        entry = WEIR_PENDING_FULL;
    } else {
        check->store[PLACE] = &not_sent;
        check->store[DEADLINE] = (void *)(uintptr_t)deadline_us;
        link_before(pending, check, NULL);
        if (pending->unsent == NULL)
            pending->unsent = check;
        if (pending->sleeps)
            entry = WEIR_PENDING_MUST_WAKE;
        pending->sleeps = false;
    }
    pthread_mutex_unlock(&pending->mutex);
    return entry;
}

bool weir_pending_cancel(struct weir_pending *pending, struct weir_check *check,
                         bool is_store_thread)
{
    pthread_mutex_lock(&pending->mutex);
    pending->waiting++;
    while (pending->held == check && !is_store_thread)
        pthread_cond_wait(&pending->moved, &pending->mutex);
    pending->waiting--;
    bool was_pending = is_pending(check);
    if (was_pending)
        take_out(pending, check);
    pthread_mutex_unlock(&pending->mutex);
    return was_pending;
}

void weir_pending_wait_for_start(struct weir_pending *pending, unsigned timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }

    pthread_mutex_lock(&pending->mutex);
    pending->waiting++;
    int failure = 0;
    while (!pending->has_started && failure == 0)
        failure = pthread_cond_timedwait(&pending->moved, &pending->mutex, &until);
    pending->waiting--;
    pthread_mutex_unlock(&pending->mutex);
}

bool weir_pending_stop(struct weir_pending *pending)
{
    pthread_mutex_lock(&pending->mutex);
    pending->stops = true;
    pending->accepts = false;
    bool must_wake = pending->sleeps;
    pending->sleeps = false;
    pthread_mutex_unlock(&pending->mutex);
    return must_wake;
}

/* for the store's thread */

void weir_pending_accept(struct weir_pending *pending, bool accepts)
{
    pthread_mutex_lock(&pending->mutex);
    pending->has_started = true;
    hold(pending, NULL);
    pending->accepts = accepts && !pending->stops;
    pthread_mutex_unlock(&pending->mutex);
}

struct weir_check *weir_pending_take_late(struct weir_pending *pending, uint64_t now_us)
{
    pthread_mutex_lock(&pending->mutex);
    bool is_due = pending->first != NULL && left_of(pending->first, now_us) == 0;
    struct weir_check *check = take(pending, is_due ? pending->first : NULL);
    pthread_mutex_unlock(&pending->mutex);
    return check;
}

struct weir_check *weir_pending_take_any(struct weir_pending *pending)
{
    pthread_mutex_lock(&pending->mutex);
    struct weir_check *check = take(pending, pending->first);
    pthread_mutex_unlock(&pending->mutex);
    return check;
}

struct weir_check *weir_pending_send(struct weir_pending *pending)
{
    pthread_mutex_lock(&pending->mutex);
    bool has_room = pending->slots_taken < WEIR_REDIS_IN_FLIGHT_MAX;
    struct weir_check *check = has_room ? pending->unsent : NULL;
    hold(pending, check);
    if (check != NULL) {
        pending->unsent = next_of(check);
        give_slot(pending, check);
    }
    pthread_mutex_unlock(&pending->mutex);
    return check;
}

bool weir_pending_send_own(struct weir_pending *pending)
{
    pthread_mutex_lock(&pending->mutex);
    bool has_room = pending->slots_taken < WEIR_REDIS_IN_FLIGHT_MAX;
    if (has_room)
        pending->slots[next_slot(pending)] = &own;
    pthread_mutex_unlock(&pending->mutex);
    return has_room;
}

enum weir_pending_reply weir_pending_take_replied(struct weir_pending *pending,
                                                  struct weir_check **check)
{
    pthread_mutex_lock(&pending->mutex);
    enum weir_pending_reply reply = WEIR_PENDING_TO_NONE;
    *check = NULL;
    if (pending->slots_taken > 0) {
        struct weir_check *found = pending->slots[pending->slot_first];
        reply = found == &own ? WEIR_PENDING_TO_OWN : WEIR_PENDING_TO_CHECK;
        *check = take(pending, found == &own ? NULL : found);
        pending->slot_first = (pending->slot_first + 1) % WEIR_REDIS_IN_FLIGHT_MAX;
        pending->slots_taken--;
    }
    pthread_mutex_unlock(&pending->mutex);
    return reply;
}

void weir_pending_send_again(struct weir_pending *pending, struct weir_check *check)
{
    pthread_mutex_lock(&pending->mutex);
    /* Its deadline is about the oldest of all, so the search is short. */
    struct weir_check *next = pending->first;
    while (next != NULL && next != pending->unsent
           && left_of(next, (uintptr_t)check->store[DEADLINE]) == 0)
        next = next_of(next);
    link_before(pending, check, next);
    give_slot(pending, check);
    hold(pending, check);
    pthread_mutex_unlock(&pending->mutex);
}

void weir_pending_forget(struct weir_pending *pending)
{
    pthread_mutex_lock(&pending->mutex);
    hold(pending, NULL);
    pending->slot_first = 0;
    pending->slots_taken = 0;
    pthread_mutex_unlock(&pending->mutex);
}

bool weir_pending_sleep(struct weir_pending *pending, bool can_send, uint64_t now_us,
                        uint64_t *left_us)
{
    pthread_mutex_lock(&pending->mutex);
    hold(pending, NULL);
    bool has_room = pending->slots_taken < WEIR_REDIS_IN_FLIGHT_MAX;
    pending->sleeps = !pending->stops && !(can_send && has_room && pending->unsent != NULL);
    bool sleeps = pending->sleeps;
    *left_us = UINT64_MAX;
    if (pending->first != NULL)
        *left_us = left_of(pending->first, now_us);
    pthread_mutex_unlock(&pending->mutex);
    return sleeps;
}

bool weir_pending_stops(struct weir_pending *pending)
{
    pthread_mutex_lock(&pending->mutex);
    bool stops = pending->stops;
    pthread_mutex_unlock(&pending->mutex);
    return stops;
}
