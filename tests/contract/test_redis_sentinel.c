/* The Redis store behind real Sentinels: whoever is master is used, whatever becomes of the others. */
#include "contract.h"

#include "base/clock.h"
#include "redis_sentinel.h"
#include "store/store.h"
#include "watched_store.h"

#define SECOND UINT64_C(1000000)
#define HOUR   (3600 * SECOND)
#define MANY   UINT64_C(100000000)

/* For checks that Redis is to answer, however busy the machine is; and for those of a load, which
 * end long before a failover does. */
#define PATIENT_MS 5000
#define LOAD_MS    50

static bool is_strict(void)
{
    return getenv("WEIR_STRICT") != NULL;
}

/* A master that is silent for so long is down: longer than a busy machine keeps one waiting. */
#define DOWN_AFTER_MS 3000

/* A failover takes longer than that. What ends that soon after its deadline did not wait for it; a
 * quiet machine takes a fraction of a millisecond. */
static uint64_t lateness_us(void)
{
    return is_strict() ? 5000 : (DOWN_AFTER_MS - 1000) * UINT64_C(1000);
}

/* The store has to be back so soon after the new master is there and named; the test itself sees
 * that a little late, and on a busy machine a try or two may fail before. */
static uint64_t recovery_us(void)
{
    return is_strict() ? 2 * SECOND : 30 * SECOND;
}

/* A limit of which nothing comes back while a test runs. */
static struct weir_spend counter(const char *name)
{
    struct weir_spend spend = contract_window(name, MANY, 24 * HOUR);
    spend.from_first = true;
    return spend;
}

static struct weir_store *open_on(const struct sentinel_group *group, uint32_t timeout_ms)
{
    char url[300];
    struct weir_store *store =
        watched_open(sentinel_group_url(group, NULL, NULL, url, sizeof url), timeout_ms);
    size_t master = sentinel_group_master(group);
    watched_wait_for_server(store, group->servers[master].port);
    contract_await_answers(store);
    kept_forget();
    return store;
}

static struct weir_spend look_at(const struct weir_spend *spend)
{
    struct weir_spend look = *spend;
    look.cost = 0;
    return look;
}

/* How much was spent, as the master has it now. */
static uint64_t spent(struct weir_store *store, const struct weir_spend *spend)
{
    struct weir_spend look = look_at(spend);
    return MANY - contract_spend(store, &look).remaining;
}

static void print_counts(const char *what, const struct watched_counts *counts)
{
    print_message(
        "    %s: %llu checks, %llu answered, %llu timeouts, %llu unavailable, %llu errors "
        "(%s), at most %llu us late\n",
        what, (unsigned long long)counts->submitted, (unsigned long long)counts->answered,
        (unsigned long long)counts->timeouts, (unsigned long long)counts->unavailable,
        (unsigned long long)counts->errors, counts->why, (unsigned long long)counts->latest_us);
}

/* False: a busy machine has brought one more failover, after which counts say nothing. */
static bool is_still_master(const struct sentinel_group *group, size_t master)
{
    if (sentinel_group_master(group) == master)
        return true;
    print_message("    another failover came in between: its counts are not judged\n");
    return false;
}

/* finding it */

static void finds_the_master_and_its_database(void **state)
{
    (void)state;
    struct sentinel_group group = { 0 };
    sentinel_group_start(&group);
    char url[300];
    struct weir_store *first =
        watched_open(sentinel_group_url(&group, NULL, NULL, url, sizeof url), PATIENT_MS);
    struct weir_store *other =
        watched_open(sentinel_group_url(&group, NULL, "/3", url, sizeof url), PATIENT_MS);
    struct weir_spend spend = contract_gcra("database", 1, HOUR, 0);
    contract_await_answers(first);
    contract_await_answers(other);
    assert_true(contract_spend(first, &spend).allowed);
    assert_true(contract_spend(other, &spend).allowed);
    assert_false(contract_spend(first, &spend).allowed);
    assert_false(contract_spend(other, &spend).allowed);
    assert_int_equal(redis_server_number(&group.servers[0], "EXISTS %s", spend.key), 1);
    assert_int_equal(kept_lines(""), 0);
    weir_store_free(first);
    weir_store_free(other);
    sentinel_group_remove(&group);
}

