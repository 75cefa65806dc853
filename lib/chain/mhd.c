/* Between libmicrohttpd and the chain. */
#include <weir/mhd.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "chain/chain_internal.h"
#include "chain/mhd_refusal.h"
#include "chain/mhd_worker.h"

#define APP_FIRST (offsetof(struct weir_app, uri_log_cls) + sizeof(void *))

/* How much of a body is read after it was refused, so that an honest client gets to the reply. */
#define SWALLOWED_MAX ((size_t)1 << 20)

/* The request whose handler runs on this thread, so that a queued response finds it. */
static _Thread_local struct weir_request *current;

static struct MHD_Connection *connection_of(const struct weir_request *request)
{
    return request->connection;
}

struct MHD_Connection *weir_request_connection(const struct weir_request *request)
{
    return request->connection;
}

struct weir_request *weir_request_of(const struct MHD_Connection *connection)
{
    return current != NULL && current->connection == connection ? current : NULL;
}

/* setting up */

enum weir_code weir_chain_serve(struct weir_chain *chain, const struct weir_app *app)
{
    if (chain == NULL || app == NULL)
        return WEIR_E_ARGUMENT;
    if (atomic_load(&chain->is_serving))
        return WEIR_E_STATE;

    struct weir_app *ours = malloc(sizeof *ours);
    if (ours == NULL)
        return WEIR_E_MEMORY;
    enum weir_code code = weir_options_take(ours, sizeof *ours, app, APP_FIRST, "WEIR_APP", NULL);
    if (code == WEIR_OK && ours->handler == NULL)
        code = WEIR_E_ARGUMENT;
    if (code != WEIR_OK) {
        free(ours);
        return code;
    }
    free(chain->app);
    chain->app = ours;
    return WEIR_OK;
}

static bool can_suspend(unsigned flags)
{
    return (flags & MHD_ALLOW_SUSPEND_RESUME) != 0 && (flags & MHD_USE_THREAD_PER_CONNECTION) == 0;
}

/* From libmicrohttpd 1.0 on (1.0.1 is the newest) a loop over select() ends its round early where a
 * handler suspends its connection (internal_run_from_select() goes on in the other list), and does
 * not come back to resumed connections behind it until something else happens. */
static bool forgets_resumed(unsigned flags)
{
    const unsigned others = MHD_USE_POLL | MHD_USE_EPOLL | MHD_USE_THREAD_PER_CONNECTION;
    return (flags & others) == 0 && MHD_get_version()[0] != '0';
}

static int listener_of(struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_LISTEN_FD);
    return info == NULL ? -1 : info->listen_fd;
}

enum weir_code weir_chain_check(const struct weir_chain *chain, struct MHD_Daemon *daemon,
                                struct weir_error *error)
{
    if (chain == NULL || daemon == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL, "There is no %s.",
                              chain == NULL ? "chain" : "daemon; MHD_start_daemon() failed");
    unsigned flags = weir_mhd_daemon_flags(daemon);
    if (!can_suspend(flags) && (flags & MHD_USE_THREAD_PER_CONNECTION) == 0)
        return weir_error_set(error, WEIR_E_DAEMON, NULL,
                              "The daemon was started without MHD_ALLOW_SUSPEND_RESUME, so a "
                              "request that waits holds up its thread: add it to the flags of "
                              "MHD_start_daemon().");
    bool is_internal = (flags & MHD_USE_INTERNAL_POLLING_THREAD) != 0;
    if (is_internal && forgets_resumed(flags))
        return weir_error_set(error, WEIR_E_DAEMON, NULL,
                              "The daemon calls select(), and libmicrohttpd %s then forgets "
                              "requests that have waited: add MHD_USE_EPOLL or MHD_USE_POLL to the "
                              "flags of MHD_start_daemon().",
                              MHD_get_version());
    if (!is_internal && chain->on_wake == NULL && chain->wake_fd < 0)
        return weir_error_set(error, WEIR_E_DAEMON, NULL,
                              "The daemon is polled by the program's own loop, which nothing "
                              "wakes: set on_wake in WEIR_CHAIN_OPTIONS, or poll "
                              "weir_chain_wake_fd().");
    enum weir_code code = weir_chain_may_listen(chain, listener_of(daemon), error);
    if (code != WEIR_OK)
        return code;
    const char *fault =
        chain->wait_mode == WEIR_WAIT_IN_PLACE ? weir_mhd_in_place_fault(flags) : NULL;
    return fault == NULL ? WEIR_OK
                         : weir_error_set(error, WEIR_E_DAEMON, NULL,
                                          "Requests cannot wait in place, as the chain's options "
                                          "want it. %s",
                                          fault);
}

