/* What a Sentinel sends goes through hiredis's parser into the readers of redis_sentinel.h: a place
 * that they find must be one that can be, and a reason must be fit for a log line. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis_sentinel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_place(const struct weir_redis_place *place)
{
    require(memchr(place->host, '\0', sizeof place->host) != NULL && place->host[0] != '\0');
    for (const char *at = place->host; *at != '\0'; at++)
        require(*at > 0x20 && *at < 0x7F && *at != '"');
    require(place->port >= 1 && place->port <= 65535);
}

static void check_why(const char *why, size_t size)
{
    require(memchr(why, '\0', size) != NULL && why[0] != '\0');
    for (const char *at = why; *at != '\0'; at++)
        require(*at >= 0x20 && *at < 0x7F);
}

static void read_all(const redisReply *reply)
{
    struct weir_redis_place place = { .port = 0 };
    char why[40] = "";
    switch (weir_sentinel_read_master(reply, &place, why, sizeof why)) {
    case WEIR_SENTINEL_NAMED:
        check_place(&place);
        break;
    case WEIR_SENTINEL_UNKNOWN:
        break;
    case WEIR_SENTINEL_REFUSED:
        check_why(why, sizeof why);
        break;
    }
    if (!weir_sentinel_read_role(reply, why, sizeof why))
        check_why(why, sizeof why);
    if (weir_sentinel_read_message(reply, "m", &place) == WEIR_SENTINEL_SWITCHED)
        check_place(&place);
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

/* The bytes as the text of a switch, which a parser of RESP seldom lets through by chance. */
static void read_as_switch(const uint8_t *data, size_t size)
{
    char text[512] = { 0 };
    if (size >= sizeof text)
        return;
    memcpy(text, data, size);
    redisReply kind = { .type = REDIS_REPLY_STRING, .str = (char[]){ "message" }, .len = 7 };
    redisReply channel = { .type = REDIS_REPLY_STRING,
                           .str = (char[]){ WEIR_SENTINEL_CHANNEL },
                           .len = sizeof WEIR_SENTINEL_CHANNEL - 1 };
    redisReply switched = { .type = REDIS_REPLY_STRING, .str = text };
    switched.len = (__typeof__(switched.len))size;
    redisReply *elements[] = { &kind, &channel, &switched };
    redisReply reply = { .type = REDIS_REPLY_ARRAY, .elements = 3, .element = elements };
    read_all(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_all(NULL);
    read_as_switch(data, size);
    if (announces_much(data, size))
        return 0;
    redisReader *reader = redisReaderCreate();
    require(reader != NULL);
    void *reply = NULL;
    redisReaderFeed(reader, (const char *)data, size);
    while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
        read_all(reply);
        freeReplyObject(reply);
        reply = NULL;
    }
    redisReaderFree(reader);
    return 0;
}
