/* The quota fields of a response. */
#ifndef WEIR_HEADERS_RATELIMIT_H
#define WEIR_HEADERS_RATELIMIT_H

#include "base/buffer.h"

/* One limit as the client sees it. `t` of a limit that refused comes from the same number as
 * Retry-After. */
struct weir_quota_field {
    const char *name;   /* of the limit                                                  */
    uint64_t quota;     /* q: what can be spent at once when nothing is spent            */
    uint64_t window_us; /* w: the time in which q fills                                  */
    uint64_t remaining; /* r: ≤ quota                                                    */
    uint64_t after_us;  /* t: until it is full again, or, refused, until one more passes */
    bool refused;
    const char *unit; /* qu: what q counts, all of it in this moment: then only q and the name hold,
                       * and draft-11's policy alone has it; NULL: requests in a window         */

    /* What weir_ratelimit_prepare() wrote of it; at NULL: nothing. */
    struct weir_text policy_item, item_head;
};

/* The limits of a check, and what they are not about: requests at once. */
#define WEIR_FIELDS_SHOWN_MAX 9

/* One header line to send; texts live in the buffer that was given. */
struct weir_field_line {
    const char *name;
    const char *value; /* NUL-terminated */
};

#define WEIR_FIELD_LINES_MAX 12

/* Writes what draft-11 says of a limit in every response: its item in the policy, and the beginning of
 * that in RateLimit. False: it does not fit, or cannot stand in a field. Pure. */
bool weir_ratelimit_prepare(const struct weir_quota_field *limit, struct weir_buffer *policy_item,
                            struct weir_buffer *item_head);

/* Writes the lines of all `forms` (enum weir_header_form, or-ed) for 1 to 9 limits; returns how many
 * lines there are, 0 if `memory` is too small or a name cannot stand in a field. draft-11 lists every
 * limit; the others show one: of those that refused the one with the longest wait, else the one with
 * the least remaining, and of equals the longest window. `clamp` lowers r to what the window's share
 * of t allows (draft-11, section 8). `now_us` is the wall clock, for the legacy form's epoch reset.
 * Pure. */
size_t weir_ratelimit_lines(unsigned forms, bool clamp, const struct weir_quota_field *limits,
                            size_t count, uint64_t now_us, struct weir_buffer *memory,
                            struct weir_field_line lines[WEIR_FIELD_LINES_MAX]);

/* Microseconds as whole seconds, rounded up. */
uint64_t weir_seconds_up(uint64_t us);

#endif
