#include "certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static EVP_PKEY *make_key(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert_non_null(key);
    return key;
}

static void add_extension(X509 *certificate, X509 *issuer, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static X509 *make_certificate(EVP_PKEY *key, const char *name, long from_s, long until_s)
{
    static long serial;
    X509 *made = X509_new();
    assert_non_null(made);
    X509_set_version(made, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made), from_s);
    X509_gmtime_adj(X509_getm_notAfter(made), until_s);
    X509_set_pubkey(made, key);
    assert_int_equal(X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                                                (const unsigned char *)name, -1, -1, 0),
                     1);
    return made;
}

static void sign(X509 *certificate, X509 *issuer, EVP_PKEY *key)
{
    X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
}

/* writing */

static FILE *open_file(char file[120], const char *folder, const char *name, const char *end)
{
    snprintf(file, 120, "%.80s/%.20s%.12s", folder, name, end);
    FILE *opened = fopen(file, "w");
    assert_non_null(opened);
    return opened;
}

static void write_certificate(X509 *certificate, char file[120], const char *folder,
                              const char *name)
{
    FILE *out = open_file(file, folder, name, ".pem");
    assert_int_equal(PEM_write_X509(out, certificate), 1);
    assert_int_equal(fclose(out), 0);
}

static void write_key(const EVP_PKEY *key, char file[120], const char *folder, const char *name)
{
    FILE *out = open_file(file, folder, name, ".key");
    assert_int_equal(PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(out), 0);
}

/* all together */

void authority_init(struct authority *authority, const char *folder, const char *name)
{
    authority->key = make_key();
    authority->certificate = make_certificate(authority->key, name, -86400, 86400);
    add_extension(authority->certificate, authority->certificate, NID_basic_constraints,
                  "critical,CA:TRUE");
    sign(authority->certificate, authority->certificate, authority->key);
    write_certificate(authority->certificate, authority->file, folder, name);
}

void authority_finish(struct authority *authority)
{
    EVP_PKEY_free(authority->key);
    X509_free(authority->certificate);
}

void certificate_make(const struct authority *authority, const char *folder, const char *name,
                      const char *names, long from_s, long until_s, struct certificate *certificate)
{
    EVP_PKEY *key = make_key();
    X509 *made = make_certificate(key, name, from_s, until_s);
    add_extension(made, authority->certificate, NID_subject_alt_name, names);
    sign(made, authority->certificate, authority->key);
    write_certificate(made, certificate->file, folder, name);
    write_key(key, certificate->key_file, folder, name);
    X509_free(made);
    EVP_PKEY_free(key);
}

void certificate_lock(struct certificate *certificate, const char *password)
{
    FILE *in = fopen(certificate->key_file, "r");
    assert_non_null(in);
    EVP_PKEY *key = PEM_read_PrivateKey(in, NULL, NULL, NULL);
    fclose(in);
    assert_non_null(key);

    FILE *out = fopen(certificate->key_file, "w");
    assert_non_null(out);
    assert_int_equal(PEM_write_PrivateKey(out, key, EVP_aes_128_cbc(),
                                          (const unsigned char *)password, (int)strlen(password),
                                          NULL, NULL),
                     1);
    assert_int_equal(fclose(out), 0);
    EVP_PKEY_free(key);
}
