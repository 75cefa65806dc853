/* The contract of stores, with the Redis store on a cluster: plans whose limits lie in several slots
 * are taken part by part, and yet all or nothing. */
#include "contract.h"

#include <stdatomic.h>

#include "redis_cluster.h"
#include "store/redis_internal.h"
#include "store/redis_slot.h"
#include "store/store.h"

/* Long enough for a machine that is busy with other things. */
#define TIMEOUT_MS 5000

static struct redis_cluster cluster;

static struct weir_store *open_with(const struct weir_clock *clock)
{
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_store_new_redis_by(
        cluster.url, WEIR_STORE_OPTIONS(.timeout_ms = TIMEOUT_MS), clock, &store, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(code, WEIR_OK);
    contract_await_answers(store);
    return store;
}

static struct weir_store *open_real(void *self)
{
    (void)self;
    return open_with(NULL);
}

static const struct redis_server *node_of(struct weir_text key)
{
    unsigned slot = weir_redis_slot(key);
    return &cluster.nodes[(slot * REDIS_CLUSTER_MASTERS + REDIS_CLUSTER_MASTERS - 1)
                          / WEIR_REDIS_SLOTS];
}

/* The limits of a group share a key, but for logs. */
static uint64_t ttl_us(void *self, struct weir_store *store, const struct weir_spend *spend)
{
    (void)self;
    (void)store;
    bool shares = spend->group_length > 0 && spend->algorithm != WEIR_SLIDING_LOG;
    struct weir_text key = { spend->key, shares ? spend->group_length : spend->key_length };
    long long ttl_ms = redis_server_number(node_of(key), "PTTL %b", key.at, key.length);
    assert_int_not_equal(ttl_ms, -1); /* every key expires */
    return ttl_ms < 0 ? 0 : (uint64_t)ttl_ms * 1000;
}

/* With a clock moved by hand */

static _Atomic uint64_t now_us = UINT64_C(1767225600250000);

static uint64_t read_clock(void *self)
{
    (void)self;
    return atomic_load(&now_us);
}

static struct weir_store *open_by_hand(void *self)
{
    (void)self;
    return open_with(&(const struct weir_clock){ .now_us = read_clock });
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

int main(void)
{
    const struct contract_factory by_hand = {
        .name = "cluster with a clock by hand",
        .open = open_by_hand,
        .handles_share = true,
        .takes_parts = true,
        .pass_us = pass_us,
        .step_back_us = step_back_us,
    };
    const struct contract_factory real = {
        .name = "cluster",
        .open = open_real,
        .handles_share = true,
        .takes_parts = true,
        .ttl_us = ttl_us,
    };
    redis_cluster_start(&cluster);
    int failed = contract_run(&by_hand) + contract_run(&real);
    redis_cluster_remove(&cluster);
    return failed;
}
