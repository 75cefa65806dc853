/* The server of the fault suite: a small application for libmicrohttpd, wrapped by weir, or bare.
 *
 *     fault_server [--policy FILE] [--threads N] [--waiting auto|thread|place|serve]
 *
 * --waiting says where requests wait for the store: with "serve" in place as well, in the threads of
 * weir_serve().
 *
 * Prints "listening on http://127.0.0.1:PORT", serves until SIGTERM, frees all it has, and prints
 * what happened as one line of JSON: how often the application ran for each path, and how many
 * decisions of each kind the limiter reported. Without a policy the application stands alone.
 * GET /state is never limited where the policy does not name it: how the store is. */
#include <weir/weir.h>

#include <weir/redirect.h>

#include <arpa/inet.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DRAIN_MS 2000u

/* A request that never ends must not keep the suite: libmicrohttpd closes idle connections. */
#define IDLE_TIMEOUT_S 30u

struct options {
    const char *policy;
    unsigned threads;
    enum weir_wait_mode waiting;
    bool is_served;
};

static struct {
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
} weir;

/* what is counted */

static const char *const paths[] = { "/open", "/closed", "/memory", "/tight" };

#define PATHS (sizeof paths / sizeof paths[0])

static _Atomic uint64_t runs[PATHS + 1]; /* the last: of all others */

static void count_run(const char *url)
{
    size_t index = 0;
    while (index < PATHS && strcmp(url, paths[index]) != 0)
        index++;
    atomic_fetch_add(&runs[index], 1);
}

#define KINDS_MAX 200

/* Decisions that are alike are one kind. */
struct kind {
    enum weir_outcome outcome;
    bool by_memory;
    char path[24];
    char failure[16];
    char why[64];
    uint64_t count;
};

static struct {
    pthread_mutex_t mutex;
    struct kind kinds[KINDS_MAX];
    size_t count;
} decisions = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from == NULL ? "" : from);
}

static bool is_alike(const struct kind *one, const struct kind *other)
{
    return one->outcome == other->outcome && one->by_memory == other->by_memory
           && strcmp(one->path, other->path) == 0 && strcmp(one->failure, other->failure) == 0
           && strcmp(one->why, other->why) == 0;
}

/* More kinds than there is room for are counted with the last one. */
static void count_kind(const struct kind *kind)
{
    size_t index = 0;
    while (index < decisions.count && !is_alike(&decisions.kinds[index], kind))
        index++;
    if (index == KINDS_MAX)
        index--;
    if (index == decisions.count)
        decisions.kinds[decisions.count++] = *kind;
    decisions.kinds[index].count++;
}

static void count_decision(void *self, const struct weir_decision *decision)
{
    (void)self;
    struct kind kind = { .outcome = decision->outcome, .by_memory = decision->by_memory };
    copy(kind.path, sizeof kind.path, decision->path);
    copy(kind.failure, sizeof kind.failure, decision->failure);
    copy(kind.why, sizeof kind.why, decision->why);
    pthread_mutex_lock(&decisions.mutex);
    count_kind(&kind);
    pthread_mutex_unlock(&decisions.mutex);
}

static const char *outcome_name(enum weir_outcome outcome)
{
    static const char *const names[] = {
        [WEIR_ALLOWED] = "allowed",
        [WEIR_LIMITED] = "limited",
        [WEIR_IMPOSSIBLE] = "impossible",
        [WEIR_SHADOW_LIMITED] = "shadow-limited",
        [WEIR_UNAUTHENTICATED] = "unauthenticated",
        [WEIR_FAILED_OPEN] = "failed-open",
        [WEIR_FAILED_CLOSED] = "failed-closed",
    };
    return outcome < sizeof names / sizeof names[0] ? names[outcome] : "another";
}

