/* The Redis store behind Sentinels that say what no real one would say at a test's wish: nonsense,
 * nothing, or what was true a while ago. The servers that they name are real. */
#include "contract.h"

#include <unistd.h>

#include "base/clock.h"
#include "redis_server.h"
#include "sentinel_by_hand.h"
#include "store/store.h"
#include "watched_store.h"

#define SECOND UINT64_C(1000000)
#define HOUR   (3600 * SECOND)
#define MANY   UINT64_C(100000000)

/* For checks that are to be answered, and for those that are not. */
#define PATIENT_MS 5000
#define QUICK_MS   100

/* What a quiet machine keeps to (WEIR_STRICT), and what is asked of a busy one. */
static uint64_t at_most(uint64_t quiet, uint64_t busy)
{
    return getenv("WEIR_STRICT") != NULL ? quiet : busy;
}

/* The store has found its way after so long at most; a try or two may fail before. */
#define RETURN_US at_most(2 * SECOND, 30 * SECOND)

/* Two servers, neither of which knows of the other, and two Sentinels. */
static struct redis_server servers[2];
static struct sentinel_by_hand *sentinels[2];

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        servers[i] = (struct redis_server){ 0 };
        redis_server_prepare(&servers[i]);
        redis_server_start(&servers[i]);
        sentinels[i] = sentinel_by_hand_new();
        sentinel_by_hand_name(sentinels[i], servers[0].port);
    }
    sentinel_by_hand_name(sentinels[1], servers[0].port);
    kept_forget();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sentinel_by_hand_free(sentinels[i]);
        redis_server_remove(&servers[i]);
    }
    return 0;
}

/* A limit of which nothing comes back while a test runs. */
static struct weir_spend counter(const char *name)
{
    struct weir_spend spend = contract_window(name, MANY, 24 * HOUR);
    spend.from_first = true;
    return spend;
}

static void name_both(unsigned port)
{
    for (size_t i = 0; i < 2; i++)
        sentinel_by_hand_name(sentinels[i], port);
}

static const char *url_of_both(void)
{
    static char url[200];
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%u,127.0.0.1:%u/mymaster",
             sentinel_by_hand_port(sentinels[0]), sentinel_by_hand_port(sentinels[1]));
    return url;
}

static struct weir_store *open_with(uint32_t timeout_ms)
{
    return watched_open(url_of_both(), timeout_ms);
}

static struct weir_store *open_it(void)
{
    return open_with(PATIENT_MS);
}

static void wait_for_subscriber(struct sentinel_by_hand *sentinel)
{
    uint64_t start_us = weir_monotonic_us();
    while (sentinel_by_hand_subscribers(sentinel) == 0) {
        assert_true(weir_monotonic_us() - start_us < WATCHED_WAIT_US);
        usleep(1000);
    }
}

/* One that has answered already, and listens to a Sentinel. */
static struct weir_store *open_answering(void)
{
    struct weir_store *store = open_it();
    contract_await_answers(store);
    wait_for_subscriber(sentinels[0]);
    kept_forget();
    return store;
}

static void wait_until_asked(struct sentinel_by_hand *sentinel, size_t more)
{
    uint64_t start_us = weir_monotonic_us();
    size_t wanted = sentinel_by_hand_asked(sentinel) + more;
    while (sentinel_by_hand_asked(sentinel) < wanted) {
        assert_true(weir_monotonic_us() - start_us < WATCHED_WAIT_US);
        usleep(1000);
    }
}

/* One whose checks do not wait for long, and that listens to a Sentinel. */
static struct weir_store *open_quick(void)
{
    struct weir_store *store = open_with(QUICK_MS);
    watched_wait_for_server(store, servers[0].port);
    wait_for_subscriber(sentinels[0]);
    return store;
}

/* A check that nobody waits for. */
struct held {
    struct weir_check check;
    struct weir_answer answer;
    _Atomic unsigned ended;
    enum weir_store_result result;
};

static void on_held_done(struct weir_check *check)
{
    struct held *held = check->owner;
    held->result = check->result;
    held->ended++;
}

