#include "test.h"

#include "store/redis_url.h"

static void assert_url_equal(const struct weir_redis_url *got, const struct weir_redis_url *want)
{
    assert_int_equal(got->topology, want->topology);
    assert_int_equal(got->tls, want->tls);
    assert_int_equal(got->place_count, want->place_count);
    for (size_t i = 0; i < want->place_count; i++) {
        assert_string_equal(got->places[i].host, want->places[i].host);
        assert_int_equal(got->places[i].port, want->places[i].port);
    }
    assert_string_equal(got->path, want->path);
    assert_string_equal(got->login.user, want->login.user);
    assert_string_equal(got->login.password, want->login.password);
    assert_string_equal(got->sentinel_login.user, want->sentinel_login.user);
    assert_string_equal(got->sentinel_login.password, want->sentinel_login.password);
    assert_string_equal(got->master, want->master);
    assert_int_equal(got->database, want->database);
    assert_string_equal(got->shown, want->shown);
}

static void assert_reads(const char *url, const struct weir_redis_url *want)
{
    print_message("    %s\n", url);
    struct weir_redis_url got;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_redis_url_read(url, &got, &error) != WEIR_OK)
        fail_msg("%s", error.text);
    assert_url_equal(&got, want);
}

static void reads_where_one_server_is(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        struct weir_redis_place place;
        struct weir_redis_login login;
        unsigned database;
        const char *path, *shown;
    } rows[] = {
        { "redis://127.0.0.1", { "127.0.0.1", 6379 }, { "", "" }, 0, "", "127.0.0.1:6379" },
        { "redis://127.0.0.1:7000/", { "127.0.0.1", 7000 }, { "", "" }, 0, "", "127.0.0.1:7000" },
        { "redis://cache.example:7000/12",
          { "cache.example", 7000 },
          { "", "" },
          12,
          "",
          "cache.example:7000" },
        { "redis://[2001:db8::1]:7000/1",
          { "2001:db8::1", 7000 },
          { "", "" },
          1,
          "",
          "[2001:db8::1]:7000" },
        { "redis://[::1]", { "::1", 6379 }, { "", "" }, 0, "", "[::1]:6379" },
        { "redis://[fe80::1%25eth0]",
          { "fe80::1%eth0", 6379 },
          { "", "" },
          0,
          "",
          "[fe80::1%eth0]:6379" },
        { "redis://:secret@h", { "h", 6379 }, { "", "secret" }, 0, "", "h:6379" },
        { "redis://me:secret@h:1/2", { "h", 1 }, { "me", "secret" }, 2, "", "h:1" },
        { "redis://me:a%40b%3a%2F%25%3F@h", { "h", 6379 }, { "me", "a@b:/%?" }, 0, "", "h:6379" },
        { "redis://me:a:b@h", { "h", 6379 }, { "me", "a:b" }, 0, "", "h:6379" },
        { "redis+unix:///run/redis.sock",
          { "", 6379 },
          { "", "" },
          0,
          "/run/redis.sock",
          "/run/redis.sock" },
        { "redis+unix:///run/a%20b@c?db=7",
          { "", 6379 },
          { "", "" },
          7,
          "/run/a b@c",
          "/run/a b@c" },
        { "redis+unix://me:secret@/run/r",
          { "", 6379 },
          { "me", "secret" },
          0,
          "/run/r",
          "/run/r" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_redis_url want = { .place_count = 1,
                                       .places = { rows[i].place },
                                       .login = rows[i].login,
                                       .database = rows[i].database };
        snprintf(want.path, sizeof want.path, "%s", rows[i].path);
        snprintf(want.shown, sizeof want.shown, "%s", rows[i].shown);
        assert_reads(rows[i].url, &want);
    }
}

static void reads_the_sentinels_and_their_master(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        struct weir_redis_url want;
    } rows[] = {
        { "redis+sentinel://h/mymaster",
          { .place_count = 1,
            .places = { { "h", 26379 } },
            .master = "mymaster",
            .shown = "master \"mymaster\" of h:26379" } },
        { "redis+sentinel://a,b:1,[::1],[::2]:2/m/3",
          { .place_count = 4,
            .places = { { "a", 26379 }, { "b", 1 }, { "::1", 26379 }, { "::2", 2 } },
            .master = "m",
            .database = 3,
            .shown = "master \"m\" of a:26379,…" } },
        { "redis+sentinel://me:secret@[::1]:1,b/m",
          { .place_count = 2,
            .places = { { "::1", 1 }, { "b", 26379 } },
            .login = { "me", "secret" },
            .master = "m",
            .shown = "master \"m\" of [::1]:1,…" } },
        { "redis+sentinel://:secret@h/m?sentinel_user=we&sentinel_password=hid%26den%3D",
          { .place_count = 1,
            .places = { { "h", 26379 } },
            .login = { "", "secret" },
            .sentinel_login = { "we", "hid&den=" },
            .master = "m",
            .shown = "master \"m\" of h:26379" } },
        { "redis+sentinel://h/m/?sentinel_password=a@b:c/d",
          { .place_count = 1,
            .places = { { "h", 26379 } },
            .sentinel_login = { "", "a@b:c/d" },
            .master = "m",
            .shown = "master \"m\" of h:26379" } },
        { "redis+sentinel://h/a%2Fb",
          { .place_count = 1,
            .places = { { "h", 26379 } },
            .master = "a/b",
            .shown = "master \"a/b\" of h:26379" } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_redis_url want = rows[i].want;
        want.topology = WEIR_REDIS_SENTINEL;
        assert_reads(rows[i].url, &want);
    }
}

