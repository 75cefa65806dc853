#include "test.h"

#include <jansson.h>

#include "identity/forwarded.h"
#include "peer.h"

#define LINES_MAX 8

/* What is told of the walk leads from the peer to the client, one believed entry after the other. */
static void check_hops(const struct weir_hops *hops, const struct weir_facts *facts,
                       const struct weir_address *client, unsigned hops_used)
{
    struct weir_address peer = weir_address_from(facts->peer);
    assert_int_equal(hops->count, hops_used + 1);
    assert_true(weir_address_equal(&hops->hop[0].speaker, &peer));
    assert_true(weir_address_equal(&hops->hop[hops_used].speaker, client));
    for (size_t i = 0; i < hops->count; i++) {
        const struct weir_hop *hop = &hops->hop[i];
        assert_int_equal(hop->is_believed, i < hops_used);
        assert_true(hop->is_trusted || (!hop->is_believed && hop->entry.length == 0));
    }
}

/* The client that is found behind `peer`, as text. */
static const char *client_of(const struct weir_trust *trust, enum weir_forwarded_form form,
                             const char *peer_text, const char *const *lines, size_t count,
                             unsigned *hops_used)
{
    static char text[WEIR_ADDRESS_CHARS];
    union peer peer = peer_from(peer_text);
    struct weir_line headers[LINES_MAX + 1] = { { WEIR_TEXT("X-Other"), WEIR_TEXT("9.9.9.9") } };
    assert_true(count <= LINES_MAX);
    for (size_t i = 0; i < count; i++)
        headers[i + 1] = (struct weir_line){ WEIR_TEXT("x-THE-header"), weir_text_from(lines[i]) };

    struct weir_facts facts = { .headers = headers, .header_count = count + 1, .peer = &peer.any };
    struct weir_address client =
        weir_forwarded_client(trust, form, WEIR_TEXT("X-The-Header"), &facts, hops_used);
    struct weir_hops hops;
    unsigned traced;
    struct weir_address same =
        weir_forwarded_trace(trust, form, WEIR_TEXT("X-The-Header"), &facts, &traced, &hops);
    assert_true(weir_address_equal(&client, &same));
    check_hops(&hops, &facts, &client, traced);
    weir_address_print(&client, text);
    return text;
}

/* the case file */

static struct weir_trust trust_from(const json_t *value)
{
    struct weir_trust trust = { .hops = 0 };
    if (json_is_integer(value))
        trust.hops = (unsigned)json_integer_value(value);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *text = json_string_value(json_array_get(value, i));
        assert_int_equal(weir_trust_add(&trust, weir_text_from(text), NULL, NULL), WEIR_OK);
    }
    return trust;
}

static void check_case(const json_t *row, enum weir_forwarded_form form)
{
    const char *lines[LINES_MAX];
    const json_t *values = json_object_get(row, "header_lines");
    size_t count = json_array_size(values);
    assert_true(json_is_array(values) && count <= LINES_MAX);
    for (size_t i = 0; i < count; i++)
        lines[i] = json_string_value(json_array_get(values, i));

    struct weir_trust trust = trust_from(json_object_get(row, "trust"));
    print_message("    %s\n", json_string_value(json_object_get(row, "id")));
    assert_string_equal(client_of(&trust, form, json_string_value(json_object_get(row, "peer")),
                                  lines, count, NULL),
                        json_string_value(json_object_get(row, "expected")));
    weir_trust_finish(&trust);
}

static void check_cases(const char *list, enum weir_forwarded_form form, size_t at_least)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/client_ip.json", getenv("WEIR_CASES"));
    json_auto_t *root = json_load_file(path, 0, NULL);
    const json_t *rows = json_object_get(root, list);
    assert_true(json_array_size(rows) >= at_least);
    for (size_t i = 0; i < json_array_size(rows); i++)
        check_case(json_array_get(rows, i), form);
}

static void finds_the_clients_of_the_case_file(void **state)
{
    (void)state;
    check_cases("x_forwarded_for", WEIR_X_FORWARDED_FOR, 80);
}

static void finds_the_forwarded_clients_of_the_case_file(void **state)
{
    (void)state;
    check_cases("forwarded", WEIR_FORWARDED, 22);
}

/* more of the kind */

struct row {
    const char *when;
    const char *peer;
    const char *lines[3]; /* up to the first NULL */
    const char *client;
    unsigned hops_used;
};

static void check_rows(const struct weir_trust *trust, enum weir_forwarded_form form,
                       const struct row *rows, size_t row_count)
{
    for (size_t i = 0; i < row_count; i++) {
        unsigned hops_used = 99;
        size_t count = 0;
        while (count < 3 && rows[i].lines[count] != NULL)
            count++;
        print_message("    %s\n", rows[i].when);
        assert_string_equal(client_of(trust, form, rows[i].peer, rows[i].lines, count, &hops_used),
                            rows[i].client);
        assert_int_equal(hops_used, rows[i].hops_used);
    }
}

