/* What a cluster says of itself: its nodes, who serves which slot, and where else to ask. Pure; the
 * readers take whatever hiredis's parser may give them. */
#ifndef WEIR_STORE_REDIS_CLUSTER_MAP_H
#define WEIR_STORE_REDIS_CLUSTER_MAP_H

#include "store/redis_slot.h"
#include "store/redis_url.h"

struct redisReply;

/* More masters than this are refused; of more replicas the rest is left out. */
#define WEIR_CLUSTER_NODES_MAX 200

/* In place of a node: nobody serves the slot. */
#define WEIR_CLUSTER_NOBODY UINT8_MAX

struct weir_cluster_map {
    struct weir_redis_place nodes[WEIR_CLUSTER_NODES_MAX]; /* masters first, then replicas    */
    size_t master_count;                                   /* that serve slots                */
    size_t node_count;
    uint8_t masters[WEIR_REDIS_SLOTS]; /* of each slot: an index of `nodes`, or NOBODY        */
};

bool weir_redis_place_equal(const struct weir_redis_place *one,
                            const struct weir_redis_place *other);

/* Reads the reply to CLUSTER SLOTS. A node whose address the cluster does not know, or does not tell,
 * is at the host that was asked. False: it is no map, and `why` tells the log what it is instead;
 * `map` is of no use then. */
bool weir_cluster_map_read(struct weir_cluster_map *map, const struct redisReply *reply,
                           const struct weir_redis_place *asked, char *why, size_t size);

/* Another node has the slot, or has its keys that are not here. */
struct weir_cluster_redirect {
    bool is_ask; /* "ASK": for this once; else "MOVED": from now on */
    unsigned slot;
    struct weir_redis_place to;
};

/* Reads the text of such an error, "MOVED 3999 127.0.0.1:6381"; without a host it means that of
 * `asked`. False: it is none. */
bool weir_cluster_redirect_read(const char *text, const struct weir_redis_place *asked,
                                struct weir_cluster_redirect *redirect);

#endif
