#include "observe/decision_text.h"

#include <time.h>

enum weir_level weir_decision_level(const struct weir_decision *decision)
{
    bool has_failed = decision->failure != NULL || decision->outcome == WEIR_FAILED_OPEN
                      || decision->outcome == WEIR_FAILED_CLOSED;
    return has_failed ? WEIR_WARNING : WEIR_INFO;
}

/* the texts of a decision */

enum text {
    METHOD,
    PATH,
    POLICY,
    LIMIT,
    CLIENT,
    FAILURE,
    WHY,
    INSTANCE,
    REQUEST_ID,
    TRACEPARENT,
    KEY,
    SOURCE,
    ADDRESS
};

static const struct {
    const char *name; /* of the member */
    size_t offset;
    size_t most; /* bytes that are kept and written */
} texts[] = {
    [METHOD] = { "method", offsetof(struct weir_decision, method), 32 },
    [PATH] = { "path", offsetof(struct weir_decision, path), 256 },
    [POLICY] = { "policy", offsetof(struct weir_decision, policy), 64 },
    [LIMIT] = { "limit", offsetof(struct weir_decision, limit), 64 },
    [CLIENT] = { "client", offsetof(struct weir_decision, client), 128 },
    [FAILURE] = { "failure", offsetof(struct weir_decision, failure), 16 },
    [WHY] = { "why", offsetof(struct weir_decision, why), 64 },
    [INSTANCE] = { "instance", offsetof(struct weir_decision, instance), 64 },
    [REQUEST_ID] = { "request_id", offsetof(struct weir_decision, request_id), 128 },
    [TRACEPARENT] = { "traceparent", offsetof(struct weir_decision, traceparent), 64 },
    [KEY] = { "key", offsetof(struct weir_decision, key), 256 },
    [SOURCE] = { "source", offsetof(struct weir_decision, source), 16 },
    [ADDRESS] = { "address", offsetof(struct weir_decision, address), 64 },
};

#define TEXT_COUNT (sizeof texts / sizeof texts[0])

static const char *get_text(const struct weir_decision *decision, size_t which)
{
    const char *text;
    memcpy(&text, (const char *)decision + texts[which].offset, sizeof text);
    return text;
}

static void set_text(struct weir_decision *decision, size_t which, const char *text)
{
    memcpy((char *)decision + texts[which].offset, &text, sizeof text);
}

#define CUT       "..."
#define CUT_BYTES 3

/* At most so many bytes, and no part of a character of UTF-8; one that was cut before stays as it is. */
static size_t cut_length(const char *text, size_t most)
{
    size_t length = strnlen(text, most + CUT_BYTES + 1);
    if (length <= most
        || (length <= most + CUT_BYTES && strcmp(text + length - CUT_BYTES, CUT) == 0))
        return length;
    length = most;
    for (int i = 0; i < 3 && length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80; i++)
        length--;
    return length;
}

void weir_decision_copy(struct weir_recent_decision *copy, const struct weir_decision *decision)
{
    struct weir_buffer room = weir_buffer_init(copy->texts, sizeof copy->texts);
    copy->decision = *decision;
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        const char *text = get_text(decision, i);
        if (text == NULL)
            continue;
        size_t length = cut_length(text, texts[i].most);
        set_text(&copy->decision, i, room.at + room.length);
        weir_buffer_put(&room, (struct weir_text){ text, length });
        if (text[length] != '\0')
            weir_buffer_put_string(&room, CUT);
        weir_buffer_put_char(&room, '\0');
    }
}

/* as JSON */

static void put_digits(struct weir_buffer *json, unsigned number, unsigned count)
{
    char digits[8];
    for (unsigned i = count; i-- > 0; number /= 10)
        digits[i] = (char)('0' + number % 10);
    weir_buffer_put(json, (struct weir_text){ digits, count });
}

