/* multipart/form-data: parts between lines that begin with a boundary (RFC 2046, section 5.1.1),
 * read more strictly than it is written down, since parsers differ in what they forgive: heads as
 * browsers write them, and nothing that libmicrohttpd's post processor (0.9.75 to 1.0.1) takes for
 * something else. */
#include <string.h>

#include "request/body_fields.h"

#define BOUNDARY_MAX 70

struct body {
    struct weir_text rest; /* behind what was read */
    struct weir_text boundary;
};

/* What the header lines of a part say. */
struct part {
    struct weir_text name;
    bool has_disposition;
    bool has_type;
    bool has_encoding;
    bool is_file;
};

static bool take_literal(struct weir_text *rest, struct weir_text literal)
{
    if (!weir_text_starts_with(*rest, literal))
        return false;
    rest->at += literal.length;
    rest->length -= literal.length;
    return true;
}

/* the boundary */

static bool is_boundary(struct weir_text boundary)
{
    for (size_t i = 0; i < boundary.length; i++) {
        char c = weir_fold_char(boundary.at[i]);
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!is_plain && (c == '\0' || strchr("'()+_,-./:=? ", c) == NULL))
            return false;
    }
    return boundary.length >= 1 && boundary.length <= BOUNDARY_MAX
           && boundary.at[boundary.length - 1] != ' ';
}

/* Nothing stands behind the boundary, not even a blank: some take all of that for a part of it. And
 * some look for "boundary=" anywhere, so there may be nothing else that could hold it. */
static bool read_boundary(struct weir_text parameters, struct weir_text *boundary)
{
    struct weir_text name, value;
    while (weir_take_parameter(&parameters, &name, &value)) {
        if (weir_text_equal(name, WEIR_TEXT("boundary"))) {
            *boundary = value;
            return parameters.length == 0 && is_boundary(value);
        }
        if (!weir_text_equal_fold(name, WEIR_TEXT("charset")) || !weir_body_is_charset(value))
            return false;
    }
    return false;
}

/* the header lines of a part */

/* Takes the inside of a quoted string, which ends at the next quote for all parsers: a backslash in
 * front of one escapes it for some. */
static bool take_quoted(struct weir_text *rest, struct weir_text *inside)
{
    if (!take_literal(rest, WEIR_TEXT("\"")))
        return false;
    const char *end = rest->length == 0 ? NULL : memchr(rest->at, '"', rest->length);
    if (end == NULL || (end > rest->at && end[-1] == '\\'))
        return false;
    *inside = (struct weir_text){ rest->at, (size_t)(end - rest->at) };
    return take_literal(rest, *inside) && take_literal(rest, WEIR_TEXT("\""));
}

/* The name is quoted, comes first and has no backslash, which some take for an escape; behind it
 * nothing but the file's name may stand, in one form or both. */
static bool read_disposition(struct weir_text line, struct part *part)
{
    struct weir_text file, name;
    if (part->has_disposition || !take_literal(&line, WEIR_TEXT("form-data; name="))
        || !take_quoted(&line, &part->name)
        || (part->name.length > 0 && memchr(part->name.at, '\\', part->name.length) != NULL))
        return false;
    part->has_disposition = true;
    if (take_literal(&line, WEIR_TEXT("; filename="))) {
        part->is_file = true;
        if (!take_quoted(&line, &file))
            return false;
    }
    if (line.length == 0)
        return true;
    part->is_file = true;
    return weir_take_parameter(&line, &name, &file) && weir_text_equal(name, WEIR_TEXT("filename*"))
           && line.length == 0;
}

/* A part of parts hides fields from some, and shows them to others. */
static bool read_type(struct weir_text type, struct part *part)
{
    const size_t length = strlen("multipart/");
    bool is_nested =
        type.length >= length
        && weir_text_equal_fold((struct weir_text){ type.at, length }, WEIR_TEXT("multipart/"));
    bool is_second = part->has_type;
    part->has_type = true;
    return !is_nested && !is_second;
}

/* What is encoded has another value for those who decode it. */
static bool read_encoding(struct weir_text encoding, struct part *part)
{
    bool is_second = part->has_encoding;
    part->has_encoding = true;
    return !is_second
           && (weir_text_equal_fold(encoding, WEIR_TEXT("7bit"))
               || weir_text_equal_fold(encoding, WEIR_TEXT("8bit"))
               || weir_text_equal_fold(encoding, WEIR_TEXT("binary")));
}

static bool take_line_name(struct weir_text *line, struct weir_text *name)
{
    *name = (struct weir_text){ line->at, 0 };
    while (name->length < line->length && weir_is_token_char(line->at[name->length]))
        name->length++;
    return name->length > 0 && take_literal(line, *name) && take_literal(line, WEIR_TEXT(": "))
           && line->length > 0 && line->at[0] != ' ' && line->at[0] != '\t'
           && line->at[line->length - 1] != ' ' && line->at[line->length - 1] != '\t';
}