static void finds_a_master_that_is_announced_by_name(void **state)
{
    (void)state;
    struct sentinel_group group = { .announces_names = true };
    sentinel_group_start(&group);
    redisReply *named = sentinel_ask(&group, 0, "SENTINEL get-master-addr-by-name mymaster");
    assert_string_equal(named->element[0]->str, "localhost");
    freeReplyObject(named);
    struct weir_store *store = open_on(&group, PATIENT_MS);
    struct weir_spend spend = counter("name");
    assert_true(contract_spend(store, &spend).allowed);

    sentinel_group_replicate(&group);
    redis_server_kill(&group.servers[0]);
    size_t master = sentinel_group_wait_for_other(&group, 0);
    assert_in_range(watched_wait_for_server(store, group.servers[master].port), 0, recovery_us());
    assert_int_equal(spent(store, &spend), 1);
    weir_store_free(store);
    sentinel_group_remove(&group);
}

/* failovers under load */

enum ending { KILLED, FROZEN, REPLACED };

static void end_master(struct sentinel_group *group, size_t master, enum ending ending)
{
    switch (ending) {
    case KILLED:
        redis_server_kill(&group->servers[master]);
        return;
    case FROZEN:
        redis_server_freeze(&group->servers[master]);
        return;
    case REPLACED:
        sentinel_group_fail_over(group);
        return;
    }
}

/* What was answered and replicated before is there afterwards, and what was answered by the new
 * master too. Between the two some may have been counted though nobody heard of it. */
static void follow(enum ending ending)
{
    struct sentinel_group group = { .down_after_ms = DOWN_AFTER_MS };
    sentinel_group_start(&group);
    struct weir_store *store = open_on(&group, LOAD_MS);
    struct weir_spend spend = counter("follow");

    struct watched_load *load = watched_load_start(store, &spend, LOAD_MS);
    watched_load_wait_for_answers(load, 100);
    struct watched_counts before = watched_load_stop(load);
    sentinel_group_replicate(&group);

    load = watched_load_start(store, &spend, LOAD_MS);
    end_master(&group, 0, ending);
    size_t master = sentinel_group_wait_for_other(&group, 0);
    uint64_t back_us = watched_wait_for_server(store, group.servers[master].port);
    watched_load_wait_for_answers(load, 1);
    struct watched_counts during = watched_load_counts(load);
    watched_load_wait_for_answers(load, 100);
    struct watched_counts after = watched_load_stop(load);

    print_counts("before", &before);
    print_counts("in all, from the end of the old master", &after);
    print_message("    the store used it %llu us after the test saw the new master\n",
                  (unsigned long long)back_us);
    assert_in_range(back_us, 0, recovery_us());
    assert_in_range(before.latest_us, 0, lateness_us());
    assert_in_range(after.latest_us, 0, lateness_us());
    assert_int_equal(after.submitted,
                     after.answered + after.timeouts + after.unavailable + after.errors);

    if (is_still_master(&group, master)) {
        uint64_t least = before.answered + after.answered - during.answered;
        uint64_t most = before.answered + after.submitted;
        assert_in_range(spent(store, &spend), least, most);
        assert_int_equal(kept_lines("is now at"), 1);
    }
    weir_store_free(store);
    sentinel_group_remove(&group);
}

static void follows_when_the_master_is_killed(void **state)
{
    (void)state;
    follow(KILLED);
}

static void follows_when_the_master_freezes(void **state)
{
    (void)state;
    follow(FROZEN);
}

static void follows_when_the_master_is_replaced(void **state)
{
    (void)state;
    follow(REPLACED);
}

