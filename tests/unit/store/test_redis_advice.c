#include "test.h"

#include <glob.h>
#include <hiredis/hiredis.h>

#include "store/redis_advice.h"

#define SECOND UINT64_C(1000000)
#define NOW    (UINT64_C(1767225600) * SECOND)

/* A reply as the parser makes it of RESP, or of a text that is sent as a bulk string. */
static redisReply *reply_of(const char *resp)
{
    redisReader *reader = redisReaderCreate();
    assert_non_null(reader);
    assert_int_equal(redisReaderFeed(reader, resp, strlen(resp)), REDIS_OK);
    void *reply = NULL;
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

static redisReply *bulk_of(const char *text)
{
    char resp[2048];
    snprintf(resp, sizeof resp, "$%zu\r\n%s\r\n", strlen(text), text);
    return reply_of(resp);
}

typedef enum weir_advice_finding (*reader)(const struct redisReply *reply, char *text);

struct row {
    const char *what;
    const char *reply; /* RESP where it starts with one of its marks, else a bulk string */
    const char *want;  /* the text; NULL: nothing is to be advised; "?": it is not known */
};

static redisReply *reply_in(const struct row *row)
{
    if (row->reply == NULL)
        return NULL;
    bool is_resp = row->reply[0] != '\0' && strchr("-+:*$", row->reply[0]) != NULL;
    return is_resp ? reply_of(row->reply) : bulk_of(row->reply);
}

static void assert_found(const struct row *row, enum weir_advice_finding found, const char *text)
{
    print_message("    %s\n", row->what);
    if (row->want == NULL) {
        assert_int_equal(found, WEIR_ADVICE_FINE);
    } else if (strcmp(row->want, "?") == 0) {
        assert_int_equal(found, WEIR_ADVICE_UNKNOWN);
    } else {
        assert_int_equal(found, WEIR_ADVICE_HOLDS);
        assert_string_equal(text, row->want);
    }
}

static void assert_rows(const struct row *rows, size_t count, reader read)
{
    for (size_t i = 0; i < count; i++) {
        char text[WEIR_ADVICE_BYTES] = "";
        redisReply *reply = reply_in(&rows[i]);
        assert_found(&rows[i], read(reply, text), text);
        if (reply != NULL)
            freeReplyObject(reply);
    }
}

/* INFO */

#define TOO_OLD ", which refuses scripts that read the clock and write: install 5.0 or newer."

static void knows_a_version_that_is_too_old(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "this one", "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n", NULL },
        { "two digits", "redis_version:10.2.1\r\n", NULL },
        { "the oldest that will do", "redis_version:5.0.0\r\n", NULL },
        { "one that will not do", "redis_version:4.0.14\r\n", "is version 4.0.14" TOO_OLD },
        { "before a release", "redis_version:2.9.999-rc1\r\n", "is version 2.9.999-rc1" TOO_OLD },
        { "Valkey", "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n", NULL },
        { "unfit for a log", "redis_version:4.\x1b[2J\"\xff\r\n", "is version 4.??2J??" TOO_OLD },
        { "no number", "redis_version:new\r\n", "?" },
        { "only a name like it", "my_redis_version:3.0\r\nredis_versions:3.0\r\n", "?" },
        { "an empty one", "redis_version:\r\n", "?" },
        { "nothing", "$0\r\n\r\n", "?" },
        { "nil", "$-1\r\n", "?" },
        { "an error", "-LOADING Redis is loading the dataset in memory\r\n", "?" },
        { "another type", "*1\r\n$3\r\nabc\r\n", "?" },
        { "no reply", NULL, "?" },
    };
    assert_rows(rows, COUNT_OF(rows), weir_advice_read_version);
}

#define USE_MASTER                                                                                 \
    ", and refuses what is to be counted, or loses it: put its master into the store's \"url\", "  \
    "or "                                                                                          \
    "Sentinels that know who it is."

static void knows_a_replica(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "a master",
          "# Replication\r\nrole:master\r\nconnected_slaves:1\r\n"
          "slave0:ip=10.0.0.6,port=6379,state=online\r\n",
          NULL },
        { "a replica",
          "role:slave\r\nmaster_host:10.0.0.5\r\nmaster_port:6379\r\nslave_read_only:1\r\n",
          "is a replica of 10.0.0.5 port 6379" USE_MASTER },
        { "one that says so", "role:replica\r\nmaster_host:fe80::1\r\nmaster_port:1\r\n",
          "is a replica of fe80::1 port 1" USE_MASTER },
        { "of nobody", "role:slave\r\n", "is a replica of  port " USE_MASTER },
        { "no role", "role_of_this:slave\r\n", "?" },
        { "an error", "-NOPERM this user has no permissions to run the 'info' command\r\n", "?" },
        { "no reply", NULL, "?" },
    };
    assert_rows(rows, COUNT_OF(rows), weir_advice_read_role);
}

