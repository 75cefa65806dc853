/* A steady load over kept connections, and what became of each request.
 *
 *     fault_load --port P [--key K] [--rate R] [--connections N] [--clients C] [--life L]
 *                [--seconds S] [--raw FILE] TARGET…
 *
 * Sends R requests a second in turn to the targets, "/path" or "/path+BYTES" for a POST with a body,
 * whether or not earlier ones were answered: each on a connection that waits for nothing. Its time
 * counts from when it is sent; but where all N connections wait, from when it was due. A # in the API
 * key stands for a number below C, each in turn; with --life a connection is left after so many
 * requests.
 *
 * It stops after S seconds, at SIGTERM, or when its standard input ends; then it waits for the
 * answers that are still missing, at most 30 s, and prints a line of JSON for each target. FILE gets
 * a line for each request:
 *
 *     time (s, CLOCK_MONOTONIC)  target  client  status (0: none came)  latency (µs)  remaining  Retry-After
 *
 * where -1 stands for a field that the answer did not have. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define TARGETS_MAX     8
#define CONNECTIONS_MAX 1000
#define BODY_MAX        65536
#define LAST_ANSWERS_NS UINT64_C(30000000000)

struct options {
    uint16_t port;
    const char *key;
    unsigned rate;
    unsigned connections;
    unsigned clients;
    unsigned life;
    unsigned seconds;
    const char *raw;
    const char *targets[TARGETS_MAX];
    size_t target_count;
};

struct connection {
    int fd; /* -1: none                                           */
    bool is_waiting;
    unsigned asked; /* requests since it was opened             */
    size_t target;  /* of the request that is waited for        */
    uint32_t client;
    uint64_t since_ns;
    size_t got;
    char bytes[4096]; /* of the answer                            */
};

struct record {
    uint64_t since_ns;
    uint32_t latency_us;
    uint32_t client;
    int32_t remaining;
    int16_t retry_s;
    uint16_t status;
    uint8_t target;
};

static struct {
    struct options options;
    struct connection connections[CONNECTIONS_MAX];
    struct record *records;
    size_t count;
    size_t room;
    uint64_t sent;
    size_t waiting;
    bool is_held_up; /* all connections wait, or did so when what is due now was due */
    uint64_t first_due_ns;
    int epoll;
    char body[BODY_MAX];
} load;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* what became of requests */

static struct record *add_record(void)
{
    if (load.count == load.room) {
        load.room = load.room == 0 ? 65536 : 2 * load.room;
        load.records = realloc(load.records, load.room * sizeof *load.records);
        if (load.records == NULL)
            die("realloc");
    }
    return &load.records[load.count++];
}

/* The number behind `before` in a header line that starts with `name`; -1: there is none. */
static long number_in(const char *head, const char *name, const char *before)
{
    const char *line = strcasestr(head, name);
    if (line == NULL)
        return -1;
    const char *number = strstr(line, before);
    const char *end = strstr(line + strlen(name), "\r\n");
    return number == NULL || number >= end ? -1 : strtol(number + strlen(before), NULL, 10);
}

static void finish(struct connection *connection, unsigned status)
{
    const char *head = status == 0 ? "" : connection->bytes;
    *add_record() = (struct record){
        .since_ns = connection->since_ns,
        .latency_us = (uint32_t)((now_ns() - connection->since_ns) / 1000),
        .client = connection->client,
        .remaining = (int32_t)number_in(head, "\r\nRateLimit:", ";r="),
        .retry_s = (int16_t)number_in(head, "\r\nRetry-After:", ": "),
        .status = (uint16_t)status,
        .target = (uint8_t)connection->target,
    };
    connection->is_waiting = false;
    load.waiting--;
}

/* connections */

static void leave(struct connection *connection)
{
    if (connection->is_waiting)
        finish(connection, 0);
    close(connection->fd);
    connection->fd = -1;
}

static bool enter(struct connection *connection)
{
    const struct sockaddr_in to = { .sin_family = AF_INET,
                                    .sin_port = htons(load.options.port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0)
        die("socket");
    connection->asked = 0;
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };
    if (connect(connection->fd, (const struct sockaddr *)&to, sizeof to) == 0
        && epoll_ctl(load.epoll, EPOLL_CTL_ADD, connection->fd, &event) == 0)
        return true;
    close(connection->fd);
    connection->fd = -1;
    return false;
}

/* requests */

static size_t body_length(const char *target)
{
    const char *plus = strchr(target, '+');
    size_t length = plus == NULL ? 0 : strtoul(plus + 1, NULL, 10);
    return length < BODY_MAX ? length : BODY_MAX;
}

static void write_key(char *to, size_t size, unsigned client)
{
    size_t before = strcspn(load.options.key, "#");
    if (load.options.key[before] == '\0')
        snprintf(to, size, "%s", load.options.key);
    else
        snprintf(to, size, "%.*s%u%s", (int)before, load.options.key, client,
                 load.options.key + before + 1);
}

