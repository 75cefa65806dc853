/* Requests that wait for a moment, made by hand. Time is the system's: a test waits until somebody
 * is woken, never for a time, and no moment that is not meant to come is nearer than an hour. */
#include "test.h"

#include <weir/weir.h>

#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "by_hand.h"

#define HOUR_US UINT64_C(3600000000)

/* a chain with a link that waits as long as it is told, then does as it is told */

static uint64_t wait_us;
static enum weir_step step_after;
static bool replies, gives_reason;
static int self;

/* One for each request. */
struct stay {
    bool has_waited;
    bool has_failed; /* weir_wait() said no */
    uint64_t due_us; /* not before */
};

static enum weir_step wait_once(void *link, struct weir_request *request)
{
    struct stay *stay = weir_request_slot(request, link);
    if (!stay->has_waited) {
        stay->has_waited = true;
        stay->due_us = weir_monotonic_us() + wait_us;
        stay->has_failed = !weir_wait(request, wait_us);
        return stay->has_failed ? WEIR_NEXT : WEIR_WAIT;
    }
    if (replies)
        weir_reply_text(request, 200, "late");
    if (gives_reason)
        weir_request_fail(request, WEIR_E_SYSTEM, "A reason.");
    return step_after;
}

static enum weir_step say_hello(void *link, struct weir_request *request)
{
    (void)link;
    weir_reply_text(request, 200, "hello");
    return WEIR_DONE;
}

static struct weir_chain *new_chain(uint32_t parked_max)
{
    struct weir_chain *chain = NULL;
    assert_int_equal(weir_chain_new(WEIR_CHAIN_OPTIONS(.parked_max = parked_max), &chain, NULL),
                     WEIR_OK);
    assert_int_equal(weir_chain_use(chain, WEIR_MIDDLEWARE(.name = "wait", .self = &self,
                                                           .on_request = wait_once,
                                                           .request_bytes = sizeof(struct stay))),
                     WEIR_OK);
    assert_int_equal(weir_chain_get(chain, "/", say_hello, NULL), WEIR_OK);
    return chain;
}

static int start(void **state)
{
    (void)state;
    by_hand_reset();
    wait_us = 0;
    step_after = WEIR_NEXT;
    replies = gives_reason = false;
    return 0;
}

static struct stay *stay_of(struct weir_request *request)
{
    return weir_request_slot(request, &self);
}

/* A request that waits for so long. */
static struct weir_request *waiting(struct weir_chain *chain, uint64_t us)
{
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    wait_us = us;
    assert_int_equal(weir_run(request), WEIR_RUN_WAIT);
    return request;
}

static void finish(struct weir_request *request, unsigned status)
{
    assert_int_equal(by_hand_run(request), status);
    weir_request_end(request);
}

/* the moment */

static void starts_no_thread_before_somebody_waits(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain(2);
    assert_false(atomic_load(&chain->waiting.runs));
    weir_chain_free(chain);

    chain = new_chain(2);
    struct weir_request *request = waiting(chain, 0);
    assert_true(atomic_load(&chain->waiting.runs));
    assert_ptr_equal(by_hand_await_resume(0), request);
    finish(request, 200);
    weir_chain_free(chain);
}

static void calls_the_same_link_again_not_before_the_moment(void **state)
{
    (void)state;
    static const uint64_t waits_us[] = { 0, 1, 999, 1000, 20000 };
    struct weir_chain *chain = new_chain(2);
    for (unsigned i = 0; i < COUNT_OF(waits_us); i++) {
        struct weir_request *request = waiting(chain, waits_us[i]);
        assert_ptr_equal(by_hand_await_resume(i), request);
        assert_true(weir_monotonic_us() >= stay_of(request)->due_us);
        assert_false(weir_request_is_gone(request));
        assert_int_equal(weir_chain_parked(chain), 0);
        finish(request, 200);
    }
    weir_chain_free(chain);
}

