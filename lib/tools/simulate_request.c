#include "tools/simulate_request.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "chain/chain_internal.h"
#include "request/target.h"

#define FORM        "application/x-www-form-urlencoded"
#define OWN_HEADERS 2 /* of a form */

/* Nobody is suspended for real: who waits is woken at once. */
static void do_nothing(struct weir_request *request)
{
    (void)request;
}

static int no_socket(const struct weir_request *request)
{
    (void)request;
    return -1;
}

static const struct weir_host nobody = { do_nothing, do_nothing, no_socket };

/* the target */

static void *alloc_from(void *request, size_t size)
{
    return weir_request_alloc(request, size);
}

static bool set_target(struct weir_request *request, struct weir_text target)
{
    const struct weir_target_memory memory = { alloc_from, request };
    return weir_target_read(target, &memory, &request->facts) && weir_request_normalise(request);
}

/* the rest */

static bool set_peer(struct weir_request *request, struct weir_text text)
{
    struct weir_address address;
    if (text.at == NULL || !weir_address_parse(text, &address))
        return true; /* it came through a Unix socket */
    struct sockaddr_in *ipv4 = weir_request_alloc(request, sizeof(struct sockaddr_in6));
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)(void *)ipv4;
    if (ipv4 == NULL)
        return false;
    if (address.family == WEIR_IPV4) {
        *ipv4 = (struct sockaddr_in){ .sin_family = AF_INET };
        memcpy(&ipv4->sin_addr, address.bytes, sizeof ipv4->sin_addr);
    } else {
        *ipv6 = (struct sockaddr_in6){ .sin6_family = AF_INET6 };
        memcpy(&ipv6->sin6_addr, address.bytes, sizeof ipv6->sin6_addr);
    }
    request->facts.peer = (const struct sockaddr *)(const void *)ipv4;
    return true;
}

static struct weir_line length_line(struct weir_request *request, size_t length)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", length);
    return (struct weir_line){ WEIR_TEXT("Content-Length"),
                               weir_text_from(weir_request_copy(request, weir_text_from(number))) };
}

static size_t form_bytes(const struct weir_access_entry *entry)
{
    size_t bytes = 0;
    for (size_t i = 0; i < entry->field_count; i++)
        bytes += 3 * (entry->fields[i].name.length + entry->fields[i].value.length) + 2;
    return bytes == 0 ? 0 : bytes - 1;
}

/* Those of a form go before what the log may say of another body. */
static bool set_headers(struct weir_request *request, const struct weir_access_entry *entry)
{
    size_t count = 0, most = entry->header_count + OWN_HEADERS;
    struct weir_line *lines = weir_request_alloc(request, most * sizeof *lines);
    if (lines == NULL)
        return false;
    bool has_form = entry->field_count > 0;
    if (has_form) {
        lines[count++] = (struct weir_line){ WEIR_TEXT("Content-Type"), WEIR_TEXT(FORM) };
        lines[count++] = length_line(request, form_bytes(entry));
    }
    for (size_t i = 0; i < entry->header_count; i++) {
        const struct weir_line *line = &entry->headers[i];
        if (has_form
            && (weir_text_equal_fold(line->name, lines[0].name)
                || weir_text_equal_fold(line->name, lines[1].name)
                || weir_text_equal_fold(line->name, WEIR_TEXT("Transfer-Encoding"))))
            continue;
        lines[count++] = *line;
    }
    request->facts.headers = lines;
    request->facts.header_count = count;
    request->facts.has_body = has_form;
    return !has_form || lines[1].value.at != NULL;
}

struct weir_request *weir_replay_make(struct weir_chain *chain,
                                      const struct weir_access_entry *entry)
{
    struct weir_request *request = weir_request_new(chain, 2 * WEIR_SCRATCH_BYTES);
    if (request == NULL)
        return NULL;
    request->server = &nobody;
    request->id = "simulated";
    request->stage = WEIR_STAGE_CHAIN;
    request->in_first_call = false;
    request->method = weir_request_copy(request, entry->texts[WEIR_ACCESS_METHOD]);
    request->facts.method = weir_text_from(request->method);
    bool is_made = request->method != NULL && set_target(request, entry->texts[WEIR_ACCESS_TARGET])
                   && set_peer(request, entry->texts[WEIR_ACCESS_PEER])
                   && set_headers(request, entry);
    if (is_made)
        return request;
    weir_request_end(request);
    return NULL;
}

/* the body */

static void put_encoded(struct weir_buffer *form, struct weir_text text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.at[i];
        weir_buffer_put_char(form, '%');
        weir_buffer_put_char(form, digits[c / 16]);
        weir_buffer_put_char(form, digits[c % 16]);
    }
}

bool weir_replay_give_body(struct weir_request *request, const struct weir_access_entry *entry)
{
    size_t size = form_bytes(entry) + 1;
    char *memory = malloc(size);
    if (memory == NULL)
        return false;
    struct weir_buffer form = weir_buffer_init(memory, size);
    for (size_t i = 0; i < entry->field_count; i++) {
        if (i > 0)
            weir_buffer_put_char(&form, '&');
        put_encoded(&form, entry->fields[i].name);
        weir_buffer_put_char(&form, '=');
        put_encoded(&form, entry->fields[i].value);
    }
    bool is_taken = weir_request_take_body(request, form.at, form.length);
    if (is_taken)
        request->body_stage = WEIR_BODY_WHOLE;
    free(memory);
    return is_taken || request->body_stage == WEIR_BODY_CUT;
}
