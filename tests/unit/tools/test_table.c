#include "test.h"

#include "tools/table.h"

static const char *const titles[] = { "NAME", ">COUNT", "WHY" };

/* What the table prints; the caller's, for free(). */
static char *printed(const struct weir_tool_table *table, const char *indent)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_true(weir_tool_table_print(table, indent, out));
    fclose(out);
    return text;
}

static void check_printed(struct weir_tool_table *table, const char *indent, const char *wanted)
{
    char *text = printed(table, indent);
    assert_string_equal(text, wanted);
    free(text);
    weir_tool_table_free(table);
}

static void makes_columns_as_wide_as_what_is_in_them(void **state)
{
    (void)state;
    struct weir_tool_table *table = weir_tool_table_new(titles, COUNT_OF(titles));
    weir_tool_table_put(table, "%s", "a");
    weir_tool_table_put(table, "%d", 1234567);
    weir_tool_table_put(table, "%s", "long ago");
    weir_tool_table_put(table, "%s", "longer");
    weir_tool_table_put(table, "%d", 8);
    weir_tool_table_put(table, "%s", "");
    check_printed(table, "  ",
                  "  NAME      COUNT  WHY\n"
                  "  a       1234567  long ago\n"
                  "  longer        8  \n");
}

static void counts_characters_and_not_bytes(void **state)
{
    (void)state;
    struct weir_tool_table *table = weir_tool_table_new(titles, 2);
    weir_tool_table_put(table, "%s", "Jürgen");
    weir_tool_table_put(table, "%d", 1);
    weir_tool_table_put(table, "%s", "Juergen");
    weir_tool_table_put(table, "%d", 2);
    check_printed(table, "",
                  "NAME     COUNT\n"
                  "Jürgen       1\n"
                  "Juergen      2\n");
}

static void lets_nothing_steer_a_terminal(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *cell;
        const char *wanted;
    } rows[] = {
        { "an escape", "\033[2Jx", "?[2Jx" },
        { "a new line", "a\nb", "a?b" },
        { "a control of two bytes",
          "a\xC2\x9B"
          "b",
          "a?b" },
        { "a byte that is no UTF-8",
          "a\xFF"
          "b",
          "a?b" },
        { "a letter of two bytes", "\xC3\xA4", "\xC3\xA4" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_tool_table *table = weir_tool_table_new(titles, 1);
        char wanted[64];
        weir_tool_table_put(table, "%s", rows[i].cell);
        snprintf(wanted, sizeof wanted, "NAME\n%s\n", rows[i].wanted);
        check_printed(table, "", wanted);
    }
}

static void holds_many_rows_and_prints_one_that_is_not_full(void **state)
{
    (void)state;
    struct weir_tool_table *table = weir_tool_table_new(titles, 2);
    for (int i = 0; i < 1001; i++)
        weir_tool_table_put(table, "%d", i % 10);
    char *text = printed(table, "");
    assert_int_equal(strlen(text),
                     strlen("NAME  COUNT\n") + 500 * strlen("0         1\n") + strlen("0     \n"));
    free(text);
    weir_tool_table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_columns_as_wide_as_what_is_in_them),
        cmocka_unit_test(counts_characters_and_not_bytes),
        cmocka_unit_test(lets_nothing_steer_a_terminal),
        cmocka_unit_test(holds_many_rows_and_prints_one_that_is_not_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
