/* Addresses: what was read prints as text that reads as the same address, its network covers it,
 * and no spelling leaves an IPv4-mapped address IPv6. The first two bytes are the prefixes. */
#include <stdlib.h>
#include <string.h>

#include "identity/forwarded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_address(const struct weir_address *address)
{
    static const uint8_t mapped[12] = { [10] = 0xFF, [11] = 0xFF };
    static const uint8_t zeros[12];
    char text[WEIR_ADDRESS_CHARS];
    struct weir_address again;

    weir_address_print(address, text);
    require(weir_address_parse(weir_text_from(text), &again));
    require(weir_address_equal(address, &again));
    require(weir_address_parse_node(weir_text_from(text), &again));
    require(weir_address_equal(address, &again));

    require(address->family == WEIR_IPV4 || address->family == WEIR_IPV6);
    require(address->family == WEIR_IPV4 ? memcmp(address->bytes + 4, zeros, 12) == 0
                                         : memcmp(address->bytes, mapped, 12) != 0);
}

static void check_network(const struct weir_address *address, const struct weir_prefixes *prefixes)
{
    char text[WEIR_NETWORK_CHARS];
    struct weir_network network = weir_network_of(address, prefixes);
    struct weir_network again = weir_network_of(&network.address, prefixes);
    weir_network_print(&network, text);
    require(text[0] != '\0' && strchr(text, '/') != NULL);
    require(network.address.family != address->family || weir_network_contains(&network, address));
    require(weir_address_equal(&network.address, &again.address));
}

/* Whatever can be trusted covers the address that it was written with. */
static void check_trust(struct weir_text text)
{
    struct weir_trust trust = { .hops = 0 };
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_text rest = text, host;
    struct weir_address address;
    if (weir_trust_add(&trust, text, NULL, &error) != WEIR_OK)
        require(error.code != WEIR_OK && error.text[0] != '\0' && trust.network_count == 0);
    else if (weir_text_take_first(&rest, '/', &host) && weir_address_parse(host, &address))
        require(weir_trust_covers_peer(&trust, &address));
    weir_trust_finish(&trust);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_address address;
    if (size < 2)
        return 0;

    struct weir_text text = { (const char *)data + 2, size - 2 };
    struct weir_prefixes prefixes = { .ipv4 = 1 + data[0] % 32u,
                                      .ipv6 = 1 + data[1] % 128u,
                                      .nat64 = data[0] >= 128 };
    check_trust(text);
    bool is_plain = weir_address_parse(text, &address);
    bool is_node = weir_address_parse_node(text, &address);
    require(is_node || !is_plain);
    if (is_node) {
        check_address(&address);
        check_network(&address, &prefixes);
    }
    return 0;
}
