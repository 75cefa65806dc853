/* Serves the files of a folder: a small application for libmicrohttpd. Small files go out through a
 * content reader, large ones with MHD_create_response_from_fd(), and a folder is listed by a reader
 * that does not know how much is to come. A URI log callback begins the record of each visit, and
 * the completed callback ends it with a line on standard output.
 *
 * Compiled with WRAPPED it is the same application behind a weir chain. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <microhttpd.h>

#include "running.h"
#ifdef WRAPPED
#include <weir/redirect.h>

#include "wrapping.h"
#endif

#define LARGE_BYTES (1024 * 1024)

/* One request; *con_cls from the URI log callback until the completed callback. */
struct visit {
    char uri[128];
    bool asked_before;
};

static const char *folder;

/* Shared by all requests that are refused. */
static struct MHD_Response *forbidden;

/* content readers */

static ssize_t read_file(void *cls, uint64_t position, char *buffer, size_t size)
{
    FILE *file = cls;
    if (fseek(file, (long)position, SEEK_SET) != 0)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t got = fread(buffer, 1, size, file);
    return got == 0 ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)got;
}

static void close_file(void *cls)
{
    fclose(cls);
}

static ssize_t list_next(void *cls, uint64_t position, char *buffer, size_t size)
{
    (void)position;
    const struct dirent *entry;
    do {
        entry = readdir(cls);
        if (entry == NULL)
            return MHD_CONTENT_READER_END_OF_STREAM;
    } while (entry->d_name[0] == '.');
    int length = snprintf(buffer, size, "%s\n", entry->d_name);
    return length < 0 || (size_t)length >= size ? MHD_CONTENT_READER_END_WITH_ERROR : length;
}

static void close_folder(void *cls)
{
    closedir(cls);
}

/* responses */

static enum MHD_Result send_own(struct MHD_Connection *connection, unsigned status,
                                struct MHD_Response *response)
{
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result refuse_method(struct MHD_Connection *connection)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    return send_own(connection, MHD_HTTP_METHOD_NOT_ALLOWED, response);
}

static enum MHD_Result send_missing(struct MHD_Connection *connection, const char *url)
{
    char text[300];
    int length = snprintf(text, sizeof text, "There is no %.250s.\n", url);
    return send_own(connection, MHD_HTTP_NOT_FOUND,
                    MHD_create_response_from_buffer((size_t)length, text, MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result send_listing(struct MHD_Connection *connection, int fd)
{
    DIR *entries = fdopendir(fd);
    if (entries == NULL) {
        close(fd);
        return MHD_NO;
    }
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024, list_next, entries, close_folder);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain");
    return send_own(connection, MHD_HTTP_OK, response);
}

static enum MHD_Result send_file(struct MHD_Connection *connection, int fd, uint64_t size)
{
    if (size >= LARGE_BYTES)
        return send_own(connection, MHD_HTTP_OK, MHD_create_response_from_fd64(size, fd));
    FILE *file = fdopen(fd, "rb");
    if (file == NULL) {
        close(fd);
        return MHD_NO;
    }
    return send_own(
        connection, MHD_HTTP_OK,
        MHD_create_response_from_callback(size, 32 * 1024, read_file, file, close_file));
}

/* the callbacks of libmicrohttpd */

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **con_cls)
{
    (void)cls, (void)version, (void)data, (void)size;
    struct visit *visit = *con_cls;
    if (visit == NULL)
        return MHD_NO; /* memory ran out */
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return refuse_method(connection);
    if (!visit->asked_before) {
        visit->asked_before = true;
        return MHD_YES;
    }
    if (strstr(url, "..") != NULL)
        return MHD_queue_response(connection, MHD_HTTP_FORBIDDEN, forbidden);

    char path[1024];
    snprintf(path, sizeof path, "%s%s", folder, url);
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &facts) != 0) {
        if (fd >= 0)
            close(fd);
        return send_missing(connection, url);
    }
    if (S_ISDIR(facts.st_mode))
        return send_listing(connection, fd);
    return send_file(connection, fd, (uint64_t)facts.st_size);
}

static void *begin_visit(void *cls, const char *uri, struct MHD_Connection *connection)
{
    (void)cls, (void)connection;
    struct visit *visit = calloc(1, sizeof *visit);
    if (visit != NULL)
        snprintf(visit->uri, sizeof visit->uri, "%s", uri);
    return visit;
}

static void end_visit(void *cls, struct MHD_Connection *connection, void **con_cls,
                      enum MHD_RequestTerminationCode toe)
{
    (void)cls, (void)connection;
    struct visit *visit = *con_cls;
    if (visit == NULL)
        return;
    printf("%s %s %d\n", visit->uri, visit->asked_before ? "served" : "not served", (int)toe);
    fflush(stdout);
    free(visit);
    *con_cls = NULL;
}

int main(int argc, char **argv)
{
    struct running running;
    if (!running_read(&running, argc, argv))
        return 2;
    folder = running.folder;
    static char text[] = "No.\n";
    forbidden = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_PERSISTENT);

#ifdef WRAPPED
    struct wrapping weir;
    bool fine = wrapping_start(&weir, &running);
    if (!fine)
        return 2;
    weir_chain_serve(weir.chain,
                     WEIR_APP(.handler = answer, .completed = end_visit, .uri_log = begin_visit));
    struct MHD_Daemon *daemon = MHD_start_daemon(
        running.flags | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, weir_access_handler, weir.chain,
        MHD_OPTION_NOTIFY_COMPLETED, weir_request_completed, weir.chain,
        MHD_OPTION_URI_LOG_CALLBACK, weir_uri_log, weir.chain, MHD_OPTION_ARRAY, running.options,
        MHD_OPTION_END);
    fine = running_wait(&running, daemon);
    fine = wrapping_stop(&weir, &running, daemon) && fine;
#else
    struct MHD_Daemon *daemon =
        MHD_start_daemon(running.flags, 0, NULL, NULL, answer, NULL, MHD_OPTION_NOTIFY_COMPLETED,
                         end_visit, NULL, MHD_OPTION_URI_LOG_CALLBACK, begin_visit, NULL,
                         MHD_OPTION_ARRAY, running.options, MHD_OPTION_END);
    bool fine = running_wait(&running, daemon);
    if (daemon != NULL)
        MHD_stop_daemon(daemon);
#endif

    MHD_destroy_response(forbidden);
    return fine ? 0 : 1;
}
