/* The topology of a master that Sentinels name. The link to it is the only one that takes checks; the
 * others go to Sentinels, of which one is listened to, and asked again and again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/redis_internal.h"
#include "store/redis_sentinel.h"
#include "store/redis_sentinel_search.h"

/* How often the Sentinel that is listened to is asked all the same: its word may get lost, and one
 * that does not answer until then is replaced. */
#define POLL_US UINT64_C(1000000)

/* Sentinels tell each other every two seconds what they know. For some more a Sentinel may name the
 * master that was just left, and is not believed as long as the new one answers, or may yet. */
#define LAG_US UINT64_C(5000000)

enum {
    QUESTION = WEIR_REDIS_TO_TOPOLOGY,
    SUBSCRIPTION /* the reply to SUBSCRIBE or UNSUBSCRIBE */
};

struct sentinels {
    struct weir_redis_link *master;
    bool is_known;                /* where the master is, at `master->place`             */
    bool is_tried;                /* …and that it is there still has to be seen          */
    struct weir_redis_place left; /* where it was before                                 */
    uint64_t left_until_us;       /* so long a Sentinel may not have heard of that       */
    char unfit_why[WEIR_REDIS_WHY_CHARS]; /* what it said when it turned out to be none     */

    struct weir_redis_link *links[WEIR_REDIS_PLACES_MAX]; /* by place in the URL; NULL: none */
    bool awaits[WEIR_REDIS_PLACES_MAX];                   /* the answer to the question    */
    bool subscribes[WEIR_REDIS_PLACES_MAX];
    struct weir_sentinel_search search;
    struct weir_breaker breaker; /* of all together: when the next round may begin          */
    size_t heard;                /* the one that is listened to; NOBODY                     */
    uint64_t poll_us;            /* when that one is asked again                            */

    char why[WEIR_REDIS_WHY_CHARS]; /* the most telling reason of this round                */
    bool was_said;                  /* …it is a Sentinel's own                              */
    bool is_reported;               /* the log has said that none names the master          */

    struct weir_redis_place moved_to; /* what the log says, or has said, last               */
    bool owes_move;                   /* …and has not said yet                              */
    uint64_t say_move_at_us;          /* it does not before                                 */
};

static struct sentinels *own_of(const struct weir_redis *redis)
{
    return redis->own;
}

/* Which Sentinel's link it is; NOBODY: the master's, or of one that was let go. */
static size_t index_of(const struct sentinels *own, const struct weir_redis_link *link)
{
    for (size_t i = 0; i < own->search.count; i++)
        if (own->links[i] == link)
            return i;
    return WEIR_SENTINEL_NOBODY;
}

static bool is_same(const struct weir_redis_place *one, const struct weir_redis_place *other)
{
    return one->port == other->port && strcmp(one->host, other->host) == 0;
}

/* the log */

static void report_none(struct weir_redis *redis)
{
    struct sentinels *own = own_of(redis);
    if (own->is_reported || !own->is_known)
        return;
    own->is_reported = true;
    if (redis->is_silent)
        return;
    weir_log_line(&redis->log, WEIR_WARNING,
                  "No Sentinel names the master \"%s\" any more (%s); Redis at %s is used on.",
                  redis->url.master, own->why, own->master->shown);
}

static void report_again(struct weir_redis *redis)
{
    struct sentinels *own = own_of(redis);
    if (!own->is_reported)
        return;
    own->is_reported = false;
    if (redis->is_silent)
        return;
    weir_log_line(&redis->log, WEIR_INFO, "The Sentinel at %s names the master \"%s\" again.",
                  own->links[own->heard]->shown, redis->url.master);
}

static void say_move(struct weir_redis *redis)
{
    const struct weir_redis_place *place = &own_of(redis)->moved_to;
    bool is_v6 = strchr(place->host, ':') != NULL;
    weir_log_line(&redis->log, WEIR_INFO,
                  is_v6 ? "The master \"%s\" is now at [%s]:%u, says a Sentinel."
                        : "The master \"%s\" is now at %s:%u, says a Sentinel.",
                  redis->url.master, place->host, place->port);
}

/* Of moves that follow each other quickly, the last one is said. */
static void report_moves(struct weir_redis *redis, uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    if (!own->owes_move || now_us < own->say_move_at_us)
        return;
    own->owes_move = false;
    own->say_move_at_us = now_us + WEIR_VOICE_PAUSE_US;
    if (!redis->is_silent)
        say_move(redis);
}

static void note_move(struct weir_redis *redis, const struct weir_redis_place *place,
                      uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    own->moved_to = *place;
    own->owes_move = true;
    redis->tick_at_us = weir_earlier(redis->tick_at_us, own->say_move_at_us);
    report_moves(redis, now_us);
}

