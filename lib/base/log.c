#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void weir_log_line(const struct weir_log *log, enum weir_level level, const char *format, ...)
{
    if (log->write == NULL)
        return;

    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log->write(log->self, level, line);
}
