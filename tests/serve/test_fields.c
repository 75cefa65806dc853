/* An application behind a limiter that reads bodies sees the calls that it would have seen without:
 * each exchange is held with it bare, wrapped over memory, and wrapped over Redis, in every mode. */
#include "test.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/select.h>
#include <unistd.h>

#include <weir/weir.h>

#include "client.h"
#include "redis_server.h"

static struct redis_server redis;

/* the application: it writes down its calls, and does in them what X-Do says */

struct visit {
    char calls[256]; /* one word for each */
    char body[4096]; /* what it took      */
    size_t body_length;
    unsigned count;   /* of calls          */
    size_t left_once; /* size of what it refused to take, once */
    bool is_begun;    /* its first call is over */
    struct MHD_PostProcessor *processor;
    char field[64];
};

static atomic_int under_way, last_code;

/* Resumes, from a thread of its own, what the application suspends. */
static struct {
    struct MHD_Connection *connection;
    sem_t has_one;
    atomic_int busy;   /* until it is through with it */
    atomic_bool holds; /* until it resumes it         */
    atomic_bool ends;
    void (*tell_loop)(void);
} resumer;

static void *resume_all(void *self)
{
    (void)self;
    for (;;) {
        while (sem_wait(&resumer.has_one) != 0)
            continue;
        if (resumer.ends)
            return NULL;
        /* Time for a call that must not come. */
        poll(NULL, 0, 5);
        atomic_store(&resumer.holds, false);
        MHD_resume_connection(resumer.connection);
        resumer.tell_loop();
        atomic_fetch_sub(&resumer.busy, 1);
    }
}

static void suspend(struct MHD_Connection *connection)
{
    MHD_suspend_connection(connection);
    atomic_fetch_add(&resumer.busy, 1);
    atomic_store(&resumer.holds, true);
    resumer.connection = connection;
    sem_post(&resumer.has_one);
}

static enum MHD_Result say(struct MHD_Connection *connection, const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result queued = weir_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result say_visit(struct MHD_Connection *connection, const struct visit *visit)
{
    char text[5000];
    snprintf(text, sizeof text, "%s| %s| %.*s", visit->calls, visit->field, (int)visit->body_length,
             visit->body);
    return say(connection, text);
}

static enum MHD_Result take_field(void *cls, enum MHD_ValueKind kind, const char *key,
                                  const char *filename, const char *type, const char *encoding,
                                  const char *data, uint64_t offset, size_t size)
{
    (void)kind, (void)filename, (void)type, (void)encoding;
    struct visit *visit = cls;
    if (strcmp(key, "username") == 0 && offset + size < sizeof visit->field)
        memcpy(visit->field + offset, data, size);
    return MHD_YES;
}

/* libmicrohttpd itself goes on with chunks that it has, even to who has suspended his connection. */
static bool is_wrapped;

static void note(struct visit *visit, const char *data, size_t size)
{
    size_t length = strlen(visit->calls);
    snprintf(visit->calls + length, sizeof visit->calls - length, "%s%s%zu ",
             is_wrapped && atomic_load(&resumer.holds) ? "suspended " : "",
             data == NULL ? "-" : "+", size);
}

static size_t take(struct visit *visit, const char *trick, const char *data, size_t size)
{
    if (strcmp(trick, "half") == 0)
        size = (size + 1) / 2;
    if (strcmp(trick, "refuse once") == 0 && visit->left_once != size) {
        visit->left_once = size;
        return 0;
    }
    visit->left_once = 0;
    if (visit->processor != NULL)
        MHD_post_process(visit->processor, data, size);
    memcpy(visit->body + visit->body_length, data, size);
    visit->body_length += size;
    return size;
}

/* "suspend 2" is done in the call of number 2; at the end of the word stands whether it takes what
 * it is offered there, too. */
static bool is_now(const struct visit *visit, const char *trick, const char *wanted)
{
    size_t length = strlen(wanted);
    return strncmp(trick, wanted, length) == 0 && (unsigned)(trick[length] - '0') == visit->count;
}

static enum MHD_Result serve(struct MHD_Connection *connection, struct visit *visit,
                             const char *trick, const char *data, size_t *size)
{
    if (is_now(visit, trick, "refuse "))
        return MHD_NO;
    bool suspends = is_now(visit, trick, "suspend ");
    bool leaves = suspends && strstr(trick, "leave") != NULL;
    if (suspends)
        suspend(connection);
    if (!visit->is_begun) {
        visit->is_begun = !suspends;
        if (strcmp(trick, "form") == 0)
            visit->processor = MHD_create_post_processor(connection, 1024, take_field, visit);
        return strcmp(trick, "answer first") == 0 ? say_visit(connection, visit) : MHD_YES;
    }
    if (*size > 0) {
        if (strcmp(trick, "answer early") == 0 && say(connection, "early") == MHD_YES)
            return MHD_YES;
        *size -= leaves ? 0 : take(visit, trick, data, *size);
        return MHD_YES;
    }
    bool is_late = strcmp(trick, "late") == 0 && visit->count < 4;
    return suspends || is_late ? MHD_YES : say_visit(connection, visit);
}

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **con_cls)
{
    (void)cls, (void)url, (void)method, (void)version;
    struct visit *visit = *con_cls;
    const char *trick = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Do");
    if (visit == NULL) {
        *con_cls = visit = calloc(1, sizeof *visit);
        assert_non_null(visit);
        atomic_fetch_add(&under_way, 1);
    }
    note(visit, data, *size);
    enum MHD_Result result = serve(connection, visit, trick == NULL ? "" : trick, data, size);
    visit->count++;
    return result;
}