/* What a Sentinel says tells more than that another one cannot be reached. */
static void note_why(struct sentinels *own, bool is_said, const char *why)
{
    if (own->why[0] != '\0' && (own->was_said || !is_said))
        return;
    own->was_said = is_said;
    snprintf(own->why, sizeof own->why, "%.*s", (int)sizeof own->why - 1, why);
}

static void note_silence(struct sentinels *own, const char *why)
{
    char text[WEIR_REDIS_WHY_CHARS];
    snprintf(text, sizeof text, "no Sentinel answers: %.70s", why);
    note_why(own, false, text);
}

static void note_refusal(struct sentinels *own, size_t index, const char *why)
{
    char text[WEIR_REDIS_WHY_CHARS];
    snprintf(text, sizeof text, "Sentinel %.40s: %.44s", own->links[index]->shown, why);
    note_why(own, true, text);
}

/* looking for the master */

static void begin_search(struct weir_redis *redis, uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    redis->tick_at_us = now_us;
    if (own->search.is_under_way)
        return;
    own->why[0] = '\0';
    own->was_said = false;
    weir_sentinel_search_begin(&own->search, now_us);
}

static void let_go(struct sentinels *own, size_t index)
{
    if (own->links[index] != NULL)
        weir_link_leave(own->links[index]);
    own->links[index] = NULL;
    own->awaits[index] = own->subscribes[index] = false;
    if (own->heard == index)
        own->heard = WEIR_SENTINEL_NOBODY;
}

/* Nobody says where it is: then it is where it was, as far as that is known. */
static void on_search_over(struct weir_redis *redis, uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    weir_breaker_failed(&own->breaker, now_us);
    report_none(redis);
    if (own->master->holds)
        weir_link_lose(own->master, own->unfit_why);
    else if (own->master->stage != WEIR_LINK_SEEKING)
        return;
    else if (own->is_known)
        weir_link_go(own->master, &own->master->place);
    else
        weir_link_lose(own->master, own->why);
}

static void on_failed(struct weir_redis *redis, size_t index, uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    bool was_heard = own->heard == index;
    let_go(own, index);
    if (weir_sentinel_search_failed(&own->search, index, now_us)) {
        on_search_over(redis, now_us);
    } else if (was_heard && !own->search.is_under_way) {
        weir_sentinel_search_doubt(&own->search);
        begin_search(redis, now_us);
    }
}

/* asking */

static bool send_words(struct weir_redis_link *link, int kind, struct weir_text first,
                       struct weir_text second, struct weir_text third)
{
    const struct weir_text words[] = { first, second, third };
    return weir_redis_ask(link, words, third.at == NULL ? 2 : 3, (enum weir_redis_kind)kind);
}

/* A subscriber may ask nothing (RESP 2), so the subscription is interrupted. What is published in
 * between is found out by the next question. */
static void ask(struct weir_redis *redis, size_t index, uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    struct weir_redis_link *link = own->links[index];
    const struct weir_text channel = WEIR_TEXT(WEIR_SENTINEL_CHANNEL), none = { NULL, 0 };
    bool is_sent = !own->subscribes[index]
                   || send_words(link, SUBSCRIPTION, WEIR_TEXT("UNSUBSCRIBE"), channel, none);
    is_sent = is_sent
              && send_words(link, QUESTION, WEIR_TEXT("SENTINEL"),
                            WEIR_TEXT("get-master-addr-by-name"), weir_text_from(redis->url.master))
              && send_words(link, SUBSCRIPTION, WEIR_TEXT("SUBSCRIBE"), channel, none);
    if (!is_sent)
        weir_link_lose(link, "out of memory");
    own->awaits[index] = own->subscribes[index] = true;
    if (index == own->heard)
        own->poll_us = now_us + POLL_US;
}

static void begin_to_ask(struct weir_redis *redis, size_t index, uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    if (own->links[index] != NULL) {
        if (own->links[index]->stage == WEIR_LINK_OPEN && !own->awaits[index])
            ask(redis, index, now_us);
        return;
    }
    own->links[index] =
        weir_link_new(redis, WEIR_LINK_ASKS, &redis->url.places[index], &redis->url.sentinel_login);
    if (own->links[index] != NULL)
        return;
    note_silence(own, "out of memory");
    on_failed(redis, index, now_us);
}

static void drop_silent(struct weir_redis *redis, size_t index, uint64_t now_us)
{
    note_silence(own_of(redis), "no answer within 1 s");
    on_failed(redis, index, now_us);
}

static void poll_heard(struct weir_redis *redis, uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    if (own->heard == WEIR_SENTINEL_NOBODY || now_us < own->poll_us)
        return;
    if (own->awaits[own->heard])
        drop_silent(redis, own->heard, now_us);
    else
        ask(redis, own->heard, now_us);
}

/* going to the master */

