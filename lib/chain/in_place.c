#include "chain/in_place.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "chain/chain_internal.h"
#include "store/store.h"

/* Who waits cannot see what libmicrohttpd has fetched in this round for those that it calls later, nor
 * what it has left in its buffers; so nobody waits longer than that… */
#define LONG_US UINT64_C(1000)

/* …and where other requests are under way, which may be in the middle of a body or a long reply,
 * hardly longer than Redis takes. */
#define SHORT_US UINT64_C(100)

/* After so long without a check a lane is looked at before it is used. */
#define IDLE_US UINT64_C(5000)

/* One that is not ready is looked at no more often. */
#define LOOK_US UINT64_C(1000)

/* workers */

void weir_in_place_init(struct weir_chain *chain, uint32_t parked_max)
{
    static atomic_uint_fast64_t serials;
    chain->in_place.serial = atomic_fetch_add(&serials, 1) + 1;
    chain->in_place.staying_max =
        parked_max < WEIR_WORKER_STAYING_MAX ? parked_max : WEIR_WORKER_STAYING_MAX;
    pthread_mutex_init(&chain->in_place.mutex, NULL); /* never fails for a default mutex (glibc) */
}

static void close_lanes(struct weir_worker *worker)
{
    for (size_t i = 0; i < worker->lane_count; i++)
        if (worker->lanes[i].lane != NULL)
            worker->lanes[i].type->close(worker->lanes[i].lane);
    worker->lane_count = 0;
}

void weir_in_place_finish(struct weir_chain *chain)
{
    struct weir_in_place *in_place = &chain->in_place;
    while (in_place->workers != NULL) {
        struct weir_worker *worker = in_place->workers;
        in_place->workers = worker->next;
        close_lanes(worker);
        free(worker);
    }
    pthread_mutex_destroy(&in_place->mutex);
}

static struct weir_worker *make(struct weir_chain *chain, const void *daemon, int events)
{
    struct weir_worker *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    made->daemon = daemon;
    made->events = events;
    made->chain = chain;
    made->next = chain->in_place.workers;
    chain->in_place.workers = made;
    return made;
}

/* A new daemon may stand where an old one stood, with the same descriptor. */
struct weir_worker *weir_in_place_worker(struct weir_chain *chain, const void *daemon, int events,
                                         bool has_loop)
{
    struct weir_in_place *in_place = &chain->in_place;
    pthread_mutex_lock(&in_place->mutex);
    struct weir_worker *worker = in_place->workers;
    while (worker != NULL && (worker->daemon != daemon || worker->events != events))
        worker = worker->next;
    if (worker == NULL)
        worker = make(chain, daemon, events);
    if (worker != NULL)
        worker->has_loop = has_loop;
    pthread_mutex_unlock(&in_place->mutex);
    return worker;
}

struct weir_worker *weir_in_place_loop(struct weir_chain *chain, const void *daemon)
{
    pthread_mutex_lock(&chain->in_place.mutex);
    struct weir_worker *worker = chain->in_place.workers;
    while (worker != NULL && (worker->daemon != daemon || !worker->has_loop))
        worker = worker->next;
    pthread_mutex_unlock(&chain->in_place.mutex);
    return worker;
}

static void add_numbers(const struct weir_worker *worker, struct weir_in_place_numbers *numbers)
{
    numbers->asked += atomic_load_explicit(&worker->asked, memory_order_relaxed);
    numbers->handed += atomic_load_explicit(&worker->handed, memory_order_relaxed);
    numbers->turns += atomic_load_explicit(&worker->turns, memory_order_relaxed);
    numbers->staying += (uint32_t)atomic_load_explicit(&worker->staying, memory_order_relaxed);
    numbers->workers += worker->events >= 0;
}

void weir_in_place_read_numbers(struct weir_chain *chain, struct weir_in_place_numbers *numbers)
{
    *numbers = (struct weir_in_place_numbers){ 0 };
    pthread_mutex_lock(&chain->in_place.mutex);
    for (const struct weir_worker *worker = chain->in_place.workers; worker != NULL;
         worker = worker->next)
        add_numbers(worker, numbers);
    pthread_mutex_unlock(&chain->in_place.mutex);
}

/* Of a count that one thread alone writes, and others read. */
static void count(atomic_uint_fast64_t *counter)
{
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + 1, memory_order_relaxed);
}

static size_t staying_at(const struct weir_worker *worker)
{
    return atomic_load_explicit(&worker->staying, memory_order_relaxed);
}

static void set_staying(struct weir_worker *worker, size_t staying)
{
    atomic_store_explicit(&worker->staying, staying, memory_order_relaxed);
}

/* requests come and go */

static void set_moving(struct weir_request *request, bool is_moving)
{
    if (request->is_moving == is_moving)
        return;
    request->is_moving = is_moving;
    if (is_moving)
        request->worker->moving++;
    else
        request->worker->moving--;
}

