/* A wrapped application that settles what a request cost in its completed callback. */
#include "test.h"

#include <stdatomic.h>

#include <microhttpd.h>
#include <weir/weir.h>

#include "client.h"

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
    struct weir_policy *policy = NULL;
    struct weir_limiter *limiter = NULL;
    struct weir_chain *chain = NULL;
    assert_int_equal(weir_policy_parse(policy_json, strlen(policy_json), NULL, &policy, NULL),
                     WEIR_OK);
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, NULL),
                     WEIR_OK);
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(chain, weir_limit(limiter)), WEIR_OK);
    assert_int_equal(weir_chain_serve(chain, WEIR_APP(.handler = answer, .completed = completed)),
                     WEIR_OK);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                         weir_access_handler, chain, MHD_OPTION_NOTIFY_COMPLETED,
                         weir_request_completed, chain, MHD_OPTION_END);
    assert_non_null(daemon);
    uint16_t port = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port;

    struct reply reply;
    client_get(port, "/", "Connection: close\r\n", &reply);
    assert_int_equal(reply.status, 200);
    weir_stop_daemon(chain, daemon, 5000); /* all that was begun is completed */
    assert_int_equal(settled, WEIR_OK);
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_peek(limiter, WEIR_SUBJECT(.policy = "p"), 1, &verdict, NULL),
                     WEIR_OK);
    assert_int_equal(verdict.quotas[0].remaining, 8);

    weir_chain_free(chain);
    weir_limiter_free(limiter);
    weir_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(settles_in_the_completed_callback) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
