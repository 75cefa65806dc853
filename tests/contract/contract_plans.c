/* Plans of several limits. */
#include "contract_cases.h"

/* Where limits differ in nothing but their kind, whichever refuses, first or last, alone or in a
 * group, the others are not charged. */
static void charges_all_or_nothing(void **state)
{
    (void)state;
    struct kind kinds[KINDS], small[KINDS];
    new_kinds(kinds, "all", 10, 366 * DAY);
    new_kinds(small, "small", 1, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        const struct weir_spend *refuses = &small[i].spend;
        assert_true(contract_spend(store, refuses).allowed);
        for (size_t other = 0; other < KINDS; other++)
            for (size_t place = 0; place < 2; place++) {
                const struct weir_spend *spares = &kinds[other].spend;
                struct contract_plan plan = { .check.count = 2 };
                plan.spends[place] = *refuses;
                plan.spends[1 - place] = *spares;
                submit_answered(store, &plan);
                assert_false(plan.answers[place].allowed);
                assert_true(plan.answers[1 - place].allowed);
                assert_int_equal(plan.answers[1 - place].remaining, 10);
                assert_int_equal(plan.answers[1 - place].wait_us, 0);
            }
    }
    for (size_t i = 0; i < KINDS; i++) {
        const struct weir_spend *spared = &kinds[i].spend;
        bool keeps_a_time = spared->from_first || spared->algorithm == WEIR_SLIDING_LOG;
        if (!factory->takes_parts || !keeps_a_time)
            assert_int_equal(look(spared).reset_us, 0);
    }
}

static void charges_every_limit_of_a_plan_that_passes(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "each", 10, 366 * DAY);
    for (size_t first = 0; first + WEIR_CHECK_LIMITS <= KINDS; first++) {
        struct contract_plan plan = { .check.count = WEIR_CHECK_LIMITS };
        for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++)
            plan.spends[i] = kinds[first + i].spend;
        uint64_t before[WEIR_CHECK_LIMITS];
        for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++)
            before[i] = look(&plan.spends[i]).remaining;
        submit_answered(store, &plan);
        for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++) {
            bool passes = plan.answers[i].allowed;
            assert_true(passes);
            assert_int_equal(plan.answers[i].remaining, before[i] - 1);
        }
    }
}

/* Rotates a mixed plan through all its orders of a kind. */
static void decides_eight_limits_as_one(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "eight", 40, 366 * DAY);
    for (size_t turn = 0; turn < WEIR_CHECK_LIMITS; turn++) {
        struct contract_plan plan = { .check.count = WEIR_CHECK_LIMITS };
        struct weir_spend group = contract_gcra("of-eight", 1, SECOND, 0);
        for (size_t i = 0; i < plan.check.count; i++) {
            struct weir_spend spend = kinds[2 * ((i + turn) % (KINDS / 2))].spend;
            /* Half of them in one group. */
            plan.spends[i] = in_group(&spend, i % 2 == 0 ? group.key : spend.key);
            if (i == turn)
                plan.spends[i] = changed(&plan.spends[i], 3, spend.rate.window_us, 0);
        }
        for (uint64_t n = 1; n <= 3; n++) {
            submit_answered(store, &plan);
            for (size_t i = 0; i < plan.check.count; i++) {
                assert_true(plan.answers[i].allowed);
                assert_int_equal(plan.answers[i].remaining, plan.spends[i].rate.limit - n);
            }
        }
        for (int n = 0; n < 5; n++)
            submit_answered(store, &plan);
        for (size_t i = 0; i < plan.check.count; i++) {
            assert_int_equal(plan.answers[i].allowed, i != turn);
            assert_int_equal(look(&plan.spends[i]).remaining, plan.spends[i].rate.limit - 3);
        }
    }
}

/* A cost of its own for each limit, a look among them. */
static void decides_each_limit_by_its_own_cost(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "own", 10, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        struct weir_spend looked = kinds[i].spend;
        struct weir_spend spent = kinds[(i + 1) % KINDS].spend;
        struct contract_plan plan = { .spends = { looked, spent }, .check.count = 2 };
        plan.spends[0].cost = 0;
        plan.spends[1].cost = 7;
        reset(&spent);
        uint64_t before = look(&looked).remaining;
        submit_answered(store, &plan);
        assert_int_equal(look(&looked).remaining, before);
        assert_int_equal(look(&spent).remaining, 3);

        submit_answered(store, &plan);
        assert_true(plan.answers[0].allowed);
        assert_false(plan.answers[1].allowed);
        assert_int_equal(look(&spent).remaining, 3);
    }
}

