/* Subjects of calls without a request, as plans of the limits that apply to them. */
#include "limit/limiter_internal.h"

#include <string.h>

#include "base/options.h"
#include "base/suggest.h"

#define SUBJECT_FIRST (offsetof(struct weir_subject, cost) + sizeof(uint64_t))
#define VALUES_MAX    16
#define NAMES_MAX     257 /* policies in a file, and that for guesses */

/* what a subject is, as a request would say it */

struct asking {
    struct weir_identity identity;
    struct weir_named_value values[VALUES_MAX];
    char network[WEIR_NETWORK_CHARS];
    struct weir_asker asker;
};

static enum weir_code read_address(const struct weir_policy *policy, const char *text,
                                   struct weir_identity *identity, struct weir_error *error)
{
    if (text == NULL)
        return WEIR_OK;
    if (!weir_address_parse(weir_text_from(text), &identity->client))
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "\"%.60s\" is no address; wanted is one such as \"203.0.113.7\".",
                              text);
    identity->network = weir_network_of(&identity->client, &policy->identity.prefixes);
    return WEIR_OK;
}

static enum weir_code find_key(const struct weir_policy *policy, const char *id,
                               struct weir_identity *identity, struct weir_error *error)
{
    const struct weir_keyring *keys = policy->identity.keys;
    size_t count = id == NULL || keys == NULL ? 0 : weir_keyring_count(keys);
    for (size_t i = 0; i < count && identity->api_key == NULL; i++)
        if (strcmp(weir_keyring_at(keys, i)->id, id) == 0)
            identity->api_key = weir_keyring_at(keys, i);
    if (id == NULL || identity->api_key != NULL)
        return WEIR_OK;
    return weir_error_set(error, WEIR_E_REFERENCE, NULL, "\"%.60s\" is no id in the keys file.",
                          id);
}

/* The first of the two that says something. */
static struct weir_text name_of(const char *own, const char *of_key)
{
    const char *name = own != NULL && own[0] != '\0' ? own : of_key;
    return name == NULL || name[0] == '\0' ? (struct weir_text){ NULL, 0 } : weir_text_from(name);
}

static enum weir_code read_identity(const struct weir_policy *policy,
                                    const struct weir_subject *subject,
                                    struct weir_identity *identity, struct weir_error *error)
{
    enum weir_code code = read_address(policy, subject->ip, identity, error);
    if (code == WEIR_OK)
        code = find_key(policy, subject->api_key, identity, error);
    if (code != WEIR_OK)
        return code;
    const struct weir_api_key *key = identity->api_key;
    identity->found = true;
    identity->user = name_of(subject->user, key == NULL ? NULL : key->user);
    identity->tenant = name_of(subject->tenant, key == NULL ? NULL : key->tenant);
    identity->plan = name_of(subject->plan, key == NULL ? NULL : key->plan);
    return WEIR_OK;
}

/* "query:q" */
static enum weir_code read_value(const struct weir_value *value, struct weir_named_value *named,
                                 struct weir_error *error)
{
    struct weir_text name = weir_text_from(value->name);
    named->text = weir_text_from(value->value);
    bool is_named =
        name.at != NULL && weir_text_take_first(&name, ':', &named->dimension) && name.length > 0;
    named->name = name;
    if (is_named
        && (weir_text_equal(named->dimension, WEIR_TEXT("header"))
            || weir_text_equal(named->dimension, WEIR_TEXT("query"))
            || weir_text_equal(named->dimension, WEIR_TEXT("param"))
            || weir_text_equal(named->dimension, WEIR_TEXT("field"))))
        return WEIR_OK;
    return weir_error_set(error, WEIR_E_VALUE, NULL,
                          "\"%.60s\" names no value; wanted is \"header:NAME\", "
                          "\"query:NAME\", \"param:NAME\" or \"field:NAME\".",
                          value->name == NULL ? "" : value->name);
}

static enum weir_code read_values(const struct weir_subject *subject, struct asking *asking,
                                  struct weir_error *error)
{
    if (subject->value_count > VALUES_MAX)
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "There are %zu values; wanted are at most %d.", subject->value_count,
                              VALUES_MAX);
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < subject->value_count && code == WEIR_OK; i++)
        code = read_value(&subject->values[i], &asking->values[i], error);
    return code;
}

