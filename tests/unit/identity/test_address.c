#include "test.h"

#include <jansson.h>

#include "identity/address.h"
#include "peer.h"

/* What an address reads as: its text, or "none" where it is refused. */
static const char *read_as(bool (*parse)(struct weir_text, struct weir_address *),
                           struct weir_text text, char memory[WEIR_ADDRESS_CHARS])
{
    struct weir_address address;
    if (!parse(text, &address))
        return "none";
    weir_address_print(&address, memory);
    return memory;
}

struct row {
    const char *when;
    const char *text;
    const char *address;
};

static void check_rows(bool (*parse)(struct weir_text, struct weir_address *),
                       const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char memory[WEIR_ADDRESS_CHARS];
        print_message("    %s\n", rows[i].when);
        assert_string_equal(read_as(parse, weir_text_from(rows[i].text), memory), rows[i].address);
    }
}

static void reads_exactly_an_address(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "IPv4", "192.0.2.1", "192.0.2.1" },
        { "all zeros", "0.0.0.0", "0.0.0.0" },
        { "IPv6", "2001:DB8:0:0::0001", "2001:db8::1" },
        { "the longest spelling", "2001:0db8:1111:2222:3333:4444:255.255.255.255",
          "2001:db8:1111:2222:3333:4444:ffff:ffff" },
        { "one zero group is not shortened", "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1" },
        { "IPv4-mapped, dotted", "::ffff:192.0.2.1", "192.0.2.1" },
        { "IPv4-mapped, in hex", "::FFFF:c000:201", "192.0.2.1" },
        { "IPv4-mapped, written out", "0:0:0:0:0:ffff:c000:0201", "192.0.2.1" },
        { "dotted but not mapped", "2001:db8::1.2.3.4", "2001:db8::102:304" },
        { "almost mapped", "::ffff:0:1.2.3.4", "::ffff:0:102:304" },
        { "a zone", "fe80::1%eth0", "fe80::1" },
        { "a zone with a dot", "fe80::1%eth0.100", "fe80::1" },
        { "an empty zone", "fe80::1%", "none" },
        { "a zone with a blank", "fe80::1%eth 0", "none" },
        { "a zone with a bracket", "fe80::1%eth0]", "none" },
        { "a zone on IPv4", "192.0.2.1%eth0", "none" },
        { "nothing before a zone", "%eth0", "none" },
        { "nothing", "", "none" },
        { "a port", "192.0.2.1:80", "none" },
        { "brackets", "[::1]", "none" },
        { "a blank in front", " 192.0.2.1", "none" },
        { "a blank behind", "192.0.2.1 ", "none" },
        { "a leading zero", "010.0.0.1", "none" },
        { "three parts", "10.0.1", "none" },
        { "one number", "2130706433", "none" },
        { "hexadecimal", "0x7f000001", "none" },
        { "too large a part", "192.0.2.256", "none" },
        { "two double colons", "1::2::3", "none" },
        { "nine groups", "1:2:3:4:5:6:7:8:9", "none" },
        { "a dot behind", "10.0.0.2.", "none" },
        { "a name", "localhost", "none" },
        { "longer than any address", "1111:1111:1111:1111:1111:1111:1111:1111:1111:1111", "none" },
    };
    check_rows(weir_address_parse, rows, COUNT_OF(rows));
}

static void refuses_a_nul_in_an_address(void **state)
{
    (void)state;
    struct weir_address address;
    assert_false(weir_address_parse((struct weir_text){ "10.0.0.1\0x", 10 }, &address));
    assert_false(weir_address_parse((struct weir_text){ "10.0.0.1\0", 9 }, &address));
    assert_false(weir_address_parse((struct weir_text){ NULL, 0 }, &address));
    assert_false(weir_address_parse_node((struct weir_text){ NULL, 0 }, &address));
}

static void does_not_fold_the_deprecated_compatible_form(void **state)
{
    (void)state;
    struct weir_address address;
    assert_true(weir_address_parse(WEIR_TEXT("::1.2.3.4"), &address));
    assert_int_equal(address.family, WEIR_IPV6);
}

