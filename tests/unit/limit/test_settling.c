/* Costs that are settled after the work, in a chain over the memory store. */
#include "test.h"

#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

#include "by_hand.h"

#define SECOND UINT64_C(1000000)

static const char policy_json[] =
    "{ \"store\": {\"url\": \"memory:\"}, \"secret\": \"s\","
    "  \"user\": {\"header\": \"X-User\"}, \"client_ip\": {\"trust\": [\"192.0.2.0/24\"]},"
    "  \"policies\": {"
    "    \"rate\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"1/second\","
    "      \"burst\": 10}]},"
    "    \"window\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"10/minute\","
    "      \"algorithm\": \"fixed-window\"}]},"
    "    \"two\": {\"limits\": ["
    "      {\"name\": \"all\", \"by\": \"user\", \"rate\": \"20/hour\", \"algorithm\": "
    "\"sliding-log\"},"
    "      {\"name\": \"bad\", \"by\": \"user\", \"rate\": \"5/hour\", \"algorithm\": "
    "\"sliding-log\","
    "       \"count\": \"failures\"}]},"
    "    \"good\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"5/hour\","
    "      \"algorithm\": \"token-bucket\", \"count\": \"successes\"}]},"
    "    \"table\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"10/hour\","
    "      \"algorithm\": \"sliding-counter\", \"count\": {\"401\": 2, \"422\": 0, \"5xx\": 0}}]},"
    "    \"returned\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"10/hour\"}],"
    "      \"on_abort\": \"return\"},"
    "    \"queue\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"20/second\","
    "      \"algorithm\": \"leaky-bucket\", \"burst\": 4}]},"
    "    \"slow\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"12/minute\","
    "      \"algorithm\": \"leaky-bucket\", \"burst\": 4, \"max_wait\": \"60s\"}]},"
    "    \"line\": {\"limits\": ["
    "      {\"name\": \"slow\", \"by\": \"user\", \"rate\": \"20/second\","
    "       \"algorithm\": \"leaky-bucket\", \"burst\": 4},"
    "      {\"name\": \"fast\", \"by\": \"user\", \"rate\": \"100/second\","
    "       \"algorithm\": \"leaky-bucket\", \"burst\": 4},"
    "      {\"name\": \"bad\", \"by\": \"user\", \"rate\": \"5/hour\", \"count\": \"failures\"}]},"
    "    \"seen\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"1/minute\","
    "      \"algorithm\": \"leaky-bucket\", \"burst\": 4, \"max_wait\": \"60s\"}],"
    "      \"mode\": \"shadow\"},"
    "    \"watched\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": \"2/hour\"}],"
    "      \"mode\": \"shadow\"}},"
    "  \"routes\": ["
    "    {\"match\": \"* /rate\", \"auth\": \"optional\", \"policy\": \"rate\", \"cost\": 5},"
    "    {\"match\": \"* /window\", \"auth\": \"optional\", \"policy\": \"window\", \"cost\": 5},"
    "    {\"match\": \"* /two\", \"auth\": \"optional\", \"policy\": \"two\"},"
    "    {\"match\": \"* /good\", \"auth\": \"optional\", \"policy\": \"good\"},"
    "    {\"match\": \"* /table\", \"auth\": \"optional\", \"policy\": \"table\"},"
    "    {\"match\": \"* /returned\", \"auth\": \"optional\", \"policy\": \"returned\", \"cost\": "
    "4},"
    "    {\"match\": \"* /queue\", \"auth\": \"optional\", \"policy\": \"queue\"},"
    "    {\"match\": \"* /line\", \"auth\": \"optional\", \"policy\": \"line\"},"
    "    {\"match\": \"* /seen\", \"auth\": \"optional\", \"policy\": \"seen\"},"
    "    {\"match\": \"* /look\", \"auth\": \"optional\", \"policy\": \"window\", \"cost\": 0},"
    "    {\"match\": \"* /slow\", \"auth\": \"optional\", \"policy\": \"slow\"},"
    "    {\"match\": \"* /watched\", \"auth\": \"optional\", \"policy\": \"watched\", \"cost\": 2},"
    "    {\"match\": \"* /free\"} ] }";

