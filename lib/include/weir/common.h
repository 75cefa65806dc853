/* weir: what every public header shares. */
#ifndef WEIR_COMMON_H
#define WEIR_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WEIR_API              __attribute__((visibility("default")))
#define WEIR_PRINTF(at, args) __attribute__((format(printf, at, args)))
#define WEIR_MUST_CHECK       __attribute__((warn_unused_result))
#else
#define WEIR_API
#define WEIR_PRINTF(at, args)
#define WEIR_MUST_CHECK
#endif

/* A clock in microseconds since the Unix epoch; NULL in an option means the system's.
 *
 * Tests bring their own to move time by hand. `now_us` may be called from any thread. */
struct weir_clock {
    uint64_t (*now_us)(void *self);
    void *self;
};

enum weir_level { WEIR_DEBUG, WEIR_INFO, WEIR_WARNING, WEIR_ERROR };

/* Where the library's lines go; all zero is silence, since the library never prints.
 *
 * `text` is one line without its end, borrowed for the call. `write` may be called from
 * any thread, several at once. No line holds an API key, a password or a body field. */
struct weir_log {
    void (*write)(void *self, enum weir_level level, const char *text);
    void *self;
};

#endif
