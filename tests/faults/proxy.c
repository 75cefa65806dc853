/* A bad line to Redis: a TCP proxy whose faults are switched on and off from standard input.
 *
 *     fault_proxy --to unix:PATH|HOST:PORT
 *
 * Prints "listening on PORT", then takes one command a line and answers each with "ok":
 *
 *     pass             hand everything on as it comes (how it starts)
 *     delay MS         hand every piece on so much later, both ways
 *     split            send replies byte by byte, each in a packet of its own
 *     truncate N       end a connection in good order after N bytes of replies
 *     reset N          break it off (RST) there instead
 *     swallow          take what is sent, hand nothing on: a half-open connection
 *     blackhole        read nothing, and take no new connections: a peer that is gone
 *     drop             break off (RST) all connections that there are
 *     to WHERE         send new connections elsewhere
 *     connections      answers "ok N": how many were taken so far
 *
 * N counts from the command for the connections that there are, and from their start for later
 * ones. It ends when its standard input does. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PAIRS_MAX   64
#define PIECE_BYTES 16384
#define QUEUE_MAX   4096 /* pieces that a delay keeps, of all connections */

enum mode { PASS, DELAY, SPLIT, TRUNCATE, RESET, SWALLOW, BLACKHOLE };

enum way { TO_SERVER, TO_CLIENT };

/* A connection from a client, and the one to the server that belongs to it. */
struct pair {
    bool is_used;
    uint64_t number; /* another one for each, so that late pieces do not meet a successor */
    int ends[2];     /* by the way that leads there                                       */
    size_t replied;  /* bytes of replies since the mode was set                           */
};

/* What is kept until its time has come. */
struct piece {
    uint64_t due_ms;
    size_t pair;
    uint64_t number;
    enum way way;
    size_t length;
    char *bytes;
};

static struct {
    enum mode mode;
    size_t argument; /* ms or bytes */
    char where[200];
    int listener;
    struct pair pairs[PAIRS_MAX];
    uint64_t taken;
    struct piece
        queue[QUEUE_MAX]; /* in the order in which they came, which is that of their times */
    size_t first;
    size_t queued;
} proxy;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* connections */

