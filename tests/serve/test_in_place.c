/* Requests that wait in place for a real Redis, in daemons of libmicrohttpd's and in weir_serve(). */
#include "test.h"

#include <weir/weir.h>

#include <poll.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "chain/chain_internal.h"
#include "client.h"
#include "redis_server.h"

#define PATIENCE_MS 60000

static struct redis_server server;

/* the application: says how it was called */

static char large[4 << 20];

struct visit {
    size_t body_bytes;
};

/* What a lane does whose server has just gone. */
static const char *write_to_nobody(void)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[1]);
    ssize_t written = write(ends[0], "x", 1);
    bool is_broken = written < 0 && errno == EPIPE;
    close(ends[0]);
    return is_broken ? "/free/broken is told" : "/free/broken is not told";
}

static enum MHD_Result say(struct MHD_Connection *connection, const char *text, size_t length)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result queued = weir_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload_data,
                              size_t *upload_data_size, void **con_cls)
{
    (void)cls, (void)method, (void)version, (void)upload_data;
    if (*con_cls == NULL) {
        *con_cls = calloc(1, sizeof(struct visit));
        return *con_cls == NULL ? MHD_NO : MHD_YES;
    }
    struct visit *visit = *con_cls;
    if (*upload_data_size > 0) {
        visit->body_bytes += *upload_data_size;
        *upload_data_size = 0;
        return MHD_YES;
    }
    if (strcmp(url, "/free/large") == 0)
        return say(connection, large, sizeof large);
    if (strcmp(url, "/free/broken") == 0)
        return say(connection, write_to_nobody(), strlen(write_to_nobody()));
    char text[64];
    snprintf(text, sizeof text, "%s %zu", url, visit->body_bytes);
    return say(connection, text, strlen(text));
}

static void forget(void *cls, struct MHD_Connection *connection, void **con_cls,
                   enum MHD_RequestTerminationCode toe)
{
    (void)cls, (void)connection, (void)toe;
    free(*con_cls);
    *con_cls = NULL;
}

/* a site */

struct site {
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    struct MHD_Daemon *daemon;
    struct weir_server *served;
    uint16_t port;
};

struct way {
    const char *name;
    unsigned flags; /* 0: weir_serve() */
    unsigned pool;
    bool stays;
    const char *advice; /* of weir_chain_check() to who wants it in place all the same */
};

static const struct way ways[] = {
    { "internal epoll", MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, true, "" },
    { "a pool", MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 2, true, "" },
    { "a pool that cannot suspend", MHD_USE_EPOLL_INTERNAL_THREAD, 2, true,
      "MHD_ALLOW_SUSPEND_RESUME" },
    { "weir_serve()", 0, 2, true, NULL },
    { "internal poll", MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, false,
      "does not use epoll: start it with MHD_USE_EPOLL_INTERNAL_THREAD" },
    { "internal select", SELECT_LOOP | MHD_ALLOW_SUSPEND_RESUME, 0, false,
      "does not use epoll: start it with MHD_USE_EPOLL_INTERNAL_THREAD" },
    { "a thread for each connection",
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0, false,
      "without MHD_USE_THREAD_PER_CONNECTION" },
};

#define EPOLL (&ways[0])
#define SERVE (&ways[3])

/* With one thread each, whose lane is ready when some request has stayed: of several, another one's may
 * not be. */
static const struct way single[] = {
    { "internal epoll", MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, true, "" },
    { .name = "weir_serve()", .pool = 1 },
};

static void make_chain(struct site *site, unsigned timeout_ms, enum weir_wait_mode waiting)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"store\":{\"url\":\"%s\",\"timeout\":\"%ums\"},\"policies\":{"
             "\"p\":{\"limits\":[{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"1000000/second\"}],"
             "\"on_store_failure\":\"open\"},"
             "\"q\":{\"limits\":[{\"name\":\"b\",\"by\":\"ip\",\"rate\":\"5/second\",\"burst\":5,"
             "\"algorithm\":\"leaky-bucket\",\"max_wait\":\"3s\"}]}},"
             "\"routes\":[{\"match\":\"* /free/*\"},{\"match\":\"* /queue\",\"policy\":\"q\"},"
             "{\"match\":\"* /*\",\"policy\":\"p\"}]}",
             server.url, timeout_ms);
    struct weir_error error = WEIR_NO_ERROR;
    weir_policy_parse(text, strlen(text), NULL, &site->policy, &error);
    assert_string_equal(error.text, "");
    weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = site->policy), &site->limiter, &error);
    assert_string_equal(error.text, "");
    weir_chain_new(WEIR_CHAIN_OPTIONS(.waiting = waiting), &site->chain, &error);
    weir_chain_use(site->chain, weir_limit(site->limiter));
    weir_chain_serve(site->chain, WEIR_APP(.handler = answer, .completed = forget));
    assert_string_equal(error.text, "");
}

