#include "identity/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(WEIR_ADDRESS_CHARS >= INET6_ADDRSTRLEN, "room for every address");

static const uint8_t mapped_prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF };

/* The well-known prefix of RFC 6052. The local-use one (64:ff9b:1::/48, RFC 8215) is left alone:
 * where the IPv4 address lies in it differs from site to site. */
static const uint8_t nat64_prefix[12] = { 0x00, 0x64, 0xFF, 0x9B };

static const struct weir_address no_address = { .family = WEIR_NO_ADDRESS };

/* reading */

static struct weir_address from_ipv4(const uint8_t bytes[4])
{
    struct weir_address address = { .family = WEIR_IPV4 };
    memcpy(address.bytes, bytes, 4);
    return address;
}

/* Folds by the bits, never by the spelling: "::ffff:102:304" is 1.2.3.4, "2001:db8::1.2.3.4" is
 * IPv6, and so is "::1.2.3.4". */
static struct weir_address from_ipv6(const uint8_t bytes[16])
{
    if (memcmp(bytes, mapped_prefix, sizeof mapped_prefix) == 0)
        return from_ipv4(bytes + sizeof mapped_prefix);
    struct weir_address address = { .family = WEIR_IPV6 };
    memcpy(address.bytes, bytes, 16);
    return address;
}

/* For inet_pton, which wants a NUL; false for what is too long to be an address or holds a NUL
 * itself. */
static bool copy_string(struct weir_text text, char string[WEIR_ADDRESS_CHARS])
{
    if (text.length == 0 || text.length >= WEIR_ADDRESS_CHARS
        || memchr(text.at, '\0', text.length) != NULL)
        return false;
    memcpy(string, text.at, text.length);
    string[text.length] = '\0';
    return true;
}

static bool parse_ipv4(struct weir_text text, struct weir_address *address)
{
    char string[WEIR_ADDRESS_CHARS];
    uint8_t bytes[4];
    if (!copy_string(text, string) || inet_pton(AF_INET, string, bytes) != 1)
        return false;
    *address = from_ipv4(bytes);
    return true;
}

static bool parse_ipv6(struct weir_text text, struct weir_address *address)
{
    char string[WEIR_ADDRESS_CHARS];
    uint8_t bytes[16];
    if (!copy_string(text, string) || inet_pton(AF_INET6, string, bytes) != 1)
        return false;
    *address = from_ipv6(bytes);
    return true;
}

static bool is_zone(struct weir_text zone)
{
    for (size_t i = 0; i < zone.length; i++)
        if (!weir_is_token_char(zone.at[i]))
            return false;
    return zone.length > 0;
}

bool weir_address_parse(struct weir_text text, struct weir_address *address)
{
    const char *percent = text.length == 0 ? NULL : memchr(text.at, '%', text.length);
    if (percent == NULL)
        return parse_ipv4(text, address) || parse_ipv6(text, address);

    size_t length = (size_t)(percent - text.at);
    struct weir_text zone = { percent + 1, text.length - length - 1 };
    return is_zone(zone) && parse_ipv6((struct weir_text){ text.at, length }, address);
}

/* A port, or what stands for a secret one (RFC 7239 section 6.3); its value is not used. */
static bool is_node_port(struct weir_text port)
{
    bool is_secret = port.length > 1 && port.at[0] == '_';
    for (size_t i = is_secret ? 1 : 0; i < port.length; i++)
        if (is_secret ? !weir_is_token_char(port.at[i]) : port.at[i] < '0' || port.at[i] > '9')
            return false;
    return is_secret || (port.length >= 1 && port.length <= 5);
}

/* "[2001:db8::1]" and "[2001:db8::1]:443". */
static bool parse_bracketed(struct weir_text text, struct weir_address *address)
{
    const char *bracket = memchr(text.at, ']', text.length);
    if (bracket == NULL)
        return false;

    struct weir_text inside = { text.at + 1, (size_t)(bracket - text.at) - 1 };
    struct weir_text behind = { bracket + 1, text.length - inside.length - 2 };
    struct weir_text port = { behind.at + 1, behind.length - 1 };
    if (behind.length > 0 && (behind.at[0] != ':' || !is_node_port(port)))
        return false;

    /* With its brackets it was meant as IPv6, so "[192.0.2.1]" is nothing. */
    return memchr(inside.at, ':', inside.length) != NULL && weir_address_parse(inside, address);
}

bool weir_address_parse_node(struct weir_text text, struct weir_address *address)
{
    if (text.length > 0 && text.at[0] == '[')
        return parse_bracketed(text, address);
    if (weir_address_parse(text, address))
        return true;

    /* Whatever has a colon and is no IPv6 address can only be IPv4 with a port. */
    struct weir_text host, port = text;
    return weir_text_take_first(&port, ':', &host) && port.at != NULL && is_node_port(port)
           && parse_ipv4(host, address);
}

