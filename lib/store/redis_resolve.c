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

/* Shared by the thread that looks up and the one that asked; the last one frees it. */
struct weir_redis_lookup {
    atomic_uint owners;
    atomic_bool has_ended; /* what follows is complete */
    int wake_fd;
    int failure; /* of getaddrinfo() */
    struct weir_redis_addresses found;
    char host[256];
};

static void let_go(struct weir_redis_lookup *lookup)
{
    if (atomic_fetch_sub(&lookup->owners, 1) > 1)
        return;
    close(lookup->wake_fd);
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
    let_go(lookup);
    return NULL;
}

static bool start_thread(struct weir_redis_lookup *lookup)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int failure = pthread_create(&thread, &attributes, run, lookup);
    pthread_attr_destroy(&attributes);
    return failure == 0;
}

struct weir_redis_lookup *weir_redis_lookup_start(const char *host, int wake_fd)
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

bool weir_redis_lookup_take(struct weir_redis_lookup *lookup,
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
    let_go(lookup);
    return true;
}

void weir_redis_lookup_drop(struct weir_redis_lookup *lookup)
{
    if (lookup != NULL)
        let_go(lookup);
}
