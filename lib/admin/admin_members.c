/* What a request to the admin API says: members of its query or of its body. */
#include "admin/admin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"

#define NAMES_MAX 24

/* answers */

void weir_admin_refuse(struct weir_admin_job *job, unsigned status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(job->answer.detail, sizeof job->answer.detail, format, args);
    va_end(args);
    job->answer.status = status;
}

static unsigned status_of(enum weir_code code)
{
    switch ((int)code) {
    case WEIR_E_ARGUMENT:
    case WEIR_E_VALUE:
        return 400;
    case WEIR_E_REFERENCE:
        return 404;
    case WEIR_E_STATE:
        return 409;
    case WEIR_E_NOT_YET:
        return 501;
    case WEIR_E_STORE_TIMEOUT:
    case WEIR_E_STORE_UNAVAILABLE:
    case WEIR_E_STORE_ERROR:
        return 503;
    default:
        return 500;
    }
}

void weir_admin_fail(struct weir_admin_job *job, const struct weir_error *error)
{
    weir_admin_refuse(job, status_of(error->code), "%s", error->text);
}

void weir_admin_answer(struct weir_admin_job *job, json_t *body)
{
    job->answer.status = body == NULL ? 500 : 200;
    job->answer.body = body;
}

/* which members there may be */

/* One that ends in a colon stands for all names that begin with it. */
static bool is_known(const char *const *may, const char *name)
{
    for (; *may != NULL; may++) {
        size_t length = strlen(*may);
        bool is_prefix = (*may)[length - 1] == ':';
        if (is_prefix ? strncmp(*may, name, length) == 0 && name[length] != '\0'
                      : strcmp(*may, name) == 0)
            return true;
    }
    return false;
}

static bool refuse_unknown(struct weir_admin_job *job, const char *name)
{
    const char *const *may = job->route->may;
    size_t count = 0;
    while (may[count] != NULL)
        count++;
    const char *meant = weir_suggest(weir_text_from(name), may, count);
    if (meant != NULL)
        weir_admin_refuse(job, 400, "There is no \"%.60s\" here; \"%s\" is close.", name, meant);
    else
        weir_admin_refuse(job, 400,
                          "There is no \"%.60s\" here; docs/admin.md lists what there is.", name);
    return false;
}

static bool check_members(struct weir_admin_job *job)
{
    const char *name;
    json_t *value;
    json_object_foreach(job->members, name, value)
    {
        if (!is_known(job->route->may, name))
            return refuse_unknown(job, name);
    }
    return true;
}

/* reading them */

/* Only header lines may come more than once. */
static bool add_query(struct weir_admin_job *job, const struct weir_line *line)
{
    json_t *text = json_stringn(line->value.at, line->value.length);
    json_t *before = json_object_getn(job->members, line->name.at, line->name.length);
    if (text == NULL || memchr(line->name.at, '\0', line->name.length) != NULL) {
        json_decref(text);
        weir_admin_refuse(job, 400, "The query is no UTF-8.");
        return false;
    }
    if (json_is_array(before))
        return json_array_append_new(before, text) == 0;
    if (before == NULL && weir_text_equal(line->name, WEIR_TEXT("header"))) {
        json_t *list = json_pack("[o]", text);
        return json_object_set_new(job->members, "header", list) == 0;
    }
    if (before == NULL)
        return json_object_setn_new(job->members, line->name.at, line->name.length, text) == 0;
    json_decref(text);
    weir_admin_refuse(job, 400, "The query has \"%.*s\" twice.",
                      (int)(line->name.length < 60 ? line->name.length : 60), line->name.at);
    return false;
}

bool weir_admin_read_query(struct weir_admin_job *job, const struct weir_request *request)
{
    const struct weir_facts *facts = &request->facts;
    job->is_query = true;
    job->members = json_object();
    bool is_read = job->members != NULL;
    for (size_t i = 0; i < facts->query_count && is_read; i++)
        is_read = add_query(job, &facts->queries[i]);
    return is_read && check_members(job);
}

bool weir_admin_read_body(struct weir_admin_job *job, struct weir_text body)
{
    json_error_t why;
    if (job->members != NULL)
        return true;
    job->members = json_loadb(body.length == 0 ? "{}" : body.at, body.length == 0 ? 2 : body.length,
                              JSON_REJECT_DUPLICATES, &why);
    if (job->members == NULL) {
        weir_admin_refuse(job, 400, "The body is no JSON: %s (line %d, column %d).", why.text,
                          why.line, why.column);
        return false;
    }
    if (!json_is_object(job->members)) {
        weir_admin_refuse(job, 400, "The body is JSON, but no object.");
        return false;
    }
    return check_members(job);
}

bool weir_admin_text(struct weir_admin_job *job, const char *name, const char **text)
{
    const json_t *value = json_object_get(job->members, name);
    *text = NULL;
    if (value == NULL || json_is_null(value))
        return true;
    *text = json_string_value(value);
    if (*text != NULL && (*text)[0] != '\0')
        return true;
    weir_admin_refuse(job, 400, "\"%.60s\" is %s; wanted is a text.", name,
                      *text == NULL ? "no text" : "empty");
    return false;
}

static bool to_number(const struct weir_admin_job *job, const json_t *value, uint64_t *number)
{
    if (job->is_query && json_is_string(value))
        return weir_text_to_number(weir_text_from(json_string_value(value)), number);
    *number = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

bool weir_admin_number(struct weir_admin_job *job, const char *name, uint64_t least, uint64_t most,
                       uint64_t *number)
{
    const json_t *value = json_object_get(job->members, name);
    uint64_t read;
    if (value == NULL)
        return true;
    if (to_number(job, value, &read) && read >= least && read <= most) {
        *number = read;
        return true;
    }
    weir_admin_refuse(job, 400, "\"%s\" is no whole number from %" PRIu64 " to %" PRIu64 ".", name,
                      least, most);
    return false;
}

/* subjects */

static bool read_names(struct weir_admin_job *job, struct weir_subject *subject)
{
    return weir_admin_text(job, "policy", &subject->policy)
           && weir_admin_text(job, "limit", &subject->limit)
           && weir_admin_text(job, "ip", &subject->ip)
           && weir_admin_text(job, "api_key", &subject->api_key)
           && weir_admin_text(job, "user", &subject->user)
           && weir_admin_text(job, "tenant", &subject->tenant)
           && weir_admin_text(job, "plan", &subject->plan)
           && weir_admin_text(job, "route", &subject->route);
}

static bool read_values(struct weir_admin_job *job, struct weir_admin_subject *read)
{
    const char *name;
    json_t *value;
    json_object_foreach(job->members, name, value)
    {
        if (strchr(name, ':') == NULL)
            continue;
        if (read->subject.value_count == WEIR_ADMIN_VALUES_MAX) {
            weir_admin_refuse(job, 400, "More than %d values are named.", WEIR_ADMIN_VALUES_MAX);
            return false;
        }
        struct weir_value *named = &read->values[read->subject.value_count++];
        named->name = name;
        if (!weir_admin_text(job, name, &named->value))
            return false;
    }
    return true;
}

bool weir_admin_read_subject(struct weir_admin_job *job, struct weir_admin_subject *read)
{
    read->subject = *WEIR_SUBJECT(.values = read->values);
    if (!read_names(job, &read->subject) || !read_values(job, read))
        return false;
    if (read->subject.policy != NULL)
        return true;
    weir_admin_refuse(job, 400, "\"policy\" is missing: whose limits?");
    return false;
}
