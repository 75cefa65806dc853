/* A described request as the server would see it. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "admin/explain_internal.h"
#include "request/path.h"
#include "request/target.h"

/* the target */

static void *alloc_from(void *explaining, size_t size)
{
    return weir_arena_array(((struct explaining *)explaining)->arena, size, 1);
}

static bool read_path(struct explaining *explaining)
{
    struct weir_facts *facts = &explaining->facts;
    char *memory = weir_arena_array(explaining->arena, facts->target.length + 2, 1);
    if (memory == NULL)
        return false;
    struct weir_buffer path = weir_buffer_init(memory, facts->target.length + 2);
    if (weir_path_normalise(facts->target, WEIR_PATH_DECODED, &path)
        && weir_buffer_string(&path) != NULL)
        facts->path = weir_buffer_text(&path);
    return true;
}

static enum weir_code read_target(struct explaining *explaining, struct weir_error *error)
{
    const struct weir_target_memory memory = { alloc_from, explaining };
    struct weir_text target = explaining->described->target;
    if (target.length == 0)
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "There is no path; wanted is one such as \"/v1/search?q=gate\".");
    if (weir_target_read(target, &memory, &explaining->facts) && read_path(explaining))
        return WEIR_OK;
    return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

/* the rest */

static enum weir_code read_peer(struct explaining *explaining, struct weir_error *error)
{
    const char *peer = explaining->described->peer;
    if (peer == NULL)
        peer = "127.0.0.1";
    explaining->facts.peer = &explaining->peer.any;
    if (strcmp(peer, "unix") == 0) {
        explaining->facts.peer = NULL;
        return WEIR_OK;
    }
    explaining->peer.ipv4.sin_family = AF_INET;
    if (inet_pton(AF_INET, peer, &explaining->peer.ipv4.sin_addr) == 1)
        return WEIR_OK;
    explaining->peer.ipv6 = (struct sockaddr_in6){ .sin6_family = AF_INET6 };
    if (inet_pton(AF_INET6, peer, &explaining->peer.ipv6.sin6_addr) == 1)
        return WEIR_OK;
    return weir_error_set(error, WEIR_E_VALUE, NULL,
                          "The peer is \"%.60s\"; wanted is an address such as \"203.0.113.7\", or "
                          "\"unix\".",
                          peer);
}

static enum weir_code check_lines(const struct weir_described *described, struct weir_error *error)
{
    for (size_t i = 0; i < described->header_count; i++) {
        struct weir_text name = described->headers[i].name;
        size_t at = 0;
        while (at < name.length && weir_is_token_char(name.at[at]))
            at++;
        if (name.length == 0 || at < name.length)
            return weir_error_set(error, WEIR_E_VALUE, NULL,
                                  "Header line %zu has no name; wanted is \"NAME: VALUE\".", i + 1);
    }
    return WEIR_OK;
}

enum weir_code weir_explain_read(struct explaining *explaining, struct weir_error *error)
{
    const struct weir_described *described = explaining->described;
    struct weir_facts *facts = &explaining->facts;
    facts->method = described->method.at == NULL ? WEIR_TEXT("GET") : described->method;
    facts->headers = described->headers;
    facts->header_count = described->header_count;
    facts->has_body = described->body.length > 0 || described->field_count > 0;
    explaining->identity = (struct weir_identity){ .user = described->user,
                                                   .tenant = described->tenant,
                                                   .plan = described->plan };
    if (facts->method.length == 0)
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "There is no method; wanted is one such as \"GET\".");
    enum weir_code code = check_lines(described, error);
    if (code == WEIR_OK)
        code = read_peer(explaining, error);
    return code == WEIR_OK ? read_target(explaining, error) : code;
}

/* fields of the body */

static struct weir_text described_field(const struct weir_described *described,
                                        struct weir_text name)
{
    for (size_t i = 0; i < described->field_count; i++)
        if (weir_text_equal(described->fields[i].name, name))
            return described->fields[i].value;
    return (struct weir_text){ NULL, 0 };
}

static void read_body(struct explaining *explaining, const struct weir_ruleset *ruleset)
{
    struct weir_text body = explaining->described->body;
    if (body.length > ruleset->body_max_bytes) {
        explaining->reading = WEIR_BODY_TOO_LONG;
        return;
    }
    size_t size = weir_body_memory_bytes(body, ruleset->field_count);
    char *memory = weir_arena_array(explaining->arena, size, 1);
    if (memory == NULL) {
        explaining->reading = WEIR_BODY_NO_MEMORY;
        explaining->has_failed = true;
        return;
    }
    struct weir_buffer buffer = weir_buffer_init(memory, size);
    explaining->reading =
        weir_body_read(&explaining->facts, body, explaining->fields, ruleset->field_count, &buffer);
}

void weir_explain_read_fields(struct explaining *explaining, const struct weir_ruleset *ruleset)
{
    const struct weir_described *described = explaining->described;
    explaining->reading = WEIR_BODY_READ;
    for (size_t i = 0; i < ruleset->field_count; i++)
        explaining->fields[i] =
            (struct weir_body_field){ .name = ruleset->fields[i],
                                      .value = described_field(described, ruleset->fields[i]) };
    if (ruleset->field_count > 0 && described->field_count == 0)
        read_body(explaining, ruleset);
}

/* a request as it is sent */

static bool take_line(struct weir_text *rest, struct weir_text *line)
{
    if (!weir_text_take_first(rest, '\n', line))
        return false;
    if (line->length > 0 && line->at[line->length - 1] == '\r')
        line->length--;
    return true;
}

static enum weir_code read_first_line(struct weir_text line, struct weir_described *described,
                                      struct weir_error *error)
{
    struct weir_text version;
    if (weir_text_take_first(&line, ' ', &described->method) && described->method.length > 0
        && weir_text_take_first(&line, ' ', &described->target) && described->target.length > 0
        && weir_text_take_first(&line, ' ', &version)
        && weir_text_starts_with(version, WEIR_TEXT("HTTP/")) && line.at == NULL)
        return WEIR_OK;
    return weir_error_set(error, WEIR_E_VALUE, NULL,
                          "Line 1 is no request line; wanted is \"GET /path HTTP/1.1\".");
}

enum weir_code weir_described_read(struct weir_text head, struct weir_line *lines, size_t room,
                                   struct weir_described *described, struct weir_error *error)
{
    struct weir_text rest = head, line;
    size_t number = 1;
    if (!take_line(&rest, &line))
        line = (struct weir_text){ "", 0 };
    enum weir_code code = read_first_line(line, described, error);
    described->headers = lines;
    described->header_count = 0;
    while (code == WEIR_OK && take_line(&rest, &line) && line.length > 0) {
        struct weir_text value = line, name;
        number++;
        if (!weir_text_take_first(&value, ':', &name) || value.at == NULL || name.length == 0)
            return weir_error_set(error, WEIR_E_VALUE, NULL,
                                  "Line %zu is no header line; wanted is \"NAME: VALUE\".", number);
        if (described->header_count == room)
            return weir_error_set(error, WEIR_E_VALUE, NULL,
                                  "There are more than %zu header lines.", room);
        lines[described->header_count++] = (struct weir_line){ name, weir_text_trim(value) };
    }
    described->body = rest;
    return code;
}
