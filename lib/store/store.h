/* The store handle, and the stores that come with the library. */
#ifndef WEIR_STORE_INTERNAL_H
#define WEIR_STORE_INTERNAL_H

#include <weir/store.h>

struct weir_store {
    const struct weir_store_type *type;
    void *self;
};

/* The size of the options in the first release: nothing smaller was ever compiled. */
#define WEIR_STORE_OPTIONS_FIRST                                                                   \
    (offsetof(struct weir_store_options, log) + sizeof(struct weir_log))

enum weir_code weir_store_new_memory(const struct weir_store_options *options,
                                     struct weir_store **store, struct weir_error *error);
enum weir_code weir_store_new_redis(const char *url, const struct weir_store_options *options,
                                    struct weir_store **store, struct weir_error *error);

static inline bool weir_store_ready(const struct weir_store *store)
{
    return store->type->ready == NULL || store->type->ready(store->self);
}

#endif
