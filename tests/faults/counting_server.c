/* The server of test_agreement: under weir, with its metrics and its decision log, and a word of its own
 * about each request that reached the application.
 *
 *     counting_server --policy FILE --log FILE [--waiting auto|thread] [--threads N]
 *
 * The policy's routes name the paths:
 *
 *     /settled, /rented   cost 0 to 5 units, in turn, whatever was taken for it
 *     /outcome            200, 401 or 500, in turn
 *     /upload             wants a body
 *     others              200
 *
 * GET /metrics, /units?path=PATH and /left?policy=NAME&limit=NAME are not limited: the second answers how
 * much was settled, the third what is left of a limit to the load's keys together, as the limiter says.
 *
 * Prints "listening on http://127.0.0.1:PORT", serves until SIGTERM, and prints as one line of JSON how
 * often the application ran for each path. */
#include <weir/weir.h>

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAIN_MS      2000u
#define KEYS          10
#define BODY_BYTES    4096
#define LINE_EVERY_MS 500

struct options {
    const char *policy;
    const char *log;
    unsigned threads;
    enum weir_wait_mode waiting;
};

static struct {
    FILE *log;
    struct weir_decision_log *decisions;
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
} weir;

/* the application */

struct path {
    const char *path;
    _Atomic uint64_t runs;
    _Atomic uint64_t units; /* that were settled */
};

static struct path paths[] = {
    { .path = "/plain" },  { .path = "/closed" },  { .path = "/tight" },   { .path = "/settled" },
    { .path = "/rented" }, { .path = "/outcome" }, { .path = "/shadow" },  { .path = "/leased" },
    { .path = "/pair" },   { .path = "/log" },     { .path = "/address" }, { .path = "/denied" },
    { .path = "/off" },    { .path = "/upload" }
};

#define PATHS (sizeof paths / sizeof paths[0])

static enum weir_step run(void *self, struct weir_request *request)
{
    struct path *path = self;
    atomic_fetch_add(&path->runs, 1);
    return weir_reply_text(request, 200, "done\n") ? WEIR_DONE : WEIR_FAIL;
}

/* Where nothing was spent, since the store failed, there is nothing to correct. */
static enum weir_step run_settled(void *self, struct weir_request *request)
{
    static _Atomic uint64_t turn;
    struct path *path = self;
    uint64_t actual = atomic_fetch_add(&turn, 1) % 6;
    if (weir_settle(request, actual) == WEIR_OK)
        atomic_fetch_add(&path->units, actual);
    return run(path, request);
}

static enum weir_step run_outcome(void *self, struct weir_request *request)
{
    static const unsigned statuses[] = { 200, 401, 500 };
    static _Atomic uint64_t turn;
    struct path *path = self;
    atomic_fetch_add(&path->runs, 1);
    unsigned status = statuses[atomic_fetch_add(&turn, 1) % 3];
    return weir_reply_text(request, status, "done\n") ? WEIR_DONE : WEIR_FAIL;
}

static enum weir_step run_upload(void *self, struct weir_request *request)
{
    const char *bytes;
    size_t length;
    if (!weir_request_body(request, BODY_BYTES, &bytes, &length))
        return WEIR_WAIT;
    return run(self, request);
}

/* for the test */

static enum weir_step reply_number(struct weir_request *request, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64 "\n", number);
    return weir_reply_text(request, 200, text) ? WEIR_DONE : WEIR_FAIL;
}

static enum weir_step tell_left(struct weir_request *request)
{
    uint64_t left = 0;
    for (unsigned key = 0; key < KEYS; key++) {
        char id[32];
        struct weir_verdict verdict;
        struct weir_error error = WEIR_NO_ERROR;
        snprintf(id, sizeof id, "load-%u", key);
        const struct weir_subject *subject =
            WEIR_SUBJECT(.policy = weir_request_query(request, "policy"),
                         .limit = weir_request_query(request, "limit"), .api_key = id);
        if (weir_limiter_peek(weir.limiter, subject, 1, &verdict, &error) != WEIR_OK)
            return weir_reply_text(request, 500, error.text) ? WEIR_DONE : WEIR_FAIL;
        left += verdict.quota_count == 1 ? verdict.quotas[0].remaining : 0;
    }
    return reply_number(request, left);
}

static enum weir_step tell_units(struct weir_request *request)
{
    const char *wanted = weir_request_query(request, "path");
    for (size_t i = 0; wanted != NULL && i < PATHS; i++)
        if (strcmp(paths[i].path, wanted) == 0)
            return reply_number(request, atomic_load(&paths[i].units));
    return weir_reply_text(request, 404, "no such path\n") ? WEIR_DONE : WEIR_FAIL;
}

/* In front of the limiter, so that to look changes nothing. */
static enum weir_step tell(void *self, struct weir_request *request)
{
    (void)self;
    const char *path = weir_request_path(request);
    if (path != NULL && strcmp(path, "/units") == 0)
        return tell_units(request);
    if (path != NULL && strcmp(path, "/left") == 0)
        return tell_left(request);
    return WEIR_NEXT;
}

