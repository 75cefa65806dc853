#include "identity/api_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <sodium.h>

#include "base/buffer.h"
#include "base/suggest.h"
#include "identity/api_keys_seen.h"

#define ID_MAX         64
#define NAME_BYTES_MAX 255
#define POINTER_CHARS  160

struct weir_keyring {
    json_t *root; /* owned; the keys' texts are its strings */
    struct weir_api_key *keys;
    size_t count;
    size_t *slots;     /* hash table: index of a key + 1, or 0 for an empty slot */
    size_t slot_count; /* a power of two, at least twice `count`                 */
    struct weir_seen seen;
};

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static enum weir_code out_of_memory(struct weir_error *error)
{
    return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

/* finding */

/* A SHA-256 digest is as good as random, so any of its bytes make a hash. */
static size_t first_slot(const struct weir_keyring *ring, const uint8_t digest[WEIR_SHA256_BYTES])
{
    uint64_t hash;
    memcpy(&hash, digest, sizeof hash);
    return (size_t)hash & (ring->slot_count - 1);
}

/* The slot that holds the digest, or the empty one where it belongs; there is always one. */
static size_t *find_slot(const struct weir_keyring *ring, const uint8_t digest[WEIR_SHA256_BYTES])
{
    size_t at = first_slot(ring, digest);
    while (ring->slots[at] != 0
           && sodium_memcmp(ring->keys[ring->slots[at] - 1].digest, digest, WEIR_SHA256_BYTES) != 0)
        at = (at + 1) & (ring->slot_count - 1);
    return &ring->slots[at];
}

const struct weir_api_key *weir_keyring_find(struct weir_keyring *ring, struct weir_text presented)
{
    uint8_t digest[WEIR_SHA256_BYTES];
    if (ring == NULL || presented.length == 0)
        return NULL;
    const struct weir_seen_tag tag = weir_seen_tag(&ring->seen, presented);
    size_t index = weir_seen_find(&ring->seen, &tag);
    if (index != WEIR_NOT_SEEN)
        return &ring->keys[index];

    weir_sha256(presented, digest);
    size_t slot = *find_slot(ring, digest);
    if (slot == 0)
        return NULL;
    weir_seen_note(&ring->seen, &tag, slot - 1);
    return &ring->keys[slot - 1];
}

size_t weir_keyring_count(const struct weir_keyring *ring)
{
    return ring->count;
}

const struct weir_api_key *weir_keyring_at(const struct weir_keyring *ring, size_t index)
{
    return index < ring->count ? &ring->keys[index] : NULL;
}

struct weir_keyring *weir_keyring_free(struct weir_keyring *ring)
{
    if (ring == NULL)
        return NULL;
    json_decref(ring->root);
    free(ring->keys);
    free(ring->slots);
    weir_seen_finish(&ring->seen);
    free(ring);
    return NULL;
}

static void drop_ring(struct weir_keyring **ring)
{
    weir_keyring_free(*ring);
}

/* naming what is wrong */

/* Adds "/name" to a JSON Pointer (RFC 6901 section 3). */
static void put_step(struct weir_buffer *pointer, const char *name)
{
    weir_buffer_put_char(pointer, '/');
    for (; *name != '\0'; name++) {
        if (*name == '~')
            weir_buffer_put_string(pointer, "~0");
        else if (*name == '/')
            weir_buffer_put_string(pointer, "~1");
        else
            weir_buffer_put_char(pointer, *name);
    }
}

/* Writes the pointer to a member; to what it is in, where that would be too long. */
static const char *pointer_to(const char *parent, const char *name, char memory[POINTER_CHARS])
{
    struct weir_buffer pointer = weir_buffer_init(memory, POINTER_CHARS);
    weir_buffer_put_string(&pointer, parent);
    put_step(&pointer, name);
    return pointer.full ? parent : weir_buffer_string(&pointer);
}

static const char *kind_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}

