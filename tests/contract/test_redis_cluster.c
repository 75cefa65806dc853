/* The Redis store on a cluster whose nodes are killed, stopped, moved from and emptied. */
#include "contract.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "kept_log.h"
#include "redis_cluster.h"
#include "store/redis_slot.h"
#include "store/store.h"

#define SECOND UINT64_C(1000000)
#define HOUR   (3600 * SECOND)
#define YEAR   (366 * 24 * HOUR)

/* For tests in which Redis answers, however busy the machine is; for those in which somebody is to
 * be silent; and in between, where both happen. */
#define PATIENT_MS 5000
#define SHORT_MS   200
#define STEADY_MS  1500

/* A node that is silent for so long is replaced: longer than a busy machine keeps one waiting, and
 * than it takes the store to see that one is silent. */
#define NODE_TIMEOUT_MS 2000

/* The store has found the way so soon after there is one; on a busy machine it may fail a try or
 * two before (WEIR_STRICT). */
static uint64_t return_us(void)
{
    return getenv("WEIR_STRICT") != NULL ? 2 * SECOND : 30 * SECOND;
}

static struct redis_cluster cluster = { .node_timeout_ms = NODE_TIMEOUT_MS };

static void pause_a_moment(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* Looks again and again, up to a minute. */
#define wait_until(condition)                                                                      \
    do {                                                                                           \
        uint64_t since_us = weir_monotonic_us();                                                   \
        while (!(condition)) {                                                                     \
            assert_true(weir_monotonic_us() - since_us < 60 * SECOND);                             \
            pause_a_moment();                                                                      \
        }                                                                                          \
    } while (0)

/* keys: a shard is a third of the slots, whichever node serves it */

static size_t shard_of(struct weir_text key)
{
    return (weir_redis_slot(key) * 3 + 2) / WEIR_REDIS_SLOTS;
}

static unsigned first_slot_of(size_t shard)
{
    return (unsigned)(shard * WEIR_REDIS_SLOTS / 3);
}

/* A limit with a key of its own in that shard. */
static struct weir_spend spend_in(size_t shard, const char *name, uint64_t limit)
{
    for (;;) {
        struct weir_spend spend = contract_gcra(name, limit, YEAR, 0);
        if (shard_of((struct weir_text){ spend.key, spend.key_length }) == shard)
            return spend;
    }
}

static unsigned slot_of(const struct weir_spend *spend)
{
    return weir_redis_slot((struct weir_text){ spend->key, spend->key_length });
}

static size_t master_of(const struct weir_spend *spend)
{
    return redis_cluster_master_of(&cluster, slot_of(spend));
}

/* stores */

static struct weir_store *open_at(const char *url, uint32_t timeout_ms)
{
    const struct weir_store_options *options =
        WEIR_STORE_OPTIONS(.timeout_ms = timeout_ms, .log = kept_log());
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_store_open(url, options, &store, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(code, WEIR_OK);
    return store;
}

/* What the last check was answered that asked() asked. */
static struct weir_answer answered;

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

static uint64_t left_of(struct weir_store *store, const struct weir_spend *spend)
{
    struct weir_spend look = look_at(spend);
    return contract_spend(store, &look).remaining;
}

/* Whether all three shards answer. */
static bool answers(struct weir_store *store)
{
    static struct weir_spend looks[3];
    for (size_t shard = 0; shard < 3; shard++) {
        if (looks[shard].key == NULL) {
            struct weir_spend spend = spend_in(shard, "answers", 1);
            looks[shard] = look_at(&spend);
        }
        if (result_of(store, &looks[shard]) != WEIR_STORE_ANSWERED)
            return false;
    }
    return true;
}

static bool is_answering(struct weir_store *store)
{
    struct weir_store_state how;
    weir_store_state(store, &how);
    return how.answering;
}

/* A store that has answered already for every shard. */
static struct weir_store *open_answering(uint32_t timeout_ms)
{
    struct weir_store *store = open_at(cluster.url, timeout_ms);
    wait_until(answers(store));
    kept_forget();
    return store;
}

static uint64_t time_until_answered(struct weir_store *store, const struct weir_spend *spend)
{
    struct weir_spend look = look_at(spend);
    uint64_t start_us = weir_monotonic_us();
    wait_until(result_of(store, &look) == WEIR_STORE_ANSWERED);
    return weir_monotonic_us() - start_us;
}

/* steady checks beside the test */

struct load {
    pthread_t thread;
    struct weir_store *store;
    struct weir_spend spend;
    _Atomic bool stops;
    _Atomic unsigned allowed;
    _Atomic unsigned results[WEIR_STORE_CANCELLED + 1];
};

static void *ask_steadily(void *self)
{
    struct load *load = self;
    while (!load->stops) {
        struct weir_answer answer = { .allowed = false };
        struct weir_check check = { .spends = &load->spend, .answers = &answer, .count = 1 };
        contract_submit(load->store, &check);
        load->results[check.result]++;
        load->allowed += check.result == WEIR_STORE_ANSWERED && answer.allowed;
        pause_a_moment();
    }
    return NULL;
}

static void begin_load(struct load *load, struct weir_store *store, struct weir_spend spend)
{
    memset(load, 0, sizeof *load);
    load->store = store;
    load->spend = spend;
    assert_int_equal(pthread_create(&load->thread, NULL, ask_steadily, load), 0);
    wait_until(load->allowed > 3);
}

static void end_load(struct load *load)
{
    unsigned before = load->allowed;
    wait_until(load->allowed > before + 3);
    load->stops = true;
    pthread_join(load->thread, NULL);
}

static unsigned failures_of(const struct load *load)
{
    unsigned failures = 0;
    for (size_t i = 0; i < COUNT_OF(load->results); i++)
        failures += i == WEIR_STORE_ANSWERED ? 0 : load->results[i];
    return failures;
}

/* finding the way */

static void finds_the_cluster_from_any_of_its_nodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++) {
        char url[60];
        snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%u", cluster.nodes[i].port);
        struct weir_store *store = open_at(url, PATIENT_MS);
        assert_true(answers(store));
        struct weir_store_state how;
        weir_store_state(store, &how);
        assert_true(how.answering);
        assert_string_equal(how.why, "");
        weir_store_free(store);
    }
}

