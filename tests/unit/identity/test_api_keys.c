#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "identity/api_keys.h"

/* Linked with --wrap, to see when a key is hashed. */
void __real_weir_sha256(struct weir_text text, uint8_t digest[WEIR_SHA256_BYTES]);
void __wrap_weir_sha256(struct weir_text text, uint8_t digest[WEIR_SHA256_BYTES]);

static atomic_uint hashed;

void __wrap_weir_sha256(struct weir_text text, uint8_t digest[WEIR_SHA256_BYTES])
{
    atomic_fetch_add(&hashed, 1);
    __real_weir_sha256(text, digest);
}

/* The hash of a key in hexadecimal, made here so that the tests show keys and not digits. */
static const char *hash_of(const char *key)
{
    static char hex[2 * WEIR_SHA256_BYTES + 1];
    uint8_t digest[WEIR_SHA256_BYTES];
    assert_true(weir_hash_start());
    weir_sha256(weir_text_from(key), digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return hex;
}

static struct weir_keyring *ring_from(const char *json)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_keyring *ring = NULL;
    if (weir_keyring_parse(weir_text_from(json), &ring, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    return ring;
}

/* printf %s secret | sha256sum */
#define SECRET_HASH "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"

static void finds_a_key_by_its_hash(void **state)
{
    (void)state;
    struct weir_keyring *ring = ring_from(
        "{\"comment\":\"ours\",\"keys\":[{\"id\":\"first\",\"sha256\":\"" SECRET_HASH "\","
        "\"user\":\"u\",\"tenant\":\"t\",\"plan\":\"p\",\"comment\":\"hers\"}]}");
    const struct weir_api_key *key = weir_keyring_find(ring, WEIR_TEXT("secret"));
    assert_non_null(key);
    assert_string_equal(key->id, "first");
    assert_string_equal(key->user, "u");
    assert_string_equal(key->tenant, "t");
    assert_string_equal(key->plan, "p");
    assert_null(weir_keyring_find(ring, WEIR_TEXT("Secret")));
    assert_null(weir_keyring_find(ring, WEIR_TEXT("secret ")));
    assert_null(weir_keyring_find(ring, WEIR_TEXT(SECRET_HASH)));
    assert_null(weir_keyring_find(ring, WEIR_TEXT("")));
    assert_null(weir_keyring_find(ring, (struct weir_text){ NULL, 0 }));
    assert_null(weir_keyring_free(ring));
}

static void leaves_empty_what_a_key_does_not_say(void **state)
{
    (void)state;
    struct weir_keyring *ring =
        ring_from("{\"keys\":[{\"id\":\"a\",\"sha256\":\"" SECRET_HASH "\"}]}");
    const struct weir_api_key *key = weir_keyring_at(ring, 0);
    assert_string_equal(key->user, "");
    assert_string_equal(key->tenant, "");
    assert_string_equal(key->plan, "");
    assert_int_equal(weir_keyring_count(ring), 1);
    assert_null(weir_keyring_at(ring, 1));
    weir_keyring_free(ring);
}

static void takes_hexadecimal_digits_of_either_case(void **state)
{
    (void)state;
    struct weir_keyring *ring =
        ring_from("{\"keys\":[{\"id\":\"a\",\"sha256\":"
                  "\"2BB80D537B1DA3E38BD30361AA855686BDE0EACD7162FEF6A25FE97BF527A25B\"}]}");
    assert_non_null(weir_keyring_find(ring, WEIR_TEXT("secret")));
    weir_keyring_free(ring);
}

static void takes_a_file_without_keys(void **state)
{
    (void)state;
    struct weir_keyring *ring = ring_from("{\"keys\":[]}");
    assert_int_equal(weir_keyring_count(ring), 0);
    assert_null(weir_keyring_at(ring, 0));
    assert_null(weir_keyring_find(ring, WEIR_TEXT("secret")));
    weir_keyring_free(ring);
    assert_null(weir_keyring_free(NULL));
    assert_null(weir_keyring_find(NULL, WEIR_TEXT("secret")));
}

/* The file of the keys "key-0", "key-1" and so on, in `json`. */
static const char *ring_of(int count, char *json, size_t size)
{
    size_t length = (size_t)snprintf(json, size, "{\"keys\":[");
    for (int i = 0; i < count; i++) {
        char key[16];
        snprintf(key, sizeof key, "key-%d", i);
        length +=
            (size_t)snprintf(json + length, size - length, "%s{\"id\":\"%d\",\"sha256\":\"%s\"}",
                             i > 0 ? "," : "", i, hash_of(key));
    }
    snprintf(json + length, size - length, "]}");
    return json;
}

static void finds_each_of_many_keys(void **state)
{
    (void)state;
    static char json[200000];
    struct weir_keyring *ring = ring_from(ring_of(1000, json, sizeof json));
    assert_int_equal(weir_keyring_count(ring), 1000);
    for (int i = 0; i < 1000; i++) {
        char key[16], other[16], id[16];
        snprintf(key, sizeof key, "key-%d", i);
        snprintf(other, sizeof other, "yek-%d", i);
        snprintf(id, sizeof id, "%d", i);
        assert_string_equal(weir_keyring_find(ring, weir_text_from(key))->id, id);
        assert_string_equal(weir_keyring_at(ring, (size_t)i)->id, id);
        assert_null(weir_keyring_find(ring, weir_text_from(other)));
    }
    weir_keyring_free(ring);
}

static void finds_a_known_key_again_without_its_sha256(void **state)
{
    (void)state;
    struct weir_keyring *ring =
        ring_from("{\"keys\":[{\"id\":\"first\",\"sha256\":\"" SECRET_HASH "\"}]}");
    atomic_store(&hashed, 0);
    const struct weir_api_key *first = weir_keyring_find(ring, WEIR_TEXT("secret"));
    assert_int_equal(hashed, 1);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(weir_keyring_find(ring, WEIR_TEXT("secret")), first);
    assert_int_equal(hashed, 1);
    assert_null(weir_keyring_find(ring, WEIR_TEXT("secreT")));
    assert_int_equal(hashed, 2);
    weir_keyring_free(ring);
}

static void remembers_no_key_that_nobody_was_given(void **state)
{
    (void)state;
    struct weir_keyring *ring =
        ring_from("{\"keys\":[{\"id\":\"first\",\"sha256\":\"" SECRET_HASH "\"}]}");
    char guess[16];
    atomic_store(&hashed, 0);
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < 1000; i++) {
            snprintf(guess, sizeof guess, "guess-%d", i);
            assert_null(weir_keyring_find(ring, weir_text_from(guess)));
        }
    assert_int_equal(hashed, 2000);
    assert_non_null(weir_keyring_find(ring, WEIR_TEXT("secret")));
    assert_non_null(weir_keyring_find(ring, WEIR_TEXT("secret")));
    assert_int_equal(hashed, 2001);
    weir_keyring_free(ring);
}

static void forgets_a_key_with_its_file(void **state)
{
    (void)state;
    struct weir_keyring *ring =
        ring_from("{\"keys\":[{\"id\":\"first\",\"sha256\":\"" SECRET_HASH "\"}]}");
    assert_non_null(weir_keyring_find(ring, WEIR_TEXT("secret")));
    weir_keyring_free(ring);
    ring = ring_from("{\"keys\":[]}");
    assert_null(weir_keyring_find(ring, WEIR_TEXT("secret")));
    weir_keyring_free(ring);
}

#define THREADS 4
#define KEYS    64

static void *find_all(void *ring)
{
    char key[16], id[16];
    for (int i = 0; i < 20 * KEYS; i++) {
        snprintf(key, sizeof key, "key-%d", i % KEYS);
        snprintf(id, sizeof id, "%d", i % KEYS);
        const struct weir_api_key *found = weir_keyring_find(ring, weir_text_from(key));
        if (found == NULL || strcmp(found->id, id) != 0)
            return ring;
    }
    return NULL;
}

static void finds_the_same_keys_from_many_threads(void **state)
{
    (void)state;
    static char json[KEYS * 128];
    struct weir_keyring *ring = ring_from(ring_of(KEYS, json, sizeof json));
    pthread_t threads[THREADS];
    atomic_store(&hashed, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, find_all, ring), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_in_range(hashed, KEYS, THREADS * KEYS);
    weir_keyring_free(ring);
}

#define KEY(members) "{\"keys\":[{" members "}]}"
#define ID           "\"id\":\"a\","
#define HASH         "\"sha256\":\"" SECRET_HASH "\""
#define TEN          "0123456789"
#define OTHER_HASH   "\"sha256\":\"" SIXTY_FOUR "\""
#define SIXTY_FOUR   TEN TEN TEN TEN TEN TEN "0123"

static void says_what_is_wrong_with_a_file(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *json;
        enum weir_code code;
        const char *path;
        const char *text; /* part of the message */
    } rows[] = {
        { "an array", "[]", WEIR_E_TYPE, "", "holds an array; wanted is an object" },
        { "no keys", "{}", WEIR_E_MISSING, "", "has no \"keys\"" },
        { "keys that are no array", "{\"keys\":{}}", WEIR_E_TYPE, "/keys", "is an object" },
        { "a misspelt member", "{\"kyes\":[]}", WEIR_E_UNKNOWN_KEY, "/kyes",
          "did you mean \"keys\"?" },
        { "another member", "{\"keys\":[],\"users\":1}", WEIR_E_UNKNOWN_KEY, "/users",
          "wanted is \"keys\"" },
        { "a key that is no object", "{\"keys\":[\"a\"]}", WEIR_E_TYPE, "/keys/0",
          "is a string; wanted is an object" },
        { "a misspelt member of a key", KEY(ID HASH ",\"tennant\":\"t\""), WEIR_E_UNKNOWN_KEY,
          "/keys/0/tennant", "did you mean \"tenant\"?" },
        { "another member of a key", KEY(ID HASH ",\"a/b~c\":\"t\""), WEIR_E_UNKNOWN_KEY,
          "/keys/0/a~1b~0c", "\"id\", \"sha256\", \"user\", \"tenant\" or \"plan\"" },
        { "no id", KEY(HASH), WEIR_E_MISSING, "/keys/0", "no \"id\"" },
        { "no hash", KEY("\"id\":\"a\""), WEIR_E_MISSING, "/keys/0", "no \"sha256\"" },
        { "an id that is no string", KEY("\"id\":7," HASH), WEIR_E_TYPE, "/keys/0/id",
          "is a number; wanted is a string" },
        { "an empty id", KEY("\"id\":\"\"," HASH), WEIR_E_VALUE, "/keys/0/id", "1 to 64" },
        { "an id with a blank", KEY("\"id\":\"a b\"," HASH), WEIR_E_VALUE, "/keys/0/id",
          "\"a b\" is no id" },
        { "an id with a letter beyond ASCII", KEY("\"id\":\"\xC3\xA9\"," HASH), WEIR_E_VALUE,
          "/keys/0/id", "is no id" },
        { "an id of 65 characters", KEY("\"id\":\"" SIXTY_FOUR "4\"," HASH), WEIR_E_VALUE,
          "/keys/0/id", "1 to 64" },
        { "a repeated id", "{\"keys\":[{" ID HASH "},{" ID OTHER_HASH "}]}", WEIR_E_VALUE,
          "/keys/1/id", "\"a\" is the id of /keys/0 too" },
        { "a repeated hash", "{\"keys\":[{" ID HASH "},{\"id\":\"b\"," HASH "}]}", WEIR_E_VALUE,
          "/keys/1/sha256", "the hash of /keys/0 too" },
        { "a hash that is none", KEY(ID "\"sha256\":\"my-key\""), WEIR_E_VALUE, "/keys/0/sha256",
          "has 6 characters" },
        { "a hash with a letter beyond f",
          KEY(ID "\"sha256\":\"g"
                 "bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\""),
          WEIR_E_VALUE, "/keys/0/sha256", "64 hexadecimal digits" },
        { "a hash of 66 digits", KEY(ID "\"sha256\":\"" SECRET_HASH "00\""), WEIR_E_VALUE,
          "/keys/0/sha256", "has 66 characters" },
        { "a user that is no string", KEY(ID HASH ",\"user\":null"), WEIR_E_TYPE, "/keys/0/user",
          "is null; wanted is a string" },
        { "an empty tenant", KEY(ID HASH ",\"tenant\":\"\""), WEIR_E_VALUE, "/keys/0/tenant",
          "has 0 bytes; wanted are 1 to 255" },
        { "a control character", KEY(ID HASH ",\"plan\":\"a\\nb\""), WEIR_E_VALUE, "/keys/0/plan",
          "without control characters" },
        { "a name of 256 bytes",
          KEY(ID HASH ",\"user\":\"" SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR "\""),
          WEIR_E_VALUE, "/keys/0/user", "has 256 bytes" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_keyring *ring = NULL;
        print_message("    %s\n", rows[i].when);
        assert_int_equal(weir_keyring_parse(weir_text_from(rows[i].json), &ring, &error),
                         rows[i].code);
        assert_null(ring);
        assert_int_equal(error.code, rows[i].code);
        assert_string_equal(error.path, rows[i].path);
        if (strstr(error.text, rows[i].text) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", error.text, rows[i].text);
    }
}

static void takes_names_and_ids_of_the_longest(void **state)
{
    (void)state;
    struct weir_keyring *ring = ring_from(
        KEY("\"id\":\"" SIXTY_FOUR "\"," HASH
            ",\"user\":\"" SIXTY_FOUR SIXTY_FOUR SIXTY_FOUR TEN TEN TEN TEN TEN TEN "012\""));
    assert_int_equal(strlen(weir_keyring_at(ring, 0)->id), 64);
    assert_int_equal(strlen(weir_keyring_at(ring, 0)->user), 255);
    weir_keyring_free(ring);
}

static void says_where_json_is_broken(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *json;
        int line, column;
    } rows[] = {
        { "a comma too many", "{\n \"keys\": [],\n}", 3, 1 },
        { "a member twice", "{\"keys\":[],\"keys\":[]}", 1, 17 },
        { "nothing", "", 1, 0 },
        { "a string cut short", "{\"keys", 1, 6 },
        { "a NUL in a string", "{\"a\\u0000\":1}", 1, 10 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_keyring *ring = NULL;
        print_message("    %s\n", rows[i].when);
        assert_int_equal(weir_keyring_parse(weir_text_from(rows[i].json), &ring, &error),
                         WEIR_E_JSON);
        assert_null(ring);
        assert_int_equal(error.line, rows[i].line);
        assert_int_equal(error.column, rows[i].column);
    }
}

static void never_shows_what_may_be_a_key(void **state)
{
    (void)state;
    static const char *const files[] = {
        "my-secret-key",
        "{\"keys\":[{\"id\":\"a\",\"sha256\":\"my-secret-key\"}]}",
        "{\"keys\":[{\"id\":\"a\",\"sha256\":[\"my-secret-key\"]}]}",
        "{\"keys\":[{\"id\":\"a\",\"key\":\"my-secret-key\"}]}",
        "{\"keys\":[{\"id\":\"a\" \"my-secret-key\"}]}",
        "{\"keys\":[\"my-secret-key\"]}",
    };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_keyring *ring = NULL;
        print_message("    %s\n", files[i]);
        assert_int_not_equal(weir_keyring_parse(weir_text_from(files[i]), &ring, &error), WEIR_OK);
        assert_null(strstr(error.text, "secret"));
        assert_null(strstr(error.path, "secret"));
    }
}

static void points_at_the_key_where_a_members_name_is_too_long(void **state)
{
    (void)state;
    char json[600], name[400];
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_keyring *ring = NULL;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(json, sizeof json, "{\"keys\":[{\"%s\":1}]}", name);
    assert_int_equal(weir_keyring_parse(weir_text_from(json), &ring, &error), WEIR_E_UNKNOWN_KEY);
    assert_string_equal(error.path, "/keys/0");
    assert_non_null(strstr(error.text, "wanted is"));
}

static void keeps_the_first_error(void **state)
{
    (void)state;
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_keyring *ring = NULL;
    weir_error_set(&error, WEIR_E_VALUE, "/first", "first");
    assert_int_equal(weir_keyring_parse(WEIR_TEXT("{"), &ring, &error), WEIR_E_JSON);
    assert_string_equal(error.text, "first");
    assert_int_equal(error.line, 0);
    assert_int_equal(weir_keyring_parse(WEIR_TEXT("{"), &ring, NULL), WEIR_E_JSON);
}

static void reads_a_file(void **state)
{
    (void)state;
    char name[] = "weir-keys-XXXXXX";
    int descriptor = mkstemp(name);
    assert_true(descriptor >= 0);
    static const char json[] = KEY(ID HASH);
    assert_int_equal(write(descriptor, json, sizeof json - 1), sizeof json - 1);
    close(descriptor);

    struct weir_keyring *ring = NULL;
    enum weir_code code = weir_keyring_load(name, NULL, &ring, NULL);
    unlink(name);
    assert_int_equal(code, WEIR_OK);
    assert_non_null(weir_keyring_find(ring, WEIR_TEXT("secret")));
    weir_keyring_free(ring);
}

static void says_which_file_it_cannot_read(void **state)
{
    (void)state;
    static const char *const files[] = { "no-such-file.json", "." };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        struct weir_error error = WEIR_NO_ERROR;
        struct weir_keyring *ring = NULL;
        print_message("    %s\n", files[i]);
        assert_int_equal(weir_keyring_load(files[i], NULL, &ring, &error), WEIR_E_FILE);
        assert_non_null(strstr(error.text, files[i]));
        assert_null(ring);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_a_key_by_its_hash),
        cmocka_unit_test(leaves_empty_what_a_key_does_not_say),
        cmocka_unit_test(takes_hexadecimal_digits_of_either_case),
        cmocka_unit_test(takes_a_file_without_keys),
        cmocka_unit_test(finds_each_of_many_keys),
        cmocka_unit_test(finds_a_known_key_again_without_its_sha256),
        cmocka_unit_test(remembers_no_key_that_nobody_was_given),
        cmocka_unit_test(forgets_a_key_with_its_file),
        cmocka_unit_test(finds_the_same_keys_from_many_threads),
        cmocka_unit_test(says_what_is_wrong_with_a_file),
        cmocka_unit_test(takes_names_and_ids_of_the_longest),
        cmocka_unit_test(says_where_json_is_broken),
        cmocka_unit_test(never_shows_what_may_be_a_key),
        cmocka_unit_test(points_at_the_key_where_a_members_name_is_too_long),
        cmocka_unit_test(keeps_the_first_error),
        cmocka_unit_test(reads_a_file),
        cmocka_unit_test(says_which_file_it_cannot_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