static int write_head(char *head, size_t size, const char *target, unsigned client)
{
    char key[100], length[60] = "";
    size_t body = body_length(target);
    write_key(key, sizeof key, client);
    if (body > 0)
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", body);
    return snprintf(head, size, "%s %.*s HTTP/1.1\r\nHost: load\r\n%sX-API-Key: %s\r\n\r\n",
                    body > 0 ? "POST" : "GET", (int)strcspn(target, "+"), target, length, key);
}

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

static void send_request(struct connection *connection, uint64_t since_ns)
{
    connection->target = load.sent % load.options.target_count;
    connection->client = (uint32_t)(load.sent / load.options.target_count % load.options.clients);
    const char *target = load.options.targets[connection->target];
    connection->since_ns = since_ns;
    connection->got = 0;
    connection->is_waiting = true;
    load.waiting++;
    load.sent++;
    connection->asked++;
    char head[512];
    int length = write_head(head, sizeof head, target, connection->client);
    /* A server that refuses a body may close; what it said is read all the same. */
    if (send_all(connection->fd, head, (size_t)length))
        (void)send_all(connection->fd, load.body, body_length(target));
}

/* Each connection has its turn, so that all of them are used. */
static struct connection *find_idle(void)
{
    static unsigned turn;
    for (unsigned i = 0; i < load.options.connections; i++) {
        struct connection *connection = &load.connections[turn++ % load.options.connections];
        if (connection->is_waiting)
            continue;
        if (load.options.life > 0 && connection->asked >= load.options.life && connection->fd >= 0)
            leave(connection);
        if (connection->fd >= 0 || enter(connection))
            return connection;
    }
    return NULL;
}

static uint64_t due_ns(uint64_t number)
{
    return load.first_due_ns + number * 1000000000 / load.options.rate;
}

/* Sends all that is due by now. */
static void send_due(uint64_t until_ns)
{
    uint64_t now = now_ns();
    while (due_ns(load.sent) <= now && due_ns(load.sent) < until_ns) {
        struct connection *connection = find_idle();
        if (connection == NULL) {
            load.is_held_up = true;
            return;
        }
        send_request(connection, load.is_held_up ? due_ns(load.sent) : now_ns());
    }
    load.is_held_up = false;
}

/* answers */

/* The status of a whole answer; 0: it is not whole yet. */
static unsigned whole_status(struct connection *connection)
{
    connection->bytes[connection->got] = '\0';
    const char *end = strstr(connection->bytes, "\r\n\r\n");
    if (end == NULL)
        return 0;
    long body = number_in(connection->bytes, "\r\nContent-Length:", ": ");
    size_t have = connection->got - (size_t)(end + 4 - connection->bytes);
    if (body < 0 || have < (size_t)body)
        return 0;
    return (unsigned)strtoul(connection->bytes + strcspn(connection->bytes, " "), NULL, 10);
}

static bool says_close(const struct connection *connection)
{
    return strcasestr(connection->bytes, "\r\nConnection: close") != NULL;
}

static void on_readable(struct connection *connection)
{
    if (connection->fd < 0)
        return;
    size_t room = sizeof connection->bytes - 1 - connection->got;
    ssize_t got = recv(connection->fd, connection->bytes + connection->got, room, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0 || !connection->is_waiting) {
        leave(connection); /* its end, or an answer that nobody asked for */
        return;
    }
    connection->got += (size_t)got;
    unsigned status = whole_status(connection);
    if (status == 0)
        return;
    finish(connection, status);
    connection->got = 0;
    if (says_close(connection))
        leave(connection);
}

/* running */

/* Nothing can be sent while all connections wait; then an answer ends the wait. */
static void set_timer(int timer)
{
    uint64_t at_ns = load.is_held_up ? 0 : due_ns(load.sent);
    const struct itimerspec at = { .it_value = { .tv_sec = (time_t)(at_ns / 1000000000),
                                                 .tv_nsec = (long)(at_ns % 1000000000) } };
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
}

static void watch(int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
    /* A file or /dev/null as standard input cannot be watched, and does not end. */
    if (epoll_ctl(load.epoll, EPOLL_CTL_ADD, fd, &event) != 0 && errno != EPERM)
        die("epoll_ctl");
}

static int take_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

static void wait_for_news(void)
{
    struct epoll_event events[64];
    int count = epoll_wait(load.epoll, events, 64, 1000);
    for (int i = 0; i < count; i++)
        if (events[i].data.ptr != NULL)
            on_readable(events[i].data.ptr);
}

static bool is_ready(int fd)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    struct timeval none = { 0, 0 };
    return select(fd + 1, &set, NULL, NULL, &none) > 0;
}

/* With somebody at the other end of standard input its end means to stop. */
static bool input_ended(bool is_pipe)
{
    char byte;
    return is_pipe && is_ready(STDIN_FILENO) && read(STDIN_FILENO, &byte, 1) == 0;
}

