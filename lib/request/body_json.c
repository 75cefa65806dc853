/* application/json: members of an object. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "request/body_fields.h"

/* Whole numbers up to here are exact as a double. */
#define EXACT_MAX 9007199254740992.0

/* The texts of a body may be passwords. Nesting is bounded by jansson (JSON_PARSER_MAX_DEPTH). */
static void wipe(json_t *value)
{
    const char *name;
    json_t *member;
    size_t index;
    if (json_is_string(value))
        explicit_bzero((void *)(uintptr_t)json_string_value(value), json_string_length(value));
    json_object_foreach(value, name, member) wipe(member);
    json_array_foreach(value, index, member) wipe(member);
}

/* Takes the member of that name, NULL for none. False: one that differs in letter case is there, and
 * is the same to some. */
static bool take_member(json_t *object, struct weir_text name, json_t **member)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        struct weir_text text = weir_text_from(key);
        if (weir_text_equal_fold(text, name) && !weir_text_equal(text, name))
            return false;
    }
    *member = json_object_getn(object, name.at, name.length);
    return true;
}

/* Follows "user.name". False: what stands in front of a dot is no object, or is there twice. */
static bool find(json_t *root, struct weir_text path, json_t **found)
{
    struct weir_text name;
    *found = root;
    while (weir_text_take_first(&path, '.', &name)) {
        if (*found == NULL || json_is_null(*found))
            return true;
        if (!json_is_object(*found) || !take_member(*found, name, found))
            return false;
    }
    return true;
}

/* One number has one text, so that 1, 1.0 and 10e-1 are the same. */
static size_t print_number(const json_t *value, char *text, size_t size)
{
    double real = json_real_value(value);
    if (json_is_real(value) && real <= EXACT_MAX && real >= -EXACT_MAX
        && (double)(long long)real == real)
        return (size_t)snprintf(text, size, "%lld", (long long)real);
    return json_dumpb(value, text, size, JSON_ENCODE_ANY);
}

static bool keep(struct weir_buffer *memory, struct weir_text text, struct weir_text *value)
{
    *value = (struct weir_text){ memory->at + memory->length, text.length };
    weir_buffer_put(memory, text);
    return !memory->full && weir_body_value_is_sound(*value);
}

static enum weir_body_reading take_value(const json_t *found, struct weir_buffer *memory,
                                         struct weir_text *value)
{
    char text[WEIR_BODY_NUMBER_CHARS];
    bool is_kept = false;
    switch (json_typeof(found)) {
    case JSON_STRING:
        is_kept =
            keep(memory, (struct weir_text){ json_string_value(found), json_string_length(found) },
                 value);
        break;
    case JSON_INTEGER:
    case JSON_REAL:
    case JSON_TRUE:
    case JSON_FALSE: {
        size_t length = print_number(found, text, sizeof text);
        if (length == 0 || length > sizeof text)
            return WEIR_BODY_NO_MEMORY; /* all that it fails for */
        is_kept = keep(memory, (struct weir_text){ text, length }, value);
        break;
    }
    case JSON_NULL:
        return WEIR_BODY_READ;
    case JSON_OBJECT:
    case JSON_ARRAY:
        break;
    }
    return is_kept ? WEIR_BODY_READ : WEIR_BODY_BROKEN;
}

static enum weir_body_reading read_fields(json_t *root, struct weir_body_field *fields,
                                          size_t count, struct weir_buffer *memory)
{
    enum weir_body_reading reading = json_is_object(root) ? WEIR_BODY_READ : WEIR_BODY_BROKEN;
    for (size_t i = 0; i < count && reading == WEIR_BODY_READ; i++) {
        json_t *found;
        if (!find(root, fields[i].name, &found))
            reading = WEIR_BODY_BROKEN;
        else if (found != NULL)
            reading = take_value(found, memory, &fields[i].value);
    }
    return reading;
}

enum weir_body_reading weir_body_read_json(struct weir_text body, struct weir_body_field *fields,
                                           size_t count, struct weir_buffer *memory)
{
    json_error_t why;
    why.text[0] = '\0';
    /* NUL bytes matter in wanted fields only. */
    json_t *root = json_loadb(body.at, body.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (root == NULL) {
        /* Where memory runs out jansson mostly says nothing at all. */
        bool is_memory = why.text[0] == '\0' || json_error_code(&why) == json_error_out_of_memory;
        return is_memory ? WEIR_BODY_NO_MEMORY : WEIR_BODY_BROKEN;
    }
    enum weir_body_reading reading = read_fields(root, fields, count, memory);
    wipe(root);
    json_decref(root);
    return reading;
}
