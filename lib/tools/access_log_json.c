/* Lines that are JSON objects. Servers have no common names for what is in them, so there are several
 * for each, and a program's own can be said. */
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "tools/access_log_internal.h"

#define PATHS_MAX    8
#define NUMBER_CHARS 24
#define NUMBERS_MAX  16
#define FOUND_MAX    64

/* What can be mapped, besides header lines and fields. */
enum member {
    IP,
    METHOD,
    PATH,
    USER,
    TENANT,
    PLAN,
    API_KEY,
    TIME,
    DURATION,
    REQUEST,
    STATUS,
    COST,
    HEADERS
};

#define MEMBERS (HEADERS + 1)

/* Of nginx's variables, Caddy, Traefik, and what people call these things. A dot leads into an object. */
static const struct {
    const char *name;
    const char *paths[PATHS_MAX]; /* the first one that is there */
} known[MEMBERS] = {
    [IP] = { "ip",
             { "remote_addr", "ip", "client_ip", "remote_ip", "peer", "ClientHost",
               "request.remote_ip" } },
    [METHOD] = { "method", { "method", "request_method", "RequestMethod", "request.method" } },
    [PATH] = { "path", { "request_uri", "path", "uri", "url", "RequestPath", "request.uri" } },
    [USER] = { "user", { "user", "remote_user", "user_id", "ClientUsername" } },
    [TENANT] = { "tenant", { "tenant" } },
    [PLAN] = { "plan", { "plan" } },
    [API_KEY] = { "api-key", { "api_key_id" } },
    [TIME] = { "time",
               { "time", "timestamp", "@timestamp", "ts", "time_iso8601", "msec", "time_local",
                 "StartUTC" } },
    [DURATION] = { "duration", { NULL } },
    [REQUEST] = { "request", { "request" } },
    [STATUS] = { "status", { "status", "status_code", "DownstreamStatus" } },
    [COST] = { "cost", { "cost" } },
    [HEADERS] = { "headers", { "headers", "request.headers" } },
};

/* A header line or a field of the body. */
struct mapping {
    struct weir_text name;
    struct weir_text path;
};

/* A member of the line's own object. */
struct found {
    struct weir_text name;
    const json_t *value;
};

struct weir_access_json {
    struct weir_text paths[MEMBERS][PATHS_MAX]; /* at NULL behind the last */
    struct mapping headers[WEIR_ACCESS_HEADERS_MAX];
    size_t header_count;
    struct mapping fields[WEIR_ACCESS_FIELDS_MAX];
    size_t field_count;
    json_t *root; /* of the last line, whose texts are still in use */
    struct found found[FOUND_MAX];
    size_t found_count; /* 0: there are too many to list  */
    bool has_objects;   /* among them                     */
    char numbers[NUMBERS_MAX][NUMBER_CHARS];
    size_t number_count;
};

struct weir_access_json *weir_access_json_new(void)
{
    struct weir_access_json *json = calloc(1, sizeof *json);
    if (json == NULL)
        return NULL;
    for (size_t i = 0; i < MEMBERS; i++)
        for (size_t j = 0; j < PATHS_MAX; j++)
            json->paths[i][j] = weir_text_from(known[i].paths[j]);
    /* What nginx has in variables, and a policy is likely to want. */
    json->headers[json->header_count++] =
        (struct mapping){ WEIR_TEXT("User-Agent"), WEIR_TEXT("http_user_agent") };
    json->headers[json->header_count++] =
        (struct mapping){ WEIR_TEXT("X-Forwarded-For"), WEIR_TEXT("http_x_forwarded_for") };
    return json;
}

struct weir_access_json *weir_access_json_free(struct weir_access_json *json)
{
    if (json != NULL)
        json_decref(json->root);
    free(json);
    return NULL;
}

/* mapping */

static enum weir_code refuse(const char *mapping, struct weir_error *error)
{
    return weir_error_set(
        error, WEIR_E_VALUE, NULL,
        "\"%.60s\" maps nothing; wanted is NAME=MEMBER, where NAME is ip, method, "
        "path, user, tenant, plan, api-key, time, duration, request, status, cost, "
        "headers, header:NAME or field:NAME.",
        mapping);
}

static enum weir_code add(struct mapping *mappings, size_t *count, size_t most,
                          struct weir_text name, struct weir_text path, struct weir_error *error)
{
    if (*count == most)
        return weir_error_set(error, WEIR_E_VALUE, NULL, "More than %zu of a kind are mapped.",
                              most);
    mappings[(*count)++] = (struct mapping){ name, path };
    return WEIR_OK;
}

