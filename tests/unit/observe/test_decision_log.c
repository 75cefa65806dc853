/* The log of decisions: what a line says, and when many become one. */
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <jansson.h>
#include <weir/decisions.h>

#define SECOND UINT64_C(1000000)
#define START  UINT64_C(1772600707008123) /* 2026-03-04T05:05:07.008 */

static _Atomic uint64_t now_us;

static uint64_t read_clock(void *self)
{
    (void)self;
    return now_us;
}

static const struct weir_clock clock_by_hand = { .now_us = read_clock };

/* the lines that were written, as JSON */

static struct {
    pthread_mutex_t mutex;
    json_t *lines; /* [level, line] */
} kept = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void keep(void *self, enum weir_level level, const char *line, size_t length)
{
    json_error_t error;
    assert_ptr_equal(self, &kept);
    assert_int_equal(strlen(line), length);
    json_t *read = json_loads(line, JSON_REJECT_DUPLICATES, &error);
    if (read == NULL)
        fail_msg("no JSON, %s: %s", error.text, line);
    pthread_mutex_lock(&kept.mutex);
    json_array_append_new(kept.lines, json_pack("[i, o]", (int)level, read));
    pthread_mutex_unlock(&kept.mutex);
}

static size_t line_count(void)
{
    pthread_mutex_lock(&kept.mutex);
    size_t count = json_array_size(kept.lines);
    pthread_mutex_unlock(&kept.mutex);
    return count;
}

static const json_t *line_at(size_t index)
{
    const json_t *line = json_array_get(json_array_get(kept.lines, index), 1);
    assert_non_null(line);
    return line;
}

static uint64_t number_in(size_t index, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(line_at(index), name));
}

static void assert_text(size_t index, const char *name, const char *wanted)
{
    const char *text = json_string_value(json_object_get(line_at(index), name));
    if (text == NULL || strcmp(text, wanted) != 0)
        fail_msg("%s is \"%s\", and not \"%s\"", name, text == NULL ? "(none)" : text, wanted);
}

static uint64_t sum_of_counts(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < line_count(); i++)
        sum += number_in(i, "count");
    return sum;
}

/* the log */

static struct weir_decision_log *decisions;

static void open_log(const struct weir_decision_log_options *options)
{
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_decision_log_new(options, &decisions, &error) != WEIR_OK)
        fail_msg("%s", error.text);
}

#define KEEPING .write = keep, .write_self = &kept

static void open_by_hand(void)
{
    open_log(WEIR_DECISION_LOG_OPTIONS(KEEPING, .clock = &clock_by_hand));
}

static int set_up(void **state)
{
    (void)state;
    now_us = START;
    kept.lines = json_array();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    decisions = weir_decision_log_free(decisions);
    json_decref(kept.lines);
    return 0;
}

static struct weir_decision refusal_of(const char *key)
{
    return (struct weir_decision){ .outcome = WEIR_LIMITED,
                                   .would = WEIR_LIMITED,
                                   .time_us = now_us,
                                   .policy = "api",
                                   .limit = "burst",
                                   .key = key,
                                   .client = "acme-free",
                                   .path = "/v1/search",
                                   .count = 1 };
}

static void refuse(const char *key, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        const struct weir_decision decision = refusal_of(key);
        weir_decision_log_add(decisions, &decision);
    }
}

/* lines */

