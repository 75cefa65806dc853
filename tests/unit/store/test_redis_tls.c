/* TLS to Redis without a connection: which settings make sense, and which files. */
#include "test.h"

#include "store/redis_tls.h"

static const struct weir_redis_url plain = { .tls = false }, secured = { .tls = true };

static struct weir_error refusal(const struct weir_redis_url *url,
                                 const struct weir_store_options *options)
{
    struct weir_redis_tls *tls = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_redis_tls_new(url, options, &tls, &error);
    assert_int_not_equal(code, WEIR_OK);
    assert_int_equal(code, error.code);
    assert_null(tls);
    return error;
}

static void assert_refused(const struct weir_redis_url *url,
                           const struct weir_store_options *options, enum weir_code code,
                           const char *path, const char *says)
{
    struct weir_error error = refusal(url, options);
    assert_string_equal(weir_code_name(error.code), weir_code_name(code));
    assert_string_equal(error.path, path);
    if (strstr(error.text, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.text, says);
}

static void makes_nothing_for_a_url_without_tls(void **state)
{
    (void)state;
    struct weir_redis_tls *tls = (struct weir_redis_tls *)&state;
    assert_int_equal(weir_redis_tls_new(&plain, WEIR_STORE_OPTIONS(.timeout_ms = 1), &tls, NULL),
                     WEIR_OK);
    assert_null(tls);
    weir_redis_tls_free(tls);
}

static void refuses_settings_that_a_url_without_tls_has_no_use_for(void **state)
{
    (void)state;
    const struct weir_store_options rows[] = {
        { .tls_ca_file = "ca.pem" },
        { .tls_cert_file = "weir.pem" },
        { .tls_key_file = "weir.key" },
        { .tls_server_name = "redis.example" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_refused(&plain, &rows[i], WEIR_E_VALUE, "/store/tls", "\"rediss\"");
}

#ifndef WEIR_WITH_TLS

static void says_what_it_was_built_without(void **state)
{
    (void)state;
    assert_false(weir_redis_tls_is_built());
    assert_refused(&secured, WEIR_STORE_OPTIONS(.tls_ca_file = "ca.pem"), WEIR_E_NOT_BUILT,
                   "/store/url", "-Dtls=enabled");
    print_message("    what there is to test about files needs a build with TLS\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_nothing_for_a_url_without_tls),
        cmocka_unit_test(refuses_settings_that_a_url_without_tls_has_no_use_for),
        cmocka_unit_test(says_what_it_was_built_without),
    };
    return cmocka_run_group_tests_name("redis_tls", tests, NULL, NULL);
}

#else

#include <openssl/err.h>
#include <sys/stat.h>
#include <unistd.h>

#include "certificates.h"

static char folder[] = "/tmp/weir-tls-XXXXXX";
static char gone[40], noise[40];
static struct authority authority;
static struct certificate ours, other, locked;

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(gone, sizeof gone, "%s/gone.pem", folder);
    snprintf(noise, sizeof noise, "%s/noise.pem", folder);
    FILE *out = fopen(noise, "w");
    assert_non_null(out);
    fputs("-----BEGIN CERTIFICATE-----\nnoise\n", out);
    fclose(out);
    authority_init(&authority, folder, "ca");
    certificate_make(&authority, folder, "ours", "DNS:weir", -60, 3600, &ours);
    certificate_make(&authority, folder, "other", "DNS:weir", -60, 3600, &other);
    certificate_make(&authority, folder, "locked", "DNS:weir", -60, 3600, &locked);
    certificate_lock(&locked, "hush");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    const char *const files[] = { noise,      authority.file, ours.file,   ours.key_file,
                                  other.file, other.key_file, locked.file, locked.key_file };
    for (size_t i = 0; i < COUNT_OF(files); i++)
        unlink(files[i]);
    rmdir(folder);
    authority_finish(&authority);
    return 0;
}

static void takes_files_and_a_name(void **state)
{
    (void)state;
    const struct weir_store_options rows[] = {
        { .size = sizeof rows[0] }, /* the system's authorities */
        { .tls_ca_file = authority.file },
        { .tls_ca_file = authority.file,
          .tls_cert_file = ours.file,
          .tls_key_file = ours.key_file,
          .tls_server_name = "redis.example" },
        { .tls_server_name = "::1" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_redis_tls *tls = NULL;
        struct weir_error error = WEIR_NO_ERROR;
        if (weir_redis_tls_new(&secured, &rows[i], &tls, &error) != WEIR_OK)
            fail_msg("%s", error.text);
        assert_non_null(tls);
        weir_redis_tls_free(tls);
    }
    assert_true(weir_redis_tls_is_built());
}

static void refuses_files_that_are_of_no_use(void **state)
{
    (void)state;
    const struct {
        const char *what;
        const struct weir_store_options options;
        enum weir_code code;
        const char *path, *says;
    } rows[] = {
        { "no file of authorities",
          { .tls_ca_file = gone },
          WEIR_E_FILE,
          "/store/tls/ca_file",
          "gone.pem\" cannot be read: No such file" },
        { "noise for authorities",
          { .tls_ca_file = noise },
          WEIR_E_VALUE,
          "/store/tls/ca_file",
          "noise.pem\" holds no certificate in PEM" },
        { "a certificate alone",
          { .tls_cert_file = ours.file },
          WEIR_E_VALUE,
          "/store/tls/cert_file",
          "\"key_file\" is missing" },
        { "a key alone",
          { .tls_key_file = ours.key_file },
          WEIR_E_VALUE,
          "/store/tls/key_file",
          "\"cert_file\" is missing" },
        { "no certificate",
          { .tls_cert_file = gone, .tls_key_file = ours.key_file },
          WEIR_E_FILE,
          "/store/tls/cert_file",
          "cannot be read" },
        { "a key for a certificate",
          { .tls_cert_file = ours.key_file, .tls_key_file = ours.key_file },
          WEIR_E_VALUE,
          "/store/tls/cert_file",
          "holds no certificate" },
        { "no key",
          { .tls_cert_file = ours.file, .tls_key_file = gone },
          WEIR_E_FILE,
          "/store/tls/key_file",
          "cannot be read" },
        { "a certificate for a key",
          { .tls_cert_file = ours.file, .tls_key_file = ours.file },
          WEIR_E_VALUE,
          "/store/tls/key_file",
          "holds no private key in PEM" },
        { "a key under a password",
          { .tls_cert_file = locked.file, .tls_key_file = locked.key_file },
          WEIR_E_VALUE,
          "/store/tls/key_file",
          "without a password" },
        { "the key of another certificate",
          { .tls_cert_file = ours.file, .tls_key_file = other.key_file },
          WEIR_E_VALUE,
          "/store/tls/key_file",
          "not that of the certificate" },
        { "an empty name",
          { .tls_server_name = "" },
          WEIR_E_VALUE,
          "/store/tls/server_name",
          "has 0 bytes; wanted are 1 to 253" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].what);
        assert_refused(&secured, &rows[i].options, rows[i].code, rows[i].path, rows[i].says);
    }
}

static void leaves_the_callers_errors_of_openssl_alone(void **state)
{
    (void)state;
    ERR_clear_error();
    ERR_raise(ERR_LIB_USER, ERR_R_PASSED_INVALID_ARGUMENT);
    unsigned long before = ERR_peek_last_error();
    refusal(&secured, WEIR_STORE_OPTIONS(.tls_ca_file = gone));
    assert_true(ERR_get_error() == before);
    assert_true(ERR_get_error() == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_nothing_for_a_url_without_tls),
        cmocka_unit_test(refuses_settings_that_a_url_without_tls_has_no_use_for),
        cmocka_unit_test(takes_files_and_a_name),
        cmocka_unit_test(refuses_files_that_are_of_no_use),
        cmocka_unit_test(leaves_the_callers_errors_of_openssl_alone),
    };
    return cmocka_run_group_tests_name("redis_tls", tests, set_up, tear_down);
}

#endif
