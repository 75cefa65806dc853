#include "test.h"

#include "store/redis_scripts.h"

#define SECOND UINT64_C(1000000)

static struct weir_spend spends[WEIR_CHECK_LIMITS];

static struct weir_spend spend_of(enum weir_algorithm algorithm, uint64_t limit, const char *key,
                                  size_t group_length)
{
    struct weir_spend spend = { .algorithm = algorithm,
                                .cost = 1,
                                .key = key,
                                .key_length = strlen(key),
                                .group_length = group_length };
    assert_int_equal(weir_rate_make(limit, SECOND, 0, &spend.rate, NULL), WEIR_OK);
    return spend;
}

static struct weir_redis_shape shape_of(enum weir_operation operation, size_t count)
{
    const struct weir_check check = { .operation = operation, .spends = spends, .count = count };
    struct weir_redis_plan plan;
    weir_redis_plan_make(&plan, &check);
    return plan.shape;
}

static const char *composed(const struct weir_redis_shape *shape, enum weir_redis_clock clock)
{
    static char memory[WEIR_REDIS_SCRIPT_BYTES];
    struct weir_buffer out = weir_buffer_init(memory, sizeof memory);
    weir_redis_script_compose(&out, shape, clock);
    const char *text = weir_buffer_string(&out);
    assert_non_null(text);
    return text;
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

/* Each limit with a penalty behind it. */
static void for_shapes_with_penalties(void (*test)(const struct weir_redis_shape *shape),
                                      enum weir_operation operation)
{
    static const struct weir_penalty penalty = {
        .after = 1, .ban_count = 1, .bans_us = { SECOND }, .forget_us = SECOND
    };
    static const char *const keys[] = { "g:p", "g:q", "g:r" };
    struct weir_spend limits[3];
    memcpy(limits, spends, sizeof limits);
    for (size_t i = 0; i < 3; i++) {
        spends[2 * i] = limits[i];
        spends[2 * i + 1] = (struct weir_spend){ .algorithm = WEIR_PENALTY,
                                                 .key = keys[i],
                                                 .key_length = 3,
                                                 .group_length = limits[i].group_length,
                                                 .penalty = &penalty };
        struct weir_redis_shape shape = shape_of(operation, 2 * i + 2);
        test(&shape);
    }
}

/* A shape, and the same for many checks in one call. */
static void for_one_and_many(void (*test)(const struct weir_redis_shape *shape), size_t count,
                             enum weir_operation operation)
{
    struct weir_redis_shape shape = shape_of(operation, count);
    test(&shape);
    if (!weir_redis_shape_can_batch(&shape))
        return;
    shape.is_batch = true;
    test(&shape);
}

/* All kinds of limits, alone and in groups, with rates of both kinds. */
static void for_all_shapes(void (*test)(const struct weir_redis_shape *shape))
{
    for (int operation = WEIR_SPEND; operation <= WEIR_BLOCK; operation++)
        for (int algorithm = WEIR_GCRA; algorithm <= WEIR_SLIDING_LOG; algorithm++)
            for (unsigned limit = 0; limit <= 10; limit += 5)
                for (size_t group = 0; group < 2; group++) {
                    spends[0] = spend_of((enum weir_algorithm)algorithm, limit, "g:a", group);
                    spends[1] = spend_of(WEIR_GCRA, limit + 7, "g:b", group);
                    spends[2] = spend_of(WEIR_SLIDING_LOG, 3, "g:c", group);
                    spends[2].logs_refusals = group == 1;
                    for (size_t count = 1; count <= 3; count++)
                        for_one_and_many(test, count, (enum weir_operation)operation);
                    for_shapes_with_penalties(test, (enum weir_operation)operation);
                }
}

static void assert_is_whole(const struct weir_redis_shape *shape)
{
    for (int clock = 0; clock < 2; clock++) {
        const char *text = composed(shape, (enum weir_redis_clock)clock);
        static const char *const placeholders[] = {
            "_i",     "_g",    "AT_",     "NUMBER_", "STATES", "FORMAT",  "ALL_",  "COUNT_",
            "ZEROS",  "HEAD_", "OFFSET_", "SIZE_",   "FITS",   "BEFORE",  "HIGH_", "BANS",
            "LIMIT_", "RAW_",  "KEY_",    "FAIL",    "RUNS",   "NUMBERS", "EACH",  "NO_REPLY"
        };
        for (size_t i = 0; i < COUNT_OF(placeholders); i++)
            for (const char *at = text; (at = strstr(at, placeholders[i])) != NULL; at++) {
                char next = at[strlen(placeholders[i])];
                bool is_word = (next >= 'a' && next <= 'z') || (next >= '0' && next <= '9');
                if (!is_word || at[0] != '_')
                    fail_msg("left over: %.20s", at);
            }
        assert_int_equal(count_of(text, "call('TIME')"), clock == WEIR_REDIS_OWN_CLOCK);
        assert_int_equal(count_of(text, "--"), 0);
    }
}

static void leaves_no_name_open(void **state)
{
    (void)state;
    for_all_shapes(assert_is_whole);
}

/* A script reads no key but those that it is given. */
static void assert_has_no_key_of_its_own(const struct weir_redis_shape *shape)
{
    const char *text = composed(shape, WEIR_REDIS_OWN_CLOCK);
    assert_int_equal(count_of(text, "KEYS["), shape->key_count);
    assert_int_equal(
        count_of(text, "'GET'"),
        (size_t)shape->key_count
            - (size_t)(memchr(shape->places, WEIR_REDIS_RING, shape->key_count) != NULL));
}

static void assert_reads_its_keys(const struct weir_redis_shape *shape)
{
    if (shape->is_batch)
        assert_has_no_key_of_its_own(shape);
}

/* Those of the check that is decided, as many as each has. */
static void has_each_key_once_for_many_checks(void **state)
{
    (void)state;
    for_all_shapes(assert_reads_its_keys);
}

/* Lua's own functions by these names are not the ones that a script calls so. */
static void protects_what_decides_many_checks(void **state)
{
    (void)state;
    spends[0] = spend_of(WEIR_GCRA, 5, "a", 0);
    struct weir_redis_shape shape = shape_of(WEIR_SPEND, 1);
    shape.is_batch = true;
    const char *text = composed(&shape, WEIR_REDIS_OWN_CLOCK);
    const char *own = strstr(text, "local try, spread = pcall, unpack\n");
    assert_non_null(own);
    assert_true(own < strstr(text, "local call, pcall = redis.call, redis.pcall\n"));
    assert_int_equal(count_of(text, "call('TIME')"), 1);
    assert_true(strstr(text, "call('TIME')") < strstr(text, "local function decide_rest()"));
}

static void batches_what_spends_but_for_logs_and_penalties(void **state)
{
    (void)state;
    static const struct weir_penalty penalty = {
        .after = 1, .ban_count = 1, .bans_us = { SECOND }, .forget_us = SECOND
    };
    for (int algorithm = WEIR_GCRA; algorithm <= WEIR_SLIDING_LOG; algorithm++)
        for (int operation = WEIR_SPEND; operation <= WEIR_BLOCK; operation++) {
            spends[0] = spend_of(WEIR_GCRA, 5, "g:a", 1);
            spends[1] = spend_of((enum weir_algorithm)algorithm, 5, "g:b", 1);
            struct weir_redis_shape shape = shape_of((enum weir_operation)operation, 2);
            assert_int_equal(weir_redis_shape_can_batch(&shape),
                             operation == WEIR_SPEND && algorithm != WEIR_SLIDING_LOG);
        }
    spends[1] = (struct weir_spend){
        .algorithm = WEIR_PENALTY, .key = "g:p", .key_length = 3, .penalty = &penalty
    };
    struct weir_redis_shape shape = shape_of(WEIR_SPEND, 2);
    assert_false(weir_redis_shape_can_batch(&shape));
}

static void has_each_key_once(void **state)
{
    (void)state;
    spends[0] = spend_of(WEIR_GCRA, 5, "g:a", 1);
    spends[1] = spend_of(WEIR_SLIDING_LOG, 5, "g:b", 1);
    spends[2] = spend_of(WEIR_FIXED_WINDOW, 5, "g:c", 1);
    spends[3] = spend_of(WEIR_TOKEN_BUCKET, 5, "h", 0);
    struct weir_redis_shape shape = shape_of(WEIR_SPEND, 4);
    assert_int_equal(shape.key_count, 3);
    assert_has_no_key_of_its_own(&shape);
    static const uint8_t key_of[] = { 0, 2, 0, 1 };
    assert_memory_equal(shape.key_of, key_of, sizeof key_of);
    static const uint8_t places[] = { WEIR_REDIS_GROUP, WEIR_REDIS_ALONE, WEIR_REDIS_RING };
    assert_memory_equal(shape.places, places, sizeof places);
}

static void knows_shapes_apart_by_kind_alone(void **state)
{
    (void)state;
    spends[0] = spend_of(WEIR_GCRA, 5, "a", 0);
    struct weir_redis_shape five = shape_of(WEIR_SPEND, 1);
    spends[0] = spend_of(WEIR_GCRA, 10, "bcd", 0);
    struct weir_redis_shape ten = shape_of(WEIR_SPEND, 1);
    assert_memory_equal(&five, &ten, sizeof five);

    spends[0] = spend_of(WEIR_GCRA, 7, "a", 0);
    struct weir_redis_shape seven = shape_of(WEIR_SPEND, 1); /* not whole microseconds */
    assert_memory_not_equal(&five, &seven, sizeof five);
    spends[0] = spend_of(WEIR_GCRA, 5, "a:b", 1);
    struct weir_redis_shape grouped = shape_of(WEIR_SPEND, 1);
    assert_memory_not_equal(&five, &grouped, sizeof five);
    spends[0] = spend_of(WEIR_GCRA, 5, "a", 0);
    struct weir_redis_shape settle = shape_of(WEIR_SETTLE, 1);
    assert_memory_not_equal(&five, &settle, sizeof five);

    /* To block is the same for all but logs. */
    struct weir_redis_shape gcra = shape_of(WEIR_BLOCK, 1);
    spends[0] = spend_of(WEIR_SLIDING_COUNTER, 5, "a", 0);
    struct weir_redis_shape counter = shape_of(WEIR_BLOCK, 1);
    assert_memory_equal(&gcra, &counter, sizeof gcra);
}

/* the table */

static struct weir_redis_scripts scripts;

/* As many shapes as there are numbers. */
static struct weir_redis_shape numbered(unsigned number)
{
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_FIXED_WINDOW,
                                                      WEIR_TOKEN_BUCKET, WEIR_SLIDING_COUNTER };
    static const char *const keys[] = { "a", "b", "c", "d" };
    for (size_t i = 0; i < 4; i++, number /= 4)
        spends[i] = spend_of(algorithms[number % 4], 5, keys[i], 0);
    return shape_of(WEIR_SPEND, 4);
}

