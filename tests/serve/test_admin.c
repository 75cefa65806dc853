/* The admin API under a server: its thread and its queue, and where it may be served. */
#include "test.h"

#include <netinet/in.h>
#include <pthread.h>
#include <unistd.h>

#include <weir/weir.h>

#include "client.h"
#include "kept_log.h"

#include "admin/admin.h"
#include "store/store.h"

static const char policy_json[] =
    "{\"policies\": {\"api\": {\"limits\": [{\"name\": \"burst\", \"by\": \"ip\", \"rate\":"
    " \"5/hour\"}]}}, \"default\": \"api\"}";

#define TOKEN "0123456789abcdef"

/* a store that answers when it is told to */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_open;
    unsigned held; /* submitted while it was shut, and so many were not let go yet */
} gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, true, 0 };

static void set_gate(bool is_open)
{
    pthread_mutex_lock(&gate.mutex);
    gate.is_open = is_open;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mutex);
}

static void await_held(unsigned count)
{
    pthread_mutex_lock(&gate.mutex);
    while (gate.held != count)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    pthread_mutex_unlock(&gate.mutex);
}

/* On the thread that asks, which is the one that is to be held up. */
static void submit(void *self, struct weir_check *check)
{
    struct weir_store *inner = self;
    pthread_mutex_lock(&gate.mutex);
    gate.held++;
    pthread_cond_broadcast(&gate.changed);
    while (!gate.is_open)
        pthread_cond_wait(&gate.changed, &gate.mutex);
    gate.held--;
    pthread_mutex_unlock(&gate.mutex);
    inner->type->submit(inner->self, check);
}

static void free_inner(void *self)
{
    weir_store_free(self);
}

static const struct weir_store_type gated = { .size = sizeof(struct weir_store_type),
                                              .name = "gated",
                                              .answers_inline = true,
                                              .submit = submit,
                                              .free = free_inner,
                                              .exchanges = true };

/* a server */

struct served {
    struct weir_policy *policy;
    struct weir_store *store;
    struct weir_limiter *limiter;
    struct weir_admin *admin;
    struct weir_chain *chain;
    struct weir_server *server;
    uint16_t port;
};

static void make(struct served *served, const char *token)
{
    struct weir_store *inner = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    *served = (struct served){ .port = 0 };
    assert_int_equal(
        weir_policy_parse(policy_json, strlen(policy_json), NULL, &served->policy, NULL), WEIR_OK);
    assert_int_equal(weir_store_open("memory:", NULL, &inner, NULL), WEIR_OK);
    assert_int_equal(weir_store_new(&gated, inner, &served->store, NULL), WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = served->policy, .store = served->store),
                         &served->limiter, NULL),
        WEIR_OK);
    if (weir_admin_new(
            WEIR_ADMIN_OPTIONS(.limiter = served->limiter, .token = token, .log = kept_log()),
            &served->admin, &error)
        != WEIR_OK)
        fail_msg("%s", error.text);
    assert_int_equal(weir_chain_new(NULL, &served->chain, NULL), WEIR_OK);
    assert_int_equal(weir_chain_use_at(served->chain, "/ops", weir_admin_guard(served->admin)),
                     WEIR_OK);
    assert_int_equal(weir_chain_use_at(served->chain, "/admin", weir_admin(served->admin)),
                     WEIR_OK);
    assert_int_equal(weir_chain_use(served->chain, weir_limit(served->limiter)), WEIR_OK);
}

static void serve(struct served *served)
{
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_serve(served->chain, NULL, &served->server, &error) != WEIR_OK)
        fail_msg("%s", error.text);
    served->port = weir_server_port(served->server);
}

static void finish(struct served *served)
{
    weir_server_stop(served->server, 10000);
    weir_chain_free(served->chain);
    weir_admin_free(served->admin);
    weir_limiter_free(served->limiter);
    weir_store_free(served->store);
    weir_policy_free(served->policy);
}

/* requests */

static const char look[] = "GET /admin/key?policy=api&ip=192.0.2.1 HTTP/1.1\r\n"
                           "Host: localhost\r\nConnection: close\r\n\r\n";

static int ask(const struct served *served)
{
    int fd = client_connect(served->port);
    client_send_text(fd, look);
    return fd;
}

static unsigned answer_of(int fd)
{
    struct reply reply;
    client_read(fd, false, &reply);
    close(fd);
    return reply.status;
}

static void await_parked(const struct served *served, uint32_t count)
{
    while (weir_chain_parked(served->chain) < count)
        usleep(1000);
}

/* One is under way and all others wait: there is no room for one more. */
static void turns_away_who_would_wait_too_long(void **state)
{
    (void)state;
    struct served served;
    struct reply reply;
    int fds[WEIR_ADMIN_QUEUE_MAX + 1];
    make(&served, NULL);
    serve(&served);
    set_gate(false);
    fds[0] = ask(&served);
    await_held(1);
    for (size_t i = 1; i < COUNT_OF(fds); i++)
        fds[i] = ask(&served);
    await_parked(&served, COUNT_OF(fds));
    client_get(served.port, "/admin/key?policy=api&ip=192.0.2.1", "", &reply);
    assert_int_equal(reply.status, 403); /* the client's Host is no name of this machine */
    int fd = ask(&served);
    client_read(fd, false, &reply);
    close(fd);
    assert_int_equal(reply.status, 503);
    assert_string_equal(reply_header(&reply, "Retry-After"), "1");
    fd = client_connect(served.port); /* what waits for nothing goes on */
    client_send_text(fd,
                     "GET /admin/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client_read(fd, false, &reply);
    close(fd);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "\"parked\":33"));
    set_gate(true);
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        assert_int_equal(answer_of(fds[i]), 200);
    finish(&served);
}

