/* Requests under way at once, in a chain over a memory store that answers when it is told to. */
#include "test.h"

#include <unistd.h>

#include <weir/weir.h>

#include "by_hand.h"
#include "limit/limiter_internal.h"
#include "store/store.h"

static const char keys_json[] =
    "{\"keys\": [{\"id\": \"ann\", \"tenant\": \"acme\", \"plan\": \"live\", \"sha256\":"
    " \"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}," /* "foo" */
    " {\"id\": \"bob\", \"tenant\": \"evil\", \"plan\": \"batch\", \"sha256\":"
    " \"fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9\"}]}"; /* "bar" */

#define ANN "foo"
#define BOB "bar"

#define LIMIT(rate) "\"limits\": [{\"name\": \"a\", \"by\": \"client\", \"rate\": \"" rate "\"}]"
#define TWO         "{\"floor\": 2, \"initial\": 2, \"ceiling\": 2}"

static const char policy_json[] =
    "{ \"secret\": \"0123456789abcdef\", \"api_keys\": {\"file\": \"%s\"},"
    "  \"plans\": {\"live\": {}, \"batch\": {}},"
    "  \"policies\": {"
    "    \"two\": {" LIMIT(
        "10/hour") ", \"concurrency\": {\"adaptive\": " TWO "}},"
                   "    \"same\": {\"concurrency\": {\"group\": \"two\"}},"
                   "    \"own\": {" LIMIT(
                       "10/hour") ", \"concurrency\": {\"fixed\": 1, \"by\": \"client\"}},"
                                  "    \"both\": {\"concurrency\": {\"fixed\": 2, \"by\": "
                                  "\"api_key\", \"adaptive\":"
                                  "      {\"floor\": 3, \"initial\": 3, \"ceiling\": 3}}},"
                                  "    \"parts\": {\"concurrency\": {\"partitions\": {\"live\": "
                                  "0.5, \"batch\": 0.5},"
                                  "      \"adaptive\": " TWO "}},"
                                  "    \"watched\": {\"mode\": \"shadow\", \"concurrency\": "
                                  "{\"fixed\": 1, \"by\": \"client\","
                                  "      \"adaptive\": " TWO "}},"
                                  "    \"off\": {\"mode\": \"off\", \"concurrency\": {\"fixed\": "
                                  "1, \"by\": \"client\"}},"
                                  "    \"free\": {\"concurrency\": {\"fixed\": 1, \"by\": "
                                  "\"client\"},"
                                  "      \"allow\": {\"ip\": [\"192.0.2.7\"]}},"
                                  "    \"queue\": {\"limits\": [{\"name\": \"q\", \"by\": "
                                  "\"client\", \"rate\": \"1/second\","
                                  "      \"burst\": 5, \"algorithm\": \"leaky-bucket\", "
                                  "\"max_wait\": \"10s\"}],"
                                  "      \"concurrency\": {\"adaptive\": " TWO "}},"
                                  "    \"tight\": {" LIMIT(
                                      "1/hour") ", \"concurrency\": {\"adaptive\": " TWO "}} },"
                                                "  \"routes\": ["
                                                "    {\"match\": \"* /two\", \"policy\": \"two\", "
                                                "\"auth\": \"optional\"},"
                                                "    {\"match\": \"* /silent\", \"policy\": "
                                                "\"two\"},"
                                                "    {\"match\": \"* /same\", \"policy\": "
                                                "\"same\", \"auth\": \"optional\"},"
                                                "    {\"match\": \"* /own\", \"policy\": \"own\", "
                                                "\"auth\": \"optional\"},"
                                                "    {\"match\": \"* /both\", \"policy\": "
                                                "\"both\", \"auth\": \"optional\"},"
                                                "    {\"match\": \"* /parts\", \"policy\": "
                                                "\"parts\", \"auth\": \"optional\"},"
                                                "    {\"match\": \"* /watched\", \"policy\": "
                                                "\"watched\", \"auth\": \"optional\"},"
                                                "    {\"match\": \"* /off\", \"policy\": \"off\", "
                                                "\"auth\": \"optional\"},"
                                                "    {\"match\": \"* /free\", \"policy\": "
                                                "\"free\", \"auth\": \"optional\"},"
                                                "    {\"match\": \"* /queue\", \"policy\": "
                                                "\"queue\", \"auth\": \"optional\"},"
                                                "    {\"match\": \"* /tight\", \"policy\": "
                                                "\"tight\", \"auth\": \"optional\"}] }";

