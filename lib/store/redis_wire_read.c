/* The half of redis_wire.h that reads. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "limit/algorithm.h"
#include "limit/penalty.h"
#include "limit/sliding_log.h"
#include "store/redis_wire.h"

#define TIME_BYTES  8
#define STATE_BYTES 16
#define LOG_BYTES   24

/* Lua's numbers are whole below. */
#define WHOLE_MAX 9007199254740992.0

/* The length of the plain reply: a time, and a number of µs. */
#define PLAIN_BYTES 16

/* errors */

/* Redis before 7 puts the script's hash and line in front of what a command in it met, "ERR Error
 * running script (call to f_…): @user_script:1: @user_script: 1: -OOM command …", which leaves
 * little room. */
static const char *behind_script(const char *text)
{
    static const char mark[] = "@user_script:";
    for (const char *found = text; (found = strstr(found, mark)) != NULL;) {
        found += strlen(mark);
        const char *rest = found + strspn(found, " 0123456789");
        if (rest[0] == ':' && rest[1] == ' ' && rest[2] != '\0')
            text = rest + 2 + (rest[2] == '-');
    }
    return text;
}

/* Redis from 7 on puts them behind it: "OOM command …. script: 6b1b…, on @user_script:52." */
static size_t length_before_script(const char *text)
{
    static const char mark[] = " script: ";
    for (const char *found = text; (found = strstr(found, mark)) != NULL; found++) {
        const char *hash = found + sizeof mark - 1;
        size_t hash_length = strspn(hash, "0123456789abcdef");
        if (hash_length == WEIR_REDIS_HASH_CHARS && strncmp(hash + hash_length, ", on ", 5) == 0)
            return (size_t)(found - text);
    }
    return strlen(text);
}

void weir_redis_read_error(const struct redisReply *reply, char *why, size_t size)
{
    if (reply == NULL || reply->type != REDIS_REPLY_ERROR || reply->str == NULL) {
        snprintf(why, size, "Redis sent what is no answer");
        return;
    }
    const char *text = behind_script(reply->str);
    snprintf(why, size, "%.*s", (int)length_before_script(text), text);
    if (why[0] == '\0')
        snprintf(why, size, "an error without a text");
    for (char *at = why; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7F)
            *at = '?';
}

static bool starts_with(const struct redisReply *error, const char *word)
{
    return error->str != NULL && strncmp(error->str, word, strlen(word)) == 0;
}

/* What Redis says of itself, or of a cluster, where nothing was done. Redis before 7 puts "ERR
 * Error running script …" in front of what a script met. */
static enum weir_redis_meaning meaning_of(const struct redisReply *reply)
{
    static const struct {
        const char *word;
        enum weir_redis_meaning meaning;
    } words[] = {
        { "NOSCRIPT", WEIR_REDIS_NO_SCRIPT },
        { "LOADING", WEIR_REDIS_UNFIT },    /* it reads its data in after a start */
        { "MASTERDOWN", WEIR_REDIS_UNFIT }, /* a replica that has lost its master */
        { "MOVED ", WEIR_REDIS_MOVED },
        { "ASK ", WEIR_REDIS_ASK },
        { "TRYAGAIN", WEIR_REDIS_TRY_AGAIN },
        { "CLUSTERDOWN", WEIR_REDIS_CLUSTER_DOWN },
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (starts_with(reply, words[i].word))
            return words[i].meaning;
    bool is_demoted = reply->str != NULL && strstr(reply->str, "READONLY ") != NULL;
    return is_demoted ? WEIR_REDIS_UNFIT : WEIR_REDIS_REFUSED;
}

static enum weir_redis_meaning read_refusal(const struct redisReply *reply,
                                            struct weir_check *check)
{
    enum weir_redis_meaning meaning = meaning_of(reply);
    if (meaning != WEIR_REDIS_NO_SCRIPT)
        weir_redis_read_error(reply, check->why, sizeof check->why);
    return meaning;
}

/* bytes */

static double read_double(const char *bytes)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof bits; i++)
        bits |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static uint32_t read_unsigned(const char *bytes)
{
    uint32_t number = 0;
    for (size_t i = 0; i < sizeof number; i++)
        number |= (uint32_t)(unsigned char)bytes[i] << (8 * i);
    return number;
}

/* False: a fraction, below zero, too large, or no number at all. */
static bool to_whole(double number, uint64_t *whole)
{
    if (!(number >= 0 && number < WHOLE_MAX))
        return false;
    *whole = (uint64_t)number;
    return (double)*whole == number;
}

