#include "test.h"

#include "store/redis_pending.h"

static struct weir_pending pending;
static struct weir_check checks[8];

static int open_list(void **state)
{
    (void)state;
    memset(checks, 0, sizeof checks);
    memset(&pending, 0, sizeof pending);
    assert_true(weir_pending_init(&pending));
    weir_pending_accept(&pending, true);
    return 0;
}

static int finish_list(void **state)
{
    (void)state;
    weir_pending_finish(&pending);
    return 0;
}

/* Enters the first `count` checks with deadlines 100, 101, … */
static void enter(size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(weir_pending_enter(&pending, &checks[i], 100 + i), WEIR_PENDING_ENTERED);
}

static void send_all(size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_ptr_equal(weir_pending_send(&pending), &checks[i]);
    assert_null(weir_pending_send(&pending));
}

static const struct weir_check *replied(void)
{
    struct weir_check *check;
    assert_int_equal(weir_pending_take_replied(&pending, &check), WEIR_PENDING_TO_CHECK);
    return check;
}

static void sends_and_matches_replies_in_order(void **state)
{
    (void)state;
    enter(3);
    send_all(3);
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(replied(), &checks[i]);
    struct weir_check *none;
    assert_int_equal(weir_pending_take_replied(&pending, &none), WEIR_PENDING_TO_NONE);
    assert_int_equal(pending.count, 0);
}

static void ends_only_what_is_late(void **state)
{
    (void)state;
    enter(3);
    send_all(3);
    assert_null(weir_pending_take_late(&pending, 99));
    assert_ptr_equal(weir_pending_take_late(&pending, 101), &checks[0]);
    assert_ptr_equal(weir_pending_take_late(&pending, 101), &checks[1]);
    assert_null(weir_pending_take_late(&pending, 101));
    /* The late replies find nothing, and the third finds its own. */
    assert_null(replied());
    assert_null(replied());
    assert_ptr_equal(replied(), &checks[2]);
}

static void never_sends_what_was_ended_before(void **state)
{
    (void)state;
    enter(4);
    assert_ptr_equal(weir_pending_send(&pending), &checks[0]);
    assert_true(weir_pending_cancel(&pending, &checks[1], false));
    assert_ptr_equal(weir_pending_take_late(&pending, 100), &checks[0]);
    assert_ptr_equal(weir_pending_send(&pending), &checks[2]);
    assert_ptr_equal(weir_pending_take_late(&pending, 102), &checks[2]);
    assert_ptr_equal(weir_pending_send(&pending), &checks[3]);
    assert_null(weir_pending_send(&pending));
    assert_null(replied());
    assert_null(replied());
    assert_ptr_equal(replied(), &checks[3]);
}

static void cancels_what_is_pending_once(void **state)
{
    (void)state;
    enter(3);
    assert_ptr_equal(weir_pending_send(&pending), &checks[0]);
    assert_null(weir_pending_take_late(&pending, 0)); /* lays the first one down */
    for (size_t i = 0; i < 3; i++)
        assert_true(weir_pending_cancel(&pending, &checks[i], false));
    for (size_t i = 0; i < 3; i++)
        assert_false(weir_pending_cancel(&pending, &checks[i], false));
    assert_int_equal(pending.count, 0);
    assert_null(pending.first);
    assert_null(pending.last);
    assert_null(replied());
}

static void sends_again_with_the_old_deadline(void **state)
{
    (void)state;
    enter(4);
    for (size_t i = 0; i < 3; i++)
        weir_pending_send(&pending);
    struct weir_check *check;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(weir_pending_take_replied(&pending, &check), WEIR_PENDING_TO_CHECK);
        weir_pending_send_again(&pending, check);
    }
    assert_ptr_equal(weir_pending_send(&pending), &checks[3]);
    /* Deadlines still come in order, replies in the order of sending. */
    assert_ptr_equal(weir_pending_take_late(&pending, 100), &checks[0]);
    assert_null(weir_pending_take_late(&pending, 100));
    assert_ptr_equal(replied(), &checks[2]);
    assert_null(replied());
    assert_ptr_equal(replied(), &checks[1]);
    assert_ptr_equal(replied(), &checks[3]);
    assert_int_equal(pending.count, 0);
}

