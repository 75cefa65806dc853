/* What the files leases*.c share: keys in shards, lines of those who wait, calls to the store.
 *
 * Locks: a check locks the shards of its keys in the order of their addresses, then `mutex`. Nothing is
 * called that is not ours under a lock. */
#ifndef WEIR_LIMIT_LEASES_INTERNAL_H
#define WEIR_LIMIT_LEASES_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "limit/lease.h"
#include "limit/leases.h"

#define WEIR_LEASE_SHARDS 64

/* So long after the store was asked nothing is held any more; with a tick that is up to a second. */
#define WEIR_LEASE_HOLD_US UINT64_C(800000)
#define WEIR_LEASE_TICK_US UINT64_C(200000)

struct weir_lease_call;

/* What is known of one key. */
struct weir_lease_entry {
    struct weir_lease_entry *next;          /* in its bucket                                  */
    struct weir_lease_entry *older, *newer; /* by when the store was asked                    */
    struct weir_lease_call *call;           /* for a block, under way; NULL: none. An entry
                                             * that has one, or a line, stays                 */
    struct weir_lease_waiter *first, *last; /* in line; guarded by `mutex`                    */
    uint64_t waiting;                       /* units they want; likewise                      */
    uint64_t places;                        /* that were taken in it so far; likewise         */
    uint64_t called_us;                     /* when its call was made; likewise               */
    uint64_t hash;
    struct weir_lease_block block;
    struct weir_lease_demand demand;
    uint64_t low_water;
    uint64_t most_asked;   /* after a refusal: less than what was refused; 0: as much as it likes */
    uint64_t not_early_us; /* no block is asked for ahead of its need until then    */
    uint64_t touched_us;   /* when it was put at the end of the shard's list        */
    uint64_t used_us;      /* when somebody last wanted anything                    */
    bool is_kept;          /* by the plan that is being looked at: not evicted      */
    struct weir_lease lease; /* a copy, as all that follows: the policy may change meanwhile */
    struct weir_spend spend; /* its calendar is kept                                         */
    char key[];
};

struct weir_lease_shard {
    _Alignas(64) pthread_mutex_t mutex; /* guards the rest, and the entries but for their lines */
    struct weir_lease_entry **buckets;
    struct weir_lease_entry *oldest, *newest;
    uint64_t bytes;
    struct weir_leases_numbers numbers;
};

/* A check that waits. */
struct weir_lease_waiter {
    struct weir_check *check;
    struct weir_lease_entry *entry; /* in whose line; NULL: somebody looks at it just now */
    size_t at;                      /* which limit of the check that is                   */
    uint64_t place;                 /* in that line                                       */
    struct weir_lease_waiter *before,
        *next; /* in line, or in a list of somebody's own            */
    struct weir_lease_waiter *earlier,
        *later; /* among all that wait, or that are being ended     */
    uint64_t deadline_us;
    unsigned refused; /* a bit for each limit that the store has refused: its answer is there */
    unsigned granted; /* a bit for each whose units are set apart for it                      */
    uint64_t decided_us[WEIR_CHECK_LIMITS]; /* when each of both was, by the store's clock */
};

struct weir_lease_waiters {
    struct weir_lease_waiter *first, *last;
};

struct weir_leases {
    const struct weir_store_type *type;
    void *store;
    struct weir_denials *denials;
    atomic_uint instances;
    uint64_t timeout_us;
    uint64_t shard_bytes;
    struct weir_clock clock;
    uint8_t hash_key[WEIR_HASH_KEY_BYTES];
    struct weir_lease_shard shards[WEIR_LEASE_SHARDS];

    pthread_mutex_t mutex;             /* guards the rest, and all lines */
    pthread_cond_t ended;              /* a check of somebody's, or the last one of our own */
    struct weir_lease_waiters waiters; /* in the order of their deadlines */
    struct weir_lease_waiters ending;  /* their `done` is being called    */
    size_t under_way[2];               /* checks of our own that the store has, of either turn */
    unsigned turn;                     /* of those that are made now          */
    bool stops;
    bool has_thread;
    pthread_t thread;
    pthread_cond_t wake;
    uint64_t wakes_us; /* when the thread will wake up by itself */
};

static inline uint64_t weir_leases_now(const struct weir_leases *leases)
{
    return leases->clock.now_us(leases->clock.self);
}

/* leases_table.c; the shard is locked */

bool weir_lease_shard_init(struct weir_lease_shard *shard);
void weir_lease_shard_finish(struct weir_lease_shard *shard);

uint64_t weir_lease_hash(const struct weir_leases *leases, const struct weir_spend *spend);
struct weir_lease_shard *weir_lease_shard_of(struct weir_leases *leases, uint64_t hash);

