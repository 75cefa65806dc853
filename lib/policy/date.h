/* Dates of the Gregorian calendar, and days counted from 1970-01-01, which is day 0. */
#ifndef WEIR_POLICY_DATE_H
#define WEIR_POLICY_DATE_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_DAY_S INT64_C(86400)

/* After so many days the calendar repeats, weekdays included. */
#define WEIR_DAYS_OF_400_YEARS INT64_C(146097)

struct weir_date {
    int64_t year;
    unsigned month; /* 1 to 12 */
    unsigned day;   /* 1 to 31 */
};

/* Rounded down, also below 0; `divisor` > 0. Pure. */
int64_t weir_divide_down(int64_t number, int64_t divisor);

/* 28 to 31. Pure. */
unsigned weir_days_of_month(int64_t year, unsigned month);

bool weir_is_leap_year(int64_t year);

/* Pure; exact for all years that a 64-bit number of seconds reaches.
 * Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms". */
int64_t weir_day_of_date(struct weir_date date);
struct weir_date weir_date_of_day(int64_t day);

#endif
