/* Tables of text for people, with columns as wide as what is in them. */
#ifndef WEIR_TOOLS_TABLE_H
#define WEIR_TOOLS_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include <weir/common.h>

#define WEIR_TOOL_COLUMNS_MAX 16

struct weir_tool_table;

/* One title for each column, up to WEIR_TOOL_COLUMNS_MAX; a column whose title starts with '>' is
 * set flush right, without the '>'. Borrowed until the table is freed. NULL: memory ran out. */
struct weir_tool_table *weir_tool_table_new(const char *const *titles, size_t columns);

/* Adds a cell: they fill a row from left to right, then the next. What could steer a terminal, and
 * what is no UTF-8, becomes '?'. */
void weir_tool_table_put(struct weir_tool_table *table, const char *format, ...) WEIR_PRINTF(2, 3);

/* Prints what is there, a heading first, each line behind `indent`. False: memory ran out while it
 * was filled, and nothing was printed. */
bool weir_tool_table_print(const struct weir_tool_table *table, const char *indent, FILE *out);

/* Accepts NULL; returns NULL. */
struct weir_tool_table *weir_tool_table_free(struct weir_tool_table *table);

#endif
