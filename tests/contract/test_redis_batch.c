/* Checks that wait together go to Redis in few calls, and each is decided as if it had come alone. A
 * lane that the test drives itself says what waits together. */
#include "contract.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include <weir/calendar.h>

#include "base/clock.h"
#include "redis_cluster.h"
#include "redis_server.h"
#include "store/redis_internal.h"
#include "store/redis_slot.h"
#include "store/store.h"

#define SECOND UINT64_C(1000000)
#define HOUR   (3600 * SECOND)

/* Long enough for a machine that is busy with other things. */
#define WAIT_US    (30 * SECOND)
#define PATIENT_MS 30000

#define CROWD_MAX 600

static struct redis_server server;

/* a lane that is driven by hand */

static struct weir_redis_voice voice;
static struct weir_redis *threaded, *lane;

static void look(uint64_t wait_us)
{
    weir_redis_do_round(lane);
    weir_redis_wait(lane, -1, wait_us);
}

static void open_lane_at(const char *url_text)
{
    struct weir_redis_url url;
    assert_int_equal(weir_redis_url_read(url_text, &url, NULL), WEIR_OK);
    assert_true(weir_voice_init(&voice));
    assert_int_equal(weir_redis_new(&url, WEIR_STORE_OPTIONS(.timeout_ms = PATIENT_MS), NULL,
                                    &voice, true, &threaded, NULL),
                     WEIR_OK);
    weir_redis_url_forget(&url);
    lane = weir_redis_new_driven(threaded);
    assert_non_null(lane);
    uint64_t start_us = weir_monotonic_us();
    while (lane->link_count == 0 || lane->links[0]->stage != WEIR_LINK_OPEN) {
        assert_true(weir_monotonic_us() - start_us < WAIT_US);
        look(1000);
    }
}

static void close_lane(void)
{
    weir_redis_type.free(lane);
    weir_redis_type.free(threaded);
    weir_voice_finish(&voice);
    memset(&voice, 0, sizeof voice);
}

static int open_own(void **state)
{
    (void)state;
    open_lane_at(server.url);
    return 0;
}

static int close_own(void **state)
{
    (void)state;
    close_lane();
    return 0;
}

static struct weir_redis_call_numbers calls_since(struct weir_redis_call_numbers before)
{
    struct weir_redis_call_numbers now = weir_redis_batcher_numbers(&lane->batcher);
    return (struct weir_redis_call_numbers){ now.calls - before.calls, now.checks - before.checks };
}

static struct weir_redis_call_numbers calls_now(void)
{
    return weir_redis_batcher_numbers(&lane->batcher);
}

/* checks that nobody waits for */

static struct {
    struct contract_plan plans[CROWD_MAX];
    size_t count;
    size_t ended[CROWD_MAX]; /* in the order in which they did */
    _Atomic size_t ended_count;
} crowd;

static void on_done(struct weir_check *check)
{
    crowd.ended[crowd.ended_count] = (size_t)((struct contract_plan *)check->owner - crowd.plans);
    crowd.ended_count++;
}

static void begin_crowd(void)
{
    memset(&crowd, 0, sizeof crowd);
}

/* One more of so many limits, to be filled in. */
static struct contract_plan *join(size_t count)
{
    assert_true(crowd.count < CROWD_MAX);
    struct contract_plan *plan = &crowd.plans[crowd.count++];
    plan->check = (struct weir_check){ .spends = plan->spends,
                                       .answers = plan->answers,
                                       .count = count,
                                       .wants_time = true,
                                       .done = on_done,
                                       .owner = plan };
    return plan;
}

static struct contract_plan *join_with(struct weir_spend spend)
{
    struct contract_plan *plan = join(1);
    plan->spends[0] = spend;
    return plan;
}

static void submit(struct contract_plan *plan)
{
    weir_redis_type.submit(lane, &plan->check);
}

static void await(size_t count)
{
    uint64_t start_us = weir_monotonic_us();
    while (crowd.ended_count < count) {
        assert_true(weir_monotonic_us() - start_us < WAIT_US);
        look(1000);
    }
}

static void ask_crowd(void)
{
    for (size_t i = 0; i < crowd.count; i++)
        submit(&crowd.plans[i]);
    await(crowd.count);
}

static void assert_answered(const struct contract_plan *plan)
{
    assert_string_equal(plan->check.why, "");
    assert_int_equal(plan->check.result, WEIR_STORE_ANSWERED);
}

static void assert_all_answered(void)
{
    for (size_t i = 0; i < crowd.count; i++)
        assert_answered(&crowd.plans[i]);
}

static uint64_t remaining_of(struct weir_spend spend)
{
    spend.cost = 0;
    begin_crowd();
    struct contract_plan *plan = join_with(spend);
    ask_crowd();
    assert_answered(plan);
    return plan->answers[0].remaining;
}

