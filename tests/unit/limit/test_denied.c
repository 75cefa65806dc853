/* Denials: which refusals are repeated, how they count down, and when they end. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#include <weir/calendar.h>

#include "limit/denied.h"

#define MS     UINT64_C(1000)
#define SECOND (1000 * MS)
#define START  (1000 * SECOND)

static _Atomic uint64_t now_us;
static struct weir_denials *denials;

static uint64_t read_clock(void *self)
{
    (void)self;
    return now_us;
}

static const struct weir_clock clock_by_hand = { .now_us = read_clock };

static int set_up(void **state)
{
    (void)state;
    now_us = START;
    denials = weir_denials_new(SECOND, &clock_by_hand);
    assert_non_null(denials);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    denials = weir_denials_free(denials);
    return 0;
}

/* A plan of two limits, and what is said to it. */
struct plan {
    struct weir_spend spends[2];
    struct weir_answer answers[2];
    struct weir_check check;
    struct weir_denial_question question;
};

static struct weir_spend spend_of(const char *key)
{
    struct weir_spend spend = {
        .algorithm = WEIR_GCRA, .key = key, .key_length = strlen(key), .cost = 2
    };
    assert_int_equal(weir_rate_make(10, SECOND, 10, &spend.rate, NULL), WEIR_OK);
    return spend;
}

static void init(struct plan *plan)
{
    *plan = (struct plan){ .spends = { spend_of("weir:{a}:one"), spend_of("weir:{a}:two") } };
    plan->check = (struct weir_check){ .spends = plan->spends, .count = 2 };
    plan->check.answers = plan->answers;
}

static const struct weir_answer fits = { .allowed = true, .remaining = 7, .reset_us = 300 * MS };
static const struct weir_answer refused = { .remaining = 1,
                                            .retry_us = 5 * SECOND,
                                            .reset_us = 6 * SECOND };

static bool is_denied(struct plan *plan)
{
    return weir_denials_replay(denials, &plan->check, &plan->question);
}

static void note(struct plan *plan, struct weir_answer one, struct weir_answer two)
{
    plan->answers[0] = one;
    plan->answers[1] = two;
    plan->check.result = WEIR_STORE_ANSWERED;
    weir_denials_note(denials, &plan->check, &plan->question);
}

/* Asks, and is refused by the second limit, which takes no time. */
static void be_refused(struct plan *plan)
{
    init(plan);
    assert_false(is_denied(plan));
    note(plan, fits, refused);
}

/* repeating */

static void repeats_a_refusal_counted_down(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t later_us, retry_us, first_reset_us, first_remaining, second_reset_us;
    } rows[] = {
        { "at once", 0, 5000 * MS, 300 * MS, 7, 6000 * MS },
        { "soon", 120 * MS, 4880 * MS, 180 * MS, 7, 5880 * MS },
        { "when the other limit is whole again", 300 * MS, 4700 * MS, 0, 10, 5700 * MS },
        { "at the end of the cap", SECOND - 1, 4000 * MS + 1, 0, 10, 5000 * MS + 1 },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct plan plan;
        print_message("    %s\n", rows[i].when);
        now_us = START;
        weir_denials_forget_all(denials);
        now_us++;
        be_refused(&plan);
        now_us += rows[i].later_us;
        init(&plan);
        plan.check.result = WEIR_STORE_ERROR;
        assert_true(is_denied(&plan));
        assert_int_equal(plan.check.result, WEIR_STORE_ANSWERED);
        assert_true(plan.answers[0].allowed);
        assert_int_equal(plan.answers[0].retry_us, 0);
        assert_int_equal(plan.answers[0].remaining, rows[i].first_remaining);
        assert_int_equal(plan.answers[0].reset_us, rows[i].first_reset_us);
        assert_false(plan.answers[1].allowed);
        assert_false(plan.answers[1].impossible);
        assert_int_equal(plan.answers[1].remaining, 1);
        assert_int_equal(plan.answers[1].retry_us, rows[i].retry_us);
        assert_int_equal(plan.answers[1].reset_us, rows[i].second_reset_us);
        tear_down(NULL);
        set_up(NULL);
    }
}