/* Refuses members that mean nothing; "comment" is allowed everywhere. What such a member holds is
 * not shown: it may be the key itself. */
static enum weir_code check_members(json_t *object, const char *const *known, size_t count,
                                    const char *parent, struct weir_error *error)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        bool is_known = strcmp(name, "comment") == 0;
        for (size_t i = 0; i < count; i++)
            is_known = is_known || strcmp(name, known[i]) == 0;
        if (is_known)
            continue;

        char memory[POINTER_CHARS];
        const char *pointer = pointer_to(parent, name, memory);
        const char *meant = weir_suggest(weir_text_from(name), known, count);
        if (meant != NULL)
            return weir_error_set(error, WEIR_E_UNKNOWN_KEY, pointer,
                                  "\"%.60s\" means nothing here; did you mean \"%s\"?", name,
                                  meant);
        return weir_error_set(
            error, WEIR_E_UNKNOWN_KEY, pointer, "\"%.60s\" means nothing here; wanted is %s.", name,
            count == 1 ? "\"keys\"" : "\"id\", \"sha256\", \"user\", \"tenant\" or \"plan\"");
    }
    return WEIR_OK;
}

/* one member */

/* A member that must be a string; "" where it is missing and may be. */
static enum weir_code read_string(const json_t *object, const char *name, bool is_needed,
                                  const char *parent, const char **string, struct weir_error *error)
{
    char memory[POINTER_CHARS];
    const json_t *value = json_object_get(object, name);
    *string = "";
    if (value == NULL && is_needed)
        return weir_error_set(error, WEIR_E_MISSING, parent, "The key has no \"%s\".", name);
    if (value == NULL)
        return WEIR_OK;
    if (!json_is_string(value))
        return weir_error_set(error, WEIR_E_TYPE, pointer_to(parent, name, memory),
                              "\"%s\" is %s; wanted is a string.", name, kind_of(value));
    *string = json_string_value(value);
    return WEIR_OK;
}

static bool is_id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.'
           || c == '_' || c == '-';
}

static bool is_id(const char *string)
{
    size_t length = strlen(string);
    for (size_t i = 0; i < length; i++)
        if (!is_id_char(string[i]))
            return false;
    return length >= 1 && length <= ID_MAX;
}

static enum weir_code read_id(const json_t *object, const char *parent, const char **id,
                              struct weir_error *error)
{
    char memory[POINTER_CHARS];
    enum weir_code code = read_string(object, "id", true, parent, id, error);
    if (code == WEIR_OK && !is_id(*id))
        return weir_error_set(error, WEIR_E_VALUE, pointer_to(parent, "id", memory),
                              "\"%.80s\" is no id; wanted are 1 to 64 of the characters "
                              "A-Z a-z 0-9 . _ -",
                              *id);
    return code;
}

static bool read_digest(const char *hex, uint8_t digest[WEIR_SHA256_BYTES])
{
    size_t length = strlen(hex), written;
    return length == 2 * (size_t)WEIR_SHA256_BYTES
           && sodium_hex2bin(digest, WEIR_SHA256_BYTES, hex, length, NULL, &written, NULL) == 0
           && written == WEIR_SHA256_BYTES;
}

static enum weir_code read_sha256(const json_t *object, const char *parent,
                                  uint8_t digest[WEIR_SHA256_BYTES], struct weir_error *error)
{
    char memory[POINTER_CHARS];
    const char *hex;
    enum weir_code code = read_string(object, "sha256", true, parent, &hex, error);
    /* Not shown, for the most likely mistake is to put the key itself here. */
    if (code == WEIR_OK && !read_digest(hex, digest))
        return weir_error_set(error, WEIR_E_VALUE, pointer_to(parent, "sha256", memory),
                              "The value has %zu characters and is no SHA-256; wanted are the 64 "
                              "hexadecimal digits of the key's hash.",
                              strlen(hex));
    return code;
}

