/* The Redis store and the system's lookup of names: several addresses, slow answers, none at all. */
#include "contract.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "redis_server.h"
#include "sentinel_by_hand.h"
#include "store/redis_resolve.h"
#include "store/store.h"

#define SECOND UINT64_C(1000000)
#define HOUR   (3600 * SECOND)

#define PATIENT_MS 5000

static struct redis_server server;

/* the name server: what it says of "redis.test", and of "any.redis.test" */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const char *addresses[4]; /* ended by NULL                               */
    int failure;              /* of getaddrinfo(), instead of addresses      */
    bool hangs;               /* it says nothing, until that is set to false */
    unsigned waiting;         /* lookups that hang                           */
    unsigned lookups;         /* so far                                      */
    sigset_t blocked;         /* in the thread of the last one               */
} names = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

typedef int lookup_function(const char *, const char *, const struct addrinfo *,
                            struct addrinfo **);

static int look_up_in_system(const char *name, const char *service, const struct addrinfo *wanted,
                             struct addrinfo **found)
{
    lookup_function *in_system;
    *(void **)&in_system = dlsym(RTLD_NEXT, "getaddrinfo");
    return in_system(name, service, wanted, found);
}

static int look_up_here(const char *service, const struct addrinfo *wanted, struct addrinfo **found)
{
    struct addrinfo **end = found;
    pthread_mutex_lock(&names.mutex);
    names.lookups++;
    pthread_sigmask(SIG_SETMASK, NULL, &names.blocked);
    names.waiting++;
    pthread_cond_broadcast(&names.changed);
    while (names.hangs)
        pthread_cond_wait(&names.changed, &names.mutex);
    names.waiting--;
    pthread_cond_broadcast(&names.changed);
    int failure = names.failure;
    for (size_t i = 0; failure == 0 && names.addresses[i] != NULL; i++) {
        failure = look_up_in_system(names.addresses[i], service, wanted, end);
        end = &(*end)->ai_next;
    }
    pthread_mutex_unlock(&names.mutex);
    return failure;
}

/* In the place of the C library's, for all of this program. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *wanted,
                struct addrinfo **found)
{
    const char *ours = name == NULL ? NULL : strstr(name, "redis.test");
    bool is_ours = ours != NULL && strcmp(ours, "redis.test") == 0;
    bool wants_literals = wanted != NULL && (wanted->ai_flags & AI_NUMERICHOST) != 0;
    return is_ours && !wants_literals ? look_up_here(service, wanted, found)
                                      : look_up_in_system(name, service, wanted, found);
}

static void set_names(const char *first, const char *second, int failure, bool hangs)
{
    pthread_mutex_lock(&names.mutex);
    names.addresses[0] = first;
    names.addresses[1] = second;
    names.failure = failure;
    names.hangs = hangs;
    pthread_cond_broadcast(&names.changed);
    pthread_mutex_unlock(&names.mutex);
}

static unsigned lookups(void)
{
    pthread_mutex_lock(&names.mutex);
    unsigned count = names.lookups;
    pthread_mutex_unlock(&names.mutex);
    return count;
}

static void wait_for_lookups_under_way(unsigned count)
{
    pthread_mutex_lock(&names.mutex);
    while (names.waiting != count)
        pthread_cond_wait(&names.changed, &names.mutex);
    pthread_mutex_unlock(&names.mutex);
}

/* stores */

static struct weir_store *open_store(void)
{
    struct weir_store *store = NULL;
    char url[60];
    snprintf(url, sizeof url, "redis://redis.test:%u", server.port);
    assert_int_equal(
        weir_store_open(url, WEIR_STORE_OPTIONS(.timeout_ms = PATIENT_MS), &store, NULL), WEIR_OK);
    return store;
}

static bool answers(struct weir_store *store)
{
    struct weir_spend look = contract_gcra("look", 1, HOUR, 0);
    struct weir_answer answer;
    struct weir_check check = { .spends = &look, .answers = &answer, .count = 1 };
    look.cost = 0;
    contract_submit(store, &check);
    return check.result == WEIR_STORE_ANSWERED;
}

