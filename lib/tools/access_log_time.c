/* Times as logs write them. */
#include "policy/date.h"
#include "tools/access_log.h"

#define SECOND_US UINT64_C(1000000)
#define LAST_YEAR 2199

struct moment {
    struct weir_date date;
    unsigned hour, minute, second;
    uint64_t fraction_us;
    int offset_minutes; /* east of Greenwich */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes exactly `count` digits. */
static bool take_digits(struct weir_text *text, size_t count, unsigned *number)
{
    if (text->length < count)
        return false;
    *number = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_digit(text->at[i]))
            return false;
        *number = *number * 10 + (unsigned)(text->at[i] - '0');
    }
    text->at += count;
    text->length -= count;
    return true;
}

static bool take_char(struct weir_text *text, char c)
{
    if (text->length == 0 || text->at[0] != c)
        return false;
    text->at++;
    text->length--;
    return true;
}

static bool take_year(struct weir_text *text, struct weir_date *date)
{
    unsigned year;
    bool is_year = take_digits(text, 4, &year);
    if (is_year)
        date->year = (int64_t)year;
    return is_year && year >= 1970 && year <= LAST_YEAR;
}

static bool take_month_name(struct weir_text *text, unsigned *month)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (*month = 1; *month <= 12; ++*month)
        if (text->length >= 3 && memcmp(text->at, names + 3 * (*month - 1), 3) == 0) {
            text->at += 3;
            text->length -= 3;
            return true;
        }
    return false;
}

static bool take_clock(struct weir_text *text, struct moment *moment)
{
    return take_digits(text, 2, &moment->hour) && take_char(text, ':')
           && take_digits(text, 2, &moment->minute) && take_char(text, ':')
           && take_digits(text, 2, &moment->second);
}

/* Digits behind the decimal mark; what is finer than a microsecond is dropped. */
static bool take_fraction(struct weir_text *text, uint64_t *fraction_us)
{
    uint64_t digit_us = SECOND_US;
    size_t count = 0;
    *fraction_us = 0;
    for (; text->length > 0 && is_digit(text->at[0]); text->at++, text->length--, count++) {
        digit_us /= 10;
        *fraction_us += digit_us * (uint64_t)(text->at[0] - '0');
    }
    return count > 0;
}

/* "+0200", "-07:00"; nothing behind it. */
static bool read_offset(struct weir_text text, int *offset_minutes)
{
    unsigned hours, minutes;
    bool is_west = take_char(&text, '-');
    if (!is_west && !take_char(&text, '+'))
        return false;
    if (!take_digits(&text, 2, &hours))
        return false;
    take_char(&text, ':');
    if (!take_digits(&text, 2, &minutes) || text.length > 0 || hours > 23 || minutes > 59)
        return false;
    int offset = (int)(hours * 60 + minutes);
    *offset_minutes = is_west ? -offset : offset;
    return true;
}

static bool is_sound(const struct moment *moment)
{
    const struct weir_date *date = &moment->date;
    return date->month >= 1 && date->month <= 12 && date->day >= 1
           && date->day <= weir_days_of_month(date->year, date->month) && moment->hour <= 23
           && moment->minute <= 59 && moment->second <= 60;
}

static bool to_us(const struct moment *moment, uint64_t *time_us)
{
    if (!is_sound(moment))
        return false;
    int64_t seconds = weir_day_of_date(moment->date) * WEIR_DAY_S
                      + (int64_t)(moment->hour * 3600 + moment->minute * 60 + moment->second)
                      - (int64_t)moment->offset_minutes * 60;
    if (seconds < 0)
        return false;
    *time_us = (uint64_t)seconds * SECOND_US + moment->fraction_us;
    return true;
}

/* "10/Oct/2000:13:55:36 -0700" */
static bool read_common(struct weir_text text, struct moment *moment)
{
    return take_digits(&text, 2, &moment->date.day) && take_char(&text, '/')
           && take_month_name(&text, &moment->date.month) && take_char(&text, '/')
           && take_year(&text, &moment->date) && take_char(&text, ':') && take_clock(&text, moment)
           && take_char(&text, ' ') && read_offset(text, &moment->offset_minutes);
}

/* "2026-03-04T05:06:07.008+01:00", "2026-03-04 05:06:07", "2026-03-04" */
static bool read_iso(struct weir_text text, struct moment *moment, bool *is_whole_second)
{
    if (!take_year(&text, &moment->date) || !take_char(&text, '-')
        || !take_digits(&text, 2, &moment->date.month) || !take_char(&text, '-')
        || !take_digits(&text, 2, &moment->date.day))
        return false;
    if (text.length == 0)
        return true;
    if (!take_char(&text, 'T') && !take_char(&text, 't') && !take_char(&text, ' '))
        return false;
    if (!take_clock(&text, moment))
        return false;
    *is_whole_second = !take_char(&text, '.') && !take_char(&text, ',');
    if (!*is_whole_second && !take_fraction(&text, &moment->fraction_us))
        return false;
    return text.length == 0 || ((text.at[0] == 'Z' || text.at[0] == 'z') && text.length == 1)
           || read_offset(text, &moment->offset_minutes);
}

/* Seconds are known by being few. The largest are those of 2199. */
static bool scale(uint64_t number, uint64_t *time_us)
{
    static const uint64_t last_s = UINT64_C(7258118399);
    if (number <= last_s)
        *time_us = number * SECOND_US;
    else if (number <= last_s * 1000)
        *time_us = number * 1000;
    else if (number <= last_s * 1000000)
        *time_us = number;
    else if (number / 1000 <= last_s * 1000000)
        *time_us = number / 1000;
    else
        return false;
    return true;
}

/* "1772600767.008" */
static bool read_number(struct weir_text text, uint64_t *time_us, bool *is_whole_second)
{
    struct weir_text whole = text;
    uint64_t number, fraction_us = 0;
    size_t digits = 0;
    while (digits < text.length && is_digit(text.at[digits]))
        digits++;
    whole.length = digits;
    text.at += digits;
    text.length -= digits;
    if (!weir_text_to_number(whole, &number) || !scale(number, time_us))
        return false;
    bool has_fraction = take_char(&text, '.');
    if (has_fraction && !take_fraction(&text, &fraction_us))
        return false;
    /* Of smaller units what is behind the point is less than a microsecond, or nearly so. */
    bool is_seconds = *time_us == number * SECOND_US;
    *is_whole_second = is_seconds && !has_fraction;
    if (is_seconds)
        *time_us += fraction_us;
    return text.length == 0;
}

bool weir_access_time(struct weir_text text, uint64_t *time_us, bool *is_whole_second)
{
    struct moment moment = { .hour = 0 };
    *is_whole_second = true;
    if (text.length > 3 && text.at[2] == '/')
        return read_common(text, &moment) && to_us(&moment, time_us);
    if (text.length > 5 && text.at[4] == '-')
        return read_iso(text, &moment, is_whole_second) && to_us(&moment, time_us);
    return read_number(text, time_us, is_whole_second);
}