void weir_put_time(struct weir_buffer *json, uint64_t time_us)
{
    struct tm utc;
    const time_t seconds = (time_t)(time_us / 1000000);
    if (gmtime_r(&seconds, &utc) == NULL)
        utc = (struct tm){ .tm_mday = 1 };
    const struct {
        unsigned number, digits;
        char end;
    } parts[] = {
        { (unsigned)(utc.tm_year + 1900) % 10000, 4, '-' },
        { (unsigned)utc.tm_mon + 1, 2, '-' },
        { (unsigned)utc.tm_mday, 2, 'T' },
        { (unsigned)utc.tm_hour, 2, ':' },
        { (unsigned)utc.tm_min, 2, ':' },
        { (unsigned)utc.tm_sec, 2, '.' },
        { (unsigned)(time_us / 1000 % 1000), 3, 'Z' },
    };
    weir_buffer_put_char(json, '"');
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        put_digits(json, parts[i].number, parts[i].digits);
        weir_buffer_put_char(json, parts[i].end);
    }
    weir_buffer_put_char(json, '"');
}

static void put_name(struct weir_buffer *json, const char *name)
{
    weir_buffer_put_string(json, ",\"");
    weir_buffer_put_string(json, name);
    weir_buffer_put_string(json, "\":");
}

void weir_put_member(struct weir_buffer *json, const char *name, const char *text, size_t most)
{
    if (text == NULL)
        return;
    size_t length = cut_length(text, most);
    put_name(json, name);
    weir_buffer_put_char(json, '"');
    weir_buffer_put_json(json, (struct weir_text){ text, length });
    weir_buffer_put_string(json, text[length] == '\0' ? "\"" : CUT "\"");
}

static void put_texts(struct weir_buffer *json, const struct weir_decision *decision,
                      enum text first, enum text last)
{
    for (size_t i = first; i <= last; i++)
        weir_put_member(json, texts[i].name, get_text(decision, i), texts[i].most);
}

static void put_number(struct weir_buffer *json, const char *name, uint64_t number)
{
    put_name(json, name);
    weir_buffer_put_number(json, number);
}

static void put_flag(struct weir_buffer *json, const char *name, bool is_set)
{
    if (!is_set)
        return;
    put_name(json, name);
    weir_buffer_put_string(json, "true");
}

/* What became of it, and what it would have been. */
static void put_outcome(struct weir_buffer *json, const struct weir_decision *decision)
{
    weir_put_member(json, "decision", weir_outcome_name(decision->outcome), 32);
    put_flag(json, "shadow", decision->shadow);
    if (decision->would != decision->outcome)
        weir_put_member(json, "would", weir_outcome_name(decision->would), 32);
    if (decision->status > 0)
        put_number(json, decision->shadow ? "would_status" : "status", decision->status);
    put_flag(json, "by_memory", decision->by_memory);
}

static void put_numbers(struct weir_buffer *json, const struct weir_decision *decision)
{
    put_number(json, "cost", decision->cost);
    if (decision->window_s > 0) {
        put_number(json, "quota", decision->quota);
        put_number(json, "remaining", decision->remaining);
        put_number(json, "window_s", decision->window_s);
        put_number(json, "reset_s", decision->reset_s);
    }
    if (decision->retry_s > 0)
        put_number(json, "retry_s", decision->retry_s);
    if (decision->retry_us > 0)
        put_number(json, "retry_us", decision->retry_us);
}

void weir_decision_put(struct weir_buffer *json, const struct weir_decision *decision)
{
    const char *level = weir_decision_level(decision) == WEIR_WARNING ? "warning" : "info";
    weir_buffer_put_string(json, "\"time\":");
    weir_put_time(json, decision->time_us);
    weir_put_member(json, "level", level, 16);
    put_outcome(json, decision);
    put_texts(json, decision, POLICY, LIMIT);
    put_texts(json, decision, KEY, KEY);
    put_texts(json, decision, CLIENT, CLIENT);
    put_texts(json, decision, ADDRESS, ADDRESS);
    put_texts(json, decision, METHOD, PATH);
    put_numbers(json, decision);
    put_texts(json, decision, FAILURE, WHY);
    put_texts(json, decision, SOURCE, SOURCE);
    put_texts(json, decision, REQUEST_ID, TRACEPARENT);
    put_texts(json, decision, INSTANCE, INSTANCE);
    if (decision->generation > 0)
        put_number(json, "generation", decision->generation);
    put_number(json, "count", decision->count);
}

size_t weir_decision_json(const struct weir_decision *decision, char *json, size_t size)
{
    if (size == 0)
        return SIZE_MAX;
    struct weir_buffer buffer = weir_buffer_init(json, size);
    weir_decision_put(&buffer, decision);
    return weir_buffer_string(&buffer) == NULL ? SIZE_MAX : buffer.length;
}