/* Redis knows the script for many limits of this kind from here on. */
static void teach(struct weir_spend spend)
{
    spend.cost = 0;
    for (int n = 0; n < 2; n++) {
        begin_crowd();
        join_with(spend);
        join_with(spend);
        ask_crowd();
        assert_all_answered();
    }
}

/* limits of every kind that goes along with others */

enum { TOKENS_WITH_PARTS = 4, KINDS = 12 };

static struct weir_calendar *calendar;

static struct weir_spend kind_of(size_t kind, const char *name, uint64_t limit)
{
    static const struct {
        enum weir_algorithm algorithm;
        uint64_t window_us;
        bool from_first, is_grouped;
    } kinds[KINDS] = {
        { WEIR_GCRA, 10 * HOUR, false, false },
        { WEIR_GCRA, 10 * HOUR, false, true },
        { WEIR_GCRA, 10 * HOUR + 1, false, false },
        { WEIR_TOKEN_BUCKET, 10 * HOUR, false, false },
        { WEIR_TOKEN_BUCKET, 10 * HOUR + 1, false, true },
        { WEIR_LEAKY_BUCKET, 10 * HOUR, false, false },
        { WEIR_LEAKY_BUCKET, 10 * HOUR + 1, false, false },
        { WEIR_FIXED_WINDOW, WEIR_WINDOW_MAX_US, false, false },
        { WEIR_FIXED_WINDOW, WEIR_WINDOW_MAX_US, true, true },
        { WEIR_FIXED_WINDOW, 0, false, false }, /* of a calendar */
        { WEIR_SLIDING_COUNTER, WEIR_WINDOW_MAX_US, false, false },
        { WEIR_SLIDING_LOG, WEIR_WINDOW_MAX_US, false, false }, /* alone */
    };
    uint64_t window_us = kinds[kind].window_us;
    struct weir_spend spend =
        contract_gcra(name, limit, window_us == 0 ? WEIR_WINDOW_MAX_US : window_us, 0);
    spend.algorithm = kinds[kind].algorithm;
    spend.from_first = kinds[kind].from_first;
    spend.calendar = window_us == 0 ? calendar : NULL;
    spend.group_length = kinds[kind].is_grouped ? spend.key_length - 1 : 0;
    return spend;
}

/* few calls */

static void sends_a_lone_check_as_ever(void **state)
{
    (void)state;
    struct weir_spend spend = contract_gcra("lone", 100, HOUR, 0);
    struct weir_redis_call_numbers before = calls_now();
    for (uint64_t n = 1; n <= 10; n++) {
        begin_crowd();
        struct contract_plan *plan = join_with(spend);
        ask_crowd();
        assert_answered(plan);
        assert_int_equal(plan->answers[0].remaining, 100 - n);
    }
    assert_int_equal(calls_since(before).calls, 10);
    assert_int_equal(calls_since(before).checks, 10);
}

static void sends_what_waits_in_few_calls(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < KINDS - 1; kind++) {
        enum { COUNT = 300 };
        begin_crowd();
        for (size_t i = 0; i < COUNT; i++)
            join_with(kind_of(kind, "few", 10));
        struct weir_redis_call_numbers before = calls_now();
        ask_crowd();
        assert_all_answered();
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(crowd.plans[i].answers[0].remaining, 9);
        assert_int_equal(calls_since(before).checks, COUNT);
        /* Four of 64 and one of 44; token buckets with parts take longer. */
        assert_int_equal(calls_since(before).calls, kind == TOKENS_WITH_PARTS ? 10 : 5);
    }
}

static void bounds_a_call_by_its_limits_and_keys(void **state)
{
    (void)state;
    static const struct {
        size_t limits, key_length;
        uint64_t calls;
    } rows[] = { { 1, 20, 1 }, { 2, 20, 2 }, { 3, 20, 4 }, { 8, 20, 8 }, { 1, 500, 4 } };
    static char keys[64][WEIR_CHECK_LIMITS][WEIR_KEY_MAX];
    for (size_t n = 0; n < COUNT_OF(rows); n++) {
        begin_crowd();
        for (size_t i = 0; i < 64; i++) {
            struct contract_plan *plan = join(rows[n].limits);
            for (size_t k = 0; k < rows[n].limits; k++) {
                plan->spends[k] = contract_gcra("bounds", 10, HOUR, 0);
                memset(keys[i][k], 'k', WEIR_KEY_MAX);
                int length =
                    snprintf(keys[i][k], sizeof keys[i][k], "contract-%zu-%zu-%zu", n, i, k);
                keys[i][k][length] = 'k'; /* in place of the NUL */
                plan->spends[k].key = keys[i][k];
                plan->spends[k].key_length = rows[n].key_length;
            }
        }
        struct weir_redis_call_numbers before = calls_now();
        ask_crowd();
        assert_all_answered();
        assert_int_equal(calls_since(before).calls, rows[n].calls);
    }
}

