/* Requests of a log, as a server would have them. */
#ifndef WEIR_TOOLS_SIMULATE_REQUEST_H
#define WEIR_TOOLS_SIMULATE_REQUEST_H

#include "chain/request.h"
#include "tools/access_log.h"

/* Makes a request that is complete, but for its body. NULL: memory ran out. */
struct weir_request *weir_replay_make(struct weir_chain *chain,
                                      const struct weir_access_entry *entry);

/* The body of such a request is wanted, and is handed over: a form of the fields that the log has. */
bool weir_replay_give_body(struct weir_request *request, const struct weir_access_entry *entry);

#endif
