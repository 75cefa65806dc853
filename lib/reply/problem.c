#include "reply/problem.h"

#define REGISTRY "https://iana.org/assignments/http-problem-types"

static const struct {
    const char *uri;
    const char *title; /* NULL: the status's reason phrase (RFC 9457 section 4.2.1) */
} types[] = {
    [WEIR_PROBLEM_BLANK] = { "about:blank", NULL },
    [WEIR_PROBLEM_QUOTA_EXCEEDED] = { REGISTRY "#quota-exceeded", "Quota Exceeded" },
    [WEIR_PROBLEM_REDUCED_CAPACITY] = { REGISTRY "#temporary-reduced-capacity",
                                        "Temporary Reduced Capacity" },
};

static const struct {
    unsigned status;
    const char *phrase;
} phrases[] = {
    { 100, "Continue" },
    { 101, "Switching Protocols" },
    { 200, "OK" },
    { 201, "Created" },
    { 202, "Accepted" },
    { 203, "Non-Authoritative Information" },
    { 204, "No Content" },
    { 205, "Reset Content" },
    { 206, "Partial Content" },
    { 300, "Multiple Choices" },
    { 301, "Moved Permanently" },
    { 302, "Found" },
    { 303, "See Other" },
    { 304, "Not Modified" },
    { 305, "Use Proxy" },
    { 307, "Temporary Redirect" },
    { 308, "Permanent Redirect" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 402, "Payment Required" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },
    { 407, "Proxy Authentication Required" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 410, "Gone" },
    { 411, "Length Required" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 415, "Unsupported Media Type" },
    { 416, "Range Not Satisfiable" },
    { 417, "Expectation Failed" },
    { 421, "Misdirected Request" },
    { 422, "Unprocessable Content" },
    { 426, "Upgrade Required" },
    /* RFC 6585 */
    { 428, "Precondition Required" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    /* RFC 9110 again */
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 505, "HTTP Version Not Supported" },
};

const char *weir_status_phrase(unsigned status)
{
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "";
}

/* One of those above, which need no escape. */
static const char *known_title(const struct weir_problem *problem)
{
    if (types[problem->type].title != NULL)
        return types[problem->type].title;
    return weir_status_phrase(problem->status);
}

static void put_json_string(struct weir_buffer *json, const char *string)
{
    weir_buffer_put_char(json, '"');
    weir_buffer_put_json(json, weir_text_from(string));
    weir_buffer_put_char(json, '"');
}

static void put_known_title(struct weir_buffer *json, const struct weir_problem *problem)
{
    const char *title = known_title(problem);
    if (title[0] == '\0')
        return;
    weir_buffer_put_string(json, ",\"title\":\"");
    weir_buffer_put_string(json, title);
    weir_buffer_put_char(json, '"');
}

static void put_own_title(struct weir_buffer *json, const char *title)
{
    if (title[0] == '\0')
        return;
    weir_buffer_put_string(json, ",\"title\":");
    put_json_string(json, title);
}

static void put_violated(struct weir_buffer *json, const char *const *violated, size_t count)
{
    weir_buffer_put_string(json, ",\"violated-policies\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            weir_buffer_put_char(json, ',');
        put_json_string(json, violated[i]);
    }
    weir_buffer_put_char(json, ']');
}

void weir_problem_write(const struct weir_problem *problem, struct weir_buffer *json)
{
    weir_buffer_put_string(json, "{\"type\":\"");
    weir_buffer_put_string(json, types[problem->type].uri);
    weir_buffer_put_char(json, '"');
    if (problem->title != NULL)
        put_own_title(json, problem->title);
    else
        put_known_title(json, problem);
    weir_buffer_put_string(json, ",\"status\":");
    weir_buffer_put_number(json, problem->status);
    if (problem->detail != NULL) {
        weir_buffer_put_string(json, ",\"detail\":");
        put_json_string(json, problem->detail);
    }
    if (problem->violated != NULL && problem->violated_count > 0)
        put_violated(json, problem->violated, problem->violated_count);
    weir_buffer_put_char(json, '}');
}