/* Eight limits with a key each, alone or as groups of one, for several checks in a call. */
static void has_room_for_the_largest_scripts(void **state)
{
    (void)state;
    for (int grouped = 0; grouped < 2; grouped++)
        for (int algorithm = WEIR_GCRA; algorithm < WEIR_SLIDING_LOG; algorithm++) {
            enum { COUNT = 4 };
            begin_crowd();
            for (size_t i = 0; i < COUNT; i++) {
                struct contract_plan *plan = join(WEIR_CHECK_LIMITS);
                for (size_t k = 0; k < WEIR_CHECK_LIMITS; k++) {
                    struct weir_spend spend = contract_gcra("largest", 7, WEIR_WINDOW_MAX_US, 0);
                    spend.algorithm = (enum weir_algorithm)algorithm;
                    spend.group_length = grouped ? spend.key_length - 1 : 0;
                    plan->spends[k] = spend;
                }
            }
            struct weir_redis_call_numbers before = calls_now();
            ask_crowd();
            assert_all_answered();
            assert_int_equal(calls_since(before).calls, 1);
            for (size_t i = 0; i < COUNT * WEIR_CHECK_LIMITS; i++)
                assert_int_equal(crowd.plans[i / 8].answers[i % 8].remaining, 6);
        }
}

/* A store with its thread; Redis holds calls back until many wait. */
static void sends_few_calls_while_redis_pauses(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    struct weir_store *store = NULL;
    assert_int_equal(
        weir_store_open(server.url, WEIR_STORE_OPTIONS(.timeout_ms = PATIENT_MS), &store, NULL),
        WEIR_OK);
    contract_await_answers(store);
    begin_crowd();
    struct weir_spend hot = contract_gcra("paused", 100, 100 * HOUR, 0);
    for (size_t i = 0; i < COUNT; i++)
        join_with(i % 2 == 0 ? hot : contract_gcra("paused", 100, 100 * HOUR, 0));
    redis_server_do(&server, "CONFIG RESETSTAT");
    redis_server_do(&server, "CLIENT PAUSE 30000 WRITE");
    for (size_t i = 0; i < COUNT; i++)
        store->type->submit(store->self, &crowd.plans[i].check);
    redis_server_do(&server, "CLIENT UNPAUSE");
    for (uint64_t start_us = weir_monotonic_us(); crowd.ended_count < COUNT;) {
        assert_true(weir_monotonic_us() - start_us < WAIT_US);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    assert_all_answered();
    size_t passed = 0;
    for (size_t i = 0; i < COUNT; i++) {
        passed += i % 2 == 0 && crowd.plans[i].answers[0].allowed;
        if (i % 2 == 1)
            assert_int_equal(crowd.plans[i].answers[0].remaining, 99);
    }
    assert_int_equal(passed, 100);
    redisReply *stats = redis_server_ask(&server, "INFO commandstats");
    unsigned long calls = 0;
    for (const char *at = stats->str; (at = strstr(at, "cmdstat_eval")) != NULL; at++)
        calls += strtoul(strstr(at, "calls=") + 6, NULL, 10);
    freeReplyObject(stats);
    print_message("    %lu calls for %d checks\n", calls, COUNT);
    assert_in_range(calls, COUNT / 64, COUNT / 10);
    weir_store_free(store);
}

/* as if each had come alone */

static void decides_checks_of_one_key_in_their_order(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < KINDS; kind++) {
        enum { COUNT = 150, LIMIT = 100 };
        begin_crowd();
        struct weir_spend spend = kind_of(kind, "hot", LIMIT);
        for (size_t i = 0; i < COUNT; i++)
            join_with(spend);
        ask_crowd();
        assert_all_answered();
        for (size_t i = 0; i < COUNT; i++) {
            const struct weir_answer *answer = &crowd.plans[i].answers[0];
            assert_int_equal(crowd.ended[i], i);
            assert_int_equal(answer->allowed, i < LIMIT);
            assert_int_equal(answer->remaining, i < LIMIT ? LIMIT - 1 - i : 0);
        }
        assert_int_equal(remaining_of(spend), 0);
    }
}

/* Several busy clients, beside many that come once. */
static void keeps_clients_apart_that_come_mixed(void **state)
{
    (void)state;
    enum { COUNT = 400, HOT = 4, LIMIT = 30 };
    struct weir_spend hot[HOT];
    uint64_t used[HOT] = { 0 };
    for (size_t i = 0; i < HOT; i++)
        hot[i] = contract_gcra("mixed", LIMIT, 100 * HOUR, 0);
    begin_crowd();
    for (size_t i = 0; i < COUNT; i++) {
        struct weir_spend spend =
            i % 5 == HOT ? contract_gcra("mixed", LIMIT, 100 * HOUR, 0) : hot[i % 5];
        spend.cost = i / 5 % 3;
        join_with(spend);
    }
    ask_crowd();
    assert_all_answered();
    for (size_t i = 0; i < COUNT; i++) {
        const struct weir_answer *answer = &crowd.plans[i].answers[0];
        uint64_t cost = i / 5 % 3, before = i % 5 == HOT ? 0 : used[i % 5];
        bool fits = before + cost <= LIMIT;
        assert_int_equal(answer->allowed, fits);
        assert_int_equal(answer->remaining, LIMIT - before - (fits ? cost : 0));
        if (i % 5 != HOT)
            used[i % 5] += fits ? cost : 0;
    }
}

