#include "policy/units.h"

#include <string.h>

#include "base/suggest.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

struct unit {
    const char *name;
    uint64_t size;
};

/* The largest first, so that the printer takes the first that divides. */
static const struct unit rate_units[] = {
    { "year", WEIR_YEAR_US },
    { "week", WEIR_WEEK_US },
    { "day", WEIR_DAY_US },
    { "hour", UINT64_C(3600) * 1000000 },
    { "minute", UINT64_C(60) * 1000000 },
    { "second", UINT64_C(1000000) },
    { "ms", UINT64_C(1000) },
};

static const struct unit duration_units[] = {
    { "ms", UINT64_C(1000) },          { "s", UINT64_C(1000000) }, { "m", UINT64_C(60) * 1000000 },
    { "h", UINT64_C(3600) * 1000000 }, { "d", WEIR_DAY_US },
};

static const struct unit byte_units[] = {
    { "KiB", UINT64_C(1) << 10 },
    { "MiB", UINT64_C(1) << 20 },
    { "GiB", UINT64_C(1) << 30 },
    { "TiB", UINT64_C(1) << 40 },
};

/* What other programs call units. */
static const struct {
    const char *name;
    const char *meant;
} other_names[] = {
    { "s", "second" },        { "sec", "second" },
    { "secs", "seconds" },    { "m", "minute" },
    { "min", "minute" },      { "mins", "minutes" },
    { "h", "hour" },          { "hr", "hour" },
    { "hrs", "hours" },       { "d", "day" },
    { "w", "week" },          { "y", "year" },
    { "msec", "ms" },         { "millisecond", "ms" },
    { "milliseconds", "ms" }, { "fortnight", "2weeks" },
    { "mon", "month" },       { "quarter", "3months" },
};

/* The most that so many months last, wherever they begin and whatever day they start on. Only
 * windows that divide a year start in the same months each year. */
static const struct {
    unsigned months;
    uint64_t days;
} month_windows[] = {
    { 1, 31 }, { 2, 62 }, { 3, 92 }, { 4, 123 }, { 6, 184 }, { 12, 366 },
};

static const char *const rate_examples = "\"100/minute\", \"10/15minutes\", \"5/250ms\", \"plan\" "
                                         "or \"unlimited\"";

static const struct unit *find_unit(const struct unit *units, size_t count, struct weir_text name)
{
    for (size_t i = 0; i < count; i++)
        if (weir_text_equal(name, weir_text_from(units[i].name)))
            return &units[i];
    return NULL;
}

/* Cuts the leading digits off the front. */
static struct weir_text take_digits(struct weir_text *text)
{
    struct weir_text digits = { text->at, 0 };
    while (digits.length < text->length && text->at[digits.length] >= '0'
           && text->at[digits.length] <= '9')
        digits.length++;
    text->at += digits.length;
    text->length -= digits.length;
    return digits;
}

/* Reads a number with a unit behind it; false for anything else, and above `most`. */
static bool read_amount(struct weir_text text, const struct unit *units, size_t count,
                        uint64_t most, uint64_t *amount)
{
    uint64_t number;
    if (text.length == 0 || !weir_text_to_number(take_digits(&text), &number))
        return false;
    const struct unit *unit = find_unit(units, count, text);
    if (unit == NULL || number > most / unit->size)
        return false;
    *amount = number * unit->size;
    return true;
}

bool weir_duration_parse(struct weir_text text, uint64_t *duration_us)
{
    return read_amount(text, duration_units, COUNT_OF(duration_units), WEIR_WINDOW_MAX_US,
                       duration_us);
}

bool weir_bytes_parse(struct weir_text text, uint64_t *bytes)
{
    return read_amount(text, byte_units, COUNT_OF(byte_units), UINT64_C(1) << 63, bytes);
}

/* rates */

/* "%.40s" of a text, without its end where that does not fit. */
#define SHOWN(text) (int)((text).length < 40 ? (text).length : 40), (text).at

static enum weir_code refuse_number(struct weir_text number, const char *path,
                                    struct weir_error *error)
{
    return weir_error_set(error, WEIR_E_VALUE, path,
                          "\"%.*s\" is no number of requests; wanted before the \"/\" is a whole "
                          "number from 0 to 1000000000.",
                          SHOWN(number));
}

static const char *meant_unit(struct weir_text name)
{
    static const char *const names[] = { "ms",    "second", "minute",  "hour",    "day",   "week",
                                         "month", "year",   "seconds", "minutes", "months" };
    for (size_t i = 0; i < COUNT_OF(other_names); i++)
        if (weir_text_equal_fold(name, weir_text_from(other_names[i].name)))
            return other_names[i].meant;
    return weir_suggest(name, names, COUNT_OF(names));
}

static enum weir_code refuse_unit(struct weir_text name, const char *path, struct weir_error *error)
{
    const char *meant = meant_unit(name);
    if (meant != NULL)
        return weir_error_set(error, WEIR_E_VALUE, path,
                              "\"%.*s\" is no unit of time here; wanted is \"%s\".", SHOWN(name),
                              meant);
    return weir_error_set(error, WEIR_E_VALUE, path,
                          "\"%.*s\" is no unit of time; wanted is ms, second, minute, hour, day, "
                          "week, month or year, with or without a number before it.",
                          SHOWN(name));
}

