#include "test.h"

#include <hiredis/hiredis.h>

#include "store/redis_sentinel.h"

/* What a server sent, as hiredis reads it; NULL where the text is NULL. */
static redisReply *parse(const char *resp)
{
    if (resp == NULL)
        return NULL;
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    assert_int_equal(redisReaderFeed(reader, resp, strlen(resp)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

static void drop(redisReply *reply)
{
    if (reply != NULL)
        freeReplyObject(reply);
}

/* Longer than a place can hold, as the first of two elements. */
static const char *long_host(void)
{
    static char resp[400];
    char host[257];
    memset(host, 'h', 256);
    host[256] = '\0';
    snprintf(resp, sizeof resp, "*2\r\n$256\r\n%s\r\n$4\r\n6379\r\n", host);
    return resp;
}

static void reads_where_the_master_is(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *resp;
        const char *host;
        unsigned port;
    } rows[] = {
        { "an address", "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n27001\r\n", "127.0.0.1", 27001 },
        { "a name", "*2\r\n$11\r\nredis-1.lan\r\n$4\r\n6379\r\n", "redis-1.lan", 6379 },
        { "IPv6", "*2\r\n$11\r\n2001:db8::1\r\n$1\r\n1\r\n", "2001:db8::1", 1 },
        { "more than was asked for", "*3\r\n$1\r\nh\r\n$5\r\n65535\r\n$1\r\nx\r\n", "h", 65535 },
        { "as statuses", "*2\r\n+h\r\n+6379\r\n", "h", 6379 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        redisReply *reply = parse(rows[i].resp);
        struct weir_redis_place place;
        char why[64] = "untouched";
        assert_int_equal(weir_sentinel_read_master(reply, &place, why, sizeof why),
                         WEIR_SENTINEL_NAMED);
        assert_string_equal(place.host, rows[i].host);
        assert_int_equal(place.port, rows[i].port);
        assert_string_equal(why, "untouched");
        drop(reply);
    }
}

static void says_why_a_sentinel_names_no_master(void **state)
{
    (void)state;
    const char *no_address = "what it says is no address";
    const struct {
        const char *what;
        const char *resp;
        enum weir_sentinel_meaning want;
        const char *why;
    } rows[] = {
        { "it watches none of that name", "*-1\r\n", WEIR_SENTINEL_UNKNOWN, "" },
        { "the same as a string", "$-1\r\n", WEIR_SENTINEL_UNKNOWN, "" },
        { "it wants a password", "-NOAUTH Authentication required.\r\n", WEIR_SENTINEL_REFUSED,
          "it wants a password: sentinel_password" },
        { "it is a Redis",
          "-ERR unknown command 'SENTINEL', with args beginning with: "
          "'get-master-addr-by-name'\r\n",
          WEIR_SENTINEL_REFUSED, "it is no Sentinel" },
        { "it may not tell", "-NOPERM this user has no permissions\r\n", WEIR_SENTINEL_REFUSED,
          "NOPERM this user has no permissions" },
        { "it does not know yet", "-IDONTKNOW Please ask\x07 another\r\n", WEIR_SENTINEL_REFUSED,
          "IDONTKNOW Please ask? another" },
        { "an error without a text", "-\r\n", WEIR_SENTINEL_REFUSED, no_address },
        { "nothing", NULL, WEIR_SENTINEL_REFUSED, no_address },
        { "an empty list", "*0\r\n", WEIR_SENTINEL_REFUSED, no_address },
        { "a host alone", "*1\r\n$1\r\nh\r\n", WEIR_SENTINEL_REFUSED, no_address },
        { "numbers", "*2\r\n:1\r\n:6379\r\n", WEIR_SENTINEL_REFUSED, no_address },
        { "lists", "*2\r\n*1\r\n$1\r\nh\r\n*0\r\n", WEIR_SENTINEL_REFUSED, no_address },
        { "nothing twice", "*2\r\n$-1\r\n$-1\r\n", WEIR_SENTINEL_REFUSED, no_address },
        { "no host", "*2\r\n$0\r\n\r\n$4\r\n6379\r\n", WEIR_SENTINEL_REFUSED, no_address },
        { "no port", "*2\r\n$1\r\nh\r\n$0\r\n\r\n", WEIR_SENTINEL_REFUSED, no_address },
        { "port 0", "*2\r\n$1\r\nh\r\n$1\r\n0\r\n", WEIR_SENTINEL_REFUSED, no_address },
        { "port 65536", "*2\r\n$1\r\nh\r\n$5\r\n65536\r\n", WEIR_SENTINEL_REFUSED, no_address },
        { "a port below zero", "*2\r\n$1\r\nh\r\n$2\r\n-1\r\n", WEIR_SENTINEL_REFUSED, no_address },
        { "a port as a word", "*2\r\n$1\r\nh\r\n$4\r\nport\r\n", WEIR_SENTINEL_REFUSED,
          no_address },
        { "a line end in a host", "*2\r\n$3\r\na\nb\r\n$4\r\n6379\r\n", WEIR_SENTINEL_REFUSED,
          no_address },
        { "a quote in a host", "*2\r\n$3\r\na\"b\r\n$4\r\n6379\r\n", WEIR_SENTINEL_REFUSED,
          no_address },
        { "a host without end", long_host(), WEIR_SENTINEL_REFUSED, no_address },
        { "a status", "+OK\r\n", WEIR_SENTINEL_REFUSED, no_address },
        { "a text", "$4\r\nh 80\r\n", WEIR_SENTINEL_REFUSED, no_address },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        redisReply *reply = parse(rows[i].resp);
        struct weir_redis_place place = { .port = 77 };
        char why[64] = "";
        assert_int_equal(weir_sentinel_read_master(reply, &place, why, sizeof why), rows[i].want);
        assert_string_equal(why, rows[i].why);
        assert_int_equal(place.port, 77);
        drop(reply);
    }
}

static void takes_no_host_with_a_nul(void **state)
{
    (void)state;
    redisReply host = { .type = REDIS_REPLY_STRING, .str = (char[]){ "a\0b" }, .len = 3 };
    redisReply port = { .type = REDIS_REPLY_STRING, .str = (char[]){ "6379" }, .len = 4 };
    redisReply *elements[] = { &host, &port };
    redisReply reply = { .type = REDIS_REPLY_ARRAY, .elements = 2, .element = elements };
    struct weir_redis_place place = { .port = 77 };
    char why[64] = "";
    assert_int_equal(weir_sentinel_read_master(&reply, &place, why, sizeof why),
                     WEIR_SENTINEL_REFUSED);
    assert_int_equal(place.port, 77);
}

static void tells_a_master_from_all_else(void **state)
{
    (void)state;
    const char *no_master = "it does not say that it is the master";
    const struct {
        const char *what;
        const char *resp;
        const char *why; /* NULL: it is one */
    } rows[] = {
        { "a master", "*3\r\n$6\r\nmaster\r\n:5748\r\n*0\r\n", NULL },
        { "a replica",
          "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:27001\r\n$9\r\nconnected\r\n:5942\r\n",
          "it is a replica, not the master" },
        { "a replica by its newer name", "*1\r\n$7\r\nreplica\r\n",
          "it is a replica, not the master" },
        { "a Sentinel", "*2\r\n$8\r\nsentinel\r\n*1\r\n$8\r\nmymaster\r\n",
          "it is a Sentinel, not the master" },
        { "one that must not be asked", "-NOPERM no permissions to run the 'role' command\r\n",
          NULL },
        { "nothing", NULL, no_master },
        { "a text", "$6\r\nmaster\r\n", no_master },
        { "an empty list", "*0\r\n", no_master },
        { "no list", "*-1\r\n", no_master },
        { "a list of a list", "*1\r\n*1\r\n$6\r\nmaster\r\n", no_master },
        { "a number", "*1\r\n:1\r\n", no_master },
        { "more than a master", "*1\r\n$7\r\nmasters\r\n", no_master },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        redisReply *reply = parse(rows[i].resp);
        char why[64] = "";
        assert_int_equal(weir_sentinel_read_role(reply, why, sizeof why), rows[i].why == NULL);
        assert_string_equal(why, rows[i].why == NULL ? "" : rows[i].why);
        drop(reply);
    }
}

/* A message of three strings, as a subscriber gets it. */
static const char *message(const char *kind, const char *channel, const char *text)
{
    static char resp[400];
    snprintf(resp, sizeof resp, "*3\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(kind),
             kind, strlen(channel), channel, strlen(text), text);
    return resp;
}

static void follows_the_switch_of_its_own_master(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *kind;
        const char *channel;
        const char *text;
        enum weir_sentinel_message want;
        const char *host;
        unsigned port;
    } rows[] = {
        { "its own", "message", "+switch-master", "mymaster 127.0.0.1 27002 127.0.0.2 27001",
          WEIR_SENTINEL_SWITCHED, "127.0.0.2", 27001 },
        { "by name", "message", "+switch-master", "mymaster a.lan 1 b.lan 2",
          WEIR_SENTINEL_SWITCHED, "b.lan", 2 },
        { "IPv6", "message", "+switch-master", "mymaster ::1 1 ::2 2", WEIR_SENTINEL_SWITCHED,
          "::2", 2 },
        { "of another", "message", "+switch-master", "yourmaster a 1 b 2",
          WEIR_SENTINEL_OTHER_MESSAGE, "", 0 },
        { "of one whose name begins alike", "message", "+switch-master", "mymaster2 a 1 b 2",
          WEIR_SENTINEL_OTHER_MESSAGE, "", 0 },
        { "of one whose name ends alike", "message", "+switch-master", "x mymaster a 1 b 2",
          WEIR_SENTINEL_OTHER_MESSAGE, "", 0 },
        { "too short", "message", "+switch-master", "mymaster b 2", WEIR_SENTINEL_OTHER_MESSAGE, "",
          0 },
        { "empty", "message", "+switch-master", "", WEIR_SENTINEL_OTHER_MESSAGE, "", 0 },
        { "spaces alone", "message", "+switch-master", "    ", WEIR_SENTINEL_OTHER_MESSAGE, "", 0 },
        { "to no port", "message", "+switch-master", "mymaster a 1 b x",
          WEIR_SENTINEL_OTHER_MESSAGE, "", 0 },
        { "to no host", "message", "+switch-master", "mymaster a 1  2", WEIR_SENTINEL_OTHER_MESSAGE,
          "", 0 },
        { "on another channel", "message", "+odown", "mymaster a 1 b 2",
          WEIR_SENTINEL_OTHER_MESSAGE, "", 0 },
        { "that it subscribes", "subscribe", "+switch-master", "mymaster a 1 b 2",
          WEIR_SENTINEL_NO_MESSAGE, "", 0 },
        { "by a pattern", "pmessage", "+switch-master", "mymaster a 1 b 2",
          WEIR_SENTINEL_OTHER_MESSAGE, "", 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        redisReply *reply = parse(message(rows[i].kind, rows[i].channel, rows[i].text));
        struct weir_redis_place place = { .port = 0 };
        assert_int_equal(weir_sentinel_read_message(reply, "mymaster", &place), rows[i].want);
        assert_string_equal(place.host, rows[i].host);
        assert_int_equal(place.port, rows[i].port);
        drop(reply);
    }
}

static void knows_a_name_with_spaces(void **state)
{
    (void)state;
    redisReply *reply = parse(message("message", "+switch-master", "my own master a 1 b 2"));
    struct weir_redis_place place;
    assert_int_equal(weir_sentinel_read_message(reply, "my own master", &place),
                     WEIR_SENTINEL_SWITCHED);
    assert_int_equal(weir_sentinel_read_message(reply, "master", &place),
                     WEIR_SENTINEL_OTHER_MESSAGE);
    drop(reply);
}

static void takes_replies_for_no_messages(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n",
        "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n",
        "*2\r\n$4\r\npong\r\n$0\r\n\r\n",
        "+PONG\r\n",
        "*2\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n",
        "*3\r\n:1\r\n:2\r\n:3\r\n",
        "*3\r\n*0\r\n*0\r\n*0\r\n",
        "*-1\r\n",
        "*0\r\n",
        "-ERR message\r\n",
        "$7\r\nmessage\r\n",
        NULL,
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        redisReply *reply = parse(rows[i]);
        struct weir_redis_place place;
        assert_int_equal(weir_sentinel_read_message(reply, "mymaster", &place),
                         WEIR_SENTINEL_NO_MESSAGE);
        drop(reply);
    }
    /* A channel and a text that are none are still a message: nobody awaits it. */
    redisReply *reply = parse("*3\r\n$7\r\nmessage\r\n:1\r\n*0\r\n");
    struct weir_redis_place place;
    assert_int_equal(weir_sentinel_read_message(reply, "mymaster", &place),
                     WEIR_SENTINEL_OTHER_MESSAGE);
    drop(reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_where_the_master_is),
        cmocka_unit_test(says_why_a_sentinel_names_no_master),
        cmocka_unit_test(takes_no_host_with_a_nul),
        cmocka_unit_test(tells_a_master_from_all_else),
        cmocka_unit_test(follows_the_switch_of_its_own_master),
        cmocka_unit_test(knows_a_name_with_spaces),
        cmocka_unit_test(takes_replies_for_no_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
