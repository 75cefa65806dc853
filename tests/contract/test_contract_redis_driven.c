/* The contract of stores, over a lane of the Redis store that the test drives itself: a thread here
 * does what a worker of libmicrohttpd does for its requests. */
#include "contract.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "redis_cluster.h"
#include "redis_server.h"
#include "store/redis_internal.h"
#include "store/store.h"

/* Long enough for a machine that is busy with other things. */
#define TIMEOUT_MS 5000
#define READY_US   UINT64_C(60000000)

/* Where Redis is frozen. */
#define SHORT_MS 200

#define QUEUE_MAX 4096

/* a store whose checks all go over one driven lane */

struct pumped {
    struct weir_store *store;
    struct weir_lane *lane;
    int wake;
    pthread_t pump;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t idle;   /* `cancelled` is NULL again */
    struct weir_check *queue[QUEUE_MAX];
    size_t count;
    struct weir_check *cancelled; /* is to be ended early */
    bool stops;
};

static void wake(struct pumped *pumped)
{
    const uint64_t one = 1;
    assert_int_equal(write(pumped->wake, &one, sizeof one), sizeof one);
}

/* With the mutex held, which a check's `done` may want as well. */
static void take_queue(struct pumped *pumped)
{
    while (pumped->count > 0) {
        struct weir_check *check = pumped->queue[0];
        memmove(pumped->queue, pumped->queue + 1, --pumped->count * sizeof check);
        pthread_mutex_unlock(&pumped->mutex);
        pumped->store->lanes->submit(pumped->lane, check);
        pthread_mutex_lock(&pumped->mutex);
    }
    struct weir_check *cancelled = pumped->cancelled;
    if (cancelled == NULL)
        return;
    pthread_mutex_unlock(&pumped->mutex);
    pumped->store->lanes->cancel(pumped->lane, cancelled);
    pthread_mutex_lock(&pumped->mutex);
    pumped->cancelled = NULL;
    pthread_cond_broadcast(&pumped->idle);
}

static void *pump(void *self)
{
    struct pumped *pumped = self;
    pthread_mutex_lock(&pumped->mutex);
    while (!pumped->stops) {
        take_queue(pumped);
        pthread_mutex_unlock(&pumped->mutex);
        uint64_t wakes;
        if (pumped->store->lanes->drive(pumped->lane, pumped->wake, 100000))
            assert_int_equal(read(pumped->wake, &wakes, sizeof wakes), sizeof wakes);
        pthread_mutex_lock(&pumped->mutex);
    }
    pthread_mutex_unlock(&pumped->mutex);
    return NULL;
}

static void pumped_submit(void *self, struct weir_check *check)
{
    struct pumped *pumped = self;
    pthread_mutex_lock(&pumped->mutex);
    assert_true(pumped->count < QUEUE_MAX);
    pumped->queue[pumped->count++] = check;
    pthread_mutex_unlock(&pumped->mutex);
    wake(pumped);
}

static void pumped_cancel(void *self, struct weir_check *check)
{
    struct pumped *pumped = self;
    pthread_mutex_lock(&pumped->mutex);
    while (pumped->cancelled != NULL)
        pthread_cond_wait(&pumped->idle, &pumped->mutex);
    pumped->cancelled = check;
    wake(pumped);
    while (pumped->cancelled == check)
        pthread_cond_wait(&pumped->idle, &pumped->mutex);
    pthread_mutex_unlock(&pumped->mutex);
}

static void pumped_state(void *self, struct weir_store_state *state)
{
    const struct pumped *pumped = self;
    pumped->store->type->state(pumped->store->self, state);
}

static void pumped_free(void *self)
{
    struct pumped *pumped = self;
    pthread_mutex_lock(&pumped->mutex);
    pumped->stops = true;
    pthread_mutex_unlock(&pumped->mutex);
    wake(pumped);
    pthread_join(pumped->pump, NULL);
    pumped->store->lanes->close(pumped->lane);
    weir_store_free(pumped->store);
    close(pumped->wake);
    pthread_cond_destroy(&pumped->idle);
    pthread_mutex_destroy(&pumped->mutex);
    free(pumped);
}

static const struct weir_store_type pumped_type = {
    .size = sizeof pumped_type,
    .name = "redis",
    .submit = pumped_submit,
    .cancel = pumped_cancel,
    .state = pumped_state,
    .free = pumped_free,
};

/* The lane connects while it is looked at. */
static struct weir_lane *open_lane(struct weir_store *store)
{
    struct weir_lane *lane = store->lanes->open(store->lanes_self);
    assert_non_null(lane);
    uint64_t until_us = weir_monotonic_us() + READY_US;
    while (!store->lanes->look(lane)) {
        assert_true(weir_monotonic_us() < until_us);
        store->lanes->drive(lane, -1, 1000);
    }
    assert_true(store->lanes->is_ready(lane));
    return lane;
}

