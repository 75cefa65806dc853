#include "test.h"

#include "store/redis_voice.h"

#define SECOND UINT64_C(1000000)

static struct weir_redis_voice voice;

static int set_up(void **state)
{
    (void)state;
    return weir_voice_init(&voice) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    weir_voice_finish(&voice);
    return 0;
}

static void says_once_what_several_links_find(void **state)
{
    (void)state;
    uint64_t after_us = 0;
    assert_true(weir_voice_down(&voice, 7, "refused", 1 * SECOND));
    assert_false(weir_voice_down(&voice, 7, "5 timeouts", 2 * SECOND));
    assert_true(weir_voice_down(&voice, 8, "refused", 3 * SECOND)); /* another server */
    assert_int_equal(weir_voice_up(&voice, 7, false, 4 * SECOND, &after_us), WEIR_VOICE_QUIET);
    assert_int_equal(weir_voice_up(&voice, 7, false, 5 * SECOND, &after_us), WEIR_VOICE_SAY);
    assert_int_equal(after_us, 4 * SECOND);
    assert_int_equal(weir_voice_up(&voice, 8, false, 6 * SECOND, &after_us), WEIR_VOICE_SAY);
    assert_int_equal(after_us, 3 * SECOND);
}

static void says_each_reason_once(void **state)
{
    (void)state;
    assert_true(weir_voice_down(&voice, 7, "LOADING", 1 * SECOND));
    assert_false(weir_voice_reason(&voice, 7, "LOADING", 1 * SECOND));
    assert_true(weir_voice_reason(&voice, 7, "NOAUTH", 1 * SECOND));
    assert_false(weir_voice_reason(&voice, 7, "NOAUTH", 5 * SECOND));
    assert_false(weir_voice_reason(&voice, 7, "LOADING", 5 * SECOND)); /* they take turns */
    assert_false(weir_voice_reason(&voice, 9, "LOADING", 5 * SECOND)); /* that is not down */

    uint64_t after_us;
    weir_voice_up(&voice, 7, true, 6 * SECOND, &after_us);
    assert_true(weir_voice_down(&voice, 7, "NOAUTH", 7 * SECOND));
    assert_true(weir_voice_reason(&voice, 7, "LOADING", 7 * SECOND));
}

static void says_no_more_than_one_reason_a_second(void **state)
{
    (void)state;
    char why[20];
    size_t said = 0;
    assert_true(weir_voice_down(&voice, 7, "refused", 1 * SECOND));
    for (unsigned n = 0; n < 100; n++) { /* ten a second, each another one */
        snprintf(why, sizeof why, "reason %u", n);
        said += weir_voice_reason(&voice, 7, why, 1 * SECOND + n * SECOND / 10);
    }
    assert_int_equal(said, 10);
    /* What was left out is said when its time has come. */
    assert_true(weir_voice_reason(&voice, 7, "reason 99", 12 * SECOND));
}

static void says_once_for_all_links_that_a_server_does_not_count(void **state)
{
    (void)state;
    uint64_t after_us = 0;
    assert_true(weir_voice_failing(&voice, 7, true, "OOM", 1 * SECOND));
    assert_false(weir_voice_failing(&voice, 7, true, "NOPERM", 3 * SECOND)); /* another link */
    assert_true(weir_voice_failing(&voice, 7, false, "NOPERM", 3 * SECOND));
    assert_false(weir_voice_failing(&voice, 7, false, "NOPERM", 9 * SECOND));
    assert_false(weir_voice_counts(&voice, 7, 10 * SECOND, &after_us));
    assert_true(weir_voice_counts(&voice, 7, 11 * SECOND, &after_us));
    assert_int_equal(after_us, 10 * SECOND);
    assert_false(weir_voice_counts(&voice, 7, 12 * SECOND, &after_us));
    assert_false(weir_voice_counts(&voice, 8, 12 * SECOND, &after_us));

    assert_true(weir_voice_failing(&voice, 7, true, "OOM", 13 * SECOND));
    weir_voice_leave_failing(&voice, 7);
    weir_voice_leave_failing(&voice, 7);
    assert_true(weir_voice_failing(&voice, 7, true, "OOM", 14 * SECOND));
}

