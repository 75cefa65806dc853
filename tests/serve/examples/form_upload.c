/* A page with a form, and a handler that takes what the form sends: a small application for
 * libmicrohttpd, with the habits of many. It keeps its own state in *con_cls, frees it in its
 * completed callback, answers some requests in the first call and some in the second, shares
 * responses that are always the same, and makes the others for each request.
 *
 * Compiled with WRAPPED it is the same application behind a weir chain. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <microhttpd.h>

#include "running.h"
#ifdef WRAPPED
#include <weir/redirect.h>

#include "wrapping.h"
#endif

#define UPLOAD_MAX_BYTES (8u * 1024 * 1024)

enum fate { BEING_TAKEN, TOO_LARGE, NOT_A_FORM };

/* One upload; kept in *con_cls from the first call until the completed callback. */
struct upload {
    struct MHD_PostProcessor *processor;
    enum fate fate;
    char name[64];
    size_t name_length;
    bool has_file;
    uint64_t bytes;
    uint32_t sum; /* FNV-1a of the file */
};

/* Made once, queued for any number of requests, destroyed at the end. */
static struct MHD_Response *form_page, *too_large, *not_a_form, *not_found;

/* What /counts shows. */
static atomic_uint kept, given_up, under_way;

/* *con_cls of a request without an upload: its first call is over. */
static int asked_before;

/* responses */

static struct MHD_Response *shared(const char *type, const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    return response;
}

static void make_shared_responses(void)
{
    form_page = shared("text/html; charset=utf-8",
                       "<!DOCTYPE html><title>Upload</title>\n"
                       "<form action=\"/upload\" method=\"post\" enctype=\"multipart/form-data\">\n"
                       "<input name=\"name\"><input type=\"file\" name=\"file\"><button>Send\n"
                       "</form>\n");
    too_large = shared("text/plain", "That is too much.\n");
    not_a_form = shared("text/plain", "That is no form.\n");
    not_found = shared("text/plain", "There is nothing here.\n");
}

static void destroy_shared_responses(void)
{
    MHD_destroy_response(form_page);
    MHD_destroy_response(too_large);
    MHD_destroy_response(not_a_form);
    MHD_destroy_response(not_found);
}