/* On a busy machine the first try may take longer than it waits for that. */
static void wait_for_answer(struct weir_store *store)
{
    uint64_t start_us = weir_monotonic_us();
    while (!answers(store))
        assert_true(weir_monotonic_us() - start_us < 60 * SECOND);
}

static void wait_for_state(struct weir_store *store, bool answering, const char *why)
{
    struct weir_store_state state;
    uint64_t start_us = weir_monotonic_us();
    do {
        assert_true(weir_monotonic_us() - start_us < 60 * SECOND);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        weir_store_state(store, &state);
    } while (state.answering != answering || strstr(state.why, why) == NULL);
}

static void wait_for_server(struct weir_store *store, const char *host)
{
    struct weir_store_state state;
    uint64_t start_us = weir_monotonic_us();
    do {
        assert_true(weir_monotonic_us() - start_us < 60 * SECOND);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        weir_store_state(store, &state);
    } while (strstr(state.server, host) == NULL);
}

static void publish_master(struct sentinel_by_hand *sentinel, const char *host)
{
    char text[100], resp[200];
    snprintf(text, sizeof text, "mymaster 127.0.0.1 1 %s %u", host, server.port);
    snprintf(resp, sizeof resp, "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%zu\r\n%s\r\n",
             strlen(text), text);
    sentinel_by_hand_publish(sentinel, resp);
}

/* several addresses */

static void tries_each_address_of_a_name(void **state)
{
    (void)state;
    set_names("127.0.0.2", "127.0.0.1", 0, false); /* nobody listens at the first one */
    struct weir_store *store = open_store();
    wait_for_answer(store);
    weir_store_free(store);
}

static void goes_on_where_an_address_is_silent(void **state)
{
    (void)state;
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)server.port) };
    assert_int_equal(inet_pton(AF_INET, "127.0.0.2", &address.sin_addr), 1);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    set_names("127.0.0.2", "127.0.0.1", 0, false);
    struct weir_store *store = open_store();
    wait_for_answer(store);
    weir_store_free(store);
    close(listener);
}

/* changes */

static void looks_a_name_up_before_each_try(void **state)
{
    (void)state;
    set_names("127.0.0.2", NULL, 0, false);
    struct weir_store *store = open_store();
    wait_for_state(store, false, "Connection refused");
    set_names("127.0.0.1", NULL, 0, false);
    wait_for_state(store, true, "");
    wait_for_answer(store);
    weir_store_free(store);
}

static void says_why_a_name_has_no_address(void **state)
{
    (void)state;
    set_names(NULL, NULL, EAI_NONAME, false);
    struct weir_store *store = open_store();
    wait_for_state(store, false, "its name cannot be resolved: Name or service not known");
    set_names(NULL, NULL, 0, false);
    wait_for_state(store, false, "its name cannot be resolved: no address");
    set_names("127.0.0.1", NULL, 0, false);
    wait_for_state(store, true, "");
    weir_store_free(store);
}

/* silence */

static void does_without_a_lookup_that_hangs(void **state)
{
    (void)state;
    unsigned before = lookups();
    set_names("127.0.0.1", NULL, 0, true);
    struct weir_store *store = open_store();
    wait_for_state(store, false, "its name cannot be resolved: no answer within 1 s");
    assert_false(answers(store));
    wait_for_lookups_under_way(1);
    assert_int_equal(lookups() - before, 1);

    /* It was given up, but not for nothing. */
    set_names("127.0.0.1", NULL, 0, false);
    wait_for_state(store, true, "");
    assert_int_equal(lookups() - before, 1);
    wait_for_answer(store);
    weir_store_free(store);
}

static void does_not_wait_for_a_lookup_when_it_is_freed(void **state)
{
    (void)state;
    set_names("127.0.0.1", NULL, 0, true);
    struct weir_store *store = open_store();
    wait_for_lookups_under_way(1);
    weir_store_free(store); /* would hang */
    wait_for_lookups_under_way(1);
    set_names("127.0.0.1", NULL, 0, false);
    wait_for_lookups_under_way(0);
}

/* how many */

