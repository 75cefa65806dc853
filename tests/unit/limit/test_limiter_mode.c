/* Policies that only watch, or enforce for a part of the clients, in a chain over a memory store. */
#include "test.h"

#include <weir/weir.h>

#include "by_hand.h"
#include "limit/limiter_internal.h"
#include "store/store.h"

#define ONE(by)   "\"limits\": [{\"name\": \"a\", \"by\": \"" by "\", \"rate\": \"1/hour\"}]"
#define FORM      "application/x-www-form-urlencoded"
#define PERCENT   "\"enforce_percent\": %s"
#define BY_CLIENT "\"limits\": [{\"name\": \"a\", \"by\": \"client\", \"rate\": \"1/hour\"}]"

static const char policy_json[] =
    "{ \"store\": {\"url\": \"memory:\"}, \"secret\": \"%s\", \"instances\": 2,"
    "  \"client_ip\": {\"trust\": [\"192.0.2.0/24\"]},"
    "  \"user\": {\"header\": \"X-User\"}, \"tenant\": {\"header\": \"X-Tenant\"},"
    "  \"policies\": {"
    "    \"part\": {" BY_CLIENT ", " PERCENT "},"
    "    \"other\": {" BY_CLIENT ", " PERCENT "},"
    "    \"two\": {\"limits\": [{\"name\": \"user\", \"by\": \"user\", \"rate\": \"1/hour\"},"
    "      {\"name\": \"all\", \"by\": \"global\", \"rate\": \"1000/hour\"}], " PERCENT "},"
    "    \"kept-out\": {" BY_CLIENT ", \"deny\": {\"ip\": [\"198.51.100.0/24\"]}, " PERCENT "},"
    "    \"closed\": {" BY_CLIENT ", \"on_store_failure\": \"closed\", " PERCENT "},"
    "    \"full\": {\"concurrency\": {\"fixed\": 1, \"by\": \"ip\"}, " PERCENT "},"
    "    \"form\": {" ONE(
        "field:x") ", " PERCENT ", \"on_store_failure\": \"open\"},"
                   "    \"tight\": {\"limits\": [{\"name\": \"a\", \"by\": \"user\", \"rate\": "
                   "\"4/hour\"}],"
                   "      \"on_store_failure\": \"memory\", " PERCENT "},"
                   "    \"watched\": {" BY_CLIENT
                   ", \"mode\": \"shadow\", \"enforce_percent\": 100}"
                   "  },"
                   "  \"routes\": ["
                   "    {\"match\": \"* /part\", \"policy\": \"part\", \"auth\": \"optional\"},"
                   "    {\"match\": \"* /other\", \"policy\": \"other\", \"auth\": \"optional\"},"
                   "    {\"match\": \"* /two\", \"policy\": \"two\", \"auth\": \"optional\"},"
                   "    {\"match\": \"* /kept-out\", \"policy\": \"kept-out\", \"auth\": "
                   "\"optional\"},"
                   "    {\"match\": \"* /closed\", \"policy\": \"closed\", \"auth\": \"optional\"},"
                   "    {\"match\": \"* /full\", \"policy\": \"full\", \"auth\": \"optional\"},"
                   "    {\"match\": \"* /form\", \"policy\": \"form\", \"auth\": \"optional\"},"
                   "    {\"match\": \"* /tight\", \"policy\": \"tight\", \"auth\": \"optional\"},"
                   "    {\"match\": \"* /costly\", \"policy\": \"tight\", \"auth\": \"optional\", "
                   "\"cost\": 3},"
                   "    {\"match\": \"* /never\", \"policy\": \"tight\", \"auth\": \"optional\", "
                   "\"cost\": 5},"
                   "    {\"match\": \"* /watched\", \"policy\": \"watched\", \"auth\": "
                   "\"optional\"}]%s }";

/* A memory store that may be away. */
static struct {
    struct weir_policy *policy;
    struct weir_store *memory, *store;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    bool is_away;
    unsigned decisions;
    struct weir_decision last;
} bench;

static bool is_ready(void *self)
{
    (void)self;
    return !bench.is_away;
}

static void submit(void *self, struct weir_check *check)
{
    (void)self;
    bench.memory->type->submit(bench.memory->self, check);
}

static void free_nothing(void *self)
{
    (void)self;
}

