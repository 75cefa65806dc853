/* The topology of a cluster: a link to each master, and a map of which one serves which slot. */
#include "store/redis_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/redis_cluster_map.h"
#include "store/redis_cluster_schedule.h"
#include "store/redis_split.h"

/* A node that does not tell the map within this time, or that of a check, is left for another. */
#define QUESTION_US UINT64_C(300000)

/* While no master answers, so many other nodes are asked for the map, beside the URL's. */
#define OTHERS_MAX 8

/* After TRYAGAIN a check pauses for an eighth of its time, and no longer than: */
#define TRY_AGAIN_MAX_US UINT64_C(50000)

/* The kind of its question. */
#define WEIR_REDIS_SLOTS_REPLY WEIR_REDIS_TO_TOPOLOGY

struct cluster {
    struct weir_redis_splits splits;

    /* Read by any thread: a check for this slot would only fail. */
    atomic_bool has_down;
    atomic_bool is_down[WEIR_REDIS_SLOTS];

    /* The rest belongs to the store's thread. */
    struct weir_redis_link *entrance; /* takes checks until there is a map; NULL: there is one */
    struct weir_cluster_map *map;
    uint16_t links[WEIR_REDIS_SLOTS]; /* of each slot's master, or NO_LINK */

    struct weir_cluster_schedule schedule;
    struct weir_redis_link *asked; /* for the map; NULL: nobody is                           */
    size_t turn;                   /* the index of the link that was asked last              */
    unsigned timeouts;             /* in a row over all links, when it was last looked for   */

    struct weir_redis_commands paused; /* checks whose keys are on their way, until… */
    uint64_t paused_until_us;
};

static struct cluster *cluster_of(const struct weir_redis *redis)
{
    return redis->own;
}

static bool is_in_use(const struct weir_redis_link *link, enum weir_redis_role role)
{
    return link != NULL && link->role == role && !link->leaves
           && link != cluster_of(link->redis)->entrance;
}

/* slots */

static unsigned slot_of(const struct weir_check *check)
{
    struct weir_redis_plan plan;
    weir_redis_plan_make(&plan, check);
    return weir_redis_slot(plan.keys[0]);
}

static struct weir_redis_link *link_of(const struct weir_redis *redis, unsigned slot)
{
    uint16_t index = cluster_of(redis)->links[slot];
    return index == WEIR_REDIS_NO_LINK ? NULL : redis->links[index];
}

static bool is_down(const struct weir_redis_link *link)
{
    return !weir_breaker_lets_through(&link->breaker);
}

/* Tells other threads which slots are down. */
static void note_slots(const struct weir_redis *redis)
{
    struct cluster *cluster = cluster_of(redis);
    bool has_down = false;
    for (unsigned slot = 0; slot < WEIR_REDIS_SLOTS; slot++) {
        const struct weir_redis_link *link = link_of(redis, slot);
        bool slot_is_down = link != NULL && is_down(link);
        has_down = has_down || slot_is_down;
        atomic_store_explicit(&cluster->is_down[slot], slot_is_down, memory_order_relaxed);
    }
    atomic_store_explicit(&cluster->has_down, has_down, memory_order_relaxed);
}

/* asking for the map */

/* Nodes that are asked only as long as no master answers. */
static void look_around(struct weir_redis *redis)
{
    const struct weir_redis_url *url = &redis->url;
    const struct weir_cluster_map *map = cluster_of(redis)->map;
    for (size_t i = 0; i < url->place_count; i++)
        weir_redis_link_to(redis, WEIR_LINK_ASKS, &url->places[i]);
    for (size_t i = 0; map != NULL && i < OTHERS_MAX && map->master_count + i < map->node_count;
         i++)
        weir_redis_link_to(redis, WEIR_LINK_ASKS, &map->nodes[map->master_count + i]);
}

/* Nobody is waited for any more; the next one may be asked at once. */
static void forget_question(struct cluster *cluster, uint64_t now_us)
{
    cluster->asked = NULL;
    weir_cluster_schedule_ask_now(&cluster->schedule, now_us);
}

static void stop_looking_around(struct weir_redis *redis, uint64_t now_us)
{
    struct cluster *cluster = cluster_of(redis);
    for (size_t i = 0; i < redis->link_count; i++) {
        if (!is_in_use(redis->links[i], WEIR_LINK_ASKS))
            continue;
        if (cluster->asked == redis->links[i])
            forget_question(cluster, now_us);
        weir_link_leave(redis->links[i]);
    }
}

