#include "headers/ratelimit.h"

#include <weir/store.h>

#include "base/order.h"
#include "headers/structured_field.h"
#include "policy/policy.h"

#define US_PER_S         UINT64_C(1000000)
#define LONGEST_WINDOW_S (WEIR_WINDOW_MAX_US / US_PER_S)

uint64_t weir_seconds_up(uint64_t us)
{
    return us / US_PER_S + (us % US_PER_S > 0);
}

/* One limit in the numbers that go out: whole seconds, and nothing that is no Integer. */
struct shown {
    const struct weir_quota_field *limit;
    uint64_t quota;
    uint64_t window_s; /* ≥ 1: "non-negative, non-zero" since draft-09 */
    uint64_t remaining;
    uint64_t after_s;
};

static uint64_t seconds_shown(uint64_t us, uint64_t least)
{
    uint64_t seconds = weir_smaller(weir_seconds_up(us), WEIR_FIELD_INTEGER_MAX);
    return seconds < least ? least : seconds;
}

/* What the quota's pace allows in the time that is left, at least 1: a client that spends r within
 * t is then never faster than q within w (draft-11, section 8). */
static uint64_t share_of_window(const struct shown *shown)
{
    if (shown->after_s >= shown->window_s || shown->window_s > LONGEST_WINDOW_S)
        return shown->quota;

    uint64_t after_s = shown->after_s == 0 ? 1 : shown->after_s;
    /* quota · after / window in two parts, neither of which can overflow: the first is at most the
     * quota, and in the second both factors are below the longest window. */
    uint64_t share = shown->quota / shown->window_s * after_s
                     + shown->quota % shown->window_s * after_s / shown->window_s;
    return share == 0 ? 1 : share;
}

static struct shown show(const struct weir_quota_field *limit, bool clamp)
{
    struct shown shown = {
        .limit = limit,
        .quota = weir_smaller(limit->quota, WEIR_FIELD_INTEGER_MAX),
        .window_s = seconds_shown(limit->window_us, 1),
        .after_s = seconds_shown(limit->after_us, 0),
    };
    shown.remaining = weir_smaller(limit->remaining, shown.quota);
    if (clamp)
        shown.remaining = weir_smaller(shown.remaining, share_of_window(&shown));
    return shown;
}

/* Whether `one` tells a client with room for a single limit more than `other` does. */
static bool matters_more(const struct shown *one, const struct shown *other)
{
    if (one->limit->refused != other->limit->refused)
        return one->limit->refused;
    if (one->limit->refused && one->limit->after_us != other->limit->after_us)
        return one->limit->after_us > other->limit->after_us;
    if (one->remaining != other->remaining)
        return one->remaining < other->remaining;
    return one->limit->window_us > other->limit->window_us;
}

/* Of those that are about a window; NULL: none is. */
static const struct shown *most_telling(const struct shown *shown, size_t count)
{
    const struct shown *most = NULL;
    for (size_t i = 0; i < count; i++)
        if (shown[i].limit->unit == NULL && (most == NULL || matters_more(&shown[i], most)))
            most = &shown[i];
    return most;
}

struct writer {
    struct weir_buffer *memory;
    struct weir_field_line *lines;
    size_t count;
    bool unfit; /* something cannot stand in a field */
};

static void begin_line(struct writer *writer, const char *name)
{
    writer->lines[writer->count++] = (struct weir_field_line){
        .name = name,
        .value = writer->memory->at + writer->memory->length,
    };
}

static void end_line(struct writer *writer)
{
    weir_buffer_put_char(writer->memory, '\0');
}

static void put_integer(struct writer *writer, const char *before, uint64_t number)
{
    weir_buffer_put_string(writer->memory, before);
    if (!weir_field_put_integer(writer->memory, number))
        writer->unfit = true;
}

static void put_comma(struct writer *writer, size_t index)
{
    if (index > 0)
        weir_buffer_put_string(writer->memory, ", ");
}

static void put_name(struct writer *writer, const char *name)
{
    if (!weir_field_put_string(writer->memory, weir_text_from(name)))
        writer->unfit = true;
}

static void integer_line(struct writer *writer, const char *name, uint64_t number)
{
    begin_line(writer, name);
    put_integer(writer, "", number);
    end_line(writer);
}

static void put_unit(struct writer *writer, const char *unit)
{
    weir_buffer_put_string(writer->memory, ";qu=");
    if (!weir_field_put_string(writer->memory, weir_text_from(unit)))
        writer->unfit = true;
}

static void put_policy_item(struct writer *writer, const struct shown *shown)
{
    put_name(writer, shown->limit->name);
    put_integer(writer, ";q=", shown->quota);
    if (shown->limit->unit == NULL)
        put_integer(writer, ";w=", shown->window_s);
    else
        put_unit(writer, shown->limit->unit);
}

static void put_item_head(struct writer *writer, const struct shown *shown)
{
    put_name(writer, shown->limit->name);
    weir_buffer_put_string(writer->memory, ";r=");
}

