/* weir: what was decided, for operators: a log of refusals and failures, the last of them, and who
 * spends most. docs/decision-log.md shows what it looks like. */
#ifndef WEIR_DECISIONS_H
#define WEIR_DECISIONS_H

#include <weir/limiter.h>

/* the log */

struct weir_decision_log;

struct weir_decision_log_options {
    size_t size; /* set by WEIR_DECISION_LOG_OPTIONS                                        */

    /* Takes one line of JSON, without its end, borrowed for the call, and with a NUL at line[length].
     * From any thread, several at once. Wanted. */
    void (*write)(void *write_self, enum weir_level level, const char *line, size_t length);
    void *write_self;

    uint32_t interval_ms;  /* in which decisions alike become one line; 0: 10000             */
    enum weir_level level; /* the least that is written; WEIR_INFO (and 0) are all lines,
                            * WEIR_WARNING only failures of the store                        */
    uint32_t kinds;        /* of decisions that are told apart at a time, to 65536; 0: 1024  */
    bool every;            /* a line for each decision, however many are alike               */

    /* Copied. With one nothing is done by itself, and weir_decision_log_tick() has to be called. NULL:
     * the system's, and a thread that sleeps unless something is to be written. */
    const struct weir_clock *clock;
    /* New fields go here, at the end; none is ever removed or reordered. */
};

#define WEIR_DECISION_LOG_OPTIONS(...)                                                             \
    (&(const struct weir_decision_log_options){ .size = sizeof(struct weir_decision_log_options),  \
                                                __VA_ARGS__ })

/* Errors: WEIR_E_ARGUMENT, _VALUE, _MEMORY, _SYSTEM. */
WEIR_API enum weir_code weir_decision_log_new(const struct weir_decision_log_options *options,
                                              struct weir_decision_log **log,
                                              struct weir_error *error);

/* Writes what is not written yet. After the limiters that use it. Accepts NULL; returns NULL. */
WEIR_API struct weir_decision_log *weir_decision_log_free(struct weir_decision_log *log);

/* For `on_decision`, with the log as `decision_self`. The first decision of its kind (policy, limit,
 * key, outcome) is written at once; those that follow in the interval become one line at its end, with
 * their number in "count". Where too many kinds come at a time, a line without policy and key stands for
 * the others. The sum of all counts is the number of decisions. Thread-safe. */
WEIR_API void weir_decision_log_add(void *log, const struct weir_decision *decision);

/* Writes what is due. Thread-safe. */
WEIR_API void weir_decision_log_tick(struct weir_decision_log *log);

/* the last ones */

#define WEIR_RECENT_MAX   256 /* that a limiter keeps */
#define WEIR_RECENT_TEXTS 1280

/* A decision that was no plain allow. Its texts lie in `texts`: do not copy it. */
struct weir_recent_decision {
    uint64_t sequence; /* from 1 */
    struct weir_decision decision;
    char texts[WEIR_RECENT_TEXTS];
};

/* Copies the decisions after the one of that sequence, the oldest first, at most `size`; those that
 * others have taken the place of are gone. 0, and a sequence that is yet to come, as one of a process
 * before this one is, begins with the oldest. Returns how many. Thread-safe. */
WEIR_API size_t weir_limiter_recent(struct weir_limiter *limiter, uint64_t after,
                                    struct weir_recent_decision *decisions, size_t size);

/* Copies the last one of that request; false: it is gone, or never was. Thread-safe. */
WEIR_API bool weir_limiter_recent_of(struct weir_limiter *limiter, const char *request_id,
                                     struct weir_recent_decision *decision);

/* Writes the members of a line of the decision log, `"time":…,"level":…`, without braces, as JSON.
 * Returns the length; SIZE_MAX: it does not fit, for which WEIR_DECISION_JSON_MAX is enough. */
#define WEIR_DECISION_JSON_MAX 8192
WEIR_API size_t weir_decision_json(const struct weir_decision *decision, char *json, size_t size);

/* who spends most */

enum weir_top_by { WEIR_TOP_SPENT, WEIR_TOP_REFUSED };

/* A client of a policy: "api_key:acme-free", "user#1f3a9c0d12", "tenant:acme", "ip:192.0.2.0/24". What
 * it has spent, or how often it was refused, is at least `at_least` and at most `count`. */
struct weir_top_key {
    char key[128];
    uint64_t count, at_least;
};

/* What the counts are of. No key that is not listed, though asked for as many as there are, has more
 * than `error_bound`, which is at most a 128th of `total`. */
struct weir_top_total {
    uint64_t total;
    uint64_t error_bound;
    uint64_t since_us; /* on the limiter's clock: five to ten minutes ago, or since the start */
};

/* Fills the clients with the highest counts, those first. Returns how many; 0 also where there is no
 * such policy (`total` may be NULL). Thread-safe. */
WEIR_API size_t weir_limiter_top(struct weir_limiter *limiter, const char *policy,
                                 enum weir_top_by by, struct weir_top_key *keys, size_t size,
                                 struct weir_top_total *total);

#endif
