/* The thread of a Redis store: it alone has the links, and it ends every check. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/redis_internal.h"

void weir_redis_wake(struct weir_redis *redis)
{
    const uint64_t one = 1;
    /* The counter can only be full if the thread is sure to wake up. */
    ssize_t written = write(redis->wake_fd, &one, sizeof one);
    (void)written;
}

/* ending checks */

void weir_redis_end(struct weir_check *check, enum weir_store_result result, const char *why)
{
    check->result = result;
    if (why != NULL)
        snprintf(check->why, sizeof check->why, "%s", why);
    check->done(check);
}

void weir_redis_end_row(struct weir_redis *redis, const struct weir_redis_commands *row,
                        enum weir_store_result result, const char *why)
{
    struct weir_redis_command command;
    size_t at = row->first;
    while (weir_pending_take_from(&redis->pending, row, &at, &command))
        weir_redis_end(command.check, result, why);
}

static void end_all(struct weir_redis *redis, enum weir_store_result result, const char *why)
{
    struct weir_check *check;
    while ((check = weir_pending_take_any(&redis->pending)) != NULL)
        weir_redis_end(check, result, why);
}

static void end_late(struct weir_redis *redis, uint64_t now_us)
{
    struct weir_redis_command late;
    while (weir_pending_take_late(&redis->pending, now_us, &late)) {
        char why[40];
        snprintf(why, sizeof why, "no answer within %" PRIu64 " ms", redis->timeout_us / 1000);
        weir_redis_end(late.check, WEIR_STORE_TIMEOUT, why);
        if (late.link != WEIR_REDIS_NO_LINK)
            weir_link_on_timeout(redis->links[late.link], now_us);
    }
}

/* This thread may have been busy, or stopped, for longer than the checks may take. What was answered
 * in time is not late, though it is found late. */
static void read_before_late(struct weir_redis *redis, uint64_t now_us)
{
    if (!weir_pending_is_late(&redis->pending, now_us))
        return;
    for (size_t i = 0; i < redis->link_count; i++)
        if (redis->links[i] != NULL && redis->links[i]->stage == WEIR_LINK_OPEN)
            weir_link_read(redis->links[i], now_us);
}

/* handing checks out */

void weir_redis_send(struct weir_redis *redis, struct weir_redis_link *link,
                     const struct weir_redis_command *command)
{
    bool is_sent = link != NULL
                       ? weir_link_give(link, command)
                       : weir_pending_put(&redis->pending, &redis->pending.unsent, command);
    if (is_sent)
        return;
    weir_pending_take_held(&redis->pending);
    weir_redis_end(command->check, WEIR_STORE_UNAVAILABLE, "too many checks wait already");
}

bool weir_redis_send_again(struct weir_redis *redis, struct weir_redis_link *link,
                           struct weir_redis_command *command)
{
    if (command->repeats == WEIR_REDIS_REPEATS_MAX)
        return false;
    command->repeats++;
    weir_pending_put_back(&redis->pending, command->check);
    weir_redis_send(redis, link, command);
    return true;
}

static void hand_out(struct weir_redis *redis)
{
    struct weir_redis_command command;
    while (weir_pending_lift(&redis->pending, &redis->pending.unsent, &command)) {
        const char *why = "";
        struct weir_redis_link *link = redis->topology->route(redis, command.check, &why);
        if (link != NULL) {
            weir_redis_send(redis, link, &command);
            continue;
        }
        weir_pending_take_held(&redis->pending);
        weir_redis_end(command.check, WEIR_STORE_UNAVAILABLE,
                       why[0] != '\0' ? why : "not connected");
    }
}

/* waiting */

/* The system may end a wait late by a thousandth of it, or more where the process is nice. */
#define WAIT_MAX_US UINT64_C(1000000)

/* The longest that may be waited for news; 0: there is something to do. */
static uint64_t wait_us(struct weir_redis *redis)
{
    uint64_t now_us = weir_monotonic_us();
    uint64_t left_us;
    if (!weir_pending_sleep(&redis->pending, now_us, &left_us))
        return 0;
    uint64_t due_us = redis->tick_at_us;
    for (size_t i = 0; i < redis->link_count; i++)
        if (redis->links[i] != NULL)
            due_us = weir_earlier(due_us, weir_link_due_us(redis->links[i]));
    if (due_us == UINT64_MAX)
        return left_us;
    return weir_earlier(left_us, due_us > now_us ? due_us - now_us : 0);
}

