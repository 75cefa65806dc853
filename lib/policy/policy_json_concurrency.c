/* "concurrency": how many requests of a policy may be under way at once. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/suggest.h"
#include "policy/policy_json.h"

/* What both are at most, and what the adaptive limit has where the file does not say. */
#define REQUESTS_MAX    UINT64_C(1000000)
#define FLOOR_DEFAULT   4
#define CEILING_DEFAULT 200
#define INITIAL_DEFAULT 20

#define PPM             1000000
#define NAMES_SHOWN_MAX 64

struct draft {
    struct weir_concurrency *rule;
    struct weir_adaptive *adaptive; /* NULL: "adaptive" is not there */
};

/* "adaptive" */

static enum weir_code read_number(struct weir_reader *reader, const struct weir_place *place,
                                  uint32_t *into)
{
    uint64_t number = 0;
    enum weir_code code = weir_read_integer(reader, place, 1, REQUESTS_MAX, &number);
    if (code == WEIR_OK)
        *into = (uint32_t)number;
    return code;
}

static enum weir_code read_floor(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct weir_adaptive *adaptive = into;
    return read_number(reader, place, &adaptive->floor);
}

static enum weir_code read_ceiling(struct weir_reader *reader, const struct weir_place *place,
                                   void *into)
{
    struct weir_adaptive *adaptive = into;
    return read_number(reader, place, &adaptive->ceiling);
}

static enum weir_code read_initial(struct weir_reader *reader, const struct weir_place *place,
                                   void *into)
{
    struct weir_adaptive *adaptive = into;
    return read_number(reader, place, &adaptive->initial);
}

/* What is not written gives way to what is. */
static void fit_defaults(const struct weir_place *place, struct weir_adaptive *adaptive)
{
    bool has_floor = json_object_get(place->value, "floor") != NULL;
    bool has_ceiling = json_object_get(place->value, "ceiling") != NULL;
    bool has_initial = json_object_get(place->value, "initial") != NULL;
    uint32_t least = has_initial && !has_floor ? adaptive->initial : adaptive->ceiling;
    if (!has_floor && adaptive->floor > least)
        adaptive->floor = least;
    if (!has_ceiling && adaptive->ceiling < adaptive->floor)
        adaptive->ceiling = adaptive->floor;
    if (!has_ceiling && has_initial && adaptive->ceiling < adaptive->initial)
        adaptive->ceiling = adaptive->initial;
    if (!has_initial && adaptive->initial < adaptive->floor)
        adaptive->initial = adaptive->floor;
    if (!has_initial && adaptive->initial > adaptive->ceiling)
        adaptive->initial = adaptive->ceiling;
}

static enum weir_code check_bounds(const struct weir_reader *reader, const struct weir_place *place,
                                   const struct weir_adaptive *adaptive)
{
    if (adaptive->floor <= adaptive->initial && adaptive->initial <= adaptive->ceiling)
        return WEIR_OK;
    return weir_refuse(reader, place, WEIR_E_VALUE,
                       "The limit would begin with %u, at least %u and at most %u; wanted is "
                       "\"floor\" \u2264 \"initial\" \u2264 \"ceiling\".",
                       adaptive->initial, adaptive->floor, adaptive->ceiling);
}

static enum weir_code read_adaptive(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    static const struct weir_member members[] = {
        { "floor", read_floor, false },
        { "ceiling", read_ceiling, false },
        { "initial", read_initial, false },
    };
    struct draft *draft = into;
    struct weir_adaptive *adaptive =
        weir_arena_array(reader->policy->arena, 1, sizeof *draft->adaptive);
    if (adaptive == NULL)
        return weir_refuse_memory(reader);
    *adaptive = (struct weir_adaptive){ .floor = FLOOR_DEFAULT,
                                        .ceiling = CEILING_DEFAULT,
                                        .initial = INITIAL_DEFAULT,
                                        .partition_by = WEIR_BY_PLAN };
    draft->adaptive = adaptive;
    draft->rule->adaptive = adaptive;
    enum weir_code code =
        weir_read_members(reader, place, members, WEIR_COUNT_OF(members), adaptive);
    fit_defaults(place, adaptive);
    return code == WEIR_OK ? check_bounds(reader, place, adaptive) : code;
}

/* "partitions" */

static enum weir_code refuse_without_adaptive(const struct weir_reader *reader,
                                              const struct weir_place *place)
{
    return weir_refuse(reader, place, WEIR_E_VALUE,
                       "Parts are of an adaptive limit, and here is none; add \"adaptive\": {}, or "
                       "write them where \"adaptive\" is.");
}