static void says_all_that_is_known_of_a_refusal(void **state)
{
    (void)state;
    open_by_hand();
    const struct weir_decision decision = { .outcome = WEIR_LIMITED,
                                            .would = WEIR_LIMITED,
                                            .method = "GET",
                                            .path = "/v1/search",
                                            .policy = "api",
                                            .limit = "burst",
                                            .client = "acme-free",
                                            .cost = 2,
                                            .retry_s = 8,
                                            .time_us = START,
                                            .instance = "web-1",
                                            .generation = 3,
                                            .request_id = "f00",
                                            .traceparent = "00-ab",
                                            .key = "api_key:acme-free",
                                            .source = "denials",
                                            .status = 429,
                                            .quota = 100,
                                            .remaining = 1,
                                            .window_s = 60,
                                            .reset_s = 59,
                                            .retry_us = 7500000,
                                            .count = 1,
                                            .address = "192.0.2.0/24" };
    weir_decision_log_add(decisions, &decision);
    json_t *wanted = json_pack(
        "{s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, "
        "s:i, s:s, s:s, s:s, s:s, s:i, s:i}",
        "time", "2026-03-04T05:05:07.008Z", "level", "info", "decision", "limited", "status", 429,
        "policy", "api", "limit", "burst", "key", "api_key:acme-free", "client", "acme-free",
        "address", "192.0.2.0/24", "method", "GET", "path", "/v1/search", "cost", 2, "quota", 100,
        "remaining", 1, "window_s", 60, "reset_s", 59, "retry_s", 8, "retry_us", 7500000, "source",
        "denials", "request_id", "f00", "traceparent", "00-ab", "instance", "web-1", "generation",
        3, "count", 1);
    assert_non_null(wanted);
    assert_true(json_equal(line_at(0), wanted));
    json_decref(wanted);
}

static void says_what_would_have_happened_where_a_policy_only_watches(void **state)
{
    (void)state;
    open_by_hand();
    struct weir_decision decision = refusal_of("ip:192.0.2.1/32");
    decision.outcome = WEIR_SHADOW_LIMITED;
    decision.shadow = true;
    decision.status = 429;
    weir_decision_log_add(decisions, &decision);
    assert_text(0, "decision", "shadow-limited");
    assert_text(0, "would", "limited");
    assert_int_equal(number_in(0, "would_status"), 429);
    assert_true(json_is_true(json_object_get(line_at(0), "shadow")));
    assert_null(json_object_get(line_at(0), "status"));
}

static void writes_whatever_a_client_sends_as_valid_json(void **state)
{
    (void)state;
    static const struct {
        const char *sent, *written;
    } rows[] = {
        { "/a\"b\\c", "/a\"b\\c" },
        { "/line\r\n{\"time\":1}", "/line\r\n{\"time\":1}" },
        { "/\x01\x1F\x7F", "/\x01\x1F\x7F" },
        { "/\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "/\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80" },
        { "/\xFF\xC0\xAF\xED\xA0\x80",
          "/\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" },
        { "", "" },
    };
    open_log(WEIR_DECISION_LOG_OPTIONS(KEEPING, .every = true));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_decision decision = refusal_of("ip:192.0.2.1/32");
        decision.path = rows[i].sent;
        weir_decision_log_add(decisions, &decision);
        assert_text(i, "path", rows[i].written);
    }
}

static void has_room_for_the_worst_there_is(void **state)
{
    (void)state;
    char worst[1000], json[WEIR_DECISION_JSON_MAX];
    memset(worst, 0x01, sizeof worst); /* six characters each */
    worst[sizeof worst - 1] = '\0';
    open_by_hand();
    struct weir_decision decision = { .outcome = WEIR_SHADOW_LIMITED,
                                      .would = WEIR_IMPOSSIBLE,
                                      .by_memory = true,
                                      .shadow = true,
                                      .status = 429,
                                      .method = worst,
                                      .path = worst,
                                      .policy = worst,
                                      .limit = worst,
                                      .client = worst,
                                      .failure = worst,
                                      .why = worst,
                                      .instance = worst,
                                      .request_id = worst,
                                      .traceparent = worst,
                                      .key = worst,
                                      .source = worst,
                                      .address = worst,
                                      .cost = UINT64_MAX,
                                      .retry_s = UINT64_MAX,
                                      .time_us = UINT64_MAX,
                                      .generation = UINT64_MAX,
                                      .quota = UINT64_MAX,
                                      .remaining = UINT64_MAX,
                                      .window_s = UINT64_MAX,
                                      .reset_s = UINT64_MAX,
                                      .retry_us = UINT64_MAX,
                                      .count = UINT64_MAX };
    size_t length = weir_decision_json(&decision, json, sizeof json);
    assert_in_range(length, 1, sizeof json - 1);
    assert_int_equal(strlen(json), length);
    assert_int_equal(weir_decision_json(&decision, json, length), SIZE_MAX);
    decision.count = 1;
    decision.cost = decision.retry_s = decision.generation = decision.quota = 1;
    decision.remaining = decision.window_s = decision.reset_s = decision.retry_us = 1;
    weir_decision_log_add(decisions, &decision);
    weir_decision_log_add(decisions, &decision);
    decisions = weir_decision_log_free(decisions);
    assert_int_equal(line_count(), 2);
}