static void move_to(struct weir_redis *redis, const struct weir_redis_place *place, uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    if (own->is_known) {
        note_move(redis, place, now_us);
        own->left = own->master->place;
        own->left_until_us = now_us + LAG_US;
    }
    own->is_known = own->is_tried = true;
    weir_link_go(own->master, place);
}

static bool is_behind(const struct sentinels *own, const struct weir_redis_place *place,
                      uint64_t now_us)
{
    const struct weir_redis_link *master = own->master;
    bool answers = master->stage == WEIR_LINK_OPEN && !master->was_lost && !master->holds;
    return (answers || own->is_tried) && is_same(place, &own->left) && now_us < own->left_until_us;
}

static void on_named(struct weir_redis *redis, const struct weir_redis_place *place,
                     uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    if (own->is_known && is_same(place, &own->master->place)) {
        if (own->master->holds)
            weir_link_lose(own->master, own->unfit_why);
        else if (own->master->stage == WEIR_LINK_SEEKING) {
            own->is_tried = true;
            weir_link_go(own->master, place);
        }
    } else if (!is_behind(own, place, now_us)) {
        move_to(redis, place, now_us);
    }
}

/* replies */

/* From now on this one is listened to, and no other. */
static void on_good_answer(struct weir_redis *redis, size_t index, uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    weir_sentinel_search_found(&own->search, index);
    weir_breaker_succeeded(&own->breaker, now_us);
    weir_breaker_answered(&own->breaker);
    own->heard = index;
    own->poll_us = now_us + POLL_US;
    for (size_t i = 0; i < own->search.count; i++)
        if (i != index)
            let_go(own, i);
    report_again(redis);
}

static void on_answer(struct weir_redis *redis, size_t index, const redisReply *reply,
                      uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    struct weir_redis_place place;
    char why[WEIR_REDIS_WHY_CHARS];
    own->awaits[index] = false;
    switch (weir_sentinel_read_master(reply, &place, why, sizeof why)) {
    case WEIR_SENTINEL_NAMED:
        on_good_answer(redis, index, now_us);
        on_named(redis, &place, now_us);
        return;
    case WEIR_SENTINEL_UNKNOWN:
        snprintf(why, sizeof why, "the Sentinels know no master \"%.60s\"", redis->url.master);
        note_why(own, true, why);
        break;
    case WEIR_SENTINEL_REFUSED:
        note_refusal(own, index, why);
        break;
    }
    on_failed(redis, index, now_us);
}

static void on_role(struct weir_redis_link *link, const redisReply *reply)
{
    char why[WEIR_REDIS_WHY_CHARS];
    if (!weir_sentinel_read_role(reply, why, sizeof why))
        weir_link_lose(link, why);
}

static void sentinel_on_reply(struct weir_redis_link *link, enum weir_redis_kind kind,
                              const redisReply *reply, uint64_t now_us)
{
    struct sentinels *own = own_of(link->redis);
    size_t index = index_of(own, link);
    if (kind == WEIR_REDIS_ROLE)
        on_role(link, reply);
    else if ((int)kind == QUESTION && index != WEIR_SENTINEL_NOBODY)
        on_answer(link->redis, index, reply, now_us);
}

static bool sentinel_on_message(struct weir_redis_link *link, const redisReply *reply,
                                uint64_t now_us)
{
    struct weir_redis *redis = link->redis;
    const struct sentinels *own = own_of(redis);
    struct weir_redis_place place;
    switch (weir_sentinel_read_message(reply, redis->url.master, &place)) {
    case WEIR_SENTINEL_NO_MESSAGE:
        return false;
    case WEIR_SENTINEL_OTHER_MESSAGE:
        return true;
    case WEIR_SENTINEL_SWITCHED:
        if (index_of(own, link) != WEIR_SENTINEL_NOBODY
            && !(own->is_known && is_same(&place, &own->master->place)))
            move_to(redis, &place, now_us);
        return true;
    }
    return true;
}

/* links that come and go */

static bool sentinel_seek(struct weir_redis_link *link, uint64_t now_us)
{
    if (link != own_of(link->redis)->master)
        return false;
    begin_search(link->redis, now_us);
    return true;
}

/* A user without the right to ask for the role learns from READONLY what the server is. */
static void sentinel_greet(struct weir_redis_link *link)
{
    const struct weir_text role = WEIR_TEXT("ROLE");
    if (link->role == WEIR_LINK_CHECKS)
        weir_link_greet_with(link, &role, 1, WEIR_REDIS_ROLE);
}

static void sentinel_on_open(struct weir_redis_link *link, uint64_t now_us)
{
    struct sentinels *own = own_of(link->redis);
    size_t index = index_of(own, link);
    if (link == own->master)
        own->is_tried = false;
    else if (index != WEIR_SENTINEL_NOBODY)
        ask(link->redis, index, now_us);
}