static struct weir_store *open_at(const char *url, const struct weir_clock *clock)
{
    struct pumped *pumped = calloc(1, sizeof *pumped);
    assert_non_null(pumped);
    struct weir_error error = WEIR_NO_ERROR;
    weir_store_new_redis_by(url, WEIR_STORE_OPTIONS(.timeout_ms = TIMEOUT_MS), clock,
                            &pumped->store, &error);
    assert_string_equal(error.text, "");
    pumped->lane = open_lane(pumped->store);
    pumped->wake = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&pumped->mutex, NULL);
    pthread_cond_init(&pumped->idle, NULL);
    assert_int_equal(pthread_create(&pumped->pump, NULL, pump, pumped), 0);

    struct weir_store *store = NULL;
    assert_int_equal(weir_store_new(&pumped_type, pumped, &store, NULL), WEIR_OK);
    contract_await_answers(store);
    return store;
}

/* where it is opened */

static struct redis_server server;

static struct weir_store *open_server(void *self)
{
    (void)self;
    return open_at(server.url, NULL);
}

static _Atomic uint64_t now_us = UINT64_C(1767225600250000);

static uint64_t read_clock(void *self)
{
    (void)self;
    return atomic_load(&now_us);
}

static struct weir_store *open_by_hand(void *self)
{
    (void)self;
    return open_at(server.url, &(const struct weir_clock){ .now_us = read_clock });
}

static void pass_us(void *self, uint64_t us)
{
    (void)self;
    atomic_fetch_add(&now_us, us);
}

static void step_back_us(void *self, uint64_t us)
{
    (void)self;
    atomic_fetch_sub(&now_us, us);
}

static struct redis_cluster cluster;

static struct weir_store *open_cluster(void *self)
{
    (void)self;
    return open_at(cluster.url, NULL);
}

/* what is a lane's own */

static atomic_uint lines;

static void count_line(void *self, enum weir_level level, const char *text)
{
    (void)self;
    (void)level;
    print_message("    %s\n", text);
    atomic_fetch_add(&lines, 1);
}

static struct weir_store *open_with_log(uint32_t timeout_ms)
{
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    weir_store_open(server.url,
                    WEIR_STORE_OPTIONS(.timeout_ms = timeout_ms, .log = { count_line, NULL }),
                    &store, &error);
    assert_string_equal(error.text, "");
    contract_await_answers(store);
    return store;
}

static void count_done(struct weir_check *check)
{
    unsigned *done = check->owner;
    (*done)++;
}

/* Submits one that costs a unit, and drives the lane until it is done. */
static enum weir_store_result spend_on(struct weir_store *store, struct weir_lane *lane)
{
    const struct weir_spend spend = contract_gcra("driven", 1000, 1000000, 1000);
    struct weir_answer answer = { .allowed = false };
    unsigned done = 0;
    struct weir_check check = {
        .spends = &spend, .answers = &answer, .count = 1, .done = count_done, .owner = &done
    };
    store->lanes->submit(lane, &check);
    uint64_t until_us = weir_monotonic_us() + READY_US;
    while (done == 0) {
        assert_true(weir_monotonic_us() < until_us);
        store->lanes->drive(lane, -1, 1000);
    }
    assert_int_equal(done, 1);
    return check.result;
}

static void outlives_its_store(void **state)
{
    (void)state;
    struct weir_store *store = open_with_log(TIMEOUT_MS);
    const struct weir_lane_type *type = store->lanes;
    struct weir_lane *lane = open_lane(store);
    assert_int_equal(spend_on(store, lane), WEIR_STORE_ANSWERED);
    assert_false(type->is_over(lane));
    weir_store_free(store);
    assert_true(type->is_over(lane));
    assert_false(type->is_ready(lane));
    assert_false(type->look(lane));
    type->close(lane);
}

static void gives_no_more_lanes_than_it_may(void **state)
{
    (void)state;
    static struct weir_lane *lanes[WEIR_REDIS_DRIVEN_MAX];
    struct weir_store *store = open_with_log(TIMEOUT_MS);
    for (size_t i = 0; i < COUNT_OF(lanes); i++) {
        lanes[i] = store->lanes->open(store->lanes_self);
        assert_non_null(lanes[i]);
    }
    assert_null(store->lanes->open(store->lanes_self));
    store->lanes->close(lanes[0]);
    lanes[0] = store->lanes->open(store->lanes_self);
    assert_non_null(lanes[0]);
    for (size_t i = 0; i < COUNT_OF(lanes); i++)
        store->lanes->close(lanes[i]);
    weir_store_free(store);
}

