/* An overloaded back end behind an adaptive limit, for real: a queue in front of workers that are asked
 * through libmicrohttpd, and twice as many requests as it can serve. One JSON line for each phase;
 * ratios hold within one run.
 *
 * Usage: bench_vegas [seconds of a phase [URL of a store that is asked about each request]] */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <microhttpd.h>
#include <weir/weir.h>

#include "base/clock.h"
#include "limit/limiter_internal.h"

#define WORKERS   40
#define TIME_US   40000 /* of one request, by a worker */
#define CLIENTS   120
#define PAUSE_US  30000 /* of a client that was turned away */
#define TIMES_MAX 1000000

/* the back end */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct weir_ticket waiting[4096];
    unsigned first, count, under_way;
    bool is_stopping;
    atomic_uint slowness;     /* how many times TIME_US a request takes           */
    atomic_bool is_crowdable; /* twice as long with twice as many as there are workers */
    pthread_t workers[WORKERS];
} back_end = { .lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER };

static void pause_us(uint64_t us)
{
    const struct timespec moment = { .tv_sec = (time_t)(us / 1000000),
                                     .tv_nsec = (long)(us % 1000000) * 1000 };
    nanosleep(&moment, NULL);
}

/* With the lock held. */
static uint64_t service_us(void)
{
    double crowd = (double)back_end.under_way / WORKERS;
    double times = !atomic_load(&back_end.is_crowdable) || crowd < 1 ? 1 : crowd > 2 ? 2 : crowd;
    return (uint64_t)(TIME_US * times) * atomic_load(&back_end.slowness);
}

static void *work(void *self)
{
    (void)self;
    pthread_mutex_lock(&back_end.lock);
    for (;;) {
        while (back_end.count == 0 && !back_end.is_stopping)
            pthread_cond_wait(&back_end.filled, &back_end.lock);
        if (back_end.count == 0)
            break;
        struct weir_ticket ticket = back_end.waiting[back_end.first++ % 4096];
        back_end.count--;
        uint64_t us = service_us();
        pthread_mutex_unlock(&back_end.lock);
        pause_us(us);
        pthread_mutex_lock(&back_end.lock);
        back_end.under_way--;
        pthread_mutex_unlock(&back_end.lock);
        weir_wake(ticket);
        pthread_mutex_lock(&back_end.lock);
    }
    pthread_mutex_unlock(&back_end.lock);
    return NULL;
}

static enum weir_step ask_back_end(void *self, struct weir_request *request)
{
    (void)self;
    static char asked[] = "asked";
    if (weir_request_get(request, "asked") != NULL) {
        weir_reply_text(request, 200, "done");
        return WEIR_DONE;
    }
    weir_request_set(request, "asked", asked, NULL);
    pthread_mutex_lock(&back_end.lock);
    struct weir_ticket ticket = weir_park(request);
    if (ticket.number != 0) {
        back_end.waiting[(back_end.first + back_end.count++) % 4096] = ticket;
        back_end.under_way++;
        pthread_cond_signal(&back_end.filled);
    }
    pthread_mutex_unlock(&back_end.lock);
    return ticket.number != 0 ? WEIR_WAIT : WEIR_FAIL;
}

/* the clients */

static struct {
    uint16_t port;
    atomic_bool is_over;
    atomic_uint served, refused, failed;
    uint32_t times_us[TIMES_MAX]; /* of those that were served */
} load;

static int dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(load.port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    perror("bench_vegas");
    exit(1);
}

/* The status; 0: the connection ended. Replies are short and come in one piece, or in a few. */
static unsigned ask(int fd)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: t\r\n\r\n";
    char reply[2048];
    size_t length = 0;
    if (send(fd, text, sizeof text - 1, MSG_NOSIGNAL) < 0)
        return 0;
    for (;;) {
        ssize_t got = recv(fd, reply + length, sizeof reply - 1 - length, 0);
        if (got <= 0)
            return 0;
        length += (size_t)got;
        reply[length] = '\0';
        const char *end = strstr(reply, "\r\n\r\n"), *size = strstr(reply, "Content-Length: ");
        if (end != NULL && size != NULL
            && length >= (size_t)(end + 4 - reply) + strtoul(size + 16, NULL, 10))
            return (unsigned)strtoul(reply + 9, NULL, 10);
    }
}

