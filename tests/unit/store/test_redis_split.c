/* Checks over several slots, carried out by a memory store that stands for a cluster. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "store/redis_slot.h"
#include "store/redis_split.h"
#include "store/store.h"

#define SECOND UINT64_C(1000000)
#define HOUR   (3600 * SECOND)
#define NOW    (UINT64_C(490896) * 3600 * SECOND)

/* Longer than any test; and what is asked in time. */
#define TIMEOUT (60 * SECOND)

/* the cluster: a question is asked of the memory store at once, or fails, or is held back */

struct question {
    enum weir_operation operation;
    char key[32]; /* of its first limit */
    uint64_t cost, reserved;
    size_t count;
    uint64_t deadline_us;
};

static struct {
    struct weir_store *memory;
    struct weir_redis_splits splits;
    struct question asked[64];
    size_t count;
    uint64_t skew_us[256]; /* of the clock of a key, by its second letter */
    uint64_t now_us;
    size_t fails_at; /* the question with this number fails so: */
    enum weir_store_result failure;
    bool is_lost;    /* …though it was carried out */
    size_t holds_at; /* the question with this number is held back */
    struct weir_check *held;
    char down; /* the second letter of keys that cannot be asked about */
    void (*meanwhile)(size_t number);
} cluster;

static uint64_t read_clock(void *self)
{
    (void)self;
    return cluster.now_us;
}

static void fail_check(struct weir_check *check, enum weir_store_result result)
{
    check->result = result;
    strcpy(check->why, "it fails");
    check->done(check);
}

static void forget_done(struct weir_check *check)
{
    (void)check;
}

/* Carried out, but nobody hears of it. */
static void carry_out_unheard(const struct weir_check *check)
{
    struct weir_answer answers[WEIR_CHECK_LIMITS];
    struct weir_check copy = *check;
    copy.answers = answers;
    copy.done = forget_done;
    cluster.memory->type->submit(cluster.memory->self, &copy);
}

static void carry_out(struct weir_check *check)
{
    struct weir_check copy = *check;
    copy.done = forget_done;
    cluster.memory->type->submit(cluster.memory->self, &copy);
    check->result = copy.result;
    check->now_us = copy.now_us + cluster.skew_us[(uint8_t)check->spends[0].key[1]];
    check->done(check);
}

static void note(const struct weir_check *check, uint64_t deadline_us)
{
    struct question *question = &cluster.asked[cluster.count++];
    assert_true(cluster.count < COUNT_OF(cluster.asked));
    *question = (struct question){ .operation = check->operation,
                                   .cost = check->spends[0].cost,
                                   .reserved = check->spends[0].reserved,
                                   .count = check->count,
                                   .deadline_us = deadline_us };
    snprintf(question->key, sizeof question->key, "%.*s", (int)check->spends[0].key_length,
             check->spends[0].key);
}

static void inner_submit(void *self, struct weir_check *check, uint64_t deadline_us)
{
    (void)self;
    note(check, deadline_us);
    size_t number = cluster.count;
    if (cluster.meanwhile != NULL)
        cluster.meanwhile(number);
    if (number == cluster.holds_at) {
        cluster.held = check;
    } else if (number == cluster.fails_at) {
        if (cluster.is_lost)
            carry_out_unheard(check);
        fail_check(check, cluster.failure);
    } else {
        carry_out(check);
    }
}

static void inner_cancel(void *self, struct weir_check *check)
{
    (void)self;
    if (cluster.held != check)
        return;
    cluster.held = NULL;
    fail_check(check, WEIR_STORE_CANCELLED);
}

static bool inner_is_ready(void *self, unsigned slot)
{
    (void)self;
    char key[4] = "{?}";
    key[1] = cluster.down;
    return cluster.down == '\0' || slot != weir_redis_slot(weir_text_from(key));
}

