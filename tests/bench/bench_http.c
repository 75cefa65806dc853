/* CPU per request of a server, bare and under weir, as ratios within one run.
 *
 * Each round starts every arrangement in a process of its own, warms it up, sends it the same load over
 * 60 kept connections, and reads the CPU time that the process took for it. Medians of the rounds, one
 * JSON line for each arrangement. An extra run counts system calls, where strace(1) is there.
 *
 * Usage: bench_http [-n REQUESTS] [-r ROUNDS] [-m BYTES] [NAME…]
 *        bench_http -s NAME      serves until SIGTERM, for a profiler; the port is printed
 *        bench_http -l PORT NAME sends the load of NAME to that port
 *
 * -m is the connection memory limit of libmicrohttpd, the same on both sides of a ratio. */
#include <weir/weir.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Not a multiple of 128: libmicrohttpd's epoll loop stalls there. */
#define CONNECTIONS 60
#define ROUNDS_MAX  31

/* Enough for every connection to have been answered a few times. */
#define WARM_UP 1200

static const char answer[] = "{\"items\":[1,2,3]}\n";

static unsigned long request_count = 24000;
static size_t round_count = 9;
static size_t memory_limit = 32 * 1024; /* libmicrohttpd's own default */

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* the arrangements */

enum way { BY_DAEMON, BY_WEIR_SERVE };

struct arrangement {
    const char *name;
    const char *auth; /* of the policy's route; NULL: no weir */
    bool on_redis;
    const char *limits; /* JSON */
    unsigned expected;  /* status of every answer after the warm-up */
    enum weir_wait_mode waiting;
    enum way way;
};

#define BY_IP "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"1000000/second\",\"burst\":100000000}"
#define ONE   "{\"name\":\"a\",\"by\":\"client\",\"rate\":\"1000000/second\",\"burst\":100000000}"
#define LEASED(lease)                                                                              \
    "{\"name\":\"a\",\"by\":\"client\",\"rate\":\"1000/"                                           \
    "second\",\"burst\":100000000,\"lease\":" lease "}"
#define THREE                                                                                      \
    ONE ",{\"name\":\"b\",\"by\":\"client\",\"rate\":\"100000000/hour\"},"                         \
        "{\"name\":\"c\",\"by\":\"client\",\"rate\":\"1000000000/day\","                           \
        "\"algorithm\":\"fixed-window\"}"
#define LITTLE                                                                                     \
    "{\"name\":\"a\",\"by\":\"client\",\"rate\":\"10/day\",\"algorithm\":\"fixed-window\"}"

static const struct arrangement arrangements[] = {
    { "bare", NULL, false, NULL, 200, 0, BY_DAEMON },
    { "memory", "none", false, BY_IP, 200, 0, BY_DAEMON },
    { "memory-fields", "required", false, ONE, 200, 0, BY_DAEMON },
    { "memory-three", "required", false, THREE, 200, 0, BY_DAEMON },
    { "flood", "required", false, LITTLE, 429, 0, BY_DAEMON },
    { "redis-thread", "none", true, BY_IP, 200, WEIR_WAIT_STORE_THREAD, BY_DAEMON },
    { "redis-thread-fields", "required", true, ONE, 200, WEIR_WAIT_STORE_THREAD, BY_DAEMON },
    { "redis-in-place", "none", true, BY_IP, 200, WEIR_WAIT_IN_PLACE, BY_DAEMON },
    { "redis-in-place-fields", "required", true, ONE, 200, WEIR_WAIT_IN_PLACE, BY_DAEMON },
    { "redis-served-fields", "required", true, ONE, 200, WEIR_WAIT_AUTO, BY_WEIR_SERVE },
    { "redis-leased-fields", "required", true, LEASED("\"auto\""), 200, WEIR_WAIT_AUTO, BY_DAEMON },
    { "redis-leased-by-50", "required", true, LEASED("{\"batch\":50}"), 200, WEIR_WAIT_AUTO,
      BY_DAEMON },
    { "redis-flood", "required", true, LITTLE, 429, WEIR_WAIT_AUTO, BY_DAEMON },
};

