/* The chain without a server: requests are made by hand, waiting is recorded. */
#include "test.h"

#include <weir/weir.h>

#include "by_hand.h"

/* A literal as a link's `self`, which nobody writes to. */
#define NAMED(literal) ((void *)(uintptr_t)(literal))

static struct weir_chain *new_chain(void)
{
    struct weir_chain *chain = NULL;
    assert_int_equal(weir_chain_new(WEIR_CHAIN_OPTIONS(.parked_max = 2), &chain, NULL), WEIR_OK);
    return chain;
}

/* links that write what happens to them */

static char story[256];

static void tell(const char *what, const char *who)
{
    size_t used = strlen(story);
    snprintf(story + used, sizeof story - used, "%s%s%s ", what, what[0] == '\0' ? "" : ":", who);
}

static enum weir_step told_request(void *self, struct weir_request *request)
{
    (void)request;
    tell("in", self);
    return WEIR_NEXT;
}

static void told_reply(void *self, struct weir_request *request, struct weir_reply *reply)
{
    (void)request;
    char status[32];
    snprintf(status, sizeof status, "out%u", weir_reply_status(reply));
    tell(status, self);
}

static void told_end(void *self, struct weir_request *request)
{
    (void)request;
    tell("end", self);
}

static void told_destroy(void *self)
{
    tell("destroy", self);
}

static void use_told(struct weir_chain *chain, const char *prefix, char *name)
{
    assert_int_equal(
        weir_chain_use_at(chain, prefix,
                          WEIR_MIDDLEWARE(.name = name, .self = name, .on_request = told_request,
                                          .on_reply = told_reply, .on_end = told_end,
                                          .destroy = told_destroy)),
        WEIR_OK);
}

static enum weir_step say_hello(void *self, struct weir_request *request)
{
    tell("handler", self);
    weir_reply_text(request, 200, "hello");
    return WEIR_DONE;
}

static enum weir_step pass_on(void *self, struct weir_request *request)
{
    (void)request;
    tell("pass", self);
    return WEIR_NEXT;
}

static int start_story(void **state)
{
    (void)state;
    story[0] = '\0';
    by_hand_reset();
    return 0;
}

static void assert_replied(struct weir_request *request, unsigned status)
{
    assert_int_equal(by_hand_run(request), status);
}

static void runs_links_inwards_and_hooks_outwards(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    use_told(chain, "/", NAMED("a"));
    use_told(chain, "/admin", NAMED("admin"));
    use_told(chain, "/v1", NAMED("b"));
    assert_int_equal(weir_chain_get(chain, "/v1/items/:id", say_hello, NAMED("h")), WEIR_OK);

    struct weir_request *request = by_hand_request(chain, "GET", "/v1//items/./7/");
    assert_replied(request, 200);
    assert_string_equal(weir_request_param(request, "id"), "7");
    weir_request_end(request);
    weir_chain_free(chain);
    assert_string_equal(story, "in:a in:b handler:h out200:b out200:a end:b end:a "
                               "destroy:a destroy:admin destroy:b ");
}

static void mounts_a_prefix_at_whole_segments(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *target;
        const char *story;
    } rows[] = {
        { "the prefix itself", "/admin", "in:m " },
        { "what is below it", "/admin/users", "in:m " },
        { "a longer first segment", "/administrator", "" },
        { "another path", "/", "" },
    };
    struct weir_chain *chain = new_chain();
    assert_int_equal(
        weir_chain_use_at(chain, "/admin/",
                          WEIR_MIDDLEWARE(.self = NAMED("m"), .on_request = told_request)),
        WEIR_OK);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        start_story(NULL);
        struct weir_request *request = by_hand_request(chain, "GET", rows[i].target);
        assert_replied(request, 404);
        weir_request_end(request);
        assert_string_equal(story, rows[i].story);
    }
    weir_chain_free(chain);
}

static void tells_what_a_star_left_over(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    weir_chain_get(chain, "/files/*", say_hello, NAMED("f"));
    struct weir_request *request = by_hand_request(chain, "GET", "/files/a/b.txt");
    assert_replied(request, 200);
    assert_string_equal(weir_request_rest(request), "/a/b.txt");
    weir_request_end(request);
    weir_chain_free(chain);
}