static void finds_the_cluster_though_some_places_are_dead(void **state)
{
    (void)state;
    struct redis_server nobody = { .pid = 0 };
    char url[200];
    redis_server_prepare(&nobody);
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%u,localhost:%u,127.0.0.1:%u", nobody.port,
             nobody.port, cluster.nodes[4].port);
    struct weir_store *store = open_at(url, PATIENT_MS);
    wait_until(answers(store));
    weir_store_free(store);
    redis_server_remove(&nobody);
}

static void follows_a_slot_that_has_moved(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(PATIENT_MS);
    struct weir_spend spend = spend_in(0, "moved", 10);
    size_t old = master_of(&spend), new = redis_cluster_master_of(&cluster, first_slot_of(1));
    assert_int_equal(contract_spend(store, &spend).remaining, 9);
    redis_cluster_begin_move(&cluster, slot_of(&spend), new);
    redis_cluster_move_keys(&cluster, slot_of(&spend), new);
    redis_cluster_end_move(&cluster, slot_of(&spend), new);

    unsigned long long errors = redis_cluster_errors(&cluster, old, "MOVED");
    assert_int_equal(contract_spend(store, &spend).remaining, 8);
    assert_int_equal(redis_cluster_errors(&cluster, old, "MOVED"), errors + 1);
    /* From now on it is asked for where it is. */
    for (int n = 0; n < 5; n++)
        contract_spend(store, &spend);
    unsigned long long learnt = redis_cluster_errors(&cluster, old, "MOVED");
    assert_int_equal(contract_spend(store, &spend).remaining, 2);
    assert_int_equal(redis_cluster_errors(&cluster, old, "MOVED"), learnt);

    redis_cluster_begin_move(&cluster, slot_of(&spend), old);
    redis_cluster_move_keys(&cluster, slot_of(&spend), old);
    redis_cluster_end_move(&cluster, slot_of(&spend), old);
    assert_int_equal(contract_spend(store, &spend).remaining, 1);
    assert_int_equal(kept_lines(""), 0);
    weir_store_free(store);
}

