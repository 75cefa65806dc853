/* Decides when a store is asked, and when it is tried again. Pure: it knows no clock, no socket. */
#ifndef WEIR_STORE_BREAKER_H
#define WEIR_STORE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

/* So many checks in a row without an answer mean that nobody is there. */
#define WEIR_BREAKER_TIMEOUTS 5

#define WEIR_BREAKER_PAUSE_MIN_US UINT64_C(50000)
#define WEIR_BREAKER_PAUSE_MAX_US UINT64_C(1000000)

enum weir_breaker_state {
    WEIR_BREAKER_STARTING, /* the first try is under way: checks may wait for it    */
    WEIR_BREAKER_CLOSED,   /* the store answers                                     */
    WEIR_BREAKER_OPEN,     /* it does not: nothing is tried before `try_at_us`      */
    WEIR_BREAKER_PROBING   /* a try is under way: checks fail until it has succeeded */
};

/* Times are of weir_monotonic_us(). */
struct weir_breaker {
    enum weir_breaker_state state;
    unsigned timeouts;  /* in a row                                        */
    bool tries_at_once; /* answers came since the last failure             */
    uint64_t pause_us;  /* the last one, before jitter                     */
    uint64_t try_at_us; /* if OPEN                                         */
    uint64_t random;    /* state of the jitter, never 0                    */
};

/* `seed` is any number, another one in each process: they must not all try at once. */
void weir_breaker_init(struct weir_breaker *breaker, uint64_t seed);

/* Checks are to be taken. */
bool weir_breaker_lets_through(const struct weir_breaker *breaker);

/* It is time for a try, which begins with weir_breaker_try(). */
bool weir_breaker_is_due(const struct weir_breaker *breaker, uint64_t now_us);
void weir_breaker_try(struct weir_breaker *breaker);

/* How the try ended; `failed` also stands for a connection that is lost later. The first try after
 * a connection that gave answers comes at once. After that the pauses double, from 50 ms to 1 s,
 * and each is cut by up to half at random. */
void weir_breaker_succeeded(struct weir_breaker *breaker);
void weir_breaker_failed(struct weir_breaker *breaker, uint64_t now_us);

/* A check was answered in time. */
void weir_breaker_answered(struct weir_breaker *breaker);

/* A check met its deadline; true: that was one too many. While starting this opens the breaker
 * without ending the try; otherwise the caller ends the connection and says weir_breaker_failed(). */
bool weir_breaker_timed_out(struct weir_breaker *breaker);

#endif