/* All kinds together, each with a key of its own and in turn. */
static void decides_all_kinds_that_wait_together(void **state)
{
    (void)state;
    enum { EACH = 15, LIMIT = 10 };
    struct weir_spend spends[KINDS];
    for (size_t kind = 0; kind < KINDS; kind++)
        spends[kind] = kind_of(kind, "kinds", LIMIT);
    begin_crowd();
    for (size_t i = 0; i < EACH * KINDS; i++)
        join_with(spends[i % KINDS]);
    struct weir_redis_call_numbers before = calls_now();
    ask_crowd();
    assert_all_answered();
    for (size_t i = 0; i < EACH * KINDS; i++) {
        assert_int_equal(crowd.plans[i].answers[0].allowed, i / KINDS < LIMIT);
        assert_int_equal(crowd.plans[i].answers[0].remaining,
                         i / KINDS < LIMIT ? LIMIT - 1 - i / KINDS : 0);
    }
    assert_in_range(calls_since(before).calls, KINDS - 1 + EACH, 2 * (KINDS - 1) + EACH);
}

/* Where one limit of a plan refuses, the others of that plan spend nothing. */
static void takes_all_of_a_plan_or_nothing(void **state)
{
    (void)state;
    for (int grouped = 0; grouped < 2; grouped++) {
        enum { COUNT = 60 };
        struct weir_spend wide = contract_gcra("all-wide", 100, 100 * HOUR, 0);
        begin_crowd();
        for (size_t i = 0; i < COUNT; i++) {
            struct contract_plan *plan = join(3);
            plan->spends[0] = contract_gcra("all", 5, 100 * HOUR, 0);
            plan->spends[1] = contract_window("all", 10, WEIR_WINDOW_MAX_US);
            plan->spends[2] = wide;
            plan->spends[0].cost = i % 4 == 0 ? 6 : 1; /* each fourth never fits */
            for (size_t k = 0; k < 2; k++) {
                plan->spends[k].key = crowd.plans[i].spends[0].key;
                plan->spends[k].key_length = strlen(plan->spends[k].key) - (k == 0 ? 0 : 1);
                plan->spends[k].group_length = grouped ? plan->spends[k].key_length - 2 : 0;
            }
            plan->spends[0].group_length = grouped ? plan->spends[1].group_length : 0;
        }
        ask_crowd();
        assert_all_answered();
        uint64_t used = 0;
        for (size_t i = 0; i < COUNT; i++) {
            const struct weir_answer *answers = crowd.plans[i].answers;
            bool fits = i % 4 != 0;
            used += fits;
            assert_int_equal(answers[0].allowed, fits);
            assert_int_equal(answers[0].remaining, fits ? 4 : 5);
            assert_int_equal(answers[1].remaining, fits ? 9 : 10);
            assert_int_equal(answers[2].remaining, 100 - used);
        }
        assert_int_equal(remaining_of(wide), 100 - used);
    }
}

/* What else is asked of a key comes in its turn. */
static void keeps_what_spends_in_turn_with_what_does_not(void **state)
{
    (void)state;
    struct weir_spend spend = contract_gcra("turn", 10, 100 * HOUR, 0);
    begin_crowd();
    for (size_t i = 0; i < 60; i++) {
        struct contract_plan *plan =
            join_with(i % 2 == 0 ? spend : contract_gcra("turn", 10, HOUR, 0));
        if (i % 20 == 8)
            plan->check.operation = WEIR_RESET;
        if (i % 20 == 14) {
            plan->check.operation = WEIR_BLOCK;
            plan->check.block_us = HOUR;
        }
    }
    ask_crowd();
    assert_all_answered();
    /* Each tenth: four pass, a reset, two pass, a block, two are refused. Only the reset of the next
     * ends the block. */
    for (size_t i = 0; i < 60; i += 2) {
        size_t n = i / 2 % 10;
        const struct weir_answer *answer = &crowd.plans[i].answers[0];
        if (n == 4 || n == 7)
            continue;
        bool is_blocked = n > 7 || (n < 4 && i >= 20);
        assert_int_equal(answer->allowed, !is_blocked);
        if (!is_blocked)
            assert_int_equal(answer->remaining, n < 4 ? 9 - n : 14 - n);
    }
}

