/* The requests of one or several logs, in memory and in the order of their times.
 *
 * A server writes a line when a request ends, several servers write several logs, and rotated ones are
 * named in any order; so all of it is read before the first request is replayed. */
#ifndef WEIR_TOOLS_SIMULATE_LINES_H
#define WEIR_TOOLS_SIMULATE_LINES_H

#include <stdio.h>

#include "tools/access_log.h"

#define WEIR_BAD_LINES_MAX  5
#define WEIR_LOG_LINE_BYTES ((size_t)1 << 20) /* the longest line */
#define WEIR_LOGS_MAX       256

struct weir_line_place {
    const char *log;
    uint64_t line; /* from 1 */
};

struct weir_bad_line {
    struct weir_line_place place;
    const char *why;
};

struct weir_lines;

struct weir_lines_state {
    uint64_t lines;   /* with something in them                 */
    uint64_t bad;     /* that are no requests                   */
    uint64_t outside; /* of the span of time that is wanted     */
    size_t count;     /* requests that are kept                 */
    uint64_t first_us, last_us;
    bool has_whole_seconds; /* no time is finer                 */
    bool has_costs, has_fields;
    struct weir_bad_line first_bad[WEIR_BAD_LINES_MAX];
    size_t first_bad_count;
};

/* Only lines from `from_us` on, and before `to_us`, are kept. NULL: memory ran out. */
struct weir_lines *weir_lines_new(uint64_t from_us, uint64_t to_us);

/* Accepts NULL; returns NULL. */
struct weir_lines *weir_lines_free(struct weir_lines *lines);

/* Reads a log to its end; `name` is borrowed for good. Errors: WEIR_E_FILE, WEIR_E_MEMORY,
 * WEIR_E_VALUE: it is compressed. */
enum weir_code weir_lines_read(struct weir_lines *lines, struct weir_access_reader *reader,
                               FILE *stream, const char *name, struct weir_error *error);

/* All has been read: puts the requests in order. Those of one time stay in that of the logs and their
 * lines. With `spreads`, those of one whole second are spread evenly over it. */
void weir_lines_order(struct weir_lines *lines, bool spreads);

const struct weir_lines_state *weir_lines_state(const struct weir_lines *lines);

/* One of the `count` requests, in order. All texts live as long as `lines`. */
void weir_lines_get(const struct weir_lines *lines, size_t index, struct weir_access_entry *entry,
                    struct weir_line_place *place);

#endif