static void answers_what_nobody_takes(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *method;
        const char *target;
        unsigned status;
        const char *allow;
    } rows[] = {
        { "a path without handlers", "GET", "/none", 404, NULL },
        { "another method", "PUT", "/items", 405, "GET, HEAD, POST" },
        { "what may be done", "OPTIONS", "/items", 204, "GET, HEAD, POST" },
        { "HEAD, by GET's handler", "HEAD", "/items", 200, NULL },
        { "a method in lower case", "get", "/items", 405, "GET, HEAD, POST" },
        { "any method", "BREW", "/pot", 200, NULL },
        { "a path above the root", "GET", "/../items", 404, NULL },
    };
    struct weir_chain *chain = new_chain();
    weir_chain_get(chain, "/items", say_hello, NAMED("g"));
    weir_chain_post(chain, "/items", say_hello, NAMED("p"));
    weir_chain_get(chain, "/items", say_hello, NAMED("again"));
    weir_chain_any(chain, "/pot", say_hello, NAMED("any"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_request *request = by_hand_request(chain, rows[i].method, rows[i].target);
        assert_replied(request, rows[i].status);
        const char *allow = weir_reply_header(&request->reply, "allow");
        if (rows[i].allow == NULL)
            assert_null(allow);
        else
            assert_string_equal(allow, rows[i].allow);
        weir_request_end(request);
    }
    weir_chain_free(chain);
}

static void goes_on_after_a_handler_that_passes(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    weir_chain_get(chain, "/a", pass_on, NAMED("1"));
    weir_chain_get(chain, "/:any", say_hello, NAMED("2"));
    struct weir_request *request = by_hand_request(chain, "GET", "/a");
    assert_replied(request, 200);
    weir_request_end(request);
    weir_chain_free(chain);
    assert_string_equal(story, "pass:1 handler:2 ");
}

/* errors */

static enum weir_step fail_with(void *self, struct weir_request *request)
{
    weir_request_fail(request, WEIR_E_SYSTEM, "The %s is gone.", (const char *)self);
    return WEIR_FAIL;
}

static enum weir_step fail_silently(void *self, struct weir_request *request)
{
    (void)self;
    (void)request;
    return WEIR_FAIL;
}

static enum weir_step answer_error(void *self, struct weir_request *request,
                                   const struct weir_error *why)
{
    tell("error", self);
    weir_reply_text(request, 502, why->text);
    return WEIR_DONE;
}

static enum weir_step look_at_error(void *self, struct weir_request *request,
                                    const struct weir_error *why)
{
    (void)request;
    (void)why;
    tell("look", self);
    return WEIR_NEXT;
}

static void gives_errors_to_the_links_behind(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    weir_chain_use(chain, WEIR_MIDDLEWARE(.self = NAMED("early"), .on_error = answer_error));
    use_told(chain, "/", NAMED("a"));
    weir_chain_get(chain, "/x", fail_with, NAMED("disk"));
    weir_chain_use(chain, WEIR_MIDDLEWARE(.self = NAMED("one"), .on_error = look_at_error));
    weir_chain_use_at(chain, "/y",
                      WEIR_MIDDLEWARE(.self = NAMED("else"), .on_error = answer_error));
    weir_chain_use(chain, WEIR_MIDDLEWARE(.self = NAMED("two"), .on_error = answer_error));
    struct weir_request *request = by_hand_request(chain, "GET", "/x");
    assert_replied(request, 502);
    assert_string_equal(request->reply.body, "The disk is gone.");
    weir_request_end(request);
    weir_chain_free(chain);
    assert_string_equal(story, "in:a look:one error:two out502:a end:a destroy:a ");
}

static enum weir_step done_without_reply(void *self, struct weir_request *request)
{
    (void)self;
    (void)request;
    return WEIR_DONE;
}

static enum weir_step wait_for_nothing(void *self, struct weir_request *request)
{
    (void)self;
    (void)request;
    return WEIR_WAIT;
}

static void count_line(void *self, enum weir_level level, const char *text)
{
    (void)text;
    if (level == WEIR_ERROR)
        ++*(int *)self;
}

static void answers_500_when_a_link_is_at_fault(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        enum weir_step (*handler)(void *self, struct weir_request *request);
        int lines;
    } rows[] = {
        { "it fails without a reason", fail_silently, 0 },
        { "it is done without a reply", done_without_reply, 1 },
        { "it waits for nothing", wait_for_nothing, 1 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        int lines = 0;
        struct weir_chain *chain = NULL;
        weir_chain_new(WEIR_CHAIN_OPTIONS(.log = { count_line, &lines }), &chain, NULL);
        weir_chain_get(chain, "/x", rows[i].handler, NULL);
        struct weir_request *request = by_hand_request(chain, "GET", "/x");
        assert_replied(request, 500);
        assert_non_null(weir_request_error(request));
        weir_request_end(request);
        weir_chain_free(chain);
        assert_int_equal(lines, rows[i].lines);
    }
}

