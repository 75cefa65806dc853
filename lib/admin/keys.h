/* What an operator does to one client's keys: for the admin API, and for the tool `weir keys`.
 *
 * All functions wait for the store, and fill a new JSON object, the one that the admin API answers.
 * `by` says who does it, in the list of blocks. Errors: those of weir_limiter_peek() and its kin, and
 * of weir_blocks_add(). */
#ifndef WEIR_ADMIN_KEYS_H
#define WEIR_ADMIN_KEYS_H

#include <jansson.h>

#include <weir/limiter.h>

/* The longest reason and the longest name of who does it, in bytes. */
#define WEIR_KEYS_REASON_MAX 200

/* Whose limits a subject names, without asking the store: { "policy", "limit", "key" }. */
enum weir_code weir_keys_name(struct weir_limiter *limiter, const struct weir_subject *subject,
                              json_t **body, struct weir_error *error);

/* What is left, without spending: { "policy", "limits": [{ "name", "key", "limit", "remaining",
 * "window_s", "reset_s", "blocked", "blocked_until", and with a penalty "banned", "banned_until" }] }. Where the list cannot be read "blocked" is null,
 * and "hint" says why. */
enum weir_code weir_keys_look(struct weir_limiter *limiter, const struct weir_subject *subject,
                              json_t **body, struct weir_error *error);

/* Forgets what is spent, as weir_limiter_reset(), and blocks of the same keys with it:
 * { "policy", "limit", "key", "unblocked": how many }; null where the list could not be changed, and
 * "hint" says why. */
enum weir_code weir_keys_reset(struct weir_limiter *limiter, const struct weir_subject *subject,
                               json_t **body, struct weir_error *error);

/* Blocks, and puts it in the list, whose new entry is the answer. `reason` may be NULL. */
enum weir_code weir_keys_block(struct weir_limiter *limiter, const struct weir_subject *subject,
                               uint64_t seconds, const char *reason, const char *by, json_t **body,
                               struct weir_error *error);

/* Ends blocks that the list has of the subject's keys, or the one of that id: { "policy", "limit",
 * "key", "unblocked" }. What is not blocked keeps its sums. WEIR_E_REFERENCE: there is none. */
enum weir_code weir_keys_unblock(struct weir_limiter *limiter, const struct weir_subject *subject,
                                 json_t **body, struct weir_error *error);
enum weir_code weir_keys_unblock_id(struct weir_limiter *limiter, const char *id, json_t **body,
                                    struct weir_error *error);

/* The list: { "blocks": [{ "id", "policy", "limit", "key", "until", "at", "left_s", "reason", "by" }] },
 * the newest first. */
enum weir_code weir_keys_list(struct weir_limiter *limiter, json_t **body,
                              struct weir_error *error);

#endif
