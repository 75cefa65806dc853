/* Requests that wait for a moment, over real libmicrohttpd daemons in every mode. Time is real here:
 * what is asserted are orders and times that are not too short. */
#include "test.h"

#include <weir/weir.h>

#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "client.h"

#define HOUR_US UINT64_C(3600000000)

/* the chain under test: a link that waits as long as the client asks for, and a few handlers */

/* What the limiter keeps for each request may be as large as this. */
#define SLOT_BYTES 512

struct stay {
    uint64_t due_us; /* 0: it has not waited */
    char more[SLOT_BYTES - sizeof(uint64_t)];
};

static atomic_uint entered, ended, gone, early;
static atomic_uint slip_us; /* the longest time from a look at the clock to a wait that began */
static int wait_self;

/* "/…?wait=MICROSECONDS", or "?at=" a moment. */
static uint64_t asked_us(struct weir_request *request)
{
    const char *wait_us = weir_request_query(request, "wait");
    if (wait_us != NULL)
        return strtoull(wait_us, NULL, 10);
    const char *at_us = weir_request_query(request, "at");
    uint64_t now_us = weir_monotonic_us();
    uint64_t due_us = at_us == NULL ? 0 : strtoull(at_us, NULL, 10);
    return due_us > now_us ? due_us - now_us : 0;
}

/* Requests are served one after another wherever this is looked at. */
static void note_slip(uint64_t us)
{
    if (us > atomic_load(&slip_us))
        atomic_store(&slip_us, (unsigned)us);
}

static enum weir_step wait_once(void *self, struct weir_request *request)
{
    struct stay *stay = weir_request_slot(request, self);
    if (stay->due_us == 0) {
        uint64_t start_us = weir_monotonic_us();
        uint64_t us = asked_us(request);
        stay->due_us = start_us + us;
        bool waits = weir_wait(request, us);
        note_slip(weir_monotonic_us() - start_us);
        atomic_fetch_add(&entered, 1);
        return waits ? WEIR_WAIT : WEIR_NEXT;
    }
    if (weir_request_is_gone(request))
        return WEIR_DONE;
    if (weir_monotonic_us() < stay->due_us)
        atomic_fetch_add(&early, 1);
    return WEIR_NEXT;
}

static void count_end(void *self, struct weir_request *request)
{
    (void)self;
    if (weir_request_is_gone(request))
        atomic_fetch_add(&gone, 1);
    atomic_fetch_add(&ended, 1);
}

#define ORDER_MAX 4096

static unsigned order[ORDER_MAX];
static uint64_t times_us[ORDER_MAX];
static atomic_uint handled;
static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;

/* "?n=": who it is. */
static enum weir_step hello(void *self, struct weir_request *request)
{
    (void)self;
    const char *number = weir_request_query(request, "n");
    pthread_mutex_lock(&order_lock);
    unsigned index = atomic_fetch_add(&handled, 1);
    if (index < ORDER_MAX) {
        order[index] = number == NULL ? 0 : (unsigned)strtoul(number, NULL, 10);
        times_us[index] = weir_monotonic_us();
    }
    pthread_mutex_unlock(&order_lock);
    return weir_reply_text(request, 200, number == NULL ? "hello" : number) ? WEIR_DONE : WEIR_FAIL;
}

/* Keeps the thread until nobody waits any more. */
static struct weir_chain *busy_chain;

static enum weir_step be_busy(void *self, struct weir_request *request)
{
    (void)self;
    for (int i = 0; i < 20000 && weir_chain_parked(busy_chain) > 0; i++)
        poll(NULL, 0, 1);
    return weir_reply_text(request, 200, "hello") ? WEIR_DONE : WEIR_FAIL;
}

static enum weir_step echo(void *self, struct weir_request *request)
{
    (void)self;
    const char *bytes;
    size_t length;
    if (!weir_request_body(request, 1000, &bytes, &length))
        return WEIR_WAIT;
    return weir_reply_bytes(request, 200, NULL, bytes, length) ? WEIR_DONE : WEIR_FAIL;
}