/* A client must not choose its own part, so what it tells of itself is not offered. */
static enum weir_code read_partition_by(struct weir_reader *reader, const struct weir_place *place,
                                        void *into)
{
    static const struct weir_choice choices[] = {
        { "plan", WEIR_BY_PLAN },
        { "tenant", WEIR_BY_TENANT },
        { "api_key", WEIR_BY_API_KEY },
        { "route", WEIR_BY_ROUTE },
    };
    struct draft *draft = into;
    int kind = WEIR_BY_PLAN;
    if (draft->adaptive == NULL)
        return refuse_without_adaptive(reader, place);
    enum weir_code code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &kind);
    draft->adaptive->partition_by = (enum weir_dimension_kind)kind;
    return code;
}

static enum weir_code read_share(const struct weir_reader *reader, const struct weir_place *place,
                                 uint32_t *share_ppm)
{
    static const char *const wanted = "a share of the limit, such as 0.3";
    if (!json_is_number(place->value))
        return weir_refuse_type(reader, place, wanted);
    double share = json_number_value(place->value);
    if (!(share >= 0.001 && share <= 1.0))
        return weir_refuse_value(reader, place, "a share of the limit, from 0.001 to 1");
    *share_ppm = (uint32_t)lround(share * PPM);
    return WEIR_OK;
}

static enum weir_code check_plan(const struct weir_reader *reader, const struct weir_place *place)
{
    const struct weir_policy *policy = reader->policy;
    const char *names[NAMES_SHOWN_MAX];
    size_t count = 0;
    for (size_t i = 0; i < policy->plan_count; i++) {
        if (strcmp(policy->plans[i].name, place->name) == 0)
            return WEIR_OK;
        if (count < NAMES_SHOWN_MAX)
            names[count++] = policy->plans[i].name;
    }
    const char *meant = weir_suggest(weir_text_from(place->name), names, count);
    return weir_refuse(reader, place, WEIR_E_REFERENCE, "\"%.60s\" is no name in \"plans\"%s%s%s",
                       place->name, meant == NULL ? "." : "; did you mean \"",
                       meant == NULL ? "" : meant, meant == NULL ? "" : "\"?");
}

static enum weir_code add_partition(struct weir_reader *reader, const struct weir_place *place,
                                    struct weir_adaptive *adaptive)
{
    struct weir_partition *partition = &adaptive->partitions[adaptive->partition_count];
    if (place->name[0] == '\0')
        return weir_refuse(reader, place, WEIR_E_VALUE, "A part without a name is nobody's.");
    enum weir_code code =
        adaptive->partition_by == WEIR_BY_PLAN ? check_plan(reader, place) : WEIR_OK;
    if (code == WEIR_OK)
        code = weir_keep_text(reader, weir_text_from(place->name), &partition->name);
    if (code == WEIR_OK)
        code = read_share(reader, place, &partition->share_ppm);
    if (code == WEIR_OK)
        adaptive->partition_count++;
    return code;
}

static enum weir_code check_shares(const struct weir_reader *reader, const struct weir_place *place,
                                   const struct weir_adaptive *adaptive)
{
    uint64_t sum_ppm = 0;
    for (size_t i = 0; i < adaptive->partition_count; i++)
        sum_ppm += adaptive->partitions[i].share_ppm;
    if (sum_ppm <= PPM)
        return WEIR_OK;
    return weir_refuse(reader, place, WEIR_E_VALUE,
                       "The shares come to %g in all; wanted is at most 1.", (double)sum_ppm / PPM);
}

static enum weir_code read_partitions(struct weir_reader *reader, const struct weir_place *place,
                                      void *into)
{
    const char *name;
    json_t *value;
    struct draft *draft = into;
    struct weir_adaptive *adaptive = draft->adaptive;
    if (adaptive == NULL)
        return refuse_without_adaptive(reader, place);
    if (!json_is_object(place->value))
        return weir_refuse_type(reader, place, "an object with a share for each name");
    size_t count = json_object_size(place->value);
    if (count == 0 || count > WEIR_PARTITIONS_MAX)
        return weir_refuse(reader, place, WEIR_E_VALUE, "There are %zu parts; wanted are 1 to %d.",
                           count, WEIR_PARTITIONS_MAX);
    adaptive->partitions =
        weir_arena_array(reader->policy->arena, count, sizeof *adaptive->partitions);
    if (adaptive->partitions == NULL)
        return weir_refuse_memory(reader);

    json_object_foreach(place->value, name, value)
    {
        const struct weir_place at = { place, name, 0, value };
        if (strcmp(name, "comment") == 0)
            continue;
        enum weir_code code = add_partition(reader, &at, adaptive);
        if (code != WEIR_OK)
            return code;
    }
    return check_shares(reader, place, adaptive);
}