static bool is_name(const char *string)
{
    size_t length = strlen(string);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)string[i] < 0x20 || string[i] == 0x7F)
            return false;
    return length >= 1 && length <= NAME_BYTES_MAX;
}

static enum weir_code read_name(const json_t *object, const char *name, const char *parent,
                                const char **string, struct weir_error *error)
{
    char memory[POINTER_CHARS];
    enum weir_code code = read_string(object, name, false, parent, string, error);
    if (code == WEIR_OK && json_object_get(object, name) != NULL && !is_name(*string))
        return weir_error_set(error, WEIR_E_VALUE, pointer_to(parent, name, memory),
                              "\"%s\" has %zu bytes; wanted are 1 to 255, without control "
                              "characters.",
                              name, strlen(*string));
    return code;
}

/* one key */

static enum weir_code read_members(json_t *object, const char *parent, struct weir_api_key *key,
                                   struct weir_error *error)
{
    static const char *const known[] = { "id", "sha256", "user", "tenant", "plan" };
    enum weir_code code = check_members(object, known, COUNT_OF(known), parent, error);
    if (code == WEIR_OK)
        code = read_id(object, parent, &key->id, error);
    if (code == WEIR_OK)
        code = read_sha256(object, parent, key->digest, error);
    if (code == WEIR_OK)
        code = read_name(object, "user", parent, &key->user, error);
    if (code == WEIR_OK)
        code = read_name(object, "tenant", parent, &key->tenant, error);
    if (code == WEIR_OK)
        code = read_name(object, "plan", parent, &key->plan, error);
    return code;
}

/* `ids` are those seen so far, each with the index of its key. */
static enum weir_code note_id(json_t *ids, const char *id, size_t index, const char *parent,
                              struct weir_error *error)
{
    char memory[POINTER_CHARS];
    const json_t *earlier = json_object_get(ids, id);
    if (earlier != NULL)
        return weir_error_set(error, WEIR_E_VALUE, pointer_to(parent, "id", memory),
                              "\"%s\" is the id of /keys/%" JSON_INTEGER_FORMAT
                              " too; wanted is one of its own.",
                              id, json_integer_value(earlier));
    if (json_object_set_new(ids, id, json_integer((json_int_t)index)) != 0)
        return out_of_memory(error);
    return WEIR_OK;
}

static enum weir_code note_digest(struct weir_keyring *ring, size_t index, const char *parent,
                                  struct weir_error *error)
{
    char memory[POINTER_CHARS];
    size_t *slot = find_slot(ring, ring->keys[index].digest);
    if (*slot != 0)
        return weir_error_set(error, WEIR_E_VALUE, pointer_to(parent, "sha256", memory),
                              "This is the hash of /keys/%zu too; a key can stand for one "
                              "client only.",
                              *slot - 1);
    *slot = index + 1;
    return WEIR_OK;
}

static enum weir_code read_key(struct weir_keyring *ring, json_t *ids, json_t *object,
                               struct weir_error *error)
{
    char parent[32];
    size_t index = ring->count;
    snprintf(parent, sizeof parent, "/keys/%zu", index);
    if (!json_is_object(object))
        return weir_error_set(error, WEIR_E_TYPE, parent, "A key is %s; wanted is an object.",
                              kind_of(object));

    struct weir_api_key *key = &ring->keys[index];
    enum weir_code code = read_members(object, parent, key, error);
    if (code == WEIR_OK)
        code = note_id(ids, key->id, index, parent, error);
    if (code == WEIR_OK)
        code = note_digest(ring, index, parent, error);
    if (code == WEIR_OK)
        ring->count++;
    return code;
}

/* the file */

static bool make_room(struct weir_keyring *ring, size_t count)
{
    ring->slot_count = 2;
    while (ring->slot_count < 2 * count)
        ring->slot_count *= 2;
    ring->slots = calloc(ring->slot_count, sizeof *ring->slots);
    ring->keys = calloc(count > 0 ? count : 1, sizeof *ring->keys);
    return ring->slots != NULL && ring->keys != NULL
           && weir_seen_init(&ring->seen, count, ring->slot_count);
}