static void completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                      enum MHD_RequestTerminationCode code)
{
    (void)cls, (void)connection;
    struct visit *visit = *con_cls;
    if (visit == NULL)
        return;
    if (visit->processor != NULL)
        MHD_destroy_post_processor(visit->processor);
    free(visit);
    atomic_store(&last_code, (int)code);
    atomic_fetch_sub(&under_way, 1);
}

/* daemons */

enum mode { EPOLL, SELECT, POOL, THREADS, OWN_LOOP };
enum wrap { BARE, ON_MEMORY, ON_REDIS, READ_BY_A_LINK };

static const struct {
    const char *name;
    unsigned flags;
    unsigned pool;
} modes[] = {
    [EPOLL] = { "internal epoll", MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0 },
    [SELECT] = { "internal select", SELECT_LOOP | MHD_ALLOW_SUSPEND_RESUME, 0 },
    [POOL] = { "a pool", MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 3 },
    [THREADS] = { "a thread for each connection",
                  MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0 },
    [OWN_LOOP] = { "the program's own loop", MHD_ALLOW_SUSPEND_RESUME, 0 },
};

static const char policy_json[] =
    "{ \"store\": {\"url\": \"%s\", \"timeout\": \"10s\"}, \"secret\": \"s\","
    "  \"policies\": {"
    "    \"login\": {\"limits\": ["
    "      {\"name\": \"account\", \"by\": \"field:username\", \"rate\": \"100000/minute\"}],"
    "      \"body_max\": \"1KiB\", \"on_store_failure\": \"closed\"},"
    "    \"few\": {\"limits\": ["
    "      {\"name\": \"account\", \"by\": \"field:username\", \"rate\": \"2/day\"},"
    "      {\"name\": \"address\", \"by\": \"ip\", \"rate\": \"100/day\"}],"
    "      \"on_store_failure\": \"closed\"}},"
    "  \"routes\": [{\"match\": \"* /few\", \"policy\": \"few\"},"
    "    {\"match\": \"* /*\", \"policy\": \"login\"}]}";

struct site {
    enum mode mode;
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    struct MHD_Daemon *daemon;
    uint16_t port;
    pthread_t loop;
    int wake; /* of a bare program's own loop: both ends of a pipe */
    int wake_write;
    atomic_bool stops;
};

static struct site *current_site;

static void tell_loop(void)
{
    char byte = 0;
    if (current_site->mode == OWN_LOOP)
        assert_int_equal(write(current_site->wake_write, &byte, 1), 1);
}

static void *run_loop(void *self)
{
    struct site *site = self;
    int chain_wake = site->chain == NULL ? -1 : weir_chain_wake_fd(site->chain);
    while (!atomic_load(&site->stops)) {
        fd_set reads, writes, excepts;
        FD_ZERO(&reads);
        FD_ZERO(&writes);
        FD_ZERO(&excepts);
        int highest = chain_wake > site->wake ? chain_wake : site->wake;
        MHD_get_fdset(site->daemon, &reads, &writes, &excepts, &highest);
        FD_SET(site->wake, &reads);
        if (chain_wake >= 0)
            FD_SET(chain_wake, &reads);
        struct timeval patience = { .tv_usec = 50000 };
        unsigned MHD_LONG_LONG timeout_ms;
        if (MHD_get_timeout(site->daemon, &timeout_ms) == MHD_YES && timeout_ms < 50)
            patience.tv_usec = (suseconds_t)timeout_ms * 1000;
        select(highest + 1, &reads, &writes, &excepts, &patience);
        char bytes[64];
        if (FD_ISSET(site->wake, &reads))
            assert_true(read(site->wake, bytes, sizeof bytes) > 0);
        if (chain_wake >= 0)
            weir_chain_wake_clear(site->chain);
        MHD_run(site->daemon);
    }
    return NULL;
}

