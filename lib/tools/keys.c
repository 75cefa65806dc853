/* weir keys: what clients have left, and giving it back or taking it away, through the Redis that a
 * policy file names. */
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/keys.h"
#include "policy/policy.h"
#include "policy/units.h"
#include "tools/table.h"
#include "tools/tool.h"

#define VALUES_MAX 16
#define NAME_BYTES 160
#define WHO_BYTES  160

struct keys {
    const char *file, *store;
    const char *name, *limit;
    const char *ip, *api_key, *user, *tenant, *plan, *route;
    struct weir_tool_list values;
    const char *time, *reason, *id;
    bool is_json;

    const struct weir_tool_usage *usage;
    struct weir_limiter *limiter;
    uint64_t seconds; /* of a block */
    char value_names[VALUES_MAX][NAME_BYTES];
    struct weir_value named[VALUES_MAX];
    char by[WHO_BYTES]; /* who does it, for the list of blocks */
};

/* One of the things to do: its command line, the call, and how the answer is shown to people. */
struct action {
    struct weir_tool_usage usage;
    const char *does;
    enum weir_code (*ask)(struct keys *keys, const struct weir_subject *subject, json_t **body,
                          struct weir_error *error);
    int (*show)(const json_t *body);
    bool wants_time;
    bool takes_id;
    bool wants_nobody;
};

/* options */

/* clang-format off */
#define OF_THE_FILE                                                                                \
    { .name = "policy", .value = "FILE", .help = "the policy file, which names the Redis",          \
      WEIR_TOOL_INTO(struct keys, file) },                                                         \
    { .name = "store", .value = "URL", .help = "ask this Redis, and not the file's",                \
      WEIR_TOOL_INTO(struct keys, store) },                                                        \
    { .name = "json", .help = "print the answer as JSON", WEIR_TOOL_INTO(struct keys, is_json) }

#define OF_A_KEY                                                                                   \
    { .name = "name", .value = "POLICY", .help = "the policy, as in the file's \"policies\"",        \
      WEIR_TOOL_INTO(struct keys, name) },                                                         \
    { .name = "limit", .value = "LIMIT", .help = "only this one of its limits (all)",               \
      WEIR_TOOL_INTO(struct keys, limit) },                                                        \
    { .name = "ip", .value = "ADDRESS", .help = "a client's address; its network is counted",       \
      WEIR_TOOL_INTO(struct keys, ip) },                                                           \
    { .name = "api-key", .value = "ID", .help = "the public id of an API key, never the key",       \
      WEIR_TOOL_INTO(struct keys, api_key) },                                                      \
    { .name = "user", .value = "USER", .help = "a user", WEIR_TOOL_INTO(struct keys, user) },       \
    { .name = "tenant", .value = "TENANT", .help = "a tenant",                                      \
      WEIR_TOOL_INTO(struct keys, tenant) },                                                       \
    { .name = "plan", .value = "PLAN", .help = "whose numbers hold (the API key's, or the default)", \
      WEIR_TOOL_INTO(struct keys, plan) },                                                         \
    { .name = "route", .value = "MATCH", .help = "a route, as its \"match\" is written",             \
      WEIR_TOOL_INTO(struct keys, route) },                                                        \
    { .name = "value", .value = "NAME=VALUE",                                                       \
      .help = "what a client sends: header:X-Device=a1, query:q=gate, param:id=42,\n"               \
              "field:username=ann; may be given several times",                                    \
      WEIR_TOOL_INTO(struct keys, values) }
/* clang-format on */

static const struct weir_tool_option key_options[] = { OF_THE_FILE, OF_A_KEY };
static const struct weir_tool_option list_options[] = { OF_THE_FILE };
static const struct weir_tool_option unblock_options[] = {
    OF_THE_FILE,
    OF_A_KEY,
    { .name = "id",
      .value = "ID",
      .help = "a row of \"weir keys blocks\", in place of all that says whom",
      WEIR_TOOL_INTO(struct keys, id) },
};
static const struct weir_tool_option block_options[] = {
    OF_THE_FILE,
    OF_A_KEY,
    { .name = "for",
      .value = "TIME",
      .help = "how long: 90s, 15m, 2h or 7d, up to 366d",
      WEIR_TOOL_INTO(struct keys, time) },
    { .name = "reason",
      .value = "TEXT",
      .help = "why, for the list of blocks",
      WEIR_TOOL_INTO(struct keys, reason) },
};

