/* What the wrapped examples do not show of chain/mhd.c: against a real libmicrohttpd. */
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

/* a daemon and a client */

struct seen {
    atomic_int handler_calls;
    atomic_int completed_calls;
    void *_Atomic first_con_cls;
    void *_Atomic completed_con_cls;
    atomic_bool frees_con_cls;
};

static struct seen seen;
static struct weir_chain *chain;
static struct MHD_Daemon *server;

static int start(void **state)
{
    (void)state;
    seen = (struct seen){ 0 };
    server = NULL;
    return weir_chain_new(NULL, &chain, NULL) == WEIR_OK ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    if (server != NULL)
        MHD_stop_daemon(server);
    weir_chain_free(chain);
    return 0;
}

static void listen_with(void *(*uri_log)(void *cls, const char *uri, struct MHD_Connection *c))
{
    server = MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL,
                              NULL, weir_access_handler, chain, MHD_OPTION_NOTIFY_COMPLETED,
                              weir_request_completed, chain, MHD_OPTION_URI_LOG_CALLBACK, uri_log,
                              chain, MHD_OPTION_END);
    assert_non_null(server);
}

/* Sends `text` and reads until the server closes, so that its request is completed. */
static const char *ask(const char *text)
{
    static char reply[4096];
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(MHD_get_daemon_info(server, MHD_DAEMON_INFO_BIND_PORT)->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
    };
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* So that a request that is never answered fails the test rather than hold it up. */
    const struct timeval patience = { .tv_sec = 30 };
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(client, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    size_t length = 0;
    ssize_t got;
    while ((got = recv(client, reply + length, sizeof reply - 1 - length, 0)) > 0)
        length += (size_t)got;
    reply[length] = '\0';
    close(client);
    return reply;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"

/* a wrapped application */

static enum MHD_Result queue_ok(struct MHD_Connection *connection, unsigned status)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = weir_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result app(void *cls, struct MHD_Connection *connection, const char *url,
                           const char *method, const char *version, const char *data, size_t *size,
                           void **con_cls)
{
    (void)cls, (void)method, (void)version, (void)data, (void)size;
    if (seen.handler_calls++ == 0) {
        seen.first_con_cls = *con_cls;
        return MHD_YES;
    }
    bool is_first_of_two = strcmp(url, "/processing") == 0 && seen.handler_calls == 2;
    return queue_ok(connection, is_first_of_two ? MHD_HTTP_PROCESSING : MHD_HTTP_OK);
}

static void app_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                          enum MHD_RequestTerminationCode toe)
{
    (void)cls, (void)connection, (void)toe;
    seen.completed_calls++;
    seen.completed_con_cls = *con_cls;
    if (seen.frees_con_cls)
        free(*con_cls);
}

static void serve_app(void)
{
    assert_int_equal(weir_chain_serve(chain, WEIR_APP(.handler = app, .completed = app_completed)),
                     WEIR_OK);
}

static enum weir_step refuse(void *self, struct weir_request *request)
{
    (void)self;
    weir_reply_text(request, 429, "No.");
    return WEIR_DONE;
}

static void tells_an_application_the_end_of_what_it_has_seen(void **state)
{
    (void)state;
    weir_chain_use_at(chain, "/refused", WEIR_MIDDLEWARE(.name = "refuse", .on_request = refuse));
    serve_app();
    listen_with(NULL);
    assert_non_null(strstr(ask(GET("/refused")), " 429 "));
    assert_int_equal(seen.handler_calls, 0);
    assert_non_null(strstr(ask(GET("/served")), " 200 "));
    /* Its thread has ended when the daemon has, so both requests are completed. */
    MHD_stop_daemon(server);
    server = NULL;
    assert_int_equal(seen.completed_calls, 1);
}

/* Too small to be one of weir's requests, and not to be read. */
static void *note_uri(void *cls, const char *uri, struct MHD_Connection *connection)
{
    (void)cls, (void)uri, (void)connection;
    static char note;
    return &note;
}

static void *return_one(void *cls, const char *uri, struct MHD_Connection *connection)
{
    (void)cls, (void)uri, (void)connection;
    return (void *)(uintptr_t)1;
}

static void *allocate_byte(void *cls, const char *uri, struct MHD_Connection *connection)
{
    (void)cls, (void)uri, (void)connection;
    return calloc(1, 1);
}

static void hands_on_what_a_uri_log_callback_of_another_returned(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        void *(*uri_log)(void *cls, const char *uri, struct MHD_Connection *connection);
    } rows[] = {
        { "a constant", note_uri },
        { "no address at all", return_one },
        { "one byte of memory", allocate_byte },
    };
    serve_app();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        seen = (struct seen){ .frees_con_cls = rows[i].uri_log == allocate_byte };
        listen_with(rows[i].uri_log);
        assert_non_null(strstr(ask(GET("/served")), " 200 "));
        assert_non_null(strstr(ask("GET / HTTP/1.1\r\nno field\r\n\r\n"), " 400 "));
        MHD_stop_daemon(server);
        server = NULL;
        assert_non_null(seen.first_con_cls);
        assert_int_equal(seen.completed_calls, 2);
        assert_non_null(seen.completed_con_cls);
    }
}

