#include "test.h"

#include "base/clock.h"
#include "store/steady_clock.h"

#define SECOND UINT64_C(1000000)

static uint64_t told_us;

static uint64_t read_told(void *self)
{
    (void)self;
    return told_us;
}

static void counts_steps_back_as_no_time(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t told_s, want_s;
    } rows[] = {
        { "the start", 1000, 1000 },
        { "time goes on", 1010, 1010 },
        { "no time", 1010, 1010 },
        { "two minutes back", 890, 1010 },
        { "it goes on from there", 900, 1020 },
        { "back once more", 100, 1020 },
        { "it goes on again", 101, 1021 },
        { "a jump ahead is believed", 5000, 5920 },
    };
    const struct weir_clock told = { .now_us = read_told };
    struct weir_steady_clock clock;
    assert_true(weir_steady_clock_init(&clock, &told));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        told_us = rows[i].told_s * SECOND;
        assert_int_equal(weir_steady_clock_now_us(&clock), rows[i].want_s * SECOND);
    }
    weir_steady_clock_finish(&clock);
}

static void follows_the_wall_clock_forward_only(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t anchor_s, monotonic_s, wall_ms, want_ms;
    } rows[] = {
        { "they agree", 1000, 50, 1050000, 1000000 },
        { "the wall clock is a little ahead", 1000, 50, 1051000, 1000000 },
        { "it is more than a second ahead", 1000, 50, 1051001, 1001001 },
        { "the machine slept for a day", 1000, 50, 87450000, 87400000 },
        { "the wall clock was set back", 1000, 50, 950000, 1000000 },
        { "the wall clock was set back to the epoch", 1000, 50, 0, 1000000 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        assert_int_equal(weir_steady_anchor(rows[i].anchor_s * SECOND, rows[i].monotonic_s * SECOND,
                                            rows[i].wall_ms * 1000),
                         rows[i].want_ms * 1000);
    }
}

static void starts_at_the_time_of_the_system(void **state)
{
    (void)state;
    struct weir_clock system = weir_clock_or_system(NULL);
    struct weir_steady_clock clock;
    assert_true(weir_steady_clock_init(&clock, NULL));
    uint64_t before_us = weir_clock_now_us(&system);
    uint64_t now_us = weir_steady_clock_now_us(&clock);
    assert_in_range(now_us, before_us - SECOND, before_us + SECOND);
    for (int n = 0; n < 1000; n++) {
        uint64_t next_us = weir_steady_clock_now_us(&clock);
        assert_true(next_us >= now_us);
        now_us = next_us;
    }
    weir_steady_clock_finish(&clock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_steps_back_as_no_time),
        cmocka_unit_test(follows_the_wall_clock_forward_only),
        cmocka_unit_test(starts_at_the_time_of_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
