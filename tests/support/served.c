#include "served.h"

#define DRAIN_MS 10000

static void make_chain(struct served *served, const struct weir_app *app, struct weir_log log)
{
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = served->policy, .log = log),
                                      &served->limiter, NULL),
                     WEIR_OK);
    assert_int_equal(weir_chain_new(WEIR_CHAIN_OPTIONS(.log = log), &served->chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use(served->chain, weir_limit(served->limiter)), WEIR_OK);
    assert_int_equal(weir_chain_serve(served->chain, app), WEIR_OK);
}

void served_start(struct served *served, const char *policy_json, const struct weir_app *app,
                  struct weir_log log)
{
    struct weir_error error = WEIR_NO_ERROR;
    *served = (struct served){ .port = 0 };
    if (weir_policy_parse(policy_json, strlen(policy_json), NULL, &served->policy, &error)
        != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    make_chain(served, app, log);
    served->daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                         weir_access_handler, served->chain, MHD_OPTION_NOTIFY_COMPLETED,
                         weir_request_completed, served->chain, MHD_OPTION_END);
    assert_non_null(served->daemon);
    served->port = MHD_get_daemon_info(served->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

void served_end(struct served *served)
{
    if (served->daemon != NULL)
        weir_stop_daemon(served->chain, served->daemon, DRAIN_MS);
    served->daemon = NULL;
}

void served_free(struct served *served)
{
    served_end(served);
    served->chain = weir_chain_free(served->chain);
    served->limiter = weir_limiter_free(served->limiter);
    served->policy = weir_policy_free(served->policy);
}
