/* The small readers that all parts use. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "policy/policy_json.h"
#include "policy/units.h"

/* places and errors */

static void put_key(struct weir_buffer *pointer, const char *key)
{
    for (; *key != '\0'; key++) {
        if (*key == '~')
            weir_buffer_put_string(pointer, "~0");
        else if (*key == '/')
            weir_buffer_put_string(pointer, "~1");
        else
            weir_buffer_put_char(pointer, *key);
    }
}

static void put_place(struct weir_buffer *pointer, const struct weir_place *place)
{
    if (place == NULL)
        return;
    put_place(pointer, place->up); /* as deep as this reader nests: six or so */
    weir_buffer_put_char(pointer, '/');
    if (place->key != NULL)
        put_key(pointer, place->key);
    else
        weir_buffer_put_number(pointer, place->index);
}

void weir_place_write(const struct weir_place *place, char *pointer, size_t size)
{
    struct weir_buffer buffer = weir_buffer_init(pointer, size);
    put_place(&buffer, place);
    pointer[buffer.length] = '\0';
}

enum weir_code weir_read_wrong(struct weir_reader *reader, const struct weir_place *place,
                               enum weir_code code, const char *format, ...)
{
    char text[sizeof reader->error->text];
    char pointer[sizeof reader->error->path];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weir_place_write(place, pointer, sizeof pointer);
    return weir_error_set(reader->error, code, pointer, "%s", text);
}

const char *weir_shown(const json_t *value, char *memory, size_t size)
{
    char *text = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(memory, size, "%s", text == NULL ? "nothing" : text);
    if (text != NULL && strlen(text) >= size && size > 4)
        memcpy(memory + size - 4, "...", 4);
    free(text);
    return memory;
}

enum weir_code weir_read_type(struct weir_reader *reader, const struct weir_place *place,
                              const json_t *value, const char *wanted)
{
    char found[64];
    return weir_read_wrong(reader, place, WEIR_E_TYPE, "The value is %s; it must be %s.",
                           weir_shown(value, found, sizeof found), wanted);
}

/* objects */

static size_t count_words(const char *const *words)
{
    size_t count = 0;
    while (words != NULL && words[count] != NULL)
        count++;
    return count;
}

static bool is_word(const char *const *words, const char *word)
{
    for (size_t i = 0; i < count_words(words); i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

static enum weir_code unknown_key(struct weir_reader *reader, const struct weir_place *place,
                                  const char *key, const char *const *known)
{
    const char *near = weir_suggest(weir_text_from(key), known, count_words(known));
    if (near != NULL)
        return weir_read_wrong(reader, WEIR_PLACE_KEY(place, key), WEIR_E_UNKNOWN_KEY,
                               "\"%s\" means nothing here; is \"%s\" meant?", key, near);

    char memory[200];
    struct weir_buffer list = weir_buffer_init(memory, sizeof memory);
    for (size_t i = 0; i < count_words(known); i++) {
        weir_buffer_put_string(&list, i == 0 ? "" : ", ");
        weir_buffer_put_string(&list, known[i]);
    }
    memory[list.length] = '\0';
    return weir_read_wrong(reader, WEIR_PLACE_KEY(place, key), WEIR_E_UNKNOWN_KEY,
                           "\"%s\" means nothing here; known are: %s.", key, memory);
}

enum weir_code weir_read_object(struct weir_reader *reader, const struct weir_place *place,
                                const json_t *value, const char *const *known,
                                const char *const *later)
{
    if (!json_is_object(value))
        return weir_read_type(reader, place, value, "an object");
    const char *key;
    json_t *member;
    /* The macro of jansson casts its constant away; nothing is changed. */
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (strcmp(key, "comment") == 0 || is_word(known, key))
            continue;
        if (is_word(later, key))
            return weir_read_wrong(reader, WEIR_PLACE_KEY(place, key), WEIR_E_NOT_YET,
                                   "\"%s\" arrives with a later version; leave it out.", key);
        return unknown_key(reader, place, key, known);
    }
    return WEIR_OK;
}

/* members */

enum weir_code weir_read_text(struct weir_reader *reader, const struct weir_place *place,
                              const json_t *object, const char *key, const char **text)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL)
        return WEIR_OK;
    if (json_is_string(value) && json_string_length(value) > 0) {
        *text = json_string_value(value);
        return WEIR_OK;
    }
    /* What may hold a secret is not shown, even where it is of the wrong kind. */
    if (strcmp(key, "url") == 0 || strcmp(key, "secret") == 0)
        return weir_read_wrong(reader, WEIR_PLACE_KEY(place, key), WEIR_E_TYPE,
                               "The value must be a text that is not empty.");
    return weir_read_type(reader, WEIR_PLACE_KEY(place, key), value, "a text that is not empty");
}

