#include "test.h"

#include "base/suggest.h"

static const char *const known[] = { "limits", "limit",     "by",
                                     "rate",   "algorithm", "on_store_failure" };

static void suggests_the_nearest_name(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *word;
        const char *meant;
    } rows[] = {
        { "a letter is missing", "algoritm", "algorithm" },
        { "a letter is too many", "ratee", "rate" },
        { "a letter is wrong", "rare", "rate" },
        { "two letters are swapped", "arte", "rate" },
        { "the case differs", "Limits", "limits" },
        { "several letters of a long name", "on_stor_failur", "on_store_failure" },
        { "a longer name is further away", "limti", "limit" },
        { "a short name", "bY_", "by" },
        { "nothing is close", "colour", NULL },
        { "a short name with nothing in common", "xz", NULL },
        { "nothing was written", "", NULL },
        { "too far for its length", "rxxe", NULL },
        { "a word too long to be measured",
          "rateraterateraterateraterateraterateraterateraterateraterateraterate", NULL },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        const char *got = weir_suggest(weir_text_from(rows[i].word), known, COUNT_OF(known));
        if (rows[i].meant == NULL)
            assert_null(got);
        else
            assert_string_equal(got, rows[i].meant);
    }
}

static void takes_the_first_of_equals(void **state)
{
    (void)state;
    static const char *const twins[] = { "burst", "bursa" };
    assert_ptr_equal(weir_suggest(WEIR_TEXT("bursx"), twins, COUNT_OF(twins)), twins[0]);
}

static void passes_over_names_it_cannot_measure(void **state)
{
    (void)state;
    static const char *const names[] = {
        "", "rateraterateraterateraterateraterateraterateraterateraterateraterate", "rate"
    };
    assert_ptr_equal(weir_suggest(WEIR_TEXT("rat"), names, COUNT_OF(names)), names[2]);
    assert_null(weir_suggest(WEIR_TEXT("rat"), names, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suggests_the_nearest_name),
        cmocka_unit_test(takes_the_first_of_equals),
        cmocka_unit_test(passes_over_names_it_cannot_measure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
