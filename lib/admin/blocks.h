/* The list of what operators have blocked, which all processes with the same store see.
 *
 * The store refuses what is blocked whether or not it is listed; the list says who did it, why and
 * until when, and by which keys it is undone. It is one text of the store's, of which each change is
 * put in the place of the last one seen; what has ended is left out at the next. Blocks by
 * weir_limiter_block() are the application's, and not in it. */
#ifndef WEIR_ADMIN_BLOCKS_H
#define WEIR_ADMIN_BLOCKS_H

#include <jansson.h>

#include <weir/limiter.h>

/* A block is an object:
 *
 *     { "id", "policy", "limit": "all" or a name, "key": whose, "until", "at": seconds since 1970,
 *       "reason", "by", "keys": [[limit, key in the store, bytes of its group, its algorithm], …] }
 *
 * All functions wait for the store. Errors: WEIR_E_STORE_TIMEOUT, _UNAVAILABLE, _ERROR; WEIR_E_MEMORY;
 * WEIR_E_NOT_YET: the store keeps no texts. */

/* The blocks that have not ended, in a new array, and the store's time. */
enum weir_code weir_blocks_read(struct weir_limiter *limiter, json_t **blocks, uint64_t *now_us,
                                struct weir_error *error);

/* Whether a block has this key of the store. Pure. */
bool weir_block_has_key(const json_t *block, const char *key, size_t length);

/* Gives `block` an id and its times, `seconds` from now on, and adds it in the place of those of the
 * same keys. Errors, too: WEIR_E_STATE: the list is full. */
enum weir_code weir_blocks_add(struct weir_limiter *limiter, json_t *block, uint64_t seconds,
                               struct weir_error *error);

/* Takes these keys of the store (an array of texts) out of all blocks; one that has none left is no
 * block any more. `count` of them, which may be NULL, are gone. */
enum weir_code weir_blocks_remove(struct weir_limiter *limiter, const json_t *keys, size_t *count,
                                  struct weir_error *error);

#endif
