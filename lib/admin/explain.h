/* Why a request is answered as it is: the limiter's own steps, taken one by one and told.
 *
 * Nothing is spent, counted or logged; sums are looked at (a cost of 0). What the limiter decides
 * beside them is left out: how many requests are under way is told, not judged, and an application's
 * own cost function is not asked. */
#ifndef WEIR_ADMIN_EXPLAIN_H
#define WEIR_ADMIN_EXPLAIN_H

#include <stdio.h>

#include <jansson.h>
#include <weir/limiter.h>

#include "request/facts.h"

/* A request that somebody describes. All is borrowed for the call. */
struct weir_described {
    struct weir_text method;         /* at NULL: GET                                       */
    struct weir_text target;         /* "/v1/search?q=gate", as a client writes it         */
    const struct weir_line *headers; /* `header_count` lines, in order                     */
    size_t header_count;
    const char *peer;               /* "203.0.113.7", or "unix"; NULL: 127.0.0.1          */
    const struct weir_line *fields; /* of its body, decoded; goes before `body`           */
    size_t field_count;
    struct weir_text body;   /* at NULL: there is none                              */
    struct weir_text user;   /* what the application's own authentication has found */
    struct weir_text tenant; /* out; at NULL: nothing                               */
    struct weir_text plan;
    bool has_cost; /* then `cost` goes before the route's */
    uint64_t cost;
    bool is_empty; /* as if nothing had been spent: no store is asked */
};

/* Reads a request as it is sent: its line, its header lines and, behind an empty line, its body. Lines
 * may end in LF alone. `lines` has room for `room` of them; all texts point into `head`. Errors:
 * WEIR_E_VALUE, which names the line. Pure. */
enum weir_code weir_described_read(struct weir_text head, struct weir_line *lines, size_t room,
                                   struct weir_described *described, struct weir_error *error);

/* Explains a request; docs/runbook-429.md shows the members. The text of an API key is never among
 * them. Blocks up to the store's deadline, so it is not for a server's own threads. NULL: `error` says
 * why: WEIR_E_VALUE: what is described cannot be a request; WEIR_E_MEMORY. Any thread. */
json_t *weir_explain(struct weir_limiter *limiter, const struct weir_described *described,
                     struct weir_error *error);

/* The same of a request that was refused, or that a store's failure met, by what was kept of the
 * decision: without the address's way and the identity, with the members of its line in the decision
 * log as "decided". NULL also with WEIR_E_REFERENCE: it is none of the last ones. Any thread. */
json_t *weir_explain_recent(struct weir_limiter *limiter, const char *request_id,
                            struct weir_error *error);

/* Writes an explanation for people; control characters of a client's are not passed on. */
void weir_explain_print(const json_t *explanation, FILE *stream);

#endif
