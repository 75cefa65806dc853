#include "test.h"

#include <stdlib.h>

#include "tools/access_log.h"

#define MARCH_4 UINT64_C(1772582400000000) /* 2026-03-04T00:00:00Z */
#define TIME    "[04/Mar/2026:05:06:07 +0000]"
#define AT      (MARCH_4 + (5 * 3600 + 6 * 60 + 7) * UINT64_C(1000000))

/* times */

static void reads_times_as_logs_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t want_us; /* 0: it is none */
        bool is_whole_second;
    } rows[] = {
        { "04/Mar/2026:05:06:07 +0000", AT, true },
        { "04/Mar/2026:05:06:07 +0130", AT - UINT64_C(5400000000), true },
        { "03/Mar/2026:23:06:07 -0600", AT, true },
        { "29/Feb/2024:00:00:00 +0000", UINT64_C(1709164800000000), true },
        { "31/Dec/2199:23:59:59 +0000", UINT64_C(7258118399000000), true },
        { "2026-03-04T05:06:07Z", AT, true },
        { "2026-03-04 05:06:07", AT, true },
        { "2026-03-04t05:06:07z", AT, true },
        { "2026-03-04T05:06:07.25Z", AT + 250000, false },
        { "2026-03-04T05:06:07,250+00:00", AT + 250000, false },
        { "2026-03-04T07:06:07.1234567890+02:00", AT + 123456, false },
        { "2026-03-04T05:06:07.000Z", AT, false },
        { "2026-03-04", MARCH_4, true },
        { "1772582400", MARCH_4, true },
        { "1772582400.008", MARCH_4 + 8000, false },
        { "1772582400008", MARCH_4 + 8000, false },
        { "1772582400008123", MARCH_4 + 8123, false },
        { "1772582400008123456", MARCH_4 + 8123, false },
        { "29/Feb/2026:00:00:00 +0000", 0, true },
        { "31/Apr/2026:00:00:00 +0000", 0, true },
        { "00/Mar/2026:00:00:00 +0000", 0, true },
        { "04/Mrz/2026:00:00:00 +0000", 0, true },
        { "04/Mar/2026:24:00:00 +0000", 0, true },
        { "04/Mar/2026:00:60:00 +0000", 0, true },
        { "04/Mar/2026:00:00:00", 0, true },
        { "04/Mar/2026:00:00:00 +0000 ", 0, true },
        { "04/Mar/2026:00:00:00 0000", 0, true },
        { "01/Jan/1970:00:00:00 +0100", 0, true },
        { "04/Mar/2200:00:00:00 +0000", 0, true },
        { "04/Mar/1969:00:00:00 +0000", 0, true },
        { "2026-13-04", 0, true },
        { "2026-03-04T05:06", 0, true },
        { "2026-03-04T05:06:07.Z", 0, true },
        { "2026-03-04T05:06:07ZZ", 0, true },
        { "-1772582400", 0, true },
        { "1772582400.", 0, true },
        { "1772582400x", 0, true },
        { "99999999999999999999", 0, true },
        { "18446744073709551615", 0, true },
        { "", 0, true },
        { "/", 0, true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].text);
        uint64_t time_us;
        bool is_whole_second;
        bool is_time = weir_access_time(weir_text_from(rows[i].text), &time_us, &is_whole_second);
        assert_int_equal(is_time, rows[i].want_us > 0);
        if (is_time) {
            assert_int_equal(time_us, rows[i].want_us);
            assert_int_equal(is_whole_second, rows[i].is_whole_second);
        }
    }
}

/* lines */

struct reading {
    struct weir_access_reader *reader;
    char line[2048];
    struct weir_access_entry entry;
    const char *why;
};

static struct reading reading;

static void open_reader(enum weir_access_format format)
{
    weir_access_reader_free(reading.reader);
    reading.reader = weir_access_reader_new(format);
    assert_non_null(reading.reader);
}

static bool read_bytes(const char *line, size_t length)
{
    assert_true(length < sizeof reading.line);
    memcpy(reading.line, line, length);
    return weir_access_read(reading.reader, reading.line, length, &reading.entry, &reading.why);
}

static bool read_line(const char *line)
{
    return read_bytes(line, strlen(line));
}

static void expect_text(enum weir_access_text which, const char *wanted)
{
    struct weir_text text = reading.entry.texts[which];
    if (wanted == NULL) {
        assert_null(text.at);
        return;
    }
    if (!weir_text_equal(text, weir_text_from(wanted)))
        fail_msg("\"%.*s\", wanted \"%s\"", WEIR_TEXT_ARGS(text), wanted);
}

