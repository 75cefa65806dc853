#include "policy/calendar.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/options.h"
#include "policy/date.h"
#include "policy/zone.h"

#define SECOND_US UINT64_C(1000000)

/* The size in the first release: nothing smaller was ever compiled. */
#define CALENDAR_OPTIONS_FIRST                                                                     \
    (offsetof(struct weir_calendar_options, anchor_day) + sizeof(unsigned))

struct weir_calendar {
    atomic_uint owners; /* less one: who has made it is one of them, and needs no count */
    struct weir_zone zone;
    enum weir_calendar_unit unit;
    unsigned months;     /* of MONTH and YEAR: in one window */
    unsigned anchor_day; /* of MONTH and YEAR                */
};

/* That is all that changes in one, and who only reads it may still own it. */
static struct weir_calendar *own(const struct weir_calendar *calendar)
{
    return (struct weir_calendar *)(uintptr_t)calendar;
}

const struct weir_calendar *weir_calendar_keep(const struct weir_calendar *calendar)
{
    if (calendar != NULL)
        atomic_fetch_add(&own(calendar)->owners, 1);
    return calendar;
}

void weir_calendar_let_go(const struct weir_calendar *calendar)
{
    weir_calendar_free(own(calendar));
}

struct weir_calendar *weir_calendar_free(struct weir_calendar *calendar)
{
    if (calendar == NULL || atomic_fetch_sub(&calendar->owners, 1) > 0)
        return NULL;
    weir_zone_finish(&calendar->zone);
    free(calendar);
    return NULL;
}

/* windows are numbered, on the dates that clocks show */

static int64_t anchor_of_month(const struct weir_calendar *calendar, int64_t month)
{
    int64_t year = weir_divide_down(month, 12);
    struct weir_date anchor = { year, (unsigned)(month - year * 12) + 1, calendar->anchor_day };
    unsigned last_day = weir_days_of_month(year, anchor.month);
    if (anchor.day > last_day)
        anchor.day = last_day;
    return weir_day_of_date(anchor);
}

/* Months are counted from January of the year 0. */
static int64_t number_by_month(const struct weir_calendar *calendar, int64_t day)
{
    struct weir_date date = weir_date_of_day(day);
    int64_t month = date.year * 12 + date.month - 1;
    int64_t number = weir_divide_down(month, calendar->months);
    bool is_before_anchor = day < anchor_of_month(calendar, number * calendar->months);
    return is_before_anchor ? number - 1 : number;
}

/* The number of the window that a day is in. */
static int64_t number_of(const struct weir_calendar *calendar, int64_t day)
{
    switch (calendar->unit) {
    case WEIR_CALENDAR_DAY:
        return day;
    case WEIR_CALENDAR_WEEK:
        /* Day 0 was a Thursday, three days after Monday. */
        return weir_divide_down(day + 3, 7);
    case WEIR_CALENDAR_MONTH:
    case WEIR_CALENDAR_YEAR:
        return number_by_month(calendar, day);
    }
    return day;
}

/* The first day of the window with that number. */
static int64_t first_day(const struct weir_calendar *calendar, int64_t number)
{
    switch (calendar->unit) {
    case WEIR_CALENDAR_DAY:
        return number;
    case WEIR_CALENDAR_WEEK:
        return number * 7 - 3;
    case WEIR_CALENDAR_MONTH:
    case WEIR_CALENDAR_YEAR:
        return anchor_of_month(calendar, number * calendar->months);
    }
    return number;
}

static int64_t start_s(const struct weir_calendar *calendar, int64_t number)
{
    return weir_zone_day_start_s(&calendar->zone, first_day(calendar, number));
}

static uint64_t to_us(int64_t seconds)
{
    if (seconds < 0)
        return 0;
    return (uint64_t)seconds > UINT64_MAX / SECOND_US ? UINT64_MAX : (uint64_t)seconds * SECOND_US;
}

struct weir_window weir_calendar_window(const struct weir_calendar *calendar, uint64_t now_us)
{
    int64_t now_s = (int64_t)(now_us / SECOND_US);
    int64_t local_s = now_s + weir_zone_offset_s(&calendar->zone, now_s);
    int64_t number = number_of(calendar, weir_divide_down(local_s, WEIR_DAY_S));
    int64_t start = start_s(calendar, number), end = start_s(calendar, number + 1);
    /* Clocks that were set back over midnight show the day before once more, but its window is
     * over: what is counted in a window is never taken up again. */
    while (end <= now_s) {
        start = end;
        end = start_s(calendar, ++number + 1);
    }
    return (struct weir_window){ to_us(start), to_us(end) };
}

/* making one */

static enum weir_code check_months(const struct weir_calendar_options *options,
                                   struct weir_error *error)
{
    if (options->unit != WEIR_CALENDAR_MONTH && (options->months != 0 || options->anchor_day != 0))
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "Only windows of months have a number of months or an anchor day; "
                              "wanted is 0 for both.");
    if (options->months > 12 || (options->months != 0 && 12 % options->months != 0))
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "A window of %u months does not divide a year; wanted are 1, 2, 3, "
                              "4, 6 or 12.",
                              options->months);
    if (options->anchor_day > 31)
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "The anchor day is %u; wanted is a day of a month, 1 to 31.",
                              options->anchor_day);
    return WEIR_OK;
}

static enum weir_code take_options(struct weir_calendar_options *ours,
                                   const struct weir_calendar_options *theirs,
                                   struct weir_error *error)
{
    enum weir_code code = weir_options_take(ours, sizeof *ours, theirs, CALENDAR_OPTIONS_FIRST,
                                            "WEIR_CALENDAR_OPTIONS", error);
    if (code != WEIR_OK)
        return code;
    if ((unsigned)ours->unit > WEIR_CALENDAR_YEAR)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "The unit of a calendar is %u; wanted is one of enum "
                              "weir_calendar_unit.",
                              (unsigned)ours->unit);
    code = check_months(ours, error);
    if (ours->zone == NULL)
        ours->zone = "UTC";
    if (ours->anchor_day == 0)
        ours->anchor_day = 1;
    if (ours->months == 0)
        ours->months = ours->unit == WEIR_CALENDAR_YEAR ? 12 : 1;
    return code;
}

enum weir_code weir_calendar_new(const struct weir_calendar_options *options,
                                 struct weir_calendar **calendar, struct weir_error *error)
{
    struct weir_calendar_options ours;
    struct weir_zone zone;
    enum weir_code code = take_options(&ours, options, error);
    if (code == WEIR_OK)
        code = weir_zone_load(ours.zone, &zone, error);
    if (code != WEIR_OK)
        return code;

    struct weir_calendar *made = malloc(sizeof *made);
    if (made == NULL) {
        weir_zone_finish(&zone);
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    }
    *made = (struct weir_calendar){
        .zone = zone, .unit = ours.unit, .months = ours.months, .anchor_day = ours.anchor_day
    };
    *calendar = made;
    return WEIR_OK;
}
