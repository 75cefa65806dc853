#include "store/redis_wire.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "limit/algorithm.h"
#include "limit/fixed_window.h"
#include "limit/gcra.h"

/* Lua's numbers are whole up to 2^53, and the time of day is below 2^51 µs until the year 2041
 * and below 2^52 until 2112: a capacity of this much always fits beside it. */
#define CAPACITY_MAX_US WEIR_BURST_MAX_US

/* EVALSHA, script, number of keys, 8 keys, 8 times a name and 5 numbers, the time. */
#define ARGUMENTS_MAX (3 + WEIR_CHECK_LIMITS + 6 * WEIR_CHECK_LIMITS + 1)

/* writing */

void weir_redis_write_command(struct weir_buffer *out, const struct weir_text *arguments,
                              size_t count)
{
    weir_buffer_put_char(out, '*');
    weir_buffer_put_number(out, count);
    weir_buffer_put_string(out, "\r\n");
    for (size_t i = 0; i < count; i++) {
        weir_buffer_put_char(out, '$');
        weir_buffer_put_number(out, arguments[i].length);
        weir_buffer_put_string(out, "\r\n");
        weir_buffer_put(out, arguments[i]);
        weir_buffer_put_string(out, "\r\n");
    }
}

/* Arguments under way, with room for the digits of the numbers among them. */
struct arguments {
    struct weir_text items[ARGUMENTS_MAX];
    size_t count;
    struct weir_buffer digits;
    char memory[ARGUMENTS_MAX * 20];
};

static void put_text(struct arguments *arguments, struct weir_text text)
{
    arguments->items[arguments->count++] = text;
}

static void put_number(struct arguments *arguments, uint64_t number)
{
    size_t before = arguments->digits.length;
    weir_buffer_put_number(&arguments->digits, number);
    put_text(arguments, (struct weir_text){ arguments->digits.at + before,
                                            arguments->digits.length - before });
}

/* The time that a cost takes; of one that can never fit, a little more than there is. */
static struct weir_span span_of_cost(const struct weir_spend *spend, struct weir_span capacity)
{
    if (spend->cost <= spend->rate.burst)
        return weir_gcra_span(&spend->rate, spend->cost);
    return (struct weir_span){ capacity.us + 1, 0 };
}

static void put_gcra(struct arguments *arguments, const struct weir_spend *spend)
{
    struct weir_span capacity = weir_gcra_span(&spend->rate, spend->rate.burst);
    struct weir_span cost = span_of_cost(spend, capacity);
    bool has_parts = spend->rate.parts > 1;
    put_text(arguments, has_parts ? WEIR_TEXT("gcra-parts") : WEIR_TEXT("gcra"));
    put_number(arguments, capacity.us);
    put_number(arguments, cost.us);
    if (!has_parts)
        return;
    put_number(arguments, capacity.part);
    put_number(arguments, cost.part);
    put_number(arguments, spend->rate.parts);
}

static void put_window(struct arguments *arguments, const struct weir_spend *spend)
{
    put_text(arguments, spend->from_first ? WEIR_TEXT("window-first") : WEIR_TEXT("window"));
    put_number(arguments, spend->rate.limit);
    put_number(arguments, spend->rate.window_us);
    put_number(arguments, spend->cost);
}

static void put_spend(struct arguments *arguments, const struct weir_spend *spend)
{
    if (spend->rate.limit == 0) {
        put_text(arguments, WEIR_TEXT("zero"));
        put_number(arguments, spend->cost);
    } else if (spend->algorithm == WEIR_GCRA) {
        put_gcra(arguments, spend);
    } else {
        put_window(arguments, spend);
    }
}

const char *weir_redis_fault(const struct weir_check *check)
{
    const char *fault = weir_check_fault(check);
    for (size_t i = 0; fault == NULL && i < check->count; i++)
        if (check->spends[i].algorithm == WEIR_GCRA
            && weir_gcra_span(&check->spends[i].rate, check->spends[i].rate.burst).us
                   > CAPACITY_MAX_US)
            fault = "a limit takes too long to fill";
    return fault;
}

