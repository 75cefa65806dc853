/* Explaining when memory runs out: each allocation fails once, and then there is an error and nothing
 * half made. */
#include "test.h"

#include <weir/weir.h>

#include "admin/explain.h"
#include "by_hand.h"

/* wrapped by the linker */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static long left = -1; /* allocations that succeed before one fails; negative: all do */
static bool has_failed;

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

static const char policy_json[] =
    "{ \"secret\": \"s\", \"client_ip\": {\"trust\": [\"10.0.0.0/8\"]},"
    "  \"allow\": {\"ip\": [\"192.0.2.1\"]},"
    "  \"policies\": {"
    "    \"api\": {\"limits\": [{\"name\": \"pair\", \"by\": [\"ip\", \"field:name\"], \"rate\":"
    "      \"9/minute\", \"burst\": 1}, {\"name\": \"key\", \"by\": \"api_key\", \"rate\": "
    "\"1/day\"}],"
    "      \"concurrency\": {\"fixed\": 5, \"by\": \"ip\"}},"
    "    \"few\": {\"limits\": [{\"name\": \"few\", \"by\": \"ip\", \"rate\": \"1/hour\"}]}},"
    "  \"routes\": [{\"match\": \"GET /few\", \"policy\": \"few\"},"
    "    {\"match\": \"* /*\", \"policy\": \"api\", \"cost\": 2}] }";

static struct weir_policy *policy;
static struct weir_limiter *limiter;

static json_t *explain_described(struct weir_error *error)
{
    static const struct weir_line header = { { "X-Forwarded-For", 15 }, { "203.0.113.7", 11 } };
    static const struct weir_described described = {
        .target = { "/a%20b?c=d&e", 12 },
        .headers = &header,
        .header_count = 1,
        .peer = "10.0.0.1",
        .body = { "name=ann", 8 },
    };
    return weir_explain(limiter, &described, error);
}

static json_t *explain_refused(struct weir_error *error)
{
    return weir_explain_recent(limiter, "refused", error);
}

/* jansson's reader passes over a character that it has no memory for (2.14), so what was read of a text
 * may be there all the same. */
static void fail_each(json_t *(*explain)(struct weir_error *error), bool reads_json)
{
    for (long n = 0;; n++) {
        struct weir_error error = WEIR_NO_ERROR;
        has_failed = false;
        left = n;
        json_t *explanation = explain(&error);
        left = -1;
        if (!has_failed) {
            assert_true(n > 30);
            assert_non_null(explanation);
            json_decref(explanation);
            return;
        }
        assert_true(explanation == NULL || reads_json);
        assert_int_equal(error.code, explanation == NULL ? WEIR_E_MEMORY : WEIR_OK);
        json_decref(explanation);
    }
}

static void says_that_memory_ran_out(void **state)
{
    (void)state;
    fail_each(explain_described, false);
}

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    weir_reply_text(request, 200, "fine");
    return WEIR_DONE;
}

static void ask(struct weir_chain *chain, unsigned status)
{
    struct weir_request *request = by_hand_request(chain, "GET", "/few");
    by_hand_peer(request, "10.0.0.1");
    by_hand_header(request, "X-Request-Id", "refused");
    assert_int_equal(by_hand_run(request), status);
    weir_request_end(request);
}

static void says_so_of_a_request_that_was_refused(void **state)
{
    (void)state;
    struct weir_chain *chain;
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(chain, "*", handle, NULL), WEIR_OK);
    ask(chain, 200);
    ask(chain, 429);
    fail_each(explain_refused, true);
    weir_chain_free(chain);
}

static int set_up(void **state)
{
    (void)state;
    struct weir_error error = WEIR_NO_ERROR;
    json_set_alloc_funcs(__wrap_malloc, free);
    json_object_seed(1); /* or the first object made would read random bytes once, not each time */
    if (weir_policy_parse(policy_json, sizeof policy_json - 1, NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    return (int)weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    weir_limiter_free(limiter);
    weir_policy_free(policy);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_that_memory_ran_out),
        cmocka_unit_test(says_so_of_a_request_that_was_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
