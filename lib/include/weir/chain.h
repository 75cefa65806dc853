/* weir: the chain of middleware and handlers a request passes through.
 *
 * A chain is built by one thread, then only read; weir_wake() and weir_chain_drain() are the
 * exceptions, and safe from any thread. */
#ifndef WEIR_CHAIN_H
#define WEIR_CHAIN_H

#include <weir/request.h>

/* What a middleware or handler wants to happen next. */
enum weir_step {
    WEIR_NEXT, /* go on to the next one                                      */
    WEIR_DONE, /* a reply has been built or queued                           */
    WEIR_WAIT, /* parked, or the body is awaited: call me again              */
    WEIR_FAIL  /* go to the error middleware; see weir_request_fail()        */
};

/* One link. Functions that are NULL are skipped. All run on the thread that serves the
 * connection; different requests may run at once, so `self` is read or locked.
 *
 * on_request runs on the way in. on_reply runs on the way out, in reverse order, for each link
 * whose on_request was entered. on_error runs for links after the one that failed, in order, until
 * one returns WEIR_DONE. on_end runs once for each link that was entered, whatever happened. */
struct weir_middleware {
    size_t size; /* set by WEIR_MIDDLEWARE */
    const char *name;
    void *self;
    enum weir_step (*on_request)(void *self, struct weir_request *request);
    void (*on_reply)(void *self, struct weir_request *request, struct weir_reply *reply);
    enum weir_step (*on_error)(void *self, struct weir_request *request,
                               const struct weir_error *why);
    void (*on_end)(void *self, struct weir_request *request);
    void (*destroy)(void *self); /* by weir_chain_free(), once for each self           */
    size_t request_bytes;        /* zeroed memory for each request; needs a self of its own */

    /* Whether the chain may be served at this address, of an internet or a Unix socket (NULL: it is not
     * known); asked by weir_serve() and weir_chain_check(), which fail with its code and error. */
    enum weir_code (*may_listen)(void *self, const struct sockaddr *address,
                                 struct weir_error *error);
    /* New fields go here, at the end; none is ever removed or reordered. */
};

#define WEIR_MIDDLEWARE(...)                                                                       \
    (&(const struct weir_middleware){ .size = sizeof(struct weir_middleware), __VA_ARGS__ })

/* Where a request waits for the answer of a remote store; docs/threads.md says what each costs. */
enum weir_wait_mode {
    WEIR_WAIT_AUTO,         /* in place where that can be, else as below              */
    WEIR_WAIT_STORE_THREAD, /* suspended, while a thread of the store's asks          */
    WEIR_WAIT_IN_PLACE      /* as AUTO; weir_chain_check() refuses a daemon where it cannot be */
};

struct weir_chain_options {
    size_t size;         /* set by WEIR_CHAIN_OPTIONS                                         */
    uint32_t parked_max; /* requests that wait at once; 0: 10000                              */
    struct weir_log log; /* copied                                                            */

    /* Under external polling: called after a wake, from any thread, to end the wait of the
     * application's own loop, which then calls MHD_run(). NULL: see weir_chain_wake_fd(). */
    void (*on_wake)(void *wake_self);
    void *wake_self;
    enum weir_wait_mode waiting;
    /* New fields go here, at the end; none is ever removed or reordered. */
};

#define WEIR_CHAIN_OPTIONS(...)                                                                    \
    (&(const struct weir_chain_options){ .size = sizeof(struct weir_chain_options), __VA_ARGS__ })

/* Makes an empty chain. `options` may be NULL. Errors: WEIR_E_ARGUMENT, _MEMORY, _SYSTEM. */
WEIR_API enum weir_code weir_chain_new(const struct weir_chain_options *options,
                                       struct weir_chain **chain, struct weir_error *error);

/* After MHD_stop_daemon(). Destroys the middleware. Accepts NULL; returns NULL. */
WEIR_API struct weir_chain *weir_chain_free(struct weir_chain *chain);

