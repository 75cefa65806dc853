/* Slots of requests that are served for real: in chain handlers and in a wrapped application, under
 * every loop that libmicrohttpd has, however they end. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <microhttpd.h>
#include <weir/weir.h>

#include "base/clock.h"
#include "client.h"
#include "limit/limiter_internal.h"

static const char policy_json[] =
    "{\"policies\": {\"back\": {\"concurrency\": {\"fixed\": 3, \"by\": \"ip\","
    "    \"adaptive\": {\"floor\": 3, \"initial\": 3, \"ceiling\": 3}}},"
    "  \"tight\": {\"concurrency\": {\"adaptive\": {\"floor\": 2, \"initial\": 2,"
    "    \"ceiling\": 2}}}},"
    " \"routes\": [{\"match\": \"* /tight/*\", \"policy\": \"tight\"},"
    "   {\"match\": \"* /*\", \"policy\": \"back\"}]}";

static const struct mode {
    const char *name;
    unsigned flags;
    unsigned workers;
} modes[] = {
    { "select", SELECT_LOOP | MHD_ALLOW_SUSPEND_RESUME, 0 },
    { "epoll", MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0 },
    { "a pool", MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 3 },
    { "threads", MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD, 0 },
};

#define HELD_MAX 64

static struct {
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    struct MHD_Daemon *daemon;
    uint16_t port;
    atomic_uint status; /* of what the handlers answer */

    pthread_mutex_t lock;
    struct weir_ticket tickets[HELD_MAX];
    struct MHD_Connection *suspended[HELD_MAX];
    unsigned ticket_count, suspended_count;

    atomic_bool is_open; /* what streams, ends */
    struct MHD_UpgradeResponseHandle *_Atomic upgraded;
    atomic_uint_fast64_t work_us;
} site = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* handlers of the chain */

static enum weir_step park(void *self, struct weir_request *request)
{
    (void)self;
    static const char parked[] = "parked";
    if (weir_request_get(request, "been") != NULL) {
        weir_reply_text(request, atomic_load(&site.status), "done");
        return WEIR_DONE;
    }
    weir_request_set(request, "been", (void *)(uintptr_t)parked, NULL);
    pthread_mutex_lock(&site.lock);
    site.tickets[site.ticket_count++] = weir_park(request);
    pthread_mutex_unlock(&site.lock);
    return WEIR_WAIT;
}

static enum weir_step wait_for_client(void *self, struct weir_request *request)
{
    (void)self;
    return !weir_request_is_gone(request) && weir_wait(request, UINT64_C(3600000000)) ? WEIR_WAIT
                                                                                      : WEIR_DONE;
}

static enum weir_step give_up(void *self, struct weir_request *request)
{
    (void)self;
    weir_request_fail(request, WEIR_E_STATE, "It does not work.");
    return WEIR_FAIL;
}

static enum weir_step forget_reply(void *self, struct weir_request *request)
{
    (void)self;
    (void)request;
    return WEIR_DONE;
}

static enum weir_step take_upload(void *self, struct weir_request *request)
{
    (void)self;
    const char *bytes;
    size_t length;
    if (!weir_request_body(request, 100000, &bytes, &length))
        return WEIR_WAIT;
    atomic_store(&site.work_us, request->work_us);
    weir_reply_text(request, 200, "done");
    return WEIR_DONE;
}

/* a wrapped application */

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned status)
{
    static char text[] = "done";
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof text - 1, text, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = weir_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static ssize_t stream(void *cls, uint64_t at, char *bytes, size_t size)
{
    (void)cls;
    if (at > 0 && atomic_load(&site.is_open))
        return MHD_CONTENT_READER_END_OF_STREAM;
    memset(bytes, 'x', size < 1000 ? size : 1000);
    return at < 1000 ? 1000 : 0;
}

static enum MHD_Result reply_stream(struct MHD_Connection *connection)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1000, stream, NULL, NULL);
    enum MHD_Result queued = weir_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return queued;
}

static void on_upgrade(void *cls, struct MHD_Connection *connection, void *con_cls,
                       const char *extra, size_t extra_size, MHD_socket fd,
                       struct MHD_UpgradeResponseHandle *handle)
{
    (void)cls, (void)connection, (void)con_cls, (void)extra, (void)extra_size, (void)fd;
    atomic_store(&site.upgraded, handle);
}

