#include "test.h"

#include "limit/penalty.h"

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)
#define YEAR   (365 * DAY)

/* 2026-01-01T00:00:00Z */
#define NOW UINT64_C(1767225600000000)

#define FREE WEIR_UNITS_MAX /* what remains where there is no ban */

static const struct weir_penalty three_strikes = {
    .after = 3,
    .ban_count = 4,
    .bans_us = { MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR },
    .forget_us = DAY,
};
static const struct weir_penalty extending = {
    .after = 3,
    .ban_count = 4,
    .bans_us = { MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR },
    .forget_us = DAY,
    .extends = true,
};

static struct weir_spend spend_of(const struct weir_penalty *penalty, uint64_t cost)
{
    return (struct weir_spend){
        .algorithm = WEIR_PENALTY, .cost = cost, .key = "p", .key_length = 1, .penalty = penalty
    };
}

/* A row: at NOW, in a state of so many violations that has been quiet since `quiet_us` after NOW, the
 * limit says `attempt` to a request. Then so much is left of a ban, and that is the state. */
struct row {
    const char *when;
    int64_t quiet_us;
    uint32_t strikes;
    enum weir_attempt attempt;
    uint64_t left_us;
    int64_t quiet_after_us;
    uint32_t strikes_after;
};

static void decide_all(const struct weir_penalty *penalty, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &rows[i];
        print_message("    %s\n", row->when);
        /* The cost of a look is 0; one that does not fit, or meets a block, is no attempt either. */
        for (uint64_t cost = row->attempt == WEIR_NO_ATTEMPT ? 0 : 1; cost <= 1; cost++) {
            const struct weir_spend spend = spend_of(penalty, cost);
            struct weir_state before = { 0 };
            if (row->strikes > 0)
                before = (struct weir_state){ NOW + (uint64_t)row->quiet_us, row->strikes, 0 };
            struct weir_decision_step got = weir_penalty_decide(&spend, before, NOW, row->attempt);
            assert_int_equal(got.answer.allowed, row->left_us == 0 || cost == 0);
            assert_false(got.answer.impossible);
            assert_int_equal(got.answer.remaining, row->left_us == 0 ? FREE : 0);
            assert_int_equal(got.answer.retry_us, cost == 0 ? 0 : row->left_us);
            assert_int_equal(got.answer.reset_us, row->left_us);
            assert_int_equal(got.answer.wait_us, 0);
            assert_int_equal(got.state.low, row->strikes_after);
            assert_int_equal(got.state.high, 0);
            if (row->strikes_after > 0) {
                assert_int_equal(got.state.first, NOW + (uint64_t)row->quiet_after_us);
                assert_int_equal(got.expires_us, got.state.first + penalty->forget_us);
            } else
                assert_int_equal(got.expires_us, 0);
        }
    }
}

#define MINUTES(number) ((int64_t)(number) * (int64_t)MINUTE)
#define HOURS(number)   MINUTES((number)*60)

static void bans_for_longer_with_each_violation(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "a new key", 0, 0, WEIR_ATTEMPT_FITS, 0, 0, 0 },
        { "a look at a new key", 0, 0, WEIR_NO_ATTEMPT, 0, 0, 0 },
        { "the first", 0, 0, WEIR_ATTEMPT_REFUSED, 0, 0, 1 },
        { "the second", -1, 1, WEIR_ATTEMPT_REFUSED, 0, 0, 2 },
        { "the third", -1, 2, WEIR_ATTEMPT_REFUSED, MINUTE, MINUTES(1), 3 },
        { "the fourth", -1, 3, WEIR_ATTEMPT_REFUSED, 5 * MINUTE, MINUTES(5), 4 },
        { "the fifth", -1, 4, WEIR_ATTEMPT_REFUSED, 15 * MINUTE, MINUTES(15), 5 },
        { "the sixth", -1, 5, WEIR_ATTEMPT_REFUSED, HOUR, HOURS(1), 6 },
        { "the seventh: no longer than the last", -1, 6, WEIR_ATTEMPT_REFUSED, HOUR, HOURS(1), 7 },
        { "number 1001", -1, 1000, WEIR_ATTEMPT_REFUSED, HOUR, HOURS(1), 1001 },
        { "the last that is counted", -1, WEIR_UNITS_MAX - 1, WEIR_ATTEMPT_REFUSED, HOUR, HOURS(1),
          WEIR_UNITS_MAX },
        { "one more", -1, WEIR_UNITS_MAX, WEIR_ATTEMPT_REFUSED, HOUR, HOURS(1), WEIR_UNITS_MAX },
        { "in the moment in which the ban ends", 0, 3, WEIR_ATTEMPT_REFUSED, 5 * MINUTE, MINUTES(5),
          4 },
        { "two within one microsecond", 0, 1, WEIR_ATTEMPT_REFUSED, 0, 0, 2 },
        { "what passes is none", -1, 3, WEIR_ATTEMPT_FITS, 0, -1, 3 },
        { "what is no attempt is none", -1, 2, WEIR_NO_ATTEMPT, 0, -1, 2 },
    };
    decide_all(&three_strikes, rows, COUNT_OF(rows));
    decide_all(&extending, rows, COUNT_OF(rows));
}