static enum weir_code read_keys(struct weir_keyring *ring, const json_t *keys,
                                struct weir_error *error)
{
    json_auto_t *ids = json_object();
    if (ids == NULL || !make_room(ring, json_array_size(keys)))
        return out_of_memory(error);

    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < json_array_size(keys) && code == WEIR_OK; i++)
        code = read_key(ring, ids, json_array_get(keys, i), error);
    return code;
}

static enum weir_code read_root(struct weir_keyring *ring, struct weir_error *error)
{
    static const char *const known[] = { "keys" };
    if (!json_is_object(ring->root))
        return weir_error_set(error, WEIR_E_TYPE, NULL,
                              "The file holds %s; wanted is an object with \"keys\".",
                              kind_of(ring->root));

    enum weir_code code = check_members(ring->root, known, COUNT_OF(known), "", error);
    if (code != WEIR_OK)
        return code;
    const json_t *keys = json_object_get(ring->root, "keys");
    if (keys == NULL)
        return weir_error_set(error, WEIR_E_MISSING, NULL, "The file has no \"keys\".");
    if (!json_is_array(keys))
        return weir_error_set(error, WEIR_E_TYPE, "/keys", "\"keys\" is %s; wanted is an array.",
                              kind_of(keys));
    return read_keys(ring, keys, error);
}

/* Takes `root`, also when it fails. */
static enum weir_code make_ring(json_t *root, struct weir_keyring **ring, struct weir_error *error)
{
    __attribute__((cleanup(drop_ring))) struct weir_keyring *made = calloc(1, sizeof *made);
    if (made == NULL) {
        json_decref(root);
        return out_of_memory(error);
    }
    made->root = root;
    if (!weir_hash_start())
        return weir_error_set(error, WEIR_E_SYSTEM, NULL, "libsodium cannot be started.");

    enum weir_code code = read_root(made, error);
    if (code != WEIR_OK)
        return code;
    *ring = made;
    made = NULL;
    return WEIR_OK;
}

/* What jansson says, without the piece of the file that it quotes: that may be a key. */
static enum weir_code json_failed(const json_error_t *why, struct weir_error *error)
{
    if (json_error_code(why) == json_error_out_of_memory)
        return out_of_memory(error);

    const char *quote = strstr(why->text, " near ");
    int length = quote == NULL ? (int)strlen(why->text) : (int)(quote - why->text);
    bool is_first = error != NULL && error->code == WEIR_OK;
    weir_error_set(error, WEIR_E_JSON, NULL, "The file is not JSON: %.*s.", length, why->text);
    if (is_first) {
        error->line = why->line;
        error->column = why->column;
    }
    return WEIR_E_JSON;
}

enum weir_code weir_keyring_parse(struct weir_text json, struct weir_keyring **ring,
                                  struct weir_error *error)
{
    json_error_t why;
    json_t *root =
        json_loadb(json.at == NULL ? "" : json.at, json.length, JSON_REJECT_DUPLICATES, &why);
    return root == NULL ? json_failed(&why, error) : make_ring(root, ring, error);
}

static void close_file(FILE **file)
{
    if (*file != NULL)
        fclose(*file);
}

enum weir_code weir_keyring_load(const char *file, struct weir_file_stamp *stamp,
                                 struct weir_keyring **ring, struct weir_error *error)
{
    json_error_t why;
    __attribute__((cleanup(close_file))) FILE *stream = NULL;
    enum weir_code code = weir_file_open(file, &stream, stamp, error);
    if (code != WEIR_OK)
        return code;
    json_t *root = json_loadf(stream, JSON_REJECT_DUPLICATES, &why);
    /* jansson takes what cannot be read for an empty file. */
    if (root == NULL && ferror(stream))
        return weir_file_failed(file, error);
    return root == NULL ? json_failed(&why, error) : make_ring(root, ring, error);
}
