/* A daemon of our own with two connections, one of which makes the other wait. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "chain/mhd_worker.h"

/* On a machine that is busy with other things nothing of this is quick. */
#define PROBE_US UINT64_C(1000000)

/* The last call of each comes so often before it is answered. */
#define CALLS 3

/* libmicrohttpd calls the one of which it has heard for longest once more at the end of each round. */
#define IN_A_ROW 2

enum side { FIRST, SECOND, SIDES };

/* Only the daemon's thread writes it while it runs. */
struct probe {
    int clients[SIDES];
    unsigned calls[SIDES]; /* the last ones */
    enum side called;      /* the last time */
    unsigned in_a_row;
    bool has_asked; /* the second one's request was sent, while the first one waited   */
    bool is_woken;  /* …and the descriptor told of it                               */
    bool is_fair;   /* both were called in turns                                       */
    uint64_t until_us;
};

/* while it runs */

static int poll_for(int fd, uint64_t until_us)
{
    uint64_t now_us = weir_monotonic_us();
    int left_ms = now_us < until_us ? (int)((until_us - now_us) / 1000) + 1 : 0;
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    return poll(&polled, 1, left_ms);
}

static bool send_request(int client, const char *path)
{
    char text[64] = "GET ";
    strcat(strcat(text, path), " HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n");
    return send(client, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* False: something else is to be fetched first, such as that the second connection is there. */
static bool wait_for_second(struct probe *probe, struct MHD_Connection *connection)
{
    int events = weir_mhd_events(connection);
    if (events >= 0 && poll_for(events, 0) > 0)
        return false;
    probe->has_asked = true;
    probe->is_woken = events >= 0 && send_request(probe->clients[SECOND], "/2")
                      && poll_for(events, probe->until_us) > 0;
    return true;
}

static enum MHD_Result answer(struct MHD_Connection *connection)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result stay(struct probe *probe, struct MHD_Connection *connection, enum side side)
{
    bool is_late = weir_monotonic_us() > probe->until_us;
    if (side == FIRST && !probe->has_asked && !is_late && !wait_for_second(probe, connection))
        return MHD_YES;
    probe->in_a_row = probe->called == side ? probe->in_a_row + 1 : 1;
    if (probe->calls[SECOND] > 0 && probe->calls[SECOND] < CALLS && probe->in_a_row > IN_A_ROW)
        probe->is_fair = false;
    probe->called = side;
    probe->calls[side]++;
    bool goes_on = probe->calls[FIRST] >= CALLS && probe->calls[SECOND] >= CALLS;
    return goes_on || is_late ? answer(connection) : MHD_YES;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload_data,
                              size_t *upload_data_size, void **con_cls)
{
    (void)method;
    (void)version;
    (void)upload_data;
    (void)upload_data_size;
    bool is_first_call = *con_cls == NULL;
    *con_cls = cls;
    return is_first_call ? MHD_YES : stay(cls, connection, strcmp(url, "/2") == 0 ? SECOND : FIRST);
}

/* setting it up */

static bool add_connection(struct probe *probe, struct MHD_Daemon *daemon, enum side side)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    probe->clients[side] = pair[0];
    const struct sockaddr address = { .sa_family = AF_UNIX };
    /* The daemon closes its end, whatever comes of it. */
    return MHD_add_connection(daemon, pair[1], &address, sizeof address) == MHD_YES;
}

static bool is_answered(int client, uint64_t until_us)
{
    char start[sizeof "HTTP/1.1 200"] = "";
    return poll_for(client, until_us) > 0
           && recv(client, start, sizeof start - 1, MSG_DONTWAIT) == sizeof start - 1
           && strcmp(start, "HTTP/1.1 200") == 0;
}

static bool serve_both(struct probe *probe, struct MHD_Daemon *daemon)
{
    return add_connection(probe, daemon, FIRST) && add_connection(probe, daemon, SECOND)
           && send_request(probe->clients[FIRST], "/1")
           && is_answered(probe->clients[FIRST], probe->until_us)
           && is_answered(probe->clients[SECOND], probe->until_us);
}

/* Signals are for the threads of the application. */
static struct MHD_Daemon *start(struct probe *probe)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC, 0,
                         NULL, NULL, handle, probe, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

static bool does_what_it_takes;

static void try_out(void)
{
    struct probe probe = { .clients = { -1, -1 },
                           .called = SIDES,
                           .is_fair = true,
                           .until_us = weir_monotonic_us() + PROBE_US };
    if (MHD_is_feature_supported(MHD_FEATURE_EPOLL) != MHD_YES)
        return;
    struct MHD_Daemon *daemon = start(&probe);
    if (daemon == NULL)
        return;
    bool are_served = serve_both(&probe, daemon);
    MHD_stop_daemon(daemon);
    for (size_t i = 0; i < SIDES; i++)
        if (probe.clients[i] >= 0)
            close(probe.clients[i]);
    does_what_it_takes = are_served && probe.is_woken && probe.is_fair;
}

bool weir_mhd_probe(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, try_out);
    return does_what_it_takes;
}
