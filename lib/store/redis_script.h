/* Scripts, composed for each shape of a check from the pieces in redis_*.lua.
 *
 * A piece is Lua, but for names that end in "_i" or "_g". These are the variables of a limit or of a
 * key and become first_1, value_k2 and so on; the ones in capitals become what only the whole shape
 * tells:
 *
 *   AT_i        where the limit's arguments begin in ARGV
 *   HIGH_i      the most that its algorithm leaves in `high`
 *   AT_g        where the ids of a group stand in ARGV
 *   NUMBER_g    of the key in KEYS; NUMBER_i: of a ring's
 *   STATES_g    the variables of all states under the key: first_1, low_1, high_1, first_2, ...
 *   FORMAT_g    what struct.unpack() reads them with; ALL_g: the expiry too
 *   COUNT_g     how many they are; ZEROS_g: as they are in a new key
 *   HEAD_g      the bytes before the expiry; OFFSET_g: before the states; SIZE_g: and with them
 *   LIMIT_FITS  of a penalty: fits_1 of the limit that it guards; LIMIT_LEFT: how long that is blocked
 *   BANS        of a limit with a penalty: bans_2 of that
 *   FITS        fits_1 and fits_2 and ...
 *   BEFORE      the states under all keys, as they were */
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

/* How many arguments a limit has in the script of an operation. */
size_t weir_redis_argument_count(enum weir_redis_variant variant, enum weir_operation operation);

#endif
