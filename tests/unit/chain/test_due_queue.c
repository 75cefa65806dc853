/* The order in which waiting requests are due. */
#include "test.h"

#include "chain/due_queue.h"

/* Takes all out and writes their places as letters, "abc". */
static const char *drained(struct weir_due_queue *queue)
{
    static char text[64];
    size_t length = 0;
    const struct weir_due *first;
    while ((first = weir_due_queue_first(queue)) != NULL) {
        text[length++] = (char)('a' + first->place);
        assert_true(weir_due_queue_remove(queue, first->place));
    }
    text[length] = '\0';
    return text;
}

static void hands_out_who_is_due_first(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t dues_us[6]; /* of the places a, b, c …, added in this order; 0: no more */
        const char *removed; /* before the rest is handed out */
        const char *order;
    } rows[] = {
        { "nobody waits", { 0 }, "", "" },
        { "one waits", { 5 }, "", "a" },
        { "in the order they came", { 1, 2, 3, 4 }, "", "abcd" },
        { "against the order they came", { 4, 3, 2, 1 }, "", "dcba" },
        { "at one moment", { 7, 7, 7, 7, 7 }, "", "abcde" },
        { "one moment among others", { 9, 7, 8, 7, 1 }, "", "ebdca" },
        { "the ends of time", { UINT64_MAX, 1, UINT64_MAX - 1 }, "", "bca" },
        { "the first leaves", { 1, 2, 3 }, "a", "bc" },
        { "the last leaves", { 1, 2, 3 }, "c", "ab" },
        { "one between leaves", { 1, 5, 2, 6, 7, 3 }, "b", "acfde" },
        { "a gap is filled from another branch", { 1, 9, 2, 11, 12, 3 }, "d", "acfbe" },
        { "all leave", { 3, 1, 2 }, "cab", "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_due_queue queue;
        print_message("    %s\n", rows[i].when);
        assert_true(weir_due_queue_init(&queue, 6));
        for (uint32_t place = 0; place < 6 && rows[i].dues_us[place] != 0; place++)
            weir_due_queue_add(&queue, place, rows[i].dues_us[place]);
        for (const char *at = rows[i].removed; *at != '\0'; at++)
            assert_true(weir_due_queue_remove(&queue, (uint32_t)(*at - 'a')));
        assert_string_equal(drained(&queue), rows[i].order);
        weir_due_queue_finish(&queue);
    }
}

static void knows_who_is_not_in(void **state)
{
    (void)state;
    struct weir_due_queue queue = { 0 };
    assert_false(weir_due_queue_remove(&queue, 0));
    assert_null(weir_due_queue_first(&queue));

    assert_true(weir_due_queue_init(&queue, 2));
    assert_false(weir_due_queue_remove(&queue, 1));
    assert_false(weir_due_queue_remove(&queue, 2));
    weir_due_queue_add(&queue, 1, 5);
    assert_true(weir_due_queue_remove(&queue, 1));
    assert_false(weir_due_queue_remove(&queue, 1));
    weir_due_queue_finish(&queue);
}

/* The same kept as a plain list, searched from end to end. */
#define PLACES 50

struct model {
    bool is_in[PLACES];
    uint64_t due_us[PLACES];
    unsigned came[PLACES];
};

static uint32_t first_of(const struct model *model)
{
    uint32_t best = PLACES;
    for (uint32_t i = 0; i < PLACES; i++) {
        if (!model->is_in[i])
            continue;
        if (best == PLACES || model->due_us[i] < model->due_us[best]
            || (model->due_us[i] == model->due_us[best] && model->came[i] < model->came[best]))
            best = i;
    }
    return best;
}

static void agrees_with_a_plain_list(void **state)
{
    (void)state;
    struct weir_due_queue queue;
    struct model model = { 0 };
    uint32_t random = 1;
    assert_true(weir_due_queue_init(&queue, PLACES));
    for (unsigned step = 0; step < 200000; step++) {
        random = random * 1664525u + 1013904223u;
        uint32_t place = random >> 16 & 0xFFFF;
        uint64_t due_us = place % 40; /* so that many are due at once */
        place %= PLACES;
        assert_int_equal(model.is_in[place], queue.positions[place] != 0);
        if (model.is_in[place]) {
            assert_true(weir_due_queue_remove(&queue, place));
        } else {
            weir_due_queue_add(&queue, place, due_us);
            model.due_us[place] = due_us;
            model.came[place] = step;
        }
        model.is_in[place] = !model.is_in[place];
        const struct weir_due *first = weir_due_queue_first(&queue);
        assert_int_equal(first == NULL ? PLACES : first->place, first_of(&model));
    }
    weir_due_queue_finish(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hands_out_who_is_due_first),
        cmocka_unit_test(knows_who_is_not_in),
        cmocka_unit_test(agrees_with_a_plain_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
