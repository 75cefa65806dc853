#include "request/path.h"

#include <string.h>

/* the target's form */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_scheme_char(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}

static void skip(struct weir_text *text, size_t length)
{
    text->at += length;
    text->length -= length;
}

/* Takes "scheme://" off the front; false, with nothing taken, if it is not there. */
static bool take_scheme(struct weir_text *target)
{
    size_t length = 0;
    while (length < target->length && is_scheme_char(target->at[length]))
        length++;

    struct weir_text rest = *target;
    skip(&rest, length);
    if (length == 0 || !is_letter(target->at[0]) || !weir_text_starts_with(rest, WEIR_TEXT("://")))
        return false;
    skip(&rest, 3);
    *target = rest;
    return true;
}

/* Takes "user@host:port" off the front; false if there is no host (RFC 9110 section 4.2.1). */
static bool take_authority(struct weir_text *target)
{
    size_t length = 0;
    while (length < target->length && target->at[length] != '/' && target->at[length] != '\0')
        length++;
    skip(target, length);
    return length > 0;
}

static struct weir_text without_query(struct weir_text target)
{
    const char *mark = target.length == 0 ? NULL : memchr(target.at, '?', target.length);
    return mark == NULL ? target : (struct weir_text){ target.at, (size_t)(mark - target.at) };
}

/* Leaves the path of the target, still as written. */
static bool take_path(struct weir_text *target, enum weir_path_form form)
{
    if (form == WEIR_PATH_ENCODED)
        *target = without_query(*target);
    if (take_scheme(target)) {
        if (!take_authority(target))
            return false;
        if (target->length == 0)
            *target = WEIR_TEXT("/");
    }
    return target->length > 0 && target->at[0] == '/';
}

/* percent-encoding */

/* Takes one byte, decoded if it is encoded; false for a broken escape and for NUL. */
static bool take_byte(struct weir_text *rest, enum weir_path_form form, char *byte)
{
    if (form == WEIR_PATH_DECODED || rest->at[0] != '%') {
        *byte = rest->at[0];
        skip(rest, 1);
        return *byte != '\0';
    }

    int decoded = weir_percent_byte(*rest);
    if (decoded < 0)
        return false;
    *byte = (char)decoded;
    skip(rest, 3);
    return *byte != '\0';
}

/* segments */

/* Where the last slash stands; there is one at `root`. */
static size_t last_slash(const struct weir_buffer *path, size_t root)
{
    size_t at = path->length - 1;
    while (at > root && path->at[at] != '/')
        at--;
    return at;
}

/* Ends the segment behind the last slash: an empty one and "." vanish with their slash, ".." takes
 * the segment before it along. False for ".." above the root. */
static bool end_segment(struct weir_buffer *path, size_t root)
{
    size_t slash = last_slash(path, root);
    struct weir_text segment = { path->at + slash + 1, path->length - slash - 1 };
    bool is_parent = weir_text_equal(segment, WEIR_TEXT(".."));
    if (!is_parent && segment.length > 0 && !weir_text_equal(segment, WEIR_TEXT(".")))
        return true;

    path->length = slash;
    if (!is_parent)
        return true;
    if (slash == root)
        return false;
    path->length = last_slash(path, root);
    return true;
}

/* Whether nothing in a target has to be resolved or decoded, as in nearly all of them: each segment has
 * a first character that is neither a slash nor a dot. */
static bool is_normal(struct weir_text target)
{
    if (target.length < 2 || target.at[0] != '/')
        return false;
    char before = '\0', c = '\0';
    for (size_t i = 0; i < target.length; before = c, i++) {
        c = target.at[i];
        if (c == '%' || c == '?' || c == '\0' || (before == '/' && (c == '/' || c == '.')))
            return false;
    }
    return c != '/';
}

/* A slash that was encoded separates segments like any other: whoever decodes the target, and
 * libmicrohttpd does, sees no difference. */
bool weir_path_normalise(struct weir_text target, enum weir_path_form form,
                         struct weir_buffer *path)
{
    size_t root = path->length;
    char byte;
    if (is_normal(target)) {
        weir_buffer_put(path, target);
        return !path->full;
    }
    if (!take_path(&target, form))
        return false;

    skip(&target, 1);
    weir_buffer_put_char(path, '/');
    while (target.length > 0 && !path->full) {
        if (!take_byte(&target, form, &byte) || (byte == '/' && !end_segment(path, root)))
            return false;
        weir_buffer_put_char(path, byte);
    }
    if (path->full || !end_segment(path, root))
        return false;
    if (path->length == root)
        weir_buffer_put_char(path, '/');
    return !path->full;
}
