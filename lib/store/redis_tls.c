#include "store/redis_tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define TLS_PATH  "/store/tls"
#define CA_PATH   TLS_PATH "/ca_file"
#define CERT_PATH TLS_PATH "/cert_file"
#define KEY_PATH  TLS_PATH "/key_file"
#define NAME_PATH TLS_PATH "/server_name"

static bool has_settings(const struct weir_store_options *options)
{
    return options->tls_ca_file != NULL || options->tls_cert_file != NULL
           || options->tls_key_file != NULL || options->tls_server_name != NULL;
}

static enum weir_code refuse_unused(struct weir_error *error)
{
    return weir_error_set(error, WEIR_E_VALUE, TLS_PATH,
                          "There are settings for TLS, but the store's URL is without; wanted is "
                          "\"rediss\" in the place of \"redis\" at its start.");
}

#ifdef WEIR_WITH_TLS

#include <arpa/inet.h>
#include <errno.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

/* The longest name in DNS, in dots and letters. */
#define NAME_MAX_CHARS 253

struct weir_redis_tls {
    SSL_CTX *context;
    char server_name[NAME_MAX_CHARS + 1]; /* "": the host that was asked for */
};

bool weir_redis_tls_is_built(void)
{
    return true;
}

/* the store's part */

static enum weir_code refuse_pair(const struct weir_store_options *options,
                                  struct weir_error *error)
{
    bool has_cert = options->tls_cert_file != NULL;
    return weir_error_set(error, WEIR_E_VALUE, has_cert ? CERT_PATH : KEY_PATH,
                          "A client's certificate needs its key, and a key its certificate; "
                          "\"%s\" is missing.",
                          has_cert ? "key_file" : "cert_file");
}

/* OpenSSL does not say whether a file is not there or is not what it should be. */
static enum weir_code refuse_file(const char *path, const char *file, const char *wanted,
                                  struct weir_error *error)
{
    char why[80];
    if (access(file, R_OK) != 0)
        return weir_error_set(error, WEIR_E_FILE, path, "\"%.120s\" cannot be read: %s.", file,
                              strerror_r(errno, why, sizeof why));
    return weir_error_set(error, WEIR_E_VALUE, path, "\"%.120s\" holds no %s.", file, wanted);
}

static enum weir_code trust(SSL_CTX *context, const char *file, struct weir_error *error)
{
    if (file == NULL) {
        if (SSL_CTX_set_default_verify_paths(context) == 1)
            return WEIR_OK;
        return weir_error_set(error, WEIR_E_SYSTEM, CA_PATH,
                              "The system's certificate authorities cannot be read.");
    }
    if (SSL_CTX_load_verify_locations(context, file, NULL) == 1)
        return WEIR_OK;
    return refuse_file(CA_PATH, file, "certificate in PEM", error);
}

static enum weir_code show(SSL_CTX *context, const char *cert, const char *key,
                           struct weir_error *error)
{
    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1)
        return refuse_file(CERT_PATH, cert, "certificate in PEM", error);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1)
        return WEIR_OK;
    if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH)
        return weir_error_set(error, WEIR_E_VALUE, KEY_PATH,
                              "The key is not that of the certificate.");
    return refuse_file(KEY_PATH, key, "private key in PEM without a password", error);
}

/* Without this OpenSSL would ask for a key's password on the terminal. */
static int know_no_password(char *memory, int size, int is_writing, void *self)
{
    (void)memory, (void)size, (void)is_writing, (void)self;
    return 0;
}

static void set_up(SSL_CTX *context)
{
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_default_passwd_cb(context, know_no_password);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    /* A second handshake could make writing wait for reading, which nothing here expects. */
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
#ifdef SSL_OP_IGNORE_UNEXPECTED_EOF
    /* A server that just closes is no attack: a reply says itself where it ends. */
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
#endif
    /* What was read ahead, no poll() would tell of. */
    SSL_CTX_set_read_ahead(context, 0);
}

