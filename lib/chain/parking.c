#include "chain/parking.h"

#include <stdlib.h>

#include "chain/request.h"

static bool init_idle(pthread_cond_t *idle)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0
                && pthread_cond_init(idle, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return made;
}

bool weir_parking_init(struct weir_parking *parking, uint32_t size)
{
    *parking = (struct weir_parking){ .size = size };
    parking->places = calloc(size, sizeof *parking->places);
    if (parking->places == NULL)
        return false;
    for (uint32_t i = 0; i < size; i++)
        parking->places[i].next_free = i + 1;

    if (!init_idle(&parking->idle)) {
        free(parking->places);
        return false;
    }
    pthread_mutex_init(&parking->lock, NULL); /* never fails for a default mutex (glibc) */
    return true;
}

void weir_parking_finish(struct weir_parking *parking)
{
    if (parking->can_wait) {
        weir_timer_close(&parking->timer);
        weir_due_queue_finish(&parking->dues);
    }
    pthread_cond_destroy(&parking->idle);
    pthread_mutex_destroy(&parking->lock);
    free(parking->places);
}

static uint64_t number_of(uint32_t index, uint32_t generation)
{
    return (uint64_t)generation << 32 | (uint64_t)(index + 1);
}

/* With the lock held. Takes a place; `size`: there is none, or the server is stopping. */
static uint32_t take_place(struct weir_parking *parking, struct weir_request *request)
{
    uint32_t index = parking->stopping ? parking->size : parking->first_free;
    if (index >= parking->size)
        return parking->size;
    struct weir_parked *place = &parking->places[index];
    parking->first_free = place->next_free;
    parking->count++;
    place->request = request;
    place->socket = -1;
    request->is_parked = true;
    return index;
}

uint64_t weir_parking_enter(struct weir_parking *parking, struct weir_request *request)
{
    uint64_t number = 0;
    pthread_mutex_lock(&parking->lock);
    uint32_t index = take_place(parking, request);
    if (index < parking->size) {
        number = number_of(index, parking->places[index].generation);
        request->server->suspend(request);
    }
    pthread_mutex_unlock(&parking->lock);
    return number;
}

/* Why a request is woken. */
enum reason { ITS_TURN, DRAINED, GONE };

/* With the lock held. Nothing may touch the request afterwards: its thread runs at once. */
static void release(struct weir_parking *parking, uint32_t index, enum reason reason)
{
    struct weir_parked *place = &parking->places[index];
    struct weir_request *request = place->request;
    weir_due_queue_remove(&parking->dues, index);
    if (place->socket >= 0)
        weir_timer_unwatch(&parking->timer, place->socket);
    place->request = NULL;
    place->generation++;
    place->next_free = parking->first_free;
    parking->first_free = index;
    parking->count--;
    request->is_parked = false;
    request->is_drained = reason == DRAINED;
    request->is_gone = request->is_gone || reason == GONE;
    request->server->resume(request);
}

static bool wake(struct weir_parking *parking, uint64_t number, enum reason reason)
{
    uint32_t index = (uint32_t)number - 1;
    bool woke = false;
    pthread_mutex_lock(&parking->lock);
    if ((uint32_t)number != 0 && index < parking->size) {
        const struct weir_parked *place = &parking->places[index];
        woke = place->request != NULL && number_of(index, place->generation) == number;
        if (woke)
            release(parking, index, reason);
    }
    pthread_mutex_unlock(&parking->lock);
    return woke;
}

bool weir_parking_wake(struct weir_parking *parking, uint64_t number)
{
    return wake(parking, number, ITS_TURN);
}

uint32_t weir_parking_wake_all(struct weir_parking *parking)
{
    uint32_t woken = 0;
    pthread_mutex_lock(&parking->lock);
    for (uint32_t i = 0; i < parking->size && parking->count > 0; i++) {
        if (parking->places[i].request == NULL)
            continue;
        release(parking, i, DRAINED);
        woken++;
    }
    pthread_mutex_unlock(&parking->lock);
    return woken;
}

void weir_parking_block(struct weir_parking *parking, struct weir_request *request)
{
    pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&parking->lock);
    request->woken = &woken;
    while (request->is_parked)
        pthread_cond_wait(&woken, &parking->lock);
    request->woken = NULL;
    pthread_mutex_unlock(&parking->lock);
    pthread_cond_destroy(&woken);
}

/* moments */

bool weir_parking_prepare(struct weir_parking *parking)
{
    if (parking->can_wait)
        return true;
    if (!weir_due_queue_init(&parking->dues, parking->size))
        return false;
    parking->can_wait = weir_timer_open(&parking->timer);
    if (!parking->can_wait)
        weir_due_queue_finish(&parking->dues);
    return parking->can_wait;
}

/* With the lock held. */
static void arm_for_first(struct weir_parking *parking)
{
    const struct weir_due *first = weir_due_queue_first(&parking->dues);
    weir_timer_arm(&parking->timer, first == NULL ? WEIR_TIMER_NEVER : first->due_us);
}

bool weir_parking_enter_until(struct weir_parking *parking, struct weir_request *request,
                              uint64_t due_us)
{
    pthread_mutex_lock(&parking->lock);
    uint32_t index = take_place(parking, request);
    bool entered = index < parking->size;
    if (entered) {
        struct weir_parked *place = &parking->places[index];
        int socket = request->server->socket_of(request);
        weir_due_queue_add(&parking->dues, index, due_us);
        /* Where it cannot be watched, a client that hangs up is noticed when its turn comes. */
        if (weir_timer_watch(&parking->timer, socket, number_of(index, place->generation)))
            place->socket = socket;
        if (weir_due_queue_first(&parking->dues)->place == index)
            arm_for_first(parking);
        request->server->suspend(request);
    }
    pthread_mutex_unlock(&parking->lock);
    return entered;
}

uint32_t weir_parking_wake_due(struct weir_parking *parking, uint64_t now_us)
{
    uint32_t woken = 0;
    pthread_mutex_lock(&parking->lock);
    const struct weir_due *first;
    while ((first = weir_due_queue_first(&parking->dues)) != NULL && first->due_us <= now_us) {
        release(parking, first->place, ITS_TURN);
        woken++;
    }
    arm_for_first(parking);
    pthread_mutex_unlock(&parking->lock);
    return woken;
}

bool weir_parking_wake_gone(struct weir_parking *parking, uint64_t number)
{
    return wake(parking, number, GONE);
}
