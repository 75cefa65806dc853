/* Certificates of a test's own: an authority, and what it signs, as PEM files in a folder. Only where
 * TLS is built. Functions that fail, fail the test. */
#ifndef TESTS_SUPPORT_CERTIFICATES_H
#define TESTS_SUPPORT_CERTIFICATES_H

#include "test.h"

#include <openssl/x509.h>

struct authority {
    EVP_PKEY *key;
    X509 *certificate;
    char file[120]; /* its certificate */
};

struct certificate {
    char file[120];
    char key_file[120];
};

/* Makes FOLDER/NAME.pem. */
void authority_init(struct authority *authority, const char *folder, const char *name);
void authority_finish(struct authority *authority);

/* Makes FOLDER/NAME.pem and FOLDER/NAME.key, for names such as "DNS:localhost,IP:127.0.0.1", that
 * hold from and until so many seconds from now. */
void certificate_make(const struct authority *authority, const char *folder, const char *name,
                      const char *names, long from_s, long until_s,
                      struct certificate *certificate);

/* Writes the key again, under a password. */
void certificate_lock(struct certificate *certificate, const char *password);

#endif
