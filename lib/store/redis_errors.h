/* When a server that answers does not count: checks get errors, and none gets what it asks for.
 * Pure, over what one link meets. */
#ifndef WEIR_STORE_REDIS_ERRORS_H
#define WEIR_STORE_REDIS_ERRORS_H

#include <stdbool.h>
#include <stdint.h>

/* So many in a row, over so long a time, are more than a moment. */
#define WEIR_ERRORS_IN_A_ROW 5
#define WEIR_ERRORS_LAST_US  UINT64_C(1000000)

/* Nothing more is said of a server for so long. */
#define WEIR_ERRORS_PAUSE_US UINT64_C(1000000)

#define WEIR_ERRORS_WHY_CHARS 64

/* All zero: none yet. */
struct weir_redis_errors {
    unsigned count;      /* in a row, since a check did last what it asked for            */
    uint64_t since_us;   /* if there are any                                              */
    uint64_t key;        /* a hash of the first one's                                     */
    bool is_of_server;   /* …and not the trouble of that key alone                        */
    bool is_failing;     /* the server does not count                                     */
    uint64_t changed_us; /* when that was found, or `why` changed, or it ended            */
    char why[WEIR_ERRORS_WHY_CHARS]; /* "": it counts                                     */
    uint64_t server; /* its name in redis_voice.h, while it is failing                */
};

/* weir_errors_end() has something to do. */
static inline bool weir_errors_are_met(const struct weir_redis_errors *errors)
{
    return errors->count > 0 || errors->is_failing;
}

/* A check for such a key ended with an error, which `is_of_server` if it cannot be the key's; true:
 * the server is failing from now on, or for another reason than before. */
bool weir_errors_add(struct weir_redis_errors *errors, uint64_t key, bool is_of_server,
                     const char *why, uint64_t now_us);

/* A check that changes something did so. True: the server was failing, and counts again. Within the
 * pause it does not yet, and the next such check says so. */
bool weir_errors_end(struct weir_redis_errors *errors, uint64_t now_us);

/* What an operator does about an error, with ": " in front of it; "": that is not known. */
const char *weir_errors_advice(const char *why);

#endif
