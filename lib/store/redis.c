/* The Redis store as the library sees it: a type, and the way in for other threads. */
#include "store/redis_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/signals.h"
#include "store/store.h"

#define TIMEOUT_DEFAULT_MS 20

/* the store's type */

static bool redis_ready(void *self)
{
    const struct weir_redis *redis = self;
    return atomic_load_explicit(&redis->pending.accepts, memory_order_relaxed);
}

void weir_redis_enter(struct weir_redis *redis, struct weir_check *check, uint64_t deadline_us)
{
    switch (weir_pending_enter(&redis->pending, check, deadline_us)) {
    case WEIR_PENDING_MUST_WAKE:
        if (!redis->is_driven) /* else who drives it has just handed the check in */
            weir_redis_wake(redis);
        return;
    case WEIR_PENDING_ENTERED:
        return;
    case WEIR_PENDING_CLOSED:
        weir_redis_end(check, WEIR_STORE_UNAVAILABLE, "not connected");
        return;
    case WEIR_PENDING_FULL:
        weir_redis_end(check, WEIR_STORE_UNAVAILABLE, "too many checks wait already");
        return;
    }
}

static void redis_submit(void *self, struct weir_check *check)
{
    struct weir_redis *redis = self;
    memset(check->store, 0, sizeof check->store);
    const char *fault = weir_redis_fault(check);
    if (fault != NULL)
        weir_redis_end(check, WEIR_STORE_ERROR, fault);
    else if (redis->topology->submit == NULL || !redis->topology->submit(redis, check))
        weir_redis_enter(redis, check, weir_monotonic_us() + redis->timeout_us);
}

void weir_redis_cancel(struct weir_redis *redis, struct weir_check *check)
{
    bool is_own = redis->is_driven || pthread_equal(pthread_self(), redis->thread) != 0;
    if (weir_pending_cancel(&redis->pending, check, is_own))
        weir_redis_end(check, WEIR_STORE_CANCELLED, "cancelled");
}

static void redis_cancel(void *self, struct weir_check *check)
{
    struct weir_redis *redis = self;
    if (redis->topology->cancel == NULL || !redis->topology->cancel(redis, check))
        weir_redis_cancel(redis, check);
}

static void redis_state(void *self, struct weir_store_state *state)
{
    weir_redis_read_health(self, state);
}

/* making and freeing */

static void release(struct weir_redis *redis)
{
    if (redis->topology != NULL && redis->topology->finish != NULL)
        redis->topology->finish(redis);
    while (redis->link_count > 0)
        weir_link_free(redis->links[redis->link_count - 1]);
    weir_redis_resolver_finish(&redis->resolver);
    if (!redis->is_driven) /* else it is another lane's */
        weir_redis_tls_free(redis->tls);
    if (redis->wake_fd >= 0)
        close(redis->wake_fd);
    pthread_mutex_destroy(&redis->health_mutex);
    weir_pending_finish(&redis->pending);
    weir_redis_url_forget(&redis->url);
    weir_redis_scripts_finish(&redis->scripts);
    free(redis);
}

static void redis_free(void *self)
{
    struct weir_redis *redis = self;
    if (redis->topology->close != NULL)
        redis->topology->close(redis);
    bool must_wake = weir_pending_stop(&redis->pending);
    if (redis->is_driven) {
        weir_redis_shut(redis);
    } else {
        if (must_wake)
            weir_redis_wake(redis);
        pthread_join(redis->thread, NULL);
    }
    release(redis);
}

const struct weir_store_type weir_redis_type = {
    .size = sizeof(struct weir_store_type),
    .name = "redis",
    .ready = redis_ready,
    .submit = redis_submit,
    .cancel = redis_cancel,
    .state = redis_state,
    .free = redis_free,
};

/* Two commands with their scripts may be in the making at once. Where the C library or a limit of
 * the system gives threads less than that, they would overflow. */
#define STACK_BYTES (1024 * 1024)

static int create_thread(struct weir_redis *redis)
{
    pthread_attr_t attributes;
    int failure = pthread_attr_init(&attributes);
    if (failure != 0)
        return failure;
    failure = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (failure == 0)
        failure = pthread_create(&redis->thread, &attributes, weir_redis_run, redis);
    pthread_attr_destroy(&attributes);
    return failure;
}

/* The thread takes no signals: they are the application's, and writing to a closed socket must not
 * end the program (hiredis 0.14.1 writes without MSG_NOSIGNAL). */
static bool start_thread(struct weir_redis *redis)
{
    sigset_t before;
    weir_signals_block(&before);
    int failure = create_thread(redis);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure == 0)
        pthread_setname_np(redis->thread, "weir-redis");
    return failure == 0;
}

