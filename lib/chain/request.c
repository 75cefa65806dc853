#include "chain/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "chain/chain_internal.h"
#include "request/path.h"

/* making and ending */

struct weir_request *weir_request_new(struct weir_chain *chain)
{
    size_t entered_bytes = weir_aligned(chain->link_count);
    size_t extra_bytes = entered_bytes + chain->slot_bytes;
    struct weir_request *request = malloc(weir_aligned(sizeof *request) + extra_bytes);
    if (request == NULL)
        return NULL;

    /* The two large arrays at the end are written before they are read. */
    memset(request, 0, offsetof(struct weir_request, inline_headers));
    request->scratch_used = 0;
    request->entered = (unsigned char *)request + weir_aligned(sizeof *request);
    memset(request->entered, 0, extra_bytes);

    request->magic = WEIR_REQUEST_MAGIC;
    request->chain = chain;
    request->in_first_call = true;
    atomic_fetch_add(&chain->under_way, 1);
    return request;
}

static void release_notes(struct weir_request *request)
{
    for (struct weir_note *note = request->notes; note != NULL; note = note->next)
        if (note->release != NULL)
            note->release(note->value);
}

static void free_pieces(struct weir_request *request)
{
    while (request->pieces != NULL) {
        struct weir_piece *piece = request->pieces;
        request->pieces = piece->next;
        free(piece);
    }
}

/* A drain waits for the last request to end. */
static void count_as_ended(struct weir_chain *chain)
{
    if (atomic_fetch_sub(&chain->under_way, 1) != 1)
        return;
    pthread_mutex_lock(&chain->parking.lock);
    pthread_cond_broadcast(&chain->parking.idle);
    pthread_mutex_unlock(&chain->parking.lock);
}

void weir_request_end(struct weir_request *request)
{
    struct weir_chain *chain = request->chain;
    for (size_t i = chain->link_count; i-- > 0;) {
        const struct weir_middleware *middleware = &chain->links[i].middleware;
        if (request->entered[i] && middleware->on_end != NULL)
            middleware->on_end(middleware->self, request);
    }
    release_notes(request);
    free_pieces(request);
    free(request->body);
    if (request->blocks)
        pthread_cond_destroy(&request->woken);
    request->magic = 0;
    free(request);
    count_as_ended(chain);
}

/* memory */

void *weir_request_alloc(struct weir_request *request, size_t size)
{
    size_t start = weir_aligned(request->scratch_used);
    if (size <= sizeof request->scratch && start <= sizeof request->scratch - size) {
        request->scratch_used = start + size;
        return request->scratch + start;
    }

    size_t head = weir_aligned(sizeof(struct weir_piece));
    struct weir_piece *piece = size > SIZE_MAX - head ? NULL : malloc(head + size);
    if (piece == NULL)
        return NULL;
    piece->next = request->pieces;
    request->pieces = piece;
    return (char *)piece + head;
}

const char *weir_request_copy(struct weir_request *request, struct weir_text text)
{
    char *copy = weir_request_alloc(request, text.length + 1);
    if (copy == NULL)
        return NULL;
    if (text.length > 0)
        memcpy(copy, text.at, text.length);
    copy[text.length] = '\0';
    return copy;
}

bool weir_request_normalise(struct weir_request *request)
{
    struct weir_facts *facts = &request->facts;
    size_t size = facts->target.length + 2;
    char *memory = weir_request_alloc(request, size);
    if (memory == NULL)
        return false;

    struct weir_buffer path = weir_buffer_init(memory, size);
    facts->path = (struct weir_text){ NULL, 0 };
    if (weir_path_normalise(facts->target, WEIR_PATH_DECODED, &path)
        && weir_buffer_string(&path) != NULL)
        facts->path = weir_buffer_text(&path);
    return true;
}

/* what was asked */

const char *weir_request_method(const struct weir_request *request)
{
    return request->method;
}

const char *weir_request_target(const struct weir_request *request)
{
    return request->facts.target.at;
}

const char *weir_request_path(const struct weir_request *request)
{
    return request->facts.path.at;
}

const char *weir_request_rest(const struct weir_request *request)
{
    /* The rest reaches to the end of the path, which ends with a NUL. */
    return request->params.rest.at == NULL ? "" : request->params.rest.at;
}

const char *weir_request_param(struct weir_request *request, const char *name)
{
    struct weir_text value = weir_params_get(&request->params, weir_text_from(name));
    return value.at == NULL ? NULL : weir_request_copy(request, value);
}

const char *weir_request_header(struct weir_request *request, const char *name)
{
    return weir_facts_header(&request->facts, weir_text_from(name)).at;
}

