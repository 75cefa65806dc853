#include "test.h"

#include <jansson.h>

#include "headers/ratelimit.h"
#include "policy/policy.h"

#define SECOND UINT64_C(1000000)
#define NOW_US (UINT64_C(1767225600) * SECOND)

enum { D11 = WEIR_HEADERS_DRAFT_11, D7 = WEIR_HEADERS_DRAFT_7, D6 = WEIR_HEADERS_DRAFT_6 };
enum { LEGACY = WEIR_HEADERS_LEGACY };

/* Of requests in a window, and nothing was written of it before. */
#define PLAIN                                                                                      \
    NULL, { NULL, 0 },                                                                             \
    {                                                                                              \
        NULL, 0                                                                                    \
    }

static const struct weir_quota_field burst_and_daily[] = {
    { "burst", 100, 2 * SECOND, 99, 20000, false, PLAIN },
    { "daily", 100000, 86400 * SECOND, 99999, 41233 * SECOND, false, PLAIN },
};

struct response {
    char memory[1024];
    struct weir_field_line lines[WEIR_FIELD_LINES_MAX];
    size_t count;
    char text[1200]; /* "name: value\n" for each line */
};

static const char *respond(struct response *response, unsigned forms, bool clamp,
                           const struct weir_quota_field *limits, size_t count)
{
    struct weir_buffer memory = weir_buffer_init(response->memory, sizeof response->memory);
    response->count =
        weir_ratelimit_lines(forms, clamp, limits, count, NOW_US, &memory, response->lines);
    struct weir_buffer text = weir_buffer_init(response->text, sizeof response->text);
    for (size_t i = 0; i < response->count; i++) {
        weir_buffer_put_string(&text, response->lines[i].name);
        weir_buffer_put_string(&text, ": ");
        weir_buffer_put_string(&text, response->lines[i].value);
        weir_buffer_put_char(&text, '\n');
    }
    return weir_buffer_string(&text);
}

static const char *value_of(const struct response *response, const char *name)
{
    for (size_t i = 0; i < response->count; i++)
        if (strcmp(response->lines[i].name, name) == 0)
            return response->lines[i].value;
    return "";
}

static void writes_the_same_with_what_was_prepared(void **state)
{
    (void)state;
    struct weir_quota_field limits[] = {
        { "burst", 100, 2 * SECOND, 99, 20000, false, PLAIN },
        { "say \"daily\"", UINT64_MAX, 86400 * SECOND, 5, 41233 * SECOND, true, PLAIN },
        { "concurrency", 10, 0, 0, 0, false, "concurrent-requests", { NULL, 0 }, { NULL, 0 } },
    };
    char memory[COUNT_OF(limits)][2][100];
    struct response anew, prepared;
    respond(&anew, D11 | D6, true, limits, COUNT_OF(limits));
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct weir_buffer item = weir_buffer_init(memory[i][0], sizeof memory[i][0]);
        struct weir_buffer head = weir_buffer_init(memory[i][1], sizeof memory[i][1]);
        assert_true(weir_ratelimit_prepare(&limits[i], &item, &head));
        limits[i].policy_item = weir_buffer_text(&item);
        limits[i].item_head = weir_buffer_text(&head);
    }
    respond(&prepared, D11 | D6, true, limits, COUNT_OF(limits));
    assert_string_equal(prepared.text, anew.text);

    /* It is what was prepared that is written. */
    limits[0].policy_item = WEIR_TEXT("here");
    respond(&prepared, D11, true, limits, 1);
    assert_string_equal(value_of(&prepared, "RateLimit-Policy"), "here");

    struct weir_buffer little = weir_buffer_init(memory[0][0], 4);
    struct weir_buffer enough = weir_buffer_init(memory[0][1], sizeof memory[0][1]);
    assert_false(weir_ratelimit_prepare(&limits[1], &little, &enough));
    limits[1].name = "line\nbreak";
    enough = weir_buffer_init(memory[0][1], sizeof memory[0][1]);
    struct weir_buffer item = weir_buffer_init(memory[1][0], sizeof memory[1][0]);
    assert_false(weir_ratelimit_prepare(&limits[1], &item, &enough));
}