/* Two limits of one slot, each with a key of its own. */
static void make_pair(struct weir_spend pair[2], const char *name, size_t shard)
{
    static char keys[8][2][64];
    static size_t count;
    assert_true(count < COUNT_OF(keys));
    struct weir_spend tag = spend_in(shard, name, 1);
    for (size_t i = 0; i < 2; i++) {
        snprintf(keys[count][i], sizeof keys[count][i], "{%.*s}%zu", (int)tag.key_length, tag.key,
                 i);
        pair[i] = contract_gcra(name, 100, YEAR, 0);
        pair[i].key = keys[count][i];
        pair[i].key_length = strlen(keys[count][i]);
    }
    count++;
}

static void asks_where_a_key_is_while_its_slot_moves(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(PATIENT_MS);
    struct weir_spend pair[2];
    make_pair(pair, "ask", 0);
    unsigned slot = slot_of(&pair[0]);
    size_t old = master_of(&pair[0]), new = redis_cluster_master_of(&cluster, first_slot_of(2));
    assert_int_equal(contract_spend(store, &pair[0]).remaining, 99);

    redis_cluster_begin_move(&cluster, slot, new);
    redis_server_do(&cluster.nodes[new], "SCRIPT FLUSH");
    assert_int_equal(contract_spend(store, &pair[0]).remaining, 98); /* is still there */
    assert_int_equal(contract_spend(store, &pair[1]).remaining, 99); /* is begun anew  */
    assert_int_equal(contract_spend(store, &pair[1]).remaining, 98);
    redis_cluster_move_keys(&cluster, slot, new);
    assert_int_equal(contract_spend(store, &pair[0]).remaining, 97);
    assert_int_equal(contract_spend(store, &pair[1]).remaining, 97);
    assert_true(redis_cluster_errors(&cluster, old, "ASK") >= 4);
    redis_cluster_end_move(&cluster, slot, new);
    assert_int_equal(contract_spend(store, &pair[0]).remaining, 96);
    assert_int_equal(contract_spend(store, &pair[1]).remaining, 96);

    redis_cluster_begin_move(&cluster, slot, old);
    redis_cluster_move_keys(&cluster, slot, old);
    redis_cluster_end_move(&cluster, slot, old);
    weir_store_free(store);
}

/* Of two keys of one slot only one has moved: neither node can decide. */
static void tries_again_while_keys_are_apart(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(PATIENT_MS);
    struct contract_plan plan = { .check.count = 2 };
    make_pair(plan.spends, "apart", 0);
    unsigned slot = slot_of(&plan.spends[0]);
    size_t old = master_of(&plan.spends[0]);
    size_t new = redis_cluster_master_of(&cluster, first_slot_of(1));
    assert_true(contract_spend(store, &plan.spends[0]).allowed);

    redis_cluster_begin_move(&cluster, slot, new);
    unsigned long long errors = redis_cluster_errors(&cluster, old, "TRYAGAIN");
    contract_submit_plan(store, &plan);
    assert_int_equal(plan.check.result, WEIR_STORE_ERROR);
    assert_memory_equal(plan.check.why, "TRYAGAIN", 8);
    assert_true(redis_cluster_errors(&cluster, old, "TRYAGAIN") > errors + 2);

    redis_cluster_move_keys(&cluster, slot, new);
    redis_cluster_end_move(&cluster, slot, new);
    contract_submit_plan(store, &plan);
    assert_int_equal(plan.check.result, WEIR_STORE_ANSWERED);
    assert_int_equal(plan.answers[0].remaining, 98);
    assert_int_equal(plan.answers[1].remaining, 99);

    redis_cluster_begin_move(&cluster, slot, old);
    redis_cluster_move_keys(&cluster, slot, old);
    redis_cluster_end_move(&cluster, slot, old);
    weir_store_free(store);
}

static void counts_exactly_while_slots_move(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(PATIENT_MS);
    struct load loads[6];
    size_t there = redis_cluster_master_of(&cluster, first_slot_of(1));
    for (size_t i = 0; i < COUNT_OF(loads); i++)
        begin_load(&loads[i], store, spend_in(0, "moving", 1000000));
    size_t here = master_of(&loads[0].spend);
    for (int round = 0; round < 5; round++)
        for (size_t i = 0; i < COUNT_OF(loads); i++) {
            size_t to = round % 2 == 0 ? there : here;
            unsigned slot = slot_of(&loads[i].spend);
            redis_cluster_begin_move(&cluster, slot, to);
            redis_cluster_move_keys(&cluster, slot, to);
            redis_cluster_end_move(&cluster, slot, to);
        }
    for (size_t i = 0; i < COUNT_OF(loads); i++) {
        end_load(&loads[i]);
        assert_int_equal(failures_of(&loads[i]), 0);
        assert_int_equal(left_of(store, &loads[i].spend) + loads[i].allowed, 1000000);
        redis_cluster_begin_move(&cluster, slot_of(&loads[i].spend), here);
        redis_cluster_move_keys(&cluster, slot_of(&loads[i].spend), here);
        redis_cluster_end_move(&cluster, slot_of(&loads[i].spend), here);
    }
    assert_int_equal(kept_lines(""), 0);
    weir_store_free(store);
}