static void wakes_in_the_order_of_the_moments(void **state)
{
    (void)state;
    static const uint64_t waits_us[] = { 120000, 40000, 160000, 80000, HOUR_US, 100000 };
    enum { COUNT = COUNT_OF(waits_us), NEVER = 4 };
    struct weir_chain *chain = new_chain(COUNT);
    struct weir_request *requests[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        requests[i] = waiting(chain, waits_us[i]);
    uint64_t before_us = 0;
    for (unsigned i = 0; i < COUNT - 1; i++) {
        /* By their moments, since a busy machine may have held up the beginning of some. */
        uint64_t due_us = stay_of(by_hand_await_resume(i))->due_us;
        assert_true(due_us >= before_us);
        assert_true(due_us < stay_of(requests[NEVER])->due_us);
        before_us = due_us;
    }
    assert_int_equal(weir_chain_parked(chain), 1);
    for (size_t i = 0; i < COUNT; i++)
        if (i != NEVER)
            finish(requests[i], 200);
    assert_false(weir_chain_drain(chain, 300));
    finish(requests[NEVER], 503);
    weir_chain_free(chain);
}

static void waits_for_ever_where_that_is_asked(void **state)
{
    (void)state;
    static const uint64_t waits_us[] = { UINT64_MAX, UINT64_MAX - 1, INT64_MAX };
    struct weir_chain *chain = new_chain(4);
    struct weir_request *requests[COUNT_OF(waits_us)];
    for (size_t i = 0; i < COUNT_OF(waits_us); i++)
        requests[i] = waiting(chain, waits_us[i]);
    struct weir_request *soon = waiting(chain, 1000);
    assert_ptr_equal(by_hand_await_resume(0), soon);
    assert_int_equal(weir_chain_parked(chain), 3);
    finish(soon, 200);
    assert_false(weir_chain_drain(chain, 300));
    for (size_t i = 0; i < COUNT_OF(waits_us); i++)
        finish(requests[i], 503);
    weir_chain_free(chain);
}

/* clients that hang up */

/* Requests made from now on are on `fds[0]`. */
static void open_pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    by_hand_socket = fds[0];
}

static void wakes_at_once_when_the_client_hangs_up(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        bool before; /* the wait */
        int how;     /* of shutdown(); -1: it closes */
    } rows[] = {
        { "it closes the connection", false, -1 },
        { "it had closed the connection before", true, -1 },
        { "it ends its sending side", false, SHUT_WR },
        { "it had ended its sending side before", true, SHUT_WR },
    };
    struct weir_chain *chain = new_chain(2);
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        int fds[2];
        print_message("    %s\n", rows[i].when);
        open_pair(fds);
        struct weir_request *request = rows[i].before ? NULL : waiting(chain, HOUR_US);
        if (rows[i].how < 0)
            close(fds[1]);
        else
            shutdown(fds[1], rows[i].how);
        if (rows[i].before)
            request = waiting(chain, HOUR_US);
        assert_ptr_equal(by_hand_await_resume(i), request);
        assert_true(weir_request_is_gone(request));
        assert_int_equal(weir_chain_parked(chain), 0);
        finish(request, 200);
        close(fds[0]);
        if (rows[i].how >= 0)
            close(fds[1]);
    }
    weir_chain_free(chain);
}

static void does_not_take_data_for_the_end(void **state)
{
    (void)state;
    int fds[2];
    struct weir_chain *chain = new_chain(2);
    open_pair(fds);
    struct weir_request *request = waiting(chain, HOUR_US);
    assert_int_equal(send(fds[1], "GET / HTTP/1.1", 14, 0), 14);
    by_hand_socket = -1;
    struct weir_request *soon = waiting(chain, 5000);
    assert_ptr_equal(by_hand_await_resume(0), soon);
    assert_int_equal(weir_chain_parked(chain), 1);
    finish(soon, 200);

    close(fds[1]);
    assert_ptr_equal(by_hand_await_resume(1), request);
    assert_true(weir_request_is_gone(request));
    finish(request, 200);
    close(fds[0]);
    weir_chain_free(chain);
}

static void watches_no_socket_of_a_request_that_goes_on(void **state)
{
    (void)state;
    int fds[2];
    struct weir_chain *chain = new_chain(3);
    open_pair(fds);
    struct weir_request *first = waiting(chain, 0);
    assert_ptr_equal(by_hand_await_resume(0), first);
    by_hand_socket = -1;

    /* In the place of the first one, whose socket ends now. */
    struct weir_request *second = waiting(chain, HOUR_US);
    close(fds[1]);
    struct weir_request *soon = waiting(chain, 5000);
    assert_ptr_equal(by_hand_await_resume(1), soon);
    assert_int_equal(weir_chain_parked(chain), 1);
    assert_false(weir_request_is_gone(first));
    finish(first, 200);
    finish(soon, 200);
    close(fds[0]);
    assert_false(weir_chain_drain(chain, 300));
    finish(second, 503);
    weir_chain_free(chain);
}

