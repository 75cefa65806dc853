#include "chain/body.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "chain/chain_internal.h"
#include "request/body_fields.h"

/* memory */

static void wipe(struct weir_body *body)
{
    if (body->bytes != NULL)
        explicit_bzero(body->bytes, body->length);
    free(body->bytes);
    body->bytes = NULL;
    body->size = 0;
}

void weir_body_finish(struct weir_body *body)
{
    if (body == NULL)
        return;
    wipe(body);
    free(body->ends);
    while (body->decoded != NULL) {
        struct weir_decoded *decoded = body->decoded;
        body->decoded = decoded->next;
        explicit_bzero(decoded, decoded->size);
        free(decoded);
    }
}

/* Not realloc(), which leaves behind what it moves. */
static bool grow(struct weir_body *body, size_t wanted)
{
    if (wanted <= body->size)
        return true;
    size_t size = wanted < 1024 ? 1024 : wanted * 2;
    char *bytes = malloc(size);
    if (bytes == NULL)
        return false;
    if (body->length > 0)
        memcpy(bytes, body->bytes, body->length);
    wipe(body);
    body->bytes = bytes;
    body->size = size;
    return true;
}

/* asking for it */

/* The Content-Length; 0 where there is none, or none that can be read. */
static uint64_t announced_length(const struct weir_request *request)
{
    uint64_t length = 0;
    struct weir_text value = weir_facts_header(&request->facts, WEIR_TEXT("Content-Length"));
    weir_text_to_number(weir_text_trim(value), &length);
    return length;
}

bool weir_request_body_fits(const struct weir_request *request, size_t max_bytes)
{
    return weir_facts_header(&request->facts, WEIR_TEXT("Transfer-Encoding")).at == NULL
           && announced_length(request) <= max_bytes;
}

static void begin(struct weir_request *request, size_t max_bytes)
{
    struct weir_body *body = weir_request_alloc(request, sizeof *body);
    if (body == NULL) {
        weir_request_fail_memory(request);
        request->body_stage = WEIR_BODY_CUT;
        return;
    }
    *body = (struct weir_body){ .max_bytes = max_bytes };
    request->body = body;
    request->body_stage = announced_length(request) > max_bytes ? WEIR_BODY_CUT : WEIR_BODY_ASKED;
}

/* The chain is through: what has not been read by now goes to the application piece by piece. */
static bool is_too_late(const struct weir_request *request)
{
    return request->stage >= WEIR_STAGE_APP && request->facts.has_body
           && request->body_stage != WEIR_BODY_WHOLE;
}

static enum weir_body_stage ask(struct weir_request *request, size_t max_bytes)
{
    if (request->body_stage == WEIR_BODY_UNASKED && request->facts.has_body)
        begin(request, max_bytes);
    bool is_too_long = request->body_stage == WEIR_BODY_WHOLE && request->body->length > max_bytes;
    return is_too_long ? WEIR_BODY_CUT : request->body_stage;
}

enum weir_body_stage weir_request_await_body(struct weir_request *request, size_t max_bytes)
{
    enum weir_body_stage stage = ask(request, max_bytes);
    if (stage == WEIR_BODY_ASKED)
        request->body->answers_cut = true;
    return stage;
}

static void refuse(struct weir_request *request, size_t max_bytes)
{
    if (request->error == NULL)
        weir_request_fail(request, WEIR_E_BODY,
                          "The body is longer than the %zu bytes that are taken.", max_bytes);
}

struct weir_text weir_request_whole_body(const struct weir_request *request)
{
    const struct weir_body *body = request->body;
    return body == NULL || body->bytes == NULL ? WEIR_TEXT("")
                                               : (struct weir_text){ body->bytes, body->length };
}

bool weir_request_body(struct weir_request *request, size_t max_bytes, const char **bytes,
                       size_t *length)
{
    if (is_too_late(request))
        return false;
    switch (ask(request, max_bytes)) {
    case WEIR_BODY_ASKED:
        return false;
    case WEIR_BODY_CUT:
        refuse(request, max_bytes);
        return false;
    case WEIR_BODY_UNASKED:
    case WEIR_BODY_WHOLE:
        break;
    }
    struct weir_text whole = weir_request_whole_body(request);
    *bytes = whole.at;
    *length = whole.length;
    return true;
}

/* fields of it */

#define FIELD_BODY_MAX ((size_t)16 << 10)

static enum weir_field field_of(enum weir_body_reading reading, const struct weir_text *value)
{
    switch (reading) {
    case WEIR_BODY_READ:
        return value->at == NULL ? WEIR_FIELD_ABSENT : WEIR_FIELD_FOUND;
    case WEIR_BODY_FOREIGN:
        return WEIR_FIELD_FOREIGN;
    case WEIR_BODY_NO_MEMORY:
        return WEIR_FIELD_WAIT;
    case WEIR_BODY_BROKEN:
    case WEIR_BODY_TOO_LONG:
        break;
    }
    return WEIR_FIELD_BROKEN;
}

