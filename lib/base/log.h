#ifndef WEIR_BASE_LOG_H
#define WEIR_BASE_LOG_H

#include <weir/common.h>

/* Writes one line; nothing where the log is silent. Thread-safe if the log is. */
void weir_log_line(const struct weir_log *log, enum weir_level level, const char *format, ...)
    WEIR_PRINTF(3, 4);

#endif
