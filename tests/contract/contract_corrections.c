/* What is settled, reset and blocked. */
#include "contract_cases.h"

/* Settled at once, each kind gives back or takes exactly the difference. */
static void settles_to_what_it_cost(void **state)
{
    (void)state;
    static const uint64_t actual[] = { 0, 1, 4, 5, 6, 9 };
    for (size_t n = 0; n < COUNT_OF(actual); n++) {
        struct kind kinds[KINDS];
        new_kinds(kinds, "settled", 10, 366 * DAY);
        for (size_t i = 0; i < KINDS; i++) {
            struct weir_spend spend = kinds[i].spend;
            assert_true(ask(&spend, 1).allowed);
            spend_to_settle(&spend, 5);
            settle(&spend, actual[n]);
            if (look(&spend).remaining != 9 - actual[n])
                fail_msg("%s: %u left after 1 and 5 settled to %u", kinds[i].name,
                         (unsigned)look(&spend).remaining, (unsigned)actual[n]);
        }
    }
}

/* Never above the capacity, and (C30) never below nothing. */
static void settles_within_the_limit(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "within", 10, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        struct weir_spend spend = kinds[i].spend;
        spend_to_settle(&spend, 3);
        settle(&spend, WEIR_UNITS_MAX);
        assert_int_equal(look(&spend).remaining, 0);
        if (time_is_ours())
            assert_in_range(look(&spend).reset_us, 1, 2 * spend.rate.window_us);

        reset(&spend);
        spend_to_settle(&spend, 2);
        settle(&spend, 0);
        settle(&spend, 0);
        assert_int_equal(look(&spend).remaining, 10);
        /* Ten pass, and no eleventh. */
        assert_true(ask(&spend, 10).allowed);
        assert_false(ask(&spend, 1).allowed);
    }
}

/* The state of the one, of which far more is missing than it holds now, is kept with that of the
 * other. */
static void settles_beside_a_limit_that_was_lowered(void **state)
{
    (void)state;
    for (int has_parts = 0; has_parts < 2; has_parts++) {
        struct weir_spend tokens = new_spend("lowered", WEIR_TOKEN_BUCKET, 5, SECOND, 70000000);
        struct weir_spend other = new_spend("lowered", WEIR_GCRA, 10, 366 * DAY, 0);
        tokens = in_group(&tokens, has_parts ? "parts" : "whole");
        other = in_group(&other, has_parts ? "parts" : "whole");
        assert_true(ask(&tokens, 70000000).allowed);
        spend_to_settle(&other, 3);
        struct contract_plan plan = { .check = { .operation = WEIR_SETTLE, .count = 2 } };
        /* An interval of whole µs, or with a half. */
        plan.spends[0] = changed(&tokens, has_parts ? 2 : 1, 366 * DAY - (uint64_t)has_parts, 2);
        plan.spends[0].cost = 0;
        plan.spends[1] = other;
        plan.spends[1].cost = 1;
        submit_answered(store, &plan);
        assert_int_equal(look(&other).remaining, 9);
    }
}

/* A row: 6 of 10 a minute (a unit comes each 6 s), settled to `actual` after `after_us`; then so much
 * is left, and so long it takes until all is there. */
static void settles_what_time_has_not_earned_back(void **state)
{
    (void)state;
    need_time_of_ours();
    static const struct {
        uint64_t after_us, actual, remaining, reset_us;
    } rows[] = {
        { 0, 6, 4, 36 * SECOND },           { 12 * SECOND, 6, 6, 24 * SECOND },
        { 12 * SECOND, 4, 8, 12 * SECOND }, /* two more than needed come back  */
        { 12 * SECOND, 2, 10, 0 },          /* four, of which time has earned all there were */
        { 12 * SECOND, 0, 10, 0 },          { 12 * SECOND, 8, 4, 36 * SECOND },
        { 36 * SECOND, 0, 10, 0 },          { 36 * SECOND, 8, 8, 12 * SECOND },
        { 42 * SECOND, 8, 9, 6 * SECOND }, /* of two more, one was earned meanwhile */
        { 48 * SECOND, 8, 10, 0 },          { 100 * SECOND, 10, 10, 0 },
        { 45 * SECOND, 8, 9, 3 * SECOND },
    };
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_TOKEN_BUCKET,
                                                      WEIR_LEAKY_BUCKET };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t n = 0; n < COUNT_OF(algorithms); n++) {
            print_message("    row %zu of algorithm %zu\n", i, n);
            struct weir_spend spend = new_spend("earned", algorithms[n], 10, MINUTE, 0);
            spend_to_settle(&spend, 6);
            pass_us(rows[i].after_us);
            settle(&spend, rows[i].actual);
            struct weir_answer answer = look(&spend);
            assert_int_equal(answer.remaining, rows[i].remaining);
            assert_int_equal(answer.reset_us, rows[i].reset_us);
        }
}

