#include "redis_cluster.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#define SLOTS      16384
#define MINUTE_MS  60000
#define WAIT_S     60
#define KEYS_A_GO  "100"
#define ID_CHARS   40
#define LINE_CHARS 512

/* time */

static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void pause_a_moment(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
}

static void name_places(struct redis_cluster *cluster)
{
    size_t length = 0;
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
        length += (size_t)snprintf(cluster->places + length, sizeof cluster->places - length,
                                   "%s127.0.0.1:%u", i == 0 ? "" : ",", cluster->nodes[i].port);
    snprintf(cluster->url, sizeof cluster->url, "redis+cluster://%s", cluster->places);
}

/* the nodes */

static void set_options(struct redis_cluster *cluster, size_t index)
{
    const char **options = cluster->options[index];
    size_t count = 0;
    char(*texts)[12] = cluster->texts[index];
    unsigned timeout_ms = cluster->node_timeout_ms == 0 ? MINUTE_MS : cluster->node_timeout_ms;
    snprintf(texts[0], sizeof texts[0], "%u", cluster->bus_ports[index]);
    snprintf(texts[1], sizeof texts[1], "%u", timeout_ms);
    const char *const always[] = {
        "--cluster-enabled", "yes", "--cluster-port", texts[0], "--cluster-node-timeout", texts[1],
        "--cluster-require-full-coverage", "no",
        /* A replica is to follow as soon as it asks, and to take over however old its data. */
        "--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0"
    };
    for (size_t i = 0; i < COUNT_OF(always); i++)
        options[count++] = always[i];
    cluster->nodes[index].options = options;
    cluster->nodes[index].keeps_data = cluster->keeps_data;
}

static void write_node(FILE *file, const struct redis_cluster *cluster, size_t index, bool is_own)
{
    bool is_master = index < REDIS_CLUSTER_MASTERS;
    size_t master = index % REDIS_CLUSTER_MASTERS;
    fprintf(file, "%0*zx 127.0.0.1:%u@%u", ID_CHARS, index + 1, cluster->nodes[index].port,
            cluster->bus_ports[index]);
    fprintf(file, " %s%s ", is_own ? "myself," : "", is_master ? "master" : "slave");
    if (is_master)
        fprintf(file, "- 0 0 %zu connected %zu-%zu\n", index + 1,
                master * SLOTS / REDIS_CLUSTER_MASTERS,
                (master + 1) * SLOTS / REDIS_CLUSTER_MASTERS - 1);
    else
        fprintf(file, "%0*zx 0 0 %zu connected\n", ID_CHARS, master + 1, master + 1);
}

/* What a cluster would have to be told, and pass on, in some seconds stands there from the start. */
static void write_file(const struct redis_cluster *cluster, size_t index)
{
    char name[120];
    snprintf(name, sizeof name, "%s/nodes.conf", cluster->nodes[index].folder);
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
        write_node(file, cluster, i, i == index);
    fprintf(file, "vars currentEpoch %d lastVoteEpoch 0\n", REDIS_CLUSTER_MASTERS);
    assert_int_equal(fclose(file), 0);
}

/* asking */

static bool runs(const struct redis_cluster *cluster, size_t index)
{
    return cluster->nodes[index].pid != 0 && !cluster->is_frozen[index];
}

/* A line of INFO or CLUSTER INFO that begins so, or "" without it; it is kept until the next call. */
static const char *info_line(const struct redis_cluster *cluster, size_t index, const char *command,
                             const char *name)
{
    static char line[LINE_CHARS];
    redisReply *reply = redis_server_ask(&cluster->nodes[index], command);
    line[0] = '\0';
    const char *found = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, name) : NULL;
    if (found != NULL)
        snprintf(line, sizeof line, "%.*s", (int)strcspn(found, "\r\n"), found);
    freeReplyObject(reply);
    return line;
}

static bool says(const struct redis_cluster *cluster, size_t index, const char *command,
                 const char *line)
{
    return strcmp(info_line(cluster, index, command, line), line) == 0;
}

static bool is_master(const struct redis_cluster *cluster, size_t index)
{
    return says(cluster, index, "INFO replication", "role:master");
}

static bool follows(const struct redis_cluster *cluster, size_t index)
{
    return says(cluster, index, "INFO replication", "master_link_status:up");
}

bool redis_cluster_is_well(const struct redis_cluster *cluster)
{
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
        if (runs(cluster, i)
            && (!says(cluster, i, "CLUSTER INFO", "cluster_state:ok")
                || !says(cluster, i, "CLUSTER INFO", "cluster_slots_ok:16384")))
            return false;
    return true;
}

static bool all_follow(const struct redis_cluster *cluster)
{
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
        if (runs(cluster, i) && !is_master(cluster, i) && !follows(cluster, i))
            return false;
    return true;
}

