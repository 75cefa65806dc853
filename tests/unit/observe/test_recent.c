/* The last decisions: in order, bounded, with texts of their own. */
#include "test.h"

#include "observe/recent.h"

static struct weir_recent *recent;

static int set_up(void **state)
{
    (void)state;
    recent = weir_recent_new();
    assert_non_null(recent);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    recent = weir_recent_free(recent);
    return 0;
}

static void add(unsigned number)
{
    char id[16];
    snprintf(id, sizeof id, "id-%u", number);
    weir_recent_add(recent, &(struct weir_decision){
                                .outcome = WEIR_LIMITED, .request_id = id, .cost = number });
    memset(id, 'x', sizeof id); /* the copy has its own */
}

static struct weir_recent_decision listed[WEIR_RECENT_MAX];

static void lists_them_from_the_oldest_on(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 5; i++)
        add(i);
    assert_int_equal(weir_recent_list(recent, 0, listed, WEIR_RECENT_MAX), 5);
    assert_string_equal(listed[0].decision.request_id, "id-1");
    assert_int_equal(listed[4].sequence, 5);
    assert_int_equal(weir_recent_list(recent, 3, listed, WEIR_RECENT_MAX), 2);
    assert_string_equal(listed[0].decision.request_id, "id-4");
    assert_int_equal(weir_recent_list(recent, 1, listed, 2), 2);
    assert_string_equal(listed[1].decision.request_id, "id-3");
    assert_int_equal(weir_recent_list(recent, 5, listed, 2), 0);
    /* Of a process before this one. */
    assert_int_equal(weir_recent_list(recent, 6, listed, WEIR_RECENT_MAX), 5);
    assert_int_equal(weir_recent_list(recent, UINT64_MAX, listed, WEIR_RECENT_MAX), 5);
}

static void keeps_no_more_than_its_number(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 3 * WEIR_RECENT_MAX; i++)
        add(i);
    assert_int_equal(weir_recent_list(recent, 0, listed, WEIR_RECENT_MAX), WEIR_RECENT_MAX);
    assert_int_equal(listed[0].decision.cost, 2 * WEIR_RECENT_MAX + 1);
    assert_int_equal(listed[WEIR_RECENT_MAX - 1].decision.cost, 3 * WEIR_RECENT_MAX);
    struct weir_recent_decision found;
    assert_false(weir_recent_find(recent, "id-1", &found));
    assert_true(weir_recent_find(recent, "id-768", &found));
}

static void finds_the_last_one_of_a_request(void **state)
{
    (void)state;
    struct weir_recent_decision found;
    assert_false(weir_recent_find(recent, "id-1", &found));
    add(1);
    add(2);
    add(1);
    weir_recent_add(recent, &(struct weir_decision){ .outcome = WEIR_BUSY });
    assert_true(weir_recent_find(recent, "id-1", &found));
    assert_int_equal(found.sequence, 3);
    assert_ptr_equal(found.decision.request_id, strstr(found.texts, "id-1"));
    assert_null(found.decision.key);
}

static void cuts_long_texts_between_characters(void **state)
{
    (void)state;
    char path[600];
    memset(path, 'a', sizeof path);
    memcpy(path + 254, "\xE2\x82\xAC", 3); /* one character over the 256th byte */
    path[sizeof path - 1] = '\0';
    weir_recent_add(recent, &(struct weir_decision){ .path = path, .why = path, .key = path });
    assert_int_equal(weir_recent_list(recent, 0, listed, 1), 1);
    assert_int_equal(strlen(listed[0].decision.path), 254 + 3);
    assert_string_equal(listed[0].decision.path + 250, "aaaa...");
    assert_int_equal(strlen(listed[0].decision.why), 64 + 3);
}

static void has_room_for_all_texts_at_their_longest(void **state)
{
    (void)state;
    char text[600];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    const struct weir_decision long_one = {
        .method = text,
        .path = text,
        .policy = text,
        .limit = text,
        .client = text,
        .failure = text,
        .why = text,
        .instance = text,
        .request_id = text,
        .traceparent = text,
        .key = text,
        .source = text,
        .address = text,
    };
    weir_recent_add(recent, &long_one);
    assert_int_equal(weir_recent_list(recent, 0, listed, 1), 1);
    const struct weir_decision *kept = &listed[0].decision;
    assert_string_equal(kept->address + strlen(kept->address) - 3, "...");
    assert_true(kept->address + strlen(kept->address) < listed[0].texts + sizeof listed[0].texts);
    assert_int_equal(strlen(kept->request_id), 128 + 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lists_them_from_the_oldest_on),           TEST(keeps_no_more_than_its_number),
        TEST(finds_the_last_one_of_a_request),         TEST(cuts_long_texts_between_characters),
        TEST(has_room_for_all_texts_at_their_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
