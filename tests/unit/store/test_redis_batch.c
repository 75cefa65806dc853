#include "test.h"

#include <hiredis/hiredis.h>

#include "store/redis_batch.h"

#define SECOND UINT64_C(1000000)

static struct weir_redis_batcher batcher;

/* checks by short texts */

static struct weir_check checks[300];
static struct weir_spend spends[300][WEIR_CHECK_LIMITS];
static char keys[300][WEIR_CHECK_LIMITS][12];
static size_t check_count;

static int begin(void **state)
{
    (void)state;
    check_count = 0;
    weir_redis_batcher_clear(&batcher);
    return 0;
}

/* A check by its limits, a letter and a digit each: the letter is the kind, and the digit the key. In
 * capitals they are of a group that is named by the digit. "r" resets, "l" is a sliding log, and "p" a
 * token bucket whose interval is not whole microseconds. */
static struct weir_check *check_of(const char *limits)
{
    assert_true(check_count < COUNT_OF(checks));
    struct weir_check *check = &checks[check_count];
    struct weir_spend *own = spends[check_count];
    memset(own, 0, sizeof spends[0]);
    size_t count = strlen(limits) / 2;
    *check = (struct weir_check){ .spends = own, .count = count };
    for (size_t i = 0; i < count; i++) {
        char letter = limits[2 * i], digit = limits[2 * i + 1];
        bool is_grouped = letter >= 'A' && letter <= 'Z';
        char *key = keys[check_count][i];
        snprintf(key, sizeof keys[0][0], is_grouped ? "g%c:%c" : "k%c", digit, letter);
        own[i] = (struct weir_spend){
            .cost = 1, .key = key, .key_length = strlen(key), .group_length = is_grouped ? 2 : 0
        };
        assert_int_equal(weir_rate_make(5, SECOND, 0, &own[i].rate, NULL), WEIR_OK);
        if (letter == 'w')
            own[i].algorithm = WEIR_FIXED_WINDOW;
        if (letter == 'p') {
            own[i].algorithm = WEIR_TOKEN_BUCKET;
            assert_int_equal(weir_rate_make(7, SECOND, 0, &own[i].rate, NULL), WEIR_OK);
        }
        if (letter == 'l')
            own[i].algorithm = WEIR_SLIDING_LOG;
        if (letter == 'r')
            check->operation = WEIR_RESET;
    }
    check_count++;
    return check;
}

static bool add_with(const char *limits, uint8_t how, bool by_slot)
{
    const struct weir_redis_command command = { .check = check_of(limits), .how = how };
    return weir_redis_batcher_add(&batcher, &command, by_slot, 0);
}

static bool add(const char *limits)
{
    return add_with(limits, 0, false);
}

/* The calls as numbers of the checks: "0 2 | 1". */
static const char *calls(void)
{
    static char text[2000];
    size_t length = 0;
    struct weir_redis_call call;
    text[0] = '\0';
    while (weir_redis_batcher_next(&batcher, &call)) {
        if (length > 0)
            length += (size_t)snprintf(text + length, sizeof text - length, " | ");
        for (size_t i = 0; i < call.count; i++)
            length += (size_t)snprintf(text + length, sizeof text - length, i == 0 ? "%u" : " %u",
                                       call.at[i]);
    }
    return text;
}