static void ends_what_it_has_when_it_is_closed(void **state)
{
    (void)state;
    struct weir_store *store = open_with_log(TIMEOUT_MS);
    struct weir_lane *lane = open_lane(store);
    const struct weir_spend spend = contract_gcra("closed", 1000, 1000000, 1000);
    struct weir_answer answers[2] = { { .allowed = false } };
    unsigned done = 0;
    struct weir_check checks[2];
    redis_server_freeze(&server); /* it answers neither */
    for (size_t i = 0; i < 2; i++) {
        checks[i] = (struct weir_check){
            .spends = &spend, .answers = &answers[i], .count = 1, .done = count_done, .owner = &done
        };
        store->lanes->submit(lane, &checks[i]);
        store->lanes->drive(lane, -1, 0);
    }
    store->lanes->cancel(lane, &checks[0]);
    assert_int_equal(done, 1);
    assert_int_equal(checks[0].result, WEIR_STORE_CANCELLED);
    store->lanes->close(lane);
    assert_int_equal(done, 2);
    assert_int_equal(checks[1].result, WEIR_STORE_CANCELLED);
    weir_store_free(store);
    redis_server_thaw(&server);
}

/* Looks until the lane is ready, or is not. */
static void look_until(struct weir_store *store, struct weir_lane *lane, bool is_ready)
{
    uint64_t until_us = weir_monotonic_us() + READY_US;
    while (store->lanes->look(lane) != is_ready) {
        assert_true(weir_monotonic_us() < until_us);
        store->lanes->drive(lane, -1, 5000);
    }
}

/* Nobody has driven it meanwhile: that is the first thing it reads. */
static void hears_of_an_end_before_it_is_used(void **state)
{
    (void)state;
    atomic_store(&lines, 0);
    struct weir_store *store = open_with_log(TIMEOUT_MS);
    struct weir_lane *lane = open_lane(store);
    assert_int_equal(spend_on(store, lane), WEIR_STORE_ANSWERED);
    redis_server_kill(&server);
    assert_false(store->lanes->look(lane));
    assert_false(store->lanes->is_ready(lane));

    /* The store's own thread alone speaks of it, and once. */
    uint64_t until_us = weir_monotonic_us() + READY_US;
    while (atomic_load(&lines) == 0 && weir_monotonic_us() < until_us)
        store->lanes->drive(lane, -1, 5000);
    redis_server_start(&server);
    look_until(store, lane, true);
    assert_int_equal(spend_on(store, lane), WEIR_STORE_ANSWERED);
    while (atomic_load(&lines) < 2 && weir_monotonic_us() < until_us)
        store->lanes->drive(lane, -1, 5000);
    assert_int_equal(atomic_load(&lines), 2);
    store->lanes->close(lane);
    weir_store_free(store);
}

/* A server that stops and says nothing: each check ends at its deadline, and after five of them the
 * lane is given up. */
static void gives_up_on_a_server_that_is_silent(void **state)
{
    (void)state;
    struct weir_store *store = open_with_log(SHORT_MS);
    struct weir_lane *lane = open_lane(store);
    redis_server_freeze(&server);
    unsigned timeouts = 0;
    while (store->lanes->is_ready(lane)) {
        uint64_t start_us = weir_monotonic_us();
        assert_int_equal(spend_on(store, lane), WEIR_STORE_TIMEOUT);
        assert_in_range(weir_monotonic_us() - start_us, SHORT_MS * 1000, 10000000);
        assert_in_range(++timeouts, 1, 5);
        store->lanes->drive(lane, -1, 0);
    }
    redis_server_thaw(&server);
    uint64_t until_us = weir_monotonic_us() + READY_US;
    do {
        assert_true(weir_monotonic_us() < until_us);
        look_until(store, lane, true);
    } while (spend_on(store, lane) != WEIR_STORE_ANSWERED);
    store->lanes->close(lane);
    weir_store_free(store);
}

int main(void)
{
    const struct contract_factory by_hand = {
        .name = "driven lane with a clock by hand",
        .open = open_by_hand,
        .handles_share = true,
        .pass_us = pass_us,
        .step_back_us = step_back_us,
    };
    const struct contract_factory real = {
        .name = "driven lane",
        .open = open_server,
        .handles_share = true,
    };
    const struct contract_factory on_cluster = {
        .name = "driven lane of a cluster",
        .open = open_cluster,
        .handles_share = true,
        .takes_parts = true,
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outlives_its_store),
        cmocka_unit_test(gives_no_more_lanes_than_it_may),
        cmocka_unit_test(ends_what_it_has_when_it_is_closed),
        cmocka_unit_test(hears_of_an_end_before_it_is_used),
        cmocka_unit_test(gives_up_on_a_server_that_is_silent),
    };
    redis_server_prepare(&server);
    redis_server_start(&server);
    int failed =
        contract_run(&by_hand) + contract_run(&real) + cmocka_run_group_tests(tests, NULL, NULL);
    redis_server_remove(&server);
    redis_cluster_start(&cluster);
    failed += contract_run(&on_cluster);
    redis_cluster_remove(&cluster);
    return failed;
}
