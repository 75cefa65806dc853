/* Reads a whole policy file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "policy/policy_json.h"
#include "policy/warnings.h"

#define FILE_BYTES_MAX ((size_t)4 << 20)
#define INSTANCES_MAX  10000

static void drop_policy(struct weir_policy **policy)
{
    weir_policy_free(*policy);
}

static void drop_json(json_t **json)
{
    json_decref(*json);
}

/* the top level */

static enum weir_code read_instances(struct weir_reader *reader, const struct weir_place *place,
                                     void *into)
{
    (void)into;
    uint64_t number = 1;
    enum weir_code code = weir_read_integer(reader, place, 1, INSTANCES_MAX, &number);
    reader->policy->instances = (unsigned)number;
    return code;
}

static enum weir_code read_top_mode(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    (void)into;
    return weir_read_mode(reader, place, &reader->policy->mode);
}

static enum weir_code read_top_body_max(struct weir_reader *reader, const struct weir_place *place,
                                        void *into)
{
    (void)into;
    return weir_read_body_max(reader, place, &reader->policy->body_max_bytes);
}

static enum weir_code read_top_deny(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    (void)into;
    return weir_read_deny(reader, place, &reader->policy->access);
}

static enum weir_code read_top_allow(struct weir_reader *reader, const struct weir_place *place,
                                     void *into)
{
    (void)into;
    return weir_read_allow(reader, place, &reader->policy->access);
}

static enum weir_code read_top_case(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    (void)into;
    return weir_read_case(reader, place, &reader->fold);
}

static enum weir_code read_root(struct weir_reader *reader)
{
    static const char *const leave_out = "leave it out for now";
    /* In an order in which what is referred to has been read before. */
    static const struct weir_member members[] = {
        { "store", weir_read_store, false, NULL },
        { "client_ip", weir_read_client_ip, false, NULL },
        { "api_keys", weir_read_api_keys, false, NULL },
        { "user", weir_read_user, false, NULL },
        { "tenant", weir_read_tenant, false, NULL },
        { "secret", weir_read_secret, false, NULL },
        { "instances", read_instances, false, NULL },
        { "mode", read_top_mode, false, NULL },
        { "case", read_top_case, false, NULL },
        { "headers", weir_read_headers, false, NULL },
        { "body_max", read_top_body_max, false, NULL },
        { "deny", read_top_deny, false, NULL },
        { "allow", read_top_allow, false, NULL },
        { "plans", weir_read_plans, false, NULL },
        { "default_plan", weir_read_default_plan, false, NULL },
        { "policies", weir_read_policies, false, NULL },
        { "routes", weir_read_routes, false, NULL },
        { "default", weir_read_default, false, NULL },
        { "include", NULL, false, "write it all into one file for now" },
        { "enforce_percent", NULL, false, "use \"mode\": \"shadow\" to try a file out" },
        { "concurrency", weir_refuse_concurrency, false, NULL },
        { "admin", NULL, false, leave_out },
    };
    return weir_read_members(reader, reader->root, members, WEIR_COUNT_OF(members), NULL);
}

static enum weir_code read_all(struct weir_reader *reader)
{
    const json_t *root = reader->root->value;
    enum weir_code code = weir_expand_presets(reader);
    if (code == WEIR_OK)
        code = read_root(reader);
    if (code == WEIR_OK)
        code = weir_read_failure_rules(reader);
    if (code == WEIR_OK)
        code = weir_check_key_plans(reader);
    if (code == WEIR_OK)
        code = weir_set_cookie_paths(reader);
    if (code == WEIR_OK)
        code = weir_check_concurrency(reader);
    if (code != WEIR_OK)
        return code;
    const struct weir_written written = { json_object_get(root, "instances") != NULL,
                                          json_object_get(root, "secret") != NULL };
    return weir_policy_warn(reader->policy, &written, reader->error);
}

/* what holds where the file says nothing */

