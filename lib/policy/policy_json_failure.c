/* "on_store_failure": read last, since the default depends on the routes. */
#include "policy/policy_json.h"
#include "policy/warnings.h"

static enum weir_code read_action(struct weir_reader *reader, const struct weir_place *place,
                                  enum weir_failure_action *action)
{
    static const struct weir_choice choices[] = {
        { "open", WEIR_FAIL_OPEN },
        { "closed", WEIR_FAIL_CLOSED },
        { "memory", WEIR_FAIL_MEMORY },
    };
    int chosen = WEIR_FAIL_OPEN;
    enum weir_code code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &chosen);
    if (code == WEIR_OK)
        *action = (enum weir_failure_action)chosen;
    return code;
}

static enum weir_code read_timeout(struct weir_reader *reader, const struct weir_place *place,
                                   void *into)
{
    struct weir_ruleset *ruleset = into;
    return read_action(reader, place, &ruleset->on_store_failure.timeout);
}

static enum weir_code read_unavailable(struct weir_reader *reader, const struct weir_place *place,
                                       void *into)
{
    struct weir_ruleset *ruleset = into;
    return read_action(reader, place, &ruleset->on_store_failure.unavailable);
}

static enum weir_code read_error(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct weir_ruleset *ruleset = into;
    return read_action(reader, place, &ruleset->on_store_failure.error);
}

static void set_all(struct weir_ruleset *ruleset, enum weir_failure_action action)
{
    ruleset->on_store_failure.timeout = action;
    ruleset->on_store_failure.unavailable = action;
    ruleset->on_store_failure.error = action;
}

static enum weir_code read_rule(struct weir_reader *reader, const struct weir_place *place,
                                struct weir_ruleset *ruleset)
{
    static const struct weir_member members[] = {
        { "timeout", read_timeout, false },
        { "unavailable", read_unavailable, false },
        { "error", read_error, false },
    };
    enum weir_failure_action action = WEIR_FAIL_OPEN;
    set_all(ruleset,
            weir_ruleset_guards_login(reader->policy, ruleset) ? WEIR_FAIL_CLOSED : WEIR_FAIL_OPEN);
    if (place->value == NULL)
        return WEIR_OK;
    if (json_is_object(place->value))
        return weir_read_members(reader, place, members, WEIR_COUNT_OF(members), ruleset);

    enum weir_code code = read_action(reader, place, &action);
    set_all(ruleset, action);
    return code;
}

enum weir_code weir_read_failure_rules(struct weir_reader *reader)
{
    const struct weir_place policies = weir_place_member(reader->root, "policies");
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < reader->policy->ruleset_count && code == WEIR_OK; i++) {
        struct weir_ruleset *ruleset = &reader->policy->rulesets[i];
        const struct weir_place at = weir_place_member(&policies, ruleset->name);
        const struct weir_place rule = weir_place_member(&at, "on_store_failure");
        code = read_rule(reader, &rule, ruleset);
    }
    return code;
}
