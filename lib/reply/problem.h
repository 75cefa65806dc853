/* The library's own answers, as problem details (RFC 9457). */
#ifndef WEIR_REPLY_PROBLEM_H
#define WEIR_REPLY_PROBLEM_H

#include "base/buffer.h"

enum weir_problem_type {
    WEIR_PROBLEM_BLANK,          /* "about:blank"                                    */
    WEIR_PROBLEM_QUOTA_EXCEEDED, /* draft-ietf-httpapi-ratelimit-headers, section 5  */
    WEIR_PROBLEM_REDUCED_CAPACITY
};

struct weir_problem {
    enum weir_problem_type type;
    unsigned status;
    const char *title;           /* NULL: that of the type, or the status's reason phrase */
    const char *detail;          /* NULL: none */
    const char *const *violated; /* "violated-policies"; NULL: none */
    size_t violated_count;
};

/* Writes the JSON text. Pure. */
void weir_problem_write(const struct weir_problem *problem, struct weir_buffer *json);

/* The reason phrase of RFC 9110 for a status ("Too Many Requests"); "" for one we do not know. */
const char *weir_status_phrase(unsigned status);

#endif