/* A node that could not tell the map is not asked again until others were. */
static void set_aside(struct weir_redis_link *link)
{
    if (link->role == WEIR_LINK_ASKS)
        link->own = link;
}

static bool is_aside(const struct weir_redis_link *link)
{
    return link->own != NULL;
}

static void begin_anew(struct weir_redis *redis)
{
    for (size_t i = 0; i < redis->link_count; i++)
        if (redis->links[i] != NULL)
            redis->links[i]->own = NULL;
}

/* The next open link of that role, in turn. */
static struct weir_redis_link *pick(const struct weir_redis *redis, enum weir_redis_role role)
{
    for (size_t i = 1; i <= redis->link_count; i++) {
        struct weir_redis_link *link =
            redis->links[(cluster_of(redis)->turn + i) % redis->link_count];
        if (is_in_use(link, role) && link->stage == WEIR_LINK_OPEN && !link->was_lost
            && !is_aside(link))
            return link;
    }
    return NULL;
}

static bool ask(struct weir_redis_link *link, uint64_t now_us)
{
    struct cluster *cluster = cluster_of(link->redis);
    cluster->turn = link->index;
    if (!weir_redis_ask(link, (struct weir_text[]){ WEIR_TEXT("CLUSTER"), WEIR_TEXT("SLOTS") }, 2,
                        WEIR_REDIS_SLOTS_REPLY))
        return false;
    cluster->asked = link;
    weir_cluster_schedule_on_asked(&cluster->schedule,
                                   now_us + weir_later(QUESTION_US, link->redis->timeout_us));
    return true;
}

static void ask_somebody(struct weir_redis *redis, uint64_t now_us)
{
    struct cluster *cluster = cluster_of(redis);
    struct weir_redis_link *link = pick(redis, WEIR_LINK_CHECKS);
    if (link == NULL)
        link = pick(redis, WEIR_LINK_ASKS);
    if (link != NULL && ask(link, now_us))
        return;
    look_around(redis);
    if (cluster->entrance == NULL) /* else when it is sought anew */
        begin_anew(redis);
    weir_cluster_schedule_pause(&cluster->schedule, now_us);
}

/* the way in, until there is a map */

static void close_entrance(struct weir_redis *redis, uint64_t now_us)
{
    struct cluster *cluster = cluster_of(redis);
    if (cluster->entrance == NULL)
        return;
    weir_link_report_up(cluster->entrance, now_us);
    weir_link_leave(cluster->entrance);
    cluster->entrance = NULL;
}

/* One node less to find the others by; with the last one the try has failed. */
static void lose_entrance(struct weir_redis *redis, const char *why, bool was_refused)
{
    struct weir_redis_link *entrance = cluster_of(redis)->entrance;
    if (entrance == NULL || entrance->stage != WEIR_LINK_SEEKING)
        return;
    for (size_t i = 0; i < redis->link_count; i++)
        if (is_in_use(redis->links[i], WEIR_LINK_ASKS) && !is_aside(redis->links[i])
            && redis->links[i]->breaker.state != WEIR_BREAKER_OPEN)
            return;
    if (was_refused)
        weir_link_refuse(entrance, "", why);
    else
        weir_link_lose(entrance, why);
}

/* a new map */

static void note_takeover(const struct weir_redis_link *old, const uint16_t before[],
                          uint64_t now_us)
{
    const struct weir_redis *redis = old->redis;
    unsigned slot = 0;
    while (slot < WEIR_REDIS_SLOTS && before[slot] != old->index)
        slot++;
    const struct weir_redis_link *new = slot < WEIR_REDIS_SLOTS ? link_of(redis, slot) : NULL;
    if (!old->is_reported || new == NULL || redis->is_silent)
        return;
    uint64_t tenths = (now_us - old->down_at_us) / 100000;
    weir_log_line(&redis->log, WEIR_INFO,
                  "Redis at %s has taken over from %s after %" PRIu64 ".%" PRIu64 " s.", new->shown,
                  old->shown, tenths / 10, tenths % 10);
}

/* Under the mutex of what is pending: checks that have ended leave their places behind. */
static bool has_check(const struct weir_redis_commands *row)
{
    for (size_t place = row->first; place != row->end; place++)
        if (weir_commands_at(row, place)->check != NULL)
            return true;
    return false;
}

