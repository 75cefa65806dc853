/* Makes a name into addresses, on a thread of its own, since the system's lookup blocks and cannot
 * be given up. */
#ifndef WEIR_STORE_REDIS_RESOLVE_H
#define WEIR_STORE_REDIS_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>

#define WEIR_REDIS_ADDRESSES_MAX 8
#define WEIR_REDIS_ADDRESS_CHARS 64

struct weir_redis_addresses {
    char at[WEIR_REDIS_ADDRESSES_MAX]
           [WEIR_REDIS_ADDRESS_CHARS]; /* literals, in the system's order */
    size_t count;
};

/* Fills in the one address if `host` is a literal, which takes no time; false: it is a name. */
bool weir_redis_is_literal(const char *host, struct weir_redis_addresses *addresses);

/* A lookup under way. */
struct weir_redis_lookup;

/* Starts to look a name up. When it has ended, 1 is written to `wake_fd`, an eventfd, of which it
 * keeps a copy. NULL: the system lacks what it takes. */
struct weir_redis_lookup *weir_redis_lookup_start(const char *host, int wake_fd);

/* True: it has ended, and is freed. Where it brought nothing, `why` says why, and `addresses` are
 * as they were if that may be a name server's fault, or else none. */
bool weir_redis_lookup_take(struct weir_redis_lookup *lookup,
                            struct weir_redis_addresses *addresses, char *why, size_t size);

/* Accepts NULL. Nobody waits for it any more: it may go on for a while, and frees itself. */
void weir_redis_lookup_drop(struct weir_redis_lookup *lookup);

#endif