/* waiting */

static struct weir_ticket last_ticket;
static enum weir_step step_after_park;

static enum weir_step park_once(void *self, struct weir_request *request)
{
    if (weir_request_get(request, "parked") != NULL)
        return told_request(self, request);
    weir_request_set(request, "parked", self, NULL);
    last_ticket = weir_park(request);
    return last_ticket.number == 0 ? WEIR_NEXT : step_after_park;
}

static void calls_the_same_link_again_after_a_wake(void **state)
{
    (void)state;
    static const enum weir_step steps[] = { WEIR_WAIT, WEIR_NEXT, WEIR_DONE };
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        start_story(NULL);
        step_after_park = steps[i];
        struct weir_chain *chain = new_chain();
        weir_chain_use(chain, WEIR_MIDDLEWARE(.self = NAMED("p"), .on_request = park_once));
        weir_chain_get(chain, "/", say_hello, NAMED("h"));
        struct weir_request *request = by_hand_request(chain, "GET", "/");
        assert_int_equal(weir_run(request), WEIR_RUN_WAIT);
        assert_int_equal(weir_chain_parked(chain), 1);
        assert_int_equal(by_hand_suspended, 1);

        assert_true(weir_wake(last_ticket));
        assert_false(weir_wake(last_ticket));
        assert_int_equal(by_hand_resumed, 1);
        assert_int_equal(weir_chain_parked(chain), 0);
        assert_replied(request, 200);
        assert_false(weir_wake(last_ticket));
        weir_request_end(request);
        weir_chain_free(chain);
        assert_string_equal(story, "in:p handler:h ");
    }
    step_after_park = WEIR_WAIT;
}

static void gives_no_ticket_past_the_cap(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    struct weir_request *requests[3];
    struct weir_ticket tickets[3];
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        requests[i] = by_hand_request(chain, "GET", "/");
        requests[i]->may_wait = true;
        tickets[i] = weir_park(requests[i]);
    }
    assert_int_not_equal(tickets[1].number, 0);
    assert_int_equal(tickets[2].number, 0);
    assert_false(weir_wake(tickets[2]));
    assert_int_equal(by_hand_suspended, 2);

    /* A place that is given back is of use again, and its old ticket is not. */
    assert_true(weir_wake(tickets[0]));
    tickets[2] = weir_park(requests[2]);
    assert_int_not_equal(tickets[2].number, 0);
    assert_int_not_equal(tickets[2].number, tickets[0].number);
    assert_false(weir_wake(tickets[0]));
    assert_true(weir_wake(tickets[1]));
    assert_true(weir_wake(tickets[2]));
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        weir_request_end(requests[i]);
    weir_chain_free(chain);
}

static void answers_503_to_who_is_parked_when_it_drains(void **state)
{
    (void)state;
    step_after_park = WEIR_WAIT;
    struct weir_chain *chain = new_chain();
    weir_chain_use(chain, WEIR_MIDDLEWARE(.self = NAMED("p"), .on_request = park_once));
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    assert_int_equal(weir_run(request), WEIR_RUN_WAIT);

    /* Nobody ends the request, so the grace passes, then the time does. */
    assert_false(weir_chain_drain(chain, 300));
    assert_int_equal(by_hand_resumed, 1);
    assert_false(weir_wake(last_ticket));
    assert_replied(request, 503);
    assert_string_equal(weir_reply_header(&request->reply, "Retry-After"), "1");

    struct weir_request *late = by_hand_request(chain, "GET", "/");
    late->may_wait = true;
    assert_int_equal(weir_park(late).number, 0);
    assert_false(weir_chain_drain(chain, 0));
    weir_request_end(late);
    weir_request_end(request);
    assert_true(weir_chain_drain(chain, 0));
    weir_chain_free(chain);
}

static enum weir_step answer_stopping(void *self, struct weir_request *request,
                                      const struct weir_error *why)
{
    (void)self;
    assert_int_equal(why->code, WEIR_E_STOPPING);
    weir_reply_text(request, 503, "later");
    return WEIR_DONE;
}

