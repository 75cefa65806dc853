#include "test.h"

#include <hiredis/hiredis.h>

#include "store/redis_wire.h"

#define SECOND UINT64_C(1000000)

static const struct weir_redis_script script = {
    .text = "return 1",
    .hash = "0123456789abcdef0123456789abcdef01234567",
};

static struct weir_spend spend_of(enum weir_algorithm algorithm, uint64_t limit, uint64_t window_us,
                                  uint64_t burst, uint64_t cost)
{
    struct weir_spend spend = { .algorithm = algorithm, .cost = cost, .key = "k", .key_length = 1 };
    assert_int_equal(weir_rate_make(limit, window_us, burst, &spend.rate, NULL), WEIR_OK);
    return spend;
}

/* writing */

/* The command with a space for each line end and no lengths, for what has no blanks in it. */
static const char *written(const struct weir_check *check, enum weir_redis_by by,
                           const uint64_t *now_us)
{
    static char memory[WEIR_REDIS_COMMAND_BYTES], text[WEIR_REDIS_COMMAND_BYTES];
    struct weir_buffer out = weir_buffer_init(memory, sizeof memory);
    weir_redis_write_check(&out, &script, by, now_us, check);
    const char *resp = weir_buffer_string(&out);
    assert_non_null(resp);

    size_t length = 0;
    for (const char *at = strchr(resp, '$'); at != NULL; at = strchr(at, '$')) {
        char *end;
        size_t size = strtoul(at + 1, &end, 10);
        memcpy(text + length, end + 2, size);
        text[length + size] = ' ';
        length += size + 1;
        at = end + 2 + size;
    }
    text[length - 1] = '\0';
    return text;
}