/* B3, D12: limits of different windows do not disturb each other, and each says its own wait. */
static void keeps_short_and_long_limits_apart(void **state)
{
    (void)state;
    need_time_of_ours();
    struct contract_plan plan = {
        .spends = { contract_window("short", 15, 15 * MINUTE), contract_window("long", 100, DAY) },
        .check.count = 2,
    };
    pass_until_left(DAY, DAY);
    unsigned through = 0;
    for (int round = 0; round < 7; round++) {
        for (int n = 0; n < 20; n++) {
            submit_answered(store, &plan);
            through += plan.answers[0].allowed && plan.answers[1].allowed;
        }
        if (round < 6)
            pass_us(15 * MINUTE);
    }
    assert_int_equal(through, 100);
    assert_int_equal(look(&plan.spends[0]).remaining, 5);
    assert_true(plan.answers[0].allowed);
    assert_false(plan.answers[1].allowed);
    assert_int_equal(plan.answers[1].retry_us, DAY - 90 * MINUTE);
}

static void refuses_a_plan_with_a_fault(void **state)
{
    (void)state;
    struct weir_spend good = contract_gcra("fault", 10, HOUR, 0);
    struct weir_spend no_key = good, long_key = good, unknown = good, no_rate = good;
    struct weir_spend long_group = good;
    static char long_text[WEIR_KEY_MAX + 1] = "k";
    no_key.key_length = 0;
    long_key.key = long_text;
    long_key.key_length = sizeof long_text;
    unknown.algorithm = (enum weir_algorithm)(WEIR_PENALTY + 1);
    no_rate.rate = (struct weir_rate){ .limit = 1 };
    long_group.group_length = good.key_length + 1;
    const struct {
        const char *what;
        struct contract_plan plan;
    } rows[] = {
        { "no limits", { .check.count = 0 } },
        { "too many limits", { .check.count = WEIR_CHECK_LIMITS + 1 } },
        { "an empty key", { .spends = { no_key }, .check.count = 1 } },
        { "a key too long", { .spends = { good, long_key }, .check.count = 2 } },
        { "an algorithm that there is not", { .spends = { unknown }, .check.count = 1 } },
        { "a rate of nothing", { .spends = { no_rate }, .check.count = 1 } },
        { "one key twice", { .spends = { good, good }, .check.count = 2 } },
        { "a group longer than its key", { .spends = { long_group }, .check.count = 1 } },
        { "a block of no length",
          { .spends = { good }, .check = { .operation = WEIR_BLOCK, .count = 1 } } },
        { "a block for ever",
          { .spends = { good },
            .check = { .operation = WEIR_BLOCK, .count = 1, .block_us = WEIR_BURST_MAX_US + 1 } } },
        { "an operation that there is not",
          { .spends = { good },
            .check = { .operation = (enum weir_operation)(WEIR_BLOCK + 1), .count = 1 } } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct contract_plan plan = rows[i].plan;
        contract_submit_plan(store, &plan);
        assert_int_equal(plan.check.result, WEIR_STORE_ERROR);
        assert_true(plan.check.why[0] != '\0');
    }
    assert_int_equal(look(&good).remaining, 10);
}

static void refuses_to_settle_what_cannot_have_been(void **state)
{
    (void)state;
    struct weir_spend good = contract_gcra("unsettled", 10, HOUR, 0);
    ask(&good, 5);
    static const struct {
        const char *what;
        uint64_t reserved, actual, decided_us, full_us;
    } rows[] = {
        { "more than there are units", WEIR_UNITS_MAX + 1, 1, 1, 2 },
        { "to more than there are units", 1, WEIR_UNITS_MAX + 1, 1, 2 },
        { "full before it was decided", 1, 0, 3, 2 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct contract_plan plan = { .spends = { good },
                                      .check = { .operation = WEIR_SETTLE, .count = 1 } };
        plan.spends[0].reserved = rows[i].reserved;
        plan.spends[0].cost = rows[i].actual;
        plan.spends[0].decided_us = rows[i].decided_us;
        plan.spends[0].full_us = rows[i].full_us;
        contract_submit_plan(store, &plan);
        assert_int_equal(plan.check.result, WEIR_STORE_ERROR);
        assert_true(plan.check.why[0] != '\0');
    }
}

static const struct CMUnitTest tests[] = {
    CASE(charges_all_or_nothing),
    CASE(charges_every_limit_of_a_plan_that_passes),
    CASE(decides_eight_limits_as_one),
    CASE(decides_each_limit_by_its_own_cost),
    CASE(keeps_short_and_long_limits_apart),
    CASE(refuses_a_plan_with_a_fault),
    CASE(refuses_to_settle_what_cannot_have_been),
};

const struct contract_group contract_plans = GROUP("plans", tests);
