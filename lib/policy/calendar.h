/* Calendars that several own: who keeps one beyond the policy that it is of lets it go in the end. */
#ifndef WEIR_POLICY_CALENDAR_H
#define WEIR_POLICY_CALENDAR_H

#include <weir/calendar.h>

/* Makes the caller one more owner, and returns the calendar. Accepts NULL. Any thread. */
const struct weir_calendar *weir_calendar_keep(const struct weir_calendar *calendar);

/* Once for each weir_calendar_keep(); it is freed when nobody keeps it and weir_calendar_free() was
 * called. Accepts NULL. Any thread. */
void weir_calendar_let_go(const struct weir_calendar *calendar);

#endif
