/* The lines that a program under test logs, kept for the test to read. All logs of a test program
 * are kept together. Functions that fail, fail the test. */
#ifndef TESTS_SUPPORT_KEPT_LOG_H
#define TESTS_SUPPORT_KEPT_LOG_H

#include "test.h"

#include <weir/common.h>

/* What keeps them, from any thread; WEIR_TEST_LOG in the environment shows them, too. */
struct weir_log kept_log(void);

/* So many lines hold `part`; "" is part of all. */
size_t kept_lines(const char *part);

/* So many are of that level, and exactly that. */
size_t kept_lines_of(enum weir_level level, const char *line);

void kept_forget(void);
void kept_print(void);

/* Looks again and again, for a minute at most, until a line holds `part`; returns how many µs that
 * took. */
uint64_t kept_wait_for(const char *part);

#endif
