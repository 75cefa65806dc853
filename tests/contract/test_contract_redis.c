/* The contract of stores, with the Redis store on a server of its own. */
#include "contract.h"

#include <stdatomic.h>

#include "redis_server.h"
#include "store/redis_internal.h"
#include "store/store.h"

/* Long enough for a machine that is busy with other things. */
#define TIMEOUT_MS 5000

static struct redis_server server;

static struct weir_store *open_with(const char *url, uint32_t connections,
                                    const struct weir_clock *clock)
{
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_store_new_redis_by(
        url, WEIR_STORE_OPTIONS(.timeout_ms = TIMEOUT_MS, .connections = connections), clock,
        &store, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(code, WEIR_OK);
    contract_await_answers(store);
    return store;
}

static struct weir_store *open_at(const char *url, const struct weir_clock *clock)
{
    return open_with(url, 1, clock);
}

static struct weir_store *open_two(void *self)
{
    (void)self;
    return open_with(server.url, 2, NULL);
}

static struct weir_store *open_unix(void *self)
{
    (void)self;
    return open_at(server.url, NULL);
}

static struct weir_store *open_tcp(void *self)
{
    (void)self;
    return open_at(server.tcp_url, NULL);
}

/* The limits of a group share a key, but for logs. */
static uint64_t ttl_us(void *self, struct weir_store *store, const struct weir_spend *spend)
{
    (void)self;
    (void)store;
    bool shares = spend->group_length > 0 && spend->algorithm != WEIR_SLIDING_LOG;
    size_t key_length = shares ? spend->group_length : spend->key_length;
    long long ttl_ms = redis_server_number(&server, "PTTL %b", spend->key, key_length);
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

int main(void)
{
    const struct contract_factory by_hand = {
        .name = "redis with a clock by hand",
        .open = open_by_hand,
        .handles_share = true,
        .pass_us = pass_us,
        .step_back_us = step_back_us,
    };
    const struct contract_factory on_unix = {
        .name = "redis over a Unix socket",
        .open = open_unix,
        .handles_share = true,
        .ttl_us = ttl_us,
    };
    const struct contract_factory on_tcp = {
        .name = "redis over TCP",
        .open = open_tcp,
        .handles_share = true,
        .ttl_us = ttl_us,
    };
    const struct contract_factory on_two = {
        .name = "redis over two connections",
        .open = open_two,
        .handles_share = true,
        .ttl_us = ttl_us,
    };
    redis_server_prepare(&server);
    redis_server_start(&server);
    int failed = contract_run(&by_hand) + contract_run(&on_unix) + contract_run(&on_tcp)
                 + contract_run(&on_two);
    redis_server_remove(&server);
    return failed;
}
