/* The middleware that shows what a limiter counts. */
#include <weir/metrics.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "admin/metrics_accept.h"
#include "admin/metrics_gather.h"
#include "chain/request.h"

#define PLAIN_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define OPEN_TYPE  "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* A policy of a few limits takes a quarter of that; each limit more some 500 bytes. */
#define FIRST_BYTES (size_t)(32 << 10)
#define MOST_BYTES  (size_t)(64 << 20)

/* Writes all of it into memory of that size; false: it does not fit, or there is no memory. */
static bool try_reply(struct weir_request *request, struct weir_limiter *limiter,
                      enum weir_metrics_form form, size_t size, bool *fits)
{
    char *memory = malloc(size);
    if (memory == NULL)
        return false;
    struct weir_metrics_text text = { .out = weir_buffer_init(memory, size), .form = form };
    weir_metrics_gather(&text, limiter, request->chain);
    *fits = !text.out.full;
    bool is_built =
        *fits
        && weir_reply_bytes(request, 200, form == WEIR_METRICS_OPEN ? OPEN_TYPE : PLAIN_TYPE,
                            memory, text.out.length);
    free(memory);
    return is_built;
}

static enum weir_step reply(struct weir_request *request, struct weir_limiter *limiter)
{
    enum weir_metrics_form form =
        weir_metrics_accept(weir_text_from(weir_request_header(request, "Accept")));
    bool fits = false, is_built = false;
    for (size_t size = FIRST_BYTES; !fits && size <= MOST_BYTES; size *= 4)
        is_built = try_reply(request, limiter, form, size, &fits);
    if (!is_built) {
        weir_request_fail(request, WEIR_E_MEMORY, "There is no memory for the metrics.");
        return WEIR_FAIL;
    }
    weir_reply_line(request, "Vary", "Accept");
    weir_reply_line(request, "Cache-Control", "no-store");
    return WEIR_DONE;
}

/* weir_limit() has memory of each request, and so the limiter's address for itself. */
static struct weir_limiter *limiter_of(void *self)
{
    return (struct weir_limiter *)((char *)self - offsetof(struct weir_limiter, metrics));
}

static enum weir_step on_request(void *self, struct weir_request *request)
{
    const char *method = weir_request_method(request);
    if (weir_request_rest(request)[0] != '\0')
        return WEIR_NEXT;
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return reply(request, limiter_of(self));
    if (!weir_reply_problem(request, 405, "Method Not Allowed", "Metrics are read with GET."))
        return WEIR_FAIL;
    weir_reply_line(request, "Allow", "GET, HEAD");
    return WEIR_DONE;
}

const struct weir_middleware *weir_metrics(struct weir_limiter *limiter)
{
    limiter->metrics =
        *WEIR_MIDDLEWARE(.name = "metrics", .self = &limiter->metrics, .on_request = on_request);
    return &limiter->metrics;
}
