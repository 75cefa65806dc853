/* The small loop that takes the place of next(). */
#include "base/log.h"
#include "chain/chain_internal.h"

/* who is asked */

static bool takes_method(const struct weir_link *link, const struct weir_request *request)
{
    return link->method.at == NULL || weir_text_equal(link->method, request->facts.method)
           || (weir_text_equal(link->method, WEIR_TEXT("GET"))
               && weir_text_equal(request->facts.method, WEIR_TEXT("HEAD")));
}

/* A path that cannot be normalised meets the links that are for every path. */
static bool takes_path(const struct weir_link *link, struct weir_request *request)
{
    struct weir_text path = request->facts.path;
    if (path.at != NULL)
        return weir_pattern_match(&link->pattern, path, &request->params);
    return link->pattern.rest
           && weir_pattern_match(&link->pattern, WEIR_TEXT("/"), &request->params);
}

static bool is_asked(const struct weir_link *link, struct weir_request *request)
{
    return (!link->is_handler || takes_method(link, request)) && takes_path(link, request);
}

/* answers of the chain's own */

static bool lists_method(struct weir_text list, struct weir_text method)
{
    struct weir_text item;
    while (weir_text_take_first(&list, ',', &item))
        if (weir_text_equal(weir_text_trim(item), method))
            return true;
    return false;
}

/* Writes the methods that the path has handlers for, "GET, HEAD, POST"; false if there are none. */
static bool list_methods(struct weir_request *request, struct weir_buffer *allow)
{
    const struct weir_chain *chain = request->chain;
    for (size_t i = 0; i < chain->link_count; i++) {
        const struct weir_link *link = &chain->links[i];
        if (!link->is_handler || link->method.at == NULL || !takes_path(link, request)
            || lists_method(weir_buffer_text(allow), link->method))
            continue;
        weir_buffer_put_string(allow, allow->length == 0 ? "" : ", ");
        weir_buffer_put(allow, link->method);
        if (weir_text_equal(link->method, WEIR_TEXT("GET")))
            weir_buffer_put_string(allow, ", HEAD");
        if (weir_buffer_string(allow) == NULL)
            return false;
    }
    return allow->length > 0;
}

static void reply_not_found(struct weir_request *request)
{
    char memory[256] = "";
    struct weir_buffer allow = weir_buffer_init(memory, sizeof memory);
    if (!list_methods(request, &allow)) {
        weir_reply_problem(request, 404, NULL, NULL);
        return;
    }
    if (weir_text_equal(request->facts.method, WEIR_TEXT("OPTIONS")))
        weir_reply_bytes(request, 204, NULL, NULL, 0);
    else
        weir_reply_problem(request, 405, NULL, NULL);
    weir_reply_line(request, "Allow", allow.at);
}

static void reply_error(struct weir_request *request)
{
    switch ((int)request->error->code) {
    case WEIR_E_STOPPING:
        weir_reply_problem(request, 503, NULL, "The server is stopping.");
        weir_reply_line(request, "Retry-After", "1");
        /* The next request of this client would be cut off, or turned away again. */
        weir_reply_line(request, "Connection", "close");
        break;
    case WEIR_E_BODY:
        weir_reply_problem(request, 413, NULL, request->error->text);
        break;
    default:
        weir_reply_problem(request, 500, NULL, NULL);
        break;
    }
}

/* What a link did wrong is the log's to say, not the client's. */
static void blame(struct weir_request *request, const struct weir_link *link, const char *what)
{
    const char *name = link->middleware.name;
    weir_log_line(&request->chain->log, WEIR_ERROR, "%s %s %s.",
                  link->is_handler ? "The handler of" : "The middleware",
                  link->is_handler ? link->pattern.text
                  : name == NULL   ? "without a name"
                                   : name,
                  what);
    weir_request_fail(request, WEIR_E_STATE, "A link of the chain is at fault.");
}

/* running */

static bool answers_error(const struct weir_link *link, struct weir_request *request)
{
    const struct weir_middleware *middleware = &link->middleware;
    return !link->is_handler && middleware->on_error != NULL && takes_path(link, request)
           && middleware->on_error(middleware->self, request, request->error) == WEIR_DONE;
}

enum weir_run weir_run_error(struct weir_request *request)
{
    const struct weir_chain *chain = request->chain;
    if (request->error == NULL)
        weir_request_fail(request, WEIR_E_STATE, "A link of the chain failed without a reason.");

