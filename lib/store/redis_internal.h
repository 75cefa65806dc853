/* A Redis store from the inside. redis.c is what the library sees of it, redis_loop.c its thread,
 * and redis_link.h a connection of it; redis_pending.c is where other threads hand in checks. */
#ifndef WEIR_STORE_REDIS_INTERNAL_H
#define WEIR_STORE_REDIS_INTERNAL_H

#include "store/redis_batch.h"
#include "store/redis_link.h"
#include "store/redis_pending.h"
#include "store/redis_tls.h"
#include "store/redis_voice.h"
#include "store/redis_wire.h"

/* The largest cluster that we take, its seeds, and some that come and go. */
#define WEIR_REDIS_LINKS_MAX 256

/* How servers are found, and which of them a check goes to. All but `make`, `finish`, `close`,
 * `submit` and `cancel` run on the store's thread; what is NULL does nothing. */
struct weir_redis_topology_type {
    /* Before the thread starts, and after it has ended. */
    enum weir_code (*make)(struct weir_redis *redis, struct weir_error *error);
    void (*finish)(struct weir_redis *redis);

    /* The store is to be freed, on that thread; the store's own still works. */
    void (*close)(struct weir_redis *redis);

    /* The thread starts: makes the first links. */
    void (*start)(struct weir_redis *redis, uint64_t now_us);

    /* In each round, before all else; returns the time at which it wants to be called again at the
     * latest (of the monotonic clock; UINT64_MAX: at the next news). */
    uint64_t (*tick)(struct weir_redis *redis, uint64_t now_us);

    /* The link that takes a check, which is open or connecting; NULL: none does, and `why` may tell
     * more. Never NULL itself. */
    struct weir_redis_link *(*route)(struct weir_redis *redis, const struct weir_check *check,
                                     const char **why);

    /* Whether any check has a chance. Never NULL. */
    bool (*accepts)(const struct weir_redis *redis);

    /* A try of this link begins: true if the topology finds out where to, and will call
     * weir_link_go() or weir_link_lose() within the second. False: to `place`. */
    bool (*seek)(struct weir_redis_link *link, uint64_t now_us);

    /* Adds to the greeting by weir_link_greet_with(). */
    void (*greet)(struct weir_redis_link *link);

    /* The link has opened; it was lost, or a try has failed (`lost_why` says why). */
    void (*on_open)(struct weir_redis_link *link, uint64_t now_us);
    void (*on_lost)(struct weir_redis_link *link, uint64_t now_us);

    /* Redis did not do what a check asked for, and another server may (MOVED, ASK, TRYAGAIN, UNFIT
     * and CLUSTER_DOWN). The check is taken. True: it was ended, or put back and put elsewhere.
     * False: it ends as an error, and where it is UNFIT the link is lost. */
    bool (*on_refusal)(struct weir_redis_link *link, struct weir_redis_command *command,
                       enum weir_redis_meaning meaning, const struct redisReply *reply);

    /* The reply to a question of kind ROLE, or from TO_TOPOLOGY to TO_ADVICE - 1. */
    void (*on_reply)(struct weir_redis_link *link, enum weir_redis_kind kind,
                     const struct redisReply *reply, uint64_t now_us);

    /* On a link that ASKS: true if this is no reply to anything, and was dealt with. */
    bool (*on_message)(struct weir_redis_link *link, const struct redisReply *reply,
                       uint64_t now_us);

    /* On any thread: true if it takes the check itself, or has cancelled it. */
    bool (*submit)(struct weir_redis *redis, struct weir_check *check);
    bool (*cancel)(struct weir_redis *redis, struct weir_check *check);
};

extern const struct weir_redis_topology_type weir_redis_single;
extern const struct weir_redis_topology_type weir_redis_sentinel;
extern const struct weir_redis_topology_type weir_redis_cluster;

/* What other threads may see of how the store is. */
struct weir_redis_health {
    enum weir_breaker_state breaker;
    uint64_t down_at_us; /* 0: it is not                 */
    uint64_t try_at_us;  /* if OPEN: of the next try     */
    char server[WEIR_REDIS_WHY_CHARS];
    char why[WEIR_REDIS_WHY_CHARS];
};

struct weir_redis {
    struct weir_redis_url url;
    const struct weir_redis_topology_type *topology;
    uint64_t timeout_us;
    struct weir_log log;
    bool is_silent;                 /* another lane says the same                          */
    bool is_driven;                 /* without a thread of its own: see redis_driven.c     */
    struct weir_redis_voice *voice; /* shared by all lanes of a store                      */
    struct weir_redis_tls *tls;     /* NULL: none                                              */
    struct weir_clock test_clock;   /* `now_us` NULL: Redis decides by its own               */
    uint64_t seed;                  /* of jitter                                             */

    pthread_t thread;
    int wake_fd; /* an eventfd: ends the thread's wait                                     */
    struct weir_pending pending;

    pthread_mutex_t health_mutex;
    struct weir_redis_health health;
    atomic_bool is_well; /* all links that take checks are open, and count */

    /* The rest belongs to the store's thread. */
    struct weir_redis_scripts scripts;
    struct weir_redis_batcher batcher;
    struct weir_redis_resolver resolver;
    struct weir_redis_link *links[WEIR_REDIS_LINKS_MAX]; /* with gaps                      */
    size_t link_count;                                   /* behind the last one            */
    bool accepts;                                        /* as `pending` was told last     */
    bool has_said;                                       /* …which it was                  */
    uint64_t tick_at_us;
    void *own; /* the topology's */
};

