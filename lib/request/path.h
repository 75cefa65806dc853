#ifndef WEIR_REQUEST_PATH_H
#define WEIR_REQUEST_PATH_H

#include "base/buffer.h"

/* Whether percent-encoding is still there to be decoded. libmicrohttpd has decoded already, and
 * decoding twice would let "%252e" mean ".". */
enum weir_path_form { WEIR_PATH_DECODED, WEIR_PATH_ENCODED };

/* Writes the normalised form of a request target's path: percent-decoding done once, "//", "."
 * and ".." resolved (RFC 3986 section 5.2.4), no trailing slash but that of "/" itself; of an
 * absolute-form target (RFC 9112 section 3.2.2) the path alone. A query ("?…") is not part of an
 * ENCODED target's path; in a DECODED one "?" is a character like any other.
 *
 * False for what has no such form: not starting with "/", ".." above the root, a broken or
 * encoded-NUL escape, a NUL, or longer than the buffer. Pure. */
bool weir_path_normalise(struct weir_text target, enum weir_path_form form,
                         struct weir_buffer *path);

#endif