static void changes_nothing_during_a_ban(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "all of it is left", MINUTES(1), 3, WEIR_ATTEMPT_REFUSED, MINUTE, MINUTES(1), 3 },
        { "half of it, and the limit has room", MINUTES(30), 6, WEIR_ATTEMPT_FITS, 30 * MINUTE,
          MINUTES(30), 6 },
        { "a microsecond", 1, 5, WEIR_ATTEMPT_REFUSED, 1, 1, 5 },
        { "a look", 1, 5, WEIR_NO_ATTEMPT, 1, 1, 5 },
    };
    decide_all(&three_strikes, rows, COUNT_OF(rows));
}

static void extends_a_ban_where_it_is_asked_for(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "the limit would refuse", MINUTES(1), 3, WEIR_ATTEMPT_REFUSED, 5 * MINUTE, MINUTES(5),
          4 },
        { "the limit has room", 1, 3, WEIR_ATTEMPT_FITS, 5 * MINUTE, MINUTES(5), 4 },
        { "the last one is renewed", MINUTES(59), 9, WEIR_ATTEMPT_FITS, HOUR, HOURS(1), 10 },
        { "a look", MINUTES(59), 9, WEIR_NO_ATTEMPT, 59 * MINUTE, MINUTES(59), 9 },
        { "after it", 0, 3, WEIR_ATTEMPT_FITS, 0, 0, 3 },
    };
    decide_all(&extending, rows, COUNT_OF(rows));
}

/* From the end of the ban on, or from the violation that brought none. */
static void forgets_after_a_quiet_time(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "almost", 1 - HOURS(24), 3, WEIR_ATTEMPT_REFUSED, 5 * MINUTE, MINUTES(5), 4 },
        { "quite", -HOURS(24), 3, WEIR_ATTEMPT_REFUSED, 0, 0, 1 },
        { "almost, without a ban", 1 - HOURS(24), 1, WEIR_ATTEMPT_REFUSED, 0, 0, 2 },
        { "quite, without a ban", -HOURS(24), 1, WEIR_ATTEMPT_REFUSED, 0, 0, 1 },
        { "after idle years", -50 * (int64_t)YEAR, 1000, WEIR_ATTEMPT_REFUSED, 0, 0, 1 },
        { "nothing is touched without need", -HOURS(25), 6, WEIR_ATTEMPT_FITS, 0, -HOURS(25), 6 },
    };
    decide_all(&three_strikes, rows, COUNT_OF(rows));
    decide_all(&extending, rows, COUNT_OF(rows));
}

static void bans_no_longer_than_it_says_when_the_clock_is_set_back(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "a violation in the future brought no ban", HOURS(24), 2, WEIR_ATTEMPT_FITS, 0, 0, 2 },
        { "and is not forgotten", HOURS(24), 2, WEIR_ATTEMPT_REFUSED, MINUTE, MINUTES(1), 3 },
        { "a ban begins again", HOURS(1), 3, WEIR_ATTEMPT_FITS, MINUTE, MINUTES(1), 3 },
        { "it does for a look", HOURS(1), 3, WEIR_NO_ATTEMPT, MINUTE, MINUTES(1), 3 },
        { "by a microsecond too much", MINUTES(1) + 1, 3, WEIR_ATTEMPT_FITS, MINUTE, MINUTES(1),
          3 },
        { "years back", 50 * (int64_t)YEAR, 4, WEIR_ATTEMPT_REFUSED, 5 * MINUTE, MINUTES(5), 4 },
        { "by less than the ban", MINUTES(59), 6, WEIR_ATTEMPT_FITS, 59 * MINUTE, MINUTES(59), 6 },
    };
    decide_all(&three_strikes, rows, COUNT_OF(rows));
}

