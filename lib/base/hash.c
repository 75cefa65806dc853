#include "base/hash.h"

#include <string.h>

#include <sodium.h>

bool weir_hash_start(void)
{
    return sodium_init() >= 0;
}

static const unsigned char *bytes_of(struct weir_text text)
{
    return (const unsigned char *)(text.at == NULL ? "" : text.at);
}

void weir_hash_key(uint8_t key[WEIR_HASH_KEY_BYTES])
{
    randombytes_buf(key, WEIR_HASH_KEY_BYTES);
}

uint64_t weir_hash64(struct weir_text text, const uint8_t key[WEIR_HASH_KEY_BYTES])
{
    _Static_assert(WEIR_HASH_KEY_BYTES == crypto_shorthash_KEYBYTES, "a key of SipHash");
    unsigned char bytes[crypto_shorthash_BYTES];
    uint64_t hash;
    crypto_shorthash(bytes, bytes_of(text), text.length, key);
    memcpy(&hash, bytes, sizeof hash);
    return hash;
}

uint64_t weir_random64(void)
{
    uint64_t number;
    randombytes_buf(&number, sizeof number);
    return number;
}

void weir_sha256(struct weir_text text, uint8_t digest[WEIR_SHA256_BYTES])
{
    crypto_hash_sha256(digest, bytes_of(text), text.length);
}

void weir_secret_from(struct weir_text text, uint8_t secret[WEIR_SECRET_BYTES])
{
    /* A key of our own keeps these hashes apart from any other use of the same secret. */
    static const unsigned char purpose[] = "weir identifiers";
    crypto_generichash(secret, WEIR_SECRET_BYTES, bytes_of(text), text.length, purpose,
                       sizeof purpose - 1);
}

void weir_label(struct weir_text identifier, const uint8_t secret[WEIR_SECRET_BYTES],
                char label[WEIR_LABEL_CHARS + 1])
{
    unsigned char digest[16];
    crypto_generichash(digest, sizeof digest, bytes_of(identifier), identifier.length, secret,
                       WEIR_SECRET_BYTES);
    sodium_bin2base64(label, WEIR_LABEL_CHARS + 1, digest, sizeof digest,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

void weir_random_label(char label[WEIR_LABEL_CHARS + 1])
{
    unsigned char bytes[16];
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2base64(label, WEIR_LABEL_CHARS + 1, bytes, sizeof bytes,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

bool weir_same_label(const char *one, const char *other)
{
    return sodium_memcmp(one, other, WEIR_LABEL_CHARS) == 0;
}
