#include "test.h"

#include <time.h>

#include "store/redis_pending.h"

static struct weir_pending pending;
static struct weir_check checks[8];

/* Those of a link. */
static struct weir_redis_commands waiting, under_way;

#define LINK 3

static int open_list(void **state)
{
    (void)state;
    memset(checks, 0, sizeof checks);
    memset(&pending, 0, sizeof pending);
    assert_true(weir_pending_init(&pending));
    weir_pending_accept(&pending, true);
    weir_commands_init(&waiting, WEIR_REDIS_PENDING_MAX, LINK, true);
    weir_commands_init(&under_way, WEIR_REDIS_IN_FLIGHT_MAX, LINK, false);
    return 0;
}

static int finish_list(void **state)
{
    (void)state;
    weir_commands_finish(&waiting);
    weir_commands_finish(&under_way);
    weir_pending_finish(&pending);
    return 0;
}

/* Enters the first `count` checks with deadlines 100, 101, … */
static void enter(size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(weir_pending_enter(&pending, &checks[i], 100 + i), WEIR_PENDING_ENTERED);
}

/* The next check that nobody has sent, put at the end of a row; NULL: there is none. */
static const struct weir_check *put_next(struct weir_redis_commands *row)
{
    struct weir_redis_command command;
    if (!weir_pending_lift(&pending, &pending.unsent, &command))
        return NULL;
    assert_int_equal(command.link, WEIR_REDIS_NO_LINK);
    assert_true(weir_pending_put(&pending, row, &command));
    return command.check;
}

/* The first check that waits, moved to those under way; NULL: there is none, or no room. */
static const struct weir_check *move_next(void)
{
    struct weir_redis_command command;
    if (weir_pending_lift_for(&pending, &waiting, &under_way, &command, 1) == 0)
        return NULL;
    assert_true(weir_pending_put(&pending, &under_way, &command));
    return command.check;
}

static const struct weir_check *send_next(void)
{
    return put_next(&under_way);
}

static void send_all(size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_ptr_equal(send_next(), &checks[i]);
    assert_null(send_next());
}

static const struct weir_check *replied(void)
{
    struct weir_redis_command command;
    assert_true(weir_pending_take_replied(&pending, &under_way, &command));
    assert_int_equal(command.kind, WEIR_REDIS_CHECK);
    return command.check;
}

static void assert_no_more_replies(void)
{
    struct weir_redis_command command;
    assert_false(weir_pending_take_replied(&pending, &under_way, &command));
}

/* NULL: none is late. */
static const struct weir_check *late(uint64_t now_us)
{
    struct weir_redis_command command;
    return weir_pending_take_late(&pending, now_us, &command) ? command.check : NULL;
}

static void sends_and_matches_replies_in_order(void **state)
{
    (void)state;
    enter(3);
    send_all(3);
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(replied(), &checks[i]);
    assert_no_more_replies();
    assert_int_equal(pending.count, 0);
}

static void ends_only_what_is_late(void **state)
{
    (void)state;
    enter(3);
    send_all(3);
    assert_null(late(99));
    assert_ptr_equal(late(101), &checks[0]);
    assert_ptr_equal(late(101), &checks[1]);
    assert_null(late(101));
    /* The late replies find nothing, and the third finds its own. */
    assert_null(replied());
    assert_null(replied());
    assert_ptr_equal(replied(), &checks[2]);
}

static void never_sends_what_was_ended_before(void **state)
{
    (void)state;
    enter(4);
    assert_ptr_equal(send_next(), &checks[0]);
    assert_true(weir_pending_cancel(&pending, &checks[1], false));
    assert_ptr_equal(late(100), &checks[0]);
    assert_ptr_equal(send_next(), &checks[2]);
    assert_ptr_equal(late(102), &checks[2]);
    assert_ptr_equal(send_next(), &checks[3]);
    assert_null(send_next());
    assert_null(replied());
    assert_null(replied());
    assert_ptr_equal(replied(), &checks[3]);
}