static const struct weir_store_type through_type = { .size = sizeof through_type,
                                                     .name = "through",
                                                     .answers_inline = true,
                                                     .ready = is_ready,
                                                     .submit = submit,
                                                     .free = free_nothing };

static enum weir_step handle(void *self, struct weir_request *request)
{
    (void)self;
    weir_reply_text(request, 200, "done");
    return WEIR_DONE;
}

static void note_decision(void *self, const struct weir_decision *decision)
{
    (void)self;
    bench.decisions++;
    bench.last = *decision;
}

static void start_with(const char *percent, const char *secret, const char *more)
{
    char text[8192];
    struct weir_error error = WEIR_NO_ERROR;
    const char *p = percent;
    snprintf(text, sizeof text, policy_json, secret, p, p, p, p, p, p, p, p, more);
    if (weir_policy_parse(text, strlen(text), NULL, &bench.policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    memset((char *)&bench + sizeof bench.policy, 0, sizeof bench - sizeof bench.policy);
    assert_int_equal(weir_store_open("memory:", NULL, &bench.memory, &error), WEIR_OK);
    assert_int_equal(weir_store_new(&through_type, NULL, &bench.store, &error), WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = bench.policy, .store = bench.store,
                                              .on_decision = note_decision),
                         &bench.limiter, &error),
        WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &bench.chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(bench.chain, weir_limit(bench.limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(bench.chain, "*", handle, NULL), WEIR_OK);
}

static void start(const char *percent)
{
    start_with(percent, "s", "");
}

static void stop(void)
{
    weir_chain_free(bench.chain);
    weir_limiter_free(bench.limiter);
    weir_store_free(bench.store);
    weir_store_free(bench.memory);
    weir_policy_free(bench.policy);
}

static struct weir_request *begin(const char *path, const char *user)
{
    struct weir_request *request = by_hand_request(bench.chain, "GET", path);
    by_hand_peer(request, "192.0.2.1");
    by_hand_header(request, "X-Forwarded-For", "198.51.100.1");
    if (user != NULL)
        by_hand_header(request, "X-User", user);
    return request;
}

static unsigned ask(const char *path, const char *user)
{
    struct weir_request *request = begin(path, user);
    unsigned status = by_hand_run(request);
    weir_request_end(request);
    return status;
}

/* Whether a policy enforces for the user of that number, who has asked once before. */
static bool is_in(const char *path, unsigned number)
{
    char user[16];
    snprintf(user, sizeof user, "user-%u", number);
    ask(path, user);
    return ask(path, user) != 200;
}

#define USERS 400

static unsigned count_in(const char *path, bool in[USERS])
{
    unsigned count = 0;
    for (unsigned i = 0; i < USERS; i++) {
        in[i] = is_in(path, i);
        count += in[i];
    }
    return count;
}

/* for how many */

static void enforces_for_about_that_part_of_the_clients(void **state)
{
    (void)state;
    static const struct {
        const char *percent;
        unsigned least, most;
    } rows[] = {
        { "0", 0, 0 },      { "0.5", 0, 9 },    { "10", 20, 62 },
        { "50", 160, 240 }, { "90", 338, 380 }, { "100", USERS, USERS },
    };
    bool in[USERS];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        start(rows[i].percent);
        assert_in_range(count_in("/part", in), rows[i].least, rows[i].most);
        stop();
    }
}

static void only_adds_clients_as_the_part_grows(void **state)
{
    (void)state;
    static const char *const percents[] = { "0.5", "1", "10", "10.01", "50", "99.99", "100" };
    bool before[USERS] = { false }, in[USERS];
    for (size_t i = 0; i < COUNT_OF(percents); i++) {
        start(percents[i]);
        count_in("/part", in);
        for (size_t j = 0; j < USERS; j++)
            assert_true(in[j] || !before[j]);
        memcpy(before, in, sizeof in);
        stop();
    }
}

/* The places of these clients must never change: a new version would move clients in and out. */
static void gives_a_client_the_same_place_for_good(void **state)
{
    (void)state;
    static const char wanted[] = "...X.X...XX.....X.X.X.X....X....X.XX.X..";
    char found[41] = "";
    bool in[USERS];
    start("30");
    count_in("/part", in);
    for (size_t i = 0; i < sizeof found - 1; i++)
        found[i] = in[i] ? 'X' : '.';
    assert_string_equal(found, wanted);
    stop();
}

static void chooses_other_clients_for_another_policy_or_secret(void **state)
{
    (void)state;
    bool part[USERS], other[USERS], secret[USERS];
    start("50");
    count_in("/part", part);
    count_in("/other", other);
    stop();
    start_with("50", "t", "");
    count_in("/part", secret);
    stop();
    unsigned other_differ = 0, secret_differ = 0;
    for (size_t i = 0; i < USERS; i++) {
        other_differ += part[i] != other[i];
        secret_differ += part[i] != secret[i];
    }
    assert_in_range(other_differ, 160, 240);
    assert_in_range(secret_differ, 160, 240);
}

/* Two clients: one whom the policy holds for, and one it does not. */
static void find_both(const char *path, char in[16], char out[16])
{
    bool has_in = false, has_out = false;
    for (unsigned i = 1000; !has_in || !has_out; i++) {
        assert_true(i < 2000);
        bool is_it = is_in(path, i);
        snprintf(is_it ? in : out, 16, "user-%u", i);
        *(is_it ? &has_in : &has_out) = true;
    }
}

/* with what there is besides limits of one's own */

static void takes_one_client_alike_in_all_limits_of_a_policy(void **state)
{
    (void)state;
    char in[16], out[16];
    start("50");
    find_both("/two", in, out);
    for (int i = 0; i < 1100; i++)
        assert_int_equal(ask("/two", out), 200); /* not even the limit of all refuses him */
    assert_int_equal(bench.last.outcome, WEIR_SHADOW_LIMITED);
    assert_int_equal(ask("/two", in), 429);
    assert_int_equal(bench.last.outcome, WEIR_LIMITED);
    assert_int_equal(bench.last.would, WEIR_LIMITED);
    assert_false(bench.last.shadow);
    stop();
}

static void finds_the_client_by_key_user_tenant_or_network(void **state)
{
    (void)state;
    static const char *const more[] = { "198.51.100.8", "203.0.113.99" };
    start("50");
    unsigned in = 0;
    for (unsigned i = 0; i < 64; i++) {
        char tenant[16], address[32];
        unsigned refused = 0;
        snprintf(tenant, sizeof tenant, "tenant-%u", i);
        snprintf(address, sizeof address, "203.0.113.%u", i);
        /* A tenant is one client wherever he comes from. */
        for (size_t j = 0; j < 3; j++) {
            struct weir_request *request = by_hand_request(bench.chain, "GET", "/part");
            by_hand_peer(request, "192.0.2.1");
            by_hand_header(request, "X-Forwarded-For", j == 0 ? address : more[j - 1]);
            by_hand_header(request, "X-Tenant", tenant);
            refused += by_hand_run(request) == 429;
            weir_request_end(request);
        }
        assert_true(refused == 0 || refused == 2);
        in += refused > 0;
    }
    assert_in_range(in, 16, 48);
    in = 0;
    for (unsigned i = 0; i < 64; i++) {
        char address[32];
        snprintf(address, sizeof address, "203.0.113.%u", i);
        for (size_t j = 0; j < 2; j++) {
            struct weir_request *request = by_hand_request(bench.chain, "GET", "/part");
            by_hand_peer(request, address);
            in += by_hand_run(request) == 429;
            weir_request_end(request);
        }
    }
    assert_in_range(in, 16, 48);
    stop();
}

static void shows_quotas_to_those_it_enforces_for(void **state)
{
    (void)state;
    char in[16], out[16];
    start("50");
    find_both("/part", in, out);
    struct weir_request *first = begin("/part", in), *second = begin("/part", out);
    assert_int_equal(by_hand_run(first), 429);
    assert_int_equal(by_hand_run(second), 200);
    assert_non_null(weir_reply_header(&first->reply, "RateLimit"));
    assert_null(weir_reply_header(&second->reply, "RateLimit"));
    weir_request_end(first);
    weir_request_end(second);
    stop();
}

static void keeps_out_those_it_enforces_for(void **state)
{
    (void)state;
    bool in[USERS];
    start("50");
    assert_in_range(count_in("/kept-out", in), 160, 240);
    for (unsigned i = 0; i < USERS; i++) {
        assert_int_equal(is_in("/kept-out", i), in[i]);
        assert_int_equal(bench.last.outcome, in[i] ? WEIR_DENIED : WEIR_SHADOW_LIMITED);
        assert_int_equal(bench.last.would, WEIR_DENIED);
    }
    stop();
}

static void leaves_the_files_own_list_to_the_files_mode(void **state)
{
    (void)state;
    start_with("0", "s", ", \"deny\": {\"user\": [\"bob\"]}");
    assert_int_equal(ask("/part", "bob"), 403);
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_check(bench.limiter,
                                        WEIR_SUBJECT(.policy = "part", .user = "bob"), 1, &verdict,
                                        NULL),
                     WEIR_OK);
    assert_int_equal(verdict.outcome, WEIR_DENIED);
    stop();
}