static void start_daemon(struct site *site, const struct way *way)
{
    struct MHD_OptionItem options[] = {
        { MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)weir_request_completed, site->chain },
        { MHD_OPTION_CONNECTION_LIMIT, 4000, NULL },
        { way->pool > 0 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, (intptr_t)way->pool, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    site->daemon = MHD_start_daemon(way->flags, 0, NULL, NULL, weir_access_handler, site->chain,
                                    MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    assert_non_null(site->daemon);
    site->port = MHD_get_daemon_info(site->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

static void start(struct site *site, const struct way *way, unsigned timeout_ms,
                  enum weir_wait_mode waiting)
{
    memset(site, 0, sizeof *site);
    redis_server_thaw(&server); /* which a test that has failed may have left frozen */
    make_chain(site, timeout_ms, waiting);
    if (way->flags != 0) {
        start_daemon(site, way);
        return;
    }
    struct weir_error error = WEIR_NO_ERROR;
    weir_serve(site->chain, WEIR_SERVE_OPTIONS(.threads = way->pool), &site->served, &error);
    assert_string_equal(error.text, "");
    site->port = weir_server_port(site->served);
}

static bool stop(struct site *site)
{
    bool answered = site->daemon == NULL ? weir_server_stop(site->served, PATIENCE_MS)
                                         : weir_stop_daemon(site->chain, site->daemon, PATIENCE_MS);
    assert_int_equal(weir_chain_parked(site->chain), 0);
    weir_chain_free(site->chain);
    weir_limiter_free(site->limiter);
    weir_policy_free(site->policy);
    return answered;
}

static struct weir_in_place_numbers numbers_of(const struct site *site)
{
    struct weir_in_place_numbers numbers;
    weir_in_place_read_numbers(site->chain, &numbers);
    return numbers;
}

static void get(const struct site *site, const char *path)
{
    struct reply reply;
    client_get(site->port, path, "", &reply);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, path));
}

/* Requests that come while a lane connects go to the store's thread: more of them until on each worker
 * one has stayed, or until that should have been so. */
static bool has_stayed_within(const struct site *site, uint64_t asked, uint64_t wait_us)
{
    uint64_t until_us = weir_monotonic_us() + wait_us;
    while (numbers_of(site).asked < asked && weir_monotonic_us() < until_us)
        get(site, "/warm");
    return numbers_of(site).asked >= asked;
}

static bool has_stayed(const struct site *site, uint64_t asked)
{
    return has_stayed_within(site, asked, PATIENCE_MS * UINT64_C(1000));
}

static void wait_for(bool (*holds)(const struct site *site, size_t count), const struct site *site,
                     size_t count)
{
    uint64_t until_us = weir_monotonic_us() + PATIENCE_MS * UINT64_C(1000);
    bool does_hold;
    while (!(does_hold = holds(site, count)) && weir_monotonic_us() < until_us)
        poll(NULL, 0, 1);
    assert_true(does_hold);
}

static bool stay_or_wait(const struct site *site, size_t count)
{
    return weir_chain_parked(site->chain) == count;
}

static void ask(int fd, const char *path)
{
    char text[128];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: t\r\n\r\n", path);
    client_send_text(fd, text);
}

static int ask_anew(const struct site *site, const char *path)
{
    int fd = client_connect(site->port);
    ask(fd, path);
    return fd;
}

static void expect(int fd, unsigned status)
{
    struct reply reply;
    client_read(fd, false, &reply);
    assert_int_equal(reply.status, status);
}

/* where requests stay */

static void stays_where_libmicrohttpd_repeats_its_calls(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        print_message("    %s\n", ways[i].name);
        struct site site;
        start(&site, &ways[i], 5000, WEIR_WAIT_AUTO);
        if (ways[i].stays)
            assert_true(has_stayed(&site, 20));
        else
            assert_false(has_stayed_within(&site, 1, 1000000));
        assert_true(stop(&site));
    }
}

static void goes_to_the_threads_of_the_store_where_that_is_wanted(void **state)
{
    (void)state;
    struct site site;
    start(&site, EPOLL, 5000, WEIR_WAIT_STORE_THREAD);
    for (int i = 0; i < 50; i++)
        get(&site, "/thread");
    assert_int_equal(numbers_of(&site).asked, 0);
    assert_true(stop(&site));
}

static void says_why_requests_cannot_stay(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        if (ways[i].advice == NULL)
            continue;
        struct site site;
        struct weir_error error = WEIR_NO_ERROR;
        start(&site, &ways[i], 5000, WEIR_WAIT_IN_PLACE);
        enum weir_code code = weir_chain_check(site.chain, site.daemon, &error);
        assert_int_equal(code, ways[i].advice[0] == '\0' ? WEIR_OK : WEIR_E_DAEMON);
        assert_non_null(strstr(error.text, ways[i].advice));
        assert_true(stop(&site));
    }
}

