/* weir: the policy file. docs/policy.md describes its keys. */
#ifndef WEIR_POLICY_H
#define WEIR_POLICY_H

#include <weir/common.h>
#include <weir/error.h>

struct weir_policy;

/* Reads a policy file and those that it includes; names of other files in each are relative to it. The
 * policy never changes afterwards and may be read by any number of threads.
 *
 * Errors name the JSON Pointer, the value found and what is wanted: WEIR_E_FILE, _JSON,
 * _UNKNOWN_KEY, _MISSING, _TYPE, _VALUE, _REFERENCE, _NOT_YET, _ENVIRONMENT, _MEMORY; WEIR_E_SYSTEM: a
 * file cannot be read at the moment. What is no file is refused, and not waited for. */
WEIR_API enum weir_code weir_policy_load(const char *file, struct weir_policy **policy,
                                         struct weir_error *error);

/* The same from text; names of files in it are relative to `directory` (NULL: the current one). */
WEIR_API enum weir_code weir_policy_parse(const char *text, size_t length, const char *directory,
                                          struct weir_policy **policy, struct weir_error *error);

/* The file's text as weir reads it, with all that it includes, and with its presets written out limit
 * by limit, as JSON; it loads as
 * the same policy. Passwords and the secret are hidden, unless "${NAME}" stands for them. Only the
 * presets are checked. `text` is ended by a NUL and is the caller's, for free(). Errors: as
 * weir_policy_load(). */
WEIR_API enum weir_code weir_policy_expand(const char *file, char **text, struct weir_error *error);

/* Accepts NULL; returns NULL. */
WEIR_API struct weir_policy *weir_policy_free(struct weir_policy *policy);

/* What is legal in the file but surely wrong: codes that start with WEIR_W_. */
WEIR_API size_t weir_policy_warning_count(const struct weir_policy *policy);

/* The warning at `index`, borrowed until weir_policy_free(); NULL past the last. */
WEIR_API const struct weir_error *weir_policy_warning(const struct weir_policy *policy,
                                                      size_t index);

/* The files that the policy was read from: that of weir_policy_load(), those that it includes, in the
 * order in which they were read, and the keys file. */
WEIR_API size_t weir_policy_file_count(const struct weir_policy *policy);

/* One of them, as a path that opens from the folder that was the current one, borrowed until
 * weir_policy_free(); NULL past the last. */
WEIR_API const char *weir_policy_file(const struct weir_policy *policy, size_t index);

/* The policy that is in memory, as weir_policy_expand() prints it: borrowed until weir_policy_free(). */
WEIR_API const char *weir_policy_text(const struct weir_policy *policy);

/* The URL of the store that the file names, for messages: without its password. */
WEIR_API const char *weir_policy_store_url(const struct weir_policy *policy);

#endif
