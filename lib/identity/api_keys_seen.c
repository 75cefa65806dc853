#include "identity/api_keys_seen.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

_Static_assert(sizeof((struct weir_seen *)0)->secret == crypto_shorthash_siphashx24_KEYBYTES,
               "the secret is a key of SipHash");
_Static_assert(sizeof(struct weir_seen_tag) == crypto_shorthash_siphashx24_BYTES,
               "a tag is its long form");

bool weir_seen_init(struct weir_seen *seen, size_t count, size_t slot_count)
{
    randombytes_buf(seen->secret, sizeof seen->secret);
    seen->keys = calloc(count > 0 ? count : 1, sizeof *seen->keys);
    seen->slots = calloc(slot_count, sizeof *seen->slots);
    seen->slot_count = slot_count;
    for (size_t i = 0; seen->keys != NULL && i < count; i++)
        atomic_flag_clear(&seen->keys[i].is_noted);
    return seen->keys != NULL && seen->slots != NULL;
}

void weir_seen_finish(struct weir_seen *seen)
{
    free(seen->keys);
    free(seen->slots);
    sodium_memzero(seen->secret, sizeof seen->secret);
}

struct weir_seen_tag weir_seen_tag(const struct weir_seen *seen, struct weir_text presented)
{
    struct weir_seen_tag tag;
    crypto_shorthash_siphashx24((unsigned char *)tag.words, (const unsigned char *)presented.at,
                                presented.length, seen->secret);
    return tag;
}

static bool is_same(const struct weir_seen_key *key, const struct weir_seen_tag *tag)
{
    uint64_t difference =
        atomic_load_explicit(&key->words[0], memory_order_relaxed) ^ tag->words[0];
    difference |= atomic_load_explicit(&key->words[1], memory_order_relaxed) ^ tag->words[1];
    return difference == 0;
}

size_t weir_seen_find(const struct weir_seen *seen, const struct weir_seen_tag *tag)
{
    size_t mask = seen->slot_count - 1, at = (size_t)tag->words[0] & mask, slot;
    while ((slot = atomic_load_explicit(&seen->slots[at], memory_order_acquire)) != 0) {
        if (is_same(&seen->keys[slot - 1], tag))
            return slot - 1;
        at = (at + 1) & mask;
    }
    return WEIR_NOT_SEEN;
}

void weir_seen_note(struct weir_seen *seen, const struct weir_seen_tag *tag, size_t index)
{
    struct weir_seen_key *key = &seen->keys[index];
    if (atomic_flag_test_and_set_explicit(&key->is_noted, memory_order_relaxed))
        return;
    atomic_store_explicit(&key->words[0], tag->words[0], memory_order_relaxed);
    atomic_store_explicit(&key->words[1], tag->words[1], memory_order_relaxed);

    /* Who finds the index in its slot finds the words above, too. */
    size_t mask = seen->slot_count - 1, at = (size_t)tag->words[0] & mask, empty = 0;
    while (!atomic_compare_exchange_strong_explicit(&seen->slots[at], &empty, index + 1,
                                                    memory_order_release, memory_order_relaxed)) {
        empty = 0;
        at = (at + 1) & mask;
    }
}