/* redis_loop.c */

void *weir_redis_run(void *self);

/* What its thread does again and again, for who drives it: a round; and a wait for what comes, which
 * is read. The wait ends when `fd` (-1: none) is readable, which is then returned. */
void weir_redis_do_round(struct weir_redis *redis);
bool weir_redis_wait(struct weir_redis *redis, int fd, uint64_t wait_us);

/* Ends all checks and frees the links: nothing is waited for any more. */
void weir_redis_shut(struct weir_redis *redis);
void weir_redis_wake(struct weir_redis *redis);

/* Ends a check that was taken, or never entered; `why` NULL keeps what stands there. */
void weir_redis_end(struct weir_check *check, enum weir_store_result result, const char *why);

/* Ends all checks of a row. */
void weir_redis_end_row(struct weir_redis *redis, const struct weir_redis_commands *row,
                        enum weir_store_result result, const char *why);

/* Gives the held check to a link; NULL: it is handed out once more. Where there is no room it
 * ends. */
void weir_redis_send(struct weir_redis *redis, struct weir_redis_link *link,
                     const struct weir_redis_command *command);

/* The same for a check that was taken, since its reply says that nothing was done. False: that was
 * so often enough, and the check is still to be ended. */
bool weir_redis_send_again(struct weir_redis *redis, struct weir_redis_link *link,
                           struct weir_redis_command *command);

/* redis_report.c */

/* Tells other threads how the store is, and whether it takes checks: something may have changed. */
void weir_redis_tell(struct weir_redis *redis);

/* The link's server does not answer, or does again. The log says so once for each change. */
void weir_link_report_down(struct weir_redis_link *link, const char *why, uint64_t now_us);
void weir_link_report_up(struct weir_redis_link *link, uint64_t now_us);

/* It answered a check with an error, which `is_of_server` if no other key would fare better; or
 * changed what a check asked for. A server of which there are only such errors is said not to count,
 * in the log and in the state. */
void weir_link_report_error(struct weir_redis_link *link, const struct weir_check *check,
                            bool is_of_server);
void weir_link_report_counted(struct weir_redis_link *link);

/* The link goes to another server, or is no more. */
void weir_link_forget_errors(struct weir_redis_link *link);

/* Whether all links that take checks are open, answer and count. */
bool weir_redis_is_well(const struct weir_redis *redis);

/* Fills what is asked for. Any thread. */
void weir_redis_read_health(struct weir_redis *redis, struct weir_store_state *state);

/* redis.c */

/* One thread with its links. */
extern const struct weir_store_type weir_redis_type;

/* Makes one and starts its thread; all is copied but for the voice, which is borrowed. Whether it
 * is known yet where its server is, weir_pending_wait_for_start() tells. Ends with
 * weir_redis_type.free(). */
enum weir_code weir_redis_new(const struct weir_redis_url *url,
                              const struct weir_store_options *options,
                              const struct weir_clock *clock, struct weir_redis_voice *voice,
                              bool is_silent, struct weir_redis **redis, struct weir_error *error);

/* Makes one without a thread, to the same servers as `like`, which outlives it: nothing is said of it
 * in the log, nor in the state of the store. NULL: the system lacks what it takes. */
struct weir_redis *weir_redis_new_driven(const struct weir_redis *like);

/* Hands a check without a fault in, as weir_store_type's submit does but with a deadline of the
 * caller's. Any thread. */
void weir_redis_enter(struct weir_redis *redis, struct weir_check *check, uint64_t deadline_us);

/* Ends a check that was handed in that way, as weir_store_type's cancel does. */
void weir_redis_cancel(struct weir_redis *redis, struct weir_check *check);

/* redis_driven.c */

/* More threads than this do not drive lanes of one store. */
#define WEIR_REDIS_DRIVEN_MAX 256

/* The lanes of a store that other threads drive; the `lanes_self` of weir_redis_driven_type. */
struct weir_redis_driven {
    struct weir_redis *const *own; /* those with threads of the store's */
    size_t own_count;
    pthread_mutex_t mutex; /* of what follows */
    struct weir_lane *first;
    size_t count;
};

/* False: the system lacks what it takes. */
bool weir_redis_driven_init(struct weir_redis_driven *driven);

/* Frees them all; nobody drives them any more. */
void weir_redis_driven_finish(struct weir_redis_driven *driven);

extern const struct weir_lane_type weir_redis_driven_type;

/* redis_lanes.c */

#define WEIR_REDIS_LANES_MAX 16

/* Makes a store of so many threads, each with links of its own. A check goes to one of them by its
 * first key, so that one client's are always decided in the order in which they came. */
enum weir_code weir_redis_lanes_new(const struct weir_redis_url *url,
                                    const struct weir_store_options *options,
                                    const struct weir_clock *clock, struct weir_store **store,
                                    struct weir_error *error);

/* Which of `count` lanes decides a check. Pure. */
size_t weir_redis_lane_of(const struct weir_check *check, size_t count);

/* weir_store_new_redis() with scripts that take their time from `clock` (copied; NULL: Redis's own)
 * and keep their keys an hour longer, for tests that move time by hand. */
enum weir_code weir_store_new_redis_by(const char *url, const struct weir_store_options *options,
                                       const struct weir_clock *clock, struct weir_store **store,
                                       struct weir_error *error);

#endif
