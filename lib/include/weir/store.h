/* weir: where sums are kept. Most programs only need weir_store_open() and
 * weir_store_free(); the rest is for those who write a store. */
#ifndef WEIR_STORE_H
#define WEIR_STORE_H

#include <weir/common.h>
#include <weir/error.h>

enum weir_algorithm {
    WEIR_GCRA,
    WEIR_TOKEN_BUCKET,
    WEIR_LEAKY_BUCKET,
    WEIR_FIXED_WINDOW,
    WEIR_SLIDING_COUNTER,
    WEIR_SLIDING_LOG,
    WEIR_PENALTY /* no limit, but what becomes of a key that one refuses again and again */
};

/* How much may be spent, made by weir_rate_make(); all in units and microseconds.
 *
 * One unit is earned every interval = window / limit = interval_us + interval_part / parts,
 * with `parts` = limit / gcd(limit, window), so that no rate ever drifts. */
struct weir_rate {
    uint64_t limit;         /* units in each window; 0 lets nothing through        */
    uint64_t window_us;     /* > 0                                                 */
    uint64_t burst;         /* most units at once; the limit itself for windows    */
    uint64_t parts;         /* the denominator, ≥ 1                                */
    uint64_t interval_us;   /* whole microseconds that earn one unit               */
    uint64_t interval_part; /* the rest of them, < parts                           */
};

/* Largest number of units in a limit, a burst or a cost. */
#define WEIR_UNITS_MAX UINT64_C(1000000000)

/* Longest time that a burst may take to be earned: 2^51 µs, some 71 years. */
#define WEIR_BURST_MAX_US (UINT64_C(1) << 51)

/* Longest window: 366 days. */
#define WEIR_WINDOW_MAX_US (UINT64_C(366) * 86400 * 1000000)

/* Fills `rate`; `burst` 0 means the limit. Refuses with WEIR_E_VALUE a window of 0 or above
 * WEIR_WINDOW_MAX_US, numbers above WEIR_UNITS_MAX, a rate above one unit a nanosecond or so,
 * and numbers whose exact arithmetic would not fit 2^53 (the error says which).
 * Thread-safe: pure. */
WEIR_API enum weir_code weir_rate_make(uint64_t limit, uint64_t window_us, uint64_t burst,
                                       struct weir_rate *rate, struct weir_error *error);

struct weir_calendar;
struct weir_lease;

#define WEIR_BANS_MAX          8
#define WEIR_PENALTY_AFTER_MAX 1000

/* What becomes of a key that its limit refuses again and again: from violation number `after`
 * on, each brings a ban, the first one of bans_us[0], the next of bans_us[1]; the last one is
 * repeated. */
struct weir_penalty {
    uint32_t after;                  /* 1 to WEIR_PENALTY_AFTER_MAX                           */
    uint32_t ban_count;              /* 1 to WEIR_BANS_MAX                                    */
    uint64_t bans_us[WEIR_BANS_MAX]; /* each 1 to WEIR_WINDOW_MAX_US, and not shorter than the
                                      * one before it                                         */
    uint64_t forget_us; /* so long after the end of the last ban, or after a violation that brought
                         * none, all is forgotten; the longest ban to WEIR_WINDOW_MAX_US      */
    bool extends;       /* an attempt during a ban is a violation too                         */
};

/* One limit of a plan: spend `cost` units of the sum kept under `key`. */
struct weir_spend {
    enum weir_algorithm algorithm;
    bool from_first;    /* fixed window: opens with the key's first request                     */
    bool logs_refusals; /* sliding log: what it refuses is logged too, and lengthens the wait   */
    struct weir_rate rate;
    const struct weir_calendar *calendar; /* fixed window: where its edges are; borrowed until
                                           * `done`; NULL: at multiples of its length since 1970 */
    uint64_t max_wait_us; /* leaky bucket: the longest wait in its queue; 0: pass at once        */
    uint64_t cost;        /* 0 looks without spending                                            */
    const char *key;      /* bytes, NUL allowed, valid until `done`                              */
    size_t key_length;    /* 1 to WEIR_KEY_MAX                                                   */
    size_t group_length;  /* so many bytes of the key are the same for all limits of one client
                           * and one policy, and a store may keep these together; 0: alone       */

    /* to settle: what was spent, as the decision said */
    uint64_t reserved;   /* its cost                                   */
    uint64_t decided_us; /* its check->now_us and the answer's after_us */
    uint64_t full_us;    /* that and the answer's reset_us             */

    /* A penalty stands right behind its limit, which costs the same and has another key (in a
     * cluster one of the same slot); it needs no rate. To settle and to block leave it as it was,
     * and to reset forgets it. */
    const struct weir_penalty *penalty; /* borrowed until `done`; NULL: this is a limit */

