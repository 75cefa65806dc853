#include "test.h"

#include <hiredis/hiredis.h>
#include <math.h>

#include <weir/calendar.h>

#include "limit/algorithm.h"
#include "store/redis_wire.h"

#define SECOND UINT64_C(1000000)
#define NOW    UINT64_C(1767225600250000)

static char script_text[] = "return 1";

static const struct weir_redis_script script = {
    .text = script_text,
    .text_length = sizeof script_text - 1,
    .hash = "0123456789abcdef0123456789abcdef01234567",
};

static struct weir_spend spend_of(enum weir_algorithm algorithm, uint64_t limit, uint64_t window_us,
                                  uint64_t burst, uint64_t cost)
{
    struct weir_spend spend = { .algorithm = algorithm, .cost = cost, .key = "k", .key_length = 1 };
    assert_int_equal(weir_rate_make(limit, window_us, burst, &spend.rate, NULL), WEIR_OK);
    return spend;
}

static struct weir_spend with_key(struct weir_spend spend, const char *key, size_t group_length)
{
    spend.key = key;
    spend.key_length = strlen(key);
    spend.group_length = group_length;
    return spend;
}

/* writing */

/* Packed doubles have bytes that do not print. */
static bool is_packed(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] < ' ' || bytes[i] >= 0x7F)
            return size % sizeof(double) == 0;
    return false;
}

/* As "[2000000 200000]". */
static size_t show_packed(char *text, const char *bytes, size_t size)
{
    size_t length = 0;
    for (size_t at = 0; at < size; at += sizeof(double)) {
        double number;
        memcpy(&number, bytes + at, sizeof number);
        length += (size_t)sprintf(text + length, at == 0 ? "[%.0f" : " %.0f", number);
    }
    text[length++] = ']';
    return length;
}

/* The length of the last command that was shown. */
static size_t shown_bytes;

/* A command with a space for each line end and no lengths; bytes that do not print are dots. */
static const char *shown(struct weir_buffer *out)
{
    static char text[WEIR_REDIS_COMMAND_BYTES];
    const char *resp = weir_buffer_string(out);
    assert_non_null(resp);
    shown_bytes = out->length;

    size_t length = 0;
    for (const char *at = strchr(resp, '$'); at < resp + out->length;) {
        char *end;
        size_t size = strtoul(at + 1, &end, 10);
        if (is_packed(end + 2, size))
            length += show_packed(text + length, end + 2, size);
        for (size_t i = 0; i < size && !is_packed(end + 2, size); i++)
            text[length++] = end[2 + i] > ' ' && end[2 + i] < 0x7F ? end[2 + i] : '.';
        text[length++] = ' ';
        at = end + 2 + size + 2;
    }
    text[length - 1] = '\0';
    return text;
}

static const char *written(const struct weir_check *check, enum weir_redis_by by,
                           enum weir_redis_clock clock)
{
    static char memory[WEIR_REDIS_COMMAND_BYTES];
    struct weir_buffer out = weir_buffer_init(memory, sizeof memory);
    struct weir_redis_plan plan;
    weir_redis_plan_make(&plan, check);
    weir_redis_write_check(&out, &script, by, clock, NOW, &plan, check);
    return shown(&out);
}

#define EVALSHA "EVALSHA 0123456789abcdef0123456789abcdef01234567 "

struct row {
    const char *what;
    struct weir_spend spend;
    const char *want;
};

static void assert_rows(const struct row *rows, size_t count, enum weir_operation operation)
{
    for (size_t i = 0; i < count; i++) {
        print_message("    %s\n", rows[i].what);
        const struct weir_check check = { .operation = (enum weir_operation)operation,
                                          .spends = &rows[i].spend,
                                          .count = 1,
                                          .block_us = 7 * SECOND };
        assert_string_equal(written(&check, WEIR_REDIS_BY_HASH, WEIR_REDIS_OWN_CLOCK),
                            rows[i].want);
    }
}

static struct weir_spend with_wait(struct weir_spend spend, uint64_t max_wait_us)
{
    spend.max_wait_us = max_wait_us;
    return spend;
}

static void writes_the_numbers_of_each_limit(void **state)
{
    (void)state;
    const struct row rows[] = {
        { "a whole interval", spend_of(WEIR_GCRA, 5, SECOND, 10, 1),
          EVALSHA "1 k [2000000 200000]" },
        { "a look", spend_of(WEIR_GCRA, 5, SECOND, 10, 0), EVALSHA "1 k [2000000 0]" },
        { "an interval with a rest", spend_of(WEIR_GCRA, 7, SECOND, 9, 2),
          EVALSHA "1 k [1285714 285714 2 2 7]" },
        { "a cost above the capacity", spend_of(WEIR_GCRA, 5, SECOND, 10, 11),
          EVALSHA "1 k [2000000 2000001]" },
        { "the largest cost", spend_of(WEIR_GCRA, 7, SECOND, 0, UINT64_MAX),
          EVALSHA "1 k [1000000 1000001 0 0 7]" },
        { "a limit of nothing", spend_of(WEIR_GCRA, 0, SECOND, 0, 3), EVALSHA "1 k [1]" },
        { "a queue", with_wait(spend_of(WEIR_LEAKY_BUCKET, 5, SECOND, 10, 1), SECOND),
          EVALSHA "1 k [2000000 200000 1000000]" },
        { "a queue without a wait", spend_of(WEIR_LEAKY_BUCKET, 7, SECOND, 7, 1),
          EVALSHA "1 k [1000000 142857 0 1 7 1000001]" },
        { "tokens", spend_of(WEIR_TOKEN_BUCKET, 5, SECOND, 10, 11), EVALSHA "1 k [11 10 200000]" },
        { "tokens with a rest", spend_of(WEIR_TOKEN_BUCKET, 7, SECOND, 9, 2),
          EVALSHA "1 k [2 9 142857 1 7]" },
        { "a window", spend_of(WEIR_FIXED_WINDOW, 100, 60 * SECOND, 0, 3),
          EVALSHA "1 k [100 3 60000000]" },
        { "a window of nothing", spend_of(WEIR_FIXED_WINDOW, 0, SECOND, 0, 0), EVALSHA "1 k [0]" },
        { "a counter", spend_of(WEIR_SLIDING_COUNTER, 100, 60 * SECOND, 0, 1000),
          EVALSHA "1 k [100 101 60000000]" },
        { "a log", spend_of(WEIR_SLIDING_LOG, 100, 60 * SECOND, 0, 3),
          EVALSHA "1 k [100 3 60000000]" },
        { "a log of nothing", spend_of(WEIR_SLIDING_LOG, 0, SECOND, 0, 3),
          EVALSHA "1 k [0 1 1000000]" },
    };
    assert_rows(rows, COUNT_OF(rows), WEIR_SPEND);
}