/* A wait told by the store is counted from its answer, and nobody is kept out longer than from the
 * question on: in between it was decided. */
static void counts_from_the_answer_and_ends_by_the_question(void **state)
{
    (void)state;
    struct plan plan;
    struct weir_answer soon = refused;
    soon.retry_us = 100 * MS;
    init(&plan);
    assert_false(is_denied(&plan));
    now_us += 20 * MS;
    note(&plan, fits, soon);
    now_us += 80 * MS - 1;
    init(&plan);
    assert_true(is_denied(&plan));
    assert_int_equal(plan.answers[1].retry_us, 20 * MS + 1);
    now_us++;
    assert_false(is_denied(&plan));
}

/* Refused by a limit of this kind with so long to wait, a plan of two units at 10 a second. */
static void be_refused_by(struct plan *plan, enum weir_algorithm algorithm, uint64_t retry_us,
                          uint64_t reset_us)
{
    struct weir_answer answer = refused;
    answer.retry_us = retry_us;
    answer.reset_us = reset_us;
    init(plan);
    plan->spends[1].algorithm = algorithm;
    assert_false(is_denied(plan));
    note(plan, fits, answer);
}

static void lets_one_ask_when_there_is_room_for_one(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        enum weir_algorithm algorithm;
        uint64_t reset_us;
        bool is_for_one;
    } rows[] = {
        { "gcra", WEIR_GCRA, 900 * MS, true },
        { "a token bucket", WEIR_TOKEN_BUCKET, 900 * MS, true },
        { "a leaky bucket", WEIR_LEAKY_BUCKET, 900 * MS, true },
        { "a fixed window", WEIR_FIXED_WINDOW, 900 * MS, false },
        { "a sliding counter", WEIR_SLIDING_COUNTER, 900 * MS, false },
        { "a sliding log", WEIR_SLIDING_LOG, 900 * MS, false },
        { "a block that ends", WEIR_GCRA, 40 * MS, false },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct plan plan;
        print_message("    %s\n", rows[i].what);
        be_refused_by(&plan, rows[i].algorithm, 40 * MS, rows[i].reset_us);
        now_us += 40 * MS - 1;
        assert_true(is_denied(&plan));
        now_us++;
        assert_false(is_denied(&plan));
        assert_int_equal(plan.question.renews, rows[i].is_for_one);
        assert_int_equal(is_denied(&plan), rows[i].is_for_one);
        assert_int_equal(plan.answers[1].retry_us, rows[i].is_for_one ? 200 * MS : 1);
        tear_down(NULL);
        set_up(NULL);
    }
}

/* Who takes all that there ever is waits until all of it is there, and is alone all the same. */
static void lets_one_ask_for_the_whole_of_it(void **state)
{
    (void)state;
    struct plan plan;
    struct weir_answer all = { .remaining = 9, .retry_us = 40 * MS, .reset_us = 40 * MS };
    init(&plan);
    plan.spends[1].cost = 10;
    assert_false(is_denied(&plan));
    note(&plan, fits, all);
    now_us += 40 * MS;
    assert_false(is_denied(&plan));
    assert_true(is_denied(&plan));
}

/* Two units take 200 ms to earn: so long the others wait, and a tenth of a second they wait here. */
static void refuses_the_others_as_the_store_would(void **state)
{
    (void)state;
    struct plan plan, others;
    be_refused_by(&plan, WEIR_GCRA, 40 * MS, 900 * MS);
    now_us += 50 * MS;
    assert_false(is_denied(&plan));
    assert_true(plan.question.renews);
    init(&others);
    assert_true(is_denied(&others));
    assert_false(others.answers[1].allowed);
    assert_int_equal(others.answers[1].retry_us, 190 * MS);
    assert_int_equal(others.answers[1].reset_us, 1050 * MS);
    assert_int_equal(others.answers[1].remaining, 1);

    note(&plan, fits, fits);
    assert_false(is_denied(&others)); /* the next one asks, and is most likely refused */
    assert_true(others.question.renews);
    assert_true(is_denied(&plan));
    note(&others, fits, refused);
    now_us += SECOND - 1;
    assert_true(is_denied(&plan));
    assert_int_equal(weir_denials_numbers(denials).renewed, 2);
}