/* What no decision can have written counts as a new key, here as in the script. */
static struct weir_state read_state(const char *bytes)
{
    struct weir_state state = { .low = read_unsigned(bytes + 8),
                                .high = read_unsigned(bytes + 12) };
    bool is_blocked = state.high == WEIR_HIGH_BLOCKED;
    bool is_in_range = is_blocked || (state.low <= WEIR_UNITS_MAX && state.high <= WEIR_UNITS_MAX);
    if (!to_whole(read_double(bytes), &state.first) || !is_in_range)
        return (struct weir_state){ 0 };
    return state;
}

/* What the script found, as far as an answer rests on it. */
struct found {
    uint64_t now_us;
    bool was_refused;
    const char *states[WEIR_CHECK_LIMITS]; /* each limit's, in the reply */
};

/* The units in a log, or -1 for a blocked one, and two times. */
static bool read_log(const char *bytes, const struct weir_spend *spend, struct weir_answer *answer)
{
    double units_or_blocked = read_double(bytes);
    uint64_t units = 0, left_us, retry_us;
    if (!to_whole(read_double(bytes + 8), &left_us)
        || !to_whole(read_double(bytes + 16), &retry_us))
        return false;
    bool is_blocked = units_or_blocked < 0;
    if (!is_blocked && !to_whole(units_or_blocked, &units))
        return false;
    if (is_blocked)
        *answer = weir_answer_blocked(spend, left_us);
    else
        *answer = weir_sliding_log_answer(spend, units, retry_us, left_us);
    return is_blocked || left_us <= spend->rate.window_us;
}

/* penalties */

static bool is_penalty(const struct weir_check *check, size_t index)
{
    return index < check->count && check->spends[index].algorithm == WEIR_PENALTY;
}

static bool is_blocked(const struct found *found, const struct weir_check *check, size_t index)
{
    if (check->spends[index].algorithm == WEIR_SLIDING_LOG)
        return read_double(found->states[index]) < 0;
    const struct weir_state state = read_state(found->states[index]);
    return state.high == WEIR_HIGH_BLOCKED && found->now_us < state.first;
}

static void read_penalty(const struct found *found, struct weir_check *check, size_t index)
{
    enum weir_attempt attempt = weir_attempt_of(
        &check->spends[index - 1], &check->answers[index - 1], is_blocked(found, check, index - 1));
    check->answers[index] =
        weir_penalty_decide(&check->spends[index], read_state(found->states[index]), found->now_us,
                            attempt)
            .answer;
}

/* A limit as it is to be decided: during a ban it logs no refusal, for which there is `memory`. */
static const struct weir_spend *spend_at(const struct found *found, const struct weir_check *check,
                                         size_t index, struct weir_spend *memory)
{
    const struct weir_spend *spend = &check->spends[index];
    if (!spend->logs_refusals || !is_penalty(check, index + 1)
        || !weir_penalty_bans(spend + 1, read_state(found->states[index + 1]), found->now_us))
        return spend;
    *memory = *spend;
    memory->logs_refusals = false;
    return memory;
}

/* False: no script can have said so. */
static bool read_answer(const struct found *found, const struct weir_spend *spend, size_t index,
                        struct weir_answer *answer)
{
    if (spend->algorithm == WEIR_SLIDING_LOG)
        return read_log(found->states[index], spend, answer);
    *answer = weir_decide(spend, read_state(found->states[index]), found->now_us).answer;
    return true;
}

/* the bulk string of a check */

/* Each key's states stand together, in the order of the limits. */
static size_t find_states(const struct weir_redis_shape *shape, const char *reply,
                          struct found *found)
{
    size_t at = TIME_BYTES;
    for (size_t key = 0; key < shape->key_count; key++)
        for (size_t i = 0; i < shape->count; i++) {
            if (shape->key_of[i] != key)
                continue;
            found->states[i] = reply + at;
            at += shape->places[key] == WEIR_REDIS_RING ? LOG_BYTES : STATE_BYTES;
        }
    return at;
}

static bool answer_all(const struct found *found, struct weir_check *check, bool *allowed)
{
    *allowed = true;
    for (size_t i = 0; i < check->count; i++) {
        struct weir_spend memory;
        const struct weir_spend *spend = spend_at(found, check, i, &memory);
        if (is_penalty(check, i))
            read_penalty(found, check, i);
        else if (!read_answer(found, spend, i, &check->answers[i]))
            return false;
        *allowed = *allowed && check->answers[i].allowed;
    }
    return true;
}

/* Where one limit refused, the others have spent nothing, and say what they hold. A penalty has
 * nothing to take back. */
