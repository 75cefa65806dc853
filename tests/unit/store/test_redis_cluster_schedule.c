/* When a cluster's map is asked for. */
#include "store/redis_cluster_schedule.h"
#include "test.h"

#define SECOND UINT64_C(1000000)

static struct weir_cluster_schedule made(void)
{
    return (struct weir_cluster_schedule){ .random = 12345 };
}

static uint64_t pause_of(struct weir_cluster_schedule *schedule, uint64_t now_us)
{
    weir_cluster_schedule_pause(schedule, now_us);
    return weir_cluster_schedule_due_us(schedule) - now_us;
}

static void asks_at_once_at_the_start(void **state)
{
    (void)state;
    struct weir_cluster_schedule schedule = made();
    assert_int_equal(weir_cluster_schedule_due_us(&schedule), 0);
}

static void waits_for_who_is_asked(void **state)
{
    (void)state;
    struct weir_cluster_schedule schedule = made();
    weir_cluster_schedule_on_asked(&schedule, 7 * SECOND);
    weir_cluster_schedule_want(&schedule, SECOND);
    assert_int_equal(weir_cluster_schedule_due_us(&schedule), 7 * SECOND);
    weir_cluster_schedule_ask_now(&schedule, 2 * SECOND);
    assert_int_equal(weir_cluster_schedule_due_us(&schedule), 2 * SECOND);
}

static void doubles_its_pauses_up_to_half_a_second(void **state)
{
    (void)state;
    struct weir_cluster_schedule schedule = made();
    uint64_t whole_us = WEIR_CLUSTER_PAUSE_MIN_US;
    for (uint64_t i = 0; i < 10; i++) {
        assert_in_range(pause_of(&schedule, i * SECOND), whole_us / 2, whole_us);
        whole_us *= 2;
        if (whole_us > WEIR_CLUSTER_PAUSE_MAX_US)
            whole_us = WEIR_CLUSTER_PAUSE_MAX_US;
    }
}

static void asks_many_nodes_at_different_times(void **state)
{
    (void)state;
    struct weir_cluster_schedule one = made(), other = made();
    other.random = 54321;
    assert_int_not_equal(pause_of(&one, 0), pause_of(&other, 0));
}

static void reads_the_map_anew_about_every_fifteen_seconds(void **state)
{
    (void)state;
    struct weir_cluster_schedule schedule = made();
    weir_cluster_schedule_pause(&schedule, 0);
    uint64_t sum_us = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        weir_cluster_schedule_on_asked(&schedule, 101 * SECOND);
        weir_cluster_schedule_on_answer(&schedule, 100 * SECOND, 300);
        weir_cluster_schedule_on_well(&schedule, 100 * SECOND);
        uint64_t lasts_us = weir_cluster_schedule_due_us(&schedule) - 100 * SECOND;
        assert_in_range(lasts_us, 9 * SECOND, 19 * SECOND);
        sum_us += lasts_us;
    }
    assert_in_range(sum_us / 1000, 13 * SECOND, 15 * SECOND);
    /* All is well: the next pause is a short one again. */
    assert_in_range(pause_of(&schedule, 0), 1, WEIR_CLUSTER_PAUSE_MIN_US);
}

static void asks_soon_when_something_says_that_the_map_is_old(void **state)
{
    (void)state;
    const struct {
        uint64_t read_us, wanted_after_us, asks_after_us;
    } rows[] = {
        { 300, 0, WEIR_CLUSTER_PAUSE_MIN_US },
        { 300, 10000, WEIR_CLUSTER_PAUSE_MIN_US },
        { 300, 2 * SECOND, 2 * SECOND },
        { 5000, 0, 100000 }, /* a large map */
        { 5000, 99999, 100000 },
        { 5000, 100001, 100001 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_cluster_schedule schedule = made();
        weir_cluster_schedule_on_answer(&schedule, 50 * SECOND, rows[i].read_us);
        weir_cluster_schedule_on_well(&schedule, 50 * SECOND);
        weir_cluster_schedule_want(&schedule, 50 * SECOND + rows[i].wanted_after_us);
        weir_cluster_schedule_want(&schedule, 50 * SECOND + rows[i].wanted_after_us + 1);
        assert_int_equal(weir_cluster_schedule_due_us(&schedule) - 50 * SECOND,
                         rows[i].asks_after_us);
    }
}

static void does_not_cut_a_pause_short(void **state)
{
    (void)state;
    struct weir_cluster_schedule schedule = made();
    weir_cluster_schedule_on_answer(&schedule, 0, 0);
    uint64_t pause_us = pause_of(&schedule, SECOND);
    weir_cluster_schedule_want(&schedule, SECOND);
    assert_int_equal(weir_cluster_schedule_due_us(&schedule), SECOND + pause_us);
}

/* What happened while the map was on its way is not in it. */
static void asks_again_for_what_came_up_meanwhile(void **state)
{
    (void)state;
    struct weir_cluster_schedule schedule = made();
    weir_cluster_schedule_on_asked(&schedule, 2 * SECOND);
    weir_cluster_schedule_want(&schedule, SECOND);
    weir_cluster_schedule_on_answer(&schedule, SECOND, 300);
    weir_cluster_schedule_on_well(&schedule, SECOND);
    assert_int_equal(weir_cluster_schedule_due_us(&schedule), SECOND + WEIR_CLUSTER_PAUSE_MIN_US);
    /* …but not a second time. */
    weir_cluster_schedule_on_asked(&schedule, 3 * SECOND);
    weir_cluster_schedule_on_answer(&schedule, 2 * SECOND, 300);
    weir_cluster_schedule_on_well(&schedule, 2 * SECOND);
    assert_true(weir_cluster_schedule_due_us(&schedule) >= 9 * SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_at_once_at_the_start),
        cmocka_unit_test(waits_for_who_is_asked),
        cmocka_unit_test(doubles_its_pauses_up_to_half_a_second),
        cmocka_unit_test(asks_many_nodes_at_different_times),
        cmocka_unit_test(reads_the_map_anew_about_every_fifteen_seconds),
        cmocka_unit_test(asks_soon_when_something_says_that_the_map_is_old),
        cmocka_unit_test(does_not_cut_a_pause_short),
        cmocka_unit_test(asks_again_for_what_came_up_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