/* The last header line and the last query argument. */
static enum weir_step last_lines(void *self, struct weir_request *request)
{
    (void)self;
    char text[64];
    snprintf(text, sizeof text, "%s %s", weir_request_header(request, "X-Last"),
             weir_request_query(request, "last"));
    return weir_reply_text(request, 200, text) ? WEIR_DONE : WEIR_FAIL;
}

static struct weir_chain *new_chain(void)
{
    struct weir_chain *chain = NULL;
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    assert_int_equal(
        weir_chain_use(chain,
                       WEIR_MIDDLEWARE(.name = "wait", .self = &wait_self, .on_request = wait_once,
                                       .on_end = count_end, .request_bytes = sizeof(struct stay))),
        WEIR_OK);
    assert_int_equal(weir_chain_get(chain, "/hello", hello, NULL), WEIR_OK);
    assert_int_equal(weir_chain_get(chain, "/busy", be_busy, NULL), WEIR_OK);
    assert_int_equal(weir_chain_post(chain, "/echo", echo, NULL), WEIR_OK);
    assert_int_equal(weir_chain_get(chain, "/last", last_lines, NULL), WEIR_OK);
    return chain;
}

/* daemons in all modes */

enum mode { EPOLL, SELECT, POLL, POOL, THREADS, NO_SUSPEND, OWN_LOOP };

static const struct {
    const char *name;
    unsigned flags;
    unsigned pool;
} modes[] = {
    [EPOLL] = { "internal epoll", MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0 },
    [SELECT] = { "internal select", SELECT_LOOP | MHD_ALLOW_SUSPEND_RESUME, 0 },
    [POLL] = { "internal poll", MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0 },
    [POOL] = { "a pool", MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 3 },
    [THREADS] = { "a thread for each connection",
                  MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0 },
    [NO_SUSPEND] = { "a pool that cannot suspend", MHD_USE_EPOLL_INTERNAL_THREAD, 3 },
    [OWN_LOOP] = { "the program's own loop", MHD_ALLOW_SUSPEND_RESUME, 0 },
};