#define ARRANGEMENTS (sizeof arrangements / sizeof arrangements[0])

static const struct arrangement *find_arrangement(const char *name)
{
    for (size_t i = 0; i < ARRANGEMENTS; i++)
        if (strcmp(arrangements[i].name, name) == 0)
            return &arrangements[i];
    fprintf(stderr, "There is no arrangement \"%s\"; there are:", name);
    for (size_t i = 0; i < ARRANGEMENTS; i++)
        fprintf(stderr, " %s", arrangements[i].name);
    fprintf(stderr, "\n");
    exit(2);
}

/* the servers */

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

static void die_of(const struct arrangement *it, const struct weir_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", it->name, error->path, error->text);
    exit(1);
}

static struct weir_chain *make_chain(const struct arrangement *it)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"store\":{\"url\":\"%s%s%s\"},\"api_keys\":{\"file\":\"%s/keys.json\"},"
             "\"policies\":{\"p\":{\"limits\":[%s]}},"
             "\"routes\":[{\"match\":\"* /*\",\"auth\":\"%s\",\"policy\":\"p\"}]}",
             it->on_redis ? "redis+unix://" : "memory:", it->on_redis ? directory : "",
             it->on_redis ? "/redis" : "", directory, it->limits, it->auth);
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    struct weir_limiter *limiter = NULL;
    struct weir_chain *chain = NULL;
    if (weir_policy_parse(text, strlen(text), NULL, &policy, &error) != WEIR_OK
        || weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, &error) != WEIR_OK
        || weir_chain_new(WEIR_CHAIN_OPTIONS(.waiting = it->waiting), &chain, &error) != WEIR_OK
        || weir_chain_use(chain, weir_limit(limiter)) != WEIR_OK
        || weir_chain_serve(chain, WEIR_APP(.handler = bare)) != WEIR_OK)
        die_of(it, &error);
    return chain; /* all of it lives as long as the process */
}

static uint16_t start_weir_server(const struct arrangement *it, struct weir_chain *chain)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_server *server = NULL;
    const struct weir_serve_options *options =
        WEIR_SERVE_OPTIONS(.memory_bytes = (uint32_t)memory_limit);
    if (weir_serve(chain, options, &server, &error) != WEIR_OK)
        die_of(it, &error);
    return weir_server_port(server);
}

static uint16_t start_daemon(const struct arrangement *it, struct weir_chain *chain)
{
    struct weir_error error = WEIR_NO_ERROR;
    const struct MHD_OptionItem completed[] = {
        { chain == NULL ? MHD_OPTION_END : MHD_OPTION_NOTIFY_COMPLETED,
          (intptr_t)weir_request_completed, chain },
        { MHD_OPTION_END, 0, NULL },
    };
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
        chain == NULL ? bare : weir_access_handler, chain, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        memory_limit, MHD_OPTION_ARRAY, completed, MHD_OPTION_END);
    if (daemon == NULL)
        die("MHD_start_daemon");
    if (chain != NULL && weir_chain_check(chain, daemon, &error) != WEIR_OK)
        die_of(it, &error);
    return MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

static uint16_t start_server(const struct arrangement *it)
{
    struct weir_chain *chain = it->auth == NULL ? NULL : make_chain(it);
    return it->way == BY_WEIR_SERVE ? start_weir_server(it, chain) : start_daemon(it, chain);
}

/* Serves until SIGTERM; writes the port to `ready`. */
static void serve(const struct arrangement *it, int ready)
{
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    uint16_t port = start_server(it);
    if (write(ready, &port, sizeof port) != sizeof port)
        die("write");
    int signal_number;
    sigwait(&stop, &signal_number);
}

/* A process with a server in it. */
struct server {
    pid_t pid;
    uint16_t port;
};

