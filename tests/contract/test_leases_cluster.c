/* Leases on a real Redis Cluster: several limiters and several keys, in the slots of all masters. */
#include "redis_cluster.h"

#include <pthread.h>

#include <weir/limiter.h>

#define INSTANCES 3
#define TENANTS   9
#define LIMIT     UINT64_C(1500)

/* Instances that hold 50 and what was left at low water. */
#define BOUND UINT64_C(180)

static struct redis_cluster cluster;

/* A day from the first request, so that no edge comes in between. */
#define LEASED ", \"lease\": {\"batch\": 50}"

static struct weir_policy *load(const char *lease)
{
    char json[1400];
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    snprintf(json, sizeof json,
             "{\"store\": {\"url\": \"%s\", \"timeout\": \"30s\"}, \"instances\": 3, \"secret\": "
             "\"0123456789abcdef0123456789abcdef\", \"tenant\": {\"header\": \"X-Tenant\"},"
             "\"policies\": {\"api\": {\"limits\": [{\"name\": \"day\", \"by\": \"tenant\","
             "\"rate\": \"1500/day\", \"algorithm\": \"fixed-window\", \"start\": \"first\"%s}],"
             "\"on_store_failure\": \"closed\"}},"
             "\"routes\": [{\"match\": \"* /*\", \"auth\": \"optional\", \"policy\": \"api\"}]}",
             cluster.url, lease);
    if (weir_policy_parse(json, strlen(json), NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    return policy;
}

struct instance {
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    pthread_t thread;
    uint64_t allowed[TENANTS];
    uint64_t failed;
};

static void open_instance(struct instance *instance, const char *lease)
{
    memset(instance, 0, sizeof *instance);
    instance->policy = load(lease);
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = instance->policy),
                                      &instance->limiter, NULL),
                     WEIR_OK);
}

static void close_instance(struct instance *instance)
{
    weir_limiter_free(instance->limiter);
    weir_policy_free(instance->policy);
}

static enum weir_outcome ask(const struct instance *instance, size_t tenant)
{
    char name[16];
    struct weir_verdict verdict = { .allowed = false };
    snprintf(name, sizeof name, "tenant-%zu", tenant);
    const struct weir_subject *subject = WEIR_SUBJECT(.policy = "api", .tenant = name);
    if (weir_limiter_check(instance->limiter, subject, 1, &verdict, NULL) != WEIR_OK)
        return WEIR_FAILED_CLOSED;
    return verdict.outcome;
}

static uint64_t left(const struct instance *instance, size_t tenant)
{
    char name[16];
    struct weir_verdict verdict;
    snprintf(name, sizeof name, "tenant-%zu", tenant);
    const struct weir_subject *subject = WEIR_SUBJECT(.policy = "api", .tenant = name);
    assert_int_equal(weir_limiter_peek(instance->limiter, subject, 1, &verdict, NULL), WEIR_OK);
    return verdict.quotas[0].remaining;
}

/* All tenants in turn, until each has been refused. */
static void *spend_all(void *self)
{
    struct instance *instance = self;
    bool is_refused[TENANTS] = { false };
    for (size_t refused = 0; refused < TENANTS && instance->failed == 0;) {
        for (size_t i = 0; i < TENANTS; i++) {
            enum weir_outcome outcome = is_refused[i] ? WEIR_LIMITED : ask(instance, i);
            instance->allowed[i] += outcome == WEIR_ALLOWED;
            instance->failed += outcome != WEIR_ALLOWED && outcome != WEIR_LIMITED;
            refused += outcome == WEIR_LIMITED && !is_refused[i];
            is_refused[i] = outcome == WEIR_LIMITED;
        }
    }
    return NULL;
}

static void lets_exactly_a_window_of_each_key_through(void **state)
{
    (void)state;
    struct instance instances[INSTANCES], strict;
    uint64_t allowed[TENANTS] = { 0 };
    for (size_t i = 0; i < INSTANCES; i++)
        open_instance(&instances[i], LEASED);
    for (size_t i = 0; i < INSTANCES; i++)
        assert_int_equal(pthread_create(&instances[i].thread, NULL, spend_all, &instances[i]), 0);
    for (size_t i = 0; i < INSTANCES; i++) {
        pthread_join(instances[i].thread, NULL);
        assert_int_equal(instances[i].failed, 0);
        for (size_t j = 0; j < TENANTS; j++)
            allowed[j] += instances[i].allowed[j];
        close_instance(&instances[i]); /* and all that it holds goes back */
    }
    open_instance(&strict, "");
    for (size_t i = 0; i < TENANTS; i++) {
        assert_in_range(allowed[i], LIMIT - BOUND, LIMIT);
        assert_int_equal(allowed[i] + left(&strict, i), LIMIT);
    }
    close_instance(&strict);
}

/* Else the test before would say little. */
static void has_used_all_masters(void **state)
{
    (void)state;
    for (size_t i = 0; i < REDIS_CLUSTER_MASTERS; i++)
        assert_true(redis_server_number(&cluster.nodes[i], "DBSIZE") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lets_exactly_a_window_of_each_key_through),
        cmocka_unit_test(has_used_all_masters),
    };
    redis_cluster_start(&cluster);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_cluster_remove(&cluster);
    return failed;
}