static struct weir_trust trust_local(void)
{
    struct weir_trust trust = { .hops = 0 };
    assert_int_equal(weir_trust_add(&trust, WEIR_TEXT("10.0.0.0/8"), NULL, NULL), WEIR_OK);
    assert_int_equal(weir_trust_add(&trust, WEIR_TEXT("unix"), NULL, NULL), WEIR_OK);
    return trust;
}

static void walks_while_who_speaks_is_trusted(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "no header", "10.0.0.1", { NULL }, "10.0.0.1", 0 },
        { "an untrusted peer", "192.0.2.1", { "1.1.1.1" }, "192.0.2.1", 0 },
        { "one entry", "10.0.0.1", { "1.1.1.1" }, "1.1.1.1", 1 },
        { "one trusted entry", "10.0.0.1", { "6.6.6.6, 1.1.1.1, 10.0.0.2" }, "1.1.1.1", 2 },
        { "two trusted entries",
          "10.0.0.1",
          { "6.6.6.6, 1.1.1.1, 10.0.0.2, 10.0.0.3" },
          "1.1.1.1",
          3 },
        { "a forged loopback", "10.0.0.1", { "127.0.0.1, 198.51.100.7" }, "198.51.100.7", 1 },
        { "garbage before the client",
          "10.0.0.1",
          { "\"'\\\x01, 198.51.100.7" },
          "198.51.100.7",
          1 },
        { "garbage from the proxy", "10.0.0.1", { "198.51.100.7, \xFF, 10.0.0.2" }, "10.0.0.2", 1 },
        { "lines in order", "10.0.0.1", { "6.6.6.6", "1.1.1.1", "10.0.0.2" }, "1.1.1.1", 2 },
        { "blank entries and lines",
          "10.0.0.1",
          { "1.1.1.1,\t", " ", ", ,10.0.0.2" },
          "1.1.1.1",
          2 },
        { "ports differ", "10.0.0.1", { "203.0.113.9:51002" }, "203.0.113.9", 1 },
        { "a quote means nothing here", "10.0.0.1", { "\"1.1.1.1, 2.2.2.2\"" }, "10.0.0.1", 0 },
        { "a trusted Unix socket", "unix", { "1.1.1.1" }, "1.1.1.1", 1 },
        { "a trusted Unix socket without a header", "unix", { NULL }, "", 0 },
        { "a trusted Unix socket with garbage", "unix", { "unknown" }, "", 0 },
    };
    struct weir_trust trust = trust_local();
    check_rows(&trust, WEIR_X_FORWARDED_FOR, rows, COUNT_OF(rows));
    weir_trust_finish(&trust);
}

static void counts_hops_from_the_peer(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "as many as there are", "10.0.0.1", { "6.6.6.6, 1.1.1.1, 5.5.5.5" }, "1.1.1.1", 2 },
        { "fewer than that", "10.0.0.1", { "1.1.1.1" }, "1.1.1.1", 1 },
        { "garbage stops", "10.0.0.1", { "1.1.1.1, unknown" }, "10.0.0.1", 0 },
        { "any peer is the first", "203.0.113.1", { "6.6.6.6, 1.1.1.1, 5.5.5.5" }, "1.1.1.1", 2 },
        { "a Unix socket too", "unix", { "6.6.6.6, 1.1.1.1, 5.5.5.5" }, "1.1.1.1", 2 },
    };
    check_rows(&(struct weir_trust){ .hops = 2 }, WEIR_X_FORWARDED_FOR, rows, COUNT_OF(rows));
}

static void gives_no_address_for_an_untrusted_unix_socket(void **state)
{
    (void)state;
    static const struct row rows[] = { { "with a header", "unix", { "1.1.1.1" }, "", 0 } };
    struct weir_trust trust = { .hops = 0 };
    check_rows(&trust, WEIR_X_FORWARDED_FOR, rows, COUNT_OF(rows));
    check_rows(&trust, WEIR_FORWARDED, rows, COUNT_OF(rows));
    check_rows(&trust, WEIR_ONE_ADDRESS, rows, COUNT_OF(rows));
}

