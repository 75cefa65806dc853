/* Bans that grow with each violation. */
#include "contract_cases.h"

static const struct weir_penalty growing = {
    .after = 2,
    .ban_count = 3,
    .bans_us = { MINUTE, 5 * MINUTE, HOUR },
    .forget_us = DAY,
};
static const struct weir_penalty extending = {
    .after = 2,
    .ban_count = 3,
    .bans_us = { MINUTE, 5 * MINUTE, HOUR },
    .forget_us = DAY,
    .extends = true,
};
static const struct weir_penalty at_once = {
    .after = 1,
    .ban_count = 2,
    .bans_us = { HOUR, 2 * HOUR },
    .forget_us = DAY,
};

/* A penalty under a key of its own, or in its limit's group; in the same slot of a cluster either
 * way. */
static struct weir_spend penalty_for(const struct weir_spend *limit,
                                     const struct weir_penalty *penalty)
{
    struct weir_spend spend = contract_gcra("penalty", 1, MINUTE, 0);
    if (limit->group_length > 0) {
        /* Groups are in braces. */
        char group[96];
        const char *start = strchr(limit->key, '{') + 1;
        snprintf(group, sizeof group, "%.*s", (int)(strchr(start, '}') - start), start);
        spend = in_group(&spend, group);
    } else {
        spend = in_group(&spend, limit->key);
        spend.group_length = 0;
    }
    spend.algorithm = WEIR_PENALTY;
    spend.rate = (struct weir_rate){ 0 };
    spend.penalty = penalty;
    spend.cost = limit->cost;
    return spend;
}

/* A plan of one limit and its penalty. */
static struct contract_plan guarded(const struct weir_spend *limit,
                                    const struct weir_penalty *penalty)
{
    return (struct contract_plan){ .spends = { *limit, penalty_for(limit, penalty) },
                                   .check.count = 2 };
}

/* A plan of 1 in an endless window, of which nothing is left. */
static struct contract_plan used_up(const char *name, const struct weir_penalty *penalty)
{
    struct weir_spend limit = new_spend(name, WEIR_SLIDING_LOG, 1, ENDLESS, 0);
    struct contract_plan plan = guarded(&limit, penalty);
    submit_answered(store, &plan);
    assert_true(plan.answers[0].allowed && plan.answers[1].allowed);
    return plan;
}

static bool passes(struct contract_plan *plan)
{
    bool pass = true;
    submit_answered(store, plan);
    for (size_t i = 0; i < plan->check.count; i++)
        pass = pass && plan->answers[i].allowed;
    return pass;
}

/* Asks for all at this cost. */
static bool passes_at(struct contract_plan *plan, uint64_t cost)
{
    struct contract_plan other = *plan;
    for (size_t i = 0; i < other.check.count; i++)
        other.spends[i].cost = cost;
    bool pass = passes(&other);
    memcpy(plan->answers, other.answers, sizeof plan->answers);
    return pass;
}

static void carry_out_plan(struct contract_plan *plan, enum weir_operation operation)
{
    struct contract_plan other = *plan;
    other.check.operation = operation;
    other.check.block_us = HOUR;
    submit_answered(store, &other);
}

/* What a look says of the penalty, which stands last: so much is left of a ban. */
static void assert_banned_for(struct contract_plan *plan, uint64_t left_us)
{
    assert_true(passes_at(plan, 0));
    const struct weir_answer *answer = &plan->answers[plan->check.count - 1];
    assert_int_equal(answer->retry_us, 0);
    assert_int_equal(answer->remaining, left_us > 0 ? 0 : WEIR_UNITS_MAX);
    assert_left(answer->reset_us, left_us, left_us / 2);
}

/* A refusal after which so much is left of a ban. */
static void assert_refused_for(struct contract_plan *plan, uint64_t left_us)
{
    assert_false(passes(plan));
    const struct weir_answer *answer = &plan->answers[plan->check.count - 1];
    assert_int_equal(answer->allowed, left_us == 0);
    assert_int_equal(answer->remaining, left_us > 0 ? 0 : WEIR_UNITS_MAX);
    assert_left(answer->retry_us, left_us, left_us / 2);
    assert_left(answer->reset_us, left_us, left_us / 2);
}

