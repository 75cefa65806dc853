#include "admin/admin_json.h"

#include <stdlib.h>
#include <string.h>

#include "observe/decision_text.h"

json_t *weir_admin_string(const char *text)
{
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

json_t *weir_admin_moment(uint64_t time_us)
{
    char memory[64];
    struct weir_buffer text = weir_buffer_init(memory, sizeof memory);
    weir_put_time(&text, time_us);
    if (text.full || text.length < 2)
        return json_string("");
    return json_stringn(text.at + 1, text.length - 2); /* without its quotes */
}
