#include "chain/mhd_worker.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* A full daemon does not watch the socket that it listens on, by which find_events() knows it. */
#define AGAIN_US UINT64_C(1000000)

unsigned weir_mhd_daemon_flags(struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_FLAGS);
    return info == NULL ? 0 : (unsigned)info->flags;
}

const char *weir_mhd_in_place_fault(unsigned flags)
{
    if ((flags & MHD_USE_THREAD_PER_CONNECTION) != 0)
        return "The daemon has a thread for each connection: start it with "
               "MHD_USE_EPOLL_INTERNAL_THREAD, without MHD_USE_THREAD_PER_CONNECTION.";
    if ((flags & MHD_USE_INTERNAL_POLLING_THREAD) == 0)
        return "The daemon is polled by the program's own loop: start it with "
               "MHD_USE_EPOLL_INTERNAL_THREAD, or let weir_serve() have the loop.";
    if ((flags & MHD_USE_EPOLL) == 0)
        return "The daemon does not use epoll: start it with MHD_USE_EPOLL_INTERNAL_THREAD.";
    if ((flags & MHD_USE_TLS) != 0)
        return "The daemon speaks TLS, which keeps bytes where nobody can wait for them: leave TLS "
               "to "
               "a proxy, or take WEIR_WAIT_AUTO.";
    if (!weir_mhd_probe())
        return "This libmicrohttpd does not do what staying in place rests on: take "
               "WEIR_WAIT_AUTO.";
    return NULL;
}

/* the worker's descriptor */

/* True if the epoll instance with that number, of /proc, watches both. */
static bool watches(const char *number, int connection, int listener)
{
    char path[64], line[128];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%.20s", number);
    FILE *file = fopen(path, "re");
    bool has_connection = false, has_listener = false;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        int watched;
        if (sscanf(line, "tfd: %d", &watched) != 1)
            continue;
        has_connection = has_connection || watched == connection;
        has_listener = has_listener || watched == listener;
    }
    if (file != NULL)
        fclose(file);
    return has_connection && has_listener;
}

static bool is_epoll(DIR *folder, const char *name)
{
    static const char kind[] = "anon_inode:[eventpoll]";
    char link[sizeof kind] = "";
    return readlinkat(dirfd(folder), name, link, sizeof link - 1) == sizeof kind - 1
           && strcmp(link, kind) == 0;
}

/* The system knows which epoll instance watches the connection and the socket that the daemon listens
 * on: that is its worker's (proc(5)). -1: it does not say. */
static int find_events(int connection, int listener)
{
    DIR *folder = opendir("/proc/self/fd");
    int found = -1;
    const struct dirent *entry;
    while (folder != NULL && found == -1 && (entry = readdir(folder)) != NULL)
        if (is_epoll(folder, entry->d_name) && watches(entry->d_name, connection, listener))
            found = (int)strtol(entry->d_name, NULL, 10);
    if (folder != NULL)
        closedir(folder);
    return found;
}

/* Of a pool, libmicrohttpd 0.9.75 names the worker that serves a connection, and has its descriptor;
 * 1.0.1 names the pool, which has none. */
int weir_mhd_events(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_DAEMON);
    struct MHD_Daemon *daemon = info == NULL ? NULL : info->daemon;
    if (daemon == NULL)
        return -1;
    const union MHD_DaemonInfo *own = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (own != NULL && own->epoll_fd >= 0)
        return own->epoll_fd;
    const union MHD_DaemonInfo *listening = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_LISTEN_FD);
    int listener = listening == NULL ? -1 : listening->listen_fd;
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info == NULL || listener < 0 ? -1 : find_events(info->connect_fd, listener);
}

/* the worker */

static struct weir_worker *worker_of(struct weir_chain *chain, struct MHD_Daemon *daemon,
                                     struct MHD_Connection *connection)
{
    unsigned flags = weir_mhd_daemon_flags(daemon);
    if ((flags & MHD_USE_INTERNAL_POLLING_THREAD) == 0)
        return weir_in_place_loop(chain, daemon);
    if (weir_mhd_in_place_fault(flags) != NULL)
        return NULL;
    int events = weir_mhd_events(connection);
    return events >= 0 ? weir_in_place_worker(chain, daemon, events, false) : NULL;
}

struct weir_worker *weir_mhd_worker(struct weir_chain *chain, struct MHD_Connection *connection)
{
    /* A thread serves one daemon at a time, and most often one chain. */
    static _Thread_local struct {
        uint64_t chain; /* its serial number: another chain may stand where this one stood */
        struct MHD_Daemon *daemon;
        struct weir_worker *worker;
        uint64_t again_us; /* without a worker: then it is looked for once more */
    } last;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_DAEMON);
    if (info == NULL)
        return NULL;
    bool is_known = last.chain == chain->in_place.serial && last.daemon == info->daemon;
    if (is_known && (last.worker != NULL || weir_monotonic_us() < last.again_us))
        return last.worker;

    last.chain = chain->in_place.serial;
    last.daemon = info->daemon;
    last.again_us = weir_monotonic_us() + AGAIN_US;
    last.worker = worker_of(chain, info->daemon, connection);
    return last.worker;
}
