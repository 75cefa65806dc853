#include "test.h"

#include "request/facts.h"

/* clang-format off */
#define LINE(name, value) { { (name), sizeof(name) - 1 }, { (value), sizeof(value) - 1 } }
/* clang-format on */

static const struct weir_line headers[] = {
    LINE("X-One", "first"),
    LINE("x-one", "second"),
    LINE("X-Empty", ""),
};
static const struct weir_line queries[] = {
    LINE("q", "first"),
    LINE("q", "second"),
    LINE("Q", "upper"),
};
static const struct weir_facts facts = {
    .headers = headers,
    .header_count = COUNT_OF(headers),
    .queries = queries,
    .query_count = COUNT_OF(queries),
};

static void finds_the_first_header_line_whatever_its_case(void **state)
{
    (void)state;
    assert_true(weir_text_equal(weir_facts_header(&facts, WEIR_TEXT("x-ONE")), WEIR_TEXT("first")));
}

static void tells_an_empty_header_from_none(void **state)
{
    (void)state;
    assert_non_null(weir_facts_header(&facts, WEIR_TEXT("x-empty")).at);
    assert_int_equal(weir_facts_header(&facts, WEIR_TEXT("x-empty")).length, 0);
    assert_null(weir_facts_header(&facts, WEIR_TEXT("x-on")).at);
    assert_null(weir_facts_header(&(struct weir_facts){ .header_count = 0 }, WEIR_TEXT("a")).at);
}

static void finds_the_first_query_argument_of_exactly_that_name(void **state)
{
    (void)state;
    assert_true(weir_text_equal(weir_facts_query(&facts, WEIR_TEXT("q")), WEIR_TEXT("first")));
    assert_true(weir_text_equal(weir_facts_query(&facts, WEIR_TEXT("Q")), WEIR_TEXT("upper")));
    assert_null(weir_facts_query(&facts, WEIR_TEXT("r")).at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_first_header_line_whatever_its_case),
        cmocka_unit_test(tells_an_empty_header_from_none),
        cmocka_unit_test(finds_the_first_query_argument_of_exactly_that_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
