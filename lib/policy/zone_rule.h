/* The rule by which a time zone goes on after all changes that its file lists: a POSIX TZ string,
 * "CET-1CEST,M3.5.0,M10.5.0/3" (POSIX.1-2017 section 8.3, RFC 9636 section 3.3). */
#ifndef WEIR_POLICY_ZONE_RULE_H
#define WEIR_POLICY_ZONE_RULE_H

#include "base/text.h"

/* From `since_s` (since the epoch) on, local time is `offset_s` ahead of UTC. */
struct weir_zone_change {
    int64_t since_s;
    int32_t offset_s;
};

/* When a year's change comes, in the local time that holds before it. */
struct weir_rule_moment {
    enum {
        WEIR_RULE_WITHOUT_LEAP_DAY, /* "Jn": day 1 to 365; the 29th of February is not counted */
        WEIR_RULE_WITH_LEAP_DAY,    /* "n": day 0 to 365                                       */
        WEIR_RULE_WEEKDAY           /* "Mm.w.d": weekday 0 (Sunday) to 6, the first to fourth of
                                     * the month, or 5: its last                               */
    } form;
    unsigned month, week, day; /* month and week only of WEEKDAY                              */
    int32_t time_s;            /* since 00:00 of that day; -167 to 167 hours                  */
};

struct weir_zone_rule {
    int32_t standard_s; /* ahead of UTC, like the next                                    */
    int32_t daylight_s;
    bool has_daylight; /* else only standard_s means something                           */
    struct weir_rule_moment start, end; /* of daylight time                              */
};

/* Reads a whole text; false if it is no such string. Pure. */
bool weir_zone_rule_parse(struct weir_text text, struct weir_zone_rule *rule);

/* The changes of a rule that has daylight time in a year (of its moments: what they come to in UTC
 * may lie a week outside), in the order they come. Pure. */
void weir_zone_rule_year(const struct weir_zone_rule *rule, int64_t year,
                         struct weir_zone_change changes[2]);

#endif