/* Adds a link for every request; `middleware` is copied, its `name` is borrowed for good, and its
 * `self` is the chain's from now on (on failure it stays the caller's).
 * Errors of all that add: WEIR_E_ARGUMENT, WEIR_E_MEMORY, WEIR_E_VALUE for a pattern that is
 * none, WEIR_E_STATE once requests are served. */
WEIR_API enum weir_code weir_chain_use(struct weir_chain *chain,
                                       const struct weir_middleware *middleware);

/* Adds a link for `prefix` and all paths below it. */
WEIR_API enum weir_code weir_chain_use_at(struct weir_chain *chain, const char *prefix,
                                          const struct weir_middleware *middleware);

/* Adds a handler for a method and a pattern: "/v1/items/:id", "/files/" followed by "*", or "*"
 * for every path. The first that matches runs; one that returns WEIR_NEXT passes on. GET also
 * serves HEAD. What no handler takes goes to the wrapped application; without one, a path that has
 * handlers for other methods is answered 405 with Allow (OPTIONS: 204), and any other 404. */
WEIR_API enum weir_code weir_chain_on(
    struct weir_chain *chain, const char *method, const char *pattern,
    enum weir_step (*handler)(void *self, struct weir_request *request), void *self);
WEIR_API enum weir_code weir_chain_get(struct weir_chain *chain, const char *pattern,
                                       enum weir_step (*handler)(void *self,
                                                                 struct weir_request *request),
                                       void *self);
WEIR_API enum weir_code weir_chain_post(struct weir_chain *chain, const char *pattern,
                                        enum weir_step (*handler)(void *self,
                                                                  struct weir_request *request),
                                        void *self);
WEIR_API enum weir_code weir_chain_put(struct weir_chain *chain, const char *pattern,
                                       enum weir_step (*handler)(void *self,
                                                                 struct weir_request *request),
                                       void *self);
WEIR_API enum weir_code weir_chain_patch(struct weir_chain *chain, const char *pattern,
                                         enum weir_step (*handler)(void *self,
                                                                   struct weir_request *request),
                                         void *self);
WEIR_API enum weir_code weir_chain_delete(struct weir_chain *chain, const char *pattern,
                                          enum weir_step (*handler)(void *self,
                                                                    struct weir_request *request),
                                          void *self);
WEIR_API enum weir_code weir_chain_any(struct weir_chain *chain, const char *pattern,
                                       enum weir_step (*handler)(void *self,
                                                                 struct weir_request *request),
                                       void *self);

/* The memory that the chain keeps for the link `self` belongs to (its request_bytes), zeroed when
 * the request starts; NULL if it asked for none. */
WEIR_API void *weir_request_slot(struct weir_request *request, const void *self);

/* The error that on_error or the chain itself answers, or NULL. */
WEIR_API const struct weir_error *weir_request_error(const struct weir_request *request);

/* Begins to drain: from now on no request is parked, and those that are, are woken and answered
 * 503 (their error is WEIR_E_STOPPING), as are all that come later. Then waits until no request is
 * under way that was so before, at most `timeout_ms`, and returns whether that is so. With 0 it does
 * not wait: a program that runs libmicrohttpd in its own loop calls it again after each round. Any
 * thread but libmicrohttpd's. */
WEIR_API bool weir_chain_drain(struct weir_chain *chain, uint32_t timeout_ms);

/* Requests that wait now, for an answer or for a moment. Any thread. */
WEIR_API uint32_t weir_chain_parked(struct weir_chain *chain);

/* A descriptor that becomes readable after a wake, for a program that runs libmicrohttpd in its
 * own loop: poll it, call weir_chain_wake_clear() when it is readable, then MHD_run(). The chain
 * owns it. -1: the system gave none. Call it before requests are served. */
WEIR_API int weir_chain_wake_fd(struct weir_chain *chain);
WEIR_API void weir_chain_wake_clear(struct weir_chain *chain);

#endif
