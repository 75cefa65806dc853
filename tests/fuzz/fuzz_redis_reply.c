/* Replies: whatever a server sends goes through hiredis's parser into a check's answers. What is
 * read as a decision must be one that can be; what is not must say why. The first byte picks the
 * limits that were asked about. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void make_check(struct weir_check *check, uint8_t pick)
{
    static const struct {
        enum weir_algorithm algorithm;
        uint64_t limit, window_us, burst, cost;
    } spends[] = {
        { WEIR_GCRA, 5, 1000000, 10, 1 },
        { WEIR_GCRA, 7, 1000000, 9, 0 },
        { WEIR_GCRA, 0, 1000000, 0, 1 },
        { WEIR_GCRA, 1000, 1000000, 0, 1001 },
        { WEIR_FIXED_WINDOW, 100, 60000000, 0, 3 },
        { WEIR_FIXED_WINDOW, 1, WEIR_WINDOW_MAX_US, 0, 1 },
    };
    memset(check, 0, sizeof *check);
    check->count = 1 + pick % WEIR_CHECK_LIMITS;
    for (size_t i = 0; i < check->count; i++) {
        size_t row = (pick / WEIR_CHECK_LIMITS + i) % (sizeof spends / sizeof spends[0]);
        struct weir_spend *spend = &check->spends[i];
        spend->algorithm = spends[row].algorithm;
        spend->cost = spends[row].cost;
        require(weir_rate_make(spends[row].limit, spends[row].window_us, spends[row].burst,
                               &spend->rate, NULL)
                == WEIR_OK);
    }
}

/* `is_spent`: the whole plan was let through. */
static void check_answer(const struct weir_spend *spend, const struct weir_answer *answer,
                         bool is_spent)
{
    uint64_t most = spend->rate.limit == 0 ? 0 : spend->rate.burst;
    require(answer->remaining <= most);
    require(!answer->allowed || (!answer->impossible && answer->retry_us == 0));
    require(answer->allowed || answer->impossible || answer->retry_us > 0);
    if (answer->allowed)
        require(is_spent ? spend->cost + answer->remaining <= most
                         : spend->cost <= answer->remaining);
    require(answer->impossible == (spend->cost > most));
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
    struct weir_check check;
    make_check(&check, pick);
    switch (weir_redis_read_answer(reply, &check)) {
    case WEIR_REDIS_DECIDED:
        for (size_t i = 0; i < check.count; i++)
            check_answer(&check.spends[i], &check.answers[i], all_allowed(&check));
        return;
    case WEIR_REDIS_NO_SCRIPT:
        return;
    case WEIR_REDIS_REFUSED:
    case WEIR_REDIS_UNFIT:
        require(memchr(check.why, '\0', sizeof check.why) != NULL);
        for (const char *at = check.why; *at != '\0'; at++)
            require(*at >= 0x20 && *at < 0x7F);
        return;
    }
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || announces_much(data + 1, size - 1))
        return 0;
    redisReader *reader = redisReaderCreate();
    require(reader != NULL);
    void *reply = NULL;
    redisReaderFeed(reader, (const char *)data + 1, size - 1);
    while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
        read_as_answer(reply, data[0]);
        read_as_hash(reply);
        freeReplyObject(reply);
        reply = NULL;
    }
    redisReaderFree(reader);
    return 0;
}