/* The same key in limits of another algorithm, as after a change of the policy. */
static void keeps_kinds_in_turn_that_share_a_key(void **state)
{
    (void)state;
    struct weir_spend one = contract_gcra("share", 10, 100 * HOUR, 0), other = one;
    other.rate.limit = other.rate.burst = 5;
    other.rate.interval_us *= 2;
    begin_crowd();
    for (size_t i = 0; i < 40; i++) {
        struct contract_plan *plan = join_with(i % 2 == 0 ? one : other);
        plan->check.operation = i % 4 == 3 ? WEIR_RESET : WEIR_SPEND;
    }
    ask_crowd();
    assert_all_answered();
    for (size_t i = 0; i < 40; i++) {
        static const uint64_t remaining[] = { 9, 3, 6, 0 };
        if (i % 4 != 3)
            assert_int_equal(crowd.plans[i].answers[0].remaining, remaining[i % 4]);
    }
}

/* faults of single checks */

static void takes_other_types_for_new_keys(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < KINDS; kind++) {
        begin_crowd();
        for (size_t i = 0; i < 20; i++) {
            struct weir_spend spend = kind_of(kind, "types", 10);
            size_t key_length = spend.group_length > 0 ? spend.group_length : spend.key_length;
            if (i % 3 == 0)
                redis_server_do(&server, "LPUSH %b a", spend.key, key_length);
            if (i % 3 == 1)
                redis_server_do(&server, "SET %b text", spend.key, key_length);
            join_with(spend);
            join_with(spend);
        }
        ask_crowd();
        assert_all_answered();
        for (size_t i = 0; i < crowd.count; i++)
            assert_int_equal(crowd.plans[i].answers[0].remaining, 9 - i % 2);
    }
}

/* A user that may make keys, but not change them. */
static void tells_an_error_of_one_check_to_that_alone(void **state)
{
    (void)state;
    struct weir_spend old = contract_gcra("old", 1000, 100 * HOUR, 0);
    begin_crowd();
    join_with(old)->spends[0].cost = 100;
    ask_crowd();
    close_lane();
    redis_server_do(&server, "ACL SETUSER maker reset on >pass ~* +@all -setrange");
    char url[200];
    snprintf(url, sizeof url, "redis+unix://maker:pass@%s", server.socket);
    open_lane_at(url);
    for (int grouped = 0; grouped < 2; grouped++) {
        begin_crowd();
        struct weir_spend mine = contract_gcra("mine", 10, 100 * HOUR, 0);
        for (size_t i = 0; i < 30; i++) {
            struct contract_plan *plan = join(1 + (size_t)grouped);
            plan->spends[0] = i % 10 == 4 ? old : contract_gcra("new", 10, 100 * HOUR, 0);
            plan->spends[1] = mine;
            plan->spends[1].key = plan->spends[0].key;
            plan->spends[1].key_length = plan->spends[0].key_length - 1;
        }
        ask_crowd();
        for (size_t i = 0; i < crowd.count; i++) {
            if (i % 10 != 4) {
                assert_answered(&crowd.plans[i]);
                assert_int_equal(crowd.plans[i].answers[0].remaining, 9);
                continue;
            }
            assert_int_equal(crowd.plans[i].check.result, WEIR_STORE_ERROR);
            assert_non_null(strstr(crowd.plans[i].check.why, "user"));
        }
    }
    /* Nothing was spent that was not answered. */
    redis_server_do(&server, "ACL SETUSER maker +setrange");
    assert_int_equal(remaining_of(old), 900);
    redis_server_do(&server, "ACL DELUSER maker");
}

/* Redis looks at the keys of a call before it runs. */
static void asks_one_by_one_where_a_key_is_forbidden(void **state)
{
    (void)state;
    close_lane();
    redis_server_do(&server, "ACL SETUSER narrow reset on >pass ~contract-* +@all");
    char url[200];
    snprintf(url, sizeof url, "redis+unix://narrow:pass@%s", server.socket);
    open_lane_at(url);
    begin_crowd();
    for (size_t i = 0; i < 20; i++) {
        struct contract_plan *plan = join_with(contract_gcra("narrow", 10, 100 * HOUR, 0));
        if (i == 7) {
            plan->spends[0].key = "forbidden";
            plan->spends[0].key_length = 9;
        }
    }
    ask_crowd();
    for (size_t i = 0; i < 20; i++) {
        if (i != 7) {
            assert_answered(&crowd.plans[i]);
            assert_int_equal(crowd.plans[i].answers[0].remaining, 9);
            continue;
        }
        assert_int_equal(crowd.plans[i].check.result, WEIR_STORE_ERROR);
        assert_non_null(strstr(crowd.plans[i].check.why, "NOPERM"));
    }
    redis_server_do(&server, "ACL DELUSER narrow");
}