static void print_counts(void)
{
    json_t *ran = json_object();
    for (size_t i = 0; i < PATHS; i++)
        json_object_set_new(ran, paths[i], json_integer((json_int_t)atomic_load(&runs[i])));
    json_object_set_new(ran, "other", json_integer((json_int_t)atomic_load(&runs[PATHS])));
    json_t *decided = json_array();
    for (size_t i = 0; i < decisions.count; i++) {
        const struct kind *kind = &decisions.kinds[i];
        json_array_append_new(
            decided, json_pack("{s:s, s:s, s:b, s:s, s:s, s:I}", "path", kind->path, "outcome",
                               outcome_name(kind->outcome), "by_memory", kind->by_memory, "failure",
                               kind->failure, "why", kind->why, "count", (json_int_t)kind->count));
    }
    json_t *counts = json_pack("{s:o, s:o}", "runs", ran, "decisions", decided);
    char *text = json_dumps(counts, JSON_COMPACT);
    printf("%s\n", text == NULL ? "{}" : text);
    free(text);
    json_decref(counts);
}

/* the application */

/* One for each request, so that a completed callback that does not come shows as a leak. */
struct job {
    size_t body_bytes;
};

static enum MHD_Result reply_text(struct MHD_Connection *connection, char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result reply_state(struct MHD_Connection *connection)
{
    struct weir_store_state state = { .name = "" };
    if (weir.limiter != NULL)
        weir_limiter_state(weir.limiter, &state);
    json_t *object = json_pack("{s:s, s:b, s:s}", "name", state.name, "answering", state.answering,
                               "why", state.why);
    char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (text == NULL)
        return MHD_NO;
    enum MHD_Result queued = reply_text(connection, text);
    free(text);
    return queued;
}

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload_data,
                              size_t *upload_data_size, void **con_cls)
{
    (void)cls, (void)method, (void)version, (void)upload_data;
    if (*con_cls == NULL) {
        *con_cls = calloc(1, sizeof(struct job));
        return *con_cls == NULL ? MHD_NO : MHD_YES;
    }
    struct job *job = *con_cls;
    if (*upload_data_size > 0) {
        job->body_bytes += *upload_data_size;
        *upload_data_size = 0;
        return MHD_YES;
    }
    if (strcmp(url, "/state") == 0)
        return reply_state(connection);
    count_run(url);
    char text[64];
    snprintf(text, sizeof text, "{\"body_bytes\":%zu}\n", job->body_bytes);
    return reply_text(connection, text);
}

static void forget(void *cls, struct MHD_Connection *connection, void **con_cls,
                   enum MHD_RequestTerminationCode toe)
{
    (void)cls, (void)connection, (void)toe;
    free(*con_cls);
    *con_cls = NULL;
}

/* weir around it */

/* With the time on the clock that the rest of the suite uses. */
static void write_line(void *self, enum weir_level level, const char *text)
{
    static const char *const levels[] = { [WEIR_DEBUG] = "debug",
                                          [WEIR_INFO] = "info",
                                          [WEIR_WARNING] = "warning",
                                          [WEIR_ERROR] = "error" };
    (void)self;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fprintf(stderr, "%lld.%06ld %s %s\n", (long long)now.tv_sec, now.tv_nsec / 1000, levels[level],
            text);
}

static bool wrap(const struct options *options)
{
    const char *file = options->policy;
    const struct weir_log log = { write_line, NULL };
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_load(file, &weir.policy, &error) == WEIR_OK
        && weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = weir.policy, .log = log,
                                                 .on_decision = count_decision),
                            &weir.limiter, &error)
               == WEIR_OK
        && weir_chain_new(WEIR_CHAIN_OPTIONS(.log = log, .waiting = options->waiting), &weir.chain,
                          &error)
               == WEIR_OK
        && weir_chain_use(weir.chain, weir_limit(weir.limiter)) == WEIR_OK
        && weir_chain_serve(weir.chain, WEIR_APP(.handler = answer, .completed = forget))
               == WEIR_OK)
        return true;
    char line[600];
    fprintf(stderr, "%s\n", weir_error_line(&error, file, line, sizeof line));
    return false;
}