static void cancels_what_is_pending_once(void **state)
{
    (void)state;
    enter(3);
    assert_ptr_equal(send_next(), &checks[0]);
    assert_null(late(0)); /* lays the first one down */
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
        send_next();
    for (size_t i = 0; i < 2; i++) {
        struct weir_redis_command command;
        assert_true(weir_pending_take_replied(&pending, &under_way, &command));
        weir_pending_put_back(&pending, command.check);
        assert_true(weir_pending_put(&pending, &under_way, &command));
    }
    assert_ptr_equal(send_next(), &checks[3]);
    /* Deadlines still come in order, replies in the order of sending. */
    assert_ptr_equal(late(100), &checks[0]);
    assert_null(late(100));
    assert_ptr_equal(replied(), &checks[2]);
    assert_null(replied());
    assert_ptr_equal(replied(), &checks[1]);
    assert_ptr_equal(replied(), &checks[3]);
    assert_int_equal(pending.count, 0);
}

static void hands_out_anew_what_was_put_back(void **state)
{
    (void)state;
    enter(2);
    send_all(2);
    struct weir_redis_command command;
    assert_true(weir_pending_take_replied(&pending, &under_way, &command));
    command.repeats = 4;
    weir_pending_put_back(&pending, command.check);
    assert_true(weir_pending_put(&pending, &pending.unsent, &command));

    uint64_t left_us;
    assert_false(weir_pending_sleep(&pending, 50, &left_us));
    assert_int_equal(left_us, 50);
    assert_true(weir_pending_lift(&pending, &pending.unsent, &command));
    assert_ptr_equal(command.check, &checks[0]);
    assert_int_equal(command.repeats, 4);
    weir_pending_take_held(&pending);
    assert_int_equal(pending.count, 1);
    assert_ptr_equal(late(200), &checks[1]);
    assert_null(late(200));
}

static void keeps_deadlines_in_order_whatever_comes(void **state)
{
    (void)state;
    static const uint64_t deadlines[] = { 500, 300, 400, 300, 600, 100 };
    static const size_t order[] = { 5, 1, 3, 2, 0, 4 };
    for (size_t i = 0; i < COUNT_OF(deadlines); i++)
        assert_int_equal(weir_pending_enter(&pending, &checks[i], deadlines[i]),
                         WEIR_PENDING_ENTERED);
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        assert_null(late(deadlines[order[i]] - 1));
        assert_ptr_equal(late(deadlines[order[i]]), &checks[order[i]]);
    }
}

static uint64_t deadline_of(const struct weir_check *check)
{
    return (uint64_t)(uintptr_t)check->store[WEIR_CHECK_DEADLINE];
}

/* Whoever cancels a check may free it at once. */
static void cancel_and_forget(struct weir_check *check)
{
    if (check == NULL)
        return;
    assert_true(weir_pending_cancel(&pending, check, true));
    memset(check, 0xa5, sizeof *check);
}

/* Checks of any deadline that come, are put back, and end out of turn. */
static void keeps_deadlines_in_order_whatever_is_put_back(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    struct weir_check *many = calloc(COUNT, sizeof *many);
    assert_non_null(many);
    uint64_t chance = 12345;
    struct weir_redis_command command;
    for (size_t i = 0; i < COUNT; i++) {
        chance = chance * UINT64_C(6364136223846793005) + 1442695040888963407u;
        weir_pending_enter(&pending, &many[i], 1000 + (chance >> 33) % 100);
        assert_ptr_equal(put_next(&under_way), &many[i]);
        if ((chance >> 40) % 4 == 0)
            cancel_and_forget(pending.first);
        if ((chance >> 42) % 2 == 0 && weir_pending_take_replied(&pending, &under_way, &command)
            && command.check != NULL) {
            if ((chance >> 50) % 2 == 0)
                cancel_and_forget(pending.behind);
            weir_pending_put_back(&pending, command.check);
            assert_true(weir_pending_put(&pending, &under_way, &command));
        }
    }
    assert_in_range(pending.count, 50, COUNT);
    uint64_t before_us = 0;
    for (const struct weir_check *check; (check = late(2000)) != NULL;) {
        assert_true(deadline_of(check) >= before_us);
        before_us = deadline_of(check);
    }
    assert_int_equal(pending.count, 0);
    free(many);
}