static void write_draft_11_policy(struct writer *writer, const struct shown *shown, size_t count)
{
    begin_line(writer, "RateLimit-Policy");
    for (size_t i = 0; i < count; i++) {
        put_comma(writer, i);
        if (shown[i].limit->policy_item.at != NULL)
            weir_buffer_put(writer->memory, shown[i].limit->policy_item);
        else
            put_policy_item(writer, &shown[i]);
    }
    end_line(writer);
}

static void write_draft_11(struct writer *writer, const struct shown *shown, size_t count)
{
    size_t index = 0;
    begin_line(writer, "RateLimit");
    for (size_t i = 0; i < count; i++) {
        if (shown[i].limit->unit != NULL)
            continue;
        put_comma(writer, index++);
        if (shown[i].limit->item_head.at != NULL)
            weir_buffer_put(writer->memory, shown[i].limit->item_head);
        else
            put_item_head(writer, &shown[i]);
        weir_buffer_put_number(writer->memory, shown[i].remaining);
        weir_buffer_put_string(writer->memory, ";t=");
        weir_buffer_put_number(writer->memory, shown[i].after_s);
    }
    end_line(writer);
}

bool weir_ratelimit_prepare(const struct weir_quota_field *limit, struct weir_buffer *policy_item,
                            struct weir_buffer *item_head)
{
    const struct shown shown = show(limit, false);
    struct writer policy = { .memory = policy_item }, head = { .memory = item_head };
    put_policy_item(&policy, &shown);
    put_item_head(&head, &shown);
    return !policy.unfit && !head.unfit && !policy_item->full && !item_head->full;
}

/* The same in drafts 04 to 07. */
static void write_older_policy(struct writer *writer, const struct shown *shown)
{
    begin_line(writer, "RateLimit-Policy");
    put_integer(writer, "", shown->quota);
    put_integer(writer, ";w=", shown->window_s);
    end_line(writer);
}

static void write_draft_7(struct writer *writer, const struct shown *shown)
{
    begin_line(writer, "RateLimit");
    put_integer(writer, "limit=", shown->quota);
    put_integer(writer, ", remaining=", shown->remaining);
    put_integer(writer, ", reset=", shown->after_s);
    end_line(writer);
}

static void write_draft_6(struct writer *writer, const struct shown *shown)
{
    integer_line(writer, "RateLimit-Limit", shown->quota);
    integer_line(writer, "RateLimit-Remaining", shown->remaining);
    integer_line(writer, "RateLimit-Reset", shown->after_s);
}

static void write_legacy(struct writer *writer, const struct shown *shown, uint64_t now_us)
{
    uint64_t after_us = weir_smaller(shown->limit->after_us, UINT64_MAX - now_us);
    integer_line(writer, "X-RateLimit-Limit", shown->quota);
    integer_line(writer, "X-RateLimit-Remaining", shown->remaining);
    integer_line(writer, "X-RateLimit-Reset", seconds_shown(now_us + after_us, 0));
}

/* A field name has one syntax in a response. Drafts 6 and 7 agree on RateLimit-Policy, draft-11
 * does not, and not on RateLimit either: a parser drops a field that mixes the two (RFC 9651
 * section 4.2), so the newest form that is asked for has the name to itself. */
static void write_forms(struct writer *writer, unsigned forms, const struct shown *shown,
                        size_t count, uint64_t now_us)
{
    const struct shown *one = most_telling(shown, count);
    if ((forms & WEIR_HEADERS_DRAFT_11) != 0)
        write_draft_11_policy(writer, shown, count);
    if (one == NULL)
        return;
    if ((forms & WEIR_HEADERS_DRAFT_11) != 0)
        write_draft_11(writer, shown, count);
    else if ((forms & (WEIR_HEADERS_DRAFT_7 | WEIR_HEADERS_DRAFT_6)) != 0)
        write_older_policy(writer, one);

    if ((forms & WEIR_HEADERS_DRAFT_7) != 0 && (forms & WEIR_HEADERS_DRAFT_11) == 0)
        write_draft_7(writer, one);
    if ((forms & WEIR_HEADERS_DRAFT_6) != 0)
        write_draft_6(writer, one);
    if ((forms & WEIR_HEADERS_LEGACY) != 0)
        write_legacy(writer, one, now_us);
}

size_t weir_ratelimit_lines(unsigned forms, bool clamp, const struct weir_quota_field *limits,
                            size_t count, uint64_t now_us, struct weir_buffer *memory,
                            struct weir_field_line lines[WEIR_FIELD_LINES_MAX])
{
    if (count == 0 || count > WEIR_FIELDS_SHOWN_MAX)
        return 0;

    struct shown shown[WEIR_FIELDS_SHOWN_MAX];
    for (size_t i = 0; i < count; i++)
        shown[i] = show(&limits[i], clamp);

    struct writer writer = { .memory = memory, .lines = lines };
    write_forms(&writer, forms, shown, count, now_us);
    return writer.unfit || memory->full ? 0 : writer.count;
}
