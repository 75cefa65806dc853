/* A cluster's words: whatever a server sends goes through hiredis's parser into a map of its slots,
 * and a text into a redirection. What is read must be a place that can be, and what is not must say
 * why. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis_cluster_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct weir_redis_place asked = { "192.0.2.9", 7000 };

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_place(const struct weir_redis_place *place)
{
    size_t length = strnlen(place->host, sizeof place->host);
    require(length > 0 && length < sizeof place->host);
    require(place->port > 0 && place->port <= UINT16_MAX);
    for (size_t i = 0; i < length; i++)
        require(place->host[i] > ' ' && place->host[i] < 0x7F);
}

static void read_as_map(const redisReply *reply)
{
    static struct weir_cluster_map map;
    char why[96];
    if (!weir_cluster_map_read(&map, reply, &asked, why, sizeof why)) {
        require(memchr(why, '\0', sizeof why) != NULL && why[0] != '\0');
        return;
    }
    require(map.master_count <= map.node_count && map.node_count <= WEIR_CLUSTER_NODES_MAX);
    for (size_t i = 0; i < map.node_count; i++)
        check_place(&map.nodes[i]);
    for (size_t i = 0; i < WEIR_REDIS_SLOTS; i++)
        require(map.masters[i] == WEIR_CLUSTER_NOBODY || map.masters[i] < map.master_count);
}

static void read_as_redirect(const uint8_t *data, size_t size)
{
    char text[512] = { 0 };
    memcpy(text, data, size < sizeof text ? size : sizeof text - 1);
    struct weir_cluster_redirect redirect;
    if (!weir_cluster_redirect_read(text, &asked, &redirect))
        return;
    require(redirect.slot < WEIR_REDIS_SLOTS);
    check_place(&redirect.to);
}

static void read_as_key(const uint8_t *data, size_t size)
{
    struct weir_text key = { (const char *)data, size };
    struct weir_text tag = weir_redis_slot_text(key);
    require(tag.at >= key.at && tag.at + tag.length <= key.at + key.length);
    require(size == 0 || tag.length > 0);
    require(weir_redis_slot(key) < WEIR_REDIS_SLOTS);
}

/* hiredis 0.14.1 takes room for as many elements as a server announces. The system gives memory
 * only as it is used, so that is no harm, but a fuzzer takes it for one. */
static bool announces_much(const uint8_t *data, size_t size)
{
    size_t digits = 0;
    bool counts = false;
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '*')
            digits = 0;
        counts = data[i] == '*' || (counts && data[i] != '\r');
        digits += data[i] >= '0' && data[i] <= '9';
        if (counts && digits > 5)
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_as_redirect(data, size);
    read_as_key(data, size);
    if (announces_much(data, size))
        return 0;
    redisReader *reader = redisReaderCreate();
    require(reader != NULL);
    void *reply = NULL;
    redisReaderFeed(reader, (const char *)data, size);
    while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
        read_as_map(reply);
        freeReplyObject(reply);
        reply = NULL;
    }
    redisReaderFree(reader);
    return 0;
}
