/* Building a chain, waking and draining. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/align.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/options.h"
#include "chain/chain_internal.h"

#define PARKED_DEFAULT 10000u
#define PARKED_MAX     1000000u

/* How long a drain lets requests that wait come to their own end, before it wakes them. A store
 * answers or gives up well within it. */
#define GRACE_US UINT64_C(250000)

#define CHAIN_OPTIONS_FIRST (offsetof(struct weir_chain_options, wake_self) + sizeof(void *))
#define MIDDLEWARE_FIRST    (offsetof(struct weir_middleware, request_bytes) + sizeof(size_t))

/* making and freeing */

enum weir_code weir_chain_new(const struct weir_chain_options *options, struct weir_chain **chain,
                              struct weir_error *error)
{
    struct weir_chain_options ours;
    enum weir_code code = weir_options_take(&ours, sizeof ours, options, CHAIN_OPTIONS_FIRST,
                                            "WEIR_CHAIN_OPTIONS", error);
    if (code != WEIR_OK)
        return code;
    if (ours.parked_max > PARKED_MAX)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "parked_max is %u; it must be at most %u.", ours.parked_max,
                              PARKED_MAX);
    if ((unsigned)ours.waiting > WEIR_WAIT_IN_PLACE)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "waiting is %d, which is none of enum weir_wait_mode.",
                              (int)ours.waiting);

    struct weir_chain *made = calloc(1, sizeof *made);
    uint32_t parked_max = ours.parked_max == 0 ? PARKED_DEFAULT : ours.parked_max;
    if (made == NULL || !weir_parking_init(&made->parking, parked_max)) {
        free(made);
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    }
    weir_in_place_init(made, parked_max);
    made->magic = WEIR_CHAIN_MAGIC;
    made->log = ours.log;
    made->on_wake = ours.on_wake;
    made->wake_self = ours.wake_self;
    made->wake_fd = -1;
    made->wait_mode = ours.waiting;
    *chain = made;
    return WEIR_OK;
}

/* The index of the first link with that `self`; link_count: none. */
static size_t find_self(const struct weir_chain *chain, const void *self)
{
    size_t i = 0;
    while (i < chain->link_count
           && (chain->links[i].is_handler || chain->links[i].middleware.self != self))
        i++;
    return i;
}

/* One that stands in the chain several times is destroyed with the first. */
static void finish_link(struct weir_chain *chain, size_t index)
{
    struct weir_link *link = &chain->links[index];
    const struct weir_middleware *middleware = &link->middleware;
    if (!link->is_handler && middleware->destroy != NULL
        && (middleware->self == NULL || find_self(chain, middleware->self) == index))
        middleware->destroy(middleware->self);
    weir_pattern_finish(&link->pattern);
}

struct weir_chain *weir_chain_free(struct weir_chain *chain)
{
    if (chain == NULL)
        return NULL;
    /* Whoever woke the last request may not have returned yet. */
    while (atomic_load(&chain->wakers) > 0)
        sched_yield();
    weir_waiting_stop(chain);
    weir_in_place_finish(chain);
    for (size_t i = 0; i < chain->link_count; i++)
        finish_link(chain, i);
    free(chain->links);
    free(chain->app);
    if (chain->wake_fd >= 0)
        close(chain->wake_fd);
    weir_parking_finish(&chain->parking);
    chain->magic = 0;
    free(chain);
    return NULL;
}

/* adding links */

/* Takes `link` with its pattern, which is finished if that fails. */
static enum weir_code add_link(struct weir_chain *chain, struct weir_link *link)
{
    struct weir_link *links = realloc(chain->links, (chain->link_count + 1) * sizeof *chain->links);
    if (links == NULL) {
        weir_pattern_finish(&link->pattern);
        return WEIR_E_MEMORY;
    }
    link->slot = chain->slot_bytes;
    chain->slot_bytes += weir_aligned(link->middleware.request_bytes);
    chain->links = links;
    chain->links[chain->link_count++] = *link;
    return WEIR_OK;
}