/* Without checks on their way while it happens, nothing is unknown. */
static void counts_exactly_over_failovers(void **state)
{
    (void)state;
    static const enum ending endings[] = { REPLACED, KILLED };
    for (size_t i = 0; i < COUNT_OF(endings); i++) {
        struct sentinel_group group = { 0 };
        sentinel_group_start(&group);
        struct weir_store *store = open_on(&group, PATIENT_MS);
        struct weir_spend spend = counter("exact");
        for (int n = 0; n < 20; n++)
            assert_true(contract_spend(store, &spend).allowed);
        sentinel_group_replicate(&group);
        end_master(&group, 0, endings[i]);
        size_t master = sentinel_group_wait_for_other(&group, 0);
        watched_wait_for_server(store, group.servers[master].port);
        for (int n = 0; n < 20; n++)
            assert_true(contract_spend(store, &spend).allowed);
        assert_int_equal(spent(store, &spend), 40);
        weir_store_free(store);
        sentinel_group_remove(&group);
    }
}

/* An old master starts as one: until the Sentinels have made it a replica it answers as if nothing
 * had happened. */
static void leaves_an_old_master_alone_when_it_comes_back(void **state)
{
    (void)state;
    struct sentinel_group group = { .down_after_ms = DOWN_AFTER_MS };
    sentinel_group_start(&group);
    struct weir_store *store = open_on(&group, PATIENT_MS);
    struct weir_spend spend = counter("old");
    redis_server_kill(&group.servers[0]);
    size_t master = sentinel_group_wait_for_other(&group, 0);
    watched_wait_for_server(store, group.servers[master].port);
    kept_forget();

    redis_server_start(&group.servers[0]);
    struct watched_load *load = watched_load_start(store, &spend, PATIENT_MS);
    sentinel_group_heal(&group);
    struct watched_counts counts = watched_load_stop(load);
    print_counts("while it came back", &counts);
    char old[16];
    snprintf(old, sizeof old, ":%u", group.servers[0].port);
    assert_int_equal(kept_lines(old), 0);
    if (is_still_master(&group, master)) {
        assert_int_equal(counts.answered, counts.submitted);
        assert_int_equal(spent(store, &spend), counts.answered);
        assert_int_equal(kept_lines("is now at"), 0);
        assert_int_equal(kept_lines("is not answering"), 0);
    }
    weir_store_free(store);
    sentinel_group_remove(&group);
}

/* Sentinels that come and go */

static void serves_on_without_sentinels(void **state)
{
    (void)state;
    struct sentinel_group group = { 0 };
    sentinel_group_start(&group);
    struct weir_store *store = open_on(&group, PATIENT_MS);
    struct weir_spend spend = counter("without");
    struct watched_load *load = watched_load_start(store, &spend, PATIENT_MS);
    for (size_t i = 0; i < SENTINELS; i++)
        sentinel_kill(&group, i);
    kept_wait_for("No Sentinel names the master \"mymaster\" any more (");
    watched_load_wait_for_answers(load, 1000);
    assert_int_equal(kept_lines(""), 1);

    /* One that the store had not talked to is as good as another. */
    for (size_t i = SENTINELS; i-- > 0;)
        sentinel_start(&group, i);
    kept_wait_for(" again.");
    assert_int_equal(kept_lines(""), 2);
    struct watched_counts counts = watched_load_stop(load);
    print_counts("without Sentinels", &counts);
    assert_int_equal(counts.answered, counts.submitted);
    assert_int_equal(spent(store, &spend), counts.answered);

    sentinel_group_heal(&group);
    redis_server_kill(&group.servers[0]);
    size_t master = sentinel_group_wait_for_other(&group, 0);
    assert_in_range(watched_wait_for_server(store, group.servers[master].port), 0, recovery_us());
    weir_store_free(store);
    sentinel_group_remove(&group);
}

/* The last master that was heard of is better than none. */
static void comes_back_to_a_master_without_sentinels(void **state)
{
    (void)state;
    struct sentinel_group group = { 0 };
    sentinel_group_start(&group);
    struct weir_store *store = open_on(&group, PATIENT_MS);
    for (size_t i = 0; i < SENTINELS; i++)
        sentinel_kill(&group, i);
    kept_wait_for("No Sentinel names the master \"mymaster\" any more (");
    redis_server_kill(&group.servers[0]);
    watched_wait_until_ready(store, false);
    redis_server_start(&group.servers[0]);
    assert_in_range(watched_wait_until_ready(store, true), 0, recovery_us());
    struct weir_spend spend = counter("alone");
    assert_true(contract_spend(store, &spend).allowed);
    weir_store_free(store);
    sentinel_group_remove(&group);
}

