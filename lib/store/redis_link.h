/* A link: one connection to one Redis server, made again and again, with the commands that go over
 * it. All on the store's thread. */
#ifndef WEIR_STORE_REDIS_LINK_H
#define WEIR_STORE_REDIS_LINK_H

#include <hiredis/hiredis.h>

#include "store/breaker.h"
#include "store/redis_advice.h"
#include "store/redis_commands.h"
#include "store/redis_errors.h"
#include "store/redis_resolve.h"
#include "store/redis_scripts.h"
#include "store/redis_url.h"

struct weir_redis;
struct ssl_st;

/* In which hiredis counts an array's elements. */
#if HIREDIS_MAJOR >= 1
typedef size_t weir_redis_element_count;
#else
typedef int weir_redis_element_count;
#endif

typedef void *weir_redis_make_array(const redisReadTask *, weir_redis_element_count);

/* A try (resolve, connect, greet, ping) is given up where one of its steps takes so long. */
#define WEIR_REDIS_TRY_US UINT64_C(1000000)

/* As long as in struct weir_store_state. */
#define WEIR_REDIS_WHY_CHARS 96

/* A place as it is shown in a log: "[…]:65535". */
#define WEIR_REDIS_SHOWN_CHARS 300

/* A server that reads nothing gets no more than this, and one command, to its connection's
 * buffer. */
#define WEIR_REDIS_OUTPUT_BYTES_MAX (256 * 1024)

enum weir_redis_role {
    WEIR_LINK_CHECKS, /* takes checks                                       */
    WEIR_LINK_ASKS    /* takes only questions of the store's own            */
};

enum weir_redis_stage {
    WEIR_LINK_APART,      /* no connection                                          */
    WEIR_LINK_SEEKING,    /* the topology finds out where the server is             */
    WEIR_LINK_RESOLVING,  /* its name is looked up                                  */
    WEIR_LINK_CONNECTING, /* the system is at it                                    */
    WEIR_LINK_SECURING,   /* TLS is agreed upon                                     */
    WEIR_LINK_GREETING,   /* password, database and script were sent                */
    WEIR_LINK_PINGING,    /* all that was accepted; is it quick enough?             */
    WEIR_LINK_OPEN        /* commands go through                                    */
};

struct weir_redis_link {
    struct weir_redis *redis;
    uint16_t index; /* in redis->links */
    enum weir_redis_role role;
    struct weir_redis_place place;      /* where it goes to; host "": the URL's Unix socket */
    bool has_place;                     /* else nobody has said yet where to                */
    char shown[WEIR_REDIS_SHOWN_CHARS]; /* for the log                                      */
    const struct weir_redis_login *login;
    void *own; /* the topology's, if it wants to keep something with it */

    struct weir_redis_lookup *lookup; /* of the name, under way or not taken yet            */
    struct weir_redis_addresses addresses;
    size_t address_at; /* the one that is tried, or was last                                */

    enum weir_redis_stage stage;
    redisContext *context; /* from CONNECTING on                                          */
    redisReplyObjectFunctions reply_makers; /* hiredis's, but for that of arrays            */
    weir_redis_make_array *make_array;      /* …which was this                              */
    size_t reply_bytes;      /* of a reply that has begun                                     */
    size_t reply_elements;   /* …and how many its arrays have announced                       */
    struct ssl_st *session;  /* of TLS, from SECURING on; NULL: none                        */
    uint64_t stage_until_us; /* of all stages but APART and OPEN                            */
    unsigned greetings_left; /* replies to the greeting that have not come                  */
    bool has_output;         /* some waits to be written                                    */
    bool holds;              /* …and nothing is added to it: the topology may move the link */
    struct weir_redis_commands under_way;
    struct weir_redis_commands waiting; /* for the link to open, or for room under way      */
    struct weir_redis_shape loading[WEIR_REDIS_SCRIPTS_MAX]; /* whose hash comes next, a ring */
    size_t loading_first;
    size_t loading_count;
    struct weir_advice_asked advice;

    struct weir_breaker breaker;
    bool was_lost;    /* the connection ends as soon as its replies are dealt with          */
    bool was_refused; /* …because Redis said so                                             */
    bool was_unfit;   /* …to a check, though it greets well: an answer must come first      */
    bool moves;       /* it goes to `place` as soon as that can be                          */
    bool starts_anew; /* …which is another one                                              */
    bool leaves;      /* it is freed as soon as that can be                                 */
    char lost_why[WEIR_REDIS_WHY_CHARS];

    uint64_t down_at_us;                 /* 0: it is not                                    */
    char down_why[WEIR_REDIS_WHY_CHARS]; /* "": it answers, or has just been made           */
    bool is_reported;                    /* the log has said that it does not answer        */
    uint64_t reported_name;              /* of the server, for redis_voice.h                */
    bool owes_report; /* …but it does, and the log says so when that has lasted             */
    struct weir_redis_errors errors;
};

/* the row of links: redis_links.c */

/* Makes a link; it begins to connect when weir_link_begin() is called, or else in the next
 * round. NULL: out of memory, or too many links. `place` NULL: the topology says where, when it
 * is asked. */
