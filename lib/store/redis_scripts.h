/* The scripts that a store has composed, and the hashes by which Redis knows them. */
#ifndef WEIR_STORE_REDIS_SCRIPTS_H
#define WEIR_STORE_REDIS_SCRIPTS_H

#include "store/redis_script.h"

/* The hash of a script, in hex. */
#define WEIR_REDIS_HASH_CHARS 40

/* More scripts than this are not kept, of which a shape has up to two: the one that was not used for longest is forgotten, and
 * composed again when it is needed. */
#define WEIR_REDIS_SCRIPTS_MAX 128

struct weir_redis_script {
    struct weir_redis_shape shape;
    char *text; /* NUL-terminated; NULL: this place is free */
    size_t text_length;
    char hash[WEIR_REDIS_HASH_CHARS + 1]; /* "": not known yet                    */
    uint64_t used;                        /* when last; rises with each use       */
};

struct weir_redis_scripts {
    enum weir_redis_clock clock;
    struct weir_redis_script scripts[WEIR_REDIS_SCRIPTS_MAX];
    uint64_t uses;
};

/* The script of a shape, composed if it is not there yet. NULL: out of memory. Valid until the next
 * call. */
struct weir_redis_script *weir_redis_scripts_get(struct weir_redis_scripts *scripts,
                                                 const struct weir_redis_shape *shape);

/* The same if it is there; NULL: it was forgotten. */
struct weir_redis_script *weir_redis_scripts_find(struct weir_redis_scripts *scripts,
                                                  const struct weir_redis_shape *shape);

void weir_redis_scripts_finish(struct weir_redis_scripts *scripts);

#endif