/* It has waited long enough; what comes of it has to be written in the next round. */
static void leave(struct weir_request *request)
{
    struct weir_worker *worker = request->worker;
    struct weir_worker_lane *lane = request->lane;
    request->lane = NULL;
    request->is_answered = false;
    set_staying(worker, staying_at(worker) - 1);
    lane->staying--;
    if (lane->staying == 0)
        lane->used_us = weir_monotonic_us();
    set_moving(request, true);
    worker->left_at = worker->turn;
}

/* The server stops, and nobody waits for the check any more. */
static void drain(struct weir_request *request)
{
    const struct weir_worker_lane *lane = request->lane;
    lane->type->cancel(lane->lane, request->stay_check);
    leave(request);
    request->is_drained = true;
}

void weir_in_place_rests(struct weir_request *request)
{
    if (request->worker != NULL && request->lane == NULL)
        set_moving(request, false);
}

void weir_in_place_ends(struct weir_request *request)
{
    if (request->worker == NULL)
        return;
    if (request->lane != NULL) {
        weir_in_place_cancel(request, request->stay_check);
        leave(request);
    }
    set_moving(request, false);
}

bool weir_in_place_cancel(struct weir_request *request, const struct weir_check *check)
{
    if (check == NULL || request->stay_check != check)
        return false;
    const struct weir_worker_lane *lane = request->lane;
    if (lane != NULL && !request->is_answered)
        lane->type->cancel(lane->lane, request->stay_check);
    return true;
}

/* turns */

uint64_t weir_in_place_patience_us(const struct weir_worker *worker)
{
    bool has_to_write = worker->moving > 0 && worker->turn <= worker->left_at + 2;
    /* A loop waits when all that was fetched has been served; but of a socket that holds more than
     * fits into half of a connection's memory libmicrohttpd fetches the rest in later rounds. */
    bool has_to_fetch = !worker->has_loop && worker->turn <= worker->woken_at + 2;
    if (has_to_write || has_to_fetch)
        return 0;
    return worker->moving > 0 ? SHORT_US : LONG_US;
}

static bool poll_events(const struct weir_worker *worker, uint64_t wait_us)
{
    struct pollfd polled = { .fd = worker->events, .events = POLLIN };
    const struct timespec wait = { .tv_sec = (time_t)(wait_us / 1000000),
                                   .tv_nsec = (long)(wait_us % 1000000) * 1000 };
    return ppoll(&polled, 1, wait_us == UINT64_MAX ? NULL : &wait, NULL) > 0;
}

/* Of several lanes the last one waits, and not for long. */
static bool drive(struct weir_worker *worker, uint64_t wait_us)
{
    bool has_events = false;
    size_t busy = 0, seen = 0;
    for (size_t i = 0; i < worker->lane_count; i++)
        busy += worker->lanes[i].staying > 0;
    if (busy > 1)
        wait_us = weir_earlier(wait_us, SHORT_US);
    for (size_t i = 0; i < worker->lane_count; i++) {
        const struct weir_worker_lane *lane = &worker->lanes[i];
        if (lane->staying == 0)
            continue;
        bool waits = ++seen == busy;
        has_events |= lane->type->drive(lane->lane, waits ? worker->events : -1,
                                        waits ? wait_us : weir_earlier(wait_us, 1));
    }
    return has_events;
}

bool weir_in_place_turn(struct weir_worker *worker, uint64_t wait_us)
{
    count(&worker->turns);
    bool has_events =
        staying_at(worker) > 0 ? drive(worker, wait_us) : poll_events(worker, wait_us);
    if (has_events)
        worker->woken_at = worker->turn;
    return has_events;
}

/* Who is called a second time takes the next turn. */
static void take_turn(struct weir_request *request)
{
    struct weir_worker *worker = request->worker;
    if (request->turn == worker->turn) {
        worker->turn++;
        weir_in_place_turn(worker, weir_in_place_patience_us(worker));
    }
    request->turn = worker->turn;
}

bool weir_in_place_holds(struct weir_request *request)
{
    struct weir_worker *worker = request->worker;
    if (worker == NULL)
        return false;
    if (request->lane == NULL) {
        set_moving(request, true);
        return false;
    }
    /* Without a body the last call follows the first one at once, in the same round. */
    if (request->in_first_call) {
        request->in_first_call = false;
        request->owes_first_call = true;
    } else if (!request->is_answered && !worker->has_loop) {
        take_turn(request);
    }
    if (request->is_answered) {
        leave(request);
        request->stay_check = NULL;
        return false;
    }
    if (!atomic_load_explicit(&worker->chain->in_place.is_drained, memory_order_relaxed))
        return true;
    drain(request);
    return false;
}

void weir_in_place_wake_loop(struct weir_worker *worker)
{
    const uint64_t one = 1;
    if (atomic_exchange(&worker->is_told, true))
        return;
    ssize_t written = write(worker->wake, &one, sizeof one);
    (void)written;
}

