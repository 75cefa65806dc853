#include "admin/watched_files.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

char *weir_path_beside(const char *file, const char *name)
{
    const char *slash = name[0] == '/' ? NULL : strrchr(file, '/');
    size_t folder = slash == NULL ? 0 : (size_t)(slash + 1 - file), length = strlen(name);
    char *path = malloc(folder + length + 1);
    if (path == NULL)
        return NULL;
    memcpy(path, file, folder);
    memcpy(path + folder, name, length + 1);
    return path;
}

static struct weir_watched_file *find(const struct weir_watched_files *watched, const char *path)
{
    for (size_t i = 0; i < watched->count; i++)
        if (strcmp(watched->files[i].path, path) == 0)
            return &watched->files[i];
    return NULL;
}

static bool make_room(struct weir_watched_files *watched)
{
    if (watched->count < watched->room)
        return true;
    size_t room = watched->room == 0 ? 8 : 2 * watched->room;
    struct weir_watched_file *grown = reallocarray(watched->files, room, sizeof *grown);
    if (grown == NULL)
        return false;
    watched->files = grown;
    watched->room = room;
    return true;
}

static bool add(struct weir_watched_files *watched, const char *path,
                const struct weir_file_stamp *stamp, bool is_in_force)
{
    if (find(watched, path) != NULL)
        return true;
    char *copy = make_room(watched) ? strdup(path) : NULL;
    if (copy == NULL)
        return false;
    watched->files[watched->count++] = (struct weir_watched_file){ copy, *stamp, is_in_force };
    return true;
}

bool weir_watched_files_add(struct weir_watched_files *watched, const char *path)
{
    const struct weir_file_stamp now = weir_file_stamp(path);
    return add(watched, path, &now, false);
}

bool weir_watched_files_add_read(struct weir_watched_files *watched, const char *path,
                                 const struct weir_file_stamp *stamp)
{
    return add(watched, path, stamp, true);
}

bool weir_watched_files_add_policy(struct weir_watched_files *watched,
                                   const struct weir_policy *policy)
{
    bool is_whole = true;
    for (size_t i = 0; i < policy->file_count; i++)
        is_whole =
            weir_watched_files_add_read(watched, policy->files[i], &policy->stamps[i]) && is_whole;
    return is_whole;
}

/* What is no text is passed over. */
static bool add_beside(struct weir_watched_files *watched, const char *path, const json_t *name)
{
    if (!json_is_string(name))
        return true;
    char *file = weir_path_beside(path, json_string_value(name));
    bool is_added = file != NULL && weir_watched_files_add(watched, file);
    free(file);
    return is_added;
}

/* NULL: it cannot be read, or is none. */
static json_t *load_json(const char *path)
{
    FILE *file;
    if (weir_file_open(path, &file, NULL, NULL) != WEIR_OK)
        return NULL;
    json_t *root = json_loadf(file, 0, NULL);
    fclose(file);
    return root;
}

bool weir_watched_files_add_named(struct weir_watched_files *watched, const char *path)
{
    json_t *root = load_json(path);
    const json_t *include = json_object_get(root, "include"), *name;
    size_t i;
    bool is_whole = add_beside(watched, path, include);
    json_array_foreach(include, i, name) is_whole = add_beside(watched, path, name) && is_whole;
    name = json_object_get(json_object_get(root, "api_keys"), "file");
    is_whole = add_beside(watched, path, name) && is_whole;
    json_decref(root);
    return is_whole;
}

bool weir_watched_files_look(struct weir_watched_files *watched)
{
    bool has_changed = false;
    for (size_t i = 0; i < watched->count; i++) {
        struct weir_watched_file *file = &watched->files[i];
        struct weir_file_stamp stamp = weir_file_stamp(file->path);
        has_changed = has_changed || !weir_file_stamp_is_same(&stamp, &file->stamp);
        file->stamp = stamp;
    }
    return has_changed;
}

static bool has_changed_since(const struct weir_file_stamp *stamp, const struct timespec *began)
{
    return stamp->changed_s > began->tv_sec
           || (stamp->changed_s == began->tv_sec && stamp->changed_ns >= began->tv_nsec);
}

void weir_watched_files_keep_stamps(struct weir_watched_files *watched,
                                    const struct weir_watched_files *before, bool all,
                                    const struct timespec *began)
{
    for (size_t i = 0; i < watched->count; i++) {
        struct weir_watched_file *file = &watched->files[i];
        const struct weir_watched_file *same = find(before, file->path);
        if (file->is_in_force && !all)
            continue;
        if (same != NULL)
            file->stamp = same->stamp;
        else if (!file->is_in_force && has_changed_since(&file->stamp, began))
            file->stamp = (struct weir_file_stamp){ .device = 0 };
    }
}

void weir_watched_files_finish(struct weir_watched_files *watched)
{
    for (size_t i = 0; i < watched->count; i++)
        free(watched->files[i].path);
    free(watched->files);
    *watched = (struct weir_watched_files){ NULL, 0, 0 };
}
