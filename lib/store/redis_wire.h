/* What goes to Redis and what comes back, as pure functions over bytes. */
#ifndef WEIR_STORE_REDIS_WIRE_H
#define WEIR_STORE_REDIS_WIRE_H

#include <weir/store.h>

#include "base/buffer.h"
#include "store/redis_scripts.h"

struct redisReply;

/* More checks do not go into one call, nor checks of more limits, nor more bytes of keys than
 * these and those of one check. */
#define WEIR_REDIS_BATCH_CHECKS_MAX    64
#define WEIR_REDIS_BATCH_LIMITS_MAX    128
#define WEIR_REDIS_BATCH_KEY_BYTES_MAX 8192

/* Room for the longest command: keys and numbers of so many checks and, at most, a script. */
#define WEIR_REDIS_COMMAND_BYTES (WEIR_REDIS_SCRIPT_BYTES + 32768)

/* How a check's script is named: by its hash (EVALSHA), or whole (EVAL), which also makes Redis
 * remember it. */
enum weir_redis_by { WEIR_REDIS_BY_HASH, WEIR_REDIS_BY_TEXT };

/* Writes one command of `count` arguments in RESP. Arguments may hold any bytes. */
void weir_redis_write_command(struct weir_buffer *out, const struct weir_text *arguments,
                              size_t count);

/* What keeps Redis from carrying out a check, as a text for check->why, or NULL. */
const char *weir_redis_fault(const struct weir_check *check);

/* Writes the command that carries out a check without a fault; all its keys are declared as such.
 * `clock_us` is what the time is about, to look up calendars with; it goes along for a script that
 * takes a test's time. */
void weir_redis_write_check(struct weir_buffer *out, const struct weir_redis_script *script,
                            enum weir_redis_by by, enum weir_redis_clock clock, uint64_t clock_us,
                            const struct weir_redis_plan *plan, const struct weir_check *check);

/* A check with its plan. */
struct weir_redis_item {
    const struct weir_redis_plan *plan;
    const struct weir_check *check;
};

/* Writes the command that carries out checks of one shape, with the script of that shape for many.
 * Those with the same keys should follow each other. No more than the maxima above. */
void weir_redis_write_batch(struct weir_buffer *out, const struct weir_redis_script *script,
                            enum weir_redis_by by, enum weir_redis_clock clock, uint64_t clock_us,
                            const struct weir_redis_item *items, size_t count);

enum weir_redis_meaning {
    WEIR_REDIS_DECIDED,   /* `answers` are filled, or what was asked for is done          */
    WEIR_REDIS_NO_SCRIPT, /* Redis forgot the script: nothing was decided, ask again      */
    WEIR_REDIS_REFUSED,   /* an error, or no decision at all: `why` is filled             */
    WEIR_REDIS_UNFIT,     /* the same, and this server will not do: find another, or wait */

    /* the same, from a node of a cluster */
    WEIR_REDIS_MOVED,       /* another node has the slot                                    */
    WEIR_REDIS_ASK,         /* another node has these keys already                          */
    WEIR_REDIS_TRY_AGAIN,   /* some of the keys are on their way to another node            */
    WEIR_REDIS_CLUSTER_DOWN /* nobody serves the slot, or this node is cut off            */
};

/* Reads the reply to a check into `check->answers` or `check->why`; NULL is no decision. Takes
 * whatever the parser may give it. */
enum weir_redis_meaning weir_redis_read_answer(const struct redisReply *reply,
                                               struct weir_check *check);

/* Reads the reply to SCRIPT LOAD; false: it is no hash. */
bool weir_redis_read_hash(const struct redisReply *reply, char hash[WEIR_REDIS_HASH_CHARS + 1]);

/* Copies the text of an error reply, or says that it is none, without control characters. */
void weir_redis_read_error(const struct redisReply *reply, char *why, size_t size);

#endif
