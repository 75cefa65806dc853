/* How far something has come, on a terminal. */
#ifndef WEIR_TOOLS_PROGRESS_H
#define WEIR_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* A bar on standard error, which is wiped away in the end; nothing where that is no terminal. */
struct weir_progress {
    const char *what;
    uint64_t total; /* 0: not known, and the count is shown instead of a bar */
    bool is_shown;
    uint64_t next; /* count at which there is something new to show */
};

struct weir_progress weir_progress_begin(const char *what, uint64_t total);

void weir_progress_show(struct weir_progress *progress, uint64_t done);

/* Called for each step: cheap. */
static inline void weir_progress_step(struct weir_progress *progress, uint64_t done)
{
    if (progress->is_shown && done >= progress->next)
        weir_progress_show(progress, done);
}

void weir_progress_end(struct weir_progress *progress);

#endif
