/* The files that a policy is made of, and how they were when they were looked at. */
#ifndef WEIR_ADMIN_WATCHED_FILES_H
#define WEIR_ADMIN_WATCHED_FILES_H

#include <time.h>

#include "base/file.h"
#include "policy/policy.h"

struct weir_watched_file {
    char *path;
    struct weir_file_stamp stamp;
    bool is_in_force; /* the stamp is that of what a policy was made of */
};

struct weir_watched_files {
    struct weir_watched_file *files;
    size_t count, room;
};

/* Adds a file as it is now, unless it is there already; false: memory ran out. */
bool weir_watched_files_add(struct weir_watched_files *watched, const char *path);

/* Adds a file as it was when the policy in force was made of it, unless it is there already. */
bool weir_watched_files_add_read(struct weir_watched_files *watched, const char *path,
                                 const struct weir_file_stamp *stamp);

/* The same of all that a policy was read from. */
bool weir_watched_files_add_policy(struct weir_watched_files *watched,
                                   const struct weir_policy *policy);

/* Adds those that a file names: what it includes, and its keys file. Nothing where it cannot be read,
 * or is no policy file. */
bool weir_watched_files_add_named(struct weir_watched_files *watched, const char *path);

/* Looks at all of them again; true: at least one is not as it was. */
bool weir_watched_files_look(struct weir_watched_files *watched);

/* Takes over from `before`, as it was when a reload `began`, what the reload has seen: of all, or of those
 * only that the policy in force was not made of. A file that is not in `before`, and has changed since, may be
 * another than was read: it is to be looked at again. */
void weir_watched_files_keep_stamps(struct weir_watched_files *watched,
                                    const struct weir_watched_files *before, bool all,
                                    const struct timespec *began);

void weir_watched_files_finish(struct weir_watched_files *watched);

/* A file that is seen from the folder of another, as a path of its own, for free(); NULL: memory ran
 * out. */
char *weir_path_beside(const char *file, const char *name);

#endif