/* A prefix matches itself and all below it, as the pattern "prefix" with a trailing star does. */
static enum weir_code compile_prefix(const char *prefix, struct weir_pattern *pattern)
{
    size_t length = strlen(prefix);
    while (length > 1 && prefix[length - 1] == '/')
        length--;
    char *text = malloc(length + sizeof "/*");
    if (text == NULL)
        return WEIR_E_MEMORY;
    memcpy(text, prefix, length);
    strcpy(text + length, length == 1 && prefix[0] == '/' ? "*" : "/*");
    enum weir_code code = weir_pattern_compile(text, false, pattern, NULL, NULL);
    free(text);
    return code;
}

/* Memory for each request is found by `self`, so it must not be somebody else's. */
static bool has_slot_of_its_own(const struct weir_chain *chain,
                                const struct weir_middleware *middleware)
{
    if (middleware->request_bytes == 0)
        return true;
    size_t index = find_self(chain, middleware->self);
    return middleware->self != NULL
           && (index == chain->link_count
               || chain->links[index].middleware.request_bytes == middleware->request_bytes);
}

enum weir_code weir_chain_use_at(struct weir_chain *chain, const char *prefix,
                                 const struct weir_middleware *middleware)
{
    if (chain == NULL || prefix == NULL || middleware == NULL)
        return WEIR_E_ARGUMENT;
    if (atomic_load(&chain->is_serving))
        return WEIR_E_STATE;

    struct weir_link link = { .is_handler = false };
    enum weir_code code = weir_options_take(&link.middleware, sizeof link.middleware, middleware,
                                            MIDDLEWARE_FIRST, "WEIR_MIDDLEWARE", NULL);
    if (code == WEIR_OK && !has_slot_of_its_own(chain, &link.middleware))
        code = WEIR_E_ARGUMENT;
    if (code == WEIR_OK)
        code = compile_prefix(prefix, &link.pattern);
    return code == WEIR_OK ? add_link(chain, &link) : code;
}

enum weir_code weir_chain_use(struct weir_chain *chain, const struct weir_middleware *middleware)
{
    return weir_chain_use_at(chain, "/", middleware);
}

static bool is_method(const char *method)
{
    for (const char *at = method; *at != '\0'; at++)
        if (!weir_is_token_char(*at))
            return false;
    return method[0] != '\0';
}

enum weir_code weir_chain_on(struct weir_chain *chain, const char *method, const char *pattern,
                             enum weir_step (*handler)(void *self, struct weir_request *request),
                             void *self)
{
    if (chain == NULL || method == NULL || pattern == NULL || handler == NULL || !is_method(method))
        return WEIR_E_ARGUMENT;
    if (atomic_load(&chain->is_serving))
        return WEIR_E_STATE;

    struct weir_link link = { .is_handler = true };
    link.middleware.self = self;
    link.middleware.on_request = handler;
    if (strcmp(method, "*") != 0)
        link.method = weir_text_from(method);
    enum weir_code code = weir_pattern_compile(pattern, false, &link.pattern, NULL, NULL);
    return code == WEIR_OK ? add_link(chain, &link) : code;
}

#define DEFINE_METHOD(verb, method)                                                                \
    enum weir_code weir_chain_##verb(                                                              \
        struct weir_chain *chain, const char *pattern,                                             \
        enum weir_step (*handler)(void *self, struct weir_request *request), void *self)           \
    {                                                                                              \
        return weir_chain_on(chain, method, pattern, handler, self);                               \
    }

/* clang-format off */
DEFINE_METHOD(get, "GET")
DEFINE_METHOD(post, "POST")
DEFINE_METHOD(put, "PUT")
DEFINE_METHOD(patch, "PATCH")
DEFINE_METHOD(delete, "DELETE")
DEFINE_METHOD(any, "*")
/* clang-format on */

/* where it may be served */