static void wakes_a_thread_that_sleeps_once(void **state)
{
    (void)state;
    uint64_t left_us;
    assert_true(weir_pending_sleep(&pending, true, 50, &left_us));
    assert_int_equal(left_us, UINT64_MAX);
    assert_int_equal(weir_pending_enter(&pending, &checks[0], 100), WEIR_PENDING_MUST_WAKE);
    assert_int_equal(weir_pending_enter(&pending, &checks[1], 101), WEIR_PENDING_ENTERED);

    /* There is something to send, unless it cannot be sent yet. */
    assert_false(weir_pending_sleep(&pending, true, 50, &left_us));
    assert_true(weir_pending_sleep(&pending, false, 50, &left_us));
    assert_int_equal(left_us, 50);
    weir_pending_send(&pending); /* it is awake by itself */
    assert_int_equal(weir_pending_enter(&pending, &checks[2], 102), WEIR_PENDING_ENTERED);
    assert_true(weir_pending_sleep(&pending, false, 150, &left_us));
    assert_int_equal(left_us, 0);

    assert_true(weir_pending_stop(&pending));
    assert_true(weir_pending_stops(&pending));
    assert_false(weir_pending_sleep(&pending, false, 50, &left_us));
    assert_int_equal(weir_pending_enter(&pending, &checks[3], 103), WEIR_PENDING_CLOSED);
    weir_pending_accept(&pending, true);
    assert_int_equal(weir_pending_enter(&pending, &checks[3], 103), WEIR_PENDING_CLOSED);
}

static void takes_nothing_while_nobody_is_there_to_ask(void **state)
{
    (void)state;
    enter(2);
    weir_pending_accept(&pending, false);
    assert_int_equal(weir_pending_enter(&pending, &checks[2], 102), WEIR_PENDING_CLOSED);
    assert_false(weir_pending_cancel(&pending, &checks[2], false));
    assert_ptr_equal(weir_pending_take_any(&pending), &checks[0]);
    assert_ptr_equal(weir_pending_take_any(&pending), &checks[1]);
    assert_null(weir_pending_take_any(&pending));
}

static void has_bounds(void **state)
{
    (void)state;
    struct weir_check *many = calloc(WEIR_REDIS_PENDING_MAX + 1, sizeof *many);
    assert_non_null(many);
    for (size_t i = 0; i < WEIR_REDIS_PENDING_MAX; i++)
        assert_int_equal(weir_pending_enter(&pending, &many[i], 100), WEIR_PENDING_ENTERED);
    struct weir_check *extra = &many[WEIR_REDIS_PENDING_MAX];
    assert_int_equal(weir_pending_enter(&pending, extra, 100), WEIR_PENDING_FULL);

    for (size_t i = 0; i < WEIR_REDIS_IN_FLIGHT_MAX; i++)
        assert_ptr_equal(weir_pending_send(&pending), &many[i]);
    assert_null(weir_pending_send(&pending));
    uint64_t left_us;
    assert_true(weir_pending_sleep(&pending, true, 0, &left_us)); /* only a reply helps now */

    /* Slots are used again and again, past the end of their ring. */
    for (size_t i = WEIR_REDIS_IN_FLIGHT_MAX; i < WEIR_REDIS_PENDING_MAX; i++) {
        assert_ptr_equal(replied(), &many[i - WEIR_REDIS_IN_FLIGHT_MAX]);
        assert_ptr_equal(weir_pending_send(&pending), &many[i]);
    }
    assert_int_equal(pending.count, WEIR_REDIS_IN_FLIGHT_MAX);

    /* A lost connection takes its slots along. */
    while (weir_pending_take_any(&pending) != NULL)
        continue;
    weir_pending_forget(&pending);
    struct weir_check *none;
    assert_int_equal(weir_pending_take_replied(&pending, &none), WEIR_PENDING_TO_NONE);
    free(many);
}