static void submit_held(struct weir_store *store, const struct weir_spend *spend, struct held *held)
{
    memset(held, 0, sizeof *held);
    held->check = (struct weir_check){
        .spends = spend, .answers = &held->answer, .count = 1, .done = on_held_done, .owner = held
    };
    store->type->submit(store->self, &held->check);
}

/* What a server has counted for a spend. */
static uint64_t counted_by(const struct redis_server *server, const struct weir_spend *spend)
{
    struct weir_store *store = watched_open(server->url, PATIENT_MS);
    struct weir_spend look = *spend;
    look.cost = 0;
    uint64_t counted = MANY - contract_spend(store, &look).remaining;
    weir_store_free(store);
    return counted;
}

/* asking one after the other */

static void asks_the_next_when_one_has_no_answer(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *says;
    } rows[] = {
        { "it knows no such master", "*-1\r\n" },
        { "it refuses", "-IDONTKNOW I have not enough information to reply\r\n" },
        { "it wants a password", "-NOAUTH Authentication required.\r\n" },
        { "a status", "+OK\r\n" },
        { "an empty list", "*0\r\n" },
        { "port 0", "*2\r\n$1\r\nh\r\n$1\r\n0\r\n" },
        { "no port", "*2\r\n$9\r\n127.0.0.1\r\n$-1\r\n" },
        { "a list of lists", "*2\r\n*1\r\n*0\r\n*0\r\n" },
        { "no protocol at all", "HTTP/1.1 400 Bad Request\r\n\r\n" },
        { "two answers", "*-1\r\n*-1\r\n" },
        { "half an answer", "*2\r\n$9\r\n127.0" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        sentinel_by_hand_say(sentinels[0], rows[i].says);
        struct weir_store *store = open_it();
        struct weir_spend spend = contract_gcra("next", 10, HOUR, 0);
        assert_true(contract_spend(store, &spend).allowed);
        wait_for_subscriber(sentinels[1]);
        weir_store_free(store);
    }
    assert_int_equal(kept_lines(""), 0);
}

static void asks_the_next_when_one_is_silent_or_away(void **state)
{
    (void)state;
    struct weir_spend spend = contract_gcra("silent", 10, HOUR, 0);
    sentinel_by_hand_hush(sentinels[0], true);
    struct weir_store *store = open_it();
    assert_true(contract_spend(store, &spend).allowed);
    weir_store_free(store);

    sentinel_by_hand_hush(sentinels[0], false);
    sentinel_by_hand_leave(sentinels[0], true);
    store = open_it();
    assert_true(contract_spend(store, &spend).allowed);
    weir_store_free(store);
    assert_int_equal(kept_lines(""), 0);
}

/* They greet, but do not answer the question. */
static void waits_a_second_for_an_answer_and_no_longer(void **state)
{
    (void)state;
    sentinel_by_hand_say(sentinels[0], "");
    sentinel_by_hand_say(sentinels[1], "");
    struct weir_store *store = open_it();
    watched_wait_until_ready(store, false);
    kept_wait_for("is not answering (no Sentinel answers: no answer within 1 s)");
    name_both(servers[0].port);
    assert_in_range(watched_wait_until_ready(store, true), 0, at_most(5 * SECOND, 30 * SECOND));
    assert_int_equal(kept_lines("is not answering"), 1);
    weir_store_free(store);
}

static void begins_with_whoever_answered_last(void **state)
{
    (void)state;
    sentinel_by_hand_say(sentinels[0], "*-1\r\n");
    struct weir_store *store = open_it();
    watched_wait_for_server(store, servers[0].port);
    wait_for_subscriber(sentinels[1]);
    size_t asked = sentinel_by_hand_asked(sentinels[0]);
    sentinel_by_hand_name(sentinels[0], servers[0].port);
    redis_server_kill(&servers[0]);
    watched_wait_until_ready(store, false);
    redis_server_start(&servers[0]);
    watched_wait_until_ready(store, true);
    weir_store_free(store);
    /* It may have been asked again while the master was away, but not first. */
    assert_in_range(sentinel_by_hand_asked(sentinels[0]), asked, asked + 20);
}

