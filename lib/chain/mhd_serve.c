/* A server of several threads, each with a daemon of libmicrohttpd's and a loop around it. The loop waits
 * for the daemon's connections, for what wakes suspended requests, and for the answers to those that
 * stay in place: see chain/in_place.h. */
#include <weir/serve.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/mhd.h>

#include "base/clock.h"
#include "base/options.h"
#include "chain/listen.h"
#include "chain/mhd_worker.h"

#define SERVE_OPTIONS_FIRST (offsetof(struct weir_serve_options, listening_socket) + sizeof(int *))

#define THREADS_MAX          256u
#define CONNECTIONS_DEFAULT  10000u
#define CONNECTIONS_MAX      10000000u
#define IDLE_TIMEOUT_DEFAULT 60u
#define MEMORY_DEFAULT       (32u * 1024)
#define MEMORY_MIN           1024u
#define MEMORY_MAX           (64u * 1024 * 1024)

/* A daemon that was full goes on to take connections in the round after one has ended. */
#define AFTER_AN_END_US UINT64_C(1000)

struct loop {
    struct weir_server *server;
    struct MHD_Daemon *daemon;
    struct weir_worker *worker;
    int events;         /* an epoll instance over the daemon's own and `wake` */
    int wake;           /* an eventfd: a suspended request may go on, or the server stops */
    bool has_ended_one; /* a connection ended in this round */
    pthread_t thread;
    bool runs;
};

struct weir_server {
    struct weir_chain *chain;
    int listener;
    uint16_t port;
    atomic_bool is_closing; /* takes no more connections */
    atomic_bool is_over;
    size_t count;
    struct loop loops[];
};

/* a loop */

static uint64_t daemon_patience_us(struct MHD_Daemon *daemon)
{
    unsigned MHD_LONG_LONG left_ms;
    if (MHD_get_timeout(daemon, &left_ms) != MHD_YES)
        return UINT64_MAX;
    return left_ms < UINT64_MAX / 1000 ? left_ms * 1000 : UINT64_MAX;
}

static void on_connection(void *self, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    (void)connection, (void)socket_context;
    struct loop *loop = self;
    loop->has_ended_one = loop->has_ended_one || code == MHD_CONNECTION_NOTIFY_CLOSED;
}

/* What libmicrohttpd says of those that stay is always that they are to be called at once. */
static uint64_t patience_us(struct loop *loop)
{
    if (atomic_load_explicit(&loop->worker->staying, memory_order_relaxed) > 0)
        return weir_in_place_patience_us(loop->worker);
    uint64_t most_us = loop->has_ended_one ? AFTER_AN_END_US : UINT64_MAX;
    return weir_earlier(daemon_patience_us(loop->daemon), most_us);
}

static void wait_for_news(struct loop *loop)
{
    loop->worker->turn++;
    weir_in_place_turn(loop->worker, patience_us(loop));
    loop->has_ended_one = false;
}

static void clear_wake(struct loop *loop)
{
    uint64_t wakes;
    if (!atomic_load(&loop->worker->is_told))
        return;
    /* Who has told may be about to write. */
    if (read(loop->wake, &wakes, sizeof wakes) == sizeof wakes)
        atomic_store(&loop->worker->is_told, false);
}

/* On the loop's own thread, so that nobody is inside libmicrohttpd meanwhile. */
static void close_door(struct loop *loop, bool *is_closed)
{
    if (*is_closed || !atomic_load(&loop->server->is_closing))
        return;
    MHD_socket listener = MHD_quiesce_daemon(loop->daemon);
    if (listener != MHD_INVALID_SOCKET)
        close(listener);
    *is_closed = true;
}

/* A Redis server that goes while a lane writes to it must not end the program (hiredis 0.14.1 writes
 * without MSG_NOSIGNAL). libmicrohttpd does the same in threads of its own. */
static void outlive_broken_pipes(void)
{
    sigset_t broken_pipe;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, NULL);
}

static void *run(void *self)
{
    struct loop *loop = self;
    bool is_closed = false;
    outlive_broken_pipes();
    while (!atomic_load(&loop->server->is_over)) {
        close_door(loop, &is_closed);
        MHD_run(loop->daemon);
        wait_for_news(loop);
        clear_wake(loop);
    }
    return NULL;
}