/* The windows of a day, by a clock that is two days ahead, and those of a year. */
static void refuses_calendars_of_another_time_alone(void **state)
{
    (void)state;
    struct weir_calendar *days = NULL;
    assert_int_equal(weir_calendar_new(NULL, &days, NULL), WEIR_OK);
    begin_crowd();
    struct weir_redis_plan plans[3];
    struct weir_redis_item items[3];
    for (size_t i = 0; i < 3; i++) {
        struct contract_plan *plan = join_with(contract_window("ahead", 10, WEIR_WINDOW_MAX_US));
        plan->spends[0].calendar = i == 1 ? days : calendar;
        weir_redis_plan_make(&plans[i], &plan->check);
        items[i] = (struct weir_redis_item){ &plans[i], &plan->check };
    }
    struct weir_redis_shape shape = plans[0].shape;
    shape.is_batch = true;
    static char memory[WEIR_REDIS_COMMAND_BYTES];
    struct weir_buffer command = weir_buffer_init(memory, sizeof memory);
    struct weir_redis_scripts scripts = { .clock = WEIR_REDIS_OWN_CLOCK };
    const struct weir_clock system = weir_clock_or_system(NULL);
    weir_redis_write_batch(&command, weir_redis_scripts_get(&scripts, &shape), WEIR_REDIS_BY_TEXT,
                           WEIR_REDIS_OWN_CLOCK, weir_clock_now_us(&system) + 48 * HOUR, items, 3);
    redisContext *context = redisConnectUnix(server.socket);
    redisReply *reply = NULL;
    redisAppendFormattedCommand(context, command.at, command.length);
    assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
    for (size_t i = 0; i < 3; i++) {
        struct weir_check *check = &crowd.plans[i].check;
        struct weir_redis_part part;
        enum weir_redis_meaning meaning =
            weir_redis_read_answer(weir_redis_reply_part(reply, check, i, 3, &part), check);
        assert_int_equal(meaning, i == 1 ? WEIR_REDIS_REFUSED : WEIR_REDIS_DECIDED);
        assert_string_equal(
            check->why, i == 1 ? "ERR the clocks of Redis and its client are too far apart" : "");
    }
    freeReplyObject(reply);
    redisFree(context);
    weir_redis_scripts_finish(&scripts);
    weir_calendar_free(days);
}

/* faults of whole calls */

static void counts_once_when_the_script_is_forgotten(void **state)
{
    (void)state;
    struct weir_spend hot = contract_gcra("forgotten", 1000, 1000 * HOUR, 0);
    teach(hot);
    begin_crowd();
    for (size_t i = 0; i < 100; i++)
        join_with(i % 2 == 0 ? hot : contract_gcra("forgotten", 1000, 1000 * HOUR, 0));
    redis_server_do(&server, "SCRIPT FLUSH");
    ask_crowd();
    assert_all_answered();
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(crowd.plans[i].answers[0].remaining, i % 2 == 0 ? 999 - i / 2 : 999);
    assert_int_equal(remaining_of(hot), 950);
}

static void refuses_each_check_where_redis_refuses_the_call(void **state)
{
    (void)state;
    struct weir_spend hot = contract_gcra("full", 1000, 1000 * HOUR, 0);
    teach(hot);
    redis_server_do(&server, "CONFIG SET maxmemory 1");
    begin_crowd();
    for (size_t i = 0; i < 50; i++)
        join_with(i % 2 == 0 ? hot : contract_gcra("full", 1000, 1000 * HOUR, 0));
    ask_crowd();
    redis_server_do(&server, "CONFIG SET maxmemory 0");
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(crowd.plans[i].check.result, WEIR_STORE_ERROR);
        assert_int_equal(strncmp(crowd.plans[i].check.why, "OOM ", 4), 0);
    }
    assert_int_equal(remaining_of(hot), 1000);
}

/* What became of it is unknown: it is not repeated. */
static void gives_up_a_call_that_a_killed_server_had_taken(void **state)
{
    (void)state;
    struct redis_server own = { .keeps_data = false };
    close_lane();
    redis_server_prepare(&own);
    redis_server_start(&own);
    open_lane_at(own.url);
    redis_server_freeze(&own);
    begin_crowd();
    for (size_t i = 0; i < 50; i++)
        join_with(contract_gcra("killed", 10, HOUR, 0));
    struct weir_redis_call_numbers before = calls_now();
    for (size_t i = 0; i < 50; i++)
        submit(&crowd.plans[i]);
    look(1);
    assert_int_equal(calls_since(before).calls, 1);
    redis_server_kill(&own);
    await(50);
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(crowd.plans[i].check.result, WEIR_STORE_UNAVAILABLE);
    assert_int_equal(calls_since(before).calls, 1);
    redis_server_remove(&own);
}