enum weir_code weir_access_json_map(struct weir_access_json *json, const char *mapping,
                                    struct weir_error *error)
{
    struct weir_text rest = weir_text_from(mapping), name;
    if (!weir_text_take_first(&rest, '=', &name) || rest.at == NULL || rest.length == 0)
        return refuse(mapping, error);
    struct weir_text own = name, kind;
    bool has_own = weir_text_take_first(&own, ':', &kind) && own.at != NULL && own.length > 0;
    if (has_own && weir_text_equal(kind, WEIR_TEXT("header")))
        return add(json->headers, &json->header_count, WEIR_ACCESS_HEADERS_MAX, own, rest, error);
    if (has_own && weir_text_equal(kind, WEIR_TEXT("field")))
        return add(json->fields, &json->field_count, WEIR_ACCESS_FIELDS_MAX, own, rest, error);
    for (size_t i = 0; i < MEMBERS; i++)
        if (weir_text_equal(name, weir_text_from(known[i].name))) {
            memset(json->paths[i], 0, sizeof json->paths[i]);
            json->paths[i][0] = rest;
            return WEIR_OK;
        }
    return refuse(mapping, error);
}

/* finding members */

/* There are few members in a line, and many names that they may have: a list is looked through faster
 * than a table is asked for each name. */
static void list(struct weir_access_json *json)
{
    json->found_count = 0;
    json->has_objects = false;
    if (json_object_size(json->root) > FOUND_MAX)
        return;
    for (void *at = json_object_iter(json->root); at != NULL;
         at = json_object_iter_next(json->root, at)) {
        const json_t *value = json_object_iter_value(at);
        json->found[json->found_count++] =
            (struct found){ { json_object_iter_key(at), json_object_iter_key_len(at) }, value };
        json->has_objects = json->has_objects || json_is_object(value);
    }
}

static const json_t *find_own(const struct weir_access_json *json, struct weir_text name)
{
    for (size_t i = 0; i < json->found_count; i++)
        if (weir_text_equal(json->found[i].name, name))
            return json->found[i].value;
    return json->found_count > 0 ? NULL : json_object_getn(json->root, name.at, name.length);
}

/* The member of an object that a path's dots lead to; NULL: there is none. */
static const json_t *find_in(const json_t *object, struct weir_text path)
{
    struct weir_text rest = path, first;
    const json_t *value = json_object_getn(object, path.at, path.length);
    if (value != NULL || !weir_text_take_first(&rest, '.', &first) || rest.at == NULL)
        return value;
    return find_in(json_object_getn(object, first.at, first.length), rest);
}

/* The member of that name, or the one that its dots lead to. */
static const json_t *find(const struct weir_access_json *json, struct weir_text path)
{
    struct weir_text rest = path, first;
    const json_t *value = find_own(json, path);
    bool may_lead = json->has_objects || json->found_count == 0;
    if (value != NULL || !may_lead || !weir_text_take_first(&rest, '.', &first) || rest.at == NULL)
        return value;
    return find_in(find_own(json, first), rest);
}

static const json_t *find_member(const struct weir_access_json *json, enum member member)
{
    for (size_t i = 0; i < PATHS_MAX && json->paths[member][i].at != NULL; i++) {
        const json_t *value = find(json, json->paths[member][i]);
        if (value != NULL && !json_is_null(value))
            return value;
    }
    return NULL;
}

/* reading values */