/* "fixed" and "by" */

static enum weir_code read_fixed(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct draft *draft = into;
    return read_number(reader, place, &draft->rule->fixed);
}

static enum weir_code read_by(struct weir_reader *reader, const struct weir_place *place,
                              void *into)
{
    struct draft *draft = into;
    return weir_read_by_of_head(reader, place, &draft->rule->by);
}

/* the whole */

static enum weir_code read_group(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct draft *draft = into;
    struct weir_text name;
    enum weir_code code = weir_read_text(reader, place, "the name of a group of policies", &name);
    if (code == WEIR_OK)
        code = weir_check_name(reader, place, name.at);
    return code == WEIR_OK ? weir_keep_text(reader, name, &draft->rule->group) : code;
}

static struct weir_adaptive *find_group(const struct weir_policy *policy, const char *name)
{
    struct weir_adaptive *adaptive = policy->adaptives;
    while (adaptive != NULL && strcmp(adaptive->name, name) != 0)
        adaptive = adaptive->next;
    return adaptive;
}

/* A group is described in one place, so that no two places can differ. */
static enum weir_code add_group(struct weir_reader *reader, const struct weir_place *place,
                                struct draft *draft)
{
    struct weir_policy *policy = reader->policy;
    struct weir_adaptive *adaptive = draft->adaptive;
    if (find_group(policy, draft->rule->group) != NULL) {
        const struct weir_place at = weir_place_member(place, "adaptive");
        return weir_refuse(reader, &at, WEIR_E_VALUE,
                           "The group \"%s\" has its limit from another policy; wanted is only "
                           "\"group\": \"%s\" in all but one.",
                           draft->rule->group, draft->rule->group);
    }
    adaptive->name = draft->rule->group;
    adaptive->index = policy->adaptive_count++;
    adaptive->next = policy->adaptives;
    policy->adaptives = adaptive;
    return WEIR_OK;
}

/* One of the two without the other, or nothing at all. */
static enum weir_code check_whole(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct draft *draft)
{
    const struct weir_concurrency *rule = draft->rule;
    if (rule->fixed > 0 && rule->by.count == 0)
        return weir_refuse(reader, place, WEIR_E_MISSING,
                           "\"by\" is missing: what \"fixed\" counts the requests of, such as "
                           "\"api_key\".");
    if (rule->fixed == 0 && rule->by.count > 0)
        return weir_refuse(reader, place, WEIR_E_MISSING,
                           "\"fixed\" is missing: how many requests each of \"by\" may have under "
                           "way.");
    if (rule->fixed == 0 && draft->adaptive == NULL && rule->group == NULL)
        return weir_refuse(reader, place, WEIR_E_MISSING,
                           "Nothing is limited here; wanted is \"adaptive\", \"group\", or "
                           "\"fixed\" with \"by\".");
    return WEIR_OK;
}

enum weir_code weir_read_concurrency(struct weir_reader *reader, const struct weir_place *place,
                                     void *into)
{
    static const struct weir_member members[] = {
        { "group", read_group, false },
        { "adaptive", read_adaptive, false },
        { "partition_by", read_partition_by, false }, /* before the names of parts */
        { "partitions", read_partitions, false },
        { "fixed", read_fixed, false },
        { "by", read_by, false },
    };
    struct draft draft = { weir_arena_array(reader->policy->arena, 1, sizeof *draft.rule), NULL };
    if (draft.rule == NULL)
        return weir_refuse_memory(reader);
    *draft.rule = (struct weir_concurrency){ .fixed = 0 };
    *(const struct weir_concurrency **)into = draft.rule;

    enum weir_code code = weir_read_members(reader, place, members, WEIR_COUNT_OF(members), &draft);
    if (code == WEIR_OK)
        code = check_whole(reader, place, &draft);
    if (code == WEIR_OK && draft.adaptive != NULL && draft.rule->group == NULL)
        code = weir_keep_text(reader, weir_text_from(place->parent->name), &draft.rule->group);
    if (code == WEIR_OK && draft.adaptive != NULL)
        code = add_group(reader, place, &draft);
    return code;
}

enum weir_code weir_refuse_concurrency(struct weir_reader *reader, const struct weir_place *place,
                                       void *into)
{
    (void)into;
    return weir_refuse(reader, place, WEIR_E_UNKNOWN_KEY,
                       "How many requests may be under way at once is said in a policy; wanted is "
                       "\"concurrency\" in one of \"policies\", which routes then name.");
}

/* what refers to other policies, to routes and to keys */

