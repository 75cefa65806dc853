/* What the limiter finds out before any limit: the address, who asks, lists, and the route. */
#include "admin/explain_internal.h"

/* the address */

static void tell_hop(struct explaining *explaining, json_t *hops, const struct weir_hop *hop)
{
    json_t *told = weir_explain_append_object(explaining, hops);
    weir_explain_put_string(explaining, told, "speaker",
                            weir_explain_address(explaining, &hop->speaker));
    weir_explain_put_bool(explaining, told, "trusted", hop->is_trusted);
    struct weir_text said = hop->entry;
    if (said.length == 0)
        said.at = NULL;
    weir_explain_put_text(explaining, told, "said", said);
    weir_explain_put_bool(explaining, told, "believed", hop->is_believed);
}

void weir_explain_tell_address(struct explaining *explaining)
{
    const struct weir_identity_rules *rules = &explaining->policy->identity;
    const struct weir_identity *who = &explaining->identity;
    json_t *address = weir_explain_put_object(explaining, explaining->root, "address");
    weir_explain_put_string(explaining, address, "peer",
                            weir_explain_address(explaining, &who->peer));
    weir_explain_put_text(explaining, address, "header", rules->forwarded_header);
    json_t *hops = weir_explain_put_array(explaining, address, "hops");
    weir_forwarded_trace(&rules->trust, rules->form, rules->forwarded_header, &explaining->facts,
                         NULL, &explaining->hops);
    for (size_t i = 0; i < explaining->hops.count; i++)
        tell_hop(explaining, hops, &explaining->hops.hop[i]);
    weir_explain_put_text(explaining, address, "from", who->source);
    weir_explain_put_string(explaining, address, "client",
                            weir_explain_address(explaining, &who->client));
    weir_explain_put_string(explaining, address, "counted_as",
                            who->client.family == WEIR_NO_ADDRESS
                                ? NULL
                                : weir_explain_network(explaining, &who->network));
}

/* identity */

void weir_explain_tell_identity(struct explaining *explaining)
{
    const struct weir_identity *who = &explaining->identity;
    json_t *identity = weir_explain_put_object(explaining, explaining->root, "identity");
    weir_explain_put_string(explaining, identity, "api_key",
                            who->api_key == NULL ? NULL : who->api_key->id);
    weir_explain_put_bool(explaining, identity, "api_key_unknown", who->api_key_unknown);
    weir_explain_put_text(explaining, identity, "user", who->user);
    weir_explain_put_text(explaining, identity, "tenant", who->tenant);
    weir_explain_put_text(explaining, identity, "plan", who->plan);
    weir_explain_put_string(
        explaining, identity, "default_plan",
        who->plan.length > 0 ? NULL : weir_policy_plan_name(explaining->policy, who->plan));
}

/* lists */

static void tell_list(struct explaining *explaining, json_t *lists, const char *of,
                      const char *says, const struct weir_client_list *list)
{
    if (list == NULL)
        return;
    json_t *told = weir_explain_append_object(explaining, lists);
    weir_explain_put_string(explaining, told, "of", of);
    weir_explain_put_string(explaining, told, "says", says);
    weir_explain_put_string(explaining, told, "names",
                            weir_list_names(list, &explaining->identity));
}

void weir_explain_tell_lists(struct explaining *explaining)
{
    json_t *lists = weir_explain_put_array(explaining, explaining->root, "lists");
    const struct weir_access *file = &explaining->policy->access;
    const struct weir_ruleset *ruleset = explaining->match.route->ruleset;
    tell_list(explaining, lists, "the file", "deny", file->deny);
    if (ruleset != NULL)
        tell_list(explaining, lists, ruleset->name, "deny", ruleset->access.deny);
    tell_list(explaining, lists, "the file", "allow", file->allow);
    if (ruleset != NULL)
        tell_list(explaining, lists, ruleset->name, "allow", ruleset->access.allow);
}

/* routes */

static const char *why_not(enum weir_route_fit fit)
{
    switch (fit) {
    case WEIR_ROUTE_FITS:
        break;
    case WEIR_ROUTE_OTHER_METHOD:
        return "another method";
    case WEIR_ROUTE_OTHER_PATH:
        return "another path";
    case WEIR_ROUTE_NOT_FOR_PREFLIGHTS:
        return "preflights need a route that names OPTIONS";
    }
    return NULL;
}

/* Those that the limiter tries, the one that fits being the last. */
static void tell_tries(struct explaining *explaining, json_t *tried)
{
    const struct weir_policy *policy = explaining->policy;
    const struct weir_facts *facts = &explaining->facts;
    bool is_free = weir_is_preflight(facts);
    for (size_t i = 0; facts->path.at != NULL && i < policy->route_count; i++) {
        struct weir_params params;
        const struct weir_route *route = &policy->routes[i];
        enum weir_route_fit fit = weir_route_fits(route, facts, is_free, &params);
        json_t *told = weir_explain_append_object(explaining, tried);
        weir_explain_put_string(explaining, told, "match", route->match);
        weir_explain_put_bool(explaining, told, "fits", fit == WEIR_ROUTE_FITS);
        weir_explain_put_string(explaining, told, "why_not", why_not(fit));
        if (fit == WEIR_ROUTE_FITS)
            return;
    }
}

static const char *auth_name(enum weir_auth auth)
{
    switch (auth) {
    case WEIR_AUTH_NONE:
        break;
    case WEIR_AUTH_OPTIONAL:
        return "optional";
    case WEIR_AUTH_REQUIRED:
        return "required";
    }
    return "none";
}

void weir_explain_tell_routes(struct explaining *explaining)
{
    const struct weir_route *route = explaining->match.route;
    json_t *told = weir_explain_put_object(explaining, explaining->root, "route");
    tell_tries(explaining, weir_explain_put_array(explaining, told, "tried"));
    bool is_default = route == &explaining->policy->fallback;
    weir_explain_put_string(explaining, told, "match", is_default ? "default" : route->match);
    weir_explain_put_string(explaining, told, "auth", auth_name(route->auth));
    weir_explain_put_string(explaining, told, "policy",
                            route->ruleset == NULL ? NULL : route->ruleset->name);
    weir_explain_put_number(explaining, told, "cost", route->cost);
}
