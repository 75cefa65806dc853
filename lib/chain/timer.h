/* What a thread can sleep on: a moment, and clients that hang up. */
#ifndef WEIR_CHAIN_TIMER_H
#define WEIR_CHAIN_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Guarded by its owner, but for weir_timer_sleep(). */
struct weir_timer {
    int epoll_fd;
    int timer_fd;
    uint64_t armed_us; /* UINT64_MAX: it never rings */
};

#define WEIR_TIMER_NEVER UINT64_MAX

/* False: the system gave no descriptor. */
bool weir_timer_open(struct weir_timer *timer);
void weir_timer_close(struct weir_timer *timer);

/* Ends a sleep at `due_us` of weir_monotonic_us(), or never; at once if that is over. */
void weir_timer_arm(struct weir_timer *timer, uint64_t due_us);

/* Ends a sleep when the other end of `socket` has shut its sending side, or all of it; what it sends
 * does not matter. `number` says who it is, and is not 0. False: the system will not watch it. */
bool weir_timer_watch(struct weir_timer *timer, int socket, uint64_t number);

/* Has to come before the socket is closed, since its number is then given to another. */
void weir_timer_unwatch(struct weir_timer *timer, int socket);

/* Sleeps; returns how many clients hung up and writes their numbers, of whom some may be watched
 * no more. */
size_t weir_timer_sleep(struct weir_timer *timer, uint64_t *numbers, size_t size);

#endif