static void writes_each_form_canonically(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        unsigned forms;
        const char *wanted;
    } rows[] = {
        { "no form", 0, "" },
        { "draft-11 lists every limit", D11,
          "RateLimit-Policy: \"burst\";q=100;w=2, \"daily\";q=100000;w=86400\n"
          "RateLimit: \"burst\";r=99;t=1, \"daily\";r=99999;t=41233\n" },
        { "draft-7 shows one", D7,
          "RateLimit-Policy: 100;w=2\n"
          "RateLimit: limit=100, remaining=99, reset=1\n" },
        { "draft-6 shows one", D6,
          "RateLimit-Policy: 100;w=2\n"
          "RateLimit-Limit: 100\nRateLimit-Remaining: 99\nRateLimit-Reset: 1\n" },
        { "legacy tells the time of day", LEGACY,
          "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 99\nX-RateLimit-Reset: 1767225601\n" },
        { "drafts 7 and 6 share one policy line", D7 | D6,
          "RateLimit-Policy: 100;w=2\n"
          "RateLimit: limit=100, remaining=99, reset=1\n"
          "RateLimit-Limit: 100\nRateLimit-Remaining: 99\nRateLimit-Reset: 1\n" },
        { "draft-11 keeps its two names to itself", D11 | D7,
          "RateLimit-Policy: \"burst\";q=100;w=2, \"daily\";q=100000;w=86400\n"
          "RateLimit: \"burst\";r=99;t=1, \"daily\";r=99999;t=41233\n" },
        { "draft-6 beside draft-11 brings its own names only", D11 | D6,
          "RateLimit-Policy: \"burst\";q=100;w=2, \"daily\";q=100000;w=86400\n"
          "RateLimit: \"burst\";r=99;t=1, \"daily\";r=99999;t=41233\n"
          "RateLimit-Limit: 100\nRateLimit-Remaining: 99\nRateLimit-Reset: 1\n" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct response response;
        assert_string_equal(respond(&response, rows[i].forms, false, burst_and_daily, 2),
                            rows[i].wanted);
    }
}

static void never_uses_a_field_name_twice(void **state)
{
    (void)state;
    for (unsigned forms = 0; forms < 16; forms++) {
        struct response response;
        respond(&response, forms, false, burst_and_daily, 2);
        assert_int_equal(response.count > 0, forms != 0);
        for (size_t i = 0; i < response.count; i++)
            for (size_t j = 0; j < i; j++)
                assert_string_not_equal(response.lines[i].name, response.lines[j].name);
    }
}

static void shows_the_limit_that_matters_most(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct weir_quota_field limits[3];
        bool clamp;
        const char *wanted;
    } rows[] = {
        { "the least remaining",
          { { "a", 10, SECOND, 9, 1, false, PLAIN },
            { "b", 20, SECOND, 3, 1, false, PLAIN },
            { "c", 30, SECOND, 4, 1, false, PLAIN } },
          false,
          "20" },
        { "of equals the longest window",
          { { "a", 10, SECOND, 3, 1, false, PLAIN },
            { "b", 20, 60 * SECOND, 3, 1, false, PLAIN },
            { "c", 30, 2 * SECOND, 3, 1, false, PLAIN } },
          false,
          "20" },
        { "a refusal before any that has less left",
          { { "a", 10, SECOND, 0, 1, false, PLAIN },
            { "b", 20, SECOND, 5, 1, true, PLAIN },
            { "c", 30, 60 * SECOND, 0, 1, false, PLAIN } },
          false,
          "20" },
        { "of refusals the longest wait, to the microsecond",
          { { "a", 10, 60 * SECOND, 0, 5, true, PLAIN },
            { "b", 20, SECOND, 0, 6, true, PLAIN },
            { "c", 30, SECOND, 0, 5, true, PLAIN } },
          false,
          "20" },
        { "what remains as it is announced, not as it is",
          { { "a", 10, SECOND, 9, SECOND, false, PLAIN },
            { "b", 1000, 1000 * SECOND, 900, SECOND, false, PLAIN },
            { "c", 30, SECOND, 8, SECOND, false, PLAIN } },
          true,
          "1000" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct response response;
        respond(&response, D6, rows[i].clamp, rows[i].limits, 3);
        assert_string_equal(value_of(&response, "RateLimit-Limit"), rows[i].wanted);
    }
}

