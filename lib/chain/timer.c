#include "chain/timer.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* One round of weir_timer_sleep() tells of at most so many. */
#define EVENTS_MAX 64

static bool add(const struct weir_timer *timer, int fd, uint32_t events, uint64_t number)
{
    struct epoll_event event = { .events = events, .data.u64 = number };
    return epoll_ctl(timer->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool weir_timer_open(struct weir_timer *timer)
{
    timer->armed_us = WEIR_TIMER_NEVER;
    timer->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    timer->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer->epoll_fd >= 0 && timer->timer_fd >= 0 && add(timer, timer->timer_fd, EPOLLIN, 0))
        return true;
    weir_timer_close(timer);
    return false;
}

void weir_timer_close(struct weir_timer *timer)
{
    if (timer->epoll_fd >= 0)
        close(timer->epoll_fd);
    if (timer->timer_fd >= 0)
        close(timer->timer_fd);
    timer->epoll_fd = timer->timer_fd = -1;
}

void weir_timer_arm(struct weir_timer *timer, uint64_t due_us)
{
    if (timer->armed_us == due_us)
        return;
    struct itimerspec setting = { 0 }; /* which disarms */
    if (due_us != WEIR_TIMER_NEVER) {
        /* A moment of 0 would disarm, too. */
        due_us = due_us == 0 ? 1 : due_us;
        setting.it_value = (struct timespec){ .tv_sec = (time_t)(due_us / 1000000),
                                              .tv_nsec = (long)(due_us % 1000000) * 1000 };
    }
    if (timerfd_settime(timer->timer_fd, TFD_TIMER_ABSTIME, &setting, NULL) == 0)
        timer->armed_us = due_us;
}

bool weir_timer_watch(struct weir_timer *timer, int socket, uint64_t number)
{
    return socket >= 0 && add(timer, socket, EPOLLRDHUP, number);
}

void weir_timer_unwatch(struct weir_timer *timer, int socket)
{
    if (socket >= 0)
        epoll_ctl(timer->epoll_fd, EPOLL_CTL_DEL, socket, NULL);
}

static void clear_bell(const struct weir_timer *timer)
{
    uint64_t times;
    ssize_t got = read(timer->timer_fd, &times, sizeof times);
    (void)got;
}

size_t weir_timer_sleep(struct weir_timer *timer, uint64_t *numbers, size_t size)
{
    struct epoll_event events[EVENTS_MAX];
    int max = size < EVENTS_MAX ? (int)size : EVENTS_MAX;
    int count = epoll_wait(timer->epoll_fd, events, max, -1);
    size_t written = 0;
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 == 0)
            clear_bell(timer);
        else
            numbers[written++] = events[i].data.u64;
    }
    return written;
}
