#include "store/redis_script.h"

#include <string.h>

#include "store/redis_pieces.h"

#define ID_BYTES     4
#define EXPIRY_BYTES 8
#define STATE_BYTES  16

#define PIECES_MAX 5

/* The pieces of a variant, in the order in which they stand. Some share those of another. */
struct pieces {
    bool has_high;      /* a sum in the state's `high`                                     */
    size_t spend_count; /* arguments                                                       */
    size_t settle_count;
    const char *arguments[PIECES_MAX];
    const char *decide[PIECES_MAX];
    const char *spend;                /* NULL: keeps nothing                               */
    const char *lasts;                /* NULL: until `first`                               */
    const char *lengthen[PIECES_MAX]; /* none: lives as long as it must                    */
    const char *longest;              /* with those: for how long at most, in µs           */
    const char *settle_arguments[PIECES_MAX];
    const char *settle[PIECES_MAX];
};

static const struct pieces pieces_of[WEIR_REDIS_VARIANTS] = {
    [WEIR_REDIS_ZERO] = {
        .arguments = { weir_lua_zero_arguments },
        .decide = { weir_lua_zero_decide },
        .spend_count = 1,
    },
    [WEIR_REDIS_GCRA] = {
        .arguments = { weir_lua_gcra_arguments },
        .decide = { weir_lua_gcra_decide },
        .spend = weir_lua_gcra_spend,
        .lengthen = { weir_lua_gcra_lengthen },
        .longest = "2 * capacity_i",
        .spend_count = 2,
        .settle_arguments = { weir_lua_gcra_settle_arguments },
        .settle = { weir_lua_gcra_settle_used, weir_lua_gcra_settle_span, weir_lua_gcra_settle },
        .settle_count = 7,
    },
    [WEIR_REDIS_GCRA_PARTS] = {
        .arguments = { weir_lua_gcra_arguments_of_parts },
        .decide = { weir_lua_gcra_decide_parts },
        .spend = weir_lua_gcra_spend_parts,
        .lasts = weir_lua_gcra_lasts_parts,
        .lengthen = { weir_lua_gcra_lengthen },
        .longest = "2 * capacity_i",
        .spend_count = 5,
        .settle_arguments = { weir_lua_gcra_settle_arguments },
        .settle = { weir_lua_gcra_settle_used, weir_lua_gcra_settle_span, weir_lua_gcra_settle },
        .settle_count = 7,
    },
    [WEIR_REDIS_TOKEN] = {
        .has_high = true,
        .arguments = { weir_lua_token_bucket_arguments },
        .decide = { weir_lua_token_bucket_decide },
        .spend = weir_lua_token_bucket_spend,
        .lasts = weir_lua_token_bucket_lasts,
        .lengthen = { weir_lua_token_bucket_lengthen, weir_lua_gcra_lengthen },
        .longest = "2 * burst_i * interval_i",
        .spend_count = 3,
        .settle_arguments = { weir_lua_gcra_settle_arguments,
                              weir_lua_token_bucket_settle_arguments },
        .settle = { weir_lua_token_bucket_settle_begin, weir_lua_token_bucket_bring,
                    weir_lua_token_bucket_settle_used, weir_lua_gcra_settle_span,
                    weir_lua_token_bucket_settle },
        .settle_count = 10,
    },
    [WEIR_REDIS_TOKEN_PARTS] = {
        .has_high = true,
        .arguments = { weir_lua_token_bucket_arguments_of_parts },
        .decide = { weir_lua_token_bucket_bring, weir_lua_token_bucket_decide_parts },
        .spend = weir_lua_token_bucket_spend_parts,
        .lasts = weir_lua_token_bucket_lasts_parts,
        .lengthen = { weir_lua_token_bucket_lengthen_parts, weir_lua_gcra_lengthen },
        .longest = "2 * burst_i * (interval_i + 1)",
        .spend_count = 5,
        .settle_arguments = { weir_lua_gcra_settle_arguments,
                              weir_lua_token_bucket_settle_arguments },
        .settle = { weir_lua_token_bucket_settle_begin, weir_lua_token_bucket_bring,
                    weir_lua_token_bucket_settle_used, weir_lua_gcra_settle_span,
                    weir_lua_token_bucket_settle },
        .settle_count = 10,
    },
    [WEIR_REDIS_LEAKY] = {
        .arguments = { weir_lua_gcra_arguments, weir_lua_leaky_bucket_arguments },
        .decide = { weir_lua_gcra_decide, weir_lua_leaky_bucket_decide },
        .spend = weir_lua_gcra_spend,
        .lengthen = { weir_lua_gcra_lengthen },
        .longest = "2 * capacity_i",
        .spend_count = 3,
        .settle_arguments = { weir_lua_gcra_settle_arguments },
        .settle = { weir_lua_gcra_settle_used, weir_lua_gcra_settle_span, weir_lua_gcra_settle },
        .settle_count = 7,
    },
    [WEIR_REDIS_LEAKY_PARTS] = {
        .arguments = { weir_lua_gcra_arguments_of_parts, weir_lua_leaky_bucket_arguments_of_parts },
        .decide = { weir_lua_gcra_decide_parts, weir_lua_leaky_bucket_decide_parts },
        .spend = weir_lua_gcra_spend_parts,
        .lasts = weir_lua_gcra_lasts_parts,
        .lengthen = { weir_lua_gcra_lengthen },
        .longest = "2 * capacity_i",
        .spend_count = 6,
        .settle_arguments = { weir_lua_gcra_settle_arguments },
        .settle = { weir_lua_gcra_settle_used, weir_lua_gcra_settle_span, weir_lua_gcra_settle },
        .settle_count = 7,
    },
    [WEIR_REDIS_WINDOW] = {
        .arguments = { weir_lua_fixed_window_arguments },
        .decide = { weir_lua_fixed_window_decide },
        .spend = weir_lua_fixed_window_spend,
        .lasts = weir_lua_fixed_window_lasts,
        .spend_count = 3,
        .settle_arguments = { weir_lua_fixed_window_arguments, weir_lua_fixed_window_settle },
        .settle = { weir_lua_fixed_window_settle_used },
        .settle_count = 4,
    },
    [WEIR_REDIS_WINDOW_FIRST] = {
        .arguments = { weir_lua_fixed_window_arguments_first },
        .decide = { weir_lua_fixed_window_decide },
        .spend = weir_lua_fixed_window_spend,
        .lasts = weir_lua_fixed_window_lasts,
        .spend_count = 3,
        .settle_arguments = { weir_lua_fixed_window_arguments_first, weir_lua_fixed_window_settle },
        .settle = { weir_lua_fixed_window_settle_used },
        .settle_count = 4,
    },
    [WEIR_REDIS_WINDOW_CALENDAR] = {
        .arguments = { weir_lua_fixed_window_arguments_calendar },
        .decide = { weir_lua_fixed_window_decide },
        .spend = weir_lua_fixed_window_spend,
        .lasts = weir_lua_fixed_window_lasts,
        .spend_count = 6,
        .settle_arguments = { weir_lua_fixed_window_arguments_calendar,
                              weir_lua_fixed_window_settle_calendar },
        .settle = { weir_lua_fixed_window_settle_used },
        .settle_count = 7,
    },
    [WEIR_REDIS_COUNTER] = {
        .has_high = true,
        .arguments = { weir_lua_sliding_counter_arguments },
        .decide = { weir_lua_sliding_counter_decide },
        .spend = weir_lua_sliding_counter_spend,
        .lasts = weir_lua_sliding_counter_lasts,
        .spend_count = 3,
        .settle_arguments = { weir_lua_sliding_counter_arguments },
        .settle = { weir_lua_sliding_counter_settle },
        .settle_count = 4,
    },
    [WEIR_REDIS_LOG] = {
        .arguments = { weir_lua_sliding_log_read },
        .decide = { weir_lua_sliding_log_decide },
        .spend = weir_lua_sliding_log_spend,
        .spend_count = 3,
        .settle_arguments = { weir_lua_sliding_log_read },
        .settle = { weir_lua_sliding_log_settle },
        .settle_count = 4,
    },
    [WEIR_REDIS_LOG_ALL] = {
        .arguments = { weir_lua_sliding_log_read },
        .decide = { weir_lua_sliding_log_decide },
        .spend = weir_lua_sliding_log_spend,
        .spend_count = 3,
        .settle_arguments = { weir_lua_sliding_log_read },
        .settle = { weir_lua_sliding_log_settle },
        .settle_count = 4,
    },
    [WEIR_REDIS_PENALTY] = {
        .decide = { weir_lua_penalty_decide },
        .lasts = weir_lua_penalty_lasts,
        .spend_count = 5,
        .settle_count = 1,
    },
};

