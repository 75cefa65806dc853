#include "policy/zone_rule.h"

#include "policy/date.h"

#define HOUR_S 3600

/* The largest offset is 24:59:59, which with an hour of daylight time is the largest that RFC 9636
 * section 3.2 lets a file hold. */
#define OFFSET_HOURS_MAX 24
#define MOMENT_HOURS_MAX 167

static bool take_char(struct weir_text *text, char c)
{
    if (text->length == 0 || text->at[0] != c)
        return false;
    text->at++;
    text->length--;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A number of up to three digits, from `least` to `most`. */
static bool take_number(struct weir_text *text, unsigned least, unsigned most, unsigned *number)
{
    unsigned sum = 0, digits = 0;
    while (digits < 3 && digits < text->length && is_digit(text->at[digits]))
        sum = sum * 10 + (unsigned)(text->at[digits++] - '0');
    if (digits == 0 || sum < least || sum > most)
        return false;
    text->at += digits;
    text->length -= digits;
    *number = sum;
    return true;
}

/* "CET", or "<+03>" for a name that is not all letters; at least three characters. */
static bool take_name(struct weir_text *text)
{
    bool is_quoted = take_char(text, '<');
    size_t length = 0;
    while (length < text->length) {
        char c = text->at[length];
        if (!is_letter(c) && !(is_quoted && (is_digit(c) || c == '+' || c == '-')))
            break;
        length++;
    }
    text->at += length;
    text->length -= length;
    return length >= 3 && (!is_quoted || take_char(text, '>'));
}

/* "[+-]hh[:mm[:ss]]" */
static bool take_time(struct weir_text *text, unsigned hours_max, int32_t *seconds)
{
    unsigned hours, minutes = 0, rest = 0;
    bool is_negative = take_char(text, '-');
    if (!is_negative)
        take_char(text, '+');
    if (!take_number(text, 0, hours_max, &hours))
        return false;
    if (take_char(text, ':')) {
        if (!take_number(text, 0, 59, &minutes))
            return false;
        if (take_char(text, ':') && !take_number(text, 0, 59, &rest))
            return false;
    }
    int32_t sum = (int32_t)(hours * HOUR_S + minutes * 60 + rest);
    *seconds = is_negative ? -sum : sum;
    return true;
}

/* POSIX counts westward, we count eastward. */
static bool take_offset(struct weir_text *text, int32_t *ahead_s)
{
    int32_t behind_s;
    if (!take_time(text, OFFSET_HOURS_MAX, &behind_s))
        return false;
    *ahead_s = -behind_s;
    return true;
}

static bool take_day(struct weir_text *text, struct weir_rule_moment *moment)
{
    if (take_char(text, 'J')) {
        moment->form = WEIR_RULE_WITHOUT_LEAP_DAY;
        return take_number(text, 1, 365, &moment->day);
    }
    if (take_char(text, 'M')) {
        moment->form = WEIR_RULE_WEEKDAY;
        return take_number(text, 1, 12, &moment->month) && take_char(text, '.')
               && take_number(text, 1, 5, &moment->week) && take_char(text, '.')
               && take_number(text, 0, 6, &moment->day);
    }
    moment->form = WEIR_RULE_WITH_LEAP_DAY;
    return take_number(text, 0, 365, &moment->day);
}

/* ",date[/time]"; without a time it is 02:00:00. */
static bool take_moment(struct weir_text *text, struct weir_rule_moment *moment)
{
    moment->time_s = 2 * HOUR_S;
    if (!take_char(text, ',') || !take_day(text, moment))
        return false;
    return !take_char(text, '/') || take_time(text, MOMENT_HOURS_MAX, &moment->time_s);
}

bool weir_zone_rule_parse(struct weir_text text, struct weir_zone_rule *rule)
{
    struct weir_zone_rule made = { .has_daylight = false };
    if (!take_name(&text) || !take_offset(&text, &made.standard_s))
        return false;
    if (text.length > 0) {
        made.has_daylight = true;
        made.daylight_s = made.standard_s + HOUR_S;
        if (!take_name(&text)
            || (text.length > 0 && text.at[0] != ',' && !take_offset(&text, &made.daylight_s)))
            return false;
        /* POSIX lets a system choose when daylight time is if it is not said; a file says it. */
        if (!take_moment(&text, &made.start) || !take_moment(&text, &made.end))
            return false;
    }
    if (text.length > 0)
        return false;
    *rule = made;
    return true;
}

/* when */

static int64_t weekday_of_month(int64_t year, const struct weir_rule_moment *moment)
{
    int64_t first = weir_day_of_date((struct weir_date){ year, moment->month, 1 });
    /* Day 0 was a Thursday, the fifth day from Sunday on. */
    int64_t weekday = first + 4 - 7 * weir_divide_down(first + 4, 7);
    int64_t day = first + (7 + moment->day - weekday) % 7 + 7 * (moment->week - 1);
    bool is_past_end = day >= first + weir_days_of_month(year, moment->month);
    return is_past_end ? day - 7 : day;
}

static int64_t day_of(int64_t year, const struct weir_rule_moment *moment)
{
    int64_t new_year = weir_day_of_date((struct weir_date){ year, 1, 1 });
    bool is_behind_leap_day = weir_is_leap_year(year) && moment->day > 31 + 28;
    switch (moment->form) {
    case WEIR_RULE_WITHOUT_LEAP_DAY:
        return new_year + moment->day - (is_behind_leap_day ? 0 : 1);
    case WEIR_RULE_WITH_LEAP_DAY:
        return new_year + moment->day;
    case WEIR_RULE_WEEKDAY:
        return weekday_of_month(year, moment);
    }
    return new_year;
}

static int64_t instant_of(int64_t year, const struct weir_rule_moment *moment, int32_t offset_s)
{
    return day_of(year, moment) * WEIR_DAY_S + moment->time_s - offset_s;
}

void weir_zone_rule_year(const struct weir_zone_rule *rule, int64_t year,
                         struct weir_zone_change changes[2])
{
    struct weir_zone_change start = { instant_of(year, &rule->start, rule->standard_s),
                                      rule->daylight_s };
    struct weir_zone_change end = { instant_of(year, &rule->end, rule->daylight_s),
                                    rule->standard_s };
    /* South of the equator a year ends daylight time before it starts it. */
    bool is_north = start.since_s < end.since_s;
    changes[0] = is_north ? start : end;
    changes[1] = is_north ? end : start;
}
