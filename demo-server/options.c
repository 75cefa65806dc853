#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 64

static const struct option known[] = {
    { "config", required_argument, NULL, 'c' },
    { "listen", required_argument, NULL, 'l' },
    { "store", required_argument, NULL, 's' },
    { "threads", required_argument, NULL, 't' },
    { "mode", required_argument, NULL, 'm' },
    { "watch", no_argument, NULL, 'w' },
    { "admin", no_argument, NULL, 'a' },
    { "no-admin", no_argument, NULL, 'n' },
    { "every-decision", no_argument, NULL, 'd' },
    { "show-codes", no_argument, NULL, 'o' },
    { "check", no_argument, NULL, 'k' },
    { "expand", no_argument, NULL, 'e' },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'v' },
    { NULL, 0, NULL, 0 },
};

void demo_options_print_help(void)
{
    fputs(
        "weir-demo: a small API whose clients are limited by weir\n"
        "\n"
        "  --config FILE       policy file (the demo's own)\n"
        "  --listen ADDR:PORT  where to listen (127.0.0.1:8080); port 0 lets the system choose,\n"
        "                      [::]:8080 takes IPv6 and IPv4, unix:/path a Unix socket\n"
        "  --store URL         store in place of the policy file's: memory:, redis://host:port/0,\n"
        "                      redis+unix:///path\n"
        "  --threads N         threads that serve connections (2)\n"
        "  --mode MODE         epoll (the default), poll, thread-per-connection, or serve: in the\n"
        "                      threads of weir_serve()\n"
        "  --watch             reload the policy file when it changes, as SIGHUP does\n"
        "  --admin             serve /metrics and /admin in any case; by default they are there "
        "where\n"
        "                      it listens on this machine alone, or WEIR_ADMIN_TOKEN is set\n"
        "  --no-admin          leave them out\n"
        "  --every-decision    log each refusal in a line of its own; by default those alike are "
        "one\n"
        "                      line every 10 seconds\n"
        "  --show-codes        write the codes of /otp/send to the log: nobody is there to send "
        "them\n"
        "  --check             read the policy file, print its warnings and errors, and exit\n"
        "  --expand            with --check: print the file too, its presets written out and its\n"
        "                      secrets hidden\n"
        "  --help, --version\n",
        stdout);
}

static enum demo_command misused(const char *what, const char *value, const char *wanted)
{
    fprintf(stderr, "weir-demo: %s \"%s\"; %s. \"weir-demo --help\" lists the options.\n", what,
            value, wanted);
    return DEMO_MISUSED;
}

static bool read_threads(const char *text, unsigned *threads)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end != '\0' || number < 1 || number > THREADS_MAX)
        return false;
    *threads = (unsigned)number;
    return true;
}

static bool read_mode(const char *text, enum demo_mode *mode)
{
    static const char *const names[] = { [DEMO_EPOLL] = "epoll",
                                         [DEMO_POLL] = "poll",
                                         [DEMO_THREAD_PER_CONNECTION] = "thread-per-connection",
                                         [DEMO_WEIR_SERVE] = "serve" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) != 0)
            continue;
        *mode = (enum demo_mode)i;
        return true;
    }
    return false;
}

/* Takes an option that has no value and no command of its own; false: it is another. */
static bool take_switch(int letter, struct demo_options *options)
{
    switch (letter) {
    case 'w':
        options->watches = true;
        return true;
    case 'a':
        options->operating = DEMO_OPERATING_ALWAYS;
        return true;
    case 'n':
        options->operating = DEMO_OPERATING_NEVER;
        return true;
    case 'd':
        options->logs_every_decision = true;
        return true;
    case 'o':
        options->shows_codes = true;
        return true;
    case 'e':
        options->expands = true;
        return true;
    default:
        return false;
    }
}

/* Takes one option; DEMO_SERVE stands for "go on". */
static enum demo_command take(int letter, const char *argument, struct demo_options *options)
{
    if (take_switch(letter, options))
        return DEMO_SERVE;
    switch (letter) {
    case 'c':
        options->config = optarg;
        return DEMO_SERVE;
    case 'l':
        options->listen = optarg;
        return DEMO_SERVE;
    case 's':
        options->store = optarg;
        return DEMO_SERVE;
    case 't':
        if (!read_threads(optarg, &options->threads))
            return misused("--threads is", optarg, "a number from 1 to 64 is wanted");
        return DEMO_SERVE;
    case 'm':
        if (!read_mode(optarg, &options->mode))
            return misused("--mode is", optarg,
                           "epoll, poll, thread-per-connection or serve is wanted");
        return DEMO_SERVE;
    case 'k':
        return DEMO_CHECK;
    case 'h':
        return DEMO_HELP;
    case 'v':
        return DEMO_VERSION;
    case ':':
        return misused("nothing follows", argument, "its value is missing");
    default:
        return misused("there is no option", argument, "none of that name is known");
    }
}

enum demo_command demo_options_read(int count, char **arguments, struct demo_options *options)
{
    *options = (struct demo_options){ .listen = "127.0.0.1:8080", .threads = 2 };
    enum demo_command command = DEMO_SERVE;
    for (;;) {
        const char *argument = optind < count ? arguments[optind] : "";
        int letter = getopt_long(count, arguments, "+:", known, NULL);
        if (letter == -1)
            break;
        enum demo_command asked = take(letter, argument, options);
        if (asked == DEMO_MISUSED)
            return DEMO_MISUSED;
        if (asked != DEMO_SERVE)
            command = asked;
    }
    if (optind < count)
        return misused("there is an argument", arguments[optind], "options start with --");
    if (options->expands && command == DEMO_SERVE)
        return misused("there is", "--expand", "it goes with --check");
    return command;
}
