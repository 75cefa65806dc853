/* What the names in a piece of script become; redis_script.h says which there are. */
#include "store/redis_composer.h"

#include <string.h>

#define ID_BYTES     4
#define EXPIRY_BYTES 8
#define STATE_BYTES  16
#define TIME_BYTES   8
#define NUMBER_BYTES 8

/* what only the whole shape tells */

static size_t count_under(const struct weir_redis_shape *shape, size_t key)
{
    size_t count = 0;
    for (size_t i = 0; i < shape->count; i++)
        count += shape->key_of[i] == key;
    return count;
}

static size_t head_bytes(const struct weir_redis_shape *shape, size_t key)
{
    bool is_group = shape->places[key] == WEIR_REDIS_GROUP;
    return is_group ? 1 + ID_BYTES * count_under(shape, key) : 0;
}

static size_t states_offset(const struct weir_redis_shape *shape, size_t key)
{
    return head_bytes(shape, key) + EXPIRY_BYTES;
}

static size_t states_end(const struct weir_redis_shape *shape, size_t key)
{
    return states_offset(shape, key) + STATE_BYTES * count_under(shape, key);
}

/* Arguments: the ids of each group in turn; of many checks the runs; to spend the numbers of all
 * limits, packed; then each limit's own. Lua counts from 1. */
static size_t ids_at(const struct weir_redis_shape *shape, size_t key)
{
    size_t at = 1;
    for (size_t i = 0; i < key; i++)
        at += shape->places[i] == WEIR_REDIS_GROUP;
    return at;
}

static size_t runs_at(const struct weir_redis_shape *shape)
{
    return ids_at(shape, shape->key_count);
}

static size_t numbers_at(const struct weir_redis_shape *shape)
{
    return runs_at(shape) + shape->is_batch;
}

static size_t own_count(const struct weir_redis_shape *shape, size_t limit)
{
    const struct weir_redis_pieces *pieces =
        weir_redis_pieces_of((enum weir_redis_variant)shape->variants[limit]);
    switch ((enum weir_operation)shape->operation) {
    case WEIR_SPEND:
        return pieces->own_count;
    case WEIR_SETTLE:
        return pieces->settle_count;
    case WEIR_BLOCK:
        return 1;
    case WEIR_RESET:
    case WEIR_EXCHANGE:
        break;
    }
    return 0;
}

static size_t own_at(const struct weir_redis_shape *shape, size_t limit)
{
    size_t at = numbers_at(shape) + (shape->operation == WEIR_SPEND);
    for (size_t i = 0; i < limit; i++)
        at += own_count(shape, i);
    return at;
}

static size_t number_count(const struct weir_redis_shape *shape, size_t limit)
{
    return weir_redis_pieces_of((enum weir_redis_variant)shape->variants[limit])->number_count;
}

/* Of the numbers of the limits before this one; behind the last, of all. */
static size_t numbers_offset(const struct weir_redis_shape *shape, size_t limit)
{
    size_t bytes = 0;
    for (size_t i = 0; i < limit; i++)
        bytes += NUMBER_BYTES * number_count(shape, i);
    return bytes;
}

/* names that stand for a number */

static size_t own_of_limit(const struct weir_redis_composer *composer)
{
    return own_at(composer->shape, composer->limit);
}

static size_t ids_of_key(const struct weir_redis_composer *composer)
{
    return ids_at(composer->shape, composer->key);
}

static size_t key_of_limit(const struct weir_redis_composer *composer)
{
    return composer->shape->key_of[composer->limit] + 1U;
}

static size_t high_of_limit(const struct weir_redis_composer *composer)
{
    uint8_t variant = composer->shape->variants[composer->limit];
    return weir_redis_pieces_of((enum weir_redis_variant)variant)->has_high ? WEIR_UNITS_MAX : 0;
}

static size_t count_of_key(const struct weir_redis_composer *composer)
{
    return count_under(composer->shape, composer->key);
}

