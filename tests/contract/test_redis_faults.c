/* The Redis store when Redis is stopped, killed, restarted, full, demoted, locked or not Redis. */
#include "contract.h"

#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <weir/calendar.h>

#include "base/clock.h"
#include "kept_log.h"
#include "limit/sliding_log.h"
#include "redis_server.h"
#include "store/redis_internal.h"
#include "store/store.h"

#define SECOND UINT64_C(1000000)
#define HOUR   (3600 * SECOND)

/* For tests in which Redis answers, however busy the machine is; for those in which it is not to
 * answer in time, but to do so before or after; and for those in which it never does. */
#define PATIENT_MS 5000
#define BRIEF_MS   200
#define SHORT_MS   20

/* What must come comes within this time, however busy the machine is. */
#define WAIT_US (60 * SECOND)

/* The store is back so soon after Redis is; on a busy machine it may fail a try or two before
 * (WEIR_STRICT). */
static uint64_t return_us(void)
{
    return getenv("WEIR_STRICT") != NULL ? 2 * SECOND : 30 * SECOND;
}

static struct redis_server server;

/* stores */

static struct weir_store *open_store(const char *url, uint32_t timeout_ms)
{
    const struct weir_store_options *options =
        WEIR_STORE_OPTIONS(.timeout_ms = timeout_ms, .log = kept_log());
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    assert_int_equal(weir_store_open(url, options, &store, &error), WEIR_OK);
    return store;
}

