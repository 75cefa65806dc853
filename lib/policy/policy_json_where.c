/* Finds in a JSON text what a JSON Pointer points to; jansson does not keep places. */
#include <string.h>

#include "policy/policy_json.h"

struct cursor {
    const char *at;
    const char *end;
};

static bool is_at(const struct cursor *cursor, char c)
{
    return cursor->at < cursor->end && *cursor->at == c;
}

static void skip_blanks(struct cursor *cursor)
{
    while (cursor->at < cursor->end && strchr(" \t\r\n", *cursor->at) != NULL
           && *cursor->at != '\0')
        cursor->at++;
}

/* A string with its quotes; returns what is between them. */
static struct weir_text skip_string(struct cursor *cursor)
{
    const char *start = ++cursor->at;
    while (cursor->at < cursor->end && *cursor->at != '"')
        cursor->at += *cursor->at == '\\' && cursor->end - cursor->at > 1 ? 2 : 1;
    struct weir_text inside = { start, (size_t)(cursor->at - start) };
    if (cursor->at < cursor->end)
        cursor->at++;
    return inside;
}

/* A value and the blanks behind it: up to the comma or the bracket that ends it. */
static void skip_value(struct cursor *cursor)
{
    size_t depth = 0;
    while (cursor->at < cursor->end) {
        char c = *cursor->at;
        if (c == '"') {
            skip_string(cursor);
            continue;
        }
        bool is_end = c == '}' || c == ']';
        if (depth == 0 && (is_end || c == ','))
            return;
        if (is_end)
            depth--;
        else if (c == '{' || c == '[')
            depth++;
        cursor->at++;
    }
}

/* Compares a member's name as it is written with a pointer's step. A name with escapes in it is
 * not found, which costs no more than a line number. */
static bool is_step(struct weir_text name, struct weir_text step)
{
    size_t i = 0;
    for (size_t j = 0; j < step.length; i++, j++) {
        char wanted = step.at[j];
        if (wanted == '~' && j + 1 < step.length)
            wanted = step.at[++j] == '1' ? '/' : '~';
        if (i >= name.length || name.at[i] != wanted)
            return false;
    }
    return i == name.length;
}

/* From a bracket to the first thing behind it, or from a comma to the next. */
static bool go_on(struct cursor *cursor)
{
    cursor->at++;
    skip_blanks(cursor);
    return cursor->at < cursor->end && *cursor->at != '}' && *cursor->at != ']';
}

static bool enter_object(struct cursor *cursor, struct weir_text step, const char **found)
{
    do {
        if (!go_on(cursor) || !is_at(cursor, '"'))
            return false;
        *found = cursor->at;
        bool is_it = is_step(skip_string(cursor), step);
        skip_blanks(cursor);
        if (!is_at(cursor, ':'))
            return false;
        cursor->at++;
        skip_blanks(cursor);
        if (is_it)
            return true;
        skip_value(cursor);
    } while (is_at(cursor, ','));
    return false;
}

static bool enter_array(struct cursor *cursor, struct weir_text step, const char **found)
{
    uint64_t index;
    if (!weir_text_to_number(step, &index))
        return false;
    for (uint64_t i = 0; go_on(cursor); i++) {
        *found = cursor->at;
        if (i == index)
            return true;
        skip_value(cursor);
        if (!is_at(cursor, ','))
            return false;
    }
    return false;
}

static bool enter(struct cursor *cursor, struct weir_text step, const char **found)
{
    if (is_at(cursor, '{'))
        return enter_object(cursor, step, found);
    return is_at(cursor, '[') && enter_array(cursor, step, found);
}

static void count_to(struct weir_text json, const char *found, int *line, int *column)
{
    *line = 1;
    *column = 1;
    for (const char *at = json.at; at < found; at++) {
        if (*at == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)*at & 0xC0) != 0x80) {
            ++*column;
        }
    }
}

bool weir_json_locate(struct weir_text json, const char *pointer, int *line, int *column)
{
    struct cursor cursor = { json.at, json.at + json.length };
    struct weir_text rest = weir_text_from(pointer), step;
    const char *found = NULL;
    skip_blanks(&cursor);
    weir_text_take_first(&rest, '/', &step); /* what stands before the first slash: nothing */
    while (weir_text_take_first(&rest, '/', &step))
        if (!enter(&cursor, step, &found))
            return false;
    if (found == NULL)
        return false;
    count_to(json, found, line, column);
    return true;
}
