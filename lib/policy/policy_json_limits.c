/* "policies": the limits that a route can name. */
#include <string.h>

#include "base/arena.h"
#include "policy/policy_json.h"

#define POLICIES_MAX 256

/* the limits of one policy */

static enum weir_code check_names(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct weir_ruleset *ruleset)
{
    size_t last = ruleset->limit_count - 1;
    for (size_t i = 0; i < last; i++) {
        if (strcmp(ruleset->limits[i].name, ruleset->limits[last].name) != 0)
            continue;
        const struct weir_place limit = weir_place_item(place, last);
        const struct weir_place name = weir_place_member(&limit, "name");
        return weir_refuse(reader, &name, WEIR_E_VALUE,
                           "\"%s\" is the name of limit %zu of this policy too; wanted is one of "
                           "its own.",
                           ruleset->limits[i].name, i);
    }
    return WEIR_OK;
}

/* Who may try three times has to get past all limits three times. */
static void find_tries(struct weir_ruleset *ruleset)
{
    bool counts = false;
    for (size_t i = 0; i < ruleset->limit_count; i++)
        counts = counts || weir_counts_failures(&ruleset->limits[i]);
    for (size_t i = 0; i < ruleset->limit_count; i++)
        ruleset->limits[i].is_for_tries = counts;
}

/* A penalty takes a place of its own beside its limit. */
static enum weir_code check_places(const struct weir_reader *reader, const struct weir_place *place,
                                   const struct weir_ruleset *ruleset)
{
    size_t penalties = 0;
    for (size_t i = 0; i < ruleset->limit_count; i++)
        penalties += ruleset->limits[i].penalty != NULL;
    if (ruleset->limit_count + penalties <= WEIR_CHECK_LIMITS)
        return WEIR_OK;
    return weir_refuse(reader, place, WEIR_E_VALUE,
                       "The list has %zu limits and %zu penalties; wanted are at most 8 of both "
                       "together.",
                       ruleset->limit_count, penalties);
}

static enum weir_code read_limits(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    struct weir_ruleset *ruleset = into;
    size_t count = json_array_size(place->value);
    enum weir_code code = WEIR_OK;
    if (!json_is_array(place->value))
        return weir_refuse_type(reader, place, "a list of limits");
    if (count == 0 || count > WEIR_CHECK_LIMITS)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The list has %zu limits; wanted are 1 to 8.", count);
    ruleset->limits = weir_arena_array(reader->policy->arena, count, sizeof *ruleset->limits);
    if (ruleset->limits == NULL)
        return weir_refuse_memory(reader);

    for (size_t i = 0; i < count && code == WEIR_OK; i++) {
        const struct weir_place item = weir_place_item(place, i);
        code = weir_read_limit(reader, &item, &ruleset->limits[i]);
        ruleset->limit_count = i + 1;
        if (code == WEIR_OK)
            code = check_names(reader, place, ruleset);
    }
    if (code == WEIR_OK)
        code = check_places(reader, place, ruleset);
    return code == WEIR_OK ? weir_check_on_success(reader, place, ruleset) : code;
}

static enum weir_code read_ruleset_mode(struct weir_reader *reader, const struct weir_place *place,
                                        void *into)
{
    struct weir_ruleset *ruleset = into;
    return weir_read_mode(reader, place, &ruleset->mode);
}

/* slots */

static bool is_same_part(const struct weir_by *one, size_t part, const struct weir_by *other,
                         size_t other_part)
{
    if (one->parts[part].count != other->parts[other_part].count)
        return false;
    for (size_t i = 0; i < one->parts[part].count; i++) {
        const struct weir_dimension *ours = &one->parts[part].alternatives[i];
        const struct weir_dimension *theirs = &other->parts[other_part].alternatives[i];
        if (ours->kind != theirs->kind || ours->exact != theirs->exact
            || !weir_text_equal(ours->name, theirs->name))
            return false;
    }
    return true;
}

static bool is_same_by(const struct weir_by *one, const struct weir_by *other)
{
    bool same = one->count == other->count;
    for (size_t i = 0; i < one->count && same; i++)
        same = is_same_part(one, i, other, i);
    return same;
}

bool weir_by_has_part(const struct weir_by *by, const struct weir_by *other, size_t part)
{
    for (size_t i = 0; i < by->count; i++)
        if (is_same_part(by, i, other, part))
            return true;
    return false;
}

/* Limits of one subject live in its slot; those of different subjects would be in different
 * slots, so they live in the policy's. */
static bool has_one_subject(const struct weir_ruleset *ruleset)
{
    for (size_t i = 1; i < ruleset->limit_count; i++)
        if (!is_same_by(&ruleset->limits[0].by, &ruleset->limits[i].by))
            return false;
    return true;
}

/* Those that share a subject can be kept together. */
static void find_groups(struct weir_ruleset *ruleset)
{
    for (size_t i = 0; i < ruleset->limit_count; i++)
        for (size_t j = 0; j < i; j++)
            if (is_same_by(&ruleset->limits[i].by, &ruleset->limits[j].by)) {
                ruleset->limits[i].is_grouped = ruleset->limits[j].is_grouped = true;
                ruleset->limits[i].same_subject = &ruleset->limits[j];
                break; /* the first of them */
            }
}

static enum weir_code read_slot(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    static const struct weir_choice choices[] = { { "policy", 0 }, { "identity", 1 } };
    struct weir_ruleset *ruleset = into;
    int is_identity = 0;
    enum weir_code code =
        weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &is_identity);
    ruleset->slot_is_identity = is_identity != 0;
    return code;
}