static bool set_guesses(struct weir_policy *policy)
{
    struct weir_limit_rule *limit = weir_arena_array(policy->arena, 1, sizeof *limit);
    if (limit == NULL)
        return false;
    *limit = (struct weir_limit_rule){ .name = "guesses", .algorithm = WEIR_GCRA };
    limit->by.count = 1;
    limit->by.parts[0].count = 1;
    limit->by.parts[0].alternatives[0].kind = WEIR_BY_IP;
    weir_rate_make(20, UINT64_C(60) * 1000000, 0, &limit->rate, NULL);
    policy->guesses = (struct weir_ruleset){ .name = "api_keys",
                                             .limits = limit,
                                             .limit_count = 1,
                                             .mode = WEIR_ENFORCE,
                                             .slot_is_identity = true };
    return true;
}

static void set_defaults(struct weir_policy *policy)
{
    policy->store_url = "memory:";
    policy->store_shown = "memory:";
    policy->store_timeout_ms = 20;
    policy->store_prefix = "weir";
    policy->denial_cache_us = 1000000;
    policy->identity.form = WEIR_X_FORWARDED_FOR;
    policy->identity.forwarded_header = WEIR_TEXT("X-Forwarded-For");
    policy->identity.prefixes = (struct weir_prefixes){ .ipv4 = 32, .ipv6 = 56 };
    weir_secret_from((struct weir_text){ NULL, 0 }, policy->secret);
    policy->body_max_bytes = 16384;
    policy->instances = 1;
    policy->mode = WEIR_ENFORCE;
    policy->headers = WEIR_HEADERS_DRAFT_11;
    policy->fallback = (struct weir_route){ .match = "default", .cost = 1 };
}

static struct weir_policy *new_policy(void)
{
    struct weir_policy *policy = calloc(1, sizeof *policy);
    if (policy == NULL)
        return NULL;
    policy->arena = weir_arena_new();
    set_defaults(policy);
    if (policy->arena == NULL || !set_guesses(policy))
        return weir_policy_free(policy);
    return policy;
}

/* lines and columns */

static void locate(struct weir_text text, struct weir_error *error)
{
    if (error->path[0] != '\0')
        weir_json_locate(text, error->path, &error->line, &error->column);
}

static enum weir_code make_policy(struct weir_text text, json_t *root, const char *directory,
                                  struct weir_policy **policy, struct weir_error *error)
{
    __attribute__((cleanup(drop_policy))) struct weir_policy *made = NULL;
    bool is_first = error != NULL && error->code == WEIR_OK;
    if (!weir_hash_start())
        return weir_error_set(error, WEIR_E_SYSTEM, NULL, "libsodium cannot be started.");
    made = new_policy();
    if (made == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");

    const struct weir_place top = { NULL, NULL, 0, root };
    struct weir_reader reader = {
        .policy = made, .root = &top, .directory = directory, .error = error
    };
    enum weir_code code = read_all(&reader);
    json_decref(reader.preset_rates);
    if (code != WEIR_OK && is_first && !reader.is_of_other_file)
        locate(text, error);
    if (code != WEIR_OK)
        return code;

    for (size_t i = 0; i < made->warning_count; i++)
        locate(text, &made->warnings[i]);
    *policy = made;
    made = NULL;
    return WEIR_OK;
}

/* JSON */

/* What jansson says, without the piece of the file that it quotes: that may be a password. The
 * name of a member that stands there twice is none. */
static enum weir_code json_failed(const json_error_t *why, struct weir_error *error)
{
    enum json_error_code kind = json_error_code(why);
    /* Where memory runs out jansson mostly says nothing at all. */
    if (kind == json_error_out_of_memory || why->text[0] == '\0')
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");

