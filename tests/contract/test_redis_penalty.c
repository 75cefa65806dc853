/* Penalties in a real Redis: over its restart, and over what else may stand under their keys. */
#include "contract.h"

#include <math.h>

#include "redis_server.h"
#include "store/redis_script.h"
#include "store/store.h"

#define SECOND UINT64_C(1000000)
#define HOUR   (3600 * SECOND)
#define DAY    (24 * HOUR)

#define PATIENT_MS 5000

static const struct weir_penalty growing = {
    .after = 2,
    .ban_count = 2,
    .bans_us = { HOUR, 5 * HOUR },
    .forget_us = DAY,
};

static struct redis_server server;

static struct weir_store *open_store(const char *url)
{
    struct weir_store *store = NULL;
    assert_int_equal(
        weir_store_open(url, WEIR_STORE_OPTIONS(.timeout_ms = PATIENT_MS), &store, NULL), WEIR_OK);
    contract_await_answers(store);
    return store;
}

static int start(void **state)
{
    (void)state;
    redis_server_prepare(&server);
    redis_server_start(&server);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_server_remove(&server);
    return 0;
}

/* A limit of one in 300 days, and its penalty; they may share a key. */
static struct contract_plan guarded(const char *name, bool share)
{
    static char keys[200][2][120];
    static size_t count;
    assert_true(count < COUNT_OF(keys));
    struct contract_plan plan = {
        .spends = { contract_gcra(name, 1, 300 * DAY, 0),
                    { .algorithm = WEIR_PENALTY, .cost = 1, .penalty = &growing } },
        .check.count = 2
    };
    size_t common = plan.spends[0].key_length;
    for (size_t i = 0; i < 2; i++) {
        snprintf(keys[count][i], sizeof keys[count][i], "%s:%zu", plan.spends[0].key, i);
        plan.spends[i].group_length = share ? common : 0;
    }
    for (size_t i = 0; i < 2; i++) {
        plan.spends[i].key = keys[count][i];
        plan.spends[i].key_length = strlen(keys[count][i]);
    }
    count++;
    return plan;
}

static void ask(struct weir_store *store, struct contract_plan *plan)
{
    contract_submit_plan(store, plan);
    assert_string_equal(plan->check.why, "");
    assert_int_equal(plan->check.result, WEIR_STORE_ANSWERED);
}

/* Asks, and returns how long the ban is, in hours. */
static uint64_t ban_hours(struct weir_store *store, struct contract_plan *plan)
{
    ask(store, plan);
    return (plan->answers[1].retry_us + HOUR / 2) / HOUR;
}

/* tests */

static void survives_restarts_of(struct redis_server *own, bool share)
{
    struct contract_plan banned = guarded("banned", share), warned = guarded("warned", share);
    struct weir_store *store = open_store(own->url);
    ask(store, &banned);
    ask(store, &warned);
    assert_int_equal(ban_hours(store, &banned), 0);
    assert_int_equal(ban_hours(store, &banned), 1);
    assert_int_equal(ban_hours(store, &warned), 0);
    weir_store_free(store);

    redis_server_do(own, "SAVE");
    redis_server_kill(own);
    redis_server_start(own);
    store = open_store(own->url);
    assert_int_equal(ban_hours(store, &banned), 1);
    assert_int_equal(ban_hours(store, &warned), 1); /* the violation before is remembered */
    weir_store_free(store);
}

/* From a dump, and from a log of commands. */
static void survives_a_restart(void **state)
{
    (void)state;
    for (int appends = 0; appends < 2; appends++) {
        struct redis_server own = { .keeps_data = appends };
        redis_server_prepare(&own);
        redis_server_start(&own);
        for (int share = 0; share < 2; share++)
            survives_restarts_of(&own, share);
        redis_server_remove(&own);
    }
}

/* The key that the penalty lies under. */
static struct weir_text key_of(const struct contract_plan *plan)
{
    const struct weir_spend *spend = &plan->spends[1];
    return (struct weir_text){ spend->key,
                               spend->group_length > 0 ? spend->group_length : spend->key_length };
}