#define DROPS "drops keys when its memory is full (maxmemory-policy is "
#define SO_DO                                                                                      \
    "), and a client whose key is dropped starts afresh; give limits a Redis of their own, or: "   \
    "CONFIG SET maxmemory-policy noeviction"

static void knows_a_policy_that_drops_keys(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "none", "maxmemory:1000000\r\nmaxmemory_policy:noeviction\r\n", NULL },
        { "any key", "maxmemory:1000000\r\nmaxmemory_policy:allkeys-lru\r\n",
          DROPS "allkeys-lru" SO_DO },
        { "keys that expire, as all of ours do",
          "maxmemory:1000000\r\nmaxmemory_policy:volatile-ttl\r\n", DROPS "volatile-ttl" SO_DO },
        { "no bound that it could meet", "maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", NULL },
        { "a bound that is not told", "maxmemory_policy:volatile-lru\r\n",
          DROPS "volatile-lru" SO_DO },
        { "no policy", "maxmemory:1000000\r\n", "?" },
        { "an error", "-ERR unknown command `info`\r\n", "?" },
        { "no reply", NULL, "?" },
    };
    assert_rows(rows, COUNT_OF(rows), weir_advice_read_eviction);
}

static void says_that_a_node_is_of_a_cluster(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "alone", "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n", NULL },
        { "a node", "# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\n",
          "is a node of a cluster, and refuses the keys that other nodes have: write "
          "redis+cluster:// in the store's \"url\"." },
        { "not told", "# Server\r\nredis_version:7.0.15\r\n", "?" },
        { "no reply", NULL, "?" },
    };
    assert_rows(rows, COUNT_OF(rows), weir_advice_read_mode);
}

static enum weir_advice_finding read_untold_to_default(const struct redisReply *reply, char *text)
{
    return weir_advice_read_untold(reply, "", text);
}

static void says_when_it_may_not_look(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "told", "# Server\r\nredis_version:7.0.15\r\n", NULL },
        { "forbidden", "-NOPERM this user has no permissions to run the 'info' command\r\n",
          "does not answer INFO, so its version, role and eviction policy are yours to look at, "
          "or: ACL SETUSER default +info" },
        { "renamed", "-ERR unknown command `INFO`, with args beginning with: `server`, \r\n",
          "does not answer INFO, so its version, role and eviction policy are yours to look at" },
        { "busy", "-BUSY Redis is busy running a script.\r\n", "?" },
        { "no reply", NULL, "?" },
    };
    assert_rows(rows, COUNT_OF(rows), read_untold_to_default);
}

/* TIME */

