/* The half of redis_advice.h that asks, and writes into the log. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/redis_internal.h"

/* Stands in a line of the log beside WEIR_ADVICE_BYTES. */
#define SERVER_CHARS 100

/* asking */

static bool ask_one(struct weir_redis_link *link, enum weir_advice_question question)
{
    const struct weir_text info = WEIR_TEXT("INFO");
    const struct {
        struct weir_text arguments[3];
        size_t count;
    } questions[WEIR_ADVICE_QUESTIONS] = {
        [WEIR_ADVICE_OF_SERVER] = { { info, WEIR_TEXT("server") }, 2 },
        [WEIR_ADVICE_OF_REPLICATION] = { { info, WEIR_TEXT("replication") }, 2 },
        [WEIR_ADVICE_OF_MEMORY] = { { info, WEIR_TEXT("memory") }, 2 },
        [WEIR_ADVICE_OF_TIME] = { { WEIR_TEXT("TIME") }, 1 },
        [WEIR_ADVICE_OF_COMMANDS] = { { WEIR_TEXT("EVAL"), weir_advice_script(), WEIR_TEXT("0") },
                                      3 },
    };
    return weir_redis_ask(link, questions[question].arguments, questions[question].count,
                          (enum weir_redis_kind)(WEIR_REDIS_TO_ADVICE + question));
}

void weir_redis_advice_ask(struct weir_redis_link *link)
{
    if (link->advice.has_asked || link->redis->is_silent)
        return;
    const struct weir_clock clock = weir_clock_or_system(NULL);
    link->advice = (struct weir_advice_asked){ .has_asked = true,
                                               .sent_us = weir_clock_now_us(&clock),
                                               .sent_monotonic_us = weir_monotonic_us() };
    unsigned question = 0;
    while (question < WEIR_ADVICE_QUESTIONS && ask_one(link, (enum weir_advice_question)question))
        question++;
}

/* saying */

static void note(struct weir_redis_link *link, enum weir_advice advice,
                 enum weir_advice_finding finding, const char *text)
{
    const struct weir_redis *redis = link->redis;
    if (finding == WEIR_ADVICE_UNKNOWN
        || !weir_voice_advise(redis->voice, link->shown, advice, finding))
        return;
    weir_log_line(&redis->log, advice == WEIR_ADVICE_UNTOLD ? WEIR_INFO : WEIR_WARNING,
                  "Redis at %.*s %s [%s]", SERVER_CHARS, link->shown, text,
                  weir_code_name(weir_advice_code(advice)));
}

static void note_clock(struct weir_redis_link *link, const struct redisReply *reply)
{
    char text[WEIR_ADVICE_BYTES];
    uint64_t took_us = weir_monotonic_us() - link->advice.sent_monotonic_us;
    note(link, WEIR_ADVICE_CLOCK,
         weir_advice_read_clock(reply, link->advice.sent_us, took_us, text), text);
}

void weir_redis_advice_on_reply(struct weir_redis_link *link, enum weir_advice_question question,
                                const struct redisReply *reply)
{
    const char *user = link->redis->url.login.user;
    char text[WEIR_ADVICE_BYTES];
    switch (question) {
    case WEIR_ADVICE_OF_SERVER:
        note(link, WEIR_ADVICE_VERSION, weir_advice_read_version(reply, text), text);
        note(link, WEIR_ADVICE_UNTOLD, weir_advice_read_untold(reply, user, text), text);
        if (link->redis->url.topology == WEIR_REDIS_SINGLE)
            note(link, WEIR_ADVICE_CLUSTER, weir_advice_read_mode(reply, text), text);
        return;
    case WEIR_ADVICE_OF_REPLICATION:
        /* The other topologies find the master by themselves. */
        if (link->redis->url.topology == WEIR_REDIS_SINGLE)
            note(link, WEIR_ADVICE_REPLICA, weir_advice_read_role(reply, text), text);
        return;
    case WEIR_ADVICE_OF_MEMORY:
        note(link, WEIR_ADVICE_EVICTION, weir_advice_read_eviction(reply, text), text);
        return;
    case WEIR_ADVICE_OF_TIME:
        note_clock(link, reply);
        return;
    case WEIR_ADVICE_OF_COMMANDS:
        note(link, WEIR_ADVICE_COMMANDS, weir_advice_read_commands(reply, user, text), text);
        return;
    case WEIR_ADVICE_QUESTIONS:
        return;
    }
}

void weir_redis_advice_on_refusal(struct weir_redis_link *link, const struct weir_check *check)
{
    char text[WEIR_ADVICE_BYTES];
    enum weir_advice advice;
    const struct weir_text key = { check->spends[0].key, check->spends[0].key_length };
    enum weir_advice_finding finding =
        weir_advice_read_refusal(check->why, link->redis->url.login.user, key, &advice, text);
    note(link, advice, finding, text);
}

void weir_redis_advice_on_slots(struct weir_redis_link *link)
{
    char text[WEIR_ADVICE_BYTES];
    if (link->redis->url.topology == WEIR_REDIS_SINGLE)
        note(link, WEIR_ADVICE_CLUSTER, weir_advice_of_slots(text), text);
}