/* A script under way. `limit` and `key` are what "_i" and "_g" stand for. */
struct composer {
    struct weir_buffer *out;
    const struct weir_redis_shape *shape;
    size_t limit, key;
};

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

/* Arguments: the ids of each group in turn, then the numbers of each limit. Lua counts from 1. */
static size_t ids_at(const struct weir_redis_shape *shape, size_t key)
{
    size_t at = 1;
    for (size_t i = 0; i < key; i++)
        at += shape->places[i] == WEIR_REDIS_GROUP;
    return at;
}

static size_t numbers_at(const struct weir_redis_shape *shape, size_t limit)
{
    size_t at = ids_at(shape, shape->key_count);
    for (size_t i = 0; i < limit; i++)
        at += weir_redis_argument_count(shape->variants[i], shape->operation);
    return at;
}

size_t weir_redis_argument_count(enum weir_redis_variant variant, enum weir_operation operation)
{
    switch (operation) {
    case WEIR_SPEND:
        return pieces_of[variant].spend_count;
    case WEIR_SETTLE:
        return pieces_of[variant].settle_count;
    case WEIR_BLOCK:
        return 1;
    case WEIR_RESET:
        break;
    }
    return 0;
}

/* writing names */

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

static void put_states(const struct composer *composer)
{
    static const char *const names[] = { "first_", "low_", "high_" };
    bool is_first = true;
    for (size_t i = 0; i < composer->shape->count; i++)
        for (size_t n = 0; composer->shape->key_of[i] == composer->key && n < 3; n++) {
            put_separator(composer->out, &is_first, ", ");
            put_name(composer->out, names[n], i);
        }
}

