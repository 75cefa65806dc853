/* A link by itself: no thread, and one end of a pair of sockets in place of a server. */
#include "test.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/redis_internal.h"

static struct weir_redis *redis;
static struct weir_redis_voice voice;
static struct weir_redis_link *lone;
static struct weir_check check;
static int far_end;

static struct weir_redis_link *route_nowhere(struct weir_redis *self,
                                             const struct weir_check *routed, const char **why)
{
    (void)self;
    (void)routed;
    (void)why;
    return NULL;
}

static bool accepts_all(const struct weir_redis *self)
{
    (void)self;
    return true;
}

static const struct weir_redis_topology_type alone = { .route = route_nowhere,
                                                       .accepts = accepts_all };

static int open_link(void **state)
{
    (void)state;
    int ends[2];
    redis = calloc(1, sizeof *redis);
    assert_non_null(redis);
    redis->topology = &alone;
    redis->voice = &voice;
    memset(&voice, 0, sizeof voice);
    assert_true(weir_voice_init(&voice));
    assert_int_equal(pthread_mutex_init(&redis->health_mutex, NULL), 0);
    assert_true(weir_pending_init(&redis->pending));
    weir_pending_accept(&redis->pending, true);
    lone = weir_link_new(redis, WEIR_LINK_CHECKS, &(const struct weir_redis_place){ .port = 1 },
                         &redis->url.login);
    assert_non_null(lone);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    lone->context = redisConnectFd(ends[0]);
    assert_non_null(lone->context);
    far_end = ends[1];
    return 0;
}

static int close_link(void **state)
{
    (void)state;
    weir_link_free(lone);
    close(far_end);
    weir_redis_scripts_finish(&redis->scripts);
    weir_pending_finish(&redis->pending);
    pthread_mutex_destroy(&redis->health_mutex);
    weir_voice_finish(&voice);
    free(redis);
    return 0;
}

static void on_done(struct weir_check *ended)
{
    assert_int_equal(ended->result, WEIR_STORE_UNAVAILABLE);
}

/* A check that waits for the link. */
static void let_one_wait(void)
{
    struct weir_redis_command command;
    memset(&check, 0, sizeof check);
    check.done = on_done;
    assert_int_equal(weir_pending_enter(&redis->pending, &check, 100), WEIR_PENDING_ENTERED);
    assert_true(weir_pending_lift(&redis->pending, &redis->pending.unsent, &command));
    assert_true(weir_link_give(lone, &command));
    assert_int_equal(weir_commands_count(&lone->waiting), 1);
}

static void waits_for_memory_to_keep_what_is_under_way(void **state)
{
    (void)state;
    let_one_wait();
    lone->stage = WEIR_LINK_OPEN;
    lone->under_way.limit = 0; /* as if there were none */
    weir_link_write(lone);     /* would not return */
    assert_int_equal(weir_commands_count(&lone->waiting), 1);
    assert_true(weir_pending_cancel(&redis->pending, &check, true));
}

static void leaves_it_to_tls_what_the_handshake_wants(void **state)
{
    (void)state;
    lone->stage = WEIR_LINK_SECURING;
    lone->has_output = true;
    weir_link_write(lone);
    assert_true(lone->has_output); /* so that the socket is polled for room */
    assert_int_equal(weir_link_events(lone) & POLLOUT, POLLOUT);
}

/* Else a link whose server is gone for good looks as if something were still to be done over it. */
static void keeps_no_place_for_what_ended_when_it_went_down(void **state)
{
    (void)state;
    let_one_wait();
    lone->stage = WEIR_LINK_CONNECTING;
    for (int n = 0; n < WEIR_BREAKER_TIMEOUTS; n++)
        weir_link_on_timeout(lone, 1000);
    assert_int_equal(redis->pending.count, 0);
    assert_int_equal(weir_commands_count(&lone->waiting), 0);
}

/* Two Sentinels may say the same at once. */
static void starts_anew_however_often_it_is_told(void **state)
{
    (void)state;
    const struct weir_redis_place place = { .host = "192.0.2.7", .port = 6379 };
    lone->stage = WEIR_LINK_SEEKING;
    for (int n = 0; n < 2; n++) {
        weir_link_go(lone, &place);
        assert_true(lone->starts_anew);
    }
    lone->moves = lone->starts_anew = false;
    weir_link_go(lone, &place); /* it is where it was */
    assert_false(lone->starts_anew);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_link, close_link)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(waits_for_memory_to_keep_what_is_under_way),
        CASE(leaves_it_to_tls_what_the_handshake_wants),
        CASE(keeps_no_place_for_what_ended_when_it_went_down),
        CASE(starts_anew_however_often_it_is_told),
    };
    return cmocka_run_group_tests_name("redis_link", tests, NULL, NULL);
}
