/* The reader of access logs, shared by its files. */
#ifndef WEIR_TOOLS_ACCESS_LOG_INTERNAL_H
#define WEIR_TOOLS_ACCESS_LOG_INTERNAL_H

#include "tools/access_log.h"

/* Where JSON lines have what an entry tells. */
struct weir_access_json;

struct weir_access_json *weir_access_json_new(void);
struct weir_access_json *weir_access_json_free(struct weir_access_json *json);
enum weir_code weir_access_json_map(struct weir_access_json *json, const char *mapping,
                                    struct weir_error *error);

/* As weir_access_read(). */
bool weir_access_json_read(struct weir_access_json *json, char *line, size_t length,
                           struct weir_access_entry *entry, const char **why);

/* A token (RFC 9110, section 9.1). */
bool weir_access_is_method(struct weir_text method);

/* Splits "GET /path HTTP/1.1" into method and target; false: it is no such line. */
bool weir_access_request(struct weir_text request, struct weir_access_entry *entry);

#endif