static enum MHD_Result upgrade(struct MHD_Connection *connection)
{
    struct MHD_Response *response = MHD_create_response_for_upgrade(on_upgrade, NULL);
    MHD_add_response_header(response, "Upgrade", "echo");
    enum MHD_Result queued =
        weir_queue_response(connection, MHD_HTTP_SWITCHING_PROTOCOLS, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result suspend(struct MHD_Connection *connection)
{
    MHD_suspend_connection(connection);
    pthread_mutex_lock(&site.lock);
    site.suspended[site.suspended_count++] = connection;
    pthread_mutex_unlock(&site.lock);
    return MHD_YES;
}

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **con_cls)
{
    (void)cls, (void)method, (void)version, (void)data;
    static int first, second;
    if (*con_cls == NULL || *size > 0) {
        *con_cls = &first;
        *size = 0;
        return MHD_YES;
    }
    if (strcmp(url, "/app/none") == 0)
        return MHD_NO;
    if (strcmp(url, "/app/stream") == 0)
        return reply_stream(connection);
    if (strcmp(url, "/app/upgrade") == 0)
        return upgrade(connection);
    if (strcmp(url, "/app/held") == 0 && *con_cls == &first) {
        *con_cls = &second;
        return suspend(connection);
    }
    return reply(connection, atomic_load(&site.status));
}

/* the server */

static void start(const struct mode *mode)
{
    struct weir_error error = WEIR_NO_ERROR;
    print_message("    %s\n", mode->name);
    site.ticket_count = site.suspended_count = 0;
    atomic_store(&site.status, 200);
    atomic_store(&site.is_open, false);
    atomic_store(&site.upgraded, NULL);
    if (weir_policy_parse(policy_json, strlen(policy_json), NULL, &site.policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = site.policy), &site.limiter, NULL),
        WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &site.chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(site.chain, weir_limit(site.limiter)), WEIR_OK);
    assert_int_equal(weir_chain_get(site.chain, "/parked", park, NULL), WEIR_OK);
    assert_int_equal(weir_chain_get(site.chain, "/tight/parked", park, NULL), WEIR_OK);
    assert_int_equal(weir_chain_get(site.chain, "/wait", wait_for_client, NULL), WEIR_OK);
    assert_int_equal(weir_chain_get(site.chain, "/fail", give_up, NULL), WEIR_OK);
    assert_int_equal(weir_chain_get(site.chain, "/forget", forget_reply, NULL), WEIR_OK);
    assert_int_equal(weir_chain_post(site.chain, "/upload", take_upload, NULL), WEIR_OK);
    assert_int_equal(weir_chain_serve(site.chain, WEIR_APP(.handler = answer)), WEIR_OK);
    site.daemon = MHD_start_daemon(mode->flags | MHD_ALLOW_UPGRADE, 0, NULL, NULL,
                                   weir_access_handler, site.chain, MHD_OPTION_NOTIFY_COMPLETED,
                                   weir_request_completed, site.chain,
                                   mode->workers > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
                                   mode->workers, MHD_OPTION_END);
    assert_non_null(site.daemon);
    site.port = MHD_get_daemon_info(site.daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

static uint32_t busy(const char *group)
{
    return weir_slots_numbers(weir_limiter_slots(site.limiter, group)).in_flight;
}

static uint64_t counted(void)
{
    return weir_key_counts_numbers(weir_limiter_key_counts(site.limiter)).in_flight;
}

static void stop(void)
{
    weir_stop_daemon(site.chain, site.daemon, 10000);
    assert_int_equal(busy("back"), 0);
    assert_int_equal(busy("tight"), 0);
    assert_int_equal(counted(), 0);
    weir_chain_free(site.chain);
    weir_limiter_free(site.limiter);
    weir_policy_free(site.policy);
}

static void look_again(void)
{
    const struct timespec moment = { .tv_nsec = 1000000 };
    nanosleep(&moment, NULL);
}

/* What was read is judged: a request that comes late may take and give back a slot afterwards. */
static void await_counts(uint32_t wanted, uint64_t wanted_counted)
{
    uint32_t is_busy = busy("back");
    uint64_t is_counted = counted();
    for (int i = 0; i < 30000 && (is_busy != wanted || is_counted != wanted_counted); i++) {
        look_again();
        is_busy = busy("back");
        is_counted = counted();
    }
    assert_int_equal(is_busy, wanted);
    assert_int_equal(is_counted, wanted_counted);
}

static bool has_held(unsigned tickets, unsigned suspended)
{
    pthread_mutex_lock(&site.lock);
    bool has = site.ticket_count == tickets && site.suspended_count == suspended;
    pthread_mutex_unlock(&site.lock);
    return has;
}

static void await_held(unsigned tickets, unsigned suspended)
{
    for (int i = 0; i < 30000 && !has_held(tickets, suspended); i++)
        look_again();
    assert_true(has_held(tickets, suspended));
}

static void let_go(void)
{
    pthread_mutex_lock(&site.lock);
    for (unsigned i = 0; i < site.ticket_count; i++)
        weir_wake(site.tickets[i]);
    for (unsigned i = 0; i < site.suspended_count; i++)
        MHD_resume_connection(site.suspended[i]);
    site.ticket_count = site.suspended_count = 0;
    pthread_mutex_unlock(&site.lock);
}

static int begin(const char *path)
{
    char text[256];
    int fd = client_connect(site.port);
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: t\r\n\r\n", path);
    client_send_text(fd, text);
    return fd;
}

static unsigned status_of(int fd)
{
    struct reply got;
    client_read(fd, false, &got);
    close(fd);
    return got.status;
}

static unsigned get(const char *path)
{
    return status_of(begin(path));
}

/* what is held, and by whom */

static void turns_away_who_comes_while_all_slots_are_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        start(&modes[i]);
        int first = begin("/tight/parked"), second = begin("/tight/parked");
        await_held(2, 0);
        struct reply got;
        client_get(site.port, "/tight/parked", "", &got);
        assert_int_equal(got.status, 503);
        assert_non_null(reply_header(&got, "Retry-After"));
        assert_int_equal(get("/parked/not"), 200); /* another group is not busy */
        let_go();
        assert_int_equal(status_of(first), 200);
        assert_int_equal(status_of(second), 200);
        int third = begin("/tight/parked");
        await_held(1, 0);
        let_go();
        assert_int_equal(status_of(third), 200);
        stop();
    }
}

