#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#define OWN_FILE "policy.json"

/* Cuts a file's name down to that of its folder; "." where there is none in it. */
static void cut_to_folder(char path[PATH_MAX])
{
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        strcpy(path, ".");
    else
        slash[slash == path ? 1 : 0] = '\0';
}

/* The demo's own file: next to the program in a build folder, else where it was installed. */
static void find_own_file(char file[PATH_MAX])
{
    char program[PATH_MAX] = "";
    if (readlink("/proc/self/exe", program, sizeof program - sizeof "/" OWN_FILE) > 0) {
        cut_to_folder(program);
        strcat(program, "/" OWN_FILE);
    }
    bool is_there = access(program, R_OK) == 0;
    snprintf(file, PATH_MAX, "%s", is_there ? program : DEMO_DATA_DIR "/" OWN_FILE);
}

/* Puts `url` in the place of the file's store. What is not an object is left for
 * weir_policy_parse() to complain about. The file's settings for TLS are for its own store; with a
 * URL without TLS they would be an error. */
static bool set_store(json_t *root, const char *url)
{
    if (json_object_get(root, "store") == NULL)
        json_object_set_new(root, "store", json_object());
    json_t *store = json_object_get(root, "store");
    if (json_is_object(store) && strncmp(url, "rediss", 6) != 0)
        json_object_del(store, "tls");
    return !json_is_object(store) || json_object_set_new(store, "url", json_string(url)) == 0;
}

/* NULL: that is no file, or no JSON. What is a pipe is not waited for. */
static json_t *read_json(const char *file)
{
    struct stat status;
    json_t *root = NULL;
    int descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return NULL;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))
        root = json_loadfd(descriptor, JSON_REJECT_DUPLICATES, NULL);
    close(descriptor);
    return root;
}

/* Says what is wrong with it, which the library knows best. What it would take all the same is not taken: its
 * store is another. */
static enum weir_code refuse(const char *file, struct weir_error *error)
{
    struct weir_policy *policy = NULL;
    enum weir_code code = weir_policy_load(file, &policy, error);
    weir_policy_free(policy);
    if (code != WEIR_OK)
        return code;
    return weir_error_set(
        error, WEIR_E_FILE, NULL,
        "With --store the policy has to be a file, and \"%.200s\" is none, or has "
        "just changed.",
        file);
}

static bool is_same(const struct weir_error *one, const struct weir_error *other)
{
    return strcmp(one->path, other->path) == 0 && strcmp(one->text, other->text) == 0;
}

/* What is wrong with the text is wrong with the file, which has lines to tell. Its own store may have faults
 * that the one of --store has not. */
static void find_in_file(const char *file, struct weir_error *error)
{
    struct weir_policy *policy = NULL;
    struct weir_error same = WEIR_NO_ERROR;
    if (error->file[0] == '\0')
        error->line = error->column = 0;
    if (weir_policy_load(file, &policy, &same) != WEIR_OK
        && (is_same(&same, error) || strncmp(same.path, "/store", 6) != 0))
        *error = same;
    weir_policy_free(policy);
}

void demo_find_warning(const char *file, struct weir_error *warning)
{
    struct weir_policy *policy = NULL;
    if (warning->file[0] != '\0')
        return;
    warning->line = 0;
    warning->column = 0;
    if (weir_policy_load(file, &policy, NULL) != WEIR_OK)
        return;
    for (size_t i = 0; i < weir_policy_warning_count(policy); i++) {
        const struct weir_error *same = weir_policy_warning(policy, i);
        if (is_same(same, warning))
            *warning = *same;
    }
    weir_policy_free(policy);
}

/* Reads the file's JSON, changes the one value, and hands the text on, so that the file's other
 * settings of the store hold. */
static enum weir_code load_with_store(const char *file, const char *url,
                                      struct weir_policy **policy, struct weir_error *error)
{
    json_t *root = read_json(file);
    if (root == NULL)
        return refuse(file, error);

    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", file);
    cut_to_folder(folder);
    char *text = set_store(root, url) ? json_dumps(root, 0) : NULL;
    json_decref(root);
    if (text == NULL)
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "The store's URL is no UTF-8, or memory ran out.");
    enum weir_code code = weir_policy_parse(text, strlen(text), folder, policy, error);
    free(text);
    if (code != WEIR_OK)
        find_in_file(file, error);
    return code;
}

static enum weir_code read_file(const struct demo_options *options, const char *file,
                                struct weir_policy **policy, struct weir_error *error)
{
    return options->store == NULL ? weir_policy_load(file, policy, error)
                                  : load_with_store(file, options->store, policy, error);
}

enum weir_code demo_policy_load(const struct demo_options *options, char file[PATH_MAX],
                                struct weir_policy **policy, struct weir_error *error)
{
    if (options->config == NULL)
        find_own_file(file);
    else
        snprintf(file, PATH_MAX, "%s", options->config);
    return read_file(options, file, policy, error);
}

enum weir_code demo_policy_read(void *options, const char *file, struct weir_policy **policy,
                                struct weir_error *error)
{
    return read_file(options, file, policy, error);
}
