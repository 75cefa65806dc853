/* The files that a policy is read from, as one JSON, and where in them its parts stand. */
#ifndef WEIR_POLICY_JSON_FILES_H
#define WEIR_POLICY_JSON_FILES_H

#include "base/file.h"
#include "policy/policy_json.h"

#define WEIR_FILES_MAX 64

struct weir_source {
    char *name; /* seen from the folder of the first file; "": it is that itself */
    const char *text;
    char *kept; /* the text, where it is a file's */
    size_t length;
    size_t depth;                    /* files above it, each included by the one before */
    size_t first_route, route_count; /* of its routes among all; not told of the first's */
    bool is_file;
    struct weir_file_stamp stamp; /* as it was when it was read */
};

struct weir_files {
    json_t *root;           /* all files' members; without "include"                            */
    json_t *origins;        /* pointer to the number of its file, but for those of the first file */
    const char *directory;  /* that names are relative to; NULL: the current one           */
    char *folder;           /* the same, where it is known from a file's name              */
    const char *first_name; /* of the first file, for messages; NULL: it is a text          */
    struct weir_error *error;
    struct weir_reader reader; /* to refuse with */
    bool is_first_error;       /* the error is there to be filled */
    size_t culprit;            /* whose fault an error is; WEIR_FILES_MAX: its path says it */
    size_t bytes;
    size_t count;
    struct weir_source list[WEIR_FILES_MAX];
};

/* Read the first file and all that it includes; weir_files_finish() is due either way. The text stays
 * the caller's, and must outlive the files. Errors: WEIR_E_FILE, _JSON, _TYPE, _VALUE, _MEMORY. */
enum weir_code weir_files_parse(struct weir_files *files, struct weir_text text,
                                const char *directory, struct weir_error *error);
enum weir_code weir_files_load(struct weir_files *files, const char *file,
                               struct weir_error *error);
void weir_files_finish(struct weir_files *files);

/* The path of an included file, which can be opened; for free(); NULL: memory ran out. */
char *weir_files_path(const struct weir_files *files, size_t index);

/* The file that what a pointer into the root points to comes from. Pure. */
const struct weir_source *weir_files_origin(const struct weir_files *files, const char *pointer);

/* The same of a route; `index` becomes its number in that file. Pure. */
const struct weir_source *weir_files_route(const struct weir_files *files, size_t *index);

/* Completes an error or warning whose pointer is one into the root: with its file, line and column, and
 * the number that a route has in its file. */
void weir_files_locate(const struct weir_files *files, struct weir_error *error);

#endif