static size_t head_of_key(const struct weir_redis_composer *composer)
{
    return head_bytes(composer->shape, composer->key);
}

static size_t offset_of_key(const struct weir_redis_composer *composer)
{
    return states_offset(composer->shape, composer->key);
}

static size_t size_of_key(const struct weir_redis_composer *composer)
{
    return states_end(composer->shape, composer->key);
}

static size_t runs_of_shape(const struct weir_redis_composer *composer)
{
    return runs_at(composer->shape);
}

static size_t numbers_of_shape(const struct weir_redis_composer *composer)
{
    return numbers_at(composer->shape);
}

static size_t keys_of_shape(const struct weir_redis_composer *composer)
{
    return composer->shape->key_count;
}

static size_t number_bytes_of_shape(const struct weir_redis_composer *composer)
{
    return numbers_offset(composer->shape, composer->shape->count);
}

/* names that stand for more */

/* "first_1", and for keys "value_k1". */
static void put_name(struct weir_buffer *out, const char *name_, size_t index)
{
    weir_buffer_put_string(out, name_);
    weir_buffer_put_number(out, index + 1);
}

static void put_separator(struct weir_buffer *out, bool *is_first, const char *separator)
{
    if (!*is_first)
        weir_buffer_put_string(out, separator);
    *is_first = false;
}

/* As one piece of text with the number of the key in it. */
static void put_of_key(const struct weir_redis_composer *composer, const char *before,
                       const char *behind)
{
    put_name(composer->out, before, composer->key);
    weir_buffer_put_string(composer->out, behind);
}

static void put_key(const struct weir_redis_composer *composer)
{
    put_of_key(composer, composer->shape->is_batch ? "KEYS[key_at + " : "KEYS[", "]");
}

static void put_states(const struct weir_redis_composer *composer)
{
    static const char *const names[] = { "first_", "low_", "high_" };
    bool is_first = true;
    for (size_t i = 0; i < composer->shape->count; i++)
        for (size_t n = 0; composer->shape->key_of[i] == composer->key && n < 3; n++) {
            put_separator(composer->out, &is_first, ", ");
            put_name(composer->out, names[n], i);
        }
}

static void put_format(const struct weir_redis_composer *composer)
{
    for (size_t i = count_under(composer->shape, composer->key); i > 0; i--)
        weir_buffer_put_string(composer->out, "dI4I4");
}

static void put_all(const struct weir_redis_composer *composer)
{
    weir_buffer_put_char(composer->out, 'd');
    put_format(composer);
}

static void put_zeros(const struct weir_redis_composer *composer)
{
    weir_buffer_put_string(composer->out, "string.rep('\\0', ");
    weir_buffer_put_number(composer->out,
                           STATE_BYTES * count_under(composer->shape, composer->key));
    weir_buffer_put_char(composer->out, ')');
}

static void put_fits(const struct weir_redis_composer *composer)
{
    bool is_first = true;
    for (size_t i = 0; i < composer->shape->count; i++) {
        put_separator(composer->out, &is_first, " and ");
        put_name(composer->out, "fits_", i);
    }
}

/* The bytes of a key's states in its value. */
static void put_raw(const struct weir_redis_composer *composer)
{
    put_of_key(composer, "sub(value_k", ", ");
    weir_buffer_put_number(composer->out, states_offset(composer->shape, composer->key) + 1);
    weir_buffer_put_string(composer->out, ", ");
    weir_buffer_put_number(composer->out, states_end(composer->shape, composer->key));
    weir_buffer_put_char(composer->out, ')');
}

static void put_before(const struct weir_redis_composer *composer)
{
    struct weir_redis_composer part = *composer;
    bool is_first = true;
    for (part.key = 0; part.key < part.shape->key_count; part.key++) {
        put_separator(part.out, &is_first, " .. ");
        if (part.shape->is_batch) {
            put_of_key(&part, "states_k", "");
        } else if (part.shape->places[part.key] == WEIR_REDIS_RING) {
            put_of_key(&part, "before_k", "");
        } else {
            put_of_key(&part, "(before_k", " or ");
            put_raw(&part);
            weir_buffer_put_char(part.out, ')');
        }
    }
}