/* Whether no check is to be done over a link, so that it can go without harm. */
static bool is_idle(const struct weir_redis_link *link)
{
    pthread_mutex_t *mutex = &link->redis->pending.mutex;
    pthread_mutex_lock(mutex);
    bool is_idle = !has_check(&link->under_way) && !has_check(&link->waiting);
    pthread_mutex_unlock(mutex);
    return is_idle;
}

static void leave_others(struct weir_redis *redis, const uint16_t before[], uint64_t now_us)
{
    bool is_wanted[WEIR_REDIS_LINKS_MAX] = { false };
    for (size_t slot = 0; slot < WEIR_REDIS_SLOTS; slot++)
        if (cluster_of(redis)->links[slot] != WEIR_REDIS_NO_LINK)
            is_wanted[cluster_of(redis)->links[slot]] = true;
    for (size_t i = 0; i < redis->link_count; i++) {
        struct weir_redis_link *link = redis->links[i];
        if (!is_in_use(link, WEIR_LINK_CHECKS) || is_wanted[i] || !is_idle(link))
            continue;
        note_takeover(link, before, now_us);
        weir_link_leave(link);
    }
}

/* It answers, as far as anybody can tell; or it may, since it has just been made. */
static bool does_answer(const struct weir_redis_link *link)
{
    return link != NULL && link->stage == WEIR_LINK_OPEN && !link->was_lost
           && link->breaker.timeouts == 0;
}

static bool may_answer(const struct weir_redis_link *link)
{
    return does_answer(link) || (link != NULL && link->breaker.state == WEIR_BREAKER_STARTING);
}

static struct weir_redis_link *find_link(const struct weir_redis *redis,
                                         const struct weir_redis_place *place)
{
    for (size_t i = 0; i < redis->link_count; i++)
        if (is_in_use(redis->links[i], WEIR_LINK_CHECKS)
            && weir_redis_place_equal(&redis->links[i]->place, place))
            return redis->links[i];
    return NULL;
}

/* The links to the masters; to one that is new only if it has a slot that nobody else answers for. */
static void link_masters(struct weir_redis *redis,
                         struct weir_redis_link *links[WEIR_CLUSTER_NODES_MAX])
{
    const struct weir_cluster_map *map = cluster_of(redis)->map;
    bool is_needed[WEIR_CLUSTER_NODES_MAX] = { false };
    for (unsigned slot = 0; slot < WEIR_REDIS_SLOTS; slot++)
        if (map->masters[slot] != WEIR_CLUSTER_NOBODY && !may_answer(link_of(redis, slot)))
            is_needed[map->masters[slot]] = true;
    for (size_t i = 0; i < map->master_count; i++)
        links[i] = is_needed[i] ? weir_redis_link_to(redis, WEIR_LINK_CHECKS, &map->nodes[i])
                                : find_link(redis, &map->nodes[i]);
}

/* A node may tell the map before it has heard of a change, and so name one that has just been replaced.
 * So whoever answers for a slot keeps it as long as the other one does not answer; where it has lost
 * it, it says so itself. */
static void link_slots(struct weir_redis *redis)
{
    struct cluster *cluster = cluster_of(redis);
    struct weir_redis_link *links[WEIR_CLUSTER_NODES_MAX];
    link_masters(redis, links);
    for (unsigned slot = 0; slot < WEIR_REDIS_SLOTS; slot++) {
        uint8_t master = cluster->map->masters[slot];
        const struct weir_redis_link *told = master == WEIR_CLUSTER_NOBODY ? NULL : links[master];
        if (does_answer(told) || !may_answer(link_of(redis, slot)))
            cluster->links[slot] = told == NULL ? WEIR_REDIS_NO_LINK : told->index;
    }
}

/* Somebody must be asked again before long: a master that is down may be replaced, and a slot that
 * nobody serves given to somebody. */
static bool is_well(const struct weir_redis *redis)
{
    for (unsigned slot = 0; slot < WEIR_REDIS_SLOTS; slot++) {
        const struct weir_redis_link *link = link_of(redis, slot);
        if (link == NULL || is_down(link))
            return false;
    }
    return true;
}