enum weir_code weir_chain_may_listen(const struct weir_chain *chain, int listener,
                                     struct weir_error *error)
{
    struct sockaddr_storage memory = { .ss_family = AF_UNSPEC };
    socklen_t size = sizeof memory;
    bool is_known = listener >= 0 && getsockname(listener, (struct sockaddr *)&memory, &size) == 0;
    const struct sockaddr *address = is_known ? (const struct sockaddr *)&memory : NULL;
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < chain->link_count && code == WEIR_OK; i++) {
        const struct weir_middleware *middleware = &chain->links[i].middleware;
        if (middleware->may_listen != NULL)
            code = middleware->may_listen(middleware->self, address, error);
    }
    return code;
}

/* waking */

void weir_chain_tell_loop(struct weir_chain *chain)
{
    if (chain->on_wake != NULL)
        chain->on_wake(chain->wake_self);
    if (chain->wake_fd >= 0) {
        const uint64_t one = 1;
        /* A full counter is readable already. */
        ssize_t written = write(chain->wake_fd, &one, sizeof one);
        (void)written;
    }
}

bool weir_wake(struct weir_ticket ticket)
{
    struct weir_chain *chain = ticket.chain;
    if (chain == NULL)
        return false;
    /* Once woken the request may end, and the server stop, before this thread goes on. */
    atomic_fetch_add(&chain->wakers, 1);
    bool woke = weir_parking_wake(&chain->parking, ticket.number);
    if (woke)
        weir_chain_tell_loop(chain);
    atomic_fetch_sub(&chain->wakers, 1);
    return woke;
}

int weir_chain_wake_fd(struct weir_chain *chain)
{
    if (chain->wake_fd < 0)
        chain->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return chain->wake_fd;
}

void weir_chain_wake_clear(struct weir_chain *chain)
{
    uint64_t wakes;
    ssize_t got = chain->wake_fd < 0 ? 0 : read(chain->wake_fd, &wakes, sizeof wakes);
    (void)got;
}

/* draining */

uint32_t weir_chain_parked(struct weir_chain *chain)
{
    pthread_mutex_lock(&chain->parking.lock);
    uint32_t count = chain->parking.count;
    pthread_mutex_unlock(&chain->parking.lock);
    struct weir_in_place_numbers in_place;
    weir_in_place_read_numbers(chain, &in_place);
    return count + in_place.staying;
}

bool weir_chain_is_stopping(struct weir_chain *chain)
{
    return atomic_load(&chain->is_stopping);
}

static uint64_t begin_drain(struct weir_chain *chain)
{
    struct weir_parking *parking = &chain->parking;
    atomic_store(&chain->is_stopping, true);
    pthread_mutex_lock(&parking->lock);
    if (!parking->stopping) {
        parking->stopping = true;
        parking->stopping_since_us = weir_monotonic_us();
    }
    uint64_t since_us = parking->stopping_since_us;
    pthread_mutex_unlock(&parking->lock);
    return since_us;
}

/* Waits until no request is under way, at most until `until_us`. */
static bool wait_idle(struct weir_chain *chain, uint64_t until_us)
{
    const struct timespec until = { .tv_sec = (time_t)(until_us / 1000000),
                                    .tv_nsec = (long)(until_us % 1000000) * 1000 };
    pthread_mutex_lock(&chain->parking.lock);
    while (atomic_load(&chain->under_way) > 0
           && pthread_cond_timedwait(&chain->parking.idle, &chain->parking.lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&chain->parking.lock);
    return atomic_load(&chain->under_way) == 0;
}

bool weir_chain_drain(struct weir_chain *chain, uint32_t timeout_ms)
{
    uint64_t grace_until_us = begin_drain(chain) + GRACE_US;
    uint64_t until_us = weir_monotonic_us() + (uint64_t)timeout_ms * 1000;
    uint64_t first_us = grace_until_us < until_us ? grace_until_us : until_us;
    if (wait_idle(chain, first_us))
        return true;

    /* With no time to wait, the grace still passes, over several calls. */
    if (timeout_ms > 0 || weir_monotonic_us() >= grace_until_us) {
        weir_in_place_drain(chain);
        if (weir_parking_wake_all(&chain->parking) > 0)
            weir_chain_tell_loop(chain);
    }
    return wait_idle(chain, until_us);
}
