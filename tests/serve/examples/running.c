#include "running.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned flags;
    int pool;
} modes[] = {
    { "epoll", MHD_USE_EPOLL_INTERNAL_THREAD, 0 },
    /* libmicrohttpd 1.0 forgets resumed connections when it calls select() (docs/threads.md). */
    { "select", MHD_USE_INTERNAL_POLLING_THREAD | (MHD_VERSION < 0x01000000 ? 0 : MHD_USE_POLL),
      0 },
    { "pool", MHD_USE_EPOLL_INTERNAL_THREAD, 4 },
    { "threads", MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0 },
    { "external", MHD_NO_FLAG, 0 },
};

static bool set_mode(struct running *running, const char *name)
{
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(modes[i].name, name) != 0)
            continue;
        running->flags = modes[i].flags | MHD_USE_ERROR_LOG;
        running->is_external = modes[i].flags == MHD_NO_FLAG;
        running->address = (struct sockaddr_in){ .sin_family = AF_INET,
                                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        size_t count = 0;
        running->options[count++] =
            (struct MHD_OptionItem){ MHD_OPTION_SOCK_ADDR, 0, &running->address };
        if (modes[i].pool > 0)
            running->options[count++] =
                (struct MHD_OptionItem){ MHD_OPTION_THREAD_POOL_SIZE, modes[i].pool, NULL };
        running->options[count] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
        return true;
    }
    return false;
}

static sigset_t stop_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    return signals;
}

bool running_read(struct running *running, int argc, char **argv)
{
    *running = (struct running){ .folder = ".", .wake_fd = -1 };
    bool makes_sense = set_mode(running, "epoll");
    for (int i = 1; i + 1 < argc && makes_sense; i += 2) {
        if (strcmp(argv[i], "--mode") == 0)
            makes_sense = set_mode(running, argv[i + 1]);
        else if (strcmp(argv[i], "--folder") == 0)
            running->folder = argv[i + 1];
        else if (strcmp(argv[i], "--policy") == 0)
            running->policy = argv[i + 1];
        else
            makes_sense = false;
    }
    if (!makes_sense || argc % 2 == 0) {
        fprintf(stderr, "usage: %s [--mode MODE] [--folder DIR] [--policy FILE]\n", argv[0]);
        return false;
    }

    /* Before any thread is started, so that all of them leave these signals to running_wait(). */
    const sigset_t signals = stop_signals();
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    return true;
}

static bool announce(struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info =
        daemon == NULL ? NULL : MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (info == NULL) {
        fprintf(stderr, "libmicrohttpd did not start.\n");
        return false;
    }
    printf("listening on http://127.0.0.1:%u\n", (unsigned)info->port);
    fflush(stdout);
    return true;
}

static void watch(int fd, fd_set *readable, int *highest)
{
    if (fd < 0)
        return;
    FD_SET(fd, readable);
    if (fd > *highest)
        *highest = fd;
}

bool running_round(const struct running *running, struct MHD_Daemon *daemon, int also_fd,
                   unsigned longest_ms)
{
    fd_set readable, writable, broken;
    FD_ZERO(&readable);
    FD_ZERO(&writable);
    FD_ZERO(&broken);
    int highest = -1;
    MHD_get_fdset(daemon, &readable, &writable, &broken, &highest);
    watch(also_fd, &readable, &highest);
    watch(running->wake_fd, &readable, &highest);

    MHD_UNSIGNED_LONG_LONG wait_ms = longest_ms;
    if (MHD_get_timeout(daemon, &wait_ms) == MHD_NO || wait_ms > longest_ms)
        wait_ms = longest_ms;
    struct timeval wait = { .tv_sec = (time_t)(wait_ms / 1000),
                            .tv_usec = (suseconds_t)(wait_ms % 1000) * 1000 };
    if (select(highest + 1, &readable, &writable, &broken, &wait) < 0) {
        FD_ZERO(&readable);
        FD_ZERO(&writable);
        FD_ZERO(&broken);
    }
    /* Before MHD_run_from_select(): a wake that comes later makes it readable again. */
    if (running->wake_fd >= 0 && FD_ISSET(running->wake_fd, &readable))
        running->wake_clear(running->chain);
    MHD_run_from_select(daemon, &readable, &writable, &broken);
    return also_fd >= 0 && FD_ISSET(also_fd, &readable);
}

bool running_wait(const struct running *running, struct MHD_Daemon *daemon)
{
    if (!announce(daemon))
        return false;
    const sigset_t signals = stop_signals();
    if (!running->is_external) {
        int signal_number;
        sigwait(&signals, &signal_number);
        return true;
    }
    int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
    while (!running_round(running, daemon, signal_fd, 60000))
        continue;
    close(signal_fd);
    return true;
}
