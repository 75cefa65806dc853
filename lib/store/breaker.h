/* Decides when a store is asked, and when it is tried again. Pure: it knows no clock, no socket. */
#ifndef WEIR_STORE_BREAKER_H
#define WEIR_STORE_BREAKER_H

#include <weir/store.h>

/* So many checks in a row without an answer mean that nobody is there. */
#define WEIR_BREAKER_TIMEOUTS 5

#define WEIR_BREAKER_PAUSE_MIN_US UINT64_C(50000)
#define WEIR_BREAKER_PAUSE_MAX_US UINT64_C(800000)

/* A connection that has lasted so long may be trusted to come back. */
#define WEIR_BREAKER_LASTING_US UINT64_C(1000000)

/* Times are of weir_monotonic_us(). */
struct weir_breaker {
    enum weir_breaker_state state;
    unsigned timeouts;     /* in a row                                        */
    uint64_t timeout_us;   /* the first of them                               */
    bool has_answered;     /* a check, since it was closed                    */
    uint64_t pause_us;     /* the last one, before jitter                     */
    uint64_t try_at_us;    /* if OPEN                                         */
    uint64_t closed_at_us; /* if CLOSED: since when                        */
    uint64_t random;       /* state of the jitter, never 0                    */
};

/* `seed` is any number, another one in each process: they must not all try at once. */
void weir_breaker_init(struct weir_breaker *breaker, uint64_t seed);

/* Checks are to be taken. */
bool weir_breaker_lets_through(const struct weir_breaker *breaker);

/* Whether the first state is farther from CLOSED than the other. */
bool weir_breaker_is_worse(enum weir_breaker_state state, enum weir_breaker_state other);

/* It is time for a try, which begins with weir_breaker_try(). */
bool weir_breaker_is_due(const struct weir_breaker *breaker, uint64_t now_us);
void weir_breaker_try(struct weir_breaker *breaker);

/* Another server takes the place of the one that was asked: its first try is under way. */
void weir_breaker_start_anew(struct weir_breaker *breaker);

/* How the try ended; `failed` also stands for a connection that is lost later. The first try after
 * a connection that lasted, and gave answers, comes at once. After that the pauses double, from 50
 * ms to 0.8 s, and each is cut by up to half at random. */
void weir_breaker_succeeded(struct weir_breaker *breaker, uint64_t now_us);
void weir_breaker_failed(struct weir_breaker *breaker, uint64_t now_us);

/* The state is CLOSED, and has been for that long. */
bool weir_breaker_lasts(const struct weir_breaker *breaker, uint64_t now_us);

/* A check was answered in time. */
void weir_breaker_answered(struct weir_breaker *breaker);

/* A check met its deadline; true: that was one too many. Checks that were sent together are late
 * together, so it also takes `least_us` since the first one in a row: else a busy moment of the
 * server's or ours would cost the connection. While starting this opens the breaker without ending
 * the try; otherwise the caller ends the connection and says weir_breaker_failed(). */
bool weir_breaker_timed_out(struct weir_breaker *breaker, uint64_t now_us, uint64_t least_us);

#endif
