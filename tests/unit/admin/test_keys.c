/* What operators do to keys, and the list of what they have blocked. */
#include "test.h"

#include <pthread.h>

#include <weir/weir.h>

#include "admin/blocks.h"
#include "admin/keys.h"
#include "store/store.h"

#define HOUR UINT64_C(3600000000)

static const char policy_json[] =
    "{\"policies\": {"
    " \"api\": {\"limits\": [{\"name\": \"burst\", \"by\": \"user\", \"rate\": \"5/hour\"},"
    "   {\"name\": \"log\", \"by\": \"tenant\", \"rate\": \"9/hour\", \"algorithm\": "
    "\"sliding-log\"},"
    "   {\"name\": \"day\", \"by\": \"user\", \"rate\": \"50/day\", \"algorithm\": "
    "\"fixed-window\"}]},"
    " \"strict\": {\"limits\": [{\"name\": \"tries\", \"by\": \"ip\", \"rate\": \"2/hour\","
    "   \"penalty\": {\"after\": 1, \"ban\": [\"2h\"]}}]}},"
    " \"secret\": \"s\", \"default\": \"api\"}";

static _Atomic uint64_t now_us;
static struct weir_policy *policy;
static struct weir_limiter *limiter;
static struct weir_store *store; /* of the limiter, where it is not its own */

static uint64_t read_clock(void *self)
{
    (void)self;
    return now_us;
}

static const struct weir_clock clock_by_hand = { read_clock, NULL };

static int set_up(void **state)
{
    (void)state;
    struct weir_error error = WEIR_NO_ERROR;
    now_us = UINT64_C(1767225600000000); /* 2026 */
    if (weir_policy_parse(policy_json, strlen(policy_json), NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy,
                                                           .clock = &clock_by_hand, .store = store),
                                      &limiter, &error),
                     WEIR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    limiter = weir_limiter_free(limiter);
    policy = weir_policy_free(policy);
    store = weir_store_free(store);
    return 0;
}

/* asking */

#define ANN WEIR_SUBJECT(.policy = "api", .user = "ann", .tenant = "acme")

static bool may_spend(const struct weir_subject *subject)
{
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_check(limiter, subject, 1, &verdict, NULL), WEIR_OK);
    return verdict.allowed;
}

static json_t *block(const struct weir_subject *subject, uint64_t seconds, const char *reason)
{
    json_t *body = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_keys_block(limiter, subject, seconds, reason, "a test", &body, &error) != WEIR_OK)
        fail_msg("%s", error.text);
    return body;
}

static void block_and_forget(const struct weir_subject *subject, uint64_t seconds)
{
    json_decref(block(subject, seconds, NULL));
}

static long long number(const json_t *body, const char *name)
{
    return json_integer_value(json_object_get(body, name));
}

static const char *text(const json_t *body, const char *name)
{
    return json_string_value(json_object_get(body, name));
}

static long long reset(const struct weir_subject *subject)
{
    json_t *body = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_keys_reset(limiter, subject, &body, &error) != WEIR_OK)
        fail_msg("%s", error.text);
    long long unblocked = number(body, "unblocked");
    json_decref(body);
    return unblocked;
}

/* The list, for the caller to free. */
static json_t *list(void)
{
    json_t *body = NULL;
    assert_int_equal(weir_keys_list(limiter, &body, NULL), WEIR_OK);
    json_t *blocks = json_incref(json_object_get(body, "blocks"));
    json_decref(body);
    return blocks;
}

static size_t listed(void)
{
    json_t *blocks = list();
    size_t count = json_array_size(blocks);
    json_decref(blocks);
    return count;
}

/* Of the limit of that name, for the caller to free. */
static json_t *look_at(const struct weir_subject *subject, const char *name)
{
    json_t *body = NULL, *found = NULL, *limit;
    size_t index;
    assert_int_equal(weir_keys_look(limiter, subject, &body, NULL), WEIR_OK);
    json_array_foreach(json_object_get(body, "limits"), index, limit)
    {
        if (strcmp(text(limit, "name"), name) == 0)
            found = json_incref(limit);
    }
    json_decref(body);
    assert_non_null(found);
    return found;
}

/* looking */