static void unwrap(void)
{
    weir.chain = weir_chain_free(weir.chain);
    weir.limiter = weir_limiter_free(weir.limiter);
    weir.policy = weir_policy_free(weir.policy);
}

/* running */

static struct MHD_Daemon *start(const struct options *options)
{
    const struct sockaddr_in where = { .sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    bool is_bare = weir.chain == NULL;
    bool has_pool = options->threads > 1;
    return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG
                                | (is_bare ? 0u : MHD_ALLOW_SUSPEND_RESUME),
                            0, NULL, NULL, is_bare ? answer : weir_access_handler, weir.chain,
                            MHD_OPTION_NOTIFY_COMPLETED, is_bare ? forget : weir_request_completed,
                            weir.chain, MHD_OPTION_SOCK_ADDR, &where, MHD_OPTION_CONNECTION_TIMEOUT,
                            IDLE_TIMEOUT_S, has_pool ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
                            options->threads, MHD_OPTION_END);
}

static bool stop(struct MHD_Daemon *daemon)
{
    if (weir.chain != NULL)
        return weir_stop_daemon(weir.chain, daemon, DRAIN_MS);
    MHD_stop_daemon(daemon);
    return true;
}

static void wait_for_signal(unsigned port, const sigset_t *signals)
{
    printf("listening on http://127.0.0.1:%u\n", port);
    fflush(stdout);
    int number;
    while (sigwait(signals, &number) != 0)
        continue;
}

static bool serve_by_weir(const struct options *options, const sigset_t *signals)
{
    struct weir_server *server = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_serve(
            weir.chain,
            WEIR_SERVE_OPTIONS(.threads = options->threads, .idle_timeout_s = IDLE_TIMEOUT_S),
            &server, &error)
        != WEIR_OK) {
        fprintf(stderr, "%s\n", error.text);
        return false;
    }
    wait_for_signal(weir_server_port(server), signals);
    return weir_server_stop(server, DRAIN_MS);
}

static bool serve(const struct options *options, const sigset_t *signals)
{
    if (options->is_served && weir.chain != NULL)
        return serve_by_weir(options, signals);
    struct MHD_Daemon *daemon = start(options);
    struct weir_error error = WEIR_NO_ERROR;
    if (daemon == NULL
        || (weir.chain != NULL && weir_chain_check(weir.chain, daemon, &error) != WEIR_OK)) {
        fprintf(stderr, "libmicrohttpd did not start. %s\n", error.text);
        return false;
    }
    wait_for_signal(MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port, signals);
    return stop(daemon);
}

static bool read_waiting(struct options *options, const char *text)
{
    static const char *const modes[] = { [WEIR_WAIT_AUTO] = "auto",
                                         [WEIR_WAIT_STORE_THREAD] = "thread",
                                         [WEIR_WAIT_IN_PLACE] = "place" };
    options->is_served = strcmp(text, "serve") == 0;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(text, modes[i]) == 0) {
            options->waiting = (enum weir_wait_mode)i;
            return true;
        }
    return options->is_served;
}

static bool read_options(struct options *options, int argc, char **argv)
{
    *options = (struct options){ .threads = 2 };
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--policy") == 0)
            options->policy = argv[i + 1];
        else if (strcmp(argv[i], "--threads") == 0)
            options->threads = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--waiting") == 0 && read_waiting(options, argv[i + 1]))
            continue;
        else
            return false;
    }
    return argc % 2 == 1;
}

int main(int argc, char **argv)
{
    struct options options;
    if (!read_options(&options, argc, argv)) {
        fprintf(stderr, "usage: fault_server [--policy FILE] [--threads N] "
                        "[--waiting auto|thread|place|serve]\n");
        return 2;
    }
    /* Before any other thread is there, so that all leave the signal to sigwait(). */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);

    bool is_fine = options.policy == NULL || wrap(&options);
    is_fine = is_fine && serve(&options, &signals);
    unwrap();
    print_counts();
    return is_fine ? 0 : 1;
}