static void *be_client(void *self)
{
    (void)self;
    int fd = dial();
    while (!atomic_load(&load.is_over)) {
        uint64_t before_us = weir_monotonic_us();
        unsigned status = ask(fd);
        if (status == 200) {
            unsigned index = atomic_fetch_add(&load.served, 1);
            if (index < TIMES_MAX)
                load.times_us[index] = (uint32_t)(weir_monotonic_us() - before_us);
            continue;
        }
        atomic_fetch_add(status == 503 ? &load.refused : &load.failed, 1);
        if (status == 0) {
            close(fd);
            fd = dial();
        }
        pause_us(PAUSE_US);
    }
    close(fd);
    return NULL;
}

static int compare(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

/* a server with one kind of limit */

static const struct arrangement {
    const char *name;
    const char *concurrency;
} arrangements[] = {
    { "no limit", "{\"adaptive\": {\"floor\": 1000, \"ceiling\": 1000}}" },
    { "fixed at the best", "{\"adaptive\": {\"floor\": 40, \"ceiling\": 40}}" },
    { "adaptive", "{\"adaptive\": {}}" },
};

static struct {
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    struct MHD_Daemon *daemon;
} site;

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "bench_vegas: %s\n", what);
    exit(1);
}

static const char *store_url = "memory:";

