#include "test.h"

#include <jansson.h>

#include "identity/forwarded.h"

static bool covers(const struct weir_trust *trust, const char *peer)
{
    struct weir_address address = { .family = WEIR_NO_ADDRESS };
    if (strcmp(peer, "unix") != 0)
        assert_true(weir_address_parse(weir_text_from(peer), &address));
    return weir_trust_covers_peer(trust, &address);
}

static void covers_what_was_added(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *added;
        const char *inside;
        const char *outside;
    } rows[] = {
        { "an address", "192.0.2.1", "192.0.2.1", "192.0.2.2" },
        { "an IPv6 address", "2001:db8::1", "2001:db8::1", "2001:db8::2" },
        { "a block", "10.9.9.9/8", "10.0.0.1", "11.0.0.1" },
        { "a netmask", "10.0.0.2/255.255.255.192", "10.0.0.63", "10.0.0.64" },
        { "the narrowest netmask", "10.0.0.2/255.255.255.255", "10.0.0.2", "10.0.0.3" },
        { "the widest netmask", "10.0.0.2/128.0.0.0", "127.0.0.1", "128.0.0.1" },
        { "an IPv6 block", "fe80::/125", "fe80::7", "fe80::8" },
        { "a 6to4 block narrower than /48", "2002:c000:201:100::/56", "2002:c000:201:1ff::1",
          "2002:c000:201:200::1" },
        { "a mapped address", "::ffff:10.0.0.1", "10.0.0.1", "10.0.0.2" },
        { "a mapped block", "::ffff:a00:2/122", "10.0.0.63", "10.0.0.64" },
        { "all of mapped IPv4", "::ffff:0:0/96", "203.0.113.9", "2001:db8::1" },
        { "half of IPv6", "::/1", "2001:db8::1", "10.0.0.1" },
        { "loopback", "loopback", "127.9.9.9", "128.0.0.1" },
        { "loopback of IPv6", "loopback", "::1", "::2" },
        { "linklocal", "linklocal", "169.254.255.255", "169.255.0.0" },
        { "linklocal of IPv6", "linklocal", "febf::1", "fec0::1" },
        { "uniquelocal 10/8", "uniquelocal", "10.1.2.3", "9.255.255.255" },
        { "uniquelocal 172.16/12", "uniquelocal", "172.31.255.255", "172.32.0.0" },
        { "uniquelocal 192.168/16", "uniquelocal", "192.168.0.1", "192.169.0.1" },
        { "uniquelocal of IPv6", "uniquelocal", "fdff::1", "fe00::1" },
        { "carrier NAT is not uniquelocal", "uniquelocal", "10.0.0.0", "100.64.0.1" },
        { "Unix sockets", "unix", "unix", "127.0.0.1" },
        { "addresses are no Unix sockets", "127.0.0.1", "127.0.0.1", "unix" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_trust trust = { .hops = 0 };
        print_message("    %s\n", rows[i].when);
        assert_int_equal(weir_trust_add(&trust, weir_text_from(rows[i].added), NULL, &error),
                         WEIR_OK);
        assert_true(covers(&trust, rows[i].inside));
        assert_false(covers(&trust, rows[i].outside));
        weir_trust_finish(&trust);
        assert_null(trust.networks);
    }
}

static void adds_to_what_is_there(void **state)
{
    (void)state;
    struct weir_trust trust = { .hops = 0 };
    assert_int_equal(weir_trust_add(&trust, WEIR_TEXT("loopback"), NULL, NULL), WEIR_OK);
    assert_int_equal(weir_trust_add(&trust, WEIR_TEXT("uniquelocal"), NULL, NULL), WEIR_OK);
    assert_int_equal(weir_trust_add(&trust, WEIR_TEXT("192.0.2.1"), NULL, NULL), WEIR_OK);
    assert_true(covers(&trust, "::1"));
    assert_true(covers(&trust, "fd00::1"));
    assert_true(covers(&trust, "192.0.2.1"));
    assert_false(covers(&trust, "192.0.2.2"));
    weir_trust_finish(&trust);
}

