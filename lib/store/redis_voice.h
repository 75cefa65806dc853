/* What was said in the log about servers, by all links of a store that lead to one: so that a
 * line stands there once for each change, however many links meet it. Several threads may call
 * at once. */
#ifndef WEIR_STORE_REDIS_VOICE_H
#define WEIR_STORE_REDIS_VOICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/redis_advice.h"

/* Of more servers that are down at once, each link speaks for itself. */
#define WEIR_VOICE_SERVERS_MAX 64

/* So many reasons are known again as long as a server is down. */
#define WEIR_VOICE_WHYS_MAX 8

/* A server that comes and goes is not said to answer more often than that, nor are reasons that
 * come and go. */
#define WEIR_VOICE_PAUSE_US UINT64_C(1000000)

struct weir_redis_voice {
    pthread_mutex_t mutex;
    struct weir_voice_server {
        uint64_t server;                    /* a hash of its name                                 */
        unsigned down;                      /* how many links know that it does not answer        */
        uint64_t down_at_us;                /* since when                                         */
        uint64_t said_up_us;                /* when it was said last that it does; 0: never       */
        uint64_t whys[WEIR_VOICE_WHYS_MAX]; /* said since then, as hashes          */
        size_t why_count;
        uint64_t said_why_us;
        unsigned failing;       /* how many links know that it answers, but does not count */
        uint64_t failing_at_us; /* since when                                              */
        uint64_t failing_why;   /* a hash                                                  */
        uint64_t said_failing_us;
    } servers[WEIR_VOICE_SERVERS_MAX];
    struct weir_advice_book advice;
    atomic_uint_fast64_t late_answers; /* of all servers; needs no lock */
};

/* False: the system lacks what it takes. */
bool weir_voice_init(struct weir_redis_voice *voice);
void weir_voice_finish(struct weir_redis_voice *voice);

/* The name under which a server is known below; never 0. Pure. */
uint64_t weir_voice_name(const char *server);

/* A link has found that its server does not answer; true: say so. */
bool weir_voice_down(struct weir_redis_voice *voice, uint64_t server, const char *why,
                     uint64_t now_us);

/* The server itself gives another reason; true: say so. That is so once for each as long as it is
 * down, and not within the pause after another. */
bool weir_voice_reason(struct weir_redis_voice *voice, uint64_t server, const char *why,
                       uint64_t now_us);

enum weir_voice_up {
    WEIR_VOICE_SAY,   /* `after_us` is for how long it did not answer               */
    WEIR_VOICE_QUIET, /* others have found it down, and nothing else                */
    WEIR_VOICE_LATER  /* not yet: that was just said; call again when it has lasted */
};

/* A link that had found it down has found that it answers; `lasts`: for a while already. */
enum weir_voice_up weir_voice_up(struct weir_redis_voice *voice, uint64_t server, bool lasts,
                                 uint64_t now_us, uint64_t *after_us);

/* A link has found that its server answers with errors and does not count, which `is_new`, or for
 * another reason than before; true: say so. */
bool weir_voice_failing(struct weir_redis_voice *voice, uint64_t server, bool is_new,
                        const char *why, uint64_t now_us);

/* A link that had found so has found that it counts; true: say so, and after how long. */
bool weir_voice_counts(struct weir_redis_voice *voice, uint64_t server, uint64_t now_us,
                       uint64_t *after_us);

/* Something was looked up that an operator should know, or mend; true: say so. */
bool weir_voice_advise(struct weir_redis_voice *voice, const char *server, enum weir_advice advice,
                       enum weir_advice_finding finding);

/* A link that had found it down, or failing, is no more. */
void weir_voice_leave(struct weir_redis_voice *voice, uint64_t server);
void weir_voice_leave_failing(struct weir_redis_voice *voice, uint64_t server);

#endif
