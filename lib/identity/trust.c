/* The list of networks whose word is taken. */
#include "identity/forwarded.h"

#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"

/* The names and ranges of Express's proxy-addr, so that a setting can be carried over. */
static const struct {
    const char *name;
    const char *blocks[4];
} named_ranges[] = {
    { "loopback", { "127.0.0.0/8", "::1/128" } },
    { "linklocal", { "169.254.0.0/16", "fe80::/10" } },
    { "uniquelocal", { "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7" } },
};

static const char *const known_names[] = { "loopback", "linklocal", "uniquelocal", "unix" };

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static bool contains(struct weir_text text, char c)
{
    return text.length > 0 && memchr(text.at, c, text.length) != NULL;
}

/* Functions here that return a string return what is wrong, or NULL where nothing is. */

/* prefix lengths and netmasks */

/* Behind the one bits of a netmask come zero bits only. */
static bool is_netmask(const uint8_t bytes[4], unsigned *prefix)
{
    uint32_t mask = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8
                    | (uint32_t)bytes[3];
    unsigned ones = 0;
    while (ones < 32 && (mask & (UINT32_C(0x80000000) >> ones)) != 0)
        ones++;
    *prefix = ones;
    return ones == 32 || mask << ones == 0;
}

static const char *read_netmask(struct weir_text text, unsigned *prefix)
{
    struct weir_address mask;
    if (!weir_address_parse(text, &mask) || mask.family != WEIR_IPV4 || contains(text, ':')
        || !is_netmask(mask.bytes, prefix))
        return "the netmask must be one bits and then zero bits, such as 255.255.0.0";
    return NULL;
}

static const char *read_prefix(struct weir_text text, bool is_ipv6, unsigned *prefix)
{
    uint64_t number;
    unsigned most = is_ipv6 ? 128 : 32;
    if (!weir_text_to_number(text, &number) || number > most
        || (text.length > 1 && text.at[0] == '0'))
        return is_ipv6 ? "the prefix length must be a number from 1 to 128"
                       : "the prefix length must be a number from 1 to 32, or a netmask";
    *prefix = (unsigned)number;
    return NULL;
}

/* blocks */

/* An IPv4-mapped block is an IPv4 block; a wider one would take in all of IPv4 by the way. */
static const char *make_mapped(const struct weir_address *address, unsigned prefix,
                               struct weir_network *network)
{
    if (prefix < 96)
        return "an IPv4-mapped block needs a prefix length of 96 to 128";
    *network = weir_network_from(address, prefix - 96);
    return NULL;
}

/* What is no address at all. */
static const char no_address[] = "wanted is an address, or a block such as \"10.0.0.0/8\" or "
                                 "\"10.0.0.0/255.0.0.0\"; host names are not looked up";

static const char *read_address(struct weir_text text, struct weir_address *address)
{
    if (contains(text, '%'))
        return "zones are not kept: leave out \"%\" and what follows";
    if (weir_address_parse(text, address))
        return NULL;
    return no_address;
}

const char *weir_block_read(struct weir_text text, struct weir_network *network)
{
    struct weir_address address;
    struct weir_text length = text, host;
    if (!weir_text_take_first(&length, '/', &host))
        host = text;
    const char *why = read_address(host, &address);
    if (why != NULL)
        return why;

    bool is_ipv6 = contains(host, ':');
    unsigned prefix = is_ipv6 ? 128 : 32;
    if (length.at != NULL && !is_ipv6 && contains(length, '.'))
        why = read_netmask(length, &prefix);
    else if (length.at != NULL)
        why = read_prefix(length, is_ipv6, &prefix);
    if (why != NULL)
        return why;

    if (is_ipv6 && address.family == WEIR_IPV4)
        return make_mapped(&address, prefix, network);
    *network = weir_network_from(&address, prefix);
    return NULL;
}

/* the list */

static enum weir_code append(struct weir_trust *trust, const struct weir_network *network,
                             struct weir_error *error)
{
    size_t size = (trust->network_count + 1) * sizeof *network;
    struct weir_network *networks = realloc(trust->networks, size);
    if (networks == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    networks[trust->network_count++] = *network;
    trust->networks = networks;
    return WEIR_OK;
}

static enum weir_code refuse(struct weir_text text, const char *why, const char *path,
                             struct weir_error *error)
{
    /* Cut, so that what is wanted still fits. */
    struct weir_text shown = { text.at, text.length < 60 ? text.length : 60 };
    const char *meant = weir_suggest(text, known_names, COUNT_OF(known_names));
    if (meant != NULL)
        return weir_error_set(error, WEIR_E_VALUE, path,
                              "\"%.*s\" cannot be trusted; did you mean \"%s\"?",
                              WEIR_TEXT_ARGS(shown), meant);
    return weir_error_set(error, WEIR_E_VALUE, path, "\"%.*s\" cannot be trusted: %s.",
                          WEIR_TEXT_ARGS(shown), why);
}

/* What nobody means to trust, or to say. */
static const char *trust_fault(struct weir_text text, const struct weir_network *network)
{
    struct weir_text length = text, host;
    bool is_mapped = network->address.family == WEIR_IPV4 && contains(text, ':');
    if (network->prefix > 0 || is_mapped)
        return NULL;
    weir_text_take_first(&length, '/', &host);
    return contains(length, '.') ? "a netmask of 0.0.0.0 would trust everybody"
                                 : "a prefix length of 0 would trust everybody";
}

static const char *read_trusted(struct weir_text text, struct weir_network *network)
{
    uint64_t number;
    const char *why = weir_block_read(text, network);
    if (why == NULL)
        return trust_fault(text, network);
    if (weir_text_to_number(text, &number))
        return "a number of hops is written without quotes, and not in a list";
    if (why != no_address)
        return why;
    return "wanted is an address, a block such as \"10.0.0.0/8\" or \"10.0.0.0/255.0.0.0\", "
           "\"loopback\", \"linklocal\", \"uniquelocal\" or \"unix\"; host names are not looked up";
}

static enum weir_code add_block(struct weir_trust *trust, struct weir_text text, const char *path,
                                struct weir_error *error)
{
    struct weir_network network;
    const char *why = read_trusted(text, &network);
    return why != NULL ? refuse(text, why, path, error) : append(trust, &network, error);
}

static enum weir_code add_range(struct weir_trust *trust, const char *const blocks[4],
                                const char *path, struct weir_error *error)
{
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < 4 && blocks[i] != NULL && code == WEIR_OK; i++)
        code = add_block(trust, weir_text_from(blocks[i]), path, error);
    return code;
}

enum weir_code weir_trust_add(struct weir_trust *trust, struct weir_text text, const char *path,
                              struct weir_error *error)
{
    if (weir_text_equal(text, WEIR_TEXT("unix"))) {
        trust->unix_peer = true;
        return WEIR_OK;
    }
    for (size_t i = 0; i < COUNT_OF(named_ranges); i++)
        if (weir_text_equal(text, weir_text_from(named_ranges[i].name)))
            return add_range(trust, named_ranges[i].blocks, path, error);
    return add_block(trust, text, path, error);
}

void weir_trust_finish(struct weir_trust *trust)
{
    free(trust->networks);
    *trust = (struct weir_trust){ .hops = 0 };
}
