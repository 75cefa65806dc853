#include "store/redis_pending.h"

#include <time.h>

/* In a check's PLACE stands where it is in its row; NULL: it is not pending. */
enum {
    NEXT = WEIR_CHECK_NEXT,
    PREVIOUS = WEIR_CHECK_PREVIOUS,
    PLACE = WEIR_CHECK_PLACE,
    DEADLINE = WEIR_CHECK_DEADLINE
};

static struct weir_check *next_of(const struct weir_check *check)
{
    return check->store[NEXT];
}

/* The check before a place, which is in front of `next`, or at the end (NULL). */
static struct weir_check *before(const struct weir_pending *pending, const struct weir_check *next)
{
    return next == NULL ? pending->last : next->store[PREVIOUS];
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
    struct weir_check *previous = before(pending, next);
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
    if (pending->behind == check)
        pending->behind = next;
    struct weir_redis_command *place = check->store[PLACE];
    place->check = NULL;
    check->store[PLACE] = NULL;
    pending->count--;
}

/* the store's thread takes something into its hands, or lays it down */

static void hold_first(struct weir_pending *pending, size_t count)
{
    pending->held_count = count;
    pending->sleeps = false;
    if (pending->waiting > 0)
        pthread_cond_broadcast(&pending->moved);
}

static void hold(struct weir_pending *pending, struct weir_check *check)
{
    pending->held[0] = check;
    hold_first(pending, check != NULL);
}

static bool is_held(const struct weir_pending *pending, const struct weir_check *check)
{
    for (size_t i = 0; i < pending->held_count; i++)
        if (pending->held[i] == check)
            return true;
    return false;
}

static struct weir_check *take(struct weir_pending *pending, struct weir_check *check)
{
    if (check != NULL)
        take_out(pending, check);
    hold(pending, check);
    return check;
}

/* Lifts the first check of a row that is not done to a place aside. */
static bool lift(struct weir_redis_commands *row, struct weir_redis_command *place)
{
    while (row->first != row->end) {
        const struct weir_redis_command *command = weir_commands_at(row, row->first++);
        if (command->check == NULL)
            continue;
        *place = *command;
        command->check->store[PLACE] = place;
        return true;
    }
    return false;
}