/* what would have been */

static void says_what_would_have_become_of_the_request(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        enum weir_outcome would;
        unsigned status;
    } rows[] = {
        { "/part", WEIR_LIMITED, 429 },    { "/kept-out", WEIR_DENIED, 403 },
        { "/tight", WEIR_ALLOWED, 0 },     { "/never", WEIR_IMPOSSIBLE, 429 },
        { "/watched", WEIR_LIMITED, 429 },
    };
    start("0");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].path);
        bench.last = (struct weir_decision){ .outcome = WEIR_ALLOWED };
        assert_int_equal(ask(rows[i].path, "ann"), 200);
        assert_int_equal(ask(rows[i].path, "ann"), 200);
        assert_int_equal(bench.last.outcome,
                         rows[i].would == WEIR_ALLOWED ? WEIR_ALLOWED : WEIR_SHADOW_LIMITED);
        assert_int_equal(bench.last.would, rows[i].would);
        assert_int_equal(bench.last.shadow, rows[i].would != WEIR_ALLOWED);
        assert_int_equal(bench.last.status, rows[i].status);
    }
    stop();
}

static void says_that_too_many_would_have_been_under_way(void **state)
{
    (void)state;
    start("0");
    struct weir_request *first = begin("/full", "ann"), *second = begin("/full", "ann");
    assert_int_equal(by_hand_run(first), 200);
    assert_int_equal(bench.decisions, 0);
    assert_int_equal(by_hand_run(second), 200);
    assert_int_equal(bench.decisions, 1);
    assert_int_equal(bench.last.outcome, WEIR_SHADOW_LIMITED);
    assert_int_equal(bench.last.would, WEIR_BUSY);
    assert_int_equal(bench.last.status, 429);
    assert_string_equal(bench.last.limit, "concurrency");
    weir_request_end(first);
    weir_request_end(second);
    stop();
    start("100");
    first = begin("/full", "ann");
    second = begin("/full", "ann");
    assert_int_equal(by_hand_run(first), 200);
    assert_int_equal(by_hand_run(second), 429);
    weir_request_end(first);
    weir_request_end(second);
    stop();
}