static void watches_the_same_socket_again(void **state)
{
    (void)state;
    int fds[2];
    struct weir_chain *chain = new_chain(1);
    open_pair(fds);
    struct weir_request *first = waiting(chain, 0);
    assert_ptr_equal(by_hand_await_resume(0), first);
    finish(first, 200);

    struct weir_request *second = waiting(chain, HOUR_US);
    close(fds[1]);
    assert_ptr_equal(by_hand_await_resume(1), second);
    assert_true(weir_request_is_gone(second));
    finish(second, 200);
    close(fds[0]);
    weir_chain_free(chain);
}

static void remembers_that_the_client_is_gone(void **state)
{
    (void)state;
    int fds[2];
    struct weir_chain *chain = new_chain(1);
    open_pair(fds);
    struct weir_request *request = waiting(chain, HOUR_US);
    close(fds[1]);
    assert_ptr_equal(by_hand_await_resume(0), request);

    request->may_wait = true; /* as within a link */
    assert_true(weir_wake(weir_park(request)));
    request->has_asked_to_wait = false;
    assert_true(weir_request_is_gone(request));
    finish(request, 200);
    close(fds[0]);
    weir_chain_free(chain);
}

static void ends_in_silence_where_nobody_listens(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        enum weir_step step;
        bool replies, gives_reason;
        bool is_gone;
        enum weir_run run;
        unsigned status;
    } rows[] = {
        { "it is done", WEIR_DONE, false, false, true, WEIR_RUN_GONE, 0 },
        { "it is done and has replied", WEIR_DONE, true, false, true, WEIR_RUN_REPLY, 200 },
        { "it fails", WEIR_FAIL, false, false, true, WEIR_RUN_GONE, 0 },
        { "it fails and says why", WEIR_FAIL, false, true, true, WEIR_RUN_REPLY, 500 },
        { "it goes on", WEIR_NEXT, false, false, true, WEIR_RUN_REPLY, 200 },
        { "it is done, with a client", WEIR_DONE, false, false, false, WEIR_RUN_REPLY, 500 },
        { "it fails, with a client", WEIR_FAIL, false, false, false, WEIR_RUN_REPLY, 500 },
    };
    struct weir_chain *chain = new_chain(1);
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        int fds[2];
        print_message("    %s\n", rows[i].when);
        open_pair(fds);
        struct weir_request *request = waiting(chain, rows[i].is_gone ? HOUR_US : 0);
        if (rows[i].is_gone)
            close(fds[1]);
        assert_ptr_equal(by_hand_await_resume(i), request);
        step_after = rows[i].step;
        replies = rows[i].replies;
        gives_reason = rows[i].gives_reason;
        assert_int_equal(weir_run(request), rows[i].run);
        assert_int_equal(request->reply.status, rows[i].status);
        weir_request_end(request);
        close(fds[0]);
        if (!rows[i].is_gone)
            close(fds[1]);
    }
    weir_chain_free(chain);
}

/* A link that waits each time. */
static enum weir_step wait_again(void *link, struct weir_request *request)
{
    (void)link;
    return weir_wait(request, HOUR_US) ? WEIR_WAIT : WEIR_DONE;
}

static void does_not_wait_again_for_who_is_gone(void **state)
{
    (void)state;
    int fds[2];
    struct weir_chain *chain = NULL;
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    weir_chain_use(chain, WEIR_MIDDLEWARE(.on_request = wait_again));
    open_pair(fds);
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    assert_int_equal(weir_run(request), WEIR_RUN_WAIT);
    close(fds[1]);
    assert_ptr_equal(by_hand_await_resume(0), request);
    assert_int_equal(weir_run(request), WEIR_RUN_GONE);
    weir_request_end(request);
    close(fds[0]);
    weir_chain_free(chain);
}

/* places and tickets */