static void reads_forwarded_elements_strictly(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "blanks around semicolons", "10.0.0.1", { "for=1.1.1.1 ; proto=https" }, "1.1.1.1", 1 },
        { "a blank before the equals sign", "10.0.0.1", { "for =1.1.1.1" }, "10.0.0.1", 0 },
        { "a blank behind the equals sign", "10.0.0.1", { "for= 1.1.1.1" }, "10.0.0.1", 0 },
        { "no value", "10.0.0.1", { "for=" }, "10.0.0.1", 0 },
        { "no name", "10.0.0.1", { "=1.1.1.1" }, "10.0.0.1", 0 },
        { "a name alone", "10.0.0.1", { "for" }, "10.0.0.1", 0 },
        { "an empty string", "10.0.0.1", { "for=\"\"" }, "10.0.0.1", 0 },
        { "text behind a string", "10.0.0.1", { "for=\"1.1.1.1\"x" }, "10.0.0.1", 0 },
        { "text behind a token", "10.0.0.1", { "for=1.1.1.1 x" }, "10.0.0.1", 0 },
        { "a bare address", "10.0.0.1", { "1.1.1.1" }, "10.0.0.1", 0 },
        { "IPv6 without brackets", "10.0.0.1", { "for=\"2001:db8::1\"" }, "10.0.0.1", 0 },
        { "a secret port", "10.0.0.1", { "for=\"[2001:db8::1]:_p\"" }, "2001:db8::1", 1 },
        { "mapped IPv4 in brackets", "10.0.0.1", { "for=\"[::ffff:1.1.1.1]\"" }, "1.1.1.1", 1 },
        { "another parameter twice", "10.0.0.1", { "by=a;for=1.1.1.1;BY=b" }, "10.0.0.1", 0 },
        { "a name that only ends in for", "10.0.0.1", { "xfor=1.1.1.1" }, "10.0.0.1", 0 },
        { "semicolons only", "10.0.0.1", { ";;" }, "10.0.0.1", 0 },
        { "too many parameters",
          "10.0.0.1",
          { "a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;i=1;j=1;k=1;l=1;m=1;n=1;o=1;p=1;for=1.1.1.1" },
          "10.0.0.1",
          0 },
        { "as many as may be",
          "10.0.0.1",
          { "a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;i=1;j=1;k=1;l=1;m=1;n=1;o=1;for=1.1.1.1" },
          "1.1.1.1",
          1 },
        { "a value longer than any node",
          "10.0.0.1",
          { "for=\"11111111111111111111111111111111111111111111111111111111111111111111111111111"
            "111111111111111111111111111111111111111111111111111111111111\"" },
          "10.0.0.1",
          0 },
    };
    struct weir_trust trust = trust_local();
    check_rows(&trust, WEIR_FORWARDED, rows, COUNT_OF(rows));
    weir_trust_finish(&trust);
}

static void lets_no_quote_of_a_client_reach_the_proxys_element(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "a quote left open", "10.0.0.1", { "for=\"6.6.6.6, for=1.1.1.1" }, "1.1.1.1", 1 },
        { "a quote and a quoted address",
          "10.0.0.1",
          { "for=\", for=\"[2001:db8::1]:80\"" },
          "2001:db8::1",
          1 },
        { "a backslash at the end",
          "10.0.0.1",
          { "for=\"x\\, for=\"[2001:db8::1]\"" },
          "2001:db8::1",
          1 },
        { "a quote left open in a line of its own",
          "10.0.0.1",
          { "for=\"6.6.6.6", "for=1.1.1.1" },
          "1.1.1.1",
          1 },
        { "a quote left open behind a trusted one",
          "10.0.0.1",
          { "for=\"6.6.6.6, for=10.0.0.2" },
          "10.0.0.2",
          1 },
        { "commas in quotes",
          "10.0.0.1",
          { "for=6.6.6.6, for=1.1.1.1;x=\",for=2.2.2.2,\"" },
          "1.1.1.1",
          1 },
        { "an escaped quote and a comma",
          "10.0.0.1",
          { "for=1.1.1.1;x=\"\\\", for=2.2.2.2\"" },
          "1.1.1.1",
          1 },
        { "an escaped quote counts for nothing",
          "10.0.0.1",
          { "for=6.6.6.6, for=1.1.1.1;x=\"a\\\"b\"" },
          "1.1.1.1",
          1 },
        { "an escaped backslash before the closing quote",
          "10.0.0.1",
          { "for=6.6.6.6,for=1.1.1.1;x=\",\\\\\"" },
          "1.1.1.1",
          1 },
    };
    struct weir_trust trust = trust_local();
    check_rows(&trust, WEIR_FORWARDED, rows, COUNT_OF(rows));
    weir_trust_finish(&trust);
}

