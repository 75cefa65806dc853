/* Structured field text (RFC 9651), as far as the quota fields need it. */
#ifndef WEIR_HEADERS_STRUCTURED_FIELD_H
#define WEIR_HEADERS_STRUCTURED_FIELD_H

#include "base/buffer.h"

/* The largest Integer: 15 digits (RFC 9651 section 3.3.1). */
#define WEIR_FIELD_INTEGER_MAX UINT64_C(999999999999999)

/* Writes an Integer (section 4.1.4); false, and nothing is written, for one above the largest. */
bool weir_field_put_integer(struct weir_buffer *field, uint64_t number);

/* Writes a String in its quotes (section 4.1.6); false, and nothing is written, if a byte is not
 * in 0x20 to 0x7E. */
bool weir_field_put_string(struct weir_buffer *field, struct weir_text text);

#endif