/* weir around it */

static void write_line(void *self, enum weir_level level, const char *text)
{
    (void)self;
    if (level != WEIR_DEBUG)
        fprintf(stderr, "%s\n", text);
}

static void write_decision(void *self, enum weir_level level, const char *line, size_t length)
{
    (void)level;
    fprintf(self, "%.*s\n", (int)length, line);
}

typedef enum weir_step handler(void *self, struct weir_request *request);

static handler *handler_of(const char *path)
{
    if (strcmp(path, "/settled") == 0 || strcmp(path, "/rented") == 0)
        return run_settled;
    if (strcmp(path, "/outcome") == 0)
        return run_outcome;
    return strcmp(path, "/upload") == 0 ? run_upload : run;
}

static bool add_paths(void)
{
    bool is_fine = true;
    for (size_t i = 0; i < PATHS && is_fine; i++)
        is_fine = weir_chain_any(weir.chain, paths[i].path, handler_of(paths[i].path), &paths[i])
                  == WEIR_OK;
    return is_fine;
}

static bool make_limiter(const struct options *options, struct weir_error *error)
{
    weir.log = fopen(options->log, "w");
    if (weir.log == NULL)
        return false;
    return weir_decision_log_new(WEIR_DECISION_LOG_OPTIONS(.write = write_decision,
                                                           .write_self = weir.log,
                                                           .interval_ms = LINE_EVERY_MS),
                                 &weir.decisions, error)
               == WEIR_OK
           && weir_policy_load(options->policy, &weir.policy, error) == WEIR_OK
           && weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = weir.policy,
                                                    .log = { write_line, NULL },
                                                    .on_decision = weir_decision_log_add,
                                                    .decision_self = weir.decisions),
                               &weir.limiter, error)
                  == WEIR_OK;
}

static bool make_chain(const struct options *options, struct weir_error *error)
{
    return weir_chain_new(
               WEIR_CHAIN_OPTIONS(.log = { write_line, NULL }, .waiting = options->waiting),
               &weir.chain, error)
               == WEIR_OK
           && weir_chain_use_at(weir.chain, "/metrics", weir_metrics(weir.limiter)) == WEIR_OK
           && weir_chain_use(weir.chain, WEIR_MIDDLEWARE(.name = "tell", .on_request = tell))
                  == WEIR_OK
           && weir_chain_use(weir.chain, weir_limit(weir.limiter)) == WEIR_OK && add_paths();
}

static void free_all(void)
{
    weir.chain = weir_chain_free(weir.chain);
    weir.limiter = weir_limiter_free(weir.limiter);
    weir.policy = weir_policy_free(weir.policy);
    weir.decisions = weir_decision_log_free(weir.decisions);
    if (weir.log != NULL)
        fclose(weir.log);
}

/* running */

static void print_runs(void)
{
    printf("{");
    for (size_t i = 0; i < PATHS; i++)
        printf("%s\"%s\":%" PRIu64, i == 0 ? "" : ",", paths[i].path, atomic_load(&paths[i].runs));
    printf("}\n");
}

static bool serve(const struct options *options, const sigset_t *signals, struct weir_error *error)
{
    struct weir_server *server = NULL;
    if (weir_serve(weir.chain, WEIR_SERVE_OPTIONS(.threads = options->threads), &server, error)
        != WEIR_OK)
        return false;
    printf("listening on http://127.0.0.1:%u\n", (unsigned)weir_server_port(server));
    fflush(stdout);
    int number;
    while (sigwait(signals, &number) != 0)
        continue;
    return weir_server_stop(server, DRAIN_MS);
}

static bool read_options(struct options *options, int argc, char **argv)
{
    *options = (struct options){ .threads = 2 };
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--policy") == 0)
            options->policy = argv[i + 1];
        else if (strcmp(argv[i], "--log") == 0)
            options->log = argv[i + 1];
        else if (strcmp(argv[i], "--threads") == 0)
            options->threads = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--waiting") == 0)
            options->waiting =
                strcmp(argv[i + 1], "thread") == 0 ? WEIR_WAIT_STORE_THREAD : WEIR_WAIT_AUTO;
        else
            return false;
    }
    return argc % 2 == 1 && options->policy != NULL && options->log != NULL;
}

int main(int argc, char **argv)
{
    struct options options;
    struct weir_error error = WEIR_NO_ERROR;
    if (!read_options(&options, argc, argv)) {
        fprintf(stderr, "usage: counting_server --policy FILE --log FILE [--waiting auto|thread] "
                        "[--threads N]\n");
        return 2;
    }
    /* Before any other thread is there, so that all leave the signal to sigwait(). */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);

    bool is_fine = make_limiter(&options, &error) && make_chain(&options, &error)
                   && serve(&options, &signals, &error);
    char line[600];
    if (!is_fine)
        fprintf(stderr, "%s\n", weir_error_line(&error, options.policy, line, sizeof line));
    free_all();
    print_runs();
    return is_fine ? 0 : 1;
}
