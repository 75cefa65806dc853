/* "${NAME}": values that come from the environment. */
#include <stdlib.h>
#include <string.h>

#include "policy/policy_json.h"

static bool is_variable_name(struct weir_text name)
{
    for (size_t i = 0; i < name.length; i++) {
        char c = weir_fold_char(name.at[i]);
        bool is_digit = c >= '0' && c <= '9';
        if (!(c >= 'a' && c <= 'z') && c != '_' && !(is_digit && i > 0))
            return false;
    }
    return name.length >= 1 && name.length <= 100;
}

static void put_escaped(struct weir_buffer *text, struct weir_text value)
{
    static const char hex[] = "0123456789ABCDEF";
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (size_t i = 0; i < value.length; i++) {
        unsigned char c = (unsigned char)value.at[i];
        if (strchr(plain, (char)c) != NULL) {
            weir_buffer_put_char(text, (char)c);
            continue;
        }
        weir_buffer_put_char(text, '%');
        weir_buffer_put_char(text, hex[c >> 4]);
        weir_buffer_put_char(text, hex[c & 15]);
    }
}

static bool is_escaped(const struct weir_escaped *escaped, const char *at)
{
    return (escaped->until != NULL && at < escaped->until)
           || (escaped->from != NULL && at > escaped->from);
}

/* `rest` starts with "${"; cuts it and its end off and puts the variable's value. */
static enum weir_code put_variable(const struct weir_reader *reader, const struct weir_place *place,
                                   struct weir_text *rest, const struct weir_escaped *escaped,
                                   struct weir_buffer *text)
{
    char string[101];
    struct weir_text name = { NULL, 0 };
    const char *start = rest->at;
    rest->at += 2;
    rest->length -= 2;
    weir_text_take_first(rest, '}', &name);
    if (rest->at == NULL || !is_variable_name(name))
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "A \"${\" starts the name of an environment variable, such as "
                           "\"${REDIS_PASSWORD}\": letters, digits and \"_\", then \"}\".");

    memcpy(string, name.at, name.length);
    string[name.length] = '\0';
    const char *value = getenv(string);
    if (value == NULL)
        return weir_refuse(reader, place, WEIR_E_ENVIRONMENT,
                           "The environment variable %s is not set.", string);
    if (is_escaped(escaped, start))
        put_escaped(text, weir_text_from(value));
    else
        weir_buffer_put_string(text, value);
    return WEIR_OK;
}

enum weir_code weir_expand(const struct weir_reader *reader, const struct weir_place *place,
                           struct weir_text source, const struct weir_escaped *escaped,
                           struct weir_buffer *text)
{
    enum weir_code code = WEIR_OK;
    while (source.length > 0 && code == WEIR_OK) {
        if (weir_text_starts_with(source, WEIR_TEXT("${"))) {
            code = put_variable(reader, place, &source, escaped, text);
            continue;
        }
        weir_buffer_put_char(text, source.at[0]);
        source.at++;
        source.length--;
    }
    if (code == WEIR_OK && weir_buffer_string(text) == NULL)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The value is too long; wanted are at most 4095 bytes.");
    return code;
}