static void shares_the_places_with_who_is_parked(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain(2);
    struct weir_request *parked = by_hand_request(chain, "GET", "/");
    parked->may_wait = true;
    struct weir_ticket ticket = weir_park(parked);
    assert_int_not_equal(ticket.number, 0);
    struct weir_request *first = waiting(chain, HOUR_US);

    struct weir_request *late = by_hand_request(chain, "GET", "/");
    finish(late, 200); /* it went on without waiting */

    /* A used-up ticket does not wake who has its place now. */
    assert_true(weir_wake(ticket));
    struct weir_request *second = waiting(chain, HOUR_US);
    assert_false(weir_wake(ticket));
    assert_int_equal(weir_chain_parked(chain), 2);
    assert_int_equal(by_hand_resumed, 1);

    weir_request_end(parked);
    assert_false(weir_chain_drain(chain, 300));
    assert_int_equal(by_hand_resumed, 3);
    finish(first, 503);
    finish(second, 503);
    weir_chain_free(chain);
}

static void does_not_wait_while_the_server_stops(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain(2);
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    assert_false(weir_chain_drain(chain, 0));
    assert_int_equal(by_hand_run(request), 200);
    assert_true(stay_of(request)->has_failed);
    assert_int_equal(by_hand_suspended, 0);
    weir_request_end(request);
    weir_chain_free(chain);
}

static enum weir_step wait_twice(void *link, struct weir_request *request)
{
    bool *has_waited = weir_request_slot(request, link);
    if (*has_waited)
        return WEIR_NEXT;
    *has_waited = true;
    assert_true(weir_wait(request, HOUR_US));
    assert_false(weir_wait(request, 0));
    assert_int_equal(weir_park(request).number, 0);
    return WEIR_NEXT;
}

static void parks_once_for_each_step(void **state)
{
    (void)state;
    struct weir_chain *chain = NULL;
    int one;
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    weir_chain_use(chain, WEIR_MIDDLEWARE(.self = &one, .on_request = wait_twice,
                                          .request_bytes = sizeof(bool)));
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    assert_int_equal(weir_run(request), WEIR_RUN_WAIT); /* whatever was returned */
    assert_int_equal(by_hand_suspended, 1);
    assert_false(weir_chain_drain(chain, 300));
    finish(request, 503);
    weir_chain_free(chain);
}

static void wait_too_late(void *link, struct weir_request *request, struct weir_reply *reply)
{
    (void)link;
    (void)reply;
    assert_false(weir_wait(request, 0));
}

static void does_not_wait_on_the_way_out(void **state)
{
    (void)state;
    struct weir_chain *chain = NULL;
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    weir_chain_use(chain, WEIR_MIDDLEWARE(.on_reply = wait_too_late));
    finish(by_hand_request(chain, "GET", "/"), 404);
    weir_chain_free(chain);
}

static void count_wake(void *counter)
{
    atomic_fetch_add((atomic_uint *)counter, 1);
}

static void tells_a_loop_of_the_program_of_each_wake(void **state)
{
    (void)state;
    atomic_uint wakes = 0;
    struct weir_chain *chain = NULL;
    weir_chain_new(WEIR_CHAIN_OPTIONS(.on_wake = count_wake, .wake_self = &wakes), &chain, NULL);
    weir_chain_use(chain, WEIR_MIDDLEWARE(.self = &self, .on_request = wait_once,
                                          .request_bytes = sizeof(struct stay)));
    for (unsigned i = 0; i < 3; i++) {
        struct weir_request *request = waiting(chain, 100);
        assert_ptr_equal(by_hand_await_resume(i), request);
        finish(request, 404);
    }
    weir_chain_free(chain); /* which ends the thread that tells */
    assert_int_equal(atomic_load(&wakes), 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, start)
    const struct CMUnitTest tests[] = {
        TEST(starts_no_thread_before_somebody_waits),
        TEST(calls_the_same_link_again_not_before_the_moment),
        TEST(wakes_in_the_order_of_the_moments),
        TEST(waits_for_ever_where_that_is_asked),
        TEST(wakes_at_once_when_the_client_hangs_up),
        TEST(does_not_take_data_for_the_end),
        TEST(watches_no_socket_of_a_request_that_goes_on),
        TEST(watches_the_same_socket_again),
        TEST(remembers_that_the_client_is_gone),
        TEST(ends_in_silence_where_nobody_listens),
        TEST(does_not_wait_again_for_who_is_gone),
        TEST(shares_the_places_with_who_is_parked),
        TEST(does_not_wait_while_the_server_stops),
        TEST(parks_once_for_each_step),
        TEST(does_not_wait_on_the_way_out),
        TEST(tells_a_loop_of_the_program_of_each_wake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
