/* Replies: whatever a server sends goes through hiredis's parser into a check's answers. What is
 * read as a decision must be one that can be; what is not must say why. The first byte picks the
 * limits that were asked about; the rest is RESP, or (without that) what a bulk string holds: the reply
 * to one check, or to a call of as many as would fit. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis_batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void make_spend(struct weir_spend *spend, size_t row)
{
    static const struct {
        enum weir_algorithm algorithm;
        uint64_t limit, window_us, burst, cost;
    } rows[] = {
        { WEIR_GCRA, 5, 1000000, 10, 1 },
        { WEIR_GCRA, 7, 1000000, 9, 0 },
        { WEIR_GCRA, 0, 1000000, 0, 1 },
        { WEIR_GCRA, 1000, 1000000, 0, 1001 },
        { WEIR_TOKEN_BUCKET, 5, 1000000, 10, 1 },
        { WEIR_TOKEN_BUCKET, 7, WEIR_WINDOW_MAX_US, 9, 2 },
        { WEIR_LEAKY_BUCKET, 1000000000, 1000001, 0, 1000 },
        { WEIR_FIXED_WINDOW, 100, 60000000, 0, 3 },
        { WEIR_FIXED_WINDOW, 1, WEIR_WINDOW_MAX_US, 0, 1 },
        { WEIR_SLIDING_COUNTER, 1000000000, WEIR_WINDOW_MAX_US, 0, 1 },
        { WEIR_SLIDING_COUNTER, 3, 1, 0, 1 },
        { WEIR_SLIDING_LOG, 1000, 60000000, 0, 20 },
    };
    row %= sizeof rows / sizeof rows[0];
    *spend = (struct weir_spend){ .algorithm = rows[row].algorithm, .cost = rows[row].cost };
    spend->from_first = row == 8;
    spend->logs_refusals = row == 11;
    require(
        weir_rate_make(rows[row].limit, rows[row].window_us, rows[row].burst, &spend->rate, NULL)
        == WEIR_OK);
}

/* A check with what it points to. */
struct asked {
    struct weir_check check;
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    struct weir_answer answers[WEIR_CHECK_LIMITS];
};

static const struct weir_penalty penalty = {
    .after = 2,
    .ban_count = 3,
    .bans_us = { 1000000, 60000000, WEIR_WINDOW_MAX_US },
    .forget_us = WEIR_WINDOW_MAX_US,
    .extends = true,
};

/* Turns a spend into the penalty of the one before it. */
static void punish(struct weir_spend *spend)
{
    *spend = (struct weir_spend){ .algorithm = WEIR_PENALTY,
                                  .cost = spend[-1].cost,
                                  .penalty = &penalty };
}

static void make_check(struct asked *asked, uint8_t pick)
{
    static const char *const keys[] = { "g:1", "h", "g:2", "i", "g:3", "j", "g:4", "k" };
    memset(asked, 0, sizeof *asked);
    asked->check.spends = asked->spends;
    asked->check.answers = asked->answers;
    asked->check.count = 1 + pick % WEIR_CHECK_LIMITS;
    for (size_t i = 0; i < asked->check.count; i++) {
        make_spend(&asked->spends[i], pick / WEIR_CHECK_LIMITS + i);
        if (i > 0 && pick >= 128 && asked->spends[i - 1].algorithm != WEIR_PENALTY)
            punish(&asked->spends[i]);
        asked->spends[i].key = keys[i];
        asked->spends[i].key_length = strlen(keys[i]);
        asked->spends[i].group_length = i % 2 == 0 ? 1 : 0;
    }
}

static void check_penalty(const struct weir_spend *spend, const struct weir_answer *answer)
{
    bool is_banned = answer->reset_us > 0;
    require(!answer->impossible && answer->wait_us == 0);
    require(answer->reset_us <= penalty.bans_us[2]);
    require(answer->remaining == (is_banned ? 0 : WEIR_UNITS_MAX));
    require(answer->allowed == (!is_banned || spend->cost == 0));
    require(answer->retry_us == (answer->allowed ? 0 : answer->reset_us));
}

/* `is_spent`: the whole plan was let through. */
static void check_answer(const struct weir_spend *spend, const struct weir_answer *answer,
                         bool is_spent)
{
    if (spend->algorithm == WEIR_PENALTY) {
        check_penalty(spend, answer);
        return;
    }
    uint64_t most = spend->rate.limit == 0 ? 0 : spend->rate.burst;
    require(answer->remaining <= most);
    require(!answer->allowed || (!answer->impossible && answer->retry_us == 0));
    require(answer->impossible == (spend->cost > most));
    if (answer->allowed && is_spent)
        require(spend->cost + answer->remaining <= most);
    /* The script computes the wait of a log, and none else. */
    if (spend->algorithm != WEIR_SLIDING_LOG)
        require(answer->allowed || answer->impossible || answer->retry_us > 0);
}

static bool all_allowed(const struct weir_check *check)
{
    for (size_t i = 0; i < check->count; i++)
        if (!check->answers[i].allowed)
            return false;
    return true;
}

