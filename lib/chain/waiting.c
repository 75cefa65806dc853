#include "chain/waiting.h"

#include <signal.h>

#include "base/clock.h"
#include "base/log.h"
#include "chain/chain_internal.h"

/* Clients that hung up, for one round of the thread. */
#define GONE_MAX 64

static void *run(void *self)
{
    struct weir_chain *chain = self;
    struct weir_parking *parking = &chain->parking;
    while (!atomic_load(&chain->waiting.is_over)) {
        uint64_t gone[GONE_MAX];
        size_t count = weir_timer_sleep(&parking->timer, gone, GONE_MAX);
        uint32_t woken = 0;
        for (size_t i = 0; i < count; i++)
            woken += weir_parking_wake_gone(parking, gone[i]);
        woken += weir_parking_wake_due(parking, weir_monotonic_us());
        if (woken > 0)
            weir_chain_tell_loop(chain);
    }
    return NULL;
}

/* Signals are for the threads of the application, which does not know when this one starts. */
static bool create_thread(struct weir_chain *chain)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&chain->waiting.thread, NULL, run, chain);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure == 0)
        pthread_setname_np(chain->waiting.thread, "weir-waiting");
    return failure == 0;
}

/* The log hears of it once: a system that has run out of threads gets many such requests. */
static void tell_failure(struct weir_chain *chain, bool is_first)
{
    if (is_first)
        weir_log_line(&chain->log, WEIR_ERROR,
                      "No thread, descriptor or memory to let requests wait for their turn.");
}

bool weir_waiting_start(struct weir_chain *chain)
{
    struct weir_waiting *waiting = &chain->waiting;
    if (atomic_load_explicit(&waiting->runs, memory_order_acquire))
        return true;

    pthread_mutex_lock(&chain->parking.lock);
    bool runs = atomic_load(&waiting->runs)
                || (weir_parking_prepare(&chain->parking) && create_thread(chain));
    bool is_first = !runs && !waiting->has_failed;
    waiting->has_failed = !runs;
    atomic_store_explicit(&waiting->runs, runs, memory_order_release);
    pthread_mutex_unlock(&chain->parking.lock);
    tell_failure(chain, is_first);
    return runs;
}

void weir_waiting_stop(struct weir_chain *chain)
{
    if (!atomic_load(&chain->waiting.runs))
        return;
    atomic_store(&chain->waiting.is_over, true);
    pthread_mutex_lock(&chain->parking.lock);
    weir_timer_arm(&chain->parking.timer, 0);
    pthread_mutex_unlock(&chain->parking.lock);
    pthread_join(chain->waiting.thread, NULL);
}