/* requests that end without a reply */

static enum weir_code read_on_abort(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    static const struct weir_choice choices[] = { { "keep", 0 }, { "return", 1 } };
    struct weir_ruleset *ruleset = into;
    int returns = 0;
    enum weir_code code =
        weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &returns);
    ruleset->returns_on_abort = returns != 0;
    return code;
}

/* lists of clients */

static enum weir_code read_ruleset_deny(struct weir_reader *reader, const struct weir_place *place,
                                        void *into)
{
    struct weir_ruleset *ruleset = into;
    return weir_read_deny(reader, place, &ruleset->access);
}

static enum weir_code read_ruleset_allow(struct weir_reader *reader, const struct weir_place *place,
                                         void *into)
{
    struct weir_ruleset *ruleset = into;
    return weir_read_allow(reader, place, &ruleset->access);
}

/* bodies */

static enum weir_code read_ruleset_body_max(struct weir_reader *reader,
                                            const struct weir_place *place, void *into)
{
    struct weir_ruleset *ruleset = into;
    return weir_read_body_max(reader, place, &ruleset->body_max_bytes);
}

/* known devices */

static enum weir_code read_known(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct weir_ruleset *ruleset = into;
    return weir_read_known(reader, place, &ruleset->known);
}

/* refusals */

static enum weir_code read_retry_after(struct weir_reader *reader, const struct weir_place *place,
                                       void *into)
{
    struct weir_ruleset *ruleset = into;
    return weir_read_retry_after(reader, place, &ruleset->retry_after);
}

/* how many at once */

static enum weir_code read_concurrency(struct weir_reader *reader, const struct weir_place *place,
                                       void *into)
{
    struct weir_ruleset *ruleset = into;
    return weir_read_concurrency(reader, place, &ruleset->concurrency);
}

static enum weir_code check_limits(const struct weir_reader *reader, const struct weir_place *place,
                                   const struct weir_ruleset *ruleset)
{
    if (ruleset->limit_count > 0 || ruleset->concurrency != NULL)
        return WEIR_OK;
    return weir_refuse(reader, place, WEIR_E_MISSING, "\"limits\" is missing.");
}

/* the policies */

static enum weir_code check_ruleset_name(struct weir_reader *reader, const struct weir_place *place)
{
    enum weir_code code = weir_check_name(reader, place, place->name);
    if (code == WEIR_OK && strcmp(place->name, reader->policy->guesses.name) == 0)
        return weir_refuse(
            reader, place, WEIR_E_VALUE,
            "The name \"%s\" is taken: weir counts unknown API keys under it. Wanted "
            "is another.",
            place->name);
    return code;
}

static enum weir_code read_ruleset(struct weir_reader *reader, const struct weir_place *place,
                                   struct weir_ruleset *ruleset)
{
    static const struct weir_member members[] = {
        { "limits", read_limits, false },
        { "on_store_failure", NULL, false }, /* read when the routes are known */
        { "mode", read_ruleset_mode, false },
        { "slot", read_slot, false },
        { "on_abort", read_on_abort, false },
        { "body_max", read_ruleset_body_max, false },
        { "preset", NULL, false }, /* written out before, with its "fields" */
        { "deny", read_ruleset_deny, false },
        { "allow", read_ruleset_allow, false },
        { "known", read_known, false },
        { "retry_after", read_retry_after, false },
        { "enforce_percent", weir_read_enforce_percent, false }, /* behind "mode" */
        { "concurrency", read_concurrency, false },
    };
    ruleset->enforce_ppm = WEIR_ENFORCE_ALL;
    enum weir_code code = check_ruleset_name(reader, place);
    if (code == WEIR_OK)
        code = weir_keep_text(reader, weir_text_from(place->name), &ruleset->name);
    if (code == WEIR_OK)
        code = weir_read_members(reader, place, members, WEIR_COUNT_OF(members), ruleset);
    if (code == WEIR_OK)
        code = check_limits(reader, place, ruleset);
    if (code == WEIR_OK && json_object_get(place->value, "slot") == NULL)
        ruleset->slot_is_identity = has_one_subject(ruleset);
    if (code == WEIR_OK)
        code = weir_check_known(reader, place, ruleset);
    if (code == WEIR_OK)
        code = weir_find_fields(reader, place, ruleset);
    find_groups(ruleset);
    find_tries(ruleset);
    return code;
}

enum weir_code weir_read_policies(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    (void)into;
    const char *name;
    json_t *value;
    struct weir_policy *policy = reader->policy;
    size_t count = json_object_size(place->value);
    if (!json_is_object(place->value))
        return weir_refuse_type(reader, place, "an object with an object for each policy");
    if (count > POLICIES_MAX)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "There are %zu policies; wanted are at most 256.", count);
    policy->rulesets = weir_arena_array(policy->arena, count, sizeof *policy->rulesets);
    if (policy->rulesets == NULL)
        return weir_refuse_memory(reader);

    json_object_foreach(place->value, name, value)
    {
        const struct weir_place at = { place, name, 0, value };
        if (strcmp(name, "comment") == 0)
            continue;
        enum weir_code code = read_ruleset(reader, &at, &policy->rulesets[policy->ruleset_count]);
        if (code != WEIR_OK)
            return code;
        policy->ruleset_count++;
    }
    return WEIR_OK;
}