/* A minute, then five. */
static const struct weir_penalty penalty = {
    .after = 3,
    .ban_count = 2,
    .bans_us = { 60 * SECOND, 300 * SECOND },
    .forget_us = 600 * SECOND,
};

static struct weir_spend penalty_of(const char *key, uint64_t cost)
{
    return (struct weir_spend){ .algorithm = WEIR_PENALTY,
                                .cost = cost,
                                .key = key,
                                .key_length = strlen(key),
                                .penalty = &penalty };
}

/* What is forgotten when; whether it costs anything that can fit; whether attempts extend a ban; how
 * many violations bring one; and the bans. */
static void writes_a_penalty_behind_its_limit(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        enum weir_operation operation;
        uint64_t limit, cost;
        bool extends;
        const char *want;
    } rows[] = {
        { "one unit", WEIR_SPEND, 10, 1, false,
          "[10 1 1000000] 600000000 1 0 3 [60000000 300000000]" },
        { "all of it", WEIR_SPEND, 10, 10, true,
          "[10 10 1000000] 600000000 1 1 3 [60000000 300000000]" },
        { "a look", WEIR_SPEND, 10, 0, false,
          "[10 0 1000000] 600000000 0 0 3 [60000000 300000000]" },
        { "a cost that never fits", WEIR_SPEND, 10, 11, false,
          "[10 11 1000000] 600000000 0 0 3 [60000000 300000000]" },
        { "a limit of nothing", WEIR_SPEND, 0, 1, false,
          "[1] 600000000 0 0 3 [60000000 300000000]" },
        { "a settlement", WEIR_SETTLE, 10, 1, false, "10 1 1000000 0 600000000" },
        { "a block", WEIR_BLOCK, 10, 1, false, "7000000 600000000" },
        { "a reset", WEIR_RESET, 10, 1, false, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_penalty own = penalty;
        own.extends = rows[i].extends;
        struct weir_spend spends[] = {
            spend_of(WEIR_FIXED_WINDOW, rows[i].limit, SECOND, 0, rows[i].cost),
            penalty_of("p", rows[i].cost),
        };
        spends[1].penalty = &own;
        const struct weir_check check = {
            .operation = rows[i].operation, .spends = spends, .count = 2, .block_us = 7 * SECOND
        };
        char want[200];
        snprintf(want, sizeof want, "%s2 k p%s%s", EVALSHA, rows[i].want[0] != '\0' ? " " : "",
                 rows[i].want);
        assert_string_equal(written(&check, WEIR_REDIS_BY_HASH, WEIR_REDIS_OWN_CLOCK), want);
    }
}

static struct weir_spend settled(struct weir_spend spend, uint64_t reserved)
{
    spend.reserved = reserved;
    spend.decided_us = NOW;
    spend.full_us = NOW + SECOND;
    return spend;
}

static void writes_what_to_settle(void **state)
{
    (void)state;
    const struct row rows[] = {
        { "units to give back", settled(spend_of(WEIR_GCRA, 5, SECOND, 10, 1), 4),
          EVALSHA "1 k 2000000 0 600000 0 1 1767225601250000 0" },
        { "units to take, with a rest", settled(spend_of(WEIR_LEAKY_BUCKET, 7, SECOND, 9, 3), 1),
          EVALSHA "1 k 1285714 2 285714 2 7 1767225601250000 1" },
        { "more than a limit ever holds",
          settled(spend_of(WEIR_TOKEN_BUCKET, 7, WEIR_WINDOW_MAX_US, 7, WEIR_UNITS_MAX), 0),
          EVALSHA
          "1 k 31622400000000 0 4503599627370496 0 7 1767225601250000 1 7 4517485714285 5" },
        { "a window", settled(spend_of(WEIR_FIXED_WINDOW, 100, SECOND, 0, 1), 3),
          EVALSHA "1 k 100 -2 1000000 1767225600250000" },
        { "a counter", settled(spend_of(WEIR_SLIDING_COUNTER, 100, SECOND, 0, 3), 1),
          EVALSHA "1 k 100 2 1000000 1767225600250000" },
        { "a log", settled(spend_of(WEIR_SLIDING_LOG, 100, SECOND, 0, 3), 3),
          EVALSHA "1 k 100 0 1000000 1767225600250000" },
        { "a limit of nothing", settled(spend_of(WEIR_FIXED_WINDOW, 0, SECOND, 0, 3), 1),
          EVALSHA "1 k" },
    };
    assert_rows(rows, COUNT_OF(rows), WEIR_SETTLE);
}