static void wait_until_well(const struct redis_cluster *cluster)
{
    time_t until_s = now_s() + WAIT_S;
    while (!redis_cluster_is_well(cluster) || !all_follow(cluster)) {
        assert_true(now_s() < until_s);
        pause_a_moment();
    }
}

/* starting and ending */

void redis_cluster_start(struct redis_cluster *cluster)
{
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++) {
        redis_server_prepare(&cluster->nodes[i]);
        cluster->bus_ports[i] = redis_server_hold_port(&cluster->bus_holders[i]);
    }
    name_places(cluster);
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++) {
        set_options(cluster, i);
        write_file(cluster, i);
        redis_server_start(&cluster->nodes[i]);
    }
    wait_until_well(cluster);
}

void redis_cluster_heal(struct redis_cluster *cluster)
{
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++) {
        if (cluster->nodes[i].pid == 0)
            redis_server_start(&cluster->nodes[i]);
        else
            redis_server_thaw(&cluster->nodes[i]);
        cluster->is_frozen[i] = false;
    }
    wait_until_well(cluster);
}

void redis_cluster_freeze(struct redis_cluster *cluster, size_t index)
{
    redis_server_freeze(&cluster->nodes[index]);
    cluster->is_frozen[index] = true;
}

void redis_cluster_remove(struct redis_cluster *cluster)
{
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++) {
        redis_server_remove(&cluster->nodes[i]);
        close(cluster->bus_holders[i]);
    }
}

void redis_cluster_tell_all(const struct redis_cluster *cluster, const char *command,
                            const char *argument)
{
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
        if (runs(cluster, i))
            redis_server_do(&cluster->nodes[i], command, argument);
}

/* who serves what */

/* Whether a node says that the node of that id, or "myself,master", serves a slot. Behind "connected"
 * a node's line names its slots: "0-5460 7000 [93->-…]". */
static bool gives(const struct redis_cluster *cluster, size_t index, const char *whom,
                  unsigned slot)
{
    const char *line = info_line(cluster, index, "CLUSTER NODES", whom);
    const char *at = strstr(line, " connected");
    at = at == NULL ? "" : at + strlen(" connected");
    for (; *at == ' '; at += strcspn(at + 1, " ") + 1) {
        char *end;
        unsigned long first = strtoul(at + 1, &end, 10);
        unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        if (end != at + 1 && first <= slot && slot <= last)
            return true;
    }
    return false;
}

static bool serves(const struct redis_cluster *cluster, size_t index, unsigned slot)
{
    return gives(cluster, index, "myself,master", slot);
}

size_t redis_cluster_master_of(const struct redis_cluster *cluster, unsigned slot)
{
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
        if (runs(cluster, i) && serves(cluster, i, slot))
            return i;
    return REDIS_CLUSTER_NONE;
}

size_t redis_cluster_wait_for_other(const struct redis_cluster *cluster, unsigned slot, size_t old)
{
    time_t until_s = now_s() + WAIT_S;
    for (;;) {
        for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
            if (i != old && runs(cluster, i) && serves(cluster, i, slot))
                return i;
        assert_true(now_s() < until_s);
        pause_a_moment();
    }
}

size_t redis_cluster_replica_of(const struct redis_cluster *cluster, size_t master)
{
    char port[32];
    snprintf(port, sizeof port, "master_port:%u", cluster->nodes[master].port);
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
        if (i != master && runs(cluster, i) && says(cluster, i, "INFO replication", port))
            return i;
    return REDIS_CLUSTER_NONE;
}

/* Masters vote for one replica of a shard in so and so many seconds, so it may take several tries. */
size_t redis_cluster_fail_over(const struct redis_cluster *cluster, unsigned slot)
{
    size_t old = redis_cluster_master_of(cluster, slot);
    size_t new = redis_cluster_replica_of(cluster, old);
    time_t until_s = now_s() + WAIT_S, asked_s = 0;
    assert_int_not_equal(new, REDIS_CLUSTER_NONE);
    while (!serves(cluster, new, slot)) {
        assert_true(now_s() < until_s);
        if (now_s() > asked_s)
            freeReplyObject(redis_server_ask(&cluster->nodes[new], "CLUSTER FAILOVER"));
        asked_s = now_s();
        pause_a_moment();
    }
    return new;
}

static long long offset_of(const struct redis_cluster *cluster, size_t index, const char *name)
{
    return strtoll(info_line(cluster, index, "INFO replication", name) + strlen(name), NULL, 10);
}

void redis_cluster_replicate(const struct redis_cluster *cluster, size_t master)
{
    size_t replica = redis_cluster_replica_of(cluster, master);
    assert_int_not_equal(replica, REDIS_CLUSTER_NONE);
    long long wanted = offset_of(cluster, master, "master_repl_offset:");
    time_t until_s = now_s() + WAIT_S;
    while (offset_of(cluster, replica, "slave_repl_offset:") < wanted) {
        assert_true(now_s() < until_s);
        pause_a_moment();
    }
}

