/* "by": what one count is for. */
#include <string.h>

#include "base/suggest.h"
#include "policy/policy_json.h"

#define NAME_MAX_BYTES 128

static const struct {
    const char *name;
    enum weir_dimension_kind kind;
} plain[] = {
    { "ip", WEIR_BY_IP },         { "api_key", WEIR_BY_API_KEY }, { "user", WEIR_BY_USER },
    { "tenant", WEIR_BY_TENANT }, { "plan", WEIR_BY_PLAN },       { "route", WEIR_BY_ROUTE },
    { "global", WEIR_BY_GLOBAL }, { "device", WEIR_BY_DEVICE },
};

static const struct {
    const char *prefix;
    enum weir_dimension_kind kind;
} named[] = {
    { "header:", WEIR_BY_HEADER },
    { "param:", WEIR_BY_PARAM },
    { "query:", WEIR_BY_QUERY },
    { "field:", WEIR_BY_FIELD },
};

static const enum weir_dimension_kind client[] = { WEIR_BY_API_KEY, WEIR_BY_USER, WEIR_BY_TENANT,
                                                   WEIR_BY_IP };

#define KNOWN                                                                                      \
    "\"ip\", \"api_key\", \"user\", \"tenant\", \"plan\", \"route\", \"client\", \"global\", "
#define KNOWN_OF_HEAD KNOWN "\"header:NAME\", \"param:NAME\" or \"query:NAME\""
#define KNOWN_WITH_ALL                                                                             \
    KNOWN "\"device\", \"header:NAME\", \"param:NAME\", \"query:NAME\" or \"field:NAME\""

/* Where one part of a "by" goes. */
struct part {
    struct weir_dimension *alternatives;
    size_t *count;
    bool is_of_head; /* what the body says is not known yet, nor whether a device is */
};

static bool is_same(const struct weir_dimension *one, const struct weir_dimension *other)
{
    return one->kind == other->kind && weir_text_equal(one->name, other->name);
}

/* An alternative that is there already can never be reached, so it is left out. */
static enum weir_code add(const struct weir_reader *reader, const struct weir_place *place,
                          const struct part *part, struct weir_dimension dimension)
{
    if (part->is_of_head && (dimension.kind == WEIR_BY_FIELD || dimension.kind == WEIR_BY_DEVICE))
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "Requests are counted here from when their headers are in; wanted is "
                           "what is known by then, such as \"api_key\" or \"ip\".");
    for (size_t i = 0; i < *part->count; i++)
        if (is_same(&part->alternatives[i], &dimension))
            return WEIR_OK;
    if (*part->count == WEIR_BY_ALTERNATIVES)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The value is %s, with more than 6 alternatives (\"client\" is 4 of "
                           "them).",
                           weir_show(place->value).text);
    part->alternatives[(*part->count)++] = dimension;
    return WEIR_OK;
}

static enum weir_code add_client(const struct weir_reader *reader, const struct weir_place *place,
                                 const struct part *part)
{
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < WEIR_COUNT_OF(client) && code == WEIR_OK; i++)
        code = add(reader, place, part, (struct weir_dimension){ .kind = client[i] });
    return code;
}

/* names behind a colon */