#define OPTIONS(table) .options = (table), .option_count = sizeof(table) / sizeof(table)[0]

/* asking */

static enum weir_code ask_look(struct keys *keys, const struct weir_subject *subject, json_t **body,
                               struct weir_error *error)
{
    return weir_keys_look(keys->limiter, subject, body, error);
}

static enum weir_code ask_reset(struct keys *keys, const struct weir_subject *subject,
                                json_t **body, struct weir_error *error)
{
    return weir_keys_reset(keys->limiter, subject, body, error);
}

static enum weir_code ask_block(struct keys *keys, const struct weir_subject *subject,
                                json_t **body, struct weir_error *error)
{
    return weir_keys_block(keys->limiter, subject, keys->seconds, keys->reason, keys->by, body,
                           error);
}

static enum weir_code ask_unblock(struct keys *keys, const struct weir_subject *subject,
                                  json_t **body, struct weir_error *error)
{
    if (keys->id != NULL)
        return weir_keys_unblock_id(keys->limiter, keys->id, body, error);
    return weir_keys_unblock(keys->limiter, subject, body, error);
}

static enum weir_code ask_list(struct keys *keys, const struct weir_subject *subject, json_t **body,
                               struct weir_error *error)
{
    (void)subject;
    return weir_keys_list(keys->limiter, body, error);
}

/* showing */

static const char *text_of(const json_t *object, const char *name, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text == NULL || text[0] == '\0' ? otherwise : text;
}

static json_int_t number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void put_time(struct weir_tool_table *table, const json_t *object, const char *name)
{
    char text[WEIR_TOOL_TIME_CHARS];
    json_int_t seconds = number_of(object, name);
    weir_tool_table_put(table, "%s", weir_tool_time(seconds < 0 ? 0 : (uint64_t)seconds, text));
}

static int print_table(struct weir_tool_table *table)
{
    bool is_printed = weir_tool_table_print(table, "", stdout);
    weir_tool_table_free(table);
    return is_printed ? WEIR_TOOL_FINE : weir_tool_out_of_memory();
}

/* What kept the list of blocks from being read or changed, if anything did. */
static void complain_of_list(const json_t *body)
{
    const char *hint = text_of(body, "hint", NULL);
    if (hint != NULL)
        weir_tool_complain("The list of blocks stays as it is. %s", hint);
}

static void put_blocked(struct weir_tool_table *table, const json_t *limit)
{
    if (json_is_true(json_object_get(limit, "banned"))) {
        weir_tool_table_put(table, "banned until %s", text_of(limit, "banned_until", ""));
        return;
    }
    const char *until = text_of(limit, "blocked_until", NULL);
    if (json_is_null(json_object_get(limit, "blocked"))) {
        weir_tool_table_put(table, "?");
        return;
    }
    bool is_blocked = json_is_true(json_object_get(limit, "blocked"));
    weir_tool_table_put(table, "%s%s",
                        !is_blocked     ? "no"
                        : until == NULL ? "yes"
                                        : "until ",
                        is_blocked && until != NULL ? until : "");
}