/* Looks again and again, and returns how long it took. */
static uint64_t wait_until_ready(struct weir_store *store, bool wanted)
{
    uint64_t start_us = weir_monotonic_us();
    while (weir_store_ready(store) != wanted) {
        assert_true(weir_monotonic_us() - start_us < WAIT_US);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    return weir_monotonic_us() - start_us;
}

/* What the last check was answered that asked() asked. */
static struct weir_answer answered;

/* One check for one unit, waited for. */
static struct weir_check asked(struct weir_store *store, const struct weir_spend *spend)
{
    struct weir_check check = { .spends = spend, .answers = &answered, .count = 1 };
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
    kept_forget();
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
    struct weir_spend spend;
    struct weir_answer answers[8];
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
    crowd->spend = *spend;
    for (size_t i = 0; i < count; i++) {
        crowd->checks[i] = (struct weir_check){ .spends = &crowd->spend,
                                                .answers = &crowd->answers[i],
                                                .count = 1,
                                                .done = on_crowd_done,
                                                .owner = crowd };
        store->type->submit(store->self, &crowd->checks[i]);
    }
}

static void wait_for_crowd(const struct crowd *crowd, size_t count)
{
    uint64_t start_us = weir_monotonic_us();
    while (crowd->count < count) {
        assert_true(weir_monotonic_us() - start_us < WAIT_US);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

/* Redis does not answer */

static void ends_each_check_at_its_deadline_then_at_once(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, BRIEF_MS);
    struct weir_spend spend = contract_gcra("frozen", 100, HOUR, 0);
    redis_server_freeze(&server);
    for (int n = 0; n < 5; n++) {
        assert_true(weir_store_ready(store));
        struct weir_check check = asked(store, &spend);
        assert_int_equal(check.result, WEIR_STORE_TIMEOUT);
        assert_string_equal(check.why, "no answer within 200 ms");
    }
    wait_until_ready(store, false);
    for (int n = 0; n < 20; n++)
        assert_refuses_at_once(store);

    struct weir_store_state how;
    weir_store_state(store, &how);
    assert_false(how.answering);
    assert_string_equal(how.name, "redis");
    assert_string_equal(how.why, "5 timeouts");
    assert_int_equal(kept_lines("is not answering (5 timeouts); policies'"), 1);
    assert_int_equal(kept_lines(""), 1);

    redis_server_thaw(&server);
    assert_in_range(wait_until_ready(store, true), 0, return_us());
    kept_wait_for("answers again after ");
    assert_int_equal(kept_lines(""), 2);
    weir_store_state(store, &how);
    assert_true(how.answering);
    assert_string_equal(how.why, "");
    weir_store_free(store);
}

static void ends_checks_in_the_order_they_came(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, BRIEF_MS);
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
    struct weir_store *store = open_answering(server.url, 1000);
    struct weir_spend spend = contract_gcra("late", 100, HOUR, 0);
    struct weir_spend look = look_at(&spend);
    for (uint64_t round = 1; round <= 3; round++) {
        struct crowd crowd;
        redis_server_freeze(&server);
        submit_crowd(store, &crowd, &spend, 3);
        wait_for_crowd(&crowd, 3);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(crowd.results[i], WEIR_STORE_TIMEOUT);
        redis_server_thaw(&server);
        /* Redis has counted them all the same, and replies are matched to the right checks. */
        struct weir_check check = asked(store, &look);
        assert_int_equal(check.result, WEIR_STORE_ANSWERED);
        assert_int_equal(answered.remaining, 100 - 3 * round);
    }
    assert_int_equal(kept_lines(""), 0);
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
        struct weir_answer answer;
        struct weir_check check = { .spends = &canceller->spend,
                                    .answers = &answer,
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
        assert_in_range(wait_until_ready(store, true), 0, return_us());
        assert_int_equal(contract_spend(store, &spend).remaining, keeps_data ? 8 : 9);
        assert_int_equal(kept_lines("is not answering (Server closed the connection)"), 1);
        assert_int_equal(kept_lines("answers again after"), 1);
        /* A server that is reading its data back in may have been met, and may have said so. */
        assert_int_equal(kept_lines(""), 2 + kept_lines("(LOADING "));
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
        assert_in_range(wait_until_ready(store, true), 0, return_us());
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
    assert_int_equal(kept_lines(""), 0);
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

static struct weir_store_state state_of(struct weir_store *store)
{
    struct weir_store_state how;
    weir_store_state(store, &how);
    return how;
}

/* Asks again and again, until the state is as wanted. */
static void spend_until(struct weir_store *store, const struct weir_spend *spend, bool fails)
{
    uint64_t start_us = weir_monotonic_us();
    while ((state_of(store).why[0] != '\0') != fails) {
        assert_true(weir_monotonic_us() - start_us < WAIT_US);
        result_of(store, spend);
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
}

#define OOM "OOM command not allowed when used memory > 'maxmemory'."

static void says_once_that_a_server_does_not_count(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend spend = contract_gcra("full", 100000, HOUR, 0);
    struct weir_spend used_up = contract_gcra("used-up", 1, HOUR, 0);
    assert_true(contract_spend(store, &used_up).allowed);
    kept_forget();
    redis_server_do(&server, "CONFIG SET maxmemory 1");
    assert_string_equal(asked(store, &spend).why, OOM);
    assert_int_equal(kept_lines(""), 0);
    spend_until(store, &spend, true);
    for (int n = 0; n < 20; n++) {
        assert_int_equal(result_of(store, &spend), WEIR_STORE_ERROR);
        assert_false(contract_spend(store, &used_up).allowed); /* which takes no memory */
    }
    struct weir_store_state how = state_of(store);
    assert_true(how.answering);
    assert_int_equal(how.breaker, WEIR_BREAKER_CLOSED);
    assert_string_equal(how.why, OOM);
    assert_int_equal(kept_lines(" does not count (" OOM "): give it more memory (maxmemory); "
                                "policies' on_store_failure applies."),
                     1);
    assert_int_equal(kept_lines(""), 1);

    redis_server_do(&server, "CONFIG SET maxmemory 0");
    spend_until(store, &spend, false);
    assert_int_equal(kept_lines(" counts again after "), 1);
    assert_int_equal(kept_lines(""), 2);
    weir_store_free(store);
}

static void takes_refusals_for_no_trouble(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend used_up = contract_gcra("well-used", 1, HOUR, 0);
    assert_true(contract_spend(store, &used_up).allowed);
    kept_forget();
    for (uint64_t start_us = weir_monotonic_us(); weir_monotonic_us() - start_us < 3 * SECOND / 2;)
        assert_false(contract_spend(store, &used_up).allowed);
    assert_string_equal(state_of(store).why, "");
    assert_int_equal(kept_lines(""), 0);
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
    kept_wait_for("READONLY");

    /* It greets well, but it still is a replica: no more lines about that, and nobody asks it, not even
     * those who would only be refused. */
    struct weir_store_state how = { .why = "" };
    for (int n = 0; n < 60000 && strstr(how.why, "it is a replica") == NULL; n++) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        weir_store_state(store, &how);
    }
    assert_non_null(strstr(how.why, "it is a replica"));
    assert_refuses_at_once(store);
    assert_int_equal(kept_lines(""), 1);

    redis_server_do(&server, "REPLICAOF NO ONE");
    uint64_t start_us = weir_monotonic_us();
    while (result_of(store, &spend) != WEIR_STORE_ANSWERED)
        wait_until_ready(store, true);
    assert_in_range(weir_monotonic_us() - start_us, 0, return_us());
    assert_int_equal(kept_lines("answers again"), 1);
    assert_int_equal(kept_lines(""), 2);
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
    kept_wait_for("max number of clients reached");
    redisFree(guest);
    assert_in_range(wait_until_ready(store, true), 0, return_us());
    weir_store_free(store);
    redis_server_remove(&own);
}

/* rights */

/* A user who may not read a key must not pass for one who has spent nothing. */
static void fails_where_it_may_not_read(void **state)
{
    (void)state;
    struct redis_server own = { 0 };
    redis_server_prepare(&own);
    redis_server_start(&own);
    struct weir_store *store = open_answering(own.url, PATIENT_MS);
    struct weir_spend spends[] = { contract_gcra("unread", 10, HOUR, 0),
                                   contract_gcra("unread", 10, HOUR, 0),
                                   contract_gcra("unread", 10, HOUR, 0) };
    spends[1].group_length = 8;
    spends[2].algorithm = WEIR_SLIDING_LOG;
    for (size_t i = 0; i < COUNT_OF(spends); i++)
        assert_true(contract_spend(store, &spends[i]).allowed);
    redis_server_do(&own, "ACL SETUSER default -get -strlen");
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        struct weir_answer answer;
        struct weir_check check = { .spends = &spends[i], .answers = &answer, .count = 1 };
        contract_submit(store, &check);
        assert_int_equal(check.result, WEIR_STORE_ERROR);
        print_message("    %s\n", check.why);
    }
    redis_server_do(&own, "ACL SETUSER default +get +strlen");
    for (size_t i = 0; i < COUNT_OF(spends); i++)
        assert_int_equal(contract_spend(store, &spends[i]).remaining, 8);
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
    redis_server_do(
        &own, "ACL SETUSER meter on >pa@ss ~contract-* +evalsha +eval +script|load +ping "
              "+select +get +getrange +strlen +setrange +psetex +pexpire +pttl +unlink +time");
    redis_server_do(&own, "ACL SETUSER mute on >mute ~contract-* +ping +select");

    static const struct {
        const char *what;
        const char *login;
        const char *refusal; /* NULL: it enters */
    } rows[] = {
        { "the right password", ":open%3Asesame@", NULL },
        { "a user of its own", "meter:pa%40ss@", NULL },
        { "a user who may not run scripts", "mute:mute@", "NOPERM " },
        { "a wrong password", ":shut-sesame@", "AUTH refused: WRONGPASS" },
        { "a user that is not there", "nobody:shut-sesame@", "AUTH refused: WRONGPASS" },
        { "none", "", "NOAUTH Authentication required." },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        char url[200];
        snprintf(url, sizeof url, "redis://%s127.0.0.1:%u", rows[i].login, own.port);
        kept_forget();

        struct weir_store *store = open_store(url, PATIENT_MS);
        struct weir_spend spend = contract_gcra("login", 10, HOUR, 0);
        if (rows[i].refusal == NULL) {
            contract_await_answers(store);
            assert_true(contract_spend(store, &spend).allowed);
            redis_server_do(&own, "SCRIPT FLUSH");
            assert_true(contract_spend(store, &spend).allowed);
        } else {
            wait_until_ready(store, false);
            kept_wait_for(rows[i].refusal);
            assert_refuses_at_once(store);
            assert_int_equal(kept_lines(rows[i].refusal), 1);
        }
        assert_int_equal(kept_lines("sesame"), 0);
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
    kept_wait_for("SELECT refused: ERR DB index is out of range");
    weir_store_free(none);
}

static void finds_a_server_by_name(void **state)
{
    (void)state;
    char url[60];
    snprintf(url, sizeof url, "redis://localhost:%u/2", server.port);
    struct weir_store *store = open_answering(url, PATIENT_MS);
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

/* The value of a key that holds one limit's state alone. */
static void put_state(const char *key, double expiry, double first, uint32_t low, uint32_t high)
{
    char value[24];
    memcpy(value, &expiry, 8);
    memcpy(value + 8, &first, 8);
    memcpy(value + 16, &low, 4);
    memcpy(value + 20, &high, 4);
    redis_server_do(&server, "SET %s %b", key, value, sizeof value);
}

static const struct weir_spend *spends_of_all(const char *name)
{
    static struct weir_spend spends[7];
    static const enum weir_algorithm algorithms[] = {
        WEIR_GCRA,         WEIR_TOKEN_BUCKET,    WEIR_LEAKY_BUCKET, WEIR_FIXED_WINDOW,
        WEIR_FIXED_WINDOW, WEIR_SLIDING_COUNTER, WEIR_SLIDING_LOG,
    };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        spends[i] = contract_gcra(name, 10, HOUR, 0);
        spends[i].algorithm = algorithms[i];
    }
    spends[4].from_first = true;
    return spends;
}

static void takes_texts_and_other_types_for_new_keys(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "SET %s garbage",
        "SET %s 1",
        "SET %s 9000000000000000",
        "SET %s 24-bytes-that-are-nothing",
        "SET %s more-than-sixty-bytes-that-do-not-say-anything-about-what-was-spent-here",
        "RPUSH %s one",
        "HSET %s one two",
        "SADD %s one",
        "ZADD %s 1 one",
        "XADD %s * one two",
    };
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        print_message("    %s\n", commands[i]);
        const struct weir_spend *spends = spends_of_all("text");
        for (size_t n = 0; n < 7; n++) {
            redis_server_do(&server, commands[i], spends[n].key);
            struct weir_spend look = look_at(&spends[n]);
            assert_int_equal(contract_spend(store, &look).remaining, 10);
            assert_int_equal(contract_spend(store, &spends[n]).remaining, 9);
            assert_int_equal(contract_spend(store, &spends[n]).remaining, 8);
            assert_in_range(redis_server_number(&server, "PTTL %s", spends[n].key), 1,
                            2 * 3600 * 1000 + 10);
        }
    }
    weir_store_free(store);
}

static void takes_impossible_states_for_new_keys(void **state)
{
    (void)state;
    const struct {
        const char *what;
        double first;
        uint32_t low, high;
    } rows[] = {
        { "a time long past", 1, 10, 0 },
        { "a time below zero", -1, 10, 0 },
        { "a time with a fraction", 1e15 + 0.5, 10, 0 },
        { "a time that is no number", (double)NAN, 10, 0 },
        { "an endless time", (double)INFINITY, 10, 0 },
        { "a time that no clock shows", 9007199254740992.0, 10, 0 },
        { "more units than there can be", 9e15, 1000000001, 0 },
        { "more units before than there can be", 9e15, 10, 1000000001 },
        { "a block that is over", 1, 0, UINT32_MAX },
        { "a block until no clock shows", 9007199254740992.0, 0, UINT32_MAX },
        { "a block until no number", (double)NAN, 0, UINT32_MAX },
    };
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        const struct weir_spend *spends = spends_of_all("state");
        for (size_t n = 0; n < 7; n++) {
            put_state(spends[n].key, 8e15, rows[i].first, rows[i].low, rows[i].high);
            assert_int_equal(contract_spend(store, &spends[n]).remaining, 9);
        }
    }
    weir_store_free(store);
}
static long long ttl_ms(const struct weir_spend *spend)
{
    return redis_server_number(&server, "PTTL %b", spend->key,
                               spend->group_length > 0 ? spend->group_length : spend->key_length);
}