static uint64_t processor_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Thousands wait at a link that hangs, older than those of another link, and younger ones come. A
 * search through all of them would take a hundred times as long as is allowed here. */
static void finds_the_place_of_what_is_put_back_among_many(void **state)
{
    (void)state;
    enum { OLDER = 25000, COUNT = 4000, YOUNGER = 25000, ALL = OLDER + COUNT + YOUNGER };
    struct weir_check *many = calloc(ALL, sizeof *many), *parts = calloc(COUNT, sizeof *parts);
    assert_non_null(many);
    assert_non_null(parts);
    for (size_t i = 0; i < ALL; i++) {
        weir_pending_enter(&pending, &many[i], 1000 + i);
        put_next(i < OLDER || i >= OLDER + COUNT ? &waiting : &under_way);
    }
    uint64_t start_us = processor_us();
    for (size_t i = 0; i < COUNT; i++) {
        struct weir_redis_command command;
        assert_true(weir_pending_take_replied(&pending, &under_way, &command));
        weir_pending_put_back(&pending, command.check);
        assert_true(weir_pending_put(&pending, &under_way, &command));
        /* The second part of a plan has the first one's deadline. */
        weir_pending_enter(&pending, &parts[i], deadline_of(command.check));
    }
    assert_in_range(processor_us() - start_us, 0, 300000);
    assert_int_equal(pending.count, ALL + COUNT);
    free(many);
    free(parts);
}

static void tells_whether_any_is_late(void **state)
{
    (void)state;
    assert_false(weir_pending_is_late(&pending, 1000));
    enter(2);
    assert_false(weir_pending_is_late(&pending, 99));
    assert_true(weir_pending_is_late(&pending, 100));
    assert_int_equal(pending.count, 2);
}

/* Whoever cancels a check waits for `done`, whatever else its thread does before. */
static void keeps_hold_of_a_check_while_it_is_told_of_others(void **state)
{
    (void)state;
    enter(1);
    send_all(1);
    assert_ptr_equal(replied(), &checks[0]);
    weir_pending_accept(&pending, false);
    assert_false(weir_pending_is_late(&pending, 50));
    weir_pending_forget(&pending, &waiting);
    assert_int_equal(pending.held_count, 1);
    assert_ptr_equal(pending.held[0], &checks[0]);
}

static void says_over_which_link_a_late_check_went(void **state)
{
    (void)state;
    enter(3);
    assert_ptr_equal(put_next(&under_way), &checks[0]);
    assert_ptr_equal(put_next(&waiting), &checks[1]);
    static const uint16_t links[] = { LINK, LINK, WEIR_REDIS_NO_LINK };
    for (size_t i = 0; i < COUNT_OF(links); i++) {
        struct weir_redis_command command;
        assert_true(weir_pending_take_late(&pending, 200, &command));
        assert_ptr_equal(command.check, &checks[i]);
        assert_int_equal(command.link, links[i]);
    }
}

static void writes_what_waits_in_order(void **state)
{
    (void)state;
    enter(5);
    for (size_t i = 0; i < 5; i++)
        put_next(&waiting);
    assert_true(weir_pending_cancel(&pending, &checks[0], false));
    assert_true(weir_pending_cancel(&pending, &checks[2], false));
    static const size_t order[] = { 1, 3, 4 };
    for (size_t i = 0; i < COUNT_OF(order); i++)
        assert_ptr_equal(move_next(), &checks[order[i]]);
    assert_null(move_next());
    assert_int_equal(weir_commands_count(&under_way), 3);
    for (size_t i = 0; i < COUNT_OF(order); i++)
        assert_ptr_equal(replied(), &checks[order[i]]);
}