static void knows_a_clock_that_is_off(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *reply;
        uint64_t took_us;
        const char *want;
    } rows[] = {
        { "the same", "*2\r\n$10\r\n1767225600\r\n$1\r\n0\r\n", 0, NULL },
        { "a second ahead", "*2\r\n$10\r\n1767225601\r\n$1\r\n0\r\n", 0, NULL },
        { "a little more", "*2\r\n$10\r\n1767225601\r\n$1\r\n1\r\n", 0, "1.0 s ahead of" },
        { "a second behind", "*2\r\n$10\r\n1767225599\r\n$1\r\n0\r\n", 0, NULL },
        { "a little more behind", "*2\r\n$10\r\n1767225598\r\n$6\r\n999999\r\n", 0,
          "1.0 s behind" },
        { "a zone's worth", "*2\r\n$10\r\n1767229200\r\n$6\r\n250000\r\n", 0, "3600.2 s ahead of" },
        { "looked at as soon as it was asked", "*2\r\n$10\r\n1767225601\r\n$1\r\n0\r\n", 4000000,
          NULL },
        { "looked at last", "*2\r\n$10\r\n1767225605\r\n$1\r\n0\r\n", 4000000, NULL },
        { "off beyond what the way takes", "*2\r\n$10\r\n1767225605\r\n$1\r\n1\r\n", 4000000,
          "3.0 s ahead of" },
        { "at the epoch", "*2\r\n$1\r\n0\r\n$1\r\n0\r\n", 0, "1767225600.0 s behind" },
        { "too late to be", "*2\r\n$20\r\n18446744073709551615\r\n$1\r\n0\r\n", 0, "?" },
        { "more than a second's rest", "*2\r\n$10\r\n1767225600\r\n$7\r\n1000000\r\n", 0, "?" },
        { "a number in another form", "*2\r\n:1767225700\r\n:0\r\n", 0, "?" },
        { "no number", "*2\r\n$1\r\nx\r\n$1\r\n0\r\n", 0, "?" },
        { "half of it", "*1\r\n$10\r\n1767225600\r\n", 0, "?" },
        { "a nil", "*-1\r\n", 0, "?" },
        { "an error", "-NOPERM this user has no permissions to run the 'time' command\r\n", 0,
          "?" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[WEIR_ADVICE_BYTES], want[WEIR_ADVICE_BYTES];
        bool holds = rows[i].want != NULL && rows[i].want[0] != '?';
        snprintf(want, sizeof want,
                 "has a clock that is %s this machine's, and limits follow Redis's: let both "
                 "machines follow NTP (\"timedatectl\" shows whether one does).",
                 holds ? rows[i].want : "");
        const struct row row = { rows[i].what, rows[i].reply, holds ? want : rows[i].want };
        redisReply *reply = reply_in(&row);
        assert_found(&row, weir_advice_read_clock(reply, NOW, rows[i].took_us, text), text);
        freeReplyObject(reply);
    }
    char text[WEIR_ADVICE_BYTES];
    assert_int_equal(weir_advice_read_clock(NULL, NOW, 0, text), WEIR_ADVICE_UNKNOWN);
}

/* commands and keys */

static redisReply *list_of(const char *const *items, size_t count)
{
    char resp[4096];
    int length = snprintf(resp, sizeof resp, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        length += snprintf(resp + length, sizeof resp - (size_t)length, "$%zu\r\n%s\r\n",
                           strlen(items[i]), items[i]);
    return reply_of(resp);
}

#define FORBIDS "forbids commands without which nothing can be counted: ACL SETUSER weir "
#define RENAMED                                                                                    \
    "does not know commands without which nothing can be counted; look for rename-command in its " \
    "configuration: "
#define OLD_SCRIPT "ERR The user executing the script can't run this command or subcommand"
#define NEW_SCRIPT "NOPERM ACL failure in script: User weir has no permissions to run the "
#define UNKNOWN    "ERR Unknown Redis command called from script"

static void names_the_commands_that_are_missing(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        const char *items[4];
        size_t count;
        const char *want;
    } rows[] = {
        { "none", { NULL }, 0, NULL },
        { "errors of commands that were run",
          { "PSETEX ERR invalid expire time in 'psetex' command",
            "SETRANGE READONLY You can't write against a read only replica.",
            "UNLINK OOM command not allowed when used memory > 'maxmemory'.",
            "GET CLUSTERDOWN The cluster is down" },
          4,
          NULL },
        { "one, in the words of Redis 7.0", { "UNLINK " OLD_SCRIPT }, 1, FORBIDS "+unlink" },
        { "two, in those of 7.2",
          { "PTTL " NEW_SCRIPT "'pttl' command", "SETRANGE " NEW_SCRIPT "'setrange' command" },
          2,
          FORBIDS "+pttl +setrange" },
        { "keys are another matter",
          { "GET ERR The user executing the script can't access at least one of the keys mentioned "
            "in the command arguments",
            "PTTL NOPERM ACL failure in script: No permissions to access a key" },
          2,
          NULL },
        { "renamed", { "UNLINK " UNKNOWN, "TIME " UNKNOWN }, 2, RENAMED "unlink time" },
        { "first what a line can mend",
          { "UNLINK " UNKNOWN, "PTTL " OLD_SCRIPT },
          2,
          FORBIDS "+pttl" },
        { "no command that we know", { "un\x1blink " OLD_SCRIPT }, 1, FORBIDS "+" },
        { "nothing", { "" }, 1, NULL },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[WEIR_ADVICE_BYTES];
        const struct row row = { .what = rows[i].what, .want = rows[i].want };
        redisReply *reply = list_of(rows[i].items, rows[i].count);
        assert_found(&row, weir_advice_read_commands(reply, "weir", text), text);
        freeReplyObject(reply);
    }
}

