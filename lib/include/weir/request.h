/* weir: one request, as middleware and handlers see it.
 *
 * Functions here are called from inside a middleware's or handler's function, on the thread
 * that runs it. Texts they return are borrowed and live until the request ends. */
#ifndef WEIR_REQUEST_H
#define WEIR_REQUEST_H

#include <weir/common.h>
#include <weir/error.h>

struct sockaddr;
struct weir_chain;
struct weir_request;
struct weir_reply;

/* what was asked */

/* "GET", "POST", …, exactly as sent. */
WEIR_API const char *weir_request_method(const struct weir_request *request);

/* The path as libmicrohttpd gave it: percent-decoded once, otherwise as sent. */
WEIR_API const char *weir_request_target(const struct weir_request *request);

/* The normalised path ("//", "." and ".." resolved, no trailing slash), or NULL for one that
 * cannot be normalised. Routes and policies are matched with it. */
WEIR_API const char *weir_request_path(const struct weir_request *request);

/* What a route's or use_at's trailing "/…" left over: "" or "/rest". Never NULL. */
WEIR_API const char *weir_request_rest(const struct weir_request *request);

/* The value of a ":name" of the route that matched, or NULL. */
WEIR_API const char *weir_request_param(struct weir_request *request, const char *name);

/* The first header line with that name (letter case aside), or NULL. */
WEIR_API const char *weir_request_header(struct weir_request *request, const char *name);

/* The first query argument with that name, decoded, or NULL. */
WEIR_API const char *weir_request_query(struct weir_request *request, const char *name);

/* The other end of the connection, or NULL (a socket pair, a Unix socket). */
WEIR_API const struct sockaddr *weir_request_peer(const struct weir_request *request);

/* True if the client announced a body (Content-Length above 0, or chunked). */
WEIR_API bool weir_request_has_body(const struct weir_request *request);

/* The whole body, for links of the chain; a wrapped application gets it afterwards, in the calls that
 * it would have seen. On the first call it is not there yet: false, and the handler returns WEIR_WAIT, to be
 * called again when it is. A body above `max_bytes` is answered 413 by the chain itself. A wrapped
 * handler cannot wait: for it, false means that nobody in the chain has read the body. */
WEIR_API bool weir_request_body(struct weir_request *request, size_t max_bytes, const char **bytes,
                                size_t *length);

enum weir_field {
    WEIR_FIELD_WAIT,    /* the body is not there yet: return WEIR_WAIT, to be called again */
    WEIR_FIELD_FOUND,   /* it may be empty                                                 */
    WEIR_FIELD_ABSENT,  /* not in the body, or null                                        */
    WEIR_FIELD_BROKEN,  /* the body is not what it says, or can be read in two ways: 400   */
    WEIR_FIELD_FOREIGN, /* the body is of another kind: 415                                */
    WEIR_FIELD_UNREAD   /* weir has not read it, and a wrapped handler cannot wait for it  */
};

/* A field of the body, decoded and with a NUL behind it, but otherwise as it was sent: of a form, of
 * a multipart form, or of a JSON object ("user.name" is a member of the member "user"). It is read as
 * limits by "field:NAME" read it, so that what was counted is what is found here; docs/identity.md
 * says what is broken. Asks for a body of at most 16 KiB, unless it has been asked for.
 *
 * A wrapped handler gets UNREAD, and never WAIT, where nobody in the chain has read the body; it reads
 * it itself then, or refuses it. A limiter has read it where the policy of the route counts by a field,
 * unless it came in chunks, or was too long, where nothing is refused for that: see docs/wrap.md. */
WEIR_API enum weir_field weir_request_field(struct weir_request *request, const char *name,
                                            const char **value, size_t *length);

/* what it is called */

/* Its id, for logs of several programs to meet in: the X-Request-Id that a trusted proxy sent, if it is
 * 1 to 128 of A-Z a-z 0-9 . _ ~ + / = : -, else 128 random bits in hex, made when first asked for.
 * Whom the policy's "trust" covers is known once weir_identify() or weir_limit() has run; before that
 * nobody is. Refusals by weir carry it as X-Request-Id, but for those of a flood. NULL: memory ran out. */