static void on_sentinel_lost(struct weir_redis_link *link, uint64_t now_us)
{
    struct sentinels *own = own_of(link->redis);
    size_t index = index_of(own, link);
    if (index == WEIR_SENTINEL_NOBODY)
        return;
    if (strstr(link->lost_why, "NOAUTH") != NULL)
        note_refusal(own, index, "it wants a password: sentinel_password");
    else if (link->was_refused)
        note_refusal(own, index, link->lost_why);
    else
        note_silence(own, link->lost_why);
    on_failed(link->redis, index, now_us);
}

/* Where a Sentinel led to a server that will not do, another one is asked first next time. */
static void sentinel_on_lost(struct weir_redis_link *link, uint64_t now_us)
{
    struct sentinels *own = own_of(link->redis);
    link->redis->tick_at_us = now_us;
    if (link != own->master) {
        on_sentinel_lost(link, now_us);
        return;
    }
    if (own->is_tried)
        weir_sentinel_search_doubt(&own->search);
    own->is_tried = false;
}

/* checks */

static struct weir_redis_link *sentinel_route(struct weir_redis *redis,
                                              const struct weir_check *check, const char **why)
{
    (void)check;
    struct weir_redis_link *master = own_of(redis)->master;
    if (weir_link_lets_through(master))
        return master;
    *why = master->down_why;
    return NULL;
}

static bool sentinel_accepts(const struct weir_redis *redis)
{
    return weir_link_lets_through(own_of(redis)->master);
}

/* The master is none any more, and has counted nothing. Checks are held until the Sentinels have said
 * where the new one is, and if there is one they go there. */
static bool sentinel_on_refusal(struct weir_redis_link *link, struct weir_redis_command *command,
                                enum weir_redis_meaning meaning, const redisReply *reply)
{
    (void)reply;
    struct sentinels *own = own_of(link->redis);
    char *why = command->check->why;
    if (meaning != WEIR_REDIS_UNFIT) {
        snprintf(why, sizeof command->check->why,
                 "this is a node of a cluster: use redis+cluster://");
        return false;
    }
    if (command->repeats == WEIR_REDIS_REPEATS_MAX)
        return false;
    if (!link->holds) {
        snprintf(own->unfit_why, sizeof own->unfit_why, "%s", why);
        begin_search(link->redis, weir_monotonic_us());
    }
    link->holds = true;
    return weir_redis_send_again(link->redis, link, command);
}

/* the topology */

static uint64_t sentinel_tick(struct weir_redis *redis, uint64_t now_us)
{
    struct sentinels *own = own_of(redis);
    size_t index;
    if (own->heard == WEIR_SENTINEL_NOBODY && weir_breaker_is_due(&own->breaker, now_us)) {
        weir_breaker_try(&own->breaker);
        begin_search(redis, now_us);
    }
    poll_heard(redis, now_us);
    report_moves(redis, now_us);
    while ((index = weir_sentinel_search_late(&own->search, now_us)) != WEIR_SENTINEL_NOBODY)
        drop_silent(redis, index, now_us);
    while ((index = weir_sentinel_search_next(&own->search, now_us)) != WEIR_SENTINEL_NOBODY)
        begin_to_ask(redis, index, now_us);

    uint64_t due_us = weir_sentinel_search_until(&own->search);
    if (own->owes_move)
        due_us = weir_earlier(due_us, own->say_move_at_us);
    if (own->heard != WEIR_SENTINEL_NOBODY)
        return weir_earlier(due_us, own->poll_us);
    return own->breaker.state == WEIR_BREAKER_OPEN ? weir_earlier(due_us, own->breaker.try_at_us)
                                                   : due_us;
}

static enum weir_code sentinel_make(struct weir_redis *redis, struct weir_error *error)
{
    struct sentinels *own = calloc(1, sizeof *own);
    if (own == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    redis->own = own;
    own->heard = WEIR_SENTINEL_NOBODY;
    weir_sentinel_search_init(&own->search, redis->url.place_count);
    weir_breaker_init(&own->breaker, redis->seed);
    own->master = weir_link_new(redis, WEIR_LINK_CHECKS, NULL, &redis->url.login);
    if (own->master == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    return WEIR_OK;
}

static void sentinel_finish(struct weir_redis *redis)
{
    free(redis->own);
    redis->own = NULL;
}

const struct weir_redis_topology_type weir_redis_sentinel = {
    .make = sentinel_make,
    .finish = sentinel_finish,
    .tick = sentinel_tick,
    .route = sentinel_route,
    .accepts = sentinel_accepts,
    .seek = sentinel_seek,
    .greet = sentinel_greet,
    .on_open = sentinel_on_open,
    .on_lost = sentinel_on_lost,
    .on_refusal = sentinel_on_refusal,
    .on_reply = sentinel_on_reply,
    .on_message = sentinel_on_message,
};