static void looks_without_spending(void **state)
{
    (void)state;
    assert_true(may_spend(ANN));
    for (int i = 0; i < 5; i++) {
        json_t *burst = look_at(ANN, "burst"), *log = look_at(ANN, "log");
        assert_int_equal(number(burst, "remaining"), 4);
        assert_int_equal(number(burst, "limit"), 5);
        assert_int_equal(number(burst, "window_s"), 3600);
        assert_int_equal(number(log, "remaining"), 8);
        assert_string_equal(text(log, "key"), "tenant:acme");
        assert_int_equal(strncmp(text(burst, "key"), "user#", 5), 0);
        assert_true(json_is_false(json_object_get(burst, "blocked")));
        assert_null(json_object_get(burst, "blocked_until"));
        json_decref(burst);
        json_decref(log);
    }
}

/* resetting */

static void resets_a_key_or_one_of_its_limits(void **state)
{
    (void)state;
    while (may_spend(ANN))
        continue;
    assert_int_equal(reset(WEIR_SUBJECT(.policy = "api", .user = "ann", .limit = "burst")), 0);
    json_t *burst = look_at(ANN, "burst"), *day = look_at(ANN, "day");
    assert_int_equal(number(burst, "remaining"), 5);
    assert_int_equal(number(day, "remaining"), 45);
    json_decref(burst);
    json_decref(day);
    reset(WEIR_SUBJECT(.policy = "api", .user = "ann"));
    day = look_at(ANN, "day");
    assert_int_equal(number(day, "remaining"), 50);
    json_decref(day);
}

static void forgives_penalties_with_a_reset(void **state)
{
    (void)state;
    const struct weir_subject *there = WEIR_SUBJECT(.policy = "strict", .ip = "192.0.2.1");
    while (may_spend(there))
        continue;
    now_us += HOUR;
    assert_false(may_spend(there)); /* banned */
    json_t *limit = look_at(there, "tries");
    assert_true(json_is_true(json_object_get(limit, "banned")));
    assert_string_equal(text(limit, "banned_until"), "2026-01-01T02:00:00.000Z");
    assert_true(json_is_false(json_object_get(limit, "blocked")));
    json_decref(limit);
    reset(there);
    limit = look_at(there, "tries");
    assert_true(json_is_false(json_object_get(limit, "banned")));
    json_decref(limit);
    assert_true(may_spend(there));
}

/* blocking */

static void sees_what_the_application_has_blocked(void **state)
{
    (void)state;
    assert_int_equal(weir_limiter_block(limiter, ANN, 90, NULL), WEIR_OK);
    json_t *burst = look_at(ANN, "burst");
    assert_true(json_is_true(json_object_get(burst, "blocked")));
    assert_string_equal(text(burst, "blocked_until"), "2026-01-01T00:01:30.000Z");
    json_decref(burst);
}

static void blocks_and_says_so(void **state)
{
    (void)state;
    json_t *made = block(ANN, 600, "for a reason");
    assert_false(may_spend(ANN));
    assert_true(may_spend(WEIR_SUBJECT(.policy = "api", .user = "bob")));
    assert_string_equal(text(made, "policy"), "api");
    assert_string_equal(text(made, "limit"), "all");
    assert_string_equal(text(made, "reason"), "for a reason");
    assert_string_equal(text(made, "by"), "a test");
    assert_string_equal(text(made, "at"), "2026-01-01T00:00:00.000Z");
    assert_string_equal(text(made, "until"), "2026-01-01T00:10:00.000Z");
    assert_null(json_object_get(made, "keys")); /* are the store's business */

    json_t *blocks = list(), *burst = look_at(ANN, "burst");
    assert_int_equal(json_array_size(blocks), 1);
    assert_string_equal(text(json_array_get(blocks, 0), "id"), text(made, "id"));
    assert_int_equal(number(json_array_get(blocks, 0), "left_s"), 600);
    assert_true(json_is_true(json_object_get(burst, "blocked")));
    assert_string_equal(text(burst, "blocked_until"), "2026-01-01T00:10:00.000Z");
    assert_int_equal(number(burst, "remaining"), 0);
    json_decref(burst);
    json_decref(blocks);
    json_decref(made);
}

static void ends_a_block_in_time(void **state)
{
    (void)state;
    block_and_forget(ANN, 600);
    now_us += 599 * UINT64_C(1000000);
    assert_false(may_spend(ANN));
    assert_int_equal(listed(), 1);
    now_us += UINT64_C(1000000);
    assert_true(may_spend(ANN));
    assert_int_equal(listed(), 0);
}

/* However often it is asked for, and however long its window has been over. */
static void blocks_for_71_years(void **state)
{
    (void)state;
    const uint64_t most_s = WEIR_BURST_MAX_US / 1000000;
    block_and_forget(ANN, most_s);
    for (int years = 0; years < 70; years += 10) {
        assert_false(may_spend(ANN));
        assert_int_equal(listed(), 1);
        now_us += 10 * 366 * 24 * HOUR;
    }
    now_us += 3 * 366 * 24 * HOUR;
    assert_true(may_spend(ANN));
    assert_int_equal(listed(), 0);
}