static int set_up(void **state)
{
    (void)state;
    memset(&cluster, 0, sizeof cluster);
    cluster.now_us = NOW;
    const struct weir_clock clock = { .now_us = read_clock };
    const struct weir_redis_splits_inner inner = {
        .timeout_us = TIMEOUT,
        .submit = inner_submit,
        .cancel = inner_cancel,
        .is_ready = inner_is_ready,
    };
    assert_true(weir_redis_splits_init(&cluster.splits, &inner));
    return weir_store_open("memory:", WEIR_STORE_OPTIONS(.clock = &clock), &cluster.memory, NULL)
           != WEIR_OK;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(cluster.splits.count, 0);
    weir_redis_splits_close(&cluster.splits);
    weir_redis_splits_finish(&cluster.splits);
    cluster.memory = weir_store_free(cluster.memory);
    return 0;
}

/* checks: the keys "{b}", "{c}" and "{a}" lie in slots of this order */

static struct weir_spend spend_of(const char *key, uint64_t limit, uint64_t cost)
{
    struct weir_spend spend = {
        .algorithm = WEIR_GCRA, .cost = cost, .key = key, .key_length = strlen(key)
    };
    assert_int_equal(weir_rate_make(limit, HOUR, 0, &spend.rate, NULL), WEIR_OK);
    return spend;
}

struct asked {
    struct weir_check check;
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    struct weir_answer answers[WEIR_CHECK_LIMITS];
    unsigned done;
};

static void on_done(struct weir_check *check)
{
    struct asked *asked = check->owner;
    asked->done++;
}

static void submit_until(struct asked *asked, size_t count, uint64_t deadline_us)
{
    asked->check.spends = asked->spends;
    asked->check.answers = asked->answers;
    asked->check.count = count;
    asked->check.done = on_done;
    asked->check.owner = asked;
    asked->done = 0;
    assert_true(weir_redis_is_split(&asked->check));
    weir_redis_split_submit(&cluster.splits, &asked->check, deadline_us);
}

static void submit(struct asked *asked, size_t count)
{
    submit_until(asked, count, weir_monotonic_us() + TIMEOUT);
}

static void assert_done(const struct asked *asked, enum weir_store_result result)
{
    assert_int_equal(asked->done, 1);
    assert_int_equal(asked->check.result, result);
}

/* Asks the memory store itself. */
static struct weir_answer direct(const struct weir_spend *spend, uint64_t cost)
{
    struct weir_spend other = *spend;
    other.cost = cost;
    struct weir_answer answer;
    struct weir_check check = {
        .spends = &other, .answers = &answer, .count = 1, .done = forget_done
    };
    cluster.memory->type->submit(cluster.memory->self, &check);
    return answer;
}

static uint64_t left_of(const struct weir_spend *spend)
{
    return direct(spend, 0).remaining;
}

static void assert_asked(size_t number, enum weir_operation operation, const char *key,
                         uint64_t cost)
{
    assert_true(number <= cluster.count);
    const struct question *question = &cluster.asked[number - 1];
    assert_int_equal(question->operation, operation);
    assert_string_equal(question->key, key);
    assert_int_equal(question->cost, cost);
}

/* Three limits, in an order that is not that of their slots. */
static struct asked three(uint64_t limit_a, uint64_t limit_c, uint64_t limit_b)
{
    return (struct asked){ .spends = { spend_of("{a}", limit_a, 1), spend_of("{b}", limit_b, 1),
                                       spend_of("{c}", limit_c, 1) } };
}

/* telling them apart */

