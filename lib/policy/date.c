#include "policy/date.h"

/* Days from 0000-03-01 to 1970-01-01. Years that start in March have the leap day at their end. */
#define DAYS_TO_1970 INT64_C(719468)

int64_t weir_divide_down(int64_t number, int64_t divisor)
{
    int64_t quotient = number / divisor;
    return number % divisor < 0 ? quotient - 1 : quotient;
}

bool weir_is_leap_year(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

unsigned weir_days_of_month(int64_t year, unsigned month)
{
    static const unsigned char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    return month == 2 && weir_is_leap_year(year) ? 29 : days[month - 1];
}

int64_t weir_day_of_date(struct weir_date date)
{
    int64_t year = date.month > 2 ? date.year : date.year - 1;
    int64_t month = date.month > 2 ? date.month - 3 : date.month + 9;
    int64_t era = weir_divide_down(year, 400);
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * month + 2) / 5 + date.day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * WEIR_DAYS_OF_400_YEARS + day_of_era - DAYS_TO_1970;
}

struct weir_date weir_date_of_day(int64_t day)
{
    int64_t shifted = day + DAYS_TO_1970;
    int64_t era = weir_divide_down(shifted, WEIR_DAYS_OF_400_YEARS);
    int64_t of_era = shifted - era * WEIR_DAYS_OF_400_YEARS;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    return (struct weir_date){
        .year = era * 400 + year + (month >= 10 ? 1 : 0),
        .month = (unsigned)(month < 10 ? month + 3 : month - 9),
        .day = (unsigned)(of_year - (153 * month + 2) / 5 + 1),
    };
}
