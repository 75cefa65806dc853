#include "store/redis_cluster_map.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "store/redis_wire.h"

bool weir_redis_place_equal(const struct weir_redis_place *one,
                            const struct weir_redis_place *other)
{
    return one->port == other->port && strcmp(one->host, other->host) == 0;
}

static bool set_why(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return false;
}

/* places */

/* "?" stands for a name that a node has not been given, and nothing at all for an address that it
 * does not know or that it was told to keep to itself. */
static bool is_unknown(struct weir_text host)
{
    return host.length == 0 || weir_text_equal(host, WEIR_TEXT("?"));
}

/* False: no place can look like this. */
static bool set_place(struct weir_redis_place *place, struct weir_text host, uint64_t port,
                      const struct weir_redis_place *asked)
{
    if (is_unknown(host))
        host = weir_text_from(asked->host);
    if (host.length == 0 || host.length >= sizeof place->host || port == 0 || port > UINT16_MAX)
        return false;
    for (size_t i = 0; i < host.length; i++)
        if ((unsigned char)host.at[i] <= ' ' || (unsigned char)host.at[i] >= 0x7F)
            return false;
    memset(place, 0, sizeof *place);
    memcpy(place->host, host.at, host.length);
    place->port = (unsigned)port;
    return true;
}

/* the reply to CLUSTER SLOTS: an array with, for each range, the first slot, the last one, the
 * master, and its replicas; each of these an array of host, port, id and, since Redis 7, a list of
 * names and values */

static const redisReply *item(const redisReply *array, size_t index)
{
    return array->elements > index ? array->element[index] : NULL;
}

static bool is_array(const redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY;
}

static struct weir_text text_of(const redisReply *reply)
{
    if (reply == NULL || reply->str == NULL
        || (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS))
        return (struct weir_text){ NULL, 0 };
    return (struct weir_text){ reply->str, (size_t)reply->len };
}

/* False: it is no number, or none from 0 to `most`. */
static bool number_of(const redisReply *reply, uint64_t most, uint64_t *number)
{
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER || reply->integer < 0
        || (uint64_t)reply->integer > most)
        return false;
    *number = (uint64_t)reply->integer;
    return true;
}

/* Where nodes go by names, the address stands beside: good for one that was not given a name. */
static struct weir_text address_beside(const redisReply *node)
{
    const redisReply *beside = item(node, 3);
    for (size_t i = 0; is_array(beside) && i + 1 < beside->elements; i += 2)
        if (weir_text_equal(text_of(beside->element[i]), WEIR_TEXT("ip")))
            return text_of(beside->element[i + 1]);
    return (struct weir_text){ NULL, 0 };
}

static bool read_place(const redisReply *node, const struct weir_redis_place *asked,
                       struct weir_redis_place *place)
{
    uint64_t port;
    if (!is_array(node) || !number_of(item(node, 1), UINT16_MAX, &port))
        return false;
    const redisReply *host = item(node, 0);
    struct weir_text text = text_of(host);
    if (host == NULL || (text.at == NULL && host->type != REDIS_REPLY_NIL))
        return false;
    if (weir_text_equal(text, WEIR_TEXT("?")))
        text = address_beside(node);
    return set_place(place, text, port, asked);
}

/* A map that is being read. Large ones name the same nodes thousands of times, so they are looked up
 * by a hash: places of a table that is never more than half full. */
struct reading {
    struct weir_cluster_map *map;
    const struct weir_redis_place *asked;
    bool has_room;
    uint8_t table[512]; /* indexes of nodes, or NOBODY */
};

/* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/. */
static uint32_t hash_of(const struct weir_redis_place *place)
{
    uint32_t hash = 2166136261U;
    for (const char *at = place->host; *at != '\0'; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619U;
    return (hash ^ place->port) * 16777619U;
}

/* The index of a node, which is added if it is new; NOBODY: there is no room for it. */
static uint8_t index_of(struct reading *reading, const struct weir_redis_place *place)
{
    _Static_assert(sizeof reading->table >= 2 * WEIR_CLUSTER_NODES_MAX, "half of it stays free");
    struct weir_cluster_map *map = reading->map;
    uint32_t hash = hash_of(place);
    for (size_t at = (hash ^ hash >> 16) % sizeof reading->table;;
         at = (at + 1) % sizeof reading->table) {
        uint8_t *index = &reading->table[at];
        if (*index != WEIR_CLUSTER_NOBODY && !weir_redis_place_equal(&map->nodes[*index], place))
            continue;
        if (*index == WEIR_CLUSTER_NOBODY && map->node_count < WEIR_CLUSTER_NODES_MAX) {
            map->nodes[map->node_count] = *place;
            *index = (uint8_t)map->node_count++;
        }
        return *index;
    }
}

static bool read_range(struct reading *reading, const redisReply *range)
{
    uint64_t first, last;
    struct weir_redis_place place;
    if (!is_array(range) || !number_of(item(range, 0), WEIR_REDIS_SLOTS - 1, &first)
        || !number_of(item(range, 1), WEIR_REDIS_SLOTS - 1, &last) || first > last
        || !read_place(item(range, 2), reading->asked, &place))
        return false;
    uint8_t master = index_of(reading, &place);
    reading->has_room = reading->has_room && master != WEIR_CLUSTER_NOBODY;
    memset(&reading->map->masters[first], master, (size_t)(last - first + 1));
    return true;
}

/* Replicas serve no slot, but know who does. One that cannot be read is one less. */
static void read_replicas(struct reading *reading, const redisReply *range)
{
    struct weir_redis_place place;
    for (size_t i = 3; i < range->elements; i++)
        if (read_place(range->element[i], reading->asked, &place))
            index_of(reading, &place);
}

static bool read_ranges(struct reading *reading, const redisReply *reply, char *why, size_t size)
{
    struct weir_cluster_map *map = reading->map;
    for (size_t i = 0; i < reply->elements; i++)
        if (!read_range(reading, reply->element[i]))
            return set_why(why, size, "what it says of the cluster's slots is no answer");
    map->master_count = map->node_count;
    if (!reading->has_room)
        return set_why(why, size, "the cluster has more than 200 masters");
    for (size_t i = 0; i < reply->elements; i++)
        read_replicas(reading, reply->element[i]);
    return true;
}

static bool refuse(const redisReply *reply, char *why, size_t size)
{
    const char *text = reply == NULL ? NULL : reply->str;
    if (text == NULL || text[0] == '\0' || reply->type != REDIS_REPLY_ERROR)
        return set_why(why, size, "what it says of the cluster's slots is no answer");
    if (strstr(text, "cluster support disabled") != NULL)
        return set_why(why, size, "it belongs to no cluster: its URL begins with redis://");
    weir_redis_read_error(reply, why, size);
    return false;
}

bool weir_cluster_map_read(struct weir_cluster_map *map, const redisReply *reply,
                           const struct weir_redis_place *asked, char *why, size_t size)
{
    _Static_assert(WEIR_CLUSTER_NODES_MAX < WEIR_CLUSTER_NOBODY, "an index is no NOBODY");
    map->master_count = map->node_count = 0;
    memset(map->masters, WEIR_CLUSTER_NOBODY, sizeof map->masters);
    struct reading reading = { .map = map, .asked = asked, .has_room = true };
    memset(reading.table, WEIR_CLUSTER_NOBODY, sizeof reading.table);
    return is_array(reply) ? read_ranges(&reading, reply, why, size) : refuse(reply, why, size);
}

/* redirections */

static bool take_word(struct weir_text *text, const char *word)
{
    struct weir_text wanted = weir_text_from(word);
    if (!weir_text_starts_with(*text, wanted))
        return false;
    text->at += wanted.length;
    text->length -= wanted.length;
    return true;
}

bool weir_cluster_redirect_read(const char *text, const struct weir_redis_place *asked,
                                struct weir_cluster_redirect *redirect)
{
    struct weir_text rest = weir_text_from(text), slot_text, port_text;
    uint64_t slot, port;
    redirect->is_ask = take_word(&rest, "ASK ");
    if (!redirect->is_ask && !take_word(&rest, "MOVED "))
        return false;
    /* An IPv6 address has colons of its own, so the port is what stands behind the last one. */
    if (!weir_text_take_first(&rest, ' ', &slot_text) || !weir_text_to_number(slot_text, &slot)
        || memchr(rest.at == NULL ? "" : rest.at, ':', rest.length) == NULL
        || !weir_text_take_last(&rest, ':', &port_text) || !weir_text_to_number(port_text, &port))
        return false;
    redirect->slot = (unsigned)slot;
    return slot < WEIR_REDIS_SLOTS && set_place(&redirect->to, rest, port, asked);
}