static void tells_checks_over_several_slots_apart(void **state)
{
    (void)state;
    static const struct {
        const char *what, *one, *other;
        size_t one_group, other_group;
        bool want;
    } rows[] = {
        { "a tag", "{a}:1", "{a}:2", 0, 0, false },
        { "two tags", "{a}:1", "{c}:1", 0, 0, true },
        { "no tags", "one", "other", 0, 0, true },
        { "a tag, and the same key without it", "{a}", "a", 0, 0, false },
        { "two texts of one slot", "{51}", "{2500}", 0, 0, false },
        { "two limits of one group", "one:1", "one:2", 3, 3, false },
        { "two groups", "one:1", "two:1", 3, 3, true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_spend spends[] = { spend_of(rows[i].one, 1, 1), spend_of(rows[i].other, 1, 1) };
        spends[0].group_length = rows[i].one_group;
        spends[1].group_length = rows[i].other_group;
        struct weir_check check = { .spends = spends, .count = 2 };
        assert_int_equal(weir_redis_is_split(&check), rows[i].want);
        check.count = 1;
        assert_false(weir_redis_is_split(&check));
    }
}

/* spending */

static void takes_parts_in_the_order_of_their_slots(void **state)
{
    (void)state;
    struct asked asked = three(10, 20, 30);
    asked.spends[2].cost = 7;
    submit(&asked, 3);
    assert_done(&asked, WEIR_STORE_ANSWERED);
    assert_int_equal(cluster.count, 3);
    assert_asked(1, WEIR_SPEND, "{b}", 1);
    assert_asked(2, WEIR_SPEND, "{c}", 7);
    assert_asked(3, WEIR_SPEND, "{a}", 1);

    /* Each answer stands where its limit stands. */
    static const uint64_t left[] = { 9, 29, 13 };
    for (size_t i = 0; i < 3; i++) {
        assert_true(asked.answers[i].allowed);
        assert_int_equal(asked.answers[i].remaining, left[i]);
        assert_int_equal(left_of(&asked.spends[i]), left[i]);
    }
}

static void asks_once_for_all_limits_of_a_slot(void **state)
{
    (void)state;
    struct asked asked = { .spends = { spend_of("{a}:1", 10, 1), spend_of("{c}:1", 10, 2),
                                       spend_of("{a}:2", 10, 3), spend_of("{c}:2", 10, 4) } };
    submit(&asked, 4);
    assert_done(&asked, WEIR_STORE_ANSWERED);
    assert_int_equal(cluster.count, 2);
    assert_asked(1, WEIR_SPEND, "{c}:1", 2);
    assert_asked(2, WEIR_SPEND, "{a}:1", 1);
    assert_int_equal(cluster.asked[0].count, 2);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(asked.answers[i].remaining, 9 - i);
}

static void has_one_deadline_for_all_parts(void **state)
{
    (void)state;
    struct asked asked = three(10, 0, 10);
    uint64_t deadline_us = weir_monotonic_us() + TIMEOUT;
    submit_until(&asked, 3, deadline_us);
    assert_true(cluster.count > 3);
    for (size_t i = 0; i < cluster.count; i++)
        assert_int_equal(cluster.asked[i].deadline_us, deadline_us);
}

static void tells_when_each_limit_was_decided(void **state)
{
    (void)state;
    struct asked asked = three(10, 10, 10);
    cluster.skew_us['a'] = 3000;
    cluster.skew_us['c'] = 1000;
    cluster.skew_us['b'] = 2000;
    submit(&asked, 3);
    assert_done(&asked, WEIR_STORE_ANSWERED);
    assert_int_equal(asked.check.now_us, NOW + 1000);
    static const uint64_t after_us[] = { 2000, 1000, 0 };
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(asked.answers[i].after_us, after_us[i]);
        assert_int_equal(asked.answers[i].reset_us, HOUR / 10);
    }
}

/* refusing */

static void gives_back_what_it_took_when_a_limit_refuses(void **state)
{
    (void)state;
    static const uint64_t limits[][3] = { { 0, 9, 9 }, { 9, 0, 9 }, { 9, 9, 0 } };
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct asked asked = three(limits[i][0], limits[i][1], limits[i][2]);
        asked.check.why[0] = 'x';
        submit(&asked, 3);
        assert_done(&asked, WEIR_STORE_ANSWERED);
        assert_string_equal(asked.check.why, "");
        assert_int_equal(asked.check.now_us, NOW);
        for (size_t n = 0; n < 3; n++) {
            bool refuses = asked.spends[n].rate.limit == 0;
            assert_int_equal(asked.answers[n].allowed, !refuses);
            /* The numbers are those without this request, and so is what is kept. */
            assert_int_equal(asked.answers[n].remaining, refuses ? 0 : 9);
            assert_int_equal(asked.answers[n].reset_us, 0);
            assert_int_equal(left_of(&asked.spends[n]), refuses ? 0 : 9);
            assert_int_equal(direct(&asked.spends[n], 0).reset_us, 0);
        }
    }
}

