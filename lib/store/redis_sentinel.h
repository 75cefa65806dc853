/* What Sentinels say, and the servers that they name, as pure functions over replies. Each takes
 * whatever hiredis's parser may give it, NULL included. */
#ifndef WEIR_STORE_REDIS_SENTINEL_H
#define WEIR_STORE_REDIS_SENTINEL_H

#include <stdbool.h>

#include "store/redis_url.h"

struct redisReply;

/* On this channel a Sentinel tells whom a failover has made master. */
#define WEIR_SENTINEL_CHANNEL "+switch-master"

enum weir_sentinel_meaning {
    WEIR_SENTINEL_NAMED,   /* the master is at `place`                                           */
    WEIR_SENTINEL_UNKNOWN, /* it watches no master of that name                                  */
    WEIR_SENTINEL_REFUSED  /* it does not say where, or says what cannot be: `why` is filled     */
};

/* Reads the reply to SENTINEL get-master-addr-by-name. `place` and `why` are only written where the
 * result says so. */
enum weir_sentinel_meaning weir_sentinel_read_master(const struct redisReply *reply,
                                                     struct weir_redis_place *place, char *why,
                                                     size_t size);

/* Reads the reply to ROLE. False: that server is no master, and `why` says what it is. An error
 * counts as a master: a user without the right to ask learns it from READONLY. */
bool weir_sentinel_read_role(const struct redisReply *reply, char *why, size_t size);

enum weir_sentinel_message {
    WEIR_SENTINEL_NO_MESSAGE,   /* it is the reply to a command                                  */
    WEIR_SENTINEL_SWITCHED,     /* `master` is at `place` from now on                            */
    WEIR_SENTINEL_OTHER_MESSAGE /* something happened that is not to be known                    */
};

/* Tells messages to a subscriber, which come at any time, from replies, which come in order. */
enum weir_sentinel_message weir_sentinel_read_message(const struct redisReply *reply,
                                                      const char *master,
                                                      struct weir_redis_place *place);

#endif