static void unblocks_by_id_whom_nobody_can_name(void **state)
{
    (void)state;
    json_t *made = block(ANN, 600, NULL), *body = NULL;
    assert_int_equal(weir_keys_unblock_id(limiter, text(made, "id"), &body, NULL), WEIR_OK);
    assert_int_equal(number(body, "unblocked"), 1);
    assert_string_equal(text(body, "key"), text(made, "key"));
    json_decref(body);
    assert_true(may_spend(ANN));
    assert_int_equal(listed(), 0);
    assert_int_equal(weir_keys_unblock_id(limiter, text(made, "id"), &body, NULL),
                     WEIR_E_REFERENCE);
    json_decref(made);
}

static void forgives_nothing_to_who_is_not_blocked(void **state)
{
    (void)state;
    json_t *body = NULL;
    while (may_spend(ANN))
        continue;
    block_and_forget(WEIR_SUBJECT(.policy = "api", .user = "bob"), 600);
    assert_int_equal(weir_keys_unblock(limiter, ANN, &body, NULL), WEIR_E_REFERENCE);
    assert_false(may_spend(ANN));
    assert_int_equal(listed(), 1);
}

static void keeps_in_the_list_what_a_reset_leaves_blocked(void **state)
{
    (void)state;
    json_t *body = NULL;
    block_and_forget(ANN, 600);
    assert_int_equal(reset(WEIR_SUBJECT(.policy = "api", .user = "ann", .limit = "burst")), 0);
    assert_false(may_spend(ANN));
    assert_int_equal(listed(), 1);
    assert_int_equal(reset(WEIR_SUBJECT(.policy = "api", .tenant = "acme")), 0);
    assert_int_equal(
        weir_keys_unblock(limiter, WEIR_SUBJECT(.policy = "api", .user = "ann"), &body, NULL),
        WEIR_OK);
    assert_int_equal(number(body, "unblocked"), 1);
    json_decref(body);
    assert_int_equal(listed(), 0);
    assert_true(may_spend(ANN));
}

static void has_one_row_for_a_key_that_is_blocked_anew(void **state)
{
    (void)state;
    block_and_forget(ANN, 600);
    block_and_forget(ANN, 60);
    json_t *blocks = list();
    assert_int_equal(json_array_size(blocks), 1);
    assert_int_equal(number(json_array_get(blocks, 0), "left_s"), 60);
    json_decref(blocks);
    now_us += 60 * UINT64_C(1000000);
    assert_true(may_spend(ANN));
}

static void refuses_a_block_that_cannot_be(void **state)
{
    (void)state;
    char long_reason[WEIR_KEYS_REASON_MAX + 2];
    memset(long_reason, 'x', sizeof long_reason - 1);
    long_reason[sizeof long_reason - 1] = '\0';
    const struct {
        const char *when;
        const struct weir_subject *subject;
        uint64_t seconds;
        const char *reason;
        enum weir_code want;
    } rows[] = {
        { "no time", ANN, 0, NULL, WEIR_E_VALUE },
        { "too much of it", ANN, WEIR_BURST_MAX_US, NULL, WEIR_E_VALUE },
        { "nobody", WEIR_SUBJECT(.policy = "api"), 60, NULL, WEIR_E_VALUE },
        { "no such policy", WEIR_SUBJECT(.policy = "none", .user = "a"), 60, NULL,
          WEIR_E_REFERENCE },
        { "a long reason", ANN, 60, long_reason, WEIR_E_VALUE },
        { "a reason of two lines", ANN, 60, "one\ntwo", WEIR_E_VALUE },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_error error = WEIR_NO_ERROR;
        json_t *body = NULL;
        assert_int_equal(weir_keys_block(limiter, rows[i].subject, rows[i].seconds, rows[i].reason,
                                         "a test", &body, &error),
                         rows[i].want);
        assert_string_not_equal(error.text, "");
        assert_null(body);
    }
    assert_int_equal(listed(), 0);
    assert_true(may_spend(ANN));
}

/* the list */