/* nodes go, and others take over */

static void goes_on_while_a_node_is_killed_and_replaced(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(PATIENT_MS);
    struct weir_spend spend = spend_in(0, "killed", 1000);
    struct load others[2];
    for (size_t i = 0; i < 2; i++)
        begin_load(&others[i], store, spend_in(i + 1, "beside", 1000000));
    size_t old = master_of(&spend);
    for (unsigned n = 1; n <= 7; n++)
        assert_int_equal(contract_spend(store, &spend).remaining, 1000 - n);
    redis_cluster_replicate(&cluster, old);

    redis_server_kill(&cluster.nodes[old]);
    struct weir_spend look = look_at(&spend);
    wait_until(result_of(store, &look) == WEIR_STORE_UNAVAILABLE);
    assert_true(weir_store_ready(store));
    struct weir_store_state how;
    weir_store_state(store, &how);
    assert_false(how.answering);
    assert_int_not_equal(how.breaker, WEIR_BREAKER_CLOSED);
    assert_true(how.retry_us >= SECOND && how.retry_us <= 10 * SECOND);
    char place[32];
    snprintf(place, sizeof place, "127.0.0.1:%u", cluster.nodes[old].port);
    assert_non_null(strstr(how.why, place));

    redis_cluster_wait_for_other(&cluster, slot_of(&spend), old);
    assert_in_range(time_until_answered(store, &spend), 0, return_us());
    assert_int_equal(left_of(store, &spend), 993);
    wait_until(answers(store));
    wait_until(is_answering(store));
    for (size_t i = 0; i < 2; i++) {
        end_load(&others[i]);
        assert_int_equal(failures_of(&others[i]), 0);
        assert_int_equal(left_of(store, &others[i].spend) + others[i].allowed, 1000000);
    }
    assert_int_equal(kept_lines("is not answering ("), 1);
    assert_int_equal(kept_lines("has taken over from "), 1);
    assert_int_equal(kept_lines(""), 2);
    weir_store_free(store);
    redis_cluster_heal(&cluster);
}

static void goes_on_while_a_node_is_silent_and_replaced(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(SHORT_MS);
    struct weir_spend spend = spend_in(1, "silent", 1000), beside = spend_in(2, "beside", 1000000);
    size_t old = master_of(&spend);
    wait_until(result_of(store, &spend) == WEIR_STORE_ANSWERED);
    redis_cluster_replicate(&cluster, old);

    redis_cluster_freeze(&cluster, old);
    struct weir_check check;
    wait_until((check = asked(store, &spend)).result != WEIR_STORE_TIMEOUT);
    assert_int_equal(check.result, WEIR_STORE_UNAVAILABLE);
    wait_until(result_of(store, &beside) == WEIR_STORE_ANSWERED);

    redis_cluster_wait_for_other(&cluster, slot_of(&spend), old);
    assert_in_range(time_until_answered(store, &spend), 0, return_us());
    wait_until(result_of(store, &spend) == WEIR_STORE_ANSWERED);
    assert_true(answered.remaining <= 998);
    redis_cluster_heal(&cluster);
    /* The old one is back, and is nobody's master. */
    wait_until(result_of(store, &spend) == WEIR_STORE_ANSWERED);
    weir_store_free(store);
}

/* Checks have waited for a connection that never stood, and have ended there. */
static void forgets_a_node_that_was_silent_from_the_start(void **state)
{
    (void)state;
    struct weir_spend spend = spend_in(0, "start", 1000);
    size_t old = master_of(&spend);
    redis_cluster_freeze(&cluster, old);
    char url[60];
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%u",
             cluster.nodes[redis_cluster_master_of(&cluster, first_slot_of(1))].port);
    struct weir_store *store = open_at(url, SHORT_MS);
    wait_until(result_of(store, &spend) == WEIR_STORE_UNAVAILABLE);
    redis_cluster_wait_for_other(&cluster, slot_of(&spend), old);
    time_until_answered(store, &spend);
    wait_until(is_answering(store));
    assert_int_equal(kept_lines("has taken over from "), 1);
    weir_store_free(store);
    redis_cluster_heal(&cluster);
}