const char *weir_request_query(struct weir_request *request, const char *name)
{
    return weir_facts_query(&request->facts, weir_text_from(name)).at;
}

const struct sockaddr *weir_request_peer(const struct weir_request *request)
{
    return request->facts.peer;
}

bool weir_request_has_body(const struct weir_request *request)
{
    return request->facts.has_body;
}

/* the body */

/* The Content-Length; 0 where there is none, or none that can be read. */
static uint64_t announced_length(const struct weir_request *request)
{
    uint64_t length = 0;
    struct weir_text value = weir_facts_header(&request->facts, WEIR_TEXT("Content-Length"));
    weir_text_to_number(weir_text_trim(value), &length);
    return length;
}

static void refuse_body(struct weir_request *request)
{
    weir_request_fail(request, WEIR_E_BODY, "The body is longer than the %zu bytes that are taken.",
                      request->body_max);
}

bool weir_request_body(struct weir_request *request, size_t max_bytes, const char **bytes,
                       size_t *length)
{
    if (request->body_stage == WEIR_BODY_UNASKED && request->facts.has_body) {
        request->body_stage = WEIR_BODY_ASKED;
        request->body_max = max_bytes;
        if (announced_length(request) > max_bytes)
            refuse_body(request);
    }
    if (request->body_stage == WEIR_BODY_ASKED)
        return false;
    *bytes = request->body == NULL ? "" : request->body;
    *length = request->body_length;
    return true;
}

static bool grow_body(struct weir_request *request, size_t wanted)
{
    if (wanted <= request->body_size)
        return true;
    size_t size = wanted < 1024 ? 1024 : wanted * 2;
    char *body = realloc(request->body, size);
    if (body == NULL)
        return false;
    request->body = body;
    request->body_size = size;
    return true;
}

bool weir_request_take_body(struct weir_request *request, const char *bytes, size_t length)
{
    if (length > request->body_max - request->body_length) {
        refuse_body(request);
        return false;
    }
    if (!grow_body(request, request->body_length + length + 1)) {
        weir_error_set(&request->error, WEIR_E_MEMORY, NULL, "Out of memory.");
        return false;
    }
    memcpy(request->body + request->body_length, bytes, length);
    request->body_length += length;
    request->body[request->body_length] = '\0';
    return true;
}

/* notes */

static struct weir_note *find_note(const struct weir_request *request, const char *name)
{
    struct weir_note *note = request->notes;
    while (note != NULL && strcmp(note->name, name) != 0)
        note = note->next;
    return note;
}

static struct weir_note *add_note(struct weir_request *request, const char *name)
{
    struct weir_note *note = weir_request_alloc(request, sizeof *note);
    if (note == NULL)
        return NULL;
    *note = (struct weir_note){ .next = request->notes, .name = name };
    request->notes = note;
    return note;
}

bool weir_request_set(struct weir_request *request, const char *name, void *value,
                      void (*release)(void *value))
{
    struct weir_note *note = find_note(request, name);
    if (note != NULL && note->release != NULL && note->value != value)
        note->release(note->value);
    if (note == NULL)
        note = add_note(request, name);
    if (note == NULL) {
        if (release != NULL)
            release(value);
        return false;
    }
    note->value = value;
    note->release = release;
    return true;
}

void *weir_request_get(const struct weir_request *request, const char *name)
{
    const struct weir_note *note = find_note(request, name);
    return note == NULL ? NULL : note->value;
}

/* waiting and failing */

struct weir_ticket weir_park(struct weir_request *request)
{
    if (!request->may_wait)
        return (struct weir_ticket){ request->chain, 0 };
    uint64_t number = weir_parking_enter(&request->chain->parking, request);
    /* A fast waker may have the request running again by now, but not before this thread
     * returns from the link, and no waker has the ticket yet. */
    if (number != 0)
        request->has_asked_to_wait = true;
    return (struct weir_ticket){ request->chain, number };
}

void weir_request_fail(struct weir_request *request, enum weir_code code, const char *format, ...)
{
    char text[sizeof request->error.text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    request->error = (struct weir_error)WEIR_NO_ERROR;
    weir_error_set(&request->error, code, NULL, "%s", text);
}

const struct weir_error *weir_request_error(const struct weir_request *request)
{
    return request->error.code == WEIR_OK ? NULL : &request->error;
}

void *weir_request_slot(struct weir_request *request, const void *self)
{
    const struct weir_chain *chain = request->chain;
    unsigned char *slots = request->entered + weir_aligned(chain->link_count);
    for (size_t i = 0; i < chain->link_count; i++) {
        const struct weir_link *link = &chain->links[i];
        if (link->middleware.self == self && link->middleware.request_bytes > 0)
            return slots + link->slot;
    }
    return NULL;
}