static void says_that_the_list_is_full(void **state)
{
    (void)state;
    char reason[WEIR_KEYS_REASON_MAX + 1], user[32];
    memset(reason, 'x', WEIR_KEYS_REASON_MAX);
    reason[WEIR_KEYS_REASON_MAX] = '\0';
    enum weir_code code = WEIR_OK;
    struct weir_error error = WEIR_NO_ERROR;
    json_t *body = NULL;
    size_t count = 0;
    for (; code == WEIR_OK; count++) {
        assert_true(count < 1000);
        snprintf(user, sizeof user, "user-%zu", count);
        code = weir_keys_block(limiter, WEIR_SUBJECT(.policy = "api", .user = user), 60, reason,
                               "a test", &body, &error);
        if (code == WEIR_OK)
            json_decref(body);
    }
    assert_int_equal(code, WEIR_E_STATE);
    assert_non_null(strstr(error.text, "no room"));
    assert_true(may_spend(WEIR_SUBJECT(.policy = "api", .user = user)));
    assert_int_equal(listed(), count - 1);
    assert_true(count > 80);
    now_us += 60 * UINT64_C(1000000);
    block_and_forget(ANN, 60); /* what has ended takes no room */
    assert_int_equal(listed(), 1);
}

#define THREADS 4
#define EACH    20

static void *block_many(void *self)
{
    size_t thread = *(const size_t *)self;
    for (size_t i = 0; i < EACH; i++) {
        char user[32];
        snprintf(user, sizeof user, "user-%zu-%zu", thread, i);
        const struct weir_subject *who = WEIR_SUBJECT(.policy = "api", .user = user);
        json_t *body = NULL;
        /* Others may be quicker again and again, which is said. */
        enum weir_code code;
        do
            code = weir_keys_block(limiter, who, 60, NULL, "a test", &body, NULL);
        while (code == WEIR_E_STORE_ERROR);
        assert_int_equal(code, WEIR_OK);
        json_decref(body);
    }
    return NULL;
}

static void loses_no_block_of_several_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    size_t numbers[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, block_many, &numbers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(listed(), THREADS * EACH);
}

/* stores of other kinds */

/* The memory store, as a type that keeps no texts. */
static struct weir_store *inner;

static void pass_on(void *self, struct weir_check *check)
{
    (void)self;
    assert_int_not_equal(check->operation, WEIR_EXCHANGE);
    inner->type->submit(inner->self, check);
}

static void free_inner(void *self)
{
    (void)self;
    inner = weir_store_free(inner);
}

static int set_up_without_texts(void **state)
{
    /* Of a caller that was compiled before there was such a member. */
    static const struct weir_store_type type = { .size =
                                                     offsetof(struct weir_store_type, exchanges),
                                                 .name = "plain",
                                                 .answers_inline = true,
                                                 .submit = pass_on,
                                                 .free = free_inner,
                                                 .exchanges = true };
    assert_int_equal(
        weir_store_open("memory:", WEIR_STORE_OPTIONS(.clock = &clock_by_hand), &inner, NULL),
        WEIR_OK);
    assert_int_equal(weir_store_new(&type, NULL, &store, NULL), WEIR_OK);
    return set_up(state);
}

static void does_without_a_list_where_the_store_keeps_none(void **state)
{
    (void)state;
    json_t *body = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    while (may_spend(ANN))
        continue;
    assert_int_equal(reset(WEIR_SUBJECT(.policy = "api", .user = "ann")), 0);
    json_t *burst = look_at(ANN, "burst");
    assert_int_equal(number(burst, "remaining"), 5);
    json_decref(burst);
    assert_int_equal(weir_keys_block(limiter, ANN, 60, NULL, "a test", &body, &error),
                     WEIR_E_NOT_YET);
    assert_non_null(strstr(error.text, "\"plain\""));
    assert_int_equal(weir_keys_list(limiter, &body, NULL), WEIR_E_NOT_YET);
    assert_true(may_spend(ANN));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(looks_without_spending),
        TEST(resets_a_key_or_one_of_its_limits),
        TEST(forgives_penalties_with_a_reset),
        TEST(blocks_and_says_so),
        TEST(ends_a_block_in_time),
        TEST(blocks_for_71_years),
        TEST(unblocks_by_id_whom_nobody_can_name),
        TEST(sees_what_the_application_has_blocked),
        TEST(forgives_nothing_to_who_is_not_blocked),
        TEST(keeps_in_the_list_what_a_reset_leaves_blocked),
        TEST(has_one_row_for_a_key_that_is_blocked_anew),
        TEST(refuses_a_block_that_cannot_be),
        TEST(says_that_the_list_is_full),
        TEST(loses_no_block_of_several_threads),
        cmocka_unit_test_setup_teardown(does_without_a_list_where_the_store_keeps_none,
                                        set_up_without_texts, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