static void writes_the_numbers_of_each_limit(void **state)
{
    (void)state;
#define EVALSHA "EVALSHA 0123456789abcdef0123456789abcdef01234567 "
    const struct {
        const char *what;
        struct weir_spend spend;
        const char *want;
    } rows[] = {
        { "a whole interval", spend_of(WEIR_GCRA, 5, SECOND, 10, 1),
          EVALSHA "1 k gcra 2000000 200000" },
        { "a look", spend_of(WEIR_GCRA, 5, SECOND, 10, 0), EVALSHA "1 k gcra 2000000 0" },
        { "an interval with a rest", spend_of(WEIR_GCRA, 7, SECOND, 9, 2),
          EVALSHA "1 k gcra-parts 1285714 285714 2 2 7" },
        { "a cost above the capacity", spend_of(WEIR_GCRA, 5, SECOND, 10, 11),
          EVALSHA "1 k gcra 2000000 2000001" },
        { "the largest cost", spend_of(WEIR_GCRA, 7, SECOND, 0, UINT64_MAX),
          EVALSHA "1 k gcra-parts 1000000 1000001 0 0 7" },
        { "a limit of nothing", spend_of(WEIR_GCRA, 0, SECOND, 0, 3), EVALSHA "1 k zero 3" },
        { "a window", spend_of(WEIR_FIXED_WINDOW, 100, 60 * SECOND, 0, 3),
          EVALSHA "1 k window 100 60000000 3" },
        { "a window of nothing", spend_of(WEIR_FIXED_WINDOW, 0, SECOND, 0, 0),
          EVALSHA "1 k zero 0" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        const struct weir_check check = { .spends = { rows[i].spend }, .count = 1 };
        assert_string_equal(written(&check, WEIR_REDIS_BY_HASH, NULL), rows[i].want);
    }
}

static void declares_exactly_its_keys(void **state)
{
    (void)state;
    struct weir_check check = { .count = 2 };
    check.spends[0] = spend_of(WEIR_GCRA, 5, SECOND, 10, 1);
    check.spends[1] = spend_of(WEIR_FIXED_WINDOW, 100, SECOND, 0, 1);
    check.spends[1].from_first = true;
    check.spends[1].key = "other";
    check.spends[1].key_length = 5;
    assert_string_equal(written(&check, WEIR_REDIS_BY_HASH, NULL),
                        EVALSHA "2 k other gcra 2000000 200000 window-first 100 1000000 1");
    assert_string_equal(written(&check, WEIR_REDIS_BY_TEXT, &(uint64_t){ 1767225600250000 }),
                        "EVAL return 1 2 k other gcra 2000000 200000 "
                        "window-first 100 1000000 1 1767225600250000");
}

static void writes_arguments_of_any_bytes(void **state)
{
    (void)state;
    char memory[100];
    struct weir_buffer out = weir_buffer_init(memory, sizeof memory);
    weir_redis_write_command(
        &out, (struct weir_text[]){ WEIR_TEXT("GET"), WEIR_TEXT("a\0\r\n"), WEIR_TEXT("") }, 3);
    static const char want[] = "*3\r\n$3\r\nGET\r\n$4\r\na\0\r\n\r\n$0\r\n\r\n";
    assert_int_equal(out.length, sizeof want - 1);
    assert_memory_equal(memory, want, sizeof want - 1);
}

/* The largest plan, with the largest script that is likely, has room. */
static void has_room_for_the_largest_plan(void **state)
{
    (void)state;
    static char key[WEIR_KEY_MAX];
    struct weir_check check = { .count = WEIR_CHECK_LIMITS };
    for (size_t i = 0; i < check.count; i++) {
        check.spends[i] = spend_of(WEIR_GCRA, 7, WEIR_WINDOW_MAX_US, 0, UINT64_MAX);
        check.spends[i].rate.parts = UINT64_MAX;
        check.spends[i].key = key;
        check.spends[i].key_length = sizeof key;
    }
    static char memory[WEIR_REDIS_COMMAND_BYTES];
    struct weir_buffer out = weir_buffer_init(memory, sizeof memory);
    weir_redis_write_check(&out, &script, WEIR_REDIS_BY_HASH, &(uint64_t){ UINT64_MAX }, &check);
    assert_false(out.full);
    assert_true(out.length < WEIR_REDIS_COMMAND_BYTES / 2);
}

static void finds_the_fault_of_a_check(void **state)
{
    (void)state;
    struct weir_check check = { .count = 1 };
    check.spends[0] = spend_of(WEIR_GCRA, 5, SECOND, 10, 1);
    assert_null(weir_redis_fault(&check));
    check.spends[0].algorithm = WEIR_SLIDING_LOG;
    assert_non_null(weir_redis_fault(&check));
    /* Not a rate that weir_rate_make() makes, but nothing keeps a program from asking. */
    check.spends[0].algorithm = WEIR_GCRA;
    check.spends[0].rate.interval_us = UINT64_C(1) << 50;
    assert_non_null(weir_redis_fault(&check));
}

/* reading */

/* What hiredis makes of some bytes; freed by the caller. */
static redisReply *parsed(const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

static enum weir_redis_meaning meaning_of(const char *bytes, struct weir_check *check)
{
    redisReply *reply = parsed(bytes);
    enum weir_redis_meaning meaning = weir_redis_read_answer(reply, check);
    freeReplyObject(reply);
    return meaning;
}

static void reads_what_the_script_says(void **state)
{
    (void)state;
    const struct {
        const char *what;
        struct weir_spend spend;
        const char *reply;
        struct weir_answer want;
    } rows[] = {
        { "a new key",
          spend_of(WEIR_GCRA, 5, SECOND, 10, 1),
          ":0\r\n",
          { .allowed = true, .remaining = 9, .reset_us = 200000 } },
        { "the last unit",
          spend_of(WEIR_GCRA, 5, SECOND, 10, 1),
          "*2\r\n:1800000\r\n:0\r\n",
          { .allowed = true, .remaining = 0, .reset_us = 2000000 } },
        { "one too many",
          spend_of(WEIR_GCRA, 5, SECOND, 10, 1),
          ":1900000\r\n",
          { .remaining = 0, .retry_us = 100000, .reset_us = 1900000 } },
        { "with parts",
          spend_of(WEIR_GCRA, 7, SECOND, 7, 1),
          "*2\r\n:142857\r\n:1\r\n",
          { .allowed = true, .remaining = 5, .reset_us = 285715 } },
        { "a window",
          spend_of(WEIR_FIXED_WINDOW, 10, SECOND, 0, 4),
          "*2\r\n:6\r\n:300000\r\n",
          { .allowed = true, .remaining = 0, .reset_us = 300000 } },
        { "a window of nothing",
          spend_of(WEIR_FIXED_WINDOW, 0, SECOND, 0, 4),
          ":0\r\n",
          { .impossible = true } },
        { "a full window",
          spend_of(WEIR_FIXED_WINDOW, 10, SECOND, 0, 4),
          "*2\r\n:7\r\n:300000\r\n",
          { .remaining = 3, .retry_us = 300000, .reset_us = 300000 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_check check = { .spends = { rows[i].spend }, .count = 1 };
        assert_int_equal(meaning_of(rows[i].reply, &check), WEIR_REDIS_DECIDED);
        assert_int_equal(check.answers[0].allowed, rows[i].want.allowed);
        assert_int_equal(check.answers[0].impossible, rows[i].want.impossible);
        assert_int_equal(check.answers[0].remaining, rows[i].want.remaining);
        assert_int_equal(check.answers[0].retry_us, rows[i].want.retry_us);
        assert_int_equal(check.answers[0].reset_us, rows[i].want.reset_us);
    }
}

static void refuses_what_the_script_cannot_say(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *reply;
    } rows[] = {
        { "one number for two limits", ":0\r\n" },
        { "too few numbers", "*3\r\n:0\r\n:0\r\n:0\r\n" },
        { "too many numbers", "*5\r\n:0\r\n:0\r\n:0\r\n:9\r\n:0\r\n" },
        { "no numbers", "*0\r\n" },
        { "a negative number", "*4\r\n:-1\r\n:0\r\n:0\r\n:9\r\n" },
        { "a text for a number", "*4\r\n$1\r\n0\r\n:0\r\n:0\r\n:9\r\n" },
        { "nothing for a number", "*4\r\n$-1\r\n:0\r\n:0\r\n:9\r\n" },
        { "more time than there is", "*4\r\n:2000001\r\n:0\r\n:0\r\n:9\r\n" },
        { "a part that is a whole", "*4\r\n:0\r\n:1\r\n:0\r\n:9\r\n" },
        { "more units than there are", "*4\r\n:0\r\n:0\r\n:101\r\n:9\r\n" },
        { "a window that is over", "*4\r\n:0\r\n:0\r\n:0\r\n:0\r\n" },
        { "a window longer than it is", "*4\r\n:0\r\n:0\r\n:0\r\n:1000001\r\n" },
        { "the largest number", "*4\r\n:9223372036854775807\r\n:0\r\n:0\r\n:9\r\n" },
        { "a status", "+OK\r\n" },
        { "a text", "$2\r\n:0\r\n" },
        { "nothing", "$-1\r\n" },
        { "no array", "*-1\r\n" },
        { "a nest", "*4\r\n*1\r\n:0\r\n:0\r\n:0\r\n:9\r\n" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_check check = { .count = 2 };
        check.spends[0] = spend_of(WEIR_GCRA, 5, SECOND, 10, 1);
        check.spends[1] = spend_of(WEIR_FIXED_WINDOW, 100, SECOND, 0, 1);
        assert_int_equal(meaning_of(rows[i].reply, &check), WEIR_REDIS_REFUSED);
        assert_string_equal(check.why, "Redis sent what is no answer");
    }
    struct weir_check check = { .count = 1 };
    assert_int_equal(weir_redis_read_answer(NULL, &check), WEIR_REDIS_REFUSED);
}

static void knows_errors_by_their_first_word(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        enum weir_redis_meaning want;
        const char *why;
    } rows[] = {
        { "-NOSCRIPT No matching script. Please use EVAL.\r\n", WEIR_REDIS_NO_SCRIPT, "" },
        { "-OOM command not allowed\r\n", WEIR_REDIS_REFUSED, "OOM command not allowed" },
        { "-BUSY Redis is busy\r\n", WEIR_REDIS_REFUSED, "BUSY Redis is busy" },
        { "-MASTERDOWN Link down\r\n", WEIR_REDIS_REFUSED, "MASTERDOWN Link down" },
        { "-CLUSTERDOWN down\r\n", WEIR_REDIS_REFUSED, "CLUSTERDOWN down" },
        { "-NOPERM no\r\n", WEIR_REDIS_REFUSED, "NOPERM no" },
        { "-READONLY You can't write\r\n", WEIR_REDIS_UNFIT, "READONLY You can't write" },
        { "-ERR Error running script: @user_script: 1: -READONLY You can't\r\n", WEIR_REDIS_UNFIT,
          "ERR Error running script: @user_script: 1: -READONLY You can't" },
        { "-LOADING Redis is loading\r\n", WEIR_REDIS_UNFIT, "LOADING Redis is loading" },
        { "-ERR line\x1b[2J\tend\xff\r\n", WEIR_REDIS_REFUSED, "ERR line?[2J?end?" },
        { "-\r\n", WEIR_REDIS_REFUSED, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %.20s\n", rows[i].why);
        struct weir_check check = { .count = 1 };
        assert_int_equal(meaning_of(rows[i].reply, &check), rows[i].want);
        assert_string_equal(check.why, rows[i].why);
    }
}

static void cuts_a_long_error(void **state)
{
    (void)state;
    char bytes[300] = "-ERR ";
    memset(bytes + 5, 'x', 250);
    memcpy(bytes + 255, "\r\n", 3);
    struct weir_check check = { .count = 1 };
    assert_int_equal(meaning_of(bytes, &check), WEIR_REDIS_REFUSED);
    assert_int_equal(strlen(check.why), sizeof check.why - 1);
}

static void reads_a_hash_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *reply;
        bool want;
    } rows[] = {
        { "a hash", "$40\r\n0123456789abcdef0123456789abcdef01234567\r\n", true },
        { "capitals", "$40\r\n0123456789ABCDEF0123456789abcdef01234567\r\n", false },
        { "too short", "$39\r\n0123456789abcdef0123456789abcdef0123456\r\n", false },
        { "too long", "$41\r\n0123456789abcdef0123456789abcdef012345678\r\n", false },
        { "no digits", "$40\r\n0123456789abcdef0123456789abcdef0123456g\r\n", false },
        { "a status", "+0123456789abcdef0123456789abcdef01234567\r\n", false },
        { "nothing", "$-1\r\n", false },
        { "an error", "-ERR\r\n", false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        char hash[WEIR_REDIS_HASH_CHARS + 1] = "untouched";
        redisReply *reply = parsed(rows[i].reply);
        assert_int_equal(weir_redis_read_hash(reply, hash), rows[i].want);
        assert_string_equal(hash, rows[i].want ? script.hash : "untouched");
        freeReplyObject(reply);
    }
    char hash[WEIR_REDIS_HASH_CHARS + 1];
    assert_false(weir_redis_read_hash(NULL, hash));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_the_numbers_of_each_limit),
        cmocka_unit_test(declares_exactly_its_keys),
        cmocka_unit_test(writes_arguments_of_any_bytes),
        cmocka_unit_test(has_room_for_the_largest_plan),
        cmocka_unit_test(finds_the_fault_of_a_check),
        cmocka_unit_test(reads_what_the_script_says),
        cmocka_unit_test(refuses_what_the_script_cannot_say),
        cmocka_unit_test(knows_errors_by_their_first_word),
        cmocka_unit_test(cuts_a_long_error),
        cmocka_unit_test(reads_a_hash_and_nothing_else),
    };
    return cmocka_run_group_tests_name("redis_wire", tests, NULL, NULL);
}