/* The Sentinel that the store listens to is lost in the moment of the failover. */
static void follows_though_its_sentinel_freezes(void **state)
{
    (void)state;
    struct sentinel_group group = { 0 };
    sentinel_group_start(&group);
    struct weir_store *store = open_on(&group, PATIENT_MS);
    sentinel_freeze(&group, 0); /* asked first, so it is this one */
    redis_server_kill(&group.servers[0]);
    size_t master = sentinel_group_wait_for_other(&group, 0);
    assert_in_range(watched_wait_for_server(store, group.servers[master].port), 0, recovery_us());
    weir_store_free(store);
    sentinel_group_remove(&group);
}

static void starts_before_sentinels_and_servers(void **state)
{
    (void)state;
    struct sentinel_group group = { 0 };
    sentinel_group_start(&group);
    for (size_t i = 0; i < SENTINELS; i++)
        sentinel_kill(&group, i);
    for (size_t i = 0; i < SENTINEL_SERVERS; i++)
        redis_server_kill(&group.servers[i]);
    char url[300];
    kept_forget();
    struct weir_store *store =
        watched_open(sentinel_group_url(&group, NULL, NULL, url, sizeof url), PATIENT_MS);
    watched_wait_until_ready(store, false);
    kept_wait_for("is not answering (no Sentinel answers: ");
    assert_int_equal(kept_lines(""), 1);
    for (size_t i = 0; i < SENTINEL_SERVERS; i++)
        redis_server_start(&group.servers[i]);
    for (size_t i = 0; i < SENTINELS; i++)
        sentinel_start(&group, i);
    assert_in_range(watched_wait_until_ready(store, true), 0, recovery_us());
    weir_store_free(store);
    sentinel_group_remove(&group);
}

/* passwords */

#define USER_RIGHTS                                                                                \
    "~contract-* +evalsha +eval +script|load +ping +select +role +info +get +getrange +strlen "    \
    "+setrange +psetex +pexpire +pttl +unlink +time"