static struct weir_redis_lookup *start_lookup(struct weir_redis_resolver *resolver, unsigned number,
                                              int wake_fd, const char **why)
{
    char host[40];
    snprintf(host, sizeof host, "n%u.redis.test", number);
    return weir_redis_lookup_start(resolver, host, wake_fd, why);
}

static void take_when_it_ends(struct weir_redis_resolver *resolver,
                              struct weir_redis_lookup *lookup)
{
    struct weir_redis_addresses addresses = { .count = 0 };
    char why[100];
    uint64_t start_us = weir_monotonic_us();
    while (!weir_redis_lookup_take(resolver, lookup, &addresses, why, sizeof why)) {
        assert_true(weir_monotonic_us() - start_us < 60 * SECOND);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    assert_int_equal(addresses.count, 1);
    assert_string_equal(addresses.at[0], "127.0.0.1");
}

/* Who drives a lane may be the application's own thread. */
static void leaves_signals_to_the_thread_that_asks(void **state)
{
    (void)state;
    struct weir_redis_resolver resolver = { .lookups = { NULL } };
    const char *why = "";
    int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    set_names("127.0.0.1", NULL, 0, false);
    struct weir_redis_lookup *lookup = start_lookup(&resolver, 7, wake_fd, &why);
    assert_non_null(lookup);
    take_when_it_ends(&resolver, lookup);
    static const int signals[] = { SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM };
    sigset_t own;
    pthread_sigmask(SIG_SETMASK, NULL, &own);
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        assert_true(sigismember(&names.blocked, signals[i]));
        assert_false(sigismember(&own, signals[i]));
    }
    weir_redis_resolver_finish(&resolver);
    close(wake_fd);
}

/* Nobody can end a lookup, so those that are left count too, and are taken up again. */
static void looks_up_no_more_than_so_many_names_at_once(void **state)
{
    (void)state;
    struct weir_redis_resolver resolver = { .lookups = { NULL } };
    struct weir_redis_lookup *started[WEIR_REDIS_LOOKUPS_MAX];
    const char *why = "";
    int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    unsigned before = lookups();
    set_names("127.0.0.1", NULL, 0, true);
    for (unsigned i = 0; i < WEIR_REDIS_LOOKUPS_MAX; i++) {
        started[i] = start_lookup(&resolver, i, wake_fd, &why);
        assert_non_null(started[i]);
        weir_redis_lookup_leave(started[i]);
    }
    assert_null(start_lookup(&resolver, 99, wake_fd, &why));
    assert_string_equal(why, "its name cannot be resolved: too many are being looked up");
    assert_ptr_equal(start_lookup(&resolver, 5, wake_fd, &why), started[5]);
    assert_null(start_lookup(&resolver, 5, wake_fd, &why)); /* that one has somebody now */
    wait_for_lookups_under_way(WEIR_REDIS_LOOKUPS_MAX);
    assert_int_equal(lookups() - before, WEIR_REDIS_LOOKUPS_MAX);

    set_names("127.0.0.1", NULL, 0, false);
    take_when_it_ends(&resolver, started[5]);
    struct weir_redis_lookup *other = start_lookup(&resolver, 99, wake_fd, &why);
    assert_non_null(other);
    take_when_it_ends(&resolver, other);
    weir_redis_resolver_finish(&resolver);
    wait_for_lookups_under_way(0);
    close(wake_fd);
}

/* The links to Sentinels are made anew for each round of questions. */
static void looks_up_each_sentinel_once_while_the_name_server_is_silent(void **state)
{
    (void)state;
    unsigned before = lookups();
    set_names("127.0.0.1", NULL, 0, true);
    struct weir_store *store = NULL;
    assert_int_equal(weir_store_open("redis+sentinel://a.redis.test,b.redis.test/mymaster",
                                     WEIR_STORE_OPTIONS(.timeout_ms = 20), &store, NULL),
                     WEIR_OK);
    struct weir_store_state how = { .down_us = 0 };
    while (how.down_us < 3 * SECOND) { /* rounds of one second and a pause */
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        weir_store_state(store, &how);
    }
    assert_int_equal(lookups() - before, 2);
    weir_store_free(store);
    set_names("127.0.0.1", NULL, 0, false);
    wait_for_lookups_under_way(0);
}

