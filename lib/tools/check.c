/* weir check: what is wrong with policy files. It connects to nothing. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "policy/policy.h"
#include "store/redis_tls.h"
#include "store/redis_url.h"
#include "tools/tool.h"

#define LINE_BYTES (PATH_MAX + 1024)

struct check {
    bool expands;
    bool is_json;
    bool is_strict;

    size_t errors;
    size_t warnings;
    json_t *files; /* with --json: what is said of each */
};

static const struct weir_tool_option options[] = {
    { .name = "strict", .help = "fail for warnings too", WEIR_TOOL_INTO(struct check, is_strict) },
    { .name = "expand",
      .help = "print the file as it is meant, presets written out and secrets hidden",
      WEIR_TOOL_INTO(struct check, expands) },
    { .name = "json",
      .help = "print all as one JSON object on standard output",
      WEIR_TOOL_INTO(struct check, is_json) },
};

static const struct weir_tool_usage usage = {
    .name = "check",
    .arguments = "FILE…",
    .least = 1,
    .most = SIZE_MAX,
    .summary =
        "Reads policy files as a server would, with all the files that they name, and says what "
        "is wrong with them: errors, for which a server does not start, and warnings, for what "
        "is legal but surely not meant. Connects to nothing.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .more =
        "Each error and warning is one line on standard error: FILE:LINE:COLUMN: error: /PLACE: \n"
        "what is there and what is wanted [CODE]. docs/errors.md has a section for each code.\n"
        "\n"
        "Exit status: 0 no errors; 1 errors, or warnings with --strict; 2 the command line means\n"
        "nothing.",
};

/* looking */

static enum weir_code check_redis(const struct weir_policy *policy, struct weir_error *error)
{
    const struct weir_store_options options_of_store = weir_tool_store_options(policy);
    struct weir_redis_url url;
    struct weir_redis_tls *tls = NULL;
    enum weir_code code = weir_redis_url_read(policy->store_url, &url, error);
    if (code != WEIR_OK)
        return code;
    code = weir_redis_tls_new(&url, &options_of_store, &tls, error);
    weir_redis_tls_free(tls);
    weir_redis_url_forget(&url);
    return code;
}

/* What a server would find out when it opens the store, but for whether somebody answers there. */
static enum weir_code check_store(const struct weir_policy *policy, struct weir_error *error)
{
    if (weir_text_starts_with(weir_text_from(policy->store_url), WEIR_TEXT("redis")))
        return check_redis(policy, error);
    const struct weir_store_options options_of_store = weir_tool_store_options(policy);
    struct weir_store *store = NULL;
    enum weir_code code = weir_store_open(policy->store_url, &options_of_store, &store, error);
    weir_store_free(store);
    return code;
}

/* NULL: there is an error, which is filled. */
static struct weir_policy *read_policy(const char *file, struct weir_error *error)
{
    struct weir_policy *policy = NULL;
    enum weir_code code = weir_policy_load(file, &policy, error);
    if (code == WEIR_OK)
        code = check_store(policy, error);
    return code == WEIR_OK ? policy : weir_policy_free(policy);
}

/* saying what was found, to people */

/* As the library words it, with the kind between the place and the rest, where editors and build
 * machines look for it. */
static void print_finding(const struct weir_error *found, const char *file, const char *kind,
                          enum weir_tool_style style)
{
    char line[LINE_BYTES], rest[LINE_BYTES];
    struct weir_error placeless = *found;
    placeless.line = 0;
    placeless.file[0] = '\0';
    weir_error_line(found, file, line, sizeof line);
    weir_error_line(&placeless, NULL, rest, sizeof rest);
    line[strlen(line) - strlen(rest)] = '\0';
    weir_tool_make_harmless(line);
    weir_tool_make_harmless(rest);
    fprintf(stderr, "%s%s%s%s: %s\n", line, weir_tool_style(stderr, style), kind,
            weir_tool_style(stderr, WEIR_TOOL_PLAIN), rest);
}

static int print_expanded(const char *file)
{
    char *text = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_expand(file, &text, &error) != WEIR_OK) {
        print_finding(&error, file, "error", WEIR_TOOL_RED);
        return WEIR_TOOL_FOUND;
    }
    fputs(text, stdout);
    free(text);
    return WEIR_TOOL_FINE;
}