static void counts_a_wrapped_application_that_suspends(void **state)
{
    (void)state;
    for (size_t i = 0; i + 1 < COUNT_OF(modes); i++) { /* threads cannot suspend */
        start(&modes[i]);
        int held[3];
        for (size_t j = 0; j < COUNT_OF(held); j++)
            held[j] = begin("/app/held");
        await_held(0, 3);
        assert_int_equal(busy("back"), 3);
        assert_int_equal(get("/app/held"), 429);
        let_go();
        for (size_t j = 0; j < COUNT_OF(held); j++)
            assert_int_equal(status_of(held[j]), 200);
        await_counts(0, 0);
        stop();
    }
}

/* A connection that stays open holds nothing between its requests. */
static void frees_the_slot_of_a_connection_that_stays_open(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        start(&modes[i]);
        int fd = client_connect(site.port);
        for (int times = 0; times < 20; times++) {
            struct reply got;
            client_send_text(fd, "GET /app/x HTTP/1.1\r\nHost: t\r\n\r\n");
            client_read(fd, false, &got);
            assert_int_equal(got.status, 200);
            await_counts(0, 0);
        }
        close(fd);
        stop();
    }
}

/* how requests end */

static void gives_slots_back_however_a_request_ends(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        unsigned status; /* that the application answers */
        unsigned wanted; /* 0: the connection ends       */
    } rows[] = {
        { "/app/x", 200, 200 }, { "/app/x", 500, 500 }, { "/app/x", 503, 503 },
        { "/app/none", 0, 0 },  { "/fail", 0, 500 },    { "/forget", 0, 500 },
    };
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        start(&modes[i]);
        for (size_t j = 0; j < 4 * COUNT_OF(rows); j++) { /* more than there are slots */
            atomic_store(&site.status, rows[j % COUNT_OF(rows)].status);
            assert_int_equal(get(rows[j % COUNT_OF(rows)].path), rows[j % COUNT_OF(rows)].wanted);
            await_counts(0, 0);
        }
        stop();
    }
}

static void gives_slots_back_of_clients_that_vanish(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        start(&modes[i]);
        for (int times = 0; times < 3; times++) {
            int held[3];
            for (size_t j = 0; j < COUNT_OF(held); j++)
                held[j] = begin("/parked");
            await_held(3, 0);
            for (size_t j = 0; j < COUNT_OF(held); j++)
                close(held[j]);
            let_go();
            await_counts(0, 0);
            for (size_t j = 0; j < COUNT_OF(held); j++)
                held[j] = begin("/wait");
            await_counts(3, 3);
            for (size_t j = 0; j < COUNT_OF(held); j++)
                close(held[j]);
            await_counts(0, 0);
        }
        stop();
    }
}

static void gives_slots_back_of_uploads_that_break_off(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        start(&modes[i]);
        for (int times = 0; times < 4; times++) {
            static const char *const paths[] = { "/upload", "/app/x" };
            char text[256];
            int fd = client_connect(site.port);
            snprintf(text, sizeof text,
                     "POST %s HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\nabc",
                     paths[times % 2]);
            client_send_text(fd, text);
            await_counts(1, 1);
            close(fd);
            await_counts(0, 0);
        }
        stop();
    }
}