/* The URL leads to a Redis. */
static void says_that_a_redis_is_no_sentinel(void **state)
{
    (void)state;
    char url[100];
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%u/mymaster", servers[0].port);
    struct weir_store *store = watched_open(url, PATIENT_MS);
    watched_wait_until_ready(store, false);
    kept_wait_for(": it is no Sentinel)");
    assert_int_equal(kept_lines(""), 1);
    weir_store_free(store);
}

/* leaving a master */

static void switches_at_a_word_and_loses_no_check(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    struct weir_spend spend = counter("switch");
    assert_true(contract_spend(store, &spend).allowed);
    sentinel_by_hand_switch(sentinels[0], servers[1].port);
    watched_wait_for_server(store, servers[1].port);
    for (int n = 0; n < 10; n++)
        assert_true(contract_spend(store, &spend).allowed);
    assert_int_equal(kept_lines("is now at"), 1);
    assert_int_equal(kept_lines(""), 1);
    weir_store_free(store);
    assert_int_equal(counted_by(&servers[0], &spend), 1);
    assert_int_equal(counted_by(&servers[1], &spend), 10);
}

static void says_once_a_second_where_the_master_is(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    char last[30];
    snprintf(last, sizeof last, ":%u, says", servers[0].port);
    uint64_t start_us = weir_monotonic_us();
    for (unsigned n = 1; n <= 20; n++) {
        sentinel_by_hand_switch(sentinels[0], servers[n % 2].port);
        watched_wait_for_server(store, servers[n % 2].port);
    }
    size_t said = kept_lines(last);
    if (weir_monotonic_us() - start_us < SECOND)
        assert_int_equal(said, 0);
    /* In the end the log says where it is. */
    kept_wait_for(last);
    size_t most = 2 + (size_t)((weir_monotonic_us() - start_us) / SECOND);
    assert_in_range(kept_lines("is now at"), 2, most);
    weir_store_free(store);
}

/* Whether a busy machine has taken so long since then that the store's own times are over. */
static bool was_held_up(uint64_t since_us, uint64_t most_us)
{
    bool was = weir_monotonic_us() - since_us >= most_us;
    if (was)
        print_message("    held up for too long: not judged\n");
    return was;
}

/* Checks that come while the way to the new master is being made wait for it. */
static void holds_checks_while_it_connects(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    struct weir_spend spend = counter("hold");
    redis_server_freeze(&servers[1]); /* it takes connections, but says nothing */
    name_both(servers[1].port);
    uint64_t start_us = weir_monotonic_us();
    sentinel_by_hand_switch(sentinels[0], servers[1].port);
    kept_wait_for("is now at");
    struct watched_load *load = watched_load_start(store, &spend, PATIENT_MS);
    redis_server_thaw(&servers[1]);
    bool is_late = was_held_up(start_us, SECOND / 2); /* a try is given up after a second */
    watched_load_wait_for_answers(load, 20);
    struct watched_counts counts = watched_load_stop(load);
    assert_int_equal(counts.answered, counts.submitted - (is_late ? counts.unavailable : 0));
    weir_store_free(store);
    assert_int_equal(counted_by(&servers[1], &spend), counts.answered);
}

/* READONLY says that nothing was counted, so the check may go to whoever is master now. */
static void sends_again_what_a_demoted_master_refused(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    struct weir_spend spend = counter("readonly");
    assert_true(contract_spend(store, &spend).allowed);
    for (uint64_t round = 0; round < 4; round++) {
        struct redis_server *old = &servers[round % 2], *new = &servers[(round + 1) % 2];
        redis_server_do(new, "REPLICAOF NO ONE");
        name_both(new->port); /* and says nothing about it */
        redis_server_do(old, "REPLICAOF 127.0.0.1 1");
        assert_true(contract_spend(store, &spend).allowed);
        watched_wait_for_server(store, new->port);
    }
    assert_int_equal(kept_lines("READONLY"), 0);
    weir_store_free(store);
    for (size_t i = 0; i < 2; i++)
        redis_server_do(&servers[i], "REPLICAOF NO ONE");
    assert_int_equal(counted_by(&servers[0], &spend) + counted_by(&servers[1], &spend), 5);
}