/* Several for one call, of which the first place says how many there are. */
static void lifts_many_at_once(void **state)
{
    (void)state;
    enter(6);
    for (size_t i = 0; i < 6; i++)
        put_next(&waiting);
    assert_true(weir_pending_cancel(&pending, &checks[1], false));
    struct weir_redis_command lifted[8];
    assert_int_equal(weir_pending_lift_for(&pending, &waiting, &under_way, lifted, 3), 3);
    static const size_t order[] = { 0, 2, 3 };
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(lifted[i].check, &checks[order[i]]);
        lifted[i].checks = i == 0 ? 3 : 0;
        assert_true(weir_pending_put(&pending, &under_way, &lifted[i]));
    }
    assert_int_equal(under_way.calls, 1);
    assert_int_equal(weir_pending_lift_for(&pending, &waiting, &under_way, lifted, 8), 2);
    for (size_t i = 0; i < 2; i++) {
        lifted[i].checks = 1;
        assert_true(weir_pending_put(&pending, &under_way, &lifted[i]));
    }
    assert_int_equal(under_way.calls, 3);
    assert_int_equal(weir_pending_lift_for(&pending, &waiting, &under_way, lifted, 8), 0);

    /* One that ends meanwhile leaves its place behind. */
    assert_true(weir_pending_cancel(&pending, &checks[2], false));
    static const struct weir_check *const replies[] = { &checks[0], NULL, &checks[3], &checks[4] };
    for (size_t i = 0; i < 4; i++)
        assert_ptr_equal(replied(), replies[i]);
    assert_int_equal(under_way.calls, 1);
    weir_pending_forget(&pending, &under_way);
    assert_int_equal(under_way.calls, 0);
    assert_true(weir_pending_cancel(&pending, &checks[5], false));
}

/* Each check may come with a question of the store's own, such as for its script's hash. */
static void lifts_no_more_than_there_is_room_for(void **state)
{
    (void)state;
    static const struct {
        size_t limit, own, want;
    } rows[] = { { 64, 0, 8 },  { 64, 48, 8 }, { 64, 56, 4 }, { 64, 61, 2 },
                 { 64, 63, 1 }, { 64, 64, 0 }, { 0, 0, 0 } };
    const struct weir_redis_command own = { .kind = WEIR_REDIS_HASH };
    for (size_t n = 0; n < COUNT_OF(rows); n++) {
        struct weir_redis_commands row;
        struct weir_redis_command lifted[8];
        weir_commands_init(&row, rows[n].limit, LINK, false);
        for (size_t i = 0; i < rows[n].own; i++)
            assert_true(weir_pending_put(&pending, &row, &own));
        enter(8);
        for (size_t i = 0; i < 8; i++)
            put_next(&waiting);
        assert_int_equal(weir_pending_lift_for(&pending, &waiting, &row, lifted, 8), rows[n].want);
        for (size_t i = 0; i < 8; i++)
            assert_true(weir_pending_cancel(&pending, &checks[i], true));
        weir_commands_finish(&row);
    }
}

static void ends_a_row_without_its_questions(void **state)
{
    (void)state;
    enter(4);
    const struct weir_redis_command own = { .kind = WEIR_REDIS_PING };
    assert_ptr_equal(send_next(), &checks[0]);
    assert_true(weir_pending_put(&pending, &under_way, &own));
    assert_ptr_equal(send_next(), &checks[1]);
    assert_ptr_equal(put_next(&waiting), &checks[2]);
    struct weir_redis_command command;
    size_t at = under_way.first;
    for (size_t i = 0; i < 2; i++) {
        assert_true(weir_pending_take_from(&pending, &under_way, &at, &command));
        assert_ptr_equal(command.check, &checks[i]);
    }
    assert_false(weir_pending_take_from(&pending, &under_way, &at, &command));
    assert_int_equal(pending.count, 2);
    assert_null(replied());
    assert_true(weir_pending_take_replied(&pending, &under_way, &command));
    assert_int_equal(command.kind, WEIR_REDIS_PING);
}

static void takes_two_replies_for_a_check_behind_asking(void **state)
{
    (void)state;
    enter(2);
    struct weir_redis_command command;
    assert_true(weir_pending_lift(&pending, &pending.unsent, &command));
    command.how = WEIR_REDIS_WITH_ASKING | WEIR_REDIS_OWES_ASKING;
    assert_true(weir_pending_put(&pending, &under_way, &command));
    assert_ptr_equal(send_next(), &checks[1]);

    assert_true(weir_pending_take_replied(&pending, &under_way, &command));
    assert_int_equal(command.kind, WEIR_REDIS_ASKING);
    assert_null(command.check);
    assert_true(weir_pending_take_replied(&pending, &under_way, &command));
    assert_ptr_equal(command.check, &checks[0]);
    assert_int_equal(command.how, WEIR_REDIS_WITH_ASKING); /* should it be sent again */
    assert_ptr_equal(replied(), &checks[1]);
}

