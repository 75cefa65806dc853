/* One master, two replicas and three Sentinels of a test's own, all of them real, on ports that the
 * system chose. They die with the test. Functions that fail, fail the test. */
#ifndef TESTS_SUPPORT_REDIS_SENTINEL_H
#define TESTS_SUPPORT_REDIS_SENTINEL_H

#include "redis_server.h"

#define SENTINEL_SERVERS 3
#define SENTINELS        3

/* The master's name at the Sentinels. */
#define SENTINEL_MASTER "mymaster"

/* No server has this index. */
#define SENTINEL_NONE SIZE_MAX

struct sentinel {
    pid_t pid; /* 0: it does not run */
    unsigned port;
    int port_holder;
    char file[120]; /* its configuration, which it rewrites */
};

struct sentinel_group {
    /* set before sentinel_group_start(); zero is a choice for each */
    const char *password;          /* of the servers; NULL: none                              */
    const char *sentinel_password; /* of the Sentinels; NULL: none                            */
    const char *sentinel_user;     /* one more line "user …" of their configuration, or NULL  */
    bool announces_names;          /* the Sentinels name "localhost" instead of an address    */
    unsigned down_after_ms;        /* a master that is silent for so long is down; 0: 1000    */

    struct redis_server servers[SENTINEL_SERVERS]; /* the first one starts as the master */
    struct sentinel sentinels[SENTINELS];
    char folder[100]; /* of the Sentinels' files */
    char places[80];  /* "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3": the Sentinels, for a URL */

    char port_of_first[8];
    const char *options[SENTINEL_SERVERS][24];
};

/* Starts all of it, and returns when the Sentinels know each other and the replicas follow. */
void sentinel_group_start(struct sentinel_group *group);

/* Starts whatever does not run, thaws whatever is frozen, and returns when there is one master that
 * all agree on, and the others follow it. */
void sentinel_group_heal(struct sentinel_group *group);

void sentinel_group_remove(struct sentinel_group *group);

/* Writes a URL of its master into `url` and returns it; `login` is NULL or "user:password", and
 * `rest` what stands behind the master's name. */
const char *sentinel_group_url(const struct sentinel_group *group, const char *login,
                               const char *rest, char *url, size_t size);

/* The index of the server that most of the Sentinels that run name as the master, if it runs and
 * says that it is one; SENTINEL_NONE: there is none at the moment. */
size_t sentinel_group_master(const struct sentinel_group *group);

/* Waits, up to a minute, until that is another one than `old`, and returns it. */
size_t sentinel_group_wait_for_other(const struct sentinel_group *group, size_t old);

/* Tells a Sentinel to make another server the master, though this one is well. */
void sentinel_group_fail_over(const struct sentinel_group *group);

/* Returns when both replicas have received all that the master was told so far. */
void sentinel_group_replicate(const struct sentinel_group *group);

/* Asks a Sentinel; NULL: it does not answer. The reply is the caller's. */
redisReply *sentinel_ask(const struct sentinel_group *group, size_t index, const char *format, ...);

/* SIGKILL and a start anew; SIGSTOP and SIGCONT. */
void sentinel_kill(struct sentinel_group *group, size_t index);
void sentinel_start(struct sentinel_group *group, size_t index);
void sentinel_freeze(struct sentinel_group *group, size_t index);
void sentinel_thaw(struct sentinel_group *group, size_t index);

#endif
