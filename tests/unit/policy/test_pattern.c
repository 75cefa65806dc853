#include "test.h"

#include "policy/pattern.h"

static struct weir_pattern compiled(const char *text, bool fold)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_pattern pattern = { NULL, false, false };
    if (weir_pattern_compile(text, fold, &pattern, "/p", &error) != WEIR_OK)
        fail_msg("%s", error.text);
    return pattern;
}

/* "name=value name=value rest", or "-" for no match. */
static const char *outcome(const struct weir_pattern *pattern, const char *path)
{
    static char text[512];
    struct weir_params params;
    memset(&params, 0xAA, sizeof params);
    if (!weir_pattern_match(pattern, weir_text_from(path), &params)) {
        assert_int_equal(params.count, (size_t)0xAAAAAAAAAAAAAAAA);
        return "-";
    }
    size_t length = 0;
    text[0] = '\0';
    for (size_t i = 0; i < params.count; i++) {
        struct weir_text name, value;
        weir_params_at(&params, i, &name, &value);
        length += (size_t)snprintf(text + length, sizeof text - length, "%.*s=%.*s ",
                                   WEIR_TEXT_ARGS(name), WEIR_TEXT_ARGS(value));
    }
    snprintf(text + length, sizeof text - length, "%.*s",
             params.rest.at == NULL ? 4 : (int)params.rest.length,
             params.rest.at == NULL ? "none" : params.rest.at);
    return text;
}

static void matches_what_it_says(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *pattern;
        const char *path;
        const char *want;
    } rows[] = {
        { "the root", "/", "/", "none" },
        { "the root is not all", "/", "/a", "-" },
        { "literal segments", "/v1/items", "/v1/items", "none" },
        { "one segment less", "/v1/items", "/v1", "-" },
        { "one segment more", "/v1/items", "/v1/items/7", "-" },
        { "the start of a segment", "/v1/items", "/v1/itemsets", "-" },
        { "a segment that ends early", "/v1/items", "/v1/item", "-" },
        { "another letter case", "/v1/items", "/V1/Items", "-" },
        { "a parameter", "/v1/items/:id", "/v1/items/7", "id=7 none" },
        { "a parameter takes one segment", "/v1/items/:id", "/v1/items/7/x", "-" },
        { "a parameter takes at least one letter", "/v1/items/:id", "/v1/items", "-" },
        { "a parameter takes no empty segment", "/v1/items/:id", "/v1/items/", "-" },
        { "a parameter is not the root", "/:any", "/", "-" },
        { "a parameter in the middle", "/a/:b/c", "/a/x:y/c", "b=x:y none" },
        { "several parameters", "/:a/:b-c/:_d1", "/1/22/333", "a=1 b-c=22 _d1=333 none" },
        { "a star takes what is below", "/v1/*", "/v1/a/b", "/a/b" },
        { "a star takes the path itself", "/v1/*", "/v1", "" },
        { "a star starts at a slash", "/v1/*", "/v10", "-" },
        { "a star after a parameter", "/u/:id/*", "/u/7/x", "id=7 /x" },
        { "a star for everything", "/*", "/a/b", "/a/b" },
        { "a star for the root", "/*", "/", "" },
        { "a lonely star", "*", "/a", "/a" },
        { "a lonely star and the root", "*", "/", "" },
        { "marks that are letters here", "/a.b+c%/~", "/a.b+c%/~", "none" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_pattern pattern = compiled(rows[i].pattern, false);
        assert_string_equal(outcome(&pattern, rows[i].path), rows[i].want);
        weir_pattern_finish(&pattern);
    }
}

static void folds_letter_case_where_asked(void **state)
{
    (void)state;
    struct weir_pattern pattern = compiled("/Login/:Name/*", true);
    assert_string_equal(outcome(&pattern, "/lOGIN/Ann/X"), "Name=Ann /X");
    assert_string_equal(outcome(&pattern, "/l0gin/Ann/X"), "-");
    weir_pattern_finish(&pattern);
}