/* A drain that waited for them as well might never end. */
static void turns_away_who_comes_while_it_drains(void **state)
{
    (void)state;
    for (int has_words = 0; has_words < 2; has_words++) {
        struct weir_chain *chain = new_chain();
        weir_chain_use(chain, WEIR_MIDDLEWARE(.self = NAMED("a"), .on_request = park_once,
                                              .on_error = has_words ? answer_stopping : NULL));
        struct weir_request *before = by_hand_request(chain, "GET", "/");
        assert_false(weir_chain_drain(chain, 0));

        struct weir_request *late = by_hand_request(chain, "GET", "/");
        assert_replied(late, 503);
        assert_int_equal(late->reply.body_length == strlen("later"), has_words);
        if (!has_words)
            assert_string_equal(weir_reply_header(&late->reply, "Connection"), "close");
        weir_request_end(before);
        assert_true(weir_chain_drain(chain, 0));
        weir_request_end(late);
        assert_true(weir_chain_drain(chain, 0));
        weir_chain_free(chain);
    }
}

/* bodies */

static enum weir_step take_body(void *self, struct weir_request *request)
{
    const char *bytes;
    size_t length;
    if (!weir_request_body(request, 5, &bytes, &length))
        return WEIR_WAIT;
    tell(self, bytes);
    weir_reply_bytes(request, 200, NULL, bytes, length);
    return WEIR_DONE;
}

static void hands_a_whole_body_to_a_handler(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    weir_chain_post(chain, "/", take_body, NAMED("body"));
    struct weir_request *request = by_hand_request(chain, "POST", "/");
    request->facts.has_body = true;
    assert_int_equal(weir_run(request), WEIR_RUN_BODY);
    assert_true(weir_request_take_body(request, "ab", 2));
    assert_true(weir_request_take_body(request, "cde", 3));
    request->body_stage = WEIR_BODY_WHOLE;
    assert_replied(request, 200);
    assert_string_equal(story, "body:abcde ");
    weir_request_end(request);

    request = by_hand_request(chain, "POST", "/");
    assert_replied(request, 200);
    assert_int_equal(request->reply.body_length, 0);
    weir_request_end(request);
    weir_chain_free(chain);
}

static void answers_413_to_a_body_that_is_too_long(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    weir_chain_post(chain, "/", take_body, NAMED("body"));
    struct weir_request *request = by_hand_request(chain, "POST", "/");
    request->facts.has_body = true;
    assert_int_equal(weir_run(request), WEIR_RUN_BODY);
    assert_true(weir_request_take_body(request, "abcde", 5));
    assert_false(weir_request_take_body(request, "f", 1));
    assert_int_equal(weir_run_error(request), WEIR_RUN_REPLY);
    assert_int_equal(request->reply.status, 413);
    weir_request_end(request);
    weir_chain_free(chain);
}

static enum weir_step tell_field(void *self, struct weir_request *request)
{
    static const char *const words[] = { "wait", "found", "absent", "broken", "foreign" };
    const char *value = "-";
    size_t length = 1;
    enum weir_field found = weir_request_field(request, self, &value, &length);
    if (found == WEIR_FIELD_WAIT)
        return WEIR_WAIT;
    assert_int_equal(strlen(value), length);
    tell(words[found], value);
    weir_reply_text(request, 200, "told");
    return WEIR_DONE;
}

