/* What others learn of how a Redis store is: a line in the log for each change, and its state. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/redis_internal.h"

#define RETRY_MIN_US UINT64_C(1000000)
#define RETRY_MAX_US UINT64_C(10000000)

/* the log */

/* While it is down the reasons come and go; what Redis itself says is worth a line more. */
static bool may_say_down(struct weir_redis_link *link, const char *why, uint64_t now_us)
{
    struct weir_redis_voice *voice = link->redis->voice;
    /* Who is driven may hear nothing for hours, and then not know that it is up again. */
    if (link->redis->is_driven)
        return false;
    if (link->is_reported)
        return link->was_refused && weir_voice_reason(voice, link->reported_name, why, now_us);
    link->is_reported = true;
    link->reported_name = weir_voice_name(link->shown);
    return weir_voice_down(voice, link->reported_name, why, now_us);
}

void weir_link_report_down(struct weir_redis_link *link, const char *why, uint64_t now_us)
{
    snprintf(link->down_why, sizeof link->down_why, "%s", why);
    if (link->down_at_us == 0)
        link->down_at_us = now_us;
    link->owes_report = false;
    if (link->role == WEIR_LINK_CHECKS && may_say_down(link, why, now_us))
        weir_log_line(&link->redis->log, WEIR_WARNING,
                      "Redis at %s is not answering (%s); policies' on_store_failure applies.",
                      link->shown, why);
}

void weir_link_report_up(struct weir_redis_link *link, uint64_t now_us)
{
    link->down_why[0] = '\0';
    link->down_at_us = 0;
    if (!link->is_reported)
        return;
    uint64_t after_us;
    enum weir_voice_up up =
        weir_voice_up(link->redis->voice, link->reported_name,
                      weir_breaker_lasts(&link->breaker, now_us), now_us, &after_us);
    link->owes_report = up == WEIR_VOICE_LATER;
    link->is_reported = link->owes_report;
    if (up != WEIR_VOICE_SAY)
        return;
    uint64_t tenths = after_us / 100000;
    weir_log_line(&link->redis->log, WEIR_INFO,
                  "Redis at %s answers again after %" PRIu64 ".%" PRIu64 " s.", link->shown,
                  tenths / 10, tenths % 10);
}

/* errors */

static uint64_t name_of_key(const struct weir_check *check)
{
    char key[WEIR_KEY_MAX + 1];
    snprintf(key, sizeof key, "%.*s", (int)check->spends[0].key_length, check->spends[0].key);
    return weir_voice_name(key);
}

void weir_link_report_error(struct weir_redis_link *link, const struct weir_check *check,
                            bool is_of_server)
{
    struct weir_redis_errors *errors = &link->errors;
    uint64_t now_us = weir_monotonic_us();
    bool is_new = !errors->is_failing;
    if (!weir_errors_add(errors, name_of_key(check), is_of_server, check->why, now_us))
        return;
    if (is_new)
        errors->server = weir_voice_name(link->shown);
    weir_redis_tell(link->redis);
    if (link->redis->is_driven)
        return;
    if (weir_voice_failing(link->redis->voice, errors->server, is_new, errors->why, now_us))
        weir_log_line(&link->redis->log, WEIR_WARNING,
                      "Redis at %s does not count (%s)%s; policies' on_store_failure applies.",
                      link->shown, errors->why, weir_errors_advice(errors->why));
}

void weir_link_report_counted(struct weir_redis_link *link)
{
    uint64_t now_us = weir_monotonic_us(), after_us;
    if (!weir_errors_end(&link->errors, now_us))
        return;
    weir_redis_tell(link->redis);
    if (link->redis->is_driven)
        return;
    if (!weir_voice_counts(link->redis->voice, link->errors.server, now_us, &after_us))
        return;
    uint64_t tenths = after_us / 100000;
    weir_log_line(&link->redis->log, WEIR_INFO,
                  "Redis at %s counts again after %" PRIu64 ".%" PRIu64 " s.", link->shown,
                  tenths / 10, tenths % 10);
}

void weir_link_forget_errors(struct weir_redis_link *link)
{
    if (link->errors.is_failing && !link->redis->is_driven)
        weir_voice_leave_failing(link->redis->voice, link->errors.server);
    link->errors = (struct weir_redis_errors){ .count = 0 };
}

/* the state */

static bool is_worse(const struct weir_redis_link *link, const struct weir_redis_link *other)
{
    if (link->breaker.state != other->breaker.state)
        return weir_breaker_is_worse(link->breaker.state, other->breaker.state);
    return link->errors.is_failing && !other->errors.is_failing;
}