static enum weir_code fill(struct weir_redis_tls *tls, const struct weir_store_options *options,
                           struct weir_error *error)
{
    if ((options->tls_cert_file == NULL) != (options->tls_key_file == NULL))
        return refuse_pair(options, error);
    const char *name = options->tls_server_name;
    size_t length = name == NULL ? 0 : strlen(name);
    if (name != NULL && (length == 0 || length > NAME_MAX_CHARS))
        return weir_error_set(error, WEIR_E_VALUE, NAME_PATH,
                              "The server's name has %zu bytes; wanted are 1 to %d.", length,
                              NAME_MAX_CHARS);
    if (name != NULL)
        memcpy(tls->server_name, name, length + 1);

    set_up(tls->context);
    enum weir_code code = trust(tls->context, options->tls_ca_file, error);
    if (code == WEIR_OK && options->tls_cert_file != NULL)
        code = show(tls->context, options->tls_cert_file, options->tls_key_file, error);
    return code;
}

static enum weir_code make(const struct weir_store_options *options, struct weir_redis_tls **tls,
                           struct weir_error *error)
{
    struct weir_redis_tls *made = calloc(1, sizeof *made);
    if (made != NULL)
        made->context = SSL_CTX_new(TLS_client_method());
    if (made == NULL || made->context == NULL) {
        free(made);
        return weir_error_set(error, WEIR_E_MEMORY, TLS_PATH, "Out of memory.");
    }
    enum weir_code code = fill(made, options, error);
    if (code == WEIR_OK)
        *tls = made;
    else
        weir_redis_tls_free(made);
    return code;
}

enum weir_code weir_redis_tls_new(const struct weir_redis_url *url,
                                  const struct weir_store_options *options,
                                  struct weir_redis_tls **tls, struct weir_error *error)
{
    if (!url->tls) {
        if (has_settings(options))
            return refuse_unused(error);
        *tls = NULL;
        return WEIR_OK;
    }
    /* The caller's thread may have errors of its own in its queue. */
    ERR_set_mark();
    enum weir_code code = make(options, tls, error);
    ERR_pop_to_mark();
    return code;
}

void weir_redis_tls_free(struct weir_redis_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->context);
    free(tls);
}

/* saying why */

/* OpenSSL's words, or clearer ones where its own would lead astray. */
static const char *reason_of(unsigned long failure)
{
    switch (ERR_GET_REASON(failure)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        return "what answers there speaks none";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return "it wants a client's certificate";
    default:
        return ERR_reason_error_string(failure);
    }
}

static void explain_certificate(long result, char *why, size_t size)
{
    if (result == X509_V_ERR_HOSTNAME_MISMATCH || result == X509_V_ERR_IP_ADDRESS_MISMATCH)
        snprintf(why, size, "TLS: its certificate is for another name (server_name)");
    else
        snprintf(why, size, "TLS: its certificate: %s", X509_verify_cert_error_string(result));
}

/* Says what OpenSSL's queue holds, else `otherwise`, and empties it: what stayed there would be
 * taken for the reason of the next failure. */
static void explain(const char *otherwise, char *why, size_t size)
{
    unsigned long failure = ERR_peek_last_error();
    const char *reason = failure == 0 ? NULL : reason_of(failure);
    snprintf(why, size, "TLS: %.80s", reason == NULL ? otherwise : reason);
    ERR_clear_error();
}

static void explain_handshake(const SSL *ssl, const char *otherwise, char *why, size_t size)
{
    long result = SSL_get_verify_result(ssl);
    explain(otherwise, why, size);
    if (result != X509_V_OK)
        explain_certificate(result, why, size);
}

void weir_redis_tls_explain(const redisContext *context, char *why, size_t size)
{
    if (ERR_peek_last_error() == 0)
        snprintf(why, size, "%.90s", context->errstr);
    else
        explain("", why, size);
}

/* a connection's part */

/* Of an address with its zone ("fe80::1%eth0") the certificate names the address alone. */
static bool is_address(const char *host, char address[INET6_ADDRSTRLEN])
{
    unsigned char bytes[sizeof(struct in6_addr)];
    size_t length = strcspn(host, "%");
    if (length >= INET6_ADDRSTRLEN)
        return false;
    memcpy(address, host, length);
    address[length] = '\0';
    return inet_pton(AF_INET, address, bytes) == 1 || inet_pton(AF_INET6, address, bytes) == 1;
}