static void finds_fields_of_a_body(void **state)
{
    (void)state;
    static const struct {
        const char *type; /* NULL: there is no body */
        const char *body;
        const char *story;
    } rows[] = {
        { "application/x-www-form-urlencoded", "a=1&name=+Ann%21", "found: Ann! " },
        { "application/json", "{\"name\": 42}", "found:42 " },
        { "application/json", "{\"name\": \"\"}", "found: " },
        { "multipart/form-data; boundary=b",
          "--b\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nAnn\r\n--b--",
          "found:Ann " },
        { "application/json", "{\"nam\": 42}", "absent:- " },
        { "application/json", "{\"Name\": 42}", "broken:- " },
        { "application/json", "", "absent:- " },
        { NULL, "", "absent:- " },
        { "application/json", "{\"name\": []}", "broken:- " },
        { "text/plain", "name=Ann", "foreign:- " },
    };
    struct weir_chain *chain = new_chain();
    weir_chain_post(chain, "/", tell_field, NAMED("name"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s %s\n", rows[i].type == NULL ? "" : rows[i].type, rows[i].body);
        struct weir_request *request = by_hand_request(chain, "POST", "/");
        story[0] = '\0';
        if (rows[i].type != NULL) {
            by_hand_header(request, "Content-Type", rows[i].type);
            request->facts.has_body = true;
            assert_int_equal(weir_run(request), WEIR_RUN_BODY);
            if (rows[i].body[0] != '\0')
                assert_true(weir_request_take_body(request, rows[i].body, strlen(rows[i].body)));
            request->body_stage = WEIR_BODY_WHOLE;
        }
        assert_replied(request, 200);
        assert_string_equal(story, rows[i].story);
        weir_request_end(request);
    }
    struct weir_request *request = by_hand_request(chain, "POST", "/");
    request->facts.has_body = true;
    by_hand_header(request, "Content-Length", "16385");
    assert_replied(request, 413);
    weir_request_end(request);
    weir_chain_free(chain);
}

/* The pieces that a wrapped application is to be offered, and how many bytes it leaves of each. */
static void hands_a_body_on_in_the_pieces_it_came_in(void **state)
{
    (void)state;
    static const char bytes[] = "abcdef";
    uint32_t ends[] = { 1, 4, 6 };
    struct weir_body body = {
        .bytes = (char *)(uintptr_t)bytes, .length = 6, .ends = ends, .end_count = COUNT_OF(ends)
    };
    static const struct {
        const char *offer; /* NULL: the first call, or the last */
        size_t left;
        bool goes_on;
    } calls[] = { { NULL, 0, true },  { "a", 0, true },   { "bcd", 3, false },
                  { "bcd", 2, true }, { "cd", 0, true },  { "ef", 1, true },
                  { "f", 0, true },   { NULL, 0, false }, { NULL, 0, false } };
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct weir_text offer = weir_body_offer(&body);
        assert_true(weir_text_equal(offer, weir_text_from(calls[i].offer)));
        assert_int_equal(offer.at == NULL, calls[i].offer == NULL);
        assert_int_equal(weir_body_advance(&body, calls[i].left), calls[i].goes_on);
    }
    struct weir_body empty = { .length = 0 };
    assert_null(weir_body_offer(&empty).at);
    assert_true(weir_body_advance(&empty, 0));
    assert_int_equal(empty.call, WEIR_CALL_LAST);
    assert_null(weir_body_offer(&empty).at);
    assert_false(weir_body_advance(&empty, 0));
}

static void replies_to_a_request_without_body_in_the_next_call(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    weir_chain_get(chain, "/", say_hello, NAMED("h"));
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    request->in_first_call = true;
    assert_int_equal(weir_run(request), WEIR_RUN_LATER);
    assert_string_equal(story, "");
    request->in_first_call = false;
    assert_replied(request, 200);
    weir_request_end(request);
    weir_chain_free(chain);
}

/* notes, slots, replies */

static int released;

static void count_release(void *value)
{
    (void)value;
    released++;
}

static void releases_every_note_once(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    int one, two;
    released = 0;
    assert_null(weir_request_get(request, "n"));
    assert_true(weir_request_set(request, "n", &one, count_release));
    assert_true(weir_request_set(request, "n", &two, count_release));
    assert_int_equal(released, 1);
    assert_true(weir_request_set(request, "m", &one, NULL));
    assert_ptr_equal(weir_request_get(request, "n"), &two);
    weir_request_end(request);
    assert_int_equal(released, 2);
    weir_chain_free(chain);
}

static enum weir_step fill_slot(void *self, struct weir_request *request)
{
    unsigned char *slot = weir_request_slot(request, self);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(slot[i], 0);
    memset(slot, 0xAA, 100);
    return WEIR_NEXT;
}

static void gives_each_link_memory_of_its_own(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    int one, two;
    weir_chain_use(chain,
                   WEIR_MIDDLEWARE(.self = &one, .on_request = fill_slot, .request_bytes = 100));
    weir_chain_use(chain,
                   WEIR_MIDDLEWARE(.self = &two, .on_request = fill_slot, .request_bytes = 100));
    for (int round = 0; round < 2; round++) {
        struct weir_request *request = by_hand_request(chain, "GET", "/");
        assert_replied(request, 404);
        assert_null(weir_request_slot(request, &round));
        weir_request_end(request);
    }
    weir_chain_free(chain);
}

