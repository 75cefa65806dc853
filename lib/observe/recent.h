/* The last decisions that were no plain allow. */
#ifndef WEIR_OBSERVE_RECENT_H
#define WEIR_OBSERVE_RECENT_H

#include <weir/decisions.h>

struct weir_recent;

/* With room for WEIR_RECENT_MAX, some 400 KiB, taken as they come. NULL: memory ran out. */
struct weir_recent *weir_recent_new(void);
struct weir_recent *weir_recent_free(struct weir_recent *recent);

/* Keeps a copy. This and the rest: any thread. */
void weir_recent_add(struct weir_recent *recent, const struct weir_decision *decision);

/* As weir_limiter_recent() and weir_limiter_recent_of(). */
size_t weir_recent_list(struct weir_recent *recent, uint64_t after,
                        struct weir_recent_decision *decisions, size_t size);
bool weir_recent_find(struct weir_recent *recent, const char *request_id,
                      struct weir_recent_decision *decision);

#endif
