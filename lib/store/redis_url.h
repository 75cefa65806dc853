/* Where a Redis server is and how to enter it, out of a URL. */
#ifndef WEIR_STORE_REDIS_URL_H
#define WEIR_STORE_REDIS_URL_H

#include <weir/error.h>

struct weir_redis_url {
    char host[256];     /* name, IPv4 or IPv6 literal without brackets; "": a Unix socket */
    char path[108];     /* of the Unix socket; as long as the system takes                */
    unsigned port;      /* 1 to 65535                                                     */
    char user[128];     /* "": the default user                                           */
    char password[512]; /* "": none is asked for                                          */
    unsigned database;
    char shown[300]; /* "127.0.0.1:6379", "[::1]:6379" or the path: fit for a log line */
};

/* Reads "redis://[[user]:password@]host[:port][/db]" and "redis+unix://[[user]:password@]/path
 * [?db=N]"; user and password percent-decoded. Errors, at "/store/url": WEIR_E_VALUE, and
 * WEIR_E_NOT_YET for TLS, Sentinel and Cluster. No error shows what may hold a password. Pure. */
enum weir_code weir_redis_url_read(const char *url, struct weir_redis_url *read,
                                   struct weir_error *error);

/* Overwrites the password. */
void weir_redis_url_forget(struct weir_redis_url *read);

#endif