static void keeps_memory_for_as_long_as_the_request(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    char *pieces[40];
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        pieces[i] = weir_request_alloc(request, 100 * i + 1);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % _Alignof(max_align_t), 0);
        memset(pieces[i], (int)i, 100 * i + 1);
    }
    for (size_t i = 0; i < COUNT_OF(pieces); i++)
        assert_int_equal(pieces[i][100 * i], (int)i);
    assert_null(weir_request_alloc(request, SIZE_MAX - 8));
    weir_request_end(request);
    weir_chain_free(chain);
}

static void destroys_once_what_stands_twice(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    use_told(chain, "/admin", NAMED("a"));
    const struct weir_middleware twice = chain->links[0].middleware;
    assert_int_equal(weir_chain_use_at(chain, "/ops", &twice), WEIR_OK);
    weir_chain_free(chain);
    assert_string_equal(story, "destroy:a ");
}

static void shares_no_memory_between_links(void **state)
{
    (void)state;
    int self;
    struct weir_chain *chain = new_chain();
    assert_int_equal(weir_chain_use(chain, WEIR_MIDDLEWARE(.self = &self, .request_bytes = 8)),
                     WEIR_OK);
    assert_int_equal(weir_chain_use(chain, WEIR_MIDDLEWARE(.self = &self, .request_bytes = 8)),
                     WEIR_OK);
    assert_int_equal(weir_chain_use(chain, WEIR_MIDDLEWARE(.self = &self, .request_bytes = 9)),
                     WEIR_E_ARGUMENT);
    assert_int_equal(weir_chain_use(chain, WEIR_MIDDLEWARE(.request_bytes = 8)), WEIR_E_ARGUMENT);
    weir_chain_free(chain);
}

static void park_too_late(void *self, struct weir_request *request, struct weir_reply *reply)
{
    (void)self;
    (void)reply;
    assert_int_equal(weir_park(request).number, 0);
    tell("refused", "ticket");
}

static void gives_no_ticket_on_the_way_out(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    weir_chain_use(chain, WEIR_MIDDLEWARE(.on_reply = park_too_late));
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    assert_replied(request, 404);
    weir_request_end(request);
    weir_chain_free(chain);
    assert_string_equal(story, "refused:ticket ");
}

static void keeps_dots_from_a_wrapped_application(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        bool is_served;
    } rows[] = { { "/admin/x", true },     { "/admin/x/../../pub", false },
                 { "/../admin/x", false }, { "/admin/./x", false },
                 { "/a..b/.c/d.", true },  { "*", true },
                 { "http://h/..", false }, { "//admin", true } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].target);
        struct weir_chain *chain = new_chain();
        chain->app = malloc(1);
        struct weir_request *request = by_hand_request(chain, "GET", rows[i].target);
        assert_int_equal(weir_run(request), rows[i].is_served ? WEIR_RUN_APP : WEIR_RUN_REPLY);
        assert_int_equal(request->reply.status, rows[i].is_served ? 0 : 400);
        weir_request_end(request);
        weir_chain_free(chain);
    }
}

static void refuses_a_body_that_announces_too_much(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    weir_chain_post(chain, "/", take_body, NAMED("body"));
    struct weir_request *request = by_hand_request(chain, "POST", "/");
    by_hand_header(request, "Content-Length", "6");
    request->facts.has_body = true;
    assert_replied(request, 413);
    weir_request_end(request);
    weir_chain_free(chain);
}

static void refuses_header_lines_that_split_a_reply(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    weir_reply_text(request, 200, "x");
    assert_true(weir_reply_line(request, "X-Fine", "a\tb"));
    assert_false(weir_reply_line(request, "X-Split", "a\r\nSet-Cookie: b"));
    assert_false(weir_reply_line(request, "X-Empty", ""));
    assert_false(weir_reply_line(request, "X Blank", "a"));
    assert_false(weir_reply_line(request, "", "a"));
    assert_true(weir_reply_add(&request->reply, "X-Added", "c"));
    assert_string_equal(weir_reply_header(&request->reply, "x-added"), "c");
    assert_null(weir_reply_header(&request->reply, "X-Split"));
    weir_request_end(request);
    weir_chain_free(chain);
}

