/* Why a request would be, or was, answered as it is, for the admin API. */
#include "admin/admin.h"

#include <string.h>

#include "admin/explain.h"

#define HEADERS_MAX 64

/* "Name: value" */
static bool read_header(struct weir_admin_job *job, const char *text, struct weir_line *line)
{
    struct weir_text rest = weir_text_from(text);
    if (weir_text_take_first(&rest, ':', &line->name) && rest.at != NULL && line->name.length > 0) {
        line->value = weir_text_trim(rest);
        return true;
    }
    weir_admin_refuse(job, 400, "A \"header\" is no line; wanted is \"Name: value\".");
    return false;
}

static bool read_headers(struct weir_admin_job *job, struct weir_line lines[HEADERS_MAX],
                         size_t *count)
{
    const json_t *list = json_object_get(job->members, "header"), *text;
    size_t index;
    *count = json_array_size(list);
    if (*count > HEADERS_MAX) {
        weir_admin_refuse(job, 400, "There are more than %d headers.", HEADERS_MAX);
        return false;
    }
    json_array_foreach(list, index, text)
    {
        if (!read_header(job, json_string_value(text), &lines[index]))
            return false;
    }
    return true;
}

static bool read_text(struct weir_admin_job *job, const char *name, struct weir_text *text)
{
    const char *string;
    if (!weir_admin_text(job, name, &string))
        return false;
    *text = weir_text_from(string);
    return true;
}

static bool read_described(struct weir_admin_job *job, struct weir_described *described,
                           struct weir_line lines[HEADERS_MAX])
{
    *described =
        (struct weir_described){ .headers = lines,
                                 .has_cost = json_object_get(job->members, "cost") != NULL };
    if (!read_text(job, "method", &described->method) || !read_text(job, "path", &described->target)
        || !weir_admin_text(job, "peer", &described->peer)
        || !read_text(job, "user", &described->user)
        || !read_text(job, "tenant", &described->tenant)
        || !read_text(job, "plan", &described->plan)
        || !weir_admin_number(job, "cost", 0, WEIR_UNITS_MAX, &described->cost)
        || !read_headers(job, lines, &described->header_count))
        return false;
    if (described->target.at != NULL)
        return true;
    weir_admin_refuse(job, 400, "\"path\" is missing, or \"request_id\": which request?");
    return false;
}

static void answer(struct weir_admin_job *job, json_t *body, const struct weir_error *error)
{
    if (body == NULL)
        weir_admin_fail(job, error);
    else
        weir_admin_answer(job, body);
}

/* One that was refused a while ago says all by its id. */
static void explain_recent(struct weir_admin *admin, struct weir_admin_job *job, const char *id)
{
    struct weir_error error = WEIR_NO_ERROR;
    if (json_object_size(job->members) > 1)
        weir_admin_refuse(job, 400, "A \"request_id\" says all; leave the other members out.");
    else
        answer(job, weir_explain_recent(admin->limiter, id, &error), &error);
}

void weir_admin_explain(struct weir_admin *admin, struct weir_admin_job *job)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_line lines[HEADERS_MAX];
    struct weir_described described;
    const char *id;
    if (!weir_admin_text(job, "request_id", &id))
        return;
    if (id != NULL)
        explain_recent(admin, job, id);
    else if (read_described(job, &described, lines))
        answer(job, weir_explain(admin->limiter, &described, &error), &error);
}