static void wakes_a_thread_that_sleeps_once(void **state)
{
    (void)state;
    uint64_t left_us;
    assert_true(weir_pending_sleep(&pending, 50, &left_us));
    assert_int_equal(left_us, UINT64_MAX);
    assert_int_equal(weir_pending_enter(&pending, &checks[0], 100), WEIR_PENDING_MUST_WAKE);
    assert_int_equal(weir_pending_enter(&pending, &checks[1], 101), WEIR_PENDING_ENTERED);

    /* There is something to send. */
    assert_false(weir_pending_sleep(&pending, 50, &left_us));
    assert_int_equal(left_us, 50);
    send_all(2); /* it is awake by itself */
    assert_int_equal(weir_pending_enter(&pending, &checks[2], 102), WEIR_PENDING_ENTERED);
    assert_ptr_equal(put_next(&waiting), &checks[2]);
    assert_true(weir_pending_sleep(&pending, 150, &left_us));
    assert_int_equal(left_us, 0);

    assert_true(weir_pending_stop(&pending));
    assert_true(weir_pending_stops(&pending));
    assert_false(weir_pending_sleep(&pending, 50, &left_us));
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

    /* They all may wait, but not all may be under way. */
    for (size_t i = 0; i < WEIR_REDIS_PENDING_MAX; i++)
        assert_ptr_equal(put_next(&waiting), &many[i]);
    for (size_t i = 0; i < WEIR_REDIS_IN_FLIGHT_MAX; i++)
        assert_ptr_equal(move_next(), &many[i]);
    assert_null(move_next());

    /* Places are used again and again. */
    for (size_t i = WEIR_REDIS_IN_FLIGHT_MAX; i < WEIR_REDIS_PENDING_MAX; i++) {
        assert_ptr_equal(replied(), &many[i - WEIR_REDIS_IN_FLIGHT_MAX]);
        assert_ptr_equal(move_next(), &many[i]);
    }
    assert_int_equal(pending.count, WEIR_REDIS_IN_FLIGHT_MAX);

    /* A lost connection takes what was under way along. */
    while (weir_pending_take_any(&pending) != NULL)
        continue;
    weir_pending_forget(&pending, &under_way);
    assert_no_more_replies();
    free(many);
}

/* A cancel that comes while `done` runs returns after it. */

struct race {
    pthread_barrier_t taken;
    atomic_bool is_over;
};

static void wait_for_cancel(void)
{
    for (bool waits = false; !waits;) {
        pthread_mutex_lock(&pending.mutex);
        waits = pending.waiting > 0;
        pthread_mutex_unlock(&pending.mutex);
    }
}

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
    wait_for_cancel();
    atomic_store(&race.is_over, true); /* `done` would return here */
    assert_null(weir_pending_take_any(&pending));
    void *was_over;
    pthread_join(thread, &was_over);
    assert_non_null(was_over);
    pthread_barrier_destroy(&race.taken);
}

static void *cancel_the_third(void *self)
{
    struct race *race = self;
    pthread_barrier_wait(&race->taken);
    assert_true(weir_pending_cancel(&pending, &checks[2], false));
    return atomic_load(&race->is_over) ? race : NULL;
}

