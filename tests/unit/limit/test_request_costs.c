/* What a request costs beside instructions: memory from the heap, and looks at a clock. Linked with
 * --wrap, which sees what weir itself asks for. */
#include "test.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

#include "by_hand.h"
#include "chain/blocks.h"
#include "redis_server.h"

/* AddressSanitizer is to see each request's memory come and go, so no block is kept. */
#if defined(__SANITIZE_ADDRESS__)
#define ARE_KEPT false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARE_KEPT false
#endif
#endif
#ifndef ARE_KEPT
#define ARE_KEPT true
#endif

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
int __real_clock_gettime(clockid_t id, struct timespec *time);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
int __wrap_clock_gettime(clockid_t id, struct timespec *time);

/* Of the thread that serves; a store's own thread has its own. */
static _Thread_local unsigned allocations, clock_reads;

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    allocations++;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    allocations++;
    return __real_realloc(memory, size);
}

int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
    clock_reads++;
    return __real_clock_gettime(id, time);
}

static struct redis_server server;

/* printf %s foo | sha256sum */
#define KEYS                                                                                       \
    "{\"keys\":[{\"id\":\"foo\",\"sha256\":"                                                       \
    "\"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}]}"

static char keys_file[] = "/tmp/weir-costs-XXXXXX";

static void write_keys(void)
{
    int file = mkstemp(keys_file);
    assert_true(file >= 0);
    assert_int_equal(write(file, KEYS, strlen(KEYS)), (ssize_t)strlen(KEYS));
    close(file);
}

struct setting {
    const char *when;
    const char *store; /* NULL: Redis */
    const char *limits;
    unsigned status;
    unsigned clock_reads; /* a question that is sent away has a deadline, may be an old one, and
                           * takes its time */
};

#define LIMIT(name, rate) "{\"name\":\"" name "\",\"by\":\"client\",\"rate\":\"" rate "\"}"

static const struct setting settings[] = {
    { "memory, one limit", "memory:", LIMIT("a", "1000000/hour"), 200, 1 },
    { "memory, three limits", "memory:",
      LIMIT("a", "1000000/hour") "," LIMIT("b", "2000000/hour") "," LIMIT("c", "3000000/day"), 200,
      1 },
    { "memory, refused", "memory:", LIMIT("a", "1000000/hour") "," LIMIT("b", "0/day"), 429, 1 },
    { "Redis", NULL, LIMIT("a", "1000000/hour"), 200, 3 },
};

struct place {
    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
};

static enum weir_step answer(void *self, struct weir_request *request)
{
    (void)self;
    return weir_reply_json(request, 200, "{}") ? WEIR_DONE : WEIR_FAIL;
}

static void open_place(struct place *place, const struct setting *setting)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"store\":{\"url\":\"%s\",\"timeout\":\"10s\"},\"api_keys\":{\"file\":\"%s\"},"
             "\"policies\":{\"p\":{\"limits\":[%s]}},"
             "\"routes\":[{\"match\":\"* /*\",\"auth\":\"required\",\"policy\":\"p\"}]}",
             setting->store == NULL ? server.url : setting->store, keys_file, setting->limits);
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_parse(text, strlen(text), NULL, &place->policy, &error) != WEIR_OK
        || weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = place->policy), &place->limiter, &error)
               != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(weir_chain_new(NULL, &place->chain, NULL), WEIR_OK);
    weir_chain_use(place->chain, weir_limit(place->limiter));
    weir_chain_get(place->chain, "/*", answer, NULL);
}

static void close_place(struct place *place)
{
    weir_chain_free(place->chain);
    weir_limiter_free(place->limiter);
    weir_policy_free(place->policy);
}

/* One request, from its first byte of memory to its last; returns its status. */
static unsigned serve(struct place *place)
{
    struct weir_request *request = by_hand_request(place->chain, "GET", "/items");
    by_hand_header(request, "X-API-Key", "foo");
    unsigned resumed = by_hand_resumed, status = by_hand_run(request);
    if (status == 0) {
        by_hand_await_resume(resumed);
        status = by_hand_run(request);
    }
    assert_non_null(weir_reply_header(&request->reply, "RateLimit-Policy"));
    weir_request_end(request);
    return status;
}

/* The store of a limiter may not be connected yet. */
static void warm_up(struct place *place, const struct setting *setting)
{
    struct weir_store_state how;
    do {
        sched_yield();
        weir_limiter_state(place->limiter, &how);
    } while (!how.answering);
    for (int i = 0; i < 3; i++)
        assert_int_equal(serve(place), setting->status);
}

static void takes_one_block_of_memory_for_a_request_at_most(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        struct place place;
        print_message("    %s\n", settings[i].when);
        open_place(&place, &settings[i]);
        warm_up(&place, &settings[i]);
        allocations = 0;
        for (int n = 0; n < 10; n++)
            assert_int_equal(serve(&place), settings[i].status);
        if (ARE_KEPT)
            assert_int_equal(allocations, 0);
        weir_blocks_drop();
        allocations = 0;
        assert_int_equal(serve(&place), settings[i].status);
        print_message("        %u without blocks kept\n", allocations);
        close_place(&place);
    }
}

static void looks_at_the_clock_once_for_a_decision_and_twice_for_a_question(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        struct place place;
        print_message("    %s\n", settings[i].when);
        open_place(&place, &settings[i]);
        warm_up(&place, &settings[i]);
        unsigned least = 100;
        for (int n = 0; n < 10; n++) {
            clock_reads = 0;
            assert_int_equal(serve(&place), settings[i].status);
            /* Now and then the wall clock is looked at as well. */
            least = clock_reads < least ? clock_reads : least;
        }
        assert_in_range(least, 0, settings[i].clock_reads);
        close_place(&place);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_one_block_of_memory_for_a_request_at_most),
        cmocka_unit_test(looks_at_the_clock_once_for_a_decision_and_twice_for_a_question),
    };
    write_keys();
    redis_server_prepare(&server);
    redis_server_start(&server);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_server_remove(&server);
    unlink(keys_file);
    return failed;
}
