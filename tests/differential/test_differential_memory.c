/* The memory store against the model: a store for each world, on a clock that is told steps back. */
#include "differential.h"

#include "store/memory.h"
#include "store/store.h"

static uint64_t told_us(void *self)
{
    const struct world *world = self;
    return world->told_us;
}

static void open_store(struct world *world)
{
    struct weir_store *store = NULL;
    const struct weir_clock clock = { .now_us = told_us, .self = world };
    const struct weir_store_options *options =
        WEIR_STORE_OPTIONS(.clock = &clock, .memory_bytes = UINT64_C(1) << 20);
    assert_int_equal(weir_store_open("memory:", options, &store, NULL), WEIR_OK);
    world->store = store;
    /* Steps back are counted from the first time that it is asked for. */
    weir_memory_ttl_us(store, "k", 1);
}

static void close_store(struct world *world)
{
    world->store = weir_store_free(world->store);
}

static void submit(struct world *world)
{
    struct weir_store *store = world->store;
    store->type->submit(store->self, &world->check);
}

int main(void)
{
    return differential_run(&(const struct differential){
        .name = "memory store",
        .steps = 1000000,
        .at_once = 1,
        .forgets = true,
        .open = open_store,
        .close = close_store,
        .submit = submit,
    });
}
