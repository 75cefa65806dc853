/* Refusals as clients see them: a thread sends the response of the last one again if it says the same,
 * and only then. */
#include "test.h"

#include <stdatomic.h>
#include <unistd.h>

#include "client.h"
#include "served.h"

static const char policy_json[] =
    "{\"policies\": {"
    "  \"one\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": \"1/day\","
    "    \"algorithm\": \"fixed-window\"}]},"
    "  \"none\": {\"limits\": [{\"name\": \"b\", \"by\": \"ip\", \"rate\": \"0/day\"}]}},"
    " \"routes\": [{\"match\": \"* /one\", \"policy\": \"one\"},"
    "   {\"match\": \"* /none\", \"policy\": \"none\"},"
    "   {\"match\": \"* /closed\", \"auth\": \"required\"}]}";

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **con_cls)
{
    (void)cls, (void)url, (void)method, (void)version, (void)data, (void)size, (void)con_cls;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(2, (void *)(uintptr_t) "ok", MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

/* Linked with --wrap, to see when a response is made. */
struct MHD_Response *__real_MHD_create_response_from_buffer(size_t size, void *buffer,
                                                            enum MHD_ResponseMemoryMode mode);
struct MHD_Response *__wrap_MHD_create_response_from_buffer(size_t size, void *buffer,
                                                            enum MHD_ResponseMemoryMode mode);

static atomic_uint responses;

struct MHD_Response *__wrap_MHD_create_response_from_buffer(size_t size, void *buffer,
                                                            enum MHD_ResponseMemoryMode mode)
{
    atomic_fetch_add(&responses, 1);
    return __real_MHD_create_response_from_buffer(size, buffer, mode);
}

static struct served served;

static int start(void **state)
{
    (void)state;
    served_start(&served, policy_json, WEIR_APP(.handler = answer),
                 (struct weir_log){ NULL, NULL });
    struct reply reply;
    client_get(served.port, "/one", "", &reply);
    assert_int_equal(reply.status, 200);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    served_free(&served);
    return 0;
}

static const struct {
    const char *path;
    unsigned status;
    const char *type; /* the end of it */
    bool has_retry_after;
    bool has_challenge;
} rows[] = {
    { "/one", 429, "#quota-exceeded\"", true, false },
    { "/none", 429, "#quota-exceeded\"", false, false },
    { "/closed", 401, "about:blank\"", false, true },
};

static void check_row(size_t row, const struct reply *reply)
{
    assert_int_equal(reply->status, rows[row].status);
    assert_non_null(strstr(reply->body, rows[row].type));
    assert_string_equal(reply_header(reply, "Content-Type"), "application/problem+json");
    assert_string_equal(reply_header(reply, "Cache-Control"), "no-store");
    assert_int_equal(reply_header(reply, "Retry-After") != NULL, rows[row].has_retry_after);
    assert_int_equal(reply_header(reply, "WWW-Authenticate") != NULL, rows[row].has_challenge);
}

static void sends_each_refusal_in_its_own_words(void **state)
{
    (void)state;
    for (int n = 0; n < 60; n++) {
        /* Each three times, and then the next. */
        size_t row = (size_t)n / 3 % COUNT_OF(rows);
        struct reply reply;
        client_get(served.port, rows[row].path, "", &reply);
        check_row(row, &reply);
    }
}

/* The first refusals of a second have an id each; then it is a flood. */
#define BEFORE_A_FLOOD 100

static void makes_one_response_for_a_flood(void **state)
{
    (void)state;
    struct reply reply;
    unsigned made = 20;
    /* A second may end in the middle, and then the next one begins anew. */
    for (int tries = 0; tries < 10 && made > 0; tries++) {
        for (int n = 0; n <= BEFORE_A_FLOOD; n++)
            client_get(served.port, "/none", "", &reply);
        atomic_store(&responses, 0);
        for (int n = 0; n < 20; n++)
            client_get(served.port, "/none", "", &reply);
        made = atomic_load(&responses);
    }
    assert_int_equal(made, 0);
    assert_null(reply_header(&reply, "X-Request-Id"));
    client_get(served.port, "/closed", "", &reply);
    assert_int_equal(responses, 1);
}

static void gives_a_refusal_an_id_of_its_own(void **state)
{
    (void)state;
    struct reply reply;
    char ids[2][64] = { "", "" };
    size_t found = 0;
    /* Until a second begins in which it is no flood yet. */
    for (int n = 0; n < 100 * BEFORE_A_FLOOD && found < 2; n++) {
        client_get(served.port, "/none", "", &reply);
        const char *id = reply_header(&reply, "X-Request-Id");
        if (id != NULL)
            snprintf(ids[found++], sizeof ids[0], "%s", id);
    }
    assert_int_equal(found, 2);
    assert_int_equal(strlen(ids[0]), 32);
    assert_string_not_equal(ids[0], ids[1]);
}

static void answers_between_refusals_as_ever(void **state)
{
    (void)state;
    struct reply reply;
    for (int n = 0; n < 4; n++) {
        client_get(served.port, "/one", "", &reply);
        check_row(0, &reply);
        client_get(served.port, "/", "", &reply);
        assert_int_equal(reply.status, 200);
        assert_string_equal(reply.body, "ok");
    }
}

/* Many connections share the response at once, and some end before it is sent. */
static void lets_go_of_no_response_that_is_under_way(void **state)
{
    (void)state;
    static const char request[] = "GET /%s HTTP/1.1\r\nHost: a\r\n\r\n";
    int sockets[40];
    for (size_t i = 0; i < COUNT_OF(sockets); i++) {
        char text[80];
        snprintf(text, sizeof text, request, i % 2 == 0 ? "one" : "none");
        sockets[i] = client_connect(served.port);
        client_send_text(sockets[i], text);
        if (i % 5 == 4)
            close(sockets[i]);
    }
    for (size_t i = 0; i < COUNT_OF(sockets); i++) {
        struct reply reply;
        if (i % 5 == 4)
            continue;
        client_read(sockets[i], false, &reply);
        check_row(i % 2, &reply);
        close(sockets[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends_each_refusal_in_its_own_words),
        cmocka_unit_test(gives_a_refusal_an_id_of_its_own),
        cmocka_unit_test(makes_one_response_for_a_flood),
        cmocka_unit_test(answers_between_refusals_as_ever),
        cmocka_unit_test(lets_go_of_no_response_that_is_under_way),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
