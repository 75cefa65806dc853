#include "test.h"

#include "tools/tool.h"

struct given {
    bool is_quiet;
    const char *file;
    uint64_t count;
    struct weir_tool_list values;
};

static const struct weir_tool_option options[] = {
    { .name = "quiet", .help = "say less", WEIR_TOOL_INTO(struct given, is_quiet) },
    { .name = "file", .value = "FILE", .help = "a file", WEIR_TOOL_INTO(struct given, file) },
    { .name = "count",
      .value = "N",
      .help = "a number",
      WEIR_TOOL_INTO(struct given, count),
      .least = 1,
      .most = 100 },
    { .name = "value",
      .value = "TEXT",
      .help = "may be given several times",
      WEIR_TOOL_INTO(struct given, values) },
};

static const struct weir_tool_usage usage = {
    .name = "try",
    .arguments = "WHAT…",
    .least = 1,
    .most = 2,
    .summary = "Tries.",
    .options = options,
    .option_count = COUNT_OF(options),
};

#define WORDS_MAX 8

/* Reads a command line of words with blanks between them. */
static bool read_line(const char *line, struct given *given, struct weir_tool_arguments *operands,
                      int *status)
{
    static char text[256];
    static char *words[WORDS_MAX];
    int count = 0;
    snprintf(text, sizeof text, "try %s", line);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        words[count++] = word;
    return weir_tool_read(&usage, count, words, given, operands, status);
}

static void reads_options_and_arguments_in_any_order(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *operands;
        struct given want;
    } rows[] = {
        { "a", "a", { .count = 7 } },
        { "--quiet a b", "a b", { .is_quiet = true, .count = 7 } },
        { "a --file f b", "a b", { .file = "f", .count = 7 } },
        { "--file=f=g a", "a", { .file = "f=g", .count = 7 } },
        { "--file= a", "a", { .file = "", .count = 7 } },
        { "--file --quiet a", "a", { .file = "--quiet", .count = 7 } },
        { "--count 100 a", "a", { .count = 100 } },
        { "--count 1 --count=2 a", "a", { .count = 2 } },
        { "a -- --quiet", "a --quiet", { .count = 7 } },
        { "- --quiet", "-", { .is_quiet = true, .count = 7 } },
        { "--value x --value y a", "a", { .count = 7, .values = { { "x", "y" }, 2 } } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].line);
        struct given given = { .count = 7 };
        struct weir_tool_arguments operands;
        char joined[64] = "";
        int status;
        assert_true(read_line(rows[i].line, &given, &operands, &status));
        for (size_t k = 0; k < operands.count; k++)
            snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s%s",
                     k == 0 ? "" : " ", operands.at[k]);
        assert_string_equal(joined, rows[i].operands);
        assert_int_equal(given.is_quiet, rows[i].want.is_quiet);
        assert_int_equal(given.count, rows[i].want.count);
        assert_int_equal(given.values.count, rows[i].want.values.count);
        for (size_t k = 0; k < given.values.count; k++)
            assert_string_equal(given.values.items[k], rows[i].want.values.items[k]);
        assert_int_equal(given.file == NULL, rows[i].want.file == NULL);
        if (given.file != NULL)
            assert_string_equal(given.file, rows[i].want.file);
    }
}

static void refuses_what_means_nothing(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "a b c",
        "--quite a",
        "--quiet=yes a",
        "a --file",
        "--count 0 a",
        "--count x",
        "--count -1 a",
        "--count 101 a",
        "--count= a",
        "-q a",
        "--=x a",
        "--count 99999999999999999999 a",
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    \"%s\"\n", rows[i]);
        struct given given = { .count = 7 };
        struct weir_tool_arguments operands;
        int status = -1;
        assert_false(read_line(rows[i], &given, &operands, &status));
        assert_int_equal(status, WEIR_TOOL_MISUSED);
    }
}

static void refuses_a_list_without_end(void **state)
{
    (void)state;
    static char name[] = "try", option[] = "--value=x", operand[] = "a";
    static char *words[WEIR_TOOL_LIST_MAX + 3];
    int count = 0;
    words[count++] = name;
    words[count++] = operand;
    while (count < WEIR_TOOL_LIST_MAX + 2)
        words[count++] = option;
    struct given given = { .count = 7 };
    struct weir_tool_arguments operands;
    int status = -1;
    assert_true(weir_tool_read(&usage, count, words, &given, &operands, &status));
    words[1] = operand;
    words[count++] = option;
    given.values.count = 0;
    assert_false(weir_tool_read(&usage, count, words, &given, &operands, &status));
    assert_int_equal(status, WEIR_TOOL_MISUSED);
}

static void prints_help_when_asked_to_whatever_else_is_there(void **state)
{
    (void)state;
    static const char *const rows[] = { "--help", "-h", "a b c d --help", "--help --quite" };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct given given = { .count = 7 };
        struct weir_tool_arguments operands;
        int status = -1;
        assert_false(read_line(rows[i], &given, &operands, &status));
        assert_int_equal(status, WEIR_TOOL_FINE);
    }
}

static void shows_each_option_in_its_help(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    weir_tool_print_help(&usage, out);
    fclose(out);
    assert_string_equal(text, "usage: weir try [OPTION…] WHAT…\n"
                              "\n"
                              "Tries.\n"
                              "\n"
                              "  --quiet             say less\n"
                              "  --file FILE         a file\n"
                              "  --count N           a number\n"
                              "  --value TEXT        may be given several times\n"
                              "  --help              print this, and end\n");
    free(text);
}

static void writes_times_in_their_two_largest_units(void **state)
{
    (void)state;
    static const struct {
        uint64_t seconds;
        const char *want;
    } rows[] = {
        { 0, "0 s" },         { 59, "59 s" },          { 60, "1 min" },
        { 61, "1 min 1 s" },  { 3599, "59 min 59 s" }, { 3600, "1 h" },
        { 3601, "1 h" },      { 5400, "1 h 30 min" },  { 86400, "1 d" },
        { 90061, "1 d 1 h" }, { 31622400, "366 d" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[WEIR_TOOL_TIME_CHARS];
        assert_string_equal(weir_tool_time(rows[i].seconds, text), rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_options_and_arguments_in_any_order),
        cmocka_unit_test(refuses_what_means_nothing),
        cmocka_unit_test(refuses_a_list_without_end),
        cmocka_unit_test(prints_help_when_asked_to_whatever_else_is_there),
        cmocka_unit_test(shows_each_option_in_its_help),
        cmocka_unit_test(writes_times_in_their_two_largest_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