static void put_double(char *bytes, double number)
{
    memcpy(bytes, &number, sizeof number);
}

/* A lone state: expiry, quiet since, violations, nothing. */
static void write_state(const struct contract_plan *plan, double quiet, uint32_t violations,
                        uint32_t high)
{
    char bytes[24];
    struct weir_text key = key_of(plan);
    put_double(bytes, quiet);
    put_double(bytes + 8, quiet);
    memcpy(bytes + 16, &violations, sizeof violations);
    memcpy(bytes + 20, &high, sizeof high);
    redis_server_do(&server, "SET %b %b EX 3600", key.at, key.length, bytes, sizeof bytes);
}

static double redis_now(void)
{
    redisReply *reply = redis_server_ask(&server, "TIME");
    double now = strtod(reply->element[0]->str, NULL) * 1e6;
    freeReplyObject(reply);
    return now;
}

/* Must lock nobody out, and nobody must pass for it. */
static void takes_what_no_penalty_has_written_for_a_new_key(void **state)
{
    (void)state;
    struct weir_store *store = open_store(server.url);
    double later = redis_now() + 6e8;
    const struct {
        double quiet;
        uint32_t violations, high;
    } rows[] = {
        { later, 0, 0 },
        { later, 3, 7 },
        { later, 3, UINT32_MAX },
        { later, UINT32_MAX, 0 },
        { later, 1000000001, 0 },
        { later + 0.5, 3, 0 },
        { (double)NAN, 3, 0 },
        { (double)INFINITY, 3, 0 },
        { -(double)INFINITY, 3, 0 },
        { 1e300, 3, 0 },
        { 9007199254740992.0, 3, 0 },
        { -later, 3, 0 },
        { -1, 3, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    row %zu\n", i);
        struct contract_plan plan = guarded("strange", false);
        write_state(&plan, rows[i].quiet, rows[i].violations, rows[i].high);
        ask(store, &plan);
        assert_true(plan.answers[0].allowed && plan.answers[1].allowed);
        assert_int_equal(ban_hours(store, &plan), 0);
        assert_int_equal(ban_hours(store, &plan), 1);
    }
    weir_store_free(store);
}

static void takes_any_state_that_can_be(void **state)
{
    (void)state;
    struct weir_store *store = open_store(server.url);
    double now = redis_now();
    const struct {
        double quiet;
        uint32_t violations;
        uint64_t hours; /* of ban, at the first violation */
    } rows[] = {
        { now - 1e9, 1, 1 },       { now - 1e9, 2, 5 },    { now - 1e9, 1000000000, 5 },
        { now + 3 * 3.6e9, 3, 3 }, { now + 1e15, 2, 1 },   /* the clock was set back a long way */
        { now + 1e15, 3, 5 },      { now - 8.7e10, 3, 0 }, /* more than a day ago */
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    row %zu\n", i);
        struct contract_plan plan = guarded("found", false);
        struct contract_plan limit = plan;
        limit.check.count = 1;
        ask(store, &limit);
        write_state(&plan, rows[i].quiet, rows[i].violations, 0);
        assert_int_equal(ban_hours(store, &plan), rows[i].hours);
        assert_int_equal(plan.answers[1].allowed, rows[i].hours == 0);
        if (rows[i].hours > 0)
            assert_int_equal(ban_hours(store, &plan), rows[i].hours);
    }
    weir_store_free(store);
}

static void takes_values_of_other_kinds_for_none(void **state)
{
    (void)state;
    struct weir_store *store = open_store(server.url);
    static const char *const commands[] = {
        "SET %b short",
        "SET %b 0123456789012345678901234567890",
        "LPUSH %b a",
        "HSET %b a b",
    };
    for (int share = 0; share < 2; share++)
        for (size_t i = 0; i < COUNT_OF(commands); i++) {
            struct contract_plan plan = guarded("kinds", share);
            struct weir_text key = key_of(&plan);
            redis_server_do(&server, commands[i], key.at, key.length);
            ask(store, &plan);
            assert_true(plan.answers[1].allowed);
            assert_int_equal(ban_hours(store, &plan), 0);
            assert_int_equal(ban_hours(store, &plan), 1);
            assert_true(redis_server_number(&server, "PTTL %b", key.at, key.length) > 0);
        }
    weir_store_free(store);
}

/* Somebody may take the expiry away; the next refusal that looks brings it back. */
static void gets_its_expiry_back(void **state)
{
    (void)state;
    struct weir_store *store = open_store(server.url);
    for (int share = 0; share < 2; share++) {
        struct contract_plan plan = guarded("persist", share);
        struct weir_text key = key_of(&plan);
        ask(store, &plan);
        ask(store, &plan);
        ask(store, &plan);
        redis_server_do(&server, "PERSIST %b", key.at, key.length);
        assert_int_equal(ban_hours(store, &plan), 1);
        long long ttl_ms = redis_server_number(&server, "PTTL %b", key.at, key.length);
        assert_in_range(ttl_ms, 24 * 3600 * 1000, 700LL * DAY / 1000);
    }
    weir_store_free(store);
}

/* The largest scripts there are with penalties, in each operation. */
static void has_room_for_the_largest_scripts(void **state)
{
    (void)state;
    struct weir_store *store = open_store(server.url);
    for (int grouped = 0; grouped < 2; grouped++)
        for (int algorithm = WEIR_GCRA; algorithm <= WEIR_SLIDING_LOG; algorithm++)
            for (int operation = WEIR_SPEND; operation <= WEIR_BLOCK; operation++) {
                struct contract_plan plan = { .check = { .count = WEIR_CHECK_LIMITS,
                                                         .operation =
                                                             (enum weir_operation)operation,
                                                         .block_us = SECOND } };
                for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++) {
                    struct weir_spend spend = contract_gcra("largest", 7, HOUR, 0);
                    spend.algorithm = i % 2 == 1 ? WEIR_PENALTY : (enum weir_algorithm)algorithm;
                    spend.penalty = i % 2 == 1 ? &growing : NULL;
                    spend.logs_refusals = algorithm == WEIR_SLIDING_LOG;
                    spend.group_length = grouped ? spend.key_length - 1 : 0;
                    plan.spends[i] = spend;
                }
                ask(store, &plan);
            }
    weir_store_free(store);
}