/* What ends in the middle of a call leaves the others their answers. */
static void ends_some_of_a_call_early(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    struct weir_spend spend = contract_gcra("early", 1000, 1000 * HOUR, 0);
    teach(spend);
    redis_server_freeze(&server);
    begin_crowd();
    for (size_t i = 0; i < COUNT; i++)
        join_with(i < 3 ? spend : contract_gcra("early", 1000, 1000 * HOUR, 0));
    struct weir_redis_call_numbers before = calls_now();
    uint64_t now_us = weir_monotonic_us();
    for (size_t i = 0; i < COUNT; i++) {
        crowd.plans[i].spends[0].cost = i + 1;
        weir_redis_enter(lane, &crowd.plans[i].check,
                         i % 10 == 3 ? now_us + 1000 : now_us + WAIT_US);
    }
    look(1);
    assert_int_equal(calls_since(before).calls, 1);
    for (size_t i = 0; i < COUNT; i += 7) /* the first one too */
        weir_redis_cancel(lane, &crowd.plans[i].check);
    await(9 + 6);
    redis_server_thaw(&server);
    await(COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const struct weir_check *check = &crowd.plans[i].check;
        if (i % 10 == 3) {
            assert_int_equal(check->result, WEIR_STORE_TIMEOUT);
        } else if (i % 7 == 0) {
            assert_int_equal(check->result, WEIR_STORE_CANCELLED);
        } else {
            assert_answered(&crowd.plans[i]);
            assert_int_equal(crowd.plans[i].answers[0].remaining,
                             i < 3 ? 1000 - 1 - (i + 1) * i / 2 - i : 999 - i);
        }
    }
    /* Redis has counted them all. */
    assert_int_equal(remaining_of(spend), 1000 - 6);
}

/* Those that wait behind four calls end before they were sent. */
static void counts_nothing_of_what_ended_while_it_waited(void **state)
{
    (void)state;
    struct weir_spend spend = contract_gcra("waited", 1000, 1000 * HOUR, 0);
    teach(spend);
    redis_server_freeze(&server);
    begin_crowd();
    for (size_t i = 0; i < 20; i++) {
        submit(join_with(spend));
        look(1);
    }
    for (size_t i = 0; i < 20; i += 2)
        weir_redis_cancel(lane, &crowd.plans[i].check);
    redis_server_thaw(&server);
    await(20);
    for (size_t i = 1; i < 20; i += 2)
        assert_answered(&crowd.plans[i]);
    /* Four were under way, of which two were cancelled; eight others were cancelled in time. */
    assert_int_equal(remaining_of(spend), 1000 - 4 - 8);
}

/* a cluster */

static struct redis_cluster cluster;

static unsigned slot_of(const struct weir_spend *spend)
{
    return weir_redis_slot((struct weir_text){ spend->key, spend->key_length });
}

static struct weir_store *open_cluster(void)
{
    struct weir_store *store = NULL;
    assert_int_equal(
        weir_store_open(cluster.url, WEIR_STORE_OPTIONS(.timeout_ms = PATIENT_MS), &store, NULL),
        WEIR_OK);
    contract_await_answers(store);
    return store;
}

static void ask_cluster(struct weir_store *store)
{
    for (size_t i = 0; i < crowd.count; i++)
        store->type->submit(store->self, &crowd.plans[i].check);
    for (uint64_t start_us = weir_monotonic_us(); crowd.ended_count < crowd.count;) {
        assert_true(weir_monotonic_us() - start_us < WAIT_US);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    assert_all_answered();
}

static unsigned long long cluster_errors(const char *kind)
{
    unsigned long long errors = 0;
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
        errors += redis_cluster_errors(&cluster, i, kind);
    return errors;
}

/* Busy clients of three slots, beside many of any. */
static void keeps_slots_apart_in_a_cluster(void **state)
{
    (void)state;
    enum { COUNT = 400, HOT = 3, LIMIT = 70 };
    struct weir_store *store = open_cluster();
    struct weir_spend hot[HOT];
    for (size_t i = 0; i < HOT; i++)
        hot[i] = contract_gcra("slots", LIMIT, 100 * HOUR, 0);
    begin_crowd();
    for (size_t i = 0; i < COUNT; i++)
        join_with(i % 4 == HOT ? contract_gcra("slots", LIMIT, 100 * HOUR, 0) : hot[i % 4]);
    ask_cluster(store);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t before = i % 4 == HOT ? 0 : i / 4;
        assert_int_equal(crowd.plans[i].answers[0].allowed, before < LIMIT);
        assert_int_equal(crowd.plans[i].answers[0].remaining,
                         before < LIMIT ? LIMIT - 1 - before : 0);
    }
    assert_int_equal(cluster_errors("CROSSSLOT"), 0);
    weir_store_free(store);
}

static char tagged[CROWD_MAX][60];

/* Clients of one slot, since their keys have the same tag. */
static void join_tagged(const struct weir_spend *one, size_t count)
{
    begin_crowd();
    for (size_t i = 0; i < count; i++) {
        struct contract_plan *plan = join_with(*one);
        snprintf(tagged[i], sizeof tagged[0], "{%s}%zu", one->key, i % 40);
        plan->spends[0].key = tagged[i];
        plan->spends[0].key_length = strlen(tagged[i]);
    }
}