/* Each "call('COMMAND'" of a file, in quotes. */
static void assert_tries_what_it_calls(const char *path)
{
    char text[32768], script[1024];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_true(length < sizeof text - 1);
    text[length] = '\0';
    snprintf(script, sizeof script, "%.*s", WEIR_TEXT_ARGS(weir_advice_script()));
    static const char before[] = "call(";
    for (const char *at = text; (at = strstr(at, before)) != NULL; at++) {
        char name[32] = "";
        if (sscanf(at + strlen(before), "'%20[A-Z]'", name) != 1)
            continue;
        char quoted[40];
        snprintf(quoted, sizeof quoted, "'%s'", name);
        if (strstr(script, quoted) == NULL)
            fail_msg("%s calls %s, which is not tried", path, name);
    }
}

static void tries_each_command_that_scripts_use(void **state)
{
    (void)state;
    char pattern[4096];
    snprintf(pattern, sizeof pattern, "%s/redis_*.lua", getenv("WEIR_LUA"));
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 10);
    for (size_t i = 0; i < found.gl_pathc; i++)
        assert_tries_what_it_calls(found.gl_pathv[i]);
    globfree(&found);
}

static enum weir_advice_finding read_commands_of_weir(const struct redisReply *reply, char *text)
{
    return weir_advice_read_commands(reply, "weir", text);
}

static void finds_no_commands_missing_in_another_reply(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "items of another type", "*3\r\n:1\r\n*0\r\n$-1\r\n", NULL },
        { "refused", "-NOPERM this user has no permissions to run the 'eval' command\r\n",
          FORBIDS "+eval" },
        { "refused without a name", "-NOPERM no permissions to run it\r\n", "?" },
        { "busy", "-BUSY Redis is busy running a script.\r\n", "?" },
        { "a text", "UNLINK " OLD_SCRIPT, "?" },
        { "a nil", "*-1\r\n", "?" },
        { "no reply", NULL, "?" },
    };
    assert_rows(rows, COUNT_OF(rows), read_commands_of_weir);
}

static void writes_no_more_than_has_room(void **state)
{
    (void)state;
    const char *items[40], *user = "a-user-whose-name-is-much-longer-than-any-that-somebody-would-"
                                   "think-of-when-there-is-no-need-to";
    for (size_t i = 0; i < COUNT_OF(items); i++)
        items[i] = "ACOMMANDOFANENDLESSLENGTHTHATNOBODYEVERSAW " OLD_SCRIPT;
    redisReply *reply = list_of(items, 24);
    char text[WEIR_ADVICE_BYTES];
    assert_int_equal(weir_advice_read_commands(reply, user, text), WEIR_ADVICE_HOLDS);
    assert_true(strlen(text) < WEIR_ADVICE_BYTES);
    freeReplyObject(reply);
}

static void knows_what_an_access_list_refused(void **state)
{
    (void)state;
    static const char key[] = "weir:{ip=192.0.2.7/32}:api:burst:gcra";
    static const struct {
        const char *what;
        const char *why;
        const char *key;
        enum weir_advice advice;
        const char *want; /* NULL: it was not refused by one */
    } rows[] = {
        { "a key, in the words of Redis 7.0, cut to a check's size",
          "NOPERM this user has no permissions to access one of the keys u", key, WEIR_ADVICE_KEYS,
          "~weir:*" },
        { "a key, in those of 7.2", "NOPERM No permissions to access a key", key, WEIR_ADVICE_KEYS,
          "~weir:*" },
        { "a longer prefix", "NOPERM No permissions to access a key", "shop:weir:{a}:b",
          WEIR_ADVICE_KEYS, "~shop:weir:*" },
        { "no prefix", "NOPERM No permissions to access a key", "{a}:b", WEIR_ADVICE_KEYS,
          "~PREFIX:*" },
        { "the call", "NOPERM this user has no permissions to run the 'evalsha' command", key,
          WEIR_ADVICE_CALLS, "+evalsha" },
        { "the call, cut", "NOPERM User weir has no permissions to run the 'evals", key,
          WEIR_ADVICE_CALLS, "+evals" },
        { "a command in a script, which was told when it was tried",
          "ERR The user executing the script can't run this command or sub", key, WEIR_ADVICE_CALLS,
          NULL },
        { "something else", "OOM command not allowed when used memory > 'maxmemory'.", key,
          WEIR_ADVICE_CALLS, NULL },
        { "nothing", "", key, WEIR_ADVICE_CALLS, NULL },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[WEIR_ADVICE_BYTES], want[WEIR_ADVICE_BYTES];
        enum weir_advice advice;
        enum weir_advice_finding found =
            weir_advice_read_refusal(rows[i].why, "", weir_text_from(rows[i].key), &advice, text);
        snprintf(want, sizeof want, "%s: ACL SETUSER default %s",
                 advice == WEIR_ADVICE_KEYS
                     ? "forbids the keys in which limits are kept"
                     : "forbids commands without which nothing can be counted",
                 rows[i].want == NULL ? "" : rows[i].want);
        const struct row row = { .what = rows[i].what, .want = rows[i].want == NULL ? "?" : want };
        assert_found(&row, found, text);
        assert_int_equal(advice, rows[i].advice);
    }
}