/* A middleware of a program's own that looks at bodies. */
static enum weir_step read_body(void *self, struct weir_request *request)
{
    (void)self;
    const char *bytes;
    size_t length;
    return weir_request_body(request, 10000, &bytes, &length) ? WEIR_NEXT : WEIR_WAIT;
}

static void make_chain(struct site *site, enum wrap wrap)
{
    char text[2048];
    struct weir_error error = WEIR_NO_ERROR;
    int length = snprintf(text, sizeof text, policy_json, wrap == ON_REDIS ? redis.url : "memory:");
    if (weir_policy_parse(text, (size_t)length, NULL, &site->policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = site->policy), &site->limiter, NULL),
        WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &site->chain, NULL), WEIR_OK);
    const struct weir_middleware *reader = WEIR_MIDDLEWARE(.name = "read", .on_request = read_body);
    assert_int_equal(
        weir_chain_use(site->chain, wrap == READ_BY_A_LINK ? reader : weir_limit(site->limiter)),
        WEIR_OK);
    assert_int_equal(
        weir_chain_serve(site->chain, WEIR_APP(.handler = answer, .completed = completed)),
        WEIR_OK);
    struct weir_store_state state = { .answering = false };
    for (int i = 0; i < 10000 && !state.answering; i++) {
        weir_limiter_state(site->limiter, &state);
        poll(NULL, 0, state.answering ? 0 : 1);
    }
    assert_true(state.answering);
}

/* How long a connection may be silent; some modes see in no other way that a client has gone. */
static unsigned silence_s = 30;

