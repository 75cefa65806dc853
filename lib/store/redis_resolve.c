#include "store/redis_resolve.h"

#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/signals.h"

/* Shared by the thread that looks up and the one that asked; the last one frees it. */
struct weir_redis_lookup {
    atomic_uint owners;
    bool is_left;          /* nobody waits for it; known to the one that asked only */
    int wake_fd;           /* until it has ended */
    atomic_bool has_ended; /* what follows is complete */
    int failure;           /* of getaddrinfo() */
    struct weir_redis_addresses found;
    char host[256];
};

static void let_go(struct weir_redis_lookup *lookup)
{
    if (atomic_fetch_sub(&lookup->owners, 1) == 1)
        free(lookup);
}

static void print_addresses(struct weir_redis_addresses *addresses, const struct addrinfo *found)
{
    addresses->count = 0;
    for (; found != NULL && addresses->count < WEIR_REDIS_ADDRESSES_MAX; found = found->ai_next)
        if (getnameinfo(found->ai_addr, found->ai_addrlen, addresses->at[addresses->count],
                        WEIR_REDIS_ADDRESS_CHARS, NULL, 0, NI_NUMERICHOST)
            == 0)
            addresses->count++;
}

static int look_up(const char *host, int flags, struct weir_redis_addresses *addresses)
{
    const struct addrinfo wanted = { .ai_family = AF_UNSPEC,
                                     .ai_socktype = SOCK_STREAM,
                                     .ai_flags = flags };
    struct addrinfo *found = NULL;
    int failure = getaddrinfo(host, NULL, &wanted, &found);
    addresses->count = 0;
    if (failure != 0)
        return failure;
    print_addresses(addresses, found);
    freeaddrinfo(found);
    return 0;
}

bool weir_redis_is_literal(const char *host, struct weir_redis_addresses *addresses)
{
    return look_up(host, AI_NUMERICHOST, addresses) == 0 && addresses->count > 0;
}

static void *run(void *self)
{
    struct weir_redis_lookup *lookup = self;
    const uint64_t one = 1;
    lookup->failure = look_up(lookup->host, 0, &lookup->found);
    atomic_store(&lookup->has_ended, true);
    ssize_t written = write(lookup->wake_fd, &one, sizeof one);
    (void)written; /* it is full only if somebody is sure to wake up */
    close(lookup->wake_fd);
    let_go(lookup);
    return NULL;
}

/* The thread takes no signals. Who drives a lane may be a thread that does, and is the application's. */
static bool start_thread(struct weir_redis_lookup *lookup)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t before;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    weir_signals_block(&before);
    int failure = pthread_create(&thread, &attributes, run, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return failure == 0;
}

static struct weir_redis_lookup *begin(const char *host, int wake_fd)
{
    struct weir_redis_lookup *lookup = calloc(1, sizeof *lookup);
    if (lookup == NULL)
        return NULL;
    lookup->wake_fd = fcntl(wake_fd, F_DUPFD_CLOEXEC, 0);
    if (lookup->wake_fd < 0) {
        free(lookup);
        return NULL;
    }
    snprintf(lookup->host, sizeof lookup->host, "%s", host);
    atomic_init(&lookup->owners, 2);
    if (!start_thread(lookup)) {
        close(lookup->wake_fd);
        free(lookup);
        return NULL;
    }
    return lookup;
}

/* all of them */

static void forget(struct weir_redis_resolver *resolver, struct weir_redis_lookup *lookup)
{
    for (size_t i = 0; i < WEIR_REDIS_LOOKUPS_MAX; i++)
        if (resolver->lookups[i] == lookup)
            resolver->lookups[i] = NULL;
    let_go(lookup);
}

static void forget_ended(struct weir_redis_resolver *resolver)
{
    for (size_t i = 0; i < WEIR_REDIS_LOOKUPS_MAX; i++) {
        struct weir_redis_lookup *lookup = resolver->lookups[i];
        if (lookup != NULL && lookup->is_left && atomic_load(&lookup->has_ended))
            forget(resolver, lookup);
    }
}

static struct weir_redis_lookup *find_left(const struct weir_redis_resolver *resolver,
                                           const char *host)
{
    for (size_t i = 0; i < WEIR_REDIS_LOOKUPS_MAX; i++) {
        struct weir_redis_lookup *lookup = resolver->lookups[i];
        if (lookup != NULL && lookup->is_left && strcmp(lookup->host, host) == 0)
            return lookup;
    }
    return NULL;
}

/* Where one more is kept; NULL: there are too many. */
static struct weir_redis_lookup **free_place(struct weir_redis_resolver *resolver)
{
    for (size_t i = 0; i < WEIR_REDIS_LOOKUPS_MAX; i++)
        if (resolver->lookups[i] == NULL)
            return &resolver->lookups[i];
    return NULL;
}

void weir_redis_resolver_finish(struct weir_redis_resolver *resolver)
{
    for (size_t i = 0; i < WEIR_REDIS_LOOKUPS_MAX; i++)
        if (resolver->lookups[i] != NULL)
            forget(resolver, resolver->lookups[i]);
}

/* one of them */

struct weir_redis_lookup *weir_redis_lookup_start(struct weir_redis_resolver *resolver,
                                                  const char *host, int wake_fd, const char **why)
{
    /* What ended long ago may not be true any more. */
    forget_ended(resolver);
    struct weir_redis_lookup *left = find_left(resolver, host);
    if (left != NULL) {
        left->is_left = false;
        return left;
    }
    struct weir_redis_lookup **place = free_place(resolver);
    if (place == NULL) {
        *why = "its name cannot be resolved: too many are being looked up";
        return NULL;
    }
    *place = begin(host, wake_fd);
    if (*place == NULL)
        *why = "its name cannot be resolved: no thread";
    return *place;
}

bool weir_redis_lookup_take(struct weir_redis_resolver *resolver, struct weir_redis_lookup *lookup,
                            struct weir_redis_addresses *addresses, char *why, size_t size)
{
    if (!atomic_load(&lookup->has_ended))
        return false;
    int failure = lookup->failure;
    bool may_be_wrong = failure == EAI_AGAIN || failure == EAI_FAIL || failure == EAI_MEMORY
                        || failure == EAI_SYSTEM;
    if (!may_be_wrong)
        *addresses = lookup->found;
    if (lookup->found.count == 0)
        snprintf(why, size, "its name cannot be resolved: %s",
                 failure == 0 ? "no address" : gai_strerror(failure));
    forget(resolver, lookup);
    return true;
}

void weir_redis_lookup_leave(struct weir_redis_lookup *lookup)
{
    if (lookup != NULL)
        lookup->is_left = true;
}