/* The same under load: each check is counted once, or its failure is told. */
static void counts_once_while_masters_change_places(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    struct weir_spend spend = counter("places");
    struct watched_load *load = watched_load_start(store, &spend, PATIENT_MS);
    for (uint64_t round = 0; round < 6; round++) {
        struct redis_server *old = &servers[round % 2], *new = &servers[(round + 1) % 2];
        watched_load_wait_for_answers(load, 50);
        redis_server_do(new, "REPLICAOF NO ONE");
        name_both(new->port);
        redis_server_do(old, "REPLICAOF 127.0.0.1 1");
        watched_wait_for_server(store, new->port);
    }
    watched_load_wait_for_answers(load, 50);
    struct watched_counts counts = watched_load_stop(load);
    assert_int_equal(counts.answered + counts.unavailable, counts.submitted);
    assert_in_range(counts.unavailable, 0, at_most(60, 6 * WATCHED_UNDER_WAY_MAX));
    assert_int_equal(counts.latest_us, 0);
    weir_store_free(store);
    for (size_t i = 0; i < 2; i++)
        redis_server_do(&servers[i], "REPLICAOF NO ONE");
    uint64_t counted = counted_by(&servers[0], &spend) + counted_by(&servers[1], &spend);
    assert_in_range(counted, counts.answered, counts.answered + counts.unavailable);
}

/* Checks wait for a new master no longer than for an old one. */
static void ends_held_checks_at_their_deadlines(void **state)
{
    (void)state;
    struct weir_store *store = open_quick();
    struct weir_spend spend = counter("held");
    redis_server_freeze(&servers[1]);
    name_both(servers[1].port);
    sentinel_by_hand_switch(sentinels[0], servers[1].port);
    struct watched_load *load = watched_load_start(store, &spend, QUICK_MS);
    /* And not "no answer within 1 s", which is how the try ends for which they wait. */
    kept_wait_for("is not answering (5 timeouts)");
    watched_wait_until_ready(store, false);
    assert_int_equal(kept_lines("is not answering"), 1);
    redis_server_thaw(&servers[1]);
    watched_load_wait_for_answers(load, 20);
    struct watched_counts counts = watched_load_stop(load);
    assert_true(counts.timeouts >= 5);
    assert_in_range(counts.latest_us, 0, at_most(SECOND / 2, 10 * SECOND));
    weir_store_free(store);
}

static void ends_held_checks_when_it_is_freed(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    struct weir_spend spend = counter("freed");
    redis_server_freeze(&servers[1]);
    name_both(servers[1].port);
    sentinel_by_hand_switch(sentinels[0], servers[1].port);
    kept_wait_for("is now at");
    struct held held[3];
    for (size_t i = 0; i < COUNT_OF(held); i++)
        submit_held(store, &spend, &held[i]);
    store->type->cancel(store->self, &held[1].check);
    assert_int_equal(held[1].ended, 1);
    assert_int_equal(held[1].result, WEIR_STORE_CANCELLED);
    weir_store_free(store);
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        assert_int_equal(held[i].ended, 1);
        assert_int_equal(held[i].result, WEIR_STORE_CANCELLED);
    }
}

/* Nobody names another one: then it is a failure like others, and says what it is. */
static void fails_where_a_demoted_master_is_the_only_one(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    struct weir_spend spend = counter("demoted");
    redis_server_do(&servers[0], "REPLICAOF 127.0.0.1 1");
    struct weir_answer answer;
    struct weir_check check = { .spends = &spend, .answers = &answer, .count = 1 };
    contract_submit(store, &check);
    assert_int_not_equal(check.result, WEIR_STORE_ANSWERED);
    assert_int_not_equal(check.result, WEIR_STORE_TIMEOUT);
    watched_wait_until_ready(store, false);
    kept_wait_for("is not answering (READONLY ");
    redis_server_do(&servers[0], "REPLICAOF NO ONE");
    watched_wait_until_ready(store, true);
    assert_true(contract_spend(store, &spend).allowed);
    weir_store_free(store);
}