static void waits_no_longer_than_the_next_unit_takes(void **state)
{
    (void)state;
    static const struct {
        const char *rate;
        uint64_t limit, alone_us;
    } rows[] = { { "10 a second", 10, 100 * MS },
                 { "20 a second", 20, 100 * MS },
                 { "100 a second", 100, 20 * MS } };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct plan plan;
        struct weir_answer soon = refused;
        soon.retry_us = 40 * MS;
        print_message("    %s\n", rows[i].rate);
        init(&plan);
        assert_int_equal(weir_rate_make(rows[i].limit, SECOND, 0, &plan.spends[1].rate, NULL),
                         WEIR_OK);
        assert_false(is_denied(&plan));
        note(&plan, fits, soon);
        now_us += 40 * MS;
        assert_false(is_denied(&plan));
        now_us += rows[i].alone_us - 1;
        assert_true(is_denied(&plan));
        now_us++;
        assert_false(is_denied(&plan));
        assert_false(plan.question.renews);
        tear_down(NULL);
        set_up(NULL);
    }
}

static void says_of_each_limit_when_its_own_wait_is_over(void **state)
{
    (void)state;
    struct plan plan;
    struct weir_answer soon = refused;
    soon.retry_us = 200 * MS;
    init(&plan);
    assert_false(is_denied(&plan));
    note(&plan, soon, refused);
    now_us += 200 * MS - 1;
    assert_true(is_denied(&plan));
    assert_false(plan.answers[0].allowed);
    assert_int_equal(plan.answers[0].retry_us, 1);
    now_us++;
    assert_true(is_denied(&plan));
    assert_true(plan.answers[0].allowed);
    assert_int_equal(plan.answers[0].retry_us, 0);
    assert_int_equal(plan.answers[0].remaining, 2);
    assert_false(plan.answers[1].allowed);
}

static void repeats_what_is_impossible_for_as_long_as_the_cap(void **state)
{
    (void)state;
    struct plan plan;
    init(&plan);
    assert_false(is_denied(&plan));
    note(&plan, fits, (struct weir_answer){ .impossible = true, .remaining = 4, .reset_us = MS });
    now_us += SECOND - 1;
    assert_true(is_denied(&plan));
    assert_true(plan.answers[1].impossible);
    assert_false(plan.answers[1].allowed);
    assert_int_equal(plan.answers[1].retry_us, 0);
    assert_int_equal(plan.answers[1].remaining, 10);
    now_us++;
    assert_false(is_denied(&plan));
}

/* the cap */

static void lets_one_ask_for_all_when_the_cap_is_over(void **state)
{
    (void)state;
    struct plan plan, others;
    be_refused(&plan);
    now_us += SECOND;
    assert_false(is_denied(&plan));
    assert_true(plan.question.renews);
    init(&others);
    assert_true(is_denied(&others));
    assert_int_equal(others.answers[1].retry_us, 4 * SECOND);

    struct weir_answer still = refused;
    still.retry_us = 4 * SECOND;
    now_us += 2 * MS;
    note(&plan, fits, still);
    now_us += SECOND - 2 * MS - 1;
    assert_true(is_denied(&others));
    now_us++;
    assert_false(is_denied(&others));
    assert_int_equal(weir_denials_numbers(denials).renewed, 2);
    assert_int_equal(weir_denials_numbers(denials).replayed, 2);
    assert_int_equal(weir_denials_numbers(denials).noted, 2);
}

static void lets_all_in_when_the_one_is(void **state)
{
    (void)state;
    struct plan plan, others;
    be_refused(&plan);
    now_us += SECOND;
    assert_false(is_denied(&plan));
    init(&others);
    assert_true(is_denied(&others));
    note(&plan, fits, fits);
    assert_false(is_denied(&others));
    assert_false(others.question.renews);
}

