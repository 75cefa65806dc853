/* "known": from where somebody has succeeded before. */
#include <string.h>

#include "base/arena.h"
#include "policy/policy_json.h"

#define DAY_S         UINT64_C(86400)
#define COOKIE        "weir_known"
#define COOKIE_DAYS   180
#define COOKIE_CHARS  64
#define WANTED_COOKIE "the name of a cookie, of at most 64 letters, digits, \"-\" and \"_\""
#define WANTED_TIME   "a duration of a second or more, such as \"180d\""
#define WANTED_PATH   "the path under which the cookie is sent, such as \"/\""

static bool counts_by_device(const struct weir_by *by)
{
    for (size_t i = 0; i < by->count; i++)
        for (size_t j = 0; j < by->parts[i].count; j++)
            if (by->parts[i].alternatives[j].kind == WEIR_BY_DEVICE)
                return true;
    return false;
}

static enum weir_code read_account(struct weir_reader *reader, const struct weir_place *place,
                                   void *into)
{
    struct weir_known *known = into;
    enum weir_code code = weir_read_by(reader, place, &known->account);
    if (code == WEIR_OK && counts_by_device(&known->account))
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "A device is known for an account, and cannot be one; wanted is what "
                           "names the account, such as \"field:username\".");
    return code;
}

static bool is_cookie_name(struct weir_text name)
{
    for (size_t i = 0; i < name.length; i++) {
        char c = weir_fold_char(name.at[i]);
        if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_')
            return false;
    }
    return name.length <= COOKIE_CHARS;
}

static enum weir_code read_cookie(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    struct weir_known *known = into;
    struct weir_text name;
    enum weir_code code = weir_read_text(reader, place, WANTED_COOKIE, &name);
    if (code != WEIR_OK)
        return code;
    if (!is_cookie_name(name))
        return weir_refuse_value(reader, place, WANTED_COOKIE);
    return weir_keep_text(reader, name, &known->cookie);
}

static enum weir_code read_time(struct weir_reader *reader, const struct weir_place *place,
                                uint64_t *time_us)
{
    struct weir_text text;
    enum weir_code code = weir_read_text(reader, place, WANTED_TIME, &text);
    if (code == WEIR_OK && (!weir_duration_parse(text, time_us) || *time_us < 1000000))
        return weir_refuse_value(reader, place, WANTED_TIME);
    return code;
}

static enum weir_code read_for(struct weir_reader *reader, const struct weir_place *place,
                               void *into)
{
    struct weir_known *known = into;
    uint64_t time_us = 0;
    enum weir_code code = read_time(reader, place, &time_us);
    known->cookie_s = time_us / 1000000;
    return code;
}

static enum weir_code read_addresses(struct weir_reader *reader, const struct weir_place *place,
                                     void *into)
{
    struct weir_known *known = into;
    return read_time(reader, place, &known->address_us);
}

static enum weir_code read_secure(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    struct weir_known *known = into;
    return weir_read_bool(reader, place, &known->is_secure);
}

/* RFC 6265, section 4.1.1: any character but controls and ";". */
static bool is_cookie_path(struct weir_text path)
{
    for (size_t i = 0; i < path.length; i++)
        if (path.at[i] <= ' ' || path.at[i] > '~' || path.at[i] == ';')
            return false;
    return path.length <= 200 && path.at[0] == '/';
}

static enum weir_code read_path(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    struct weir_known *known = into;
    struct weir_text path;
    enum weir_code code = weir_read_text(reader, place, WANTED_PATH, &path);
    if (code != WEIR_OK)
        return code;
    return is_cookie_path(path) ? weir_keep_text(reader, path, &known->path)
                                : weir_refuse_value(reader, place, WANTED_PATH);
}

/* Without a secret anybody could make such a cookie. */
static enum weir_code check_secret(const struct weir_reader *reader, const struct weir_place *place)
{
    if (json_object_get(reader->root->value, "secret") != NULL)
        return WEIR_OK;
    return weir_refuse(reader, place, WEIR_E_MISSING,
                       "Devices are known by cookies that are signed with the file's \"secret\", "
                       "and there is none; add \"secret\": \"${WEIR_SECRET}\" at the top.");
}

