#include "limit/subject.h"

#include <string.h>

/* A value of one dimension. */
struct value {
    struct weir_text dimension;
    struct weir_text name; /* of a header, param, query or field; else at NULL */
    struct weir_text text; /* at NULL or empty: absent                         */
    bool is_public;        /* may be read by who reads the store        */
    bool fold;
};

static bool is_id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.'
           || c == '_' || c == '-';
}

bool weir_is_public_id(struct weir_text text)
{
    for (size_t i = 0; i < text.length; i++)
        if (!is_id_char(text.at[i]))
            return false;
    return text.length > 0 && text.length <= 64;
}

static struct value sent_value(struct weir_text dimension, const struct weir_dimension *by,
                               struct weir_text text)
{
    return (struct value){ dimension, by->name, by->exact ? text : weir_text_trim(text), false,
                           !by->exact };
}

/* An application may trim more off a field than a server does off a header line. */
static struct value field_value(const struct weir_dimension *by, struct weir_text text)
{
    return (struct value){ WEIR_TEXT("field"), by->name,
                           by->exact ? text : weir_body_value_trim(text), false, !by->exact };
}

/* The network of an asker, in `memory`; at NULL: there is none. */
static struct weir_text network_of(const struct weir_asker *asker, char memory[WEIR_NETWORK_CHARS])
{
    if (asker->identity->client.family == WEIR_NO_ADDRESS)
        return (struct weir_text){ NULL, 0 };
    weir_network_print(&asker->identity->network, memory);
    return weir_text_from(memory);
}

static struct weir_text named_value(const struct weir_asker *asker, const char *dimension,
                                    struct weir_text name)
{
    bool is_header = strcmp(dimension, "header") == 0;
    for (size_t i = 0; i < asker->value_count; i++) {
        const struct weir_named_value *value = &asker->values[i];
        if (weir_text_equal(value->dimension, weir_text_from(dimension))
            && (is_header ? weir_text_equal_fold(value->name, name)
                          : weir_text_equal(value->name, name)))
            return value->text;
    }
    return (struct weir_text){ NULL, 0 };
}

static struct weir_text route_of(const struct weir_asker *asker)
{
    return asker->match == NULL ? asker->route : weir_text_from(asker->match->route->match);
}

static struct weir_text header_of(const struct weir_asker *asker, struct weir_text name)
{
    return asker->facts == NULL ? named_value(asker, "header", name)
                                : weir_facts_header(asker->facts, name);
}

static struct weir_text param_of(const struct weir_asker *asker, struct weir_text name)
{
    return asker->match == NULL ? named_value(asker, "param", name)
                                : weir_params_get(&asker->match->params, name);
}

static struct weir_text query_of(const struct weir_asker *asker, struct weir_text name)
{
    return asker->facts == NULL ? named_value(asker, "query", name)
                                : weir_facts_query(asker->facts, name);
}

static struct weir_text field_of(const struct weir_asker *asker, struct weir_text name)
{
    if (asker->facts == NULL)
        return named_value(asker, "field", name);
    for (size_t i = 0; i < asker->field_count; i++)
        if (weir_text_equal(asker->fields[i].name, name))
            return asker->fields[i].value;
    return (struct weir_text){ NULL, 0 };
}

/* `memory` is for the text of an address. */
static struct value value_of(const struct weir_dimension *by, const struct weir_asker *asker,
                             char memory[WEIR_NETWORK_CHARS])
{
    const struct weir_identity *who = asker->identity;
    const struct weir_text none = { NULL, 0 };
    switch (by->kind) {
    case WEIR_BY_IP:
        return (struct value){ WEIR_TEXT("ip"), none, network_of(asker, memory), true, false };
    case WEIR_BY_API_KEY:
        return (struct value){ WEIR_TEXT("api_key"), none,
                               weir_text_from(who->api_key == NULL ? NULL : who->api_key->id), true,
                               false };
    case WEIR_BY_USER:
        return (struct value){ WEIR_TEXT("user"), none, who->user, false, false };
    case WEIR_BY_TENANT:
        return (struct value){ WEIR_TEXT("tenant"), none, who->tenant,
                               weir_is_public_id(who->tenant), false };
    case WEIR_BY_PLAN:
        return (struct value){ WEIR_TEXT("plan"), none, who->plan, weir_is_public_id(who->plan),
                               false };
    case WEIR_BY_ROUTE:
        return (struct value){ WEIR_TEXT("route"), none, route_of(asker),
                               route_of(asker).length <= WEIR_SUBJECT_MAX, false };
    case WEIR_BY_GLOBAL:
        return (struct value){ WEIR_TEXT("global"), none, WEIR_TEXT("all"), true, false };
    case WEIR_BY_HEADER:
        return sent_value(WEIR_TEXT("header"), by, header_of(asker, by->name));
    case WEIR_BY_PARAM:
        return sent_value(WEIR_TEXT("param"), by, param_of(asker, by->name));
    case WEIR_BY_QUERY:
        return sent_value(WEIR_TEXT("query"), by, query_of(asker, by->name));
    case WEIR_BY_DEVICE:
        return (struct value){ WEIR_TEXT("device"), none, asker->device, false, false };
    case WEIR_BY_FIELD:
        return field_value(by, field_of(asker, by->name));
    }
    return (struct value){ WEIR_TEXT(""), none, none, false, false };
}