static int connect_unix(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%.107s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_tcp(const char *where)
{
    char host[64];
    const char *colon = strrchr(where, ':');
    snprintf(host, sizeof host, "%.*s", colon == NULL ? 0 : (int)(colon - where), where);
    struct sockaddr_in address = { .sin_family = AF_INET };
    if (colon == NULL || inet_pton(AF_INET, host, &address.sin_addr) != 1)
        return -1;
    address.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_to_server(void)
{
    return strncmp(proxy.where, "unix:", 5) == 0 ? connect_unix(proxy.where + 5)
                                                 : connect_tcp(proxy.where);
}

/* Closes a socket with a reset instead of an end. */
static void break_off(int fd)
{
    const struct linger none = { .l_onoff = 1, .l_linger = 0 };
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(fd);
}

static void end_pair(struct pair *pair, bool with_reset)
{
    if (!pair->is_used)
        return;
    pair->is_used = false;
    close(pair->ends[TO_SERVER]);
    if (with_reset)
        break_off(pair->ends[TO_CLIENT]);
    else
        close(pair->ends[TO_CLIENT]);
}

static struct pair *free_pair(void)
{
    for (size_t i = 0; i < PAIRS_MAX; i++)
        if (!proxy.pairs[i].is_used)
            return &proxy.pairs[i];
    return NULL;
}

static void take_connection(void)
{
    const int on = 1;
    int client = accept4(proxy.listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    struct pair *pair = free_pair();
    int server = pair == NULL ? -1 : connect_to_server();
    if (pair == NULL || server < 0) {
        close(client); /* nobody is there: the client sees the end at once */
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *pair = (struct pair){ .is_used = true, .number = ++proxy.taken };
    pair->ends[TO_CLIENT] = client;
    pair->ends[TO_SERVER] = server;
}

/* handing on */

static bool send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

static bool send_split(int fd, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!send_all(fd, bytes + i, 1))
            return false;
        /* Long enough for the other side to be woken by this byte alone. */
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    }
    return true;
}

static void keep(size_t index, enum way way, const char *bytes, size_t length)
{
    if (proxy.queued == QUEUE_MAX) {
        end_pair(&proxy.pairs[index], true);
        return;
    }
    struct piece *piece = &proxy.queue[(proxy.first + proxy.queued++) % QUEUE_MAX];
    *piece = (struct piece){ .due_ms = now_ms() + proxy.argument,
                             .pair = index,
                             .number = proxy.pairs[index].number,
                             .way = way,
                             .length = length,
                             .bytes = malloc(length) };
    if (piece->bytes == NULL)
        die("malloc");
    memcpy(piece->bytes, bytes, length);
}

/* Replies up to the byte at which the connection is to end. */
static void cut(struct pair *pair, const char *bytes, size_t length)
{
    size_t left = proxy.argument > pair->replied ? proxy.argument - pair->replied : 0;
    if (length < left) {
        pair->replied += length;
        send_all(pair->ends[TO_CLIENT], bytes, length);
        return;
    }
    send_all(pair->ends[TO_CLIENT], bytes, left);
    end_pair(pair, proxy.mode == RESET);
}

static void hand_on(size_t index, enum way way, const char *bytes, size_t length)
{
    struct pair *pair = &proxy.pairs[index];
    bool is_fine = true;
    bool is_reply = way == TO_CLIENT;
    if (proxy.mode == SWALLOW)
        return;
    /* What comes behind something that is kept must wait its turn. */
    if (proxy.mode == DELAY || proxy.queued > 0)
        keep(index, way, bytes, length);
    else if (proxy.mode == SPLIT && is_reply)
        is_fine = send_split(pair->ends[way], bytes, length);
    else if ((proxy.mode == TRUNCATE || proxy.mode == RESET) && is_reply)
        cut(pair, bytes, length);
    else
        is_fine = send_all(pair->ends[way], bytes, length);
    if (!is_fine)
        end_pair(pair, false);
}

static void hand_on_due(void)
{
    while (proxy.queued > 0 && proxy.queue[proxy.first].due_ms <= now_ms()) {
        struct piece *piece = &proxy.queue[proxy.first];
        struct pair *pair = &proxy.pairs[piece->pair];
        bool is_there = pair->is_used && pair->number == piece->number;
        if (is_there && !send_all(pair->ends[piece->way], piece->bytes, piece->length))
            end_pair(pair, false);
        free(piece->bytes);
        proxy.first = (proxy.first + 1) % QUEUE_MAX;
        proxy.queued--;
    }
}

/* `from` is the end whose bytes go the given way. */
static void carry(size_t index, int from, enum way way)
{
    char bytes[PIECE_BYTES];
    ssize_t got = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0)
        hand_on(index, way, bytes, (size_t)got);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        end_pair(&proxy.pairs[index], got < 0);
}

/* commands */

static bool set_mode(const char *name, size_t argument)
{
    static const char *const names[] = {
        [PASS] = "pass",   [DELAY] = "delay",     [SPLIT] = "split",        [TRUNCATE] = "truncate",
        [RESET] = "reset", [SWALLOW] = "swallow", [BLACKHOLE] = "blackhole"
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        proxy.mode = (enum mode)i;
        proxy.argument = argument;
        for (size_t pair = 0; pair < PAIRS_MAX; pair++)
            proxy.pairs[pair].replied = 0;
        return true;
    }
    return false;
}

static void drop_all(void)
{
    for (size_t i = 0; i < PAIRS_MAX; i++)
        end_pair(&proxy.pairs[i], true);
}

static void obey(char *line)
{
    char *save = NULL;
    const char *name = strtok_r(line, " \n", &save);
    const char *argument = strtok_r(NULL, "\n", &save);
    if (name == NULL)
        return;
    if (strcmp(name, "connections") == 0)
        printf("ok %llu\n", (unsigned long long)proxy.taken);
    else if (strcmp(name, "drop") == 0)
        drop_all(), printf("ok\n");
    else if (strcmp(name, "to") == 0 && argument != NULL)
        snprintf(proxy.where, sizeof proxy.where, "%s", argument), printf("ok\n");
    else if (set_mode(name, argument == NULL ? 0 : strtoul(argument, NULL, 10)))
        printf("ok\n");
    else
        printf("there is no such command\n");
    fflush(stdout);
}

/* running */

static void listen_somewhere(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    proxy.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (proxy.listener < 0 || bind(proxy.listener, (const struct sockaddr *)&address, size) != 0
        || listen(proxy.listener, 16) != 0
        || getsockname(proxy.listener, (struct sockaddr *)&address, &size) != 0)
        die("listen");
    printf("listening on %u\n", (unsigned)ntohs(address.sin_port));
    fflush(stdout);
}

static int wait_ms(void)
{
    if (proxy.queued == 0)
        return -1;
    uint64_t now = now_ms(), due = proxy.queue[proxy.first].due_ms;
    return due > now ? (int)(due - now) : 0;
}

/* One round: commands, a new connection, then the two ends of each pair. */
static bool run_round(void)
{
    struct pollfd polled[2 + 2 * PAIRS_MAX];
    bool is_deaf = proxy.mode == BLACKHOLE;
    polled[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
    polled[1] = (struct pollfd){ .fd = is_deaf ? -1 : proxy.listener, .events = POLLIN };
    uint64_t numbers[PAIRS_MAX];
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        const struct pair *pair = &proxy.pairs[i];
        bool is_heard = pair->is_used && !is_deaf;
        numbers[i] = pair->number;
        for (size_t way = 0; way < 2; way++)
            polled[2 + 2 * i + way] =
                (struct pollfd){ .fd = is_heard ? pair->ends[way] : -1, .events = POLLIN };
    }
    if (poll(polled, 2 + 2 * PAIRS_MAX, wait_ms()) < 0 && errno != EINTR)
        die("poll");
    hand_on_due();
    for (size_t i = 0; i < PAIRS_MAX; i++)
        for (size_t way = 0; way < 2; way++)
            if (polled[2 + 2 * i + way].revents != 0 && proxy.pairs[i].is_used
                && proxy.pairs[i].number == numbers[i])
                carry(i, polled[2 + 2 * i + way].fd, way == TO_SERVER ? TO_CLIENT : TO_SERVER);
    if (polled[1].revents != 0)
        take_connection();
    if (polled[0].revents == 0)
        return true;
    char line[300];
    if (fgets(line, sizeof line, stdin) == NULL)
        return false;
    obey(line);
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "--to") != 0) {
        fprintf(stderr, "usage: fault_proxy --to unix:PATH|HOST:PORT\n");
        return 2;
    }
    snprintf(proxy.where, sizeof proxy.where, "%s", argv[2]);
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdin, NULL, _IONBF, 0);
    listen_somewhere();
    while (run_round())
        continue;
    drop_all();
    for (; proxy.queued > 0; proxy.queued--, proxy.first = (proxy.first + 1) % QUEUE_MAX)
        free(proxy.queue[proxy.first].bytes);
    return 0;
}
