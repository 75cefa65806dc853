/* What a request is called: by a proxy that is trusted, or by us; and the trace that it is part of. */
#include "test.h"

#include <unistd.h>

#include <weir/weir.h>

#include "by_hand.h"
#include "chain/request_id.h"

static struct weir_policy *policy;
static struct weir_limiter *limiter;
static struct weir_chain *chain;

/* What the handler was told. */
static char id[200], early_id[200], trace[200];

static void keep(char *memory, const char *text)
{
    snprintf(memory, 200, "%s", text == NULL ? "(none)" : text);
}

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    keep(id, weir_request_id(request));
    keep(trace, weir_request_traceparent(request));
    assert_ptr_equal(weir_request_id(request), weir_request_id(request));
    weir_reply_text(request, 200, "done");
    return WEIR_DONE;
}

static bool asks_early;

static enum weir_step ask_early(void *self, struct weir_request *request)
{
    (void)self;
    if (asks_early)
        keep(early_id, weir_request_id(request));
    return WEIR_NEXT;
}

static int set_up(void **state)
{
    (void)state;
    static const char json[] =
        "{\"store\":{\"url\":\"memory:\"},\"client_ip\":{\"trust\":[\"10.0.0.0/8\"]},"
        "\"policies\":{\"p\":{\"limits\":[{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"0/hour\"}]}},"
        "\"routes\":[{\"match\":\"* /refused\",\"policy\":\"p\"}]}";
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_parse(json, strlen(json), NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, NULL),
                     WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    weir_chain_use(chain, WEIR_MIDDLEWARE(.name = "early", .on_request = ask_early));
    weir_chain_use(chain, weir_limit(limiter));
    weir_chain_any(chain, "*", handle, NULL);
    asks_early = false;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_chain_free(chain);
    weir_limiter_free(limiter);
    weir_policy_free(policy);
    return 0;
}

static void ask(const char *peer, const char *name, const char *value, const char *value2)
{
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    by_hand_peer(request, peer);
    if (value != NULL)
        by_hand_header(request, name, value);
    if (value2 != NULL)
        by_hand_header(request, name, value2);
    assert_int_equal(by_hand_run(request), 200);
    weir_request_end(request);
}

static bool is_made(const char *text)
{
    return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

#define TRUSTED  "10.0.0.1"
#define STRANGER "192.0.2.1"
#define CHARS_128                                                                                  \
    "aaaaaaaabbbbbbbbaaaaaaaabbbbbbbbaaaaaaaabbbbbbbbaaaaaaaabbbbbbbb"                             \
    "aaaaaaaabbbbbbbbaaaaaaaabbbbbbbbaaaaaaaabbbbbbbbaaaaaaaabbbbbbbb"

static void takes_the_id_of_a_trusted_proxy_if_it_is_one(void **state)
{
    (void)state;
    static const struct {
        const char *when, *peer, *value, *value2;
        bool is_taken;
    } rows[] = {
        { "a trusted proxy's", TRUSTED, "7b3f-9_a.Z~+/=:", NULL, true },
        { "a stranger's", STRANGER, "7b3f", NULL, false },
        { "none", TRUSTED, NULL, NULL, false },
        { "one character", TRUSTED, "a", NULL, true },
        { "as long as may be", TRUSTED, CHARS_128, NULL, true },
        { "one too long", TRUSTED, CHARS_128 "a", NULL, false },
        { "empty", TRUSTED, "", NULL, false },
        { "a blank in it", TRUSTED, "a b", NULL, false },
        { "a quote in it", TRUSTED, "a\"b", NULL, false },
        { "what a terminal obeys", TRUSTED, "a\x1b[2J", NULL, false },
        { "no ASCII", TRUSTED, "\xC3\xA9", NULL, false },
        { "two of them, of which one is the client's", TRUSTED, "a", "b", false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        ask(rows[i].peer, "x-request-id", rows[i].value, rows[i].value2);
        if (rows[i].is_taken)
            assert_string_equal(id, rows[i].value);
        else
            assert_true(is_made(id));
    }
}

static void makes_a_new_one_for_each_request(void **state)
{
    (void)state;
    char before[200];
    ask(STRANGER, NULL, NULL, NULL);
    strcpy(before, id);
    ask(STRANGER, NULL, NULL, NULL);
    assert_string_not_equal(before, id);
}

static void stays_with_the_id_that_was_asked_for_first(void **state)
{
    (void)state;
    asks_early = true; /* before anybody knows who is trusted */
    ask(TRUSTED, "X-Request-Id", "7b3f", NULL);
    assert_true(is_made(early_id));
    assert_string_equal(early_id, id);
}

static void tells_who_is_refused_what_the_request_is_called(void **state)
{
    (void)state;
    struct weir_request *request = by_hand_request(chain, "GET", "/refused");
    by_hand_peer(request, TRUSTED);
    by_hand_header(request, "X-Request-Id", "7b3f");
    assert_int_equal(by_hand_run(request), 429);
    assert_string_equal(weir_reply_header(&request->reply, "X-Request-Id"), "7b3f");
    weir_request_end(request);
}

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN  "b7ad6b7169203331"

static void hands_on_a_well_formed_trace_only(void **state)
{
    (void)state;
    static const struct {
        const char *when, *value, *wanted; /* NULL: none */
    } rows[] = {
        { "version 00", "00-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-01" },
        { "version 00 and more", "00-" TRACE "-" SPAN "-01-more", NULL },
        { "a later version", "cc-" TRACE "-" SPAN "-01", "cc-" TRACE "-" SPAN "-01" },
        { "a later version and more", "cc-" TRACE "-" SPAN "-01-what-the-future-brings",
          "cc-" TRACE "-" SPAN "-01" },
        { "a later version that ends elsewhere", "cc-" TRACE "-" SPAN "-01.what", NULL },
        { "version ff", "ff-" TRACE "-" SPAN "-01", NULL },
        { "capitals", "00-" TRACE "-B7AD6B7169203331-01", NULL },
        { "a trace of zeros", "00-00000000000000000000000000000000-" SPAN "-01", NULL },
        { "a span of zeros", "00-" TRACE "-0000000000000000-01", NULL },
        { "too short", "00-" TRACE "-" SPAN "-0", NULL },
        { "other dashes", "00_" TRACE "-" SPAN "-01", NULL },
        { "empty", "", NULL },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        ask(STRANGER, "traceparent", rows[i].value, NULL);
        assert_string_equal(trace, rows[i].wanted == NULL ? "(none)" : rows[i].wanted);
    }
    ask(STRANGER, "traceparent", rows[0].value, rows[0].value);
    assert_string_equal(trace, "(none)");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(takes_the_id_of_a_trusted_proxy_if_it_is_one),
        TEST(makes_a_new_one_for_each_request),
        TEST(stays_with_the_id_that_was_asked_for_first),
        TEST(tells_who_is_refused_what_the_request_is_called),
        TEST(hands_on_a_well_formed_trace_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
