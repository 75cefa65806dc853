#include "test.h"

#include "store/redis_url.h"

static void reads_where_the_server_is(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        struct weir_redis_url want;
    } rows[] = {
        { "redis://127.0.0.1", { "127.0.0.1", "", 6379, "", "", 0, "127.0.0.1:6379" } },
        { "redis://127.0.0.1:7000/", { "127.0.0.1", "", 7000, "", "", 0, "127.0.0.1:7000" } },
        { "redis://cache.example:7000/12",
          { "cache.example", "", 7000, "", "", 12, "cache.example:7000" } },
        { "redis://[2001:db8::1]:7000/1",
          { "2001:db8::1", "", 7000, "", "", 1, "[2001:db8::1]:7000" } },
        { "redis://[::1]", { "::1", "", 6379, "", "", 0, "[::1]:6379" } },
        { "redis://[fe80::1%25eth0]",
          { "fe80::1%eth0", "", 6379, "", "", 0, "[fe80::1%eth0]:6379" } },
        { "redis://:secret@h", { "h", "", 6379, "", "secret", 0, "h:6379" } },
        { "redis://me:secret@h:1/2", { "h", "", 1, "me", "secret", 2, "h:1" } },
        { "redis://me:a%40b%3a%2F%25@h", { "h", "", 6379, "me", "a@b:/%", 0, "h:6379" } },
        { "redis://me:a:b@h", { "h", "", 6379, "me", "a:b", 0, "h:6379" } },
        { "redis+unix:///run/redis.sock",
          { "", "/run/redis.sock", 6379, "", "", 0, "/run/redis.sock" } },
        { "redis+unix:///run/a%20b@c?db=7", { "", "/run/a b@c", 6379, "", "", 7, "/run/a b@c" } },
        { "redis+unix://me:secret@/run/r", { "", "/run/r", 6379, "me", "secret", 0, "/run/r" } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].url);
        struct weir_redis_url got;
        struct weir_error error = WEIR_NO_ERROR;
        assert_int_equal(weir_redis_url_read(rows[i].url, &got, &error), WEIR_OK);
        assert_string_equal(got.host, rows[i].want.host);
        assert_string_equal(got.path, rows[i].want.path);
        assert_int_equal(got.port, rows[i].want.port);
        assert_string_equal(got.user, rows[i].want.user);
        assert_string_equal(got.password, rows[i].want.password);
        assert_int_equal(got.database, rows[i].want.database);
        assert_string_equal(got.shown, rows[i].want.shown);
    }
}

static void refuses_what_is_no_url(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *url;
        enum weir_code code;
        const char *says;
    } rows[] = {
        { "nothing", NULL, WEIR_E_VALUE, "must start with" },
        { "an empty text", "", WEIR_E_VALUE, "must start with" },
        { "another scheme", "http://:secret@h", WEIR_E_VALUE, "must start with" },
        { "no slashes", "redis:h", WEIR_E_VALUE, "must start with" },
        { "TLS", "rediss://:secret@h", WEIR_E_NOT_YET, "TLS" },
        { "Sentinel", "redis+sentinel://:secret@h/m", WEIR_E_NOT_YET, "Sentinel" },
        { "Cluster", "redis+cluster://:secret@h", WEIR_E_NOT_YET, "Cluster" },
        { "no host", "redis://", WEIR_E_VALUE, "no host" },
        { "no host but a port", "redis://:6379", WEIR_E_VALUE, "no host" },
        { "a user alone", "redis://secret@h", WEIR_E_VALUE, "without a password" },
        { "an empty password", "redis://secret:@h", WEIR_E_VALUE, "empty password" },
        { "an @ in a password", "redis://:sec@ret@h", WEIR_E_VALUE, "%40" },
        { "a broken escape", "redis://:secret%4@h", WEIR_E_VALUE, "percent-encoded" },
        { "an escape of no digits", "redis://:secret%zz@h", WEIR_E_VALUE, "percent-encoded" },
        { "an encoded NUL", "redis://:secret%00@h", WEIR_E_VALUE, "percent-encoded" },
        { "port 0", "redis://h:0", WEIR_E_VALUE, "port" },
        { "a port too large", "redis://h:65536", WEIR_E_VALUE, "port" },
        { "an empty port", "redis://h:", WEIR_E_VALUE, "port" },
        { "a port that is a word", "redis://h:secret", WEIR_E_VALUE, "port" },
        { "a database that is a word", "redis://h/secret", WEIR_E_VALUE, "database" },
        { "a database too large", "redis://h/1000001", WEIR_E_VALUE, "database" },
        { "a negative database", "redis://h/-1", WEIR_E_VALUE, "database" },
        { "an open bracket", "redis://[::1", WEIR_E_VALUE, "]" },
        { "text behind a bracket", "redis://[::1]secret", WEIR_E_VALUE, "]" },
        { "a line end in a host", "redis://h%0Ah", WEIR_E_VALUE, "no host" },
        { "a relative path", "redis+unix://run/redis.sock", WEIR_E_VALUE, "absolute path" },
        { "no path", "redis+unix:///", WEIR_E_VALUE, "absolute path" },
        { "another query", "redis+unix:///run/r?password=secret", WEIR_E_VALUE, "db=N" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_redis_url got = { .port = 77 };
        struct weir_error error = WEIR_NO_ERROR;
        assert_int_equal(weir_redis_url_read(rows[i].url, &got, &error), rows[i].code);
        assert_int_equal(error.code, rows[i].code);
        assert_string_equal(error.path, "/store/url");
        assert_non_null(strstr(error.text, rows[i].says));
        assert_null(strstr(error.text, "secret"));
        assert_int_equal(got.port, 77);
    }
}

static void refuses_what_is_too_long(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *before;
        const char *after;
        size_t fits;
    } rows[] = {
        { "a host", "redis://", "", 255 },
        { "a user", "redis://", ":p@h", 127 },
        { "a password", "redis://:", "@h", 511 },
        { "a path", "redis+unix:///", "", 106 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t more = 0; more < 2; more++) {
            print_message("    %s of %zu\n", rows[i].what, rows[i].fits + more);
            char text[600], url[700];
            memset(text, 'x', sizeof text);
            text[rows[i].fits + more] = '\0';
            snprintf(url, sizeof url, "%s%s%s", rows[i].before, text, rows[i].after);
            struct weir_redis_url got;
            assert_int_equal(weir_redis_url_read(url, &got, NULL),
                             more == 0 ? WEIR_OK : WEIR_E_VALUE);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_where_the_server_is),
        cmocka_unit_test(refuses_what_is_no_url),
        cmocka_unit_test(refuses_what_is_too_long),
    };
    return cmocka_run_group_tests_name("redis_url", tests, NULL, NULL);
}
