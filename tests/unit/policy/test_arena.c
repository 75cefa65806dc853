#include "test.h"

#include "base/arena.h"

static void gives_out_aligned_zeros(void **state)
{
    (void)state;
    struct weir_arena *arena = weir_arena_new();
    assert_non_null(arena);
    for (size_t size = 1; size < 20000; size = size * 3 + 1) {
        unsigned char *piece = weir_arena_array(arena, size, 1);
        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(piece[i], 0);
        memset(piece, 0xAA, size);
    }
    assert_null(weir_arena_free(arena));
    assert_null(weir_arena_free(NULL));
}

static void gives_out_pieces_that_do_not_overlap(void **state)
{
    (void)state;
    struct weir_arena *arena = weir_arena_new();
    unsigned char *pieces[500];
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        pieces[i] = weir_arena_array(arena, i + 1, 3);
        memset(pieces[i], (int)(i % 251), (i + 1) * 3);
    }
    for (size_t i = 0; i < COUNT_OF(pieces); i++)
        for (size_t j = 0; j < (i + 1) * 3; j++)
            assert_int_equal(pieces[i][j], i % 251);
    weir_arena_free(arena);
}

static void copies_texts_with_an_end(void **state)
{
    (void)state;
    struct weir_arena *arena = weir_arena_new();
    assert_string_equal(weir_arena_copy(arena, (struct weir_text){ "abcdef", 3 }), "abc");
    assert_string_equal(weir_arena_copy(arena, (struct weir_text){ NULL, 0 }), "");
    assert_memory_equal(weir_arena_copy(arena, (struct weir_text){ "a\0b", 3 }), "a\0b", 4);
    weir_arena_free(arena);
}

static void gives_a_pointer_for_nothing(void **state)
{
    (void)state;
    struct weir_arena *arena = weir_arena_new();
    assert_non_null(weir_arena_array(arena, 0, 8));
    weir_arena_free(arena);
}

static void refuses_sizes_that_overflow(void **state)
{
    (void)state;
    struct weir_arena *arena = weir_arena_new();
    assert_null(weir_arena_array(arena, SIZE_MAX / 2, 3));
    assert_null(weir_arena_array(arena, SIZE_MAX, 1));
    assert_null(weir_arena_array(arena, SIZE_MAX - 8, 1));
    assert_null(weir_arena_copy(arena, (struct weir_text){ "", SIZE_MAX }));
    weir_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_out_aligned_zeros),
        cmocka_unit_test(gives_out_pieces_that_do_not_overlap),
        cmocka_unit_test(copies_texts_with_an_end),
        cmocka_unit_test(gives_a_pointer_for_nothing),
        cmocka_unit_test(refuses_sizes_that_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