static void refuses_a_way_to_wait_that_there_is_not(void **state)
{
    (void)state;
    struct weir_chain *chain = NULL;
    assert_int_equal(
        weir_chain_new(WEIR_CHAIN_OPTIONS(.waiting = (enum weir_wait_mode)3), &chain, NULL),
        WEIR_E_ARGUMENT);
}

/* what a request meets */

static void calls_an_application_as_libmicrohttpd_does(void **state)
{
    (void)state;
    struct site site;
    start(&site, EPOLL, 5000, WEIR_WAIT_IN_PLACE);
    assert_true(has_stayed(&site, 1));
    int fd = client_connect(site.port);
    for (int i = 0; i < 50; i++) {
        ask(fd, "/app");
        struct reply reply;
        client_read(fd, false, &reply);
        assert_string_equal(reply.body, "/app 0");
        assert_null(reply_header(&reply, "Connection"));
    }
    close(fd);
    assert_true(stop(&site));
}

/* A handler that would return from its first call would have asked for the body. */
static void decides_before_a_body_is_asked_for(void **state)
{
    (void)state;
    struct site site;
    start(&site, EPOLL, 5000, WEIR_WAIT_IN_PLACE);
    assert_true(has_stayed(&site, 1));
    uint64_t asked = numbers_of(&site).asked;
    int fd = client_connect(site.port);
    for (int i = 0; i < 20; i++) {
        client_send_text(fd, "POST /app HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nabcde");
        struct reply reply;
        client_read(fd, false, &reply);
        assert_string_equal(reply.body, "/app 5");
    }
    close(fd);
    assert_int_equal(numbers_of(&site).asked, asked);
    assert_true(stop(&site));
}

static void answers_pipelined_requests_in_order(void **state)
{
    (void)state;
    struct site site;
    start(&site, EPOLL, 5000, WEIR_WAIT_IN_PLACE);
    assert_true(has_stayed(&site, 1));
    uint64_t asked = numbers_of(&site).asked;
    int fd = client_connect(site.port);
    for (int i = 0; i < 50; i++) {
        char path[32];
        snprintf(path, sizeof path, i % 3 == 0 ? "/free/%d" : "/app/%d", i);
        ask(fd, path);
    }
    for (int i = 0; i < 50; i++) {
        struct reply reply;
        client_read(fd, false, &reply);
        assert_int_equal(strtol(strrchr(reply.body, '/') + 1, NULL, 10), i);
    }
    close(fd);
    assert_int_equal(numbers_of(&site).asked, asked + 33);
    assert_true(stop(&site));
}

static void still_suspends_who_waits_for_a_turn(void **state)
{
    (void)state;
    for (const struct way *way = single; way < single + COUNT_OF(single); way++) {
        struct site site;
        start(&site, way, 5000, WEIR_WAIT_IN_PLACE);
        assert_true(has_stayed(&site, 4));
        redis_server_do(&server, "FLUSHALL");
        uint64_t start_us = weir_monotonic_us();
        int fds[3];
        for (size_t i = 0; i < 3; i++)
            fds[i] = ask_anew(&site, "/queue");
        for (size_t i = 0; i < 3; i++) {
            expect(fds[i], 200);
            close(fds[i]);
        }
        assert_true(weir_monotonic_us() - start_us >= 400000);
        assert_true(stop(&site));
    }
}