struct site {
    enum mode mode;
    struct weir_chain *chain;
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

static void start_site_of(struct site *site, enum mode mode, struct weir_chain *chain)
{
    memset(site, 0, sizeof *site);
    site->mode = mode;
    site->chain = chain;
    if (mode == OWN_LOOP)
        assert_true(weir_chain_wake_fd(site->chain) >= 0);

    const struct MHD_OptionItem options[] = {
        { MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)weir_request_completed, site->chain },
        { modes[mode].pool > 0 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END,
          (intptr_t)modes[mode].pool, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    site->daemon = MHD_start_daemon(modes[mode].flags, 0, NULL, NULL, weir_access_handler,
                                    site->chain, MHD_OPTION_CONNECTION_LIMIT, 3000u,
                                    MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    assert_non_null(site->daemon);
    site->port = MHD_get_daemon_info(site->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    if (mode == OWN_LOOP)
        assert_int_equal(pthread_create(&site->loop, NULL, run_loop, site), 0);
    entered = ended = gone = early = handled = slip_us = 0;
    busy_chain = site->chain;
}

static void start_site(struct site *site, enum mode mode)
{
    start_site_of(site, mode, new_chain());
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
    } else {
        answered = weir_stop_daemon(site->chain, site->daemon, 10000);
    }
    weir_chain_free(site->chain);
    return answered;
}

static void in_mode(enum mode mode, void (*test)(struct site *site))
{
    print_message("    %s\n", modes[mode].name);
    struct site site;
    start_site(&site, mode);
    test(&site);
    assert_true(stop_site(&site));
    assert_int_equal(ended, entered);
    assert_int_equal(early, 0);
}

static void in_every_mode(void (*test)(struct site *site))
{
    for (size_t i = 0; i < COUNT_OF(modes); i++)
        in_mode((enum mode)i, test);
}

/* Holds up the test, not the server, until `counter` has come to `value`. */
static void await(const atomic_uint *counter, unsigned value)
{
    for (int i = 0; i < 20000 && atomic_load(counter) < value; i++)
        if (i < 200) /* mostly it is a matter of microseconds */
            sched_yield();
        else
            poll(NULL, 0, 1);
    assert_int_equal(atomic_load(counter), value);
}

static void await_parked(const struct site *site, unsigned count)
{
    for (int i = 0; i < 20000 && weir_chain_parked(site->chain) != count; i++)
        poll(NULL, 0, 1);
    assert_int_equal(weir_chain_parked(site->chain), count);
}

/* waiting */

static void send_get(int fd, const char *path, uint64_t number)
{
    char text[256];
    snprintf(text, sizeof text, "GET %s%llu HTTP/1.1\r\nHost: t\r\n\r\n", path,
             (unsigned long long)number);
    client_send_text(fd, text);
}

static void expect_hello(int fd)
{
    struct reply reply;
    client_read(fd, false, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "hello");
    assert_null(reply_header(&reply, "Connection"));
}

static void wait_on_a_kept_connection(struct site *site)
{
    static const uint64_t waits_us[] = { 0, 1, 100, 1000, 5000, 20000, 0, 3000 };
    int fd = client_connect(site->port);
    for (size_t i = 0; i < COUNT_OF(waits_us); i++) {
        uint64_t start_us = weir_monotonic_us();
        send_get(fd, "/hello?wait=", waits_us[i]);
        expect_hello(fd);
        assert_true(weir_monotonic_us() - start_us >= waits_us[i]);
    }
    close(fd);
    assert_int_equal(handled, COUNT_OF(waits_us));
}

static void waits_as_long_as_told_and_keeps_the_connection(void **state)
{
    (void)state;
    in_every_mode(wait_on_a_kept_connection);
}

static void send_while_it_waits(struct site *site)
{
    struct reply reply;
    int fd = client_connect(site->port);
    client_send_text(fd, "POST /echo?wait=20000 HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\n");
    await_parked(site, 1);
    client_send_text(fd, "12345");
    send_get(fd, "/hello?wait=", 1000);
    client_read(fd, false, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body, "12345");
    expect_hello(fd);
    close(fd);
    await(&ended, 2);
    assert_int_equal(gone, 0);
}

static void takes_no_data_for_the_end(void **state)
{
    (void)state;
    in_every_mode(send_while_it_waits);
}

static void take_many_lines(struct site *site)
{
    static const unsigned counts[] = { 0, 1, 24, 100 };
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        char text[8192] = "GET /last?";
        struct reply reply;
        for (unsigned j = 0; j < counts[i]; j++)
            sprintf(text + strlen(text), "q%u=%u&", j, j);
        strcat(text, "last=7 HTTP/1.1\r\nHost: t\r\n");
        for (unsigned j = 0; j < counts[i]; j++)
            sprintf(text + strlen(text), "X-Line-%u: %u\r\n", j, j);
        strcat(text, "X-Last: yes\r\n\r\n");
        int fd = client_connect(site->port);
        client_send_text(fd, text);
        client_read(fd, false, &reply);
        assert_string_equal(reply.body, "yes 7");
        close(fd);
    }
}

static void takes_as_many_lines_as_there_are(void **state)
{
    (void)state;
    in_mode(EPOLL, take_many_lines);
}

/* order */

#define FEW         20
#define FEW_STEP_US 5000

/* A wait is told as a time from now, so that a moment is as exact as "now" is; and all must wait
 * before the first moment comes, or those whose moment is over already would go first. */
static bool is_exact(unsigned step_us, bool all_wait)
{
    bool exact = slip_us < step_us && all_wait;
    if (!exact)
        print_message(
            "    held up for %u us, or for too long in all: the moments are not in order\n",
            slip_us);
    return exact;
}

static void drain_a_queue(struct site *site)
{
    int fds[FEW];
    uint64_t start_us = weir_monotonic_us() + 50000;
    for (unsigned i = 0; i < FEW; i++) {
        char path[96];
        fds[i] = client_connect(site->port);
        snprintf(path, sizeof path, "/hello?n=%u&at=", i);
        send_get(fds[i], path, start_us + i * FEW_STEP_US);
        await(&entered, i + 1);
    }
    bool all_wait = weir_monotonic_us() < start_us;
    /* Meanwhile their moments come, so that libmicrohttpd finds all of them in one round. */
    int busy = client_connect(site->port);
    send_get(busy, "/busy?wait=", 0);
    expect_hello(busy);
    close(busy);
    for (unsigned i = 0; i < FEW; i++) {
        struct reply reply;
        client_read(fds[i], false, &reply);
        assert_int_equal(reply.status, 200);
        close(fds[i]);
    }
    if (!is_exact(FEW_STEP_US, all_wait))
        return;
    for (unsigned i = 0; i < FEW; i++)
        assert_int_equal(order[i], i);
}

static void lets_them_leave_in_the_order_of_their_moments(void **state)
{
    (void)state;
    /* One thread each; several agree on nothing. */
    static const enum mode alone[] = { EPOLL, SELECT, POLL, OWN_LOOP };
    for (size_t i = 0; i < COUNT_OF(alone); i++)
        in_mode(alone[i], drain_a_queue);
}

/* clients that go, and stopping */

static void hang_up(struct site *site)
{
    static const struct {
        const char *when;
        bool closes, resets;
    } rows[] = {
        { "the client closes", true, false },
        { "the client resets", true, true },
        { "the client ends its sending side", false, false },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        int fd = client_connect(site->port);
        send_get(fd, "/hello?wait=", HOUR_US);
        await_parked(site, 1);
        const struct linger reset = { .l_onoff = rows[i].resets, .l_linger = 0 };
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        if (rows[i].closes)
            close(fd);
        else
            shutdown(fd, SHUT_WR);
        await(&ended, i + 1);
        assert_int_equal(gone, i + 1);
        if (!rows[i].closes) {
            assert_true(client_sees_end(fd));
            close(fd);
        }
    }
    assert_int_equal(handled, 0);
}

static void notices_at_once_a_client_that_hangs_up(void **state)
{
    (void)state;
    in_every_mode(hang_up);
}

static void hang_up_on_a_pair(struct site *site)
{
    int fds[2];
    struct sockaddr_un {
        sa_family_t family;
    } address = { AF_UNIX };
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(MHD_add_connection(site->daemon, fds[0], (struct sockaddr *)(void *)&address,
                                        sizeof address),
                     MHD_YES);
    send_get(fds[1], "/hello?wait=", 1000);
    expect_hello(fds[1]);
    send_get(fds[1], "/hello?wait=", HOUR_US);
    await_parked(site, 1);
    close(fds[1]);
    await(&ended, 2);
    assert_int_equal(gone, 1);
}

static void notices_it_on_a_unix_socket(void **state)
{
    (void)state;
    in_mode(EPOLL, hang_up_on_a_pair);
    in_mode(POLL, hang_up_on_a_pair);
}

/* Descriptors are given again at once, so a watch that outlived its request would hit another. */
static void come_and_go(struct site *site)
{
    for (unsigned i = 0; i < 50; i++) {
        int stays = client_connect(site->port);
        int goes = client_connect(site->port);
        send_get(stays, "/hello?wait=", 2000);
        send_get(goes, "/hello?wait=", i % 2 == 0 ? 100 : HOUR_US);
        if (i % 2 == 0)
            expect_hello(goes);
        close(goes);
        expect_hello(stays);
        send_get(stays, "/hello?wait=", 100);
        expect_hello(stays);
        close(stays);
    }
    await(&ended, 150);
}

static void confuses_no_two_connections(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++)
        if (i != NO_SUSPEND) /* a thread that blocks may be the one the next connection is with */
            in_mode((enum mode)i, come_and_go);
}

static void stop_while_they_wait(struct site *site)
{
    int fds[5];
    unsigned count = site->mode == NO_SUSPEND ? 1 : COUNT_OF(fds);
    for (unsigned i = 0; i < count; i++) {
        fds[i] = client_connect(site->port);
        send_get(fds[i], "/hello?wait=", HOUR_US);
        await_parked(site, i + 1);
    }
    assert_true(weir_chain_drain(site->chain, 10000));
    for (unsigned i = 0; i < count; i++) {
        struct reply reply;
        client_read(fds[i], false, &reply);
        assert_int_equal(reply.status, 503);
        assert_string_equal(reply_header(&reply, "Retry-After"), "1");
        close(fds[i]);
    }
    assert_int_equal(gone, 0);
}

static void answers_503_to_who_waits_when_it_stops(void **state)
{
    (void)state;
    in_every_mode(stop_while_they_wait);
}

/* thousands at once */

#define MANY 2000

/* What one process finds out; each daemon has one of its own, so that memory starts afresh. */
struct finding {
    size_t heap_bytes;
    size_t resident_bytes;
    double per_second;   /* that left, between the first and the last */
    uint64_t drained_us; /* from the filling of the queue to the last */
    unsigned out_of_order, client_out_of_order;
    bool exact; /* the moments were in order */
};

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static size_t resident_bytes(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &pages, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static struct MHD_Connection *held[MANY];
static atomic_uint held_count;

/* Suspends each connection once, and no more. */
static enum MHD_Result hold(void *cls, struct MHD_Connection *connection, const char *url,
                            const char *method, const char *version, const char *upload_data,
                            size_t *upload_data_size, void **con_cls)
{
    (void)cls, (void)url, (void)method, (void)version, (void)upload_data, (void)upload_data_size;
    if (*con_cls == NULL) {
        *con_cls = connection;
        MHD_suspend_connection(connection);
        held[atomic_fetch_add(&held_count, 1)] = connection;
        return MHD_YES;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return queued;
}

static int fds[MANY];

/* As a browser's request, in small. `counter` tells when the server has it: so few at a time that
 * libmicrohttpd's epoll loop is never at the number at which it stalls. */
static void send_many(uint16_t port, uint64_t start_us, uint64_t step_us,
                      const atomic_uint *counter)
{
    for (unsigned i = 0; i < MANY; i++) {
        char text[512];
        fds[i] = client_connect(port);
        snprintf(text, sizeof text,
                 "GET /hello?n=%u&at=%llu HTTP/1.1\r\nHost: test\r\nUser-Agent: test\r\n"
                 "Accept: */*\r\nAccept-Language: en\r\nAccept-Encoding: gzip\r\n"
                 "X-API-Key: 0123456789abcdef\r\n\r\n",
                 i, (unsigned long long)(start_us + i * step_us));
        client_send_text(fds[i], text);
        await(counter, i + 1);
    }
}

/* Reads all replies as they come; returns how many came before an earlier one. */
static unsigned read_many(void)
{
    unsigned out_of_order = 0, highest = 0, answered = 0;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < MANY; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };
        assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event), 0);
    }
    while (answered < MANY) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, COUNT_OF(events), 20000);
        assert_true(count > 0);
        for (int i = 0; i < count; i++) {
            struct reply reply;
            unsigned number = events[i].data.u32;
            client_read(fds[number], false, &reply);
            assert_int_equal(reply.status, 200);
            epoll_ctl(epoll, EPOLL_CTL_DEL, fds[number], NULL);
            out_of_order += number < highest;
            highest = number > highest ? number : highest;
            answered++;
        }
    }
    close(epoll);
    return out_of_order;
}

