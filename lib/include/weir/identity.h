/* weir: who a request comes from.
 *
 * These answer once weir_identify() or weir_limit() has run in the chain; before that they return
 * NULL. Texts are borrowed and live until the request ends. Called on the request's own thread. */
#ifndef WEIR_IDENTITY_H
#define WEIR_IDENTITY_H

#include <weir/request.h>

/* The client's address as text ("203.0.113.7", "2001:db8::1"), found through the trusted proxies;
 * NULL if there is none (a Unix socket). IPv4-mapped addresses are IPv4. */
WEIR_API const char *weir_request_ip(struct weir_request *request);

/* The network that is counted ("203.0.113.7/32", "2001:db8:0:100::/56"), or NULL. */
WEIR_API const char *weir_request_network(struct weir_request *request);

/* The address of the other end of the connection, or NULL. */
WEIR_API const char *weir_request_peer_ip(struct weir_request *request);

/* What told the address: the name of the configured header, or "peer". */
WEIR_API const char *weir_request_ip_source(struct weir_request *request);

/* The public id of the API key that was sent (never the key), or NULL. */
WEIR_API const char *weir_request_api_key(struct weir_request *request);

/* User, tenant and plan; NULL where not known. */
WEIR_API const char *weir_request_user(struct weir_request *request);
WEIR_API const char *weir_request_tenant(struct weir_request *request);
WEIR_API const char *weir_request_plan(struct weir_request *request);

/* Called by the application's own authentication, a middleware before weir_limit(): what it says
 * goes before what a key or a header says. Copied; NULL or "" takes it back.
 * False: longer than 255 bytes, or memory ran out, and nothing is set. */
WEIR_API bool weir_request_set_user(struct weir_request *request, const char *user);
WEIR_API bool weir_request_set_tenant(struct weir_request *request, const char *tenant);
WEIR_API bool weir_request_set_plan(struct weir_request *request, const char *plan);

#endif