/* writing */

static bool stands_plain(char c)
{
    return is_id_char(c) || c == '/' || c == ':' || c == '*';
}

static void put_escaped(struct weir_buffer *subject, struct weir_text text)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t plain = 0; /* bytes from here to i stand as they are */
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (stands_plain(text.at[i]))
            continue;
        weir_buffer_put(subject, (struct weir_text){ text.at + plain, i - plain });
        weir_buffer_put_char(subject, '%');
        weir_buffer_put_char(subject, hex[c >> 4]);
        weir_buffer_put_char(subject, hex[c & 15]);
        plain = i + 1;
    }
    weir_buffer_put(subject, (struct weir_text){ text.at + plain, text.length - plain });
}

/* A value of any length, folded if asked, as its label. */
static void put_label(struct weir_buffer *subject, const struct weir_policy *policy,
                      const struct value *value)
{
    char folded[1024];
    struct weir_text text = value->text;
    /* Beyond that length the letter case counts: such a value is no identifier people type. */
    if (value->fold && text.length <= sizeof folded) {
        for (size_t i = 0; i < text.length; i++)
            folded[i] = weir_fold_char(text.at[i]);
        text.at = folded;
    }
    char label[WEIR_LABEL_CHARS + 1];
    weir_label(text, policy->secret, label);
    weir_buffer_put_string(subject, label);
}

static void put_value(struct weir_buffer *subject, const struct weir_policy *policy,
                      const struct value *value)
{
    weir_buffer_put(subject, value->dimension);
    if (value->name.at != NULL) {
        weir_buffer_put_char(subject, ':');
        put_escaped(subject, value->name);
    }
    weir_buffer_put_char(subject, '=');
    if (value->is_public)
        put_escaped(subject, value->text);
    else
        put_label(subject, policy, value);
}

/* The first alternative that is there, and its value; NULL: none. */
static const struct weir_dimension *present_in(const struct weir_dimension *alternatives,
                                               size_t count, const struct weir_asker *asker,
                                               char memory[WEIR_NETWORK_CHARS], struct value *value)
{
    for (size_t i = 0; i < count; i++) {
        *value = value_of(&alternatives[i], asker, memory);
        if (value->text.length > 0)
            return &alternatives[i];
    }
    return NULL;
}

static bool put_part(struct weir_buffer *subject, const struct weir_dimension *alternatives,
                     size_t count, const struct weir_asker *asker)
{
    char memory[WEIR_NETWORK_CHARS];
    struct value value;
    if (present_in(alternatives, count, asker, memory, &value) == NULL)
        return false;
    put_value(subject, asker->policy, &value);
    return true;
}

/* A subject that is too long for a key is its own hash. */
static void shorten(struct weir_buffer *subject, const struct weir_policy *policy,
                    struct weir_text whole)
{
    char label[WEIR_LABEL_CHARS + 1];
    weir_label(whole, policy->secret, label);
    weir_buffer_put_string(subject, "long=");
    weir_buffer_put_string(subject, label);
}

bool weir_subject_write(const struct weir_by *by, const struct weir_asker *asker,
                        struct weir_buffer *subject)
{
    char memory[4096];
    struct weir_buffer whole = weir_buffer_init(memory, sizeof memory);
    for (size_t i = 0; i < by->count; i++) {
        if (i > 0)
            weir_buffer_put_char(&whole, '&');
        if (!put_part(&whole, by->parts[i].alternatives, by->parts[i].count, asker))
            return false;
    }
    if (whole.full || whole.length > WEIR_SUBJECT_MAX)
        shorten(subject, asker->policy, weir_buffer_text(&whole));
    else
        weir_buffer_put(subject, weir_buffer_text(&whole));
    return true;
}

bool weir_subject_has(const struct weir_by *by, const struct weir_asker *asker, unsigned kinds)
{
    char memory[WEIR_NETWORK_CHARS];
    struct value value;
    for (size_t i = 0; i < by->count; i++) {
        const struct weir_dimension *present =
            present_in(by->parts[i].alternatives, by->parts[i].count, asker, memory, &value);
        if (present != NULL && (kinds & 1u << present->kind) != 0)
            return true;
    }
    return false;
}
