/* "calendar" and "anchor": where windows begin. */
#include <string.h>

#include "base/arena.h"
#include "policy/policy_json.h"

/* What a calendar is made of. */
struct shape {
    enum weir_calendar_unit unit;
    unsigned months, anchor_day; /* of MONTH; else 0 */
};

static const struct shape day = { WEIR_CALENDAR_DAY, 0, 0 };

/* kept calendars */

static bool is_same(const struct weir_kept_calendar *kept, const char *zone,
                    const struct shape *shape)
{
    return kept->unit == shape->unit && kept->months == shape->months
           && kept->anchor_day == shape->anchor_day && strcmp(kept->zone, zone) == 0;
}

static enum weir_code make(const struct weir_reader *reader, const struct weir_place *place,
                           const char *zone, const struct shape *shape,
                           struct weir_calendar **calendar)
{
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_calendar_new(WEIR_CALENDAR_OPTIONS(.zone = zone, .unit = shape->unit,
                                                                  .months = shape->months,
                                                                  .anchor_day = shape->anchor_day),
                                            calendar, &error);
    if (code == WEIR_E_MEMORY)
        return weir_refuse_memory(reader);
    return code == WEIR_OK ? code : weir_refuse(reader, place, code, "%s", error.text);
}

/* The policy's calendar of that shape, made if there is none yet. `zone` lives as long as the policy;
 * errors are at `place`. */
static enum weir_code keep(const struct weir_reader *reader, const struct weir_place *place,
                           const char *zone, const struct shape *shape,
                           const struct weir_calendar **calendar)
{
    struct weir_policy *policy = reader->policy;
    struct weir_kept_calendar *kept = policy->calendars;
    while (kept != NULL && !is_same(kept, zone, shape))
        kept = kept->next;
    if (kept == NULL) {
        kept = weir_arena_array(policy->arena, 1, sizeof *kept);
        if (kept == NULL)
            return weir_refuse_memory(reader);
        *kept = (struct weir_kept_calendar){ policy->calendars, NULL,          zone,
                                             shape->unit,       shape->months, shape->anchor_day };
        enum weir_code code = make(reader, place, zone, shape, &kept->calendar);
        if (code != WEIR_OK)
            return code;
        policy->calendars = kept;
    }
    *calendar = kept->calendar;
    return WEIR_OK;
}

static bool is_utc(const char *zone)
{
    return strcmp(zone, "UTC") == 0;
}

enum weir_code weir_read_zone(const struct weir_reader *reader, const struct weir_place *place,
                              const char **zone)
{
    struct weir_text name;
    const struct weir_calendar *calendar;
    enum weir_code code =
        weir_read_text(reader, place, "a time zone such as \"UTC\" or \"Europe/Berlin\"", &name);
    if (code == WEIR_OK)
        code = weir_keep_text(reader, name, zone);
    /* A zone that no window needs has to be there all the same. */
    if (code == WEIR_OK && !is_utc(*zone))
        code = keep(reader, place, *zone, &day, &calendar);
    return code;
}

/* windows */

static enum weir_code refuse_months(const struct weir_reader *reader,
                                    const struct weir_place *place, const char *limit)
{
    return weir_refuse(reader, place, WEIR_E_VALUE,
                       "Months differ in length, so only a fixed-window with a \"calendar\" counts "
                       "by them, and the limit \"%s\" is none; add the calendar, such as \"UTC\", "
                       "or write \"30days\", a window of fixed length.",
                       limit);
}

static enum weir_code refuse_window(const struct weir_reader *reader,
                                    const struct weir_place *place, const char *zone,
                                    uint64_t window_us)
{
    if (!is_utc(zone))
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The calendar of %.64s has no window of that length; wanted is day, "
                           "week, month, 2months, 3months, 4months, 6months, 12months or year.",
                           zone);
    if (window_us % WEIR_WEEK_US == 0)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "Several weeks begin nowhere on the calendar; wanted is week, month, "
                           "year, days, a window that divides a day, or no \"calendar\".");
    return weir_refuse(reader, place, WEIR_E_VALUE,
                       "The window divides no day, so it cannot start at midnight; wanted is one "
                       "that does, days, week, month, year, or no \"calendar\".");
}

/* Windows that are the same on the clock and on the calendar of UTC. */
static bool is_on_clock(uint64_t window_us)
{
    return WEIR_DAY_US % window_us == 0
           || (window_us % WEIR_DAY_US == 0 && window_us % WEIR_WEEK_US != 0);
}

static bool find_shape(const struct weir_windows *windows, uint64_t window_us, unsigned months,
                       struct shape *shape)
{
    *shape = day;
    if (months > 0)
        *shape = (struct shape){ WEIR_CALENDAR_MONTH, months,
                                 windows->anchor_day == 0 ? 1 : windows->anchor_day };
    else if (window_us == WEIR_WEEK_US)
        shape->unit = WEIR_CALENDAR_WEEK;
    else if (window_us == WEIR_YEAR_US)
        shape->unit = WEIR_CALENDAR_YEAR;
    else
        return window_us == WEIR_DAY_US;
    return true;
}

enum weir_code weir_find_calendar(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct weir_windows *windows, uint64_t window_us,
                                  unsigned months, const struct weir_calendar **calendar)
{
    struct shape shape;
    *calendar = NULL;
    if (windows->zone == NULL)
        return months == 0 ? WEIR_OK : refuse_months(reader, place, windows->limit);

    bool is_shape = find_shape(windows, window_us, months, &shape);
    if (is_utc(windows->zone) && months == 0 && shape.unit == WEIR_CALENDAR_DAY
        && is_on_clock(window_us))
        return WEIR_OK;
    if (!is_shape)
        return refuse_window(reader, place, windows->zone, window_us);
    return keep(reader, place, windows->zone, &shape, calendar);
}