static uint64_t seed(void)
{
    uint64_t number = weir_monotonic_us();
    ssize_t got = getrandom(&number, sizeof number, GRND_NONBLOCK);
    (void)got; /* the time will do: this is jitter */
    return number;
}

static struct weir_redis *allocate(void)
{
    struct weir_redis *redis = calloc(1, sizeof *redis);
    if (redis == NULL)
        return NULL;
    redis->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (redis->wake_fd < 0 || pthread_mutex_init(&redis->health_mutex, NULL) != 0) {
        if (redis->wake_fd >= 0)
            close(redis->wake_fd);
        free(redis);
        return NULL;
    }
    if (!weir_pending_init(&redis->pending)) {
        pthread_mutex_destroy(&redis->health_mutex);
        close(redis->wake_fd);
        free(redis);
        return NULL;
    }
    return redis;
}

static const struct weir_redis_topology_type *topology_of(const struct weir_redis_url *url)
{
    switch (url->topology) {
    case WEIR_REDIS_SINGLE:
        return &weir_redis_single;
    case WEIR_REDIS_SENTINEL:
        return &weir_redis_sentinel;
    case WEIR_REDIS_CLUSTER:
        return &weir_redis_cluster;
    }
    return &weir_redis_single;
}

static void set_up(struct weir_redis *redis, const struct weir_redis_url *url,
                   const struct weir_store_options *options, const struct weir_clock *clock,
                   struct weir_redis_voice *voice, bool is_silent)
{
    redis->voice = voice;
    redis->is_silent = is_silent;
    redis->url = *url;
    redis->log = options->log;
    redis->timeout_us =
        (options->timeout_ms > 0 ? options->timeout_ms : TIMEOUT_DEFAULT_MS) * UINT64_C(1000);
    if (clock != NULL) {
        redis->test_clock = *clock;
        redis->scripts.clock = WEIR_REDIS_CLOCK_OF_TEST;
    }
    redis->seed = seed();
    redis->health.breaker = WEIR_BREAKER_STARTING;
    redis->topology = topology_of(url);
}

enum weir_code weir_redis_new(const struct weir_redis_url *url,
                              const struct weir_store_options *options,
                              const struct weir_clock *clock, struct weir_redis_voice *voice,
                              bool is_silent, struct weir_redis **redis, struct weir_error *error)
{
    struct weir_redis *made = allocate();
    if (made == NULL)
        return weir_error_set(error, WEIR_E_SYSTEM, NULL,
                              "The Redis store lacks memory or descriptors.");
    set_up(made, url, options, clock, voice, is_silent);
    enum weir_code code = weir_redis_tls_new(&made->url, options, &made->tls, error);
    if (code == WEIR_OK)
        code = made->topology->make(made, error);
    if (code == WEIR_OK && !start_thread(made))
        code = weir_error_set(error, WEIR_E_SYSTEM, NULL, "The Redis store's thread cannot start.");
    if (code != WEIR_OK)
        release(made);
    else
        *redis = made;
    return code;
}

static void set_up_like(struct weir_redis *redis, const struct weir_redis *like)
{
    redis->is_driven = true;
    redis->is_silent = true;
    redis->voice = like->voice;
    redis->url = like->url;
    redis->log = like->log;
    redis->timeout_us = like->timeout_us;
    redis->tls = like->tls;
    redis->test_clock = like->test_clock;
    redis->scripts.clock = like->scripts.clock;
    redis->seed = seed();
    redis->health.breaker = WEIR_BREAKER_STARTING;
    redis->topology = like->topology;
}

struct weir_redis *weir_redis_new_driven(const struct weir_redis *like)
{
    struct weir_redis *made = allocate();
    if (made == NULL)
        return NULL;
    set_up_like(made, like);
    if (made->topology->make(made, NULL) == WEIR_OK)
        return made;
    release(made);
    return NULL;
}

enum weir_code weir_store_new_redis_by(const char *url, const struct weir_store_options *options,
                                       const struct weir_clock *clock, struct weir_store **store,
                                       struct weir_error *error)
{
    struct weir_store_options ours;
    enum weir_code code = weir_options_take(&ours, sizeof ours, options, WEIR_STORE_OPTIONS_FIRST,
                                            "WEIR_STORE_OPTIONS", error);
    if (code != WEIR_OK)
        return code;
    struct weir_redis_url where;
    code = weir_redis_url_read(url, &where, error);
    if (code != WEIR_OK)
        return code;
    code = weir_redis_lanes_new(&where, &ours, clock, store, error);
    weir_redis_url_forget(&where);
    return code;
}

enum weir_code weir_store_new_redis(const char *url, const struct weir_store_options *options,
                                    struct weir_store **store, struct weir_error *error)
{
    return weir_store_new_redis_by(url, options, NULL, store, error);
}