/* the cases */

/* The refusal that begins a ban says so itself. */
static void bans_after_violations_of_each_kind_of_limit(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "banned", 2, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        print_message("    %s\n", kinds[i].name);
        struct contract_plan plan = guarded(&kinds[i].spend, &growing);
        assert_true(passes(&plan));
        assert_true(passes(&plan));
        assert_banned_for(&plan, 0);
        assert_refused_for(&plan, 0);
        assert_false(plan.answers[0].allowed);
        assert_in_range(plan.answers[0].retry_us, 1, 2 * 366 * DAY);
        assert_banned_for(&plan, 0);
        assert_refused_for(&plan, MINUTE);
        assert_banned_for(&plan, MINUTE);
        assert_refused_for(&plan, MINUTE);
        assert_int_equal(plan.answers[0].remaining, 0);
    }
}

static void bans_for_longer_each_time_until_it_forgets(void **state)
{
    (void)state;
    need_time_of_ours();
    static const struct {
        uint64_t pause_us, ban_us;
    } rows[] = {
        { 0, 0 },
        { 10 * MINUTE, MINUTE },
        { MINUTE, 5 * MINUTE },
        { 6 * MINUTE, HOUR },
        { HOUR, HOUR },
        { HOUR + DAY - 1, HOUR },
        { HOUR + DAY, 0 },
        { DAY - 1, MINUTE },
        { MINUTE + DAY, 0 },
        { DAY, 0 },
        { 400 * DAY, 0 },
    };
    struct contract_plan plan = used_up("longer", &growing);
    plan.spends[0].rate.window_us = WEIR_WINDOW_MAX_US;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    row %zu\n", i);
        pass_us(rows[i].pause_us);
        if (i + 1 == COUNT_OF(rows)) /* the limit has room again by then */
            assert_true(passes(&plan));
        assert_refused_for(&plan, rows[i].ban_us);
    }
}

static void changes_nothing_during_a_ban(void **state)
{
    (void)state;
    need_time_of_ours();
    struct kind kinds[KINDS];
    new_kinds(kinds, "unchanged", 3, MINUTE / 2);
    for (size_t i = 0; i < KINDS; i++) {
        print_message("    %s\n", kinds[i].name);
        struct contract_plan plan = guarded(&kinds[i].spend, &at_once);
        while (passes(&plan))
            continue;
        /* The limit has room again, but for the calendar's. */
        pass_us(50 * MINUTE);
        for (int n = 0; n < 5; n++)
            assert_refused_for(&plan, 10 * MINUTE);
        assert_int_equal(look(&plan.spends[0]).remaining, kinds[i].spend.calendar == NULL ? 3 : 0);
        pass_us(10 * MINUTE - 1);
        assert_refused_for(&plan, 1);
        pass_us(1);
        if (kinds[i].spend.calendar == NULL)
            assert_true(passes(&plan));
        else
            assert_refused_for(&plan, 2 * HOUR);
    }
}

static void extends_a_ban_where_it_is_asked_for(void **state)
{
    (void)state;
    need_time_of_ours();
    struct weir_spend limit = contract_gcra("extended", 1, MINUTE / 2, 0);
    struct contract_plan plan = guarded(&limit, &extending);
    assert_true(passes(&plan));
    assert_refused_for(&plan, 0);
    assert_refused_for(&plan, MINUTE);
    pass_us(MINUTE - 1);
    assert_banned_for(&plan, 1);
    /* The limit has room, and it is an attempt all the same. */
    assert_refused_for(&plan, 5 * MINUTE);
    pass_us(MINUTE);
    assert_refused_for(&plan, HOUR);
    pass_us(HOUR - 1);
    assert_refused_for(&plan, HOUR);
    assert_false(passes_at(&plan, 2)); /* never fits, so that nobody tries it in earnest */
    assert_true(plan.answers[0].impossible);
    pass_us(HOUR);
    assert_true(passes(&plan));
}

