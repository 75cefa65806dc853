/* The public face of a request's identity. */
#include <weir/identity.h>

#include "chain/request.h"

static const char *print_address(struct weir_request *request, const struct weir_address *address)
{
    if (!request->identity.found || address->family == WEIR_NO_ADDRESS)
        return NULL;
    char text[WEIR_ADDRESS_CHARS];
    weir_address_print(address, text);
    return weir_request_copy(request, weir_text_from(text));
}

const char *weir_request_ip(struct weir_request *request)
{
    return print_address(request, &request->identity.client);
}

const char *weir_request_peer_ip(struct weir_request *request)
{
    return print_address(request, &request->identity.peer);
}

const char *weir_request_network(struct weir_request *request)
{
    if (!request->identity.found || request->identity.client.family == WEIR_NO_ADDRESS)
        return NULL;
    char text[WEIR_NETWORK_CHARS];
    weir_network_print(&request->identity.network, text);
    return weir_request_copy(request, weir_text_from(text));
}

static const char *print_text(struct weir_request *request, struct weir_text text)
{
    if (text.at == NULL)
        return NULL;
    return weir_request_copy(request, text);
}

const char *weir_request_ip_source(struct weir_request *request)
{
    return print_text(request, request->identity.source);
}

const char *weir_request_api_key(struct weir_request *request)
{
    return request->identity.api_key == NULL ? NULL : request->identity.api_key->id;
}

const char *weir_request_user(struct weir_request *request)
{
    return print_text(request, request->identity.user);
}

const char *weir_request_tenant(struct weir_request *request)
{
    return print_text(request, request->identity.tenant);
}

const char *weir_request_plan(struct weir_request *request)
{
    return print_text(request, request->identity.plan);
}

static bool set_name(struct weir_request *request, struct weir_text *field, const char *name)
{
    struct weir_text text = weir_text_from(name);
    if (text.length > WEIR_NAME_MAX)
        return false;
    if (text.length == 0) {
        *field = (struct weir_text){ NULL, 0 };
        return true;
    }
    const char *copy = weir_request_copy(request, text);
    if (copy == NULL)
        return false;
    *field = (struct weir_text){ copy, text.length };
    return true;
}

bool weir_request_set_user(struct weir_request *request, const char *user)
{
    return set_name(request, &request->identity.user, user);
}

bool weir_request_set_tenant(struct weir_request *request, const char *tenant)
{
    return set_name(request, &request->identity.tenant, tenant);
}

bool weir_request_set_plan(struct weir_request *request, const char *plan)
{
    return set_name(request, &request->identity.plan, plan);
}