enum weir_code weir_read_bool(struct weir_reader *reader, const struct weir_place *place,
                              const json_t *object, const char *key, bool *value)
{
    const json_t *member = json_object_get(object, key);
    if (member == NULL)
        return WEIR_OK;
    if (!json_is_boolean(member))
        return weir_read_type(reader, WEIR_PLACE_KEY(place, key), member, "true or false");
    *value = json_is_true(member);
    return WEIR_OK;
}

enum weir_code weir_read_number(struct weir_reader *reader, const struct weir_place *place,
                                const json_t *object, const char *key, uint64_t least,
                                uint64_t most, uint64_t *number)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL)
        return WEIR_OK;
    if (!json_is_integer(value))
        return weir_read_type(reader, WEIR_PLACE_KEY(place, key), value, "a whole number");
    json_int_t found = json_integer_value(value);
    if (found < (json_int_t)least || found > (json_int_t)most)
        return weir_read_wrong(reader, WEIR_PLACE_KEY(place, key), WEIR_E_VALUE,
                               "The number is %" JSON_INTEGER_FORMAT "; it must be %llu to %llu.",
                               found, (unsigned long long)least, (unsigned long long)most);
    *number = (uint64_t)found;
    return WEIR_OK;
}

enum weir_code weir_read_word(struct weir_reader *reader, const struct weir_place *place,
                              const json_t *value, const char *const *words, size_t *index)
{
    char memory[160], found[64];
    const char *word = json_string_value(value);
    for (size_t i = 0; word != NULL && i < count_words(words); i++) {
        if (strcmp(words[i], word) != 0)
            continue;
        *index = i;
        return WEIR_OK;
    }

    struct weir_buffer list = weir_buffer_init(memory, sizeof memory);
    for (size_t i = 0; i < count_words(words); i++) {
        weir_buffer_put_string(&list, i == 0 ? "\"" : ", \"");
        weir_buffer_put_string(&list, words[i]);
        weir_buffer_put_char(&list, '"');
    }
    memory[list.length] = '\0';
    return weir_read_wrong(reader, place, word == NULL ? WEIR_E_TYPE : WEIR_E_VALUE,
                           "The value is %s; it must be one of %s.",
                           weir_shown(value, found, sizeof found), memory);
}

enum weir_code weir_read_member_word(struct weir_reader *reader, const struct weir_place *place,
                                     const json_t *object, const char *key,
                                     const char *const *words, size_t *index)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL)
        return WEIR_OK;
    return weir_read_word(reader, WEIR_PLACE_KEY(place, key), value, words, index);
}

enum weir_code weir_read_name(struct weir_reader *reader, const struct weir_place *place,
                              const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";
    size_t length = strlen(name);
    if (length >= 1 && length <= 64 && strspn(name, allowed) == length)
        return WEIR_OK;
    return weir_read_wrong(reader, place, WEIR_E_VALUE,
                           "The name is \"%.80s\"; it must be 1 to 64 letters, digits, \".\", "
                           "\"_\" or \"-\".",
                           name);
}

/* memory and the environment */