static void reads_some_nodes_of_a_cluster(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        struct weir_redis_url want;
    } rows[] = {
        { "redis+cluster://h",
          { .place_count = 1, .places = { { "h", 6379 } }, .shown = "cluster of h:6379" } },
        { "redis+cluster://me:secret@127.0.0.1:7000,127.0.0.1:7001/0",
          { .place_count = 2,
            .places = { { "127.0.0.1", 7000 }, { "127.0.0.1", 7001 } },
            .login = { "me", "secret" },
            .shown = "cluster of 127.0.0.1:7000,…" } },
        { "redis+cluster://[::1]:7000,h/",
          { .place_count = 2,
            .places = { { "::1", 7000 }, { "h", 6379 } },
            .shown = "cluster of [::1]:7000,…" } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_redis_url want = rows[i].want;
        want.topology = WEIR_REDIS_CLUSTER;
        assert_reads(rows[i].url, &want);
    }
}

static void reads_of_a_second_s_that_tls_is_wanted(void **state)
{
    (void)state;
    static const char *const ends[] = { "://:secret@h:1/2", "+sentinel://h/m",
                                        "+cluster://h:1,i:2" };
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        char plain[60], secured[60];
        snprintf(plain, sizeof plain, "redis%s", ends[i]);
        snprintf(secured, sizeof secured, "rediss%s", ends[i]);
        struct weir_redis_url want;
        assert_int_equal(weir_redis_url_read(plain, &want, NULL), WEIR_OK);
        assert_false(want.tls);
        want.tls = true;
        assert_reads(secured, &want);
    }
}

static void takes_as_many_places_as_there_is_room_for(void **state)
{
    (void)state;
    char url[300] = "redis+cluster://h";
    for (size_t i = 1; i < WEIR_REDIS_PLACES_MAX; i++)
        strcat(url, ",h");
    struct weir_redis_url got;
    assert_int_equal(weir_redis_url_read(url, &got, NULL), WEIR_OK);
    assert_int_equal(got.place_count, WEIR_REDIS_PLACES_MAX);
    assert_string_equal(got.places[WEIR_REDIS_PLACES_MAX - 1].host, "h");

    struct weir_error error = WEIR_NO_ERROR;
    strcat(url, ",h");
    assert_int_equal(weir_redis_url_read(url, &got, &error), WEIR_E_VALUE);
    assert_non_null(strstr(error.text, "more than 16 servers"));
}

static void shows_a_place_in_a_line_of_bounded_length(void **state)
{
    (void)state;
    char host[256], master[128], url[600], shown[300];
    memset(host, 'h', sizeof host);
    memset(master, 'm', sizeof master);
    host[255] = master[127] = '\0';
    snprintf(url, sizeof url, "redis+sentinel://%s:65535,b/%s", host, master);
    snprintf(shown, sizeof shown, "master \"%s\" of %.140s:65535,…", master, host);
    struct weir_redis_url got;
    assert_int_equal(weir_redis_url_read(url, &got, NULL), WEIR_OK);
    assert_string_equal(got.places[0].host, host);
    assert_string_equal(got.shown, shown);
}

