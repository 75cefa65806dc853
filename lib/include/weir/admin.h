/* weir: what an operator may see of a limiter, and do to it, over HTTP. docs/admin.md describes the
 * requests. */
#ifndef WEIR_ADMIN_H
#define WEIR_ADMIN_H

#include <weir/limiter.h>

/* The shortest token that is taken. */
#define WEIR_ADMIN_TOKEN_MIN 16

struct weir_admin_options {
    size_t size;                  /* set by WEIR_ADMIN_OPTIONS                                  */
    struct weir_limiter *limiter; /* borrowed until weir_admin_free()                           */

    /* What a request has to show as "Authorization: Bearer TOKEN": 16 to 512 characters without
     * blanks, copied as a hash. NULL: none, and then nobody is served but from this machine; see
     * weir_admin(). */
    const char *token;
    struct weir_log log; /* copied: changes, and attempts with a wrong token                    */
    /* New fields go here, at the end; none is ever removed or reordered. */
};

#define WEIR_ADMIN_OPTIONS(...)                                                                    \
    (&(const struct weir_admin_options){ .size = sizeof(struct weir_admin_options), __VA_ARGS__ })

struct weir_admin;

/* Errors: WEIR_E_ARGUMENT; WEIR_E_VALUE: a token that is too short, too long or has blanks in it;
 * WEIR_E_MEMORY, WEIR_E_SYSTEM. No token appears in an error or a log line. */
WEIR_API enum weir_code weir_admin_new(const struct weir_admin_options *options,
                                       struct weir_admin **admin, struct weir_error *error);

/* After the chain is freed, of which there is one: an admin serves no second one. Accepts NULL; returns NULL. */
WEIR_API struct weir_admin *weir_admin_free(struct weir_admin *admin);

/* The middleware that answers all below where it is mounted: weir_chain_use_at(chain, "/admin",
 * weir_admin(admin)), before weir_limit(), so that an operator is not limited like a client.
 *
 * Without a token the chain is served on loopback addresses only: weir_serve() and
 * weir_chain_check() refuse any other (WEIR_E_VALUE). And then a request is answered only if it
 * comes from this machine, names this machine as its Host, was not forwarded nor may have been (the
 * policy trusts the peer to say who asks, or it speaks HTTP/1.0), and was not sent by a page from
 * elsewhere. Borrowed until weir_admin_free(). */
WEIR_API const struct weir_middleware *weir_admin(struct weir_admin *admin);

/* A middleware that only asks whether a request may be answered, as weir_admin() does, and passes it on
 * if so: for what else is not for the public, such as weir_metrics() on a public address. Mount it at
 * the same path, in front of that. Borrowed until weir_admin_free(). */
WEIR_API const struct weir_middleware *weir_admin_guard(struct weir_admin *admin);

#endif