static void take_map(struct weir_redis *redis, struct weir_cluster_map *map, uint64_t now_us)
{
    struct cluster *cluster = cluster_of(redis);
    uint16_t before[WEIR_REDIS_SLOTS];
    memcpy(before, cluster->links, sizeof before);
    free(cluster->map);
    cluster->map = map;
    link_slots(redis);
    leave_others(redis, before, now_us);
    close_entrance(redis, now_us);
    weir_redis_tell(redis);
}

static void on_map(struct weir_redis *redis, struct weir_cluster_map *map, uint64_t now_us)
{
    struct weir_cluster_schedule *schedule = &cluster_of(redis)->schedule;
    take_map(redis, map, now_us);
    if (is_well(redis))
        weir_cluster_schedule_on_well(schedule, now_us);
    else
        weir_cluster_schedule_pause(schedule, now_us);
}

static void on_no_map(struct weir_redis_link *link, const char *why, uint64_t now_us)
{
    struct weir_redis *redis = link->redis;
    set_aside(link);
    if (pick(redis, WEIR_LINK_ASKS) != NULL)
        weir_cluster_schedule_ask_now(&cluster_of(redis)->schedule, now_us);
    else
        weir_cluster_schedule_pause(&cluster_of(redis)->schedule, now_us);
    lose_entrance(redis, why, true);
}

static void cluster_on_reply(struct weir_redis_link *link, enum weir_redis_kind kind,
                             const struct redisReply *reply, uint64_t now_us)
{
    struct cluster *cluster = cluster_of(link->redis);
    /* What comes late may come from a node that has been replaced meanwhile, and does not know. */
    if (kind != WEIR_REDIS_SLOTS_REPLY || cluster->asked != link)
        return;
    cluster->asked = NULL;
    char why[WEIR_REDIS_WHY_CHARS] = "it knows of no slots";
    struct weir_cluster_map *map = malloc(sizeof *map);
    if (map != NULL && weir_cluster_map_read(map, reply, &link->place, why, sizeof why)
        && map->master_count > 0) {
        uint64_t read_at_us = weir_monotonic_us();
        weir_cluster_schedule_on_answer(&cluster->schedule, read_at_us, read_at_us - now_us);
        on_map(link->redis, map, read_at_us);
        return;
    }
    free(map);
    weir_cluster_schedule_on_answer(&cluster->schedule, now_us, cluster->schedule.read_us);
    on_no_map(link, why, now_us);
}

/* checks */

static bool is_usable(const struct weir_redis_link *link)
{
    return is_in_use(link, WEIR_LINK_CHECKS) && !is_down(link);
}

/* Where nobody serves a slot any node can say so, or knows better. */
static struct weir_redis_link *any_link(const struct weir_redis *redis)
{
    for (size_t i = 0; i < redis->link_count; i++)
        if (is_usable(redis->links[i]))
            return redis->links[i];
    return NULL;
}

static struct weir_redis_link *cluster_route(struct weir_redis *redis,
                                             const struct weir_check *check, const char **why)
{
    struct weir_redis_link *link = cluster_of(redis)->entrance;
    if (link == NULL)
        link = link_of(redis, slot_of(check));
    if (link == NULL)
        link = any_link(redis);
    if (link == NULL || !is_down(link))
        return link;
    *why = link->down_why;
    return NULL;
}

static bool cluster_accepts(const struct weir_redis *redis)
{
    const struct weir_redis_link *entrance = cluster_of(redis)->entrance;
    note_slots(redis);
    return entrance != NULL ? !is_down(entrance) : any_link(redis) != NULL;
}

/* The node that has the slot, or the keys, gets the check at once. */
static bool follow(struct weir_redis_link *link, struct weir_redis_command *command,
                   const struct redisReply *reply)
{
    struct weir_redis *redis = link->redis;
    struct cluster *cluster = cluster_of(redis);
    struct weir_cluster_redirect redirect;
    if (!weir_cluster_redirect_read(reply->str, &link->place, &redirect))
        return false;
    if (!redirect.is_ask)
        weir_cluster_schedule_want(&cluster->schedule, weir_monotonic_us());
    struct weir_redis_link *other = weir_redis_link_to(redis, WEIR_LINK_CHECKS, &redirect.to);
    if (other == NULL)
        return false;
    if (!redirect.is_ask)
        cluster->links[redirect.slot] = other->index;
    if (is_down(other)) {
        weir_redis_end(command->check, WEIR_STORE_UNAVAILABLE, other->down_why);
        return true;
    }
    command->how = redirect.is_ask ? WEIR_REDIS_WITH_ASKING : 0;
    return weir_redis_send_again(redis, other, command);
}