static void close_many(void)
{
    for (unsigned i = 0; i < MANY; i++)
        close(fds[i]);
}

static void find_bare(struct finding *finding)
{
    struct MHD_Daemon *bare = MHD_start_daemon(modes[EPOLL].flags, 0, NULL, NULL, hold, NULL,
                                               MHD_OPTION_CONNECTION_LIMIT, 3000u, MHD_OPTION_END);
    assert_non_null(bare);
    size_t heap = heap_bytes(), resident = resident_bytes();
    send_many(MHD_get_daemon_info(bare, MHD_DAEMON_INFO_BIND_PORT)->port, 0, 0, &held_count);
    finding->heap_bytes = heap_bytes() - heap;
    finding->resident_bytes = resident_bytes() - resident;
    for (unsigned i = 0; i < MANY; i++)
        MHD_resume_connection(held[i]);
    read_many();
    close_many();
    MHD_stop_daemon(bare);
}

#define STEP_US 500

/* Until the first moment: enough for all to come, but for a very busy machine. */
#define QUEUE_US 3000000

static void find_chained(struct finding *finding)
{
    struct site site;
    start_site(&site, EPOLL);
    size_t heap = heap_bytes(), resident = resident_bytes();
    uint64_t start_us = weir_monotonic_us() + QUEUE_US;
    send_many(site.port, start_us, STEP_US, &entered);
    unsigned parked = (unsigned)weir_chain_parked(site.chain);
    bool all_wait = weir_monotonic_us() < start_us;
    assert_true(!all_wait || parked == MANY);
    finding->heap_bytes = heap_bytes() - heap;
    finding->resident_bytes = resident_bytes() - resident;
    finding->client_out_of_order = read_many();
    assert_int_equal(handled, MANY);
    for (unsigned i = 1; i < MANY; i++)
        finding->out_of_order += order[i] < order[i - 1];
    finding->per_second = (MANY - 1) * 1e6 / (double)(times_us[MANY - 1] - times_us[0]);
    finding->exact = is_exact(STEP_US, all_wait);
    close_many();
    assert_true(stop_site(&site));
    assert_int_equal(early, 0);
}