/* Redis holds clients up for a moment, and hands over all it has; but masters vote for one replica
 * of a shard in two timeouts of theirs, and a try without votes holds clients up for nothing. */
static void loses_nothing_when_a_replica_takes_over_as_planned(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(6 * PATIENT_MS);
    struct load loads[3];
    for (size_t i = 0; i < 3; i++)
        begin_load(&loads[i], store, spend_in(2, "planned", 1000000));
    unsigned slot = slot_of(&loads[0].spend);
    for (int round = 0; round < 2; round++) {
        redis_cluster_fail_over(&cluster, slot);
        for (size_t i = 0; i < 3; i++) {
            unsigned before = loads[i].allowed;
            wait_until(loads[i].allowed > before + 5);
        }
        redis_cluster_heal(&cluster); /* it waits until the old one follows */
    }
    for (size_t i = 0; i < 3; i++) {
        end_load(&loads[i]);
        assert_int_equal(failures_of(&loads[i]), 0);
        assert_int_equal(left_of(store, &loads[i].spend) + loads[i].allowed, 1000000);
    }
    weir_store_free(store);
}

static void comes_back_when_the_whole_cluster_does(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(PATIENT_MS);
    struct weir_spend spends[3];
    for (size_t i = 0; i < 3; i++)
        spends[i] = spend_in(i, "all", 10);
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
        redis_server_kill(&cluster.nodes[i]);
    wait_until(!weir_store_ready(store));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(result_of(store, &spends[i]), WEIR_STORE_UNAVAILABLE);
    struct weir_store_state how;
    weir_store_state(store, &how);
    assert_false(how.answering);
    assert_true(how.why[0] != '\0');

    redis_cluster_heal(&cluster);
    for (size_t i = 0; i < 3; i++)
        assert_in_range(time_until_answered(store, &spends[i]), 0, return_us());
    wait_until(answers(store));
    wait_until(is_answering(store));
    weir_store_free(store);
}

static void starts_while_the_cluster_is_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
        redis_server_kill(&cluster.nodes[i]);
    struct weir_store *store = open_at(cluster.url, PATIENT_MS);
    wait_until(!weir_store_ready(store));
    struct weir_spend spend = spend_in(0, "start", 10);
    assert_int_equal(result_of(store, &spend), WEIR_STORE_UNAVAILABLE);
    redis_cluster_heal(&cluster);
    assert_in_range(time_until_answered(store, &spend), 0, return_us());
    wait_until(answers(store));
    weir_store_free(store);
}

static void starts_afresh_when_all_is_flushed(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(PATIENT_MS);
    for (size_t i = 0; i < 3; i++) {
        struct weir_spend spend = spend_in(i, "flushed", 10);
        size_t master = master_of(&spend);
        assert_int_equal(contract_spend(store, &spend).remaining, 9);
        redis_server_do(&cluster.nodes[master], "SCRIPT FLUSH");
        assert_int_equal(contract_spend(store, &spend).remaining, 8);
        redis_server_do(&cluster.nodes[master], "FLUSHALL");
        assert_int_equal(contract_spend(store, &spend).remaining, 9);
    }
    weir_store_free(store);
}

/* what the cluster says */

