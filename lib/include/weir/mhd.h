/* weir: what a program hands to libmicrohttpd. */
#ifndef WEIR_MHD_H
#define WEIR_MHD_H

#include <microhttpd.h>
#include <weir/chain.h>

/* An application that was written for libmicrohttpd alone. Its handler sees the same calls as
 * before, with its own `con_cls`; so does its completed callback. */
struct weir_app {
    size_t size; /* set by WEIR_APP */
    MHD_AccessHandlerCallback handler;
    void *handler_cls;
    MHD_RequestCompletedCallback completed; /* NULL: none */
    void *completed_cls;

    /* The application's MHD_OPTION_URI_LOG_CALLBACK, if it has one: give weir_uri_log and the
     * chain to libmicrohttpd in its place. */
    void *(*uri_log)(void *cls, const char *uri, struct MHD_Connection *connection);
    void *uri_log_cls;
    /* New fields go here, at the end; none is ever removed or reordered. */
};

#define WEIR_APP(...) (&(const struct weir_app){ .size = sizeof(struct weir_app), __VA_ARGS__ })

/* Names the application that gets what no handler of the chain answers. Copied.
 * Errors: WEIR_E_ARGUMENT, WEIR_E_MEMORY, WEIR_E_STATE. */
WEIR_API enum weir_code weir_chain_serve(struct weir_chain *chain, const struct weir_app *app);

/* The access handler for MHD_start_daemon(); `chain` is its cls. */
WEIR_API enum MHD_Result weir_access_handler(void *chain, struct MHD_Connection *connection,
                                             const char *url, const char *method,
                                             const char *version, const char *upload_data,
                                             size_t *upload_data_size, void **con_cls);

/* For MHD_OPTION_NOTIFY_COMPLETED, with the chain as its cls. */
WEIR_API void weir_request_completed(void *chain, struct MHD_Connection *connection, void **con_cls,
                                     enum MHD_RequestTerminationCode toe);

/* For MHD_OPTION_URI_LOG_CALLBACK, with the chain as its cls, where the application has one. */
WEIR_API void *weir_uri_log(void *chain, const char *uri, struct MHD_Connection *connection);

/* Says whether `daemon` can serve the chain, and if not, what to change (WEIR_E_DAEMON, or what a
 * link's may_listen says). */
WEIR_API enum weir_code weir_chain_check(const struct weir_chain *chain, struct MHD_Daemon *daemon,
                                         struct weir_error *error);

/* Drains for at most `drain_ms`, stops the daemon, and closes the listening socket; meanwhile requests
 * that come are answered 503, and where libmicrohttpd can be quiesced no connection is taken. Do not
 * call MHD_quiesce_daemon() before it. For daemons with threads of their own. Returns whether all
 * requests that had begun before were answered. */
WEIR_API bool weir_stop_daemon(struct weir_chain *chain, struct MHD_Daemon *daemon,
                               uint32_t drain_ms);

/* As MHD_queue_response(), for a response that is made for this request alone: the reply hooks add
 * their header lines to it when the handler returns. Called from a handler, on its thread. */
WEIR_API enum MHD_Result weir_queue_response(struct MHD_Connection *connection,
                                             unsigned int status_code,
                                             struct MHD_Response *response);

/* What <weir/redirect.h> calls in place of MHD_queue_response() and MHD_destroy_response(). A
 * response that the handler destroys before it returns was made for this request, and gets the
 * header lines; one that it keeps may be shared with other requests, and goes out as it is. */
WEIR_API enum MHD_Result weir_redirect_queue_response(struct MHD_Connection *connection,
                                                      unsigned int status_code,
                                                      struct MHD_Response *response);
WEIR_API void weir_redirect_destroy_response(struct MHD_Response *response);

/* The request whose handler or completed callback runs on this thread, for a wrapped application
 * that wants to know the user or the quotas, or to settle what the work cost; NULL outside of them,
 * and for any other connection. */
WEIR_API struct weir_request *weir_request_of(const struct MHD_Connection *connection);

/* The connection a request came on, for handlers of the chain that queue a response of their own
 * with weir_queue_response() and return WEIR_DONE. Where the request has a body, ask for it with
 * weir_request_body() first: queued before it, a response ends the connection. */
WEIR_API struct MHD_Connection *weir_request_connection(const struct weir_request *request);

#endif