/* What the handler does next. */
static struct {
    unsigned status;
    bool settles;
    uint64_t actual;
    enum weir_code settled; /* what weir_settle() said */
    unsigned handled;
    uint64_t asked_route_cost; /* by the cost callback */
    unsigned cost_calls;
    uint64_t cost; /* that it says; 0: the route's */
    bool is_free;  /* it says 0                    */
} script;

static uint64_t now_us;
static struct weir_policy *policy;
static struct weir_limiter *limiter;
static struct weir_chain *chain;

static uint64_t read_clock(void *self)
{
    (void)self;
    return now_us;
}

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    script.handled++;
    if (script.settles)
        script.settled = weir_settle(request, script.actual);
    weir_reply_text(request, script.status, "done");
    return WEIR_DONE;
}

static uint64_t cost_of(void *self, struct weir_request *request, uint64_t route_cost)
{
    (void)self, (void)request;
    script.cost_calls++;
    script.asked_route_cost = route_cost;
    if (script.is_free)
        return 0;
    return script.cost == 0 ? route_cost : script.cost;
}

static int set_up(void **state)
{
    (void)state;
    memset(&script, 0, sizeof script);
    script.status = 200;
    now_us = UINT64_C(1800000000) * SECOND;
    by_hand_reset();
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_parse(policy_json, strlen(policy_json), NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    const struct weir_clock clock = { read_clock, NULL };
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .clock = &clock, .cost = cost_of),
                         &limiter, &error),
        WEIR_OK);
    assert_int_equal(weir_chain_new(WEIR_CHAIN_OPTIONS(.parked_max = 3), &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(chain, "*", handle, NULL), WEIR_OK);
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

static struct weir_request *start(const char *path)
{
    struct weir_request *request = by_hand_request(chain, "GET", path);
    by_hand_peer(request, "192.0.2.7");
    by_hand_header(request, "X-User", "ann");
    return request;
}

static const char *header(const struct weir_request *request, const char *name)
{
    const char *value = weir_reply_header(&request->reply, name);
    return value == NULL ? "" : value;
}

/* One request to its end; returns the status, and its RateLimit field in `fields`. */
static char fields[128];

static unsigned get(const char *path)
{
    struct weir_request *request = start(path);
    unsigned status = by_hand_run(request);
    snprintf(fields, sizeof fields, "%s", header(request, "RateLimit"));
    weir_request_end(request);
    return status;
}

static unsigned answer_with(unsigned status, const char *path)
{
    script.status = status;
    return get(path);
}

static unsigned settle_at(uint64_t actual, const char *path)
{
    script.settles = true;
    script.actual = actual;
    unsigned status = get(path);
    script.settles = false;
    return status;
}

/* What is left of the first or second limit of a policy. */
static uint64_t left(const char *name, size_t index)
{
    struct weir_verdict verdict;
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_limiter_peek(limiter, WEIR_SUBJECT(.policy = name, .user = "ann"), 1,
                                            &verdict, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(code, WEIR_OK);
    assert_true(index < verdict.quota_count);
    return verdict.quotas[index].remaining;
}

/* weir_settle() */

static void gives_back_what_the_work_did_not_cost(void **state)
{
    (void)state;
    assert_int_equal(settle_at(2, "/rate"), 200);
    assert_int_equal(script.settled, WEIR_OK);
    assert_string_equal(fields, "\"a\";r=8;t=2");
    assert_int_equal(left("rate", 0), 8);

    assert_int_equal(settle_at(0, "/window"), 200);
    assert_string_equal(fields, "\"a\";r=10;t=60");
    assert_int_equal(left("window", 0), 10);
}

static void charges_what_the_work_cost_more_up_to_all_there_is(void **state)
{
    (void)state;
    assert_int_equal(settle_at(7, "/rate"), 200);
    assert_string_equal(fields, "\"a\";r=3;t=7");
    assert_int_equal(left("rate", 0), 3);

    assert_int_equal(settle_at(UINT64_MAX, "/window"), 200);
    assert_string_equal(fields, "\"a\";r=0;t=60");
    assert_int_equal(left("window", 0), 0);
    now_us += 60 * SECOND;
    assert_int_equal(left("window", 0), 10);
}

static void settles_once(void **state)
{
    (void)state;
    struct weir_request *request = start("/rate");
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(weir_settle(request, 1), WEIR_OK);
    assert_int_equal(weir_settle(request, 0), WEIR_E_STATE);
    weir_request_end(request);
    assert_int_equal(left("rate", 0), 9);
}

static void has_nothing_to_settle_where_nothing_was_spent(void **state)
{
    (void)state;
    settle_at(3, "/free");
    assert_int_equal(script.settled, WEIR_E_STATE);

    /* Let through by a policy that only watches, although its limit refused. */
    assert_int_equal(get("/watched"), 200);
    settle_at(0, "/watched");
    assert_int_equal(script.settled, WEIR_E_STATE);
    assert_int_equal(left("watched", 0), 0);

    assert_int_equal(get("/rate"), 200);
    assert_int_equal(get("/rate"), 200);
    struct weir_request *refused = start("/rate");
    assert_int_equal(by_hand_run(refused), 429);
    assert_int_equal(weir_settle(refused, 0), WEIR_E_STATE);
    weir_request_end(refused);
    assert_int_equal(left("rate", 0), 0);
}

/* A cost of 0 reserves nothing, in any algorithm. */
static void has_nothing_to_settle_after_a_look(void **state)
{
    (void)state;
    assert_int_equal(settle_at(3, "/look"), 200);
    assert_int_equal(script.settled, WEIR_E_STATE);
    assert_string_equal(fields, "\"a\";r=10;t=0");
    assert_int_equal(left("window", 0), 10);
}

static void never_settles_into_the_next_window(void **state)
{
    (void)state;
    struct weir_request *request = start("/window");
    assert_int_equal(by_hand_run(request), 200);
    now_us += 60 * SECOND;
    assert_int_equal(get("/window"), 200);
    assert_int_equal(weir_settle(request, 10), WEIR_OK);
    weir_request_end(request);
    assert_int_equal(left("window", 0), 5);
}

static void does_not_give_back_what_time_has_earned(void **state)
{
    (void)state;
    struct weir_request *request = start("/rate");
    assert_int_equal(by_hand_run(request), 200);
    now_us += 4 * SECOND;
    assert_int_equal(weir_settle(request, 2), WEIR_OK);
    weir_request_end(request);
    assert_int_equal(left("rate", 0), 10);
    assert_int_equal(get("/rate"), 200);
    assert_int_equal(left("rate", 0), 5);
}

static void lets_the_estimate_stand_where_nobody_settles(void **state)
{
    (void)state;
    assert_int_equal(get("/rate"), 200);
    assert_int_equal(left("rate", 0), 5);
}

/* counting by outcome */

static void counts_failures_only(void **state)
{
    (void)state;
    static const struct {
        unsigned status;
        uint64_t left_of_failures;
    } rows[] = {
        { 200, 5 }, { 302, 5 }, { 401, 4 }, { 399, 4 }, { 400, 3 }, { 500, 2 }, { 204, 2 }
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %u\n", rows[i].status);
        assert_int_equal(answer_with(rows[i].status, "/two"), rows[i].status);
        assert_int_equal(left("two", 0), 20 - i - 1);
        assert_int_equal(left("two", 1), rows[i].left_of_failures);
    }
}

static void shows_what_is_left_after_the_outcome(void **state)
{
    (void)state;
    assert_int_equal(answer_with(200, "/two"), 200);
    assert_string_equal(fields, "\"all\";r=19;t=3600, \"bad\";r=5;t=3600");
    assert_int_equal(answer_with(401, "/two"), 401);
    assert_string_equal(fields, "\"all\";r=18;t=3600, \"bad\";r=4;t=3600");
}

/* B13: what the limiter itself refuses is neither counted nor given back. */
static void never_counts_its_own_refusals(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(answer_with(401, "/two"), 401);
    for (int i = 0; i < 20; i++)
        assert_int_equal(get("/two"), 429);
    assert_int_equal(left("two", 0), 15);
    assert_int_equal(left("two", 1), 0);
    assert_int_equal(script.handled, 5);
}

/* What another limiter of the chain refuses has no outcome either. */
static void never_counts_another_limiters_refusals(void **state)
{
    (void)state;
    static const char closed_json[] =
        "{\"policies\": {\"p\": {\"limits\": [{\"name\": \"z\", \"by\": \"ip\", \"rate\": "
        "\"0/hour\"}]}}, \"routes\": [{\"match\": \"* /*\", \"policy\": \"p\"}]}";
    struct weir_policy *closed = NULL;
    struct weir_limiter *second = NULL;
    assert_int_equal(weir_policy_parse(closed_json, strlen(closed_json), NULL, &closed, NULL),
                     WEIR_OK);
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = closed), &second, NULL),
                     WEIR_OK);
    weir_chain_free(chain);
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(second)), WEIR_OK);

    assert_int_equal(get("/two"), 429);
    assert_int_equal(left("two", 0), 19);
    assert_int_equal(left("two", 1), 5);
    weir_chain_free(chain);
    chain = NULL;
    weir_limiter_free(second);
    weir_policy_free(closed);
}