static void takes_one_address_from_the_last_line(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "an address", "10.0.0.1", { "1.1.1.1" }, "1.1.1.1", 1 },
        { "blanks around it", "10.0.0.1", { " 1.1.1.1\t" }, "1.1.1.1", 1 },
        { "with a port", "10.0.0.1", { "[2001:db8::1]:80" }, "2001:db8::1", 1 },
        { "two lines", "10.0.0.1", { "6.6.6.6", "1.1.1.1" }, "1.1.1.1", 1 },
        { "a trusted address is the client all the same",
          "10.0.0.1",
          { "10.0.0.2" },
          "10.0.0.2",
          1 },
        { "a list", "10.0.0.1", { "6.6.6.6, 1.1.1.1" }, "10.0.0.1", 0 },
        { "a last line that is none", "10.0.0.1", { "1.1.1.1", "unknown" }, "10.0.0.1", 0 },
        { "a last line that is empty", "10.0.0.1", { "1.1.1.1", "" }, "10.0.0.1", 0 },
        { "no line", "10.0.0.1", { NULL }, "10.0.0.1", 0 },
        { "an untrusted peer", "192.0.2.1", { "1.1.1.1" }, "192.0.2.1", 0 },
        { "a trusted Unix socket", "unix", { "1.1.1.1" }, "1.1.1.1", 1 },
    };
    struct weir_trust trust = trust_local();
    check_rows(&trust, WEIR_ONE_ADDRESS, rows, COUNT_OF(rows));
    weir_trust_finish(&trust);
}

/* how much is read */

static const char *client_of_line(const struct weir_trust *trust, const char *line,
                                  unsigned *hops_used)
{
    return client_of(trust, WEIR_X_FORWARDED_FOR, "10.0.0.1", &line, 1, hops_used);
}

static void reads_at_most_64_entries(void **state)
{
    (void)state;
    struct weir_trust trust = trust_local();
    char line[2048] = "10.9.9.9";
    unsigned hops_used;
    for (size_t i = 0; i < 63; i++)
        strcat(line, ",10.0.0.2");
    assert_string_equal(client_of_line(&trust, line, &hops_used), "10.9.9.9");
    assert_int_equal(hops_used, 64);
    strcat(line, ",10.0.0.2");
    assert_string_equal(client_of_line(&trust, line, &hops_used), "10.0.0.2");
    assert_int_equal(hops_used, 64);
    weir_trust_finish(&trust);
}

/* Reads ",,, … 1.1.1.1 <blanks>", with `blanks` of them behind the address. */
static const char *client_before(size_t blanks, char blank)
{
    static char line[8192];
    struct weir_trust trust = trust_local();
    memset(line, blank, sizeof line);
    memcpy(line, "6.6.6.6, 1.1.1.1", 16);
    line[16] = ',';
    line[17 + blanks] = '\0';
    const char *client = client_of_line(&trust, line, NULL);
    weir_trust_finish(&trust);
    return client;
}

static void reads_at_most_4_KiB_and_no_part_of_an_entry(void **state)
{
    (void)state;
    /* The blanks, the comma before them and " 1.1.1.1" are 4096 bytes. */
    assert_string_equal(client_before(4096 - 9, ' '), "1.1.1.1");
    for (size_t short_by = 1; short_by < 9; short_by++)
        assert_string_equal(client_before(4096 - 9 + short_by, ' '), "10.0.0.1");
    assert_string_equal(client_before(3000, ','), "1.1.1.1");
    assert_string_equal(client_before(5000, ','), "10.0.0.1");
    assert_string_equal(client_before(8000, ' '), "10.0.0.1");
}

static void finds_the_peer_where_no_header_is_configured(void **state)
{
    (void)state;
    union peer peer = peer_from("10.0.0.1");
    struct weir_line headers[] = { { { NULL, 0 }, WEIR_TEXT("1.1.1.1") } };
    struct weir_facts facts = { .headers = headers, .header_count = 1, .peer = &peer.any };
    unsigned hops_used = 99;
    struct weir_address client =
        weir_forwarded_client(&(struct weir_trust){ .hops = 1 }, WEIR_X_FORWARDED_FOR,
                              (struct weir_text){ NULL, 0 }, &facts, &hops_used);
    assert_int_equal(client.family, WEIR_IPV4);
    assert_int_equal(client.bytes[0], 10);
    assert_int_equal(hops_used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_clients_of_the_case_file),
        cmocka_unit_test(finds_the_forwarded_clients_of_the_case_file),
        cmocka_unit_test(walks_while_who_speaks_is_trusted),
        cmocka_unit_test(counts_hops_from_the_peer),
        cmocka_unit_test(gives_no_address_for_an_untrusted_unix_socket),
        cmocka_unit_test(reads_forwarded_elements_strictly),
        cmocka_unit_test(lets_no_quote_of_a_client_reach_the_proxys_element),
        cmocka_unit_test(takes_one_address_from_the_last_line),
        cmocka_unit_test(reads_at_most_64_entries),
        cmocka_unit_test(reads_at_most_4_KiB_and_no_part_of_an_entry),
        cmocka_unit_test(finds_the_peer_where_no_header_is_configured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
