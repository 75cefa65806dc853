/* Leases of several processes on one real Redis: counted are the requests that were let through. */
#include "redis_server.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir/limiter.h>

#define PROCESSES 4
#define THREADS   2

static struct redis_server server;

/* What all processes see. */
static struct shared {
    atomic_bool goes, stops;
    atomic_uint ready;
    atomic_ullong first_us; /* just before the first request */
    atomic_ullong allowed[PROCESSES], refused[PROCESSES], failed;
} * shared;

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static struct weir_policy *load(const char *limit)
{
    char json[1024];
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    snprintf(json, sizeof json,
             "{\"store\": {\"url\": \"%s\", \"timeout\": \"10s\"}, \"instances\": 4, \"secret\": "
             "\"0123456789abcdef0123456789abcdef\", \"tenant\": {\"header\": \"X-Tenant\"},"
             "\"policies\": {\"api\": {\"limits\": [{\"name\": \"burst\", \"by\": \"tenant\", %s}],"
             "\"on_store_failure\": \"closed\"}},"
             "\"routes\": [{\"match\": \"* /*\", \"auth\": \"optional\", \"policy\": \"api\"}]}",
             server.url, limit);
    if (weir_policy_parse(json, strlen(json), NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    return policy;
}

struct instance {
    struct weir_policy *policy;
    struct weir_limiter *limiter;
};

static void open_instance(struct instance *instance, const char *limit)
{
    instance->policy = load(limit);
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = instance->policy),
                                      &instance->limiter, NULL),
                     WEIR_OK);
}

static void close_instance(struct instance *instance)
{
    weir_limiter_free(instance->limiter);
    weir_policy_free(instance->policy);
}

#define ACME WEIR_SUBJECT(.policy = "api", .tenant = "acme")

static struct weir_verdict ask(struct instance *instance)
{
    struct weir_verdict verdict = { .allowed = false };
    assert_int_equal(weir_limiter_check(instance->limiter, ACME, 1, &verdict, NULL), WEIR_OK);
    return verdict;
}

static uint64_t left(struct instance *instance)
{
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_peek(instance->limiter, ACME, 1, &verdict, NULL), WEIR_OK);
    return verdict.quotas[0].remaining;
}

/* a process */

struct hammer {
    struct instance *instance;
    size_t process;
    bool until_refused;
};

static void *hammer(void *self)
{
    const struct hammer *hammer = self;
    unsigned long long none = 0;
    atomic_compare_exchange_strong(&shared->first_us, &none, now_us());
    while (!atomic_load(&shared->stops)) {
        struct weir_verdict verdict = ask(hammer->instance);
        if (verdict.outcome == WEIR_ALLOWED)
            atomic_fetch_add(&shared->allowed[hammer->process], 1);
        else if (verdict.outcome == WEIR_LIMITED)
            atomic_fetch_add(&shared->refused[hammer->process], 1);
        else
            atomic_fetch_add(&shared->failed, 1);
        if (hammer->until_refused && verdict.outcome != WEIR_ALLOWED)
            break;
    }
    return NULL;
}

/* Never returns. */
static void be_process(size_t process, const char *limit, bool until_refused)
{
    struct instance instance;
    pthread_t threads[THREADS];
    open_instance(&instance, limit);
    struct hammer work = { &instance, process, until_refused };
    atomic_fetch_add(&shared->ready, 1);
    while (!atomic_load(&shared->goes))
        usleep(200);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, hammer, &work);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    close_instance(&instance);
    _exit(0);
}

static void start(pid_t pids[PROCESSES], const char *limit, bool until_refused)
{
    memset(shared, 0, sizeof *shared);
    for (size_t i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            be_process(i, limit, until_refused);
    }
    while (atomic_load(&shared->ready) < PROCESSES)
        usleep(200);
    atomic_store(&shared->goes, true);
}

