/* What the Redis store advises in the log, of real servers and of one that lies. */
#include "contract.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "kept_log.h"
#include "redis_server.h"
#include "store/store.h"

#define SECOND     UINT64_C(1000000)
#define HOUR       (3600 * SECOND)
#define PATIENT_MS 5000

static struct redis_server server;

/* the log */

static size_t advice_count(void)
{
    return kept_lines(" [redis-");
}

static void assert_logged(enum weir_level level, const char *format, ...) WEIR_PRINTF(2, 3);

static void assert_logged(enum weir_level level, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    size_t found = kept_lines_of(level, line);
    if (found == 1)
        return;
    kept_print();
    fail_msg("logged %zu times: %s", found, line);
}

/* stores */

static struct weir_store *open_lanes(const char *url, uint32_t connections)
{
    const struct weir_store_options *options =
        WEIR_STORE_OPTIONS(.timeout_ms = PATIENT_MS, .log = kept_log(), .connections = connections);
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_store_open(url, options, &store, &error) != WEIR_OK)
        fail_msg("%s", error.text);
    return store;
}

static struct weir_store *open_store(const char *url)
{
    return open_lanes(url, 1);
}

static struct weir_check look(struct weir_store *store, const char *key)
{
    struct weir_spend spend = contract_gcra("look", 1, HOUR, 0);
    spend.key = key;
    spend.key_length = strlen(key);
    spend.cost = 0;
    struct weir_answer answer;
    struct weir_check check = { .spends = &spend, .answers = &answer, .count = 1 };
    contract_submit(store, &check);
    return check;
}

/* The store asks about the server before it hands over checks, so that what the server was asked is
 * read by the time that a check is answered. */