static void counts_successes_only(void **state)
{
    (void)state;
    assert_int_equal(answer_with(404, "/good"), 404);
    assert_int_equal(left("good", 0), 5);
    assert_int_equal(answer_with(200, "/good"), 200);
    assert_int_equal(left("good", 0), 4);
}

/* B18 */
static void counts_by_a_table_of_statuses(void **state)
{
    (void)state;
    static const struct {
        unsigned status;
        uint64_t left;
    } rows[] = { { 422, 10 }, { 200, 9 }, { 503, 9 }, { 401, 7 }, { 404, 6 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %u\n", rows[i].status);
        assert_int_equal(answer_with(rows[i].status, "/table"), rows[i].status);
        assert_int_equal(left("table", 0), rows[i].left);
    }
}

static void counts_outcomes_in_what_the_work_really_cost(void **state)
{
    (void)state;
    script.status = 401;
    assert_int_equal(settle_at(3, "/two"), 401);
    assert_int_equal(left("two", 0), 17);
    assert_int_equal(left("two", 1), 2);
    script.status = 200;
    assert_int_equal(settle_at(3, "/two"), 200);
    assert_int_equal(left("two", 0), 14);
    assert_int_equal(left("two", 1), 2);
}

/* No more than five may be under way: what may fail is taken before it is known. */
static void lets_no_more_try_at_once_than_may_fail(void **state)
{
    (void)state;
    struct weir_request *requests[6];
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        requests[i] = start("/two");
        script.status = 200;
        chain->links[1].middleware.on_request = NULL; /* no handler answers yet */
        unsigned status = by_hand_run(requests[i]);
        assert_int_equal(status, i < 5 ? 404 : 429);
    }
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        weir_request_end(requests[i]);
}

