#include "test.h"

#include "store/memory.h"
#include "store/redis_tls.h"

static void says_which_urls_it_knows(void **state)
{
    (void)state;
    const enum weir_code with_tls = weir_redis_tls_is_built() ? WEIR_OK : WEIR_E_NOT_BUILT;
    const struct {
        const char *when;
        const char *url;
        enum weir_code code;
    } rows[] = {
        { "memory", "memory:", WEIR_OK },
        { "memory with something behind it", "memory:x", WEIR_E_VALUE },
        { "memory without its colon", "memory", WEIR_E_VALUE },
        { "nothing", "", WEIR_E_VALUE },
        { "another product", "memcached://10.0.0.1:11211", WEIR_E_VALUE },
        { "no slashes", "redis:127.0.0.1", WEIR_E_VALUE },
        { "capital letters", "REDIS://127.0.0.1", WEIR_E_VALUE },
        { "a server", "redis://127.0.0.1:1", WEIR_OK },
        { "Sentinels", "redis+sentinel://127.0.0.1:1,127.0.0.1:2/master", WEIR_OK },
        { "Sentinels without a master", "redis+sentinel://127.0.0.1:1", WEIR_E_VALUE },
        { "a cluster", "redis+cluster://127.0.0.1:1,127.0.0.1:2", WEIR_OK },
        { "TLS", "rediss://127.0.0.1:1", with_tls },
        { "a cluster with TLS", "rediss+cluster://127.0.0.1:1", with_tls },
        { "no URL", NULL, WEIR_E_ARGUMENT },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_store *store = NULL;
        struct weir_error error = WEIR_NO_ERROR;
        assert_int_equal(weir_store_open(rows[i].url, NULL, &store, &error), rows[i].code);
        assert_int_equal(store != NULL, rows[i].code == WEIR_OK);
        if (rows[i].code == WEIR_E_VALUE || rows[i].code == WEIR_E_NOT_BUILT)
            assert_string_equal(error.path, "/store/url");
        store = weir_store_free(store);
    }
}

static void keeps_passwords_out_of_errors(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "hunter2:",
        "rediss://user:hunter2@host:port",
        "redis+cluster://:hunter2@host,",
        "redis+sentinel://:hunter2@host",
        "reddis://user:hunter2@host",
    };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        struct weir_store *store = NULL;
        struct weir_error error = WEIR_NO_ERROR;
        assert_int_not_equal(weir_store_open(urls[i], NULL, &store, &error), WEIR_OK);
        assert_null(strstr(error.text, "hunter2"));
    }
}

static void takes_options_of_the_right_make_only(void **state)
{
    (void)state;
    struct {
        struct weir_store_options options;
        char newer[8];
    } later = { .options = { .size = sizeof later } };
    struct weir_store_options no_size = { .size = 0 };
    struct weir_store *store = NULL;
    assert_int_equal(weir_store_open("memory:", &no_size, &store, NULL), WEIR_E_ARGUMENT);
    assert_int_equal(weir_store_open("memory:", &later.options, &store, NULL), WEIR_OK);
    store = weir_store_free(store);
    later.newer[7] = 1;
    assert_int_equal(weir_store_open("memory:", &later.options, &store, NULL), WEIR_E_ARGUMENT);
}

static void wants_a_budget_it_can_work_with(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t bytes;
        enum weir_code code;
    } rows[] = {
        { "the default", 0, WEIR_OK },
        { "the least", WEIR_MEMORY_BYTES_MIN, WEIR_OK },
        { "less", WEIR_MEMORY_BYTES_MIN - 1, WEIR_E_VALUE },
        { "more than any machine has", UINT64_MAX, WEIR_E_VALUE },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_store *store = NULL;
        struct weir_error error = WEIR_NO_ERROR;
        assert_int_equal(
            weir_store_open("memory:", WEIR_STORE_OPTIONS(.memory_bytes = rows[i].bytes), &store,
                            &error),
            rows[i].code);
        assert_string_equal(error.path, rows[i].code == WEIR_OK ? "" : "/store/memory");
        store = weir_store_free(store);
    }
}