static void gives_slots_back_when_the_server_stops(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        start(&modes[i]);
        int held[3];
        for (size_t j = 0; j < COUNT_OF(held); j++)
            held[j] = begin("/parked");
        await_held(3, 0);
        stop(); /* which looks at the counts */
        for (size_t j = 0; j < COUNT_OF(held); j++)
            assert_int_equal(status_of(held[j]), 503);
    }
}

/* The back end has done its part when the reply is made; the client's own count goes on. */
static void holds_only_the_count_of_a_client_that_still_reads(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        start(&modes[i]);
        int held[3];
        char first;
        for (size_t j = 0; j < COUNT_OF(held); j++)
            held[j] = begin("/app/stream");
        /* Before its reply begins a request may be counted, and have no slot yet. */
        for (size_t j = 0; j < COUNT_OF(held); j++)
            assert_int_equal(recv(held[j], &first, 1, MSG_PEEK), 1);
        await_counts(0, 3);
        assert_int_equal(get("/app/x"), 429);
        atomic_store(&site.is_open, true);
        for (size_t j = 0; j < COUNT_OF(held); j++)
            assert_int_equal(status_of(held[j]), 200);
        await_counts(0, 0);
        stop();
    }
}

/* With a thread for each connection libmicrohttpd (0.9.75) takes the request for complete when that
 * thread has handed the connection over. */
static void holds_the_count_of_an_upgraded_connection(void **state)
{
    (void)state;
    for (size_t i = 0; i + 1 < COUNT_OF(modes); i++) {
        char line[13];
        start(&modes[i]);
        int fd = client_connect(site.port);
        client_send_text(fd, "GET /app/upgrade HTTP/1.1\r\nHost: t\r\nConnection: "
                             "Upgrade\r\nUpgrade: echo\r\n\r\n");
        assert_int_equal(recv(fd, line, 12, MSG_WAITALL), 12);
        line[12] = '\0';
        assert_string_equal(line, "HTTP/1.1 101");
        await_counts(0, 1);
        while (atomic_load(&site.upgraded) == NULL)
            look_again();
        MHD_upgrade_action(atomic_load(&site.upgraded), MHD_UPGRADE_ACTION_CLOSE);
        close(fd);
        await_counts(0, 0);
        stop();
    }
}

/* How long a client takes to send is not the time of the back end. */
static void times_a_request_from_when_its_body_is_in(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        struct reply got;
        start(&modes[i]);
        int fd = client_connect(site.port);
        client_send_text(fd, "POST /upload HTTP/1.1\r\nHost: t\r\nContent-Length: 6\r\n\r\nabc");
        await_counts(1, 1);
        uint64_t before_us = weir_monotonic_us();
        client_send_text(fd, "def");
        client_read(fd, false, &got);
        assert_int_equal(got.status, 200);
        assert_true(atomic_load(&site.work_us) >= before_us);
        close(fd);
        stop();
    }
}

/* in a crowd */

static void *ask_often(void *self)
{
    (void)self;
    static const char *const paths[] = { "/app/x", "/app/none", "/fail", "/tight/app", "/wait" };
    for (unsigned i = 0; i < 60; i++) {
        const char *path = paths[i % COUNT_OF(paths)];
        int fd = begin(path);
        if (strcmp(path, "/wait") == 0)
            close(fd);
        else
            status_of(fd);
    }
    return NULL;
}

static void loses_no_slot_in_a_crowd(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        pthread_t clients[4];
        start(&modes[i]);
        for (size_t j = 0; j < COUNT_OF(clients); j++)
            assert_int_equal(pthread_create(&clients[j], NULL, ask_often, NULL), 0);
        for (size_t j = 0; j < COUNT_OF(clients); j++)
            pthread_join(clients[j], NULL);
        /* Some that were given up may still be on their way in. */
        for (int j = 0; j < 30000 && get("/app/x") != 200; j++)
            look_again();
        await_counts(0, 0);
        stop();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_away_who_comes_while_all_slots_are_taken),
        cmocka_unit_test(counts_a_wrapped_application_that_suspends),
        cmocka_unit_test(frees_the_slot_of_a_connection_that_stays_open),
        cmocka_unit_test(gives_slots_back_however_a_request_ends),
        cmocka_unit_test(gives_slots_back_of_clients_that_vanish),
        cmocka_unit_test(gives_slots_back_of_uploads_that_break_off),
        cmocka_unit_test(gives_slots_back_when_the_server_stops),
        cmocka_unit_test(holds_only_the_count_of_a_client_that_still_reads),
        cmocka_unit_test(holds_the_count_of_an_upgraded_connection),
        cmocka_unit_test(times_a_request_from_when_its_body_is_in),
        cmocka_unit_test(loses_no_slot_in_a_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