    request->reply = (struct weir_reply){ 0 };
    while (++request->index < chain->link_count)
        if (answers_error(&chain->links[request->index], request))
            break;
    if (request->app_response != NULL)
        return WEIR_RUN_SENT;
    if (request->reply.status == 0)
        reply_error(request);
    return WEIR_RUN_REPLY;
}

static enum weir_run conclude(struct weir_request *request, const struct weir_link *link)
{
    if (request->app_response != NULL)
        return WEIR_RUN_SENT;
    if (request->reply.status != 0)
        return WEIR_RUN_REPLY;
    if (request->is_gone)
        return WEIR_RUN_GONE;
    blame(request, link, "is done but has built no reply");
    return weir_run_error(request);
}

/* Who hung up is told nothing, unless there is something to tell. */
static enum weir_run fail(struct weir_request *request)
{
    if (request->is_gone && request->error == NULL)
        return WEIR_RUN_GONE;
    return weir_run_error(request);
}

static enum weir_run wait(struct weir_request *request, const struct weir_link *link)
{
    if (request->has_asked_to_wait) {
        request->has_asked_to_wait = false;
        return WEIR_RUN_WAIT;
    }
    if (request->error != NULL) /* of a body that is too long, or for which there is no memory */
        return weir_run_error(request);
    if (request->body_stage == WEIR_BODY_ASKED)
        return WEIR_RUN_BODY;
    blame(request, link, "waits for nothing: it has no ticket and no body to come");
    return weir_run_error(request);
}

static enum weir_step enter(struct weir_request *request, const struct weir_link *link)
{
    const struct weir_middleware *middleware = &link->middleware;
    request->entered[request->index] = 1;
    if (middleware->on_request == NULL)
        return WEIR_NEXT;
    request->may_wait = true;
    enum weir_step step = middleware->on_request(middleware->self, request);
    request->may_wait = false;
    /* A ticket is out and the request is suspended: it has to wait, whatever was returned. */
    return request->has_asked_to_wait ? WEIR_WAIT : step;
}

/* Without a body the reply of a handler goes out in the server's next call: queued in the first
 * one it would close the connection (libmicrohttpd 0.9.75 to 1.0.1). */
static bool must_come_later(const struct weir_request *request, const struct weir_link *link)
{
    return link->is_handler && request->in_first_call && !request->facts.has_body;
}

/* Rules match the normalised path, and a wrapped application sees the target as it was sent: with
 * "/pub/../admin" the two would mean different things. Clients resolve dots before they send (RFC
 * 3986 section 5.2.4), so nobody honest is hurt. */
static bool has_dots(struct weir_text target)
{
    struct weir_text segment;
    while (weir_text_take_first(&target, '/', &segment))
        if (weir_text_equal(segment, WEIR_TEXT(".")) || weir_text_equal(segment, WEIR_TEXT("..")))
            return true;
    return false;
}

static enum weir_run run_out(struct weir_request *request)
{
    bool has_app = request->chain->app != NULL;
    if (has_app && !has_dots(request->facts.target))
        return WEIR_RUN_APP;
    if (has_app)
        weir_reply_problem(request, 400, NULL, "The path has \".\" or \"..\" in it.");
    else
        reply_not_found(request);
    return WEIR_RUN_REPLY;
}

enum weir_run weir_run(struct weir_request *request)
{
    const struct weir_chain *chain = request->chain;
    if (request->is_drained) {
        request->is_drained = false;
        if (request->is_late)
            request->index--; /* no link has failed: all of them may answer the error */
        weir_request_fail(request, WEIR_E_STOPPING, "The server is stopping.");
        return weir_run_error(request);
    }

    for (; request->index < chain->link_count; request->index++) {
        const struct weir_link *link = &chain->links[request->index];
        if (!is_asked(link, request))
            continue;
        if (must_come_later(request, link))
            return WEIR_RUN_LATER;
        switch (enter(request, link)) {
        case WEIR_NEXT:
            break;
        case WEIR_DONE:
            return conclude(request, link);
        case WEIR_WAIT:
            return wait(request, link);
        case WEIR_FAIL:
            return fail(request);
        }
    }
    return run_out(request);
}

void weir_run_reply_hooks(struct weir_request *request, struct weir_reply *reply)
{
    const struct weir_chain *chain = request->chain;
    for (size_t i = chain->link_count; i-- > 0;) {
        const struct weir_middleware *middleware = &chain->links[i].middleware;
        if (request->entered[i] && middleware->on_reply != NULL)
            middleware->on_reply(middleware->self, request, reply);
    }
}