/* NULL: it is not there. */
struct weir_lease_entry *weir_lease_find(const struct weir_lease_shard *shard, uint64_t hash,
                                         const struct weir_spend *spend);

/* NULL: memory ran out. */
struct weir_lease_entry *weir_lease_make(struct weir_lease_shard *shard, uint64_t hash,
                                         const struct weir_spend *spend, uint64_t now_us);

/* Takes over the numbers of a check, whose policy may be newer. */
void weir_lease_renew(struct weir_lease_entry *entry, const struct weir_spend *spend);

/* Makes it the one that was asked for last. */
void weir_lease_touch(struct weir_lease_shard *shard, struct weir_lease_entry *entry,
                      uint64_t now_us);

void weir_lease_remove(struct weir_lease_shard *shard, struct weir_lease_entry *entry);

/* leases_calls.c */

/* Calls that are ready to go, once nothing is locked any more. */
struct weir_lease_calls {
    struct weir_lease_call *first, *last;
};

/* Asks for a block, as much as the line and the store allow; the line's shard and `mutex` are locked.
 * An early one is asked for only if it is worth it. False: memory ran out. */
bool weir_lease_call_for(struct weir_leases *leases, struct weir_lease_shard *shard,
                         struct weir_lease_entry *entry, uint64_t now_us, bool is_early,
                         struct weir_lease_calls *calls);

/* Gives back what is held; where memory runs out it is only forgotten. The shard is locked. */
void weir_lease_call_back(struct weir_leases *leases, struct weir_lease_shard *shard,
                          struct weir_lease_entry *entry, struct weir_lease_calls *calls);

/* What is held beyond a block and its low water: that is all that may lie unused. The shard is locked. */
uint64_t weir_lease_excess(const struct weir_leases *leases, const struct weir_lease_entry *entry,
                           uint64_t more);
void weir_lease_call_back_excess(struct weir_leases *leases, struct weir_lease_shard *shard,
                                 struct weir_lease_entry *entry, struct weir_lease_calls *calls);

void weir_lease_calls_submit(struct weir_leases *leases, struct weir_lease_calls *calls);

/* What was asked for may be of before the store forgot the key: it will not count. */
void weir_lease_call_forget(struct weir_lease_call *call);

/* leases_thread.c; `mutex` is locked: there will be something to do by then. */
void weir_lease_plan_wake(struct weir_leases *leases, uint64_t due_us);

/* leases_lines.c; `mutex` is locked, but for the last three */

void weir_lease_waiters_add(struct weir_lease_waiters *waiters, struct weir_lease_waiter *waiter);
void weir_lease_waiters_remove(struct weir_lease_waiters *waiters,
                               struct weir_lease_waiter *waiter);
void weir_lease_enter_line(struct weir_lease_entry *entry, struct weir_lease_waiter *waiter,
                           size_t at);
void weir_lease_leave_line(struct weir_lease_waiter *waiter);

/* Ends a waiter that stands in no line, and frees it. */
void weir_lease_end(struct weir_leases *leases, struct weir_lease_waiter *waiter,
                    enum weir_store_result result, const char *why);

/* leases.c: looks at what is held, and lets the waiter pass, be refused, or enter a line. */
void weir_lease_serve(struct weir_leases *leases, struct weir_lease_waiter *waiter);

/* Takes back what was set apart for a waiter that does not need it after all. */
void weir_lease_return_granted(struct weir_leases *leases, struct weir_lease_waiter *waiter);

/* The following are for the line of an entry whose call has just ended; shard and `mutex` are locked.
 * Who is let through goes to `served`, and who has other limits to look at to `others`. */
struct weir_lease_parted {
    struct weir_lease_waiters served, others;
};

/* What the store has said to a call: about so many units, at that time of its clock, and up to which
 * place of the line they were asked for. */
struct weir_lease_grant {
    uint64_t units, store_us, last_place;
};

/* Sets units apart for those who stood in line when the store was asked: they are spent as of when it
 * decided. Who came later may be of another window by then, whoever has left the line since. Returns
 * how many. */
uint64_t weir_lease_grant_line(struct weir_lease_entry *entry, const struct weir_lease_grant *grant,
                               struct weir_lease_parted *parted);

/* Fills the answers of those who were served, and lets through who came later, with what is held. */
void weir_lease_serve_line(struct weir_lease_entry *entry, uint64_t now_us,
                           struct weir_lease_parted *parted);

/* The store has refused so many units: that is the answer to all who want as many. */
void weir_lease_refuse_line(struct weir_lease_entry *entry, const struct weir_lease_grant *refused,
                            const struct weir_answer *refusal, struct weir_lease_parted *parted);

#endif
