#include "policy/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "request/path.h"

/* A compiled pattern's text is "" for the root, else "/segment/segment…"; so is a path in here. A
 * segment that starts with a colon is a parameter. */

/* compiling */

static bool is_letter(char c)
{
    char folded = weir_fold_char(c);
    return folded >= 'a' && folded <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    char folded = weir_fold_char(c);
    return is_digit(c) || (folded >= 'a' && folded <= 'f');
}

static bool is_name(struct weir_text name)
{
    for (size_t i = 0; i < name.length; i++)
        if (!is_letter(name.at[i]) && name.at[i] != '_' && name.at[i] != '-'
            && (i == 0 || !is_digit(name.at[i])))
            return false;
    return name.length > 0;
}

static bool holds(struct weir_text text, char c)
{
    return text.length > 0 && memchr(text.at, c, text.length) != NULL;
}

/* Paths are matched after they are decoded, where "%41" is not "A". */
static bool holds_escape(struct weir_text text)
{
    for (size_t i = 0; i + 2 < text.length; i++)
        if (text.at[i] == '%' && is_hex(text.at[i + 1]) && is_hex(text.at[i + 2]))
            return true;
    return false;
}

/* The functions from here to compile() return what is wrong, or NULL where nothing is. */

static const char *check_segment(struct weir_text segment, struct weir_text names[WEIR_PARAMS_MAX],
                                 size_t *count)
{
    if (holds(segment, '*'))
        return "a star stands for all that is left, so it is the last segment and all of it";
    if (segment.at[0] != ':')
        return NULL;

    struct weir_text name = { segment.at + 1, segment.length - 1 };
    if (!is_name(name))
        return "a \":\" starts a segment that is a parameter, and its name is letters, digits, "
               "\"_\" and \"-\", no digit first";
    if (*count == WEIR_PARAMS_MAX)
        return "it has more than 8 parameters";
    for (size_t i = 0; i < *count; i++)
        if (weir_text_equal(names[i], name))
            return "a parameter's name stands there twice";
    names[(*count)++] = name;
    return NULL;
}

static const char *check_segments(struct weir_text text)
{
    struct weir_text names[WEIR_PARAMS_MAX];
    size_t count = 0;
    struct weir_text rest = text, segment;
    weir_text_take_first(&rest, '/', &segment); /* what stands before the first slash: nothing */
    while (weir_text_take_first(&rest, '/', &segment)) {
        const char *why = segment.length == 0 ? NULL : check_segment(segment, names, &count);
        if (why != NULL)
            return why;
    }
    return NULL;
}

/* Writes the normalised text to `copy`, of two bytes more. */
static const char *check_form(struct weir_text text, char *copy)
{
    struct weir_buffer path = weir_buffer_init(copy, text.length + 2);
    if (weir_path_normalise(text, WEIR_PATH_DECODED, &path)
        && weir_text_equal(weir_buffer_text(&path), text) && weir_buffer_string(&path) != NULL)
        return NULL;
    return "no path looks like that, since \"//\", \".\", \"..\" and a slash at the end are "
           "resolved before it is matched";
}

static const char *check_text(struct weir_text text, char *copy)
{
    if (text.length == 0 || text.at[0] != '/')
        return "it has to start with a \"/\"";
    if (holds(text, '?'))
        return "a query is no part of a path";
    if (holds_escape(text))
        return "paths are decoded before they are matched, so it is written without \"%\" escapes";
    const char *why = check_segments(text);
    return why != NULL ? why : check_form(text, copy);
}

/* Takes the star off the end, and the slash before it, but for that of "/". */
static bool take_star(struct weir_text *text)
{
    if (weir_text_equal(*text, WEIR_TEXT("*")) || weir_text_equal(*text, WEIR_TEXT("/*"))) {
        *text = WEIR_TEXT("/");
        return true;
    }
    if (text->length < 2 || memcmp(text->at + text->length - 2, "/*", 2) != 0)
        return false;
    /* Two slashes and a star leave two slashes, which are refused, and not the root. */
    text->length -= text->length == 3 ? 1 : 2;
    return true;
}

enum weir_code weir_pattern_compile(const char *text, bool fold, struct weir_pattern *pattern,
                                    const char *path, struct weir_error *error)
{
    struct weir_text whole = weir_text_from(text);
    bool rest = take_star(&whole);
    char *copy = malloc(whole.length + 2);
    if (copy == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, path, "Out of memory.");

    const char *why = check_text(whole, copy);
    if (why != NULL) {
        free(copy);
        return weir_error_set(error, WEIR_E_VALUE, path, "\"%.80s\" is no path pattern: %s.",
                              text == NULL ? "" : text, why);
    }
    if (whole.length == 1)
        copy[0] = '\0';
    *pattern = (struct weir_pattern){ copy, rest, fold };
    return WEIR_OK;
}

