/* Lines and columns of what a JSON Pointer points to. */
#include "test.h"

#include "policy/policy_json.h"

static void finds_what_a_pointer_points_to(void **state)
{
    (void)state;
    static const char json[] = "\n{ \"a\" : [10, \"x, ]}\\\"\", {\"b\": {}}, [[1, 2], 3]],\n"
                               "  \"c/d~e\": {\"\": 7, \"a\": \"é\", \"f\": null}\t,\n"
                               "\t\"esc\\u0061pe\": 1, \"last\": [] }\n";
    static const struct {
        const char *pointer;
        bool is_found;
        int line, column;
    } rows[] = {
        { "/a", true, 2, 3 },          { "/a/0", true, 2, 10 },    { "/a/1", true, 2, 14 },
        { "/a/2", true, 2, 25 },       { "/a/2/b", true, 2, 26 },  { "/a/3/0/1", true, 2, 41 },
        { "/a/3/1", true, 2, 45 },     { "/c~1d~0e", true, 3, 3 }, { "/c~1d~0e/", true, 3, 13 },
        { "/c~1d~0e/f", true, 3, 30 }, { "/last", true, 4, 20 },   { "", false, 0, 0 },
        { "/", false, 0, 0 },          { "/b", false, 0, 0 },      { "/a/4", false, 0, 0 },
        { "/a/x", false, 0, 0 },       { "/a/0/x", false, 0, 0 },  { "/escape", false, 0, 0 },
        { "/last/0", false, 0, 0 },    { "/las", false, 0, 0 },    { "/laster", false, 0, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int line = 0, column = 0;
        print_message("    %s\n", rows[i].pointer);
        assert_int_equal(weir_json_locate((struct weir_text){ json, sizeof json - 1 },
                                          rows[i].pointer, &line, &column),
                         rows[i].is_found);
        assert_int_equal(line, rows[i].line);
        assert_int_equal(column, rows[i].column);
    }
}

static void reads_no_further_than_the_text(void **state)
{
    (void)state;
    static const char json[] = "{\"a\": [1, {\"b\\\"\": \"\\\\\"}], \"c\": \"d\"}";
    for (size_t length = 0; length < sizeof json - 1; length++) {
        int line, column;
        char *copy = malloc(length > 0 ? length : 1); /* the sanitizer watches its end */
        assert_non_null(copy);
        memcpy(copy, json, length);
        assert_false(weir_json_locate((struct weir_text){ copy, length }, "/a/2", &line, &column));
        assert_false(weir_json_locate((struct weir_text){ copy, length }, "/z", &line, &column));
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_a_pointer_points_to),
        cmocka_unit_test(reads_no_further_than_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