static void lists_requests_at_once_in_the_policy_of_draft_11_alone(void **state)
{
    (void)state;
    static const struct weir_quota_field limits[] = {
        { "burst", 100, 2 * SECOND, 99, 20000, false, PLAIN },
        { "concurrency", 10, 0, 0, 0, false, "concurrent-requests", { NULL, 0 }, { NULL, 0 } },
    };
    static const struct {
        const char *when;
        unsigned forms;
        size_t first;
        const char *wanted;
    } rows[] = {
        { "beside a limit", D11, 0,
          "RateLimit-Policy: \"burst\";q=100;w=2, \"concurrency\";q=10;qu=\"concurrent-requests\"\n"
          "RateLimit: \"burst\";r=99;t=1\n" },
        { "alone", D11, 1, "RateLimit-Policy: \"concurrency\";q=10;qu=\"concurrent-requests\"\n" },
        { "draft-7 shows the limit", D7, 0,
          "RateLimit-Policy: 100;w=2\nRateLimit: limit=100, remaining=99, reset=1\n" },
        { "older forms have no word for it", D7 | D6 | LEGACY, 1, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct response response;
        assert_string_equal(respond(&response, rows[i].forms, false, limits + rows[i].first,
                                    COUNT_OF(limits) - rows[i].first),
                            rows[i].wanted);
    }
}

static void clamps_what_remains_to_the_share_of_the_window(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct weir_quota_field limit;
        const char *wanted;
        const char *unclamped;
    } rows[] = {
        { "ten seconds of a thousand",
          { "d", 10000, 1000 * SECOND, 10000, 10 * SECOND, false, PLAIN },
          "\"d\";r=100;t=10",
          "\"d\";r=10000;t=10" },
        { "a whole window",
          { "d", 10000, 1000 * SECOND, 10000, 1000 * SECOND, false, PLAIN },
          "\"d\";r=10000;t=1000",
          "\"d\";r=10000;t=1000" },
        { "less than the share stays",
          { "d", 10000, 1000 * SECOND, 99, 10 * SECOND, false, PLAIN },
          "\"d\";r=99;t=10",
          "\"d\";r=99;t=10" },
        { "a share below one is one",
          { "d", 5, 60 * SECOND, 4, 3 * SECOND, false, PLAIN },
          "\"d\";r=1;t=3",
          "\"d\";r=4;t=3" },
        { "a share that is not whole is rounded down",
          { "d", 7, 10 * SECOND, 7, 4 * SECOND, false, PLAIN },
          "\"d\";r=2;t=4",
          "\"d\";r=7;t=4" },
        { "nothing left stays nothing",
          { "d", 5, 60 * SECOND, 0, 3 * SECOND, false, PLAIN },
          "\"d\";r=0;t=3",
          "\"d\";r=0;t=3" },
        { "no time left counts as a second",
          { "d", 120, 60 * SECOND, 120, 0, false, PLAIN },
          "\"d\";r=2;t=0",
          "\"d\";r=120;t=0" },
        { "the largest numbers",
          { "d", UINT64_MAX, WEIR_WINDOW_MAX_US, UINT64_MAX, WEIR_WINDOW_MAX_US - SECOND, false,
            PLAIN },
          "\"d\";r=999999968376845;t=31622399",
          "\"d\";r=999999999999999;t=31622399" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct response response;
        respond(&response, D11, true, &rows[i].limit, 1);
        assert_string_equal(value_of(&response, "RateLimit"), rows[i].wanted);
        respond(&response, D11, false, &rows[i].limit, 1);
        assert_string_equal(value_of(&response, "RateLimit"), rows[i].unclamped);
    }
}

static void keeps_every_number_an_integer_of_the_format(void **state)
{
    (void)state;
    static const struct weir_quota_field largest = { "d",        UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                                     UINT64_MAX, true,       PLAIN };
    static const struct weir_quota_field smallest = { "d", 0, 0, 0, 0, false, PLAIN };
    static const struct weir_quota_field more_than_all = {
        "d", 5, 60 * SECOND, 6, 0, false, PLAIN
    };
    for (int clamp = 0; clamp < 2; clamp++) {
        struct response response;
        assert_string_equal(respond(&response, D11 | LEGACY, clamp, &largest, 1),
                            "RateLimit-Policy: \"d\";q=999999999999999;w=18446744073710\n"
                            "RateLimit: \"d\";r=999999999999999;t=18446744073710\n"
                            "X-RateLimit-Limit: 999999999999999\n"
                            "X-RateLimit-Remaining: 999999999999999\n"
                            "X-RateLimit-Reset: 18446744073710\n");
        assert_string_equal(respond(&response, D11, clamp, &smallest, 1),
                            "RateLimit-Policy: \"d\";q=0;w=1\nRateLimit: \"d\";r=0;t=0\n");
    }
    struct response response;
    respond(&response, D11, false, &more_than_all, 1);
    assert_string_equal(value_of(&response, "RateLimit"), "\"d\";r=5;t=0");
}

/* D7: nothing to wait for is a number too, not a field that is missing. */
static void says_that_a_reset_is_due_now(void **state)
{
    (void)state;
    static const struct weir_quota_field full = { "d", 5, 60 * SECOND, 5, 0, false, PLAIN };
    static const struct {
        unsigned forms;
        const char *wanted;
    } rows[] = {
        { D11, "RateLimit-Policy: \"d\";q=5;w=60\nRateLimit: \"d\";r=5;t=0\n" },
        { D7, "RateLimit-Policy: 5;w=60\nRateLimit: limit=5, remaining=5, reset=0\n" },
        { D6, "RateLimit-Policy: 5;w=60\n"
              "RateLimit-Limit: 5\nRateLimit-Remaining: 5\nRateLimit-Reset: 0\n" },
        { LEGACY, "X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 5\n"
                  "X-RateLimit-Reset: 1767225600\n" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct response response;
        assert_string_equal(respond(&response, rows[i].forms, false, &full, 1), rows[i].wanted);
    }
}

static void escapes_names_and_refuses_those_that_cannot_stand(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *name;
        const char *wanted;
    } rows[] = {
        { "quotes and backslashes", "a\"b\\c", "\"a\\\"b\\\\c\";q=1;w=1" },
        { "a name that looks like more fields", "x, \"y\";q=9", "\"x, \\\"y\\\";q=9\";q=1;w=1" },
        { "a line break", "a\r\nb", NULL },
        { "UTF-8", "caf\xC3\xA9", NULL },
        { "the delete byte", "\x7F", NULL },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_quota_field limits[] = { { "fine", 1, SECOND, 0, 0, false, PLAIN },
                                             { rows[i].name, 1, SECOND, 0, 0, false, PLAIN } };
        struct response response;
        respond(&response, D11, false, &limits[1], 1);
        if (rows[i].wanted != NULL)
            assert_string_equal(value_of(&response, "RateLimit-Policy"), rows[i].wanted);
        else
            assert_int_equal(response.count, 0);
        respond(&response, D11 | LEGACY, false, limits, 2);
        assert_int_equal(response.count, rows[i].wanted != NULL ? 5 : 0);
    }
}

static void makes_no_lines_of_nothing_or_too_much(void **state)
{
    (void)state;
    static const struct weir_quota_field ten[10] = { { "d", 1, SECOND, 1, 0, false, PLAIN } };
    struct response response;
    respond(&response, D11, false, ten, 0);
    assert_int_equal(response.count, 0);
    respond(&response, D11, false, ten, 10);
    assert_int_equal(response.count, 0);
    respond(&response, D11, false, ten, 9);
    assert_int_equal(response.count, 2);
}

static void makes_all_lines_or_none_when_memory_is_small(void **state)
{
    (void)state;
    struct response whole;
    respond(&whole, D11 | D6 | LEGACY, false, burst_and_daily, 2);
    size_t needed = 1; /* what a weir_buffer keeps free for its NUL */
    for (size_t i = 0; i < whole.count; i++)
        needed += strlen(whole.lines[i].value) + 1;

    for (size_t size = 1; size <= needed; size++) {
        char *exact = malloc(size); /* so that a sanitizer sees the end */
        assert_non_null(exact);
        struct weir_buffer memory = weir_buffer_init(exact, size);
        struct weir_field_line lines[WEIR_FIELD_LINES_MAX];
        size_t count = weir_ratelimit_lines(D11 | D6 | LEGACY, false, burst_and_daily, 2, NOW_US,
                                            &memory, lines);
        assert_int_equal(count, size == needed ? whole.count : 0);
        for (size_t i = 0; i < count; i++)
            assert_string_equal(lines[i].value, whole.lines[i].value);
        free(exact);
    }
}

static void rounds_seconds_up(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t us, wanted;
    } rows[] = {
        { "nothing", 0, 0 },
        { "a microsecond", 1, 1 },
        { "just below", SECOND - 1, 1 },
        { "exactly one", SECOND, 1 },
        { "just above", SECOND + 1, 2 },
        { "the largest", UINT64_MAX, UINT64_C(18446744073710) },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        assert_int_equal(weir_seconds_up(rows[i].us), rows[i].wanted);
    }
}