static enum weir_code read_subject(const struct weir_edition *edition,
                                   const struct weir_subject *subject, struct asking *asking,
                                   struct weir_error *error)
{
    *asking =
        (struct asking){ .asker = { .policy = edition->policy, .prepared = edition->prepared } };
    enum weir_code code = read_identity(edition->policy, subject, &asking->identity, error);
    if (code == WEIR_OK)
        code = read_values(subject, asking, error);
    asking->asker.identity = &asking->identity;
    asking->asker.route = weir_text_from(subject->route);
    asking->asker.values = asking->values;
    asking->asker.value_count = subject->value_count;
    return code;
}

/* Who is known by his address has that for a device; so a call that names it means his sums, too. */
static void name_device(struct asking *asking)
{
    if (asking->identity.client.family == WEIR_NO_ADDRESS)
        return;
    weir_network_print(&asking->identity.network, asking->network);
    asking->asker.device = weir_text_from(asking->network);
}

/* the plan */

static enum weir_code refuse_name(struct weir_error *error, const char *what, const char *name,
                                  const char *const *known, size_t count)
{
    const char *meant = weir_suggest(weir_text_from(name), known, count);
    return weir_error_set(error, WEIR_E_REFERENCE, NULL, "There is no %s \"%.60s\"%s%s%s.", what,
                          name, meant == NULL ? "" : "; \"", meant == NULL ? "" : meant,
                          meant == NULL ? "" : "\" is close");
}

static enum weir_code refuse_policy(struct weir_error *error, const struct weir_policy *policy,
                                    const char *name)
{
    const char *names[NAMES_MAX];
    size_t count = policy->ruleset_count;
    for (size_t i = 0; i < count; i++)
        names[i] = policy->rulesets[i].name;
    if (policy->identity.keys != NULL)
        names[count++] = policy->guesses.name;
    return refuse_name(error, "policy", name, names, count);
}

/* NULL: `error` says why. */
static const struct weir_ruleset *find_ruleset(const struct weir_policy *policy, const char *name,
                                               enum weir_code *code, struct weir_error *error)
{
    const struct weir_ruleset *found = name == NULL ? NULL : weir_policy_ruleset(policy, name);
    if (found != NULL)
        return found;
    *code = name == NULL ? weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                                          "A subject names no policy; set \"policy\".")
                         : refuse_policy(error, policy, name);
    return NULL;
}

static enum weir_code check_limit(const struct weir_ruleset *ruleset, const char *name,
                                  struct weir_error *error)
{
    const char *names[WEIR_CHECK_LIMITS];
    for (size_t i = 0; i < ruleset->limit_count; i++) {
        names[i] = ruleset->limits[i].name;
        if (name == NULL || strcmp(names[i], name) == 0)
            return WEIR_OK;
    }
    return refuse_name(error, "limit", name, names, ruleset->limit_count);
}

/* The dimensions that the caller itself has named; what a key brings along names others too, and a
 * route, a plan or everybody is nobody's own. */
static unsigned kinds_named(const struct weir_subject *subject)
{
    unsigned kinds =
        1u << WEIR_BY_HEADER | 1u << WEIR_BY_PARAM | 1u << WEIR_BY_QUERY | 1u << WEIR_BY_FIELD;
    kinds |= subject->ip == NULL ? 0 : 1u << WEIR_BY_IP;
    kinds |= subject->api_key == NULL ? 0 : 1u << WEIR_BY_API_KEY;
    kinds |= subject->user == NULL ? 0 : 1u << WEIR_BY_USER;
    kinds |= subject->tenant == NULL ? 0 : 1u << WEIR_BY_TENANT;
    return kinds;
}

static bool is_wanted(const struct weir_limit_rule *limit, const struct weir_subject *subject,
                      const struct weir_asker *asker, bool only_own)
{
    if (subject->limit != NULL)
        return strcmp(limit->name, subject->limit) == 0;
    return !only_own || weir_subject_has(&limit->by, asker, kinds_named(subject));
}

static bool has_twin(const struct weir_plan_of_checks *plan)
{
    const struct weir_spend *last = &plan->spends[plan->count - 1];
    for (const struct weir_spend *other = plan->spends; other < last; other++)
        if (other->key_length == last->key_length
            && memcmp(other->key, last->key, last->key_length) == 0)
            return true;
    return false;
}

