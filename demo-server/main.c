/* weir-demo: a small API whose clients are limited by weir.
 *
 * Read serve() first: load a policy, make a limiter, put it in front of a chain of handlers, and
 * hand the chain to libmicrohttpd. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>
#include <weir/weir.h>

#include "config.h"
#include "listen.h"
#include "log.h"
#include "operate.h"
#include "options.h"
#include "routes.h"

#define IDLE_TIMEOUT_S 30u
#define DRAIN_MS       5000u
#define LINE_BYTES     1024

static const struct weir_log weir_log = { demo_log_library, NULL };

/* All that runs; what is not there yet is NULL. */
struct demo {
    char file[PATH_MAX]; /* the policy's */
    struct weir_policy *policy;
    struct weir_decision_log *decisions;
    struct weir_limiter *limiter;
    struct weir_watch *watch;
    struct weir_chain *chain;
    struct weir_admin *admin;
    struct demo_otp *otp;
    struct MHD_Daemon *daemon;
    struct weir_server *server; /* in place of the daemon */
    char url[DEMO_URL_BYTES];
};

/* making the parts */

static enum weir_code make_limiter(struct demo *demo, struct demo_options *options,
                                   struct weir_error *error)
{
    enum weir_code code = weir_decision_log_new(
        WEIR_DECISION_LOG_OPTIONS(.write = demo_log_line, .every = options->logs_every_decision),
        &demo->decisions, error);
    if (code != WEIR_OK)
        return code;
    return weir_limiter_new(
        WEIR_LIMITER_OPTIONS(.policy = demo->policy, .log = weir_log,
                             .on_decision = weir_decision_log_add, .decision_self = demo->decisions,
                             .file = demo->file, .load = demo_policy_read, .load_self = options),
        &demo->limiter, error);
}

static enum weir_code make_chain(struct demo *demo, const struct demo_options *options,
                                 struct weir_error *error)
{
    demo->otp = demo_otp_new(options->shows_codes);
    if (demo->otp == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    enum weir_code code = weir_chain_new(WEIR_CHAIN_OPTIONS(.log = weir_log), &demo->chain, error);
    if (code == WEIR_OK)
        code =
            demo_operate_add(demo->chain, demo->limiter, options, &weir_log, &demo->admin, error);
    if (code == WEIR_OK)
        code = weir_chain_use(demo->chain, weir_limit(demo->limiter));
    if (code == WEIR_OK)
        code = demo_routes_add(demo->chain, demo->limiter, demo->otp);
    return code == WEIR_OK ? code : weir_error_set(error, code, NULL, "The chain cannot be built.");
}

static unsigned flags_of(enum demo_mode mode)
{
    const unsigned common =
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    switch (mode) {
    case DEMO_EPOLL:
        return common | MHD_USE_EPOLL;
    case DEMO_POLL:
        return common | MHD_USE_POLL;
    case DEMO_THREAD_PER_CONNECTION:
        return common | MHD_USE_THREAD_PER_CONNECTION;
    case DEMO_WEIR_SERVE:
        break;
    }
    return common;
}

static enum weir_code start_server(struct demo *demo, const struct demo_options *options,
                                   int listener, struct weir_error *error)
{
    enum weir_code code =
        weir_serve(demo->chain,
                   WEIR_SERVE_OPTIONS(.listening_socket = &listener, .threads = options->threads,
                                      .idle_timeout_s = IDLE_TIMEOUT_S),
                   &demo->server, error);
    close(listener);
    return code;
}

static enum weir_code start_daemon(struct demo *demo, const struct demo_options *options,
                                   int listener, struct weir_error *error)
{
    /* One thread is no pool to libmicrohttpd, and a thread for each connection wants none. */
    bool has_pool = options->threads > 1 && options->mode != DEMO_THREAD_PER_CONNECTION;
    demo->daemon = MHD_start_daemon(
        flags_of(options->mode), 0, NULL, NULL, weir_access_handler, demo->chain,
        MHD_OPTION_EXTERNAL_LOGGER, demo_log_mhd, NULL, MHD_OPTION_LISTEN_SOCKET, listener,
        MHD_OPTION_NOTIFY_COMPLETED, weir_request_completed, demo->chain,
        MHD_OPTION_CONNECTION_TIMEOUT, IDLE_TIMEOUT_S,
        has_pool ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, options->threads, MHD_OPTION_END);
    if (demo->daemon == NULL)
        return weir_error_set(error, WEIR_E_SYSTEM, NULL, "libmicrohttpd cannot be started.");
    return weir_chain_check(demo->chain, demo->daemon, error);
}

static enum weir_code start_listening(struct demo *demo, const struct demo_options *options,
                                      struct weir_error *error)
{
    int listener;
    enum weir_code code = demo_listen(options->listen, &listener, demo->url, error);
    if (code != WEIR_OK)
        return code;
    return options->mode == DEMO_WEIR_SERVE ? start_server(demo, options, listener, error)
                                            : start_daemon(demo, options, listener, error);
}

static enum weir_code start_watching(struct demo *demo, const struct demo_options *options,
                                     struct weir_error *error)
{
    if (!options->watches)
        return WEIR_OK;
    return weir_watch_new(WEIR_WATCH_OPTIONS(.limiter = demo->limiter, .log = weir_log),
                          &demo->watch, error);
}

static bool stop(struct demo *demo)
{
    if (demo->server != NULL)
        return weir_server_stop(demo->server, DRAIN_MS);
    return demo->daemon == NULL || weir_stop_daemon(demo->chain, demo->daemon, DRAIN_MS);
}

static void free_parts(struct demo *demo)
{
    if (!stop(demo))
        demo_log(WEIR_WARNING, "Some requests were cut off: they took longer than %u ms.",
                 DRAIN_MS);
    weir_watch_free(demo->watch);
    weir_chain_free(demo->chain);
    weir_admin_free(demo->admin);
    demo_otp_free(demo->otp);
    weir_limiter_free(demo->limiter);
    weir_decision_log_free(demo->decisions);
    weir_policy_free(demo->policy);
}

/* saying what is */

static void complain(const struct weir_error *error, const char *file)
{
    char line[LINE_BYTES];
    fprintf(stderr, "weir-demo: %s\n", weir_error_line(error, file, line, LINE_BYTES));
}

/* A warning as a line. With --store the file's text is not what was read, and its lines have to be found. */
static const char *warning_line(const struct weir_policy *policy, size_t index,
                                const struct demo_options *options, const char *file,
                                char line[LINE_BYTES])
{
    struct weir_error warning = *weir_policy_warning(policy, index);
    if (options->store != NULL)
        demo_find_warning(file, &warning);
    return weir_error_line(&warning, file, line, LINE_BYTES);
}

static void log_warnings(const struct weir_policy *policy, const struct demo_options *options,
                         const char *file)
{
    char line[LINE_BYTES];
    for (size_t i = 0; i < weir_policy_warning_count(policy); i++)
        demo_log(WEIR_WARNING, "%s", warning_line(policy, i, options, file, line));
}

static void log_store(struct weir_limiter *limiter)
{
    struct weir_store_state state;
    weir_limiter_state(limiter, &state);
    if (strcmp(state.name, "memory") == 0)
        demo_log(WEIR_INFO, "The store is memory: limits hold for this process alone, and several "
                            "instances let through several times as much. --store "
                            "redis://127.0.0.1:6379/0 shares them.");
}

/* running */

static void block_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGHUP);
    /* Before there are other threads, which inherit it: the signals are for sigwait(). */
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* SIGHUP reloads the policy; the limiter logs how that went. */
static void wait_for_stop(const sigset_t *signals, struct weir_limiter *limiter)
{
    int number = 0;
    for (;;) {
        int failed = sigwait(signals, &number);
        if (failed == 0 && number == SIGHUP)
            weir_policy_reload(limiter, NULL, NULL);
        else if (failed == 0)
            return;
    }
}

