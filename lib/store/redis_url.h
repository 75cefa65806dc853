/* Where one or more Redis servers are and how to enter them, out of a URL. */
#ifndef WEIR_STORE_REDIS_URL_H
#define WEIR_STORE_REDIS_URL_H

#include <weir/error.h>

#define WEIR_REDIS_PLACES_MAX 16

enum weir_redis_topology { WEIR_REDIS_SINGLE, WEIR_REDIS_SENTINEL, WEIR_REDIS_CLUSTER };

struct weir_redis_place {
    char host[256]; /* name, IPv4 or IPv6 literal without brackets; "": a Unix socket */
    unsigned port;  /* 1 to 65535                                                     */
};

struct weir_redis_login {
    char user[128];     /* "": the default user  */
    char password[512]; /* "": none is asked for */
};

struct weir_redis_url {
    enum weir_redis_topology topology;
    bool tls;
    struct weir_redis_place places[WEIR_REDIS_PLACES_MAX]; /* the server, the Sentinels, or some
                                                            * nodes of the cluster             */
    size_t place_count;                                    /* single: 1                        */
    char path[108];                /* of the Unix socket; as long as the system takes         */
    struct weir_redis_login login; /* of the servers that hold the sums                       */
    struct weir_redis_login sentinel_login;
    char master[128]; /* its name at the Sentinels                                             */
    unsigned database;
    char shown[300]; /* fit for a log line: "127.0.0.1:6379", "[::1]:6379", the path,
                      * "master \"mymaster\" of 127.0.0.1:26379,…", "cluster of 127.0.0.1:7000,…" */
};

/* Reads one of
 *
 *     redis://[[user]:password@]host[:port][/db]
 *     redis+unix://[[user]:password@]/path[?db=N]
 *     redis+sentinel://[[user]:password@]host[:port],…/master[/db]
 *                      [?sentinel_user=U&sentinel_password=P]
 *     redis+cluster://[[user]:password@]host[:port],…
 *
 * or with "rediss" for TLS, but for the Unix socket; users, passwords, the path and the master's
 * name are percent-decoded. Errors are WEIR_E_VALUE at "/store/url"; none shows what may hold a
 * password. Pure. */
enum weir_code weir_redis_url_read(const char *url, struct weir_redis_url *read,
                                   struct weir_error *error);

/* Overwrites the passwords. */
void weir_redis_url_forget(struct weir_redis_url *read);

#endif
