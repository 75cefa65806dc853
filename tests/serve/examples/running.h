/* What the examples share that has nothing to do with what they serve: options of the command line,
 * libmicrohttpd's modes, and waiting for the end. The same for the bare and the wrapped program. */
#ifndef EXAMPLES_RUNNING_H
#define EXAMPLES_RUNNING_H

#include <netinet/in.h>
#include <stdbool.h>

#include <microhttpd.h>

struct weir_chain;

struct running {
    /* from the command line */
    const char *folder; /* --folder: what stream_file serves            */
    const char *policy; /* --policy: of the wrapped program; NULL: none */
    bool is_external;   /* --mode external                              */

    /* for MHD_start_daemon(), which gets port 0 */
    unsigned flags;
    struct MHD_OptionItem options[4]; /* with MHD_OPTION_ARRAY: an address, a pool */
    struct sockaddr_in address;

    /* of a wrapped program with a loop of its own: what ends the loop's wait */
    int wake_fd;
    void (*wake_clear)(struct weir_chain *chain);
    struct weir_chain *chain;
};

/* Reads "--mode epoll|select|pool|threads|external", "--folder DIR" and "--policy FILE", and keeps
 * SIGTERM and SIGINT for running_wait(). False: they make no sense, which stderr says. */
bool running_read(struct running *running, int argc, char **argv);

/* Prints "listening on http://ADDRESS:PORT", then serves until SIGTERM or SIGINT. False: the daemon
 * did not start. */
bool running_wait(const struct running *running, struct MHD_Daemon *daemon);

/* One round of a loop of the program's own, no longer than `longest_ms`; `also_fd` ends it early.
 * True: `also_fd` is readable. */
bool running_round(const struct running *running, struct MHD_Daemon *daemon, int also_fd,
                   unsigned longest_ms);

#endif
