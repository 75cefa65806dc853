#include "test.h"

#include <weir/error.h>
#include <weir/version.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/options.h"
#include "base/text.h"

static void reads_numbers_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *text;
        bool wanted;
        uint64_t number;
    } rows[] = {
        { "zero", "0", true, 0 },
        { "the largest", "18446744073709551615", true, UINT64_MAX },
        { "one more", "18446744073709551616", false, 0 },
        { "nothing", "", false, 0 },
        { "a sign", "+1", false, 0 },
        { "a blank", "1 ", false, 0 },
        { "a fraction", "1.5", false, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        uint64_t number = 0;
        assert_int_equal(weir_text_to_number(weir_text_from(rows[i].text), &number),
                         rows[i].wanted);
        assert_int_equal(number, rows[i].number);
    }
}

static void takes_items_from_both_ends(void **state)
{
    (void)state;
    struct weir_text list = WEIR_TEXT("a,,b"), item;
    assert_true(weir_text_take_first(&list, ',', &item));
    assert_true(weir_text_equal(item, WEIR_TEXT("a")));
    assert_true(weir_text_take_last(&list, ',', &item));
    assert_true(weir_text_equal(item, WEIR_TEXT("b")));
    assert_true(weir_text_take_last(&list, ',', &item));
    assert_int_equal(item.length, 0);
    assert_false(weir_text_take_first(&list, ',', &item));
    assert_false(weir_text_take_last(&list, ',', &item));
}

static void trims_and_folds(void **state)
{
    (void)state;
    assert_true(weir_text_equal(weir_text_trim(WEIR_TEXT(" \ta b\t ")), WEIR_TEXT("a b")));
    assert_int_equal(weir_text_trim(WEIR_TEXT("  ")).length, 0);
    assert_true(weir_text_equal_fold(WEIR_TEXT("X-Api-KEY"), WEIR_TEXT("x-api-key")));
    assert_false(weir_text_equal_fold(WEIR_TEXT("["), WEIR_TEXT("{")));
}

static void never_writes_past_a_buffer(void **state)
{
    (void)state;
    char memory[8];
    struct weir_buffer buffer = weir_buffer_init(memory, 4);
    memset(memory, '#', sizeof memory);
    weir_buffer_put_string(&buffer, "abc");
    assert_string_equal(weir_buffer_string(&buffer), "abc");
    weir_buffer_put_char(&buffer, 'd');
    assert_true(buffer.full);
    assert_null(weir_buffer_string(&buffer));
    assert_memory_equal(memory + 4, "####", 4);
}

static void prints_numbers_of_each_length(void **state)
{
    (void)state;
    char memory[24], wanted[24];
    for (uint64_t power = 1; power > 0; power = power > UINT64_MAX / 10 ? 0 : power * 10)
        for (uint64_t number = power - 1; number <= power + 1; number++) {
            struct weir_buffer buffer = weir_buffer_init(memory, sizeof memory);
            weir_buffer_put_number(&buffer, number);
            snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)number);
            assert_string_equal(weir_buffer_string(&buffer), wanted);
            /* There has to be room for all of it, and for what ends it. */
            struct weir_buffer full = weir_buffer_init(memory, strlen(wanted));
            weir_buffer_put_number(&full, number);
            assert_true(full.full);
        }
}

