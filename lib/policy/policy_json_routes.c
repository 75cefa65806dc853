/* "routes" and "default": which requests meet which policy. */
#include <string.h>

#include "base/arena.h"
#include "base/suggest.h"
#include "policy/policy_json_files.h"

#define ROUTES_MAX      4096
#define NAMES_SHOWN_MAX 64
#define MATCH_WANTED    "a method and a path, such as \"GET /v1/items/:id\" or \"* /v1/*\""

struct draft {
    struct weir_route *route;
    bool fold;
};

/* "match" */

static enum weir_code check_method(const struct weir_reader *reader, const struct weir_place *place,
                                   struct weir_text method)
{
    for (size_t i = 0; i < method.length; i++) {
        char c = method.at[i];
        if (c >= 'a' && c <= 'z')
            return weir_refuse(reader, place, WEIR_E_VALUE,
                               "The value is %s, and methods are compared letter by letter; "
                               "wanted is one in capitals, such as \"GET\".",
                               weir_show(place->value).text);
        /* A token may have "|" in it (RFC 9110), but who writes "GET|POST" means two methods. */
        if (!((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '*'))
            return weir_refuse_value(reader, place, MATCH_WANTED);
    }
    return method.length > 0 ? WEIR_OK : weir_refuse_value(reader, place, MATCH_WANTED);
}

static enum weir_code read_match(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct draft *draft = into;
    char pointer[WEIR_POINTER_BYTES];
    struct weir_text text, rest, method = { NULL, 0 };
    enum weir_code code = weir_read_text(reader, place, MATCH_WANTED, &text);
    if (code == WEIR_OK)
        code = weir_keep_text(reader, text, &draft->route->match);
    if (code != WEIR_OK)
        return code;

    rest = weir_text_from(draft->route->match);
    weir_text_take_first(&rest, ' ', &method);
    if (rest.at == NULL)
        return weir_refuse_value(reader, place, MATCH_WANTED);
    code = check_method(reader, place, method);
    if (code != WEIR_OK)
        return code;
    draft->route->method =
        weir_text_equal(method, WEIR_TEXT("*")) ? (struct weir_text){ NULL, 0 } : method;
    return weir_pattern_compile(rest.at, draft->fold, &draft->route->pattern,
                                weir_place_pointer(place, pointer), reader->error);
}

enum weir_code weir_read_case(struct weir_reader *reader, const struct weir_place *place,
                              void *into)
{
    static const struct weir_choice choices[] = { { "keep", 0 }, { "fold", 1 } };
    int fold = 0;
    enum weir_code code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &fold);
    *(bool *)into = fold != 0;
    return code;
}

static enum weir_code read_route_case(struct weir_reader *reader, const struct weir_place *place,
                                      void *into)
{
    struct draft *draft = into;
    return weir_read_case(reader, place, &draft->fold);
}

/* what is done with a request */

static enum weir_code read_auth(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    static const struct weir_choice choices[] = {
        { "none", WEIR_AUTH_NONE },
        { "optional", WEIR_AUTH_OPTIONAL },
        { "required", WEIR_AUTH_REQUIRED },
    };
    struct draft *draft = into;
    int auth = WEIR_AUTH_NONE;
    enum weir_code code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &auth);
    draft->route->auth = (enum weir_auth)auth;
    return code;
}

static enum weir_code refuse_policy(const struct weir_reader *reader,
                                    const struct weir_place *place, struct weir_text name)
{
    const struct weir_policy *policy = reader->policy;
    const char *names[NAMES_SHOWN_MAX];
    size_t count =
        policy->ruleset_count < NAMES_SHOWN_MAX ? policy->ruleset_count : NAMES_SHOWN_MAX;
    for (size_t i = 0; i < count; i++)
        names[i] = policy->rulesets[i].name;
    const char *meant = weir_suggest(name, names, count);
    return weir_refuse(reader, place, WEIR_E_REFERENCE,
                       "The value is %s, which is no name in \"policies\"%s%s%s",
                       weir_show(place->value).text, meant == NULL ? "." : "; did you mean \"",
                       meant == NULL ? "" : meant, meant == NULL ? "" : "\"?");
}

static enum weir_code read_policy(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    struct draft *draft = into;
    const struct weir_policy *policy = reader->policy;
    struct weir_text name;
    enum weir_code code = weir_read_text(reader, place, "the name of a policy", &name);
    if (code != WEIR_OK)
        return code;
    for (size_t i = 0; i < policy->ruleset_count; i++) {
        if (strcmp(policy->rulesets[i].name, name.at) != 0)
            continue;
        draft->route->ruleset = &policy->rulesets[i];
        return WEIR_OK;
    }
    return refuse_policy(reader, place, name);
}

static enum weir_code read_cost(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    struct draft *draft = into;
    return weir_read_integer(reader, place, 0, WEIR_UNITS_MAX, &draft->route->cost);
}

/* the routes */

static enum weir_code read_route(struct weir_reader *reader, const struct weir_place *place,
                                 struct weir_route *route)
{
    static const struct weir_member members[] = {
        { "case", read_route_case, false }, /* before "match" */
        { "match", read_match, true },
        { "auth", read_auth, false },
        { "policy", read_policy, false },
        { "cost", read_cost, false },
        { "concurrency", weir_refuse_concurrency, false },
    };
    struct draft draft = { route, reader->fold };
    *route = (struct weir_route){ .auth = WEIR_AUTH_NONE, .cost = 1 };
    return weir_read_members(reader, place, members, WEIR_COUNT_OF(members), &draft);
}

/* Where a route of several files is written, for who has to change it. */
static enum weir_code note_place(const struct weir_reader *reader, size_t index,
                                 struct weir_route *route)
{
    const struct weir_source *source = weir_files_route(reader->files, &index);
    route->index = index;
    route->file = "";
    return source->name[0] == '\0'
               ? WEIR_OK
               : weir_keep_text(reader, weir_text_from(source->name), &route->file);
}

enum weir_code weir_read_routes(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    (void)into;
    struct weir_policy *policy = reader->policy;
    size_t count = json_array_size(place->value);
    enum weir_code code = WEIR_OK;
    if (!json_is_array(place->value))
        return weir_refuse_type(reader, place, "a list of routes");
    if (count > ROUTES_MAX)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "There are %zu routes; wanted are at most 4096.", count);
    policy->routes = weir_arena_array(policy->arena, count, sizeof *policy->routes);
    if (policy->routes == NULL)
        return weir_refuse_memory(reader);

    for (size_t i = 0; i < count && code == WEIR_OK; i++) {
        const struct weir_place item = weir_place_item(place, i);
        /* Counted before it is read, so that its pattern is freed when what follows is refused. */
        policy->route_count++;
        code = read_route(reader, &item, &policy->routes[i]);
        if (code == WEIR_OK)
            code = note_place(reader, i, &policy->routes[i]);
    }
    return code;
}

/* "default" */

enum weir_code weir_read_default(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    (void)into;
    static const struct weir_member members[] = {
        { "policy", read_policy, false },
        { "auth", read_auth, false },
        { "cost", read_cost, false },
        { "concurrency", weir_refuse_concurrency, false },
    };
    struct draft draft = { &reader->policy->fallback, false };
    reader->policy->has_default = true;
    if (json_is_object(place->value))
        return weir_read_members(reader, place, members, WEIR_COUNT_OF(members), &draft);
    if (json_is_string(place->value))
        return read_policy(reader, place, &draft);
    return weir_refuse_type(reader, place,
                            "the name of a policy, or an object with \"policy\" and \"auth\"");
}