static void reads_an_address_as_forwarding_headers_write_it(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "plain IPv4", "192.0.2.1", "192.0.2.1" },
        { "plain IPv6", "2001:db8::1", "2001:db8::1" },
        { "IPv4 with a port", "192.0.2.1:51001", "192.0.2.1" },
        { "five digits are a port", "192.0.2.1:99999", "192.0.2.1" },
        { "six are not", "192.0.2.1:100000", "none" },
        { "a port that is kept secret", "192.0.2.1:_x9", "192.0.2.1" },
        { "a secret without a name", "192.0.2.1:_", "none" },
        { "an empty port", "192.0.2.1:", "none" },
        { "a port that is a word", "192.0.2.1:http", "none" },
        { "two ports", "192.0.2.1:80:80", "none" },
        { "a port with a sign", "192.0.2.1:+80", "none" },
        { "IPv6 in brackets", "[2001:db8::1]", "2001:db8::1" },
        { "IPv6 in brackets with a port", "[2001:db8::1]:443", "2001:db8::1" },
        { "a zone in brackets", "[fe80::1%eth0]:443", "fe80::1" },
        { "mapped IPv4 in brackets", "[::ffff:192.0.2.1]:443", "192.0.2.1" },
        { "IPv4 in brackets", "[192.0.2.1]", "none" },
        { "nothing in brackets", "[]", "none" },
        { "an open bracket", "[2001:db8::1", "none" },
        { "an open bracket alone", "[", "none" },
        { "a closing bracket alone", "2001:db8::1]", "none" },
        { "digits behind the bracket", "[2001:db8::1]443", "none" },
        { "an empty port behind the bracket", "[2001:db8::1]:", "none" },
        { "two brackets", "[[2001:db8::1]]", "none" },
        { "nobody", "unknown", "none" },
        { "somebody", "_hidden", "none" },
        { "only a port", ":80", "none" },
    };
    check_rows(weir_address_parse_node, rows, COUNT_OF(rows));
}

