/* A wrapped application that settles what a request cost in its completed callback. */
#include "test.h"

#include <stdatomic.h>

#include "client.h"
#include "served.h"

static const char policy_json[] =
    "{\"policies\": {\"p\": {\"limits\": [{\"name\": \"a\", \"by\": \"global\","
    " \"rate\": \"10/day\", \"algorithm\": \"sliding-log\"}]}},"
    " \"routes\": [{\"match\": \"* /*\", \"policy\": \"p\", \"cost\": 5}]}";

static atomic_int settled = -1;

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *data_size, void **con_cls)
{
    (void)cls, (void)url, (void)method, (void)version, (void)data, (void)data_size, (void)con_cls;
    static char text[] = "done";
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof text - 1, text, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

static void completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                      enum MHD_RequestTerminationCode toe)
{
    (void)cls, (void)con_cls, (void)toe;
    struct weir_request *request = weir_request_of(connection);
    atomic_store(&settled, request == NULL ? WEIR_CODE_COUNT : (int)weir_settle(request, 2));
}

static void settles_in_the_completed_callback(void **state)
{
    (void)state;
    struct served served;
    served_start(&served, policy_json, WEIR_APP(.handler = answer, .completed = completed),
                 (struct weir_log){ NULL, NULL });

    struct reply reply;
    client_get(served.port, "/", "Connection: close\r\n", &reply);
    assert_int_equal(reply.status, 200);
    served_end(&served);
    assert_int_equal(settled, WEIR_OK);
    struct weir_verdict verdict;
    assert_int_equal(
        weir_limiter_peek(served.limiter, WEIR_SUBJECT(.policy = "p"), 1, &verdict, NULL), WEIR_OK);
    assert_int_equal(verdict.quotas[0].remaining, 8);

    served_free(&served);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(settles_in_the_completed_callback) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