static void writes_problems_as_json(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    assert_true(weir_reply_problem(request, 409, "Taken", "The name \"a\" is taken."));
    assert_non_null(strstr(request->reply.body, "The name \\\"a\\\" is taken."));
    assert_string_equal(weir_reply_header(&request->reply, "Content-Type"),
                        "application/problem+json");
    char detail[4000];
    memset(detail, 'd', sizeof detail - 1);
    detail[sizeof detail - 1] = '\0';
    assert_true(weir_reply_problem(request, 409, "Taken", detail));
    assert_null(strstr(request->reply.body, "ddd"));
    weir_request_end(request);
    weir_chain_free(chain);
}

static void refuses_what_it_cannot_build(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    struct weir_error error = WEIR_NO_ERROR;
    assert_int_equal(weir_chain_get(chain, "no-slash", say_hello, NULL), WEIR_E_VALUE);
    assert_int_equal(weir_chain_get(chain, "/a", NULL, NULL), WEIR_E_ARGUMENT);
    assert_int_equal(weir_chain_on(chain, "BAD METHOD", "/a", say_hello, NULL), WEIR_E_ARGUMENT);
    assert_int_equal(weir_chain_use(chain, NULL), WEIR_E_ARGUMENT);
    assert_int_equal(weir_chain_use(chain, &(const struct weir_middleware){ .name = "sizeless" }),
                     WEIR_E_ARGUMENT);
    assert_int_equal(weir_chain_use_at(chain, "admin", WEIR_MIDDLEWARE(.name = "m")), WEIR_E_VALUE);
    assert_int_equal(
        weir_chain_new(&(const struct weir_chain_options){ .size = 1 }, &chain, &error),
        WEIR_E_ARGUMENT);
    assert_string_equal(error.text, "Options were not made with WEIR_CHAIN_OPTIONS.");
    atomic_store(&chain->is_serving, true);
    assert_int_equal(weir_chain_get(chain, "/a", say_hello, NULL), WEIR_E_STATE);
    assert_int_equal(weir_chain_use(chain, WEIR_MIDDLEWARE(.name = "m")), WEIR_E_STATE);
    weir_chain_free(chain);
    assert_null(weir_chain_free(NULL));
}

static void keeps_what_the_application_says_of_a_request(void **state)
{
    (void)state;
    struct weir_chain *chain = new_chain();
    struct weir_request *request = by_hand_request(chain, "GET", "/");
    char name[WEIR_NAME_MAX + 2];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_null(weir_request_user(request));
    assert_false(weir_request_set_user(request, name));
    assert_true(weir_request_set_user(request, name + 1));
    assert_true(weir_request_set_tenant(request, "acme"));
    assert_string_equal(weir_request_user(request), name + 1);
    assert_string_equal(weir_request_tenant(request), "acme");
    assert_true(weir_request_set_tenant(request, ""));
    assert_null(weir_request_tenant(request));
    weir_request_end(request);
    weir_chain_free(chain);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, start_story)
    const struct CMUnitTest tests[] = {
        TEST(runs_links_inwards_and_hooks_outwards),
        TEST(mounts_a_prefix_at_whole_segments),
        TEST(tells_what_a_star_left_over),
        TEST(answers_what_nobody_takes),
        TEST(goes_on_after_a_handler_that_passes),
        TEST(gives_errors_to_the_links_behind),
        TEST(answers_500_when_a_link_is_at_fault),
        TEST(calls_the_same_link_again_after_a_wake),
        TEST(gives_no_ticket_past_the_cap),
        TEST(answers_503_to_who_is_parked_when_it_drains),
        TEST(turns_away_who_comes_while_it_drains),
        TEST(hands_a_whole_body_to_a_handler),
        TEST(answers_413_to_a_body_that_is_too_long),
        TEST(finds_fields_of_a_body),
        TEST(hands_a_body_on_in_the_pieces_it_came_in),
        TEST(replies_to_a_request_without_body_in_the_next_call),
        TEST(releases_every_note_once),
        TEST(gives_each_link_memory_of_its_own),
        TEST(keeps_memory_for_as_long_as_the_request),
        TEST(destroys_once_what_stands_twice),
        TEST(shares_no_memory_between_links),
        TEST(gives_no_ticket_on_the_way_out),
        TEST(keeps_dots_from_a_wrapped_application),
        TEST(refuses_a_body_that_announces_too_much),
        TEST(refuses_header_lines_that_split_a_reply),
        TEST(writes_problems_as_json),
        TEST(refuses_what_it_cannot_build),
        TEST(keeps_what_the_application_says_of_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
