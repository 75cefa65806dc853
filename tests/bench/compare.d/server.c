/* The libmicrohttpd handler that tests/bench/compare measures, bare and behind weir.
 *
 *     compare_server PORT BODY [POLICY [store-thread]]
 *
 * Answers every request with the bytes of the file BODY, from one thread with epoll, until SIGTERM.
 * With POLICY, weir stands in front of the very same handler; requests wait for Redis in place, or
 * suspended while the store's thread asks. */
#include <weir/weir.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct body {
    char bytes[65536];
    size_t length;
};

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload_data,
                              size_t *upload_data_size, void **con_cls)
{
    (void)url, (void)method, (void)version, (void)upload_data, (void)upload_data_size;
    static int seen;
    if (*con_cls == NULL) {
        *con_cls = &seen; /* a reply to the first call would close the connection */
        return MHD_YES;
    }
    struct body *body = cls;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body->length, body->bytes, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result queued = weir_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

static bool read_body(const char *path, struct body *body)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return false;
    }
    body->length = fread(body->bytes, 1, sizeof body->bytes, file);
    fclose(file);
    return true;
}

/* The chain, its limiter and its policy live as long as the process. */
static struct weir_chain *make_chain(const char *path, enum weir_wait_mode waiting,
                                     struct body *body)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    struct weir_limiter *limiter = NULL;
    struct weir_chain *chain = NULL;
    if (weir_policy_load(path, &policy, &error) == WEIR_OK
        && weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, &error) == WEIR_OK
        && weir_chain_new(WEIR_CHAIN_OPTIONS(.waiting = waiting), &chain, &error) == WEIR_OK
        && weir_chain_use(chain, weir_limit(limiter)) == WEIR_OK
        && weir_chain_serve(chain, WEIR_APP(.handler = answer, .handler_cls = body)) == WEIR_OK)
        return chain;
    fprintf(stderr, "%s: %s %s\n", path, error.path, error.text);
    return NULL;
}

static struct MHD_Daemon *start_daemon(uint16_t port, struct weir_chain *chain, struct body *body)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons(port),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    if (chain == NULL)
        return MHD_start_daemon(flags, 0, NULL, NULL, answer, body, MHD_OPTION_SOCK_ADDR, &address,
                                MHD_OPTION_END);
    return MHD_start_daemon(flags, 0, NULL, NULL, weir_access_handler, chain,
                            MHD_OPTION_NOTIFY_COMPLETED, weir_request_completed, chain,
                            MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_END);
}

static struct MHD_Daemon *start(uint16_t port, struct weir_chain *chain, struct body *body)
{
    struct MHD_Daemon *daemon = start_daemon(port, chain, body);
    struct weir_error error = WEIR_NO_ERROR;
    if (daemon != NULL && chain != NULL && weir_chain_check(chain, daemon, &error) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.text);
        return NULL;
    }
    return daemon;
}

static void stop(struct MHD_Daemon *daemon, struct weir_chain *chain)
{
    if (chain == NULL)
        MHD_stop_daemon(daemon);
    else
        weir_stop_daemon(chain, daemon, 1000);
}

int main(int count, char **arguments)
{
    static struct body body;
    if (count < 3 || count > 5) {
        fputs("usage: compare_server PORT BODY [POLICY [store-thread]]\n", stderr);
        return 2;
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    struct weir_chain *chain = NULL;
    enum weir_wait_mode waiting = count == 5 ? WEIR_WAIT_STORE_THREAD : WEIR_WAIT_IN_PLACE;
    if (!read_body(arguments[2], &body)
        || (count > 3 && (chain = make_chain(arguments[3], waiting, &body)) == NULL))
        return 1;
    struct MHD_Daemon *daemon = start((uint16_t)atoi(arguments[1]), chain, &body);
    if (daemon == NULL)
        return 1;
    int number;
    sigwait(&signals, &number);
    stop(daemon, chain);
    return 0;
}