static void put_format(const struct composer *composer)
{
    for (size_t i = count_under(composer->shape, composer->key); i > 0; i--)
        weir_buffer_put_string(composer->out, "dI4I4");
}

static void put_all(const struct composer *composer)
{
    weir_buffer_put_char(composer->out, 'd');
    put_format(composer);
}

static void put_zeros(const struct composer *composer)
{
    weir_buffer_put_string(composer->out, "string.rep('\\0', ");
    weir_buffer_put_number(composer->out,
                           STATE_BYTES * count_under(composer->shape, composer->key));
    weir_buffer_put_char(composer->out, ')');
}

static void put_fits(const struct composer *composer)
{
    bool is_first = true;
    for (size_t i = 0; i < composer->shape->count; i++) {
        put_separator(composer->out, &is_first, " and ");
        put_name(composer->out, "fits_", i);
    }
}

static void put_before(const struct composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    bool is_first = true;
    for (size_t key = 0; key < shape->key_count; key++) {
        put_separator(composer->out, &is_first, " .. ");
        if (shape->places[key] == WEIR_REDIS_RING) {
            put_name(composer->out, "before_k", key);
            continue;
        }
        weir_buffer_put_char(composer->out, '(');
        put_name(composer->out, "before_k", key);
        weir_buffer_put_string(composer->out, " or sub(");
        put_name(composer->out, "value_k", key);
        weir_buffer_put_string(composer->out, ", ");
        weir_buffer_put_number(composer->out, states_offset(shape, key) + 1);
        weir_buffer_put_string(composer->out, ", ");
        weir_buffer_put_number(composer->out, states_end(shape, key));
        weir_buffer_put_string(composer->out, "))");
    }
}

static bool is_ring(const struct weir_redis_shape *shape, size_t limit)
{
    return shape->places[shape->key_of[limit]] == WEIR_REDIS_RING;
}

static void put_limit_fits(const struct composer *composer)
{
    put_name(composer->out, "fits_", composer->limit - 1);
}

static void put_limit_left(const struct composer *composer)
{
    bool is_log = is_ring(composer->shape, composer->limit - 1);
    put_name(composer->out, is_log ? "ring_" : "left_", composer->limit - 1);
    weir_buffer_put_string(composer->out, is_log ? ".left" : "");
}

static void put_bans(const struct composer *composer)
{
    put_name(composer->out, "bans_", composer->limit + 1);
}

static size_t number_for(const struct composer *composer, char what)
{
    const struct weir_redis_shape *shape = composer->shape;
    switch (what) {
    case 'h':
        return pieces_of[shape->variants[composer->limit]].has_high ? WEIR_UNITS_MAX : 0;
    case 'a':
        return numbers_at(shape, composer->limit);
    case 'A':
        return ids_at(shape, composer->key);
    case 'n':
        return shape->key_of[composer->limit] + 1U;
    case 'N':
        return composer->key + 1;
    case 'C':
        return count_under(shape, composer->key);
    case 'H':
        return head_bytes(shape, composer->key);
    case 'O':
        return states_offset(shape, composer->key);
    default:
        return states_end(shape, composer->key);
    }
}