/* Where the cluster stops as a whole, its nodes say that of every key. */
static void says_that_nobody_serves_a_slot(void **state)
{
    (void)state;
    static const char *const stops[] = { "no", "yes" };
    for (size_t i = 0; i < 2; i++) {
        struct weir_store *store = open_answering(PATIENT_MS);
        struct weir_spend spend = spend_in(0, "unserved", 10), other = spend_in(0, "served", 10);
        size_t master = master_of(&spend);
        assert_int_not_equal(slot_of(&spend), slot_of(&other));
        redis_cluster_tell_all(&cluster, "CONFIG SET cluster-require-full-coverage %s", stops[i]);
        redis_server_do(&cluster.nodes[master], "CLUSTER DELSLOTS %u", slot_of(&spend));
        struct weir_check check = asked(store, &spend);
        assert_int_equal(check.result, WEIR_STORE_ERROR);
        assert_string_equal(check.why, "CLUSTERDOWN Hash slot not served");
        check = asked(store, &other);
        assert_int_equal(check.result, i == 0 ? WEIR_STORE_ANSWERED : WEIR_STORE_ERROR);
        assert_string_equal(check.why, i == 0 ? "" : "CLUSTERDOWN The cluster is down");

        redis_server_do(&cluster.nodes[master], "CLUSTER ADDSLOTS %u", slot_of(&spend));
        time_until_answered(store, &spend);
        wait_until(answers(store));
        weir_store_free(store);
    }
    redis_cluster_tell_all(&cluster, "CONFIG SET cluster-require-full-coverage %s", "no");
}

static void says_that_a_server_is_no_cluster(void **state)
{
    (void)state;
    struct redis_server plain = { .pid = 0 };
    redis_server_prepare(&plain);
    redis_server_start(&plain);
    char url[60];
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%u", plain.port);
    kept_forget();
    struct weir_store *store = open_at(url, PATIENT_MS);
    wait_until(!weir_store_ready(store));
    struct weir_store_state how;
    weir_store_state(store, &how);
    assert_non_null(strstr(how.why, "it belongs to no cluster: its URL begins with redis://"));
    assert_int_equal(kept_lines("it belongs to no cluster: its URL begins with redis://"), 1);
    weir_store_free(store);
    redis_server_remove(&plain);
}

static void says_that_a_node_is_no_plain_server(void **state)
{
    (void)state;
    struct weir_store *store = open_at(cluster.nodes[0].tcp_url, PATIENT_MS);
    unsigned errors = 0;
    for (size_t i = 0; i < 3; i++) {
        struct weir_spend spend = spend_in(i, "plain", 10);
        struct weir_check check = asked(store, &spend);
        if (check.result == WEIR_STORE_ANSWERED)
            continue;
        errors++;
        assert_non_null(strstr(check.why, "redis+cluster://"));
    }
    assert_true(errors >= 2);
    assert_int_equal(kept_lines("is a node of a cluster, and refuses the keys"), 1);
    weir_store_free(store);
}

static void ask_with(const char *password)
{
    for (size_t i = 0; i < REDIS_CLUSTER_NODES; i++)
        cluster.nodes[i].password = password;
}

static void enters_every_node_with_the_password(void **state)
{
    (void)state;
    redis_cluster_tell_all(&cluster, "CONFIG SET masterauth %s", "geheim");
    redis_cluster_tell_all(&cluster, "CONFIG SET requirepass %s", "geheim");
    ask_with("geheim");
    char url[200];
    snprintf(url, sizeof url, "redis+cluster://:geheim@%s", cluster.places);
    struct weir_store *store = open_at(url, PATIENT_MS);
    wait_until(answers(store));
    weir_store_free(store);

    kept_forget();
    snprintf(url, sizeof url, "redis+cluster://:falsch@%s", cluster.places);
    store = open_at(url, PATIENT_MS);
    wait_until(!weir_store_ready(store));
    kept_wait_for("AUTH refused: WRONGPASS");
    assert_int_equal(kept_lines("falsch") + kept_lines("geheim"), 0);
    weir_store_free(store);

    redis_cluster_tell_all(&cluster, "CONFIG SET requirepass %s", "");
    ask_with(NULL);
    redis_cluster_tell_all(&cluster, "CONFIG SET masterauth %s", "");
}

static void says_that_it_may_not_ask_for_the_slots(void **state)
{
    (void)state;
    redis_cluster_tell_all(&cluster, "ACL SETUSER few on >few ~* +@all -%s", "cluster");
    char url[200];
    snprintf(url, sizeof url, "redis+cluster://few:few@%s", cluster.places);
    kept_forget();
    struct weir_store *store = open_at(url, PATIENT_MS);
    wait_until(!weir_store_ready(store));
    kept_wait_for("NOPERM");
    weir_store_free(store);
    redis_cluster_tell_all(&cluster, "ACL DELUSER %s", "few");
}