static void calls_failures_of_the_store_a_warning(void **state)
{
    (void)state;
    static const struct {
        struct weir_decision decision;
        enum weir_level level;
    } rows[] = {
        { { .outcome = WEIR_LIMITED }, WEIR_INFO },
        { { .outcome = WEIR_DENIED }, WEIR_INFO },
        { { .outcome = WEIR_ALLOWED, .by_memory = true }, WEIR_INFO },
        { { .outcome = WEIR_FAILED_OPEN, .failure = "timeout" }, WEIR_WARNING },
        { { .outcome = WEIR_FAILED_CLOSED }, WEIR_WARNING },
        { { .outcome = WEIR_BUSY, .failure = "error" }, WEIR_WARNING },
    };
    open_by_hand();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weir_decision_log_add(decisions, &rows[i].decision);
        int level = (int)json_integer_value(json_array_get(json_array_get(kept.lines, i), 0));
        assert_int_equal(level, rows[i].level);
        assert_text(i, "level", level == WEIR_WARNING ? "warning" : "info");
    }
}

static void leaves_out_what_is_below_its_level(void **state)
{
    (void)state;
    const struct weir_decision failure = { .outcome = WEIR_FAILED_OPEN, .failure = "timeout" };
    open_log(WEIR_DECISION_LOG_OPTIONS(KEEPING, .level = WEIR_WARNING, .clock = &clock_by_hand));
    refuse("api_key:a", 3);
    weir_decision_log_add(decisions, &failure);
    weir_decision_log_add(decisions, &failure);
    decisions = weir_decision_log_free(decisions);
    assert_int_equal(line_count(), 2);
    assert_text(0, "decision", "failed-open");
}

/* many that are alike */

static void writes_the_first_at_once_and_the_others_at_the_end_of_the_interval(void **state)
{
    (void)state;
    open_by_hand();
    refuse("api_key:a", 1);
    assert_int_equal(line_count(), 1);
    now_us += SECOND;
    refuse("api_key:a", 6);
    assert_int_equal(line_count(), 1);
    now_us = START + 10 * SECOND - 1;
    weir_decision_log_tick(decisions);
    assert_int_equal(line_count(), 1);
    now_us++;
    weir_decision_log_tick(decisions);
    assert_int_equal(line_count(), 2);
    assert_int_equal(number_in(1, "count"), 6);
    assert_text(1, "key", "api_key:a");
    assert_text(1, "since", "2026-03-04T05:05:08.008Z");
    assert_text(1, "time", "2026-03-04T05:05:08.008Z");
}

static void writes_one_line_an_interval_for_as_long_as_it_goes_on(void **state)
{
    (void)state;
    open_by_hand();
    for (int second = 0; second < 95; second++) {
        refuse("api_key:a", 100);
        now_us += SECOND;
    }
    assert_int_equal(line_count(), 1 + 9);
    for (size_t i = 1; i < 10; i++)
        assert_in_range(number_in(i, "count"), 900, 1100);
    decisions = weir_decision_log_free(decisions);
    assert_int_equal(sum_of_counts(), 9500);
}

static void writes_the_first_at_once_again_after_an_interval_of_silence(void **state)
{
    (void)state;
    open_by_hand();
    refuse("api_key:a", 2);
    now_us += 10 * SECOND;
    weir_decision_log_tick(decisions); /* the second of them */
    now_us += 10 * SECOND;
    weir_decision_log_tick(decisions); /* nothing: it is over */
    assert_int_equal(line_count(), 2);
    refuse("api_key:a", 1);
    assert_int_equal(line_count(), 3);
    assert_null(json_object_get(line_at(2), "since"));
}

