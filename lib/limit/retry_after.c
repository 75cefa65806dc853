/* Retry-After as a client reads it. */
#include <weir/backoff.h>
#include <weir/store.h>

#include "base/text.h"
#include "policy/date.h"

#define SECOND_US UINT64_C(1000000)

/* A date of RFC 9110, section 5.6.7, as its parts. */
struct parts {
    struct weir_date date;
    unsigned hour, minute, second;
    bool has_short_year;
};

/* What stands for a part in the forms below, as in strptime(3), which would heed the locale and take
 * much that is no date. */
#define WEEKDAY      'a'
#define LONG_WEEKDAY 'A'
#define DAY          'd'
#define PADDED_DAY   'e'
#define MONTH        'b'
#define YEAR         'Y'
#define SHORT_YEAR   'y'
#define HOUR         'H'
#define MINUTE       'M'
#define SECOND       'S'

static const char *const forms[] = {
    "%a, %d %b %Y %H:%M:%S GMT", /* IMF-fixdate, which all should send */
    "%A, %d-%b-%y %H:%M:%S GMT", /* RFC 850                            */
    "%a %b %e %H:%M:%S %Y",      /* asctime()                          */
};

static const char *const weekdays[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday" };
static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };

/* taking parts off the front; false: it is not there */

static bool take(struct weir_text *rest, struct weir_text wanted)
{
    if (!weir_text_starts_with(*rest, wanted))
        return false;
    rest->at += wanted.length;
    rest->length -= wanted.length;
    return true;
}

static bool take_digits(struct weir_text *rest, size_t count, unsigned *number)
{
    *number = 0;
    if (rest->length < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        char c = rest->at[i];
        if (c < '0' || c > '9')
            return false;
        *number = *number * 10 + (unsigned)(c - '0');
    }
    rest->at += count;
    rest->length -= count;
    return true;
}

/* Which day it was is not compared with the date: there is nothing else that a sender could mean. */
static bool take_weekday(struct weir_text *rest, bool is_long)
{
    for (size_t i = 0; i < 7; i++) {
        struct weir_text name = weir_text_from(weekdays[i]);
        if (!is_long)
            name.length = 3;
        if (take(rest, name))
            return true;
    }
    return false;
}

static bool take_month(struct weir_text *rest, unsigned *month)
{
    for (*month = 1; *month <= 12; ++*month)
        if (take(rest, weir_text_from(months[*month - 1])))
            return true;
    return false;
}

static bool take_year(struct weir_text *rest, size_t digits, struct parts *parts)
{
    unsigned year;
    parts->has_short_year = digits == 2;
    if (!take_digits(rest, digits, &year))
        return false;
    parts->date.year = year;
    return true;
}

static bool take_part(struct weir_text *rest, char part, struct parts *parts)
{
    switch (part) {
    case WEEKDAY:
    case LONG_WEEKDAY:
        return take_weekday(rest, part == LONG_WEEKDAY);
    case DAY:
        return take_digits(rest, 2, &parts->date.day);
    case PADDED_DAY:
        return take_digits(rest, take(rest, WEIR_TEXT(" ")) ? 1 : 2, &parts->date.day);
    case MONTH:
        return take_month(rest, &parts->date.month);
    case YEAR:
        return take_year(rest, 4, parts);
    case SHORT_YEAR:
        return take_year(rest, 2, parts);
    case HOUR:
        return take_digits(rest, 2, &parts->hour);
    case MINUTE:
        return take_digits(rest, 2, &parts->minute);
    default:
        return take_digits(rest, 2, &parts->second);
    }
}

static bool take_form(struct weir_text rest, const char *form, struct parts *parts)
{
    for (; *form != '\0'; form++) {
        bool is_there = *form == '%' ? take_part(&rest, *++form, parts)
                                     : take(&rest, (struct weir_text){ form, 1 });
        if (!is_there)
            return false;
    }
    return rest.length == 0;
}

/* dates */

static int64_t seconds_of(const struct parts *parts)
{
    return weir_day_of_date(parts->date) * WEIR_DAY_S + (int64_t)parts->hour * 3600
           + (int64_t)parts->minute * 60 + parts->second;
}

/* Of the years with these last digits the latest that is not more than 50 years ahead. */
static void complete_year(struct parts *parts, int64_t now_s)
{
    int64_t this_year = weir_date_of_day(weir_divide_down(now_s, WEIR_DAY_S)).year;
    parts->date.year += this_year - this_year % 100 + 100;
    for (;;) {
        struct parts earlier = *parts;
        earlier.date.year -= 50;
        if (seconds_of(&earlier) <= now_s)
            return;
        parts->date.year -= 100;
    }
}

static bool is_in_range(const struct parts *parts)
{
    return parts->date.day >= 1
           && parts->date.day <= weir_days_of_month(parts->date.year, parts->date.month)
           && parts->hour < 24 && parts->minute < 60 && parts->second <= 60; /* a leap second */
}

static bool read_date(struct weir_text text, int64_t now_s, int64_t *date_s)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct parts parts = { .hour = 0 };
        if (!take_form(text, forms[i], &parts))
            continue;
        if (parts.has_short_year)
            complete_year(&parts, now_s);
        *date_s = seconds_of(&parts);
        return is_in_range(&parts);
    }
    return false;
}

/* seconds */

static bool is_digits(struct weir_text text)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
    return text.length > 0;
}

/* Some send what is left until a time that is over. */
static bool is_below_zero(struct weir_text text)
{
    return text.length > 0 && text.at[0] == '-'
           && is_digits((struct weir_text){ text.at + 1, text.length - 1 });
}

static uint64_t seconds_to_us(struct weir_text digits)
{
    uint64_t seconds;
    bool fits = weir_text_to_number(digits, &seconds) && seconds <= WEIR_BURST_MAX_US / SECOND_US;
    return fits ? seconds * SECOND_US : WEIR_BURST_MAX_US;
}

bool weir_retry_after_read(const char *value, uint64_t now_us, uint64_t *wait_us)
{
    struct weir_text text = weir_text_trim(weir_text_from(value));
    int64_t date_s = 0;
    if (text.at == NULL)
        return false;
    if (is_digits(text)) {
        *wait_us = seconds_to_us(text);
        return true;
    }
    bool is_past = is_below_zero(text);
    if (!is_past && !read_date(text, (int64_t)(now_us / SECOND_US), &date_s))
        return false;
    uint64_t date_us = date_s > 0 ? (uint64_t)date_s * SECOND_US : 0;
    *wait_us = date_us > now_us ? date_us - now_us : 0;
    if (*wait_us > WEIR_BURST_MAX_US)
        *wait_us = WEIR_BURST_MAX_US;
    return true;
}
