/* The thread of a Redis store: it alone has the connection, and it ends every check. */
#include "store/redis_internal.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

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

static void end_all(struct weir_redis *redis, enum weir_store_result result, const char *why)
{
    struct weir_check *check;
    while ((check = weir_pending_take_any(&redis->pending)) != NULL)
        weir_redis_end(check, result, why);
}

/* what the log says: a line for each change */

static bool set_why(struct weir_redis *redis, const char *why)
{
    pthread_mutex_lock(&redis->why_mutex);
    bool is_new = strcmp(redis->why, why) != 0;
    snprintf(redis->why, sizeof redis->why, "%s", why);
    pthread_mutex_unlock(&redis->why_mutex);
    return is_new;
}

static void report_down(struct weir_redis *redis, const char *why, uint64_t now_us)
{
    bool is_new = set_why(redis, why);
    /* While it is down the reasons come and go; what Redis itself says is worth a line more. */
    if (redis->is_reported && !(is_new && redis->was_refused))
        return;
    if (!redis->is_reported)
        redis->reported_at_us = now_us;
    redis->is_reported = true;
    weir_log_line(&redis->log, WEIR_WARNING,
                  "Redis at %s is not answering (%s); policies' on_store_failure applies.",
                  redis->url.shown, why);
}

static void report_up(struct weir_redis *redis)
{
    redis->was_unfit = false;
    set_why(redis, "");
    if (!redis->is_reported)
        return;
    redis->is_reported = false;
    uint64_t tenths = (weir_monotonic_us() - redis->reported_at_us) / 100000;
    weir_log_line(&redis->log, WEIR_INFO,
                  "Redis at %s answers again after %" PRIu64 ".%" PRIu64 " s.", redis->url.shown,
                  tenths / 10, tenths % 10);
}

/* how the connection fares */

void weir_redis_on_open(struct weir_redis *redis)
{
    weir_breaker_succeeded(&redis->breaker);
    weir_pending_accept(&redis->pending, true);
    if (!redis->was_unfit)
        report_up(redis);
}

void weir_redis_on_answer(struct weir_redis *redis)
{
    weir_breaker_answered(&redis->breaker);
    if (redis->was_unfit)
        report_up(redis);
}

/* From here on checks fail at once. */
static void go_down(struct weir_redis *redis, const char *why, uint64_t now_us)
{
    weir_pending_accept(&redis->pending, false);
    end_all(redis, WEIR_STORE_UNAVAILABLE, why);
    report_down(redis, why, now_us);
}

static void try_if_due(struct weir_redis *redis, uint64_t now_us)
{
    if (!weir_breaker_is_due(&redis->breaker, now_us))
        return;
    weir_breaker_try(&redis->breaker);
    if (weir_redis_resolve(redis) && weir_redis_connect(redis, now_us))
        return;
    weir_breaker_failed(&redis->breaker, now_us);
    report_down(redis, redis->lost_why, now_us);
}

static void give_up_try(struct weir_redis *redis, uint64_t now_us)
{
    bool tries = redis->stage != WEIR_REDIS_APART && redis->stage != WEIR_REDIS_OPEN;
    if (!tries || now_us < redis->stage_until_us)
        return;
    weir_redis_lose(redis, redis->stage == WEIR_REDIS_PINGING ? "it answers too slowly"
                                                              : "no answer within 1 s");
}

static void end_late(struct weir_redis *redis, uint64_t now_us)
{
    char why[40];
    snprintf(why, sizeof why, "no answer within %" PRIu64 " ms", redis->timeout_us / 1000);
    struct weir_check *check;
    while ((check = weir_pending_take_late(&redis->pending, now_us)) != NULL) {
        weir_redis_end(check, WEIR_STORE_TIMEOUT, why);
        if (!weir_breaker_timed_out(&redis->breaker))
            continue;
        if (redis->stage == WEIR_REDIS_OPEN)
            weir_redis_lose(redis, "5 timeouts");
        else
            go_down(redis, "5 timeouts", now_us);
        return;
    }
}