/* The same with the queue of a leaky bucket in front, which is busy for the next three seconds. */
static const char queue_json[] =
    "{\"policies\": {\"p\": {\"limits\": [{\"name\": \"queue\", \"by\": \"global\","
    " \"rate\": \"2000/second\", \"algorithm\": \"leaky-bucket\", \"burst\": 20000,"
    " \"max_wait\": \"60s\"}]}}, \"routes\": [{\"match\": \"* /*\", \"policy\": \"p\"}]}";

static enum weir_step count_entered(void *self, struct weir_request *request)
{
    (void)self, (void)request;
    atomic_fetch_add(&entered, 1);
    return WEIR_NEXT;
}

static struct weir_chain *new_queue(struct weir_limiter *limiter)
{
    struct weir_chain *chain = NULL;
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, WEIR_MIDDLEWARE(.name = "count", .self = &wait_self,
                                                           .on_request = count_entered)),
                     WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_get(chain, "/hello", hello, NULL), WEIR_OK);
    return chain;
}

static void find_limited(struct finding *finding)
{
    struct weir_policy *policy = NULL;
    struct weir_limiter *limiter = NULL;
    struct weir_verdict verdict;
    assert_int_equal(weir_policy_parse(queue_json, strlen(queue_json), NULL, &policy, NULL),
                     WEIR_OK);
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, NULL),
                     WEIR_OK);
    uint64_t filled_us = weir_monotonic_us();
    assert_int_equal(
        weir_limiter_check(limiter, WEIR_SUBJECT(.policy = "p", .cost = 6000), 1, &verdict, NULL),
        WEIR_OK);
    struct site site;
    start_site_of(&site, EPOLL, new_queue(limiter));
    size_t heap = heap_bytes(), resident = resident_bytes();
    send_many(site.port, 0, 0, &entered);
    if (weir_monotonic_us() - filled_us < QUEUE_US / 2)
        await_parked(&site, MANY);
    finding->heap_bytes = heap_bytes() - heap;
    finding->resident_bytes = resident_bytes() - resident;
    finding->client_out_of_order = read_many();
    assert_int_equal(handled, MANY);
    for (unsigned i = 1; i < MANY; i++)
        finding->out_of_order += order[i] < order[i - 1];
    finding->per_second = (MANY - 1) * 1e6 / (double)(times_us[MANY - 1] - times_us[0]);
    finding->drained_us = times_us[MANY - 1] - filled_us;
    close_many();
    assert_true(stop_site(&site));
    weir_limiter_free(limiter);
    weir_policy_free(policy);
}

