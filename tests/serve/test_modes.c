/* Requests that wait, over real libmicrohttpd daemons in every mode. */
#include "test.h"

#include <weir/weir.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "chain/chain_internal.h"
#include "client.h"
#include "store/store.h"

/* a thread that wakes whatever is handed to it, as a store does */

#define HANDED_MAX 4096

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct weir_ticket tickets[HANDED_MAX];
    size_t count;
    bool holds_back; /* keeps tickets until let go */
    bool stops;
} waker = { .lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER };

static void *wake_all(void *self)
{
    (void)self;
    pthread_mutex_lock(&waker.lock);
    while (!waker.stops) {
        if (waker.count == 0 || waker.holds_back) {
            pthread_cond_wait(&waker.change, &waker.lock);
            continue;
        }
        struct weir_ticket ticket = waker.tickets[--waker.count];
        pthread_mutex_unlock(&waker.lock);
        weir_wake(ticket);
        pthread_mutex_lock(&waker.lock);
    }
    pthread_mutex_unlock(&waker.lock);
    return NULL;
}

static void hand_over(struct weir_ticket ticket)
{
    pthread_mutex_lock(&waker.lock);
    assert_true(waker.count < HANDED_MAX);
    waker.tickets[waker.count++] = ticket;
    pthread_cond_signal(&waker.change);
    pthread_mutex_unlock(&waker.lock);
}

static void hold_back(bool holds)
{
    pthread_mutex_lock(&waker.lock);
    waker.holds_back = holds;
    pthread_cond_signal(&waker.change);
    pthread_mutex_unlock(&waker.lock);
}

/* Tickets of a chain that goes are of no use. */
static void forget_tickets(void)
{
    pthread_mutex_lock(&waker.lock);
    waker.count = 0;
    waker.holds_back = false;
    pthread_mutex_unlock(&waker.lock);
}

/* a store whose lanes answer all that they have whenever they are driven, unless they are held back */

struct weir_lane {
    struct weir_check *checks[WEIR_WORKER_STAYING_MAX];
    size_t count;
    uint64_t drives;
};

static atomic_uint open_lanes;

static struct weir_lane *open_lane(void *self)
{
    (void)self;
    struct weir_lane *lane = calloc(1, sizeof *lane);
    assert_non_null(lane);
    atomic_fetch_add(&open_lanes, 1);
    return lane;
}

static void close_lane(struct weir_lane *lane)
{
    assert_int_equal(lane->count, 0);
    atomic_fetch_sub(&open_lanes, 1);
    free(lane);
}

static bool is_lane_over(const struct weir_lane *lane)
{
    (void)lane;
    return false;
}

static bool look_at_lane(struct weir_lane *lane)
{
    (void)lane;
    return true;
}

static bool is_lane_ready(const struct weir_lane *lane)
{
    (void)lane;
    return true;
}

static void submit_to_lane(struct weir_lane *lane, struct weir_check *check)
{
    lane->checks[lane->count++] = check;
}

static void end_check(struct weir_lane *lane, size_t index, enum weir_store_result result)
{
    struct weir_check *check = lane->checks[index];
    memmove(&lane->checks[index], &lane->checks[index + 1],
            (--lane->count - index) * sizeof(struct weir_check *));
    check->result = result;
    check->done(check);
}

static void cancel_in_lane(struct weir_lane *lane, struct weir_check *check)
{
    for (size_t i = 0; i < lane->count; i++)
        if (lane->checks[i] == check) {
            end_check(lane, i, WEIR_STORE_CANCELLED);
            return;
        }
}

static bool drive_lane(struct weir_lane *lane, int fd, uint64_t wait_us)
{
    lane->drives++;
    if (wait_us == 0)
        return false;
    pthread_mutex_lock(&waker.lock);
    bool is_held = waker.holds_back;
    pthread_mutex_unlock(&waker.lock);
    while (!is_held && lane->count > 0)
        end_check(lane, 0, WEIR_STORE_ANSWERED);
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    return poll(&polled, 1, is_held ? (int)(wait_us / 1000) + 1 : 0) > 0;
}

