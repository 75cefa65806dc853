/* How a link lives: tries, failures, places that change. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/redis_internal.h"

/* making and freeing */

static bool is_to(const struct weir_redis_link *link, const struct weir_redis_place *place)
{
    return link->has_place && link->place.port == place->port
           && strcmp(link->place.host, place->host) == 0;
}

static void show(struct weir_redis_link *link)
{
    const struct weir_redis_place *place = &link->place;
    if (place->host[0] == '\0')
        snprintf(link->shown, sizeof link->shown, "%s", link->redis->url.shown);
    else
        snprintf(link->shown, sizeof link->shown,
                 strchr(place->host, ':') != NULL ? "[%s]:%u" : "%s:%u", place->host, place->port);
}

static size_t free_index(const struct weir_redis *redis)
{
    size_t index = 0;
    while (index < redis->link_count && redis->links[index] != NULL)
        index++;
    return index;
}

struct weir_redis_link *weir_link_new(struct weir_redis *redis, enum weir_redis_role role,
                                      const struct weir_redis_place *place,
                                      const struct weir_redis_login *login)
{
    size_t index = free_index(redis);
    if (index == WEIR_REDIS_LINKS_MAX)
        return NULL;
    struct weir_redis_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return NULL;
    link->redis = redis;
    link->index = (uint16_t)index;
    link->role = role;
    link->login = login;
    link->has_place = place != NULL;
    if (place != NULL)
        link->place = *place;
    show(link);
    weir_commands_init(&link->under_way, WEIR_REDIS_IN_FLIGHT_MAX, link->index, false);
    weir_commands_init(&link->waiting, WEIR_REDIS_PENDING_MAX, link->index, true);
    weir_breaker_init(&link->breaker, redis->seed + index * UINT64_C(0x9e3779b97f4a7c15));
    redis->links[index] = link;
    if (index == redis->link_count)
        redis->link_count++;
    return link;
}

struct weir_redis_link *weir_redis_link_to(struct weir_redis *redis, enum weir_redis_role role,
                                           const struct weir_redis_place *place)
{
    for (size_t i = 0; i < redis->link_count; i++) {
        struct weir_redis_link *link = redis->links[i];
        if (link != NULL && link->role == role && !link->leaves && is_to(link, place))
            return link;
    }
    return weir_link_new(redis, role, place, &redis->url.login);
}

void weir_link_free(struct weir_redis_link *link)
{
    struct weir_redis *redis = link->redis;
    weir_link_close(link);
    if (link->is_reported)
        weir_voice_leave(redis->voice, link->reported_name);
    weir_link_forget_errors(link);
    weir_redis_lookup_leave(link->lookup);
    weir_commands_finish(&link->under_way);
    weir_commands_finish(&link->waiting);
    redis->links[link->index] = NULL;
    while (redis->link_count > 0 && redis->links[redis->link_count - 1] == NULL)
        redis->link_count--;
    free(link);
}

void weir_link_leave(struct weir_redis_link *link)
{
    link->leaves = true;
}

/* saying why */

void weir_link_lose(struct weir_redis_link *link, const char *why)
{
    if (link->was_lost)
        return;
    link->was_lost = true;
    snprintf(link->lost_why, sizeof link->lost_why, "%.*s", WEIR_REDIS_WHY_CHARS - 1, why);
}

void weir_link_refuse(struct weir_redis_link *link, const char *what, const char *why)
{
    char text[WEIR_REDIS_WHY_CHARS];
    snprintf(text, sizeof text, "%.20s%.75s", what, why);
    if (!link->was_lost)
        link->was_refused = true;
    weir_link_lose(link, text);
}

bool weir_link_lets_through(const struct weir_redis_link *link)
{
    bool may_wait =
        link->breaker.state == WEIR_BREAKER_STARTING && link->stage >= WEIR_LINK_CONNECTING;
    return may_wait || link->breaker.state == WEIR_BREAKER_CLOSED;
}

/* A link that only asks has no say in whether checks are taken, nor in when the store has
 * started. */
static void tell_of(struct weir_redis_link *link)
{
    if (link->role == WEIR_LINK_CHECKS)
        weir_redis_tell(link->redis);
}

/* From here on checks fail at once. */
static void go_down(struct weir_redis_link *link, const char *why, uint64_t now_us)
{
    weir_link_report_down(link, why, now_us);
    tell_of(link);
    weir_redis_end_row(link->redis, &link->under_way, WEIR_STORE_UNAVAILABLE, why);
    weir_redis_end_row(link->redis, &link->waiting, WEIR_STORE_UNAVAILABLE, why);
    weir_pending_forget(&link->redis->pending, &link->waiting);
}