/* Keeps a value until the request ends; NULL: memory ran out. */
static const char *keep_value(struct weir_body *body, struct weir_text value)
{
    size_t size = sizeof(struct weir_decoded) + value.length + 1;
    struct weir_decoded *decoded = malloc(size);
    if (decoded == NULL)
        return NULL;
    decoded->size = size;
    decoded->next = body->decoded;
    body->decoded = decoded;
    if (value.length > 0)
        memcpy(decoded->bytes, value.at, value.length);
    decoded->bytes[value.length] = '\0';
    return decoded->bytes;
}

/* WAIT: memory ran out. */
static enum weir_field find_field(struct weir_request *request, const char *name,
                                  const char **value, size_t *length)
{
    struct weir_body_field field = { .name = weir_text_from(name) };
    struct weir_text whole = weir_request_whole_body(request);
    size_t size = weir_body_memory_bytes(whole, 1);
    char *bytes = malloc(size);
    if (bytes == NULL)
        return WEIR_FIELD_WAIT;

    struct weir_buffer memory = weir_buffer_init(bytes, size);
    enum weir_field found =
        field_of(weir_body_read(&request->facts, whole, &field, 1, &memory), &field.value);
    if (found == WEIR_FIELD_FOUND) {
        *value = keep_value(request->body, field.value);
        *length = field.value.length;
        found = *value == NULL ? WEIR_FIELD_WAIT : WEIR_FIELD_FOUND;
    }
    explicit_bzero(bytes, memory.length);
    free(bytes);
    return found;
}

/* Once: whoever asks does so with each request. */
static void warn_unread(struct weir_chain *chain, const char *name)
{
    if (!atomic_exchange(&chain->has_warned, true))
        weir_log_line(&chain->log, WEIR_WARNING,
                      "A wrapped handler asked for the field %s of a body that weir has not read: "
                      "no policy of its route counts by a field, or the body is in chunks or too "
                      "long where nothing may be refused for it. [%s]",
                      name, weir_code_name(WEIR_W_FIELD_UNREAD));
}

enum weir_field weir_request_field(struct weir_request *request, const char *name,
                                   const char **value, size_t *length)
{
    if (is_too_late(request)) {
        warn_unread(request->chain, name);
        return WEIR_FIELD_UNREAD;
    }
    const char *bytes;
    size_t body_length;
    size_t max_bytes = request->body_stage == WEIR_BODY_WHOLE ? SIZE_MAX : FIELD_BODY_MAX;
    if (!weir_request_body(request, max_bytes, &bytes, &body_length))
        return WEIR_FIELD_WAIT;
    if (request->body == NULL)
        return WEIR_FIELD_ABSENT;
    enum weir_field found = find_field(request, name, value, length);
    if (found != WEIR_FIELD_WAIT)
        return found;
    weir_request_fail_memory(request);
    return request->stage >= WEIR_STAGE_APP ? WEIR_FIELD_UNREAD : WEIR_FIELD_WAIT;
}

/* taking it in */

static bool note_end(struct weir_body *body)
{
    if (body->length > UINT32_MAX)
        return false;
    if (body->end_count == body->end_size) {
        size_t size = body->end_size == 0 ? 8 : body->end_size * 2;
        uint32_t *ends = realloc(body->ends, size * sizeof *ends);
        if (ends == NULL)
            return false;
        body->ends = ends;
        body->end_size = size;
    }
    body->ends[body->end_count++] = (uint32_t)body->length;
    return true;
}

static void cut(struct weir_request *request)
{
    wipe(request->body);
    request->body_stage = WEIR_BODY_CUT;
}

bool weir_request_take_body(struct weir_request *request, const char *bytes, size_t length)
{
    struct weir_body *body = request->body;
    if (length > body->max_bytes - body->length) {
        cut(request);
        if (!body->answers_cut)
            refuse(request, body->max_bytes);
        return false;
    }
    bool is_taken = grow(body, body->length + length + 1);
    if (is_taken) {
        memcpy(body->bytes + body->length, bytes, length);
        body->length += length;
        body->bytes[body->length] = '\0';
        is_taken = request->chain->app == NULL || note_end(body);
    }
    if (!is_taken) {
        cut(request);
        weir_request_fail_memory(request);
    }
    return is_taken;
}

/* handing it on */

bool weir_body_is_handed_on(const struct weir_request *request)
{
    return request->body != NULL && request->body_stage == WEIR_BODY_WHOLE;
}

struct weir_text weir_body_offer(const struct weir_body *body)
{
    if (body->call != WEIR_CALL_PIECE)
        return (struct weir_text){ NULL, 0 };
    return (struct weir_text){ body->bytes + body->taken, body->ends[body->piece] - body->taken };
}

bool weir_body_advance(struct weir_body *body, size_t left)
{
    switch (body->call) {
    case WEIR_CALL_FIRST:
        body->call = body->end_count > 0 ? WEIR_CALL_PIECE : WEIR_CALL_LAST;
        return true;
    case WEIR_CALL_PIECE:
        break;
    case WEIR_CALL_LAST:
        return false;
    }
    size_t before = body->taken;
    body->taken = body->ends[body->piece] - left;
    if (left == 0 && ++body->piece == body->end_count)
        body->call = WEIR_CALL_LAST;
    return body->taken > before;
}