static void waits_a_tenth_of_a_second_for_the_one(void **state)
{
    (void)state;
    struct plan plan, others;
    be_refused(&plan);
    now_us += SECOND;
    assert_false(is_denied(&plan));
    plan.check.result = WEIR_STORE_TIMEOUT;
    weir_denials_note(denials, &plan.check, &plan.question);
    init(&others);
    now_us += 100 * MS - 1;
    assert_true(is_denied(&others));
    now_us++;
    assert_false(is_denied(&others));
    assert_false(others.question.renews);
}

static void refuses_nobody_by_what_is_old(void **state)
{
    (void)state;
    struct plan plan;
    be_refused(&plan);
    now_us += 2 * SECOND;
    for (int n = 0; n < 3; n++) {
        assert_false(is_denied(&plan));
        assert_false(plan.question.renews);
    }
}

static void asks_when_the_clock_is_set_back(void **state)
{
    (void)state;
    struct plan plan;
    be_refused(&plan);
    now_us -= SECOND / 2;
    assert_false(is_denied(&plan));
    note(&plan, fits, refused);
    now_us += MS;
    assert_true(is_denied(&plan));
}

/* which plan */

static void knows_a_plan_by_all_of_it(void **state)
{
    (void)state;
    struct plan plan, other;
    be_refused(&plan);
    init(&other);
    assert_true(is_denied(&other));

#define ANOTHER(change)                                                                            \
    do {                                                                                           \
        init(&other);                                                                              \
        other.change;                                                                              \
        assert_false(is_denied(&other));                                                           \
    } while (false)

    const struct weir_penalty penalty = { .after = 1 };
    struct weir_calendar *days;
    assert_int_equal(weir_calendar_new(NULL, &days, NULL), WEIR_OK);
    ANOTHER(spends[0].key = "weir:{b}:one");
    ANOTHER(spends[0].key_length--);
    ANOTHER(spends[0].algorithm = WEIR_TOKEN_BUCKET);
    ANOTHER(spends[1].cost = 1);
    ANOTHER(spends[1].rate.limit = 11);
    ANOTHER(spends[1].rate.burst = 11);
    ANOTHER(spends[1].rate.window_us++);
    ANOTHER(spends[1].from_first = true);
    ANOTHER(spends[1].max_wait_us = 1);
    ANOTHER(spends[1].penalty = &penalty);
    ANOTHER(spends[1].calendar = days);
    ANOTHER(spends[0] = plan.spends[1]);
    ANOTHER(check.count = 1);
    ANOTHER(check.count = 0);
    ANOTHER(check.count = 9);
#undef ANOTHER
    weir_calendar_free(days);
}

/* What stood somewhere may be something else soon: another policy's, or one of a caller's own. */
static void knows_penalties_and_calendars_by_what_they_say(void **state)
{
    (void)state;
    static const char *const zones[] = { "UTC", "Asia/Tokyo", "UTC" };
    for (size_t i = 0; i < COUNT_OF(zones); i++) {
        struct plan plan;
        struct weir_calendar *days;
        assert_int_equal(weir_calendar_new(WEIR_CALENDAR_OPTIONS(.zone = zones[i]), &days, NULL),
                         WEIR_OK);
        init(&plan);
        plan.spends[1].calendar = days;
        assert_int_equal(is_denied(&plan), i == 2);
        if (i < 2)
            note(&plan, fits, refused);
        weir_calendar_free(days);
    }

    struct weir_penalty penalty = { .after = 1, .ban_count = 2, .bans_us = { 1, 2 } };
    struct plan plan;
    init(&plan);
    plan.spends[1].algorithm = WEIR_PENALTY;
    plan.spends[1].penalty = &penalty;
    assert_false(is_denied(&plan));
    note(&plan, fits, refused);
    assert_true(is_denied(&plan));
    penalty.bans_us[1] = 3;
    assert_false(is_denied(&plan));
    penalty.bans_us[1] = 2;
    penalty.forget_us = 9;
    assert_false(is_denied(&plan));
}