static void repairs_keys_that_would_block_for_ever(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    const struct weir_spend *spends = spends_of_all("for-ever");
    static const uint32_t lows[] = { 0, 0, 0, 10, 10, 10 }, highs[] = { 0, 10, 0, 0, 0, 10 };
    for (size_t i = 0; i < COUNT_OF(lows); i++) {
        /* Far ahead, full, and without an expiry: as full as can be, but it ends. */
        put_state(spends[i].key, 8.9e15, 9e15, lows[i], highs[i]);
        struct weir_answer answer = contract_spend(store, &spends[i]);
        assert_false(answer.allowed);
        assert_in_range(answer.retry_us, 1, 2 * HOUR);
        assert_in_range(ttl_ms(&spends[i]), 1, 2 * 3600 * 1000 + 10);
    }
    weir_store_free(store);
}

/* A client that comes again finds that its key expires once more. */
static void gives_back_an_expiry_that_was_taken_away(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    const struct weir_spend *spends = spends_of_all("persist");
    for (size_t i = 0; i < 7; i++) {
        struct weir_spend spend = spends[i];
        spend.cost = 10;
        assert_true(contract_spend(store, &spend).allowed);
        redis_server_do(&server, "PEXPIRE %s 9000000", spend.key);
        assert_false(contract_spend(store, &spend).allowed);
        assert_in_range(ttl_ms(&spend), 8000000, 9000000);
        redis_server_do(&server, "PERSIST %s", spend.key);
        assert_false(contract_spend(store, &spend).allowed);
        assert_in_range(ttl_ms(&spend), 1, 2 * 3600 * 1000 + 10);

        /* What is let through is looked at now and then. */
        struct weir_spend look = look_at(&spend);
        redis_server_do(&server, "PERSIST %s", spend.key);
        for (int n = 0; n < 2000 && ttl_ms(&spend) == -1; n++)
            contract_spend(store, &look);
        assert_in_range(ttl_ms(&spend), 1, 2 * 3600 * 1000 + 10);
    }
    weir_store_free(store);
}

static uint64_t now_of_system(void)
{
    const struct weir_clock system = weir_clock_or_system(NULL);
    return weir_clock_now_us(&system);
}

/* An expiry that nothing can have set says nothing: such a key has lost its own, or had none. */
static void puts_right_an_expiry_that_cannot_be(void **state)
{
    (void)state;
    static const double aheads[] = { 12 * 3600e6, 1e15, 4e15, (double)INFINITY, (double)NAN };
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    const struct weir_spend *spends = spends_of_all("impossible");
    for (size_t i = 0; i < 7; i++)
        for (size_t n = 0; n < COUNT_OF(aheads); n++) {
            struct weir_spend spend = spends[i];
            redis_server_do(&server, "DEL %s", spend.key);
            assert_int_equal(contract_spend(store, &spend).remaining, 9);
            double expiry = (double)now_of_system() + aheads[n];
            redis_server_do(&server, "SETRANGE %s 0 %b", spend.key, &expiry, sizeof expiry);
            redis_server_do(&server, "PERSIST %s", spend.key);
            assert_int_equal(contract_spend(store, &spend).remaining, 8);
            assert_in_range(ttl_ms(&spend), 1, 2 * 3600 * 1000 + 10);

            /* Those who are refused see it too. */
            spend.cost = 8;
            assert_true(contract_spend(store, &spend).allowed);
            redis_server_do(&server, "SETRANGE %s 0 %b", spend.key, &expiry, sizeof expiry);
            redis_server_do(&server, "PERSIST %s", spend.key);
            assert_false(contract_spend(store, &spend).allowed);
            assert_in_range(ttl_ms(&spend), 1, 2 * 3600 * 1000 + 10);
        }
    weir_store_free(store);
}

/* limits that share a key */

static struct weir_spend in_group(const char *group, const char *name, uint64_t limit)
{
    static char keys[64][96];
    static size_t count;
    struct weir_spend spend = contract_gcra("group", limit, HOUR, 0);
    assert_true(count < COUNT_OF(keys));
    snprintf(keys[count], sizeof keys[0], "contract-%s%s", group, name);
    spend.key = keys[count++];
    spend.key_length = strlen(spend.key);
    spend.group_length = strlen("contract-") + strlen(group);
    return spend;
}

/* Decides the limits as one; they all must let it through. */
static void spend_all(struct weir_store *store, struct weir_answer *answers,
                      const struct weir_spend *const *spends, size_t count)
{
    struct contract_plan plan = { .check.count = count };
    for (size_t i = 0; i < count; i++)
        plan.spends[i] = *spends[i];
    contract_submit_plan(store, &plan);
    assert_string_equal(plan.check.why, "");
    for (size_t i = 0; i < count; i++) {
        assert_true(plan.answers[i].allowed);
        answers[i] = plan.answers[i];
    }
}