static unsigned post(const char *body)
{
    struct weir_request *request = by_hand_request(bench.chain, "POST", "/form");
    by_hand_peer(request, "203.0.113.5");
    request->facts.has_body = true;
    by_hand_header(request, "Content-Type", FORM);
    by_hand_header(request, "Content-Length", "7");
    unsigned status = by_hand_run(request);
    if (status == 0) {
        assert_true(weir_request_take_body(request, body, strlen(body)));
        request->body_stage = WEIR_BODY_WHOLE;
        status = by_hand_run(request);
    }
    weir_request_end(request);
    return status;
}

static void says_that_a_body_would_have_been_refused(void **state)
{
    (void)state;
    start("0");
    assert_int_equal(post("x=1&x=2"), 200);
    assert_int_equal(bench.decisions, 1);
    assert_int_equal(bench.last.outcome, WEIR_SHADOW_LIMITED);
    assert_int_equal(bench.last.would, WEIR_UNREADABLE);
    assert_int_equal(bench.last.status, 400);
    stop();
    start("100");
    assert_int_equal(post("x=1&x=2"), 400);
    assert_int_equal(bench.last.outcome, WEIR_UNREADABLE);
    stop();
}

static void says_that_it_would_have_been_closed_while_the_store_fails(void **state)
{
    (void)state;
    start("0");
    bench.is_away = true;
    assert_int_equal(ask("/closed", "ann"), 200);
    assert_int_equal(bench.last.outcome, WEIR_FAILED_OPEN);
    assert_int_equal(bench.last.would, WEIR_FAILED_CLOSED);
    assert_true(bench.last.shadow);
    assert_int_equal(bench.last.status, 503);
    assert_int_equal(ask("/part", "ann"), 200); /* that is open for all */
    assert_int_equal(bench.last.outcome, WEIR_FAILED_OPEN);
    assert_int_equal(bench.last.would, WEIR_FAILED_OPEN);
    assert_false(bench.last.shadow);
    assert_int_equal(ask("/costly", "ann"), 200); /* one of two instances has 2 of the 4 units */
    assert_int_equal(bench.last.outcome, WEIR_SHADOW_LIMITED);
    assert_int_equal(bench.last.would, WEIR_FAILED_CLOSED);
    assert_true(bench.last.by_memory);
    stop();

    start("50");
    bench.is_away = true;
    bool in[USERS];
    assert_in_range(count_in("/closed", in), 160, 240);
    stop();
}