/* ends without a reply */

static void keeps_the_estimate_of_a_request_that_breaks_off(void **state)
{
    (void)state;
    struct weir_request *request = start("/rate");
    by_hand_header(request, "X-Other", "1");
    assert_int_equal(weir_run(request), WEIR_RUN_REPLY); /* the hooks have not run */
    weir_request_end(request);
    assert_int_equal(left("rate", 0), 5);
}

/* B15 */
static void gives_a_request_that_breaks_off_back_where_the_policy_says_so(void **state)
{
    (void)state;
    struct weir_request *request = start("/returned");
    assert_int_equal(weir_run(request), WEIR_RUN_REPLY);
    assert_int_equal(left("returned", 0), 6);
    weir_request_end(request);
    assert_int_equal(left("returned", 0), 10);

    assert_int_equal(get("/returned"), 200); /* one that is answered is not given back */
    assert_int_equal(left("returned", 0), 6);
}

/* the cost callback */

static void asks_the_callback_for_the_cost(void **state)
{
    (void)state;
    script.cost = 7;
    assert_int_equal(get("/rate"), 200);
    assert_int_equal(script.cost_calls, 1);
    assert_int_equal(script.asked_route_cost, 5);
    assert_int_equal(left("rate", 0), 3);
    script.cost = 0;
    get("/free");
    assert_int_equal(script.cost_calls, 1);
    assert_int_equal(get("/rate"), 429);

    script.cost = UINT64_MAX;
    assert_int_equal(get("/rate"), 429);
    assert_int_equal(left("rate", 0), 3);
}

