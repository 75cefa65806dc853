/* A request while memory runs out: each allocation fails once. Linked with --wrap. */
#include "test.h"

#include <weir/weir.h>

#include "by_hand.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static bool is_watching;
static size_t allocations; /* since the watch began                            */
static size_t failing;     /* the number of the first that fails, from 1       */
static bool fails_on;      /* and all after it fail, too                       */

static bool fails(void)
{
    if (!is_watching)
        return false;
    allocations++;
    return fails_on ? allocations >= failing : allocations == failing;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

/* Everything that takes memory: a long reply, more lines than there is room for at first. */
static enum weir_step reply_at_length(void *self, struct weir_request *request)
{
    (void)self;
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    if (!weir_reply_text(request, 200, text))
        return WEIR_FAIL;
    for (int i = 0; i < 20; i++)
        if (!weir_reply_line(request, "X-Line", text + 2900))
            return WEIR_FAIL;
    return WEIR_DONE;
}

static enum weir_step fail_with_a_reason(void *self, struct weir_request *request)
{
    weir_request_fail(request, *(const enum weir_code *)self, "The %s is gone.", "disk");
    return WEIR_FAIL;
}

static struct weir_chain *new_chain(enum weir_step (*handler)(void *self,
                                                              struct weir_request *request),
                                    void *self)
{
    struct weir_chain *chain = NULL;
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_get(chain, "/", handler, self), WEIR_OK);
    return chain;
}

static unsigned run_watched(struct weir_request *request, size_t first, bool and_all_after)
{
    allocations = 0;
    failing = first;
    fails_on = and_all_after;
    is_watching = true;
    unsigned status = by_hand_run(request);
    is_watching = false;
    return status;
}

static void answers_500_or_nothing_when_memory_runs_out(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain(reply_at_length, NULL);
    for (int all = 0; all < 2; all++) {
        unsigned failed = 0;
        size_t first = 1;
        do {
            struct weir_request *request = by_hand_request(chain, "GET", "/");
            unsigned status = run_watched(request, first, all == 1);
            assert_true(status == 200 || status == 500 || (all == 1 && status == 0));
            assert_true(status == 200 || weir_request_error(request) != NULL);
            failed += status != 200;
            weir_request_end(request);
        } while (first++ <= allocations);
        assert_true(failed >= 3);
    }
    weir_chain_free(chain);
}

static void knows_what_failed_even_without_memory_to_say_it(void **state)
{
    (void)state;
    static enum weir_code codes[] = { WEIR_E_STOPPING, WEIR_E_BODY, WEIR_E_SYSTEM };
    static const enum weir_code said[] = { WEIR_E_STOPPING, WEIR_E_BODY, WEIR_E_MEMORY };
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct weir_chain *chain = new_chain(fail_with_a_reason, &codes[i]);
        struct weir_request *request = by_hand_request(chain, "GET", "/");
        run_watched(request, 1, true);
        assert_true(allocations > 0);
        assert_int_equal(weir_request_error(request)->code, said[i]);
        assert_string_not_equal(weir_request_error(request)->text, "");
        weir_request_end(request);
        weir_chain_free(chain);
    }
}

static enum weir_step wait_or_go_on(void *self, struct weir_request *request)
{
    bool *has_waited = self;
    if (!*has_waited && weir_wait(request, 0)) {
        *has_waited = true;
        return WEIR_WAIT;
    }
    weir_reply_text(request, 200, "here");
    return WEIR_DONE;
}

static void count_line(void *self, enum weir_level level, const char *text)
{
    (void)text;
    if (level == WEIR_ERROR)
        ++*(int *)self;
}

static void goes_on_without_waiting_when_memory_runs_out(void **state)
{
    (void)state;
    bool has_waited = false;
    int lines = 0;
    struct weir_chain *chain = NULL;
    weir_chain_new(WEIR_CHAIN_OPTIONS(.log = { count_line, &lines }), &chain, NULL);
    weir_chain_get(chain, "/", wait_or_go_on, &has_waited);
    by_hand_reset();
    for (size_t first = 1; first <= 2; first++) {
        struct weir_request *request = by_hand_request(chain, "GET", "/");
        assert_int_equal(run_watched(request, first, true), 200);
        assert_false(has_waited);
        weir_request_end(request);
    }
    assert_int_equal(lines, 1);

    /* With memory again, there is a thread. */
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    assert_int_equal(by_hand_run(request), 0);
    assert_ptr_equal(by_hand_await_resume(0), request);
    assert_int_equal(by_hand_run(request), 200);
    weir_request_end(request);
    weir_chain_free(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_500_or_nothing_when_memory_runs_out),
        cmocka_unit_test(knows_what_failed_even_without_memory_to_say_it),
        cmocka_unit_test(goes_on_without_waiting_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