/* what was said */

static void says_a_thing_again_only_after_it_was_gone(void **state)
{
    (void)state;
    static const struct {
        const char *server;
        enum weir_advice advice;
        enum weir_advice_finding finding;
        bool says;
    } rows[] = {
        { "a:1", WEIR_ADVICE_CLOCK, WEIR_ADVICE_FINE, false },
        { "a:1", WEIR_ADVICE_CLOCK, WEIR_ADVICE_HOLDS, true },
        { "a:1", WEIR_ADVICE_CLOCK, WEIR_ADVICE_HOLDS, false },
        { "a:1", WEIR_ADVICE_CLOCK, WEIR_ADVICE_UNKNOWN, false },
        { "a:1", WEIR_ADVICE_CLOCK, WEIR_ADVICE_HOLDS, false },
        { "b:1", WEIR_ADVICE_CLOCK, WEIR_ADVICE_HOLDS, true },
        { "a:1", WEIR_ADVICE_REPLICA, WEIR_ADVICE_HOLDS, true },
        { "a:1", WEIR_ADVICE_CLOCK, WEIR_ADVICE_FINE, false },
        { "a:1", WEIR_ADVICE_REPLICA, WEIR_ADVICE_HOLDS, false },
        { "a:1", WEIR_ADVICE_CLOCK, WEIR_ADVICE_HOLDS, true },
    };
    struct weir_advice_book book = { .count = 0 };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(weir_advice_note(&book, rows[i].server, rows[i].advice, rows[i].finding),
                         rows[i].says);
}

static void remembers_as_many_servers_as_there_is_room_for(void **state)
{
    (void)state;
    struct weir_advice_book book = { .count = 0 };
    char name[32];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < WEIR_ADVICE_SERVERS_MAX; i++) {
            snprintf(name, sizeof name, "10.0.0.%d:6379", i);
            assert_int_equal(weir_advice_note(&book, name, WEIR_ADVICE_VERSION, WEIR_ADVICE_HOLDS),
                             round == 0);
        }
    assert_true(weir_advice_note(&book, "one more", WEIR_ADVICE_VERSION, WEIR_ADVICE_HOLDS));
    assert_true(weir_advice_note(&book, "10.0.0.0:6379", WEIR_ADVICE_VERSION, WEIR_ADVICE_HOLDS));
    assert_false(weir_advice_note(&book, "10.0.0.9:6379", WEIR_ADVICE_VERSION, WEIR_ADVICE_HOLDS));
}

static void has_a_code_for_each(void **state)
{
    (void)state;
    static const char *const names[WEIR_ADVICE_COUNT] = {
        "redis-version",  "redis-replica",  "redis-cluster", "redis-eviction", "redis-clock",
        "redis-commands", "redis-commands", "redis-keys",    "redis-untold",
    };
    for (unsigned i = 0; i < WEIR_ADVICE_COUNT; i++)
        assert_string_equal(weir_code_name(weir_advice_code((enum weir_advice)i)), names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_a_version_that_is_too_old),
        cmocka_unit_test(knows_a_replica),
        cmocka_unit_test(knows_a_policy_that_drops_keys),
        cmocka_unit_test(says_that_a_node_is_of_a_cluster),
        cmocka_unit_test(says_when_it_may_not_look),
        cmocka_unit_test(knows_a_clock_that_is_off),
        cmocka_unit_test(tries_each_command_that_scripts_use),
        cmocka_unit_test(names_the_commands_that_are_missing),
        cmocka_unit_test(finds_no_commands_missing_in_another_reply),
        cmocka_unit_test(writes_no_more_than_has_room),
        cmocka_unit_test(knows_what_an_access_list_refused),
        cmocka_unit_test(says_a_thing_again_only_after_it_was_gone),
        cmocka_unit_test(remembers_as_many_servers_as_there_is_room_for),
        cmocka_unit_test(has_a_code_for_each),
    };
    return cmocka_run_group_tests_name("advice", tests, NULL, NULL);
}
