/* The topology of one server: it has the only link. */
#include "store/redis_internal.h"
#include "store/redis_sentinel.h"

static enum weir_code single_make(struct weir_redis *redis, struct weir_error *error)
{
    if (weir_link_new(redis, WEIR_LINK_CHECKS, &redis->url.places[0], &redis->url.login) == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    return WEIR_OK;
}

static struct weir_redis_link *single_route(struct weir_redis *redis,
                                            const struct weir_check *check, const char **why)
{
    (void)check;
    struct weir_redis_link *link = redis->links[0];
    if (weir_link_lets_through(link))
        return link;
    *why = link->down_why;
    return NULL;
}

static bool single_accepts(const struct weir_redis *redis)
{
    return weir_link_lets_through(redis->links[0]);
}

/* A server that takes no writes still greets well, and answers refusals. */
static void single_greet(struct weir_redis_link *link)
{
    if (link->was_unfit)
        weir_link_greet_with(link, (struct weir_text[]){ WEIR_TEXT("ROLE") }, 1, WEIR_REDIS_ROLE);
}

static void single_on_reply(struct weir_redis_link *link, enum weir_redis_kind kind,
                            const struct redisReply *reply, uint64_t now_us)
{
    (void)now_us;
    char why[WEIR_REDIS_WHY_CHARS];
    if (kind == WEIR_REDIS_ROLE && !weir_sentinel_read_role(reply, why, sizeof why))
        weir_link_lose(link, why);
}

/* A node of a cluster knows better than we do where a key belongs, but not for whom it is asked. */
static bool single_on_refusal(struct weir_redis_link *link, struct weir_redis_command *command,
                              enum weir_redis_meaning meaning, const struct redisReply *reply)
{
    (void)link;
    (void)reply;
    if (meaning != WEIR_REDIS_UNFIT)
        snprintf(command->check->why, sizeof command->check->why,
                 "this is a node of a cluster: use redis+cluster://");
    return false;
}

const struct weir_redis_topology_type weir_redis_single = {
    .make = single_make,
    .route = single_route,
    .accepts = single_accepts,
    .greet = single_greet,
    .on_reply = single_on_reply,
    .on_refusal = single_on_refusal,
};
