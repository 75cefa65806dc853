/* weir: what went wrong, where, and what is wanted instead. */
#ifndef WEIR_ERROR_H
#define WEIR_ERROR_H

#include <weir/common.h>

/* Every code, its stable name, and what it means; docs/errors.md has a section for each.
 *
 * The order is part of the binary interface: new codes go at the end of their half. */
#define WEIR_CODES(X)                                                                              \
    X(WEIR_OK, "ok", "Nothing is wrong.")                                                          \
    X(WEIR_E_ARGUMENT, "argument", "A function was called with an argument it cannot take.")       \
    X(WEIR_E_MEMORY, "memory", "Memory ran out.")                                                  \
    X(WEIR_E_SYSTEM, "system", "The operating system refused a call.")                             \
    X(WEIR_E_FILE, "file", "A file could not be read.")                                            \
    X(WEIR_E_JSON, "json", "A file is not JSON.")                                                  \
    X(WEIR_E_UNKNOWN_KEY, "unknown-key", "An object has a key that means nothing.")                \
    X(WEIR_E_MISSING, "missing", "An object lacks a key that it needs.")                           \
    X(WEIR_E_TYPE, "type", "A value has the wrong JSON type.")                                     \
    X(WEIR_E_VALUE, "value", "A value cannot be read or is out of range.")                         \
    X(WEIR_E_REFERENCE, "reference", "A name refers to something that is not there.")              \
    X(WEIR_E_NOT_YET, "not-yet", "This version does not have what is asked for.")                  \
    X(WEIR_E_ENVIRONMENT, "environment",                                                           \
      "An environment variable that is referred to is not set.")                                   \
    X(WEIR_E_STATE, "state", "A call came at a moment when it cannot be answered.")                \
    X(WEIR_E_DAEMON, "daemon", "The libmicrohttpd daemon lacks an option that weir needs.")        \
    X(WEIR_E_STOPPING, "stopping", "The server is stopping.")                                      \
    X(WEIR_E_STORE_TIMEOUT, "store-timeout", "The store did not answer before the deadline.")      \
    X(WEIR_E_STORE_UNAVAILABLE, "store-unavailable", "The store cannot be reached.")               \
    X(WEIR_E_STORE_ERROR, "store-error", "The store answered with an error.")                      \
    X(WEIR_E_BODY, "body", "A request's body is too large or broken.")                             \
    X(WEIR_E_NOT_BUILT, "not-built", "This build of the library lacks what is asked for.")         \
    X(WEIR_W_COST_ABOVE_CAPACITY, "cost-above-capacity",                                           \
      "A route costs more than a limit can ever hold.")                                            \
    X(WEIR_W_OPEN_ON_LOGIN, "open-on-login",                                                       \
      "A login or one-time-code route lets everything through when the store fails.")              \
    X(WEIR_W_LONG_WINDOW_ALONE, "long-window-alone",                                               \
      "A long window has no short one beside it, so it can be spent in one burst.")                \
    X(WEIR_W_TRUSTS_EVERYONE, "trusts-everyone", "The trusted proxies cover public addresses.")    \
    X(WEIR_W_LARGE_LOG, "large-log", "A sliding log keeps more than 10000 entries for each key.")  \
    X(WEIR_W_MEMORY_WITHOUT_INSTANCES, "memory-without-instances",                                 \
      "The memory fallback does not know by how many instances to divide.")                        \
    X(WEIR_W_ROUTE_HIDDEN, "route-hidden", "A route can never match: an earlier one hides it.")    \
    X(WEIR_W_PER_PROCESS, "per-process", "Limits on the memory store hold for one process each.")  \
    X(WEIR_W_NO_SECRET, "no-secret", "Identifiers are hashed without a secret.")                   \
    X(WEIR_W_COUNTED_TWICE, "counted-twice", "A limiter stands twice in one chain.")               \
    X(WEIR_W_QUEUE_OUT_OF_REACH, "queue-out-of-reach",                                             \
      "A leaky bucket has places that no request can wait in.")                                    \
    X(WEIR_W_REDIS_VERSION, "redis-version", "Redis is too old for the scripts that count.")       \
    X(WEIR_W_REDIS_REPLICA, "redis-replica", "Redis is a replica, where nothing can be counted.")  \
    X(WEIR_W_REDIS_EVICTION, "redis-eviction", "Redis drops keys when its memory is full.")        \
    X(WEIR_W_REDIS_CLOCK, "redis-clock", "The clocks of Redis and of this machine differ.")        \
    X(WEIR_W_REDIS_COMMANDS, "redis-commands", "Redis forbids commands that counting needs.")      \
    X(WEIR_W_REDIS_KEYS, "redis-keys", "Redis forbids the keys in which limits are kept.")         \
    X(WEIR_W_REDIS_UNTOLD, "redis-untold", "Redis does not tell how it is set up.")                \
    X(WEIR_W_ALLOWS_EVERYONE, "allows-everyone", "A list lets every address pass without limits.") \
    X(WEIR_W_FIELD_UNREAD, "field-unread",                                                         \
      "A wrapped handler asked for a field of a body that was not read.")                          \
    X(WEIR_W_WEAK_SECRET, "weak-secret", "The secret is short enough to be found by trying.")      \
    X(WEIR_W_SHARE_ROUNDED_UP, "share-rounded-up",                                                 \
      "A limit is too small to be divided among the instances.")                                   \
    X(WEIR_W_REDIS_CLUSTER, "redis-cluster", "Redis is a node of a cluster; the URL is not.")      \
    X(WEIR_W_LEASED_IN_PART, "leased-in-part",                                                     \
      "A policy leases some of its limits and asks the store for the others.")                     \
    X(WEIR_W_LEASE_BOUND, "lease-bound",                                                           \
      "Leases may leave a good part of a limit unused for a moment.")                              \
    X(WEIR_W_LEASE_WITHOUT_INSTANCES, "lease-without-instances",                                   \
      "Nobody knows how much of a limit leases may leave unused.")                                 \
    X(WEIR_W_LEASE_TOO_SHORT, "lease-too-short",                                                   \
      "A block of units is earned back before it can be spent.")                                   \
    X(WEIR_W_SLOTS_PER_PROCESS, "slots-per-process",                                               \
      "Each process counts the requests under way of a key for itself.")                           \
    X(WEIR_W_PERCENT_UNUSED, "percent-unused",                                                     \
      "A policy that does not enforce says for how many clients it does.")

