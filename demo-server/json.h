/* JSON on its way out. */
#ifndef DEMO_JSON_H
#define DEMO_JSON_H

#include <jansson.h>

#include <weir/chain.h>

/* A JSON string; null for NULL. Text that came from a client may be no UTF-8, which JSON must be:
 * then every byte that is not ASCII becomes a question mark. */
json_t *demo_json_text(const char *text);

/* Answers with `object`, which it takes; NULL stands for memory that ran out. */
enum weir_step demo_reply_object(struct weir_request *request, unsigned status, json_t *object);

#endif
