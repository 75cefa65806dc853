#include <weir/error.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <weir/version.h>

static const struct {
    const char *name;
    const char *meaning;
} codes[] = {
#define CODE_ROW(code, name, meaning) [code] = { name, meaning },
    WEIR_CODES(CODE_ROW)
#undef CODE_ROW
};

static bool is_code(enum weir_code code)
{
    return (unsigned)code < WEIR_CODE_COUNT;
}

const char *weir_code_name(enum weir_code code)
{
    return is_code(code) ? codes[code].name : "unknown";
}

const char *weir_code_meaning(enum weir_code code)
{
    return is_code(code) ? codes[code].meaning : "This version does not know the code.";
}

enum weir_code weir_error_set(struct weir_error *error, enum weir_code code, const char *path,
                              const char *format, ...)
{
    if (error == NULL || error->code != WEIR_OK)
        return code;

    *error = (struct weir_error){ .code = code };
    if (path != NULL)
        snprintf(error->path, sizeof error->path, "%s", path);

    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return code;
}

/* How much of the loaded file's name stands in front of one that is seen from its folder. */
static int folder_length(const struct weir_error *error, const char *file)
{
    const char *slash = file == NULL || error->file[0] == '/' ? NULL : strrchr(file, '/');
    return slash == NULL ? 0 : (int)(slash + 1 - file);
}

const char *weir_error_line(const struct weir_error *error, const char *file, char *line,
                            size_t size)
{
    char place[48] = "";
    int folder = folder_length(error, file);
    const char *name = error->file[0] != '\0' ? error->file : file == NULL ? "" : file;
    if (error->line > 0)
        snprintf(place, sizeof place, ":%d:%d", error->line, error->column);
    snprintf(line, size, "%.*s%s%s%s%s%s%s [%s]", error->file[0] == '\0' ? 0 : folder,
             file == NULL ? "" : file, name, place, name[0] == '\0' ? "" : ": ", error->path,
             error->path[0] == '\0' ? "" : ": ", error->text, weir_code_name(error->code));
    return line;
}

const char *weir_version(void)
{
    return WEIR_VERSION;
}
