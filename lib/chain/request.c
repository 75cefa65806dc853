#include "chain/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/clock.h"
#include "chain/blocks.h"
#include "chain/chain_internal.h"
#include "request/path.h"

/* making and ending */

struct weir_request *weir_request_new(struct weir_chain *chain, size_t room_bytes)
{
    size_t head_bytes = weir_aligned(sizeof(struct weir_request));
    size_t extra_bytes = weir_aligned(chain->link_count) + chain->slot_bytes;
    size_t block_bytes = head_bytes + extra_bytes + room_bytes;
    struct weir_request *request = weir_block_take(&block_bytes);
    if (request == NULL)
        return NULL;

    /* The room is written before it is read. */
    memset(request, 0, head_bytes + extra_bytes);
    request->entered = (unsigned char *)request + head_bytes;
    request->room = (char *)request->entered + extra_bytes;
    request->room_bytes = block_bytes - head_bytes - extra_bytes;
    request->block_bytes = block_bytes;

    request->magic = WEIR_REQUEST_MAGIC;
    request->chain = chain;
    request->in_first_call = true;
    request->is_late = request->is_drained = atomic_load(&chain->is_stopping);
    if (!request->is_late)
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
        weir_block_give(piece, piece->bytes);
    }
}

static void release_holds(struct weir_request *request)
{
    struct weir_request_hold *next;
    for (struct weir_request_hold *hold = request->holds; hold != NULL; hold = next) {
        next = hold->next;
        hold->release(hold);
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
    weir_in_place_ends(request);
    release_notes(request);
    weir_body_finish(request->body); /* it may lie in a piece */
    release_holds(request);
    free_pieces(request);
    bool is_late = request->is_late;
    request->magic = 0;
    weir_block_give(request, request->block_bytes);
    if (!is_late)
        count_as_ended(chain);
}

/* memory */

/* Small allocations share pieces of this many bytes, head included. */
#define PIECE_BYTES ((size_t)1024)

/* `size` becomes what it has. */
static char *add_piece(struct weir_request *request, size_t *size)
{
    size_t head = weir_aligned(sizeof(struct weir_piece)), bytes = head + *size;
    struct weir_piece *piece = bytes < *size ? NULL : weir_block_take(&bytes);
    if (piece == NULL)
        return NULL;
    *piece = (struct weir_piece){ .next = request->pieces, .bytes = bytes };
    request->pieces = piece;
    *size = bytes - head;
    return (char *)piece + head;
}

/* Takes `size` bytes of the room, which reaches that far. */
static char *take_room(struct weir_request *request, size_t size)
{
    char *taken = request->room;
    request->room += size;
    request->room_bytes -= size;
    return taken;
}

/* For what does not fit: a piece of its own if it is large, so that the room is not lost. */
static char *take_elsewhere(struct weir_request *request, size_t size)
{
    size_t room_bytes = PIECE_BYTES - weir_aligned(sizeof(struct weir_piece));
    if (size > room_bytes / 2)
        return add_piece(request, &size);
    char *room = add_piece(request, &room_bytes);
    if (room == NULL)
        return NULL;
    request->room = room;
    request->room_bytes = room_bytes;
    return take_room(request, size);
}

void *weir_request_alloc(struct weir_request *request, size_t size)
{
    size_t gap = (0 - (uintptr_t)request->room) % _Alignof(max_align_t);
    if (request->room_bytes < gap || request->room_bytes - gap < size)
        return take_elsewhere(request, size);
    return take_room(request, gap + size) + gap;
}

const char *weir_request_copy(struct weir_request *request, struct weir_text text)
{
    size_t size = text.length + 1;
    char *copy =
        request->room_bytes < size ? take_elsewhere(request, size) : take_room(request, size);
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

/* waiting */

struct weir_ticket weir_park(struct weir_request *request)
{
    if (!request->may_wait)
        return (struct weir_ticket){ request->chain, 0 };
    uint64_t number = weir_parking_enter(&request->chain->parking, request);
    /* A fast waker may have the request running again by now, but not before this thread
     * returns from the link, and no waker has the ticket yet. */
    request->has_asked_to_wait = number != 0;
    request->may_wait = number == 0;
    return (struct weir_ticket){ request->chain, number };
}

/* The clock cuts off what is less than a microsecond, and nobody goes on too early. */
static uint64_t moment_in(uint64_t wait_us)
{
    uint64_t now_us = weir_monotonic_us() + 1;
    return wait_us < UINT64_MAX - now_us ? now_us + wait_us : UINT64_MAX - 1;
}

bool weir_wait(struct weir_request *request, uint64_t wait_us)
{
    struct weir_chain *chain = request->chain;
    if (!request->may_wait || request->is_gone || !weir_waiting_start(chain)
        || !weir_parking_enter_until(&chain->parking, request, moment_in(wait_us)))
        return false;
    request->has_asked_to_wait = true;
    request->may_wait = false;
    return true;
}

bool weir_request_is_gone(const struct weir_request *request)
{
    return request->is_gone;
}

/* failing */

/* For when there is no memory to say it in other words. */
static const struct weir_error *plain_error(enum weir_code code)
{
    static const struct weir_error stopping = { .code = WEIR_E_STOPPING,
                                                .text = "The server is stopping." };
    static const struct weir_error body = { .code = WEIR_E_BODY,
                                            .text = "The body is longer than is taken." };
    static const struct weir_error memory = { .code = WEIR_E_MEMORY, .text = "Out of memory." };
    return code == WEIR_E_STOPPING ? &stopping : code == WEIR_E_BODY ? &body : &memory;
}

void weir_request_fail(struct weir_request *request, enum weir_code code, const char *format, ...)
{
    /* The arguments may be texts of the error before, which stays where it is. */
    struct weir_error *error = weir_request_alloc(request, sizeof *error);
    if (error == NULL) {
        request->error = plain_error(code);
        return;
    }
    *error = (struct weir_error){ .code = code };
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    request->error = error;
}

void weir_request_fail_memory(struct weir_request *request)
{
    if (request->error == NULL)
        request->error = plain_error(WEIR_E_MEMORY);
}

const struct weir_error *weir_request_error(const struct weir_request *request)
{
    return request->error;
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