/* A client goes by what each node is told to be called. */
static void goes_to_nodes_by_what_they_call_themselves(void **state)
{
    (void)state;
    static const char *const ways[] = { "hostname", "unknown-endpoint" };
    redis_cluster_tell_all(&cluster, "CONFIG SET cluster-announce-hostname %s", "localhost");
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        redis_cluster_tell_all(&cluster, "CONFIG SET cluster-preferred-endpoint-type %s", ways[i]);
        struct weir_store *store = open_answering(PATIENT_MS);
        struct weir_spend spend = spend_in(0, "called", 10);
        size_t old = master_of(&spend), new = redis_cluster_master_of(&cluster, first_slot_of(1));
        assert_true(contract_spend(store, &spend).allowed);
        size_t ends[] = { new, old };
        for (size_t n = 0; n < 2; n++) {
            redis_cluster_begin_move(&cluster, slot_of(&spend), ends[n]);
            redis_cluster_move_keys(&cluster, slot_of(&spend), ends[n]);
            assert_int_equal(contract_spend(store, &spend).remaining, 8 - 2 * n);
            redis_cluster_end_move(&cluster, slot_of(&spend), ends[n]);
            assert_int_equal(contract_spend(store, &spend).remaining, 7 - 2 * n);
        }
        weir_store_free(store);
    }
    redis_cluster_tell_all(&cluster, "CONFIG SET cluster-preferred-endpoint-type %s", "ip");
    redis_cluster_tell_all(&cluster, "CONFIG SET cluster-announce-hostname %s", "");
}

/* checks over several slots */

static struct contract_plan plan_over(const char *name, uint64_t limit_0, uint64_t limit_1,
                                      uint64_t limit_2)
{
    return (struct contract_plan){ .spends = { spend_in(0, name, limit_0),
                                               spend_in(1, name, limit_1),
                                               spend_in(2, name, limit_2) },
                                   .check.count = 3 };
}

static void takes_all_or_nothing_over_several_nodes(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(PATIENT_MS);
    struct contract_plan plan = plan_over("saga", 10, 10, 3);
    for (uint64_t n = 1; n <= 3; n++) {
        contract_submit_plan(store, &plan);
        assert_int_equal(plan.check.result, WEIR_STORE_ANSWERED);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(plan.answers[i].remaining, plan.spends[i].rate.limit - n);
    }
    for (int n = 0; n < 10; n++) {
        contract_submit_plan(store, &plan);
        assert_int_equal(plan.check.result, WEIR_STORE_ANSWERED);
        assert_false(plan.answers[2].allowed);
        assert_true(plan.answers[2].retry_us > 0);
        assert_int_equal(plan.answers[0].remaining, 7);
        assert_int_equal(plan.answers[1].remaining, 7);
    }
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(left_of(store, &plan.spends[i]), i == 2 ? 0 : 7);
    weir_store_free(store);
}

/* Each entry of a log is found by the time at which its own server has made it. */
static void settles_what_several_nodes_have_counted(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(PATIENT_MS);
    struct contract_plan plan = plan_over("settled", 10, 10, 10);
    plan.check.wants_time = true;
    plan.spends[0].algorithm = plan.spends[1].algorithm = WEIR_SLIDING_LOG;
    plan.spends[2].algorithm = WEIR_FIXED_WINDOW;
    plan.spends[2].from_first = true;
    for (size_t i = 0; i < 3; i++)
        plan.spends[i].cost = 4;
    contract_submit_plan(store, &plan);
    assert_int_equal(plan.check.result, WEIR_STORE_ANSWERED);
    for (size_t i = 0; i < 3; i++) {
        plan.spends[i].reserved = 4;
        plan.spends[i].cost = 1;
        plan.spends[i].decided_us = plan.check.now_us + plan.answers[i].after_us;
        plan.spends[i].full_us = plan.spends[i].decided_us + plan.answers[i].reset_us;
    }
    plan.check.operation = WEIR_SETTLE;
    contract_submit_plan(store, &plan);
    assert_int_equal(plan.check.result, WEIR_STORE_ANSWERED);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(left_of(store, &plan.spends[i]), 9);
    weir_store_free(store);
}

