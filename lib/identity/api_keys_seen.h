/* Which API keys have been presented before, so that SHA-256 is worked out once for each. */
#ifndef WEIR_IDENTITY_API_KEYS_SEEN_H
#define WEIR_IDENTITY_API_KEYS_SEEN_H

#include <stdatomic.h>

#include "base/text.h"

/* What stands for a presented key: 128 bits of SipHash-2-4 under a secret that is drawn anew for each
 * ring and never leaves the process. Who does not know it cannot make two texts with one tag, or one
 * with the tag of a key that he does not have, but by trying: each try succeeds with a chance of one
 * in 2^128 for each key of the ring. So how long a comparison of tags takes says nothing either. */
struct weir_seen_tag {
    uint64_t words[2];
};

struct weir_seen_key {
    _Atomic uint64_t words[2]; /* of its tag                          */
    atomic_flag is_noted;      /* by the thread that has set it first */
};

/* Only keys of the ring get in, each once, so nobody can fill it, and nothing ever leaves it: another
 * file of keys makes another ring. */
struct weir_seen {
    uint8_t secret[16];
    struct weir_seen_key *keys; /* beside those of the ring                               */
    _Atomic size_t *slots;      /* hash table: index of a key + 1, or 0 for an empty slot */
    size_t slot_count;          /* a power of two, at least twice as many as there are keys */
};

#define WEIR_NOT_SEEN SIZE_MAX

/* For a ring of `count` keys, with room for twice as many in its `slot_count`; false: memory ran out.
 * A zeroed one may be finished. */
bool weir_seen_init(struct weir_seen *seen, size_t count, size_t slot_count);
void weir_seen_finish(struct weir_seen *seen);

struct weir_seen_tag weir_seen_tag(const struct weir_seen *seen, struct weir_text presented);

/* The index of the key, or WEIR_NOT_SEEN. Any thread. */
size_t weir_seen_find(const struct weir_seen *seen, const struct weir_seen_tag *tag);

/* Remembers that a text with this tag is the key of that index. Any thread. */
void weir_seen_note(struct weir_seen *seen, const struct weir_seen_tag *tag, size_t index);

#endif