    const char *quote = kind == json_error_duplicate_key ? NULL : strstr(why->text, " near ");
    int length = quote == NULL ? (int)strlen(why->text) : (int)(quote - why->text);
    bool is_first = error != NULL && error->code == WEIR_OK;
    weir_error_set(error, WEIR_E_JSON, NULL, "The file is not JSON: %.*s.", length, why->text);
    if (is_first) {
        error->line = why->line;
        error->column = why->column;
    }
    return WEIR_E_JSON;
}

static enum weir_code check_length(size_t length, struct weir_error *error)
{
    return length <= FILE_BYTES_MAX
               ? WEIR_OK
               : weir_error_set(error, WEIR_E_VALUE, NULL,
                                "The policy is longer than 4 MiB; wanted is a shorter one.");
}

enum weir_code weir_policy_parse(const char *text, size_t length, const char *directory,
                                 struct weir_policy **policy, struct weir_error *error)
{
    json_error_t why;
    if (text == NULL || policy == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "A policy needs a text, and a place to go to.");
    enum weir_code code = check_length(length, error);
    if (code != WEIR_OK)
        return code;

    __attribute__((cleanup(drop_json))) json_t *root =
        json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL)
        return json_failed(&why, error);
    return make_policy((struct weir_text){ text, length }, root, directory, policy, error);
}

/* files */

static void close_file(FILE **file)
{
    if (*file != NULL)
        fclose(*file);
}

static void free_text(char **text)
{
    free(*text);
}

/* The folder that a file is in; NULL: memory ran out. */
static char *folder_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    if (slash == NULL)
        return strdup(".");
    return strndup(file, slash == file ? 1 : (size_t)(slash - file));
}

/* `text` is of FILE_BYTES_MAX + 1 bytes: one more than is allowed, to see that there is more. */
static enum weir_code read_file(const char *file, char *text, size_t *length,
                                struct weir_error *error)
{
    __attribute__((cleanup(close_file))) FILE *stream = fopen(file, "re");
    if (stream != NULL)
        *length = fread(text, 1, FILE_BYTES_MAX + 1, stream);
    /* A directory opens, and then cannot be read. */
    if (stream == NULL || ferror(stream))
        return weir_error_set(error, WEIR_E_FILE, NULL, "\"%.200s\" cannot be read: %s.", file,
                              strerror(errno));
    return WEIR_OK;
}

/* The file's JSON, the caller's. */
static enum weir_code load_json(const char *file, json_t **root, struct weir_error *error)
{
    json_error_t why;
    size_t length = 0;
    __attribute__((cleanup(free_text))) char *text = malloc(FILE_BYTES_MAX + 1);
    if (text == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    enum weir_code code = read_file(file, text, &length, error);
    if (code == WEIR_OK)
        code = check_length(length, error);
    if (code != WEIR_OK)
        return code;
    *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    return *root == NULL ? json_failed(&why, error) : WEIR_OK;
}

enum weir_code weir_policy_expand(const char *file, char **text, struct weir_error *error)
{
    if (file == NULL || text == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "A policy needs a file, and a place to go to.");
    __attribute__((cleanup(drop_json))) json_t *root = NULL;
    enum weir_code code = load_json(file, &root, error);
    if (code != WEIR_OK)
        return code;
    const struct weir_place top = { NULL, NULL, 0, root };
    struct weir_reader reader = { .root = &top, .error = error };
    return weir_policy_print(&reader, text);
}

enum weir_code weir_policy_load(const char *file, struct weir_policy **policy,
                                struct weir_error *error)
{
    if (file == NULL || policy == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "A policy needs a file, and a place to go to.");

    __attribute__((cleanup(free_text))) char *text = malloc(FILE_BYTES_MAX + 1);
    __attribute__((cleanup(free_text))) char *folder = folder_of(file);
    size_t length = 0;
    if (text == NULL || folder == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    enum weir_code code = read_file(file, text, &length, error);
    return code == WEIR_OK ? weir_policy_parse(text, length, folder, policy, error) : code;
}
