/* One JSON line on standard error for whatever an operator should know. */
#ifndef DEMO_LOG_H
#define DEMO_LOG_H

#include <stdarg.h>

#include <weir/decisions.h>

/* All may be called from any thread; lines do not mix. */

void demo_log(enum weir_level level, const char *format, ...) WEIR_PRINTF(2, 3);

/* For struct weir_log. */
void demo_log_library(void *self, enum weir_level level, const char *text);

/* For struct weir_decision_log_options. */
void demo_log_line(void *self, enum weir_level level, const char *line, size_t length);

/* A one-time code that there is nobody to send to. */
void demo_log_code(const char *destination, const char *code);

/* For MHD_OPTION_EXTERNAL_LOGGER. */
void demo_log_mhd(void *self, const char *format, va_list args) WEIR_PRINTF(2, 0);

#endif