/* A cancel that comes while `done` runs returns after it. */

struct race {
    pthread_barrier_t taken;
    atomic_bool is_over;
};

static void *cancel_the_first(void *self)
{
    struct race *race = self;
    pthread_barrier_wait(&race->taken);
    assert_false(weir_pending_cancel(&pending, &checks[0], false));
    return atomic_load(&race->is_over) ? race : NULL;
}

static void waits_for_a_check_in_other_hands(void **state)
{
    (void)state;
    struct race race = { .is_over = false };
    pthread_barrier_init(&race.taken, NULL, 2);
    pthread_t thread;
    enter(1);
    assert_int_equal(pthread_create(&thread, NULL, cancel_the_first, &race), 0);
    assert_ptr_equal(weir_pending_take_any(&pending), &checks[0]);
    pthread_barrier_wait(&race.taken);
    for (bool waits = false; !waits;) {
        pthread_mutex_lock(&pending.mutex);
        waits = pending.waiting > 0;
        pthread_mutex_unlock(&pending.mutex);
    }
    atomic_store(&race.is_over, true); /* `done` would return here */
    assert_null(weir_pending_take_any(&pending));
    void *was_over;
    pthread_join(thread, &was_over);
    assert_non_null(was_over);
    pthread_barrier_destroy(&race.taken);
}

static void does_not_wait_for_itself(void **state)
{
    (void)state;
    enter(2);
    assert_ptr_equal(weir_pending_take_any(&pending), &checks[0]);
    assert_false(weir_pending_cancel(&pending, &checks[0], true));
    assert_true(weir_pending_cancel(&pending, &checks[1], true));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_list, finish_list)

static void keeps_replies_to_its_own_commands_apart(void **state)
{
    (void)state;
    enter(2);
    assert_ptr_equal(weir_pending_send(&pending), &checks[0]);
    assert_true(weir_pending_send_own(&pending));
    assert_ptr_equal(weir_pending_send(&pending), &checks[1]);
    struct weir_check *check;
    assert_ptr_equal(replied(), &checks[0]);
    assert_int_equal(weir_pending_take_replied(&pending, &check), WEIR_PENDING_TO_OWN);
    assert_null(check);
    assert_ptr_equal(replied(), &checks[1]);
    assert_int_equal(weir_pending_take_replied(&pending, &check), WEIR_PENDING_TO_NONE);
    assert_int_equal(pending.count, 0);
}

static void has_no_more_room_for_its_own_commands(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEIR_REDIS_IN_FLIGHT_MAX; i++)
        assert_true(weir_pending_send_own(&pending));
    assert_false(weir_pending_send_own(&pending));
    struct weir_check *check;
    assert_int_equal(weir_pending_take_replied(&pending, &check), WEIR_PENDING_TO_OWN);
    assert_true(weir_pending_send_own(&pending));
    weir_pending_forget(&pending);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(sends_and_matches_replies_in_order),
        CASE(ends_only_what_is_late),
        CASE(never_sends_what_was_ended_before),
        CASE(cancels_what_is_pending_once),
        CASE(sends_again_with_the_old_deadline),
        CASE(wakes_a_thread_that_sleeps_once),
        CASE(takes_nothing_while_nobody_is_there_to_ask),
        CASE(has_bounds),
        CASE(waits_for_a_check_in_other_hands),
        CASE(does_not_wait_for_itself),
        CASE(keeps_replies_to_its_own_commands_apart),
        CASE(has_no_more_room_for_its_own_commands),
    };
    return cmocka_run_group_tests_name("redis_pending", tests, NULL, NULL);
}
