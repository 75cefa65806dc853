/* weir: how a client of a limited service waits before it tries again. docs/clients.md has a loop
 * around it. Nothing here needs the rest of the library, or keeps anything outside of the caller's
 * struct. */
#ifndef WEIR_BACKOFF_H
#define WEIR_BACKOFF_H

#include <weir/common.h>
#include <weir/error.h>

/* Zero in any field means its default. No time is longer than 366 days. */
struct weir_backoff_options {
    size_t size;                    /* set by WEIR_BACKOFF_OPTIONS                           */
    uint64_t base_us;               /* the shortest pause; 0: 100 ms                         */
    uint64_t cap_us;                /* the longest, where the server asks for none; 0: 20 s  */
    uint64_t retry_after_max_us;    /* a longer Retry-After counts as this; 0: 6 hours       */
    uint64_t deadline_us;           /* no attempt begins later than so long after
                                     * weir_backoff_start(); 0: none                         */
    uint32_t attempts;              /* in all, with the first; 0: 5; UINT32_MAX: no end      */
    uint64_t seed;                  /* of the random numbers, for tests; 0: one is drawn     */
    const struct weir_clock *clock; /* for the deadline and for dates; copied; NULL: the
                                     * system's, and for the deadline one that goes forward
                                     * only                                                  */
    /* New fields go here, at the end; none is ever removed or reordered. */
};

#define WEIR_BACKOFF_OPTIONS(...)                                                                  \
    (&(const struct weir_backoff_options){ .size = sizeof(struct weir_backoff_options),            \
                                           __VA_ARGS__ })

/* One series of attempts at one thing, in the caller's memory; there is nothing to free. What is in it
 * is the library's. Different threads may use different ones at once; after a fork, start anew, or
 * both processes draw the same pauses. */
struct weir_backoff {
    uint64_t base_us, cap_us, retry_after_max_us;
    uint64_t ends_us; /* on the deadline's clock */
    uint64_t previous_us;
    uint64_t random;
    uint64_t attempts, attempts_max;
    struct weir_clock clock; /* now_us at NULL: the system's */
    uint64_t reserved[4];
};

/* Begins a series; call it before the first attempt. `options` NULL: all defaults. Errors:
 * WEIR_E_ARGUMENT; WEIR_E_VALUE: a base above the cap, or a time above 366 days; WEIR_E_SYSTEM: no
 * random numbers. */
WEIR_API enum weir_code weir_backoff_start(struct weir_backoff *backoff,
                                           const struct weir_backoff_options *options,
                                           struct weir_error *error);

/* An attempt has failed in a way that may pass (429, 503, no connection): fills how long to wait before
 * the next one. False: give up; the attempts are used up, or the next one would begin too late.
 *
 * `retry_after` is the value of the reply's Retry-After line; NULL, or what is no such value: the server
 * says nothing. Then the pause is
 *
 *     min(cap, random(base, 3 × previous pause)), and "previous" of the first is the base:
 *
 * "decorrelated jitter" (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
 * Where the server asks for R, it is never shorter than that, and those who were told the same come
 * back apart:
 *
 *     R + random(0, min(cap, 3 × the longer of R and the previous pause))
 *
 * Never blocks. */
WEIR_API WEIR_MUST_CHECK bool weir_backoff_next(struct weir_backoff *backoff,
                                                const char *retry_after, uint64_t *pause_us);

/* How long a Retry-After line asks to wait from `now_us` (since 1970, for dates): in seconds, or as one
 * of the three forms of an HTTP-date (RFC 9110, sections 5.6.7 and 10.2.3), with blanks around it.
 * A time that is over, or a number below zero, is no wait; one of more than 71 years is cut to that.
 * False: it is neither. Thread-safe: pure. */
WEIR_API bool weir_retry_after_read(const char *value, uint64_t now_us, uint64_t *wait_us);

#endif
