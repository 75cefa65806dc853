/* POST /v1/export: rows that are made while they are sent, so the whole never is in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <weir/mhd.h>

#include "routes.h"

#define BODY_MAX_BYTES (1024 * 1024)
#define ROWS_DEFAULT   1000
#define ROWS_MAX       100000
#define BLOCK_BYTES    4096

/* One export under way; `row` is the one that is being sent. */
struct export
{
    long rows_left;
    long number;
    char row[64];
    size_t row_length;
    size_t row_sent;
};

static bool make_row(struct export *export)
{
    if (export->rows_left == 0)
        return false;
    export->rows_left--;
    export->number++;
    int length = snprintf(export->row, sizeof export->row, "{\"row\":%ld,\"litres\":%ld}\n",
                          export->number, export->number * 7 % 1000);
    export->row_length = (size_t)length;
    export->row_sent = 0;
    return true;
}

/* For libmicrohttpd: fills `block` with as much as there is room for. */
static ssize_t read_rows(void *cls, uint64_t position, char *block, size_t size)
{
    (void)position;
    struct export *export = cls;
    size_t filled = 0;
    while (filled < size && (export->row_sent < export->row_length || make_row(export))) {
        size_t piece = export->row_length - export->row_sent;
        if (piece > size - filled)
            piece = size - filled;
        memcpy(block + filled, export->row + export->row_sent, piece);
        export->row_sent += piece;
        filled += piece;
    }
    return filled == 0 ? MHD_CONTENT_READER_END_OF_STREAM : (ssize_t)filled;
}

/* Reads {"rows": N}; an empty body asks for ROWS_DEFAULT. */
static bool read_order(const char *body, size_t length, long *rows)
{
    *rows = ROWS_DEFAULT;
    if (length == 0)
        return true;
    json_t *order = json_loadb(body, length, JSON_REJECT_DUPLICATES, NULL);
    const json_t *wanted = json_object_get(order, "rows");
    json_int_t number = wanted == NULL ? ROWS_DEFAULT : json_integer_value(wanted);
    bool is_order = json_is_object(order) && number >= 1 && number <= ROWS_MAX;
    json_decref(order);
    if (is_order)
        *rows = (long)number;
    return is_order;
}

/* Hands libmicrohttpd a response of the demo's own, as any handler written for it does; only the
 * call that queues it is weir's, so that the quota fields get in. */
static bool queue_stream(struct weir_request *request, long rows)
{
    struct export *export = calloc(1, sizeof *export);
    if (export == NULL)
        return false;
    export->rows_left = rows;
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_rows, export, free);
    if (response == NULL) {
        free(export);
        return false;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/x-ndjson");
    enum MHD_Result queued =
        weir_queue_response(weir_request_connection(request), MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued == MHD_YES;
}

enum weir_step demo_export(void *self, struct weir_request *request)
{
    (void)self;
    const char *body;
    size_t length;
    if (!weir_request_body(request, BODY_MAX_BYTES, &body, &length))
        return WEIR_WAIT;

    long rows;
    if (!read_order(body, length, &rows)) {
        weir_reply_problem(request, 400, NULL,
                           "The body is {\"rows\": N} with N from 1 to 100000, or empty.");
        return WEIR_DONE;
    }
    if (queue_stream(request, rows))
        return WEIR_DONE;
    weir_request_fail(request, WEIR_E_MEMORY, "Out of memory.");
    return WEIR_FAIL;
}