/* what is never repeated */

static struct weir_check check_of(struct weir_spend *spends, struct weir_answer *answers)
{
    return (struct weir_check){ .spends = spends, .answers = answers, .count = 2 };
}

static void keeps_no_refusal_that_changes_something(void **state)
{
    (void)state;
    static const struct weir_penalty plain = { .after = 1, .ban_count = 1 };
    static const struct weir_penalty extending = { .after = 1, .ban_count = 1, .extends = true };
    static const struct {
        const char *what;
        bool logs_refusals;
        const struct weir_penalty *penalty; /* of the second spend; NULL: it is a limit */
        struct weir_answer one, two;
        bool is_kept;
    } rows[] = {
        { "a plain refusal", false, NULL, { .allowed = true }, { .retry_us = SECOND }, true },
        { "what is let through", false, NULL, { .allowed = true }, { .allowed = true }, false },
        { "a log that records it", true, NULL, { .retry_us = SECOND }, { .allowed = true }, false },
        { "a violation without a ban",
          false,
          &plain,
          { .retry_us = SECOND },
          { .allowed = true },
          false },
        { "a running ban", false, &plain, { .allowed = true }, { .retry_us = SECOND }, true },
        { "a ban that attempts extend",
          false,
          &extending,
          { .allowed = true },
          { .retry_us = SECOND },
          false },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_spend spends[] = { spend_of("k"), spend_of("k2") };
        struct weir_answer answers[2];
        struct weir_check check = check_of(spends, answers);
        struct weir_denial_question question;
        spends[0].logs_refusals = rows[i].logs_refusals;
        if (rows[i].penalty != NULL) {
            spends[1].algorithm = WEIR_PENALTY;
            spends[1].penalty = rows[i].penalty;
        }
        assert_false(weir_denials_replay(denials, &check, &question));
        answers[0] = rows[i].one;
        answers[1] = rows[i].two;
        weir_denials_note(denials, &check, &question);
        assert_int_equal(weir_denials_replay(denials, &check, &question), rows[i].is_kept);
        tear_down(NULL);
        set_up(NULL);
    }
}

/* Once it is over, the next attempt may bring the next one. */
static void keeps_a_ban_until_it_ends(void **state)
{
    (void)state;
    static const struct weir_penalty penalty = { .after = 1, .ban_count = 1 };
    struct weir_spend spends[] = { spend_of("k"), spend_of("k2") };
    struct weir_answer answers[] = { { .retry_us = 9 * SECOND, .reset_us = 10 * SECOND },
                                     { .retry_us = 300 * MS } };
    struct weir_check check = check_of(spends, answers);
    struct weir_denial_question question = { .asked_us = now_us };
    spends[1].algorithm = WEIR_PENALTY;
    spends[1].penalty = &penalty;
    weir_denials_note(denials, &check, &question);
    now_us += 300 * MS - 1;
    assert_true(weir_denials_replay(denials, &check, &question));
    now_us++;
    for (int n = 0; n < 2; n++) {
        assert_false(weir_denials_replay(denials, &check, &question));
        assert_false(question.renews);
    }
}

static void learns_only_from_the_answer_to_a_question(void **state)
{
    (void)state;
    struct plan plan;
    be_refused(&plan);
    assert_true(is_denied(&plan)); /* what is repeated must not keep itself alive */
    assert_int_equal(plan.question.asked_us, 0);
    weir_denials_note(denials, &plan.check, &plan.question);
    assert_int_equal(weir_denials_numbers(denials).noted, 1);

    weir_denials_forget_all(denials);
    now_us++;
    for (int result = WEIR_STORE_TIMEOUT; result <= WEIR_STORE_CANCELLED; result++) {
        init(&plan);
        assert_false(is_denied(&plan));
        plan.check.result = (enum weir_store_result)result;
        weir_denials_note(denials, &plan.check, &plan.question);
        assert_false(is_denied(&plan));
    }
    plan.check.operation = WEIR_SETTLE;
    note(&plan, fits, refused);
    assert_int_equal(weir_denials_numbers(denials).noted, 1);
}