static int show_limits(const json_t *body)
{
    if (json_is_true(json_object_get(body, "denied"))) {
        puts("A list in the file keeps this client out, whatever it has left.");
        return WEIR_TOOL_FINE;
    }
    static const char *const titles[] = { "LIMIT", "KEY",          ">LEFT",  ">OF",
                                          ">IN",   ">ALL BACK IN", "BLOCKED" };
    const json_t *limits = json_object_get(body, "limits");
    if (json_array_size(limits) == 0) {
        weir_tool_complain("No limit of the policy \"%s\" is by what is given of the client.",
                           text_of(body, "policy", ""));
        return WEIR_TOOL_FOUND;
    }
    struct weir_tool_table *table = weir_tool_table_new(titles, sizeof titles / sizeof titles[0]);
    if (table == NULL)
        return weir_tool_out_of_memory();
    for (size_t i = 0; i < json_array_size(limits); i++) {
        const json_t *limit = json_array_get(limits, i);
        weir_tool_table_put(table, "%s", text_of(limit, "name", ""));
        weir_tool_table_put(table, "%s", text_of(limit, "key", ""));
        weir_tool_table_put(table, "%lld", (long long)number_of(limit, "remaining"));
        weir_tool_table_put(table, "%lld", (long long)number_of(limit, "limit"));
        put_time(table, limit, "window_s");
        put_time(table, limit, "reset_s");
        put_blocked(table, limit);
    }
    complain_of_list(body);
    return print_table(table);
}

static int show_blocks(const json_t *body)
{
    static const char *const titles[] = { "POLICY", "LIMIT", "KEY", ">LEFT", "BY", "REASON", "ID" };
    const json_t *blocks = json_object_get(body, "blocks");
    if (json_array_size(blocks) == 0) {
        puts("Nobody is blocked.");
        return WEIR_TOOL_FINE;
    }
    struct weir_tool_table *table = weir_tool_table_new(titles, sizeof titles / sizeof titles[0]);
    if (table == NULL)
        return weir_tool_out_of_memory();
    for (size_t i = 0; i < json_array_size(blocks); i++) {
        const json_t *block = json_array_get(blocks, i);
        weir_tool_table_put(table, "%s", text_of(block, "policy", ""));
        weir_tool_table_put(table, "%s", text_of(block, "limit", "all"));
        weir_tool_table_put(table, "%s", text_of(block, "key", ""));
        put_time(table, block, "left_s");
        weir_tool_table_put(table, "%s", text_of(block, "by", "-"));
        weir_tool_table_put(table, "%s", text_of(block, "reason", "-"));
        weir_tool_table_put(table, "%s", text_of(block, "id", "-"));
    }
    return print_table(table);
}

/* Of what, to the end of the line. */
static void print_limits(const json_t *body)
{
    const char *limit = text_of(body, "limit", "all");
    weir_tool_print(" of the policy \"%s\", ", text_of(body, "policy", ""));
    if (strcmp(limit, "all") == 0)
        puts("all limits that are its own.");
    else
        weir_tool_print("limit \"%s\".\n", limit);
}

static int show_reset(const json_t *body)
{
    json_int_t unblocked = number_of(body, "unblocked");
    weir_tool_print("Forgotten is what %s has spent", text_of(body, "key", "everybody"));
    print_limits(body);
    if (unblocked > 0)
        printf("%lld block%s ended with it.\n", (long long)unblocked, unblocked == 1 ? "" : "s");
    complain_of_list(body);
    return WEIR_TOOL_FINE;
}

static int show_block(const json_t *body)
{
    weir_tool_print("Blocked until %s: %s", text_of(body, "until", "?"),
                    text_of(body, "key", "everybody"));
    print_limits(body);
    weir_tool_print("\"weir keys unblock --id %s\" ends it sooner.\n", text_of(body, "id", ""));
    return WEIR_TOOL_FINE;
}

static int show_unblock(const json_t *body)
{
    weir_tool_print("No longer blocked: %s", text_of(body, "key", "everybody"));
    print_limits(body);
    return WEIR_TOOL_FINE;
}

/* what there is to do */

#define EXIT_STATUSES                                                                              \
    "Exit status: 0 done; 1 it could not be done; 2 the command line means nothing."

