/* What a server says of itself: it goes through hiredis's parser, or stands in a bulk string as it
 * is, into each reader. What they make of it must be one line that ends, of characters that a log
 * can hold. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis_advice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW UINT64_C(1767225600000000)

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check(enum weir_advice_finding found, const char text[WEIR_ADVICE_BYTES])
{
    if (found != WEIR_ADVICE_HOLDS)
        return;
    require(memchr(text, '\0', WEIR_ADVICE_BYTES) != NULL);
    for (; *text != '\0'; text++)
        require(*text >= 0x20 && *text < 0x7F);
}

static void read_reply(const redisReply *reply)
{
    char text[WEIR_ADVICE_BYTES];
    check(weir_advice_read_version(reply, text), text);
    check(weir_advice_read_role(reply, text), text);
    check(weir_advice_read_eviction(reply, text), text);
    check(weir_advice_read_untold(reply, "\x1b[2J", text), text);
    check(weir_advice_read_clock(reply, NOW, 1000, text), text);
    check(weir_advice_read_commands(reply, "weir", text), text);
    enum weir_advice advice;
    struct weir_text key = { "weir:{a}:b", 10 };
    if (reply->type == REDIS_REPLY_ERROR)
        check(weir_advice_read_refusal(reply->str, "weir", key, &advice, text), text);
}

static void read_as_bulk(const uint8_t *data, size_t size)
{
    char bytes[2048] = { 0 };
    if (size >= sizeof bytes)
        return;
    memcpy(bytes, data, size);
    redisReply reply = { .type = REDIS_REPLY_STRING, .str = bytes };
    reply.len = (__typeof__(reply.len))size;
    read_reply(&reply);
    redisReply *items[2] = { &reply, &reply };
    const redisReply pair = { .type = REDIS_REPLY_ARRAY, .elements = 2, .element = items };
    read_reply(&pair);
}

/* hiredis 0.14.1 takes room for as many elements as a server announces. The system gives memory
 * only as it is used, so that is no harm, but a fuzzer takes it for one. */
static bool announces_much(const uint8_t *data, size_t size)
{
    size_t digits = 0;
    for (size_t i = 0; i < size; i++) {
        digits = data[i] >= '0' && data[i] <= '9' ? digits + 1 : 0;
        if (digits > 5)
            return memchr(data, '*', size) != NULL;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_as_bulk(data, size);
    if (announces_much(data, size))
        return 0;
    redisReader *reader = redisReaderCreate();
    require(reader != NULL);
    void *reply = NULL;
    redisReaderFeed(reader, (const char *)data, size);
    while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
        read_reply(reply);
        freeReplyObject(reply);
        reply = NULL;
    }
    redisReaderFree(reader);
    return 0;
}