#define LATER_MAX 16

static struct {
    char keys_file[64];
    struct weir_policy *policy;
    struct weir_store *memory, *store;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    bool is_late; /* the store keeps checks until it is told to answer */
    struct weir_check *later[LATER_MAX];
    unsigned later_count, asked, resumed;
    unsigned status;           /* of the handler's reply; 0: it waits; 1: it fails */
    struct weir_ticket ticket; /* of who waited last */
    unsigned decisions;
    struct weir_decision last;
} bench;

static void submit(void *self, struct weir_check *check)
{
    (void)self;
    bench.asked += check->operation == WEIR_SPEND;
    if (bench.is_late && check->operation == WEIR_SPEND)
        bench.later[bench.later_count++] = check;
    else
        bench.memory->type->submit(bench.memory->self, check);
}

static void answer_all(void)
{
    for (unsigned i = 0; i < bench.later_count; i++)
        bench.memory->type->submit(bench.memory->self, bench.later[i]);
    bench.later_count = 0;
}

static void nothing_to_cancel(void *self, struct weir_check *check)
{
    (void)self, (void)check;
}

static void nothing_to_free(void *self)
{
    (void)self;
}

static const struct weir_store_type late_type = { .size = sizeof late_type,
                                                  .name = "late",
                                                  .submit = submit,
                                                  .cancel = nothing_to_cancel,
                                                  .free = nothing_to_free };

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    if (bench.status == 1) {
        weir_request_fail(request, WEIR_E_STATE, "It does not work.");
        return WEIR_FAIL;
    }
    if (bench.status > 1) {
        weir_reply_text(request, bench.status, "done");
        return WEIR_DONE;
    }
    bench.ticket = weir_park(request);
    return WEIR_WAIT;
}

static void on_decision(void *self, const struct weir_decision *decision)
{
    (void)self;
    bench.decisions++;
    bench.last = *decision;
}

