/* Another policy in the place of the one that is in force. */
#include "test.h"

#include <pthread.h>
#include <unistd.h>

#include <weir/weir.h>

#include "by_hand.h"
#include "kept_log.h"
#include "limit/algorithm.h"
#include "limit/limiter_internal.h"

#define SECOND UINT64_C(1000000)

/* files in a folder of the test's own */

static char folder[] = "/tmp/weir-reload-XXXXXX";
static char file[64], keys_file[64];

static void write_to(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

/* Keys "one" and "two", hashed; of a test's own. */
#define KEY_ONE                                                                                    \
    "{\"id\": \"one\", \"sha256\": "                                                               \
    "\"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed\", \"user\": \"ann\"}"
#define KEY_TWO                                                                                    \
    "{\"id\": \"two\", \"sha256\": "                                                               \
    "\"3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3\", \"user\": \"bob\"}"

static void write_keys(const char *keys)
{
    char text[1000];
    snprintf(text, sizeof text, "{\"keys\": [%s]}", keys);
    write_to(keys_file, text);
}

/* A file with one policy "p" for all, with these limits and more of it, and more of the file's. */
static const char *with(const char *limits, const char *more, const char *top)
{
    static char text[4000];
    snprintf(text, sizeof text,
             "{ %s \"api_keys\": {\"header\": \"X-API-Key\", \"file\": \"keys.json\"},"
             "  \"policies\": {\"p\": {\"limits\": [%s]%s}},"
             "  \"routes\": [{\"match\": \"* /*\", \"auth\": \"optional\", \"policy\": \"p\"}] }",
             top, limits, more);
    return text;
}

#define STORE "\"store\": {\"url\": \"memory:\"},"
#define BY_IP "{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"%s\"}"

/* One limit by address. */
static const char *with_rate(const char *rate)
{
    char limit[100];
    snprintf(limit, sizeof limit, "{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"%s\"}", rate);
    return with(limit, "", STORE);
}

/* a program */

static uint64_t now_us;

static uint64_t clock_now(void *self)
{
    (void)self;
    return now_us;
}

static const struct weir_clock test_clock = { .now_us = clock_now };
static struct weir_policy *policy;
static struct weir_store *handle;
static struct weir_limiter *limiter;
static struct weir_chain *chain;

static enum weir_step handle_it(void *self, struct weir_request *request)
{
    (void)self;
    weir_reply_text(request, 200, "done");
    return WEIR_DONE;
}

static void start_with(const char *text, struct weir_limiter_options options)
{
    struct weir_error error = WEIR_NO_ERROR;
    write_to(file, text);
    if (weir_policy_load(file, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    options.size = sizeof options;
    options.policy = policy;
    options.store = handle;
    options.clock = &test_clock;
    options.log = kept_log();
    if (weir_limiter_new(&options, &limiter, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(weir_chain_new(WEIR_CHAIN_OPTIONS(.parked_max = 8), &chain, NULL), WEIR_OK);
}

static void start(const char *text)
{
    start_with(text, (struct weir_limiter_options){ 0 });
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(chain, "*", handle_it, NULL), WEIR_OK);
}

static int set_up(void **state)
{
    (void)state;
    kept_forget();
    by_hand_reset();
    now_us = UINT64_C(1800000000) * SECOND;
    write_keys(KEY_ONE);
    policy = NULL;
    handle = NULL;
    limiter = NULL;
    chain = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_chain_free(chain);
    weir_limiter_free(limiter);
    weir_store_free(handle);
    weir_policy_free(policy);
    return 0;
}

static struct weir_request *request_of(const char *key)
{
    struct weir_request *request = by_hand_request(chain, "GET", "/x");
    by_hand_peer(request, "192.0.2.7");
    if (key != NULL)
        by_hand_header(request, "X-API-Key", key);
    return request;
}

static unsigned get_as(const char *key)
{
    struct weir_request *request = request_of(key);
    unsigned status = by_hand_run(request);
    weir_request_end(request);
    return status;
}

static unsigned get(void)
{
    return get_as(NULL);
}

static enum weir_code reload_to(const char *text)
{
    write_to(file, text);
    return weir_policy_reload(limiter, NULL, NULL);
}

static struct weir_reload_state how(void)
{
    struct weir_reload_state state;
    weir_limiter_reload_state(limiter, &state);
    return state;
}

/* what goes on, and what changes */

static void goes_on_counting_where_it_was(void **state)
{
    (void)state;
    start(with_rate("5/hour"));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(get(), 200);
    assert_int_equal(reload_to(with_rate("5/hour")), WEIR_OK);
    assert_int_equal(get(), 200);
    assert_int_equal(get(), 200);
    assert_int_equal(get(), 429);
}

static void holds_to_new_numbers_at_once(void **state)
{
    (void)state;
    start(with_rate("1/hour"));
    assert_int_equal(get(), 200);
    assert_int_equal(get(), 429);
    assert_int_equal(reload_to(with_rate("unlimited")), WEIR_OK);
    assert_int_equal(get(), 200);
    assert_int_equal(reload_to(with_rate("0/hour")), WEIR_OK);
    assert_int_equal(get(), 429);
}

static void reads_the_keys_file_again(void **state)
{
    (void)state;
    start(with_rate("100/hour"));
    struct weir_request *request = request_of("two");
    by_hand_run(request);
    assert_null(weir_request_api_key(request));
    weir_request_end(request);
    write_keys(KEY_TWO);
    assert_int_equal(weir_policy_reload(limiter, NULL, NULL), WEIR_OK);
    request = request_of("two");
    by_hand_run(request);
    assert_string_equal(weir_request_api_key(request), "two");
    weir_request_end(request);
    request = request_of("one");
    by_hand_run(request);
    assert_null(weir_request_api_key(request));
    weir_request_end(request);
}

static void remembers_which_file_it_was(void **state)
{
    (void)state;
    char other[80];
    snprintf(other, sizeof other, "%s/other.json", folder);
    start(with_rate("1/hour"));
    assert_string_equal(how().file, file);
    write_to(other, with_rate("2/hour"));
    assert_int_equal(weir_policy_reload(limiter, other, NULL), WEIR_OK);
    assert_string_equal(how().file, other);
    write_to(other, with_rate("3/hour"));
    assert_int_equal(weir_policy_reload(limiter, NULL, NULL), WEIR_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(get(), 200);
    assert_int_equal(get(), 429);
    unlink(other);
}

static enum weir_code load_three(void *self, const char *name, struct weir_policy **made,
                                 struct weir_error *error)
{
    assert_string_equal(name, self);
    const char *text = with_rate("3/hour");
    return weir_policy_parse(text, strlen(text), folder, made, error);
}

static void reads_the_file_as_the_application_says(void **state)
{
    (void)state;
    start_with(with_rate("1/hour"),
               (struct weir_limiter_options){ .load = load_three, .load_self = file });
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_policy_reload(limiter, NULL, NULL), WEIR_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_not_equal(get(), 429);
    assert_int_equal(get(), 429);
}

/* how it went */

static void says_how_it_went(void **state)
{
    (void)state;
    start(with_rate("5/hour"));
    struct weir_reload_state first = how();
    assert_int_equal(first.generation, 1);
    assert_int_equal(first.loaded_us, now_us);
    assert_int_equal(first.last_us, 0);
    assert_true(first.last_ok);
    now_us += SECOND;
    assert_int_equal(reload_to(with_rate("6/hour")), WEIR_OK);
    struct weir_reload_state second = how();
    assert_int_equal(second.generation, 2);
    assert_int_equal(second.loaded_us, now_us);
    assert_int_equal(second.last_us, now_us);
    assert_int_equal(second.successes, 1);
    assert_int_equal(second.failures, 0);
    char line[120];
    snprintf(line, sizeof line, "Reloaded %s: generation 2, 1 warning.", file);
    assert_int_equal(kept_lines_of(WEIR_INFO, line), 1);
}

static void changes_nothing_where_the_file_is_bad(void **state)
{
    (void)state;
    start(with_rate("2/hour"));
    uint64_t loaded_us = now_us;
    now_us += SECOND;
    struct weir_error error = WEIR_NO_ERROR;
    write_to(file, with_rate("2/fortnight"));
    assert_int_equal(weir_policy_reload(limiter, NULL, &error), WEIR_E_VALUE);
    assert_string_equal(error.path, "/policies/p/limits/0/rate");
    assert_int_equal(get(), 200);
    assert_int_equal(get(), 200);
    assert_int_equal(get(), 429);
    struct weir_reload_state state_now = how();
    assert_false(state_now.last_ok);
    assert_int_equal(state_now.generation, 1);
    assert_int_equal(state_now.loaded_us, loaded_us);
    assert_int_equal(state_now.last_us, now_us);
    assert_int_equal(state_now.failures, 1);
    assert_non_null(strstr(state_now.why, "fortnight"));
    assert_non_null(strstr(state_now.why, file));
    assert_int_equal(kept_lines("the policy of before stays in force"), 1);
    assert_int_equal(kept_lines(""), 1);
    assert_int_equal(reload_to(with_rate("3/hour")), WEIR_OK);
    assert_true(how().last_ok);
    assert_string_equal(how().why, "");
}

static void changes_nothing_where_the_file_is_gone(void **state)
{
    (void)state;
    start(with_rate("1/hour"));
    unlink(file);
    assert_int_equal(weir_policy_reload(limiter, NULL, NULL), WEIR_E_FILE);
    assert_int_equal(get(), 200);
    assert_int_equal(get(), 429);
    assert_non_null(strstr(how().why, "cannot be read"));
}

static void refuses_what_only_a_restart_can_change(void **state)
{
    (void)state;
    static const struct {
        const char *what, *store, *path;
    } rows[] = {
        { "another store", "{\"url\": \"redis://127.0.0.1:1\"}", "/store/url" },
        { "another prefix", "{\"url\": \"memory:\", \"prefix\": \"other\"}", "/store/prefix" },
        { "another deadline", "{\"url\": \"memory:\", \"timeout\": \"9ms\"}", "/store/timeout" },
        { "another budget", "{\"url\": \"memory:\", \"memory\": \"9MiB\"}", "/store/memory" },
    };
    start(with_rate("1/hour"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char top[200];
        struct weir_error error = WEIR_NO_ERROR;
        snprintf(top, sizeof top, "\"store\": %s,", rows[i].store);
        write_to(file, with("{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"9/hour\"}", "", top));
        if (weir_policy_reload(limiter, NULL, &error) != WEIR_E_STATE)
            fail_msg("%s: %s", rows[i].what, error.text);
        assert_string_equal(error.path, rows[i].path);
        assert_non_null(strstr(error.text, "restart"));
    }
    assert_int_equal(how().failures, COUNT_OF(rows));
    assert_int_equal(get(), 200);
    assert_int_equal(get(), 429);
}

static void lets_be_what_a_file_says_of_a_store_that_the_program_has_opened(void **state)
{
    (void)state;
    assert_int_equal(weir_store_open("memory:", NULL, &handle, NULL), WEIR_OK);
    start(with_rate("1/hour"));
    assert_int_equal(reload_to(with("{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"9/hour\"}", "",
                                    "\"store\": {\"url\": \"redis://127.0.0.1:1\", \"timeout\": "
                                    "\"9ms\"},")),
                     WEIR_OK);
    assert_int_equal(reload_to(with("{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"9/hour\"}", "",
                                    "\"store\": {\"url\": \"memory:\", \"prefix\": \"x\"},")),
                     WEIR_E_STATE);
}

static uint64_t quota_of_all(void)
{
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_peek(limiter, WEIR_SUBJECT(.policy = "p", .ip = "192.0.2.1"), 1,
                                       &verdict, NULL),
                     WEIR_OK);
    return verdict.quotas[0].quota;
}

/* The next reload goes on from what is in force, and not from what was there before. */
static void reads_again_the_file_that_a_program_has_put_in_force(void **state)
{
    (void)state;
    struct weir_policy *next = NULL;
    char other[sizeof file + 8];
    snprintf(other, sizeof other, "%s-other", file);
    start(with_rate("1/hour"));
    write_to(other, with_rate("2/hour"));
    assert_int_equal(weir_policy_load(other, &next, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_replace(limiter, next, NULL), WEIR_OK);
    assert_string_equal(how().file, other);
    write_to(other, with_rate("3/hour"));
    assert_int_equal(weir_policy_reload(limiter, NULL, NULL), WEIR_OK);
    assert_string_equal(how().file, other);
    assert_int_equal(quota_of_all(), 3);

    /* One that is from no file has nothing to be read again. */
    next = NULL;
    const char *text = with_rate("4/hour");
    assert_int_equal(weir_policy_parse(text, strlen(text), folder, &next, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_replace(limiter, next, NULL), WEIR_OK);
    assert_string_equal(how().file, other);
    assert_int_equal(weir_policy_reload(limiter, NULL, NULL), WEIR_OK);
    assert_int_equal(quota_of_all(), 3);
    unlink(other);
}

static void tells_no_password_of_a_store(void **state)
{
    (void)state;
    start(with("{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"9/hour\"}", "",
               "\"store\": {\"url\": \"redis://:old-secret@127.0.0.1:1\"},"));
    struct weir_error error = WEIR_NO_ERROR;
    write_to(file, with("{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"9/hour\"}", "",
                        "\"store\": {\"url\": \"redis://:new-secret@127.0.0.1:1\"},"));
    assert_int_equal(weir_policy_reload(limiter, NULL, &error), WEIR_E_STATE);
    assert_string_equal(error.path, "/store/url");
    assert_null(strstr(error.text, "secret"));
}

static void says_that_no_file_is_known(void **state)
{
    (void)state;
    const char *text = with_rate("1/hour");
    struct weir_error error = WEIR_NO_ERROR;
    assert_int_equal(weir_policy_parse(text, strlen(text), folder, &policy, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, NULL),
                     WEIR_OK);
    assert_int_equal(weir_policy_reload(limiter, NULL, &error), WEIR_E_ARGUMENT);
    assert_int_equal(weir_policy_reload(NULL, file, NULL), WEIR_E_ARGUMENT);
}

static void takes_a_policy_that_was_made(void **state)
{
    (void)state;
    struct weir_policy *next = NULL;
    start(with_rate("1/hour"));
    write_to(file, with_rate("2/hour"));
    assert_int_equal(weir_policy_load(file, &next, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_replace(limiter, next, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_replace(limiter, next, NULL), WEIR_E_ARGUMENT);
    assert_int_equal(weir_limiter_replace(limiter, NULL, NULL), WEIR_E_ARGUMENT);
    assert_int_equal(get(), 200);
    assert_int_equal(get(), 200);
    assert_int_equal(get(), 429);
}

/* requests under way */

static char seen_user[40], seen_policy[40];

static void look_back(void *self, struct weir_request *request)
{
    struct weir_quota quota = { .policy = "" };
    (void)self;
    snprintf(seen_user, sizeof seen_user, "%s", weir_request_user(request));
    weir_request_quotas(request, limiter, &quota, 1);
    snprintf(seen_policy, sizeof seen_policy, "%s", quota.policy);
}

static void lets_a_request_end_by_the_policy_of_its_beginning(void **state)
{
    (void)state;
    start_with(with_rate("5/hour"), (struct weir_limiter_options){ 0 });
    /* Its end comes after that of the limiter, which stands behind it. */
    const struct weir_middleware *last = WEIR_MIDDLEWARE(.name = "log", .on_end = look_back);
    assert_int_equal(weir_chain_use(chain, last), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(chain, "*", handle_it, NULL), WEIR_OK);
    assert_int_equal(reload_to(with_rate("6/hour")), WEIR_OK);
    struct weir_request *request = request_of("one");
    assert_int_equal(by_hand_run(request), 200);
    write_keys(KEY_TWO);
    assert_int_equal(reload_to(with_rate("7/hour")), WEIR_OK);
    assert_int_equal(weir_editions_count(&limiter->editions), 2);
    weir_request_end(request);
    assert_string_equal(seen_user, "ann");
    assert_string_equal(seen_policy, "p");
    assert_int_equal(weir_editions_count(&limiter->editions), 1);
}

static enum weir_step reload_between(void *self, struct weir_request *request)
{
    (void)self, (void)request;
    write_keys(KEY_TWO);
    assert_int_equal(reload_to(with_rate("7/hour")), WEIR_OK);
    return WEIR_NEXT;
}

static void finds_out_who_asks_and_limits_by_one_policy(void **state)
{
    (void)state;
    start_with(with_rate("1/hour"), (struct weir_limiter_options){ 0 });
    const struct weir_middleware *between =
        WEIR_MIDDLEWARE(.name = "between", .on_request = reload_between);
    assert_int_equal(weir_chain_use(chain, weir_identify(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, between), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_any(chain, "*", handle_it, NULL), WEIR_OK);
    assert_int_equal(reload_to(with_rate("1/hour")), WEIR_OK);
    struct weir_request *request = request_of("one");
    assert_int_equal(by_hand_run(request), 200);
    assert_string_equal(weir_request_user(request), "ann");
    const char *field = weir_reply_header(&request->reply, "RateLimit");
    assert_non_null(strstr(field, "r=0"));
    assert_int_equal(weir_editions_count(&limiter->editions), 2);
    weir_request_end(request);
    assert_int_equal(weir_editions_count(&limiter->editions), 1);
}

static void has_verdicts_outlive_their_policy(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    start(with_rate("9/hour"));
    assert_int_equal(
        reload_to(with("{\"name\": \"gone\", \"by\": \"ip\", \"rate\": \"0/hour\"}", "", STORE)),
        WEIR_OK);
    assert_int_equal(weir_limiter_check(limiter, WEIR_SUBJECT(.policy = "p", .ip = "192.0.2.7"), 1,
                                        &verdict, NULL),
                     WEIR_OK);
    assert_false(verdict.allowed);
    assert_int_equal(reload_to(with_rate("9/hour")), WEIR_OK);
    assert_int_equal(reload_to(with_rate("8/hour")), WEIR_OK);
    assert_string_equal(verdict.limit, "gone");
    assert_string_equal(verdict.policy, "p");
    assert_string_equal(verdict.quotas[0].limit, "gone");
}

static void settles_only_what_the_same_limits_have_decided(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    const struct weir_subject *who = WEIR_SUBJECT(.policy = "p", .ip = "192.0.2.7", .cost = 5);
    start(with_rate("9/hour"));
    assert_int_equal(weir_limiter_check(limiter, who, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(
        reload_to(with("{\"name\": \"b\", \"by\": \"ip\", \"rate\": \"9/hour\"}", "", STORE)),
        WEIR_OK);
    assert_int_equal(weir_limiter_settle(limiter, who, 1, &verdict, 1, NULL), WEIR_E_STATE);
    assert_int_equal(reload_to(with_rate("9/hour")), WEIR_OK);
    assert_int_equal(weir_limiter_settle(limiter, who, 1, &verdict, 1, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_peek(limiter, who, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(verdict.quotas[0].remaining, 8);
}

/* Others spend of the limit as it is now: what an older verdict says was spent is not theirs to lose. */
static void gives_nothing_back_that_another_limit_of_the_same_name_holds(void **state)
{
    (void)state;
    static const struct {
        const char *what, *before, *now;
    } rows[] = {
        { "another algorithm", "\"by\": \"ip\", \"rate\": \"10/hour\"",
          "\"by\": \"ip\", \"rate\": \"10/hour\", \"algorithm\": \"fixed-window\"" },
        { "another window",
          "\"by\": \"ip\", \"rate\": \"10/hour\", \"algorithm\": \"fixed-window\"",
          "\"by\": \"ip\", \"rate\": \"10/day\", \"algorithm\": \"fixed-window\"" },
        { "counted by another", "\"by\": \"ip\", \"rate\": \"10/hour\"",
          "\"by\": \"global\", \"rate\": \"10/hour\"" },
        { "of longer units", "\"by\": \"ip\", \"rate\": \"10/minute\"",
          "\"by\": \"ip\", \"rate\": \"10/hour\"" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char before[200], now[200];
        struct weir_verdict old, others, left;
        const struct weir_subject *who = WEIR_SUBJECT(.policy = "p", .ip = "192.0.2.7", .cost = 8);
        const struct weir_subject *six = WEIR_SUBJECT(.policy = "p", .ip = "192.0.2.7", .cost = 6);
        snprintf(before, sizeof before, "{\"name\": \"a\", %s}", rows[i].before);
        snprintf(now, sizeof now, "{\"name\": \"a\", %s}", rows[i].now);
        now_us += 100 * 3600 * SECOND;
        if (i == 0)
            start(with(before, "", STORE));
        else
            assert_int_equal(reload_to(with(before, "", STORE)), WEIR_OK);
        assert_int_equal(weir_limiter_check(limiter, who, 1, &old, NULL), WEIR_OK);
        assert_int_equal(reload_to(with(now, "", STORE)), WEIR_OK);
        assert_int_equal(weir_limiter_check(limiter, six, 1, &others, NULL), WEIR_OK);
        assert_int_equal(weir_limiter_peek(limiter, who, 1, &others, NULL), WEIR_OK);
        if (weir_limiter_settle(limiter, who, 1, &old, 0, NULL) != WEIR_E_STATE)
            fail_msg("%s: it is settled", rows[i].what);
        assert_int_equal(weir_limiter_peek(limiter, who, 1, &left, NULL), WEIR_OK);
        assert_int_equal(left.quotas[0].remaining, others.quotas[0].remaining);
    }
}

static void settles_in_windows_whose_limit_has_changed(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    const struct weir_subject *who = WEIR_SUBJECT(.policy = "p", .ip = "192.0.2.7", .cost = 5);
    start(with("{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"9/hour\", \"algorithm\": "
               "\"fixed-window\"}",
               "", STORE));
    assert_int_equal(weir_limiter_check(limiter, who, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(reload_to(with("{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"20/hour\", "
                                    "\"algorithm\": \"fixed-window\"}",
                                    "", STORE)),
                     WEIR_OK);
    assert_int_equal(weir_limiter_settle(limiter, who, 1, &verdict, 1, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_peek(limiter, who, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(verdict.quotas[0].remaining, 19);
}

static void says_that_a_limit_has_gone_to_who_settles(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    const struct weir_subject *who = WEIR_SUBJECT(.policy = "p", .ip = "192.0.2.7", .cost = 5);
    start(with("{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"9/hour\"},"
               "{\"name\": \"b\", \"by\": \"ip\", \"rate\": \"9/hour\"}",
               "", STORE));
    assert_int_equal(weir_limiter_check(limiter, who, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(reload_to(with_rate("9/hour")), WEIR_OK);
    assert_int_equal(weir_limiter_settle(limiter, who, 1, &verdict, 1, NULL), WEIR_E_STATE);
}

/* what the first policy did not want */

/* A store that is asked, like one of another process: it counts, and answers at once, or later. */
static struct {
    struct weir_state states[8];
    char keys[8][WEIR_KEY_MAX];
    size_t lengths[8], count;
    struct weir_check *pending;
    bool waits, is_away;
    unsigned asked;
} far;

static struct weir_state *far_state(const struct weir_spend *spend)
{
    size_t at = 0;
    while (at < far.count
           && (far.lengths[at] != spend->key_length
               || memcmp(far.keys[at], spend->key, spend->key_length) != 0))
        at++;
    assert_true(at < COUNT_OF(far.states));
    if (at == far.count) {
        memcpy(far.keys[at], spend->key, spend->key_length);
        far.lengths[far.count++] = spend->key_length;
    }
    return &far.states[at];
}

static void far_end(struct weir_check *check)
{
    check->result = far.is_away ? WEIR_STORE_UNAVAILABLE : WEIR_STORE_ANSWERED;
    check->now_us = now_us;
    for (size_t i = 0; i < check->count && !far.is_away; i++) {
        const struct weir_spend *spend = &check->spends[i];
        struct weir_state *state = far_state(spend);
        if (check->operation == WEIR_SETTLE) {
            *state = weir_settle_state(spend, *state, now_us).state;
            continue;
        }
        struct weir_decision_step step = weir_decide(spend, *state, now_us);
        check->answers[i] = step.answer;
        *state = step.state;
    }
    check->done(check);
}

static bool far_ready(void *self)
{
    (void)self;
    return true;
}

static void far_submit(void *self, struct weir_check *check)
{
    (void)self;
    far.asked += check->operation == WEIR_SPEND;
    if (!far.waits) {
        far_end(check);
        return;
    }
    assert_null(far.pending);
    far.pending = check;
    far.waits = false;
}

static void far_cancel(void *self, struct weir_check *check)
{
    (void)self, (void)check;
}

static void far_free(void *self)
{
    (void)self;
}

static const struct weir_store_type far_type = { .size = sizeof(struct weir_store_type),
                                                 .name = "far",
                                                 .ready = far_ready,
                                                 .submit = far_submit,
                                                 .cancel = far_cancel,
                                                 .free = far_free };

#define FAR_STORE "\"store\": {\"url\": \"redis://127.0.0.1:1\", \"denial_cache\": \"%s\"},"

/* A file for it, with a limit and a denial cache. */
static const char *far_with(const char *limit, const char *more, const char *cache)
{
    char top[200];
    snprintf(top, sizeof top, FAR_STORE, cache);
    return with(limit, more, top);
}

static void start_far(const char *text)
{
    memset(&far, 0, sizeof far);
    assert_int_equal(weir_store_new(&far_type, NULL, &handle, NULL), WEIR_OK);
    start(text);
}

static unsigned get_far(void)
{
    struct weir_request *request = request_of("one");
    unsigned status = by_hand_run(request);
    if (status == 0)
        status = by_hand_run(request); /* the store has answered meanwhile */
    weir_request_end(request);
    return status;
}

#define LIMIT_3  "{\"name\": \"a\", \"by\": \"user\", \"rate\": \"3/hour\"}"
#define LIMIT_90 "{\"name\": \"a\", \"by\": \"user\", \"rate\": \"90/hour\", \"burst\": 900}"
#define LEASED                                                                                     \
    "{\"name\": \"a\", \"by\": \"user\", \"rate\": \"90/hour\", \"lease\": {\"batch\": 10}}"

static void begins_to_repeat_refusals(void **state)
{
    (void)state;
    start_far(far_with(LIMIT_3, "", "0s"));
    for (size_t i = 0; i < 4; i++)
        get_far();
    assert_int_equal(get_far(), 429);
    assert_int_equal(far.asked, 5);
    assert_int_equal(reload_to(far_with(LIMIT_3, "", "2s")), WEIR_OK);
    now_us++; /* what was asked at the moment of the reload may be of before */
    assert_int_equal(get_far(), 429);
    now_us += SECOND;
    assert_int_equal(get_far(), 429);
    assert_int_equal(far.asked, 6);
    assert_int_equal(reload_to(far_with(LIMIT_90, "", "2s")), WEIR_OK);
    assert_int_equal(get_far(), 200); /* no refusal of the limit of before is repeated */
    assert_int_equal(reload_to(far_with(LIMIT_3, "", "0s")), WEIR_OK);
    get_far();
    get_far();
    assert_int_equal(far.asked, 9);
}

static void begins_to_fall_back_on_memory(void **state)
{
    (void)state;
    start_far(far_with(LIMIT_3, ", \"on_store_failure\": \"closed\"", "0s"));
    far.is_away = true;
    assert_int_equal(get_far(), 503);
    assert_int_equal(reload_to(far_with(LIMIT_3, ", \"on_store_failure\": \"memory\"", "0s")),
                     WEIR_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(get_far(), 200);
    assert_int_equal(get_far(), 429);
    assert_int_equal(reload_to(far_with(LIMIT_3, ", \"on_store_failure\": \"open\"", "0s")),
                     WEIR_OK);
    assert_int_equal(get_far(), 200);
    assert_int_equal(reload_to(far_with(LIMIT_3, ", \"on_store_failure\": \"memory\"", "0s")),
                     WEIR_OK);
    assert_int_equal(get_far(), 429); /* it still knows */
}

static void begins_to_lease(void **state)
{
    (void)state;
    start_far(far_with(LIMIT_90, "", "0s"));
    get_far();
    assert_int_equal(far.asked, 1);
    assert_int_equal(reload_to(far_with(LEASED, "", "0s")), WEIR_OK);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(get_far(), 200);
    assert_true(far.asked < 4);
    assert_int_equal(weir_leases_numbers(limiter->leases).decided
                         + weir_leases_numbers(limiter->leases).waited,
                     5);
    assert_int_equal(reload_to(far_with(LIMIT_90, "", "0s")), WEIR_OK);
    unsigned asked = far.asked;
    get_far();
    get_far();
    assert_int_equal(far.asked, asked + 2);
}

#define MONTHLY                                                                                    \
    "{\"name\": \"a\", \"by\": \"user\", \"rate\": \"90/month\", \"algorithm\": "                  \
    "\"fixed-window\", \"calendar\": \"Europe/Berlin\", \"lease\": {\"batch\": 10}}"

static void gives_back_what_is_leased_by_the_calendar_it_was_taken_by(void **state)
{
    (void)state;
    start_far(far_with(MONTHLY, "", "0s"));
    assert_int_equal(reload_to(far_with(MONTHLY, "", "0s")), WEIR_OK);
    assert_int_equal(get_far(), 200);
    assert_int_equal(weir_leases_numbers(limiter->leases).held, 9);
    assert_int_equal(reload_to(far_with(MONTHLY, "", "0s")), WEIR_OK);
    assert_int_equal(weir_editions_count(&limiter->editions), 1);
    assert_int_equal(get_far(), 200);
    assert_int_equal(weir_leases_numbers(limiter->leases).given_back, 9);
}

/* Settled by a policy whose requests have not been there yet. */
static void settles_in_the_store_what_an_older_policy_has_leased(void **state)
{
    (void)state;
    struct weir_verdict verdict;
    const struct weir_subject *who = WEIR_SUBJECT(.policy = "p", .user = "ann", .cost = 5);
    start_far(far_with(MONTHLY, "", "0s"));
    assert_int_equal(reload_to(far_with(MONTHLY, "", "0s")), WEIR_OK);
    assert_int_equal(weir_limiter_check(limiter, who, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(reload_to(far_with(MONTHLY, "", "0s")), WEIR_OK);
    assert_int_equal(weir_limiter_settle(limiter, who, 1, &verdict, 1, NULL), WEIR_OK);
    assert_int_equal(weir_leases_numbers(limiter->leases).held, 5);
    assert_int_equal(reload_to(far_with(MONTHLY, "", "0s")), WEIR_OK);
    assert_int_equal(weir_limiter_check(limiter, who, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(weir_leases_numbers(limiter->leases).given_back, 5);
    assert_int_equal(weir_limiter_peek(limiter, who, 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(verdict.quotas[0].remaining, 90 - 1 - 5);
}

static void spends_nothing_that_an_older_policy_has_leased(void **state)
{
    (void)state;
    static const char none[] = "{\"name\": \"a\", \"by\": \"user\", \"rate\": \"0/hour\", "
                               "\"lease\": {\"batch\": 10}}";
    start_far(far_with(LEASED, "", "0s"));
    assert_int_equal(get_far(), 200);
    assert_int_equal(weir_leases_numbers(limiter->leases).held, 9);
    assert_int_equal(reload_to(far_with(none, "", "0s")), WEIR_OK);
    assert_int_equal(get_far(), 429);
}

/* The correction of a request is on its way while the policy of its calendar is replaced. */
static void keeps_a_policy_until_the_store_has_what_it_was_told(void **state)
{
    (void)state;
    static const char limit[] =
        "{\"name\": \"a\", \"by\": \"user\", \"rate\": \"90/month\", \"algorithm\": "
        "\"fixed-window\", \"calendar\": \"UTC\", \"count\": \"failures\"}";
    start_far(far_with(limit, "", "0s"));
    assert_int_equal(reload_to(far_with(limit, "", "0s")), WEIR_OK);
    struct weir_request *request = request_of("one");
    assert_int_equal(by_hand_run(request), 0);
    far.waits = true;
    assert_int_equal(by_hand_run(request), 200);
    weir_request_end(request);
    assert_non_null(far.pending);
    assert_int_equal(reload_to(far_with(limit, "", "0s")), WEIR_OK);
    assert_int_equal(weir_editions_count(&limiter->editions), 2);
    far_end(far.pending);
    assert_int_equal(weir_editions_count(&limiter->editions), 1);
}

/* A request whose answer comes when another policy is in force. */
static struct weir_request *ask_before_a_reload(void)
{
    start_far(far_with(LIMIT_3, "", "0s"));
    assert_int_equal(reload_to(far_with(LIMIT_3, "", "0s")), WEIR_OK);
    struct weir_request *request = request_of("one");
    far.waits = true;
    assert_int_equal(by_hand_run(request), 0);
    assert_int_equal(reload_to(far_with(LIMIT_90, "", "0s")), WEIR_OK);
    assert_int_equal(weir_editions_count(&limiter->editions), 2);
    return request;
}

static void decides_a_request_that_waits_by_the_policy_it_was_asked_by(void **state)
{
    (void)state;
    struct weir_request *request = ask_before_a_reload();
    far_end(far.pending);
    assert_int_equal(by_hand_run(request), 200);
    assert_non_null(strstr(weir_reply_header(&request->reply, "RateLimit-Policy"), "q=3"));
    weir_request_end(request);
    assert_int_equal(weir_editions_count(&limiter->editions), 1);
}

static void takes_another_policy_while_the_server_drains(void **state)
{
    (void)state;
    struct weir_request *request = ask_before_a_reload();
    assert_false(weir_chain_drain(chain, 300));
    assert_int_equal(reload_to(far_with(LIMIT_3, "", "0s")), WEIR_OK);
    assert_int_equal(by_hand_run(request), 503);
    far_end(far.pending);
    weir_request_end(request);
    assert_int_equal(weir_editions_count(&limiter->editions), 1);
}

/* requests at once */

static const char *with_slots(const char *adaptive, const char *parts)
{
    char more[400];
    snprintf(more, sizeof more, ", \"concurrency\": {\"adaptive\": {%s}%s}", adaptive, parts);
    return with("{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"1000/hour\"}", more, STORE);
}

static struct weir_slots *slots_now(void)
{
    return weir_limiter_slots(limiter, "p");
}

static void keeps_the_slots_of_a_back_end(void **state)
{
    (void)state;
    start(with_slots("\"floor\": 2, \"ceiling\": 50, \"initial\": 30", ""));
    struct weir_slots *before = slots_now();
    struct weir_request *request = request_of(NULL);
    weir_slots_take(before, 0);
    assert_int_equal(reload_to(with_slots("\"floor\": 2, \"ceiling\": 20, \"initial\": 5", "")),
                     WEIR_OK);
    assert_ptr_equal(slots_now(), before);
    assert_int_equal(weir_slots_numbers(before).limit, 20); /* and not 5: that is for a start */
    assert_int_equal(weir_slots_numbers(before).in_flight, 1);
    weir_slots_give(before, 0, WEIR_SLOT_UNTOLD, 0, 0);
    weir_request_end(request);
}

static void makes_slots_anew_for_other_parts(void **state)
{
    (void)state;
    start(with_slots("\"floor\": 2, \"ceiling\": 50, \"initial\": 30", ""));
    assert_int_equal(reload_to(with_slots("\"floor\": 2, \"ceiling\": 50, \"initial\": 10",
                                          ", \"partition_by\": \"tenant\", \"partitions\": "
                                          "{\"acme\": 0.5}")),
                     WEIR_OK);
    assert_int_equal(weir_slots_numbers(slots_now()).limit, 30);
    assert_int_equal(get(), 200);
}

static const char *with_fixed(const char *fixed)
{
    char more[100];
    snprintf(more, sizeof more, ", \"concurrency\": {\"by\": \"ip\", \"fixed\": %s}", fixed);
    return with("{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"1000/hour\"}", more, STORE);
}

static void goes_on_counting_requests_at_once(void **state)
{
    (void)state;
    start(with_rate("1000/hour"));
    assert_int_equal(reload_to(with_fixed("1")), WEIR_OK);
    struct weir_request *request = request_of(NULL);
    assert_int_equal(by_hand_run(request), 200);
    assert_int_equal(reload_to(with_fixed("1")), WEIR_OK);
    assert_int_equal(get(), 429);
    assert_int_equal(reload_to(with_fixed("2")), WEIR_OK);
    assert_int_equal(get(), 200);
    weir_request_end(request);
    assert_int_equal(reload_to(with_fixed("1")), WEIR_OK);
    assert_int_equal(get(), 200);
}

/* several threads */

static atomic_uint reloads_left;

static void *reload_often(void *unused)
{
    while (atomic_fetch_sub(&reloads_left, 1) > 1)
        assert_int_equal(weir_policy_reload(limiter, NULL, NULL), WEIR_OK);
    return unused;
}

static void lets_one_reload_wait_for_another(void **state)
{
    (void)state;
    start(with_rate("5/hour"));
    pthread_t threads[2];
    atomic_store(&reloads_left, 51);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reload_often, NULL), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(how().generation, 51);
    assert_int_equal(how().successes, 50);
    assert_int_equal(weir_editions_count(&limiter->editions), 1);
}

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/policy.json", folder);
    snprintf(keys_file, sizeof keys_file, "%s/keys.json", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(file);
    unlink(keys_file);
    return rmdir(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(goes_on_counting_where_it_was),
        TEST(holds_to_new_numbers_at_once),
        TEST(reads_the_keys_file_again),
        TEST(remembers_which_file_it_was),
        TEST(reads_the_file_as_the_application_says),
        TEST(says_how_it_went),
        TEST(changes_nothing_where_the_file_is_bad),
        TEST(changes_nothing_where_the_file_is_gone),
        TEST(refuses_what_only_a_restart_can_change),
        TEST(tells_no_password_of_a_store),
        TEST(lets_be_what_a_file_says_of_a_store_that_the_program_has_opened),
        TEST(reads_again_the_file_that_a_program_has_put_in_force),
        TEST(says_that_no_file_is_known),
        TEST(takes_a_policy_that_was_made),
        TEST(lets_a_request_end_by_the_policy_of_its_beginning),
        TEST(finds_out_who_asks_and_limits_by_one_policy),
        TEST(has_verdicts_outlive_their_policy),
        TEST(settles_only_what_the_same_limits_have_decided),
        TEST(gives_nothing_back_that_another_limit_of_the_same_name_holds),
        TEST(settles_in_windows_whose_limit_has_changed),
        TEST(says_that_a_limit_has_gone_to_who_settles),
        TEST(begins_to_repeat_refusals),
        TEST(begins_to_fall_back_on_memory),
        TEST(begins_to_lease),
        TEST(gives_back_what_is_leased_by_the_calendar_it_was_taken_by),
        TEST(settles_in_the_store_what_an_older_policy_has_leased),
        TEST(spends_nothing_that_an_older_policy_has_leased),
        TEST(keeps_a_policy_until_the_store_has_what_it_was_told),
        TEST(decides_a_request_that_waits_by_the_policy_it_was_asked_by),
        TEST(takes_another_policy_while_the_server_drains),
        TEST(keeps_the_slots_of_a_back_end),
        TEST(makes_slots_anew_for_other_parts),
        TEST(goes_on_counting_requests_at_once),
        TEST(lets_one_reload_wait_for_another),
    };
    return cmocka_run_group_tests_name("reload", tests, make_folder, remove_folder);
}