/* cases/ratelimit_headers.json: what another product sends for the same numbers. */

struct row {
    json_t *json;
    json_t *lines; /* theirs: [name, value] each */
    unsigned forms;
    struct weir_quota_field limits[2];
    size_t count;
    char names[2][64];
    bool refused;
};

/* The value of their `nth` line of a name, or NULL. */
static const char *theirs(const struct row *row, const char *name, size_t nth)
{
    for (size_t i = 0; i < json_array_size(row->lines); i++) {
        json_t *line = json_array_get(row->lines, i);
        if (strcmp(json_string_value(json_array_get(line, 0)), name) == 0 && nth-- == 0)
            return json_string_value(json_array_get(line, 1));
    }
    return NULL;
}

static uint64_t us_of(json_t *limiter, const char *key)
{
    json_int_t ms = json_integer_value(json_object_get(limiter, key));
    return ms < 0 ? 0 : (uint64_t)ms * 1000; /* a reset that is past is now */
}

static uint64_t units_of(json_t *limiter, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(limiter, key));
}

static unsigned forms_of(json_t *limiter)
{
    const char *draft = json_string_value(json_object_get(limiter, "draft"));
    unsigned forms = json_is_true(json_object_get(limiter, "legacy")) ? LEGACY : 0;
    if (draft == NULL)
        return forms;
    if (strcmp(draft, "draft-6") == 0)
        return forms | D6;
    return forms | (strcmp(draft, "draft-7") == 0 ? (unsigned)D7 : (unsigned)D11);
}

