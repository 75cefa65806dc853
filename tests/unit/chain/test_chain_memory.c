/* A request while memory runs out: each allocation fails once. Linked with --wrap. */
#include "test.h"

#include <malloc.h>

#include <weir/weir.h>

#include "by_hand.h"
#include "chain/blocks.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *memory);

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

/* What must not be given back to the heap as it is; NULL: anything may. */
static const char *secret;
static unsigned freed; /* blocks, since then */

void __wrap_free(void *memory)
{
    if (secret != NULL && memory != NULL) {
        freed++;
        assert_null(memmem(memory, malloc_usable_size(memory), secret, strlen(secret)));
    }
    __real_free(memory);
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
    weir_blocks_drop();
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
        request->room_bytes = 0;
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

/* bodies */

static enum weir_step take_fields(void *self, struct weir_request *request)
{
    (void)self;
    const char *bytes, *value;
    size_t length;
    if (!weir_request_body(request, 10000, &bytes, &length))
        return WEIR_WAIT;
    enum weir_field found = weir_request_field(request, "password", &value, &length);
    if (found == WEIR_FIELD_WAIT)
        return WEIR_WAIT;
    assert_int_equal(found, WEIR_FIELD_FOUND);
    assert_string_equal(value, "hunter2 is it");
    weir_reply_text(request, 200, "here");
    return WEIR_DONE;
}

/* One POST to its end, with memory that runs out at an allocation, or not; returns its status. */
static unsigned post(struct weir_chain *chain, const char *type, const char *body, size_t first)
{
    struct weir_request *request = by_hand_request(chain, "POST", "/");
    by_hand_header(request, "Content-Type", type);
    request->facts.has_body = true;
    unsigned status = run_watched(request, first, false);
    size_t piece = 7;
    is_watching = status == 0;
    for (size_t at = 0; status == 0 && at < strlen(body); at += piece) {
        size_t left = strlen(body) - at;
        if (!weir_request_take_body(request, body + at, left < piece ? left : piece))
            status = weir_run_error(request) == WEIR_RUN_REPLY ? request->reply.status : 1;
    }
    if (status == 0) {
        request->body_stage = WEIR_BODY_WHOLE;
        status = by_hand_run(request);
    }
    is_watching = false;
    weir_request_end(request);
    return status;
}

/* Long enough for a second block of memory. */
static const char *long_form(void)
{
    static char form[3000];
    strcpy(form, "password=hunter2+is+it&more=");
    memset(form + strlen(form), 'x', sizeof form - 1 - strlen(form));
    return form;
}

static void answers_500_when_memory_runs_out_for_a_body(void **state)
{
    (void)state;
    struct weir_chain *chain = NULL;
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    weir_chain_post(chain, "/", take_fields, NULL);
    unsigned failed = 0;
    size_t first = 1;
    do {
        unsigned status = post(chain, "application/x-www-form-urlencoded", long_form(), first);
        assert_true(status == 200 || status == 500);
        failed += status == 500;
    } while (first++ <= allocations);
    assert_true(failed >= 4);
    weir_chain_free(chain);
}

static void gives_no_password_back_to_the_heap(void **state)
{
    (void)state;
    struct weir_chain *chain = NULL;
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    weir_chain_post(chain, "/", take_fields, NULL);
    static const struct {
        const char *type;
        const char *body;
    } rows[] = {
        { "application/json", "{\"password\": \"hunter2 is it\"}" },
        { "multipart/form-data; boundary=b",
          "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nhunter2 is "
          "it\r\n--b--\r\n" },
    };
    secret = "hunter2";
    freed = 0;
    assert_int_equal(post(chain, "application/x-www-form-urlencoded", long_form(), SIZE_MAX), 200);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(post(chain, rows[i].type, rows[i].body, SIZE_MAX), 200);
    secret = NULL;
    assert_true(freed >= 9);
    weir_chain_free(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_500_when_memory_runs_out_for_a_body),
        cmocka_unit_test(gives_no_password_back_to_the_heap),
        cmocka_unit_test(answers_500_or_nothing_when_memory_runs_out),
        cmocka_unit_test(knows_what_failed_even_without_memory_to_say_it),
        cmocka_unit_test(goes_on_without_waiting_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