static void calls_again_after_102(void **state)
{
    (void)state;
    serve_app();
    listen_with(NULL);
    const char *reply = ask(GET("/processing"));
    assert_memory_equal(reply, "HTTP/1.1 102 ", 13);
    assert_non_null(strstr(reply, "HTTP/1.1 200 "));
    assert_int_equal(seen.handler_calls, 3);
}

/* reply hooks and responses */

static atomic_uint hooked_status;
static atomic_bool has_added;

static void add_line(void *self, struct weir_request *request, struct weir_reply *reply)
{
    (void)self, (void)request;
    hooked_status = weir_reply_status(reply);
    has_added = weir_reply_add(reply, "X-Added", "yes");
}

static struct MHD_Response *kept;

/* What weir/redirect.h makes of the three ways to queue. */
static enum MHD_Result queue_in_some_way(void *cls, struct MHD_Connection *connection,
                                         const char *url, const char *method, const char *version,
                                         const char *data, size_t *size, void **con_cls)
{
    (void)cls, (void)method, (void)version, (void)data, (void)size, (void)con_cls;
    if (strcmp(url, "/kept") == 0)
        return weir_redirect_queue_response(connection, MHD_HTTP_CREATED, kept);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = MHD_NO;
    if (strcmp(url, "/own") == 0)
        queued = weir_redirect_queue_response(connection, MHD_HTTP_CREATED, response);
    else if (strcmp(url, "/named") == 0)
        queued = weir_queue_response(connection, MHD_HTTP_CREATED, response);
    else
        queued = MHD_queue_response(connection, MHD_HTTP_CREATED, response);
    weir_redirect_destroy_response(response);
    return queued;
}

static void adds_lines_where_a_response_is_made_for_the_request(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *request;
        bool added;
    } rows[] = {
        { "it is destroyed before the handler returns", GET("/own"), true },
        { "the handler says so", GET("/named"), true },
        { "it is kept for other requests", GET("/kept"), false },
        { "it is queued behind weir's back", GET("/direct"), false },
    };
    kept = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    weir_chain_use(chain, WEIR_MIDDLEWARE(.name = "add", .on_reply = add_line));
    weir_chain_serve(chain, WEIR_APP(.handler = queue_in_some_way));
    listen_with(NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        hooked_status = 0;
        has_added = !rows[i].added;
        const char *reply = ask(rows[i].request);
        assert_non_null(strstr(reply, " 201 "));
        assert_int_equal(strstr(reply, "X-Added: yes") != NULL, rows[i].added);
        assert_int_equal(has_added, rows[i].added);
        assert_int_equal(hooked_status, 201);
    }
    MHD_destroy_response(kept);
}

static sem_t is_entered, may_go_on;
static enum MHD_Result was_queued;