static void read_as_answer(const redisReply *reply, uint8_t pick)
{
    struct asked asked;
    make_check(&asked, pick);
    const struct weir_check *check = &asked.check;
    switch (weir_redis_read_answer(reply, &asked.check)) {
    case WEIR_REDIS_DECIDED:
        for (size_t i = 0; i < check->count; i++)
            check_answer(&check->spends[i], &check->answers[i], all_allowed(check));
        return;
    case WEIR_REDIS_NO_SCRIPT:
        return;
    case WEIR_REDIS_REFUSED:
    case WEIR_REDIS_UNFIT:
    case WEIR_REDIS_MOVED:
    case WEIR_REDIS_ASK:
    case WEIR_REDIS_TRY_AGAIN:
    case WEIR_REDIS_CLUSTER_DOWN:
        require(memchr(check->why, '\0', sizeof check->why) != NULL);
        for (const char *at = check->why; *at != '\0'; at++)
            require(*at >= 0x20 && *at < 0x7F);
        return;
    }
}

/* A text that is kept is what it is, but no longer than it may be. */
static void read_as_text(const redisReply *reply)
{
    static char found[WEIR_TEXT_BYTES_MAX];
    const struct weir_spend key = { .key = "k", .key_length = 1 };
    struct weir_exchange exchange = { .found = found };
    struct weir_check check = {
        .operation = WEIR_EXCHANGE, .spends = &key, .count = 1, .exchange = &exchange
    };
    if (weir_redis_read_answer(reply, &check) == WEIR_REDIS_DECIDED)
        require(exchange.found_length <= sizeof found && check.now_us > 0);
}

/* The reply to a call of so many checks, of which each gets its part. */
static void read_as_call(const redisReply *reply, uint8_t pick, size_t count)
{
    for (size_t item = 0; item < count; item++) {
        struct asked asked;
        struct weir_redis_part part;
        make_check(&asked, pick);
        const redisReply *own = weir_redis_reply_part(reply, &asked.check, item, count, &part);
        require(own != NULL || count > 1);
        read_as_answer(own, pick);
    }
}

/* Of as many checks as there may be elements or bytes for, and of a few more or less. */
static void read_as_calls(const redisReply *reply, uint8_t pick)
{
    size_t limits = 1 + pick % WEIR_CHECK_LIMITS;
    size_t length = reply->type == REDIS_REPLY_STRING ? (size_t)reply->len : 0;
    size_t by_elements = reply->type == REDIS_REPLY_ARRAY ? reply->elements : 0;
    const size_t counts[] = { 1,
                              2,
                              3,
                              WEIR_REDIS_BATCH_CHECKS_MAX,
                              by_elements - 1,
                              length / 8 - 1,
                              length / (8 + 16 * limits) };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i] > 0 && counts[i] <= WEIR_REDIS_BATCH_CHECKS_MAX)
            read_as_call(reply, pick, counts[i]);
}

static void read_as_hash(const redisReply *reply)
{
    char hash[WEIR_REDIS_HASH_CHARS + 1];
    if (weir_redis_read_hash(reply, hash))
        require(strspn(hash, "0123456789abcdef") == WEIR_REDIS_HASH_CHARS);
}

/* hiredis 0.14.1 takes room for as many elements as a server announces. The system gives memory
 * only as it is used, so that is no harm, but a fuzzer takes it for one. */
static bool announces_much(const uint8_t *data, size_t size)
{
    size_t digits = 0;
    bool counts = false;
    for (size_t i = 0; i < size; i++) {
        bool is_digit = data[i] >= '0' && data[i] <= '9';
        if (data[i] == '*')
            digits = 0;
        counts = data[i] == '*' || (counts && data[i] != '\r');
        digits += is_digit;
        if (counts && digits > 5)
            return true;
    }
    return false;
}

/* The bytes as a bulk string, as they are and behind a time that a script can give. */
static void read_as_bulk(const uint8_t *data, size_t size, uint8_t pick)
{
    char bytes[512] = { 0 };
    if (size >= sizeof bytes)
        return;
    memcpy(bytes, data, size);
    redisReply reply = { .type = REDIS_REPLY_STRING, .str = bytes };
    reply.len = (__typeof__(reply.len))size;
    read_as_answer(&reply, pick);
    read_as_calls(&reply, pick);

    double now = size > 0 && data[0] % 2 == 0 ? 1767225600250000.0 : -1767225600250000.0;
    if (size < sizeof now)
        return;
    memcpy(bytes, &now, sizeof now);
    read_as_answer(&reply, pick);
    read_as_calls(&reply, pick);
    read_as_text(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0)
        read_as_bulk(data + 1, size - 1, data[0]);
    if (size < 1 || announces_much(data + 1, size - 1))
        return 0;
    redisReader *reader = redisReaderCreate();
    require(reader != NULL);
    void *reply = NULL;
    redisReaderFeed(reader, (const char *)data + 1, size - 1);
    while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
        read_as_answer(reply, data[0]);
        read_as_calls(reply, data[0]);
        read_as_text(reply);
        read_as_hash(reply);
        freeReplyObject(reply);
        reply = NULL;
    }
    redisReaderFree(reader);
    return 0;
}