static bool ends_with_fold(struct weir_text text, struct weir_text end)
{
    return text.length >= end.length
           && weir_text_equal_fold(
               (struct weir_text){ text.at + text.length - end.length, end.length }, end);
}

/* libmicrohttpd looks for "Content-Type: " anywhere in a line, and so finds it at the end of a longer
 * name and in the value of another line. */
static bool read_line(struct weir_text line, struct part *part)
{
    struct weir_text name;
    if (!take_line_name(&line, &name))
        return false;
    if (weir_text_equal_fold(name, WEIR_TEXT("Content-Disposition")))
        return read_disposition(line, part);
    if (memchr(line.at, ':', line.length) != NULL)
        return false;
    if (weir_text_equal_fold(name, WEIR_TEXT("Content-Type")))
        return read_type(line, part);
    if (weir_text_equal_fold(name, WEIR_TEXT("Content-Transfer-Encoding")))
        return read_encoding(line, part);
    return !ends_with_fold(name, WEIR_TEXT("Content-Type"))
           && !ends_with_fold(name, WEIR_TEXT("Content-Transfer-Encoding"))
           && !ends_with_fold(name, WEIR_TEXT("Content-Disposition"));
}

/* Takes a line that ends with CRLF and has no other control characters than tabs in it. */
static bool take_line(struct weir_text *rest, struct weir_text *line)
{
    size_t length = 0;
    while (length < rest->length
           && ((unsigned char)rest->at[length] >= 0x20 || rest->at[length] == '\t')
           && rest->at[length] != 0x7F)
        length++;
    *line = (struct weir_text){ rest->at, length };
    rest->at += length;
    rest->length -= length;
    return take_literal(rest, WEIR_TEXT("\r\n"));
}

static bool read_head(struct body *body, struct part *part)
{
    struct weir_text line;
    *part = (struct part){ .is_file = false };
    do {
        if (!take_line(&body->rest, &line) || (line.length > 0 && !read_line(line, part)))
            return false;
    } while (line.length > 0);
    return part->has_disposition;
}

/* the content of a part */

/* The next "\n--boundary", or NULL. */
static const char *find_delimiter(const struct body *body)
{
    char wanted[3 + BOUNDARY_MAX] = "\n--";
    memcpy(wanted + 3, body->boundary.at, body->boundary.length);
    return memmem(body->rest.at, body->rest.length, wanted, 3 + body->boundary.length);
}

static bool take_delimiter(struct body *body)
{
    return take_literal(&body->rest, WEIR_TEXT("--")) && take_literal(&body->rest, body->boundary);
}

/* Takes what stands before the next delimiter, and it. */
static bool take_content(struct body *body, struct weir_text *content)
{
    struct body look = *body;
    if (take_delimiter(&look))
        return false; /* is the line break before it the end of the head, or of nothing? */
    const char *found = find_delimiter(body);
    if (found == NULL || found == body->rest.at || found[-1] != '\r')
        return false;
    *content = (struct weir_text){ body->rest.at, (size_t)(found - 1 - body->rest.at) };
    body->rest.length -= (size_t)(found + 1 - body->rest.at);
    body->rest.at = found + 1;
    return take_delimiter(body);
}

/* the parts */

static struct weir_body_field *find_field(struct weir_body_field *fields, size_t count,
                                          struct weir_text name, bool folds)
{
    for (size_t i = 0; i < count; i++)
        if (weir_text_equal(fields[i].name, name)
            || (folds && weir_text_equal_fold(fields[i].name, name)))
            return &fields[i];
    return NULL;
}

static bool read_part(struct body *body, struct weir_body_field *fields, size_t count)
{
    struct part part;
    struct weir_text content;
    if (!read_head(body, &part) || !take_content(body, &content))
        return false;
    struct weir_body_field *field = find_field(fields, count, part.name, false);
    if (field == NULL) /* one that differs in letter case is the same name to some */
        return find_field(fields, count, part.name, true) == NULL;
    if (field->value.at != NULL || part.is_file)
        return false;
    field->value = content;
    return weir_body_value_is_sound(content);
}

bool weir_body_read_multipart(struct weir_text text, struct weir_text parameters,
                              struct weir_body_field *fields, size_t count)
{
    struct body body = { .rest = text };
    if (!read_boundary(parameters, &body.boundary))
        return false;
    take_literal(&body.rest, WEIR_TEXT("\r\n"));
    if (!take_delimiter(&body))
        return false;
    while (take_literal(&body.rest, WEIR_TEXT("\r\n")))
        if (!read_part(&body, fields, count))
            return false;
    if (!take_literal(&body.rest, WEIR_TEXT("--")))
        return false;
    take_literal(&body.rest, WEIR_TEXT("\r\n"));
    return body.rest.length == 0;
}