/* MHD_quiesce_daemon() takes the listening socket out of the set of an epoll daemon, and so does the
 * daemon's own thread when it sees that; the second of them finds it gone, and ends the program
 * (libmicrohttpd 0.9.75 to 1.0.1). */
static bool can_quiesce(unsigned flags)
{
    const unsigned racing = MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD;
    return (flags & racing) != racing;
}

bool weir_stop_daemon(struct weir_chain *chain, struct MHD_Daemon *daemon, uint32_t drain_ms)
{
    /* Otherwise new connections are taken until the end, and their requests turned away. */
    MHD_socket listener = MHD_INVALID_SOCKET;
    if (can_quiesce(weir_mhd_daemon_flags(daemon)))
        listener = MHD_quiesce_daemon(daemon);
    bool answered = weir_chain_drain(chain, drain_ms);
    MHD_stop_daemon(daemon);
    if (listener != MHD_INVALID_SOCKET)
        close(listener);
    return answered;
}

/* holding a request back */

static void suspend(struct weir_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection_of(request), MHD_CONNECTION_INFO_DAEMON);
    if (info != NULL && can_suspend(weir_mhd_daemon_flags(info->daemon))) {
        MHD_suspend_connection(connection_of(request));
        return;
    }
    /* Resumes get lost with a thread for each connection, and without the flag suspending
     * aborts the program: there the thread itself waits, in serve_chain(). */
    request->blocks = true;
}

static void resume(struct weir_request *request)
{
    /* Once resumed the request may be gone; its worker is not. */
    struct weir_worker *worker = request->worker;
    if (!request->blocks) {
        MHD_resume_connection(connection_of(request));
        if (worker != NULL && worker->has_loop)
            weir_in_place_wake_loop(worker);
    } else if (request->woken != NULL) {
        pthread_cond_signal(request->woken);
    }
}

static int socket_of(const struct weir_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection_of(request), MHD_CONNECTION_INFO_CONNECTION_FD);
    return info == NULL ? -1 : info->connect_fd;
}

static const struct weir_host server = { suspend, resume, socket_of };

/* taking a request in */

static bool announces_body(const struct weir_line *line)
{
    if (weir_text_equal_fold(line->name, WEIR_TEXT("Transfer-Encoding")))
        return true;
    return weir_text_equal_fold(line->name, WEIR_TEXT("Content-Length"))
           && !weir_text_equal(weir_text_trim(line->value), WEIR_TEXT("0"));
}

/* Header lines and query arguments while they are gathered. */
struct gathering {
    struct weir_request *request;
    struct weir_line *lines;
    size_t count, room;
};

static enum MHD_Result gather(void *cls, enum MHD_ValueKind kind, const char *key, size_t key_size,
                              const char *value, size_t value_size)
{
    struct gathering *all = cls;
    if (all->count == all->room)
        return MHD_NO;
    struct weir_line *line = &all->lines[all->count++];
    *line = (struct weir_line){ { key, key_size }, { value == NULL ? "" : value, value_size } };
    if (kind == MHD_HEADER_KIND && announces_body(line))
        all->request->facts.has_body = true;
    return MHD_YES;
}

static size_t count_lines(struct MHD_Connection *connection)
{
    int count = MHD_get_connection_values_n(
        connection, (enum MHD_ValueKind)(MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND), NULL, NULL);
    return count > 0 ? (size_t)count : 0;
}

/* All in one array: first the header lines, then the query arguments. */
static bool gather_lines(struct weir_request *request, struct MHD_Connection *connection,
                         size_t count)
{
    struct gathering all = { .request = request, .room = count };
    all.lines = weir_request_alloc(request, count * sizeof *all.lines);
    if (all.lines == NULL)
        return false;

    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, gather, &all);
    request->facts.headers = all.lines;
    request->facts.header_count = all.count;
    if (all.count < count)
        MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, gather, &all);
    request->facts.queries = all.lines + request->facts.header_count;
    request->facts.query_count = all.count - request->facts.header_count;
    return true;
}