static enum weir_code refuse_group(const struct weir_reader *reader, const struct weir_place *place,
                                   const char *name)
{
    const char *names[NAMES_SHOWN_MAX];
    size_t count = 0;
    const struct weir_adaptive *adaptive = reader->policy->adaptives;
    for (; adaptive != NULL && count < NAMES_SHOWN_MAX; adaptive = adaptive->next)
        names[count++] = adaptive->name;
    const char *meant = weir_suggest(weir_text_from(name), names, count);
    return weir_refuse(reader, place, WEIR_E_REFERENCE,
                       "No policy of the group \"%s\" has an \"adaptive\"%s%s%s", name,
                       meant == NULL ? "; wanted is one that says its limit." : "; did you mean \"",
                       meant == NULL ? "" : meant, meant == NULL ? "" : "\"?");
}

static enum weir_code join_group(const struct weir_reader *reader, const struct weir_place *place,
                                 struct weir_ruleset *ruleset)
{
    const struct weir_concurrency *written = ruleset->concurrency;
    const struct weir_adaptive *adaptive = find_group(reader->policy, written->group);
    const struct weir_place at = weir_place_member(place, "group");
    if (adaptive == NULL)
        return refuse_group(reader, &at, written->group);
    struct weir_concurrency *joined = weir_arena_array(reader->policy->arena, 1, sizeof *joined);
    if (joined == NULL)
        return weir_refuse_memory(reader);
    *joined = *written;
    joined->adaptive = adaptive;
    ruleset->concurrency = joined;
    return WEIR_OK;
}

/* Both would be called the same in what a client sees. */
static enum weir_code check_limit_names(const struct weir_reader *reader,
                                        const struct weir_place *policy,
                                        const struct weir_ruleset *ruleset)
{
    const struct weir_place limits = weir_place_member(policy, "limits");
    for (size_t i = 0; i < ruleset->limit_count; i++) {
        const struct weir_place limit = weir_place_item(&limits, i);
        const struct weir_place name = weir_place_member(&limit, "name");
        if (strcmp(ruleset->limits[i].name, WEIR_CONCURRENCY) == 0)
            return weir_refuse(reader, &name, WEIR_E_VALUE,
                               "\"concurrency\" is what clients are told of the policy's own; "
                               "wanted is another name.");
    }
    return WEIR_OK;
}

static bool is_route(const struct weir_policy *policy, const char *match)
{
    for (size_t i = 0; i < policy->route_count; i++)
        if (strcmp(policy->routes[i].match, match) == 0)
            return true;
    return strcmp(policy->fallback.match, match) == 0;
}

static enum weir_code check_route(const struct weir_reader *reader, const struct weir_place *place,
                                  const char *name)
{
    if (is_route(reader->policy, name))
        return WEIR_OK;
    return weir_refuse(reader, place, WEIR_E_REFERENCE,
                       "\"%.60s\" is no \"match\" of a route; wanted is one as it is written "
                       "there.",
                       name);
}

/* A part that is nobody's would keep its share all the same. Tenants are not known here. */
static enum weir_code check_parts(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct weir_adaptive *adaptive)
{
    const struct weir_place partitions = weir_place_member(place, "partitions");
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < adaptive->partition_count && code == WEIR_OK; i++) {
        const char *name = adaptive->partitions[i].name;
        const struct weir_place at = weir_place_member(&partitions, name);
        if (adaptive->partition_by == WEIR_BY_ROUTE)
            code = check_route(reader, &at, name);
        else if (adaptive->partition_by == WEIR_BY_API_KEY)
            code = weir_check_key_id(reader, &at, name);
    }
    return code;
}

static enum weir_code check_ruleset(const struct weir_reader *reader,
                                    const struct weir_place *policies, struct weir_ruleset *ruleset)
{
    const struct weir_place policy = weir_place_member(policies, ruleset->name);
    const struct weir_place place = weir_place_member(&policy, "concurrency");
    const struct weir_concurrency *rule = ruleset->concurrency;
    enum weir_code code = check_limit_names(reader, &policy, ruleset);
    if (code == WEIR_OK && rule->group != NULL && rule->adaptive == NULL)
        return join_group(reader, &place, ruleset);
    if (code == WEIR_OK && rule->adaptive != NULL)
        code = check_parts(reader, &place, rule->adaptive);
    return code;
}

enum weir_code weir_check_concurrency(struct weir_reader *reader)
{
    const struct weir_place policies = weir_place_member(reader->root, "policies");
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < reader->policy->ruleset_count && code == WEIR_OK; i++)
        if (reader->policy->rulesets[i].concurrency != NULL)
            code = check_ruleset(reader, &policies, &reader->policy->rulesets[i]);
    return code;
}
