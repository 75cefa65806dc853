/* JSON values that more than one file makes. NULL: memory ran out. */
#ifndef WEIR_ADMIN_ADMIN_JSON_H
#define WEIR_ADMIN_ADMIN_JSON_H

#include <jansson.h>

#include <weir/common.h>

/* A text of which nobody knows that it is UTF-8; if not, its bytes that are no ASCII become "?". */
json_t *weir_admin_string(const char *text);

/* "2026-03-04T05:06:07.008Z", of a time since 1970. */
json_t *weir_admin_moment(uint64_t time_us);

#endif
