/* What `weir simulate` has found out, and the ways to say it. */
#ifndef WEIR_TOOLS_SIMULATE_H
#define WEIR_TOOLS_SIMULATE_H

#include <jansson.h>

#include "tools/simulate_lines.h"
#include "tools/simulate_tally.h"

#define WEIR_NOTES_MAX  64
#define WEIR_NOTE_CHARS 320

struct weir_simulated {
    const char *file; /* of the policy */
    const struct weir_lines_state *lines;
    const struct weir_tally *tally;
    size_t top; /* how many of those who were refused most are told */

    /* What whoever reads the figures has to know besides. */
    char notes[WEIR_NOTES_MAX][WEIR_NOTE_CHARS];
    size_t note_count;
};

void weir_simulate_note(struct weir_simulated *simulated, const char *format, ...)
    WEIR_PRINTF(2, 3);

/* "2026-03-04T05:06:07Z", with decimals of the second only where there are some. */
#define WEIR_MOMENT_CHARS 40
const char *weir_simulate_moment(uint64_t time_us, char text[WEIR_MOMENT_CHARS]);

/* Both print to standard output, and return an enum weir_tool_status. */
int weir_simulate_print(const struct weir_simulated *simulated);
int weir_simulate_print_json(const struct weir_simulated *simulated);

#endif
