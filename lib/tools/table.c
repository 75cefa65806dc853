#include "tools/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

#define CELL_BYTES 512
#define GAP        2 /* between columns */

struct weir_tool_table {
    const char *titles[WEIR_TOOL_COLUMNS_MAX];
    bool is_right[WEIR_TOOL_COLUMNS_MAX];
    size_t widths[WEIR_TOOL_COLUMNS_MAX];
    size_t columns;
    char **cells;
    size_t count;
    size_t room;
    bool is_incomplete;
};

/* In characters; terminals show those of most scripts in one place each. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static void widen(struct weir_tool_table *table, size_t column, const char *text)
{
    size_t width = width_of(text);
    if (width > table->widths[column])
        table->widths[column] = width;
}

struct weir_tool_table *weir_tool_table_new(const char *const *titles, size_t columns)
{
    struct weir_tool_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    table->columns = columns < WEIR_TOOL_COLUMNS_MAX ? columns : WEIR_TOOL_COLUMNS_MAX;
    for (size_t i = 0; i < table->columns; i++) {
        table->is_right[i] = titles[i][0] == '>';
        table->titles[i] = titles[i] + table->is_right[i];
        widen(table, i, table->titles[i]);
    }
    return table;
}

struct weir_tool_table *weir_tool_table_free(struct weir_tool_table *table)
{
    for (size_t i = 0; table != NULL && i < table->count; i++)
        free(table->cells[i]);
    if (table != NULL)
        free(table->cells);
    free(table);
    return NULL;
}

/* filling */

static bool make_room(struct weir_tool_table *table)
{
    if (table->count < table->room)
        return true;
    size_t room = table->room == 0 ? 64 : table->room * 2;
    char **cells = realloc(table->cells, room * sizeof *cells);
    if (cells == NULL)
        return false;
    table->cells = cells;
    table->room = room;
    return true;
}

void weir_tool_table_put(struct weir_tool_table *table, const char *format, ...)
{
    char text[CELL_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weir_tool_make_harmless(text);
    char *cell = make_room(table) ? strdup(text) : NULL;
    if (cell == NULL) {
        table->is_incomplete = true;
        return;
    }
    widen(table, table->count % table->columns, cell);
    table->cells[table->count++] = cell;
}

/* printing */

static void print_cell(const struct weir_tool_table *table, size_t column, const char *text,
                       FILE *out)
{
    int blanks = (int)(table->widths[column] - width_of(text));
    bool is_last = column + 1 == table->columns;
    if (table->is_right[column])
        fprintf(out, "%*s%s", blanks, "", text);
    else
        fprintf(out, "%s%*s", text, is_last ? 0 : blanks, "");
    if (!is_last)
        fprintf(out, "%*s", GAP, "");
}

bool weir_tool_table_print(const struct weir_tool_table *table, const char *indent, FILE *out)
{
    if (table->is_incomplete)
        return false;
    fprintf(out, "%s%s", indent, weir_tool_style(out, WEIR_TOOL_BOLD));
    for (size_t i = 0; i < table->columns; i++)
        print_cell(table, i, table->titles[i], out);
    fprintf(out, "%s\n", weir_tool_style(out, WEIR_TOOL_PLAIN));
    for (size_t i = 0; i < table->count; i++) {
        bool ends_row = (i + 1) % table->columns == 0 || i + 1 == table->count;
        if (i % table->columns == 0)
            fputs(indent, out);
        print_cell(table, i % table->columns, table->cells[i], out);
        if (ends_row)
            fputc('\n', out);
    }
    return true;
}
