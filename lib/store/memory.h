/* The memory store, as its own tests and benchmarks see it. */
#ifndef WEIR_STORE_MEMORY_H
#define WEIR_STORE_MEMORY_H

#include "store/store.h"

/* The smallest and the largest budget. */
#define WEIR_MEMORY_BYTES_MIN     (UINT64_C(128) << 10)
#define WEIR_MEMORY_BYTES_MAX     (UINT64_C(1) << 40)
#define WEIR_MEMORY_BYTES_DEFAULT (UINT64_C(64) << 20)

/* Of a store that weir_store_new_memory() made: keys that have not expired, bytes of memory in all,
 * and how long a key still lives in µs (0: it is not there). The first two look at the whole table.
 * Any thread. */
size_t weir_memory_keys(struct weir_store *store);
size_t weir_memory_bytes(struct weir_store *store);
uint64_t weir_memory_ttl_us(struct weir_store *store, const char *key, size_t key_length);

#endif
