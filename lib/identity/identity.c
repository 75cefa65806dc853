#include "identity/identity.h"

/* the address */

static void find_address(const struct weir_identity_rules *rules, const struct weir_facts *facts,
                         struct weir_identity *identity)
{
    unsigned hops_used;
    identity->peer = weir_address_from(facts->peer);
    identity->client = weir_forwarded_client(&rules->trust, rules->form, rules->forwarded_header,
                                             facts, &hops_used);
    identity->network = weir_network_of(&identity->client, &rules->prefixes);
    identity->source = hops_used > 0 ? rules->forwarded_header : WEIR_TEXT("peer");
}

/* the API key */

/* What follows "Bearer" in Authorization (RFC 6750 section 2.1); empty: there is none. */
static struct weir_text bearer_token(const struct weir_facts *facts)
{
    struct weir_text rest = weir_facts_header(facts, WEIR_TEXT("Authorization")), scheme;
    if (!weir_text_take_first(&rest, ' ', &scheme) || rest.at == NULL
        || !weir_text_equal_fold(scheme, WEIR_TEXT("Bearer")))
        return (struct weir_text){ NULL, 0 };
    return weir_text_trim(rest);
}

static struct weir_text presented_key(const struct weir_identity_rules *rules,
                                      const struct weir_facts *facts)
{
    /* Where Authorization itself is the configured header, its scheme is not part of the key. */
    if (weir_text_equal_fold(rules->api_key_header, WEIR_TEXT("Authorization")))
        return bearer_token(facts);

    struct weir_text key = weir_text_trim(weir_facts_header(facts, rules->api_key_header));
    return key.length > 0 ? key : bearer_token(facts);
}

static void find_api_key(const struct weir_identity_rules *rules, const struct weir_facts *facts,
                         struct weir_identity *identity)
{
    identity->api_key = NULL;
    identity->api_key_unknown = false;
    if (rules->api_key_header.at == NULL || rules->keys == NULL)
        return;

    struct weir_text key = presented_key(rules, facts);
    if (key.length == 0)
        return;
    identity->api_key = weir_keyring_find(rules->keys, key);
    identity->api_key_unknown = identity->api_key == NULL;
}

/* names */

static void set_name(struct weir_text *name, struct weir_text value)
{
    if (name->length == 0)
        *name = value.length > 0 ? value : (struct weir_text){ NULL, 0 };
}

static bool has_control_char(struct weir_text text)
{
    for (size_t i = 0; i < text.length; i++)
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7F)
            return true;
    return false;
}

/* The value of the only line of that name: of two, one may be the client's own, which a proxy
 * passed on beside the one it added. At NULL: none that can be used. */
static struct weir_text only_line(const struct weir_facts *facts, struct weir_text name)
{
    struct weir_text found = { NULL, 0 };
    size_t count = 0;
    for (size_t i = 0; name.length > 0 && i < facts->header_count; i++)
        if (weir_text_equal_fold(facts->headers[i].name, name)) {
            found = weir_text_trim(facts->headers[i].value);
            count++;
        }
    if (count != 1 || found.length > WEIR_NAME_MAX || has_control_char(found))
        return (struct weir_text){ NULL, 0 };
    return found;
}

static void take_names_of_key(struct weir_identity *identity)
{
    if (identity->api_key == NULL)
        return;
    set_name(&identity->user, weir_text_from(identity->api_key->user));
    set_name(&identity->tenant, weir_text_from(identity->api_key->tenant));
    set_name(&identity->plan, weir_text_from(identity->api_key->plan));
}

static void take_names_of_proxy(const struct weir_identity_rules *rules,
                                const struct weir_facts *facts, struct weir_identity *identity)
{
    if (!weir_trust_covers_peer(&rules->trust, &identity->peer))
        return;
    set_name(&identity->user, only_line(facts, rules->user_header));
    set_name(&identity->tenant, only_line(facts, rules->tenant_header));
}

/* all of it */

void weir_identity_find(const struct weir_identity_rules *rules, const struct weir_facts *facts,
                        struct weir_identity *identity)
{
    find_address(rules, facts, identity);
    find_api_key(rules, facts, identity);
    take_names_of_key(identity);
    take_names_of_proxy(rules, facts, identity);
    identity->found = true;
}

bool weir_identity_is_known(const struct weir_identity *identity)
{
    return identity->api_key != NULL || identity->user.length > 0 || identity->tenant.length > 0;
}

void weir_identity_rules_finish(struct weir_identity_rules *rules)
{
    weir_trust_finish(&rules->trust);
    rules->keys = weir_keyring_free(rules->keys);
}
