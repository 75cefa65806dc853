/* What the command line asks for. */
#ifndef DEMO_OPTIONS_H
#define DEMO_OPTIONS_H

#include <stdbool.h>

/* How connections are served: by a daemon of libmicrohttpd's, or by weir_serve(). */
enum demo_mode { DEMO_EPOLL, DEMO_POLL, DEMO_THREAD_PER_CONNECTION, DEMO_WEIR_SERVE };

/* Whether /metrics and /admin are there. */
enum demo_operating {
    DEMO_OPERATING_AUTO, /* where it listens on this machine alone, or has a token */
    DEMO_OPERATING_ALWAYS,
    DEMO_OPERATING_NEVER
};

struct demo_options {
    const char *config; /* NULL: the demo's own policy file */
    const char *listen;
    const char *store; /* NULL: what the policy file says  */
    unsigned threads;
    enum demo_mode mode;
    enum demo_operating operating;
    bool shows_codes;         /* writes one-time codes to the log */
    bool logs_every_decision; /* in a line of its own, however many are alike */
    bool watches;             /* the policy's files, to reload them when they change */
    bool expands;             /* print the policy file with its presets written out */
};

enum demo_command { DEMO_SERVE, DEMO_CHECK, DEMO_HELP, DEMO_VERSION, DEMO_MISUSED };

/* Reads the command line; texts are borrowed from it. DEMO_MISUSED: it makes no sense, and standard
 * error has been told why and what to type. */
enum demo_command demo_options_read(int count, char **arguments, struct demo_options *options);

void demo_options_print_help(void);

#endif