static int set_up(void **state)
{
    (void)state;
    char text[8192];
    struct weir_error error = WEIR_NO_ERROR;
    memset(&bench, 0, sizeof bench);
    by_hand_reset();
    strcpy(bench.keys_file, "/tmp/weir-keys-XXXXXX");
    int file = mkstemp(bench.keys_file);
    assert_true(file >= 0);
    assert_int_equal(write(file, keys_json, strlen(keys_json)), (ssize_t)strlen(keys_json));
    close(file);
    int length = snprintf(text, sizeof text, policy_json, bench.keys_file);
    if (weir_policy_parse(text, (size_t)length, NULL, &bench.policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(weir_store_open("memory:", NULL, &bench.memory, NULL), WEIR_OK);
    assert_int_equal(weir_store_new(&late_type, NULL, &bench.store, NULL), WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = bench.policy, .store = bench.store,
                                              .on_decision = on_decision),
                         &bench.limiter, NULL),
        WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &bench.chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(bench.chain, weir_limit(bench.limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(bench.chain, "*", handle, NULL), WEIR_OK);
    return 0;
}

static uint32_t in_flight(const char *group)
{
    return weir_slots_numbers(weir_limiter_slots(bench.limiter, group)).in_flight;
}

static uint64_t counted(void)
{
    return weir_key_counts_numbers(weir_limiter_key_counts(bench.limiter)).in_flight;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const groups[] = { "two", "both", "parts", "watched", "queue", "tight" };
    for (size_t i = 0; i < COUNT_OF(groups); i++)
        assert_int_equal(in_flight(groups[i]), 0);
    assert_int_equal(counted(), 0);
    weir_chain_free(bench.chain);
    weir_limiter_free(bench.limiter);
    weir_store_free(bench.store);
    weir_store_free(bench.memory);
    weir_policy_free(bench.policy);
    return unlink(bench.keys_file);
}

/* A request, and where it waits. */
struct held {
    struct weir_request *request;
    struct weir_ticket ticket; /* of its handler */
};

/* After the store, or its handler, has woken it; its status, 0 while it waits. */
static unsigned run(struct held *held)
{
    unsigned status = by_hand_run(held->request);
    held->ticket = bench.ticket;
    return status;
}

/* To its handler, or to the store if that is late. */
static struct held begin(const char *path, const char *key)
{
    struct held held = { .request = by_hand_request(bench.chain, "GET", path) };
    by_hand_peer(held.request, "192.0.2.7");
    if (key != NULL)
        by_hand_header(held.request, "X-API-Key", key);
    unsigned asked = bench.asked;
    run(&held);
    if (bench.asked > asked && !bench.is_late) {
        assert_ptr_equal(by_hand_await_resume(bench.resumed++), held.request);
        run(&held);
    }
    return held;
}

static unsigned status_of(struct held held)
{
    return held.request->reply.status;
}

static const char *field(struct held held, const char *name)
{
    const char *value = weir_reply_header(&held.request->reply, name);
    return value == NULL ? "" : value;
}

/* Its handler has been waiting, and now answers. */
static void answer(struct held held, unsigned status)
{
    bench.status = status;
    assert_true(weir_wake(held.ticket));
    assert_ptr_equal(by_hand_await_resume(bench.resumed++), held.request);
    run(&held);
    bench.status = 0;
}

static void end(struct held held)
{
    weir_request_end(held.request);
}

static void answer_and_end(struct held held, unsigned status)
{
    answer(held, status);
    end(held);
}

/* One request from begin to end. */
static unsigned ask(const char *path, const char *key)
{
    unsigned before = bench.status;
    bench.status = 200;
    struct held held = begin(path, key);
    unsigned status = status_of(held);
    end(held);
    bench.status = before;
    return status;
}

/* "RateLimit: "a";r=8;t=…" says 8. */
static int left(struct held held)
{
    const char *at = strstr(field(held, "RateLimit"), ";r=");
    return at == NULL ? -1 : atoi(at + 3);
}

/* what is answered */

static void answers_503_where_the_back_end_is_full(void **state)
{
    (void)state;
    struct held first = begin("/two", ANN), second = begin("/two", BOB);
    struct held third = begin("/two", ANN);
    assert_int_equal(status_of(third), 503);
    assert_string_equal(field(third, "Retry-After"), "1");
    assert_string_equal(field(third, "Cache-Control"), "no-store");
    assert_string_equal(field(third, "Content-Type"), "application/problem+json");
    assert_string_equal(field(third, "RateLimit-Policy"),
                        "\"concurrency\";q=2;qu=\"concurrent-requests\"");
    assert_string_equal(field(third, "RateLimit"), "");
    assert_non_null(strstr(third.request->reply.body, "#temporary-reduced-capacity\""));
    assert_non_null(strstr(third.request->reply.body, "\"violated-policies\":[\"concurrency\"]"));
    assert_int_equal(bench.last.outcome, WEIR_BUSY);
    assert_string_equal(bench.last.policy, "two");
    assert_string_equal(bench.last.limit, "concurrency");
    assert_string_equal(bench.last.client, "ann");
    assert_int_equal(bench.last.retry_s, 1);
    end(third);

    third = begin("/two", ANN);
    assert_string_equal(field(third, "Retry-After"), "2"); /* not all at once */
    end(third);
    answer_and_end(first, 200);
    answer_and_end(second, 200);
    assert_int_equal(ask("/two", ANN), 200);
}

static void tells_a_stranger_nothing_but_when_to_come_back(void **state)
{
    (void)state;
    struct held first = begin("/silent", ANN), second = begin("/two", NULL);
    struct held silent = begin("/silent", ANN), unknown = begin("/two", NULL);
    assert_int_equal(status_of(silent), 503);
    assert_int_equal(status_of(unknown), 503);
    assert_string_equal(field(silent, "RateLimit-Policy"), "");
    assert_string_equal(field(unknown, "RateLimit-Policy"), "");
    assert_string_not_equal(field(silent, "Retry-After"), "");
    assert_null(strstr(silent.request->reply.body, "violated"));
    end(silent);
    end(unknown);
    answer_and_end(first, 200);
    answer_and_end(second, 200);
}

static void answers_429_where_a_client_has_too_many_of_its_own(void **state)
{
    (void)state;
    struct held first = begin("/own", ANN);
    struct held second = begin("/own", ANN);
    assert_int_equal(status_of(second), 429);
    assert_string_equal(field(second, "Retry-After"), "1");
    assert_string_equal(field(second, "RateLimit-Policy"),
                        "\"concurrency\";q=1;qu=\"concurrent-requests\"");
    assert_non_null(strstr(second.request->reply.body, "#quota-exceeded\""));
    assert_non_null(strstr(second.request->reply.body,
                           "\"detail\":\"Limit of 1 request at once reached; retry when one has "
                           "ended.\""));
    assert_int_equal(bench.last.outcome, WEIR_BUSY);
    end(second);
    assert_int_equal(ask("/own", BOB), 200);

    answer(first, 200);
    assert_non_null(
        strstr(field(first, "RateLimit-Policy"), "\"a\";q=10;w=3600, \"concurrency\";q=1"));
    assert_int_equal(ask("/own", ANN), 429); /* until its last byte */
    end(first);
    assert_int_equal(ask("/own", ANN), 200);
}

/* what is spent */

static void spends_nothing_where_there_is_no_slot(void **state)
{
    (void)state;
    struct held first = begin("/two", ANN), second = begin("/two", ANN);
    unsigned asked = bench.asked;
    for (int i = 0; i < 20; i++) {
        struct held third = begin("/two", ANN);
        assert_int_equal(status_of(third), 503);
        end(third);
    }
    assert_int_equal(bench.asked, asked); /* the store was not even asked */
    answer_and_end(first, 200);
    answer(second, 200);
    end(second);
    bench.status = 200;
    struct held next = begin("/two", ANN);
    assert_int_equal(left(next), 7);
    end(next);
}

/* There was room when they came, and not any more when the store had answered. */
static void gives_back_what_was_spent_for_a_slot_that_is_lost(void **state)
{
    (void)state;
    bench.is_late = true;
    struct held held[5];
    for (size_t i = 0; i < COUNT_OF(held); i++)
        held[i] = begin("/two", ANN);
    assert_int_equal(bench.later_count, 5);
    assert_int_equal(in_flight("two"), 0); /* nobody holds a slot to ask */
    bench.is_late = false;
    answer_all();
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        assert_ptr_equal(by_hand_await_resume(bench.resumed++), held[i].request);
        run(&held[i]);
    }
    assert_int_equal(in_flight("two"), 2);
    assert_int_equal(weir_slots_numbers(weir_limiter_slots(bench.limiter, "two")).lost, 3);
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        assert_int_equal(status_of(held[i]), i < 2 ? 0 : 503);
        if (i >= 2)
            assert_string_equal(field(held[i], "RateLimit"), "");
    }
    for (size_t i = 2; i < COUNT_OF(held); i++)
        end(held[i]);
    answer_and_end(held[0], 200);
    answer_and_end(held[1], 200);
    bench.status = 200;
    struct held next = begin("/two", ANN);
    assert_int_equal(left(next), 7); /* three of ten were spent */
    end(next);
}

