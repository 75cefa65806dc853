/* Time zones: how far local time is ahead of UTC, as the tz database tells it (RFC 9636). */
#ifndef WEIR_POLICY_ZONE_H
#define WEIR_POLICY_ZONE_H

#include <weir/error.h>

#include "policy/zone_rule.h"

/* What is told about times before 1969 is of no use. */
struct weir_zone {
    struct weir_zone_change *changes; /* since_s ascends, from INT64_MIN on       */
    size_t count;                     /* ≥ 1                                      */
    int64_t repeats_from_s;           /* from here on, every 400 years are alike, and `changes`
                                       * goes a little further than that          */
};

/* Local time is never further ahead of UTC than this, nor further behind. */
#define WEIR_ZONE_OFFSET_MAX_S INT64_C(93600)

/* Reads the zone of that name, from $TZDIR or /usr/share/zoneinfo; "UTC" is known without a file.
 * End it with weir_zone_finish(). Errors: WEIR_E_VALUE (a name that no zone has), WEIR_E_REFERENCE,
 * WEIR_E_FILE, WEIR_E_MEMORY. */
enum weir_code weir_zone_load(const char *name, struct weir_zone *zone, struct weir_error *error);

/* Reads a zone from the bytes of a TZif file, version 1 to 4; the name is for the error. */
enum weir_code weir_zone_read(const char *name, struct weir_text bytes, struct weir_zone *zone,
                              struct weir_error *error);

/* A zone that is all zero may be finished, too. */
void weir_zone_finish(struct weir_zone *zone);

/* Seconds by which local time is ahead of UTC at `at_s` since the epoch. Pure. */
int32_t weir_zone_offset_s(const struct weir_zone *zone, int64_t at_s);

/* The first instant, in seconds since the epoch, at which the local date is `day` (days since
 * 1970-01-01) or a later one. Pure. */
int64_t weir_zone_day_start_s(const struct weir_zone *zone, int64_t day);

#endif