/* A client may have a hand in what the callback works out (F10). */
static void bears_any_cost_that_the_callback_says(void **state)
{
    (void)state;
    static const char *const paths[] = { "/rate", "/window", "/two", "/good", "/table", "/queue" };
    static const uint64_t costs[] = { WEIR_UNITS_MAX, WEIR_UNITS_MAX + 1,
                                      UINT64_C(1000000000000000000), INT64_MAX, UINT64_MAX };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        for (size_t j = 0; j < COUNT_OF(costs); j++) {
            script.cost = costs[j];
            struct weir_request *request = start(paths[i]);
            assert_int_equal(by_hand_run(request), 429);
            assert_string_equal(header(request, "Retry-After"), ""); /* it will never fit */
            weir_request_end(request);
        }
        script.is_free = true;
        assert_int_equal(get(paths[i]), 200);
        script.is_free = false;
        script.cost = 1;
        assert_int_equal(get(paths[i]), 200); /* all of it is still there */
    }
}

/* the queue of a leaky bucket */

static void lets_a_queue_go_on_one_by_one(void **state)
{
    (void)state;
    struct weir_request *requests[4];
    for (size_t i = 0; i < 4; i++) {
        requests[i] = start("/queue");
        assert_int_equal(by_hand_run(requests[i]), i == 0 ? 200 : 0);
    }
    assert_int_equal(script.handled, 1);
    assert_int_equal(get("/queue"), 429); /* the queue is full */
    for (unsigned i = 1; i < 4; i++) {
        assert_ptr_equal(by_hand_await_resume(i - 1), requests[i]);
        assert_int_equal(by_hand_run(requests[i]), 200);
    }
    assert_int_equal(script.handled, 4);
    for (size_t i = 0; i < 4; i++)
        weir_request_end(requests[i]);
}

static void waits_for_the_longest_of_two_queues(void **state)
{
    (void)state;
    struct weir_request *requests[3];
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (size_t i = 0; i < 3; i++) {
        requests[i] = start("/line");
        assert_int_equal(by_hand_run(requests[i]), i == 0 ? 200 : 0);
    }
    for (unsigned i = 1; i < 3; i++) {
        assert_ptr_equal(by_hand_await_resume(i - 1), requests[i]);
        assert_int_equal(by_hand_run(requests[i]), 200);
    }
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000
                >= 99);
    for (size_t i = 0; i < 3; i++)
        weir_request_end(requests[i]);
}

static void lets_nobody_wait_who_is_only_watched(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++)
        assert_int_equal(get("/seen"), 200);
    assert_int_equal(by_hand_suspended, 0);
    assert_int_equal(left("seen", 0), 0);
}

/* Nothing has come of it: no failure, and no place in a queue. */
static void gives_all_back_of_who_waits_when_the_server_stops(void **state)
{
    (void)state;
    assert_int_equal(get("/line"), 200);
    struct weir_request *request = start("/line");
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(left("line", 2), 4);
    assert_int_equal(weir_parking_wake_all(&chain->parking), 1);
    assert_int_equal(by_hand_run(request), 503);
    weir_request_end(request);
    assert_int_equal(left("line", 0), 3);
    assert_int_equal(left("line", 2), 5);
}

/* Whether the chain runs the request once more, or the server ends it right away (as libmicrohttpd
 * does when it polls with select). */