WEIR_API const char *weir_request_id(struct weir_request *request);

/* The traceparent header (W3C Trace Context) as the client sent it, of a later version than 00 the part
 * that version 00 has; NULL: none, several, or not well-formed. */
WEIR_API const char *weir_request_traceparent(struct weir_request *request);

/* notes that travel with a request */

/* Keeps `value` under `name` (borrowed: a literal) until the request ends, when `release`, if
 * not NULL, is called with it. Setting a name again releases the old value. False: memory ran
 * out, and `release` has been called. */
WEIR_API bool weir_request_set(struct weir_request *request, const char *name, void *value,
                               void (*release)(void *value));

/* The value kept under `name`, or NULL. */
WEIR_API void *weir_request_get(const struct weir_request *request, const char *name);

/* waiting */

/* A right to wake one parked request once; `number` 0 means none. Copied freely. */
struct weir_ticket {
    struct weir_chain *chain;
    uint64_t number;
};

/* Suspends the request and only then returns its ticket. Hand the ticket on, touch the
 * request no more, and return WEIR_WAIT: the same function is called again after the wake.
 *
 * A ticket with number 0 means the request could not be parked (too many are, or the server
 * is stopping): go on without waiting. */
WEIR_API struct weir_ticket weir_park(struct weir_request *request);

/* Wakes the request. The first call wins, later ones do nothing; so does a ticket whose request was
 * already woken by a drain. Returns whether this call woke it. Any thread; the chain must live. */
WEIR_API bool weir_wake(struct weir_ticket ticket);

/* Parks the request for `wait_us` microseconds; then return WEIR_WAIT, and the same function is
 * called again: when they have passed (CLOCK_MONOTONIC, never sooner), or at once when the client
 * hangs up. Requests go on in the order of their moments, as far as one thread serves them. A
 * server that drains answers 503 in between, as it does for weir_park().
 *
 * False: it does not wait, because too many requests do, the server is stopping, the client hung
 * up during an earlier wait, or the system gave no timer. */
WEIR_API bool weir_wait(struct weir_request *request, uint64_t wait_us);

/* True after a weir_wait() that ended because the client hung up, or shut its sending side, which
 * looks the same. Such a request is called again, unless libmicrohttpd sees the end first; on_end
 * runs either way, and may ask this, too. A link that returns WEIR_DONE without a reply, or
 * WEIR_FAIL without weir_request_fail(), then has the connection closed in silence. */
WEIR_API bool weir_request_is_gone(const struct weir_request *request);

/* failing */

/* Says why a function is about to return WEIR_FAIL; copied. */
WEIR_API void weir_request_fail(struct weir_request *request, enum weir_code code,
                                const char *format, ...) WEIR_PRINTF(3, 4);

/* answering: build a reply, then return WEIR_DONE; false: memory ran out */

/* A body that is copied. A `length` of 0 makes an empty body; `content_type` may be NULL. */
WEIR_API bool weir_reply_bytes(struct weir_request *request, unsigned status,
                               const char *content_type, const void *bytes, size_t length);

/* Plain text. */
WEIR_API bool weir_reply_text(struct weir_request *request, unsigned status, const char *text);

/* JSON text. */
WEIR_API bool weir_reply_json(struct weir_request *request, unsigned status, const char *json);

/* application/problem+json (RFC 9457) with type "about:blank"; `detail` may be NULL. */
WEIR_API bool weir_reply_problem(struct weir_request *request, unsigned status, const char *title,
                                 const char *detail);

/* Adds a header line to the reply just built. False: refused (an empty value, a line break). */
WEIR_API bool weir_reply_line(struct weir_request *request, const char *name, const char *value);

/* a reply on its way out, as on_reply sees it */

/* Its status code. */
WEIR_API unsigned weir_reply_status(const struct weir_reply *reply);

/* The first header line of that name, or NULL. */
WEIR_API const char *weir_reply_header(const struct weir_reply *reply, const char *name);

/* Adds a header line. False if the reply cannot take one: a response that the application keeps
 * for more than one request, or queued behind weir's back. */
WEIR_API bool weir_reply_add(struct weir_reply *reply, const char *name, const char *value);

#endif