static void start_site(struct site *site, enum mode mode, enum wrap wrap)
{
    int ends[2];
    *site = (struct site){ .mode = mode };
    assert_int_equal(pipe(ends), 0);
    site->wake = ends[0];
    site->wake_write = ends[1];
    is_wrapped = wrap != BARE;
    if (is_wrapped)
        make_chain(site, wrap);
    struct MHD_OptionItem options[] = {
        { MHD_OPTION_NOTIFY_COMPLETED,
          wrap == BARE ? (intptr_t)completed : (intptr_t)weir_request_completed, site->chain },
        { MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)silence_s, NULL },
        { modes[mode].pool > 0 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
          (intptr_t)modes[mode].pool, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    current_site = site;
    site->daemon = MHD_start_daemon(modes[mode].flags, 0, NULL, NULL,
                                    wrap == BARE ? answer : weir_access_handler, site->chain,
                                    MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    assert_non_null(site->daemon);
    site->port = MHD_get_daemon_info(site->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    if (mode == OWN_LOOP)
        assert_int_equal(pthread_create(&site->loop, NULL, run_loop, site), 0);
}

static void stop_site(struct site *site)
{
    while (atomic_load(&resumer.busy) > 0)
        poll(NULL, 0, 1);
    if (site->mode == OWN_LOOP) {
        atomic_store(&site->stops, true);
        tell_loop();
        pthread_join(site->loop, NULL);
    }
    if (site->chain == NULL || site->mode == OWN_LOOP)
        MHD_stop_daemon(site->daemon);
    else
        assert_true(weir_stop_daemon(site->chain, site->daemon, 10000));
    weir_chain_free(site->chain);
    weir_limiter_free(site->limiter);
    weir_policy_free(site->policy);
    close(site->wake);
    close(site->wake_write);
    assert_int_equal(atomic_load(&under_way), 0);
}

/* exchanges */

#define FORM "Content-Type: application/x-www-form-urlencoded\r\n"
#define CHUNKS                                                                                     \
    "Transfer-Encoding: "                                                                          \
    "chunked\r\n\r\n9\r\nusername=\r\n3\r\nann\r\nA\r\n&password=\r\n1\r\nx\r\n"                   \
    "0\r\n\r\n"

static const struct exchange {
    const char *when;
    const char *request; /* the start line and Host are added */
    const char *trick;
    const char *method;
} exchanges[] = {
    { "a body", FORM "Content-Length: 12\r\n\r\nusername=ann", "", "POST" },
    { "a body in chunks", FORM CHUNKS, "", "POST" },
    { "a body of no chunk", FORM "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", "POST" },
    { "no body", FORM "Content-Length: 0\r\n\r\n", "", "POST" },
    { "no length", FORM "\r\n", "", "POST" },
    { "a GET", "\r\n", "", "GET" },
    { "a GET with a body", FORM "Content-Length: 12\r\n\r\nusername=ann", "", "GET" },
    { "a HEAD with a body", FORM "Content-Length: 12\r\n\r\nusername=ann", "", "HEAD" },
    { "a post processor", FORM CHUNKS, "form", "POST" },
    { "a post processor of parts",
      "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 76\r\n\r\n"
      "--b\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nann and bob\r\n--b--\r\n",
      "form", "POST" },
    { "answers that come late", FORM CHUNKS, "late", "POST" },
    { "answers while the body comes", FORM CHUNKS, "answer early", "POST" },
    { "none in the first call", FORM CHUNKS, "refuse 0", "POST" },
    { "none in the second call", FORM CHUNKS, "refuse 1", "POST" },
    { "none in the third call", FORM CHUNKS, "refuse 2", "POST" },
    { "none in the last call", FORM CHUNKS, "refuse 5", "POST" },
    { "suspended in the first call", FORM CHUNKS, "suspend 0", "POST" },
    { "suspended in the second call", FORM CHUNKS, "suspend 1", "POST" },
    { "suspended in the third call", FORM CHUNKS, "suspend 2", "POST" },
    { "suspended in the third call with bytes left", FORM CHUNKS, "suspend 2 leave", "POST" },
    { "suspended in the fourth call", FORM CHUNKS, "suspend 3 leave", "POST" },
    { "suspended in the last call", FORM CHUNKS, "suspend 5", "POST" },
};

/* What came back, and whether the connection goes on. */
struct outcome {
    struct reply reply;
    bool is_open;
    int code;
};

static void hold(const struct site *site, const struct exchange *exchange, struct outcome *outcome)
{
    char text[2048];
    memset(outcome, 0, sizeof *outcome);
    snprintf(text, sizeof text, "%s / HTTP/1.1\r\nHost: t\r\nX-Do: %s\r\n%s", exchange->method,
             exchange->trick[0] == '\0' ? "nothing" : exchange->trick, exchange->request);
    int fd = client_connect(site->port);
    client_send_text(fd, text);
    client_read(fd, strcmp(exchange->method, "HEAD") == 0, &outcome->reply);
    if (outcome->reply.status != 0) {
        struct reply next;
        client_send_text(fd, "GET /next HTTP/1.1\r\nHost: t\r\n\r\n");
        client_read(fd, false, &next);
        outcome->is_open = next.status == 200;
    }
    close(fd);
    for (int i = 0; i < 10000 && atomic_load(&under_way) > 0; i++)
        poll(NULL, 0, 1);
    outcome->code = atomic_load(&last_code);
}

static bool can_hold(enum mode mode, const struct exchange *exchange)
{
    return mode != THREADS || strncmp(exchange->trick, "suspend", 7) != 0;
}

static void compare(enum mode mode, enum wrap wrap, const struct outcome *wanted)
{
    struct site site;
    start_site(&site, mode, wrap);
    for (size_t i = 0; i < COUNT_OF(exchanges); i++) {
        struct outcome found;
        if (!can_hold(mode, &exchanges[i]))
            continue;
        hold(&site, &exchanges[i], &found);
        if (found.reply.status != wanted[i].reply.status
            || strcmp(found.reply.body, wanted[i].reply.body) != 0
            || found.is_open != wanted[i].is_open || found.code != wanted[i].code)
            fail_msg("%s: %u \"%s\" %d %d, not %u \"%s\" %d %d", exchanges[i].when,
                     found.reply.status, found.reply.body, found.is_open, found.code,
                     wanted[i].reply.status, wanted[i].reply.body, wanted[i].is_open,
                     wanted[i].code);
    }
    stop_site(&site);
}

static void shows_an_application_the_calls_it_would_have_seen(void **state)
{
    (void)state;
    static struct outcome wanted[COUNT_OF(exchanges)];
    for (size_t mode = 0; mode < COUNT_OF(modes); mode++) {
        print_message("    %s\n", modes[mode].name);
        struct site bare;
        start_site(&bare, (enum mode)mode, BARE);
        for (size_t i = 0; i < COUNT_OF(exchanges); i++)
            if (can_hold((enum mode)mode, &exchanges[i]))
                hold(&bare, &exchanges[i], &wanted[i]);
        stop_site(&bare);
        assert_string_equal(wanted[1].reply.body, "-0 +9 +3 +10 +1 -0 | | username=ann&password=x");
        assert_string_equal(wanted[8].reply.body,
                            "-0 +9 +3 +10 +1 -0 | ann| username=ann&password=x");
        compare((enum mode)mode, ON_MEMORY, wanted);
        compare((enum mode)mode, ON_REDIS, wanted);
        compare((enum mode)mode, READ_BY_A_LINK, wanted);
    }
}

/* what differs */

static void in_every_mode(void (*test)(struct site *site))
{
    for (size_t mode = 0; mode < COUNT_OF(modes); mode++) {
        for (enum wrap wrap = ON_MEMORY; wrap <= ON_REDIS; wrap++) {
            struct site site;
            print_message("    %s, %s\n", modes[mode].name, wrap == ON_REDIS ? "Redis" : "memory");
            if (redis.pid != 0)
                redis_server_do(&redis, "FLUSHALL");
            start_site(&site, (enum mode)mode, wrap);
            test(&site);
            stop_site(&site);
        }
    }
}

static void expect(int fd, unsigned status, const char *body)
{
    struct reply reply;
    client_read(fd, false, &reply);
    assert_int_equal(reply.status, status);
    if (body != NULL)
        assert_string_equal(reply.body, body);
}

/* Without a limiter that read the body, this would cost the connection. */
static void answer_in_the_first_call(struct site *site)
{
    int fd = client_connect(site->port);
    for (int times = 0; times < 2; times++) {
        client_send_text(fd, "POST / HTTP/1.1\r\nHost: t\r\nX-Do: answer first\r\n" FORM CHUNKS);
        expect(fd, 200, "-0 | | ");
    }
    close(fd);
}

static void keeps_a_connection_that_is_answered_in_the_first_call(void **state)
{
    (void)state;
    in_every_mode(answer_in_the_first_call);
}

/* libmicrohttpd itself may wait for more bytes before it offers the same again. */
static void leave_some(struct site *site)
{
    int fd = client_connect(site->port);
    client_send_text(fd, "POST / HTTP/1.1\r\nHost: t\r\nX-Do: half\r\n" FORM CHUNKS);
    expect(fd, 200, "-0 +9 +4 +2 +1 +3 +1 +10 +5 +2 +1 +1 -0 | | username=ann&password=x");
    client_send_text(fd, "POST / HTTP/1.1\r\nHost: t\r\nX-Do: refuse once\r\n" FORM CHUNKS);
    expect(fd, 200, "-0 +9 +9 +3 +3 +10 +10 +1 +1 -0 | | username=ann&password=x");
    close(fd);
}

static void offers_again_what_is_left(void **state)
{
    (void)state;
    in_every_mode(leave_some);
}

#define LOGIN(name)                                                                                \
    "POST /few HTTP/1.1\r\nHost: t\r\n" FORM "Content-Length: 12\r\n\r\nusername=" name

static void log_in_too_often(struct site *site)
{
    int fd = client_connect(site->port);
    client_send_text(fd, LOGIN("ann") LOGIN("ANN") LOGIN("ann") LOGIN("bob"));
    client_send_text(fd, "GET /few HTTP/1.1\r\nHost: t\r\n\r\n");
    expect(fd, 200, "-0 +12 -0 | | username=ann");
    expect(fd, 200, "-0 +12 -0 | | username=ANN");
    expect(fd, 429, NULL);
    expect(fd, 200, "-0 +12 -0 | | username=bob");
    expect(fd, 200, "-0 -0 | | ");
    client_send_text(fd, LOGIN("ann"));
    expect(fd, 429, NULL);
    close(fd);
}

static void refuses_by_a_name_and_keeps_the_connection(void **state)
{
    (void)state;
    in_every_mode(log_in_too_often);
}

static void ask_first(struct site *site)
{
    struct reply reply;
    int fd = client_connect(site->port);
    client_send_text(fd, "POST / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n" FORM
                         "Content-Length: 12\r\n\r\n");
    client_read(fd, false, &reply);
    assert_non_null(strstr(reply.head, " 100 "));
    client_send_text(fd, "username=ann");
    expect(fd, 200, "-0 +12 -0 | | username=ann");
    client_send_text(fd, "POST / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n" FORM
                         "Content-Length: 1025\r\n\r\n");
    expect(fd, 413, NULL);
    assert_true(client_sees_end(fd));
    close(fd);
}

static void asks_for_no_body_that_it_does_not_take(void **state)
{
    (void)state;
    in_every_mode(ask_first);
}

/* The store is asked while the body still comes; the client sends on, or does not. */
static void send_too_much(struct site *site)
{
    char bytes[1000];
    memset(bytes, 'x', sizeof bytes);
    int fd = client_connect(site->port);
    for (int times = 0; times < 3; times++) {
        client_send_text(fd, "POST / HTTP/1.1\r\nHost: t\r\n" FORM
                             "Transfer-Encoding: chunked\r\n\r\n");
        for (int i = 0; i < 1 + times * 10; i++) {
            client_send_text(fd, "3e8\r\n");
            client_send(fd, bytes, sizeof bytes);
            client_send_text(fd, "\r\n");
        }
        client_send_text(fd, "19\r\nxxxxxxxxxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n");
        expect(fd, 413, NULL);
    }
    client_send_text(fd, "POST / HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n"
                         "Content-Length: 1\r\n\r\nx");
    expect(fd, 415, NULL);
    client_send_text(fd, "POST / HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n"
                         "Content-Length: 1\r\n\r\n{");
    expect(fd, 400, NULL);
    client_send_text(fd, "GET / HTTP/1.1\r\nHost: t\r\n\r\n");
    expect(fd, 200, "-0 -0 | | ");
    close(fd);
}

static void refuses_what_it_cannot_read_and_keeps_the_connection(void **state)
{
    (void)state;
    in_every_mode(send_too_much);
}

/* Nothing is counted, and nothing is left behind. */
static void vanish(struct site *site)
{
    for (int times = 0; times < 10; times++) {
        int fd = client_connect(site->port);
        client_send_text(fd, "POST /few HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n" FORM
                             "Content-Length: 12\r\n\r\n");
        struct reply reply;
        client_read(fd, false, &reply);
        assert_non_null(strstr(reply.head, " 100 "));
        client_send_text(fd, "username=an");
        close(fd);
    }
    int fd = client_connect(site->port);
    client_send_text(fd, LOGIN("ann") LOGIN("ann"));
    expect(fd, 200, NULL);
    expect(fd, 200, NULL);
    close(fd);
}

static void counts_nothing_for_clients_that_vanish(void **state)
{
    (void)state;
    silence_s = 1;
    in_every_mode(vanish);
    silence_s = 30;
}

static void fall_silent(struct site *site)
{
    int fd = client_connect(site->port);
    client_send_text(fd, "POST /few HTTP/1.1\r\nHost: t\r\n" FORM
                         "Content-Length: 12\r\n\r\nusername=an");
    assert_true(client_sees_end(fd));
    close(fd);
    vanish(site);
}

static void leaves_slow_bodies_to_the_timeout_of_libmicrohttpd(void **state)
{
    (void)state;
    silence_s = 1;
    in_every_mode(fall_silent);
    silence_s = 30;
}

static pthread_t resuming;

static int set_up(void **state)
{
    (void)state;
    redis_server_prepare(&redis);
    redis_server_start(&redis);
    resumer.tell_loop = tell_loop;
    sem_init(&resumer.has_one, 0, 0);
    return pthread_create(&resuming, NULL, resume_all, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    resumer.ends = true;
    sem_post(&resumer.has_one);
    pthread_join(resuming, NULL);
    redis_server_remove(&redis);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_an_application_the_calls_it_would_have_seen),
        cmocka_unit_test(keeps_a_connection_that_is_answered_in_the_first_call),
        cmocka_unit_test(offers_again_what_is_left),
        cmocka_unit_test(refuses_by_a_name_and_keeps_the_connection),
        cmocka_unit_test(asks_for_no_body_that_it_does_not_take),
        cmocka_unit_test(refuses_what_it_cannot_read_and_keeps_the_connection),
        cmocka_unit_test(counts_nothing_for_clients_that_vanish),
        cmocka_unit_test(leaves_slow_bodies_to_the_timeout_of_libmicrohttpd),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