static void puts_right_the_expiry_of_a_group(void **state)
{
    (void)state;
    static const double aheads[] = { 12 * 3600e6, 1e15, 4e15, (double)INFINITY, (double)NAN };
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend one = in_group("{far}", "one", 100), two = in_group("{far}", "two", 100);
    const struct weir_spend *both[] = { &one, &two };
    struct weir_answer answers[2];
    for (size_t n = 0; n < COUNT_OF(aheads); n++) {
        spend_all(store, answers, both, 2);
        double expiry = (double)now_of_system() + aheads[n];
        redis_server_do(&server, "SETRANGE contract-{far} 9 %b", &expiry, sizeof expiry);
        redis_server_do(&server, "PERSIST contract-{far}");
        spend_all(store, answers, both, 2);
        assert_int_equal(answers[0].remaining, 98 - 2 * n);
        assert_in_range(ttl_ms(&one), 1, 2 * 3600 * 1000 + 10);
    }
    /* Where a limit of somebody else's is kept along, it is for two years at most. */
    for (size_t n = 0; n < COUNT_OF(aheads); n++) {
        double expiry = (double)now_of_system() + aheads[n];
        spend_all(store, answers, both, 1);
        redis_server_do(&server, "SETRANGE contract-{far} 5 %b", &expiry, sizeof expiry);
        redis_server_do(&server, "PERSIST contract-{far}");
        for (int tries = 0; tries < 2000 && ttl_ms(&one) == -1; tries++)
            spend_all(store, answers, both, 1);
        assert_in_range(ttl_ms(&one), 1, 734 * 24 * 3600 * UINT64_C(1000));
    }
    weir_store_free(store);
}

static void finds_limits_that_come_go_and_change_places(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend a = in_group("places", ":a:gcra", 100),
                      b = in_group("places", ":b:fixed", 100),
                      c = in_group("places", ":c:sliding", 100);
    b.algorithm = WEIR_FIXED_WINDOW;
    c.algorithm = WEIR_SLIDING_COUNTER;
    struct weir_answer answers[3];
    const struct weir_spend *const plans[][3] = {
        { &a, &b, &c }, { &a, &b, &c }, { &c, &b, &a }, { &b },         { &a, &c },
        { &b, &a },     { &c },         { &a, &b, &c }, { &a, &b, &c },
    };
    uint64_t spent_a = 0, spent_b = 0, spent_c = 0;
    for (size_t i = 0; i < COUNT_OF(plans); i++) {
        size_t count = plans[i][1] == NULL ? 1 : plans[i][2] == NULL ? 2 : 3;
        spend_all(store, answers, plans[i], count);
        for (size_t n = 0; n < count; n++) {
            uint64_t *spent = plans[i][n] == &a   ? &spent_a
                              : plans[i][n] == &b ? &spent_b
                                                  : &spent_c;
            assert_int_equal(answers[n].remaining, 100 - ++*spent);
        }
        assert_int_equal(redis_server_number(&server, "EXISTS %b", a.key, a.group_length), 1);
        assert_in_range(ttl_ms(&a), 1, 2 * 3600 * 1000 + 10);
        assert_in_range(redis_server_number(&server, "STRLEN %b", a.key, a.group_length), 1,
                        9 + 3 * 20);
    }
    weir_store_free(store);
}

static void keeps_no_more_than_sixteen_sections_of_others(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_answer answer;
    struct weir_spend first = { 0 }, last = { 0 };
    for (size_t i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, ":n%zu:gcra", i);
        struct weir_spend spend = in_group("many", name, 100);
        const struct weir_spend *plan = &spend;
        spend_all(store, &answer, &plan, 1);
        assert_int_equal(answer.remaining, 99);
        if (i == 0)
            first = spend;
        last = spend;
    }
    assert_int_equal(redis_server_number(&server, "STRLEN %b", first.key, first.group_length),
                     9 + 17 * 20);
    const struct weir_spend *plan = &last;
    spend_all(store, &answer, &plan, 1);
    assert_int_equal(answer.remaining, 98);
    plan = &first; /* the oldest was forgotten */
    spend_all(store, &answer, &plan, 1);
    assert_int_equal(answer.remaining, 99);
    weir_store_free(store);
}

static void leaves_nothing_behind_where_it_resets(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    static const char *const commands[] = { "DEL %b", "SET %b garbage", "RPUSH %b one" };
    struct weir_spend spends[8];
    memcpy(spends, spends_of_all("reset"), 7 * sizeof spends[0]);
    spends[7] = in_group("reset", ":a:gcra", 100);
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        for (size_t n = 0; n < COUNT_OF(spends); n++) {
            size_t length = n == 7 ? spends[n].group_length : spends[n].key_length;
            redis_server_do(&server, "DEL %b", spends[n].key, length);
            redis_server_do(&server, commands[i], spends[n].key, length);
            struct weir_check check = { .operation = WEIR_RESET, .spends = &spends[n], .count = 1 };
            contract_submit(store, &check);
            assert_int_equal(check.result, WEIR_STORE_ANSWERED);
            assert_int_equal(redis_server_number(&server, "EXISTS %b", spends[n].key, length), 0);
        }
    weir_store_free(store);
}

static void resets_a_limit_of_a_group_alone(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    const struct weir_spend a = in_group("reset-one", ":a:gcra", 100),
                            b = in_group("reset-one", ":b:gcra", 100);
    const struct weir_spend *const both[] = { &a, &b };
    struct weir_answer answers[2];
    spend_all(store, answers, both, 2);
    for (int n = 0; n < 2; n++) { /* found by its id, and then at the head of the key */
        struct weir_check check = { .operation = WEIR_RESET, .spends = &b, .count = 1 };
        contract_submit(store, &check);
        assert_int_equal(check.result, WEIR_STORE_ANSWERED);
        assert_in_range(ttl_ms(&a), 1, 2 * 3600 * 1000 + 10);
    }
    spend_all(store, answers, both, 2);
    assert_int_equal(answers[0].remaining, 98);
    assert_int_equal(answers[1].remaining, 99);
    weir_store_free(store);
}

static void takes_a_broken_group_for_a_new_key(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    struct weir_spend spend = in_group("broken", ":a:gcra", 10), other = spend;
    other.key = in_group("broken", ":b:gcra", 10).key;
    const struct weir_spend *plan = &spend;
    struct weir_answer answer;
    spend_all(store, &answer, &plan, 1);
    redisReply *good = redis_server_ask(&server, "GET %b", spend.key, spend.group_length);
    for (size_t length = 0; length < 2 * good->len; length++) {
        char value[200] = { 0 };
        memcpy(value, good->str, good->len);
        if (length == good->len)
            continue;
        redis_server_do(&server, "SET %b %b", spend.key, spend.group_length, value, length);
        /* One or two limits more or less: only a whole section more can be one of somebody else. */
        plan = &spend;
        spend_all(store, &answer, &plan, 1);
        assert_int_equal(answer.remaining, length > good->len ? 8 : 9);
        redis_server_do(&server, "SET %b %b", spend.key, spend.group_length, value, length);
        plan = &other;
        spend_all(store, &answer, &plan, 1);
        assert_int_equal(answer.remaining, 9);
        assert_in_range(ttl_ms(&spend), 1, 2 * 3600 * 1000 + 10);
    }
    freeReplyObject(good);
    weir_store_free(store);
}

