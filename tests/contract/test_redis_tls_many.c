/* Sentinel and Cluster over TLS: each connection of theirs is secured, and each name is checked. */
#include "contract.h"

#ifndef WEIR_WITH_TLS

static void says_what_it_was_built_without(void **state)
{
    (void)state;
    static const char *const urls[] = { "rediss+sentinel://localhost/mymaster",
                                        "rediss+cluster://localhost,localhost:6380" };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        struct weir_store *store = NULL;
        struct weir_error error = WEIR_NO_ERROR;
        assert_int_equal(
            weir_store_open(urls[i], WEIR_STORE_OPTIONS(.tls_ca_file = "ca.pem"), &store, &error),
            WEIR_E_NOT_BUILT);
        assert_null(store);
        assert_string_equal(error.path, "/store/url");
        assert_non_null(strstr(error.text, "-Dtls=enabled"));
        assert_null(strstr(error.text, "hush"));
    }
    print_message("    hiredis_ssl or OpenSSL is missing, so nothing else is tested here\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(says_what_it_was_built_without) };
    return cmocka_run_group_tests_name("redis_tls_many", tests, NULL, NULL);
}

#else

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "certificates.h"
#include "redis_server.h"
#include "store/store.h"

#define SECOND     UINT64_C(1000000)
#define HOUR       3600

/* Long enough for a machine that is busy with other things. */
#define TIMEOUT_MS 5000

/* Servers that speak TLS on their ports and nothing else there; tests use their Unix sockets. */
struct secured {
    struct redis_server server;
    char port[8];
    const char *options[24];
};

static struct authority authority;
static struct certificate by_name, by_address;
static char folder[] = "/tmp/weir-tls-XXXXXX";

static void secured_start(struct secured *secured, const struct certificate *certificate,
                          const char *const *more)
{
    const char *options[] = { "--port",
                              "0",
                              "--tls-port",
                              secured->port,
                              "--tls-cert-file",
                              certificate->file,
                              "--tls-key-file",
                              certificate->key_file,
                              "--tls-ca-cert-file",
                              authority.file,
                              "--tls-auth-clients",
                              "no",
                              "--tls-replication",
                              "yes" };
    redis_server_prepare(&secured->server);
    snprintf(secured->port, sizeof secured->port, "%u", secured->server.port);
    memcpy(secured->options, options, sizeof options);
    for (size_t i = 0; more[i] != NULL; i++)
        secured->options[COUNT_OF(options) + i] = more[i];
    secured->server.options = secured->options;
    redis_server_start(&secured->server);
}

/* stores */