/* moving slots */

static void ask_id(const struct redis_cluster *cluster, size_t index, char id[ID_CHARS + 1])
{
    redisReply *reply = redis_server_ask(&cluster->nodes[index], "CLUSTER MYID");
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    snprintf(id, ID_CHARS + 1, "%s", reply->str);
    freeReplyObject(reply);
}

void redis_cluster_begin_move(const struct redis_cluster *cluster, unsigned slot, size_t to)
{
    size_t from = redis_cluster_master_of(cluster, slot);
    char from_id[ID_CHARS + 1], to_id[ID_CHARS + 1];
    ask_id(cluster, from, from_id);
    ask_id(cluster, to, to_id);
    redis_server_do(&cluster->nodes[to], "CLUSTER SETSLOT %u IMPORTING %s", slot, from_id);
    redis_server_do(&cluster->nodes[from], "CLUSTER SETSLOT %u MIGRATING %s", slot, to_id);
}

static void move_key(const struct redis_cluster *cluster, size_t from, size_t to,
                     const redisReply *key)
{
    const struct redis_server *target = &cluster->nodes[to];
    unsigned port = target->port;
    if (target->password == NULL)
        redis_server_do(&cluster->nodes[from], "MIGRATE 127.0.0.1 %u %b 0 5000", port, key->str,
                        (size_t)key->len);
    else
        redis_server_do(&cluster->nodes[from], "MIGRATE 127.0.0.1 %u %b 0 5000 AUTH %s", port,
                        key->str, (size_t)key->len, target->password);
}

void redis_cluster_move_keys(const struct redis_cluster *cluster, unsigned slot, size_t to)
{
    size_t from = redis_cluster_master_of(cluster, slot), count;
    do {
        redisReply *keys =
            redis_server_ask(&cluster->nodes[from], "CLUSTER GETKEYSINSLOT %u " KEYS_A_GO, slot);
        assert_int_equal(keys->type, REDIS_REPLY_ARRAY);
        count = keys->elements;
        for (size_t i = 0; i < count; i++)
            move_key(cluster, from, to, keys->element[i]);
        freeReplyObject(keys);
    } while (count > 0);
}

static unsigned long long epoch_of(const struct redis_cluster *cluster, size_t index,
                                   const char *whom)
{
    unsigned long long epoch = 0;
    const char *line = info_line(cluster, index, "CLUSTER NODES", whom);
    assert_int_equal(sscanf(line, "%*s %*s %*s %*s %*s %*s %llu", &epoch), 1);
    return epoch;
}

/* Who has not heard of one move, and of its number, and makes the next, may give it a lower one: then
 * each of the two nodes believes the other. */
static void wait_until_all_agree(const struct redis_cluster *cluster, unsigned slot, size_t to)
{
    char id[ID_CHARS + 1], line[ID_CHARS + 16];
    ask_id(cluster, to, id);
    snprintf(line, sizeof line, "%s 127.0.0.1:", id); /* its own, not a replica's that names it */
    unsigned long long epoch = epoch_of(cluster, to, line);
    time_t until_s = now_s() + WAIT_S;
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
        while (runs(cluster, i)
               && (!gives(cluster, i, line, slot) || epoch_of(cluster, i, line) != epoch)) {
            assert_true(now_s() < until_s);
            pause_a_moment();
        }
}

void redis_cluster_end_move(const struct redis_cluster *cluster, unsigned slot, size_t to)
{
    char to_id[ID_CHARS + 1];
    size_t from = redis_cluster_master_of(cluster, slot);
    ask_id(cluster, to, to_id);
    /* The new master first, or the slot would be nobody's for a moment. */
    redis_server_do(&cluster->nodes[to], "CLUSTER SETSLOT %u NODE %s", slot, to_id);
    redis_server_do(&cluster->nodes[from], "CLUSTER SETSLOT %u NODE %s", slot, to_id);
    wait_until_all_agree(cluster, slot, to);
}

/* counting */

static unsigned long long number_behind(const struct redis_cluster *cluster, size_t index,
                                        const char *command, const char *name)
{
    const char *line = info_line(cluster, index, command, name);
    return line[0] == '\0' ? 0 : strtoull(line + strlen(name), NULL, 10);
}

unsigned long long redis_cluster_calls(const struct redis_cluster *cluster, size_t index,
                                       const char *command)
{
    char name[64];
    snprintf(name, sizeof name, "cmdstat_%s:calls=", command);
    return number_behind(cluster, index, "INFO commandstats", name);
}

unsigned long long redis_cluster_errors(const struct redis_cluster *cluster, size_t index,
                                        const char *kind)
{
    char name[64];
    snprintf(name, sizeof name, "errorstat_%s:count=", kind);
    return number_behind(cluster, index, "INFO errorstats", name);
}