/* Whoever has none pays for none: their script is the one it has always been. */
static void knows_nothing_of_penalties_where_there_are_none(void **state)
{
    (void)state;
    struct weir_spend spends[2] = { contract_gcra("plain", 7, HOUR, 0),
                                    contract_gcra("plain", 5, HOUR, 0) };
    spends[1].algorithm = WEIR_SLIDING_LOG;
    spends[1].logs_refusals = true;
    struct weir_answer answers[2];
    const struct weir_check check = { .spends = spends, .answers = answers, .count = 2 };
    struct weir_redis_plan plan;
    weir_redis_plan_make(&plan, &check);
    static char memory[WEIR_REDIS_SCRIPT_BYTES];
    struct weir_buffer out = weir_buffer_init(memory, sizeof memory);
    weir_redis_script_compose(&out, &plan.shape, WEIR_REDIS_OWN_CLOCK);
    assert_null(strstr(weir_buffer_string(&out), "ban"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_a_restart),
        cmocka_unit_test(takes_what_no_penalty_has_written_for_a_new_key),
        cmocka_unit_test(takes_any_state_that_can_be),
        cmocka_unit_test(takes_values_of_other_kinds_for_none),
        cmocka_unit_test(gets_its_expiry_back),
        cmocka_unit_test(has_room_for_the_largest_scripts),
        cmocka_unit_test(knows_nothing_of_penalties_where_there_are_none),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