    /* How the limiter takes units of this limit ahead of their use; no business of a store's. */
    const struct weir_lease *lease; /* borrowed until `done`; NULL: it asks for each request */
};

#define WEIR_KEY_MAX 512

/* What one limit says. When another limit of the plan refused, nothing was spent: `allowed` says
 * what this one would have done, and the numbers are those without this request.
 *
 * A penalty says whether the key is banned, by a ban that this request has brought as well: then
 * nothing remains, and `reset_us` and, of what costs anything, `retry_us` are the rest of the ban.
 * Else WEIR_UNITS_MAX remain. So of both answers the smaller `remaining` holds, and the longer
 * times. */
struct weir_answer {
    bool allowed;
    bool impossible; /* refused, and no wait would help: cost above the capacity    */
    bool blocked;    /* by WEIR_BLOCK: `reset_us` is the rest of that; told to people who ask why */
    uint64_t remaining; /* units that can be spent now, after this request             */
    uint64_t retry_us;  /* refused: wait this long and be let through; else 0          */
    uint64_t reset_us;  /* until all of the limit is there again                       */
    uint64_t wait_us;   /* allowed by a leaky bucket: its moment comes after so long   */
    uint64_t after_us;  /* decided so long after check->now_us, where that is not the time of
                         * all limits: they were decided apart. 0 unless a store sets it */
};

enum weir_store_result {
    WEIR_STORE_ANSWERED,
    WEIR_STORE_TIMEOUT,     /* no answer by the deadline; Redis may have counted it */
    WEIR_STORE_UNAVAILABLE, /* nobody to ask                                        */
    WEIR_STORE_ERROR,       /* the store answered, but not with a decision          */
    WEIR_STORE_CANCELLED
};

#define WEIR_CHECK_LIMITS 8

/* What a check asks for; docs/algorithms.md says what each does to every algorithm. */
enum weir_operation {
    WEIR_SPEND,  /* decide all limits as one: all are spent, or none is               */
    WEIR_SETTLE, /* correct what was spent before, from `reserved` to `cost` units    */
    WEIR_RESET,  /* forget the keys, blocked ones too                                 */
    WEIR_BLOCK,  /* refuse all that costs anything under the keys for `block_us`      */

    /* Look at a text that is kept under the one key, and put another in its place; only for stores
     * whose type says that it `exchanges`. */
    WEIR_EXCHANGE
};

/* The longest text, and how much of its beginning tells it from any other. */
#define WEIR_TEXT_BYTES_MAX  49152
#define WEIR_TEXT_MARK_BYTES 16

/* A text that all who share the store see, such as a list that operators keep. It has nothing to do
 * with sums, and its key is one that no limit has. It begins with a mark that was drawn at random when
 * it was written, so that who puts another in its place does so only if nobody else has meanwhile. */
struct weir_exchange {
    /* the caller's */
    const char *expected; /* its first WEIR_TEXT_MARK_BYTES bytes; NULL: nothing is kept     */
    const char *text;     /* what to put in its place; NULL: only look                       */
    size_t length;        /* at least those of the mark; or 0: keep nothing                  */
    uint64_t keep_us;     /* so long; 1 to WEIR_BURST_MAX_US                                 */
    char *found;          /* room for WEIR_TEXT_BYTES_MAX                                    */

    /* the answer: what was kept before. If that begins as expected, the new text has taken its place. */
    size_t found_length;
};

/* A plan of 1 to 8 limits that a store decides as one.
 *
 * The caller owns the check and what it points to, and keeps them in place from submit until
 * `done`; it sets the first part, and the store sets the second before it calls `done`, and may use
 * `store` as it likes in between. `done` is called exactly once for each submitted check, from any
 * thread, or before submit returns; after it the store never touches the check again. */
struct weir_check {
    /* the caller's */
    enum weir_operation operation;
    bool wants_time; /* to spend: `now_us` is needed afterwards, to settle with     */
    const struct weir_spend *spends; /* `count` of them                             */
    struct weir_answer *answers;     /* likewise, all 0; only WEIR_SPEND fills them */
    size_t count;
    uint64_t block_us; /* up to WEIR_BURST_MAX_US                                   */
    void (*done)(struct weir_check *check);
    void *owner;

    /* the answer */
    enum weir_store_result result;
    uint64_t now_us; /* if ANSWERED and wanted: the store's time of the decision    */
    char why[64]; /* if not ANSWERED: a short text for the log, such as Redis's "OOM command …" */

    /* the store's own while the check is under way */
    void *store[4];

    /* the caller's */
    struct weir_exchange
        *exchange; /* of WEIR_EXCHANGE, with one spend that has nothing but a key */
};

