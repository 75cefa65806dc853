/* TLS to Redis: OpenSSL under hiredis 1.0 or newer with its libhiredis_ssl. A library that was
 * built without says so to whoever asks for it. */
#ifndef WEIR_STORE_REDIS_TLS_H
#define WEIR_STORE_REDIS_TLS_H

#include <weir/store.h>

#include <hiredis/hiredis.h>

#include "store/redis_url.h"

/* What the connections of a store have in common: whom they trust, and what they show. */
struct weir_redis_tls;

/* One connection's, of OpenSSL; it ends with its redisContext. */
struct ssl_st;

/* What a handshake waits for. */
enum weir_redis_tls_step {
    WEIR_REDIS_TLS_DONE,
    WEIR_REDIS_TLS_READS,  /* until the socket is readable */
    WEIR_REDIS_TLS_WRITES, /* until it is writable         */
    WEIR_REDIS_TLS_FAILED
};

/* Whether this build has it. */
bool weir_redis_tls_is_built(void);

/* Reads the files that the options name; `*tls` becomes NULL for a URL without TLS. Errors:
 * WEIR_E_NOT_BUILT at "/store/url"; WEIR_E_VALUE, _FILE and _MEMORY at "/store/tls" or below. */
enum weir_code weir_redis_tls_new(const struct weir_redis_url *url,
                                  const struct weir_store_options *options,
                                  struct weir_redis_tls **tls, struct weir_error *error);

/* Accepts NULL. No connection is left. */
void weir_redis_tls_free(struct weir_redis_tls *tls);

/* Begins a handshake over a context that has connected and does not block. `host` is the name or
 * address that was asked for: the certificate must be for it, unless the options name another.
 * `*session` is the context's; where this fails, NULL, and `why` says why in a few words. The
 * thread's queue of OpenSSL's errors is left empty. */
enum weir_redis_tls_step weir_redis_tls_begin(const struct weir_redis_tls *tls,
                                              redisContext *context, const char *host,
                                              struct ssl_st **session, char *why, size_t size);

/* Goes on with it when the socket is as it was waited for. */
enum weir_redis_tls_step weir_redis_tls_go_on(struct ssl_st *session, char *why, size_t size);

/* Writes why hiredis could not read or write, which for TLS it does not know itself. */
void weir_redis_tls_explain(const redisContext *context, char *why, size_t size);

#endif
