/* Targets of requests that no server has read. */
#include "test.h"

#include "request/target.h"

static char memory[4096];
static size_t used, room;

static void *alloc(void *owner, size_t size)
{
    (void)owner;
    size_t at = (used + 15) / 16 * 16;
    if (size > room - at)
        return NULL;
    used = at + size;
    return memory + at;
}

static const struct weir_target_memory ours = { alloc, NULL };

static bool read_into(struct weir_facts *facts, struct weir_text whole, size_t bytes)
{
    *facts = (struct weir_facts){ .has_body = false };
    used = 0;
    room = bytes;
    return weir_target_read(whole, &ours, facts);
}

static void assert_text(struct weir_text text, struct weir_text wanted)
{
    assert_int_equal(text.length, wanted.length);
    if (wanted.length > 0)
        assert_memory_equal(text.at, wanted.at, wanted.length);
}

static void decodes_the_target_as_far_as_a_string_goes(void **state)
{
    (void)state;
    const struct {
        struct weir_text whole, target;
    } rows[] = {
        { WEIR_TEXT("/a%2Fb%20c"), WEIR_TEXT("/a/b c") },
        { WEIR_TEXT("/a+b?a+b"), WEIR_TEXT("/a+b") },
        { WEIR_TEXT("/100%"), WEIR_TEXT("/100%") },
        { WEIR_TEXT("/%4"), WEIR_TEXT("/%4") },
        { WEIR_TEXT("/%zz%41"), WEIR_TEXT("/%zzA") },
        { WEIR_TEXT("/a%00b"), WEIR_TEXT("/a") },
        { WEIR_TEXT("?x=1"), WEIR_TEXT("") },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_facts facts;
        print_message("    %s\n", rows[i].whole.at);
        assert_true(read_into(&facts, rows[i].whole, sizeof memory));
        assert_text(facts.target, rows[i].target);
    }
}

static void takes_the_pairs_of_a_query(void **state)
{
    (void)state;
    struct weir_facts facts;
    assert_true(read_into(&facts, WEIR_TEXT("/?a=1&b&=2&&c=x+y%26z&d=&e%3D=p%00q"), sizeof memory));
    const struct {
        struct weir_text name, value;
    } rows[] = {
        { WEIR_TEXT("a"), WEIR_TEXT("1") },     { WEIR_TEXT("b"), { NULL, 0 } },
        { WEIR_TEXT("c"), WEIR_TEXT("x y&z") }, { WEIR_TEXT("d"), WEIR_TEXT("") },
        { WEIR_TEXT("e="), WEIR_TEXT("p\0q") },
    };
    assert_int_equal(facts.query_count, COUNT_OF(rows));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_text(facts.queries[i].name, rows[i].name);
        assert_text(facts.queries[i].value, rows[i].value);
    }
    assert_true(read_into(&facts, WEIR_TEXT("/a?"), sizeof memory));
    assert_int_equal(facts.query_count, 0);
}

static void says_when_memory_runs_out(void **state)
{
    (void)state;
    struct weir_facts facts;
    const struct weir_text whole = WEIR_TEXT("/path?name=value&other=value");
    size_t bytes = 0;
    while (!read_into(&facts, whole, bytes))
        bytes++;
    assert_in_range(bytes, 1, sizeof memory - 1);
    assert_int_equal(facts.query_count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_the_target_as_far_as_a_string_goes),
        cmocka_unit_test(takes_the_pairs_of_a_query),
        cmocka_unit_test(says_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