static void expect_line(const struct weir_line *line, const char *name, const char *value)
{
    assert_true(weir_text_equal(line->name, weir_text_from(name)));
    if (!weir_text_equal(line->value, weir_text_from(value)))
        fail_msg("\"%.*s\", wanted \"%s\"", WEIR_TEXT_ARGS(line->value), value);
}

static void reads_common_and_combined_lines(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *peer, *method, *target, *user;
        unsigned status;
        const char *agent;
    } rows[] = {
        { "203.0.113.7 - - " TIME " \"GET /v1/search?q=a HTTP/1.1\" 200 512", "203.0.113.7", "GET",
          "/v1/search?q=a", NULL, 200, NULL },
        { "2001:db8::7 - ann " TIME " \"POST / HTTP/2.0\" 429 -", "2001:db8::7", "POST", "/", "ann",
          429, NULL },
        { "192.0.2.1 ident Ann Lee " TIME " \"GET / HTTP/1.0\" 304 0 \"-\" \"curl/8\"", "192.0.2.1",
          "GET", "/", "Ann Lee", 304, "curl/8" },
        { "192.0.2.1 - \"\" " TIME " \"GET / HTTP/1.0\" 304 0 \"-\" \"-\"", "192.0.2.1", "GET", "/",
          NULL, 304, NULL },
        { "192.0.2.1 - - " TIME " \"GET / HTTP/1.1\" - 0", "192.0.2.1", "GET", "/", NULL, 0, NULL },
        { "unix: - - " TIME " \"GET / HTTP/1.1\" 200 0", NULL, "GET", "/", NULL, 200, NULL },
        { "192.0.2.1 - - " TIME " \"GET /a b HTTP/1.1\" 200 0", "192.0.2.1", "GET", "/a b", NULL,
          200, NULL },
        { "192.0.2.1 - - " TIME " \"GET /old\" 200 0", "192.0.2.1", "GET", "/old", NULL, 200,
          NULL },
        { "192.0.2.1 - - " TIME " \"GET /\\\"x\\\\\\x41\\q HTTP/1.1\" 200 0 \"-\" \"a\\\"b\\x2\"",
          "192.0.2.1", "GET", "/\"x\\A\\q", NULL, 200, "a\"b\\x2" },
        { "192.0.2.1 - - " TIME " \"GET / HTTP/1.1\" 200 0 \"-\" \"x\" \"198.51.100.9\" 0.013",
          "192.0.2.1", "GET", "/", NULL, 200, "x" },
    };
    open_reader(WEIR_ACCESS_ANY);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].line);
        assert_true(read_line(rows[i].line));
        assert_int_equal(reading.entry.time_us, AT);
        expect_text(WEIR_ACCESS_PEER, rows[i].peer);
        expect_text(WEIR_ACCESS_METHOD, rows[i].method);
        expect_text(WEIR_ACCESS_TARGET, rows[i].target);
        expect_text(WEIR_ACCESS_USER, rows[i].user);
        assert_int_equal(reading.entry.status, rows[i].status);
        assert_int_equal(reading.entry.header_count, rows[i].agent != NULL);
        if (rows[i].agent != NULL)
            expect_line(&reading.entry.headers[0], "User-Agent", rows[i].agent);
    }
}

static void keeps_the_bytes_that_escapes_stand_for(void **state)
{
    (void)state;
    open_reader(WEIR_ACCESS_ANY);
    assert_true(read_line("192.0.2.1 - - " TIME " \"GET /\\x00\\xfF\\t HTTP/1.1\" 200 0"));
    struct weir_text target = reading.entry.texts[WEIR_ACCESS_TARGET];
    assert_int_equal(target.length, 4);
    assert_memory_equal(target.at, "/\0\xff\t", 4);
}

