/* Makes a name into addresses, on a thread of its own, since the system's lookup blocks and cannot
 * be given up. */
#ifndef WEIR_STORE_REDIS_RESOLVE_H
#define WEIR_STORE_REDIS_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>

#define WEIR_REDIS_ADDRESSES_MAX 8
#define WEIR_REDIS_ADDRESS_CHARS 64

/* More names than this are not looked up at once by one thread of a store. */
#define WEIR_REDIS_LOOKUPS_MAX 16

struct weir_redis_addresses {
    char at[WEIR_REDIS_ADDRESSES_MAX]
           [WEIR_REDIS_ADDRESS_CHARS]; /* literals, in the system's order */
    size_t count;
};

/* Fills in the one address if `host` is a literal, which takes no time; false: it is a name. */
bool weir_redis_is_literal(const char *host, struct weir_redis_addresses *addresses);

/* A lookup under way. */
struct weir_redis_lookup;

/* All lookups of a store's thread, those included that nobody waits for any more. Zero is a
 * resolver without any. It is used by one thread, as what follows is. */
struct weir_redis_resolver {
    struct weir_redis_lookup *lookups[WEIR_REDIS_LOOKUPS_MAX]; /* NULL: free */
};

/* Leaves all lookups to themselves. */
void weir_redis_resolver_finish(struct weir_redis_resolver *resolver);

/* Starts to look a name up, or goes on with a lookup of that name that was left. When it has
 * ended, 1 is written to `wake_fd`, an eventfd, of which it keeps a copy until then. NULL: it
 * cannot be looked up now, and `why` says why. */
struct weir_redis_lookup *weir_redis_lookup_start(struct weir_redis_resolver *resolver,
                                                  const char *host, int wake_fd, const char **why);

/* True: it has ended, and is freed. Where it brought nothing, `why` says why, and `addresses` are
 * as they were if that may be a name server's fault, or else none. */
bool weir_redis_lookup_take(struct weir_redis_resolver *resolver, struct weir_redis_lookup *lookup,
                            struct weir_redis_addresses *addresses, char *why, size_t size);

/* Accepts NULL. Nobody waits for it any more, but it may go on for a while. */
void weir_redis_lookup_leave(struct weir_redis_lookup *lookup);

#endif