static void reads_the_address_of_a_peer(void **state)
{
    (void)state;
    static const struct {
        const char *peer;
        enum weir_family family;
        const char *address;
    } rows[] = {
        { "192.0.2.1", WEIR_IPV4, "192.0.2.1" },
        { "2001:db8::1", WEIR_IPV6, "2001:db8::1" },
        { "::ffff:192.0.2.1", WEIR_IPV4, "192.0.2.1" },
        { "unix", WEIR_NO_ADDRESS, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[WEIR_ADDRESS_CHARS];
        union peer peer = peer_from(rows[i].peer);
        struct weir_address address = weir_address_from(&peer.any);
        print_message("    %s\n", rows[i].peer);
        assert_int_equal(address.family, rows[i].family);
        weir_address_print(&address, text);
        assert_string_equal(text, rows[i].address);
    }
    assert_int_equal(weir_address_from(NULL).family, WEIR_NO_ADDRESS);
}

static void tells_addresses_apart(void **state)
{
    (void)state;
    struct weir_address one, mapped, other, inside;
    assert_true(weir_address_parse(WEIR_TEXT("1.2.3.4"), &one));
    assert_true(weir_address_parse(WEIR_TEXT("::ffff:102:304"), &mapped));
    assert_true(weir_address_parse(WEIR_TEXT("1.2.3.5"), &other));
    assert_true(weir_address_parse(WEIR_TEXT("102:304::"), &inside));
    assert_true(weir_address_equal(&one, &mapped));
    assert_false(weir_address_equal(&one, &other));
    assert_false(weir_address_equal(&one, &inside));
}

static const char *network_text(const char *text, const struct weir_prefixes *prefixes,
                                char memory[WEIR_NETWORK_CHARS])
{
    struct weir_address address;
    assert_true(weir_address_parse(weir_text_from(text), &address));
    struct weir_network network = weir_network_of(&address, prefixes);
    weir_network_print(&network, memory);
    return memory;
}

static void counts_the_networks_of_the_case_file(void **state)
{
    (void)state;
    char path[4096], memory[WEIR_NETWORK_CHARS];
    snprintf(path, sizeof path, "%s/ip_prefix.json", getenv("WEIR_CASES"));
    json_auto_t *root = json_load_file(path, 0, NULL);
    const json_t *cases = json_object_get(root, "cases");
    assert_true(json_array_size(cases) >= 90);

    for (size_t i = 0; i < json_array_size(cases); i++) {
        const char *address, *network;
        int prefix;
        assert_int_equal(json_unpack(json_array_get(cases, i), "{s:s,s:i,s:s}", "address", &address,
                                     "ipv6_prefix", &prefix, "network", &network),
                         0);
        print_message("    %s/%d\n", address, prefix);
        struct weir_prefixes prefixes = { .ipv4 = 32, .ipv6 = (unsigned)prefix };
        assert_string_equal(network_text(address, &prefixes, memory), network);
    }
}

static void counts_special_networks(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *address;
        struct weir_prefixes prefixes;
        const char *network;
    } rows[] = {
        { "a whole address", "2001:db8::1", { 32, 128, false }, "2001:db8::1/128" },
        { "an odd prefix", "2001:db8:0:ff::", { 32, 57, false }, "2001:db8:0:80::/57" },
        { "a /24 of IPv4", "192.0.2.77", { 24, 56, false }, "192.0.2.0/24" },
        { "an odd prefix of IPv4", "192.0.2.255", { 31, 56, false }, "192.0.2.254/31" },
        { "a /24 of mapped IPv4", "::ffff:192.0.2.77", { 24, 56, false }, "192.0.2.0/24" },
        { "6to4 is never narrower than /48",
          "2002:c000:201:ffff::1",
          { 32, 64, false },
          "2002:c000:201::/48" },
        { "6to4 may be wider", "2002:c000:201:ffff::1", { 32, 32, false }, "2002:c000::/32" },
        { "a neighbour of 6to4",
          "2003:c000:201:ffff::1",
          { 32, 64, false },
          "2003:c000:201:ffff::/64" },
        { "NAT64 when it is off", "64:ff9b::808:808", { 32, 56, false }, "64:ff9b::/56" },
        { "NAT64 when it is on", "64:ff9b::808:808", { 32, 56, true }, "8.8.8.8/32" },
        { "NAT64 counts by the prefix of IPv4",
          "64:ff9b::808:808",
          { 24, 56, true },
          "8.8.8.0/24" },
        { "NAT64 for local use", "64:ff9b:1::808:808", { 32, 56, true }, "64:ff9b:1::/56" },
        { "bits between the NAT64 prefix and the address",
          "64:ff9b::1:808:808",
          { 32, 56, true },
          "64:ff9b::/56" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char memory[WEIR_NETWORK_CHARS];
        print_message("    %s\n", rows[i].when);
        assert_string_equal(network_text(rows[i].address, &rows[i].prefixes, memory),
                            rows[i].network);
    }
}

static void counts_no_network_for_no_address(void **state)
{
    (void)state;
    char text[WEIR_NETWORK_CHARS] = "x", plain[WEIR_ADDRESS_CHARS] = "x";
    struct weir_address none = weir_address_from(NULL);
    struct weir_network network = weir_network_of(&none, &(struct weir_prefixes){ 32, 56, true });
    assert_int_equal(network.address.family, WEIR_NO_ADDRESS);
    weir_network_print(&network, text);
    weir_address_print(&none, plain);
    assert_string_equal(text, "");
    assert_string_equal(plain, "");
    assert_false(weir_network_contains(&network, &none));
}

static void finds_addresses_in_networks(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *network;
        unsigned prefix;
        const char *address;
        bool wanted;
    } rows[] = {
        { "the first", "10.0.0.0", 8, "10.0.0.0", true },
        { "the last", "10.0.0.0", 8, "10.255.255.255", true },
        { "the next", "10.0.0.0", 8, "11.0.0.0", false },
        { "in half a byte", "10.0.0.64", 26, "10.0.0.127", true },
        { "outside half a byte", "10.0.0.64", 26, "10.0.0.128", false },
        { "a prefix of nothing", "0.0.0.0", 0, "255.1.2.3", true },
        { "another family", "::", 0, "1.2.3.4", false },
        { "a whole address", "2001:db8::1", 128, "2001:db8::1", true },
        { "not that address", "2001:db8::1", 128, "2001:db8::2", false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_address base, address;
        print_message("    %s\n", rows[i].when);
        assert_true(weir_address_parse(weir_text_from(rows[i].network), &base));
        assert_true(weir_address_parse(weir_text_from(rows[i].address), &address));
        struct weir_network network = weir_network_from(&base, rows[i].prefix);
        assert_int_equal(weir_network_contains(&network, &address), rows[i].wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_exactly_an_address),
        cmocka_unit_test(refuses_a_nul_in_an_address),
        cmocka_unit_test(does_not_fold_the_deprecated_compatible_form),
        cmocka_unit_test(reads_an_address_as_forwarding_headers_write_it),
        cmocka_unit_test(reads_the_address_of_a_peer),
        cmocka_unit_test(tells_addresses_apart),
        cmocka_unit_test(counts_the_networks_of_the_case_file),
        cmocka_unit_test(counts_special_networks),
        cmocka_unit_test(counts_no_network_for_no_address),
        cmocka_unit_test(finds_addresses_in_networks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
