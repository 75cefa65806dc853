/* The contract of stores, with the memory store. */
#include "contract.h"

#include "store/memory.h"

#include <stdatomic.h>

static _Atomic uint64_t now_us = UINT64_C(1767225600250000);

static uint64_t read_clock(void *self)
{
    (void)self;
    return atomic_load(&now_us);
}

static struct weir_store *open_memory(void *self)
{
    (void)self;
    struct weir_store *store = NULL;
    const struct weir_clock clock = { .now_us = read_clock };
    assert_int_equal(weir_store_open("memory:", WEIR_STORE_OPTIONS(.clock = &clock), &store, NULL),
                     WEIR_OK);
    return store;
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

static uint64_t ttl_us(void *self, struct weir_store *store, const struct weir_spend *spend)
{
    (void)self;
    return weir_memory_ttl_us(store, spend->key, spend->key_length);
}

static struct weir_store *open_memory_in_real_time(void *self)
{
    (void)self;
    struct weir_store *store = NULL;
    assert_int_equal(weir_store_open("memory:", NULL, &store, NULL), WEIR_OK);
    return store;
}

int main(void)
{
    const struct contract_factory by_hand = {
        .name = "memory",
        .open = open_memory,
        .pass_us = pass_us,
        .step_back_us = step_back_us,
        .ttl_us = ttl_us,
    };
    const struct contract_factory in_real_time = {
        .name = "memory in real time",
        .open = open_memory_in_real_time,
        .ttl_us = ttl_us,
    };
    return contract_run(&by_hand) + contract_run(&in_real_time);
}
