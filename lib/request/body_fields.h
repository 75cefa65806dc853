/* Named fields of a request's body: a form, a multipart form, or a JSON object.
 *
 * What an application reads out of the same bytes may count, so whatever two parsers could read in
 * two ways is broken here: a wanted field that stands there twice, has a NUL byte in it or is not
 * UTF-8, and bodies that bend their format. */
#ifndef WEIR_REQUEST_BODY_FIELDS_H
#define WEIR_REQUEST_BODY_FIELDS_H

#include "base/buffer.h"
#include "request/facts.h"

/* A field that is wanted, and its value. */
struct weir_body_field {
    struct weir_text name;
    struct weir_text value; /* at NULL: absent. Decoded, in the body or in the reader's memory */
};

enum weir_body_reading {
    WEIR_BODY_READ,
    WEIR_BODY_BROKEN,   /* it is not what it says it is, or can be read in two ways      */
    WEIR_BODY_FOREIGN,  /* of a kind that is not read                                    */
    WEIR_BODY_TOO_LONG, /* not said here, but by who takes the body in                   */
    WEIR_BODY_NO_MEMORY /* memory ran out                                                */
};

/* A value decoded from JSON is not longer than this or than what it was decoded from. */
#define WEIR_BODY_NUMBER_CHARS 32

/* The memory that values are decoded into. */
static inline size_t weir_body_memory_bytes(struct weir_text body, size_t field_count)
{
    return body.length + field_count * WEIR_BODY_NUMBER_CHARS + 1;
}

/* Fills the values of `count` fields with different names from a body of any Content-Type. An empty
 * body has no fields. Names are compared byte for byte. `memory` has weir_body_memory_bytes(). Unless
 * READ, values are not to be used. Thread-safe: pure. */
enum weir_body_reading weir_body_read(const struct weir_facts *facts, struct weir_text body,
                                      struct weir_body_field *fields, size_t count,
                                      struct weir_buffer *memory);

/* The three formats. Each takes fields without values. Pure. */

/* application/x-www-form-urlencoded (WHATWG URL, section 5.1), body_form.c. */
bool weir_body_read_form(struct weir_text body, struct weir_body_field *fields, size_t count,
                         struct weir_buffer *memory);

/* multipart/form-data (RFC 7578), with the parameters that follow the type in Content-Type;
 * body_multipart.c. A wanted field that comes as a file is broken. */
bool weir_body_read_multipart(struct weir_text body, struct weir_text parameters,
                              struct weir_body_field *fields, size_t count);

/* application/json (RFC 8259), body_json.c. A dot in a name leads into the object in front of it.
 * Strings; numbers and booleans as JSON writes them; null is absent; lists and objects are broken. */
enum weir_body_reading weir_body_read_json(struct weir_text body, struct weir_body_field *fields,
                                           size_t count, struct weir_buffer *memory);

/* Whether bytes in a charset are what they are in UTF-8, or are refused as none. Pure. */
bool weir_body_is_charset(struct weir_text charset);

/* Whether a value may count: UTF-8 without a NUL byte. Pure. */
bool weir_body_value_is_sound(struct weir_text value);

/* Without the white space around it: what some languages trim off. Pure. */
struct weir_text weir_body_value_trim(struct weir_text value);

/* Takes one "; name=value" off the front of `rest`, with the quotes around a value gone but not the
 * backslashes in it. False: there is none, or none as RFC 9110, section 5.6.6, has it; then `rest` is
 * empty only in the first case. Pure. */
bool weir_take_parameter(struct weir_text *rest, struct weir_text *name, struct weir_text *value);

#endif