static void run(void)
{
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int signals = take_signals();
    bool is_pipe = lseek(STDIN_FILENO, 0, SEEK_CUR) < 0 && errno == ESPIPE;
    watch(timer);
    watch(signals);
    if (is_pipe)
        watch(STDIN_FILENO);
    load.first_due_ns = now_ns();
    uint64_t until_ns = load.first_due_ns + load.options.seconds * UINT64_C(1000000000);
    while (now_ns() < until_ns && !is_ready(signals) && !input_ended(is_pipe)) {
        send_due(until_ns);
        set_timer(timer);
        wait_for_news();
    }
    close(timer);
    if (is_pipe)
        epoll_ctl(load.epoll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
    epoll_ctl(load.epoll, EPOLL_CTL_DEL, signals, NULL);
    for (uint64_t end_ns = now_ns() + LAST_ANSWERS_NS; load.waiting > 0 && now_ns() < end_ns;)
        wait_for_news();
    for (unsigned i = 0; i < load.options.connections; i++)
        if (load.connections[i].fd >= 0)
            leave(&load.connections[i]);
    close(signals);
    close(load.epoll);
}

/* saying */

static void write_raw(const char *name)
{
    FILE *file = fopen(name, "w");
    if (file == NULL)
        die(name);
    for (size_t i = 0; i < load.count; i++) {
        const struct record *record = &load.records[i];
        fprintf(file, "%.6f %s %u %u %u %d %d\n", (double)record->since_ns / 1e9,
                load.options.targets[record->target], record->client, record->status,
                record->latency_us, record->remaining, record->retry_s);
    }
    if (fclose(file) != 0)
        die(name);
}

static int compare(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

static void print_target(size_t target)
{
    uint32_t *latencies = malloc((load.count + 1) * sizeof *latencies);
    size_t count = 0, statuses[1000] = { 0 };
    for (size_t i = 0; i < load.count && latencies != NULL; i++) {
        if (load.records[i].target != target)
            continue;
        latencies[count++] = load.records[i].latency_us;
        if (load.records[i].status < 1000)
            statuses[load.records[i].status]++;
    }
    if (latencies == NULL || count == 0) {
        free(latencies);
        return;
    }
    qsort(latencies, count, sizeof *latencies, compare);
    printf("{\"target\":\"%s\",\"requests\":%zu,\"p50_us\":%u,\"p99_us\":%u,\"max_us\":%u",
           load.options.targets[target], count, latencies[count / 2], latencies[count * 99 / 100],
           latencies[count - 1]);
    for (size_t status = 0; status < 1000; status++)
        if (statuses[status] > 0)
            printf(",\"%zu\":%zu", status, statuses[status]);
    printf("}\n");
    free(latencies);
}

/* reading the command line */

static bool read_number(const char *text, unsigned least, unsigned most, unsigned *number)
{
    char *end;
    unsigned long read = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || read < least || read > most)
        return false;
    *number = (unsigned)read;
    return true;
}

static bool take(struct options *options, const char *name, const char *value)
{
    unsigned port;
    if (strcmp(name, "--port") == 0) {
        bool is_port = read_number(value, 1, 65535, &port);
        options->port = is_port ? (uint16_t)port : 0;
        return is_port;
    }
    if (strcmp(name, "--rate") == 0)
        return read_number(value, 1, 100000, &options->rate);
    if (strcmp(name, "--connections") == 0)
        return read_number(value, 1, CONNECTIONS_MAX, &options->connections);
    if (strcmp(name, "--clients") == 0)
        return read_number(value, 1, 1000000, &options->clients);
    if (strcmp(name, "--life") == 0)
        return read_number(value, 1, 1000000, &options->life);
    if (strcmp(name, "--seconds") == 0)
        return read_number(value, 1, 3600, &options->seconds);
    if (strcmp(name, "--key") == 0)
        options->key = value;
    else if (strcmp(name, "--raw") == 0)
        options->raw = value;
    else
        return false;
    return true;
}

static bool read_options(struct options *options, int argc, char **argv)
{
    *options =
        (struct options){ .key = "", .rate = 100, .connections = 20, .clients = 1, .seconds = 600 };
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2)
        if (!take(options, argv[i], argv[i + 1]))
            return false;
    for (; i < argc && options->target_count < TARGETS_MAX; i++)
        options->targets[options->target_count++] = argv[i];
    return i == argc && options->port > 0 && options->target_count > 0;
}

int main(int argc, char **argv)
{
    if (!read_options(&load.options, argc, argv)) {
        fprintf(stderr, "usage: fault_load --port P [--key K] [--rate R] [--connections N] "
                        "[--clients C] [--life L] [--seconds S] [--raw FILE] TARGET…\n");
        return 2;
    }
    memset(load.body, 'x', sizeof load.body);
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        load.connections[i].fd = -1;
    run();
    if (load.options.raw != NULL)
        write_raw(load.options.raw);
    for (size_t i = 0; i < load.options.target_count; i++)
        print_target(i);
    free(load.records);
    return 0;
}