/* Never into the next window. */
static void settles_only_in_the_window_of_the_spending(void **state)
{
    (void)state;
    need_time_of_ours();
    struct weir_spend windows[] = { contract_window("next", 10, MINUTE),
                                    window_from_first("next", 10, MINUTE),
                                    new_spend("next", WEIR_SLIDING_LOG, 10, MINUTE, 0) };
    for (size_t i = 0; i < COUNT_OF(windows); i++) {
        struct weir_spend spend = windows[i];
        pass_until_left(MINUTE, 30 * SECOND);
        spend_to_settle(&spend, 6);
        pass_us(29 * SECOND);
        settle(&spend, 2);
        assert_int_equal(look(&spend).remaining, 8);

        pass_us(2 * MINUTE);
        spend_to_settle(&spend, 6);
        pass_us(MINUTE + SECOND);
        ask(&spend, 3);
        settle(&spend, 0);
        assert_int_equal(look(&spend).remaining, 7);
        settle(&spend, 9);
        assert_int_equal(look(&spend).remaining, 7);
    }
}

/* D10: what the window before held is weighed as it was in truth. */
static void settles_the_window_before_by_its_weight(void **state)
{
    (void)state;
    need_time_of_ours();
    static const struct {
        uint64_t reserved, actual, remaining;
    } rows[] = { { 1, 5, 17 }, { 6, 2, 19 }, { 20, 0, 20 }, { 3, 100, 10 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_spend spend = new_spend("weight", WEIR_SLIDING_COUNTER, 20, MINUTE, 0);
        pass_until_left(MINUTE, SECOND);
        spend_to_settle(&spend, rows[i].reserved);
        pass_us(31 * SECOND);
        settle(&spend, rows[i].actual);
        /* Half of it, rounded up, is in use. */
        assert_int_equal(look(&spend).remaining, rows[i].remaining);
        pass_us(2 * MINUTE);
        settle(&spend, 20);
        assert_int_equal(look(&spend).remaining, 20);
    }
}

static void forgets_what_is_reset(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "forgotten", 10, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        const struct weir_spend *spend = &kinds[i].spend;
        ask(spend, 10);
        assert_false(ask(spend, 1).allowed);
        reset(spend);
        assert_int_equal(look(spend).remaining, 10);
        assert_int_equal(look(spend).reset_us, 0);
        block(spend, HOUR);
        reset(spend);
        assert_int_equal(ask(spend, 3).remaining, 7);
        reset(spend);
        reset(spend);
    }
}

static void refuses_all_that_costs_while_it_is_blocked(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "blocked", 10, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        struct weir_spend spend = kinds[i].spend;
        print_message("    %s\n", kinds[i].name);
        spend_to_settle(&spend, 5);
        assert_false(look(&spend).blocked);
        block(&spend, HOUR);
        assert_true(look(&spend).blocked);
        struct weir_answer answer = ask(&spend, 1);
        assert_false(answer.allowed);
        assert_true(answer.blocked);
        assert_false(answer.impossible);
        assert_int_equal(answer.remaining, 0);
        assert_left(answer.retry_us, HOUR, MINUTE);
        assert_int_equal(answer.reset_us, answer.retry_us);

        answer = look(&spend);
        assert_int_equal(answer.remaining, 0);
        assert_int_equal(answer.retry_us, 0);
        assert_left(answer.reset_us, HOUR, MINUTE);
        answer = ask(&spend, 11);
        assert_true(answer.impossible);
        assert_int_equal(answer.retry_us, 0);

        /* Neither a settlement nor another limit of the plan changes that; another block does. */
        settle(&spend, 0);
        assert_false(ask(&spend, 1).allowed);
        if (ttl_is_known())
            assert_in_range(ttl_us(&spend) + MINUTE, HOUR, 2 * 366 * DAY + MINUTE);
        block(&spend, MINUTE);
        assert_left(ask(&spend, 1).retry_us, MINUTE, 30 * SECOND);
    }
}

