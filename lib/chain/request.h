/* A request on its way through a chain: one block of memory, owned by one thread at a time. */
#ifndef WEIR_CHAIN_REQUEST_H
#define WEIR_CHAIN_REQUEST_H

#include <pthread.h>

#include <weir/chain.h>
#include <weir/identity.h>

#include "identity/identity.h"
#include "policy/pattern.h"
#include "request/facts.h"

/* What the server under the chain can do with a request; chain/mhd.c has libmicrohttpd's. */
struct weir_server {
    /* Holds the request back until resume; called with the parking lock held. */
    void (*suspend)(struct weir_request *request);
    void (*resume)(struct weir_request *request);
};

/* A header line of a reply that the chain built. */
struct weir_reply_line {
    const char *name;
    const char *value;
};

#define WEIR_REPLY_LINES_MAX 24

struct weir_reply {
    unsigned status; /* 0: there is no reply yet */

    /* Built by the chain; everything lives in the request's memory. */
    struct weir_reply_line lines[WEIR_REPLY_LINES_MAX];
    size_t line_count;
    const char *body;
    size_t body_length;

    /* Queued by the application; then both functions are set. `response` is NULL where header
     * lines cannot be added. */
    void *response;
    bool (*add)(void *response, const char *name, const char *value);
    const char *(*header)(void *response, const char *name);
};

enum weir_stage {
    WEIR_STAGE_NEW,   /* only the URI log callback has seen it           */
    WEIR_STAGE_CHAIN, /* in the chain                                    */
    WEIR_STAGE_APP,   /* the wrapped application has it                  */
    WEIR_STAGE_REPLY, /* a reply is built, not yet queued                */
    WEIR_STAGE_SENT   /* a reply is queued                               */
};

enum weir_body_stage { WEIR_BODY_UNASKED, WEIR_BODY_ASKED, WEIR_BODY_WHOLE };

struct weir_note {
    struct weir_note *next;
    const char *name;
    void *value;
    void (*release)(void *value);
};

/* A piece of memory beyond the first block. */
struct weir_piece {
    struct weir_piece *next;
};

#define WEIR_INLINE_HEADERS 24
#define WEIR_SCRATCH_BYTES  2048

struct weir_request {
    unsigned magic; /* WEIR_REQUEST_MAGIC: it comes back through a foreign void pointer */
    struct weir_chain *chain;
    const struct weir_server *server;
    void *connection;

    enum weir_stage stage;
    bool in_first_call;     /* the server has not been told to go on to the body or the end */
    bool is_parked;         /* guarded by the parking lock                                  */
    bool is_drained;        /* woken because the server stops; likewise                     */
    bool may_wait;          /* a link's on_request runs                                     */
    bool has_asked_to_wait; /* weir_park() gave a ticket in this step                       */
    bool blocks;            /* cannot be suspended: its thread waits on `woken`             */
    pthread_cond_t woken;   /* initialised when `blocks`                                    */

    size_t index; /* of the link that runs now, or runs next */
    struct weir_params params;
    struct weir_error error;
    struct weir_reply reply;
    const char *method;

    struct weir_facts facts;
    struct weir_identity identity;

    enum weir_body_stage body_stage;
    size_t body_max;
    char *body; /* owned; grows */
    size_t body_length;
    size_t body_size;
    size_t swallowed; /* bytes of a body that nobody wants */

    void *app_con_cls;
    bool app_knows;     /* its handler or its URI log callback has been called */
    void *app_response; /* queued by the application in this call       */
    bool app_response_is_own;
    unsigned app_status;

    struct weir_note *notes;
    struct weir_piece *pieces;
    struct weir_line inline_headers[WEIR_INLINE_HEADERS];
    size_t scratch_used;
    _Alignas(max_align_t) char scratch[WEIR_SCRATCH_BYTES];

    unsigned char *entered; /* for each link of the chain; then the links' slots */
};

#define WEIR_REQUEST_MAGIC 0x77656972u /* "weir" */

/* Makes a request with zeroed slots; NULL: memory ran out. Counts as under way in the chain. */
struct weir_request *weir_request_new(struct weir_chain *chain);

/* Calls on_end for what was entered, releases the notes, and frees it all. */
void weir_request_end(struct weir_request *request);

/* Memory that lives as long as the request, for `size` bytes, aligned for anything; NULL: none. */
void *weir_request_alloc(struct weir_request *request, size_t size);

/* A NUL-terminated copy that lives as long as the request; NULL: memory ran out. */
const char *weir_request_copy(struct weir_request *request, struct weir_text text);

/* Fills facts.path from facts.target. */
bool weir_request_normalise(struct weir_request *request);

/* Takes a piece of the body; false: above what was asked for, or memory ran out (the error says). */
bool weir_request_take_body(struct weir_request *request, const char *bytes, size_t length);

#endif