/* what ends them */

static void is_lifted_by_what_this_process_gives_back(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        enum weir_operation operation;
        const char *key;
        uint64_t reserved, cost;
        bool is_lifted;
    } rows[] = {
        { "a reset", WEIR_RESET, "weir:{a}:two", 0, 0, true },
        { "units given back", WEIR_SETTLE, "weir:{a}:two", 5, 2, true },
        { "units charged", WEIR_SETTLE, "weir:{a}:two", 2, 5, false },
        { "the limit that did not refuse", WEIR_SETTLE, "weir:{a}:one", 5, 2, false },
        { "another client", WEIR_RESET, "weir:{b}:two", 0, 0, false },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct plan plan;
        be_refused(&plan);
        struct weir_spend spend = spend_of(rows[i].key);
        spend.reserved = rows[i].reserved;
        spend.cost = rows[i].cost;
        now_us++;
        weir_denials_forget(
            denials,
            &(struct weir_check){ .operation = rows[i].operation, .spends = &spend, .count = 1 });
        assert_int_equal(is_denied(&plan), !rows[i].is_lifted);
        tear_down(NULL);
        set_up(NULL);
    }
}

static void keeps_no_answer_from_before_a_reset(void **state)
{
    (void)state;
    struct plan plan;
    init(&plan);
    assert_false(is_denied(&plan));
    now_us++;
    weir_denials_forget_all(denials);
    now_us++;
    note(&plan, fits, refused);
    assert_false(is_denied(&plan));
    note(&plan, fits, refused);
    assert_true(is_denied(&plan));
}

static void forgets_all_when_told(void **state)
{
    (void)state;
    struct plan plan;
    be_refused(&plan);
    now_us++;
    weir_denials_forget_all(denials);
    assert_false(is_denied(&plan));
}

static void takes_what_an_older_question_says_for_older(void **state)
{
    (void)state;
    struct plan slow, quick;
    init(&slow);
    assert_false(is_denied(&slow));
    now_us += 10 * MS;
    be_refused(&quick);
    struct weir_answer longer = refused;
    longer.retry_us = 50 * SECOND;
    note(&slow, fits, longer);
    assert_true(is_denied(&quick));
    assert_int_equal(quick.answers[1].retry_us, 5 * SECOND);
}

/* bounds */

static void holds_no_more_than_there_is_room_for(void **state)
{
    (void)state;
    char key[32];
    struct plan plan;
    for (unsigned i = 0; i < 50000; i++) {
        snprintf(key, sizeof key, "weir:{%u}:one", i);
        init(&plan);
        plan.spends[0] = spend_of(key);
        assert_false(is_denied(&plan));
        note(&plan, fits, refused);
    }
    assert_true(is_denied(&plan));
    unsigned held = 0;
    for (unsigned i = 0; i < 50000; i++) {
        snprintf(key, sizeof key, "weir:{%u}:one", i);
        init(&plan);
        plan.spends[0] = spend_of(key);
        held += is_denied(&plan);
    }
    assert_in_range(held, 12000, 16384);
    assert_int_equal(weir_denials_numbers(denials).noted, 50000);
    assert_int_equal(weir_denials_numbers(denials).pushed, 50000 - held);
}

static void denies_nothing_where_there_are_none(void **state)
{
    (void)state;
    struct plan plan;
    init(&plan);
    assert_false(weir_denials_replay(NULL, &plan.check, &plan.question));
    note(&plan, fits, refused);
    weir_denials_note(NULL, &plan.check, &plan.question);
    weir_denials_forget(NULL, &plan.check);
    weir_denials_forget_all(NULL);
    assert_int_equal(weir_denials_numbers(NULL).noted, 0);
    assert_null(weir_denials_free(NULL));
}

/* threads */

#define THREADS 4
#define TURNS   2000

static atomic_uint asked;