/* An enforcing policy would have been done with the request at the first of them. */
static void tells_once_of_a_request_that_would_have_been_refused_twice(void **state)
{
    (void)state;
    start("0");
    assert_int_equal(ask("/kept-out", "ann"), 200);
    assert_int_equal(bench.decisions, 1);
    assert_int_equal(ask("/kept-out", "ann"), 200); /* by its limit, too */
    assert_int_equal(bench.decisions, 2);
    assert_int_equal(bench.last.would, WEIR_DENIED);
    stop();
}

/* without HTTP */

static enum weir_outcome check(const struct weir_subject *subjects, size_t count)
{
    struct weir_verdict verdict;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_limiter_check(bench.limiter, subjects, count, &verdict, &error) != WEIR_OK)
        fail_msg("%s", error.text);
    return verdict.outcome;
}

static void treats_a_subject_as_its_requests(void **state)
{
    (void)state;
    bool in[USERS];
    start("50");
    count_in("/part", in);
    for (unsigned i = 0; i < USERS; i++) {
        char user[16];
        snprintf(user, sizeof user, "user-%u", i);
        assert_int_equal(check(WEIR_SUBJECT(.policy = "part", .user = user), 1),
                         in[i] ? WEIR_LIMITED : WEIR_SHADOW_LIMITED);
    }
    stop();
}

static void only_watches_where_it_does_for_one_of_several_subjects(void **state)
{
    (void)state;
    char in[16], out[16];
    start("50");
    find_both("/part", in, out);
    const struct weir_subject both[] = {
        *WEIR_SUBJECT(.policy = "part", .user = in),
        *WEIR_SUBJECT(.policy = "part", .user = out),
    };
    assert_int_equal(check(&both[0], 1), WEIR_LIMITED);
    assert_int_equal(check(both, 2), WEIR_SHADOW_LIMITED);
    stop();
}

static void goes_by_the_files_mode_first(void **state)
{
    (void)state;
    start_with("100", "s", ", \"mode\": \"shadow\"");
    assert_int_equal(ask("/part", "ann"), 200);
    assert_int_equal(ask("/part", "ann"), 200);
    assert_int_equal(bench.last.outcome, WEIR_SHADOW_LIMITED);
    stop();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(enforces_for_about_that_part_of_the_clients),
        cmocka_unit_test(only_adds_clients_as_the_part_grows),
        cmocka_unit_test(gives_a_client_the_same_place_for_good),
        cmocka_unit_test(chooses_other_clients_for_another_policy_or_secret),
        cmocka_unit_test(takes_one_client_alike_in_all_limits_of_a_policy),
        cmocka_unit_test(finds_the_client_by_key_user_tenant_or_network),
        cmocka_unit_test(shows_quotas_to_those_it_enforces_for),
        cmocka_unit_test(keeps_out_those_it_enforces_for),
        cmocka_unit_test(leaves_the_files_own_list_to_the_files_mode),
        cmocka_unit_test(says_what_would_have_become_of_the_request),
        cmocka_unit_test(says_that_too_many_would_have_been_under_way),
        cmocka_unit_test(says_that_a_body_would_have_been_refused),
        cmocka_unit_test(says_that_it_would_have_been_closed_while_the_store_fails),
        cmocka_unit_test(tells_once_of_a_request_that_would_have_been_refused_twice),
        cmocka_unit_test(treats_a_subject_as_its_requests),
        cmocka_unit_test(only_watches_where_it_does_for_one_of_several_subjects),
        cmocka_unit_test(goes_by_the_files_mode_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