#define WEIR_CODE_ENUM(code, name, meaning) code,
enum weir_code { WEIR_CODES(WEIR_CODE_ENUM) WEIR_CODE_COUNT };
#undef WEIR_CODE_ENUM

/* Filled by a function that fails, if it was given one; the first error wins.
 *
 * Start with `struct weir_error error = WEIR_NO_ERROR;`. The caller owns it. */
struct weir_error {
    enum weir_code code;
    int line;       /* of a file, from 1; 0: not known                    */
    int column;     /* from 1; 0: not known                               */
    char path[160]; /* JSON Pointer (RFC 6901) of the culprit; "": none   */
    char text[320]; /* one sentence: the value found and what is wanted   */
    char file[128]; /* that line, column and path are of, seen from the folder of the file that was
                     * loaded, such as "limits/login.json"; "": it is that file itself */
};

/* clang-format off */
#define WEIR_NO_ERROR { WEIR_OK, 0, 0, "", "", "" }
/* clang-format on */

/* A code's stable name ("unknown-key"), never NULL. Thread-safe: pure. */
WEIR_API const char *weir_code_name(enum weir_code code);

/* What a code means, in one sentence, never NULL. Thread-safe: pure. */
WEIR_API const char *weir_code_meaning(enum weir_code code);

/* Fills `error` unless it is NULL or already filled, and returns `code`, so that a
 * function that fails can end with `return weir_error_set(…)`.
 *
 * `path` is a JSON Pointer or NULL. Thread-safe for different errors. */
WEIR_API enum weir_code weir_error_set(struct weir_error *error, enum weir_code code,
                                       const char *path, const char *format, ...) WEIR_PRINTF(4, 5);

/* Writes an error as one line, "policy.json:3:9: /plans/free: … [value]", cut to `size`
 * bytes with its NUL; `file`, the one that was loaded, may be NULL. Where the error is in a file
 * that this one names, the line starts with that. Returns `line`. Thread-safe. */
WEIR_API const char *weir_error_line(const struct weir_error *error, const char *file, char *line,
                                     size_t size);

#endif
