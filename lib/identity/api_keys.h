/* API keys, kept as hashes. */
#ifndef WEIR_IDENTITY_API_KEYS_H
#define WEIR_IDENTITY_API_KEYS_H

#include <weir/error.h>

#include "base/file.h"
#include "base/hash.h"

/* What a key stands for. All texts are NUL-terminated, owned by the ring; "" where not given. */
struct weir_api_key {
    uint8_t digest[WEIR_SHA256_BYTES]; /* SHA-256 of the key */
    const char *id;                    /* public: may be logged and kept in Redis */
    const char *user;
    const char *tenant;
    const char *plan;
};

struct weir_keyring;

/* Reads {"keys": [{"id": …, "sha256": "<64 hex digits>", "user"?, "tenant"?, "plan"?}, …]}.
 * Errors as weir_policy_load(): unknown members, a missing or repeated id, a repeated digest, a
 * digest that is none; paths are into the keys file. `stamp`, which may be NULL, is the file's. */
enum weir_code weir_keyring_load(const char *file, struct weir_file_stamp *stamp,
                                 struct weir_keyring **ring, struct weir_error *error);
enum weir_code weir_keyring_parse(struct weir_text json, struct weir_keyring **ring,
                                  struct weir_error *error);
struct weir_keyring *weir_keyring_free(struct weir_keyring *ring);

size_t weir_keyring_count(const struct weir_keyring *ring);
const struct weir_api_key *weir_keyring_at(const struct weir_keyring *ring, size_t index);

/* The key that was presented, or NULL. Hashes first, so that how long it takes says nothing about
 * which digests exist; the digests themselves are compared in constant time. A key that has been found
 * once is found again by a keyed hash, which is faster: that somebody has used a key before can be told
 * by those only who have it. Any thread. */
const struct weir_api_key *weir_keyring_find(struct weir_keyring *ring, struct weir_text presented);

#endif
