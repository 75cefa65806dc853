/* Commands in a row: those under way over a connection, in the order of their replies, or those
 * that wait to be written. Checks move in and out through redis_pending.h. */
#ifndef WEIR_STORE_REDIS_COMMANDS_H
#define WEIR_STORE_REDIS_COMMANDS_H

#include <weir/store.h>

/* What check->store holds while a check is pending. */
enum { WEIR_CHECK_NEXT, WEIR_CHECK_PREVIOUS, WEIR_CHECK_PLACE, WEIR_CHECK_DEADLINE };

/* What a command was written for, and so who gets its reply. */
enum weir_redis_kind {
    WEIR_REDIS_CHECK,

    /* the greeting, in this order */
    WEIR_REDIS_AUTH,
    WEIR_REDIS_SELECT,
    WEIR_REDIS_ROLE,
    WEIR_REDIS_SCRIPT,
    WEIR_REDIS_PING,

    WEIR_REDIS_HASH,        /* SCRIPT LOAD of a script that is in use already */
    WEIR_REDIS_ASKING,      /* goes ahead of a check                          */
    WEIR_REDIS_TO_TOPOLOGY, /* questions of the topology's own: from here on… */
    WEIR_REDIS_TO_ADVICE = WEIR_REDIS_TO_TOPOLOGY + 16 /* …and of redis_advice.c */
};

/* How a check is to be written. */
enum {
    WEIR_REDIS_BY_WHOLE_TEXT = 1, /* Redis has forgotten its script                         */
    WEIR_REDIS_WITH_ASKING = 2,   /* "ASKING" goes ahead of it                              */
    WEIR_REDIS_OWES_ASKING = 4,   /* …and was written, and its reply has not come yet       */
    WEIR_REDIS_BY_ITSELF = 8      /* no other check in the same call                        */
};

/* A check may be written so often again, after answers that say that nothing was done. */
#define WEIR_REDIS_REPEATS_MAX 5

/* No link: of a check that was not handed to any yet. */
#define WEIR_REDIS_NO_LINK UINT16_MAX

struct weir_redis_command {
    struct weir_check *check; /* NULL: done already, or a question of the store's own */
    uint16_t link;            /* in whose row it stands, an index, or NO_LINK         */
    uint8_t kind;             /* enum weir_redis_kind                                 */
    uint8_t how;
    uint8_t repeats; /* how often the check was written before */
    uint8_t checks;  /* under way, where its call could have many: how many it has, with those
                      * behind this one; 0: it is one of these, or alone        */
};

/* Commands in a row. Places are counted on and on; place n is commands[n modulo capacity]. */
struct weir_redis_commands {
    struct weir_redis_command *at; /* NULL: none was ever put in                               */
    size_t capacity;               /* a power of two, or 0                                 */
    size_t limit;                  /* of its capacity                                      */
    size_t first;
    size_t end;
    size_t calls; /* of those under way: how many can have many checks                         */
    uint16_t link;
    bool drops_ended; /* nothing is expected any more for a check that ended                    */
};

void weir_commands_init(struct weir_redis_commands *commands, size_t limit, uint16_t link,
                        bool drops_ended);
void weir_commands_finish(struct weir_redis_commands *commands);

static inline size_t weir_commands_count(const struct weir_redis_commands *commands)
{
    return commands->end - commands->first;
}

static inline struct weir_redis_command *weir_commands_at(
    const struct weir_redis_commands *commands, size_t place)
{
    return &commands->at[place & (commands->capacity - 1)];
}

/* Finds room for one more; may move all of them, so the mutex must be held. False: there is
 * none. */
bool weir_commands_make_room(struct weir_redis_commands *commands);

/* The same for so many, of a row whose commands are all expected. Returns for how many there is room,
 * which may be fewer or more. */
size_t weir_commands_room(struct weir_redis_commands *commands, size_t wanted);

/* Puts one more behind all others, where there is room, and tells its check where it is. */
void weir_commands_push(struct weir_redis_commands *commands,
                        const struct weir_redis_command *command);

/* Puts one back in front of all others, which was there before, and after which nothing was put in. */
void weir_commands_push_first(struct weir_redis_commands *commands,
                              const struct weir_redis_command *command);

#endif
