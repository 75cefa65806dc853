#include "test.h"

#include "request/path.h"

struct row {
    const char *when;
    const char *target;
    const char *path; /* NULL: refused */
};

static void check_row(const struct row *row, enum weir_path_form form)
{
    char memory[128];
    struct weir_buffer path = weir_buffer_init(memory, sizeof memory);
    print_message("    %s\n", row->when);
    bool done = weir_path_normalise(weir_text_from(row->target), form, &path);
    assert_int_equal(done, row->path != NULL);
    if (done)
        assert_string_equal(weir_buffer_string(&path), row->path);
}

static const struct row same_in_both[] = {
    { "the root", "/", "/" },
    { "a plain path", "/v1/items", "/v1/items" },
    { "a slash at the end", "/v1/items/", "/v1/items" },
    { "several slashes at the end", "/v1/items///", "/v1/items" },
    { "double slashes inside", "/v1//items", "/v1/items" },
    { "double slashes in front are no host", "//evil/v1", "/evil/v1" },
    { "slashes only", "////", "/" },
    { "a dot segment", "/v1/./items", "/v1/items" },
    { "a dot at the end", "/v1/.", "/v1" },
    { "a dot alone", "/.", "/" },
    { "a parent", "/a/../b", "/b" },
    { "a parent at the end", "/a/..", "/" },
    { "a parent and a slash", "/a/b/../", "/a" },
    { "parents down to the root", "/a/b/../../c", "/c" },
    { "an empty segment is no segment to go up from", "/a//../b", "/b" },
    { "above the root", "/..", NULL },
    { "above the root and back", "/../a", NULL },
    { "above the root later", "/a/../../b", NULL },
    { "three dots are a name", "/.../a", "/.../a" },
    { "names that start or end with dots", "/..a/b../.c", "/..a/b../.c" },
    { "a backslash is a character", "/a\\..\\b", "/a\\..\\b" },
    { "letter case is kept", "/V1/Items", "/V1/Items" },
    { "a semicolon is a character", "/a;x=1/../b", "/b" },
    { "bytes above ASCII are kept", "/caf\xC3\xA9/\xFF", "/caf\xC3\xA9/\xFF" },
    { "an absolute form", "http://example.com/v1/items", "/v1/items" },
    { "an absolute form without a path", "http://example.com", "/" },
    { "an absolute form with a port and a user", "HTTP://me@example.com:80/a/", "/a" },
    { "an absolute form is resolved too", "https://example.com//a/./../b", "/b" },
    { "an absolute form above the root", "http://example.com/..", NULL },
    { "an absolute form without a host", "http:///a", NULL },
    { "a scheme that starts with a digit", "1http://host/a", NULL },
    { "no scheme", "://host/a", NULL },
    { "half a scheme", "http:/a", NULL },
    { "an authority", "example.com:443", NULL },
    { "a star", "*", NULL },
    { "nothing", "", NULL },
    { "no slash in front", "v1/items", NULL },
    { "a blank in front", " /v1", NULL },
};

static void normalises_paths(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(same_in_both); i++) {
        check_row(&same_in_both[i], WEIR_PATH_DECODED);
        check_row(&same_in_both[i], WEIR_PATH_ENCODED);
    }
}

static void decodes_what_is_encoded_once(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "a letter", "/%76%31", "/v1" },
        { "digits of either case", "/%c3%A9", "/\xC3\xA9" },
        { "dots", "/a/%2e%2E/b", "/b" },
        { "half encoded dots", "/a/.%2e/b", "/b" },
        { "dots above the root", "/%2e%2e/b", NULL },
        { "a slash", "/a%2Fb", "/a/b" },
        { "a slash that makes a parent", "/a/b%2f..%2fc", "/a/c" },
        { "a slash at the end", "/a%2f", "/a" },
        { "an encoded percent sign stays one", "/%252e%252e/b", "/%2e%2e/b" },
        { "twice encoded slash", "/a%252fb", "/a%2fb" },
        { "an encoded question mark is of the path", "/a%3Fb", "/a?b" },
        { "a query is not", "/a/?b=/../c", "/a" },
        { "a query behind a host", "http://example.com?a=/b", "/" },
        { "a slash in front that is encoded", "%2Fa", NULL },
        { "a NUL", "/a%00b", NULL },
        { "a broken escape", "/a%2", NULL },
        { "a lone percent sign", "/a%", NULL },
        { "no hexadecimal digits", "/a%zz", NULL },
        { "one hexadecimal digit", "/a%2z", NULL },
        { "a sign is no digit", "/a%+2", NULL },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_row(&rows[i], WEIR_PATH_ENCODED);
}

