/* Options structs that can grow: each starts with a `size_t size`. */
#ifndef WEIR_BASE_OPTIONS_H
#define WEIR_BASE_OPTIONS_H

#include <weir/error.h>

/* Copies a caller's options, older or newer than ours, into `ours` of `ours_size` bytes; missing
 * fields become zero, and so does everything for NULL. `first_size` is the size in the first
 * release: nothing smaller was ever compiled. A newer caller may only ask for what we have: a byte
 * we do not know and that is not zero is refused with WEIR_E_ARGUMENT. */
enum weir_code weir_options_take(void *ours, size_t ours_size, const void *theirs,
                                 size_t first_size, const char *macro, struct weir_error *error);

#endif