static struct server fork_server(const struct arrangement *it)
{
    struct server server;
    int ready[2];
    if (pipe(ready) != 0)
        die("pipe");
    server.pid = fork();
    if (server.pid < 0)
        die("fork");
    if (server.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        serve(it, ready[1]);
        _exit(0);
    }
    close(ready[1]);
    if (read(ready[0], &server.port, sizeof server.port) != sizeof server.port)
        die("server");
    close(ready[0]);
    return server;
}

static void stop_server(const struct server *server)
{
    kill(server->pid, SIGTERM);
    waitpid(server->pid, NULL, 0);
}

/* the load */

struct client {
    int fd;
    size_t got;
    char bytes[2048];
};

struct load {
    int epoll;
    struct client clients[CONNECTIONS];
};

static const char request[] = "GET /items HTTP/1.1\r\nHost: bench\r\nX-API-Key: foo\r\n"
                              "User-Agent: bench\r\nAccept: */*\r\n\r\n";

static void send_request(struct client *client)
{
    client->got = 0;
    if (send(client->fd, request, sizeof request - 1, MSG_NOSIGNAL) != sizeof request - 1)
        die("send");
}

/* True when a whole answer is there, with its status. */
static bool take_answer(struct client *client, unsigned *status)
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
    if (length == NULL) {
        fprintf(stderr, "unexpected answer: %s\n", client->bytes);
        exit(1);
    }
    *status = (unsigned)strtoul(client->bytes + 9, NULL, 10);
    size_t body = (size_t)(client->bytes + client->got - (end + 4));
    return body >= strtoul(length + 16, NULL, 10);
}

static void connect_all(struct load *load, uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < CONNECTIONS; i++) {
        struct client *client = &load->clients[i];
        client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (client->fd < 0 || connect(client->fd, (struct sockaddr *)&to, sizeof to) != 0)
            die("connect");
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = client };
        epoll_ctl(load->epoll, EPOLL_CTL_ADD, client->fd, &event);
        send_request(client);
    }
}

/* Where the machine has other work, a store may be late now and then, and its failure rule holds. */
static void check_others(unsigned long others, unsigned long requests, unsigned expected)
{
    if (expected == 0 || others <= requests / 100)
        return;
    fprintf(stderr, "%lu of %lu answers were not %u\n", others, requests, expected);
    exit(1);
}

/* Every answer is followed by the next request, so that each connection always has one under way. */
static void run_load(struct load *load, unsigned long requests, unsigned expected)
{
    unsigned long others = 0;
    unsigned status;
    for (unsigned long answered = 0; answered < requests;) {
        struct epoll_event events[CONNECTIONS];
        int count = epoll_wait(load->epoll, events, CONNECTIONS, 10000);
        if (count <= 0)
            die("epoll_wait");
        for (int i = 0; i < count; i++) {
            struct client *client = events[i].data.ptr;
            if (!take_answer(client, &status))
                continue;
            answered++;
            others += status != expected;
            send_request(client);
        }
    }
    check_others(others, requests, expected);
}

static void disconnect_all(struct load *load)
{
    for (int i = 0; i < CONNECTIONS; i++)
        close(load->clients[i].fd);
    close(load->epoll);
}

/* measuring */

struct figures {
    double cpu_us[ROUNDS_MAX];       /* per request, of the server */
    double redis_cpu_us[ROUNDS_MAX]; /* per request, of Redis      */
    double per_s[ROUNDS_MAX];        /* requests                   */
    double calls;                    /* system calls per request; negative: not known */
};