static void finds_the_new_master_though_no_word_came(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    name_both(servers[1].port);
    assert_in_range(watched_wait_for_server(store, servers[1].port), 0, RETURN_US);
    weir_store_free(store);
}

static void takes_no_replica_for_a_master(void **state)
{
    (void)state;
    redis_server_do(&servers[0], "REPLICAOF 127.0.0.1 1");
    struct weir_store *store = open_it();
    watched_wait_until_ready(store, false);
    kept_wait_for("it is a replica, not the master");
    assert_int_equal(kept_lines(""), 1);
    redis_server_do(&servers[0], "REPLICAOF NO ONE");
    assert_in_range(watched_wait_until_ready(store, true), 0, RETURN_US);
    weir_store_free(store);
}

/* One Sentinel lags behind, and names a server that is no use; the other knows. */
static void does_not_insist_on_one_sentinel(void **state)
{
    (void)state;
    redis_server_kill(&servers[0]);
    sentinel_by_hand_name(sentinels[1], servers[1].port);
    struct weir_store *store = open_it();
    assert_in_range(watched_wait_for_server(store, servers[1].port), 0, RETURN_US);
    weir_store_free(store);
}

/* …or the one that it has left, which still answers. */
static void does_not_go_back_at_the_word_of_one_that_lags(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    struct weir_spend spend = counter("lags");
    uint64_t start_us = weir_monotonic_us();
    sentinel_by_hand_switch(sentinels[0], servers[1].port);
    watched_wait_for_server(store, servers[1].port);
    wait_until_asked(sentinels[0], 2);
    sentinel_by_hand_leave(sentinels[0], true);
    wait_for_subscriber(sentinels[1]);
    wait_until_asked(sentinels[1], 1);
    assert_true(contract_spend(store, &spend).allowed);
    size_t said = kept_lines("is now at");
    weir_store_free(store);
    if (was_held_up(start_us, 9 * SECOND / 2)) /* after five seconds it is believed */
        return;
    assert_int_equal(said, 1);
    assert_int_equal(counted_by(&servers[0], &spend), 0);
    assert_int_equal(counted_by(&servers[1], &spend), 1);
}

/* …while the way to the new one is still being made. */
static void does_not_turn_back_at_the_word_of_one_that_lags(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    redis_server_freeze(&servers[1]);
    uint64_t start_us = weir_monotonic_us();
    sentinel_by_hand_switch(sentinels[0], servers[1].port);
    kept_wait_for("is now at");
    sentinel_by_hand_leave(sentinels[0], true);
    wait_until_asked(sentinels[1], 1);
    wait_for_subscriber(sentinels[1]);
    redis_server_thaw(&servers[1]);
    /* A try is given up after a second, and then the other one may be right. */
    if (!was_held_up(start_us, SECOND / 2)) {
        watched_wait_for_server(store, servers[1].port);
        struct weir_spend spend = counter("turn");
        assert_true(contract_spend(store, &spend).allowed);
        assert_int_equal(kept_lines("is now at"), 1);
        assert_int_equal(counted_by(&servers[1], &spend), 1);
    }
    weir_store_free(store);
}

/* a Sentinel that it listens to */

