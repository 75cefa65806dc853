/* What a request is called, and what it is part of. */
#ifndef WEIR_CHAIN_REQUEST_ID_H
#define WEIR_CHAIN_REQUEST_ID_H

#include "base/text.h"

#define WEIR_REQUEST_ID_MAX    128 /* of one that is taken over                     */
#define WEIR_TRACEPARENT_CHARS 55  /* of version 00, and of what later ones begin with */

/* Whether an id is taken over: 1 to 128 of A-Z a-z 0-9 . _ ~ + / = : -. Pure. */
bool weir_request_id_is_fit(struct weir_text id);

/* Whether a traceparent header is well-formed (W3C Trace Context, section 3.2.2): that of version 00
 * exactly, one of a later version by how it begins. Pure. */
bool weir_traceparent_is_fit(struct weir_text value);

#endif