static const struct action actions[] = {
    { .usage = { .name = "keys look",
                 .arguments = "",
                 .summary =
                     "Shows what a client has left of each limit of a policy. Spends nothing.",
                 OPTIONS(key_options),
                 .more = EXIT_STATUSES },
      .does = "show what a client has left, without spending",
      .ask = ask_look,
      .show = show_limits },
    { .usage = { .name = "keys reset",
                 .arguments = "",
                 .summary =
                     "Forgets what a client has spent, its penalties, and that it is blocked. "
                     "Limits that others share, such as one by \"global\", must be named.",
                 OPTIONS(key_options),
                 .more = EXIT_STATUSES },
      .does = "forget what a client has spent",
      .ask = ask_reset,
      .show = show_reset },
    { .usage = { .name = "keys block",
                 .arguments = "",
                 .summary =
                     "Refuses a client all that costs anything, for a time, on all servers that "
                     "share the Redis.",
                 OPTIONS(block_options),
                 .more = EXIT_STATUSES },
      .does = "refuse a client for a time",
      .ask = ask_block,
      .show = show_block,
      .wants_time = true },
    { .usage = { .name = "keys unblock",
                 .arguments = "",
                 .summary = "Ends a block before its time; what the client had spent before it is "
                            "forgotten too.",
                 OPTIONS(unblock_options),
                 .more = EXIT_STATUSES },
      .does = "end a block before its time",
      .ask = ask_unblock,
      .show = show_unblock,
      .takes_id = true },
    { .usage = { .name = "keys blocks",
                 .arguments = "",
                 .summary = "Lists who is blocked, until when, by whom and why.",
                 OPTIONS(list_options),
                 .more = EXIT_STATUSES },
      .does = "list who is blocked",
      .ask = ask_list,
      .show = show_blocks,
      .wants_nobody = true },
};

#define ACTIONS (sizeof actions / sizeof actions[0])

/* reading what was given */

static bool take_value(struct keys *keys, size_t index)
{
    const char *given = keys->values.items[index];
    const char *equals = strchr(given, '=');
    size_t length = equals == NULL ? 0 : (size_t)(equals - given);
    if (length == 0 || length >= NAME_BYTES) {
        weir_tool_misused(keys->usage,
                          "--value is \"%.60s\"; wanted is a name and a value such as "
                          "\"header:X-Device=a1\".",
                          given);
        return false;
    }
    memcpy(keys->value_names[index], given, length);
    keys->named[index] = (struct weir_value){ keys->value_names[index], equals + 1 };
    return true;
}

static bool take_values(struct keys *keys)
{
    if (keys->values.count > VALUES_MAX) {
        weir_tool_misused(keys->usage, "There are %zu of --value; wanted are at most %d.",
                          keys->values.count, VALUES_MAX);
        return false;
    }
    for (size_t i = 0; i < keys->values.count; i++)
        if (!take_value(keys, i))
            return false;
    return true;
}

static bool take_time(struct keys *keys)
{
    uint64_t us;
    if (keys->time == NULL) {
        weir_tool_misused(keys->usage, "Wanted is --for TIME, such as --for 15m.");
        return false;
    }
    if (weir_duration_parse(weir_text_from(keys->time), &us) && us >= 1000000) {
        keys->seconds = us / 1000000;
        return true;
    }
    weir_tool_misused(keys->usage,
                      "--for is \"%.60s\"; wanted is 1s to 366d, such as 90s, 15m or 2h.",
                      keys->time);
    return false;
}

static bool has_subject(const struct keys *keys)
{
    return keys->name != NULL || keys->limit != NULL || keys->ip != NULL || keys->api_key != NULL
           || keys->user != NULL || keys->tenant != NULL || keys->plan != NULL
           || keys->route != NULL || keys->values.count > 0;
}

static bool check_given(struct keys *keys, const struct action *action)
{
    const char *lacks = NULL;
    if (keys->file == NULL)
        lacks = "Wanted is --policy FILE.";
    else if (keys->id != NULL && has_subject(keys))
        lacks = "--id says whom already; leave the other options about that out.";
    else if (!action->wants_nobody && keys->id == NULL && keys->name == NULL)
        lacks =
            action->takes_id ? "Wanted is --name POLICY, or --id ID." : "Wanted is --name POLICY.";
    if (lacks != NULL) {
        weir_tool_misused(keys->usage, "%s", lacks);
        return false;
    }
    return take_values(keys) && (!action->wants_time || take_time(keys));
}

static void find_out_who(char by[WHO_BYTES])
{
    char host[HOST_NAME_MAX + 1] = "";
    const struct passwd *user = getpwuid(geteuid());
    gethostname(host, sizeof host - 1);
    snprintf(by, WHO_BYTES, "weir keys, %.60s@%.60s", user == NULL ? "somebody" : user->pw_name,
             host);
}