static void ends_a_block_in_its_time(void **state)
{
    (void)state;
    need_time_of_ours();
    struct kind kinds[KINDS];
    new_kinds(kinds, "served", 10, 7 * HOUR);
    for (size_t i = 0; i < KINDS; i++) {
        const struct weir_spend *spend = &kinds[i].spend;
        ask(spend, 10);
        block(spend, 123456789);
        pass_us(123456788);
        assert_int_equal(ask(spend, 1).retry_us, 1);
        pass_us(1);
        /* What was spent before is forgotten with it. */
        struct weir_answer answer = ask(spend, 1);
        assert_true(answer.allowed);
        assert_int_equal(answer.remaining, 9);
    }
}

static void blocks_for_a_moment_in_real_time(void **state)
{
    (void)state;
    struct weir_spend spend = contract_gcra("moment", 10, HOUR, 0);
    block(&spend, SHORT);
    pass_us(SHORT + 1000);
    assert_true(ask(&spend, 1).allowed);
}

static void spares_others_when_one_is_blocked(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "spared", 10, 366 * DAY);
    for (size_t i = 0; i + 1 < KINDS; i++) {
        struct contract_plan plan = { .check.count = 2 };
        plan.spends[0] = kinds[i].spend;
        plan.spends[1] = kinds[i + 1].spend;
        block(&plan.spends[1], HOUR);
        submit_answered(store, &plan);
        assert_true(plan.answers[0].allowed);
        assert_int_equal(plan.answers[0].remaining, 10);
        assert_false(plan.answers[1].allowed);
        reset(&plan.spends[1]);
    }
}

/* All limits of a plan, whether they share a key or not. */
static void carries_out_an_operation_on_a_whole_plan(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "whole", 10, 366 * DAY);
    struct contract_plan plan = { .check = { .wants_time = true, .count = WEIR_CHECK_LIMITS } };
    for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++) {
        plan.spends[i] = kinds[i].spend;
        if (i >= 4)
            plan.spends[i] = in_group(&kinds[2 * i + 1].spend, kinds[0].spend.key);
        plan.spends[i].cost = i + 1;
    }
    submit_answered(store, &plan);
    struct contract_plan settling = plan;
    settling.check.operation = WEIR_SETTLE;
    for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++) {
        settling.spends[i].reserved = i + 1;
        settling.spends[i].cost = i;
        settling.spends[i].decided_us = plan.check.now_us + plan.answers[i].after_us;
        settling.spends[i].full_us = settling.spends[i].decided_us + plan.answers[i].reset_us;
    }
    submit_answered(store, &settling);
    for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++)
        assert_int_equal(look(&plan.spends[i]).remaining, 10 - i);

    plan.check.operation = WEIR_BLOCK;
    plan.check.block_us = HOUR;
    submit_answered(store, &plan);
    for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++)
        assert_false(ask(&plan.spends[i], 1).allowed);
    plan.check.operation = WEIR_RESET;
    submit_answered(store, &plan);
    for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++)
        assert_int_equal(look(&plan.spends[i]).remaining, 10);
}

static const struct CMUnitTest tests[] = {
    CASE(settles_to_what_it_cost),
    CASE(settles_within_the_limit),
    CASE(settles_beside_a_limit_that_was_lowered),
    CASE(settles_what_time_has_not_earned_back),
    CASE(settles_only_in_the_window_of_the_spending),
    CASE(settles_the_window_before_by_its_weight),
    CASE(forgets_what_is_reset),
    CASE(refuses_all_that_costs_while_it_is_blocked),
    CASE(ends_a_block_in_its_time),
    CASE(blocks_for_a_moment_in_real_time),
    CASE(spares_others_when_one_is_blocked),
    CASE(carries_out_an_operation_on_a_whole_plan),
};

const struct contract_group contract_corrections = GROUP("corrections", tests);
