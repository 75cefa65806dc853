#include "json.h"

#include <stdlib.h>
#include <string.h>

json_t *demo_json_text(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *string = json_string(text);
    char *copy = string == NULL ? strdup(text) : NULL;
    if (copy == NULL)
        return string;

    for (char *at = copy; *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    string = json_string(copy);
    free(copy);
    return string;
}

enum weir_step demo_reply_object(struct weir_request *request, unsigned status, json_t *object)
{
    char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    bool built = text != NULL && weir_reply_json(request, status, text);
    free(text);
    if (built)
        return WEIR_DONE;
    weir_request_fail(request, WEIR_E_MEMORY, "Out of memory.");
    return WEIR_FAIL;
}
