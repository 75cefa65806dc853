/* Forwarding headers: the client is an address or none, an untrusted peer is never left, and what
 * a client writes before the entry that a proxy added changes nothing. The first byte chooses the
 * form and the trust; line feeds separate the header's lines. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "identity/forwarded.h"

#define LINES_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static size_t split_lines(struct weir_text text, struct weir_line lines[LINES_MAX])
{
    size_t count = 0;
    while (count < LINES_MAX && weir_text_take_first(&text, '\n', &lines[count].value))
        lines[count++].name = WEIR_TEXT("h");
    return count;
}

static struct weir_address find(const struct weir_trust *trust, enum weir_forwarded_form form,
                                const struct weir_line *lines, size_t count, unsigned *hops_used)
{
    struct sockaddr_in peer = { .sin_family = AF_INET };
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct weir_facts facts = { .headers = lines,
                                .header_count = count,
                                .peer = (const struct sockaddr *)&peer };
    return weir_forwarded_client(trust, form, WEIR_TEXT("H"), &facts, hops_used);
}

static void check_is_address(const struct weir_address *client)
{
    char text[WEIR_ADDRESS_CHARS];
    struct weir_address again;
    weir_address_print(client, text);
    require(weir_address_parse(weir_text_from(text), &again));
    require(weir_address_equal(client, &again));
}

static bool is(const struct weir_address *address, const char *text)
{
    struct weir_address wanted;
    return weir_address_parse(weir_text_from(text), &wanted)
           && weir_address_equal(address, &wanted);
}

/* Appends what an honest proxy would to what the client sent: nothing but that may count. */
static void check_proxys_word(struct weir_text sent, enum weir_forwarded_form form)
{
    static const struct weir_trust one_hop = { .hops = 1 };
    char memory[8192];
    struct weir_buffer value = weir_buffer_init(memory, sizeof memory);
    weir_buffer_put(&value, sent);
    weir_buffer_put_string(&value,
                           form == WEIR_FORWARDED ? ", for=\"[2001:db8::7]:80\"" : ", 2001:db8::7");
    if (value.full || form == WEIR_ONE_ADDRESS)
        return;
    struct weir_line line = { WEIR_TEXT("h"), weir_buffer_text(&value) };
    struct weir_address client = find(&one_hop, form, &line, 1, NULL);
    require(is(&client, "2001:db8::7"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct weir_network networks[2];
    struct weir_line lines[LINES_MAX];
    if (size == 0)
        return 0;

    struct weir_text text = { (const char *)data + 1, size - 1 };
    enum weir_forwarded_form form = (enum weir_forwarded_form)(data[0] % 3);
    size_t count = split_lines(text, lines);
    struct weir_trust nobody = { .hops = 0 }, hops = { .hops = data[0] / 3 };
    struct weir_trust list = { .networks = networks, .network_count = 2 };
    /* The peer, and half of all IPv4 addresses. */
    networks[0] = (struct weir_network){ { WEIR_IPV4, { 127 } }, 8 };
    networks[1] = (struct weir_network){ { WEIR_IPV4, { 0 } }, 1 };

    unsigned used;
    struct weir_address client = find(&nobody, form, lines, count, &used);
    require(is(&client, "127.0.0.1") && used == 0);
    client = find(&hops, form, lines, count, &used);
    check_is_address(&client);
    require(used <= hops.hops);
    client = find(&list, form, lines, count, &used);
    check_is_address(&client);
    require(used > 0 || is(&client, "127.0.0.1"));
    check_proxys_word(text, form);
    return 0;
}