/* A wait on it must end in time, whoever sets the clock meanwhile. */
static bool init_monotonic(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool is_made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0
                   && pthread_cond_init(condition, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return is_made;
}

bool weir_pending_init(struct weir_pending *pending)
{
    if (pthread_mutex_init(&pending->mutex, NULL) != 0)
        return false;
    if (!init_monotonic(&pending->moved)) {
        pthread_mutex_destroy(&pending->mutex);
        return false;
    }
    weir_commands_init(&pending->unsent, WEIR_REDIS_PENDING_MAX, WEIR_REDIS_NO_LINK, true);
    atomic_init(&pending->accepts, false);
    return true;
}

void weir_pending_finish(struct weir_pending *pending)
{
    weir_commands_finish(&pending->unsent);
    pthread_cond_destroy(&pending->moved);
    pthread_mutex_destroy(&pending->mutex);
}

static bool is_after(const struct weir_check *check, uint64_t deadline_us)
{
    return left_of(check, deadline_us) > 0;
}

/* Whether a check with that deadline belongs in front of `next`, or at the end (NULL). */
static bool belongs_before(const struct weir_pending *pending, const struct weir_check *next,
                           uint64_t deadline_us)
{
    const struct weir_check *previous = before(pending, next);
    return (next == NULL || is_after(next, deadline_us))
           && (previous == NULL || !is_after(previous, deadline_us));
}

/* What a check with that deadline belongs in front of. One that is new belongs near the end; one
 * that is put back, or the next part of a plan, near the check that was replied to last. There may
 * be tens of thousands between the two, so it is sought from both at once. */
static struct weir_check *first_after(const struct weir_pending *pending, uint64_t deadline_us)
{
    struct weir_check *from_end = NULL;
    struct weir_check *near = pending->behind;
    while (!belongs_before(pending, from_end, deadline_us)) {
        from_end = before(pending, from_end);
        if (belongs_before(pending, near, deadline_us))
            return near;
        bool is_too_late = near == NULL || is_after(near, deadline_us);
        near = is_too_late ? before(pending, near) : next_of(near);
    }
    return from_end;
}

/* for any thread */

static enum weir_pending_entry enter(struct weir_pending *pending, struct weir_check *check,
                                     uint64_t deadline_us)
{
    if (!pending->accepts)
        return WEIR_PENDING_CLOSED;
    if (pending->count == WEIR_REDIS_PENDING_MAX || !weir_commands_make_room(&pending->unsent))
        return WEIR_PENDING_FULL;
    check->store[DEADLINE] = (void *)(uintptr_t)deadline_us;
    link_before(pending, check, first_after(pending, deadline_us));
    weir_commands_push(&pending->unsent, &(const struct weir_redis_command){ .check = check });
    bool must_wake = pending->sleeps;
    pending->sleeps = false;
    return must_wake ? WEIR_PENDING_MUST_WAKE : WEIR_PENDING_ENTERED;
}

enum weir_pending_entry weir_pending_enter(struct weir_pending *pending, struct weir_check *check,
                                           uint64_t deadline_us)
{
    check->store[PLACE] = NULL;
    pthread_mutex_lock(&pending->mutex);
    enum weir_pending_entry entry = enter(pending, check, deadline_us);
    pthread_mutex_unlock(&pending->mutex);
    return entry;
}

bool weir_pending_cancel(struct weir_pending *pending, struct weir_check *check,
                         bool is_store_thread)
{
    pthread_mutex_lock(&pending->mutex);
    pending->waiting++;
    while (!is_store_thread && is_held(pending, check))
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
    clock_gettime(CLOCK_MONOTONIC, &until);
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
    if (pending->waiting > 0)
        pthread_cond_broadcast(&pending->moved);
    pending->accepts = accepts && !pending->stops;
    pthread_mutex_unlock(&pending->mutex);
}

bool weir_pending_take_late(struct weir_pending *pending, uint64_t now_us,
                            struct weir_redis_command *late)
{
    pthread_mutex_lock(&pending->mutex);
    bool is_due = pending->first != NULL && left_of(pending->first, now_us) == 0;
    if (is_due)
        *late = *(const struct weir_redis_command *)pending->first->store[PLACE];
    take(pending, is_due ? pending->first : NULL);
    pthread_mutex_unlock(&pending->mutex);
    return is_due;
}

struct weir_check *weir_pending_take_any(struct weir_pending *pending)
{
    pthread_mutex_lock(&pending->mutex);
    struct weir_check *check = take(pending, pending->first);
    pthread_mutex_unlock(&pending->mutex);
    return check;
}

bool weir_pending_take_from(struct weir_pending *pending, const struct weir_redis_commands *row,
                            size_t *at, struct weir_redis_command *taken)
{
    pthread_mutex_lock(&pending->mutex);
    taken->check = NULL;
    while (taken->check == NULL && *at != row->end)
        *taken = *weir_commands_at(row, (*at)++);
    take(pending, taken->check);
    pthread_mutex_unlock(&pending->mutex);
    return taken->check != NULL;
}

void weir_pending_take_held(struct weir_pending *pending)
{
    pthread_mutex_lock(&pending->mutex);
    take_out(pending, pending->held[0]);
    pthread_mutex_unlock(&pending->mutex);
}

bool weir_pending_lift(struct weir_pending *pending, struct weir_redis_commands *row,
                       struct weir_redis_command *lifted)
{
    pthread_mutex_lock(&pending->mutex);
    bool is_there = lift(row, &pending->aside[0]);
    *lifted = pending->aside[0];
    hold(pending, is_there ? lifted->check : NULL);
    pthread_mutex_unlock(&pending->mutex);
    return is_there;
}

void weir_pending_put_back(struct weir_pending *pending, struct weir_check *check)
{
    pthread_mutex_lock(&pending->mutex);
    link_before(pending, check, first_after(pending, (uintptr_t)check->store[DEADLINE]));
    check->store[PLACE] = &pending->aside[0];
    hold(pending, check);
    pthread_mutex_unlock(&pending->mutex);
}

bool weir_pending_put(struct weir_pending *pending, struct weir_redis_commands *row,
                      const struct weir_redis_command *command)
{
    /* A link's rows are the thread's own, and nobody else touches a check that is held, so the mutex
     * is only needed where other threads may look: in `unsent`, or when places move. */
    bool is_alone = row != &pending->unsent && weir_commands_count(row) < row->capacity;
    if (!is_alone)
        pthread_mutex_lock(&pending->mutex);
    bool has_room = weir_commands_make_room(row);
    if (has_room)
        weir_commands_push(row, command);
    if (!is_alone)
        pthread_mutex_unlock(&pending->mutex);
    return has_room;
}

size_t weir_pending_lift_for(struct weir_pending *pending, struct weir_redis_commands *from,
                             struct weir_redis_commands *to, struct weir_redis_command *lifted,
                             size_t count)
{
    pthread_mutex_lock(&pending->mutex);
    size_t most = count < WEIR_PENDING_HELD_MAX ? count : WEIR_PENDING_HELD_MAX;
    size_t room = (weir_commands_room(to, 2 * most) + 1) / 2;
    size_t found = 0;
    for (; found < most && found < room && lift(from, &pending->aside[found]); found++) {
        lifted[found] = pending->aside[found];
        pending->held[found] = lifted[found].check;
    }
    hold_first(pending, found);
    pthread_mutex_unlock(&pending->mutex);
    return found;
}

/* A check that went behind "ASKING" has two replies, of which the first says nothing. */
static struct weir_redis_command next_replied(struct weir_redis_commands *under_way)
{
    struct weir_redis_command *oldest = weir_commands_at(under_way, under_way->first);
    struct weir_redis_command replied = *oldest;
    if ((oldest->how & WEIR_REDIS_OWES_ASKING) != 0) {
        oldest->how &= (uint8_t)~WEIR_REDIS_OWES_ASKING;
        replied.check = NULL;
        replied.kind = WEIR_REDIS_ASKING;
    } else {
        under_way->first++;
        under_way->calls -= replied.checks > 0;
    }
    return replied;
}

bool weir_pending_take_replied(struct weir_pending *pending, struct weir_redis_commands *under_way,
                               struct weir_redis_command *replied)
{
    pthread_mutex_lock(&pending->mutex);
    bool is_there = under_way->first != under_way->end;
    if (is_there) {
        *replied = next_replied(under_way);
        if (replied->check != NULL)
            pending->behind = next_of(replied->check);
        take(pending, replied->check);
    }
    pthread_mutex_unlock(&pending->mutex);
    return is_there;
}

void weir_pending_forget(struct weir_pending *pending, struct weir_redis_commands *row)
{
    pthread_mutex_lock(&pending->mutex);
    row->first = row->end;
    row->calls = 0;
    pthread_mutex_unlock(&pending->mutex);
}

bool weir_pending_is_late(struct weir_pending *pending, uint64_t now_us)
{
    pthread_mutex_lock(&pending->mutex);
    bool is_late = pending->first != NULL && left_of(pending->first, now_us) == 0;
    pthread_mutex_unlock(&pending->mutex);
    return is_late;
}

bool weir_pending_sleep(struct weir_pending *pending, uint64_t now_us, uint64_t *left_us)
{
    pthread_mutex_lock(&pending->mutex);
    hold(pending, NULL);
    pending->sleeps = !pending->stops && weir_commands_count(&pending->unsent) == 0;
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