/* Asks for the name, and has it found in the certificate. An address is never asked for by SNI
 * (RFC 6066 section 3). */
static bool demand_name(SSL *ssl, const char *name)
{
    char address[INET6_ADDRSTRLEN];
    if (is_address(name, address))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), address) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

static SSL *make_session(const struct weir_redis_tls *tls, const char *host)
{
    SSL *ssl = SSL_new(tls->context);
    if (ssl == NULL || demand_name(ssl, tls->server_name[0] == '\0' ? host : tls->server_name))
        return ssl;
    SSL_free(ssl);
    return NULL;
}

enum weir_redis_tls_step weir_redis_tls_begin(const struct weir_redis_tls *tls,
                                              redisContext *context, const char *host,
                                              struct ssl_st **session, char *why, size_t size)
{
    *session = NULL;
    ERR_clear_error();
    SSL *ssl = make_session(tls, host);
    if (ssl == NULL) {
        explain("out of memory", why, size);
        return WEIR_REDIS_TLS_FAILED;
    }
    if (redisInitiateSSL(context, ssl) != REDIS_OK) {
        explain_handshake(ssl, context->errstr, why, size);
        SSL_free(ssl);
        return WEIR_REDIS_TLS_FAILED;
    }
    *session = ssl;
    return weir_redis_tls_go_on(ssl, why, size);
}

enum weir_redis_tls_step weir_redis_tls_go_on(struct ssl_st *session, char *why, size_t size)
{
    char text[80];
    errno = 0;
    int result = SSL_do_handshake(session);
    int system = errno;
    if (result == 1)
        return WEIR_REDIS_TLS_DONE;
    switch (SSL_get_error(session, result)) {
    case SSL_ERROR_WANT_READ:
        return WEIR_REDIS_TLS_READS;
    case SSL_ERROR_WANT_WRITE:
        return WEIR_REDIS_TLS_WRITES;
    default:
        explain_handshake(session,
                          system == 0 ? "closed in mid-handshake"
                                      : strerror_r(system, text, sizeof text),
                          why, size);
        return WEIR_REDIS_TLS_FAILED;
    }
}

#else

bool weir_redis_tls_is_built(void)
{
    return false;
}

enum weir_code weir_redis_tls_new(const struct weir_redis_url *url,
                                  const struct weir_store_options *options,
                                  struct weir_redis_tls **tls, struct weir_error *error)
{
    if (url->tls)
        return weir_error_set(error, WEIR_E_NOT_BUILT, "/store/url",
                              "The URL asks for TLS, which this build does not have: it was made "
                              "with hiredis %d.%d.%d. Build weir with hiredis 1.0 or newer, its "
                              "libhiredis_ssl and OpenSSL, and with -Dtls=enabled.",
                              HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    if (has_settings(options))
        return refuse_unused(error);
    *tls = NULL;
    return WEIR_OK;
}

void weir_redis_tls_free(struct weir_redis_tls *tls)
{
    (void)tls; /* there is none */
}

/* Nobody gets here without a struct weir_redis_tls. */

enum weir_redis_tls_step weir_redis_tls_begin(const struct weir_redis_tls *tls,
                                              redisContext *context, const char *host,
                                              struct ssl_st **session, char *why, size_t size)
{
    (void)tls, (void)context, (void)host;
    *session = NULL;
    return weir_redis_tls_go_on(NULL, why, size);
}

enum weir_redis_tls_step weir_redis_tls_go_on(struct ssl_st *session, char *why, size_t size)
{
    (void)session;
    snprintf(why, size, "TLS: not in this build");
    return WEIR_REDIS_TLS_FAILED;
}

void weir_redis_tls_explain(const redisContext *context, char *why, size_t size)
{
    snprintf(why, size, "%.90s", context->errstr);
}

#endif
