/* weir: windows on the calendar of a time zone: days, weeks, months and years, for quotas. */
#ifndef WEIR_CALENDAR_H
#define WEIR_CALENDAR_H

#include <weir/common.h>
#include <weir/error.h>

/* Cuts all of time into windows; it never changes once it is made. */
struct weir_calendar;

enum weir_calendar_unit {
    WEIR_CALENDAR_DAY,
    WEIR_CALENDAR_WEEK, /* from Monday on (ISO 8601)     */
    WEIR_CALENDAR_MONTH,
    WEIR_CALENDAR_YEAR /* from the first of January on  */
};

/* Zero in any field means its default. */
struct weir_calendar_options {
    size_t size;      /* set by WEIR_CALENDAR_OPTIONS                                            */
    const char *zone; /* a name of the IANA time zone database, "Europe/Berlin"; default "UTC"   */
    enum weir_calendar_unit unit;
    unsigned months;     /* of MONTH: in one window, counted from January: 1, 2, 3, 4, 6 or 12;
                          * default 1                                                            */
    unsigned anchor_day; /* of MONTH: the day it starts on, 1 to 31; default 1. In a month that has
                          * no such day it is the last one, and the next month's is the same again */
};

#define WEIR_CALENDAR_OPTIONS(...)                                                                 \
    (&(const struct weir_calendar_options){ .size = sizeof(struct weir_calendar_options),          \
                                            __VA_ARGS__ })

/* Makes a calendar, copying what it needs; NULL for options means days in UTC.
 *
 * A zone is read here, once, from the files that the C library reads too: $TZDIR or
 * /usr/share/zoneinfo, which the package tzdata brings. "UTC" needs none. The variable TZ and the
 * program's own zone play no part, and are left alone.
 *
 * Errors: WEIR_E_VALUE for a number or a spelling that cannot be, WEIR_E_REFERENCE for a zone that
 * is not there, WEIR_E_FILE for one that cannot be read or is broken, WEIR_E_ARGUMENT,
 * WEIR_E_MEMORY. Any thread, as long as none sets an environment variable meanwhile. */
WEIR_API enum weir_code weir_calendar_new(const struct weir_calendar_options *options,
                                          struct weir_calendar **calendar,
                                          struct weir_error *error);

/* Accepts NULL; returns NULL. */
WEIR_API struct weir_calendar *weir_calendar_free(struct weir_calendar *calendar);

struct weir_window {
    uint64_t start_us, end_us; /* µs since the epoch; the end is the start of the next window */
};

/* The window that `now_us` (µs since the epoch) falls into: start <= now < end.
 *
 * A window starts with the first instant of its local day. Where clocks skip midnight that is the
 * instant after the gap; where they show it twice, the first time. A day that a zone left out has no
 * window. The first window starts at 0, and a time that 64 bits cannot hold is UINT64_MAX.
 *
 * A window is as long as clocks make it: a year has up to 366 days and the hours by which the zone
 * set its clocks back in it for good (2024 in Asia/Almaty: one hour more than 366 days). It is never
 * longer than 369 days.
 *
 * Any thread; pure, and allocates nothing. */
WEIR_API struct weir_window weir_calendar_window(const struct weir_calendar *calendar,
                                                 uint64_t now_us);

#endif
