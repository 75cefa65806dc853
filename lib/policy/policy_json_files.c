/* The files that a policy is read from: the first, and those that "include" names, as one JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_json_files.h"

#define BYTES_MAX ((size_t)4 << 20) /* of all files together */
#define DEPTH_MAX 8

/* texts */

static void close_file(FILE **file)
{
    if (*file != NULL)
        fclose(*file);
}

static void free_text(char **text)
{
    free(*text);
}

/* `text` is of BYTES_MAX + 1 bytes: one more than is allowed, to see that there is more. */
static enum weir_code read_text(const char *path, struct weir_source *source, char *text,
                                struct weir_error *error)
{
    __attribute__((cleanup(close_file))) FILE *stream = NULL;
    enum weir_code code = weir_file_open(path, &stream, &source->stamp, error);
    if (code != WEIR_OK)
        return code;
    source->length = fread(text, 1, BYTES_MAX + 1, stream);
    if (ferror(stream))
        return weir_file_failed(path, error);
    source->is_file = true;
    return WEIR_OK;
}

static bool has_room(struct weir_files *files, const struct weir_source *source)
{
    files->bytes += source->length;
    return files->bytes <= BYTES_MAX;
}

static enum weir_code refuse_length(const struct weir_files *files)
{
    return weir_error_set(files->error, WEIR_E_VALUE, NULL,
                          "The policy is longer than 4 MiB; wanted is a shorter one.");
}

