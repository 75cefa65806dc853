/* The pieces that an explanation is made of. */
#include "admin/explain_internal.h"

#include <stdarg.h>
#include <stdlib.h>

/* Longer texts of a client's are cut: they are there to be recognised. */
#define TEXT_MAX 256

void weir_explain_put(struct explaining *explaining, json_t *object, const char *name,
                      json_t *value)
{
    if (json_object_set_new(object, name, value) != 0)
        explaining->has_failed = true;
}

/* JSON is UTF-8, and what a client sends need not be. */
static json_t *make_text(struct weir_text text)
{
    char copy[TEXT_MAX];
    size_t length = 0;
    if (text.at == NULL)
        return json_null();
    while (text.length > 0) {
        size_t sequence = weir_utf8_length(text);
        size_t taken = sequence == 0 ? 1 : sequence;
        if (length + taken > sizeof copy)
            break;
        memcpy(copy + length, sequence == 0 ? "?" : text.at, taken);
        length += taken;
        text.at += taken;
        text.length -= taken;
    }
    return json_stringn(copy, length);
}

void weir_explain_put_text(struct explaining *explaining, json_t *object, const char *name,
                           struct weir_text text)
{
    weir_explain_put(explaining, object, name, make_text(text));
}

void weir_explain_put_string(struct explaining *explaining, json_t *object, const char *name,
                             const char *text)
{
    weir_explain_put_text(explaining, object, name, weir_text_from(text));
}

/* Numbers beyond what JSON's readers keep exactly mean "ever so long". */
void weir_explain_put_number(struct explaining *explaining, json_t *object, const char *name,
                             uint64_t number)
{
    uint64_t most = UINT64_C(1) << 53;
    weir_explain_put(explaining, object, name,
                     json_integer((json_int_t)(number < most ? number : most)));
}

void weir_explain_put_bool(struct explaining *explaining, json_t *object, const char *name,
                           bool is_so)
{
    weir_explain_put(explaining, object, name, json_boolean(is_so));
}

json_t *weir_explain_put_object(struct explaining *explaining, json_t *object, const char *name)
{
    weir_explain_put(explaining, object, name, json_object());
    return json_object_get(object, name);
}

json_t *weir_explain_put_array(struct explaining *explaining, json_t *object, const char *name)
{
    weir_explain_put(explaining, object, name, json_array());
    return json_object_get(object, name);
}

json_t *weir_explain_append_object(struct explaining *explaining, json_t *array)
{
    if (json_array_append_new(array, json_object()) != 0)
        explaining->has_failed = true;
    return json_array_get(array, json_array_size(array) - 1);
}

static const char *print(struct explaining *explaining, const char *format, va_list arguments)
    WEIR_PRINTF(2, 0);

static const char *print(struct explaining *explaining, const char *format, va_list arguments)
{
    char text[1024];
    int length = vsnprintf(text, sizeof text, format, arguments);
    size_t kept = length < 0 ? 0 : (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    const char *copy = weir_arena_copy(explaining->arena, (struct weir_text){ text, kept });
    if (copy == NULL)
        explaining->has_failed = true;
    return copy == NULL ? "" : copy;
}

const char *weir_explain_printf(struct explaining *explaining, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = print(explaining, format, arguments);
    va_end(arguments);
    return text;
}

void weir_explain_hint(struct explaining *explaining, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = print(explaining, format, arguments);
    va_end(arguments);
    json_t *hints = json_object_get(explaining->root, "hints");
    if (json_array_append_new(hints, make_text(weir_text_from(text))) != 0)
        explaining->has_failed = true;
}

const char *weir_explain_address(struct explaining *explaining, const struct weir_address *address)
{
    char text[WEIR_ADDRESS_CHARS];
    if (address->family == WEIR_NO_ADDRESS)
        return NULL;
    weir_address_print(address, text);
    return weir_explain_printf(explaining, "%s", text);
}

const char *weir_explain_network(struct explaining *explaining, const struct weir_network *network)
{
    char text[WEIR_NETWORK_CHARS];
    if (network->address.family == WEIR_NO_ADDRESS)
        return NULL;
    weir_network_print(network, text);
    return weir_explain_printf(explaining, "%s", text);
}

const char *weir_explain_time(struct explaining *explaining, uint64_t time_us)
{
    static const struct {
        uint64_t us;
        const char *name;
    } units[] = { { UINT64_C(86400000000), "day" },
                  { UINT64_C(3600000000), "hour" },
                  { UINT64_C(60000000), "minute" },
                  { UINT64_C(1000000), "second" } };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        uint64_t tenths = (time_us + units[i].us / 10 - 1) / (units[i].us / 10);
        if (time_us < units[i].us || (i < 3 && time_us < 2 * units[i].us))
            continue;
        if (tenths % 10 == 0)
            return weir_explain_printf(explaining, "%llu %s%s", (unsigned long long)(tenths / 10),
                                       units[i].name, tenths == 10 ? "" : "s");
        return weir_explain_printf(explaining, "%llu.%llu %ss", (unsigned long long)(tenths / 10),
                                   (unsigned long long)(tenths % 10), units[i].name);
    }
    if (time_us > 0 && time_us < 1000)
        return "less than 1 ms";
    return weir_explain_printf(explaining, "%llu ms", (unsigned long long)((time_us + 999) / 1000));
}