static void listens_to_one_sentinel_and_no_other(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    wait_until_asked(sentinels[0], 3);
    assert_int_equal(sentinel_by_hand_guests(sentinels[0]), 1);
    assert_int_equal(sentinel_by_hand_asked(sentinels[1]), 0);
    assert_int_equal(kept_lines(""), 0);

    /* The silent one is left when the other has answered. */
    sentinel_by_hand_hush(sentinels[0], true);
    wait_for_subscriber(sentinels[1]);
    wait_until_asked(sentinels[1], 3);
    assert_int_equal(sentinel_by_hand_guests(sentinels[0]), 0);
    assert_int_equal(sentinel_by_hand_guests(sentinels[1]), 1);
    assert_int_equal(kept_lines(""), 0);
    weir_store_free(store);

    /* The same where both were asked, since the first was slow. */
    sentinel_by_hand_hush(sentinels[0], false);
    sentinel_by_hand_say(sentinels[0], "");
    store = open_it();
    wait_for_subscriber(sentinels[1]);
    wait_until_asked(sentinels[1], 1);
    assert_int_equal(sentinel_by_hand_guests(sentinels[0]), 0);
    weir_store_free(store);
}

static void replaces_a_sentinel_that_falls_silent(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    sentinel_by_hand_hush(sentinels[0], true);
    wait_for_subscriber(sentinels[1]);
    name_both(servers[1].port);
    sentinel_by_hand_switch(sentinels[1], servers[1].port);
    watched_wait_for_server(store, servers[1].port);
    assert_int_equal(kept_lines("answers"), 0);
    weir_store_free(store);
}

static void survives_whatever_a_sentinel_sends(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$0\r\n\r\n",
        "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$-1\r\n",
        "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$20\r\nmymaster a 1 b 99999\r\n",
        "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$20\r\nyourmast a 1 127.0.0\r\n",
        "*3\r\n$7\r\nmessage\r\n:1\r\n*0\r\n",
        "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nx\r\n$1\r\ny\r\n",
        "*2\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:2\r\n",
        "+OK\r\n",
        "-ERR what\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*3\r\n",
        "$100000\r\nx",
        "nonsense\r\n",
        ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$1\r\nx\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    };
    struct weir_store *store = open_answering();
    struct weir_spend spend = counter("nonsense");
    struct watched_load *load = watched_load_start(store, &spend, PATIENT_MS);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %.40s\n", rows[i]);
        while (sentinel_by_hand_subscribers(sentinels[0])
                   + sentinel_by_hand_subscribers(sentinels[1])
               == 0)
            usleep(1000);
        sentinel_by_hand_publish(sentinels[0], rows[i]);
        sentinel_by_hand_publish(sentinels[1], rows[i]);
        watched_load_wait_for_answers(load, 20);
    }
    /* Then a good word is understood. */
    name_both(servers[1].port);
    assert_in_range(watched_wait_for_server(store, servers[1].port), 0,
                    at_most(5 * SECOND, 30 * SECOND));
    struct watched_counts counts = watched_load_stop(load);
    /* What was on its way to the old master. */
    assert_in_range(counts.unavailable, 0, at_most(20, WATCHED_UNDER_WAY_MAX));
    assert_int_equal(counts.answered + counts.unavailable, counts.submitted);
    weir_store_free(store);
}

static void says_once_that_all_sentinels_are_gone(void **state)
{
    (void)state;
    struct weir_store *store = open_answering();
    struct weir_spend spend = counter("gone");
    for (int round = 0; round < 2; round++) {
        kept_forget();
        sentinel_by_hand_leave(sentinels[0], true);
        sentinel_by_hand_leave(sentinels[1], true);
        kept_wait_for("No Sentinel names the master \"mymaster\" any more (");
        assert_true(contract_spend(store, &spend).allowed);
        /* Away, they take connections and close them: they are asked again, and nothing is said. */
        sentinel_by_hand_leave(sentinels[1], false);
        wait_for_subscriber(sentinels[1]);
        kept_wait_for(" again.");
        assert_int_equal(kept_lines(""), 2);
        sentinel_by_hand_leave(sentinels[0], false);
    }
    weir_store_free(store);
}

/* several connections */

static void try_to_spend(struct weir_store *store, const struct weir_spend *spend)
{
    struct weir_answer answer;
    struct weir_check check = { .spends = spend, .answers = &answer, .count = 1 };
    contract_submit(store, &check);
}

