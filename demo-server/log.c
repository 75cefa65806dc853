#include "log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "json.h"

static const char *const levels[] = {
    [WEIR_DEBUG] = "debug",
    [WEIR_INFO] = "info",
    [WEIR_WARNING] = "warning",
    [WEIR_ERROR] = "error",
};

static json_t *time_now(void)
{
    struct timespec now;
    struct tm utc;
    char second[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(second, sizeof second, "%Y-%m-%dT%H:%M:%S", &utc);
    return json_sprintf("%s.%03dZ", second, (int)(now.tv_nsec / 1000000));
}

/* Takes `object`. One call of fputs on an unbuffered stream holds the stream's lock all along, so
 * lines of several threads come out whole. */
static void write_line(json_t *object)
{
    char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (text != NULL)
        fprintf(stderr, "%s\n", text);
    free(text);
}

void demo_log_library(void *self, enum weir_level level, const char *text)
{
    (void)self;
    if (level == WEIR_DEBUG)
        return;
    write_line(json_pack("{s:o, s:s, s:o}", "time", time_now(), "level", levels[level], "text",
                         demo_json_text(text)));
}

static WEIR_PRINTF(2, 0) void log_arguments(enum weir_level level, const char *format, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = '\0';
    demo_log_library(NULL, level, text);
}

void demo_log(enum weir_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_arguments(level, format, args);
    va_end(args);
}

void demo_log_mhd(void *self, const char *format, va_list args)
{
    (void)self;
    log_arguments(WEIR_WARNING, format, args);
}

void demo_log_line(void *self, enum weir_level level, const char *line, size_t length)
{
    (void)self;
    (void)level; /* the line says it, too */
    fprintf(stderr, "%.*s\n", (int)length, line);
}

void demo_log_code(const char *destination, const char *code)
{
    write_line(json_pack("{s:o, s:s, s:o, s:s}", "time", time_now(), "level", levels[WEIR_INFO],
                         "destination", demo_json_text(destination), "code", code));
}
