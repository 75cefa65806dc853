#include <string.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/suggest.h"
#include "policy/policy_json.h"

#define NAMES_MAX 32 /* members of one object, or words that one value may be */

/* objects */

static bool is_member(const struct weir_member *members, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(members[i].name, name) == 0)
            return true;
    return false;
}

/* Writes '"this", "that" or "the other"'; NULL: they do not fit. */
static const char *list_names(const char *const *names, size_t count, char *memory, size_t size)
{
    struct weir_buffer list = weir_buffer_init(memory, size);
    for (size_t i = 0; i < count; i++) {
        weir_buffer_put_string(&list, i == 0 ? "\"" : i + 1 == count ? " or \"" : ", \"");
        weir_buffer_put_string(&list, names[i]);
        weir_buffer_put_char(&list, '"');
    }
    return weir_buffer_string(&list);
}

static enum weir_code refuse_name(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct weir_member *members, size_t count)
{
    const char *names[NAMES_MAX];
    char list[200];
    const char *shown = place->name;
    for (size_t i = 0; i < count; i++)
        names[i] = members[i].name;

    const char *meant = weir_suggest(weir_text_from(place->name), names, count);
    if (meant != NULL)
        return weir_refuse(reader, place, WEIR_E_UNKNOWN_KEY,
                           "\"%.60s\" means nothing here; did you mean \"%s\"?", shown, meant);
    const char *known = list_names(names, count, list, sizeof list);
    return weir_refuse(reader, place, WEIR_E_UNKNOWN_KEY, "\"%.60s\" means nothing here%s%s.",
                       shown, known == NULL ? "" : "; wanted is ", known == NULL ? "" : known);
}

static enum weir_code check_members(const struct weir_reader *reader,
                                    const struct weir_place *place,
                                    const struct weir_member *members, size_t count)
{
    const char *name;
    json_t *value;
    json_object_foreach(place->value, name, value)
    {
        const struct weir_place at = { place, name, 0, value };
        if (strcmp(name, "comment") == 0)
            continue;
        if (!is_member(members, count, name))
            return refuse_name(reader, &at, members, count);
    }
    for (size_t i = 0; i < count; i++)
        if (members[i].is_needed && json_object_get(place->value, members[i].name) == NULL)
            return weir_refuse(reader, place, WEIR_E_MISSING, "\"%s\" is missing.",
                               members[i].name);
    return WEIR_OK;
}

enum weir_code weir_read_members(struct weir_reader *reader, const struct weir_place *place,
                                 const struct weir_member *members, size_t count, void *into)
{
    if (!json_is_object(place->value))
        return weir_refuse_type(reader, place, "an object");
    enum weir_code code = check_members(reader, place, members, count);
    for (size_t i = 0; i < count && code == WEIR_OK; i++) {
        const struct weir_place at = weir_place_member(place, members[i].name);
        if (at.value != NULL && members[i].read != NULL)
            code = members[i].read(reader, &at, into);
    }
    return code;
}

/* words */

static enum weir_code refuse_word(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct weir_choice *choices, size_t count)
{
    const char *names[NAMES_MAX];
    char list[200];
    for (size_t i = 0; i < count; i++)
        names[i] = choices[i].name;
    const char *known = list_names(names, count, list, sizeof list);
    if (!json_is_string(place->value))
        return weir_refuse_type(reader, place, known);

    struct weir_text word = weir_text_from(json_string_value(place->value));
    const char *meant = weir_suggest(word, names, count);
    if (meant != NULL)
        return weir_refuse(reader, place, WEIR_E_VALUE, "The value is %s; did you mean \"%s\"?",
                           weir_show(place->value).text, meant);
    return weir_refuse_value(reader, place, known);
}