/* Each is at a name that was never asked for before. */
static void bounds_lookups_however_often_the_master_moves(void **state)
{
    (void)state;
    enum { MOVES = 40 };
    unsigned before = lookups();
    struct sentinel_by_hand *sentinel = sentinel_by_hand_new();
    sentinel_by_hand_name(sentinel, server.port);
    char url[100];
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%u/mymaster",
             sentinel_by_hand_port(sentinel));
    struct weir_store *store = NULL;
    assert_int_equal(
        weir_store_open(url, WEIR_STORE_OPTIONS(.timeout_ms = PATIENT_MS), &store, NULL), WEIR_OK);
    wait_for_answer(store);
    set_names("127.0.0.1", NULL, 0, true);
    for (unsigned i = 0; i < MOVES; i++) {
        char host[40];
        snprintf(host, sizeof host, "m%u.redis.test", i);
        publish_master(sentinel, host);
        wait_for_server(store, host);
    }
    assert_in_range(lookups() - before, 1, WEIR_REDIS_LOOKUPS_MAX);
    wait_for_state(store, false, "too many are being looked up");
    weir_store_free(store);
    sentinel_by_hand_free(sentinel);
    set_names("127.0.0.1", NULL, 0, false);
    wait_for_lookups_under_way(0);
}

static void keeps_addresses_while_the_name_server_is_in_trouble(void **state)
{
    (void)state;
    set_names("127.0.0.1", NULL, 0, false);
    struct weir_store *store = open_store();
    wait_for_answer(store);
    static const struct {
        int failure;
        bool hangs;
    } troubles[] = { { EAI_AGAIN, false }, { 0, true } };
    for (size_t i = 0; i < COUNT_OF(troubles); i++) {
        set_names("127.0.0.2", NULL, troubles[i].failure, troubles[i].hangs);
        redis_server_kill(&server);
        wait_for_state(store, false, "");
        redis_server_start(&server);
        wait_for_state(store, true, "");
        wait_for_answer(store);
    }
    set_names("127.0.0.1", NULL, 0, false);
    weir_store_free(store);
    wait_for_lookups_under_way(0);

    /* A name that is said to be nobody's is another matter. */
    store = open_store();
    wait_for_answer(store);
    set_names(NULL, NULL, EAI_NONAME, false);
    redis_server_kill(&server);
    redis_server_start(&server);
    wait_for_state(store, false, "Name or service not known");
    weir_store_free(store);
}

/* literals */

static void takes_literals_for_what_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        bool is_literal;
        const char *address;
    } rows[] = {
        { "127.0.0.1", true, "127.0.0.1" }, { "::1", true, "::1" },
        { "0:0:0:0:0:0:0:1", true, "::1" }, { "redis.test", false, "" },
        { "localhost", false, "" },         { "", false, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_redis_addresses addresses;
        assert_int_equal(weir_redis_is_literal(rows[i].host, &addresses), rows[i].is_literal);
        assert_int_equal(addresses.count, rows[i].is_literal);
        if (rows[i].is_literal)
            assert_string_equal(addresses.at[0], rows[i].address);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tries_each_address_of_a_name),
        cmocka_unit_test(goes_on_where_an_address_is_silent),
        cmocka_unit_test(looks_a_name_up_before_each_try),
        cmocka_unit_test(says_why_a_name_has_no_address),
        cmocka_unit_test(does_without_a_lookup_that_hangs),
        cmocka_unit_test(does_not_wait_for_a_lookup_when_it_is_freed),
        cmocka_unit_test(leaves_signals_to_the_thread_that_asks),
        cmocka_unit_test(looks_up_no_more_than_so_many_names_at_once),
        cmocka_unit_test(looks_up_each_sentinel_once_while_the_name_server_is_silent),
        cmocka_unit_test(bounds_lookups_however_often_the_master_moves),
        cmocka_unit_test(keeps_addresses_while_the_name_server_is_in_trouble),
        cmocka_unit_test(takes_literals_for_what_they_are),
    };
    redis_server_prepare(&server);
    redis_server_start(&server);
    int failed = cmocka_run_group_tests_name("redis names", tests, NULL, NULL);
    redis_server_remove(&server);
    return failed;
}
