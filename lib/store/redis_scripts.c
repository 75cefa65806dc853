#include "store/redis_scripts.h"

#include <stdlib.h>
#include <string.h>

struct weir_redis_script *weir_redis_scripts_find(struct weir_redis_scripts *scripts,
                                                  const struct weir_redis_shape *shape)
{
    for (size_t i = 0; i < WEIR_REDIS_SCRIPTS_MAX; i++) {
        struct weir_redis_script *script = &scripts->scripts[i];
        if (script->text != NULL && memcmp(&script->shape, shape, sizeof *shape) == 0)
            return script;
    }
    return NULL;
}

/* A place that is free, or whose script was not used for longest. */
static struct weir_redis_script *place_for_new(struct weir_redis_scripts *scripts)
{
    struct weir_redis_script *oldest = &scripts->scripts[0];
    for (size_t i = 0; i < WEIR_REDIS_SCRIPTS_MAX; i++) {
        struct weir_redis_script *script = &scripts->scripts[i];
        if (script->text == NULL)
            return script;
        if (script->used < oldest->used)
            oldest = script;
    }
    return oldest;
}

/* Whoever drives a lane may have a small stack. */
static char *composed(const struct weir_redis_shape *shape, enum weir_redis_clock clock,
                      size_t *length)
{
    char *memory = malloc(WEIR_REDIS_SCRIPT_BYTES);
    if (memory == NULL)
        return NULL;
    struct weir_buffer out = weir_buffer_init(memory, WEIR_REDIS_SCRIPT_BYTES);
    weir_redis_script_compose(&out, shape, clock);
    const char *text = weir_buffer_string(&out);
    *length = out.length;
    char *copy = text == NULL ? NULL : strdup(text);
    free(memory);
    return copy;
}

struct weir_redis_script *weir_redis_scripts_get(struct weir_redis_scripts *scripts,
                                                 const struct weir_redis_shape *shape)
{
    struct weir_redis_script *script = weir_redis_scripts_find(scripts, shape);
    if (script == NULL) {
        size_t length;
        char *text = composed(shape, scripts->clock, &length);
        if (text == NULL)
            return NULL;
        script = place_for_new(scripts);
        free(script->text);
        *script =
            (struct weir_redis_script){ .shape = *shape, .text = text, .text_length = length };
    }
    script->used = ++scripts->uses;
    return script;
}

void weir_redis_scripts_finish(struct weir_redis_scripts *scripts)
{
    for (size_t i = 0; i < WEIR_REDIS_SCRIPTS_MAX; i++)
        free(scripts->scripts[i].text);
}
