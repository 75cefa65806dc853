/* multipart/form-data: parts between lines that begin with a boundary (RFC 2046, section 5.1.1),
 * read more strictly than it is written down, since parsers differ in what they forgive. */
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
    bool has_name;
    bool has_disposition;
    bool is_file;
    bool is_encoded; /* its content is not its value */
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

/* Some look for "boundary=" anywhere, so there may be nothing else that could hold it. */
static bool read_boundary(struct weir_text parameters, struct weir_text *boundary)
{
    struct weir_text name, value;
    while (weir_take_parameter(&parameters, &name, &value)) {
        if (weir_text_equal_fold(name, WEIR_TEXT("charset"))
            && memchr(value.at, '=', value.length) == NULL)
            continue;
        if (!weir_text_equal_fold(name, WEIR_TEXT("boundary")) || boundary->at != NULL)
            return false;
        *boundary = value;
    }
    return parameters.length == 0 && is_boundary(*boundary);
}

/* the header lines of a part */

static bool is_one_of(struct weir_text text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (weir_text_equal_fold(text, weir_text_from(words[i])))
            return true;
    return false;
}

static bool read_disposition_parameter(struct weir_text name, struct weir_text value,
                                       struct part *part)
{
    if (weir_text_equal_fold(name, WEIR_TEXT("filename"))
        || weir_text_equal_fold(name, WEIR_TEXT("filename*")))
        part->is_file = true;
    if (weir_text_equal_fold(name, WEIR_TEXT("name*")))
        return false;
    if (!weir_text_equal_fold(name, WEIR_TEXT("name")))
        return true;
    /* Whether a backslash in a name escapes or stands for itself depends on who reads it. */
    if (part->has_name || (value.length > 0 && memchr(value.at, '\\', value.length) != NULL))
        return false;
    part->name = value;
    part->has_name = true;
    return true;
}

static bool read_disposition(struct weir_text line, struct part *part)
{
    struct weir_text name, value;
    if (part->has_disposition || line.length < strlen("form-data")
        || !weir_text_equal_fold((struct weir_text){ line.at, strlen("form-data") },
                                 WEIR_TEXT("form-data")))
        return false;
    part->has_disposition = true;
    line.at += strlen("form-data");
    line.length -= strlen("form-data");
    while (weir_take_parameter(&line, &name, &value))
        if (!read_disposition_parameter(name, value, part))
            return false;
    return line.length == 0 && part->has_name;
}

static bool read_line(struct weir_text line, struct part *part)
{
    static const char *const plain[] = { "7bit", "8bit", "binary" };
    struct weir_text name = { NULL, 0 };
    weir_text_take_first(&line, ':', &name);
    if (line.at == NULL || name.length == 0)
        return false;
    for (size_t i = 0; i < name.length; i++)
        if (!weir_is_token_char(name.at[i]))
            return false;

    line = weir_text_trim(line);
    if (weir_text_equal_fold(name, WEIR_TEXT("Content-Disposition")))
        return read_disposition(line, part);
    if (weir_text_equal_fold(name, WEIR_TEXT("Content-Transfer-Encoding")))
        part->is_encoded = part->is_encoded || !is_one_of(line, plain, 3);
    else if (weir_text_equal_fold(name, WEIR_TEXT("Content-Type")) && line.length >= 10)
        part->is_encoded =
            part->is_encoded
            || weir_text_equal_fold((struct weir_text){ line.at, 10 }, WEIR_TEXT("multipart/"));
    return true;
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
    *part = (struct part){ .has_name = false };
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
                                          struct weir_text name)
{
    for (size_t i = 0; i < count; i++)
        if (weir_text_equal(fields[i].name, name))
            return &fields[i];
    return NULL;
}

static bool read_part(struct body *body, struct weir_body_field *fields, size_t count)
{
    struct part part;
    struct weir_text content;
    if (!read_head(body, &part) || !take_content(body, &content))
        return false;
    struct weir_body_field *field = find_field(fields, count, part.name);
    if (field == NULL)
        return true;
    if (field->value.at != NULL || part.is_file || part.is_encoded)
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