struct weir_redis_link *weir_link_new(struct weir_redis *redis, enum weir_redis_role role,
                                      const struct weir_redis_place *place,
                                      const struct weir_redis_login *login);

/* The link of that role to that place, made if there is none. */
struct weir_redis_link *weir_redis_link_to(struct weir_redis *redis, enum weir_redis_role role,
                                           const struct weir_redis_place *place);

/* The link goes at the end of the round. What was written ends as unavailable, and what was not is
 * handed out anew. */
void weir_link_leave(struct weir_redis_link *link);

/* Frees a link; no check is in its rows. */
void weir_link_free(struct weir_redis_link *link);

/* how a link lives: redis_links.c */

/* Begins a try: seeks, resolves or connects. */
void weir_link_begin(struct weir_redis_link *link, uint64_t now_us);

/* The server is now there, whatever the link was connected to: from the end of this round on it
 * goes to that place, without a pause. Checks may wait for it, unless it is where the try that is
 * SEEKING has found it before. What was written to the old place ends as unavailable. */
void weir_link_go(struct weir_redis_link *link, const struct weir_redis_place *place);

/* The try has failed (such as: nobody knows where the server is), or the connection is of no use
 * any more, for a reason; the first one stands. */
void weir_link_lose(struct weir_redis_link *link, const char *why);

/* The same where Redis itself says why it will not do; `what` stands in front of that. */
void weir_link_refuse(struct weir_redis_link *link, const char *what, const char *why);

/* What is due: a try, the end of a try. */
void weir_link_tend(struct weir_redis_link *link, uint64_t now_us);

/* A check that was with this link met its deadline. */
void weir_link_on_timeout(struct weir_redis_link *link, uint64_t now_us);

/* Deals with a connection that was lost, a place that has changed, a lookup that has ended. */
void weir_link_settle(struct weir_redis_link *link, uint64_t now_us);

/* When it wants to be tended next; UINT64_MAX: it waits for news only. */
uint64_t weir_link_due_us(const struct weir_redis_link *link);

/* It takes checks now: it is open, or its first try is under way and it is known where to. */
bool weir_link_lets_through(const struct weir_redis_link *link);

/* The greeting went through; a check was answered, or refused for a reason of its own.
 * `has_written`: it changed something. */
void weir_link_on_open(struct weir_redis_link *link);
void weir_link_on_answer(struct weir_redis_link *link, bool has_written);

/* connecting, reading and writing: redis_link.c */

/* Begins to connect to the address at `address_at`, or where that fails at once, to the next ones;
 * false: none is left, `lost_why` says why the last one failed. */
bool weir_link_connect(struct weir_redis_link *link, uint64_t now_us);

/* Closes the connection. The checks of its commands were ended before. */
void weir_link_close(struct weir_redis_link *link);

/* What to poll its socket for, if there is a context; and what came of it. */
short weir_link_events(const struct weir_redis_link *link);
void weir_link_on_events(struct weir_redis_link *link, short events, uint64_t now_us);

/* Reads all that has come, as far as that has an end. */
void weir_link_read(struct weir_redis_link *link, uint64_t now_us);

/* Writes what the socket takes. */
void weir_link_flush(struct weir_redis_link *link);

/* Adds a command to the output. */
void weir_link_append(struct weir_redis_link *link, const struct weir_buffer *command);

/* Sends a question of the store's own over a link that is GREETING or further; the reply goes to
 * whom `kind` names. False: it cannot be sent, or too many commands are under way. */
bool weir_redis_ask(struct weir_redis_link *link, const struct weir_text *arguments, size_t count,
                    enum weir_redis_kind kind);

/* greeting: redis_greet.c */

/* The connection stands: whoever we are is told. */
void weir_link_greet(struct weir_redis_link *link, uint64_t now_us);

/* A question more within the greeting: the link opens when its reply has come. */
void weir_link_greet_with(struct weir_redis_link *link, const struct weir_text *arguments,
                          size_t count, enum weir_redis_kind kind);

void weir_link_on_greeting(struct weir_redis_link *link, enum weir_redis_kind kind,
                           const struct redisReply *reply, uint64_t now_us);

/* checks: redis_checks.c */

/* Takes the held check, to be written by weir_link_write(). False: there is no room. */
bool weir_link_give(struct weir_redis_link *link, const struct weir_redis_command *command);

/* Writes what waits, as much as goes. */
void weir_link_write(struct weir_redis_link *link);

/* The reply to a call, whose first check was taken, or is done already (`check` is NULL). */
void weir_link_on_check_reply(struct weir_redis_link *link, struct weir_redis_command *command,
                              const struct redisReply *reply);

/* The reply to SCRIPT LOAD of a script that is in use. */
void weir_link_on_hash(struct weir_redis_link *link, const struct redisReply *reply);

/* The commonest script: if Redis takes this one, it takes scripts. NULL: out of memory. */
struct weir_redis_script *weir_redis_first_script(struct weir_redis *redis);

/* Asks Redis to keep a script. */
bool weir_link_load(struct weir_redis_link *link, const struct weir_redis_script *script,
                    enum weir_redis_kind kind);

#endif
