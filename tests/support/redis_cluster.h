/* A Redis Cluster of a test's own: three masters with a replica each, all of them real, on ports that
 * the system chose. They die with the test. Functions that fail, fail the test. */
#ifndef TESTS_SUPPORT_REDIS_CLUSTER_H
#define TESTS_SUPPORT_REDIS_CLUSTER_H

#include "redis_server.h"

#define REDIS_CLUSTER_MASTERS 3
#define REDIS_CLUSTER_NODES   6

/* No node has this index. */
#define REDIS_CLUSTER_NONE SIZE_MAX

struct redis_cluster {
    /* set before redis_cluster_start(); zero is a choice for each */
    unsigned node_timeout_ms; /* a node that says nothing for so long is down; 0: a minute */
    bool keeps_data;          /* over a restart                                            */

    /* The first three start as masters of a third of the slots each, and the fourth to sixth as
     * their replicas. Where some slots have no master, the others are served all the same. */
    struct redis_server nodes[REDIS_CLUSTER_NODES];
    char places[120]; /* "127.0.0.1:1,127.0.0.1:2,…": all of them, for a URL */
    char url[150];    /* "redis+cluster://" and that                         */

    bool is_frozen[REDIS_CLUSTER_NODES];
    unsigned bus_ports[REDIS_CLUSTER_NODES];
    int bus_holders[REDIS_CLUSTER_NODES];
    char texts[REDIS_CLUSTER_NODES][2][12];
    const char *options[REDIS_CLUSTER_NODES][16];
};

/* Starts all of it, and returns when each node takes all slots to be served and the replicas follow;
 * a cluster takes two seconds for that. */
void redis_cluster_start(struct redis_cluster *cluster);

/* Starts whatever does not run, thaws whatever is frozen, and returns when it is so again. */
void redis_cluster_heal(struct redis_cluster *cluster);

void redis_cluster_remove(struct redis_cluster *cluster);

/* SIGSTOP; a node that is frozen is not asked by any of these functions. */
void redis_cluster_freeze(struct redis_cluster *cluster, size_t index);

/* The same command for each node that runs; "%s" in it stands for `argument`. */
void redis_cluster_tell_all(const struct redis_cluster *cluster, const char *command,
                            const char *argument);

/* Whether all nodes that run say that all slots are served. */
bool redis_cluster_is_well(const struct redis_cluster *cluster);

/* The index of the node that says that it serves a slot; NONE: there is none at the moment. */
size_t redis_cluster_master_of(const struct redis_cluster *cluster, unsigned slot);

/* Waits, up to a minute, until that is another node than `old`, and returns it. */
size_t redis_cluster_wait_for_other(const struct redis_cluster *cluster, unsigned slot, size_t old);

/* The running replica of a master; NONE: it has none. */
size_t redis_cluster_replica_of(const struct redis_cluster *cluster, size_t master);

/* Has the replica of a slot's master take over from it, though that is well, and returns which one
 * that is. */
size_t redis_cluster_fail_over(const struct redis_cluster *cluster, unsigned slot);

/* Returns when the replica of a master has received all that the master was told so far. */
void redis_cluster_replicate(const struct redis_cluster *cluster, size_t master);

/* Moves a slot to another master, in steps: from the first to the last of these, keys that are there
 * are asked for at the old master, and others at the new one. */
void redis_cluster_begin_move(const struct redis_cluster *cluster, unsigned slot, size_t to);
void redis_cluster_move_keys(const struct redis_cluster *cluster, unsigned slot, size_t to);
void redis_cluster_end_move(const struct redis_cluster *cluster, unsigned slot, size_t to);

/* How many commands of this name, "evalsha", a node has carried out, and how many errors of this
 * kind, "MOVED", it has answered. */
unsigned long long redis_cluster_calls(const struct redis_cluster *cluster, size_t index,
                                       const char *command);
unsigned long long redis_cluster_errors(const struct redis_cluster *cluster, size_t index,
                                        const char *kind);

#endif