static void forgets_the_one_that_was_not_used_for_longest(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WEIR_REDIS_SCRIPTS_MAX; i++) {
        struct weir_redis_shape shape = numbered(i);
        snprintf(weir_redis_scripts_get(&scripts, &shape)->hash, 8, "%u", i);
    }
    struct weir_redis_shape first = numbered(0), second = numbered(1), one_more = numbered(200);
    assert_string_equal(weir_redis_scripts_get(&scripts, &first)->hash, "0");
    assert_string_equal(weir_redis_scripts_get(&scripts, &one_more)->hash, "");
    assert_null(weir_redis_scripts_find(&scripts, &second));
    assert_string_equal(weir_redis_scripts_find(&scripts, &first)->hash, "0");

    /* What was forgotten comes back as it was, but for its hash. */
    struct weir_redis_script *again = weir_redis_scripts_get(&scripts, &second);
    assert_string_equal(again->hash, "");
    assert_int_equal(again->text_length, strlen(again->text));
    assert_string_equal(again->text, composed(&second, WEIR_REDIS_OWN_CLOCK));
    weir_redis_scripts_finish(&scripts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_no_name_open),
        cmocka_unit_test(has_each_key_once),
        cmocka_unit_test(has_each_key_once_for_many_checks),
        cmocka_unit_test(protects_what_decides_many_checks),
        cmocka_unit_test(batches_what_spends_but_for_logs_and_penalties),
        cmocka_unit_test(knows_shapes_apart_by_kind_alone),
        cmocka_unit_test(forgets_the_one_that_was_not_used_for_longest),
    };
    return cmocka_run_group_tests_name("redis_scripts", tests, NULL, NULL);
}