/* Not by a look, a cost that never fits, a limit of nothing, a block, or another limit. */
static void counts_no_other_refusals(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "others", 2, 366 * DAY);
    struct weir_spend full = contract_window("full", 1, ENDLESS);
    assert_true(ask(&full, 1).allowed);
    for (size_t i = 0; i < KINDS; i++) {
        print_message("    %s\n", kinds[i].name);
        struct contract_plan plan = guarded(&kinds[i].spend, &at_once);
        assert_true(passes_at(&plan, 0));
        assert_false(passes_at(&plan, 3));
        assert_true(plan.answers[0].impossible);
        assert_true(plan.answers[1].allowed);

        struct contract_plan nothing = plan;
        nothing.spends[0] = changed(&plan.spends[0], 0, 366 * DAY, 0);
        nothing.spends[0].calendar = NULL;
        assert_false(passes(&nothing));
        assert_true(nothing.answers[0].impossible);

        block(&plan.spends[0], HOUR);
        assert_false(passes(&plan));
        assert_true(plan.answers[1].allowed);
        reset(&plan.spends[0]);

        struct contract_plan beside = plan;
        beside.spends[2] = full;
        beside.check.count = 3;
        assert_false(passes(&beside));
        assert_true(beside.answers[0].allowed && beside.answers[1].allowed);
        assert_banned_for(&plan, 0);

        /* But where both refuse. */
        assert_true(passes(&plan) && passes(&plan));
        assert_false(passes(&beside));
        assert_banned_for(&plan, HOUR);
    }
}

/* A ban is the limit's own: it keeps the whole plan out, and no other limit is charged. */
static void charges_nothing_of_a_plan_that_a_ban_refuses(void **state)
{
    (void)state;
    need_time_of_ours();
    struct kind kinds[KINDS];
    new_kinds(kinds, "spared", 10, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        struct weir_spend brief = contract_gcra("brief", 1, SECOND, 0);
        struct contract_plan plan = guarded(&brief, &at_once);
        assert_true(passes(&plan));
        assert_false(passes(&plan));
        pass_us(MINUTE);
        plan.spends[2] = kinds[i].spend;
        plan.check.count = 3;
        assert_false(passes(&plan));
        assert_true(plan.answers[0].allowed);
        assert_false(plan.answers[1].allowed);
        assert_true(plan.answers[2].allowed);
        assert_int_equal(plan.answers[2].remaining, 10);
        assert_int_equal(look(&kinds[i].spend).remaining, 10);
    }
}

/* A log of refusals grows by those that are no violation, and by none during a ban. */
static void logs_no_refusal_during_a_ban(void **state)
{
    (void)state;
    need_time_of_ours();
    for (int extends = 0; extends < 2; extends++) {
        struct weir_spend log = new_spend("quiet", WEIR_SLIDING_LOG, 3, 2 * HOUR, 0);
        log.logs_refusals = true;
        struct contract_plan plan = guarded(&log, extends ? &extending : &growing);
        for (int n = 0; n < 3; n++)
            assert_true(passes(&plan));
        pass_us(30 * MINUTE);
        assert_refused_for(&plan, 0);
        assert_int_equal(plan.answers[0].retry_us, 90 * MINUTE);
        pass_us(10 * MINUTE);
        assert_refused_for(&plan, MINUTE); /* begins the ban, and is logged */
        pass_us(MINUTE / 2);
        for (int n = 0; n < 3; n++)
            assert_false(passes(&plan));
        /* All three of the beginning have to leave, and one of the refusals. */
        assert_int_equal(plan.answers[0].retry_us, 80 * MINUTE - MINUTE / 2);
        pass_us(80 * MINUTE - MINUTE / 2 - 1);
        assert_int_equal(look(&log).remaining, 0);
        pass_us(1);
        assert_int_equal(look(&log).remaining, 1);
        assert_true(passes(&plan));
    }
}

static void forgets_what_is_reset(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "forgiven", 1, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        struct contract_plan plan = guarded(&kinds[i].spend, &growing);
        assert_true(passes(&plan));
        assert_false(passes(&plan));
        carry_out_plan(&plan, WEIR_RESET);
        assert_true(passes(&plan));
        assert_refused_for(&plan, 0);
        assert_refused_for(&plan, MINUTE);
        carry_out_plan(&plan, WEIR_RESET);
        assert_banned_for(&plan, 0);
        assert_true(passes(&plan));
    }
}