/* while Redis is silent */

static void upload(int fd)
{
    char head[128];
    snprintf(head, sizeof head, "POST /free/up HTTP/1.1\r\nHost: t\r\nContent-Length: %zu\r\n\r\n",
             sizeof large);
    client_send_text(fd, head);
    client_send(fd, large, sizeof large);
    expect(fd, 200);
}

static void download(int fd)
{
    ask(fd, "/free/large");
    size_t got = 0;
    char piece[65536];
    while (got < sizeof large) {
        ssize_t came = recv(fd, piece, sizeof piece, 0);
        assert_true(came > 0);
        got += (size_t)came;
    }
}

static void serves_others_while_one_waits(void **state)
{
    (void)state;
    for (const struct way *way = single; way < single + COUNT_OF(single); way++) {
        struct site site;
        start(&site, way, 30000, WEIR_WAIT_IN_PLACE);
        assert_true(has_stayed(&site, 10));
        int kept = client_connect(site.port);
        ask(kept, "/free/kept");
        expect(kept, 200);
        redis_server_freeze(&server);
        int waits = ask_anew(&site, "/app");
        wait_for(stay_or_wait, &site, 1);
        uint64_t start_us = weir_monotonic_us();
        for (int i = 0; i < 50; i++) {
            ask(kept, "/free/kept");
            expect(kept, 200);
            get(&site, "/free/new");
        }
        upload(kept);
        download(kept);
        assert_true(weir_monotonic_us() - start_us < 25000000);
        assert_int_equal(weir_chain_parked(site.chain), 1);
        redis_server_thaw(&server);
        expect(waits, 200);
        close(waits);
        close(kept);
        assert_true(stop(&site));
    }
}

/* Half of a connection's memory is read in a round, and nothing tells that there is more. With waits of
 * a quarter of a second, as in a loop that takes the silence for rest, this takes ten seconds. */
static void reads_long_heads_while_one_waits(void **state)
{
    (void)state;
    char head[20000] = "GET /free/long HTTP/1.1\r\nHost: t\r\n";
    while (strlen(head) < sizeof head - 1000)
        sprintf(head + strlen(head), "X-Long: %0900d\r\n", 0);
    strcat(head, "\r\n");
    for (size_t i = 0; i < COUNT_OF(single); i++) {
        struct site site;
        start(&site, &single[i], 60000, WEIR_WAIT_IN_PLACE);
        assert_true(has_stayed(&site, 10));
        int kept = client_connect(site.port);
        redis_server_freeze(&server);
        int waits = ask_anew(&site, "/app");
        wait_for(stay_or_wait, &site, 1);
        assert_int_equal(numbers_of(&site).staying, 1);
        uint64_t start_us = weir_monotonic_us();
        for (int j = 0; j < 40; j++) {
            client_send_text(kept, head);
            expect(kept, 200);
        }
        assert_true(weir_monotonic_us() - start_us < 8000000);
        assert_int_equal(numbers_of(&site).staying, 1);
        redis_server_thaw(&server);
        expect(waits, 200);
        close(waits);
        close(kept);
        assert_true(stop(&site));
    }
}

/* In a third of a second there were no more turns than that. */
static bool is_at_rest(const struct site *site, size_t turns)
{
    uint64_t before = numbers_of(site).turns;
    poll(NULL, 0, 300);
    return numbers_of(site).turns - before <= turns;
}

static void keeps_deadlines_without_spinning(void **state)
{
    (void)state;
    for (const struct way *way = single; way < single + COUNT_OF(single); way++) {
        struct site site;
        start(&site, way, 400, WEIR_WAIT_IN_PLACE);
        assert_true(has_stayed(&site, 10));
        redis_server_freeze(&server);
        uint64_t turns = numbers_of(&site).turns, start_us = weir_monotonic_us();
        int fds[20];
        for (size_t i = 0; i < COUNT_OF(fds); i++)
            fds[i] = ask_anew(&site, "/app");
        for (size_t i = 0; i < COUNT_OF(fds); i++) {
            expect(fds[i], 200);
            close(fds[i]);
        }
        uint64_t took_us = weir_monotonic_us() - start_us;
        assert_in_range(took_us, 390000, 20000000);

        /* A turn each millisecond and a few around each piece of news, on two workers at most. */
        assert_in_range(numbers_of(&site).turns - turns, 1, 1000 + 3 * took_us / 1000);
        wait_for(is_at_rest, &site, 20);
        redis_server_thaw(&server);
        assert_true(stop(&site));
    }
}