void weir_redis_write_check(struct weir_buffer *out, const struct weir_redis_script *script,
                            enum weir_redis_by by, const uint64_t *now_us,
                            const struct weir_check *check)
{
    struct arguments arguments;
    arguments.count = 0;
    arguments.digits = weir_buffer_init(arguments.memory, sizeof arguments.memory);
    bool by_hash = by == WEIR_REDIS_BY_HASH;
    put_text(&arguments, by_hash ? WEIR_TEXT("EVALSHA") : WEIR_TEXT("EVAL"));
    put_text(&arguments, weir_text_from(by_hash ? script->hash : script->text));
    put_number(&arguments, check->count);
    for (size_t i = 0; i < check->count; i++)
        put_text(&arguments,
                 (struct weir_text){ check->spends[i].key, check->spends[i].key_length });
    for (size_t i = 0; i < check->count; i++)
        put_spend(&arguments, &check->spends[i]);
    if (now_us != NULL)
        put_number(&arguments, *now_us);
    weir_redis_write_command(out, arguments.items, arguments.count);
}

/* reading */

void weir_redis_read_error(const struct redisReply *reply, char *why, size_t size)
{
    if (reply == NULL || reply->type != REDIS_REPLY_ERROR || reply->str == NULL) {
        snprintf(why, size, "Redis sent what is no answer");
        return;
    }
    snprintf(why, size, "%s", reply->str);
    for (char *at = why; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7F)
            *at = '?';
}

static bool starts_with(const struct redisReply *error, const char *word)
{
    return error->str != NULL && strncmp(error->str, word, strlen(word)) == 0;
}

static enum weir_redis_meaning read_refusal(const struct redisReply *reply,
                                            struct weir_check *check)
{
    if (starts_with(reply, "NOSCRIPT"))
        return WEIR_REDIS_NO_SCRIPT;
    weir_redis_read_error(reply, check->why, sizeof check->why);
    /* A master that was demoted, and a server that reads its data in after a start. Redis before 7
     * puts "ERR Error running script …" in front of what a script met. */
    bool is_unfit = starts_with(reply, "LOADING")
                    || (reply->str != NULL && strstr(reply->str, "READONLY ") != NULL);
    return is_unfit ? WEIR_REDIS_UNFIT : WEIR_REDIS_REFUSED;
}

/* Two numbers of one limit, which must be what the script can have said. */
static bool read_limit(const struct weir_spend *spend, uint64_t first, uint64_t second,
                       uint64_t cost, struct weir_answer *answer)
{
    const struct weir_rate *rate = &spend->rate;
    if (rate->limit == 0) {
        *answer = weir_gcra_answer(rate, (struct weir_span){ 0 }, cost);
        return first == 0 && second == 0;
    }
    if (spend->algorithm == WEIR_FIXED_WINDOW) {
        if (first > rate->limit || second == 0 || second > rate->window_us)
            return false;
        *answer = weir_fixed_window_answer(rate, first, second, cost);
        return true;
    }

    struct weir_span used = { first, second };
    struct weir_span most = weir_gcra_span(rate, rate->burst);
    if (second >= rate->parts || first > most.us || (first == most.us && second > most.part))
        return false;
    *answer = weir_gcra_answer(rate, used, cost);
    return true;
}

static bool is_number(const struct redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0;
}

/* The numbers of one limit in an array of two for each. */
static bool read_element(const struct redisReply *reply, struct weir_check *check, size_t index,
                         uint64_t cost)
{
    const struct redisReply *first = reply->element[2 * index];
    const struct redisReply *second = reply->element[2 * index + 1];
    return is_number(first) && is_number(second)
           && read_limit(&check->spends[index], (uint64_t)first->integer, (uint64_t)second->integer,
                         cost, &check->answers[index]);
}

/* Where one limit refused, the others have spent nothing, and say what they hold. */
static void take_back(const struct redisReply *reply, struct weir_check *check)
{
    bool allowed = true;
    for (size_t i = 0; i < check->count; i++)
        allowed = allowed && check->answers[i].allowed;
    for (size_t i = 0; i < check->count && !allowed; i++)
        if (check->answers[i].allowed)
            read_element(reply, check, i, 0);
}

static bool read_limits(const struct redisReply *reply, struct weir_check *check)
{
    if (is_number(reply))
        return check->count == 1
               && read_limit(&check->spends[0], (uint64_t)reply->integer, 0, check->spends[0].cost,
                             &check->answers[0]);

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 * check->count)
        return false;
    for (size_t i = 0; i < check->count; i++)
        if (!read_element(reply, check, i, check->spends[i].cost))
            return false;
    take_back(reply, check);
    return true;
}

enum weir_redis_meaning weir_redis_read_answer(const struct redisReply *reply,
                                               struct weir_check *check)
{
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR)
        return read_refusal(reply, check);
    if (reply != NULL && read_limits(reply, check))
        return WEIR_REDIS_DECIDED;
    weir_redis_read_error(NULL, check->why, sizeof check->why);
    return WEIR_REDIS_REFUSED;
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