static void is_left_alone_by_blocks_and_settlements(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "independent", 1, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        print_message("    %s\n", kinds[i].name);
        struct contract_plan plan = guarded(&kinds[i].spend, &growing);
        spend_to_settle(&plan.spends[0], 1);
        assert_refused_for(&plan, 0);
        carry_out_plan(&plan, WEIR_BLOCK);
        assert_banned_for(&plan, 0); /* a block is none */
        assert_refused_for(&plan, 0);
        assert_left(plan.answers[0].retry_us, HOUR, HOUR / 2);
        reset(&plan.spends[0]);

        spend_to_settle(&plan.spends[0], 1);
        assert_refused_for(&plan, MINUTE); /* the second: the first is remembered */
        carry_out_plan(&plan, WEIR_BLOCK);
        assert_refused_for(&plan, MINUTE);
        reset(&plan.spends[0]);
        assert_banned_for(&plan, MINUTE);
        spend_to_settle(&plan.spends[0], 1);
        struct contract_plan settling = plan;
        settling.check.operation = WEIR_SETTLE;
        settling.spends[0].cost = settling.spends[1].cost = 0;
        submit_answered(store, &settling);
        assert_int_equal(look(&plan.spends[0]).remaining, 1);
        assert_refused_for(&plan, MINUTE);
    }
}

/* Decision 3: nobody is banned for longer than the ban, and no ban is lost. */
static void bans_no_longer_when_the_clock_is_set_back(void **state)
{
    (void)state;
    need_time_of_ours();
    if (factory->step_back_us == NULL)
        skip();
    static const uint64_t back_us[] = { 1, 10 * SECOND, HOUR, 30 * DAY };
    for (size_t i = 0; i < COUNT_OF(back_us); i++) {
        struct contract_plan plan = used_up("back", &growing);
        assert_refused_for(&plan, 0);
        assert_refused_for(&plan, MINUTE);
        factory->step_back_us(factory->self, back_us[i]);
        assert_refused_for(&plan, MINUTE);
        pass_us(MINUTE / 2);
        assert_refused_for(&plan, MINUTE / 2);
        pass_us(MINUTE / 2);
        assert_refused_for(&plan, 5 * MINUTE); /* all violations are remembered */
        factory->step_back_us(factory->self, back_us[i]);
        assert_banned_for(&plan, 5 * MINUTE);
        pass_us(5 * MINUTE);
        assert_refused_for(&plan, HOUR);
    }
}

static void keeps_it_as_long_as_it_matters(void **state)
{
    (void)state;
    if (!ttl_is_known())
        skip();
    struct contract_plan plan = used_up("lives", &growing);
    assert_int_equal(ttl_us(&plan.spends[1]), 0);
    assert_false(passes(&plan));
    assert_in_range(ttl_us(&plan.spends[1]), DAY - MINUTE, 2 * DAY);
    assert_false(passes(&plan));
    assert_in_range(ttl_us(&plan.spends[1]), DAY + MINUTE / 2, 2 * DAY);
    assert_false(passes(&plan)); /* changes nothing, and does not shorten it */
    assert_in_range(ttl_us(&plan.spends[1]), DAY + MINUTE / 4, 2 * DAY);

    /* In a group too, where the others may be gone much earlier. */
    struct weir_spend brief = contract_gcra("brief", 1, MINUTE, 0);
    brief = in_group(&brief, brief.key);
    plan = guarded(&brief, &growing);
    assert_true(passes(&plan));
    assert_in_range(ttl_us(&plan.spends[0]), MINUTE / 2, 2 * MINUTE + SECOND);
    assert_false(passes(&plan));
    assert_in_range(ttl_us(&plan.spends[1]), DAY - MINUTE, 2 * DAY);
}

/* Each begins at the limit's edge; one of them brings the ban, which all others meet. */
static void begins_one_ban_for_a_crowd_at_the_edge(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "edge", 10, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        print_message("    %s\n", kinds[i].name);
        struct contract_plan plan = guarded(&kinds[i].spend, &at_once);
        assert_int_equal(let_through(&plan, 8, 25), 10);
        assert_banned_for(&plan, HOUR);
    }
}

