/* The small texts of a policy file: rates, durations, numbers of bytes. One parser each, and a
 * printer for rates. */
#ifndef WEIR_POLICY_UNITS_H
#define WEIR_POLICY_UNITS_H

#include <weir/store.h>

#include "base/buffer.h"

#define WEIR_DAY_US  (UINT64_C(86400) * 1000000)
#define WEIR_WEEK_US (7 * WEIR_DAY_US)
#define WEIR_YEAR_US (365 * WEIR_DAY_US)

/* A rate as it is written, before a burst or a plan comes to it. */
struct weir_written_rate {
    enum { WEIR_WRITTEN_NUMBERS, WEIR_WRITTEN_PLAN, WEIR_WRITTEN_UNLIMITED } kind;
    uint64_t limit;     /* 0 to WEIR_UNITS_MAX; this and the rest only for NUMBERS       */
    uint64_t window_us; /* > 0; of months: the most that so many of them last            */
    unsigned months;    /* in the window, which needs a calendar; 0: it has a fixed length */
};

/* Reads "100/minute", "10/15minutes", "5/250ms", "plan" or "unlimited". Units are ms, second,
 * minute, hour, day, week, month and year (365 days), with or without an s, and nothing stands
 * between. Months are 1, 2, 3, 4, 6 or 12, so that their windows divide a year. Errors, at `path`:
 * WEIR_E_VALUE, which names what is wrong and what is wanted. Pure. */
enum weir_code weir_rate_parse(struct weir_text text, struct weir_written_rate *rate,
                               const char *path, struct weir_error *error);

/* Writes "100/minute" in the largest unit that divides the window; weir_rate_parse() reads it back.
 * (Only a rate whose window is no whole number of ms, which no text makes, is written in "us".) */
void weir_rate_print(const struct weir_written_rate *rate, struct weir_buffer *buffer);

/* Reads "20ms", "2s", "5m", "1h" or "1d"; false for anything else, and above 366 days. Pure. */
bool weir_duration_parse(struct weir_text text, uint64_t *duration_us);

/* Reads "64KiB", "64MiB", "2GiB" or "1TiB"; false for anything else, and above 2^63. Pure. */
bool weir_bytes_parse(struct weir_text text, uint64_t *bytes);

#endif