static bool is_param_char(char c)
{
    char folded = weir_fold_char(c);
    return (folded >= 'a' && folded <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Of query arguments, and of fields. */
static bool is_text_char(char c)
{
    return (unsigned char)c >= 0x20 && c != 0x7F;
}

static bool is_named_char(enum weir_dimension_kind kind, char c)
{
    if (kind == WEIR_BY_HEADER)
        return weir_is_token_char(c);
    return kind == WEIR_BY_PARAM ? is_param_char(c) : is_text_char(c);
}

static bool is_fit_name(enum weir_dimension_kind kind, struct weir_text name)
{
    if (kind == WEIR_BY_PARAM && name.length > 0 && name.at[0] >= '0' && name.at[0] <= '9')
        return false;
    for (size_t i = 0; i < name.length; i++)
        if (!is_named_char(kind, name.at[i]))
            return false;
    return name.length >= 1 && name.length <= NAME_MAX_BYTES;
}

static const char *word_for(enum weir_dimension_kind kind)
{
    return kind == WEIR_BY_HEADER  ? "header line"
           : kind == WEIR_BY_PARAM ? "parameter of the route's pattern"
           : kind == WEIR_BY_QUERY ? "query argument"
                                   : "field of the body";
}

static enum weir_code add_named(const struct weir_reader *reader, const struct weir_place *place,
                                const struct part *part, enum weir_dimension_kind kind,
                                struct weir_text name)
{
    const char *kept = NULL;
    if (!is_fit_name(kind, name))
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The value is %s; wanted behind the colon is the name of a %s.",
                           weir_show(place->value).text, word_for(kind));
    enum weir_code code = weir_keep_text(reader, name, &kept);
    if (code != WEIR_OK)
        return code;
    return add(reader, place, part,
               (struct weir_dimension){ .kind = kind, .name = { kept, name.length } });
}

/* one word */

static enum weir_code refuse_word(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct part *part, struct weir_text word)
{
    static const char *const names[] = { "ip",     "api_key", "user",   "tenant",  "plan",
                                         "route",  "client",  "global", "header:", "param:",
                                         "query:", "field:",  "device" };
    const size_t count = WEIR_COUNT_OF(names) - (part->is_of_head ? 2 : 0);
    const char *meant = weir_suggest(word, names, count);
    if (meant != NULL)
        return weir_refuse(reader, place, WEIR_E_VALUE, "The value is %s; did you mean \"%s\"?",
                           weir_show(place->value).text, meant);
    return weir_refuse_value(reader, place, part->is_of_head ? KNOWN_OF_HEAD : KNOWN_WITH_ALL);
}

static enum weir_code add_word(const struct weir_reader *reader, const struct weir_place *place,
                               const struct part *part, struct weir_text word)
{
    if (weir_text_equal(word, WEIR_TEXT("client")))
        return add_client(reader, place, part);
    for (size_t i = 0; i < WEIR_COUNT_OF(plain); i++)
        if (weir_text_equal(word, weir_text_from(plain[i].name)))
            return add(reader, place, part, (struct weir_dimension){ .kind = plain[i].kind });
    for (size_t i = 0; i < WEIR_COUNT_OF(named); i++) {
        struct weir_text prefix = weir_text_from(named[i].prefix);
        if (!weir_text_starts_with(word, prefix))
            continue;
        struct weir_text name = { word.at + prefix.length, word.length - prefix.length };
        return add_named(reader, place, part, named[i].kind, name);
    }
    return refuse_word(reader, place, part, word);
}

/* the whole */

static enum weir_code read_part(const struct weir_reader *reader, const struct weir_place *place,
                                struct weir_by *by, bool is_of_head)
{
    const struct part part = { by->parts[by->count].alternatives, &by->parts[by->count].count,
                               is_of_head };
    struct weir_text words, word;
    enum weir_code code =
        weir_read_text(reader, place, "a text such as \"ip\" or \"user|ip\"", &words);
    if (code == WEIR_OK)
        by->count++;
    while (code == WEIR_OK && weir_text_take_first(&words, '|', &word))
        code = add_word(reader, place, &part, word);
    return code;
}

static enum weir_code read_by(const struct weir_reader *reader, const struct weir_place *place,
                              struct weir_by *by, bool is_of_head)
{
    size_t count = json_array_size(place->value);
    enum weir_code code = WEIR_OK;
    if (json_is_string(place->value))
        return read_part(reader, place, by, is_of_head);
    if (!json_is_array(place->value))
        return weir_refuse_type(reader, place,
                                "a text such as \"ip\" or \"user|ip\", or a list of them that "
                                "count together");
    if (count == 0 || count > WEIR_BY_PARTS)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The list has %zu items; wanted are 1 to 6.", count);
    for (size_t i = 0; i < count && code == WEIR_OK; i++) {
        const struct weir_place item = weir_place_item(place, i);
        code = read_part(reader, &item, by, is_of_head);
    }
    return code;
}

enum weir_code weir_read_by(struct weir_reader *reader, const struct weir_place *place, void *into)
{
    return read_by(reader, place, into, false);
}

enum weir_code weir_read_by_of_head(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    return read_by(reader, place, into, true);
}