static void writes_for_how_long_to_block(void **state)
{
    (void)state;
    const struct row block = { "block", spend_of(WEIR_GCRA, 5, SECOND, 10, 1),
                               EVALSHA "1 k 7000000" },
                     reset = { "reset", spend_of(WEIR_GCRA, 5, SECOND, 10, 1), EVALSHA "1 k" };
    assert_rows(&block, 1, WEIR_BLOCK);
    assert_rows(&reset, 1, WEIR_RESET);
}

static void writes_what_to_exchange(void **state)
{
    (void)state;
    const struct weir_spend key = { .key = "k", .key_length = 1 };
    static const struct {
        const char *what;
        struct weir_exchange exchange;
        const char *want;
    } rows[] = {
        { "a look", { .text = NULL }, EVALSHA "1 k  0 " },
        { "the first text",
          { .text = "0123456789abcdef[]", .length = 18, .keep_us = 1 },
          EVALSHA "1 k  1 0123456789abcdef[]" },
        { "another",
          { .expected = "0123456789abcdef-and-more",
            .text = "fedcba9876543210",
            .length = 16,
            .keep_us = 1001 },
          EVALSHA "1 k 0123456789abcdef 2 fedcba9876543210" },
        { "none",
          { .expected = "0123456789abcdef", .text = "", .keep_us = 1000 },
          EVALSHA "1 k 0123456789abcdef 1 " },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_exchange exchange = rows[i].exchange;
        const struct weir_check check = {
            .operation = WEIR_EXCHANGE, .spends = &key, .count = 1, .exchange = &exchange
        };
        assert_string_equal(written(&check, WEIR_REDIS_BY_HASH, WEIR_REDIS_OWN_CLOCK),
                            rows[i].want);
    }
}

static void writes_the_windows_around_a_time(void **state)
{
    (void)state;
    struct weir_calendar *calendar = NULL;
    const struct weir_calendar_options *months = WEIR_CALENDAR_OPTIONS(.unit = WEIR_CALENDAR_MONTH);
    assert_int_equal(weir_calendar_new(months, &calendar, NULL), WEIR_OK);
    struct row row = { "months", spend_of(WEIR_FIXED_WINDOW, 100, 31 * 86400 * SECOND, 0, 1),
                       /* December 2025 to February 2026 */
                       EVALSHA "1 k [100 1 1764547200000000 1767225600000000 1769904000000000 "
                               "1772323200000000]" };
    row.spend.calendar = calendar;
    assert_rows(&row, 1, WEIR_SPEND);
    weir_calendar_free(calendar);
}

static void declares_exactly_its_keys(void **state)
{
    (void)state;
    const struct weir_spend spends[] = {
        with_key(spend_of(WEIR_SLIDING_LOG, 9, SECOND, 0, 1), "group:log", 5),
        with_key(spend_of(WEIR_GCRA, 5, SECOND, 10, 1), "group:a", 5),
        with_key(spend_of(WEIR_FIXED_WINDOW, 100, SECOND, 0, 1), "other", 0),
        with_key(spend_of(WEIR_FIXED_WINDOW, 70, SECOND, 0, 1), "group:b", 5),
    };
    const struct weir_check check = { .spends = spends, .count = 4 };
    /* The ids are FNV-1a of ":a" and ":b". */
    assert_string_equal(written(&check, WEIR_REDIS_BY_HASH, WEIR_REDIS_OWN_CLOCK),
                        EVALSHA "3 group other group:log ....M...P" /* count, two ids */
                                " [9 1 1000000 2000000 200000 100 1 1000000 70 1 1000000]");
    assert_string_equal(
        written(&check, WEIR_REDIS_BY_TEXT, WEIR_REDIS_CLOCK_OF_TEST),
        "EVAL return.1 3 group other group:log ....M...P"
        " [9 1 1000000 2000000 200000 100 1 1000000 70 1 1000000] 1767225600250000");
}

static const char *written_many(const struct weir_check *all, size_t count,
                                enum weir_redis_clock clock)
{
    static char memory[WEIR_REDIS_COMMAND_BYTES];
    static struct weir_redis_plan plans[WEIR_REDIS_BATCH_CHECKS_MAX];
    struct weir_redis_item items[WEIR_REDIS_BATCH_CHECKS_MAX];
    struct weir_buffer out = weir_buffer_init(memory, sizeof memory);
    for (size_t i = 0; i < count; i++) {
        weir_redis_plan_make(&plans[i], &all[i]);
        items[i] = (struct weir_redis_item){ &plans[i], &all[i] };
    }
    weir_redis_write_batch(&out, &script, WEIR_REDIS_BY_HASH, clock, NOW, items, count);
    return shown(&out);
}

