/* A policy file as it is meant, for who wants to see it: presets written out, secrets left out. */
#include <stdlib.h>
#include <string.h>

#include "policy/policy_json.h"

static struct weir_text text_of(const json_t *value)
{
    return (struct weir_text){ json_string_value(value), json_string_length(value) };
}

/* What a text is replaced by; false: memory ran out, or there is no room. */
static bool set_shown(json_t *object, const char *name, struct weir_buffer *shown)
{
    const char *text = weir_buffer_string(shown);
    return text != NULL && json_object_set_new(object, name, json_string(text)) == 0;
}

static bool hide_secrets(json_t *root)
{
    char memory[WEIR_EXPANDED_MAX];
    struct weir_buffer shown = weir_buffer_init(memory, sizeof memory);
    json_t *store = json_object_get(root, "store");
    struct weir_text secret = text_of(json_object_get(root, "secret"));
    struct weir_text url = text_of(json_object_get(store, "url"));
    if (secret.at != NULL && !weir_is_variable(secret)
        && json_object_set_new(root, "secret", json_string(WEIR_MASK)) != 0)
        return false;
    if (url.at == NULL)
        return true;
    weir_put_masked_url(&shown, url);
    return set_shown(store, "url", &shown);
}

enum weir_code weir_policy_print(struct weir_reader *reader, char **text)
{
    json_t *root = reader->root->value;
    enum weir_code code = weir_expand_presets(reader);
    if (code != WEIR_OK)
        return code;
    if (!hide_secrets(root))
        return weir_refuse_memory(reader);
    /* jansson may have an allocator of the application's own, and the text is for free(). */
    size_t length = json_dumpb(root, NULL, 0, JSON_INDENT(2));
    char *made = length == 0 ? NULL : malloc(length + 2);
    if (made == NULL || json_dumpb(root, made, length, JSON_INDENT(2)) != length) {
        free(made);
        return weir_refuse_memory(reader);
    }
    strcpy(made + length, "\n");
    *text = made;
    return WEIR_OK;
}