static void knows_the_characters_of_a_token(void **state)
{
    (void)state;
    static const char chars[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz";
    for (int c = 0; c < 256; c++)
        assert_int_equal(weir_is_token_char((char)(unsigned char)c),
                         c != 0 && strchr(chars, c) != NULL);
}

static void prints_every_number(void **state)
{
    (void)state;
    char memory[32];
    struct weir_buffer buffer = weir_buffer_init(memory, sizeof memory);
    weir_buffer_put_number(&buffer, 0);
    weir_buffer_put_char(&buffer, ' ');
    weir_buffer_put_number(&buffer, UINT64_MAX);
    assert_string_equal(weir_buffer_string(&buffer), "0 18446744073709551615");
}

static void escapes_json(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        struct weir_text text;
        const char *wanted;
    } rows[] = {
        { "quotes and backslashes", { "a\"b\\c", 5 }, "a\\\"b\\\\c" },
        { "control bytes and NUL", { "\n\0\x1f", 3 }, "\\u000a\\u0000\\u001f" },
        { "UTF-8 as it is", { "\xC3\xA9\xE2\x82\xAC", 5 }, "\xC3\xA9\xE2\x82\xAC" },
        { "a C1 control", { "\xC2\x9B", 2 }, "\\u009b" },
        { "what turns the direction", { "a\xE2\x80\xAE/\xD8\x9C", 7 }, "a\\u202e/\\u061c" },
        { "a stray byte", { "a\xFFz", 3 }, "a\xEF\xBF\xBDz" },
        { "an overlong slash", { "\xC0\xAF", 2 }, "\xEF\xBF\xBD\xEF\xBF\xBD" },
        { "a cut sequence", { "\xE2\x82", 2 }, "\xEF\xBF\xBD\xEF\xBF\xBD" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        char memory[64];
        struct weir_buffer buffer = weir_buffer_init(memory, sizeof memory);
        weir_buffer_put_json(&buffer, rows[i].text);
        assert_string_equal(weir_buffer_string(&buffer), rows[i].wanted);
    }
}

static void knows_what_steers_how_text_is_shown(void **state)
{
    (void)state;
    static const struct {
        const char *when, *text;
        bool wanted;
    } rows[] = {
        { "a letter", "a", false },
        { "a blank", " ", false },
        { "a line break", "\n", true },
        { "DEL", "\x7F", true },
        { "CSI, U+009B", "\xC2\x9B", true },
        { "the blank behind them, U+00A0", "\xC2\xA0", false },
        { "an Arabic letter, U+061D", "\xD8\x9D", false },
        { "the Arabic mark, U+061C", "\xD8\x9C", true },
        { "a joiner, U+200D, as in emoji", "\xE2\x80\x8D", false },
        { "U+200E", "\xE2\x80\x8E", true },
        { "U+200F", "\xE2\x80\x8F", true },
        { "a hyphen, U+2010", "\xE2\x80\x90", false },
        { "a dot, U+2027", "\xE2\x80\xA7", false },
        { "a line's end, U+2028", "\xE2\x80\xA8", true },
        { "U+202E", "\xE2\x80\xAE", true },
        { "a narrow blank, U+202F", "\xE2\x80\xAF", false },
        { "U+2065", "\xE2\x81\xA5", false },
        { "U+2066", "\xE2\x81\xA6", true },
        { "U+2069", "\xE2\x81\xA9", true },
        { "U+206A", "\xE2\x81\xAA", false },
        { "a face, U+1F600", "\xF0\x9F\x98\x80", false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        assert_int_equal(weir_is_control(rows[i].text, strlen(rows[i].text)), rows[i].wanted);
    }
}

static void keeps_the_first_error(void **state)
{
    (void)state;
    struct weir_error error = WEIR_NO_ERROR;
    assert_int_equal(weir_error_set(&error, WEIR_E_VALUE, "/a", "It is %d.", 3), WEIR_E_VALUE);
    assert_int_equal(weir_error_set(&error, WEIR_E_TYPE, "/b", "Other."), WEIR_E_TYPE);
    assert_int_equal(error.code, WEIR_E_VALUE);
    char line[256];
    error.line = 3;
    error.column = 9;
    assert_string_equal(weir_error_line(&error, "p.json", line, sizeof line),
                        "p.json:3:9: /a: It is 3. [value]");
    assert_int_equal(weir_error_set(NULL, WEIR_E_TYPE, NULL, "Nobody listens."), WEIR_E_TYPE);
}

static void names_every_code_once(void **state)
{
    (void)state;
    for (int i = 0; i < WEIR_CODE_COUNT; i++) {
        assert_true(strlen(weir_code_meaning((enum weir_code)i)) > 10);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(weir_code_name((enum weir_code)i),
                                    weir_code_name((enum weir_code)j));
    }
    assert_string_equal(weir_code_name((enum weir_code)9999), "unknown");
}

struct sample {
    size_t size;
    int old;
    int new;
};

static void takes_options_of_any_age(void **state)
{
    (void)state;
    struct sample ours;
    struct {
        struct sample sample;
        int unknown;
    } newer;
    memset(&newer, 0, sizeof newer); /* the bytes between and behind its members as well */
    newer.sample = (struct sample){ sizeof newer, 1, 2 };

    assert_int_equal(weir_options_take(&ours, sizeof ours, NULL, 12, "M", NULL), WEIR_OK);
    assert_int_equal(ours.old, 0);

    struct sample older = { 12, 7, 8 };
    assert_int_equal(weir_options_take(&ours, sizeof ours, &older, 12, "M", NULL), WEIR_OK);
    assert_int_equal(ours.old, 7);
    assert_int_equal(ours.new, 0);

    assert_int_equal(weir_options_take(&ours, sizeof ours, &newer, 12, "M", NULL), WEIR_OK);
    newer.unknown = 1;
    assert_int_equal(weir_options_take(&ours, sizeof ours, &newer, 12, "M", NULL), WEIR_E_ARGUMENT);

    struct sample bare = { 0, 7, 8 };
    assert_int_equal(weir_options_take(&ours, sizeof ours, &bare, 12, "M", NULL), WEIR_E_ARGUMENT);
}

static void hashes_as_published(void **state)
{
    (void)state;
    assert_true(weir_hash_start());
    /* FIPS 180-2, appendix B.1 */
    uint8_t digest[WEIR_SHA256_BYTES];
    weir_sha256(WEIR_TEXT("abc"), digest);
    assert_memory_equal(digest, "\xba\x78\x16\xbf\x8f\x01\xcf\xea", 8);
    /* SipHash's paper, appendix A; its bytes in the machine's order */
    uint8_t key[WEIR_HASH_KEY_BYTES];
    char message[15];
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (char)i;
    uint64_t hash = weir_hash64((struct weir_text){ message, sizeof message }, key);
    assert_memory_equal(&hash, "\xe5\x45\xbe\x49\x61\xca\x29\xa1", sizeof hash);
}

static void draws_other_numbers_each_time(void **state)
{
    (void)state;
    uint8_t one[WEIR_HASH_KEY_BYTES], other[WEIR_HASH_KEY_BYTES];
    assert_true(weir_hash_start());
    weir_hash_key(one);
    weir_hash_key(other);
    assert_memory_not_equal(one, other, sizeof one);
    assert_true(weir_random64() != weir_random64());
}

static void labels_depend_on_the_secret(void **state)
{
    (void)state;
    uint8_t one[WEIR_SECRET_BYTES], other[WEIR_SECRET_BYTES];
    char labels[3][WEIR_LABEL_CHARS + 1];
    weir_secret_from(WEIR_TEXT("one"), one);
    weir_secret_from((struct weir_text){ NULL, 0 }, other);
    weir_label(WEIR_TEXT("ann"), one, labels[0]);
    weir_label(WEIR_TEXT("ann"), other, labels[1]);
    weir_label(WEIR_TEXT("bob"), one, labels[2]);
    assert_int_equal(strlen(labels[0]), WEIR_LABEL_CHARS);
    assert_string_not_equal(labels[0], labels[1]);
    assert_string_not_equal(labels[0], labels[2]);
}

static void says_the_version_of_its_headers(void **state)
{
    (void)state;
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR,
             WEIR_VERSION_PATCH);
    assert_string_equal(weir_version(), version);
    assert_string_equal(weir_version(), WEIR_VERSION);
}

static void hashes_texts_as_fnv_does(void **state)
{
    (void)state;
    assert_true(weir_text_fnv(WEIR_TEXT("")) == UINT64_C(0xcbf29ce484222325));
    assert_true(weir_text_fnv(WEIR_TEXT("a")) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(weir_text_fnv(WEIR_TEXT("foobar")) == UINT64_C(0x85944171f73967e8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_texts_as_fnv_does),
        cmocka_unit_test(reads_numbers_exactly),
        cmocka_unit_test(takes_items_from_both_ends),
        cmocka_unit_test(trims_and_folds),
        cmocka_unit_test(never_writes_past_a_buffer),
        cmocka_unit_test(prints_every_number),
        cmocka_unit_test(prints_numbers_of_each_length),
        cmocka_unit_test(knows_the_characters_of_a_token),
        cmocka_unit_test(escapes_json),
        cmocka_unit_test(knows_what_steers_how_text_is_shown),
        cmocka_unit_test(keeps_the_first_error),
        cmocka_unit_test(names_every_code_once),
        cmocka_unit_test(takes_options_of_any_age),
        cmocka_unit_test(hashes_as_published),
        cmocka_unit_test(draws_other_numbers_each_time),
        cmocka_unit_test(labels_depend_on_the_secret),
        cmocka_unit_test(says_the_version_of_its_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