static struct weir_quota_field limit_of(json_t *limiter)
{
    uint64_t quota = units_of(limiter, "limit"), used = units_of(limiter, "used");
    bool knows_reset = json_is_integer(json_object_get(limiter, "reset_ms"));
    return (struct weir_quota_field){
        .quota = quota,
        .window_us = us_of(limiter, "window_ms"),
        .remaining = used < quota ? quota - used : 0,
        .after_us = us_of(limiter, knows_reset ? "reset_ms" : "window_ms"),
        .refused = used > quota,
    };
}

static struct row row_read(json_t *json)
{
    struct row row = { .json = json };
    row.lines = json_object_get(json_object_get(json, "expected"), "headers");
    json_t *limiters = json_object_get(json, "limiters");
    row.count = json_array_size(limiters);
    row.forms = forms_of(json_array_get(limiters, 0));
    for (size_t i = 0; i < row.count; i++) {
        row.limits[i] = limit_of(json_array_get(limiters, i));
        row.refused = row.refused || row.limits[i].refused;
        strcpy(row.names[i], "unnamed");
        const char *line = theirs(&row, "RateLimit", i);
        if (line != NULL)
            sscanf(line, "\"%63[^\"]", row.names[i]);
    }
    return row;
}

/* Where their meaning is ours: of several limiters that all allow, they show the last. */
static bool row_applies(const struct row *row)
{
    return row->count == 1 || row->refused || row->forms == D11;
}