/* A calendar is looked up by the clock of who asks, which must be about that of Redis. */
static void refuses_calendars_of_another_time(void **state)
{
    (void)state;
    struct weir_calendar *calendar = NULL;
    assert_int_equal(weir_calendar_new(NULL, &calendar, NULL), WEIR_OK); /* days in UTC */
    struct weir_spend spend = contract_window("calendar", 10, 24 * HOUR);
    spend.calendar = calendar;
    struct weir_answer answer;
    struct weir_check check = { .spends = &spend, .answers = &answer, .count = 1 };
    struct weir_redis_plan plan;
    weir_redis_plan_make(&plan, &check);
    struct weir_redis_scripts scripts = { .clock = WEIR_REDIS_OWN_CLOCK };
    const struct weir_redis_script *script = weir_redis_scripts_get(&scripts, &plan.shape);
    const struct weir_clock system = weir_clock_or_system(NULL);
    for (int days = -2; days <= 2; days++) {
        static char memory[WEIR_REDIS_COMMAND_BYTES];
        struct weir_buffer command = weir_buffer_init(memory, sizeof memory);
        uint64_t then_us = weir_clock_now_us(&system) + (uint64_t)days * 24 * HOUR;
        weir_redis_write_check(&command, script, WEIR_REDIS_BY_TEXT, WEIR_REDIS_OWN_CLOCK, then_us,
                               &plan, &check);
        redisContext *context = redisConnectUnix(server.socket);
        redisReply *reply = NULL;
        redisAppendFormattedCommand(context, command.at, command.length);
        assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
        bool is_near = days > -2 && days < 2;
        assert_int_equal(weir_redis_read_answer(reply, &check),
                         is_near ? WEIR_REDIS_DECIDED : WEIR_REDIS_REFUSED);
        if (!is_near)
            assert_string_equal(check.why,
                                "ERR the clocks of Redis and its client are too far apart");
        freeReplyObject(reply);
        redisFree(context);
    }
    weir_redis_scripts_finish(&scripts);
    weir_calendar_free(calendar);
}

/* The largest scripts there are: eight limits with a key each, alone or as groups of one. */
static void has_room_for_the_largest_scripts(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    for (int grouped = 0; grouped < 2; grouped++)
        for (int algorithm = WEIR_GCRA; algorithm <= WEIR_SLIDING_LOG; algorithm++)
            for (int operation = WEIR_SPEND; operation <= WEIR_BLOCK; operation++) {
                struct contract_plan plan = { .check = { .count = WEIR_CHECK_LIMITS,
                                                         .operation =
                                                             (enum weir_operation)operation,
                                                         .block_us = SECOND } };
                for (size_t i = 0; i < WEIR_CHECK_LIMITS; i++) {
                    struct weir_spend spend = contract_gcra("largest", 7, HOUR, 0);
                    spend.algorithm = (enum weir_algorithm)algorithm;
                    spend.group_length = grouped ? spend.key_length - 1 : 0;
                    plan.spends[i] = spend;
                }
                contract_submit_plan(store, &plan);
                assert_string_equal(plan.check.why, "");
                assert_int_equal(plan.check.result, WEIR_STORE_ANSWERED);
            }
    weir_store_free(store);
}

/* a log's ring, through growth, wraps and settlements, beside the library's own */

static uint64_t told_us = UINT64_C(1767225600250000);

static uint64_t tell_time(void *self)
{
    (void)self;
    return told_us;
}

static uint32_t next_random(void)
{
    static uint32_t number = 2463534242; /* xorshift: Marsaglia 2003 */
    number ^= number << 13;
    number ^= number >> 17;
    number ^= number << 5;
    return number;
}

static void assert_same_answer(struct weir_answer got, struct weir_answer want)
{
    assert_int_equal(got.allowed, want.allowed);
    assert_int_equal(got.remaining, want.remaining);
    assert_int_equal(got.retry_us, want.retry_us);
    assert_int_equal(got.reset_us, want.reset_us);
}

/* Every third decision that was let through turns out to have cost more or less, or nothing. */
static void settle_both(struct weir_store *store, struct weir_ring *ring, struct weir_spend spend)
{
    spend.reserved = spend.cost;
    spend.cost = next_random() % 4;
    spend.decided_us = spend.full_us = told_us;
    told_us += next_random() % 3000;
    struct weir_check check = { .operation = WEIR_SETTLE, .spends = &spend, .count = 1 };
    contract_submit(store, &check);
    assert_int_equal(check.result, WEIR_STORE_ANSWERED);
    const struct weir_ring_settlement settlement = weir_sliding_log_settle(&spend, ring, told_us);
    if (settlement.changes)
        weir_ring_settle(ring, &settlement);
}

static void keeps_a_long_log_as_the_library_does(void **state)
{
    (void)state;
    struct weir_store *store = NULL;
    const struct weir_clock clock = { .now_us = tell_time };
    assert_int_equal(weir_store_new_redis_by(server.url,
                                             WEIR_STORE_OPTIONS(.timeout_ms = PATIENT_MS), &clock,
                                             &store, NULL),
                     WEIR_OK);
    for (int logs_refusals = 0; logs_refusals < 2; logs_refusals++) {
        struct weir_spend spend = contract_gcra("long", 600, SECOND, 0);
        spend.algorithm = WEIR_SLIDING_LOG;
        spend.logs_refusals = logs_refusals;
        struct weir_ring *ring = calloc(1, weir_ring_bytes(20000));
        assert_non_null(ring);
        weir_ring_init(ring, 20000);
        for (int n = 0; n < 5000; n++) {
            told_us += next_random() % 5000;
            if (n % 500 == 499)
                told_us -= 400000; /* the clock is set back */
            spend.cost = next_random() % 4;
            struct weir_ring_step step = weir_sliding_log_decide(&spend, ring, told_us);
            assert_same_answer(contract_spend(store, &spend), step.answer);
            if (weir_ring_is_changed(ring, &step))
                weir_ring_apply(ring, &step);
            if (step.answer.allowed && spend.cost > 0 && n % 3 == 0)
                settle_both(store, ring, spend);
        }
        free(ring);
    }
    weir_store_free(store);
}

/* scripts */

static long long calls_of(const char *command)
{
    redisReply *reply = redis_server_ask(&server, "INFO commandstats");
    char line[64];
    snprintf(line, sizeof line, "cmdstat_%s:calls=", command);
    const char *found = strstr(reply->str, line);
    long long calls = found == NULL ? 0 : strtoll(found + strlen(line), NULL, 10);
    freeReplyObject(reply);
    return calls;
}

