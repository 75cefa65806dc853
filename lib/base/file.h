/* Files that are read whole, such as policies and keys, and how to tell that one has changed. */
#ifndef WEIR_BASE_FILE_H
#define WEIR_BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/error.h>

/* What changes with a file: it is another one, or was written. All 0: it is not there. */
struct weir_file_stamp {
    uint64_t device, number, bytes;
    int64_t changed_s, changed_ns; /* contents, name or rights */
};

/* That of a file as it is now. Symbolic links are followed: what counts is the file that would be read. */
struct weir_file_stamp weir_file_stamp(const char *path);

/* Pure. */
bool weir_file_stamp_is_same(const struct weir_file_stamp *one,
                             const struct weir_file_stamp *other);

/* Opens a file for fclose(), to be read to its end; `stamp`, which may be NULL, is its own, or that of a file
 * that stood there just before.
 *
 * Whoever reads it must not wait for somebody who never comes, so of what is no file only a pipe without a
 * name is taken, such as standard input or a shell's `<(…)`: nobody puts one in the place of a file. Errors:
 * WEIR_E_FILE; WEIR_E_SYSTEM: as weir_file_failed() says. */
enum weir_code weir_file_open(const char *path, FILE **file, struct weir_file_stamp *stamp,
                              struct weir_error *error);

/* Says in words what errno says of a file that cannot be opened or read. WEIR_E_SYSTEM where that is no
 * fault of the file's, and may be over in a moment: descriptors or memory have run out, a disk does not
 * answer. Else WEIR_E_FILE. */
enum weir_code weir_file_failed(const char *path, struct weir_error *error);

#endif