static void writes_what_is_due_when_another_decision_comes(void **state)
{
    (void)state;
    open_by_hand();
    refuse("api_key:a", 3);
    now_us += 20 * SECOND;
    refuse("api_key:b", 1);
    assert_int_equal(line_count(), 3);
    assert_int_equal(number_in(1, "count"), 2);
    assert_text(2, "key", "api_key:b");
}

static void tells_kinds_apart(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct weir_decision other;
        bool is_apart;
    } rows[] = {
        { "the key", { .policy = "p", .limit = "l", .key = "b", .outcome = WEIR_LIMITED }, true },
        { "the limit", { .policy = "p", .limit = "m", .key = "a", .outcome = WEIR_LIMITED }, true },
        { "the policy",
          { .policy = "q", .limit = "l", .key = "a", .outcome = WEIR_LIMITED },
          true },
        { "the outcome",
          { .policy = "p", .limit = "l", .key = "a", .outcome = WEIR_IMPOSSIBLE },
          true },
        { "where one text ends",
          { .policy = "pl", .limit = "", .key = "a", .outcome = WEIR_LIMITED },
          true },
        { "not the path",
          { .policy = "p", .limit = "l", .key = "a", .outcome = WEIR_LIMITED, .path = "/x" },
          false },
        { "nor the client where there is a key",
          { .policy = "p", .limit = "l", .key = "a", .outcome = WEIR_LIMITED, .client = "x" },
          false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        const struct weir_decision one = {
            .policy = "p", .limit = "l", .key = "a", .outcome = WEIR_LIMITED
        };
        open_by_hand();
        weir_decision_log_add(decisions, &one);
        weir_decision_log_add(decisions, &rows[i].other);
        assert_int_equal(line_count(), rows[i].is_apart ? 2 : 1);
        decisions = weir_decision_log_free(decisions);
        json_array_clear(kept.lines);
    }
}

static void tells_those_apart_that_no_limit_refuses_by_who_they_are(void **state)
{
    (void)state;
    static const char *const clients[] = { "a", "b", "a" };
    open_by_hand();
    for (size_t i = 0; i < COUNT_OF(clients); i++)
        weir_decision_log_add(
            decisions, &(struct weir_decision){ .outcome = WEIR_DENIED, .client = clients[i] });
    assert_int_equal(line_count(), 2);
    for (size_t i = 0; i < COUNT_OF(clients); i++)
        weir_decision_log_add(decisions, &(struct weir_decision){ .outcome = WEIR_FAILED_OPEN,
                                                                  .client = clients[i] });
    assert_int_equal(line_count(), 3); /* a failure is nobody's */
}

/* too many */

static void counts_those_that_are_too_many_together(void **state)
{
    (void)state;
    char key[32];
    open_log(WEIR_DECISION_LOG_OPTIONS(KEEPING, .kinds = 10, .clock = &clock_by_hand));
    for (unsigned i = 0; i < 3010; i++) {
        snprintf(key, sizeof key, "ip:%u", i);
        refuse(key, 2);
    }
    assert_int_equal(line_count(), 10);
    now_us += 10 * SECOND;
    weir_decision_log_tick(decisions);
    assert_int_equal(line_count(), 10 + 10 + 1);
    assert_int_equal(number_in(20, "count"), 6000);
    assert_in_range(number_in(20, "kinds"), 2700, 3300);
    assert_text(20, "decision", "limited");
    assert_null(json_object_get(line_at(20), "key"));
    assert_int_equal(sum_of_counts(), 6020);
}

static void makes_room_when_kinds_are_over(void **state)
{
    (void)state;
    open_log(WEIR_DECISION_LOG_OPTIONS(KEEPING, .kinds = 1, .clock = &clock_by_hand));
    refuse("api_key:a", 1);
    refuse("api_key:b", 1);
    assert_int_equal(line_count(), 1);
    now_us += 10 * SECOND;
    refuse("api_key:b", 1);
    assert_int_equal(line_count(), 3);
    assert_text(2, "key", "api_key:b");
}

/* all of it */

#define THREADS 4
#define EACH    5000