static void leaves_alone_what_is_decoded(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "an escape that was encoded itself", "/%2e%2e/b", "/%2e%2e/b" },
        { "a percent sign", "/100%", "/100%" },
        { "a question mark", "/a?b/../c", "/c" },
        { "a question mark at the end", "/a?", "/a?" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_row(&rows[i], WEIR_PATH_DECODED);
}

static void refuses_a_nul(void **state)
{
    (void)state;
    static const struct weir_text targets[] = {
        { "/a\0b", 4 }, { "\0/a", 3 }, { "/a\0", 3 }, { "http://a\0b/c", 12 }
    };
    for (size_t i = 0; i < COUNT_OF(targets); i++) {
        char memory[32];
        struct weir_buffer path = weir_buffer_init(memory, sizeof memory);
        assert_false(weir_path_normalise(targets[i], WEIR_PATH_DECODED, &path));
        path = weir_buffer_init(memory, sizeof memory);
        assert_false(weir_path_normalise(targets[i], WEIR_PATH_ENCODED, &path));
    }
}

static void reads_nothing_past_the_end_of_an_escape(void **state)
{
    (void)state;
    char memory[32];
    struct weir_buffer path = weir_buffer_init(memory, sizeof memory);
    assert_false(weir_path_normalise((struct weir_text){ "/a%62", 4 }, WEIR_PATH_ENCODED, &path));
}

static void refuses_what_the_buffer_cannot_hold(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *target;
        size_t size;
        bool wanted;
    } rows[] = {
        { "it fits with its NUL", "/abc", 5, true },
        { "the NUL does not fit", "/abc", 4, false },
        { "nothing fits", "/", 1, false },
        { "the root fits", "/", 2, true },
        { "a parent would have shortened it", "/abcdef/..", 4, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char memory[16];
        struct weir_buffer path = weir_buffer_init(memory, rows[i].size);
        print_message("    %s\n", rows[i].when);
        assert_int_equal(
            weir_path_normalise(weir_text_from(rows[i].target), WEIR_PATH_DECODED, &path),
            rows[i].wanted);
    }
}

static void keeps_what_is_in_the_buffer(void **state)
{
    (void)state;
    char memory[32];
    struct weir_buffer path = weir_buffer_init(memory, sizeof memory);
    weir_buffer_put_string(&path, "GET /x");
    assert_true(weir_path_normalise(WEIR_TEXT("/a/../b/"), WEIR_PATH_DECODED, &path));
    assert_string_equal(weir_buffer_string(&path), "GET /x/b");

    path = weir_buffer_init(memory, sizeof memory);
    weir_buffer_put_string(&path, "/x");
    assert_false(weir_path_normalise(WEIR_TEXT("/../b"), WEIR_PATH_DECODED, &path));
}

static void changes_nothing_the_second_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(same_in_both); i++) {
        if (same_in_both[i].path == NULL)
            continue;
        struct row again = { same_in_both[i].when, same_in_both[i].path, same_in_both[i].path };
        check_row(&again, WEIR_PATH_DECODED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalises_paths),
        cmocka_unit_test(decodes_what_is_encoded_once),
        cmocka_unit_test(leaves_alone_what_is_decoded),
        cmocka_unit_test(refuses_a_nul),
        cmocka_unit_test(reads_nothing_past_the_end_of_an_escape),
        cmocka_unit_test(refuses_what_the_buffer_cannot_hold),
        cmocka_unit_test(keeps_what_is_in_the_buffer),
        cmocka_unit_test(changes_nothing_the_second_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