static void says_why_a_line_is_none(void **state)
{
    (void)state;
    static const struct {
        enum weir_access_format format;
        const char *line, *why;
    } rows[] = {
        { WEIR_ACCESS_ANY, "nonsense", "neither a common nor a combined" },
        { WEIR_ACCESS_ANY, "", "neither a common nor a combined" },
        { WEIR_ACCESS_ANY, "host.example - - " TIME " \"GET / HTTP/1.1\" 200 0", "no address" },
        { WEIR_ACCESS_ANY, "192.0.2.1 - - [today] \"GET / HTTP/1.1\" 200 0", "time" },
        { WEIR_ACCESS_ANY, "192.0.2.1 - - " TIME, "neither" },
        { WEIR_ACCESS_ANY, "192.0.2.1 - - " TIME " \"GET / HTTP/1.1", "neither" },
        { WEIR_ACCESS_ANY, "192.0.2.1 - - " TIME " \"-\" 408 0", "no request" },
        { WEIR_ACCESS_ANY, "192.0.2.1 - - " TIME " \"\\x16\\x03\\x01\" 400 0", "no request" },
        { WEIR_ACCESS_ANY, "192.0.2.1 - - " TIME " \"\" 400 0", "no request" },
        { WEIR_ACCESS_ANY, "192.0.2.1 - - " TIME " \"GET / HTTP/1.1\"", "no status" },
        { WEIR_ACCESS_ANY, "192.0.2.1 - - " TIME " \"GET / HTTP/1.1\" ok 0", "no status" },
        { WEIR_ACCESS_COMBINED, "192.0.2.1 - - " TIME " \"GET / HTTP/1.1\" 200 0", "user agent" },
        { WEIR_ACCESS_JSON, "192.0.2.1 - - " TIME " \"GET / HTTP/1.1\" 200 0", "no JSON object" },
        { WEIR_ACCESS_COMMON, "{\"time\": 1, \"path\": \"/\"}", "no [time]" },
        { WEIR_ACCESS_ANY, "{\"time\": 1", "no JSON object" },
        { WEIR_ACCESS_ANY, "{\"path\": \"/\"}", "--map time=" },
        { WEIR_ACCESS_ANY, "{\"time\": \"noon\", \"path\": \"/\"}", "--map time=" },
        { WEIR_ACCESS_ANY, "{\"time\": true, \"path\": \"/\"}", "--map time=" },
        { WEIR_ACCESS_ANY, "{\"time\": -5.5, \"path\": \"/\"}", "--map time=" },
        { WEIR_ACCESS_ANY, "{\"time\": 1e300, \"path\": \"/\"}", "--map time=" },
        { WEIR_ACCESS_ANY, "{\"time\": 1}", "--map path=" },
        { WEIR_ACCESS_ANY, "{\"time\": 1, \"request\": \"\\u0016\"}", "--map path=" },
        { WEIR_ACCESS_ANY, "{\"time\": 1, \"path\": \"/\", \"method\": \"G T\"}", "--map path=" },
        { WEIR_ACCESS_ANY, "{\"time\": 1, \"path\": \"/\", \"ip\": \"here\"}", "no address" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].line);
        open_reader(rows[i].format);
        assert_false(read_line(rows[i].line));
        if (strstr(reading.why, rows[i].why) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", reading.why, rows[i].why);
    }
}

static void reads_json_of_several_servers(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *peer, *method, *target, *user;
        uint64_t time_us;
        unsigned status;
    } rows[] = {
        { "{\"time\":\"2026-03-04T05:06:07Z\",\"remote_addr\":\"192.0.2.1\",\"request\":"
          "\"POST /a?b HTTP/1.1\",\"status\":201,\"remote_user\":\"-\"}",
          "192.0.2.1", "POST", "/a?b", NULL, AT, 201 },
        { "{\"msec\":\"1772600767.000\",\"remote_addr\":\"\",\"request_method\":\"GET\","
          "\"request_uri\":\"/a\",\"uri\":\"/b\",\"status\":\"404\",\"remote_user\":\"ann\"}",
          NULL, "GET", "/a", "ann", AT, 404 },
        { "{\"ts\":1772600767.25,\"request\":{\"remote_ip\":\"2001:db8::1\",\"method\":\"PUT\","
          "\"uri\":\"/c\"},\"status\":200,\"user_id\":7}",
          "2001:db8::1", "PUT", "/c", "7", AT + 250000, 200 },
        { "{\"StartUTC\":\"2026-03-04T05:06:07.5Z\",\"ClientHost\":\"192.0.2.9\","
          "\"RequestMethod\":\"GET\",\"RequestPath\":\"/d\",\"DownstreamStatus\":502}",
          "192.0.2.9", "GET", "/d", NULL, AT + 500000, 502 },
        { "{\"time\": 1772600767000, \"path\": \"/e\", \"status\": \"?\", \"ip\": null}", NULL,
          "GET", "/e", NULL, AT, 0 },
    };
    open_reader(WEIR_ACCESS_ANY);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].line);
        if (!read_line(rows[i].line))
            fail_msg("%s", reading.why);
        expect_text(WEIR_ACCESS_PEER, rows[i].peer);
        expect_text(WEIR_ACCESS_METHOD, rows[i].method);
        expect_text(WEIR_ACCESS_TARGET, rows[i].target);
        expect_text(WEIR_ACCESS_USER, rows[i].user);
        assert_int_equal(reading.entry.time_us, rows[i].time_us);
        assert_int_equal(reading.entry.status, rows[i].status);
    }
}

static void map(const char *mapping)
{
    assert_int_equal(weir_access_reader_map(reading.reader, mapping, NULL), WEIR_OK);
}