static void wait_for_an_answer(struct weir_store *store)
{
    uint64_t start_us = weir_monotonic_us();
    while (look(store, "advice").result != WEIR_STORE_ANSWERED) {
        assert_true(weir_monotonic_us() - start_us < 60 * SECOND);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

/* Breaks the store's connection. What is answered after that came over another one. */
static void connect_anew_to(const struct redis_server *one, struct weir_store *store)
{
    assert_true(redis_server_number(one, "CLIENT KILL TYPE normal") > 0);
    wait_for_an_answer(store);
}

static void connect_anew(struct weir_store *store)
{
    connect_anew_to(&server, store);
}

/* tests */

static void advises_nothing_where_all_is_well(void **state)
{
    (void)state;
    struct weir_store *store = open_store(server.url);
    wait_for_an_answer(store);
    connect_anew(store);
    assert_int_equal(advice_count(), 0);
    assert_int_equal(redis_server_number(&server, "EXISTS weir:{advice}"), 0);
    weir_store_free(store);
}

#define DROPS                                                                                      \
    "Redis at %s drops keys when its memory is full (maxmemory-policy is volatile-lru), and a "    \
    "client whose key is dropped starts afresh; give limits a Redis of their own, or: CONFIG SET " \
    "maxmemory-policy noeviction [redis-eviction]"

static void says_a_thing_once_until_it_was_gone(void **state)
{
    (void)state;
    redis_server_do(&server, "CONFIG SET maxmemory 100mb");
    redis_server_do(&server, "CONFIG SET maxmemory-policy volatile-lru");
    struct weir_store *store = open_store(server.url);
    wait_for_an_answer(store);
    assert_logged(WEIR_WARNING, DROPS, server.socket);
    connect_anew(store);
    assert_int_equal(advice_count(), 1);

    redis_server_do(&server, "CONFIG SET maxmemory-policy noeviction");
    connect_anew(store);
    assert_int_equal(advice_count(), 1);
    redis_server_do(&server, "CONFIG SET maxmemory-policy volatile-lru");
    connect_anew(store);
    assert_int_equal(advice_count(), 2);

    redis_server_do(&server, "CONFIG SET maxmemory-policy noeviction");
    redis_server_do(&server, "CONFIG SET maxmemory 0");
    weir_store_free(store);
}

static void advises_about_each_server_by_its_name(void **state)
{
    (void)state;
    struct redis_server other = { .options = (const char *[]){ "--maxmemory", "100mb",
                                                               "--maxmemory-policy", "volatile-lru",
                                                               NULL } };
    redis_server_prepare(&other);
    redis_server_start(&other);
    struct weir_store *store = open_store(other.tcp_url);
    wait_for_an_answer(store);
    assert_logged(WEIR_WARNING, DROPS, other.tcp_url + strlen("redis://"));
    weir_store_free(store);
    redis_server_remove(&other);
}

static void knows_a_replica_from_a_master(void **state)
{
    (void)state;
    struct redis_server other = { .options = NULL };
    redis_server_prepare(&other);
    redis_server_start(&other);
    redis_server_do(&other, "REPLICAOF 127.0.0.1 %u", server.port);
    struct weir_store *store = open_store(other.url);
    wait_for_an_answer(store);
    assert_int_equal(advice_count(), 1);
    assert_logged(
        WEIR_WARNING,
        "Redis at %s is a replica of 127.0.0.1 port %u, and refuses what is to be counted, "
        "or loses it: put its master into the store's \"url\", or Sentinels that know who "
        "it is. [redis-replica]",
        other.socket, server.port);
    redis_server_do(&other, "REPLICAOF NO ONE");
    connect_anew_to(&other, store);
    assert_int_equal(advice_count(), 1);
    redis_server_do(&other, "REPLICAOF 127.0.0.1 %u", server.port);
    connect_anew_to(&other, store);
    assert_int_equal(advice_count(), 2);
    weir_store_free(store);
    redis_server_remove(&other);
}

/* users with too few rights */

#define ALL_BUT                                                                                    \
    "ACL SETUSER few reset on >pass ~* +evalsha +eval +script|load +ping +select +info +role "     \
    "+time +get +getrange +strlen +setrange +psetex +pexpire +pttl +unlink "

static struct weir_store *open_lanes_as_few(const char *format, uint32_t connections)
{
    char url[160];
    redis_server_do(&server, format);
    snprintf(url, sizeof url, "redis+unix://few:pass@%s", server.socket);
    return open_lanes(url, connections);
}

static struct weir_store *open_as_few(const char *format)
{
    return open_lanes_as_few(format, 1);
}

static void names_the_commands_that_a_user_lacks(void **state)
{
    (void)state;
    struct weir_store *store = open_as_few(ALL_BUT "-setrange -unlink -pttl");
    wait_for_an_answer(store);
    assert_int_equal(advice_count(), 1);
    assert_logged(WEIR_WARNING,
                  "Redis at %s forbids commands without which nothing can be counted: ACL SETUSER "
                  "few +setrange +pttl +unlink [redis-commands]",
                  server.socket);
    /* The line works when it is typed. */
    redis_server_do(&server, "ACL SETUSER few +setrange +pttl +unlink");
    connect_anew(store);
    assert_int_equal(advice_count(), 1);
    redis_server_do(&server, "ACL SETUSER few -unlink");
    connect_anew(store);
    assert_int_equal(advice_count(), 2);
    weir_store_free(store);
}

static void says_which_call_is_refused(void **state)
{
    (void)state;
    struct weir_store *store = open_as_few(ALL_BUT "-evalsha");
    for (int n = 0; n < 3; n++)
        assert_int_equal(look(store, "weir:{a}:b").result, WEIR_STORE_ERROR);
    assert_int_equal(advice_count(), 1);
    assert_logged(WEIR_WARNING,
                  "Redis at %s forbids commands without which nothing can be counted: ACL SETUSER "
                  "few +evalsha [redis-commands]",
                  server.socket);
    weir_store_free(store);
}

static void says_which_keys_are_refused(void **state)
{
    (void)state;
    struct weir_store *store = open_as_few(ALL_BUT "resetkeys ~other:*");
    for (int n = 0; n < 3; n++)
        assert_int_equal(look(store, "weir:{ip=192.0.2.7/32}:b").result, WEIR_STORE_ERROR);
    assert_int_equal(advice_count(), 1);
    assert_logged(WEIR_WARNING,
                  "Redis at %s forbids the keys in which limits are kept: ACL SETUSER few ~weir:* "
                  "[redis-keys]",
                  server.socket);
    redis_server_do(&server, "ACL SETUSER few ~weir:*");
    assert_int_equal(look(store, "weir:{ip=192.0.2.7/32}:b").result, WEIR_STORE_ANSWERED);
    weir_store_free(store);
}

static void says_a_thing_once_for_all_connections(void **state)
{
    (void)state;
    struct weir_store *store = open_lanes_as_few(ALL_BUT "-unlink resetkeys ~other:*", 4);
    for (int n = 0; n < 32; n++) {
        char key[40];
        snprintf(key, sizeof key, "weir:{ip=192.0.2.%d/32}:b", n);
        assert_int_equal(look(store, key).result, WEIR_STORE_ERROR);
    }
    assert_int_equal(kept_lines("~weir:* [redis-keys]"), 1);
    redis_server_do(&server, "ACL SETUSER few ~weir:*");
    /* All connections must have been made, so that each could have spoken. */
    for (int n = 0; n < 32; n++) {
        char key[40];
        snprintf(key, sizeof key, "weir:{ip=192.0.2.%d/32}:b", n);
        assert_int_equal(look(store, key).result, WEIR_STORE_ANSWERED);
    }
    assert_int_equal(kept_lines("+unlink [redis-commands]"), 1);
    assert_int_equal(advice_count(), 2);
    weir_store_free(store);
}

static void says_once_that_it_may_not_look(void **state)
{
    (void)state;
    struct weir_store *store = open_as_few(ALL_BUT "-info");
    wait_for_an_answer(store);
    connect_anew(store);
    assert_int_equal(advice_count(), 1);
    assert_logged(WEIR_INFO,
                  "Redis at %s does not answer INFO, so its version, role and eviction policy are "
                  "yours to look at, or: ACL SETUSER few +info [redis-untold]",
                  server.socket);
    weir_store_free(store);
}

static void names_commands_that_were_renamed(void **state)
{
    (void)state;
    struct redis_server other = { .options = (const char *[]){ "--rename-command", "UNLINK",
                                                               "REMOVE", NULL } };
    redis_server_prepare(&other);
    redis_server_start(&other);
    struct weir_store *store = open_store(other.url);
    wait_for_an_answer(store);
    assert_int_equal(advice_count(), 1);
    assert_logged(WEIR_WARNING,
                  "Redis at %s does not know commands without which nothing can be counted; look "
                  "for rename-command in its configuration: unlink [redis-commands]",
                  other.socket);
    weir_store_free(store);
    redis_server_remove(&other);
}

/* a server that lies */

/* Greets like a Redis, and tells what a test wants. */
struct liar {
    int listener;
    pthread_t thread;
    char url[60];
    const char *version;
    int64_t ahead_s;     /* of this machine's clock                  */
    const char *answers; /* to every question about itself; NULL: as it should */
};

#define HASH "$40\r\n0123456789012345678901234567890123456789\r\n"

/* A look at a gcra key: a time, and nothing in use. */
static size_t write_decision(char *reply)
{
    const double numbers[2] = { 1767225600e6, 0 };
    memcpy(reply, "$16\r\n", 5);
    memcpy(reply + 5, numbers, sizeof numbers);
    memcpy(reply + 21, "\r\n", 2);
    return 23;
}

static size_t write_bulk(char *reply, size_t size, const char *text)
{
    return (size_t)snprintf(reply, size, "$%zu\r\n%s\r\n", strlen(text), text);
}

/* To the microsecond, as Redis tells it: cut to whole seconds it would be nearly as far off as a
 * clock may be. */
static size_t write_time(const struct liar *liar, char *reply, size_t size)
{
    struct timespec now;
    char seconds[24], us[24];
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(seconds, sizeof seconds, "%lld", (long long)now.tv_sec + (long long)liar->ahead_s);
    snprintf(us, sizeof us, "%ld", now.tv_nsec / 1000);
    return (size_t)snprintf(reply, size, "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(seconds),
                            seconds, strlen(us), us);
}

static size_t write_info(const struct liar *liar, char *reply, size_t size, const char *section)
{
    char text[80] = "role:master\r\n";
    if (strcmp(section, "server") == 0)
        snprintf(text, sizeof text, "redis_version:%s\r\n", liar->version);
    else if (strcmp(section, "memory") == 0)
        snprintf(text, sizeof text, "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n");
    return write_bulk(reply, size, text);
}

static size_t reply_to(const struct liar *liar, const redisReply *command, char *reply, size_t size)
{
    const char *name = command->element[0]->str;
    const char *first = command->elements > 1 ? command->element[1]->str : "";
    bool is_script = strcmp(name, "EVAL") == 0 && strstr(first, "weir:{advice}") != NULL;
    bool is_question = is_script || strcmp(name, "INFO") == 0 || strcmp(name, "TIME") == 0;
    if (is_question && liar->answers != NULL)
        return (size_t)snprintf(reply, size, "%s", liar->answers);
    if (is_script)
        return (size_t)snprintf(reply, size, "*0\r\n");
    if (strcmp(name, "INFO") == 0)
        return write_info(liar, reply, size, first);
    if (strcmp(name, "TIME") == 0)
        return write_time(liar, reply, size);
    if (strcmp(name, "SCRIPT") == 0)
        return (size_t)snprintf(reply, size, HASH);
    if (strncmp(name, "EVAL", 4) == 0)
        return write_decision(reply);
    if (strcmp(name, "ROLE") == 0)
        return (size_t)snprintf(reply, size, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
    return (size_t)snprintf(reply, size, "+PONG\r\n");
}

static void entertain(const struct liar *liar, int guest)
{
    redisReader *reader = redisReaderCreate();
    char heard[16384], reply[2048];
    ssize_t got;
    while ((got = read(guest, heard, sizeof heard)) > 0) {
        redisReaderFeed(reader, heard, (size_t)got);
        void *command = NULL;
        while (redisReaderGetReply(reader, &command) == REDIS_OK && command != NULL) {
            size_t length = reply_to(liar, command, reply, sizeof reply);
            (void)!send(guest, reply, length, MSG_NOSIGNAL); /* it may have left */
            freeReplyObject(command);
        }
    }
    redisReaderFree(reader);
    close(guest);
}

static void *receive(void *self)
{
    const struct liar *liar = self;
    int guest;
    while ((guest = accept(liar->listener, NULL, NULL)) >= 0)
        entertain(liar, guest);
    return NULL;
}

static void start_liar(struct liar *liar)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    liar->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(liar->listener, (const struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(liar->listener, 8), 0);
    assert_int_equal(getsockname(liar->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(liar->url, sizeof liar->url, "redis://127.0.0.1:%u", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&liar->thread, NULL, receive, liar), 0);
}

static void stop_liar(struct liar *liar)
{
    shutdown(liar->listener, SHUT_RDWR);
    pthread_join(liar->thread, NULL);
    close(liar->listener);
}

static void warns_of_an_old_version_and_a_wrong_clock(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *version;
        int64_t ahead_s;
        const char *warns; /* NULL: of nothing */
    } rows[] = {
        { "a version too old", "4.0.14", 0, " is version 4.0.14, which refuses " },
        { "a clock ahead", "7.0.15", 100, " s ahead of this machine's, and limits follow Redis's" },
        { "a clock behind", "7.0.15", -100, " s behind this machine's, and limits follow Redis's" },
        { "neither", "7.0.15", 0, NULL },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        kept_forget();
        struct liar liar = { .version = rows[i].version, .ahead_s = rows[i].ahead_s };
        start_liar(&liar);
        struct weir_store *store = open_store(liar.url);
        wait_for_an_answer(store);
        assert_int_equal(advice_count(), rows[i].warns != NULL);
        if (rows[i].warns != NULL)
            assert_int_equal(kept_lines(rows[i].warns), 1);
        weir_store_free(store);
        stop_liar(&liar);
    }
}

static void decides_whatever_is_said_about_the_server(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "$-1\r\n",     "*-1\r\n",
        "-ERR no\r\n", "*1\r\n*1\r\n:7\r\n",
        "$0\r\n\r\n",  "*2\r\n$1\r\nx\r\n$-1\r\n",
        ":1\r\n",      "+PONG\r\n",
        "*0\r\n",      "-BUSY Redis is busy\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        struct liar liar = { .version = "7.0.15", .answers = answers[i] };
        start_liar(&liar);
        struct weir_store *store = open_store(liar.url);
        wait_for_an_answer(store);
        wait_for_an_answer(store);
        assert_int_equal(advice_count(), 0);
        weir_store_free(store);
        stop_liar(&liar);
    }
}

/* running */

static int clear_log(void **state)
{
    (void)state;
    kept_forget();
    return 0;
}

#define ADVICE(name) cmocka_unit_test_setup(name, clear_log)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ADVICE(advises_nothing_where_all_is_well),
        ADVICE(says_a_thing_once_until_it_was_gone),
        ADVICE(advises_about_each_server_by_its_name),
        ADVICE(knows_a_replica_from_a_master),
        ADVICE(names_the_commands_that_a_user_lacks),
        ADVICE(says_which_call_is_refused),
        ADVICE(says_which_keys_are_refused),
        ADVICE(says_a_thing_once_for_all_connections),
        ADVICE(says_once_that_it_may_not_look),
        ADVICE(names_commands_that_were_renamed),
        ADVICE(warns_of_an_old_version_and_a_wrong_clock),
        ADVICE(decides_whatever_is_said_about_the_server),
    };
    redis_server_prepare(&server);
    redis_server_start(&server);
    int failed = cmocka_run_group_tests_name("redis advice", tests, NULL, NULL);
    redis_server_remove(&server);
    return failed;
}
