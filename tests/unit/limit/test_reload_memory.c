/* Reloads when memory runs out: each allocation fails once, and the policy of before stays in force. */
#include "test.h"

#include <unistd.h>

#include <weir/weir.h>

#include "limit/limiter_internal.h"

/* wrapped by the linker */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_reallocarray(void *memory, size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_reallocarray(void *memory, size_t count, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);

/* Of this thread: allocations that succeed before one fails; negative: all do. */
static _Thread_local long left = -1;
static _Thread_local bool has_failed;

static bool fails(void)
{
    bool is_this = left == 0;
    if (left >= 0)
        left--;
    has_failed = has_failed || is_this;
    return is_this;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

void *__wrap_reallocarray(void *memory, size_t count, size_t size)
{
    return fails() ? NULL : __real_reallocarray(memory, count, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

/* a store that is far away, and lets everybody through */

static bool store_ready(void *self)
{
    (void)self;
    return true;
}

static void store_submit(void *self, struct weir_check *check)
{
    (void)self;
    check->result = WEIR_STORE_ANSWERED;
    for (size_t i = 0; i < check->count && check->operation == WEIR_SPEND; i++)
        check->answers[i] = (struct weir_answer){ .allowed = true, .remaining = 50 };
    check->done(check);
}

static void store_cancel(void *self, struct weir_check *check)
{
    (void)self, (void)check; /* there is nothing that waits */
}

static void store_nothing(void *self)
{
    (void)self;
}

static const struct weir_store_type store_type = { .size = sizeof(struct weir_store_type),
                                                   .name = "far",
                                                   .ready = store_ready,
                                                   .submit = store_submit,
                                                   .cancel = store_cancel,
                                                   .free = store_nothing };

#define HEAD                                                                                       \
    "{ \"store\": {\"url\": \"redis://127.0.0.1:1\", \"denial_cache\": \"%s\"}, \"instances\": 2," \
    "  \"policies\": {\"p\": %s},"                                                                 \
    "  \"routes\": [{\"match\": \"* /*\", \"auth\": \"optional\", \"policy\": \"p\"}] }"

static struct weir_policy *parse(const char *cache, const char *ruleset)
{
    char text[2000];
    struct weir_policy *policy = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    int length = snprintf(text, sizeof text, HEAD, cache, ruleset);
    if (weir_policy_parse(text, (size_t)length, NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    return policy;
}

static struct weir_policy *plain(void)
{
    return parse("0s", "{\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"9/hour\"}]}");
}

/* With all that a limiter may have to make for it. */
static struct weir_policy *rich(void)
{
    return parse("1s", "{\"limits\": [{\"name\": \"b\", \"by\": \"ip\", \"rate\": \"900/month\","
                       "  \"algorithm\": \"fixed-window\", \"calendar\": \"Europe/Berlin\","
                       "  \"lease\": {\"batch\": 10}}], \"on_store_failure\": \"memory\","
                       "  \"concurrency\": {\"adaptive\": {\"floor\": 2, \"ceiling\": 9},"
                       "    \"partition_by\": \"tenant\", \"partitions\": {\"acme\": 0.5},"
                       "    \"fixed\": 3, \"by\": \"ip\"}}");
}

static uint64_t generation_of(struct weir_limiter *limiter)
{
    struct weir_reload_state state;
    weir_limiter_reload_state(limiter, &state);
    return state.generation;
}

static void check_that_it_limits(struct weir_limiter *limiter)
{
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_check(limiter, WEIR_SUBJECT(.policy = "p", .ip = "192.0.2.1"), 1,
                                        &verdict, NULL),
                     WEIR_OK);
    assert_true(verdict.allowed);
    assert_int_equal(verdict.quota_count, 1);
}

/* Once with so many allocations; false: none of them failed. */
static bool replace_with(long allocations)
{
    struct weir_policy *first = plain(), *second = rich();
    struct weir_store *store = NULL;
    struct weir_limiter *limiter = NULL;
    assert_int_equal(weir_store_new(&store_type, NULL, &store, NULL), WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = first, .store = store), &limiter, NULL),
        WEIR_OK);
    has_failed = false;
    left = allocations;
    enum weir_code code = weir_limiter_replace(limiter, second, NULL);
    left = -1;
    bool ran_out = has_failed;
    if (code != WEIR_OK) {
        assert_true(ran_out);
        assert_int_equal(generation_of(limiter), 1);
        check_that_it_limits(limiter);
        assert_int_equal(weir_limiter_replace(limiter, second, NULL), WEIR_OK);
    }
    assert_int_equal(generation_of(limiter), 2);
    check_that_it_limits(limiter);
    weir_limiter_free(limiter);
    weir_store_free(store);
    weir_policy_free(first);
    return ran_out;
}

static void stays_with_its_policy_when_memory_runs_out(void **state)
{
    (void)state;
    long allocations = 0;
    while (replace_with(allocations))
        allocations++;
    assert_true(allocations > 20);
}

/* the watcher */

static bool watch_with(struct weir_limiter *limiter, long allocations)
{
    struct weir_watch *watch = NULL;
    has_failed = false;
    left = allocations;
    enum weir_code code = weir_watch_new(WEIR_WATCH_OPTIONS(.limiter = limiter), &watch, NULL);
    left = -1;
    assert_true(code == WEIR_OK || has_failed);
    weir_watch_free(watch);
    return has_failed;
}

static void refuses_to_watch_when_memory_runs_out(void **state)
{
    (void)state;
    struct weir_policy *policy = plain();
    struct weir_limiter *limiter = NULL;
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .file = "/tmp/no-policy.json"),
                         &limiter, NULL),
        WEIR_OK);
    long allocations = 0;
    while (watch_with(limiter, allocations))
        allocations++;
    assert_true(allocations > 3);
    weir_limiter_free(limiter);
    weir_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stays_with_its_policy_when_memory_runs_out),
        cmocka_unit_test(refuses_to_watch_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("reload_memory", tests, NULL, NULL);
}