/* trying */

static void on_try_failed(struct weir_redis_link *link, uint64_t now_us)
{
    weir_breaker_failed(&link->breaker, now_us);
    go_down(link, link->lost_why, now_us);
    if (link->redis->topology->on_lost != NULL)
        link->redis->topology->on_lost(link, now_us);
}

static void connect_first(struct weir_redis_link *link, uint64_t now_us)
{
    link->address_at = 0;
    if (weir_link_connect(link, now_us))
        tell_of(link);
    else
        on_try_failed(link, now_us);
}

/* With what a lookup brought, or with the last addresses, where the name server is in trouble
 * itself. */
static void connect_or_fail(struct weir_redis_link *link, const char *why, uint64_t now_us)
{
    if (link->addresses.count > 0)
        connect_first(link, now_us);
    else
        weir_link_lose(link, why);
}

/* False: it goes on, or there is none. */
static bool take_lookup(struct weir_redis_link *link, uint64_t now_us)
{
    char why[WEIR_REDIS_WHY_CHARS];
    if (link->lookup == NULL
        || !weir_redis_lookup_take(&link->redis->resolver, link->lookup, &link->addresses, why,
                                   sizeof why))
        return false;
    link->lookup = NULL;
    connect_or_fail(link, why, now_us);
    return true;
}

/* A lookup that was given up may still bring something; there is never more than one. */
static void look_up(struct weir_redis_link *link, uint64_t now_us)
{
    link->stage = WEIR_LINK_RESOLVING;
    link->stage_until_us = now_us + WEIR_REDIS_TRY_US;
    bool hangs = link->lookup != NULL;
    if (take_lookup(link, now_us))
        return;
    if (hangs && link->addresses.count > 0) {
        connect_first(link, now_us);
        return;
    }
    const char *why = "";
    if (!hangs)
        link->lookup = weir_redis_lookup_start(&link->redis->resolver, link->place.host,
                                               link->redis->wake_fd, &why);
    if (link->lookup == NULL)
        connect_or_fail(link, why, now_us);
}

static bool has_address(struct weir_redis_link *link)
{
    struct weir_redis_addresses literal = { .count = 1 }; /* a socket's path is its address */
    bool is_name =
        link->place.host[0] != '\0' && !weir_redis_is_literal(link->place.host, &literal);
    if (!is_name)
        link->addresses = literal;
    return !is_name;
}

/* Whoever waits for the store to start waits until it is known where the server is. */
static void tell_of_try(struct weir_redis *redis)
{
    if (redis->has_said)
        weir_redis_tell(redis);
}

static void begin_at_place(struct weir_redis_link *link, uint64_t now_us)
{
    if (has_address(link))
        connect_first(link, now_us);
    else
        look_up(link, now_us);
}

void weir_link_begin(struct weir_redis_link *link, uint64_t now_us)
{
    const struct weir_redis_topology_type *topology = link->redis->topology;
    weir_breaker_try(&link->breaker);
    link->was_refused = false;
    if (topology->seek != NULL && topology->seek(link, now_us)) {
        link->stage = WEIR_LINK_SEEKING;
        link->stage_until_us = UINT64_MAX;
    } else {
        begin_at_place(link, now_us);
    }
    tell_of_try(link->redis);
}

void weir_link_go(struct weir_redis_link *link, const struct weir_redis_place *place)
{
    bool goes_on = link->stage == WEIR_LINK_SEEKING && is_to(link, place);
    link->starts_anew = (link->moves && link->starts_anew) || !goes_on;
    link->has_place = true;
    link->place = *place;
    link->moves = true;
}

static void give_up_try(struct weir_redis_link *link, uint64_t now_us)
{
    static const char *const whys[] = {
        [WEIR_LINK_SEEKING] = "nobody says where it is",
        [WEIR_LINK_RESOLVING] = "its name cannot be resolved: no answer within 1 s",
        [WEIR_LINK_CONNECTING] = "no answer within 1 s",
        [WEIR_LINK_SECURING] = "TLS: no answer within 1 s; does it speak TLS?",
        [WEIR_LINK_GREETING] = "no answer within 1 s",
        [WEIR_LINK_PINGING] = "it answers too slowly",
    };
    bool tries = link->stage != WEIR_LINK_APART && link->stage != WEIR_LINK_OPEN;
    if (!tries || link->was_lost || now_us < link->stage_until_us)
        return;
    if (link->stage == WEIR_LINK_RESOLVING)
        connect_or_fail(link, whys[link->stage], now_us);
    else
        weir_link_lose(link, whys[link->stage]);
}

