/* A policy that is read while memory runs out: each allocation fails once. Linked with --wrap. */
#include "parse.h"

#include <unistd.h>

#include <sys/stat.h>

#include <jansson.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *string);
char *__wrap_strndup(const char *string, size_t size);

static bool is_watching;
static bool watches_jansson; /* its allocations, or our own */
static size_t allocations;   /* since the watch began */
static size_t failing;       /* the number of the one that fails, from 1; 0: none */
static long living;          /* allocated and not freed */

static bool fails(bool is_jansson)
{
    return is_watching && is_jansson == watches_jansson && ++allocations == failing;
}

static void *note(void *memory)
{
    living += is_watching && memory != NULL;
    return memory;
}

static void *jansson_malloc(size_t size)
{
    return fails(true) ? NULL : note(__real_malloc(size));
}

void *__wrap_malloc(size_t size)
{
    return fails(false) ? NULL : note(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails(false) ? NULL : note(__real_calloc(count, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    if (fails(false))
        return NULL;
    void *moved = __real_realloc(memory, size);
    return memory == NULL ? note(moved) : moved;
}

void __wrap_free(void *memory)
{
    living -= is_watching && memory != NULL;
    __real_free(memory);
}

char *__wrap_strndup(const char *string, size_t size)
{
    size_t length = strnlen(string, size);
    char *copy = __wrap_malloc(length + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, string, length);
    copy[length] = '\0';
    return copy;
}

char *__wrap_strdup(const char *string)
{
    return __wrap_strndup(string, SIZE_MAX);
}

static const char keys_json[] =
    "{\"keys\": [{\"id\": \"one\", \"plan\": \"free\", \"sha256\":"
    " \"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}]}";

static const char policy_json[] =
    "{\"include\": [\"sub/more.json\"],"
    " \"store\": {\"url\": \"redis://:p@h\", \"prefix\": \"x\"}, \"instances\": 2,"
    " \"client_ip\": {\"trust\": [\"loopback\", \"8.0.0.0/8\"], \"header\": \"X-Real-IP\"},"
    " \"user\": {\"header\": \"X-User\"},"
    " \"plans\": {\"free\": {\"a\": \"100/day\", \"b\": \"5/month\"}, \"pro\": {\"a\":"
    " {\"rate\": \"9/day\", \"burst\": 2}, \"b\": \"7/week\"}},"
    " \"policies\": {\"p\": {\"limits\": [{\"name\": \"a\", \"by\": [\"client\", \"query:q\"],"
    " \"rate\": \"plan\", \"count\": {\"401\": 2, \"5xx\": 0}}, {\"name\": \"b\","
    " \"by\": \"ip\", \"rate\": \"plan\", \"algorithm\": \"fixed-window\","
    " \"calendar\": \"Europe/Berlin\"}, {\"name\": \"c\", \"by\": \"ip\","
    " \"rate\": \"20000/day\", \"algorithm\": \"sliding-log\"}],"
    " \"on_store_failure\": \"memory\"}, \"q\": {\"limits\": [{\"name\": \"a\","
    " \"by\": \"field:username\", \"rate\": \"9/hour\", \"on_success\": {\"forgive\": \"b\"}},"
    " {\"name\": \"b\", \"by\": [\"ip\", \"field:username\"], \"rate\": \"5/hour\","
    " \"on_success\": \"reset\"}], \"deny\": {\"user\": [\"x\"], \"ip\": [\"192.0.2.1\"]}},"
    " \"r\": {\"concurrency\": {\"adaptive\": {}, \"partitions\": {\"free\": 0.5}, \"fixed\": 2,"
    " \"by\": \"ip\"}}, \"s\": {\"concurrency\": {\"group\": \"r\"}}},"
    " \"allow\": {\"ip\": [\"0.0.0.0/0\"], \"api_key\": [\"one\"], \"tenant\": [\"t\"]},"
    " \"routes\": [{\"match\": \"GET /a/:b\", \"policy\": \"p\", \"cost\": 1000},"
    " {\"match\": \"GET /a/c\", \"policy\": \"p\"}], \"default\": \"p\"}";

static const char more_json[] =
    "{\"api_keys\": {\"file\": \"keys.json\"}, \"policies\": {\"t\": {\"enforce_percent\": 5,"
    " \"mode\": \"shadow\", \"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": "
    "\"5/hour\"}]}},"
    " \"plans\": {\"max\": {\"a\": \"900/day\", \"b\": \"90/month\"}},"
    " \"routes\": [{\"match\": \"GET /a/d\", \"policy\": \"t\"}]}";

static char folder[] = "/tmp/weir-memory-XXXXXX";
static char more_folder[64], more_file[64], keys_file[64], policy_file[64];

static void write_file(const char *file, const char *text)
{
    FILE *stream = fopen(file, "w");
    assert_non_null(stream);
    assert_true(fputs(text, stream) >= 0);
    assert_int_equal(fclose(stream), 0);
}

static int start(void **state)
{
    (void)state;
    json_set_alloc_funcs(jansson_malloc, __wrap_free);
    json_object_seed(1); /* or the first object made would read random bytes once, not each time */
    assert_non_null(mkdtemp(folder));
    snprintf(more_folder, sizeof more_folder, "%s/sub", folder);
    snprintf(more_file, sizeof more_file, "%s/sub/more.json", folder);
    snprintf(keys_file, sizeof keys_file, "%s/sub/keys.json", folder);
    snprintf(policy_file, sizeof policy_file, "%s/policy.json", folder);
    assert_int_equal(mkdir(more_folder, 0700), 0);
    write_file(keys_file, keys_json);
    write_file(more_file, more_json);
    write_file(policy_file, policy_json);
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(keys_file);
    unlink(more_file);
    unlink(policy_file);
    rmdir(more_folder);
    return rmdir(folder);
}

/* Reads the file while allocation `number` fails; false: there was none of that number. */
static bool fails_at(size_t number)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    allocations = 0;
    living = 0;
    failing = number;
    is_watching = true;
    enum weir_code code = weir_policy_load(policy_file, &policy, &error);
    bool has_failed = allocations >= failing;
    assert_int_equal(policy != NULL, code == WEIR_OK);
    weir_policy_free(policy);
    is_watching = false;

    /* jansson 2.14 drops a letter of a string, or takes it for a broken one, where its buffer
     * cannot grow; what comes of that is somebody else's error, but it must not leak or crash. (It
     * reads past its buffer where the letter is a string's last quote, so no string of the files
     * above is 16 or 32 bytes long with its quotes.) */
    if (!watches_jansson && code != (has_failed ? WEIR_E_MEMORY : WEIR_OK))
        fail_msg("allocation %zu: %s %s", number, error.path, error.text);
    assert_int_equal(error.code, code);
    assert_int_equal(living, 0);
    return has_failed;
}

static void fail_all(void)
{
    size_t number = 1;
    while (fails_at(number))
        number++;
    print_message("    %zu allocations\n", number - 1);
    assert_true(number > 10);
}

static void says_that_memory_ran_out_wherever_it_does(void **state)
{
    (void)state;
    watches_jansson = false;
    fail_all();
}

static void survives_a_json_reader_without_memory(void **state)
{
    (void)state;
    watches_jansson = true;
    fail_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_that_memory_ran_out_wherever_it_does),
        cmocka_unit_test(survives_a_json_reader_without_memory),
    };
    return cmocka_run_group_tests(tests, start, end);
}