static void *flood(void *self)
{
    (void)self;
    for (unsigned n = 0; n < TURNS; n++) {
        struct plan plan;
        init(&plan);
        if (!is_denied(&plan)) {
            asked++;
            note(&plan, fits, refused);
        }
        if (n % 100 == 0)
            weir_denials_forget(
                denials,
                &(struct weir_check){ .operation = WEIR_RESET, .spends = plan.spends, .count = 1 });
    }
    return NULL;
}

static void lets_one_of_many_threads_ask(void **state)
{
    (void)state;
    struct plan plan;
    pthread_t threads[THREADS];
    be_refused(&plan);
    now_us += SECOND;
    asked = 0;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, flood, NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(asked, 1);
    assert_int_equal(weir_denials_numbers(denials).replayed, THREADS * TURNS - 1);
}

/* Whatever the store says, and whenever. */
static uint64_t random_below(uint64_t most)
{
    static uint64_t state = 88172645463325252u; /* xorshift64 (Marsaglia 2003) */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % most;
}

static struct weir_answer any_answer(const struct weir_spend *spend)
{
    uint64_t kind = random_below(10);
    struct weir_answer answer = { .allowed = kind < 5, .impossible = kind == 9 };
    answer.remaining = random_below(answer.allowed ? 11 : spend->cost);
    answer.retry_us = answer.allowed || answer.impossible ? 0 : 1 + random_below(2 * SECOND);
    answer.reset_us = answer.retry_us + random_below(SECOND);
    return answer;
}

static bool is_refused(const struct plan *plan)
{
    return !plan->answers[0].allowed || !plan->answers[1].allowed;
}

static void never_lets_anybody_in(void **state)
{
    (void)state;
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_LEAKY_BUCKET,
                                                      WEIR_FIXED_WINDOW };
    unsigned replayed = 0;
    for (unsigned n = 0; n < 200000; n++) {
        struct plan plan;
        init(&plan);
        plan.spends[0].algorithm = algorithms[random_below(2)];
        plan.spends[1].algorithm = algorithms[1 + random_below(2)];
        now_us += random_below(3) * random_below(50 * MS);
        if (is_denied(&plan)) {
            replayed++;
            assert_true(is_refused(&plan));
            for (size_t i = 0; i < 2; i++) {
                const struct weir_answer *answer = &plan.answers[i];
                assert_int_equal(answer->retry_us > 0, !answer->allowed && !answer->impossible);
                assert_true(answer->remaining <= 10);
            }
            continue;
        }
        now_us += random_below(10 * MS);
        note(&plan, any_answer(&plan.spends[0]), any_answer(&plan.spends[1]));
    }
    assert_in_range(replayed, 50000, 190000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(repeats_a_refusal_counted_down),
        TEST(counts_from_the_answer_and_ends_by_the_question),
        TEST(lets_one_ask_when_there_is_room_for_one),
        TEST(lets_one_ask_for_the_whole_of_it),
        TEST(refuses_the_others_as_the_store_would),
        TEST(waits_no_longer_than_the_next_unit_takes),
        TEST(says_of_each_limit_when_its_own_wait_is_over),
        TEST(repeats_what_is_impossible_for_as_long_as_the_cap),
        TEST(lets_one_ask_for_all_when_the_cap_is_over),
        TEST(lets_all_in_when_the_one_is),
        TEST(waits_a_tenth_of_a_second_for_the_one),
        TEST(refuses_nobody_by_what_is_old),
        TEST(asks_when_the_clock_is_set_back),
        TEST(knows_a_plan_by_all_of_it),
        TEST(knows_penalties_and_calendars_by_what_they_say),
        TEST(keeps_no_refusal_that_changes_something),
        TEST(keeps_a_ban_until_it_ends),
        TEST(learns_only_from_the_answer_to_a_question),
        TEST(is_lifted_by_what_this_process_gives_back),
        TEST(keeps_no_answer_from_before_a_reset),
        TEST(forgets_all_when_told),
        TEST(takes_what_an_older_question_says_for_older),
        TEST(holds_no_more_than_there_is_room_for),
        TEST(denies_nothing_where_there_are_none),
        TEST(lets_one_of_many_threads_ask),
        TEST(never_lets_anybody_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