/* Some keys of a call are at the old master, some at the new one, and some at neither. */
static void counts_exactly_while_a_slot_moves(void **state)
{
    (void)state;
    struct weir_store *store = open_cluster();
    struct weir_spend one = contract_gcra("move", 1000, 1000 * HOUR, 0);
    unsigned slot = slot_of(&one);
    size_t old = redis_cluster_master_of(&cluster, slot);
    size_t new = (old + 1) % REDIS_CLUSTER_MASTERS;
    uint64_t before = 0;
    for (int step = 0; step < 5; step++) {
        if (step == 1)
            redis_cluster_begin_move(&cluster, slot, new);
        if (step == 3)
            redis_cluster_move_keys(&cluster, slot, new);
        if (step == 4)
            redis_cluster_end_move(&cluster, slot, new);
        /* At first the half of them, so that some are new while the slot moves. */
        size_t count = step == 0 ? 20 : 200;
        join_tagged(&one, count);
        ask_cluster(store);
        /* Each number once for each key; what was sent again may have come later than others. */
        bool has_come[40][5] = { { false } };
        for (size_t i = 0; i < count; i++) {
            uint64_t earlier = i % 40 < 20 && step > 0 ? before + 1 : before;
            uint64_t nth = 999 - earlier - crowd.plans[i].answers[0].remaining;
            assert_in_range(nth, 0, 4);
            assert_false(has_come[i % 40][nth]);
            has_come[i % 40][nth] = true;
        }
        before += step == 0 ? 0 : 5;
    }
    weir_store_free(store);
}

/* With a URL that does not say that it is a cluster, the keys of a node are those that it answers for. */
static void asks_by_slot_a_server_that_minds_slots(void **state)
{
    (void)state;
    close_lane();
    open_lane_at(cluster.nodes[0].tcp_url);
    unsigned long long errors = cluster_errors("CROSSSLOT");
    for (int round = 0; round < 2; round++) {
        begin_crowd();
        for (size_t i = 0; i < 60; i++)
            join_with(contract_gcra("minds", 10, 100 * HOUR, 0));
        ask_crowd();
        for (size_t i = 0; i < 60; i++) {
            const struct contract_plan *plan = &crowd.plans[i];
            if (redis_cluster_master_of(&cluster, slot_of(&plan->spends[0])) == 0) {
                assert_answered(plan);
                continue;
            }
            assert_int_equal(plan->check.result, WEIR_STORE_ERROR);
            assert_string_equal(plan->check.why,
                                "this is a node of a cluster: use redis+cluster://");
        }
    }
    assert_int_equal(cluster_errors("CROSSSLOT") - errors, 1);
}

static int start_cluster(void **state)
{
    (void)state;
    redis_cluster_start(&cluster);
    return 0;
}

static int remove_cluster(void **state)
{
    (void)state;
    redis_cluster_remove(&cluster);
    return 0;
}

int main(void)
{
    const struct weir_calendar_options *years = WEIR_CALENDAR_OPTIONS(.unit = WEIR_CALENDAR_YEAR);
    if (weir_calendar_new(years, &calendar, NULL) != WEIR_OK)
        return 1;
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_own, close_own)
    const struct CMUnitTest tests[] = {
        CASE(sends_a_lone_check_as_ever),
        CASE(sends_what_waits_in_few_calls),
        CASE(bounds_a_call_by_its_limits_and_keys),
        CASE(has_room_for_the_largest_scripts),
        CASE(sends_few_calls_while_redis_pauses),
        CASE(decides_checks_of_one_key_in_their_order),
        CASE(keeps_clients_apart_that_come_mixed),
        CASE(decides_all_kinds_that_wait_together),
        CASE(takes_all_of_a_plan_or_nothing),
        CASE(keeps_what_spends_in_turn_with_what_does_not),
        CASE(keeps_kinds_in_turn_that_share_a_key),
        CASE(takes_other_types_for_new_keys),
        CASE(tells_an_error_of_one_check_to_that_alone),
        CASE(asks_one_by_one_where_a_key_is_forbidden),
        CASE(refuses_calendars_of_another_time_alone),
        CASE(counts_once_when_the_script_is_forgotten),
        CASE(refuses_each_check_where_redis_refuses_the_call),
        CASE(gives_up_a_call_that_a_killed_server_had_taken),
        CASE(ends_some_of_a_call_early),
        CASE(counts_nothing_of_what_ended_while_it_waited),
    };
    redis_server_prepare(&server);
    redis_server_start(&server);
    const struct CMUnitTest in_clusters[] = {
        CASE(keeps_slots_apart_in_a_cluster),
        CASE(counts_exactly_while_a_slot_moves),
        CASE(asks_by_slot_a_server_that_minds_slots),
    };
    int failed = cmocka_run_group_tests_name("redis batch", tests, NULL, NULL);
    failed += cmocka_run_group_tests_name("redis batch in a cluster", in_clusters, start_cluster,
                                          remove_cluster);
    redis_server_remove(&server);
    weir_calendar_free(calendar);
    return failed;
}