static void *refuse_some(void *self)
{
    char key[32];
    unsigned first = *(const unsigned *)self;
    for (unsigned i = 0; i < EACH; i++) {
        snprintf(key, sizeof key, "ip:%u", (first + i * 7) % 40);
        refuse(key, 1);
        now_us += 700;
    }
    return NULL;
}

static void loses_no_decision_and_counts_none_twice(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct weir_decision_log_options options;
    } rows[] = {
        { "with a thread of its own", { KEEPING, .interval_ms = 1 } },
        { "with few kinds", { KEEPING, .interval_ms = 1, .kinds = 7 } },
        { "by hand", { KEEPING, .interval_ms = 20, .kinds = 7, .clock = &clock_by_hand } },
        { "a line for each", { KEEPING, .every = true } },
    };
    for (size_t row = 0; row < COUNT_OF(rows); row++) {
        struct weir_decision_log_options options = rows[row].options;
        pthread_t threads[THREADS];
        unsigned firsts[THREADS];
        print_message("    %s\n", rows[row].when);
        options.size = sizeof options;
        open_log(&options);
        for (unsigned i = 0; i < THREADS; i++) {
            firsts[i] = i;
            assert_int_equal(pthread_create(&threads[i], NULL, refuse_some, &firsts[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        decisions = weir_decision_log_free(decisions);
        assert_int_equal(sum_of_counts(), THREADS * EACH);
        json_array_clear(kept.lines);
    }
}

static void writes_the_last_interval_by_itself(void **state)
{
    (void)state;
    open_log(WEIR_DECISION_LOG_OPTIONS(KEEPING, .interval_ms = 1));
    refuse("api_key:a", 1);
    /* Those of one interval may be written before the last one comes. */
    refuse("api_key:a", 2);
    const time_t patience = time(NULL) + 60;
    uint64_t sum = 0;
    while (sum < 3 && time(NULL) < patience) {
        sched_yield();
        pthread_mutex_lock(&kept.mutex);
        sum = 0;
        for (size_t i = 0; i < json_array_size(kept.lines); i++)
            sum += number_in(i, "count");
        pthread_mutex_unlock(&kept.mutex);
    }
    assert_int_equal(sum, 3);
}

static void refuses_options_that_make_no_sense(void **state)
{
    (void)state;
    static const struct {
        struct weir_decision_log_options options;
        enum weir_code code;
        const char *text;
    } rows[] = {
        { { .size = 8 }, WEIR_E_ARGUMENT, "WEIR_DECISION_LOG_OPTIONS" },
        { { .size = sizeof(struct weir_decision_log_options) }, WEIR_E_ARGUMENT, "function" },
        { { .size = sizeof(struct weir_decision_log_options), KEEPING, .kinds = 65537 },
          WEIR_E_VALUE,
          "65537 kinds" },
        { { .size = sizeof(struct weir_decision_log_options),
            KEEPING,
            .level = (enum weir_level)9 },
          WEIR_E_VALUE,
          "9 is no" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_decision_log *made = NULL;
        assert_int_equal(weir_decision_log_new(&rows[i].options, &made, &error), rows[i].code);
        assert_non_null(strstr(error.text, rows[i].text));
        assert_null(made);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(says_all_that_is_known_of_a_refusal),
        TEST(says_what_would_have_happened_where_a_policy_only_watches),
        TEST(writes_whatever_a_client_sends_as_valid_json),
        TEST(has_room_for_the_worst_there_is),
        TEST(calls_failures_of_the_store_a_warning),
        TEST(leaves_out_what_is_below_its_level),
        TEST(writes_the_first_at_once_and_the_others_at_the_end_of_the_interval),
        TEST(writes_one_line_an_interval_for_as_long_as_it_goes_on),
        TEST(writes_the_first_at_once_again_after_an_interval_of_silence),
        TEST(writes_what_is_due_when_another_decision_comes),
        TEST(tells_kinds_apart),
        TEST(tells_those_apart_that_no_limit_refuses_by_who_they_are),
        TEST(counts_those_that_are_too_many_together),
        TEST(makes_room_when_kinds_are_over),
        TEST(loses_no_decision_and_counts_none_twice),
        TEST(writes_the_last_interval_by_itself),
        TEST(refuses_options_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
