/* The C library as the one to compare with: it knows one zone at a time, which a test may set. */
#ifndef TESTS_UNIT_POLICY_ZONES_H
#define TESTS_UNIT_POLICY_ZONES_H

#include "test.h"

#include <time.h>

#include <weir/error.h>

#define YEAR_2100_S INT64_C(4102444800)
#define YEAR_2200_S INT64_C(7258118400)

/* Zones that do something odd, each in its way; all are in Debian's package tzdata. */
static const char *const odd_zones[] = {
    "UTC",
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Havana",
    "America/New_York",
    "America/Nuuk",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Almaty",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Kwajalein",
};

static inline void let_c_library_use(const char *zone)
{
    assert_int_equal(setenv("TZ", zone, 1), 0);
    tzset();
}

static inline struct tm local_time(int64_t at_s)
{
    struct tm local;
    time_t at = (time_t)at_s;
    assert_non_null(localtime_r(&at, &local));
    return local;
}

/* Splitmix64: the same numbers in each run, and for each seed others. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t mixed = *state += UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ mixed >> 31;
}

static inline int64_t random_instant(uint64_t *state, int64_t before_s)
{
    return (int64_t)(next_random(state) % (uint64_t)before_s);
}

static inline void assert_ok(enum weir_code code, const struct weir_error *error)
{
    if (code != WEIR_OK)
        fail_msg("%s", error->text);
}

#endif