#define CROWD 1500

static void allow_many_descriptors(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 8192 ? limit.rlim_max : 8192;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void survives_a_crowd_that_goes(void **state)
{
    (void)state;
    allow_many_descriptors();
    for (const struct way *way = single; way < single + COUNT_OF(single); way++) {
        struct site site;
        static int fds[CROWD];
        start(&site, way, 30000, WEIR_WAIT_IN_PLACE);
        assert_true(has_stayed(&site, 10));
        redis_server_freeze(&server);
        for (size_t i = 0; i < CROWD; i++) {
            fds[i] = ask_anew(&site, "/app");
            wait_for(stay_or_wait, &site, i + 1);
        }
        assert_in_range(numbers_of(&site).staying, WEIR_WORKER_STAYING_MAX,
                        2 * WEIR_WORKER_STAYING_MAX);
        for (size_t i = 0; i < CROWD; i++) {
            if (i % 3 == 0)
                continue;
            const struct linger reset = { .l_onoff = 1, .l_linger = 0 };
            setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            close(fds[i]);
        }
        redis_server_thaw(&server);
        for (size_t i = 0; i < CROWD; i += 3) {
            expect(fds[i], 200);
            close(fds[i]);
        }
        get(&site, "/after");
        assert_true(stop(&site));
    }
}

static void answers_who_stays_when_it_stops(void **state)
{
    (void)state;
    for (const struct way *way = single; way < single + COUNT_OF(single); way++) {
        struct site site;
        start(&site, way, 30000, WEIR_WAIT_IN_PLACE);
        assert_true(has_stayed(&site, 10));
        redis_server_freeze(&server);
        int fds[5];
        for (size_t i = 0; i < COUNT_OF(fds); i++)
            fds[i] = ask_anew(&site, "/app");
        wait_for(stay_or_wait, &site, COUNT_OF(fds));
        assert_int_equal(numbers_of(&site).staying, COUNT_OF(fds));
        assert_true(stop(&site));
        for (size_t i = 0; i < COUNT_OF(fds); i++) {
            expect(fds[i], 503);
            close(fds[i]);
        }
        redis_server_thaw(&server);
    }
}

/* No drain: what is under way is cut off, and nothing is left behind. */
static void ends_who_stays_with_the_daemon(void **state)
{
    (void)state;
    struct site site;
    start(&site, EPOLL, 30000, WEIR_WAIT_IN_PLACE);
    assert_true(has_stayed(&site, 1));
    redis_server_freeze(&server);
    int fd = ask_anew(&site, "/app");
    wait_for(stay_or_wait, &site, 1);
    MHD_stop_daemon(site.daemon);
    assert_true(client_sees_end(fd));
    close(fd);
    redis_server_thaw(&server);
    assert_int_equal(weir_chain_parked(site.chain), 0);
    weir_chain_free(site.chain);
    weir_limiter_free(site.limiter);
    weir_policy_free(site.policy);
}

static bool does_store_answer(const struct site *site, size_t unused)
{
    (void)unused;
    struct weir_store_state state;
    weir_limiter_state(site->limiter, &state);
    return state.answering;
}

/* Redis goes and comes back while nobody asks. */
static void finds_redis_again_after_a_rest(void **state)
{
    (void)state;
    struct site site;
    start(&site, EPOLL, 5000, WEIR_WAIT_IN_PLACE);
    assert_true(has_stayed(&site, 10));
    redis_server_kill(&server);
    get(&site, "/gone");
    redis_server_start(&server);
    wait_for(does_store_answer, &site, 0);
    uint64_t asked = numbers_of(&site).asked;
    for (int i = 0; i < PATIENCE_MS / 10 && numbers_of(&site).asked == asked; i++) {
        get(&site, "/again");
        poll(NULL, 0, 10);
    }
    assert_true(numbers_of(&site).asked > asked);
    assert_true(stop(&site));
}

/* hiredis writes as in write_to_nobody(). */
static void outlives_a_redis_that_goes_while_it_is_written_to(void **state)
{
    (void)state;
    void (*before)(int) = signal(SIGPIPE, SIG_DFL);
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        if (!ways[i].stays)
            continue;
        struct site site;
        struct reply reply;
        start(&site, &ways[i], 5000, WEIR_WAIT_AUTO);
        client_get(site.port, "/free/broken", "", &reply);
        assert_string_equal(reply.body, "/free/broken is told");
        assert_true(stop(&site));
    }
    signal(SIGPIPE, before);
}

