#include "tools/progress.h"

#include <stdio.h>

#include "tools/tool.h"

#define BAR_CHARS  30
#define STEPS      200     /* of a bar, from nothing to all     */
#define COUNT_STEP 0x10000 /* where nobody knows how much it is */

struct weir_progress weir_progress_begin(const char *what, uint64_t total)
{
    struct weir_progress progress = { .what = what,
                                      .total = total,
                                      .is_shown = weir_tool_is_terminal(stderr) };
    weir_progress_step(&progress, 0);
    return progress;
}

void weir_progress_show(struct weir_progress *progress, uint64_t done)
{
    if (progress->total == 0) {
        fprintf(stderr, "\r%s %llu", progress->what, (unsigned long long)done);
        progress->next = done + COUNT_STEP;
    } else {
        /* A file may have grown since it was measured. */
        uint64_t shown = done < progress->total ? done : progress->total;
        int filled = (int)(shown * BAR_CHARS / progress->total);
        fprintf(stderr, "\r%s [%.*s%*s] %3u %%", progress->what, filled,
                "##############################", BAR_CHARS - filled, "",
                (unsigned)(shown * 100 / progress->total));
        progress->next = done + progress->total / STEPS + 1;
    }
    fflush(stderr);
}

void weir_progress_end(struct weir_progress *progress)
{
    if (progress->is_shown)
        fputs("\r\033[K", stderr);
    progress->is_shown = false;
}