static void frees_the_place_of_a_client_that_hangs_up(void **state)
{
    (void)state;
    for (int runs_again = 0; runs_again < 2; runs_again++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        by_hand_reset();
        by_hand_socket = ends[0];
        assert_int_equal(get("/slow"), 200);
        struct weir_request *request = start("/slow");
        assert_int_equal(by_hand_run(request), 0);
        assert_int_equal(left("slow", 0), 2);

        close(ends[1]);
        assert_ptr_equal(by_hand_await_resume(0), request);
        if (runs_again == 1)
            assert_int_equal(by_hand_run(request), 0);
        weir_request_end(request);
        assert_int_equal(left("slow", 0), 3);
        assert_int_equal(script.handled, runs_again + 1);
        close(ends[0]);
        by_hand_socket = -1;
        now_us += 60 * SECOND;
    }
}

static void refuses_who_finds_no_room_to_wait_in(void **state)
{
    (void)state;
    struct weir_request *hogs[3];
    script.cost = 1;
    assert_int_equal(get("/queue"), 200);
    for (size_t i = 0; i < 2; i++) {
        hogs[i] = start("/queue");
        assert_int_equal(by_hand_run(hogs[i]), 0);
    }
    hogs[2] = by_hand_request(chain, "GET", "/queue");
    by_hand_peer(hogs[2], "192.0.2.7");
    by_hand_header(hogs[2], "X-User", "bob");
    assert_int_equal(by_hand_run(hogs[2]), 200); /* another's queue */
    weir_request_end(hogs[2]);

    hogs[2] = start("/queue");
    assert_int_equal(by_hand_run(hogs[2]), 0);
    assert_int_equal(left("queue", 0), 0);
    /* Three wait, and the chain parks no more: bob's second finds no room. */
    struct weir_request *late = by_hand_request(chain, "GET", "/queue");
    by_hand_peer(late, "192.0.2.7");
    by_hand_header(late, "X-User", "bob");
    assert_int_equal(by_hand_run(late), 429);
    assert_string_equal(header(late, "Retry-After"), "1");
    assert_int_equal(weir_settle(late, 0), WEIR_E_STATE);
    weir_request_end(late);
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_peek(limiter, WEIR_SUBJECT(.policy = "queue", .user = "bob"), 1,
                                       &verdict, NULL),
                     WEIR_OK);
    assert_int_equal(verdict.quotas[0].remaining, 3); /* and its place was given back */
    for (size_t i = 0; i < 3; i++) {
        by_hand_await_resume((unsigned)i);
        assert_int_equal(by_hand_run(hogs[i]), 200);
        weir_request_end(hogs[i]);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(gives_back_what_the_work_did_not_cost),
        TEST(charges_what_the_work_cost_more_up_to_all_there_is),
        TEST(settles_once),
        TEST(has_nothing_to_settle_where_nothing_was_spent),
        TEST(has_nothing_to_settle_after_a_look),
        TEST(never_settles_into_the_next_window),
        TEST(does_not_give_back_what_time_has_earned),
        TEST(lets_the_estimate_stand_where_nobody_settles),
        TEST(counts_failures_only),
        TEST(shows_what_is_left_after_the_outcome),
        TEST(never_counts_its_own_refusals),
        TEST(never_counts_another_limiters_refusals),
        TEST(counts_successes_only),
        TEST(counts_by_a_table_of_statuses),
        TEST(counts_outcomes_in_what_the_work_really_cost),
        TEST(lets_no_more_try_at_once_than_may_fail),
        TEST(keeps_the_estimate_of_a_request_that_breaks_off),
        TEST(gives_a_request_that_breaks_off_back_where_the_policy_says_so),
        TEST(asks_the_callback_for_the_cost),
        TEST(bears_any_cost_that_the_callback_says),
        TEST(lets_a_queue_go_on_one_by_one),
        TEST(waits_for_the_longest_of_two_queues),
        TEST(lets_nobody_wait_who_is_only_watched),
        TEST(gives_all_back_of_who_waits_when_the_server_stops),
        TEST(frees_the_place_of_a_client_that_hangs_up),
        TEST(refuses_who_finds_no_room_to_wait_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
