/* A Redis server of a test's own: in a folder of its own, on a Unix socket and a port that the
 * system chose. It dies with the test. Functions that fail, fail the test. */
#ifndef TESTS_SUPPORT_REDIS_SERVER_H
#define TESTS_SUPPORT_REDIS_SERVER_H

#include "test.h"

#include <hiredis/hiredis.h>
#include <sys/types.h>

struct redis_server {
    pid_t pid; /* 0: it does not run */
    char folder[80];
    char socket[100];
    unsigned port;
    int port_holder;            /* a socket: nobody else is given the port             */
    bool keeps_data;            /* over a restart                                      */
    const char *const *options; /* more arguments, ended by NULL; borrowed; NULL: none */
    const char *password;       /* with which commands are sent; NULL: none            */
    char url[140];              /* "redis+unix://…"                                    */
    char tcp_url[60];           /* "redis://127.0.0.1:…"                               */
};

/* "redis-server", or what the environment names in WEIR_REDIS_SERVER, such as "valkey-server". */
const char *redis_server_program(void);

/* Picks folder, socket and port, without starting anything. The port is held until
 * redis_server_remove(), also while nothing listens there. */
void redis_server_prepare(struct redis_server *server);

/* A port of 127.0.0.1 for a server that is started later, and perhaps again. It stays bound by a
 * socket that shares it with that server, until the caller closes `holder`: the system gives it to
 * no other listener and to no other connection meanwhile. */
unsigned redis_server_hold_port(int *holder);

/* Starts it, the first time or again, and returns when it answers. */
void redis_server_start(struct redis_server *server);

/* SIGSTOP, SIGCONT. Frozen, it answers nothing; the system still takes connections for it. */
void redis_server_freeze(struct redis_server *server);
void redis_server_thaw(struct redis_server *server);

/* SIGKILL, and waits for its end. Nothing happens if it does not run. */
void redis_server_kill(struct redis_server *server);

/* Kills it, removes its folder and lets go of its port. */
void redis_server_remove(struct redis_server *server);

/* Sends one command, formatted as hiredis does ("SET %s %b"), over a connection of its own. The
 * reply is the caller's, to be freed with freeReplyObject(). */
redisReply *redis_server_ask(const struct redis_server *server, const char *format, ...);

/* The same for a reply that is not needed, or is a number. */
void redis_server_do(const struct redis_server *server, const char *format, ...);
long long redis_server_number(const struct redis_server *server, const char *format, ...);

#endif