static void put_limit_fits(const struct weir_redis_composer *composer)
{
    put_name(composer->out, "fits_", composer->limit - 1);
}

static void put_limit_left(const struct weir_redis_composer *composer)
{
    bool is_log = weir_redis_is_ring(composer->shape, composer->limit - 1);
    put_name(composer->out, is_log ? "ring_" : "left_", composer->limit - 1);
    weir_buffer_put_string(composer->out, is_log ? ".left" : "");
}

static void put_bans(const struct weir_redis_composer *composer)
{
    put_name(composer->out, "bans_", composer->limit + 1);
}

static bool has_zero(const struct weir_redis_shape *shape, size_t key)
{
    for (size_t i = 0; i < shape->count; i++)
        if (shape->key_of[i] == key && shape->variants[i] == WEIR_REDIS_ZERO)
            return true;
    return false;
}

/* Whether anything can have set a key's expiry so far ahead: what it is needed for, or what
 * lengthens it; or a limit of which the numbers are not known, for which twice the longest window,
 * ban or plan that there is, and a day more, is enough. */
static void put_possible(const struct weir_redis_composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    bool has_numbers = shape->operation == WEIR_SPEND || shape->operation == WEIR_SETTLE;
    struct weir_redis_composer part = *composer;
    weir_redis_put_piece(&part, "expiry_g <= until_g");
    for (part.limit = 0; part.limit < shape->count; part.limit++) {
        const char *longest =
            weir_redis_pieces_of((enum weir_redis_variant)shape->variants[part.limit])->longest;
        if (longest == NULL || !has_numbers || shape->key_of[part.limit] != composer->key)
            continue;
        weir_redis_put_piece(&part, "\nor expiry_g <= now + 4 + ");
        weir_redis_put_piece(&part, longest);
    }
    bool is_group = shape->places[composer->key] == WEIR_REDIS_GROUP;
    if (has_zero(shape, composer->key))
        weir_redis_put_piece(&part, "\nor expiry_g <= now + 63331200000000");
    else if (is_group)
        weir_redis_put_piece(&part, "\nor expiry_g <= now + 63331200000000"
                                    " and (foreign_g ~= '' or #value_g > SIZE_g)");
}

/* To settle, as arguments: "ARGV[3] + 0, ARGV[4] + 0". */
static void put_arguments(const struct weir_redis_composer *composer)
{
    bool is_first = true;
    for (size_t i = 0; i < number_count(composer->shape, composer->limit); i++) {
        put_separator(composer->out, &is_first, ", ");
        weir_buffer_put_string(composer->out, "ARGV[");
        weir_buffer_put_number(composer->out, own_of_limit(composer) + i);
        weir_buffer_put_string(composer->out, "] + 0");
    }
}

/* "unpack('<dd', ARGV[2], 1)"; among those of many checks "unpack('<dd', numbers, at + 1)". */
static void put_numbers(const struct weir_redis_composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    struct weir_buffer *out = composer->out;
    if (shape->operation != WEIR_SPEND) {
        put_arguments(composer);
        return;
    }
    weir_buffer_put_string(out, "unpack('<");
    for (size_t i = number_count(shape, composer->limit); i > 0; i--)
        weir_buffer_put_char(out, 'd');
    weir_buffer_put_string(out, shape->is_batch ? "', numbers, at + " : "', ARGV[");
    if (!shape->is_batch) {
        weir_buffer_put_number(out, numbers_at(shape));
        weir_buffer_put_string(out, "], ");
    }
    weir_buffer_put_number(out, numbers_offset(shape, composer->limit) + 1);
    weir_buffer_put_char(out, ')');
}

static void put_fail(const struct weir_redis_composer *composer)
{
    weir_buffer_put_string(composer->out,
                           composer->shape->is_batch ? "fail" : "return redis.error_reply");
}

