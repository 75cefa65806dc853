/* The Redis store against the model: many worlds at once over one connection, each at a time of its
 * own, on a server of its own. */
#include "differential.h"

#include <pthread.h>

#include "redis_server.h"
#include "store/redis_internal.h"
#include "store/store.h"

/* How many worlds have a check under way. */
#define AT_ONCE 128

static struct redis_server server;
static struct weir_store *store;

/* The store reads its clock once for each check that it sends, in the order in which they came, so
 * that each can be told the time of its world. */
static struct {
    pthread_mutex_t mutex;
    uint64_t us[AT_ONCE];
    size_t put;
    size_t taken;
} times = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void put_time(uint64_t us)
{
    pthread_mutex_lock(&times.mutex);
    times.us[times.put++ % AT_ONCE] = us;
    pthread_mutex_unlock(&times.mutex);
}

static uint64_t take_time(void *self)
{
    (void)self;
    pthread_mutex_lock(&times.mutex);
    uint64_t us = times.us[times.taken++ % AT_ONCE];
    pthread_mutex_unlock(&times.mutex);
    return us;
}

static void submit(struct world *world)
{
    put_time(world->told_us);
    store->type->submit(store->self, &world->check);
}

int main(void)
{
    redis_server_prepare(&server);
    redis_server_start(&server);
    struct weir_error error = WEIR_NO_ERROR;
    const struct weir_clock clock = { .now_us = take_time };
    enum weir_code code = weir_store_new_redis_by(
        server.url, WEIR_STORE_OPTIONS(.timeout_ms = 20000), &clock, &store, &error);
    assert_int_equal(code, WEIR_OK);

    int failed = differential_run(&(const struct differential){
        .name = "redis store",
        .steps = 1000000,
        .at_once = AT_ONCE,
        .believes_steps_back = true,
        .submit = submit,
    });
    /* Were it read more often, checks would have been given each other's times. */
    assert_int_equal(times.taken, times.put);
    weir_store_free(store);
    redis_server_remove(&server);
    return failed;
}