static enum weir_code no_memory(const struct weir_files *files)
{
    return weir_error_set(files->error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

/* Fills in a source's text, which it owns. */
static enum weir_code load_text(const char *path, struct weir_source *source,
                                struct weir_error *error)
{
    __attribute__((cleanup(free_text))) char *text = malloc(BYTES_MAX + 1);
    if (text == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    enum weir_code code = read_text(path, source, text, error);
    if (code != WEIR_OK)
        return code;
    source->kept = malloc(source->length + 1);
    if (source->kept == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    memcpy(source->kept, text, source->length);
    source->text = source->kept;
    return WEIR_OK;
}

/* JSON */

/* What jansson says, without the piece of the file that it quotes: that may be a password. The
 * name of a member that stands there twice is none. */
static enum weir_code json_failed(const struct weir_files *files, const json_error_t *why)
{
    enum json_error_code kind = json_error_code(why);
    /* Where memory runs out jansson mostly says nothing at all. */
    if (kind == json_error_out_of_memory || why->text[0] == '\0')
        return no_memory(files);

    const char *quote = kind == json_error_duplicate_key ? NULL : strstr(why->text, " near ");
    int length = quote == NULL ? (int)strlen(why->text) : (int)(quote - why->text);
    weir_error_set(files->error, WEIR_E_JSON, NULL, "The file is not JSON: %.*s.", length,
                   why->text);
    if (files->is_first_error) {
        files->error->line = why->line;
        files->error->column = why->column;
    }
    return WEIR_E_JSON;
}

/* names of files */

/* The part of a path in front of its last slash, that slash included. */
static struct weir_text folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return (struct weir_text){ path, slash == NULL ? 0 : (size_t)(slash + 1 - path) };
}

/* A name as it is seen from the first file's folder: the caller's; NULL: memory ran out. */
static char *seen_name(const struct weir_source *from, const char *name)
{
    struct weir_text folder = folder_of(from->name);
    char *seen = NULL;
    if (name[0] == '/')
        return strdup(name);
    size_t size = folder.length + strlen(name) + 1;
    seen = malloc(size);
    if (seen != NULL)
        snprintf(seen, size, "%.*s%s", WEIR_TEXT_ARGS(folder), name);
    return seen;
}

/* A name seen from there, as one that can be opened. */
static char *openable(const struct weir_files *files, const char *name)
{
    if (files->directory == NULL || files->directory[0] == '\0' || name[0] == '/')
        return strdup(name);
    size_t size = strlen(files->directory) + 1 + strlen(name) + 1;
    char *path = malloc(size);
    if (path != NULL)
        snprintf(path, size, "%s/%s", files->directory, name);
    return path;
}

/* one JSON of all */

/* The place of a pointer, "first.json:2:14". */
static void print_place(const struct weir_files *files, const char *pointer, char text[160])
{
    int line = 0, column = 0;
    const struct weir_source *source = weir_files_origin(files, pointer);
    const char *name = source->name[0] == '\0' ? files->first_name : source->name;
    if (!weir_json_locate((struct weir_text){ source->text, source->length }, pointer, &line,
                          &column))
        line = column = 0;
    if (name == NULL)
        snprintf(text, 160, "line %d, column %d of the policy's text", line, column);
    else
        snprintf(text, 160, "%.120s:%d:%d", name, line, column);
}

static enum weir_code refuse_twice(struct weir_files *files, const struct weir_place *place)
{
    char pointer[WEIR_POINTER_BYTES], first[160];
    weir_place_pointer(place, pointer);
    print_place(files, pointer, first);
    return weir_refuse(&files->reader, place, WEIR_E_VALUE,
                       "\"%.64s\" stands in %s too; wanted is one of them.", place->name, first);
}

/* Remembers of which file a place is; those of the first are those that nothing is known of. */
static bool note_origin(struct weir_files *files, const struct weir_place *place, size_t source)
{
    char pointer[WEIR_POINTER_BYTES];
    weir_place_pointer(place, pointer);
    return json_object_set_new(files->origins, pointer, json_integer((json_int_t)source)) == 0;
}

static enum weir_code set_member(struct weir_files *files, json_t *ours,
                                 const struct weir_place *place, size_t source)
{
    if (json_object_get(ours, place->name) != NULL)
        return refuse_twice(files, place);
    return json_object_set(ours, place->name, place->value) == 0
                   && note_origin(files, place, source)
               ? WEIR_OK
               : no_memory(files);
}

/* "plans" and "policies": each name once in all files. What has another shape in the file that says it
 * first is for the readers to refuse. */
static enum weir_code add_names(struct weir_files *files, const struct weir_place *place,
                                size_t source)
{
    const char *name;
    json_t *value, *ours = json_object_get(files->root, place->name);
    enum weir_code code = WEIR_OK;
    if (!json_is_object(place->value))
        return weir_refuse_type(&files->reader, place, "an object");
    if (ours == NULL)
        return set_member(files, files->root, place, source);
    if (!json_is_object(ours))
        return WEIR_OK;
    json_object_foreach(place->value, name, value)
    {
        const struct weir_place item = { place, name, 0, value };
        if (strcmp(name, "comment") != 0 && code == WEIR_OK)
            code = set_member(files, ours, &item, source);
    }
    return code;
}

/* "routes": behind those that are there. */
static enum weir_code add_routes(struct weir_files *files, const struct weir_place *place,
                                 size_t source)
{
    json_t *ours = json_object_get(files->root, place->name);
    if (!json_is_array(place->value))
        return weir_refuse_type(&files->reader, place, "a list of routes");
    if (ours == NULL && json_object_set_new(files->root, place->name, ours = json_array()) != 0)
        return no_memory(files);
    if (!json_is_array(ours))
        return WEIR_OK;
    files->list[source].first_route = json_array_size(ours);
    files->list[source].route_count = json_array_size(place->value);
    return json_array_extend(ours, place->value) == 0 ? WEIR_OK : no_memory(files);
}

static enum weir_code add_member(struct weir_files *files, const struct weir_place *place,
                                 size_t source)
{
    if (strcmp(place->name, "comment") == 0)
        return WEIR_OK;
    if (strcmp(place->name, "plans") == 0 || strcmp(place->name, "policies") == 0)
        return add_names(files, place, source);
    if (strcmp(place->name, "routes") == 0)
        return add_routes(files, place, source);
    return set_member(files, files->root, place, source);
}

/* Names of files in an included file are seen from its own folder. */
static bool adopt_name(const struct weir_source *source, json_t *object, const char *member)
{
    json_t *value = json_object_get(object, member);
    const char *name = json_string_value(value);
    if (name == NULL || name[0] == '\0' || folder_of(source->name).length == 0)
        return true;
    __attribute__((cleanup(free_text))) char *seen = seen_name(source, name);
    return seen != NULL && json_string_set(value, seen) == 0;
}

static bool adopt_names(const struct weir_source *source, const json_t *json)
{
    static const char *const tls_files[] = { "ca_file", "cert_file", "key_file" };
    json_t *tls = json_object_get(json_object_get(json, "store"), "tls");
    bool ok = adopt_name(source, json_object_get(json, "api_keys"), "file");
    for (size_t i = 0; i < WEIR_COUNT_OF(tls_files); i++)
        ok = ok && adopt_name(source, tls, tls_files[i]);
    return ok;
}

static enum weir_code add_json(struct weir_files *files, json_t *json, size_t source)
{
    const char *name;
    json_t *value;
    const struct weir_place top = { NULL, NULL, 0, json };
    enum weir_code code = WEIR_OK;
    if (!json_is_object(json))
        return weir_refuse_type(&files->reader, &top, "an object");
    if (!adopt_names(&files->list[source], json))
        return no_memory(files);
    json_object_foreach(json, name, value)
    {
        const struct weir_place place = { &top, name, 0, value };
        if (code == WEIR_OK && strcmp(name, "include") != 0)
            code = add_member(files, &place, source);
    }
    return code;
}

/* "include" */

static enum weir_code include_all(struct weir_files *files, json_t *json, size_t source);

static void drop_json(json_t **json)
{
    json_decref(*json);
}

static enum weir_code add_source(struct weir_files *files, size_t index)
{
    json_error_t why;
    const struct weir_source *source = &files->list[index];
    files->culprit = index;
    __attribute__((cleanup(drop_json))) json_t *json =
        json_loadb(source->text, source->length, JSON_REJECT_DUPLICATES, &why);
    if (json == NULL)
        return json_failed(files, &why);
    if (index == 0)
        files->root = json_incref(json);
    enum weir_code code = index == 0 ? WEIR_OK : add_json(files, json, index);
    return code == WEIR_OK ? include_all(files, json, index) : code;
}

static enum weir_code check_new(const struct weir_files *files, const struct weir_place *place,
                                const struct weir_source *source)
{
    for (size_t i = 0; i < files->count; i++) {
        const struct weir_source *other = &files->list[i];
        if (other->is_file && other->stamp.device == source->stamp.device
            && other->stamp.number == source->stamp.number)
            return weir_refuse(&files->reader, place, WEIR_E_VALUE,
                               "The file \"%.200s\" is part of this policy already; wanted is "
                               "each file once.",
                               source->name);
    }
    return WEIR_OK;
}

static enum weir_code check_room(const struct weir_files *files, const struct weir_place *place,
                                 const struct weir_source *source)
{
    if (files->count == WEIR_FILES_MAX)
        return weir_refuse(&files->reader, place, WEIR_E_VALUE,
                           "This would be file %d of the policy; wanted are at most %d.",
                           WEIR_FILES_MAX + 1, WEIR_FILES_MAX);
    if (source->depth > DEPTH_MAX)
        return weir_refuse(
            &files->reader, place, WEIR_E_VALUE,
            "This is the %dth file in a row that the one before includes; wanted are "
            "at most %d.",
            DEPTH_MAX + 1, DEPTH_MAX);
    if (strlen(source->name) >= sizeof files->error->file)
        return weir_refuse(&files->reader, place, WEIR_E_VALUE,
                           "The file's name is %zu bytes long, its folders included; wanted are at "
                           "most %zu.",
                           strlen(source->name), sizeof files->error->file - 1);
    return WEIR_OK;
}

/* Reads the text of a file that is included at `place`. What cannot be read is the fault of who names
 * it. */
static enum weir_code open_source(struct weir_files *files, const struct weir_place *place,
                                  struct weir_source *source)
{
    struct weir_error error = WEIR_NO_ERROR;
    __attribute__((cleanup(free_text))) char *path = openable(files, source->name);
    enum weir_code code = path == NULL ? WEIR_E_MEMORY : load_text(path, source, &error);
    if (code == WEIR_E_MEMORY)
        return no_memory(files);
    if (code != WEIR_OK)
        return weir_refuse(&files->reader, place, code, "%s", error.text);
    if (!has_room(files, source))
        return weir_refuse(&files->reader, place, WEIR_E_VALUE,
                           "With this file the policy is longer than 4 MiB; wanted is a shorter "
                           "one.");
    return check_new(files, place, source);
}

static enum weir_code include_one(struct weir_files *files, const struct weir_place *place,
                                  size_t from)
{
    struct weir_text name;
    files->culprit = from;
    enum weir_code code = weir_read_text(&files->reader, place,
                                         "the name of a file such as \"limits/login.json\"", &name);
    if (code != WEIR_OK)
        return code;
    struct weir_source source = { .depth = files->list[from].depth + 1,
                                  .name = seen_name(&files->list[from], name.at) };
    code = source.name == NULL ? no_memory(files) : check_room(files, place, &source);
    if (code == WEIR_OK)
        code = open_source(files, place, &source);
    if (code != WEIR_OK) {
        free(source.name);
        free(source.kept);
        return code;
    }
    files->list[files->count++] = source;
    return add_source(files, files->count - 1);
}

static enum weir_code include_all(struct weir_files *files, json_t *json, size_t source)
{
    const struct weir_place top = { NULL, NULL, 0, json };
    const struct weir_place include = weir_place_member(&top, "include");
    enum weir_code code = WEIR_OK;
    if (include.value == NULL)
        return WEIR_OK;
    if (json_is_string(include.value))
        return include_one(files, &include, source);
    if (!json_is_array(include.value))
        return weir_refuse_type(&files->reader, &include,
                                "the name of a file, or a list of such names");
    for (size_t i = 0; i < json_array_size(include.value) && code == WEIR_OK; i++) {
        const struct weir_place item = weir_place_item(&include, i);
        code = include_one(files, &item, source);
    }
    return code;
}

/* the first file, and all that it names */

static enum weir_code read_all(struct weir_files *files)
{
    files->count = 1;
    files->origins = json_object();
    if (files->origins == NULL)
        return no_memory(files);
    enum weir_code code = add_source(files, 0);
    if (code != WEIR_OK)
        return code;
    files->culprit = WEIR_FILES_MAX;
    json_object_del(files->root, "include");
    return WEIR_OK;
}

static void start(struct weir_files *files, const char *directory, struct weir_error *error)
{
    *files = (struct weir_files){ .directory = directory, .error = error };
    files->reader = (struct weir_reader){ .error = error };
    files->is_first_error = error != NULL && error->code == WEIR_OK;
}

enum weir_code weir_files_parse(struct weir_files *files, struct weir_text text,
                                const char *directory, struct weir_error *error)
{
    start(files, directory, error);
    files->list[0] =
        (struct weir_source){ .text = text.at, .length = text.length, .name = strdup("") };
    if (files->list[0].name == NULL)
        return no_memory(files);
    return has_room(files, &files->list[0]) ? read_all(files) : refuse_length(files);
}

enum weir_code weir_files_load(struct weir_files *files, const char *file, struct weir_error *error)
{
    struct weir_text folder = folder_of(file);
    start(files, NULL, error);
    /* The root is its slash; any other folder is without. */
    files->folder =
        folder.length == 0 ? strdup(".") : strndup(file, folder.length - (folder.length > 1));
    files->directory = files->folder;
    files->first_name = file + folder.length;
    files->list[0] = (struct weir_source){ .name = strdup("") };
    if (files->folder == NULL || files->list[0].name == NULL)
        return no_memory(files);
    enum weir_code code = load_text(file, &files->list[0], files->error);
    if (code != WEIR_OK)
        return code;
    return has_room(files, &files->list[0]) ? read_all(files) : refuse_length(files);
}

void weir_files_finish(struct weir_files *files)
{
    for (size_t i = 0; i < WEIR_FILES_MAX; i++) {
        free(files->list[i].name);
        free(files->list[i].kept);
    }
    json_decref(files->root);
    json_decref(files->origins);
    free(files->folder);
}

char *weir_files_path(const struct weir_files *files, size_t index)
{
    return openable(files, files->list[index].name);
}

/* where things stand */

/* The pointer's first steps. */
static const json_t *origin_at(const struct weir_files *files, const char *pointer, size_t steps)
{
    char start[WEIR_POINTER_BYTES];
    size_t length = 0;
    for (; pointer[length] != '\0' && length < sizeof start - 1; length++) {
        if (pointer[length] == '/' && steps-- == 0)
            break;
        start[length] = pointer[length];
    }
    start[length] = '\0';
    return json_object_get(files->origins, start);
}

const struct weir_source *weir_files_origin(const struct weir_files *files, const char *pointer)
{
    const json_t *index = origin_at(files, pointer, 2);
    if (index == NULL)
        index = origin_at(files, pointer, 1);
    return &files->list[index == NULL ? 0 : (size_t)json_integer_value(index)];
}

const struct weir_source *weir_files_route(const struct weir_files *files, size_t *index)
{
    for (size_t i = 1; i < files->count; i++) {
        const struct weir_source *source = &files->list[i];
        if (*index < source->first_route || *index >= source->first_route + source->route_count)
            continue;
        *index -= source->first_route;
        return source;
    }
    return &files->list[0];
}

/* The file of "/routes/7/match", and what that route's number is there: none that is longer. */
static const struct weir_source *locate_route(const struct weir_files *files,
                                              struct weir_error *error)
{
    char *end, number[24], *start = error->path + strlen("/routes/");
    size_t index = strtoul(start, &end, 10);
    const struct weir_source *source = weir_files_route(files, &index);
    size_t length = (size_t)snprintf(number, sizeof number, "%zu", index);
    memmove(start + length, end, strlen(end) + 1);
    memcpy(start, number, length);
    return source;
}

void weir_files_locate(const struct weir_files *files, struct weir_error *error)
{
    const struct weir_source *source = &files->list[0];
    if (files->culprit < files->count)
        source = &files->list[files->culprit];
    else if (weir_text_starts_with(weir_text_from(error->path), WEIR_TEXT("/routes/")))
        source = locate_route(files, error);
    else if (error->path[0] != '\0')
        source = weir_files_origin(files, error->path);
    snprintf(error->file, sizeof error->file, "%s", source->name);
    if (error->path[0] != '\0')
        weir_json_locate((struct weir_text){ source->text, source->length }, error->path,
                         &error->line, &error->column);
}