static uint64_t pause_us(const struct weir_redis *redis)
{
    uint64_t us = redis->timeout_us / 8;
    return us < TRY_AGAIN_MAX_US ? us : TRY_AGAIN_MAX_US;
}

/* Some of the keys are on their way to another node. */
static bool pause_check(struct weir_redis *redis, struct weir_redis_command *command)
{
    struct cluster *cluster = cluster_of(redis);
    if (command->repeats == WEIR_REDIS_REPEATS_MAX)
        return false;
    if (weir_commands_count(&cluster->paused) == 0)
        cluster->paused_until_us = weir_monotonic_us() + pause_us(redis);
    command->repeats++;
    command->how = 0;
    weir_pending_put_back(&redis->pending, command->check);
    if (weir_pending_put(&redis->pending, &cluster->paused, command))
        return true;
    weir_pending_take_held(&redis->pending);
    return false;
}

static void end_pause(struct weir_redis *redis)
{
    struct weir_redis_command command;
    while (weir_pending_lift(&redis->pending, &cluster_of(redis)->paused, &command))
        weir_redis_send(redis, NULL, &command);
}

static bool cluster_on_refusal(struct weir_redis_link *link, struct weir_redis_command *command,
                               enum weir_redis_meaning meaning, const struct redisReply *reply)
{
    switch (meaning) {
    case WEIR_REDIS_MOVED:
    case WEIR_REDIS_ASK:
        weir_link_on_answer(link, true);
        return follow(link, command, reply);
    case WEIR_REDIS_TRY_AGAIN:
        weir_link_on_answer(link, true);
        return pause_check(link->redis, command);
    case WEIR_REDIS_CLUSTER_DOWN:
    case WEIR_REDIS_UNFIT:
        weir_cluster_schedule_want(&cluster_of(link->redis)->schedule, weir_monotonic_us());
        return false;
    case WEIR_REDIS_DECIDED:
    case WEIR_REDIS_NO_SCRIPT:
    case WEIR_REDIS_REFUSED:
        break;
    }
    return false;
}

/* what comes up */

/* It is open, and yet silent. */
static void give_up_question(struct weir_redis *redis, uint64_t now_us)
{
    struct cluster *cluster = cluster_of(redis);
    if (cluster->asked->role == WEIR_LINK_CHECKS)
        weir_link_on_timeout(cluster->asked, now_us);
    set_aside(cluster->asked);
    forget_question(cluster, now_us);
    lose_entrance(redis, "no answer", false);
}

/* A check that met its deadline may have gone to a node that has been replaced, and cannot say so. */
static void look_for_timeouts(struct weir_redis *redis, uint64_t now_us)
{
    struct cluster *cluster = cluster_of(redis);
    unsigned timeouts = 0;
    for (size_t i = 0; i < redis->link_count; i++)
        if (is_in_use(redis->links[i], WEIR_LINK_CHECKS))
            timeouts += redis->links[i]->breaker.timeouts;
    if (timeouts > cluster->timeouts)
        weir_cluster_schedule_want(&cluster->schedule, now_us);
    cluster->timeouts = timeouts;
}

static uint64_t cluster_tick(struct weir_redis *redis, uint64_t now_us)
{
    struct cluster *cluster = cluster_of(redis);
    if (now_us >= cluster->paused_until_us)
        end_pause(redis);
    look_for_timeouts(redis, now_us);
    if (cluster->asked != NULL && now_us >= weir_cluster_schedule_due_us(&cluster->schedule))
        give_up_question(redis, now_us);
    if (cluster->asked == NULL && now_us >= weir_cluster_schedule_due_us(&cluster->schedule))
        ask_somebody(redis, now_us);
    uint64_t due_us = weir_cluster_schedule_due_us(&cluster->schedule);
    bool pauses = weir_commands_count(&cluster->paused) > 0;
    return pauses ? weir_earlier(due_us, cluster->paused_until_us) : due_us;
}

/* The way in is found out by asking the URL's nodes. */
static bool cluster_seek(struct weir_redis_link *link, uint64_t now_us)
{
    struct cluster *cluster = cluster_of(link->redis);
    if (link != cluster->entrance)
        return false;
    look_around(link->redis);
    begin_anew(link->redis);
    if (cluster->asked == NULL)
        weir_cluster_schedule_ask_now(&cluster->schedule, now_us);
    return true;
}