static void has_a_bound_on_connections(void **state)
{
    (void)state;
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    const char *url = "redis://127.0.0.1:1";
    assert_int_equal(weir_store_open(url, WEIR_STORE_OPTIONS(.connections = 17), &store, &error),
                     WEIR_E_VALUE);
    assert_string_equal(error.path, "/store/connections");
    assert_string_equal(error.text, "A store can have 1 to 16 connections to each server, not 17.");
    assert_int_equal(weir_store_open(url, WEIR_STORE_OPTIONS(.connections = 16), &store, NULL),
                     WEIR_OK);
    store = weir_store_free(store);
}

static void has_a_bound_on_the_timeout(void **state)
{
    (void)state;
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    const char *url = "redis://127.0.0.1:1";
    assert_int_equal(weir_store_open(url, WEIR_STORE_OPTIONS(.timeout_ms = 60001), &store, &error),
                     WEIR_E_VALUE);
    assert_string_equal(error.path, "/store/timeout");
    assert_string_equal(error.text, "A store's timeout can be 60000 ms at most, not 60001.");
    assert_int_equal(weir_store_open(url, WEIR_STORE_OPTIONS(.timeout_ms = 60000), &store, NULL),
                     WEIR_OK);
    store = weir_store_free(store);
}

/* a store of a user's own */

static unsigned freed;

static void own_submit(void *self, struct weir_check *check)
{
    (void)self;
    check->result = WEIR_STORE_UNAVAILABLE;
    check->done(check);
}

static void own_cancel(void *self, struct weir_check *check)
{
    (void)self;
    (void)check;
}

static void own_state(void *self, struct weir_store_state *state)
{
    (void)self;
    state->answering = false;
    snprintf(state->why, sizeof state->why, "gone for lunch");
}

static bool own_ready(void *self)
{
    return *(const bool *)self;
}

static void own_free(void *self)
{
    (void)self;
    freed++;
}

static const struct weir_store_type own_type = {
    .size = sizeof(struct weir_store_type),
    .name = "own",
    .answers_inline = true,
    .ready = own_ready,
    .submit = own_submit,
    .state = own_state,
    .free = own_free,
};

static void takes_a_store_of_a_users_own(void **state)
{
    (void)state;
    struct weir_store *store = NULL;
    bool is_ready = false;
    assert_int_equal(weir_store_new(&own_type, &is_ready, &store, NULL), WEIR_OK);
    struct weir_store_state how;
    weir_store_state(store, &how);
    assert_string_equal(how.name, "own");
    assert_false(how.answering);
    assert_string_equal(how.why, "gone for lunch");
    assert_false(weir_store_ready(store));
    is_ready = true;
    assert_true(weir_store_ready(store));

    freed = 0;
    assert_null(weir_store_free(store));
    assert_int_equal(freed, 1);
    assert_null(weir_store_free(NULL));
}

static void refuses_a_type_that_lacks_something(void **state)
{
    (void)state;
    struct weir_store_type types[6] = {
        own_type, own_type, own_type, own_type, own_type, own_type
    };
    types[0].size = 0;
    types[1].name = NULL;
    types[2].submit = NULL;
    types[3].free = NULL;
    types[4].answers_inline = false; /* and no cancel */
    types[5].answers_inline = false;
    types[5].cancel = own_cancel;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct weir_store *store = NULL;
        enum weir_code code = weir_store_new(&types[i], NULL, &store, NULL);
        assert_int_equal(code, i < 5 ? WEIR_E_ARGUMENT : WEIR_OK);
        weir_store_free(store);
    }
    struct weir_store *store = NULL;
    assert_int_equal(weir_store_new(NULL, NULL, &store, NULL), WEIR_E_ARGUMENT);
    assert_int_equal(weir_store_new(&own_type, NULL, NULL, NULL), WEIR_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_which_urls_it_knows),
        cmocka_unit_test(keeps_passwords_out_of_errors),
        cmocka_unit_test(takes_options_of_the_right_make_only),
        cmocka_unit_test(has_a_bound_on_connections),
        cmocka_unit_test(has_a_bound_on_the_timeout),
        cmocka_unit_test(wants_a_budget_it_can_work_with),
        cmocka_unit_test(takes_a_store_of_a_users_own),
        cmocka_unit_test(refuses_a_type_that_lacks_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
