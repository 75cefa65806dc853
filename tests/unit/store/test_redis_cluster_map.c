#include "test.h"

#include <hiredis/hiredis.h>

#include "store/redis_cluster_map.h"

static struct weir_cluster_map map;
static const struct weir_redis_place asked = { "192.0.2.9", 7000 };

/* What hiredis makes of bytes. */
static redisReply *parsed(const char *resp)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    assert_non_null(reader);
    assert_int_equal(redisReaderFeed(reader, resp, strlen(resp)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

static bool read_map(const char *resp, char why[96])
{
    redisReply *reply = parsed(resp);
    strcpy(why, "");
    bool is_map = weir_cluster_map_read(&map, reply, &asked, why, 96);
    freeReplyObject(reply);
    return is_map;
}

static void assert_master(unsigned slot, const char *host, unsigned port)
{
    assert_true(map.masters[slot] < map.master_count);
    const struct weir_redis_place *node = &map.nodes[map.masters[slot]];
    assert_string_equal(node->host, host);
    assert_int_equal(node->port, port);
}

static size_t unserved(void)
{
    size_t count = 0;
    for (size_t i = 0; i < WEIR_REDIS_SLOTS; i++)
        count += map.masters[i] == WEIR_CLUSTER_NOBODY;
    return count;
}

#define NODE(host, port) "*3\r\n" host ":" port "\r\n$2\r\nid\r\n"
#define H1               "$9\r\n192.0.2.1\r\n"
#define H2               "$9\r\n192.0.2.2\r\n"
#define H3               "$9\r\n192.0.2.3\r\n"
#define RANGE(first, last)                                                                         \
    ":" first "\r\n"                                                                               \
    ":" last "\r\n"

static void reads_who_serves_which_slot(void **state)
{
    (void)state;
    char why[96];
    /* Two masters, one of them with two ranges, and a replica of the other. */
    assert_true(read_map("*3\r\n"
                         "*3\r\n" RANGE("0", "99") NODE(H1, "7001") "*4\r\n" RANGE("100", "16382")
                             NODE(H2, "7002") NODE(H3, "7003") "*3\r\n" RANGE("16383", "16383")
                                 NODE(H1, "7001"),
                         why));
    assert_int_equal(map.master_count, 2);
    assert_int_equal(map.node_count, 3);
    assert_master(0, "192.0.2.1", 7001);
    assert_master(99, "192.0.2.1", 7001);
    assert_master(100, "192.0.2.2", 7002);
    assert_master(16382, "192.0.2.2", 7002);
    assert_master(16383, "192.0.2.1", 7001);
    assert_string_equal(map.nodes[2].host, "192.0.2.3");
    assert_int_equal(unserved(), 0);
}

static void knows_slots_that_nobody_serves(void **state)
{
    (void)state;
    char why[96];
    assert_true(read_map("*1\r\n*3\r\n" RANGE("5", "16000") NODE(H1, "7001"), why));
    assert_int_equal(map.masters[4], WEIR_CLUSTER_NOBODY);
    assert_master(5, "192.0.2.1", 7001);
    assert_int_equal(map.masters[16001], WEIR_CLUSTER_NOBODY);
    assert_int_equal(unserved(), 5 + 383);

    assert_true(read_map("*0\r\n", why));
    assert_int_equal(map.node_count, 0);
    assert_int_equal(unserved(), WEIR_REDIS_SLOTS);
}

static void finds_a_host_that_is_not_told(void **state)
{
    (void)state;
    static const struct {
        const char *what, *node, *host;
    } rows[] = {
        { "an address", NODE(H1, "7001"), "192.0.2.1" },
        { "a name", NODE("$11\r\nredis1.test\r\n", "7001"), "redis1.test" },
        { "an IPv6 address", NODE("$11\r\n2001:db8::1\r\n", "7001"), "2001:db8::1" },
        { "no host", NODE("$-1\r\n", "7001"), "192.0.2.9" },
        { "an empty host", NODE("$0\r\n\r\n", "7001"), "192.0.2.9" },
        { "a name that was not given", NODE("$1\r\n?\r\n", "7001"), "192.0.2.9" },
        { "such a name, and the address beside it",
          "*4\r\n$1\r\n?\r\n:7001\r\n$2\r\nid\r\n*2\r\n$2\r\nip\r\n$9\r\n192.0.2.1\r\n",
          "192.0.2.1" },
        { "other things beside it",
          "*4\r\n$1\r\n?\r\n:7001\r\n$2\r\nid\r\n*3\r\n$8\r\nhostname\r\n:1\r\n$2\r\nip\r\n",
          "192.0.2.9" },
        { "no id", "*2\r\n" H1 ":7001\r\n", "192.0.2.1" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        char resp[256], why[96];
        snprintf(resp, sizeof resp, "*1\r\n*3\r\n" RANGE("0", "16383") "%s", rows[i].node);
        assert_true(read_map(resp, why));
        assert_master(0, rows[i].host, 7001);
    }
}

static void refuses_what_is_no_map(void **state)
{
    (void)state;
    static const char no_answer[] = "what it says of the cluster's slots is no answer";
    static const struct {
        const char *what, *resp, *why;
    } rows[] = {
        { "a status", "+OK\r\n", no_answer },
        { "nothing", "$-1\r\n", no_answer },
        { "a range that is none", "*1\r\n:1\r\n", no_answer },
        { "a range without a node", "*1\r\n*2\r\n" RANGE("0", "1"), no_answer },
        { "a range that is empty", "*1\r\n*0\r\n", no_answer },
        { "a slot above the last one", "*1\r\n*3\r\n" RANGE("0", "16384") NODE(H1, "1"),
          no_answer },
        { "a slot below the first one", "*1\r\n*3\r\n" RANGE("-1", "5") NODE(H1, "1"), no_answer },
        { "a range that goes backwards", "*1\r\n*3\r\n" RANGE("5", "4") NODE(H1, "1"), no_answer },
        { "a slot that is a text", "*1\r\n*3\r\n$1\r\n0\r\n:4\r\n" NODE(H1, "1"), no_answer },
        { "a node that is none", "*1\r\n*3\r\n" RANGE("0", "1") "$1\r\nx\r\n", no_answer },
        { "a node of one part", "*1\r\n*3\r\n" RANGE("0", "1") "*1\r\n" H1, no_answer },
        { "a host that is a number", "*1\r\n*3\r\n" RANGE("0", "1") NODE(":9\r\n", "1"),
          no_answer },
        { "a host with a blank", "*1\r\n*3\r\n" RANGE("0", "1") NODE("$3\r\na b\r\n", "1"),
          no_answer },
        { "a port of 0", "*1\r\n*3\r\n" RANGE("0", "1") NODE(H1, "0"), no_answer },
        { "a port above all", "*1\r\n*3\r\n" RANGE("0", "1") NODE(H1, "65536"), no_answer },
        { "an error without words", "-\r\n", no_answer },
        { "a server without cluster", "-ERR This instance has cluster support disabled\r\n",
          "it belongs to no cluster: its URL begins with redis://" },
        { "a user without rights",
          "-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n",
          "NOPERM this user has no permissions to run the 'cluster|slots' command" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        char why[96];
        assert_false(read_map(rows[i].resp, why));
        assert_string_equal(why, rows[i].why);
    }
    char why[96];
    assert_false(weir_cluster_map_read(&map, NULL, &asked, why, sizeof why));
    assert_string_equal(why, no_answer);
}

/* One range and one master for each port from 1 on, and a replica at each port from 10001 on. */
static redisReply *many(size_t masters, size_t replicas)
{
    char *resp;
    size_t size;
    FILE *out = open_memstream(&resp, &size);
    assert_non_null(out);
    fprintf(out, "*%zu\r\n", masters);
    for (size_t i = 0; i < masters; i++) {
        fprintf(out, "*%zu\r\n:%zu\r\n:%zu\r\n", 3 + replicas, i, i);
        fprintf(out, "*2\r\n" H1 ":%zu\r\n", i + 1);
        for (size_t n = 0; n < replicas; n++)
            fprintf(out, "*2\r\n" H2 ":%zu\r\n", 10001 + i * replicas + n);
    }
    fclose(out);
    redisReply *reply = parsed(resp);
    free(resp);
    return reply;
}

static void has_room_for_many_masters(void **state)
{
    (void)state;
    char why[96];
    redisReply *reply = many(WEIR_CLUSTER_NODES_MAX, 0);
    assert_true(weir_cluster_map_read(&map, reply, &asked, why, sizeof why));
    assert_int_equal(map.master_count, WEIR_CLUSTER_NODES_MAX);
    assert_master(WEIR_CLUSTER_NODES_MAX - 1, "192.0.2.1", WEIR_CLUSTER_NODES_MAX);
    freeReplyObject(reply);

    reply = many(WEIR_CLUSTER_NODES_MAX + 1, 0);
    assert_false(weir_cluster_map_read(&map, reply, &asked, why, sizeof why));
    assert_string_equal(why, "the cluster has more than 200 masters");
    freeReplyObject(reply);

    /* Replicas are left out, and none takes a master's place. */
    reply = many(150, 3);
    assert_true(weir_cluster_map_read(&map, reply, &asked, why, sizeof why));
    assert_int_equal(map.master_count, 150);
    assert_int_equal(map.node_count, WEIR_CLUSTER_NODES_MAX);
    assert_master(149, "192.0.2.1", 150);
    assert_int_equal(map.nodes[150].port, 10001);
    freeReplyObject(reply);
}

/* Each slot a range of its own, in turn at one of 199 masters with a replica each. */
static void reads_a_map_that_is_scattered(void **state)
{
    (void)state;
    char *resp, why[96];
    size_t size;
    FILE *out = open_memstream(&resp, &size);
    assert_non_null(out);
    fprintf(out, "*%d\r\n", WEIR_REDIS_SLOTS);
    for (unsigned slot = 0; slot < WEIR_REDIS_SLOTS; slot++)
        fprintf(out, "*4\r\n:%u\r\n:%u\r\n*2\r\n" H1 ":%u\r\n*2\r\n" H2 ":%u\r\n", slot, slot,
                7000 + slot % 199, 7000 + slot % 199);
    fclose(out);
    assert_true(read_map(resp, why));
    free(resp);
    assert_int_equal(map.master_count, 199);
    assert_int_equal(map.node_count, WEIR_CLUSTER_NODES_MAX);
    for (unsigned slot = 0; slot < WEIR_REDIS_SLOTS; slot++)
        assert_master(slot, "192.0.2.1", 7000 + slot % 199);
}

static void reads_redirections(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_ask;
        unsigned slot;
        const char *host;
        unsigned port;
    } rows[] = {
        { "MOVED 3999 127.0.0.1:6381", false, 3999, "127.0.0.1", 6381 },
        { "ASK 0 redis1.test:1", true, 0, "redis1.test", 1 },
        { "MOVED 16383 2001:db8::1:65535", false, 16383, "2001:db8::1", 65535 },
        { "MOVED 12182 :17003", false, 12182, "192.0.2.9", 17003 },
        { "ASK 12182 ?:17003", true, 12182, "192.0.2.9", 17003 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].text);
        struct weir_cluster_redirect got;
        assert_true(weir_cluster_redirect_read(rows[i].text, &asked, &got));
        assert_int_equal(got.is_ask, rows[i].is_ask);
        assert_int_equal(got.slot, rows[i].slot);
        assert_string_equal(got.to.host, rows[i].host);
        assert_int_equal(got.to.port, rows[i].port);
    }
}

static void refuses_what_is_no_redirection(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "ERR unknown",
        "MOVED",
        "MOVED ",
        "ASK  127.0.0.1:1",
        "MOVED 1",
        "MOVED 1 ",
        "MOVED 1 host",
        "MOVED 1 host:",
        "MOVED 1 host:0",
        "MOVED 1 host:65536",
        "MOVED 1 host:x",
        "MOVED 16384 host:1",
        "MOVED -1 host:1",
        "MOVED 1 ho st:1",
        "moved 1 host:1",
        "MOVED 1 :",
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i]);
        struct weir_cluster_redirect got;
        assert_false(weir_cluster_redirect_read(rows[i], &asked, &got));
    }
    /* A host of 255 characters fits, and no longer one. */
    struct weir_cluster_redirect got;
    char text[400];
    snprintf(text, sizeof text, "MOVED 1 %0255d:1", 0);
    assert_true(weir_cluster_redirect_read(text, &asked, &got));
    snprintf(text, sizeof text, "MOVED 1 %0256d:1", 0);
    assert_false(weir_cluster_redirect_read(text, &asked, &got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_who_serves_which_slot),
        cmocka_unit_test(knows_slots_that_nobody_serves),
        cmocka_unit_test(finds_a_host_that_is_not_told),
        cmocka_unit_test(refuses_what_is_no_map),
        cmocka_unit_test(has_room_for_many_masters),
        cmocka_unit_test(reads_a_map_that_is_scattered),
        cmocka_unit_test(reads_redirections),
        cmocka_unit_test(refuses_what_is_no_redirection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