/* What a store does about a server that may be gone. */
enum weir_breaker_state {
    WEIR_BREAKER_CLOSED,   /* it answers                                            */
    WEIR_BREAKER_STARTING, /* the first try is under way: checks may wait for it    */
    WEIR_BREAKER_OPEN,     /* it does not: nothing is tried for a while             */
    WEIR_BREAKER_PROBING   /* a try is under way: checks fail until it has succeeded */
};

/* How a store is, for health pages. */
struct weir_store_state {
    const char *name;                /* "memory", "redis", or a user's own                  */
    bool answering;                  /* false: checks fail at once                          */
    enum weir_breaker_state breaker; /* without one: CLOSED; with several servers: the worst */
    uint64_t retry_us;               /* not answering: after about so long it is worth another try,
                                      * 1 to 10 s; 0 otherwise                               */
    uint64_t down_us;                /* not answering: since so long; 0 otherwise            */
    char server[96];                 /* whom it talks to, "127.0.0.1:6379"; "": nobody       */
    char why[96];                    /* not answering: why, in a few words. Answering: the error
                                      * that checks get instead of what they ask for; "": none */
};

/* A kind of store. All functions may be called from any thread, several at once. */
struct weir_store_type {
    size_t size; /* sizeof(struct weir_store_type) */
    const char *name;

    /* True: submit always calls `done` before it returns, so that a request need not be
     * parked. */
    bool answers_inline;

    /* False when a check would only fail: the caller then applies its failure rule without
     * asking. NULL means always ready. Cheap: called for each request. */
    bool (*ready)(void *self);

    /* Takes a check. Never blocks; a store that answers later keeps a deadline of its own, since
     * nobody else ends a check that it forgets. */
    void (*submit)(void *self, struct weir_check *check);

    /* Ends a submitted check early, if it has not ended. When it returns, so has `done`, called
     * with WEIR_STORE_CANCELLED unless the answer was quicker. NULL if answers_inline. */
    void (*cancel)(void *self, struct weir_check *check);

    /* Fills all but the name; what it leaves is 0. NULL means always answering. */
    void (*state)(void *self, struct weir_store_state *state);

    /* Frees `self`; no check is under way. */
    void (*free)(void *self);

    bool exchanges; /* takes WEIR_EXCHANGE, too */
    /* New fields go here, at the end; none is ever removed or reordered. */
};

struct weir_store;

struct weir_store_options {
    size_t size;                    /* set by WEIR_STORE_OPTIONS                             */
    uint32_t timeout_ms;            /* for one answer of a remote store, to 60000; 0: 20     */
    uint64_t memory_bytes;          /* budget of a memory store; 0: 64 MiB                   */
    const struct weir_clock *clock; /* of a memory store; copied; NULL: the system's         */
    struct weir_log log;            /* copied                                                */
    uint32_t connections;           /* to each Redis server, each with a thread of its own;
                                     * 0: 1; up to 16                                        */
    const char *tls_ca_file;        /* PEM: who may sign for a server; NULL: the system's    */
    const char *tls_cert_file;      /* PEM: shown to the server, with its key; NULL: none    */
    const char *tls_key_file;       /* PEM                                                   */
    const char *tls_server_name;    /* asked for, and found in its certificate; NULL: the
                                     * URL's host                                            */
    /* New fields go here, at the end; none is ever removed or reordered. */
};

#define WEIR_STORE_OPTIONS(...)                                                                    \
    (&(const struct weir_store_options){ .size = sizeof(struct weir_store_options), __VA_ARGS__ })

/* Opens the store that `url` names:
 *
 *     memory:
 *     redis://[[user]:password@]host[:port][/db]
 *     redis+unix://[[user]:password@]/path[?db=N]
 *     redis+sentinel://[[user]:password@]host[:port],…/master[/db]
 *                      [?sentinel_user=U&sentinel_password=P]
 *     redis+cluster://[[user]:password@]host[:port],…
 *
 * or with "rediss" for TLS, but for the Unix socket. A Redis that is down is no error: the store
 * keeps trying, and checks fail meanwhile. Errors: WEIR_E_VALUE, _FILE, _NOT_BUILT, _MEMORY, _SYSTEM,
 * with a path below "/store". No password appears in an error or a log line. */
WEIR_API enum weir_code weir_store_open(const char *url, const struct weir_store_options *options,
                                        struct weir_store **store, struct weir_error *error);

/* Makes a store of a user's own kind; `type` is borrowed, `self` is taken (and freed by
 * type->free). Errors: WEIR_E_ARGUMENT, WEIR_E_MEMORY. */
WEIR_API enum weir_code weir_store_new(const struct weir_store_type *type, void *self,
                                       struct weir_store **store, struct weir_error *error);

/* Accepts NULL; returns NULL. No check may be under way. */
WEIR_API struct weir_store *weir_store_free(struct weir_store *store);

/* Thread-safe. */
WEIR_API void weir_store_state(struct weir_store *store, struct weir_store_state *state);

#endif
