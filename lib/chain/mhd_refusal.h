/* The response of a refusal, which a flood asks for over and over. */
#ifndef WEIR_CHAIN_MHD_REFUSAL_H
#define WEIR_CHAIN_MHD_REFUSAL_H

#include <microhttpd.h>

#include "chain/request.h"

/* The response that this thread has made last, if it says the same, and else a new one. It may be
 * queued, and stays the thread's own: nobody else destroys or changes it. NULL: memory ran out. */
struct MHD_Response *weir_refusal_response(const struct weir_reply *reply);

#endif