/* The bans of a key that has been here before: a changed file holds at once, but lengthens none. */
static void takes_what_another_penalty_has_left(void **state)
{
    (void)state;
    static const struct weir_penalty short_bans = {
        .after = 3, .ban_count = 1, .bans_us = { SECOND }, .forget_us = HOUR
    };
    static const struct row shorter[] = {
        { "a ban of an hour", HOURS(1), 6, WEIR_ATTEMPT_FITS, SECOND, (int64_t)SECOND, 6 },
        { "one that is over", -HOURS(2), 6, WEIR_ATTEMPT_REFUSED, 0, 0, 1 },
    };
    decide_all(&short_bans, shorter, COUNT_OF(shorter));
    static const struct weir_penalty patient = {
        .after = 1000, .ban_count = 1, .bans_us = { HOUR }, .forget_us = DAY
    };
    static const struct row later[] = {
        { "a ban that this one does not know", HOURS(1), 6, WEIR_ATTEMPT_FITS, 0, 0, 6 },
        { "and its violations", -1, 999, WEIR_ATTEMPT_REFUSED, HOUR, HOURS(1), 1000 },
    };
    decide_all(&patient, later, COUNT_OF(later));
}

static void takes_what_cannot_be_as_a_new_key(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(&three_strikes, 1);
    const struct weir_state states[] = {
        { NOW + MINUTE, 0, 0 },
        { NOW + MINUTE, 3, 1 },
        { NOW + MINUTE, 3, WEIR_HIGH_BLOCKED },
        { NOW + MINUTE, WEIR_UNITS_MAX + 1, 0 },
        { NOW + MINUTE, UINT32_MAX, 0 },
        { UINT64_MAX, 0, UINT32_MAX },
    };
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        assert_false(weir_penalty_bans(&spend, states[i], NOW));
        struct weir_decision_step step =
            weir_penalty_decide(&spend, states[i], NOW, WEIR_ATTEMPT_REFUSED);
        assert_true(step.answer.allowed);
        assert_int_equal(step.state.low, 1);
        assert_int_equal(step.state.first, NOW);
    }
}

static void says_whether_a_ban_is_on(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(&extending, 1);
    assert_false(weir_penalty_bans(&spend, (struct weir_state){ 0 }, NOW));
    assert_true(weir_penalty_bans(&spend, (struct weir_state){ NOW + 1, 3, 0 }, NOW));
    assert_false(weir_penalty_bans(&spend, (struct weir_state){ NOW, 3, 0 }, NOW));
    assert_false(weir_penalty_bans(&spend, (struct weir_state){ NOW + 1, 2, 0 }, NOW));
}

static void tells_violations_from_other_refusals(void **state)
{
    (void)state;
    const struct weir_spend spend = { .cost = 1 }, look = { .cost = 0 };
    const struct weir_answer fits = { .allowed = true }, refused = { .retry_us = 1 },
                             impossible = { .impossible = true };
    assert_int_equal(weir_attempt_of(&spend, &fits, false), WEIR_ATTEMPT_FITS);
    assert_int_equal(weir_attempt_of(&spend, &refused, false), WEIR_ATTEMPT_REFUSED);
    assert_int_equal(weir_attempt_of(&spend, &refused, true), WEIR_NO_ATTEMPT);
    assert_int_equal(weir_attempt_of(&spend, &impossible, false), WEIR_NO_ATTEMPT);
    assert_int_equal(weir_attempt_of(&look, &fits, false), WEIR_NO_ATTEMPT);
}

/* Somebody who tries without end: the waits that he is told, and what they sum up to. */
static void lets_nobody_count_beyond_the_last_ban(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(&extending, 1);
    struct weir_state kept = { 0 };
    uint64_t now_us = NOW;
    for (int i = 0; i < 2000; i++) {
        struct weir_decision_step step =
            weir_penalty_decide(&spend, kept, now_us, WEIR_ATTEMPT_REFUSED);
        assert_true(step.answer.retry_us <= HOUR);
        assert_true(step.state.first >= kept.first); /* a ban that is on never ends earlier */
        kept = step.state;
        now_us += SECOND;
    }
    assert_int_equal(kept.low, 2000);
}

