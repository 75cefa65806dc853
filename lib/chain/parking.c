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
    pthread_cond_destroy(&parking->idle);
    pthread_mutex_destroy(&parking->lock);
    free(parking->places);
}

static uint64_t number_of(uint32_t index, uint32_t generation)
{
    return (uint64_t)generation << 32 | (uint64_t)(index + 1);
}

uint64_t weir_parking_enter(struct weir_parking *parking, struct weir_request *request)
{
    uint64_t number = 0;
    pthread_mutex_lock(&parking->lock);
    if (!parking->stopping && parking->first_free < parking->size) {
        uint32_t index = parking->first_free;
        struct weir_parked *place = &parking->places[index];
        parking->first_free = place->next_free;
        parking->count++;
        place->request = request;
        number = number_of(index, place->generation);
        request->is_parked = true;
        request->server->suspend(request);
    }
    pthread_mutex_unlock(&parking->lock);
    return number;
}

/* With the lock held. Nothing may touch the request afterwards: its thread runs at once. */
static void release(struct weir_parking *parking, uint32_t index, bool drained)
{
    struct weir_parked *place = &parking->places[index];
    struct weir_request *request = place->request;
    place->request = NULL;
    place->generation++;
    place->next_free = parking->first_free;
    parking->first_free = index;
    parking->count--;
    request->is_parked = false;
    request->is_drained = drained;
    request->server->resume(request);
}

bool weir_parking_wake(struct weir_parking *parking, uint64_t number)
{
    uint32_t index = (uint32_t)number - 1;
    bool woke = false;
    pthread_mutex_lock(&parking->lock);
    if ((uint32_t)number != 0 && index < parking->size) {
        const struct weir_parked *place = &parking->places[index];
        woke = place->request != NULL && number_of(index, place->generation) == number;
        if (woke)
            release(parking, index, false);
    }
    pthread_mutex_unlock(&parking->lock);
    return woke;
}

uint32_t weir_parking_wake_all(struct weir_parking *parking)
{
    uint32_t woken = 0;
    pthread_mutex_lock(&parking->lock);
    for (uint32_t i = 0; i < parking->size && parking->count > 0; i++) {
        if (parking->places[i].request == NULL)
            continue;
        release(parking, i, true);
        woken++;
    }
    pthread_mutex_unlock(&parking->lock);
    return woken;
}

void weir_parking_block(struct weir_parking *parking, struct weir_request *request)
{
    pthread_mutex_lock(&parking->lock);
    while (request->is_parked)
        pthread_cond_wait(&request->woken, &parking->lock);
    pthread_mutex_unlock(&parking->lock);
}