static struct weir_store *open_store(const char *url, const char *server_name)
{
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    const struct weir_store_options *options =
        WEIR_STORE_OPTIONS(.timeout_ms = TIMEOUT_MS, .tls_ca_file = authority.file,
                           .tls_server_name = server_name);
    if (weir_store_open(url, options, &store, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    return store;
}

static bool is_answered(struct weir_store *store)
{
    static struct weir_spend spend;
    if (spend.key == NULL)
        spend = contract_gcra("tls-many", 100000, HOUR * SECOND, 0);
    struct weir_answer answer;
    struct weir_check check = { .spends = &spend, .answers = &answer, .count = 1 };
    contract_submit(store, &check);
    return check.result == WEIR_STORE_ANSWERED;
}

static void wait_until_answered(struct weir_store *store)
{
    uint64_t start_us = weir_monotonic_us();
    while (!is_answered(store)) {
        assert_true(weir_monotonic_us() - start_us < 30 * SECOND);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

/* It gets nowhere, and says why. */
static void assert_says(struct weir_store *store, const char *why)
{
    struct weir_store_state state;
    uint64_t start_us = weir_monotonic_us();
    do {
        assert_true(weir_monotonic_us() - start_us < 30 * SECOND);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        weir_store_state(store, &state);
    } while (strstr(state.why, why) == NULL);
    assert_false(is_answered(store));
}

static void assert_goes(const char *url, const char *server_name, const char *why)
{
    struct weir_store *store = open_store(url, server_name);
    if (why == NULL)
        wait_until_answered(store);
    else
        assert_says(store, why);
    weir_store_free(store);
}

/* Sentinel */

struct watch {
    pid_t pid;
    char port[8];
    int port_holder;
    char file[80];
    char socket[80];
};

static void run_sentinel(const char *file, int output)
{
    char program[80];
    snprintf(program, sizeof program, "%s", redis_server_program());
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    execlp(program, program, file, "--sentinel", (char *)NULL);
    perror(program);
    _exit(127);
}

static bool reads(int input, const char *wanted)
{
    char log[16384];
    size_t length = 0;
    ssize_t got;
    while (length < sizeof log - 1
           && (got = read(input, log + length, sizeof log - 1 - length)) > 0) {
        length += (size_t)got;
        log[length] = '\0';
        if (strstr(log, wanted) != NULL)
            return true;
    }
    return false;
}

/* One Sentinel is enough to say where the master is, and to make another the master when told. */
static void watch_start(struct watch *watch, const struct secured *master, bool announces_names)
{
    snprintf(watch->port, sizeof watch->port, "%u", redis_server_hold_port(&watch->port_holder));
    snprintf(watch->file, sizeof watch->file, "%s/sentinel.conf", folder);
    snprintf(watch->socket, sizeof watch->socket, "%s/sentinel.socket", folder);
    FILE *file = fopen(watch->file, "w");
    assert_non_null(file);
    const char *host = announces_names ? "localhost" : "127.0.0.1";
    if (announces_names)
        fputs("sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n", file);
    fprintf(file,
            "port 0\ntls-port %s\nbind 127.0.0.1\ntls-cert-file %s\ntls-key-file %s\n"
            "tls-ca-cert-file %s\ntls-auth-clients no\ntls-replication yes\ndir %s\n"
            "unixsocket %s\nsentinel monitor mymaster %s %s 1\n",
            watch->port, by_name.file, by_name.key_file, authority.file, folder, watch->socket,
            host, master->port);
    assert_int_equal(fclose(file), 0);

    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    watch->pid = fork();
    assert_true(watch->pid >= 0);
    if (watch->pid == 0)
        run_sentinel(watch->file, ends[1]);
    close(ends[1]);
    assert_true(reads(ends[0], "+monitor master mymaster"));
    close(ends[0]);
}

static void watch_stop(struct watch *watch)
{
    kill(watch->pid, SIGKILL);
    waitpid(watch->pid, NULL, 0);
    close(watch->port_holder);
    unlink(watch->file);
    unlink(watch->socket);
}

static const char *sentinel_url(const struct watch *watch)
{
    static char url[80];
    snprintf(url, sizeof url, "rediss+sentinel://localhost:%s/mymaster", watch->port);
    return url;
}

/* Asked again until the Sentinel knows the replica. */
static void fail_over(const struct watch *watch)
{
    uint64_t start_us = weir_monotonic_us();
    bool is_begun = false;
    while (!is_begun) {
        redisContext *context = redisConnectUnix(watch->socket);
        assert_int_equal(context->err, 0);
        redisReply *reply = redisCommand(context, "SENTINEL FAILOVER mymaster");
        assert_non_null(reply);
        is_begun = reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        redisFree(context);
        assert_true(weir_monotonic_us() - start_us < 30 * SECOND);
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
}

static void wait_until_it_talks_to(struct weir_store *store, const char *port)
{
    char server[40];
    struct weir_store_state state;
    uint64_t start_us = weir_monotonic_us();
    snprintf(server, sizeof server, "localhost:%s", port);
    do {
        assert_true(weir_monotonic_us() - start_us < 30 * SECOND);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        weir_store_state(store, &state);
    } while (!state.answering || strcmp(state.server, server) != 0);
}

static void follows_the_master_that_a_sentinel_names(void **state)
{
    (void)state;
    static struct secured master, replica;
    static const char *const none[] = { NULL };
    secured_start(&master, &by_name, none);
    const char *const follows[] = { "--replicaof", "localhost",
                                    master.port,   "--repl-diskless-sync-delay",
                                    "0",           "--replica-announce-ip",
                                    "localhost",   NULL };
    secured_start(&replica, &by_name, follows);

    struct watch watch;
    watch_start(&watch, &master, true);
    struct weir_store *store = open_store(sentinel_url(&watch), NULL);
    wait_until_answered(store);
    wait_until_it_talks_to(store, master.port);
    fail_over(&watch);
    wait_until_it_talks_to(store, replica.port);
    wait_until_answered(store);
    weir_store_free(store);
    watch_stop(&watch);
    redis_server_remove(&replica.server);
    redis_server_remove(&master.server);
}

static void checks_the_name_by_which_a_sentinel_calls_the_master(void **state)
{
    (void)state;
    static struct secured master;
    static const char *const none[] = { NULL };
    struct watch watch;
    secured_start(&master, &by_name, none);
    watch_start(&watch, &master, false);
    assert_goes(sentinel_url(&watch), NULL, "for another name");
    assert_goes(sentinel_url(&watch), "localhost", NULL);
    watch_stop(&watch);
    redis_server_remove(&master.server);
}

/* Cluster */

static void secures_each_node_of_a_cluster(void **state)
{
    (void)state;
    static struct secured node;
    static char bus_port[8];
    int bus_holder;
    snprintf(bus_port, sizeof bus_port, "%u", redis_server_hold_port(&bus_holder));
    static const char *const cluster[] = {
        "--cluster-enabled", "yes", "--cluster-port", bus_port, "--tls-cluster", "yes", NULL
    };
    secured_start(&node, &by_address, cluster);
    redis_server_do(&node.server, "CLUSTER ADDSLOTSRANGE 0 16383");

    char url[80];
    snprintf(url, sizeof url, "rediss+cluster://127.0.0.1:%s", node.port);
    assert_goes(url, NULL, NULL);
    assert_goes(url, "localhost", "for another name");
    redis_server_remove(&node.server);
    close(bus_holder);
}

/* all */

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    authority_init(&authority, folder, "ca");
    certificate_make(&authority, folder, "name", "DNS:localhost", -HOUR, HOUR, &by_name);
    certificate_make(&authority, folder, "address", "IP:127.0.0.1", -HOUR, HOUR, &by_address);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    const char *const files[] = { authority.file, by_name.file, by_name.key_file, by_address.file,
                                  by_address.key_file };
    for (size_t i = 0; i < COUNT_OF(files); i++)
        unlink(files[i]);
    rmdir(folder);
    authority_finish(&authority);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_master_that_a_sentinel_names),
        cmocka_unit_test(checks_the_name_by_which_a_sentinel_calls_the_master),
        cmocka_unit_test(secures_each_node_of_a_cluster),
    };
    return cmocka_run_group_tests_name("redis_tls_many", tests, set_up, tear_down);
}

#endif
