/* The Redis store when Redis is stopped, killed, restarted, full, demoted, locked or not Redis. */
#include "contract.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "redis_server.h"
#include "store/store.h"

#define SECOND UINT64_C(1000000)
#define HOUR   (3600 * SECOND)

/* For tests in which Redis answers, however busy the machine is; and for those in which it is not
 * to answer in time. */
#define PATIENT_MS 5000
#define SHORT_MS   20

static struct redis_server server;

/* the log */

static struct {
    pthread_mutex_t mutex;
    char lines[40][512];
    size_t count;
} logged = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void keep_line(void *self, enum weir_level level, const char *text)
{
    (void)self;
    (void)level;
    pthread_mutex_lock(&logged.mutex);
    if (logged.count < COUNT_OF(logged.lines))
        snprintf(logged.lines[logged.count++], sizeof logged.lines[0], "%s", text);
    pthread_mutex_unlock(&logged.mutex);
}

static size_t lines_with(const char *part)
{
    size_t found = 0;
    pthread_mutex_lock(&logged.mutex);
    for (size_t i = 0; i < logged.count; i++)
        found += strstr(logged.lines[i], part) != NULL;
    pthread_mutex_unlock(&logged.mutex);
    return found;
}

static size_t line_count(void)
{
    return lines_with("");
}

static void forget_lines(void)
{
    pthread_mutex_lock(&logged.mutex);
    logged.count = 0;
    pthread_mutex_unlock(&logged.mutex);
}

/* stores */

static struct weir_store *open_store(const char *url, uint32_t timeout_ms)
{
    const struct weir_store_options *options =
        WEIR_STORE_OPTIONS(.timeout_ms = timeout_ms, .log = { .write = keep_line });
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    assert_int_equal(weir_store_open(url, options, &store, &error), WEIR_OK);
    return store;
}

