#include "test.h"

#include <jansson.h>

#include "reply/problem.h"

static const char *written(const struct weir_problem *problem)
{
    static char memory[512];
    struct weir_buffer json = weir_buffer_init(memory, sizeof memory);
    weir_problem_write(problem, &json);
    return weir_buffer_string(&json);
}

static void writes_members_in_the_order_of_the_rfc(void **state)
{
    (void)state;
    static const char *const violated[] = { "burst", "a \"daily\" one" };
    static const struct {
        const char *when;
        struct weir_problem problem;
        const char *wanted;
    } rows[] = {
        { "a refusal that shows everything",
          { WEIR_PROBLEM_QUOTA_EXCEEDED, 429, NULL, "Wait 8 seconds.", violated, 2 },
          "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
          "\"title\":\"Quota Exceeded\",\"status\":429,\"detail\":\"Wait 8 seconds.\","
          "\"violated-policies\":[\"burst\",\"a \\\"daily\\\" one\"]}" },
        { "one violated policy",
          { WEIR_PROBLEM_QUOTA_EXCEEDED, 429, NULL, NULL, violated, 1 },
          "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
          "\"title\":\"Quota Exceeded\",\"status\":429,\"violated-policies\":[\"burst\"]}" },
        { "a store that failed",
          { .type = WEIR_PROBLEM_REDUCED_CAPACITY, .status = 503 },
          "{\"type\":\"https://iana.org/assignments/http-problem-types"
          "#temporary-reduced-capacity\","
          "\"title\":\"Temporary Reduced Capacity\",\"status\":503}" },
        { "a blank type takes the reason phrase",
          { .status = 401, .detail = "Send a key." },
          "{\"type\":\"about:blank\",\"title\":\"Unauthorized\",\"status\":401,"
          "\"detail\":\"Send a key.\"}" },
        { "a title of one's own",
          { .status = 422, .title = "No \\ such thing" },
          "{\"type\":\"about:blank\",\"title\":\"No \\\\ such thing\",\"status\":422}" },
        { "a status nobody has named",
          { .status = 599 },
          "{\"type\":\"about:blank\",\"status\":599}" },
        { "an empty list is no list",
          { .status = 404, .violated = violated },
          "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404}" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        assert_string_equal(written(&rows[i].problem), rows[i].wanted);
    }
}

static void stays_json_whatever_the_detail_holds(void **state)
{
    (void)state;
    for (int byte = 1; byte < 256; byte++) {
        const char detail[] = { 'a', (char)byte, '"', '\0' };
        json_t *root =
            json_loads(written(&(struct weir_problem){ .status = 400, .detail = detail }),
                       JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(root);
        assert_int_equal(json_object_size(root), 4);
        json_decref(root);
    }
}

static void says_when_the_memory_is_too_small(void **state)
{
    (void)state;
    char memory[40];
    struct weir_buffer json = weir_buffer_init(memory, sizeof memory);
    weir_problem_write(&(struct weir_problem){ .status = 404, .detail = "Nothing is here." },
                       &json);
    assert_null(weir_buffer_string(&json));
}

static void knows_reason_phrases(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        unsigned status;
        const char *wanted;
    } rows[] = {
        { "the first", 100, "Continue" },
        { "renamed by RFC 9110", 413, "Content Too Large" },
        { "of RFC 6585", 429, "Too Many Requests" },
        { "the last", 505, "HTTP Version Not Supported" },
        { "one that was taken back", 418, "" },
        { "none", 0, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        assert_string_equal(weir_status_phrase(rows[i].status), rows[i].wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_members_in_the_order_of_the_rfc),
        cmocka_unit_test(stays_json_whatever_the_detail_holds),
        cmocka_unit_test(says_when_the_memory_is_too_small),
        cmocka_unit_test(knows_reason_phrases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
