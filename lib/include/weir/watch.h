/* weir: reloads a policy when its file changes. docs/reload.md says which changes are seen. */
#ifndef WEIR_WATCH_H
#define WEIR_WATCH_H

#include <weir/limiter.h>

struct weir_watch;

struct weir_watch_options {
    size_t size;                  /* set by WEIR_WATCH_OPTIONS                              */
    struct weir_limiter *limiter; /* borrowed                                               */
    const char *file;             /* the policy's, copied; NULL: as in weir_policy_reload() */
    struct weir_log log;          /* copied; of what the limiter does not log itself        */
    uint32_t quiet_ms;            /* files are read when none has changed for so long, or after
                                   * ten times that; default 100                          */
    /* New fields go here, at the end; none is ever removed or reordered. */
};

#define WEIR_WATCH_OPTIONS(...)                                                                    \
    (&(const struct weir_watch_options){ .size = sizeof(struct weir_watch_options), __VA_ARGS__ })

/* From now on calls weir_policy_reload() when the file, one that it includes, or its keys file is
 * written, replaced, deleted or there again; on a thread of its own, with inotify on their folders.
 *
 * Errors: WEIR_E_ARGUMENT: no limiter, or no file is known; WEIR_E_SYSTEM: no inotify, no thread;
 * WEIR_E_MEMORY. */
WEIR_API enum weir_code weir_watch_new(const struct weir_watch_options *options,
                                       struct weir_watch **watch, struct weir_error *error);

/* Waits for a reload that is under way. Before weir_limiter_free(). Accepts NULL; returns NULL. */
WEIR_API struct weir_watch *weir_watch_free(struct weir_watch *watch);

#endif