static void sends_a_script_once(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    const struct weir_spend *spends = spends_of_all("once");
    redis_server_do(&server, "CONFIG RESETSTAT");
    for (int n = 0; n < 50; n++)
        for (size_t i = 0; i < 7; i++)
            contract_spend(store, &spends[i]);
    /* One by one: whole the first time, and by the hash after that. */
    assert_in_range(calls_of("eval"), 1, 7);
    assert_int_equal(calls_of("eval") + calls_of("evalsha"), 7 * 50);
    assert_int_equal(calls_of("script|load"), calls_of("eval"));
    weir_store_free(store);
}

/* More kinds of plans than the store keeps scripts of, again and again. */
static void decides_more_kinds_of_plans_than_it_keeps(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    const struct weir_spend *spends = spends_of_all("kinds");
    for (uint64_t round = 1; round <= 3; round++)
        for (unsigned mask = 1; mask < 128; mask++) {
            struct contract_plan plan = { .check.count = 0 };
            for (size_t i = 0; i < 7; i++)
                if ((mask >> i & 1) != 0) {
                    plan.spends[plan.check.count] = spends[i];
                    plan.spends[plan.check.count++].cost = 0;
                }
            contract_submit_plan(store, &plan);
            assert_int_equal(plan.check.result, WEIR_STORE_ANSWERED);
            for (size_t i = 0; i < plan.check.count; i++)
                assert_int_equal(plan.answers[i].remaining, 10);
        }
    weir_store_free(store);
}

/* somebody else answers */

struct impostor {
    int listener;
    unsigned port;
    const char *says;          /* to whoever connects; NULL: nothing, and it keeps the connection */
    const char *answers;       /* then to each command; NULL: nothing                        */
    atomic_bool stops_to_read; /* then, until this is false                                 */
    pthread_t thread;
};

static size_t commands_in(const char *heard, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += heard[i] == '*' && (i == 0 || heard[i - 1] == '\n');
    return count;
}

/* The guest may have left. */
static bool tell(int guest, const char *text)
{
    return send(guest, text, strlen(text), MSG_NOSIGNAL) > 0;
}

static void impersonate_for(struct impostor *impostor, int guest)
{
    static char heard[65536];
    ssize_t got;
    if (read(guest, heard, sizeof heard) > 0)
        tell(guest, impostor->says);
    /* "PING", to which the greeting has answered. */
    if (impostor->answers != NULL && read(guest, heard, 14) < 14)
        return;
    while (atomic_load(&impostor->stops_to_read))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    while ((got = read(guest, heard, sizeof heard)) > 0)
        for (size_t left = commands_in(heard, (size_t)got); left > 0 && impostor->answers != NULL;
             left--)
            tell(guest, impostor->answers);
}

static void *impersonate(void *self)
{
    struct impostor *impostor = self;
    int guest;
    while ((guest = accept(impostor->listener, NULL, NULL)) >= 0) {
        impersonate_for(impostor, guest);
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
    static char flood[200000] = "$500000000\r\n", shower[200000] = "*1000\r\n";
    memset(flood + strlen(flood), 'x', sizeof flood - strlen(flood) - 1);
    for (size_t at = strlen(shower); at + 230 < sizeof shower; at = strlen(shower))
        snprintf(shower + at, sizeof shower - at, "$200\r\n%0200d\r\n", 0);
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
        { "a Sentinel", "",
          "-ERR unknown command 'SCRIPT', with args beginning with: 'LOAD' 'local call,' \r\n",
          "(unknown command; if it is a Sentinel, use redis+sentinel://)" },
        { "a PONG that is none", "", HASH ":1\r\n", "PING refused: Redis sent what is no answer" },
        { "a reply too many", "", HASH "+PONG\r\n+PONG\r\n", "a reply that nobody asked for" },
        { "too deep a nest", "", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
          "not" },
        { "a text without end", "", flood, "a reply without end" },
        { "texts without end", "", shower, "a reply without end" },
        { "an array of millions", "", "*100000000\r\n", "not Redis's protocol" },
        { "arrays that are many together", "", "*1000\r\n*1000\r\n", "not Redis's protocol" },
        { "silence", "", NULL, "no answer within 1 s" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct impostor impostor = { .says = rows[i].says };
        start_impostor(&impostor);
        char url[60];
        snprintf(url, sizeof url, "redis://%s127.0.0.1:%u", rows[i].login, impostor.port);
        kept_forget();

        struct weir_store *store = open_store(url, PATIENT_MS);
        kept_wait_for(rows[i].logged);
        assert_int_equal(kept_lines("sesame"), 0);
        weir_store_free(store);
        stop_impostor(&impostor);
    }
}

/* However long a check may take. */
static void gives_a_try_up_after_a_second(void **state)
{
    (void)state;
    struct impostor impostor = { .says = HASH }; /* and nothing to PING */
    start_impostor(&impostor);
    char url[60];
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", impostor.port);
    uint64_t start_us = weir_monotonic_us();
    struct weir_store *store = open_store(url, 60000);
    kept_wait_for("it answers too slowly");
    assert_in_range(weir_monotonic_us() - start_us, SECOND / 2, 30 * SECOND);
    weir_store_free(store);
    stop_impostor(&impostor);
}

/* What a single server should not say. */
static void makes_sense_of_answers_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        const char *why;
    } rows[] = {
        { "-NOSCRIPT No matching script.\r\n", "Redis forgets its scripts at once" },
        { "-MOVED 3999 127.0.0.1:6381\r\n", "this is a node of a cluster: use redis+cluster://" },
        { "-ASK 3999 127.0.0.1:6381\r\n", "this is a node of a cluster: use redis+cluster://" },
        { "-TRYAGAIN Multiple keys\r\n", "this is a node of a cluster: use redis+cluster://" },
        { "-CLUSTERDOWN Hash slot not served\r\n",
          "this is a node of a cluster: use redis+cluster://" },
        { "-MASTERDOWN Link with MASTER is down\r\n", "MASTERDOWN Link with MASTER is down" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s", rows[i].says);
        struct impostor impostor = { .says = HASH "+PONG\r\n", .answers = rows[i].says };
        start_impostor(&impostor);
        char url[60];
        snprintf(url, sizeof url, "redis://127.0.0.1:%u", impostor.port);
        struct weir_store *store = open_store(url, PATIENT_MS);
        struct weir_spend spend = contract_gcra("sense", 10, HOUR, 0);
        struct weir_check check = asked(store, &spend);
        assert_int_equal(check.result, WEIR_STORE_ERROR);
        assert_string_equal(check.why, rows[i].why);
        weir_store_free(store);
        stop_impostor(&impostor);
    }
}

struct heap_crowd {
    struct weir_check *checks;
    struct weir_answer *answers;
    _Atomic size_t ended;
};