static void put_piece(const struct composer *composer, const char *piece);

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
static void put_possible(const struct composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    bool has_numbers = shape->operation == WEIR_SPEND || shape->operation == WEIR_SETTLE;
    struct composer part = *composer;
    put_piece(&part, "expiry_g <= until_g");
    for (part.limit = 0; part.limit < shape->count; part.limit++) {
        const char *longest = pieces_of[shape->variants[part.limit]].longest;
        if (longest == NULL || !has_numbers || shape->key_of[part.limit] != composer->key)
            continue;
        put_piece(&part, "\nor expiry_g <= now + 4 + ");
        put_piece(&part, longest);
    }
    bool is_group = shape->places[composer->key] == WEIR_REDIS_GROUP;
    if (has_zero(shape, composer->key))
        put_piece(&part, "\nor expiry_g <= now + 63331200000000");
    else if (is_group)
        put_piece(&part, "\nor expiry_g <= now + 63331200000000"
                         " and (foreign_g ~= '' or #value_g > SIZE_g)");
}

/* Names that stand for a number, or for more. */
static const struct {
    const char *name;
    void (*put)(const struct composer *composer);
    char number;
} special_names[] = {
    { "AT_i", NULL, 'a' },
    { "AT_g", NULL, 'A' },
    { "NUMBER_i", NULL, 'n' },
    { "NUMBER_g", NULL, 'N' },
    { "HIGH_i", NULL, 'h' },
    { "COUNT_g", NULL, 'C' },
    { "HEAD_g", NULL, 'H' },
    { "OFFSET_g", NULL, 'O' },
    { "SIZE_g", NULL, 'S' },
    { "STATES_g", put_states, 0 },
    { "FORMAT_g", put_format, 0 },
    { "ALL_g", put_all, 0 },
    { "ZEROS_g", put_zeros, 0 },
    { "FITS", put_fits, 0 },
    { "BEFORE", put_before, 0 },
    { "POSSIBLE_g", put_possible, 0 },
    { "BANS", put_bans, 0 },
    { "LIMIT_FITS", put_limit_fits, 0 },
    { "LIMIT_LEFT", put_limit_left, 0 },
};

static bool put_special(const struct composer *composer, struct weir_text name)
{
    for (size_t i = 0; i < sizeof special_names / sizeof special_names[0]; i++) {
        if (!weir_text_equal(name, weir_text_from(special_names[i].name)))
            continue;
        if (special_names[i].put != NULL)
            special_names[i].put(composer);
        else
            weir_buffer_put_number(composer->out, number_for(composer, special_names[i].number));
        return true;
    }
    return false;
}

static void put_word(const struct composer *composer, struct weir_text word)
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

static void put_piece(const struct composer *composer, const char *piece)
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

static void put_pieces(const struct composer *composer, const char *const pieces[PIECES_MAX])
{
    for (size_t i = 0; i < PIECES_MAX; i++)
        put_piece(composer, pieces[i]);
}

/* putting scripts together */

static const struct pieces *select_limit(struct composer *composer, size_t limit)
{
    composer->limit = limit;
    composer->key = composer->shape->key_of[limit];
    return &pieces_of[composer->shape->variants[limit]];
}

static void put_reads(struct composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    for (composer->key = 0; composer->key < shape->key_count; composer->key++) {
        bool is_group = shape->places[composer->key] == WEIR_REDIS_GROUP;
        bool is_read = is_group || shape->operation != WEIR_RESET;
        if (shape->places[composer->key] == WEIR_REDIS_RING || !is_read)
            continue;
        put_piece(composer, weir_lua_group_read_begin);
        put_piece(composer, is_group ? weir_lua_group_read_group : weir_lua_group_read_alone);
    }
}

static void put_lasting(struct composer *composer, size_t key)
{
    for (size_t i = 0; i < composer->shape->count; i++) {
        if (composer->shape->key_of[i] != key)
            continue;
        const struct pieces *pieces = select_limit(composer, i);
        put_piece(composer, weir_lua_frame_lasts_begin);
        put_piece(composer, pieces->lasts);
        put_piece(composer, weir_lua_frame_lasts_end);
    }
}