static void start(const struct arrangement *arrangement)
{
    char text[1024];
    int length = snprintf(text, sizeof text,
                          "{\"store\": {\"url\": \"%s\"}, \"policies\": {\"p\": {\"limits\":"
                          " [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"1000000/second\"}],"
                          " \"concurrency\": %s}}, \"default\": \"p\"}",
                          store_url, arrangement->concurrency);
    check(weir_policy_parse(text, (size_t)length, NULL, &site.policy, NULL) == WEIR_OK
              && weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = site.policy), &site.limiter, NULL)
                     == WEIR_OK
              && weir_chain_new(NULL, &site.chain, NULL) == WEIR_OK
              && weir_chain_use(site.chain, weir_limit(site.limiter)) == WEIR_OK
              && weir_chain_get(site.chain, "*", ask_back_end, NULL) == WEIR_OK,
          "no chain");
    site.daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                         weir_access_handler, site.chain, MHD_OPTION_NOTIFY_COMPLETED,
                         weir_request_completed, site.chain, MHD_OPTION_END);
    check(site.daemon != NULL, "no daemon");
    load.port = MHD_get_daemon_info(site.daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

static void stop(void)
{
    weir_stop_daemon(site.chain, site.daemon, 5000);
    weir_chain_free(site.chain);
    weir_limiter_free(site.limiter);
    weir_policy_free(site.policy);
}

static uint64_t given_back; /* in the phases before */

static void print_phase(const char *arrangement, const char *phase, double seconds, double best)
{
    unsigned served = atomic_exchange(&load.served, 0), refused = atomic_exchange(&load.refused, 0);
    unsigned count = served < TIMES_MAX ? served : TIMES_MAX;
    struct weir_slots_numbers numbers = weir_slots_numbers(weir_limiter_slots(site.limiter, "p"));
    qsort(load.times_us, count, sizeof load.times_us[0], compare);
    printf("{\"figure\":\"overload\",\"limit\":\"%s\",\"phase\":\"%s\",\"served_per_s\":%.0f,"
           "\"goodput_of_best\":%.3f,\"p50_of_base\":%.2f,\"p99_of_base\":%.2f,"
           "\"refused_per_s\":%.0f,\"given_back\":%llu,\"limit_at_end\":%u}\n",
           arrangement, phase, served / seconds, served / seconds / best,
           count == 0 ? 0 : (double)load.times_us[count / 2] / TIME_US,
           count == 0 ? 0 : (double)load.times_us[(size_t)(count * 0.99)] / TIME_US,
           refused / seconds, (unsigned long long)(numbers.lost - given_back), numbers.limit);
    given_back = numbers.lost;
    fflush(stdout);
}

static void run_phase(const char *arrangement, const char *phase, unsigned slowness, bool crowds,
                      double seconds)
{
    double best = WORKERS * 1e6 / TIME_US / slowness;
    atomic_store(&back_end.slowness, slowness);
    atomic_store(&back_end.is_crowdable, crowds);
    pause_us((uint64_t)(seconds * 1e6));
    print_phase(arrangement, phase, seconds, best);
}

static void run(const struct arrangement *arrangement, double seconds)
{
    pthread_t clients[CLIENTS];
    start(arrangement);
    given_back = 0;
    atomic_store(&load.is_over, false);
    atomic_store(&back_end.slowness, 1);
    atomic_store(&back_end.is_crowdable, false);
    for (size_t i = 0; i < CLIENTS; i++)
        check(pthread_create(&clients[i], NULL, be_client, NULL) == 0, "no thread");
    pause_us(500000);
    atomic_store(&load.served, 0);
    atomic_store(&load.refused, 0);
    run_phase(arrangement->name, "as ever", 1, false, seconds);
    run_phase(arrangement->name, "slower in a crowd", 1, true, seconds);
    run_phase(arrangement->name, "twice as slow", 2, false, seconds);
    run_phase(arrangement->name, "as ever again", 1, false, seconds);
    atomic_store(&load.is_over, true);
    for (size_t i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    stop();
}

/* What a request pays: a look, a slot, a sample. */
static void time_slots(void)
{
    enum { TURNS = 2000000 };
    const struct weir_slots_options options = { .name = "p", .bounds = { 4, 200, 20 } };
    struct weir_slots *slots = weir_slots_new(&options);
    struct weir_key_counts *counts = weir_key_counts_new();
    check(slots != NULL && counts != NULL, "no memory");
    uint64_t before_us = weir_monotonic_us();
    for (uint64_t i = 0; i < TURNS; i++)
        if (weir_slots_have_room(slots, 0) && weir_slots_take(slots, 0))
            weir_slots_give(slots, 0, WEIR_SLOT_SERVED, i, i + 50);
    uint64_t slots_us = weir_monotonic_us() - before_us;
    before_us = weir_monotonic_us();
    for (uint64_t i = 0; i < TURNS; i++) {
        struct weir_text key = WEIR_TEXT("api api_key=acme-free");
        if (weir_key_counts_have_room(counts, key, 10))
            weir_key_counts_give(counts, weir_key_counts_take(counts, key, 10));
    }
    uint64_t counts_us = weir_monotonic_us() - before_us;
    printf("{\"figure\":\"a slot\",\"adaptive_ns\":%.0f,\"by_key_ns\":%.0f}\n",
           (double)slots_us * 1000 / TURNS, (double)counts_us * 1000 / TURNS);
    weir_slots_free(slots);
    weir_key_counts_free(counts);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 5;
    store_url = argc > 2 ? argv[2] : store_url;
    check(weir_hash_start(), "no libsodium");
    time_slots();
    for (size_t i = 0; i < WORKERS; i++)
        check(pthread_create(&back_end.workers[i], NULL, work, NULL) == 0, "no thread");
    for (size_t i = 0; i < sizeof arrangements / sizeof arrangements[0]; i++)
        run(&arrangements[i], seconds);
    pthread_mutex_lock(&back_end.lock);
    back_end.is_stopping = true;
    pthread_cond_broadcast(&back_end.filled);
    pthread_mutex_unlock(&back_end.lock);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(back_end.workers[i], NULL);
    return 0;
}