void weir_link_tend(struct weir_redis_link *link, uint64_t now_us)
{
    if (link->stage == WEIR_LINK_RESOLVING && !link->was_lost)
        take_lookup(link, now_us);
    bool is_new = link->stage == WEIR_LINK_APART && link->breaker.state == WEIR_BREAKER_STARTING;
    if (is_new || weir_breaker_is_due(&link->breaker, now_us))
        weir_link_begin(link, now_us);
    give_up_try(link, now_us);
    if (link->owes_report && weir_breaker_lasts(&link->breaker, now_us))
        weir_link_report_up(link, now_us);
}

uint64_t weir_link_due_us(const struct weir_redis_link *link)
{
    if (link->was_lost || link->moves || link->leaves)
        return 0;
    if (link->stage == WEIR_LINK_OPEN)
        return link->owes_report ? link->breaker.closed_at_us + WEIR_BREAKER_LASTING_US
                                 : UINT64_MAX;
    if (link->stage != WEIR_LINK_APART)
        return link->stage_until_us;
    return link->breaker.state == WEIR_BREAKER_OPEN ? link->breaker.try_at_us : 0;
}

/* how it fares */

void weir_link_on_open(struct weir_redis_link *link)
{
    uint64_t now_us = weir_monotonic_us();
    weir_breaker_succeeded(&link->breaker, now_us);
    if (!link->was_unfit)
        weir_link_report_up(link, now_us);
    tell_of(link);
    if (link->redis->topology->on_open != NULL)
        link->redis->topology->on_open(link, now_us);
}

void weir_link_on_answer(struct weir_redis_link *link, bool has_written)
{
    weir_breaker_answered(&link->breaker);
    if (!link->was_unfit || !has_written)
        return;
    link->was_unfit = false;
    weir_link_report_up(link, weir_monotonic_us());
    tell_of(link);
}

void weir_link_on_timeout(struct weir_redis_link *link, uint64_t now_us)
{
    if (link->was_lost || !weir_breaker_timed_out(&link->breaker, now_us, link->redis->timeout_us))
        return;
    if (link->stage == WEIR_LINK_OPEN)
        weir_link_lose(link, "5 timeouts");
    else
        go_down(link, "5 timeouts", now_us);
}

/* The connection was lost: the next address is tried, or after a while the first one again. */
static void settle_lost(struct weir_redis_link *link, uint64_t now_us)
{
    bool was_open = link->stage == WEIR_LINK_OPEN;
    bool has_more = link->stage >= WEIR_LINK_CONNECTING && !was_open;
    if (!was_open) {
        weir_link_close(link);
        link->address_at++;
        if (has_more && weir_link_connect(link, now_us))
            return;
    }
    on_try_failed(link, now_us);
    weir_link_close(link);
}

static void settle_move(struct weir_redis_link *link, uint64_t now_us)
{
    link->moves = false;
    weir_redis_end_row(link->redis, &link->under_way, WEIR_STORE_UNAVAILABLE,
                       "its server is one no more");
    weir_link_close(link);
    weir_redis_lookup_leave(link->lookup);
    link->lookup = NULL;
    if (link->starts_anew) {
        link->addresses.count = 0;
        weir_link_forget_errors(link);
    }
    show(link);
    if (link->starts_anew)
        weir_breaker_start_anew(&link->breaker);
    begin_at_place(link, now_us);
    tell_of_try(link->redis);
}

static void settle_leave(struct weir_redis_link *link)
{
    struct weir_redis *redis = link->redis;
    struct weir_redis_command command;
    weir_redis_end_row(redis, &link->under_way, WEIR_STORE_UNAVAILABLE, "its server has left");
    while (weir_pending_lift(&redis->pending, &link->waiting, &command))
        weir_redis_send(redis, NULL, &command);
    bool takes_checks = link->role == WEIR_LINK_CHECKS;
    weir_link_free(link);
    if (takes_checks)
        weir_redis_tell(redis);
}

void weir_link_settle(struct weir_redis_link *link, uint64_t now_us)
{
    if (link->leaves)
        settle_leave(link);
    else if (link->moves)
        settle_move(link, now_us);
    else if (link->was_lost)
        settle_lost(link, now_us);
}
