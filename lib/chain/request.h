/* A request on its way through a chain: one block of memory, owned by one thread at a time. */
#ifndef WEIR_CHAIN_REQUEST_H
#define WEIR_CHAIN_REQUEST_H

#include <pthread.h>

#include <weir/chain.h>
#include <weir/identity.h>

#include "chain/body.h"
#include "chain/in_place.h"
#include "identity/identity.h"
#include "policy/pattern.h"
#include "request/facts.h"

/* What the server under the chain can do with a request; chain/mhd.c has libmicrohttpd's. */
struct weir_host {
    /* Holds the request back until resume; called with the parking lock held. */
    void (*suspend)(struct weir_request *request);
    void (*resume)(struct weir_request *request); /* likewise */
    /* The socket the request came on, to see its client vanish; -1: there is none. */
    int (*socket_of)(const struct weir_request *request);
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
    struct weir_reply_line *lines;
    uint32_t line_count;
    uint32_t line_room; /* of `lines`; grows up to WEIR_REPLY_LINES_MAX */
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

struct weir_note {
    struct weir_note *next;
    const char *name;
    void *value;
    void (*release)(void *value);
};

/* Something that must outlive all that a request is asked for; it lies in the request's memory. */
struct weir_request_hold {
    struct weir_request_hold *next;
    void (*release)(struct weir_request_hold *hold); /* last of all, once */
};

/* A piece of memory beyond the first block. */
struct weir_piece {
    struct weir_piece *next;
    size_t bytes; /* of all of it */
};

/* What a request is given beyond its header lines: room for its path, the check of a limit and a
 * few notes, so that most requests are one block. */
#define WEIR_SCRATCH_BYTES 352

/* Thousands of these may wait at once, so what few requests need is not in here. */
struct weir_request {
    unsigned magic; /* WEIR_REQUEST_MAGIC: it comes back through a foreign void pointer */
    enum weir_stage stage;
    struct weir_chain *chain;
    const struct weir_host *server;
    void *connection;

    bool in_first_call;     /* the server has not been told to go on to the body or the end */
    bool is_parked;         /* guarded by the parking lock                                  */
    bool is_drained;        /* woken because the server stops, or late; likewise            */
    bool is_late;           /* it came when the server was stopping: a drain does not wait  */
    bool is_gone;           /* woken because its client hung up; likewise                   */
    bool may_wait;          /* a link's on_request runs, and has not parked yet             */
    bool has_asked_to_wait; /* it was parked in this step                                   */
    bool blocks;            /* cannot be suspended: its thread waits on `woken`             */
    bool app_knows;         /* its handler or its URI log callback has been called          */
    bool app_response_is_own;
    bool is_refused;      /* a limiter has built the reply                                        */
    bool is_limited;      /* a limiter would have refused it, and leaves that to the application  */
    unsigned char result; /* enum weir_result: what weir_outcome() said; 0: nothing */
    bool times_body;      /* a limiter wants to know when its body was in      */
    bool is_peer_trusted; /* by a limiter's policy, to say who asks            */
    pthread_cond_t *woken; /* on the stack of the thread that waits, while it does; likewise */

    size_t index; /* of the link that runs now, or runs next */
    struct weir_params params;
    const struct weir_error *error; /* NULL: nothing has failed */
    struct weir_reply reply;
    const char *method;
    const char *id; /* NULL: nobody has asked for it yet */

    struct weir_facts facts;
    struct weir_identity identity;

    enum weir_body_stage body_stage;
    unsigned app_status;
    struct weir_body *body; /* from when it is asked for; NULL: nobody did, or there is none */
    size_t swallowed;       /* bytes of a body that nobody wants                             */
    uint64_t work_us;       /* monotonic: a limiter let it through, or its body came; or 0 */

    void *app_con_cls;
    void *app_response; /* queued by the application in this call */

    struct weir_note *notes;
    struct weir_request_hold *holds;
    struct weir_piece *pieces;
    char *room; /* where the next allocation goes: behind the slots, then in the newest piece */
    size_t room_bytes;
    size_t block_bytes; /* of the first block, which begins with this */

    /* see chain/in_place.h */
    struct weir_worker *worker; /* that serves it; NULL: nobody stays in place here, or not yet  */
    struct weir_worker_lane
        *lane; /* while it stays                                                */
    struct weir_check
        *stay_check;  /* while it stays, and after that if the server stops            */
    uint64_t turn;    /* of the worker, when it was called last                        */
    bool is_moving;   /* counted among those of the worker                             */
    bool is_answered; /* the check is done                                             */
    bool can_stay;    /* the server would repeat this call                             */
    bool
        owes_first_call; /* it has stayed over the first call, which the application has not seen  */

    unsigned char *entered; /* for each link of the chain; then the links' slots */
};

#define WEIR_REQUEST_MAGIC 0x77656972u /* "weir" */

/* Makes a request with zeroed slots and room for `room_bytes` of weir_request_alloc(), in one
 * block; NULL: memory ran out. Counts as under way in the chain. */
struct weir_request *weir_request_new(struct weir_chain *chain, size_t room_bytes);

/* Calls on_end for what was entered, releases the notes, and frees it all. */
void weir_request_end(struct weir_request *request);

/* Releases `hold` when the request is over, after its notes and whatever reads it. */
static inline void weir_request_hold(struct weir_request *request, struct weir_request_hold *hold)
{
    hold->next = request->holds;
    request->holds = hold;
}

/* Memory that lives as long as the request, for `size` bytes, aligned for anything; NULL: none. */
void *weir_request_alloc(struct weir_request *request, size_t size);

/* Fails the request for lack of memory, unless it has failed already; needs none itself. */
void weir_request_fail_memory(struct weir_request *request);

/* A NUL-terminated copy that lives as long as the request; NULL: memory ran out. */
const char *weir_request_copy(struct weir_request *request, struct weir_text text);

/* As weir_reply_bytes(), weir_reply_line() and weir_reply_add(), for types, names and values that are
 * known to be well-formed. The name is a literal, the others are copied. */
bool weir_reply_bytes_made(struct weir_request *request, unsigned status, const char *content_type,
                           const void *bytes, size_t length);
bool weir_reply_line_made(struct weir_request *request, const char *name, const char *value);
bool weir_reply_add_made(struct weir_reply *reply, const char *name, const char *value);

/* Fills facts.path from facts.target. */
bool weir_request_normalise(struct weir_request *request);

#endif