/* Whose fault it is: with --store the file's URL is not read. */
static const char *culprit_of(const struct weir_error *error, const struct demo_options *options,
                              const char *file)
{
    bool is_ours = options->store != NULL && strcmp(error->path, "/store/url") == 0;
    return is_ours ? "--store" : file;
}

static int serve(struct demo_options *options)
{
    sigset_t signals;
    block_signals(&signals);

    struct demo demo = { .policy = NULL };
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = demo_policy_load(options, demo.file, &demo.policy, &error);
    if (code == WEIR_OK)
        code = make_limiter(&demo, options, &error);
    const char *culprit = code == WEIR_OK ? NULL : culprit_of(&error, options, demo.file);
    if (code == WEIR_OK)
        code = make_chain(&demo, options, &error);
    if (code == WEIR_OK)
        code = start_watching(&demo, options, &error);
    if (code == WEIR_OK)
        code = start_listening(&demo, options, &error);
    if (code == WEIR_OK) {
        log_warnings(demo.policy, options, demo.file);
        log_store(demo.limiter);
        printf("listening on %s\n", demo.url);
        fflush(stdout);
        wait_for_stop(&signals, demo.limiter);
    } else {
        complain(&error, culprit);
    }
    free_parts(&demo);
    return code == WEIR_OK ? 0 : 1;
}

/* The file as it is, whatever --store says. */
static int print_expanded(const char *file)
{
    char *text = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_expand(file, &text, &error) != WEIR_OK) {
        complain(&error, file);
        return 1;
    }
    fputs(text, stdout);
    free(text);
    return 0;
}

static int check(const struct demo_options *options)
{
    struct weir_policy *policy = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    char file[PATH_MAX];
    if (demo_policy_load(options, file, &policy, &error) != WEIR_OK) {
        complain(&error, culprit_of(&error, options, file));
        return 1;
    }
    /* The store's URL is the store's to read. */
    struct weir_limiter *limiter = NULL;
    if (weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, &error) != WEIR_OK) {
        complain(&error, culprit_of(&error, options, file));
        weir_policy_free(policy);
        return 1;
    }
    weir_limiter_free(limiter);
    char line[LINE_BYTES];
    size_t count = weir_policy_warning_count(policy);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "weir-demo: %s\n", warning_line(policy, i, options, file, line));
    weir_policy_free(policy);
    if (options->expands)
        return print_expanded(file);
    printf("%s: no errors, %zu warning%s\n", file, count, count == 1 ? "" : "s");
    return 0;
}

int main(int count, char **arguments)
{
    if (sodium_init() < 0)
        return 1;
    struct demo_options options;
    switch (demo_options_read(count, arguments, &options)) {
    case DEMO_SERVE:
        return serve(&options);
    case DEMO_CHECK:
        return check(&options);
    case DEMO_HELP:
        demo_options_print_help();
        return 0;
    case DEMO_VERSION:
        printf("weir-demo %s\n", weir_version());
        return 0;
    case DEMO_MISUSED:
        break;
    }
    return 2;
}