static const struct weir_lane_type lane_type = {
    .open = open_lane,
    .close = close_lane,
    .is_over = is_lane_over,
    .look = look_at_lane,
    .submit = submit_to_lane,
    .cancel = cancel_in_lane,
    .drive = drive_lane,
    .is_ready = is_lane_ready,
};

static const struct weir_store lane_store = { .lanes = &lane_type };

/* the chain under test: a link that waits, a few handlers */

static atomic_uint entered, ended, handled, stayed;
static bool in_place; /* of the mode */

struct wait {
    bool has_waited;
    struct weir_check check;
};

static enum weir_step wait_once(void *self, struct weir_request *request)
{
    struct wait *wait = weir_request_slot(request, self);
    if (wait->has_waited)
        return WEIR_NEXT;
    wait->has_waited = true;
    atomic_fetch_add(&entered, 1);
    if (in_place && weir_in_place_ask(request, &lane_store, &wait->check)) {
        atomic_fetch_add(&stayed, 1);
        return WEIR_WAIT;
    }
    struct weir_ticket ticket = weir_park(request);
    if (ticket.number == 0)
        return WEIR_NEXT;
    hand_over(ticket);
    return WEIR_WAIT;
}

static void count_end(void *self, struct weir_request *request)
{
    struct wait *wait = weir_request_slot(request, self);
    weir_in_place_cancel(request, &wait->check);
    atomic_fetch_add(&ended, 1);
}

static void add_line(void *self, struct weir_request *request, struct weir_reply *reply)
{
    (void)self;
    (void)request;
    weir_reply_add(reply, "X-Hook", "ran");
}

static enum weir_step hello(void *self, struct weir_request *request)
{
    (void)self;
    atomic_fetch_add(&handled, 1);
    weir_reply_text(request, 200, "hello");
    return WEIR_DONE;
}

static enum weir_step echo(void *self, struct weir_request *request)
{
    (void)self;
    const char *bytes;
    size_t length;
    if (!weir_request_body(request, 100000, &bytes, &length))
        return WEIR_WAIT;
    atomic_fetch_add(&handled, 1);
    char text[64];
    snprintf(text, sizeof text, "%zu %c", length, length == 0 ? '-' : bytes[length - 1]);
    weir_reply_text(request, 200, text);
    return WEIR_DONE;
}

/* Asks for the body, waits for something else, and then wants the body. */
static enum weir_step wait_then_echo(void *self, struct weir_request *request)
{
    const char *bytes;
    size_t length;
    bool is_whole = weir_request_body(request, 100000, &bytes, &length);
    if (weir_request_get(request, "has waited") == NULL) {
        weir_request_set(request, "has waited", request, NULL);
        struct weir_ticket ticket = weir_park(request);
        assert_int_not_equal(ticket.number, 0);
        hand_over(ticket);
        return WEIR_WAIT;
    }
    return is_whole ? echo(self, request) : WEIR_WAIT;
}

static enum weir_step refuse(void *self, struct weir_request *request)
{
    (void)self;
    weir_reply_problem(request, 403, NULL, NULL);
    return WEIR_DONE;
}

