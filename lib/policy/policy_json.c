/* Reads a whole policy file. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "policy/policy_json_files.h"
#include "policy/warnings.h"

#define INSTANCES_MAX 10000

static void drop_policy(struct weir_policy **policy)
{
    weir_policy_free(*policy);
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
    /* In an order in which what is referred to has been read before. */
    static const struct weir_member members[] = {
        { "store", weir_read_store, false },
        { "client_ip", weir_read_client_ip, false },
        { "api_keys", weir_read_api_keys, false },
        { "user", weir_read_user, false },
        { "tenant", weir_read_tenant, false },
        { "secret", weir_read_secret, false },
        { "instances", read_instances, false },
        { "mode", read_top_mode, false },
        { "case", read_top_case, false },
        { "headers", weir_read_headers, false },
        { "body_max", read_top_body_max, false },
        { "deny", read_top_deny, false },
        { "allow", read_top_allow, false },
        { "plans", weir_read_plans, false },
        { "default_plan", weir_read_default_plan, false },
        { "policies", weir_read_policies, false },
        { "routes", weir_read_routes, false },
        { "default", weir_read_default, false },
        { "include", NULL, false }, /* read before: its files are part of this one */
        { "enforce_percent", weir_refuse_enforce_percent, false },
        { "concurrency", weir_refuse_concurrency, false },
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
                                             .enforce_ppm = WEIR_ENFORCE_ALL,
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

/* the files */

static void locate(const struct weir_files *files, const struct weir_reader *reader,
                   struct weir_error *error)
{
    if (files->is_first_error && !reader->is_of_other_file && error->code != WEIR_E_MEMORY)
        weir_files_locate(files, error);
}

static bool keep_file_name(struct weir_policy *policy, const char *path,
                           const struct weir_file_stamp *stamp)
{
    const char *kept = path == NULL ? NULL : weir_arena_copy(policy->arena, weir_text_from(path));
    if (kept == NULL)
        return false;
    policy->stamps[policy->file_count] = *stamp;
    policy->files[policy->file_count++] = kept;
    return true;
}

/* `file` is the first one's name; NULL: that is no file. There is room for the keys file, too. */
static bool keep_file_names(struct weir_policy *policy, const struct weir_files *files,
                            const char *file)
{
    policy->files = weir_arena_array(policy->arena, files->count + 1, sizeof *policy->files);
    policy->stamps = weir_arena_array(policy->arena, files->count + 1, sizeof *policy->stamps);
    bool ok = policy->files != NULL && policy->stamps != NULL
              && (file == NULL || keep_file_name(policy, file, &files->list[0].stamp));
    policy->has_file = file != NULL;
    for (size_t i = 1; i < files->count && ok; i++) {
        char *path = weir_files_path(files, i);
        ok = keep_file_name(policy, path, &files->list[i].stamp);
        free(path);
    }
    return ok;
}

static enum weir_code read_policy(const struct weir_files *files, const char *file,
                                  struct weir_policy *policy, struct weir_error *error)
{
    const struct weir_place top = { NULL, NULL, 0, files->root };
    struct weir_reader reader = { .policy = policy,
                                  .root = &top,
                                  .files = files,
                                  .directory = files->directory,
                                  .error = error };
    if (!keep_file_names(policy, files, file))
        return weir_refuse_memory(&reader);
    enum weir_code code = read_all(&reader);
    if (code != WEIR_OK)
        locate(files, &reader, error);
    for (size_t i = 0; i < policy->warning_count; i++)
        weir_files_locate(files, &policy->warnings[i]);
    if (code == WEIR_OK)
        code = weir_policy_print(&reader, &policy->text);
    json_decref(reader.preset_rates);
    return code;
}

static enum weir_code make_policy(const struct weir_files *files, const char *file,
                                  struct weir_policy **policy, struct weir_error *error)
{
    __attribute__((cleanup(drop_policy))) struct weir_policy *made = NULL;
    if (!weir_hash_start())
        return weir_error_set(error, WEIR_E_SYSTEM, NULL, "libsodium cannot be started.");
    made = new_policy();
    if (made == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    enum weir_code code = read_policy(files, file, made, error);
    if (code != WEIR_OK)
        return code;
    *policy = made;
    made = NULL;
    return WEIR_OK;
}

/* What came of reading the files: an error is told with its place in them. */
static enum weir_code check_files(const struct weir_files *files, enum weir_code code,
                                  struct weir_error *error)
{
    static const struct weir_reader none = { .policy = NULL };
    if (code != WEIR_OK)
        locate(files, &none, error);
    return code;
}

enum weir_code weir_policy_parse(const char *text, size_t length, const char *directory,
                                 struct weir_policy **policy, struct weir_error *error)
{
    if (text == NULL || policy == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "A policy needs a text, and a place to go to.");
    __attribute__((cleanup(weir_files_finish))) struct weir_files files;
    enum weir_code code =
        weir_files_parse(&files, (struct weir_text){ text, length }, directory, error);
    code = check_files(&files, code, error);
    return code == WEIR_OK ? make_policy(&files, NULL, policy, error) : code;
}

static enum weir_code check_names(const char *file, const void *into, struct weir_error *error)
{
    if (file != NULL && into != NULL)
        return WEIR_OK;
    return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                          "A policy needs a file, and a place to go to.");
}

enum weir_code weir_policy_load(const char *file, struct weir_policy **policy,
                                struct weir_error *error)
{
    enum weir_code code = check_names(file, policy, error);
    if (code != WEIR_OK)
        return code;
    __attribute__((cleanup(weir_files_finish))) struct weir_files files;
    code = check_files(&files, weir_files_load(&files, file, error), error);
    return code == WEIR_OK ? make_policy(&files, file, policy, error) : code;
}

enum weir_code weir_policy_expand(const char *file, char **text, struct weir_error *error)
{
    enum weir_code code = check_names(file, text, error);
    if (code != WEIR_OK)
        return code;
    __attribute__((cleanup(weir_files_finish))) struct weir_files files;
    code = check_files(&files, weir_files_load(&files, file, error), error);
    if (code != WEIR_OK)
        return code;
    const struct weir_place top = { NULL, NULL, 0, files.root };
    struct weir_reader reader = { .root = &top, .files = &files, .error = error };
    code = weir_policy_print(&reader, text);
    if (code != WEIR_OK)
        locate(&files, &reader, error);
    return code;
}
