#include "identity/forwarded.h"

#include <string.h>

#define ENTRIES_MAX    WEIR_FORWARDED_MAX
#define BYTES_MAX      4096
#define PARAMETERS_MAX 16

/* Whether the word of whoever stands `distance` steps from us is taken: the peer is at 0. */
static bool is_trusted(const struct weir_trust *trust, const struct weir_address *address,
                       unsigned distance)
{
    if (trust->hops > 0)
        return distance < trust->hops;
    if (address->family == WEIR_NO_ADDRESS)
        return trust->unix_peer;
    for (size_t i = 0; i < trust->network_count; i++)
        if (weir_network_contains(&trust->networks[i], address))
            return true;
    return false;
}

bool weir_trust_covers_peer(const struct weir_trust *trust, const struct weir_address *peer)
{
    return is_trusted(trust, peer, 0);
}

/* reading a header's list from its end */

/* All lines of one header, read from right to left: the last lines and the right-most entries are
 * the proxies' own; what stands before them is the client's, and can be anything. */
struct reader {
    const struct weir_facts *facts;
    struct weir_text header;
    bool has_quotes;       /* commas in quoted strings do not separate       */
    size_t lines_left;     /* header lines of any name that are not read yet */
    struct weir_text rest; /* of the line that is being read                 */
    size_t bytes_left;
};

static bool take_line(struct reader *reader)
{
    while (reader->lines_left > 0) {
        const struct weir_line *line = &reader->facts->headers[--reader->lines_left];
        if (line->value.at != NULL && weir_text_equal_fold(line->name, reader->header)) {
            reader->rest = line->value;
            return true;
        }
    }
    return false;
}

/* Preceded by an odd number of backslashes. */
static bool is_escaped(struct weir_text text, size_t at)
{
    size_t start = at;
    while (start > 0 && text.at[start - 1] == '\\')
        start--;
    return (at - start) % 2 == 1;
}

/* Where the last entry of the line starts; false if it is longer than what may still be read.
 *
 * Quotes are counted from the right too: a quote that a client left open swallows what stands
 * before it, and never the entry that a proxy has put behind it. */
static bool find_start(const struct reader *reader, size_t *start)
{
    bool is_quoted = false;
    size_t at = reader->rest.length;
    size_t end = at > reader->bytes_left ? at - reader->bytes_left : 0;
    while (at > end && (is_quoted || reader->rest.at[at - 1] != ',')) {
        at--;
        if (reader->has_quotes && reader->rest.at[at] == '"' && !is_escaped(reader->rest, at))
            is_quoted = !is_quoted;
    }
    *start = at;
    return at == 0 || (!is_quoted && reader->rest.at[at - 1] == ',');
}

static void drop_from(struct reader *reader, size_t start)
{
    size_t taken = reader->rest.length - start + 1; /* with its comma, or the line's end */
    reader->bytes_left -= taken < reader->bytes_left ? taken : reader->bytes_left;
    if (start == 0)
        reader->rest = (struct weir_text){ NULL, 0 };
    else
        reader->rest.length = start - 1;
}

/* Takes the last entry that is not blank, without the blanks around it; false when there is none
 * or enough has been read. */
static bool take_entry(struct reader *reader, struct weir_text *entry)
{
    while (reader->bytes_left > 0) {
        size_t start;
        if (reader->rest.at == NULL && !take_line(reader))
            return false;
        if (!find_start(reader, &start))
            return false;

        struct weir_text item = { reader->rest.at + start, reader->rest.length - start };
        *entry = weir_text_trim(item);
        drop_from(reader, start);
        if (entry->length > 0)
            return true;
    }
    return false;
}

/* one element of Forwarded (RFC 7239 section 4) */

struct parameter {
    struct weir_text name;
    struct weir_text value; /* of a quoted string: what is between the quotes, still escaped */
};

static void skip(struct weir_text *text, size_t length)
{
    text->at += length;
    text->length -= length;
}

static struct weir_text take_token(struct weir_text *rest)
{
    struct weir_text token = { rest->at, 0 };
    while (token.length < rest->length && weir_is_token_char(rest->at[token.length]))
        token.length++;
    skip(rest, token.length);
    return token;
}

/* Takes a quoted string off the front, of which the opening quote is gone already; false if it is
 * not closed. */
static bool take_quoted(struct weir_text *rest, struct weir_text *inside)
{
    size_t length = 0;
    while (length < rest->length && rest->at[length] != '"')
        length += rest->at[length] == '\\' ? 2 : 1;
    if (length >= rest->length)
        return false;
    *inside = (struct weir_text){ rest->at, length };
    skip(rest, length + 1);
    return true;
}

/* Takes `name=value`; no blanks may stand around the equals sign. */
static bool take_parameter(struct weir_text *rest, struct parameter *parameter)
{
    parameter->name = take_token(rest);
    if (parameter->name.length == 0 || rest->length == 0 || rest->at[0] != '=')
        return false;
    skip(rest, 1);

    if (rest->length > 0 && rest->at[0] == '"') {
        skip(rest, 1);
        return take_quoted(rest, &parameter->value);
    }
    parameter->value = take_token(rest);
    return parameter->value.length > 0;
}