/* Else a client without quota could keep others from their slots, by asking often enough. */
static void holds_no_slot_for_who_is_refused_anyway(void **state)
{
    (void)state;
    assert_int_equal(ask("/tight", ANN), 200);
    bench.is_late = true;
    struct held held[8];
    for (size_t i = 0; i < COUNT_OF(held); i++)
        held[i] = begin("/tight", ANN);
    struct held other = begin("/tight", BOB);
    bench.is_late = false;
    answer_all();
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        by_hand_await_resume(bench.resumed++);
        assert_int_equal(run(&held[i]), 429);
        assert_int_equal(in_flight("tight"), 0);
        end(held[i]);
    }
    by_hand_await_resume(bench.resumed++);
    run(&other);
    assert_int_equal(in_flight("tight"), 1);
    answer_and_end(other, 200);
}

/* groups and parts */

static void counts_the_policies_of_a_group_together(void **state)
{
    (void)state;
    struct held first = begin("/two", ANN), second = begin("/same", BOB);
    assert_int_equal(in_flight("two"), 2);
    assert_int_equal(ask("/two", ANN), 503);
    assert_int_equal(ask("/same", ANN), 503);
    assert_int_equal(ask("/queue", ANN), 200);
    answer_and_end(first, 200);
    assert_int_equal(ask("/same", ANN), 200);
    answer_and_end(second, 200);
}

