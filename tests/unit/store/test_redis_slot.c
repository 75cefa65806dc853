#include "test.h"

#include "store/redis_slot.h"

static void computes_crc16(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint16_t want;
    } rows[] = {
        { "123456789", 0x31C3 }, /* the check value of CRC-16/XMODEM */
        { "", 0 },
        { "\xFF", 0x1EF0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(weir_crc16(weir_text_from(rows[i].text)), rows[i].want);
}

/* The slots are what Redis says itself (CLUSTER KEYSLOT). */
static void finds_the_slot_of_a_key(void **state)
{
    (void)state;
    static const struct {
        const char *what, *key, *tag;
        unsigned slot;
    } rows[] = {
        { "a plain key", "foo", "foo", 12182 },
        { "the end of the table", "123456789", "123456789", 12739 },
        { "an empty key", "", "", 0 },
        { "a tag", "{user1000}.following", "user1000", 3443 },
        { "an empty tag is none", "foo{}{bar}", "foo{}{bar}", 8363 },
        { "only an empty tag", "{}", "{}", 15257 },
        { "a brace in a tag", "foo{{bar}}zap", "{bar", 4015 },
        { "the first of two tags", "foo{bar}{zap}", "bar", 5061 },
        { "braces the wrong way round", "a}b{c", "a}b{c", 13587 },
        { "a brace that never closes", "a{b", "a{b", 13340 },
        { "nothing but a brace", "{", "{", 4092 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        struct weir_text key = weir_text_from(rows[i].key);
        struct weir_text tag = weir_redis_slot_text(key);
        assert_true(weir_text_equal(tag, weir_text_from(rows[i].tag)));
        assert_int_equal(weir_redis_slot(key), rows[i].slot);
    }
}

static void takes_any_byte_in_a_key(void **state)
{
    (void)state;
    struct weir_text zeros = { "\0\0", 2 }, tagged = { "\0{\0\0}\0", 6 };
    assert_int_equal(weir_redis_slot(tagged), weir_redis_slot(zeros));
    assert_int_equal(weir_redis_slot_text(tagged).length, 2);
    assert_int_equal(weir_redis_slot((struct weir_text){ "\x80\xFF", 2 }) < WEIR_REDIS_SLOTS, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computes_crc16),
        cmocka_unit_test(finds_the_slot_of_a_key),
        cmocka_unit_test(takes_any_byte_in_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
