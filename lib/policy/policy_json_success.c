/* "on_success": what a request that succeeds takes back of what was counted before it. */
#include <string.h>

#include "base/suggest.h"
#include "policy/policy_json.h"

static enum weir_code read_forgive(struct weir_reader *reader, const struct weir_place *place,
                                   void *into)
{
    struct weir_limit_rule *rule = into;
    struct weir_text name;
    rule->on_success = WEIR_FORGIVES;
    return weir_read_text(reader, place, "the name of another limit of this policy", &name);
}

enum weir_code weir_read_on_success(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    static const struct weir_member members[] = { { "forgive", read_forgive, true } };
    static const struct weir_choice choices[] = { { "reset", WEIR_RESETS } };
    struct weir_limit_rule *rule = into;
    int chosen = WEIR_SETTLES;
    if (json_is_object(place->value))
        return weir_read_members(reader, place, members, WEIR_COUNT_OF(members), rule);
    if (!json_is_string(place->value))
        return weir_refuse_type(reader, place, "\"reset\", or {\"forgive\": \"NAME\"}");
    enum weir_code code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &chosen);
    rule->on_success = (enum weir_on_success)chosen;
    return code;
}

/* whom a reset concerns */

static bool is_account(enum weir_dimension_kind kind)
{
    return kind == WEIR_BY_FIELD || kind == WEIR_BY_USER || kind == WEIR_BY_API_KEY;
}

/* Whichever alternative is there, the key is of one account. */
static bool has_account(const struct weir_by *by)
{
    for (size_t i = 0; i < by->count; i++) {
        size_t j = 0;
        while (j < by->parts[i].count && is_account(by->parts[i].alternatives[j].kind))
            j++;
        if (j == by->parts[i].count)
            return true;
    }
    return false;
}

static enum weir_code check_reset(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct weir_limit_rule *rule)
{
    if (!has_account(&rule->by))
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The limit \"%s\" counts for more than one account, so whoever has an "
                           "account of his own could clear it by logging in; count by \"user\", "
                           "\"api_key\" or \"field:NAME\" (too), or leave \"on_success\" out.",
                           rule->name);
    if (rule->count.kind == WEIR_COUNT_SUCCESSES)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The limit \"%s\" counts successes, and each would clear it; leave "
                           "\"on_success\" or \"count\" out.",
                           rule->name);
    return WEIR_OK;
}

/* what one limit forgives by the word of another */

static bool can_forgive(enum weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_GCRA:
    case WEIR_TOKEN_BUCKET:
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER:
        return true;
    case WEIR_LEAKY_BUCKET: /* whoever waits has been told his moment */
    case WEIR_SLIDING_LOG:  /* each entry is corrected by who made it */
    case WEIR_PENALTY:
        break;
    }
    return false;
}

static const struct weir_limit_rule *find_limit(const struct weir_ruleset *ruleset,
                                                const char *name)
{
    for (size_t i = 0; i < ruleset->limit_count; i++)
        if (strcmp(ruleset->limits[i].name, name) == 0)
            return &ruleset->limits[i];
    return NULL;
}

static enum weir_code refuse_name(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct weir_ruleset *ruleset)
{
    const char *names[WEIR_CHECK_LIMITS];
    for (size_t i = 0; i < ruleset->limit_count; i++)
        names[i] = ruleset->limits[i].name;
    const char *meant =
        weir_suggest(weir_text_from(json_string_value(place->value)), names, ruleset->limit_count);
    return weir_refuse(reader, place, WEIR_E_REFERENCE,
                       "The value is %s, which is no limit of this policy%s%s%s",
                       weir_show(place->value).text, meant == NULL ? "." : "; did you mean \"",
                       meant == NULL ? "" : meant, meant == NULL ? "" : "\"?");
}

/* A limit that is not reset would say the same at the next success, and that of others would be
 * forgiven; one that counts something else has nothing to say. */
static enum weir_code check_forgiving(const struct weir_reader *reader,
                                      const struct weir_place *place,
                                      const struct weir_limit_rule *rule,
                                      const struct weir_limit_rule *by_word_of)
{
    if (!can_forgive(rule->algorithm))
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "What a %s has counted cannot be given back afterwards; wanted is gcra, "
                           "token-bucket, fixed-window or sliding-counter.",
                           weir_algorithm_word(rule->algorithm));
    if (by_word_of->on_success != WEIR_RESETS)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The limit \"%s\" keeps what it has counted, so the next success would "
                           "forgive it again; give it \"on_success\": \"reset\".",
                           by_word_of->name);
    for (size_t i = 0; i < rule->by.count; i++)
        if (!weir_by_has_part(&by_word_of->by, &rule->by, i))
            return weir_refuse(reader, place, WEIR_E_VALUE,
                               "The limit \"%s\" does not count by all that \"%s\" counts by, so "
                               "what it has counted may be others'; wanted is one by the same and "
                               "more, such as [\"ip\", \"field:username\"].",
                               by_word_of->name, rule->name);
    return WEIR_OK;
}

static enum weir_code find_forgiving(const struct weir_reader *reader,
                                     const struct weir_place *place,
                                     const struct weir_ruleset *ruleset,
                                     struct weir_limit_rule *rule)
{
    const struct weir_place name = weir_place_member(place, "forgive");
    rule->forgives = find_limit(ruleset, json_string_value(name.value));
    if (rule->forgives == NULL)
        return refuse_name(reader, &name, ruleset);
    return check_forgiving(reader, &name, rule, rule->forgives);
}

enum weir_code weir_check_on_success(const struct weir_reader *reader,
                                     const struct weir_place *limits, struct weir_ruleset *ruleset)
{
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < ruleset->limit_count && code == WEIR_OK; i++) {
        struct weir_limit_rule *rule = &ruleset->limits[i];
        const struct weir_place limit = weir_place_item(limits, i);
        const struct weir_place place = weir_place_member(&limit, "on_success");
        if (rule->on_success == WEIR_RESETS)
            code = check_reset(reader, &place, rule);
        else if (rule->on_success == WEIR_FORGIVES)
            code = find_forgiving(reader, &place, ruleset, rule);
    }
    return code;
}
