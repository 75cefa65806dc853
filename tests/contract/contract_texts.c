/* Texts that all who share a store see: looked at, and exchanged by who has seen the last. */
#include "contract_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the exchange at hand. */
static char found[WEIR_TEXT_BYTES_MAX];

static struct weir_spend new_key(const char *name)
{
    struct weir_spend named = contract_gcra(name, 1, SECOND, 0);
    return (struct weir_spend){ .key = named.key, .key_length = named.key_length };
}

static struct weir_exchange exchange_at(struct weir_store *asked, const struct weir_spend *key,
                                        struct weir_exchange exchange)
{
    exchange.found = found;
    exchange.found_length = SIZE_MAX;
    struct weir_check check = {
        .operation = WEIR_EXCHANGE, .spends = key, .count = 1, .exchange = &exchange
    };
    contract_submit(asked, &check);
    if (check.result != WEIR_STORE_ANSWERED)
        fail_msg("not answered: %s", check.why);
    assert_true(check.now_us > 0);
    return exchange;
}

static void assert_kept(struct weir_store *asked, const struct weir_spend *key, const char *text)
{
    struct weir_exchange seen = exchange_at(asked, key, (struct weir_exchange){ .text = NULL });
    assert_int_equal(seen.found_length, strlen(text));
    assert_memory_equal(found, text, strlen(text));
}

/* Puts a text in the place of one that begins with `expected`. */
static void put(struct weir_store *asked, const struct weir_spend *key, const char *expected,
                const char *text, uint64_t keep_us)
{
    exchange_at(
        asked, key,
        (struct weir_exchange){
            .expected = expected, .text = text, .length = strlen(text), .keep_us = keep_us });
}

#define MARK_A "aaaaaaaaaaaaaaaa"
#define MARK_B "bbbbbbbbbbbbbbbb"

static void keeps_a_text_for_all(void **state)
{
    (void)state;
    struct weir_spend key = new_key("kept"), other = new_key("other");
    struct weir_store *second = factory->handles_share ? factory->open(factory->self) : store;
    assert_kept(store, &key, "");
    put(store, &key, NULL, MARK_A "first", DAY);
    assert_kept(second, &key, MARK_A "first");
    put(second, &key, MARK_A, MARK_B "second", DAY);
    assert_kept(store, &key, MARK_B "second");
    assert_kept(store, &other, "");
    put(store, &key, MARK_B, "", DAY);
    assert_kept(second, &key, "");
    if (second != store)
        weir_store_free(second);
}

static void changes_nothing_that_is_not_as_expected(void **state)
{
    (void)state;
    struct weir_spend key = new_key("unexpected");
    put(store, &key, MARK_A, MARK_B "none was there", DAY);
    assert_kept(store, &key, "");
    put(store, &key, NULL, MARK_A "one", DAY);
    put(store, &key, NULL, MARK_B "two", DAY);
    put(store, &key, MARK_B, MARK_B "three", DAY);
    put(store, &key, MARK_B, "", DAY);
    assert_kept(store, &key, MARK_A "one");
}

static void keeps_any_bytes_up_to_the_most(void **state)
{
    (void)state;
    struct weir_spend key = new_key("long");
    char *text = malloc(WEIR_TEXT_BYTES_MAX);
    assert_non_null(text);
    for (size_t i = 0; i < WEIR_TEXT_BYTES_MAX; i++)
        text[i] = (char)(i % 251);
    exchange_at(
        store, &key,
        (struct weir_exchange){ .text = text, .length = WEIR_TEXT_BYTES_MAX, .keep_us = DAY });
    /* Replaced by another of that length, since both go along. */
    char mark[WEIR_TEXT_MARK_BYTES];
    memcpy(mark, text, sizeof mark);
    text[WEIR_TEXT_MARK_BYTES] = 'x';
    exchange_at(
        store, &key,
        (struct weir_exchange){
            .expected = mark, .text = text, .length = WEIR_TEXT_BYTES_MAX, .keep_us = DAY });
    struct weir_exchange seen = exchange_at(store, &key, (struct weir_exchange){ .text = NULL });
    assert_int_equal(seen.found_length, WEIR_TEXT_BYTES_MAX);
    assert_memory_equal(found, text, WEIR_TEXT_BYTES_MAX);
    free(text);
}

/* By hand of a clock only where the store's own time is: Redis expires by its own. */
static void forgets_a_text_in_time(void **state)
{
    (void)state;
    struct weir_spend key = new_key("short");
    if (time_is_ours() && factory->handles_share)
        skip();
    put(store, &key, NULL, MARK_A "soon gone", SHORT);
    pass_us(SHORT + 20000);
    assert_kept(store, &key, "");
    put(store, &key, NULL, MARK_B "anew", DAY);
    assert_kept(store, &key, MARK_B "anew");
}

static void leaves_sums_alone(void **state)
{
    (void)state;
    struct weir_spend limit = contract_gcra("sum", 10, DAY, 0), key = new_key("beside");
    assert_true(ask(&limit, 4).allowed);
    put(store, &key, NULL, MARK_A "beside", DAY);
    assert_int_equal(look(&limit).remaining, 6);
    assert_kept(store, &key, MARK_A "beside");
}

static void refuses_an_exchange_that_is_none(void **state)
{
    (void)state;
    struct weir_spend key = new_key("none");
    struct weir_exchange rows[] = {
        { .text = NULL, .found = NULL },
        { .text = "short", .length = 5, .keep_us = 1, .found = found },
        { .text = found, .length = WEIR_TEXT_BYTES_MAX + 1, .keep_us = 1, .found = found },
        { .text = MARK_A, .length = 16, .keep_us = 0, .found = found },
        { .text = MARK_A, .length = 16, .keep_us = WEIR_BURST_MAX_US + 1, .found = found },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_check check = {
            .operation = WEIR_EXCHANGE, .spends = &key, .count = 1, .exchange = &rows[i]
        };
        contract_submit(store, &check);
        assert_int_equal(check.result, WEIR_STORE_ERROR);
        assert_string_not_equal(check.why, "");
    }
}

static const struct CMUnitTest tests[] = {
    CASE(keeps_a_text_for_all),
    CASE(changes_nothing_that_is_not_as_expected),
    CASE(keeps_any_bytes_up_to_the_most),
    CASE(forgets_a_text_in_time),
    CASE(leaves_sums_alone),
    CASE(refuses_an_exchange_that_is_none),
};

const struct contract_group contract_texts = GROUP("texts", tests);