static bool is_month(struct weir_text name)
{
    return weir_text_equal(name, WEIR_TEXT("month")) || weir_text_equal(name, WEIR_TEXT("months"));
}

static const struct unit *find_rate_unit(struct weir_text name)
{
    bool is_plural = name.length > 3 && name.at[name.length - 1] == 's';
    struct weir_text singular = { name.at, is_plural ? name.length - 1 : name.length };
    return find_unit(rate_units, COUNT_OF(rate_units), singular);
}

/* `text` is the window as it is written. */
static enum weir_code read_months(struct weir_text text, uint64_t number,
                                  struct weir_written_rate *rate, const char *path,
                                  struct weir_error *error)
{
    for (size_t i = 0; i < COUNT_OF(month_windows); i++) {
        if (month_windows[i].months != number)
            continue;
        rate->months = month_windows[i].months;
        rate->window_us = month_windows[i].days * WEIR_DAY_US;
        return WEIR_OK;
    }
    return weir_error_set(error, WEIR_E_VALUE, path,
                          "\"%.*s\" does not divide a year; wanted is month, 2months, 3months, "
                          "4months, 6months or 12months.",
                          SHOWN(text));
}

/* "minute", "15minutes", "250ms", "month" */
static enum weir_code read_window(struct weir_text text, struct weir_written_rate *rate,
                                  const char *path, struct weir_error *error)
{
    uint64_t number = 1;
    struct weir_text name = text;
    struct weir_text digits = take_digits(&name);
    if (digits.length > 0 && !weir_text_to_number(digits, &number))
        number = UINT64_MAX;
    if (is_month(name))
        return read_months(text, number, rate, path, error);
    const struct unit *unit = find_rate_unit(name);
    if (unit == NULL)
        return refuse_unit(name, path, error);
    if (number == 0)
        return weir_error_set(error, WEIR_E_VALUE, path,
                              "\"%.*s\" is a window of no length; wanted is at least 1ms.",
                              SHOWN(text));
    if (number > WEIR_WINDOW_MAX_US / unit->size)
        return weir_error_set(error, WEIR_E_VALUE, path,
                              "\"%.*s\" is too long a window; wanted is at most 366days.",
                              SHOWN(text));
    rate->window_us = number * unit->size;
    return WEIR_OK;
}

static enum weir_code read_numbers(struct weir_text text, struct weir_written_rate *rate,
                                   const char *path, struct weir_error *error)
{
    struct weir_text rest = text, number;
    weir_text_take_first(&rest, '/', &number);
    if (rest.at == NULL)
        return weir_error_set(error, WEIR_E_VALUE, path, "\"%.*s\" is no rate; wanted is %s.",
                              SHOWN(text), rate_examples);
    if (!weir_text_to_number(number, &rate->limit) || rate->limit > WEIR_UNITS_MAX)
        return refuse_number(number, path, error);
    return read_window(rest, rate, path, error);
}

enum weir_code weir_rate_parse(struct weir_text text, struct weir_written_rate *rate,
                               const char *path, struct weir_error *error)
{
    struct weir_written_rate made = { .kind = WEIR_WRITTEN_NUMBERS };
    enum weir_code code = WEIR_OK;
    if (weir_text_equal(text, WEIR_TEXT("plan")))
        made.kind = WEIR_WRITTEN_PLAN;
    else if (weir_text_equal(text, WEIR_TEXT("unlimited")))
        made.kind = WEIR_WRITTEN_UNLIMITED;
    else if (text.length > 0 && memchr(text.at, ' ', text.length) != NULL)
        code = weir_error_set(error, WEIR_E_VALUE, path,
                              "\"%.*s\" has a space in it; wanted is %s, without spaces.",
                              SHOWN(text), rate_examples);
    else
        code = read_numbers(text, &made, path, error);
    if (code == WEIR_OK)
        *rate = made;
    return code;
}

static void put_window(uint64_t number, const struct unit *unit, struct weir_buffer *buffer)
{
    if (number != 1)
        weir_buffer_put_number(buffer, number);
    weir_buffer_put_string(buffer, unit->name);
    if (number != 1 && unit->size >= UINT64_C(1000000))
        weir_buffer_put_char(buffer, 's');
}

static void put_numbers(const struct weir_written_rate *rate, struct weir_buffer *buffer)
{
    static const struct unit month = { "month", 31 * WEIR_DAY_US };
    struct unit unit = { "us", 1 };
    for (size_t i = 0; i < COUNT_OF(rate_units) && unit.size == 1; i++)
        if (rate->window_us % rate_units[i].size == 0)
            unit = rate_units[i];

    weir_buffer_put_number(buffer, rate->limit);
    weir_buffer_put_char(buffer, '/');
    if (rate->months > 0)
        put_window(rate->months, &month, buffer);
    else
        put_window(rate->window_us / unit.size, &unit, buffer);
}

void weir_rate_print(const struct weir_written_rate *rate, struct weir_buffer *buffer)
{
    switch (rate->kind) {
    case WEIR_WRITTEN_NUMBERS:
        put_numbers(rate, buffer);
        break;
    case WEIR_WRITTEN_PLAN:
        weir_buffer_put_string(buffer, "plan");
        break;
    case WEIR_WRITTEN_UNLIMITED:
        weir_buffer_put_string(buffer, "unlimited");
        break;
    }
}