/* Looks again and again, up to ten seconds, and returns how long it took. */
static uint64_t wait_until_ready(struct weir_store *store, bool wanted)
{
    uint64_t start_us = weir_monotonic_us();
    while (weir_store_ready(store) != wanted) {
        assert_true(weir_monotonic_us() - start_us < 10 * SECOND);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    return weir_monotonic_us() - start_us;
}

static void wait_until_logged(const char *part)
{
    uint64_t start_us = weir_monotonic_us();
    while (lines_with(part) == 0) {
        assert_true(weir_monotonic_us() - start_us < 10 * SECOND);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

/* One check for one unit, waited for. */
static struct weir_check asked(struct weir_store *store, const struct weir_spend *spend)
{
    struct weir_check check = { .spends = { *spend }, .count = 1 };
    contract_submit(store, &check);
    return check;
}

static enum weir_store_result result_of(struct weir_store *store, const struct weir_spend *spend)
{
    return asked(store, spend).result;
}

static struct weir_spend look_at(const struct weir_spend *spend)
{
    struct weir_spend look = *spend;
    look.cost = 0;
    return look;
}

/* A store that has answered already, since the first check may have to wait for the connection. */
static struct weir_store *open_answering(const char *url, uint32_t timeout_ms)
{
    struct weir_store *store = open_store(url, timeout_ms);
    struct weir_spend look = contract_gcra("answering", 1, HOUR, 0);
    look.cost = 0;
    while (result_of(store, &look) != WEIR_STORE_ANSWERED)
        wait_until_ready(store, true);
    forget_lines();
    return store;
}

static void assert_refuses_at_once(struct weir_store *store)
{
    struct weir_spend spend = contract_gcra("refused", 1, HOUR, 0);
    struct weir_check check = asked(store, &spend);
    assert_int_equal(check.result, WEIR_STORE_UNAVAILABLE);
    assert_true(check.why[0] != '\0');
}

/* checks that nobody waits for */

struct crowd {
    struct weir_check checks[8];
    enum weir_store_result results[8]; /* in the order in which they ended */
    size_t ended[8];
    _Atomic size_t count;
};

static void on_crowd_done(struct weir_check *check)
{
    struct crowd *crowd = check->owner;
    size_t index = (size_t)(check - crowd->checks);
    size_t at = crowd->count;
    crowd->results[at] = check->result;
    crowd->ended[at] = index;
    /* The store must not look at it any more. */
    memset(check, 0xa5, sizeof *check);
    crowd->count = at + 1;
}

static void submit_crowd(struct weir_store *store, struct crowd *crowd,
                         const struct weir_spend *spend, size_t count)
{
    memset(crowd, 0, sizeof *crowd);
    for (size_t i = 0; i < count; i++) {
        crowd->checks[i] = (struct weir_check){
            .spends = { *spend }, .count = 1, .done = on_crowd_done, .owner = crowd
        };
        store->type->submit(store->self, &crowd->checks[i]);
    }
}

static void wait_for_crowd(const struct crowd *crowd, size_t count)
{
    uint64_t start_us = weir_monotonic_us();
    while (crowd->count < count) {
        assert_true(weir_monotonic_us() - start_us < 10 * SECOND);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

/* Redis does not answer */

static void ends_each_check_at_its_deadline_then_at_once(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, SHORT_MS);
    struct weir_spend spend = contract_gcra("frozen", 100, HOUR, 0);
    redis_server_freeze(&server);
    for (int n = 0; n < 5; n++) {
        assert_true(weir_store_ready(store));
        struct weir_check check = asked(store, &spend);
        assert_int_equal(check.result, WEIR_STORE_TIMEOUT);
        assert_string_equal(check.why, "no answer within 20 ms");
    }
    wait_until_ready(store, false);
    for (int n = 0; n < 20; n++)
        assert_refuses_at_once(store);

    struct weir_store_state how;
    weir_store_state(store, &how);
    assert_false(how.answering);
    assert_string_equal(how.name, "redis");
    assert_string_equal(how.why, "5 timeouts");
    assert_int_equal(lines_with("is not answering (5 timeouts); policies'"), 1);
    assert_int_equal(line_count(), 1);

    redis_server_thaw(&server);
    assert_in_range(wait_until_ready(store, true), 0, 2 * SECOND);
    assert_int_equal(lines_with("answers again after "), 1);
    assert_int_equal(line_count(), 2);
    weir_store_state(store, &how);
    assert_true(how.answering);
    assert_string_equal(how.why, "");
    weir_store_free(store);
}

static void ends_checks_in_the_order_they_came(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, SHORT_MS);
    struct weir_spend spend = contract_gcra("order", 100, HOUR, 0);
    struct crowd crowd;
    redis_server_freeze(&server);
    submit_crowd(store, &crowd, &spend, 8);
    wait_for_crowd(&crowd, 8);
    redis_server_thaw(&server);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(crowd.ended[i], i);
        /* With the fifth it is clear that nobody answers, and the rest need not wait. */
        if (i < 5)
            assert_int_equal(crowd.results[i], WEIR_STORE_TIMEOUT);
    }
    weir_store_free(store);
}

static void drops_replies_that_come_late(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, 100);
    struct weir_spend spend = contract_gcra("late", 100, HOUR, 0);
    struct weir_spend look = look_at(&spend);
    for (uint64_t round = 1; round <= 3; round++) {
        struct crowd crowd;
        redis_server_do(&server, "CLIENT PAUSE 300 ALL");
        submit_crowd(store, &crowd, &spend, 3);
        wait_for_crowd(&crowd, 3);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(crowd.results[i], WEIR_STORE_TIMEOUT);
        redis_server_do(&server, "PING"); /* returns when the pause is over */
        /* Redis has counted them all the same, and replies are matched to the right checks. */
        struct weir_check check = asked(store, &look);
        assert_int_equal(check.result, WEIR_STORE_ANSWERED);
        assert_int_equal(check.answers[0].remaining, 100 - 3 * round);
    }
    assert_int_equal(line_count(), 0);
    weir_store_free(store);
}

static void cancels_a_check_that_is_under_way(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend spend = contract_gcra("cancel", 100, HOUR, 0);
    struct crowd crowd;
    redis_server_freeze(&server);
    submit_crowd(store, &crowd, &spend, 3);
    store->type->cancel(store->self, &crowd.checks[1]);
    assert_int_equal(crowd.count, 1);
    assert_int_equal(crowd.ended[0], 1);
    assert_int_equal(crowd.results[0], WEIR_STORE_CANCELLED);
    redis_server_thaw(&server);
    wait_for_crowd(&crowd, 3);
    assert_int_equal(crowd.ended[1], 0);
    assert_int_equal(crowd.results[1], WEIR_STORE_ANSWERED);
    assert_int_equal(crowd.ended[2], 2);
    assert_int_equal(crowd.results[2], WEIR_STORE_ANSWERED);
    weir_store_free(store);
}

static void ends_what_waits_when_it_is_freed(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend spend = contract_gcra("free", 100, HOUR, 0);
    struct crowd crowd;
    redis_server_freeze(&server);
    submit_crowd(store, &crowd, &spend, 3);
    weir_store_free(store);
    redis_server_thaw(&server);
    assert_int_equal(crowd.count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(crowd.results[i], WEIR_STORE_CANCELLED);
}

/* Each of these threads submits checks and cancels them while their answers come. */
struct canceller {
    struct weir_store *store;
    struct weir_spend spend;
    size_t ended;
};

static void on_cancelled_or_answered(struct weir_check *check)
{
    struct canceller *canceller = check->owner;
    canceller->ended++; /* cancel() waits for this, so no lock is needed */
    memset(check->store, 0, sizeof check->store);
}

static void *submit_and_cancel(void *self)
{
    struct canceller *canceller = self;
    for (int n = 0; n < 500; n++) {
        struct weir_check check = { .spends = { canceller->spend },
                                    .count = 1,
                                    .done = on_cancelled_or_answered,
                                    .owner = canceller };
        canceller->store->type->submit(canceller->store->self, &check);
        for (int pause = 0; pause < n % 50 * 100; pause++)
            __asm__ volatile("");
        canceller->store->type->cancel(canceller->store->self, &check);
        memset(&check, 0xa5, sizeof check);
    }
    return NULL;
}

static void ends_each_check_once_whoever_is_quicker(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct canceller cancellers[4];
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        cancellers[i] =
            (struct canceller){ .store = store, .spend = contract_gcra("race", 100000, HOUR, 0) };
        assert_int_equal(pthread_create(&threads[i], NULL, submit_and_cancel, &cancellers[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(cancellers[i].ended, 500);
    }
    weir_store_free(store);
}

/* Redis goes away and comes back */

static void comes_back_after_a_kill(void **state)
{
    (void)state;
    for (int keeps_data = 0; keeps_data < 2; keeps_data++) {
        struct redis_server own = { .keeps_data = keeps_data };
        redis_server_prepare(&own);
        redis_server_start(&own);
        struct weir_store *store = open_answering(own.url, PATIENT_MS);
        struct weir_spend spend = contract_gcra("kill", 10, 366 * 24 * HOUR, 0);
        assert_int_equal(contract_spend(store, &spend).remaining, 9);

        redis_server_kill(&own);
        wait_until_ready(store, false);
        assert_refuses_at_once(store);
        redis_server_start(&own);
        assert_in_range(wait_until_ready(store, true), 0, 2 * SECOND);
        assert_int_equal(contract_spend(store, &spend).remaining, keeps_data ? 8 : 9);
        assert_int_equal(lines_with("is not answering (Server closed the connection)"), 1);
        assert_int_equal(lines_with("answers again after"), 1);
        /* A server that is reading its data back in may have been met, and may have said so. */
        assert_int_equal(line_count(), 2 + lines_with("(LOADING "));
        weir_store_free(store);
        redis_server_remove(&own);
    }
}

/* What became of it is unknown: it is not repeated. */
static void gives_up_what_a_killed_server_had_taken(void **state)
{
    (void)state;
    struct redis_server own = { .keeps_data = false };
    redis_server_prepare(&own);
    redis_server_start(&own);
    struct weir_store *store = open_answering(own.url, PATIENT_MS);
    struct weir_spend spend = contract_gcra("taken", 10, HOUR, 0);
    struct crowd crowd;
    redis_server_freeze(&own);
    submit_crowd(store, &crowd, &spend, 4);
    redis_server_kill(&own);
    wait_for_crowd(&crowd, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(crowd.results[i], WEIR_STORE_UNAVAILABLE);
    weir_store_free(store);
    redis_server_remove(&own);
}

static void starts_while_redis_is_down(void **state)
{
    (void)state;
    struct redis_server own = { .keeps_data = false };
    redis_server_prepare(&own);
    const char *urls[] = { own.url, own.tcp_url };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        struct weir_store *store = open_store(urls[i], PATIENT_MS);
        wait_until_ready(store, false);
        assert_refuses_at_once(store);
        redis_server_start(&own);
        assert_in_range(wait_until_ready(store, true), 0, 2 * SECOND);
        struct weir_spend spend = contract_gcra("down", 10, HOUR, 0);
        assert_true(contract_spend(store, &spend).allowed);
        weir_store_free(store);
        redis_server_kill(&own);
        unlink(own.socket);
    }
    redis_server_remove(&own);
}

static void counts_once_when_the_script_is_forgotten(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend spend = contract_gcra("flush", 100, 366 * 24 * HOUR, 0);
    struct weir_spend look = look_at(&spend);
    for (uint64_t n = 1; n <= 5; n++) {
        redis_server_do(&server, "SCRIPT FLUSH");
        assert_int_equal(contract_spend(store, &spend).remaining, 100 - n);
    }
    /* The same for several in one write. */
    struct crowd crowd;
    redis_server_do(&server, "SCRIPT FLUSH");
    redis_server_do(&server, "CLIENT PAUSE 50 ALL");
    submit_crowd(store, &crowd, &spend, 8);
    wait_for_crowd(&crowd, 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(crowd.results[i], WEIR_STORE_ANSWERED);
    assert_int_equal(contract_spend(store, &look).remaining, 100 - 5 - 8);
    assert_int_equal(line_count(), 0);
    weir_store_free(store);
}

static void starts_afresh_when_all_is_flushed(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend spend = contract_gcra("flushall", 10, HOUR, 0);
    contract_spend(store, &spend);
    contract_spend(store, &spend);
    redis_server_do(&server, "FLUSHALL");
    assert_int_equal(contract_spend(store, &spend).remaining, 9);
    weir_store_free(store);
}

/* Redis answers with an error */

static void passes_on_what_redis_says(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend spend = contract_gcra("memory", 10, HOUR, 0);
    redis_server_do(&server, "CONFIG SET maxmemory 1");
    struct weir_check check = asked(store, &spend);
    redis_server_do(&server, "CONFIG SET maxmemory 0");
    assert_int_equal(check.result, WEIR_STORE_ERROR);
    assert_non_null(strstr(check.why, "OOM"));
    assert_true(weir_store_ready(store));
    assert_int_equal(contract_spend(store, &spend).remaining, 9);
    weir_store_free(store);
}

static void leaves_a_server_that_was_demoted(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend spend = contract_gcra("demoted", 10, HOUR, 0);
    redis_server_do(&server, "REPLICAOF 127.0.0.1 1");
    struct weir_check check = asked(store, &spend);
    assert_int_equal(check.result, WEIR_STORE_ERROR);
    assert_non_null(strstr(check.why, "READONLY"));
    wait_until_logged("READONLY");

    /* It greets well, but it still does not take checks: no more lines about that. */
    for (int n = 0; n < 3; n++) {
        wait_until_ready(store, true);
        assert_int_not_equal(result_of(store, &spend), WEIR_STORE_ANSWERED);
    }
    assert_int_equal(line_count(), 1);

    redis_server_do(&server, "REPLICAOF NO ONE");
    uint64_t start_us = weir_monotonic_us();
    while (result_of(store, &spend) != WEIR_STORE_ANSWERED)
        wait_until_ready(store, true);
    assert_in_range(weir_monotonic_us() - start_us, 0, 2 * SECOND);
    assert_int_equal(lines_with("answers again"), 1);
    assert_int_equal(line_count(), 2);
    weir_store_free(store);
}

static void waits_out_a_full_house(void **state)
{
    (void)state;
    static const char *const options[] = { "--maxclients", "1", NULL };
    struct redis_server own = { .options = options };
    redis_server_prepare(&own);
    redis_server_start(&own);
    redisContext *guest = redisConnectUnix(own.socket);
    freeReplyObject(redisCommand(guest, "PING"));
    struct weir_store *store = open_store(own.url, PATIENT_MS);
    wait_until_ready(store, false);
    assert_int_equal(lines_with("max number of clients reached"), 1);
    redisFree(guest);
    assert_in_range(wait_until_ready(store, true), 0, 2 * SECOND);
    weir_store_free(store);
    redis_server_remove(&own);
}

/* passwords and databases */

static void enters_with_a_password(void **state)
{
    (void)state;
    static const char *const options[] = { "--requirepass", "open:sesame", NULL };
    struct redis_server own = { .options = options, .password = "open:sesame" };
    redis_server_prepare(&own);
    redis_server_start(&own);
    /* No more rights than docs/failure.md asks for. */
    redis_server_do(&own,
                    "ACL SETUSER meter on >pa@ss ~contract-* +evalsha +eval +script|load +ping "
                    "+select +mget +psetex +pttl +pexpire +time");

    static const struct {
        const char *what;
        const char *login;
        const char *refusal; /* NULL: it enters */
    } rows[] = {
        { "the right password", ":open%3Asesame@", NULL },
        { "a user of its own", "meter:pa%40ss@", NULL },
        { "a wrong password", ":shut-sesame@", "AUTH refused: WRONGPASS" },
        { "a user that is not there", "nobody:shut-sesame@", "AUTH refused: WRONGPASS" },
        { "none", "", "NOAUTH Authentication required." },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        char url[200];
        snprintf(url, sizeof url, "redis://%s127.0.0.1:%u", rows[i].login, own.port);
        forget_lines();

        struct weir_store *store = open_store(url, PATIENT_MS);
        struct weir_spend spend = contract_gcra("login", 10, HOUR, 0);
        if (rows[i].refusal == NULL) {
            assert_true(contract_spend(store, &spend).allowed);
            redis_server_do(&own, "SCRIPT FLUSH");
            assert_true(contract_spend(store, &spend).allowed);
        } else {
            wait_until_ready(store, false);
            assert_refuses_at_once(store);
            assert_int_equal(lines_with(rows[i].refusal), 1);
        }
        assert_int_equal(lines_with("sesame"), 0);
        weir_store_free(store);
    }
    redis_server_remove(&own);
}

static void keeps_databases_apart(void **state)
{
    (void)state;
    char url[160];
    snprintf(url, sizeof url, "%s?db=3", server.url);
    struct weir_store *first = open_answering(server.url, PATIENT_MS);
    struct weir_store *other = open_answering(url, PATIENT_MS);
    struct weir_spend spend = contract_gcra("database", 1, HOUR, 0);
    assert_true(contract_spend(first, &spend).allowed);
    assert_true(contract_spend(other, &spend).allowed);
    assert_false(contract_spend(first, &spend).allowed);
    assert_false(contract_spend(other, &spend).allowed);
    weir_store_free(first);
    weir_store_free(other);

    snprintf(url, sizeof url, "%s/99", server.tcp_url);
    struct weir_store *none = open_store(url, PATIENT_MS);
    wait_until_ready(none, false);
    assert_int_equal(lines_with("SELECT refused: ERR DB index is out of range"), 1);
    weir_store_free(none);
}

static void finds_a_server_by_name(void **state)
{
    (void)state;
    char url[60];
    snprintf(url, sizeof url, "redis://localhost:%u/2", server.port);
    struct weir_store *store = open_store(url, PATIENT_MS);
    struct weir_spend spend = contract_gcra("name", 1, HOUR, 0);
    assert_true(contract_spend(store, &spend).allowed);
    weir_store_free(store);
}

/* states that should not be */

static void expires_whatever_the_first_cost(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend spends[] = { contract_gcra("ttl", 10, HOUR, 0),
                                   contract_window("ttl", 10, HOUR) };
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        spends[i].cost = 5;
        assert_true(contract_spend(store, &spends[i]).allowed);
        assert_in_range(redis_server_number(&server, "PTTL %s", spends[i].key), 1, 2 * 3600 * 1000);
    }
    weir_store_free(store);
}

static void repairs_a_state_it_did_not_write(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *value;
        uint64_t remaining;
    } rows[] = {
        { "text", "garbage", 9 },
        { "an old arrival time", "1", 9 },
        { "an arrival time with a fraction", "1000000000000000.5", 9 },
        { "an arrival time that is no number", "nan", 9 },
        { "an endless one", "inf", 9 },
        { "a negative one", "-1", 9 },
        { "a window that is long past", "0:10", 9 },
        { "a window without a start", ":10", 9 },
        { "a window and more", "12:34:56", 9 },
        { "nothing", "", 9 },
    };
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_spend spends[] = { contract_gcra("repair", 10, 366 * 24 * HOUR, 0),
                                       contract_window("repair", 10, WEIR_WINDOW_MAX_US) };
        for (size_t n = 0; n < 2; n++) {
            redis_server_do(&server, "SET %s %b", spends[n].key, rows[i].value,
                            strlen(rows[i].value));
            assert_int_equal(contract_spend(store, &spends[n]).remaining, rows[i].remaining);
            assert_in_range(redis_server_number(&server, "PTTL %s", spends[n].key), 1,
                            2 * WEIR_WINDOW_MAX_US / 1000);
        }
    }
    weir_store_free(store);
}

static void repairs_keys_that_would_block_for_ever(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend gcra = contract_gcra("for-ever", 10, HOUR, 0);
    struct weir_spend window = contract_window("for-ever", 10, HOUR);
    /* Far ahead and without an expiry: as full as can be, but it ends. */
    redis_server_do(&server, "SET %s 9000000000000000", gcra.key);
    redis_server_do(&server, "SET %s 9000000000000000:10", window.key);
    struct weir_answer answer = contract_spend(store, &gcra);
    assert_false(answer.allowed);
    assert_in_range(answer.retry_us, 1, HOUR / 10);
    assert_in_range(redis_server_number(&server, "PTTL %s", gcra.key), 1, 3600 * 1000 + 10);
    answer = contract_spend(store, &window);
    assert_false(answer.allowed);
    assert_in_range(answer.retry_us, 1, HOUR);
    assert_in_range(redis_server_number(&server, "PTTL %s", window.key), 1, 3600 * 1000 + 10);

    /* A list where a sum should be is replaced. */
    struct weir_spend list = contract_gcra("list", 10, HOUR, 0);
    redis_server_do(&server, "RPUSH %s one", list.key);
    assert_true(contract_spend(store, &list).allowed);

    /* An expiry that was taken away comes back. */
    redis_server_do(&server, "PERSIST %s", list.key);
    assert_true(contract_spend(store, &list).allowed);
    assert_in_range(redis_server_number(&server, "PTTL %s", list.key), 1, 3600 * 1000);

    /* Even where the request is refused, and only there where it was gone. */
    struct weir_spend full[] = { contract_gcra("full", 1, HOUR, 0),
                                 contract_window("full", 1, HOUR) };
    for (size_t i = 0; i < COUNT_OF(full); i++) {
        assert_true(contract_spend(store, &full[i]).allowed);
        redis_server_do(&server, "PEXPIRE %s 7000000", full[i].key);
        assert_false(contract_spend(store, &full[i]).allowed);
        assert_in_range(redis_server_number(&server, "PTTL %s", full[i].key), 6000000, 7000000);
        redis_server_do(&server, "PERSIST %s", full[i].key);
        assert_false(contract_spend(store, &full[i]).allowed);
        assert_in_range(redis_server_number(&server, "PTTL %s", full[i].key), 1, 3600 * 1000 + 10);
    }
    weir_store_free(store);
}

/* somebody else answers */

struct impostor {
    int listener;
    unsigned port;
    const char *says; /* to whoever connects; NULL: nothing, and it keeps the connection */
    pthread_t thread;
};

static void *impersonate(void *self)
{
    const struct impostor *impostor = self;
    int guest;
    while ((guest = accept(impostor->listener, NULL, NULL)) >= 0) {
        char heard[8192];
        if (read(guest, heard, sizeof heard) > 0)
            (void)!write(guest, impostor->says, strlen(impostor->says));
        while (read(guest, heard, sizeof heard) > 0)
            continue;
        close(guest);
    }
    return NULL;
}

static void start_impostor(struct impostor *impostor)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    impostor->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(impostor->listener, (const struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(impostor->listener, 8), 0);
    assert_int_equal(getsockname(impostor->listener, (struct sockaddr *)&address, &size), 0);
    impostor->port = ntohs(address.sin_port);
    if (impostor->says != NULL)
        assert_int_equal(pthread_create(&impostor->thread, NULL, impersonate, impostor), 0);
}

static void stop_impostor(struct impostor *impostor)
{
    shutdown(impostor->listener, SHUT_RDWR);
    if (impostor->says != NULL)
        pthread_join(impostor->thread, NULL);
    close(impostor->listener);
}

#define HASH "$40\r\n0123456789012345678901234567890123456789\r\n"

static void sees_through_what_is_no_redis(void **state)
{
    (void)state;
    static char flood[200000] = "$500000000\r\n";
    memset(flood + strlen(flood), 'x', sizeof flood - strlen(flood) - 1);
    const struct {
        const char *what;
        const char *login;
        const char *says;
        const char *logged;
    } rows[] = {
        { "another protocol", "", "HTTP/1.1 400 Bad Request\r\n\r\n", "not Redis's protocol" },
        { "a hash that is none", "", "$3\r\nabc\r\n", "Redis sent what is no answer" },
        { "nothing at all", "", "$-1\r\n", "Redis sent what is no answer" },
        { "an error", "", "-LOADING Redis is loading the dataset in memory\r\n",
          "(LOADING Redis is" },
        { "an error that tells the password", ":open-sesame@",
          "-ERR unknown command 'AUTH', with args beginning with: 'open-sesame'\r\n",
          "(AUTH refused: ERR)" },
        { "a PONG that is none", "", HASH ":1\r\n", "PING refused: Redis sent what is no answer" },
        { "a reply too many", "", HASH "+PONG\r\n+PONG\r\n", "a reply that nobody asked for" },
        { "too deep a nest", "", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
          "not" },
        { "a text without end", "", flood, "a reply without end" },
        { "silence", "", NULL, "no answer within 1 s" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct impostor impostor = { .says = rows[i].says };
        start_impostor(&impostor);
        char url[60];
        snprintf(url, sizeof url, "redis://%s127.0.0.1:%u", rows[i].login, impostor.port);
        forget_lines();

        struct weir_store *store = open_store(url, PATIENT_MS);
        wait_until_logged(rows[i].logged);
        assert_int_equal(lines_with("sesame"), 0);
        weir_store_free(store);
        stop_impostor(&impostor);
    }
}

/* The first try may take long; checks wait for it, but not for ever. */
static void lets_nobody_wait_long_for_a_silent_start(void **state)
{
    (void)state;
    struct impostor impostor = { .says = NULL };
    start_impostor(&impostor);
    char url[60];
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", impostor.port);
    struct weir_store *store = open_store(url, SHORT_MS);
    struct weir_spend spend = contract_gcra("silent", 10, HOUR, 0);
    for (int n = 0; n < 5; n++)
        assert_int_equal(result_of(store, &spend), WEIR_STORE_TIMEOUT);
    wait_until_ready(store, false);
    assert_refuses_at_once(store);
    weir_store_free(store);
    stop_impostor(&impostor);
}

/* running */

static int clear_log(void **state)
{
    (void)state;
    forget_lines();
    return 0;
}

#define FAULT(name) cmocka_unit_test_setup(name, clear_log)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT(ends_each_check_at_its_deadline_then_at_once),
        FAULT(ends_checks_in_the_order_they_came),
        FAULT(drops_replies_that_come_late),
        FAULT(cancels_a_check_that_is_under_way),
        FAULT(ends_what_waits_when_it_is_freed),
        FAULT(ends_each_check_once_whoever_is_quicker),
        FAULT(comes_back_after_a_kill),
        FAULT(gives_up_what_a_killed_server_had_taken),
        FAULT(starts_while_redis_is_down),
        FAULT(counts_once_when_the_script_is_forgotten),
        FAULT(starts_afresh_when_all_is_flushed),
        FAULT(passes_on_what_redis_says),
        FAULT(leaves_a_server_that_was_demoted),
        FAULT(waits_out_a_full_house),
        FAULT(enters_with_a_password),
        FAULT(keeps_databases_apart),
        FAULT(finds_a_server_by_name),
        FAULT(expires_whatever_the_first_cost),
        FAULT(repairs_a_state_it_did_not_write),
        FAULT(repairs_keys_that_would_block_for_ever),
        FAULT(sees_through_what_is_no_redis),
        FAULT(lets_nobody_wait_long_for_a_silent_start),
    };
    redis_server_prepare(&server);
    redis_server_start(&server);
    int failed = cmocka_run_group_tests_name("redis faults", tests, NULL, NULL);
    redis_server_remove(&server);
    return failed;
}
