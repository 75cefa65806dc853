/* A small HTTP client over a raw socket, for tests that care about every byte. */
#ifndef TESTS_SUPPORT_CLIENT_H
#define TESTS_SUPPORT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Flags of a daemon that calls select() in a thread of its own; poll() from libmicrohttpd 1.0 on,
 * which forgets resumed connections in select() (docs/threads.md). */
#define SELECT_LOOP                                                                                \
    (MHD_USE_INTERNAL_POLLING_THREAD | (MHD_VERSION < 0x01000000 ? 0 : MHD_USE_POLL))

struct reply {
    unsigned status; /* 0: the connection ended before a whole reply */
    char head[4096]; /* status line and header lines                 */
    char body[8192]; /* cut to that size                             */
    size_t body_length;
};

/* Connects to 127.0.0.1; fails the test if it cannot. The socket gives up after 20 s. */
int client_connect(uint16_t port);

void client_send(int socket, const char *bytes, size_t length);
void client_send_text(int socket, const char *text);

/* Reads one reply (Content-Length, chunked, or until the end); `is_head`: without a body. */
void client_read(int socket, bool is_head, struct reply *reply);

/* One request on a connection of its own. `lines` are further header lines, each ended by CRLF. */
void client_get(uint16_t port, const char *path, const char *lines, struct reply *reply);

/* The value of a header line, in static memory; NULL: none. */
const char *reply_header(const struct reply *reply, const char *name);

/* True if the other side has ended the connection (waits for it up to 20 s). */
bool client_sees_end(int socket);

#endif
