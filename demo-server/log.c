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

static const char *const outcomes[] = {
    [WEIR_ALLOWED] = "allowed",
    [WEIR_LIMITED] = "limited",
    [WEIR_IMPOSSIBLE] = "impossible",
    [WEIR_SHADOW_LIMITED] = "shadow-limited",
    [WEIR_UNAUTHENTICATED] = "unauthenticated",
    [WEIR_FAILED_OPEN] = "failed-open",
    [WEIR_FAILED_CLOSED] = "failed-closed",
    [WEIR_UNREADABLE] = "unreadable",
    [WEIR_DENIED] = "denied",
    [WEIR_BUSY] = "busy",
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

static void add_text(json_t *line, const char *name, const char *text)
{
    if (text != NULL)
        json_object_set_new(line, name, demo_json_text(text));
}

void demo_log_decision(void *self, const struct weir_decision *decision)
{
    (void)self;
    const char *level = decision->failure == NULL ? levels[WEIR_INFO] : levels[WEIR_WARNING];
    json_t *line = json_pack("{s:o, s:s, s:s}", "time", time_now(), "level", level, "decision",
                             outcomes[decision->outcome]);
    if (decision->by_memory)
        json_object_set_new(line, "by_memory", json_true());
    add_text(line, "method", decision->method);
    add_text(line, "path", decision->path);
    add_text(line, "client", decision->client);
    add_text(line, "policy", decision->policy);
    add_text(line, "limit", decision->limit);
    json_object_set_new(line, "cost", json_integer((json_int_t)decision->cost));
    if (decision->retry_s > 0)
        json_object_set_new(line, "retry_s", json_integer((json_int_t)decision->retry_s));
    add_text(line, "failure", decision->failure);
    add_text(line, "why", decision->why);
    write_line(line);
}

void demo_log_code(const char *destination, const char *code)
{
    write_line(json_pack("{s:o, s:s, s:o, s:s}", "time", time_now(), "level", levels[WEIR_INFO],
                         "destination", demo_json_text(destination), "code", code));
}
