/* CPU per request of a server, bare and under weir, as ratios within one run.
 *
 * Each round starts every arrangement in a process of its own, sends it the same load over 60
 * kept connections, stops it, and takes its user and system time from wait4(2). Medians of the
 * rounds, one JSON line for each figure. Arguments: requests per round (default 60000), rounds
 * (default 5). */
#include <weir/weir.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Not a multiple of 128: libmicrohttpd's epoll loop stalls there. */
#define CONNECTIONS 60
#define ROUNDS_MAX  21

static const char answer[] = "{\"items\":[1,2,3]}\n";

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* the servers */

struct arrangement {
    const char *name;
    const char *route; /* of the policy: its auth and limits; NULL: no weir */
    bool on_redis;
    const char *limits; /* JSON */
    unsigned expected;  /* status of every answer */
};

static const struct arrangement arrangements[] = {
    { "bare", NULL, false, NULL, 200 },
    { "memory, one limit, no fields", "none", false,
      "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"1000000/second\",\"burst\":100000000}", 200 },
    { "memory, one limit, fields", "required", false,
      "{\"name\":\"a\",\"by\":\"client\",\"rate\":\"1000000/second\",\"burst\":100000000}", 200 },
    { "memory, three limits, fields", "required", false,
      "{\"name\":\"a\",\"by\":\"client\",\"rate\":\"1000000/second\",\"burst\":100000000},"
      "{\"name\":\"b\",\"by\":\"client\",\"rate\":\"100000000/hour\"},"
      "{\"name\":\"c\",\"by\":\"client\",\"rate\":\"1000000000/"
      "day\",\"algorithm\":\"fixed-window\"}",
      200 },
    { "redis, one limit, no fields", "none", true,
      "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"1000000/second\",\"burst\":100000000}", 200 },
    { "redis, one limit, fields", "required", true,
      "{\"name\":\"a\",\"by\":\"client\",\"rate\":\"1000000/second\",\"burst\":100000000}", 200 },
    { "memory, refused", "required", false,
      "{\"name\":\"a\",\"by\":\"client\",\"rate\":\"1/day\",\"algorithm\":\"fixed-window\"},"
      "{\"name\":\"b\",\"by\":\"client\",\"rate\":\"0/day\"}",
      429 },
};

#define ARRANGEMENTS (sizeof arrangements / sizeof arrangements[0])

static enum MHD_Result bare(void *cls, struct MHD_Connection *connection, const char *url,
                            const char *method, const char *version, const char *upload_data,
                            size_t *upload_data_size, void **con_cls)
{
    (void)cls;
    (void)url;
    (void)method;
    (void)version;
    (void)upload_data;
    (void)upload_data_size;
    static int seen;
    if (*con_cls == NULL) {
        *con_cls = &seen;
        return MHD_YES;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(
        sizeof answer - 1, (void *)(uintptr_t)answer, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result queued = weir_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return queued;
}

static char directory[] = "/tmp/weir-bench-XXXXXX";

static struct weir_chain *make_chain(const struct arrangement *it)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"store\":{\"url\":\"%s%s%s\"},\"api_keys\":{\"file\":\"%s/keys.json\"},"
             "\"policies\":{\"p\":{\"limits\":[%s]}},"
             "\"routes\":[{\"match\":\"* /*\",\"auth\":\"%s\",\"policy\":\"p\"}]}",
             it->on_redis ? "redis+unix://" : "memory:", it->on_redis ? directory : "",
             it->on_redis ? "/redis" : "", directory, it->limits, it->route);
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    struct weir_limiter *limiter = NULL;
    struct weir_chain *chain = NULL;
    if (weir_policy_parse(text, strlen(text), NULL, &policy, &error) != WEIR_OK
        || weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, &error) != WEIR_OK
        || weir_chain_new(NULL, &chain, &error) != WEIR_OK
        || weir_chain_use(chain, weir_limit(limiter)) != WEIR_OK
        || weir_chain_serve(chain, WEIR_APP(.handler = bare)) != WEIR_OK) {
        fprintf(stderr, "%s: %s: %s\n", it->name, error.path, error.text);
        exit(1);
    }
    return chain; /* all of it lives as long as the process */
}

/* Serves until SIGTERM; writes the port to `ready`. */
static void serve(const struct arrangement *it, int ready)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    struct weir_chain *chain = it->route == NULL ? NULL : make_chain(it);
    const struct MHD_OptionItem completed[] = {
        { chain == NULL ? MHD_OPTION_END : MHD_OPTION_NOTIFY_COMPLETED,
          (intptr_t)weir_request_completed, chain },
        { MHD_OPTION_END, 0, NULL },
    };
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                         chain == NULL ? bare : weir_access_handler, chain, MHD_OPTION_ARRAY,
                         completed, MHD_OPTION_END);
    if (daemon == NULL)
        die("MHD_start_daemon");
    uint16_t port = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    if (write(ready, &port, sizeof port) != sizeof port)
        die("write");
    int signal_number;
    sigwait(&stop, &signal_number);
    _exit(0);
}

/* the load */

struct client {
    int fd;
    size_t got;
    char bytes[2048];
};

static const char request[] = "GET /items HTTP/1.1\r\nHost: bench\r\nX-API-Key: foo\r\n"
                              "User-Agent: bench\r\nAccept: */*\r\n\r\n";

static void send_request(struct client *client)
{
    client->got = 0;
    if (send(client->fd, request, sizeof request - 1, MSG_NOSIGNAL) != sizeof request - 1)
        die("send");
}

