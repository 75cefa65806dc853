/* A request's body, as links of the chain ask for it: taken in piece by piece, and handed on to a
 * wrapped application in the same pieces. */
#ifndef WEIR_CHAIN_BODY_H
#define WEIR_CHAIN_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct weir_request;

enum weir_body_stage {
    WEIR_BODY_UNASKED, /* or there is none                                */
    WEIR_BODY_ASKED,   /* it is on its way                                */
    WEIR_BODY_WHOLE,
    WEIR_BODY_CUT /* longer than was asked for; nothing of it is kept */
};

/* Which of its calls a wrapped application is to get next. */
enum weir_body_call { WEIR_CALL_FIRST, WEIR_CALL_PIECE, WEIR_CALL_LAST };

/* In the request's memory, but for what it points to. There may be a password in it, so nothing of
 * it is given back to the heap as it is. */
struct weir_body {
    size_t max_bytes;
    bool answers_cut; /* who asked is run again when it is cut; else the chain answers */
    char *bytes;      /* owned; a NUL behind them */
    size_t length, size;

    /* Where its pieces end, for an application that will want it in them; owned. */
    uint32_t *ends;
    size_t end_count, end_size;

    /* handing it on */
    enum weir_body_call call;
    size_t piece; /* the one that is under way       */
    size_t taken; /* bytes that the application took */

    struct weir_decoded *decoded; /* values of fields, owned */
};

/* A value of a field that somebody asked for. */
struct weir_decoded {
    struct weir_decoded *next;
    size_t size; /* of all of it */
    char bytes[];
};

/* Accepts NULL. */
void weir_body_finish(struct weir_body *body);

/* As weir_request_body(), for a link that answers a body above `max_bytes` itself: ASKED means that
 * it is to return WEIR_WAIT and is run again. Fails the request (see its error) for lack of memory,
 * and says CUT. */
enum weir_body_stage weir_request_await_body(struct weir_request *request, size_t max_bytes);

/* Whether a length is announced for the body, and is `max_bytes` at most. */
bool weir_request_body_fits(const struct weir_request *request, size_t max_bytes);

/* Takes a piece of the body that was asked for. False: it is cut now, or memory ran out. */
bool weir_request_take_body(struct weir_request *request, const char *bytes, size_t length);

/* The body that was taken in. */
struct weir_text weir_request_whole_body(const struct weir_request *request);

/* True where a wrapped application is to get what the chain has taken in. */
bool weir_body_is_handed_on(const struct weir_request *request);

/* What the application's next call offers it; at NULL for the first and the last. */
struct weir_text weir_body_offer(const struct weir_body *body);

/* That call is over, and `left` bytes of the offer were not taken. False: the application made no
 * progress, or has had its last call. */
bool weir_body_advance(struct weir_body *body, size_t left);

#endif
