/* A request's target, for requests that no server has read: as libmicrohttpd would hand it over. */
#ifndef WEIR_REQUEST_TARGET_H
#define WEIR_REQUEST_TARGET_H

#include "request/facts.h"

/* Memory for what is read, which lives as long as its owner says; NULL: it ran out. */
struct weir_target_memory {
    void *(*alloc)(void *owner, size_t size);
    void *owner;
};

/* Fills in the target, percent-decoded, and the query's pairs. What is no escape stays as it is, a blank
 * stands for "+" in the query only, and the target ends at a NUL, as a string does. False: memory ran out. */
bool weir_target_read(struct weir_text whole, const struct weir_target_memory *memory,
                      struct weir_facts *facts);

#endif