static void reads_no_further_than_the_path(void **state)
{
    (void)state;
    struct weir_pattern pattern = compiled("/ab", false);
    struct weir_params params;
    assert_true(weir_pattern_match(&pattern, (struct weir_text){ "/abc", 3 }, &params));
    assert_false(weir_pattern_match(&pattern, (struct weir_text){ "/abc", 2 }, &params));
    weir_pattern_finish(&pattern);
}

static void takes_eight_parameters(void **state)
{
    (void)state;
    struct weir_pattern pattern = compiled("/:a/:b/:c/:d/:e/:f/:g/:h/*", false);
    assert_string_equal(outcome(&pattern, "/1/2/3/4/5/6/7/8/9"),
                        "a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 /9");
    weir_pattern_finish(&pattern);
}

static void refuses_what_can_never_match(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why;
    } rows[] = {
        { "", "start with a \"/\"" },
        { "v1", "start with a \"/\"" },
        { "**", "start with a \"/\"" },
        { "/a*", "a star stands for all that is left" },
        { "/*/a", "a star stands for all that is left" },
        { "/a/*/*", "a star stands for all that is left" },
        { "/:", "a \":\" starts a segment that is a parameter" },
        { "/a/:/b", "a \":\" starts a segment that is a parameter" },
        { "/:1a", "no digit first" },
        { "/:id.json", "letters, digits, \"_\" and \"-\"" },
        { "/:id/x/:id", "a parameter's name stands there twice" },
        { "/:a/:b/:c/:d/:e/:f/:g/:h/:i", "more than 8 parameters" },
        { "/a/", "no path looks like that" },
        { "//", "no path looks like that" },
        { "/a//b", "no path looks like that" },
        { "/a/./b", "no path looks like that" },
        { "/a/../b", "no path looks like that" },
        { "/..", "no path looks like that" },
        { "//*", "no path looks like that" },
        { "/search?q=:q", "a query is no part of a path" },
        { "/a%20b", "without \"%\" escapes" },
        { "/a%2F", "without \"%\" escapes" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_pattern pattern = { NULL, false, false };
        print_message("    %s\n", rows[i].text);
        assert_int_equal(weir_pattern_compile(rows[i].text, false, &pattern, "/p", &error),
                         WEIR_E_VALUE);
        assert_string_equal(error.path, "/p");
        if (strstr(error.text, rows[i].why) == NULL)
            fail_msg("%s", error.text);
        assert_null(pattern.text);
    }
    assert_int_equal(weir_pattern_compile(NULL, false, &(struct weir_pattern){ 0 }, NULL, NULL),
                     WEIR_E_VALUE);
}

static void knows_what_hides_what(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *earlier;
        const char *later;
        bool earlier_folds, later_folds;
        bool hides;
    } rows[] = {
        { "the same", "/a/b", "/a/b", false, false, true },
        { "the root and the root", "/", "/", false, false, true },
        { "the root and all", "/", "/*", false, false, false },
        { "all and the root", "/*", "/", false, false, true },
        { "another", "/a/b", "/a/c", false, false, false },
        { "a parameter and a word", "/a/:x", "/a/b", false, false, true },
        { "a word and a parameter", "/a/b", "/a/:x", false, false, false },
        { "two parameters", "/a/:x", "/a/:y", false, false, true },
        { "a parameter and less", "/a/:x", "/a", false, false, false },
        { "a parameter and more", "/a/:x", "/a/b/c", false, false, false },
        { "a star and the path itself", "/a/*", "/a", false, false, true },
        { "a star and what is below", "/a/*", "/a/b/c", false, false, true },
        { "a star and a narrower star", "/a/*", "/a/b/*", false, false, true },
        { "a narrower star and a star", "/a/b/*", "/a/*", false, false, false },
        { "a path and a star", "/a", "/a/*", false, false, false },
        { "everything and anything", "*", "/a/:x/*", false, false, true },
        { "a parameter and a star below it", "/:x/*", "/a/*", false, false, true },
        { "a parameter below and a star", "/a/:x/*", "/a/*", false, false, false },
        { "folded and kept", "/A", "/a", true, false, true },
        { "kept and folded", "/a", "/a", false, true, false },
        { "kept and folded, without letters", "/1/:x", "/1/b", false, true, true },
        { "kept and kept, in another case", "/A", "/a", false, false, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_pattern earlier = compiled(rows[i].earlier, rows[i].earlier_folds);
        struct weir_pattern later = compiled(rows[i].later, rows[i].later_folds);
        print_message("    %s\n", rows[i].when);
        assert_int_equal(weir_pattern_hides(&earlier, &later), rows[i].hides);
        weir_pattern_finish(&earlier);
        weir_pattern_finish(&later);
    }
}