static void gives_back_before_it_looks(void **state)
{
    (void)state;
    struct asked asked = three(9, 0, 9);
    asked.spends[1].cost = 4;
    submit(&asked, 3);
    assert_int_equal(cluster.count, 5);
    assert_asked(1, WEIR_SPEND, "{b}", 4);
    assert_asked(2, WEIR_SPEND, "{c}", 1);
    assert_asked(3, WEIR_SETTLE, "{b}", 0);
    assert_int_equal(cluster.asked[2].reserved, 4);
    assert_asked(4, WEIR_SPEND, "{b}", 0);
    assert_asked(5, WEIR_SPEND, "{a}", 0);
}

/* Redis may not know the script of the one, and know that of the other. */
static void looks_only_when_all_is_given_back(void **state)
{
    (void)state;
    struct asked asked = three(0, 9, 9);
    cluster.holds_at = 5;
    submit(&asked, 3);
    assert_int_equal(cluster.count, 5);
    assert_asked(4, WEIR_SETTLE, "{b}", 0);
    assert_asked(5, WEIR_SETTLE, "{c}", 0);
    assert_int_equal(asked.done, 0);
    carry_out(cluster.held);
    assert_done(&asked, WEIR_STORE_ANSWERED);
    assert_int_equal(asked.answers[2].remaining, 9);
}

static void ends_what_is_cancelled_while_it_gives_back(void **state)
{
    (void)state;
    struct asked asked = three(0, 9, 9);
    cluster.holds_at = 5;
    submit(&asked, 3);
    assert_true(weir_redis_split_cancel(&cluster.splits, &asked.check));
    assert_done(&asked, WEIR_STORE_CANCELLED);
    carry_out(cluster.held);
    assert_int_equal(cluster.count, 5);
    assert_int_equal(left_of(&asked.spends[2]), 9);
}

/* Only a spending tells the wait. */
static void says_the_wait_of_each_limit_that_refuses(void **state)
{
    (void)state;
    struct asked asked = three(4, 9, 1);
    for (size_t i = 0; i < 3; i++)
        while (direct(&asked.spends[i], 1).allowed)
            continue;
    submit(&asked, 3);
    assert_done(&asked, WEIR_STORE_ANSWERED);
    static const uint64_t waits[] = { HOUR / 4, HOUR, HOUR / 9 };
    for (size_t i = 0; i < 3; i++) {
        assert_false(asked.answers[i].allowed);
        assert_int_equal(asked.answers[i].retry_us, waits[i]);
        assert_int_equal(left_of(&asked.spends[i]), 0);
    }
}

static void says_that_a_later_cost_is_impossible(void **state)
{
    (void)state;
    struct asked asked = three(9, 9, 0);
    asked.spends[0].cost = 10;
    submit(&asked, 3);
    assert_true(asked.answers[0].impossible);
    assert_int_equal(asked.answers[0].remaining, 9);
    assert_true(asked.answers[1].impossible);
    assert_true(asked.answers[2].allowed);
}

static struct weir_spend freed;

/* Somebody else gives a unit back between the look and the spending. */
static void free_a_unit(size_t number)
{
    if (number != 3)
        return;
    struct weir_check check = {
        .operation = WEIR_RESET, .spends = &freed, .count = 1, .done = forget_done
    };
    cluster.memory->type->submit(cluster.memory->self, &check);
}

static void gives_back_what_passes_after_all(void **state)
{
    (void)state;
    struct asked asked = three(9, 3, 0);
    freed = asked.spends[2];
    assert_true(direct(&freed, 3).allowed);
    cluster.meanwhile = free_a_unit;
    submit(&asked, 3);
    assert_done(&asked, WEIR_STORE_ANSWERED);
    assert_asked(2, WEIR_SPEND, "{c}", 0);
    assert_asked(3, WEIR_SPEND, "{c}", 1);
    assert_asked(4, WEIR_SETTLE, "{c}", 0);
    assert_asked(5, WEIR_SPEND, "{c}", 0);
    assert_true(asked.answers[2].allowed);
    assert_int_equal(asked.answers[2].remaining, 3);
    assert_int_equal(left_of(&freed), 3);
}