/* The keys of each run once, how many checks each run has, and the numbers of all. */
static void writes_checks_with_the_same_key_as_a_run(void **state)
{
    (void)state;
    static const char *const names[] = { "a", "a", "b", "a", "a", "a" };
    struct weir_spend limits[6];
    struct weir_check all[6];
    for (size_t i = 0; i < 6; i++) {
        limits[i] = with_key(spend_of(WEIR_GCRA, 5, SECOND, 10, i), names[i], 0);
        all[i] = (struct weir_check){ .spends = &limits[i], .count = 1 };
    }
    assert_string_equal(written_many(all, 6, WEIR_REDIS_OWN_CLOCK),
                        EVALSHA "3 a b a ... [2000000 0 2000000 200000 2000000 400000 2000000 "
                                "600000 2000000 800000 2000000 1000000]");
    assert_string_equal(written_many(all, 2, WEIR_REDIS_CLOCK_OF_TEST),
                        EVALSHA "1 a . [2000000 0 2000000 200000] 1767225600250000");
    char memory[400];
    struct weir_buffer out = weir_buffer_init(memory, sizeof memory);
    struct weir_redis_plan plans[6];
    struct weir_redis_item items[6];
    for (size_t i = 0; i < 6; i++) {
        weir_redis_plan_make(&plans[i], &all[i]);
        items[i] = (struct weir_redis_item){ &plans[i], &all[i] };
    }
    weir_redis_write_batch(&out, &script, WEIR_REDIS_BY_HASH, WEIR_REDIS_OWN_CLOCK, NOW, items, 6);
    assert_non_null(strstr(weir_buffer_string(&out), "$3\r\n\2\1\3\r\n"));
}

static void writes_the_ids_of_groups_once(void **state)
{
    (void)state;
    struct weir_spend limits[2][3];
    struct weir_check all[2];
    static const char *const names[2][3] = { { "one:a", "one:b", "x" }, { "two:a", "two:b", "x" } };
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < 3; k++)
            limits[i][k] = with_key(spend_of(WEIR_FIXED_WINDOW, 100 + k, SECOND, 0, i), names[i][k],
                                    k < 2 ? 3 : 0);
        all[i] = (struct weir_check){ .spends = limits[i], .count = 3 };
    }
    assert_string_equal(written_many(all, 2, WEIR_REDIS_OWN_CLOCK),
                        EVALSHA "4 one x two x ....M...P .. [100 0 1000000 101 0 1000000 102 0 "
                                "1000000 100 1 1000000 101 1 1000000 102 1 1000000]");
}

/* As many and as long as may go into a call. */
static void has_room_for_the_largest_batch(void **state)
{
    (void)state;
    static char names[WEIR_REDIS_BATCH_LIMITS_MAX][WEIR_KEY_MAX];
    static struct weir_spend limits[WEIR_REDIS_BATCH_LIMITS_MAX];
    static struct weir_check all[WEIR_REDIS_BATCH_CHECKS_MAX];
    for (size_t each = 1; each <= WEIR_CHECK_LIMITS; each++) {
        size_t count = WEIR_REDIS_BATCH_LIMITS_MAX / each;
        count = count < WEIR_REDIS_BATCH_CHECKS_MAX ? count : WEIR_REDIS_BATCH_CHECKS_MAX;
        /* The keys of the last check go beyond the bound. */
        size_t key_length = WEIR_REDIS_BATCH_KEY_BYTES_MAX / (each * (count - 1));
        for (size_t i = 0; i < each * count; i++) {
            limits[i] = with_key(spend_of(WEIR_LEAKY_BUCKET, 7, WEIR_WINDOW_MAX_US, 9, 1), "", 0);
            size_t length = i < each * (count - 1) ? key_length : WEIR_KEY_MAX;
            memset(names[i], 'k', length);
            names[i][0] = (char)i;
            limits[i].key = names[i];
            limits[i].key_length = length;
            limits[i].group_length = length - 1;
            all[i / each] =
                (struct weir_check){ .spends = &limits[i / each * each], .count = each };
        }
        written_many(all, count, WEIR_REDIS_CLOCK_OF_TEST);
        assert_true(shown_bytes < WEIR_REDIS_COMMAND_BYTES - WEIR_REDIS_SCRIPT_BYTES - 1024);
    }
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

/* The largest plan has room beside the largest script. */
static void has_room_for_the_largest_plan(void **state)
{
    (void)state;
    static char keys[WEIR_CHECK_LIMITS][WEIR_KEY_MAX];
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++) {
        spends[i] =
            settled(spend_of(WEIR_TOKEN_BUCKET, 7, WEIR_WINDOW_MAX_US, 0, WEIR_UNITS_MAX), 0);
        spends[i].rate.parts = UINT64_MAX;
        memset(keys[i], 'a' + (int)i, WEIR_KEY_MAX);
        spends[i].key = keys[i];
        spends[i].key_length = WEIR_KEY_MAX;
        spends[i].group_length = WEIR_KEY_MAX - 1;
    }
    const struct weir_check check = { .operation = WEIR_SETTLE, .spends = spends, .count = 8 };
    assert_true(strlen(written(&check, WEIR_REDIS_BY_HASH, WEIR_REDIS_CLOCK_OF_TEST))
                < WEIR_REDIS_COMMAND_BYTES - WEIR_REDIS_SCRIPT_BYTES - 1024);
}