/* The thread still has the first job when the request that it was for has ended. */
static void answers_those_that_wait_when_the_server_stops(void **state)
{
    (void)state;
    struct served served;
    int fds[5];
    make(&served, NULL);
    serve(&served);
    set_gate(false);
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        fds[i] = ask(&served);
    await_held(1);
    await_parked(&served, COUNT_OF(fds));
    assert_true(weir_server_stop(served.server, 10000));
    served.server = NULL;
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        assert_int_equal(answer_of(fds[i]), 503);
    set_gate(true);
    finish(&served);
}

static void is_freed_without_a_chain(void **state)
{
    (void)state;
    struct served served;
    make(&served, TOKEN);
    served.chain = weir_chain_free(served.chain);
    finish(&served);
}

/* where it may be served */

static enum weir_code check_daemon(const struct served *served, in_addr_t where,
                                   struct weir_error *error)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    address.sin_addr.s_addr = htonl(where);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
        weir_access_handler, served->chain, MHD_OPTION_SOCK_ADDR, &address,
        MHD_OPTION_NOTIFY_COMPLETED, weir_request_completed, served->chain, MHD_OPTION_END);
    assert_non_null(daemon);
    enum weir_code code = weir_chain_check(served->chain, daemon, error);
    MHD_stop_daemon(daemon);
    return code;
}

static void is_not_served_to_others_without_a_token(void **state)
{
    (void)state;
    const struct {
        const char *when, *token;
        in_addr_t where;
        enum weir_code want;
    } rows[] = {
        { "open, to this machine", NULL, INADDR_LOOPBACK, WEIR_OK },
        { "open, to everybody", NULL, INADDR_ANY, WEIR_E_VALUE },
        { "with a token, to everybody", TOKEN, INADDR_ANY, WEIR_OK },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct served served;
        struct weir_error error = WEIR_NO_ERROR;
        make(&served, rows[i].token);
        assert_int_equal(check_daemon(&served, rows[i].where, &error), rows[i].want);
        const char *address = rows[i].where == INADDR_ANY ? "::" : "127.0.0.1";
        struct weir_error again = WEIR_NO_ERROR;
        enum weir_code code = weir_serve(served.chain, WEIR_SERVE_OPTIONS(.address = address),
                                         &served.server, &again);
        assert_int_equal(code, rows[i].want);
        if (code != WEIR_OK)
            assert_non_null(strstr(error.text, "0.0.0.0"));
        finish(&served);
    }
}

/* the guard */

static void guards_what_else_is_not_for_the_public(void **state)
{
    (void)state;
    struct served served;
    struct reply reply;
    make(&served, TOKEN);
    serve(&served);
    client_get(served.port, "/ops/anything", "", &reply);
    assert_int_equal(reply.status, 401);
    assert_non_null(reply_header(&reply, "WWW-Authenticate"));
    client_get(served.port, "/ops/anything", "Authorization: Bearer " TOKEN "\r\n", &reply);
    assert_int_equal(reply.status, 404); /* passed on, to nobody */
    finish(&served);
}

/* Nobody tries again after them, and only the first is told at once. */
static void tells_of_all_that_tried_tokens(void **state)
{
    (void)state;
    struct served served;
    struct reply reply;
    make(&served, TOKEN);
    served.admin->attempts.pause_us = 2000000;
    serve(&served);
    kept_forget();
    for (size_t i = 0; i < 6; i++) {
        client_get(served.port, "/admin/health", "Authorization: Bearer wrong\r\n", &reply);
        assert_int_equal(reply.status, 401);
    }
    kept_wait_for("1 time since the last such line");
    kept_wait_for("5 times since the last such line");
    finish(&served);
}

/* options */

static void refuses_options_that_make_no_sense(void **state)
{
    (void)state;
    struct served served;
    struct weir_admin *admin = NULL;
    char long_token[600];
    memset(long_token, 'a', sizeof long_token - 1);
    long_token[sizeof long_token - 1] = '\0';
    make(&served, TOKEN);
    const struct {
        const char *when, *token;
        struct weir_limiter *limiter;
        enum weir_code want;
    } rows[] = {
        { "no limiter", TOKEN, NULL, WEIR_E_ARGUMENT },
        { "one character too few", "0123456789abcde", served.limiter, WEIR_E_VALUE },
        { "too long a token", long_token, served.limiter, WEIR_E_VALUE },
        { "a blank in it", "01234567 89abcdef", served.limiter, WEIR_E_VALUE },
        { "a line break in it", "0123456789abcdef\n", served.limiter, WEIR_E_VALUE },
        { "no ASCII", "0123456789abcd\xC3\xA9", served.limiter, WEIR_E_VALUE },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_error error = WEIR_NO_ERROR;
        assert_int_equal(
            weir_admin_new(WEIR_ADMIN_OPTIONS(.limiter = rows[i].limiter, .token = rows[i].token),
                           &admin, &error),
            rows[i].want);
        assert_string_not_equal(error.text, "");
        assert_null(strstr(error.text, "0123456")); /* no token in an error */
        assert_null(admin);
    }
    assert_null(weir_admin_free(NULL));
    finish(&served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_away_who_would_wait_too_long),
        cmocka_unit_test(answers_those_that_wait_when_the_server_stops),
        cmocka_unit_test(is_freed_without_a_chain),
        cmocka_unit_test(is_not_served_to_others_without_a_token),
        cmocka_unit_test(guards_what_else_is_not_for_the_public),
        cmocka_unit_test(tells_of_all_that_tried_tokens),
        cmocka_unit_test(refuses_options_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
