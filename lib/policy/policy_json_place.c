#include <stdarg.h>
#include <stdio.h>

#include "base/buffer.h"
#include "policy/policy_json.h"

#define SHOWN_BYTES 60 /* of a string */

struct weir_place weir_place_member(const struct weir_place *object, const char *name)
{
    return (struct weir_place){ object, name, 0, json_object_get(object->value, name) };
}

struct weir_place weir_place_item(const struct weir_place *array, size_t index)
{
    return (struct weir_place){ array, NULL, index, json_array_get(array->value, index) };
}

/* pointers */

static void put_name(struct weir_buffer *pointer, const char *name)
{
    for (; *name != '\0'; name++) {
        if (*name == '~')
            weir_buffer_put_string(pointer, "~0");
        else if (*name == '/')
            weir_buffer_put_string(pointer, "~1");
        else
            weir_buffer_put_char(pointer, *name);
    }
}

/* No deeper than the file's schema. */
static void put_place(struct weir_buffer *pointer, const struct weir_place *place)
{
    if (place->parent == NULL)
        return;
    put_place(pointer, place->parent);
    weir_buffer_put_char(pointer, '/');
    if (place->name != NULL)
        put_name(pointer, place->name);
    else
        weir_buffer_put_number(pointer, place->index);
}

const char *weir_place_pointer(const struct weir_place *place, char memory[WEIR_POINTER_BYTES])
{
    for (;; place = place->parent) {
        struct weir_buffer pointer = weir_buffer_init(memory, WEIR_POINTER_BYTES);
        put_place(&pointer, place);
        if (!pointer.full)
            return weir_buffer_string(&pointer);
    }
}

/* values */

/* The first bytes of a text, without cutting a character in two. */
static struct weir_text cut(struct weir_text text, size_t length)
{
    if (text.length <= length)
        return text;
    while (length > 0 && ((unsigned char)text.at[length] & 0xC0) == 0x80)
        length--;
    return (struct weir_text){ text.at, length };
}

/* Half as many bytes where escaping makes them too long. */
static void put_string(struct weir_buffer *shown, struct weir_text text)
{
    struct weir_buffer start = *shown;
    for (size_t length = SHOWN_BYTES; length > 0; length /= 2) {
        *shown = start;
        struct weir_text part = cut(text, length);
        weir_buffer_put_char(shown, '"');
        weir_buffer_put_json(shown, part);
        weir_buffer_put_string(shown, part.length < text.length ? "…\"" : "\"");
        if (!shown->full)
            return;
    }
}

static void put_value(struct weir_buffer *shown, const json_t *value)
{
    char number[40];
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        weir_buffer_put_string(shown, "an object");
        break;
    case JSON_ARRAY:
        weir_buffer_put_string(shown, "an array");
        break;
    case JSON_STRING:
        put_string(shown,
                   (struct weir_text){ json_string_value(value), json_string_length(value) });
        break;
    case JSON_INTEGER:
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        weir_buffer_put_string(shown, number);
        break;
    case JSON_REAL:
        snprintf(number, sizeof number, "%.15g", json_real_value(value));
        weir_buffer_put_string(shown, number);
        break;
    case JSON_TRUE:
        weir_buffer_put_string(shown, "true");
        break;
    case JSON_FALSE:
        weir_buffer_put_string(shown, "false");
        break;
    case JSON_NULL:
        weir_buffer_put_string(shown, "null");
        break;
    }
}

struct weir_shown weir_show(const json_t *value)
{
    struct weir_shown shown = { "" };
    struct weir_buffer text = weir_buffer_init(shown.text, sizeof shown.text);
    put_value(&text, value);
    weir_buffer_string(&text);
    return shown;
}

/* errors */

enum weir_code weir_refuse(const struct weir_reader *reader, const struct weir_place *place,
                           enum weir_code code, const char *format, ...)
{
    char pointer[WEIR_POINTER_BYTES];
    char text[sizeof reader->error->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return weir_error_set(reader->error, code, weir_place_pointer(place, pointer), "%s", text);
}

enum weir_code weir_refuse_type(const struct weir_reader *reader, const struct weir_place *place,
                                const char *wanted)
{
    return weir_refuse(reader, place, WEIR_E_TYPE, "The value is %s; wanted is %s.",
                       weir_show(place->value).text, wanted);
}

enum weir_code weir_refuse_value(const struct weir_reader *reader, const struct weir_place *place,
                                 const char *wanted)
{
    return weir_refuse(reader, place, WEIR_E_VALUE, "The value is %s; wanted is %s.",
                       weir_show(place->value).text, wanted);
}

enum weir_code weir_refuse_memory(const struct weir_reader *reader)
{
    return weir_error_set(reader->error, WEIR_E_MEMORY, NULL, "Out of memory.");
}