static void gives_back_when_a_later_node_is_silent(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(STEADY_MS);
    struct contract_plan plan = plan_over("half", 10, 10, 10);
    size_t last = master_of(&plan.spends[2]);
    redis_cluster_freeze(&cluster, last);
    contract_submit_plan(store, &plan);
    assert_int_not_equal(plan.check.result, WEIR_STORE_ANSWERED);
    struct weir_spend look = look_at(&plan.spends[0]);
    wait_until(result_of(store, &look) == WEIR_STORE_ANSWERED && answered.remaining == 10);
    look = look_at(&plan.spends[1]);
    wait_until(result_of(store, &look) == WEIR_STORE_ANSWERED && answered.remaining == 10);
    weir_store_free(store);
    redis_cluster_heal(&cluster);
    wait_until(redis_cluster_is_well(&cluster));
}

/* checks that nobody waits for */

struct single {
    struct contract_plan plan;
    _Atomic unsigned done;
};

static void on_single_done(struct weir_check *check)
{
    struct single *single = check->owner;
    single->done++;
}

static void submit_single(struct weir_store *store, struct single *single,
                          const struct contract_plan *plan)
{
    single->plan = *plan;
    single->done = 0;
    single->plan.check.spends = single->plan.spends;
    single->plan.check.answers = single->plan.answers;
    single->plan.check.done = on_single_done;
    single->plan.check.owner = single;
    store->type->submit(store->self, &single->plan.check);
}

static void ends_what_is_cancelled_or_left_over(void **state)
{
    (void)state;
    struct weir_store *store = open_answering(PATIENT_MS);
    struct contract_plan plan = plan_over("cancel", 10, 10, 10);
    struct contract_plan lone = { .spends = { spend_in(2, "cancel", 10) }, .check.count = 1 };
    struct single cancelled[2], left[2];
    redis_cluster_freeze(&cluster, master_of(&lone.spends[0]));
    for (size_t i = 0; i < 2; i++) {
        submit_single(store, &cancelled[i], i == 0 ? &plan : &lone);
        submit_single(store, &left[i], i == 0 ? &plan : &lone);
    }
    for (size_t i = 0; i < 2; i++) {
        store->type->cancel(store->self, &cancelled[i].plan.check);
        assert_int_equal(cancelled[i].done, 1);
        assert_int_equal(cancelled[i].plan.check.result, WEIR_STORE_CANCELLED);
        assert_int_equal(left[i].done, 0);
    }
    weir_store_free(store);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(left[i].done, 1);
        assert_int_equal(left[i].plan.check.result, WEIR_STORE_CANCELLED);
    }
    redis_cluster_heal(&cluster);
}

static int start_cluster(void **state)
{
    (void)state;
    redis_cluster_start(&cluster);
    return 0;
}

static int remove_cluster(void **state)
{
    (void)state;
    redis_cluster_remove(&cluster);
    return 0;
}

static int heal_cluster(void **state)
{
    (void)state;
    redis_cluster_heal(&cluster);
    kept_forget();
    return 0;
}

int main(void)
{
#define FAULT(name) cmocka_unit_test_setup(name, heal_cluster)
    const struct CMUnitTest tests[] = {
        FAULT(finds_the_cluster_from_any_of_its_nodes),
        FAULT(finds_the_cluster_though_some_places_are_dead),
        FAULT(follows_a_slot_that_has_moved),
        FAULT(asks_where_a_key_is_while_its_slot_moves),
        FAULT(tries_again_while_keys_are_apart),
        FAULT(counts_exactly_while_slots_move),
        FAULT(goes_to_nodes_by_what_they_call_themselves),
        FAULT(takes_all_or_nothing_over_several_nodes),
        FAULT(settles_what_several_nodes_have_counted),
        FAULT(starts_afresh_when_all_is_flushed),
        FAULT(says_that_nobody_serves_a_slot),
        FAULT(says_that_a_server_is_no_cluster),
        FAULT(says_that_a_node_is_no_plain_server),
        FAULT(enters_every_node_with_the_password),
        FAULT(says_that_it_may_not_ask_for_the_slots),
        FAULT(ends_what_is_cancelled_or_left_over),
        FAULT(gives_back_when_a_later_node_is_silent),
        FAULT(loses_nothing_when_a_replica_takes_over_as_planned),
        FAULT(goes_on_while_a_node_is_killed_and_replaced),
        FAULT(goes_on_while_a_node_is_silent_and_replaced),
        FAULT(forgets_a_node_that_was_silent_from_the_start),
        FAULT(comes_back_when_the_whole_cluster_does),
        FAULT(starts_while_the_cluster_is_down),
    };
    return cmocka_run_group_tests(tests, start_cluster, remove_cluster);
}