static struct finding in_a_process(void (*find)(struct finding *finding))
{
    struct finding finding = { 0 };
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        find(&finding);
        _exit(write(ends[1], &finding, sizeof finding) == sizeof finding ? 0 : 1);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], &finding, sizeof finding);
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_int_equal(status, 0);
    assert_int_equal(got, sizeof finding);
    return finding;
}

/* Sanitizers have an allocator and shadows of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURES false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)                            \
    || __has_feature(memory_sanitizer)
#define MEASURES false
#endif
#endif
#ifndef MEASURES
#define MEASURES true
#endif

static double more_for_each(size_t with, size_t without)
{
    return ((double)with - (double)without) / MANY;
}

static void check_finding(const struct finding *bare, const struct finding *found)
{
    double heap = more_for_each(found->heap_bytes, bare->heap_bytes);
    double resident = more_for_each(found->resident_bytes, bare->resident_bytes);
    print_message("    beyond libmicrohttpd: %.0f bytes of heap, %.0f resident, for each of %d\n",
                  heap, resident, MANY);
    print_message("    left at %.1f a second, told %.1f; out of order: %u run, %u seen\n",
                  found->per_second, 1e6 / STEP_US, found->out_of_order,
                  found->client_out_of_order);
    if (MEASURES) {
        assert_true(heap < 4 * 1024 * 1024 / MANY);
        assert_true(resident < 4 * 1024 * 1024 / MANY);
    }
}

static void lets_thousands_wait_in_little_memory(void **state)
{
    (void)state;
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < 2 * MANY + 100)
        skip();

    struct finding bare = in_a_process(find_bare);
    struct finding chained = in_a_process(find_chained);
    check_finding(&bare, &chained);
    assert_true(!chained.exact || chained.out_of_order == 0);
    assert_true(!chained.exact || chained.client_out_of_order == 0);
    struct finding limited = in_a_process(find_limited);
    check_finding(&bare, &limited);
    /* 6000 places were taken before them. */
    assert_true(limited.drained_us >= (UINT64_C(6000) + MANY - 1) * STEP_US);
    /* Where a request was held up before it began to wait, neighbours go first; a queue that does not
     * keep the order at all has half of them so. */
    assert_true(limited.out_of_order < MANY / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_as_long_as_told_and_keeps_the_connection),
        cmocka_unit_test(takes_no_data_for_the_end),
        cmocka_unit_test(takes_as_many_lines_as_there_are),
        cmocka_unit_test(lets_them_leave_in_the_order_of_their_moments),
        cmocka_unit_test(notices_at_once_a_client_that_hangs_up),
        cmocka_unit_test(notices_it_on_a_unix_socket),
        cmocka_unit_test(confuses_no_two_connections),
        cmocka_unit_test(answers_503_to_who_waits_when_it_stops),
        cmocka_unit_test(lets_thousands_wait_in_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
