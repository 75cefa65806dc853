/* A wrapped application that says how a login has gone, since its pages are answered 200 either way. */
#include "test.h"

#include <stdatomic.h>

#include "client.h"
#include "served.h"

static const char policy_json[] =
    "{\"secret\": \"s\", \"policies\": {\"login\": {\"limits\": [{\"name\": \"pair\","
    " \"by\": [\"ip\", \"field:username\"], \"rate\": \"3/day\", \"algorithm\": \"sliding-log\","
    " \"count\": \"failures\", \"on_success\": \"reset\"}]}},"
    " \"routes\": [{\"match\": \"* /*\", \"policy\": \"login\"}]}";

static atomic_int said, said_late;

/* "X-Do" holds what it says, in front of the reply or behind it. */
static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *data_size, void **con_cls)
{
    (void)cls, (void)url, (void)method, (void)version, (void)data;
    static char text[] = "a page";
    static int begun;
    if (*con_cls == NULL || *data_size > 0) {
        *con_cls = &begun;
        *data_size = 0;
        return MHD_YES;
    }
    const char *what = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Do");
    struct weir_request *request = weir_request_of(connection);
    enum weir_result result = strstr(what, "wrong") != NULL ? WEIR_FAILED : WEIR_SUCCEEDED;
    if (strstr(what, "behind") == NULL)
        atomic_store(&said, (int)weir_outcome(request, result));
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof text - 1, text, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    if (strstr(what, "behind") != NULL)
        atomic_store(&said, (int)weir_outcome(request, result));
    return queued;
}

static void completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                      enum MHD_RequestTerminationCode toe)
{
    (void)cls, (void)con_cls, (void)toe;
    atomic_store(&said_late, (int)weir_outcome(weir_request_of(connection), WEIR_SUCCEEDED));
}

static unsigned post(uint16_t port, const char *what)
{
    char text[512];
    struct reply reply;
    snprintf(text, sizeof text,
             "POST / HTTP/1.1\r\nHost: t\r\nConnection: close\r\nX-Do: %s\r\nContent-Type: "
             "application/json\r\nContent-Length: 19\r\n\r\n{\"username\": \"ann\"}",
             what);
    int fd = client_connect(port);
    client_send_text(fd, text);
    client_read(fd, false, &reply);
    assert_true(client_sees_end(fd)); /* and has completed, or is about to */
    return reply.status;
}

static void counts_by_what_a_wrapped_handler_says(void **state)
{
    (void)state;
    struct served served;
    served_start(&served, policy_json, WEIR_APP(.handler = answer, .completed = completed),
                 (struct weir_log){ NULL, NULL });
    uint16_t port = served.port;

    static const char *const rounds[] = { "", " behind" };
    for (size_t i = 0; i < COUNT_OF(rounds); i++) {
        char wrong[32], right[32];
        snprintf(wrong, sizeof wrong, "wrong%s", rounds[i]);
        snprintf(right, sizeof right, "right%s", rounds[i]);
        for (int times = 0; times < 3; times++) {
            assert_int_equal(post(port, wrong), 200);
            assert_int_equal(post(port, wrong), 200);
            assert_int_equal(post(port, right), 200);
            assert_int_equal(atomic_load(&said), WEIR_OK);
        }
    }
    for (int times = 0; times < 3; times++)
        assert_int_equal(post(port, "wrong"), 200);
    assert_int_equal(post(port, "right"), 429);

    served_free(&served); /* all that was begun is completed */
    assert_int_equal(atomic_load(&said_late), WEIR_E_STATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(counts_by_what_a_wrapped_handler_says) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