static void finds_the_fault_of_a_check(void **state)
{
    (void)state;
    struct weir_spend spends[2];
    struct weir_answer answers[2];
    struct weir_check check = { .spends = spends, .answers = answers, .count = 1 };
    spends[0] = spend_of(WEIR_GCRA, 5, SECOND, 10, 1);
    assert_null(weir_redis_fault(&check));
    spends[0].algorithm = (enum weir_algorithm)17;
    assert_non_null(weir_redis_fault(&check));
    /* Not a rate that weir_rate_make() makes, but nothing keeps a program from asking. */
    for (int algorithm = WEIR_GCRA; algorithm <= WEIR_LEAKY_BUCKET; algorithm++) {
        spends[0] = spend_of(WEIR_GCRA, 5, SECOND, 10, 1);
        spends[0].algorithm = (enum weir_algorithm)algorithm;
        spends[0].rate.interval_us = UINT64_C(1) << 50;
        assert_non_null(weir_redis_fault(&check));
    }
    check.count = 2;
    const struct weir_spend limit = spend_of(WEIR_GCRA, 5, SECOND, 10, 1);
    static const struct {
        const char *what;
        const char *keys[2];
        size_t groups[2];
        bool is_fault;
    } rows[] = {
        { "two limits of a group", { "g:a", "g:b" }, { 1, 1 }, false },
        { "names whose FNV-1a is the same", { "gdeclinate", "gmacallums" }, { 1, 1 }, true },
        { "the same in two groups", { "gdeclinate", "hmacallums" }, { 1, 1 }, false },
        { "a group with the key of another limit", { "g:a", "g" }, { 1, 0 }, true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        for (size_t n = 0; n < 2; n++)
            spends[n] = with_key(limit, rows[i].keys[n], rows[i].groups[n]);
        assert_int_equal(weir_redis_fault(&check) != NULL, rows[i].is_fault);
    }
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

/* A reply to a check as a script sends it. */
struct bulk {
    char bytes[300];
    size_t length;
};

static void put_double(struct bulk *bulk, double number)
{
    memcpy(bulk->bytes + bulk->length, &number, sizeof number);
    bulk->length += sizeof number;
}

static void put_state(struct bulk *bulk, double first, uint32_t low, uint32_t high)
{
    put_double(bulk, first);
    memcpy(bulk->bytes + bulk->length, &low, sizeof low);
    memcpy(bulk->bytes + bulk->length + 4, &high, sizeof high);
    bulk->length += 8;
}

static enum weir_redis_meaning meaning_of_bulk(struct bulk *bulk, size_t length,
                                               struct weir_check *check)
{
    redisReply reply = { .type = REDIS_REPLY_STRING, .str = bulk->bytes };
    reply.len = (__typeof__(reply.len))length;
    return weir_redis_read_answer(&reply, check);
}

static void assert_answer(struct weir_answer got, struct weir_answer want)
{
    assert_int_equal(got.allowed, want.allowed);
    assert_int_equal(got.impossible, want.impossible);
    assert_int_equal(got.remaining, want.remaining);
    assert_int_equal(got.retry_us, want.retry_us);
    assert_int_equal(got.reset_us, want.reset_us);
}

static void reads_the_time_in_use_of_a_lone_limit(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        double used;
        struct weir_answer want;
    } rows[] = {
        { "a new key", 0, { .allowed = true, .remaining = 9, .reset_us = 200000 } },
        { "the last unit", 1800000, { .allowed = true, .reset_us = 2000000 } },
        { "one too many", 1900000, { .retry_us = 100000, .reset_us = 1900000 } },
        { "blocked", -70, { .retry_us = 70, .reset_us = 70 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        const struct weir_spend spend = spend_of(WEIR_GCRA, 5, SECOND, 10, 1);
        struct weir_answer answer;
        struct weir_check check = { .spends = &spend, .answers = &answer, .count = 1 };
        struct bulk bulk = { .length = 0 };
        put_double(&bulk, (double)NOW);
        put_double(&bulk, rows[i].used);
        assert_int_equal(meaning_of_bulk(&bulk, bulk.length, &check), WEIR_REDIS_DECIDED);
        assert_answer(answer, rows[i].want);
        assert_int_equal(check.now_us, NOW);
    }
}

static void reads_the_states_of_many_limits(void **state)
{
    (void)state;
    /* In the order of keys: the group, the lone limit, the log. */
    const struct weir_spend spends[] = {
        with_key(spend_of(WEIR_SLIDING_LOG, 9, SECOND, 0, 1), "group:log", 5),
        with_key(spend_of(WEIR_GCRA, 5, SECOND, 10, 1), "group:a", 5),
        with_key(spend_of(WEIR_FIXED_WINDOW, 100, SECOND, 0, 1), "other", 0),
        with_key(spend_of(WEIR_FIXED_WINDOW, 70, SECOND, 0, 1), "group:b", 5),
    };
    struct weir_answer answers[4];
    struct weir_check check = { .spends = spends, .answers = answers, .count = 4 };
    struct bulk bulk = { .length = 0 };
    put_double(&bulk, (double)NOW);
    put_state(&bulk, (double)NOW + 200000, 0, 0);
    put_state(&bulk, (double)NOW - 250000, 60, 0);
    put_state(&bulk, (double)NOW - 250000, 33, 0);
    put_double(&bulk, 4);
    put_double(&bulk, 90000);
    put_double(&bulk, 0);
    assert_int_equal(meaning_of_bulk(&bulk, bulk.length, &check), WEIR_REDIS_DECIDED);
    assert_answer(answers[0], (struct weir_answer){ true, false, false, 4, 0, SECOND, 0, 0 });
    assert_answer(answers[1], (struct weir_answer){ true, false, false, 8, 0, 400000, 0, 0 });
    assert_answer(answers[2], (struct weir_answer){ true, false, false, 66, 0, 750000, 0, 0 });
    assert_answer(answers[3], (struct weir_answer){ true, false, false, 9, 0, 750000, 0, 0 });

    /* One refused: the others have spent nothing. */
    struct bulk refused = { .length = 0 };
    put_double(&refused, -(double)NOW);
    memcpy(refused.bytes + 8, bulk.bytes + 8, bulk.length - 8);
    refused.length = bulk.length - 24;
    put_double(&refused, 9);
    put_double(&refused, 90000);
    put_double(&refused, 50000);
    assert_int_equal(meaning_of_bulk(&refused, refused.length, &check), WEIR_REDIS_DECIDED);
    assert_answer(answers[0], (struct weir_answer){ false, false, false, 0, 50000, 90000, 0, 0 });
    assert_answer(answers[1], (struct weir_answer){ true, false, false, 9, 0, 200000, 0, 0 });
    assert_answer(answers[2], (struct weir_answer){ true, false, false, 67, 0, 750000, 0, 0 });

    /* A blocked log. */
    refused.length -= 24;
    put_double(&refused, -1);
    put_double(&refused, 5 * (double)SECOND);
    put_double(&refused, 0);
    assert_int_equal(meaning_of_bulk(&refused, refused.length, &check), WEIR_REDIS_DECIDED);
    assert_answer(answers[0],
                  (struct weir_answer){ false, false, false, 0, 5 * SECOND, 5 * SECOND, 0, 0 });
}

/* The state that the script has met, and what it did then. */
static void reads_a_penalty_by_what_its_limit_says(void **state)
{
    (void)state;
    const double now = (double)NOW, second = (double)SECOND;
    static const struct weir_answer free_of_it = { .allowed = true, .remaining = WEIR_UNITS_MAX };
    const struct {
        const char *what;
        double first; /* of the limit: 5 a second, gcra */
        uint32_t high;
        uint32_t violations;
        double quiet;
        bool is_refused;
        struct weir_answer want;
    } rows[] = {
        { "room", 0, 0, 2, now - second, false, free_of_it },
        { "no room", now + second, 0, 1, now - second, true, free_of_it },
        { "the third time",
          now + second,
          0,
          2,
          now - second,
          true,
          { .retry_us = 60 * SECOND, .reset_us = 60 * SECOND } },
        { "the fourth",
          now + second,
          0,
          3,
          now - second,
          true,
          { .retry_us = 300 * SECOND, .reset_us = 300 * SECOND } },
        { "a ban", 0, 0, 3, now + second, true, { .retry_us = SECOND, .reset_us = SECOND } },
        { "a blocked limit", now + second, UINT32_MAX, 2, now - second, true, free_of_it },
        { "what cannot be", 0, 0, 3, now + 0.5, false, free_of_it },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        const struct weir_spend spends[] = { spend_of(WEIR_GCRA, 5, SECOND, 5, 1),
                                             penalty_of("p", 1) };
        struct weir_answer answers[2];
        struct weir_check check = { .spends = spends, .answers = answers, .count = 2 };
        for (int lies = 0; lies < 2; lies++) {
            struct bulk bulk = { .length = 0 };
            put_double(&bulk, rows[i].is_refused != lies ? -now : now);
            put_state(&bulk, rows[i].first, 0, rows[i].high);
            put_state(&bulk, rows[i].quiet, rows[i].violations, 0);
            enum weir_redis_meaning meaning = meaning_of_bulk(&bulk, bulk.length, &check);
            assert_int_equal(meaning, lies ? WEIR_REDIS_REFUSED : WEIR_REDIS_DECIDED);
        }
        assert_answer(answers[1], rows[i].want);
    }
}

/* During a ban a log of refusals takes none, so its wait is what it was. */
static void reads_a_log_that_is_quiet_during_a_ban(void **state)
{
    (void)state;
    struct weir_spend spends[] = { spend_of(WEIR_SLIDING_LOG, 9, SECOND, 0, 1),
                                   penalty_of("p", 1) };
    spends[0].logs_refusals = true;
    for (int banned = 0; banned < 2; banned++) {
        struct weir_answer answers[2];
        struct weir_check check = { .spends = spends, .answers = answers, .count = 2 };
        struct bulk bulk = { .length = 0 };
        put_double(&bulk, -(double)NOW);
        put_state(&bulk, (double)NOW + (banned ? 7 : -7), 4, 0);
        put_double(&bulk, 9);
        put_double(&bulk, 90000);
        put_double(&bulk, 50000);
        assert_int_equal(meaning_of_bulk(&bulk, bulk.length, &check), WEIR_REDIS_DECIDED);
        assert_int_equal(answers[0].retry_us, 50000);
        assert_int_equal(answers[0].reset_us, banned ? 90000 : SECOND);
        assert_int_equal(answers[1].retry_us, banned ? 7 : 300 * SECOND);
    }
}

static void takes_states_that_cannot_be_for_new_ones(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        double first;
        uint32_t low, high;
    } rows[] = {
        { "no number", (double)NAN, 0, 5 },
        { "endless", (double)INFINITY, 0, 5 },
        { "below zero", -1e15, 0, 5 },
        { "a fraction", 1e15 + 0.5, 0, 5 },
        { "no time", 1e16, 0, 5 },
        { "units", 1e15, 0, 1000000001 },
        { "other units", 1e15, 1000000001, 5 },
    };
    const struct weir_spend spend = spend_of(WEIR_TOKEN_BUCKET, 5, SECOND, 10, 1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_answer answer;
        struct weir_check check = { .spends = &spend, .answers = &answer, .count = 1 };
        struct bulk bulk = { .length = 0 };
        put_double(&bulk, (double)NOW);
        put_state(&bulk, rows[i].first, rows[i].low, rows[i].high);
        assert_int_equal(meaning_of_bulk(&bulk, bulk.length, &check), WEIR_REDIS_DECIDED);
        assert_int_equal(answer.remaining, 9);
    }
}

static void refuses_what_the_script_cannot_say(void **state)
{
    (void)state;
    const struct weir_spend plain = spend_of(WEIR_GCRA, 5, SECOND, 10, 1),
                            counter = spend_of(WEIR_SLIDING_COUNTER, 5, SECOND, 0, 1),
                            log = spend_of(WEIR_SLIDING_LOG, 5, SECOND, 0, 1);
    const struct {
        const char *what;
        const struct weir_spend *spend;
        double numbers[4];
        size_t count;
    } rows[] = {
        { "no time", &plain, { 0, 0 }, 2 },
        { "a refusal where there is none", &plain, { -1e15, 0 }, 2 },
        { "a time with a fraction", &plain, { 1e15 + 0.5, 0 }, 2 },
        { "a time that is no number", &plain, { (double)NAN, 0 }, 2 },
        { "more time than there is", &plain, { 1e15, 2000001 }, 2 },
        { "a piece of a microsecond", &plain, { 1e15, 0.5 }, 2 },
        { "no number", &plain, { 1e15, (double)NAN }, 2 },
        { "blocked for ever", &plain, { 1e15, -(double)INFINITY }, 2 },
        { "a number too few", &plain, { 1e15 }, 1 },
        { "a number too many", &plain, { 1e15, 0, 0 }, 3 },
        { "nothing", &plain, { 0 }, 0 },
        { "no state", &counter, { 1e15 }, 1 },
        { "half a state", &counter, { 1e15, 0 }, 2 },
        { "more than a state", &counter, { 1e15, 0, 0, 0 }, 4 },
        { "a log too short", &log, { 1e15, 0, 0 }, 3 },
        { "units that are no number", &log, { 1e15, (double)NAN, 0, 0 }, 4 },
        { "a piece of a unit", &log, { 1e15, 0.5, 0, 0 }, 4 },
        { "a log longer than its window", &log, { 1e15, 0, 1000001, 0 }, 4 },
        { "a wait below zero", &log, { -1e15, 5, 10, -1 }, 4 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_answer answer;
        struct weir_check check = { .spends = rows[i].spend, .answers = &answer, .count = 1 };
        struct bulk bulk = { .length = 0 };
        for (size_t n = 0; n < rows[i].count; n++)
            put_double(&bulk, rows[i].numbers[n]);
        assert_int_equal(meaning_of_bulk(&bulk, bulk.length, &check), WEIR_REDIS_REFUSED);
        assert_string_equal(check.why, "Redis sent what is no answer");
    }
}

static void reads_a_text_and_the_time_before_it(void **state)
{
    (void)state;
    static char bytes[8 + WEIR_TEXT_BYTES_MAX + 1], found[WEIR_TEXT_BYTES_MAX];
    const struct weir_spend key = { .key = "k", .key_length = 1 };
    const struct {
        const char *what;
        double now;
        size_t length; /* of all */
        enum weir_redis_meaning want;
    } rows[] = {
        { "no text", 1e15, 8, WEIR_REDIS_DECIDED },
        { "one", 1e15, 8 + 300, WEIR_REDIS_DECIDED },
        { "the longest", 1e15, 8 + WEIR_TEXT_BYTES_MAX, WEIR_REDIS_DECIDED },
        { "a longer one", 1e15, 8 + WEIR_TEXT_BYTES_MAX + 1, WEIR_REDIS_REFUSED },
        { "half a time", 1e15, 7, WEIR_REDIS_REFUSED },
        { "nothing", 1e15, 0, WEIR_REDIS_REFUSED },
        { "a refusal, which there is not", -1e15, 20, WEIR_REDIS_REFUSED },
        { "a time that is none", (double)NAN, 20, WEIR_REDIS_REFUSED },
    };
    memset(bytes, 'x', sizeof bytes);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_exchange exchange = { .found = found };
        struct weir_check check = {
            .operation = WEIR_EXCHANGE, .spends = &key, .count = 1, .exchange = &exchange
        };
        memcpy(bytes, &rows[i].now, sizeof rows[i].now);
        redisReply reply = { .type = REDIS_REPLY_STRING, .str = bytes };
        reply.len = (__typeof__(reply.len))rows[i].length;
        assert_int_equal(weir_redis_read_answer(&reply, &check), rows[i].want);
        if (rows[i].want == WEIR_REDIS_DECIDED) {
            assert_int_equal(exchange.found_length, rows[i].length - 8);
            assert_int_equal(check.now_us, UINT64_C(1000000000000000));
        } else {
            assert_string_not_equal(check.why, "");
        }
    }
}

static void refuses_replies_of_another_type(void **state)
{
    (void)state;
    static const char *const replies[] = { ":0\r\n",  "*0\r\n",       "*2\r\n:0\r\n:0\r\n",
                                           "+OK\r\n", "$2\r\n:0\r\n", "$-1\r\n",
                                           "*-1\r\n", ":1\r\n" };
    const struct weir_spend spend = spend_of(WEIR_GCRA, 5, SECOND, 10, 1);
    struct weir_answer answer;
    for (int operation = WEIR_SPEND; operation <= WEIR_BLOCK; operation++)
        for (size_t i = 0; i < COUNT_OF(replies); i++) {
            struct weir_check check = { .operation = (enum weir_operation)operation,
                                        .spends = &spend,
                                        .answers = &answer,
                                        .count = 1 };
            bool is_done = operation != WEIR_SPEND && strcmp(replies[i], ":1\r\n") == 0;
            assert_int_equal(meaning_of(replies[i], &check),
                             is_done ? WEIR_REDIS_DECIDED : WEIR_REDIS_REFUSED);
        }
    static char found[WEIR_TEXT_BYTES_MAX];
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct weir_exchange exchange = { .found = found };
        struct weir_check check = {
            .operation = WEIR_EXCHANGE, .spends = &spend, .count = 1, .exchange = &exchange
        };
        assert_int_equal(meaning_of(replies[i], &check), WEIR_REDIS_REFUSED);
    }
    struct weir_check check = { .spends = &spend, .answers = &answer, .count = 1 };
    assert_int_equal(weir_redis_read_answer(NULL, &check), WEIR_REDIS_REFUSED);
}

static void sees_that_a_script_decided_otherwise(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(WEIR_FIXED_WINDOW, 5, SECOND, 0, 1);
    for (int used = 4; used <= 5; used++) {
        struct weir_answer answer;
        struct weir_check check = { .spends = &spend, .answers = &answer, .count = 1 };
        struct bulk bulk = { .length = 0 };
        put_double(&bulk, used == 4 ? -(double)NOW : (double)NOW);
        put_state(&bulk, (double)NOW - 250000, (uint32_t)used, 0);
        assert_int_equal(meaning_of_bulk(&bulk, bulk.length, &check), WEIR_REDIS_REFUSED);
        assert_string_equal(check.why, "the script and the library disagree");
    }
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
        { "-MASTERDOWN Link down\r\n", WEIR_REDIS_UNFIT, "MASTERDOWN Link down" },
        { "-CLUSTERDOWN down\r\n", WEIR_REDIS_CLUSTER_DOWN, "CLUSTERDOWN down" },
        { "-MOVED 3999 127.0.0.1:6381\r\n", WEIR_REDIS_MOVED, "MOVED 3999 127.0.0.1:6381" },
        { "-ASK 3999 127.0.0.1:6381\r\n", WEIR_REDIS_ASK, "ASK 3999 127.0.0.1:6381" },
        { "-ASKED for nothing\r\n", WEIR_REDIS_REFUSED, "ASKED for nothing" },
        { "-TRYAGAIN Multiple keys\r\n", WEIR_REDIS_TRY_AGAIN, "TRYAGAIN Multiple keys" },
        { "-NOPERM no\r\n", WEIR_REDIS_REFUSED, "NOPERM no" },
        { "-READONLY You can't write\r\n", WEIR_REDIS_UNFIT, "READONLY You can't write" },
        { "-ERR Error running script: @user_script: 1: -READONLY You can't\r\n", WEIR_REDIS_UNFIT,
          "READONLY You can't" },
        { "-ERR Error running script (call to f_6b1b): @user_script:1: @user_script: 12: -OOM "
          "no\r\n",
          WEIR_REDIS_REFUSED, "OOM no" },
        { "-ERR Error running script (call to f_6b1b): @user_script:3: attempt to index\r\n",
          WEIR_REDIS_REFUSED, "attempt to index" },
        { "-\r\n", WEIR_REDIS_REFUSED, "an error without a text" },
        { "-ERR @user_script:1: -\r\n", WEIR_REDIS_REFUSED, "an error without a text" },
        { "-OOM no. script: 6b1b, on @user_script:1.\r\n", WEIR_REDIS_REFUSED,
          "OOM no. script: 6b1b, on @user_script:1." },
        { "-OOM no. script: 7a1d2c3b4e5f60718293a4b5c6d7e8f901234567, on @user_script:52.\r\n",
          WEIR_REDIS_REFUSED, "OOM no." },
        { "-READONLY You can't. script: 7a1d2c3b4e5f60718293a4b5c6d7e8f901234567, on "
          "@user_script:1.\r\n",
          WEIR_REDIS_UNFIT, "READONLY You can't." },
        { "-ERR @user_script:1: \r\n", WEIR_REDIS_REFUSED, "ERR @user_script:1: " },
        { "-LOADING Redis is loading\r\n", WEIR_REDIS_UNFIT, "LOADING Redis is loading" },
        { "-ERR line\x1b[2J\tend\xff\r\n", WEIR_REDIS_REFUSED, "ERR line?[2J?end?" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %.20s\n", rows[i].why);
        const struct weir_spend spend = spend_of(WEIR_GCRA, 5, SECOND, 10, 1);
        struct weir_check check = { .spends = &spend, .count = 1 };
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
        cmocka_unit_test(writes_what_to_settle),
        cmocka_unit_test(writes_for_how_long_to_block),
        cmocka_unit_test(writes_what_to_exchange),
        cmocka_unit_test(writes_the_windows_around_a_time),
        cmocka_unit_test(declares_exactly_its_keys),
        cmocka_unit_test(writes_checks_with_the_same_key_as_a_run),
        cmocka_unit_test(writes_the_ids_of_groups_once),
        cmocka_unit_test(has_room_for_the_largest_batch),
        cmocka_unit_test(writes_arguments_of_any_bytes),
        cmocka_unit_test(has_room_for_the_largest_plan),
        cmocka_unit_test(finds_the_fault_of_a_check),
        cmocka_unit_test(reads_the_time_in_use_of_a_lone_limit),
        cmocka_unit_test(reads_the_states_of_many_limits),
        cmocka_unit_test(writes_a_penalty_behind_its_limit),
        cmocka_unit_test(reads_a_penalty_by_what_its_limit_says),
        cmocka_unit_test(reads_a_log_that_is_quiet_during_a_ban),
        cmocka_unit_test(takes_states_that_cannot_be_for_new_ones),
        cmocka_unit_test(refuses_what_the_script_cannot_say),
        cmocka_unit_test(reads_a_text_and_the_time_before_it),
        cmocka_unit_test(refuses_replies_of_another_type),
        cmocka_unit_test(sees_that_a_script_decided_otherwise),
        cmocka_unit_test(knows_errors_by_their_first_word),
        cmocka_unit_test(cuts_a_long_error),
        cmocka_unit_test(reads_a_hash_and_nothing_else),
    };
    return cmocka_run_group_tests_name("redis_wire", tests, NULL, NULL);
}
