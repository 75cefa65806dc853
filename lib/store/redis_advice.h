/* What a Redis tells about itself, and what its operator should do about it. The readers are pure; those
 * of an engine ask and say. */
#ifndef WEIR_STORE_REDIS_ADVICE_H
#define WEIR_STORE_REDIS_ADVICE_H

#include <weir/error.h>

#include "base/text.h"

struct redisReply;
struct weir_check;
struct weir_redis_link;

/* The scripts read the clock and write, which Redis takes from 5.0 on: it replicates what a script
 * did, and not the script. */
#define WEIR_REDIS_MAJOR_MIN 5

/* A clock may be so far from this machine's. */
#define WEIR_REDIS_CLOCK_OFF_MAX_US UINT64_C(1000000)

/* Room for the text of an advice, and for the NUL behind it. */
#define WEIR_ADVICE_BYTES 360

enum weir_advice {
    WEIR_ADVICE_VERSION,  /* it is too old                                    */
    WEIR_ADVICE_REPLICA,  /* it is one                                        */
    WEIR_ADVICE_CLUSTER,  /* it is a node of one, and the URL does not say so */
    WEIR_ADVICE_EVICTION, /* it may drop keys                                 */
    WEIR_ADVICE_CLOCK,    /* it is off                                        */
    WEIR_ADVICE_COMMANDS, /* it keeps commands from us that scripts use       */
    WEIR_ADVICE_CALLS,    /* or those that call scripts                       */
    WEIR_ADVICE_KEYS,     /* or keys                                          */
    WEIR_ADVICE_UNTOLD,   /* it does not let us look                          */
    WEIR_ADVICE_COUNT
};

/* The code that stands behind the text. */
enum weir_code weir_advice_code(enum weir_advice advice);

enum weir_advice_finding {
    WEIR_ADVICE_UNKNOWN, /* the reply does not say                            */
    WEIR_ADVICE_FINE,    /* there is nothing to advise                        */
    WEIR_ADVICE_HOLDS    /* there is, and `text` says it                      */
};

/* The readers of replies. Each takes whatever the parser may give it, writes `text` (without the server's
 * name, which stands in front of it: "has a clock …") only if it HOLDS, and takes from a reply only
 * what is fit for a log. */

/* Of INFO server (two), INFO replication and INFO memory. */
enum weir_advice_finding weir_advice_read_version(const struct redisReply *reply,
                                                  char text[WEIR_ADVICE_BYTES]);
enum weir_advice_finding weir_advice_read_mode(const struct redisReply *reply,
                                               char text[WEIR_ADVICE_BYTES]);
enum weir_advice_finding weir_advice_read_role(const struct redisReply *reply,
                                               char text[WEIR_ADVICE_BYTES]);
enum weir_advice_finding weir_advice_read_eviction(const struct redisReply *reply,
                                                   char text[WEIR_ADVICE_BYTES]);

/* Of any INFO: it is forbidden, or unknown. */
enum weir_advice_finding weir_advice_read_untold(const struct redisReply *reply, const char *user,
                                                 char text[WEIR_ADVICE_BYTES]);

/* Of TIME, asked at `sent_us` of this machine's clock and answered `took_us` later. When in between Redis
 * looked at its clock nobody knows, so half of `took_us` is forgiven. */
enum weir_advice_finding weir_advice_read_clock(const struct redisReply *reply, uint64_t sent_us,
                                                uint64_t took_us, char text[WEIR_ADVICE_BYTES]);

/* A script that tries all commands that others use, on no key of ours and without an effect, and
 * returns what each met; and the reader of that. `user` is whom the store logs in as, "" for the
 * default one. */
struct weir_text weir_advice_script(void);
enum weir_advice_finding weir_advice_read_commands(const struct redisReply *reply, const char *user,
                                                   char text[WEIR_ADVICE_BYTES]);

/* Of the error by which a check was refused: it may not be called (CALLS), or not touch its key
 * (KEYS); else UNKNOWN. */
enum weir_advice_finding weir_advice_read_refusal(const char *why, const char *user,
                                                  struct weir_text key, enum weir_advice *advice,
                                                  char text[WEIR_ADVICE_BYTES]);

/* It is a node of a cluster, for whom the URL must say so. */
enum weir_advice_finding weir_advice_of_slots(char text[WEIR_ADVICE_BYTES]);

/* The questions to one server. */
enum weir_advice_question {
    WEIR_ADVICE_OF_SERVER,
    WEIR_ADVICE_OF_REPLICATION,
    WEIR_ADVICE_OF_MEMORY,
    WEIR_ADVICE_OF_TIME,
    WEIR_ADVICE_OF_COMMANDS,
    WEIR_ADVICE_QUESTIONS
};

/* What a link keeps of them; all zero: its connection has just been made. */
struct weir_advice_asked {
    bool has_asked;
    uint64_t sent_us; /* of this machine's clock */
    uint64_t sent_monotonic_us;
};

/* What was said, so that it is said once: again only after it was seen gone. */

#define WEIR_ADVICE_SERVERS_MAX 80

struct weir_advice_book {
    struct {
        uint64_t server; /* a hash of its name */
        unsigned said;   /* a bit for each kind */
    } pages[WEIR_ADVICE_SERVERS_MAX];
    size_t count;
    size_t oldest; /* to be overwritten when there is no room */
};

/* Notes what was found; true: now is the time to say it. */
bool weir_advice_note(struct weir_advice_book *book, const char *server, enum weir_advice advice,
                      enum weir_advice_finding finding);

/* The rest runs on a store's thread. */

/* Asks the server of a link that is open, once for each connection. */
void weir_redis_advice_ask(struct weir_redis_link *link);

/* The answer to one of the questions. */
void weir_redis_advice_on_reply(struct weir_redis_link *link, enum weir_advice_question question,
                                const struct redisReply *reply);

/* A check was answered with an error, which stands in `check->why`. */
void weir_redis_advice_on_refusal(struct weir_redis_link *link, const struct weir_check *check);

/* A check was answered with what only a node of a cluster says. */
void weir_redis_advice_on_slots(struct weir_redis_link *link);

#endif