/* Why it is not as it should be; "": it is, or that is not known yet. */
static const char *why_of(const struct weir_redis_link *link)
{
    return link->breaker.state == WEIR_BREAKER_CLOSED ? link->errors.why : link->down_why;
}

static const struct weir_redis_link *worst_link(const struct weir_redis *redis)
{
    const struct weir_redis_link *worst = NULL;
    for (size_t i = 0; i < redis->link_count; i++) {
        const struct weir_redis_link *link = redis->links[i];
        if (link == NULL || link->role != WEIR_LINK_CHECKS || link->leaves)
            continue;
        if (worst == NULL || is_worse(link, worst))
            worst = link;
    }
    return worst;
}

static bool is_well(const struct weir_redis_link *link)
{
    return link->stage == WEIR_LINK_OPEN && link->breaker.state == WEIR_BREAKER_CLOSED
           && link->down_at_us == 0 && !link->was_unfit && !link->errors.is_failing
           && !link->was_lost && !link->moves && !link->leaves;
}

bool weir_redis_is_well(const struct weir_redis *redis)
{
    bool has_any = false;
    for (size_t i = 0; i < redis->link_count; i++) {
        const struct weir_redis_link *link = redis->links[i];
        if (link == NULL || link->role != WEIR_LINK_CHECKS)
            continue;
        if (!is_well(link))
            return false;
        has_any = true;
    }
    return has_any;
}

static void tell_health(struct weir_redis *redis)
{
    atomic_store_explicit(&redis->is_well, weir_redis_is_well(redis), memory_order_relaxed);
    const struct weir_redis_link *worst = worst_link(redis);
    bool is_cluster = redis->url.topology == WEIR_REDIS_CLUSTER;
    struct weir_redis_health health = { .breaker = WEIR_BREAKER_STARTING };
    if (worst != NULL) {
        health.breaker = worst->breaker.state;
        health.down_at_us = worst->down_at_us;
        health.try_at_us = worst->breaker.try_at_us;
        const char *why = why_of(worst);
        if (is_cluster && worst->has_place && why[0] != '\0')
            snprintf(health.why, sizeof health.why, "%.40s: %.50s", worst->shown, why);
        else
            snprintf(health.why, sizeof health.why, "%s", why);
        snprintf(health.server, sizeof health.server, "%.*s", (int)sizeof health.server - 1,
                 is_cluster ? redis->url.shown : worst->shown);
    }
    pthread_mutex_lock(&redis->health_mutex);
    redis->health = health;
    pthread_mutex_unlock(&redis->health_mutex);
}

void weir_redis_tell(struct weir_redis *redis)
{
    bool accepts = redis->topology->accepts(redis);
    tell_health(redis);
    if (redis->has_said && accepts == redis->accepts)
        return;
    redis->accepts = accepts;
    redis->has_said = true;
    weir_pending_accept(&redis->pending, accepts);
}

static uint64_t bounded(uint64_t us)
{
    return us < RETRY_MIN_US ? RETRY_MIN_US : us > RETRY_MAX_US ? RETRY_MAX_US : us;
}

void weir_redis_read_health(struct weir_redis *redis, struct weir_store_state *state)
{
    pthread_mutex_lock(&redis->health_mutex);
    const struct weir_redis_health health = redis->health;
    pthread_mutex_unlock(&redis->health_mutex);
    memcpy(state->server, health.server, sizeof state->server);
    state->breaker = health.breaker;
    bool lets_through =
        health.breaker == WEIR_BREAKER_CLOSED || health.breaker == WEIR_BREAKER_STARTING;
    bool accepts = atomic_load_explicit(&redis->pending.accepts, memory_order_relaxed);
    state->answering = accepts && lets_through;
    if (!state->answering || health.breaker == WEIR_BREAKER_CLOSED)
        memcpy(state->why, health.why, sizeof state->why);
    if (state->answering)
        return;
    uint64_t now_us = weir_monotonic_us();
    if (health.down_at_us > 0 && now_us > health.down_at_us)
        state->down_us = now_us - health.down_at_us;
    bool pauses = health.breaker == WEIR_BREAKER_OPEN && health.try_at_us > now_us;
    uint64_t pause_us = pauses ? health.try_at_us - now_us : 0;
    state->retry_us = bounded(pause_us > state->down_us ? pause_us : state->down_us);
}