static void put_lengthening(struct composer *composer, size_t key)
{
    for (size_t i = 0; i < composer->shape->count; i++) {
        const struct pieces *pieces = select_limit(composer, i);
        if (composer->key != key || pieces->lengthen[0] == NULL)
            continue;
        put_piece(composer, weir_lua_frame_lengthen_begin);
        put_pieces(composer, pieces->lengthen);
        put_piece(composer, weir_lua_frame_end);
    }
}

static void put_write(struct composer *composer, size_t key)
{
    const struct weir_redis_shape *shape = composer->shape;
    bool is_group = shape->places[key] == WEIR_REDIS_GROUP;
    bool has_numbers = shape->operation == WEIR_SPEND || shape->operation == WEIR_SETTLE;
    composer->key = key;
    put_piece(composer, weir_lua_group_write_begin);
    if (shape->operation != WEIR_RESET)
        put_lasting(composer, key);
    composer->key = key;
    put_piece(composer, weir_lua_group_write_middle);
    if (has_numbers)
        put_lengthening(composer, key);
    composer->key = key;
    put_piece(composer, is_group ? weir_lua_group_write_end_group : weir_lua_group_write_end_alone);
}

static void put_writes(struct composer *composer)
{
    for (size_t key = 0; key < composer->shape->key_count; key++)
        if (composer->shape->places[key] != WEIR_REDIS_RING)
            put_write(composer, key);
}

static void put_repairs(struct composer *composer)
{
    for (composer->key = 0; composer->key < composer->shape->key_count; composer->key++)
        if (composer->shape->places[composer->key] != WEIR_REDIS_RING)
            put_piece(composer, weir_lua_group_repair);
}

static bool is_penalty(const struct weir_redis_shape *shape, size_t limit)
{
    return limit < shape->count && shape->variants[limit] == WEIR_REDIS_PENALTY;
}

static const char *limit_piece(const struct weir_redis_shape *shape, size_t limit)
{
    if (is_penalty(shape, limit))
        return weir_lua_penalty_limit;
    return shape->variants[limit] == WEIR_REDIS_ZERO ? weir_lua_zero_limit : weir_lua_frame_limit;
}

static void put_decision(struct composer *composer, size_t limit)
{
    const struct pieces *pieces = select_limit(composer, limit);
    bool has_state = !is_ring(composer->shape, limit);
    bool may_be_blocked = has_state && !is_penalty(composer->shape, limit);
    if (has_state)
        put_piece(composer, limit_piece(composer->shape, limit));
    put_pieces(composer, pieces->arguments);
    if (may_be_blocked)
        put_piece(composer, weir_lua_frame_decide_begin);
    put_pieces(composer, pieces->decide);
    if (may_be_blocked)
        put_piece(composer, weir_lua_frame_end);
}

static void put_spending(struct composer *composer, size_t limit)
{
    const struct pieces *pieces = select_limit(composer, limit);
    if (pieces->spend == NULL)
        return;
    bool has_state = !is_ring(composer->shape, limit);
    if (has_state)
        put_piece(composer, weir_lua_frame_spend_begin);
    put_piece(composer, pieces->spend);
    if (has_state)
        put_piece(composer, weir_lua_frame_end);
}

static bool logs_refusals(const struct weir_redis_shape *shape)
{
    return memchr(shape->variants, WEIR_REDIS_LOG_ALL, shape->count) != NULL;
}

static void put_refusing(struct composer *composer)
{
    put_piece(composer, weir_lua_frame_refuse);
    for (size_t i = 0; i < composer->shape->count; i++) {
        select_limit(composer, i);
        if (composer->shape->variants[i] == WEIR_REDIS_LOG_ALL)
            put_piece(composer, is_penalty(composer->shape, i + 1)
                                    ? weir_lua_penalty_refuse_all
                                    : weir_lua_sliding_log_refuse_all);
    }
}

/* Puts a piece for each ring. */
static void put_for_rings(struct composer *composer, const char *piece)
{
    for (size_t i = 0; i < composer->shape->count; i++) {
        select_limit(composer, i);
        if (is_ring(composer->shape, i))
            put_piece(composer, piece);
    }
}