static void waits_before_it_says_again_that_a_server_answers(void **state)
{
    (void)state;
    uint64_t after_us = 0;
    weir_voice_down(&voice, 7, "refused", 1 * SECOND);
    assert_int_equal(weir_voice_up(&voice, 7, false, 2 * SECOND, &after_us), WEIR_VOICE_SAY);
    assert_true(weir_voice_down(&voice, 7, "refused", 2 * SECOND + 1));
    assert_int_equal(weir_voice_up(&voice, 7, false, 3 * SECOND - 1, &after_us), WEIR_VOICE_LATER);
    /* Another failure meanwhile is the same one for the log. */
    assert_int_equal(weir_voice_up(&voice, 7, true, 3 * SECOND - 1, &after_us), WEIR_VOICE_SAY);
    assert_int_equal(after_us, 1 * SECOND - 2);

    weir_voice_down(&voice, 7, "refused", 3 * SECOND);
    assert_int_equal(weir_voice_up(&voice, 7, false, 4 * SECOND, &after_us), WEIR_VOICE_SAY);
}

static void forgets_links_that_leave(void **state)
{
    (void)state;
    uint64_t after_us = 0;
    weir_voice_down(&voice, 7, "refused", 1 * SECOND);
    weir_voice_down(&voice, 7, "refused", 1 * SECOND);
    weir_voice_leave(&voice, 7);
    assert_int_equal(weir_voice_up(&voice, 7, false, 2 * SECOND, &after_us), WEIR_VOICE_SAY);
    weir_voice_leave(&voice, 7);
    weir_voice_leave(&voice, 9);
    assert_int_equal(weir_voice_up(&voice, 7, false, 2 * SECOND, &after_us), WEIR_VOICE_QUIET);
}

static void has_room_for_those_that_are_down(void **state)
{
    (void)state;
    uint64_t after_us = 0;
    for (uint64_t server = 1; server <= 3 * WEIR_VOICE_SERVERS_MAX; server++) {
        assert_true(weir_voice_down(&voice, server, "refused", server));
        assert_int_equal(weir_voice_up(&voice, server, true, server + 1, &after_us),
                         WEIR_VOICE_SAY);
    }
    for (uint64_t server = 1; server <= WEIR_VOICE_SERVERS_MAX; server++)
        assert_true(weir_voice_down(&voice, server, "refused", server));
    /* One more speaks for itself, and is not known afterwards. */
    assert_true(weir_voice_down(&voice, 1000, "refused", 1));
    assert_true(weir_voice_down(&voice, 1000, "refused", 2));
    assert_int_equal(weir_voice_up(&voice, 1000, true, 3, &after_us), WEIR_VOICE_QUIET);
    for (uint64_t server = 1; server <= WEIR_VOICE_SERVERS_MAX; server++)
        assert_int_equal(weir_voice_up(&voice, server, true, server + 1, &after_us),
                         WEIR_VOICE_SAY);
}

static void knows_servers_by_their_names(void **state)
{
    (void)state;
    assert_int_equal(weir_voice_name("127.0.0.1:6379"), weir_voice_name("127.0.0.1:6379"));
    assert_int_not_equal(weir_voice_name("127.0.0.1:6379"), weir_voice_name("127.0.0.1:6380"));
    assert_int_not_equal(weir_voice_name(""), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(says_once_what_several_links_find),
        CASE(says_each_reason_once),
        CASE(says_no_more_than_one_reason_a_second),
        CASE(says_once_for_all_links_that_a_server_does_not_count),
        CASE(waits_before_it_says_again_that_a_server_answers),
        CASE(forgets_links_that_leave),
        CASE(has_room_for_those_that_are_down),
        CASE(knows_servers_by_their_names),
    };
    return cmocka_run_group_tests_name("redis_voice", tests, NULL, NULL);
}
