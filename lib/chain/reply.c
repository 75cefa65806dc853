/* Replies that the chain builds, and what reply hooks may do to any reply. */
#include <string.h>

#include "chain/request.h"
#include "reply/problem.h"

static bool set_body(struct weir_request *request, unsigned status, const void *bytes,
                     size_t length)
{
    struct weir_reply *reply = &request->reply;
    const char *body = weir_request_copy(request, (struct weir_text){ bytes, length });
    if (body == NULL)
        return false;

    reply->status = status;
    reply->line_count = 0;
    reply->body = body;
    reply->body_length = length;
    return true;
}

bool weir_reply_bytes(struct weir_request *request, unsigned status, const char *content_type,
                      const void *bytes, size_t length)
{
    return set_body(request, status, bytes, length)
           && (content_type == NULL || weir_reply_line(request, "Content-Type", content_type));
}

bool weir_reply_bytes_made(struct weir_request *request, unsigned status, const char *content_type,
                           const void *bytes, size_t length)
{
    return set_body(request, status, bytes, length)
           && weir_reply_line_made(request, "Content-Type", content_type);
}

bool weir_reply_text(struct weir_request *request, unsigned status, const char *text)
{
    return weir_reply_bytes(request, status, "text/plain; charset=utf-8", text, strlen(text));
}

bool weir_reply_json(struct weir_request *request, unsigned status, const char *json)
{
    return weir_reply_bytes(request, status, "application/json", json, strlen(json));
}

bool weir_reply_problem(struct weir_request *request, unsigned status, const char *title,
                        const char *detail)
{
    char memory[1024];
    struct weir_buffer json = weir_buffer_init(memory, sizeof memory);
    const struct weir_problem problem = {
        .type = WEIR_PROBLEM_BLANK, .status = status, .title = title, .detail = detail
    };
    weir_problem_write(&problem, &json);
    const char *text = weir_buffer_string(&json);
    /* Too long a detail is left out rather than cut. */
    if (text == NULL)
        return detail != NULL && weir_reply_problem(request, status, title, NULL);
    return weir_reply_bytes(request, status, "application/problem+json", text, strlen(text));
}

static bool is_name(const char *name)
{
    if (name[0] == '\0')
        return false;
    for (const char *at = name; *at != '\0'; at++)
        if (!weir_is_token_char(*at))
            return false;
    return true;
}

static bool is_value(const char *value)
{
    return value[0] != '\0' && strpbrk(value, "\r\n") == NULL;
}

#define FIRST_LINES 8u

static bool has_line_room(struct weir_request *request, struct weir_reply *reply)
{
    if (reply->line_count < reply->line_room)
        return true;
    if (reply->line_room == WEIR_REPLY_LINES_MAX)
        return false;
    uint32_t room = reply->line_room == 0 ? FIRST_LINES : WEIR_REPLY_LINES_MAX;
    struct weir_reply_line *lines = weir_request_alloc(request, room * sizeof *lines);
    if (lines == NULL)
        return false;
    if (reply->line_count > 0)
        memcpy(lines, reply->lines, reply->line_count * sizeof *lines);
    reply->lines = lines;
    reply->line_room = room;
    return true;
}

static bool add_line(struct weir_request *request, struct weir_reply *reply, const char *name,
                     const char *value)
{
    if (!has_line_room(request, reply))
        return false;
    struct weir_reply_line line = { name, weir_request_copy(request, weir_text_from(value)) };
    if (line.name == NULL || line.value == NULL)
        return false;
    reply->lines[reply->line_count++] = line;
    return true;
}

static bool check_line(struct weir_request *request, struct weir_reply *reply, const char *name,
                       const char *value)
{
    return is_name(name) && is_value(value)
           && add_line(request, reply, weir_request_copy(request, weir_text_from(name)), value);
}

bool weir_reply_line(struct weir_request *request, const char *name, const char *value)
{
    return check_line(request, &request->reply, name, value);
}

bool weir_reply_line_made(struct weir_request *request, const char *name, const char *value)
{
    return add_line(request, &request->reply, name, value);
}

unsigned weir_reply_status(const struct weir_reply *reply)
{
    return reply->status;
}

const char *weir_reply_header(const struct weir_reply *reply, const char *name)
{
    if (reply->header != NULL)
        return reply->response == NULL ? NULL : reply->header(reply->response, name);
    for (size_t i = 0; i < reply->line_count; i++)
        if (weir_text_equal_fold(weir_text_from(reply->lines[i].name), weir_text_from(name)))
            return reply->lines[i].value;
    return NULL;
}

/* A reply that the chain built is part of its request. */
static struct weir_request *request_of(struct weir_reply *reply)
{
    char *start = (char *)reply - offsetof(struct weir_request, reply);
    return (struct weir_request *)(void *)start;
}

bool weir_reply_add(struct weir_reply *reply, const char *name, const char *value)
{
    if (reply->add != NULL)
        return reply->response != NULL && is_name(name) && is_value(value)
               && reply->add(reply->response, name, value);
    return check_line(request_of(reply), reply, name, value);
}

bool weir_reply_add_made(struct weir_reply *reply, const char *name, const char *value)
{
    if (reply->add != NULL)
        return reply->response != NULL && reply->add(reply->response, name, value);
    return add_line(request_of(reply), reply, name, value);
}