/* Their line in our text: no blank after ";", no partition key, one line for all limiters. */
static void append_canonical(char *all, const char *value)
{
    if (all[0] != '\0')
        strcat(all, ", ");
    char *to = all + strlen(all);
    for (const char *from = value; *from != '\0' && strncmp(from, "; pk=", 5) != 0; from++)
        if (!(from > value && from[-1] == ';' && *from == ' '))
            *to++ = *from;
    *to = '\0';
}

static void check_lines(const struct row *row, const struct response *response)
{
    static const char *const names[] = {
        "RateLimit",       "RateLimit-Policy",  "RateLimit-Limit",   "RateLimit-Remaining",
        "RateLimit-Reset", "X-RateLimit-Limit", "X-RateLimit-Reset", "X-RateLimit-Remaining",
    };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char wanted[256] = "";
        for (size_t nth = 0; theirs(row, names[i], nth) != NULL; nth++)
            append_canonical(wanted, theirs(row, names[i], nth));
        assert_string_equal(value_of(response, names[i]), wanted);
    }
}

/* Before the limiter raises a 0 to 1; one row sets the number by hand. */
static void check_wait(const struct row *row)
{
    const char *wait = theirs(row, "Retry-After", 0);
    json_t *limiter = json_array_get(json_object_get(row->json, "limiters"), 0);
    if (wait == NULL || json_object_get(limiter, "retry_after") != NULL)
        return;
    const struct weir_quota_field *refused = &row->limits[row->limits[0].refused ? 0 : 1];
    assert_int_equal(weir_seconds_up(refused->after_us), strtoull(wait, NULL, 10));
}

static void check_row(struct row *row, uint64_t now_us)
{
    for (size_t i = 0; i < row->count; i++)
        row->limits[i].name = row->names[i];

    struct response response;
    struct weir_buffer memory = weir_buffer_init(response.memory, sizeof response.memory);
    response.count = weir_ratelimit_lines(row->forms, false, row->limits, row->count, now_us,
                                          &memory, response.lines);
    assert_int_not_equal(response.count, 0);
    check_lines(row, &response);
    check_wait(row);
}

static void agrees_with_what_others_send(void **state)
{
    (void)state;
    char file[512];
    snprintf(file, sizeof file, "%s/ratelimit_headers.json", getenv("WEIR_CASES"));
    json_t *root = json_load_file(file, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    uint64_t now_us = us_of(json_object_get(root, "meta"), "now_ms");

    json_t *cases = json_object_get(root, "cases");
    size_t applied = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        struct row row = row_read(json_array_get(cases, i));
        if (!row_applies(&row))
            continue;
        print_message("    %s %s\n", json_string_value(json_object_get(row.json, "id")),
                      json_string_value(json_object_get(row.json, "name")));
        check_row(&row, now_us);
        applied++;
    }
    assert_int_equal(json_array_size(cases), 90);
    assert_int_equal(applied, 89);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_each_form_canonically),
        cmocka_unit_test(writes_the_same_with_what_was_prepared),
        cmocka_unit_test(never_uses_a_field_name_twice),
        cmocka_unit_test(shows_the_limit_that_matters_most),
        cmocka_unit_test(lists_requests_at_once_in_the_policy_of_draft_11_alone),
        cmocka_unit_test(clamps_what_remains_to_the_share_of_the_window),
        cmocka_unit_test(keeps_every_number_an_integer_of_the_format),
        cmocka_unit_test(says_that_a_reset_is_due_now),
        cmocka_unit_test(escapes_names_and_refuses_those_that_cannot_stand),
        cmocka_unit_test(makes_no_lines_of_nothing_or_too_much),
        cmocka_unit_test(makes_all_lines_or_none_when_memory_is_small),
        cmocka_unit_test(rounds_seconds_up),
        cmocka_unit_test(agrees_with_what_others_send),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
