#include "test.h"

#include "headers/structured_field.h"

static void escapes_only_quotes_and_backslashes(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct weir_text text;
        const char *wanted;
    } rows[] = {
        { "nothing", { "", 0 }, "\"\"" },
        { "a plain name", { "burst", 5 }, "\"burst\"" },
        { "both escapes", { "a\"b\\c", 5 }, "\"a\\\"b\\\\c\"" },
        { "the first and last byte allowed", { " ~", 2 }, "\" ~\"" },
        { "what other syntaxes would escape", { ";,=:%'", 6 }, "\";,=:%'\"" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        char memory[32];
        struct weir_buffer field = weir_buffer_init(memory, sizeof memory);
        assert_true(weir_field_put_string(&field, rows[i].text));
        assert_string_equal(weir_buffer_string(&field), rows[i].wanted);
    }
}

static void refuses_bytes_that_a_string_cannot_hold(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct weir_text text;
    } rows[] = {
        { "a line break", { "a\r\nSet-Cookie: b", 16 } },
        { "a tab", { "a\tb", 3 } },
        { "a NUL", { "a\0b", 3 } },
        { "the byte before the first", { "\x1F", 1 } },
        { "the byte after the last", { "\x7F", 1 } },
        { "UTF-8", { "\xC3\xA9", 2 } },
        { "the largest byte", { "\xFF", 1 } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        char memory[32];
        struct weir_buffer field = weir_buffer_init(memory, sizeof memory);
        assert_false(weir_field_put_string(&field, rows[i].text));
        assert_int_equal(field.length, 0);
    }
}

static void writes_integers_of_15_digits_and_no_more(void **state)
{
    (void)state;
    char memory[32];
    struct weir_buffer field = weir_buffer_init(memory, sizeof memory);
    assert_true(weir_field_put_integer(&field, 0));
    assert_true(weir_field_put_integer(&field, UINT64_C(999999999999999)));
    assert_false(weir_field_put_integer(&field, UINT64_C(1000000000000000)));
    assert_false(weir_field_put_integer(&field, UINT64_MAX));
    assert_string_equal(weir_buffer_string(&field), "0999999999999999");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_only_quotes_and_backslashes),
        cmocka_unit_test(refuses_bytes_that_a_string_cannot_hold),
        cmocka_unit_test(writes_integers_of_15_digits_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
