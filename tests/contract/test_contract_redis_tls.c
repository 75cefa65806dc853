/* The Redis store over TLS: whom it trusts, what it shows, and what it says when that is not right. */
#include "contract.h"

#ifndef WEIR_WITH_TLS

static void says_what_it_was_built_without(void **state)
{
    (void)state;
    static const char *const urls[] = { "rediss://localhost", "rediss://:hush@localhost:6380/1" };
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
    return cmocka_run_group_tests_name("redis_tls", tests, NULL, NULL);
}

#else

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
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

/* Its port speaks TLS; tests talk to it over its Unix socket. */
static struct redis_server server;
static char port[8];

static struct authority authority, stranger;
static struct certificate good, client, strange_client;

/* stores */

static struct weir_store *open_store(const char *url, struct weir_store_options options)
{
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    options.size = sizeof options;
    options.timeout_ms = TIMEOUT_MS;
    if (weir_store_open(url, &options, &store, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    return store;
}

static const char *url_of(const char *host)
{
    static char url[100];
    snprintf(url, sizeof url, "rediss://%s:%s", host, port);
    return url;
}

static void wait_until_ready(struct weir_store *store, bool wanted)
{
    uint64_t start_us = weir_monotonic_us();
    while (weir_store_ready(store) != wanted) {
        assert_true(weir_monotonic_us() - start_us < 20 * SECOND);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

static void assert_counts(struct weir_store *store)
{
    static unsigned number;
    char name[20];
    snprintf(name, sizeof name, "tls-%u", ++number);
    struct weir_spend spend = contract_gcra(name, 10, HOUR * SECOND, 0);
    assert_int_equal(contract_spend(store, &spend).remaining, 9);
    assert_int_equal(contract_spend(store, &spend).remaining, 8);
}

/* The store cannot get through, and says why. */
static void assert_says(struct weir_store *store, const char *why)
{
    struct weir_store_state state;
    wait_until_ready(store, false);
    weir_store_state(store, &state);
    if (strstr(state.why, why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", state.why, why);
}

/* Opens, looks, and closes; `why` NULL: it works. */
static void assert_goes(const char *url, struct weir_store_options options, const char *why)
{
    struct weir_store *store = open_store(url, options);
    if (why == NULL)
        assert_counts(store);
    else
        assert_says(store, why);
    weir_store_free(store);
}

/* the server */

static void show(const struct certificate *certificate)
{
    redis_server_do(&server, "CONFIG SET tls-cert-file %s tls-key-file %s", certificate->file,
                    certificate->key_file);
}

static void demand_clients(const char *yes_or_no)
{
    redis_server_do(&server, "CONFIG SET tls-auth-clients %s", yes_or_no);
}

static void make(const char *name, const char *names, long from_s, long until_s,
                 struct certificate *certificate)
{
    certificate_make(&authority, server.folder, name, names, from_s, until_s, certificate);
}

static int start_server(void **state)
{
    (void)state;
    redis_server_prepare(&server);
    snprintf(port, sizeof port, "%u", server.port);
    authority_init(&authority, server.folder, "ca");
    authority_init(&stranger, server.folder, "stranger");
    make("good", "DNS:localhost,IP:127.0.0.1", -HOUR, HOUR, &good);
    make("client", "DNS:weir", -HOUR, HOUR, &client);
    certificate_make(&stranger, server.folder, "strange", "DNS:weir", -HOUR, HOUR, &strange_client);

    static const char *options[] = { "--port",
                                     "0",
                                     "--tls-port",
                                     port,
                                     "--tls-cert-file",
                                     good.file,
                                     "--tls-key-file",
                                     good.key_file,
                                     "--tls-ca-cert-file",
                                     authority.file,
                                     "--tls-auth-clients",
                                     "no",
                                     NULL };
    server.options = options;
    server.keeps_data = true;
    redis_server_start(&server);
    return 0;
}

static int remove_server(void **state)
{
    (void)state;
    redis_server_remove(&server);
    authority_finish(&authority);
    authority_finish(&stranger);
    return 0;
}

/* As it was before the test. */
static int settle(void **state)
{
    (void)state;
    show(&good);
    demand_clients("no");
    redis_server_do(&server, "CONFIG SET tls-protocols %s", "");
    return 0;
}

/* whom it trusts */

static void trusts_whose_certificate_is_right(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *names;
        long from_h, until_h;
        const char *host, *server_name;
        const char *why; /* NULL: it is trusted */
    } rows[] = {
        { "its address", "IP:127.0.0.1", -1, 1, "127.0.0.1", NULL, NULL },
        { "its name", "DNS:localhost", -1, 1, "localhost", NULL, NULL },
        { "one of several", "DNS:a,DNS:localhost,IP:10.0.0.1", -1, 1, "localhost", NULL, NULL },
        { "another name", "DNS:redis.example", -1, 1, "localhost", NULL, "for another name" },
        { "another address", "IP:127.0.0.2", -1, 1, "127.0.0.1", NULL, "for another name" },
        { "an address as a name", "DNS:127.0.0.1", -1, 1, "127.0.0.1", NULL, "for another name" },
        { "the name that was set", "DNS:redis.example", -1, 1, "127.0.0.1", "redis.example", NULL },
        { "a name of a family", "DNS:*.redis.example", -1, 1, "127.0.0.1", "a.redis.example",
          NULL },
        { "a name of another family", "DNS:*.redis.example", -1, 1, "127.0.0.1",
          "a.b.redis.example", "for another name" },
        { "the address that was set", "IP:::1", -1, 1, "127.0.0.1", "::1", NULL },
        { "not the name that was set", "IP:127.0.0.1", -1, 1, "127.0.0.1", "redis.example",
          "for another name" },
        { "expired", "DNS:localhost", -2, -1, "localhost", NULL, "has expired" },
        { "of tomorrow", "DNS:localhost", 1, 2, "localhost", NULL, "not yet valid" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char name[8];
        struct certificate certificate;
        print_message("    %s\n", rows[i].what);
        snprintf(name, sizeof name, "row%zu", i);
        make(name, rows[i].names, rows[i].from_h * HOUR, rows[i].until_h * HOUR, &certificate);
        show(&certificate);
        assert_goes(url_of(rows[i].host),
                    (struct weir_store_options){ .tls_ca_file = authority.file,
                                                 .tls_server_name = rows[i].server_name },
                    rows[i].why);
    }
}

static void trusts_nobody_whom_no_authority_knows(void **state)
{
    (void)state;
    assert_goes(url_of("localhost"), (struct weir_store_options){ .tls_ca_file = stranger.file },
                "TLS: its certificate: ");
    assert_goes(url_of("localhost"), (struct weir_store_options){ .tls_ca_file = NULL },
                "TLS: its certificate: ");
}

/* what it shows */

static void shows_a_certificate_of_its_own(void **state)
{
    (void)state;
    const struct weir_store_options ours = { .tls_ca_file = authority.file,
                                             .tls_cert_file = client.file,
                                             .tls_key_file = client.key_file };
    const struct weir_store_options strange = { .tls_ca_file = authority.file,
                                                .tls_cert_file = strange_client.file,
                                                .tls_key_file = strange_client.key_file };
    assert_goes(url_of("localhost"), ours, NULL);
    demand_clients("yes");
    assert_goes(url_of("localhost"), ours, NULL);
    assert_goes(url_of("localhost"), strange, "unknown ca");
    assert_goes(url_of("localhost"), (struct weir_store_options){ .tls_ca_file = authority.file },
                "TLS: it wants a client's certificate");
}

static void speaks_an_older_tls(void **state)
{
    (void)state;
    redis_server_do(&server, "CONFIG SET tls-protocols %s", "TLSv1.2");
    assert_goes(url_of("localhost"), (struct weir_store_options){ .tls_ca_file = authority.file },
                NULL);
    demand_clients("yes");
    assert_goes(url_of("localhost"), (struct weir_store_options){ .tls_ca_file = authority.file },
                "TLS: ");
}

static void enters_with_user_password_and_database(void **state)
{
    (void)state;
    char url[120];
    redis_server_do(&server, "ACL SETUSER weir on >hush ~* &* +@all");
    snprintf(url, sizeof url, "rediss://weir:hush@localhost:%s/5", port);
    assert_goes(url, (struct weir_store_options){ .tls_ca_file = authority.file }, NULL);
    snprintf(url, sizeof url, "rediss://weir:shout@localhost:%s/5", port);
    assert_goes(url, (struct weir_store_options){ .tls_ca_file = authority.file }, "AUTH refused");
    redis_server_do(&server, "ACL DELUSER weir");
}

/* servers of another kind */

/* Answers each connection with some bytes, and closes it or stays silent. */
struct impostor {
    pthread_t thread;
    int listener;
    char url[60];
    const char *answer;
    size_t length;
    bool stays;
};

static int listen_anywhere(unsigned *chosen)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    *chosen = ntohs(address.sin_port);
    return listener;
}

static void *deceive(void *self)
{
    const struct impostor *impostor = self;
    char hello[4096];
    int connection;
    while ((connection = accept4(impostor->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        ssize_t got = read(connection, hello, sizeof hello);
        if (got > 0)
            got = send(connection, impostor->answer, impostor->length, MSG_NOSIGNAL);
        /* Until the store gives up. */
        while (impostor->stays && got > 0)
            got = read(connection, hello, sizeof hello);
        close(connection);
    }
    return NULL;
}

static void impostor_start(struct impostor *impostor)
{
    unsigned chosen;
    impostor->listener = listen_anywhere(&chosen);
    snprintf(impostor->url, sizeof impostor->url, "rediss://127.0.0.1:%u", chosen);
    assert_int_equal(pthread_create(&impostor->thread, NULL, deceive, impostor), 0);
}

static void impostor_stop(struct impostor *impostor)
{
    shutdown(impostor->listener, SHUT_RDWR);
    pthread_join(impostor->thread, NULL);
    close(impostor->listener);
}

static void says_what_is_wrong_with_a_server_that_speaks_no_tls(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct impostor impostor;
        const char *why;
    } rows[] = {
        { "Redis", { .answer = "-ERR unknown command\r\n", .length = 22 }, "speaks none" },
        { "a web server",
          { .answer = "HTTP/1.1 400 Bad Request\r\n\r\n", .length = 28 },
          "speaks none" },
        { "nothing", { .answer = "", .length = 0 }, "TLS: " },
        { "a record's head", { .answer = "\x16\x03\x03", .length = 3 }, "TLS: " },
        { "an alert",
          { .answer = "\x15\x03\x03\x00\x02\x02\x28", .length = 7 },
          "handshake failure" },
        { "a long record", { .answer = "\x16\x03\x03\xff\xff\x01", .length = 6 }, "TLS: " },
        { "a record of zeros", { .answer = "\x16\x03\x03\x00\x04\0\0\0\0", .length = 9 }, "TLS: " },
        { "silence", { .answer = "\x16", .length = 1, .stays = true }, "within 1 s" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct impostor impostor = rows[i].impostor;
        impostor_start(&impostor);
        assert_goes(impostor.url, (struct weir_store_options){ .tls_ca_file = authority.file },
                    rows[i].why);
        impostor_stop(&impostor);
    }
}

static void says_that_a_server_speaks_tls(void **state)
{
    (void)state;
    char url[60];
    snprintf(url, sizeof url, "redis://127.0.0.1:%s", port);
    struct weir_store *store = open_store(url, (struct weir_store_options){ .timeout_ms = 0 });
    wait_until_ready(store, false);
    struct weir_store_state seen;
    weir_store_state(store, &seen);
    print_message("    %s\n", seen.why);
    weir_store_free(store);
}

/* bytes that come one by one */

struct splitter {
    pthread_t thread;
    int listener;
    unsigned port;
};

static bool hand_on_one(int from, int to)
{
    char byte;
    return read(from, &byte, 1) == 1 && send(to, &byte, 1, MSG_NOSIGNAL) == 1;
}

static int connect_to_server(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)server.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

/* Of one connection. */
static void *split(void *self)
{
    const struct splitter *splitter = self;
    int ends[2] = { accept4(splitter->listener, NULL, NULL, SOCK_CLOEXEC), connect_to_server() };
    const int on = 1;
    for (int i = 0; i < 2; i++)
        setsockopt(ends[i], IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on);
    bool goes_on = ends[0] >= 0 && ends[1] >= 0;
    while (goes_on) {
        struct pollfd sources[2] = { { ends[0], POLLIN, 0 }, { ends[1], POLLIN, 0 } };
        poll(sources, 2, -1);
        for (int i = 0; i < 2 && goes_on; i++)
            if (sources[i].revents != 0)
                goes_on = hand_on_one(ends[i], ends[1 - i]);
    }
    close(ends[0]);
    close(ends[1]);
    return NULL;
}

static void takes_records_byte_by_byte(void **state)
{
    (void)state;
    struct splitter splitter;
    char url[60];
    splitter.listener = listen_anywhere(&splitter.port);
    assert_int_equal(pthread_create(&splitter.thread, NULL, split, &splitter), 0);
    snprintf(url, sizeof url, "rediss://127.0.0.1:%u", splitter.port);
    assert_goes(url, (struct weir_store_options){ .tls_ca_file = authority.file }, NULL);
    pthread_join(splitter.thread, NULL);
    close(splitter.listener);
}

/* a server that comes and goes */

static void comes_back_after_the_server_has(void **state)
{
    (void)state;
    struct weir_store *store = open_store(
        url_of("localhost"), (struct weir_store_options){ .tls_ca_file = authority.file });
    struct weir_spend spend = contract_gcra("tls-restart", 10, HOUR * SECOND, 0);
    for (uint64_t left = 9; left > 6; left--) {
        assert_int_equal(contract_spend(store, &spend).remaining, left);
        redis_server_kill(&server);
        wait_until_ready(store, false);
        redis_server_start(&server);
        wait_until_ready(store, true);
    }
    weir_store_free(store);
}

/* The answer to one check is waited for; false: there was none. */
static bool is_answered(struct weir_store *store, const struct weir_spend *spend)
{
    struct weir_answer answer;
    struct weir_check check = { .spends = spend, .answers = &answer, .count = 1 };
    contract_submit(store, &check);
    return check.result == WEIR_STORE_ANSWERED;
}

static void connects_again_when_it_was_cut_off(void **state)
{
    (void)state;
    struct weir_store *store = open_store(
        url_of("localhost"), (struct weir_store_options){ .tls_ca_file = authority.file });
    struct weir_spend spend = contract_gcra("tls-cut", 1000, HOUR * SECOND, 0);
    for (int i = 0; i < 10; i++) {
        uint64_t start_us = weir_monotonic_us();
        while (!is_answered(store, &spend))
            assert_true(weir_monotonic_us() - start_us < 20 * SECOND);
        redis_server_do(&server, "CLIENT KILL TYPE normal");
    }
    weir_store_free(store);
}

/* a program that ends without ceremony */

static atomic_bool was_answered;

static void *spend_for_ever(void *store)
{
    struct weir_spend spend = contract_gcra("tls-exit", 1000000, HOUR * SECOND, 0);
    while (is_answered(store, &spend))
        atomic_store(&was_answered, true);
    return NULL;
}

/* In a process of its own, where nothing may fail the test but its exit status. */
static _Noreturn void leave_in_the_middle(const char *url)
{
    pthread_t thread;
    struct weir_store *store = NULL;
    const struct weir_store_options *options =
        WEIR_STORE_OPTIONS(.timeout_ms = TIMEOUT_MS, .tls_ca_file = authority.file);
    alarm(30);
    if (weir_store_open(url, options, &store, NULL) != WEIR_OK
        || pthread_create(&thread, NULL, spend_for_ever, store) != 0)
        _exit(2);
    while (!atomic_load(&was_answered))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    exit(0);
}

static void lets_a_program_end_with_its_store_open(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            leave_in_the_middle(url_of("localhost"));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

/* the contract */

static struct weir_store *open_secured(void *self)
{
    (void)self;
    struct weir_store *store = open_store(
        url_of("localhost"), (struct weir_store_options){ .tls_ca_file = authority.file });
    contract_await_answers(store);
    return store;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, settle)
    const struct CMUnitTest tests[] = {
        TEST(trusts_whose_certificate_is_right),
        TEST(trusts_nobody_whom_no_authority_knows),
        TEST(shows_a_certificate_of_its_own),
        TEST(speaks_an_older_tls),
        TEST(enters_with_user_password_and_database),
        TEST(says_what_is_wrong_with_a_server_that_speaks_no_tls),
        TEST(says_that_a_server_speaks_tls),
        TEST(takes_records_byte_by_byte),
        TEST(comes_back_after_the_server_has),
        TEST(connects_again_when_it_was_cut_off),
        TEST(lets_a_program_end_with_its_store_open),
    };
    const struct contract_factory secured = {
        .name = "redis over TLS",
        .open = open_secured,
        .handles_share = true,
    };
    int failed = cmocka_run_group_tests_name("redis_tls", tests, start_server, remove_server);
    start_server(NULL);
    failed += contract_run(&secured);
    remove_server(NULL);
    return failed;
}

#endif