/* True when a whole answer is there. */
static bool take_answer(struct client *client, unsigned expected)
{
    ssize_t got =
        recv(client->fd, client->bytes + client->got, sizeof client->bytes - 1 - client->got, 0);
    if (got <= 0)
        die("recv");
    client->got += (size_t)got;
    client->bytes[client->got] = '\0';
    const char *end = strstr(client->bytes, "\r\n\r\n");
    if (end == NULL)
        return false;
    const char *length = strstr(client->bytes, "Content-Length: ");
    if (length == NULL || strtoul(client->bytes + 9, NULL, 10) != expected) {
        fprintf(stderr, "unexpected answer: %s\n", client->bytes);
        exit(1);
    }
    size_t body = (size_t)(client->bytes + client->got - (end + 4));
    return body >= strtoul(length + 16, NULL, 10);
}

static void connect_all(struct client *clients, int epoll, uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < CONNECTIONS; i++) {
        clients[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (clients[i].fd < 0 || connect(clients[i].fd, (struct sockaddr *)&to, sizeof to) != 0)
            die("connect");
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &clients[i] };
        epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event);
        send_request(&clients[i]);
    }
}

static void load(uint16_t port, unsigned long requests, unsigned expected)
{
    static struct client clients[CONNECTIONS];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    connect_all(clients, epoll, port);
    for (unsigned long answered = 0; answered < requests;) {
        struct epoll_event events[CONNECTIONS];
        int count = epoll_wait(epoll, events, CONNECTIONS, 10000);
        if (count <= 0)
            die("epoll_wait");
        for (int i = 0; i < count; i++) {
            struct client *client = events[i].data.ptr;
            if (!take_answer(client, expected))
                continue;
            answered++;
            send_request(client);
        }
    }
    for (int i = 0; i < CONNECTIONS; i++)
        close(clients[i].fd);
    close(epoll);
}

/* measuring */

struct figure {
    double cpu_us;
    double per_second;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct figure measure(const struct arrangement *it, unsigned long requests)
{
    int ready[2];
    if (pipe(ready) != 0)
        die("pipe");
    pid_t server = fork();
    if (server < 0)
        die("fork");
    if (server == 0)
        serve(it, ready[1]);
    uint16_t port;
    close(ready[1]);
    if (read(ready[0], &port, sizeof port) != sizeof port)
        die("server");
    close(ready[0]);

    double start = now_s();
    load(port, requests, it->expected);
    double took = now_s() - start;
    kill(server, SIGTERM);
    int status;
    struct rusage used;
    if (wait4(server, &status, 0, &used) != server)
        die("wait4");
    double cpu_s = (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec
                   + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    return (struct figure){ cpu_s * 1e6 / (double)requests, (double)requests / took };
}

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

static void report(size_t index, double cpu[ARRANGEMENTS][ROUNDS_MAX],
                   double rate[ARRANGEMENTS][ROUNDS_MAX], size_t rounds)
{
    double ratios[ROUNDS_MAX], rate_ratios[ROUNDS_MAX], own[ROUNDS_MAX], own_rate[ROUNDS_MAX];
    for (size_t i = 0; i < rounds; i++) {
        ratios[i] = cpu[index][i] / cpu[0][i];
        rate_ratios[i] = rate[index][i] / rate[0][i];
        own[i] = cpu[index][i];
        own_rate[i] = rate[index][i];
    }
    printf("{\"bench\":\"http\",\"arrangement\":\"%s\",\"cpu_us_per_request\":%.2f,"
           "\"cpu_ratio_to_bare\":%.2f,\"requests_per_s\":%.0f,\"rate_ratio_to_bare\":%.2f}\n",
           arrangements[index].name, median(own, rounds), median(ratios, rounds),
           median(own_rate, rounds), median(rate_ratios, rounds));
}

/* surroundings */

static pid_t start_redis(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/redis", directory);
    pid_t redis = fork();
    if (redis == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", path, "--save", "",
               (char *)NULL);
        _exit(127);
    }
    struct stat there;
    for (int i = 0; i < 500 && stat(path, &there) != 0; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    return redis;
}

static void write_keys(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/keys.json", directory);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        die(path);
    fputs("{\"keys\":[{\"id\":\"foo\",\"sha256\":"
          "\"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}]}",
          file);
    fclose(file);
}

static void clean_up(pid_t redis)
{
    kill(redis, SIGTERM);
    waitpid(redis, NULL, 0);
    static const char *const files[] = { "keys.json", "redis" };
    for (size_t i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", directory, files[i]);
        unlink(path);
    }
    rmdir(directory);
}

int main(int argc, char **argv)
{
    unsigned long requests = argc > 1 ? strtoul(argv[1], NULL, 10) : 60000;
    size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 5;
    if (requests == 0 || rounds == 0 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_http [requests [rounds]], at most %d rounds\n", ROUNDS_MAX);
        return 2;
    }
    if (mkdtemp(directory) == NULL)
        die("mkdtemp");
    write_keys();
    pid_t redis = start_redis();
    static double cpu[ARRANGEMENTS][ROUNDS_MAX], rate[ARRANGEMENTS][ROUNDS_MAX];
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < ARRANGEMENTS; i++) {
            struct figure figure = measure(&arrangements[i], requests);
            cpu[i][round] = figure.cpu_us;
            rate[i][round] = figure.per_second;
        }
    for (size_t i = 0; i < ARRANGEMENTS; i++)
        report(i, cpu, rate, rounds);
    clean_up(redis);
    return 0;
}