static enum MHD_Result queue_late(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **con_cls)
{
    (void)cls, (void)url, (void)method, (void)version, (void)data, (void)size, (void)con_cls;
    sem_post(&is_entered);
    sem_wait(&may_go_on);
    was_queued = queue_ok(connection, MHD_HTTP_CREATED);
    return was_queued;
}

static void *ask_and_forget(void *text)
{
    ask(text);
    return NULL;
}

static atomic_int stopping_thread;

static void *stop_server(void *daemon)
{
    atomic_store(&stopping_thread, gettid());
    MHD_stop_daemon(daemon);
    return NULL;
}

/* The state is behind the name, which is in brackets (proc(5)). */
static bool is_asleep(int thread)
{
    char name[64], text[256] = "";
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(name, "r");
    if (file == NULL)
        return false;
    const char *behind = fgets(text, sizeof text, file) == NULL ? NULL : strrchr(text, ')');
    fclose(file);
    return behind != NULL && strncmp(behind, ") S", 3) == 0;
}

/* libmicrohttpd does not tell that it has begun to stop; but then it waits for its own thread,
 * which is in the handler. */
static void await_stopping(void)
{
    while (atomic_load(&stopping_thread) == 0 || !is_asleep(atomic_load(&stopping_thread)))
        nanosleep(&(const struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void leaves_a_response_alone_that_a_stopping_daemon_has_dropped(void **state)
{
    (void)state;
    static char get[] = GET("/");
    weir_chain_use(chain, WEIR_MIDDLEWARE(.name = "add", .on_reply = add_line));
    weir_chain_serve(chain, WEIR_APP(.handler = queue_late));
    listen_with(NULL);
    sem_init(&is_entered, 0, 0);
    sem_init(&may_go_on, 0, 0);
    hooked_status = 0;
    has_added = true;

    pthread_t client, stopper;
    assert_int_equal(pthread_create(&client, NULL, ask_and_forget, get), 0);
    sem_wait(&is_entered);
    assert_int_equal(pthread_create(&stopper, NULL, stop_server, server), 0);
    await_stopping();
    sem_post(&may_go_on);
    pthread_join(stopper, NULL);
    pthread_join(client, NULL);
    server = NULL;
    /* libmicrohttpd 1.0 refuses the response, so that there is no reply to add to. */
    assert_int_equal(hooked_status, was_queued == MHD_YES ? 201 : 0);
    assert_int_equal(has_added, was_queued != MHD_YES);
}

/* a loop of one's own, round by round */

static struct weir_ticket tickets[2];
static size_t ticket_count;

static enum weir_step wait_once(void *self, struct weir_request *request)
{
    bool *has_waited = weir_request_slot(request, self);
    if (*has_waited) {
        weir_reply_text(request, 200, "Well.");
        return WEIR_DONE;
    }
    *has_waited = true;
    tickets[ticket_count++] = weir_park(request);
    return WEIR_WAIT;
}

/* One round, if there is anything to do; false: there is not. */
static bool run_round(int wake)
{
    fd_set reads, writes, excepts;
    FD_ZERO(&reads);
    FD_ZERO(&writes);
    FD_ZERO(&excepts);
    int highest = wake;
    MHD_get_fdset(server, &reads, &writes, &excepts, &highest);
    FD_SET(wake, &reads);
    MHD_UNSIGNED_LONG_LONG wait_ms = 1;
    bool is_due = MHD_get_timeout(server, &wait_ms) == MHD_YES && wait_ms == 0;
    struct timeval at_once = { .tv_sec = 0 };
    if (select(highest + 1, &reads, &writes, &excepts, &at_once) == 0 && !is_due)
        return false;
    weir_chain_wake_clear(chain);
    MHD_run_from_select(server, &reads, &writes, &excepts);
    return true;
}

static int connect_client(void)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(MHD_get_daemon_info(server, MHD_DAEMON_INFO_BIND_PORT)->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
    };
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof address), 0);
    return client;
}