/* weir_serve() */

static bool has_connections(const struct site *site, size_t count)
{
    (void)site;
    redisReply *list = redis_server_ask(&server, "CLIENT LIST TYPE normal");
    size_t found = 0;
    for (const char *at = list->str; (at = strchr(at, '\n')) != NULL; at++)
        found++;
    freeReplyObject(list);
    return found == count;
}

static size_t connections(void)
{
    size_t count = 0;
    while (!has_connections(NULL, count))
        count++;
    return count;
}

/* The limiter of a chain that lives on keeps the connection of the store's own thread. */
static void keeps_no_connection_of_a_server_that_was_stopped(void **state)
{
    (void)state;
    struct site site;
    start(&site, SERVE, 5000, WEIR_WAIT_IN_PLACE);
    size_t before = connections();
    assert_true(has_stayed(&site, 10));
    assert_true(connections() > before);
    assert_true(weir_server_stop(site.served, PATIENCE_MS));
    site.served = NULL;
    wait_for(has_connections, &site, before);
    assert_true(stop(&site));
}

/* Each thread takes one connection at a time. */
static void takes_connections_again_after_it_was_full(void **state)
{
    (void)state;
    struct site site = { .port = 0 };
    make_chain(&site, 5000, WEIR_WAIT_AUTO);
    assert_int_equal(weir_serve(site.chain, WEIR_SERVE_OPTIONS(.threads = 2, .connections_max = 1),
                                &site.served, NULL),
                     WEIR_OK);
    site.port = weir_server_port(site.served);
    for (int i = 0; i < 6; i++)
        get(&site, "/free/full");
    assert_true(stop(&site));
}

static void serves_no_chain_that_was_drained(void **state)
{
    (void)state;
    struct site site;
    struct weir_error error = WEIR_NO_ERROR;
    start(&site, SERVE, 5000, WEIR_WAIT_AUTO);
    assert_true(weir_server_stop(site.served, PATIENCE_MS));
    site.served = NULL;
    assert_int_equal(weir_serve(site.chain, NULL, &site.served, &error), WEIR_E_STATE);
    assert_non_null(strstr(error.text, "make a new chain"));
    assert_null(site.served);
    assert_true(stop(&site));
}

static void expect_no_server(const struct weir_serve_options *options, enum weir_code code,
                             const char *text)
{
    struct site site = { .port = 0 };
    struct weir_error error = WEIR_NO_ERROR;
    make_chain(&site, 5000, WEIR_WAIT_AUTO);
    assert_int_equal(weir_serve(site.chain, options, &site.served, &error), code);
    assert_non_null(strstr(error.text, text));
    assert_null(site.served);
    weir_chain_free(site.chain);
    weir_limiter_free(site.limiter);
    weir_policy_free(site.policy);
}