static double seconds(clockid_t id)
{
    struct timespec now;
    if (clock_gettime(id, &now) != 0)
        die("clock_gettime");
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static clockid_t cpu_of(pid_t pid)
{
    clockid_t id;
    errno = clock_getcpuclockid(pid, &id);
    if (errno != 0)
        die("clock_getcpuclockid");
    return id;
}

static void measure(const struct arrangement *it, pid_t redis, struct figures *figures,
                    size_t round)
{
    static struct load load;
    struct server server = fork_server(it);
    connect_all(&load, server.port);
    run_load(&load, WARM_UP, 0);

    clockid_t server_cpu = cpu_of(server.pid), redis_cpu = cpu_of(redis);
    double start = seconds(CLOCK_MONOTONIC), cpu = seconds(server_cpu),
           of_redis = seconds(redis_cpu);
    run_load(&load, request_count, it->expected);
    double count = (double)request_count;
    figures->per_s[round] = count / (seconds(CLOCK_MONOTONIC) - start);
    figures->cpu_us[round] = (seconds(server_cpu) - cpu) * 1e6 / count;
    figures->redis_cpu_us[round] = (seconds(redis_cpu) - of_redis) * 1e6 / count;
    disconnect_all(&load);
    stop_server(&server);
}

/* counting system calls */

#define TRACED_REQUESTS 6000

static bool is_traced(const char *status_file)
{
    char line[128];
    FILE *file = fopen(status_file, "r");
    bool is_traced = false;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "TracerPid:", 10) == 0)
            is_traced = strtol(line + 10, NULL, 10) != 0;
    if (file != NULL)
        fclose(file);
    return is_traced;
}

static bool are_all_traced(pid_t pid)
{
    char path[64], status_file[384];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    bool are_traced = threads != NULL;
    for (struct dirent *it; threads != NULL && (it = readdir(threads)) != NULL;) {
        snprintf(status_file, sizeof status_file, "%s/%s/status", path, it->d_name);
        are_traced = are_traced && (it->d_name[0] == '.' || is_traced(status_file));
    }
    if (threads != NULL)
        closedir(threads);
    return are_traced;
}

/* Attaches strace(1) to a server; negative: that cannot be done here. */
static pid_t attach_strace(pid_t server, const char *counts_file)
{
    char target[16];
    snprintf(target, sizeof target, "%d", (int)server);
    pid_t strace = fork();
    if (strace == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        execlp("strace", "strace", "-f", "-c", "-o", counts_file, "-p", target, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; strace > 0 && !are_all_traced(server); i++) {
        if (i == 500 || waitpid(strace, NULL, WNOHANG) == strace)
            return -1;
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    return strace;
}

/* The line "100.00 … total" has the sum of calls in its fourth column; 0: it is not there. */
static double read_total(const char *counts_file)
{
    char line[256];
    double total = 0;
    FILE *file = fopen(counts_file, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strstr(line, " total") != NULL && sscanf(line, "%*f %*f %*f %lf", &total) != 1)
            total = 0;
    if (file != NULL)
        fclose(file);
    return total;
}

static double count_calls(const struct arrangement *it)
{
    static struct load load;
    char counts_file[64];
    snprintf(counts_file, sizeof counts_file, "%s/calls", directory);
    struct server server = fork_server(it);
    connect_all(&load, server.port);
    run_load(&load, WARM_UP, 0);
    pid_t strace = attach_strace(server.pid, counts_file);
    double calls = -1;
    if (strace > 0) {
        run_load(&load, TRACED_REQUESTS, it->expected);
        kill(strace, SIGINT);
        waitpid(strace, NULL, 0);
        calls = read_total(counts_file) / TRACED_REQUESTS;
    }
    disconnect_all(&load);
    stop_server(&server);
    unlink(counts_file);
    return calls;
}

/* reporting */

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double median(const double *values)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, round_count * sizeof *values);
    qsort(sorted, round_count, sizeof *sorted, compare);
    return sorted[round_count / 2];
}

static double median_ratio(const double *values, const double *to)
{
    double ratios[ROUNDS_MAX];
    for (size_t i = 0; i < round_count; i++)
        ratios[i] = values[i] / to[i];
    return median(ratios);
}