static void await(const pid_t pids[PROCESSES], size_t killed)
{
    for (size_t i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(i == killed ? WIFSIGNALED(status)
                                : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(atomic_load(&shared->failed), 0);
}

static uint64_t allowed(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < PROCESSES; i++)
        sum += atomic_load(&shared->allowed[i]);
    return sum;
}

static int set_up(void **state)
{
    (void)state;
    redis_server_do(&server, "FLUSHALL");
    return 0;
}

#define NONE SIZE_MAX

/* Windows from the first request, so that no edge comes in between. */
#define WINDOW(lease)                                                                              \
    "\"rate\": \"20000/hour\", \"algorithm\": \"fixed-window\", \"start\": \"first\"" lease
#define LEASED ", \"lease\": {\"batch\": 50}"

/* Four processes that hold 50 and what was left at low water. */
#define BOUND UINT64_C(240)

static void lets_exactly_a_window_through(void **state)
{
    (void)state;
    pid_t pids[PROCESSES];
    struct instance strict;
    start(pids, WINDOW(LEASED), true);
    await(pids, NONE);
    open_instance(&strict, WINDOW(""));
    uint64_t by_leases = allowed();
    assert_in_range(by_leases, 20000 - BOUND, 20000);
    assert_int_equal(by_leases + left(&strict), 20000); /* all that was not spent went back */
    for (uint64_t more = 20000 - by_leases; more > 0; more--)
        assert_int_equal(ask(&strict).outcome, WEIR_ALLOWED);
    assert_int_equal(ask(&strict).outcome, WEIR_LIMITED);
    close_instance(&strict);
}

static void loses_no_more_with_a_process_than_it_held(void **state)
{
    (void)state;
    pid_t pids[PROCESSES];
    struct instance strict;
    start(pids, WINDOW(LEASED), false);
    while (allowed() < 8000)
        usleep(100);
    kill(pids[0], SIGKILL);
    for (size_t i = 1; i < PROCESSES; i++)
        while (atomic_load(&shared->refused[i]) == 0)
            usleep(100);
    atomic_store(&shared->stops, true);
    await(pids, 0);
    open_instance(&strict, WINDOW(""));
    /* What its threads were just told may not have been counted. */
    assert_in_range(allowed() + left(&strict), 20000 - BOUND / PROCESSES - THREADS, 20000);
    close_instance(&strict);
}

#define RATE(lease) "\"rate\": \"2000/second\", \"burst\": 6000" lease

static void lets_a_burst_and_a_rate_through_and_no_more(void **state)
{
    (void)state;
    pid_t pids[PROCESSES];
    struct instance strict;
    uint64_t start_us = now_us();
    start(pids, RATE(LEASED), false);
    while (now_us() - start_us < 1500000 || allowed() < 6000)
        usleep(1000);
    atomic_store(&shared->stops, true);
    await(pids, NONE);
    uint64_t end_us = now_us();
    open_instance(&strict, RATE("")); /* threads that were there before fork() are TSan's end */
    uint64_t rest = left(&strict), later_us = now_us();
    uint64_t first_us = atomic_load(&shared->first_us); /* until then the bucket was full */
    assert_in_range(allowed(), 6000, 6000 + (end_us - first_us) * 2 / 1000);
    assert_in_range(allowed() + rest, 6000 + (later_us - first_us) * 2 / 1000 - BOUND,
                    6000 + (later_us - first_us) * 2 / 1000);
    close_instance(&strict);
}

/* one process */

static void answers_as_a_strict_limit_does(void **state)
{
    (void)state;
    struct instance leased;
    open_instance(&leased, WINDOW(LEASED));
    for (uint64_t i = 1; i <= 200; i++) {
        struct weir_verdict verdict = ask(&leased);
        assert_int_equal(verdict.outcome, WEIR_ALLOWED);
        assert_int_equal(verdict.quotas[0].remaining, 20000 - i);
        assert_in_range(verdict.quotas[0].reset_s, 3540, 3600);
    }
    assert_int_equal(left(&leased), 19800);
    assert_in_range(redis_server_number(&server, "DBSIZE"), 1, 1);
    close_instance(&leased);
    open_instance(&leased, WINDOW(""));
    assert_int_equal(left(&leased), 19800);
    close_instance(&leased);
}

static void settles_what_it_has_let_through(void **state)
{
    (void)state;
    struct instance leased;
    struct weir_verdict verdict;
    const struct weir_subject *subject =
        WEIR_SUBJECT(.policy = "api", .tenant = "acme", .cost = 30);
    open_instance(&leased, WINDOW(LEASED));
    assert_int_equal(ask(&leased).outcome, WEIR_ALLOWED);
    assert_int_equal(weir_limiter_check(leased.limiter, subject, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(left(&leased), 19969);
    assert_int_equal(weir_limiter_settle(leased.limiter, subject, 1, &verdict, 10, NULL), WEIR_OK);
    assert_int_equal(left(&leased), 19989);
    assert_int_equal(weir_limiter_check(leased.limiter, subject, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_settle(leased.limiter, subject, 1, &verdict, 40, NULL), WEIR_OK);
    close_instance(&leased); /* and all that is held goes back */
    open_instance(&leased, WINDOW(""));
    assert_int_equal(left(&leased), 19949);
    close_instance(&leased);
}

static void forgets_and_blocks_at_once(void **state)
{
    (void)state;
    struct instance leased;
    const struct weir_subject *acme = ACME;
    open_instance(&leased, WINDOW(LEASED));
    for (int i = 0; i < 10; i++)
        assert_int_equal(ask(&leased).outcome, WEIR_ALLOWED);
    assert_int_equal(weir_limiter_reset(leased.limiter, acme, NULL), WEIR_OK);
    assert_int_equal(left(&leased), 20000);
    assert_int_equal(ask(&leased).outcome, WEIR_ALLOWED);
    assert_int_equal(weir_limiter_block(leased.limiter, acme, 60, NULL), WEIR_OK);
    struct weir_verdict verdict = ask(&leased);
    assert_int_equal(verdict.outcome, WEIR_LIMITED);
    assert_in_range(verdict.retry_us, 30000000, 60000000);
    assert_int_equal(weir_limiter_reset(leased.limiter, acme, NULL), WEIR_OK);
    assert_int_equal(ask(&leased).outcome, WEIR_ALLOWED);
    close_instance(&leased);
}

/* Not a failure of the store, whatever the algorithm makes of the numbers of a blocked key. */
static void is_refused_while_somebody_else_blocks_it(void **state)
{
    (void)state;
    static const char *const limits[] = {
        "\"rate\": \"1000/hour\"" LEASED,
        "\"rate\": \"1000/hour\", \"algorithm\": \"token-bucket\"" LEASED,
        WINDOW(LEASED),
    };
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct instance leased, other;
        redis_server_do(&server, "FLUSHALL");
        open_instance(&other, limits[i]);
        assert_int_equal(weir_limiter_block(other.limiter, ACME, 60, NULL), WEIR_OK);
        open_instance(&leased, limits[i]);
        struct weir_verdict verdict = ask(&leased);
        assert_int_equal(verdict.outcome, WEIR_LIMITED);
        assert_in_range(verdict.retry_us, 30000000, 60000000);
        close_instance(&leased);
        close_instance(&other);
    }
}

static void spends_what_it_holds_when_redis_is_gone(void **state)
{
    (void)state;
    struct instance leased;
    unsigned through = 0;
    open_instance(&leased, WINDOW(LEASED));
    assert_int_equal(ask(&leased).outcome, WEIR_ALLOWED);
    redis_server_kill(&server);
    struct weir_verdict verdict = ask(&leased);
    for (; verdict.outcome == WEIR_ALLOWED && through < 100; through++)
        verdict = ask(&leased);
    assert_int_equal(through, 49);
    assert_int_equal(verdict.outcome, WEIR_FAILED_CLOSED);
    close_instance(&leased);
    redis_server_start(&server);
}

static void only_watches_in_shadow(void **state)
{
    (void)state;
    struct instance leased;
    leased.policy = NULL;
    char json[1024];
    snprintf(json, sizeof json,
             "{\"store\": {\"url\": \"%s\", \"timeout\": \"10s\"}, \"instances\": 1, \"secret\": "
             "\"0123456789abcdef0123456789abcdef\", \"tenant\": {\"header\": \"X-Tenant\"},"
             "\"policies\": {\"api\": {\"mode\": \"shadow\", \"limits\": [{\"name\": \"burst\","
             "\"by\": \"tenant\", \"rate\": \"60/hour\"" LEASED "}]}},"
             "\"routes\": [{\"match\": \"* /*\", \"auth\": \"optional\", \"policy\": \"api\"}]}",
             server.url);
    assert_int_equal(weir_policy_parse(json, strlen(json), NULL, &leased.policy, NULL), WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = leased.policy), &leased.limiter, NULL),
        WEIR_OK);
    for (int i = 0; i < 60; i++)
        assert_int_equal(ask(&leased).outcome, WEIR_ALLOWED);
    struct weir_verdict verdict = ask(&leased);
    assert_int_equal(verdict.outcome, WEIR_SHADOW_LIMITED);
    assert_true(verdict.allowed);
    close_instance(&leased);
}

/* what is said at the start */

static char lines[4][512];
static size_t line_count;

static void note_line(void *self, enum weir_level level, const char *text)
{
    (void)self;
    if (level == WEIR_INFO && strstr(text, "leased") != NULL && line_count < COUNT_OF(lines))
        snprintf(lines[line_count++], sizeof lines[0], "%s", text);
}

static void says_at_the_start_how_much_may_lie_unused(void **state)
{
    (void)state;
    struct weir_policy *policy = load(WINDOW(LEASED));
    struct weir_limiter *limiter = NULL;
    line_count = 0;
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .log = { .write = note_line }),
                         &limiter, NULL),
        WEIR_OK);
    assert_int_equal(line_count, 1);
    assert_string_equal(lines[0],
                        "Limit \"burst\" of policy \"api\" is leased in blocks of 50, the next "
                        "taken at 10: 4 instances may leave up to 240 of 20000 units unused for a "
                        "second.");
    weir_limiter_free(limiter);
    weir_policy_free(policy);
}

static int start_server(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    redis_server_prepare(&server);
    redis_server_start(&server);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    redis_server_remove(&server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(lets_exactly_a_window_through, set_up),
        cmocka_unit_test_setup(loses_no_more_with_a_process_than_it_held, set_up),
        cmocka_unit_test_setup(lets_a_burst_and_a_rate_through_and_no_more, set_up),
        cmocka_unit_test_setup(answers_as_a_strict_limit_does, set_up),
        cmocka_unit_test_setup(settles_what_it_has_let_through, set_up),
        cmocka_unit_test_setup(forgets_and_blocks_at_once, set_up),
        cmocka_unit_test_setup(is_refused_while_somebody_else_blocks_it, set_up),
        cmocka_unit_test_setup(spends_what_it_holds_when_redis_is_gone, set_up),
        cmocka_unit_test_setup(only_watches_in_shadow, set_up),
        cmocka_unit_test_setup(says_at_the_start_how_much_may_lie_unused, set_up),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