static void cluster_on_open(struct weir_redis_link *link, uint64_t now_us)
{
    struct cluster *cluster = cluster_of(link->redis);
    if (link->role == WEIR_LINK_CHECKS)
        stop_looking_around(link->redis, now_us);
    else if (cluster->asked == NULL)
        weir_cluster_schedule_ask_now(&cluster->schedule, now_us);
}

static void cluster_on_lost(struct weir_redis_link *link, uint64_t now_us)
{
    struct cluster *cluster = cluster_of(link->redis);
    if (cluster->asked == link)
        forget_question(cluster, now_us);
    if (link->role == WEIR_LINK_ASKS)
        lose_entrance(link->redis, link->lost_why, link->was_refused);
    else if (link != cluster->entrance)
        weir_cluster_schedule_want(&cluster->schedule, now_us);
}

/* handing in, on any thread */

static bool cluster_submit(struct weir_redis *redis, struct weir_check *check)
{
    struct cluster *cluster = cluster_of(redis);
    if (weir_redis_is_split(check)) {
        weir_redis_split_submit(&cluster->splits, check, weir_monotonic_us() + redis->timeout_us);
        return true;
    }
    if (!atomic_load_explicit(&cluster->has_down, memory_order_relaxed)
        || !atomic_load_explicit(&cluster->is_down[slot_of(check)], memory_order_relaxed))
        return false;
    weir_redis_end(check, WEIR_STORE_UNAVAILABLE, "not connected");
    return true;
}

static bool cluster_cancel(struct weir_redis *redis, struct weir_check *check)
{
    return weir_redis_split_cancel(&cluster_of(redis)->splits, check);
}

static void submit_part(void *self, struct weir_check *part, uint64_t deadline_us)
{
    memset(part->store, 0, sizeof part->store);
    weir_redis_enter(self, part, deadline_us);
}

static void cancel_part(void *self, struct weir_check *part)
{
    weir_redis_cancel(self, part);
}

static bool may_be_asked(void *self, unsigned slot)
{
    return !atomic_load_explicit(&cluster_of(self)->is_down[slot], memory_order_relaxed);
}

/* making and freeing */

static void cluster_finish(struct weir_redis *redis)
{
    struct cluster *cluster = cluster_of(redis);
    if (cluster == NULL)
        return;
    weir_redis_splits_finish(&cluster->splits);
    weir_commands_finish(&cluster->paused);
    free(cluster->map);
    free(cluster);
    redis->own = NULL;
}

static void cluster_close(struct weir_redis *redis)
{
    weir_redis_splits_close(&cluster_of(redis)->splits);
}

static struct cluster *allocate(struct weir_redis *redis)
{
    const struct weir_redis_splits_inner inner = {
        .self = redis,
        .timeout_us = redis->timeout_us,
        .submit = submit_part,
        .cancel = cancel_part,
        .is_ready = may_be_asked,
    };
    struct cluster *cluster = calloc(1, sizeof *cluster);
    if (cluster == NULL || weir_redis_splits_init(&cluster->splits, &inner))
        return cluster;
    free(cluster);
    return NULL;
}

static enum weir_code cluster_make(struct weir_redis *redis, struct weir_error *error)
{
    struct cluster *cluster = redis->own = allocate(redis);
    if (cluster == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    memset(cluster->links, 0xFF, sizeof cluster->links); /* WEIR_REDIS_NO_LINK */
    cluster->schedule.random = redis->seed | 1;
    weir_commands_init(&cluster->paused, WEIR_REDIS_PENDING_MAX, WEIR_REDIS_NO_LINK, true);
    cluster->entrance = weir_link_new(redis, WEIR_LINK_CHECKS, NULL, &redis->url.login);
    if (cluster->entrance == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    return WEIR_OK;
}

const struct weir_redis_topology_type weir_redis_cluster = {
    .make = cluster_make,
    .finish = cluster_finish,
    .tick = cluster_tick,
    .route = cluster_route,
    .accepts = cluster_accepts,
    .seek = cluster_seek,
    .on_open = cluster_on_open,
    .on_lost = cluster_on_lost,
    .on_refusal = cluster_on_refusal,
    .on_reply = cluster_on_reply,
    .submit = cluster_submit,
    .cancel = cluster_cancel,
    .close = cluster_close,
};