static int print_policy(const struct check *check, const struct weir_policy *policy,
                        const char *file)
{
    size_t count = weir_policy_warning_count(policy);
    for (size_t i = 0; i < count; i++)
        print_finding(weir_policy_warning(policy, i), file, "warning", WEIR_TOOL_YELLOW);
    if (check->expands)
        return print_expanded(file);
    printf("%s: no errors, %zu warning%s\n", file, count, count == 1 ? "" : "s");
    return WEIR_TOOL_FINE;
}

/* to programs */

/* The included file that a finding is in, as it opens from here. */
static json_t *included_json(const struct weir_error *found, const char *file)
{
    const char *slash = found->file[0] == '/' ? NULL : strrchr(file, '/');
    int folder_length = slash == NULL ? 0 : (int)(slash + 1 - file);
    char name[LINE_BYTES];
    snprintf(name, sizeof name, "%.*s%s", folder_length, file, found->file);
    return weir_tool_json_text(name);
}

static json_t *finding_json(const struct weir_error *found, const char *file)
{
    json_t *object =
        json_pack("{s:s, s:o, s:o}", "code", weir_code_name(found->code), "path",
                  weir_tool_json_text(found->path), "text", weir_tool_json_text(found->text));
    if (found->file[0] != '\0')
        json_object_set_new(object, "file", included_json(found, file));
    if (found->line > 0) {
        json_object_set_new(object, "line", json_integer(found->line));
        json_object_set_new(object, "column", json_integer(found->column));
    }
    return object;
}

static json_t *expanded_json(const char *file)
{
    char *text = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_expand(file, &text, &error) != WEIR_OK)
        return NULL;
    json_t *expanded = json_loads(text, 0, NULL);
    free(text);
    return expanded;
}

static json_t *warnings_json(const struct weir_policy *policy, const char *file)
{
    json_t *warnings = json_array();
    size_t count = policy == NULL ? 0 : weir_policy_warning_count(policy);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(warnings, finding_json(weir_policy_warning(policy, i), file));
    return warnings;
}

/* `policy` is NULL where there is an error. */
static void add_json(struct check *check, const struct weir_policy *policy,
                     const struct weir_error *error, const char *file)
{
    json_t *errors = json_array();
    if (policy == NULL)
        json_array_append_new(errors, finding_json(error, file));
    json_t *object = json_pack("{s:o, s:o, s:o}", "file", weir_tool_json_text(file), "errors",
                               errors, "warnings", warnings_json(policy, file));
    if (policy != NULL && check->expands)
        json_object_set_new(object, "expanded", expanded_json(file));
    json_array_append_new(check->files, object);
}

/* all together */

static int check_file(struct check *check, const char *file)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = read_policy(file, &error);
    int status = WEIR_TOOL_FINE;
    if (policy == NULL)
        check->errors++;
    else
        check->warnings += weir_policy_warning_count(policy);
    if (check->is_json)
        add_json(check, policy, &error, file);
    else if (policy == NULL)
        print_finding(&error, file, "error", WEIR_TOOL_RED);
    else
        status = print_policy(check, policy, file);
    weir_policy_free(policy);
    return status;
}

static int judge(const struct check *check)
{
    bool is_bad = check->errors > 0 || (check->is_strict && check->warnings > 0);
    return is_bad ? WEIR_TOOL_FOUND : WEIR_TOOL_FINE;
}

static int print_files(const struct check *check)
{
    return weir_tool_print_json(json_pack(
        "{s:b, s:I, s:I, s:o}", "ok", judge(check) == WEIR_TOOL_FINE, "errors",
        (json_int_t)check->errors, "warnings", (json_int_t)check->warnings, "files", check->files));
}

int weir_tool_check(int count, char **arguments)
{
    struct check check = { .expands = false };
    struct weir_tool_arguments files;
    int status;
    if (!weir_tool_read(&usage, count, arguments, &check, &files, &status))
        return status;
    if (check.expands && !check.is_json && files.count > 1)
        return weir_tool_misused(&usage, "--expand prints one file, but there are %zu.",
                                 files.count);
    check.files = check.is_json ? json_array() : NULL;
    status = WEIR_TOOL_FINE;
    for (size_t i = 0; i < files.count; i++)
        if (check_file(&check, files.at[i]) != WEIR_TOOL_FINE)
            status = WEIR_TOOL_FOUND;
    if (check.is_json && print_files(&check) != WEIR_TOOL_FINE)
        status = WEIR_TOOL_FOUND;
    return status == WEIR_TOOL_FINE ? judge(&check) : status;
}