/* The connection was lost: the next address is tried, or after a while the first one again. */
static void settle(struct weir_redis *redis, uint64_t now_us)
{
    if (!redis->was_lost)
        return;
    bool was_open = redis->stage == WEIR_REDIS_OPEN;
    if (was_open)
        go_down(redis, redis->lost_why, now_us);
    weir_pending_forget(&redis->pending);
    weir_redis_close(redis);

    redis->address_at++;
    if (!was_open && weir_redis_connect(redis, now_us))
        return;
    weir_breaker_failed(&redis->breaker, now_us);
    if (!was_open)
        go_down(redis, redis->lost_why, now_us);
}

/* waiting */

static uint64_t earlier(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static uint64_t until(uint64_t time_us, uint64_t now_us)
{
    return time_us > now_us ? time_us - now_us : 0;
}

/* The longest that may be waited for news; 0: there is something to do. */
static uint64_t wait_us(struct weir_redis *redis)
{
    uint64_t now_us = weir_monotonic_us();
    uint64_t left_us;
    bool is_open = redis->stage == WEIR_REDIS_OPEN;
    if (!weir_pending_sleep(&redis->pending, is_open, now_us, &left_us))
        return 0;
    if (redis->was_lost)
        return 0;
    if (redis->breaker.state == WEIR_BREAKER_OPEN)
        return earlier(left_us, until(redis->breaker.try_at_us, now_us));
    return is_open ? left_us : earlier(left_us, until(redis->stage_until_us, now_us));
}

static short events_of(const struct weir_redis *redis)
{
    if (redis->stage == WEIR_REDIS_CONNECTING)
        return POLLOUT;
    return redis->has_output ? POLLIN | POLLOUT : POLLIN;
}

static void on_events(struct weir_redis *redis, short events)
{
    uint64_t now_us = weir_monotonic_us();
    const short trouble = POLLERR | POLLHUP;
    /* Reading goes first: what came in time must not be found late. */
    if (redis->stage != WEIR_REDIS_CONNECTING && (events & (POLLIN | trouble)) != 0)
        weir_redis_on_readable(redis, now_us);
    else if ((events & (POLLOUT | trouble)) != 0)
        weir_redis_on_writable(redis, now_us);
}

static void wait_for_news(struct weir_redis *redis)
{
    struct pollfd sources[2] = {
        { .fd = redis->wake_fd, .events = POLLIN },
        { .fd = redis->context == NULL ? -1 : redis->context->fd, .events = events_of(redis) },
    };
    uint64_t left_us = wait_us(redis);
    const struct timespec left = { .tv_sec = (time_t)(left_us / 1000000),
                                   .tv_nsec = (long)(left_us % 1000000) * 1000 };
    if (ppoll(sources, 2, left_us == UINT64_MAX ? NULL : &left, NULL) <= 0)
        return;
    if (sources[0].revents != 0) {
        uint64_t count;
        ssize_t got = read(redis->wake_fd, &count, sizeof count);
        (void)got;
    }
    if (sources[1].revents != 0)
        on_events(redis, sources[1].revents);
}

/* The first try: checks may come and wait for it as soon as the name is known. */
static void start(struct weir_redis *redis)
{
    uint64_t now_us = weir_monotonic_us();
    bool is_known = weir_redis_resolve(redis);
    if (is_known && weir_redis_connect(redis, now_us)) {
        weir_pending_accept(&redis->pending, true);
        return;
    }
    weir_breaker_failed(&redis->breaker, now_us);
    go_down(redis, redis->lost_why, now_us);
}

void *weir_redis_run(void *self)
{
    struct weir_redis *redis = self;
    start(redis);
    while (!weir_pending_stops(&redis->pending)) {
        uint64_t now_us = weir_monotonic_us();
        try_if_due(redis, now_us);
        give_up_try(redis, now_us);
        end_late(redis, now_us);
        weir_redis_send(redis);
        settle(redis, now_us);
        wait_for_news(redis);
    }
    end_all(redis, WEIR_STORE_CANCELLED, "the store is closing");
    weir_redis_close(redis);
    return NULL;
}