static void put_fail_of_key(const struct weir_redis_composer *composer)
{
    if (composer->shape->is_batch)
        put_of_key(composer, "fail(value_k", ".err)");
    else
        put_of_key(composer, "return value_k", "");
}

/* As long as a reply, and none. */
static void put_no_reply(const struct weir_redis_composer *composer)
{
    if (composer->shape->is_plain) {
        weir_buffer_put_string(composer->out, "0 / 0");
        return;
    }
    weir_buffer_put_string(composer->out, "string.rep('\\0', ");
    weir_buffer_put_number(composer->out,
                           TIME_BYTES + (uint64_t)STATE_BYTES * composer->shape->count);
    weir_buffer_put_char(composer->out, ')');
}

/* finding names */

static const struct {
    const char *name;
    size_t (*number)(const struct weir_redis_composer *composer);
    void (*put)(const struct weir_redis_composer *composer);
} special_names[] = {
    { "AT_i", own_of_limit, NULL },
    { "AT_g", ids_of_key, NULL },
    { "NUMBER_i", key_of_limit, NULL },
    { "NUMBERS_i", NULL, put_numbers },
    { "KEY_g", NULL, put_key },
    { "HIGH_i", high_of_limit, NULL },
    { "COUNT_g", count_of_key, NULL },
    { "HEAD_g", head_of_key, NULL },
    { "OFFSET_g", offset_of_key, NULL },
    { "SIZE_g", size_of_key, NULL },
    { "STATES_g", NULL, put_states },
    { "RAW_g", NULL, put_raw },
    { "FORMAT_g", NULL, put_format },
    { "ALL_g", NULL, put_all },
    { "ZEROS_g", NULL, put_zeros },
    { "FITS", NULL, put_fits },
    { "BEFORE", NULL, put_before },
    { "POSSIBLE_g", NULL, put_possible },
    { "BANS", NULL, put_bans },
    { "LIMIT_FITS", NULL, put_limit_fits },
    { "LIMIT_LEFT", NULL, put_limit_left },
    { "FAIL", NULL, put_fail },
    { "FAIL_g", NULL, put_fail_of_key },
    { "RUNS", runs_of_shape, NULL },
    { "NUMBERS", numbers_of_shape, NULL },
    { "KEYS_EACH", keys_of_shape, NULL },
    { "BYTES_EACH", number_bytes_of_shape, NULL },
    { "NO_REPLY", NULL, put_no_reply },
};

static bool put_special(const struct weir_redis_composer *composer, struct weir_text name)
{
    for (size_t i = 0; i < sizeof special_names / sizeof special_names[0]; i++) {
        if (!weir_text_equal(name, weir_text_from(special_names[i].name)))
            continue;
        if (special_names[i].put != NULL)
            special_names[i].put(composer);
        else
            weir_buffer_put_number(composer->out, special_names[i].number(composer));
        return true;
    }
    return false;
}

static void put_word(const struct weir_redis_composer *composer, struct weir_text word)
{
    if (put_special(composer, word))
        return;
    bool has_end = word.length > 2 && word.at[word.length - 2] == '_';
    char end = has_end ? word.at[word.length - 1] : '\0';
    if (end != 'i' && end != 'g') {
        weir_buffer_put(composer->out, word);
        return;
    }
    weir_buffer_put(composer->out, (struct weir_text){ word.at, word.length - 1 });
    put_name(composer->out, end == 'i' ? "" : "k", end == 'i' ? composer->limit : composer->key);
}

static size_t word_length(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
}

void weir_redis_put_piece(const struct weir_redis_composer *composer, const char *piece)
{
    if (piece == NULL)
        return;
    while (*piece != '\0') {
        size_t length = word_length(piece);
        if (length > 0)
            put_word(composer, (struct weir_text){ piece, length });
        else
            weir_buffer_put_char(composer->out, *piece);
        piece += length > 0 ? length : 1;
    }
}