static void compose_spend(struct composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    for (size_t i = 0; i < shape->count; i++)
        put_decision(composer, i);
    put_piece(composer, weir_lua_frame_spend_all);
    for (size_t i = 0; i < shape->count; i++)
        put_spending(composer, i);
    if (logs_refusals(shape))
        put_refusing(composer);
    put_piece(composer, weir_lua_frame_end);
    put_for_rings(composer, weir_lua_sliding_log_reply);
    put_for_rings(composer, weir_lua_sliding_log_keep);
    put_repairs(composer);
    put_writes(composer);
    put_piece(composer, shape->is_plain ? weir_lua_frame_reply_used : weir_lua_frame_reply_states);
}

static void compose_settle(struct composer *composer)
{
    for (size_t i = 0; i < composer->shape->count; i++) {
        const struct pieces *pieces = select_limit(composer, i);
        bool has_state = !is_ring(composer->shape, i);
        bool may_be_blocked = has_state && !is_penalty(composer->shape, i);
        if (has_state)
            put_piece(composer, limit_piece(composer->shape, i));
        put_pieces(composer, pieces->settle_arguments);
        if (may_be_blocked)
            put_piece(composer, weir_lua_frame_settle_begin);
        put_pieces(composer, pieces->settle);
        if (may_be_blocked)
            put_piece(composer, weir_lua_frame_settle_end);
    }
    put_writes(composer);
    put_piece(composer, weir_lua_frame_reply_done);
}

/* The same for all algorithms. */
static void compose_reset(struct composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    for (composer->key = 0; composer->key < shape->key_count; composer->key++) {
        bool is_group = shape->places[composer->key] == WEIR_REDIS_GROUP;
        put_piece(composer, is_group ? weir_lua_group_reset_group : weir_lua_frame_reset);
    }
    for (size_t key = 0; key < shape->key_count; key++)
        if (shape->places[key] == WEIR_REDIS_GROUP)
            put_write(composer, key);
    put_piece(composer, weir_lua_frame_reply_done);
}

/* The same for all algorithms that keep a state, but a penalty, which stays as it is. */
static void compose_block(struct composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    for (size_t i = 0; i < shape->count; i++) {
        select_limit(composer, i);
        if (is_penalty(shape, i)) {
            put_piece(composer, limit_piece(shape, i));
            continue;
        }
        put_piece(composer, is_ring(shape, i) ? weir_lua_sliding_log_block : weir_lua_frame_block);
    }
    put_writes(composer);
    put_piece(composer, weir_lua_frame_reply_done);
}

static void put_ring_functions(struct composer *composer)
{
    bool spends = composer->shape->operation == WEIR_SPEND;
    put_piece(composer, weir_lua_sliding_log_functions);
    put_piece(composer, spends ? weir_lua_sliding_log_functions_to_spend
                               : weir_lua_sliding_log_functions_to_settle);
    if (logs_refusals(composer->shape))
        put_piece(composer, weir_lua_sliding_log_functions_to_refuse);
}

/* Functions that the pieces of some variants call. */
static void put_functions(struct composer *composer)
{
    const struct weir_redis_shape *shape = composer->shape;
    bool has_numbers = shape->operation == WEIR_SPEND || shape->operation == WEIR_SETTLE;
    bool needs_share = false, has_ring = false, has_ban = false;
    for (size_t i = 0; has_numbers && i < shape->count; i++) {
        uint8_t variant = shape->variants[i];
        has_ring = has_ring || is_ring(shape, i);
        has_ban = has_ban || (is_penalty(shape, i) && shape->operation == WEIR_SPEND);
        needs_share = needs_share || variant == WEIR_REDIS_COUNTER
                      || variant == WEIR_REDIS_TOKEN_PARTS || variant == WEIR_REDIS_TOKEN;
    }
    if (needs_share)
        put_piece(composer, weir_lua_share_function);
    if (has_ring)
        put_ring_functions(composer);
    if (has_ban)
        put_piece(composer, weir_lua_penalty_function);
}

void weir_redis_script_compose(struct weir_buffer *out, const struct weir_redis_shape *shape,
                               enum weir_redis_clock clock)
{
    struct composer composer = { .out = out, .shape = shape };
    put_piece(&composer,
              clock == WEIR_REDIS_OWN_CLOCK ? weir_lua_frame_clock : weir_lua_frame_clock_of_test);
    put_functions(&composer);
    put_reads(&composer);
    switch (shape->operation) {
    case WEIR_SPEND:
        compose_spend(&composer);
        break;
    case WEIR_SETTLE:
        compose_settle(&composer);
        break;
    case WEIR_RESET:
        compose_reset(&composer);
        break;
    default:
        compose_block(&composer);
        break;
    }
}