static bool take_in(struct weir_request *request, struct MHD_Connection *connection,
                    const char *url, const char *method, size_t line_count)
{
    request->server = &server;
    request->connection = connection;
    request->method = method;
    request->facts.method = weir_text_from(method);
    request->facts.target = weir_text_from(url);

    /* 1.0.1 gives NULL where there is no address, 0.9.75 a pointer to NULL. */
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    request->facts.peer = info == NULL ? NULL : info->client_addr;

    request->stage = WEIR_STAGE_CHAIN;
    return gather_lines(request, connection, line_count) && weir_request_normalise(request);
}

/* replies */

static bool add_to_response(void *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

static const char *find_in_response(void *response, const char *name)
{
    return MHD_get_response_header(response, name);
}

static struct MHD_Response *make_response(const struct weir_reply *reply)
{
    /* The body lives in the request, which outlives the sending. The cast is for a parameter
     * that libmicrohttpd declares without const and does not write to. */
    struct MHD_Response *response = MHD_create_response_from_buffer(
        reply->body_length, (void *)(uintptr_t)reply->body, MHD_RESPMEM_PERSISTENT);
    for (size_t i = 0; response != NULL && i < reply->line_count; i++)
        MHD_add_response_header(response, reply->lines[i].name, reply->lines[i].value);
    return response;
}

static enum MHD_Result send_reply(struct weir_request *request)
{
    weir_run_reply_hooks(request, &request->reply);
    request->stage = WEIR_STAGE_SENT;
    struct MHD_Response *shared = NULL;
    if (request->is_refused)
        shared = weir_refusal_response(&request->reply);
    struct MHD_Response *response = shared != NULL ? shared : make_response(&request->reply);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result queued =
        MHD_queue_response(connection_of(request), request->reply.status, response);
    if (response != shared)
        MHD_destroy_response(response);
    return queued;
}

/* What holds for the response that the connection has; NULL: it has none. */
static const union MHD_ConnectionInfo *queued_status(const struct weir_request *request)
{
    return MHD_get_connection_info(connection_of(request), MHD_CONNECTION_INFO_HTTP_STATUS);
}

/* A daemon that is being stopped says yes to a response and drops it (libmicrohttpd 0.9.75). */
static struct MHD_Response *response_to_change(const struct weir_request *request)
{
    bool is_held = queued_status(request) != NULL;
    return is_held && request->app_response_is_own ? request->app_response : NULL;
}

/* A response is queued, and libmicrohttpd builds its header only after the handler has returned:
 * until then lines can still be added. */
static void finish_app_reply(struct weir_request *request)
{
    /* After this one libmicrohttpd calls again, for the reply itself. */
    if (request->app_status == MHD_HTTP_PROCESSING) {
        request->app_response = NULL;
        return;
    }
    struct weir_reply reply = { .status = request->app_status,
                                .response = response_to_change(request),
                                .add = add_to_response,
                                .header = find_in_response };
    request->app_response = NULL;
    /* As libmicrohttpd does where an application queues a response in its first call. */
    if (request->owes_first_call && request->stage == WEIR_STAGE_APP && reply.response != NULL)
        MHD_add_response_header(reply.response, "Connection", "close");
    weir_run_reply_hooks(request, &reply);
    request->stage = WEIR_STAGE_SENT;
}

/* libmicrohttpd takes no response while a body comes in, so neither does it while one is handed on. */
static bool is_mid_upload(const struct MHD_Connection *connection)
{
    return current != NULL && current->connection == connection && current->stage == WEIR_STAGE_APP
           && weir_body_is_handed_on(current) && current->body->call == WEIR_CALL_PIECE;
}

static enum MHD_Result queue(struct MHD_Connection *connection, unsigned int status_code,
                             struct MHD_Response *response, bool is_own)
{
    if (is_mid_upload(connection))
        return MHD_NO;
    enum MHD_Result queued = MHD_queue_response(connection, status_code, response);
    if (queued == MHD_YES && current != NULL && current->connection == connection) {
        current->app_response = response;
        current->app_response_is_own = is_own;
        current->app_status = status_code & ~(unsigned)MHD_ICY_FLAG;
    }
    return queued;
}

enum MHD_Result weir_queue_response(struct MHD_Connection *connection, unsigned int status_code,
                                    struct MHD_Response *response)
{
    return queue(connection, status_code, response, true);
}

enum MHD_Result weir_redirect_queue_response(struct MHD_Connection *connection,
                                             unsigned int status_code,
                                             struct MHD_Response *response)
{
    return queue(connection, status_code, response, false);
}

void weir_redirect_destroy_response(struct MHD_Response *response)
{
    /* The connection holds a reference of its own, so the response outlives this. */
    if (current != NULL && response != NULL && current->app_response == response)
        current->app_response_is_own = true;
    MHD_destroy_response(response);
}

/* one call of the access handler */

struct call {
    const char *url;
    const char *version;
    const char *upload_data;
    size_t *upload_data_size;
};

/* The application has called MHD_queue_response() itself: the hooks see the status at least. */
static bool queued_directly(struct weir_request *request)
{
    const union MHD_ConnectionInfo *info = queued_status(request);
    if (info == NULL)
        return false;
    request->app_status = info->http_status;
    return true;
}

/* `is_queued` is set where it queued a response. */
static enum MHD_Result call_app(struct weir_request *request, const struct call *call,
                                bool *is_queued)
{
    const struct weir_app *app = request->chain->app;
    request->app_knows = true;
    enum MHD_Result result = app->handler(app->handler_cls, connection_of(request), call->url,
                                          request->method, call->version, call->upload_data,
                                          call->upload_data_size, &request->app_con_cls);
    *is_queued = request->app_response != NULL || queued_directly(request);
    if (*is_queued)
        finish_app_reply(request);
    return result;
}

/* The application suspended its connection, and will be called again as it was before. */
static bool is_suspended(const struct weir_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection_of(request), MHD_CONNECTION_INFO_CONNECTION_SUSPENDED);
    return info != NULL && info->suspended == MHD_YES;
}