static void gives_nothing_back_where_nothing_was_asked(void **state)
{
    (void)state;
    struct asked asked = three(9, 0, 9);
    asked.spends[1].cost = 0;
    submit(&asked, 3);
    for (size_t i = 0; i < cluster.count; i++)
        assert_int_equal(cluster.asked[i].operation, WEIR_SPEND);
}

static void lets_a_refusal_stand_when_the_others_cannot_be_asked(void **state)
{
    (void)state;
    static const struct weir_answer unknown = { .allowed = true };
    for (cluster.fails_at = 4; cluster.fails_at <= 5; cluster.fails_at++) {
        struct asked asked = three(9, 0, 9);
        cluster.count = 0;
        cluster.failure = WEIR_STORE_TIMEOUT;
        submit(&asked, 3);
        assert_done(&asked, WEIR_STORE_ANSWERED);
        assert_false(asked.answers[2].allowed);
        assert_memory_equal(&asked.answers[0], &unknown, sizeof unknown);
        assert_int_equal(asked.answers[1].remaining, cluster.fails_at == 4 ? 0 : 9);
        for (size_t i = 0; i < 2; i++) {
            assert_true(asked.answers[i].allowed);
            assert_int_equal(left_of(&asked.spends[i]), 9);
        }
    }
}

static void looks_at_nothing_when_there_is_little_time_left(void **state)
{
    (void)state;
    struct asked asked = three(9, 0, 9);
    submit_until(&asked, 3, weir_monotonic_us() + TIMEOUT / 5);
    assert_done(&asked, WEIR_STORE_ANSWERED);
    assert_false(asked.answers[2].allowed);
    assert_true(asked.answers[1].allowed);
    assert_int_equal(cluster.count, 3);
    /* What is given back has time of its own. */
    assert_asked(3, WEIR_SETTLE, "{b}", 0);
    assert_true(cluster.asked[2].deadline_us > cluster.asked[1].deadline_us + TIMEOUT / 2);
    assert_int_equal(left_of(&asked.spends[1]), 9);
}

/* failing */

static void gives_back_what_it_surely_took_when_a_part_fails(void **state)
{
    (void)state;
    static const enum weir_store_result kinds[] = { WEIR_STORE_TIMEOUT, WEIR_STORE_UNAVAILABLE,
                                                    WEIR_STORE_ERROR };
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (size_t at = 1; at <= 3; at++) {
            struct asked asked = three(9, 9, 9);
            cluster.count = 0;
            cluster.fails_at = at;
            cluster.failure = kinds[i];
            submit(&asked, 3);
            assert_done(&asked, kinds[i]);
            assert_string_equal(asked.check.why, "it fails");
            assert_int_equal(cluster.count, at + at - 1);
            for (size_t n = 0; n < 3; n++)
                assert_int_equal(left_of(&asked.spends[n]), 9);
        }
}

/* Nobody knows whether it was; what was not taken must not be given back. */
static void gives_nothing_back_of_a_part_without_an_answer(void **state)
{
    (void)state;
    struct asked asked = three(9, 9, 9);
    cluster.fails_at = 2;
    cluster.failure = WEIR_STORE_TIMEOUT;
    cluster.is_lost = true;
    submit(&asked, 3);
    assert_done(&asked, WEIR_STORE_TIMEOUT);
    assert_int_equal(left_of(&asked.spends[1]), 9);
    assert_int_equal(left_of(&asked.spends[2]), 8);
}

static void begins_nothing_where_one_slot_cannot_be_asked(void **state)
{
    (void)state;
    struct asked asked = three(9, 9, 9);
    cluster.down = 'a';
    submit(&asked, 3);
    assert_done(&asked, WEIR_STORE_UNAVAILABLE);
    assert_string_equal(asked.check.why, "not connected");
    assert_int_equal(cluster.count, 0);
}

