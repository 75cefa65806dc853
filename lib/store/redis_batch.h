/* Which of the checks that wait together go to Redis as one call, and how the reply to a call is cut
 * into what each check would have been answered alone. Pure.
 *
 * A call has checks of one shape, whose groups have the same ids, and in a cluster of one slot. The
 * order of any two checks that share a key stays; that of others may change, so that shapes may come
 * mixed, and checks with the same key stand together. */
#ifndef WEIR_STORE_REDIS_BATCH_H
#define WEIR_STORE_REDIS_BATCH_H

#include <hiredis/hiredis.h>
#include <stdatomic.h>

#include "store/redis_commands.h"
#include "store/redis_wire.h"

/* So many are looked at together. */
#define WEIR_REDIS_GATHERED_MAX 128

/* So many calls are under way over a connection, each with what had come by then; what comes after
 * that waits for the next reply. While Redis decides the first, the next ones are on their way. */
#define WEIR_REDIS_CALLS_MAX 4

/* Places for their keys, a power of two, of which half may be taken. */
#define WEIR_REDIS_KEY_PLACES 512

struct weir_redis_gathered {
    struct weir_redis_command command;
    struct weir_redis_plan plan;
    unsigned slot;
    uint64_t told_us; /* the time by which it is decided; 0: Redis's own                */
    uint8_t kind;     /* index of those that go together                                  */
    uint8_t next;     /* of them                                                          */
    uint8_t twin;     /* the next with the same key, of checks with one key               */
    bool is_twin;     /* of one before it                                                 */
    bool is_single;   /* goes alone                                                       */
};

struct weir_redis_key_place {
    uint32_t hash;
    uint8_t item; /* the last one that has this key…                                    */
    uint8_t key;  /* …as which of its keys                                              */
    bool is_taken;
};

struct weir_redis_batcher {
    char command[WEIR_REDIS_COMMAND_BYTES]; /* under way                                  */
    bool has_crossed_slots; /* a server without -cluster in the URL minds slots all the same */
    _Atomic uint64_t calls; /* written since the start, and their checks                  */
    _Atomic uint64_t checks;

    size_t count;
    struct weir_redis_gathered items[WEIR_REDIS_GATHERED_MAX];
    size_t kind_count;
    uint8_t first_of[WEIR_REDIS_GATHERED_MAX]; /* each kind's first item, and its last  */
    uint8_t last_of[WEIR_REDIS_GATHERED_MAX];
    size_t key_count;
    struct weir_redis_key_place keys[WEIR_REDIS_KEY_PLACES];

    size_t kind_at;  /* where the next call begins: of that kind…                       */
    uint8_t head_at; /* …with this one of its items, or one with the same key…          */
    uint8_t item_at; /* …which is this                                                  */
};

/* The items of a call, in the order in which they are to be decided. */
struct weir_redis_call {
    size_t count;
    uint8_t at[WEIR_REDIS_BATCH_CHECKS_MAX];
};

void weir_redis_batcher_clear(struct weir_redis_batcher *batcher);

/* Adds a check, whose keys are borrowed until the batcher is cleared. `by_slot`: keys of two slots do
 * not go into one call. `told_us` is a test's time, the same for all checks of a call, or 0. False: there is no room, or one of its keys belongs to a check that goes into
 * another call, and before it; those that are there must be written first. Never false if there are
 * none. */
bool weir_redis_batcher_add(struct weir_redis_batcher *batcher,
                            const struct weir_redis_command *command, bool by_slot,
                            uint64_t told_us);

/* Takes out the next call; false: there is none any more. */
bool weir_redis_batcher_next(struct weir_redis_batcher *batcher, struct weir_redis_call *call);

/* Counts a call of so many checks. */
void weir_redis_batcher_count(struct weir_redis_batcher *batcher, size_t checks);

/* How many calls were written since the start, and how many checks they had. Any thread. */
struct weir_redis_call_numbers {
    uint64_t calls;
    uint64_t checks;
};

struct weir_redis_call_numbers weir_redis_batcher_numbers(const struct weir_redis_batcher *batcher);

/* Room for a reply that was cut out. */
struct weir_redis_part {
    redisReply reply;
    char bytes[16];
};

/* What check number `item` of `count` in a call was answered, as if it had been asked alone, for
 * weir_redis_read_answer(); NULL: what came is no answer. Points into `reply` or `part`. */
const redisReply *weir_redis_reply_part(const redisReply *reply, const struct weir_check *check,
                                        size_t item, size_t count, struct weir_redis_part *part);

#endif