void *weir_read_alloc(struct weir_reader *reader, size_t count, size_t size)
{
    void *memory = weir_arena_array(reader->arena, count, size);
    if (memory == NULL)
        weir_error_set(reader->error, WEIR_E_MEMORY, NULL, "Out of memory.");
    return memory;
}

const char *weir_read_copy(struct weir_reader *reader, const char *text)
{
    const char *copy = weir_arena_copy(reader->arena, weir_text_from(text));
    if (copy == NULL)
        weir_error_set(reader->error, WEIR_E_MEMORY, NULL, "Out of memory.");
    return copy;
}

/* Appends the value of "${NAME}" at `*text` and moves behind it. */
static enum weir_code expand_one(struct weir_reader *reader, const struct weir_place *place,
                                 const char **text, struct weir_buffer *expanded)
{
    char name[128];
    const char *end = strchr(*text, '}');
    size_t length = end == NULL ? 0 : (size_t)(end - *text) - 2;
    if (length == 0 || length >= sizeof name)
        return weir_read_wrong(reader, place, WEIR_E_VALUE,
                               "\"${\" must be followed by a variable's name and \"}\".");
    memcpy(name, *text + 2, length);
    name[length] = '\0';
    const char *value = getenv(name);
    if (value == NULL)
        return weir_read_wrong(reader, place, WEIR_E_ENVIRONMENT,
                               "The environment variable %s is not set; export %s=... before "
                               "starting.",
                               name, name);
    weir_buffer_put_string(expanded, value);
    *text = end + 1;
    return WEIR_OK;
}

enum weir_code weir_read_expanded(struct weir_reader *reader, const struct weir_place *place,
                                  const char *text, const char **expanded)
{
    char memory[2048];
    struct weir_buffer buffer = weir_buffer_init(memory, sizeof memory);
    while (*text != '\0') {
        if (strncmp(text, "${", 2) != 0) {
            weir_buffer_put_char(&buffer, *text++);
            continue;
        }
        enum weir_code code = expand_one(reader, place, &text, &buffer);
        if (code != WEIR_OK)
            return code;
    }
    const char *whole = weir_buffer_string(&buffer);
    if (whole == NULL)
        return weir_read_wrong(reader, place, WEIR_E_VALUE, "The text is longer than %zu bytes.",
                               sizeof memory - 1);
    *expanded = weir_read_copy(reader, whole);
    return *expanded == NULL ? WEIR_E_MEMORY : WEIR_OK;
}

/* rates */

static bool says(const json_t *value, const char *word, bool *flag)
{
    if (flag == NULL || strcmp(json_string_value(value), word) != 0)
        return false;
    *flag = true;
    return true;
}

enum weir_code weir_read_rate(struct weir_reader *reader, const struct weir_place *place,
                              const json_t *value, uint64_t burst, struct weir_rate *rate,
                              bool *unlimited, bool *plan)
{
    const char *wanted = "a rate such as \"100/minute\", \"10/15minutes\" or \"5/250ms\"";
    if (!json_is_string(value))
        return weir_read_type(reader, place, value, wanted);
    if (says(value, "unlimited", unlimited) || says(value, "plan", plan))
        return WEIR_OK;

    struct weir_rate_text text;
    char found[64];
    if (!weir_rate_text_parse(weir_text_from(json_string_value(value)), &text))
        return weir_read_wrong(reader, place, WEIR_E_VALUE, "The rate is %s; it must be %s.",
                               weir_shown(value, found, sizeof found), wanted);
    if (text.calendar_unit != NULL)
        return weir_read_wrong(reader, place, WEIR_E_NOT_YET,
                               "A window of a %s needs a calendar, which arrives with a later "
                               "version; write it in days.",
                               text.calendar_unit);

    struct weir_error why = WEIR_NO_ERROR;
    if (weir_rate_make(text.limit, text.window_us, burst, rate, &why) != WEIR_OK)
        return weir_read_wrong(reader, place, why.code, "The rate is %s: %s",
                               weir_shown(value, found, sizeof found), why.text);
    return WEIR_OK;
}
