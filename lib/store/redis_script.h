/* Scripts, composed for each shape of a check from the pieces in redis_*.lua; one more for each shape
 * that can be decided many at once, with the same pieces in a loop.
 *
 * A piece is Lua, but for names that end in "_i" or "_g". These are the variables of a limit or of a
 * key and become first_1, value_k2 and so on; the ones in capitals become what only the whole shape
 * tells:
 *
 *   NUMBERS_i   the limit's numbers
 *   AT_i        where in ARGV what it has beside them begins
 *   HIGH_i      the most that its algorithm leaves in `high`
 *   NUMBER_i    of a ring's key in KEYS
 *   KEY_g       the key itself
 *   AT_g        where the ids of a group stand in ARGV
 *   STATES_g    the variables of all states under the key: first_1, low_1, high_1, first_2, ...
 *   RAW_g       the same as they stand in the key's value
 *   FORMAT_g    what struct.unpack() reads them with; ALL_g: the expiry too
 *   COUNT_g     how many they are; ZEROS_g: as they are in a new key
 *   HEAD_g      the bytes before the expiry; OFFSET_g: before the states; SIZE_g: and with them
 *   LIMIT_FITS  of a penalty: fits_1 of the limit that it guards; LIMIT_LEFT: how long that is blocked
 *   BANS        of a limit with a penalty: bans_2 of that
 *   FITS        fits_1 and fits_2 and ...
 *   BEFORE      the states under all keys, as they were
 *   FAIL        ends the check with an error; FAIL_g: with the one that reading the key gave
 *
 * and where there are many checks:
 *
 *   RUNS        where in ARGV the lengths of their runs stand; NUMBERS: the numbers of all
 *   KEYS_EACH   how many keys each check has; BYTES_EACH: bytes of numbers
 *   NO_REPLY    what stands in place of an answer */
#ifndef WEIR_STORE_REDIS_SCRIPT_H
#define WEIR_STORE_REDIS_SCRIPT_H

#include "base/buffer.h"
#include "store/redis_shape.h"

/* Longer is no script of a plan of eight limits. */
#define WEIR_REDIS_SCRIPT_BYTES 65536

enum weir_redis_clock {
    WEIR_REDIS_OWN_CLOCK,
    WEIR_REDIS_CLOCK_OF_TEST /* the time is the last argument, and keys live an hour longer */
};

/* Writes the script. Pure. */
void weir_redis_script_compose(struct weir_buffer *out, const struct weir_redis_shape *shape,
                               enum weir_redis_clock clock);

#endif
