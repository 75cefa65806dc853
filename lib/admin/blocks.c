#include "admin/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "limit/limiter_internal.h"

#define NAME "blocks"

/* How often a change is tried anew, when others have changed the list meanwhile. */
#define TRIES 16

#define ID_CHARS 8

_Static_assert(WEIR_TEXT_MARK_BYTES <= WEIR_LABEL_CHARS, "a label is long enough to be a mark");

/* The list as it was read. */
struct list {
    struct weir_limiter *limiter;
    json_t *blocks; /* owned; those that have not ended */
    uint64_t now_us;
    bool has_mark;   /* something is kept               */
    bool has_failed; /* memory ran out while it changed */
    char mark[WEIR_TEXT_MARK_BYTES];
};

static enum weir_code out_of_memory(struct weir_error *error)
{
    return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

/* reading */

static uint64_t until_s(const json_t *block)
{
    json_int_t until = json_integer_value(json_object_get(block, "until"));
    return until > 0 ? (uint64_t)until : 0;
}

/* What is shown of a block must not steer the terminal or the log that it is shown in. */
static bool is_harmless(const json_t *text)
{
    struct weir_text rest = { json_string_value(text), json_string_length(text) };
    while (rest.length > 0) {
        size_t length = weir_utf8_length(rest);
        if (length == 0 || weir_is_control(rest.at, length))
            return false;
        rest.at += length;
        rest.length -= length;
    }
    return true;
}

static bool has_texts(const json_t *block)
{
    static const char *const names[] = { "id", "policy", "key", "limit", "by", "reason" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *text = json_object_get(block, names[i]);
        bool may_be_absent = i > 2;
        if (text == NULL ? !may_be_absent : !json_is_string(text) || !is_harmless(text))
            return false;
    }
    return true;
}

/* What one of another version, or somebody else, has written there is passed over. */
static bool is_block(const json_t *block)
{
    const json_t *keys = json_object_get(block, "keys"), *key;
    size_t index;
    if (!has_texts(block) || json_array_size(keys) == 0
        || json_array_size(keys) > WEIR_CHECK_LIMITS)
        return false;
    json_array_foreach(keys, index, key)
    {
        if (!json_is_string(json_array_get(key, 0)) || !json_is_string(json_array_get(key, 1))
            || !json_is_integer(json_array_get(key, 2)) || !json_is_integer(json_array_get(key, 3)))
            return false;
    }
    return true;
}

/* NULL: it is no list, or memory ran out (which jansson does not always tell apart). */
static json_t *parse(const char *text, size_t length, uint64_t now_us)
{
    json_t *all = json_loadb(text, length, 0, NULL), *blocks = json_array(), *block;
    bool is_whole = json_is_array(all);
    size_t index;
    json_array_foreach(all, index, block)
    {
        if (is_block(block) && until_s(block) * 1000000 > now_us)
            is_whole = json_array_append(blocks, block) == 0 && is_whole;
    }
    json_decref(all);
    if (is_whole)
        return blocks;
    json_decref(blocks);
    return NULL;
}

/* Takes in what the store has found. What cannot be read must not pass for an empty list, or the next
 * change would put one in its place. */
static enum weir_code take_in(struct list *list, const struct weir_exchange *found,
                              struct weir_error *error)
{
    size_t length = found->found_length;
    json_decref(list->blocks);
    list->has_mark = length >= WEIR_TEXT_MARK_BYTES;
    if (list->has_mark)
        memcpy(list->mark, found->found, WEIR_TEXT_MARK_BYTES);
    list->blocks = length == 0 ? json_array() : NULL;
    if (list->has_mark)
        list->blocks =
            parse(found->found + WEIR_TEXT_MARK_BYTES, length - WEIR_TEXT_MARK_BYTES, list->now_us);
    if (list->blocks != NULL)
        return WEIR_OK;
    return length == 0
               ? out_of_memory(error)
               : weir_error_set(error, WEIR_E_STORE_ERROR, NULL,
                                "What the store keeps as PREFIX::blocks cannot be read: if "
                                "it is no list of blocks, remove it and block anew. A reset "
                                "ends the block of a client all the same.");
}

static enum weir_code exchange(struct list *list, struct weir_exchange *exchanged,
                               struct weir_error *error)
{
    exchanged->found = malloc(WEIR_TEXT_BYTES_MAX);
    if (exchanged->found == NULL)
        return out_of_memory(error);
    enum weir_code code =
        weir_limiter_exchange(list->limiter, NAME, exchanged, &list->now_us, error);
    if (code == WEIR_OK)
        code = take_in(list, exchanged, error);
    free(exchanged->found);
    exchanged->found = NULL;
    return code;
}

enum weir_code weir_blocks_read(struct weir_limiter *limiter, json_t **blocks, uint64_t *now_us,
                                struct weir_error *error)
{
    struct list list = { .limiter = limiter };
    struct weir_exchange look = { .text = NULL };
    enum weir_code code = exchange(&list, &look, error);
    if (code != WEIR_OK) {
        json_decref(list.blocks);
        return code;
    }
    *blocks = list.blocks;
    *now_us = list.now_us;
    return WEIR_OK;
}

bool weir_block_has_key(const json_t *block, const char *key, size_t length)
{
    const json_t *own;
    size_t index;
    json_array_foreach(json_object_get(block, "keys"), index, own)
    {
        const json_t *text = json_array_get(own, 1);
        if (json_string_length(text) == length && memcmp(json_string_value(text), key, length) == 0)
            return true;
    }
    return false;
}

/* writing */

/* How long the list matters: until its last block has ended. */
static uint64_t keep_us(const json_t *blocks, uint64_t now_us)
{
    uint64_t last_s = now_us / 1000000 + 1;
    const json_t *block;
    size_t index;
    json_array_foreach(blocks, index, block)
    {
        if (until_s(block) > last_s)
            last_s = until_s(block);
    }
    uint64_t keep = last_s * 1000000 - now_us;
    return keep < WEIR_BURST_MAX_US ? keep : WEIR_BURST_MAX_US;
}

/* The list behind a new mark; NULL: it does not fit, or memory ran out. */
static char *print(const json_t *blocks, size_t *length)
{
    char mark[WEIR_LABEL_CHARS + 1];
    size_t size = json_dumpb(blocks, NULL, 0, JSON_COMPACT);
    *length = WEIR_TEXT_MARK_BYTES + size;
    bool fits = size > 0 && *length <= WEIR_TEXT_BYTES_MAX;
    char *text = fits ? malloc(*length) : NULL;
    if (text == NULL)
        return NULL;
    weir_random_label(mark);
    memcpy(text, mark, WEIR_TEXT_MARK_BYTES);
    if (json_dumpb(blocks, text + WEIR_TEXT_MARK_BYTES, size, JSON_COMPACT) == size)
        return text;
    free(text);
    return NULL;
}

/* Puts list->blocks in the place of what was read. `is_put` false: somebody else was quicker, and the
 * list is now theirs. */
static enum weir_code write_back(struct list *list, bool *is_put, struct weir_error *error)
{
    char before[WEIR_TEXT_MARK_BYTES];
    bool had_mark = list->has_mark;
    memcpy(before, list->mark, sizeof before);
    size_t count = json_array_size(list->blocks), length = 0;
    char *text = count == 0 ? strdup("") : print(list->blocks, &length);
    if (text == NULL && length <= WEIR_TEXT_BYTES_MAX)
        return out_of_memory(error);
    if (text == NULL)
        return weir_error_set(error, WEIR_E_STATE, NULL,
                              "The list has %zu blocks, and no room for one more: unblock some, or "
                              "name them in the policy's \"deny\".",
                              count - 1);
    struct weir_exchange put = { .expected = had_mark ? before : NULL,
                                 .text = text,
                                 .length = length,
                                 .keep_us = keep_us(list->blocks, list->now_us) };
    enum weir_code code = exchange(list, &put, error);
    *is_put =
        list->has_mark == had_mark && (!had_mark || memcmp(list->mark, before, sizeof before) == 0);
    free(text);
    return code;
}

/* Reads the list, changes it, and puts it back, until nobody else comes in between. */
static enum weir_code change(struct weir_limiter *limiter,
                             bool (*apply)(struct list *list, void *self), void *self,
                             struct weir_error *error)
{
    struct list list = { .limiter = limiter };
    struct weir_exchange look = { .text = NULL };
    bool is_put = false;
    enum weir_code code = exchange(&list, &look, error);
    for (int n = 0; n < TRIES && code == WEIR_OK && !is_put; n++) {
        bool has_changed = apply(&list, self);
        if (list.has_failed)
            code = out_of_memory(error);
        else if (has_changed)
            code = write_back(&list, &is_put, error);
        else
            is_put = true; /* there is nothing to change */
    }
    json_decref(list.blocks);
    if (code == WEIR_OK && !is_put)
        return weir_error_set(error, WEIR_E_STORE_ERROR, NULL,
                              "Others change the list of blocks all the time; try again.");
    return code;
}

/* taking keys out */

static bool has_text(const json_t *texts, const char *wanted)
{
    const json_t *text;
    size_t index;
    json_array_foreach(texts, index, text)
    {
        if (strcmp(json_string_value(text), wanted) == 0)
            return true;
    }
    return false;
}

/* Returns how many keys a block has lost. */
static size_t drop_keys(json_t *block, const json_t *keys)
{
    json_t *own = json_object_get(block, "keys");
    size_t before = json_array_size(own);
    for (size_t i = before; i-- > 0;)
        if (has_text(keys, json_string_value(json_array_get(json_array_get(own, i), 1))))
            json_array_remove(own, i);
    return before - json_array_size(own);
}

struct removal {
    const json_t *keys;
    size_t count; /* of blocks that have gone */
};

/* False: none of them had any of these keys. */
static bool remove_keys(struct list *list, void *self)
{
    struct removal *removal = self;
    size_t dropped = 0;
    removal->count = 0;
    for (size_t i = json_array_size(list->blocks); i-- > 0;) {
        json_t *block = json_array_get(list->blocks, i);
        dropped += drop_keys(block, removal->keys);
        if (json_array_size(json_object_get(block, "keys")) > 0)
            continue;
        json_array_remove(list->blocks, i);
        removal->count++;
    }
    return dropped > 0;
}

enum weir_code weir_blocks_remove(struct weir_limiter *limiter, const json_t *keys, size_t *count,
                                  struct weir_error *error)
{
    struct removal removal = { .keys = keys };
    enum weir_code code = change(limiter, remove_keys, &removal, error);
    if (code == WEIR_OK && count != NULL)
        *count = removal.count;
    return code;
}

/* adding one */

struct addition {
    json_t *block;
    json_t *keys; /* of it, as texts */
    uint64_t seconds;
};

static bool add(struct list *list, void *self)
{
    struct addition *addition = self;
    struct removal same = { .keys = addition->keys };
    uint64_t now_s = list->now_us / 1000000;
    char id[WEIR_LABEL_CHARS + 1];
    weir_random_label(id);
    remove_keys(list, &same);
    list->has_failed =
        json_object_set_new(addition->block, "id", json_stringn(id, ID_CHARS)) != 0
        || json_object_set_new(addition->block, "at", json_integer((json_int_t)now_s)) != 0
        || json_object_set_new(addition->block, "until",
                               json_integer((json_int_t)(now_s + addition->seconds)))
               != 0
        || json_array_append(list->blocks, addition->block) != 0;
    return true;
}

enum weir_code weir_blocks_add(struct weir_limiter *limiter, json_t *block, uint64_t seconds,
                               struct weir_error *error)
{
    struct addition addition = { .block = block, .keys = json_array(), .seconds = seconds };
    const json_t *own = json_object_get(block, "keys"), *key;
    size_t index;
    json_array_foreach(own, index, key)
    {
        json_array_append(addition.keys, json_array_get(key, 1));
    }
    enum weir_code code = json_array_size(addition.keys) != json_array_size(own)
                              ? out_of_memory(error)
                              : change(limiter, add, &addition, error);
    json_decref(addition.keys);
    return code;
}