static void enters_with_both_passwords(void **state)
{
    (void)state;
    struct sentinel_group group = {
        .password = "open:sesame",
        .sentinel_password = "open@door",
        .sentinel_user = "asker on >a/sk ~* &* -@all +ping +subscribe +unsubscribe "
                         "+sentinel|get-master-addr-by-name",
    };
    sentinel_group_start(&group);
    for (size_t i = 0; i < SENTINEL_SERVERS; i++) {
        redis_server_do(&group.servers[i], "ACL SETUSER meter on >pa@ss " USER_RIGHTS);
        redis_server_do(&group.servers[i], "ACL SETUSER blind on >blind " USER_RIGHTS " -role");
    }

    static const struct {
        const char *what;
        const char *login;
        const char *rest;
        const char *refusal; /* NULL: it enters */
    } rows[] = {
        { "both passwords", ":open%3Asesame", "?sentinel_password=open%40door", NULL },
        { "a database too", ":open%3Asesame", "/5?sentinel_password=open%40door", NULL },
        { "users of their own", "meter:pa%40ss", "?sentinel_user=asker&sentinel_password=a%2Fsk",
          NULL },
        { "a user who may not ask for a role", "blind:blind", "?sentinel_password=open%40door",
          NULL },
        { "no password for the Sentinels", ":open%3Asesame", NULL,
          "it wants a password: sentinel_password" },
        { "a wrong password for the Sentinels", ":open%3Asesame", "?sentinel_password=shut-door",
          "AUTH refused: WRONGPASS" },
        { "a wrong user for the Sentinels", ":open%3Asesame",
          "?sentinel_user=nobody&sentinel_password=shut-door", "AUTH refused: WRONGPASS" },
        { "the master's password for the Sentinels", ":open%3Asesame",
          "?sentinel_password=open%3Asesame", "AUTH refused: WRONGPASS" },
        { "no password for the master", NULL, "?sentinel_password=open%40door", "NOAUTH" },
        { "a wrong password for the master", ":shut-sesame", "?sentinel_password=open%40door",
          "AUTH refused: WRONGPASS" },
        { "a wrong user for the master", "nobody:shut-sesame", "?sentinel_password=open%40door",
          "AUTH refused: WRONGPASS" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char url[400];
        print_message("    %s\n", rows[i].what);
        kept_forget();
        struct weir_store *store = watched_open(
            sentinel_group_url(&group, rows[i].login, rows[i].rest, url, sizeof url), PATIENT_MS);
        struct weir_spend spend = contract_gcra("login", 10, HOUR, 0);
        if (rows[i].refusal == NULL) {
            contract_await_answers(store);
            assert_true(contract_spend(store, &spend).allowed);
        } else {
            watched_wait_until_ready(store, false);
            kept_wait_for(rows[i].refusal);
        }
        assert_int_equal(kept_lines("sesame"), 0);
        assert_int_equal(kept_lines("door"), 0);
        assert_int_equal(kept_lines(""), rows[i].refusal != NULL);
        weir_store_free(store);
    }
    sentinel_group_remove(&group);
}

static void follows_with_both_passwords(void **state)
{
    (void)state;
    struct sentinel_group group = { .password = "open", .sentinel_password = "door" };
    sentinel_group_start(&group);
    char url[300];
    struct weir_store *store = watched_open(
        sentinel_group_url(&group, ":open", "/2?sentinel_password=door", url, sizeof url),
        PATIENT_MS);
    struct weir_spend spend = counter("both");
    for (int n = 0; n < 10; n++)
        assert_true(contract_spend(store, &spend).allowed);
    sentinel_group_replicate(&group);
    redis_server_kill(&group.servers[0]);
    size_t master = sentinel_group_wait_for_other(&group, 0);
    assert_in_range(watched_wait_for_server(store, group.servers[master].port), 0, recovery_us());
    assert_int_equal(spent(store, &spend), 10);
    weir_store_free(store);
    sentinel_group_remove(&group);
}

static void says_which_master_is_unknown(void **state)
{
    (void)state;
    struct sentinel_group group = { 0 };
    sentinel_group_start(&group);
    char url[300];
    snprintf(url, sizeof url, "redis+sentinel://%s/hermaster", group.places);
    kept_forget();
    struct weir_store *store = watched_open(url, PATIENT_MS);
    watched_wait_until_ready(store, false);
    kept_wait_for("know no master \"hermaster\"");
    assert_int_equal(kept_lines(""), 1);
    struct weir_store_state how;
    weir_store_state(store, &how);
    assert_non_null(strstr(how.why, "know no master \"hermaster\""));

    char words[100];
    snprintf(words, sizeof words, "SENTINEL MONITOR hermaster 127.0.0.1 %u 2",
             group.servers[0].port);
    freeReplyObject(sentinel_ask(&group, 2, words));
    watched_wait_for_server(store, group.servers[0].port);
    weir_store_free(store);
    sentinel_group_remove(&group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_master_and_its_database),
        cmocka_unit_test(finds_a_master_that_is_announced_by_name),
        cmocka_unit_test(follows_when_the_master_is_killed),
        cmocka_unit_test(follows_when_the_master_freezes),
        cmocka_unit_test(follows_when_the_master_is_replaced),
        cmocka_unit_test(counts_exactly_over_failovers),
        cmocka_unit_test(leaves_an_old_master_alone_when_it_comes_back),
        cmocka_unit_test(serves_on_without_sentinels),
        cmocka_unit_test(comes_back_to_a_master_without_sentinels),
        cmocka_unit_test(follows_though_its_sentinel_freezes),
        cmocka_unit_test(starts_before_sentinels_and_servers),
        cmocka_unit_test(enters_with_both_passwords),
        cmocka_unit_test(follows_with_both_passwords),
        cmocka_unit_test(says_which_master_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