static void run_all_rounds(int wake)
{
    while (run_round(wake))
        continue;
}

/* Connections are served in the order of their age, and a resumed one comes last: so one is suspended
 * in front of one that was resumed. */
static void answers_a_woken_request_in_a_round_in_which_another_is_held(void **state)
{
    (void)state;
    static const char get[] = GET("/");
    char byte;
    static int wait_self;
    weir_chain_use(chain, WEIR_MIDDLEWARE(.name = "wait", .self = &wait_self,
                                          .on_request = wait_once, .request_bytes = sizeof(bool)));
    int wake = weir_chain_wake_fd(chain);
    server = MHD_start_daemon(MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, weir_access_handler, chain,
                              MHD_OPTION_NOTIFY_COMPLETED, weir_request_completed, chain,
                              MHD_OPTION_END);
    assert_non_null(server);
    ticket_count = 0;
    int older = connect_client();
    run_all_rounds(wake);
    int woken = connect_client();
    assert_int_equal(send(woken, get, sizeof get - 1, MSG_NOSIGNAL), sizeof get - 1);
    run_all_rounds(wake);
    assert_int_equal(ticket_count, 1);

    assert_int_equal(send(older, get, sizeof get - 1, MSG_NOSIGNAL), sizeof get - 1);
    assert_true(weir_wake(tickets[0]));
    run_all_rounds(wake);
    assert_int_equal(ticket_count, 2);
    assert_int_equal(recv(woken, &byte, 1, MSG_DONTWAIT), 1);

    assert_true(weir_wake(tickets[1]));
    run_all_rounds(wake);
    assert_int_equal(recv(older, &byte, 1, MSG_DONTWAIT), 1);
    close(older);
    close(woken);
}

/* checking a daemon */

static void says_what_a_daemon_lacks(void **state)
{
    (void)state;
    const bool forgets_in_select = MHD_get_version()[0] != '0';
    const struct {
        const char *when;
        unsigned flags;
        bool has_wake;
        const char *complaint; /* NULL: none */
    } rows[] = {
        { "it cannot suspend", MHD_USE_INTERNAL_POLLING_THREAD, false, "MHD_ALLOW_SUSPEND_RESUME" },
        { "it can suspend", MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, false, NULL },
        { "it calls select()", MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME, false,
          forgets_in_select ? "add MHD_USE_EPOLL or MHD_USE_POLL" : NULL },
        { "each connection has a thread",
          MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, false, NULL },
        { "nothing wakes its loop", MHD_ALLOW_SUSPEND_RESUME, false, "weir_chain_wake_fd()" },
        { "its loop can be woken", MHD_ALLOW_SUSPEND_RESUME, true, NULL },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        if (rows[i].has_wake)
            assert_true(weir_chain_wake_fd(chain) >= 0);
        struct weir_error error = WEIR_NO_ERROR;
        server = MHD_start_daemon(rows[i].flags, 0, NULL, NULL, weir_access_handler, chain,
                                  MHD_OPTION_END);
        enum weir_code code = weir_chain_check(chain, server, &error);
        assert_int_equal(code, rows[i].complaint == NULL ? WEIR_OK : WEIR_E_DAEMON);
        if (rows[i].complaint != NULL)
            assert_non_null(strstr(error.text, rows[i].complaint));
        MHD_stop_daemon(server);
        server = NULL;
    }
    struct weir_error error = WEIR_NO_ERROR;
    assert_int_equal(weir_chain_check(chain, NULL, &error), WEIR_E_ARGUMENT);
    assert_non_null(strstr(error.text, "daemon"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(tells_an_application_the_end_of_what_it_has_seen),
        TEST(hands_on_what_a_uri_log_callback_of_another_returned),
        TEST(calls_again_after_102),
        TEST(adds_lines_where_a_response_is_made_for_the_request),
        TEST(leaves_a_response_alone_that_a_stopping_daemon_has_dropped),
        TEST(answers_a_woken_request_in_a_round_in_which_another_is_held),
        TEST(says_what_a_daemon_lacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