/* The chain has taken the body in, and libmicrohttpd makes its final call: now the application gets
 * all the calls that it would have seen. One that makes no progress gets its call again when
 * libmicrohttpd repeats its own, which it does at once, or after a resume. */
static enum MHD_Result hand_on(struct weir_request *request, const struct call *call)
{
    struct weir_body *body = request->body;
    bool goes_on = true;
    while (goes_on) {
        struct weir_text offer = weir_body_offer(body);
        size_t left = offer.length;
        const struct call made = { call->url, call->version, offer.at, &left };
        bool is_queued = false;
        enum MHD_Result result = call_app(request, &made, &is_queued);
        if (result != MHD_YES || is_queued)
            return result;
        bool waits = is_suspended(request);
        if (waits && body->call == WEIR_CALL_FIRST)
            return MHD_YES; /* the first call is made again after it */
        goes_on = weir_body_advance(body, left < offer.length ? left : offer.length) && !waits;
    }
    return MHD_YES;
}

/* The request has stayed in place over libmicrohttpd's first call, so this one stands for both. */
static enum MHD_Result serve_app(struct weir_request *request, const struct call *call)
{
    bool is_queued;
    if (weir_body_is_handed_on(request))
        return hand_on(request, call);
    if (request->owes_first_call) {
        enum MHD_Result result = call_app(request, call, &is_queued);
        request->owes_first_call = false;
        if (result != MHD_YES || is_queued || is_suspended(request))
            return result;
    }
    return call_app(request, call, &is_queued);
}

static bool refuses_body(const struct weir_request *request)
{
    return request->facts.has_body && request->reply.status >= 400;
}

/* The rest of a body that nobody reads any more is swallowed: a response can only be queued before
 * the first byte or after the last. Who goes on sending what was refused loses the connection. */
static enum MHD_Result swallow(struct weir_request *request, const struct call *call)
{
    request->swallowed += *call->upload_data_size;
    *call->upload_data_size = 0;
    return refuses_body(request) && request->swallowed > SWALLOWED_MAX ? MHD_NO : MHD_YES;
}