static void keeps_the_share_of_a_plan(void **state)
{
    (void)state;
    struct held first = begin("/parts", BOB), second = begin("/parts", BOB);
    assert_int_equal(ask("/parts", BOB), 503);
    assert_int_equal(ask("/parts", ANN), 200); /* live has one of its own */
    struct held third = begin("/parts", ANN);
    assert_int_equal(ask("/parts", ANN), 503);
    answer_and_end(first, 200);
    assert_int_equal(ask("/parts", BOB), 503); /* there are still two, and batch has its share */
    answer_and_end(second, 200);
    assert_int_equal(ask("/parts", BOB), 200);
    answer_and_end(third, 200);
}

static void asks_a_client_for_its_own_first(void **state)
{
    (void)state;
    struct held first = begin("/both", ANN), second = begin("/both", ANN);
    assert_int_equal(ask("/both", ANN), 429);
    struct held third = begin("/both", BOB);
    assert_int_equal(status_of(third), 0);
    assert_int_equal(ask("/both", BOB), 503);
    assert_int_equal(ask("/both", NULL), 503); /* without a key it counts for the back end alone */
    assert_int_equal(counted(), 3);
    answer_and_end(first, 200);
    answer_and_end(second, 200);
    assert_int_equal(ask("/both", NULL), 200);
    answer_and_end(third, 200);
}

/* modes */

static void only_says_what_it_would_have_done_in_shadow(void **state)
{
    (void)state;
    struct held first = begin("/watched", ANN);
    assert_int_equal(bench.decisions, 0);
    struct held second = begin("/watched", ANN);
    assert_int_equal(status_of(second), 0);
    assert_int_equal(bench.decisions, 1);
    assert_int_equal(bench.last.outcome, WEIR_SHADOW_LIMITED);
    assert_string_equal(bench.last.limit, "concurrency");
    struct held third = begin("/watched", BOB);
    assert_int_equal(status_of(third), 0);
    assert_int_equal(bench.decisions, 2);
    assert_int_equal(in_flight("watched"), 3);
    assert_int_equal(counted(), 3);
    answer(second, 200);
    assert_string_equal(field(second, "RateLimit-Policy"), "");
    end(second);
    answer_and_end(first, 200);
    answer_and_end(third, 200);
}

static void lets_everybody_in_where_it_is_off_or_a_list_allows_it(void **state)
{
    (void)state;
    struct held first = begin("/off", ANN), second = begin("/off", ANN);
    assert_int_equal(status_of(second), 0);
    struct held third = begin("/free", ANN), fourth = begin("/free", ANN);
    assert_int_equal(status_of(fourth), 0);
    assert_int_equal(counted(), 0);
    answer_and_end(first, 200);
    answer_and_end(second, 200);
    answer_and_end(third, 200);
    answer_and_end(fourth, 200);
}