enum weir_code weir_read_choice(const struct weir_reader *reader, const struct weir_place *place,
                                const struct weir_choice *choices, size_t count, int *chosen)
{
    const char *word = json_string_value(place->value);
    for (size_t i = 0; word != NULL && i < count; i++) {
        if (strcmp(word, choices[i].name) != 0)
            continue;
        *chosen = choices[i].value;
        return WEIR_OK;
    }
    return refuse_word(reader, place, choices, count);
}

/* numbers and the like */

enum weir_code weir_read_integer(const struct weir_reader *reader, const struct weir_place *place,
                                 uint64_t least, uint64_t most, uint64_t *number)
{
    char wanted[80];
    snprintf(wanted, sizeof wanted, "a whole number from %llu to %llu", (unsigned long long)least,
             (unsigned long long)most);
    if (!json_is_number(place->value))
        return weir_refuse_type(reader, place, wanted);
    json_int_t value = json_integer_value(place->value);
    if (!json_is_integer(place->value) || value < 0 || (uint64_t)value < least
        || (uint64_t)value > most)
        return weir_refuse_value(reader, place, wanted);
    *number = (uint64_t)value;
    return WEIR_OK;
}

enum weir_code weir_read_bool(struct weir_reader *reader, const struct weir_place *place,
                              void *into)
{
    if (!json_is_boolean(place->value))
        return weir_refuse_type(reader, place, "true or false");
    *(bool *)into = json_is_true(place->value);
    return WEIR_OK;
}

/* texts */

enum weir_code weir_read_text(const struct weir_reader *reader, const struct weir_place *place,
                              const char *wanted, struct weir_text *text)
{
    if (!json_is_string(place->value))
        return weir_refuse_type(reader, place, wanted);
    if (json_string_length(place->value) == 0)
        return weir_refuse_value(reader, place, wanted);
    *text = weir_text_from(json_string_value(place->value));
    return WEIR_OK;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.'
           || c == '_' || c == '-';
}

enum weir_code weir_check_name(const struct weir_reader *reader, const struct weir_place *place,
                               const char *name)
{
    size_t length = strlen(name);
    bool is_name = length >= 1 && length <= 64;
    for (size_t i = 0; i < length; i++)
        is_name = is_name && is_name_char(name[i]);
    if (is_name)
        return WEIR_OK;
    return weir_refuse(reader, place, WEIR_E_VALUE,
                       "\"%.80s\" is no name; wanted are 1 to 64 of the characters A-Z a-z 0-9 . "
                       "_ -",
                       name);
}

enum weir_code weir_keep_text(const struct weir_reader *reader, struct weir_text text,
                              const char **kept)
{
    const char *copy = weir_arena_copy(reader->policy->arena, text);
    if (copy == NULL)
        return weir_refuse_memory(reader);
    *kept = copy;
    return WEIR_OK;
}

enum weir_code weir_keep_file_name(const struct weir_reader *reader, struct weir_text name,
                                   const char **path)
{
    struct weir_text folder = weir_text_from(reader->directory);
    if (folder.length == 0 || name.at[0] == '/')
        return weir_keep_text(reader, name, path);

    size_t size = folder.length + 1 + name.length + 1;
    char *joined = weir_arena_array(reader->policy->arena, size, 1);
    if (joined == NULL)
        return weir_refuse_memory(reader);
    snprintf(joined, size, "%s/%s", reader->directory, name.at);
    *path = joined;
    return WEIR_OK;
}

enum weir_code weir_read_header_name(struct weir_reader *reader, const struct weir_place *place,
                                     void *into)
{
    static const char *const wanted = "the name of a header line, such as \"X-API-Key\"";
    struct weir_text name;
    const char *kept = NULL;
    enum weir_code code = weir_read_text(reader, place, wanted, &name);
    for (size_t i = 0; code == WEIR_OK && i < name.length; i++)
        if (!weir_is_token_char(name.at[i]))
            code = weir_refuse_value(reader, place, wanted);
    if (code == WEIR_OK)
        code = weir_keep_text(reader, name, &kept);
    if (code == WEIR_OK)
        *(struct weir_text *)into = weir_text_from(kept);
    return code;
}
