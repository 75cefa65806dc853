/* A wrapped login: its responses get cookies where they are its request's own, and it is told when it
 * is to refuse. */
#include "test.h"

#include <stdatomic.h>

#include <weir/redirect.h>

#include "client.h"
#include "served.h"

static const char policy_json[] =
    "{\"secret\": \"s\", \"instances\": 1, \"policies\": {\"login\": {"
    "  \"known\": {\"account\": \"field:username\", \"secure\": false},"
    "  \"limits\": ["
    "    {\"name\": \"account\", \"by\": \"field:username\", \"rate\": \"2/day\","
    "     \"count\": \"failures\", \"when\": \"unknown\", \"refusal\": \"handler\"},"
    "    {\"name\": \"device\", \"by\": [\"device\", \"field:username\"], \"rate\": \"2/day\","
    "     \"count\": \"failures\", \"when\": \"known\", \"refusal\": \"handler\"}]}},"
    " \"routes\": [{\"match\": \"* /*\", \"policy\": \"login\"}]}";

static struct {
    struct served served;
    struct MHD_Response *shared; /* that all may be answered with */
    atomic_uint errors;          /* lines of the log              */
    atomic_bool was_limited;
} bench;

static void note_line(void *self, enum weir_level level, const char *text)
{
    (void)self;
    if (level == WEIR_ERROR && strstr(text, "weir_request_is_limited()") != NULL)
        atomic_fetch_add(&bench.errors, 1);
}

static bool is_right(struct weir_request *request)
{
    const char *password;
    size_t length;
    return weir_request_field(request, "password", &password, &length) == WEIR_FIELD_FOUND
           && strcmp(password, "right") == 0;
}

/* /shared is answered with a response that is kept; /careless lets in whoever is right. */
static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *data_size, void **con_cls)
{
    (void)cls, (void)method, (void)version, (void)data;
    static char page[] = "a page";
    static int begun;
    if (*con_cls == NULL || *data_size > 0) {
        *con_cls = &begun;
        *data_size = 0;
        return MHD_YES;
    }
    struct weir_request *request = weir_request_of(connection);
    bool is_limited = weir_request_is_limited(request);
    atomic_store(&bench.was_limited, is_limited);
    bool is_in = is_right(request) && (!is_limited || strcmp(url, "/careless") == 0);
    assert_int_equal(weir_outcome(request, is_in ? WEIR_SUCCEEDED : WEIR_FAILED), WEIR_OK);
    if (strcmp(url, "/shared") == 0)
        return MHD_queue_response(connection, MHD_HTTP_OK, bench.shared);
    struct MHD_Response *made =
        MHD_create_response_from_buffer(sizeof page - 1, page, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, made);
    MHD_destroy_response(made);
    return queued;
}

static int set_up(void **state)
{
    (void)state;
    static char text[] = "kept";
    const struct weir_log log = { note_line, NULL };
    memset(&bench, 0, sizeof bench);
    bench.shared = MHD_create_response_from_buffer(4, text, MHD_RESPMEM_PERSISTENT);
    served_start(&bench.served, policy_json, WEIR_APP(.handler = answer), log);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    served_free(&bench.served);
    MHD_destroy_response(bench.shared);
    return 0;
}

/* Posts a login, and returns the cookie that came with the answer; NULL: none did. */
static const char *post(const char *path, const char *password, const char *cookie)
{
    static struct reply reply;
    char text[1024], body[100];
    int length = snprintf(body, sizeof body, "username=ann&password=%s", password);
    snprintf(text, sizeof text,
             "POST %s HTTP/1.1\r\nHost: t\r\nConnection: close\r\nCookie: %s\r\nContent-Type: "
             "application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
             path, cookie, length, body);
    int fd = client_connect(bench.served.port);
    client_send_text(fd, text);
    client_read(fd, false, &reply);
    assert_true(client_sees_end(fd));
    assert_int_equal(reply.status, 200);
    return reply_header(&reply, "Set-Cookie");
}

static void adds_cookies_to_responses_of_one_request_only(void **state)
{
    (void)state;
    assert_null(post("/", "wrong", ""));
    assert_null(post("/shared", "right", ""));
    assert_null(MHD_get_response_header(bench.shared, "Set-Cookie"));
    const char *cookie = post("/", "right", "");
    assert_non_null(cookie);
    assert_memory_equal(cookie, "weir_known_", 11);
}

static void tells_a_handler_that_it_is_to_refuse(void **state)
{
    (void)state;
    char cookie[512];
    const char *set = post("/", "right", "");
    assert_non_null(set);
    snprintf(cookie, sizeof cookie, "%.*s", (int)strcspn(set, ";"), set);
    for (int i = 0; i < 3; i++) {
        assert_null(post("/", "wrong", ""));
        assert_int_equal(atomic_load(&bench.was_limited), i == 2);
    }
    assert_null(post("/", "right", ""));
    assert_true(atomic_load(&bench.was_limited));
    assert_int_equal(atomic_load(&bench.errors), 0);
    assert_null(post("/", "right", cookie)); /* which is known, and has one */
    assert_false(atomic_load(&bench.was_limited));
}

static void complains_of_a_handler_that_lets_in_all_the_same(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        post("/", "wrong", "");
    assert_null(post("/careless", "right", "")); /* and its client is not known for that */
    assert_int_equal(atomic_load(&bench.errors), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(adds_cookies_to_responses_of_one_request_only),
        TEST(tells_a_handler_that_it_is_to_refuse),
        TEST(complains_of_a_handler_that_lets_in_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