/* Writes up to three of four segments; all of them with numbers below 84. */
static void write_segments(size_t number, const char *const segments[4], char text[16])
{
    size_t length = number < 4 ? 1 : number < 20 ? 2 : 3;
    size_t digits = number < 4 ? number : number < 20 ? number - 4 : number - 20;
    text[0] = '\0';
    for (size_t i = 0; i < length; i++, digits /= 4)
        strcat(strcat(text, "/"), segments[digits % 4]);
}

static void hides_only_what_it_matches(void **state)
{
    (void)state;
    static const char *const segments[] = { "a", "B", ":x", "*" };
    static const char *const values[] = { "a", "A", "b", "1" };
    char patterns[84][16], paths[84][16];
    size_t pattern_count = 0, path_count = 0;
    for (size_t i = 0; i < 84; i++) {
        struct weir_pattern probe = { NULL, false, false };
        write_segments(i, values, paths[path_count++]);
        write_segments(i, segments, patterns[pattern_count]);
        pattern_count +=
            weir_pattern_compile(patterns[pattern_count], false, &probe, NULL, NULL) == WEIR_OK;
        weir_pattern_finish(&probe);
    }
    assert_true(pattern_count > 30);

    size_t hidden = 0;
    for (size_t i = 0; i < 4 * pattern_count * pattern_count; i++) {
        const char *texts[] = { patterns[i / 4 % pattern_count], patterns[i / 4 / pattern_count] };
        struct weir_pattern earlier = compiled(texts[0], i % 2 == 1);
        struct weir_pattern later = compiled(texts[1], i / 2 % 2 == 1);
        bool takes_all = true;
        for (size_t j = 0; j < path_count; j++)
            takes_all = takes_all
                        && (strcmp(outcome(&later, paths[j]), "-") == 0
                            || strcmp(outcome(&earlier, paths[j]), "-") != 0);
        if (weir_pattern_hides(&earlier, &later)) {
            hidden++;
            if (!takes_all)
                fail_msg("%s hides %s", texts[0], texts[1]);
        }
        weir_pattern_finish(&earlier);
        weir_pattern_finish(&later);
    }
    assert_true(hidden > pattern_count);
}

static void gives_a_parameter_by_its_name(void **state)
{
    (void)state;
    struct weir_pattern pattern = compiled("/:ab/:a", false);
    struct weir_params params;
    assert_true(weir_pattern_match(&pattern, WEIR_TEXT("/1/2"), &params));
    assert_true(weir_text_equal(weir_params_get(&params, WEIR_TEXT("a")), WEIR_TEXT("2")));
    assert_true(weir_text_equal(weir_params_get(&params, WEIR_TEXT("ab")), WEIR_TEXT("1")));
    assert_null(weir_params_get(&params, WEIR_TEXT("A")).at);
    assert_null(weir_params_get(&params, WEIR_TEXT("b")).at);
    weir_pattern_finish(&pattern);
    assert_null(pattern.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_what_it_says),
        cmocka_unit_test(folds_letter_case_where_asked),
        cmocka_unit_test(reads_no_further_than_the_path),
        cmocka_unit_test(takes_eight_parameters),
        cmocka_unit_test(refuses_what_can_never_match),
        cmocka_unit_test(knows_what_hides_what),
        cmocka_unit_test(hides_only_what_it_matches),
        cmocka_unit_test(gives_a_parameter_by_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