enum weir_code weir_read_known(struct weir_reader *reader, const struct weir_place *place,
                               void *into)
{
    static const struct weir_member members[] = {
        { "account", read_account, true }, { "cookie", read_cookie, false },
        { "for", read_for, false },        { "addresses", read_addresses, false },
        { "secure", read_secure, false },  { "path", read_path, false },
    };
    struct weir_known *known = weir_arena_array(reader->policy->arena, 1, sizeof *known);
    if (known == NULL)
        return weir_refuse_memory(reader);
    *known =
        (struct weir_known){ .cookie = COOKIE, .cookie_s = COOKIE_DAYS * DAY_S, .is_secure = true };
    *(const struct weir_known **)into = known;
    enum weir_code code = weir_read_members(reader, place, members, WEIR_COUNT_OF(members), known);
    return code == WEIR_OK ? check_secret(reader, place) : code;
}

/* the path of the cookie: it is asked for where the policy's routes are, and nowhere else */

/* Characters that stand for themselves in a path that a browser sends. */
static bool is_plain(char c)
{
    char folded = weir_fold_char(c);
    return (folded >= 'a' && folded <= 'z') || (c >= '0' && c <= '9') || strchr("-._~", c) != NULL;
}

/* How far a text goes that is the beginning of a pattern's paths, in whole segments. */
static size_t literal_length(const struct weir_pattern *pattern)
{
    size_t kept = 0, i = 0;
    if (pattern->fold)
        return 0; /* browsers compare letter by letter */
    for (; pattern->text[i] == '/'; kept = i) {
        for (i++; pattern->text[i] != '\0' && pattern->text[i] != '/'; i++)
            if (!is_plain(pattern->text[i]))
                return kept;
    }
    return kept;
}

/* Of two beginnings what they have in common, in whole segments. */
static struct weir_text common_path(struct weir_text one, struct weir_text other)
{
    size_t kept = 0, i = 0;
    for (;; i++) {
        bool one_ends = i == one.length || one.at[i] == '/';
        bool other_ends = i == other.length || other.at[i] == '/';
        if (one_ends && other_ends)
            kept = i;
        if (i == one.length || i == other.length || one.at[i] != other.at[i])
            return (struct weir_text){ one.at, kept };
    }
}

static struct weir_text path_of(const struct weir_policy *policy,
                                const struct weir_ruleset *ruleset)
{
    struct weir_text path = { NULL, 0 };
    for (size_t i = 0; i < policy->route_count; i++) {
        const struct weir_pattern *pattern = &policy->routes[i].pattern;
        if (policy->routes[i].ruleset != ruleset)
            continue;
        const struct weir_text own = { pattern->text, literal_length(pattern) };
        path = path.at == NULL ? own : common_path(path, own);
    }
    bool is_everywhere = path.length == 0 || policy->fallback.ruleset == ruleset;
    return is_everywhere || !is_cookie_path(path) ? WEIR_TEXT("/") : path;
}

enum weir_code weir_set_cookie_paths(struct weir_reader *reader)
{
    struct weir_policy *policy = reader->policy;
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < policy->ruleset_count && code == WEIR_OK; i++) {
        struct weir_ruleset *ruleset = &policy->rulesets[i];
        if (ruleset->known == NULL || ruleset->known->path != NULL)
            continue;
        struct weir_known *known = weir_arena_array(policy->arena, 1, sizeof *known);
        if (known == NULL)
            return weir_refuse_memory(reader);
        *known = *ruleset->known;
        code = weir_keep_text(reader, path_of(policy, ruleset), &known->path);
        ruleset->known = known;
    }
    return code;
}

/* what is about devices */

enum weir_code weir_check_known(const struct weir_reader *reader, const struct weir_place *place,
                                const struct weir_ruleset *ruleset)
{
    const struct weir_place limits = weir_place_member(place, "limits");
    bool is_used = false;
    for (size_t i = 0; i < ruleset->limit_count; i++) {
        const struct weir_limit_rule *limit = &ruleset->limits[i];
        const struct weir_place item = weir_place_item(&limits, i);
        bool is_about = limit->when != WEIR_FOR_ALL || counts_by_device(&limit->by);
        is_used = is_used || is_about;
        if (is_about && ruleset->known == NULL)
            return weir_refuse(
                reader, &item, WEIR_E_VALUE,
                "The limit \"%s\" is about known devices, and the policy knows none; "
                "add \"known\": {\"account\": \"field:username\"} to it.",
                limit->name);
    }
    if (ruleset->known == NULL || is_used)
        return WEIR_OK;
    const struct weir_place known = weir_place_member(place, "known");
    return weir_refuse(
        reader, &known, WEIR_E_VALUE,
        "No limit of the policy asks who is known; add \"when\": \"unknown\" to those "
        "that are for strangers only.");
}