/* giving back: tear_down() sees that nothing is left, and the handler's slot is free with its reply */

static void gives_the_slot_back_when_the_reply_is_made(void **state)
{
    (void)state;
    static const unsigned statuses[] = { 200, 204, 304, 404, 500, 503, 1 };
    for (size_t i = 0; i < COUNT_OF(statuses); i++) {
        struct held held = begin("/both", ANN);
        assert_int_equal(in_flight("both"), 1);
        answer(held, statuses[i]);
        assert_int_equal(in_flight("both"), 0);
        assert_int_equal(counted(), 1);
        end(held);
        assert_int_equal(in_flight("both"), 0);
        assert_int_equal(counted(), 0);
    }
}

static void gives_it_back_when_the_request_ends_without_a_reply(void **state)
{
    (void)state;
    struct held first = begin("/both", ANN), second = begin("/both", ANN);
    assert_int_equal(in_flight("both"), 2);
    assert_true(weir_wake(first.ticket));
    by_hand_await_resume(bench.resumed++);
    assert_true(weir_wake(second.ticket));
    by_hand_await_resume(bench.resumed++);
    end(first);
    end(second);
    assert_int_equal(in_flight("both"), 0);
}

static void gives_it_back_when_the_server_stops(void **state)
{
    (void)state;
    struct held held = begin("/both", ANN);
    assert_int_equal(weir_parking_wake_all(&bench.chain->parking), 1);
    assert_ptr_equal(by_hand_await_resume(bench.resumed++), held.request);
    assert_int_equal(run(&held), 503);
    assert_int_equal(in_flight("both"), 0);
    end(held);
}

/* Nobody is kept from the back end by who waits for its turn in a queue. */
static void holds_no_slot_while_it_waits_for_its_turn(void **state)
{
    (void)state;
    bench.status = 200;
    struct held first = begin("/queue", ANN);
    assert_int_equal(status_of(first), 200);
    end(first);
    struct held second = begin("/queue", ANN);
    assert_int_equal(status_of(second), 0);
    assert_int_equal(in_flight("queue"), 0);
    assert_ptr_equal(by_hand_await_resume(bench.resumed++), second.request);
    assert_int_equal(run(&second), 200);
    end(second);
}

/* what it learns */

static void learns_from_what_the_application_has_done(void **state)
{
    (void)state;
    static const struct {
        unsigned status;
        bool is_told;
    } rows[] = { { 200, true },  { 304, true }, { 404, false }, { 429, false },
                 { 500, false }, { 503, true }, { 504, true } };
    struct weir_slots *slots = weir_limiter_slots(bench.limiter, "same");
    assert_null(slots); /* that is a policy of the group "two" */
    slots = weir_limiter_slots(bench.limiter, "both");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t before = weir_slots_numbers(slots).told;
        answer_and_end(begin("/both", ANN), rows[i].status);
        assert_int_equal(weir_slots_numbers(slots).told - before, rows[i].is_told);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(answers_503_where_the_back_end_is_full),
        TEST(tells_a_stranger_nothing_but_when_to_come_back),
        TEST(answers_429_where_a_client_has_too_many_of_its_own),
        TEST(spends_nothing_where_there_is_no_slot),
        TEST(gives_back_what_was_spent_for_a_slot_that_is_lost),
        TEST(holds_no_slot_for_who_is_refused_anyway),
        TEST(counts_the_policies_of_a_group_together),
        TEST(keeps_the_share_of_a_plan),
        TEST(asks_a_client_for_its_own_first),
        TEST(only_says_what_it_would_have_done_in_shadow),
        TEST(lets_everybody_in_where_it_is_off_or_a_list_allows_it),
        TEST(gives_the_slot_back_when_the_reply_is_made),
        TEST(gives_it_back_when_the_request_ends_without_a_reply),
        TEST(gives_it_back_when_the_server_stops),
        TEST(holds_no_slot_while_it_waits_for_its_turn),
        TEST(learns_from_what_the_application_has_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