static void looks_where_it_is_told_to(void **state)
{
    (void)state;
    open_reader(WEIR_ACCESS_JSON);
    map("path=http.url");
    map("duration=took");
    map("tenant=org");
    map("header:X-Device=client.device");
    map("field:username=form.name");
    assert_true(
        read_line("{\"time\": 1772600768, \"path\": \"/no\", \"took\": 1, \"org\": \"acme\","
                  " \"http\": {\"url\": \"/yes\"}, \"client.device\": \"d1\", \"plan\":"
                  " \"pro\", \"api_key_id\": \"k\", \"cost\": 7, \"form\": {\"name\":"
                  " \"ann\"}, \"headers\": {\"X-One\": [\"1\", \"2\"], \"X-Two\": 3,"
                  " \"X-Three\": {}}}"));
    assert_int_equal(reading.entry.time_us, AT);
    assert_false(reading.entry.is_whole_second);
    expect_text(WEIR_ACCESS_TARGET, "/yes");
    expect_text(WEIR_ACCESS_TENANT, "acme");
    expect_text(WEIR_ACCESS_PLAN, "pro");
    expect_text(WEIR_ACCESS_API_KEY, "k");
    assert_true(reading.entry.has_cost);
    assert_int_equal(reading.entry.cost, 7);
    assert_int_equal(reading.entry.header_count, 3);
    expect_line(&reading.entry.headers[0], "X-Device", "d1");
    expect_line(&reading.entry.headers[1], "X-One", "1");
    expect_line(&reading.entry.headers[2], "X-Two", "3");
    assert_int_equal(reading.entry.field_count, 1);
    expect_line(&reading.entry.fields[0], "username", "ann");
}

/* Another cost in its place would be made up. */
static void leaves_out_a_line_with_a_cost_that_is_none(void **state)
{
    (void)state;
    static const struct {
        const char *cost;
        bool is_read, has_cost;
    } rows[] = {
        { "3", true, true },       { "\"3\"", true, true },  { "0", true, true },
        { "null", true, false },   { "\"-\"", true, false }, { "\"\"", true, false },
        { "-5", false, false },    { "1e30", false, false }, { "2.5", false, false },
        { "\"x\"", false, false }, { "[3]", false, false },
    };
    open_reader(WEIR_ACCESS_JSON);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char line[100];
        snprintf(line, sizeof line, "{\"time\": 1, \"path\": \"/\", \"cost\": %s}", rows[i].cost);
        print_message("    %s\n", rows[i].cost);
        assert_int_equal(read_line(line), rows[i].is_read);
        assert_int_equal(reading.entry.has_cost, rows[i].has_cost);
    }
}

static void refuses_mappings_that_mean_nothing(void **state)
{
    (void)state;
    static const char *const rows[] = { "",   "path",      "path=",    "paths=x",
                                        "=x", "header:=x", "field:=x", "query:q=x" };
    open_reader(WEIR_ACCESS_JSON);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        print_message("    %s\n", rows[i]);
        assert_int_equal(weir_access_reader_map(reading.reader, rows[i], &error), WEIR_E_VALUE);
        assert_non_null(strstr(error.text, "wanted is NAME=MEMBER"));
    }
}

/* More than are listed, so that they are looked up in another way. */
static void finds_its_way_through_many_members(void **state)
{
    (void)state;
    char line[2048] = "{\"time\": 1772600767";
    size_t length = strlen(line);
    for (int i = 0; i < 80; i++)
        length += (size_t)snprintf(line + length, sizeof line - length, ", \"m%d\": %d", i, i);
    snprintf(line + length, sizeof line - length, ", \"request\": {\"uri\": \"/deep\"}}");
    open_reader(WEIR_ACCESS_ANY);
    assert_true(read_line(line));
    expect_text(WEIR_ACCESS_TARGET, "/deep");
}

static void mends_what_is_no_utf8(void **state)
{
    (void)state;
    static const char line[] = "{\"time\": 1, \"path\": \"/\xff\xc3\xa4\"}";
    open_reader(WEIR_ACCESS_ANY);
    assert_true(read_bytes(line, sizeof line - 1));
    expect_text(WEIR_ACCESS_TARGET, "/?\xc3\xa4");
}

static int close_reader(void **state)
{
    (void)state;
    reading.reader = weir_access_reader_free(reading.reader);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_times_as_logs_write_them),
        cmocka_unit_test(reads_common_and_combined_lines),
        cmocka_unit_test(keeps_the_bytes_that_escapes_stand_for),
        cmocka_unit_test(says_why_a_line_is_none),
        cmocka_unit_test(reads_json_of_several_servers),
        cmocka_unit_test(looks_where_it_is_told_to),
        cmocka_unit_test(leaves_out_a_line_with_a_cost_that_is_none),
        cmocka_unit_test(refuses_mappings_that_mean_nothing),
        cmocka_unit_test(finds_its_way_through_many_members),
        cmocka_unit_test(mends_what_is_no_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, close_reader);
}