static void says_why_it_cannot_serve(void **state)
{
    (void)state;
    struct site site;
    start(&site, SERVE, 5000, WEIR_WAIT_AUTO);
    char in_use[64];
    snprintf(in_use, sizeof in_use, "Cannot listen on 127.0.0.1:%u: Address already in use; ",
             site.port);
    expect_no_server(WEIR_SERVE_OPTIONS(.port = site.port), WEIR_E_SYSTEM, in_use);
    expect_no_server(WEIR_SERVE_OPTIONS(.address = "192.0.2.1"), WEIR_E_SYSTEM,
                     "no network interface of this machine has that address");
    expect_no_server(WEIR_SERVE_OPTIONS(.address = "not an address"), WEIR_E_VALUE,
                     "The address to listen on is \"not an address\"");
    expect_no_server(WEIR_SERVE_OPTIONS(.threads = 257), WEIR_E_ARGUMENT,
                     "threads is 257; it must be 1 to 256, or 0 for the default.");
    expect_no_server(WEIR_SERVE_OPTIONS(.connections_max = UINT32_MAX), WEIR_E_ARGUMENT,
                     "connections_max is 4294967295; it must be 1 to 10000000");
    expect_no_server(WEIR_SERVE_OPTIONS(.memory_bytes = 300), WEIR_E_ARGUMENT,
                     "memory_bytes is 300; it must be 1024 to 67108864");
    expect_no_server(WEIR_SERVE_OPTIONS(.memory_bytes = 1 << 30), WEIR_E_ARGUMENT,
                     "memory_bytes is 1073741824;");
    const int none = 1 << 20, deaf = socket(AF_INET, SOCK_STREAM, 0);
    expect_no_server(WEIR_SERVE_OPTIONS(.listening_socket = &none), WEIR_E_ARGUMENT,
                     "listening_socket is 1048576, which is no socket that listens");
    expect_no_server(WEIR_SERVE_OPTIONS(.listening_socket = &deaf), WEIR_E_ARGUMENT,
                     "which is no socket that listens: call listen() first.");
    close(deaf);
    assert_true(stop(&site));
    assert_int_equal(weir_serve(NULL, NULL, NULL, NULL), WEIR_E_ARGUMENT);
    assert_true(weir_server_stop(NULL, 0));
}

static void serves_on_a_socket_that_it_is_given(void **state)
{
    (void)state;
    struct site site;
    start(&site, SERVE, 5000, WEIR_WAIT_AUTO);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(listen(listener, 5), 0); /* on a port that the system chooses */
    struct weir_server *second = NULL;
    assert_int_equal(
        weir_serve(site.chain, WEIR_SERVE_OPTIONS(.listening_socket = &listener), &second, NULL),
        WEIR_OK);
    close(listener);
    assert_int_not_equal(weir_server_port(second), 0);
    assert_int_not_equal(weir_server_port(second), site.port);
    get(&site, "/one");
    const struct site other = { .port = weir_server_port(second) };
    get(&other, "/other");
    /* The chain drains, and the other server turns away who comes. */
    assert_true(weir_server_stop(second, PATIENCE_MS));
    struct reply reply;
    client_get(site.port, "/late", "", &reply);
    assert_int_equal(reply.status, 503);
    assert_true(stop(&site));
}

static int start_redis(void **state)
{
    (void)state;
    redis_server_prepare(&server);
    redis_server_start(&server);
    return 0;
}

static int remove_redis(void **state)
{
    (void)state;
    redis_server_remove(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stays_where_libmicrohttpd_repeats_its_calls),
        cmocka_unit_test(goes_to_the_threads_of_the_store_where_that_is_wanted),
        cmocka_unit_test(says_why_requests_cannot_stay),
        cmocka_unit_test(refuses_a_way_to_wait_that_there_is_not),
        cmocka_unit_test(calls_an_application_as_libmicrohttpd_does),
        cmocka_unit_test(decides_before_a_body_is_asked_for),
        cmocka_unit_test(answers_pipelined_requests_in_order),
        cmocka_unit_test(still_suspends_who_waits_for_a_turn),
        cmocka_unit_test(serves_others_while_one_waits),
        cmocka_unit_test(reads_long_heads_while_one_waits),
        cmocka_unit_test(keeps_deadlines_without_spinning),
        cmocka_unit_test(survives_a_crowd_that_goes),
        cmocka_unit_test(answers_who_stays_when_it_stops),
        cmocka_unit_test(ends_who_stays_with_the_daemon),
        cmocka_unit_test(finds_redis_again_after_a_rest),
        cmocka_unit_test(outlives_a_redis_that_goes_while_it_is_written_to),
        cmocka_unit_test(keeps_no_connection_of_a_server_that_was_stopped),
        cmocka_unit_test(takes_connections_again_after_it_was_full),
        cmocka_unit_test(serves_no_chain_that_was_drained),
        cmocka_unit_test(says_why_it_cannot_serve),
        cmocka_unit_test(serves_on_a_socket_that_it_is_given),
    };
    return cmocka_run_group_tests(tests, start_redis, remove_redis);
}
