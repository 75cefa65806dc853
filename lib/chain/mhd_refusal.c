#include "chain/mhd_refusal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Of one thread: what it has refused with last. To make a response costs several times as much as to
 * decide that there will be one. */
struct last {
    struct MHD_Response *response; /* NULL: none */
    char *text;                    /* its lines and its body, as write_text() has them */
    size_t length;
    bool ends_with_thread; /* its thread has been told to let go of it at its end */
};

static _Thread_local struct last last;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_thread_end;
static bool has_key;

static void let_go(void *self)
{
    struct last *ended = self;
    if (ended->response != NULL)
        MHD_destroy_response(ended->response);
    free(ended->text);
    *ended = (struct last){ .response = NULL };
}

static void make_key(void)
{
    has_key = pthread_key_create(&at_thread_end, let_go) == 0;
}

/* A library may be unloaded before the threads that have used it end. */
__attribute__((destructor)) static void delete_key(void)
{
    if (has_key)
        pthread_key_delete(at_thread_end);
}

static bool ends_with_thread(void)
{
    if (last.ends_with_thread)
        return true;
    pthread_once(&once, make_key);
    last.ends_with_thread = has_key && pthread_setspecific(at_thread_end, &last) == 0;
    return last.ends_with_thread;
}

/* Moves past a string and its NUL if `at` has it; NULL: it has another. */
static const char *pass(const char *at, const char *end, const char *string, size_t length)
{
    bool is_same = at != NULL && (size_t)(end - at) > length && memcmp(at, string, length) == 0
                   && at[length] == '\0';
    return is_same ? at + length + 1 : NULL;
}

static bool says_the_same(const struct weir_reply *reply)
{
    if (last.response == NULL)
        return false;
    const char *at = last.text, *end = last.text + last.length;
    for (size_t i = 0; i < reply->line_count; i++) {
        at = pass(at, end, reply->lines[i].name, strlen(reply->lines[i].name));
        at = pass(at, end, reply->lines[i].value, strlen(reply->lines[i].value));
    }
    /* An empty string, which is no name, ends the lines. */
    at = pass(at, end, "", 0);
    return at != NULL && (size_t)(end - at) == reply->body_length
           && memcmp(at, reply->body, reply->body_length) == 0;
}

static char *put(char *at, const char *string)
{
    return (char *)memcpy(at, string, strlen(string) + 1) + strlen(string) + 1;
}

/* Where the body begins in it; NULL: memory ran out. */
static const char *write_text(const struct weir_reply *reply)
{
    size_t length = 1 + reply->body_length;
    for (size_t i = 0; i < reply->line_count; i++)
        length += strlen(reply->lines[i].name) + strlen(reply->lines[i].value) + 2;
    char *at = last.text = malloc(length);
    last.length = length;
    if (at == NULL)
        return NULL;
    for (size_t i = 0; i < reply->line_count; i++)
        at = put(put(at, reply->lines[i].name), reply->lines[i].value);
    at = put(at, "");
    return memcpy(at, reply->body, reply->body_length);
}

struct MHD_Response *weir_refusal_response(const struct weir_reply *reply)
{
    if (says_the_same(reply))
        return last.response;
    bool is_told = ends_with_thread();
    let_go(&last);
    last.ends_with_thread = is_told;
    const char *body = is_told ? write_text(reply) : NULL;
    if (body == NULL)
        return NULL;
    /* Others may still be sending it when this thread lets go of it, so it has a copy of its own. The
     * cast is for a parameter that libmicrohttpd declares without const and does not write to. */
    last.response = MHD_create_response_from_buffer(reply->body_length, (void *)(uintptr_t)body,
                                                    MHD_RESPMEM_MUST_COPY);
    for (size_t i = 0; last.response != NULL && i < reply->line_count; i++)
        MHD_add_response_header(last.response, reply->lines[i].name, reply->lines[i].value);
    return last.response;
}