static void take_back(const struct found *found, struct weir_check *check)
{
    for (size_t i = 0; i < check->count; i++) {
        struct weir_spend look = check->spends[i];
        look.cost = 0;
        if (check->answers[i].allowed && !is_penalty(check, i))
            read_answer(found, &look, i, &check->answers[i]);
    }
}

/* The time goes ahead of all, negative when a limit refused. */
static bool read_time(const char *bytes, struct found *found)
{
    double now = read_double(bytes);
    found->was_refused = now < 0;
    return to_whole(now < 0 ? -now : now, &found->now_us) && found->now_us > 0;
}

static enum weir_redis_meaning refused(struct weir_check *check, const char *why)
{
    snprintf(check->why, sizeof check->why, "%s", why);
    return WEIR_REDIS_REFUSED;
}

static enum weir_redis_meaning no_answer(struct weir_check *check)
{
    weir_redis_read_error(NULL, check->why, sizeof check->why);
    return WEIR_REDIS_REFUSED;
}

static enum weir_redis_meaning read_decision(const struct redisReply *reply,
                                             const struct weir_redis_shape *shape,
                                             struct weir_check *check)
{
    struct found found;
    bool allowed;
    if (find_states(shape, reply->str, &found) != (size_t)reply->len
        || !read_time(reply->str, &found) || !answer_all(&found, check, &allowed))
        return no_answer(check);
    if (allowed == found.was_refused)
        return refused(check, "the script and the library disagree");
    if (!allowed)
        take_back(&found, check);
    check->now_us = found.now_us;
    return WEIR_REDIS_DECIDED;
}

/* A lone limit's time in use, or below zero that for which it is blocked. */
static enum weir_redis_meaning read_used(const struct redisReply *reply, struct weir_check *check)
{
    const struct weir_spend *spend = &check->spends[0];
    struct found found;
    if (reply->len != PLAIN_BYTES || !read_time(reply->str, &found) || found.was_refused)
        return no_answer(check);
    double used = read_double(reply->str + TIME_BYTES);
    bool is_blocked = used < 0;
    uint64_t us;
    if (!to_whole(is_blocked ? -used : used, &us)
        || (!is_blocked && us > spend->rate.burst * spend->rate.interval_us))
        return no_answer(check);
    const struct weir_state state = { .first = found.now_us + us,
                                      .high = is_blocked ? WEIR_HIGH_BLOCKED : 0 };
    check->answers[0] = weir_decide(spend, state, found.now_us).answer;
    check->now_us = found.now_us;
    return WEIR_REDIS_DECIDED;
}

static enum weir_redis_meaning read_exchange(const struct redisReply *reply,
                                             struct weir_check *check)
{
    struct found found;
    struct weir_exchange *exchange = check->exchange;
    size_t length = reply->type == REDIS_REPLY_STRING ? (size_t)reply->len : 0;
    if (length < TIME_BYTES || !read_time(reply->str, &found) || found.was_refused)
        return no_answer(check);
    if (length - TIME_BYTES > WEIR_TEXT_BYTES_MAX)
        return refused(check, "a text is kept that is too long");
    exchange->found_length = length - TIME_BYTES;
    memcpy(exchange->found, reply->str + TIME_BYTES, exchange->found_length);
    check->now_us = found.now_us;
    return WEIR_REDIS_DECIDED;
}

static enum weir_redis_meaning read_reply(const struct redisReply *reply, struct weir_check *check)
{
    bool is_done = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    if (check->operation == WEIR_EXCHANGE)
        return read_exchange(reply, check);
    if (check->operation != WEIR_SPEND)
        return is_done ? WEIR_REDIS_DECIDED : no_answer(check);
    if (reply->type != REDIS_REPLY_STRING)
        return no_answer(check);
    struct weir_redis_plan plan;
    weir_redis_plan_make(&plan, check);
    return plan.shape.is_plain ? read_used(reply, check) : read_decision(reply, &plan.shape, check);
}

enum weir_redis_meaning weir_redis_read_answer(const struct redisReply *reply,
                                               struct weir_check *check)
{
    if (reply == NULL)
        return no_answer(check);
    return reply->type == REDIS_REPLY_ERROR ? read_refusal(reply, check) : read_reply(reply, check);
}

bool weir_redis_read_hash(const struct redisReply *reply, char hash[WEIR_REDIS_HASH_CHARS + 1])
{
    if (reply == NULL || reply->type != REDIS_REPLY_STRING
        || strlen(reply->str) != WEIR_REDIS_HASH_CHARS
        || strspn(reply->str, "0123456789abcdef") != WEIR_REDIS_HASH_CHARS)
        return false;
    memcpy(hash, reply->str, WEIR_REDIS_HASH_CHARS + 1);
    return true;
}
