#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Reads the file's JSON, changes the one value, and hands the text on, so that the file's other
 * settings of the store hold. */
static enum weir_code load_with_store(const char *file, const char *url,
                                      struct weir_policy **policy, struct weir_error *error)
{
    json_t *root = json_load_file(file, JSON_REJECT_DUPLICATES, NULL);
    if (root == NULL)
        return weir_policy_load(file, policy, error); /* it knows how to say what is wrong */

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
    error->line = 0; /* of a text that nobody sees */
    error->column = 0;
    return code;
}

enum weir_code demo_policy_load(const struct demo_options *options, char file[PATH_MAX],
                                struct weir_policy **policy, struct weir_error *error)
{
    if (options->config == NULL)
        find_own_file(file);
    else
        snprintf(file, PATH_MAX, "%s", options->config);
    if (options->store == NULL)
        return weir_policy_load(file, policy, error);
    return load_with_store(file, options->store, policy, error);
}