/* Several connections to the master are several to the Sentinel, but speak with one voice. */
static void follows_with_several_connections(void **state)
{
    (void)state;
    struct weir_store *store = watched_open_with(
        url_of_both(), *WEIR_STORE_OPTIONS(.timeout_ms = PATIENT_MS, .connections = 3));
    struct weir_spend spends[8];
    char names[8][8];
    for (size_t i = 0; i < COUNT_OF(spends); i++) {
        snprintf(names[i], sizeof names[i], "many%zu", i);
        spends[i] = counter(names[i]);
        assert_true(contract_spend(store, &spends[i]).allowed);
    }
    uint64_t start_us = weir_monotonic_us();
    while (sentinel_by_hand_subscribers(sentinels[0]) < 3)
        assert_true(weir_monotonic_us() - start_us < WATCHED_WAIT_US);

    name_both(servers[1].port);
    sentinel_by_hand_switch(sentinels[0], servers[1].port);
    watched_wait_for_server(store, servers[1].port);
    /* What is on its way to the old master when its connection hears of the new one has no answer. */
    for (size_t i = 0; i < COUNT_OF(spends); i++)
        while (counted_by(&servers[1], &spends[i]) == 0)
            try_to_spend(store, &spends[i]);
    assert_int_equal(kept_lines("is now at"), 1);

    sentinel_by_hand_leave(sentinels[0], true);
    sentinel_by_hand_leave(sentinels[1], true);
    kept_wait_for("No Sentinel names the master");
    sentinel_by_hand_leave(sentinels[1], false);
    start_us = weir_monotonic_us();
    while (sentinel_by_hand_subscribers(sentinels[1]) < 3)
        assert_true(weir_monotonic_us() - start_us < WATCHED_WAIT_US);
    kept_wait_for(" again.");
    assert_int_equal(kept_lines(""), 3);
    weir_store_free(store);
}

/* ending */

static void is_freed_at_once_whatever_it_waits_for(void **state)
{
    (void)state;
    sentinel_by_hand_hush(sentinels[0], true);
    sentinel_by_hand_hush(sentinels[1], true);
    struct weir_store *store = open_it();
    uint64_t start_us = weir_monotonic_us();
    weir_store_free(store);
    assert_in_range(weir_monotonic_us() - start_us, 0, SECOND / 2);

    sentinel_by_hand_hush(sentinels[0], false);
    sentinel_by_hand_hush(sentinels[1], false);
    redis_server_freeze(&servers[0]);
    store = open_it();
    start_us = weir_monotonic_us();
    weir_store_free(store);
    assert_in_range(weir_monotonic_us() - start_us, 0, SECOND / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(asks_the_next_when_one_has_no_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(asks_the_next_when_one_is_silent_or_away, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(waits_a_second_for_an_answer_and_no_longer, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(begins_with_whoever_answered_last, set_up, tear_down),
        cmocka_unit_test_setup_teardown(says_that_a_redis_is_no_sentinel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(switches_at_a_word_and_loses_no_check, set_up, tear_down),
        cmocka_unit_test_setup_teardown(says_once_a_second_where_the_master_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(holds_checks_while_it_connects, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sends_again_what_a_demoted_master_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(counts_once_while_masters_change_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ends_held_checks_at_their_deadlines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ends_held_checks_when_it_is_freed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fails_where_a_demoted_master_is_the_only_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(finds_the_new_master_though_no_word_came, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(takes_no_replica_for_a_master, set_up, tear_down),
        cmocka_unit_test_setup_teardown(does_not_insist_on_one_sentinel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(does_not_go_back_at_the_word_of_one_that_lags, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(does_not_turn_back_at_the_word_of_one_that_lags, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(listens_to_one_sentinel_and_no_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(replaces_a_sentinel_that_falls_silent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_whatever_a_sentinel_sends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(says_once_that_all_sentinels_are_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(follows_with_several_connections, set_up, tear_down),
        cmocka_unit_test_setup_teardown(is_freed_at_once_whatever_it_waits_for, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