static void trusts_nobody_unless_told(void **state)
{
    (void)state;
    struct weir_trust trust = { .hops = 0 };
    assert_false(covers(&trust, "127.0.0.1"));
    assert_false(covers(&trust, "unix"));
}

static void trusts_any_peer_when_hops_are_counted(void **state)
{
    (void)state;
    struct weir_trust trust = { .hops = 1 };
    assert_true(covers(&trust, "203.0.113.9"));
    assert_true(covers(&trust, "unix"));
}

static void refuses_the_values_of_the_case_file(void **state)
{
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s/client_ip.json", getenv("WEIR_CASES"));
    json_auto_t *root = json_load_file(path, 0, NULL);
    const json_t *refused = json_object_get(root, "trust_refused");
    assert_true(json_array_size(refused) >= 20);

    for (size_t i = 0; i < json_array_size(refused); i++) {
        const char *text = json_string_value(json_array_get(refused, i));
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_trust trust = { .hops = 0 };
        print_message("    \"%s\"\n", text);
        assert_int_equal(weir_trust_add(&trust, weir_text_from(text), "/p", &error), WEIR_E_VALUE);
        assert_int_equal(trust.network_count, 0);
        assert_string_equal(error.path, "/p");
    }
}

static void says_why_a_value_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why;
    } rows[] = {
        { "0.0.0.0/0", "a prefix length of 0 would trust everybody" },
        { "::/0", "a prefix length of 0 would trust everybody" },
        { "10.0.0.1/0.0.0.0", "a netmask of 0.0.0.0 would trust everybody" },
        { "10.0.0.1/255.0.255.0", "the netmask must be one bits and then zero bits" },
        { "10.0.0.1/::ffff:255.0.0.0", "the netmask must be" },
        { "10.0.0.1/33", "from 1 to 32, or a netmask" },
        { "10.0.0.1/08", "from 1 to 32, or a netmask" },
        { "10.0.0.1/", "from 1 to 32, or a netmask" },
        { "fe80::/255.255.255.0", "from 1 to 128" },
        { "::1/129", "from 1 to 128" },
        { "::ffff:10.0.0.1/24", "an IPv4-mapped block needs a prefix length of 96 to 128" },
        { "::ffff:10.0.0.1/95", "an IPv4-mapped block needs a prefix length of 96 to 128" },
        { "fe80::1%eth0", "zones are not kept" },
        { "1", "a number of hops is written without quotes" },
        { "Loopback", "did you mean \"loopback\"?" },
        { "unique-local", "did you mean \"uniquelocal\"?" },
        { "lb.example.com", "host names are not looked up" },
        { "10.0.0.1:80", "wanted is an address" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_trust trust = { .hops = 0 };
        print_message("    %s\n", rows[i].text);
        assert_int_equal(weir_trust_add(&trust, weir_text_from(rows[i].text), "/p", &error),
                         WEIR_E_VALUE);
        assert_non_null(strstr(error.text, rows[i].text));
        assert_non_null(strstr(error.text, rows[i].why));
    }
}

static void keeps_the_end_of_a_message_about_a_long_value(void **state)
{
    (void)state;
    char text[400];
    memset(text, 'x', sizeof text);
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_trust trust = { .hops = 0 };
    assert_int_equal(weir_trust_add(&trust, (struct weir_text){ text, sizeof text }, NULL, &error),
                     WEIR_E_VALUE);
    assert_non_null(strstr(error.text, "host names are not looked up."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covers_what_was_added),
        cmocka_unit_test(adds_to_what_is_there),
        cmocka_unit_test(trusts_nobody_unless_told),
        cmocka_unit_test(trusts_any_peer_when_hops_are_counted),
        cmocka_unit_test(refuses_the_values_of_the_case_file),
        cmocka_unit_test(says_why_a_value_is_refused),
        cmocka_unit_test(keeps_the_end_of_a_message_about_a_long_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
