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

/* What a match found; texts point into the path and the pattern. */
struct weir_params {
    size_t count;
    struct {
        struct weir_text name;
        struct weir_text value;
    } items[WEIR_PARAMS_MAX];
    struct weir_text rest; /* what the trailing star stands for: "" or "/…" */
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

/* The value of a name; at NULL: none. */
struct weir_text weir_params_get(const struct weir_params *params, struct weir_text name);

#endif