static void bans_for_a_moment_in_real_time(void **state)
{
    (void)state;
    static const struct weir_penalty brief = {
        .after = 1, .ban_count = 1, .bans_us = { SHORT }, .forget_us = DAY
    };
    struct weir_spend limit = contract_gcra("moment", 1, SHORT, 0);
    struct contract_plan plan = guarded(&limit, &brief);
    assert_true(passes(&plan));
    while (passes(&plan)) /* a busy machine may let the time pass by */
        continue;
    pass_us(SHORT + 1000);
    assert_true(passes(&plan));
}

/* Four limits that share a key with their penalties, or have one each. */
static void punishes_each_limit_of_a_plan_by_itself(void **state)
{
    (void)state;
    for (int grouped = 0; grouped < 2; grouped++) {
        struct contract_plan plan = { .check.count = WEIR_CHECK_LIMITS };
        const char *group = contract_gcra("each", 1, MINUTE, 0).key;
        for (size_t i = 0; i < WEIR_CHECK_LIMITS; i += 2) {
            struct weir_spend limit =
                new_spend("each", (enum weir_algorithm)(WEIR_GCRA + i / 2), 1 + i / 2, ENDLESS, 0);
            plan.spends[i] = grouped ? in_group(&limit, group) : limit;
            plan.spends[i + 1] = penalty_for(&plan.spends[i], &growing);
        }
        assert_true(passes(&plan));
        /* Only the first is used up. */
        assert_false(passes(&plan));
        assert_false(passes(&plan));
        for (size_t i = 1; i < WEIR_CHECK_LIMITS; i += 2)
            assert_int_equal(plan.answers[i].allowed, i > 1);
        struct contract_plan first = { .spends = { plan.spends[0], plan.spends[1] },
                                       .check.count = 2 };
        assert_banned_for(&first, MINUTE);
        carry_out_plan(&first, WEIR_RESET);
        assert_true(passes(&plan));
        assert_false(passes(&plan)); /* by the first and the second */
        assert_false(passes(&plan));
        for (size_t i = 1; i < WEIR_CHECK_LIMITS; i += 2)
            assert_int_equal(plan.answers[i].allowed, i > 3);
    }
}

/* What stands under its key since something else has used it counts as nothing. */
static void takes_the_state_of_a_limit_for_none(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "foreign", 5, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        struct contract_plan plan = used_up("misused", &growing);
        struct weir_spend other = kinds[i].spend;
        other.group_length = 0;
        other.key = plan.spends[1].key;
        other.key_length = plan.spends[1].key_length;
        block(&other, HOUR);
        assert_refused_for(&plan, 0);
        assert_refused_for(&plan, MINUTE);
    }
}

static void refuses_a_penalty_without_its_limit(void **state)
{
    (void)state;
    struct contract_plan plan = used_up("fault", &growing);
    struct contract_plan alone = { .spends = { plan.spends[1] }, .check.count = 1 };
    contract_submit_plan(store, &alone);
    assert_int_equal(alone.check.result, WEIR_STORE_ERROR);
    plan.spends[1].penalty = NULL;
    contract_submit_plan(store, &plan);
    assert_int_equal(plan.check.result, WEIR_STORE_ERROR);
    assert_non_null(strstr(plan.check.why, "penalty"));
}

static const struct CMUnitTest tests[] = {
    CASE(bans_after_violations_of_each_kind_of_limit),
    CASE(bans_for_longer_each_time_until_it_forgets),
    CASE(changes_nothing_during_a_ban),
    CASE(extends_a_ban_where_it_is_asked_for),
    CASE(counts_no_other_refusals),
    CASE(charges_nothing_of_a_plan_that_a_ban_refuses),
    CASE(logs_no_refusal_during_a_ban),
    CASE(forgets_what_is_reset),
    CASE(is_left_alone_by_blocks_and_settlements),
    CASE(bans_no_longer_when_the_clock_is_set_back),
    CASE(keeps_it_as_long_as_it_matters),
    CASE(begins_one_ban_for_a_crowd_at_the_edge),
    CASE(bans_for_a_moment_in_real_time),
    CASE(punishes_each_limit_of_a_plan_by_itself),
    CASE(takes_the_state_of_a_limit_for_none),
    CASE(refuses_a_penalty_without_its_limit),
};

const struct contract_group contract_penalty = GROUP("penalties", tests);