static enum MHD_Result serve_reply(struct weir_request *request, const struct call *call)
{
    if (*call->upload_data_size > 0)
        return swallow(request, call);
    /* Queued in the first call the reply closes the connection (libmicrohttpd 0.9.75 to 1.0.1),
     * which is right only where there is a body to refuse. */
    if (request->in_first_call && !refuses_body(request)) {
        request->in_first_call = false;
        return MHD_YES;
    }
    return send_reply(request);
}

/* A loop of the program's own is told to come back at once, for those that this round leaves out. A
 * daemon that calls select() itself cannot be told, so weir_chain_check() refuses it. */
static void mend_round(const struct weir_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection_of(request), MHD_CONNECTION_INFO_DAEMON);
    unsigned flags = info == NULL ? 0 : weir_mhd_daemon_flags(info->daemon);
    if ((flags & MHD_USE_INTERNAL_POLLING_THREAD) == 0 && forgets_resumed(flags))
        weir_chain_tell_loop(request->chain);
}

static enum MHD_Result serve_chain(struct weir_request *request, const struct call *call)
{
    /* The first call is repeated only after a suspension, but without a body the last one follows. */
    request->can_stay =
        request->in_first_call ? !request->facts.has_body : *call->upload_data_size == 0;
    enum weir_run run = weir_run(request);
    while (run == WEIR_RUN_WAIT && request->blocks && request->lane == NULL) {
        weir_parking_block(&request->chain->parking, request);
        run = weir_run(request);
    }

    switch (run) {
    case WEIR_RUN_WAIT:
        weir_in_place_rests(request);
        mend_round(request);
        return MHD_YES;
    case WEIR_RUN_GONE:
        return MHD_NO;
    case WEIR_RUN_LATER:
    case WEIR_RUN_BODY:
        request->in_first_call = false;
        return MHD_YES;
    case WEIR_RUN_SENT:
        finish_app_reply(request);
        return MHD_YES;
    case WEIR_RUN_APP:
        request->stage = WEIR_STAGE_APP;
        return serve_app(request, call);
    case WEIR_RUN_REPLY:
        request->stage = WEIR_STAGE_REPLY;
        return serve_reply(request, call);
    }
    return MHD_NO;
}

/* The chain waits for the body: true when it need not run yet. */
static bool take_upload(struct weir_request *request, const struct call *call)
{
    /* After a wake in the first call that call is repeated, and looks like the last one. */
    if (request->body_stage != WEIR_BODY_ASKED || request->in_first_call)
        return false;
    if (*call->upload_data_size == 0) {
        request->body_stage = WEIR_BODY_WHOLE;
        return false;
    }
    bool is_taken = weir_request_take_body(request, call->upload_data, *call->upload_data_size);
    /* What a link that answers it itself has to wait for is asked at once. This piece is offered again
     * afterwards, so that libmicrohttpd calls even if the client sends no more. */
    if (!is_taken && request->error == NULL)
        return false;
    *call->upload_data_size = 0;
    if (!is_taken) {
        weir_run_error(request);
        request->stage = WEIR_STAGE_REPLY;
    }
    return true;
}

static enum MHD_Result serve(struct weir_request *request, const struct call *call)
{
    switch (request->stage) {
    case WEIR_STAGE_NEW:
    case WEIR_STAGE_CHAIN:
        return take_upload(request, call) ? MHD_YES : serve_chain(request, call);
    case WEIR_STAGE_APP:
        return serve_app(request, call);
    case WEIR_STAGE_REPLY:
        return serve_reply(request, call);
    case WEIR_STAGE_SENT:
        *call->upload_data_size = 0;
        return MHD_YES;
    }
    return MHD_NO;
}

/* *con_cls may hold a pointer of the application's: what a URI log callback that we do not know of has
 * returned. Ours are told apart by an odd address, so that a foreign one is not looked into. */
static void *mark(struct weir_request *request)
{
    return (char *)request + 1;
}

static struct weir_request *ours(void *con_cls)
{
    if (con_cls == NULL || (uintptr_t)con_cls % 2 == 0)
        return NULL;
    struct weir_request *request = (void *)((uintptr_t)con_cls - 1);
    return request != NULL && request->magic == WEIR_REQUEST_MAGIC ? request : NULL;
}