/* other operations */

static void settles_resets_and_blocks_each_slot_by_itself(void **state)
{
    (void)state;
    struct asked asked = three(9, 9, 9);
    submit(&asked, 3);
    for (size_t i = 0; i < 3; i++) {
        asked.spends[i].reserved = 1;
        asked.spends[i].decided_us = asked.check.now_us;
        asked.spends[i].full_us = asked.check.now_us + asked.answers[i].reset_us;
        asked.spends[i].cost = 4;
    }
    asked.check.operation = WEIR_SETTLE;
    submit(&asked, 3);
    assert_done(&asked, WEIR_STORE_ANSWERED);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(left_of(&asked.spends[i]), 5);

    asked.check.operation = WEIR_BLOCK;
    asked.check.block_us = HOUR;
    submit(&asked, 3);
    assert_done(&asked, WEIR_STORE_ANSWERED);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(direct(&asked.spends[i], 1).retry_us, HOUR);

    asked.check.operation = WEIR_RESET;
    submit(&asked, 3);
    assert_done(&asked, WEIR_STORE_ANSWERED);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(left_of(&asked.spends[i]), 9);
    assert_int_equal(cluster.count, 12);
}

static void changes_the_other_slots_when_one_fails(void **state)
{
    (void)state;
    for (cluster.fails_at = 1; cluster.fails_at <= 3; cluster.fails_at++) {
        struct asked asked = three(9, 9, 9);
        for (size_t i = 0; i < 3; i++)
            direct(&asked.spends[i], 3);
        cluster.count = 0;
        cluster.failure = WEIR_STORE_TIMEOUT;
        asked.check.operation = WEIR_RESET;
        submit(&asked, 3);
        assert_done(&asked, WEIR_STORE_TIMEOUT);
        assert_string_equal(asked.check.why, "it fails");
        uint64_t left = 0;
        for (size_t i = 0; i < 3; i++)
            left += left_of(&asked.spends[i]);
        assert_int_equal(left, 9 + 9 + 6);
        for (size_t i = 0; i < 3; i++)
            while (direct(&asked.spends[i], 1).allowed)
                continue;
        asked.check.operation = WEIR_RESET;
        cluster.count = 10; /* for the next round */
        submit(&asked, 3);
        cluster.count = 0;
    }
}

/* cancelling */

static void cancels_whichever_part_is_under_way(void **state)
{
    (void)state;
    for (cluster.holds_at = 1; cluster.holds_at <= 3; cluster.holds_at++) {
        struct asked asked = three(9, 9, 9);
        cluster.count = 0;
        submit(&asked, 3);
        assert_int_equal(asked.done, 0);
        assert_true(weir_redis_split_cancel(&cluster.splits, &asked.check));
        assert_done(&asked, WEIR_STORE_CANCELLED);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(left_of(&asked.spends[i]), 9);
        assert_false(weir_redis_split_cancel(&cluster.splits, &asked.check));
        assert_done(&asked, WEIR_STORE_CANCELLED);
    }
}

static void cancels_all_parts_of_a_change(void **state)
{
    (void)state;
    struct asked asked = three(9, 9, 9);
    asked.check.operation = WEIR_RESET;
    cluster.holds_at = 2;
    submit(&asked, 3);
    assert_int_equal(asked.done, 0);
    assert_true(weir_redis_split_cancel(&cluster.splits, &asked.check));
    assert_done(&asked, WEIR_STORE_CANCELLED);
}

static void ends_what_is_cancelled_while_it_looks(void **state)
{
    (void)state;
    struct asked asked = three(9, 0, 9);
    cluster.holds_at = 4;
    submit(&asked, 3);
    assert_int_equal(asked.done, 0);
    assert_true(weir_redis_split_cancel(&cluster.splits, &asked.check));
    assert_int_equal(asked.done, 1);
    assert_int_equal(left_of(&asked.spends[1]), 9);
}