static void refuses_what_is_no_url(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *url;
        const char *says;
    } rows[] = {
        { "nothing", NULL, "must start with" },
        { "an empty text", "", "must start with" },
        { "another scheme", "http://:secret@h", "must start with" },
        { "half a scheme", "redis+://:secret@h", "must start with" },
        { "no slashes", "redis:h", "must start with" },
        { "TLS on a Unix socket", "rediss+unix:///secret", "never leaves the machine" },
        { "no host", "redis://", "no host" },
        { "no host but a port", "redis://:6379", "no host" },
        { "a user alone", "redis://secret@h", "without a password" },
        { "an empty password", "redis://secret:@h", "empty password" },
        { "an @ in a password", "redis://:sec@ret@h", "%40" },
        { "a ? in a password", "redis://:sec?ret@h", "%3F" },
        { "a broken escape", "redis://:secret%4@h", "percent-encoded" },
        { "an escape of no digits", "redis://:secret%zz@h", "percent-encoded" },
        { "an encoded NUL", "redis://:secret%00@h", "percent-encoded" },
        { "a broken escape in a user", "redis://%4:secret@h", "user that is too long or badly" },
        { "port 0", "redis://h:0", "port" },
        { "a port too large", "redis://h:65536", "port" },
        { "an empty port", "redis://h:", "port" },
        { "a port that is a word", "redis://h:secret", "port" },
        { "a database that is a word", "redis://h/secret", "database" },
        { "a database too large", "redis://h/1000001", "database" },
        { "a negative database", "redis://h/-1", "database" },
        { "an open bracket", "redis://[::1", "]" },
        { "text behind a bracket", "redis://[::1]secret", "]" },
        { "a line end in a host", "redis://h%0Ah", "no host" },
        { "two hosts", "redis://h,i:1/0", "several servers" },
        { "a query", "redis://h/0?password=secret", "\"?\"" },
        { "a relative path", "redis+unix://run/redis.sock", "absolute path" },
        { "no path", "redis+unix:///", "absolute path" },
        { "a line end in a path", "redis+unix:///run/secret%0A", "control characters" },
        { "another query", "redis+unix:///run/r?password=secret", "db=N" },
        { "Sentinels without a master", "redis+sentinel://:secret@h", "names no master" },
        { "Sentinels, and an empty master", "redis+sentinel://:secret@h/", "no name of a master" },
        { "a master with a blank", "redis+sentinel://h/se%20cret", "no name of a master" },
        { "a master with a quote", "redis+sentinel://h/m%22", "no name of a master" },
        { "a master that is no ASCII", "redis+sentinel://h/m%C3%A4", "no name of a master" },
        { "a master, and a word", "redis+sentinel://h/m/secret", "database" },
        { "no Sentinel", "redis+sentinel:///m", "no host" },
        { "a comma at the end", "redis+sentinel://h,/m", "no host" },
        { "two commas", "redis+sentinel://h,,i/m", "no host" },
        { "an open bracket in a list", "redis+sentinel://h,[::1,i/m", "]" },
        { "another option", "redis+sentinel://h/m?password=secret", "\"sentinel_password=P\"" },
        { "an option of no value", "redis+sentinel://h/m?sentinel_user", "\"sentinel_user=U\"" },
        { "an empty query", "redis+sentinel://h/m?", "\"sentinel_user=U\"" },
        { "an empty option", "redis+sentinel://h/m?sentinel_password=secret&",
          "\"sentinel_user=U\"" },
        { "a Sentinel's user alone", "redis+sentinel://h/m?sentinel_user=secret",
          "without a \"sentinel_password\"" },
        { "a Sentinel's empty password",
          "redis+sentinel://h/m?sentinel_user=secret&sentinel_password=", "empty password" },
        { "a broken escape for a Sentinel", "redis+sentinel://h/m?sentinel_password=secret%4",
          "percent-encoded" },
        { "a cluster's database", "redis+cluster://h/1", "one database alone" },
        { "a cluster's path", "redis+cluster://h/secret", "one database alone" },
        { "a cluster's query", "redis+cluster://h?password=secret", "\"?\"" },
        { "a cluster without nodes", "redis+cluster://", "no host" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_redis_url got = { .database = 77 };
        struct weir_error error = WEIR_NO_ERROR;
        assert_int_equal(weir_redis_url_read(rows[i].url, &got, &error), WEIR_E_VALUE);
        assert_int_equal(error.code, WEIR_E_VALUE);
        assert_string_equal(error.path, "/store/url");
        if (strstr(error.text, rows[i].says) == NULL)
            fail_msg("%s", error.text);
        assert_null(strstr(error.text, "secret"));
        assert_int_equal(got.database, 77);
    }
}

static void forgets_every_password(void **state)
{
    (void)state;
    struct weir_redis_url url;
    assert_int_equal(
        weir_redis_url_read("redis+sentinel://u:secret@h/m?sentinel_password=hidden", &url, NULL),
        WEIR_OK);
    weir_redis_url_forget(&url);
    assert_null(memmem(&url, sizeof url, "secret", 6));
    assert_null(memmem(&url, sizeof url, "hidden", 6));
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
        { "a master's name", "redis+sentinel://h/", "", 127 },
        { "a Sentinel's user", "redis+sentinel://h/m?sentinel_user=", "&sentinel_password=p", 127 },
        { "a Sentinel's password", "redis+sentinel://h/m?sentinel_password=", "", 511 },
        { "the last of the hosts", "redis+cluster://h,", "", 255 },
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
        cmocka_unit_test(reads_where_one_server_is),
        cmocka_unit_test(reads_the_sentinels_and_their_master),
        cmocka_unit_test(reads_some_nodes_of_a_cluster),
        cmocka_unit_test(reads_of_a_second_s_that_tls_is_wanted),
        cmocka_unit_test(takes_as_many_places_as_there_is_room_for),
        cmocka_unit_test(shows_a_place_in_a_line_of_bounded_length),
        cmocka_unit_test(refuses_what_is_no_url),
        cmocka_unit_test(forgets_every_password),
        cmocka_unit_test(refuses_what_is_too_long),
    };
    return cmocka_run_group_tests_name("redis_url", tests, NULL, NULL);
}
