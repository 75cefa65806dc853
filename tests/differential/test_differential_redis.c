/* The Redis store against the model: many worlds at once over one connection, each at a time of its
 * own, on a server of its own. Each check is asked for several clients at once, which fare the same, so
 * that what comes together and goes to Redis as one call is held against the model too. */
#include "differential.h"

#include <pthread.h>
#include <stdatomic.h>

#include "redis_server.h"
#include "store/redis_internal.h"
#include "store/store.h"

/* How many worlds have a check under way, and for how many clients each. */
#define AT_ONCE 64
#define CLIENTS 3

static struct redis_server server;
static struct weir_store *store;

/* The store reads its clock once for each check that it sends, in the order in which they came, so
 * that each can be told the time of its world. */
static struct {
    pthread_mutex_t mutex;
    uint64_t us[AT_ONCE * CLIENTS];
    size_t put;
    size_t taken;
} times = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void put_time(uint64_t us)
{
    pthread_mutex_lock(&times.mutex);
    times.us[times.put++ % COUNT_OF(times.us)] = us;
    pthread_mutex_unlock(&times.mutex);
}

static uint64_t take_time(void *self)
{
    (void)self;
    pthread_mutex_lock(&times.mutex);
    uint64_t us = times.us[times.taken++ % COUNT_OF(times.us)];
    pthread_mutex_unlock(&times.mutex);
    return us;
}

/* the clients of a world: the first has the keys that the world says, the others their own */

struct client {
    struct weir_check check;
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    struct weir_answer answers[WEIR_CHECK_LIMITS];
    char keys[WEIR_CHECK_LIMITS][WEIR_KEY_MAX];
};

struct clients {
    struct world *world;
    _Atomic size_t left; /* that have no answer yet */
    struct client at[CLIENTS];
};

static void open_world(struct world *world)
{
    struct clients *clients = calloc(1, sizeof *clients);
    assert_non_null(clients);
    clients->world = world;
    world->store = clients;
}

static void close_world(struct world *world)
{
    free(world->store);
    world->store = NULL;
}

static bool is_same(const struct client *client, const struct client *other)
{
    const struct weir_check *check = &client->check;
    if (check->result != other->check.result || strcmp(check->why, other->check.why) != 0)
        return false;
    bool has_answers = check->result == WEIR_STORE_ANSWERED && check->operation == WEIR_SPEND;
    for (size_t i = 0; has_answers && i < check->count; i++) {
        const struct weir_answer *one = &client->answers[i], *two = &other->answers[i];
        if (one->allowed != two->allowed || one->impossible != two->impossible
            || one->remaining != two->remaining || one->retry_us != two->retry_us
            || one->reset_us != two->reset_us || one->wait_us != two->wait_us)
            return false;
    }
    return !has_answers || check->now_us == other->check.now_us;
}

/* The world hears what the first one heard, if all heard the same. */
static void tell_world(struct clients *clients)
{
    struct weir_check *check = &clients->world->check;
    const struct client *first = &clients->at[0];
    check->result = first->check.result;
    check->now_us = first->check.now_us;
    memcpy(check->why, first->check.why, sizeof check->why);
    memcpy(check->answers, first->answers, check->count * sizeof *check->answers);
    for (size_t i = 1; i < CLIENTS; i++)
        if (!is_same(first, &clients->at[i])) {
            check->result = WEIR_STORE_ERROR;
            snprintf(check->why, sizeof check->why, "another client was answered otherwise");
        }
    check->done(check);
}

static void on_client_done(struct weir_check *check)
{
    struct clients *clients = check->owner;
    if (--clients->left == 0)
        tell_world(clients);
}

static void set_up(struct client *client, const struct clients *clients, size_t number)
{
    const struct weir_check *check = &clients->world->check;
    client->check = *check;
    client->check.spends = client->spends;
    client->check.answers = client->answers;
    client->check.done = on_client_done;
    memset(client->answers, 0, sizeof client->answers);
    for (size_t i = 0; i < check->count; i++) {
        struct weir_spend *spend = &client->spends[i];
        *spend = check->spends[i];
        if (number == 0)
            continue;
        client->keys[i][0] = (char)('0' + number);
        assert_true(spend->key_length < WEIR_KEY_MAX);
        memcpy(client->keys[i] + 1, spend->key, spend->key_length);
        spend->key = client->keys[i];
        spend->key_length++;
        spend->group_length += spend->group_length > 0;
    }
}

static void submit(struct world *world)
{
    struct clients *clients = world->store;
    clients->left = CLIENTS;
    for (size_t i = 0; i < CLIENTS; i++) {
        set_up(&clients->at[i], clients, i);
        clients->at[i].check.owner = clients;
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        put_time(world->told_us);
        store->type->submit(store->self, &clients->at[i].check);
    }
}

int main(void)
{
    redis_server_prepare(&server);
    redis_server_start(&server);
    struct weir_error error = WEIR_NO_ERROR;
    const struct weir_clock clock = { .now_us = take_time };
    enum weir_code code = weir_store_new_redis_by(
        server.url, WEIR_STORE_OPTIONS(.timeout_ms = 20000), &clock, &store, &error);
    assert_int_equal(code, WEIR_OK);

    int failed = differential_run(&(const struct differential){
        .name = "redis store",
        .steps = 350000, /* for each client */
        .at_once = AT_ONCE,
        .believes_steps_back = true,
        .open = open_world,
        .close = close_world,
        .submit = submit,
    });
    /* Were it read more often, checks would have been given each other's times. */
    assert_int_equal(times.taken, times.put);
    redisReply *stats = redis_server_ask(&server, "INFO commandstats");
    const char *calls = strstr(stats->str, "cmdstat_evalsha:calls=");
    if (calls != NULL)
        print_message("%zu checks in %lu calls\n", times.put, strtoul(calls + 22, NULL, 10));
    freeReplyObject(stats);
    weir_store_free(store);
    redis_server_remove(&server);
    return failed;
}