static void on_heap_crowd_done(struct weir_check *check)
{
    struct heap_crowd *crowd = check->owner;
    assert_true(check->result == WEIR_STORE_TIMEOUT || check->result == WEIR_STORE_UNAVAILABLE);
    crowd->ended++;
}

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* A script goes along with each of these checks, some twenty kilobytes, and nobody reads them. */
static void holds_back_what_a_server_does_not_read(void **state)
{
    (void)state;
    enum { COUNT = 3000, LIMITS = 8 };
    struct impostor impostor = { .says = HASH "+PONG\r\n", .stops_to_read = true };
    start_impostor(&impostor);
    char url[60];
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", impostor.port);
    struct weir_store *store = open_store(url, 300);
    struct weir_spend spends[LIMITS];
    for (size_t i = 0; i < LIMITS; i++) {
        spends[i] = contract_gcra("unread", 10, HOUR, 0);
        spends[i].algorithm = WEIR_SLIDING_LOG;
    }
    struct heap_crowd crowd = { .checks = calloc(COUNT, sizeof *crowd.checks),
                                .answers = calloc(COUNT * LIMITS, sizeof *crowd.answers) };
    assert_non_null(crowd.checks);
    assert_non_null(crowd.answers);
    size_t before = heap_bytes(), most = before;
    for (size_t i = 0; i < COUNT; i++) {
        crowd.checks[i] = (struct weir_check){ .spends = spends,
                                               .answers = &crowd.answers[i * LIMITS],
                                               .count = LIMITS,
                                               .done = on_heap_crowd_done,
                                               .owner = &crowd };
        store->type->submit(store->self, &crowd.checks[i]);
    }
    for (uint64_t start_us = weir_monotonic_us(); crowd.ended < COUNT;) {
        size_t now = heap_bytes();
        most = now > most ? now : most;
        assert_true(weir_monotonic_us() - start_us < WAIT_US);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    print_message("    %zu bytes\n", most - before);
    assert_in_range(most - before, 0, 2 * 1024 * 1024);
    atomic_store(&impostor.stops_to_read, false);
    weir_store_free(store);
    stop_impostor(&impostor);
    free(crowd.checks);
    free(crowd.answers);
}

/* The first try may take long; checks wait for it, but not for ever. */
static void lets_nobody_wait_long_for_a_silent_start(void **state)
{
    (void)state;
    struct impostor impostor = { .says = NULL };
    start_impostor(&impostor);
    char url[60];
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", impostor.port);
    uint64_t start_us = weir_monotonic_us();
    struct weir_store *store = open_store(url, SHORT_MS);
    struct weir_spend spend = contract_gcra("silent", 10, HOUR, 0);
    for (int n = 0; n < 5; n++) {
        /* The try itself is given up after a second, of which five checks take a tenth. */
        bool is_early = weir_monotonic_us() - start_us < SECOND / 2;
        enum weir_store_result result = result_of(store, &spend);
        assert_int_equal(result, is_early || result == WEIR_STORE_TIMEOUT ? WEIR_STORE_TIMEOUT
                                                                          : WEIR_STORE_UNAVAILABLE);
    }
    wait_until_ready(store, false);
    assert_refuses_at_once(store);
    weir_store_free(store);
    stop_impostor(&impostor);
}

/* an answer that lies unread */

/* As many as are under way at once, in a call each. */
enum { LATE = WEIR_REDIS_CALLS_MAX, LATE_MS = 3000 };

static struct {
    int listener;
    unsigned port;
    _Atomic size_t replies; /* how many may be given; then it waits for more   */
    _Atomic size_t given;
    _Atomic size_t checks; /* that it has read                                 */
    _Atomic size_t before; /* commands before the first of them                */
    atomic_bool is_open;
    struct weir_check held[LATE];
    struct weir_answer held_answers[LATE];
    _Atomic size_t ended;
    _Atomic uint64_t sent_us;
} slow;

static size_t count_of(const char *heard, size_t length, const char *word)
{
    size_t count = 0;
    for (const char *at = heard;
         (at = memmem(at, length - (size_t)(at - heard), word, strlen(word))) != NULL; at++)
        count++;
    return count;
}

/* Greets, and then gives as many replies as it may, each an error; false: it left before it was
 * greeted. */
static bool answer_guest_slowly(int guest)
{
    static char heard[200000];
    size_t length = 0;
    for (bool is_open = false, is_greeted = false;;) {
        ssize_t got = recv(guest, heard + length, sizeof heard - length, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return is_open;
        length += got > 0 ? (size_t)got : 0;
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
        if (!is_greeted && length > 0)
            is_greeted = tell(guest, HASH);
        const char *ping = memmem(heard, length, "PING\r\n", 6);
        if (!is_open && ping != NULL)
            is_open = tell(guest, "+PONG\r\n");
        if (!is_open)
            continue;
        const char *first = memmem(ping, length - (size_t)(ping - heard), "EVALSHA", 7);
        size_t after = (size_t)(ping - heard) + 6;
        size_t commands = commands_in(heard + after, length - after);
        slow.checks = count_of(heard + after, length - after, "EVALSHA");
        if (first != NULL)
            slow.before = commands_in(heard + after, (size_t)(first - heard) - after) - 1;
        for (; slow.given < slow.replies && slow.given < commands; slow.given++)
            tell(guest, "-ERR not now\r\n");
    }
}

/* A first try that was too slow for the store is followed by another. */
static void *answer_slowly(void *self)
{
    (void)self;
    for (bool was_greeted = false; !was_greeted;) {
        int guest = accept(slow.listener, NULL, NULL);
        was_greeted = guest < 0 || answer_guest_slowly(guest);
        close(guest);
    }
    return NULL;
}

static void wait_for_number(const _Atomic size_t *number, size_t least)
{
    uint64_t start_us = weir_monotonic_us();
    while (*number < least) {
        assert_true(weir_monotonic_us() - start_us < WAIT_US);
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    }
}

/* The first one holds the store's thread up, until all others have been answered and their time is
 * over. */
static void on_held_done(struct weir_check *check)
{
    if (check == &slow.held[0]) {
        slow.replies = slow.before + LATE;
        wait_for_number(&slow.given, slow.before + LATE);
        while (weir_monotonic_us() - slow.sent_us <= LATE_MS * UINT64_C(1000))
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    slow.ended++;
}

static void finds_no_answer_late_that_came_in_time(void **state)
{
    (void)state;
    struct impostor impostor = { .says = NULL };
    start_impostor(&impostor);
    slow.listener = impostor.listener;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer_slowly, NULL), 0);
    char url[60];
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", impostor.port);
    struct weir_store *store = open_store(url, LATE_MS);
    struct weir_store_state how = { .answering = false };
    for (; how.breaker != WEIR_BREAKER_CLOSED || !how.answering; weir_store_state(store, &how))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);

    struct weir_spend spend = contract_gcra("unread", 10, HOUR, 0);
    for (size_t i = 0; i < LATE; i++) {
        slow.held[i] = (struct weir_check){
            .spends = &spend, .answers = &slow.held_answers[i], .count = 1, .done = on_held_done
        };
        store->type->submit(store->self, &slow.held[i]);
        wait_for_number(&slow.checks, i + 1);
    }
    slow.sent_us = weir_monotonic_us();
    slow.replies = slow.before + 1;
    wait_for_number(&slow.ended, LATE);
    for (size_t i = 0; i < LATE; i++)
        assert_int_equal(slow.held[i].result, WEIR_STORE_ERROR); /* and not TIMEOUT */
    assert_int_equal(kept_lines("5 timeouts"), 0);
    weir_store_free(store);
    pthread_join(thread, NULL);
    stop_impostor(&impostor);
}

