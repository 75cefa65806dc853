/* Path patterns, of policies and of the chain. */
#ifndef WEIR_POLICY_PATTERN_H
#define WEIR_POLICY_PATTERN_H

#include <weir/error.h>

#include "base/text.h"

#define WEIR_PARAMS_MAX 8

/* A compiled pattern: "/v1/items/:id", "/files/" and "*", or "*" for every path. */
struct weir_pattern {
    char *text; /* owned, normalised like a path, but "" for "/"                             */
    bool rest;  /* ends in a star: the path itself, without the star, and all below it match */
    bool fold;  /* ASCII letter case does not matter                                         */
};

/* What a match found. Texts point into the path and the pattern, which have to live as long. The
 * values are looked up when they are asked for, since few ever are and many requests may wait. */
struct weir_params {
    size_t count;
    const char *pattern;   /* the compiled text; of no meaning where `count` is 0 */
    struct weir_text path; /* likewise                                            */
    struct weir_text rest; /* what the trailing star stands for: "" or "/…"       */
};

/* Refuses, with WEIR_E_VALUE at `path`: no leading slash, a star that is not at the end, a ":"
 * without a name, a name twice, more than WEIR_PARAMS_MAX names, and text that is not a normalised
 * path (so could never match). */
enum weir_code weir_pattern_compile(const char *text, bool fold, struct weir_pattern *pattern,
                                    const char *path, struct weir_error *error);
void weir_pattern_finish(struct weir_pattern *pattern);

/* `path` is normalised. `params` is written on a match only. Pure. */
bool weir_pattern_match(const struct weir_pattern *pattern, struct weir_text path,
                        struct weir_params *params);

/* True if every path that `later` matches is matched by `earlier` too. Pure. */
bool weir_pattern_hides(const struct weir_pattern *earlier, const struct weir_pattern *later);

/* The name and value of the parameter with that index, which is below `count`. */
void weir_params_at(const struct weir_params *params, size_t index, struct weir_text *name,
                    struct weir_text *value);

/* The value of a name; at NULL: none. */
struct weir_text weir_params_get(const struct weir_params *params, struct weir_text name);

#endif