static void cancel_in_done(struct weir_check *check)
{
    struct asked *asked = check->owner;
    asked->done++;
    assert_false(weir_redis_split_cancel(&cluster.splits, check));
}

static void lets_done_cancel_its_own_check(void **state)
{
    (void)state;
    struct asked asked = three(9, 9, 9);
    cluster.holds_at = 3;
    submit(&asked, 3);
    asked.check.done = cancel_in_done;
    carry_out(cluster.held);
    assert_done(&asked, WEIR_STORE_ANSWERED);
}

/* many at once: the parts are carried out by a thread of their own */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    struct weir_check *waiting[64];
    size_t count;
    struct weir_check *held;
    bool stops;
} worker = { .mutex = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER };

static void worker_submit(void *self, struct weir_check *check, uint64_t deadline_us)
{
    (void)self;
    (void)deadline_us;
    pthread_mutex_lock(&worker.mutex);
    assert_true(worker.count < COUNT_OF(worker.waiting));
    worker.waiting[worker.count++] = check;
    pthread_cond_broadcast(&worker.moved);
    pthread_mutex_unlock(&worker.mutex);
}

static bool worker_take_out(const struct weir_check *check)
{
    for (size_t i = 0; i < worker.count; i++) {
        if (worker.waiting[i] != check)
            continue;
        memmove(&worker.waiting[i], &worker.waiting[i + 1],
                (--worker.count - i) * sizeof worker.waiting[0]);
        return true;
    }
    return false;
}

static void worker_cancel(void *self, struct weir_check *check)
{
    (void)self;
    pthread_mutex_lock(&worker.mutex);
    while (worker.held == check)
        pthread_cond_wait(&worker.moved, &worker.mutex);
    bool was_waiting = worker_take_out(check);
    pthread_mutex_unlock(&worker.mutex);
    if (was_waiting)
        fail_check(check, WEIR_STORE_CANCELLED);
}

static void *work(void *self)
{
    (void)self;
    pthread_mutex_lock(&worker.mutex);
    while (!worker.stops) {
        worker.held = worker.count > 0 ? worker.waiting[0] : NULL;
        pthread_cond_broadcast(&worker.moved);
        if (worker.held == NULL) {
            pthread_cond_wait(&worker.moved, &worker.mutex);
            continue;
        }
        worker_take_out(worker.held);
        pthread_mutex_unlock(&worker.mutex);
        carry_out(worker.held);
        pthread_mutex_lock(&worker.mutex);
    }
    pthread_mutex_unlock(&worker.mutex);
    return NULL;
}

struct canceller {
    pthread_t thread;
    unsigned done;
    enum weir_operation operation;
};

static void on_cancelled_or_done(struct weir_check *check)
{
    struct canceller *canceller = check->owner;
    canceller->done++; /* cancel() waits for this, so no lock is needed */
}

static void *submit_and_cancel(void *self)
{
    struct canceller *canceller = self;
    for (unsigned n = 0; n < 300; n++) {
        struct asked asked = three(100000, n % 3 == 0 ? 0 : 100000, 100000);
        for (size_t i = 0; i < 3; i++)
            asked.spends[i].full_us = 1;
        asked.check = (struct weir_check){ .operation = canceller->operation,
                                           .spends = asked.spends,
                                           .answers = asked.answers,
                                           .count = 3,
                                           .done = on_cancelled_or_done,
                                           .owner = canceller };
        weir_redis_split_submit(&cluster.splits, &asked.check, UINT64_MAX);
        for (unsigned pause = 0; pause < n % 50 * 100; pause++)
            __asm__ volatile("");
        weir_redis_split_cancel(&cluster.splits, &asked.check);
        memset(&asked, 0xa5, sizeof asked);
    }
    return NULL;
}