/* the store's thread */

/* What stands in a line of /proc/self/task/…/status of the thread of that name; 0: no such thread. */
static unsigned long long status_of(const char *thread, const char *line)
{
    unsigned long long value = 0;
    glob_t tasks;
    assert_int_equal(glob("/proc/self/task/*/status", 0, NULL, &tasks), 0);
    for (size_t i = 0; i < tasks.gl_pathc; i++) {
        char text[4096], name[40];
        FILE *file = fopen(tasks.gl_pathv[i], "r");
        size_t got = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
        text[got] = '\0';
        if (file != NULL)
            fclose(file);
        const char *at = strstr(text, line);
        if (at != NULL && sscanf(text, "Name: %39s", name) == 1 && strcmp(name, thread) == 0)
            value = strtoull(at + strlen(line), NULL, 16);
    }
    globfree(&tasks);
    return value;
}

static void leaves_signals_to_the_program_but_for_its_own_faults(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    unsigned long long blocked = status_of("weir-redis", "SigBlk:");
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
    static const int others[] = { SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM };
    for (size_t i = 0; i < COUNT_OF(faults); i++)
        assert_int_equal(blocked >> (faults[i] - 1) & 1, 0);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        assert_int_equal(blocked >> (others[i] - 1) & 1, 1);
    weir_store_free(store);
}

/* As "ulimit -s 128" does, and musl: a check with its script would overflow it. */
static void runs_where_threads_have_a_small_stack(void **state)
{
    (void)state;
    pthread_attr_t usual, small;
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, 128 * 1024), 0);
    assert_int_equal(pthread_setattr_default_np(&small), 0);
    struct weir_store *store = open_answering(server.url, PATIENT_MS);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    struct weir_spend spend = contract_gcra("stack", 10, HOUR, 0);
    spend.algorithm = WEIR_SLIDING_LOG;
    assert_int_equal(contract_spend(store, &spend).remaining, 9);
    weir_store_free(store);
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&small);
}

/* several connections */

/* Those on which checks have come. */
static size_t connections_of(const struct redis_server *own)
{
    redisReply *clients = redis_server_ask(own, "CLIENT LIST");
    size_t count = 0;
    for (const char *at = clients->str; (at = strstr(at, "cmd=evalsha")) != NULL; at++)
        count++;
    freeReplyObject(clients);
    return count;
}

static void says_once_what_all_connections_meet(void **state)
{
    (void)state;
    struct redis_server own = { 0 };
    redis_server_prepare(&own);
    redis_server_start(&own);
    const struct weir_store_options *options =
        WEIR_STORE_OPTIONS(.timeout_ms = PATIENT_MS, .connections = 3, .log = kept_log());
    struct weir_store *store = NULL;
    assert_int_equal(weir_store_open(own.url, options, &store, NULL), WEIR_OK);
    contract_await_answers(store);
    struct weir_spend
        spends[64]; /* so many that each connection gets some, whatever their keys are */
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        spends[i] = contract_gcra("connections", 10, HOUR, 0);
        assert_int_equal(contract_spend(store, &spends[i]).remaining, 9);
    }
    assert_int_equal(connections_of(&own), 3);
    kept_forget();
    redis_server_kill(&own);
    wait_until_ready(store, false);
    for (size_t i = 0; i < COUNT_OF(spends); i++)
        assert_int_equal(result_of(store, &spends[i]), WEIR_STORE_UNAVAILABLE);
    redis_server_start(&own);
    struct weir_store_state how = { .answering = false };
    while (!how.answering) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        weir_store_state(store, &how);
    }
    for (size_t i = 0; i < COUNT_OF(spends); i++)
        assert_int_equal(contract_spend(store, &spends[i]).remaining, 9);
    assert_int_equal(kept_lines("is not answering"), 1);
    assert_int_equal(kept_lines("answers again"), 1);
    weir_store_free(store);
    redis_server_remove(&own);
}

/* running */

/* Windows on the clock that end in the middle of a test would give back what it has spent. */
static void stay_clear_of_the_hour(void)
{
    const uint64_t test_us = 30 * SECOND;
    uint64_t left_us = HOUR - now_of_system() % HOUR;
    if (left_us < test_us)
        nanosleep(&(struct timespec){ .tv_sec = (time_t)(left_us / SECOND) + 1 }, NULL);
}

static int set_up(void **state)
{
    (void)state;
    stay_clear_of_the_hour();
    kept_forget();
    return 0;
}

#define FAULT(name) cmocka_unit_test_setup(name, set_up)

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
        FAULT(says_once_that_a_server_does_not_count),
        FAULT(takes_refusals_for_no_trouble),
        FAULT(leaves_a_server_that_was_demoted),
        FAULT(waits_out_a_full_house),
        FAULT(fails_where_it_may_not_read),
        FAULT(enters_with_a_password),
        FAULT(keeps_databases_apart),
        FAULT(finds_a_server_by_name),
        FAULT(expires_whatever_the_first_cost),
        FAULT(takes_texts_and_other_types_for_new_keys),
        FAULT(takes_impossible_states_for_new_keys),
        FAULT(repairs_keys_that_would_block_for_ever),
        FAULT(gives_back_an_expiry_that_was_taken_away),
        FAULT(puts_right_an_expiry_that_cannot_be),
        FAULT(puts_right_the_expiry_of_a_group),
        FAULT(finds_limits_that_come_go_and_change_places),
        FAULT(keeps_no_more_than_sixteen_sections_of_others),
        FAULT(takes_a_broken_group_for_a_new_key),
        FAULT(leaves_nothing_behind_where_it_resets),
        FAULT(resets_a_limit_of_a_group_alone),
        FAULT(refuses_calendars_of_another_time),
        FAULT(has_room_for_the_largest_scripts),
        FAULT(keeps_a_long_log_as_the_library_does),
        FAULT(sends_a_script_once),
        FAULT(decides_more_kinds_of_plans_than_it_keeps),
        FAULT(sees_through_what_is_no_redis),
        FAULT(gives_a_try_up_after_a_second),
        FAULT(makes_sense_of_answers_that_are_none),
        FAULT(holds_back_what_a_server_does_not_read),
        FAULT(lets_nobody_wait_long_for_a_silent_start),
        FAULT(finds_no_answer_late_that_came_in_time),
        FAULT(leaves_signals_to_the_program_but_for_its_own_faults),
        FAULT(runs_where_threads_have_a_small_stack),
        FAULT(says_once_what_all_connections_meet),
    };
    redis_server_prepare(&server);
    redis_server_start(&server);
    int failed = cmocka_run_group_tests_name("redis faults", tests, NULL, NULL);
    redis_server_remove(&server);
    return failed;
}
