/* The page as it is sent. What it does in a browser is seen in tests/browser. */
#include "test.h"

#include <weir/weir.h>

#include "admin/dashboard.h"
#include "by_hand.h"
#include "chain/request.h"

static enum weir_step show(void *self, struct weir_request *request)
{
    (void)self;
    return weir_dashboard_reply(request) ? WEIR_DONE : WEIR_FAIL;
}

struct asked {
    struct weir_chain *chain;
    struct weir_request *request;
};

static int ask(void **state)
{
    static struct asked asked;
    assert_int_equal(weir_chain_new(NULL, &asked.chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_get(asked.chain, "/admin", show, NULL), WEIR_OK);
    asked.request = by_hand_request(asked.chain, "GET", "/admin");
    assert_int_equal(by_hand_run(asked.request), 200);
    *state = &asked;
    return 0;
}

static int end(void **state)
{
    struct asked *asked = *state;
    weir_request_end(asked->request);
    weir_chain_free(asked->chain);
    return 0;
}

static void says_that_it_is_a_page(void **state)
{
    const struct asked *asked = *state;
    const struct weir_reply *reply = &asked->request->reply;
    assert_string_equal(weir_reply_header(reply, "Content-Type"), "text/html; charset=utf-8");
    assert_string_equal(weir_reply_header(reply, "X-Content-Type-Options"), "nosniff");
    assert_string_equal(weir_reply_header(reply, "X-Frame-Options"), "DENY");
}

static void lets_nothing_run_that_it_does_not_bring(void **state)
{
    const struct asked *asked = *state;
    const char *policy = weir_reply_header(&asked->request->reply, "Content-Security-Policy");
    assert_non_null(strstr(policy, "default-src 'none'; style-src 'sha256-"));
    assert_non_null(strstr(policy, "; script-src 'sha256-"));
    assert_null(strstr(policy, "unsafe"));
    assert_null(strstr(policy, "http"));
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        count++;
    return count;
}

static void is_whole_and_fetches_nothing_from_elsewhere(void **state)
{
    const struct asked *asked = *state;
    const char *page = asked->request->reply.body;
    assert_int_equal(strlen(page), asked->request->reply.body_length);
    assert_int_equal(count_of(page, "<script"), 1);
    assert_int_equal(count_of(page, "<style"), 1);
    assert_non_null(strstr(page, "</html>\n"));
    assert_int_equal(count_of(page, "@STYLE@") + count_of(page, "@SCRIPT@"), 0);
    /* SVG's own name is the only address. */
    assert_int_equal(count_of(page, "://"), count_of(page, "http://www.w3.org/2000/svg"));
    assert_int_equal(count_of(page, "innerHTML") + count_of(page, "eval("), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(says_that_it_is_a_page, ask, end),
        cmocka_unit_test_setup_teardown(lets_nothing_run_that_it_does_not_bring, ask, end),
        cmocka_unit_test_setup_teardown(is_whole_and_fetches_nothing_from_elsewhere, ask, end),
    };
    return cmocka_run_group_tests_name("dashboard", tests, NULL, NULL);
}