void weir_in_place_drain(struct weir_chain *chain)
{
    struct weir_in_place *in_place = &chain->in_place;
    atomic_store(&in_place->is_drained, true);
    pthread_mutex_lock(&in_place->mutex);
    for (struct weir_worker *worker = in_place->workers; worker != NULL; worker = worker->next)
        if (worker->has_loop)
            weir_in_place_wake_loop(worker);
    pthread_mutex_unlock(&in_place->mutex);
}

void weir_in_place_end_loop(struct weir_worker *worker)
{
    /* Who wakes a request holds the parking lock. */
    struct weir_parking *parking = &worker->chain->parking;
    pthread_mutex_lock(&parking->lock);
    pthread_mutex_lock(&worker->chain->in_place.mutex);
    worker->has_loop = false;
    worker->events = -1;
    pthread_mutex_unlock(&worker->chain->in_place.mutex);
    pthread_mutex_unlock(&parking->lock);
    close_lanes(worker); /* the chain may live on, and needs no connections for it */
}

/* asking */

static void on_done(struct weir_check *check)
{
    struct weir_request *request = check->owner;
    request->is_answered = true;
}

/* A place for a lane: one that is free, or that of a store which is no more; NULL: there is none. */
static struct weir_worker_lane *free_place(struct weir_worker *worker)
{
    for (size_t i = 0; i < worker->lane_count; i++) {
        struct weir_worker_lane *lane = &worker->lanes[i];
        if (lane->lane != NULL && !lane->type->is_over(lane->lane))
            continue;
        if (lane->lane != NULL)
            lane->type->close(lane->lane);
        return lane;
    }
    return worker->lane_count < WEIR_WORKER_LANES_MAX ? &worker->lanes[worker->lane_count++] : NULL;
}

static struct weir_worker_lane *lane_to(struct weir_worker *worker, const struct weir_store *store)
{
    for (size_t i = 0; i < worker->lane_count; i++) {
        struct weir_worker_lane *lane = &worker->lanes[i];
        /* Another store may stand where an old one stood. */
        if (lane->store == store && (lane->lane == NULL || !lane->type->is_over(lane->lane)))
            return lane;
    }
    struct weir_worker_lane *lane = free_place(worker);
    if (lane != NULL)
        *lane = (struct weir_worker_lane){ .store = store,
                                           .type = store->lanes,
                                           .lane = store->lanes->open(store->lanes_self) };
    return lane;
}

/* A lane that connects, or has not been used for a while, is driven by those who would like to. */
static bool is_ready(struct weir_worker_lane *lane)
{
    if (lane->lane == NULL)
        return false;
    bool was_ready = lane->type->is_ready(lane->lane);
    if (lane->staying > 0)
        return was_ready;
    uint64_t now_us = weir_monotonic_us();
    if (now_us - lane->used_us < (was_ready ? IDLE_US : LOOK_US))
        return was_ready;
    lane->used_us = now_us;
    return lane->type->look(lane->lane);
}

/* The lane that takes a check of this request; NULL: none does. */
static struct weir_worker_lane *ready_lane(struct weir_request *request,
                                           const struct weir_store *store)
{
    struct weir_worker *worker = request->worker;
    if (worker == NULL || worker->events < 0 || request->chain->wait_mode == WEIR_WAIT_STORE_THREAD
        || !request->can_stay || !request->may_wait || weir_chain_is_stopping(request->chain))
        return NULL;
    struct weir_worker_lane *lane = lane_to(worker, store);
    bool has_room = staying_at(worker) < request->chain->in_place.staying_max;
    if (lane != NULL && has_room && is_ready(lane))
        return lane;
    count(&worker->handed);
    return NULL;
}

/* From the next request on its worker is known. */
static void want(struct weir_chain *chain)
{
    if (!atomic_load_explicit(&chain->in_place.is_wanted, memory_order_relaxed)
        && chain->wait_mode != WEIR_WAIT_STORE_THREAD)
        atomic_store(&chain->in_place.is_wanted, true);
}

bool weir_in_place_ask(struct weir_request *request, const struct weir_store *store,
                       struct weir_check *check)
{
    request->stay_check = NULL;
    if (store->lanes == NULL)
        return false;
    want(request->chain);
    struct weir_worker_lane *lane = ready_lane(request, store);
    if (lane == NULL)
        return false;

    struct weir_worker *worker = request->worker;
    request->lane = lane;
    request->stay_check = check;
    request->is_answered = false;
    request->turn = worker->turn;
    request->has_asked_to_wait = true;
    request->may_wait = false;
    lane->staying++;
    set_staying(worker, staying_at(worker) + 1);
    set_moving(request, false);
    count(&worker->asked);
    check->done = on_done;
    check->owner = request;
    lane->type->submit(lane->lane, check);
    return true;
}