struct weir_address weir_address_from(const struct sockaddr *peer)
{
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
    if (peer == NULL)
        return no_address;

    /* Copied, since nobody promises that `peer` is aligned for what it holds. */
    if (peer->sa_family == AF_INET) {
        memcpy(&ipv4, peer, sizeof ipv4);
        return from_ipv4((const uint8_t *)&ipv4.sin_addr);
    }
    if (peer->sa_family == AF_INET6) {
        memcpy(&ipv6, peer, sizeof ipv6);
        return from_ipv6(ipv6.sin6_addr.s6_addr);
    }
    return no_address;
}

/* writing */

/* By hand, since glibc's inet_ntop goes through printf and this is on every request's way. */
static void print_ipv4(const uint8_t bytes[4], char text[WEIR_ADDRESS_CHARS])
{
    struct weir_buffer buffer = weir_buffer_init(text, WEIR_ADDRESS_CHARS);
    for (size_t i = 0; i < 4; i++) {
        if (i > 0)
            weir_buffer_put_char(&buffer, '.');
        weir_buffer_put_number(&buffer, bytes[i]);
    }
    weir_buffer_string(&buffer);
}

void weir_address_print(const struct weir_address *address, char text[WEIR_ADDRESS_CHARS])
{
    text[0] = '\0';
    if (address->family == WEIR_IPV4)
        print_ipv4(address->bytes, text);
    if (address->family == WEIR_IPV6
        && inet_ntop(AF_INET6, address->bytes, text, WEIR_ADDRESS_CHARS) == NULL)
        text[0] = '\0';
}

void weir_network_print(const struct weir_network *network, char text[WEIR_NETWORK_CHARS])
{
    char address[WEIR_ADDRESS_CHARS];
    struct weir_buffer buffer = weir_buffer_init(text, WEIR_NETWORK_CHARS);
    if (network->address.family != WEIR_NO_ADDRESS) {
        weir_address_print(&network->address, address);
        weir_buffer_put_string(&buffer, address);
        weir_buffer_put_char(&buffer, '/');
        weir_buffer_put_number(&buffer, network->prefix);
    }
    if (weir_buffer_string(&buffer) == NULL)
        text[0] = '\0';
}

/* networks */

bool weir_address_equal(const struct weir_address *one, const struct weir_address *other)
{
    return one->family == other->family && memcmp(one->bytes, other->bytes, sizeof one->bytes) == 0;
}

struct weir_network weir_network_from(const struct weir_address *address, unsigned prefix)
{
    struct weir_network network = { .address = *address, .prefix = prefix };
    size_t whole = prefix / 8;
    if (whole >= sizeof address->bytes)
        return network;
    uint8_t *split = &network.address.bytes[whole];
    *split = (uint8_t)(*split & 0xFF00 >> prefix % 8);
    memset(split + 1, 0, sizeof address->bytes - whole - 1);
    return network;
}

static unsigned at_most(unsigned prefix, unsigned limit)
{
    return prefix < limit ? prefix : limit;
}

/* A 6to4 address holds the IPv4 address of its site behind the first 16 bits (RFC 3056): anything
 * narrower than /48 would give the owner of one IPv4 address many networks. */
static bool is_6to4(const struct weir_address *address)
{
    return address->bytes[0] == 0x20 && address->bytes[1] == 0x02;
}

struct weir_network weir_network_of(const struct weir_address *address,
                                    const struct weir_prefixes *prefixes)
{
    struct weir_address inside;
    switch (address->family) {
    case WEIR_NO_ADDRESS:
        break;
    case WEIR_IPV4:
        return weir_network_from(address, at_most(prefixes->ipv4, 32));
    case WEIR_IPV6:
        if (prefixes->nat64 && memcmp(address->bytes, nat64_prefix, sizeof nat64_prefix) == 0) {
            inside = from_ipv4(address->bytes + sizeof nat64_prefix);
            return weir_network_from(&inside, at_most(prefixes->ipv4, 32));
        }
        return weir_network_from(address, at_most(prefixes->ipv6, is_6to4(address) ? 48 : 128));
    }
    return (struct weir_network){ .address = no_address };
}

bool weir_network_contains(const struct weir_network *network, const struct weir_address *address)
{
    if (address->family == WEIR_NO_ADDRESS || address->family != network->address.family)
        return false;
    struct weir_network theirs = weir_network_from(address, network->prefix);
    return weir_address_equal(&theirs.address, &network->address);
}