/* Reads a whole element into its parameters; an empty one between semicolons is allowed. */
static bool read_element(struct weir_text element, struct parameter parameters[PARAMETERS_MAX],
                         size_t *count)
{
    *count = 0;
    for (;;) {
        element = weir_text_trim(element);
        if (element.length > 0 && element.at[0] != ';') {
            if (*count == PARAMETERS_MAX || !take_parameter(&element, &parameters[*count]))
                return false;
            (*count)++;
            element = weir_text_trim(element);
        }
        if (element.length == 0)
            return true;
        if (element.at[0] != ';')
            return false;
        skip(&element, 1);
    }
}

/* The one parameter "for"; NULL if there is none, or if any name stands there twice. */
static const struct parameter *find_for(const struct parameter *parameters, size_t count)
{
    const struct parameter *found = NULL;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++)
            if (weir_text_equal_fold(parameters[i].name, parameters[j].name))
                return NULL;
        if (weir_text_equal_fold(parameters[i].name, WEIR_TEXT("for")))
            found = &parameters[i];
    }
    return found;
}

/* Reads a node of RFC 7239 section 6, where IPv6 always has its brackets. A token has no backslash,
 * so it can be unescaped like a quoted string. */
static bool parse_node(struct weir_text escaped, struct weir_address *address)
{
    char memory[128]; /* more than the longest node has */
    struct weir_buffer node = weir_buffer_init(memory, sizeof memory);
    for (size_t i = 0; i < escaped.length; i++) {
        if (escaped.at[i] == '\\')
            i++;
        weir_buffer_put_char(&node, escaped.at[i]);
    }
    return !node.full && weir_address_parse_node(weir_buffer_text(&node), address)
           && (address->family == WEIR_IPV4 || memory[0] == '[');
}

static bool parse_element(struct weir_text element, struct weir_address *address)
{
    struct parameter parameters[PARAMETERS_MAX];
    size_t count;
    if (!read_element(element, parameters, &count))
        return false;
    const struct parameter *node = find_for(parameters, count);
    return node != NULL && parse_node(node->value, address);
}

/* the walk */

static bool parse_entry(enum weir_forwarded_form form, struct weir_text entry,
                        struct weir_address *address)
{
    return form == WEIR_FORWARDED ? parse_element(entry, address)
                                  : weir_address_parse_node(entry, address);
}

struct walk {
    const struct weir_trust *trust;
    enum weir_forwarded_form form;
    struct reader reader;
    struct weir_hops *hops; /* NULL: nobody wants to know */
};

/* Of a header with one address the last line, since a proxy that adds a line instead of replacing it
 * adds it at the end. */
static bool take(struct walk *walk, struct weir_text *entry)
{
    if (walk->form != WEIR_ONE_ADDRESS)
        return take_entry(&walk->reader, entry);
    if (!take_line(&walk->reader))
        return false;
    *entry = weir_text_trim(walk->reader.rest);
    return true;
}

/* Finds who stands behind a speaker, as far as his word is taken; false: the walk ends with him. */
static bool find_behind(struct walk *walk, const struct weir_address *speaker, unsigned distance,
                        struct weir_address *behind)
{
    unsigned most = walk->form == WEIR_ONE_ADDRESS ? 1 : ENTRIES_MAX;
    struct weir_hop hop = { .speaker = *speaker,
                            .is_trusted = is_trusted(walk->trust, speaker, distance) };
    hop.is_believed = hop.is_trusted && distance < most && take(walk, &hop.entry)
                      && parse_entry(walk->form, hop.entry, behind);
    if (walk->hops != NULL)
        walk->hops->hop[walk->hops->count++] = hop;
    return hop.is_believed;
}

struct weir_address weir_forwarded_trace(const struct weir_trust *trust,
                                         enum weir_forwarded_form form, struct weir_text header,
                                         const struct weir_facts *facts, unsigned *hops_used,
                                         struct weir_hops *hops)
{
    struct walk walk = {
        .trust = trust,
        .form = form,
        .reader = { .facts = facts,
                    .header = header,
                    .has_quotes = form == WEIR_FORWARDED,
                    .lines_left = header.length == 0 ? 0 : facts->header_count,
                    .bytes_left = BYTES_MAX },
        .hops = hops,
    };
    struct weir_address current = weir_address_from(facts->peer), behind;
    unsigned used = 0;
    if (hops != NULL)
        hops->count = 0;
    while (find_behind(&walk, &current, used, &behind)) {
        current = behind;
        used++;
    }
    if (hops_used != NULL)
        *hops_used = used;
    return current;
}

struct weir_address weir_forwarded_client(const struct weir_trust *trust,
                                          enum weir_forwarded_form form, struct weir_text header,
                                          const struct weir_facts *facts, unsigned *hops_used)
{
    return weir_forwarded_trace(trust, form, header, facts, hops_used, NULL);
}