static enum weir_step own_response(void *self, struct weir_request *request)
{
    (void)self;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(3, (void *)(uintptr_t) "own", MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = weir_queue_response(weir_request_connection(request), 201, response);
    MHD_destroy_response(response);
    return queued == MHD_YES ? WEIR_DONE : WEIR_FAIL;
}

/* daemons in all modes */

enum mode {
    EPOLL,
    SELECT,
    POLL,
    POOL,
    THREADS,
    NO_SUSPEND,
    OWN_LOOP,
    EPOLL_IN_PLACE,
    POOL_IN_PLACE,
    NO_SUSPEND_IN_PLACE,
    SERVED,
    SERVED_IN_PLACE,
    MODES
};

static const struct {
    const char *name;
    unsigned flags;
    unsigned pool;
    bool in_place;
} modes[] = {
    [EPOLL] = { "internal epoll", MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0,
                false },
    [SELECT] = { "internal select", SELECT_LOOP | MHD_ALLOW_SUSPEND_RESUME, 0, false },
    [POLL] = { "internal poll", MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, false },
    [POOL] = { "a pool", MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 3, false },
    [THREADS] = { "a thread for each connection",
                  MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0, false },
    [NO_SUSPEND] = { "a pool that cannot suspend", MHD_USE_EPOLL_INTERNAL_THREAD, 3, false },
    [OWN_LOOP] = { "the program's own loop", MHD_ALLOW_SUSPEND_RESUME, 0, false },
    [EPOLL_IN_PLACE] = { "internal epoll, in place",
                         MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, true },
    [POOL_IN_PLACE] = { "a pool, in place",
                        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 3, true },
    [NO_SUSPEND_IN_PLACE] = { "a pool that cannot suspend, in place", MHD_USE_EPOLL_INTERNAL_THREAD,
                              3, true },
    [SERVED] = { "weir_serve()", 0, 2, false },
    [SERVED_IN_PLACE] = { "weir_serve(), in place", 0, 2, true },
};

struct site {
    enum mode mode;
    struct weir_chain *chain;
    struct weir_server *server;
    struct MHD_Daemon *daemon;
    uint16_t port;
    pthread_t loop;
    atomic_bool stops;
};

static void *run_loop(void *self)
{
    struct site *site = self;
    int wake = weir_chain_wake_fd(site->chain);
    while (!atomic_load(&site->stops)) {
        fd_set reads, writes, excepts;
        FD_ZERO(&reads);
        FD_ZERO(&writes);
        FD_ZERO(&excepts);
        int highest = wake;
        MHD_get_fdset(site->daemon, &reads, &writes, &excepts, &highest);
        FD_SET(wake, &reads);
        struct timeval patience = { .tv_usec = 50000 };
        unsigned MHD_LONG_LONG timeout_ms;
        if (MHD_get_timeout(site->daemon, &timeout_ms) == MHD_YES && timeout_ms < 50)
            patience.tv_usec = (suseconds_t)timeout_ms * 1000;
        select(highest + 1, &reads, &writes, &excepts, &patience);
        weir_chain_wake_clear(site->chain);
        MHD_run(site->daemon);
    }
    return NULL;
}

static void add_links(struct weir_chain *chain)
{
    static int wait_self;
    assert_int_equal(weir_chain_use(chain, WEIR_MIDDLEWARE(.name = "hook", .on_reply = add_line)),
                     WEIR_OK);
    assert_int_equal(
        weir_chain_use(chain,
                       WEIR_MIDDLEWARE(.name = "wait", .self = &wait_self, .on_request = wait_once,
                                       .on_end = count_end, .request_bytes = sizeof(struct wait))),
        WEIR_OK);
    assert_int_equal(
        weir_chain_use_at(chain, "/refused", WEIR_MIDDLEWARE(.name = "no", .on_request = refuse)),
        WEIR_OK);
    assert_int_equal(weir_chain_get(chain, "/hello", hello, NULL), WEIR_OK);
    assert_int_equal(weir_chain_post(chain, "/echo", echo, NULL), WEIR_OK);
    assert_int_equal(weir_chain_get(chain, "/own", own_response, NULL), WEIR_OK);
    assert_int_equal(weir_chain_post(chain, "/late", wait_then_echo, NULL), WEIR_OK);
    assert_int_equal(weir_chain_post(chain, "/careless", hello, NULL), WEIR_OK);
}

static void reset_counts(enum mode mode)
{
    in_place = modes[mode].in_place;
    atomic_store(&entered, 0);
    atomic_store(&ended, 0);
    atomic_store(&handled, 0);
    atomic_store(&stayed, 0);
}

static bool is_served(enum mode mode)
{
    return mode == SERVED || mode == SERVED_IN_PLACE;
}

static void start_server(struct site *site)
{
    struct weir_error error = WEIR_NO_ERROR;
    weir_serve(site->chain, WEIR_SERVE_OPTIONS(.threads = modes[site->mode].pool), &site->server,
               &error);
    assert_string_equal(error.text, "");
    site->port = weir_server_port(site->server);
}

static void start_daemon(struct site *site, enum mode mode)
{
    struct MHD_OptionItem options[] = {
        { MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)weir_request_completed, site->chain },
        { modes[mode].pool > 0 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
          (intptr_t)modes[mode].pool, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    site->daemon = MHD_start_daemon(modes[mode].flags, 0, NULL, NULL, weir_access_handler,
                                    site->chain, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    assert_non_null(site->daemon);
    site->port = MHD_get_daemon_info(site->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    if (mode == OWN_LOOP)
        assert_int_equal(pthread_create(&site->loop, NULL, run_loop, site), 0);
}

static void start_site(struct site *site, enum mode mode)
{
    memset(site, 0, sizeof *site);
    site->mode = mode;
    reset_counts(mode);
    assert_int_equal(weir_chain_new(NULL, &site->chain, NULL), WEIR_OK);
    add_links(site->chain);
    if (mode == OWN_LOOP)
        assert_true(weir_chain_wake_fd(site->chain) >= 0);
    /* As if a request had asked before. */
    atomic_store(&site->chain->in_place.is_wanted, in_place);
    if (is_served(mode))
        start_server(site);
    else
        start_daemon(site, mode);
}

static bool stop_site(struct site *site)
{
    bool answered;
    if (site->mode == OWN_LOOP) {
        int listener = MHD_quiesce_daemon(site->daemon);
        answered = weir_chain_drain(site->chain, 10000);
        atomic_store(&site->stops, true);
        pthread_join(site->loop, NULL);
        MHD_stop_daemon(site->daemon);
        close(listener);
    } else if (is_served(site->mode)) {
        answered = weir_server_stop(site->server, 10000);
    } else {
        answered = weir_stop_daemon(site->chain, site->daemon, 10000);
    }
    forget_tickets();
    weir_chain_free(site->chain);
    assert_int_equal(atomic_load(&open_lanes), 0);
    return answered;
}

/* Runs a test once for each mode. */
static void in_every_mode(void (*test)(struct site *site))
{
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        print_message("    %s\n", modes[i].name);
        struct site site;
        start_site(&site, (enum mode)i);
        test(&site);
        assert_true(stop_site(&site));
        assert_int_equal(atomic_load(&ended), atomic_load(&entered));
    }
}

/* tests */

static void expect_hello(int fd)
{
    struct reply reply;
    client_send_text(fd, "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
    client_read(fd, false, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "hello");
    assert_string_equal(reply_header(&reply, "X-Hook"), "ran");
    assert_null(reply_header(&reply, "Connection"));
}

static void keep_a_connection(struct site *site)
{
    int fd = client_connect(site->port);
    for (int i = 0; i < 20; i++)
        expect_hello(fd);
    close(fd);
    assert_int_equal(atomic_load(&handled), 20);
    assert_int_equal(atomic_load(&stayed), in_place ? 20 : 0);
}

static void answers_on_a_kept_connection(void **state)
{
    (void)state;
    in_every_mode(keep_a_connection);
}

static void expect_status(int fd, const char *request, bool is_head, unsigned status)
{
    struct reply reply;
    client_send_text(fd, request);
    client_read(fd, is_head, &reply);
    assert_int_equal(reply.status, status);
    assert_null(reply_header(&reply, "Connection"));
    assert_string_equal(reply_header(&reply, "X-Hook"), "ran");
}

static void refuse_and_go_on(struct site *site)
{
    int fd = client_connect(site->port);
    expect_status(fd, "GET /refused HTTP/1.1\r\nHost: t\r\n\r\n", false, 403);
    expect_status(fd, "HEAD /hello HTTP/1.1\r\nHost: t\r\n\r\n", true, 200);
    expect_status(fd, "GET /own HTTP/1.1\r\nHost: t\r\n\r\n", false, 201);
    expect_status(fd, "GET /none HTTP/1.1\r\nHost: t\r\n\r\n", false, 404);
    expect_status(fd, "DELETE /hello HTTP/1.1\r\nHost: t\r\n\r\n", false, 405);
    expect_hello(fd);
    close(fd);
}

static void keeps_the_connection_of_a_refused_get(void **state)
{
    (void)state;
    in_every_mode(refuse_and_go_on);
}

static void pipeline(struct site *site)
{
    int fd = client_connect(site->port);
    for (int i = 0; i < 10; i++)
        client_send_text(fd, "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
    client_send_text(fd, "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc"
                         "GET /refused HTTP/1.1\r\nHost: t\r\n\r\n");
    struct reply reply;
    for (int i = 0; i < 10; i++) {
        client_read(fd, false, &reply);
        assert_int_equal(reply.status, 200);
    }
    client_read(fd, false, &reply);
    assert_string_equal(reply.body, "3 c");
    client_read(fd, false, &reply);
    assert_int_equal(reply.status, 403);
    close(fd);
}

static void answers_pipelined_requests_in_order(void **state)
{
    (void)state;
    in_every_mode(pipeline);
}

static void upload(struct site *site)
{
    struct reply reply;
    int fd = client_connect(site->port);
    char bytes[70000];
    memset(bytes, 'x', sizeof bytes);
    bytes[sizeof bytes - 1] = 'z';
    client_send_text(fd, "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 70000\r\n\r\n");
    client_send(fd, bytes, sizeof bytes);
    client_read(fd, false, &reply);
    assert_string_equal(reply.body, "70000 z");
    client_send_text(fd, "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                         "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
    client_read(fd, false, &reply);
    assert_string_equal(reply.body, "3 c");
    client_send_text(fd, "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n");
    client_read(fd, false, &reply);
    assert_string_equal(reply.body, "0 -");
    expect_hello(fd);

    /* After a wake the first call comes again, and is not the end of the body. */
    client_send_text(fd, "POST /late HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\n12345");
    client_read(fd, false, &reply);
    assert_string_equal(reply.body, "5 5");

    /* A handler that is content without the body does not cost the connection. */
    client_send_text(fd, "POST /careless HTTP/1.1\r\nHost: t\r\nContent-Length: 70000\r\n\r\n");
    client_send(fd, bytes, sizeof bytes);
    client_read(fd, false, &reply);
    assert_string_equal(reply.body, "hello");
    expect_hello(fd);
    close(fd);
    assert_int_equal(atomic_load(&entered), 7);
    assert_int_equal(atomic_load(&handled), 7);
}

static void takes_bodies_whole_and_once(void **state)
{
    (void)state;
    in_every_mode(upload);
}

static void upload_too_much(struct site *site)
{
    struct reply reply;
    int fd = client_connect(site->port);
    char bytes[10000];
    memset(bytes, 'x', sizeof bytes);
    client_send_text(fd, "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 200000\r\n\r\n");
    client_read(fd, false, &reply);
    assert_int_equal(reply.status, 413);
    assert_true(client_sees_end(fd));
    close(fd);

    /* What announces no length is read to its end, within bounds. */
    fd = client_connect(site->port);
    client_send_text(fd, "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; i++) {
        client_send_text(fd, "2710\r\n");
        client_send(fd, bytes, sizeof bytes);
        client_send_text(fd, "\r\n");
    }
    client_send_text(fd, "0\r\n\r\n");
    client_read(fd, false, &reply);
    assert_int_equal(reply.status, 413);
    expect_hello(fd);
    for (int i = 0; i < 500; i++) {
        client_send_text(fd, i == 0 ? "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: "
                                      "chunked\r\n\r\n2710\r\n"
                                    : "2710\r\n");
        client_send(fd, bytes, sizeof bytes);
        client_send_text(fd, "\r\n");
    }
    client_read(fd, false, &reply);
    assert_int_equal(reply.status, 0);
    close(fd);
}

static void reads_a_body_that_is_too_long_within_bounds(void **state)
{
    (void)state;
    in_every_mode(upload_too_much);
}

static void expect_continue(struct site *site)
{
    struct reply reply;
    int fd = client_connect(site->port);
    client_send_text(fd, "POST /refused HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n"
                         "Expect: 100-continue\r\n\r\n");
    client_read(fd, false, &reply);
    assert_int_equal(reply.status, 403);
    assert_true(client_sees_end(fd));
    close(fd);

    fd = client_connect(site->port);
    client_send_text(fd, "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n"
                         "Expect: 100-continue\r\n\r\n");
    client_read(fd, false, &reply);
    assert_non_null(strstr(reply.head, " 100 "));
    client_send_text(fd, "12345");
    client_read(fd, false, &reply);
    assert_string_equal(reply.body, "5 5");
    close(fd);
}

static void asks_for_a_body_only_after_the_decision(void **state)
{
    (void)state;
    in_every_mode(expect_continue);
}

/* clients that go, and stopping */

static void wait_until(bool (*holds)(struct site *site), struct site *site)
{
    for (int i = 0; i < 20000 && !holds(site); i++)
        poll(NULL, 0, 1);
    assert_true(holds(site));
}

static bool five_wait(struct site *site)
{
    return weir_chain_parked(site->chain) == 5;
}

static bool five_have_ended(struct site *site)
{
    (void)site;
    return atomic_load(&ended) == 5;
}

static void open_five(struct site *site, int fds[5])
{
    hold_back(true);
    for (size_t i = 0; i < 5; i++) {
        fds[i] = client_connect(site->port);
        client_send_text(fds[i], "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
    }
    wait_until(five_wait, site);
    assert_int_equal(atomic_load(&stayed), in_place ? 5 : 0);
}

static void vanish(struct site *site)
{
    if (site->mode == NO_SUSPEND || site->mode == NO_SUSPEND_IN_PLACE)
        return; /* three threads cannot hold five requests */
    int fds[5];
    open_five(site, fds);
    for (size_t i = 0; i < 5; i++) {
        const struct linger reset = { .l_onoff = i % 2, .l_linger = 0 };
        setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fds[i]);
    }
    hold_back(false);
    wait_until(five_have_ended, site);
}

static void survives_clients_that_vanish(void **state)
{
    (void)state;
    in_every_mode(vanish);
}

static void stop_while_parked(struct site *site)
{
    if (site->mode == NO_SUSPEND)
        return;
    int fds[5];
    open_five(site, fds);
    assert_true(weir_chain_drain(site->chain, 10000));
    for (size_t i = 0; i < 5; i++) {
        struct reply reply;
        client_read(fds[i], false, &reply);
        assert_int_equal(reply.status, 503);
        assert_string_equal(reply_header(&reply, "Retry-After"), "1");
        close(fds[i]);
    }
    hold_back(false); /* the tickets are used up and do nothing */
}

static void answers_the_parked_before_it_stops(void **state)
{
    (void)state;
    in_every_mode(stop_while_parked);
}

/* load */

struct load {
    uint16_t port;
    atomic_uint answered;
};

static void *send_load(void *self)
{
    struct load *load = self;
    int fd = client_connect(load->port);
    for (int i = 0; i < 100; i++) {
        struct reply reply;
        client_send_text(fd, "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
        client_read(fd, false, &reply);
        if (reply.status == 200)
            atomic_fetch_add(&load->answered, 1);
    }
    close(fd);
    return NULL;
}

static void load_it(struct site *site)
{
    struct load load = { .port = site->port };
    pthread_t threads[8];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_load, &load), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&load.answered), 800);
    assert_int_equal(atomic_load(&handled), 800);
    assert_int_equal(atomic_load(&stayed), in_place ? 800 : 0);
}

static void *stop_in_a_thread(void *self)
{
    struct site *site = self;
    return stop_site(site) ? site : NULL;
}

static void check_farewell(int fd, const struct reply *reply)
{
    assert_int_equal(reply->status, 503);
    assert_string_equal(reply_header(reply, "Retry-After"), "1");
    assert_string_equal(reply_header(reply, "Connection"), "close");
    assert_true(client_sees_end(fd));
    close(fd);
}

static void expect_farewell(int fd, const char *request)
{
    struct reply reply;
    client_send_text(fd, request);
    client_read(fd, false, &reply);
    check_farewell(fd, &reply);
}

static void ask_until_it_stops(int fd)
{
    struct reply reply = { .status = 200 };
    while (reply.status == 200) {
        client_send_text(fd, "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
        client_read(fd, false, &reply);
    }
    check_farewell(fd, &reply);
}

static bool two_have_entered(struct site *site)
{
    (void)site;
    return atomic_load(&entered) == 2;
}

/* An upload that takes its time holds the stop up; who comes later does not. */
static void stop_with_latecomers(enum mode mode)
{
    print_message("    %s\n", modes[mode].name);
    struct site site;
    start_site(&site, mode);
    int slow = client_connect(site.port), kept = client_connect(site.port);
    expect_hello(kept);
    client_send_text(slow, "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nab");
    wait_until(two_have_entered, &site);

    pthread_t stopper;
    assert_int_equal(pthread_create(&stopper, NULL, stop_in_a_thread, &site), 0);
    ask_until_it_stops(kept);
    if ((modes[mode].flags & MHD_USE_EPOLL) != 0) {
        expect_farewell(client_connect(site.port), "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
        expect_farewell(client_connect(site.port), "POST /echo HTTP/1.1\r\nHost: t\r\n"
                                                   "Content-Length: 4\r\n\r\nab");
    }

    struct reply reply;
    client_send_text(slow, "cd");
    client_read(slow, false, &reply);
    assert_string_equal(reply.body, "4 d");
    void *answered = NULL;
    pthread_join(stopper, &answered);
    assert_non_null(answered);
    assert_int_equal(atomic_load(&ended), atomic_load(&entered));
    close(slow);
}

static void turns_away_who_comes_while_it_stops(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++)
        stop_with_latecomers((enum mode)i);
}

static void loses_no_wake_up_under_load(void **state)
{
    (void)state;
    in_every_mode(load_it);
}

static int start_waker(void **state)
{
    (void)state;
    return pthread_create(&waker.thread, NULL, wake_all, NULL);
}

static int stop_waker(void **state)
{
    (void)state;
    pthread_mutex_lock(&waker.lock);
    waker.stops = true;
    pthread_cond_signal(&waker.change);
    pthread_mutex_unlock(&waker.lock);
    return pthread_join(waker.thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_on_a_kept_connection),
        cmocka_unit_test(keeps_the_connection_of_a_refused_get),
        cmocka_unit_test(answers_pipelined_requests_in_order),
        cmocka_unit_test(takes_bodies_whole_and_once),
        cmocka_unit_test(reads_a_body_that_is_too_long_within_bounds),
        cmocka_unit_test(asks_for_a_body_only_after_the_decision),
        cmocka_unit_test(survives_clients_that_vanish),
        cmocka_unit_test(answers_the_parked_before_it_stops),
        cmocka_unit_test(turns_away_who_comes_while_it_stops),
        cmocka_unit_test(loses_no_wake_up_under_load),
    };
    return cmocka_run_group_tests(tests, start_waker, stop_waker);
}