static void report(const struct arrangement *it, const struct figures *figures,
                   const struct figures *bare_figures)
{
    printf("{\"bench\":\"http\",\"arrangement\":\"%s\",\"cpu_us_per_request\":%.2f,"
           "\"cpu_ratio_to_bare\":%.2f,\"requests_per_s\":%.0f,\"rate_ratio_to_bare\":%.2f",
           it->name, median(figures->cpu_us), median_ratio(figures->cpu_us, bare_figures->cpu_us),
           median(figures->per_s), median_ratio(figures->per_s, bare_figures->per_s));
    if (it->on_redis)
        printf(",\"redis_cpu_us_per_request\":%.2f", median(figures->redis_cpu_us));
    if (figures->calls > 0)
        printf(",\"system_calls_per_request\":%.2f,\"system_calls_over_bare\":%.2f", figures->calls,
               figures->calls - bare_figures->calls);
    printf("}\n");
}

/* surroundings */

static pid_t start_redis(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/redis", directory);
    pid_t redis = fork();
    if (redis == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
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

static pid_t set_up(void)
{
    if (mkdtemp(directory) == NULL)
        die("mkdtemp");
    write_keys();
    return start_redis();
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

/* what is asked for */

static void serve_for_profiler(const struct arrangement *it)
{
    pid_t redis = set_up();
    int ready[2];
    uint16_t port;
    if (pipe(ready) != 0)
        die("pipe");
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    port = start_server(it);
    printf("%u\n", port);
    fflush(stdout);
    int signal_number;
    sigwait(&stop, &signal_number);
    clean_up(redis);
}

static void send_load(uint16_t port, const struct arrangement *it)
{
    static struct load load;
    connect_all(&load, port);
    run_load(&load, WARM_UP, 0);
    run_load(&load, request_count, it->expected);
    disconnect_all(&load);
}

/* The bare handler is measured first, since all others are compared with it. */
static size_t choose(char **names, const struct arrangement *chosen[ARRANGEMENTS])
{
    size_t count = 1;
    chosen[0] = &arrangements[0];
    for (size_t i = 1; i < ARRANGEMENTS && names[0] == NULL; i++)
        chosen[count++] = &arrangements[i];
    for (; *names != NULL && count < ARRANGEMENTS; names++)
        if (find_arrangement(*names) != chosen[0])
            chosen[count++] = find_arrangement(*names);
    return count;
}

static void measure_all(char **names)
{
    static struct figures figures[ARRANGEMENTS];
    const struct arrangement *chosen[ARRANGEMENTS];
    size_t count = choose(names, chosen);
    pid_t redis = set_up();
    for (size_t round = 0; round < round_count; round++)
        for (size_t i = 0; i < count; i++)
            measure(chosen[i], redis, &figures[i], round);
    for (size_t i = 0; i < count; i++)
        figures[i].calls = count_calls(chosen[i]);
    for (size_t i = 0; i < count; i++)
        report(chosen[i], &figures[i], &figures[0]);
    clean_up(redis);
}

int main(int argc, char **argv)
{
    const char *served = NULL;
    unsigned long port = 0;
    int option;
    while ((option = getopt(argc, argv, "n:r:m:s:l:")) != -1) {
        switch (option) {
        case 'n':
            request_count = strtoul(optarg, NULL, 10);
            break;
        case 'r':
            round_count = strtoul(optarg, NULL, 10);
            break;
        case 'm':
            memory_limit = strtoul(optarg, NULL, 10);
            break;
        case 's':
            served = optarg;
            break;
        case 'l':
            port = strtoul(optarg, NULL, 10);
            break;
        default:
            return 2;
        }
    }
    if (request_count == 0 || round_count == 0 || round_count > ROUNDS_MAX) {
        fprintf(stderr, "At least one request, and 1 to %d rounds.\n", ROUNDS_MAX);
        return 2;
    }
    if (served != NULL)
        serve_for_profiler(find_arrangement(served));
    else if (port != 0 && argv[optind] != NULL)
        send_load((uint16_t)port, find_arrangement(argv[optind]));
    else
        measure_all(argv + optind);
    return 0;
}