static void ends_each_check_once_whoever_is_quicker(void **state)
{
    (void)state;
    static const enum weir_operation operations[] = { WEIR_SPEND, WEIR_RESET, WEIR_SPEND,
                                                      WEIR_SETTLE };
    pthread_t thread;
    cluster.splits.inner.submit = worker_submit;
    cluster.splits.inner.cancel = worker_cancel;
    assert_int_equal(pthread_create(&thread, NULL, work, NULL), 0);
    struct canceller cancellers[COUNT_OF(operations)];
    for (size_t i = 0; i < COUNT_OF(cancellers); i++) {
        cancellers[i] = (struct canceller){ .operation = operations[i] };
        assert_int_equal(
            pthread_create(&cancellers[i].thread, NULL, submit_and_cancel, &cancellers[i]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(cancellers); i++) {
        pthread_join(cancellers[i].thread, NULL);
        assert_int_equal(cancellers[i].done, 300);
    }
    weir_redis_splits_close(&cluster.splits);
    pthread_mutex_lock(&worker.mutex);
    worker.stops = true;
    pthread_cond_broadcast(&worker.moved);
    pthread_mutex_unlock(&worker.mutex);
    pthread_join(thread, NULL);
}

/* closing */

static void ends_checks_when_it_is_closed(void **state)
{
    (void)state;
    struct asked asked = three(9, 9, 9);
    cluster.holds_at = 2;
    submit(&asked, 3);
    weir_redis_splits_close(&cluster.splits);
    assert_done(&asked, WEIR_STORE_CANCELLED);
    assert_int_equal(left_of(&asked.spends[1]), 9);
}

static _Atomic bool is_closed;

static void *close_elsewhere(void *self)
{
    (void)self;
    weir_redis_splits_close(&cluster.splits);
    is_closed = true;
    return NULL;
}

static void waits_for_what_is_given_back_when_it_is_closed(void **state)
{
    (void)state;
    struct asked asked = three(9, 9, 9);
    cluster.fails_at = 2;
    cluster.failure = WEIR_STORE_ERROR;
    cluster.holds_at = 3;
    submit(&asked, 3);
    assert_done(&asked, WEIR_STORE_ERROR);
    assert_int_equal(left_of(&asked.spends[1]), 8);

    pthread_t thread;
    is_closed = false;
    assert_int_equal(pthread_create(&thread, NULL, close_elsewhere, NULL), 0);
    for (int n = 0; n < 1000; n++)
        sched_yield();
    assert_false(is_closed);
    carry_out(cluster.held);
    pthread_join(thread, NULL);
    assert_int_equal(left_of(&asked.spends[1]), 9);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(tells_checks_over_several_slots_apart),
        CASE(takes_parts_in_the_order_of_their_slots),
        CASE(asks_once_for_all_limits_of_a_slot),
        CASE(has_one_deadline_for_all_parts),
        CASE(tells_when_each_limit_was_decided),
        CASE(gives_back_what_it_took_when_a_limit_refuses),
        CASE(gives_back_before_it_looks),
        CASE(looks_only_when_all_is_given_back),
        CASE(ends_what_is_cancelled_while_it_gives_back),
        CASE(says_the_wait_of_each_limit_that_refuses),
        CASE(says_that_a_later_cost_is_impossible),
        CASE(gives_back_what_passes_after_all),
        CASE(gives_nothing_back_where_nothing_was_asked),
        CASE(lets_a_refusal_stand_when_the_others_cannot_be_asked),
        CASE(looks_at_nothing_when_there_is_little_time_left),
        CASE(gives_back_what_it_surely_took_when_a_part_fails),
        CASE(gives_nothing_back_of_a_part_without_an_answer),
        CASE(begins_nothing_where_one_slot_cannot_be_asked),
        CASE(settles_resets_and_blocks_each_slot_by_itself),
        CASE(changes_the_other_slots_when_one_fails),
        CASE(cancels_whichever_part_is_under_way),
        CASE(cancels_all_parts_of_a_change),
        CASE(ends_what_is_cancelled_while_it_looks),
        CASE(lets_done_cancel_its_own_check),
        CASE(ends_each_check_once_whoever_is_quicker),
        CASE(ends_checks_when_it_is_closed),
        CASE(waits_for_what_is_given_back_when_it_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