/* A request of ours in *con_cls. A foreign pointer goes to the application, as it would without
 * us. NULL: memory ran out. */
static struct weir_request *make_request(struct weir_chain *chain, void **con_cls,
                                         size_t room_bytes)
{
    struct weir_request *made = weir_request_new(chain, room_bytes);
    if (made == NULL)
        return NULL;
    made->app_con_cls = *con_cls;
    made->app_knows = *con_cls != NULL;
    *con_cls = mark(made);
    return made;
}

/* Takes a new request in, which the URI log callback may have made; NULL: memory ran out. */
static struct weir_request *begin(struct weir_chain *chain, struct MHD_Connection *connection,
                                  const char *url, const char *method, void **con_cls)
{
    if (!atomic_load_explicit(&chain->is_serving, memory_order_relaxed))
        atomic_store(&chain->is_serving, true);

    struct weir_request *request = ours(*con_cls);
    size_t line_count = count_lines(connection);
    if (request == NULL)
        request = make_request(chain, con_cls,
                               line_count * sizeof(struct weir_line) + strlen(url) + 2
                                   + WEIR_SCRATCH_BYTES);
    if (request == NULL || !take_in(request, connection, url, method, line_count))
        return NULL;
    if (atomic_load_explicit(&chain->in_place.is_wanted, memory_order_relaxed))
        request->worker = weir_mhd_worker(chain, connection);
    return request;
}

enum MHD_Result weir_access_handler(void *cls, struct MHD_Connection *connection, const char *url,
                                    const char *method, const char *version,
                                    const char *upload_data, size_t *upload_data_size,
                                    void **con_cls)
{
    struct weir_chain *chain = cls;
    if (chain == NULL || chain->magic != WEIR_CHAIN_MAGIC)
        return MHD_NO;
    struct weir_request *request = ours(*con_cls);
    bool is_new = request == NULL || request->stage == WEIR_STAGE_NEW;
    if (is_new)
        request = begin(chain, connection, url, method, con_cls);
    if (request == NULL)
        return MHD_NO;
    if (is_new)
        request->facts.is_http_1_0 = strcmp(version, MHD_HTTP_VERSION_1_1) != 0;

    if (request->times_body && *upload_data_size > 0)
        request->work_us = weir_monotonic_us();
    const struct call call = { url, version, upload_data, upload_data_size };
    struct weir_request *outer = current;
    current = request;
    enum MHD_Result result = weir_in_place_holds(request) ? MHD_YES : serve(request, &call);
    current = outer;
    return result;
}

static void tell_completed(const struct weir_app *app, struct MHD_Connection *connection,
                           void **con_cls, enum MHD_RequestTerminationCode toe)
{
    if (app != NULL && app->completed != NULL)
        app->completed(app->completed_cls, connection, con_cls, toe);
}

void weir_request_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                            enum MHD_RequestTerminationCode toe)
{
    struct weir_chain *chain = cls;
    struct weir_request *request = ours(*con_cls);
    if (request == NULL) {
        /* It never reached the access handler, but a URI log callback has seen it. */
        if (*con_cls != NULL)
            tell_completed(chain->app, connection, con_cls, toe);
        return;
    }
    /* An application is not told of the end of a request whose beginning it has not seen. */
    if (request->app_knows) {
        struct weir_request *outer = current;
        current = request; /* for weir_request_of(): what was done may be settled here */
        tell_completed(chain->app, connection, &request->app_con_cls, toe);
        current = outer;
    }
    *con_cls = NULL;
    weir_request_end(request);
}

void *weir_uri_log(void *cls, const char *uri, struct MHD_Connection *connection)
{
    struct weir_chain *chain = cls;
    struct weir_request *request = weir_request_new(chain, WEIR_SCRATCH_BYTES);
    if (request == NULL)
        return NULL;
    const struct weir_app *app = chain->app;
    if (app != NULL && app->uri_log != NULL) {
        request->app_con_cls = app->uri_log(app->uri_log_cls, uri, connection);
        request->app_knows = true;
    }
    return mark(request);
}