/* What is polled: the eventfd, what who drives it waits for as well (-1: nothing, which poll() skips),
 * and the socket of each link that has one. */
#define OF_OURS 2

struct sources {
    struct pollfd polled[OF_OURS + WEIR_REDIS_LINKS_MAX];
    struct weir_redis_link *links[OF_OURS + WEIR_REDIS_LINKS_MAX];
    nfds_t count;
};

static void gather(struct sources *sources, const struct weir_redis *redis, int fd)
{
    sources->polled[0] = (struct pollfd){ .fd = redis->wake_fd, .events = POLLIN };
    sources->polled[1] = (struct pollfd){ .fd = fd, .events = POLLIN };
    sources->count = OF_OURS;
    for (size_t i = 0; i < redis->link_count; i++) {
        struct weir_redis_link *link = redis->links[i];
        if (link == NULL || link->context == NULL)
            continue;
        sources->links[sources->count] = link;
        sources->polled[sources->count++] =
            (struct pollfd){ .fd = link->context->fd, .events = weir_link_events(link) };
    }
}

/* Links come and go between rounds only, so those that were polled are still there. */
bool weir_redis_wait(struct weir_redis *redis, int fd, uint64_t most_us)
{
    struct sources sources;
    gather(&sources, redis, fd);
    uint64_t left_us = weir_earlier(most_us, most_us == 0 ? 0 : wait_us(redis));
    if (left_us != UINT64_MAX)
        left_us = weir_earlier(left_us, WAIT_MAX_US);
    const struct timespec left = { .tv_sec = (time_t)(left_us / 1000000),
                                   .tv_nsec = (long)(left_us % 1000000) * 1000 };
    if (ppoll(sources.polled, sources.count, left_us == UINT64_MAX ? NULL : &left, NULL) <= 0)
        return false;
    if (sources.polled[0].revents != 0) {
        uint64_t count;
        ssize_t got = read(redis->wake_fd, &count, sizeof count);
        (void)got;
    }
    uint64_t now_us = weir_monotonic_us();
    for (nfds_t i = OF_OURS; i < sources.count; i++)
        if (sources.polled[i].revents != 0)
            weir_link_on_events(sources.links[i], sources.polled[i].revents, now_us);
    return sources.polled[1].revents != 0;
}

/* the thread */

static void for_each(struct weir_redis *redis, void (*act)(struct weir_redis_link *, uint64_t),
                     uint64_t now_us)
{
    for (size_t i = 0; i < redis->link_count; i++)
        if (redis->links[i] != NULL)
            act(redis->links[i], now_us);
}

static void write_to(struct weir_redis_link *link, uint64_t now_us)
{
    (void)now_us;
    weir_link_write(link);
}

static void ask_for_advice(struct weir_redis_link *link, uint64_t now_us)
{
    (void)now_us;
    if (link->role == WEIR_LINK_CHECKS && link->stage == WEIR_LINK_OPEN && !link->was_lost)
        weir_redis_advice_ask(link);
}

void weir_redis_do_round(struct weir_redis *redis)
{
    uint64_t now_us = weir_monotonic_us();
    read_before_late(redis, now_us);
    redis->tick_at_us =
        redis->topology->tick != NULL ? redis->topology->tick(redis, now_us) : UINT64_MAX;
    for_each(redis, weir_link_tend, now_us);
    end_late(redis, now_us);
    for_each(redis, ask_for_advice, now_us);
    hand_out(redis);
    for_each(redis, write_to, now_us);
    for_each(redis, weir_link_settle, now_us);
}

static void free_links(struct weir_redis *redis)
{
    while (redis->link_count > 0)
        weir_link_free(redis->links[redis->link_count - 1]);
}

void weir_redis_shut(struct weir_redis *redis)
{
    end_all(redis, WEIR_STORE_CANCELLED, "the store is closing");
    free_links(redis);
}

void *weir_redis_run(void *self)
{
    struct weir_redis *redis = self;
    if (redis->topology->start != NULL)
        redis->topology->start(redis, weir_monotonic_us());
    while (!weir_pending_stops(&redis->pending)) {
        weir_redis_do_round(redis);
        weir_redis_wait(redis, -1, UINT64_MAX);
    }
    weir_redis_shut(redis);
    return NULL;
}
