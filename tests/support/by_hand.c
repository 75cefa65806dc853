#include "by_hand.h"

#include "test.h"

#include <arpa/inet.h>
#include <pthread.h>

#define HEADERS_MAX 24

atomic_uint by_hand_suspended, by_hand_resumed;
int by_hand_socket = -1;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t resumed = PTHREAD_COND_INITIALIZER;
static struct weir_request *order[BY_HAND_ORDER_MAX];

static void note_suspend(struct weir_request *request)
{
    (void)request;
    by_hand_suspended++;
}

static void note_resume(struct weir_request *request)
{
    pthread_mutex_lock(&lock);
    if (by_hand_resumed < BY_HAND_ORDER_MAX)
        order[by_hand_resumed] = request;
    by_hand_resumed++;
    pthread_cond_broadcast(&resumed);
    pthread_mutex_unlock(&lock);
}

static int socket_of(const struct weir_request *request)
{
    (void)request;
    return by_hand_socket;
}

static const struct weir_host notebook = { note_suspend, note_resume, socket_of };

void by_hand_reset(void)
{
    by_hand_suspended = by_hand_resumed = 0;
    by_hand_socket = -1;
}

struct weir_request *by_hand_await_resume(unsigned index)
{
    assert_true(index < BY_HAND_ORDER_MAX);
    pthread_mutex_lock(&lock);
    while (by_hand_resumed <= index)
        pthread_cond_wait(&resumed, &lock);
    struct weir_request *request = order[index];
    pthread_mutex_unlock(&lock);
    return request;
}

/* The lines are behind a constant pointer for everybody else. */
static struct weir_line *lines_of(struct weir_request *request)
{
    if (request->facts.headers == NULL) {
        request->facts.headers =
            weir_request_alloc(request, HEADERS_MAX * sizeof *request->facts.headers);
        assert_non_null(request->facts.headers);
    }
    return (struct weir_line *)(uintptr_t)request->facts.headers;
}

struct weir_request *by_hand_request(struct weir_chain *chain, const char *method,
                                     const char *target)
{
    struct weir_request *request = weir_request_new(chain, WEIR_SCRATCH_BYTES);
    assert_non_null(request);
    request->server = &notebook;
    request->method = method;
    request->facts.method = weir_text_from(method);
    request->facts.target = weir_text_from(target);
    request->facts.headers = lines_of(request);
    request->stage = WEIR_STAGE_CHAIN;
    request->in_first_call = false;
    assert_true(weir_request_normalise(request));
    return request;
}

void by_hand_header(struct weir_request *request, const char *name, const char *value)
{
    assert_true(request->facts.header_count < HEADERS_MAX);
    lines_of(request)[request->facts.header_count++] =
        (struct weir_line){ weir_text_from(name), weir_text_from(value) };
}

void by_hand_peer(struct weir_request *request, const char *address)
{
    struct sockaddr_storage *peer = weir_request_alloc(request, sizeof *peer);
    assert_non_null(peer);
    memset(peer, 0, sizeof *peer);
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)peer;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)peer;
    peer->ss_family = AF_INET;
    if (inet_pton(AF_INET, address, &v4->sin_addr) != 1) {
        peer->ss_family = AF_INET6;
        assert_int_equal(inet_pton(AF_INET6, address, &v6->sin6_addr), 1);
    }
    request->facts.peer = (const struct sockaddr *)(const void *)peer;
}

unsigned by_hand_run(struct weir_request *request)
{
    if (weir_run(request) != WEIR_RUN_REPLY)
        return 0;
    weir_run_reply_hooks(request, &request->reply);
    return request->reply.status;
}
