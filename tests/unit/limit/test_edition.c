/* Editions: who has one, and when it is freed. */
#include "test.h"

#include <pthread.h>

#include "limit/edition.h"

static struct weir_editions editions;
static atomic_uint freed;

static void free_edition(struct weir_edition *edition)
{
    atomic_fetch_add(&freed, 1);
    free(edition);
}

static void replace(void)
{
    struct weir_edition *made = calloc(1, sizeof *made);
    assert_non_null(made);
    assert_true(weir_editions_replace(&editions, made));
}

static int set_up(void **state)
{
    (void)state;
    atomic_store(&freed, 0);
    weir_editions_init(&editions, free_edition);
    replace();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_editions_finish(&editions);
    return 0;
}

static void gives_the_current_one(void **state)
{
    (void)state;
    const struct weir_edition *first = weir_edition_take(&editions);
    assert_int_equal(first->number, 1);
    replace();
    const struct weir_edition *second = weir_edition_take(&editions);
    assert_int_equal(second->number, 2);
    weir_edition_leave(second);
    weir_edition_leave(first);
}

static void keeps_the_current_one_when_nobody_has_it(void **state)
{
    (void)state;
    weir_edition_leave(weir_edition_take(&editions));
    assert_int_equal(atomic_load(&freed), 0);
}

static void frees_a_replaced_one_when_the_last_has_left_it(void **state)
{
    (void)state;
    const struct weir_edition *edition = weir_edition_take(&editions);
    assert_ptr_equal(weir_edition_take_again(edition), edition);
    replace();
    weir_edition_leave(edition);
    assert_int_equal(atomic_load(&freed), 0);
    assert_int_equal(weir_editions_count(&editions), 2);
    weir_edition_leave(edition);
    assert_int_equal(atomic_load(&freed), 1);
    assert_int_equal(weir_editions_count(&editions), 1);
}

static void frees_a_replaced_one_that_nobody_has(void **state)
{
    (void)state;
    replace();
    assert_int_equal(atomic_load(&freed), 1);
}

static void has_any_number_of_old_ones_at_once(void **state)
{
    (void)state;
    enum { MANY = 100 };
    const struct weir_edition *taken[MANY];
    for (size_t i = 0; i < MANY; i++) {
        taken[i] = weir_edition_take(&editions);
        assert_int_equal(taken[i]->number, i + 1);
        replace();
    }
    assert_int_equal(weir_editions_count(&editions), MANY + 1);
    for (size_t i = MANY; i-- > 0;)
        weir_edition_leave(taken[i]);
    assert_int_equal(atomic_load(&freed), MANY);
}

static size_t slots(void)
{
    size_t count = 0;
    for (const struct weir_edition_slot *slot = editions.slots; slot != NULL; slot = slot->next)
        count++;
    return count;
}

static void uses_slots_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < 1000; i++) {
        replace();
    }
    assert_true(slots() <= 2);
}

/* under way on several threads */

static atomic_bool stops;

static void *take_and_leave(void *unused)
{
    while (!atomic_load(&stops)) {
        const struct weir_edition *edition = weir_edition_take(&editions);
        const struct weir_edition *again = weir_edition_take_again(edition);
        assert_true(again->number > 0); /* sanitizers see whether it is still there */
        weir_edition_leave(again);
        weir_edition_leave(edition);
    }
    return unused;
}

static void keeps_each_for_as_long_as_anybody_has_it(void **state)
{
    (void)state;
    pthread_t threads[3];
    atomic_store(&stops, false);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_leave, NULL), 0);
    for (size_t i = 0; i < 20000; i++) {
        replace();
    }
    atomic_store(&stops, true);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(weir_editions_count(&editions), 1);
    assert_int_equal(atomic_load(&freed), 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gives_the_current_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeps_the_current_one_when_nobody_has_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(frees_a_replaced_one_when_the_last_has_left_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(frees_a_replaced_one_that_nobody_has, set_up, tear_down),
        cmocka_unit_test_setup_teardown(has_any_number_of_old_ones_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(uses_slots_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeps_each_for_as_long_as_anybody_has_it, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("edition", tests, NULL, NULL);
}