/* making */

static enum weir_code system_failed(const char *what, struct weir_error *error)
{
    return weir_error_set(error, WEIR_E_SYSTEM, NULL, "A server needs %s: %s.", what,
                          strerror(errno));
}

static struct MHD_Daemon *start_daemon(struct loop *loop, const struct weir_serve_options *options,
                                       int listener)
{
    const struct weir_server *server = loop->server;
    /* Each thread takes its share of connections, and one more, since they come as they like. */
    const unsigned most = options->connections_max / (unsigned)server->count + 1;
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                            weir_access_handler, server->chain, MHD_OPTION_LISTEN_SOCKET, listener,
                            MHD_OPTION_NOTIFY_COMPLETED, weir_request_completed, server->chain,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, loop,
                            MHD_OPTION_CONNECTION_LIMIT, most, MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned)options->idle_timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                            (size_t)options->memory_bytes, MHD_OPTION_END);
}

static bool watch(int events, int fd)
{
    struct epoll_event event = { .events = EPOLLIN };
    return fd >= 0 && epoll_ctl(events, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* What is made is taken back by finish_loop(). */
static enum weir_code make_loop(struct loop *loop, const struct weir_serve_options *options,
                                struct weir_error *error)
{
    loop->events = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* The daemon closes its own. */
    int listener = fcntl(loop->server->listener, F_DUPFD_CLOEXEC, 0);
    if (loop->events < 0 || loop->wake < 0 || listener < 0) {
        enum weir_code code = system_failed("descriptors", error);
        if (listener >= 0)
            close(listener);
        return code;
    }
    loop->daemon = start_daemon(loop, options, listener);
    if (loop->daemon == NULL) {
        close(listener);
        return weir_error_set(error, WEIR_E_DAEMON, NULL,
                              "libmicrohttpd cannot start a daemon with epoll.");
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(loop->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (info == NULL || !watch(loop->events, info->epoll_fd) || !watch(loop->events, loop->wake))
        return system_failed("an epoll descriptor", error);
    loop->worker = weir_in_place_worker(loop->server->chain, loop->daemon, loop->events, true);
    if (loop->worker == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    loop->worker->wake = loop->wake;
    return WEIR_OK;
}

static void finish_loop(struct loop *loop)
{
    if (loop->daemon != NULL)
        MHD_stop_daemon(loop->daemon);
    if (loop->worker != NULL)
        weir_in_place_end_loop(loop->worker);
    if (loop->events >= 0)
        close(loop->events);
    if (loop->wake >= 0)
        close(loop->wake);
}

static enum weir_code start_loops(struct weir_server *server,
                                  const struct weir_serve_options *options,
                                  struct weir_error *error)
{
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < server->count; i++)
        server->loops[i] = (struct loop){ .server = server, .events = -1, .wake = -1 };
    for (size_t i = 0; i < server->count && code == WEIR_OK; i++)
        code = make_loop(&server->loops[i], options, error);
    for (size_t i = 0; i < server->count && code == WEIR_OK; i++) {
        struct loop *loop = &server->loops[i];
        errno = pthread_create(&loop->thread, NULL, run, loop);
        loop->runs = errno == 0;
        if (!loop->runs)
            return system_failed("threads", error);
        pthread_setname_np(loop->thread, "weir-serve");
    }
    return code;
}

static void wake_all(struct weir_server *server)
{
    for (size_t i = 0; i < server->count; i++)
        if (server->loops[i].worker != NULL)
            weir_in_place_wake_loop(server->loops[i].worker);
}

static void end(struct weir_server *server)
{
    atomic_store(&server->is_over, true);
    wake_all(server);
    for (size_t i = 0; i < server->count; i++)
        if (server->loops[i].runs)
            pthread_join(server->loops[i].thread, NULL);
    for (size_t i = 0; i < server->count; i++)
        finish_loop(&server->loops[i]);
    close(server->listener);
    free(server);
}

static enum weir_code check_number(const char *name, uint32_t number, uint32_t least, uint32_t most,
                                   struct weir_error *error)
{
    if (number >= least && number <= most)
        return WEIR_OK;
    return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                          "%s is %" PRIu32 "; it must be %" PRIu32 " to %" PRIu32
                          ", or 0 for the default.",
                          name, number, least, most);
}

static enum weir_code take_options(struct weir_serve_options *ours,
                                   const struct weir_serve_options *theirs,
                                   struct weir_error *error)
{
    enum weir_code code = weir_options_take(ours, sizeof *ours, theirs, SERVE_OPTIONS_FIRST,
                                            "WEIR_SERVE_OPTIONS", error);
    if (code != WEIR_OK)
        return code;
    if (ours->address == NULL)
        ours->address = "127.0.0.1";
    if (ours->threads == 0)
        ours->threads = 1;
    if (ours->connections_max == 0)
        ours->connections_max = CONNECTIONS_DEFAULT;
    if (ours->idle_timeout_s == 0)
        ours->idle_timeout_s = IDLE_TIMEOUT_DEFAULT;
    if (ours->memory_bytes == 0)
        ours->memory_bytes = MEMORY_DEFAULT;
    code = check_number("threads", ours->threads, 1, THREADS_MAX, error);
    if (code == WEIR_OK)
        code = check_number("connections_max", ours->connections_max, 1, CONNECTIONS_MAX, error);
    if (code == WEIR_OK)
        code = check_number("memory_bytes", ours->memory_bytes, MEMORY_MIN, MEMORY_MAX, error);
    return code;
}

static bool does_listen(int socket)
{
    int listens = 0;
    socklen_t size = sizeof listens;
    return getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

/* A copy of the caller's socket, or one of our own. */
static enum weir_code take_listener(const struct weir_serve_options *options, int *listener,
                                    struct weir_error *error)
{
    if (options->listening_socket == NULL)
        return weir_listen(options->address, options->port, listener, error);
    if (!does_listen(*options->listening_socket))
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "listening_socket is %d, which is no socket that listens: call "
                              "listen() first.",
                              *options->listening_socket);
    *listener = fcntl(*options->listening_socket, F_DUPFD_CLOEXEC, 0);
    if (*listener < 0)
        return system_failed("a descriptor", error);
    fcntl(*listener, F_SETFL, fcntl(*listener, F_GETFL) | O_NONBLOCK);
    return WEIR_OK;
}

/* The same, where all of the chain's links agree to it. */
static enum weir_code open_door(const struct weir_chain *chain,
                                const struct weir_serve_options *options, int *listener,
                                struct weir_error *error)
{
    enum weir_code code = take_listener(options, listener, error);
    if (code != WEIR_OK)
        return code;
    code = weir_chain_may_listen(chain, *listener, error);
    if (code != WEIR_OK)
        close(*listener);
    return code;
}

enum weir_code weir_serve(struct weir_chain *chain, const struct weir_serve_options *options,
                          struct weir_server **server, struct weir_error *error)
{
    if (chain == NULL || server == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL, "A server needs a chain and a place.");
    if (weir_chain_is_stopping(chain))
        return weir_error_set(error, WEIR_E_STATE, NULL,
                              "The chain was drained, and answers everything with 503: make a new "
                              "chain to serve again.");
    struct weir_serve_options ours;
    enum weir_code code = take_options(&ours, options, error);
    if (code != WEIR_OK)
        return code;
    struct weir_server *made = calloc(1, sizeof *made + ours.threads * sizeof made->loops[0]);
    if (made == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    made->chain = chain;
    made->count = ours.threads;
    code = open_door(chain, &ours, &made->listener, error);
    if (code != WEIR_OK) {
        free(made);
        return code;
    }
    made->port = weir_listen_port(made->listener);
    atomic_store(&chain->in_place.is_wanted, true);
    code = start_loops(made, &ours, error);
    if (code == WEIR_OK)
        *server = made;
    else
        end(made);
    return code;
}

uint16_t weir_server_port(const struct weir_server *server)
{
    return server == NULL ? 0 : server->port;
}

bool weir_server_stop(struct weir_server *server, uint32_t drain_ms)
{
    if (server == NULL)
        return true;
    atomic_store(&server->is_closing, true);
    wake_all(server);
    bool answered = weir_chain_drain(server->chain, drain_ms);
    end(server);
    return answered;
}