static enum weir_code add_limits(struct weir_subject_plan *planned,
                                 const struct weir_ruleset *ruleset,
                                 const struct weir_subject *subject, const struct weir_asker *asker,
                                 struct weir_error *error)
{
    struct weir_plan_of_checks *plan = &planned->plan;
    uint64_t own = subject->cost == 0 ? 1 : subject->cost;
    for (size_t i = 0; i < ruleset->limit_count; i++) {
        const struct weir_limit_rule *limit = &ruleset->limits[i];
        size_t before = plan->count;
        if (!is_wanted(limit, subject, asker, planned->only_own)
            || (!planned->only_own && !weir_limit_is_for(limit, asker)))
            continue;
        if (!weir_plan_add_limit(plan, ruleset, limit, asker, planned->looks ? 0 : own))
            return weir_error_set(error, WEIR_E_VALUE, NULL,
                                  "The subjects have more than %d limits in all, penalties "
                                  "included.",
                                  WEIR_CHECK_LIMITS);
        if (plan->count > before && has_twin(plan))
            return weir_error_set(error, WEIR_E_VALUE, NULL,
                                  "Two subjects share the limit \"%s\"; decide them one after the "
                                  "other.",
                                  limit->name);
        if (plan->count > before)
            planned->costs[before] = own;
    }
    return WEIR_OK;
}

/* All or nothing would let a policy that only watches keep the others from counting. */
static enum weir_code check_modes(const struct weir_edition *edition,
                                  const struct weir_plan_of_checks *plan, struct weir_error *error)
{
    for (size_t i = 1; i < plan->count; i++)
        if (weir_limiter_mode(edition, plan->planned[i].ruleset)
            != weir_limiter_mode(edition, plan->planned[0].ruleset))
            return weir_error_set(error, WEIR_E_VALUE, NULL,
                                  "The policy \"%s\" enforces and \"%s\" only watches, or the "
                                  "other way round; ask for them in two calls.",
                                  plan->planned[0].ruleset->name, plan->planned[i].ruleset->name);
    return WEIR_OK;
}

static bool keeps_out(const struct weir_client_list *deny, const struct weir_identity *identity,
                      enum weir_mode mode)
{
    return mode == WEIR_ENFORCE && weir_list_names(deny, identity) != NULL;
}

/* Whether a list lets the subject through, or keeps it out, whatever its limits say. Who changes sums
 * means those that there are. */
static bool is_listed(const struct weir_edition *edition, const struct weir_ruleset *ruleset,
                      const struct weir_identity *identity, struct weir_subject_plan *planned)
{
    const struct weir_access *file = &edition->policy->access, *own = &ruleset->access;
    if (planned->only_own)
        return false;
    if (keeps_out(file->deny, identity, edition->policy->mode)
        || keeps_out(own->deny, identity, weir_limiter_mode_for(edition, ruleset, identity))) {
        planned->denied = ruleset;
        return true;
    }
    return weir_list_names(file->allow, identity) != NULL
           || weir_list_names(own->allow, identity) != NULL;
}

enum weir_code weir_limiter_add_subject(const struct weir_edition *edition,
                                        const struct weir_subject *theirs,
                                        struct weir_subject_plan *planned, struct weir_error *error)
{
    struct weir_subject subject;
    struct asking asking;
    enum weir_code code =
        weir_options_take(&subject, sizeof subject, theirs, SUBJECT_FIRST, "WEIR_SUBJECT", error);
    if (code != WEIR_OK)
        return code;
    const struct weir_ruleset *ruleset =
        find_ruleset(edition->policy, subject.policy, &code, error);
    if (ruleset == NULL)
        return code;
    code = check_limit(ruleset, subject.limit, error);
    if (code == WEIR_OK)
        code = read_subject(edition, &subject, &asking, error);
    if (code == WEIR_OK && planned->first == NULL) {
        planned->first = ruleset;
        weir_client_of(&asking.identity, edition->policy, &planned->client);
    }
    if (code == WEIR_OK && planned->only_own)
        name_device(&asking);
    if (code != WEIR_OK || weir_limiter_mode(edition, ruleset) == WEIR_OFF
        || is_listed(edition, ruleset, &asking.identity, planned))
        return code;
    if (weir_limiter_mode_for(edition, ruleset, &asking.identity)
        != weir_limiter_mode(edition, ruleset))
        planned->is_spared = true;
    code = add_limits(planned, ruleset, &subject, &asking.asker, error);
    return code == WEIR_OK ? check_modes(edition, &planned->plan, error) : code;
}