/* doing it */

static int ask(struct keys *keys, const struct action *action)
{
    json_t *body = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_subject subject =
        *WEIR_SUBJECT(.policy = keys->name, .limit = keys->limit, .ip = keys->ip,
                      .api_key = keys->api_key, .user = keys->user, .tenant = keys->tenant,
                      .plan = keys->plan, .route = keys->route, .values = keys->named,
                      .value_count = keys->values.count);
    if (action->ask(keys, &subject, &body, &error) != WEIR_OK) {
        weir_tool_complain_of_store(&error, keys->limiter);
        return WEIR_TOOL_FOUND;
    }
    if (keys->is_json)
        return weir_tool_print_json(body);
    int status = action->show(body);
    json_decref(body);
    return status;
}

static int ask_store(struct keys *keys, const struct action *action,
                     const struct weir_policy *policy, struct weir_store *store)
{
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .store = store), &keys->limiter,
                         &error)
        != WEIR_OK) {
        weir_tool_complain_of(&error, keys->file);
        return WEIR_TOOL_FOUND;
    }
    int status = ask(keys, action);
    weir_limiter_free(keys->limiter);
    return status;
}

static int ask_policy(struct keys *keys, const struct action *action,
                      const struct weir_policy *policy)
{
    const char *url = keys->store == NULL ? policy->store_url : keys->store;
    if (!weir_tool_may_ask(url))
        return WEIR_TOOL_FOUND;
    struct weir_store *store = weir_tool_open_store(policy, keys->store, keys->file);
    if (store == NULL)
        return WEIR_TOOL_FOUND;
    int status = ask_store(keys, action, policy, store);
    weir_store_free(store);
    return status;
}

static int run(const struct action *action, int count, char **arguments)
{
    struct keys keys = { .usage = &action->usage };
    struct weir_tool_arguments operands;
    int status;
    if (!weir_tool_read(&action->usage, count, arguments, &keys, &operands, &status))
        return status;
    if (!check_given(&keys, action))
        return WEIR_TOOL_MISUSED;
    find_out_who(keys.by);
    struct weir_policy *policy = weir_tool_load(keys.file);
    if (policy == NULL)
        return WEIR_TOOL_FOUND;
    status = ask_policy(&keys, action, policy);
    weir_policy_free(policy);
    return status;
}

/* choosing */

static void print_help(FILE *out)
{
    fputs(
        "usage: weir keys ACTION [OPTION…]\n"
        "\n"
        "Looks at what clients have spent, and changes it, in the Redis that a policy file names.\n"
        "\n",
        out);
    for (size_t i = 0; i < ACTIONS; i++)
        fprintf(out, "  %-10s %s\n", actions[i].usage.name + strlen("keys "), actions[i].does);
    fputs("\n\"weir keys ACTION --help\" lists the options of one.\n", out);
}

static int refuse(const char *name)
{
    const char *names[ACTIONS];
    char meant[128];
    for (size_t i = 0; i < ACTIONS; i++)
        names[i] = actions[i].usage.name + strlen("keys ");
    weir_tool_did_you_mean(name, "weir keys ", names, ACTIONS, meant, sizeof meant);
    weir_tool_complain("keys: There is no action \"%.60s\"%s \"weir keys --help\" lists them.",
                       name, meant[0] == '\0' ? "." : meant);
    return WEIR_TOOL_MISUSED;
}

int weir_tool_keys(int count, char **arguments)
{
    if (count < 2) {
        print_help(stderr);
        return WEIR_TOOL_MISUSED;
    }
    for (size_t i = 0; i < ACTIONS; i++)
        if (strcmp(arguments[1], actions[i].usage.name + strlen("keys ")) == 0)
            return run(&actions[i], count - 1, arguments + 1);
    if (strcmp(arguments[1], "--help") != 0 && strcmp(arguments[1], "-h") != 0)
        return refuse(arguments[1]);
    print_help(stdout);
    return WEIR_TOOL_FINE;
}
