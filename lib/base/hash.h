/* Hashing, all of it libsodium's. */
#ifndef WEIR_BASE_HASH_H
#define WEIR_BASE_HASH_H

#include "base/text.h"

#define WEIR_SHA256_BYTES 32
#define WEIR_SECRET_BYTES 32
#define WEIR_LABEL_CHARS  22 /* 128 bits in base64url */

/* For tables: who does not know the key cannot choose texts that meet in one place. */
#define WEIR_HASH_KEY_BYTES 16

/* Starts libsodium; false if it cannot. Safe to call again, from any thread. */
bool weir_hash_start(void);

/* Draws a key for weir_hash64(). */
void weir_hash_key(uint8_t key[WEIR_HASH_KEY_BYTES]);

/* 64 bits of keyed SipHash-2-4 (Aumasson, Bernstein). Thread-safe: pure. */
uint64_t weir_hash64(struct weir_text text, const uint8_t key[WEIR_HASH_KEY_BYTES]);

uint64_t weir_random64(void);

void weir_sha256(struct weir_text text, uint8_t digest[WEIR_SHA256_BYTES]);

/* A secret of any length as a key of WEIR_SECRET_BYTES (BLAKE2b); an empty text gives a fixed one. */
void weir_secret_from(struct weir_text text, uint8_t secret[WEIR_SECRET_BYTES]);

/* Writes what stands for an identifier where it must not be seen: 128 bits of keyed BLAKE2b, as
 * WEIR_LABEL_CHARS characters of base64url and a NUL. */
void weir_label(struct weir_text identifier, const uint8_t secret[WEIR_SECRET_BYTES],
                char label[WEIR_LABEL_CHARS + 1]);

/* Writes 128 random bits in the same form. */
void weir_random_label(char label[WEIR_LABEL_CHARS + 1]);

/* Whether two labels are the same, in a time that tells nothing about them. */
bool weir_same_label(const char *one, const char *other);

#endif