void weir_pattern_finish(struct weir_pattern *pattern)
{
    free(pattern->text);
    pattern->text = NULL;
}

/* matching */

static bool same(char one, char other, bool fold)
{
    return one == other || (fold && weir_fold_char(one) == weir_fold_char(other));
}

/* Where the segment ends that `at` is in. */
static const char *segment_end(const char *at, const char *end)
{
    while (at < end && *at != '/')
        at++;
    return at;
}

/* Moves both past one literal segment. */
static bool skip_literal(const char **pattern, const char **path, const char *end, bool fold)
{
    const char *at = *path;
    const char *wanted = *pattern;
    while (*wanted != '\0' && *wanted != '/') {
        if (at == end || !same(*wanted, *at, fold))
            return false;
        wanted++;
        at++;
    }
    *pattern = wanted;
    *path = at;
    return at == end || *at == '/';
}

/* Moves both past a parameter and its value, which is not empty. */
static bool skip_param(const char **pattern, const char **path, const char *end)
{
    const char *value = *path;
    *pattern += strcspn(*pattern, "/");
    *path = segment_end(value, end);
    return *path != value;
}

/* Moves both past one segment, behind its slash. */
static bool skip_segment(const struct weir_pattern *pattern, const char **wanted, const char **at,
                         const char *end, size_t *params)
{
    if (**wanted != ':')
        return skip_literal(wanted, at, end, pattern->fold);
    ++*params;
    return skip_param(wanted, at, end);
}

bool weir_pattern_match(const struct weir_pattern *pattern, struct weir_text path,
                        struct weir_params *params)
{
    size_t count = 0;
    const char *wanted = pattern->text;
    const char *at = path.at;
    const char *end = at + (path.length == 1 ? 0 : path.length);
    while (*wanted == '/') {
        if (at == end)
            return false;
        wanted++;
        at++;
        if (!skip_segment(pattern, &wanted, &at, end, &count))
            return false;
    }
    if (at != end && !pattern->rest)
        return false;
    params->count = count;
    params->pattern = pattern->text;
    params->path = path;
    params->rest = pattern->rest ? (struct weir_text){ at, (size_t)(end - at) }
                                 : (struct weir_text){ NULL, 0 };
    return true;
}

/* hiding */

static bool has_letter(struct weir_text text)
{
    for (size_t i = 0; i < text.length; i++)
        if (is_letter(text.at[i]))
            return true;
    return false;
}

/* Whether every segment that `later` takes is taken by `earlier` too. */
static bool covers(struct weir_text earlier, bool fold, struct weir_text later, bool later_fold)
{
    if (earlier.at[0] == ':')
        return true;
    if (later.at[0] == ':')
        return false;
    if (fold)
        return weir_text_equal_fold(earlier, later);
    return weir_text_equal(earlier, later) && !(later_fold && has_letter(later));
}

bool weir_pattern_hides(const struct weir_pattern *earlier, const struct weir_pattern *later)
{
    struct weir_text wanted = weir_text_from(earlier->text);
    struct weir_text given = weir_text_from(later->text);
    struct weir_text one, other;
    weir_text_take_first(&wanted, '/', &one);
    weir_text_take_first(&given, '/', &other);
    while (weir_text_take_first(&wanted, '/', &one)) {
        if (!weir_text_take_first(&given, '/', &other)
            || !covers(one, earlier->fold, other, later->fold))
            return false;
    }
    return earlier->rest || (given.at == NULL && !later->rest);
}

/* values */

void weir_params_at(const struct weir_params *params, size_t index, struct weir_text *name,
                    struct weir_text *value)
{
    struct weir_text wanted = weir_text_from(params->pattern);
    struct weir_text given = params->path;
    size_t left = index + 1;
    while (left > 0 && weir_text_take_first(&wanted, '/', name)
           && weir_text_take_first(&given, '/', value))
        left -= name->length > 0 && name->at[0] == ':';
    name->at++; /* behind the colon */
    name->length--;
}

struct weir_text weir_params_get(const struct weir_params *params, struct weir_text name)
{
    for (size_t i = 0; i < params->count; i++) {
        struct weir_text known, value;
        weir_params_at(params, i, &known, &value);
        if (weir_text_equal(known, name))
            return value;
    }
    return (struct weir_text){ NULL, 0 };
}