/* Whoever cancels a check may free it, and its keys with it, at once. */
static void waits_for_each_of_many_that_are_written(void **state)
{
    (void)state;
    struct race race = { .is_over = false };
    struct weir_redis_command lifted[3];
    pthread_barrier_init(&race.taken, NULL, 2);
    pthread_t thread;
    enter(3);
    for (size_t i = 0; i < 3; i++)
        put_next(&waiting);
    assert_int_equal(pthread_create(&thread, NULL, cancel_the_third, &race), 0);
    assert_int_equal(weir_pending_lift_for(&pending, &waiting, &under_way, lifted, 3), 3);
    pthread_barrier_wait(&race.taken);
    wait_for_cancel();
    for (size_t i = 0; i < 3; i++)
        assert_true(weir_pending_put(&pending, &under_way, &lifted[i]));
    atomic_store(&race.is_over, true); /* the command is written */
    uint64_t left_us;
    weir_pending_sleep(&pending, 0, &left_us);
    void *was_over;
    pthread_join(thread, &was_over);
    assert_non_null(was_over);
    assert_ptr_equal(replied(), &checks[0]);
    assert_ptr_equal(replied(), &checks[1]);
    assert_null(replied());
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
    const struct weir_redis_command own = { .kind = WEIR_REDIS_HASH };
    assert_ptr_equal(send_next(), &checks[0]);
    assert_true(weir_pending_put(&pending, &under_way, &own));
    assert_ptr_equal(send_next(), &checks[1]);
    struct weir_redis_command command;
    assert_ptr_equal(replied(), &checks[0]);
    assert_true(weir_pending_take_replied(&pending, &under_way, &command));
    assert_int_equal(command.kind, WEIR_REDIS_HASH);
    assert_null(command.check);
    assert_ptr_equal(replied(), &checks[1]);
    assert_no_more_replies();
    assert_int_equal(pending.count, 0);
}

static void has_no_more_room_for_its_own_commands(void **state)
{
    (void)state;
    const struct weir_redis_command own = { .kind = WEIR_REDIS_HASH };
    for (size_t i = 0; i < WEIR_REDIS_IN_FLIGHT_MAX; i++)
        assert_true(weir_pending_put(&pending, &under_way, &own));
    assert_false(weir_pending_put(&pending, &under_way, &own));
    struct weir_redis_command command;
    assert_true(weir_pending_take_replied(&pending, &under_way, &command));
    assert_true(weir_pending_put(&pending, &under_way, &own));
    weir_pending_forget(&pending, &under_way);
}

/* Checks that come and end while a link takes nothing must not fill the row of those that wait. */
static void forgets_those_that_ended_while_they_waited(void **state)
{
    (void)state;
    enter(1);
    put_next(&waiting);
    for (size_t n = 0; n < 4 * WEIR_REDIS_PENDING_MAX; n++) {
        assert_int_equal(weir_pending_enter(&pending, &checks[1], 200), WEIR_PENDING_ENTERED);
        assert_ptr_equal(put_next(&waiting), &checks[1]);
        assert_true(weir_pending_cancel(&pending, &checks[1], true));
    }
    assert_in_range(waiting.capacity, 1, 64);
    assert_in_range(pending.unsent.capacity, 1, 64);
    assert_ptr_equal(move_next(), &checks[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(sends_and_matches_replies_in_order),
        CASE(ends_only_what_is_late),
        CASE(never_sends_what_was_ended_before),
        CASE(cancels_what_is_pending_once),
        CASE(sends_again_with_the_old_deadline),
        CASE(hands_out_anew_what_was_put_back),
        CASE(keeps_deadlines_in_order_whatever_comes),
        CASE(keeps_deadlines_in_order_whatever_is_put_back),
        CASE(finds_the_place_of_what_is_put_back_among_many),
        CASE(tells_whether_any_is_late),
        CASE(keeps_hold_of_a_check_while_it_is_told_of_others),
        CASE(says_over_which_link_a_late_check_went),
        CASE(writes_what_waits_in_order),
        CASE(lifts_many_at_once),
        CASE(lifts_no_more_than_there_is_room_for),
        CASE(ends_a_row_without_its_questions),
        CASE(takes_two_replies_for_a_check_behind_asking),
        CASE(wakes_a_thread_that_sleeps_once),
        CASE(takes_nothing_while_nobody_is_there_to_ask),
        CASE(has_bounds),
        CASE(waits_for_a_check_in_other_hands),
        CASE(waits_for_each_of_many_that_are_written),
        CASE(does_not_wait_for_itself),
        CASE(keeps_replies_to_its_own_commands_apart),
        CASE(has_no_more_room_for_its_own_commands),
        CASE(forgets_those_that_ended_while_they_waited),
    };
    return cmocka_run_group_tests_name("redis_pending", tests, NULL, NULL);
}