static void finds_fault_with_penalties(void **state)
{
    (void)state;
    static const struct weir_penalty bad[] = {
        { .after = 0, .ban_count = 1, .bans_us = { 1 }, .forget_us = 1 },
        { .after = 1001, .ban_count = 1, .bans_us = { 1 }, .forget_us = 1 },
        { .after = 1, .ban_count = 0, .bans_us = { 1 }, .forget_us = 1 },
        { .after = 1, .ban_count = 9, .bans_us = { 1, 1, 1, 1, 1, 1, 1, 1 }, .forget_us = 1 },
        { .after = 1, .ban_count = 1, .bans_us = { 0 }, .forget_us = 1 },
        { .after = 1, .ban_count = 2, .bans_us = { 2, 1 }, .forget_us = 2 },
        { .after = 1, .ban_count = 2, .bans_us = { 2 }, .forget_us = 2 },
        { .after = 1, .ban_count = 1, .bans_us = { 366 * DAY + 1 }, .forget_us = 366 * DAY + 1 },
        { .after = 1, .ban_count = 1, .bans_us = { 2 }, .forget_us = 1 },
        { .after = 1, .ban_count = 1, .bans_us = { 2 }, .forget_us = 366 * DAY + 1 },
    };
    assert_null(weir_penalty_fault(&three_strikes));
    assert_non_null(weir_penalty_fault(NULL));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_non_null(weir_penalty_fault(&bad[i]));
    static const struct weir_penalty largest = {
        .after = 1000,
        .ban_count = 8,
        .bans_us = { 1, 1, 1, 1, 1, 1, 1, 366 * DAY },
        .forget_us = 366 * DAY,
    };
    assert_null(weir_penalty_fault(&largest));
}

static void finds_fault_with_where_penalties_stand(void **state)
{
    (void)state;
    struct weir_answer answers[3];
    struct weir_spend limit = { .algorithm = WEIR_GCRA, .cost = 1, .key = "l", .key_length = 1 };
    assert_int_equal(weir_rate_make(5, MINUTE, 0, &limit.rate, NULL), WEIR_OK);
    const struct weir_spend good = spend_of(&three_strikes, 1);
    struct weir_spend twin = good, dear = spend_of(&three_strikes, 2), keyless = good,
                      other = limit;
    twin.key = "t";
    keyless.key_length = 0;
    other.key = "p";
    const struct {
        struct weir_spend spends[3];
        size_t count;
        bool is_good;
    } rows[] = {
        { { limit, good }, 2, true },
        { { limit, good, twin }, 3, false },
        { { good }, 1, false },
        { { good, limit }, 2, false },
        { { limit, dear }, 2, false },
        { { limit, keyless }, 2, false },
        { { limit, good, other }, 3, false }, /* one key twice */
        { { limit, spend_of(NULL, 1) }, 2, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int operation = WEIR_SPEND; operation <= WEIR_BLOCK; operation++) {
            const struct weir_check check = { .operation = (enum weir_operation)operation,
                                              .spends = rows[i].spends,
                                              .answers = answers,
                                              .count = rows[i].count,
                                              .block_us = 1 };
            bool costs_matter = operation == WEIR_SPEND || rows[i].spends[1].cost != 2;
            assert_int_equal(weir_check_fault(&check) == NULL, rows[i].is_good || !costs_matter);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bans_for_longer_with_each_violation),
        cmocka_unit_test(changes_nothing_during_a_ban),
        cmocka_unit_test(extends_a_ban_where_it_is_asked_for),
        cmocka_unit_test(forgets_after_a_quiet_time),
        cmocka_unit_test(bans_no_longer_than_it_says_when_the_clock_is_set_back),
        cmocka_unit_test(takes_what_another_penalty_has_left),
        cmocka_unit_test(takes_what_cannot_be_as_a_new_key),
        cmocka_unit_test(says_whether_a_ban_is_on),
        cmocka_unit_test(tells_violations_from_other_refusals),
        cmocka_unit_test(lets_nobody_count_beyond_the_last_ban),
        cmocka_unit_test(finds_fault_with_penalties),
        cmocka_unit_test(finds_fault_with_where_penalties_stand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