static void puts_alike_checks_together(void **state)
{
    (void)state;
    static const struct {
        const char *what, *checks[8], *want;
    } rows[] = {
        { "none", { NULL }, "" },
        { "one", { "a1" }, "0" },
        { "alike", { "a1", "a2", "a3" }, "0 1 2" },
        { "two kinds in turn", { "a1", "w2", "a3", "w4", "a5" }, "0 2 4 | 1 3" },
        { "one key", { "a1", "a1", "a1" }, "0 1 2" },
        { "two keys in turn", { "a1", "a2", "a1", "a2", "a3", "a1" }, "0 2 5 1 3 4" },
        { "two limits each", { "a1w2", "a3w4", "a1w2" }, "0 1 2" },
        { "another order of limits", { "a1w2", "w3a4" }, "0 | 1" },
        { "groups with the same names", { "A1", "A2", "A1" }, "0 2 1" },
        { "groups with other names", { "A1", "B2", "A3" }, "0 2 | 1" },
        { "logs go alone", { "l1", "a2", "l3", "a4", "l1" }, "0 | 1 3 | 2 | 4" },
        { "so does what resets", { "r1", "r2", "a3", "a4" }, "0 | 1 | 2 3" },
        { "a key in a later call", { "a1", "r2", "r1", "a3" }, "0 3 | 1 | 2" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        begin(NULL);
        for (size_t n = 0; rows[i].checks[n] != NULL; n++)
            assert_true(add(rows[i].checks[n]));
        assert_string_equal(calls(), rows[i].want);
    }
}

/* A check waits for those that are written if it would go before one of them that has its key. */
static void keeps_the_order_of_checks_that_share_a_key(void **state)
{
    (void)state;
    static const struct {
        const char *what, *before[6], *next;
        bool goes_on;
    } rows[] = {
        { "a reset between", { "a1", "r1" }, "a1", false },
        { "another kind between", { "a1", "w1" }, "a1", false },
        { "a second key", { "a1w2", "a2" }, "a3w2", false },
        { "a group's key", { "A1", "B1" }, "A1", false },
        { "a reset behind", { "a1", "w2" }, "r1", true },
        { "a later kind again", { "a1", "w1" }, "w1", true },
        { "another key", { "a1", "r1" }, "a2", true },
        { "two keys the other way round", { "a1w2" }, "a2w1", true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        begin(NULL);
        for (size_t n = 0; rows[i].before[n] != NULL; n++)
            assert_true(add(rows[i].before[n]));
        assert_int_equal(add(rows[i].next), rows[i].goes_on);
        weir_redis_batcher_clear(&batcher);
        assert_true(add(rows[i].next));
        assert_string_equal(calls(), "0");
    }
}

static void sends_alone_what_is_to_go_alone(void **state)
{
    (void)state;
    assert_true(add("a1"));
    assert_true(add_with("a2", WEIR_REDIS_BY_ITSELF, false));
    assert_true(add_with("a3", WEIR_REDIS_WITH_ASKING, false));
    assert_true(add_with("a4", WEIR_REDIS_BY_WHOLE_TEXT, false));
    assert_true(add("a5"));
    assert_true(add_with("a6", WEIR_REDIS_BY_WHOLE_TEXT, false));
    assert_string_equal(calls(), "0 4 | 1 | 2 | 3 5");
}

static void keeps_slots_apart_where_they_matter(void **state)
{
    (void)state;
    for (int by_slot = 0; by_slot < 2; by_slot++) {
        begin(NULL);
        assert_true(add_with("a1", 0, by_slot));
        assert_true(add_with("a2", 0, by_slot));
        assert_true(add_with("a1", 0, by_slot));
        assert_string_equal(calls(), by_slot ? "0 2 | 1" : "0 2 1");
    }
}

static void keeps_times_of_a_test_apart(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 4; n++) {
        const struct weir_redis_command command = { .check = check_of("a1") };
        assert_true(weir_redis_batcher_add(&batcher, &command, false, 100 + n / 2));
    }
    assert_string_equal(calls(), "0 1 | 2 3");
}

static void bounds_what_it_gathers_and_each_call(void **state)
{
    (void)state;
    static const struct {
        const char *limits;
        size_t gathered, calls;
    } rows[] = { { "a1", 128, 2 },   { "A1B1", 128, 3 },   { "A1B1C1D1E1", 128, 6 },
                 { "a1w2", 128, 4 }, { "a1w2b3", 128, 7 }, { "a1b2c3d4w5f6g7h8", 128, 16 },
                 { "p1", 128, 4 },   { "l1", 128, 128 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(NULL);
        size_t gathered = 0, count = 0, sent = 0;
        while (add(rows[i].limits))
            gathered++;
        assert_int_equal(gathered, rows[i].gathered);
        struct weir_redis_call call;
        for (; weir_redis_batcher_next(&batcher, &call); count++)
            sent += call.count;
        assert_int_equal(sent, gathered);
        assert_int_equal(count, rows[i].calls);
    }
    /* Eight new keys each. */
    begin(NULL);
    for (unsigned n = 0;; n++) {
        if (!add("a1b2c3d4w5f6g7h8"))
            break;
        for (size_t k = 0; k < 8; k++)
            snprintf(keys[n][k], sizeof keys[0][0], "%u-%zu", n, k);
        assert_in_range(batcher.key_count, 0, WEIR_REDIS_KEY_PLACES / 2);
    }
}

/* replies */

static void put_double(char *bytes, double number)
{
    memcpy(bytes, &number, sizeof number);
}

static redisReply string_of(char *bytes, size_t length)
{
    redisReply reply = { .type = REDIS_REPLY_STRING, .str = bytes };
    reply.len = (__typeof__(reply.len))length;
    return reply;
}

/* The time, then eight bytes for each check, of which each finds the time and its own. */
static void cuts_plain_replies(void **state)
{
    (void)state;
    char bytes[8 * 4];
    for (size_t i = 0; i < 4; i++)
        put_double(bytes + 8 * i, 10.0 + (double)i);
    redisReply reply = string_of(bytes, sizeof bytes);
    const struct weir_check *check = check_of("a1");
    for (size_t i = 0; i < 3; i++) {
        struct weir_redis_part part;
        const redisReply *own = weir_redis_reply_part(&reply, check, i, 3, &part);
        assert_non_null(own);
        assert_int_equal(own->len, 16);
        assert_memory_equal(own->str, bytes, 8);
        assert_memory_equal(own->str + 8, bytes + 8 + 8 * i, 8);
    }
}

static void cuts_replies_with_states(void **state)
{
    (void)state;
    char bytes[3 * 40];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    redisReply reply = string_of(bytes, sizeof bytes);
    const struct weir_check *check = check_of("a1w2");
    for (size_t i = 0; i < 3; i++) {
        struct weir_redis_part part;
        const redisReply *own = weir_redis_reply_part(&reply, check, i, 3, &part);
        assert_non_null(own);
        assert_int_equal(own->type, REDIS_REPLY_STRING);
        assert_int_equal(own->len, 40);
        assert_ptr_equal(own->str, bytes + 40 * i);
    }
}

static void cuts_out_the_errors_of_some(void **state)
{
    (void)state;
    char bytes[3 * 40] = { 0 }, nothing[] = "", text[] = "ERR not this one";
    redisReply all = string_of(bytes, sizeof bytes), good = string_of(nothing, 0),
               bad = string_of(text, strlen(text));
    redisReply *elements[] = { &all, &good, &bad, &good };
    const redisReply reply = { .type = REDIS_REPLY_ARRAY, .elements = 4, .element = elements };
    const struct weir_check *check = check_of("a1w2");
    for (size_t i = 0; i < 3; i++) {
        struct weir_redis_part part;
        const redisReply *own = weir_redis_reply_part(&reply, check, i, 3, &part);
        assert_non_null(own);
        assert_int_equal(own->type, i == 1 ? REDIS_REPLY_ERROR : REDIS_REPLY_STRING);
        if (i == 1)
            assert_string_equal(own->str, text);
    }
}

static void leaves_whole_replies_as_they_are(void **state)
{
    (void)state;
    char bytes[16] = { 0 }, text[] = "NOSCRIPT No matching script.";
    redisReply alone = string_of(bytes, sizeof bytes), error = string_of(text, strlen(text));
    error.type = REDIS_REPLY_ERROR;
    const struct weir_check *check = check_of("a1");
    struct weir_redis_part part;
    assert_ptr_equal(weir_redis_reply_part(&alone, check, 0, 1, &part), &alone);
    assert_ptr_equal(weir_redis_reply_part(&error, check, 1, 3, &part), &error);
    assert_null(weir_redis_reply_part(NULL, check, 1, 3, &part));
}

static void takes_nothing_else_for_a_reply(void **state)
{
    (void)state;
    char bytes[200] = { 0 }, text[] = "x";
    redisReply string = string_of(bytes, 32), short_text = string_of(text, 1),
               number = { .type = REDIS_REPLY_INTEGER, .integer = 1 },
               nil = { .type = REDIS_REPLY_NIL };
    redisReply *good[] = { &string, &short_text, &short_text, &short_text },
               *no_string[] = { &nil, &short_text, &short_text, &short_text },
               *no_texts[] = { &string, &number, &nil, NULL };
    const struct weir_check *check = check_of("a1");
    const struct {
        const char *what;
        redisReply reply;
    } rows[] = {
        { "a number", number },
        { "nothing", nil },
        { "an empty string", string_of(bytes, 0) },
        { "too short a string", string_of(bytes, 31) },
        { "too long a string", string_of(bytes, 33) },
        { "the reply to two", string_of(bytes, 24) },
        { "an empty array", { .type = REDIS_REPLY_ARRAY } },
        { "too short an array", { .type = REDIS_REPLY_ARRAY, .elements = 3, .element = good } },
        { "an array without texts",
          { .type = REDIS_REPLY_ARRAY, .elements = 4, .element = no_texts } },
    };
    struct weir_redis_part part;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t item = 0; item < 3; item++) {
            print_message("    %s\n", rows[i].what);
            assert_null(weir_redis_reply_part(&rows[i].reply, check, item, 3, &part));
        }
    short_text.len = 0;
    const redisReply array = { .type = REDIS_REPLY_ARRAY, .elements = 4, .element = no_string };
    assert_null(weir_redis_reply_part(&array, check, 0, 3, &part));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, begin)
    const struct CMUnitTest tests[] = {
        CASE(puts_alike_checks_together),
        CASE(keeps_the_order_of_checks_that_share_a_key),
        CASE(sends_alone_what_is_to_go_alone),
        CASE(keeps_slots_apart_where_they_matter),
        CASE(keeps_times_of_a_test_apart),
        CASE(bounds_what_it_gathers_and_each_call),
        CASE(cuts_plain_replies),
        CASE(cuts_replies_with_states),
        CASE(cuts_out_the_errors_of_some),
        CASE(leaves_whole_replies_as_they_are),
        CASE(takes_nothing_else_for_a_reply),
    };
    return cmocka_run_group_tests_name("redis_batch", tests, NULL, NULL);
}