static enum MHD_Result say(struct MHD_Connection *connection, unsigned status, const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain");
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

/* uploads */

static enum MHD_Result take_part(void *cls, enum MHD_ValueKind kind, const char *key,
                                 const char *filename, const char *content_type,
                                 const char *transfer_encoding, const char *data, uint64_t offset,
                                 size_t size)
{
    (void)kind, (void)filename, (void)content_type, (void)transfer_encoding, (void)offset;
    struct upload *upload = cls;
    if (strcmp(key, "name") == 0) {
        size_t room = sizeof upload->name - 1 - upload->name_length;
        size_t taken = size < room ? size : room;
        memcpy(upload->name + upload->name_length, data, taken);
        upload->name_length += taken;
        return MHD_YES;
    }
    if (strcmp(key, "file") != 0)
        return MHD_YES;
    upload->has_file = true;
    upload->bytes += size;
    for (size_t i = 0; i < size; i++)
        upload->sum = (upload->sum ^ (unsigned char)data[i]) * 16777619u;
    if (upload->bytes <= UPLOAD_MAX_BYTES)
        return MHD_YES;
    upload->fate = TOO_LARGE;
    return MHD_NO;
}

static bool announces_too_much(struct MHD_Connection *connection)
{
    const char *length =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length != NULL && strtoull(length, NULL, 10) > UPLOAD_MAX_BYTES + 4096;
}

static enum MHD_Result begin_upload(struct MHD_Connection *connection, void **con_cls)
{
    /* An answer in the first call: the body is not read at all. */
    if (announces_too_much(connection))
        return MHD_queue_response(connection, MHD_HTTP_CONTENT_TOO_LARGE, too_large);

    struct upload *upload = calloc(1, sizeof *upload);
    if (upload == NULL)
        return MHD_NO;
    upload->sum = 2166136261u;
    upload->processor = MHD_create_post_processor(connection, 4096, take_part, upload);
    if (upload->processor == NULL)
        upload->fate = NOT_A_FORM;
    atomic_fetch_add(&under_way, 1);
    *con_cls = upload;
    return MHD_YES;
}

static enum MHD_Result end_upload(struct MHD_Connection *connection, struct upload *upload)
{
    char text[160];
    switch (upload->fate) {
    case TOO_LARGE:
        return MHD_queue_response(connection, MHD_HTTP_CONTENT_TOO_LARGE, too_large);
    case NOT_A_FORM:
        return MHD_queue_response(connection, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, not_a_form);
    case BEING_TAKEN:
        break;
    }
    if (!upload->has_file)
        return say(connection, MHD_HTTP_BAD_REQUEST, "No file was sent.\n");
    snprintf(text, sizeof text, "Thank you, %s: %" PRIu64 " bytes, %08" PRIx32 ".\n", upload->name,
             upload->bytes, upload->sum);
    return say(connection, MHD_HTTP_OK, text);
}

static enum MHD_Result go_on_with_upload(struct MHD_Connection *connection, struct upload *upload,
                                         const char *data, size_t *size)
{
    if (*size == 0)
        return end_upload(connection, upload);
    if (upload->fate == BEING_TAKEN && MHD_post_process(upload->processor, data, *size) == MHD_NO
        && upload->fate == BEING_TAKEN)
        upload->fate = NOT_A_FORM;
    *size = 0;
    return MHD_YES;
}

/* the callbacks of libmicrohttpd */

static enum MHD_Result answer_post(struct MHD_Connection *connection, const char *url,
                                   const char *data, size_t *size, void **con_cls)
{
    if (*con_cls != NULL)
        return go_on_with_upload(connection, *con_cls, data, size);
    if (strcmp(url, "/upload") == 0)
        return begin_upload(connection, con_cls);
    return say(connection, MHD_HTTP_NOT_FOUND, "Nothing takes that.\n");
}

static enum MHD_Result answer_get(struct MHD_Connection *connection, const char *url,
                                  const char *version, void **con_cls)
{
    char text[160];
    if (strcmp(url, "/about") == 0) {
        snprintf(text, sizeof text, "An example, in %s.\n", version);
        return say(connection, MHD_HTTP_OK, text);
    }
    if (*con_cls == NULL) {
        *con_cls = &asked_before;
        return MHD_YES;
    }
    if (strcmp(url, "/") == 0)
        return MHD_queue_response(connection, MHD_HTTP_OK, form_page);
    if (strcmp(url, "/counts") != 0)
        return MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, not_found);
    snprintf(text, sizeof text, "kept %u, given up %u, under way %u\n", atomic_load(&kept),
             atomic_load(&given_up), atomic_load(&under_way));
    return say(connection, MHD_HTTP_OK, text);
}

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **con_cls)
{
    (void)cls;
    if (strcmp(method, MHD_HTTP_METHOD_POST) == 0)
        return answer_post(connection, url, data, size, con_cls);
    if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0)
        return answer_get(connection, url, version, con_cls);
    return MHD_NO; /* an unexpected method: no answer at all */
}

static void forget(void *cls, struct MHD_Connection *connection, void **con_cls,
                   enum MHD_RequestTerminationCode toe)
{
    (void)cls, (void)connection;
    struct upload *upload = *con_cls;
    if (upload == NULL || *con_cls == &asked_before)
        return;
    if (upload->processor != NULL)
        MHD_destroy_post_processor(upload->processor);
    atomic_fetch_add(toe == MHD_REQUEST_TERMINATED_COMPLETED_OK ? &kept : &given_up, 1);
    atomic_fetch_sub(&under_way, 1);
    free(upload);
    *con_cls = NULL;
}

int main(int argc, char **argv)
{
    struct running running;
    if (!running_read(&running, argc, argv))
        return 2;
    make_shared_responses();

#ifdef WRAPPED
    struct wrapping weir;
    bool fine = wrapping_start(&weir, &running);
    if (!fine)
        return 2;
    weir_chain_serve(weir.chain, WEIR_APP(.handler = answer, .completed = forget));
    struct MHD_Daemon *daemon = MHD_start_daemon(
        running.flags | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, weir_access_handler, weir.chain,
        MHD_OPTION_NOTIFY_COMPLETED, weir_request_completed, weir.chain, MHD_OPTION_ARRAY,
        running.options, MHD_OPTION_END);
    fine = running_wait(&running, daemon);
    fine = wrapping_stop(&weir, &running, daemon) && fine;
#else
    struct MHD_Daemon *daemon =
        MHD_start_daemon(running.flags, 0, NULL, NULL, answer, NULL, MHD_OPTION_NOTIFY_COMPLETED,
                         forget, NULL, MHD_OPTION_ARRAY, running.options, MHD_OPTION_END);
    bool fine = running_wait(&running, daemon);
    if (daemon != NULL)
        MHD_stop_daemon(daemon);
#endif

    destroy_shared_responses();
    return fine ? 0 : 1;
}