/* A text, or a whole number as one; of a list the first. At NULL: it is neither. */
static struct weir_text text_of(struct weir_access_json *json, const json_t *value)
{
    if (json_is_array(value))
        value = json_array_get(value, 0);
    if (json_is_string(value))
        return (struct weir_text){ json_string_value(value), json_string_length(value) };
    if (!json_is_integer(value) || json->number_count == NUMBERS_MAX)
        return (struct weir_text){ NULL, 0 };
    char *number = json->numbers[json->number_count++];
    snprintf(number, NUMBER_CHARS, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return weir_text_from(number);
}

static bool number_of(const json_t *value, uint64_t *number)
{
    if (json_is_string(value))
        return weir_text_to_number(
            (struct weir_text){ json_string_value(value), json_string_length(value) }, number);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *number = (uint64_t)json_integer_value(value);
    return true;
}

/* "-" and "" are nothing, as in the logs that this is mostly copied from. */
static void read_texts(struct weir_access_json *json, struct weir_access_entry *entry)
{
    static const struct {
        enum member member;
        enum weir_access_text text;
    } pairs[] = {
        { IP, WEIR_ACCESS_PEER },         { METHOD, WEIR_ACCESS_METHOD },
        { PATH, WEIR_ACCESS_TARGET },     { USER, WEIR_ACCESS_USER },
        { TENANT, WEIR_ACCESS_TENANT },   { PLAN, WEIR_ACCESS_PLAN },
        { API_KEY, WEIR_ACCESS_API_KEY },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct weir_text text = text_of(json, find_member(json, pairs[i].member));
        if (text.length > 0 && !weir_text_equal(text, WEIR_TEXT("-")))
            entry->texts[pairs[i].text] = text;
    }
}

static bool read_time(struct weir_access_json *json, struct weir_access_entry *entry)
{
    const json_t *value = find_member(json, TIME);
    char number[64];
    struct weir_text text = text_of(json, value);
    if (json_is_real(value)) {
        snprintf(number, sizeof number, "%.6f", json_real_value(value));
        text = weir_text_from(number);
    }
    return text.at != NULL && weir_access_time(text, &entry->time_us, &entry->is_whole_second);
}

/* The time of a log that is written when a request ends, at its beginning. */
static void take_off_duration(struct weir_access_json *json, struct weir_access_entry *entry)
{
    const json_t *value = find_member(json, DURATION);
    double seconds =
        json_is_string(value) ? strtod(json_string_value(value), NULL) : json_number_value(value);
    if (!(seconds > 0) || seconds > 1e9)
        return;
    uint64_t duration_us = (uint64_t)(seconds * 1e6 + 0.5);
    entry->time_us -= duration_us < entry->time_us ? duration_us : entry->time_us;
    entry->is_whole_second = false;
}

static bool is_nothing(const json_t *value)
{
    return value == NULL || (json_is_string(value) && strcmp(json_string_value(value), "-") == 0)
           || (json_is_string(value) && json_string_length(value) == 0);
}

/* False: there is a cost that is none, in whose place another would be made up. */
static bool read_numbers(struct weir_access_json *json, struct weir_access_entry *entry)
{
    uint64_t status;
    const json_t *cost = find_member(json, COST);
    if (number_of(find_member(json, STATUS), &status) && status <= 999)
        entry->status = (unsigned)status;
    entry->has_cost = number_of(cost, &entry->cost);
    return entry->has_cost || is_nothing(cost);
}

static void add_line(struct weir_line *lines, size_t *count, size_t most, struct weir_text name,
                     struct weir_text value)
{
    if (*count < most && name.length > 0 && value.length > 0)
        lines[(*count)++] = (struct weir_line){ name, value };
}

static void read_headers(struct weir_access_json *json, struct weir_access_entry *entry)
{
    for (size_t i = 0; i < json->header_count; i++) {
        struct weir_text value = text_of(json, find(json, json->headers[i].path));
        if (!weir_text_equal(value, WEIR_TEXT("-")))
            add_line(entry->headers, &entry->header_count, WEIR_ACCESS_HEADERS_MAX,
                     json->headers[i].name, value);
    }
    /* The iterator is not for changing anything; jansson has no other. */
    json_t *all = (json_t *)(uintptr_t)find_member(json, HEADERS);
    for (void *at = json_object_iter(all); at != NULL; at = json_object_iter_next(all, at))
        add_line(entry->headers, &entry->header_count, WEIR_ACCESS_HEADERS_MAX,
                 weir_text_from(json_object_iter_key(at)),
                 text_of(json, json_object_iter_value(at)));
}

static void read_fields(struct weir_access_json *json, struct weir_access_entry *entry)
{
    for (size_t i = 0; i < json->field_count; i++)
        add_line(entry->fields, &entry->field_count, WEIR_ACCESS_FIELDS_MAX, json->fields[i].name,
                 text_of(json, find(json, json->fields[i].path)));
}

/* a line */

/* Browsers send what they like, and servers log it; JSON is UTF-8 (RFC 8259, section 8.1). */
static void mend(char *line, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t bytes = (unsigned char)line[i] < 0x80
                           ? 1
                           : weir_utf8_length((struct weir_text){ line + i, length - i });
        if (bytes == 0)
            line[i] = '?';
        i += bytes == 0 ? 1 : bytes;
    }
}

/* Method and target, each by itself or in one text. */
static bool find_request(struct weir_access_json *json, struct weir_access_entry *entry)
{
    struct weir_text *texts = entry->texts;
    if (texts[WEIR_ACCESS_METHOD].at != NULL && texts[WEIR_ACCESS_TARGET].at != NULL)
        return weir_access_is_method(texts[WEIR_ACCESS_METHOD]);
    const json_t *request = find_member(json, REQUEST);
    struct weir_text target = texts[WEIR_ACCESS_TARGET];
    if (json_is_string(request) && weir_access_request(text_of(json, request), entry))
        return true;
    texts[WEIR_ACCESS_TARGET] = target;
    if (target.at == NULL)
        return false;
    texts[WEIR_ACCESS_METHOD] = WEIR_TEXT("GET");
    return true;
}

bool weir_access_json_read(struct weir_access_json *json, char *line, size_t length,
                           struct weir_access_entry *entry, const char **why)
{
    json_decref(json->root);
    json->number_count = 0;
    mend(line, length);
    json->root = json_loadb(line, length, 0, NULL);
    *why = "it is no JSON object";
    if (!json_is_object(json->root))
        return false;
    list(json);
    *why = "there is no time in it that is one, or none where it is looked for (--map time=MEMBER)";
    if (!read_time(json, entry))
        return false;
    take_off_duration(json, entry);
    read_texts(json, entry);
    *why = "there is no path in it, or none where it is looked for (--map path=MEMBER)";
    if (!find_request(json, entry))
        return false;
    *why = "its cost is no whole number of units";
    if (!read_numbers(json, entry))
        return false;
    read_headers(json, entry);
    read_fields(json, entry);
    return true;
}
